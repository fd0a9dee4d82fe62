/**
 * libmicrohttpd, loaded when a page is served: its TLS library and dependencies would add
 * several milliseconds to every start of a program.
 */
#ifndef GY_CLUSTER_PAGE_MHD_H
#define GY_CLUSTER_PAGE_MHD_H

#include <gyre/base.h>

#include <sys/socket.h>

#include <microhttpd.h>

#define GY_MHD_LIST(X)                                                                         \
    X(start_daemon)                                                                            \
    X(stop_daemon)                                                                             \
    X(run)                                                                                     \
    X(get_timeout)                                                                             \
    X(get_daemon_info)                                                                         \
    X(get_connection_info)                                                                     \
    X(lookup_connection_value)                                                                 \
    X(queue_response)                                                                          \
    X(create_response_from_buffer)                                                             \
    X(add_response_header)                                                                     \
    X(destroy_response)

typedef struct gy_mhd {
#define GY_X(name) __typeof__(&MHD_##name) name;
    GY_MHD_LIST(GY_X)
#undef GY_X
} gy_mhd;

/** GY_UNSUPPORTED: not installed, or too old. @threads any */
GY_MUST_CHECK gy_status gy_mhd_load(const gy_mhd **mhd);

#endif
