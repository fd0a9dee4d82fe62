/* A standby notices from its broken connection that the leader is dead, long before the
 * leader's lease expires, and deposes it. A leader that was never reached is not deposed: two
 * name servers that cannot reach each other would depose each other for ever. */
#include "cluster/server/server_priv.h"

#include <string.h>

static const int64_t default_dead_ns = 2000000000;
static const int64_t ns_min = 1000000000; /* nodes send something every 0.4 s */

/* First silence breaks the connection, then the wait for a new one fails: dead_ns in all. */
static int64_t dead_ns(const gy_server *server)
{
    const int64_t own_ns = server->names_options.dead_ns;
    return own_ns > 0 ? own_ns : default_dead_ns;
}

static int64_t wait_ns(const gy_server *server)
{
    return dead_ns(server) / 8;
}

void gy_server_unwatch(gy_server *server)
{
    gy_rpc_free(server->watch.rpc);
    server->watch.rpc = NULL;
    server->watch.down_ns = INT64_MAX;
    server->watch.was_up = false;
}

void gy_server_watch(gy_server *server, const char *address, uint64_t number)
{
    server_watch *watch = &server->watch;
    gy_server_unwatch(server);
    watch->number = number;
    const gy_rpc_options node = {.name = "name server that waits",
                                 .role = GY_RPC_NAMESERVER,
                                 .dead_ns = GY_MAX(dead_ns(server) - wait_ns(server), ns_min),
                                 .retry_ns_max = wait_ns(server) / 2,
                                 .key_file = server->options->key_file,
                                 .is_plaintext = server->options->is_plaintext};
    gy_status status = gy_rpc_new(server->env, &node, &watch->rpc);
    status = status == GY_OK ? gy_rpc_dial(watch->rpc, address, &watch->peer) : status;
    if (status < 0) {
        gy_warn("only the lease shows whether the leader is alive: %s", gy_error_text());
        gy_server_unwatch(server);
    }
}

void gy_server_watch_turn(gy_server *server)
{
    server_watch *watch = &server->watch;
    gy_rpc_facts facts;
    if (watch->rpc == NULL) {
        return;
    }
    (void)gy_rpc_turn(watch->rpc, (gy_deadline){0});
    if (!gy_rpc_look(watch->rpc, watch->peer, &facts)) {
        return;
    }
    const int64_t now_ns = gy_now_ns(server->env);
    if (facts.is_up) {
        watch->was_up = true;
        watch->down_ns = INT64_MAX;
    } else if (watch->was_up && watch->down_ns == INT64_MAX) {
        watch->down_ns = now_ns;
    } else if (watch->was_up && now_ns - watch->down_ns >= wait_ns(server)) {
        gy_warn("the name server at %s is dead: another one becomes the leader",
                server->leader);
        gy_persist_table_depose(server->table, watch->number);
        gy_server_unwatch(server);
    }
}

int64_t gy_server_watch_next(const gy_server *server)
{
    const server_watch *watch = &server->watch;
    if (watch->rpc == NULL) {
        return INT64_MAX;
    }
    const int64_t until_ns =
        watch->down_ns != INT64_MAX ? watch->down_ns + wait_ns(server) : INT64_MAX;
    return GY_MIN(until_ns, gy_rpc_next(watch->rpc).at_ns);
}
