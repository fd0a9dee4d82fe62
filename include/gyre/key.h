/**
 * The key file of a cluster, a ring of secrets: by it the hosts of a run (`gyre run --nodes`),
 * and the parts of a cluster (name server, daemons, managers, those who submit jobs), know each
 * other. A file of mode 0600 with one line for each epoch:
 *
 *     EPOCH HEX               the secret, at least 32 bytes: the keys of all roles come from it
 *     EPOCH ROLE HEX          the key of one role alone, from which those of its subjects come
 *     EPOCH ROLE/SUBJECT HEX  the key of one role for one subject (a job): no other comes from
 * it
 *
 * Roles are nameserver, daemon, manager, submitter, watcher, operator; a subject is 1 to 64
 * printable characters without a blank. The newest epoch is offered, all are accepted: add a
 * new one everywhere, then retire the old one; nothing has to be started anew. A file of the
 * digits of one secret alone, as earlier versions made it, is epoch 1.
 */
#ifndef GYRE_KEY_H
#define GYRE_KEY_H

#include <gyre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Make a key file of one epoch with 64 random bytes; folders above it too. Never overwrites.
 * @return GY_OK; GY_EXISTS; GY_IO
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_keyring_make(const char *path);

/**
 * Add an epoch, one above the newest, with a secret of its own; the file is replaced whole.
 * @param epoch becomes the new one, 0 on failure
 * @return GY_OK; GY_NOTFOUND; GY_STATE others may read the file, or it holds keys of roles
 * alone; GY_FORMAT with the line; GY_EXISTS another change is under way; GY_LIMIT too many
 * epochs; GY_IO
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_keyring_rotate(const char *path, uint64_t *epoch);

/**
 * Take an epoch out, with all that comes from it. Connections by its keys end within seconds.
 * @return GY_OK; GY_NOTFOUND it is not there; GY_STATE it is the only one; as gy_keyring_rotate
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_keyring_retire(const char *path, uint64_t epoch);

/**
 * Make a ring at `to` that holds the keys of some roles alone, or of one role for one subject,
 * of all epochs: for one who may be nothing else. A daemon needs "daemon,manager": it calls as
 * the one, and verifies and makes keys of the other's subjects. Made again after a rotation: a
 * file that is there is replaced if it holds keys of just that kind.
 *
 * @param who "ROLE", "ROLE,ROLE..." or "ROLE/SUBJECT"
 * @return GY_OK; GY_ARG no such role or subject; GY_STATE the ring has none of these keys;
 * GY_EXISTS there is another file at `to`; as gy_keyring_rotate
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_keyring_derive(const char *path, const char *who,
                                                 const char *to);

/** `who` is "", "ROLE" or "ROLE/SUBJECT"; borrowed for the visit. */
typedef void (*gy_keyring_visit)(void *arg, uint64_t epoch, const char *who);

/**
 * Visit the lines of a ring in order, without their keys; all are read before the first visit.
 * @return GY_OK; the reader's failures, as gy_keyring_rotate
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_keyring_list(const char *path, gy_keyring_visit visit,
                                               void *arg);

#ifdef __cplusplus
}
#endif
#endif
