/* Goal: by any schedule of stages a training has one rank's losses and parameters, whatever the
 * micro-batches, twice with the same bits; what a schedule cannot run is refused by name. */
#include "train/train_priv.h"

#include <string.h>

#include "gy_test.h"
#include "training_story.h"

/* ---- every mesh, schedule, number of micro-batches, stage of ZeRO and model ---- */

enum { DATA, PIPE, MODEL, SCHEDULE, MICROS, ZERO, KIND, ACCUMULATE, FACTORS };
enum { KINDS = MODELS + 1, VALUES_OF_A_FACTOR = KIT_RANKS_MAX, ROWS_MAX = 40000 };

/* A training as the index of its value of each factor. */
typedef struct row {
    int at[FACTORS];
} row;

static const char *const schedules[] = {"gpipe", "1f1b", "interleaved", "zb-h1"};
static const int micros[] = {1, 2, 3, 5, 9}; /* of a batch of 7 */

/* In the suite, and in the soak: all 38 meshes of up to eight ranks. */
static const int sizes[2][FACTORS] = {
    {2, 4, 2, GY_COUNT(schedules), GY_COUNT(micros), 3, KINDS, 2},
    {KIT_RANKS_MAX, KIT_RANKS_MAX, KIT_RANKS_MAX, GY_COUNT(schedules), GY_COUNT(micros), 3,
     KINDS, 2},
};

#if defined(GYRE_TSAN) || defined(GYRE_ASAN)
static const bool is_slow = true; /* eight ranks or a GPT take minutes */
#else
static const bool is_slow = false;
#endif

static row row_of(int number, const int of[FACTORS])
{
    row r;
    for (int f = 0; f < FACTORS; f++) {
        r.at[f] = number % of[f];
        number /= of[f];
    }
    return r;
}

static int ranks_of(const row *r)
{
    return (r->at[DATA] + 1) * (r->at[PIPE] + 1) * (r->at[MODEL] + 1);
}

static gy_pipe_query query_of(const row *r)
{
    const bool is_interleaved = strcmp(schedules[r->at[SCHEDULE]], "interleaved") == 0;
    return (gy_pipe_query){.schedule = schedules[r->at[SCHEDULE]],
                           .ranks = r->at[PIPE] + 1,
                           .micros = micros[r->at[MICROS]],
                           .chunks = is_interleaved ? 2 : 1};
}

/* Is the model's state, which batches hand on, refused to parts of a batch? */
static bool has_whole_batches(int kind)
{
    static int answers[KINDS]; /* 0: not asked */
    if (answers[kind] == 0) {
        static story s;
        s = (story){.kind = (model_kind)kind, .axes = "data=1", .accumulate = 1, .micros = 2};
        answers[kind] = story_try(&s, kind == LSTM ? "state" : NULL) == 0 ? 1 : 2;
    }
    return answers[kind] == 1;
}

/* Of the soak each other row accumulates. Where nothing is scheduled, one of the schedules
 * stands for all. What the planner refuses is no training, but that of another test. */
static bool is_allowed(const row *r)
{
    const bool is_piped = r->at[PIPE] > 0 && !has_whole_batches(r->at[KIND]);
    const gy_pipe_query query = query_of(r);
    gy_pipe_schedule *planned = NULL;
    const bool is_soak = getenv("GYRE_SOAK") != NULL;
    const int sum = r->at[SCHEDULE] + r->at[MICROS] + r->at[ZERO] + r->at[KIND];
    const int ranks_max = is_slow ? 4 : is_soak ? KIT_RANKS_MAX : 6;
    if (ranks_of(r) > ranks_max || (is_slow && r->at[KIND] == GPT) ||
        (!is_piped && r->at[SCHEDULE] > 0) || (is_soak && sum % 2 != r->at[ACCUMULATE]) ||
        (has_whole_batches(r->at[KIND]) && r->at[MICROS] > 0)) {
        return false;
    }
    const bool is_planned = !is_piped || gy_pipe_plan(&query, &planned) == GY_OK;
    gy_pipe_free(planned);
    return is_planned;
}

static story story_of(const row *r, char axes[64])
{
    const gy_pipe_query query = query_of(r);
    const bool has_micros = !has_whole_batches(r->at[KIND]);
    const bool is_piped = has_micros && r->at[PIPE] > 0;
    snprintf(axes, 64, "data=%d,pipe=%d,model=%d", r->at[DATA] + 1, r->at[PIPE] + 1,
             r->at[MODEL] + 1);
    return (story){.kind = (model_kind)r->at[KIND],
                   .axes = axes,
                   .zero = r->at[ZERO],
                   .accumulate = r->at[ACCUMULATE] + 1,
                   .micros = has_micros ? query.micros : 0,
                   .schedule = is_piped ? query.schedule : NULL,
                   .chunks = is_piped && query.chunks > 1 ? query.chunks : 0};
}

/* Small models have fewer sources than sixteen stages want, which is refused. */
static bool play(const row *r, bool twice)
{
    static story alone[KINDS][2], once, again;
    static bool has_alone[KINDS][2];
    const int kind = r->at[KIND], accumulate = r->at[ACCUMULATE];
    char axes[64];
    story *one = &alone[kind][accumulate];
    if (!has_alone[kind][accumulate]) {
        *one =
            (story){.kind = (model_kind)kind, .axes = "data=1", .accumulate = accumulate + 1};
        (void)story_play(one);
        has_alone[kind][accumulate] = true;
    }
    once = story_of(r, axes);
    const int stages = (r->at[PIPE] + 1) * GY_MAX(once.chunks, 1);
    const int ranks = story_try(&once, stages > KIT_RANKS_MAX ? " stages" : NULL);
    if (ranks == 0) {
        return false;
    }
    story_assert_same(one, &once, ranks);
    if (twice) {
        again = once;
        (void)story_play(&again);
        assert_memory_equal(once.got, again.got, sizeof(once.got));
    }
    return true;
}

/* ---- pairs ---- */

static bool is_missing[FACTORS][FACTORS][VALUES_OF_A_FACTOR][VALUES_OF_A_FACTOR];

static int pairs_of(const row *r, bool takes)
{
    int found = 0;
    for (int a = 0; a < FACTORS; a++) {
        for (int b = 0; b < a; b++) {
            bool *pair = &is_missing[a][b][r->at[a]][r->at[b]];
            found += *pair;
            *pair = *pair && !takes;
        }
    }
    return found;
}

static void miss(const row *r)
{
    for (int a = 0; a < FACTORS; a++) {
        for (int b = 0; b < a; b++) {
            is_missing[a][b][r->at[a]][r->at[b]] = true;
        }
    }
}

/* Rows in which each value of a factor stands beside each value of every other one with which
 * it is allowed: again and again the row with most pairs that are missing. The number of them.
 */
static int cover(const int *numbers, int count, const int of[FACTORS], row *rows)
{
    int chosen = 0;
    for (int i = 0; i < count; i++) {
        const row r = row_of(numbers[i], of);
        miss(&r);
    }
    for (;;) {
        int most = 0, best = 0;
        for (int i = 0; i < count; i++) {
            const row r = row_of(numbers[i], of);
            const int found = pairs_of(&r, false);
            best = found > most ? i : best;
            most = GY_MAX(found, most);
        }
        if (most == 0) {
            return chosen;
        }
        rows[chosen] = row_of(numbers[best], of);
        (void)pairs_of(&rows[chosen++], true);
    }
}

GY_TEST(every_schedule_trains_as_one_rank_on_every_mesh)
{
    static int numbers[ROWS_MAX];
    static row rows[ROWS_MAX];
    const bool is_soak = getenv("GYRE_SOAK") != NULL;
    const int *of = sizes[is_soak];
    int all = 1, count = 0, refused = 0, begin = 0, end = 0;
    for (int f = 0; f < FACTORS; f++) {
        all *= of[f];
    }
    for (int i = 0; i < all; i++) {
        const row r = row_of(i, of);
        if (is_allowed(&r)) {
            assert_true(count < ROWS_MAX);
            numbers[count++] = i;
        }
    }
    const int chosen = is_soak ? count : cover(numbers, count, of, rows);
    assert_true(chosen > (is_slow ? 10 : 15));
    gy_test_rows(chosen, &begin, &end);
    /* An hour has room for a sixth; the seed says which, and pieces are played whole. */
    const int step = is_soak && getenv("GYRE_TEST_ROWS") == NULL ? 6 : 1;
    begin += step > 1 ? (int)(gy_test_seed() % 6) : 0;
    for (int i = begin; i < end; i += step) {
        const row r = is_soak ? row_of(numbers[i], of) : rows[i];
        refused += (!is_slow || i % 4 == 0) && !play(&r, is_soak || i % 3 == 0);
    }
    printf("soak: %d to %d of %d trainings by schedules of %d, %d have too few nodes\n", begin,
           end, chosen, count, refused);
    assert_true(refused <= (end - begin) / 4);
}

/* Rows over two ranks, layers over two stages, products over two ranks of each, and an
 * optimizer's state and sums in parts. */
GY_TEST(three_axes_by_schedules_train_as_one_rank)
{
    static const struct {
        model_kind kind;
        const char *schedule;
        int micros, zero;
    } trials[] = {
        {MLP, "1f1b", 3, 1},
        {MLP, "gpipe", 2, 2},
        /* in the soak */
        {MLP, "gpipe", 5, 1},
        {MLP, "1f1b", 9, 2},
        {IMAGES, "1f1b", 2, 2},
        {IMAGES, "gpipe", 3, 1},
        {GPT, "1f1b", 3, 2},
        {GPT, "gpipe", 5, 1},
        {LSTM, "1f1b", 3, 1},
        {LSTM, "gpipe", 5, 2},
    };
    static story alone, all;
    const size_t count = (size_t)gy_test_cases(2);
    for (size_t i = 0; i < GY_MIN(count, GY_COUNT(trials)); i++) {
        if (i == 0 || trials[i].kind != alone.kind) {
            alone = (story){.kind = trials[i].kind, .axes = "data=1", .accumulate = 1};
            (void)story_play(&alone);
        }
        all = (story){.kind = trials[i].kind,
                      .axes = "data=2,pipe=2,model=2",
                      .schedule = trials[i].schedule,
                      .micros = trials[i].micros,
                      .accumulate = 1,
                      .zero = trials[i].zero};
        story_assert_same(&alone, &all, story_play(&all));
    }
}

/* ---- a norm of both stages ---- */

/* logits (6 w x + 8 v, 0): of label 1 and zeros the gradients are 6 / 2 and 8 / 2. */
static gy_status two_slopes(void *arg, gy_model_builder *builder, gy_node x, gy_node *logits)
{
    (void)arg;
    const gy_node w = gy_model_parameter(builder, "w", (int64_t[]){1, 1}, 2, gy_init_zeros());
    const gy_node v = gy_model_parameter(builder, "v", (int64_t[]){1}, 1, gy_init_zeros());
    const gy_node six = gy_graph_scalar(x.graph, GY_F64, 6);
    const gy_node eight = gy_graph_scalar(x.graph, GY_F64, 8);
    const gy_node first = gy_op_mul(gy_op_matmul(x, w), six);
    const gy_node both = gy_op_add(first, gy_op_mul(v, eight));
    const gy_node none = gy_op_mul(both, gy_graph_scalar(x.graph, GY_F64, 0));
    *logits = gy_op_concat((gy_node[]){both, none}, 2, 1);
    return gy_graph_status(x.graph);
}

static gy_status ones_fill(gy_dataset *dataset, const int64_t *indices, int64_t count,
                           gy_view *x, gy_view *labels)
{
    (void)dataset;
    (void)indices;
    for (int64_t i = 0; i < count; i++) {
        ((double *)x->data)[i] = 1;
        ((int32_t *)labels->data)[i] = 1;
    }
    return GY_OK;
}

typedef struct clipped {
    const char *schedule;
    int micros;
    double got[2][2]; /* by rank: w, v */
} clipped;

static gy_status clip_by_hand(kit_rank *me)
{
    static const gy_dataset_ops ops = {.name = "ones", .fill = ones_fill, .free = kit_free};
    static const char *const names[] = {"w", "v"};
    clipped *c = me->arg;
    gy_dataset set = {.ops = &ops, .count = 4, .classes = 2, .input_rank = 1};
    gy_model *model = NULL;
    gy_mesh *mesh = NULL;
    gy_train_result result;
    set.input_sizes[0] = 1;
    GY_TRY(gy_mesh_new(me->comm, "pipe=2", &mesh));
    const gy_model_options base =
        GY_OPTIONS(gy_model_options, .build = two_slopes, .dtype = GY_F64, .input_rank = 1,
                   .input_sizes = {1}, .mesh = mesh, .workers = 1);
    GY_TRY(gy_model_new(&base, &model));
    GY_TRY(gy_train(model, &set, NULL,
                    &GY_OPTIONS(gy_train_options, .steps = 1, .batch = 4, .rate = 1,
                                .clip_norm = 2.5, .cut = "v", .micro_batches = c->micros,
                                .pipe_schedule = c->schedule),
                    &result));
    gy_train_result_free(&result);
    GY_ASSERT(gy_session_is_elsewhere(model->session, names[1 - me->rank]));
    for (int i = 0; i < 2; i++) {
        gy_tensor *whole = NULL;
        GY_TRY(gy_session_gather(model->session, names[i], &whole));
        c->got[me->rank][i] = gy_tensor_get(whole, 0);
        gy_tensor_drop(whole);
    }
    gy_model_free(model);
    gy_mesh_free(mesh);
    return GY_OK;
}

GY_TEST(gradients_of_two_stages_are_clipped_by_one_norm)
{
    static const clipped trials[] = {{.micros = 0},
                                     {.schedule = "1f1b", .micros = 2},
                                     {.schedule = "gpipe", .micros = 2},
                                     {.schedule = "zb-h1", .micros = 5}};
    for (size_t i = 0; i < GY_COUNT(trials); i++) {
        clipped c = trials[i];
        kit_rank members[KIT_RANKS_MAX];
        kit_run_ranks(2, clip_by_hand, &c, members);
        for (int rank = 0; rank < 2; rank++) {
            if (members[rank].error.status < 0) {
                fail_msg("case %zu, rank %d: %s", i, rank, members[rank].error.text);
            }
            assert_true(fabs(c.got[rank][0] + 1.5) < 1e-6);
            assert_true(fabs(c.got[rank][1] + 2) < 1e-6);
        }
    }
}

/* ---- a weight of two stages whose gradients are joined ---- */

enum { SHARED_WIDTH = 12 };

/* Of few rows the two products of its gradient are one: logits = tanh(tanh(x u) u) v. */
static gy_status shared_weight(void *arg, gy_model_builder *builder, gy_node x, gy_node *logits)
{
    (void)arg;
    const gy_init init = {GY_INIT_UNIFORM, 0.5, NULL};
    const gy_node u =
        gy_model_parameter(builder, "u", (int64_t[]){SHARED_WIDTH, SHARED_WIDTH}, 2, init);
    const gy_node v = gy_model_parameter(builder, "v", (int64_t[]){SHARED_WIDTH, 2}, 2, init);
    const gy_node once = gy_op_tanh(gy_op_matmul(x, u));
    const gy_node twice = gy_op_tanh(gy_node_named(gy_op_matmul(once, u), "second"));
    *logits = gy_op_matmul(twice, v);
    return gy_graph_status(x.graph);
}

static gy_status waves_fill(gy_dataset *dataset, const int64_t *indices, int64_t count,
                            gy_view *x, gy_view *labels)
{
    (void)dataset;
    for (int64_t i = 0; i < count; i++) {
        for (int64_t k = 0; k < SHARED_WIDTH; k++) {
            ((double *)x->data)[i * SHARED_WIDTH + k] = sin((double)(indices[i] * 7 + k * 3));
        }
        ((int32_t *)labels->data)[i] = (int32_t)(indices[i] % 2);
    }
    return GY_OK;
}

typedef struct shared {
    const char *axes, *schedule, *cut;
    int micros;
    double sums[KIT_RANKS_MAX][2]; /* by rank: of u and of its squares */
} shared;

static gy_status train_shared(kit_rank *me)
{
    static const gy_dataset_ops ops = {.name = "waves", .fill = waves_fill, .free = kit_free};
    shared *s = me->arg;
    gy_dataset set = {.ops = &ops, .count = 12, .classes = 2, .input_rank = 1};
    gy_model *model = NULL;
    gy_mesh *mesh = NULL;
    gy_train_result result;
    gy_tensor *u = NULL;
    set.input_sizes[0] = SHARED_WIDTH;
    GY_TRY(gy_mesh_new(me->comm, s->axes, &mesh));
    const gy_model_options base =
        GY_OPTIONS(gy_model_options, .build = shared_weight, .dtype = GY_F64, .input_rank = 1,
                   .input_sizes = {SHARED_WIDTH}, .seed = 5, .mesh = mesh, .workers = 1);
    gy_status status = gy_model_new(&base, &model);
    status =
        status >= 0
            ? gy_train(model, &set, NULL,
                       &GY_OPTIONS(gy_train_options, .steps = 4, .batch = 6, .rate = 0.3,
                                   .optimizer = GY_OPTIMIZER_SGD, .cut = s->cut,
                                   .micro_batches = s->micros, .pipe_schedule = s->schedule),
                       &result)
            : status;
    if (status >= 0) {
        gy_train_result_free(&result);
        status = gy_session_gather(model->session, "u", &u);
    }
    for (int64_t i = 0; status >= 0 && i < gy_tensor_count(u); i++) {
        const double value = gy_tensor_get(u, i);
        s->sums[me->rank][0] += value;
        s->sums[me->rank][1] += value * value;
    }
    gy_error error;
    gy_error_take(&error, status);
    gy_tensor_drop(u);
    gy_model_free(model);
    gy_mesh_free(mesh);
    return gy_error_raise(&error);
}

GY_TEST(joined_gradients_of_two_stages_go_no_stage_back)
{
    static const shared trials[] = {
        {.axes = "data=1"},
        {.axes = "pipe=2", .schedule = "1f1b", .micros = 3, .cut = "second"},
        {.axes = "pipe=2", .schedule = "zb-h1", .micros = 6, .cut = "second"},
        {.axes = "pipe=2", .schedule = "gpipe", .micros = 2},
        {.axes = "pipe=2", .cut = "second"},
    };
    static shared alone;
    for (size_t i = 0; i < GY_COUNT(trials); i++) {
        shared s = trials[i];
        kit_rank members[KIT_RANKS_MAX];
        int ranks = 0;
        assert_ok(gy_mesh_places(s.axes, &ranks));
        kit_run_ranks(ranks, train_shared, &s, members);
        alone = i == 0 ? s : alone;
        for (int rank = 0; rank < ranks; rank++) {
            if (members[rank].error.status < 0) {
                fail_msg("case %zu, rank %d: %s", i, rank, members[rank].error.text);
            }
            for (int k = 0; k < 2; k++) {
                assert_true(fabs(s.sums[rank][k] - alone.sums[0][k]) < 1e-9);
            }
        }
    }
}

/* ---- ranks that do not train alike ---- */

typedef struct unlike {
    gy_train_options options[2]; /* by rank */
    const char *words;
} unlike;

static gy_status train_unlike(kit_rank *me)
{
    const unlike *u = me->arg;
    gy_model *model = NULL;
    gy_mesh *mesh = NULL;
    gy_dataset set = story_set(MLP);
    gy_train_options options = u->options[me->rank];
    gy_train_result result;
    GY_TRY(gy_mesh_new(me->comm, "pipe=2", &mesh));
    GY_TRY(story_model(MLP, mesh, &model));
    options.steps = 2;
    options.batch = options.batch > 0 ? options.batch : 8;
    options.micro_batches = options.micro_batches > 0 ? options.micro_batches : 2;
    gy_status status = gy_train(model, &set, NULL, &options, &result);
    if (status >= 0) {
        gy_train_result_free(&result);
    }
    gy_error error;
    gy_error_take(&error, status);
    gy_model_free(model);
    gy_mesh_free(mesh);
    return gy_error_raise(&error);
}

GY_TEST(ranks_that_do_not_train_alike_say_in_what)
{
    static const unlike trials[] = {
        {{{.seed = 3}, {.seed = 4}}, "rank 1 has 'seed 4', rank 0 'seed 3'"},
        {{{.pipe_schedule = "gpipe"}, {.pipe_schedule = "1f1b"}},
         "has 'pipe-schedule 1f1b', rank 0 'pipe-schedule gpipe'"},
        {{{.micro_batches = 4}, {.micro_batches = 2}},
         "has 'micro-batches 2', rank 0 'micro-batches 4'"},
        {{{.batch = 8}, {.batch = 6}}, "has 'batch 6', rank 0 'batch 8'"},
        {{{.loss_scale = 0}, {.weight_decay_rank_min = 2}},
         "has 'weight decay from rank 2', rank 0 'steps 2'"},
        {{{.cut = "dense3.weight"}, {.cut = "dense5.weight"}}, "has 'cut dense5.weight'"},
        {{{.seed = 3}, {.seed = 3}}, NULL},
    };
    for (size_t i = 0; i < GY_COUNT(trials); i++) {
        unlike u = trials[i];
        kit_rank members[KIT_RANKS_MAX];
        kit_run_ranks(2, train_unlike, &u, members);
        for (int rank = 0; rank < 2; rank++) {
            const gy_error *error = &members[rank].error;
            assert_int_equal(error->status, u.words == NULL ? GY_OK : GY_MISMATCH);
            if (u.words != NULL && strstr(error->text, u.words) == NULL) {
                fail_msg("case %zu, rank %d: %s", i, rank, error->text);
            }
        }
    }
}

/* Each rank of two waits for the other, and its figures are parts of its wall, beside tests. */
static gy_status account(kit_rank *me)
{
    gy_train_account *accounts = (gy_train_account *)me->arg + 2 * me->rank;
    gy_model *model = NULL;
    gy_mesh *mesh = NULL;
    gy_dataset set = story_set(MLP);
    gy_train_result result;
    GY_TRY(gy_mesh_new(me->comm, "pipe=2", &mesh));
    GY_TRY(story_model(MLP, mesh, &model));
    GY_TRY(gy_train(
        model, &set, &set,
        &GY_OPTIONS(gy_train_options, .steps = 6, .batch = 16, .rate = 0.1, .micro_batches = 4),
        &result));
    GY_ASSERT(result.account_count == 2);
    memcpy(accounts, result.accounts, 2 * sizeof(*accounts));
    GY_ASSERT(accounts[me->rank].bubble_s == result.bubble_s);
    gy_train_result_free(&result);
    gy_model_free(model);
    gy_mesh_free(mesh);
    return GY_OK;
}

GY_TEST(accounts_of_ranks_add_up_to_the_wall)
{
    gy_train_account accounts[4];
    kit_rank members[KIT_RANKS_MAX];
    kit_run_ranks(2, account, accounts, members);
    assert_int_equal(members[0].error.status, GY_OK);
    assert_memory_equal(accounts, accounts + 2, 2 * sizeof(accounts[0]));
    for (int rank = 0; rank < 2; rank++) {
        const gy_train_account *a = &accounts[rank];
        assert_true(a->bubble_s > 0 && a->compute_s > 0);
        assert_true(a->exposed_communication_s >= 0 && a->input_s > 0 && a->aside_s > 0);
        assert_true(a->compute_s + a->bubble_s + a->exposed_communication_s + a->input_s <=
                    (a->wall_s - a->aside_s) * 1.0001);
    }
}

GY_TEST_MAIN(NULL, NULL)
