/**
 * Records of files: a part of a file is visited record by record.
 *
 * A part [begin, end) has the records that begin in it, wherever they end; so parts that make
 * up a file have each record once. Compressed files and CSV have one part.
 */
#ifndef GY_MAPREDUCE_INPUT_H
#define GY_MAPREDUCE_INPUT_H

#include <gyre/mapreduce.h>

typedef struct gy_input {
    const char *path; /* for messages and records; borrowed */
    const char *data; /* (size_bytes) the whole file, mapped */
    size_t size_bytes;
    uint64_t begin, end; /* of the part; end beyond the file: to its end */
    gy_record_format format;
    gy_encoding encoding; /* how the file is to be taken */
    bool is_expanded;     /* of a stream: it was compressed */
    bool is_made;         /* of a stream: a program of this job wrote it, so its first bytes say
                             nothing */
    gy_line_end line_end;
    size_t record_bytes; /* FIXED */
    char delimiter;      /* CSV */
    size_t record_most;  /* of a compressed file: the longest record; memory is twice as much */
} gy_input;

enum { GY_INPUT_LOOK_BYTES = 64 << 10 }; /* of a file, that say what ends its lines */

/** What is done with a record; a failure ends the visit. */
typedef gy_status (*gy_record_visit)(void *arg, const gy_record *record);

/**
 * Visit the records of a part, in order.
 *
 * @return GY_OK; GY_FORMAT: what is no such file (UTF-16, a ragged row, an open quote, NUL in
 * CSV, a record cut, damaged compression), by path and line or offset; GY_LIMIT a record of a
 * compressed file is longer than record_most; GY_ARG a part of what cannot be parted; GY_NOMEM;
 * what `visit` returned
 * @threads any
 */
GY_MUST_CHECK gy_status gy_input_visit(const gy_input *input, gy_record_visit visit, void *arg);

/** Where a stream's bytes come from: up to `wanted`, fewer only at the end. */
typedef gy_status (*gy_input_fill)(void *arg, char *data, size_t wanted, size_t *got);

/**
 * Visit the records of a stream: `input` without data. Its part is the whole (end 0), or
 * [begin, end) of a file that can be parted; then the stream's first byte is
 * gy_input_stream_begin's, it goes on beyond the part, and no more is taken from it than the
 * part's last record needs, in steps of 64 KiB or of that record's size so far. Errors as
 * gy_input_visit.
 */
GY_MUST_CHECK gy_status gy_input_visit_stream(const gy_input *input, gy_input_fill fill,
                                              void *fill_arg, gy_record_visit visit, void *arg);

/** Where the stream of a part that begins there does: before a line, to see whether it is one's
 * first; at a record of one size. Pure. */
uint64_t gy_input_stream_begin(gy_record_format format, size_t record_bytes, uint64_t begin);

/** Whether a file with this head (its first GY_FORMAT_HEAD_BYTES) can be parted. Pure. */
bool gy_input_can_part(const gy_input *input, const void *head, size_t size_bytes);
/** Whether some bytes of a file's first GY_INPUT_LOOK_BYTES are '\r' and none is '\n'. Pure. */
bool gy_input_has_cr_lines(const void *head, size_t size_bytes);
/** Whether that matters. Pure. */
bool gy_input_asks_for_cr(const gy_input *input);
/** Whether each '\r' of such a file that no '\n' follows becomes one: offsets stay, and lines
 * are found as in any other file. Pure. */
bool gy_input_is_turned(const gy_input *input, const char *head, size_t size_bytes);
/** Do that from `begin` on; up to where it is done: of all when that is the file's end, else of
 * all but the last byte. */
size_t gy_input_turn(char *data, size_t begin, size_t size, bool is_last);
/** GY_FORMAT: files with this head are refused; named, with what to do. */
GY_MUST_CHECK gy_status gy_input_check_head(const gy_input *input, const void *head,
                                            size_t size_bytes);

/* ---- one piece of a file, for input.c ---- */

/** Bytes at hand. */
typedef struct gy_piece_of {
    const char *data;
    size_t size;
    uint64_t offset; /* of data in the file */
    bool is_last;    /* the file ends with it */
    size_t stop;     /* records that begin at data + stop or behind are another's */
} gy_piece_of;

/** What is kept from piece to piece. */
typedef struct gy_input_state {
    const gy_input *input;
    gy_record_visit visit;
    void *arg;
    uint64_t line;  /* of CSV: lines before the piece */
    int64_t fields; /* of CSV's first row; -1: none was seen */
} gy_input_state;

/** Visit the whole records of a piece; *used is where the first that is not whole begins, or
 * the first that is another's. */
GY_MUST_CHECK gy_status gy_mapreduce_visit_lines(gy_input_state *state,
                                                 const gy_piece_of *piece, size_t *used);
GY_MUST_CHECK gy_status gy_mapreduce_visit_texts(gy_input_state *state,
                                                 const gy_piece_of *piece, size_t *used);
GY_MUST_CHECK gy_status gy_mapreduce_visit_fixed(gy_input_state *state,
                                                 const gy_piece_of *piece, size_t *used);
GY_MUST_CHECK gy_status gy_mapreduce_visit_rows(gy_input_state *state, const gy_piece_of *piece,
                                                size_t *used);

#endif
