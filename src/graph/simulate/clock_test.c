/* Goal: the virtual clock does what is ready, the urgent first, an exchange beside work, a
 * message after its send; and tells work, exposed exchanges and waiting apart. Times by hand.
 */
#include "graph/simulate/simulate.h"

#include <math.h>
#include <string.h>

#include "gy_test.h"

enum { NODES_MAX = 8, STAGES_MAX = 2 };

/* A stage: tasks by hand on a graph that is there for its edges. */
typedef struct fixture {
    gy_graph *graph;
    gy_virtual_task tasks[NODES_MAX];
    gy_virtual_program program;
    gy_node nodes[NODES_MAX];
    int count;
} fixture;

static void open_fixture(fixture *f)
{
    *f = (fixture){.count = 0};
    assert_ok(gy_graph_new(&f->graph));
}

/* A node that reads up to two others; -1: none. */
static int add(fixture *f, gy_virtual_lane lane, double seconds, int a, int b)
{
    const gy_node node = a < 0   ? gy_graph_fill(f->graph, GY_F32, NULL, 0, 1)
                         : b < 0 ? gy_op_neg(f->nodes[a])
                                 : gy_op_add(f->nodes[a], f->nodes[b]);
    assert_int_equal(node.index, f->count);
    f->nodes[f->count] = node;
    f->tasks[f->count] = (gy_virtual_task){
        .lane = lane, .seconds = seconds, .priority = NODES_MAX - f->count, .peer = -1};
    return f->count++;
}

static void play(fixture *stages, int count, gy_virtual_part part, gy_virtual_span *spans)
{
    gy_virtual_program programs[STAGES_MAX];
    for (int s = 0; s < count; s++) {
        programs[s] = (gy_virtual_program){
            .graph = stages[s].graph, .tasks = stages[s].tasks, .count = stages[s].count};
    }
    assert_ok(gy_virtual_program_play(programs, count, part, spans));
}

static void assert_span(const gy_virtual_span *span, double end, double work, double exposed)
{
    if (fabs(span->end_s - end) > 1e-12 || fabs(span->work_s - work) > 1e-12 ||
        fabs(span->exposed_s - exposed) > 1e-12) {
        fail_msg("end %g, work %g, exposed %g: expected %g, %g, %g", span->end_s, span->work_s,
                 span->exposed_s, end, work, exposed);
    }
}

/* a 1, its exchange 5, b 2 beside it, c 1 behind both: 1 + 5 + 1, of which 3 are exposed. */
GY_TEST(test_overlap)
{
    fixture f;
    gy_virtual_span span;
    open_fixture(&f);
    const int a = add(&f, GY_VIRTUAL_WORK, 1, -1, -1);
    const int x = add(&f, GY_VIRTUAL_NEAR, 5, a, -1);
    const int b = add(&f, GY_VIRTUAL_WORK, 2, a, -1);
    add(&f, GY_VIRTUAL_WORK, 1, x, b);
    play(&f, 1, GY_PART_TOGETHER, &span);
    assert_span(&span, 7, 4, 3);
    f.tasks[x].seconds = 1.5; /* hidden */
    play(&f, 1, GY_PART_TOGETHER, &span);
    assert_span(&span, 4, 4, 0);
    gy_graph_free(f.graph);
}

/* Exchanges of one lane follow each other, those of two lanes run beside each other. */
GY_TEST(test_lanes)
{
    fixture f;
    gy_virtual_span span;
    open_fixture(&f);
    const int a = add(&f, GY_VIRTUAL_NOTHING, 0, -1, -1);
    const int x = add(&f, GY_VIRTUAL_NEAR, 2, a, -1);
    const int y = add(&f, GY_VIRTUAL_NEAR, 3, a, -1);
    add(&f, GY_VIRTUAL_WORK, 1, x, y);
    play(&f, 1, GY_PART_TOGETHER, &span);
    assert_span(&span, 6, 1, 5);
    f.tasks[y].lane = GY_VIRTUAL_FAR;
    play(&f, 1, GY_PART_TOGETHER, &span);
    assert_span(&span, 4, 1, 3);
    gy_graph_free(f.graph);
}

/* Of two ready nodes the one whose exchange others wait for goes first. */
GY_TEST(test_priority)
{
    fixture f;
    gy_virtual_span span;
    open_fixture(&f);
    const int a = add(&f, GY_VIRTUAL_NOTHING, 0, -1, -1);
    const int late = add(&f, GY_VIRTUAL_WORK, 4, a, -1);
    const int urgent = add(&f, GY_VIRTUAL_WORK, 1, a, -1);
    const int x = add(&f, GY_VIRTUAL_NEAR, 4, urgent, -1);
    add(&f, GY_VIRTUAL_WORK, 1, late, x);
    play(&f, 1, GY_PART_TOGETHER, &span);
    assert_span(&span, 10, 6, 4);
    f.tasks[urgent].priority += NODES_MAX;
    play(&f, 1, GY_PART_TOGETHER, &span);
    assert_span(&span, 6, 6, 0);
    gy_graph_free(f.graph);
}

/* Stage 0 works 2 and sends for 1; stage 1 works 1, waits, works 3, sends back for 1; stage 0
 * then works 1. */
static void messages(fixture *stages)
{
    open_fixture(&stages[0]);
    open_fixture(&stages[1]);
    const int a = add(&stages[0], GY_VIRTUAL_WORK, 2, -1, -1);
    const int send = add(&stages[0], GY_VIRTUAL_NEAR, 1, a, -1);
    const int back = add(&stages[0], GY_VIRTUAL_ARRIVAL, 0, -1, -1);
    add(&stages[0], GY_VIRTUAL_WORK, 1, back, -1);
    const int first = add(&stages[1], GY_VIRTUAL_WORK, 1, -1, -1);
    const int receive = add(&stages[1], GY_VIRTUAL_ARRIVAL, 0, -1, -1);
    const int b = add(&stages[1], GY_VIRTUAL_WORK, 3, receive, first);
    const int answer = add(&stages[1], GY_VIRTUAL_NEAR, 1, b, -1);
    stages[0].tasks[send].is_send = stages[1].tasks[answer].is_send = true;
    stages[0].tasks[send].peer = stages[0].tasks[back].peer = 1;
    stages[1].tasks[receive].peer = stages[1].tasks[answer].peer = 0;
    stages[0].tasks[send].tag = stages[1].tasks[receive].tag = 7;
    stages[0].tasks[back].tag = stages[1].tasks[answer].tag = 8;
}

GY_TEST(test_messages)
{
    fixture stages[STAGES_MAX];
    gy_virtual_span spans[STAGES_MAX];
    messages(stages);
    play(stages, 2, GY_PART_TOGETHER, spans);
    assert_span(&spans[0], 8, 3, 2); /* its send, and the answer under way; 3 of waiting */
    assert_span(&spans[1], 7, 4, 2);
    play(stages, 2, GY_PART_ALONE, spans);
    assert_span(&spans[0], 3, 3, 0);
    assert_span(&spans[1], 4, 4, 0);
    stages[1].tasks[1].tag = 9; /* nobody sends it */
    const int32_t segments[2][4] = {{0, 0, 1, 1}, {0, 0, 1, 2}};
    const gy_virtual_program programs[] = {{.graph = stages[0].graph,
                                            .tasks = stages[0].tasks,
                                            .count = stages[0].count,
                                            .segments = segments[0]},
                                           {.graph = stages[1].graph,
                                            .tasks = stages[1].tasks,
                                            .count = stages[1].count,
                                            .segments = segments[1]}};
    assert_ok(gy_virtual_program_play_range(programs, 2, (gy_virtual_range){0, 1}, spans));
    assert_span(&spans[0], 2, 2, 0);
    assert_span(&spans[1], 1, 1, 0);
    /* what the first segment makes is there, and so is what comes */
    assert_ok(gy_virtual_program_play_range(programs, 2, (gy_virtual_range){1, 3}, spans));
    assert_span(&spans[0], 1, 1, 0);
    assert_span(&spans[1], 3, 3, 0);
    assert_status(gy_virtual_program_play(programs, 2, GY_PART_TOGETHER, spans), GY_STATE);
    gy_graph_free(stages[0].graph);
    gy_graph_free(stages[1].graph);
}

/* Lines through what was measured, each operator its own; neither part below 0. */
GY_TEST(test_rates)
{
    gy_kernel_point points[] = {{"b", 1, 5},   {"a", 1, 3},   {"a", 2, 5}, {"a", 4, 9},
                                {"b", 1, 7},   {"c", 1, 1},   {"c", 2, 0}, {"d", 0, 2},
                                {"e", 1, 0.5}, {"e", 2, 1.75}};
    gy_kernel_rates *rates = NULL;
    assert_ok(gy_kernel_rates_fit(points, GY_COUNT(points), 0.25, &rates));
    assert_true(fabs(gy_kernel_rates_seconds(rates, "a", 8) - (0.25 + 1 + 16)) < 1e-9);
    assert_true(fabs(gy_kernel_rates_seconds(rates, "b", 0.5) - (0.25 + 3)) < 1e-9);
    assert_true(fabs(gy_kernel_rates_seconds(rates, "c", 3) - (0.25 + 1)) < 1e-9);
    assert_true(fabs(gy_kernel_rates_seconds(rates, "d", 0) - (0.25 + 2)) < 1e-9);
    assert_true(fabs(gy_kernel_rates_seconds(rates, "e", 1) - (0.25 + 0.8)) < 1e-9);
    assert_true(fabs(gy_kernel_rates_seconds(rates, "new", 15) - (0.25 + 34.25)) < 1e-9);
    gy_kernel_rates_free(rates);
}

GY_TEST_MAIN(NULL, NULL)
