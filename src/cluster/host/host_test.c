/* Goal: a daemon process obeys the rules of daemon.h: epochs over restarts, bytes within
 * credit, reported ends of executors, and no process outlives it. */
#include "cluster/host/host_test.h"

/* ---- Epochs ---- */

GY_TEST(older_epochs_are_refused)
{
    static kit_scene at;
    kit_open(&at, true);
    kit_daemon_start(&at, 0, "");
    kit_lend(&at, 0, 10, 2, 1);
    kit_manager_open(&at, 0, at.job, 1);
    kit_attach(&at, &at.managers[0], 0, GY_OK);
    assert_int_equal(at.managers[0].lease_count, 2);
    assert_non_null(strstr(at.managers[0].folder, "/daemon0/jobs/abcdef01234567890"));
    kit_manager_open(&at, 1, at.job, 2);
    kit_attach(&at, &at.managers[1], 0, GY_OK);
    KIT_UNTIL(&at, at.daemons[0].lease_count == 0);
    kit_attach(&at, &at.managers[0], 0, GY_STATE);
    kit_executor(&at, &at.managers[0], 10, 1, 100, GY_STATE);
    assert_non_null(strstr(at.managers[0].text, "the daemon has epoch 2"));
    /* It is killed; its next life remembers the epoch. */
    uint64_t id = at.daemons[0].id, incarnation = at.daemons[0].incarnation;
    assert_int_equal(at.daemons[0].life, 1);
    kit_daemon_end(&at, 0, SIGKILL);
    kit_daemon_start(&at, 0, "");
    assert_true(at.daemons[0].id == id && at.daemons[0].incarnation == incarnation);
    assert_int_equal(at.daemons[0].life, 2);
    gy_rpc_drop(at.managers[0].rpc, at.managers[0].peer);
    at.managers[0].peer = 0;
    kit_attach(&at, &at.managers[0], 0, GY_STATE);
    gy_rpc_drop(at.managers[1].rpc, at.managers[1].peer);
    at.managers[1].peer = 0;
    kit_attach(&at, &at.managers[1], 0, GY_OK);
    /* Another job's manager cannot affect this job. */
    kit_manager_open(&at, 2, (gy_key){1, 2}, 9);
    at.managers[2].job = at.job;
    kit_attach(&at, &at.managers[2], 0, GY_STATE);
    assert_non_null(strstr(at.managers[2].text, "sent a message for job"));
    kit_close(&at);
}

/* ---- Executors ---- */

GY_TEST(bytes_pass_within_credit)
{
    static kit_scene at;
    char body[256];
    kit_open(&at, false);
    kit_job_is_this(&at);
    kit_daemon_start(&at, 0, "");
    kit_manager *own = kit_attach_first(&at, 2);
    kit_executor(&at, own, 77, 1, 10, GY_NOTFOUND);
    kit_executor(&at, own, 1, 1, 10, GY_OK);
    kit_say(&at, own, 1, 1, &(gy_wire){.kind = GY_WIRE_WELCOME});
    KIT_UNTIL(&at, own->in_bytes == 10);
    /* A round trip to another executor: nothing more has come from this one. */
    kit_executor(&at, own, 2, 2, 0, GY_OK);
    kit_close_executor(&at, own, 2, 2);
    KIT_UNTIL(&at, own->gone_count == 1);
    assert_int_equal(own->in_bytes, 10);
    Gy__Cluster__Credit credit = GY__CLUSTER__CREDIT__INIT;
    Gy__Cluster__Key key = kit_key(at.job);
    credit.job = &key;
    credit.epoch = 1;
    credit.lease = 1;
    credit.generation = 1;
    credit.bytes = 1 << 20;
    KIT_CALL(&at, own, GY_NET_CREDIT, &credit.base, GY_OK);
    kit_hear(&at, own, GY_WIRE_READY, body);
    /* More than a window towards the process: it returns credit for what it took. */
    static char large[100000];
    memset(large, 'x', sizeof(large) - 1);
    for (int i = 0; i < 8; i++) {
        KIT_UNTIL(&at, own->credit + 256 * 1024 >
                           (uint64_t)i * (sizeof(large) + 200) + sizeof(large) + 200);
        kit_task(&at, own, 1, 1, large);
        kit_hear(&at, own, GY_WIRE_DONE, body);
    }
    assert_true(own->credit >= 512 * 1024);
    assert_int_equal(at.spec_asks, 1);
    kit_close(&at);
}

/* Is one of its descendants stopped? */
static bool has_one_stopped(pid_t of)
{
    char path[64], state = '?';
    long child = 0;
    bool is_found = false;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)of, (int)of);
    FILE *children = fopen(path, "re");
    while (children != NULL && !is_found && fscanf(children, "%ld", &child) == 1) {
        snprintf(path, sizeof(path), "/proc/%ld/stat", child);
        FILE *stat = fopen(path, "re");
        if (stat != NULL) {
            is_found = fscanf(stat, "%*d (%*[^)]) %c", &state) == 1 && state == 'T';
            fclose(stat);
        }
        is_found = is_found || has_one_stopped((pid_t)child);
    }
    if (children != NULL) {
        fclose(children);
    }
    return is_found;
}

/* A manager that reconnects, or whose executor's process still runs, may ask again later, and
 * the daemon goes on. */
GY_TEST(who_comes_too_early_is_told_so)
{
    static kit_scene at;
    kit_open(&at, false);
    kit_job_is_this(&at);
    kit_daemon_start(&at, 0, "");
    kit_lend(&at, 0, 1, 1, 1);
    kit_manager *own = &at.managers[0];
    kit_manager_open(&at, 0, at.job, 1);
    assert_ok(gy_rpc_dial(own->rpc, at.daemons[0].address, &own->peer));
    kit_executor(&at, own, 1, 1, 100, GY_TIMEOUT);
    assert_non_null(strstr(own->text, "not attached"));
    kit_attach(&at, own, 0, GY_OK);
    kit_serve_executor(&at, own, 1, 1);
    kit_executor(&at, own, 1, 2, 100, GY_TIMEOUT);
    assert_non_null(strstr(own->text, "the process has not ended yet"));
    kit_close(&at);
}

GY_TEST(more_than_the_window_is_refused)
{
    static kit_scene at;
    static uint8_t large[200 * 1024];
    kit_open(&at, false);
    kit_job_is_this(&at);
    kit_daemon_start(&at, 0, "");
    kit_manager *own = kit_attach_first(&at, 1);
    kit_serve_executor(&at, own, 1, 1);
    kit_task(&at, own, 1, 1, "stop");
    KIT_UNTIL(&at, has_one_stopped(at.daemons[0].process)); /* it reads nothing any more */
    Gy__Cluster__Relay message = GY__CLUSTER__RELAY__INIT;
    Gy__Cluster__Key key = kit_key(at.job);
    message.job = &key;
    message.epoch = 1;
    message.lease = 1;
    message.generation = 1;
    message.data = (ProtobufCBinaryData){.len = sizeof(large), .data = large};
    int i = 0; /* the socket buffers some */
    do {
        int before = own->ends;
        kit_call(own, GY_NET_RELAY, &message.base);
        KIT_UNTIL(&at, own->ends > before);
    } while (own->status == GY_OK && ++i < 100);
    assert_true(own->status == GY_LIMIT && i > 0 && i < 20);
    KIT_UNTIL(&at, own->gone_count == 1);
    kit_close(&at);
}

GY_TEST(ends_of_executors_are_told)
{
    static kit_scene at;
    kit_open(&at, false);
    kit_job_is_this(&at);
    kit_daemon_start(&at, 0, "");
    kit_manager *own = kit_attach_first(&at, 1);
    /* By a fault: the board shows what it ran. */
    kit_serve_executor(&at, own, 1, 1);
    kit_task(&at, own, 1, 1, "segv");
    KIT_UNTIL(&at, own->gone_count == 1);
    const kit_gone *gone = &own->gone[0];
    assert_true(gone->has_process && gone->lease == 1 && gone->generation == 1);
    assert_true(WIFSIGNALED(gone->wait_status) && WTERMSIG(gone->wait_status) == SIGSEGV);
    assert_int_equal(gone->boards, 1);
    assert_string_equal(gone->board, "segv");
    assert_string_equal(gone->reason, "killed by SIGSEGV");
    /* By itself, with a message. */
    own->in_bytes = 0;
    kit_serve_executor(&at, own, 1, 2);
    kit_task(&at, own, 1, 2, "exit");
    KIT_UNTIL(&at, own->gone_count == 2);
    gone = &own->gone[1];
    assert_true(WIFEXITED(gone->wait_status) && WEXITSTATUS(gone->wait_status) == 0);
    assert_string_equal(gone->words, "a last line");
    /* By order. */
    own->in_bytes = 0;
    kit_serve_executor(&at, own, 1, 3);
    kit_close_executor(&at, own, 1, 3);
    KIT_UNTIL(&at, own->gone_count == 3);
    gone = &own->gone[2];
    assert_string_equal(gone->reason, "killed by SIGKILL, as requested");
    assert_int_equal(gone->boards, 0);
    /* Its stream ends but the process does not: it is killed. */
    own->in_bytes = 0;
    kit_serve_executor(&at, own, 1, 4);
    kit_task(&at, own, 1, 4, "close");
    KIT_UNTIL(&at, own->gone_count == 4);
    /* Its parent is killed, and it with that; the next one has a new parent. */
    own->in_bytes = 0;
    kit_serve_executor(&at, own, 1, 5);
    pid_t process = kit_process_of(&at, own, 1, 5), fork_server = kit_parent_of(process);
    assert_int_equal(kill(fork_server, SIGKILL), 0);
    KIT_UNTIL(&at, own->gone_count == 5);
    KIT_UNTIL(&at, kit_is_gone(process) && kit_is_gone(fork_server));
    own->in_bytes = 0;
    kit_serve_executor(&at, own, 1, 6);
    process = kit_process_of(&at, own, 1, 6);
    assert_true(kit_parent_of(process) != fork_server);
    /* The lease is ended. */
    kit_order(&at, 0, (gy_control_order){.kind = GY_ORDER_END_LEASE, .lease = 1});
    KIT_UNTIL(&at, own->lease_gone_count == 1 && own->gone_count == 6 &&
                       at.daemons[0].lease_count == 0);
    assert_true(kit_is_gone(process));
    kit_close(&at);
}

GY_TEST(nothing_outlives_a_daemon)
{
    for (int round = 0; round < 2; round++) {
        static kit_scene at;
        kit_open(&at, false);
        kit_job_is_this(&at);
        kit_daemon_start(&at, 0, "");
        kit_manager *own = kit_attach_first(&at, 1);
        kit_serve_executor(&at, own, 1, 1);
        pid_t process = kit_process_of(&at, own, 1, 1), fork_server = kit_parent_of(process);
        kit_task(&at, own, 1, 1, "daemon, stop");
        int status = kit_daemon_end(&at, 0, round == 0 ? SIGKILL : SIGTERM);
        assert_true(round == 0 ? WIFSIGNALED(status) : status == 0);
        assert_int_equal(at.daemons[0].byes, round);
        KIT_UNTIL(&at, kit_is_gone(process) && kit_is_gone(fork_server));
        kit_close(&at);
    }
}

/* ---- One daemon for each folder; disk space ---- */

GY_TEST(a_folder_has_one_daemon)
{
    static kit_scene at;
    char path[128];
    kit_open(&at, false);
    kit_daemon_start(&at, 0, "");
    pid_t second = kit_start_process(&at, &at.daemons[0], "");
    assert_int_equal(WEXITSTATUS(kit_wait(second)), 100 - GY_STATE);
    kit_daemon_end(&at, 0, SIGTERM);
    snprintf(path, sizeof(path), "%s/identity", at.daemons[0].folder);
    int file = open(path, O_WRONLY | O_TRUNC);
    assert_true(file >= 0 && write(file, "daemon me\n", 10) == 10);
    close(file);
    second = kit_start_process(&at, &at.daemons[0], "");
    assert_int_equal(WEXITSTATUS(kit_wait(second)), 100 - GY_FORMAT);
    unlink(path); /* nothing marks the folder as a daemon's any more */
    second = kit_start_process(&at, &at.daemons[0], "");
    assert_int_equal(WEXITSTATUS(kit_wait(second)), 100 - GY_ARG);
    assert_int_equal(gy_disk_remove_tree(at.daemons[0].folder), 0);
    kit_daemon_start(&at, 0, "");
    assert_int_equal(at.daemons[0].life, 1); /* a new identity */
    kit_close(&at);
}

static unsigned mode_of(const char *folder)
{
    struct stat about;
    assert_int_equal(stat(folder, &about), 0);
    return about.st_mode & 0777;
}

static gy_status run_in(const char *folder)
{
    const gy_net_hooks hooks = {.locate = kit_locate};
    return gy_host_run(gy_env_real(), &(gy_host_options){.names = "127.0.0.1:1",
                                                         .listen = "127.0.0.1:0",
                                                         .folder = folder,
                                                         .is_plaintext = true,
                                                         .sandbox = "rights",
                                                         .hooks = &hooks});
}

GY_TEST(a_folder_of_others_is_left_alone)
{
    static kit_scene at;
    char folder[80], line[512], said[256];
    kit_open(&at, false);
    snprintf(folder, sizeof(folder), "%s/daemon0", at.folder);
    snprintf(line, sizeof(line),
             "mkdir -p -m 755 '%s' && mkdir -p '%s/trash/mine' '%s/blobs/x'", folder, folder,
             folder);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
    assert_status(run_in(folder), GY_ARG);
    assert_non_null(strstr(gy_error_text(), folder));
    snprintf(line, sizeof(line), "cd '%s' && rmdir trash/mine blobs/x && rmdir *", folder);
    /* All of it is removed, and nothing else. */
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
    assert_int_equal(mode_of(folder), 0755);
    /* Others may read an empty folder, but not write to it. */
    assert_int_equal(chmod(folder, 0775), 0);
    assert_status(run_in(folder), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "775"));
    assert_int_equal(chmod(folder, 0755), 0);
    /* A daemon ended before it had an identity. */
    snprintf(line, sizeof(line), "touch '%s/lock' '%s/identity.new'", folder, folder);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
    kit_daemon_start(&at, 0, "");
    assert_int_equal(mode_of(folder), 0755);
    snprintf(line, sizeof(line), "%s/jobs", folder);
    assert_int_equal(mode_of(line), 0700);
    kit_close(&at);
}

GY_TEST(a_full_disk_takes_no_work)
{
    static kit_scene at;
    kit_open(&at, false);
    kit_job_is_this(&at);
    kit_daemon_start(&at, 0, "GYRE_TEST_RESERVE=4000000000000000000");
    KIT_UNTIL(&at, strstr(at.daemons[0].trouble, "disk full") != NULL);
    uint64_t sequence = at.daemons[0].sequence;
    kit_order(&at, 0,
              (gy_control_order){.kind = GY_ORDER_LEASE,
                                 .lease = 1,
                                 .count = 1,
                                 .job = at.job,
                                 .epoch = 1,
                                 .length_ns = 1000000000});
    KIT_UNTIL(&at, at.daemons[0].sequence > sequence);
    assert_int_equal(at.daemons[0].lease_count, 0);
    kit_close(&at);
}

static bool is_empty(const char *folder, const char *but)
{
    char line[256], said[256] = "";
    snprintf(line, sizeof(line), "find '%s' -type f ! -name '%s' 2>/dev/null | head -1", folder,
             but);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
    return said[0] == '\0';
}

GY_TEST(files_go_with_their_job)
{
    static kit_scene at;
    char path[4200], jobs[128], trash[128];
    kit_open(&at, false);
    kit_job_is_this(&at);
    kit_daemon_start(&at, 0, "GYRE_TEST_KEEP=50");
    snprintf(jobs, sizeof(jobs), "%s/jobs", at.daemons[0].folder);
    snprintf(trash, sizeof(trash), "%s/trash", at.daemons[0].folder);
    kit_manager *own = kit_attach_first(&at, 1);
    kit_serve_executor(&at, own, 1, 1);
    for (int i = 0; i < 100; i++) {
        snprintf(path, sizeof(path), "%s/data/%d", own->folder, i);
        int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        assert_true(file >= 0);
        close(file);
    }
    /* Including files that processes create beside their data. */
    snprintf(path, sizeof(path), "%s/scratch/below", own->folder);
    assert_int_equal(gy_disk_make_folders(path), 0);
    int made = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(made >= 0 && close(made) == 0);
    snprintf(path, sizeof(path), "%s/data/99", own->folder);
    /* Discard what is no longer needed. */
    Gy__Cluster__Discard discard = GY__CLUSTER__DISCARD__INIT;
    Gy__Cluster__Key key = kit_key(at.job);
    char *names[] = {(char *)(uintptr_t) "99"};
    discard.job = &key;
    discard.epoch = 1;
    discard.names = names;
    discard.n_names = 1;
    assert_ok(gy_rpc_tell(own->rpc, own->peer, GY_NET_DISCARD, &discard.base));
    KIT_UNTIL(&at, access(path, F_OK) != 0);
    Gy__Cluster__JobOver over = GY__CLUSTER__JOB_OVER__INIT;
    over.job = &key;
    over.epoch = 1;
    KIT_CALL(&at, own, GY_NET_JOB_OVER, &over.base, GY_OK);
    KIT_UNTIL(&at, is_empty(jobs, "record") && is_empty(trash, ""));
    kit_close(&at);
}

/* ---- Cost ---- */

/* User and system time of a process and its resident memory, from /proc. */
static void look_at(pid_t process, double *seconds, long *kib)
{
    char path[64], text[1024] = "";
    unsigned long user = 0, system = 0;
    long pages = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "r");
    assert_true(file != NULL && fgets(text, sizeof(text), file) != NULL);
    fclose(file);
    assert_int_equal(sscanf(strrchr(text, ')') + 2,
                            "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d "
                            "%*d %*d %*d %*u %*u %ld",
                            &user, &system, &pages),
                     3);
    *seconds = (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
    *kib = pages * (sysconf(_SC_PAGESIZE) / 1024);
}

GY_TEST(relays_and_idling_cost_little)
{
    static kit_scene at;
    char body[256];
    double before = 0, after = 0;
    long kib = 0;
    if (getenv("GYRE_SOAK") == NULL) {
        skip();
    }
    for (int has_key = 0; has_key < 2; has_key++) {
        enum { ROUNDS = 5000 };
        kit_open(&at, has_key == 1);
        kit_job_is_this(&at);
        kit_daemon_start(&at, 0, "");
        kit_manager *own = kit_attach_first(&at, 1);
        kit_serve_executor(&at, own, 1, 1);
        at.awaited = own->rpc;
        int64_t begin_ns = gy_now_ns(gy_env_real());
        look_at(at.daemons[0].process, &before, &kib);
        for (int i = 0; i < ROUNDS; i++) {
            kit_task(&at, own, 1, 1, "");
            kit_hear(&at, own, GY_WIRE_DONE, body);
        }
        look_at(at.daemons[0].process, &after, &kib);
        printf("soak: %s: a task there and back by relay %.0f us, of that the daemon's %.0f\n",
               has_key == 1 ? "TLS" : "plain",
               (double)(gy_now_ns(gy_env_real()) - begin_ns) / ROUNDS / 1e3,
               (after - before) / ROUNDS * 1e6);
        at.awaited = NULL;
        look_at(at.daemons[0].process, &before, &kib);
        gy_deadline last = gy_deadline_after(5);
        while (gy_now_ns(gy_env_real()) < last.at_ns) {
            kit_turn(&at);
        }
        look_at(at.daemons[0].process, &after, &kib);
        printf("soak: an idle daemon with a job: %.2f %% of a core, %ld KiB\n",
               (after - before) / 5 * 100, kib);
        kit_close(&at);
    }
}

/* With all parts that this machine supports: work succeeds inside, and what is outside is
 * protected. */
GY_TEST(sandbox_stand_around_processes)
{
    static kit_scene at;
    gy_sandbox_features features;
    char body[256];
    gy_sandbox_probe(&features);
    const bool has_files = (features.parts & GY_SANDBOX_FILES) != 0;
    for (int is_sandboxed = 0; is_sandboxed < 2; is_sandboxed++) {
        kit_open(&at, false);
        kit_job_is_this(&at);
        kit_daemon_start(&at, 0, is_sandboxed ? "GYRE_TEST_WALLS=available" : "");
        kit_manager *own = kit_attach_first(&at, 1);
        kit_serve_executor(&at, own, 1, 1);
        kit_task(&at, own, 1, 1, "");
        kit_hear(&at, own, GY_WIRE_DONE, body);
        if (is_sandboxed) {
            kit_task(&at, own, 1, 1, "files");
            kit_hear(&at, own, GY_WIRE_DONE, body);
        }
        if (getuid() == 0 && has_files) {
            kit_task(&at, own, 1, 1, "secret");
            kit_hear(&at, own, is_sandboxed ? GY_WIRE_FAILED : GY_WIRE_DONE, body);
        }
        kit_close(&at);
    }
    if (!has_files) {
        printf("%s\n", features.reasons[3]);
    }
}

GY_TEST(a_folder_that_sandbox_hide_is_refused)
{
    gy_sandbox_features features;
    char folder[] = "/dev/shm/gyre-host-XXXXXX";
    const gy_net_hooks hooks = {.locate = kit_locate};
    gy_sandbox_probe(&features);
    if ((features.parts & GY_SANDBOX_PROCESSES) == 0) {
        printf("skipped: no namespaces here: %s\n", features.reasons[1]);
        skip();
    }
    assert_non_null(mkdtemp(folder));
    assert_status(gy_host_run(gy_env_real(), &(gy_host_options){.names = "127.0.0.1:1",
                                                                .listen = "127.0.0.1:0",
                                                                .folder = folder,
                                                                .is_plaintext = true,
                                                                .sandbox = "processes",
                                                                .hooks = &hooks}),
                  GY_ARG);
    assert_non_null(strstr(gy_error_text(), "/dev/shm of their own"));
    assert_int_equal(gy_disk_remove_tree(folder), 0);
}

/* Listing the folder that a test sets here fails before its end. */
static char unread[128];

static int unread_list(gy_env *env, const char *folder, gy_disk_visit visit, void *arg)
{
    const int ended = gy_disk_real.list(env, folder, visit, arg);
    return ended == 0 && strcmp(folder, unread) == 0 ? -EIO : ended;
}

/* If it missed records of jobs, it would obey old epochs again. */
GY_TEST(a_folder_that_cannot_be_read_ends_the_daemon)
{
    static const char *const names[] = {"jobs", "blobs",
                                        "jobs/00000000000000010000000000000002"};
    char folder[] = "/tmp/gyre-host-XXXXXX", path[128];
    const gy_net_hooks hooks = {.locate = kit_locate};
    gy_disk_ops disk = gy_disk_real;
    gy_env_ops ops = *gy_env_real()->ops;
    gy_env env = {&ops};
    disk.list = unread_list;
    ops.disk = &disk;
    assert_non_null(mkdtemp(folder));
    const gy_host_options options = {.names = "", /* it fails there after reading everything */
                                     .listen = "127.0.0.1:0",
                                     .folder = folder,
                                     .is_plaintext = true,
                                     .sandbox = "rights",
                                     .hooks = &hooks};
    snprintf(unread, sizeof(unread), "%s", folder); /* the folder may belong to someone else */
    assert_status(gy_host_run(&env, &options), GY_IO);
    assert_non_null(strstr(gy_error_text(), unread));
    assert_status(gy_host_run(gy_env_real(), &options), GY_ARG); /* the folder is its own now */
    snprintf(path, sizeof(path), "%s/%s/x", folder, names[2]);
    assert_int_equal(gy_disk_make_folders(path), 0);
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        snprintf(unread, sizeof(unread), "%s/%s", folder, names[i]);
        assert_status(gy_host_run(&env, &options), GY_IO);
        assert_non_null(strstr(gy_error_text(), unread));
    }
    assert_status(gy_host_run(gy_env_real(), &options), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "no address of a name server is given"));
    assert_int_equal(gy_disk_remove_tree(folder), 0);
}

GY_TEST(groups_that_jobs_left_go)
{
    static kit_scene at;
    gy_limits left;
    if (!gy_test_leave_groups(&left)) {
        skip();
    }
    kit_open(&at, false);
    kit_daemon_start(&at, 0, "");
    assert_false(gy_test_has_groups(&left));
    kit_close(&at);
}

int main(void)
{
    HOST_TEST_SERVE();
    return GY_TESTS_RUN(NULL, NULL);
}
