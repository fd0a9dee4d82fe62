/* Name servers: the daemon stays connected to all it was configured with, sends its state to
 * each, obeys orders by their numbers whoever sends them, and sends its calls to the one that
 * answers. */
#include "cluster/host/host_priv.h"

#include <stdio.h>
#include <string.h>

static const double ask_seconds = 2;
static const int64_t again_ns = 100000000;
static const int64_t alone_after_ns = 3000000000, alone_again_ns = 60000000000;

gy_status gy_host_dial_names(gy_host *host)
{
    const char *at = host->options->names;
    while (*at != '\0') {
        size_t size = strcspn(at, ",");
        if (host->name_count == HOST_NAMES_MAX || size == 0 || size >= GY_RPC_ADDRESS_BYTES) {
            return gy_fail(
                GY_ARG,
                "'%s' is no list of name servers: expected 1 to %d addresses such as a:1,b:1",
                host->options->names, HOST_NAMES_MAX);
        }
        char *address = host->names[host->name_count].address;
        snprintf(address, GY_RPC_ADDRESS_BYTES, "%.*s", (int)size, at);
        GY_TRY(gy_rpc_check_address(address, 1));
        if (host->options->is_plaintext) {
            GY_TRY(gy_rpc_check_plaintext(address));
        }
        GY_TRY(gy_rpc_dial(host->rpc, address, &host->names[host->name_count].peer));
        host->name_count++;
        at += at[size] == ',' ? size + 1 : size;
    }
    return host->name_count > 0 ? GY_OK
                                : gy_fail(GY_ARG, "no address of a name server is given");
}

/* Of several configured name servers one listens. */
static bool is_alone(const gy_host *host)
{
    for (uint32_t i = 0; i < host->name_count; i++) {
        if (host->names[i].is_up) {
            return false;
        }
    }
    return true;
}

bool gy_host_name_is_one(const gy_host *host, uint32_t which)
{
    gy_rpc_facts facts;
    if (!gy_rpc_look(host->rpc, host->names[which].peer, &facts) ||
        facts.role == GY_RPC_NAMESERVER) {
        return true;
    }
    gy_warn("%s is no name server: expected the address that gyre nameserver prints "
            "(--nameservers)",
            facts.text);
    return false;
}

void gy_host_name_is_up(gy_host *host, uint32_t which, bool is_up)
{
    const bool was_alone = is_alone(host);
    host->names[which].is_up = is_up;
    if (was_alone && is_up) {
        gy_info("registered with the name server at %s", host->names[which].address);
    } else if (!was_alone && is_alone(host)) {
        host->alone_ns = gy_now_ns(host->env) + alone_after_ns;
    }
}

void gy_host_check_names(gy_host *host, int64_t now_ns)
{
    gy_text text = {.data = NULL};
    if (host->is_ending || !is_alone(host)) {
        return;
    }
    if (host->alone_ns == 0) {
        host->alone_ns = now_ns + alone_after_ns;
    }
    if (now_ns < host->alone_ns) {
        return;
    }
    for (uint32_t i = 0; i < host->name_count; i++) {
        gy_rpc_facts facts;
        const bool is_there = gy_rpc_look(host->rpc, host->names[i].peer, &facts);
        gy_text_add(&text, "%s%s: %s", i > 0 ? "; " : "", host->names[i].address,
                    is_there && facts.is_up            ? "the peer is no name server"
                    : is_there && facts.why[0] != '\0' ? facts.why
                                                       : "no answer yet");
    }
    gy_warn("no name server accepts this daemon: %s", gy_text_get(&text));
    gy_text_free(&text);
    host->alone_ns = now_ns + alone_again_ns;
}

bool gy_host_is_name(const gy_host *host, gy_rpc_peer peer, uint32_t *which)
{
    for (uint32_t i = 0; i < host->name_count; i++) {
        if (host->names[i].peer == peer) {
            *which = i;
            return true;
        }
    }
    return false;
}

const char *gy_host_name_address(const gy_host *host)
{
    uint32_t which = host->name_last;
    for (uint32_t i = 0; i < host->name_count && !host->names[which].is_up; i++) {
        which = (which + 1) % host->name_count;
    }
    return host->names[which].address;
}

void gy_host_send_state(gy_host *host, const gy_daemon_state *state)
{
    gy_arena arena = {NULL};
    Gy__Cluster__DaemonState message;
    gy__cluster__daemon_state__init(&message);
    gy_status status = gy_net_write_state(state, &arena, &message);
    for (uint32_t i = 0; i < host->name_count && status == GY_OK; i++) {
        /* A lost state is sent again. */
        if (host->names[i].is_up && gy_rpc_tell(host->rpc, host->names[i].peer,
                                                GY_NET_DAEMON_STATE, &message.base) < 0) {
            gy_debug("cannot send the state of a job: %s", gy_error_text());
        }
    }
    gy_arena_free(&arena);
    if (status < 0) {
        gy_host_fail(host, status);
    }
}

gy_status gy_host_order(void *arg, const gy_rpc_asked *asked, const ProtobufCMessage *request)
{
    gy_host *host = arg;
    gy_control_order order;
    uint32_t which = 0;
    GY_TRY(gy_net_read_order((const Gy__Cluster__Order *)request, &order));
    if (gy_host_is_name(host, asked->peer, &which)) {
        host->name_last = which;
    }
    gy_host_step(host, &(gy_daemon_event){.kind = GY_DAEMON_ORDER, .order = &order});
    return GY_OK;
}

/* ---- Calls ---- */

static void end_ask(host_ask *ask, const ProtobufCMessage *answer)
{
    gy_host *host = ask->host;
    ask->is_over = true;
    if (ask->type == GY_NET_ASK_SPEC) {
        gy_host_program_spec(host, ask->job, (const Gy__Cluster__Spec *)answer);
    } else if (ask->type == GY_NET_JOB_END) {
        gy_host_manager_reported(host, ask->job, ask->epoch);
    } else {
        host->is_bye_sent = true;
    }
}

static void answered(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    host_ask *ask = arg;
    gy_host *host = ask->host;
    if (status == GY_CANCELLED) { /* the node is closing */
        ask->is_over = true;
        return;
    }
    bool is_final = status == GY_OK || status == GY_NOTFOUND;
    if (is_final || gy_now_ns(host->env) >= ask->until_ns) {
        end_ask(ask, status == GY_OK ? answer : NULL);
        return;
    }
    gy_debug("a request is sent again: %s", gy_error_text());
    host->name_last = (host->name_last + 1) % host->name_count;
    ask->again_ns = gy_now_ns(host->env) + again_ns;
}

gy_status gy_host_call_name(gy_host *host, uint32_t type, const ProtobufCMessage *message,
                            gy_rpc_done done, void *arg)
{
    uint32_t which = host->name_last;
    for (uint32_t i = 0; i < host->name_count && !host->names[which].is_up; i++) {
        which = (which + 1) % host->name_count;
    }
    host->name_last = which;
    return gy_rpc_call(host->rpc, host->names[which].peer,
                       &(gy_rpc_request){.type = type,
                                         .message = message,
                                         .deadline = gy_env_deadline(host->env, ask_seconds),
                                         .is_hasty = true,
                                         .done = done,
                                         .arg = arg},
                       NULL);
}

static gy_status call(gy_host *host, host_ask *ask, const ProtobufCMessage *message)
{
    return gy_host_call_name(host, ask->type, message, answered, ask);
}

static gy_status report_end(gy_host *host, host_ask *ask, Gy__Cluster__Key *job)
{
    Gy__Cluster__JobEnd message;
    uint8_t last[GY_NET_LAST_BYTES];
    gy__cluster__job_end__init(&message);
    message.job = job;
    message.epoch = ask->epoch;
    message.status = ask->status;
    message.reason = ask->reason;
    message.code = ask->code;
    message.said = ask->said;
    message.last =
        (ProtobufCBinaryData){.len = gy_host_manager_last(host, ask, last), .data = last};
    return call(host, ask, &message.base);
}

static void try_ask(gy_host *host, host_ask *ask)
{
    gy_status status = GY_OK;
    Gy__Cluster__Key job = GY__CLUSTER__KEY__INIT;
    job.high = ask->job.high;
    job.low = ask->job.low;
    ask->again_ns = INT64_MAX;
    if (ask->type == GY_NET_ASK_SPEC) {
        Gy__Cluster__AskSpec message = GY__CLUSTER__ASK_SPEC__INIT;
        message.job = &job;
        status = call(host, ask, &message.base);
    } else if (ask->type == GY_NET_JOB_END) {
        status = report_end(host, ask, &job);
    } else {
        Gy__Cluster__DaemonBye message = GY__CLUSTER__DAEMON_BYE__INIT;
        message.daemon = host->id;
        message.incarnation = host->incarnation;
        message.life = host->life;
        status = call(host, ask, &message.base);
    }
    if (status < 0) {
        answered(ask, status, NULL);
    }
}

void gy_host_ask(gy_host *host, uint32_t type, const host_ask *what)
{
    host_ask *made = gy_alloc("host.ask", sizeof(*made));
    if (made == NULL) {
        gy_host_fail(host, GY_NOMEM);
        return;
    }
    *made = *what;
    made->host = host;
    made->type = type;
    made->again_ns = 0; /* in this round */
    made->is_over = false;
    made->next = host->asks;
    host->asks = made;
}

void gy_host_check_asks(gy_host *host, int64_t now_ns)
{
    for (host_ask *ask = host->asks; ask != NULL; ask = ask->next) {
        if (!ask->is_over && now_ns >= ask->again_ns) {
            try_ask(host, ask);
        }
    }
    for (host_ask **at = &host->asks; *at != NULL;) {
        host_ask *ask = *at;
        if (ask->is_over) {
            *at = ask->next;
            gy_free(ask);
        } else {
            at = &ask->next;
        }
    }
}

void gy_host_asks_free(gy_host *host)
{
    while (host->asks != NULL) {
        host_ask *ask = host->asks;
        host->asks = ask->next;
        gy_free(ask);
    }
}
