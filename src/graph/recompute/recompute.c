/*
 * What the forward pass makes inside a chunk is dropped behind the chunk, and made again when
 * the way back comes there: its nodes are copied in front of the first node of the way back
 * that reads one of them, and all of the way back reads the copies.
 *
 * Copies read what the chunk read: values that cross its border, which are held, and leaves. A
 * copy has its node's attributes, placements and so its bits; dropout draws by the node's
 * stream and the step, so it draws the same. Results of exchanges are held, for a copy would
 * exchange again, but for those that are larger than what they are made of. The last chunk is
 * not made again: the way back begins there.
 *
 * The pass stands behind placement, so that copies cost no search and lie where the originals
 * do, and before exchanges have their numbers. Common subexpressions are not sought any more
 * then; fusion keeps copies and originals apart by their marks, schedule keeps exchanges of
 * copies at their places.
 *
 * @cost a few walks over the graph
 * @source Chen, Xu, Zhang & Guestrin, "Training deep nets with sublinear memory cost", 2016;
 * Griewank & Walther, "Revolve", 2000
 */
#include "graph/recompute/recompute.h"
#include "graph/stages/stages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct chunk {
    int32_t first, end; /* places [first, end) */
    int32_t next;       /* the place of the copy that is made next */
    double saved_bytes, again_s;
    bool is_again;
} chunk;

typedef struct remaker {
    gy_pass pass;
    gy_recompute_line line;
    chunk *chunks;
    int32_t chunk_count;
    int32_t *chunk_of; /* node -> its chunk; -1 */
    bool *is_wanted;   /* node -> a copy is wanted */
    gy_value *copy;    /* value number of `in` -> its copy; GY_NO_VALUE */
} remaker;

/* ---- chunks ---- */

/* Chunks end where fewest values cross, of the middle half of the line: where one does between
 * layers, or that and what the loss reads of the inputs. A graph that has one such place at
 * most may be cut anywhere. */
static void find_narrow(const int32_t *crossing, int32_t count, bool *may)
{
    const int32_t first = count / 4, end = count - count / 4;
    int32_t fewest = INT32_MAX, narrow = 0;
    for (int32_t place = first; place < end; place++) {
        GY_ASSERT(crossing[place] >= 0);
        fewest = GY_MIN(fewest, crossing[place]);
    }
    for (int32_t place = first; place < end; place++) {
        narrow += crossing[place] == fewest ? 1 : 0;
    }
    for (int32_t place = 0; place < count; place++) {
        may[place] = crossing[place] <= fewest || narrow < 2 || place == count - 1;
    }
}

static gy_status find_ends(remaker *r, int32_t *ends)
{
    GY_ASSERT(r->line.count > 0);
    const gy_recompute_line *line = &r->line;
    const gy_graph *in = r->pass.in;
    const size_t size = (size_t)line->count + 1;
    gy_arena arena = {0};
    double *cross = gy_arena_alloc(&arena, size * sizeof(*cross));
    double *inside = gy_arena_alloc(&arena, size * sizeof(*inside));
    int32_t *crossing = gy_arena_alloc(&arena, size * sizeof(*crossing));
    bool *may = gy_arena_alloc(&arena, size * sizeof(*may));
    if (cross == NULL || inside == NULL || crossing == NULL || may == NULL) {
        gy_arena_free(&arena);
        return GY_NOMEM;
    }
    for (int32_t place = 0; place < line->count; place++) {
        const gy_graph_node *node = &in->nodes[line->nodes[place]];
        for (int32_t value = node->first_value; value < node->first_value + node->output_count;
             value++) {
            inside[place] +=
                line->is_read[value] && !line->is_held[value] ? line->bytes[value] : 0;
            cross[place] += line->bytes[value];
            cross[line->last[value]] -= line->bytes[value];
            crossing[place] += line->base[value] == value ? 1 : 0;
            crossing[line->last[value]] -= line->base[value] == value ? 1 : 0;
        }
    }
    for (int32_t place = 0; place < line->count; place++) {
        cross[place] = fmax(cross[place] + (place > 0 ? cross[place - 1] : 0), 0);
        crossing[place] += place > 0 ? crossing[place - 1] : 0;
    }
    find_narrow(crossing, line->count, may);
    const gy_status status =
        gy_recompute_cut(cross, inside, may, line->count, ends, &r->chunk_count);
    gy_arena_free(&arena);
    return status;
}

/* What crosses the border of its chunk is held. */
static void hold_borders(remaker *r)
{
    gy_recompute_line *line = &r->line;
    for (int32_t place = 0; place < line->count; place++) {
        const int32_t index = line->nodes[place];
        const gy_graph_node *node = &r->pass.in->nodes[index];
        const int32_t end = r->chunks[r->chunk_of[index]].end;
        GY_ASSERT(place < end);
        for (int32_t k = 0; k < node->output_count; k++) {
            const int32_t value = node->first_value + k;
            line->is_held[value] = line->is_held[value] || line->last[value] >= end;
        }
    }
}

/* Does the node read a copy of its input k, should there be one? */
static bool reads_copy(const remaker *r, int32_t index, int k)
{
    GY_ASSERT(k >= 0 && k < r->pass.in->nodes[index].input_count);
    const gy_recompute_line *line = &r->line;
    const gy_value input = r->pass.in->nodes[index].inputs[k];
    return r->chunk_of[input.node] >= 0 &&
           !line->is_held[line->base[gy_graph_value(r->pass.in, input)]] &&
           (line->stage == NULL || line->stage[input.node] == line->stage[index]);
}

/* Behind all readers of a node: is a copy of it wanted? */
static void find_wanted(remaker *r)
{
    const gy_graph *in = r->pass.in;
    gy_graph part = *in; /* as another rank sees it; borrows everything */
    part.mesh = gy_mesh_largest(&in->mesh);
    for (int32_t i = in->node_count - 1; i >= 0; i--) {
        const gy_graph_node *node = &in->nodes[i];
        if (r->line.phase[i] != GY_PHASE_BACKWARD && !r->is_wanted[i]) {
            continue;
        }
        for (int k = 0; k < node->input_count; k++) {
            r->is_wanted[node->inputs[k].node] |= reads_copy(r, i, k);
        }
        if (r->is_wanted[i]) {
            GY_ASSERT(r->chunk_of[i] >= 0);
            chunk *own = &r->chunks[r->chunk_of[i]];
            own->again_s += gy_stages_work(&part, i);
            GY_ASSERT(own->again_s >= 0);
            for (int32_t k = 0; k < node->output_count; k++) {
                const int32_t value = node->first_value + k;
                const bool is_saved = r->line.is_read[value] && !r->line.is_held[value];
                own->saved_bytes += is_saved ? r->line.bytes[value] : 0;
            }
        }
    }
}

/* Bytes a second; of equals the earlier chunk, whose values are held longer. */
static int32_t best_chunk(const remaker *r)
{
    GY_ASSERT(r->chunk_count >= 1);
    int32_t best = -1;
    for (int32_t i = 0; i < r->chunk_count - 1; i++) {
        const chunk *c = &r->chunks[i];
        if (c->is_again || c->saved_bytes == 0) {
            continue;
        }
        if (best < 0 || c->saved_bytes * r->chunks[best].again_s >
                            r->chunks[best].saved_bytes * c->again_s) {
            best = i;
        }
    }
    return best;
}

static gy_status find_chunks(remaker *r)
{
    const gy_recompute_line *line = &r->line;
    int32_t *ends = gy_alloc("graph.recompute", ((size_t)line->count + 1) * sizeof(*ends));
    gy_status status = ends == NULL ? GY_NOMEM : find_ends(r, ends);
    int32_t first = 0;
    for (int32_t i = 0; status >= 0 && i < r->chunk_count; i++) {
        r->chunks[i] = (chunk){.first = first, .end = ends[i] + 1, .next = first};
        for (; first <= ends[i]; first++) {
            r->chunk_of[line->nodes[first]] = i;
        }
    }
    gy_free(ends);
    GY_TRY(status);
    GY_ASSERT(first == line->count);
    hold_borders(r);
    find_wanted(r);
    for (int32_t made = 0; made < r->pass.in->recompute_max; made++) {
        const int32_t best = best_chunk(r);
        if (best < 0) {
            break;
        }
        r->chunks[best].is_again = true;
        r->pass.out->recomputed++;
    }
    return GY_OK;
}

/* ---- copies ---- */

static gy_status copy_node(remaker *r, int32_t index)
{
    const gy_graph_node *node = &r->pass.in->nodes[index];
    gy_graph *out = r->pass.out;
    gy_value inputs[GY_OP_INPUTS_MAX];
    for (int k = 0; k < node->input_count; k++) {
        inputs[k] = gy_pass_get(&r->pass, node->inputs[k]);
        if (reads_copy(r, index, k)) {
            inputs[k] = r->copy[gy_graph_value(r->pass.in, node->inputs[k])];
        }
        GY_ASSERT(!gy_value_is_none(inputs[k]));
    }
    GY_ASSERT(r->is_wanted[index] && r->line.phase[index] == GY_PHASE_FORWARD);
    gy_text name = {.data = NULL};
    gy_text_add(&name, "%s.again", node->name);
    GY_TRY(name.status);
    const gy_value value =
        gy_graph_apply_typed(out, node->op, &node->attributes, inputs, node->input_count,
                             node->types, node->output_count, name.data);
    gy_text_free(&name);
    GY_TRY(gy_graph_status(out));
    gy_graph_inherit(&out->nodes[value.node], node);
    out->nodes[value.node].mark.chunk = r->chunk_of[index] + 1;
    out->nodes[value.node].mark.is_again = true;
    for (int32_t k = 0; k < node->output_count; k++) {
        r->copy[node->first_value + k] = (gy_value){value.node, k};
    }
    return GY_OK;
}

/* The copies of a chunk that a node of the way back may read. */
static gy_status copy_before(remaker *r, int32_t number, int32_t index)
{
    chunk *c = &r->chunks[number];
    GY_ASSERT(c->is_again && number < r->chunk_count - 1);
    for (; c->next < c->end && r->line.nodes[c->next] < index; c->next++) {
        const int32_t node = r->line.nodes[c->next];
        if (r->is_wanted[node]) {
            GY_TRY(copy_node(r, node));
        }
    }
    return GY_OK;
}

static gy_status emit_backward(remaker *r, int32_t index)
{
    const gy_graph_node *node = &r->pass.in->nodes[index];
    gy_value originals[GY_OP_INPUTS_MAX];
    bool is_copied[GY_OP_INPUTS_MAX] = {false};
    for (int k = 0; k < node->input_count; k++) {
        originals[k] = gy_pass_get(&r->pass, node->inputs[k]);
        const int32_t own = r->chunk_of[node->inputs[k].node];
        if (own >= 0 && r->chunks[own].is_again && reads_copy(r, index, k)) {
            GY_TRY(copy_before(r, own, index));
            is_copied[k] = true;
        }
    }
    for (int k = 0; k < node->input_count; k++) {
        if (is_copied[k]) {
            gy_pass_set(&r->pass, node->inputs[k],
                        r->copy[gy_graph_value(r->pass.in, node->inputs[k])]);
        }
    }
    gy_pass_copy(&r->pass, index);
    for (int k = 0; k < node->input_count; k++) {
        gy_pass_set(&r->pass, node->inputs[k], originals[k]);
    }
    return gy_graph_status(r->pass.out);
}

static gy_status emit_all(remaker *r)
{
    GY_ASSERT(r->pass.out->node_count == 0);
    const gy_graph *in = r->pass.in;
    for (int32_t i = 0; i < in->node_count; i++) {
        if (r->line.phase[i] == GY_PHASE_BACKWARD) {
            GY_TRY(emit_backward(r, i));
            continue;
        }
        const gy_value value = gy_pass_copy(&r->pass, i);
        GY_TRY(gy_graph_status(r->pass.out));
        if (r->chunk_of[i] >= 0) {
            r->pass.out->nodes[value.node].mark.chunk = r->chunk_of[i] + 1;
        }
    }
    return GY_OK;
}

static gy_status remake(remaker *r)
{
    const gy_graph *in = r->pass.in;
    const size_t nodes = (size_t)in->node_count + 1, values = (size_t)in->value_count + 1;
    GY_ASSERT(r->chunk_count == 0 && r->pass.out->recomputed == 0);
    GY_TRY(gy_recompute_line_find(in, &r->line));
    gy_arena *arena = &r->line.arena;
    r->chunks = gy_arena_alloc(arena, nodes * sizeof(*r->chunks));
    r->chunk_of = gy_arena_alloc(arena, nodes * sizeof(*r->chunk_of));
    r->is_wanted = gy_arena_alloc(arena, nodes * sizeof(*r->is_wanted));
    r->copy = gy_arena_alloc(arena, values * sizeof(*r->copy));
    if (r->chunks == NULL || r->chunk_of == NULL || r->is_wanted == NULL || r->copy == NULL) {
        return GY_NOMEM;
    }
    for (int32_t i = 0; i < in->node_count; i++) {
        r->chunk_of[i] = -1;
    }
    for (int32_t i = 0; i < in->value_count; i++) {
        r->copy[i] = GY_NO_VALUE;
    }
    if (r->line.count > 0) {
        GY_TRY(find_chunks(r));
    }
    r->pass.out->cuts = r->line.cuts.count > 0 ? r->line.cuts : in->cuts;
    return emit_all(r);
}

gy_status gy_graph_recompute(gy_graph *graph, int chunks_max)
{
    GY_TRY(gy_graph_status(graph));
    if (chunks_max < 0) {
        return gy_fail(GY_ARG, "recompute: %d chunks, expected 0 or more", chunks_max);
    }
    graph->recompute_max = chunks_max;
    return GY_OK;
}

gy_status gy_recompute_chunks(const gy_graph *in, gy_graph **out)
{
    GY_ASSERT(in->is_placed && in->recompute_max > 0);
    remaker r = {.chunk_count = 0};
    gy_graph *whole = NULL;
    GY_TRY(gy_pass_begin(&r.pass, in));
    const gy_status status = remake(&r);
    gy_recompute_line_free(&r.line);
    GY_TRY(gy_pass_end(&r.pass, status, &whole));
    const gy_status last = gy_rewrite_dead(whole, out); /* what the way back alone had read */
    gy_graph_free(whole);
    return last;
}
