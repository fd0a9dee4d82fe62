/* Goal: commands as vertices: bytes pass through, closing an input early is no failure,
 * failures have a reason, and a cancelled command is killed with all its descendants. */
#include "base/base.h"
#include "flow/channel/channel.h"
#include "store/store.h"

#include <gyre/data.h>

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "gy_test.h"

enum { INPUT_BYTES = 3000000 };

static char folder[64], path[128], out[128];
static char *input;
static _Atomic bool is_cancelled;
static int64_t still_ns; /* option of the orders that `run` makes */

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/gyre-command-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    snprintf(path, sizeof(path), "%s/key.0.1", folder);
    snprintf(out, sizeof(out), "%s/out", folder);
    input = gy_alloc("test", INPUT_BYTES);
    for (size_t i = 0; i < INPUT_BYTES; i++) {
        input[i] = (char)(i % 80 == 79 ? '\n' : 'a' + i / 80 % 26);
    }
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char scratch[128];
    gy_free(input);
    snprintf(scratch, sizeof(scratch), "%s/scratch", folder);
    return rmdir(scratch) + rmdir(folder);
}

/* Run a command over the input (or none); its output goes to *got. */
static gy_worker_answer run(const char *const *command, bool has_input,
                            const char *const *files, gy_bytes *got)
{
    gy_flow_task_input in = {.kind = GY_INPUT_INLINE, .data = input, .size_bytes = INPUT_BYTES};
    gy_flow_task_output to = {.kind = GY_OUTPUT_FINAL, .path = out};
    gy_flow_task order = {
        .key = {1, 2},
        .name = "command[0]",
        .stage = "command",
        .command = command,
        .files = files,
        .folder = folder,
        .path = path,
        .inputs = &in,
        .input_count = has_input ? 1 : 0,
        .outputs = &to,
        .output_count = 1,
        .deadline = gy_deadline_after(60),
        .still_ns = still_ns,
    };
    gy_worker_answer answer = {.cause = GY_CAUSE_NONE};
    gy_vertex_execute(gy_env_real(), &order, NULL, NULL, &is_cancelled, &answer);
    *got = (gy_bytes){NULL, 0};
    if (answer.cause == GY_CAUSE_NONE) {
        assert_ok(gy_store_file_read(gy_env_real(), out, SIZE_MAX, got));
        assert_int_equal(unlink(out), 0);
    }
    return answer;
}

static void drop(gy_worker_answer *answer, gy_bytes *got)
{
    gy_free(got->data);
    gy_text_free(&answer->report);
    gy_text_free(&answer->reason);
}

GY_TEST(bytes_go_through)
{
    gy_bytes got;
    gy_worker_answer answer = run((const char *const[]){"cat", NULL}, true, NULL, &got);
    assert_int_equal(answer.cause, GY_CAUSE_NONE);
    assert_int_equal(got.size_bytes, INPUT_BYTES);
    assert_memory_equal(got.data, input, INPUT_BYTES);
    drop(&answer, &got);
    answer =
        run((const char *const[]){"sh", "-c", "cat; cat; echo end", NULL}, false, NULL, &got);
    assert_int_equal(answer.cause, GY_CAUSE_NONE);
    assert_string_equal(got.data, "end\n");
    drop(&answer, &got);
}

GY_TEST(one_may_read_less_than_all)
{
    gy_bytes got;
    gy_worker_answer answer = run((const char *const[]){"head", "-n1", NULL}, true, NULL, &got);
    assert_int_equal(answer.cause, GY_CAUSE_NONE);
    assert_int_equal(got.size_bytes, 80);
    drop(&answer, &got);
    /* closes its input at once and writes more than a pipe can buffer */
    answer = run((const char *const[]){"sh", "-c", "exec <&-; head -c 300000 /dev/zero", NULL},
                 true, NULL, &got);
    assert_int_equal(answer.cause, GY_CAUSE_NONE);
    assert_int_equal(got.size_bytes, 300000);
    drop(&answer, &got);
}

GY_TEST(failures_say_why)
{
    static const struct {
        const char *const command[4];
        const char *says;
    } cases[] = {
        {{"false", NULL}, "command[0]: false ended with status 1"},
        {{"sh", "-c", "cat >/dev/null; echo first >&2; echo so bad >&2; exit 7", NULL},
         "sh ended with status 7: first so bad"},
        {{"sh", "-c", "kill -9 $$", NULL}, "sh died of SIGKILL"},
        {{"/no/such/program", NULL}, "cannot start /no/such/program"},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_bytes got;
        gy_worker_answer answer = run(cases[i].command, true, NULL, &got);
        assert_int_equal(answer.cause, GY_CAUSE_OWN);
        if (strstr(gy_text_get(&answer.reason), cases[i].says) == NULL) {
            fail_msg("%s: %s", cases[i].command[0], gy_text_get(&answer.reason));
        }
        assert_int_equal(access(out, F_OK), -1);
        drop(&answer, &got);
    }
}

GY_TEST(side_files_lie_in_its_folder)
{
    char side[128];
    snprintf(side, sizeof(side), "%s/side.txt", folder);
    assert_ok(gy_save_file(side, "beside", 6));
    gy_bytes got;
    gy_worker_answer answer =
        run((const char *const[]){"sh", "-c", "cat side.txt; touch own; ls | wc -l", NULL},
            false, (const char *const[]){side, NULL}, &got);
    assert_int_equal(answer.cause, GY_CAUSE_NONE);
    assert_string_equal(got.data, "beside2\n");
    drop(&answer, &got);
    answer = run((const char *const[]){"cat", NULL}, false,
                 (const char *const[]){"/no/such/file", NULL}, &got);
    assert_int_equal(answer.cause, GY_CAUSE_OWN);
    assert_non_null(strstr(gy_text_get(&answer.reason), "/no/such/file"));
    drop(&answer, &got);
    assert_int_equal(unlink(side), 0);
}

/* The command prints its own pid and its child's, then sleeps; cancel it once both are
 * known. */
static void *cancel_when_it_runs(void *arg)
{
    (void)arg;
    char name[160];
    snprintf(name, sizeof(name), "%s/pids", folder);
    struct stat status;
    gy_deadline deadline = gy_deadline_after(30);
    while ((stat(name, &status) != 0 || status.st_size == 0) &&
           gy_now_ns(gy_env_real()) < deadline.at_ns) {
        gy_spin();
    }
    atomic_store(&is_cancelled, true);
    return NULL;
}

/* A process that has ended but is not reaped yet counts as not alive. */
static bool is_alive(int pid)
{
    char name[64], text[512] = "";
    snprintf(name, sizeof(name), "/proc/%d/stat", pid);
    FILE *file = fopen(name, "re");
    if (file == NULL) {
        return false;
    }
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    const char *end = strrchr(text, ')');
    return end != NULL && end[2] != 'Z' && end[2] != 'X';
}

GY_TEST(cancelling_kills_it_with_its_children)
{
    char script[640], pids[160];
    snprintf(pids, sizeof(pids), "%s/pids", folder);
    snprintf(script, sizeof(script), "sleep 100 & echo $$ $! > %s.new; mv %s.new %s; wait",
             pids, pids, pids);
    gy_thread thread;
    assert_ok(gy_thread_start(&thread, "cancel", cancel_when_it_runs, NULL));
    gy_bytes got;
    gy_worker_answer answer =
        run((const char *const[]){"sh", "-c", script, NULL}, true, NULL, &got);
    gy_thread_join(&thread);
    atomic_store(&is_cancelled, false);
    assert_int_equal(answer.cause, GY_CAUSE_CANCELLED);
    drop(&answer, &got);
    assert_ok(gy_store_file_read(gy_env_real(), pids, 100, &got));
    int shell = 0, sleeper = 0;
    assert_int_equal(sscanf(got.data, "%d %d", &shell, &sleeper), 2);
    assert_int_equal(kill(shell, 0), -1); /* reaped */
    /* it was killed, and dies when it runs next */
    gy_deadline deadline = gy_deadline_after(10);
    while (is_alive(sleeper)) {
        assert_true(gy_now_ns(gy_env_real()) < deadline.at_ns);
    }
    gy_free(got.data);
    assert_int_equal(unlink(pids), 0);
}

/* A command that has ended is waited for only while its children move bytes; the failure names
 * the command as the user wrote it. */
GY_TEST(nobody_keeps_it_waiting)
{
    static const struct {
        const char *script, *said;
        gy_cause cause;
    } cases[] = {
        {"sleep 98 & echo hi", "'sleep 98 & echo hi' has ended, but a process", GY_CAUSE_FATAL},
        {"setsid sleep 98 & echo hi", "keeps its standard output open", GY_CAUSE_FATAL},
        {"cat >/dev/null; exec >&-; sleep 98", "and did not end for", GY_CAUSE_FATAL},
        {"exec >&- 2>&- <&-; sleep 98", "and did not end for", GY_CAUSE_FATAL},
        {"kill -STOP $$", "is stopped (SIGSTOP)", GY_CAUSE_OWN},
        /* a child holds its input open */
        {"setsid sleep 98 >/dev/null & echo hi", NULL, GY_CAUSE_NONE},
        /* a child holds its standard error open */
        {"sleep 98 <&- >&- & echo hi", NULL, GY_CAUSE_NONE},
        /* the child ends by itself */
        {"(sleep 0.05; echo hi) <&- &", NULL, GY_CAUSE_NONE},
    };
    still_ns = 150000000;
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_bytes got;
        gy_worker_answer answer =
            run((const char *const[]){"sh", "-c", cases[i].script, NULL}, true, NULL, &got);
        if (answer.cause != cases[i].cause ||
            (cases[i].said != NULL &&
             strstr(gy_text_get(&answer.reason), cases[i].said) == NULL)) {
            fail_msg("%s: cause %d: %s", cases[i].script, answer.cause,
                     gy_text_get(&answer.reason));
        }
        if (cases[i].said == NULL) {
            assert_true(got.size_bytes == 3 && memcmp(got.data, "hi\n", 3) == 0);
        }
        drop(&answer, &got);
    }
    still_ns = 0;
}

GY_TEST_MAIN(make_folder, remove_folder)
