/* Goal: a job on a cluster whose journal lies in S3, in HDFS or in another folder: its manager
 * is killed, the next one seals what that wrote and goes on, the output is the same; a store
 * that would not keep two managers apart is refused. Inputs in stores are read by daemons that
 * get the keys with the job, near their blocks; outputs go there, whoever of two managers sends
 * them. */
#include "cluster_scene.h"

typedef struct stub {
    pid_t process;
    int input, port; /* it serves until its input ends */
} stub;

static stub s3, hdfs;

/* A server of tests/servers. */
static stub start_stub(const char *name)
{
    char path[1024], log[160];
    int pair[2];
    stub made = {.port = 0};
    const char *folder = getenv("GYRE_TEST_SERVERS");
    snprintf(path, sizeof(path), "%s/%s", folder != NULL ? folder : "tests/servers", name);
    (void)cluster_path(log, name);
    assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
    made.process = fork();
    assert_true(made.process >= 0);
    if (made.process == 0) {
        const int file = open(log, O_CREAT | O_WRONLY | O_TRUNC, 0600);
        unsetenv("LD_PRELOAD"); /* of a sanitizer's runtime */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (file >= 0 && dup2(pair[0], 0) == 0 && dup2(file, 1) == 1 && dup2(file, 2) == 2) {
            execlp("python3", "python3", "-B", path, (char *)NULL);
        }
        _exit(127);
    }
    close(pair[0]);
    made.input = pair[1];
    for (const double last = kit_now() + KIT_WAIT_SECONDS; made.port == 0 && kit_now() < last;
         kit_pause()) {
        char *text = kit_read(log, NULL);
        const char *found = text != NULL ? strstr(text, "port ") : NULL;
        made.port =
            found != NULL && strchr(found, '\n') != NULL ? (int)strtol(found + 5, NULL, 10) : 0;
        gy_free(text);
    }
    assert_true(made.port > 0);
    return made;
}

static void stop_stub(stub *at_end)
{
    close(at_end->input);
    assert_int_equal(kit_wait(at_end->process), 0);
}

static int begin(void **state)
{
    if (kit_begin(state) != 0) {
        return 1;
    }
    s3 = start_stub("s3.py");
    hdfs = start_stub("webhdfs.py");
    cluster_start(&at);
    return shell("for i in 0 1 2; do seq $((i * 700)) $((i * 700 + 900)) >in$i; done; $GYRE mr "
                 "--map 'tr 7 \"\\n\"' --reduce 'uniq -c' in0 in1 in2 -o home >said 2>&1 && rm "
                 "home/MANIFEST.json");
}

static int end(void **state)
{
    stop_stub(&s3);
    stop_stub(&hdfs);
    cluster_stop(&at);
    return kit_end(state);
}

/* How to submit with a journal there. */
static void options(char out[512], const char *place)
{
    snprintf(out, 512,
             "--journal %s -e GYRE_S3_ENDPOINT=http://127.0.0.1:%d -e "
             "AWS_ACCESS_KEY_ID=AKIDEXAMPLE -e "
             "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
             place, s3.port);
}

/* A job whose manager dies while its reduces run; its output, and what is left of its journal.
 */
static void goes_on_there(const char *place, const char *name, const char *inputs)
{
    char line[1800], given[512], id[40];
    int daemon = 0;
    options(given, place);
    snprintf(
        line, sizeof(line),
        "rm -f go runs; $GYRE job submit $N %s --no-wait -- $GYRE mr --map 'tr 7 \"\\n\"' "
        "--reduce \"printf r >>$T/runs; until [ -e $T/go ]; do sleep 0.02; done; uniq -c\" "
        "%s -o %s",
        given, inputs, name);
    assert_int_equal(shell(line), 0);
    snprintf(id, sizeof(id), "%.*s", (int)strcspn(said, "\n"), said);
    KIT_UNTIL(cluster_shell(&at, said, sizeof(said), "[ -s runs ]") == 0);
    const pid_t manager = cluster_manager(&at, &daemon);
    assert_true(manager > 0);
    snprintf(line, sizeof(line), "[ ! -e %s/.gyre-job-%s/journal.1 ]", name, id);
    assert_int_equal(shell(line), 0);
    assert_int_equal(kill(manager, SIGKILL), 0);
    KIT_UNTIL(cluster_manager(&at, &daemon) > 0 && cluster_manager(&at, &daemon) != manager);
    snprintf(
        line, sizeof(line),
        "touch go; $GYRE job wait $N --wait-timeout 50 %s; for f in home/*; do cmp $f "
        "%s/${f#home/} || exit 1; done; [ $(ls -A %s | wc -l) = $(($(ls home | wc -l) + 1)) "
        "] && $GYRE job show $N %s | grep 'epoch 2,'",
        id, name, name, id);
    assert_int_equal(shell(line), 0);
    snprintf(
        line, sizeof(line),
        "export GYRE_S3_ENDPOINT=http://127.0.0.1:%d AWS_ACCESS_KEY_ID=AKIDEXAMPLE "
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY; case %s in /*) [ ! "
        "-e %s/%s ];; *) $GYRE store ls %s/%s/ | tr '\\n' ' ' | grep -q '^journal.2.[0-9]* "
        "$';; esac && ! grep -r wJalrXUtnFEMI names.log d?.log",
        s3.port, place, place, id, place, id);
    assert_int_equal(shell(line), 0);
}

/* Inputs there as well: the next manager finds them as the first one did. */
static void a_journal_in_s3(void **state)
{
    (void)state;
    char line[400];
    snprintf(line, sizeof(line),
             "export GYRE_S3_ENDPOINT=http://127.0.0.1:%d AWS_ACCESS_KEY_ID=AKIDEXAMPLE "
             "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY; for f in in0 in1 "
             "in2; do $GYRE store cp $f s3://good/lines/$f || exit 1; done",
             s3.port);
    assert_int_equal(shell(line), 0);
    goes_on_there("s3://good/jobs", "out-s3", "s3://good/lines");
}

static void a_journal_in_hdfs(void **state)
{
    (void)state;
    char place[96];
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    if (getenv("GYRE_SOAK") == NULL) {
        skip();
    }
#endif
    snprintf(place, sizeof(place), "hdfs://127.0.0.1:%d/jobs", hdfs.port);
    goes_on_there(place, "out-hdfs", "in0 in1 in2");
}

static void a_journal_in_another_folder(void **state)
{
    (void)state;
    char place[160];
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    if (getenv("GYRE_SOAK") == NULL) {
        skip();
    }
#endif
    goes_on_there(cluster_path(place, "journals"), "out-folder", "in0 in1 in2");
}

/* Such a store replaces what is there: two managers would not see each other. */
static void a_store_that_replaces_is_refused(void **state)
{
    (void)state;
    char line[1024], given[512];
    options(given, "s3://old/jobs");
    snprintf(
        line, sizeof(line),
        "! $GYRE job submit $N %s -- $GYRE mr wordcount in0 -o none >said 2>&1 && grep -q "
        "'cannot hold the journal' said && [ ! -e none ] && ! $GYRE job submit $N --journal "
        "here -- $GYRE mr wordcount in0 -o none >said 2>&1 && grep -q 'from the root' said",
        given);
    assert_int_equal(shell(line), 0);
}

/* Keys are named, not written: they come of this shell. All of h1/x is on host h1. */
static void inputs_lie_in_stores(void **state)
{
    (void)state;
    char line[1600];
    snprintf(
        line, sizeof(line),
        "export GYRE_S3_ENDPOINT=http://127.0.0.1:%d AWS_ACCESS_KEY_ID=AKIDEXAMPLE "
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY "
        "H=hdfs://127.0.0.1:%d; seq 170000 >large; for f in in0 in1; do $GYRE store cp $f "
        "s3://good/texts/$f || exit 1; done; $GYRE store cp large $H/on-h1.rack/x && $GYRE "
        "mr wordcount in0 in1 large -r 2 -o files 2>&1 && $GYRE job submit $N -e "
        "GYRE_S3_ENDPOINT -e AWS_ACCESS_KEY_ID -e AWS_SECRET_ACCESS_KEY -- $GYRE mr "
        "wordcount s3://good/texts $H/on-h1.rack/x -r 2 --stats -o objects "
        "&& rm files/MANIFEST.json && for f in files/*; do cmp $f objects/${f#files/} || "
        "exit 1; done; ! grep -r wJalrXUtnFEMI names.log d?.log objects",
        s3.port, hdfs.port);
    assert_int_equal(shell(line), 0);
    assert_non_null(strstr(said, "counter bytes of objects: "));
    assert_non_null(strstr(said, "counter tasks started where their files are: 1\n"));
}

/* Objects have what was synced: also the commits before a job's end that was none of its own.
 */
static void a_killed_job_is_resumed_from_s3(void **state)
{
    (void)state;
    char line[1800], given[512], id[40];
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    if (getenv("GYRE_SOAK") == NULL) {
        skip();
    }
#endif
    options(given, "s3://good/killed");
    snprintf(
        line, sizeof(line),
        "rm -f go runs; $GYRE job submit $N %s --no-wait -- $GYRE mr --backup-after 0 --map "
        "\"printf m "
        ">>$T/runs; tr 7 '\\n'\" --reduce \"printf r >>$T/runs; until [ -e $T/go ]; do sleep "
        "0.02; done; uniq -c\" in0 in1 in2 -o killed",
        given);
    assert_int_equal(shell(line), 0);
    scene_id(id);
    KIT_UNTIL(cluster_shell(&at, said, sizeof(said), "grep -q r runs") == 0);
    snprintf(
        line, sizeof(line),
        "maps=$(tr -cd m <runs); $GYRE job kill $N %s && ! $GYRE job wait $N %s 2>said && "
        "touch go && $GYRE job resume $N --wait-timeout 50 %s && for f in home/*; do cmp $f "
        "killed/${f#home/} || exit 1; done && [ $(tr -cd m <runs) = $maps ]",
        id, id, id);
    assert_int_equal(shell(line), 0);
}

/* Another cluster, where a manager that is silent is soon replaced. */
static void begin_hasty(void)
{
    cluster_end(&at);
    assert_int_equal(shell("rm -rf ring port table* d?"), 0);
    at = (cluster){.loses = true};
    cluster_start(&at);
}

/* A job is killed while two files of its output are there and others wait, and resumed; then
 * its manager is stopped; the next one finds the two and sends the rest; then the stopped one
 * goes on, and does no harm. */
static void outputs_go_to_a_store(void **state)
{
    (void)state;
    char line[2400], given[512], id[40], keys[256];
    int daemon = 0;
    begin_hasty();
    options(given, "s3://good/journals");
    snprintf(keys, sizeof(keys),
             "export GYRE_S3_ENDPOINT=http://127.0.0.1:%d AWS_ACCESS_KEY_ID=AKIDEXAMPLE "
             "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY; ",
             s3.port);
    snprintf(
        line, sizeof(line),
        "! $GYRE job submit $N %s -- $GYRE mr wordcount in0 -o s3://gated/out >no 2>&1 && "
        "grep -q 'needs one (--folder' no && $GYRE mr wordcount in0 in1 in2 -r 6 -o six -q "
        "&& $GYRE job submit $N %s --no-wait -- $GYRE mr wordcount in0 in1 in2 -r 6 "
        "--folder $T/shared -o s3://gated/out",
        given, given);
    assert_int_equal(shell(line), 0);
    scene_id(id);
    snprintf(
        line, sizeof(line),
        "%s [ \"$($GYRE store ls s3://gated/out | tr '\\n' ' ')\" = 'part-00000 part-00001 "
        "' ]",
        keys);
    KIT_UNTIL(cluster_shell(&at, said, sizeof(said), line) == 0);
    snprintf(
        line, sizeof(line),
        "$GYRE job kill $N %s && ! $GYRE job wait $N %s 2>no && [ -e "
        "shared/output/part-00005 ] && { $GYRE job resume $N --wait-timeout 50 %s >no 2>&1 & }",
        id, id, id);
    assert_int_equal(shell(line), 0);
    snprintf(
        line, sizeof(line),
        "$GYRE job show $N %s | grep -o 'epoch [0-9]*' >epoch && ! grep -x 'epoch 1' epoch",
        id);
    KIT_UNTIL(cluster_shell(&at, said, sizeof(said), line) == 0 &&
              cluster_manager(&at, &daemon) > 0);
    const pid_t manager = cluster_manager(&at, &daemon);
    assert_true(manager > 0);
    assert_int_equal(kill(manager, SIGSTOP), 0);
    snprintf(line, sizeof(line),
             "$GYRE job show $N %s | grep -o 'epoch [0-9]*' >next && ! cmp -s epoch next", id);
    KIT_UNTIL(cluster_shell(&at, said, sizeof(said), line) == 0);
    snprintf(line, sizeof(line),
             "%s $GYRE store cp in0 s3://gated/go && $GYRE job wait $N --wait-timeout 50 %s",
             keys, id);
    assert_int_equal(shell(line), 0);
    (void)kill(manager, SIGCONT); /* its daemon may have ended it */
    KIT_UNTIL(kill(manager, 0) != 0);
    snprintf(
        line, sizeof(line),
        "%s for f in six/part-*; do $GYRE store cat s3://gated/out/${f#six/} | cmp - $f || "
        "exit 1; done; $GYRE store cat s3://gated/out/MANIFEST.json | grep -q %s && [ "
        "$($GYRE store ls s3://gated/out | grep -vc '^[.]gyre-') = 7 ] && [ ! -e "
        "shared/output ] && ! grep -r wJalrXUtnFEMI names.log d?.log",
        keys, id);
    assert_int_equal(shell(line), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_lie_in_stores),
        cmocka_unit_test(a_journal_in_s3),
        cmocka_unit_test(a_journal_in_hdfs),
        cmocka_unit_test(a_journal_in_another_folder),
        cmocka_unit_test(a_killed_job_is_resumed_from_s3),
        cmocka_unit_test(a_store_that_replaces_is_refused),
        cmocka_unit_test(outputs_go_to_a_store),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
