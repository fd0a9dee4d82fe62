/*
 * Goal: with the name servers' table in a real etcd of three members (TLS, certificates, users,
 * tokens that end after two seconds), a job whose manager is killed in the moment in which
 * etcd's leader stops commits again within 3 s, and nothing that was committed where a host
 * lives runs again; nor when the elected name server is killed too, or the whole host that it,
 * the manager and a daemon were on. A cluster whose etcd has no quorum goes on with its jobs
 * and says why it takes no others.
 */
#include "etcd_kit.h"

#include "cluster_scene.h"

enum { SERVERS = 2, TASKS = 256, TREE = 256, SEGMENT_HEAD = 128 };

#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
enum { SLOWER = 4 };
#else
enum { SLOWER = 1 };
#endif

static kit_etcd etcd;
static pid_t servers[SERVERS];
static char addresses[SERVERS][31], password[160];

static bool is_true(const char *line)
{
    return cluster_shell(&at, said, sizeof(said), line) == 0;
}

/* ---- Servers ---- */

static const char *port_file(int index, char out[160])
{
    char name[32];
    snprintf(name, sizeof(name), "port%d", index);
    return cluster_path(out, name);
}

static pid_t start_server(int index)
{
    char where[512], port[160], log[160], name[32], files[160];
    (void)unlink(port_file(index, port));
    snprintf(name, sizeof(name), "names%d.log", index);
    (void)cluster_path(log, name);
    (void)cluster_path(files, "files"); /* both name servers' */
    const char *arguments[] = {at.binary,
                               "nameserver",
                               "--listen",
                               addresses[index],
                               "--key",
                               at.ring,
                               "--table",
                               kit_etcd_where(&etcd, "t/failover", where),
                               "--table-user",
                               "gyre",
                               "--table-password",
                               password,
                               "--table-ca",
                               etcd.authorities,
                               "--table-cert",
                               etcd.certificate,
                               "--table-cert-key",
                               etcd.key,
                               "--files-folder",
                               files,
                               "--port-file",
                               port,
                               NULL};
    return kit_start((char *const *)(uintptr_t)arguments, log);
}

static bool serves(int index)
{
    char path[160];
    return servers[index] > 0 && access(port_file(index, path), F_OK) == 0;
}

/* The one that is elected. */
static int elected(void)
{
    KIT_UNTIL(serves(0) || serves(1));
    return serves(0) ? 0 : 1;
}

static void await_waiting(int index)
{
    char line[128];
    snprintf(line, sizeof(line), "grep -q 'on standby' names%d.log", index);
    KIT_UNTIL(is_true(line));
}

/* One that was killed comes back and waits. */
static void restart_server(int index)
{
    servers[index] = start_server(index);
    await_waiting(index);
}

static void stop_process(pid_t process)
{
    if (process > 0) {
        (void)kill(process, SIGTERM);
        const int status = kit_wait(process);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static int begin(void **state)
{
    /* With GYRE_SOAK etcd's election takes as long as by default. */
    static char *as_usual[] = {"--heartbeat-interval", "100", "--election-timeout", "1000",
                               NULL};
    if (kit_begin(state) != 0) {
        return 1;
    }
    kit_etcd_start_secured(&etcd, 2, getenv("GYRE_SOAK") != NULL ? as_usual : NULL);
    kit_etcd_add_users(&etcd);
    (void)cluster_path(password, "password");
    const char *binary = getenv("GYRE_BIN");
    at.binary = binary != NULL ? binary : "build/dev/gyre";
    snprintf(at.ring, sizeof(at.ring), "%s/ring", kit_top);
    /* Addresses that no other test has. */
    const unsigned own = (unsigned)getpid();
    for (int i = 0; i < SERVERS; i++) {
        snprintf(addresses[i], sizeof(addresses[i]), "127.%u.%u.%u:%d", 1 + (own >> 16 & 63),
                 own >> 8 & 255, own & 255, 27001 + i);
    }
    snprintf(at.names, sizeof(at.names), "%s,%s", addresses[0], addresses[1]);
    char line[1024];
    snprintf(
        line, sizeof(line),
        "(umask 077; printf 'se\"cret\\n' >password; printf 'se\"cret\\n' >open; chmod 644 "
        "open); $GYRE key new ring && for i in 0 1 2 3 4 5; do seq $i 7 20000 >in$i; done; "
        "$GYRE mr --map 'tr \" \" \"\\n\"' --reduce 'uniq -c' --split 8KiB in? -o home && rm "
        "home/MANIFEST.json");
    if (shell(line) != 0) {
        return 1;
    }
    servers[0] = start_server(0);
    KIT_UNTIL(serves(0));
    restart_server(1);
    for (int i = 0; i < CLUSTER_DAEMONS; i++) {
        at.daemons[i] = cluster_daemon(&at, i);
    }
    KIT_UNTIL(cluster_up(&at) == CLUSTER_DAEMONS);
    return 0;
}

static int end(void **state)
{
    for (int i = 0; i < CLUSTER_DAEMONS; i++) {
        stop_process(at.daemons[i]);
    }
    for (int i = 0; i < SERVERS; i++) {
        stop_process(servers[i]);
    }
    kit_etcd_stop(&etcd);
    kit_alone();
    return kit_end(state);
}

/* ---- Journals ---- */

/* What the segments of a job's managers say, in the order of their epochs. */
typedef struct history {
    int files[8], count; /* segments, open: they may lose their names; 0: there is none */
    int first;           /* whose commits, and whose successors', are counted */
    uint64_t commits;
    int again; /* committed before, at a host that lives, and once more */
} history;

static void find_segments(history *of, const char *name, const char *id)
{
    char path[300];
    for (int i = 0; i < (int)GY_COUNT(of->files); i++) { /* not each epoch has a manager */
        snprintf(path, sizeof(path), "%s/%s/.gyre-job-%s/journal.%d", kit_top, name, id, i + 1);
        const int more = of->files[i] > 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        if (more > 0) {
            of->files[i] = more;
            of->count = GY_MAX(of->count, i + 1);
        }
    }
}

static void close_segments(history *of)
{
    for (int i = 0; i < of->count; i++) {
        if (of->files[i] > 0) {
            close(of->files[i]);
        }
    }
}

/* Where each task was committed last: 1 + host; `lost` is the name of a host that is, NULL. */
typedef struct reading {
    uint32_t places[TASKS];
    bool is_lost[64];
} reading;

static void read_record(history *of, reading *at_, const record_head *head, const char *body,
                        bool is_counted, const char *lost)
{
    if (head->kind == RECORD_HOST && lost != NULL) {
        record_host host;
        memcpy(&host, body, sizeof(host));
        const char *address = body + sizeof(host);
        assert_true(host.host < GY_COUNT(at_->is_lost));
        at_->is_lost[host.host] = strcmp(address + strlen(address) + 1, lost) == 0;
    } else if (head->kind == RECORD_COMMIT) {
        record_commit commit;
        memcpy(&commit, body, sizeof(commit));
        assert_true(commit.task < TASKS);
        const uint32_t before = at_->places[commit.task];
        const bool was_lost =
            before > 0 && before <= GY_COUNT(at_->is_lost) && at_->is_lost[before - 1];
        of->again += before > 0 && !was_lost;
        of->commits += is_counted;
        at_->places[commit.task] = commit.host == UINT16_MAX ? UINT32_MAX : commit.host + 1u;
    }
}

static void read_history(history *of, const char *lost)
{
    static reading now;
    memset(&now, 0, sizeof(now));
    of->again = 0;
    of->commits = 0;
    for (int i = 0; i < of->count; i++) {
        struct stat about;
        if (of->files[i] == 0) {
            continue;
        }
        assert_int_equal(fstat(of->files[i], &about), 0);
        char *bytes = gy_alloc("test", (size_t)about.st_size + 1);
        assert_non_null(bytes);
        const ssize_t size = pread(of->files[i], bytes, (size_t)about.st_size, 0);
        for (size_t k = SEGMENT_HEAD; k + sizeof(record_head) <= (size_t)size;) {
            record_head head;
            memcpy(&head, bytes + k, sizeof(head));
            k += sizeof(head);
            if (head.size_bytes > (size_t)size - k) {
                break; /* torn: its manager was killed there */
            }
            read_record(of, &now, &head, bytes + k, i >= of->first, lost);
            k += head.size_bytes;
        }
        gy_free(bytes);
    }
}

/* ---- Jobs ---- */

static int runs(const char *name, char letter)
{
    char path[160], file[64];
    size_t size = 0;
    int count = 0;
    snprintf(file, sizeof(file), "%s.runs", name);
    char *bytes = kit_read(cluster_path(path, file), &size);
    for (size_t i = 0; bytes != NULL && i < size; i++) {
        count += bytes[i] == letter;
    }
    gy_free(bytes);
    return count;
}

/* A job whose maps are committed and whose reduces have begun, and wait for the file `go`. No
 * task has a second copy: each map that begins is committed. */
static void start_job(const char *name, char id[40], history *of)
{
    char line[1024];
    snprintf(line, sizeof(line),
             "rm -f go; $GYRE job submit $N --no-wait --name %s -- $GYRE mr --backup-after 0 "
             "--map \"printf m "
             ">>$T/%s.runs; tr ' ' '\\n'\" --reduce \"printf r >>$T/%s.runs; until [ -e $T/go "
             "]; do sleep 0.02; done; uniq -c\" --split 8KiB in? -o %s",
             name, name, name, name);
    assert_int_equal(shell(line), 0);
    snprintf(id, 40, "%.*s", (int)strcspn(said, "\n"), said);
    KIT_UNTIL(runs(name, 'r') > 0); /* after all maps have been committed */
    *of = (history){.count = 0};
    find_segments(of, name, id);
    assert_int_equal(of->count, 1);
    /* It is written within what a manager gathers; a reduce commits nothing before `go`. */
    uint64_t maps = (uint64_t)runs(name, 'm');
    KIT_UNTIL((read_history(of, NULL), of->commits >= maps));
}

static void finish_job(const char *name, const char *id)
{
    char line[1024];
    snprintf(
        line, sizeof(line),
        "$GYRE job wait $N --wait-timeout 50 %s && for f in home/*; do cmp $f %s/${f#home/} || "
        "exit 1; done; [ $(ls -A %s | wc -l) = $(($(ls home | wc -l) + 1)) ]",
        id, name, name);
    assert_int_equal(shell(line), 0);
}

/* So that one test's failure is not the next one's. */
static void thaw_members(void)
{
    for (int i = 0; i < etcd.count; i++) {
        (void)kill(etcd.pids[i], SIGCONT);
    }
}

/* Until a successor, or a successor's, has committed something. */
static double await_commit(const char *name, const char *id, history *of, double began)
{
    double ran = 0;
    const int before = runs(name, 'r');
    of->first = of->count;
    of->commits = 0;
    while (of->commits == 0) {
        if (kit_now() > began + KIT_WAIT_SECONDS / 2) {
            (void)shell(
                "$GYRE job list $N; $GYRE cluster list $N; cat names?.log d?.log; false");
            thaw_members();
            fail_msg("no successor commits anything");
        }
        kit_pause();
        ran = ran == 0 && runs(name, 'r') > before ? kit_now() : ran;
        find_segments(of, name, id);
        read_history(of, NULL);
    }
    if (ran > 0) {
        printf("%s: a task of the successor ran after %.2f s\n", name, ran - began);
    }
    return kit_now() - began;
}

/* ---- Faults ---- */

/* All that a process has started, it first. */
static int collect_tree(pid_t top, pid_t *out, int most)
{
    int count = 0;
    out[count++] = top;
    for (int i = 0; i < count; i++) {
        count += kit_children(out[i], out + count, most - count);
    }
    return count;
}

/* A host that loses its power: all ends at once. */
static void kill_daemon(int index)
{
    pid_t tree[TREE];
    const int count = collect_tree(at.daemons[index], tree, TREE);
    for (int i = 0; i < count; i++) {
        (void)kill(tree[i], SIGKILL);
    }
    (void)kit_wait(at.daemons[index]);
    at.daemons[index] = 0;
}

static void kill_server(int index)
{
    (void)kill(servers[index], SIGKILL);
    (void)kit_wait(servers[index]);
    servers[index] = 0;
}

enum { FAULT_SERVER = 1, FAULT_HOST = 2, FAULT_ETCD = 4 };

/* The manager is killed, and what `faults` say with it; the seconds to the next commit. */
static double fail_over(const char *name, unsigned faults)
{
    char id[40], path[160], lost[16];
    history of;
    int daemon = -1;
    start_job(name, id, &of);
    const int maps = runs(name, 'm'), server = elected(), leader = kit_etcd_leader(&etcd, 0);
    const pid_t manager = cluster_manager(&at, &daemon);
    assert_true(manager > 0 && leader >= 0);
    const double began = kit_now();
    if ((faults & FAULT_ETCD) != 0) {
        kit_etcd_freeze(&etcd, leader);
    }
    if ((faults & FAULT_HOST) != 0) {
        kill_daemon(daemon);
    } else {
        (void)kill(manager, SIGKILL);
    }
    if ((faults & FAULT_SERVER) != 0) {
        kill_server(server);
    }
    FILE *go = fopen(cluster_path(path, "go"), "we");
    assert_true(go != NULL && fclose(go) == 0);
    const double took = await_commit(name, id, &of, began);
    finish_job(name, id);
    find_segments(&of, name, id);
    snprintf(lost, sizeof(lost), "h%d", daemon);
    read_history(&of, (faults & FAULT_HOST) != 0 ? lost : NULL);
    assert_int_equal(of.again, 0);
    if ((faults & FAULT_HOST) == 0) {
        assert_int_equal(runs(name, 'm'), maps);
    }
    close_segments(&of);
    printf("soak: %s: the next commit after %.2f s, %d of %d maps again\n", name, took,
           runs(name, 'm') - maps, maps);
    (void)kill(etcd.pids[leader], SIGCONT);
    (void)kit_etcd_leader(&etcd, leader);
    if ((faults & FAULT_HOST) != 0) {
        at.daemons[daemon] = cluster_daemon(&at, daemon);
    }
    if ((faults & FAULT_SERVER) != 0) {
        restart_server(server);
    }
    KIT_UNTIL(cluster_up(&at) == CLUSTER_DAEMONS);
    return took;
}

GY_TEST(the_manager_and_etcds_leader)
{
    const int times = getenv("GYRE_SOAK") != NULL ? 10 : 1;
    int late = 0;
    double longest = 0;
    for (int i = 0; i < times; i++) {
        char name[32];
        snprintf(name, sizeof(name), "managed%d", i);
        const double took = fail_over(name, FAULT_ETCD);
        longest = took > longest ? took : longest;
        late += took >= 3 * SLOWER;
    }
    printf("soak: %d failovers, the longest took %.2f s\n", times, longest);
    assert_true(late <= times / 10); /* etcd may have to elect twice */
}

GY_TEST(and_the_name_server)
{
    assert_true(fail_over("named", FAULT_ETCD | FAULT_SERVER) < 5 * SLOWER);
}

GY_TEST(and_the_whole_host)
{
    if (getenv("GYRE_SOAK") == NULL) {
        skip();
    }
    assert_true(fail_over("hosted", FAULT_HOST) < 3 * SLOWER); /* 2 s of silence in it */
    (void)fail_over("lone", 0);
    (void)fail_over("served", FAULT_SERVER);
    (void)fail_over("all", FAULT_HOST | FAULT_SERVER | FAULT_ETCD);
}

/* ---- What else a table does ---- */

GY_TEST(a_password_that_others_may_read_is_refused)
{
    char line[2048], where[512];
    snprintf(line, sizeof(line),
             "! timeout 10 $GYRE nameserver --listen 127.0.0.1:0 --key ring --table %s "
             "--table-user gyre "
             "--table-password open --table-ca %s --table-cert %s --table-cert-key %s "
             "--files-folder "
             "files 2>refused && grep -q 'open may be read by others (mode 0644): chmod 600' "
             "refused",
             kit_etcd_where(&etcd, "t/failover", where), etcd.authorities, etcd.certificate,
             etcd.key);
    assert_int_equal(shell(line), 0);
}

/* What there is without etcd, and without a folder that all hosts have, is said. */
GY_TEST(what_one_host_takes_along_is_said)
{
    assert_int_equal(shell("$GYRE nameserver --listen 0.0.0.0:0 --key ring --table alone "
                           "--port-file alone.port 2>alone.log & p=$!; until [ -s alone.port "
                           "] || ! kill -0 $p; do sleep 0.01; done; kill $p; wait $p && grep "
                           "-q 'the table is a file on this host.*gyre job resume' alone.log"),
                     0);
    assert_int_equal(shell("! grep -q 'a file on this host' names?.log"), 0);
}

/* The next manager is where the folder of the one before is not. */
GY_TEST(a_folder_that_is_not_shared_is_said)
{
    char id[40], line[512];
    history of;
    int daemon = -1;
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    if (getenv("GYRE_SOAK") == NULL) {
        skip();
    }
#endif
    start_job("parted", id, &of);
    close_segments(&of);
    assert_int_equal(shell("mkdir away && mv parted/.gyre-job-* away"), 0);
    const pid_t manager = cluster_manager(&at, &daemon);
    assert_true(manager > 0 && kill(manager, SIGKILL) == 0);
    snprintf(line, sizeof(line),
             "grep -q 'epoch 2 finds no journal of earlier managers in .*/parted/.*not all "
             "hosts share that folder' d?/jobs/%s/log/manager",
             id);
    KIT_UNTIL(is_true(line));
    assert_int_equal(shell("touch go"), 0);
    finish_job("parted", id);
}

static void set_password(const char *body)
{
    kit_etcd_log_in(&etcd);
    kit_etcd_manage(&etcd, "/v3/auth/user/changepw", body);
    etcd.token[0] = '\0';
}

/* The password that name servers have is none for a while: they go on when it is one again. */
GY_TEST(name_servers_outlive_a_wrong_password)
{
    if (getenv("GYRE_SOAK") == NULL) {
        skip();
    }
    set_password("{\"name\":\"gyre\",\"password\":\"another\"}");
    assert_int_equal(
        shell("! timeout 20 $GYRE job submit $N --no-wait --connect-timeout 4 -- $GYRE mr "
              "wordcount in0 -o wrong 2>refused"),
        0);
    KIT_UNTIL(is_true("grep -q 'authentication failed' names?.log"));
    set_password("{\"name\":\"gyre\",\"password\":\"se\\\"cret\"}");
    for (int i = 0; i < SERVERS; i++) {
        int status = 0;
        assert_false(kit_has_ended(servers[i], &status));
    }
    assert_int_equal(shell("$GYRE job submit $N -- $GYRE mr wordcount in0 -o right"), 0);
}

/* Two members of three stand still for 20 s. */
GY_TEST(without_a_quorum_jobs_go_on)
{
    char id[40];
    history of;
    if (getenv("GYRE_SOAK") == NULL) {
        skip();
    }
    start_job("quorum", id, &of);
    const double began = kit_now();
    kit_etcd_freeze(&etcd, 0);
    kit_etcd_freeze(&etcd, 1);
    /* As long as nobody knows who is elected: a deadline, and words. */
    assert_int_equal(
        shell("! timeout 20 $GYRE job submit $N --no-wait --connect-timeout 12 -- $GYRE "
              "mr wordcount in0 -o late >said 2>&1; cat said"),
        0);
    printf("soak: a submit without a quorum, after %.1f s: %s", kit_now() - began, said);
    assert_int_equal(shell("touch go"), 0);
    scene_await("quorum/MANIFEST.json");
    assert_true(kit_now() - began < 20);
    KIT_UNTIL(kit_now() - began > 20);
    (void)kill(etcd.pids[0], SIGCONT);
    (void)kill(etcd.pids[1], SIGCONT);
    finish_job("quorum", id);
    find_segments(&of, "quorum", id);
    assert_int_equal(of.count, 1); /* by the manager that was there */
    close_segments(&of);
    assert_int_equal(shell("$GYRE job submit $N -- $GYRE mr wordcount in0 -o after"), 0);
}

int main(void)
{
    (void)gy_test_seed();
    return GY_TESTS_RUN(begin, end);
}
