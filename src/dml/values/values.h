/**
 * The values of scripts: scalars, which lie in the value, and counted texts, matrices and
 * lists.
 *
 *     gy_dml_value x = gy_dml_of_real(1.5), y = gy_dml_hold(x);
 *     gy_dml_drop(&x);
 */
#ifndef GY_DML_VALUES_VALUES_H
#define GY_DML_VALUES_VALUES_H

#include "base/base.h"

#include <gyre/tensor.h>

#include <stdatomic.h>

typedef enum gy_dml_value_kind {
    GY_DML_IS_NOTHING, /* no value: an argument that was left out, a slot before its first one
                        */
    GY_DML_IS_INTEGER,
    GY_DML_IS_REAL,
    GY_DML_IS_BOOLEAN,
    GY_DML_IS_TEXT,
    GY_DML_IS_MATRIX,
    GY_DML_IS_FRAME, /* frame.h */
    GY_DML_IS_LIST,
} gy_dml_value_kind;

/** "an integer", "a matrix"; static. */
const char *gy_dml_value_kind_text(gy_dml_value_kind kind);

typedef struct gy_dml_text {
    _Atomic int64_t holds;
    size_t size;
    char data[]; /* (size + 1), NUL-terminated */
} gy_dml_text;

/** f64 (rows, columns), row-major. Who holds it alone may write into it. */
typedef struct gy_dml_matrix {
    _Atomic int64_t holds;
    int64_t rows, columns;
    double *data;      /* of the tensor, pinned */
    gy_tensor *tensor; /* (rows, columns) */
} gy_dml_matrix;

typedef struct gy_dml_frame gy_dml_frame;
typedef struct gy_dml_list gy_dml_list;

typedef struct gy_dml_value {
    gy_dml_value_kind kind;
    union {
        int64_t whole;
        double real;
        bool truth;
        gy_dml_text *text;
        gy_dml_matrix *matrix;
        gy_dml_frame *frame;
        gy_dml_list *list;
    };
} gy_dml_value;

struct gy_dml_list {
    _Atomic int64_t holds;
    size_t count, capacity;
    gy_dml_value *items;
    gy_dml_text **names; /* NULL: without names; an item's may be NULL */
};

#define GY_DML_NONE ((gy_dml_value){.kind = GY_DML_IS_NOTHING})

static inline gy_dml_value gy_dml_of_integer(int64_t whole)
{
    return (gy_dml_value){.kind = GY_DML_IS_INTEGER, .whole = whole};
}
static inline gy_dml_value gy_dml_of_real(double real)
{
    return (gy_dml_value){.kind = GY_DML_IS_REAL, .real = real};
}
static inline gy_dml_value gy_dml_of_boolean(bool truth)
{
    return (gy_dml_value){.kind = GY_DML_IS_BOOLEAN, .truth = truth};
}
/** Takes the hold. */
static inline gy_dml_value gy_dml_of_matrix(gy_dml_matrix *matrix)
{
    return (gy_dml_value){.kind = GY_DML_IS_MATRIX, .matrix = matrix};
}
static inline gy_dml_value gy_dml_of_frame(gy_dml_frame *frame)
{
    return (gy_dml_value){.kind = GY_DML_IS_FRAME, .frame = frame};
}
static inline gy_dml_value gy_dml_of_list(gy_dml_list *list)
{
    return (gy_dml_value){.kind = GY_DML_IS_LIST, .list = list};
}
/** A copy of `size` bytes. */
GY_MUST_CHECK gy_status gy_dml_of_text(const char *data, size_t size, gy_dml_value *value);

static inline bool gy_dml_is_counted(const gy_dml_value *value)
{
    return value->kind >= GY_DML_IS_TEXT;
}
static inline bool gy_dml_is_scalar(const gy_dml_value *value)
{
    return value->kind >= GY_DML_IS_INTEGER && value->kind <= GY_DML_IS_TEXT;
}

/** One hold more. */
gy_dml_value gy_dml_hold(gy_dml_value value);
/** Drop one hold and make it nothing. */
void gy_dml_drop_counted(gy_dml_value *value);
static inline void gy_dml_drop(gy_dml_value *value)
{
    if (gy_dml_is_counted(value)) {
        gy_dml_drop_counted(value);
    }
    value->kind = GY_DML_IS_NOTHING;
}

/** True when nobody else holds the matrix. */
static inline bool gy_dml_is_alone(const gy_dml_matrix *matrix)
{
    return atomic_load_explicit(&matrix->holds, memory_order_acquire) == 1;
}

/** A matrix with undefined elements. GY_LIMIT too large; GY_NOMEM. Caller owns one hold. */
GY_MUST_CHECK gy_status gy_dml_matrix_new(int64_t rows, int64_t columns,
                                          gy_dml_matrix **matrix);
/** The same with `value` in each cell. */
GY_MUST_CHECK gy_status gy_dml_matrix_fill(int64_t rows, int64_t columns, double value,
                                           gy_dml_matrix **matrix);
GY_MUST_CHECK gy_status gy_dml_matrix_copy(const gy_dml_matrix *from, gy_dml_matrix **matrix);
void gy_dml_matrix_drop(gy_dml_matrix *matrix);
static inline int64_t gy_dml_matrix_count(const gy_dml_matrix *matrix)
{
    return matrix->rows * matrix->columns;
}

GY_MUST_CHECK gy_status gy_dml_list_new(gy_dml_list **list);
/** Takes a hold of its own on the value; name NULL: none. */
GY_MUST_CHECK gy_status gy_dml_list_add(gy_dml_list *list, gy_dml_value value,
                                        const char *name);
GY_MUST_CHECK gy_status gy_dml_list_copy(const gy_dml_list *from, gy_dml_list **list);
/** Give an item of a list with names another one; takes a hold of its own. */
void gy_dml_list_rename(gy_dml_list *list, size_t item, gy_dml_text *name);
/** -1: no such name. */
int64_t gy_dml_list_find(const gy_dml_list *list, const char *name);

/** Any scalar, or a 1x1 matrix, as the type that is wanted. GY_TYPE naming `what` it is for. */
GY_MUST_CHECK gy_status gy_dml_as_real(const gy_dml_value *value, const char *what,
                                       double *real);
/** A double is cut toward minus infinity; GY_ARG NaN or beyond 2^63. */
GY_MUST_CHECK gy_status gy_dml_as_integer(const gy_dml_value *value, const char *what,
                                          int64_t *whole);
GY_MUST_CHECK gy_status gy_dml_as_boolean(const gy_dml_value *value, const char *what,
                                          bool *truth);
/** A scalar as a 1x1 matrix, a matrix as it is; caller owns one hold. */
GY_MUST_CHECK gy_status gy_dml_as_matrix(const gy_dml_value *value, const char *what,
                                         gy_dml_matrix **matrix);

/** A whole number as SystemDS takes one of a double: cut down, with 2^-53 of tolerance. */
int64_t gy_dml_whole_of(double real);

/** The nearest double of "-12.5e3", "NaN", "Inf"; false: it is no number. */
bool gy_dml_parse_real(const char *text, size_t size, double *value);
/** The same of a number of digits at the begin of a text; *text is what follows then. False: it
 * begins otherwise, or its rounding needs more care; *value may be written. */
bool gy_dml_take_real(const char **text, const char *end, double *value);

/** How print shows a double: the shortest digits that give it back, 1.0E-5 and the like. */
void gy_dml_add_real(gy_text *text, double real);
/** A value as print shows it; a matrix with `decimals` after the point. */
void gy_dml_add_value(gy_text *text, const gy_dml_value *value);

typedef struct gy_dml_matrix_style {
    int64_t rows, columns; /* at most so many are shown */
    int decimals;
    bool is_sparse;
    const char *between, *line_end;
} gy_dml_matrix_style;

void gy_dml_add_matrix(gy_text *text, const gy_dml_matrix *matrix,
                       const gy_dml_matrix_style *style);
/** A frame with its sizes, names and types above; numbers with the style's decimals. */
void gy_dml_add_frame(gy_text *text, const gy_dml_frame *frame,
                      const gy_dml_matrix_style *style);
/** The same of a double that was a float: digits that give the float back. */
void gy_dml_add_single(gy_text *text, float single);

#endif
