/* Every message of a cluster: its name, who may send it, its maximum size. */
#include "control/net/net.h"

#define MAY(role) GY_RPC_MAY(GY_RPC_##role)
#define TELL(number, text, who, how, asks, asks_bytes)                                         \
    {                                                                                          \
        .type = (number), .name = (text), .roles = (who), .flags = (how),                      \
        .request = &gy__cluster__##asks##__descriptor, .request_bytes_max = (asks_bytes)       \
    }
#define CALL(number, text, who, how, asks, asks_bytes, gives, gives_bytes)                     \
    {                                                                                          \
        .type = (number), .name = (text), .roles = (who), .flags = (how),                      \
        .request = &gy__cluster__##asks##__descriptor, .request_bytes_max = (asks_bytes),      \
        .answer = &gy__cluster__##gives##__descriptor, .answer_bytes_max = (gives_bytes)       \
    }
#define ONCE 0u
#define MANY GY_RPC_REPEATABLE

enum {
    SMALL = 256,       /* only numbers */
    TEXTS = 4 << 10,   /* some texts of control.h */
    STATE = 512 << 10, /* all leases and managers of a daemon */
    ROWS = 16 << 20,   /* one for each slot or job of a cluster */
    PIECE = SMALL + GY_NET_BLOB_PIECE,
    RELAY = SMALL + GY_NET_RELAY_BYTES,
    BOARDS = 1 << 20,
    OUTPUT = SMALL + GY_NET_OUTPUT_PIECE,
    SINCE = TEXTS + GY_NET_OUTPUT_KEPT,
    SPEC = TEXTS + GY_NET_SPEC_SMALL,
    LAST = TEXTS + GY_NET_LAST_BYTES,
};

static const gy_rpc_method methods[] = {
    TELL(GY_NET_DAEMON_STATE, "report a daemon's state", MAY(DAEMON), 0, daemon_state, STATE),
    CALL(GY_NET_DAEMON_BYE, "deregister", MAY(DAEMON), MANY, daemon_bye, SMALL, done, SMALL),
    CALL(GY_NET_ASK_SPEC, "get a job's description", MAY(DAEMON) | MAY(SUBMITTER), MANY,
         ask_spec, SMALL, spec, SPEC),
    CALL(GY_NET_JOB_END, "report a job's end", MAY(DAEMON), MANY, job_end, LAST, over, SMALL),
    CALL(GY_NET_OUTPUT, "send a manager's output", MAY(DAEMON), MANY, output, OUTPUT, done,
         SMALL),
    TELL(GY_NET_ORDER, "give an order", MAY(NAMESERVER), 0, order, SMALL),
    TELL(GY_NET_REQUESTS, "send a manager's resource requests", MAY(MANAGER), 0, requests,
         TEXTS),
    CALL(GY_NET_RELEASE, "give a lease back", MAY(MANAGER), MANY, release, TEXTS, done, SMALL),
    TELL(GY_NET_VIEW, "report a job's progress", MAY(MANAGER), 0, view, GY_NET_VIEW_BYTES),
    TELL(GY_NET_ALLOCATIONS, "grant slots", MAY(NAMESERVER), 0, allocations, ROWS),
    TELL(GY_NET_OVER, "tell a manager that its epoch has ended", MAY(NAMESERVER), 0, over,
         SMALL),
    CALL(GY_NET_ASK_BLOBS, "list missing files", MAY(SUBMITTER), MANY, ask_blobs, STATE, blobs,
         STATE),
    CALL(GY_NET_PUT_BLOB, "upload a file", MAY(SUBMITTER), MANY, put_blob, PIECE, done, SMALL),
    CALL(GY_NET_SUBMIT, "submit a job", MAY(SUBMITTER), MANY, submit, TEXTS, done, SMALL),
    CALL(GY_NET_KILL, "kill a job", MAY(SUBMITTER), MANY, kill, SMALL, done, SMALL),
    CALL(GY_NET_RESUME, "resume a job", MAY(SUBMITTER), MANY, resume, SMALL, done, SMALL),
    CALL(GY_NET_DRAIN, "drain a daemon", MAY(OPERATOR), MANY, drain, SMALL, done, SMALL),
    CALL(GY_NET_WAIT_END, "wait for a job's end", MAY(SUBMITTER), MANY, wait_end, SMALL, ended,
         TEXTS),
    CALL(GY_NET_ASK_OUTPUT, "get a job's output", MAY(SUBMITTER), MANY, ask_output, SMALL,
         output_since, SINCE),
    CALL(GY_NET_ASK_VIEW, "get a job's progress", MAY(SUBMITTER) | MAY(WATCHER), MANY, ask_view,
         SMALL, view, GY_NET_VIEW_BYTES),
    CALL(GY_NET_LIST, "list daemons and jobs", MAY(SUBMITTER) | MAY(WATCHER) | MAY(OPERATOR),
         MANY, ask_list, SMALL, list, ROWS),
    CALL(GY_NET_ATTACH, "attach to a daemon", MAY(MANAGER), ONCE, attach, SMALL, attached,
         STATE),
    TELL(GY_NET_BEAT, "renew leases", MAY(MANAGER), 0, beat, SMALL),
    CALL(GY_NET_OPEN, "start an executor", MAY(MANAGER), ONCE, open, SMALL, done, SMALL),
    CALL(GY_NET_CLOSE, "stop an executor", MAY(MANAGER), ONCE, close, TEXTS, done, SMALL),
    CALL(GY_NET_CREDIT, "grant credit", MAY(MANAGER) | MAY(DAEMON), ONCE, credit, SMALL, done,
         SMALL),
    CALL(GY_NET_RELAY, "relay a stream", MAY(MANAGER) | MAY(DAEMON), ONCE, relay, RELAY, done,
         SMALL),
    CALL(GY_NET_FETCH, "have sections fetched", MAY(MANAGER), ONCE, fetch, STATE, done, SMALL),
    TELL(GY_NET_UNFETCH, "cancel a fetch", MAY(MANAGER), 0, unfetch, SMALL),
    TELL(GY_NET_DISCARD, "discard files", MAY(MANAGER), 0, discard, STATE),
    CALL(GY_NET_JOB_OVER, "end a job", MAY(MANAGER), ONCE, job_over, SMALL, done, SMALL),
    CALL(GY_NET_LEASE_GONE, "report a lost lease", MAY(DAEMON), ONCE, lease_gone, TEXTS, done,
         SMALL),
    CALL(GY_NET_EXECUTOR_GONE, "report an executor's end", MAY(DAEMON), ONCE, executor_gone,
         BOARDS, done, SMALL),
    CALL(GY_NET_FETCHED, "report finished fetches", MAY(DAEMON), ONCE, fetched, STATE, done,
         SMALL),
};

gy_rpc_method gy_net_method(gy_net_type type)
{
    for (size_t i = 0; i < GY_COUNT(methods); i++) {
        if (methods[i].type == (uint32_t)type) {
            return methods[i];
        }
    }
    gy_panic("no message of a cluster has the type %d", (int)type);
}
