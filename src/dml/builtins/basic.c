/* What a script says and asks: print, stop, casts, lists, time. */
#include "dml/builtins/builtins_priv.h"
#include "dml/frame/frame.h"

#include <string.h>
#include <time.h>

/* The value of a conversion "%5.2f" for one argument. */
static gy_status add_conversion(gy_text *text, const char *conversion, size_t size,
                                const gy_dml_value *value)
{
    char format[48];
    const char kind = conversion[size - 1];
    double real = 0;
    int64_t whole = 0;
    if (size + 3 > sizeof(format)) {
        return gy_fail(GY_ARG, "print: the conversion %.20s... is too long", conversion);
    }
    if (strchr("dioxX", kind) != NULL) {
        GY_TRY(gy_dml_as_integer(value, "print", &whole));
        gy_print(format, sizeof(format), "%.*sll%c", (int)size - 1, conversion,
                 kind == 'i' ? 'd' : kind);
    } else if (strchr("feEgG", kind) != NULL) {
        GY_TRY(gy_dml_as_real(value, "print", &real));
        gy_print(format, sizeof(format), "%.*s", (int)size, conversion);
    } else if (kind == 's' || kind == 'b') {
        gy_dml_add_value(text, value);
        return GY_OK;
    } else {
        return gy_fail(GY_ARG, "print: no value is shown as %%%c", kind);
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (strchr("dioxX", kind) != NULL) {
        gy_text_add(text, format, (long long)whole);
    } else {
        gy_text_add(text, format, real);
    }
#pragma GCC diagnostic pop
    return GY_OK;
}

/* As Java's formatter: conversions take the further arguments in order, %n is a line end. */
static gy_status add_format(gy_dml_call *call, const char *format, gy_text *text)
{
    int next = 1;
    while (*format != '\0') {
        const size_t plain = strcspn(format, "%");
        gy_text_add_bytes(text, format, plain);
        format += plain;
        if (*format == '\0') {
            break;
        }
        const size_t size = strspn(format + 1, "0123456789.-+ #") + 2;
        const char kind = format[size - 1];
        if (kind == '%' || kind == 'n') {
            gy_text_add(text, "%s", kind == '%' ? "%" : "\n");
        } else if (kind == '\0' || next >= call->count) {
            return gy_fail(GY_ARG, "print: the format wants more than %d values",
                           call->count - 1);
        } else {
            GY_TRY(add_conversion(text, format, size, &call->args[next++]));
        }
        format += size;
    }
    return GY_OK;
}

gy_status gy_dml_run_print(gy_dml_call *call)
{
    gy_text text = {.data = NULL};
    gy_status status = GY_OK;
    if (call->count > 1 && call->args[0].kind == GY_DML_IS_TEXT) {
        status = add_format(call, call->args[0].text->data, &text);
    } else {
        gy_dml_add_value(&text, &call->args[0]);
    }
    gy_text_add(&text, "\n");
    status = status == GY_OK ? text.status : status;
    if (status == GY_OK) {
        call->state->print(call->state->print_arg, text.data, text.size_bytes);
    }
    gy_text_free(&text);
    return status;
}

gy_status gy_dml_run_to_string(gy_dml_call *call)
{
    gy_dml_matrix_style style = {.between = " ", .line_end = "\n"};
    int64_t rows = 100, columns = 100, decimals = 3;
    GY_TRY(gy_dml_arg_integer(call, 1, &rows));
    GY_TRY(gy_dml_arg_integer(call, 2, &columns));
    GY_TRY(gy_dml_arg_integer(call, 3, &decimals));
    GY_TRY(gy_dml_arg_boolean(call, 4, &style.is_sparse));
    GY_TRY(gy_dml_arg_text(call, 5, &style.between));
    GY_TRY(gy_dml_arg_text(call, 6, &style.line_end));
    if (decimals > 300) {
        return gy_fail(GY_ARG, "toString: decimal: %lld is above 300", (long long)decimals);
    }
    gy_text text = {.data = NULL};
    style.rows = rows;
    style.columns = columns;
    style.decimals = (int)GY_MAX(decimals, -1);
    if (call->args[0].kind == GY_DML_IS_MATRIX) {
        gy_dml_add_matrix(&text, call->args[0].matrix, &style);
    } else if (call->args[0].kind == GY_DML_IS_FRAME) {
        style.rows = gy_dml_has(call, 1) ? rows : -1;
        style.columns = gy_dml_has(call, 2) ? columns : -1;
        gy_dml_add_frame(&text, call->args[0].frame, &style);
    } else {
        gy_dml_add_value(&text, &call->args[0]);
    }
    gy_status status = text.status;
    if (status == GY_OK) {
        status = gy_dml_of_text(gy_text_get(&text), text.size_bytes, &call->results[0]);
    }
    gy_text_free(&text);
    return status;
}

gy_status gy_dml_run_stop(gy_dml_call *call)
{
    gy_text text = {.data = NULL};
    gy_dml_add_value(&text, &call->args[0]);
    const gy_status status = gy_fail(GY_STATE, "stopped: %.900s", gy_text_get(&text));
    gy_text_free(&text);
    return status;
}

gy_status gy_dml_run_assert(gy_dml_call *call)
{
    bool holds = false;
    GY_TRY(gy_dml_arg_boolean(call, 0, &holds));
    call->results[0] = gy_dml_of_boolean(true);
    return holds ? GY_OK : gy_fail(GY_STATE, "assert: the condition does not hold");
}

gy_status gy_dml_run_time(gy_dml_call *call)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return gy_dml_give_integer(call, (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
}

gy_status gy_dml_run_list(gy_dml_call *call)
{
    gy_dml_list *list = NULL;
    GY_TRY(gy_dml_list_new(&list));
    call->results[0] = gy_dml_of_list(list);
    for (int i = 0; i < call->count; i++) {
        GY_TRY(
            gy_dml_list_add(list, call->args[i], call->names != NULL ? call->names[i] : NULL));
    }
    return GY_OK;
}

gy_status gy_dml_run_as_scalar(gy_dml_call *call)
{
    const gy_dml_value *value = &call->args[0];
    while (value->kind == GY_DML_IS_LIST && value->list->count == 1) {
        value = &value->list->items[0];
    }
    if (gy_dml_is_scalar(value)) {
        call->results[0] = gy_dml_hold(*value);
        return GY_OK;
    }
    if (value->kind == GY_DML_IS_FRAME) {
        const gy_dml_frame *frame = value->frame;
        return frame->rows == 1 && frame->columns == 1
                   ? gy_dml_column_get(frame->items[0], 0, &call->results[0])
                   : gy_fail(GY_TYPE,
                             "as.scalar: expected one cell, found a frame of %lldx%lld",
                             (long long)frame->rows, (long long)frame->columns);
    }
    double real = 0;
    GY_TRY(gy_dml_as_real(value, "as.scalar", &real));
    return gy_dml_give_real(call, real);
}

gy_status gy_dml_run_as_matrix(gy_dml_call *call)
{
    const gy_dml_value *value = &call->args[0];
    if (value->kind == GY_DML_IS_LIST && value->list->count != 1) { /* a column of its items */
        gy_dml_matrix *made = NULL;
        GY_TRY(gy_dml_matrix_new((int64_t)value->list->count, 1, &made));
        GY_TRY(gy_dml_give(call, made));
        for (size_t i = 0; i < value->list->count; i++) {
            GY_TRY(gy_dml_as_real(&value->list->items[i], "as.matrix", &made->data[i]));
        }
        return GY_OK;
    }
    gy_dml_matrix *matrix = NULL;
    if (value->kind == GY_DML_IS_LIST) {
        value = &value->list->items[0];
    }
    if (value->kind == GY_DML_IS_FRAME) {
        const gy_status status = gy_dml_frame_to_matrix(value->frame, &matrix);
        GY_TRY(status == GY_OK || status == GY_NOMEM ? status
                                                     : gy_fail_within(status, "as.matrix"));
        return gy_dml_give(call, matrix);
    }
    GY_TRY(gy_dml_arg_matrix(call, 0, &matrix));
    return gy_dml_give(call, matrix);
}

gy_status gy_dml_run_as_list(gy_dml_call *call)
{
    const gy_dml_value *value = &call->args[0];
    if (value->kind != GY_DML_IS_LIST) {
        return gy_dml_run_list(call);
    }
    /* l[1] is a list of one item: where that is a list, it is meant */
    const bool is_inner =
        value->list->count == 1 && value->list->items[0].kind == GY_DML_IS_LIST;
    call->results[0] = gy_dml_hold(is_inner ? value->list->items[0] : *value);
    return GY_OK;
}

gy_status gy_dml_run_as_double(gy_dml_call *call)
{
    double real = 0;
    GY_TRY(gy_dml_arg_real(call, 0, &real));
    return gy_dml_give_real(call, real);
}

gy_status gy_dml_run_as_integer(gy_dml_call *call)
{
    int64_t whole = 0;
    GY_TRY(gy_dml_arg_integer(call, 0, &whole));
    return gy_dml_give_integer(call, whole);
}

gy_status gy_dml_run_as_boolean(gy_dml_call *call)
{
    bool truth = false;
    GY_TRY(gy_dml_arg_boolean(call, 0, &truth));
    call->results[0] = gy_dml_of_boolean(truth);
    return GY_OK;
}

/* eval("f", x, …), or eval("f", list(…)) with the list's items as the arguments. */
static gy_status eval(gy_dml_call *call, gy_dml_value *results)
{
    const char *name = "";
    gy_dml_list *args = NULL;
    GY_TRY(gy_dml_arg_text(call, 0, &name));
    const bool is_list = call->count == 2 && call->args[1].kind == GY_DML_IS_LIST;
    if (is_list) {
        args = gy_dml_hold(call->args[1]).list;
    } else {
        GY_TRY(gy_dml_list_new(&args));
    }
    gy_dml_value held = gy_dml_of_list(args);
    gy_status status = GY_OK;
    for (int i = 1; i < call->count && !is_list && status == GY_OK; i++) {
        status =
            gy_dml_list_add(args, call->args[i], call->names != NULL ? call->names[i] : NULL);
    }
    status = status == GY_OK ? call->state->call(call->state, name, args, results) : status;
    gy_dml_drop(&held);
    return status;
}

gy_status gy_dml_run_eval(gy_dml_call *call)
{
    gy_dml_value results = GY_DML_NONE;
    gy_status status = eval(call, &results);
    if (status == GY_OK && results.list->count > 0) {
        call->results[0] = gy_dml_hold(results.list->items[0]);
    }
    gy_dml_drop(&results);
    return status;
}

gy_status gy_dml_run_eval_list(gy_dml_call *call)
{
    return eval(call, &call->results[0]);
}

/* [rest, item] = remove(list, place or name) */
gy_status gy_dml_run_remove(gy_dml_call *call)
{
    gy_dml_list *rest = NULL;
    int64_t at = 0;
    if (call->args[0].kind != GY_DML_IS_LIST) {
        return gy_fail(GY_TYPE, "remove: expected a list, found %s",
                       gy_dml_value_kind_text(call->args[0].kind));
    }
    const gy_dml_list *list = call->args[0].list;
    if (call->args[1].kind == GY_DML_IS_TEXT) {
        at = gy_dml_list_find(list, call->args[1].text->data) + 1;
    } else {
        GY_TRY(gy_dml_arg_integer(call, 1, &at));
    }
    if (at < 1 || at > (int64_t)list->count) {
        return gy_fail(GY_ARG, "remove: the list of %zu items has no such item", list->count);
    }
    GY_TRY(gy_dml_list_new(&rest));
    call->results[0] = gy_dml_of_list(rest);
    call->results[1] = gy_dml_hold(list->items[at - 1]);
    for (size_t i = 0; i < list->count; i++) {
        const bool has_name = list->names != NULL && list->names[i] != NULL;
        if ((int64_t)i != at - 1) {
            GY_TRY(
                gy_dml_list_add(rest, list->items[i], has_name ? list->names[i]->data : NULL));
        }
    }
    return GY_OK;
}

/* What only says how a value is held, which Gyre decides itself. */
gy_status gy_dml_run_same(gy_dml_call *call)
{
    call->results[0] = gy_dml_hold(call->args[0]);
    return GY_OK;
}
