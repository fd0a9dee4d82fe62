/* Goal: a job whose processes run on daemons completes, whatever becomes of leases, executors,
 * hosts and fetches; no task starts before its inputs are on its host; no committed task runs
 * again while its output exists; and a manager that was replaced stops. */
#include "driver/remote/script_test.h"

#include <dirent.h>

enum { READERS = 6, TASKS = PRODUCERS + READERS };
/* No host is lost by time, however slow this machine is. */
static const int64_t long_ns = 60000000000;

typedef struct remote_job {
    script at;
    char folder[64];
    uint32_t committed[TASKS], failures, blamed;
    bool is_over, has_board;
    bool knows_own;  /* its ticket names host 0 as its starter */
    int64_t dead_ns; /* 0: hosts are never lost by time */
    char notes[8192];
} remote_job;

static gy_status encode(void *arg, const gy_manager *manager, const gy_effect *start,
                        gy_driver_place *place, gy_text *message)
{
    const remote_job *job = arg;
    const gy_edge *edges = NULL;
    uint32_t count = 0;
    gy_manager_inputs(manager, start->id.task, &edges, &count);
    uint32_t needed = 0;
    uint64_t names[PRODUCERS];
    assert_non_null(place);
    for (uint32_t i = 0; i < count; i++) {
        gy_sched_task_state state;
        gy_manager_task(manager, edges[i].from, &state);
        assert_int_not_equal(state.host, GY_NONE);
        if (state.host != place->host) {
            gy_driver_need need = {.input = i,
                                   .host = state.host,
                                   .content = {77, edges[i].from + 1000},
                                   .size_bytes = 5,
                                   .wanted_bytes = 4};
            snprintf(need.name, sizeof(need.name), "%u", edges[i].from);
            names[needed++] = need.content.low;
            GY_TRY(gy_driver_place_add(place, &need));
        }
    }
    gy_text_add_bytes(message, &needed, sizeof(needed));
    gy_text_add_bytes(message, names, needed * sizeof(names[0]));
    while (message->status == GY_OK && message->size_bytes < job->at.body_bytes) {
        static const char filler[4096];
        gy_text_add_bytes(message, filler, sizeof(filler));
    }
    return message->status;
}

static gy_status welcome(void *arg, const char *folder, gy_text *message)
{
    (void)arg;
    gy_text_add(message, "%s", folder);
    return message->status;
}

static int64_t held(void *arg, const gy_manager *manager, const gy_sched_event *done)
{
    (void)arg;
    (void)manager;
    return done->id.task < PRODUCERS ? 5 : -1;
}

static void committed(void *arg, const gy_effect *effect)
{
    remote_job *job = arg;
    job->committed[effect->id.task]++;
}

static gy_cause failed(void *arg, const gy_manager *manager, gy_sched_event *event,
                       const void *board)
{
    remote_job *job = arg;
    (void)manager;
    job->failures++;
    job->blamed += event->cause == GY_CAUSE_OWN;
    job->has_board = job->has_board || strcmp(board, "it was at this") == 0;
    return event->cause;
}

static bool is_culprit(const void *board)
{
    return strcmp(board, "it was at this") == 0;
}

static void discard(void *arg, const gy_manager *manager, const gy_effect *effect,
                    gy_text *names)
{
    char name[32];
    (void)arg;
    (void)manager;
    snprintf(name, sizeof(name), "%u", effect->id.task);
    gy_text_add_bytes(names, name, strlen(name) + 1);
}

static void note(void *arg, const gy_effect *effect)
{
    remote_job *job = arg;
    const size_t used = strlen(job->notes);
    snprintf(job->notes + used, sizeof(job->notes) - used, "%s\n", effect->reason);
}

static void view(void *arg, gy_driver_view *told)
{
    (void)arg;
    told->counters[told->counter_count++] = (struct gy_driver_counter){"words", 7};
    told->notes[told->note_count++] = (struct gy_driver_note){1, "why\x01 it was so"};
}

static void over(void *arg)
{
    remote_job *job = arg;
    job->is_over = true;
}

static gy_manager *make_manager(uint32_t width, bool is_exact)
{
    static const gy_stage stages[] = {{.name = "work"}, {.name = "read"}};
    gy_sched_task tasks[TASKS];
    gy_edge edges[READERS * PRODUCERS];
    for (uint32_t i = 0; i < TASKS; i++) {
        tasks[i] = (gy_sched_task){.key = {i, 1},
                                   .stage = i >= PRODUCERS,
                                   .width = (uint16_t)(i == 0 && width > 0 ? width : 1),
                                   .output_count = 1,
                                   .flags = i >= PRODUCERS ? GY_TASK_FINAL
                                            : is_exact     ? GY_TASK_EXACT
                                                           : 0,
                                   .input_count = i >= PRODUCERS ? PRODUCERS : 0};
        for (uint32_t k = 0; i >= PRODUCERS && k < PRODUCERS; k++) {
            edges[(i - PRODUCERS) * PRODUCERS + k] = (gy_edge){.from = k};
        }
    }
    gy_growth growth = {.tasks = tasks,
                        .task_count = TASKS,
                        .edges = edges,
                        .edge_count = (size_t)READERS * PRODUCERS};
    gy_manager_options options = {.stages = stages,
                                  .stage_count = GY_COUNT(stages),
                                  .process_max = 8,
                                  .host_max = 16,
                                  .backup_floor_ns = -1};
    gy_manager *manager = NULL;
    assert_ok(gy_manager_new(&options, &growth, &manager));
    return manager;
}

static void remove_folder(const char *path)
{
    char line[128], said[256];
    snprintf(line, sizeof(line), "rm -rf '%s'", path);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
}

static void script_open_all(script *at)
{
    const gy_rpc_method methods[] = {script_method(GY_NET_REQUESTS, script_handle_requests),
                                     script_method(GY_NET_VIEW, script_handle_view),
                                     script_method(GY_NET_RELEASE, script_release),
                                     script_method(GY_NET_ALLOCATIONS, NULL),
                                     script_method(GY_NET_OVER, NULL)};
    memcpy(at->methods, methods, sizeof(methods));
    const gy_rpc_options options = {.name = "name server",
                                    .role = GY_RPC_NAMESERVER,
                                    .methods = at->methods,
                                    .method_count = GY_COUNT(methods),
                                    .arg = at,
                                    .is_plaintext = true};
    assert_ok(gy_rpc_new(gy_env_real(), &options, &at->rpc));
    assert_ok(gy_rpc_listen(at->rpc, "127.0.0.1:0", at->address));
    at->host_count = at->host_count > 0 ? at->host_count : HOSTS;
    for (int i = 0; i < at->host_count; i++) {
        at->hosts[i] = (script_host){.at = at, .index = i, .incarnation = 7};
        script_host_start(&at->hosts[i]);
    }
    assert_int_equal(pthread_create(&at->thread, NULL, script_run, at), 0);
}

static void script_close_all(script *at)
{
    at->is_ended = true;
    assert_int_equal(pthread_join(at->thread, NULL), 0);
    for (int i = 0; i < at->host_count; i++) {
        script_host_stop(&at->hosts[i]);
    }
    gy_rpc_free(at->rpc);
}

static gy_status run(remote_job *job)
{
    const gy_driver_ops ops = {.encode = encode,
                               .welcome = welcome,
                               .held = held,
                               .committed = committed,
                               .failed = failed,
                               .is_culprit = is_culprit,
                               .discard = discard,
                               .note = note,
                               .over = over,
                               .view = view,
                               .arg = job};
    gy_ticket ticket = {.job = {11, 12}, .epoch = 3};
    char claim[96];
    snprintf(job->folder, sizeof(job->folder), "/tmp/gyre-remote-XXXXXX");
    assert_non_null(mkdtemp(job->folder));
    snprintf(claim, sizeof(claim), "%s/journal.4", job->folder);
    job->at.claim = claim;
    script_open_all(&job->at);
    snprintf(ticket.names, sizeof(ticket.names), "%s", job->at.address);
    snprintf(ticket.daemon, sizeof(ticket.daemon), "%s",
             job->knows_own ? job->at.hosts[0].address : "");
    const gy_driver_options options = {.folder = job->folder,
                                       .processes = 8,
                                       .ops = &ops,
                                       .epoch = ticket.epoch,
                                       .ticket = &ticket,
                                       .dead_ns = job->dead_ns > 0 ? job->dead_ns : long_ns,
                                       .deadline = gy_env_deadline(gy_env_real(), 60)};
    gy_manager *manager =
        make_manager(job->at.is_sharded ? 2 : 1, job->at.trouble == TROUBLE_CLAIMED);
    gy_status status = gy_driver_run(gy_env_real(), manager, &options);
    gy_error why;
    gy_error_take(&why, status);
    gy_manager_free(manager);
    script_close_all(&job->at);
    remove_folder(job->folder);
    if (job->at.is_wrong) {
        fail_msg("%s; %s", job->at.wrong, job->notes);
    }
    return status < 0 ? gy_error_raise(&why) : status;
}

/* All tasks are committed; at least `again` and at most `most` of them ran more than once. */
static void check_runs(const remote_job *job, uint32_t again, uint32_t most)
{
    uint32_t more = 0;
    for (uint32_t i = 0; i < TASKS; i++) {
        assert_in_range(job->committed[i], 1, 3);
        assert_in_range(job->at.runs[i], 1, 6);
        more += job->at.runs[i] > 1;
    }
    if (more < again || more > most) {
        fail_msg("%u tasks ran again, expected %u to %u: %s", more, again, most, job->notes);
    }
}

GY_TEST(comes_to_its_end)
{
    static remote_job job;
    job = (remote_job){0};
    assert_ok(run(&job));
    check_runs(&job, 0, 0);
    int fetched = 0;
    for (int i = 0; i < HOSTS; i++) {
        fetched += job.at.hosts[i].fetched_count;
    }
    assert_true(fetched > 0);
    assert_int_equal(job.failures, 0);
    /* The status was sent while there was a name server, and at the end. */
    assert_true(job.at.views >= 2);
    assert_int_equal(job.at.view_committed, TASKS);
    assert_int_equal(job.at.view_tasks, TASKS);
    assert_int_equal(job.at.view_notes, 1);
}

/* The manager connects to the daemon that started it before any lease there, and only once, in
 * whichever order both happen. */
GY_TEST(calls_its_own_daemon_first)
{
    static remote_job job;
    for (int is_first = 0; is_first < 2; is_first++) {
        for (int hosts = 1; hosts <= HOSTS; hosts += HOSTS - 1) {
            job = (remote_job){.at = {.host_count = hosts, .is_called_first = is_first != 0},
                               .knows_own = true};
            assert_ok(run(&job));
            check_runs(&job, 0, 0);
            for (int i = 0; i < hosts; i++) {
                assert_int_equal(job.at.hosts[i].calls, 1);
                assert_int_equal(job.at.hosts[i].attaches, 1);
            }
        }
    }
}

GY_TEST(tells_the_daemons)
{
    static remote_job job;
    job = (remote_job){.at = {.host_count = 1, .is_over_awaited = true}};
    assert_ok(run(&job));
    assert_true(job.at.hosts[0].is_over);
    assert_int_equal(job.at.hosts[0].fetched_count, 0);
}

/* More data than windows and queues hold, in both directions. */
GY_TEST(keeps_to_windows)
{
    static remote_job job;
    job = (remote_job){.at = {.body_bytes = 900 << 10, .report_bytes = 5 << 20}};
    assert_ok(run(&job));
    check_runs(&job, 0, TASKS); /* slow tasks may be moved */
}

GY_TEST(fails_when_no_host_is_wide_enough)
{
    static remote_job job;
    job = (remote_job){.at = {.is_sharded = true, .is_narrow = true}, .dead_ns = 500000000};
    assert_int_equal(run(&job), GY_LIMIT);
    assert_string_equal(gy_error_text(),
                        "2 vertices that run together need 2 slots on one host: the job can "
                        "have 1 (no host has more, or --slots-max of the job forbids it)");
}

GY_TEST(loses_a_host)
{
    static remote_job job;
    job = (remote_job){.at = {.trouble = TROUBLE_HOST_DIES, .after = PRODUCERS},
                       .dead_ns = 1000000000};
    assert_ok(run(&job));
    check_runs(&job, 1, TASKS);
    assert_non_null(strstr(job.notes, "lost"));
}

GY_TEST(keeps_what_a_daemon_kept)
{
    static remote_job job;
    job = (remote_job){.at = {.trouble = TROUBLE_HOST_RETURNS, .after = PRODUCERS}};
    assert_ok(run(&job));
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        assert_int_equal(job.committed[i], 1); /* its files still exist */
    }
    assert_true(job.at.hosts[0].attaches >= 1);
}

GY_TEST(knows_an_empty_folder)
{
    static remote_job job;
    job = (remote_job){.at = {.trouble = TROUBLE_HOST_EMPTY, .after = PRODUCERS}};
    assert_ok(run(&job));
    check_runs(&job, 1, TASKS);
}

GY_TEST(loses_leases)
{
    static const script_trouble troubles[] = {TROUBLE_LEASE_GONE, TROUBLE_ASKED};
    for (size_t i = 0; i < GY_COUNT(troubles); i++) {
        static remote_job job;
        job = (remote_job){.at = {.trouble = troubles[i], .after = 2}};
        assert_ok(run(&job));
        check_runs(&job, 0, 2);
        assert_true(job.at.has_struck);
        assert_int_equal(job.failures, 0);
    }
}

GY_TEST(counts_what_died_of_itself)
{
    static remote_job job;
    job = (remote_job){.at = {.trouble = TROUBLE_EXECUTOR_DIES, .after = 2}};
    assert_ok(run(&job));
    assert_true(job.at.has_struck);
    assert_int_equal(job.failures, 2); /* a task beside it fails with it */
    assert_int_equal(job.blamed, 1);
    assert_true(job.has_board);
    assert_non_null(strstr(job.notes, "killed by SIGSEGV; its log ends: ouch"));
}

GY_TEST(makes_lost_inputs_again)
{
    static remote_job job;
    job = (remote_job){.at = {.trouble = TROUBLE_FETCH_LOST, .after = PRODUCERS}};
    assert_ok(run(&job));
    assert_true(job.at.has_struck);
    check_runs(&job, 1, TASKS);
    job = (remote_job){.at = {.trouble = TROUBLE_FETCH_DEAD}};
    assert_ok(run(&job));
    assert_int_equal(job.at.failures, 1); /* one retry, and no task runs again */
    check_runs(&job, 0, 0);
}

GY_TEST(leaves_a_full_host)
{
    static remote_job job;
    job = (remote_job){.at = {.trouble = TROUBLE_FULL, .host_count = 2}};
    assert_ok(run(&job));
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        assert_int_equal(job.committed[i], 1); /* no producer is blamed */
    }
    job = (remote_job){.at = {.trouble = TROUBLE_OPEN_REFUSED}};
    assert_ok(run(&job));
    assert_true(job.at.has_struck && job.at.given > 0);
}

/* Its members need two slots on one host; the job has one on each. */
GY_TEST(makes_room_for_a_cohort)
{
    static remote_job job;
    job = (remote_job){.at = {.is_sharded = true}};
    assert_ok(run(&job));
    assert_true(job.at.gang > 0 && job.at.given > 0);
}

GY_TEST(ends_when_it_must)
{
    static remote_job job;
    job = (remote_job){.at = {.trouble = TROUBLE_KILLED, .after = 3}};
    assert_int_equal(run(&job), GY_CANCELLED);
    assert_false(job.is_over);
    job = (remote_job){.at = {.trouble = TROUBLE_OVER, .after = 3}};
    assert_int_equal(run(&job), GY_STATE);
    assert_true(job.is_over);
    assert_false(job.at.hosts[0].is_over);
    job = (remote_job){.at = {.trouble = TROUBLE_EPOCH}};
    assert_int_equal(run(&job), GY_STATE);
    assert_true(job.is_over);
    assert_false(job.at.hosts[0].is_over); /* the files belong to another manager */
    /* It has no journal record to write, and can reach all of its peers. */
    const gy_deadline soon = gy_deadline_after(30); /* not 60 s, when it would check anyway */
    job = (remote_job){.at = {.trouble = TROUBLE_CLAIMED, .after = 3}};
    assert_int_equal(run(&job), GY_STATE);
    assert_true(gy_now_ns(gy_env_real()) < soon.at_ns);
    assert_true(job.is_over && job.at.has_struck);
    assert_false(job.at.hosts[0].is_over);
}

GY_TEST_MAIN(NULL, NULL)
