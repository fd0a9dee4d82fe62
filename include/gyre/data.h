/**
 * Data on disk: IDX files in, bundles of named tensors (safetensors) in and out.
 */
#ifndef GYRE_DATA_H
#define GYRE_DATA_H

#include <gyre/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Read an IDX file (the format of the MNIST digits), plain or compressed by its first bytes.
 *
 * @param tensor  takes a row-major tensor of the file's type and sizes; caller drops it
 * @return GY_OK; GY_NOTFOUND; GY_IO; GY_FORMAT wrong magic, a length other than the header
 * says, damaged compression; GY_LIMIT over 8 GiB; GY_NOMEM. Texts name path, offset, value and
 * expectation.
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_read_idx(const char *path, gy_tensor **tensor);

/** Rows of a libsvm file, each with its features that are not zero. */
typedef struct gy_libsvm {
    size_t rows, count; /* count: of all features of all rows */
    uint64_t features;  /* one above the largest index */
    double *labels;     /* (rows) as they stand in the file */
    size_t *begins;     /* (rows + 1) where a row's features begin */
    uint64_t *indices;  /* (count) from 0, strictly ascending in a row: the file's less 1 */
    double *values;     /* (count) */
} gy_libsvm;

/**
 * Read a libsvm file, "LABEL INDEX:VALUE ..." a line, plain or compressed by its first bytes.
 * Indices begin at 1 and ascend; "#" begins a comment; blank lines are left out.
 *
 * @param rows  caller owns; gy_libsvm_free
 * @return GY_OK; GY_NOTFOUND; GY_IO; GY_FORMAT a line that is none of that, or no line at all:
 *         the text names file, line, column, value and expectation; GY_LIMIT over 1 GiB;
 * GY_NOMEM
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_read_libsvm(const char *path, gy_libsvm **rows);
/** NULL is fine. */
GY_API void gy_libsvm_free(gy_libsvm *rows);

/**
 * Write a file whole or not at all; an existing one is replaced.
 * @return GY_OK; GY_NOTFOUND no such folder; GY_IO; GY_ARG an empty name. @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_save_file(const char *path, const void *data,
                                            size_t size_bytes);

/** Named tensors with texts beside them: a model, a checkpoint. Not thread-safe. */
typedef struct gy_bundle gy_bundle;

GY_API GY_MUST_CHECK gy_status gy_bundle_new(gy_bundle **bundle);
/** Drops its tensors. NULL is fine. */
GY_API void gy_bundle_free(gy_bundle *bundle);

/** Add a tensor, held by the bundle from now on. GY_EXISTS the name is taken; GY_ARG an empty
 * one. */
GY_API GY_MUST_CHECK gy_status gy_bundle_add(gy_bundle *bundle, const char *name,
                                             gy_tensor *tensor);
/** Set a text; a second set replaces it. GY_ARG for keys the format keeps ("gyre.checksum"). */
GY_API GY_MUST_CHECK gy_status gy_bundle_set(gy_bundle *bundle, const char *key,
                                             const char *value);
/** The text of a key, NULL when there is none; valid until the next set. */
GY_API const char *gy_bundle_get(const gy_bundle *bundle, const char *key);

/** Tensors in the order added, or of the file. Name and tensor are borrowed from the bundle. */
GY_API size_t gy_bundle_count(const gy_bundle *bundle);
GY_API const char *gy_bundle_name(const gy_bundle *bundle, size_t index);
GY_API gy_tensor *gy_bundle_tensor(const gy_bundle *bundle, size_t index);
/** Borrowed; NULL when no tensor has that name. */
GY_API gy_tensor *gy_bundle_find(const gy_bundle *bundle, const char *name);

/** True when the bundle was read from a file whose checksum was there and right. */
GY_API bool gy_bundle_is_verified(const gy_bundle *bundle);

/**
 * Read a safetensors file. A checksum under "gyre.checksum" is verified when present.
 *
 * @return GY_OK; GY_NOTFOUND; GY_IO; GY_FORMAT malformed, cut short, doubled names, offsets
 * that overlap, leave gaps or lie outside, wrong checksum; GY_LIMIT a header over 16 MiB;
 *         GY_UNSUPPORTED an element type that Gyre lacks; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_bundle_read(const char *path, gy_bundle **bundle);

/**
 * Write a safetensors file: whole or not at all. Equal bundles give equal bytes. An existing
 * file is replaced; a failure leaves it as it was.
 *
 * @return GY_OK; GY_NOTFOUND no such folder; GY_IO; GY_ARG a name that is not UTF-8; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_bundle_write(const gy_bundle *bundle, const char *path);

/** Paths of files. */
typedef struct gy_file_list {
    const char *const *paths; /* (count) NULL behind the last */
    size_t count;
} gy_file_list;

/** What of folders is taken, too. Zero: neither. */
typedef struct gy_file_list_options {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    bool takes_hidden;  /* names that begin with '.' or '_', and MANIFEST.json */
    bool takes_links;   /* to files and folders */
} gy_file_list_options;

/**
 * The files that `paths` stand for: a file is itself, a folder all files in it and in its
 * folders, in the order of their names. Of a folder are left out: names that begin with '.' or
 * '_', MANIFEST.json, links (one to nothing is refused, one to a folder that it lies in is
 * never followed), and what is neither file nor folder; one warning says how many of each and
 * what takes them, but for a job's own manifest. Objects (s3://BUCKET/KEY,
 * hdfs://HOST:PORT/PATH; <gyre/store.h>) the same way, a prefix being the folder of what is
 * below; what is an object and a prefix is both, and so is a key that ends with a slash and has
 * bytes. "-" stands for
 * standard input and stays (gy_flow_spool_open); "file:" URIs are paths; one that names hosts
 * (file://HOST/path) is itself, and nobody looks whether it is there.
 *
 * @param paths   NULL at the end; at least one
 * @param options NULL: the defaults
 * @param list    caller owns; gy_file_list_free
 * @return GY_OK; GY_NOTFOUND a path is not there, a link in a folder leads to nothing, or no
 * file was found; GY_IO a folder cannot be read; GY_ARG a URI that makes no sense; GY_LIMIT
 * folders deeper than 64; GY_NOMEM; of objects as gy_store_list
 * @threads any
 * @cost a system call or two a file; of objects a request a folder and thousand
 */
GY_API GY_MUST_CHECK gy_status gy_file_list_make_with(const char *const *paths,
                                                      const gy_file_list_options *options,
                                                      gy_file_list **list);
/** gy_file_list_make_with the defaults. */
GY_API GY_MUST_CHECK gy_status gy_file_list_make(const char *const *paths, gy_file_list **list);
/** NULL is fine. */
GY_API void gy_file_list_free(gy_file_list *list);

#ifdef __cplusplus
}
#endif
#endif
