/* The stand-in's graphs: what is pushed to a stream while it is captured becomes a list of
 * work, which each launch pushes again. */
#include "standin/standin_priv.h"

#include <stdio.h>
#include <sys/mman.h>

enum {
    GRAPHS_MAX = 256,
    NODES_MAX = 4096,
    USES_MAX = 64,
    INVALIDATED = GY_CUDA_CAPTURE_INVALIDATED
};

/* Work as it was pushed, and the blocks that it uses. */
typedef struct node {
    standin_work work;
    struct {
        gy_cuda_address address;
        bool writes;
    } uses[USES_MAX];
    int use_count;
    const char *by;
} node;

struct gy_cuda_graph {
    bool is_alive;
    int count;
    node *nodes; /* room for NODES_MAX, of which the kernel gives those that are touched */
};
struct gy_cuda_graph_exec {
    gy_cuda_graph graph; /* its own */
};

static gy_cuda_graph graphs[GRAPHS_MAX];
static gy_cuda_graph_exec execs[GRAPHS_MAX];
static _Thread_local gy_cuda_stream *captured; /* by this thread */
static bool is_invalid;                        /* a call failed since */

/* ---- capture ---- */

void standin_capture_check(const char *symbol)
{
    const gy_cuda_symbols *may = &standin_symbol;
    const char *const allowed[] = {may->launch_kernel, may->copy_within, may->memory_set,
                                   may->capture_end};
    if (captured == NULL) {
        return;
    }
    for (size_t i = 0; i < GY_COUNT(allowed); i++) {
        if (symbol == allowed[i]) {
            return;
        }
    }
    standin_complain("%s: while this thread captures a stream", symbol);
    is_invalid = true;
}

void standin_capture_failed(void)
{
    is_invalid = is_invalid || captured != NULL;
}

static node *add_node(gy_cuda_graph *graph)
{
    if (graph->nodes == NULL) {
        graph->nodes = mmap(NULL, NODES_MAX * sizeof(node), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        STANDIN_EXPECT(graph->nodes != MAP_FAILED);
        STANDIN_FORGET(graph->nodes, NODES_MAX * sizeof(node));
    }
    STANDIN_EXPECT(graph->count < NODES_MAX);
    return &graph->nodes[graph->count++];
}

standin_work *standin_capture_push(gy_cuda_stream *stream, standin_kind kind)
{
    if (stream != captured) {
        standin_complain("work of another thread in stream %d, which is captured",
                         stream->index);
    }
    node *added = add_node(stream->graph);
    added->work.kind = kind;
    return &added->work;
}

void standin_capture_use(gy_cuda_stream *stream, const standin_block *block, bool writes,
                         const char *by)
{
    node *last = &stream->graph->nodes[stream->graph->count - 1];
    STANDIN_EXPECT(last->use_count < USES_MAX);
    last->by = by;
    last->uses[last->use_count].address = block->address;
    last->uses[last->use_count++].writes = writes;
}

static int capture_begin(gy_cuda_stream *stream, int mode)
{
    const char *by = standin_symbol.capture_begin;
    if (!standin_is_stream(stream, by)) {
        return GY_CUDA_INVALID_HANDLE;
    }
    if (mode != GY_CUDA_CAPTURE_THREAD || stream->graph != NULL) {
        return standin_refuse(by, "another mode, or the stream is captured already");
    }
    int i = 0;
    while (i < GRAPHS_MAX && graphs[i].is_alive) {
        i++;
    }
    if (i == GRAPHS_MAX) {
        return GY_CUDA_OUT_OF_MEMORY;
    }
    graphs[i] = (gy_cuda_graph){.is_alive = true};
    stream->graph = &graphs[i];
    captured = stream;
    is_invalid = false;
    standin_count_live(1);
    return 0;
}

static void end_graph(gy_cuda_graph *graph)
{
    if (graph->nodes != NULL) {
        STANDIN_EXPECT(munmap(graph->nodes, NODES_MAX * sizeof(node)) == 0);
    }
    *graph = (gy_cuda_graph){.is_alive = false};
    standin_count_live(-1);
}

/* A capture ends whatever the call returns, as the driver says of it. */
static int capture_end(gy_cuda_stream *stream, gy_cuda_graph **graph, int failure)
{
    const char *by = standin_symbol.capture_end;
    *graph = NULL;
    if (!standin_is_stream(stream, by)) {
        return GY_CUDA_INVALID_HANDLE;
    }
    if (captured != stream || stream->graph == NULL) {
        return standin_refuse(by, "this thread captures no such stream");
    }
    gy_cuda_graph *made = stream->graph;
    stream->graph = NULL;
    captured = NULL;
    if (is_invalid || failure != 0) {
        end_graph(made);
        return failure != 0 ? failure : INVALIDATED;
    }
    *graph = made;
    return 0;
}

int standin_capture_begin(gy_cuda_stream *stream, int mode)
{
    const int code = standin_enter_context(standin_symbol.capture_begin);
    return standin_leave(code != 0 ? code : capture_begin(stream, mode));
}

int standin_capture_end(gy_cuda_stream *stream, gy_cuda_graph **graph)
{
    const int failure = standin_enter_context(standin_symbol.capture_end);
    return standin_leave(capture_end(stream, graph, failure));
}

/* ---- graphs ---- */

static bool is_graph(const gy_cuda_graph *graph, const char *symbol)
{
    const bool is_one = graph >= graphs && graph < graphs + GRAPHS_MAX && graph->is_alive;
    if (!is_one) {
        standin_complain("%s: no graph", symbol);
    }
    return is_one;
}

static bool is_exec(const gy_cuda_graph_exec *exec, const char *symbol)
{
    const bool is_one = exec >= execs && exec < execs + GRAPHS_MAX && exec->graph.is_alive;
    if (!is_one) {
        standin_complain("%s: no graph that was instantiated", symbol);
    }
    return is_one;
}

static int instantiate(gy_cuda_graph_exec **exec, const gy_cuda_graph *graph,
                       unsigned long long flags)
{
    const char *by = standin_symbol.graph_instantiate;
    if (!is_graph(graph, by)) {
        return GY_CUDA_INVALID_HANDLE;
    }
    if (flags != 0) {
        return standin_refuse(by, "unknown flags");
    }
    int i = 0;
    while (i < GRAPHS_MAX && execs[i].graph.is_alive) {
        i++;
    }
    if (i == GRAPHS_MAX) {
        return GY_CUDA_OUT_OF_MEMORY;
    }
    execs[i].graph = (gy_cuda_graph){.is_alive = true};
    for (int k = 0; k < graph->count; k++) {
        *add_node(&execs[i].graph) = graph->nodes[k];
    }
    *exec = &execs[i];
    standin_count_live(1);
    return 0;
}

/* Push it again; its memory lies where it lay. */
static int push_again(const node *n, gy_cuda_stream *stream)
{
    standin_block *blocks[USES_MAX];
    if (n->work.kind == STANDIN_LAUNCH && !n->work.function->is_alive) {
        standin_complain("cuGraphLaunch: %s is of a module that is unloaded", n->by);
        return GY_CUDA_INVALID_VALUE;
    }
    for (int i = 0; i < n->use_count; i++) {
        blocks[i] = standin_block_of(n->uses[i].address, 0, n->by);
        if (blocks[i] == NULL) {
            return GY_CUDA_INVALID_VALUE;
        }
    }
    standin_work *work = standin_push(stream, n->work.kind);
    *work = n->work;
    work->block_count = 0;
    for (int i = 0; i < n->use_count; i++) {
        int seen = 0;
        while (seen < work->block_count && work->blocks[seen] != blocks[i]) {
            seen++;
        }
        work->blocks[seen] = blocks[i];
        work->block_count = GY_MAX(work->block_count, seen + 1);
        standin_use_block(stream, blocks[i], n->uses[i].writes, n->by);
    }
    return 0;
}

static int launch(const gy_cuda_graph_exec *exec, gy_cuda_stream *stream)
{
    const char *by = standin_symbol.graph_launch;
    if (!is_exec(exec, by) || !standin_is_stream(stream, by)) {
        return GY_CUDA_INVALID_HANDLE;
    }
    int code = 0;
    for (int k = 0; k < exec->graph.count && code == 0; k++) {
        code = push_again(&exec->graph.nodes[k], stream);
    }
    return code;
}

static int destroy_graph(gy_cuda_graph *graph)
{
    if (!is_graph(graph, standin_symbol.graph_destroy)) {
        return GY_CUDA_INVALID_HANDLE;
    }
    end_graph(graph);
    return 0;
}

static int destroy_exec(gy_cuda_graph_exec *exec)
{
    if (!is_exec(exec, standin_symbol.graph_exec_destroy)) {
        return GY_CUDA_INVALID_HANDLE;
    }
    end_graph(&exec->graph);
    return 0;
}

STANDIN(standin_enter_context, graph_instantiate,
        (gy_cuda_graph_exec * *exec, gy_cuda_graph *graph, unsigned long long flags),
        instantiate(exec, graph, flags))
STANDIN(standin_enter_context, graph_launch,
        (gy_cuda_graph_exec * exec, gy_cuda_stream *stream), launch(exec, stream))
STANDIN_RELEASE(graph_destroy, (gy_cuda_graph * graph), destroy_graph(graph))
STANDIN_RELEASE(graph_exec_destroy, (gy_cuda_graph_exec * exec), destroy_exec(exec))
