/* Goal: an expression has PostgreSQL's type and value, whatever the rows, nulls and slices it
 * is evaluated over, and what has no value says so. */
#include "query/expr/expr.h"

#include "gy_test.h"

static gy_sql_report report;

/* A text with what it becomes. */
typedef struct reading {
    gy_sql_script script;
    gy_arena arena;
    gy_sql_source source;
    const gy_expr *expr;
} reading;

static gy_status find_column(void *arg, const gy_sql_node *node, int *index, gy_expr_type *type)
{
    const gy_frame *frame = arg;
    *index = frame != NULL ? gy_schema_find(gy_frame_schema(frame), node->text) : -1;
    if (*index < 0) {
        return GY_ARG;
    }
    const gy_field *field = gy_schema_field(gy_frame_schema(frame), *index);
    *type = (gy_expr_type){.kind = field->kind,
                           .precision = field->precision,
                           .scale = field->scale,
                           .is_nullable = true};
    return GY_OK;
}

static gy_status bind(reading *at, const char *text, gy_frame *frame)
{
    gy_sql_node *node = NULL;
    report = (gy_sql_report){.status = GY_OK};
    *at = (reading){
        .source = {.path = "query", .text = text, .size = strlen(text), .report = &report}};
    const gy_expr_scope scope = {
        .source = &at->source, .arena = &at->arena, .column = find_column, .arg = frame};
    GY_TRY(gy_sql_read_expression(&at->source, &at->script, &node));
    return gy_expr_bind(&scope, node, &at->expr);
}

static void fini(reading *at)
{
    gy_arena_free(&at->arena);
    gy_sql_script_fini(&at->script);
}

/* The value of row `row` of the text's expression over `frame`. */
static gy_status evaluate(const reading *at, const gy_frame *frame, gy_frame **out)
{
    const gy_field field = gy_expr_field(at->expr, "x");
    gy_schema *schema = NULL;
    GY_TRY(gy_schema_new(&field, 1, &schema));
    const gy_status status = gy_expr_project(&at->expr, 1, schema, frame, out);
    gy_schema_drop(schema);
    return status;
}

static void write_value(const gy_frame *frame, int64_t row, char *out, size_t size)
{
    const gy_column column = gy_frame_column(frame, 0);
    if (gy_column_is_null(&column, row)) {
        snprintf(out, size, "null");
    } else if (column.field->kind == GY_FIELD_TEXT) {
        const gy_text_view text = gy_column_text(&column, row);
        snprintf(out, size, "%.*s", (int)text.size_bytes, text.data);
    } else {
        char value[GY_FRAME_VALUE_BYTES];
        gy_frame_write(&column, row, value);
        snprintf(out, size, "%s", value);
    }
}

/* A frame of so many rows, with a column that nobody asks for. */
static gy_frame *rows_of(int count)
{
    gy_schema *schema = NULL;
    gy_frame_builder *builder = NULL;
    gy_frame *frame = NULL;
    assert_ok(gy_schema_parse("one int", &schema));
    assert_ok(gy_frame_builder_new(schema, &builder));
    for (int i = 0; i < count; i++) {
        gy_frame_add_int64(builder, i + 1);
        gy_frame_row_end(builder);
    }
    assert_ok(gy_frame_finish(builder, &frame));
    gy_frame_builder_free(builder);
    gy_schema_drop(schema);
    return frame;
}

/* What PostgreSQL 15 says. */
static const struct {
    const char *sql, *type, *value;
} cases[] = {
#include "query/expr/cases_test.def"
};

GY_TEST(values_are_those_of_postgresql)
{
    gy_frame *frame = rows_of(1);
    int wrong = 0;
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        reading at;
        gy_frame *made = NULL;
        char type[48], value[256] = "";
        gy_status status = bind(&at, cases[i].sql, frame);
        status = status == GY_OK ? evaluate(&at, frame, &made) : status;
        if (status != GY_OK) {
            print_message("%s: %s\n", cases[i].sql, gy_error_text());
            wrong++;
            fini(&at);
            continue;
        }
        write_value(made, 0, value, sizeof(value));
        gy_field_kind kind = gy_expr_type_of(at.expr)->kind;
        snprintf(type, sizeof(type), "%s", gy_field_kind_name(kind));
        if (strcmp(value, cases[i].value) != 0 || strcmp(type, cases[i].type) != 0) {
            print_message("%s: %s %s, expected %s %s\n", cases[i].sql, type, value,
                          cases[i].type, cases[i].value);
            wrong++;
        }
        gy_frame_drop(made);
        fini(&at);
    }
    gy_frame_drop(frame);
    assert_int_equal(wrong, 0);
}

GY_TEST_MAIN(NULL, NULL)
