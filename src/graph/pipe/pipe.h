/** Pipelines: the program of a rank in segments, and its instances for micro-batches. */
#ifndef GY_GRAPH_PIPE_PIPE_H
#define GY_GRAPH_PIPE_PIPE_H

#include "graph/session.h"

/**
 * Segments of a rank with v stages, 0 to 3 v - 1 in the order in which a micro-batch passes
 * them: forward of its first stage, of its second, …; then for its last stage down to its first
 * the gradients of inputs, and behind them those of parameters.
 */
static inline int gy_pipe_segment_count(int chunks)
{
    return 3 * chunks;
}
static inline int gy_pipe_forward(int chunks, int chunk)
{
    GY_ASSERT(chunk >= 0 && chunk < chunks);
    return chunk;
}
static inline int gy_pipe_input(int chunks, int chunk)
{
    GY_ASSERT(chunk >= 0 && chunk < chunks);
    return chunks + 2 * (chunks - 1 - chunk);
}
static inline int gy_pipe_weight(int chunks, int chunk)
{
    return gy_pipe_input(chunks, chunk) + 1;
}

/**
 * Order a compiled graph that was cut with a loss by segments: forward is what messages of the
 * forward pass and the loss need, as late as they do; the gradients of inputs what messages of
 * the backward pass need; all else follows what it reads.
 *
 * @param segments (nodes of `out`) ascend; the caller's to gy_free
 * @return GY_OK; GY_ARG a parameter is read in another segment than it is assigned in; GY_STATE
 *         a pass has joined nodes of both passes; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_pipe_order(const gy_graph *in, gy_graph **out, int32_t **segments);

/** Does the list say W apart from I? */
bool gy_pipe_has_weight(const gy_pipe_list *list);
/**
 * Where no list says W apart from I, B is one segment: what goes from the gradients of inputs
 * to those of parameters leaves it no more, and the same memory serves all micro-batches.
 */
void gy_pipe_join(int32_t *segments, int32_t count, int chunks);

/** Where the micro-batches of a rank's list are kept. */
typedef struct gy_pipe_places {
    int32_t *slot; /* micro-batch -> in whose memory it is; -1: it has no rows, or no action */
    int32_t *turn; /* micro-batch -> which of the slot's two instances it has */
    size_t *last;  /* micro-batch -> the index behind its last action that computes */
    int slots;     /* as many as are alive at a time */
} gy_pipe_places;

/** Give each micro-batch with rows a slot from its first action to its last; the one that is
 * free for longest. Those of a slot take its instances in turn. GY_NOMEM. gy_pipe_places_free
 * in any case */
GY_MUST_CHECK gy_status gy_pipe_place(const gy_pipe_list *list, const gy_micro_batch *micros,
                                      int count, gy_pipe_places *places);
void gy_pipe_places_free(gy_pipe_places *places);
static inline bool gy_pipe_computes(int32_t kind)
{
    return kind == GY_PIPE_FORWARD || kind == GY_PIPE_BACKWARD ||
           kind == GY_PIPE_BACKWARD_INPUT || kind == GY_PIPE_BACKWARD_WEIGHT;
}

enum { GY_PIPE_TURNS = 2 };

/**
 * Before a run's programs are asked for: those of other fetches go, and all where there would
 * be too many numbers of rows. None goes while the run uses it.
 */
void gy_pipe_make_way(gy_session *session, const gy_micro_run *run, const gy_planned_run *each);
/**
 * The program for micro-batches of so many rows in a slot, of its two instances the one whose
 * turn it is; made when it is first asked for. The two have one memory, whose variables order
 * what they do: the next micro-batch may be pushed while one runs. Those of other numbers of
 * rows lie in the same memory, too, with variables of their own.
 */
GY_MUST_CHECK gy_status gy_pipe_program(gy_session *session, const gy_planned_run *run,
                                        int slot, int turn, gy_program **program);

#endif
