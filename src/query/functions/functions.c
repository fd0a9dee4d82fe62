/* Lists of a program's functions, and what their calls may do. */
#include "query/functions/functions.h"

#include "frame/frame.h"

#include <string.h>

enum { FUNCTIONS_MAX = 1 << 16, NAME_MAX = 62 };

/* ---- What functions call ---- */

void *gy_function_context(const gy_function_call *call)
{
    return call->function->context;
}

char *gy_function_text(gy_function_call *call, size_t size_bytes)
{
    return call->text != NULL ? call->text(call->text_arg, GY_MAX(size_bytes, (size_t)1))
                              : NULL;
}

gy_status gy_function_fail(gy_function_call *call, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)gy_print_list(call->reason, sizeof(call->reason), format, args);
    va_end(args);
    return GY_ARG;
}

gy_schema *gy_function_columns(const gy_function_call *call)
{
    return call->columns;
}

gy_status gy_function_emit(gy_function_call *call, gy_frame *frame)
{
    const gy_schema *given = gy_frame_schema(frame);
    const int count = call->columns != NULL ? gy_schema_count(call->columns) : -1;
    bool is_same = gy_schema_count(given) == count;
    for (int i = 0; i < count && is_same; i++) {
        const gy_field *a = gy_schema_field(given, i), *b = gy_schema_field(call->columns, i);
        is_same = a->kind == b->kind && a->precision == b->precision && a->scale == b->scale;
    }
    return is_same
               ? call->emit(call->emit_arg, frame)
               : gy_function_fail(call, "it gives a frame of other columns than it declares");
}

/* ---- Lists ---- */

static bool is_name(const char *name)
{
    const size_t size =
        name != NULL ? strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;
    return size > 0 && size <= NAME_MAX && name[size] == '\0' &&
           !(name[0] >= '0' && name[0] <= '9');
}

/* A schema says what is wrong with a type. */
static gy_status check_types(const gy_query_function *of)
{
    const bool has_result = of->apply == NULL;
    gy_schema *schema = NULL;
    gy_field fields[GY_FUNCTION_PARAMETERS_MAX + 1];
    const int count = of->parameter_count;
    if (count < 0 || count > GY_FUNCTION_PARAMETERS_MAX ||
        (count > 0 && of->parameters == NULL)) {
        return gy_fail(GY_ARG, "function %s has %d parameters: expected 0 to %d", of->name,
                       count, GY_FUNCTION_PARAMETERS_MAX);
    }
    for (int i = 0; i < count + (has_result ? 1 : 0); i++) {
        fields[i] = i < count ? of->parameters[i] : of->result;
        fields[i].name = i < count ? "a parameter" : "the result";
    }
    const gy_status status = gy_schema_new(fields, count + (has_result ? 1 : 0), &schema);
    gy_schema_drop(schema);
    return status == GY_OK ? GY_OK : gy_fail_within(status, "function %s", of->name);
}

static gy_status check_columns(const gy_query_function *of)
{
    gy_schema *schema = NULL;
    if (of->column_count < 1 || of->columns == NULL) {
        return gy_fail(GY_ARG, "function %s gives no columns: expected 1 at least", of->name);
    }
    for (int i = 0; i < of->column_count; i++) {
        if (of->columns[i].name == NULL || of->columns[i].name[0] == '\0') {
            return gy_fail(GY_ARG, "function %s gives a column without a name", of->name);
        }
    }
    const gy_status status = gy_schema_new(of->columns, of->column_count, &schema);
    gy_schema_drop(schema);
    return status == GY_OK ? GY_OK : gy_fail_within(status, "function %s", of->name);
}

/* Whether it is of one kind. */
static bool has_work(const gy_query_function *of)
{
    const bool is_any = of->accumulate != NULL || of->merge != NULL || of->finish != NULL;
    const bool is_all = of->accumulate != NULL && of->merge != NULL && of->finish != NULL;
    return (of->scalar != NULL) + (of->apply != NULL) + is_any == 1 && is_any == is_all;
}

static gy_status check_work(const gy_query_function *of)
{
    if (!has_work(of)) {
        return gy_fail(GY_ARG,
                       "function %s has nothing to run: expected scalar, or accumulate, merge "
                       "and finish, or apply",
                       of->name);
    }
    if (of->scalar == NULL && of->parameter_count <= 0) {
        return gy_fail(GY_ARG, "%s %s has no parameter: expected 1 at least",
                       of->apply != NULL ? "function" : "aggregate", of->name);
    }
    if (of->apply != NULL) {
        return check_columns(of);
    }
    if (of->scalar != NULL) {
        return GY_OK;
    }
    if (of->state_bytes < 1 || of->state_bytes > GY_FUNCTION_STATE_BYTES_MAX) {
        return gy_fail(GY_ARG, "aggregate %s has a state of %zu bytes: expected 1 to %d",
                       of->name, of->state_bytes, GY_FUNCTION_STATE_BYTES_MAX);
    }
    return GY_OK;
}

static gy_status check_one(const gy_query_functions *functions, int at,
                           bool (*is_builtin)(const char *name))
{
    const gy_query_function *of = &functions->items[at];
    if (!is_name(of->name)) {
        return gy_fail(GY_ARG,
                       "function %d of the query's has the name \"%.80s\": expected a to z, "
                       "digits and _, at most %d",
                       at, of->name != NULL ? of->name : "", NAME_MAX);
    }
    if (is_builtin(of->name)) {
        return gy_fail(GY_ARG, "there is a builtin function %s: give yours another name",
                       of->name);
    }
    for (int i = 0; i < at; i++) {
        if (strcmp(functions->items[i].name, of->name) == 0) {
            return gy_fail(GY_ARG, "functions %d and %d of the query's have the name %s", i, at,
                           of->name);
        }
    }
    GY_TRY(check_work(of));
    return check_types(of);
}

gy_status gy_query_functions_check(const gy_query_functions *functions,
                                   bool (*is_builtin)(const char *name))
{
    if (functions->count < 0 || functions->count > FUNCTIONS_MAX ||
        (functions->count > 0 && functions->items == NULL)) {
        return gy_fail(GY_ARG, "%d functions of a query: expected 0 to %d", functions->count,
                       FUNCTIONS_MAX);
    }
    for (int i = 0; i < functions->count; i++) {
        GY_TRY(check_one(functions, i, is_builtin));
    }
    return GY_OK;
}

const gy_query_function *gy_query_function_find(const gy_query_functions *functions,
                                                const char *name)
{
    for (int i = 0; functions != NULL && i < functions->count; i++) {
        if (strcmp(functions->items[i].name, name) == 0) {
            return &functions->items[i];
        }
    }
    return NULL;
}

const char *gy_query_function_text(const gy_query_function *function, char out[300])
{
    const size_t bytes = 300;
    size_t size = gy_print(out, bytes, "%s(", function->name);
    for (int i = 0; i < function->parameter_count; i++) {
        const gy_field *field = &function->parameters[i];
        size += gy_print(out + size, bytes - size, "%s%s", i > 0 ? ", " : "",
                         gy_field_kind_name(field->kind));
        if (field->kind == GY_FIELD_DECIMAL) {
            size +=
                gy_print(out + size, bytes - size, "(%d, %d)", field->precision, field->scale);
        }
    }
    (void)gy_print(out + size, bytes - size, ")");
    return out;
}

/* ---- Ends of calls ---- */

gy_status gy_query_function_end(const gy_function_call *call, gy_status status)
{
    if (status == GY_OK || status == GY_NOMEM) {
        return status;
    }
    return gy_fail(GY_ARG, "function %s: %s", call->function->name,
                   call->reason[0] != '\0' ? call->reason
                   : status < 0            ? gy_status_text(status)
                                           : "a status that is no failure");
}

static bool is_day(int64_t days)
{
    return days >= GY_DAYS_MIN && days < GY_DAYS_END;
}

static bool has_digits(gy_int128 value, int digits)
{
    for (; digits > 0 && value != 0; digits--) {
        value /= 10;
    }
    return value == 0;
}

gy_status gy_query_function_check(const gy_function_call *call, const gy_function_value *result)
{
    const gy_query_function *of = call->function;
    size_t wrong = 0;
    const char *what = NULL;
    if (result->is_null) {
        return GY_OK;
    }
    switch (of->result.kind) {
    case GY_FIELD_DECIMAL:
        what = has_digits(result->decimal, of->result.precision)
                   ? NULL
                   : "a decimal of too many digits";
        break;
    case GY_FIELD_DATE:
        what = is_day(result->integer) ? NULL : "a date outside the years 1 to 9999";
        break;
    case GY_FIELD_TIMESTAMP:
        what = result->integer >= GY_DAYS_MIN * GY_MICROS_A_DAY &&
                       result->integer < GY_DAYS_END * GY_MICROS_A_DAY
                   ? NULL
                   : "a timestamp outside the years 1 to 9999";
        break;
    case GY_FIELD_TEXT:
        what = gy_frame_is_utf8(result->text.data, result->text.size_bytes, &wrong)
                   ? NULL
                   : "a text that is no UTF-8 or has a NUL";
        break;
    case GY_FIELD_BOOL:
    case GY_FIELD_INT64:
    case GY_FIELD_DOUBLE:
    default:
        break;
    }
    return what == NULL ? GY_OK
                        : gy_fail(GY_ARG, "function %s: its result is %s", of->name, what);
}
