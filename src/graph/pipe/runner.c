/*
 * A batch by a schedule: this rank's list is pushed to the engine in order. A micro-batch has
 * the memory of a slot from its first action to its last; an action pushes the segments of its
 * stage, whose messages start as soon as there is something to send or room to receive into.
 * Actions that stand earlier in the list go first among those that are ready, so that a rank
 * does what its list says, and something else only where it would wait.
 *
 * Each slot has two instances of the program, so that the next micro-batch is pushed while the
 * one before it runs: buffer by buffer it takes over the memory. An instance serves again when
 * all that it did has ended. Whoever waits for that has pushed all that stands before in its
 * list, and so do the others: the wait ends, since the lists passed the checker.
 */
#include "graph/pipe/pipe.h"

#include <string.h>

typedef struct runner {
    gy_session *session;
    const gy_micro_run *run;
    const gy_pipe_list *list;
    gy_value *fetches;
    gy_pipe_places places;
    gy_program **programs; /* (micro-batches) what runs each; NULL: not begun */
    int *occupant;         /* (slots, turns) micro-batch that has the instance; -1: none */
    gy_tensor **results;
    int chunks;
} runner;

static gy_planned_run planned(const runner *r, int micro)
{
    GY_ASSERT(micro >= 0 && micro < r->run->count);
    return (gy_planned_run){.batch = r->run->micros[micro].rows,
                            .fetches = r->fetches,
                            .fetch_count = r->run->fetch_count,
                            .loss = r->run->loss + 1,
                            .schedule = r->run->schedule};
}

/* All that the list will want, before anything of it runs. */
static gy_status make_programs(runner *r)
{
    const gy_planned_run first = planned(r, 0);
    gy_pipe_make_way(r->session, r->run, &first);
    for (int k = 0; k < r->run->count; k++) {
        gy_program *program = NULL;
        const gy_planned_run run = planned(r, k);
        GY_TRY(r->places.slot[k] < 0 ? GY_OK
                                     : gy_pipe_program(r->session, &run, r->places.slot[k],
                                                       r->places.turn[k], &program));
    }
    return GY_OK;
}

/* Where it stands who has an instance. */
static int *occupant_of(const runner *r, int slot, int turn)
{
    GY_ASSERT(slot >= 0 && slot < r->places.slots);
    GY_ASSERT(turn >= 0 && turn < GY_PIPE_TURNS);
    return &r->occupant[slot * GY_PIPE_TURNS + turn];
}

/* Its instance is free then. */
static gy_status finish(runner *r, int micro)
{
    gy_program *program = r->programs[micro];
    int *occupant = occupant_of(r, r->places.slot[micro], r->places.turn[micro]);
    GY_ASSERT(program != NULL && *occupant == micro);
    r->programs[micro] = NULL;
    *occupant = -1;
    gy_status status = gy_program_wait(program);
    if (status >= 0) {
        status =
            gy_program_take(program, r->results + (size_t)micro * (size_t)r->run->fetch_count);
        program->runs += status >= 0 ? 1 : 0;
    }
    gy_program_end(program);
    return status;
}

static gy_status begin(runner *r, int micro)
{
    const int slot = r->places.slot[micro], turn = r->places.turn[micro];
    const gy_planned_run run = planned(r, micro);
    int *own = occupant_of(r, slot, turn);
    int *other = occupant_of(r, slot, (turn + 1) % GY_PIPE_TURNS);
    if (*own >= 0) {
        GY_TRY(finish(r, *own));
    }
    if (*other >= 0 && r->programs[*other]->batch != run.batch) { /* no twin */
        GY_TRY(finish(r, *other));
    }
    GY_TRY(gy_pipe_program(r->session, &run, slot, turn, &r->programs[micro]));
    *own = micro;
    r->programs[micro]->used = ++r->session->runs;
    return gy_program_begin(r->programs[micro], &r->run->micros[micro], micro);
}

/* Of two ready steps that of the earlier action goes first. */
static int priority_of(const runner *r, size_t index, const gy_program *program)
{
    GY_ASSERT(index < r->list->count && program->step_count >= 0);
    const int64_t width = 2 * (int64_t)program->graph->node_count + 1;
    const int64_t priority = (int64_t)(r->list->count - index) * width;
    return (int)GY_MIN(priority, INT32_MAX / 2);
}

static gy_status act(runner *r, size_t index)
{
    const gy_pipe_action *action = &r->list->actions[index];
    const int v = r->chunks, micro = action->micro;
    if (!gy_pipe_computes(action->kind) || r->places.slot[micro] < 0) {
        return GY_OK;
    }
    if (r->programs[micro] == NULL) {
        GY_TRY(begin(r, micro));
    }
    gy_program *program = r->programs[micro];
    GY_ASSERT(gy_mesh_stage_rank(&r->session->mesh, action->stage) == r->session->mesh.stage);
    const int chunk = action->stage / r->session->mesh.stages;
    const int32_t from = action->kind == GY_PIPE_FORWARD           ? gy_pipe_forward(v, chunk)
                         : action->kind == GY_PIPE_BACKWARD_WEIGHT ? gy_pipe_weight(v, chunk)
                                                                   : gy_pipe_input(v, chunk);
    const int32_t count = action->kind == GY_PIPE_BACKWARD ? 2 : 1;
    return gy_program_push(program, from, from + count, priority_of(r, index, program));
}

/* Everything that was begun ends, also after a failure, of which the first is told. */
static gy_status finish_all(runner *r, gy_status status)
{
    gy_error first;
    GY_ASSERT(r->programs != NULL);
    if (status < 0) { /* or peers would wait for what is not pushed */
        status = gy_session_refuse(r->session, status);
    }
    gy_error_take(&first, status);
    for (int k = 0; k < r->run->count; k++) {
        if (r->programs[k] == NULL) {
            continue;
        }
        const gy_status ended = finish(r, k);
        if (ended < 0 && first.status >= 0) {
            gy_error_take(&first, gy_session_refuse(r->session, ended));
        }
    }
    return gy_error_raise(&first);
}

static gy_status run_list(runner *r)
{
    gy_status status = GY_OK;
    GY_ASSERT(r->places.slots <= r->run->count);
    for (size_t i = 0; i < r->list->count && status >= 0; i++) {
        status = act(r, i);
    }
    return finish_all(r, status);
}

static gy_status make_room(runner *r)
{
    static const char what[] = "graph.runner";
    const size_t n = (size_t)r->run->count;
    GY_ASSERT(r->list != NULL && r->results != NULL);
    r->fetches = gy_alloc(what, ((size_t)r->run->fetch_count + 1) * sizeof(*r->fetches));
    r->programs = gy_alloc_zero(what, n, sizeof(gy_program *));
    r->occupant = gy_alloc(what, n * GY_PIPE_TURNS * sizeof(int));
    if (r->fetches == NULL || r->programs == NULL || r->occupant == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < n * GY_PIPE_TURNS; i++) {
        r->occupant[i] = -1;
    }
    GY_TRY(gy_session_fetches(r->session, r->run->fetches, r->run->fetch_count, r->fetches));
    GY_TRY(gy_pipe_place(r->list, r->run->micros, r->run->count, &r->places));
    return make_programs(r);
}

/* A schedule of this mesh, for so many micro-batches, that passes the checker. */
static gy_status check(const gy_session *session, const gy_micro_run *run)
{
    const gy_pipe_schedule *schedule = run->schedule;
    const gy_mesh *mesh = &session->mesh;
    GY_ASSERT(schedule != NULL && mesh->pipe != NULL);
    if (session->hook != NULL) {
        return gy_fail(GY_ARG, "micro-batches by a schedule have no fetch hook");
    }
    if (run->loss < 0 || run->loss >= run->fetch_count) {
        return gy_fail(GY_ARG, "micro-batches: the loss is fetch %d, expected 0 to %d",
                       run->loss, run->fetch_count - 1);
    }
    if (schedule->ranks != mesh->stages || schedule->stages != gy_mesh_stages(mesh) ||
        schedule->micros != run->count) {
        return gy_fail(
            GY_ARG,
            "a schedule of %d ranks, %d stages and %d micro-batches for pipe=%d with "
            "%d stages and %d micro-batches",
            schedule->ranks, schedule->stages, schedule->micros, mesh->stages,
            gy_mesh_stages(mesh), run->count);
    }
    for (int s = 0; s < schedule->stages; s++) {
        if (schedule->rank_of[s] != gy_mesh_stage_rank(mesh, s)) {
            return gy_fail(GY_ARG, "the schedule has stage %d on rank %d, the mesh on rank %d",
                           s, schedule->rank_of[s], gy_mesh_stage_rank(mesh, s));
        }
    }
    return gy_pipe_check(schedule, &(gy_pipe_limits){.is_ordered = true}, NULL);
}

gy_status gy_session_run_pipe(gy_session *session, const gy_micro_run *run, gy_tensor **results)
{
    GY_ASSERT(session->mesh.stages > 1 && run->schedule != NULL && run->count >= 1);
    GY_TRY(check(session, run));
    runner r = {.session = session,
                .run = run,
                .list = &run->schedule->lists[session->mesh.stage],
                .results = results,
                .chunks = GY_MAX(session->mesh.chunks, 1)};
    gy_status status = make_room(&r);
    if (status < 0) {
        status = gy_session_refuse(session, status);
    } else {
        gy_meter_run(&session->meter, true);
        status = gy_session_meet(session, true, run_list(&r));
        gy_meter_run(&session->meter, false);
    }
    gy_pipe_places_free(&r.places);
    gy_free(r.fetches);
    gy_free(r.programs);
    gy_free(r.occupant);
    return status;
}
