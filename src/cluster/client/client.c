/* Requests and answers, whichever name server is elected. */
#include "cluster/client/client_priv.h"

#include <stdio.h>
#include <string.h>

static const int64_t pause_ns = 50000000;

gy_deadline gy_client_soon(const gy_cluster *cluster)
{
    return (gy_deadline){gy_now_ns(cluster->env) + cluster->patience_ns};
}

/* ---- Ids ---- */

gy_status gy_client_read_id(const char *id, gy_key *job)
{
    unsigned long long high = 0, low = 0;
    if (strlen(id) != GY_CLUSTER_ID_BYTES - 1 ||
        strspn(id, "0123456789abcdef") != GY_CLUSTER_ID_BYTES - 1 ||
        sscanf(id, "%16llx%16llx", &high, &low) != 2) {
        return gy_fail(GY_ARG, "'%.40s' is no job id: expected 32 digits of 0-9 and a-f", id);
    }
    *job = (gy_key){high, low};
    return GY_OK;
}

/* ---- Beginning and end ---- */

gy_status gy_cluster_check_addresses(const char *addresses, int port_min, int most)
{
    const char *at = addresses;
    for (int count = 1;; count++) {
        char address[GY_CONTROL_TEXT_BYTES];
        const size_t size = strcspn(at, ",");
        if (count <= most && size >= sizeof(address)) {
            return gy_fail(GY_ARG, "'%.80s' is too long for an address: at most %zu bytes", at,
                           sizeof(address) - 1);
        }
        if (count > most) {
            return gy_fail(GY_ARG, "'%.80s': 1 to %d addresses are expected", addresses, most);
        }
        snprintf(address, sizeof(address), "%.*s", (int)size, at);
        GY_TRY(gy_rpc_check_address(address, (uint16_t)port_min));
        if (at[size] == '\0') {
            return GY_OK;
        }
        at += size + 1;
    }
}

static gy_status dial_all(gy_cluster *cluster, const char *names, bool is_plaintext)
{
    while (*names != '\0') {
        char address[GY_CONTROL_TEXT_BYTES];
        size_t size = strcspn(names, ",");
        if (cluster->server_count == CLIENT_SERVERS) {
            return gy_fail(GY_ARG, "more than %d name servers", CLIENT_SERVERS);
        }
        if (snprintf(address, sizeof(address), "%.*s", (int)size, names) >=
            (int)sizeof(address)) {
            return gy_fail(GY_ARG, "'%.80s' is too long for an address", names);
        }
        GY_TRY(gy_rpc_check_address(address, 1));
        if (is_plaintext) {
            GY_TRY(gy_rpc_check_plaintext(address));
        }
        GY_TRY(gy_rpc_dial(cluster->rpc, address, &cluster->servers[cluster->server_count]));
        cluster->server_count++;
        names += size + (names[size] == ',');
    }
    return cluster->server_count > 0 ? GY_OK : gy_fail(GY_ARG, "no name server is given");
}

/* Open the node as an operator if requested; else as a submitter, or if the ring lacks that key
 * as a watcher, which may only list. */
static gy_status open_node(gy_cluster *made, const gy_cluster_options *options)
{
    gy_rpc_options node = {.name = options->is_operator ? "operator" : "submitter",
                           .role = options->is_operator ? GY_RPC_OPERATOR : GY_RPC_SUBMITTER,
                           .methods = made->methods,
                           .method_count = CLIENT_METHODS,
                           .retry_ns_max = 500000000,
                           .key_file = options->key_file,
                           .is_plaintext = options->is_plaintext};
    gy_error why;
    gy_status status = gy_rpc_new(made->env, &node, &made->rpc);
    if (status != GY_STATE || options->is_operator) {
        return status;
    }
    gy_error_take(&why, status);
    node.name = "watcher";
    node.role = GY_RPC_WATCHER;
    return gy_rpc_new(made->env, &node, &made->rpc) == GY_OK ? GY_OK : gy_error_raise(&why);
}

gy_status gy_cluster_open(const gy_cluster_options *options, gy_cluster **cluster)
{
    gy_cluster_options known;
    GY_TRY(gy_options_take(gy_cluster_options, &known, options));
    options = &known;
    static const gy_net_type types[] = {GY_NET_ASK_BLOBS, GY_NET_PUT_BLOB, GY_NET_SUBMIT,
                                        GY_NET_KILL,      GY_NET_DRAIN,    GY_NET_WAIT_END,
                                        GY_NET_LIST,      GY_NET_ASK_SPEC, GY_NET_ASK_OUTPUT,
                                        GY_NET_RESUME,    GY_NET_ASK_VIEW};
    static_assert(GY_COUNT(types) == CLIENT_METHODS, "all of them");
    const double patience = options->connect_timeout_s > 0 ? options->connect_timeout_s : 10;
    if (options->nameservers == NULL || !(patience < 1e6)) {
        return gy_fail(
            GY_ARG,
            "no name server is given, or a connect timeout of %g s: expected one and above 0",
            patience);
    }
    gy_cluster *made = gy_alloc_zero("client", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->env = gy_env_real();
    made->patience_ns = (int64_t)(patience * 1e9);
    for (size_t i = 0; i < GY_COUNT(types); i++) {
        made->methods[i] = gy_net_method(types[i]);
    }
    if (options->prewarm != NULL) { /* first, since it runs while the keys are read */
        gy_client_prewarm(made, options->prewarm);
    }
    gy_status status = open_node(made, options);
    status =
        status == GY_OK ? dial_all(made, options->nameservers, options->is_plaintext) : status;
    if (status < 0) {
        gy_cluster_close(made);
        return status;
    }
    *cluster = made;
    return GY_OK;
}

void gy_cluster_close(gy_cluster *cluster)
{
    if (cluster != NULL) {
        gy_client_cancel_prewarm(cluster);
        gy_rpc_free(cluster->rpc);
        gy_free(cluster);
    }
}

/* ---- Requests ---- */

void gy_client_meanwhile(gy_cluster *cluster)
{
    while (cluster->rpc != NULL && gy_rpc_turn(cluster->rpc, (gy_deadline){0}) == GY_OK) {
    }
}

typedef struct question {
    gy_client_use use;
    void *arg;
    bool is_over;
    gy_error outcome;
} question;

static void answered(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    question *asks = arg;
    if (status == GY_OK && asks->use != NULL) {
        status = asks->use(asks->arg, answer);
    }
    asks->is_over = true;
    gy_error_take(&asks->outcome, status);
}

/* Another kind of process answers at a name server's address. If that is so for all addresses,
 * waiting does not help. */
static gy_status check_roles(const gy_cluster *cluster, bool is_patient)
{
    gy_rpc_facts facts = {.text = ""};
    int others = 0;
    for (int i = 0; i < cluster->server_count; i++) {
        gy_rpc_facts one;
        if (gy_rpc_look(cluster->rpc, cluster->servers[i], &one) && one.is_up &&
            one.role != GY_RPC_NAMESERVER) {
            facts = one;
            others++;
        }
    }
    if (others == 0 || (is_patient && others < cluster->server_count)) {
        return GY_OK;
    }
    return gy_fail(GY_ARG,
                   "%s is no name server: expected the address that gyre nameserver prints "
                   "(--nameservers)",
                   facts.text);
}

/* A connected name server, another than the last one if possible; 0: none. */
static gy_rpc_peer find_server(gy_cluster *cluster)
{
    for (int i = 0; i < cluster->server_count; i++) {
        gy_rpc_facts facts;
        int at = (cluster->last + i) % cluster->server_count;
        if (gy_rpc_look(cluster->rpc, cluster->servers[at], &facts) && facts.is_up &&
            facts.role == GY_RPC_NAMESERVER) {
            cluster->last = at;
            return cluster->servers[at];
        }
    }
    return 0;
}

/* Fail with the reason why the first one cannot be reached. */
static gy_status report_unreachable(gy_cluster *cluster)
{
    question asks = {0};
    GY_TRY(check_roles(cluster, false));
    Gy__Cluster__AskList nothing = GY__CLUSTER__ASK_LIST__INIT;
    const gy_rpc_request request = {.type = GY_NET_LIST,
                                    .message = &nothing.base,
                                    .deadline = gy_env_deadline(cluster->env, 0.001),
                                    .done = answered,
                                    .arg = &asks};
    GY_TRY(gy_rpc_call(cluster->rpc, cluster->servers[0], &request, NULL));
    while (!asks.is_over) {
        (void)gy_rpc_turn(cluster->rpc, gy_env_deadline(cluster->env, 1));
    }
    return asks.outcome.status < 0
               ? gy_fail(
                     GY_PEER,
                     "no name server answers (none runs there, or none is the leader): %.900s",
                     asks.outcome.text)
               : GY_AGAIN; /* it came back */
}

/* Send the request once to a connected name server. GY_AGAIN: it has no answer yet, or asks for
 * a repetition. */
static gy_status ask_once(gy_cluster *cluster, gy_rpc_peer peer, gy_rpc_request *request,
                          question *asks)
{
    asks->is_over = false;
    request->arg = asks;
    request->done = answered;
    request->is_hasty = true;
    gy_status begun = gy_rpc_call(cluster->rpc, peer, request, NULL);
    if (begun == GY_PEER) {
        return GY_AGAIN;
    }
    if (begun != GY_OK) {
        begun =
            begun < 0 ? begun : gy_fail(GY_LIMIT, "too many requests wait for the name server");
        gy_error_take(&asks->outcome, begun);
        return begun;
    }
    while (!asks->is_over) {
        (void)gy_rpc_turn(cluster->rpc, gy_env_deadline(cluster->env, 1));
    }
    gy_status status = asks->outcome.status;
    if (status == GY_PEER) {
        cluster->last++;
    }
    return status == GY_PEER || status == GY_TIMEOUT ? GY_AGAIN : status;
}

/* Has no name server been connected for the whole connect timeout, over successive requests?
 * With is_short the deadline alone is no proof. */
static bool is_unreachable(gy_cluster *cluster, int64_t now_ns, gy_deadline deadline,
                           bool is_short)
{
    if (cluster->absent_ns == 0) {
        cluster->absent_ns = now_ns;
    }
    return now_ns >= cluster->absent_ns + cluster->patience_ns ||
           (now_ns >= deadline.at_ns && !is_short);
}

/* The deadline has passed. If a name server was connected, only its answer is missing. */
static gy_status report_late(const question *asks, bool is_short)
{
    const gy_status status = asks->is_over ? asks->outcome.status : GY_OK;
    return status < 0 && !(status == GY_PEER && is_short)
               ? gy_error_raise(&asks->outcome)
               : gy_fail(GY_TIMEOUT, "the name server has no answer yet");
}

static gy_status ask(gy_cluster *cluster, gy_rpc_request *call, question *asks)
{
    const int64_t begun_ns = gy_now_ns(cluster->env);
    const gy_deadline deadline = call->deadline;
    const bool is_hasty = deadline.at_ns < begun_ns + cluster->patience_ns;
    gy_status status = GY_AGAIN;
    if (begun_ns - cluster->asked_ns >= cluster->patience_ns) {
        cluster->absent_ns = 0; /* no request checked it meanwhile */
    }
    while (status == GY_AGAIN) {
        gy_rpc_peer peer = find_server(cluster);
        int64_t now_ns = gy_now_ns(cluster->env);
        if (peer != 0) {
            status = ask_once(cluster, peer, call, asks);
            cluster->has_seen = true;
            cluster->absent_ns = 0;
            now_ns = gy_now_ns(cluster->env);
        } else if (check_roles(cluster, true) < 0) {
            return GY_ARG;
        } else if (is_unreachable(cluster, now_ns, deadline, is_hasty && cluster->has_seen)) {
            return report_unreachable(cluster);
        }
        if (status == GY_AGAIN && now_ns >= deadline.at_ns) {
            return report_late(asks, is_hasty);
        }
        if (status == GY_AGAIN) { /* while the state may still change */
            gy_deadline pause = {GY_MIN(now_ns + pause_ns, deadline.at_ns)};
            while (gy_rpc_turn(cluster->rpc, pause) == GY_OK &&
                   gy_now_ns(cluster->env) < pause.at_ns && find_server(cluster) == 0) {
            }
        }
    }
    return status < 0 ? gy_error_raise(&asks->outcome) : status;
}

gy_status gy_client_ask(gy_cluster *cluster, gy_net_type type, const ProtobufCMessage *request,
                        gy_deadline deadline, gy_client_use use, void *arg)
{
    gy_rpc_request call = {.type = (uint32_t)type, .message = request, .deadline = deadline};
    question asks = {.use = use, .arg = arg};
    const gy_status status = ask(cluster, &call, &asks);
    cluster->asked_ns = gy_now_ns(cluster->env);
    return status;
}
