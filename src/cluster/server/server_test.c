/* Goal: a name server in its own process, killed at any point of a job's life, forgets nothing
 * that it has confirmed; each role can do what it is allowed to, and nothing else. */
#include "cluster/server/server_test.h"

static const gy_key job_key = {0x1111, 0x2222};

/* ---- An uploaded program ---- */

typedef struct program {
    uint8_t spec[1024];
    size_t spec_bytes;
    gy_key key, content;
} program;

static const char script[] = "#!/bin/sh\nexit 0\n";

static gy_key hash_of(const void *data, size_t size)
{
    gy_net_digest *digest = NULL;
    assert_ok(gy_net_digest_begin(&digest));
    gy_net_digest_feed(digest, data, size);
    gy_key key = gy_net_digest_end(digest);
    gy_net_digest_free(digest);
    return key;
}

static program make_program(const char *name, uint64_t size)
{
    program made = {.content = hash_of(script, sizeof(script))};
    char *arguments[] = {(char *)(uintptr_t)name};
    Gy__Cluster__Key content = kit_key(made.content);
    Gy__Cluster__SpecFile file, *files[] = {&file};
    Gy__Cluster__JobSpec spec;
    gy__cluster__job_spec__init(&spec);
    gy__cluster__spec_file__init(&file);
    file.name = arguments[0];
    file.content = &content;
    file.size_bytes = size;
    file.is_executable = true;
    spec.arguments = arguments;
    spec.n_arguments = 1;
    spec.files = files;
    spec.n_files = 1;
    spec.directory = (char *)(uintptr_t) "/tmp";
    made.spec_bytes = gy__cluster__job_spec__get_packed_size(&spec);
    assert_true(made.spec_bytes <= sizeof(made.spec));
    (void)gy__cluster__job_spec__pack(&spec, made.spec);
    made.key = hash_of(made.spec, made.spec_bytes);
    return made;
}

static gy_status put(kit_agent *at, gy_key key, const void *data, size_t size)
{
    Gy__Cluster__Key content = kit_key(key);
    Gy__Cluster__PutBlob message = GY__CLUSTER__PUT_BLOB__INIT;
    message.content = &content;
    message.size_bytes = size;
    message.data = (ProtobufCBinaryData){.len = size, .data = (uint8_t *)(uintptr_t)data};
    return kit_ask(at, GY_NET_PUT_BLOB, &message.base);
}

static void put_program(kit_agent *at, const program *made)
{
    assert_ok(put(at, made->content, script, sizeof(script)));
    assert_ok(put(at, made->key, made->spec, made->spec_bytes));
}

static gy_status submit(kit_agent *at, gy_key job, gy_key spec_key, uint32_t weight)
{
    Gy__Cluster__Key key = kit_key(job), spec = kit_key(spec_key);
    Gy__Cluster__Submit message;
    gy__cluster__submit__init(&message);
    message.job = &key;
    message.spec = &spec;
    message.platform = gy_net_platform();
    message.weight = weight;
    message.name = (char *)(uintptr_t) "count";
    return kit_ask(at, GY_NET_SUBMIT, &message.base);
}

/* ---- A job's life ---- */

typedef enum phase {
    BROUGHT, /* its files */
    ACCEPTED,
    STARTED,
    MANAGED,
    ALLOCATED,
    ENDED,
    PHASES
} phase;

typedef struct life {
    kit_server server;
    kit_agent user, daemon, manager;
    kit_agent *agents[3];
    size_t count; /* number of connected ones */
    int kill_at;
    uint32_t epoch; /* of its manager */
    gy_status ended;
    int ends;
    bool is_told;     /* is_told: the specification came with the order, */
    uint8_t spec[64]; /* its beginning */
    size_t spec_bytes;
} life;

static void has_ended(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    life *at = arg;
    at->ends++;
    at->ended =
        status == GY_OK ? (gy_status)((const Gy__Cluster__Ended *)answer)->status : GY_AGAIN;
}

static void wait_end(life *at)
{
    Gy__Cluster__Key key = kit_key(job_key);
    Gy__Cluster__WaitEnd message = GY__CLUSTER__WAIT_END__INIT;
    message.job = &key;
    assert_ok(gy_rpc_call(at->user.rpc, at->user.server,
                          &(gy_rpc_request){.type = GY_NET_WAIT_END,
                                            .message = &message.base,
                                            .deadline = gy_deadline_after(KIT_WAIT_S),
                                            .done = has_ended,
                                            .arg = at},
                          NULL));
}

static void reach(life *at, phase now)
{
    if (at->kill_at == (int)now) {
        (void)kit_server_end(&at->server, SIGKILL);
        kit_server_start(&at->server);
    }
}

static gy_status end_job(kit_agent *const *agents, size_t count, kit_agent *daemon, gy_key job,
                         uint32_t epoch, gy_status status)
{
    Gy__Cluster__Key key = kit_key(job);
    Gy__Cluster__JobEnd message;
    gy__cluster__job_end__init(&message);
    message.job = &key;
    message.epoch = epoch;
    message.status = status;
    message.reason = (char *)(uintptr_t) "as it was told";
    return kit_ask_of(agents, count, daemon, GY_NET_JOB_END, &message.base);
}

static void is_fetched(void *arg, gy_status status, uint64_t size_bytes)
{
    kit_agent *at = arg;
    (void)size_bytes;
    at->is_answered = true;
    at->status = status;
    snprintf(at->text, sizeof(at->text), "%s", status < 0 ? gy_error_text() : "");
}

/* Fetch a blob into memory. */
static gy_status fetch(kit_agent *const *agents, size_t count, kit_agent *at,
                       const char *address, gy_key key, char *got, size_t size)
{
    uint8_t name[64];
    Gy__Cluster__Key blob = kit_key(key);
    Gy__Cluster__BulkName asks;
    gy__cluster__bulk_name__init(&asks);
    asks.blob = &blob;
    FILE *file = tmpfile();
    assert_non_null(file);
    const gy_bulk_fetch what = {.address = address,
                                .name = name,
                                .name_bytes = protobuf_c_message_pack(&asks.base, name),
                                .size_bytes = UINT64_MAX,
                                .deadline = gy_deadline_after(KIT_WAIT_S),
                                .fd = fileno(file),
                                .done = is_fetched,
                                .arg = at};
    at->is_answered = false;
    assert_ok(gy_rpc_bulk_begin(at->rpc, &what, &(uint64_t){0}));
    KIT_UNTIL(agents, count, at->is_answered);
    if (at->status == GY_OK) {
        assert_int_equal(pread(fileno(file), got, size, 0), size);
    }
    fclose(file);
    return at->status;
}

static void is_told(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    life *at = arg;
    const Gy__Cluster__Spec *spec = (const Gy__Cluster__Spec *)answer;
    assert_ok(status);
    at->is_told = true;
    at->spec_bytes = spec->packed.len;
    if (spec->packed.len > 0) {
        memcpy(at->spec, spec->packed.data, GY_MIN(spec->packed.len, sizeof(at->spec)));
    }
}

static void ask_spec(life *at, const kit_agent *from)
{
    Gy__Cluster__Key key = kit_key(job_key);
    Gy__Cluster__AskSpec message = GY__CLUSTER__ASK_SPEC__INIT;
    message.job = &key;
    at->is_told = false;
    assert_ok(gy_rpc_call(from->rpc, from->server,
                          &(gy_rpc_request){.type = GY_NET_ASK_SPEC,
                                            .message = &message.base,
                                            .deadline = gy_deadline_after(KIT_WAIT_S),
                                            .done = is_told,
                                            .arg = at},
                          NULL));
    KIT_UNTIL(at->agents, at->count, at->is_told);
}

/* A daemon fetches the specification of a job that it starts. Submitters cannot, since it may
 * contain secrets. */
static void fetch_spec(life *at, const program *made)
{
    char got[sizeof(made->spec)];
    ask_spec(at, &at->user);
    assert_int_equal(at->spec_bytes, 0);
    ask_spec(at, &at->daemon);
    assert_int_equal(at->spec_bytes, made->spec_bytes);
    assert_memory_equal(at->spec, made->spec, GY_MIN(made->spec_bytes, sizeof(at->spec)));
    assert_ok(fetch(at->agents, at->count, &at->daemon, at->server.address, made->key, got,
                    made->spec_bytes));
    assert_memory_equal(got, made->spec, made->spec_bytes);
    assert_ok(fetch(at->agents, at->count, &at->daemon, at->server.address, made->content, got,
                    sizeof(script)));
    assert_memory_equal(got, script, sizeof(script));
}

static void live_through(int kill_at)
{
    static life at;
    const program made = make_program("prog", sizeof(script));
    at = (life){.kill_at = kill_at, .agents = {&at.user, &at.daemon, &at.manager}};
    kit_server_make(&at.server);
    /* A stored epoch may have been ordered: the name server waits for its manager. */
    at.server.options.manager_start_timeout_s = kill_at == ACCEPTED ? 0.2 : 20;
    kit_server_start(&at.server);
    kit_agent_open(&at.user, &at.server, GY_RPC_SUBMITTER, NULL);
    kit_daemon_open(&at.daemon, &at.server, 7, 4);
    at.count = 2;
    KIT_UNTIL(at.agents, at.count, at.daemon.state.sequence > 0);
    kit_turn(at.agents, at.count); /* it sends */
    put_program(&at.user, &made);
    reach(&at, BROUGHT);
    assert_ok(submit(&at.user, job_key, made.key, 0));
    reach(&at, ACCEPTED);
    assert_ok(submit(&at.user, job_key, made.key, 0)); /* the same job again */
    assert_int_equal(submit(&at.user, job_key, made.content, 0), GY_FORMAT);
    wait_end(&at);
    KIT_UNTIL(at.agents, at.count, at.daemon.state.manager_count > 0);
    if (kill_at == ACCEPTED) { /* and now it may take as long as it needs */
        at.server.options.manager_start_timeout_s = 20;
        (void)kit_server_end(&at.server, SIGKILL);
        kit_server_start(&at.server);
    }
    at.epoch = at.daemon.managers[at.daemon.state.manager_count - 1].epoch;
    assert_true(kill_at == ACCEPTED || at.epoch == 1);
    fetch_spec(&at, &made);
    reach(&at, STARTED);
    kit_manager_open(&at.manager, &at.server, job_key, at.epoch, 3);
    at.count = 3;
    KIT_UNTIL(at.agents, at.count, at.manager.requests.seen > 0);
    reach(&at, MANAGED);
    KIT_UNTIL(at.agents, at.count, at.manager.held_count == 3);
    assert_int_equal(at.daemon.state.lease_count, 3);
    reach(&at, ALLOCATED);
    KIT_UNTIL(at.agents, at.count,
              end_job(at.agents, at.count, &at.daemon, job_key, at.epoch, GY_OK) == GY_OK);
    at.daemon.state.manager_count = 0;
    reach(&at, ENDED);
    KIT_UNTIL(at.agents, at.count, at.manager.is_over && at.daemon.state.lease_count == 0);
    assert_int_equal(at.manager.over, GY_OK);
    KIT_UNTIL(at.agents, at.count, at.ends == 1);
    assert_int_equal(at.ended, GY_OK);
    /* No second manager, whatever was killed. */
    assert_true(kill_at == ACCEPTED || at.daemon.starts == 1);
    kit_agent_close(&at.manager);
    kit_agent_close(&at.daemon);
    kit_agent_close(&at.user);
    kit_server_remove(&at.server);
}

GY_TEST(a_job_lives_and_ends)
{
    live_through(-1);
}

GY_TEST(a_name_server_killed_at_any_point_forgets_nothing)
{
    for (int at = 0; at < PHASES; at++) {
        live_through(at);
    }
}

/* ---- Permissions of roles ---- */

GY_TEST(each_role_may_what_is_its_own)
{
    enum { D = GY_RPC_MAY(GY_RPC_DAEMON), M = GY_RPC_MAY(GY_RPC_MANAGER) };
    enum { S = GY_RPC_MAY(GY_RPC_SUBMITTER), W = GY_RPC_MAY(GY_RPC_WATCHER) };
    enum { O = GY_RPC_MAY(GY_RPC_OPERATOR) };
    static const struct {
        gy_net_type type;
        unsigned roles;
    } rules[] = {{GY_NET_DAEMON_BYE, D}, {GY_NET_ASK_SPEC, D | S}, {GY_NET_JOB_END, D},
                 {GY_NET_RELEASE, M},    {GY_NET_ASK_BLOBS, S},    {GY_NET_PUT_BLOB, S},
                 {GY_NET_SUBMIT, S},     {GY_NET_KILL, S},         {GY_NET_DRAIN, O},
                 {GY_NET_WAIT_END, S},   {GY_NET_LIST, S | W | O}, {GY_NET_OUTPUT, D},
                 {GY_NET_ASK_OUTPUT, S}, {GY_NET_RESUME, S},       {GY_NET_ASK_VIEW, S | W}};
    kit_server server;
    kit_agent at;
    char got[8];
    kit_server_make(&server);
    kit_server_start(&server);
    for (int role = GY_RPC_NAMESERVER; role < GY_RPC_ROLES; role++) {
        kit_agent *agents[] = {&at};
        kit_agent_open(&at, &server, (gy_rpc_role)role, NULL);
        for (size_t i = 0; i < GY_COUNT(rules); i++) {
            const gy_rpc_method method = gy_net_method(rules[i].type);
            uint8_t nothing = 0;
            ProtobufCMessage *empty =
                protobuf_c_message_unpack(method.request, NULL, 0, &nothing);
            gy_status status = kit_ask(&at, rules[i].type, empty);
            bool is_denied = status == GY_STATE && strstr(at.text, "may not call it") != NULL;
            if (is_denied != ((rules[i].roles & GY_RPC_MAY(role)) == 0)) {
                fail_msg("a %s asks to %s: %s", gy_rpc_role_text((gy_rpc_role)role),
                         method.name, at.text);
            }
            protobuf_c_message_free_unpacked(empty, NULL);
        }
        gy_status status = fetch(agents, 1, &at, server.address, job_key, got, 0);
        assert_int_equal(status, role == GY_RPC_DAEMON ? GY_NOTFOUND : GY_STATE);
        kit_agent_close(&at);
    }
    kit_server_remove(&server);
}

/* A manager's key is valid for one job only. */
GY_TEST(a_manager_speaks_for_its_job_alone)
{
    kit_server server;
    static kit_agent at, user, other;
    kit_agent *agents[] = {&at, &user, &other};
    const program made = make_program("prog", sizeof(script));
    const gy_key jobs[] = {{1, 1}, {2, 2}};
    Gy__Cluster__Key key = kit_key(jobs[1]);
    Gy__Cluster__Release message;
    kit_server_make(&server);
    kit_server_start(&server);
    kit_agent_open(&user, &server, GY_RPC_SUBMITTER, NULL);
    put_program(&user, &made);
    assert_ok(submit(&user, jobs[1], made.key, 0));
    kit_manager_open(&at, &server, jobs[0], 1, 1);
    gy__cluster__release__init(&message);
    message.job = &key;
    message.epoch = 1;
    message.lease = 1;
    assert_int_equal(kit_ask(&at, GY_NET_RELEASE, &message.base), GY_STATE);
    assert_non_null(strstr(at.text, "sent a message for job"));
    at.is_over = false;
    at.requests.job = jobs[1]; /* it sends for another job, which is ignored */
    kit_manager_open(&other, &server, jobs[0], 1, 1);
    KIT_UNTIL(agents, 3, other.is_over); /* that one was answered: its job is unknown */
    assert_int_equal(other.over, GY_NOTFOUND);
    assert_false(at.is_over);
    for (int i = 0; i < 3; i++) {
        kit_agent_close(agents[i]);
    }
    kit_server_remove(&server);
}

/* ---- Invalid requests ---- */

GY_TEST(garbage_is_refused_with_words)
{
    kit_server server;
    kit_agent at;
    program good = make_program("prog", sizeof(script)), away = make_program("../prog", 1),
            wrong = make_program("prog", 1);
    kit_server_make(&server);
    server.options.files_limit_bytes = 4096;
    kit_server_start(&server);
    kit_agent_open(&at, &server, GY_RPC_SUBMITTER, NULL);
    assert_int_equal(put(&at, good.content, script, sizeof(script) - 1), GY_FORMAT);
    assert_ok(put(&at, good.key, good.spec, good.spec_bytes));
    assert_int_equal(submit(&at, job_key, good.key, 0), GY_NOTFOUND);
    assert_non_null(strstr(at.text, "file prog was not uploaded"));
    assert_int_equal(submit(&at, job_key, job_key, 0), GY_NOTFOUND);
    put_program(&at, &away);
    assert_int_equal(submit(&at, job_key, away.key, 0), GY_FORMAT);
    assert_non_null(strstr(at.text, "../prog"));
    assert_ok(put(&at, wrong.key, wrong.spec, wrong.spec_bytes));
    assert_int_equal(submit(&at, job_key, wrong.key, 0), GY_FORMAT);
    assert_int_equal(submit(&at, (gy_key){0}, good.key, 0), GY_FORMAT);
    assert_int_equal(submit(&at, job_key, good.key, 1001), GY_ARG);
    static char large[5000];
    assert_int_equal(put(&at, hash_of(large, sizeof(large)), large, sizeof(large)), GY_LIMIT);
    assert_ok(submit(&at, job_key, good.key, 0)); /* it still serves */
    assert_int_equal(submit(&at, job_key, good.key, 0), GY_OK);
    kit_agent_close(&at);
    kit_server_remove(&server);
}

/* ---- Shares ---- */

GY_TEST(two_jobs_share_by_their_weights)
{
    static kit_agent user, daemon, managers[2];
    kit_agent *agents[] = {&user, &daemon, &managers[0], &managers[1]};
    kit_server server;
    const program made = make_program("prog", sizeof(script));
    const gy_key jobs[] = {{1, 1}, {2, 2}};
    kit_server_make(&server);
    server.options.preempt_after_s = 0.02;
    kit_server_start(&server);
    kit_agent_open(&user, &server, GY_RPC_SUBMITTER, NULL);
    kit_daemon_open(&daemon, &server, 9, 8);
    KIT_UNTIL(agents, 2, daemon.state.sequence > 0);
    kit_turn(agents, 2); /* it sends */
    put_program(&user, &made);
    assert_ok(submit(&user, jobs[0], made.key, 100));
    KIT_UNTIL(agents, 2, daemon.state.manager_count == 1);
    kit_manager_open(&managers[0], &server, jobs[0], 1, 8);
    KIT_UNTIL(agents, 3, managers[0].held_count == 8);
    assert_ok(submit(&user, jobs[1], made.key, 300));
    KIT_UNTIL(agents, 3, daemon.state.manager_count == 2);
    kit_manager_open(&managers[1], &server, jobs[1], 1, 8);
    KIT_UNTIL(agents, 4, managers[0].held_count == 2 && managers[1].held_count == 6);
    Gy__Cluster__Key key = kit_key(jobs[1]);
    Gy__Cluster__Kill kill = GY__CLUSTER__KILL__INIT;
    kill.job = &key;
    assert_ok(kit_ask_of(agents, 4, &user, GY_NET_KILL, &kill.base));
    KIT_UNTIL(agents, 4, managers[1].is_killed);
    assert_ok(end_job(agents, 4, &daemon, jobs[1], 1, GY_STATE));
    daemon.state.manager_count = 1;
    KIT_UNTIL(agents, 4, managers[1].is_over && managers[0].held_count == 8);
    for (int i = 0; i < 4; i++) {
        kit_agent_close(agents[i]);
    }
    kit_server_remove(&server);
}

/* ---- Another name server ---- */

GY_TEST(one_that_waits_takes_over)
{
    kit_server first, second;
    kit_agent user;
    const program made = make_program("prog", sizeof(script));
    kit_server_make(&first);
    kit_server_start(&first);
    kit_agent_open(&user, &first, GY_RPC_SUBMITTER, NULL);
    put_program(&user, &made);
    assert_ok(submit(&user, job_key, made.key, 0));
    second = first;
    snprintf(second.address, sizeof(second.address), "127.0.0.1:0");
    kit_server_begin(&second);
    struct pollfd look = {.fd = second.told, .events = POLLIN};
    /* A standby is silent as long as the leader lives. */
    assert_int_equal(poll(&look, 1, 50), 0);
    (void)kit_server_end(&first, SIGKILL);
    kit_server_hear(&second);
    kit_agent_close(&user);
    kit_agent_open(&user, &second, GY_RPC_SUBMITTER, NULL);
    Gy__Cluster__Key key = kit_key(job_key);
    Gy__Cluster__Kill kill = GY__CLUSTER__KILL__INIT;
    kill.job = &key;
    assert_ok(kit_ask(&user, GY_NET_KILL, &kill.base)); /* it knows the job */
    kit_agent_close(&user);
    kit_server_remove(&second);
}

/* ---- Load ---- */

/* Memory in KiB and CPU time in milliseconds used by a process. */
static void measure(pid_t process, long *memory_kib, long *used_ms)
{
    char path[64];
    long pages = 0, user = 0, kernel = 0;
    snprintf(path, sizeof(path), "/proc/%d/statm", (int)process);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d %ld", &pages), 1);
    fclose(file);
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)process);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld",
                            &user, &kernel),
                     2);
    fclose(file);
    *memory_kib = pages * 4;
    *used_ms = (user + kernel) * 1000 / sysconf(_SC_CLK_TCK);
}

static bool are_all_up(kit_agent *const *agents, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (agents[i]->state.sequence == 0) {
            return false;
        }
    }
    return true;
}

GY_TEST(idle_daemons_cost_little)
{
    const size_t count = getenv("GYRE_SOAK") != NULL ? 1000 : 10;
    kit_server server;
    kit_agent *rows = gy_alloc_zero("test", count, sizeof(*rows));
    kit_agent **agents = gy_alloc_zero("test", count, sizeof(*agents));
    long before_kib = 0, after_kib = 0, before_ms = 0, after_ms = 0;
    assert_true(rows != NULL && agents != NULL);
    kit_server_make(&server);
    kit_server_start(&server);
    measure(server.process, &before_kib, &before_ms);
    for (size_t i = 0; i < count; i++) {
        agents[i] = &rows[i];
        kit_daemon_open(agents[i], &server, 100 + i, 4);
        KIT_UNTIL(&agents[i], 1, agents[i]->state.sequence > 0);
    }
    KIT_UNTIL(agents, count, are_all_up(agents, count));
    measure(server.process, &after_kib, &before_ms);
    const int64_t begun_ns = gy_now_ns(gy_env_real());
    const int64_t span_ns = count > 10 ? 10000000000 : 200000000;
    KIT_UNTIL(agents, count, gy_now_ns(gy_env_real()) - begun_ns > span_ns);
    long unused = 0;
    measure(server.process, &unused, &after_ms);
    printf("soak: %zu idle daemons: %.1f KiB each, %.1f %% of a core\n", count,
           (double)(after_kib - before_kib) / (double)count,
           (double)(after_ms - before_ms) * 1e8 / (double)span_ns);
#if !defined(GYRE_ASAN) && !defined(GYRE_TSAN)
    assert_true(after_kib - before_kib <= (long)count * 64 + 1024);
#endif
    for (size_t i = 0; i < count; i++) {
        kit_agent_close(agents[i]);
    }
    gy_free(agents);
    gy_free(rows);
    kit_server_remove(&server);
}

int main(void)
{
    gy_log_set_level(getenv("GYRE_LOG") != NULL ? GY_LOG_DEBUG : GY_LOG_ERROR);
    return GY_TESTS_RUN(NULL, NULL);
}
