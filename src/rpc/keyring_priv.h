/**
 * Inside room rpc: lines of a key ring.
 */
#ifndef GY_RPC_KEYRING_PRIV_H
#define GY_RPC_KEYRING_PRIV_H

#include "base/lines.h"
#include "rpc/keyring.h"
#include "transport/net.h"

enum { GY_RING_BYTES = 64 * 1024, GY_RING_SECRET_BYTES = 255 };

extern const char *const gy_keyring_roles[GY_RPC_ROLES];

typedef struct ring_line {
    uint64_t epoch;
    int role; /* -1: the secret of all */
    size_t secret_bytes;
    uint8_t secret[GY_RING_SECRET_BYTES];
} ring_line;

/** The next line that says something. GY_AGAIN none; GY_FORMAT, without what it says. */
GY_MUST_CHECK gy_status gy_ring_line_next(gy_lines *lines, ring_line *line);
GY_MUST_CHECK gy_status gy_ring_derive(const ring_line *line, gy_rpc_role role, gy_key *key);

#endif
