/*
 * What a device does: products by cuBLASLt, copies to it, from it and inside it, kernels from
 * text, launches. Each figure stands beside what bounds it; sampled entries of products are
 * compared with sums in float64.
 *
 * usage: bench_device [DEVICE] [small]
 *
 * Prints a line a figure: NAME VALUE UNIT FLOOR, separated by tabs. The floor is in the same
 * unit: operations by the peak of the units that do them, or bytes by the bandwidth of what
 * they cross, as the driver tells clocks and widths ("-": not known; PCIe's are not told).
 * Times are medians.
 */
#include "ops/cuda/product.h"
#include "ops/cuda/text/text.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 9, SAMPLES = 64, WORKSPACE = 32 << 20 };

/* What is measured with: the whole sizes fill a device, the small ones are for its stand-in. */
typedef struct bench {
    gy_cuda_device *device;
    gy_cuda_stream *stream;
    int64_t side;      /* of the products */
    size_t copy_bytes; /* of one copy */
    int launches;      /* of one round */
} bench;

typedef gy_status (*piece)(bench *b, void *arg);

static double now_s(void)
{
    return (double)gy_now_ns(gy_env_real()) / 1e9;
}

static gy_status settle(const bench *b)
{
    return gy_cuda_stream_wait(b->device, b->stream, gy_deadline_after(60));
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Median seconds of a piece of work, from an idle stream until it is idle again. */
static gy_status time_of(bench *b, piece work, void *arg, double *seconds)
{
    double rounds[ROUNDS];
    GY_TRY(work(b, arg)); /* what is done once is done */
    GY_TRY(settle(b));
    for (int i = 0; i < ROUNDS; i++) {
        const double begun = now_s();
        GY_TRY(work(b, arg));
        GY_TRY(settle(b));
        rounds[i] = now_s() - begun;
    }
    qsort(rounds, ROUNDS, sizeof(rounds[0]), compare_doubles);
    *seconds = rounds[ROUNDS / 2];
    return GY_OK;
}

static void tell(const char *name, double value, const char *unit, double floor)
{
    char bound[32] = "-";
    if (floor > 0) {
        (void)gy_print(bound, sizeof(bound), "%.6g", floor);
    }
    printf("%s\t%.6g\t%s\t%s\n", name, value, unit, bound);
    fflush(stdout);
}

/* ---- products ---- */

/* Numbers in [-1/2, 1/2) that bf16 holds: multiples of 1/256 by a hash of the place. */
static double entry(uint64_t matrix, int64_t i)
{
    const uint32_t turn = (uint32_t)((uint64_t)i * 2654435761u + matrix * 40503u);
    return (double)(turn >> 24) / 256 - 0.5;
}

static void fill(gy_cuda_number number, uint64_t matrix, int64_t count, void *out)
{
    for (int64_t i = 0; i < count; i++) {
        const float value = (float)entry(matrix, i);
        uint32_t bits;
        memcpy(&bits, &value, sizeof(bits));
        if (number == GY_CUDA_F32) {
            ((float *)out)[i] = value;
        } else {
            ((uint16_t *)out)[i] = (uint16_t)(bits >> 16); /* exact */
        }
    }
}

/* Operations a second; 0: not known. @source NVIDIA, "CUDA C++ Programming Guide", arithmetic
 * throughput, and the white papers of Volta, Ampere, Ada and Hopper for products of bf16 */
static double peak_flops(const gy_cuda_properties *of, gy_cuda_number number)
{
    static const struct {
        int capability, f32, bf16; /* multiply-adds of a multiprocessor a cycle */
    } rows[] = {{80, 64, 1024}, {86, 128, 512}, {89, 128, 512}, {90, 128, 2048}};
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        if (rows[i].capability == of->capability) {
            return 2e3 * of->clock_khz * of->multiprocessors *
                   (number == GY_CUDA_F32 ? rows[i].f32 : rows[i].bf16);
        }
    }
    return 0;
}

typedef struct multiplied {
    gy_cuda_product *product;
    gy_cuda_operands at;
} multiplied;

static gy_status multiply(bench *b, void *arg)
{
    const multiplied *m = arg;
    return gy_cuda_product_run(m->product, b->stream, &m->at);
}

/* Entries of the result, spread over it, against sums in float64. */
static gy_status check_samples(bench *b, gy_cuda_number number, gy_cuda_address c)
{
    /* float32 keeps 24 bits of each sum; the units for 16 bits may cut while they add. */
    const double tolerance = number == GY_CUDA_F32 ? 5e-4 : 1e-2;
    double worst = 0;
    for (int64_t s = 0; s < SAMPLES; s++) {
        const int64_t at = s * 2654435761 % (b->side * b->side);
        float got = 0;
        double wanted = 0;
        GY_TRY(gy_cuda_download(b->device, b->stream, &got, c + (uint64_t)at * sizeof(got),
                                sizeof(got), gy_deadline_after(60)));
        for (int64_t l = 0; l < b->side; l++) {
            wanted +=
                entry(1, at / b->side * b->side + l) * entry(2, l * b->side + at % b->side);
        }
        worst = fmax(worst, fabs((double)got - wanted));
        if (!(fabs((double)got - wanted) <= tolerance)) {
            return gy_fail(GY_STATE, "entry %lld of the product is %.9g, expected %.9g",
                           (long long)at, (double)got, wanted);
        }
    }
    tell(number == GY_CUDA_F32 ? "product_f32_error" : "product_bf16_error", worst, "at most",
         0);
    return GY_OK;
}

static gy_status send(bench *b, gy_cuda_number number, uint64_t matrix, gy_cuda_address to)
{
    const size_t bytes =
        (size_t)(b->side * b->side) * (number == GY_CUDA_F32 ? sizeof(float) : 2);
    void *host = gy_alloc("bench", bytes);
    if (host == NULL) {
        return GY_NOMEM;
    }
    fill(number, matrix, b->side * b->side, host);
    const gy_status status =
        gy_cuda_upload(b->device, b->stream, to, host, bytes, gy_deadline_after(60));
    gy_free(host);
    return status;
}

static gy_status take_operands(bench *b, const gy_cuda_product_shape *shape, multiplied *m)
{
    const size_t each = shape->number == GY_CUDA_F32 ? sizeof(float) : 2;
    const size_t a = (size_t)(shape->m * shape->k) * each;
    const size_t c = (size_t)(shape->m * shape->n) * sizeof(float);
    const size_t columns = (size_t)(shape->k * shape->n) * each;
    GY_TRY(gy_cuda_memory_alloc(b->device, b->stream, a, &m->at.a));
    GY_TRY(gy_cuda_memory_alloc(b->device, b->stream, columns, &m->at.b));
    GY_TRY(gy_cuda_memory_alloc(b->device, b->stream, c, &m->at.c));
    GY_TRY(gy_cuda_fill(b->device, b->stream, m->at.a, 0x3c, a)); /* 0.0115 of bf16 */
    GY_TRY(gy_cuda_fill(b->device, b->stream, m->at.b, 0x3c, columns));
    return gy_cuda_memory_alloc(b->device, b->stream, WORKSPACE, &m->at.workspace);
}

static gy_status measure_product(bench *b, gy_cuda_products *products, gy_cuda_number number,
                                 multiplied *m)
{
    const gy_cuda_product_shape shape = {
        .number = number, .m = b->side, .n = b->side, .k = b->side};
    const double flops = 2 * pow((double)b->side, 3);
    const double peak = peak_flops(gy_cuda_device_properties(b->device), number);
    double seconds = 0;
    char name[64];
    GY_TRY(take_operands(b, &shape, m));
    GY_TRY(send(b, number, 1, m->at.a));
    GY_TRY(send(b, number, 2, m->at.b));
    GY_TRY(gy_cuda_product_new(products, &shape, WORKSPACE, &m->product));
    GY_TRY(time_of(b, multiply, m, &seconds));
    (void)gy_print(name, sizeof(name), "product_%s_%lld",
                   number == GY_CUDA_F32 ? "f32" : "bf16", (long long)b->side);
    tell(name, seconds * 1e3, "ms", peak > 0 ? flops / peak * 1e3 : 0);
    return check_samples(b, number, m->at.c);
}

/* The logits of GPT-2 for 8 sequences of 1024, or less of all. Lines of an odd number of them
 * are not aligned: what that costs is the difference to the next multiple of 64, to which
 * nanoGPT widens its vocabulary. */
static gy_status measure_logits(bench *b, gy_cuda_products *products, bool is_odd,
                                multiplied *m)
{
    const bool is_small = b->side < 8192;
    const gy_cuda_product_shape shape = {.number = GY_CUDA_BF16,
                                         .m = is_small ? b->side : 8192,
                                         .n = (is_small ? b->side : 50304) - (is_odd ? 47 : 0),
                                         .k = is_small ? b->side : 768,
                                         .is_b_transposed = true};
    const double flops = 2.0 * (double)shape.m * (double)shape.n * (double)shape.k;
    const double peak = peak_flops(gy_cuda_device_properties(b->device), shape.number);
    double seconds = 0;
    char name[64];
    GY_TRY(take_operands(b, &shape, m));
    GY_TRY(gy_cuda_product_new(products, &shape, WORKSPACE, &m->product));
    GY_TRY(time_of(b, multiply, m, &seconds));
    (void)gy_print(name, sizeof(name), "logits_bf16_%lld", (long long)shape.n);
    tell(name, seconds * 1e3, "ms", peak > 0 ? flops / peak * 1e3 : 0);
    return GY_OK;
}

static gy_status products(bench *b)
{
    gy_cuda_products *all = NULL;
    GY_TRY(gy_cuda_products_open(b->device, &all));
    gy_status status = GY_OK;
    for (int i = 0; i < 4 && status == GY_OK; i++) {
        multiplied m = {.product = NULL};
        gy_error error;
        status = i < 2 ? measure_product(b, all, i == 0 ? GY_CUDA_BF16 : GY_CUDA_F32, &m)
                       : measure_logits(b, all, i == 3, &m);
        (void)gy_error_keep(&error, status);
        gy_cuda_product_free(m.product);
        const gy_cuda_address blocks[] = {m.at.a, m.at.b, m.at.c, m.at.workspace};
        for (size_t k = 0; k < GY_COUNT(blocks); k++) {
            gy_cuda_memory_free(b->device, b->stream, blocks[k]);
        }
        status = status < 0 ? gy_error_raise(&error) : status;
    }
    gy_cuda_products_close(all);
    return status;
}

/* ---- copies ---- */

typedef struct copied {
    gy_cuda_address one, other;
    void *pinned, *pageable;
} copied;

static gy_status push_pinned(bench *b, void *arg)
{
    const copied *c = arg;
    return gy_cuda_push(b->device, b->stream, c->one, c->pinned, b->copy_bytes);
}

static gy_status pull_pinned(bench *b, void *arg)
{
    const copied *c = arg;
    return gy_cuda_pull(b->device, b->stream, c->pinned, c->one, b->copy_bytes);
}

static gy_status upload(bench *b, void *arg)
{
    const copied *c = arg;
    return gy_cuda_upload(b->device, b->stream, c->one, c->pageable, b->copy_bytes,
                          gy_deadline_after(60));
}

static gy_status download(bench *b, void *arg)
{
    const copied *c = arg;
    return gy_cuda_download(b->device, b->stream, c->pageable, c->one, b->copy_bytes,
                            gy_deadline_after(60));
}

static gy_status copy_inside(bench *b, void *arg)
{
    const copied *c = arg;
    return gy_cuda_copy(b->device, b->stream, c->other, c->one, b->copy_bytes);
}

static gy_status measure_copies(bench *b, copied *c)
{
    const double bandwidth = gy_cuda_device_properties(b->device)->memory_bytes_per_second;
    const struct {
        const char *name;
        piece work;
        bool is_inside; /* each byte is read and written */
    } rows[] = {{"copy_to_device_pinned", push_pinned, false},
                {"copy_from_device_pinned", pull_pinned, false},
                {"copy_to_device_staged", upload, false},
                {"copy_from_device_staged", download, false},
                {"copy_inside", copy_inside, true}};
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        double seconds = 0;
        GY_TRY(time_of(b, rows[i].work, c, &seconds));
        tell(rows[i].name, (rows[i].is_inside ? 2e-9 : 1e-9) * (double)b->copy_bytes / seconds,
             "GB/s", rows[i].is_inside ? bandwidth / 1e9 : 0);
    }
    return GY_OK;
}

static gy_status take_copied(bench *b, copied *c)
{
    c->pageable = gy_alloc_zero("bench", 1, b->copy_bytes);
    if (c->pageable == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_cuda_pinned_alloc(b->device, b->copy_bytes, &c->pinned));
    memset(c->pinned, 1, b->copy_bytes);
    GY_TRY(gy_cuda_memory_alloc(b->device, b->stream, b->copy_bytes, &c->one));
    return gy_cuda_memory_alloc(b->device, b->stream, b->copy_bytes, &c->other);
}

/* ---- kernels from text ---- */

typedef struct launched {
    gy_cuda_text text;
    gy_text image;
    gy_cuda_module *module;
    gy_cuda_function *kernel;
    uint64_t words[GY_CUDA_WORDS_MAX];
} launched;

static gy_status launch(bench *b, void *arg)
{
    launched *l = arg;
    const gy_cuda_grid grid = {.blocks = (unsigned)l->text.launches[0].blocks,
                               .threads = (unsigned)l->text.launches[0].threads};
    return gy_cuda_launch_kernel(b->device, b->stream, l->kernel, grid, l->words);
}

static gy_status launch_often(bench *b, void *arg)
{
    for (int i = 0; i < b->launches; i++) {
        GY_TRY(launch(b, arg));
    }
    return GY_OK;
}

/* y = x * x over `count` float32 numbers, as a session would run it. */
static gy_status load(bench *b, const copied *c, int64_t count, launched *l)
{
    gy_attributes attributes;
    gy_view views[2];
    memset(&attributes, 0, sizeof(attributes));
    views[0] = views[1] = gy_view_of(NULL, GY_F32, &count, 1);
    const gy_kernel_call call = {.op = &gy_ops_row_square,
                                 .attributes = &attributes,
                                 .inputs = &views[0],
                                 .input_count = 1,
                                 .outputs = &views[1],
                                 .output_count = 1};
    const int capability = gy_cuda_device_properties(b->device)->capability;
    GY_TRY(gy_cuda_text_make(&call, &l->text));
    GY_ASSERT(l->text.reason == NULL && l->text.launch_count == 1);
    (void)gy_cuda_text_words(&l->text, &c->one, &c->other, 0, 0, l->words);
    GY_TRY(
        gy_cuda_compile(gy_text_get(&l->text.source), "square", capability, NULL, &l->image));
    GY_TRY(gy_cuda_module_open(b->device, &l->image, "square", &l->module));
    return gy_cuda_module_kernel(b->device, l->module, l->text.launches[0].name, &l->kernel);
}

static gy_status measure_kernel(bench *b, const copied *c, bool is_long)
{
    launched l = {.module = NULL};
    gy_error error;
    double seconds = 0;
    const int64_t count = is_long ? (int64_t)(b->copy_bytes / sizeof(float)) : 32;
    gy_status status = load(b, c, count, &l);
    status =
        status == GY_OK ? time_of(b, is_long ? launch : launch_often, &l, &seconds) : status;
    if (status == GY_OK && is_long) {
        tell("kernel_square", 2e-9 * (double)b->copy_bytes / seconds, "GB/s",
             gy_cuda_device_properties(b->device)->memory_bytes_per_second / 1e9);
    } else if (status == GY_OK) {
        tell("launch", seconds * 1e6 / b->launches, "us", 0);
    }
    (void)gy_error_keep(&error, status);
    gy_cuda_module_close(b->device, l.module);
    gy_text_free(&l.image);
    gy_cuda_text_fini(&l.text);
    return status < 0 ? gy_error_raise(&error) : status;
}

static gy_status copies_and_kernels(bench *b)
{
    copied c = {.one = 0};
    gy_error error;
    gy_status status = take_copied(b, &c);
    status = status == GY_OK ? measure_copies(b, &c) : status;
    status = status == GY_OK ? measure_kernel(b, &c, true) : status;
    status = status == GY_OK ? measure_kernel(b, &c, false) : status;
    (void)gy_error_keep(&error, status);
    gy_cuda_memory_free(b->device, b->stream, c.one);
    gy_cuda_memory_free(b->device, b->stream, c.other);
    gy_cuda_pinned_free(b->device, c.pinned);
    gy_free(c.pageable);
    return status < 0 ? gy_error_raise(&error) : status;
}

static gy_status run(int index, bool is_small)
{
    bench b = {.side = is_small ? 64 : 8192,
               .copy_bytes = (size_t)(is_small ? 1 : 256) << 20,
               .launches = is_small ? 16 : 2000};
    gy_error error;
    GY_TRY(gy_cuda_device_open(index, 0, &b.device));
    gy_status status = gy_cuda_stream_open(b.device, &b.stream);
    status = status == GY_OK ? products(&b) : status;
    status = status == GY_OK ? copies_and_kernels(&b) : status;
    (void)gy_error_keep(&error, status);
    gy_cuda_stream_close(b.device, b.stream);
    gy_cuda_device_close(b.device);
    return status < 0 ? gy_error_raise(&error) : status;
}

int main(int argc, char **argv)
{
    if (argc > 3 || (argc == 3 && strcmp(argv[2], "small") != 0)) {
        fprintf(stderr, "usage: bench_device [DEVICE] [small]\n");
        return 2;
    }
    if (run(argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0, argc == 3) < 0) {
        fprintf(stderr, "bench_device: %s\n", gy_error_text());
        return 1;
    }
    return 0;
}
