/*
 * Goal: `gyre train --update ps:lead=...` by processes: a server or the lead that is killed in
 * the middle of a training changes no bit of the model, a worker that is killed is not waited
 * for, and a training that finds another cluster than it was told says so.
 */
#include "ps_cluster_kit.h"

#include "digits_kit.h"
#include "gy_test.h"

#include <stdarg.h>

enum { SIDE = 8, DIGITS = 24 };

static cluster at;
static char said[8192];

/* A line of shell in the folder. */
__attribute__((format(printf, 1, 2))) static void must(const char *format, ...)
{
    char line[1024];
    size_t used = gy_print(line, sizeof(line), "cd %s && ", at.folder);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line + used, sizeof(line) - used, format, args);
    va_end(args);
    if (gy_test_shell(line, said, sizeof(said)) != 0) {
        fail_msg("'%s': %s", line, said);
    }
}

/* gyre train softmax, with the digits of the folder, into a folder of that name. */
static pid_t train(const char *name, const char *ranks, const char *epochs, const char *update)
{
    char data[128], output[128];
    snprintf(data, sizeof(data), "%s/digits", at.folder);
    snprintf(output, sizeof(output), "%s/%s", at.folder, name);
    char *arguments[CLUSTER_ARGUMENTS] = {"gyre",        "train",
                                          "softmax",     "-q",
                                          "-d",          data,
                                          "-o",          output,
                                          "-b",          "8",
                                          "--optimizer", "momentum",
                                          "--epochs",    (char *)(uintptr_t)epochs,
                                          "-n",          (char *)(uintptr_t)ranks,
                                          "--update",    (char *)(uintptr_t)update,
                                          "--plaintext"};
    return cluster_start(&at, name, arguments);
}

static int count_in(const char *name, const char *words)
{
    char line[256], text[64];
    snprintf(line, sizeof(line), "grep -c '%s' %s/%s.log", words, at.folder, name);
    (void)gy_test_shell(line, text, sizeof(text));
    return (int)strtol(text, NULL, 10);
}

/* Wait until a training has said it so often. */
static void await_words(pid_t process, const char *name, const char *words, int count)
{
    gy_env *env = gy_env_real();
    const gy_deadline deadline = gy_env_deadline(env, 40);
    while (count_in(name, words) < count) {
        if (gy_now_ns(env) > deadline.at_ns || waitpid(process, NULL, WNOHANG) != 0) {
            must("cat %s.log", name);
            fail_msg("%s does not say '%s' %d times: %s", name, words, count, said);
        }
        (void)gy_env_poll(env, gy_env_deadline(env, 0.01));
    }
}

/* It goes on, up to its end, and that is a good one. */
static void await_end(pid_t process, const char *name)
{
    gy_env *env = gy_env_real();
    const gy_deadline deadline = gy_env_deadline(env, 60);
    int status = 0;
    while (waitpid(process, &status, WNOHANG) == 0) {
        if (gy_now_ns(env) > deadline.at_ns) {
            must("tail -n 20 %s.log", name);
            fail_msg("%s does not end: %s", name, said);
        }
        (void)gy_env_poll(env, gy_env_deadline(env, 0.01));
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        must("tail -n 20 %s.log", name);
        fail_msg("%s ended with %x: %s", name, (unsigned)status, said);
    }
}

/* The process of a rank of a training, which has just begun. */
static pid_t await_rank(pid_t process, int rank)
{
    gy_env *env = gy_env_real();
    const gy_deadline deadline = gy_env_deadline(env, 40);
    for (;;) {
        must("grep -lz '^GYRE_RANK=%d$' $(grep -lzx \"MARK=%s\" /proc/[0-9]*/environ "
             "2>/dev/null) /dev/null 2>/dev/null | sed 's|/proc/\\([0-9]*\\)/.*|\\1|'",
             rank, at.folder);
        pid_t found = (pid_t)strtol(said, NULL, 10);
        if (found > 0) {
            return found;
        }
        if (gy_now_ns(env) > deadline.at_ns || waitpid(process, NULL, WNOHANG) != 0) {
            fail_msg("rank %d does not begin", rank);
        }
        (void)gy_env_poll(env, gy_env_deadline(env, 0.002));
    }
}

static void assert_goes_on(pid_t process)
{
    assert_int_equal(waitpid(process, NULL, WNOHANG), 0);
}

static int begin(void **state)
{
    char digits[128];
    (void)state;
    memset(&at, 0, sizeof(at));
    cluster_begin(&at);
    (void)setenv("MARK", at.folder, 1);
    (void)setenv("GYRE_LOG", "info", 1);
    snprintf(digits, sizeof(digits), "%s/digits", at.folder);
    must("mkdir digits");
    kit_write_digits(digits, DIGITS, SIDE);
    cluster_start_lead(&at, 0);
    for (int i = 0; i < 3; i++) {
        cluster_start_server(&at, i);
    }
    return 0;
}

static int end(void **state)
{
    (void)state;
    cluster_end(&at);
    return 0;
}

/* The model of a training that loses its lead and a server is that of one which does not. While
 * no lead mends what the server had the training stands, and cannot end meanwhile. */
GY_TEST(kills_change_no_bit)
{
    char update[256];
    const char *epochs = "200";
    await_end(train("whole", "2", epochs, "ps:k=2"), "whole");
    snprintf(update, sizeof(update), "ps:at=%s,replicas=2", at.lead_list);
    const pid_t process = train("killed", "2", epochs, update);
    await_words(process, "killed", "first step done", 2);
    cluster_kill(&at.leads[0]);
    cluster_kill(&at.servers[0]); /* it is the head of some parts, and the tail of others */
    assert_goes_on(process);
    cluster_start_lead(&at, 0);
    cluster_start_server(&at, 3);
    await_end(process, "killed");
    must("cmp whole/model.safetensors killed/model.safetensors");
}

/* A worker that is killed while others wait for its clock is given up; they go on, and say how
 * far they came. */
GY_TEST(a_killed_worker_is_not_waited_for)
{
    char update[256];
    snprintf(update, sizeof(update), "ps:lead=%s,name=other", at.lead_list);
    const pid_t process = train("fewer", "3", "100", update);
    pid_t doomed = await_rank(process, 1);
    await_words(process, "fewer", "first step done", 3);
    assert_int_equal(kill(doomed, SIGKILL), 0);
    assert_goes_on(process);
    await_end(process, "fewer");
    assert_int_equal(count_in("fewer", "trained 300 steps"), 1);
}

/* The server that a training has started for itself. */
static pid_t server_of(pid_t process)
{
    char path[96];
    int server = 0;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)process, (int)process);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &server), 1);
    (void)fclose(file);
    return (pid_t)server;
}

/* One that is gone, or stopped, is named after one patience for all that is asked of it, and
 * ends with the training. */
GY_TEST(a_lost_server_is_named_in_time)
{
    static const struct {
        int signal;
        const char *name, *words;
    } cases[] = {
        {SIGKILL, "gone", "is not reached"},
        {SIGSTOP, "halted", ": server 127.0.0.1:"},
    };
    assert_int_equal(setenv("GYRE_TIMEOUT", "3", 1), 0);
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        int status = 0;
        const pid_t process = train(cases[i].name, "1", "1000", "ps:k=1");
        await_words(process, cases[i].name, "first step done", 1);
        const pid_t server = server_of(process);
        assert_int_equal(kill(server, cases[i].signal), 0);
        const int64_t begun_ns = gy_now_ns(gy_env_real());
        assert_int_equal(waitpid(process, &status, 0), process);
        const double took_s = (double)(gy_now_ns(gy_env_real()) - begun_ns) * 1e-9;
        printf("%s: named after %.1f s\n", cases[i].name, took_s);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
        assert_int_equal(count_in(cases[i].name, cases[i].words), 1);
        assert_true(took_s < 5.5); /* and not 3 s for each of the two parameters */
        assert_true(kill(server, 0) != 0);
    }
    assert_int_equal(unsetenv("GYRE_TIMEOUT"), 0);
}

GY_TEST(another_cluster_is_named)
{
    char update[256];
    int status = 0;
    snprintf(update, sizeof(update), "ps:lead=%s,replicas=3", at.lead_list);
    const pid_t process = train("refused", "2", "1", update);
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
    assert_true(count_in("refused", "each part has 2 replicas at the lead") > 0);
}

GY_TEST_MAIN(begin, end)
