/*
 * Goal: what a warp multiplies by its lanes' fragments is the product of the matrices, where
 * the PTX ISA says that they lie; lanes of a warp that wait apart are an error; and attention
 * by tiles, with its slopes, gives what the plain definition gives in float64, over sizes next
 * to those of tiles, primes and 1, of d and e apart, causal or not, packed or not, in either
 * order of threads.
 */
#include "cuda_text_kit.h"
#include "ops/cuda/text/text_priv.h"
#include "ops_example.h"
#include "ops_random.h"

enum { CASES = 48, M = 16, N = 8, K = 16 };

/* ---- fragments ---- */

/*
 * Outputs: by mma of fragments that are taken as the PTX ISA says, by shuffles, by mma of those
 * that are loaded of b by columns and by rows. "Matrix Fragments for mma.m16n8k16 with floating
 * point type": groupID = laneid >> 2, threadID_in_group = laneid % 4;
 *
 *     a_i: row groupID for 0 <= i < 2 || 4 <= i < 6, else groupID + 8;
 *          column threadID_in_group * 2 + (i & 1), and 8 more for i >= 4
 *     b_i: row threadID_in_group * 2 + (i & 1), and 8 more for i >= 2; column groupID
 *     c_i: row groupID for i < 2, else groupID + 8; column threadID_in_group * 2 + (i & 1)
 */
static const char product_text[] =
    "GY_BLOCK_KERNEL(gy_test_product)\n"
    "{\n"
    "    __shared__ __align__(16) unsigned short rows[16 * 24], columns[16 * 24];\n"
    "    const int lane = threadIdx.x, group = lane >> 2, place = lane % 4;\n"
    "    unsigned a[4] = {0}, b[2] = {0}, loaded[2][4];\n"
    "    float c[4][4] = {{0}};\n"
    "    for (int i = lane; i < 16 * 16; i += 32) {\n"
    "        const int k = i / 16, n = i % 16;\n"
    "        const unsigned short x = n < 8 ? g.in1[k * 8 + n] : 0;\n"
    "        rows[k * 24 + n] = x;\n"
    "        columns[n * 24 + k] = x;\n"
    "    }\n"
    "    __syncthreads();\n"
    "    for (int i = 0; i < 8; i++) {\n"
    "        const int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;\n"
    "        const int column = place * 2 + (i & 1) + (i >= 4 ? 8 : 0);\n"
    "        a[i / 2] |= (unsigned)g.in0[row * 16 + column] << i % 2 * 16;\n"
    "    }\n"
    "    for (int i = 0; i < 4; i++) {\n"
    "        const int row = place * 2 + (i & 1) + (i >= 2 ? 8 : 0);\n"
    "        b[i / 2] |= (unsigned)g.in1[row * 8 + group] << i % 2 * 16;\n"
    "    }\n"
    "    gy_load_columns_$H(loaded[0], columns, 24);\n"
    "    gy_load_rows_$H(loaded[1], rows, 24);\n"
    "    gy_mma_$H(c[0], a, b);\n"
    "    gy_mma_by_shuffles_$H(c[1], a, b);\n"
    "    gy_mma_$H(c[2], a, loaded[0]);\n"
    "    gy_mma_$H(c[3], a, loaded[1]);\n"
    "    gy_mma_$H(c[3], a, loaded[1] + 2);\n" /* columns 8 to 15, which are 0 */
    "    for (int i = 0; i < 16; i++) {\n"
    "        const int row = i % 4 < 2 ? group : group + 8, column = place * 2 + (i & 1);\n"
    "        g.out0[(i / 4 * 16 + row) * 8 + column] = c[i / 4][i % 4];\n"
    "    }\n"
    "}\n";

static gy_cuda_text *product_of(const gy_kernel_call *call, gy_dtype dtype)
{
    gy_cuda_text *text = gy_alloc("test.text", sizeof(*text));
    const gy_cuda_key keys[] = {{"H", gy_cuda_tile_name(dtype)}, {NULL, NULL}};
    assert_non_null(text);
    gy_cuda_writer w = gy_cuda_begin(call, text);
    gy_cuda_fields(&w, 0);
    gy_cuda_print_tiles(&w, dtype);
    gy_cuda_print(&w, product_text, keys);
    gy_cuda_launch_blocks(&w, "gy_test_product", 1, 32);
    assert_ok(gy_cuda_end(&w));
    return text;
}

static gy_view draw_matrix(gy_dtype dtype, int64_t rows, int64_t columns, gy_random *random)
{
    gy_view view = ops_example_view(dtype, (const int64_t[]){rows, columns}, 2);
    for (int64_t i = 0; random != NULL && i < rows * columns; i++) {
        gy_element_set(dtype, view.data, i, (double)ops_random_in(random, -128, 128) / 16);
    }
    return view;
}

/* Sums of these numbers are exact in float32. */
static void expect_product(const gy_view *a, const gy_view *b, const gy_view *c)
{
    for (int64_t i = 0; i < gy_view_count(c); i++) {
        const int64_t m = i / N % M, n = i % N;
        double sum = 0;
        for (int64_t k = 0; k < K; k++) {
            sum += gy_element_get(a->dtype, a->data, m * K + k) *
                   gy_element_get(b->dtype, b->data, k * N + n);
        }
        if (gy_element_get(GY_F32, c->data, i) != sum) {
            fail_msg("%s, way %d, row %d, column %d: %g, expected %g", gy_dtype_name(a->dtype),
                     (int)(i / (M * N)), (int)m, (int)n, gy_element_get(GY_F32, c->data, i),
                     sum);
        }
    }
}

GY_TEST(fragments_multiply_as_their_matrices_do)
{
    static const gy_dtype dtypes[] = {GY_BF16, GY_F16};
    gy_random random = {.key = gy_test_seed()};
    gy_view inputs[GY_COUNT(dtypes)][2], outputs[GY_COUNT(dtypes)];
    gy_kernel_call calls[GY_COUNT(dtypes)];
    texts all;
    texts_open(&all);
    for (size_t n = 0; n < GY_COUNT(dtypes); n++) {
        inputs[n][0] = draw_matrix(dtypes[n], M, K, &random);
        inputs[n][1] = draw_matrix(dtypes[n], K, N, &random);
        outputs[n] = draw_matrix(GY_F32, 4 * M, N, NULL);
        calls[n] = (gy_kernel_call){.op = &gy_ops_row_matmul,
                                    .inputs = inputs[n],
                                    .input_count = 2,
                                    .outputs = &outputs[n],
                                    .output_count = 1};
        assert_int_equal(texts_keep(&all, product_of(&calls[n], dtypes[n])), n);
    }
    texts_compile(&all);
    texts_check(&all);
    for (size_t n = 0; n < GY_COUNT(dtypes); n++) {
        for (int order = 0; order < 2; order++) {
            texts_order(&all, order);
            assert_int_equal(texts_run(&all, (int)n, &calls[n]), UINT64_MAX);
            expect_product(&inputs[n][0], &inputs[n][1], &outputs[n]);
        }
        gy_free(inputs[n][0].data);
        gy_free(inputs[n][1].data);
        gy_free(outputs[n].data);
    }
    texts_close(&all);
}

/* ---- barriers of a warp, for the C compiler ---- */

static const char barrier_text[] =
    "GY_BLOCK_KERNEL(gy_test_own_turns)\n" /* each warp has its own number of them */
    "{\n"
    "    float x = (float)threadIdx.x;\n"
    "    for (unsigned i = 0; i <= threadIdx.x / 32; i++) {\n"
    "        x = __shfl_xor_sync(0xffffffff, x, 1);\n"
    "    }\n"
    "    __syncthreads();\n"
    "    g.out0[threadIdx.x] = x;\n"
    "}\n"
    "GY_BLOCK_KERNEL(gy_test_apart)\n"
    "{\n"
    "    if (threadIdx.x % 32 < 5) {\n"
    "        __syncwarp();\n"
    "    } else {\n"
    "        __syncthreads();\n"
    "    }\n"
    "}\n"
    "GY_BLOCK_KERNEL(gy_test_ended)\n"
    "{\n"
    "    if (threadIdx.x != 33) {\n"
    "        __syncwarp();\n"
    "    }\n"
    "}\n";

/* What the kernel returns: 1, threads of a block are at barriers apart. */
static int run_threads(const texts *all, const char *name, unsigned threads, void *words)
{
    int (*run)(const unsigned *, const unsigned *, unsigned, void **) = NULL;
    const unsigned grid[3] = {1, 1, 1}, block[3] = {threads, 1, 1};
    char symbol[64];
    (void)gy_print(symbol, sizeof(symbol), "%s_0", name);
    void *found = dlsym(all->library, symbol);
    assert_non_null(found);
    memcpy(&run, &found, sizeof(run));
    return run(grid, block, 0, &words);
}

GY_TEST(lanes_that_wait_apart_are_an_error)
{
    if (texts_wants_device()) {
        standin_leave_out();
    }
    static const char *const names[] = {"gy_test_own_turns", "gy_test_apart", "gy_test_ended"};
    gy_view output = draw_matrix(GY_F32, 1, 96, NULL);
    const gy_kernel_call call = {
        .op = &gy_ops_row_matmul, .outputs = &output, .output_count = 1};
    gy_cuda_text *text = gy_alloc("test.text", sizeof(*text));
    uint64_t words[GY_CUDA_WORDS_MAX];
    const uint64_t address = (uint64_t)(uintptr_t)output.data;
    texts all;
    texts_open(&all);
    assert_non_null(text);
    gy_cuda_writer w = gy_cuda_begin(&call, text);
    gy_cuda_fields(&w, 0);
    gy_cuda_print(&w, barrier_text, (const gy_cuda_key[]){{NULL, NULL}});
    for (size_t n = 0; n < GY_COUNT(names); n++) {
        gy_cuda_launch_blocks(&w, names[n], 1, 96);
    }
    assert_ok(gy_cuda_end(&w));
    assert_int_equal(texts_keep(&all, text), 0);
    texts_compile(&all);
    (void)gy_cuda_text_words(text, NULL, &address, 0, 0, words);
    for (int order = 0; order < 2; order++) {
        texts_order(&all, order);
        assert_int_equal(run_threads(&all, names[0], 96, words), 0);
        for (int t = 0; t < 96; t++) { /* one, two and three exchanges with the neighbour */
            assert_int_equal(gy_element_get(GY_F32, output.data, t), t / 32 == 1 ? t : t ^ 1);
        }
        assert_int_equal(run_threads(&all, names[1], 96, words), 1);
        assert_int_equal(run_threads(&all, names[2], 96, words), 1);
    }
    texts_close(&all);
    gy_free(output.data);
}

/* ---- attention ---- */

typedef struct attention_case {
    ops_example of;
    int at;
} attention_case;

static int64_t one_of(gy_random *random, const int64_t *sizes, size_t count)
{
    return sizes[gy_random_below(random, count)];
}

static void set_input(gy_ops_sample *sample, int i, double low, double high,
                      const int64_t sizes[5])
{
    sample->inputs[i].dtype = GY_F64;
    sample->inputs[i].low = low;
    sample->inputs[i].high = high;
    ops_random_copy_sizes(sample, i, sizes, sizes[4] > 0 ? 5 : sizes[3] > 0 ? 4 : 3);
    sample->input_count = i + 1;
}

static const gy_op *draw_sample(gy_ops_sample *sample, gy_random *random)
{
    static const int64_t counts[] = {1, 2, 15, 16, 17, 31, 63, 64, 65, 97, 131};
    static const int64_t widths[] = {1, 3, 8, 16, 17, 32, 40, 64, 64, 65, 128};
    const bool is_slope = ops_random_chance(random, 2),
               is_packed = ops_random_chance(random, 2);
    const bool is_causal = ops_random_chance(random, 2);
    /* The definition takes a float64 at a time: long ones are narrow and few. */
    const int64_t q = one_of(random, counts, GY_COUNT(counts));
    const size_t kinds = q > 65 ? 6 : GY_COUNT(widths);
    const int64_t d = one_of(random, widths, kinds), heads = q > 32 ? 1 : 2;
    const int64_t b = ops_random_in(random, 1, heads), h = ops_random_in(random, 1, heads);
    int64_t k = q, e = d;
    int n = 0;
    if (!is_packed) {
        e = one_of(random, widths, kinds);
        k = is_causal ? q + ops_random_in(random, 0, 1) * one_of(random, counts, 6)
                      : one_of(random, counts, q > 65 ? 6 : 9);
    }
    *sample = (gy_ops_sample){.attributes.attention = {.is_causal = is_causal}};
    /* Scores are so far apart that later tiles have new maxima. */
    sample->attributes.attention.scale =
        ops_random_chance(random, 2) ? 2.5 / sqrt((double)d) : 0;
    if (is_packed) {
        set_input(sample, n++, -1, 1, (const int64_t[]){b, q, h, 3, d});
    } else {
        set_input(sample, n++, -1, 1, (const int64_t[]){b, q, h, d, 0});
        set_input(sample, n++, -1, 1, (const int64_t[]){b, k, h, d, 0});
        set_input(sample, n++, -1, 1, (const int64_t[]){b, k, h, e, 0});
    }
    if (is_slope) {
        set_input(sample, n++, -1, 1, (const int64_t[]){b, q, h, e, 0});
        set_input(sample, n++, log((double)k), log((double)k) + 1,
                  (const int64_t[]){b, h, q, 0, 0});
        set_input(sample, n++, -1, 1, (const int64_t[]){b, q, h, e, 0});
    }
    return is_slope    ? (is_packed ? &gy_ops_row_attention_packed_gradient
                                    : &gy_ops_row_attention_gradient)
           : is_packed ? &gy_ops_row_attention_packed
                       : &gy_ops_row_attention;
}

/* Both orders of threads give the same bits, which are the definition's but for roundings. */
static void run_case(const texts *all, attention_case *c)
{
    const gy_kernel_call call = ops_example_call(&c->of, c->of.inputs, c->of.got);
    void *first[GY_OP_OUTPUTS_MAX] = {NULL};
    assert_ok(ops_example_define(&c->of));
    for (int order = 0; order < 2; order++) {
        texts_order(all, order);
        assert_int_equal(texts_run(all, c->at, &call), UINT64_MAX);
        for (int o = 0; o < c->of.output_count; o++) {
            const size_t bytes = gy_view_bytes(&c->of.got[o]);
            if (order == 0) {
                first[o] = gy_alloc("test", bytes);
                memcpy(first[o], c->of.got[o].data, bytes);
            } else {
                assert_memory_equal(first[o], c->of.got[o].data, bytes);
                gy_free(first[o]);
            }
        }
    }
    ops_example_compare(&c->of, "by tiles");
}

GY_TEST(attention_by_tiles_gives_what_its_definition_gives)
{
    static const gy_dtype dtypes[] = {GY_F32, GY_BF16, GY_F16};
    gy_random random = {.key = gy_test_seed()};
    attention_case *cases = gy_alloc_zero("test", CASES, sizeof(*cases));
    gy_ops_sample sample;
    texts all;
    texts_open(&all);
    const int count = (int)gy_test_serial_cases(CASES);
    for (int n = 0; n < count; n++) {
        const gy_op *op = draw_sample(&sample, &random);
        assert_true(ops_example_make(&cases[n].of, op, &sample, dtypes[n % 3], &random));
        const gy_kernel_call call =
            ops_example_call(&cases[n].of, cases[n].of.inputs, cases[n].of.got);
        cases[n].at = texts_add(&all, &call);
        assert_int_equal(cases[n].at, n);
        assert_true(strstr(gy_text_get(&all.of[n]->source), "_tiles, ") != NULL);
    }
    texts_compile(&all);
    texts_check(&all);
    for (int n = 0; n < count; n++) {
        run_case(&all, &cases[n]);
        ops_example_free(&cases[n].of);
    }
    texts_close(&all);
    gy_free(cases);
}

GY_TEST_MAIN(NULL, NULL)
