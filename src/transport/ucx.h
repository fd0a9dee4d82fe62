/**
 * Messages over UCX, which libgyre does not link: a library of room ucx stands on it and is
 * opened at run time. UCX proves nobody's identity and encrypts nothing.
 */
#ifndef GY_TRANSPORT_UCX_H
#define GY_TRANSPORT_UCX_H

#include "transport/carrier.h"

enum { GY_UCX_VERSION = 1, GY_UCX_ADDRESS_BYTES = 4096 };

/** What such a library offers under the name gy_ucx. It has its own copy of Gyre's rooms, so a
 * failure is a text. False: `why` says it. */
typedef struct gy_ucx_plugin {
    int version;
    /* `is_loopback`: nothing goes through a network device but the loopback. */
    bool (*open)(int rank, int size, bool is_loopback, gy_carrier *carrier, char why[256]);
    /* Where this rank is reached: GY_UCX_ADDRESS_BYTES of room. */
    bool (*address)(void *context, void *to, size_t *size_bytes, char why[256]);
    /* A rank may be sent to afterwards. */
    bool (*connect)(void *context, int rank, const void *address, char why[256]);
} gy_ucx_plugin;

#endif
