/** What the files of this folder share. */
#ifndef GY_STORE_BUNDLE_BUNDLE_PRIV_H
#define GY_STORE_BUNDLE_BUNDLE_PRIV_H

#include "store/bundle/bundle.h"

#include "base/base.h"
#include "store/versions/stamp.h"

typedef struct gy_bundle_item {
    char *name;
    gy_tensor *tensor; /* NULL: no elements here */
    gy_view shape;     /* data NULL */
    uint64_t begin;    /* of its elements behind the header, once the layout is known */
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
    /* Of gy_bundle_open. */
    gy_env *env; /* NULL: no file is open */
    int file;
    gy_stamp stamp; /* the version that all reads must find */
    char *path;
    uint64_t data_begin;
};

enum {
    GY_BUNDLE_WINDOW_BYTES = 1 << 20, /* of a file, that are in memory at a time */
    GY_BUNDLE_CHECKSUM_BYTES = 32
};
#define GY_BUNDLE_CHECKSUM_KEY "gyre.checksum"

/** Add a tensor whose name the caller knows to be new; `tensor` may be NULL. */
GY_MUST_CHECK gy_status gy_bundle_append(gy_bundle *bundle, const char *name,
                                         const gy_view *shape, gy_tensor *tensor);
/** Set any key, also reserved ones. */
GY_MUST_CHECK gy_status gy_bundle_note_set(gy_bundle *bundle, const char *key,
                                           const char *value);

static inline size_t gy_bundle_element_bytes(const gy_bundle_item *item)
{
    return gy_dtype_bytes(item->shape.dtype);
}

/** Call use(arg, elements, bytes) with the tensor's row-major elements, which are copied when
 * the tensor has another layout. */
typedef gy_status (*gy_bundle_use)(void *arg, const void *data, size_t size_bytes);
GY_MUST_CHECK gy_status gy_bundle_elements(gy_tensor *tensor, gy_bundle_use use, void *arg);

/* ---- Checksums (checksum.c) ---- */

/** Name, type and sizes of a tensor, which its elements' sum or hash begins with. */
uint64_t gy_bundle_seed(const gy_bundle_item *item);
/** The sum of `count` elements from number `index` of the whole tensor on. Pure. */
uint64_t gy_bundle_sum(const gy_bundle_item *item, int64_t index, const void *data,
                       int64_t count);
/** Whether the checksum in the texts is of the older kind, by the hash of each tensor's bytes
 * in their order instead of a sum. */
bool gy_bundle_is_chained(const gy_bundle *bundle);
/** The checksum by the sum (or hash) of each tensor. GY_NOMEM */
GY_MUST_CHECK gy_status gy_bundle_checksum_of(const gy_bundle *bundle, bool is_chained,
                                              const uint64_t *sums,
                                              char out[GY_BUNDLE_CHECKSUM_BYTES]);
/** The checksum of a bundle that has all elements. */
GY_MUST_CHECK gy_status gy_bundle_checksum(const gy_bundle *bundle, bool is_chained,
                                           char out[GY_BUNDLE_CHECKSUM_BYTES]);

/* ---- The format (safetensors_write.c, safetensors_read.c) ---- */

/** The header with that checksum, and where the elements of each tensor begin: equal bundles
 * give equal bytes. */
GY_MUST_CHECK gy_status gy_bundle_header(gy_bundle *bundle, const char *checksum, gy_text *out);
/** The same with a checksum that is not known yet; its length is that of any. */
GY_MUST_CHECK gy_status gy_bundle_lay_out(gy_bundle *bundle, uint64_t *data_begin,
                                          uint64_t *size_bytes);
/** Read a header: texts, and tensors without elements in the order of the file. */
GY_MUST_CHECK gy_status gy_bundle_parse(gy_source *source, gy_bundle *bundle,
                                        uint64_t *data_begin);
/** GY_FORMAT: `seen` is not the checksum of the texts. */
GY_MUST_CHECK gy_status gy_bundle_compare(gy_bundle *bundle, const char *path,
                                          const char *seen);

/** The format's name of a type, such as "F32"; false for a type that the format or Gyre lacks.
 */
const char *gy_bundle_dtype_name(gy_dtype dtype);
bool gy_bundle_dtype_parse(const char *name, gy_dtype *dtype);

#endif
