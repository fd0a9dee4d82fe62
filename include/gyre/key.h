/**
 * The key file of a cluster: a ring of secrets by which the hosts of a launch (`gyre run
 * --nodes`) and the parts of a cluster (name server, daemons, managers, submitters)
 * authenticate each other. The file has mode 0600 and one line for each epoch:
 *
 *     EPOCH HEX               a secret of at least 32 bytes, which derives the keys of all
 * roles EPOCH ROLE HEX          a restricted key of one role, which derives those of its
 * subjects EPOCH ROLE/SUBJECT HEX  a restricted key of one role for one subject (a job)
 *
 * Roles are nameserver, daemon, manager, submitter, watcher, operator, server, worker and lead;
 * a subject is 1 to 64 printable characters without whitespace. A process offers the newest
 * epoch and accepts all of them: add a new epoch on every host, then retire the old one; no
 * process has to restart. A file that holds the hexadecimal digits of one secret alone is
 * epoch 1.
 */
#ifndef GYRE_KEY_H
#define GYRE_KEY_H

#include <gyre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Create a key file of one epoch with 64 random bytes, and the folders above it. It never
 * overwrites a file.
 * @return GY_OK; GY_EXISTS; GY_IO
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_keyring_make(const char *path);

/**
 * Add an epoch, one above the newest, with a new secret. The file is replaced atomically.
 * @param epoch becomes the new epoch, 0 on failure
 * @return GY_OK; GY_NOTFOUND; GY_STATE other users may read the file, or it holds restricted
 * keys alone; GY_FORMAT names the line; GY_EXISTS another process changes the file; GY_LIMIT
 * too many epochs; GY_IO
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_keyring_rotate(const char *path, uint64_t *epoch);

/**
 * Remove an epoch and the keys that it derives. Connections that use its keys end within
 * seconds.
 * @return GY_OK; GY_NOTFOUND no such epoch; GY_STATE it is the only one; as gy_keyring_rotate
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_keyring_retire(const char *path, uint64_t epoch);

/**
 * Make a ring at `to` with restricted keys: those of some roles, or of one role for one
 * subject, of all epochs. A daemon needs "daemon,manager": it authenticates as the first, and
 * verifies and derives keys of the second's subjects. After a rotation derive again: an
 * existing file is replaced when it holds restricted keys of the same kind.
 *
 * @param restriction "ROLE", "ROLE,ROLE..." or "ROLE/SUBJECT"
 * @return GY_OK; GY_ARG no such role or subject; GY_STATE the ring has none of these keys;
 * GY_EXISTS another file is at `to`; as gy_keyring_rotate
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_keyring_derive(const char *path, const char *restriction,
                                                 const char *to);

/** One line of a ring, without its key; borrowed for the visit. */
typedef struct gy_keyring_entry {
    uint64_t epoch;
    const char *restriction; /* "": none; "ROLE" or "ROLE/SUBJECT" */
} gy_keyring_entry;
/** Takes an entry. A status other than GY_OK ends the list and is returned. */
typedef gy_status (*gy_keyring_visit)(void *arg, const gy_keyring_entry *entry);

/**
 * Visit the lines of a ring in order; all of them are read before the first visit.
 * @return GY_OK; what `visit` returned; the reader's failures, as gy_keyring_rotate
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_keyring_list(const char *path, gy_keyring_visit visit,
                                               void *arg);

#ifdef __cplusplus
}
#endif
#endif
