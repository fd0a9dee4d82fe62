/* Files and folders of parts, read and written. */
#include "dml/files/files_priv.h"
#include "dml/frame/frame.h"

#include <gyre/store.h>

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* ---- reading ---- */

typedef struct buffer {
    char *data;
    size_t size, capacity;
} buffer;

static gy_status take_bytes(void *arg, const void *data, size_t size_bytes)
{
    buffer *to = arg;
    GY_TRY(GY_GROW("dml.file", to->data, to->capacity, to->size + size_bytes + 1));
    memcpy(to->data + to->size, data, size_bytes);
    to->size += size_bytes;
    to->data[to->size] = '\0';
    return GY_OK;
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

/* What a file seems to be. */
static gy_dml_file_format guess(gy_dml_bytes bytes, const gy_dml_meta *meta)
{
    const char *end = bytes.size > 0 ? memchr(bytes.data, '\n', bytes.size) : NULL;
    const size_t line = end != NULL ? (size_t)(end - bytes.data) : bytes.size;
    int fields = 0;
    if (bytes.size >= 14 && memcmp(bytes.data, "%%MatrixMarket", 14) == 0) {
        return GY_DML_FILE_MARKET;
    }
    if (gy_dml_is_blocks(bytes)) {
        return GY_DML_FILE_BINARY;
    }
    if (bytes.size >= 6 && memcmp(bytes.data, "\x93NUMPY", 6) == 0) {
        return GY_DML_FILE_NPY;
    }
    if (bytes.size >= 4 && bytes.data[0] == 0 && bytes.data[1] == 0) {
        return GY_DML_FILE_IDX;
    }
    for (size_t i = 0; i < line; i++) {
        const bool is_space = strchr(" \t\r", bytes.data[i]) != NULL;
        fields += !is_space && (i == 0 || strchr(" \t\r", bytes.data[i - 1]) != NULL);
    }
    const bool has_separator =
        line > 0 && memmem(bytes.data, line, meta->separator, strlen(meta->separator)) != NULL;
    return !has_separator && fields == 3 && !meta->is_frame ? GY_DML_FILE_TEXT
                                                            : GY_DML_FILE_CSV;
}

static gy_status parse_frame(gy_dml_bytes bytes, const gy_dml_meta *meta,
                             gy_dml_file_format format, gy_dml_value *value)
{
    gy_dml_frame *frame = NULL;
    if (format == GY_DML_FILE_CSV) {
        return gy_dml_csv_parse(bytes, meta, value);
    }
    if (format != GY_DML_FILE_TEXT) {
        return gy_fail(GY_UNSUPPORTED,
                       "%s: frames are not read from %s: csv, text and binary are", bytes.path,
                       gy_dml_format_name(format));
    }
    GY_TRY(gy_dml_cells_parse_frame(bytes, meta, &frame));
    *value = gy_dml_of_frame(frame);
    return GY_OK;
}

/* A file of blocks says itself whether it is a matrix or a frame. */
static gy_status parse_blocks(gy_dml_bytes bytes, const gy_dml_meta *meta, gy_dml_value *value)
{
    GY_TRY(gy_dml_blocks_parse(bytes, value));
    const bool is_frame = value->kind == GY_DML_IS_FRAME;
    if (is_frame != meta->is_frame) {
        gy_dml_drop(value);
        return gy_fail(GY_FORMAT, "%s has a %s, expected a %s: say it with data_type",
                       bytes.path, is_frame ? "frame" : "matrix",
                       is_frame ? "matrix" : "frame");
    }
    return GY_OK;
}

static gy_status parse_matrix(gy_dml_bytes bytes, const gy_dml_meta *meta,
                              gy_dml_file_format format, gy_dml_matrix **matrix)
{
    switch ((int)format) {
    case GY_DML_FILE_TEXT:
        return gy_dml_cells_parse(bytes, meta, matrix);
    case GY_DML_FILE_LIBSVM:
        return gy_dml_libsvm_parse(bytes, meta, matrix);
    case GY_DML_FILE_NPY:
        return gy_dml_npy_parse(bytes, matrix);
    case GY_DML_FILE_IDX:
        return gy_dml_idx_parse(bytes, matrix);
    default:
        return gy_dml_market_parse(bytes, matrix);
    }
}

gy_status gy_dml_file_parse(const char *path, const gy_dml_meta *meta, const char *data,
                            size_t size, gy_dml_value *value)
{
    const gy_dml_bytes bytes = {.path = path, .data = data, .size = size};
    const gy_dml_file_format format =
        meta->format != GY_DML_FILE_UNKNOWN ? meta->format : guess(bytes, meta);
    gy_dml_matrix *matrix = NULL;
    if (format == GY_DML_FILE_BINARY) {
        return parse_blocks(bytes, meta, value);
    }
    if (meta->is_frame) {
        return parse_frame(bytes, meta, format, value);
    }
    if (format == GY_DML_FILE_CSV) {
        return gy_dml_csv_parse(bytes, meta, value);
    }
    GY_TRY(parse_matrix(bytes, meta, format, &matrix));
    *value = gy_dml_of_matrix(matrix);
    return GY_OK;
}

/* ---- parts ---- */

/* Room store expands what is compressed, and takes an NPY file for a container that it cannot:
 * one is read as it is. */
static bool is_expanded(const char *path, const gy_dml_meta *meta)
{
    const size_t size = strlen(path);
    const bool is_named = size > 4 && strcmp(path + size - 4, ".npy") == 0;
    return meta->format != GY_DML_FILE_NPY &&
           !(meta->format == GY_DML_FILE_UNKNOWN && is_named);
}

static bool is_part(const gy_store_entry *entry)
{
    return !entry->is_folder && entry->name[0] != '_' && entry->name[0] != '.';
}

/* Text parts, one behind the other. */
static gy_status take_part(void *arg, const gy_store_entry *entry)
{
    buffer *to = arg;
    if (!is_part(entry)) { /* markers such as _SUCCESS and hidden files are none */
        return GY_OK;
    }
    if (to->size > 0 && to->data[to->size - 1] != '\n') {
        GY_TRY(take_bytes(to, "\n", 1));
    }
    return gy_store_read(entry->uri, true, take_bytes, to);
}

/* Parts that have a head each: values, bound by rows. */
typedef struct parts {
    const gy_dml_meta *meta;
    gy_dml_value *items;
    size_t count, capacity;
} parts;

static gy_status take_value(void *arg, const gy_store_entry *entry)
{
    parts *to = arg;
    buffer one = {.data = NULL};
    if (!is_part(entry)) {
        return GY_OK;
    }
    GY_TRY(GY_GROW("dml.parts", to->items, to->capacity, to->count + 1));
    gy_status status = take_bytes(&one, "", 0);
    status = status == GY_OK ? gy_store_read(entry->uri, is_expanded(entry->uri, to->meta),
                                             take_bytes, &one)
                             : status;
    gy_dml_meta meta = *to->meta; /* the whole is of that size, not a part */
    meta.rows = meta.columns = -1;
    status = status == GY_OK ? gy_dml_file_parse(entry->uri, &meta, one.data, one.size,
                                                 &to->items[to->count])
                             : status;
    to->count += status == GY_OK;
    gy_free(one.data);
    return status;
}

static gy_status bind_matrices(const char *path, const parts *p, gy_dml_value *value)
{
    gy_dml_matrix *out = NULL;
    int64_t rows = 0, row = 0;
    for (size_t i = 0; i < p->count; i++) {
        if (p->items[i].matrix->columns != p->items[0].matrix->columns) {
            return gy_fail(GY_FORMAT, "%s: part %zu has %lld columns, the first %lld", path,
                           i + 1, (long long)p->items[i].matrix->columns,
                           (long long)p->items[0].matrix->columns);
        }
        rows += p->items[i].matrix->rows;
    }
    GY_TRY(gy_dml_matrix_new(rows, p->items[0].matrix->columns, &out));
    for (size_t i = 0; i < p->count; i++) {
        const gy_dml_matrix *part = p->items[i].matrix;
        memcpy(out->data + row * out->columns, part->data,
               (size_t)gy_dml_matrix_count(part) * sizeof(double));
        row += part->rows;
    }
    *value = gy_dml_of_matrix(out);
    return GY_OK;
}

static gy_status bind_frames(const parts *p, gy_dml_value *value)
{
    gy_dml_frame *out = NULL;
    gy_dml_frame **frames = gy_alloc("dml.parts", p->count * sizeof(gy_dml_frame *));
    if (frames == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < p->count; i++) {
        frames[i] = p->items[i].frame;
    }
    const gy_status status = gy_dml_frame_rbind(frames, (int)p->count, &out);
    gy_free(frames);
    GY_TRY(status);
    *value = gy_dml_of_frame(out);
    return GY_OK;
}

static gy_status read_parts(const char *path, const gy_dml_meta *meta, gy_dml_value *value)
{
    parts p = {.meta = meta};
    gy_status status = gy_store_list(path, take_value, &p);
    if (status == GY_OK && p.count == 0) {
        status = gy_fail(GY_FORMAT, "%s has no parts", path);
    }
    if (status == GY_OK) {
        status = meta->is_frame ? bind_frames(&p, value) : bind_matrices(path, &p, value);
    }
    for (size_t i = 0; i < p.count; i++) {
        gy_dml_drop(&p.items[i]);
    }
    gy_free(p.items);
    return status;
}

/* All bytes of a file or of its parts, and NUL. */
static gy_status collect(const char *path, const gy_dml_meta *meta, bool is_folder, buffer *all)
{
    struct stat about;
    if (is_folder) {
        GY_TRY(take_bytes(all, "", 0));
        return gy_store_list(path, take_part, all);
    }
    if (stat(path, &about) == 0 && S_ISREG(about.st_mode)) {
        const gy_status status =
            gy_dml_read_large(path, is_expanded(path, meta), &all->data, &all->size);
        if (status != GY_AGAIN) {
            return status;
        }
        GY_TRY(GY_GROW("dml.file", all->data, all->capacity, (size_t)about.st_size + 1));
    }
    GY_TRY(take_bytes(all, "", 0));
    return gy_store_read(path, is_expanded(path, meta), take_bytes, all);
}

static gy_status read_bytes(const char *path, const gy_dml_meta *meta, bool is_folder,
                            gy_dml_value *value)
{
    buffer all = {.data = NULL};
    gy_status status = collect(path, meta, is_folder, &all);
    if (status == GY_OK && meta->is_scalar) {
        status = scalar_of(meta, all.data, value);
    } else if (status == GY_OK) {
        status = gy_dml_file_parse(path, meta, all.data, all.size, value);
    }
    gy_free(all.data);
    return status;
}

/* Sizes that were said, of formats whose files say their own. */
static gy_status check_read(const char *path, const gy_dml_meta *meta, gy_dml_value *value)
{
    const bool is_frame = value->kind == GY_DML_IS_FRAME;
    if (value->kind != GY_DML_IS_MATRIX && !is_frame) {
        return GY_OK;
    }
    const gy_status status =
        gy_dml_check_sizes(path, meta, is_frame ? value->frame->rows : value->matrix->rows,
                           is_frame ? value->frame->columns : value->matrix->columns);
    if (status != GY_OK) {
        gy_dml_drop(value);
    }
    return status;
}

gy_status gy_dml_file_read(const char *path, const gy_dml_meta *meta, gy_dml_value *value)
{
    struct stat about;
    const bool is_folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    const bool has_heads = meta->format == GY_DML_FILE_BINARY ||
                           meta->format == GY_DML_FILE_NPY || meta->format == GY_DML_FILE_IDX;
    GY_TRY(is_folder && has_heads ? read_parts(path, meta, value)
                                  : read_bytes(path, meta, is_folder, value));
    return check_read(path, meta, value);
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

static const char *type_of(const gy_dml_value *value)
{
    return value->kind == GY_DML_IS_INTEGER   ? "int"
           : value->kind == GY_DML_IS_BOOLEAN ? "boolean"
           : value->kind == GY_DML_IS_TEXT    ? "string"
                                              : "double";
}

/* The types of a frame's columns, as its .mtd file has them. */
static gy_status schema_of(const gy_dml_frame *frame, char **schema)
{
    gy_text text = {.data = NULL};
    for (int64_t j = 0; j < frame->columns; j++) {
        gy_text_add(&text, "%s%s", j > 0 ? "," : "",
                    gy_dml_column_type_name(frame->items[j]->type));
    }
    gy_status status = text.status;
    status = status == GY_OK ? gy_dml_meta_set(schema, gy_text_get(&text)) : status;
    gy_text_free(&text);
    return status;
}

/* What the .mtd file is to say. */
static gy_status describe(const gy_dml_value *value, gy_dml_meta *about)
{
    about->is_scalar = gy_dml_is_scalar(value);
    about->is_frame = value->kind == GY_DML_IS_FRAME;
    gy_print(about->value_type, sizeof(about->value_type), "%s", type_of(value));
    about->nonzeros = -1;
    if (value->kind == GY_DML_IS_MATRIX) {
        about->rows = value->matrix->rows;
        about->columns = value->matrix->columns;
        about->nonzeros = count_nonzeros(value->matrix);
    } else if (about->is_frame) {
        about->rows = value->frame->rows;
        about->columns = value->frame->columns;
        return schema_of(value->frame, &about->schema);
    }
    return GY_OK;
}

static gy_status write_scalar(gy_writer *writer, const gy_dml_value *value)
{
    gy_text text = {.data = NULL};
    gy_dml_add_value(&text, value);
    gy_text_add(&text, "\n");
    const gy_status status = gy_dml_write_flush(writer, &text, false);
    gy_text_free(&text);
    return status;
}

static gy_status write_frame(gy_writer *writer, const gy_dml_meta *about,
                             const gy_dml_frame *frame)
{
    switch ((int)about->format) {
    case GY_DML_FILE_BINARY:
        return gy_dml_blocks_write_frame(writer, about, frame);
    case GY_DML_FILE_CSV:
    case GY_DML_FILE_TEXT:
        return gy_dml_write_frame(writer, about, frame);
    default:
        return gy_fail(GY_UNSUPPORTED,
                       "write: frames are not written as %s: csv, text and binary are",
                       gy_dml_format_name(about->format));
    }
}

static gy_status write_matrix(gy_writer *writer, const gy_dml_meta *about,
                              const gy_dml_matrix *matrix)
{
    switch ((int)about->format) {
    case GY_DML_FILE_BINARY:
        return gy_dml_blocks_write_matrix(writer, about, matrix);
    case GY_DML_FILE_LIBSVM:
        return gy_dml_libsvm_write(writer, matrix);
    case GY_DML_FILE_NPY:
        return gy_dml_npy_write(writer, matrix);
    case GY_DML_FILE_IDX:
        return gy_dml_idx_write(writer, matrix);
    default:
        return gy_dml_write_matrix(writer, about, matrix);
    }
}

static gy_status write_value(gy_writer *writer, const gy_dml_meta *about,
                             const gy_dml_value *value)
{
    return value->kind == GY_DML_IS_FRAME    ? write_frame(writer, about, value->frame)
           : value->kind == GY_DML_IS_MATRIX ? write_matrix(writer, about, value->matrix)
                                             : write_scalar(writer, value);
}

gy_status gy_dml_file_write(const char *path, const gy_dml_meta *meta,
                            const gy_dml_value *value)
{
    gy_dml_meta about = *meta;
    gy_writer *writer = NULL;
    about.schema = about.description = NULL; /* those of `meta` are not its own */
    gy_status status = meta->description != NULL
                           ? gy_dml_meta_set(&about.description, meta->description)
                           : GY_OK;
    status = status == GY_OK ? describe(value, &about) : status;
    status = status == GY_OK ? make_folders(path) : status;
    status = status == GY_OK ? gy_writer_open(gy_env_real(), path, &writer) : status;
    if (status == GY_OK) {
        status = write_value(writer, &about, value);
        if (status == GY_OK) {
            status = gy_writer_finish(writer);
        } else {
            gy_writer_abort(writer);
        }
    }
    status = status == GY_OK ? gy_dml_meta_write(path, &about) : status;
    gy_dml_meta_fini(&about);
    return status;
}
