/*
 * Goal: the simulation's arithmetic is that of logistic regression, a seed gives one history,
 * rules differ by what stragglers cost and not by what they compute, and what does not fit is
 * refused.
 */
#include "ps/virtual/simulate.h"

#include <math.h>
#include <string.h>

#include "gy_test.h"

enum { ROWS = 400, FEATURES = 12, PER_ROW = 4 };

/* Rows whose label a hidden weight vector decides, most of the time. */
typedef struct sample {
    gy_libsvm rows;
    double labels[ROWS], values[ROWS * PER_ROW];
    size_t begins[ROWS + 1];
    uint64_t indices[ROWS * PER_ROW];
} sample;

static void make_rows(sample *s)
{
    gy_random random = {.key = gy_test_seed()};
    s->rows = (gy_libsvm){.rows = ROWS,
                          .count = (size_t)ROWS * PER_ROW,
                          .features = FEATURES,
                          .labels = s->labels,
                          .begins = s->begins,
                          .indices = s->indices,
                          .values = s->values};
    s->begins[0] = 0;
    for (size_t i = 0; i < ROWS; i++) {
        double z = 0;
        for (size_t k = 0; k < PER_ROW; k++) {
            const size_t at = i * PER_ROW + k;
            s->indices[at] = k * 3 + gy_random_below(&random, 3);
            s->values[at] = gy_random_normal(&random);
            z += s->values[at] * ((double)s->indices[at] - 5.5);
        }
        s->labels[i] = z + gy_random_normal(&random) > 0 ? 1 : -1;
        s->begins[i + 1] = (i + 1) * PER_ROW;
    }
}

/* The loss by the library's functions, and its slope by differences. */
static double plain_loss(const sample *s, const double *w, size_t from, size_t end)
{
    double sum = 0;
    for (size_t i = from; i < end; i++) {
        double z = w[FEATURES];
        for (size_t k = s->begins[i]; k < s->begins[i + 1]; k++) {
            z += w[s->indices[k]] * s->values[k];
        }
        sum += log1p(exp(-fabs(z))) + fmax(z, 0) - (s->labels[i] > 0) * z;
    }
    return sum / (double)(end - from);
}

GY_TEST(losses_and_gradients_are_those_of_the_library)
{
    static sample s;
    uint8_t labels[ROWS];
    gy_random random = {.key = gy_test_seed() + 1};
    make_rows(&s);
    for (size_t i = 0; i < ROWS; i++) {
        labels[i] = s.labels[i] > 0;
    }
    const ps_sample_rows data = {.rows = &s.rows, .labels = labels, .width = FEATURES + 1};
    for (int round = 0; round < 20; round++) {
        double w[FEATURES + 1], gradient[FEATURES + 1] = {0};
        const double scale = round % 4 == 3 ? 300 : 1; /* where a plain e^z would overflow */
        for (size_t i = 0; i <= FEATURES; i++) {
            w[i] = scale * gy_random_normal(&random);
        }
        const double loss = gy_ps_logistic_loss(&data, w), plain = plain_loss(&s, w, 0, ROWS);
        assert_true(fabs(loss - plain) <= 1e-13 * fabs(plain));
        const size_t row = (size_t)gy_random_below(&random, ROWS);
        gy_ps_logistic_add(&data, w, row, 2, gradient);
        for (size_t i = 0; i <= FEATURES && scale == 1; i++) {
            const double step = 1e-5, at = w[i];
            w[i] = at + step;
            const double above = plain_loss(&s, w, row, row + 1);
            w[i] = at - step;
            const double below = plain_loss(&s, w, row, row + 1);
            w[i] = at;
            assert_true(fabs(gradient[i] - (above - below) / step) < 1e-6);
        }
    }
}

static gy_ps_simulated simulated(const gy_libsvm *rows, gy_ps_simulation o)
{
    gy_ps_simulated result = {.struct_size = sizeof(result)};
    o.struct_size = sizeof(o);
    assert_ok(gy_ps_simulate(rows, &o, &result));
    return result;
}

/* BSP computes the same whoever is slow: only the time differs, by what the slowest takes. */
GY_TEST(stragglers_change_the_time_of_bsp_alone)
{
    static sample s;
    make_rows(&s);
    const gy_ps_simulation o = {.workers = 8, .batch = 4, .clocks = 40, .seed = 3};
    gy_ps_simulation slow = o;
    slow.stragglers = GY_PS_ONE_SLOW;
    const gy_ps_simulated even = simulated(&s.rows, o), again = simulated(&s.rows, o);
    const gy_ps_simulated late = simulated(&s.rows, slow);
    assert_memory_equal(&even, &again, sizeof(even));
    assert_true(even.loss == late.loss && even.loss < 0.5);
    assert_int_equal(even.pushes, 320);
    assert_true(late.time_s > 3.4 * even.time_s && late.time_s < 4.4 * even.time_s);
}

/* Every rule learns; what backup workers drop is counted, and others drop nothing. */
GY_TEST(rules_are_those_of_the_tables)
{
    static sample s;
    make_rows(&s);
    const gy_ps_sync rules[] = {gy_ps_bsp(), gy_ps_asp(), gy_ps_ssp(4), gy_ps_backup(2),
                                gy_ps_weighted()};
    for (size_t i = 0; i < GY_COUNT(rules); i++) {
        for (int kind = GY_PS_EVEN; kind < GY_PS_STRAGGLERS; kind++) {
            const gy_ps_simulation o = {.workers = 8,
                                        .batch = 4,
                                        .sync = rules[i],
                                        .stragglers = (gy_ps_stragglers)kind,
                                        .clocks = 1000,
                                        .target_loss = 0.45,
                                        .seed = 4};
            const gy_ps_simulated out = simulated(&s.rows, o);
            if (!out.is_reached || out.loss > 0.45) {
                fail_msg("rule %zu, stragglers %d: loss %g after %g s", i, kind, out.loss,
                         out.time_s);
            }
            assert_true((out.dropped > 0) == (rules[i].rule == GY_PS_BACKUP));
        }
    }
}

/* What the table in bench/results says, on the rows that it is of. */
GY_TEST(stragglers_cost_what_the_table_says)
{
    char path[1024];
    gy_libsvm *rows = NULL;
    if (gy_test_data(path, "tabular/a9a.libsvm") == NULL) {
        skip();
    }
    assert_ok(gy_read_libsvm(path, &rows));
    gy_ps_simulation o = {.seed = 1, .clocks = 100};
    o.target_loss = simulated(rows, o).loss;
    o.clocks = 2000;
    double times[2][3];
    const gy_ps_sync rules[] = {gy_ps_bsp(), gy_ps_ssp(4), gy_ps_backup(1)};
    for (int kind = 0; kind < 2; kind++) {
        o.stragglers = kind == 0 ? GY_PS_SLOW_STEPS : GY_PS_ONE_SLOW;
        for (int rule = 0; rule < 3; rule++) {
            o.sync = rules[rule];
            const gy_ps_simulated out = simulated(rows, o);
            assert_true(out.is_reached);
            times[kind][rule] = out.time_s;
        }
    }
    printf(
        "of bsp's time: ssp:4 %.2f with slow steps, %.2f with a slow worker; backup:1 %.2f\n",
        times[0][1] / times[0][0], times[1][1] / times[1][0], times[1][2] / times[1][0]);
    assert_true(times[0][1] <= 0.5 * times[0][0]);
    assert_true(times[1][2] <= 0.5 * times[1][0]);
    assert_true(times[1][1] >= 0.8 * times[1][0]);
    gy_libsvm_free(rows);
}

/* Codecs with error feedback reach what none reaches. */
GY_TEST(codecs_reach_the_loss)
{
    static sample s;
    make_rows(&s);
    gy_ps_simulation o = {.workers = 4, .batch = 8, .clocks = 60, .seed = 5};
    o.target_loss = simulated(&s.rows, o).loss + 0.01;
    o.clocks = 600;
    const gy_codec codecs[] = {{GY_CODEC_BF16, 0}, {GY_CODEC_INT8, 0}, {GY_CODEC_TOPK, 0.1}};
    for (size_t i = 0; i < GY_COUNT(codecs); i++) {
        o.codec = codecs[i];
        const gy_ps_simulated out = simulated(&s.rows, o);
        assert_true(out.is_reached);
        assert_true(out.push_bytes == gy_codec_bytes(codecs[i], GY_F64, FEATURES + 1));
    }
}

GY_TEST(what_does_not_fit_is_refused)
{
    static sample s;
    gy_ps_simulated result = {.struct_size = sizeof(result)};
    make_rows(&s);
    const struct {
        gy_ps_simulation options;
        const char *text;
    } cases[] = {
        {{.workers = 5000}, "5000 workers of 400 rows"},
        {{.rate = -1}, "at rate -1"},
        {{.workers = 4, .sync = {GY_PS_BACKUP, 4}}, "4 backup workers of 4"},
        {{.codec = {GY_CODEC_TOPK, 2}}, "the share is 2"},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        assert_status(gy_ps_simulate(&s.rows, &cases[i].options, &result), GY_ARG);
        assert_non_null(strstr(gy_error_text(), cases[i].text));
    }
    s.labels[7] = 3;
    assert_status(gy_ps_simulate(&s.rows, NULL, &result), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "expected two labels"));
}

GY_TEST_MAIN(NULL, NULL)
