/*
 * What each rank keeps of a model's parameters and of what an update keeps for them, along the
 * data axis: the stages of ZeRO as pins. Stage 1 cuts the optimizer's state, 2 the sums of
 * gradients as well, 3 the parameters as well. Below stage 2 a sum of gradients is Partial:
 * each rank adds up its own rows, and one exchange an update completes the sum, however many
 * batches it is of.
 *
 * What a rank will hold under a stage and a mesh is found by compiling the training, so that
 * one that does not fit ends before its first step, with the stage or the mesh that does.
 *
 * @source Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter
 * models", SC 2020
 */
#include "graph/graph.h"
#include "train/train_priv.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static gy_graph_node *node_of(const gy_model *model, const gy_train_slot *slot)
{
    GY_ASSERT(slot->node.index >= 0);
    return &model->graph->nodes[slot->node.index];
}

/* Does another axis than `data` cut the dimension? */
static bool is_taken(const gy_graph_node *node, int dim)
{
    for (int kind = 0; kind < GY_AXIS_KINDS; kind++) {
        if (kind != GY_AXIS_DATA && node->pins[kind].kind == GY_SHARD &&
            node->pins[kind].dim == dim) {
            return true;
        }
    }
    return false;
}

/* The first dimension where it has a row for each rank, for its parts are not packed; else the
 * largest one that no other axis cuts; whole where none has as many. */
static gy_placement cut_of(const gy_graph_node *node, int ranks)
{
    const gy_type *type = &node->types[0];
    int best = -1;
    for (int dim = 0; dim < type->rank; dim++) {
        if (!is_taken(node, dim) &&
            (best < 0 || (type->sizes[best] < ranks && type->sizes[dim] > type->sizes[best]))) {
            best = dim;
        }
    }
    return best < 0 || type->sizes[best] < ranks
               ? (gy_placement){.kind = GY_REPLICATE}
               : (gy_placement){.kind = GY_SHARD, .dim = (uint8_t)best};
}

bool gy_train_is_gradient_sum(const gy_train_slot *slot)
{
    const char *end = strrchr(slot->name, '/');
    return slot->kind == GY_SLOT_STATE && end != NULL && strcmp(end, "/" GY_TRAIN_SUM) == 0;
}

/* The first stage that cuts the slot. */
static int first_stage(const gy_train_slot *slot)
{
    return gy_train_is_gradient_sum(slot)    ? 2
           : slot->kind == GY_SLOT_STATE     ? 1
           : slot->kind == GY_SLOT_PARAMETER ? 3
                                             : GY_TRAIN_ZERO_MAX + 1;
}

static gy_placement placement_of(const gy_model *model, const gy_train_slot *slot, int stage,
                                 int ranks)
{
    if (stage >= first_stage(slot)) {
        return cut_of(node_of(model, slot), ranks);
    }
    return gy_train_is_gradient_sum(slot)
               ? (gy_placement){.kind = GY_PARTIAL, .reduction = GY_SUM}
               : (gy_placement){.kind = GY_REPLICATE};
}

gy_status gy_train_slots_outline(const gy_model *model, bool has_state, gy_bundle *bundle)
{
    for (size_t i = 0; i < model->slot_count; i++) {
        const gy_train_slot *slot = &model->slots[i];
        const gy_type type = gy_graph_whole_type(node_of(model, slot));
        if (slot->kind != GY_SLOT_STATE || has_state) {
            GY_TRY(gy_bundle_outline(bundle, slot->name, type.dtype, type.sizes, type.rank));
        }
    }
    return GY_OK;
}

/* Does the pattern name the slot, or the parameter that it is state of? State that batches hand
 * on is of none: it lies where the rows are. */
static bool is_named(const char *pattern, const gy_train_slot *slot)
{
    char name[GY_TRAIN_NAME_BYTES];
    snprintf(name, sizeof(name), "%s", slot->name);
    char *state = slot->kind == GY_SLOT_STATE ? strrchr(name, '/') : NULL;
    if (state != NULL && strcmp(state, "/" GY_TRAIN_CARRIED) == 0) {
        return false;
    }
    if (state != NULL) {
        *state = '\0';
    }
    return fnmatch(pattern, name, 0) == 0;
}

/* Values that operators make, in the training form and in the other one. */
static gy_status pin_values(const gy_model *model, const gy_parameter_pin *pin, int *found)
{
    gy_graph *graph = model->graph;
    GY_ASSERT(graph != NULL && *found == 0);
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        if ((node->op->flags & GY_OP_EFFECT) == 0 && node->op != &gy_ops_row_parameter &&
            fnmatch(pin->name, node->name, 0) == 0) {
            GY_TRY(gy_pin((gy_node){graph, i, 0}, pin->axis, pin->placement));
            (*found)++;
        }
    }
    return GY_OK;
}

/* A name is of parameters; where none has it, of values. */
static gy_status apply(const gy_model *model, const gy_parameter_pin *pin)
{
    const gy_mesh mesh = model->mesh != NULL ? *model->mesh : gy_mesh_line(model->comm);
    const int ranks = gy_mesh_size(&mesh, gy_mesh_find(&mesh, pin->axis));
    int found = 0;
    for (size_t i = 0; i < model->slot_count; i++) {
        const gy_train_slot *slot = &model->slots[i];
        if (is_named(pin->name, slot)) {
            GY_TRY(gy_pin(slot->node, pin->axis, pin->placement));
            GY_TRY(model->build == gy_train_gpt_build
                       ? gy_train_gpt_check_pin(model, slot->name, pin, ranks)
                       : GY_OK);
            found++;
        }
    }
    GY_TRY(found > 0 ? GY_OK : pin_values(model, pin, &found));
    return found > 0 ? GY_OK
                     : gy_fail(GY_ARG, "pin: model %s has no parameter or value '%s'",
                               model->name, pin->name);
}

/* Pins as the options say, for so many ranks along data. */
static gy_status pin_slots(const gy_model *model, const gy_train_options *options, int stage,
                           int ranks)
{
    for (int i = 0; i < options->pin_count; i++) {
        GY_TRY(apply(model, &options->pins[i]));
    }
    for (size_t i = 0; i < model->slot_count; i++) {
        const gy_train_slot *slot = &model->slots[i];
        if ((node_of(model, slot)->pinned_kinds >> GY_AXIS_DATA & 1) == 0) {
            GY_TRY(gy_pin(slot->node, "data", placement_of(model, slot, stage, ranks)));
        }
    }
    return GY_OK;
}

static gy_mesh mesh_of(const gy_model *model)
{
    gy_mesh mesh = model->mesh != NULL ? *model->mesh : gy_mesh_line(model->comm);
    mesh.chunks = model->chunks;
    mesh.byte_s = model->session != NULL ? gy_session_memory_price(model->session) : 0;
    return mesh;
}

/* Has this rank a part of the slot? */
static bool is_part(const gy_model *model, const gy_train_slot *slot)
{
    const gy_mesh mesh = mesh_of(model);
    const gy_type type = gy_graph_parameter_type(&mesh, node_of(model, slot));
    for (int axis = 0; axis < mesh.axes; axis++) {
        if (type.placement[axis].kind != GY_REPLICATE) {
            return true;
        }
    }
    return false;
}

gy_status gy_train_pin_slots(gy_model *model, const gy_train_options *options)
{
    GY_ASSERT(options->zero >= 0);
    GY_ASSERT(options->zero <= GY_TRAIN_ZERO_MAX);
    model->is_sharded = false;
    return pin_slots(model, options, options->zero, gy_model_row_ranks(model));
}

gy_status gy_train_cut(gy_model *model, const gy_train_options *options)
{
    char *names[GY_STAGES_MAX], *rest = NULL;
    gy_text copy = {.data = NULL};
    const int ranks = model->mesh != NULL ? GY_MAX(model->mesh->stages, 1) : 1;
    const int stages = ranks * GY_MAX(model->chunks, 1);
    int count = 0;
    if (options->cut == NULL) {
        return GY_OK;
    }
    gy_text_add(&copy, "%s", options->cut);
    GY_TRY(copy.status);
    for (char *name = strtok_r(copy.data, ",", &rest); name != NULL && count < GY_STAGES_MAX;
         name = strtok_r(NULL, ",", &rest)) {
        names[count++] = name;
    }
    const gy_status status =
        count == stages - 1
            ? gy_graph_cut(model->graph, (const char *const *)names, count)
            : gy_fail(GY_ARG, "cut: %d name%s %d stages, the mesh has %d", count,
                      count == 1 ? " makes" : "s make", count + 1, stages);
    gy_text_free(&copy);
    return status;
}

/* Micro-batches and their update have programs of their own, yet one placement: it is that of
 * both as one, but for the zeros that the update puts in place of the sums. Stages keep a sum
 * where gradients make it, so that no micro-batch sends it; that the update reads it elsewhere
 * does not count. */
static gy_status decide_with_micros(gy_model *model, const gy_train_options *options)
{
    const gy_update *u = &model->update;
    const int zeros = u->gather_count - 1 - (int)model->statistic_count;
    const int count = u->gather_count + u->fetch_count - zeros;
    GY_ASSERT(zeros > 0 && zeros < u->fetch_count);
    gy_node *fetches = gy_alloc("train.fetches", (size_t)count * sizeof(*fetches));
    if (fetches == NULL) {
        return gy_train_tell(model->comm, GY_NOMEM);
    }
    memcpy(fetches, u->gather_fetches, (size_t)u->gather_count * sizeof(*fetches));
    memcpy(fetches + u->gather_count, u->fetches + zeros,
           (size_t)(u->fetch_count - zeros) * sizeof(*fetches));
    const int64_t rows = gy_train_micro_rows(options, options->batch);
    gy_status status = GY_OK;
    if (model->mesh != NULL && model->mesh->stages > 1) {
        status = gy_session_decide(model->session, rows, fetches, u->gather_count);
    }
    status = status >= 0 ? gy_session_decide(model->session, rows, fetches, count) : status;
    gy_free(fetches);
    return status;
}

gy_status gy_train_decide_slots(gy_model *model, const gy_train_options *options)
{
    GY_ASSERT(model->session != NULL && model->update.fetch_count > 0);
    const gy_update *u = &model->update;
    GY_TRY(options->micro_batches > 0
               ? decide_with_micros(model, options)
               : gy_session_decide(model->session, options->batch, u->fetches, u->fetch_count));
    for (size_t i = 0; i < model->slot_count; i++) {
        const gy_train_slot *slot = &model->slots[i];
        model->is_sharded =
            model->is_sharded || (slot->kind != GY_SLOT_STATE && is_part(model, slot));
    }
    model->is_sharded = model->is_sharded || (model->mesh != NULL && model->mesh->stages > 1);
    return GY_OK;
}

bool gy_model_is_sharded(const gy_model *model)
{
    return model->is_sharded;
}

/* ---- what a rank will hold ---- */

enum { RUNS_MAX = 5, RANKS_TRIED = 256 };

static void add_run(gy_planned_run *runs, int *count, int64_t batch, const gy_value *fetches,
                    int fetch_count)
{
    GY_ASSERT(*count < RUNS_MAX);
    if (batch > 0) {
        runs[(*count)++] =
            (gy_planned_run){.batch = batch, .fetches = fetches, .fetch_count = fetch_count};
    }
}

/* The micro-batches of a batch. By a schedule each size has programs of its own; one after the
 * other, smaller ones fit into the largest. */
static void add_micros(gy_planned_run *runs, int *count, const gy_train_options *options,
                       const gy_planned_run *batch)
{
    GY_ASSERT(*count < RUNS_MAX && options->micro_batches > 0);
    if (batch->batch > 0) {
        gy_planned_run *run = &runs[(*count)++];
        *run = *batch;
        run->micros = options->micro_batches;
        run->loss = batch->schedule != NULL ? 1 : 0;
        run->batch =
            batch->schedule != NULL ? batch->batch : gy_train_micro_rows(options, batch->batch);
    }
}

/* The programs of a training's steps: of a whole batch and of the last one, with fetches of
 * updates, then of batches before. */
static void add_steps(gy_planned_run *runs, int *count, const gy_model *model,
                      const gy_train_options *options, const gy_planned_run batches[2])
{
    const gy_update *u = &model->update;
    const gy_value *updates = batches[0].fetches, *before = updates + u->fetch_count;
    const bool is_scheduled = batches[0].schedule != NULL;
    if (options->micro_batches == 0) {
        add_run(runs, count, options->accumulate > 1 ? batches[0].batch : 0, before,
                u->gather_count);
        add_run(runs, count, batches[0].batch, updates, u->fetch_count);
        add_run(runs, count, batches[1].batch, updates, u->fetch_count);
        return;
    }
    for (int i = 0; i < (is_scheduled ? 2 : 1); i++) {
        gy_planned_run batch = batches[i];
        batch.fetches = before;
        batch.fetch_count = u->gather_count;
        add_micros(runs, count, options, &batch);
    }
    add_run(runs, count, 1, updates, u->fetch_count);
}

/* The programs of the training, and those of its tests, in the order in which they first run.
 */
gy_status gy_train_predict_on(const gy_model *model, const gy_train_options *options,
                              const gy_train_counts *counts, const gy_mesh *mesh,
                              gy_footprint *footprint)
{
    const gy_update *u = &model->update;
    const int all = u->fetch_count + u->gather_count;
    gy_value *values = gy_alloc("train.footprint", ((size_t)all + 2) * sizeof(*values));
    if (values == NULL) {
        return GY_NOMEM;
    }
    for (int i = 0; i < all; i++) {
        const gy_node *node =
            i < u->fetch_count ? &u->fetches[i] : &u->gather_fetches[i - u->fetch_count];
        values[i] = (gy_value){node->index, node->output};
    }
    values[all] = (gy_value){model->loss.index, model->loss.output};
    values[all + 1] = (gy_value){model->predicted.index, model->predicted.output};
    const int64_t batch =
        counts->train > 0 ? GY_MIN(options->batch, counts->train) : options->batch;
    const int64_t tested = gy_train_test_batch(model, options);
    gy_planned_run runs[RUNS_MAX];
    gy_pipe_schedule *planned = NULL;
    const gy_pipe_schedule *schedule = NULL;
    int count = 0;
    gy_status status = gy_train_plan_pipe(model, options, &planned, &schedule);
    const gy_planned_run batches[] = {
        {.batch = batch, .fetches = values, .schedule = schedule},
        {.batch = counts->train % batch, .fetches = values, .schedule = schedule}};
    add_steps(runs, &count, model, options, batches);
    if (counts->test > 0) {
        add_run(runs, &count, counts->test < tested ? 0 : tested, values + all, 2);
        add_run(runs, &count, counts->test % tested, values + all, 2);
    }
    status = status >= 0 ? gy_session_footprint(model->session, mesh, runs, count, footprint)
                         : status;
    gy_pipe_free(planned);
    gy_free(values);
    return status;
}

/* The rank that has most: parts that are larger come last. */
static gy_mesh last_rank(gy_mesh mesh)
{
    for (int axis = 0; axis < mesh.axes; axis++) {
        mesh.coordinates[axis] = mesh.sizes[axis] - 1;
    }
    return mesh;
}

/* Of the stage that holds most. */
static gy_status predict_worst(const gy_model *model, const gy_train_options *options,
                               const gy_train_counts *counts, gy_mesh mesh,
                               gy_footprint *footprint)
{
    const int stages = GY_MAX(mesh.stages, 1);
    gy_footprint found;
    for (int stage = 0; stage < stages; stage++) {
        mesh.stage = stage;
        GY_TRY(gy_train_predict_on(model, options, counts, &mesh, &found));
        if (stage == 0 || gy_footprint_bytes(&found) > gy_footprint_bytes(footprint)) {
            *footprint = found;
        }
    }
    return GY_OK;
}

gy_status gy_train_predict(const gy_model *model, const gy_train_options *options,
                           const gy_train_counts *counts, gy_footprint *footprint)
{
    return predict_worst(model, options, counts, last_rank(mesh_of(model)), footprint);
}

/* The same mesh with so many ranks along data; as it is where it has no such axis. */
static gy_mesh mesh_with(const gy_model *model, int ranks)
{
    gy_mesh mesh = mesh_of(model);
    const int axis = gy_mesh_data_axis(&mesh);
    if (axis >= 0) {
        mesh.sizes[axis] = ranks;
    }
    return last_rank(mesh);
}

/* Bytes under another stage and number of ranks along data. The pins are then those. */
static gy_status predict_other(const gy_model *model, const gy_train_options *options,
                               const gy_train_counts *counts, int stage, int ranks,
                               uint64_t *size_bytes)
{
    gy_footprint footprint;
    const gy_mesh mesh = mesh_with(model, ranks);
    for (size_t i = 0; i < model->slot_count; i++) { /* what other axes cut stays, and rows */
        gy_graph_node *node = node_of(model, &model->slots[i]);
        if (!gy_graph_has_rows(node)) {
            node->pins[GY_AXIS_DATA] = (gy_placement){.kind = GY_REPLICATE};
            node->pinned_kinds &= (uint8_t) ~(1u << GY_AXIS_DATA);
        }
    }
    GY_TRY(pin_slots(model, options, stage, ranks));
    GY_TRY(predict_worst(model, options, counts, mesh, &footprint));
    *size_bytes = gy_footprint_bytes(&footprint);
    return GY_OK;
}

/* A stage and a number of ranks along data, and what a rank holds then. */
typedef struct fit_found {
    int stage, ranks;
    uint64_t size_bytes;
} fit_found;

/* Look at one more. */
static gy_status try_fit(const gy_model *model, const gy_train_options *options,
                         const gy_train_counts *counts, fit_found tried, fit_found *best)
{
    GY_TRY(predict_other(model, options, counts, tried.stage, tried.ranks, &tried.size_bytes));
    if (tried.size_bytes < best->size_bytes) {
        *best = tried;
    }
    return GY_OK;
}

/* Bytes when all layers are made again, which the graph's setting tells afterwards as before.
 */
static gy_status predict_again(const gy_model *model, const gy_train_options *options,
                               const gy_train_counts *counts, uint64_t *size_bytes)
{
    const gy_mesh mesh = mesh_of(model);
    const int chunks = model->graph->recompute_max;
    GY_TRY(gy_graph_recompute(model->graph, INT_MAX));
    const gy_status status = predict_other(model, options, counts, options->zero,
                                           gy_mesh_row_ranks(&mesh), size_bytes);
    GY_TRY(gy_graph_recompute(model->graph, chunks));
    return status;
}

/* What fits, for the end of a sentence: the next stage, else recomputation, else more ranks
 * along data; else what is closest. */
static gy_status find_fit(const gy_model *model, const gy_train_options *options,
                          const gy_train_counts *counts, char text[GY_TRAIN_FIT_BYTES])
{
    const gy_mesh mesh = mesh_of(model);
    const int ranks = gy_mesh_row_ranks(&mesh);
    const uint64_t limit = options->memory_bytes;
    int other = GY_MAX(mesh.stages, 1); /* ranks along the other axes */
    fit_found best = {.size_bytes = UINT64_MAX};
    for (int axis = 0; axis < mesh.axes; axis++) {
        other *= axis == gy_mesh_data_axis(&mesh) ? 1 : mesh.sizes[axis];
    }
    for (int stage = options->zero + 1;
         ranks > 1 && best.size_bytes > limit && stage <= GY_TRAIN_ZERO_MAX; stage++) {
        GY_TRY(try_fit(model, options, counts, (fit_found){stage, ranks, 0}, &best));
    }
    uint64_t again_bytes = UINT64_MAX;
    char size[32], where[64] = "";
    if (best.size_bytes > limit && options->recompute == GY_RECOMPUTE_NONE) {
        GY_TRY(predict_again(model, options, counts, &again_bytes));
    }
    if (again_bytes <= limit) {
        snprintf(text, GY_TRAIN_FIT_BYTES, "recomputing layers takes %s",
                 gy_text_bytes(size, again_bytes));
        return GY_OK;
    }
    for (int more = 2 * ranks; gy_mesh_data_axis(&mesh) >= 0 && best.size_bytes > limit &&
                               more * other <= RANKS_TRIED;
         more *= 2) {
        GY_TRY(try_fit(model, options, counts, (fit_found){GY_TRAIN_ZERO_MAX, more, 0}, &best));
    }
    if (best.ranks > ranks) {
        snprintf(where, sizeof(where), " on %d ranks, data=%d", best.ranks * other, best.ranks);
    }
    if (best.ranks == 0) {
        snprintf(text, GY_TRAIN_FIT_BYTES, "choose a smaller model or batch");
    } else if (best.size_bytes <= limit) {
        snprintf(text, GY_TRAIN_FIT_BYTES, "zero %d%s takes %s", best.stage, where,
                 gy_text_bytes(size, best.size_bytes));
    } else {
        snprintf(text, GY_TRAIN_FIT_BYTES,
                 "the least is %s, with zero %d%s; choose a smaller model or batch",
                 gy_text_bytes(size, best.size_bytes), best.stage, where);
    }
    return GY_OK;
}

/* Of this rank; the pins may be others then. */
static gy_status check_memory(const gy_model *model, const gy_train_options *options,
                              const gy_train_counts *counts)
{
    gy_footprint f;
    char fit[GY_TRAIN_FIT_BYTES], sizes[4][32];
    GY_TRY(gy_train_predict(model, options, counts, &f));
    if (gy_footprint_bytes(&f) <= options->memory_bytes) {
        return GY_OK;
    }
    GY_TRY(find_fit(model, options, counts, fit));
    return gy_fail(GY_LIMIT,
                   "training: a rank will hold %s (parameters and optimizer state %s, values "
                   "%s), the limit is %s; %s",
                   gy_text_bytes(sizes[0], gy_footprint_bytes(&f)),
                   gy_text_bytes(sizes[1], f.parameter_bytes),
                   gy_text_bytes(sizes[2], gy_footprint_bytes(&f) - f.parameter_bytes),
                   gy_text_bytes(sizes[3], options->memory_bytes), fit);
}

/* The pins of all slots, each as it is kept. */
typedef struct slot_pins {
    gy_placement pins[GY_AXIS_KINDS];
    uint8_t pinned_kinds;
} slot_pins;

static gy_status check_and_restore(const gy_model *model, const gy_train_options *options,
                                   const gy_train_counts *counts)
{
    slot_pins *saved = gy_alloc_zero("train.pins", model->slot_count + 1, sizeof(*saved));
    if (saved == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < model->slot_count; i++) {
        const gy_graph_node *node = node_of(model, &model->slots[i]);
        memcpy(saved[i].pins, node->pins, sizeof(saved[i].pins));
        saved[i].pinned_kinds = node->pinned_kinds;
    }
    const gy_status status = check_memory(model, options, counts);
    for (size_t i = 0; i < model->slot_count; i++) {
        gy_graph_node *node = node_of(model, &model->slots[i]);
        memcpy(node->pins, saved[i].pins, sizeof(node->pins));
        node->pinned_kinds = saved[i].pinned_kinds;
    }
    gy_free(saved);
    return status;
}

/* Is there an axis along which the update decides? */
static bool has_choice(const gy_mesh *mesh)
{
    GY_ASSERT(mesh->axes >= 1);
    for (int axis = 0; axis < mesh->axes; axis++) {
        if (mesh->kinds[axis] != GY_AXIS_DATA && mesh->sizes[axis] > 1) {
            return true;
        }
    }
    return false;
}

/* Decide anew with a price on memory, and see what a rank holds then. */
static gy_status try_price(gy_model *model, const gy_train_options *options,
                           const gy_train_counts *counts, double byte_s, uint64_t *size_bytes)
{
    gy_footprint f;
    gy_session_price_memory(model->session, byte_s);
    GY_TRY(gy_train_decide_slots(model, options));
    GY_TRY(gy_train_predict(model, options, counts, &f));
    *size_bytes = gy_footprint_bytes(&f);
    return GY_OK;
}

/*
 * Time under the limit: a byte that is held gets a price, which grows fourfold until what is
 * placed fits (a Lagrange multiplier). Where nothing fits, the price that comes closest stays.
 * At the first price a gigabyte is worth a millisecond, at the last a quarter of an hour.
 */
static gy_status fit_by_price(gy_model *model, const gy_train_options *options,
                              const gy_train_counts *counts)
{
    static const double first = 1e-12, last = 1e-6, step = 4;
    const gy_mesh mesh = mesh_of(model);
    uint64_t size_bytes = 0, least_bytes = UINT64_MAX;
    double best = 0;
    GY_ASSERT(options->memory_bytes > 0);
    if (!has_choice(&mesh)) {
        return GY_OK;
    }
    gy_footprint f;
    GY_TRY(gy_train_predict(model, options, counts, &f));
    least_bytes = gy_footprint_bytes(&f);
    for (double byte_s = first; least_bytes > options->memory_bytes && byte_s < last;
         byte_s *= step) {
        GY_TRY(try_price(model, options, counts, byte_s, &size_bytes));
        if (size_bytes < least_bytes) {
            least_bytes = size_bytes;
            best = byte_s;
        }
    }
    return least_bytes > options->memory_bytes
               ? try_price(model, options, counts, best, &size_bytes)
               : GY_OK;
}

/*
 * The fewest chunks that are made again so that a rank fits; all of them where none do. What
 * placement decided stays: recomputing comes before a price on memory.
 */
gy_status gy_train_fit_chunks(gy_model *model, const gy_train_options *options,
                              const gy_train_counts *counts)
{
    gy_footprint f;
    if (options->recompute != GY_RECOMPUTE_AUTO) {
        return GY_OK;
    }
    if (options->memory_bytes == 0) {
        return gy_fail(GY_ARG, "training: recompute auto needs memory_bytes");
    }
    GY_TRY(gy_graph_recompute(model->graph, 0));
    GY_TRY(gy_train_predict(model, options, counts, &f));
    if (gy_footprint_bytes(&f) <= options->memory_bytes) {
        return GY_OK;
    }
    GY_TRY(gy_graph_recompute(model->graph, INT_MAX));
    GY_TRY(gy_train_predict(model, options, counts, &f));
    if (gy_footprint_bytes(&f) > options->memory_bytes) {
        return GY_OK;
    }
    int too_few = 0, enough = f.recomputed;
    while (enough - too_few > 1) {
        const int middle = too_few + (enough - too_few) / 2;
        GY_TRY(gy_graph_recompute(model->graph, middle));
        GY_TRY(gy_train_predict(model, options, counts, &f));
        *(gy_footprint_bytes(&f) <= options->memory_bytes ? &enough : &too_few) = middle;
    }
    return gy_graph_recompute(model->graph, enough);
}

static gy_status check_limit(gy_model *model, const gy_train_options *options,
                             const gy_train_counts *counts)
{
    GY_TRY(gy_train_fit_chunks(model, options, counts));
    GY_TRY(fit_by_price(model, options, counts));
    return check_and_restore(model, options, counts);
}

gy_status gy_train_check_memory(gy_model *model, const gy_train_options *options,
                                const gy_train_counts *counts)
{
    return options->memory_bytes == 0
               ? GY_OK
               : gy_session_agree(model->comm, check_limit(model, options, counts));
}

void gy_train_explain_whole(const gy_model *model, const gy_train_options *options,
                            gy_text *text)
{
    const int ranks = gy_model_row_ranks(model);
    int count = 0;
    GY_ASSERT(ranks >= 1);
    for (size_t i = 0; ranks > 1 && i < model->slot_count; i++) {
        const gy_train_slot *slot = &model->slots[i];
        const gy_graph_node *node = node_of(model, slot);
        const gy_type *type = &node->types[0];
        int64_t largest = 1;
        for (int dim = 0; dim < type->rank; dim++) {
            largest = GY_MAX(largest, is_taken(node, dim) ? 1 : type->sizes[dim]);
        }
        if (options->zero >= first_stage(slot) && largest < ranks &&
            node->pins[GY_AXIS_DATA].kind == GY_REPLICATE) {
            gy_text_add(text, "%s     %s: %lld along its largest dimension, %d ranks\n",
                        count++ == 0 ? "== kept whole along data: fewer elements than ranks\n"
                                     : "",
                        slot->name, (long long)largest, ranks);
        }
    }
}

void gy_train_explain_memory(const gy_footprint *f, const gy_footprint *held, gy_text *text)
{
    const struct {
        const char *name;
        uint64_t size_bytes;
    } rows[] = {{"parameters and optimizer state", f->parameter_bytes},
                {"inputs", f->input_bytes},
                {"values and workspaces", f->program_bytes},
                {"exchanged values", f->shared_bytes}};
    char size[32];
    gy_text_add(text, "== memory of a rank: %s predicted\n",
                gy_text_bytes(size, gy_footprint_bytes(f)));
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        gy_text_add(text, "     %s: %s\n", rows[i].name,
                    gy_text_bytes(size, rows[i].size_bytes));
    }
    if (held != NULL) {
        const uint64_t with = f->program_bytes + f->shared_bytes,
                       without = held->program_bytes + held->shared_bytes;
        gy_text_add(text,
                    "     without recomputation, values and exchanged values: %s, %.2f times\n",
                    gy_text_bytes(size, without), (double)without / (double)GY_MAX(with, 1));
    }
}

/* ---- explaining ---- */

/* Under a title, unless nothing ran so. */
static gy_status explain_runs(gy_model *model, const gy_node *fetches, int fetch_count,
                              int lines_max, const char *title, gy_text *all)
{
    char *text = NULL;
    GY_TRY(gy_session_explain_runs(model->session, fetches, fetch_count, lines_max, &text));
    gy_text_add(all, "%s", title);
    gy_text_add_bytes(all, text, strlen(text));
    gy_string_free(text);
    return all->status;
}

gy_status gy_train_explain_runs(gy_model *model, int lines_max, char **text)
{
    const gy_update *u = &model->update;
    gy_text all = {.data = NULL};
    gy_status status = explain_runs(model, u->fetches, u->fetch_count, lines_max, "", &all);
    if (status >= 0 && u->gather_count > 0) { /* updates of one batch have no other */
        const bool has_micros = u->fetches[0].index != model->train_loss.index;
        status = explain_runs(
            model, u->gather_fetches, u->gather_count, lines_max,
            has_micros ? "== of a micro-batch\n" : "== of a batch before an update\n", &all);
        status = status == GY_NOTFOUND ? GY_OK : status;
    }
    if (status < 0) {
        gy_text_free(&all);
        return status;
    }
    *text = all.data;
    return GY_OK;
}

/* What a rank will hold, and what it would where nothing is made again. */
static gy_status predict_both(gy_model *model, const gy_train_options *options,
                              gy_footprint *footprint, gy_footprint *held)
{
    const gy_train_counts counts = {.train = 0};
    GY_TRY(gy_train_fit_chunks(model, options, &counts));
    GY_TRY(gy_train_predict(model, options, &counts, footprint));
    *held = *footprint;
    if (footprint->recomputed > 0) {
        const int chunks = model->graph->recompute_max;
        GY_TRY(gy_graph_recompute(model->graph, 0));
        GY_TRY(gy_train_predict(model, options, &counts, held));
        GY_TRY(gy_graph_recompute(model->graph, chunks));
    }
    return GY_OK;
}

gy_status gy_train_explain(gy_model *model, const gy_train_options *options, char **text)
{
    gy_train_options filled;
    GY_TRY(gy_train_defaults(options, &filled));
    GY_TRY(gy_model_build(model, &filled));
    gy_footprint footprint, held;
    gy_text all = {.data = NULL};
    char *stages = NULL;
    GY_TRY(predict_both(model, &filled, &footprint, &held));
    const gy_update *u = &model->update;
    const bool has_micros = filled.micro_batches > 0;
    if (has_micros) {
        GY_TRY(gy_session_explain(model->session, gy_train_micro_rows(&filled, filled.batch),
                                  u->gather_fetches, u->gather_count, &stages));
        gy_text_add(&all, "%s== the update, of all micro-batches\n", stages);
        gy_string_free(stages);
    }
    GY_TRY(gy_session_explain(model->session, has_micros ? 1 : filled.batch, u->fetches,
                              u->fetch_count, &stages));
    gy_text_add_bytes(&all, stages, strlen(stages));
    gy_string_free(stages);
    gy_train_explain_whole(model, &filled, &all);
    gy_train_explain_memory(&footprint, footprint.recomputed > 0 ? &held : NULL, &all);
    if (all.status < 0) {
        gy_text_free(&all);
        return GY_NOMEM;
    }
    *text = all.data;
    return GY_OK;
}
