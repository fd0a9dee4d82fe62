/**
 * Files through the environment: a table of system calls that a simulator or a test can
 * replace, to fill the disk, fail a sync or lose what was not synced.
 *
 * Every call returns a negated errno on failure (-ENOSPC), never -1; the caller makes the
 * message.
 */
#ifndef GY_BASE_DISK_H
#define GY_BASE_DISK_H

#include "base/env.h"

/** Not 0 ends the listing. `name` is borrowed for the call. */
typedef int (*gy_disk_visit)(void *arg, const char *name);

/** What tells one version of a file from another. */
typedef struct gy_disk_stamp {
    uint64_t device, inode, size_bytes;
    int64_t modified_ns, changed_ns; /* since 1970: of the bytes; of the bytes or attributes */
    uint64_t attributes;             /* a hash of mode, owner, group and number of names */
    uint64_t print;                  /* a hash of samples of the bytes; 0: none were read */
} gy_disk_stamp;

typedef struct gy_disk_ops {
    const char *name;
    /* open(2) with O_CLOEXEC; `flags` as there, `mode` for O_CREAT. A descriptor >= 0. */
    int (*open)(gy_env *env, const char *path, int flags, unsigned mode);
    int (*close)(gy_env *env, int file);
    /* Bytes of a regular file; -EISDIR for a folder, -EINVAL for anything else. */
    int64_t (*size)(gy_env *env, int file);
    /* Bytes read or written, maybe fewer than asked for; 0 from read is the end. */
    int64_t (*read)(gy_env *env, int file, void *data, size_t size_bytes);
    int64_t (*write)(gy_env *env, int file, const void *data, size_t size_bytes);
    /* Optional: NULL where no file is written or read by parts. The same at an offset, wherever
     * the file is read or written otherwise; and the file's size from now on, with room on the
     * disk for all of it where the file system can keep it free. */
    int64_t (*read_at)(gy_env *env, int file, void *data, size_t size_bytes, uint64_t offset);
    int64_t (*write_at)(gy_env *env, int file, const void *data, size_t size_bytes,
                        uint64_t offset);
    int (*reserve)(gy_env *env, int file, uint64_t size_bytes);
    int (*sync)(gy_env *env, int file);
    int (*rename)(gy_env *env, const char *from, const char *to);
    int (*unlink)(gy_env *env, const char *path);
    /* A second name for a file; -EEXIST when `to` is there, which stays as it is. */
    int (*link)(gy_env *env, const char *from, const char *to);
    /* How many names the file has that is called `path`. */
    int64_t (*links)(gy_env *env, const char *path);
    /* Visit the names in a folder, in no order, as they are now: what other hosts did before
     * the call is seen (a network file system asks its server). 0; a negated errno; what
     * `visit` returned. */
    int (*list)(gy_env *env, const char *folder, gy_disk_visit visit, void *arg);
    /* Optional: NULL where versions of files are not told apart. Which version an open file
     * has, but for its print. 0, or a negated errno. */
    int (*stamp)(gy_env *env, int file, gy_disk_stamp *stamp);
    /* With it: the print of the first size_bytes of an open file, which has as many. Leaves
     * where it is read. 0, or a negated errno. */
    int (*print)(gy_env *env, int file, uint64_t size_bytes, uint64_t *print);
} gy_disk_ops;

/** The operating system's files. */
extern const gy_disk_ops gy_disk_real;

/** One name in a folder. Not GY_OK ends the listing. `name` is borrowed for the call. */
typedef gy_status (*gy_disk_each_visit)(void *arg, const char *name);

/**
 * Visit all names in a folder of the environment's disk, in no order. A folder that cannot be
 * read to its end is not taken for one that ends there.
 *
 * @return GY_OK; GY_NOTFOUND there is none; GY_IO; GY_NOMEM; what `visit` returned
 */
GY_MUST_CHECK gy_status gy_disk_each(gy_env *env, const char *folder, gy_disk_each_visit visit,
                                     void *arg);

/** Make the folders above a path of the operating system's, for this user alone. 0, or a
 * negated errno. */
int gy_disk_make_folders(const char *path);

/**
 * Remove a folder of the operating system's with all that is in it; links are removed, not
 * followed. Goes on past what cannot be removed. 0 (also when there is none), or the first
 * negated errno; -ELOOP folders deeper than GY_DISK_DEPTH_MAX.
 */
int gy_disk_remove_tree(const char *path);

/** Add to *size_bytes what the files in a folder take. 0, or a negated errno as above. */
int gy_disk_measure_tree(const char *path, uint64_t *size_bytes);

enum { GY_DISK_DEPTH_MAX = 32 };

/** The environment's disk: its own, or the real one. */
static inline const gy_disk_ops *gy_env_disk(const gy_env *env)
{
    return env->ops->disk != NULL ? env->ops->disk : &gy_disk_real;
}

#endif
