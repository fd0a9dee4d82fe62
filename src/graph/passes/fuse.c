/*
 * Element-wise chains and trees, and the reductions of what they make, become `fused` nodes:
 * one pass over cache-sized tiles instead of one over memory for each operator.
 *
 * Every node that tiles can run begins as a group of its own. Groups are joined with those that
 * make their inputs, then with those that read the same large input, as long as the union has
 * one shape, one last collective before it (nothing that is ready waits for a peer, and no
 * collective comes to depend on one with a larger number), no path out of it and back, and a
 * kernel that runs it. That kernel sees this rank's sizes: of unequal parts one may be fused
 * and another not, but what is whole on all ranks is fused alike, and collectives have their
 * numbers.
 */
#include "graph/graph.h"

#include <string.h>

enum { MEMBERS_MAX = 32 + GY_OP_OUTPUTS_MAX, NEAR_READERS = 32 };

/* Nodes that shall be one, in order. */
typedef struct group {
    int32_t members[MEMBERS_MAX];
    int count;
} group;

typedef struct fusion {
    gy_pass pass;
    group *groups;      /* [node]: of which it is the first member */
    int32_t *group_of;  /* node -> index in `groups`; -1: never fused */
    int32_t *stage;     /* node -> 1 + number of the last collective before it; 0: none */
    int32_t *uses;      /* value number -> readers and roots */
    int32_t *readers;   /* nodes that read each node, one behind another */
    int32_t *reader_at; /* node -> where its readers begin */
    int32_t *visited;   /* node -> mark of the last search that saw it */
    int32_t *stack;
    int32_t
        *reach; /* node -> the last node that its group, or one of a node before it, holds */
    bool *is_emitted;
    int32_t mark;
} fusion;

/* A group as the row sees it. */
typedef struct candidate {
    gy_fused program;
    gy_value inputs[GY_OP_INPUTS_MAX]; /* of `in` */
    gy_value outputs[GY_OP_OUTPUTS_MAX];
} candidate;

/* Dropout draws by the place of an element in the whole value: here where all of it is. */
static bool is_step(const gy_graph *graph, const gy_graph_node *node)
{
    if (node->op == &gy_ops_row_dropout) {
        bool is_alone = true;
        for (int axis = 0; axis < graph->mesh.axes; axis++) {
            is_alone = is_alone && graph->mesh.sizes[axis] == 1;
        }
        return is_alone;
    }
    return (node->op->flags & GY_OP_ELEMENTWISE) != 0 && node->input_count >= 1 &&
           node->input_count <= 3;
}

static bool is_reduction(const gy_graph_node *node)
{
    return ((node->op->flags & GY_OP_REDUCTION) != 0 || node->op == &gy_ops_row_mean) &&
           node->input_count == 1;
}

/* What a tile of the node's group covers: its result, or what it reduces. */
static const gy_type *common_type(const gy_graph *graph, const gy_graph_node *node)
{
    GY_ASSERT(is_step(graph, node) || is_reduction(node));
    return is_step(graph, node) ? &node->types[0] : gy_graph_type(graph, node->inputs[0]);
}

/* The same part of the same sizes on every rank, in the same format. */
static bool is_same_part(const gy_graph *graph, const gy_type *a, const gy_type *b)
{
    GY_ASSERT(a->rank >= 0 && a->rank <= GY_TENSOR_RANK_MAX);
    if (a->rank != b->rank || a->format != b->format ||
        memcmp(a->sizes, b->sizes, (size_t)a->rank * sizeof(a->sizes[0])) != 0) {
        return false;
    }
    for (int axis = 0; axis < graph->mesh.axes; axis++) {
        const gy_placement *p = &a->placement[axis], *q = &b->placement[axis];
        bool is_cut = p->kind == GY_SHARD, also = q->kind == GY_SHARD;
        if (is_cut != also || (is_cut && p->dim != q->dim)) {
            return false;
        }
    }
    return true;
}

/* Programs repeat their inputs by themselves. */
static gy_value before_broadcast(const gy_graph *graph, gy_value value)
{
    while (gy_graph_at(graph, value)->op == &gy_ops_row_broadcast_to) {
        GY_ASSERT(gy_graph_at(graph, value)->input_count == 1);
        value = gy_graph_at(graph, value)->inputs[0];
    }
    return value;
}

/* ---- the program of a group ---- */

static int member_index(const group *g, int32_t node)
{
    GY_ASSERT(g->count >= 1 && g->count <= MEMBERS_MAX);
    for (int i = 0; i < g->count; i++) {
        if (g->members[i] == node) {
            return i;
        }
    }
    return -1;
}

static int input_register(const candidate *c, gy_value value)
{
    GY_ASSERT(c->program.input_count <= GY_OP_INPUTS_MAX);
    for (int i = 0; i < c->program.input_count; i++) {
        if (gy_value_is(c->inputs[i], value)) {
            return i;
        }
    }
    return -1;
}

static bool collect_inputs(const gy_graph *in, const group *g, candidate *c)
{
    GY_ASSERT(c->program.input_count == 0);
    for (int m = 0; m < g->count; m++) {
        const gy_graph_node *node = &in->nodes[g->members[m]];
        for (int k = 0; k < node->input_count; k++) {
            int maker = member_index(g, node->inputs[k].node);
            gy_value value = before_broadcast(in, node->inputs[k]);
            if (maker >= 0) {
                if (!is_step(in, &in->nodes[g->members[maker]])) {
                    return false; /* a reduction is there when all tiles are done */
                }
            } else if (member_index(g, value.node) >= 0) {
                return false; /* repeated before it is read: not element by element */
            } else if (input_register(c, value) < 0) {
                if (c->program.input_count == GY_OP_INPUTS_MAX) {
                    return false;
                }
                c->inputs[c->program.input_count++] = value;
            }
        }
    }
    return true;
}

static bool add_output(candidate *c, gy_value value, gy_fused_output output)
{
    GY_ASSERT(output.register_index >= 0);
    if (c->program.output_count == GY_OP_OUTPUTS_MAX) {
        return false;
    }
    c->outputs[c->program.output_count] = value;
    c->program.outputs[c->program.output_count++] = output;
    return true;
}

/* Is the result of member m read by anything but members? */
static bool is_read_outside(const fusion *f, const group *g, int m)
{
    GY_ASSERT(m >= 0 && m < g->count);
    const gy_graph *in = f->pass.in;
    const gy_value value = {g->members[m], 0};
    int32_t inside = 0;
    for (int i = m + 1; i < g->count; i++) {
        const gy_graph_node *node = &in->nodes[g->members[i]];
        for (int k = 0; k < node->input_count; k++) {
            inside += gy_value_is(node->inputs[k], value) ? 1 : 0;
        }
    }
    return f->uses[gy_graph_value(in, value)] > inside;
}

/* A program's sizes are of this rank's part: it is told what a mean divides by. */
static double mean_count(const gy_graph *in, const gy_graph_node *node)
{
    GY_ASSERT(is_reduction(node));
    const gy_type *type = gy_graph_type(in, node->inputs[0]);
    const uint32_t axes = gy_reduce_axes(node->attributes.reduce.axes, type->rank);
    double count = 1;
    for (int dim = 0; dim < type->rank; dim++) {
        count *= (axes >> dim & 1) != 0 ? (double)type->sizes[dim] : 1;
    }
    return node->op == &gy_ops_row_mean ? count : 0;
}

static bool add_members(const fusion *f, const group *g, candidate *c)
{
    GY_ASSERT(g->count <= MEMBERS_MAX);
    const gy_graph *in = f->pass.in;
    int16_t registers[MEMBERS_MAX] = {0};
    for (int m = 0; m < g->count; m++) {
        const gy_graph_node *node = &in->nodes[g->members[m]];
        int16_t from[3] = {0};
        for (int k = 0; k < node->input_count; k++) {
            int maker = member_index(g, node->inputs[k].node);
            int found = maker >= 0 ? registers[maker]
                                   : input_register(c, before_broadcast(in, node->inputs[k]));
            GY_ASSERT(found >= 0);
            from[k] = (int16_t)found;
        }
        gy_value value = {g->members[m], 0};
        if (!is_step(in, node)) {
            const gy_fused_output output = {.register_index = from[0],
                                            .reduction = node->op,
                                            .axes = node->attributes.reduce.axes,
                                            .keep = node->attributes.reduce.keep,
                                            .count = mean_count(in, node)};
            if (!add_output(c, value, output)) {
                return false;
            }
            continue;
        }
        if (c->program.step_count == (int)GY_COUNT(c->program.steps)) {
            return false;
        }
        gy_fused_step *step = &c->program.steps[c->program.step_count];
        *step = (gy_fused_step){.op = node->op, .attributes = node->attributes};
        memcpy(step->inputs, from, sizeof(from));
        registers[m] = (int16_t)(c->program.input_count + c->program.step_count++);
        if (is_read_outside(f, g, m) &&
            !add_output(c, value, (gy_fused_output){.register_index = registers[m]})) {
            return false;
        }
    }
    return c->program.output_count > 0;
}

static bool make_program(const fusion *f, const group *g, candidate *c)
{
    GY_ASSERT(g->count > 0);
    GY_ASSERT(g->count <= MEMBERS_MAX);
    const gy_graph *in = f->pass.in;
    const gy_type *common = common_type(in, &in->nodes[g->members[0]]);
    int64_t sizes[GY_TENSOR_RANK_MAX], offsets[GY_TENSOR_RANK_MAX];
    memset(c, 0, sizeof(*c));
    gy_local_part(&in->mesh, common, sizes, offsets);
    c->program.rank = common->rank;
    memcpy(c->program.sizes, sizes, (size_t)common->rank * sizeof(sizes[0]));
    return collect_inputs(in, g, c) && add_members(f, g, c);
}

static bool has_kernel(const gy_graph *in, const candidate *c)
{
    GY_ASSERT(c->program.output_count >= 1);
    gy_view inputs[GY_OP_INPUTS_MAX], outputs[GY_OP_OUTPUTS_MAX];
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.fused.program = &c->program;
    for (int i = 0; i < c->program.input_count; i++) {
        inputs[i] = gy_local_view(&in->mesh, gy_graph_type(in, c->inputs[i]), NULL);
    }
    for (int o = 0; o < c->program.output_count; o++) {
        outputs[o] = gy_local_view(&in->mesh, gy_graph_type(in, c->outputs[o]), NULL);
    }
    const gy_kernel_query query = {.op = &gy_ops_row_fused,
                                   .attributes = &attributes,
                                   .inputs = inputs,
                                   .input_count = c->program.input_count,
                                   .outputs = outputs,
                                   .output_count = c->program.output_count,
                                   .workers = 1};
    return gy_kernel_choose(&query) != NULL;
}

/* ---- joining ---- */

/* Put a node on the stack, unless it was there. */
static void visit(fusion *f, int32_t node, int *depth)
{
    if (f->visited[node] != f->mark) {
        f->visited[node] = f->mark;
        GY_ASSERT(*depth < f->pass.in->node_count);
        f->stack[(*depth)++] = node;
    }
}

/* The last node that `at` may depend on through groups, or one that is not before `limit`. */
static int32_t last_reached(const fusion *f, int32_t at, int32_t limit)
{
    GY_ASSERT(f->reach[at] >= at);
    int32_t last = f->reach[at];
    while (last < limit && f->reach[last] > last) {
        last = f->reach[last];
    }
    return last;
}

/*
 * Does anything that the members read from outside depend on a member? Groups count as one. A
 * node whose reach ends before the first member depends on none, so the search stays near the
 * group.
 */
static bool comes_back(fusion *f, const group *g)
{
    GY_ASSERT(f->mark < INT32_MAX);
    const gy_graph *in = f->pass.in;
    int depth = 0;
    f->mark++;
    for (int m = 0; m < g->count; m++) {
        const gy_graph_node *node = &in->nodes[g->members[m]];
        for (int k = 0; k < node->input_count; k++) {
            if (member_index(g, node->inputs[k].node) < 0) {
                visit(f, node->inputs[k].node, &depth);
            }
        }
    }
    while (depth > 0) {
        GY_ASSERT(depth <= f->pass.in->node_count);
        int32_t at = f->stack[--depth];
        if (member_index(g, at) >= 0) {
            return true;
        }
        if (last_reached(f, at, g->members[0]) < g->members[0]) {
            continue;
        }
        const gy_graph_node *node = &in->nodes[at];
        for (int k = 0; k < node->input_count; k++) {
            visit(f, node->inputs[k].node, &depth);
        }
        const group *own = f->group_of[at] >= 0 ? &f->groups[f->group_of[at]] : NULL;
        for (int m = 0; own != NULL && m < own->count; m++) {
            visit(f, own->members[m], &depth);
        }
    }
    return false;
}

static bool unite(const group *a, const group *b, group *both)
{
    GY_ASSERT(a->count >= 1 && b->count >= 1);
    if (a->count + b->count > MEMBERS_MAX) {
        return false;
    }
    int i = 0, j = 0;
    both->count = 0;
    while (i < a->count || j < b->count) {
        bool first = j == b->count || (i < a->count && a->members[i] < b->members[j]);
        both->members[both->count++] = first ? a->members[i++] : b->members[j++];
    }
    GY_ASSERT(both->count == a->count + b->count);
    return true;
}

/* A copy that is made for the way back waits for it: with a node of the forward pass it would
 * be made there. */
static bool is_of_one_time(const gy_graph *in, const group *both)
{
    const gy_stage_mark *found = NULL;
    GY_ASSERT(both->count >= 2);
    for (int m = 0; m < both->count; m++) {
        const gy_stage_mark *mark = &in->nodes[both->members[m]].mark;
        if (mark->chunk == 0) {
            continue;
        }
        if (found != NULL && (found->is_again != mark->is_again ||
                              (mark->is_again && found->chunk != mark->chunk))) {
            return false;
        }
        found = mark;
    }
    return true;
}

/* Join the groups of two nodes if they may be one. */
static void join(fusion *f, int32_t node, int32_t other)
{
    GY_ASSERT(f->group_of[node] >= 0);
    const gy_graph *in = f->pass.in;
    int32_t a = f->group_of[node], b = f->group_of[other];
    if (b < 0 || a == b || f->stage[node] != f->stage[other] ||
        !is_same_part(in, common_type(in, &in->nodes[node]),
                      common_type(in, &in->nodes[other]))) {
        return;
    }
    group both;
    candidate c;
    if (!unite(&f->groups[a], &f->groups[b], &both) || !is_of_one_time(in, &both) ||
        !make_program(f, &both, &c) || !has_kernel(in, &c) || comes_back(f, &both)) {
        return;
    }
    int32_t to = both.members[0];
    GY_ASSERT(to <= node && to <= other);
    f->groups[to] = both;
    for (int m = 0; m < both.count; m++) {
        f->group_of[both.members[m]] = to;
    }
    for (int32_t last = both.members[both.count - 1], i = to; f->reach[i] < last; i++) {
        f->reach[i] = last;
    }
}

/* Nodes that tiles can run on parameters alone. */
static bool reads_parameters(const fusion *f, int32_t index)
{
    const gy_graph *in = f->pass.in;
    const gy_graph_node *node = &in->nodes[index];
    bool is_cheap = f->group_of[index] >= 0;
    for (int k = 0; k < node->input_count && is_cheap; k++) {
        const int32_t maker = node->inputs[k].node;
        GY_ASSERT(maker < index);
        is_cheap = in->nodes[maker].op == &gy_ops_row_parameter ||
                   in->nodes[maker].op == &gy_ops_row_fill || f->visited[maker] != 0;
    }
    return is_cheap;
}

/*
 * What reads parameters alone could run before any collective, and its results would be stored
 * until then: what an update makes of old state, twice the parameters' bytes. It waits with its
 * users instead.
 */
static void delay(fusion *f, int32_t *latest)
{
    const gy_graph *in = f->pass.in;
    for (int32_t i = 0; i < in->node_count; i++) {
        f->visited[i] = reads_parameters(f, i) ? 1 : 0;
        latest[i] = INT32_MAX;
    }
    for (int32_t i = 0; i < in->root_count; i++) {
        latest[in->roots[i].value.node] = 0;
    }
    for (int32_t i = in->node_count - 1; i >= 0; i--) {
        const gy_graph_node *node = &in->nodes[i];
        const bool is_exchange = (node->op->flags & GY_OP_COLLECTIVE) != 0;
        if (f->visited[i] != 0 && latest[i] != INT32_MAX) {
            f->stage[i] = GY_MAX(f->stage[i], latest[i]);
        }
        for (int k = 0; k < node->input_count; k++) {
            int32_t *maker = &latest[node->inputs[k].node];
            *maker = GY_MIN(*maker, is_exchange ? 0 : f->stage[i]);
        }
    }
    memset(f->visited, 0, (size_t)in->node_count * sizeof(*f->visited));
}

/* The last collective before each node; nodes that tiles can run are groups of their own. */
static void begin_groups(fusion *f)
{
    const gy_graph *in = f->pass.in;
    for (int32_t i = 0; i < in->node_count; i++) {
        const gy_graph_node *node = &in->nodes[i];
        bool is_fusable = node->output_count == 1 && (is_step(in, node) || is_reduction(node));
        for (int k = 0; k < node->input_count; k++) {
            GY_ASSERT(node->inputs[k].node < i);
            f->stage[i] = GY_MAX(f->stage[i], f->stage[node->inputs[k].node]);
        }
        if ((node->op->flags & GY_OP_COLLECTIVE) != 0) { /* -2 - number, or not numbered yet */
            f->stage[i] = node->origin <= -2 ? -1 - node->origin : i + 1;
        }
        GY_ASSERT(f->stage[i] >= 0);
        f->group_of[i] = is_fusable ? i : -1;
        f->groups[i] = (group){.members = {i}, .count = 1};
        f->reach[i] = i;
    }
    delay(f, f->stack);
}

/* The first of the readers from `from` to `end`, the last node first, that is before `index`.
 */
static int32_t reader_before(const fusion *f, int32_t from, int32_t end, int32_t index)
{
    GY_ASSERT(from >= 0 && from <= end);
    while (from < end) {
        int32_t middle = from + (end - from) / 2;
        if (f->readers[middle] >= index) {
            from = middle + 1;
        } else {
            end = middle;
        }
    }
    GY_ASSERT(from == end);
    return from;
}

/* Others that read the same large value; those far away have left the cache, and could be many.
 */
static void join_readers(fusion *f, int32_t index)
{
    GY_ASSERT(index >= 0 && index < f->pass.in->node_count);
    const gy_graph *in = f->pass.in;
    const gy_graph_node *node = &in->nodes[index];
    const gy_type *common = common_type(in, node);
    for (int k = 0; k < node->input_count && common->rank > 0; k++) {
        int32_t maker = node->inputs[k].node;
        bool is_large = is_same_part(in, gy_graph_type(in, node->inputs[k]), common);
        int32_t end = f->reader_at[maker + 1];
        GY_ASSERT(f->reader_at[maker] <= end);
        int32_t from = reader_before(f, f->reader_at[maker], end, index);
        end = GY_MIN(end, from + NEAR_READERS);
        for (int32_t r = from; is_large && r < end; r++) {
            join(f, index, f->readers[r]);
        }
    }
}

/*
 * From the last node on, so that a node joins those that need it before those that it needs:
 * what a gradient makes of a value of the forward pass is not stored until then.
 */
static void find_groups(fusion *f)
{
    const gy_graph *in = f->pass.in;
    begin_groups(f);
    for (int32_t i = in->node_count - 1; i >= 0; i--) {
        for (int k = 0; f->group_of[i] >= 0 && k < in->nodes[i].input_count; k++) {
            join(f, i, in->nodes[i].inputs[k].node);
        }
    }
    for (int32_t i = 0; i < in->node_count; i++) {
        if (f->group_of[i] >= 0) {
            join_readers(f, i);
        }
    }
}

/* ---- the new graph ---- */

static gy_value get_input(fusion *f, gy_value in)
{
    gy_graph *out = f->pass.out;
    gy_value value = gy_pass_get(&f->pass, in);
    GY_ASSERT(!gy_value_is_none(value));
    const gy_graph_node *node = gy_graph_at(out, value);
    if (node->op != &gy_ops_row_fill || node->types[0].rank == 0) {
        return value;
    }
    gy_attributes attributes = node->attributes; /* one element is enough */
    gy_type type = node->types[0];
    attributes.shape.rank = 0;
    memset(attributes.shape.sizes, 0, sizeof(attributes.shape.sizes));
    memset(type.placement, 0, sizeof(type.placement));
    memset(type.sizes, 0, sizeof(type.sizes));
    type.rank = 0;
    return gy_graph_apply_typed(out, &gy_ops_row_fill, &attributes, NULL, 0, &type, 1, NULL);
}

static gy_status emit_group(fusion *f, const group *g)
{
    GY_ASSERT(g->count > 1);
    const gy_graph *in = f->pass.in;
    candidate c;
    bool is_sound = make_program(f, g, &c);
    GY_ASSERT(is_sound);
    GY_ASSERT(c.program.output_count >= 1 && c.program.output_count <= GY_OP_OUTPUTS_MAX);
    gy_value inputs[GY_OP_INPUTS_MAX];
    gy_type types[GY_OP_OUTPUTS_MAX];
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.fused.program = &c.program;
    for (int i = 0; i < c.program.input_count; i++) {
        inputs[i] = get_input(f, c.inputs[i]);
    }
    for (int o = 0; o < c.program.output_count; o++) {
        types[o] = *gy_graph_type(in, c.outputs[o]);
    }
    gy_value value = gy_graph_apply_typed(f->pass.out, &gy_ops_row_fused, &attributes, inputs,
                                          c.program.input_count, types, c.program.output_count,
                                          in->nodes[g->members[g->count - 1]].name);
    GY_TRY(gy_graph_status(f->pass.out));
    for (int m = 0; m < g->count; m++) {
        f->pass.out->nodes[value.node].mark.is_again |= in->nodes[g->members[m]].mark.is_again;
    }
    for (int o = 0; o < c.program.output_count; o++) {
        gy_pass_set(&f->pass, c.outputs[o], (gy_value){value.node, o});
    }
    return GY_OK;
}

static gy_status emit(fusion *f, int32_t index);

static gy_status emit_inputs(fusion *f, const gy_graph_node *node, const group *g)
{
    for (int k = 0; k < node->input_count; k++) {
        int32_t maker = node->inputs[k].node;
        if (g == NULL || member_index(g, maker) < 0) {
            GY_TRY(emit(f, maker));
        }
    }
    return GY_OK;
}

/* A node, or the whole group that it is in, behind all that it reads. */
static gy_status emit(fusion *f, int32_t index)
{
    GY_ASSERT(index >= 0 && index < f->pass.in->node_count);
    const gy_graph *in = f->pass.in;
    if (f->is_emitted[index]) {
        return GY_OK;
    }
    const group *g = f->group_of[index] >= 0 ? &f->groups[f->group_of[index]] : NULL;
    if (g == NULL || g->count == 1) {
        f->is_emitted[index] = true;
        GY_TRY(emit_inputs(f, &in->nodes[index], NULL));
        gy_pass_copy(&f->pass, index);
        return gy_graph_status(f->pass.out);
    }
    for (int m = 0; m < g->count; m++) {
        f->is_emitted[g->members[m]] = true;
    }
    for (int m = 0; m < g->count; m++) {
        GY_TRY(emit_inputs(f, &in->nodes[g->members[m]], g));
    }
    return emit_group(f, g);
}

static gy_status emit_all(fusion *f)
{
    const gy_graph *in = f->pass.in;
    for (int32_t i = 0; i < in->node_count; i++) {
        const group *g = f->group_of[i] >= 0 ? &f->groups[f->group_of[i]] : NULL;
        if (g == NULL || g->members[g->count - 1] == i) { /* a group when its last one is due */
            GY_TRY(emit(f, i));
        }
    }
    return GY_OK;
}

static void list_readers(fusion *f)
{
    const gy_graph *in = f->pass.in;
    int32_t total = 0;
    for (int turn = 0; turn < 2; turn++) { /* count, then fill in from the back */
        for (int32_t i = 0; i < in->node_count; i++) {
            const gy_graph_node *node = &in->nodes[i];
            for (int k = 0; k < node->input_count; k++) {
                if (turn == 0) {
                    f->reader_at[node->inputs[k].node]++;
                } else {
                    f->readers[--f->reader_at[node->inputs[k].node]] = i;
                }
            }
        }
        for (int32_t i = 0; turn == 0 && i <= in->node_count; i++) {
            total += f->reader_at[i];
            f->reader_at[i] = total;
        }
    }
    GY_ASSERT(f->reader_at[0] == 0 && f->reader_at[in->node_count] == total);
}

static gy_status fuse(fusion *f, gy_arena *arena)
{
    GY_ASSERT(f->mark == 0);
    const gy_graph *in = f->pass.in;
    const size_t nodes = (size_t)in->node_count + 1;
    size_t edges = 1;
    for (int32_t i = 0; i < in->node_count; i++) {
        edges += (size_t)in->nodes[i].input_count;
    }
    f->groups = gy_arena_alloc(arena, nodes * sizeof(*f->groups));
    f->group_of = gy_arena_alloc(arena, nodes * sizeof(int32_t));
    f->stage = gy_arena_alloc(arena, nodes * sizeof(int32_t));
    f->uses = gy_arena_alloc(arena, ((size_t)in->value_count + 1) * sizeof(int32_t));
    f->readers = gy_arena_alloc(arena, edges * sizeof(int32_t));
    f->reader_at = gy_arena_alloc(arena, (nodes + 1) * sizeof(int32_t));
    f->visited = gy_arena_alloc(arena, nodes * sizeof(int32_t));
    f->stack = gy_arena_alloc(arena, nodes * sizeof(int32_t));
    f->reach = gy_arena_alloc(arena, nodes * sizeof(int32_t));
    f->is_emitted = gy_arena_alloc(arena, nodes * sizeof(bool));
    if (f->groups == NULL || f->group_of == NULL || f->stage == NULL || f->uses == NULL ||
        f->readers == NULL || f->reader_at == NULL || f->visited == NULL || f->stack == NULL ||
        f->reach == NULL || f->is_emitted == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < nodes; i++) {
        f->group_of[i] = -1;
    }
    gy_graph_count_uses(in, f->uses);
    list_readers(f);
    find_groups(f);
    return emit_all(f);
}

gy_status gy_fuse(const gy_graph *in, gy_graph **out)
{
    GY_ASSERT(in->batch > 0 && in->mesh.axes > 0);
    fusion f = {.mark = 0};
    gy_arena arena = {0};
    gy_graph *whole = NULL;
    GY_TRY(gy_pass_begin(&f.pass, in));
    gy_status status = fuse(&f, &arena);
    gy_arena_free(&arena);
    GY_TRY(gy_pass_end(&f.pass, status, &whole));
    status = gy_rewrite_dead(whole, out); /* what programs repeat by themselves */
    GY_ASSERT(status < 0 || (*out)->root_count == in->root_count);
    gy_graph_free(whole);
    return status;
}
