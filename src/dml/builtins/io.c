/* read and write. */
#include "dml/builtins/builtins_priv.h"
#include "dml/files/files.h"

#include <string.h>

/* Parameters in the order of builtins.def. */
enum {
    READ_PATH,
    READ_FORMAT,
    READ_ROWS,
    READ_COLS,
    READ_HEADER,
    READ_SEP,
    READ_FILL,
    READ_DEFAULT,
    READ_NA_STRINGS,
    READ_DATA_TYPE,
    READ_VALUE_TYPE,
    READ_SCHEMA,
    READ_NNZ,
    READ_ROWS_IN_BLOCK,
    READ_COLS_IN_BLOCK,
};
enum {
    WRITE_X,
    WRITE_PATH,
    WRITE_FORMAT,
    WRITE_HEADER,
    WRITE_SEP,
    WRITE_SPARSE,
    WRITE_NNZ,
    WRITE_ROWS_IN_BLOCK,
    WRITE_COLS_IN_BLOCK,
    WRITE_DESCRIPTION,
    WRITE_DATA_TYPE,
    WRITE_VALUE_TYPE,
};

static gy_status take_format(const gy_dml_call *call, int argument, gy_dml_meta *meta)
{
    const char *name = NULL;
    GY_TRY(gy_dml_arg_text(call, argument, &name));
    if (name != NULL && !gy_dml_format_parse(name, &meta->format)) {
        return gy_fail(GY_UNSUPPORTED, "%s: format: \"%.40s\" is none of %s",
                       call->builtin->name, name, gy_dml_format_names());
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

static gy_status take_text(const gy_dml_call *call, int argument, char **to)
{
    const char *text = NULL;
    GY_TRY(gy_dml_arg_text(call, argument, &text));
    return text != NULL ? gy_dml_meta_set(to, text) : GY_OK;
}

/* A count that must be at least `least`; as it is when left out. */
static gy_status take_count(const gy_dml_call *call, int argument, int64_t least, int64_t *to)
{
    char name[96];
    int64_t count = *to;
    GY_TRY(gy_dml_arg_integer(call, argument, &count));
    if (gy_dml_has(call, argument) && count < least) {
        return gy_fail(GY_ARG, "%s: expected %lld or more, found %lld",
                       gy_dml_arg_name(call, argument, name), (long long)least,
                       (long long)count);
    }
    *to = count;
    return GY_OK;
}

static gy_status take_types(const gy_dml_call *call, gy_dml_meta *meta)
{
    const char *data = NULL, *value = NULL;
    GY_TRY(gy_dml_arg_text(call, READ_DATA_TYPE, &data));
    GY_TRY(gy_dml_arg_text(call, READ_VALUE_TYPE, &value));
    if (data != NULL) {
        meta->is_scalar = strcmp(data, "scalar") == 0;
        meta->is_frame = strcmp(data, "frame") == 0;
        if (!meta->is_scalar && !meta->is_frame && strcmp(data, "matrix") != 0) {
            return gy_fail(GY_ARG,
                           "read: data_type: \"%.40s\" is none of matrix, frame, scalar", data);
        }
    }
    if (value != NULL) {
        static const char *const types[] = {"double", "int", "integer", "boolean", "string"};
        bool is_known = false;
        for (size_t i = 0; i < GY_COUNT(types); i++) {
            is_known = is_known || strcasecmp(types[i], value) == 0;
        }
        if (!is_known) {
            return gy_fail(
                GY_ARG, "read: value_type: \"%.40s\" is none of double, int, boolean, string",
                value);
        }
        gy_print(meta->value_type, sizeof(meta->value_type), "%s", value);
    }
    return GY_OK;
}

static gy_status take_read(const gy_dml_call *call, gy_dml_meta *meta)
{
    int64_t block = 1;
    GY_TRY(take_format(call, READ_FORMAT, meta));
    GY_TRY(take_count(call, READ_ROWS, -1, &meta->rows));
    GY_TRY(take_count(call, READ_COLS, -1, &meta->columns));
    GY_TRY(gy_dml_arg_boolean(call, READ_HEADER, &meta->has_header));
    GY_TRY(take_separator(call, READ_SEP, meta));
    GY_TRY(gy_dml_arg_boolean(call, READ_FILL, &meta->is_filled));
    GY_TRY(gy_dml_arg_real(call, READ_DEFAULT, &meta->fill_value));
    GY_TRY(take_na_strings(call, READ_NA_STRINGS, meta));
    GY_TRY(take_types(call, meta));
    GY_TRY(take_text(call, READ_SCHEMA, &meta->schema));
    GY_TRY(take_count(call, READ_ROWS_IN_BLOCK, 1, &block));
    return take_count(call, READ_COLS_IN_BLOCK, 1, &block);
}

/* Cells that are not 0 against what the call said; what a .mtd file says may be out of date. */
static gy_status check_nonzeros(const gy_dml_call *call, const char *path,
                                const gy_dml_meta *meta)
{
    const gy_dml_value *read = &call->results[0];
    int64_t said = meta->nonzeros, count = 0;
    GY_TRY(take_count(call, READ_NNZ, -1, &said));
    if (said < 0 || read->kind != GY_DML_IS_MATRIX) {
        return GY_OK;
    }
    for (int64_t i = 0; i < gy_dml_matrix_count(read->matrix); i++) {
        count += read->matrix->data[i] != 0;
    }
    if (count != said && gy_dml_has(call, READ_NNZ)) {
        return gy_fail(GY_FORMAT, "read: nnz: %s has %lld cells that are not 0, expected %lld",
                       path, (long long)count, (long long)said);
    }
    if (count != said) {
        gy_warn("%s has %lld cells that are not 0, its .mtd file says %lld", path,
                (long long)count, (long long)said);
    }
    return GY_OK;
}

gy_status gy_dml_run_read(gy_dml_call *call)
{
    const char *given = "";
    char path[4096];
    gy_dml_meta meta = GY_DML_META_DEFAULT;
    GY_TRY(gy_dml_arg_text(call, READ_PATH, &given));
    gy_dml_state_path(call->state, given, path);
    gy_status status = gy_dml_meta_read(path, &meta);
    status = status == GY_OK ? take_read(call, &meta) : status;
    status = status == GY_OK ? gy_dml_file_read(path, &meta, &call->results[0]) : status;
    status = status == GY_OK ? check_nonzeros(call, path, &meta) : status;
    gy_dml_meta_fini(&meta);
    return status;
}

/* What the call says X to be, held against X. */
static gy_status check_written(const gy_dml_call *call)
{
    const gy_dml_value *x = &call->args[WRITE_X];
    const char *said = NULL;
    const char *kind = x->kind == GY_DML_IS_MATRIX  ? "matrix"
                       : x->kind == GY_DML_IS_FRAME ? "frame"
                                                    : "scalar";
    GY_TRY(gy_dml_arg_text(call, WRITE_DATA_TYPE, &said));
    if (said != NULL && strcasecmp(said, kind) != 0) {
        return gy_fail(GY_TYPE, "write: data_type: X is a %s, not \"%.40s\"", kind, said);
    }
    const char *type = x->kind == GY_DML_IS_INTEGER   ? "int"
                       : x->kind == GY_DML_IS_BOOLEAN ? "boolean"
                       : x->kind == GY_DML_IS_TEXT    ? "string"
                                                      : "double";
    said = NULL;
    GY_TRY(gy_dml_arg_text(call, WRITE_VALUE_TYPE, &said));
    if (said != NULL && x->kind != GY_DML_IS_FRAME && strcasecmp(said, type) != 0) {
        return gy_fail(GY_TYPE, "write: value_type: X has values of type %s, not \"%.40s\"",
                       type, said);
    }
    int64_t nonzeros = -1, count = 0;
    GY_TRY(take_count(call, WRITE_NNZ, -1, &nonzeros));
    for (int64_t i = 0;
         nonzeros >= 0 && x->kind == GY_DML_IS_MATRIX && i < gy_dml_matrix_count(x->matrix);
         i++) {
        count += x->matrix->data[i] != 0;
    }
    return nonzeros < 0 || x->kind != GY_DML_IS_MATRIX || count == nonzeros
               ? GY_OK
               : gy_fail(GY_ARG, "write: nnz: X has %lld cells that are not 0, not %lld",
                         (long long)count, (long long)nonzeros);
}

static gy_status take_write(const gy_dml_call *call, gy_dml_meta *meta)
{
    GY_TRY(take_format(call, WRITE_FORMAT, meta));
    GY_TRY(gy_dml_arg_boolean(call, WRITE_HEADER, &meta->has_header));
    GY_TRY(take_separator(call, WRITE_SEP, meta));
    GY_TRY(gy_dml_arg_boolean(call, WRITE_SPARSE, &meta->is_sparse));
    GY_TRY(take_count(call, WRITE_ROWS_IN_BLOCK, 1, &meta->block_rows));
    GY_TRY(take_count(call, WRITE_COLS_IN_BLOCK, 1, &meta->block_columns));
    if (meta->block_rows > INT32_MAX || meta->block_columns > INT32_MAX ||
        meta->block_rows > UINT32_MAX / meta->block_columns) {
        return gy_fail(GY_LIMIT, "write: a block of %lldx%lld has more than 2^32 - 1 cells",
                       (long long)meta->block_rows, (long long)meta->block_columns);
    }
    GY_TRY(take_text(call, WRITE_DESCRIPTION, &meta->description));
    return check_written(call);
}

gy_status gy_dml_run_write(gy_dml_call *call)
{
    const char *given = "";
    char path[4096];
    gy_dml_meta meta = GY_DML_META_DEFAULT;
    meta.format = GY_DML_FILE_TEXT;
    GY_TRY(gy_dml_arg_text(call, WRITE_PATH, &given));
    if (call->args[WRITE_X].kind == GY_DML_IS_LIST) {
        return gy_fail(GY_TYPE, "write: X: a list is not written");
    }
    gy_status status = take_write(call, &meta);
    status = status == GY_OK ? gy_dml_file_write(gy_dml_state_path(call->state, given, path),
                                                 &meta, &call->args[WRITE_X])
                             : status;
    gy_dml_meta_fini(&meta);
    return status;
}
