/** What a daemon asks room flow, which knows the format of vertices' files. */
#ifndef GY_CONTROL_NET_HOOKS_H
#define GY_CONTROL_NET_HOOKS_H

#include "rpc/bulk.h"

/** A part of a file. */
typedef gy_bulk_extent gy_net_extent;

/** Where the bytes of a section lie. */
typedef struct gy_net_located {
    int fd;                 /* open for reading; the caller closes it */
    gy_net_extent *extents; /* (extent_count) in order; the caller frees it by gy_free */
    uint32_t extent_count;
    uint8_t note[GY_BULK_NOTE_BYTES]; /* the receiver stores it after the bytes */
    uint32_t note_bytes;
} gy_net_located;

typedef struct gy_net_hooks {
    /**
     * Find a section of the file at `path` by `wanted`, an opaque value of flow from the
     * network, against which the file's table is verified. Must be fast, since the daemon waits
     * for it.
     * @return GY_OK; GY_NOTFOUND no such file or section; GY_FORMAT; GY_NOMEM; on failure
     * nothing is open
     */
    gy_status (*locate)(void *arg, const char *path, const void *wanted, size_t wanted_bytes,
                        gy_net_located *located);
    void *arg;
} gy_net_hooks;

#endif
