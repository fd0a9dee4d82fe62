/*
 * Memory: which values share a buffer, in the order of the nodes.
 *
 * A view has its input's buffer. A value that is assigned to a parameter is made in the
 * parameter's own when nobody reads the old one later. A kernel that may write over an input
 * does, when it is the last to read it; an allreduce does always. Other buffers serve again
 * once their last reader has gone.
 *
 * What collectives read or write lives where peers can read it, and serves values of this kind
 * alone. A task that computes shall not wait for peers in vain: a buffer whose readers wait for
 * a collective goes to no task that does not, and one that a collective itself read last only
 * when as many bytes as it has were handed to later exchanges, which keep the links busy while
 * the task waits (double buffering).
 */
#include "graph/graph.h"

#include <string.h>

enum { KEPT_SHARE = 64 }; /* so small a part of a device's memory a program keeps for copies */
enum { LONG_LIFE = 32 };  /* nodes; within a layer and its gradients values live shorter */

/* What is known of a piece of memory while nodes are walked. */
typedef struct occupant {
    int32_t last;      /* node that reads it last; INT32_MAX: it is kept */
    int32_t stage;     /* collectives before those that used it */
    bool is_exchanged; /* a collective used it last */
    uint64_t sent;     /* bytes of the collectives up to the last user */
    bool is_free;
    int32_t next_free; /* of those that are free; -1: none */
    bool is_taken;     /* a parameter's: the value that it will be assigned is made there */
} occupant;

typedef struct planner {
    const gy_graph *graph;
    const gy_graph_choice *choices;
    gy_memory_plan *plan;
    int32_t *base;       /* value number -> that of the value whose memory it is */
    int32_t *last;       /* of a base: node that reads it last */
    int32_t *assigned;   /* of a base: node that assigns it; -1: none */
    bool *is_moved;      /* of a base: a collective reads or writes it */
    int32_t *stage;      /* node -> collectives before it */
    uint64_t sent;       /* bytes of the collectives before the node that is placed */
    occupant *occupants; /* buffer -> what is known of it */
    int32_t first_free;
    int32_t scratch[GY_SCRATCH_MAX], device_scratch; /* -1: none */
} planner;

static bool is_exchange(const gy_graph_node *node)
{
    return (node->op->flags & GY_OP_COLLECTIVE) != 0;
}

static bool is_fed(const gy_graph_node *node)
{
    return (node->op->flags & GY_OP_LEAF) != 0 && node->op != &gy_ops_row_fill;
}

static gy_storage_kind leaf_kind(const gy_graph_node *node)
{
    GY_ASSERT(is_fed(node));
    if (node->op == &gy_ops_row_input) {
        return GY_STORAGE_INPUT;
    }
    return node->op == &gy_ops_row_parameter ? GY_STORAGE_PARAMETER : GY_STORAGE_LITERAL;
}

/* ---- who reads what, and when ---- */

static int32_t base_of(const planner *p, gy_value value)
{
    const int32_t base = p->base[gy_graph_value(p->graph, value)];
    GY_ASSERT(base >= 0 && base <= gy_graph_value(p->graph, value));
    return base;
}

static void note_node(planner *p, int32_t index)
{
    GY_ASSERT(index >= 0 && index < p->graph->node_count);
    const gy_graph *graph = p->graph;
    const gy_graph_node *node = &graph->nodes[index];
    const bool is_collective = is_exchange(node);
    const bool is_view = (node->op->flags & GY_OP_VIEW) != 0 || node->op == &gy_ops_row_assign;
    GY_ASSERT(!is_view || (node->input_count >= 1 && node->output_count == 1));
    for (int32_t k = 0; k < node->output_count; k++) {
        int32_t value = node->first_value + k;
        p->base[value] = is_view ? base_of(p, node->inputs[0]) : value;
        p->last[value] = node->op == &gy_ops_row_fill ? INT32_MAX : index;
        p->assigned[value] = -1;
        p->is_moved[value] = is_collective;
    }
    for (int k = 0; k < node->input_count; k++) {
        if (node->op == &gy_ops_row_assign && k == 0) {
            continue; /* the parameter is written, not read */
        }
        int32_t base = base_of(p, node->inputs[k]);
        p->last[base] = GY_MAX(p->last[base], index);
        p->is_moved[base] = p->is_moved[base] || is_collective;
    }
    if (node->op == &gy_ops_row_assign) {
        GY_ASSERT(node->input_count == 2);
        p->assigned[base_of(p, node->inputs[1])] = index;
    }
}

static void count_stages(planner *p)
{
    for (int32_t i = 0; i < p->graph->node_count; i++) {
        const gy_graph_node *node = &p->graph->nodes[i];
        int32_t stage = 0;
        for (int k = 0; k < node->input_count; k++) {
            GY_ASSERT(node->inputs[k].node < i);
            stage = GY_MAX(stage, p->stage[node->inputs[k].node]);
        }
        p->stage[i] = GY_MAX(p->stage[i], stage + (is_exchange(node) ? 1 : 0));
    }
}

/* What is made again is made for the way back, and waits for the gradients that its readers
 * wait for. */
static void delay_copies(planner *p)
{
    GY_ASSERT(p->stage != NULL);
    for (int32_t i = p->graph->node_count - 1; i >= 0; i--) {
        const gy_graph_node *node = &p->graph->nodes[i];
        for (int k = 0; k < node->input_count && !is_exchange(node); k++) {
            const int32_t maker = node->inputs[k].node;
            if (p->graph->nodes[maker].mark.is_again) {
                p->stage[maker] = GY_MAX(p->stage[maker], p->stage[i]);
            }
        }
    }
}

static void note_all(planner *p)
{
    for (int32_t i = 0; i < p->graph->node_count; i++) {
        note_node(p, i);
    }
    count_stages(p);
    delay_copies(p);
    count_stages(p);
    for (int32_t i = 0; i < p->graph->root_count; i++) {
        gy_value value = p->graph->roots[i].value;
        if (gy_graph_at(p->graph, value)->op != &gy_ops_row_assign) {
            p->last[base_of(p, value)] = INT32_MAX;
        }
    }
}

/* ---- buffers ---- */

static int32_t add_buffer(planner *p, gy_storage_kind kind, int32_t leaf, size_t size_bytes)
{
    GY_ASSERT((leaf >= 0) == (kind != GY_STORAGE_OWN && kind != GY_STORAGE_SHARED &&
                              kind != GY_STORAGE_DEVICE));
    GY_ASSERT(p->plan->buffer_count < p->graph->node_count + p->graph->value_count + 2);
    gy_memory_plan *plan = p->plan;
    plan->buffers[plan->buffer_count] =
        (gy_storage){.kind = kind, .leaf = leaf, .size_bytes = size_bytes, .chunk = -1};
    p->occupants[plan->buffer_count] = (occupant){.last = INT32_MAX};
    return plan->buffer_count++;
}

/* May output k be written over input i while it is read, element by element? */
static bool may_overwrite(const planner *p, int32_t index, int32_t k, int i)
{
    GY_ASSERT(i >= 0 && i < p->graph->nodes[index].input_count);
    GY_ASSERT(k >= 0 && k < p->graph->nodes[index].output_count);
    const gy_graph_node *node = &p->graph->nodes[index];
    const gy_type *from = gy_graph_type(p->graph, node->inputs[i]), *to = &node->types[k];
    const gy_kernel *kernel = p->choices[index].kernel;
    const bool is_allreduce = node->op == &gy_ops_row_allreduce;
    if ((kernel == NULL && !is_allreduce) || from->format != to->format ||
        gy_dtype_bytes(from->dtype) != gy_dtype_bytes(to->dtype) || from->rank != to->rank) {
        return false;
    }
    if (node->op == &gy_ops_row_fused) {
        if (kernel == NULL || !kernel->in_place_any ||
            node->attributes.fused.program->outputs[k].reduction != NULL) {
            return false;
        }
    } else if (!is_allreduce && (k != 0 || i >= 8 || (kernel->in_place >> i & 1) == 0)) {
        return false;
    }
    gy_view a = gy_local_view(&p->graph->mesh, from, NULL);
    gy_view b = gy_local_view(&p->graph->mesh, to, NULL);
    return memcmp(a.sizes, b.sizes, (size_t)a.rank * sizeof(a.sizes[0])) == 0;
}

/* May output k of a node lie where `base` does, as far as the node's own reads go? */
static bool may_replace(const planner *p, int32_t index, int32_t k, int32_t base)
{
    GY_ASSERT(p->base[base] == base);
    const gy_graph_node *node = &p->graph->nodes[index];
    for (int i = 0; i < node->input_count; i++) {
        if (base_of(p, node->inputs[i]) == base && !may_overwrite(p, index, k, i)) {
            return false;
        }
    }
    return true;
}

static bool is_output_buffer(const planner *p, int32_t index, int32_t k, int32_t buffer)
{
    GY_ASSERT(k >= 0 && buffer >= 0 && buffer < p->plan->buffer_count);
    for (int32_t before = 0; before < k; before++) {
        if (p->plan->of_value[p->graph->nodes[index].first_value + before] == buffer) {
            return true;
        }
    }
    return false;
}

/* Of a value that is the program's own. */
static gy_storage_kind kind_of(const planner *p, int32_t index, int32_t value)
{
    GY_ASSERT(p->base[value] == value);
    if (p->graph->nodes[index].is_on_device) {
        GY_ASSERT(!p->is_moved[value]);
        return GY_STORAGE_DEVICE;
    }
    return p->is_moved[value] ? GY_STORAGE_SHARED : GY_STORAGE_OWN;
}

/* Is it a parameter whose place is another in each run? What exchanges write has one. */
static bool has_rows(const planner *p, int32_t base)
{
    const int32_t leaf = p->plan->buffers[p->plan->of_value[base]].leaf;
    GY_ASSERT(leaf < p->graph->node_count);
    return leaf >= 0 && gy_graph_has_rows(&p->graph->nodes[leaf]);
}

/* The buffer of the parameter that the value will be assigned to; -1: it must be copied. */
static int32_t parameter_buffer(const planner *p, int32_t index, int32_t k)
{
    GY_ASSERT(k >= 0 && k < p->graph->nodes[index].output_count);
    const gy_graph *graph = p->graph;
    const int32_t value = graph->nodes[index].first_value + k;
    if (p->assigned[value] < 0) {
        return -1;
    }
    const gy_graph_node *assign = &graph->nodes[p->assigned[value]];
    GY_ASSERT(assign->op == &gy_ops_row_assign && p->assigned[value] > index);
    const int32_t parameter = base_of(p, assign->inputs[0]);
    const int32_t buffer = p->plan->of_value[parameter];
    GY_ASSERT(buffer >= 0 && buffer < p->plan->buffer_count);
    bool is_whole = gy_graph_value(graph, assign->inputs[1]) == value;
    bool is_read_later = p->last[parameter] > index;
    if (!is_whole || is_read_later || has_rows(p, parameter) ||
        p->plan->buffers[buffer].kind != GY_STORAGE_PARAMETER ||
        graph->nodes[index].types[k].format != GY_FORMAT_DENSE ||
        p->occupants[buffer].is_taken) {
        return -1;
    }
    return may_replace(p, index, k, parameter) ? buffer : -1;
}

/* Is so large a buffer not wasted on so small a value? What is shared may be kept until the
 * update, and what lives long keeps others from the buffer. */
static bool is_near(gy_storage_kind kind, int32_t life, size_t have, size_t size_bytes)
{
    GY_ASSERT(have >= size_bytes && life >= 0);
    if (life > LONG_LIFE) {
        return have - size_bytes <= size_bytes / 8;
    }
    return kind == GY_STORAGE_SHARED ? have - size_bytes <= size_bytes / 2
                                     : have / 4 <= size_bytes;
}

/* The buffer of an input that nobody reads any more. */
static int32_t input_buffer(const planner *p, int32_t index, int32_t k)
{
    const gy_graph_node *node = &p->graph->nodes[index];
    const int32_t value = node->first_value + k, life = p->last[value] - index;
    const gy_storage_kind kind = kind_of(p, index, value);
    const size_t size_bytes = gy_local_bytes(&p->graph->mesh, &node->types[k]);
    for (int i = 0; i < node->input_count; i++) {
        int32_t base = base_of(p, node->inputs[i]), buffer = p->plan->of_value[base];
        GY_ASSERT(buffer >= 0 && buffer < p->plan->buffer_count);
        if (p->plan->buffers[buffer].kind == kind && p->last[base] == index &&
            p->occupants[buffer].last == index && !is_output_buffer(p, index, k, buffer) &&
            may_overwrite(p, index, k, i) && may_replace(p, index, k, base) &&
            (life <= LONG_LIFE ||
             is_near(kind, life, p->plan->buffers[buffer].size_bytes, size_bytes))) {
            return buffer;
        }
    }
    return -1;
}

/* May the node write there without waiting in vain? */
static bool is_ready(const planner *p, int32_t index, int32_t buffer)
{
    const occupant *t = &p->occupants[buffer];
    GY_ASSERT(t->is_free && t->last < index && t->sent <= p->sent);
    if (t->is_exchanged) {
        return p->sent - t->sent >= p->plan->buffers[buffer].size_bytes / 2;
    }
    return is_exchange(&p->graph->nodes[index]) || t->stage <= p->stage[index];
}

/* Take the free buffer that fits best; of equals the one made last. -1: none fits. */
static int32_t take_free(planner *p, int32_t index, int32_t last, gy_storage_kind kind,
                         size_t size_bytes)
{
    int32_t *best = NULL, buffer = -1;
    size_t least = SIZE_MAX;
    for (int32_t *at = &p->first_free; *at >= 0; at = &p->occupants[*at].next_free) {
        const size_t have = p->plan->buffers[*at].size_bytes;
        if (p->plan->buffers[*at].kind == kind && have >= size_bytes &&
            is_near(kind, last - index, have, size_bytes) &&
            (have < least || (have == least && *at > buffer)) && is_ready(p, index, *at)) {
            best = at;
            buffer = *at;
            least = have;
        }
    }
    if (best != NULL) {
        GY_ASSERT(p->occupants[buffer].is_free);
        GY_ASSERT(p->plan->buffers[buffer].kind == kind);
        *best = p->occupants[buffer].next_free;
    }
    return buffer;
}

/* ---- the plan ---- */

static int32_t place_value(planner *p, int32_t index, int32_t k)
{
    GY_ASSERT(p->choices != NULL);
    const gy_graph_node *node = &p->graph->nodes[index];
    const int32_t value = node->first_value + k;
    const size_t size_bytes = gy_local_bytes(&p->graph->mesh, &node->types[k]);
    if (p->base[value] != value) {
        GY_ASSERT(p->base[value] < value);
        return p->plan->of_value[p->base[value]];
    }
    if (is_fed(node)) {
        return add_buffer(p, leaf_kind(node), index, size_bytes);
    }
    const gy_storage_kind kind = kind_of(p, index, value);
    if (p->plan->is_plain || node->op == &gy_ops_row_fill) {
        const int32_t own = add_buffer(p, kind, -1, size_bytes);
        p->plan->buffers[own].is_kept = node->op == &gy_ops_row_fill;
        return own;
    }
    int32_t buffer = parameter_buffer(p, index, k);
    if (buffer >= 0) {
        GY_ASSERT(p->plan->buffers[buffer].kind == GY_STORAGE_PARAMETER);
        GY_ASSERT(!p->occupants[buffer].is_taken);
        p->occupants[buffer].is_taken = true;
        return buffer;
    }
    buffer = input_buffer(p, index, k);
    if (buffer < 0) {
        buffer = take_free(p, index, p->last[value], kind, size_bytes);
    }
    if (buffer < 0) {
        buffer = add_buffer(p, kind, -1, size_bytes);
    }
    GY_ASSERT(p->last[value] >= index);
    GY_ASSERT(p->plan->buffers[buffer].size_bytes >= size_bytes);
    p->occupants[buffer] = (occupant){.last = p->last[value]};
    return buffer;
}

static void release(planner *p, int32_t index, int32_t buffer)
{
    GY_ASSERT(buffer >= 0 && buffer < p->plan->buffer_count);
    const gy_storage_kind kind = p->plan->buffers[buffer].kind;
    occupant *t = &p->occupants[buffer];
    const bool is_ours =
        kind == GY_STORAGE_OWN || kind == GY_STORAGE_SHARED || kind == GY_STORAGE_DEVICE;
    if (is_ours && !t->is_free && t->last == index) {
        *t = (occupant){.last = index,
                        .stage = p->stage[index],
                        .is_exchanged = is_exchange(&p->graph->nodes[index]),
                        .sent = p->sent,
                        .is_free = true,
                        .next_free = p->first_free};
        p->first_free = buffer;
        GY_ASSERT(t->next_free != buffer);
    }
}

/* What was read or made here for the last time is free for those that follow. */
static void release_after(planner *p, int32_t index)
{
    GY_ASSERT(index >= 0 && index < p->graph->node_count);
    const gy_graph_node *node = &p->graph->nodes[index];
    if (is_exchange(node)) {
        const size_t read =
            node->input_count == 0
                ? 0
                : gy_local_bytes(&p->graph->mesh, gy_graph_type(p->graph, node->inputs[0]));
        const size_t made = gy_local_bytes(&p->graph->mesh, &node->types[0]);
        p->sent += GY_MAX(read, made);
    }
    for (int i = 0; i < node->input_count; i++) {
        release(p, index, p->plan->of_value[base_of(p, node->inputs[i])]);
    }
    for (int32_t k = 0; k < node->output_count; k++) {
        release(p, index, p->plan->of_value[base_of(p, (gy_value){index, k})]);
    }
    if (p->plan->of_workspace[index] >= 0) { /* of a kernel: it is in no list */
        release(p, index, p->plan->of_workspace[index]);
    }
}

static int32_t grow_scratch(planner *p, int32_t *slot, gy_storage_kind kind, size_t size_bytes)
{
    GY_ASSERT(size_bytes > 0);
    *slot = *slot >= 0 ? *slot : add_buffer(p, kind, -1, size_bytes);
    gy_storage *storage = &p->plan->buffers[*slot];
    storage->size_bytes = GY_MAX(storage->size_bytes, size_bytes);
    GY_ASSERT(storage->kind == kind);
    return *slot;
}

/* Kernels take scratch in turn, one for each that may run at a time. An exchange has its own
 * until it has ended. */
static int32_t place_workspace(planner *p, int32_t index, int32_t *turn)
{
    GY_ASSERT(*turn >= 0 && p->plan->scratch_count >= 1);
    size_t size_bytes = p->choices[index].workspace_bytes;
    if (size_bytes == 0) {
        return -1;
    }
    const bool is_there = p->graph->nodes[index].is_on_device;
    if (p->plan->is_plain) {
        return add_buffer(p, is_there ? GY_STORAGE_DEVICE : GY_STORAGE_OWN, -1, size_bytes);
    }
    if (is_there) {
        return grow_scratch(p, &p->device_scratch, GY_STORAGE_DEVICE, size_bytes);
    }
    if (p->choices[index].kernel == NULL) {
        int32_t buffer = take_free(p, index, index, GY_STORAGE_OWN, size_bytes);
        buffer = buffer >= 0 ? buffer : add_buffer(p, GY_STORAGE_OWN, -1, size_bytes);
        p->occupants[buffer] = (occupant){.last = index};
        return buffer;
    }
    int32_t *slot = &p->scratch[*turn % p->plan->scratch_count];
    (*turn)++;
    return grow_scratch(p, slot, GY_STORAGE_OWN, size_bytes);
}

/* The buffer there of what a node copies; NULL: it copies nothing. */
static gy_storage *copied(const planner *p, int32_t index)
{
    GY_ASSERT(index >= 0 && index < p->graph->node_count);
    const gy_graph_node *node = &p->graph->nodes[index];
    const bool comes = node->op == &gy_ops_row_to_device;
    if (!comes && node->op != &gy_ops_row_to_host) {
        return NULL;
    }
    const int32_t value = comes ? node->first_value : base_of(p, node->inputs[0]);
    GY_ASSERT(value >= 0 && p->plan->of_value[value] >= 0);
    gy_storage *storage = &p->plan->buffers[p->plan->of_value[value]];
    GY_ASSERT(storage->kind != GY_STORAGE_OWN);
    return storage->kind == GY_STORAGE_DEVICE ? storage : NULL;
}

/* The device orders copies and kernels by the memory that was taken from it: what is copied
 * has memory of its own, so that no copy waits for kernels which use other values. Programs do
 * not share that memory, so it is done where it is but a small part of the device's. */
static void keep_copied(const planner *p)
{
    const gy_device *device = p->graph->device;
    uint64_t bytes = 0;
    GY_ASSERT(p->plan->buffer_count >= 0);
    for (int32_t i = 0; i < p->graph->node_count; i++) {
        const gy_storage *storage = copied(p, i);
        bytes += storage != NULL ? storage->size_bytes : 0;
    }
    if (device != NULL && device->rates.memory_bytes > 0 &&
        bytes > device->rates.memory_bytes / KEPT_SHARE) {
        return;
    }
    for (int32_t i = 0; i < p->graph->node_count; i++) {
        gy_storage *storage = copied(p, i);
        if (storage != NULL) {
            storage->is_kept = true;
        }
    }
}

static void place_all(planner *p)
{
    int32_t turn = 0;
    p->first_free = p->device_scratch = -1;
    for (int32_t i = 0; i < GY_SCRATCH_MAX; i++) {
        p->scratch[i] = -1;
    }
    note_all(p);
    for (int32_t i = 0; i < p->graph->node_count; i++) {
        const gy_graph_node *node = &p->graph->nodes[i];
        for (int32_t k = 0; k < node->output_count; k++) {
            p->plan->of_value[node->first_value + k] = place_value(p, i, k);
            GY_ASSERT(p->plan->of_value[node->first_value + k] < p->plan->buffer_count);
        }
        p->plan->of_workspace[i] = place_workspace(p, i, &turn);
        GY_ASSERT(p->plan->of_workspace[i] < p->plan->buffer_count);
        release_after(p, i);
    }
    keep_copied(p);
}

gy_status gy_plan_memory(const gy_graph *graph, const gy_graph_choice *choices,
                         int scratch_count, gy_memory_plan *plan)
{
    GY_ASSERT(graph->batch > 0 && choices != NULL && scratch_count >= 0);
    const size_t nodes = (size_t)graph->node_count + 1, values = (size_t)graph->value_count + 1;
    gy_arena arena = {0};
    memset(plan, 0, sizeof(*plan));
    plan->is_plain = scratch_count == 0;
    plan->scratch_count = GY_MAX(1, GY_MIN(scratch_count, GY_SCRATCH_MAX));
    plan->buffers = gy_arena_alloc(&plan->arena, (nodes + values) * sizeof(gy_storage));
    plan->of_value = gy_arena_alloc(&plan->arena, values * sizeof(int32_t));
    plan->of_workspace = gy_arena_alloc(&plan->arena, nodes * sizeof(int32_t));
    planner p = {.graph = graph,
                 .choices = choices,
                 .plan = plan,
                 .base = gy_arena_alloc(&arena, values * sizeof(int32_t)),
                 .last = gy_arena_alloc(&arena, values * sizeof(int32_t)),
                 .assigned = gy_arena_alloc(&arena, values * sizeof(int32_t)),
                 .is_moved = gy_arena_alloc(&arena, values * sizeof(bool)),
                 .stage = gy_arena_alloc(&arena, nodes * sizeof(int32_t)),
                 .occupants = gy_arena_alloc(&arena, (nodes + values) * sizeof(occupant))};
    bool is_there = plan->buffers != NULL && plan->of_value != NULL &&
                    plan->of_workspace != NULL && p.base != NULL && p.last != NULL &&
                    p.assigned != NULL && p.is_moved != NULL && p.stage != NULL &&
                    p.occupants != NULL;
    if (is_there) {
        place_all(&p);
    } else {
        gy_memory_plan_free(plan);
    }
    gy_arena_free(&arena);
    return is_there ? GY_OK : GY_NOMEM;
}

void gy_memory_plan_free(gy_memory_plan *plan)
{
    gy_arena_free(&plan->arena);
    memset(plan, 0, sizeof(*plan));
}
