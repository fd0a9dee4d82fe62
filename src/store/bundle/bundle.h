/**
 * Folder bundle: named tensors in safetensors files, whole in memory or by parts: then several
 * processes write one file, each the parts that it has, and read from it what they need.
 * Reading order: bundle.c, box.c, checksum.c, safetensors_write.c, safetensors_read.c,
 * parts_write.c, parts_read.c.
 */
#ifndef GY_STORE_BUNDLE_BUNDLE_H
#define GY_STORE_BUNDLE_BUNDLE_H

#include "store/store.h"

enum { GY_BUNDLE_HEADER_LIMIT = 16 << 20 };

/** gy_bundle_read from any plain source; `pool` NULL: the heap. */
GY_MUST_CHECK gy_status gy_bundle_load(gy_source *source, gy_pool *pool, gy_bundle **bundle);
/** gy_bundle_write in any environment. */
GY_MUST_CHECK gy_status gy_bundle_save(const gy_bundle *bundle, gy_env *env, const char *path);

/* ---- Parts of tensors ---- */

/** A part of a tensor: `sizes` elements from `offsets` on in each of its dimensions. Its own
 * elements are numbered row-major from 0. */
typedef struct gy_box {
    int64_t offsets[GY_TENSOR_RANK_MAX], sizes[GY_TENSOR_RANK_MAX];
} gy_box;

/** The whole of a tensor. `shape`: a view whose data are not read, here and below. */
gy_box gy_box_whole(const gy_view *shape);
int64_t gy_box_count(const gy_view *shape, const gy_box *box);
/** Element `at` of the box: its number in the whole tensor; *run takes how many elements from
 * it on lie side by side in both. Ascends with `at`. */
int64_t gy_box_index(const gy_view *shape, const gy_box *box, int64_t at, int64_t *run);

/* ---- Bundles without elements ---- */

/** Add a tensor that has a type and sizes and no elements. Errors as gy_bundle_add. */
GY_MUST_CHECK gy_status gy_bundle_outline(gy_bundle *bundle, const char *name, gy_dtype dtype,
                                          const int64_t *sizes, int rank);
/** The number of the tensor of that name; false: there is none. */
bool gy_bundle_index(const gy_bundle *bundle, const char *name, size_t *index);
/** Type and sizes of a tensor, data NULL. */
gy_view gy_bundle_shape(const gy_bundle *bundle, size_t index);

/* ---- Reading by parts ---- */

/**
 * Read what a file says of its tensors, and keep it open: the tensors have no elements.
 * Errors as gy_bundle_read, of the header.
 */
GY_MUST_CHECK gy_status gy_bundle_open(gy_env *env, const char *path, gy_bundle **bundle);
/** Read elements [from, to) of a box to `data`. GY_IO; GY_FORMAT the file has become shorter.
 */
GY_MUST_CHECK gy_status gy_bundle_read_box(const gy_bundle *bundle, size_t index,
                                           const gy_box *box, int64_t from, int64_t to,
                                           void *data);
/**
 * The checksum of an open file is verified by `shares` processes together, of which this is
 * number `share`: each reads its share of the elements, in pieces, to (gy_bundle_count) `sums`.
 * The sum over all processes is what gy_bundle_verify takes.
 */
GY_MUST_CHECK gy_status gy_bundle_sum_share(const gy_bundle *bundle, int share, int shares,
                                            uint64_t *sums);
/** GY_FORMAT the checksum differs; GY_OK also where the file has none, which
 * gy_bundle_is_verified tells. */
GY_MUST_CHECK gy_status gy_bundle_verify(gy_bundle *bundle, const uint64_t *sums);
/** Close the file; texts, types and sizes stay. */
void gy_bundle_close(gy_bundle *bundle);

/* ---- Writing by parts ---- */

/** Writes the file of a bundle's header and of parts of its tensors. */
typedef struct gy_bundle_writer gy_bundle_writer;

/** Make the temporary file, as large as the whole; its texts and sizes change no more. Errors
 * as gy_bundle_write. The bundle is borrowed. */
GY_MUST_CHECK gy_status gy_bundle_create(gy_bundle *bundle, gy_env *env, const char *path,
                                         gy_bundle_writer **writer);
/** What another process needs to join. */
typedef struct gy_bundle_place {
    char name[64];
    uint64_t data_begin; /* bytes before the elements */
} gy_bundle_place;
gy_bundle_place gy_bundle_writer_place(const gy_bundle_writer *writer);
/** Write parts to what another process has created; its bundle has the same tensors. Where
 * this host does not see that file, the writer takes sums alone: gy_bundle_writer_has_file. */
GY_MUST_CHECK gy_status gy_bundle_join(gy_bundle *bundle, gy_env *env, const char *path,
                                       const gy_bundle_place *place, gy_bundle_writer **writer);
bool gy_bundle_writer_has_file(const gy_bundle_writer *writer);
/** Write elements [from, to) of a box, which `data` holds, and take their sum. Each element is
 * given once, by one of the processes. */
GY_MUST_CHECK gy_status gy_bundle_put(gy_bundle_writer *writer, size_t index, const gy_box *box,
                                      int64_t from, int64_t to, const void *data);
/** The halves of gy_bundle_put: take the sum alone; write elements [from, to) of the whole
 * tensor alone. */
void gy_bundle_take(gy_bundle_writer *writer, size_t index, const gy_box *box, int64_t from,
                    int64_t to, const void *data);
GY_MUST_CHECK gy_status gy_bundle_put_range(gy_bundle_writer *writer, size_t index,
                                            int64_t from, int64_t to, const void *data);
/** (gy_bundle_count) The sums of what this process has given. */
uint64_t *gy_bundle_writer_sums(gy_bundle_writer *writer);
/** Free a writer that joined, as gy_writer_leave does. */
GY_MUST_CHECK gy_status gy_bundle_leave(gy_bundle_writer *writer, bool is_synced);
/** Free the writer that created: with the sums of all processes, which have left, the header is
 * written and the file appears. */
GY_MUST_CHECK gy_status gy_bundle_finish(gy_bundle_writer *writer, const uint64_t *sums);
/** Free a writer and leave nothing behind. NULL is fine. */
void gy_bundle_abort(gy_bundle_writer *writer);

#endif
