/*
 * Whether two accesses of a parfor's iterations may meet in a cell.
 *
 * A subscript is taken as c0 + c1*i + c2*j + ... of loop variables. For two iterations i and
 * i + d*step, d >= 1, the ranges [la, ha] and [lb, hb] of one dimension are disjoint where
 * max(hb - la) < 0 or max(ha - lb) < 0. Both are linear, so the maximum lies where the loop
 * variables are at their ends, which are tried all. Points are disjoint, too, where the
 * divisors of their factors say that no whole numbers make them equal.
 */
#include "dml/run/parfor_priv.h"

#include <math.h>
#include <string.h>

enum { TERMS = 12, NESTED = 12, CHAIN = 5, INVARIANT = 1 << 20 };
enum { DEPTH_MAX = 60, STEPS_MAX = 4000 };

static const double far_away = 0x1p30; /* where an end is not known */

typedef enum form_kind {
    LINEAR, /* perhaps with variables that the loop does not change */
    OPEN,   /* linear or not, by values that are not known yet */
    OTHER,  /* not linear, or by what an iteration computes */
} form_kind;

typedef struct term {
    int symbol; /* a loop of the accesses, or INVARIANT + slot */
    double factor;
} term;

typedef struct form {
    form_kind kind;
    double constant;
    int count;
    term terms[TERMS];
} form;

typedef struct builder {
    const gy_dml_known *known;
    int depth, steps; /* bounded: names that stand for names could double without end */
} builder;

static form of_kind(form_kind kind)
{
    return (form){.kind = kind};
}

static form of_constant(double value)
{
    return (form){.kind = LINEAR, .constant = value};
}

static double factor_of(const form *of, int symbol)
{
    for (int i = 0; i < of->count; i++) {
        if (of->terms[i].symbol == symbol) {
            return of->terms[i].factor;
        }
    }
    return 0;
}

/* x + scale * y */
static form add_scaled(const form *x, const form *y, double scale)
{
    form sum = *x;
    sum.kind = GY_MAX(x->kind, y->kind);
    sum.constant += scale * y->constant;
    for (int i = 0; i < y->count; i++) {
        int at = 0;
        while (at < sum.count && sum.terms[at].symbol != y->terms[i].symbol) {
            at++;
        }
        if (at == TERMS) {
            return of_kind(OTHER);
        }
        if (at == sum.count) {
            sum.terms[sum.count++] = (term){y->terms[i].symbol, 0};
        }
        sum.terms[at].factor += scale * y->terms[i].factor;
    }
    int kept = 0;
    for (int i = 0; i < sum.count; i++) {
        if (sum.terms[i].factor != 0) {
            sum.terms[kept++] = sum.terms[i];
        }
    }
    sum.count = kept;
    return sum;
}

static bool is_constant(const form *of)
{
    return of->kind == LINEAR && of->count == 0;
}

static bool has_loops(const form *of)
{
    for (int i = 0; i < of->count; i++) {
        if (of->terms[i].symbol < INVARIANT) {
            return true;
        }
    }
    return false;
}

/* What is not linear becomes known, or not, with the values of what no iteration changes. */
static form combine(gy_dml_sign sign, const form *x, const form *y)
{
    const form_kind worst = GY_MAX(x->kind, y->kind);
    if (worst == OTHER) {
        return of_kind(OTHER);
    }
    if (sign == GY_DML_PLUS || sign == GY_DML_MINUS) {
        return add_scaled(x, y, sign == GY_DML_PLUS ? 1 : -1);
    }
    if (sign == GY_DML_MULTIPLY && (is_constant(x) || is_constant(y))) {
        const form none = of_constant(0);
        return is_constant(x) ? add_scaled(&none, y, x->constant)
                              : add_scaled(&none, x, y->constant);
    }
    if (is_constant(x) && is_constant(y)) {
        const double a = x->constant, b = y->constant;
        switch ((int)sign) {
        case GY_DML_DIVIDE:
            return of_constant(a / b);
        case GY_DML_WHOLE_DIVIDE:
            return of_constant(gy_dml_whole_divide(a, b));
        case GY_DML_MODULO:
            return of_constant(gy_dml_modulo(a, b));
        case GY_DML_POWER:
            return of_constant(pow(a, b));
        default:
            return of_kind(OTHER);
        }
    }
    const bool may_fold = (sign == GY_DML_MULTIPLY && (!has_loops(x) || !has_loops(y))) ||
                          (!has_loops(x) && !has_loops(y));
    return of_kind(may_fold ? OPEN : OTHER);
}

static form build(builder *in, const gy_dml_node *node, int block, int side);

static int slot_of(const gy_dml_function *function, const char *name)
{
    for (size_t i = 0; i < function->name_count; i++) {
        if (strcmp(function->names[i], name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/* A variable that no iteration changes. */
static form build_invariant(const builder *in, const char *name)
{
    const gy_dml_known *known = in->known;
    const int slot = slot_of(known->function, name);
    const gy_dml_node *function = known->function->node, *value = NULL;
    if (slot < 0) {
        return of_kind(OTHER);
    }
    if (known->slots != NULL) {
        const gy_dml_value *found = &known->slots[slot];
        return found->kind == GY_DML_IS_INTEGER ? of_constant((double)found->whole)
               : found->kind == GY_DML_IS_REAL  ? of_constant(found->real)
                                                : of_kind(OTHER);
    }
    const bool is_parameter = slot < known->function->parameter_count;
    const gy_dml_node *statements =
        function != NULL ? function->c : known->function->unit->program.statements;
    if (!is_parameter && gy_dml_count_writes(name, statements, &value) == 1 && value != NULL &&
        value->kind == GY_DML_INTEGER) {
        return of_constant((double)value->whole);
    }
    return (form){.kind = LINEAR, .count = 1, .terms = {{INVARIANT + slot, 1}}};
}

/* The loop around a block whose variable has the name; -1: none. */
static int loop_of(const gy_dml_accesses *accesses, int block, const char *name)
{
    for (int loop = accesses->blocks[block].loop; loop >= 0;
         loop = accesses->loops[loop].outer) {
        if (strcmp(accesses->loops[loop].node->text, name) == 0) {
            return loop;
        }
    }
    return -1;
}

static bool is_around(const gy_dml_accesses *accesses, int outer, int block)
{
    while (block >= 0 && block != outer) {
        block = accesses->blocks[block].outer;
    }
    return block == outer;
}

/* The block that is a loop's body. */
static int block_of(const gy_dml_accesses *accesses, int loop)
{
    int block = 0;
    while (accesses->blocks[block].loop != loop) {
        block++;
    }
    return block;
}

/* How often the name is assigned in a block and those within; the last such access. */
static int writes_in(const gy_dml_accesses *accesses, int block, const char *name,
                     const gy_dml_access **last)
{
    int writes = 0;
    for (size_t i = 0; i < accesses->count; i++) {
        const gy_dml_access *one = &accesses->items[i];
        if (one->is_write && strcmp(one->name, name) == 0 &&
            is_around(accesses, block, one->block)) {
            *last = one;
            writes++;
        }
    }
    return writes;
}

/* A name that is assigned in the body once, before `node`, in a block around it, stands for
 * what is assigned. */
static form build_name(builder *in, const gy_dml_node *node, int block, int side)
{
    const gy_dml_accesses *accesses = in->known->accesses;
    const gy_dml_access *only = NULL;
    const int loop = loop_of(accesses, block, node->text);
    if (loop >= 0) { /* the loop's variable, unless its body assigns it */
        return writes_in(accesses, block_of(accesses, loop), node->text, &only) == 0
                   ? (form){.kind = LINEAR, .count = 1, .terms = {{loop, 1}}}
                   : of_kind(OTHER);
    }
    const int writes = writes_in(accesses, 0, node->text, &only);
    if (writes == 0) {
        return build_invariant(in, node->text);
    }
    if (writes != 1 || only->value == NULL || only->node->place > node->place ||
        !is_around(accesses, only->block, block)) {
        return of_kind(OTHER);
    }
    return build(in, only->value, only->block, side);
}

/* nrow(X) of a matrix that no iteration replaces. */
static form build_size(const builder *in, const gy_dml_node *call)
{
    const gy_dml_known *known = in->known;
    const char *name = call->a->a->text;
    const int slot = slot_of(known->function, name);
    for (size_t i = 0; i < known->accesses->count; i++) {
        const gy_dml_access *one = &known->accesses->items[i];
        if (one->is_write && one->is_whole && strcmp(one->name, name) == 0) {
            return of_kind(OTHER);
        }
    }
    if (known->slots == NULL) {
        return of_kind(OPEN);
    }
    if (slot < 0 || known->slots[slot].kind != GY_DML_IS_MATRIX) {
        return of_kind(OTHER);
    }
    const gy_dml_matrix *matrix = known->slots[slot].matrix;
    return of_constant(strcmp(call->text, "nrow") == 0   ? (double)matrix->rows
                       : strcmp(call->text, "ncol") == 0 ? (double)matrix->columns
                                                         : (double)gy_dml_matrix_count(matrix));
}

/* min(x, y) is no more than x, so it serves as the end of a range; max as its begin. */
static form build_call(builder *in, const gy_dml_node *node, int block, int side)
{
    const gy_dml_node *first = node->a;
    const int args = first == NULL               ? 0
                     : first->next == NULL       ? 1
                     : first->next->next == NULL ? 2
                                                 : 3;
    const bool is_size = strcmp(node->text, "nrow") == 0 || strcmp(node->text, "ncol") == 0 ||
                         strcmp(node->text, "length") == 0;
    if (args == 1 && is_size && first->a->kind == GY_DML_NAME) {
        return build_size(in, node);
    }
    if (args == 1 &&
        (strcmp(node->text, "as.integer") == 0 || strcmp(node->text, "as.scalar") == 0)) {
        return build(in, first->a, block, side);
    }
    if (args == 2 && ((side > 0 && strcmp(node->text, "min") == 0) ||
                      (side < 0 && strcmp(node->text, "max") == 0))) {
        const form x = build(in, first->a, block, side);
        const form y = build(in, first->next->a, block, side);
        return x.kind == LINEAR && (has_loops(&x) || y.kind != LINEAR) ? x : y;
    }
    return of_kind(OTHER);
}

static form build_operation(builder *in, const gy_dml_node *node, int block, int side)
{
    const form zero = of_constant(0);
    const bool is_minus = node->sign == GY_DML_MINUS, is_plus = node->sign == GY_DML_PLUS;
    if (node->kind == GY_DML_UNARY) {
        const form x = build(in, node->a, block, is_minus ? -side : side);
        return is_minus ? add_scaled(&zero, &x, -1) : is_plus ? x : of_kind(OTHER);
    }
    const form x = build(in, node->a, block, is_plus || is_minus ? side : 0);
    const form y = build(in, node->b, block, is_plus ? side : is_minus ? -side : 0);
    return combine((gy_dml_sign)node->sign, &x, &y);
}

/* side: 1 for the end of a range, where no less will do, -1 for its begin, 0 for neither. */
static form build(builder *in, const gy_dml_node *node, int block, int side)
{
    form made = of_kind(OTHER);
    if (in->depth == DEPTH_MAX || ++in->steps > STEPS_MAX) {
        return made;
    }
    in->depth++;
    switch (node->kind) {
    case GY_DML_INTEGER:
        made = of_constant((double)node->whole);
        break;
    case GY_DML_DOUBLE:
        made = of_constant(node->real);
        break;
    case GY_DML_NAME:
        made = build_name(in, node, block, side);
        break;
    case GY_DML_UNARY:
    case GY_DML_BINARY:
        made = build_operation(in, node, block, side);
        break;
    case GY_DML_CALL:
        made = build_call(in, node, block, side);
        break;
    default:
        break;
    }
    in->depth--;
    return made;
}

/* Whole numbers only: others are cut, and no longer linear. */
static form whole(form of)
{
    bool is_whole = rint(of.constant) == of.constant && fabs(of.constant) < far_away;
    for (int i = 0; i < of.count; i++) {
        is_whole = is_whole && rint(of.terms[i].factor) == of.terms[i].factor &&
                   fabs(of.terms[i].factor) < far_away;
    }
    return of.kind == LINEAR && !is_whole ? of_kind(OTHER) : of;
}

/* ---- the loops around an access ---- */

typedef struct chain {
    int loops[NESTED]; /* outermost first: the parfor */
    int count;
    form from[NESTED], end[NESTED];
    bool is_known[NESTED]; /* both ends by loops further out alone */
} chain;

/* The parfor's iterations: first + step * k, 0 <= k < count. */
typedef struct iterations {
    double first, step, count;
    bool has_first, has_count, has_step, is_whole;
} iterations;

static bool is_closed(const form *of)
{
    if (of->kind != LINEAR) {
        return false;
    }
    for (int i = 0; i < of->count; i++) {
        if (of->terms[i].symbol >= INVARIANT) {
            return false;
        }
    }
    return true;
}

static form build_at(const gy_dml_known *known, const gy_dml_node *node, int block, int side)
{
    builder in = {.known = known};
    return build(&in, node, block, side);
}

static iterations space_of(const gy_dml_known *known)
{
    const gy_dml_node *loop = known->accesses->loops[0].node;
    /* in the parfor's own block its variable is a symbol, which its ends do not have */
    const form first = build_at(known, loop->a, 0, 0), end = build_at(known, loop->b, 0, 0);
    const form step = loop->c != NULL ? build_at(known, loop->c, 0, 0) : of_constant(1);
    iterations of = {.first = 0, .step = 1, .count = far_away, .is_whole = true};
    of.has_first = is_constant(&first);
    of.has_step = is_constant(&step) && step.constant != 0;
    if (of.has_step) {
        of.step = step.constant;
    }
    if (of.has_first) {
        of.first = first.constant;
    }
    if (of.has_first && is_constant(&end) && of.has_step) {
        of.step = loop->c == NULL && end.constant < first.constant ? -1 : of.step;
        of.has_count = true;
        of.count = GY_MAX(floor((end.constant - of.first) / of.step + 1e-10) + 1, 0);
    }
    of.is_whole = rint(of.step) == of.step && rint(of.first) == of.first;
    return of;
}

static bool chain_of(const gy_dml_known *known, const iterations *space, int block, chain *out)
{
    const gy_dml_accesses *accesses = known->accesses;
    out->count = 0;
    for (int loop = accesses->blocks[block].loop; loop >= 0;
         loop = accesses->loops[loop].outer) {
        if (out->count == NESTED) {
            return false;
        }
        out->loops[out->count++] = loop;
    }
    for (int i = 0; i < out->count / 2; i++) {
        const int other = out->loops[i];
        out->loops[i] = out->loops[out->count - 1 - i];
        out->loops[out->count - 1 - i] = other;
    }
    for (int i = 1; i < out->count; i++) {
        const gy_dml_node *node = accesses->loops[out->loops[i]].node;
        const int around = accesses->blocks[block_of(accesses, out->loops[i])].outer;
        out->from[i] = build_at(known, node->a, around, 0);
        out->end[i] = build_at(known, node->b, around, 0);
        out->is_known[i] = is_closed(&out->from[i]) && is_closed(&out->end[i]) &&
                           (space->has_first || (factor_of(&out->from[i], 0) == 0 &&
                                                 factor_of(&out->end[i], 0) == 0));
    }
    return out->count <= CHAIN;
}

static double value_at(const form *of, const double *values)
{
    double sum = of->constant;
    for (int i = 0; i < of->count; i++) {
        if (of->terms[i].symbol < INVARIANT) {
            sum += of->terms[i].factor * values[of->terms[i].symbol];
        }
    }
    return sum;
}

/* Every loop variable of a chain at one of its ends, by the bits of `ends`. */
static void place_loops(const chain *of, double own, unsigned ends, double *values)
{
    values[0] = own;
    for (int i = 1; i < of->count; i++) {
        const bool is_end = (ends >> (i - 1) & 1) != 0;
        values[of->loops[i]] = of->is_known[i]
                                   ? value_at(is_end ? &of->end[i] : &of->from[i], values)
                               : is_end ? far_away
                                        : -far_away;
    }
}

typedef struct pair {
    const gy_dml_known *known;
    iterations space;
    chain a, b;
    double *values_a, *values_b; /* by loop */
    bool is_vague;               /* something was not known: no overlap is sure */
} pair;

/* max(high(I) - low(I')) where I' comes `sign` * d iterations after I; high is of `first`. */
static double largest(pair *of, const form *high, const form *low, bool high_is_a, int sign)
{
    const double last = of->space.count - 1;
    const double corners[3][2] = {{0, 1}, {last - 1, last}, {0, last}};
    double most = -INFINITY;
    for (int k = 0; k < 3; k++) {
        const double a = of->space.first + of->space.step * corners[k][sign > 0 ? 0 : 1];
        const double b = of->space.first + of->space.step * corners[k][sign > 0 ? 1 : 0];
        const unsigned choices_a = 1U << (of->a.count - 1), choices_b = 1U << (of->b.count - 1);
        for (unsigned ends = 0; ends < choices_a * choices_b; ends++) {
            place_loops(&of->a, a, ends % choices_a, of->values_a);
            place_loops(&of->b, b, ends / choices_a, of->values_b);
            const double difference = value_at(high, high_is_a ? of->values_a : of->values_b) -
                                      value_at(low, high_is_a ? of->values_b : of->values_a);
            most = GY_MAX(most, difference);
        }
    }
    return most;
}

/* Whether the difference of two forms is known: the same variables on both sides cancel. */
static bool has_known_difference(const pair *of, const form *x, const form *y)
{
    const form difference = add_scaled(x, y, -1);
    for (int i = 0; i < difference.count; i++) {
        const int symbol = difference.terms[i].symbol;
        if (symbol >= INVARIANT || (symbol == 0 && !of->space.has_first)) {
            return false;
        }
    }
    return true;
}

static double divisor(double x, double y)
{
    x = fabs(x);
    y = fabs(y);
    while (y != 0) {
        const double rest = fmod(x, y);
        x = y;
        y = rest;
    }
    return x;
}

/* f(I) = g(I') has no solution in whole numbers. */
static bool divides_apart(const pair *of, const form *f, const form *g)
{
    const double f_own = factor_of(f, 0), g_own = factor_of(g, 0);
    const bool may_step =
        of->space.has_step && of->space.is_whole && (of->space.has_first || f_own == g_own);
    const double step = may_step ? of->space.step : 1;
    double all = divisor(f_own * step, g_own * step);
    double rest = f->constant - g->constant;
    rest += may_step && of->space.has_first ? (f_own - g_own) * of->space.first : 0;
    for (int k = 0; k < 2; k++) {
        const form *one = k == 0 ? f : g;
        for (int i = 0; i < one->count; i++) {
            if (one->terms[i].symbol != 0 && one->terms[i].symbol < INVARIANT) {
                all = divisor(all, one->terms[i].factor);
            }
        }
    }
    return all == 0 ? rest != 0 : fmod(rest, all) != 0;
}

/* One dimension; NULL: all of it. */
typedef struct range {
    form low, high;
    bool is_point;
} range;

static range range_of(const gy_dml_known *known, const gy_dml_node *node, int block)
{
    range of = {.is_point = node->b == NULL};
    of.low = whole(build_at(known, node->a, block, of.is_point ? 0 : -1));
    of.high = of.is_point ? of.low : whole(build_at(known, node->b, block, 1));
    return of;
}

static bool is_apart(pair *of, const range *a, const range *b, int sign)
{
    if (GY_MAX(GY_MAX(a->low.kind, a->high.kind), GY_MAX(b->low.kind, b->high.kind)) !=
        LINEAR) {
        of->is_vague = of->is_vague || a->low.kind == OPEN || a->high.kind == OPEN ||
                       b->low.kind == OPEN || b->high.kind == OPEN;
        return false;
    }
    if (a->is_point && b->is_point && has_known_difference(of, &a->low, &b->low) &&
        divides_apart(of, &a->low, &b->low)) {
        return true;
    }
    const bool over = has_known_difference(of, &a->high, &b->low),
               under = has_known_difference(of, &b->high, &a->low);
    of->is_vague = of->is_vague || !over || !under;
    return (over && largest(of, &a->high, &b->low, true, sign) < 0) ||
           (under && largest(of, &b->high, &a->low, false, sign) < 0);
}

/* Apart in one direction of time by rows or by columns. */
static bool is_apart_in(pair *of, const gy_dml_access *a, const gy_dml_access *b, int sign)
{
    const gy_dml_node *const dims[2][2] = {{a->node->a, b->node->a}, {a->node->b, b->node->b}};
    bool is_it = false;
    for (int k = 0; k < 2 && !is_it; k++) {
        if (dims[k][0] != NULL && dims[k][1] != NULL) {
            const range x = range_of(of->known, dims[k][0], a->block);
            const range y = range_of(of->known, dims[k][1], b->block);
            is_it = is_apart(of, &x, &y, sign);
        }
    }
    return is_it;
}

gy_dml_verdict gy_dml_depend(const gy_dml_known *known, const gy_dml_access *a,
                             const gy_dml_access *b)
{
    enum { LOOPS = 64 };
    double values_a[LOOPS] = {0}, values_b[LOOPS] = {0};
    pair of = {.known = known, .values_a = values_a, .values_b = values_b};
    if (a->is_whole || b->is_whole || a->node->form != b->node->form ||
        known->accesses->loop_count > LOOPS) {
        return GY_DML_DEPENDENT;
    }
    of.space = space_of(known);
    if (of.space.has_count && of.space.count <= 1) {
        return GY_DML_INDEPENDENT;
    }
    if (!chain_of(known, &of.space, a->block, &of.a) ||
        !chain_of(known, &of.space, b->block, &of.b)) {
        return GY_DML_DEPENDENT;
    }
    of.is_vague = !of.space.has_count || !of.space.has_step;
    for (int k = 0; k < 2; k++) {
        const chain *one = k == 0 ? &of.a : &of.b;
        for (int i = 1; i < one->count; i++) {
            of.is_vague = of.is_vague || !one->is_known[i];
        }
    }
    if (of.space.has_first && of.space.has_step && !of.space.is_whole) {
        return GY_DML_DEPENDENT;
    }
    const bool is_apart_both = is_apart_in(&of, a, b, 1) && is_apart_in(&of, a, b, -1);
    const bool may_trust = of.space.has_step || known->slots != NULL;
    return is_apart_both && may_trust            ? GY_DML_INDEPENDENT
           : of.is_vague && known->slots == NULL ? GY_DML_UNDECIDED
                                                 : GY_DML_DEPENDENT;
}
