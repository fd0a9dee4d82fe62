/* Goal: products of a device are those of their definition, for all shapes, types and
 * transposes, and a call of the library that fails is one failure with its name. */
#include "ops/cuda/product.h"
#include "standin/standin_kit.h"

#include <math.h>

enum {
    SIDE_MAX = 9,
    BATCH_MAX = 3,
    GAP_MAX = 5, /* between results of a batch */
    ELEMENTS = (SIDE_MAX * SIDE_MAX + GAP_MAX) * BATCH_MAX
};

/* What is multiplied, as numbers; a 16-bit type holds them exactly. */
typedef struct matrices {
    double a[ELEMENTS], b[ELEMENTS], c[ELEMENTS], bias[SIDE_MAX];
} matrices;

static size_t number_bytes(gy_cuda_number number)
{
    return number == GY_CUDA_F64 ? 8 : number == GY_CUDA_F32 ? 4 : 2;
}

/* Small multiples of 1/8 in each format. */
static void put(gy_cuda_number number, void *to, const double *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const float single = (float)from[i];
        uint32_t bits;
        memcpy(&bits, &single, sizeof(bits));
        const uint16_t brain = (uint16_t)(bits >> 16);
        /* from 8 bits of exponent to 5 */
        const uint16_t half =
            (uint16_t)((bits >> 16 & 0x8000) |
                       (single == 0 ? 0 : ((bits >> 13) & 0x3ffff) - (112 << 10)));
        const void *value = number == GY_CUDA_F64   ? (const void *)&from[i]
                            : number == GY_CUDA_F32 ? (const void *)&single
                            : number == GY_CUDA_F16 ? (const void *)&half
                                                    : (const void *)&brain;
        memcpy((char *)to + i * number_bytes(number), value, number_bytes(number));
    }
}

static int64_t result_stride(const gy_cuda_product_shape *s)
{
    return s->c_stride != 0 ? s->c_stride : s->m * s->n;
}

static double sum_of(const gy_cuda_product_shape *s, const matrices *m, int64_t n,
                     const int64_t at[2])
{
    double sum = s->adds ? m->c[n * result_stride(s) + at[0] * s->n + at[1]] : 0;
    const double *a = m->a + n * s->a_stride, *b = m->b + n * s->b_stride;
    for (int64_t l = 0; l < s->k; l++) {
        sum += (s->is_a_transposed ? a[l * s->m + at[0]] : a[at[0] * s->k + l]) *
               (s->is_b_transposed ? b[at[1] * s->k + l] : b[l * s->n + at[1]]);
    }
    sum += s->has_bias ? m->bias[at[1]] : 0;
    return s->has_relu && sum < 0 ? 0 : sum;
}

static gy_cuda_product_shape draw_shape(gy_random *random)
{
    gy_cuda_product_shape s = {.number = (gy_cuda_number)gy_random_below(random, 4),
                               .m = 1 + (int64_t)gy_random_below(random, SIDE_MAX),
                               .n = 1 + (int64_t)gy_random_below(random, SIDE_MAX),
                               .k = 1 + (int64_t)gy_random_below(random, SIDE_MAX),
                               .is_a_transposed = gy_random_below(random, 2) == 0,
                               .is_b_transposed = gy_random_below(random, 2) == 0,
                               .adds = gy_random_below(random, 2) == 0,
                               .has_bias = gy_random_below(random, 2) == 0,
                               .has_relu = gy_random_below(random, 2) == 0,
                               .may_round = gy_random_below(random, 2) == 0,
                               .batch = (int64_t)gy_random_below(random, BATCH_MAX + 1)};
    if (s.batch > 1) {
        s.a_stride = s.m * s.k;
        s.b_stride = gy_random_below(random, 2) == 0 ? s.k * s.n : 0;
        s.c_stride = gy_random_below(random, 2) == 0
                         ? s.m * s.n + (int64_t)gy_random_below(random, GAP_MAX + 1)
                         : 0;
    }
    s.alignment = gy_random_below(random, 2) == 0 ? 8 : 0;
    if (s.number == GY_CUDA_F64) { /* the library joins nothing to them */
        s.has_bias = s.has_relu = false;
    }
    return s;
}

/* All of c: what lies between the results of a batch stays as it was. */
static void check(const gy_cuda_product_shape *s, const matrices *m, const char *bytes)
{
    const int64_t stride = result_stride(s), batch = s->batch > 1 ? s->batch : 1;
    for (int64_t i = 0; i < batch * stride; i++) {
        const int64_t place[2] = {i % stride / s->n, i % stride % s->n};
        float single;
        double got;
        memcpy(&single, bytes + i * 4, sizeof(single));
        memcpy(&got, bytes + i * 8 * (s->number == GY_CUDA_F64), sizeof(got));
        got = s->number == GY_CUDA_F64 ? got : (double)single;
        const double wanted = place[0] < s->m ? sum_of(s, m, i / stride, place) : m->c[i];
        assert_true(got == wanted); /* all sums are exact */
    }
}

static void multiply(gy_cuda_products *products, gy_cuda_device *device, gy_random *random)
{
    static char bytes[3][ELEMENTS * 8], bias[SIDE_MAX * 8];
    matrices m;
    const gy_cuda_product_shape s = draw_shape(random);
    const gy_cuda_number wide = s.number == GY_CUDA_F64 ? GY_CUDA_F64 : GY_CUDA_F32;
    const size_t size = number_bytes(s.number), result_size = number_bytes(wide);
    gy_cuda_stream *stream = NULL;
    gy_cuda_product *product = NULL;
    gy_cuda_address all[5] = {0};
    for (int i = 0; i < ELEMENTS; i++) {
        m.a[i] = ((double)gy_random_below(random, 17) - 8) / 8;
        m.b[i] = ((double)gy_random_below(random, 17) - 8) / 8;
        m.c[i] = ((double)gy_random_below(random, 17) - 8) / 8;
    }
    for (int i = 0; i < SIDE_MAX; i++) {
        m.bias[i] = ((double)gy_random_below(random, 17) - 8) / 8;
    }
    put(wide, bias, m.bias, SIDE_MAX);
    put(s.number, bytes[0], m.a, ELEMENTS);
    put(s.number, bytes[1], m.b, ELEMENTS);
    put(wide, bytes[2], m.c, ELEMENTS);
    assert_ok(gy_cuda_stream_open(device, &stream));
    const gy_status made = gy_cuda_product_new(products, &s, 1 << 20, &product);
    if (made == GY_UNSUPPORTED && !standin_is_there() && (s.has_bias || s.has_relu)) {
        printf("%s: bias or relu follow it as a text\n", gy_error_text());
        gy_cuda_stream_close(device, stream);
        return;
    }
    assert_ok(made);
    const size_t workspace = gy_cuda_product_workspace(product);
    assert_true(workspace > 0 || !standin_is_there());
    const gy_cuda_address shift = (gy_cuda_address)s.alignment; /* 0: none */
    assert_ok(gy_cuda_memory_alloc(device, stream, ELEMENTS * size + shift, &all[0]));
    assert_ok(gy_cuda_memory_alloc(device, stream, ELEMENTS * size + shift, &all[1]));
    assert_ok(gy_cuda_memory_alloc(device, stream, ELEMENTS * result_size + shift, &all[2]));
    assert_ok(gy_cuda_memory_alloc(device, stream, SIDE_MAX * result_size, &all[3]));
    assert_ok(gy_cuda_memory_alloc(device, stream, GY_MAX(workspace, 1), &all[4]));
    const gy_cuda_operands at = {.a = all[0] + shift,
                                 .b = all[1] + shift,
                                 .c = all[2] + shift,
                                 .bias = all[3],
                                 .workspace = all[4]};
    assert_ok(gy_cuda_upload(device, stream, at.bias, bias, SIDE_MAX * result_size, soon()));
    assert_ok(gy_cuda_upload(device, stream, at.a, bytes[0], ELEMENTS * size, soon()));
    assert_ok(gy_cuda_upload(device, stream, at.b, bytes[1], ELEMENTS * size, soon()));
    assert_ok(gy_cuda_upload(device, stream, at.c, bytes[2], ELEMENTS * result_size, soon()));
    assert_ok(gy_cuda_product_run(product, stream, &at));
    assert_ok(gy_cuda_download(device, stream, bytes[2], at.c, ELEMENTS * result_size, soon()));
    check(&s, &m, bytes[2]);
    for (size_t i = 0; i < GY_COUNT(all); i++) {
        gy_cuda_memory_free(device, stream, all[i]);
    }
    gy_cuda_product_free(product);
    gy_cuda_stream_close(device, stream);
}

GY_TEST(products_are_those_of_their_definition)
{
    gy_random random = {.key = gy_test_seed()};
    gy_cuda_device *device = NULL;
    gy_cuda_products *products = NULL;
    standin->reset(gy_random_u64(&random));
    assert_ok(gy_cuda_device_open(0, 512, &device));
    assert_ok(gy_cuda_products_open(device, &products));
    for (long i = 0; i < gy_test_cases(400); i++) {
        multiply(products, device, &random);
    }
    gy_cuda_products_close(products);
    gy_cuda_device_close(device);
    standin_expect_clean();
}

/* A product of ones from the beginning to the end; what was made is given back. */
static gy_status run_once(gy_cuda_device *device)
{
    const gy_cuda_product_shape shape = {.number = GY_CUDA_F32,
                                         .m = 2,
                                         .n = 3,
                                         .k = 4,
                                         .batch = 2,
                                         .has_bias = true,
                                         .a_stride = 8,
                                         .b_stride = 12};
    gy_cuda_products *products = NULL;
    gy_cuda_product *product = NULL;
    gy_cuda_stream *stream = NULL;
    gy_cuda_address block = 0;
    assert_ok(gy_cuda_stream_open(device, &stream));
    assert_ok(gy_cuda_memory_alloc(device, stream, 4096, &block));
    assert_ok(gy_cuda_fill(device, stream, block, 0, 4096));
    gy_status status = gy_cuda_products_open(device, &products);
    status = status == GY_OK ? gy_cuda_product_new(products, &shape, 0, &product) : status;
    const gy_cuda_operands at = {
        .a = block, .b = block + 1024, .c = block + 2048, .bias = block + 3072};
    status = status == GY_OK ? gy_cuda_product_run(product, stream, &at) : status;
    gy_error error;
    (void)gy_error_keep(&error, status);
    gy_cuda_product_free(product);
    gy_cuda_products_close(products);
    gy_cuda_memory_free(device, stream, block);
    gy_cuda_stream_close(device, stream);
    return status < 0 ? gy_error_raise(&error) : status;
}

GY_TEST(each_call_that_fails_is_one_failure)
{
    gy_cuda_device *device = NULL;
    char symbol[64];
    standin_needed();
    standin->reset(1);
    assert_ok(gy_cuda_device_open(0, 512, &device));
    assert_ok(run_once(device));
    int counts[128], count = 0, cases = 0;
    for (; standin->called(count) != NULL; count++) {
        counts[count] = standin->count(standin->called(count));
    }
    gy_log_set_level(GY_LOG_ERROR); /* of what gives something back there are warnings */
    for (int i = 0; i < count; i++) {
        (void)gy_print(symbol, sizeof(symbol), "%s", standin->called(i));
        for (int n = 1; n <= counts[i] && strncmp(symbol, "cublas", 6) == 0; n++, cases++) {
            const int64_t live = gy_alloc_live();
            standin->fail_call(symbol, n, 14);
            const gy_status status = run_once(device);
            const bool gives_back = strstr(symbol, "Destroy") != NULL;
            assert_int_equal(status, gives_back ? GY_OK : GY_STATE);
            assert_true(gives_back || strstr(gy_error_text(), symbol) != NULL);
            assert_int_equal(gy_alloc_live(), live);
        }
    }
    gy_log_set_level(GY_LOG_WARN);
    assert_true(cases > 12);
    gy_cuda_device_close(device);
    standin_expect_clean();
}

GY_TEST(a_product_without_an_algorithm_is_named)
{
    gy_cuda_device *device = NULL;
    standin_needed();
    standin->reset(1);
    assert_ok(gy_cuda_device_open(0, 512, &device));
    standin->fail_call("cublasLtMatmulAlgoGetHeuristic", 1, 15);
    assert_status(run_once(device), GY_UNSUPPORTED);
    assert_string_equal(gy_error_text(),
                        "libcublasLt.so.12 has no algorithm for a product of f32 "
                        "(2, 4) x (4, 3)");
    gy_cuda_device_close(device);
    standin_expect_clean();
}

GY_TEST_MAIN(standin_find, NULL)
