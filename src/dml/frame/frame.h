/**
 * What scripts do with frames. Results have a hold of their own; bounds begin at 0 and were
 * checked by the caller; errors name row and column from 1.
 */
#ifndef GY_DML_FRAME_FRAME_H
#define GY_DML_FRAME_FRAME_H

#include "dml/matrix/matrix.h"
#include "dml/values/frame.h"

GY_MUST_CHECK gy_status gy_dml_frame_cut(const gy_dml_frame *from, const gy_dml_box *box,
                                         gy_dml_frame **out);
/** Write `from` (of the box's size) into `to`, held alone, converted to its types. GY_TYPE. */
GY_MUST_CHECK gy_status gy_dml_frame_paste(gy_dml_frame *to, const gy_dml_box *box,
                                           const gy_dml_frame *from);
/** The same scalar into each cell of the box. */
GY_MUST_CHECK gy_status gy_dml_frame_paste_value(gy_dml_frame *to, const gy_dml_box *box,
                                                 const gy_dml_value *value);
/** Write the cells of `made` that differ from `before` into `to`, held alone; all of one size.
 */
GY_MUST_CHECK gy_status gy_dml_frame_merge(gy_dml_frame *to, const gy_dml_frame *before,
                                           const gy_dml_frame *made);
/** Side by side: names stay where no two are equal. GY_SHAPE. */
GY_MUST_CHECK gy_status gy_dml_frame_cbind(gy_dml_frame *const *parts, int count,
                                           gy_dml_frame **out);
/** One below the other: the names of the first, the narrowest types that hold all. */
GY_MUST_CHECK gy_status gy_dml_frame_rbind(gy_dml_frame *const *parts, int count,
                                           gy_dml_frame **out);
/** The rows (or columns) whose `stays` is not 0, `left` of them. */
GY_MUST_CHECK gy_status gy_dml_frame_keep(const gy_dml_frame *from, bool is_rows,
                                          const unsigned char *stays, int64_t left,
                                          gy_dml_frame **out);

/** Every cell as a double. GY_TYPE one that is no number. */
GY_MUST_CHECK gy_status gy_dml_frame_to_matrix(const gy_dml_frame *from, gy_dml_matrix **out);
/** Columns of FP64. */
GY_MUST_CHECK gy_status gy_dml_frame_of_matrix(const gy_dml_matrix *from, gy_dml_frame **out);
/** 1x1, of the scalar's type. */
GY_MUST_CHECK gy_status gy_dml_frame_of_scalar(const gy_dml_value *scalar, gy_dml_frame **out);
/** A frame as it is, a matrix or scalar as one. GY_TYPE naming `what`. */
GY_MUST_CHECK gy_status gy_dml_as_frame(const gy_dml_value *value, const char *what,
                                        gy_dml_frame **out);

/**
 * Cells compared: as numbers where both are, else as texts; a frame of booleans. b of 1x1 is
 * compared with each cell. GY_SHAPE; GY_TYPE the operator is no comparison.
 */
GY_MUST_CHECK gy_status gy_dml_frame_compare(gy_dml_binary code, const gy_dml_frame *a,
                                             const gy_dml_frame *b, gy_dml_frame **out);
/** Cells equal to `pattern` of the columns whose type it has, and of strings, replaced. */
GY_MUST_CHECK gy_status gy_dml_frame_replace(const gy_dml_frame *from,
                                             const gy_dml_value *pattern,
                                             const gy_dml_value *replacement,
                                             gy_dml_frame **out);

/** Types in a text, "string,INT64,double" or one for all ("*": strings), into types
 * (columns). GY_ARG. */
GY_MUST_CHECK gy_status gy_dml_schema_parse(const char *text, int64_t columns,
                                            gy_dml_column_type *types);
/** The types in a frame's first row, as gy_dml_schema_detect writes them. */
GY_MUST_CHECK gy_status gy_dml_schema_take(const gy_dml_frame *row, gy_dml_column_type *types);
/** A row of strings: the narrowest type of each column's texts, "·n" behind it where some are
 * missing. */
GY_MUST_CHECK gy_status gy_dml_schema_detect(const gy_dml_frame *frame, gy_dml_frame **out);
/** A row of strings: the type of each column. */
GY_MUST_CHECK gy_status gy_dml_schema_row(const gy_dml_frame *frame, gy_dml_frame **out);
GY_MUST_CHECK gy_status gy_dml_schema_apply(const gy_dml_frame *frame,
                                            const gy_dml_column_type *types,
                                            gy_dml_frame **out);
/** The narrowest type of a text that is not empty. */
gy_dml_column_type gy_dml_schema_of_text(const char *text, size_t size);

#endif
