/* The loop: win the election, load the machine from the table, serve, and load again when the
 * machine ends. */
#include "cluster/server/server_priv.h"

#include "base/signals.h"
#include "control/names/records.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const int64_t second_ns = 1000000000;

void gy_server_fail(gy_server *server, gy_status status)
{
    if (!server->is_over) {
        server->is_over = true;
        gy_error_take(&server->why, status);
    }
}

void gy_server_step(gy_server *server, gy_names_event *event)
{
    if (server->names == NULL) {
        return;
    }
    event->now_ns = gy_now_ns(server->env);
    gy_status status = gy_names_step(server->names, event, &server->effects);
    if (status < 0) {
        gy_server_fail(server, status);
        return;
    }
    gy_server_effects(server);
}

/* ---- The table ---- */

static void stored(void *arg, gy_key key, uint64_t version, gy_status status)
{
    gy_server *server = arg;
    GY_ASSERT(server->storing > 0);
    server->storing--;
    gy_names_event event = {.kind = GY_NAMES_STORED,
                            .key = key,
                            .version = version,
                            .status = status,
                            .reason = status < 0 ? gy_error_text() : NULL};
    gy_server_step(server, &event);
    if (status == GY_OK && key.high == NAMES_OWN_KEY && key.low == 0 && server->names != NULL) {
        gy_server_listen(server);
    }
}

static void report_refused(gy_server *server)
{
    while (server->refused_count > 0 && server->names != NULL) {
        const struct server_refused one = server->refused[--server->refused_count];
        gy_server_step(server, &(gy_names_event){.kind = GY_NAMES_STORED,
                                                 .key = one.key,
                                                 .version = one.version,
                                                 .status = one.status,
                                                 .reason = "it could not be started"});
    }
}

static gy_status load(void *arg, gy_key key, uint64_t version, const void *data,
                      size_t size_bytes)
{
    gy_server *server = arg;
    return gy_names_load(server->names, key, version, data, size_bytes);
}

/* ---- Elected ---- */

static void hear(void *arg, gy_rpc_peer peer, gy_rpc_event event)
{
    gy_server *server = arg;
    if (event == GY_RPC_GONE) {
        gy_server_speakers_leave(&server->daemons, peer);
        gy_server_speakers_leave(&server->managers, peer);
    }
    if (event == GY_RPC_GONE || event == GY_RPC_ANEW) {
        gy_blobs_leave(server->blobs, peer);
    }
}

void gy_server_listen(gy_server *server)
{
    if (server->is_listening) {
        return;
    }
    gy_status status = gy_rpc_listen(server->rpc, server->listen, server->address);
    if (status < 0) {
        gy_server_fail(server, status);
        return;
    }
    server->is_listening = true;
    if (server->options->on_listening != NULL) {
        server->options->on_listening(server->options->arg, server->address);
    }
}

/* Stop all messages and stores at once: another leader may exist already. */
static void step_down(gy_server *server)
{
    gy_names_free(server->names);
    server->names = NULL;
    server->wake_ns = INT64_MAX;
    server->held_count = server->refused_count = 0;
    gy_rpc_free(server->rpc);
    server->rpc = NULL;
    server->is_listening = false;
    gy_server_speakers_free(&server->daemons);
    gy_server_speakers_free(&server->managers);
    gy_server_outputs_free(&server->outputs);
}

static gy_status become_leader(gy_server *server)
{
    const gy_nameserver_options *options = server->options;
    gy_rpc_options node = {.name = "name server",
                           .role = GY_RPC_NAMESERVER,
                           .methods = server->methods,
                           .method_count = SERVER_METHODS,
                           .arg = server,
                           .hear = hear,
                           .key_file = options->key_file,
                           .is_plaintext = options->is_plaintext,
                           .stranger_max = 256,
                           .bulk = &server->bulk};
    server->anew_ns = 0;
    return gy_rpc_new(server->env, &node, &server->rpc);
}

static void elected(void *arg, bool is_it, uint64_t number)
{
    gy_server *server = arg;
    server->is_elected = is_it;
    gy_debug("elected: %d, number %llu", is_it, (unsigned long long)number);
    if (!is_it && server->rpc != NULL) {
        gy_warn("another name server may be the leader now: this one has stopped serving");
    }
}

/* Load the machine from the table once all stores of an older one have ended. */
static void make_machine(gy_server *server)
{
    gy_status status = gy_names_new(&server->names_options, &server->names);
    status = status == GY_OK ? gy_persist_table_load(server->table, load, server) : status;
    if (status == GY_OK) {
        server->made_ns = gy_now_ns(server->env);
        gy_server_step(server, &(gy_names_event){.kind = GY_NAMES_BEGIN});
        return;
    }
    gy_names_free(server->names);
    server->names = NULL;
    /* Users and passwords may change while it runs; they are checked when it starts. */
    if (status != GY_IO && status != GY_TIMEOUT && status != GY_PEER && status != GY_STATE) {
        gy_server_fail(server, status);
        return;
    }
    gy_warn("the table cannot be read, it is tried again: %s", gy_error_text());
    server->anew_ns = gy_now_ns(server->env) + second_ns;
}

/* Act on a change of leadership. */
static void settle(gy_server *server)
{
    if (!server->is_elected && server->rpc != NULL) {
        step_down(server);
    } else if (server->is_elected && server->rpc == NULL && server->storing == 0) {
        gy_status status = become_leader(server);
        if (status < 0) {
            gy_server_fail(server, status);
            return;
        }
    }
    if (server->rpc != NULL && server->names == NULL && server->storing == 0 &&
        gy_now_ns(server->env) >= server->anew_ns) {
        make_machine(server);
    }
    if (server->names != NULL && gy_now_ns(server->env) >= server->wake_ns) {
        server->wake_ns = INT64_MAX;
        gy_server_step(server, &(gy_names_event){.kind = GY_NAMES_TIMER});
    }
    report_refused(server);
}

/* A standby logs which leader it waits for, and with etcd watches whether that leader is alive;
 * an SQLite lock ends with its process. */
static void check_leader(gy_server *server)
{
    char value[GY_TABLE_VALUE_BYTES];
    uint64_t number = 0;
    if (server->is_elected) {
        gy_server_unwatch(server);
        return;
    }
    if (gy_persist_table_leader(server->table, "nameserver", value, &number) != GY_OK ||
        number == server->watch.number) {
        return;
    }
    server->watch.number = number;
    memcpy(server->leader, value, sizeof(value));
    gy_warn("the name server at %s is the leader: this one is on standby", value);
    if (strncmp(server->options->table, "etcd:", 5) == 0) {
        gy_server_watch(server, value, number);
    }
}

/* ---- The loop ---- */

static void wait(gy_server *server, int signals)
{
    int64_t until_ns = GY_MIN(server->wake_ns, gy_persist_table_next(server->table).at_ns);
    struct pollfd files[5] = {{.fd = signals, .events = POLLIN},
                              {.fd = gy_persist_table_fd(server->table), .events = POLLIN},
                              {.fd = -1, .events = POLLIN},
                              {.fd = -1, .events = POLLIN},
                              {.fd = -1, .events = POLLIN}};
    if (server->watch.rpc != NULL) {
        files[4].fd = gy_rpc_fd(server->watch.rpc);
        until_ns = GY_MIN(until_ns, gy_server_watch_next(server));
    }
    if (server->page != NULL) {
        files[3].fd = gy_page_fd(server->page);
        until_ns = GY_MIN(until_ns, gy_page_next(server->page).at_ns);
    }
    if (server->rpc != NULL) {
        files[2].fd = gy_rpc_fd(server->rpc);
        until_ns = GY_MIN(until_ns, gy_rpc_next(server->rpc).at_ns);
    }
    if (server->rpc != NULL && server->names == NULL && server->storing == 0) {
        until_ns = GY_MIN(until_ns, server->anew_ns);
    }
    int64_t left_ns = until_ns - gy_now_ns(server->env);
    int64_t wait_ms = left_ns <= 0 ? 0 : GY_MIN((left_ns + 999999) / 1000000, (int64_t)1000);
    if (poll(files, GY_COUNT(files), (int)wait_ms) < 0 && errno != EINTR) {
        gy_server_fail(server, gy_fail(GY_IO, "cannot wait: %s", strerror(errno)));
    }
    if (gy_signals_count(signals) > 0 && !server->is_over) {
        server->is_over = true;
        server->why.status = GY_OK;
    }
}

static void run(gy_server *server, int signals)
{
    while (!server->is_over) {
        settle(server);
        if (server->is_over) {
            return;
        }
        wait(server, signals);
        (void)gy_persist_table_turn(server->table, (gy_deadline){0});
        if (server->rpc != NULL && server->is_elected) {
            (void)gy_rpc_turn(server->rpc, (gy_deadline){0});
        }
        if (server->page != NULL) {
            gy_page_turn(server->page);
        }
        gy_server_watch_turn(server);
        check_leader(server);
    }
}

/* ---- Beginning and end ---- */

static int64_t nanoseconds(double seconds)
{
    return (int64_t)(seconds * 1e9);
}

static gy_status take_options(gy_server *server, const gy_nameserver_options *options)
{
    const double lengths[] = {options->heartbeat_timeout_s,
                              options->lease_s,
                              options->preempt_after_s,
                              options->preemption_grace_s,
                              options->manager_start_timeout_s,
                              options->gang_hold_s,
                              options->table_lease_s};
    const int counts[] = {options->attempts_max, options->daemons_max, options->jobs_max,
                          options->managers_max, options->finished_jobs_max};
    for (size_t i = 0; i < GY_COUNT(lengths); i++) {
        if (!(lengths[i] >= 0 && lengths[i] < 1e9)) {
            return gy_fail(GY_ARG, "%g seconds are no length of time here", lengths[i]);
        }
    }
    for (size_t i = 0; i < GY_COUNT(counts); i++) {
        if (counts[i] < 0 || counts[i] > 1000000) {
            return gy_fail(GY_ARG, "a limit of %d is none from 0 to 1000000", counts[i]);
        }
    }
    if (options->listen == NULL || options->table == NULL) {
        return gy_fail(GY_ARG, "a name server needs an address to listen at and a table");
    }
    server->names_options =
        (gy_names_options){.dead_ns = nanoseconds(options->heartbeat_timeout_s),
                           .lease_ns = nanoseconds(options->lease_s),
                           .patience_ns = nanoseconds(options->preempt_after_s),
                           .grace_ns = nanoseconds(options->preemption_grace_s),
                           .gang_hold_ns = nanoseconds(options->gang_hold_s),
                           .start_ns = nanoseconds(options->manager_start_timeout_s),
                           .attempts_max = (uint32_t)options->attempts_max,
                           .daemon_max = (uint32_t)options->daemons_max,
                           .job_max = (uint32_t)options->jobs_max,
                           .manager_max = (uint32_t)options->managers_max,
                           .ended_max = (uint32_t)options->finished_jobs_max};
    server->daemons.most = options->daemons_max > 0 ? (size_t)options->daemons_max : 4096;
    server->managers.most = options->jobs_max > 0 ? (size_t)options->jobs_max : 4096;
    server->outputs.most = server->managers.most;
    server->options = options;
    return GY_OK;
}

static gy_status open_files(gy_server *server)
{
    char beside[4096];
    const gy_nameserver_options *options = server->options;
    const char *table = options->table;
    const char *folder = options->files;
    if (folder == NULL && strncmp(table, "etcd:", 5) == 0) {
        return gy_fail(GY_ARG, "with a table in etcd a folder for the files of jobs is needed");
    }
    if (folder == NULL) {
        table += strncmp(table, "sqlite:", 7) == 0 ? 7 : 0;
        if (snprintf(beside, sizeof(beside), "%s.files", table) >= (int)sizeof(beside)) {
            return gy_fail(GY_ARG, "the path of the table is too long");
        }
        folder = beside;
    }
    uint64_t limit = options->files_limit_bytes;
    return gy_blobs_open(server->env,
                         &(gy_blobs_options){.folder = folder,
                                             .limit_bytes = limit > 0 ? limit : 10ull << 30,
                                             .mark = gy_server_mark,
                                             .arg = server},
                         &server->blobs);
}

/* Choose a free port before the campaign and hold it bound until the end, so that clients know
 * the address. */
static gy_status choose_port(gy_server *server)
{
    const char *listen = server->options->listen;
    const char *colon = strrchr(listen, ':');
    const bool is_bracketed = listen[0] == '[' && colon != NULL && colon[-1] == ']';
    const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char host[GY_TABLE_VALUE_BYTES], port[8] = "";
    const int one = 1;
    const size_t size = colon == NULL ? strlen(listen) : (size_t)(colon - listen);
    if (size >= sizeof(host) - sizeof(port)) {
        return gy_fail(GY_ARG, "%.80s... is too long for an address", listen);
    }
    (void)snprintf(server->listen, sizeof(server->listen), "%s", listen);
    if (colon == NULL || strcmp(colon, ":0") != 0) {
        return GY_OK;
    }
    (void)snprintf(host, sizeof(host), "%.*s", (int)size - 2 * is_bracketed,
                   listen + is_bracketed);
    if (getaddrinfo(host, "0", &wanted, &found) != 0) {
        return gy_fail(GY_NOTFOUND, "host %s is not known", host);
    }
    server->chosen = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_storage at;
    socklen_t at_bytes = sizeof(at);
    const bool is_bound =
        server->chosen >= 0 &&
        setsockopt(server->chosen, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
        bind(server->chosen, found->ai_addr, found->ai_addrlen) == 0 &&
        getsockname(server->chosen, (struct sockaddr *)&at, &at_bytes) == 0 &&
        getnameinfo((struct sockaddr *)&at, at_bytes, NULL, 0, port, sizeof(port),
                    NI_NUMERICSERV) == 0;
    freeaddrinfo(found);
    (void)snprintf(server->listen, sizeof(server->listen), "%.*s:%s", (int)size, listen, port);
    return is_bound ? GY_OK
                    : gy_fail(GY_IO, "cannot listen at %s: %s", listen, strerror(errno));
}

/* The address for others: if it listens on all addresses, its host's name. */
static void name_address(const char *listen, char address[GY_TABLE_VALUE_BYTES])
{
    char host[128] = "";
    const char *port = strrchr(listen, ':');
    const bool is_anywhere =
        strncmp(listen, "0.0.0.0:", 8) == 0 || strncmp(listen, "[::]:", 5) == 0;
    if (is_anywhere && gethostname(host, sizeof(host) - 1) == 0) {
        (void)snprintf(address, GY_TABLE_VALUE_BYTES, "%s%s", host, port);
    } else {
        (void)snprintf(address, GY_TABLE_VALUE_BYTES, "%s", listen);
    }
}

/* Warn of a cluster on several hosts that depends on a single one. */
static void report_what_is_lost(const gy_nameserver_options *options)
{
    static const char *const here[] = {"127.", "localhost:", "[::1]:"};
    bool is_here = strncmp(options->table, "etcd:", 5) == 0;
    for (size_t i = 0; i < GY_COUNT(here); i++) {
        is_here = is_here || strncmp(options->listen, here[i], strlen(here[i])) == 0;
    }
    if (!is_here) {
        gy_warn("the table is a file on this host: while the host is down no manager that ends "
                "is replaced, and if the host is lost only `gyre job resume` continues such "
                "jobs; a table in etcd outlives the host");
    }
}

static gy_status open_table(gy_server *server)
{
    const gy_nameserver_options *options = server->options;
    GY_TRY(gy_persist_table_open(
        server->env,
        &(gy_persist_table_options){.where = options->table,
                                    .user = options->table_user,
                                    .password_file = options->table_password_file,
                                    .authorities = options->table_authorities,
                                    .certificate = options->table_certificate,
                                    .certificate_key = options->table_certificate_key,
                                    .is_plaintext = options->table_is_plaintext,
                                    .lease_s = options->table_lease_s,
                                    .stored = stored,
                                    .elected = elected,
                                    .arg = server},
        &server->table));
    char address[GY_TABLE_VALUE_BYTES];
    report_what_is_lost(options);
    name_address(server->listen, address);
    return gy_persist_table_campaign(server->table, "nameserver", address);
}

/* Each daemon, manager and transfer needs a descriptor. */
static void raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
            gy_debug("the limit of open files stays: %s", strerror(errno));
        }
    }
}

static gy_status open_page(gy_server *server)
{
    char beside[4096];
    const gy_nameserver_options *options = server->options;
    const char *table = options->table;
    const char *token_file = options->page_token_file;
    if (options->page == NULL) {
        return token_file == NULL ? GY_OK
                                  : gy_fail(GY_ARG, "a token is for a status page alone");
    }
    if (token_file == NULL && strncmp(table, "etcd:", 5) == 0) {
        return gy_fail(GY_ARG, "with a table in etcd a file for the page's token is needed");
    }
    if (token_file == NULL) {
        table += strncmp(table, "sqlite:", 7) == 0 ? 7 : 0;
        if (snprintf(beside, sizeof(beside), "%s.token", table) >= (int)sizeof(beside)) {
            return gy_fail(GY_ARG, "the path of the table is too long");
        }
        token_file = beside;
    }
    server->page_options = (gy_page_options){.listen = options->page,
                                             .token_file = token_file,
                                             .write = gy_server_write,
                                             .arg = server};
    GY_TRY(gy_page_open(server->env, &server->page_options, &server->page));
    server->page_options.token_file = NULL; /* it is written */
    if (options->on_page_ready != NULL) {
        options->on_page_ready(options->arg, gy_page_url(server->page), token_file);
    }
    return GY_OK;
}

gy_status gy_nameserver_run(const gy_nameserver_options *options)
{
    gy_nameserver_options known;
    GY_TRY(gy_options_take(gy_nameserver_options, &known, options));
    options = &known;
    int signals = -1;
    gy_server server = {.env = gy_env_real(),
                        .wake_ns = INT64_MAX,
                        .watch = {.down_ns = INT64_MAX},
                        .chosen = -1};
    server.began_wall_ns = server.env->ops->wall_ns(server.env);
    server.bulk = (gy_bulk_server){
        .roles = GY_RPC_MAY(GY_RPC_DAEMON), .find = gy_server_find, .arg = &server};
    GY_TRY(take_options(&server, options));
    gy_server_methods(server.methods);
    raise_limit();
    GY_TRY(gy_signals_open(&signals));
    /* Detect a wrong key or address now and not when elected. */
    gy_status status = become_leader(&server);
    status = status == GY_OK ? choose_port(&server) : status;
    status = status == GY_OK ? open_files(&server) : status;
    status = status == GY_OK ? open_table(&server) : status;
    status = status == GY_OK ? open_page(&server) : status;
    if (status == GY_OK) {
        step_down(&server);
        run(&server, signals);
        status = server.why.status < 0 ? gy_error_raise(&server.why) : GY_OK;
    }
    gy_error why;
    gy_error_take(&why, status);
    step_down(&server);
    gy_server_unwatch(&server);
    gy_page_close(server.page);
    gy_persist_table_close(server.table);
    gy_blobs_close(server.blobs);
    gy_free(server.effects.items);
    gy_free(server.held);
    gy_free(server.refused);
    if (server.chosen >= 0) {
        close(server.chosen);
    }
    gy_signals_close(signals);
    return status < 0 ? gy_error_raise(&why) : GY_OK;
}
