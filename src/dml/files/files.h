/**
 * Matrices, frames and scalars of scripts in files: CSV, text cells, MatrixMarket, each with
 * what a .mtd file beside it says.
 */
#ifndef GY_DML_FILES_FILES_H
#define GY_DML_FILES_FILES_H

#include "dml/values/values.h"

typedef enum gy_dml_file_format {
    GY_DML_FILE_UNKNOWN,
    GY_DML_FILE_TEXT, /* "row column value", a line a cell that is not 0 */
    GY_DML_FILE_CSV,
    GY_DML_FILE_MARKET, /* MatrixMarket: coordinate or array, general or symmetric */
    GY_DML_FILE_LIBSVM, /* the label is the last column */
    GY_DML_FILE_BINARY, /* Gyre's blocks */
    GY_DML_FILE_NPY,
    GY_DML_FILE_IDX,
    GY_DML_FILE_FORMATS,
} gy_dml_file_format;

/** What is known of a file's data, of the script and of the file PATH.mtd. */
typedef struct gy_dml_meta {
    gy_dml_file_format format;
    bool is_scalar, is_frame;
    char value_type[16];
    int64_t rows, columns;             /* -1: by the file */
    int64_t nonzeros;                  /* -1: not said */
    int64_t block_rows, block_columns; /* of what is written in blocks */
    bool has_header, is_filled;        /* CSV: empty cells are `fill_value` */
    bool is_sparse;                    /* CSV: cells that are 0 are written empty */
    double fill_value;
    char *schema;      /* of a frame, "string,double"; owned; NULL: strings */
    char *description; /* owned; NULL: none */
    char separator[8];
    char na_strings[8][32]; /* what stands for NaN */
    int na_count;
} gy_dml_meta;

#define GY_DML_META_DEFAULT                                                                    \
    ((gy_dml_meta){.rows = -1,                                                                 \
                   .columns = -1,                                                              \
                   .nonzeros = -1,                                                             \
                   .block_rows = 1000,                                                         \
                   .block_columns = 1000,                                                      \
                   .separator = ",",                                                           \
                   .value_type = "double",                                                     \
                   .is_filled = true})

/** Free what it owns; it may be used on. */
void gy_dml_meta_fini(gy_dml_meta *meta);
/** Copy a text into one of its owned ones. GY_NOMEM. */
GY_MUST_CHECK gy_status gy_dml_meta_set(char **to, const char *text);

/** False: no such format. */
bool gy_dml_format_parse(const char *name, gy_dml_file_format *format);
const char *gy_dml_format_name(gy_dml_file_format format);
/** "text, csv, ..." for messages; static. */
const char *gy_dml_format_names(void);

/** Read PATH.mtd into `meta`, where it is there. GY_FORMAT no JSON. */
GY_MUST_CHECK gy_status gy_dml_meta_read(const char *path, gy_dml_meta *meta);
GY_MUST_CHECK gy_status gy_dml_meta_write(const char *path, const gy_dml_meta *meta);

/**
 * Read a file, or the parts of a folder in the order of their names.
 *
 * @param path  a path, or a URI of <gyre/store.h>; compressed files are expanded
 * @return GY_OK; GY_NOTFOUND, GY_IO; GY_FORMAT with line and column; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_dml_file_read(const char *path, const gy_dml_meta *meta,
                                         gy_dml_value *value);
/** Write a matrix, frame or scalar, and PATH.mtd. Folders of the path are made; both files
 * appear whole or not at all. */
GY_MUST_CHECK gy_status gy_dml_file_write(const char *path, const gy_dml_meta *meta,
                                          const gy_dml_value *value);

/** The bytes of a file as a matrix or (meta->is_frame) a frame; `path` is for messages. */
GY_MUST_CHECK gy_status gy_dml_file_parse(const char *path, const gy_dml_meta *meta,
                                          const char *data, size_t size, gy_dml_value *value);

#endif
