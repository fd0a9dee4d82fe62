/**
 * For fuzz targets of nodes: a carrier that carries nothing. A target feeds a link by itself.
 */
#ifndef GY_RPC_LINK_FUZZ_H
#define GY_RPC_LINK_FUZZ_H

#include "rpc/carrier.h"

static bool link_fuzz_is_closed;

static gy_status link_fuzz_dial(void *carrier, gy_rpc_link *link, const char *address)
{
    (void)carrier;
    (void)link;
    (void)address;
    return gy_fail(GY_PEER, "no peer is reachable");
}

static void link_fuzz_push(void *carrier, gy_rpc_link *link)
{
    (void)carrier;
    (void)link;
}

static void link_fuzz_close(void *carrier, gy_rpc_link *link)
{
    (void)carrier;
    (void)link;
    link_fuzz_is_closed = true;
}

static const gy_rpc_carrier_ops link_fuzz_ops = {
    .name = "fuzz", .dial = link_fuzz_dial, .push = link_fuzz_push, .close = link_fuzz_close};

#endif
