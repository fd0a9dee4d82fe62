/* Goal: random expressions over random rows, whole and sliced, have the values that a plain
 * evaluation of one row after the other gives, and fail where that fails. */
#include "query/expr/expr.h"

#include "base/random.h"

#include "gy_test.h"

enum { TREES_MAX = 400, ROWS_MAX = 2600, DEPTH = 4, TEXT_BYTES = 64 };

typedef enum kind { NUMBER, TRUTH, TEXT } kind;

typedef enum op {
    COLUMN,
    LITERAL,
    ADD,
    SUBTRACT,
    MULTIPLY,
    DIVIDE, /* of int64 */
    MODULO,
    NEGATE,
    ABS,
    CASE,
    COALESCE,
    NULLIF,
    GREATEST,
    LEAST,
    COMPARE,
    AND,
    OR,
    NOT,
    IS_NULL,
    IS_TRUE,
    DISTINCT,
    BETWEEN,
    IN,
    JOIN,
    UPPER,
    LIKE
} operation;

typedef struct tree tree;
struct tree {
    kind of;
    operation op;
    bool is_integer; /* of a number: int64, else decimal */
    int variant;     /* column, literal, comparison */
    tree *args[3];
    int count;
};

typedef struct value {
    bool is_null, failed;
    gy_int128 number;
    int scale;
    bool truth;
    char text[TEXT_BYTES * 8];
} value;

typedef struct world {
    gy_random random;
    tree trees[TREES_MAX];
    int tree_count;
    gy_frame *frame;
} world;

static const char schema_text[] = "i int, j int, d decimal(6, 2), e decimal(5, 1), b bool, c "
                                  "bool, s text, t text";
static const char *const texts[] = {"", "a", "B", "ab", "é", "aBc", "b%", "_a"};
static const char *const patterns[] = {"%", "a%", "%b%", "_", "a_c", "%a"};
static const char *const comparisons[] = {"=", "<>", "<", "<=", ">", ">="};

static uint64_t below(world *in, uint64_t count)
{
    return gy_random_below(&in->random, count);
}

/* ---- rows ---- */

static void add_row(world *in, gy_frame_builder *builder)
{
    for (int i = 0; i < 8; i++) {
        if (below(in, 6) == 0) {
            gy_frame_add_null(builder);
        } else if (i < 2) {
            gy_frame_add_int64(builder, (int64_t)below(in, 21) - 10);
        } else if (i < 4) {
            gy_frame_add_decimal(builder, (gy_int128)below(in, 4001) - 2000);
        } else if (i < 6) {
            gy_frame_add_bool(builder, below(in, 2) == 0);
        } else {
            const char *text = texts[below(in, GY_COUNT(texts))];
            gy_frame_add_text(builder, text, strlen(text));
        }
    }
    gy_frame_row_end(builder);
}

/* A frame of random rows, often a slice of one. */
static gy_frame *random_frame(world *in)
{
    gy_schema *schema = NULL;
    gy_frame_builder *builder = NULL;
    gy_frame *frame = NULL, *slice = NULL;
    const int64_t rows = (int64_t)(below(in, 5) == 0 ? below(in, 3) : below(in, ROWS_MAX));
    assert_ok(gy_schema_parse(schema_text, &schema));
    assert_ok(gy_frame_builder_new(schema, &builder));
    for (int64_t i = 0; i < rows; i++) {
        add_row(in, builder);
    }
    assert_ok(gy_frame_finish(builder, &frame));
    gy_frame_builder_free(builder);
    gy_schema_drop(schema);
    const int64_t begin = (int64_t)below(in, (uint64_t)rows / 2 + 1);
    assert_ok(gy_frame_slice(
        frame, begin, rows - (int64_t)below(in, (uint64_t)(rows - begin) / 2 + 1), &slice));
    gy_frame_drop(frame);
    return slice;
}

/* ---- trees ---- */

static tree *grow(world *in, kind of, int depth);

static tree *make(world *in, kind of, operation op)
{
    assert_true(in->tree_count < TREES_MAX);
    tree *made = &in->trees[in->tree_count++];
    *made = (tree){.of = of, .op = op};
    return made;
}

static tree *leaf(world *in, kind of)
{
    const bool is_column = below(in, 4) != 0;
    tree *made = make(in, of, is_column ? COLUMN : LITERAL);
    const int first = of == NUMBER ? 0 : of == TRUTH ? 4 : 6;
    made->variant = is_column ? first + (int)below(in, of == NUMBER ? 4 : 2)
                              : (int)below(in, of == TEXT ? GY_COUNT(texts) : 7);
    made->is_integer = of == NUMBER && (!is_column || made->variant < 2);
    return made;
}

static void fill(world *in, tree *to, kind of, int count, int depth)
{
    to->count = count;
    for (int i = 0; i < count; i++) {
        to->args[i] = grow(in, of, depth - 1);
    }
}

static tree *grow_number(world *in, int depth)
{
    static const operation ops[] = {ADD, SUBTRACT, MULTIPLY, DIVIDE,   MODULO, NEGATE,
                                    ABS, CASE,     COALESCE, GREATEST, LEAST,  NULLIF};
    tree *made = make(in, NUMBER, ops[below(in, GY_COUNT(ops))]);
    switch ((int)made->op) {
    case DIVIDE: /* of int64 alone: decimals round */
    case MODULO:
        made->count = 2;
        made->is_integer = true;
        for (int i = 0; i < 2; i++) {
            made->args[i] = make(in, NUMBER, COLUMN);
            made->args[i]->variant = (int)below(in, 2);
            made->args[i]->is_integer = true;
        }
        if (below(in, 2) == 0) { /* not by zero */
            made->args[1]->op = LITERAL;
            made->args[1]->variant = 1 + (int)below(in, 6);
        }
        return made;
    case NEGATE:
    case ABS:
        fill(in, made, NUMBER, 1, depth);
        break;
    case CASE:
        made->count = 3;
        made->args[0] = grow(in, TRUTH, depth - 1);
        made->args[1] = grow(in, NUMBER, depth - 1);
        made->args[2] = grow(in, NUMBER, depth - 1);
        made->is_integer = made->args[1]->is_integer && made->args[2]->is_integer;
        return made;
    default: /* of products no deep ones: they have few digits */
        fill(in, made, NUMBER, 2, made->op == MULTIPLY ? GY_MIN(depth, 2) : depth);
        break;
    }
    made->is_integer = made->args[0]->is_integer &&
                       (made->count < 2 || made->op == NULLIF || made->args[1]->is_integer);
    return made;
}

static tree *grow_truth(world *in, int depth)
{
    static const operation ops[] = {COMPARE, COMPARE,  AND,     OR, NOT,  IS_NULL,
                                    IS_TRUE, DISTINCT, BETWEEN, IN, LIKE, CASE};
    tree *made = make(in, TRUTH, ops[below(in, GY_COUNT(ops))]);
    const kind of = (kind)below(in, 3);
    made->variant = (int)below(in, 6);
    switch ((int)made->op) {
    case COMPARE:
    case DISTINCT:
        fill(in, made, of, 2, depth);
        break;
    case AND:
    case OR:
        fill(in, made, TRUTH, 2, depth);
        break;
    case NOT:
    case IS_TRUE:
        fill(in, made, TRUTH, 1, depth);
        break;
    case IS_NULL:
        fill(in, made, of, 1, depth);
        break;
    case BETWEEN:
        fill(in, made, NUMBER, 3, depth);
        break;
    case IN:
    case LIKE:
        fill(in, made, made->op == IN ? NUMBER : TEXT, 1, depth);
        break;
    default:
        fill(in, made, TRUTH, 3, depth);
        break;
    }
    return made;
}

static tree *grow(world *in, kind of, int depth)
{
    if (depth <= 0 || below(in, 6) == 0 || in->tree_count > TREES_MAX - 100) {
        return leaf(in, of);
    }
    if (of == NUMBER) {
        return grow_number(in, depth);
    }
    if (of == TRUTH) {
        return grow_truth(in, depth);
    }
    tree *made = make(in, TEXT, below(in, 2) == 0 ? JOIN : UPPER);
    fill(in, made, TEXT, made->op == JOIN ? 2 : 1, GY_MIN(depth, 3));
    return made;
}

/* ---- as a text ---- */

static void print_tree(const tree *at, gy_text *out);

static void print_args(const tree *at, const char *before, const char *between,
                       const char *after, gy_text *out)
{
    gy_text_add(out, "%s", before);
    for (int i = 0; i < at->count; i++) {
        gy_text_add(out, "%s", i > 0 ? between : "");
        print_tree(at->args[i], out);
    }
    gy_text_add(out, "%s", after);
}

static void print_leaf(const tree *at, gy_text *out)
{
    if (at->op == COLUMN) {
        gy_text_add(out, "%c", "ijdebcst"[at->variant]);
    } else if (at->of == TEXT) {
        gy_text_add(out, "'%s'", texts[at->variant]);
    } else if (at->of == TRUTH) {
        gy_text_add(out, "%s", at->variant % 2 == 0 ? "true" : "false");
    } else {
        gy_text_add(out, "%d", at->variant);
    }
}

static void print_tree(const tree *at, gy_text *out)
{
    static const char *const between[] = {[ADD] = " + ",      [SUBTRACT] = " - ",
                                          [MULTIPLY] = " * ", [DIVIDE] = " / ",
                                          [MODULO] = " % ",   [AND] = " and ",
                                          [OR] = " or ",      [DISTINCT] = " is distinct from ",
                                          [JOIN] = " || ",    [LIKE] = NULL};
    static const char *const names[] = {[ABS] = "abs(",       [COALESCE] = "coalesce(",
                                        [NULLIF] = "nullif(", [GREATEST] = "greatest(",
                                        [LEAST] = "least(",   [UPPER] = "upper(",
                                        [LIKE] = NULL};
    if (at->op == COLUMN || at->op == LITERAL) {
        print_leaf(at, out);
    } else if (at->op == CASE || at->op == BETWEEN) {
        gy_text_add(out, at->op == CASE ? "(case when " : "(");
        print_tree(at->args[0], out);
        gy_text_add(out, at->op == CASE ? " then " : " between ");
        print_tree(at->args[1], out);
        gy_text_add(out, at->op == CASE ? " else " : " and ");
        print_tree(at->args[2], out);
        gy_text_add(out, at->op == CASE ? " end)" : ")");
    } else if (at->op == LIKE) {
        print_args(at, "(", "", "", out);
        gy_text_add(out, " like '%s')", patterns[at->variant]);
    } else if (between[at->op] != NULL) {
        print_args(at, "(", between[at->op], ")", out);
    } else if (names[at->op] != NULL) {
        print_args(at, names[at->op], ", ", ")", out);
    } else if (at->op == COMPARE) {
        gy_text_add(out, "(");
        print_tree(at->args[0], out);
        gy_text_add(out, " %s ", comparisons[at->variant]);
        print_tree(at->args[1], out);
        gy_text_add(out, ")");
    } else if (at->op == NEGATE || at->op == NOT) {
        print_args(at, at->op == NEGATE ? "(- " : "(not ", "", ")", out);
    } else {
        print_args(at, "(", "",
                   at->op == IS_NULL   ? " is null)"
                   : at->op == IS_TRUE ? " is true)"
                                       : " in (1, 2.5, -3))",
                   out);
    }
}

/* ---- the plain evaluation ---- */

static value of_row(const world *in, const tree *at, int64_t row);

static value column_value(const world *in, const tree *at, int64_t row)
{
    value made = {.is_null = false};
    const gy_column column = gy_frame_column(in->frame, at->variant);
    made.is_null = gy_column_is_null(&column, row);
    if (made.is_null) {
        return made;
    }
    if (column.field->kind == GY_FIELD_INT64) {
        made.number = gy_column_int64(&column, row);
    } else if (column.field->kind == GY_FIELD_DECIMAL) {
        made.number = gy_column_decimal(&column, row);
        made.scale = column.field->scale;
    } else if (column.field->kind == GY_FIELD_BOOL) {
        made.truth = gy_column_bool(&column, row);
    } else {
        const gy_text_view text = gy_column_text(&column, row);
        snprintf(made.text, sizeof(made.text), "%.*s", (int)text.size_bytes, text.data);
    }
    return made;
}

static gy_int128 at_scale(const value *of, int scale)
{
    gy_int128 number = of->number;
    for (int i = of->scale; i < scale; i++) {
        number *= 10;
    }
    return number;
}

static int order(kind of, const value *a, const value *b)
{
    if (of == TEXT) {
        return strcmp(a->text, b->text);
    }
    if (of == TRUTH) {
        return a->truth - b->truth;
    }
    const int scale = GY_MAX(a->scale, b->scale);
    const gy_int128 x = at_scale(a, scale), y = at_scale(b, scale);
    return (x > y) - (x < y);
}

static value truth_of(bool is_null, bool truth)
{
    return (value){.is_null = is_null, .truth = truth};
}

static bool compares(int how, int order)
{
    return how == 0   ? order == 0
           : how == 1 ? order != 0
           : how == 2 ? order < 0
           : how == 3 ? order <= 0
           : how == 4 ? order > 0
                      : order >= 0;
}

static bool matches(const char *pattern, const char *text)
{
    if (*pattern == '\0') {
        return *text == '\0';
    }
    if (*pattern == '%') {
        return matches(pattern + 1, text) || (*text != '\0' && matches(pattern, text + 1));
    }
    if (*pattern == '_' && *text != '\0') {
        for (text++; ((unsigned char)*text & 0xC0) == 0x80; text++) {
        }
        return matches(pattern + 1, text);
    }
    return *pattern == *text && matches(pattern + 1, text + 1);
}

static value arithmetic(const tree *at, const value *a, const value *b)
{
    value made = {.scale = GY_MAX(a->scale, b->scale)};
    const gy_int128 x = at_scale(a, made.scale), y = at_scale(b, made.scale);
    made.is_null = a->is_null || b->is_null;
    if (made.is_null) {
        return made;
    }
    switch ((int)at->op) {
    case ADD:
        made.number = x + y;
        break;
    case SUBTRACT:
        made.number = x - y;
        break;
    case MULTIPLY:
        made.number = a->number * b->number;
        made.scale = a->scale + b->scale;
        break;
    default:
        made.failed = b->number == 0;
        made.number = made.failed        ? 0
                      : at->op == DIVIDE ? a->number / b->number
                                         : a->number % b->number;
        break;
    }
    return made;
}

/* What is evaluated only as far as it is needed. */
static value lazy(const world *in, const tree *at, int64_t row)
{
    const value a = of_row(in, at->args[0], row);
    if (a.failed) {
        return a;
    }
    if (at->op == CASE) {
        return of_row(in, at->args[!a.is_null && a.truth ? 1 : 2], row);
    }
    if (at->op == COALESCE) {
        return a.is_null ? of_row(in, at->args[1], row) : a;
    }
    if (at->op == BETWEEN) {
        const value low = of_row(in, at->args[1], row);
        const bool is_null = a.is_null || low.is_null;
        if (low.failed || (!is_null && order(NUMBER, &a, &low) < 0)) {
            return low.failed ? low : truth_of(false, false);
        }
        const value high = of_row(in, at->args[2], row);
        const bool is_below = !a.is_null && !high.is_null && order(NUMBER, &a, &high) > 0;
        return high.failed ? high
               : is_below  ? truth_of(false, false)
                           : truth_of(is_null || high.is_null, true);
    }
    const bool decides = at->op == OR;
    if (!a.is_null && a.truth == decides) {
        return a;
    }
    const value b = of_row(in, at->args[1], row);
    if (b.failed || (!b.is_null && b.truth == decides)) {
        return b;
    }
    return truth_of(a.is_null || b.is_null, !decides);
}

static value extreme(const tree *at, const value *a, const value *b)
{
    if (a->is_null || b->is_null) {
        return a->is_null ? *b : *a;
    }
    const int found = order(NUMBER, b, a);
    return (at->op == GREATEST ? found > 0 : found < 0) ? *b : *a;
}

static value of_one(const tree *at, const value *a)
{
    value made = *a;
    switch ((int)at->op) {
    case IS_NULL:
        return truth_of(false, a->is_null);
    case IS_TRUE:
        return truth_of(false, !a->is_null && a->truth);
    case NOT:
        return truth_of(a->is_null, !a->truth);
    case LIKE:
        return truth_of(a->is_null, matches(patterns[at->variant], a->text));
    case IN: {
        const value list[] = {{.number = 1}, {.number = 25, .scale = 1}, {.number = -3}};
        bool is_there = false;
        for (int i = 0; i < 3; i++) {
            is_there = is_there || order(NUMBER, a, &list[i]) == 0;
        }
        return truth_of(a->is_null, is_there);
    }
    case UPPER:
        for (char *c = made.text; *c != '\0'; c++) {
            *c = *c >= 'a' && *c <= 'z' ? (char)(*c - 32) : *c;
            if ((unsigned char)*c == 0xC3 && (unsigned char)c[1] == 0xA9) {
                c[1] = (char)0x89; /* é */
            }
        }
        return made;
    default:
        made.number = at->op == NEGATE || a->number < 0 ? -a->number : a->number;
        return made;
    }
}

static value of_row(const world *in, const tree *at, int64_t row)
{
    if (at->op == COLUMN) {
        return column_value(in, at, row);
    }
    if (at->op == LITERAL) {
        value made = {.number = at->variant, .truth = at->variant % 2 == 0};
        snprintf(made.text, sizeof(made.text), "%s", at->of == TEXT ? texts[at->variant] : "");
        return made;
    }
    if (at->op == CASE || at->op == COALESCE || at->op == AND || at->op == OR ||
        at->op == BETWEEN) {
        return lazy(in, at, row);
    }
    const value a = of_row(in, at->args[0], row);
    if (a.failed || at->count == 1) {
        return a.failed ? a : of_one(at, &a);
    }
    const value b = of_row(in, at->args[1], row);
    const kind of = at->args[0]->of;
    if (b.failed) {
        return b;
    }
    const bool is_null = a.is_null || b.is_null;
    switch ((int)at->op) {
    case COMPARE:
        return truth_of(is_null, compares(at->variant, order(of, &a, &b)));
    case DISTINCT:
        return truth_of(false, is_null ? a.is_null != b.is_null : order(of, &a, &b) != 0);
    case NULLIF:
        return !is_null && order(NUMBER, &a, &b) == 0 ? (value){.is_null = true} : a;
    case GREATEST:
    case LEAST:
        return extreme(at, &a, &b);
    case JOIN: {
        value made = {.is_null = is_null};
        snprintf(made.text, sizeof(made.text), "%.200s%.200s", a.text, b.text);
        return made;
    }
    default:
        return arithmetic(at, &a, &b);
    }
}

/* ---- comparison ---- */

static gy_status find_column(void *arg, const gy_sql_node *node, int *index, gy_expr_type *type)
{
    const world *in = arg;
    *index = gy_schema_find(gy_frame_schema(in->frame), node->text);
    const gy_field *field = gy_schema_field(gy_frame_schema(in->frame), *index);
    *type = (gy_expr_type){.kind = field->kind,
                           .precision = field->precision,
                           .scale = field->scale,
                           .is_nullable = true};
    return GY_OK;
}

static bool is_same(const tree *at, const gy_column *column, int64_t row, const value *expected)
{
    if (gy_column_is_null(column, row) || expected->is_null) {
        return gy_column_is_null(column, row) == expected->is_null;
    }
    if (at->of == TEXT) {
        const gy_text_view text = gy_column_text(column, row);
        return text.size_bytes == strlen(expected->text) &&
               memcmp(text.data, expected->text, text.size_bytes) == 0;
    }
    if (at->of == TRUTH) {
        return gy_column_bool(column, row) == expected->truth;
    }
    value made = {.scale = column->field->scale};
    made.number = column->field->kind == GY_FIELD_INT64 ? gy_column_int64(column, row)
                                                        : gy_column_decimal(column, row);
    return order(NUMBER, &made, expected) == 0;
}

/* Both the values and which rows a filter keeps. */
static void compare(const world *in, const tree *at, const gy_expr *expr, const char *text)
{
    const int64_t rows = gy_frame_rows(in->frame);
    const gy_field field = gy_expr_field(expr, "x");
    gy_schema *schema = NULL;
    gy_frame *made = NULL, *kept = NULL;
    int64_t failed = -1, kept_count = 0;
    for (int64_t row = 0; row < rows && failed < 0; row++) {
        failed = of_row(in, at, row).failed ? row : -1;
    }
    assert_ok(gy_schema_new(&field, 1, &schema));
    const gy_status status = gy_expr_project(&expr, 1, schema, in->frame, &made);
    gy_schema_drop(schema);
    if ((status < 0) != (failed >= 0)) {
        fail_msg("%s: row %lld fails, status %d: %s", text, (long long)failed, status,
                 gy_error_text());
    }
    if (status < 0) {
        return;
    }
    assert_int_equal(gy_frame_rows(made), rows);
    const gy_column column = gy_frame_column(made, 0);
    for (int64_t row = 0; row < rows; row++) {
        const value expected = of_row(in, at, row);
        if (!is_same(at, &column, row, &expected)) {
            fail_msg("%s: row %lld of %lld differs (null: %d, truth: %d, number %lld)", text,
                     (long long)row, (long long)rows, expected.is_null, expected.truth,
                     (long long)expected.number);
        }
        kept_count += !expected.is_null && expected.truth;
    }
    gy_frame_drop(made);
    if (at->of == TRUTH) {
        assert_ok(gy_expr_filter(expr, in->frame, &kept));
        assert_int_equal(gy_frame_rows(kept), kept_count);
        gy_frame_drop(kept);
    }
}

static void try_one(world *in)
{
    gy_sql_report report = {.status = GY_OK};
    gy_text text = {.data = NULL};
    gy_sql_script script;
    gy_arena arena = {.blocks = NULL};
    gy_sql_node *node = NULL;
    const gy_expr *expr = NULL;
    in->tree_count = 0;
    const tree *root = grow(in, (kind)below(in, 3), DEPTH);
    print_tree(root, &text);
    const gy_sql_source source = {.path = "random",
                                  .text = gy_text_get(&text),
                                  .size = text.size_bytes,
                                  .report = &report};
    const gy_expr_scope scope = {
        .source = &source, .arena = &arena, .column = find_column, .arg = in};
    if (gy_sql_read_expression(&source, &script, &node) < 0 ||
        gy_expr_bind(&scope, node, &expr) < 0) {
        fail_msg("%s: %s", gy_text_get(&text), gy_error_text());
    }
    in->frame = random_frame(in);
    compare(in, root, expr, gy_text_get(&text));
    gy_frame_drop(in->frame);
    gy_arena_free(&arena);
    gy_sql_script_fini(&script);
    gy_text_free(&text);
}

GY_TEST(random_expressions_are_those_of_one_row_after_the_other)
{
    static world in;
    const uint64_t seed = gy_test_seed();
    gy_schema *schema = NULL;
    gy_frame_builder *builder = NULL;
    const long cases = gy_test_serial_cases(500);
    in.random = (gy_random){.key = seed};
    for (long i = 0; i < cases; i++) {
        assert_ok(gy_schema_parse(schema_text, &schema)); /* names are bound to it */
        assert_ok(gy_frame_builder_new(schema, &builder));
        assert_ok(gy_frame_finish(builder, &in.frame));
        gy_frame_builder_free(builder);
        gy_schema_drop(schema);
        gy_frame *empty = in.frame;
        try_one(&in);
        gy_frame_drop(empty);
    }
}

GY_TEST_MAIN(NULL, NULL)
