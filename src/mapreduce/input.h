/**
 * Reads files as records: visits a part of a file record by record.
 *
 * A part [begin, end) has the records that begin in it, wherever they end, so parts that cover
 * a file have each record once. Compressed files have one part. A part of CSV begins where a
 * row does (gy_splits_move_to_rows).
 */
#ifndef GY_MAPREDUCE_INPUT_H
#define GY_MAPREDUCE_INPUT_H

#include <gyre/mapreduce.h>

typedef struct gy_input {
    const char *path; /* for messages and records; borrowed */
    const char *data; /* (size_bytes) the whole file, memory-mapped */
    size_t size_bytes;
    uint64_t begin, end; /* of the part; an end beyond the file means the file's end */
    gy_record_format format;
    gy_encoding encoding; /* compression of the file */
    bool is_expanded;     /* of a stream: it was compressed and is expanded already */
    /* of a stream: another vertex wrote it, so its first bytes do not identify a format */
    bool is_made;
    gy_line_end line_end;
    size_t record_bytes; /* FIXED */
    char delimiter;      /* CSV */
    /* of a stream: the longest record; the reader needs twice as much memory */
    size_t record_most;
} gy_input;

/* bytes at a file's beginning that decide how its lines end */
enum { GY_INPUT_LOOK_BYTES = 64 << 10 };

/** Called for each record; a failure ends the visit. */
typedef gy_status (*gy_record_visit)(void *arg, const gy_record *record);

/**
 * Visit the records of a part, in order.
 *
 * @return GY_OK; GY_FORMAT: the file is not of this format (UTF-16, what <gyre/csv.h> refuses
 *     in CSV, a truncated record, damaged compression), with path and line or offset; GY_LIMIT
 *     a record of a compressed file is longer than record_most, a row of CSV than 1 GB; GY_ARG
 * a part of a file that cannot be split; GY_NOMEM; what `visit` returned
 * @threads any
 */
GY_MUST_CHECK gy_status gy_input_visit(const gy_input *input, gy_record_visit visit, void *arg);

/** Reads a stream: up to `wanted` bytes, fewer only at the end. */
typedef gy_status (*gy_input_fill)(void *arg, char *data, size_t wanted, size_t *got);

/**
 * Visit the records of a stream: `input` without data. Its part is the whole stream (end 0),
 * or [begin, end) of a file that can be split and is no CSV. In that case the stream begins at
 * gy_input_stream_begin and continues beyond the part; the function reads only as far as the
 * part's last record needs, in steps of 64 KiB or of that record's size so far. Errors as
 * gy_input_visit.
 */
GY_MUST_CHECK gy_status gy_input_visit_stream(const gy_input *input, gy_input_fill fill,
                                              void *fill_arg, gy_record_visit visit, void *arg);

/** Where the stream of a part that begins there must begin: for lines one byte earlier, which
 * shows whether a line begins at the part's begin; for records of one size at a record.
 * Pure. */
uint64_t gy_input_stream_begin(gy_record_format format, size_t record_bytes, uint64_t begin);

/** Whether a file with this head (its first GY_FORMAT_HEAD_BYTES) can be split. Pure. */
bool gy_input_can_part(const gy_input *input, const void *head, size_t size_bytes);
/** Whether some bytes of a file's first GY_INPUT_LOOK_BYTES are '\r' and none is '\n'. Pure. */
bool gy_input_has_cr_lines(const void *head, size_t size_bytes);
/** Whether the format depends on that. Pure. */
bool gy_input_asks_for_cr(const gy_input *input);
/** Whether each '\r' that no '\n' follows is replaced by '\n' in this file. Offsets stay the
 * same, and lines are found as in any other file. Pure. */
bool gy_input_is_turned(const gy_input *input, const char *head, size_t size_bytes);
/** Replace them from `begin` on. Returns where it stopped: at `size` at the file's end, else
 * before the last byte, whose successor is unknown. */
size_t gy_input_turn(char *data, size_t begin, size_t size, bool is_last);
/** GY_FORMAT: files with this head are refused; the message names the file and a remedy. */
GY_MUST_CHECK gy_status gy_input_check_head(const gy_input *input, const void *head,
                                            size_t size_bytes);

/** Check that the first bytes of an input are text, whatever their source. GY_FORMAT */
GY_MUST_CHECK gy_status gy_input_check_text(const gy_input *input, const char *data,
                                            size_t size);

/* ---- CSV, for input.c ---- */

/** gy_input_visit and gy_input_visit_stream of CSV, from and to its rows. */
GY_MUST_CHECK gy_status gy_mapreduce_visit_csv(const gy_input *input, gy_record_visit visit,
                                               void *arg);
GY_MUST_CHECK gy_status gy_mapreduce_visit_csv_stream(const gy_input *input, gy_input_fill fill,
                                                      void *fill_arg, gy_record_visit visit,
                                                      void *arg);

/* ---- one chunk of a file, for input.c ---- */

/** A chunk of bytes in memory. */
typedef struct gy_piece_of {
    const char *data;
    size_t size;
    uint64_t offset; /* offset of data in the file */
    bool is_last;    /* the file ends with this chunk */
    size_t stop;     /* records that begin at or after data + stop belong to the next part */
} gy_piece_of;

/** State from chunk to chunk. */
typedef struct gy_input_state {
    const gy_input *input;
    gy_record_visit visit;
    void *arg;
} gy_input_state;

/** Visit the complete records of a chunk; *used becomes the offset of the first incomplete
 * record, or of the first one of the next part. */
GY_MUST_CHECK gy_status gy_mapreduce_visit_lines(gy_input_state *state,
                                                 const gy_piece_of *piece, size_t *used);
GY_MUST_CHECK gy_status gy_mapreduce_visit_texts(gy_input_state *state,
                                                 const gy_piece_of *piece, size_t *used);
GY_MUST_CHECK gy_status gy_mapreduce_visit_fixed(gy_input_state *state,
                                                 const gy_piece_of *piece, size_t *used);

#endif
