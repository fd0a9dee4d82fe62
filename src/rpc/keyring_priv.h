/** Inside room rpc: the lines of a key ring. */
#ifndef GY_RPC_KEYRING_PRIV_H
#define GY_RPC_KEYRING_PRIV_H

#include "rpc/keyring.h"
#include "transport/secret.h"

extern const char *const gy_keyring_roles[GY_RPC_ROLES];

/** A line's key, and its role and subject. */
typedef struct ring_line {
    gy_secret secret;
    int role; /* -1: the cluster's secret */
    char subject[GY_RPC_SUBJECT_BYTES];
} ring_line;

/** Get the next line that is not ignored. GY_AGAIN no more; GY_FORMAT, without quoting the
 * line. */
GY_MUST_CHECK gy_status gy_rpc_ring_line_next(gy_lines *lines, ring_line *line);
/** Split "ROLE" or "ROLE/SUBJECT". GY_ARG, without quoting the text. */
GY_MUST_CHECK gy_status gy_rpc_ring_who(const char *text, gy_keyring_who *who);
/** "ROLE/SUBJECT" */
void gy_rpc_ring_who_text(gy_rpc_role role, const char *subject, char out[GY_SECRET_WHO_BYTES]);
/** Can `who`'s key be derived from that line? */
bool gy_rpc_ring_has(const ring_line *line, gy_rpc_role role, const char *subject);
/** Derive a key for which gy_rpc_ring_has is true. GY_IO */
GY_MUST_CHECK gy_status gy_rpc_ring_derive(const ring_line *line, gy_rpc_role role,
                                           const char *subject, gy_transport_key *key);
/** Make a ring from a text that need not be in a file; messages use the name `path`. */
GY_MUST_CHECK gy_status gy_keyring_read(const char *path, const char *text, size_t size_bytes,
                                        gy_keyring **ring);

#endif
