/**
 * Messages over UCX, which libgyre does not link: a library of room ucx uses it and is loaded
 * at run time. UCX neither authenticates nor encrypts.
 */
#ifndef GY_TRANSPORT_UCX_H
#define GY_TRANSPORT_UCX_H

#include "transport/carrier.h"

enum { GY_UCX_VERSION = 1, GY_UCX_ADDRESS_BYTES = 4096 };

/** The functions of such a library, under the symbol gy_ucx. It has its own copy of Gyre's
 * rooms, so a failure is passed as text. False: `why` has the reason. */
typedef struct gy_ucx_plugin {
    int version;
    /* `is_loopback`: use no network device but the loopback. */
    bool (*open)(int rank, int size, bool is_loopback, gy_carrier *carrier, char why[256]);
    /* Get this rank's address: room for GY_UCX_ADDRESS_BYTES. */
    bool (*address)(void *context, void *to, size_t *size_bytes, char why[256]);
    /* Connect to a rank, so that messages can be sent to it. */
    bool (*connect)(void *context, int rank, const void *address, char why[256]);
} gy_ucx_plugin;

#endif
