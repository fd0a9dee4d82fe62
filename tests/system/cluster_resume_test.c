/* Goal: a job of a cluster that was killed, or whose managers died too often, is resumed by its
 * user: nothing that is committed and stands runs again, bytes and counters are those of home,
 * nothing is left; what cannot be resumed says why. What is kept of one goes when its user says
 * so, wherever it lies, and nothing else does. */
#include "cluster_scene.h"

enum { INPUTS = 3 };

static int begin(void **state)
{
    if (kit_begin(state) != 0) {
        return 1;
    }
    /* One manager a job, whatever it dies of. */
    at = (cluster){.options = {"--manager-attempts-max", "1", "--finished-jobs-max", "5"},
                   .keep = CLUSTER_LONG};
    cluster_start(&at);
    return shell(
        "for i in 0 1 2; do seq $((i * 3000)) $((i * 3000 + 4000)) >in$i; done; $GYRE mr "
        "--split 8KiB --map 'tr 7 \"\\n\"' --reduce 'uniq -c' in0 in1 in2 -o home >said "
        "2>&1");
}

/* A job of which all maps are in its journal; its reduces wait. How many maps. */
static int start_half_with(const char *more, const char *name, const char *journal_at,
                           char id[40])
{
    char line[1200], path[300], options[400];
    kit_journal journal;
    snprintf(options, sizeof(options), "%s", more);
    if (journal_at[0] != '\0') {
        snprintf(options, sizeof(options), "%s --journal %s/%s", more, kit_top, journal_at);
    }
    snprintf(line, sizeof(line),
             "rm -rf go runs %s; $GYRE job submit $N --no-wait %s -- $GYRE mr --backup-after 0 "
             "--split 8KiB --map "
             "\"printf m >>$T/runs; tr 7 '\\n'\" --reduce \"printf r >>$T/runs; until [ -e "
             "$T/go ]; do sleep 0.02; done; uniq -c\" in0 in1 in2 -o %s",
             name, options, name);
    assert_int_equal(shell(line), 0);
    scene_id(id);
    KIT_UNTIL(scene_runs('r') > 0); /* behind all maps */
    snprintf(path, sizeof(path), "%s/%s/%s%s/journal.1", kit_top,
             journal_at[0] != '\0' ? journal_at : name,
             journal_at[0] != '\0' ? "" : ".gyre-job-", id);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(file >= 0);
    const double last = kit_now() + KIT_WAIT_SECONDS;
    do {
        kit_pause();
        kit_journal_read(file, &journal);
        assert_true(kit_now() < last);
    } while (journal.committed < scene_runs('m'));
    close(file);
    assert_true(scene_runs('m') >= INPUTS);
    return scene_runs('m');
}

static int start_half(const char *name, const char *journal_at, char id[40])
{
    return start_half_with("", name, journal_at, id);
}

/* That no process of it is left at any daemon. */
static void expect_quiet(void)
{
    KIT_UNTIL(cluster_shell(&at, said, sizeof(said),
                            "! ps axo args | grep -q '[u]ntil \\[ -e'") == 0);
}

static void resume(const char *name, const char *id, const char *what)
{
    char line[1400];
    static const char counters[] =
        "counters() { sed -n '/\"counters\"/,$p' $1/MANIFEST.json | grep -v 'fetch\\|transfers "
        "between\\|tasks begun where' | tr -d ' ,}' | grep .; }";
    snprintf(
        line, sizeof(line),
        "touch go; $GYRE job resume $N --wait-timeout 50 %.12s && cd %s && for f in "
        "../home/p*; "
        "do cmp $f ${f#../home/} || exit 1; done && [ $(ls -A | wc -l) = $(ls ../home | wc "
        "-l) ] && cd .. && %s && counters home >c1 && counters %s >c2 && cmp c1 c2 && $GYRE "
        "job show $N %s | grep -q '  done$'",
        id, name, counters, name, id);
    if (shell(line) != 0) {
        (void)shell("$GYRE job list $N; cat names.log d?.log d?/jobs/*/log/manager; false");
        fail_msg("%s: it was not resumed", what);
    }
}

/* What a user asks for; then words. */
static void refused(const char *id, const char *words)
{
    char line[512];
    snprintf(line, sizeof(line), "! $GYRE job resume $N %s >said 2>&1 && grep -q '%s' said", id,
             words);
    if (shell(line) != 0) {
        fail_msg("not refused with '%s'", words);
    }
}

/* ---- killed ---- */

GY_TEST(a_killed_job_is_resumed)
{
    char id[40], line[512];
    const int maps = start_half("half", "", id);
    refused(id, "has not ended: the cluster continues it");
    snprintf(line, sizeof(line),
             "$GYRE job kill $N %s && ! $GYRE job wait $N --wait-timeout 50 %s >said 2>&1 && "
             "grep -q "
             "'killed by its user' said && [ \"$(ls -A half)\" = .gyre-kept-%s ]",
             id, id, id);
    assert_int_equal(shell(line), 0);
    expect_quiet();
    resume("half", id, "killed");
    assert_int_equal(scene_runs('m'), maps); /* all of their outputs stood at daemons */
    refused(id, "finished successfully: nothing is left to resume");
    refused("0123456789abcdef0123456789abcdef", "the name server knows no job");
    assert_int_equal(shell("cd d0 && ! ls ../d?/jobs/*/data/* 2>../said"), 0);
}

/* ---- given up ---- */

/* A daemon that was killed, where it was and with its folder. */
static pid_t daemon_again(int which, const char *address)
{
    char folder[160], log[160], host[16], name[32];
    snprintf(name, sizeof(name), "d%d", which);
    snprintf(host, sizeof(host), "h%d", which);
    (void)cluster_path(folder, name);
    snprintf(name, sizeof(name), "d%d.log", which);
    (void)cluster_path(log, name);
    const char *const arguments[] = {
        at.binary, "daemon", "--nameservers",      at.names, "--listen",   address,
        "--key",   at.ring,  "--work-folder",      folder,   "--hostname", host,
        "--slots", "3",      "--orphan-retention", at.keep,  NULL};
    return kit_start((char *const *)(uintptr_t)arguments, log);
}

/* Its daemon dies with it, and is started anew with its folder. */
GY_TEST(a_job_that_was_given_up_is_resumed)
{
    char id[40], line[512];
    char address[64];
    int daemon = -1;
    const int maps = start_half("lost", "", id);
    assert_true(cluster_manager(&at, &daemon) > 0);
    snprintf(line, sizeof(line),
             "$GYRE cluster list $N | grep ' h%d ' | grep -o '127[.]0[.]0[.]1:[0-9]*'", daemon);
    assert_int_equal(shell(line), 0);
    snprintf(address, sizeof(address), "%.*s", (int)strcspn(said, "\n"), said);
    assert_int_equal(kill(at.daemons[daemon], SIGKILL), 0);
    (void)kit_wait(at.daemons[daemon]);
    at.daemons[daemon] = daemon_again(daemon, address);
    snprintf(line, sizeof(line),
             "! $GYRE job wait $N --wait-timeout 50 %s >said 2>&1 && grep -q 'managers in a "
             "row' said",
             id);
    assert_int_equal(shell(line), 0);
    KIT_UNTIL(cluster_up(&at) == CLUSTER_DAEMONS);
    resume("lost", id, "given up");
    assert_int_equal(scene_runs('m'), maps);
}

/* ---- what is left ---- */

static void kill_half(const char *name, const char *journal_at, char id[40])
{
    char line[512];
    (void)start_half(name, journal_at, id);
    snprintf(line, sizeof(line),
             "$GYRE job kill $N %s && ! $GYRE job wait $N --wait-timeout 50 %s 2>said", id, id);
    assert_int_equal(shell(line), 0);
}

GY_TEST(another_job_may_have_the_output)
{
    char id[40], line[512];
    kill_half("taken", "apart", id);
    snprintf(line, sizeof(line), "[ -e apart/%s/journal.1 ]", id);
    assert_int_equal(shell(line), 0);
    assert_int_equal(
        shell("$GYRE mr --split 8KiB --map 'tr 7 \"\\n\"' --reduce 'uniq -c' in0 in1 "
              "in2 -o taken >said 2>&1 && [ $(ls -A taken | wc -l) = $(ls home | wc "
              "-l) ] && ls -l taken >before"),
        0);
    refused(id, "nothing is left to resume: .*taken/");
    assert_int_equal(shell("ls -l taken >after && cmp before after"), 0);
    snprintf(line, sizeof(line), "rm -r taken apart/%s", id);
    assert_int_equal(shell(line), 0);
    refused(id, "nothing is left to resume");
    assert_int_equal(shell("[ ! -e taken ] && [ -z \"$(ls -A apart)\" ]"), 0);
}

/* ---- its user wants nothing of it kept ---- */

static void forgotten(const char *id, const char *then)
{
    char line[900];
    const int maps = scene_runs('m'), reduces = scene_runs('r');
    snprintf(line, sizeof(line),
             "$GYRE job gc $N --wait-timeout 50 %.12s | grep -q 'its files are removed' && %s",
             id, then);
    if (shell(line) != 0) {
        (void)shell(
            "$GYRE job list $N; cat d?/jobs/*/log/manager; ls -laR left apart own; false");
        fail_msg("job %s is not forgotten", id);
    }
    snprintf(line, sizeof(line), "! ls d?/jobs/%s/data/* 2>ls", id);
    KIT_UNTIL(cluster_shell(&at, said, sizeof(said), line) == 0);
    assert_int_equal(scene_runs('m'), maps); /* nothing ran for it */
    assert_int_equal(scene_runs('r'), reduces);
    refused(id, "had it forgotten: nothing is left to resume");
    snprintf(line, sizeof(line), "$GYRE job gc $N %s", id); /* again is the same */
    assert_int_equal(shell(line), 0);
}

static void not_forgotten(const char *words, const char *options)
{
    char line[512];
    snprintf(line, sizeof(line), "! $GYRE job gc %s >said 2>&1 && grep -q '%s' said", options,
             words);
    if (shell(line) != 0) {
        fail_msg("gc %s: not refused with '%s'", options, words);
    }
}

GY_TEST(what_is_kept_of_a_job_is_forgotten)
{
    char id[40], options[200];
    kill_half("left", "", id);
    forgotten(id, "[ ! -e left ]");
    (void)start_half("left", "apart", id);
    snprintf(options, sizeof(options), "$N %s", id);
    not_forgotten("kill it first", options);
    snprintf(options, sizeof(options), "$GYRE job kill $N %s && ! $GYRE job wait $N %s", id,
             id);
    assert_int_equal(shell(options), 0);
    forgotten(id, "[ ! -e left ] && [ -z \"$(ls -A apart)\" ]");
    not_forgotten("needs a list of jobs", "$N");
    not_forgotten("there is no job", id);
    not_forgotten("the name server knows no job", "$N 0123456789abcdef0123456789abcdef");
}

/* In a folder of its own, and its output is another one's by now. */
GY_TEST(what_is_anothers_is_not_forgotten)
{
    char id[40], line[512], folder[200];
    snprintf(folder, sizeof(folder), "-e GYRE_JOB_FOLDER=%s/own", kit_top);
    (void)start_half_with(folder, "left", "apart", id);
    snprintf(line, sizeof(line), "$GYRE job kill $N %s && ! $GYRE job wait $N %s", id, id);
    assert_int_equal(shell(line), 0);
    assert_int_equal(shell("[ -e own/id ] && $GYRE mr --split 8KiB --map 'tr 7 \"\\n\"' "
                           "--reduce 'uniq -c' in0 in1 in2 -o left >said 2>&1 && ls -lA left "
                           ">before"),
                     0);
    forgotten(id,
              "ls -lA left >after && cmp before after && [ -z \"$(ls -A apart)\" ] && [ "
              "\"$(ls own | sort | tr '\\n' ' ')\" = 'id inputs lock log settings width ' ]");
}

/* One that nobody could tidy up after. */
GY_TEST(what_a_killed_manager_left_is_forgotten)
{
    char id[40], line[512];
    int daemon = -1;
    (void)start_half("left", "", id);
    const pid_t manager = cluster_manager(&at, &daemon);
    assert_true(manager > 0);
    assert_int_equal(kill(manager, SIGKILL), 0);
    snprintf(
        line, sizeof(line),
        "! $GYRE job wait $N --wait-timeout 50 %s >said 2>&1 && grep -q 'in a row' said && ls "
        "-d left/.gyre-job-%s left/.gyre-%s-1",
        id, id, id);
    assert_int_equal(shell(line), 0);
    forgotten(id, "[ ! -e left ]");
}

/* No map's output stands any more, and the name server cannot say so: all is made again. */
GY_TEST(outputs_that_are_gone_are_made_again)
{
    char id[40], line[512];
    if (getenv("GYRE_SOAK") == NULL) {
        skip();
    }
    kill_half("gone", "", id);
    const int maps = scene_runs('m');
    snprintf(line, sizeof(line), "rm -r d?/jobs/%s/data", id);
    assert_int_equal(shell(line), 0);
    resume("gone", id, "without outputs");
    assert_int_equal(scene_runs('m'), 2 * maps);
}

/* Of a job with a memo they lie in shared storage, and go with no host. */
GY_TEST(shared_outputs_outlive_their_hosts)
{
    char id[40], line[512], memo[200];
    if (getenv("GYRE_SOAK") == NULL) {
        skip();
    }
    snprintf(memo, sizeof(memo), "-e GYRE_JOB_MEMO=%s/shared", kit_top);
    const int maps = start_half_with(memo, "outlived", "", id);
    snprintf(line, sizeof(line),
             "$GYRE job kill $N %s && ! $GYRE job wait $N --wait-timeout 50 %s 2>said", id, id);
    assert_int_equal(shell(line), 0);
    for (int i = 0; i < CLUSTER_DAEMONS; i++) { /* others, with folders of their own */
        assert_int_equal(kill(at.daemons[i], SIGKILL), 0);
        (void)kit_wait(at.daemons[i]);
        snprintf(line, sizeof(line), "rm -rf d%d", i);
        assert_int_equal(shell(line), 0);
        at.daemons[i] = cluster_daemon(&at, i);
    }
    KIT_UNTIL(cluster_up(&at) == CLUSTER_DAEMONS);
    resume("outlived", id, "on other hosts");
    assert_int_equal(scene_runs('m'), maps);
}

/* ---- a memo ---- */

typedef struct counted {
    int tasks, kept; /* of both stages */
} counted;

/* A word count, locally and on the cluster, whose memo is for the cluster alone. Its tables are
 * too large for messages. */
static counted count_words(const char *name)
{
    char line[900];
    snprintf(
        line, sizeof(line),
        "rm -rf plain; $GYRE mr wordcount big0 big1 big2 --split 64KiB -r 2 -o plain >log 2>&1 "
        "&& $GYRE job submit $N -- $GYRE mr wordcount big0 big1 big2 --split 64KiB -r 2 --memo "
        "$T/memo -s -o %s && for f in plain/p*; do cmp $f %s/${f#plain/} || exit 1; done && [ "
        "$(ls -A %s | wc -l) = $(ls plain | wc -l) ]",
        name, name, name);
    assert_int_equal(shell(line), 0);
    counted all = {.tasks = 0};
    for (const char *at_line = said; (at_line = strstr(at_line, "stage ")) != NULL; at_line++) {
        int done = 0, tasks = 0, kept = 0;
        if (sscanf(at_line, "stage %*[a-z]: %d of %d tasks done, %d of them memoised", &done,
                   &tasks, &kept) == 3) {
            assert_int_equal(done, tasks);
            all.tasks += tasks;
            all.kept += kept;
        }
    }
    return all;
}

GY_TEST(a_second_run_takes_what_the_first_one_made)
{
    assert_int_equal(
        shell("for i in 0 1 2; do seq $((i * 9000)) $((i * 9000 + 30000)) >big$i; done"), 0);
    const counted first = count_words("first");
    const int maps = first.tasks - 2;
    assert_true(maps >= INPUTS && maps % INPUTS == 0);
    assert_int_equal(first.kept, 0);
    assert_int_equal(shell("ls memo/objects | wc -l"), 0);
    assert_int_equal(strtol(said, NULL, 10), first.tasks);
    const counted second = count_words("second");
    assert_int_equal(second.kept, first.tasks);
    assert_int_equal(shell("echo one more >>big2"), 0);
    const counted third = count_words("third");
    assert_int_equal(third.tasks, first.tasks);
    assert_int_equal(third.kept, maps / INPUTS * (INPUTS - 1)); /* splits of big2 are others */
}

/* ---- a trace ---- */

GY_TEST(a_trace_has_the_processes_of_all_hosts)
{
    assert_int_equal(
        shell("$GYRE job submit $N -- $GYRE mr wordcount in0 in1 in2 --split 2KiB -r 2 --trace "
              "$T/trace -o traced && python3 -c '\n"
              "import json\n"
              "events = json.load(open(\"trace\"))[\"traceEvents\"]\n"
              "names = {e[\"pid\"]: e[\"args\"][\"name\"] for e in events if e[\"ph\"] == "
              "\"M\"}\n"
              "spans = [e for e in events if e[\"ph\"] == \"X\"]\n"
              "hosts = {n.split(\" on \")[1] for n in names.values() if \" on \" in n}\n"
              "assert hosts and hosts <= {\"h0\", \"h1\", \"h2\"}, names\n"
              "assert all(e[\"pid\"] in names for e in spans)\n"
              "stages = [e[\"name\"] for e in spans if \" on \" in names[e[\"pid\"]]]\n"
              "assert stages.count(\"map\") >= 10 and stages.count(\"reduce\") == 2, stages\n"
              "times = [e[\"ts\"] for e in spans] + [e[\"ts\"] + e[\"dur\"] for e in spans]\n"
              "import time\n"
              "now = time.monotonic() * 1e6\n"
              "assert max(times) < now + 1e5 and min(times) > now - 6e7, (times, now)\n"
              "'"),
        0);
    assert_int_equal(
        shell("! $GYRE job submit $N -- $GYRE mr wordcount in0 --trace trace -o no "
              ">said 2>&1 && grep -q 'from the root' said && [ ! -e no ]"),
        0);
}

GY_TEST_MAIN(begin, scene_end)
