/* The process of a server: a node on sockets, until it is told to end. */
#include "ps/server_priv.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static const int64_t watch_ns_max = 1000000000;
static const int64_t watch_every_ns = 10000000; /* a busy server looks for signals */

gy_status gy_ps_server_open(const gy_ps_server_options *options, gy_ps_server **server)
{
    gy_ps_server_options o;
    GY_TRY(gy_options_take(gy_ps_server_options, &o, options));
    if (o.resumes && (o.folder == NULL || o.lead != NULL)) {
        return gy_fail(GY_ARG,
                       "to resume, a server without a lead needs a folder of snapshots, "
                       "and with one it is the lead that resumes");
    }
    gy_env *env = gy_env_real();
    gy_ps_server *made = gy_alloc_zero("ps.server", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_ps_server_init(made, env));
    made->functions = o.functions;
    made->function_count = o.function_count;
    made->stop_file = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    gy_status status =
        made->stop_file >= 0 ? GY_OK : gy_fail(GY_LIMIT, "no descriptor: %s", strerror(errno));
    if (status == GY_OK && o.lead != NULL) {
        status = gy_ps_server_join(made);
    }
    if (status == GY_OK && o.folder != NULL) {
        status = gy_ps_snapshots_open(made, o.folder);
    }
    if (status == GY_OK && o.resumes) {
        status = gy_ps_snapshots_resume(made);
    }
    if (status == GY_OK) {
        gy_rpc_options node = gy_ps_server_node(made);
        node.key_file = o.key_file;
        node.is_plaintext = o.is_plaintext;
        node.shares_memory = !o.without_shared_memory;
        status = gy_rpc_new(env, &node, &made->rpc);
    }
    if (status == GY_OK) {
        status = gy_rpc_listen(made->rpc, o.listen != NULL ? o.listen : "127.0.0.1:0",
                               made->address);
    }
    if (status == GY_OK && o.lead != NULL) {
        status = gy_ps_chain_start(made->chain, made->rpc, o.lead, made->address);
    }
    if (status < 0) {
        gy_error why;
        gy_error_take(&why, status);
        gy_ps_server_close(made);
        return gy_error_raise(&why);
    }
    *server = made;
    return GY_OK;
}

const char *gy_ps_server_address(const gy_ps_server *server)
{
    return server->address;
}

/* Sleep until there is something to do, or only look. *is_woken: the caller's file is readable.
 */
static gy_status watch(gy_ps_server *server, int wake_file, int64_t left_ns, bool *is_woken)
{
    struct pollfd files[3] = {
        {.fd = gy_rpc_fd(server->rpc), .events = POLLIN},
        {.fd = server->stop_file, .events = POLLIN},
        {.fd = wake_file, .events = POLLIN}, /* -1 is ignored */
    };
    left_ns = GY_MIN(GY_MAX(left_ns, (int64_t)0), watch_ns_max);
    if (poll(files, 3, (int)((left_ns + 999999) / 1000000)) < 0 && errno != EINTR) {
        return gy_fail(GY_IO, "cannot wait for events: %s", strerror(errno));
    }
    *is_woken = files[2].revents != 0;
    return GY_OK;
}

gy_status gy_ps_server_run(gy_ps_server *server, int wake_file)
{
    gy_env *env = gy_env_real();
    int64_t watch_ns = 0; /* when to look at the caller's file again */
    bool is_woken = false;
    while (!is_woken &&
           !atomic_load_explicit(&server->is_stopped, memory_order_acquire)) { /* stop's */
        gy_status moved = gy_rpc_turn(server->rpc, (gy_deadline){0});
        GY_TRY(gy_ps_server_tick(server));
        int64_t now_ns = gy_now_ns(env);
        bool is_idle = false;
        if (moved == GY_OK) {
            gy_ps_spin_end(&server->spin, false);
        } else {
            is_idle = !gy_ps_spin_more(&server->spin, now_ns);
        }
        if (!is_idle && now_ns < watch_ns) {
            gy_spin();
            continue;
        }
        watch_ns = now_ns + watch_every_ns;
        int64_t next_ns = GY_MIN(gy_rpc_next(server->rpc).at_ns, gy_ps_server_next(server));
        GY_TRY(watch(server, wake_file, is_idle ? next_ns - now_ns : 0, &is_woken));
        if (is_idle) {
            gy_ps_spin_end(&server->spin, true);
        }
    }
    return GY_OK;
}

void gy_ps_server_stop(gy_ps_server *server)
{
    const uint64_t one = 1;
    atomic_store_explicit(&server->is_stopped, true, memory_order_release); /* run's */
    (void)!write(server->stop_file, &one, sizeof(one)); /* a full counter wakes as well */
}

void gy_ps_server_close(gy_ps_server *server)
{
    if (server == NULL) {
        return;
    }
    gy_ps_server_fini(server);
    if (server->stop_file >= 0) {
        close(server->stop_file);
    }
    gy_free(server);
}
