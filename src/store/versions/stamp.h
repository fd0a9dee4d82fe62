/**
 * The version of a file: its stat data and samples of its bytes, taken when a job is planned,
 * and compared each time the file is opened and after it was read.
 *
 * A version is the same when the file (device, inode), its size and its modification time are
 * the same, and also its change time, unless only mode, owner, group or names changed. A file
 * that has grown still has the version up to its earlier size while samples of those bytes are
 * unchanged.
 */
#ifndef GY_STORE_STAMP_H
#define GY_STORE_STAMP_H

#include "base/disk.h"

/** The version that a reader must find; sent to other hosts. Zero: any version. */
typedef struct gy_stamp {
    gy_disk_stamp disk;
    uint64_t machine; /* gy_stamp_machine of the host that took it; 0: none was taken */
} gy_stamp;

typedef enum gy_stamp_change {
    GY_STAMP_SAME,
    GY_STAMP_TOUCHED, /* names or attributes changed, and perhaps more: compare the samples */
    /* nothing known changed except the change time, as by a rename: check the name */
    GY_STAMP_MOVED,
    GY_STAMP_GROWN, /* grown, and the first bytes may be unchanged: compare the samples */
    GY_STAMP_OTHER,
} gy_stamp_change;

/** Compare two stat results. Pure. */
gy_stamp_change gy_stamp_compare(const gy_disk_stamp *was, const gy_disk_stamp *is);

enum { GY_STAMP_TEXT_BYTES = 128 };
/** Describe the difference for a message. @return out */
const char *gy_stamp_tell(const gy_disk_stamp *was, const gy_disk_stamp *is,
                          char out[GY_STAMP_TEXT_BYTES]);

/** A number that identifies this running system; never 0. @threads any */
uint64_t gy_stamp_machine(void);

/**
 * Take the version of the regular file at the path, and cache it until gy_store_stamps_forget.
 * When the file was changed just now, waits some milliseconds until the file clock advances,
 * so that another change gets another time.
 *
 * @return GY_OK; GY_NOTFOUND; GY_IO: no regular file, or no permission to stat it
 * @threads any
 * @cost up to 16 reads of 256 bytes
 */
GY_MUST_CHECK gy_status gy_stamp_look(const char *path, gy_stamp *stamp);
/** Get the cached version of gy_stamp_look, or take it now. So a job uses the version that it
 * was planned with. */
GY_MUST_CHECK gy_status gy_stamp_of(const char *path, gy_stamp *stamp);
/** Empty the cache, so that the next job takes versions anew. @threads any */
void gy_store_stamps_forget(void);

/** Take the version of an open file, for gy_stamp_check. Zero on a disk without versions. GY_IO
 * @threads any */
GY_MUST_CHECK gy_status gy_stamp_take(gy_env *env, int file, const char *path, gy_stamp *stamp);

/**
 * Check that an open file has the expected version, on this machine or another one (there only
 * size and samples are compared, since it may be a copy). Call it after the open and after the
 * last read.
 *
 * @return GY_OK; GY_STATE another version: names the file and the difference; GY_IO
 * @threads any
 * @cost one fstat; if that differs, up to 16 reads of 256 bytes
 */
GY_MUST_CHECK gy_status gy_stamp_check(gy_env *env, int file, const char *path,
                                       const gy_stamp *expected);

#endif
