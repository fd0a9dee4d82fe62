/* Comparisons. Two kernels a type, equal and less: the others are their contraries, or have
 * their sides changed. Each order is total: NaN is equal to NaN and above all other numbers. */
#include "query/expr/expr_priv.h"

#include <math.h>
#include <string.h>

/* ---- orders ---- */

static bool text_equal(gy_text_view a, gy_text_view b)
{
    return a.size_bytes == b.size_bytes &&
           (a.size_bytes == 0 || memcmp(a.data, b.data, a.size_bytes) == 0);
}

static int text_order(gy_text_view a, gy_text_view b)
{
    const size_t size = GY_MIN(a.size_bytes, b.size_bytes);
    const int order = size > 0 ? memcmp(a.data, b.data, size) : 0;
    return order != 0 ? order : (a.size_bytes > b.size_bytes) - (a.size_bytes < b.size_bytes);
}

static bool real_equal(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static bool real_less(double a, double b)
{
    return a < b || (isnan(b) && !isnan(a));
}

/* A month counts as 30 days, a day as 24 hours, as PostgreSQL compares them. */
static gy_int128 interval_size(gy_interval a)
{
    return ((gy_int128)a.months * 30 + a.days) * GY_MICROS_A_DAY + a.micros;
}

#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

int gy_expr_order(int value_class, const gy_expr_cell *a, const gy_expr_cell *b)
{
    switch (value_class) {
    case GY_FIELD_BOOL:
        return ORDER(a->truth, b->truth);
    case GY_FIELD_DOUBLE:
        return real_less(a->real, b->real) ? -1 : real_less(b->real, a->real);
    case GY_FIELD_DECIMAL:
        return ORDER(a->decimal, b->decimal);
    case GY_FIELD_TEXT:
        return text_order(a->text, b->text);
    case GY_EXPR_INTERVAL:
        return ORDER(interval_size(a->interval), interval_size(b->interval));
    default:
        return ORDER(a->integer, b->integer);
    }
}

/* ---- kernels ---- */

/* 64 bytes of 0 or 1 as the bits of a word. */
static uint64_t pack(const uint8_t bytes[64])
{
    uint64_t word = 0;
    for (size_t i = 0; i < 8; i++) {
        uint64_t eight = 0;
        memcpy(&eight, bytes + 8 * i, sizeof(eight));
        word |= (eight * UINT64_C(0x0102040810204080) >> 56) << (8 * i);
    }
    return word;
}

/* The bits of `test` over the rows i. */
#define WORDS_OF(test)                                                                         \
    for (int w = 0; w * 64 < rows; w++) {                                                      \
        uint8_t bytes[64] = {0};                                                               \
        const int first = w * 64, end = GY_MIN(rows, first + 64);                              \
        for (int i = first; i < end; i++) {                                                    \
            bytes[i - first] = (test);                                                         \
        }                                                                                      \
        bits[w] = pack(bytes);                                                                 \
    }

/* The kernel of a type: a constant side is read once. */
#define KERNEL(name, type, member, equal, less)                                                \
    static void name(const gy_expr_vector *left, const gy_expr_vector *right, bool is_less,    \
                     int rows, uint64_t *bits)                                                 \
    {                                                                                          \
        const type *a = left->member, *b = right->member;                                      \
        const type one = left->is_constant ? a[0] : b[0];                                      \
        if (right->is_constant && is_less) {                                                   \
            WORDS_OF(less(a[i], one))                                                          \
        } else if (right->is_constant) {                                                       \
            WORDS_OF(equal(a[i], one))                                                         \
        } else if (left->is_constant && is_less) {                                             \
            WORDS_OF(less(one, b[i]))                                                          \
        } else if (left->is_constant) {                                                        \
            WORDS_OF(equal(one, b[i]))                                                         \
        } else if (is_less) {                                                                  \
            WORDS_OF(less(a[i], b[i]))                                                         \
        } else {                                                                               \
            WORDS_OF(equal(a[i], b[i]))                                                        \
        }                                                                                      \
    }

#define EQUAL(a, b)          ((a) == (b))
#define LESS(a, b)           ((a) < (b))
#define TEXT_LESS(a, b)      (text_order(a, b) < 0)
#define INTERVAL_EQUAL(a, b) (interval_size(a) == interval_size(b))
#define INTERVAL_LESS(a, b)  (interval_size(a) < interval_size(b))

KERNEL(compare_integers, int64_t, integers, EQUAL, LESS)
KERNEL(compare_any_reals, double, reals, real_equal, real_less)
/* With a constant that is a number IEEE's comparisons are those of the order. */
KERNEL(compare_numbers, double, reals, EQUAL, LESS)
KERNEL(compare_decimals, gy_int128, decimals, EQUAL, LESS)
KERNEL(compare_dates, int32_t, dates, EQUAL, LESS)
KERNEL(compare_texts, gy_text_view, texts, text_equal, TEXT_LESS)
KERNEL(compare_intervals, gy_interval, intervals, INTERVAL_EQUAL, INTERVAL_LESS)

static void compare_reals(const gy_expr_vector *left, const gy_expr_vector *right, bool is_less,
                          int rows, uint64_t *bits)
{
    if (right->is_constant && !isnan(right->reals[0])) {
        compare_numbers(left, right, is_less, rows, bits);
    } else {
        compare_any_reals(left, right, is_less, rows, bits);
    }
}

static void compare_bools(const gy_expr_vector *left, const gy_expr_vector *right, bool is_less,
                          int rows, uint64_t *bits)
{
    for (int w = 0; w * 64 < rows; w++) {
        bits[w] = is_less ? ~left->bits[w] & right->bits[w] : ~(left->bits[w] ^ right->bits[w]);
    }
}

static gy_status run_compare(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                             gy_expr_vector *out)
{
    static void (*const kernels[GY_EXPR_CLASSES])(
        const gy_expr_vector *, const gy_expr_vector *, bool, int, uint64_t *) = {
        [GY_FIELD_BOOL] = compare_bools,   [GY_FIELD_INT64] = compare_integers,
        [GY_FIELD_DOUBLE] = compare_reals, [GY_FIELD_DECIMAL] = compare_decimals,
        [GY_FIELD_DATE] = compare_dates,   [GY_FIELD_TIMESTAMP] = compare_integers,
        [GY_FIELD_TEXT] = compare_texts,   [GY_EXPR_INTERVAL] = compare_intervals,
    };
    const int of = gy_expr_class(&expr->args[0]->type);
    gy_expr_vector sides[2];
    uint64_t *bits = gy_expr_values(work, GY_FIELD_BOOL);
    if (bits == NULL) {
        return GY_NOMEM;
    }
    for (int i = 0; i < 2; i++) {
        GY_TRY(gy_expr_eval(work, expr->args[i], mask, &sides[i]));
    }
    for (int i = 0; i < 2; i++) {
        const bool is_null = sides[i].is_constant && sides[i].valid != NULL;
        if (of == GY_FIELD_BOOL || is_null || (i == 1 && sides[0].is_constant)) {
            GY_TRY(gy_expr_spread(work, of, &sides[i]));
        }
        if (!sides[i].is_constant) {
            GY_TRY(gy_expr_both(work, out->valid, sides[i].valid, &out->valid));
        }
    }
    kernels[of](&sides[0], &sides[1], expr->op == GY_EXPR_LESS, work->rows, bits);
    for (int w = 0; expr->is_not && w < gy_expr_words(work); w++) {
        bits[w] = ~bits[w];
    }
    out->bits = bits;
    return GY_OK;
}

/* ---- binding ---- */

/* Decimals of one scale; what does not fit any more is the largest number. */
static gy_status one_scale(gy_expr_binder *in, const gy_expr **left, const gy_expr **right)
{
    const int scale = GY_MAX((*left)->type.scale, (*right)->type.scale);
    GY_TRY(gy_expr_rescale(in, left, scale));
    return gy_expr_rescale(in, right, scale);
}

/* Both sides to the type that they are compared as; false in *is_there: there is none. */
static gy_status make_comparable(gy_expr_binder *in, const gy_expr **left,
                                 const gy_expr **right, bool *is_there)
{
    gy_expr_type common = {.is_nullable = true};
    *is_there = gy_expr_type_common(&(*left)->type, &(*right)->type, &common);
    if (!*is_there) {
        return GY_OK;
    }
    const int of = common.is_unknown ? (int)GY_FIELD_TEXT : gy_expr_class(&common);
    GY_TRY(gy_expr_to_class(in, left, of));
    GY_TRY(gy_expr_to_class(in, right, of));
    return of == GY_FIELD_DECIMAL ? one_scale(in, left, right) : GY_OK;
}

gy_status gy_expr_compare(gy_expr_binder *in, uint32_t place, gy_expr_comparison op,
                          const gy_expr *left, const gy_expr *right, const gy_expr **out)
{
    static const char *const names[] = {"=", "<>", "<", "<=", ">", ">="};
    const gy_expr *sides[2] = {left, right};
    bool is_there = false;
    GY_TRY(make_comparable(in, &sides[0], &sides[1], &is_there));
    if (!is_there) {
        return gy_expr_no_operator(in, place, names[op], sides, 2);
    }
    const bool is_turned = op == GY_EXPR_GREATER || op == GY_EXPR_LESS_EQUAL;
    const gy_expr **args = gy_expr_pair(in, sides[is_turned ? 1 : 0], sides[is_turned ? 0 : 1]);
    if (args == NULL) {
        return GY_NOMEM;
    }
    const gy_expr_spec spec = {
        .run = run_compare,
        .type =
            gy_expr_simple(GY_FIELD_BOOL, left->type.is_nullable || right->type.is_nullable),
        .args = args,
        .count = 2,
        .op = op == GY_EXPR_EQUAL || op == GY_EXPR_UNEQUAL ? GY_EXPR_EQUAL : GY_EXPR_LESS,
        .is_not =
            op == GY_EXPR_UNEQUAL || op == GY_EXPR_LESS_EQUAL || op == GY_EXPR_GREATER_EQUAL,
        .name = names[op],
        .place = place,
    };
    return gy_expr_make(in, &spec, out);
}
