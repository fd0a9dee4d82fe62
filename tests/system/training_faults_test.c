/*
 * Goal: what can be wrong with data, checkpoints, model files, disks and single ranks is named,
 * reaches every rank with the same words, and leaves nothing half-done.
 */
#include "train/report/gather.h"
#include "training_kit.h"

#include <gyre/data.h>
#include <gyre/report.h>

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gy_test.h"

enum { PATH_LENGTH = 4096, SIDE = 6 };

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/gyre-faults-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    kit_empty_folder(folder);
    return rmdir(folder);
}

static const char *in_folder(const char *name)
{
    static _Thread_local char path[PATH_LENGTH];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void assert_says(const char *words)
{
    if (strstr(gy_error_text(), words) == NULL) {
        fail_msg("expected \"%s\" in: %s", words, gy_error_text());
    }
}

/* ---- Data ---- */

/* An IDX file of `rank` sizes; `missing` bytes of the data are left out. */
static void write_idx(const char *name, uint8_t type, int rank, const int *sizes, int value,
                      int missing)
{
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    uint8_t head[16] = {0, 0, type, (uint8_t)rank};
    int count = 1;
    for (int i = 0; i < rank; i++) {
        head[4 + 4 * i + 2] = (uint8_t)(sizes[i] >> 8);
        head[4 + 4 * i + 3] = (uint8_t)sizes[i];
        count *= sizes[i];
    }
    fwrite(head, 1, (size_t)(4 + 4 * rank), file);
    for (int i = 0; i < count - missing; i++) {
        fputc(value, file);
    }
    assert_int_equal(fclose(file), 0);
}

typedef struct digits_case {
    const char *what;
    uint8_t images_type, labels_type;
    int images, labels, images_rank, label, missing;
    gy_status status;
    const char *words;
} digits_case;

GY_TEST(damaged_digits_are_named)
{
    static const digits_case cases[] = {
        {"good", 8, 8, 20, 20, 3, 9, 0, GY_OK, ""},
        {"cut short", 8, 8, 20, 20, 3, 9, 1, GY_FORMAT, "train-images-idx3-ubyte"},
        {"wrong magic", 7, 8, 20, 20, 3, 9, 0, GY_FORMAT, "train-images-idx3-ubyte"},
        {"labels' magic", 8, 99, 20, 20, 3, 9, 0, GY_FORMAT, "train-labels-idx1-ubyte"},
        {"label 10", 8, 8, 20, 20, 3, 10, 0, GY_FORMAT, "label 10 at index 0"},
        {"counts", 8, 8, 20, 19, 3, 9, 0, GY_FORMAT, "has 20 images"},
        {"no pictures", 8, 8, 20, 20, 1, 9, 0, GY_FORMAT, "rank 1, expected images"},
        {"floats", 13, 8, 20, 20, 3, 9, 60 * 36, GY_FORMAT, "train-images-idx3-ubyte"},
        {"none", 8, 8, 0, 0, 3, 9, 0, GY_FORMAT, "train-images-idx3-ubyte"},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        const digits_case *c = &cases[i];
        const int good[3] = {20, SIDE, SIDE};
        const int sizes[3] = {c->images, SIDE, SIDE};
        kit_empty_folder(folder);
        write_idx("t10k-images-idx3-ubyte", 8, 3, good, 100, 0);
        write_idx("t10k-labels-idx1-ubyte", 8, 1, good, 3, 0);
        write_idx("train-images-idx3-ubyte", c->images_type, c->images_rank, sizes, 100,
                  c->missing);
        write_idx("train-labels-idx1-ubyte", c->labels_type, 1, &c->labels, c->label, 0);
        gy_dataset *train = NULL;
        gy_dataset *test = NULL;
        printf("%s\n", c->what);
        assert_status(gy_dataset_open_mnist(folder, &train, &test), c->status);
        assert_true((train != NULL) == (c->status == GY_OK));
        assert_true((test != NULL) == (c->status == GY_OK));
        if (c->status != GY_OK) {
            assert_says(c->words);
        }
        gy_dataset_free(train);
        gy_dataset_free(test);
    }
    gy_dataset *train = NULL;
    gy_dataset *test = NULL;
    const int good[3] = {20, SIDE, SIDE};
    write_idx("train-images-idx3-ubyte", 8, 3, good, 100, 0);
    write_idx("train-labels-idx1-ubyte", 8, 1, good, 3, 0);
    write_idx("t10k-labels-idx1-ubyte", 8, 1, good, 255, 0);
    assert_status(gy_dataset_open_mnist(folder, &train, &test), GY_FORMAT);
    assert_says("t10k-labels-idx1-ubyte: label 255");
    unlink(in_folder("t10k-images-idx3-ubyte"));
    assert_status(gy_dataset_open_mnist(folder, &train, &test), GY_NOTFOUND);
    assert_says("t10k-images-idx3-ubyte");
    /* Half a gzip, of which the name tells nothing. */
    static const uint8_t half[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0x4b};
    FILE *file = fopen(in_folder("t10k-images-idx3-ubyte.gz"), "wb");
    assert_non_null(file);
    fwrite(half, 1, sizeof(half), file);
    fclose(file);
    assert_status(gy_dataset_open_mnist(folder, &train, &test), GY_FORMAT);
    assert_says("t10k-images-idx3-ubyte.gz");
    kit_empty_folder(folder);
}

/* ---- One rank, one small job ---- */

static gy_status new_model(gy_comm *comm, uint64_t seed, gy_model **model)
{
    static const gy_layer layers[] = {
        {.kind = GY_LAYER_FLATTEN},
        {.kind = GY_LAYER_DENSE, .units = 64},
        {.kind = GY_LAYER_TANH},
        {.kind = GY_LAYER_DENSE, .units = KIT_CLASSES},
    };
    return gy_model_new(&(gy_model_options){.name = "small",
                                            .layers = layers,
                                            .layer_count = GY_COUNT(layers),
                                            .dtype = GY_F32,
                                            .input_rank = 3,
                                            .input_sizes = {1, SIDE, SIDE},
                                            .seed = seed,
                                            .comm = comm,
                                            .workers = 1},
                        model);
}

typedef struct small_job {
    gy_train_options options;
    uint64_t seed;
    gy_dataset *train; /* NULL: digits */
    double loss;       /* of the last step */
    int64_t steps;
} small_job;

static gy_status train_small(gy_comm *comm, small_job *job)
{
    gy_dataset digits = kit_digits(40, SIDE);
    gy_model *model = NULL;
    gy_train_options options = job->options;
    options.epochs = 2;
    options.batch = options.batch == 0 ? 10 : options.batch;
    options.optimizer = GY_OPTIMIZER_ADAM;
    options.checkpoint_every = 1;
    gy_train_result result;
    GY_TRY(new_model(comm, job->seed, &model));
    gy_status status =
        gy_train(model, job->train != NULL ? job->train : &digits, NULL, &options, &result);
    gy_model_free(model);
    GY_TRY(status);
    if (comm == NULL || gy_comm_rank(comm) == 0) {
        job->loss = result.loss;
        job->steps = result.steps;
    }
    gy_train_result_free(&result);
    return GY_OK;
}

/* ---- Checkpoints ---- */

static void replace_in_file(const char *name, const char *from, const char *to)
{
    static char bytes[1 << 20];
    FILE *file = fopen(in_folder(name), "r+b");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof(bytes), file);
    char *at = memmem(bytes, size, from, strlen(from));
    assert_non_null(at);
    assert_int_equal(fseek(file, at - bytes, SEEK_SET), 0);
    fwrite(to, 1, strlen(from), file);
    assert_int_equal(fclose(file), 0);
}

static void set_text(const char *name, const char *key, const char *value)
{
    gy_bundle *bundle = NULL;
    assert_ok(gy_bundle_read(in_folder(name), &bundle));
    assert_ok(gy_bundle_set(bundle, key, value));
    assert_ok(gy_bundle_write(bundle, in_folder(name)));
    gy_bundle_free(bundle);
}

static const char newest[] = "step-000000000005.safetensors";

GY_TEST(foreign_checkpoints_are_refused)
{
    small_job whole = {.seed = 1};
    assert_ok(train_small(NULL, &whole));
    small_job job = {.seed = 1, .options = {.checkpoint_folder = folder, .step_limit = 5}};
    assert_ok(train_small(NULL, &job));
    /* The folder has a run in it. */
    job.options.step_limit = 0;
    assert_status(train_small(NULL, &job), GY_EXISTS);
    assert_says("step 5");
    job.options.resume = true;
    job.seed = 2;
    assert_status(train_small(NULL, &job), GY_MISMATCH);
    assert_says("model seed 1");
    job.seed = 1;
    /* A newer version's is no damage: the older one beside it is not silently taken. */
    set_text(newest, "gyre.format", "2");
    assert_status(train_small(NULL, &job), GY_UNSUPPORTED);
    assert_says("format 2, this version reads 1");
    assert_says(newest);
    /* Without its checksum, or with a bit turned, it counts as damaged, and the one before it
     * is taken. */
    replace_in_file(newest, "gyre.checksum", "gyre.chicksum");
    assert_ok(train_small(NULL, &job));
    assert_int_equal(job.steps, whole.steps);
    assert_true(job.loss == whole.loss);
    /* A turned bit in the length of the header is damage as well, not a limit to end at. */
    FILE *file = fopen(in_folder("step-000000000008.safetensors"), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 5, SEEK_SET), 0);
    assert_int_equal(fputc(1, file), 1);
    assert_int_equal(fclose(file), 0);
    assert_ok(train_small(NULL, &job));
    assert_int_equal(job.steps, whole.steps);
    assert_true(job.loss == whole.loss);
    kit_empty_folder(folder);
    job.options.resume = false;
    job.options.step_limit = 1;
    assert_ok(train_small(NULL, &job));
    set_text("step-000000000001.safetensors", "gyre.epochs_worse", "1e300");
    job.options.resume = true;
    assert_status(train_small(NULL, &job), GY_FORMAT);
    assert_says("'gyre.epochs_worse' is 1e+300");
    job.options.step_limit = 0;
    kit_empty_folder(folder);
    /* What a killed run was writing goes. */
    file = fopen(in_folder(".gyre-0123456789abcdef.tmp"), "wb");
    assert_non_null(file);
    fclose(file);
    assert_ok(train_small(NULL, &job));
    assert_int_equal(access(in_folder(".gyre-0123456789abcdef.tmp"), F_OK), -1);
    kit_empty_folder(folder);
}

GY_TEST(places_that_cannot_hold_checkpoints_are_named_at_once)
{
    FILE *file = fopen(in_folder("file"), "wb");
    assert_non_null(file);
    fclose(file);
    char path[PATH_LENGTH];
    snprintf(path, sizeof(path), "%s", in_folder("file"));
    small_job job = {.options = {.checkpoint_folder = path}};
    assert_status(train_small(NULL, &job), GY_IO);
    assert_says("it is not a folder");
    job.options.checkpoint_folder = "/nonexistent/folder";
    assert_status(train_small(NULL, &job), GY_IO);
    assert_says("/nonexistent/folder: cannot make the checkpoint folder: No such file");
    kit_empty_folder(folder);
    if (geteuid() != 0) {
        assert_int_equal(chmod(folder, 0555), 0);
        job.options.checkpoint_folder = folder;
        gy_status status = train_small(NULL, &job);
        assert_int_equal(chmod(folder, 0755), 0);
        assert_int_equal(status, GY_IO);
        assert_says("Permission denied");
        return;
    }
    /* Root may write anywhere: be somebody else. The child reports by its status. */
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        job.options.checkpoint_folder = folder;
        if (setgid(65534) != 0 || setuid(65534) != 0) {
            _exit(9);
        }
        _exit(train_small(NULL, &job) != GY_IO                              ? 1
              : strstr(gy_error_text(), "cannot write checkpoints") == NULL ? 2
                                                                            : 0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 9) {
        printf("cannot become another user: skipped\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static gy_status fill_disk(void *arg, const gy_progress *progress)
{
    (void)arg;
    FILE *file = progress->step == 3 ? fopen(in_folder("filler"), "wb") : NULL;
    static const char block[4096];
    while (file != NULL && fwrite(block, 1, sizeof(block), file) == sizeof(block)) {
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return GY_OK;
}

static gy_status run_small(kit_rank *me);

/* On so many ranks. GY_IO: on all, and each says that rank 0 found no space. */
static gy_status train_on(int ranks, small_job *job)
{
    kit_rank members[KIT_RANKS_MAX];
    if (ranks == 1) {
        return train_small(NULL, job);
    }
    kit_run_ranks(ranks, run_small, job, members);
    for (int rank = 0; rank < ranks; rank++) {
        if (members[rank].error.status != members[0].error.status ||
            (members[rank].error.status < 0 &&
             strstr(members[rank].error.text, "rank 0: cannot write ") == NULL)) {
            return GY_STATE;
        }
    }
    return gy_error_raise(&members[0].error);
}

/* In a child with a mount table of its own. 0 when all is as it should be. */
static int train_on_small_disk(int ranks)
{
    small_job whole = {.seed = 4};
    small_job job = {.seed = 4, .options = {.checkpoint_folder = folder, .on_step = fill_disk}};
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", folder, "tmpfs", 0, "size=512k") != 0) {
        return 9;
    }
    if (train_small(NULL, &whole) != GY_OK) {
        return 1;
    }
    if (train_on(ranks, &job) != GY_IO ||
        strstr(gy_error_text(), "No space left on device") == NULL) {
        fprintf(stderr, "%s\n", gy_error_text());
        return 2;
    }
    if (access(in_folder("step-000000000003.safetensors"), F_OK) != 0 ||
        access(in_folder("step-000000000004.safetensors"), F_OK) == 0) {
        return 3;
    }
    (void)unlink(in_folder("filler"));
    job.options.on_step = NULL;
    job.options.resume = true;
    if (train_on(ranks, &job) != GY_OK) {
        return 4;
    }
    if (ranks > 1) {
        return access(in_folder("step-000000000008.safetensors"), F_OK) == 0 ? 0 : 5;
    }
    return job.loss == whole.loss && job.steps == whole.steps ? 0 : 5;
}

static void check_full_disk(int ranks)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        _exit(train_on_small_disk(ranks));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 9) {
        printf("cannot mount a small file system (needs root): skipped\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

GY_TEST(a_full_disk_leaves_the_last_checkpoint)
{
    check_full_disk(1);
}

GY_TEST(a_full_disk_stops_all_ranks)
{
    check_full_disk(3);
}

/* ---- Model files ---- */

GY_TEST(model_files_that_do_not_fit_are_named)
{
    gy_model *model = NULL;
    char path[PATH_LENGTH];
    snprintf(path, sizeof(path), "%s", in_folder("model"));
    assert_ok(new_model(NULL, 1, &model));
    assert_ok(gy_model_save(model, path, NULL));
    gy_model_free(model);
    model = NULL;
    static const struct {
        const char *key, *value;
        gy_status status;
        const char *words;
    } cases[] = {
        {"gyre.layers", "flatten; dense 65; tanh; dense 10", GY_FORMAT, "'dense1.weight'"},
        {"gyre.layers", "flatten; dense 64; tanh; dense 11", GY_FORMAT, "'dense3.weight'"},
        {"gyre.layers", "flatten; dense 64; dense 10", GY_FORMAT, "'dense2.weight'"},
        {"gyre.layers", "flatten; dense 64", GY_FORMAT, "4 tensors"},
        {"gyre.layers", "flatten; dense 1000000000; dense 1000000000", GY_FORMAT, "dense1"},
        {"gyre.layers", "conv2d 8 9 1 0; flatten; dense 10", GY_SHAPE, "do not fit images"},
        {"gyre.input", "1 7 7", GY_FORMAT, "'dense1.weight'"},
        {"gyre.input", "99999999999 99999999999", GY_LIMIT, "input sizes of more than"},
        {"gyre.dtype", "f64", GY_FORMAT, "'dense1.weight'"},
        {"gyre.dtype", "i32", GY_TYPE, "i32"},
        {"gyre.format", "2", GY_FORMAT, "no 'gyre.input_dtype'"},
        {"gyre.format", "3", GY_FORMAT, "format 3, this version reads 1 and 2"},
        {"gyre.classes", "one\ntwo", GY_ARG, "2 class names for 10"},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_bundle *bundle = NULL;
        assert_ok(gy_bundle_read(path, &bundle));
        assert_ok(gy_bundle_set(bundle, cases[i].key, cases[i].value));
        assert_ok(gy_bundle_write(bundle, in_folder("wrong")));
        gy_bundle_free(bundle);
        gy_status status = gy_model_load(in_folder("wrong"), NULL, &model);
        if (status != cases[i].status || strstr(gy_error_text(), cases[i].words) == NULL ||
            strstr(gy_error_text(), "/wrong: ") == NULL) {
            fail_msg("%s = %s gave %s (%s)", cases[i].key, cases[i].value,
                     gy_status_text(status), gy_error_text());
        }
        assert_null(model);
    }
    gy_bundle *bundle = NULL;
    assert_ok(gy_bundle_new(&bundle));
    assert_ok(gy_bundle_write(bundle, in_folder("wrong")));
    gy_bundle_free(bundle);
    assert_status(gy_model_load(in_folder("wrong"), NULL, &model), GY_FORMAT);
    assert_says("not a model of gyre");
    kit_empty_folder(folder);
}

/* ---- Several ranks ---- */

static gy_status run_small(kit_rank *me)
{
    small_job own = *(small_job *)me->arg;
    return train_small(me->comm, &own);
}

/* All ranks end with `status` and the same words. */
static void assert_common(small_job *job, int ranks, gy_status status, const char *words)
{
    kit_rank members[KIT_RANKS_MAX];
    kit_run_ranks(ranks, run_small, job, members);
    for (int rank = 0; rank < ranks; rank++) {
        if (members[rank].error.status != status ||
            strstr(members[rank].error.text, words) == NULL) {
            fail_msg("rank %d of %d: %s (%s), expected \"%s\"", rank, ranks,
                     gy_status_text(members[rank].error.status), members[rank].error.text,
                     words);
        }
    }
}

GY_TEST(no_number_stops_all_ranks_alike)
{
    small_job job = {.options = {.rate = 1e300}};
    assert_common(&job, 3, GY_NUMERIC, "at step ");
}

GY_TEST(a_checkpoint_that_rank_0_cannot_write_stops_all)
{
    small_job job = {.options = {.checkpoint_folder = "/nonexistent/folder"}};
    assert_common(&job, 3, GY_IO, "/nonexistent/folder: cannot make");
}

/* Sample 7, which one rank of the three has in the third batch or so, cannot be read. */
static gy_status bad_fill(gy_dataset *dataset, const int64_t *indices, int64_t count,
                          gy_view *x, gy_view *labels)
{
    for (int64_t i = 0; i < count; i++) {
        if (indices[i] == 7) {
            return gy_fail(GY_IO, "sample 7 cannot be read");
        }
    }
    return kit_fill(dataset, indices, count, x, labels);
}

GY_TEST(one_ranks_bad_sample_stops_all_with_its_words)
{
    static const gy_dataset_ops bad_ops = {"bad", bad_fill, kit_free};
    gy_dataset bad = kit_digits(40, SIDE);
    bad.ops = &bad_ops;
    small_job job = {.train = &bad};
    assert_common(&job, 3, GY_IO, "sample 7 cannot be read");
}

static gy_status gather_and_trace(kit_rank *me)
{
    char mine[100] = "", path[PATH_LENGTH]; /* in_folder's own is for one thread */
    snprintf(path, sizeof(path), "%s/trace.json", folder);
    size_t begins[KIT_RANKS_MAX + 1];
    gy_text all = {.data = NULL};
    gy_status status =
        gy_train_gather_bytes(me->comm, mine, 50 + (size_t)me->rank, &all, begins);
    gy_text_free(&all);
    GY_TRY(status);
    return gy_trace_save(me->comm, path);
}

static gy_status gather_refused(kit_rank *me)
{
    if (me->rank == 0) {
        gy_alloc_fail_after(*(int64_t *)me->arg);
    }
    return gather_and_trace(me);
}

/* Memory that one rank lacks while all exchange: each ends with the cause, none waits. */
GY_TEST(one_ranks_lack_of_memory_ends_an_exchange_on_all)
{
    int refused = 0;
    for (int64_t n = 1; n < 40; n++) {
        kit_rank members[KIT_RANKS_MAX];
        kit_run_ranks(3, gather_refused, &n, members);
        gy_alloc_fail_after(0);
        int failed = 0;
        for (int rank = 0; rank < 3; rank++) {
            failed += members[rank].error.status < 0;
            if (members[rank].error.status != GY_OK && members[rank].error.status != GY_NOMEM) {
                fail_msg("allocation %lld, rank %d: %s", (long long)n, rank,
                         members[rank].error.text);
            }
        }
        refused += failed == 3;
    }
    printf("%d exchanges refused on all ranks\n", refused);
    assert_true(refused > 5);
    kit_empty_folder(folder);
}

/* Each allocation of a training fails once, in turn: an answer, nothing left behind. */
GY_TEST(memory_that_is_refused_is_told)
{
    small_job job = {.seed = 1, .options = {.checkpoint_folder = folder, .step_limit = 3}};
    assert_ok(train_small(NULL, &job)); /* what is made once a process is made now */
    int64_t live = gy_alloc_live();
    int64_t refused = 0;
    for (int64_t n = 1; n < 5000; n += 1 + n / 16) {
        kit_empty_folder(folder);
        gy_alloc_fail_after(n);
        gy_status status = train_small(NULL, &job);
        gy_alloc_fail_after(0);
        if (status != GY_OK && status != GY_NOMEM) {
            fail_msg("allocation %lld: %s (%s)", (long long)n, gy_status_text(status),
                     gy_error_text());
        }
        refused += status == GY_NOMEM;
        if (gy_alloc_live() != live) {
            fail_msg("allocation %lld: %lld stay", (long long)n,
                     (long long)(gy_alloc_live() - live));
        }
    }
    printf("%lld trainings refused\n", (long long)refused); /* some do without */
    assert_true(refused > 20);
    kit_empty_folder(folder);
}

GY_TEST(numbers_too_large_are_refused)
{
    gy_dataset digits = kit_digits(40, SIDE);
    gy_model *model = NULL;
    gy_train_result result;
    assert_ok(new_model(NULL, 1, &model));
    gy_train_options options = {.epochs = 1000000000, .batch = 1, .accumulate = 1};
    digits.count = 1000000;
    assert_status(gy_train(model, &digits, NULL, &options, &result), GY_ARG);
    assert_says("1000000000 epochs of 1000000 steps");
    /* A long training takes memory as it goes, not at its start. */
    digits.count = 40;
    options.step_limit = 3;
    assert_ok(gy_train(model, &digits, NULL, &options, &result));
    assert_int_equal(result.steps, 3);
    gy_train_result_free(&result);
    gy_model_free(model);
}

GY_TEST_MAIN(make_folder, remove_folder)
