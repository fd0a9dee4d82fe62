/*
 * Elimination of variables from a sum of pairwise costs (choose.h). What an eliminated variable
 * leaves is a table over its neighbours; its own value is found again from the tables that it
 * was in, once the neighbours have theirs.
 */
#include "graph/place/choose.h"

#include "base/base.h"
#include "base/index.h"

#include <math.h>
#include <string.h>

enum { FACTOR_VARS_MAX = 8, LIMIT = 1 << 14, ROUNDS = 6 };

/* What sums in another order may differ by. */
static const double rounding = 1e-9;

/* A cost that depends on a few variables: a pair of the problem, or a table made on the way. */
typedef struct factor {
    int32_t vars[FACTOR_VARS_MAX]; /* kept ones as well: they have one value */
    int32_t strides[FACTOR_VARS_MAX];
    int32_t var_count;
    int32_t pair;        /* -1: a table */
    const double *table; /* of a pair: NULL until somebody asks */
    int32_t gone_with;   /* the variable whose elimination made it part of a later table; -1: it
                            is alive */
} factor;

/* The factors of one variable. */
typedef struct incidence {
    int32_t *list;
    int32_t count;
    size_t capacity;
} incidence;

typedef enum var_state { OPEN, KEPT, GONE } var_state;

/* Variables by their keys, the least first; may name one twice, with keys that are no longer
 * its own. */
typedef struct heap {
    int32_t *vars;
    int64_t *keys;
    size_t count, capacity, key_capacity;
} heap;

typedef struct solver {
    const gy_choices *of;
    int64_t limit;
    int32_t *chosen;
    factor *factors;
    size_t factor_count, factor_capacity;
    incidence *at;    /* (count) */
    int32_t *live;    /* (count) how many of the variable's factors are alive */
    uint8_t *states;  /* (count), of var_state */
    int32_t *kept_at; /* (count) the last round that kept it; -1: none */
    int32_t *order;   /* (count) eliminated, in order */
    int32_t order_count, open_count;
    heap cheap, wide; /* by `weights`, and by `widths` */
    int64_t *weights; /* (count) sums of the variable's elimination */
    int64_t *widths;  /* (count) less for a variable in more live factors */
    int round;
    bool has_kept;
    const double **pair_tables; /* [kind of pairs]; NULL until somebody asks */
    gy_arena pair_arena;        /* of these */
    gy_arena arena;             /* of tables that eliminations leave, emptied each round */
    gy_index left;              /* what they were made from -> a number in left_tables */
    const double **left_tables;
    size_t left_capacity;
} solver;

static double single_cost(const gy_choices *of, int32_t var, int32_t value)
{
    GY_ASSERT(value >= 0 && value < of->sizes[var]);
    return of->costs[var] != NULL ? of->costs[var][value] : 0;
}

double gy_choices_cost(const gy_choices *choices, const int32_t *chosen)
{
    GY_ASSERT(choices->count >= 0 && choices->pair_count >= 0);
    double sum = 0;
    for (int32_t i = 0; i < choices->count; i++) {
        sum += single_cost(choices, i, chosen[i]);
    }
    for (int32_t i = 0; i < choices->pair_count; i++) {
        const gy_choice_pair *pair = &choices->pairs[i];
        sum += choices->pair_cost(choices->arg, i, chosen[pair->a], chosen[pair->b]);
    }
    return sum;
}

/* ---- the heap ---- */

static gy_status heap_push(heap *h, int32_t var, int64_t key)
{
    GY_ASSERT(var >= 0);
    GY_TRY(GY_GROW("graph.place", h->vars, h->capacity, h->count + 1));
    GY_TRY(GY_GROW("graph.place", h->keys, h->key_capacity, h->count + 1));
    size_t at = h->count++;
    for (; at > 0; at = (at - 1) / 2) {
        const size_t up = (at - 1) / 2;
        if (h->keys[up] < key || (h->keys[up] == key && h->vars[up] <= var)) {
            break;
        }
        h->vars[at] = h->vars[up];
        h->keys[at] = h->keys[up];
    }
    h->vars[at] = var;
    h->keys[at] = key;
    return GY_OK;
}

static int32_t heap_pop(heap *h, int64_t *key)
{
    GY_ASSERT(h->count > 0);
    const int32_t top = h->vars[0];
    *key = h->keys[0];
    const size_t last = --h->count;
    const int32_t var = h->vars[last];
    const int64_t with = h->keys[last];
    size_t at = 0;
    for (size_t below = 1; below < last; below = 2 * at + 1) {
        if (below + 1 < last &&
            (h->keys[below + 1] < h->keys[below] ||
             (h->keys[below + 1] == h->keys[below] && h->vars[below + 1] < h->vars[below]))) {
            below++;
        }
        if (with < h->keys[below] || (with == h->keys[below] && var <= h->vars[below])) {
            break;
        }
        h->vars[at] = h->vars[below];
        h->keys[at] = h->keys[below];
        at = below;
    }
    h->vars[at] = var;
    h->keys[at] = with;
    return top;
}

/* ---- factors ---- */

static gy_status add_factor(solver *s, const factor *made)
{
    GY_ASSERT(made->var_count >= 1 && made->var_count <= FACTOR_VARS_MAX);
    GY_ASSERT(made->gone_with < 0);
    GY_TRY(GY_GROW("graph.place", s->factors, s->factor_capacity, s->factor_count + 1));
    s->factors[s->factor_count] = *made;
    for (int32_t i = 0; i < made->var_count; i++) {
        incidence *at = &s->at[made->vars[i]];
        GY_TRY(GY_GROW("graph.place", at->list, at->capacity, (size_t)at->count + 1));
        at->list[at->count++] = (int32_t)s->factor_count;
        s->live[made->vars[i]]++;
    }
    s->factor_count++;
    return GY_OK;
}

static int32_t kind_of(const gy_choices *of, int32_t pair)
{
    GY_ASSERT(pair >= 0 && pair < of->pair_count);
    return of->pair_kinds != NULL ? of->pair_kinds[pair] : pair;
}

static gy_status make_table(solver *s, factor *f)
{
    GY_ASSERT(f->pair < 0 || f->pair < s->of->pair_count);
    const gy_choices *of = s->of;
    if (f->table != NULL) {
        return GY_OK;
    }
    GY_ASSERT(f->pair >= 0 && f->var_count == 2);
    const double **known = &s->pair_tables[kind_of(of, f->pair)];
    const int32_t rows = of->sizes[f->vars[0]], columns = of->sizes[f->vars[1]];
    if (*known == NULL) {
        const size_t size = (size_t)rows * (size_t)columns * sizeof(double);
        double *table = gy_arena_alloc(&s->pair_arena, size);
        if (table == NULL) {
            return GY_NOMEM;
        }
        for (int32_t a = 0; a < rows; a++) {
            for (int32_t b = 0; b < columns; b++) {
                table[(size_t)a * (size_t)columns + (size_t)b] =
                    of->pair_cost(of->arg, f->pair, a, b);
            }
        }
        *known = table;
    }
    f->table = *known;
    return GY_OK;
}

/* What a factor costs by the values of its variables. */
static double factor_cost(const solver *s, const factor *f)
{
    GY_ASSERT(f->var_count >= 1);
    GY_ASSERT(f->table != NULL || f->var_count == 2);
    if (f->table == NULL) {
        return s->of->pair_cost(s->of->arg, f->pair, s->chosen[f->vars[0]],
                                s->chosen[f->vars[1]]);
    }
    size_t at = 0;
    for (int32_t i = 0; i < f->var_count; i++) {
        at += (size_t)f->strides[i] * (size_t)s->chosen[f->vars[i]];
    }
    return f->table[at];
}

/* ---- elimination of one variable ---- */

/* The open variables that share a live factor with `var`; their number, -1: too many. */
static int32_t neighbours(const solver *s, int32_t var, int32_t found[FACTOR_VARS_MAX])
{
    GY_ASSERT(var >= 0 && var < s->of->count);
    int32_t count = 0;
    for (int32_t i = 0; i < s->at[var].count; i++) {
        const factor *f = &s->factors[s->at[var].list[i]];
        for (int32_t k = 0; f->gone_with < 0 && k < f->var_count; k++) {
            const int32_t other = f->vars[k];
            bool is_new = other != var && s->states[other] == OPEN;
            for (int32_t j = 0; is_new && j < count; j++) {
                is_new = found[j] != other;
            }
            if (is_new && count == FACTOR_VARS_MAX) {
                return -1;
            }
            if (is_new) {
                found[count++] = other;
            }
        }
    }
    return count;
}

/* How many sums the elimination looks at; INT64_MAX: too many to count. */
static int64_t weigh(const solver *s, int32_t var)
{
    GY_ASSERT(s->states[var] == OPEN);
    int32_t found[FACTOR_VARS_MAX];
    const int32_t count = neighbours(s, var, found);
    int64_t sums = s->of->sizes[var];
    for (int32_t i = 0; i < count; i++) {
        sums *= s->of->sizes[found[i]];
        if (sums > s->limit) {
            return INT64_MAX;
        }
    }
    return count < 0 ? INT64_MAX : sums;
}

/* A factor as the elimination walks through it. */
typedef struct walked {
    const double *table;         /* behind what kept variables choose */
    int32_t own;                 /* stride of the eliminated variable */
    int32_t of[FACTOR_VARS_MAX]; /* stride of each neighbour */
} walked;

static gy_status list_walked(solver *s, int32_t var, const int32_t *around, int32_t count,
                             walked *out, int32_t *walked_count)
{
    GY_ASSERT(count >= 0 && count <= FACTOR_VARS_MAX);
    *walked_count = 0;
    for (int32_t i = 0; i < s->at[var].count; i++) {
        factor *f = &s->factors[s->at[var].list[i]];
        if (f->gone_with >= 0) {
            continue;
        }
        GY_TRY(make_table(s, f));
        walked *w = &out[(*walked_count)++];
        memset(w, 0, sizeof(*w)); /* every byte of it is hashed */
        w->table = f->table;
        for (int32_t k = 0; k < f->var_count; k++) {
            const int32_t other = f->vars[k];
            if (other == var) {
                w->own = f->strides[k];
            } else if (s->states[other] == KEPT) {
                w->table += (size_t)f->strides[k] * (size_t)s->chosen[other];
            }
            for (int32_t j = 0; j < count; j++) {
                w->of[j] += around[j] == other ? f->strides[k] : 0;
            }
        }
    }
    return GY_OK;
}

/* Put the factors that no neighbour from the `first` on changes before the others; their
 * number.
 */
static int32_t part_walked(walked *of, int32_t count, int32_t first)
{
    GY_ASSERT(count >= 0 && first >= 0 && first <= FACTOR_VARS_MAX);
    int32_t fixed = 0;
    for (int32_t i = 0; i < count; i++) {
        int32_t k = first;
        while (k < FACTOR_VARS_MAX && of[i].of[k] == 0) {
            k++;
        }
        if (k == FACTOR_VARS_MAX) {
            const walked moved = of[fixed];
            of[fixed++] = of[i];
            of[i] = moved;
        }
    }
    return fixed;
}

/* Lower a line of the table, `length` values of the neighbour `last`, to the sums with one
 * value of the eliminated variable: `sum` is what the line has in common. */
static void lower_line(const walked *of, int32_t count, int32_t last, double sum,
                       int32_t length, double *line)
{
    GY_ASSERT(length >= 1 && (last >= 0 || count == 0));
    for (int32_t y = 0; y < length; y++) {
        double whole = sum;
        for (int32_t i = 0; i < count; i++) {
            whole += of[i].table[(ptrdiff_t)of[i].of[last] * y];
        }
        line[y] = whole < line[y] ? whole : line[y];
    }
}

/* The next values of the neighbours before `last`, and the factors' tables behind what they
 * choose; behind the last values come the first ones, which is false. */
static bool turn(const solver *s, const factor *made, int32_t last, walked *of,
                 int32_t walked_count, int32_t values[FACTOR_VARS_MAX])
{
    GY_ASSERT(last < FACTOR_VARS_MAX);
    for (int32_t k = last - 1; k >= 0; k--) {
        const int32_t size = s->of->sizes[made->vars[k]];
        const bool is_over = ++values[k] == size;
        const ptrdiff_t by = is_over ? -(ptrdiff_t)(size - 1) : 1;
        for (int32_t i = 0; i < walked_count; i++) {
            of[i].table += by * of[i].of[k];
        }
        if (!is_over) {
            return true;
        }
        values[k] = 0;
    }
    return false;
}

/* For all values of the neighbours the least sum over the values of the variable. Each value of
 * it lowers the whole table, line by line: the last neighbour is the innermost. */
static void fill_table(const solver *s, int32_t var, const factor *made, walked *of,
                       int32_t walked_count, double *table)
{
    GY_ASSERT(walked_count >= 0 && s->of->sizes[var] > 1);
    GY_ASSERT(made->var_count <= FACTOR_VARS_MAX);
    const int32_t last = made->var_count - 1;
    const int32_t length = last < 0 ? 1 : s->of->sizes[made->vars[last]];
    const int32_t alone = part_walked(of, walked_count, 0);
    walked *turned = of + alone;
    const int32_t turned_count = walked_count - alone;
    const int32_t fixed = part_walked(turned, turned_count, last < 0 ? 0 : last);
    int32_t values[FACTOR_VARS_MAX] = {0};
    for (int32_t x = 0; x < s->of->sizes[var]; x++) {
        double cost = single_cost(s->of, var, x);
        double *line = table;
        for (int32_t i = 0; x > 0 && i < walked_count; i++) {
            of[i].table += of[i].own;
        }
        for (int32_t i = 0; i < alone; i++) {
            cost += of[i].table[0];
        }
        do {
            double sum = cost;
            for (int32_t i = 0; i < fixed; i++) {
                sum += turned[i].table[0];
            }
            for (int32_t y = 0; x == 0 && y < length; y++) {
                line[y] = INFINITY;
            }
            lower_line(turned + fixed, turned_count - fixed, last, sum, length, line);
            line += length;
        } while (turn(s, made, last, turned, turned_count, values));
    }
}

/* Forget the factors of an open variable that are part of later tables, once they are many: a
 * variable that all layers read loses one factor at a time. */
static void forget_gone(solver *s, int32_t var)
{
    GY_ASSERT(s->states[var] == OPEN);
    GY_ASSERT(s->live[var] <= s->at[var].count);
    incidence *at = &s->at[var];
    int32_t live = 0;
    if (at->count <= s->live[var] + s->live[var] / 8 + 8) {
        return;
    }
    for (int32_t i = 0; i < at->count; i++) {
        if (s->factors[at->list[i]].gone_with < 0) {
            at->list[live++] = at->list[i];
        }
    }
    GY_ASSERT(live == s->live[var]);
    at->count = live;
}

/* The more live factors the less; a variable that the last round kept is rather not kept again.
 */
static int64_t width_of(const solver *s, int32_t var)
{
    GY_ASSERT(s->states[var] == OPEN);
    const int64_t score = 4 * (int64_t)s->live[var];
    return s->round > 0 && s->kept_at[var] == s->round - 1 ? -(score / 4) : -score;
}

/* Behind a change of the factors of these open variables. */
static gy_status reweigh(solver *s, const int32_t *vars, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        GY_ASSERT(s->states[vars[i]] == OPEN);
        forget_gone(s, vars[i]);
        s->weights[vars[i]] = weigh(s, vars[i]);
        GY_TRY(heap_push(&s->cheap, vars[i], s->weights[vars[i]]));
        const int64_t width = width_of(s, vars[i]);
        if (width != s->widths[vars[i]]) {
            s->widths[vars[i]] = width;
            GY_TRY(heap_push(&s->wide, vars[i], width));
        }
    }
    return GY_OK;
}

/* The number of what a table is made from: the same for the same costs at the same strides. */
static gy_status number_left(solver *s, int32_t var, const factor *made, const walked *of,
                             int32_t walked_count, uint32_t *number)
{
    struct {
        gy_key walked;
        const double *costs;
        int32_t size, var_count, sizes[FACTOR_VARS_MAX];
    } head;
    GY_ASSERT(made->var_count <= FACTOR_VARS_MAX);
    memset(&head, 0, sizeof(head));
    head.walked = gy_key_of(of, (size_t)walked_count * sizeof(*of));
    head.costs = s->of->costs[var];
    head.size = s->of->sizes[var];
    head.var_count = made->var_count;
    for (int32_t k = 0; k < made->var_count; k++) {
        head.sizes[k] = s->of->sizes[made->vars[k]];
    }
    return gy_index_number(&s->left, gy_key_of(&head, sizeof(head)), number);
}

/* The table that the elimination leaves: one that is there, or a new one, made of `of` for
 * good.
 */
static gy_status find_table(solver *s, int32_t var, factor *made, walked *of,
                            int32_t walked_count)
{
    size_t entries = 1;
    for (int32_t k = made->var_count - 1; k >= 0; k--) {
        made->strides[k] = (int32_t)entries;
        entries *= (size_t)s->of->sizes[made->vars[k]];
    }
    const size_t before = s->left.count;
    uint32_t number = 0;
    GY_TRY(number_left(s, var, made, of, walked_count, &number));
    if (number < before) {
        made->table = s->left_tables[number];
        return GY_OK;
    }
    GY_ASSERT(number == before);
    GY_TRY(GY_GROW("graph.place", s->left_tables, s->left_capacity, before + 1));
    double *table = gy_arena_alloc(&s->arena, entries * sizeof(double));
    if (table == NULL) {
        return GY_NOMEM;
    }
    fill_table(s, var, made, of, walked_count, table);
    made->table = s->left_tables[number] = table;
    return GY_OK;
}

static gy_status eliminate(solver *s, int32_t var)
{
    GY_ASSERT(var >= 0 && var < s->of->count);
    factor made = {.pair = -1, .gone_with = -1};
    made.var_count = neighbours(s, var, made.vars);
    GY_ASSERT(made.var_count >= 0 && s->states[var] == OPEN);
    walked *of = gy_alloc("graph.place", ((size_t)s->at[var].count + 1) * sizeof(*of));
    int32_t walked_count = 0;
    gy_status status = of == NULL
                           ? GY_NOMEM
                           : list_walked(s, var, made.vars, made.var_count, of, &walked_count);
    status = status < 0 ? status : find_table(s, var, &made, of, walked_count);
    gy_free(of);
    GY_TRY(status);
    for (int32_t i = 0; i < s->at[var].count; i++) {
        factor *f = &s->factors[s->at[var].list[i]];
        if (f->gone_with < 0) {
            f->gone_with = var;
            for (int32_t k = 0; k < f->var_count; k++) {
                s->live[f->vars[k]]--;
            }
        }
    }
    s->states[var] = GONE;
    s->order[s->order_count++] = var;
    if (made.var_count > 0) {
        GY_TRY(add_factor(s, &made));
    }
    return reweigh(s, made.vars, made.var_count);
}

/* The open variable in most live factors. */
static int32_t widest(solver *s)
{
    GY_ASSERT(s->of->count > 0);
    for (;;) {
        int64_t key = 0;
        const int32_t var = heap_pop(&s->wide, &key);
        if (s->states[var] == OPEN && s->widths[var] == key) {
            return var;
        }
    }
}

static gy_status keep(solver *s, int32_t var)
{
    GY_ASSERT(s->states[var] == OPEN);
    s->states[var] = KEPT;
    s->kept_at[var] = s->round;
    s->has_kept = true;
    for (int32_t i = 0; i < s->at[var].count; i++) {
        const factor *f = &s->factors[s->at[var].list[i]];
        for (int32_t k = 0; f->gone_with < 0 && k < f->var_count; k++) {
            if (s->states[f->vars[k]] == OPEN) {
                GY_TRY(reweigh(s, &f->vars[k], 1));
            }
        }
    }
    return GY_OK;
}

/* ---- a round ---- */

/* The best value of a variable when all others in its factors have theirs. */
static void choose_value(solver *s, int32_t var)
{
    GY_ASSERT(s->states[var] == GONE);
    GY_ASSERT(s->of->sizes[var] > 1);
    int32_t best = 0;
    double best_sum = INFINITY;
    for (int32_t x = 0; x < s->of->sizes[var]; x++) {
        double sum = single_cost(s->of, var, x);
        s->chosen[var] = x;
        for (int32_t i = 0; i < s->at[var].count; i++) {
            const factor *f = &s->factors[s->at[var].list[i]];
            sum += f->gone_with == var ? factor_cost(s, f) : 0;
        }
        if (sum < best_sum * (1 - rounding)) {
            best_sum = sum;
            best = x;
        }
    }
    s->chosen[var] = best;
}

static gy_status begin_round(solver *s)
{
    GY_ASSERT(s->of->count >= 0);
    const gy_choices *of = s->of;
    s->factor_count = 0;
    s->order_count = 0;
    s->cheap.count = s->wide.count = 0;
    s->open_count = 0;
    s->has_kept = false;
    gy_arena_free(&s->arena);
    s->arena = (gy_arena){.blocks = NULL};
    gy_index_free(&s->left);
    s->left = (gy_index){.cells = NULL};
    for (int32_t i = 0; i < of->count; i++) {
        s->at[i].count = s->live[i] = 0;
        s->widths[i] = INT64_MIN;                      /* of none */
        s->states[i] = of->sizes[i] > 1 ? OPEN : KEPT; /* one value is no choice */
        s->chosen[i] = of->sizes[i] > 1 ? s->chosen[i] : 0;
        s->open_count += of->sizes[i] > 1 ? 1 : 0;
    }
    for (int32_t i = 0; i < of->pair_count; i++) {
        const gy_choice_pair *pair = &of->pairs[i];
        GY_ASSERT(pair->a != pair->b);
        const factor made = {.vars = {pair->a, pair->b},
                             .strides = {of->sizes[pair->b], 1},
                             .var_count = 2,
                             .pair = i,
                             .gone_with = -1};
        GY_TRY(add_factor(s, &made));
    }
    for (int32_t i = 0; i < of->count; i++) {
        GY_TRY(s->states[i] == OPEN ? reweigh(s, &i, 1) : GY_OK);
    }
    return GY_OK;
}

/* Eliminate or keep all variables, then give the eliminated ones their values. */
static gy_status run_round(solver *s)
{
    GY_ASSERT(s->limit > 0);
    GY_TRY(begin_round(s));
    while (s->open_count > 0) {
        int64_t key = 0;
        const int32_t var = heap_pop(&s->cheap, &key);
        if (s->states[var] != OPEN || key != s->weights[var]) {
            continue;
        }
        s->open_count--;
        if (key <= s->limit) {
            GY_TRY(eliminate(s, var));
        } else {
            const int32_t wide = widest(s);
            GY_TRY(keep(s, wide));
            GY_TRY(wide != var ? heap_push(&s->cheap, var, s->weights[var]) : GY_OK);
        }
    }
    for (int32_t i = s->order_count - 1; i >= 0; i--) {
        choose_value(s, s->order[i]);
    }
    return GY_OK;
}

/* A pair's cost with value `x` of `var`: with the other variable's value where that stands
 * before it, else with the value that would suit the pair best. */
static double first_pair_cost(const solver *s, const factor *f, int32_t var, int32_t x)
{
    const gy_choices *of = s->of;
    const int own = f->vars[0] == var ? 0 : 1;
    const int32_t other = f->vars[1 - own], stride = f->strides[1 - own];
    GY_ASSERT(f->table != NULL && other != var);
    const double *line = f->table + (size_t)f->strides[own] * (size_t)x;
    if (other < var) {
        return line[(size_t)stride * (size_t)s->chosen[other]];
    }
    double least = INFINITY;
    for (int32_t y = 0; y < of->sizes[other]; y++) {
        const double sum = line[(size_t)stride * (size_t)y] + single_cost(of, other, y);
        least = sum < least ? sum : least;
    }
    return least;
}

/* Where the rounds may begin: each variable in turn the best for those before it, and for those
 * behind it if they could choose for it alone. */
static gy_status choose_first(solver *s)
{
    GY_ASSERT(s->round == 0);
    GY_TRY(begin_round(s));
    for (int32_t var = 0; var < s->of->count; var++) {
        int32_t best = 0;
        double best_sum = INFINITY;
        for (int32_t i = 0; i < s->at[var].count; i++) {
            GY_TRY(make_table(s, &s->factors[s->at[var].list[i]]));
        }
        for (int32_t x = 0; x < s->of->sizes[var]; x++) {
            double sum = single_cost(s->of, var, x);
            for (int32_t i = 0; i < s->at[var].count && sum < best_sum; i++) {
                sum += first_pair_cost(s, &s->factors[s->at[var].list[i]], var, x);
            }
            if (sum < best_sum * (1 - rounding)) {
                best_sum = sum;
                best = x;
            }
        }
        s->chosen[var] = best;
    }
    return GY_OK;
}

static gy_status run_rounds(solver *s, int32_t *chosen, bool *is_exact)
{
    GY_ASSERT(is_exact != NULL);
    const size_t bytes = (size_t)s->of->count * sizeof(*chosen);
    const int rounds = s->of->rounds > 0 ? s->of->rounds : ROUNDS;
    memset(chosen, 0, bytes);
    double best = gy_choices_cost(s->of, chosen);
    GY_TRY(choose_first(s));
    const double first = gy_choices_cost(s->of, s->chosen);
    if (first < best * (1 - rounding)) {
        best = first;
        memcpy(chosen, s->chosen, bytes);
    }
    memcpy(s->chosen, chosen, bytes);
    int worse = 0;
    s->has_kept = true;
    for (s->round = 0; s->round < rounds && s->has_kept && worse < 2; s->round++) {
        GY_TRY(run_round(s));
        const double cost = gy_choices_cost(s->of, s->chosen);
        const bool is_better = cost < best * (1 - rounding);
        worse = is_better ? 0 : worse + 1;
        if (is_better || !s->has_kept) {
            best = cost;
            memcpy(chosen, s->chosen, bytes);
        } else {
            memcpy(s->chosen, chosen, bytes);
        }
    }
    *is_exact = !s->has_kept;
    return GY_OK;
}

static void free_solver(solver *s)
{
    for (int32_t i = 0; s->at != NULL && i < s->of->count; i++) {
        gy_free(s->at[i].list);
    }
    gy_free(s->at);
    gy_free(s->states);
    gy_free(s->kept_at);
    gy_free(s->order);
    gy_free(s->weights);
    gy_free(s->chosen);
    gy_free(s->widths);
    gy_free(s->live);
    gy_free(s->cheap.vars);
    gy_free(s->cheap.keys);
    gy_free(s->wide.vars);
    gy_free(s->wide.keys);
    gy_free(s->factors);
    gy_free(s->pair_tables);
    gy_free(s->left_tables);
    gy_index_free(&s->left);
    gy_arena_free(&s->pair_arena);
    gy_arena_free(&s->arena);
}

gy_status gy_choices_solve(const gy_choices *choices, int32_t *chosen, bool *is_exact)
{
    GY_ASSERT(choices->limit >= 0 && choices->rounds >= 0);
    GY_ASSERT(choices->count >= 0 && choices->pair_count >= 0);
    const size_t count = (size_t)choices->count + 1;
    bool ignored;
    solver s = {.of = choices, .limit = choices->limit > 0 ? choices->limit : LIMIT};
    s.at = gy_alloc_zero("graph.place", count, sizeof(*s.at));
    s.states = gy_alloc_zero("graph.place", count, sizeof(*s.states));
    s.kept_at = gy_alloc("graph.place", count * sizeof(*s.kept_at));
    s.order = gy_alloc("graph.place", count * sizeof(*s.order));
    s.weights = gy_alloc_zero("graph.place", count, sizeof(*s.weights));
    s.live = gy_alloc_zero("graph.place", count, sizeof(*s.live));
    s.widths = gy_alloc_zero("graph.place", count, sizeof(*s.widths));
    s.chosen = gy_alloc_zero("graph.place", count, sizeof(*s.chosen));
    s.pair_tables = gy_alloc_zero(
        "graph.place",
        (size_t)(choices->pair_kinds != NULL ? choices->pair_kind_count : choices->pair_count) +
            1,
        sizeof(*s.pair_tables));
    gy_status status = s.at == NULL || s.states == NULL || s.kept_at == NULL ||
                               s.order == NULL || s.weights == NULL || s.chosen == NULL ||
                               s.pair_tables == NULL || s.widths == NULL || s.live == NULL
                           ? GY_NOMEM
                           : GY_OK;
    if (status >= 0) {
        memset(s.kept_at, 0xff, count * sizeof(*s.kept_at));
        status = run_rounds(&s, chosen, is_exact != NULL ? is_exact : &ignored);
    }
    free_solver(&s);
    return status;
}
