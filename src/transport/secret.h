/** Parses key files line by line. */
#ifndef GY_TRANSPORT_SECRET_H
#define GY_TRANSPORT_SECRET_H

#include "base/lines.h"
#include "transport/net.h"

/**
 * A key file, of mode 0600, has one line for each epoch: "EPOCH HEX", the secret of a cluster,
 * or "EPOCH WHO HEX", a key restricted to one part (rpc/keyring.h defines WHO). "HEX" alone is
 * epoch 1. Empty lines and lines that begin with # are ignored.
 */
enum {
    GY_KEY_FILE_BYTES = 64 * 1024,
    GY_SECRET_BYTES_LEAST = 32,
    GY_SECRET_BYTES = 255,
    GY_SECRET_WHO_BYTES = 96,
};

typedef struct gy_secret {
    uint64_t epoch;
    bool is_bare;                  /* the line has only the digits */
    char who[GY_SECRET_WHO_BYTES]; /* "": the secret of the whole cluster */
    size_t size_bytes;
    uint8_t bytes[GY_SECRET_BYTES];
} gy_secret;

/** Get the next line that is not ignored; the caller wipes it. GY_AGAIN no more; GY_FORMAT,
 * without quoting the line. @threads any */
GY_MUST_CHECK gy_status gy_secret_next(gy_lines *lines, gy_secret *secret);

#endif
