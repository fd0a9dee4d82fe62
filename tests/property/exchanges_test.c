/* Goal: what the ranks of a training send over TCP, as the sockets count it, is what the
 * session reports, and with rings what the formulas of the literature say: state and gradients
 * in parts cost nothing, a block of a transformer on `model` at most four sums of its
 * activations. */
#include "graph/graph.h"
#include "training_kit.h"
#include "transport/tcp.h"

#include <gyre/gpt.h>

#include "gy_test.h"

enum {
    UPDATES = 3,
    SIDE = 6,
    SAMPLES = 96, /* three updates of four batches */
    CLASSES = 12,
    LENGTH = 32,
    WIDTH = 64,
    HEADS = 4,
    BATCH = 8,
};

/* What a rank sent in each update, and the least and the most of it that the sockets saw. */
typedef struct traffic {
    uint64_t counted[UPDATES], wire_min[UPDATES], wire_max[UPDATES];
} traffic;

/* A training over TCP. */
typedef struct trial {
    int gpt_layers; /* 0: a perceptron */
    const char *mesh;
    gy_train_options options;
    bool is_shared;      /* ranks share memory instead */
    uint64_t parameters; /* their elements */
    traffic sent[KIT_RANKS_MAX];
    struct told *told; /* (KIT_RANKS_MAX) what each rank says of each exchange; NULL: nothing */
} trial;

enum { TOLD_MAX = 256 };

/* An update's exchanges as they are told after the training. */
typedef struct told {
    int32_t count;
    double predicted[TOLD_MAX], counted[TOLD_MAX], seconds[TOLD_MAX];
    double shares_s, rows_s; /* their times, and those of the session's rows */
    int lines;               /* of the text that names such an exchange */
} told;

/* One rank of it. */
typedef struct member {
    kit_rank *rank;
    gy_model *model;
    gy_tcp_count wire;
    uint64_t counted;
    traffic *sent;
} member;

static uint64_t sent_by(const gy_model *model)
{
    gy_exchange_stats rows[GY_EXCHANGE_KINDS_MAX];
    const int count = gy_session_exchanges(model->session, rows);
    uint64_t bytes = 0;
    for (int i = 0; i < count; i++) {
        bytes += rows[i].sent_bytes;
    }
    return bytes;
}

/* Behind each update: what went since the last one. Frames are counted with their headers;
 * each that is no data carries at most the signature of a call. */
static gy_status count(void *arg, const gy_progress *progress)
{
    member *me = arg;
    const uint64_t counted = sent_by(me->model);
    const bool is_wire = !((const trial *)me->rank->arg)->is_shared;
    const gy_tcp_count wire =
        is_wire ? gy_tcp_counts(me->rank->transport) : (gy_tcp_count){.sent_bytes = 0};
    if (progress->step > UPDATES) {
        return GY_OK;
    }
    const uint64_t frames = wire.sent_frames - me->wire.sent_frames;
    const uint64_t bytes = wire.sent_bytes - me->wire.sent_bytes - frames * GY_FRAME_BYTES;
    const size_t update = (size_t)progress->step - 1;
    me->sent->counted[update] = counted - me->counted;
    me->sent->wire_max[update] = bytes;
    me->sent->wire_min[update] = bytes - GY_MIN(bytes, frames * 24);
    me->counted = counted;
    me->wire = wire;
    return GY_OK;
}

static gy_status new_model(const trial *t, gy_mesh *mesh, gy_model **model)
{
    static const gy_layer layers[] = {{.kind = GY_LAYER_FLATTEN},
                                      {.kind = GY_LAYER_DENSE, .units = 24},
                                      {.kind = GY_LAYER_RELU},
                                      {.kind = GY_LAYER_DENSE, .units = CLASSES}};
    static const char *const letters[CLASSES] = {"a", "b", "c", "d", "e", "f",
                                                 "g", "h", "i", "j", "k", "l"};
    if (t->gpt_layers == 0) {
        return gy_model_new(&GY_OPTIONS(gy_model_options, .name = "wire", .layers = layers,
                                        .layer_count = GY_COUNT(layers), .input_rank = 3,
                                        .input_sizes = {1, SIDE, SIDE}, .seed = 3, .mesh = mesh,
                                        .workers = 1),
                            model);
    }
    return gy_gpt_new(
        &GY_OPTIONS(gy_gpt_options, .layers = t->gpt_layers, .width = WIDTH, .heads = HEADS),
        &GY_OPTIONS(gy_model_options, .input_sizes = {LENGTH}, .seed = 3, .mesh = mesh,
                    .workers = 1, .class_names = letters, .class_count = CLASSES),
        model);
}

static gy_status fill_text(gy_dataset *dataset, const int64_t *indices, int64_t rows,
                           gy_view *x, gy_view *labels)
{
    (void)dataset;
    for (int64_t i = 0; i < rows * LENGTH; i++) {
        const int64_t at = indices[i / LENGTH] * 5 + i % LENGTH;
        ((int32_t *)x->data)[i] = (int32_t)(at % CLASSES);
        if (labels != NULL) {
            ((int32_t *)labels->data)[i] = (int32_t)((at + 1) % CLASSES);
        }
    }
    return GY_OK;
}

static gy_dataset set_of(const trial *t)
{
    static const gy_dataset_ops text_ops = {
        .name = "text", .fill = fill_text, .free = kit_free};
    if (t->gpt_layers == 0) {
        return kit_digits(SAMPLES, SIDE);
    }
    return (gy_dataset){.ops = &text_ops,
                        .count = UPDATES * BATCH,
                        .classes = CLASSES,
                        .input_rank = 1,
                        .input_sizes = {LENGTH},
                        .input_dtype = GY_I32,
                        .label_rank = 1,
                        .label_sizes = {LENGTH}};
}

static uint64_t elements_of(const gy_model *model)
{
    uint64_t elements = 0;
    for (size_t i = 0; i < model->slot_count; i++) {
        if (model->slots[i].kind == GY_SLOT_PARAMETER) {
            elements += (uint64_t)gy_type_count(
                gy_graph_type(model->graph, (gy_value){model->slots[i].node.index, 0}));
        }
    }
    return elements;
}

/* Has the text a line of this exchange: its kind, its axis, and the value that it moves? */
static bool has_line(const char *text, const gy_graph *graph, const gy_graph_exchange *exchange)
{
    char begin[64], end[192];
    const gy_graph_node *node = &graph->nodes[exchange->node];
    snprintf(begin, sizeof(begin), "  %-14s %-6s ", gy_operation_name(exchange->operation),
             gy_mesh_axis_name(&graph->mesh, exchange->axis));
    snprintf(end, sizeof(end), "  %s, for ", gy_graph_at(graph, node->inputs[0])->name);
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        const size_t length = strcspn(line, "\n");
        const char *found = strstr(line, end);
        if (strncmp(line, begin, strlen(begin)) == 0 && found != NULL &&
            found < line + length && found + strlen(end) < line + length) {
            return true;
        }
    }
    return false;
}

static gy_status tell(gy_model *model, told *all)
{
    const gy_update *u = &model->update;
    gy_session_runs runs;
    char *text = NULL;
    GY_TRY(gy_session_spent(model->session, u->fetches, u->fetch_count, &runs));
    gy_graph_exchange *list =
        gy_alloc("test", ((size_t)runs.graph->node_count + 1) * sizeof(*list));
    GY_ASSERT(list != NULL);
    GY_TRY(gy_graph_exchanges(runs.graph, list, &all->count));
    GY_TRY(gy_train_explain_runs(model, 0, &text));
    GY_ASSERT(all->count <= TOLD_MAX);
    for (int32_t i = 0; i < all->count; i++) {
        const gy_graph_spent *spent = &runs.spent[i];
        all->predicted[i] = list[i].sent_bytes;
        all->counted[i] = (double)spent->sent_bytes / (double)runs.count;
        all->seconds[i] = list[i].predicted_s;
        all->shares_s += spent->hidden_s + spent->exposed_s;
        all->lines += has_line(text, runs.graph, &list[i]) ? 1 : 0;
        GY_ASSERT(spent->count == runs.count);
    }
    gy_exchange_stats rows[GY_EXCHANGE_KINDS_MAX];
    const int row_count = gy_session_exchanges(model->session, rows);
    for (int i = 0; i < row_count; i++) {
        all->rows_s += rows[i].operation == GY_OPERATION_BARRIER
                           ? 0
                           : rows[i].hidden_s + rows[i].exposed_s;
    }
    gy_string_free(text);
    gy_free(list);
    gy_session_runs_free(&runs);
    return GY_OK;
}

static gy_status train_one(kit_rank *rank)
{
    trial *t = rank->arg;
    gy_mesh *mesh = NULL;
    gy_train_result result;
    member me = {.rank = rank, .sent = &t->sent[rank->rank]};
    gy_dataset set = set_of(t);
    gy_train_options options = t->options;
    options.on_step = count;
    options.arg = &me;
    options.epochs = 1;
    options.batch = BATCH;
    GY_TRY(gy_mesh_new(rank->comm, t->mesh, &mesh));
    GY_TRY(new_model(t, mesh, &me.model));
    gy_status status = gy_train(me.model, &set, NULL, &options, &result);
    if (status >= 0) {
        gy_train_result_free(&result);
    }
    if (rank->rank == 0) {
        t->parameters = elements_of(me.model);
    }
    if (status >= 0 && t->told != NULL) {
        status = tell(me.model, &t->told[rank->rank]);
    }
    gy_model_free(me.model);
    gy_mesh_free(mesh);
    return status;
}

static void open_tcp(int ranks, gy_transport **transports)
{
    gy_address addresses[KIT_RANKS_MAX];
    int listeners[KIT_RANKS_MAX];
    for (int rank = 0; rank < ranks; rank++) {
        assert_ok(gy_address_find("127.0.0.1:1", &addresses[rank]));
        gy_address_set_port(&addresses[rank], 0);
        assert_ok(gy_address_listen(&addresses[rank], &listeners[rank]));
    }
    for (int rank = 0; rank < ranks; rank++) {
        const gy_tcp_options options = {.rank = rank,
                                        .size = ranks,
                                        .addresses = addresses,
                                        .listener = listeners[rank],
                                        .host_ranks = ranks};
        assert_ok(gy_tcp_open(&options, gy_env_real(), &transports[rank]));
    }
}

/* All updates but the first, ahead of which ranks agree on other things, send the same, and the
 * wire has it. */
static void check_traffic(const traffic *sent, bool is_wire, const char *what)
{
    for (int i = 1; i < UPDATES; i++) {
        assert_int_equal(sent->counted[i], sent->counted[UPDATES - 1]);
        if (is_wire &&
            (sent->counted[i] > sent->wire_max[i] || sent->counted[i] < sent->wire_min[i])) {
            fail_msg("%s, update %d: the session counted %llu bytes, the wire %llu to %llu",
                     what, i, (unsigned long long)sent->counted[i],
                     (unsigned long long)sent->wire_min[i],
                     (unsigned long long)sent->wire_max[i]);
        }
    }
}

/* The bytes that all ranks send in an update. */
static uint64_t sent_in(trial *t, int ranks, const char *what)
{
    kit_rank members[KIT_RANKS_MAX];
    gy_transport *transports[KIT_RANKS_MAX];
    if (t->is_shared) {
        kit_run_ranks(ranks, train_one, t, members);
    } else {
        open_tcp(ranks, transports);
        kit_run_on(transports, &(gy_comm_options){.algorithm = "ring"}, ranks, train_one, t,
                   members);
    }
    for (int rank = 0; rank < ranks; rank++) {
        if (members[rank].error.status != GY_OK) {
            fail_msg("%s, rank %d: %s", what, rank, members[rank].error.text);
        }
    }
    uint64_t sum = 0;
    for (int rank = 0; rank < ranks; rank++) {
        check_traffic(&t->sent[rank], !t->is_shared, what);
        sum += t->sent[rank].counted[UPDATES - 1];
    }
    return sum;
}

/* What sums and gathers of so many bytes send on a ring of p ranks, all ranks together: each
 * byte goes p - 1 times. */
static uint64_t on_ring(int ranks, uint64_t bytes)
{
    return (uint64_t)(ranks - 1) * bytes;
}

enum { LOSS_BYTES = 4 };

static void expect(const char *what, int ranks, uint64_t sent, uint64_t expected)
{
    printf("%s, p = %d: %llu bytes of a rank an update, by the formula %llu\n", what, ranks,
           (unsigned long long)sent / (unsigned)ranks,
           (unsigned long long)expected / (unsigned)ranks);
    assert_int_equal(sent, expected);
}

/* Gradients are summed once and parameters gathered once, or both by an allreduce. The paper's
 * stage 3 gathers the parameters a second time for the way back. */
GY_TEST(stages_of_zero_send_what_the_formulas_say)
{
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        for (int stage = 0; stage <= 3; stage++) {
            char what[64];
            trial t = {.options = {.optimizer = GY_OPTIMIZER_ADAM, .zero = stage}};
            snprintf(what, sizeof(what), "zero %d", stage);
            const uint64_t sent = sent_in(&t, ranks, what);
            const uint64_t pass = on_ring(ranks, t.parameters * sizeof(float));
            const uint64_t expected = 2 * pass + on_ring(ranks, 2 * LOSS_BYTES);
            expect(what, ranks, sent,
                   stage == 3 && sent > expected ? expected + pass : expected);
            t.is_shared = true; /* what is copied between ranks that share memory */
            assert_true(sent_in(&t, ranks, what) >= 2 * pass);
        }
    }
}

/* But for stage 2, which keeps sums in parts: each batch is summed over the ranks. */
GY_TEST(four_batches_an_update_send_a_quarter_a_sample)
{
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        for (int stage = 0; stage <= 2; stage++) {
            char what[64];
            trial t = {.options = {.accumulate = 4, .zero = stage}};
            snprintf(what, sizeof(what), "zero %d, 4 batches an update", stage);
            const uint64_t sent = sent_in(&t, ranks, what);
            const uint64_t passes = stage < 2 ? 2 : 4 + 1;
            expect(what, ranks, sent,
                   on_ring(ranks, passes * t.parameters * sizeof(float) + 4 * 2 * LOSS_BYTES));
        }
    }
}

/* As Megatron-LM cuts a block: what the ranks along `model` send more for one block more. Gains
 * and biases that are not pinned may be updated in parts: then gradient, value and Adam's two
 * are exchanged as well, of vectors alone. */
enum { ACTIVATIONS_BYTES = BATCH * LENGTH * WIDTH * 4, BLOCK_VECTORS = 6 };

GY_TEST(a_block_on_model_sends_no_more_than_four_sums_of_its_activations)
{
    static const gy_parameter_pin pins[] = {
        {"block*.qkv.weight", "model", {.kind = GY_SHARD, .dim = 1}},
        {"block*.qkv.bias", "model", {.kind = GY_SHARD, .dim = 0}},
        {"block*.projection.weight", "model", {.kind = GY_SHARD, .dim = 0}},
        {"block*.up.weight", "model", {.kind = GY_SHARD, .dim = 1}},
        {"block*.up.bias", "model", {.kind = GY_SHARD, .dim = 0}},
        {"block*.down.weight", "model", {.kind = GY_SHARD, .dim = 0}},
    };
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        char mesh[32], what[64];
        uint64_t sent[2];
        snprintf(mesh, sizeof(mesh), "model=%d", ranks);
        for (int layers = 1; layers <= 2; layers++) {
            trial t = {.gpt_layers = layers,
                       .mesh = mesh,
                       .options = {.optimizer = GY_OPTIMIZER_ADAMW,
                                   .pins = pins,
                                   .pin_count = GY_COUNT(pins)}};
            snprintf(what, sizeof(what), "%d blocks on %s", layers, mesh);
            sent[layers - 1] = sent_in(&t, ranks, what);
        }
        const uint64_t sums = on_ring(ranks, 4 * 2 * ACTIVATIONS_BYTES);
        const uint64_t vectors = on_ring(ranks, 4 * BLOCK_VECTORS * WIDTH * sizeof(float));
        const uint64_t block = sent[1] - sent[0];
        printf("a block on %s: %llu bytes of a rank an update, four sums %llu\n", mesh,
               (unsigned long long)block / (unsigned)ranks,
               (unsigned long long)sums / (unsigned)ranks);
        assert_in_range(block, sums / 2, sums + vectors); /* less is welcome */
    }
}

/* ---- each exchange by itself ---- */

/* Predicted bytes of each exchange, of all ranks together, are those that were sent; each
 * stands in the text; their times add up to those of the session. */
static void check_told(const told *all, int ranks, const char *what)
{
    double sum = 0;
    for (int rank = 0; rank < ranks; rank++) {
        assert_int_equal(all[rank].count, all[0].count);
        assert_int_equal(all[rank].lines, all[0].count);
        assert_true(all[rank].shares_s <= all[rank].rows_s * 1.001 + 1e-6);
    }
    for (int32_t i = 0; i < all[0].count; i++) {
        double predicted = 0, counted = 0;
        for (int rank = 0; rank < ranks; rank++) {
            predicted += all[rank].predicted[i];
            counted += all[rank].counted[i];
            assert_true(all[rank].seconds[i] > 0);
        }
        if (!(predicted - counted < 0.5 && counted - predicted < 0.5)) {
            fail_msg("%s: exchange %d sends %.1f bytes, predicted are %.1f", what, (int)i,
                     counted, predicted);
        }
        sum += counted;
    }
    printf("%s: %d exchanges, %.0f bytes of a rank an update as predicted\n", what,
           (int)all[0].count, sum / ranks);
    assert_true(all[0].count > 0);
}

GY_TEST(what_is_told_of_each_exchange_is_what_happens)
{
    static const gy_parameter_pin pins[] = {
        {"block*.up.weight", "model", {.kind = GY_SHARD, .dim = 1}},
        {"block*.down.weight", "model", {.kind = GY_SHARD, .dim = 1}},
        {"embedding", "model", {.kind = GY_SHARD, .dim = 1}},
    };
    static const struct {
        const char *mesh;
        int ranks, gpt_layers, zero, accumulate;
    } cases[] = {{NULL, 3, 0, 0, 1},
                 {NULL, 4, 0, 3, 1},
                 {NULL, 4, 0, 2, 2},
                 {"model=3", 3, 1, 0, 1},
                 {"data=2,model=2", 4, 1, 3, 1},
                 {"auto=4", 4, 1, 0, 1}};
    told all[KIT_RANKS_MAX];
    const size_t step = gy_test_cases(8) == 1 ? 4 : 1;
    for (size_t i = 0; i < GY_COUNT(cases); i += step) {
        char what[64];
        const char *mesh = cases[i].mesh != NULL ? cases[i].mesh : "data";
        const bool has_pins = strstr(mesh, "model") != NULL;
        memset(all, 0, sizeof(all));
        trial t = {.gpt_layers = cases[i].gpt_layers,
                   .mesh = cases[i].mesh,
                   .options = {.optimizer = GY_OPTIMIZER_ADAM,
                               .zero = cases[i].zero,
                               .accumulate = cases[i].accumulate,
                               .pins = pins,
                               .pin_count = has_pins ? (int)GY_COUNT(pins) : 0},
                   .told = all};
        snprintf(what, sizeof(what), "%d ranks, %s, zero %d", cases[i].ranks, mesh,
                 cases[i].zero);
        (void)sent_in(&t, cases[i].ranks, what);
        check_told(all, cases[i].ranks, what);
    }
}

GY_TEST_MAIN(NULL, NULL)
