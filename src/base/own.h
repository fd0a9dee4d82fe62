/**
 * Files that are this user's alone, and where those lie that may be removed at any time.
 */
#ifndef GY_BASE_OWN_H
#define GY_BASE_OWN_H

#include <gyre/base.h>

/**
 * Open a file of the operating system's to read it, if nobody but this user can have written
 * it: no link, one name (none if it was replaced since), owned by this user, not to be written
 * by others. Does not block.
 *
 * @param size_bytes  how long it is
 * @return a descriptor >= 0; a negated errno: -EPERM others may have written it, -ELOOP a link
 * @threads any
 */
int gy_base_open_own(const char *path, uint64_t *size_bytes);

/** Read exactly so many bytes from place `at` on. 0, or a negated errno: -EIO the file ends
 * before. @threads any */
int gy_base_read_whole(int file, uint64_t at, void *data, size_t size_bytes);

/** Make a file of these bytes that this user alone may read, whatever had its name: it appears
 * whole or not at all; of two processes the later one's stays. Not synced. 0, or a negated
 * errno; nothing is left then. @threads any */
int gy_base_replace_own(const char *path, const void *data, size_t size_bytes);

/**
 * A path of what may be removed at any time: $GYRE_CACHE_DIR with `name`, which begins with a
 * slash; else gy_setting_user_path("XDG_CACHE_HOME", ".cache", name). "" where GYRE_CACHE_DIR
 * is none.
 *
 * @return as gy_setting_user_path
 * @threads any
 */
GY_MUST_CHECK gy_status gy_base_cache_path(const char *name, char *path, size_t size_bytes);

#endif
