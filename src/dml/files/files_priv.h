/** Formats of data files: what each file of this folder gives the others. */
#ifndef GY_DML_FILES_FILES_PRIV_H
#define GY_DML_FILES_FILES_PRIV_H

#include "dml/files/files.h"
#include "dml/values/frame.h"
#include "store/store.h"

/** The bytes of a file. `path` is for messages. */
typedef struct gy_dml_bytes {
    const char *path, *data;
    size_t size;
} gy_dml_bytes;

/** Lines of text; `line` is that of the last one, from 1. */
typedef struct gy_dml_lines {
    const char *path, *at, *end;
    int64_t line;
} gy_dml_lines;

static inline gy_dml_lines gy_dml_lines_of(gy_dml_bytes bytes)
{
    return (gy_dml_lines){.path = bytes.path, .at = bytes.data, .end = bytes.data + bytes.size};
}

/** The next line without its end; false at the end of the bytes. */
bool gy_dml_next_line(gy_dml_lines *in, const char **line, size_t *size);
/** GY_FORMAT "PATH: line L, column C: expected WHAT, found ...". */
gy_status gy_dml_refuse_field(const gy_dml_lines *in, int64_t column, const char *text,
                              size_t size, const char *what);

/** Call run(arg, i) for each i below count, on as many threads as this process has cores. */
void gy_dml_each(int64_t count, void (*run)(void *arg, int64_t i), void *arg);

/** The bytes of a plain local file, and NUL, read on all cores; caller frees them. GY_AGAIN: it
 * is small or (is_expanded) compressed: read it in order. GY_STATE it became shorter. */
GY_MUST_CHECK gy_status gy_dml_read_large(const char *path, bool is_expanded, char **data,
                                          size_t *size);

GY_MUST_CHECK gy_status gy_dml_csv_parse(gy_dml_bytes bytes, const gy_dml_meta *meta,
                                         gy_dml_value *value);
GY_MUST_CHECK gy_status gy_dml_cells_parse(gy_dml_bytes bytes, const gy_dml_meta *meta,
                                           gy_dml_matrix **matrix);
GY_MUST_CHECK gy_status gy_dml_cells_parse_frame(gy_dml_bytes bytes, const gy_dml_meta *meta,
                                                 gy_dml_frame **frame);
GY_MUST_CHECK gy_status gy_dml_market_parse(gy_dml_bytes bytes, gy_dml_matrix **matrix);

/** libsvm: the features, and the label as the last column. */
GY_MUST_CHECK gy_status gy_dml_libsvm_parse(gy_dml_bytes bytes, const gy_dml_meta *meta,
                                            gy_dml_matrix **matrix);
GY_MUST_CHECK gy_status gy_dml_libsvm_write(gy_writer *writer, const gy_dml_matrix *matrix);
/** NPY and IDX; more than two dimensions lie side by side behind the first. */
GY_MUST_CHECK gy_status gy_dml_npy_parse(gy_dml_bytes bytes, gy_dml_matrix **matrix);
GY_MUST_CHECK gy_status gy_dml_npy_write(gy_writer *writer, const gy_dml_matrix *matrix);
GY_MUST_CHECK gy_status gy_dml_idx_parse(gy_dml_bytes bytes, gy_dml_matrix **matrix);
GY_MUST_CHECK gy_status gy_dml_idx_write(gy_writer *writer, const gy_dml_matrix *matrix);

/** Binary blocks (blocks.h): a matrix or a frame, by the file. */
GY_MUST_CHECK gy_status gy_dml_blocks_parse(gy_dml_bytes bytes, gy_dml_value *value);
bool gy_dml_is_blocks(gy_dml_bytes bytes);
/** In blocks of meta's sizes. */
GY_MUST_CHECK gy_status gy_dml_blocks_write_matrix(gy_writer *writer, const gy_dml_meta *meta,
                                                   const gy_dml_matrix *matrix);
GY_MUST_CHECK gy_status gy_dml_blocks_write_frame(gy_writer *writer, const gy_dml_meta *meta,
                                                  const gy_dml_frame *frame);

/** Add what a text has to the file, unless (may_wait) it is little; empties it. */
GY_MUST_CHECK gy_status gy_dml_write_flush(gy_writer *writer, gy_text *text, bool may_wait);
/** As text, by meta->format; meta->nonzeros is the matrix's. */
GY_MUST_CHECK gy_status gy_dml_write_matrix(gy_writer *writer, const gy_dml_meta *meta,
                                            const gy_dml_matrix *matrix);
GY_MUST_CHECK gy_status gy_dml_write_frame(gy_writer *writer, const gy_dml_meta *meta,
                                           const gy_dml_frame *frame);

/** The types of a frame's columns by meta's schema; caller frees. */
GY_MUST_CHECK gy_status gy_dml_meta_types(const char *path, const gy_dml_meta *meta,
                                          int64_t columns, gy_dml_column_type **types);
GY_MUST_CHECK gy_status gy_dml_check_sizes(const char *path, const gy_dml_meta *meta,
                                           int64_t rows, int64_t columns);

#endif
