/*
 * Goal: a file of a training knows no mesh: its bytes depend on the values alone, any mesh
 * reads it, no rank holds a whole tensor, and a rank that cannot write stops all with the old
 * file left.
 */
#include "training_kit.h"

#include "graph/graph.h"
#include "store/bundle/bundle.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gy_test.h"

enum { SIDE = 6, PATH_LENGTH = 256 };

static char root[64];

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/gyre-files-XXXXXX");
    return mkdtemp(root) == NULL;
}

static int remove_root(void **state)
{
    (void)state;
    kit_remove_folder(root);
    return access(root, F_OK) == 0;
}

/* ---- one way to lay a model out, and what is done with it ---- */

typedef struct way {
    const char *axes;
    int ranks, zero, pins;
} way;

/* A matrix cut by columns along model, and by rows along data. */
static const gy_parameter_pin pins[] = {
    {.name = "dense1.weight", .axis = "model", .placement = {.kind = GY_SHARD, .dim = 1}},
    {.name = "dense5.weight", .axis = "model", .placement = {.kind = GY_SHARD, .dim = 0}}};

static const way ways[] = {
    {NULL, 1, 0, 0},
    {"data=3", 3, 3, 0},
    {"data=2,model=2", 4, 1, 2},
    {"data=2", 2, 2, 0},
    {"model=2,data=2", 4, 3, 2},
    {"auto=3", 3, 0, 0},
    {"data=2,model=2", 4, 0, 2},
};

typedef struct task {
    way way;
    const char *from, *to;     /* folders of checkpoints; NULL: train, or write none */
    const char *model, *saved; /* model files to load and to save; NULL: none */
    const char *blind;         /* the folder of rank 2, which does not see the others' */
    int64_t hidden;            /* units of the middle layer */
    size_t largest;            /* allocation while files are written and read */
} task;

static gy_train_options options_of(const task *t, int rank, const char *folder)
{
    return (gy_train_options){.epochs = 2,
                              .batch = 4,
                              .accumulate = 2,
                              .optimizer = GY_OPTIMIZER_ADAM,
                              .rate = 0.01,
                              .step_limit = 2,
                              .seed = 4,
                              .zero = t->way.zero,
                              .pins = pins,
                              .pin_count = t->way.pins,
                              .resume = true,
                              .checkpoint_folder =
                                  rank == 2 && t->blind != NULL ? t->blind : folder};
}

static gy_status new_model(const kit_rank *me, const task *t, gy_mesh *mesh, gy_model **model)
{
    const gy_layer layers[] = {
        {.kind = GY_LAYER_FLATTEN},
        {.kind = GY_LAYER_DENSE, .units = t->hidden},
        {.kind = GY_LAYER_BATCH_NORM},
        {.kind = GY_LAYER_RELU},
        {.kind = GY_LAYER_DROPOUT, .rate = 0.25},
        {.kind = GY_LAYER_DENSE, .units = KIT_CLASSES},
    };
    gy_model_options options = {.name = "files",
                                .layers = layers,
                                .layer_count = GY_COUNT(layers),
                                .dtype = GY_F32,
                                .input_rank = 3,
                                .input_sizes = {1, SIDE, SIDE},
                                .seed = 11,
                                .mesh = mesh,
                                .workers = 1};
    (void)me;
    if (t->model != NULL) {
        return gy_model_load(t->model, &options, model);
    }
    return gy_model_new(&options, model);
}

/* Write what the model has now to another folder, without a step. */
static gy_status write_again(gy_model *model, const task *t, gy_dataset *set, int rank)
{
    gy_train_options options;
    gy_train_state state = {.step = 0};
    bool is_found = false;
    const gy_train_options from = options_of(t, rank, t->from);
    GY_TRY(gy_train_defaults(&from, &options));
    GY_TRY(gy_model_build(model, &options));
    (void)gy_base_largest_alloc();
    gy_status status = gy_train_checkpoint_read(model, &options, set, &state, &is_found);
    if (status == GY_OK) {
        GY_ASSERT(is_found && state.step == 2);
        options.checkpoint_folder = rank == 2 && t->blind != NULL ? t->blind : t->to;
        status = gy_train_checkpoint_write(model, &options, set, &state);
    }
    gy_free(state.losses);
    return status;
}

static gy_status run_task(kit_rank *me)
{
    task *t = me->arg;
    gy_dataset set = kit_digits(23, SIDE);
    gy_mesh *mesh = NULL;
    gy_model *model = NULL;
    GY_TRY(gy_mesh_new(me->comm, me->ranks > 1 ? t->way.axes : NULL, &mesh));
    GY_TRY(new_model(me, t, mesh, &model));
    gy_status status = GY_OK;
    if (t->from != NULL) {
        status = write_again(model, t, &set, me->rank);
    } else if (t->to != NULL) {
        const gy_train_options options = options_of(t, me->rank, t->to);
        gy_train_result result;
        status = gy_train(model, &set, NULL, &options, &result);
        if (status == GY_OK) {
            gy_train_result_free(&result);
        }
    } else if (t->model != NULL) { /* laid out as a training would */
        gy_train_options options;
        const gy_train_options plain = options_of(t, me->rank, NULL);
        status = gy_train_defaults(&plain, &options);
        status = status == GY_OK ? gy_model_build(model, &options) : status;
    }
    if (status == GY_OK && t->saved != NULL && (model->is_sharded || me->rank == 0)) {
        status = gy_model_save(model, t->saved, NULL);
    }
    if (status == GY_OK && me->comm != NULL) {
        status = gy_barrier(me->comm);
    }
    if (me->rank == 0) {
        t->largest = gy_base_largest_alloc();
    }
    gy_model_free(model);
    gy_mesh_free(mesh);
    return status;
}

static void run(task *t)
{
    kit_rank members[KIT_RANKS_MAX];
    kit_run_ranks(t->way.ranks, run_task, t, members);
    for (int rank = 0; rank < t->way.ranks; rank++) {
        if (members[rank].error.status != GY_OK) {
            fail_msg("rank %d of %d: %s", rank, t->way.ranks, members[rank].error.text);
        }
    }
}

static const char *path_in(const char *name, char path[PATH_LENGTH])
{
    snprintf(path, PATH_LENGTH, "%s/%s", root, name);
    return path;
}

static gy_bytes bytes_of(const char *folder, const char *name)
{
    char path[PATH_LENGTH + 64];
    gy_bytes bytes = {NULL, 0};
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_ok(gy_store_file_read(gy_env_real(), path, 64 << 20, &bytes));
    return bytes;
}

static void expect_same(const char *folder, const char *other, const char *name,
                        const char *what)
{
    gy_bytes left = bytes_of(folder, name), right = bytes_of(other, name);
    if (left.size_bytes != right.size_bytes ||
        memcmp(left.data, right.data, left.size_bytes) != 0) {
        fail_msg("%s: another file", what);
    }
    gy_free(left.data);
    gy_free(right.data);
}

static const char newest[] = "step-000000000002.safetensors";

static const char *name_of(const way *w)
{
    return w->axes != NULL ? w->axes : "one rank";
}

/* Whether what `from` has written is loaded by `to`: each loads of some, and each is loaded by
 * some. All of all take seconds, and are for a soak. */
static bool is_loaded(int from, int to)
{
    return (from + to) % 2 == 0 || getenv("GYRE_SOAK") != NULL;
}

GY_TEST(loaded_and_saved_elsewhere_it_is_the_same_file)
{
    const int step = gy_test_cases(8) == 1 ? 3 : 1;
    for (int from = 0; from < (int)GY_COUNT(ways); from += step) {
        char first[PATH_LENGTH], second[PATH_LENGTH], what[128];
        task train = {.way = ways[from], .to = path_in("first", first), .hidden = 19};
        run(&train);
        for (int to = 0; to < (int)GY_COUNT(ways); to++) {
            if (!is_loaded(from, to)) {
                continue;
            }
            task again = {
                .way = ways[to], .from = first, .to = path_in("second", second), .hidden = 19};
            assert_int_equal(mkdir(second, 0777), 0);
            run(&again);
            snprintf(what, sizeof(what), "%s zero %d, then %s zero %d", name_of(&ways[from]),
                     ways[from].zero, name_of(&ways[to]), ways[to].zero);
            expect_same(first, second, newest, what);
            kit_remove_folder(second);
        }
        kit_remove_folder(first);
    }
}

GY_TEST(model_files_know_no_mesh_either)
{
    const int step = gy_test_cases(8) == 1 ? 3 : 1;
    for (int from = 0; from < (int)GY_COUNT(ways); from += step) {
        char folder[PATH_LENGTH], model[PATH_LENGTH], saved[PATH_LENGTH], what[128];
        task train = {.way = ways[from],
                      .to = path_in("first", folder),
                      .saved = path_in("model", model),
                      .hidden = 19};
        run(&train);
        kit_remove_folder(folder);
        for (int to = 0; to < (int)GY_COUNT(ways); to++) {
            if (!is_loaded(from, to + 1)) { /* by those that the other half is not loaded by */
                continue;
            }
            task again = {.way = ways[to],
                          .model = model,
                          .saved = path_in("saved", saved),
                          .hidden = 19};
            run(&again);
            gy_bytes left = bytes_of(root, "model"), right = bytes_of(root, "saved");
            snprintf(what, sizeof(what), "model of %s, loaded by %s", name_of(&ways[from]),
                     name_of(&ways[to]));
            if (left.size_bytes != right.size_bytes ||
                memcmp(left.data, right.data, left.size_bytes) != 0) {
                fail_msg("%s: another file", what);
            }
            gy_free(left.data);
            gy_free(right.data);
            assert_int_equal(unlink(saved), 0);
        }
        assert_int_equal(unlink(model), 0);
    }
}

/* 36 * 40000 elements are 5.8 MB, their state twice as much: more than any allocation. */
GY_TEST(no_rank_holds_a_whole_tensor)
{
    static const way cut[] = {{"data=4", 4, 3, 0}, {"data=2,model=2", 4, 3, 2}};
    for (size_t i = 0; i < GY_COUNT(cut); i++) {
        char first[PATH_LENGTH], second[PATH_LENGTH];
        task train = {.way = cut[i], .to = path_in("first", first), .hidden = 40000};
        run(&train);
        task again = {
            .way = cut[i], .from = first, .to = path_in("second", second), .hidden = 40000};
        assert_int_equal(mkdir(second, 0777), 0);
        run(&again);
        printf("%s: largest allocation %zu bytes\n", cut[i].axes, again.largest);
        assert_true(again.largest > 0 && again.largest < 36 * 40000 * 4 / 2);
        expect_same(first, second, newest, cut[i].axes);
        kit_remove_folder(first);
        kit_remove_folder(second);
    }
}

/* Rank 2 looks for the file in a folder of its own, as on a host of its own. */
GY_TEST(ranks_that_do_not_see_the_folder_send_to_rank_0)
{
    for (size_t i = 0; i < GY_COUNT(ways); i++) {
        if (ways[i].ranks < 3) {
            continue;
        }
        char first[PATH_LENGTH], second[PATH_LENGTH];
        task seen = {.way = ways[i], .to = path_in("first", first), .hidden = 19};
        run(&seen);
        task hidden = {.way = ways[i],
                       .to = path_in("second", second),
                       .blind = "/nonexistent/folder",
                       .hidden = 19};
        run(&hidden);
        expect_same(first, second, newest, name_of(&ways[i]));
        kit_remove_folder(first);
        kit_remove_folder(second);
    }
}

/* Rank 1 has a copy of its own, which is cut after it was opened. */
static gy_status use_cut_file(kit_rank *me)
{
    char path[PATH_LENGTH];
    task t = {.model = me->rank == 1 ? path_in("copy", path) : path_in("model", path)};
    gy_dataset set = kit_digits(23, SIDE);
    gy_mesh *mesh = NULL;
    gy_model *model = NULL;
    double loss = 0, accuracy = 0;
    GY_TRY(gy_mesh_new(me->comm, "data=3", &mesh));
    GY_TRY(new_model(me, &t, mesh, &model));
    GY_ASSERT(me->rank != 1 || truncate(path, 3000) == 0);
    gy_status status = gy_model_evaluate(model, &set, 7, &loss, &accuracy, NULL);
    gy_model_free(model);
    gy_mesh_free(mesh);
    return status;
}

GY_TEST(a_file_that_is_cut_before_its_values_were_used_ends_all_ranks)
{
    char folder[PATH_LENGTH], model[PATH_LENGTH], copy[PATH_LENGTH];
    task train = {.way = ways[0],
                  .to = path_in("first", folder),
                  .saved = path_in("model", model),
                  .hidden = 19};
    run(&train);
    kit_remove_folder(folder);
    gy_bytes bytes = bytes_of(root, "model");
    assert_ok(gy_save_file(path_in("copy", copy), bytes.data, bytes.size_bytes));
    gy_free(bytes.data);
    kit_rank members[KIT_RANKS_MAX];
    kit_run_ranks(3, use_cut_file, NULL, members);
    for (int rank = 0; rank < 3; rank++) {
        if (members[rank].error.status >= 0 ||
            strstr(members[rank].error.text, "copy: ") == NULL) {
            fail_msg("rank %d: %s (%s)", rank, gy_status_text(members[rank].error.status),
                     members[rank].error.text);
        }
    }
    assert_int_equal(unlink(model), 0);
    assert_int_equal(unlink(copy), 0);
}

GY_TEST_MAIN(make_root, remove_root)
