/**
 * What the files of this room share.
 */
#ifndef GY_STORE_STORE_PRIV_H
#define GY_STORE_STORE_PRIV_H

#include "store/store.h"
#include "store/versions/stamp.h"

/** The part of a path after its last slash. */
const char *gy_store_path_name(const char *path);
/** Shorten a path, which is not empty, to its folder: "." without a slash, "/" at the root. */
void gy_store_path_cut(char *path);

/** gy_writer_open, then add the first bytes. */
GY_MUST_CHECK gy_status gy_writer_open_with(gy_env *env, const char *path, const void *data,
                                            size_t size_bytes, gy_writer **writer);

/* For decoders: the raw bytes of a source. */

/** Read the next raw bytes of the file, at most `wanted`; 0 at the end. */
GY_MUST_CHECK gy_status gy_source_raw(gy_source *source, void *data, size_t wanted,
                                      size_t *got);

/* ---- decoders ---- */

/** Input and output of a decoder, which advances the front of both. */
typedef struct gy_decode_io {
    const unsigned char *in;
    size_t in_bytes;
    unsigned char *out;
    size_t out_bytes;
    const char *reason; /* for GY_FORMAT and GY_LIMIT; static */
} gy_decode_io;

/** A library's decoder of one member, frame or stream; a file may have several, concatenated.
 * `io` has the reason of a failure; only `begin` calls gy_fail. */
typedef struct gy_decoder_ops {
    size_t state_bytes; /* size of the state, which is zeroed */
    /* Called before each member. The first call allocates what `end` frees, also when it
     * fails. GY_NOMEM; GY_UNSUPPORTED the library is missing. */
    gy_status (*begin)(void *state);
    void (*end)(void *state);
    /* Decode some bytes of the member; *is_whole: it has ended and its checksum is verified.
     * GY_FORMAT; GY_LIMIT it needs too much memory; GY_NOMEM. */
    gy_status (*step)(void *state, gy_decode_io *io, bool *is_whole);
    uint64_t ratio_max; /* most output bytes for an input byte */
    size_t padding;     /* a multiple of so many NUL bytes may follow a member; 0: none */
    bool has_skippable; /* skippable frames may precede, separate and follow members */
} gy_decoder_ops;

extern const gy_decoder_ops gy_gzip_ops, gy_zstd_ops, gy_bzip2_ops, gy_xz_ops, gy_lz4_ops;

/** A row of the table of formats (formats.c). */
typedef struct gy_file_format {
    const char *name;
    gy_encoding encoding; /* how it is read; GY_ENCODING_AUTO: the bytes alone do not decide */
    const char *magic;    /* (magic_bytes) at `offset`; NULL: there is none */
    /* bytes_min: how many of them identify a truncated file */
    size_t magic_bytes, offset, bytes_min;
    /* an additional test; NULL: none */
    bool (*is_it)(const unsigned char *head, size_t size_bytes);
    const char *names;         /* file name extensions, separated by spaces; NULL: none */
    const char *advice;        /* readable formats: describes the magic; others: a remedy */
    const gy_decoder_ops *ops; /* NULL: files of this format are refused */
} gy_file_format;

/** The format of a head that has GY_FORMAT_HEAD_BYTES or the whole file; NULL: unknown.
 * Pure. */
const gy_file_format *gy_store_format_find(const void *head, size_t size_bytes);
/** The row of the format that is read as `encoding`. */
const gy_file_format *gy_store_format_of(gy_encoding encoding);
/** Whether a skippable frame begins there; zstd and lz4 share its magic numbers. */
bool gy_store_format_is_skippable(const void *head, size_t size_bytes);

/** Decompresses the bytes of gy_source_raw. */
typedef struct gy_decoder gy_decoder;
/** `encoding`: AUTO after skippable frames, which do not identify their format. */
GY_MUST_CHECK gy_status gy_decoder_new(gy_encoding encoding, gy_decoder **decoder);
void gy_decoder_free(gy_decoder *decoder);
/** As gy_source_read. */
GY_MUST_CHECK gy_status gy_decoder_read(gy_decoder *decoder, gy_source *source, void *data,
                                        size_t wanted, size_t *got);
/** The most output bytes for an input byte. */
uint64_t gy_decoder_ratio(const gy_decoder *decoder);

/** Check that a library can be loaded; GY_UNSUPPORTED: names it and what needs it. */
GY_MUST_CHECK gy_status gy_store_late_check(const char *library, const char *purpose);

#endif
