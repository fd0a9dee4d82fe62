/**
 * Inside room rpc: lines of a key ring.
 */
#ifndef GY_RPC_KEYRING_PRIV_H
#define GY_RPC_KEYRING_PRIV_H

#include "rpc/keyring.h"
#include "transport/secret.h"

extern const char *const gy_keyring_roles[GY_RPC_ROLES];

/** A line's key, and whose it is. */
typedef struct ring_line {
    gy_secret secret;
    int role; /* -1: the secret of all */
    char subject[GY_RPC_SUBJECT_BYTES];
} ring_line;

/** The next line that says something. GY_AGAIN none; GY_FORMAT, without what it says. */
GY_MUST_CHECK gy_status gy_rpc_ring_line_next(gy_lines *lines, ring_line *line);
/** Cut "ROLE" or "ROLE/SUBJECT". GY_ARG, without what it says. */
GY_MUST_CHECK gy_status gy_rpc_ring_who(const char *text, gy_keyring_who *who);
/** "ROLE/SUBJECT" */
void gy_rpc_ring_who_text(gy_rpc_role role, const char *subject, char out[GY_SECRET_WHO_BYTES]);
/** Does `who`'s key come from that line? */
bool gy_rpc_ring_has(const ring_line *line, gy_rpc_role role, const char *subject);
/** The key of one of whom gy_rpc_ring_has is true. GY_IO */
GY_MUST_CHECK gy_status gy_rpc_ring_derive(const ring_line *line, gy_rpc_role role,
                                           const char *subject, gy_transport_key *key);
/** A ring of a text that need not be a file's; `path` is its name in failures. */
GY_MUST_CHECK gy_status gy_keyring_read(const char *path, const char *text, size_t size_bytes,
                                        gy_keyring **ring);

#endif
