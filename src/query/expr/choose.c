/* case, coalesce, nullif, greatest, least and in: each evaluates its parts only for the rows
 * that need them. */
#include "query/expr/expr_priv.h"

#include <stdlib.h>
#include <string.h>

static uint64_t *words(gy_expr_work *work)
{
    return gy_expr_memory(work, GY_EXPR_WORDS * sizeof(uint64_t));
}

/* ---- merging ---- */

/* What becomes of the rows: their values so far. */
typedef struct merge {
    int of;
    void *values;
    uint64_t *valid, *left; /* rows with a value that is not null; rows without any yet */
} merge;

static gy_status begin_merge(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                             merge *to)
{
    *to = (merge){.of = gy_expr_class(&expr->type)};
    to->values = gy_expr_values(work, to->of);
    to->valid = words(work);
    to->left = words(work);
    if (to->values == NULL || to->valid == NULL || to->left == NULL) {
        return GY_NOMEM;
    }
    const size_t size = gy_expr_class_bytes(to->of);
    memset(to->values, 0,
           size == 0 ? GY_EXPR_WORDS * sizeof(uint64_t) : size * (size_t)work->rows);
    memset(to->valid, 0, GY_EXPR_WORDS * sizeof(uint64_t));
    memcpy(to->left, mask, GY_EXPR_WORDS * sizeof(uint64_t));
    return GY_OK;
}

/* Take the values of the rows in `taken`, which have none yet. */
static gy_status merge_rows(gy_expr_work *work, merge *to, const uint64_t *taken,
                            gy_expr_vector *from)
{
    const size_t size = gy_expr_class_bytes(to->of);
    GY_TRY(gy_expr_spread(work, to->of, from));
    for (int w = 0; w < gy_expr_words(work); w++) {
        to->left[w] &= ~taken[w];
        to->valid[w] |= taken[w] & (from->valid != NULL ? from->valid[w] : UINT64_MAX);
        if (size == 0) {
            ((uint64_t *)to->values)[w] |= from->bits[w] & taken[w];
            continue;
        }
        const size_t first = (size_t)w * 64 * size;
        if (taken[w] == UINT64_MAX) {
            memcpy((char *)to->values + first, (const char *)from->any + first, 64 * size);
            continue;
        }
        for (uint64_t bits = taken[w]; bits != 0; bits &= bits - 1) {
            const size_t at = first + (size_t)__builtin_ctzll(bits) * size;
            memcpy((char *)to->values + at, (const char *)from->any + at, size);
        }
    }
    return GY_OK;
}

static void end_merge(const merge *to, gy_expr_vector *out)
{
    out->any = to->values;
    out->valid = to->valid;
}

/* ---- case ---- */

static gy_status run_branch(gy_expr_work *work, const gy_expr *condition, const gy_expr *result,
                            uint64_t *taken, merge *to)
{
    gy_expr_vector made;
    memcpy(taken, to->left, GY_EXPR_WORDS * sizeof(*taken));
    if (condition != NULL) {
        GY_TRY(gy_expr_eval(work, condition, to->left, &made));
        GY_TRY(gy_expr_spread(work, GY_FIELD_BOOL, &made));
        for (int w = 0; w < gy_expr_words(work); w++) {
            taken[w] &= made.bits[w] & (made.valid != NULL ? made.valid[w] : UINT64_MAX);
        }
    }
    if (gy_expr_is_empty(work, taken)) {
        return GY_OK;
    }
    GY_TRY(gy_expr_eval(work, result, taken, &made));
    return merge_rows(work, to, taken, &made);
}

static gy_status run_case(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                          gy_expr_vector *out)
{
    merge to;
    uint64_t *taken = words(work);
    if (taken == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(begin_merge(work, expr, mask, &to));
    for (int i = 0; i < expr->count && !gy_expr_is_empty(work, to.left); i += 2) {
        const gy_expr_mark mark = gy_expr_mark_of(work);
        const bool is_else = i + 1 == expr->count;
        GY_TRY(run_branch(work, is_else ? NULL : expr->args[i], expr->args[is_else ? i : i + 1],
                          taken, &to));
        gy_expr_release(work, mark);
    }
    end_merge(&to, out);
    return GY_OK;
}

static gy_status run_coalesce(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                              gy_expr_vector *out)
{
    merge to;
    uint64_t *taken = words(work);
    if (taken == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(begin_merge(work, expr, mask, &to));
    for (int i = 0; i < expr->count && !gy_expr_is_empty(work, to.left); i++) {
        const gy_expr_mark mark = gy_expr_mark_of(work);
        gy_expr_vector made;
        GY_TRY(gy_expr_eval(work, expr->args[i], to.left, &made));
        GY_TRY(gy_expr_spread(work, to.of, &made));
        for (int w = 0; w < gy_expr_words(work); w++) {
            taken[w] = to.left[w] & (made.valid != NULL ? made.valid[w] : UINT64_MAX);
        }
        GY_TRY(merge_rows(work, &to, taken, &made));
        gy_expr_release(work, mark);
    }
    end_merge(&to, out);
    return GY_OK;
}

/* ---- nullif, greatest, least ---- */

/* Arguments: the value, and whether it is null instead. */
static gy_status run_nullif(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                            gy_expr_vector *out)
{
    gy_expr_vector same;
    uint64_t *valid = words(work);
    if (valid == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_expr_eval(work, expr->args[0], mask, out));
    GY_TRY(gy_expr_spread(work, gy_expr_class(&expr->type), out));
    GY_TRY(gy_expr_eval(work, expr->args[1], mask, &same));
    GY_TRY(gy_expr_spread(work, GY_FIELD_BOOL, &same));
    for (int w = 0; w < gy_expr_words(work); w++) {
        valid[w] = (out->valid != NULL ? out->valid[w] : UINT64_MAX) &
                   ~(same.bits[w] & (same.valid != NULL ? same.valid[w] : UINT64_MAX));
    }
    out->valid = valid;
    return GY_OK;
}

static gy_status row_extreme(gy_expr_work *work, const gy_expr *expr, const gy_expr_cell *args,
                             gy_expr_cell *out)
{
    (void)work;
    const int of = gy_expr_class(&expr->type);
    *out = args[0];
    for (int i = 1; i < expr->count; i++) {
        if (args[i].is_null) {
            continue;
        }
        const int order = out->is_null ? 0 : gy_expr_order(of, &args[i], out);
        if (out->is_null || (expr->op == GY_SQL_GREATEST ? order > 0 : order < 0)) {
            *out = args[i];
        }
    }
    return GY_OK;
}

/* ---- in ---- */

enum {
    FEW = 8,       /* texts that are compared one after the other */
    SCALE_FEW = 18 /* places that any int64 has room for */
};

/* The values of a list, ascending. */
typedef struct values {
    int of, count;
    bool has_null;
    gy_expr_cell cells[];
} values;

static int compare_cells(const void *a, const void *b, void *of)
{
    return gy_expr_order(*(const int *)of, a, b);
}

/* Equal by bytes. */
static bool is_text_among(const values *list, gy_text_view text)
{
    for (int i = 0; i < list->count; i++) {
        const gy_text_view one = list->cells[i].text;
        if (one.size_bytes == text.size_bytes &&
            (one.size_bytes == 0 || memcmp(one.data, text.data, one.size_bytes) == 0)) {
            return true;
        }
    }
    return false;
}

static bool is_among(const values *list, const gy_expr_cell *cell)
{
    if (list->of == GY_FIELD_TEXT && list->count <= FEW) {
        return is_text_among(list, cell->text);
    }
    int begin = 0, end = list->count;
    while (begin < end) {
        const int middle = begin + (end - begin) / 2;
        const int order = gy_expr_order(list->of, &list->cells[middle], cell);
        if (order == 0) {
            return true;
        }
        begin = order < 0 ? middle + 1 : begin;
        end = order < 0 ? end : middle;
    }
    return false;
}

static gy_status run_in(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                        gy_expr_vector *out)
{
    const values *list = expr->list;
    gy_expr_vector arg;
    uint64_t *bits = words(work), *valid = words(work);
    if (bits == NULL || valid == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_expr_eval_args(work, expr, mask, &arg, out));
    memset(bits, 0, GY_EXPR_WORDS * sizeof(*bits));
    for (int row = 0; row < work->rows; row++) {
        if (gy_expr_bit(mask, row) && gy_expr_bit(out->valid, row)) {
            const gy_expr_cell cell = gy_expr_cell_at(list->of, &arg, row);
            bits[row >> 6] |= (uint64_t)is_among(list, &cell) << (row & 63);
        }
    }
    for (int w = 0; w < gy_expr_words(work); w++) {
        valid[w] = (out->valid != NULL ? out->valid[w] : UINT64_MAX) &
                   (list->has_null ? bits[w] : UINT64_MAX);
        bits[w] = expr->is_not ? ~bits[w] : bits[w];
    }
    out->bits = bits;
    out->valid = valid;
    return GY_OK;
}

/* All values are constants of the tested value's type. */
static gy_status bind_list(gy_expr_binder *in, const gy_sql_node *node, const gy_expr **args,
                           const gy_expr **out)
{
    int of = gy_expr_class(&args[0]->type);
    values *list = gy_expr_new(in, sizeof(*list) + node->count * sizeof(list->cells[0]));
    if (list == NULL) {
        return GY_NOMEM;
    }
    list->of = of;
    for (uint32_t i = 1; i < node->count; i++) {
        list->has_null = list->has_null || args[i]->cell.is_null;
        if (!args[i]->cell.is_null) {
            list->cells[list->count++] = args[i]->cell;
        }
    }
    qsort_r(list->cells, (size_t)list->count, sizeof(list->cells[0]), compare_cells, &of);
    const gy_expr_spec spec = {
        .run = run_in,
        .type = gy_expr_simple(GY_FIELD_BOOL, args[0]->type.is_nullable || list->has_null),
        .args = args,
        .count = 1,
        .is_not = node->is_not,
        .list = list,
        .name = "in",
        .place = node->place};
    return gy_expr_make(in, &spec, out);
}

/* x = a or x = b or ... */
static gy_status bind_equals(gy_expr_binder *in, const gy_sql_node *node, const gy_expr **args,
                             const gy_expr **out)
{
    const gy_expr **equals = gy_expr_new(in, node->count * sizeof(*equals));
    const gy_expr *any = NULL;
    if (equals == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 1; i < node->count; i++) {
        GY_TRY(
            gy_expr_compare(in, node->place, GY_EXPR_EQUAL, args[0], args[i], &equals[i - 1]));
    }
    GY_TRY(gy_expr_chain(in, node->place, GY_SQL_OR, equals, (int)node->count - 1, &any));
    if (node->is_not) {
        return gy_expr_not(in, node->place, any, out);
    }
    *out = any;
    return GY_OK;
}

/* Whether a value keeps its digits before the point in a decimal of that type. */
static bool has_all_digits(const gy_expr_type *from, const gy_expr_type *to)
{
    return to->kind != GY_FIELD_DECIMAL || from->kind != GY_FIELD_DECIMAL ||
           from->precision - from->scale <= to->precision - to->scale;
}

gy_status gy_expr_bind_in(gy_expr_binder *in, const gy_sql_node *node, const gy_expr **out)
{
    const gy_expr **args = NULL, **same = NULL;
    gy_expr_type common;
    bool are_constant = true, have_common = true;
    GY_ASSERT(node->count >= 2);
    GY_TRY(gy_expr_bind_items(in, node, &args));
    gy_expr_type so_far = args[0]->type;
    for (uint32_t i = 1; i < node->count; i++) {
        are_constant = are_constant && args[i]->is_constant;
        have_common = have_common && gy_expr_type_common(&so_far, &args[i]->type, &common);
        so_far = have_common ? common : so_far;
    }
    /* numbers that may have more than 38 digits at one scale are compared one by one */
    const bool has_room = so_far.kind != GY_FIELD_DECIMAL || so_far.scale <= SCALE_FEW;
    if (!are_constant || !have_common || !has_room) {
        return bind_equals(in, node, args, out);
    }
    same = gy_expr_new(in, node->count * sizeof(*same));
    if (same == NULL) {
        return GY_NOMEM;
    }
    memcpy(same, args, node->count * sizeof(*same));
    GY_TRY(gy_expr_unify(in, node->place, "IN", same, (int)node->count, &common));
    bool fits = has_all_digits(&args[0]->type, &common);
    for (uint32_t i = 1; i < node->count; i++) {
        fits = fits && same[i]->is_constant;
    }
    /* what is too large for a decimal of the common scale is equal to none: that is no error */
    return fits ? bind_list(in, node, same, out) : bind_equals(in, node, args, out);
}

/* ---- binding ---- */

static gy_status bind_case(gy_expr_binder *in, const gy_sql_node *node, const gy_expr **args,
                           const gy_expr **out)
{
    const int count = (int)node->count, results = (count + 1) / 2;
    const gy_expr **chosen = gy_expr_new(in, (size_t)results * sizeof(*chosen));
    gy_expr_spec spec = {.run = run_case,
                         .args = args,
                         .count = count,
                         .takes_nulls = true,
                         .name = "case",
                         .place = node->place};
    char text[48];
    if (chosen == NULL) {
        return GY_NOMEM;
    }
    for (int i = 0; i < count; i++) {
        const bool is_condition = i % 2 == 0 && i + 1 < count;
        if (is_condition) {
            if (!gy_expr_is_implicit(&args[i]->type, GY_FIELD_BOOL)) {
                return gy_sql_refuse(in->scope->source, node->items[i]->place, GY_TYPE,
                                     "argument of CASE/WHEN must be type bool, not type %s",
                                     gy_expr_type_text(&args[i]->type, text));
            }
            GY_TRY(gy_expr_to_class(in, &args[i], GY_FIELD_BOOL));
        } else {
            chosen[i / 2] = args[i];
        }
    }
    GY_TRY(gy_expr_unify(in, node->place, "CASE", chosen, count / 2 + count % 2, &spec.type));
    for (int i = 0; i < count; i++) {
        if (i % 2 == 1 || i + 1 == count) {
            args[i] = chosen[i / 2];
        }
    }
    spec.type.is_nullable = spec.type.is_nullable || count % 2 == 0;
    return gy_expr_make(in, &spec, out);
}

static gy_status bind_nullif(gy_expr_binder *in, const gy_sql_node *node, const gy_expr **args,
                             const gy_expr **out)
{
    if (args[0]->type.is_unknown) {
        GY_TRY(gy_expr_to_class(in, &args[0],
                                args[1]->type.is_unknown ? (int)GY_FIELD_TEXT
                                                         : gy_expr_class(&args[1]->type)));
    }
    GY_TRY(gy_expr_compare(in, node->place, GY_EXPR_EQUAL, args[0], args[1], &args[1]));
    gy_expr_spec spec = {.run = run_nullif,
                         .type = args[0]->type,
                         .args = args,
                         .count = 2,
                         .takes_nulls = true,
                         .name = "nullif",
                         .place = node->place};
    spec.type.is_nullable = true;
    return gy_expr_make(in, &spec, out);
}

/* ---- errors of sub-queries that not all rows need ---- */

/* gyre_passes(error): true where there is none. The text begins with its status. */
static gy_status passes_row(gy_expr_work *work, const gy_expr *expr, const gy_expr_cell *args,
                            gy_expr_cell *out)
{
    (void)work, (void)expr;
    out->truth = true;
    out->is_null = false;
    if (args[0].is_null) {
        return GY_OK;
    }
    char text[GY_ERROR_TEXT_BYTES] = "", *said = NULL;
    (void)gy_print(text, sizeof(text), "%.*s", (int)args[0].text.size_bytes, args[0].text.data);
    const long status = strtol(text, &said, 10);
    return gy_fail(status < 0 ? (gy_status)status : GY_ARG, "%s", said + (*said == ' '));
}

/* gyre_single(count): whether there is a row. */
static gy_status single_row(gy_expr_work *work, const gy_expr *expr, const gy_expr_cell *args,
                            gy_expr_cell *out)
{
    (void)work, (void)expr;
    out->is_null = false;
    out->truth = !args[0].is_null && args[0].integer > 0;
    return !out->truth || args[0].integer == 1
               ? GY_OK
               : gy_fail(GY_ARG, "more than one row returned by a sub-query that is a value");
}

const gy_expr_function gy_expr_errors[] = {
    {"gyre_passes", "t", GY_FIELD_BOOL, passes_row, .takes_nulls = true},
    {"gyre_single", "i", GY_FIELD_BOOL, single_row, .takes_nulls = true},
    {NULL, NULL, 0, NULL, .op = 0},
};

gy_status gy_expr_bind_choice(gy_expr_binder *in, const gy_sql_node *node, const gy_expr **out)
{
    const gy_expr **args = NULL;
    GY_TRY(gy_expr_bind_items(in, node, &args));
    if (node->kind == GY_SQL_CASE) {
        return bind_case(in, node, args, out);
    }
    if (node->kind == GY_SQL_NULLIF) {
        return bind_nullif(in, node, args, out);
    }
    gy_expr_spec spec = {.row = row_extreme,
                         .args = args,
                         .count = (int)node->count,
                         .op = (int)node->kind,
                         .takes_nulls = true,
                         .place = node->place};
    bool is_nullable = true;
    for (uint32_t i = 0; i < node->count; i++) {
        is_nullable = is_nullable && args[i]->type.is_nullable;
    }
    spec.name = node->kind == GY_SQL_COALESCE   ? "COALESCE"
                : node->kind == GY_SQL_GREATEST ? "GREATEST"
                                                : "LEAST";
    if (node->kind == GY_SQL_COALESCE) {
        spec.run = run_coalesce;
        spec.row = NULL;
    }
    GY_TRY(gy_expr_unify(in, node->place, spec.name, args, (int)node->count, &spec.type));
    spec.type.is_nullable = is_nullable;
    return gy_expr_make(in, &spec, out);
}
