/**
 * Frames: tables whose columns have a type and a name each. Columns are counted, so that
 * frames share those that neither changes.
 *
 *     gy_dml_frame *frame = NULL;
 *     gy_status status = gy_dml_frame_new(2, 3, NULL, &frame); // strings
 *     status = status == GY_OK ? gy_dml_column_set(frame->items[0], 1, "a", 1) : status;
 *     gy_dml_frame_drop(frame);
 */
#ifndef GY_DML_VALUES_FRAME_H
#define GY_DML_VALUES_FRAME_H

#include "dml/values/values.h"

/** Types of columns, the names of SystemDS, and how a cell is stored. */
#define GY_DML_COLUMN_LIST(X)                                                                  \
    X(STRING, TEXT)                                                                            \
    X(CHARACTER, TEXT)                                                                         \
    X(HASH32, TEXT)                                                                            \
    X(HASH64, TEXT)                                                                            \
    X(BOOLEAN, TRUTH)                                                                          \
    X(UINT8, WHOLE)                                                                            \
    X(INT32, WHOLE)                                                                            \
    X(INT64, WHOLE)                                                                            \
    X(FP32, REAL)                                                                              \
    X(FP64, REAL)

typedef enum gy_dml_column_type {
#define GY_X(id, storage) GY_DML_COLUMN_##id,
    GY_DML_COLUMN_LIST(GY_X)
#undef GY_X
        GY_DML_COLUMN_TYPES
} gy_dml_column_type;

typedef enum gy_dml_storage {
    GY_DML_STORES_TEXT,
    GY_DML_STORES_TRUTH,
    GY_DML_STORES_WHOLE,
    GY_DML_STORES_REAL,
} gy_dml_storage;

typedef struct gy_dml_column {
    _Atomic int64_t holds;
    gy_dml_column_type type;
    int64_t count;
    union {
        void *data;
        gy_dml_text **texts; /* (count) one hold each; NULL: a missing value */
        bool *truths;        /* (count) */
        int64_t *wholes;     /* (count) */
        double *reals;       /* (count) of FP32, rounded to float */
    };
} gy_dml_column;

struct gy_dml_frame {
    _Atomic int64_t holds;
    int64_t rows, columns;
    gy_dml_column **items; /* (columns) one hold each */
    gy_dml_text **names;   /* (columns), or NULL: C1, C2, ... */
};

/** "INT64"; static. */
const char *gy_dml_column_type_name(gy_dml_column_type type);
gy_dml_storage gy_dml_column_storage(gy_dml_column_type type);
/** A type's name, or one of scripts: double, int, boolean, string; in any case of letters.
 * False: none. */
bool gy_dml_column_type_parse(const char *name, size_t size, gy_dml_column_type *type);
/** The narrowest type that has the values of both. */
gy_dml_column_type gy_dml_column_type_common(gy_dml_column_type a, gy_dml_column_type b);

/** Cells are missing, FALSE or 0. GY_LIMIT, GY_NOMEM. Caller owns a hold. */
GY_MUST_CHECK gy_status gy_dml_column_new(gy_dml_column_type type, int64_t count,
                                          gy_dml_column **column);
gy_dml_column *gy_dml_column_hold(gy_dml_column *column);
void gy_dml_column_drop(gy_dml_column *column);

/** A cell of a text; nothing gives what a new column has. The caller holds the column alone.
 * GY_TYPE the text is no value of the type; GY_NOMEM. */
GY_MUST_CHECK gy_status gy_dml_column_set(gy_dml_column *column, int64_t at, const char *text,
                                          size_t size);
/** A cell of a scalar. */
GY_MUST_CHECK gy_status gy_dml_column_set_value(gy_dml_column *column, int64_t at,
                                                const gy_dml_value *value);
/** `count` cells of another column, converted where types differ. */
GY_MUST_CHECK gy_status gy_dml_column_set_cells(gy_dml_column *to, int64_t at,
                                                const gy_dml_column *from, int64_t from_at,
                                                int64_t count);
/** A cell as a scalar; caller owns the hold. A missing string is "". GY_NOMEM. */
GY_MUST_CHECK gy_status gy_dml_column_get(const gy_dml_column *column, int64_t at,
                                          gy_dml_value *value);
/** A cell as a double: missing is 0, TRUE 1. GY_TYPE a text that is no number. */
GY_MUST_CHECK gy_status gy_dml_column_real(const gy_dml_column *column, int64_t at,
                                           double *real);
bool gy_dml_column_is_missing(const gy_dml_column *column, int64_t at);
/** A cell as files have it; nothing where it is missing. */
void gy_dml_column_add(gy_text *text, const gy_dml_column *column, int64_t at);

/** types (columns), NULL: strings. GY_LIMIT, GY_NOMEM. Caller owns a hold. */
GY_MUST_CHECK gy_status gy_dml_frame_new(int64_t rows, int64_t columns,
                                         const gy_dml_column_type *types, gy_dml_frame **frame);
/** A frame without columns yet: items are NULL, for the caller to fill. */
GY_MUST_CHECK gy_status gy_dml_frame_open(int64_t rows, int64_t columns, gy_dml_frame **frame);
/** A copy that shares the columns. */
GY_MUST_CHECK gy_status gy_dml_frame_copy(const gy_dml_frame *from, gy_dml_frame **frame);
/** NULL is fine. */
void gy_dml_frame_drop(gy_dml_frame *frame);
/** Of the last hold; gy_dml_drop calls it. */
void gy_dml_frame_free(gy_dml_frame *frame);
/** Have the frame, which is held alone, hold column j alone. */
GY_MUST_CHECK gy_status gy_dml_frame_own(gy_dml_frame *frame, int64_t j);

GY_MUST_CHECK gy_status gy_dml_frame_set_name(gy_dml_frame *frame, int64_t j, const char *name,
                                              size_t size);
void gy_dml_frame_add_name(gy_text *text, const gy_dml_frame *frame, int64_t j);
/** The names of columns [begin, begin + to->columns) of `from`, where it has any. */
GY_MUST_CHECK gy_status gy_dml_frame_copy_names(gy_dml_frame *to, const gy_dml_frame *from,
                                                int64_t begin);

#endif
