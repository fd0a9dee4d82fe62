/* read and write. */
#include "dml/builtins/builtins_priv.h"
#include "dml/files/files.h"

#include <string.h>

static gy_status take_format(const gy_dml_call *call, int argument, gy_dml_meta *meta)
{
    const char *name = NULL;
    GY_TRY(gy_dml_arg_text(call, argument, &name));
    if (name != NULL && !gy_dml_format_parse(name, &meta->format)) {
        return gy_fail(GY_UNSUPPORTED, "%s: format: \"%.40s\" is none of text, csv, mm",
                       call->builtin->name, name);
    }
    return GY_OK;
}

static gy_status take_separator(const gy_dml_call *call, int argument, gy_dml_meta *meta)
{
    const char *separator = NULL;
    GY_TRY(gy_dml_arg_text(call, argument, &separator));
    if (separator != NULL &&
        (separator[0] == '\0' ||
         !gy_print_whole(meta->separator, sizeof(meta->separator), "%s", separator))) {
        return gy_fail(GY_ARG, "%s: sep: expected 1 to %zu bytes", call->builtin->name,
                       sizeof(meta->separator) - 1);
    }
    return GY_OK;
}

/* One string, or a list of them. */
static gy_status take_na_strings(const gy_dml_call *call, int argument, gy_dml_meta *meta)
{
    const gy_dml_value *given = &call->args[argument];
    const size_t count =
        given->kind == GY_DML_IS_LIST ? given->list->count : given->kind != GY_DML_IS_NOTHING;
    for (size_t i = 0; i < count; i++) {
        const gy_dml_value *one =
            given->kind == GY_DML_IS_LIST ? &given->list->items[i] : given;
        if (one->kind != GY_DML_IS_TEXT || i == GY_COUNT(meta->na_strings) ||
            !gy_print_whole(meta->na_strings[i], sizeof(meta->na_strings[i]), "%s",
                            one->text->data)) {
            return gy_fail(GY_ARG, "read: naStrings: expected at most %zu short strings",
                           GY_COUNT(meta->na_strings));
        }
        meta->na_count = (int)i + 1;
    }
    return GY_OK;
}

static gy_status take_types(const gy_dml_call *call, gy_dml_meta *meta)
{
    const char *data = NULL, *value = NULL;
    GY_TRY(gy_dml_arg_text(call, 9, &data));
    GY_TRY(gy_dml_arg_text(call, 10, &value));
    if (data != NULL) {
        meta->is_scalar = strcmp(data, "scalar") == 0;
        if (!meta->is_scalar && strcmp(data, "matrix") != 0) {
            return gy_fail(GY_UNSUPPORTED,
                           "read: data_type: \"%.40s\" is neither matrix nor scalar", data);
        }
    }
    if (value != NULL) {
        gy_print(meta->value_type, sizeof(meta->value_type), "%s", value);
    }
    return GY_OK;
}

gy_status gy_dml_run_read(gy_dml_call *call)
{
    const char *given = "";
    char path[4096];
    gy_dml_meta meta = GY_DML_META_DEFAULT;
    GY_TRY(gy_dml_arg_text(call, 0, &given));
    gy_dml_state_path(call->state, given, path);
    GY_TRY(gy_dml_meta_read(path, &meta));
    GY_TRY(take_format(call, 1, &meta));
    GY_TRY(gy_dml_arg_integer(call, 2, &meta.rows));
    GY_TRY(gy_dml_arg_integer(call, 3, &meta.columns));
    GY_TRY(gy_dml_arg_boolean(call, 4, &meta.has_header));
    GY_TRY(take_separator(call, 5, &meta));
    GY_TRY(gy_dml_arg_boolean(call, 6, &meta.is_filled));
    GY_TRY(gy_dml_arg_real(call, 7, &meta.fill_value));
    GY_TRY(take_na_strings(call, 8, &meta));
    GY_TRY(take_types(call, &meta));
    return gy_dml_file_read(path, &meta, &call->results[0]);
}

gy_status gy_dml_run_write(gy_dml_call *call)
{
    const char *given = "";
    char path[4096];
    gy_dml_meta meta = GY_DML_META_DEFAULT;
    meta.format = GY_DML_FILE_TEXT;
    GY_TRY(gy_dml_arg_text(call, 1, &given));
    GY_TRY(take_format(call, 2, &meta));
    GY_TRY(gy_dml_arg_boolean(call, 3, &meta.has_header));
    GY_TRY(take_separator(call, 4, &meta));
    if (call->args[0].kind == GY_DML_IS_LIST) {
        return gy_fail(GY_TYPE, "write: X: a list is not written");
    }
    return gy_dml_file_write(gy_dml_state_path(call->state, given, path), &meta,
                             &call->args[0]);
}
