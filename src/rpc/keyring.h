/**
 * The keys of a cluster. A key ring is a file, mode 0600, of one line for each epoch:
 *
 *     EPOCH HEX               the secret, at least 32 bytes: all roles' keys are derived from
 * it EPOCH ROLE HEX          one role's key of 32 bytes alone EPOCH ROLE/SUBJECT HEX  that of
 * one role for one subject
 *
 *     secret --HKDF--> key of a role --HKDF--> key of the role for a subject
 *
 * Who holds what stands left of an arrow derives, and so verifies, what stands right of it, and
 * nothing else: a ring of a subject's key verifies that one caller alone, a ring of the role
 * "daemon" no manager. Roles are "nameserver", "daemon", "manager", "submitter", "watcher",
 * "operator". The newest epoch is offered, all are accepted: a new one is added everywhere,
 * then the old one is retired. Lines that are empty or begin with # say nothing; digits alone
 * are epoch 1.
 */
#ifndef GY_RPC_KEYRING_H
#define GY_RPC_KEYRING_H

#include "rpc/rpc.h"

#include <gyre/key.h>

enum { GY_KEYRING_NAME_BYTES = 128, GY_KEYRING_KEY_BYTES = 32 };

/** Whose key it is. */
typedef struct gy_keyring_who {
    gy_rpc_role role;
    char subject[GY_RPC_SUBJECT_BYTES]; /* "": of the role itself */
} gy_keyring_who;

/* ---- A ring in use: of a node, for its TLS ---- */

typedef struct gy_keyring gy_keyring;

/** GY_NOTFOUND; GY_STATE mode or owner; GY_FORMAT with the line; GY_NOMEM; GY_IO */
GY_MUST_CHECK gy_status gy_keyring_open(const char *path, gy_keyring **ring);
/** Read the file again if it changed. A failure keeps the keys that there were, and is said
 * once for each change. @return GY_OK as it was; GY_AGAIN its keys are others now; < 0 */
gy_status gy_keyring_refresh(gy_keyring *ring);
/**
 * A key to call with: of the newest epoch that has one, or of an older one, for a peer that has
 * not got that yet.
 * @param who a subject "" becomes the one that all keys of the role are for, if they are for
 * one
 * @param skipped how many newer epochs to pass over; behind the oldest comes the newest again
 * @return GY_OK; GY_STATE none for that role and subject; GY_IO
 */
GY_MUST_CHECK gy_status gy_keyring_offer(const gy_keyring *ring, gy_keyring_who *who,
                                         uint32_t skipped, char name[GY_KEYRING_NAME_BYTES],
                                         uint8_t key[GY_KEYRING_KEY_BYTES]);
/**
 * The key of that name, and whose it is: what was proved by it. False: there is none here.
 * @cost of a subject: a derivation, 3 us; nothing is kept of it
 */
bool gy_keyring_find(const gy_keyring *ring, const char *name, gy_keyring_who *who,
                     uint8_t key[GY_KEYRING_KEY_BYTES]);
/** "epochs 3 to 4", "epoch 3 of daemon, manager alone"; kept up to date. */
const char *gy_keyring_text(const gy_keyring *ring);
/** Wipes it. NULL is fine. */
void gy_keyring_free(gy_keyring *ring);

/* ---- Files: <gyre/key.h>, and ---- */

/**
 * Make a ring at `to` for one who is that role for that subject and nothing else, of all epochs
 * of `path`, which has the secret or the role's key: what a daemon gives a job's manager. Again
 * after a rotation: gy_keyring_derive says when `to` is replaced. Nobody else makes a ring at
 * `to` meanwhile: what one that was cut off left beside it goes.
 * @return GY_OK; GY_ARG the subject; as gy_keyring_derive
 */
GY_MUST_CHECK gy_status gy_keyring_scope(const char *path, gy_rpc_role role,
                                         const char *subject, const char *to);

#endif
