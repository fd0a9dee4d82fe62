/*
 * When ranks gather the parameters that they keep cut along the data axis (ZeRO, stage 3), and
 * for how long they keep the gathered copy. Placement makes one allgather of a parameter, which
 * all users read: the copy would live from the forward pass to the last gradient. This pass
 * gives each group of users that stand close to one another an allgather of its own: a layer's
 * parameters are gathered before it, dropped behind it and gathered again for its gradients.
 *
 * Two uses are far from one another when those between them read twice as many bytes of other
 * gathered parameters: then holding the copy costs more memory than what the links and the
 * computation need to work beside one another. What is small is gathered once.
 *
 * An allgather stands before the first user of the one before it, so that it is under way while
 * that computes; small ones go several together. gy_schedule keeps these places.
 *
 * @source Rajbhandari et al., "ZeRO", SC 2020; Zhao et al., "PyTorch FSDP", VLDB 2023
 */
#include "graph/graph.h"

#include <stdio.h>

/* Of all bytes that are gathered: below this part a parameter is gathered once, and up to that
 * part is gathered ahead. */
enum { SMALL_PART = 4096, AHEAD_PART = 32 };

/* One use of a gathered value. */
typedef struct use {
    int32_t node; /* that reads it; node_count: it is fetched */
    gy_value value;
    int32_t load;
    int32_t next; /* of the same load; -1: none */
} use;

/* One gathering of a parameter for some of its users. */
typedef struct load {
    int32_t leaf, first, last; /* the parameter; nodes that use it */
    int32_t issue;             /* the node that it stands before */
    int32_t first_use, last_use;
    int32_t number; /* of the parameter's: 0, 1, … */
    size_t size_bytes;
} load;

typedef struct resharder {
    gy_pass pass;
    int32_t *leaf; /* node -> the parameter that it gathers, or slices behind that; -1 */
    size_t *bytes; /* of a parameter: of its largest gathered value */
    size_t total_bytes;
    uint64_t *clock; /* of a parameter: bytes that uses had read behind its last use */
    int32_t *open;   /* of a parameter: its newest load; -1: none */
    use *uses;
    load *loads;
    int32_t use_count, load_count;
    /* Of a gathered value: what it is in the new graph, and for which load. */
    gy_value *made;
    int32_t *made_for;
} resharder;

/* Cuts what is whole: cheap enough to be done for each group of users. */
static bool is_slice(const gy_graph_node *node)
{
    return (node->op->flags & GY_OP_VIEW) != 0 ||
           (node->op == &gy_ops_row_take_shard && node->attributes.move.to.kind == GY_SHARD);
}

/* The parameter whose part a value is, through views, slices and allgathers; -1: it is none. */
static int32_t parameter_of(const gy_graph *graph, gy_value value)
{
    const gy_graph_node *node = gy_graph_at(graph, value);
    while (is_slice(node) || node->op == &gy_ops_row_allgather) {
        GY_ASSERT(node->input_count >= 1 && node->inputs[0].node < value.node);
        value = node->inputs[0];
        node = gy_graph_at(graph, value);
    }
    return node->op == &gy_ops_row_parameter ? value.node : -1;
}

bool gy_memory_is_gather(const gy_graph *graph, int32_t index)
{
    GY_ASSERT(index >= 0 && index < graph->node_count);
    const gy_graph_node *node = &graph->nodes[index];
    const int axis = gy_mesh_data_axis(&graph->mesh);
    if (node->op != &gy_ops_row_allgather || axis < 0) {
        return false;
    }
    const int32_t leaf = parameter_of(graph, node->inputs[0]);
    return leaf >= 0 && graph->nodes[leaf].types[0].placement[axis].kind == GY_SHARD;
}

/* ---- who uses what ---- */

/* Sizes are those of the rank with the largest parts, so that all ranks decide alike. */
static void find_gathered(resharder *r)
{
    const gy_graph *in = r->pass.in;
    gy_mesh last = in->mesh;
    for (int axis = 0; axis < last.axes; axis++) {
        last.coordinates[axis] = last.sizes[axis] - 1;
    }
    for (int32_t i = 0; i < in->node_count; i++) {
        const gy_graph_node *node = &in->nodes[i];
        r->leaf[i] = r->open[i] = -1;
        if (gy_memory_is_gather(in, i)) {
            r->leaf[i] = parameter_of(in, node->inputs[0]);
        } else if (is_slice(node)) {
            r->leaf[i] = r->leaf[node->inputs[0].node];
        }
        if (r->leaf[i] >= 0) {
            GY_ASSERT(r->leaf[i] < i && node->output_count == 1);
            size_t *bytes = &r->bytes[r->leaf[i]];
            *bytes = GY_MAX(*bytes, gy_local_bytes(&last, &node->types[0]));
        }
    }
    for (int32_t i = 0; i < in->node_count; i++) {
        r->total_bytes += r->bytes[i];
    }
}

/* Is the copy dropped before a use that stands so many bytes of others behind the last one? */
static bool is_dropped(const resharder *r, int32_t leaf, uint64_t between)
{
    GY_ASSERT(r->bytes[leaf] <= r->total_bytes);
    const size_t bytes = r->bytes[leaf];
    return bytes >= r->total_bytes / SMALL_PART && between > 2 * (uint64_t)bytes;
}

static void note_use(resharder *r, int32_t node, gy_value value, uint64_t *clock)
{
    const int32_t leaf = r->leaf[value.node];
    GY_ASSERT(leaf >= 0);
    int32_t at = r->open[leaf];
    if (at < 0 || is_dropped(r, leaf, *clock - r->clock[leaf])) {
        const int32_t number = at < 0 ? 0 : r->loads[at].number + 1;
        at = r->load_count++;
        r->loads[at] = (load){.leaf = leaf,
                              .first = node,
                              .first_use = -1,
                              .number = number,
                              .size_bytes = r->bytes[leaf]};
        r->open[leaf] = at;
    }
    load *l = &r->loads[at];
    const int32_t here = r->use_count++;
    r->uses[here] = (use){.node = node, .value = value, .load = at, .next = -1};
    if (l->first_use < 0) {
        l->first_use = here;
    } else {
        r->uses[l->last_use].next = here;
    }
    l->last_use = here;
    l->last = node;
    *clock += r->bytes[leaf];
    r->clock[leaf] = *clock;
}

static void find_uses(resharder *r)
{
    const gy_graph *in = r->pass.in;
    uint64_t clock = 0;
    for (int32_t i = 0; i < in->node_count; i++) {
        const gy_graph_node *node = &in->nodes[i];
        for (int k = 0; r->leaf[i] < 0 && k < node->input_count; k++) {
            if (r->leaf[node->inputs[k].node] >= 0) {
                note_use(r, i, node->inputs[k], &clock);
            }
        }
    }
    for (int32_t i = 0; i < in->root_count; i++) {
        if (r->leaf[in->roots[i].value.node] >= 0) {
            note_use(r, in->node_count, in->roots[i].value, &clock);
        }
    }
}

/* Each load one ahead of the computation, small ones up to a part of all bytes; not before the
 * last use of the copy that it follows. */
static void find_places(resharder *r)
{
    int32_t *last = r->open; /* of a parameter: its newest load of those before */
    for (int32_t i = 0; i < r->load_count; i++) {
        last[r->loads[i].leaf] = -1;
    }
    for (int32_t i = 0; i < r->load_count; i++) {
        load *l = &r->loads[i];
        size_t ahead = l->size_bytes;
        l->issue = l->first;
        for (int32_t k = i - 1; k >= 0; k--) {
            const bool is_enough = l->issue < l->first;
            ahead += r->loads[k].size_bytes;
            if (is_enough && ahead > r->total_bytes / AHEAD_PART) {
                break;
            }
            GY_ASSERT(r->loads[k].first <= l->issue);
            l->issue = r->loads[k].first;
        }
        if (last[l->leaf] >= 0) {
            l->issue = GY_MAX(l->issue, r->loads[last[l->leaf]].last + 1);
        }
        GY_ASSERT(l->issue <= l->first);
        last[l->leaf] = i;
    }
}

/* ---- the new graph ---- */

/* What a value is in the new graph: as it was copied, or copied now. */
static gy_value fetch_early(gy_pass *pass, gy_value in)
{
    gy_value out = gy_pass_get(pass, in);
    const gy_graph_node *node = gy_graph_at(pass->in, in);
    if (gy_value_is_none(out)) {
        for (int k = 0; k < node->input_count; k++) {
            (void)fetch_early(pass, node->inputs[k]);
        }
        (void)gy_pass_copy(pass, in.node);
        out = gy_pass_get(pass, in);
    }
    return out;
}

/* The gathered value for a load. */
static gy_value make(resharder *r, int32_t at, gy_value in)
{
    const gy_graph *graph = r->pass.in;
    const int32_t number = gy_graph_value(graph, in);
    if (r->made_for[number] == at) {
        return r->made[number];
    }
    const gy_graph_node *node = gy_graph_at(graph, in);
    gy_value inputs[GY_OP_INPUTS_MAX];
    char name[160];
    for (int k = 0; k < node->input_count; k++) {
        const gy_value input = node->inputs[k];
        inputs[k] =
            r->leaf[input.node] >= 0 ? make(r, at, input) : fetch_early(&r->pass, input);
    }
    snprintf(name, sizeof(name), "%s%s", node->name, r->loads[at].number > 0 ? ".again" : "");
    const gy_value out =
        gy_graph_apply_typed(r->pass.out, node->op, &node->attributes, inputs,
                             node->input_count, node->types, node->output_count, name);
    r->made[number] = out;
    r->made_for[number] = at;
    if (!gy_value_is_none(out)) {
        gy_graph_inherit(&r->pass.out->nodes[out.node], node);
    }
    return out;
}

static gy_status copy_all(resharder *r)
{
    const gy_graph *in = r->pass.in;
    int32_t next = 0;
    for (int32_t i = 0; i <= in->node_count; i++) {
        for (int32_t k = 0; k < r->load_count; k++) {
            for (int32_t u = r->loads[k].issue == i ? r->loads[k].first_use : -1; u >= 0;
                 u = r->uses[u].next) {
                (void)make(r, k, r->uses[u].value);
            }
        }
        for (; next < r->use_count && r->uses[next].node == i; next++) {
            const use *u = &r->uses[next];
            gy_pass_set(&r->pass, u->value, make(r, u->load, u->value));
        }
        const bool is_there = i == in->node_count || r->leaf[i] >= 0 ||
                              (in->nodes[i].output_count > 0 &&
                               !gy_value_is_none(gy_pass_get(&r->pass, (gy_value){i, 0})));
        if (!is_there) {
            (void)gy_pass_copy(&r->pass, i);
        }
        GY_TRY(gy_graph_status(r->pass.out));
    }
    GY_ASSERT(next == r->use_count);
    return GY_OK;
}

static gy_status reshard(resharder *r, gy_arena *arena)
{
    const gy_graph *in = r->pass.in;
    const size_t nodes = (size_t)in->node_count + 1, values = (size_t)in->value_count + 1;
    size_t uses = (size_t)in->root_count + 1;
    for (int32_t i = 0; i < in->node_count; i++) {
        uses += (size_t)in->nodes[i].input_count;
    }
    r->leaf = gy_arena_alloc(arena, nodes * sizeof(int32_t));
    r->open = gy_arena_alloc(arena, nodes * sizeof(int32_t));
    r->bytes = gy_arena_alloc(arena, nodes * sizeof(size_t));
    r->clock = gy_arena_alloc(arena, nodes * sizeof(uint64_t));
    r->uses = gy_arena_alloc(arena, uses * sizeof(use));
    r->loads = gy_arena_alloc(arena, uses * sizeof(load));
    r->made = gy_arena_alloc(arena, values * sizeof(gy_value));
    r->made_for = gy_arena_alloc(arena, values * sizeof(int32_t));
    if (r->leaf == NULL || r->open == NULL || r->bytes == NULL || r->clock == NULL ||
        r->uses == NULL || r->loads == NULL || r->made == NULL || r->made_for == NULL) {
        return GY_NOMEM;
    }
    for (int32_t i = 0; i < in->value_count; i++) {
        r->made_for[i] = -1;
    }
    find_gathered(r);
    find_uses(r);
    find_places(r);
    return copy_all(r);
}

gy_status gy_memory_reshard(const gy_graph *in, gy_graph **out)
{
    GY_ASSERT(in->is_placed);
    resharder r = {.load_count = 0};
    gy_arena arena = {0};
    GY_TRY(gy_pass_begin(&r.pass, in));
    gy_status status = reshard(&r, &arena);
    gy_arena_free(&arena);
    return gy_pass_end(&r.pass, status, out);
}
