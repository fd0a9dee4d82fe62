/* Vertices, stages, errors. */
#include "flow/dag.h"

#include "driver/gang.h"
#include "flow/flow.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void gy_dag_fail(gy_dag *dag, gy_status status, const char *format, ...)
{
    if (dag->status < 0) {
        return;
    }
    dag->status = status;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(dag->error, sizeof(dag->error), format, args);
    va_end(args);
}

const gy_function *gy_dag_function(const gy_dag *dag, const char *name)
{
    const uint32_t at = gy_flow_find(dag->flow, name);
    return at != UINT32_MAX ? &dag->flow->functions[at] : NULL;
}

static bool out_of_memory(gy_dag *dag)
{
    gy_dag_fail(dag, GY_NOMEM, "out of memory");
    return false;
}

gy_status gy_dag_new(gy_flow *flow, const char *name, gy_dag **dag)
{
    GY_ASSERT(dag != NULL);
    gy_dag *made = gy_alloc_zero("flow.dag", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->flow = flow;
    made->name = gy_copy_text("flow.dag", name != NULL ? name : "job");
    if (made->name == NULL) {
        gy_free(made);
        return GY_NOMEM;
    }
    *dag = made;
    return GY_OK;
}

void gy_dag_free(gy_dag *dag)
{
    if (dag == NULL) {
        return;
    }
    for (size_t i = 0; i < dag->refinement_count; i++) {
        gy_free(dag->refinements[i].ports);
    }
    void *columns[] = {dag->protos,  dag->proto,        dag->index,  dag->inputs,
                       dag->outputs, dag->edges,        dag->runs,   dag->parts,
                       dag->finals,  dag->output_names, dag->stages, dag->refinements,
                       dag->marks};
    for (size_t i = 0; i < GY_COUNT(columns); i++) {
        gy_free(columns[i]);
    }
    gy_arena_free(&dag->arena);
    gy_free((void *)(uintptr_t)dag->name);
    gy_free(dag);
}

gy_status gy_dag_status(const gy_dag *dag)
{
    if (dag == NULL) {
        return gy_fail(GY_ARG, "no graph: its maker failed");
    }
    return dag->status < 0 ? gy_fail(dag->status, "%s", dag->error) : GY_OK;
}

const char *gy_dag_vertex_name(const gy_dag *dag, uint32_t vertex, char out[GY_DAG_NAME_BYTES])
{
    const gy_proto *proto = &dag->protos[dag->proto[vertex]];
    (void)snprintf(out, GY_DAG_NAME_BYTES, "%.100s[%u]", dag->stages[proto->stage].name,
                   proto->base + dag->index[vertex]);
    return out;
}

static const char *copy_text(gy_dag *dag, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = gy_arena_alloc(&dag->arena, size);
    return copy != NULL ? memcpy(copy, text, size) : NULL;
}

bool gy_dag_stage_of(gy_dag *dag, const char *name, uint32_t *stage)
{
    /* search backwards, since the last stage is the most likely one */
    for (size_t i = dag->stage_count; i-- > 0;) {
        if (strcmp(dag->stages[i].name, name) == 0) {
            *stage = (uint32_t)i;
            return true;
        }
    }
    if (dag->is_running) {
        gy_dag_fail(dag, GY_ARG,
                    "a refinement function makes a vertex of stage \"%.100s\": expected a "
                    "stage that was declared with gy_part_refine",
                    name);
        return false;
    }
    if (GY_GROW("flow.stages", dag->stages, dag->stage_capacity, dag->stage_count + 1) < 0) {
        return out_of_memory(dag);
    }
    const char *copy = copy_text(dag, name);
    if (copy == NULL) {
        return out_of_memory(dag);
    }
    *stage = (uint32_t)dag->stage_count;
    dag->stages[dag->stage_count++] = (gy_dag_stage){.name = copy};
    return true;
}

bool gy_dag_reserve(gy_dag *dag, size_t more)
{
    const size_t needed = dag->vertex_count + more;
    if (needed > GY_DAG_VERTICES_MAX) {
        gy_dag_fail(dag, GY_LIMIT, "%zu vertices, expected at most %d", needed,
                    GY_DAG_VERTICES_MAX);
        return false;
    }
    uint32_t **columns[] = {&dag->proto, &dag->index, &dag->inputs, &dag->outputs};
    size_t capacity = dag->vertex_capacity;
    for (size_t i = 0; i < GY_COUNT(columns); i++) {
        /* the capacity of the columns that are not reallocated yet */
        capacity = dag->vertex_capacity;
        if (gy_reserve("flow.vertices", (void **)columns[i], &capacity, needed,
                       sizeof(uint32_t)) < 0) {
            return out_of_memory(dag);
        }
    }
    dag->vertex_capacity = capacity;
    return true;
}

bool gy_dag_marks(gy_dag *dag)
{
    const size_t before = dag->mark_capacity;
    if (GY_GROW("flow.marks", dag->marks, dag->mark_capacity, dag->vertex_count) < 0) {
        return out_of_memory(dag);
    }
    memset(dag->marks + before, 0, (dag->mark_capacity - before) * sizeof(uint32_t));
    return true;
}

uint32_t gy_dag_add_vertex(gy_dag *dag, uint32_t proto)
{
    GY_ASSERT(dag->vertex_count < dag->vertex_capacity);
    gy_proto *made = &dag->protos[proto];
    const uint32_t vertex = (uint32_t)dag->vertex_count++;
    dag->proto[vertex] = proto;
    dag->index[vertex] = made->copies++;
    dag->inputs[vertex] = made->inputs > 0 ? (uint32_t)made->inputs : 0;
    dag->outputs[vertex] = made->outputs > 0 ? (uint32_t)made->outputs : 0;
    dag->stages[made->stage].vertices++;
    return vertex;
}

bool gy_dag_add_edge(gy_dag *dag, gy_dag_edge edge)
{
    if (dag->edge_count >= UINT32_MAX - 1) {
        gy_dag_fail(dag, GY_LIMIT, "more than %u edges", UINT32_MAX - 1);
        return false;
    }
    if (dag->edge_count == dag->edge_capacity &&
        GY_GROW("flow.edges", dag->edges, dag->edge_capacity, dag->edge_count + 1) < 0) {
        return out_of_memory(dag);
    }
    dag->edges[dag->edge_count++] = edge;
    return true;
}

/* ---- prototypes ---- */

static const char *const *copy_list(gy_dag *dag, const char *const *list)
{
    size_t count = 0;
    while (list[count] != NULL) {
        count++;
    }
    const char **copy = gy_arena_alloc(&dag->arena, (count + 1) * sizeof(*copy));
    for (size_t i = 0; copy != NULL && i < count; i++) {
        copy[i] = copy_text(dag, list[i]);
        if (copy[i] == NULL) {
            return NULL;
        }
    }
    return copy;
}

static bool is_name(const char *name)
{
    return name[0] != '\0' && strlen(name) < GY_DAG_NAME_BYTES - 12;
}

static bool are_ranks_good(const gy_vertex_options *o, bool is_command)
{
    const bool is_many = o->hosts > 1;
    return o->ranks >= 0 && o->ranks <= 1024 && (o->ranks == 0 || is_command) &&
           o->hosts >= 0 && o->hosts <= GY_GANG_HOSTS_MAX &&
           (!is_many || (o->ranks > 0 && o->ranks % o->hosts == 0));
}

static bool check_options(gy_dag *dag, const gy_vertex_options *o)
{
    const char *name = o->function != NULL ? o->function : "a vertex";
    const bool is_command = o->command != NULL && o->command[0] != NULL;
    if ((o->function != NULL) == is_command) {
        gy_dag_fail(dag, GY_ARG, "%s has %s: expected one of both", name,
                    is_command ? "a function and a command" : "neither function nor command");
    } else if (!is_name(is_command ? o->command[0] : name) ||
               (o->stage != NULL && !is_name(o->stage))) {
        gy_dag_fail(dag, GY_ARG, "the name of a function or stage has 1 to %d letters",
                    GY_DAG_NAME_BYTES - 13);
    } else if (o->inputs < GY_PORTS_ANY || o->inputs > GY_DAG_PORTS_MAX ||
               o->outputs < GY_PORTS_ANY || o->outputs > GY_DAG_PORTS_MAX) {
        gy_dag_fail(dag, GY_ARG, "%s has %d inputs and %d outputs: expected 0 to %d, or -1",
                    name, o->inputs, o->outputs, GY_DAG_PORTS_MAX);
    } else if ((int)o->determinism < 0 || o->determinism > GY_OUTPUT_INDETERMINATE) {
        gy_dag_fail(dag, GY_ARG, "%s has determinism %d: expected a gy_determinism", name,
                    (int)o->determinism);
    } else if (!are_ranks_good(o, is_command)) {
        gy_dag_fail(dag, GY_ARG,
                    "%s has %d ranks on %d hosts: expected 0 to 1024 of a command, as many on "
                    "each of at most %d hosts",
                    name, o->ranks, o->hosts, GY_GANG_HOSTS_MAX);
    } else if (is_command && ((o->inputs > 1 && o->ranks == 0) || o->outputs > 1)) {
        gy_dag_fail(dag, GY_ARG,
                    "command %.100s has %d inputs and %d outputs: it has one of each",
                    o->command[0], o->inputs, o->outputs);
    } else if (o->parameter == NULL && o->parameter_bytes > 0) {
        gy_dag_fail(dag, GY_ARG, "%s has no parameter but %zu bytes of it", name,
                    o->parameter_bytes);
    }
    return dag->status >= 0;
}

/* Copy everything that the options point at into the arena. */
static bool copy_options(gy_dag *dag, const gy_vertex_options *o, gy_proto *proto)
{
    const gy_proto *last = dag->proto_count > 0 ? &dag->protos[dag->proto_count - 1] : NULL;
    bool is_ok = true;
    if (o->function != NULL) {
        const bool is_same =
            last != NULL && last->function != NULL && strcmp(last->function, o->function) == 0;
        proto->function = is_same ? last->function : copy_text(dag, o->function);
        is_ok = proto->function != NULL;
    } else {
        proto->command = copy_list(dag, o->command);
        is_ok = proto->command != NULL;
    }
    if (is_ok && o->files != NULL && o->files[0] != NULL) {
        proto->files = copy_list(dag, o->files);
        is_ok = proto->files != NULL;
    }
    if (is_ok && o->preferred_hosts != NULL && o->preferred_hosts[0] != NULL) {
        proto->preferred_hosts = copy_list(dag, o->preferred_hosts);
        is_ok = proto->preferred_hosts != NULL;
    }
    if (is_ok && o->parameter_bytes > 0) {
        void *copy = gy_arena_alloc(&dag->arena, o->parameter_bytes);
        is_ok = copy != NULL;
        if (is_ok) {
            proto->parameter = memcpy(copy, o->parameter, o->parameter_bytes);
            proto->parameter_bytes = o->parameter_bytes;
        }
    }
    return is_ok || out_of_memory(dag);
}

bool gy_dag_add_proto(gy_dag *dag, const gy_vertex_options *options)
{
    gy_vertex_options known;
    const gy_status taken = gy_options_take(gy_vertex_options, &known, options);
    if (taken < 0) {
        return gy_dag_fail(dag, taken, "%s", gy_error_text()), false;
    }
    const gy_vertex_options *o = &known;
    if (!check_options(dag, o)) {
        return false;
    }
    if (GY_GROW("flow.protos", dag->protos, dag->proto_capacity, dag->proto_count + 1) < 0) {
        return out_of_memory(dag);
    }
    gy_proto proto = {.memory_bytes = o->memory_bytes,
                      .output_bytes = o->output_bytes,
                      .inputs = o->inputs,
                      .outputs = o->outputs,
                      .ranks = o->ranks,
                      .hosts = o->hosts,
                      .determinism = (uint8_t)o->determinism};
    const char *stage = o->stage != NULL      ? o->stage
                        : o->function != NULL ? o->function
                                              : o->command[0];
    if (!gy_dag_stage_of(dag, stage, &proto.stage) || !copy_options(dag, o, &proto)) {
        return false;
    }
    proto.base = dag->stages[proto.stage].vertices;
    dag->protos[dag->proto_count++] = proto;
    return true;
}

gy_part gy_dag_vertices(gy_dag *dag, const gy_vertex_options *options, int count)
{
    const gy_part none = {dag, -1};
    if (dag == NULL || dag->status < 0) {
        return none;
    }
    if (count < 1) {
        gy_dag_fail(dag, GY_ARG, "%d vertices: expected at least 1", count);
        return none;
    }
    if (!gy_dag_reserve(dag, (size_t)count)) {
        return none;
    }
    const uint32_t first = (uint32_t)dag->vertex_count;
    const size_t first_proto = dag->proto_count;
    /* The array's element size is that of the library version that the caller was compiled
     * with. */
    const size_t step = options->struct_size != 0 ? options->struct_size : sizeof(*options);
    for (int i = 0; i < count; i++) {
        const void *at = (const char *)options + (size_t)i * step;
        if (!gy_dag_add_proto(dag, at)) {
            return none;
        }
        (void)gy_dag_add_vertex(dag, (uint32_t)dag->proto_count - 1);
    }
    gy_part_maker maker = {.dag = dag};
    gy_flow_part_begin_list(&maker, GY_PART_VERTICES);
    for (uint32_t i = 0; i < (uint32_t)count; i++) {
        gy_flow_part_add(&maker, first + i);
    }
    gy_flow_part_begin_list(&maker, GY_PART_INPUTS);
    for (uint32_t i = 0; i < (uint32_t)count; i++) {
        if (dag->protos[first_proto + i].inputs != 0) {
            gy_flow_part_add(&maker, first + i);
        }
    }
    gy_flow_part_begin_list(&maker, GY_PART_OUTPUTS);
    for (uint32_t i = 0; i < (uint32_t)count; i++) {
        if (dag->protos[first_proto + i].outputs != 0) {
            gy_flow_part_add(&maker, first + i);
        }
    }
    return gy_flow_part_end(&maker);
}

gy_part gy_dag_vertex(gy_dag *dag, const gy_vertex_options *options)
{
    return gy_dag_vertices(dag, options, 1);
}
