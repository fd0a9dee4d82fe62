/* Schemas: made of fields, and of a text as SQL writes lists of columns. */
#include "frame/frame_priv.h"

#include <string.h>
#include <strings.h>

struct gy_schema {
    atomic_int_fast64_t holds;
    int count;
    gy_field fields[]; /* (count), their names behind them */
};

const char *gy_field_kind_name(gy_field_kind kind)
{
    switch (kind) {
#define GY_X(name, value, text)                                                                \
    case GY_FIELD_##name:                                                                      \
        return text;
        GY_FIELD_LIST(GY_X)
#undef GY_X
    }
    return "no type";
}

size_t gy_frame_kind_bytes(gy_field_kind kind)
{
    switch (kind) {
    case GY_FIELD_BOOL:
        return 0;
    case GY_FIELD_INT64:
    case GY_FIELD_DOUBLE:
    case GY_FIELD_TIMESTAMP:
        return 8;
    case GY_FIELD_DECIMAL:
        return sizeof(gy_int128);
    case GY_FIELD_DATE:
    case GY_FIELD_TEXT:
        break;
    }
    return sizeof(int32_t);
}

static gy_status check_field(const gy_field *field, int index)
{
    size_t wrong = 0;
    if (field->name == NULL || !gy_frame_is_utf8(field->name, strlen(field->name), &wrong)) {
        return gy_fail(GY_ARG, "column %d: its name is no UTF-8", index + 1);
    }
    if (field->kind < GY_FIELD_BOOL || field->kind > GY_FIELD_TEXT) {
        return gy_fail(GY_ARG, "column '%s': there is no type %d", field->name,
                       (int)field->kind);
    }
    const bool is_decimal = field->kind == GY_FIELD_DECIMAL;
    const int min = is_decimal ? 1 : 0, max = is_decimal ? GY_DECIMAL_DIGITS_MAX : 0;
    if (field->precision < min || field->precision > max || field->scale < 0 ||
        field->scale > field->precision) {
        return gy_fail(GY_ARG,
                       "column '%s': %s with precision %d and scale %d: expected a precision "
                       "of %d to %d and a scale of 0 to it",
                       field->name, gy_field_kind_name(field->kind), field->precision,
                       field->scale, min, max);
    }
    return GY_OK;
}

gy_status gy_schema_new(const gy_field *fields, int count, gy_schema **schema)
{
    if (count < 0 || count > GY_FRAME_COLUMNS_MAX) {
        return gy_fail(GY_ARG, "a schema of %d columns: expected at most %d", count,
                       GY_FRAME_COLUMNS_MAX);
    }
    size_t names = 0;
    for (int i = 0; i < count; i++) {
        GY_TRY(check_field(&fields[i], i));
        names += strlen(fields[i].name) + 1;
    }
    gy_schema *made =
        gy_alloc("frame.schema", sizeof(*made) + (size_t)count * sizeof(gy_field) + names);
    if (made == NULL) {
        return GY_NOMEM;
    }
    atomic_init(&made->holds, 1);
    made->count = count;
    char *name = (char *)&made->fields[count];
    for (int i = 0; i < count; i++) {
        const size_t size = strlen(fields[i].name) + 1;
        made->fields[i] = fields[i];
        made->fields[i].name = memcpy(name, fields[i].name, size);
        name += size;
    }
    *schema = made;
    return GY_OK;
}

gy_schema *gy_schema_hold(gy_schema *schema)
{
    const int_fast64_t before =
        atomic_fetch_add_explicit(&schema->holds, 1, memory_order_relaxed);
    GY_ASSERT(before > 0);
    return schema;
}

void gy_schema_drop(gy_schema *schema)
{
    /* acq_rel: what other holders read comes before the free */
    if (schema != NULL &&
        atomic_fetch_sub_explicit(&schema->holds, 1, memory_order_acq_rel) == 1) {
        gy_free(schema);
    }
}

int gy_schema_count(const gy_schema *schema)
{
    return schema->count;
}

const gy_field *gy_schema_field(const gy_schema *schema, int index)
{
    GY_ASSERT(index >= 0 && index < schema->count);
    return &schema->fields[index];
}

int gy_schema_find(const gy_schema *schema, const char *name)
{
    int found = -1;
    for (int i = 0; i < schema->count; i++) {
        if (strcmp(schema->fields[i].name, name) == 0) {
            if (found >= 0) {
                return -2;
            }
            found = i;
        }
    }
    return found;
}

/* ---- of a text ---- */

typedef struct field_list {
    const char *text, *at;
    gy_text names; /* one behind the other, each with its NUL */
    gy_field *fields;
    size_t count, capacity;
} field_list;

static void skip_space(field_list *parser)
{
    parser->at += strspn(parser->at, " \t\r\n");
}

static gy_status fail_at(const field_list *parser, const char *expected)
{
    return gy_fail(GY_ARG, "columns: '%.40s' at byte %td: expected %s", parser->at,
                   parser->at - parser->text, expected);
}

/* Letters, digits and '_', and what is not ASCII. */
static size_t word_bytes(const char *at)
{
    size_t size = 0;
    while (at[size] == '_' || (at[size] >= '0' && at[size] <= '9') ||
           ((at[size] | 0x20) >= 'a' && (at[size] | 0x20) <= 'z') ||
           (unsigned char)at[size] >= 0x80) {
        size++;
    }
    return size;
}

/* Append the name of a column, plain or in quotes. */
static gy_status parse_name(field_list *parser)
{
    if (*parser->at != '"') {
        const size_t size = word_bytes(parser->at);
        if (size == 0) {
            return fail_at(parser, "a column's name");
        }
        gy_text_add_bytes(&parser->names, parser->at, size);
        gy_text_add_bytes(&parser->names, "", 1);
        parser->at += size;
        return parser->names.status;
    }
    for (parser->at++; *parser->at != '"' || parser->at[1] == '"'; parser->at++) {
        if (*parser->at == '\0') {
            return fail_at(parser, "the quote that closes a column's name");
        }
        gy_text_add_bytes(&parser->names, parser->at, 1);
        parser->at += *parser->at == '"';
    }
    parser->at++;
    gy_text_add_bytes(&parser->names, "", 1);
    return parser->names.status;
}

/* "(12, 2)" behind decimal. */
static gy_status parse_digits(field_list *parser, gy_field *field)
{
    field->precision = GY_DECIMAL_DIGITS_MAX;
    skip_space(parser);
    if (*parser->at != '(') {
        return fail_at(parser, "(PRECISION, SCALE) behind decimal");
    }
    int *const numbers[] = {&field->precision, &field->scale};
    for (size_t i = 0; i < GY_COUNT(numbers); i++) {
        parser->at++;
        skip_space(parser);
        const size_t size = strspn(parser->at, "0123456789");
        if (size == 0 || size > 3) {
            return fail_at(parser, "a number of digits");
        }
        *numbers[i] = 0;
        for (size_t k = 0; k < size; k++) {
            *numbers[i] = *numbers[i] * 10 + (parser->at[k] - '0');
        }
        parser->at += size;
        skip_space(parser);
        if (*parser->at == ')') {
            parser->at++;
            return GY_OK;
        }
        if (*parser->at != ',') {
            return fail_at(parser, "',' or ')'");
        }
    }
    return fail_at(parser, "')'");
}

static gy_status parse_type(field_list *parser, gy_field *field)
{
    static const struct {
        const char *name;
        gy_field_kind kind;
    } types[] = {
        {"bool", GY_FIELD_BOOL},           {"boolean", GY_FIELD_BOOL},
        {"int", GY_FIELD_INT64},           {"integer", GY_FIELD_INT64},
        {"int8", GY_FIELD_INT64},          {"bigint", GY_FIELD_INT64},
        {"int64", GY_FIELD_INT64},         {"double", GY_FIELD_DOUBLE},
        {"float8", GY_FIELD_DOUBLE},       {"decimal", GY_FIELD_DECIMAL},
        {"numeric", GY_FIELD_DECIMAL},     {"date", GY_FIELD_DATE},
        {"timestamp", GY_FIELD_TIMESTAMP}, {"timestamptz", GY_FIELD_TIMESTAMP},
        {"text", GY_FIELD_TEXT},           {"varchar", GY_FIELD_TEXT},
    };
    const size_t size = word_bytes(parser->at);
    for (size_t i = 0; i < GY_COUNT(types); i++) {
        if (size == strlen(types[i].name) &&
            strncasecmp(types[i].name, parser->at, size) == 0) {
            field->kind = types[i].kind;
            parser->at += size;
            if (field->kind == GY_FIELD_DECIMAL) {
                return parse_digits(parser, field);
            }
            skip_space(parser);
            if (strcmp(types[i].name, "double") == 0 && word_bytes(parser->at) == 9 &&
                strncasecmp(parser->at, "precision", 9) == 0) {
                parser->at += 9;
            }
            return GY_OK;
        }
    }
    return fail_at(parser, "a type: bool, int, double, decimal(P, S), date, timestamp, text");
}

static gy_status parse_all(field_list *parser)
{
    skip_space(parser);
    while (*parser->at != '\0') {
        gy_field field = {.name = ""};
        GY_TRY(parse_name(parser));
        skip_space(parser);
        GY_TRY(parse_type(parser, &field));
        GY_TRY(GY_GROW("frame.schema", parser->fields, parser->capacity, parser->count + 1));
        parser->fields[parser->count++] = field;
        skip_space(parser);
        if (*parser->at == ',') {
            parser->at++;
            skip_space(parser);
            if (*parser->at == '\0') {
                return fail_at(parser, "a column behind the comma");
            }
        } else if (*parser->at != '\0') {
            return fail_at(parser, "',' between columns");
        }
    }
    return GY_OK;
}

gy_status gy_schema_parse(const char *text, gy_schema **schema)
{
    field_list parser = {.text = text, .at = text};
    gy_status status = parse_all(&parser);
    const char *name = gy_text_get(&parser.names);
    for (size_t i = 0; i < parser.count; i++) {
        parser.fields[i].name = name;
        name += strlen(name) + 1;
    }
    if (status == GY_OK) {
        status =
            gy_schema_new(parser.fields, (int)GY_MIN(parser.count, (size_t)INT32_MAX), schema);
    }
    gy_text_free(&parser.names);
    gy_free(parser.fields);
    return status;
}

static void add_name(gy_text *text, const char *name)
{
    const size_t size = strlen(name);
    if (size > 0 && word_bytes(name) == size) {
        gy_text_add_bytes(text, name, size);
        return;
    }
    gy_text_add_bytes(text, "\"", 1);
    for (; *name != '\0'; name++) {
        gy_text_add_bytes(text, name, 1);
        if (*name == '"') {
            gy_text_add_bytes(text, name, 1);
        }
    }
    gy_text_add_bytes(text, "\"", 1);
}

gy_status gy_schema_text(const gy_schema *schema, char **text)
{
    gy_text out = {.data = NULL};
    gy_text_add_bytes(&out, "", 0);
    for (int i = 0; i < schema->count; i++) {
        const gy_field *field = &schema->fields[i];
        gy_text_add(&out, "%s", i > 0 ? ", " : "");
        add_name(&out, field->name);
        gy_text_add(&out, " %s", gy_field_kind_name(field->kind));
        if (field->kind == GY_FIELD_DECIMAL) {
            gy_text_add(&out, "(%d, %d)", field->precision, field->scale);
        }
    }
    if (out.status != GY_OK) {
        gy_text_free(&out);
        return GY_NOMEM;
    }
    *text = out.data;
    return GY_OK;
}
