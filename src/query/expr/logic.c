/* and, or, not, and tests of what is null or true. Each item of and and or is evaluated only
 * for the rows that those before it have not decided. */
#include "query/expr/expr_priv.h"

#include <string.h>

enum { IS_TRUE, IS_FALSE, IS_UNKNOWN };

static uint64_t *words(gy_expr_work *work)
{
    return gy_expr_memory(work, GY_EXPR_WORDS * sizeof(uint64_t));
}

/* `op`: what decides, false of and, true of or. */
static gy_status run_chain(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                           gy_expr_vector *out)
{
    const int count = gy_expr_words(work);
    const uint64_t turn = expr->op == GY_SQL_AND ? UINT64_MAX : 0;
    uint64_t *left = words(work), *bits = words(work), *valid = words(work);
    if (left == NULL || bits == NULL || valid == NULL) {
        return GY_NOMEM;
    }
    memcpy(left, mask, GY_EXPR_WORDS * sizeof(*left));
    memset(valid, 0xff, GY_EXPR_WORDS * sizeof(*valid));
    for (int i = 0; i < expr->count && !gy_expr_is_empty(work, left); i++) {
        const gy_expr_mark mark = gy_expr_mark_of(work);
        gy_expr_vector item;
        GY_TRY(gy_expr_eval(work, expr->args[i], left, &item));
        GY_TRY(gy_expr_spread(work, GY_FIELD_BOOL, &item));
        for (int w = 0; w < count; w++) {
            const uint64_t known = item.valid != NULL ? item.valid[w] : UINT64_MAX;
            valid[w] &= known | ~left[w];
            left[w] &= ~(known & (item.bits[w] ^ turn));
        }
        gy_expr_release(work, mark);
    }
    for (int w = 0; w < count; w++) { /* what is not left was decided */
        bits[w] = left[w] ^ ~turn;
        valid[w] |= ~left[w];
    }
    out->bits = bits;
    out->valid = expr->type.is_nullable ? valid : NULL;
    return GY_OK;
}

static gy_status run_not(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                         gy_expr_vector *out)
{
    gy_expr_vector arg;
    uint64_t *bits = words(work);
    if (bits == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_expr_eval_args(work, expr, mask, &arg, out));
    for (int w = 0; w < gy_expr_words(work); w++) {
        bits[w] = ~arg.bits[w];
    }
    out->bits = bits;
    return GY_OK;
}

static gy_status run_is_null(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                             gy_expr_vector *out)
{
    gy_expr_vector arg;
    const uint64_t turn = expr->is_not ? 0 : UINT64_MAX;
    uint64_t *bits = words(work);
    if (bits == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_expr_eval(work, expr->args[0], mask, &arg));
    GY_TRY(gy_expr_spread(work, gy_expr_class(&expr->args[0]->type), &arg));
    for (int w = 0; w < gy_expr_words(work); w++) {
        bits[w] = (arg.valid != NULL ? arg.valid[w] : UINT64_MAX) ^ turn;
    }
    out->bits = bits;
    return GY_OK;
}

static gy_status run_is_truth(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                              gy_expr_vector *out)
{
    gy_expr_vector arg;
    uint64_t *bits = words(work);
    if (bits == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_expr_eval(work, expr->args[0], mask, &arg));
    GY_TRY(gy_expr_spread(work, GY_FIELD_BOOL, &arg));
    for (int w = 0; w < gy_expr_words(work); w++) {
        const uint64_t known = arg.valid != NULL ? arg.valid[w] : UINT64_MAX;
        const uint64_t is = expr->op == IS_UNKNOWN ? ~known
                            : expr->op == IS_TRUE  ? known & arg.bits[w]
                                                   : known & ~arg.bits[w];
        bits[w] = expr->is_not ? ~is : is;
    }
    out->bits = bits;
    return GY_OK;
}

/* Arguments: whether both are equal, and both. */
static gy_status run_distinct(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                              gy_expr_vector *out)
{
    gy_expr_vector args[3];
    uint64_t *bits = words(work);
    if (bits == NULL) {
        return GY_NOMEM;
    }
    for (int i = 0; i < 3; i++) {
        GY_TRY(gy_expr_eval(work, expr->args[i], mask, &args[i]));
        GY_TRY(gy_expr_spread(work, gy_expr_class(&expr->args[i]->type), &args[i]));
    }
    for (int w = 0; w < gy_expr_words(work); w++) {
        const uint64_t a = args[1].valid != NULL ? args[1].valid[w] : UINT64_MAX;
        const uint64_t b = args[2].valid != NULL ? args[2].valid[w] : UINT64_MAX;
        const uint64_t same = (a & b & args[0].bits[w]) | (~a & ~b);
        bits[w] = expr->is_not ? same : ~same;
    }
    out->bits = bits;
    return GY_OK;
}

/* ---- binding ---- */

static gy_status to_bools(gy_expr_binder *in, const gy_sql_node *node, const char *what,
                          const gy_expr **args)
{
    char text[48];
    for (uint32_t i = 0; i < node->count; i++) {
        if (!gy_expr_is_implicit(&args[i]->type, GY_FIELD_BOOL)) {
            return gy_sql_refuse(in->scope->source, node->items[i]->place, GY_TYPE,
                                 "argument of %s must be type bool, not type %s", what,
                                 gy_expr_type_text(&args[i]->type, text));
        }
        GY_TRY(gy_expr_to_class(in, &args[i], GY_FIELD_BOOL));
    }
    return GY_OK;
}

static bool is_any_nullable(const gy_expr *const *args, int count)
{
    for (int i = 0; i < count; i++) {
        if (args[i]->type.is_nullable) {
            return true;
        }
    }
    return false;
}

gy_status gy_expr_chain(gy_expr_binder *in, uint32_t place, gy_sql_kind kind,
                        const gy_expr **args, int count, const gy_expr **out)
{
    const gy_expr_spec spec = {.run = run_chain,
                               .type =
                                   gy_expr_simple(GY_FIELD_BOOL, is_any_nullable(args, count)),
                               .args = args,
                               .count = count,
                               .op = (int)kind,
                               .takes_nulls = true,
                               .name = kind == GY_SQL_AND ? "and" : "or",
                               .place = place};
    return gy_expr_make(in, &spec, out);
}

gy_status gy_expr_not(gy_expr_binder *in, uint32_t place, const gy_expr *arg,
                      const gy_expr **out)
{
    gy_expr_spec spec = {.run = run_not, .type = arg->type, .count = 1, .place = place};
    spec.args = gy_expr_pair(in, arg, NULL);
    return spec.args != NULL ? gy_expr_make(in, &spec, out) : GY_NOMEM;
}

static gy_status bind_distinct(gy_expr_binder *in, const gy_sql_node *node,
                               const gy_expr **args, const gy_expr **out)
{
    const gy_expr **all = gy_expr_new(in, 3 * sizeof(*all));
    if (all == NULL) {
        return GY_NOMEM;
    }
    all[1] = args[0];
    all[2] = args[1];
    GY_TRY(gy_expr_compare(in, node->place, GY_EXPR_EQUAL, args[0], args[1], &all[0]));
    const gy_expr_spec spec = {.run = run_distinct,
                               .type = gy_expr_simple(GY_FIELD_BOOL, false),
                               .args = all,
                               .count = 3,
                               .is_not = node->is_not,
                               .takes_nulls = true,
                               .name = "is distinct from",
                               .place = node->place};
    return gy_expr_make(in, &spec, out);
}

static gy_status bind_truth(gy_expr_binder *in, const gy_sql_node *node, const gy_expr **args,
                            const gy_expr **out)
{
    GY_TRY(to_bools(in, node, "is", args));
    const gy_expr_spec spec = {.run = run_is_truth,
                               .type = gy_expr_simple(GY_FIELD_BOOL, false),
                               .args = args,
                               .count = 1,
                               .op = node->text[0] == 't'   ? IS_TRUE
                                     : node->text[0] == 'f' ? IS_FALSE
                                                            : IS_UNKNOWN,
                               .is_not = node->is_not,
                               .takes_nulls = true,
                               .place = node->place};
    return gy_expr_make(in, &spec, out);
}

gy_status gy_expr_bind_logic(gy_expr_binder *in, const gy_sql_node *node, const gy_expr **out)
{
    const gy_expr **args = NULL;
    GY_TRY(gy_expr_bind_items(in, node, &args));
    switch ((int)node->kind) {
    case GY_SQL_AND:
    case GY_SQL_OR:
        GY_TRY(to_bools(in, node, node->kind == GY_SQL_AND ? "AND" : "OR", args));
        return gy_expr_chain(in, node->place, node->kind, args, (int)node->count, out);
    case GY_SQL_NOT:
        GY_TRY(to_bools(in, node, "NOT", args));
        return gy_expr_not(in, node->place, args[0], out);
    case GY_SQL_IS_TRUTH:
        return bind_truth(in, node, args, out);
    case GY_SQL_DISTINCT:
        return bind_distinct(in, node, args, out);
    default:
        break;
    }
    const gy_expr_spec spec = {.run = run_is_null,
                               .type = gy_expr_simple(GY_FIELD_BOOL, false),
                               .args = args,
                               .count = 1,
                               .is_not = node->is_not,
                               .takes_nulls = true,
                               .place = node->place};
    return gy_expr_make(in, &spec, out);
}

gy_status gy_expr_bind_between(gy_expr_binder *in, const gy_sql_node *node, const gy_expr **out)
{
    const gy_expr **args = NULL, *found = NULL, *other = NULL;
    GY_TRY(gy_expr_bind_items(in, node, &args));
    GY_ASSERT(node->count == 3);
    for (int i = 0; i < (node->kind == GY_SQL_SYMMETRIC ? 2 : 1); i++) {
        const gy_expr **pair = gy_expr_pair(in, NULL, NULL);
        if (pair == NULL) {
            return GY_NOMEM;
        }
        GY_TRY(gy_expr_compare(in, node->place, GY_EXPR_GREATER_EQUAL, args[0], args[1 + i],
                               &pair[0]));
        GY_TRY(gy_expr_compare(in, node->place, GY_EXPR_LESS_EQUAL, args[0], args[2 - i],
                               &pair[1]));
        GY_TRY(gy_expr_chain(in, node->place, GY_SQL_AND, pair, 2, i == 0 ? &found : &other));
    }
    if (other != NULL) {
        const gy_expr **pair = gy_expr_pair(in, found, other);
        if (pair == NULL) {
            return GY_NOMEM;
        }
        GY_TRY(gy_expr_chain(in, node->place, GY_SQL_OR, pair, 2, &found));
    }
    if (node->is_not) {
        return gy_expr_not(in, node->place, found, out);
    }
    *out = found;
    return GY_OK;
}
