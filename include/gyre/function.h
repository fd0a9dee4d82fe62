/**
 * Functions of a program in its queries: registered with a name and types, called by statements
 * as the builtin ones are.
 *
 *     static gy_status half(gy_function_call *call, const gy_function_value *arguments,
 *                           gy_function_value *result)
 *     {
 *         result->real = arguments[0].real / 2;
 *         return GY_OK;
 *     }
 *     static const gy_field half_of[] = {{.name = "x", .kind = GY_FIELD_DOUBLE}};
 *     static const gy_query_function all[] = {{.name = "half",
 *                                              .version = 1,
 *                                              .parameters = half_of,
 *                                              .parameter_count = 1,
 *                                              .result = {.kind = GY_FIELD_DOUBLE},
 *                                              .scalar = half}};
 *     static gy_query_functions functions(void)
 *     {
 *         return (gy_query_functions){.items = all, .count = 1};
 *     }
 *
 * `functions` in gy_query_options takes the list: gy_query_new refuses it where it cannot be.
 * Where queries are jobs of processes, each of these is the same program and has the same
 * list: GY_QUERY_VERTEX_OF(functions) in the list of gy_flow_start.
 *
 * A function depends on its arguments alone, since calls may be made again, in another
 * process, at any time and in any order. It may be called by several threads at once. Its
 * version is part of what a job remembers (gy_flow_options.memo): give another one whenever it
 * may give other results.
 */
#ifndef GYRE_FUNCTION_H
#define GYRE_FUNCTION_H

#include <gyre/frame.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { GY_FUNCTION_PARAMETERS_MAX = 16, GY_FUNCTION_STATE_BYTES_MAX = 1024 };

/** A value that goes into a function or comes out of it, of the type that is declared. */
typedef struct gy_function_value {
    bool is_null; /* then nothing else counts */
    union {
        bool truth;        /* bool */
        int64_t integer;   /* int64; of a date days since 1970-01-01, of a timestamp
                              microseconds since then, UTC */
        double real;       /* double */
        gy_int128 decimal; /* decimal: in units of 10^-scale */
        gy_text_view text; /* text: UTF-8 without NUL; borrowed for the call, of a result see
                              gy_function_text */
    };
} gy_function_value;

/** A call of a function, as long as it runs. */
typedef struct gy_function_call gy_function_call;

/** `context` of its gy_query_function. */
GY_API void *gy_function_context(const gy_function_call *call);
/** Memory for the bytes of a text that is the result: not zeroed, freed by the caller of the
 * function. An argument, part of it and a static text may be the result as they are.
 * NULL: out of memory, return GY_NOMEM; or the call has no result: it is one of the first
 * three of an aggregate */
GY_API char *gy_function_text(gy_function_call *call, size_t size_bytes);
/** Say why the call fails, one line without a newline, cut to 500 bytes; returns GY_ARG, for
 * the function to return. */
GY_API gy_status gy_function_fail(gy_function_call *call, const char *format, ...)
    GY_PRINTF(2, 3);

/**
 * A function of a row.
 *
 * @param arguments (parameter_count)
 * @param result    zero, not null, before the call; a double may be anything, a decimal must
 *                  fit its precision, a date and a timestamp years 1 to 9999
 * @return GY_OK; any failure: the query fails with the text of gy_function_fail, and, where a
 *     file is being read, with file and line of the row
 */
typedef gy_status (*gy_function_scalar)(gy_function_call *call,
                                        const gy_function_value *arguments,
                                        gy_function_value *result);

/*
 * An aggregate, in parts: rows of a group are accumulated to states in several threads and
 * processes, states are merged in any order and any grouping, and one is finished. The same
 * answer for any number of workers needs that neither matters: sums of integers, counts,
 * maxima, sketches; a sum of doubles is another one in its last bits.
 *
 * A state is state_bytes bytes, aligned to 8, that are written to files and other processes as
 * they are: no pointers, and all of them set (they are zero before `initialise`).
 */

/** Make a zeroed state one of no rows. */
typedef void (*gy_function_initialise)(gy_function_call *call, void *state);
/** Add a row to a state. `arguments` (parameter_count), of which none is null unless
 * takes_nulls. Failures as of gy_function_scalar. */
typedef gy_status (*gy_function_accumulate)(gy_function_call *call, void *state,
                                            const gy_function_value *arguments);
/** Add the rows of another state to a state. */
typedef gy_status (*gy_function_merge)(gy_function_call *call, void *state, const void *other);
/** The answer of a state, which may be one of no rows; as of gy_function_scalar. */
typedef gy_status (*gy_function_finish)(gy_function_call *call, const void *state,
                                        gy_function_value *result);

/** Names and types of the columns that a function of rows gives; borrowed for the call. */
GY_API gy_schema *gy_function_columns(const gy_function_call *call);
/** Give rows: a frame whose columns have the types of gy_function_columns, whatever their
 * names; it is held as long as it is needed. GY_ARG other columns; GY_IO; GY_NOMEM */
GY_API GY_MUST_CHECK gy_status gy_function_emit(gy_function_call *call, gy_frame *frame);

/**
 * A function of rows: called once for each partition, all rows with equal keys; without keys
 * once for all rows, also where there are none. It may emit any number of rows, at any time.
 *
 * @param rows  the partition, in the order that the call of SQL asks for, else in that of its
 *     input: frames of the parameters, in order. It may be left before its end. A failure of
 *     `next` is to be returned; `close` is NULL
 * @return GY_OK; any failure: the query fails with the text of gy_function_fail
 */
typedef gy_status (*gy_function_apply)(gy_function_call *call, const gy_frame_source *rows);

/** A function that statements may name: of a value, an aggregate, or of rows. Pointers are
 * borrowed as long as queries use them. */
typedef struct gy_query_function {
    const char *name; /* letters a to z, digits and _, not a digit first, at most 62; not
                         that of a builtin function */
    uint32_t version; /* see above */
    bool takes_nulls; /* called with nulls, too; else a row with a null among the arguments
                         has null as its result */
    const gy_field *parameters; /* (parameter_count); what stands in a call becomes these types
                                   where SQL casts implicitly */
    int parameter_count;        /* at most GY_FUNCTION_PARAMETERS_MAX */
    gy_field result;            /* its name does not matter */
    void *context;              /* gy_function_context; each process of a job has its own */
    gy_function_scalar scalar;
    /* Or, of an aggregate, with one parameter at least; takes_nulls: rows with nulls count. */
    size_t state_bytes;                /* 1 to GY_FUNCTION_STATE_BYTES_MAX */
    gy_function_initialise initialise; /* NULL: zeros are right */
    gy_function_accumulate accumulate;
    gy_function_merge merge;
    gy_function_finish finish;
    /* Or, of rows, with one parameter at least, whose names the frames have: */
    gy_function_apply apply;
    const gy_field *columns; /* (column_count) that it gives; `result` does not matter */
    int column_count;
} gy_query_function;

/** A program's functions, each name once. */
typedef struct gy_query_functions {
    const gy_query_function *items; /* (count) */
    int count;
} gy_query_functions;

#ifdef __cplusplus
}
#endif
#endif
