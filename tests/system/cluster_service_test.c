/* Goal: a job writes the bytes that it writes locally though the name server is killed, another
 * one takes over, a host's disk is full, clocks jump by a day, or another job wants its share.
 */
#include "cluster_scene.h"

#include <sys/mount.h>

static int begin(void **state)
{
    if (kit_begin(state) != 0) {
        return 1;
    }
    at = (cluster){.loses = getenv("GYRE_SOAK") != NULL,
                   .reserve = "4MiB",
                   .options = {"--preemption-delay", "0.05", "--preemption-grace", "0.3",
                               "--gang-preemption-exempt", "0.01"}};
    cluster_start(&at);
    return shell("for i in 0 1 2 3 4 5; do seq $i 7 4000 >in$i; done; "
                 " $GYRE mr --map 'tr \" \" \"\\n\"' --reduce 'uniq -c' in? -o home && "
                 "rm home/MANIFEST.json");
}

/* A job whose maps wait for the file `go`; they say so in the file NAME.runs. */
static void start(const char *name, const char *more, char id[40])
{
    char line[1024], file[64];
    snprintf(line, sizeof(line),
             "$GYRE job submit $N --no-wait --name %s %s -- $GYRE mr --map \"printf m "
             ">>$T/%s.runs; until [ -e $T/go ]; do sleep 0.02; done; tr ' ' '\\n'\" --reduce "
             "'uniq -c' --split 2KiB in? -o %s",
             name, more, name, name);
    assert_int_equal(shell(line), 0);
    scene_id(id);
    snprintf(file, sizeof(file), "%s.runs", name);
    scene_await(file);
}

static void finish(const char *name, const char *id)
{
    char line[1024];
    snprintf(
        line, sizeof(line),
        "$GYRE job wait $N --wait-timeout 50 %s && for f in home/*; do cmp $f %s/${f#home/} || "
        "exit 1; done; [ $(ls -A %s | wc -l) = $(($(ls home | wc -l) + 1)) ] && $GYRE job "
        "show $N %s",
        id, name, name, id);
    assert_int_equal(shell(line), 0);
}

static void kill_server(void)
{
    char path[160];
    (void)kill(at.server, SIGKILL);
    (void)kit_wait(at.server);
    (void)unlink(cluster_path(path, "port"));
}

/* A map needs three slots of one host, and waits: three of them are at all hosts. So each
 * daemon has the program, which the name server keeps. */
static void await_all_hosts(void)
{
    KIT_UNTIL(cluster_shell(&at, said, sizeof(said), "[ $(wc -c <alone.runs) -ge 3 ]") == 0);
}

/* ---- The name server ---- */

GY_TEST_WITH(a_job_outlives_its_name_server, .setup_func = begin)
{
    char id[40];
    start("alone", "", id);
    await_all_hosts();
    kill_server();
    assert_int_equal(shell("touch go"), 0);
    scene_await("alone/MANIFEST.json"); /* it ends while nobody is there to hear of it */
    at.server = cluster_server(&at, at.names);
    scene_await("port");
    finish("alone", id);
    assert_non_null(strstr(said, "epoch 1,"));
    assert_int_equal(shell("rm go"), 0);
}

GY_TEST(another_name_server_takes_over)
{
    char id[40];
    start("handed", "", id);
    const pid_t second = cluster_server(&at, at.names); /* waits, for the same address too */
    KIT_UNTIL(cluster_shell(&at, said, sizeof(said), "grep -q 'on standby' names.log") == 0);
    kill_server();
    at.server = second;
    scene_await("port");
    KIT_UNTIL(cluster_up(&at) == CLUSTER_DAEMONS);
    assert_int_equal(shell("touch go"), 0);
    finish("handed", id);
    assert_non_null(strstr(said, "epoch 1,"));
    assert_int_equal(shell("rm go"), 0);
}

/* ---- Shares ---- */

/* The job has at least one cohort of three at work. */
static bool is_at_work(const char *name)
{
    char line[256];
    snprintf(line, sizeof(line), "$GYRE job list $N | grep -qE 'running +[3-9]/.* %s '", name);
    return cluster_shell(&at, said, sizeof(said), line) == 0;
}

/* A map of commands is three vertices, of which only so many run together; hosts have three. */
GY_TEST(what_does_not_fit_is_joined_by_files)
{
    static const char *const limits[][2] = {{"--slots-max 1", ""},
                                            {"--slots-max 2", "--processes 9"}};
    char line[512];
    for (size_t i = 0; i < GY_COUNT(limits); i++) {
        snprintf(
            line, sizeof(line),
            "$GYRE job submit $N --wait-timeout 50 %s -- $GYRE mr %s --map \"tr ' ' '\\n'\" "
            "--reduce 'uniq -c' in0 in1 in2 in3 in4 in5 -o narrow%zu && for f in home/*; "
            "do cmp $f narrow%zu/${f#home/} || exit 1; done",
            limits[i][0], limits[i][1], i, i);
        assert_int_equal(shell(line), 0);
    }
}

/* Nine slots, and each of two jobs could use them all. */
GY_TEST(two_jobs_share_the_slots)
{
    char first[40], second[40];
    if (gy_test_cases(8) < 8) {
        skip(); /* under a sanitizer it takes seconds */
    }
    start("first", "--weight 10", first);
    KIT_UNTIL(cluster_shell(&at, said, sizeof(said), "$GYRE job list $N | grep -q ' 9/'") == 0);
    start("second", "--weight 10", second);
    KIT_UNTIL(is_at_work("first") && is_at_work("second"));
    assert_int_equal(shell("touch go"), 0);
    finish("first", first);
    finish("second", second);
    assert_int_equal(shell("rm go"), 0);
}

/* ---- A disk ---- */

static bool is_troubled(void)
{
    return cluster_shell(&at, said, sizeof(said), "$GYRE cluster list $N | grep -q trouble") ==
           0;
}

GY_TEST_WITH(a_full_disk_sends_work_elsewhere, .teardown_func = scene_end)
{
    char folder[160], id[40];
    if (getenv("GYRE_SOAK") == NULL) {
        skip();
    }
    (void)cluster_path(folder, "d0");
    (void)kill(at.daemons[0], SIGTERM);
    (void)kit_wait(at.daemons[0]);
    at.daemons[0] = 0;
    if (mount("tmpfs", folder, "tmpfs", 0, "size=24m,mode=0700") != 0) {
        printf("no tmpfs can be mounted here (%s): nothing is shown\n", strerror(errno));
        skip();
    }
    at.daemons[0] = cluster_daemon(&at, 0);
    KIT_UNTIL(cluster_up(&at) == CLUSTER_DAEMONS);
    start("full", "", id);
    assert_int_equal(shell("! head -c 30m /dev/zero >d0/filler 2>/dev/null"), 0);
    KIT_UNTIL(is_troubled());
    assert_int_equal(shell("touch go"), 0);
    finish("full", id);
    assert_int_equal(shell("rm go d0/filler"), 0);
    KIT_UNTIL(!is_troubled());
    (void)kill(at.daemons[0], SIGTERM);
    (void)kit_wait(at.daemons[0]);
    at.daemons[0] = 0;
    assert_int_equal(umount(folder), 0);
}

/* ---- Clocks ---- */

#define FAKER "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"

static char day_file[64];

/* What the clocks of all that is started from now on show: so many days from now. */
static void set_day(int day)
{
    char beside[80];
    snprintf(beside, sizeof(beside), "%s.new", day_file);
    FILE *file = fopen(beside, "we");
    assert_non_null(file);
    assert_true(fprintf(file, "%+dd\n", day) > 0 && fclose(file) == 0);
    assert_int_equal(rename(beside, day_file), 0);
}

static int begin_faked(void **state)
{
    snprintf(day_file, sizeof(day_file), "/tmp/gyre-day-%d", (int)getpid());
    set_day(0);
#if !defined(GYRE_ASAN) && !defined(GYRE_TSAN) /* they must be loaded first */
    (void)setenv("LD_PRELOAD", FAKER, 1);
#endif
    (void)setenv("FAKETIME_TIMESTAMP_FILE", day_file, 1);
    (void)setenv("FAKETIME_NO_CACHE", "1", 1);
    (void)setenv("DONT_FAKE_MONOTONIC", "1", 1);
    return begin(state);
}

static int end_faked(void **state)
{
    const int ended = scene_end(state);
    (void)unsetenv("LD_PRELOAD");
    (void)unlink(day_file);
    return ended;
}

static int end_soak(void **state);
static int begin_soak(void **state);
GY_TEST_WITH(clocks_may_jump_by_a_day, .setup_func = begin_soak, .teardown_func = end_soak)
{
    char id[40];
    if (getenv("GYRE_SOAK") == NULL) {
        skip();
    }
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    printf("with a sanitizer nothing else can be loaded first: nothing is shown\n");
    skip();
#endif
    char day[32], said_day[32];
    assert_int_equal(access(FAKER, R_OK), 0); /* scripts/deps test */
    assert_int_equal(shell("date +%F"), 0);
    snprintf(day, sizeof(day), "%.10s", said);
    start("days",
          "-e LD_PRELOAD -e FAKETIME_TIMESTAMP_FILE -e DONT_FAKE_MONOTONIC -e "
          "FAKETIME_NO_CACHE",
          id);
    set_day(1);
    assert_int_equal(shell("date +%F"), 0);
    snprintf(said_day, sizeof(said_day), "%.10s", said);
    assert_string_not_equal(day, said_day); /* it does what it is for */
    KIT_UNTIL(cluster_up(&at) == CLUSTER_DAEMONS);
    set_day(-1);
    assert_int_equal(shell("touch go"), 0);
    finish("days", id);
    assert_non_null(strstr(said, "epoch 1,"));
}

/* What takes seconds each: with GYRE_SOAK. */
static int begin_soak(void **state)
{
    return getenv("GYRE_SOAK") != NULL ? begin_faked(state) : 0;
}

static int end_soak(void **state)
{
    return getenv("GYRE_SOAK") != NULL ? end_faked(state) : 0;
}

int main(void)
{
    (void)gy_test_seed();
    return GY_TESTS_RUN(NULL, NULL);
}
