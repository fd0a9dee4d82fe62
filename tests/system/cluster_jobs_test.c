/* Goal: jobs on a cluster of a name server and three daemons write the bytes that they write at
 * home, whichever manager or daemon is killed; no vertex that was committed runs again while
 * its host lives; nothing is left. */
#include "cluster_scene.h"

enum { INPUTS = 6, MAPS = 1 }; /* of a job over inputs that are so small */

static int begin(void **state)
{
    if (kit_begin(state) != 0) {
        return 1;
    }
    char path[160];
    gy_random random = {.key = gy_test_seed()};
    for (int i = 0; i < INPUTS; i++) {
        snprintf(path, sizeof(path), "%s/in%d", kit_top, i);
        FILE *file = fopen(path, "we");
        for (int k = 0; k < 4000; k++) {
            fprintf(file, "w%u%c", (unsigned)gy_random_below(&random, 3000),
                    k % 7 == 0 ? '\n' : ' ');
        }
        fprintf(file, "\n");
        if (fclose(file) != 0) {
            return 1;
        }
    }
    at = (cluster){.loses = getenv("GYRE_SOAK") != NULL}; /* then daemons die */
    cluster_start(&at);
    return 0;
}

GY_TEST(same_bytes_as_at_home)
{
    static const char *const jobs[] = {
        "mr wordcount in0 in1 in2 in3 in4 in5",
        "mr index in0 in1 in2 in3 in4 in5",
        "mr sort in0 in1 in2 in3 in4 in5",
        /* cohorts: commands with pipes between them */
        "mr --map 'tr \" \" \"\\n\"' --reduce 'uniq -c' in0 in1 in2 in3 in4 in5",
    };
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    const size_t step = 3; /* the first and the last: each takes seconds */
#else
    const size_t step = 1;
#endif
    for (size_t i = 0; i < GY_COUNT(jobs); i += step) {
        char line[1024];
        snprintf(
            line, sizeof(line),
            "rm -rf home out; $GYRE %s -o home && $GYRE job submit $N -- $GYRE %s -o out "
            "&& rm home/MANIFEST.json && for f in home/*; do cmp $f out/${f#home/} || exit "
            "1; done && [ $(ls -A out | wc -l) = $(($(ls home | wc -l) + 1)) ] && "
            "$GYRE job list $N | grep -q done",
            jobs[i], jobs[i]);
        assert_int_equal(shell(line), 0);
    }
}

GY_TEST(says_what_cannot_be_done)
{
    assert_int_equal(shell("! $GYRE job submit $N -e GYRE_JOB_MEMO=memo -- $GYRE mr "
                           "wordcount in0 -o memoed >said 2>&1 && grep -q memo said"),
                     0);
    assert_int_equal(shell("! $GYRE job submit $N -- $GYRE mr wordcount nowhere -o nothing "
                           ">said 2>&1 && grep -q nowhere said && [ ! -e nothing ]"),
                     0);
    assert_int_equal(
        shell(
            "one=\"$GYRE job submit $N -- $GYRE mr wordcount in0 -o full\"; $one >said 2>&1 && "
            "find full | sort >before && ! $one >said 2>&1 && grep -q 'not empty' said && "
            "find full | sort | cmp - before"),
        0);
}

/* A job whose maps are done, written and known to its journal, and whose reduces wait. */
static void start_half(const char *name, char id[40])
{
    char line[1024];
    snprintf(
        line, sizeof(line),
        "rm -rf go runs %s; [ -d homec ] || { $GYRE mr --map 'tr \" \" \"\\n\"' --reduce "
        "'uniq -c' in? -o homec && rm homec/MANIFEST.json; } >said 2>&1; $GYRE job submit $N "
        "--no-wait -- $GYRE mr --backup-after 0 --map \"printf m >>$T/runs; tr ' ' '\\n'\" "
        "--reduce "
        "\"printf r >>$T/runs; until [ -e $T/go ]; do sleep 0.02; done; uniq -c\" in? -o "
        "%s",
        name, name);
    assert_int_equal(shell(line), 0);
    scene_id(id);
    const double last_begun = kit_now() + KIT_WAIT_SECONDS / 2;
    while (scene_runs('r') < 1) { /* after all maps have been committed */
        if (kit_now() > last_begun) {
            (void)shell("$GYRE job list $N; $GYRE cluster list $N; cat names.log d?.log "
                        "d?/jobs/*/log/manager; ps axf | grep gyre-jobs; false");
            fail_msg("no reduce has begun");
        }
        kit_pause();
    }
    char path[300];
    kit_journal journal;
    snprintf(path, sizeof(path), "%s/%s/.gyre-job-%s/journal.1", kit_top, name, id);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(file >= 0);
    do {
        kit_pause();
        kit_journal_read(file, &journal);
        assert_true(kit_now() < last_begun);
    } while (journal.committed < MAPS);
    close(file);
}

static void finish_half(const char *name, const char *id)
{
    char line[1024];
    snprintf(line, sizeof(line),
             "touch go; $GYRE job wait $N --wait-timeout 50 %s && for f in homec/*; do cmp $f "
             "%s/${f#homec/} || exit 1; done; [ $(ls -A %s | wc -l) = $(($(ls homec | wc -l) + "
             "1)) ] && $GYRE job show $N %s",
             id, name, name, id);
    assert_int_equal(shell(line), 0);
    /* What its manager told last is kept when both have ended. */
    const char *const known[] = {"  done\n",        "\nread  ",
                                 "\nreduce  ",      "\ncounters\n",
                                 "  map records  ", "\nlast output\ncommands: "};
    for (size_t i = 0; i < GY_COUNT(known); i++) {
        if (strstr(said, known[i]) == NULL) {
            fail_msg("job show says nothing of '%s': %s", known[i], said);
        }
    }
}

GY_TEST(a_new_manager_goes_on)
{
    char id[40];
    int daemon = -1;
    start_half("managed", id);
    const int maps = scene_runs('m');
    const pid_t manager = cluster_manager(&at, &daemon);
    assert_true(manager > 0);
    assert_int_equal(kill(manager, SIGKILL), 0);
    KIT_UNTIL(cluster_manager(&at, &daemon) > 0 && cluster_manager(&at, &daemon) != manager);
    finish_half("managed", id);
    assert_null(strstr(said, "epoch 1,"));
    assert_int_equal(scene_runs('m'), maps);
}

/* One that runs no manager. */
static int other_daemon(void)
{
    int daemon = 0;
    assert_true(cluster_manager(&at, &daemon) > 0);
    return (daemon + 1) % CLUSTER_DAEMONS;
}

GY_TEST(a_daemon_may_die)
{
    char id[40];
    if (getenv("GYRE_SOAK") == NULL) {
        skip();
    }
    start_half("killed", id);
    const int daemon = other_daemon();
    assert_int_equal(kill(at.daemons[daemon], SIGKILL), 0);
    (void)kit_wait(at.daemons[daemon]);
    at.daemons[daemon] = 0;
    finish_half("killed", id);
    at.daemons[daemon] = cluster_daemon(&at, daemon);
    KIT_UNTIL(cluster_up(&at) == CLUSTER_DAEMONS);
}

GY_TEST(a_daemon_may_stop)
{
    char id[40];
    if (getenv("GYRE_SOAK") == NULL) {
        skip();
    }
    start_half("stopped", id);
    const int daemon = other_daemon();
    assert_int_equal(kill(at.daemons[daemon], SIGSTOP), 0);
    finish_half("stopped", id);
    assert_int_equal(kill(at.daemons[daemon], SIGCONT), 0);
    KIT_UNTIL(cluster_up(&at) == CLUSTER_DAEMONS);
}

/* Bytes that rot where they lie, and files that go, before anybody has fetched them. */
GY_TEST(what_rots_at_a_daemon_is_made_again)
{
    char line[1024], id[40], data[64];
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    if (getenv("GYRE_SOAK") == NULL) {
        skip();
    }
#endif
    assert_int_equal(
        shell(
            "rm -rf go held runs rotten; [ -d homec ] || { $GYRE mr --map 'tr \" \" \"\\n\"' "
            "--reduce 'uniq -c' in? -o homec && rm homec/MANIFEST.json; } >said 2>&1; $GYRE "
            "job submit $N --no-wait -- $GYRE mr --backup-after 0 --split 8KiB --map \"printf "
            "m "
            ">>$T/runs; if "
            "mkdir $T/held 2>$T/said; then until [ -e $T/go ]; do sleep 0.02; done; fi; tr ' ' "
            "'\\n'\" --reduce 'uniq -c' in? -o rotten"),
        0);
    scene_id(id);
    /* All but one are done: nothing is begun any more, nothing new is written. */
    int before = -1, maps = 0;
    for (long files = -1; before != maps || maps < 4 || files < 4;) {
        before = maps;
        const double last = kit_now() + 0.2;
        while (kit_now() < last) {
            kit_pause();
        }
        maps = scene_runs('m');
        snprintf(line, sizeof(line), "ls d?/jobs/%s/data/* 2>/dev/null | wc -l", id);
        assert_int_equal(shell(line), 0);
        snprintf(data, sizeof(data), "%.*s", (int)strcspn(said, "\n"), said);
        files = strtol(data, NULL, 10);
    }
    snprintf(
        line, sizeof(line),
        "i=0; for f in d?/jobs/%s/data/*; do i=$((i+1)); if [ $((i%%2)) = 0 ]; then rm $f; "
        "else printf '\\377' | dd of=$f bs=1 seek=300 conv=notrunc; fi; done",
        id);
    assert_int_equal(shell(line), 0);
    finish_half("rotten", id);
    assert_true(scene_runs('m') > maps);
}

GY_TEST_MAIN(begin, scene_end)
