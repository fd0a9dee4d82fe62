/*
 * Goal: a rank that is killed or stopped while stages work by a schedule ends all others within
 * their deadline; each names it and its stage, and no process is left. With arguments this
 * program plays a rank.
 */
#include "launch_kit.h"
#include "training_kit.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "gy_test.h"

enum { SIDE = 6, KILL_STEP = 2, FAILED = 44, STEPS_MAX = 100000 };

/* Of a wait for a rank that is stopped. */
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
#define DEADLINE "GYRE_TIMEOUT=10"
#else
#define DEADLINE "GYRE_TIMEOUT=2"
#endif

static char own_path[4096];

/* ---- Parts of a rank ---- */

typedef struct part {
    gy_comm *comm;
    const char *axes, *schedule;
    int signal, victim; /* the rank that gets it, */
    long after_us;      /* so long after a step began */
} part;

static int own_signal;

static void strike(int number)
{
    (void)number;
    raise(own_signal);
}

static gy_status on_step(void *arg, const gy_progress *progress)
{
    const part *own = arg;
    if (progress->step == KILL_STEP && gy_comm_rank(own->comm) == own->victim) {
        const struct itimerval timer = {.it_value = {.tv_usec = own->after_us}};
        own_signal = own->signal;
        signal(SIGALRM, strike);
        setitimer(ITIMER_REAL, &timer, NULL);
    }
    return GY_OK;
}

static gy_status train(const part *own)
{
    const gy_layer layers[] = {
        gy_layer_flatten(), gy_layer_dense(12), gy_layer_relu(), gy_layer_dense(11),
        gy_layer_relu(),    gy_layer_dense(10), gy_layer_relu(), gy_layer_dense(KIT_CLASSES)};
    gy_mesh *mesh = NULL;
    gy_model *model = NULL;
    gy_dataset digits = kit_digits(40, SIDE);
    GY_TRY(gy_mesh_new(own->comm, own->axes, &mesh));
    gy_status status = gy_model_new(
        &GY_OPTIONS(gy_model_options, .layers = layers, .layer_count = GY_COUNT(layers),
                    .dtype = GY_F64, .input_rank = 3, .input_sizes = {1, SIDE, SIDE}, .seed = 3,
                    .mesh = mesh, .workers = 1),
        &model);
    const bool is_interleaved = strcmp(own->schedule, "interleaved") == 0;
    gy_train_result result;
    if (status == GY_OK) {
        status =
            gy_train(model, &digits, NULL,
                     &GY_OPTIONS(gy_train_options, .steps = STEPS_MAX, .batch = 8, .rate = 0.01,
                                 .micro_batches = 4, .pipe_schedule = own->schedule,
                                 .chunks = is_interleaved ? 2 : 0, .on_step = on_step,
                                 .arg = (void *)(uintptr_t)own),
                     &result);
    }
    if (status >= 0) {
        gy_train_result_free(&result);
        status = gy_fail(GY_STATE, "all steps were made");
    }
    gy_error error;
    gy_error_take(&error, status);
    gy_model_free(model);
    gy_mesh_free(mesh);
    return gy_error_raise(&error);
}

/* What it was told goes to a file of its own; its launcher's wish that it ends at once, since
 * another has, is not heard. */
static int play(char **words)
{
    part own = {.axes = words[1],
                .schedule = words[2],
                .signal = (int)strtol(words[3], NULL, 10),
                .victim = (int)strtol(words[4], NULL, 10),
                .after_us = strtol(words[5], NULL, 10)};
    char path[256];
    signal(SIGTERM, SIG_IGN);
    if (gy_comm_world(&own.comm) < 0) {
        return 99;
    }
    snprintf(path, sizeof(path), "%s/%d", words[0], gy_comm_rank(own.comm));
    FILE *file = fopen(path, "w");
    if (file == NULL || fprintf(file, "%d ", (int)getpid()) < 0 || fflush(file) != 0) {
        return 98;
    }
    (void)train(&own);
    (void)fprintf(file, "%s\n", gy_error_text());
    return fclose(file) == 0 ? FAILED : 97;
}

/* ---- The test's side ---- */

typedef struct drill {
    const char *axes, *schedule;
    int signal, victim;
    const char *named; /* what all others say of it */
} drill;

/* The process of a rank, and what it said. */
static int heard(const char *folder, int rank, char text[2048])
{
    char path[256];
    int process = 0;
    snprintf(path, sizeof(path), "%s/%d", folder, rank);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d ", &process), 1);
    text[0] = '\0';
    (void)!fgets(text, 2048, file);
    (void)fclose(file);
    return process;
}

static void check(const drill *d, uint64_t seed)
{
    char folder[] = "/tmp/gyre-killed-XXXXXX", words[3][32];
    int ranks = 0;
    const bool is_stopped = d->signal == SIGSTOP;
    gy_random random = {.key = seed};
    assert_non_null(mkdtemp(folder));
    assert_ok(gy_mesh_places(d->axes, &ranks));
    snprintf(words[0], sizeof(words[0]), "%d", d->signal);
    snprintf(words[1], sizeof(words[1]), "%d", d->victim);
    snprintf(words[2], sizeof(words[2]), "%d", 1 + (int)gy_random_below(&random, 4000));
    char *argv[] = {own_path,
                    folder,
                    (char *)(uintptr_t)d->axes,
                    (char *)(uintptr_t)d->schedule,
                    words[0],
                    words[1],
                    words[2],
                    NULL};
    const char *const environment[] = {is_stopped ? DEADLINE : "GYRE_TIMEOUT=60", NULL};
    const int64_t begun_ns = gy_now_ns(gy_env_real());
    const int status = launch_run(&(gy_run_options){.ranks = ranks,
                                                    .timeout_s = 100,
                                                    .kill_grace_s = is_stopped ? 2 : 20,
                                                    .environment = environment},
                                  argv);
    const double took_s = (double)(gy_now_ns(gy_env_real()) - begun_ns) * 1e-9;
    printf("%s, %s, %s: %.1f s\n", d->axes, d->schedule, d->named, took_s);
    assert_int_equal(status, d->signal == SIGKILL ? 128 + SIGKILL : FAILED);
    for (int rank = 0; rank < ranks; rank++) {
        char text[2048];
        const int process = heard(folder, rank, text);
        assert_true(kill(process, 0) != 0 && errno == ESRCH);
        if (rank == d->victim ? text[0] != '\0' : strstr(text, d->named) == NULL) {
            fail_msg("seed %llu, %s, %s: rank %d says '%s', expected '%s'",
                     (unsigned long long)seed, d->axes, d->schedule, rank, text, d->named);
        }
    }
    kit_remove_folder(folder);
}

static void check_all(const drill *drills, size_t count)
{
    const uint64_t seed = gy_test_seed();
    const long times = getenv("GYRE_SOAK") != NULL ? 10 : 1;
    for (long i = 0; i < times; i++) {
        for (size_t k = 0; k < count; k++) {
            if (gy_test_takes(k)) {
                check(&drills[k], seed + (uint64_t)i * count + k);
            }
        }
    }
}

GY_TEST(a_killed_stage_is_named_by_all_others)
{
    static const drill drills[] = {
        {"pipe=3", "1f1b", SIGKILL, 1, "rank 1 of stage 1 (process "},
        {"data=2,pipe=2", "zb-h1", SIGKILL, 2, "rank 2 of stage 0 (process "},
        {"pipe=2", "gpipe", SIGKILL, 1, "rank 1 of stage 1 (process "},
        {"pipe=2,data=2", "interleaved", SIGKILL, 0, "rank 0 of stages 0, 2 (process "},
    };
    check_all(drills, GY_COUNT(drills));
}

GY_TEST(a_stopped_stage_is_named_within_the_deadline)
{
    static const drill drills[] = {
        {"pipe=4", "1f1b", SIGSTOP, 2, "rank 2 of stage 2 is stopped"},
    };
    check_all(drills, GY_COUNT(drills));
}

int main(int argc, char **argv)
{
    const ssize_t length = readlink("/proc/self/exe", own_path, sizeof(own_path) - 1);
    if (length <= 0) {
        return 1;
    }
    own_path[length] = '\0';
    return argc > 1 ? play(argv + 1) : GY_TESTS_RUN(NULL, NULL);
}
