/**
 * The keys of a cluster. A key ring is a file, mode 0600, with one line for each epoch:
 *
 *     EPOCH HEX               the secret, at least 32 bytes, from which all roles' keys are
 *     derived
 *     EPOCH ROLE HEX          the key of one role only, 32 bytes
 *     EPOCH ROLE/SUBJECT HEX  the key of one role for one subject
 *
 *     secret --HKDF--> key of a role --HKDF--> key of the role for a subject
 *
 * The holder of a key on the left can derive, and therefore verify, the keys to its right, and
 * no others: a ring with a subject's key verifies only that caller, and a ring of the role
 * "daemon" verifies no manager. Roles are "nameserver", "daemon", "manager", "submitter",
 * "watcher", "operator", "server", "worker". A node offers the newest epoch and accepts all:
 * for a rotation, add a new epoch everywhere, then retire the old one. Empty lines and lines
 * that begin with # are ignored; digits alone are epoch 1.
 */
#ifndef GY_RPC_KEYRING_H
#define GY_RPC_KEYRING_H

#include "rpc/rpc.h"

#include <gyre/key.h>

enum { GY_KEYRING_NAME_BYTES = 128, GY_KEYRING_KEY_BYTES = 32 };

/** The role and subject of a key. */
typedef struct gy_keyring_who {
    gy_rpc_role role;
    char subject[GY_RPC_SUBJECT_BYTES]; /* "": for the whole role */
} gy_keyring_who;

/* ---- The ring of a node, for its TLS ---- */

typedef struct gy_keyring gy_keyring;

/** Open a ring. GY_NOTFOUND; GY_STATE mode or owner; GY_FORMAT with the line; GY_NOMEM;
 * GY_IO */
GY_MUST_CHECK gy_status gy_keyring_open(const char *path, gy_keyring **ring);
/** Read the file again if it has changed. A failure keeps the old keys, and is logged once for
 * each change. @return GY_OK unchanged; GY_AGAIN the keys have changed; < 0 */
gy_status gy_keyring_refresh(gy_keyring *ring);
/**
 * Get a key to call with: of the newest epoch that has one, or of an older epoch for a peer
 * that has not got the newest one yet.
 * @param who a subject "" becomes the only subject that the role's keys are for, if there is
 *     just one
 * @param skipped number of newer epochs to skip; after the oldest comes the newest again
 * @return GY_OK; GY_STATE no key for that role and subject; GY_IO
 */
GY_MUST_CHECK gy_status gy_keyring_offer(const gy_keyring *ring, gy_keyring_who *who,
                                         uint32_t skipped, char name[GY_KEYRING_NAME_BYTES],
                                         uint8_t key[GY_KEYRING_KEY_BYTES]);
/**
 * Find the key with that name, and the role and subject that it authenticates. False: unknown.
 * @cost for a subject a derivation, 3 us, which is not cached
 */
bool gy_keyring_find(const gy_keyring *ring, const char *name, gy_keyring_who *who,
                     uint8_t key[GY_KEYRING_KEY_BYTES]);
/** "epochs 3 to 4", "epoch 3 of daemon, manager alone"; updated when the ring changes. */
const char *gy_keyring_text(const gy_keyring *ring);
/** Wipe and free it. NULL is fine. */
void gy_keyring_free(gy_keyring *ring);

/* ---- Files: see also <gyre/key.h> ---- */

/**
 * Make a ring at `to` that is restricted to that role and subject, with all epochs of `path`,
 * which has the secret or the role's key. A daemon gives it to a job's manager. Repeat it
 * after a rotation: gy_keyring_derive says when `to` is replaced. The caller must be the only
 * one that makes a ring at `to`: temporary files of an interrupted call are removed.
 * @return GY_OK; GY_ARG the subject; as gy_keyring_derive
 */
GY_MUST_CHECK gy_status gy_keyring_scope(const char *path, gy_rpc_role role,
                                         const char *subject, const char *to);

#endif
