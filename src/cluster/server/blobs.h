/**
 * What jobs are made of, by content: files of a folder, each called by the hash of its bytes
 * (gy_net_digest), which is verified before it is kept. What no open job names may go when
 * there is no room, the one that was of use longest ago first.
 */
#ifndef GY_CLUSTER_SERVER_BLOBS_H
#define GY_CLUSTER_SERVER_BLOBS_H

#include "control/net/net.h"
#include "rpc/bulk.h"

typedef struct gy_blobs gy_blobs;

enum { GY_BLOBS_UPLOADS = 64 }; /* that may be under way */

typedef struct gy_blobs_options {
    const char *folder;   /* made when there is none; copied */
    uint64_t limit_bytes; /* of all, with what is under way */
    int64_t fresh_ns;     /* what was of use within stays, named or not: who brought it is about
                             to submit; 0: 10 minutes */
    int64_t idle_ns;      /* an upload without a piece for so long gives way; 0: 10 s */
    /* Before blobs are removed: gy_blobs_mark what open jobs name. A failure: none is. */
    gy_status (*mark)(void *arg, gy_blobs *blobs);
    void *arg;
} gy_blobs_options;

/** A piece of a file that somebody brings. */
typedef struct gy_blob_piece {
    uint64_t from; /* who */
    gy_key content;
    uint64_t offset, size_bytes; /* the file's */
    const void *data;
    size_t data_bytes;
} gy_blob_piece;

/** Uploads that were cut off are gone. GY_IO; GY_NOMEM. @threads all calls of one on one thread
 */
GY_MUST_CHECK gy_status gy_blobs_open(gy_env *env, const gy_blobs_options *options,
                                      gy_blobs **blobs);
/** NULL is fine. */
void gy_blobs_close(gy_blobs *blobs);

/** Is it there? It is of use now. @param size_bytes may be NULL */
bool gy_blobs_touch(gy_blobs *blobs, gy_key content, uint64_t *size_bytes);
/** An open job names it: it stays. */
void gy_blobs_mark(gy_blobs *blobs, gy_key content);

/**
 * Pieces of a file come in order, from 0; one that came already is no harm. The last one makes
 * it whole: synced, then there.
 *
 * @return GY_OK; GY_STATE another piece is expected (bring it from byte 0 again); GY_FORMAT the
 * bytes are not what they are called; GY_ARG a piece outside of the file; GY_LIMIT no room on
 * the disk, under the limit, or for one more upload; GY_IO; GY_NOMEM. All but the first end the
 * upload.
 */
GY_MUST_CHECK gy_status gy_blobs_put(gy_blobs *blobs, const gy_blob_piece *piece);
/** What `from` brings ends. */
void gy_blobs_leave(gy_blobs *blobs, uint64_t from);

/** All of a small one, in the arena. GY_NOTFOUND; GY_LIMIT larger than most; GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_blobs_read(gy_blobs *blobs, gy_key content, size_t bytes_max,
                                      gy_arena *arena, void **data, size_t *size_bytes);
/** To be fetched. GY_NOTFOUND; GY_IO */
GY_MUST_CHECK gy_status gy_blobs_find(gy_blobs *blobs, gy_key content, gy_bulk_region *region);

typedef struct gy_blobs_sums {
    size_t count, uploads;
    uint64_t size_bytes; /* of whole ones */
} gy_blobs_sums;
gy_blobs_sums gy_blobs_look(const gy_blobs *blobs);

#endif
