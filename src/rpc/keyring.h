/**
 * The keys of a cluster. A key ring is a file, mode 0600, of one line for each epoch:
 *
 *     EPOCH HEX         the secret, at least 32 bytes: all roles' keys are derived from it
 *     EPOCH ROLE HEX    one role's key of 32 bytes alone: its holder can be nothing else
 *
 * Roles are "nameserver", "daemon", "manager", "submitter", "watcher". The newest epoch is
 * offered, all are accepted: a new one is added everywhere, then the old one is retired. Lines
 * that are empty or begin with # say nothing.
 */
#ifndef GY_RPC_KEYRING_H
#define GY_RPC_KEYRING_H

#include "rpc/rpc.h"

enum { GY_KEYRING_NAME_BYTES = 48, GY_KEYRING_KEY_BYTES = 32 };

/* ---- A ring in use: of a node, for its TLS ---- */

typedef struct gy_keyring gy_keyring;

/** GY_NOTFOUND; GY_STATE mode or owner; GY_FORMAT with the line; GY_NOMEM; GY_IO */
GY_MUST_CHECK gy_status gy_keyring_open(const char *path, gy_keyring **ring);
/** Read the file again if it changed. A failure keeps the keys that there were, and is said
 * once for each change. @return GY_OK as it was; GY_AGAIN its keys are others now; < 0 */
gy_status gy_keyring_refresh(gy_keyring *ring);
/** A key to call with: of the newest epoch that has one. GY_STATE none for that role */
GY_MUST_CHECK gy_status gy_keyring_offer(const gy_keyring *ring, gy_rpc_role role,
                                         char name[GY_KEYRING_NAME_BYTES],
                                         uint8_t key[GY_KEYRING_KEY_BYTES]);
/** The key of that name, NULL when there is none: what was proved, and the role it proves. */
const uint8_t *gy_keyring_find(const gy_keyring *ring, const char *name, gy_rpc_role *role);
/** "epochs 3 to 4", kept up to date. */
const char *gy_keyring_text(const gy_keyring *ring);
/** Wipes it. NULL is fine. */
void gy_keyring_free(gy_keyring *ring);

/* ---- Files ---- */

/** Make a ring of one epoch with 64 random bytes; folders above it too. GY_EXISTS; GY_IO */
GY_MUST_CHECK gy_status gy_keyring_make(const char *path);
/** Add an epoch, one above the newest; *epoch is it. The reader's failures; GY_IO; GY_STATE it
 * holds keys of roles alone. */
GY_MUST_CHECK gy_status gy_keyring_rotate(const char *path, uint64_t *epoch);
/** Take an epoch out. GY_NOTFOUND not there; GY_STATE it is the only one; GY_IO */
GY_MUST_CHECK gy_status gy_keyring_retire(const char *path, uint64_t epoch);
/** Make a ring at `to` that holds the keys of one role alone, of all epochs. GY_EXISTS; GY_IO
 */
GY_MUST_CHECK gy_status gy_keyring_derive(const char *path, gy_rpc_role role, const char *to);

#endif
