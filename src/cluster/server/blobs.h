/**
 * The files of jobs, by content: each is a file named after its bytes' hash (gy_net_digest),
 * which is verified first. Files that no open job references are removed when there is no room,
 * the least recently used first.
 */
#ifndef GY_CLUSTER_SERVER_BLOBS_H
#define GY_CLUSTER_SERVER_BLOBS_H

#include "control/net/net.h"
#include "rpc/bulk.h"

typedef struct gy_blobs gy_blobs;

enum { GY_BLOBS_UPLOADS = 64 }; /* concurrent ones */

typedef struct gy_blobs_options {
    const char *folder;   /* created if it does not exist; copied */
    uint64_t limit_bytes; /* of all files, including uploads */
    int64_t fresh_ns;     /* files used within this time stay, referenced or not: their owner is
                             about to submit a job; 0: 10 minutes */
    int64_t idle_ns;      /* an upload without a piece for so long may be replaced; 0: 10 s */
    /* Called before blobs are removed: gy_blobs_mark those of open jobs. After a failure none
     * is removed. */
    gy_status (*mark)(void *arg, gy_blobs *blobs);
    void *arg;
} gy_blobs_options;

/** A piece of a file being uploaded. */
typedef struct gy_blob_piece {
    uint64_t from; /* the uploader */
    gy_key content;
    uint64_t offset, size_bytes; /* of the whole file */
    const void *data;
    size_t data_bytes;
} gy_blob_piece;

/** Removes interrupted uploads. GY_IO; GY_NOMEM. @threads all calls of one on one thread */
GY_MUST_CHECK gy_status gy_blobs_open(gy_env *env, const gy_blobs_options *options,
                                      gy_blobs **blobs);
/** NULL is allowed. */
void gy_blobs_close(gy_blobs *blobs);

/** Does it exist? If so, it counts as used now. @param size_bytes may be NULL */
bool gy_blobs_touch(gy_blobs *blobs, gy_key content, uint64_t *size_bytes);
/** An open job references it, so it stays. */
void gy_blobs_mark(gy_blobs *blobs, gy_key content);

/**
 * Add a piece of a file; pieces come in order from byte 0, a repeated one has no effect. The
 * last one completes the file, which is synced first.
 *
 * @return GY_OK; GY_STATE another piece is expected (start again from byte 0); GY_FORMAT the
 * bytes do not match the hash; GY_ARG a piece outside of the file; GY_LIMIT no room on the
 * disk, under the limit, or for one more upload; GY_IO; GY_NOMEM. All but the first end the
 * upload.
 */
GY_MUST_CHECK gy_status gy_blobs_put(gy_blobs *blobs, const gy_blob_piece *piece);
/** Drop the uploads of `from`. */
void gy_blobs_leave(gy_blobs *blobs, uint64_t from);

/** Read a small one into the arena. GY_NOTFOUND; GY_LIMIT larger than most; GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_blobs_read(gy_blobs *blobs, gy_key content, size_t bytes_max,
                                      gy_arena *arena, void **data, size_t *size_bytes);
/** Open it for a transfer. GY_NOTFOUND; GY_IO */
GY_MUST_CHECK gy_status gy_blobs_find(gy_blobs *blobs, gy_key content, gy_bulk_region *region);

typedef struct gy_blobs_sums {
    size_t count, uploads;
    uint64_t size_bytes; /* of complete ones */
} gy_blobs_sums;
gy_blobs_sums gy_blobs_look(const gy_blobs *blobs);

#endif
