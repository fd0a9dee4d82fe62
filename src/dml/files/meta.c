/* What is known of a file's data: names of formats, and the .mtd file beside it. */
#include "dml/files/files_priv.h"
#include "dml/frame/frame.h"
#include "store/store.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    gy_dml_file_format format;
} formats[] = {
    {"text", GY_DML_FILE_TEXT},     {"csv", GY_DML_FILE_CSV},
    {"mm", GY_DML_FILE_MARKET},     {"matrixmarket", GY_DML_FILE_MARKET},
    {"textcell", GY_DML_FILE_TEXT}, {"binary", GY_DML_FILE_BINARY},
    {"libsvm", GY_DML_FILE_LIBSVM}, {"npy", GY_DML_FILE_NPY},
    {"idx", GY_DML_FILE_IDX},
};

bool gy_dml_format_parse(const char *name, gy_dml_file_format *format)
{
    for (size_t i = 0; i < GY_COUNT(formats); i++) {
        if (strcasecmp(formats[i].name, name) == 0) {
            *format = formats[i].format;
            return true;
        }
    }
    return false;
}

const char *gy_dml_format_name(gy_dml_file_format format)
{
    for (size_t i = 0; i < GY_COUNT(formats); i++) {
        if (formats[i].format == format) {
            return formats[i].name;
        }
    }
    return "unknown";
}

const char *gy_dml_format_names(void)
{
    return "text, csv, mm, libsvm, binary, npy, idx";
}

void gy_dml_meta_fini(gy_dml_meta *meta)
{
    gy_free(meta->schema);
    gy_free(meta->description);
    meta->schema = meta->description = NULL;
}

gy_status gy_dml_meta_set(char **to, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = gy_alloc("dml.meta", size);
    if (copy == NULL) {
        return GY_NOMEM;
    }
    memcpy(copy, text, size);
    gy_free(*to);
    *to = copy;
    return GY_OK;
}

gy_status gy_dml_meta_types(const char *path, const gy_dml_meta *meta, int64_t columns,
                            gy_dml_column_type **types)
{
    *types = gy_alloc_zero("dml.types", (size_t)columns + 1, sizeof(**types));
    if (*types == NULL) {
        return GY_NOMEM;
    }
    const gy_status status =
        gy_dml_schema_parse(meta->schema != NULL ? meta->schema : "*", columns, *types);
    if (status != GY_OK) {
        gy_free(*types);
        return gy_fail_within(status, "%s", path);
    }
    return GY_OK;
}

gy_status gy_dml_check_sizes(const char *path, const gy_dml_meta *meta, int64_t rows,
                             int64_t columns)
{
    if (meta->rows >= 0 && meta->rows != rows) {
        return gy_fail(GY_FORMAT, "%s has %lld rows, expected %lld", path, (long long)rows,
                       (long long)meta->rows);
    }
    if (meta->columns >= 0 && meta->columns != columns) {
        return gy_fail(GY_FORMAT, "%s has %lld columns, expected %lld", path,
                       (long long)columns, (long long)meta->columns);
    }
    return GY_OK;
}

/* ---- .mtd ---- */

static bool is_true(const json_t *value)
{
    return json_is_true(value) ||
           (json_is_string(value) && strcasecmp(json_string_value(value), "true") == 0);
}

static void take_count(const json_t *root, const char *name, int64_t *to)
{
    const json_t *at = json_object_get(root, name);
    if (at != NULL && json_is_integer(at)) {
        *to = json_integer_value(at);
    }
}

/* A text that is not empty, or NULL. */
static const char *text_of(const json_t *root, const char *name)
{
    const json_t *at = json_object_get(root, name);
    return at != NULL && json_is_string(at) && json_string_length(at) > 0
               ? json_string_value(at)
               : NULL;
}

static void take_csv(const json_t *root, gy_dml_meta *meta)
{
    const json_t *at = NULL;
    const char *text = NULL;
    if ((at = json_object_get(root, "header")) != NULL) {
        meta->has_header = is_true(at);
    }
    if ((text = text_of(root, "sep")) != NULL) {
        gy_print(meta->separator, sizeof(meta->separator), "%s", text);
    }
    if ((at = json_object_get(root, "fill")) != NULL) {
        meta->is_filled = is_true(at);
    }
    if ((at = json_object_get(root, "default")) != NULL && json_is_number(at)) {
        meta->fill_value = json_number_value(at);
    }
}

static gy_status take_meta(const char *path, const json_t *root, gy_dml_meta *meta)
{
    const char *text = NULL;
    take_count(root, "rows", &meta->rows);
    take_count(root, "cols", &meta->columns);
    take_count(root, "nnz", &meta->nonzeros);
    if ((text = text_of(root, "format")) != NULL && !gy_dml_format_parse(text, &meta->format)) {
        return gy_fail(GY_UNSUPPORTED, "%s: the format %.40s is not read: %s are", path, text,
                       gy_dml_format_names());
    }
    if ((text = text_of(root, "data_type")) != NULL) {
        meta->is_scalar = strcmp(text, "scalar") == 0;
        meta->is_frame = strcmp(text, "frame") == 0;
    }
    if ((text = text_of(root, "value_type")) != NULL) {
        gy_print(meta->value_type, sizeof(meta->value_type), "%s", text);
    }
    if ((text = text_of(root, "schema")) != NULL) {
        GY_TRY(gy_dml_meta_set(&meta->schema, text));
    }
    if ((text = text_of(root, "description")) != NULL) {
        GY_TRY(gy_dml_meta_set(&meta->description, text));
    }
    take_csv(root, meta);
    return GY_OK;
}

gy_status gy_dml_meta_read(const char *path, gy_dml_meta *meta)
{
    char name[4200];
    json_error_t error;
    gy_print(name, sizeof(name), "%s.mtd", path);
    if (access(name, R_OK) != 0) {
        return GY_OK;
    }
    json_t *root = json_load_file(name, 0, &error);
    if (root == NULL) {
        return gy_fail(GY_FORMAT, "%s: line %d, column %d: %s", name, error.line, error.column,
                       error.text);
    }
    const gy_status status = json_is_object(root)
                                 ? take_meta(name, root, meta)
                                 : gy_fail(GY_FORMAT, "%s: expected an object in braces", name);
    json_decref(root);
    return status;
}

static json_t *object_of(const gy_dml_meta *meta, int *failed)
{
    json_t *root = json_object();
    *failed = json_object_set_new(root, "data_type",
                                  json_string(meta->is_scalar  ? "scalar"
                                              : meta->is_frame ? "frame"
                                                               : "matrix"));
    if (meta->is_frame) {
        *failed |= json_object_set_new(root, "schema", json_string(meta->schema));
    } else {
        *failed |= json_object_set_new(root, "value_type", json_string(meta->value_type));
    }
    if (!meta->is_scalar) {
        *failed |= json_object_set_new(root, "rows", json_integer(meta->rows));
        *failed |= json_object_set_new(root, "cols", json_integer(meta->columns));
    }
    if (meta->nonzeros >= 0) {
        *failed |= json_object_set_new(root, "nnz", json_integer(meta->nonzeros));
    }
    *failed |=
        json_object_set_new(root, "format", json_string(gy_dml_format_name(meta->format)));
    if (meta->format == GY_DML_FILE_CSV) {
        *failed |= json_object_set_new(root, "header", json_boolean(meta->has_header));
        *failed |= json_object_set_new(root, "sep", json_string(meta->separator));
    }
    if (meta->format == GY_DML_FILE_BINARY) {
        *failed |= json_object_set_new(root, "rows_in_block", json_integer(meta->block_rows));
        *failed |= json_object_set_new(root, "cols_in_block",
                                       json_integer(meta->is_frame ? 1 : meta->block_columns));
    }
    if (meta->description != NULL) {
        *failed |= json_object_set_new(root, "description", json_string(meta->description));
    }
    return root;
}

static int take_json(const char *data, size_t size, void *arg)
{
    gy_text_add_bytes(arg, data, size);
    return 0;
}

gy_status gy_dml_meta_write(const char *path, const gy_dml_meta *meta)
{
    char name[4200];
    int failed = 0;
    gy_text text = {.data = NULL};
    gy_print(name, sizeof(name), "%s.mtd", path);
    json_t *root = object_of(meta, &failed);
    failed = failed != 0 ? failed : json_dump_callback(root, take_json, &text, JSON_INDENT(4));
    json_decref(root);
    gy_status status =
        failed != 0 ? gy_fail(GY_FORMAT, "%s: its texts are not UTF-8", name) : text.status;
    status = status == GY_OK
                 ? gy_store_file_write(gy_env_real(), name, text.data, text.size_bytes)
                 : status;
    gy_text_free(&text);
    return status;
}
