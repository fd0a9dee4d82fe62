/* The stand-in's libcublasLt.so.12: plain products, pushed to a stream as the library's are. */
#include "ops/cuda/blas.h"
#include "standin/standin.h"

#include <string.h>
#include <sys/mman.h>

#define GY_X(member, symbol, parameters)                                                       \
    STANDIN_EXPORT int standin_blas_##member parameters __asm__(symbol);
#include "ops/cuda/blas.def"
#undef GY_X

static const gy_cuda_blas_symbols symbols = {
#define GY_X(member, symbol, parameters) .member = symbol,
#include "ops/cuda/blas.def"
#undef GY_X
};

enum { THINGS_MAX = 4096, INVALID_VALUE = 7, WORKSPACE_BYTES = 4096 };

struct gy_cuda_blas_handle {
    bool is_alive;
};
struct gy_cuda_blas_desc {
    bool is_alive;
    int compute, scale;
    int32_t transposed[2], epilogue, scalars; /* the latter: 1 on the device */
    gy_cuda_address bias;
};
struct gy_cuda_blas_layout {
    bool is_alive;
    int type;
    int64_t rows, columns, leading, stride;
    int32_t batch;
};
struct gy_cuda_blas_preference {
    bool is_alive;
    uint64_t workspace_bytes;
};

static gy_cuda_blas_handle handles[8];
static gy_cuda_blas_desc descs[THINGS_MAX];
static gy_cuda_blas_layout layouts[THINGS_MAX];
static gy_cuda_blas_preference preferences[8];

/* Take a free place of a table for *out, which becomes `made`. */
#define MAKE(table, out, ...)                                                                  \
    do {                                                                                       \
        size_t at_ = 0;                                                                        \
        while (at_ < GY_COUNT(table) && (table)[at_].is_alive) {                               \
            at_++;                                                                             \
        }                                                                                      \
        if (at_ == GY_COUNT(table)) {                                                          \
            return GY_CUDA_BLAS_OUT_OF_MEMORY;                                                 \
        }                                                                                      \
        (table)[at_] = (__typeof__((table)[0])){.is_alive = true, __VA_ARGS__};                \
        *(out) = &(table)[at_];                                                                \
        standin_count_live(1);                                                                 \
        return 0;                                                                              \
    } while (0)
#define IS_ONE(table, it)                                                                      \
    ((it) >= (table) && (it) < (table) + GY_COUNT(table) && (it)->is_alive)
#define END(table, it, symbol)                                                                 \
    do {                                                                                       \
        if (!IS_ONE(table, it)) {                                                              \
            return refuse(symbol, "it was given back, or never made");                         \
        }                                                                                      \
        (it)->is_alive = false;                                                                \
        standin_count_live(-1);                                                                \
        return 0;                                                                              \
    } while (0)

static int refuse(const char *symbol, const char *what)
{
    standin_complain("%s: %s", symbol, what);
    return INVALID_VALUE;
}

static int make_handle(gy_cuda_blas_handle **handle)
{
    MAKE(handles, handle, );
}

static int end_handle(gy_cuda_blas_handle *handle)
{
    END(handles, handle, symbols.destroy);
}

static int make_desc(gy_cuda_blas_desc **desc, int compute, int scale)
{
    const bool is_64 = compute == GY_CUDA_COMPUTE_64 && scale == GY_CUDA_REAL_64;
    const bool is_32 = (compute == GY_CUDA_COMPUTE_32 || compute == GY_CUDA_COMPUTE_TF32) &&
                       scale == GY_CUDA_REAL_32;
    if (!is_64 && !is_32) {
        return refuse(symbols.desc_create, "unknown types");
    }
    MAKE(descs, desc, .compute = compute, .scale = scale);
}

static int set_desc(gy_cuda_blas_desc *desc, int attribute, const void *value,
                    size_t size_bytes)
{
    if (IS_ONE(descs, desc) && attribute == GY_CUDA_DESC_EPILOGUE &&
        size_bytes == sizeof(desc->epilogue)) {
        memcpy(&desc->epilogue, value, size_bytes);
        const int most = GY_CUDA_EPILOGUE_BIAS + GY_CUDA_EPILOGUE_RELU;
        return desc->epilogue > 0 && desc->epilogue <= most && desc->epilogue % 2 == 0
                   ? 0
                   : refuse(symbols.desc_set, "unknown epilogue");
    }
    if (IS_ONE(descs, desc) && attribute == GY_CUDA_DESC_BIAS &&
        size_bytes == sizeof(desc->bias)) {
        memcpy(&desc->bias, value, size_bytes);
        return 0;
    }
    const bool is_known = attribute == GY_CUDA_DESC_SCALARS ||
                          attribute == GY_CUDA_DESC_TRANSPOSE_A ||
                          attribute == GY_CUDA_DESC_TRANSPOSE_B;
    if (!IS_ONE(descs, desc) || !is_known || size_bytes != sizeof(int32_t)) {
        return refuse(symbols.desc_set, "unknown attribute or size");
    }
    int32_t *to = attribute == GY_CUDA_DESC_SCALARS
                      ? &desc->scalars
                      : &desc->transposed[attribute == GY_CUDA_DESC_TRANSPOSE_B];
    memcpy(to, value, sizeof(*to));
    return *to == 0 || *to == 1 ? 0 : refuse(symbols.desc_set, "unknown operation");
}

static int end_desc(gy_cuda_blas_desc *desc)
{
    END(descs, desc, symbols.desc_destroy);
}

static int make_layout(gy_cuda_blas_layout **layout, int type, const int64_t sizes[3])
{
    if ((type != GY_CUDA_REAL_32 && type != GY_CUDA_REAL_64 && type != GY_CUDA_REAL_16 &&
         type != GY_CUDA_BRAIN_16) ||
        sizes[0] < 1 || sizes[1] < 1 || sizes[2] < sizes[0]) {
        return refuse(symbols.layout_create, "unknown type, or columns that overlap");
    }
    MAKE(layouts, layout, .type = type, .rows = sizes[0], .columns = sizes[1],
         .leading = sizes[2], .batch = 1);
}

static int set_layout(gy_cuda_blas_layout *layout, int attribute, const void *value,
                      size_t size_bytes)
{
    if (IS_ONE(layouts, layout) && attribute == GY_CUDA_LAYOUT_BATCH &&
        size_bytes == sizeof(layout->batch)) {
        memcpy(&layout->batch, value, size_bytes);
        return 0;
    }
    if (IS_ONE(layouts, layout) && attribute == GY_CUDA_LAYOUT_BATCH_STRIDE &&
        size_bytes == sizeof(layout->stride)) {
        memcpy(&layout->stride, value, size_bytes);
        return 0;
    }
    return refuse(symbols.layout_set, "unknown attribute or size");
}

static int end_layout(gy_cuda_blas_layout *layout)
{
    END(layouts, layout, symbols.layout_destroy);
}

static int make_preference(gy_cuda_blas_preference **preference)
{
    MAKE(preferences, preference, );
}

static int set_preference(gy_cuda_blas_preference *preference, int attribute, const void *value,
                          size_t size_bytes)
{
    if (IS_ONE(preferences, preference) && attribute >= GY_CUDA_PREFERENCE_ALIGNMENT_A &&
        attribute < GY_CUDA_PREFERENCE_ALIGNMENT_A + 4 && size_bytes == sizeof(uint32_t)) {
        return 0;
    }
    if (!IS_ONE(preferences, preference) || attribute != GY_CUDA_PREFERENCE_WORKSPACE ||
        size_bytes != sizeof(uint64_t)) {
        return refuse(symbols.preference_set, "unknown attribute or size");
    }
    memcpy(&preference->workspace_bytes, value, size_bytes);
    return 0;
}

static int end_preference(gy_cuda_blas_preference *preference)
{
    END(preferences, preference, symbols.preference_destroy);
}

/* ---- products ---- */

/* A product as it waits in a stream. */
typedef struct product {
    gy_cuda_blas_layout a, b, c;
    bool a_transposed, b_transposed;
    double alpha, beta;
    bool has_relu, rounds;             /* operands to TF32 */
    int scale;                         /* of alpha and beta, where they are read late */
    gy_cuda_address alpha_at, beta_at; /* 0: read when the call was made */
    gy_cuda_address a_at, b_at, c_at, d_at, bias_at; /* bias_at 0: none */
} product;

static float from_16(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = (bits >> 10) & 31;
    uint32_t fraction = bits & 1023, wide = sign;
    if (exponent == 31) {
        wide |= 0x7f800000u | fraction << 13;
    } else if (exponent != 0) {
        wide |= (exponent + 112) << 23 | fraction << 13;
    } else if (fraction != 0) { /* subnormal */
        const float value = (float)fraction * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    float value;
    memcpy(&value, &wide, sizeof(value));
    return value;
}

static size_t bytes_of(int type)
{
    return type == GY_CUDA_REAL_64 ? 8 : type == GY_CUDA_REAL_32 ? 4 : 2;
}

static double load(int type, gy_cuda_address at, int64_t index)
{
    const char *from = (const char *)(uintptr_t)at + (size_t)index * bytes_of(type);
    uint16_t half;
    uint32_t wide;
    float single;
    double value;
    switch (type) {
    case GY_CUDA_REAL_64:
        memcpy(&value, from, sizeof(value));
        return value;
    case GY_CUDA_REAL_32:
        memcpy(&single, from, sizeof(single));
        return (double)single;
    case GY_CUDA_REAL_16:
        memcpy(&half, from, sizeof(half));
        return (double)from_16(half);
    default:
        memcpy(&half, from, sizeof(half));
        wide = (uint32_t)half << 16;
        memcpy(&single, &wide, sizeof(single));
        return (double)single;
    }
}

static void store(const gy_cuda_blas_layout *c, gy_cuda_address at, int64_t index, double value)
{
    char *to = (char *)(uintptr_t)at + (size_t)index * bytes_of(c->type); // NOLINT
    const float single = (float)value;
    memcpy(to, c->type == GY_CUDA_REAL_64 ? (const void *)&value : (const void *)&single,
           bytes_of(c->type));
}

/* To 10 bits behind the leading one, ties to even. */
static double to_tf32(double value)
{
    const float single = (float)value;
    uint32_t bits;
    float rounded;
    memcpy(&bits, &single, sizeof(bits));
    bits += 0xfff + (bits >> 13 & 1);
    bits &= ~UINT32_C(0x1fff);
    memcpy(&rounded, &bits, sizeof(rounded));
    return (double)rounded;
}

/* The race detector looks at what calls a product: within it threads share nothing. */
#define PLAIN __attribute__((no_sanitize("thread")))

/* An operand as numbers: of each of k the values that are multiplied, side by side. */
PLAIN static void spread(const product *p, const gy_cuda_blas_layout *of, gy_cuda_address at,
                         bool is_turned, double *out)
{
    const int64_t k = is_turned ? of->rows : of->columns;
    const int64_t count = is_turned ? of->columns : of->rows;
    for (int64_t l = 0; l < k; l++) {
        for (int64_t i = 0; i < count; i++) {
            const double value =
                load(of->type, at, is_turned ? l + i * of->leading : i + l * of->leading);
            out[l * count + i] = p->rounds ? to_tf32(value) : value;
        }
    }
}

/* One of a batch, column by column: each sum in the order of k. */
PLAIN static void multiply_one(const product *p, int64_t k, int64_t n, double *work)
{
    const int64_t rows = p->c.rows, columns = p->c.columns;
    const gy_cuda_address c = p->c_at + (uint64_t)(n * p->c.stride) * bytes_of(p->c.type);
    const gy_cuda_address d = p->d_at + (uint64_t)(n * p->c.stride) * bytes_of(p->c.type);
    double *a = work, *b = a + rows * k, *sums = b + columns * k;
    spread(p, &p->a, p->a_at + (uint64_t)(n * p->a.stride) * bytes_of(p->a.type),
           p->a_transposed, a);
    spread(p, &p->b, p->b_at + (uint64_t)(n * p->b.stride) * bytes_of(p->b.type),
           !p->b_transposed, b);
    for (int64_t j = 0; j < columns; j++) {
        memset(sums, 0, (size_t)rows * sizeof(*sums));
        for (int64_t l = 0; l < k; l++) {
            const double factor = b[l * columns + j];
            for (int64_t i = 0; i < rows; i++) {
                sums[i] += a[l * rows + i] * factor;
            }
        }
        for (int64_t i = 0; i < rows; i++) {
            const int64_t at = i + j * p->c.leading;
            const double sum = p->alpha * sums[i] +
                               (p->beta != 0 ? p->beta * load(p->c.type, c, at) : 0) +
                               (p->bias_at != 0 ? load(p->c.type, p->bias_at, i) : 0);
            store(&p->c, d, at, p->has_relu && sum < 0 ? 0 : sum);
        }
    }
}

static void multiply(const void *arguments)
{
    product p;
    memcpy(&p, arguments, sizeof(p));
    const int64_t k = p.a_transposed ? p.a.rows : p.a.columns;
    if (p.alpha_at != 0) {
        p.alpha = load(p.scale, p.alpha_at, 0);
        p.beta = load(p.scale, p.beta_at, 0);
    }
    const size_t bytes =
        ((size_t)((p.c.rows + p.c.columns) * k + p.c.rows) + 1) * sizeof(double);
    double *work =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (work == MAP_FAILED) {
        standin_complain("%s: no memory for %zu bytes", symbols.matmul, bytes);
        return;
    }
    for (int64_t n = 0; n < p.c.batch; n++) {
        multiply_one(&p, k, n, work);
    }
    (void)munmap(work, bytes);
}

static bool fits(const gy_cuda_blas_desc *desc, const gy_cuda_blas_layout *a,
                 const gy_cuda_blas_layout *b, const gy_cuda_blas_layout *c)
{
    if (!IS_ONE(descs, desc) || !IS_ONE(layouts, a) || !IS_ONE(layouts, b) ||
        !IS_ONE(layouts, c)) {
        return false;
    }
    const bool ta = desc->transposed[0] == 1, tb = desc->transposed[1] == 1;
    return (ta ? a->columns : a->rows) == c->rows &&
           (tb ? b->rows : b->columns) == c->columns &&
           (ta ? a->rows : a->columns) == (tb ? b->columns : b->rows) && a->type == b->type &&
           a->batch == c->batch && b->batch == c->batch &&
           c->type == (a->type == GY_CUDA_REAL_64 ? GY_CUDA_REAL_64 : GY_CUDA_REAL_32) &&
           (desc->compute == GY_CUDA_COMPUTE_64) == (a->type == GY_CUDA_REAL_64);
}

static int choose(const gy_cuda_blas_preference *preference, bool is_product, int wanted,
                  gy_cuda_blas_choice *choices, int *found)
{
    if (!IS_ONE(preferences, preference) || !is_product || wanted != 1) {
        return refuse(symbols.heuristic, "no product");
    }
    choices[0] = (gy_cuda_blas_choice){
        .algorithm = {{WORKSPACE_BYTES}},
        .workspace_bytes = GY_MIN(preference->workspace_bytes, (uint64_t)WORKSPACE_BYTES)};
    *found = 1;
    return 0;
}

/* The bytes of all matrices of a layout. */
static standin_range range_of(const gy_cuda_blas_layout *of, gy_cuda_address at, bool writes)
{
    const int64_t last = (of->columns - 1) * of->leading + of->rows;
    return (standin_range){
        at, (size_t)(last + (of->batch - 1) * of->stride) * bytes_of(of->type), writes};
}

static int push(const gy_cuda_blas_desc *desc, product *p, const standin_range *workspace,
                gy_cuda_stream *stream)
{
    if (workspace->size_bytes > WORKSPACE_BYTES) {
        return refuse(symbols.matmul, "more workspace than was asked for");
    }
    p->a_transposed = desc->transposed[0] == 1;
    p->b_transposed = desc->transposed[1] == 1;
    standin_range ranges[8] = {range_of(&p->a, p->a_at, false), range_of(&p->b, p->b_at, false),
                               range_of(&p->c, p->d_at, true)};
    int count = 3;
    if (p->c_at != p->d_at) {
        ranges[count++] = range_of(&p->c, p->c_at, false);
    }
    if (p->alpha_at != 0) {
        ranges[count++] = (standin_range){p->alpha_at, bytes_of(p->scale), false};
        ranges[count++] = (standin_range){p->beta_at, bytes_of(p->scale), false};
    }
    if (desc->epilogue >= GY_CUDA_EPILOGUE_BIAS) {
        p->bias_at = desc->bias;
        ranges[count++] =
            (standin_range){desc->bias, (size_t)p->c.rows * bytes_of(p->c.type), false};
    }
    if (workspace->size_bytes > 0) {
        ranges[count++] = *workspace;
    }
    p->rounds = desc->compute == GY_CUDA_COMPUTE_TF32;
    p->has_relu = desc->epilogue % 4 == GY_CUDA_EPILOGUE_RELU;
    const standin_call call = {symbols.matmul, multiply, p, sizeof(*p)};
    const int code = standin_push_call(stream, &call, ranges, count);
    return code != 0 ? INVALID_VALUE : 0;
}

static double scalar(const gy_cuda_blas_desc *desc, const void *value)
{
    float single;
    double both;
    if (desc->scale == GY_CUDA_REAL_64) {
        memcpy(&both, value, sizeof(both));
        return both;
    }
    memcpy(&single, value, sizeof(single));
    return (double)single;
}

/* ---- calls ---- */

#define CALL(member, parameters, work)                                                         \
    int standin_blas_##member parameters                                                       \
    {                                                                                          \
        const int code = standin_enter(symbols.member);                                        \
        return standin_leave(code != 0 ? code : (work));                                       \
    }
/* What gives something back does so whatever it returns. */
#define CALL_BACK(member, parameters, work)                                                    \
    int standin_blas_##member parameters                                                       \
    {                                                                                          \
        const int failure = standin_enter(symbols.member);                                     \
        const int code = (work);                                                               \
        return standin_leave(failure != 0 ? failure : code);                                   \
    }

CALL(create, (gy_cuda_blas_handle * *handle), make_handle(handle))
CALL_BACK(destroy, (gy_cuda_blas_handle * handle), end_handle(handle))
CALL(desc_create, (gy_cuda_blas_desc * *desc, int compute, int scale),
     make_desc(desc, compute, scale))
CALL(desc_set, (gy_cuda_blas_desc * desc, int attribute, const void *value, size_t size_bytes),
     set_desc(desc, attribute, value, size_bytes))
CALL_BACK(desc_destroy, (gy_cuda_blas_desc * desc), end_desc(desc))
CALL(layout_create,
     (gy_cuda_blas_layout * *layout, int type, uint64_t rows, uint64_t columns,
      int64_t leading),
     make_layout(layout, type, (int64_t[]){(int64_t)rows, (int64_t)columns, leading}))
CALL(layout_set,
     (gy_cuda_blas_layout * layout, int attribute, const void *value, size_t size_bytes),
     set_layout(layout, attribute, value, size_bytes))
CALL_BACK(layout_destroy, (gy_cuda_blas_layout * layout), end_layout(layout))
CALL(preference_create, (gy_cuda_blas_preference * *preference), make_preference(preference))
CALL(preference_set,
     (gy_cuda_blas_preference * preference, int attribute, const void *value,
      size_t size_bytes),
     set_preference(preference, attribute, value, size_bytes))
CALL_BACK(preference_destroy, (gy_cuda_blas_preference * preference),
          end_preference(preference))
CALL(heuristic,
     (gy_cuda_blas_handle * handle, gy_cuda_blas_desc *desc, gy_cuda_blas_layout *a,
      gy_cuda_blas_layout *b, gy_cuda_blas_layout *c, gy_cuda_blas_layout *d,
      gy_cuda_blas_preference *preference, int wanted, gy_cuda_blas_choice *choices,
      int *found),
     choose(preference, IS_ONE(handles, handle) && c == d && fits(desc, a, b, c), wanted,
            choices, found))

/* What the library's call gives one by one. */
typedef struct request {
    gy_cuda_blas_handle *handle;
    gy_cuda_blas_desc *desc;
    const void *alpha, *beta;
    gy_cuda_address a, b, c, d;
    gy_cuda_blas_layout *a_layout, *b_layout, *c_layout, *d_layout;
    const gy_cuda_blas_algorithm *algorithm;
    standin_range workspace;
    gy_cuda_stream *stream;
} request;

static int take(const request *r)
{
    if (!IS_ONE(handles, r->handle) || !fits(r->desc, r->a_layout, r->b_layout, r->c_layout) ||
        r->c_layout != r->d_layout || r->algorithm == NULL ||
        r->algorithm->data[0] != WORKSPACE_BYTES) {
        return refuse(symbols.matmul, "no product");
    }
    product p = {.a = *r->a_layout,
                 .b = *r->b_layout,
                 .c = *r->c_layout,
                 .scale = r->desc->scale,
                 .a_at = r->a,
                 .b_at = r->b,
                 .c_at = r->c,
                 .d_at = r->d};
    if (r->desc->scalars != 0) {
        p.alpha_at = (uintptr_t)r->alpha;
        p.beta_at = (uintptr_t)r->beta;
    } else {
        p.alpha = scalar(r->desc, r->alpha);
        p.beta = scalar(r->desc, r->beta);
    }
    return push(r->desc, &p, &r->workspace, r->stream);
}

CALL(matmul,
     (gy_cuda_blas_handle * handle, gy_cuda_blas_desc *desc, const void *alpha,
      gy_cuda_address a, gy_cuda_blas_layout *a_layout, gy_cuda_address b,
      gy_cuda_blas_layout *b_layout, const void *beta, gy_cuda_address c,
      gy_cuda_blas_layout *c_layout, gy_cuda_address d, gy_cuda_blas_layout *d_layout,
      const gy_cuda_blas_algorithm *algorithm, gy_cuda_address workspace,
      size_t workspace_bytes, gy_cuda_stream *stream),
     take(&(request){handle,
                     desc,
                     alpha,
                     beta,
                     a,
                     b,
                     c,
                     d,
                     a_layout,
                     b_layout,
                     c_layout,
                     d_layout,
                     algorithm,
                     {workspace, workspace_bytes, true},
                     stream}))
