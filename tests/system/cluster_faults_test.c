/*
 * Goal: a name server, three daemons with a folder each and jobs that a user submits, on hosts
 * whose network fails: the output has the bytes that it has at home, once, whatever is killed,
 * cut off, heard on one side alone, lost or late.
 */
#include "base/text.h"
#include "switch_kit.h"

enum { INPUTS = 12, USER = KIT_HOSTS };

typedef struct cluster {
    kit_hosts hosts;
    kit_switch net;
    pid_t processes[SWITCH_HOSTS]; /* daemons; the name server, where the user is */
    char names[64];
    int round; /* each job has files of its own */
} cluster;

static cluster own;

static pid_t start(int host, const char *const *words)
{
    char *copies[KIT_WORDS] = {NULL};
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (int i = 0; words[i] != NULL; i++) {
            copies[i] = gy_copy_text("test", words[i]);
        }
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        int nothing = open("/dev/null", O_WRONLY);
        dup2(nothing, STDOUT_FILENO);
        kit_become(&own.hosts, host, copies);
    }
    return child;
}

static void new_address(int host, char out[64])
{
    snprintf(out, 64, "%s%d:%d", own.hosts.is_real ? "10.7.7." : "127.0.0.",
             own.hosts.is_real ? host + 1 : 1, ++own.hosts.port);
}

static void start_server(void)
{
    char table[KIT_PATH + 8], port[KIT_PATH], path[KIT_PATH];
    new_address(USER, own.names);
    snprintf(table, sizeof(table), "sqlite:%s", kit_path(&own.hosts, "table", path));
    own.processes[USER] = start(
        USER, (const char *const[]){getenv("GYRE_BIN"), "nameserver", "--listen", own.names,
                                    "--key", own.hosts.key, "--table", table, "--port-file",
                                    kit_path(&own.hosts, "server.port", port), NULL});
    kit_wait_for_file(&own.hosts, "server.port");
}

static void start_daemon(int host)
{
    char listen[64], name[16], file[32], below[32], folder[KIT_PATH], port[KIT_PATH];
    new_address(host, listen);
    snprintf(name, sizeof(name), "host%d", host);
    snprintf(below, sizeof(below), "daemon%d", host);
    snprintf(file, sizeof(file), "daemon%d.port", host);
    unlink(kit_path(&own.hosts, file, port));
    own.processes[host] = start(host, (const char *const[]){getenv("GYRE_BIN"),
                                                            "daemon",
                                                            "--nameservers",
                                                            own.names,
                                                            "--listen",
                                                            listen,
                                                            "--work-folder",
                                                            kit_path(&own.hosts, below, folder),
                                                            "--key",
                                                            own.hosts.key,
                                                            "--slots",
                                                            "4",
                                                            "--hostname",
                                                            name,
                                                            "--orphan-retention",
                                                            "1",
                                                            "--disk-free-min",
                                                            "1MB",
                                                            "--files-max",
                                                            "1GB",
                                                            "--memory-max",
                                                            "4GB",
                                                            "--host-labels",
                                                            "fast",
                                                            "--port-file",
                                                            port,
                                                            NULL});
    kit_wait_for_file(&own.hosts, file);
}

static int open_cluster(void **state)
{
    (void)state;
    char name[32], line[KIT_PATH];
    static char text[64 << 10];
    const char *seed = getenv("GYRE_SEED");
    uint64_t number = seed != NULL ? strtoull(seed, NULL, 10) : 1;
    printf("soak: GYRE_SEED=%llu\n", (unsigned long long)number);
    (void)switch_open(&own.net, &own.hosts, number);
    kit_make_key(&own.hosts);
    snprintf(line, sizeof(line), "mkdir %.63s/in", own.hosts.folder);
    assert_int_equal(kit_command(line), 0);
    for (int i = 0; i < INPUTS; i++) {
        size_t used = 0;
        for (int k = 0; k < 4000; k++) { /* too much to travel in messages */
            used += gy_print(text + used, sizeof(text) - used, "word%d%s",
                             (i * 7 + k * k) % 4001, k % 10 == 9 ? "\n" : " ");
        }
        snprintf(name, sizeof(name), "in/%02d", i % 100);
        kit_write(&own.hosts, name, text);
    }
    start_server();
    for (int host = 0; host < KIT_HOSTS; host++) {
        start_daemon(host);
    }
    return 0;
}

/* What is there ends in order. */
static int close_cluster(void **state)
{
    (void)state;
    int failed = 0;
    for (int i = 0; i < SWITCH_HOSTS; i++) {
        int status = 0;
        if (own.processes[i] > 0 && kill(own.processes[i], SIGTERM) == 0) {
            (void)waitpid(own.processes[i], &status, 0);
            failed += status != 0;
        }
    }
    switch_close(&own.net);
    return failed;
}

/* ---- Jobs ---- */

/* A job over all inputs whose maps take a while; at home or on the cluster. */
static pid_t start_job(bool is_home, const char *pause)
{
    char in[KIT_PATH], name[32], out[KIT_PATH], map[128];
    const char *words[KIT_WORDS] = {NULL};
    int count = 0;
    const char *const submit[] = {getenv("GYRE_BIN"), "job",   "submit",     "--nameservers",
                                  own.names,          "--key", own.hosts.key};
    for (size_t i = 0; i < GY_COUNT(submit) && !is_home; i++) {
        words[count++] = submit[i];
    }
    snprintf(name, sizeof(name), "out%d", ++own.round);
    snprintf(map, sizeof(map), "sleep %s; tr -s ' ' '\\n' | grep . | sed 's/$/\t1/'", pause);
    const char *const job[] = {
        getenv("GYRE_BIN"),  "mr",    "--map", map,  "--reduce",
        "cut -f1 | uniq -c", "-r",    "3",     "-o", kit_path(&own.hosts, name, out),
        "--split",           "30KiB", "-p",    "12", kit_path(&own.hosts, "in", in)};
    for (size_t i = 0; i < GY_COUNT(job); i++) {
        words[count++] = job[i];
    }
    return start(USER, words);
}

/* It ends well; its output has the bytes of the first one's, which ran at home. */
static void expect_same(pid_t job)
{
    char text[4096], line[512], file[32];
    int status = 0;
    gy_deadline last = gy_deadline_after(60);
    while (waitpid(job, &status, WNOHANG) == 0) {
        if (gy_now_ns(gy_env_real()) > last.at_ns) {
            fail_msg("job %d does not end", own.round);
        }
        gy_env_real()->ops->pause(gy_env_real(), UINT64_MAX);
    }
    snprintf(file, sizeof(file), "node-%d.err", USER);
    if (status != 0) {
        fail_msg("job %d ended with status %d: %s", own.round, status,
                 kit_read(&own.hosts, file, text, sizeof(text)));
    }
    snprintf(line, sizeof(line),
             "cd %s && ls out1/part-00002 && diff -r -x '.*' -x MANIFEST.json out1 out%d",
             own.hosts.folder, own.round);
    assert_int_equal(kit_command(line), 0);
}

/* Is there something of that name in a job's folder at a daemon? */
static bool has(int host, const char *what)
{
    char line[512];
    snprintf(line, sizeof(line), "find %s/daemon%d/jobs/*/%s -type f 2>/dev/null | grep -q .",
             own.hosts.folder, host, what);
    return kit_command(line) == 0;
}

static void wait_until_has(int host, const char *what, bool is_there)
{
    gy_deadline last = gy_deadline_after(30);
    while (has(host, what) != is_there) {
        if (gy_now_ns(gy_env_real()) > last.at_ns) {
            fail_msg("daemon %d %s %s", host, is_there ? "never has" : "still has", what);
        }
        gy_env_real()->ops->pause(gy_env_real(), UINT64_MAX);
    }
}

/* Half time: vertices have left files. Which host has the manager. */
static int wait_for_half(void)
{
    gy_deadline last = gy_deadline_after(30);
    for (int host = 0;; host = (host + 1) % KIT_HOSTS) {
        if (has(host, "manager/ticket")) {
            for (int other = 0; other < KIT_HOSTS; other++) {
                if (has(other, "data")) {
                    return host;
                }
            }
        }
        assert_true(gy_now_ns(gy_env_real()) < last.at_ns);
        gy_env_real()->ops->pause(gy_env_real(), UINT64_MAX);
    }
}

/* No job's manager or files are anywhere: the next one begins with nothing. */
static void wait_for_calm(void)
{
    for (int host = 0; host < KIT_HOSTS; host++) {
        wait_until_has(host, "manager", false);
        wait_until_has(host, "data", false);
    }
}

/* ---- Faults: each takes the seconds that it takes to be sure that somebody is gone ---- */

static void needs_time(bool is_net_needed)
{
    if (getenv("GYRE_SOAK") == NULL || (is_net_needed && !own.hosts.is_real)) {
        skip();
    }
}

GY_TEST(the_output_is_that_of_home)
{
#if defined(GYRE_ASAN) || defined(GYRE_TSAN) /* a program of a hundred megabytes to bring */
    needs_time(false);
#endif
    expect_same(start_job(true, "0"));
    expect_same(start_job(false, "0"));
}

GY_TEST(all_workers_but_one_are_killed)
{
    needs_time(false);
    bool is_manager_killed = true; /* and that host lives, then */
    for (int round = 0; round < 2; round++) {
        wait_for_calm();
        pid_t job = start_job(false, "0.2");
        int keeper = wait_for_half();
        keeper = is_manager_killed ? (keeper + 1) % KIT_HOSTS : keeper;
        for (int host = 0; host < KIT_HOSTS; host++) {
            if (host != keeper) {
                assert_int_equal(kill(own.processes[host], SIGKILL), 0);
                (void)waitpid(own.processes[host], NULL, 0);
                own.processes[host] = 0;
            }
        }
        expect_same(job);
        for (int host = 0; host < KIT_HOSTS; host++) {
            if (host != keeper) {
                start_daemon(host);
            }
        }
        is_manager_killed = false;
    }
}

/* The manager's host is cut off: that one lives on, another one is made, and there is one
 * output. */
GY_TEST(two_managers_make_one_output)
{
    needs_time(true);
    wait_for_calm();
    pid_t job = start_job(false, "0.3");
    int host = wait_for_half();
    switch_lose(&own.net, host, 1000, 1000);
    expect_same(job);
    switch_lose(&own.net, host, 0, 0);
    wait_until_has(host, "manager", false); /* it has heard that it is over */
    expect_same(start_job(false, "0"));
}

/* A host that hears and is not heard, then one that is heard and does not hear. */
GY_TEST(a_host_that_is_half_cut_off)
{
    needs_time(true);
    for (int round = 0; round < 4; round++) {
        wait_for_calm();
        pid_t job = start_job(false, "0.3");
        int host = (wait_for_half() + round / 2) % KIT_HOSTS; /* the manager's, another */
        switch_lose(&own.net, host, round % 2 == 0 ? 1000 : 0, round % 2 == 0 ? 0 : 1000);
        expect_same(job);
        switch_lose(&own.net, host, 0, 0);
    }
    expect_same(start_job(false, "0"));
}

/* 5 % of all packets are lost, all are 50 ms late. */
GY_TEST(a_bad_line_costs_time_alone)
{
    needs_time(true);
    wait_for_calm();
    for (int host = 0; host < SWITCH_HOSTS; host++) {
        switch_lose(&own.net, host, 50, 50);
    }
    atomic_store(&own.net.rules->delay_ms, 50);
    int64_t begin_ns = gy_now_ns(gy_env_real());
    for (int i = 0; i < 3; i++) {
        expect_same(start_job(false, "0"));
    }
    printf("soak: three jobs over a bad line: %.1f s, %llu packets, %llu lost\n",
           (double)(gy_now_ns(gy_env_real()) - begin_ns) / 1e9,
           (unsigned long long)atomic_load(&own.net.rules->passed),
           (unsigned long long)atomic_load(&own.net.rules->dropped));
    for (int host = 0; host < SWITCH_HOSTS; host++) {
        switch_lose(&own.net, host, 0, 0);
    }
    atomic_store(&own.net.rules->delay_ms, 0);
}

GY_TEST_MAIN(open_cluster, close_cluster)
