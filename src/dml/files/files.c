/* Files and folders of parts, what .mtd files say, and writing. */
#include "dml/files/files.h"

#include <gyre/store.h>

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *name;
    gy_dml_file_format format;
} formats[] = {
    {"text", GY_DML_FILE_TEXT},     {"csv", GY_DML_FILE_CSV},
    {"mm", GY_DML_FILE_MARKET},     {"matrixmarket", GY_DML_FILE_MARKET},
    {"textcell", GY_DML_FILE_TEXT},
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

/* ---- .mtd ---- */

static bool is_true(const json_t *value)
{
    return json_is_true(value) ||
           (json_is_string(value) && strcasecmp(json_string_value(value), "true") == 0);
}

static gy_status take_meta(const char *path, const json_t *root, gy_dml_meta *meta)
{
    const json_t *at = NULL;
    if ((at = json_object_get(root, "rows")) != NULL && json_is_integer(at)) {
        meta->rows = json_integer_value(at);
    }
    if ((at = json_object_get(root, "cols")) != NULL && json_is_integer(at)) {
        meta->columns = json_integer_value(at);
    }
    if ((at = json_object_get(root, "format")) != NULL && json_is_string(at) &&
        !gy_dml_format_parse(json_string_value(at), &meta->format)) {
        return gy_fail(GY_UNSUPPORTED, "%s: the format %.40s is not read: text, csv and mm are",
                       path, json_string_value(at));
    }
    if ((at = json_object_get(root, "data_type")) != NULL && json_is_string(at)) {
        meta->is_scalar = strcmp(json_string_value(at), "scalar") == 0;
    }
    if ((at = json_object_get(root, "value_type")) != NULL && json_is_string(at)) {
        gy_print(meta->value_type, sizeof(meta->value_type), "%s", json_string_value(at));
    }
    if ((at = json_object_get(root, "header")) != NULL) {
        meta->has_header = is_true(at);
    }
    if ((at = json_object_get(root, "sep")) != NULL && json_is_string(at) &&
        json_string_length(at) > 0) {
        gy_print(meta->separator, sizeof(meta->separator), "%s", json_string_value(at));
    }
    if ((at = json_object_get(root, "fill")) != NULL) {
        meta->is_filled = is_true(at);
    }
    if ((at = json_object_get(root, "default")) != NULL && json_is_number(at)) {
        meta->fill_value = json_number_value(at);
    }
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

/* ---- reading ---- */

typedef struct bytes {
    char *data;
    size_t size, capacity;
} bytes;

static gy_status take_bytes(void *arg, const void *data, size_t size_bytes)
{
    bytes *to = arg;
    GY_TRY(GY_GROW("dml.file", to->data, to->capacity, to->size + size_bytes + 1));
    memcpy(to->data + to->size, data, size_bytes);
    to->size += size_bytes;
    to->data[to->size] = '\0';
    return GY_OK;
}

/* A part of a folder: markers such as _SUCCESS and hidden files are none. */
static gy_status take_part(void *arg, const gy_store_entry *entry)
{
    bytes *to = arg;
    if (entry->is_folder || entry->name[0] == '_' || entry->name[0] == '.') {
        return GY_OK;
    }
    if (to->size > 0 && to->data[to->size - 1] != '\n') {
        GY_TRY(take_bytes(to, "\n", 1));
    }
    return gy_store_read(entry->uri, true, take_bytes, to);
}

static gy_status scalar_of(const gy_dml_meta *meta, const char *text, gy_dml_value *value)
{
    gy_dml_value read = GY_DML_NONE;
    int64_t whole = 0;
    double real = 0;
    bool truth = false;
    const size_t size = strcspn(text, "\r\n");
    GY_TRY(gy_dml_of_text(text, size, &read));
    gy_status status = GY_OK;
    if (strcmp(meta->value_type, "string") == 0) {
        *value = read;
        return GY_OK;
    }
    if (strncmp(meta->value_type, "int", 3) == 0) {
        status = gy_dml_as_integer(&read, "read", &whole);
        *value = gy_dml_of_integer(whole);
    } else if (strcmp(meta->value_type, "boolean") == 0) {
        status = gy_dml_as_boolean(&read, "read", &truth);
        *value = gy_dml_of_boolean(truth);
    } else {
        status = gy_dml_as_real(&read, "read", &real);
        *value = gy_dml_of_real(real);
    }
    gy_dml_drop(&read);
    return status;
}

gy_status gy_dml_file_read(const char *path, const gy_dml_meta *meta, gy_dml_value *value)
{
    bytes all = {.data = NULL};
    struct stat about;
    gy_dml_matrix *matrix = NULL;
    const bool is_folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    gy_status status = take_bytes(&all, "", 0);
    if (status == GY_OK) {
        status = is_folder ? gy_store_list(path, take_part, &all)
                           : gy_store_read(path, true, take_bytes, &all);
    }
    if (status == GY_OK && meta->is_scalar) {
        status = scalar_of(meta, all.data, value);
    } else if (status == GY_OK) {
        status = gy_dml_file_parse(path, meta, all.data, all.size, &matrix);
        *value = status == GY_OK ? gy_dml_of_matrix(matrix) : GY_DML_NONE;
    }
    gy_free(all.data);
    return status;
}

/* ---- writing ---- */

static gy_status make_folders(const char *path)
{
    char folder[4200];
    gy_print(folder, sizeof(folder), "%s", path);
    for (char *at = strchr(folder + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
            return gy_fail(GY_IO, "cannot make the folder %s: %s", folder, strerror(errno));
        }
        *at = '/';
    }
    return GY_OK;
}

static int64_t count_nonzeros(const gy_dml_matrix *matrix)
{
    int64_t count = 0;
    for (int64_t i = 0; i < gy_dml_matrix_count(matrix); i++) {
        count += matrix->data[i] != 0;
    }
    return count;
}

static void add_row(gy_text *text, const gy_dml_meta *meta, const gy_dml_matrix *matrix,
                    int64_t i)
{
    for (int64_t j = 0; j < matrix->columns; j++) {
        const double value = matrix->data[i * matrix->columns + j];
        if (meta->format == GY_DML_FILE_CSV) {
            gy_text_add(text, "%s", j > 0 ? meta->separator : "");
            gy_dml_add_real(text, value);
        } else if (value != 0) {
            gy_text_add(text, "%lld %lld ", (long long)i + 1, (long long)j + 1);
            gy_dml_add_real(text, value);
            gy_text_add(text, "\n");
        }
    }
    gy_text_add(text, "%s", meta->format == GY_DML_FILE_CSV ? "\n" : "");
}

static void add_head(gy_text *text, const gy_dml_meta *meta, const gy_dml_matrix *matrix)
{
    if (meta->format == GY_DML_FILE_MARKET) {
        gy_text_add(text, "%%%%MatrixMarket matrix coordinate real general\n%lld %lld %lld\n",
                    (long long)matrix->rows, (long long)matrix->columns,
                    (long long)count_nonzeros(matrix));
    }
    for (int64_t j = 0;
         meta->format == GY_DML_FILE_CSV && meta->has_header && j < matrix->columns; j++) {
        gy_text_add(text, "%sC%lld%s", j > 0 ? meta->separator : "", (long long)j + 1,
                    j == matrix->columns - 1 ? "\n" : "");
    }
}

static gy_status flush(FILE *file, gy_text *text, const char *path)
{
    gy_status status = text->status;
    if (status == GY_OK && text->size_bytes > 0 &&
        fwrite(text->data, 1, text->size_bytes, file) != text->size_bytes) {
        status = gy_fail(GY_IO, "cannot write %s: %s", path, strerror(errno));
    }
    text->size_bytes = 0;
    return status;
}

static gy_status write_value(FILE *file, const char *path, const gy_dml_meta *meta,
                             const gy_dml_value *value)
{
    enum { PIECE = 1 << 16 };
    gy_text text = {.data = NULL};
    gy_status status = GY_OK;
    if (value->kind == GY_DML_IS_MATRIX) {
        add_head(&text, meta, value->matrix);
        for (int64_t i = 0; i < value->matrix->rows && status == GY_OK; i++) {
            add_row(&text, meta, value->matrix, i);
            status = text.size_bytes > PIECE ? flush(file, &text, path) : GY_OK;
        }
    } else {
        gy_dml_add_value(&text, value);
        gy_text_add(&text, "\n");
    }
    status = status == GY_OK ? flush(file, &text, path) : status;
    gy_text_free(&text);
    return status;
}

gy_status gy_dml_meta_write(const char *path, const gy_dml_meta *meta, int64_t nonzeros)
{
    char name[4200];
    gy_print(name, sizeof(name), "%s.mtd", path);
    json_t *root = json_object();
    int failed = json_object_set_new(root, "data_type",
                                     json_string(meta->is_scalar ? "scalar" : "matrix"));
    failed |= json_object_set_new(root, "value_type", json_string(meta->value_type));
    if (!meta->is_scalar) {
        failed |= json_object_set_new(root, "rows", json_integer(meta->rows));
        failed |= json_object_set_new(root, "cols", json_integer(meta->columns));
        failed |= json_object_set_new(root, "nnz", json_integer(nonzeros));
    }
    failed |=
        json_object_set_new(root, "format", json_string(gy_dml_format_name(meta->format)));
    if (meta->format == GY_DML_FILE_CSV) {
        failed |= json_object_set_new(root, "header", json_boolean(meta->has_header));
        failed |= json_object_set_new(root, "sep", json_string(meta->separator));
    }
    failed |= failed == 0 ? json_dump_file(root, name, JSON_INDENT(4)) : 0;
    json_decref(root);
    return failed == 0 ? GY_OK : gy_fail(GY_IO, "cannot write %s: %s", name, strerror(errno));
}

static const char *type_of(const gy_dml_value *value)
{
    return value->kind == GY_DML_IS_INTEGER   ? "int"
           : value->kind == GY_DML_IS_BOOLEAN ? "boolean"
           : value->kind == GY_DML_IS_TEXT    ? "string"
                                              : "double";
}

gy_status gy_dml_file_write(const char *path, const gy_dml_meta *meta,
                            const gy_dml_value *value)
{
    gy_dml_meta about = *meta;
    int64_t nonzeros = 0;
    GY_TRY(make_folders(path));
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        return gy_fail(GY_IO, "cannot write %s: %s", path, strerror(errno));
    }
    gy_status status = write_value(file, path, meta, value);
    if (fclose(file) != 0 && status == GY_OK) {
        status = gy_fail(GY_IO, "cannot write %s: %s", path, strerror(errno));
    }
    about.is_scalar = value->kind != GY_DML_IS_MATRIX;
    gy_print(about.value_type, sizeof(about.value_type), "%s", type_of(value));
    if (!about.is_scalar) {
        about.rows = value->matrix->rows;
        about.columns = value->matrix->columns;
        nonzeros = count_nonzeros(value->matrix);
    }
    return status == GY_OK ? gy_dml_meta_write(path, &about, nonzeros) : status;
}
