/**
 * What the files of this room share.
 */
#ifndef GY_STORE_STORE_PRIV_H
#define GY_STORE_STORE_PRIV_H

#include "store/store.h"
#include "store/versions/stamp.h"

/** Fail with "cannot VERB PATH: No space left on device"; `error` is a negated errno. */
gy_status gy_store_file_fail(const char *verb, const char *path, int64_t error);

/** Open a regular file for reading; returns descriptor and size. Never waits for the writer of
 * a pipe. */
GY_MUST_CHECK gy_status gy_store_file_open(gy_env *env, const char *path, int *file,
                                           uint64_t *size_bytes);

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
/** Number of raw bytes read so far. */
uint64_t gy_source_raw_at(const gy_source *source);

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

/* A bundle. */
typedef struct gy_bundle_item {
    char *name;
    gy_tensor *tensor;
} gy_bundle_item;

typedef struct gy_bundle_note {
    char *key, *value;
} gy_bundle_note;

struct gy_bundle {
    gy_bundle_item *items;
    size_t item_count, item_capacity;
    gy_bundle_note *notes; /* ascending by key */
    size_t note_count, note_capacity;
    bool is_verified;
};

/** Add a tensor whose name the caller knows to be new. */
GY_MUST_CHECK gy_status gy_bundle_append(gy_bundle *bundle, const char *name,
                                         gy_tensor *tensor);
/** Set any key, also reserved ones. */
GY_MUST_CHECK gy_status gy_bundle_note_set(gy_bundle *bundle, const char *key,
                                           const char *value);

#define GY_BUNDLE_CHECKSUM_KEY "gyre.checksum"
enum { GY_BUNDLE_CHECKSUM_BYTES = 32 };

/**
 * The checksum of a bundle: "xxh3:" and 16 hex digits over all names, types, sizes, elements
 * and texts except itself, independent of their order in the file.
 */
GY_MUST_CHECK gy_status gy_bundle_checksum(const gy_bundle *bundle,
                                           char out[GY_BUNDLE_CHECKSUM_BYTES]);

/** Call use(arg, elements, bytes) with the tensor's row-major elements, which are copied when
 * the tensor has another layout. */
typedef gy_status (*gy_bundle_use)(void *arg, const void *data, size_t size_bytes);
GY_MUST_CHECK gy_status gy_bundle_elements(gy_tensor *tensor, gy_bundle_use use, void *arg);

/** The format's name of a type, such as "F32"; NULL or false for a type that the format or Gyre
 * lacks. */
const char *gy_store_safetensors_dtype(gy_dtype dtype);
bool gy_store_safetensors_parse_dtype(const char *name, gy_dtype *dtype);

#endif
