/**
 * What the files of this room share.
 */
#ifndef GY_STORE_STORE_PRIV_H
#define GY_STORE_STORE_PRIV_H

#include "store/store.h"
#include "store/versions/stamp.h"

/** Fail with "cannot VERB PATH: No space left on device"; `error` is a negated errno. */
gy_status gy_store_file_fail(const char *verb, const char *path, int64_t error);

/** Open a regular file to read: descriptor and size. Never waits for the writer of a pipe. */
GY_MUST_CHECK gy_status gy_store_file_open(gy_env *env, const char *path, int *file,
                                           uint64_t *size_bytes);

/** What stands behind a path's last slash. */
const char *gy_store_path_name(const char *path);
/** Cut a path, which is not empty, to its folder: "." without a slash, "/" at the root. */
void gy_store_path_cut(char *path);

/** gy_writer_open, and the first bytes added. */
GY_MUST_CHECK gy_status gy_writer_open_with(gy_env *env, const char *path, const void *data,
                                            size_t size_bytes, gy_writer **writer);

/* The bytes beneath a source. */

/** The next bytes as they are in the file, at most `wanted`; 0 at the end. */
GY_MUST_CHECK gy_status gy_source_raw(gy_source *source, void *data, size_t wanted,
                                      size_t *got);
/** Raw bytes taken so far. */
uint64_t gy_source_raw_at(const gy_source *source);

/* ---- what expands them ---- */

/** Bytes on their way through a decoder: it takes from the front of both. */
typedef struct gy_decode_io {
    const unsigned char *in;
    size_t in_bytes;
    unsigned char *out;
    size_t out_bytes;
    const char *reason; /* of GY_FORMAT and GY_LIMIT; static */
} gy_decode_io;

/** A library's decoder of one member, frame or stream: a file may have several, one behind the
 * other. The reason of a failure stands in `io`; only `begin` calls gy_fail. */
typedef struct gy_decoder_ops {
    size_t state_bytes; /* of the zeroed state */
    /* Before each member. The first of them makes what `end` frees, also when it fails.
       GY_NOMEM; GY_UNSUPPORTED the library is not there. */
    gy_status (*begin)(void *state);
    void (*end)(void *state);
    /* Some bytes of the member; *is_whole: it has ended and its checks have passed. GY_FORMAT;
       GY_LIMIT it needs too much memory; GY_NOMEM. */
    gy_status (*step)(void *state, gy_decode_io *io, bool *is_whole);
    uint64_t ratio_max; /* bytes out of one at most */
    size_t padding;     /* NUL bytes may lie behind a member, a multiple of so many; 0: none */
    bool has_skippable; /* frames to skip may lie before, between and behind */
} gy_decoder_ops;

extern const gy_decoder_ops gy_gzip_ops, gy_zstd_ops, gy_bzip2_ops, gy_xz_ops, gy_lz4_ops;

/** A row of the table of formats (formats.c). */
typedef struct gy_file_format {
    const char *name;
    gy_encoding encoding; /* that it is read as; GY_ENCODING_AUTO: its bytes alone do not say */
    const char *magic;    /* (magic_bytes) at `offset`; NULL: there is none */
    size_t magic_bytes, offset, bytes_min; /* bytes_min: enough of it in a file that is cut */
    bool (*is_it)(const unsigned char *head, size_t size_bytes); /* and this; NULL: nothing */
    const char *names;         /* ends of names, separated by spaces; NULL: none */
    const char *advice;        /* of what is read: its magic; else what to do */
    const gy_decoder_ops *ops; /* NULL: it is refused */
} gy_file_format;

/** What a head is that has GY_FORMAT_HEAD_BYTES or all of a file; NULL: nothing that is known.
 * Pure. */
const gy_file_format *gy_store_format_find(const void *head, size_t size_bytes);
/** The row of what is read as `encoding`. */
const gy_file_format *gy_store_format_of(gy_encoding encoding);
/** Whether a frame to skip begins there: zstd and lz4 share their magic numbers. */
bool gy_store_format_is_skippable(const void *head, size_t size_bytes);

/** Expands what gy_source_raw gives. */
typedef struct gy_decoder gy_decoder;
/** `encoding`: AUTO after frames to skip, which do not say what they belong to. */
GY_MUST_CHECK gy_status gy_decoder_new(gy_encoding encoding, gy_decoder **decoder);
void gy_decoder_free(gy_decoder *decoder);
/** As gy_source_read. */
GY_MUST_CHECK gy_status gy_decoder_read(gy_decoder *decoder, gy_source *source, void *data,
                                        size_t wanted, size_t *got);
/** Bytes out of one byte at most. */
uint64_t gy_decoder_ratio(const gy_decoder *decoder);

/** Whether a library can be opened; GY_UNSUPPORTED: it is named, with what needs it. */
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
    gy_bundle_note *notes; /* by key, rising */
    size_t note_count, note_capacity;
    bool is_verified;
};

/** Add without looking for the name: whoever calls knows it to be new. */
GY_MUST_CHECK gy_status gy_bundle_append(gy_bundle *bundle, const char *name,
                                         gy_tensor *tensor);
/** Set any key. */
GY_MUST_CHECK gy_status gy_bundle_note_set(gy_bundle *bundle, const char *key,
                                           const char *value);

#define GY_BUNDLE_CHECKSUM_KEY "gyre.checksum"
enum { GY_BUNDLE_CHECKSUM_BYTES = 32 };

/**
 * The checksum of a bundle: "xxh3:" and 16 hex digits, over all names, types, sizes, elements
 * and texts but itself, whatever their order in the file.
 */
GY_MUST_CHECK gy_status gy_bundle_checksum(const gy_bundle *bundle,
                                           char out[GY_BUNDLE_CHECKSUM_BYTES]);

/** Call use(arg, elements, bytes) with the tensor's row-major elements, copied when they lie
 * otherwise. */
typedef gy_status (*gy_bundle_use)(void *arg, const void *data, size_t size_bytes);
GY_MUST_CHECK gy_status gy_bundle_elements(gy_tensor *tensor, gy_bundle_use use, void *arg);

/** "F32" as the format calls it; NULL or false for what it or Gyre lacks. */
const char *gy_store_safetensors_dtype(gy_dtype dtype);
bool gy_store_safetensors_parse_dtype(const char *name, gy_dtype *dtype);

#endif
