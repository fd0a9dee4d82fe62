/* The cheapest cut of a network, by a largest flow through it. */
#include "graph/devices/devices.h"

#include <string.h>

typedef struct gy_devices_network_edge {
    int32_t to, next; /* next: of the same vertex; -1: none */
    int64_t left;     /* capacity that no flow uses */
} gy_devices_network_edge;

typedef struct search {
    gy_devices_network *flow;
    int32_t *level; /* vertex -> edges from vertex 0; -1: it is not reached */
    int32_t *at;    /* vertex -> the next of its edges to try */
    int32_t *queue, *path;
} search;

gy_status gy_devices_network_begin(gy_devices_network *flow, int32_t vertices)
{
    GY_ASSERT(vertices >= 2);
    *flow = (gy_devices_network){.vertices = vertices};
    flow->first = gy_alloc("graph.flow", (size_t)vertices * sizeof(*flow->first));
    if (flow->first == NULL) {
        return GY_NOMEM;
    }
    for (int32_t i = 0; i < vertices; i++) {
        flow->first[i] = -1;
    }
    return GY_OK;
}

void gy_devices_network_free(gy_devices_network *flow)
{
    gy_free(flow->edges);
    gy_free(flow->first);
    *flow = (gy_devices_network){.vertices = 0};
}

gy_status gy_devices_network_add(gy_devices_network *flow, int32_t from, int32_t to,
                                 int64_t capacity)
{
    GY_ASSERT(from >= 0 && from < flow->vertices && to >= 0 && to < flow->vertices);
    GY_ASSERT(capacity >= 0 && capacity <= GY_DEVICES_NEVER_CUT);
    GY_TRY(GY_GROW("graph.flow", flow->edges, flow->edge_capacity, flow->edge_count + 2));
    gy_devices_network_edge *edge = &flow->edges[flow->edge_count];
    edge[0] = (gy_devices_network_edge){.to = to, .next = flow->first[from], .left = capacity};
    flow->first[from] = (int32_t)flow->edge_count;
    edge[1] = (gy_devices_network_edge){.to = from, .next = flow->first[to], .left = 0};
    flow->first[to] = (int32_t)flow->edge_count + 1;
    flow->edge_count += 2;
    return GY_OK;
}

/* How far each vertex is from the first along edges with room. Is the second reached? */
static bool find_levels(search *s)
{
    int32_t head = 0, tail = 0;
    GY_ASSERT(s->flow->vertices >= 2);
    for (int32_t i = 0; i < s->flow->vertices; i++) {
        s->level[i] = -1;
        s->at[i] = s->flow->first[i];
    }
    s->level[0] = 0;
    s->queue[tail++] = 0;
    while (head < tail) {
        const int32_t vertex = s->queue[head++];
        GY_ASSERT(s->level[vertex] >= 0);
        for (int32_t e = s->flow->first[vertex]; e >= 0; e = s->flow->edges[e].next) {
            const gy_devices_network_edge *edge = &s->flow->edges[e];
            if (edge->left > 0 && s->level[edge->to] < 0) {
                s->level[edge->to] = s->level[vertex] + 1;
                s->queue[tail++] = edge->to;
            }
        }
    }
    return s->level[1] >= 0;
}

/* The next edge with room to the next level; -1: there is none. */
static int32_t next_edge(search *s, int32_t vertex)
{
    GY_ASSERT(vertex >= 0 && vertex < s->flow->vertices);
    for (; s->at[vertex] >= 0; s->at[vertex] = s->flow->edges[s->at[vertex]].next) {
        const gy_devices_network_edge *edge = &s->flow->edges[s->at[vertex]];
        if (edge->left > 0 && s->level[edge->to] == s->level[vertex] + 1) {
            return s->at[vertex];
        }
    }
    return -1;
}

/* Send what a path to the second vertex takes; where it is full first, the search goes on. */
static int32_t fill(search *s, int32_t length, int64_t *sent)
{
    int64_t most = INT64_MAX;
    int32_t full = 0;
    GY_ASSERT(length > 0);
    for (int32_t i = 0; i < length; i++) {
        most = GY_MIN(most, s->flow->edges[s->path[i]].left);
    }
    for (int32_t i = length - 1; i >= 0; i--) {
        s->flow->edges[s->path[i]].left -= most;
        s->flow->edges[s->path[i] ^ 1].left += most;
        full = s->flow->edges[s->path[i]].left == 0 ? i : full;
    }
    GY_ASSERT(most > 0);
    *sent += most;
    return full;
}

/* Paths through all levels until none is left. Returns what they took, or where it cannot be
 * what edges with an end take. */
static int64_t send(search *s)
{
    int64_t sent = 0;
    int32_t length = 0, vertex = 0;
    GY_ASSERT(s->level[1] > 0);
    while (sent < GY_DEVICES_NEVER_CUT) {
        const int32_t edge = vertex == 1 ? -1 : next_edge(s, vertex);
        if (vertex == 1) {
            length = fill(s, length, &sent);
            vertex = s->flow->edges[s->path[length] ^ 1].to;
        } else if (edge >= 0) {
            s->path[length++] = edge;
            vertex = s->flow->edges[edge].to;
        } else if (length == 0) {
            break;
        } else {
            s->level[vertex] = -1; /* no way from here */
            vertex = s->flow->edges[s->path[--length] ^ 1].to;
        }
    }
    return sent;
}

gy_status gy_devices_network_cut(gy_devices_network *flow, bool *stays)
{
    const size_t vertices = (size_t)flow->vertices;
    gy_arena arena = {0};
    int64_t sent = 0;
    search s = {.flow = flow,
                .level = gy_arena_alloc(&arena, vertices * sizeof(int32_t)),
                .at = gy_arena_alloc(&arena, vertices * sizeof(int32_t)),
                .queue = gy_arena_alloc(&arena, vertices * sizeof(int32_t)),
                .path = gy_arena_alloc(&arena, vertices * sizeof(int32_t))};
    GY_ASSERT(vertices >= 2);
    const bool is_there = s.level != NULL && s.at != NULL && s.queue != NULL && s.path != NULL;
    while (is_there && sent < GY_DEVICES_NEVER_CUT && find_levels(&s)) {
        sent += send(&s);
    }
    for (size_t i = 0; is_there && i < vertices; i++) {
        stays[i] = s.level[i] >= 0;
    }
    GY_ASSERT(!is_there || sent >= GY_DEVICES_NEVER_CUT || (stays[0] && !stays[1]));
    gy_arena_free(&arena);
    if (!is_there) {
        return GY_NOMEM;
    }
    return sent < GY_DEVICES_NEVER_CUT
               ? GY_OK
               : gy_fail(GY_STATE, "every cut has an edge that is never cut");
}
