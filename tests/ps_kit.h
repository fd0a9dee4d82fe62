/** Parameter servers on threads of a test, and workers of them. */
#ifndef GY_PS_KIT_H
#define GY_PS_KIT_H

#include <gyre/ps.h>

#include "base/base.h"

#include <string.h>

#include "gy_test.h"

enum { SERVERS_MAX = 3 };

typedef struct scene {
    gy_ps_server *servers[SERVERS_MAX];
    gy_thread threads[SERVERS_MAX];
    int count;
    char list[SERVERS_MAX * 64];
} scene;

static inline void *serve(void *arg)
{
    if (gy_ps_server_run(arg, -1) < 0) {
        gy_panic("a server ended: %s", gy_error_text());
    }
    return NULL;
}

static inline void open_servers_with(scene *at, int count, const gy_ps_server_options *options)
{
    memset(at, 0, sizeof(*at));
    at->count = count;
    for (int i = 0; i < count; i++) {
        assert_ok(gy_ps_server_open(options, &at->servers[i]));
        size_t used = strlen(at->list);
        snprintf(at->list + used, sizeof(at->list) - used, "%s%s", i > 0 ? "," : "",
                 gy_ps_server_address(at->servers[i]));
        assert_ok(gy_thread_start(&at->threads[i], "test-server", serve, at->servers[i]));
    }
}

static inline void open_servers(scene *at, int count)
{
    open_servers_with(at, count, &(gy_ps_server_options){.is_plaintext = true});
}

static inline void close_servers(scene *at)
{
    for (int i = 0; i < at->count; i++) {
        gy_ps_server_stop(at->servers[i]);
        gy_thread_join(&at->threads[i]);
        gy_ps_server_close(at->servers[i]);
    }
}

/* Workers 1, 3, ... use sockets, the others shared memory. */
static inline gy_ps *worker_of(const scene *at, uint32_t worker, uint32_t workers)
{
    gy_ps *ps = NULL;
    assert_ok(gy_ps_open(&(gy_ps_options){.servers = at->list,
                                          .is_plaintext = true,
                                          .worker = worker,
                                          .without_shared_memory = worker % 2 == 1,
                                          .workers = workers,
                                          .timeout_s = 30},
                         &ps));
    return ps;
}

#endif
