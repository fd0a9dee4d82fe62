/* Dynamic graph refinement: refinement points, aggregation and distribution trees chosen from
 * sizes, and key ranges chosen from a sample. */
#include "flow/refine.h"

#include <stdlib.h>
#include <string.h>

/* ---- refinement points ---- */

static bool copy_ports(gy_dag *dag, gy_dag_refinement *refinement)
{
    uint32_t vertex = 0, port = 0;
    uint64_t count = 0;
    gy_part_cursor cursor =
        gy_flow_part_read(dag, &dag->parts[refinement->part], GY_PART_OUTPUTS);
    while (gy_flow_part_next_port(&cursor, &vertex, &port)) {
        count++;
    }
    refinement->ports = gy_alloc("flow.gate", (size_t)count * 2 * sizeof(*refinement->ports));
    if (refinement->ports == NULL) {
        gy_dag_fail(dag, GY_NOMEM, "out of memory");
        return false;
    }
    cursor = gy_flow_part_read(dag, &dag->parts[refinement->part], GY_PART_OUTPUTS);
    while (gy_flow_part_next_port(&cursor, &vertex, &port)) {
        if (port == UINT32_MAX) {
            char name[GY_DAG_NAME_BYTES];
            gy_dag_fail(dag, GY_ARG,
                        "%s is a refinement point: expected a fixed number of outputs",
                        gy_dag_vertex_name(dag, vertex, name));
            return false;
        }
        uint32_t *at = &refinement->ports[(size_t)refinement->port_count++ * 2];
        at[0] = vertex;
        at[1] = port;
    }
    if (count == 0) {
        gy_dag_fail(dag, GY_ARG, "a refinement point has no free outputs");
    }
    return dag->status >= 0;
}

static bool name_stages(gy_dag *dag, const char *const *stages)
{
    for (size_t i = 0; stages != NULL && stages[i] != NULL; i++) {
        uint32_t stage = 0;
        if (stages[i][0] == '\0' || strlen(stages[i]) >= GY_DAG_NAME_BYTES - 12) {
            gy_dag_fail(dag, GY_ARG, "the name of a stage has 1 to %d letters",
                        GY_DAG_NAME_BYTES - 13);
            return false;
        }
        if (!gy_dag_stage_of(dag, stages[i], &stage)) {
            return false;
        }
        dag->stages[stage].is_growth = true;
    }
    return true;
}

void gy_part_refine(gy_part part, const gy_refine_options *options)
{
    gy_dag *dag = part.dag;
    gy_refine_options known;
    if (dag == NULL || dag->status < 0) {
        return;
    }
    const gy_status taken = gy_options_take(gy_refine_options, &known, options);
    if (taken < 0) {
        gy_dag_fail(dag, taken, "%s", gy_error_text());
        return;
    }
    options = &known;
    if (gy_flow_part_get(dag, part) == NULL || options->work == NULL ||
        (options->parameter == NULL && options->parameter_bytes > 0)) {
        gy_dag_fail(dag, GY_ARG,
                    "a refinement needs a part of this graph, a function and, when it has a "
                    "size, a parameter");
        return;
    }
    gy_dag_refinement refinement = {.work = options->work,
                                    .parameter_bytes = options->parameter_bytes,
                                    .part = part.index,
                                    .stages_left = UINT32_MAX};
    if (options->parameter_bytes > 0) {
        void *copy = gy_arena_alloc(&dag->arena, options->parameter_bytes);
        if (copy == NULL) {
            gy_dag_fail(dag, GY_NOMEM, "out of memory");
            return;
        }
        refinement.parameter = memcpy(copy, options->parameter, options->parameter_bytes);
    }
    if (GY_GROW("flow.gates", dag->refinements, dag->refinement_capacity,
                dag->refinement_count + 1) < 0) {
        gy_dag_fail(dag, GY_NOMEM, "out of memory");
        return;
    }
    if (copy_ports(dag, &refinement) && name_stages(dag, options->stages)) {
        dag->refinements[dag->refinement_count++] = refinement;
    } else {
        gy_free(refinement.ports);
    }
}

gy_part gy_refinement_part(gy_dag *dag, const gy_dag_refinement *refinement)
{
    gy_part_maker maker = {.dag = dag};
    for (gy_part_list list = GY_PART_VERTICES; list < GY_PART_LISTS; list++) {
        gy_flow_part_begin_list(&maker, list);
        uint32_t last = UINT32_MAX;
        for (uint32_t i = 0; i < refinement->port_count; i++) {
            const uint32_t vertex = refinement->ports[(size_t)i * 2];
            if (vertex != last && (list == GY_PART_VERTICES || list == GY_PART_OUTPUTS)) {
                gy_flow_part_add(&maker, vertex);
            }
            last = vertex;
        }
    }
    return gy_flow_part_end(&maker);
}

int64_t gy_refinement_outputs(const gy_refinement *refinement)
{
    return refinement->row->port_count;
}

int64_t gy_refinement_bytes(const gy_refinement *refinement, int64_t output)
{
    GY_ASSERT(output >= 0 && output < refinement->row->port_count);
    return refinement->bytes[output];
}

const void *gy_refinement_sample(const gy_refinement *refinement, int64_t output,
                                 size_t *size_bytes)
{
    GY_ASSERT(output >= 0 && output < refinement->row->port_count);
    *size_bytes = refinement->samples[output].size_bytes;
    return refinement->samples[output].data;
}

const void *gy_refinement_parameter(const gy_refinement *refinement, size_t *size_bytes)
{
    *size_bytes = refinement->row->parameter_bytes;
    return refinement->row->parameter;
}

int gy_refinement_processes(const gy_refinement *refinement)
{
    return refinement->processes;
}

/* ---- shapes from sizes ---- */

uint32_t gy_flow_shape_groups(const int64_t *bytes, uint32_t count, int64_t bytes_max,
                              uint32_t count_min, uint32_t *group)
{
    uint32_t groups = 0, members = 0;
    int64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        const int64_t size = bytes != NULL ? bytes[i] : 0;
        if (i == 0 || (members >= count_min && size > bytes_max - sum)) {
            groups++;
            members = 0;
            sum = 0;
        }
        members++;
        sum = size > INT64_MAX - sum ? INT64_MAX : sum + size;
        group[i] = groups - 1;
    }
    return groups;
}

uint32_t gy_flow_shape_tree(const int64_t *bytes, uint32_t count, int64_t bytes_max,
                            uint32_t *parent)
{
    GY_ASSERT(count >= 1);
    uint32_t level = gy_flow_shape_groups(bytes, count, bytes_max, 2, parent);
    const uint32_t fan = GY_MAX((count + level - 1) / level, 2u);
    for (uint32_t i = 0; i < count; i++) {
        parent[i] += count;
    }
    uint32_t first = count;
    while (level > 1) {
        const uint32_t next = (level + fan - 1) / fan;
        for (uint32_t i = 0; i < level; i++) {
            parent[first + i] = first + level + i / fan;
        }
        first += level;
        level = next;
    }
    parent[first] = UINT32_MAX; /* the root */
    return first + 1;
}

/* ---- vertices of a tree ---- */

/* Add `count` clones of `options`; returns the first vertex. */
static bool make_vertices(gy_dag *dag, const gy_vertex_options *options, uint32_t count,
                          gy_part *part, uint32_t *first)
{
    *first = (uint32_t)dag->vertex_count;
    *part = gy_dag_vertex(dag, options);
    if (count > 1) {
        *part = gy_part_clone(*part, (int)count);
    }
    return dag->status >= 0;
}

static bool check_shape(gy_refinement *refinement, gy_part outputs,
                        const gy_vertex_options *options, int64_t bytes, bool is_tree)
{
    gy_dag *dag = outputs.dag;
    if (dag->status >= 0 &&
        (options->inputs != GY_PORTS_ANY || (is_tree && options->outputs != 1) || bytes < 1 ||
         gy_flow_part_get(dag, outputs) == NULL ||
         refinement->row->port_count > INT32_MAX / 2)) {
        gy_dag_fail(dag, GY_ARG,
                    "%s: expected the refinement point's part, inputs GY_PORTS_ANY%s and at "
                    "least 1 byte a "
                    "vertex",
                    is_tree ? "gy_refinement_aggregate" : "gy_refinement_repartition",
                    is_tree ? ", one output" : "");
    }
    return dag->status >= 0;
}

gy_part gy_refinement_aggregate(gy_refinement *refinement, gy_part outputs,
                                const gy_vertex_options *combiner, int64_t bytes_per_vertex)
{
    gy_dag *dag = outputs.dag;
    const gy_part none = {dag, -1};
    if (!check_shape(refinement, outputs, combiner, bytes_per_vertex, true)) {
        return none;
    }
    const uint32_t leaves = refinement->row->port_count;
    uint32_t *parent =
        gy_alloc("flow.tree", (2 * (size_t)leaves + GY_TREE_LEVELS) * sizeof(*parent));
    if (parent == NULL) {
        gy_dag_fail(dag, GY_NOMEM, "out of memory");
        return none;
    }
    const uint32_t nodes =
        gy_flow_shape_tree(refinement->bytes, leaves, bytes_per_vertex, parent);
    gy_part made = none;
    uint32_t first = 0;
    if (make_vertices(dag, combiner, nodes - leaves, &made, &first)) {
        for (uint32_t i = 0; i + 1 < nodes; i++) {
            const uint32_t *port = &refinement->row->ports[(size_t)GY_MIN(i, leaves - 1) * 2];
            const uint32_t from[2] = {i < leaves ? port[0] : first + i - leaves,
                                      i < leaves ? port[1] : 0};
            gy_dag_join(dag, from, (uint32_t[]){first + parent[i] - leaves, UINT32_MAX},
                        GY_CHANNEL_FILE);
        }
    }
    gy_free(parent);
    gy_part_maker maker = {.dag = dag}; /* only the root has a free output */
    for (gy_part_list list = GY_PART_VERTICES; list < GY_PART_LISTS; list++) {
        gy_flow_part_begin_list(&maker, list);
        if (list == GY_PART_VERTICES || list == GY_PART_OUTPUTS) {
            gy_flow_part_add(&maker, first + nodes - leaves - 1);
        }
    }
    return gy_flow_part_end(&maker);
}

gy_part gy_refinement_repartition(gy_refinement *refinement, gy_part outputs,
                                  const gy_vertex_options *consumer, int64_t bytes_per_vertex)
{
    gy_dag *dag = outputs.dag;
    gy_part made = {dag, -1};
    if (!check_shape(refinement, outputs, consumer, bytes_per_vertex, false)) {
        return made;
    }
    const uint32_t count = refinement->row->port_count;
    uint32_t *group = gy_alloc("flow.spread", count * sizeof(*group));
    if (group == NULL) {
        gy_dag_fail(dag, GY_NOMEM, "out of memory");
        return made;
    }
    const uint32_t groups =
        gy_flow_shape_groups(refinement->bytes, count, bytes_per_vertex, 1, group);
    uint32_t first = 0;
    if (make_vertices(dag, consumer, groups, &made, &first)) {
        for (uint32_t i = 0; i < count; i++) {
            gy_dag_join(dag, &refinement->row->ports[(size_t)i * 2],
                        (uint32_t[]){first + group[i], UINT32_MAX}, GY_CHANNEL_FILE);
        }
    }
    gy_free(group);
    return made;
}

/* ---- a tree as a part ---- */

typedef struct gy_tree_parameter {
    uint32_t proto;
    int64_t bytes;
    char name[64];
} gy_tree_parameter;

static void grow_tree(gy_refinement *refinement, gy_dag *dag, gy_part outputs)
{
    gy_tree_parameter tree;
    memcpy(&tree, refinement->row->parameter, sizeof(tree));
    const gy_proto *proto = &dag->protos[tree.proto];
    const gy_vertex_options combiner = {.function = proto->function,
                                        .stage = dag->stages[proto->stage].name,
                                        .parameter = proto->parameter,
                                        .parameter_bytes = proto->parameter_bytes,
                                        .inputs = proto->inputs,
                                        .outputs = proto->outputs,
                                        .determinism = (gy_determinism)proto->determinism,
                                        .memory_bytes = proto->memory_bytes,
                                        .output_bytes = proto->output_bytes,
                                        .files = proto->files,
                                        .preferred_hosts = proto->preferred_hosts,
                                        .command = proto->command,
                                        .ranks = proto->ranks,
                                        .hosts = proto->hosts};
    gy_part_output(gy_refinement_aggregate(refinement, outputs, &combiner, tree.bytes),
                   tree.name);
}

void gy_part_aggregate(gy_part part, const gy_vertex_options *combiner,
                       int64_t bytes_per_vertex, const char *name)
{
    gy_dag *dag = part.dag;
    if (dag == NULL || dag->status < 0) {
        return;
    }
    gy_tree_parameter tree = {.bytes = bytes_per_vertex};
    if (name == NULL || strlen(name) >= sizeof(tree.name)) {
        gy_dag_fail(dag, GY_ARG,
                    "the name of an aggregation tree's output: expected up to 63 letters");
        return;
    }
    memcpy(tree.name, name, strlen(name) + 1);
    if (!gy_dag_add_proto(dag, combiner)) {
        return;
    }
    tree.proto = (uint32_t)dag->proto_count - 1;
    const char *stages[] = {dag->stages[dag->protos[tree.proto].stage].name, NULL};
    gy_part_refine(part, &(gy_refine_options){.work = grow_tree,
                                              .parameter = &tree,
                                              .parameter_bytes = sizeof(tree),
                                              .stages = stages});
}

/* ---- key ranges ---- */

static int compare_keys(const void *left, const void *right)
{
    const gy_sample_key *a = left, *b = right;
    const size_t both = GY_MIN(a->key_bytes, b->key_bytes);
    const int order = both > 0 ? memcmp(a->key, b->key, both) : 0;
    if (order != 0) {
        return order;
    }
    return (a->key_bytes > b->key_bytes) - (a->key_bytes < b->key_bytes);
}

/* Sort the keys and merge equal ones; returns how many remain. */
static int64_t join_equal(gy_sample_key *keys, int64_t count)
{
    if (count == 0) {
        return 0;
    }
    qsort(keys, (size_t)count, sizeof(*keys), compare_keys);
    int64_t last = 0;
    for (int64_t i = 1; i < count; i++) {
        if (compare_keys(&keys[last], &keys[i]) == 0) {
            keys[last].weight += keys[i].weight;
        } else {
            keys[++last] = keys[i];
        }
    }
    return last + 1;
}

int gy_plan_key_ranges(gy_sample_key *keys, int64_t count, int ranges, gy_key_range *out)
{
    GY_ASSERT(ranges >= 1 && count >= 0);
    const int64_t distinct = join_equal(keys, count);
    int64_t total = 0;
    for (int64_t i = 0; i < distinct; i++) {
        total += keys[i].weight;
    }
    const int64_t fair = GY_MAX((total + ranges - 1) / ranges, 1);
    int at = 0;
    int64_t left = total, share = fair; /* share: target weight of the current range */
    out[0] = (gy_key_range){.shares = 1};
    for (int64_t i = 0; i < distinct; i++) {
        const int64_t weight = keys[i].weight;
        const int ways = gy_key_ways(weight, fair);
        const bool is_heavy = ways > 1;
        const bool was_heavy = out[at].shares > 1;
        gy_key_range *range = &out[at];
        /* close the range before this key when adding the key would overshoot the target by
         * more than leaving it out falls short */
        const bool is_full =
            range->weight > 0 && range->weight + weight - share > share - range->weight;
        if (range->weight > 0 && at + 1 < ranges && (is_heavy || was_heavy || is_full)) {
            left -= range->weight;
            range = &out[++at];
            share = GY_MAX(left / (ranges - at), 1);
            *range = (gy_key_range){
                .first = keys[i].key, .first_bytes = keys[i].key_bytes, .shares = 1};
        }
        range->shares = range->weight == 0 ? ways : 1;
        range->weight += weight;
    }
    return at + 1;
}
