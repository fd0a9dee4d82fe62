/*
 * Goal: the tiles give the same bits for each instruction set and wherever a tile is cut, and
 * their float32 functions are within 4 units in the last place of the true value.
 */
#include "ops/kernels/tiles.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

#include "gy_test.h"

enum { MOST = 1024 };

static const gy_tile_table *const tables[] = {&gy_tiles_baseline, &gy_tiles_avx2,
                                              &gy_tiles_avx512};

/* Tables that this CPU can run; the first is the reference of the others. */
static int table_count(void)
{
    return (int)gy_tile_isa_level() + 1;
}

static void fill(void *data, gy_dtype dtype, gy_random *random)
{
    for (int i = 0; i < MOST; i++) {
        double unit = 2 * gy_random_unit(random) - 1;
        double value = unit * (i % 3 == 0 ? 100 : 4);
        if (dtype == GY_F32) {
            static const float odd[] = {0, -0.0f, INFINITY, -INFINITY, NAN, 1e-40f, 3e38f, 89};
            ((float *)data)[i] = i % 37 == 5 ? odd[i % 8] : (float)value;
        } else if (dtype == GY_F64) {
            ((double *)data)[i] = i % 37 == 5 ? NAN : value;
        } else {
            uint64_t bits = gy_random_u64(random);
            memcpy((char *)data + (size_t)i * gy_dtype_bytes(dtype), &bits,
                   gy_dtype_bytes(dtype));
        }
    }
}

typedef union values {
    _Alignas(64) unsigned char bytes[8 * MOST];
    uint64_t words[MOST];
} values;

static values in[3], out[3], cut;

/* One function at a scalar mask: all tables, and in two parts. */
static void check_function(gy_ops_code code, gy_dtype from, gy_dtype to, uint32_t scalars,
                           gy_random *random)
{
    gy_attributes attributes = {.dropout = {.rate = 0.3, .stream = 9}};
    for (int i = 0; i < 3; i++) {
        fill(in[i].bytes, from, random);
    }
    if (code == GY_CODE_select) {
        fill(in[0].bytes, GY_U8, random);
    }
    int64_t count = 1 + (int64_t)gy_random_below(random, MOST);
    gy_tile tile = {.count = count, .scalars = scalars, .attributes = &attributes, .index = 7};
    for (int t = 0; t < table_count(); t++) {
        memset(out[t].bytes, 0, sizeof(out[t]));
        for (int i = 0; i < 3; i++) {
            tile.inputs[i] = in[i].bytes;
        }
        tile.output = out[t].bytes;
        tables[t]->find(code, from, to)(&tile);
        assert_memory_equal(out[t].bytes, out[0].bytes, sizeof(out[0]));
    }
    memset(cut.bytes, 0, sizeof(cut));
    int64_t at = (int64_t)gy_random_below(random, (uint64_t)count);
    for (int part = 0; part < 2; part++) {
        int64_t begin = part == 0 ? 0 : at;
        tile.count = part == 0 ? at : count - at;
        tile.index = 7 + begin;
        for (int i = 0; i < 3; i++) {
            bool is_flag = code == GY_CODE_select && i == 0;
            bool is_one = (scalars >> i & 1) != 0 || (code == GY_CODE_dropout && i == 1);
            size_t bytes = is_flag ? 1 : gy_dtype_bytes(from);
            tile.inputs[i] = in[i].bytes + (is_one ? 0 : (size_t)begin * bytes);
        }
        tile.output = cut.bytes + (size_t)begin * gy_dtype_bytes(to);
        if (tile.count > 0) {
            gy_tiles()->find(code, from, to)(&tile);
        }
    }
    assert_memory_equal(cut.bytes, out[0].bytes, sizeof(cut));
}

GY_TEST(every_level_gives_the_same_bits)
{
    gy_random random = {.key = gy_test_seed()};
    int functions = 0;
    for (int code = 0; code < GY_CODE_COUNT; code++) {
        for (int from = GY_DTYPE_NONE + 1; from < GY_DTYPE_COUNT; from++) {
            for (int to = GY_DTYPE_NONE + 1; to < GY_DTYPE_COUNT; to++) {
                bool is_flag = code >= GY_CODE_equal && code <= GY_CODE_greater_equal;
                bool fits = code == GY_CODE_cast || to == (is_flag ? GY_U8 : from);
                if (!fits ||
                    gy_tiles()->find((gy_ops_code)code, (gy_dtype)from, (gy_dtype)to) == NULL) {
                    continue;
                }
                functions++;
                bool is_binary = (code >= GY_CODE_add && code <= GY_CODE_greater_equal);
                uint32_t masks = code == GY_CODE_select ? 8 : is_binary ? 4 : 1;
                for (uint32_t scalars = 0; scalars < masks; scalars++) {
                    check_function((gy_ops_code)code, (gy_dtype)from, (gy_dtype)to, scalars,
                                   &random);
                }
            }
        }
    }
    printf("%d functions on %d levels\n", functions, table_count());
    assert_in_range(functions, 150, 400);
}

GY_TEST(folds_give_the_same_bits)
{
    gy_random random = {.key = gy_test_seed()};
    const gy_ops_code codes[] = {GY_CODE_sum, GY_CODE_prod, GY_CODE_max, GY_CODE_min};
    const gy_dtype dtypes[] = {GY_F32, GY_F64, GY_I64, GY_I32, GY_U8};
    for (int round = 0; round < 200; round++) {
        gy_ops_code code = codes[round % 4];
        gy_dtype dtype = dtypes[round % 5];
        int64_t columns = 1 + (int64_t)gy_random_below(&random, 200), rows = MOST / columns;
        fill(in[0].bytes, dtype, &random);
        for (int i = 0; i < MOST; i++) { /* the sign of a NaN means nothing */
            float *x = (float *)in[0].bytes + i;
            *x = dtype == GY_F32 && !isfinite(*x) ? 1 : *x;
            double *w = (double *)in[0].bytes + i;
            if (dtype == GY_F64 && isnan(*w)) {
                *w = 1;
            }
        }
        for (int by_rows = 0; by_rows < 2; by_rows++) {
            for (int t = 0; t < table_count(); t++) {
                memset(out[t].bytes, 0, sizeof(out[t]));
                tables[t]->find_fold(code, dtype, by_rows)(in[0].bytes, rows, columns,
                                                           out[t].bytes, 1);
                assert_memory_equal(out[t].bytes, out[0].bytes, sizeof(out[0]));
            }
        }
    }
}

static double erfc_gelu(double x)
{
    return 0.5 * x * erfc(-x * 0.70710678118654752440);
}

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

/* Distance from the true value in units of the last place of the rounded one. */
static double ulps(float got, double truth)
{
    float rounded = (float)truth;
    if (isinf(rounded) || isnan(rounded)) {
        return isinf(got) == isinf(rounded) && isnan(got) == isnan(rounded) ? 0 : INFINITY;
    }
    float next = nextafterf(fabsf(rounded), INFINITY);
    double unit = (double)next - (double)fabsf(rounded);
    return fabs((double)got - truth) / unit;
}

GY_TEST(functions_are_accurate)
{
    static const struct {
        const char *name;
        gy_ops_code code;
        double (*truth)(double);
        double low, high, most;
    } cases[] = {
        {"exp", GY_CODE_exp, exp, -104, 89, 4},
        {"exp", GY_CODE_exp, exp, -1, 1, 2},
        {"log", GY_CODE_log, log, 1e-42, 10, 2},
        {"log", GY_CODE_log, log, 0.5, 2, 2},
        {"tanh", GY_CODE_tanh, tanh, -12, 12, 4},
        {"tanh", GY_CODE_tanh, tanh, -1, 1, 4},
        {"sigmoid", GY_CODE_sigmoid, logistic, -87, 30, 4},
        {"erf", GY_CODE_erf, erf, -5, 5, 4},
        {"erf", GY_CODE_erf, erf, -1, 1, 4},
        {"gelu", GY_CODE_gelu, erfc_gelu, -1.2, 9, 8},
    };
    gy_random random = {.key = gy_test_seed()};
    for (size_t k = 0; k < GY_COUNT(cases); k++) {
        double worst = 0, where = 0;
        for (int round = 0; round < 300; round++) {
            float x[MOST], y[MOST];
            for (int i = 0; i < MOST; i++) {
                double unit = gy_random_unit(&random);
                x[i] = (float)(cases[k].low + (cases[k].high - cases[k].low) * unit);
            }
            gy_tile tile = {.inputs = {x}, .output = y, .count = MOST};
            gy_tiles()->find(cases[k].code, GY_F32, GY_F32)(&tile);
            for (int i = 0; i < MOST; i++) {
                double error = ulps(y[i], cases[k].truth((double)x[i]));
                if (!(error <= worst)) {
                    worst = error;
                    where = (double)x[i];
                }
            }
        }
        printf("%-8s [%g,%g]: %.2f ulp at %.9g\n", cases[k].name, cases[k].low, cases[k].high,
               worst, where);
        assert_true(worst <= cases[k].most);
    }
}

GY_TEST(edges_of_functions)
{
    static const struct {
        gy_ops_code code;
        float x, y;
    } cases[] = {
        {GY_CODE_exp, -INFINITY, 0},
        {GY_CODE_exp, INFINITY, INFINITY},
        {GY_CODE_exp, 0, 1},
        {GY_CODE_log, 0, -INFINITY},
        {GY_CODE_log, 1, 0},
        {GY_CODE_log, INFINITY, INFINITY},
        {GY_CODE_log, -1, NAN},
        {GY_CODE_tanh, INFINITY, 1},
        {GY_CODE_tanh, -INFINITY, -1},
        {GY_CODE_sigmoid, -INFINITY, 0},
        {GY_CODE_sigmoid, INFINITY, 1},
        {GY_CODE_erf, INFINITY, 1},
        {GY_CODE_erf, -INFINITY, -1},
        {GY_CODE_exp, NAN, NAN},
        {GY_CODE_log, NAN, NAN},
        {GY_CODE_tanh, NAN, NAN},
        {GY_CODE_sigmoid, NAN, NAN},
        {GY_CODE_erf, NAN, NAN},
        {GY_CODE_gelu, NAN, NAN},
        {GY_CODE_relu, NAN, NAN},
    };
    for (size_t k = 0; k < GY_COUNT(cases); k++) {
        float y = 5;
        gy_tile tile = {.inputs = {&cases[k].x}, .output = &y, .count = 1};
        gy_tiles()->find(cases[k].code, GY_F32, GY_F32)(&tile);
        if (!(y == cases[k].y) && !(isnan(y) && isnan(cases[k].y))) {
            fail_msg("code %d of %g: %g, expected %g", (int)cases[k].code, (double)cases[k].x,
                     (double)y, (double)cases[k].y);
        }
    }
}

/* Rows of every width: the same bits, the sum of what is stored, nothing beyond it. */
GY_TEST(exponentials_of_a_row)
{
    gy_random random = {.key = gy_test_seed()};
    for (int64_t count = 1; count <= 50; count++) {
        float x[64], y[3][64];
        double sums[3];
        for (int64_t i = 0; i < 64; i++) {
            x[i] = (float)(4 * gy_random_unit(&random) - 3);
        }
        for (int t = 0; t < table_count(); t++) {
            double sum = 0;
            for (int64_t i = 0; i < 64; i++) {
                y[t][i] = -7;
            }
            sums[t] = tables[t]->exp_sum(x, 0.5f, y[t], count);
            for (int64_t i = 0; i < count; i++) {
                assert_true(ulps(y[t][i], exp((double)x[i] - 0.5)) <= 4);
                sum += (double)y[t][i];
            }
            assert_true(fabs(sum - sums[t]) <= 1e-6 * sum);
            assert_true(y[t][count] == -7.0f);
            assert_memory_equal(y[t], y[0], sizeof(y[0]));
            assert_memory_equal(&sums[t], &sums[0], sizeof(sums[0]));
        }
    }
}

/* Layer norm, its gradient and the slopes of a softmax: the same bits, nothing beyond the row.
 */
GY_TEST(rows_of_a_language_model)
{
    gy_random random = {.key = gy_test_seed()};
    for (int64_t count = 1; count <= 50; count++) {
        float x[64], gain[64], dy[64], y[3][5][64];
        double dots[3];
        for (int64_t i = 0; i < 64; i++) {
            x[i] = (float)(4 * gy_random_unit(&random) - 3);
            gain[i] = (float)(gy_random_unit(&random) + 0.5);
            dy[i] = (float)(2 * gy_random_unit(&random) - 1);
        }
        const gy_norm_line line = {x, gain, 0.25f, 1.5f, count};
        for (int t = 0; t < table_count(); t++) {
            for (int k = 0; k < 5; k++) {
                memcpy(y[t][k], dy, sizeof(dy));
            }
            tables[t]->norm_row(&line, dy, y[t][0]);
            tables[t]->norm_slope(&line, dy, y[t][1], y[t][2], y[t][3]);
            tables[t]->softmax_slope(gain, y[t][4], 0.5f, 2, count);
            dots[t] = tables[t]->row_dot(x, dy, count);
            for (int k = 0; k < 5; k++) {
                assert_true(y[t][k][count] == dy[count]);
            }
            assert_memory_equal(y[t], y[0], sizeof(y[0]));
            assert_memory_equal(&dots[t], &dots[0], sizeof(dots[0]));
        }
        const float last = (x[count - 1] - 0.25f) * 1.5f * gain[count - 1] + dy[count - 1];
        assert_true(fabs((double)(y[0][0][count - 1] - last)) <= 1e-6);
    }
}

/* An extreme of `rows` rows of `columns` elements by one fold, of a value at each place. */
typedef struct fold_case {
    gy_ops_code code;
    gy_dtype dtype;
    bool by_rows;
    int64_t rows, columns;
    double plain, odd, expected; /* everywhere but at one place; there; its row's or column's */
} fold_case;

static void check_fold(const gy_tile_table *table, const fold_case *one)
{
    const int64_t count = one->rows * one->columns;
    const int64_t results = one->by_rows ? one->rows : one->columns;
    const double start = one->code == GY_CODE_min ? INFINITY : -INFINITY;
    for (int64_t place = 0; place < count; place++) {
        double *got = (double *)out[0].bytes;
        for (int64_t i = 0; i < count; i++) {
            gy_element_set(one->dtype, in[0].bytes, i, i == place ? one->odd : one->plain);
        }
        for (int64_t i = 0; i < results; i++) {
            got[i] = start;
        }
        table->find_fold(one->code, one->dtype, one->by_rows)(in[0].bytes, one->rows,
                                                              one->columns, got, 1);
        for (int64_t i = 0; i < results; i++) {
            bool is_there = i == (one->by_rows ? place / one->columns : place % one->columns);
            double wanted = is_there ? one->expected : one->plain;
            if (isnan(wanted) ? !isnan(got[i])
                              : got[i] != wanted || signbit(got[i]) != signbit(wanted)) {
                fail_msg("code %d, %s, rows %d, %d by %d, place %d: result %d is %g, not %g",
                         (int)one->code, gy_dtype_name(one->dtype), one->by_rows,
                         (int)one->rows, (int)one->columns, (int)place, (int)i, got[i], wanted);
            }
        }
    }
}

/* A row's maximum of softmax is float32 alone, and its own code for short rows. */
static void check_row_max(const gy_tile_table *table, int64_t count)
{
    float x[64];
    for (int64_t place = 0; place < count; place++) {
        for (int64_t i = 0; i < count; i++) {
            x[i] = i == place ? NAN : (float)(i % 5) - 2;
        }
        assert_true(isnan(table->row_max(x, count)));
    }
}

/* So the result does not depend on lanes, pieces and shards. */
GY_TEST(extremes_keep_nan_and_the_sign_of_zero)
{
    const double nan_value = (double)NAN;
    for (int t = 0; t < table_count(); t++) {
        for (int kind = 0; kind < 8; kind++) {
            fold_case one = {.code = kind & 1 ? GY_CODE_max : GY_CODE_min,
                             .dtype = kind & 2 ? GY_F32 : GY_F64,
                             .by_rows = (kind & 4) != 0};
            bool is_min = one.code == GY_CODE_min;
            for (int64_t width = 1; width <= 49; width += width < 18 ? 1 : 5) {
                one.rows = one.by_rows ? 2 : 3;
                one.columns = width;
                one.plain = is_min ? -2 : 2;
                one.odd = one.expected = nan_value;
                check_fold(tables[t], &one);
                one.plain = is_min ? 0.0 : -0.0;
                one.odd = is_min ? -0.0 : 0.0;
                one.expected = one.odd;
                check_fold(tables[t], &one);
            }
        }
        for (int64_t count = 1; count <= 50; count++) {
            check_row_max(tables[t], count);
        }
    }
}

/* Of two: the same whichever comes first. */
GY_TEST(the_smaller_of_two_zeros_is_minus_zero)
{
    enum { COUNT = 37 };
    for (int t = 0; t < table_count(); t++) {
        for (int kind = 0; kind < 8; kind++) {
            gy_dtype dtype = kind & 1 ? GY_F32 : GY_F64;
            gy_ops_code code = kind & 2 ? GY_CODE_minimum : GY_CODE_maximum;
            bool is_min = code == GY_CODE_minimum;
            for (int64_t i = 0; i < COUNT; i++) {
                bool is_first = (kind & 4) != 0;
                double odd = i % 3 == 0 ? (double)NAN : -0.0, other = i % 3 == 0 ? -1 : 0.0;
                gy_element_set(dtype, in[0].bytes, i, is_first ? odd : other);
                gy_element_set(dtype, in[1].bytes, i, is_first ? other : odd);
            }
            gy_tile tile = {
                .inputs = {in[0].bytes, in[1].bytes}, .output = out[0].bytes, .count = COUNT};
            tables[t]->find(code, dtype, dtype)(&tile);
            for (int64_t i = 0; i < COUNT; i++) {
                double got = gy_element_get(dtype, out[0].bytes, i);
                assert_true(i % 3 == 0 ? isnan(got)
                                       : got == 0 && (signbit(got) != 0) == is_min);
            }
        }
    }
}

/* gelu relative to its value down to -5; its slope, which goes through 0, to the size of its
   terms. */
static void check_gelu(gy_tile_function run, gy_dtype dtype, bool is_slope)
{
    gy_attributes attributes = {.dropout = {.rate = 0}};
    for (int i = 0; i < MOST; i++) {
        gy_element_set(dtype, in[0].bytes, i, -5 + 10.0 * i / MOST);
    }
    const gy_tile tile = {.inputs = {in[0].bytes},
                          .output = out[0].bytes,
                          .count = MOST,
                          .attributes = &attributes};
    run(&tile);
    for (int i = 0; i < MOST; i++) {
        const double x = gy_element_get(dtype, in[0].bytes, i);
        const double below = 0.5 * erfc(-x * sqrt(0.5));
        const double slope = below + x * exp(-x * x / 2) / sqrt(2 * acos(-1));
        const double error =
            gy_element_get(dtype, out[0].bytes, i) - (is_slope ? slope : x * below);
        const double size = is_slope ? 1 : fabs(x * below);
        assert_true(fabs(error) <= (dtype == GY_F32 ? 1e-6 : 1e-13) * size);
    }
}

GY_TEST(gelu_is_near_its_definition)
{
    for (int t = 0; t < table_count(); t++) {
        for (int k = 0; k < 4; k++) {
            const gy_dtype dtype = k < 2 ? GY_F32 : GY_F64;
            const gy_ops_code code = k % 2 == 0 ? GY_CODE_gelu : GY_CODE_gelu_slope;
            check_gelu(tables[t]->find(code, dtype, dtype), dtype, k % 2 == 1);
        }
    }
}

GY_TEST_MAIN(NULL, NULL)
