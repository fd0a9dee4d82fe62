/*
 * Goal: a training of real processes that is killed anywhere and resumed gives the bytes of the
 * one that was not; a failure that all ranks meet ends all, with one message. This program is
 * also the ranks: with arguments it plays that part.
 */
#include "launch_kit.h"
#include "training_kit.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gy_test.h"

enum { RANKS = 2, EPOCHS = 3, SAMPLES = 60, BATCH = 5, ACCUMULATE = 2, PATH_LENGTH = 4096 };
/* Updates of the whole job. */
enum { STEPS = EPOCHS * SAMPLES / BATCH / ACCUMULATE };
enum { TORN_BYTES = 20000 }; /* about half of a checkpoint */

/* ---- Parts of a rank ---- */

static char own_path[PATH_LENGTH];

typedef struct job {
    gy_comm *comm;
    const char *how;
    long kill_step;
} job;

static void die(int number)
{
    (void)number;
    raise(SIGKILL);
}

/* From now on files of this process end at TORN_BYTES: the write that goes beyond is the last
 * thing that it does, or fails. */
static void limit_files(bool is_deadly)
{
    const struct rlimit limit = {TORN_BYTES, TORN_BYTES};
    const struct sigaction action = {.sa_handler = is_deadly ? die : SIG_IGN};
    GY_ASSERT(sigaction(SIGXFSZ, &action, NULL) == 0);
    GY_ASSERT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static gy_status on_step(void *arg, const gy_progress *progress)
{
    const job *own = arg;
    int rank = gy_comm_rank(own->comm);
    const bool is_torn = strcmp(own->how, "tear") == 0;
    if ((is_torn || strcmp(own->how, "limit") == 0) && progress->step == own->kill_step &&
        rank == 1) {
        limit_files(is_torn);
    }
    if (strcmp(own->how, "die") == 0 && progress->step == own->kill_step && rank == 1) {
        raise(SIGKILL);
    }
    if (strcmp(own->how, "refuse") == 0 && progress->step == own->kill_step && rank == 1) {
        return gy_fail(GY_STATE, "rank 1 has had enough");
    }
    if (rank == 1 || strcmp(own->how, "launcher") == 0) {
        gy_test_say("rank %d, process %d: step %lld.\n", rank, (int)getpid(),
                    (long long)progress->step);
    }
    return GY_OK;
}

static gy_status train(job *own, const char *folder)
{
    static const gy_layer layers[] = {
        {.kind = GY_LAYER_FLATTEN},
        {.kind = GY_LAYER_DENSE, .units = 32},
        {.kind = GY_LAYER_RELU},
        {.kind = GY_LAYER_DROPOUT, .rate = 0.5},
        {.kind = GY_LAYER_DENSE, .units = KIT_CLASSES},
    };
    gy_dataset digits = kit_digits(SAMPLES, 8);
    char checkpoints[PATH_LENGTH];
    char path[PATH_LENGTH];
    snprintf(checkpoints, sizeof(checkpoints), "%s/checkpoints", folder);
    snprintf(path, sizeof(path), "%s/model", folder);
    gy_model *model = NULL;
    GY_TRY(gy_model_new(&(gy_model_options){.name = "job",
                                            .layers = layers,
                                            .layer_count = GY_COUNT(layers),
                                            .dtype = GY_F32,
                                            .input_rank = 3,
                                            .input_sizes = {1, 8, 8},
                                            .seed = 3,
                                            .comm = own->comm,
                                            .workers = 1},
                        &model));
    bool is_nan = strcmp(own->how, "nan") == 0;
    gy_train_options options = {.epochs = EPOCHS,
                                .batch = BATCH,
                                .accumulate = ACCUMULATE,
                                .optimizer = is_nan ? GY_OPTIMIZER_SGD : GY_OPTIMIZER_ADAM,
                                .rate = is_nan ? 1e38 : 0.01,
                                .schedule = GY_SCHEDULE_COSINE,
                                .seed = 5,
                                .checkpoint_folder = checkpoints,
                                .checkpoint_every = 1,
                                .resume = true,
                                .on_step = on_step,
                                .arg = own};
    gy_train_result result;
    gy_status status = gy_train(model, &digits, &digits, &options, &result);
    if (status == GY_OK) {
        gy_train_result_free(&result);
        status = gy_comm_rank(own->comm) == 0 ? gy_model_save(model, path, NULL) : GY_OK;
    }
    gy_model_free(model);
    return status;
}

static int play(char **words)
{
    job own = {.how = words[1], .kill_step = strtol(words[2], NULL, 10)};
    if (gy_comm_world(&own.comm) < 0) {
        fprintf(stderr, "cannot join: %s\n", gy_error_text());
        return 99;
    }
    gy_status status = train(&own, words[0]);
    if (status != GY_OK) {
        gy_run_report_failure(status);
        return 1;
    }
    gy_comm_world_close();
    return 0;
}

/* ---- The test's side ---- */

typedef struct test_run {
    pid_t launcher;
    int output; /* of all that was started: ends when all are gone */
    char text[1 << 16];
    size_t size_bytes;
} test_run;

static test_run now;

static void start(const char *folder, const char *how, int step)
{
    int pair[2];
    assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
    fflush(NULL);
    now = (test_run){.output = pair[0]};
    now.launcher = fork();
    assert_true(now.launcher >= 0);
    if (now.launcher == 0) {
        dup2(pair[1], STDOUT_FILENO);
        dup2(pair[1], STDERR_FILENO);
        char words[3][PATH_LENGTH];
        snprintf(words[0], PATH_LENGTH, "%s", folder);
        snprintf(words[1], PATH_LENGTH, "%s", how);
        snprintf(words[2], PATH_LENGTH, "%d", step);
        char *argv[] = {own_path, words[0], words[1], words[2], NULL};
        _exit(launch_run(&(gy_run_options){.ranks = RANKS}, argv));
    }
    close(pair[1]);
}

/* Read until the output holds `words`, or (NULL) ends. */
static const char *read_until(const char *words)
{
    for (;;) {
        const char *found = words == NULL ? NULL : strstr(now.text, words);
        if (found != NULL) {
            return found;
        }
        struct pollfd look = {.fd = now.output, .events = POLLIN};
        if (poll(&look, 1, 100000) <= 0) {
            fail_msg("silence while waiting for %s in: %s", words == NULL ? "the end" : words,
                     now.text);
        }
        assert_true(now.size_bytes + 1 < sizeof(now.text));
        ssize_t size =
            read(now.output, now.text + now.size_bytes, sizeof(now.text) - 1 - now.size_bytes);
        if (size <= 0) {
            return NULL;
        }
        now.size_bytes += (size_t)size;
        now.text[now.size_bytes] = '\0';
    }
}

/* The launcher's exit status, or 1000 + the signal that killed it; all that it started is gone.
 */
static int finish(void)
{
    int status = 0;
    (void)read_until(NULL);
    close(now.output);
    assert_int_equal(waitpid(now.launcher, &status, 0), now.launcher);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void make_folder(char folder[64])
{
    snprintf(folder, 64, "/tmp/gyre-training-XXXXXX");
    assert_non_null(mkdtemp(folder));
}

/* Remove the folder's files; returns how many have a name that holds `word`. */
static int empty_folder(const char *folder, const char *word)
{
    int found = 0;
    DIR *entries = opendir(folder);
    for (struct dirent *e = entries == NULL ? NULL : readdir(entries); e != NULL;
         e = readdir(entries)) {
        found += strstr(e->d_name, word) != NULL ? 1 : 0;
        (void)unlinkat(dirfd(entries), e->d_name, 0);
    }
    if (entries != NULL) {
        closedir(entries);
    }
    (void)rmdir(folder);
    return found;
}

static void remove_job(const char *folder)
{
    char path[PATH_LENGTH];
    snprintf(path, sizeof(path), "%s/checkpoints", folder);
    assert_int_equal(empty_folder(path, ".tmp"), 0);
    (void)empty_folder(folder, "");
}

static size_t read_model(const char *folder, char *bytes, size_t capacity)
{
    char path[PATH_LENGTH];
    snprintf(path, sizeof(path), "%s/model", folder);
    FILE *file = fopen(path, "rb");
    size_t size = file == NULL ? 0 : fread(bytes, 1, capacity, file);
    if (file != NULL) {
        fclose(file);
    }
    assert_true(size < capacity);
    return size;
}

static bool has_checkpoint(const char *folder, int step)
{
    char path[PATH_LENGTH];
    snprintf(path, sizeof(path), "%s/checkpoints/step-%012d.safetensors", folder, step);
    return access(path, F_OK) == 0;
}

/* Kill in one of four ways when rank 1 (or the launcher's other witness) has done `step`. */
static void kill_at(const char *folder, const char *how, int step)
{
    char words[64];
    snprintf(words, sizeof(words), "step %d.", step);
    start(folder, how, step);
    if (strcmp(how, "launcher") == 0) {
        (void)read_until(words);
        assert_int_equal(kill(now.launcher, SIGKILL), 0);
    } else if (strcmp(how, "outside") == 0) {
        /* The last line before these words names the process. */
        const char *line = read_until(words);
        while (line != NULL && line > now.text && strncmp(line, "process ", 8) != 0) {
            line--;
        }
        assert_non_null(line);
        pid_t victim = (pid_t)strtol(line + 8, NULL, 10);
        assert_true(victim > 1);
        (void)kill(victim, SIGKILL); /* it may be done by now */
    }
    int status = finish();
    bool is_expected = strcmp(how, "launcher") == 0 ? status == 1000 + SIGKILL
                       : strcmp(how, "die") == 0 || strcmp(how, "tear") == 0
                           ? status == 128 + SIGKILL
                           : status == 128 + SIGKILL || status == 0;
    if (!is_expected) {
        fail_msg("%s at step %d ended with %d: %s", how, step, status, now.text);
    }
}

GY_TEST(killed_and_resumed_is_as_if_never_killed)
{
    static const char *const ways[] = {"die", "launcher", "outside", "tear"};
    static char expected[1 << 16];
    static char got[1 << 16];
    gy_random random = {.key = gy_test_seed()};
    char folder[64];
    make_folder(folder);
    start(folder, "whole", 0);
    int status = finish();
    if (status != 0) {
        fail_msg("ended with %d: %s", status, now.text);
    }
    size_t size = read_model(folder, expected, sizeof(expected));
    assert_true(size > 1000);
    remove_job(folder);
    for (size_t i = 0; i < 2 * GY_COUNT(ways); i++) {
        make_folder(folder);
        const char *how = ways[i % GY_COUNT(ways)];
        int step = 1 + (int)gy_random_below(&random, STEPS - 1);
        printf("%s at step %d of %d\n", how, step, (int)STEPS);
        kill_at(folder, how, step);
        if (strcmp(how, "tear") == 0) { /* killed while it wrote the next one */
            assert_true(has_checkpoint(folder, step) && !has_checkpoint(folder, step + 1));
        }
        start(folder, "whole", 0);
        assert_int_equal(finish(), 0);
        /* It went on, it did not begin again; all may have been done when the kill came. */
        const char *first = strstr(now.text, "step ");
        assert_true(first == NULL || strtol(first + 5, NULL, 10) > step);
        assert_int_equal(read_model(folder, got, sizeof(got)), size);
        assert_memory_equal(got, expected, size);
        remove_job(folder);
    }
}

static int count_of(const char *words)
{
    int found = 0;
    for (const char *at = now.text; (at = strstr(at, words)) != NULL; at++) {
        found++;
    }
    return found;
}

GY_TEST(a_loss_that_is_no_number_ends_all_with_one_message)
{
    char folder[64];
    make_folder(folder);
    start(folder, "nan", 0);
    assert_int_equal(finish(), 1);
    assert_int_equal(count_of("the loss is "), 1);
    assert_int_equal(count_of("at step "), 1);
    remove_job(folder);
}

/* The others, waiting in an allreduce, learn the cause; none waits for a deadline. */
GY_TEST(one_ranks_failure_is_told_by_all)
{
    char folder[64];
    make_folder(folder);
    start(folder, "refuse", 7);
    assert_int_equal(finish(), 1);
    assert_int_equal(count_of("rank 1 has had enough"), 1);
    assert_int_equal(count_of("rank 1, process"), 6);
    remove_job(folder);
}

/* The disk of rank 1 takes no more: all end with its words, and the last checkpoint is whole.
 */
GY_TEST(a_rank_that_cannot_write_is_named)
{
    char folder[64];
    make_folder(folder);
    start(folder, "limit", 3);
    assert_int_equal(finish(), 1);
    assert_int_equal(count_of("rank 1: cannot write "), 1);
    assert_int_equal(count_of("File too large"), 1);
    assert_true(has_checkpoint(folder, 3) && !has_checkpoint(folder, 4));
    start(folder, "whole", 0);
    assert_int_equal(finish(), 0);
    assert_int_equal(strtol(strstr(now.text, "step ") + 5, NULL, 10), 4);
    remove_job(folder);
}

int main(int argc, char **argv)
{
    ssize_t size = readlink("/proc/self/exe", own_path, sizeof(own_path) - 1);
    if (size <= 0) {
        return 1;
    }
    if (argc == 4) {
        return play(argv + 1);
    }
    return GY_TESTS_RUN(NULL, NULL);
}
