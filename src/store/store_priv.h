/**
 * What the files of this room share.
 */
#ifndef GY_STORE_STORE_PRIV_H
#define GY_STORE_STORE_PRIV_H

#include "store/store.h"

/** Fail with "cannot VERB PATH: No space left on device"; `error` is a negated errno. */
gy_status gy_file_fail(const char *verb, const char *path, int64_t error);

/** Open a regular file to read: descriptor and size. Never waits for the writer of a pipe. */
GY_MUST_CHECK gy_status gy_file_open(gy_env *env, const char *path, int *file,
                                     uint64_t *size_bytes);

/** What stands behind a path's last slash. */
const char *gy_path_name(const char *path);
/** Cut a path, which is not empty, to its folder: "." without a slash, "/" at the root. */
void gy_path_cut(char *path);

/** gy_writer_open, and the first bytes added. */
GY_MUST_CHECK gy_status gy_writer_open_with(gy_env *env, const char *path, const void *data,
                                            size_t size_bytes, gy_writer **writer);

/* The bytes beneath a source. */

/** The next bytes as they are in the file, at most `wanted`; 0 at the end. */
GY_MUST_CHECK gy_status gy_source_raw(gy_source *source, void *data, size_t wanted,
                                      size_t *got);
/** Raw bytes taken so far. */
uint64_t gy_source_raw_at(const gy_source *source);

/* The gzip decoder above them. */
typedef struct gy_gunzip gy_gunzip;
GY_MUST_CHECK gy_status gy_gunzip_new(gy_gunzip **gunzip);
void gy_gunzip_free(gy_gunzip *gunzip);
/** As gy_source_read; takes what it needs with gy_source_raw. */
GY_MUST_CHECK gy_status gy_gunzip_read(gy_gunzip *gunzip, gy_source *source, void *data,
                                       size_t wanted, size_t *got);

/* The zstd decoder, the same way. */
typedef struct gy_unzstd gy_unzstd;
GY_MUST_CHECK gy_status gy_unzstd_new(gy_unzstd **unzstd);
void gy_unzstd_free(gy_unzstd *unzstd);
GY_MUST_CHECK gy_status gy_unzstd_read(gy_unzstd *unzstd, gy_source *source, void *data,
                                       size_t wanted, size_t *got);

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
const char *gy_safetensors_dtype(gy_dtype dtype);
bool gy_safetensors_parse_dtype(const char *name, gy_dtype *dtype);

#endif
