/* Goal: the status page of a name server shows what daemons, users and managers report, with
 * untrusted texts, as JSON and as metrics, and is updated when it changes. */
#include "base/text.h"
#include "cluster/server/server_test.h"

#include <jansson.h>
#include <netdb.h>
#include <regex.h>
#include <sys/socket.h>

enum { REPLY_BYTES = 256 << 10 };

static kit_server server;
static kit_agent user, daemon_agent, manager, stranger;
static kit_agent *agents[] = {&user, &daemon_agent, &manager, &stranger};
static char url_file[64], port[8], token[80], reply[REPLY_BYTES];

/* ---- The page ---- */

/* Write url and token file name to a file. */
static void page_ready(void *arg, const char *url, const char *token_file)
{
    char line[80] = "";
    FILE *from = fopen(token_file, "r");
    GY_ASSERT(from != NULL && fgets(line, sizeof(line), from) != NULL);
    GY_ASSERT(fclose(from) == 0);
    FILE *file = fopen(arg, "w");
    GY_ASSERT(file != NULL);
    GY_ASSERT(fprintf(file, "%s %s", url, line) > 0);
    GY_ASSERT(fclose(file) == 0);
}

static void read_url(void)
{
    FILE *file = fopen(url_file, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "http://127.0.0.1:%5[0-9]/ %64[0-9a-f]", port, token), 2);
    fclose(file);
}

/* The body of the answer for that path. */
static const char *get(const char *path)
{
    char request[512];
    size_t size = 0;
    struct addrinfo *at = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    assert_int_equal(getaddrinfo("127.0.0.1", port, &hints, &at), 0);
    int file = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(file >= 0);
    assert_int_equal(connect(file, at->ai_addr, at->ai_addrlen), 0);
    freeaddrinfo(at);
    size_t length = gy_print(request, sizeof(request),
                             "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                             "Authorization: Bearer %s\r\n\r\n",
                             path, token);
    assert_int_equal(send(file, request, length, MSG_NOSIGNAL), length);
    for (;;) {
        struct pollfd look = {.fd = file, .events = POLLIN};
        assert_int_equal(poll(&look, 1, KIT_WAIT_S * 1000), 1);
        ssize_t got = recv(file, reply + size, sizeof(reply) - 1 - size, 0);
        assert_true(got >= 0);
        if (got == 0) {
            break;
        }
        size += (size_t)got;
        assert_true(size < sizeof(reply) - 1);
    }
    close(file);
    reply[size] = '\0';
    assert_memory_equal(reply, "HTTP/1.1 200 ", 13);
    const char *body = strstr(reply, "\r\n\r\n");
    assert_non_null(body);
    return body + 4;
}

static json_t *state_now(void)
{
    json_error_t error;
    const char *text = get("/state.json");
    json_t *state = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (state == NULL) {
        fail_msg("%s at %d: %s", error.text, error.position, text);
    }
    assert_null(strpbrk(text, "<>&'")); /* inside HTML it would end no element */
    return state;
}

/* The value at a path of names and indices ("jobs.0.view.stages.0.committed"), as text. */
static const char *fact(const char *path)
{
    static char text[512];
    char words[256], *rest = NULL;
    json_t *state = state_now();
    const json_t *at = state;
    snprintf(words, sizeof(words), "%s", path);
    for (char *word = strtok_r(words, ".", &rest); word != NULL && at != NULL;
         word = strtok_r(NULL, ".", &rest)) {
        at = json_is_array(at) ? json_array_get(at, (size_t)strtol(word, NULL, 10))
                               : json_object_get(at, word);
    }
    if (at == NULL) {
        snprintf(text, sizeof(text), "nothing");
    } else if (json_is_string(at)) {
        snprintf(text, sizeof(text), "%s", json_string_value(at));
    } else if (json_is_boolean(at)) {
        snprintf(text, sizeof(text), "%s", json_is_true(at) ? "true" : "false");
    } else if (json_is_number(at)) {
        snprintf(text, sizeof(text), "%g", json_number_value(at));
    } else {
        snprintf(text, sizeof(text), "a list of %zu", json_array_size(at));
    }
    json_decref(state);
    return text;
}

static bool is(const char *path, const char *value)
{
    return strcmp(fact(path), value) == 0;
}

/* ---- Metrics, read strictly ---- */

static void match(regex_t *made, const char *line)
{
    if (regexec(made, line, 0, NULL, 0) != 0) {
        fail_msg("no line of the format: '%s'", line);
    }
}

/* Every line conforms to the format, and each family is contiguous with its head first. */
static void read_metrics(char *text)
{
    static const char name[] = "[a-zA-Z_:][a-zA-Z0-9_:]*";
    char sample[512], family[128] = "", seen[4096] = " ", *rest = NULL;
    regex_t samples, heads;
    snprintf(
        sample, sizeof(sample),
        "^%s(\\{[a-z]+=\"([^\"\\\\]|\\\\[\\\\n\"])*\"(,[a-z]+=\"([^\"\\\\]|\\\\[\\\\n\"])*\""
        ")*\\})? [-+0-9.e]+$",
        name);
    assert_int_equal(regcomp(&samples, sample, REG_EXTENDED | REG_NOSUB), 0);
    snprintf(sample, sizeof(sample), "^# (HELP %s [^\n]+|TYPE %s (gauge|counter))$", name,
             name);
    assert_int_equal(regcomp(&heads, sample, REG_EXTENDED | REG_NOSUB), 0);
    assert_int_equal(text[strlen(text) - 1], '\n');
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char word[140];
        if (line[0] != '#') {
            match(&samples, line);
            assert_int_equal(strncmp(line, family, strlen(family)), 0);
            assert_non_null(strchr("{ ", line[strlen(family)]));
            continue;
        }
        match(&heads, line);
        assert_int_equal(sscanf(line + 7, "%127s", family), 1);
        snprintf(word, sizeof(word), " %s ", family);
        if (strncmp(line, "# HELP", 6) == 0) {
            assert_null(strstr(seen, word));
            assert_true(strlen(seen) + strlen(word) < sizeof(seen));
            memcpy(seen + strlen(seen), word + 1, strlen(word));
        } else {
            assert_non_null(strstr(seen, word));
            size_t size = strlen(family);
            bool is_total = size > 6 && strcmp(family + size - 6, "_total") == 0;
            assert_int_equal(strstr(line, " counter") != NULL, is_total);
        }
    }
    regfree(&samples);
    regfree(&heads);
}

/* ---- Reports ---- */

static gy_key submit_job(const char *name)
{
    gy_cluster *cluster = NULL;
    char id[GY_CLUSTER_ID_BYTES];
    unsigned long long high = 0, low = 0;
    const char *arguments[] = {"true", NULL};
    assert_ok(gy_cluster_open(
        &(gy_cluster_options){.nameservers = server.address, .key_file = server.ring},
        &cluster));
    assert_ok(gy_cluster_submit(
        cluster, &(gy_cluster_program){.arguments = arguments, .name = name}, id));
    gy_cluster_close(cluster);
    assert_int_equal(sscanf(id, "%16llx%16llx", &high, &low), 2);
    return (gy_key){high, low};
}

/* Two stages, the second reads the first, with so many tasks done; a run, a note, a counter. */
static void report_view(kit_agent *at, gy_key of, uint32_t committed)
{
    Gy__Cluster__Key job = kit_key(of);
    Gy__Cluster__ViewStage stages[2];
    Gy__Cluster__ViewRun run;
    Gy__Cluster__ViewNote note;
    Gy__Cluster__ViewCounter counter;
    Gy__Cluster__View view = GY__CLUSTER__VIEW__INIT;
    Gy__Cluster__ViewStage *stage_list[] = {&stages[0], &stages[1]};
    Gy__Cluster__ViewRun *runs[] = {&run};
    Gy__Cluster__ViewNote *notes[] = {&note};
    Gy__Cluster__ViewCounter *counters[] = {&counter};
    uint32_t reads[] = {0};
    gy__cluster__view_stage__init(&stages[0]);
    gy__cluster__view_stage__init(&stages[1]);
    gy__cluster__view_run__init(&run);
    gy__cluster__view_note__init(&note);
    gy__cluster__view_counter__init(&counter);
    stages[0].name = (char *)(uintptr_t) "map <\"&\\>";
    stages[0].tasks = 40;
    stages[0].committed = committed;
    stages[0].runs = committed + 1;
    stages[0].failed = 1;
    stages[1].name = (char *)(uintptr_t) "reduce";
    stages[1].reads = reads;
    stages[1].n_reads = 1;
    run.host = (char *)(uintptr_t) "here";
    run.run_ns = 2500000000;
    note.text = (char *)(uintptr_t) "vertex 3 failed: </script>";
    counter.name = (char *)(uintptr_t) "words";
    counter.value = 7;
    view = (Gy__Cluster__View){.base = view.base,
                               .job = &job,
                               .epoch = 1,
                               .n_stages = 2,
                               .stages = stage_list,
                               .n_slow = 1,
                               .slow = runs,
                               .n_notes = 1,
                               .notes = notes,
                               .n_counters = 1,
                               .counters = counters};
    kit_tell_it(at, GY_NET_VIEW, &view.base);
}

static const char name[] = "</script><script>alert(\"1\\\")</script>";

static int looks;

static gy_status see_report(void *arg, const gy_job_report *report)
{
    const uint32_t *committed = arg;
    looks++;
    if (*committed == 0) {
        assert_int_equal(report->epoch, 0);
        assert_int_equal(report->stage_count + report->counter_count + report->note_count, 0);
        return GY_OK;
    }
    assert_int_equal(report->epoch, 1);
    assert_int_equal(report->stage_count, 2);
    assert_string_equal(report->stages[0].name, "map <\"&\\>");
    assert_int_equal(report->stages[0].tasks, 40);
    assert_int_equal(report->stages[0].committed, *committed);
    assert_int_equal(report->stages[0].attempts, *committed + 1);
    assert_int_equal(report->stages[0].failures, 1);
    assert_int_equal(report->counter_count, 1);
    assert_string_equal(report->counters[0].name, "words");
    assert_int_equal(report->counters[0].value, 7);
    assert_int_equal(report->note_count, 1);
    assert_string_equal(report->notes[0].text, "vertex 3 failed: </script>");
    assert_int_equal(report->straggler_count, 1);
    assert_string_equal(report->stragglers[0].stage, "map <\"&\\>");
    assert_string_equal(report->stragglers[0].host, "here");
    assert_true(report->stragglers[0].run_s == 2.5);
    return GY_OK;
}

/* NULL: the test's own job. */
static void look_at(const char *id, uint32_t committed)
{
    gy_cluster *cluster = NULL;
    char other[GY_CLUSTER_ID_BYTES];
    gy_net_key_text(id == NULL ? submit_job("quiet") : (gy_key){1, 2}, other);
    assert_ok(gy_cluster_open(
        &(gy_cluster_options){.nameservers = server.address, .key_file = server.ring},
        &cluster));
    looks = 0;
    assert_ok(gy_cluster_read_report(cluster, id != NULL ? id : other, see_report, &committed));
    assert_int_equal(looks, 1);
    gy_cluster_close(cluster);
}

static void a_job_is_seen_at_work(void **state)
{
    (void)state;
    gy_key job = submit_job(name);
    KIT_UNTIL(agents, 2, daemon_agent.starts == 1);
    KIT_UNTIL(agents, 2, is("jobs.0.state", "waiting"));
    assert_true(is("jobs.0.name", name));
    kit_manager_open(&manager, &server, job, 1, 2);
    KIT_UNTIL(agents, 3, is("jobs.0.state", "running") && is("jobs.0.held", "2"));
    assert_true(is("jobs.0.progress", "half of it"));
    assert_true(is("jobs.0.view", "nothing"));
    report_view(&manager, job, 12);
    KIT_UNTIL(agents, 3, is("jobs.0.view.stages.0.committed", "12"));
    assert_true(is("jobs.0.view.stages.0.name", "map <\"&\\>"));
    assert_true(is("jobs.0.view.stages.1.reads.0", "0"));
    assert_true(is("jobs.0.view.slow.0.run_s", "2.5"));
    assert_true(is("jobs.0.view.notes.0.text", "vertex 3 failed: </script>"));
    assert_true(is("jobs.0.view.counters.0.value", "7"));
    report_view(&manager, job, 13);
    KIT_UNTIL(agents, 3, is("jobs.0.view.stages.0.committed", "13"));
    (void)get("/metrics");
    char *metrics = strstr(reply, "\r\n\r\n") + 4;
    assert_non_null(strstr(metrics, ",number=\"0\",stage=\"map <\\\"&\\\\>\"} 13\n"));
    assert_non_null(
        strstr(metrics, ",name=\"</script><script>alert(\\\"1\\\\\\\")</script>\""));
    assert_non_null(strstr(metrics, "\ngyre_jobs{state=\"running\"} 1\n"));
    assert_non_null(
        strstr(metrics, "\ngyre_daemon_slots{daemon=\"0000000000000007\",host=\"here\"} 4\n"));
    read_metrics(metrics);
    /* Another job's manager cannot report about this job. */
    kit_manager_open(&stranger, &server, (gy_key){9, 9}, 1, 0);
    KIT_UNTIL(agents, 4, stranger.is_over);
    report_view(&stranger, job, 40);
    const uint64_t later = manager.requests.sequence + 8;
    KIT_UNTIL(agents, 4, manager.requests.sequence > later);
    assert_true(is("jobs.0.view.stages.0.committed", "13"));
    kit_agent_close(&stranger);
    /* The last status stays after its manager has ended. */
    kit_agent_close(&manager);
    KIT_UNTIL(agents, 2, is("jobs.0.progress", ""));
    assert_true(is("jobs.0.view.stages.0.committed", "13"));
    char id[GY_CLUSTER_ID_BYTES];
    gy_net_key_text(job, id);
    look_at(id, 13);
    look_at(NULL, 0); /* of a job without a status */
}

static void daemons_are_seen(void **state)
{
    (void)state;
    kit_server_make(&server);
    snprintf(url_file, sizeof(url_file), "%s/url", server.folder);
    server.options.page = "127.0.0.1:0";
    server.options.on_page_ready = page_ready;
    server.options.arg = url_file;
    kit_server_start(&server);
    read_url();
    assert_true(is("is_elected", "true"));
    assert_true(is("daemons", "a list of 0"));
    kit_agent_open(&user, &server, GY_RPC_SUBMITTER, NULL);
    kit_daemon_open(&daemon_agent, &server, 7, 4);
    KIT_UNTIL(agents, 2, is("daemons.0.is_up", "true"));
    assert_true(is("daemons.0.id", "0000000000000007"));
    assert_true(is("daemons.0.slots", "4"));
    assert_true(is("daemons.0.labels", "fast,gpu"));
}

static void a_lost_daemon_is_noted(void **state)
{
    (void)state;
    (void)kit_server_end(&server, SIGTERM);
    server.options.heartbeat_timeout_s = 0.4;
    kit_server_start(&server);
    read_url();
    KIT_UNTIL(agents, 2, is("daemons.0.is_up", "true"));
    kit_agent_close(&daemon_agent);
    KIT_UNTIL(agents, 1, is("daemons.0.is_up", "false"));
    assert_true(strcmp(fact("notes"), "a list of 0") != 0);
    kit_agent_close(&user);
    kit_server_remove(&server);
}

int main(void)
{
    gy_log_set_level(GY_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(daemons_are_seen),
        cmocka_unit_test(a_job_is_seen_at_work),
        cmocka_unit_test(a_lost_daemon_is_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
