/*
 * Goal: parts of tables against a plain serial oracle: random tables, workers that come, go,
 * repeat themselves and push what they may not, under each of the five rules; every row has the
 * oracle's bits, and every pull is answered exactly when the rule says.
 */
#include "ps/part/part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gy_test.h"

enum { KEYS = 24, WIDTH = 3, WORKERS = 5, PUSHES = 4096, STEPS = 160 };

/* ---- The oracle: each row for itself, in double, or in float where the table is ---- */

typedef struct kept {
    uint32_t worker;
    uint64_t clock;
    size_t count;
    size_t keys[KEYS];
    double values[KEYS][WIDTH];
    double rate;
    bool is_over;
} kept;

typedef struct oracle {
    gy_ps_table_options table;
    double w[KEYS][WIDTH], a[KEYS][WIDTH], b[KEYS][WIDTH];
    uint64_t steps[KEYS], updates, dropped, closed;
    uint64_t clocks[WORKERS], numbers[WORKERS];
    bool is_live[WORKERS], has_joined[WORKERS];
    kept pushes[PUSHES];
    size_t push_count;
} oracle;

/* Rounded as the table's type is. */
static double r(const oracle *at, double value)
{
    return at->table.dtype == GY_F32 ? (double)(float)value : value;
}

static void update_value(oracle *at, size_t k, uint32_t i, double g, double rate, uint64_t step)
{
    const gy_ps_table_options *t = &at->table;
    double *w = &at->w[k][i], *a = &at->a[k][i], *b = &at->b[k][i], plain = r(at, rate);
    double d = r(at, t->weight_decay);
    bool is_decoupled = t->update == GY_PS_ADAMW || t->update == GY_PS_SUM ||
                        t->update == GY_PS_FTRL || t->update == GY_PS_FUNCTION;
    if (d > 0 && !is_decoupled) {
        g = r(at, g + r(at, *w * d));
    }
    double m = r(at, t->momentum), e = r(at, t->epsilon);
    switch (t->update) {
    case GY_PS_SUM:
        *w = r(at, *w + g);
        break;
    case GY_PS_SGD:
        *w = r(at, *w - r(at, g * plain));
        break;
    case GY_PS_MOMENTUM:
        *a = r(at, r(at, *a * m) + g);
        *w = r(at, *w - r(at, *a * plain));
        break;
    case GY_PS_NESTEROV:
        *a = r(at, r(at, *a * m) + g);
        *w = r(at, *w - r(at, r(at, g + r(at, *a * m)) * plain));
        break;
    case GY_PS_ADAGRAD:
        *a = r(at, *a + r(at, g * g));
        *w = r(at, *w - r(at, r(at, g * plain) / r(at, r(at, sqrt(*a)) + e)));
        break;
    case GY_PS_ADAM:
    case GY_PS_ADAMW: {
        double rated = r(at, rate / (1 - pow(t->beta1, (double)step)));
        double correction = r(at, 1 / sqrt(1 - pow(t->beta2, (double)step)));
        *a = r(at, r(at, *a * r(at, t->beta1)) + r(at, g * r(at, 1 - t->beta1)));
        *b = r(at, r(at, *b * r(at, t->beta2)) + r(at, r(at, g * g) * r(at, 1 - t->beta2)));
        double from = *w;
        if (d > 0 && t->update == GY_PS_ADAMW) {
            from = r(at, *w - r(at, r(at, *w * d) * plain));
        }
        double below = r(at, r(at, r(at, sqrt(*b)) * correction) + e);
        *w = r(at, from - r(at, r(at, *a * rated) / below));
        break;
    }
    case GY_PS_FTRL: {
        double n = r(at, *b + r(at, g * g));
        double sigma = r(at, r(at, r(at, sqrt(n)) - r(at, sqrt(*b))) / plain);
        double l1 = r(at, t->l1), l2 = r(at, t->l2), beta = r(at, t->ftrl_beta);
        *a = r(at, r(at, *a + g) - r(at, sigma * *w));
        *b = n;
        double sign = *a < 0 ? -1 : 1;
        double over = r(at, *a - sign * l1);
        double under = r(at, r(at, r(at, beta + r(at, sqrt(n))) / plain) + l2);
        *w = sign * *a <= l1 ? 0 : -r(at, over / under);
        break;
    }
    case GY_PS_FUNCTION:
        *w = r(at, *w * 0.5 + g);
        break;
    case GY_PS_UPDATES:
    default:
        fail();
    }
}

static void update_row(oracle *at, size_t k, const double *g, double rate)
{
    uint64_t step = at->table.is_sparse ? ++at->steps[k] : at->updates + 1;
    for (uint32_t i = 0; i < at->table.width; i++) {
        update_value(at, k, i, g[i], rate > 0 ? rate : at->table.rate, step);
    }
}

typedef struct sums {
    double values[KEYS][WIDTH];
    bool has[KEYS];
} sums;

static void add_to(const oracle *at, sums *to, const kept *push)
{
    for (size_t i = 0; i < push->count; i++) {
        size_t k = push->keys[i];
        for (uint32_t j = 0; j < at->table.width; j++) {
            double value = push->values[i][j];
            to->values[k][j] = to->has[k] ? r(at, to->values[k][j] + value) : value;
        }
        to->has[k] = true;
    }
}

static void close_clock(oracle *at)
{
    sums all = {.has = {false}};
    double rate = 0;
    for (uint32_t w = 0; w < WORKERS; w++) {
        for (size_t p = 0; p < at->push_count; p++) {
            kept *one = &at->pushes[p];
            if (one->worker != w || one->clock != at->closed || one->is_over) {
                continue;
            }
            one->is_over = true;
            if (at->clocks[w] <= at->closed) {
                at->dropped++;
                continue;
            }
            rate = rate == 0 ? one->rate : rate;
            add_to(at, &all, one);
        }
    }
    for (size_t k = 0; k < KEYS; k++) {
        if (all.has[k]) {
            update_row(at, k, all.values[k], rate);
        }
    }
    at->updates++;
    at->closed++;
}

static uint32_t live_beyond(const oracle *at, uint64_t clock, uint32_t *live)
{
    uint32_t beyond = 0;
    *live = 0;
    for (int w = 0; w < WORKERS; w++) {
        *live += at->is_live[w];
        beyond += at->is_live[w] && at->clocks[w] >= clock;
    }
    return beyond;
}

static bool oracle_holds(const oracle *at)
{
    return at->table.sync.rule == GY_PS_BSP || at->table.sync.rule == GY_PS_BACKUP;
}

static void close_all(oracle *at)
{
    uint32_t live = 0, spare = at->table.sync.rule == GY_PS_BACKUP ? at->table.sync.bound : 0;
    while (oracle_holds(at)) {
        uint32_t beyond = live_beyond(at, at->closed + 1, &live);
        bool has_any = false; /* also of those who have left */
        for (int w = 0; w < WORKERS; w++) {
            has_any = has_any || at->clocks[w] > at->closed;
        }
        if (!has_any || live - beyond > spare) {
            return;
        }
        close_clock(at);
    }
}

static bool oracle_is_ready(const oracle *at, uint64_t clock)
{
    uint32_t live = 0;
    if (oracle_holds(at)) {
        return at->closed >= clock;
    }
    if (at->table.sync.rule != GY_PS_SSP || clock <= at->table.sync.bound) {
        return true;
    }
    uint32_t beyond = live_beyond(at, clock - at->table.sync.bound, &live);
    return beyond == live;
}

static void oracle_push(oracle *at, const kept *push, uint64_t seen)
{
    if (oracle_holds(at)) {
        if (push->clock < at->closed) {
            at->dropped++;
        } else {
            assert_true(at->push_count < PUSHES);
            at->pushes[at->push_count++] = *push;
        }
        return;
    }
    kept scaled = *push;
    if (at->table.sync.rule == GY_PS_WEIGHTED && at->updates > seen) {
        double by = r(at, 1 / (1 + (double)(at->updates - seen)));
        for (size_t i = 0; i < push->count; i++) {
            for (uint32_t j = 0; j < at->table.width; j++) {
                scaled.values[i][j] = r(at, push->values[i][j] * by);
            }
        }
    }
    for (size_t i = 0; i < push->count; i++) {
        update_row(at, push->keys[i], scaled.values[i], push->rate);
    }
    at->updates++;
}

/* ---- A story ---- */

typedef struct story {
    gy_random random;
    oracle oracle;
    gy_ps_part *part;
    uint32_t index, parts;
    uint64_t keys[KEYS]; /* ascending, of the part */
    uint64_t seen[WORKERS];
    uint64_t refused, applied, duplicates, waited;
} story;

static uint64_t below(story *at, uint64_t bound)
{
    return gy_random_below(&at->random, bound);
}

static void half_and_add(void *arg, uint64_t key, void *row, const void *gradient,
                         uint32_t width, double rate)
{
    const story *at = arg;
    (void)key;
    (void)rate;
    for (uint32_t i = 0; i < width; i++) {
        if (at->oracle.table.dtype == GY_F32) {
            ((float *)row)[i] = ((float *)row)[i] * 0.5F + ((const float *)gradient)[i];
        } else {
            ((double *)row)[i] = ((double *)row)[i] * 0.5 + ((const double *)gradient)[i];
        }
    }
}

static void draw_keys(story *at)
{
    static const uint64_t edges[] = {0, (uint64_t)1 << 63, UINT64_MAX};
    const gy_ps_table_options *table = &at->oracle.table;
    if (!table->is_sparse) {
        uint64_t first = 0, end = 0;
        gy_ps_part_range(table, at->index, at->parts, &first, &end);
        assert_true(end - first >= KEYS);
        for (size_t i = 0; i < KEYS; i++) {
            at->keys[i] = first + i;
        }
        return;
    }
    for (size_t count = 0; count < KEYS;) {
        uint64_t key = below(at, 8) == 0 ? edges[below(at, 3)] : gy_random_u64(&at->random);
        size_t place = count;
        while (place > 0 && at->keys[place - 1] > key) {
            place--;
        }
        bool is_there = place > 0 && at->keys[place - 1] == key;
        if (is_there || gy_ps_key_part(table, key, at->parts) != at->index) {
            continue;
        }
        memmove(at->keys + place + 1, at->keys + place, (count - place) * sizeof(key));
        at->keys[place] = key;
        count++;
    }
}

static void begin(story *at, uint64_t seed)
{
    static const gy_dtype dtypes[] = {GY_F32, GY_F64};
    memset(at, 0, sizeof(*at));
    at->random.key = seed * 0x9E3779B97F4A7C15u + 3;
    at->parts = 1 + (uint32_t)below(at, 4);
    at->index = (uint32_t)below(at, at->parts);
    gy_ps_table_options o = {.dtype = dtypes[below(at, 2)],
                             .width = 1 + (uint32_t)below(at, WIDTH),
                             .is_sparse = below(at, 2) == 0,
                             .is_by_range = below(at, 2) == 0,
                             .update = (gy_ps_update)below(at, GY_PS_UPDATES),
                             .sync = {.rule = (gy_ps_rule)below(at, GY_PS_RULES)},
                             .weight_decay = below(at, 2) == 0 ? 0 : 0.125,
                             .l1 = below(at, 2) == 0 ? 0 : 0.25,
                             .l2 = 0.5};
    o.rows = o.is_sparse ? 0 : KEYS * at->parts;
    o.function = o.update == GY_PS_FUNCTION ? "half" : NULL;
    if (o.sync.rule == GY_PS_SSP || o.sync.rule == GY_PS_BACKUP) {
        o.sync.bound = (uint32_t)below(at, 3);
    }
    assert_ok(gy_ps_table_judge("t", &o, WORKERS, &at->oracle.table));
    at->oracle.table.function = NULL;
    const gy_ps_part_options part = {.name = "t",
                                     .table = at->oracle.table,
                                     .part = at->index,
                                     .parts = at->parts,
                                     .workers = WORKERS,
                                     .function =
                                         o.update == GY_PS_FUNCTION ? half_and_add : NULL,
                                     .function_arg = at};
    assert_ok(gy_ps_part_new(&part, &at->part));
    draw_keys(at);
    for (int i = 0; i < WORKERS; i++) {
        at->oracle.is_live[i] = true;
    }
}

static void fill_values(const story *at, const kept *push, void *out)
{
    uint32_t width = at->oracle.table.width;
    for (size_t i = 0; i < push->count; i++) {
        for (uint32_t j = 0; j < width; j++) {
            if (at->oracle.table.dtype == GY_F32) {
                ((float *)out)[i * width + j] = (float)push->values[i][j];
            } else {
                ((double *)out)[i * width + j] = push->values[i][j];
            }
        }
    }
}

static void draw_push(story *at, uint32_t worker, kept *push)
{
    bool is_sparse = at->oracle.table.is_sparse;
    *push = (kept){.worker = worker,
                   .clock = at->oracle.clocks[worker],
                   .rate = below(at, 3) == 0 ? 0.5 : 0};
    size_t first = (size_t)below(at, KEYS), count = 1 + (size_t)below(at, KEYS - first);
    for (size_t i = first; i < first + count; i++) {
        if (!is_sparse || below(at, 2) == 0) {
            for (int j = 0; j < WIDTH; j++) {
                push->values[push->count][j] =
                    r(&at->oracle, (double)below(at, 2001) / 64 - 15.6);
            }
            push->keys[push->count++] = i;
        }
    }
}

/* One that is wrong is refused, and nothing of it is applied. */
static void push_wrong(story *at, gy_ps_gradient *push, uint64_t *keys, double *values)
{
    gy_status wanted = GY_ARG;
    gy_ps_outcome outcome;
    uint64_t kind = below(at, 4);
    bool is_sparse = at->oracle.table.is_sparse;
    if (kind == 0) {
        wanted = GY_NUMERIC;
        double bad = below(at, 2) == 0 ? NAN : -INFINITY;
        if (at->oracle.table.dtype == GY_F32) {
            ((float *)values)[push->rows.count * at->oracle.table.width - 1] = (float)bad;
        } else {
            values[push->rows.count * at->oracle.table.width - 1] = bad;
        }
    } else if (kind == 1 && below(at, 2) == 0) {
        wanted = GY_NUMERIC;
        push->rate = below(at, 2) == 0 ? NAN : -1;
    } else if (kind == 1) {
        wanted = GY_STATE;
        push->clock++;
    } else if (kind == 2 && is_sparse && push->rows.count > 1) {
        keys[1] = keys[0];
    } else if (kind == 3 && is_sparse && at->parts > 1) {
        do {
            keys[push->rows.count - 1] = gy_random_u64(&at->random);
        } while (gy_ps_key_part(&at->oracle.table, keys[push->rows.count - 1], at->parts) ==
                 at->index);
    } else if (!is_sparse) {
        push->rows.first += below(at, 2) == 0 ? KEYS : (uint64_t)0 - KEYS;
    } else {
        wanted = GY_STATE;
        push->client += 100;
    }
    assert_status(gy_ps_part_push(at->part, push, &outcome), wanted);
    at->refused++;
}

static void push_one(story *at, uint32_t worker)
{
    oracle *o = &at->oracle;
    kept what;
    double values[KEYS * WIDTH];
    uint64_t keys[KEYS];
    gy_ps_outcome outcome;
    draw_push(at, worker, &what);
    if (what.count == 0 || !o->is_live[worker] || !o->has_joined[worker]) {
        return;
    }
    for (size_t i = 0; i < what.count; i++) {
        keys[i] = at->keys[what.keys[i]];
    }
    fill_values(at, &what, values);
    gy_ps_gradient push = {.worker = worker,
                           .client = 7 + worker,
                           .number = o->numbers[worker] + 1 + below(at, 2),
                           .clock = what.clock,
                           .seen = at->seen[worker],
                           .rate = what.rate,
                           .rows = {.count = what.count},
                           .values = values};
    if (o->table.is_sparse) {
        push.rows.keys = keys;
    } else {
        push.rows.first = keys[0];
    }
    if (below(at, 10) == 0) {
        push_wrong(at, &push, keys, values);
        return;
    }
    assert_ok(gy_ps_part_push(at->part, &push, &outcome));
    bool is_late = oracle_holds(o) && what.clock < o->closed;
    assert_int_equal(outcome, is_late           ? GY_PS_DROPPED
                              : oracle_holds(o) ? GY_PS_HELD
                                                : GY_PS_APPLIED);
    oracle_push(o, &what, push.seen);
    o->numbers[worker] = push.number;
    at->applied++;
    while (below(at, 3) == 0) { /* again, as it or an older one */
        push.number -= below(at, 2) == 0 && push.number > 1;
        assert_ok(gy_ps_part_push(at->part, &push, &outcome));
        assert_int_equal(outcome, GY_PS_DUPLICATE);
        at->duplicates++;
    }
}

static void clock_one(story *at, uint32_t worker)
{
    oracle *o = &at->oracle;
    if (!o->is_live[worker] || !o->has_joined[worker]) {
        return;
    }
    assert_status(gy_ps_part_clock(at->part, worker, 7 + worker, o->clocks[worker] + 2),
                  GY_STATE);
    o->clocks[worker]++;
    assert_ok(gy_ps_part_clock(at->part, worker, 7 + worker, o->clocks[worker]));
    close_all(o);
    assert_ok(gy_ps_part_clock(at->part, worker, 7 + worker, o->clocks[worker]));
}

static void join_one(story *at, uint32_t worker)
{
    oracle *o = &at->oracle;
    uint64_t clock = 0;
    assert_ok(gy_ps_part_join(at->part, worker, 7 + worker, &clock));
    if (!o->is_live[worker]) { /* it begins where the last of the others is */
        uint64_t least = UINT64_MAX;
        for (int w = 0; w < WORKERS; w++) {
            least = o->is_live[w] ? GY_MIN(least, o->clocks[w]) : least;
        }
        least = GY_MAX(least == UINT64_MAX ? 0 : least, o->closed);
        o->clocks[worker] = GY_MAX(o->clocks[worker], least);
    }
    o->is_live[worker] = o->has_joined[worker] = true;
    assert_int_equal(clock, o->clocks[worker]);
    assert_status(gy_ps_part_join(at->part, worker, 1000, &clock), GY_EXISTS);
}

static void leave_one(story *at, uint32_t worker)
{
    if (at->oracle.has_joined[worker]) {
        gy_ps_part_leave(at->part, worker, 1000); /* another one's word does not count */
        gy_ps_part_leave(at->part, worker, 7 + worker);
        at->oracle.is_live[worker] = false;
        close_all(&at->oracle);
    }
}

static void check_pull(story *at, uint32_t worker)
{
    oracle *o = &at->oracle;
    uint32_t behind = 0;
    uint64_t updates = 0;
    double out[KEYS * WIDTH];
    bool is_ready = gy_ps_part_is_ready(at->part, o->clocks[worker], &behind);
    assert_true(is_ready == oracle_is_ready(o, o->clocks[worker]));
    at->waited += !is_ready;
    const gy_ps_rows rows = {.keys = o->table.is_sparse ? at->keys : NULL,
                             .first = o->table.is_sparse ? 0 : at->keys[0],
                             .count = KEYS};
    assert_ok(gy_ps_part_pull(at->part, &rows, out, &updates));
    assert_true(updates == o->updates);
    at->seen[worker] = updates;
    for (size_t i = 0; i < (size_t)KEYS * o->table.width; i++) {
        double value = o->table.dtype == GY_F32 ? (double)((float *)(void *)out)[i] : out[i];
        double wanted = o->w[i / o->table.width][i % o->table.width];
        if (value != wanted) {
            fail_msg("key %zu is %.17g instead of %.17g (update %d, rule %d)",
                     i / o->table.width, value, wanted, (int)o->table.update,
                     (int)o->table.sync.rule);
        }
    }
}

static void tell(story *at, uint64_t seed)
{
    begin(at, seed);
    for (int step = 0; step < STEPS; step++) {
        uint32_t worker = (uint32_t)below(at, WORKERS);
        uint64_t kind = below(at, 16);
        if (kind < 8) {
            push_one(at, worker);
        } else if (kind < 12) {
            clock_one(at, worker);
        } else if (kind < 14) {
            check_pull(at, worker);
        } else if (kind < 15) {
            join_one(at, worker);
        } else if (below(at, 3) == 0) {
            leave_one(at, worker);
        }
    }
    check_pull(at, 0);
    gy_ps_part_facts facts;
    gy_ps_part_look(at->part, &facts);
    assert_int_equal(facts.dropped, at->oracle.dropped);
    assert_int_equal(facts.pushes, at->applied);
    assert_int_equal(facts.duplicates, at->duplicates);
    assert_int_equal(facts.refused, at->refused);
    gy_ps_part_free(at->part);
}

GY_TEST(parts_have_the_bits_of_a_serial_oracle)
{
    static story at;
    uint64_t first = gy_test_seed(), applied = 0, refused = 0, waited = 0, dropped = 0;
    long seeds = gy_test_cases(1500);
    int64_t live = gy_alloc_live();
    for (uint64_t seed = first; seed < first + (uint64_t)seeds; seed++) {
        tell(&at, seed);
        applied += at.applied;
        refused += at.refused;
        waited += at.waited;
        dropped += at.oracle.dropped;
    }
    assert_int_equal(gy_alloc_live(), live);
    printf("%ld tables: %llu pushes applied, %llu refused, %llu dropped, %llu pulls waited\n",
           seeds, (unsigned long long)applied, (unsigned long long)refused,
           (unsigned long long)dropped, (unsigned long long)waited);
    assert_true(applied > 0 && refused > 0 && waited > 0 && dropped > 0);
}

GY_TEST(tables_are_judged)
{
    static const struct {
        gy_ps_table_options table;
        const char *text;
    } cases[] = {
        {{.rows = 0}, "0 rows: a dense table has 1 or more"},
        {{.rows = 5, .is_sparse = true}, "5 rows"},
        {{.rows = 5, .dtype = GY_I64, .update = GY_PS_SGD}, "whole numbers are only summed"},
        {{.rows = 5, .dtype = GY_I32}, "dtype"},
        {{.rows = 5, .width = GY_PS_WIDTH_MAX + 1}, "the width is 1.04858e+06"},
        {{.rows = 5, .rate = -1}, "the rate is -1, expected above 0"},
        {{.rows = 5, .rate = NAN}, "the rate is nan"},
        {{.rows = 5, .momentum = 1}, "momentum is 1, expected in (0, 1)"},
        {{.rows = 5, .l1 = -1}, "l1 is -1"},
        {{.rows = 5, .sync = {GY_PS_BACKUP, 3}}, "3 backup workers of 3"},
        {{.rows = 5, .sync = {GY_PS_BSP, 1}}, "the bound of a rule that has none is 1"},
        {{.rows = 5, .update = GY_PS_FUNCTION}, "a function and an update that is none"},
        {{.rows = (uint64_t)1 << 41}, "the number of values"},
    };
    gy_ps_table_options judged;
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        assert_status(gy_ps_table_judge("t", &cases[i].table, 3, &judged), GY_ARG);
        if (strstr(gy_error_text(), cases[i].text) == NULL) {
            fail_msg("case %zu: %s", i, gy_error_text());
        }
    }
    assert_status(gy_ps_table_judge("a b", &(gy_ps_table_options){.rows = 1}, 3, &judged),
                  GY_ARG);
    assert_status(gy_ps_table_judge("t", &(gy_ps_table_options){.rows = 1}, 0, &judged),
                  GY_ARG);
}

GY_TEST(rules_are_read_and_printed)
{
    static const char *const good[] = {"bsp", "asp", "ssp:0", "ssp:4", "backup:1", "weighted"};
    static const char *const bad[] = {"",      "bs",     "bsp:1",  "ssp", "ssp:",
                                      "ssp:x", "ssp:-1", "ssp:1x", "BSP", "backup:4294967296"};
    for (size_t i = 0; i < GY_COUNT(good); i++) {
        gy_ps_sync sync;
        char text[24];
        assert_ok(gy_ps_sync_read(good[i], &sync));
        gy_ps_sync_print(sync, text, sizeof(text));
        assert_string_equal(text, good[i]);
    }
    for (size_t i = 0; i < GY_COUNT(bad); i++) {
        gy_ps_sync sync = {.rule = GY_PS_ASP};
        assert_status(gy_ps_sync_read(bad[i], &sync), GY_ARG);
    }
}

/* Whole numbers, and the keys at the edges, over three parts. */
GY_TEST(whole_numbers_are_summed_exactly)
{
    static const uint64_t keys[] = {0, 1, (uint64_t)1 << 63, UINT64_MAX};
    const gy_ps_table_options o = {
        .dtype = GY_I64, .is_sparse = true, .is_by_range = true, .sync = {GY_PS_ASP, 0}};
    gy_ps_table_options table;
    uint32_t counts[3] = {0};
    assert_ok(gy_ps_table_judge("t", &o, 1, &table));
    for (size_t i = 0; i < GY_COUNT(keys); i++) {
        uint32_t index = gy_ps_key_part(&table, keys[i], 3);
        gy_ps_part *part = NULL;
        int64_t value = INT64_MAX - 4, got = 0;
        uint64_t clock = 0, updates = 0;
        gy_ps_outcome outcome;
        counts[index]++;
        assert_ok(gy_ps_part_new(
            &(gy_ps_part_options){
                .name = "t", .table = table, .part = index, .parts = 3, .workers = 1},
            &part));
        assert_ok(gy_ps_part_join(part, 0, 1, &clock));
        const gy_ps_rows rows = {.keys = &keys[i], .count = 1};
        for (uint64_t number = 1; number <= 3; number++) {
            gy_ps_gradient push = {
                .client = 1, .number = number, .rows = rows, .values = &value};
            assert_ok(gy_ps_part_push(part, &push, &outcome));
            value = number == 1 ? 1 : 2;
        }
        assert_ok(gy_ps_part_pull(part, &rows, &got, &updates));
        assert_true(got == INT64_MAX - 1 && updates == 3);
        gy_ps_part_free(part);
    }
    assert_true(counts[0] == 2 && counts[1] == 1 && counts[2] == 1);
}

/* Dense ranges and keys agree on who has what. */
GY_TEST(parts_are_of_all_keys)
{
    static const uint64_t rows[] = {1, 2, 7, 1000003, (uint64_t)1 << 40};
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        for (uint32_t parts = 1; parts < 70; parts++) {
            const gy_ps_table_options table = {.rows = rows[i], .width = 1};
            uint64_t last = 0;
            for (uint32_t part = 0; part < parts; part++) {
                uint64_t first = 0, end = 0;
                gy_ps_part_range(&table, part, parts, &first, &end);
                assert_true(first == last && end >= first);
                last = end;
                if (end > first) {
                    assert_int_equal(gy_ps_key_part(&table, first, parts), part);
                    assert_int_equal(gy_ps_key_part(&table, end - 1, parts), part);
                }
            }
            assert_true(last == rows[i]);
        }
    }
}

/* Of a room that the part takes, whatever comes of the push. */
GY_TEST(rooms_are_taken_also_on_failure)
{
    const gy_ps_table_options o = {.rows = 4, .update = GY_PS_SGD};
    gy_ps_table_options table;
    gy_ps_part *part = NULL;
    gy_ps_outcome outcome;
    uint64_t clock = 0;
    int64_t live = gy_alloc_live();
    assert_ok(gy_ps_table_judge("t", &o, 2, &table));
    assert_ok(gy_ps_part_new(
        &(gy_ps_part_options){
            .name = "t", .table = table, .parts = 1, .workers = 2, .held_bytes_max = 40},
        &part));
    for (uint64_t number = 1; number < 6; number++) {
        float *room = gy_alloc_zero("test.room", 4, sizeof(float));
        gy_ps_gradient push = {.client = 1,
                               .number = number == 3 ? 2 : number,
                               .rows = {.count = 4},
                               .values = room,
                               .room = room};
        gy_status status = gy_ps_part_push(part, &push, &outcome);
        /* not joined, held, the same, held, too much is held */
        assert_int_equal(status, number == 1 ? GY_STATE : number == 5 ? GY_LIMIT : GY_OK);
        if (number == 1) {
            assert_ok(gy_ps_part_join(part, 0, 1, &clock));
        }
    }
    assert_non_null(strstr(gy_error_text(), "48 bytes of pushes wait"));
    gy_ps_part_free(part);
    assert_int_equal(gy_alloc_live(), live);
}

GY_TEST_MAIN(NULL, NULL)
