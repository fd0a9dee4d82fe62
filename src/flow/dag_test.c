/* Goal: composition gives the edges of a simple model; errors are recorded and named; a
 * million vertices are cheap. */
#include "flow/dag.h"
#include "flow/lower.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gy_test.h"

/* ---- the model: parts as simple lists of ports ---- */

enum { MODEL_MAX = 600, PORTS_MAX = 6000 };

typedef struct model_port {
    int vertex, port; /* port -1: any number */
} model_port;

typedef struct model_edge {
    int from, output, to, input, channel;
} model_edge;

typedef struct model_part {
    int vertices[MODEL_MAX], vertex_count;
    model_port ins[PORTS_MAX], outs[PORTS_MAX];
    int in_count, out_count;
    int edges[PORTS_MAX], edge_count;
    gy_part part;
} model_part;

typedef struct model {
    int proto[MODEL_MAX], inputs[MODEL_MAX], outputs[MODEL_MAX], vertex_count;
    int protos_inputs[MODEL_MAX], protos_outputs[MODEL_MAX], proto_count;
    model_edge edges[PORTS_MAX];
    int edge_count;
    model_part *parts[64];
    int part_count;
    gy_dag *dag;
    gy_random random;
} model;

static int below(model *m, int bound)
{
    return (int)gy_random_below(&m->random, (uint64_t)bound);
}

static bool has_vertex(const model_part *part, int vertex)
{
    for (int i = 0; i < part->vertex_count; i++) {
        if (part->vertices[i] == vertex) {
            return true;
        }
    }
    return false;
}

static bool has_port(const model_port *ports, int count, model_port port)
{
    for (int i = 0; i < count; i++) {
        if (ports[i].vertex == port.vertex && ports[i].port == port.port) {
            return true;
        }
    }
    return false;
}

static int new_vertex(model *m, int proto)
{
    const int v = m->vertex_count++;
    m->proto[v] = proto;
    m->inputs[v] = m->protos_inputs[proto] < 0 ? 0 : m->protos_inputs[proto];
    m->outputs[v] = m->protos_outputs[proto] < 0 ? 0 : m->protos_outputs[proto];
    return v;
}

static void add_ports(model_port *ports, int *count, int vertex, int number)
{
    for (int p = number < 0 ? -1 : 0; p < (number < 0 ? 0 : number); p++) {
        ports[(*count)++] = (model_port){vertex, p};
    }
}

static model_part *new_part(void)
{
    return gy_alloc_zero("test", 1, sizeof(model_part));
}

static model_part *make_vertex(model *m)
{
    const int p = m->proto_count++;
    m->protos_inputs[p] = below(m, 5) - 1;
    m->protos_outputs[p] = below(m, 5) - 1;
    model_part *part = new_part();
    const int v = new_vertex(m, p);
    part->vertices[part->vertex_count++] = v;
    add_ports(part->ins, &part->in_count, v, m->protos_inputs[p]);
    add_ports(part->outs, &part->out_count, v, m->protos_outputs[p]);
    part->part = gy_dag_vertex(m->dag, &(gy_vertex_options){.function = "work",
                                                            .inputs = m->protos_inputs[p],
                                                            .outputs = m->protos_outputs[p]});
    return part;
}

static void connect(model *m, model_part *to_part, model_port from, model_port to, int channel)
{
    const int output = from.port < 0 ? m->outputs[from.vertex]++ : from.port;
    const int input = to.port < 0 ? m->inputs[to.vertex]++ : to.port;
    to_part->edges[to_part->edge_count++] = m->edge_count;
    m->edges[m->edge_count++] = (model_edge){from.vertex, output, to.vertex, input, channel};
}

static int in_of(const model_part *part, int vertex, model_port *ports)
{
    int count = 0;
    for (int i = 0; i < part->in_count; i++) {
        if (part->ins[i].vertex == vertex) {
            ports[count++] = part->ins[i];
        }
    }
    return count;
}

/* A part has its edges in the order in which they were made, whatever it was merged from. */
static void copy_edges(model_part *to, const model_part *from)
{
    for (int i = 0; i < from->edge_count; i++) {
        const int edge = from->edges[i];
        int at = to->edge_count;
        while (at > 0 && to->edges[at - 1] > edge) {
            at--;
        }
        if (at == 0 || to->edges[at - 1] != edge) {
            memmove(&to->edges[at + 1], &to->edges[at],
                    (size_t)(to->edge_count - at) * sizeof(to->edges[0]));
            to->edges[at] = edge;
            to->edge_count++;
        }
    }
}

/* Vertices, inputs and outputs of a >= b, a >> b or fork, without the new edges. */
static model_part *outline(const model_part *a, const model_part *b, bool is_fork)
{
    model_part *part = new_part();
    memcpy(part->vertices, a->vertices, sizeof(a->vertices));
    part->vertex_count = a->vertex_count;
    for (int i = 0; i < b->vertex_count; i++) {
        part->vertices[part->vertex_count++] = b->vertices[i];
    }
    memcpy(part->ins, a->ins, sizeof(a->ins));
    part->in_count = a->in_count;
    for (int i = 0; is_fork && i < a->out_count; i++) {
        part->outs[part->out_count++] = a->outs[i];
    }
    for (int i = 0; i < b->out_count; i++) {
        part->outs[part->out_count++] = b->outs[i];
    }
    copy_edges(part, a);
    copy_edges(part, b);
    return part;
}

static bool is_apart(const model_part *a, const model_part *b)
{
    for (int i = 0; i < a->vertex_count; i++) {
        if (has_vertex(b, a->vertices[i])) {
            return false;
        }
    }
    return a->out_count > 0 && b->in_count > 0;
}

static model_part *make_pointwise(model *m, const model_part *a, const model_part *b, bool fork)
{
    if (!is_apart(a, b)) {
        return NULL;
    }
    const int count = a->out_count > b->in_count ? a->out_count : b->in_count;
    if (m->edge_count + count >= PORTS_MAX / 2) {
        return NULL;
    }
    const int channel = below(m, 3);
    model_part *part = outline(a, b, fork);
    for (int k = 0; k < count; k++) {
        connect(m, part, a->outs[k % a->out_count], b->ins[k % b->in_count], channel);
    }
    part->part =
        (fork ? gy_part_fork : gy_part_pointwise)(a->part, b->part, (gy_channel)channel);
    return part;
}

/* The vertices of a list of ports, in order. */
static int vertices_of(const model_port *ports, int count, int *out)
{
    int found = 0;
    for (int i = 0; i < count; i++) {
        if (found == 0 || out[found - 1] != ports[i].vertex) {
            out[found++] = ports[i].vertex;
        }
    }
    return found;
}

static model_part *make_bipartite(model *m, const model_part *a, const model_part *b)
{
    static int left[PORTS_MAX], right[PORTS_MAX];
    if (!is_apart(a, b)) {
        return NULL;
    }
    const int lefts = vertices_of(a->outs, a->out_count, left);
    const int rights = vertices_of(b->ins, b->in_count, right);
    if (m->edge_count + lefts * rights >= PORTS_MAX / 2) {
        return NULL;
    }
    for (int i = 0; i < lefts; i++) {
        const int n = m->protos_outputs[m->proto[left[i]]];
        if (n >= 0 && n != 1 && n != rights) {
            return NULL;
        }
    }
    for (int j = 0; j < rights; j++) {
        const int n = m->protos_inputs[m->proto[right[j]]];
        if (n >= 0 && n != lefts) {
            return NULL;
        }
    }
    const int channel = below(m, 3);
    model_part *part = outline(a, b, false);
    for (int i = 0; i < lefts; i++) {
        for (int j = 0; j < rights; j++) {
            model_port from = {left[i], 0}, ins[PORTS_MAX > 100 ? 100 : 1];
            const int n = m->protos_outputs[m->proto[left[i]]];
            from.port = n < 0 ? -1 : n == rights ? j : 0;
            const int count = in_of(b, right[j], ins);
            assert_true(count >= 1);
            connect(m, part, from, ins[ins[0].port < 0 ? 0 : i], channel);
        }
    }
    part->part = gy_part_bipartite(a->part, b->part, (gy_channel)channel);
    return part;
}

static model_part *make_merge(const model_part *a, const model_part *b)
{
    model_part *part = new_part();
    memcpy(part->vertices, a->vertices, sizeof(a->vertices));
    part->vertex_count = a->vertex_count;
    for (int i = 0; i < b->vertex_count; i++) {
        if (!has_vertex(a, b->vertices[i])) {
            part->vertices[part->vertex_count++] = b->vertices[i];
        }
    }
    for (int side = 0; side < 2; side++) {
        const model_part *own = side == 0 ? a : b, *other = side == 0 ? b : a;
        for (int i = 0; i < own->in_count; i++) {
            if (!has_port(part->ins, part->in_count, own->ins[i]) &&
                (!has_vertex(other, own->ins[i].vertex) ||
                 has_port(other->ins, other->in_count, own->ins[i]))) {
                part->ins[part->in_count++] = own->ins[i];
            }
        }
        for (int i = 0; i < own->out_count; i++) {
            if (!has_port(part->outs, part->out_count, own->outs[i]) &&
                (!has_vertex(other, own->outs[i].vertex) ||
                 has_port(other->outs, other->out_count, own->outs[i]))) {
                part->outs[part->out_count++] = own->outs[i];
            }
        }
    }
    copy_edges(part, a);
    copy_edges(part, b);
    part->part = gy_part_merge(a->part, b->part);
    return part;
}

static int place_of(const model_part *part, int vertex)
{
    for (int i = 0; i < part->vertex_count; i++) {
        if (part->vertices[i] == vertex) {
            return i;
        }
    }
    return -1;
}

static model_part *make_clone(model *m, const model_part *a, int copies)
{
    if (m->vertex_count + copies * a->vertex_count >= MODEL_MAX ||
        m->edge_count + copies * a->edge_count >= PORTS_MAX / 2 ||
        copies * (a->in_count + a->out_count) >= PORTS_MAX / 4) {
        return NULL;
    }
    model_part *part = new_part();
    memcpy(part, a, sizeof(*a));
    const int base = m->vertex_count;
    for (int c = 1; c < copies; c++) {
        for (int i = 0; i < a->vertex_count; i++) {
            const int v = new_vertex(m, m->proto[a->vertices[i]]);
            m->inputs[v] = m->inputs[a->vertices[i]];
            m->outputs[v] = m->outputs[a->vertices[i]];
            part->vertices[part->vertex_count++] = v;
        }
    }
    for (int c = 1; c < copies; c++) {
        const int first = base + (c - 1) * a->vertex_count;
        for (int i = 0; i < a->in_count; i++) {
            part->ins[part->in_count++] =
                (model_port){first + place_of(a, a->ins[i].vertex), a->ins[i].port};
        }
        for (int i = 0; i < a->out_count; i++) {
            part->outs[part->out_count++] =
                (model_port){first + place_of(a, a->outs[i].vertex), a->outs[i].port};
        }
        for (int i = 0; i < a->edge_count; i++) {
            model_edge edge = m->edges[a->edges[i]];
            edge.from = first + place_of(a, edge.from);
            edge.to = first + place_of(a, edge.to);
            part->edges[part->edge_count++] = m->edge_count;
            m->edges[m->edge_count++] = edge;
        }
    }
    part->part = gy_part_clone(a->part, copies);
    return part;
}

/* ---- comparison ---- */

static void compare_ports(const model *m, const model_part *part, gy_part_list list)
{
    const gy_dag_part *found = gy_flow_part_get(m->dag, part->part);
    assert_non_null(found);
    const model_port *ports = list == GY_PART_INPUTS ? part->ins : part->outs;
    const int count = list == GY_PART_INPUTS ? part->in_count : part->out_count;
    gy_part_cursor cursor = gy_flow_part_read(m->dag, found, list);
    uint32_t vertex = 0, port = 0;
    int at = 0;
    while (gy_flow_part_next_port(&cursor, &vertex, &port)) {
        assert_true(at < count);
        assert_int_equal(vertex, ports[at].vertex);
        assert_int_equal((int)port, ports[at].port);
        at++;
    }
    assert_int_equal(at, count);
}

static void compare_part(const model *m, const model_part *part)
{
    compare_ports(m, part, GY_PART_INPUTS);
    compare_ports(m, part, GY_PART_OUTPUTS);
    const gy_dag_part *found = gy_flow_part_get(m->dag, part->part);
    gy_part_cursor cursor = gy_flow_part_read(m->dag, found, GY_PART_VERTICES);
    uint32_t vertex = 0;
    int at = 0;
    while (gy_flow_part_next(&cursor, &vertex)) {
        assert_int_equal(vertex, part->vertices[at++]);
    }
    assert_int_equal(at, part->vertex_count);
    assert_int_equal(gy_flow_part_size(m->dag, found, GY_PART_EDGES), part->edge_count);
}

static void compare_edges(const model *m)
{
    assert_int_equal(m->dag->edge_count, m->edge_count);
    for (int i = 0; i < m->edge_count; i++) {
        const gy_dag_edge *edge = &m->dag->edges[i];
        assert_int_equal(edge->from, m->edges[i].from);
        assert_int_equal(edge->output, m->edges[i].output);
        assert_int_equal(edge->to, m->edges[i].to);
        assert_int_equal(edge->input, m->edges[i].input);
        assert_int_equal(edge->channel, m->edges[i].channel);
    }
}

/* Check one random expression after each step. */
static void run_case(uint64_t seed, uint64_t number)
{
    model *m = gy_alloc_zero("test", 1, sizeof(*m));
    m->random = (gy_random){.key = seed, .next = number << 20};
    assert_ok(gy_dag_new(NULL, "model", &m->dag));
    for (int step = 0; step < 40 && m->part_count < 64; step++) {
        model_part *a = m->part_count > 0 ? m->parts[below(m, m->part_count)] : NULL;
        model_part *b = m->part_count > 0 ? m->parts[below(m, m->part_count)] : NULL;
        model_part *made = NULL;
        switch (a == NULL ? 0 : below(m, 8)) {
        case 0:
        case 1:
            made = make_vertex(m);
            break;
        case 2:
        case 3:
            made = make_clone(m, a, 1 + below(m, 4));
            break;
        case 4:
            made = make_pointwise(m, a, b, false);
            break;
        case 5:
            made = make_pointwise(m, a, b, true);
            break;
        case 6:
            made = make_bipartite(m, a, b);
            break;
        default:
            made = make_merge(a, b);
            break;
        }
        if (made != NULL) {
            if (gy_dag_failure(m->dag) != NULL) {
                fail_msg("case %llu: %s", (unsigned long long)number, gy_dag_failure(m->dag));
            }
            m->parts[m->part_count++] = made;
            compare_part(m, made);
        }
    }
    assert_int_equal(m->dag->vertex_count, m->vertex_count);
    compare_edges(m);
    for (int v = 0; v < m->vertex_count; v++) {
        assert_int_equal(m->dag->inputs[v], m->inputs[v]);
        assert_int_equal(m->dag->outputs[v], m->outputs[v]);
        assert_int_equal(m->dag->proto[v], m->proto[v]);
    }
    for (int i = 0; i < m->part_count; i++) {
        gy_free(m->parts[i]);
    }
    gy_dag_free(m->dag);
    gy_free(m);
}

GY_TEST(compositions_are_those_of_a_plain_model)
{
    const uint64_t seed = gy_test_seed();
    for (long i = 0; i < gy_test_cases(300); i++) {
        run_case(seed, (uint64_t)i);
    }
}

/* ---- errors ---- */

/* Stages have names of their own, because the order in which arguments are evaluated, and so
 * the numbering of vertices, is unspecified. */
#define NAMED(dag, name, ins, outs)                                                            \
    gy_dag_vertex(                                                                             \
        (dag), &(gy_vertex_options){.function = (name), .inputs = (ins), .outputs = (outs)})
#define VERTEX(dag, ins, outs)                                                                 \
    gy_dag_vertex(                                                                             \
        (dag), &(gy_vertex_options){.function = "work", .inputs = (ins), .outputs = (outs)})

static void expect_error(gy_dag *dag, const char *words)
{
    gy_lowering lowering = {0};
    assert_status(gy_flow_lower_check(&lowering, dag), GY_ARG);
    if (strstr(gy_error_text(), words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", gy_error_text(), words);
    }
    gy_lowering_fini(&lowering);
    gy_dag_free(dag);
}

static gy_dag *new_dag(void)
{
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(NULL, "error", &dag));
    assert_non_null(dag);
    return dag;
}

GY_TEST(errors_of_composition_are_kept_and_named)
{
    gy_dag *dag = new_dag(), *other = new_dag();
    (void)gy_dag_vertex(dag, &(gy_vertex_options){.inputs = 1});
    (void)gy_part_clone(VERTEX(dag, 0, 0), 0); /* the first error is reported */
    expect_error(dag, "neither function nor command");
    dag = new_dag();
    (void)VERTEX(dag, -2, 0);
    expect_error(dag, "-2 inputs");
    dag = new_dag();
    (void)gy_part_clone(VERTEX(dag, 0, 0), 0);
    expect_error(dag, "0 clones");
    dag = new_dag();
    (void)gy_part_clone(VERTEX(dag, 0, 0), INT32_MAX);
    assert_string_equal(gy_status_text(dag->status), gy_status_text(GY_LIMIT));
    gy_dag_free(dag);
    dag = new_dag();
    gy_part a = gy_part_clone(VERTEX(dag, 1, 1), 3);
    (void)gy_part_pointwise(a, a, GY_CHANNEL_FILE);
    expect_error(dag, "work[0] stands on both sides");
    dag = new_dag();
    (void)gy_part_pointwise(NAMED(dag, "a", 0, 0), NAMED(dag, "b", 1, 0), GY_CHANNEL_FILE);
    expect_error(dag, "no free output at a[0]");
    dag = new_dag();
    (void)gy_part_bipartite(NAMED(dag, "a", 0, 3),
                            gy_part_clone(NAMED(dag, "b", GY_PORTS_ANY, 0), 2),
                            GY_CHANNEL_FILE);
    expect_error(dag, "a[0] has 3 free outputs for 2 vertices");
    dag = new_dag();
    (void)gy_part_merge(VERTEX(dag, 0, 0), VERTEX(other, 0, 0));
    expect_error(dag, "part of another graph");
    gy_dag_free(other);
    dag = new_dag();
    gy_part_output(VERTEX(dag, 0, 1), "../out");
    expect_error(dag, "output name \"../out\"");
    dag = new_dag();
    gy_part_output(VERTEX(dag, 0, 1), "out");
    gy_part_output(VERTEX(dag, 0, 1), "out");
    expect_error(dag, "the name out");
    dag = new_dag();
    (void)gy_dag_vertex(dag, &(gy_vertex_options){.function = "a", .ranks = 2});
    expect_error(dag, "2 ranks");
}

GY_TEST(errors_of_the_whole_graph_name_vertex_and_port)
{
    gy_dag *dag = new_dag();
    (void)VERTEX(dag, 2, 0);
    expect_error(dag, "input 0 of work[0] comes from nowhere");
    dag = new_dag();
    (void)gy_part_pointwise(NAMED(dag, "a", 0, 1), NAMED(dag, "b", 1, 2), GY_CHANNEL_FILE);
    expect_error(dag, "output 0 of b[0] goes nowhere");
    dag = new_dag();
    (void)gy_part_pointwise(gy_part_clone(NAMED(dag, "a", 0, 1), 3), NAMED(dag, "b", 2, 0),
                            GY_CHANNEL_FILE);
    expect_error(dag, "input 0 of b[0] has two edges");
    dag = new_dag();
    (void)gy_part_pointwise(NAMED(dag, "a", 0, 1), NAMED(dag, "b", 2, 0), GY_CHANNEL_FIFO);
    expect_error(dag, "output 0 of a[0] goes to two inputs");
    dag = new_dag();
    gy_part one = VERTEX(dag, 0, 1);
    gy_part_output(one, "one");
    gy_part_output(one, "two");
    expect_error(dag, "output 0 of work[0] is an output of the job twice");
    dag = new_dag();
    one = VERTEX(dag, 0, 1);
    (void)gy_part_pointwise(one, VERTEX(dag, 1, 0), GY_CHANNEL_PIPE);
    gy_part_output(one, "one");
    expect_error(dag, "goes through a pipe");
    dag = new_dag();
    gy_part a = NAMED(dag, "a", 2, 1), b = NAMED(dag, "b", 1, 1), c = NAMED(dag, "c", 1, 2);
    (void)gy_part_pointwise(gy_part_pointwise(a, b, GY_CHANNEL_FILE), c, GY_CHANNEL_FILE);
    (void)gy_part_pointwise(c, a, GY_CHANNEL_FILE);
    expect_error(dag, "a[0] is on a cycle of 3 vertices");
}

/* ---- size ---- */

GY_TEST(a_million_vertices_build_and_lower_quickly)
{
    const int wide = (int)gy_test_serial_cases(500000);
    const int64_t live = gy_alloc_live();
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    gy_dag *dag = new_dag();
    gy_part top = gy_part_clone(VERTEX(dag, 0, 2), wide);
    gy_part low = gy_part_clone(VERTEX(dag, 2, 0), wide);
    (void)gy_part_pointwise(top, low, GY_CHANNEL_FILE);
    assert_null(gy_dag_failure(dag));
    assert_int_equal(dag->vertex_count, 2 * wide);
    assert_int_equal(dag->edge_count, 2 * wide);
    assert_true(dag->run_count < 100); /* copies are runs, not lists */
    gy_lowering lowering = {0};
    size_t cut = 0;
    assert_ok(gy_flow_lower_check(&lowering, dag));
    assert_ok(gy_flow_lower_cohorts(&lowering, dag, 2, &cut));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    const double seconds =
        (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    printf("%d vertices: %.3f s\n", 2 * wide, seconds);
#if !defined(GYRE_ASAN) && !defined(GYRE_TSAN)
    assert_true(seconds < 1);
#endif
    gy_lowering_fini(&lowering);
    gy_dag_free(dag);
    assert_int_equal(gy_alloc_live(), live);
}

GY_TEST(a_thousand_layers_do_not_cost_their_square)
{
    enum { LAYERS = 1000 };
    const int wide = (int)gy_test_serial_cases(1000);
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    gy_dag *dag = new_dag();
    gy_part all = gy_part_clone(VERTEX(dag, 0, 2), wide);
    for (int i = 1; i < LAYERS; i++) {
        gy_part layer = gy_part_clone(VERTEX(dag, 2, i + 1 < LAYERS ? 2 : 0), wide);
        all = gy_part_pointwise(all, layer, GY_CHANNEL_FILE);
    }
    assert_null(gy_dag_failure(dag));
    assert_int_equal(dag->vertex_count, LAYERS * wide);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    const double seconds =
        (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    printf("a thousand layers: %.3f s\n", seconds);
#if !defined(GYRE_ASAN) && !defined(GYRE_TSAN)
    assert_true(seconds < 1);
#endif
    gy_dag_free(dag);
}

/* The element size of an options array is that of the library version that its program was
 * compiled with. */
GY_TEST(options_of_another_gyre_are_taken_or_refused)
{
    struct {
        gy_vertex_options options;
        int64_t later;
    } two[2] = {{{.struct_size = sizeof(two[0]), .function = "a", .outputs = 1}, 0},
                {{.struct_size = sizeof(two[0]), .function = "b", .inputs = 3}, 0}};
    gy_dag *dag = new_dag();
    (void)gy_dag_vertices(dag, &two[0].options, 2);
    assert_null(gy_dag_failure(dag));
    assert_int_equal(dag->vertex_count, 2);
    assert_int_equal(dag->protos[0].outputs, 1);
    assert_int_equal(dag->protos[1].inputs, 3);
    two[1].later = 1;
    (void)gy_dag_vertices(dag, &two[0].options, 2);
    assert_non_null(gy_dag_failure(dag));
    assert_non_null(strstr(gy_dag_failure(dag), "gy_vertex_options: struct_size is"));
    gy_dag_free(dag);
}

GY_TEST(many_vertices_of_their_own_come_in_order)
{
    gy_dag *dag = new_dag();
    gy_vertex_options options[100];
    int number[100];
    for (int i = 0; i < 100; i++) {
        number[i] = i;
        options[i] = (gy_vertex_options){.function = "read",
                                         .parameter = &number[i],
                                         .parameter_bytes = sizeof(int),
                                         .outputs = i % 2};
    }
    gy_part part = gy_dag_vertices(dag, options, 100);
    assert_int_equal(gy_flow_part_size(dag, gy_flow_part_get(dag, part), GY_PART_OUTPUTS), 50);
    for (int i = 0; i < 100; i++) {
        int seen = 0;
        memcpy(&seen, dag->protos[dag->proto[i]].parameter, sizeof(seen));
        assert_int_equal(seen, i);
    }
    char name[GY_DAG_NAME_BYTES];
    assert_string_equal(gy_dag_vertex_name(dag, 41, name), "read[41]");
    gy_dag_free(dag);
}

GY_TEST(a_graph_keeps_its_first_failure)
{
    gy_dag *dag = NULL;
    assert_status(gy_dag_status(dag), GY_ARG);
    const gy_part none = gy_dag_vertex(dag, &(gy_vertex_options){.function = "read"});
    assert_int_equal(none.index, -1); /* and is passed on by all that compose */
    gy_part_output(gy_part_bipartite(gy_part_clone(none, 2), none, GY_CHANNEL_FILE), "out");
    gy_part_refine(none, NULL);
    gy_part_aggregate(none, NULL, 1, "out");
    assert_ok(gy_dag_new(NULL, "kept", &dag));
    assert_status(gy_dag_status(dag), GY_OK);
    const gy_part failed = gy_part_clone(VERTEX(dag, 0, 1), 0);
    assert_int_equal(failed.index, -1);
    gy_part_output(failed, ".wrong"); /* a second failure, which does not count */
    assert_status(gy_dag_status(dag), GY_ARG);
    assert_string_equal(gy_error_text(), "0 clones of a part: expected at least 1");
    gy_dag_free(dag);
}

GY_TEST(no_memory_is_an_error_and_leaks_nothing)
{
    const int64_t live = gy_alloc_live();
    int failed = 0;
    for (int64_t n = 1; n < 200; n++) {
        gy_alloc_fail_after(n);
        gy_dag *dag = NULL;
        gy_status status = gy_dag_new(NULL, "small", &dag);
        assert_true((status == GY_OK) == (dag != NULL));
        if (dag != NULL) {
            gy_part a = gy_part_clone(VERTEX(dag, 0, 1), 20);
            gy_part b = gy_part_clone(VERTEX(dag, GY_PORTS_ANY, 1), 5);
            gy_part_output(gy_part_merge(gy_part_pointwise(a, b, GY_CHANNEL_FIFO), a), "out");
            gy_lowering lowering = {0};
            size_t cut = 0;
            status = gy_flow_lower_check(&lowering, dag);
            status = status < 0 ? status : gy_flow_lower_cohorts(&lowering, dag, 4, &cut);
            gy_lowering_fini(&lowering);
        }
        gy_alloc_fail_after(0);
        gy_dag_free(dag);
        assert_int_equal(gy_alloc_live(), live);
        if (status == GY_OK) {
            break;
        }
        assert_status(status, GY_NOMEM);
        failed++;
    }
    assert_true(failed > 20);
}

GY_TEST_MAIN(NULL, NULL)
