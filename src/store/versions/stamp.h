/**
 * Which version of a file is read: what stat tells of it and samples of its bytes, taken when a
 * job is planned and compared wherever and as often as the file is opened and was read.
 *
 * What counts as the same version: the same file (device, inode) of the same size and time of
 * modification, and of the same time of change unless mode, owner, group or its names changed
 * since. A file that has grown is the same up to the size that it had while samples of those
 * bytes are what they were.
 */
#ifndef GY_STORE_STAMP_H
#define GY_STORE_STAMP_H

#include "base/disk.h"

/** A version that a reader shall find; travels to other hosts. Zero: any is fine. */
typedef struct gy_stamp {
    gy_disk_stamp disk;
    uint64_t machine; /* gy_stamp_machine of where it was taken; 0: none was */
} gy_stamp;

typedef enum gy_stamp_change {
    GY_STAMP_SAME,
    GY_STAMP_TOUCHED, /* names or attributes changed, and perhaps nothing else: see the print */
    GY_STAMP_MOVED,   /* changed in nothing that is known, as by a rename; see its name */
    GY_STAMP_GROWN,   /* the first bytes may be what they were: see the print */
    GY_STAMP_OTHER,
} gy_stamp_change;

/** What became of a file, by what stat told. Pure. */
gy_stamp_change gy_stamp_compare(const gy_disk_stamp *was, const gy_disk_stamp *is);

enum { GY_STAMP_TEXT_BYTES = 128 };
/** What differs, for a message. @return out */
const char *gy_stamp_tell(const gy_disk_stamp *was, const gy_disk_stamp *is,
                          char out[GY_STAMP_TEXT_BYTES]);

/** A number of this running system that no other has. Not 0. @threads any */
uint64_t gy_stamp_machine(void);

/**
 * The version of a regular file that has the path now, remembered until gy_store_stamps_forget.
 * When it was changed just now, waits for the clock of files (some ms) to go on, so that
 * another change has another time.
 *
 * @return GY_OK; GY_NOTFOUND; GY_IO: no regular file, no permission to look at it
 * @threads any
 * @cost up to 16 reads of 256 bytes
 */
GY_MUST_CHECK gy_status gy_stamp_look(const char *path, gy_stamp *stamp);
/** As gy_stamp_look was told last, or else it. So a job is of the version that it was planned
 * with. */
GY_MUST_CHECK gy_status gy_stamp_of(const char *path, gy_stamp *stamp);
/** The next job's files are what they are then. @threads any */
void gy_store_stamps_forget(void);

/** The version of an open file, for gy_stamp_check. Zero on a disk that tells none. GY_IO
 * @threads any */
GY_MUST_CHECK gy_status gy_stamp_take(gy_env *env, int file, const char *path, gy_stamp *stamp);

/**
 * See that an open file is the version that is expected, on this machine or another one (there
 * by its size and samples alone: it may be a copy). To be called when it was opened, and when
 * all was read.
 *
 * @return GY_OK; GY_STATE it is another: names the file and what differs; GY_IO
 * @threads any
 * @cost one fstat; if it was changed, up to 16 reads of 256 bytes
 */
GY_MUST_CHECK gy_status gy_stamp_check(gy_env *env, int file, const char *path,
                                       const gy_stamp *expected);

#endif
