/*
 * The simulator: all ranks of a plan on a virtual clock. Unlike the cost model, it serves
 * messages on shared links in the order of their times, and it simulates failures.
 *
 * A rank runs ahead of the clock until it must wait, because its behaviour depends only on its
 * own steps and on messages. A message takes its sender's outgoing link when that is free. Its
 * head then reaches one link after another (the uplink of the host, the downlink of the other
 * host, the receiver's incoming link), each an event of the agenda, while its tail still leaves
 * the previous link (cut-through). No allocation for each message.
 *
 * The link sends a lost message again after `retry` seconds; later messages wait. A rank that
 * fails at a time does nothing from then on; messages that have left its link arrive.
 */
#include "plan/simulate_priv.h"

#include "base/base.h"

#include <math.h>
#include <string.h>

enum { TRIES = 16, TABLE_BLOCKS = 1 << 22 };

typedef enum link_kind { LINK_UP, LINK_DOWN, LINK_IN } link_kind;

typedef struct sim_run {
    const gy_algorithm *algorithm;
    const gy_plan_request *request;
    const gy_links *links;
    const gy_fault_model *faults;
    gy_layout layout;
    int64_t element_bytes, slot_bytes;
    /* (blocks + 1) bytes before each block; NULL: too many blocks */
    double *starts;
    gy_sim_rank *ranks;          /* (p) */
    gy_sim_step *steps;          /* (p, GY_SIM_WINDOW) */
    double *up_free, *down_free; /* (hosts) */
    gy_agenda agenda;
    gy_plan_unexpected_table early;
    gy_plan_shared *shared;
    gy_plan_request own; /* the request with its shared data */
    gy_simulation_result *result;
} sim_run;

/* ---- Steps ---- */

static double bytes_of(const sim_run *sim, int32_t first, int32_t run)
{
    if (run <= 0) {
        return 0;
    }
    if (first == GY_WHOLE) {
        return (double)(run * sim->slot_bytes);
    }
    if (sim->starts != NULL) {
        return sim->starts[first + run] - sim->starts[first];
    }
    return (double)(gy_layout_length(&sim->layout, first, run) * sim->element_bytes);
}

/* Seconds for a rank to read or write blocks of others. */
static double reach(const sim_run *sim, int rank, const gy_blocks *at)
{
    const gy_topology *topology = sim->request->topology;
    int first = at->rank == GY_EVERY ? 0 : at->rank;
    int end = at->rank == GY_EVERY ? sim->request->ranks : at->rank + 1;
    double seconds = 0;
    for (int other = first; other < end && at->buffer != GY_BUFFER_WIRE; other++) {
        if (other != rank) {
            seconds += bytes_of(sim, at->first, at->run) *
                       gy_plan_links_beta(sim->links, topology, rank, other);
        }
    }
    return seconds;
}

typedef struct step_taker {
    gy_plan_sink sink;
    const sim_run *sim;
    int rank;
    uint32_t count;
    gy_sim_step *items;
} step_taker;

static gy_status take_step(gy_plan_sink *sink, const gy_step *step)
{
    step_taker *taker = (step_taker *)sink; /* its first member */
    const sim_run *sim = taker->sim;
    if (taker->count == GY_SIM_WINDOW) {
        return GY_CANCELLED;
    }
    gy_sim_step *made = &taker->items[taker->count++];
    const gy_blocks *moved = step->kind == GY_STEP_SEND ? &step->a : &step->to;
    *made = (gy_sim_step){.kind = (uint8_t)step->kind,
                          .chunk = step->chunk,
                          .peer = step->peer,
                          .first = moved->first,
                          .run = moved->run,
                          .after = {step->after[0], step->after[1]}};
    switch (step->kind) {
    case GY_STEP_SEND:
    case GY_STEP_RECV:
    case GY_STEP_RECV_REDUCE:
        made->amount = bytes_of(sim, moved->first, moved->run);
        return GY_OK;
    case GY_STEP_REDUCE:
    case GY_STEP_COPY:
        made->amount = bytes_of(sim, step->to.first, step->to.run) * sim->links->gamma +
                       reach(sim, taker->rank, &step->a) + reach(sim, taker->rank, &step->to);
        if (step->kind == GY_STEP_REDUCE) {
            made->amount += reach(sim, taker->rank, &step->b);
        }
        return GY_OK;
    case GY_STEP_POST:
    case GY_STEP_WAIT:
        made->first = (int32_t)step->mark;
        return GY_OK;
    case GY_STEP_CLAIM:
    case GY_STEP_CLAIMED:
    case GY_STEP_COUNT:
    default:
        return gy_fail(GY_STATE, "rank %d: step of unknown kind %d", taker->rank,
                       (int)step->kind);
    }
}

static gy_status read_on(sim_run *sim, int rank)
{
    gy_sim_rank *here = &sim->ranks[rank];
    step_taker taker = {.sink = {.take = take_step, .first = here->first + here->at},
                        .sim = sim,
                        .rank = rank,
                        .items = &sim->steps[(size_t)rank * GY_SIM_WINDOW]};
    gy_status status = gy_plan_rank(sim->algorithm, &sim->own, rank, &taker.sink);
    if (status != GY_OK && (status != GY_CANCELLED || taker.count < GY_SIM_WINDOW)) {
        return status;
    }
    here->first += here->at;
    here->at = 0;
    here->count = (uint16_t)taker.count;
    here->has_end = status == GY_OK;
    return GY_OK;
}

/* ---- Ranks ---- */

static void die(gy_sim_rank *here)
{
    here->state = GY_SIM_DEAD;
}

/* How often a message is lost before it passes, at most TRIES. */
static int count_losses(sim_run *sim, int rank)
{
    uint32_t draw[4];
    int losses = 0;
    uint32_t number = sim->ranks[rank].sends++;
    while (sim->faults->loss > 0 && losses < TRIES) {
        gy_philox(sim->faults->seed, (uint64_t)(uint32_t)rank << 32 | number, (uint64_t)losses,
                  draw);
        if ((double)draw[0] * 0x1p-32 >= sim->faults->loss) {
            break;
        }
        losses++;
    }
    return losses;
}

static bool passes_uplinks(const sim_run *sim, int from, int to)
{
    const gy_topology *topology = sim->request->topology;
    return sim->up_free != NULL && gy_host_of(topology, from) != gy_host_of(topology, to);
}

static gy_status send(sim_run *sim, int rank, const gy_sim_step *step)
{
    gy_sim_rank *here = &sim->ranks[rank];
    const gy_topology *topology = sim->request->topology;
    double busy = step->amount * gy_plan_links_beta(sim->links, topology, rank, step->peer);
    double start = GY_MAX(here->now, here->out_free);
    int losses = count_losses(sim, rank);
    start += losses * (busy + sim->faults->retry_s);
    double end = start + busy;
    if (end > here->fails_at) {
        die(here);
        return GY_AGAIN;
    }
    if (losses == TRIES) {
        here->is_lost = true;
        here->awaits = step->peer;
        return GY_AGAIN;
    }
    here->out_free = end;
    sim->result->messages++;
    sim->result->lost += losses;
    sim->result->bytes += step->amount;
    GY_TRY(gy_open_sends_add(&here->open, here->first + here->at, end, here->now));
    double alpha = gy_plan_links_alpha(sim->links, topology, rank, step->peer);
    return gy_agenda_add(
        &sim->agenda,
        &(gy_plan_event){.at = start + alpha,
                         .tail = end + alpha,
                         .from = rank,
                         .to = step->peer,
                         .first = step->first,
                         .run = step->run,
                         .chunk = step->chunk,
                         .link = passes_uplinks(sim, rank, step->peer) ? LINK_UP : LINK_IN});
}

/* Add the end of a step of a rank to the digest. */
static void note(sim_run *sim, int rank)
{
    uint64_t bits;
    memcpy(&bits, &sim->ranks[rank].now, sizeof(bits));
    sim->result->digest =
        (sim->result->digest ^ bits ^ (uint32_t)rank) * UINT64_C(0x100000001B3);
}

/* The message has arrived: the receive that the rank executes ends. */
static gy_status end_receive(sim_run *sim, int rank, const gy_sim_step *step,
                             const gy_plan_event *came)
{
    gy_sim_rank *here = &sim->ranks[rank];
    if (came->first != step->first || came->run != step->run || came->chunk != step->chunk) {
        return gy_fail(GY_STATE,
                       "rank %d step %u: rank %d sends %d blocks from %d with tag %u, expected "
                       "%d from %d with tag %u",
                       rank, here->first + here->at, came->from, came->run, came->first,
                       came->chunk, step->run, step->first, step->chunk);
    }
    here->now = GY_MAX(here->now, came->tail);
    if (step->kind == GY_STEP_RECV_REDUCE) {
        here->now += step->amount * sim->links->gamma;
    }
    note(sim, rank);
    if (here->now > here->fails_at) {
        die(here);
        return GY_AGAIN;
    }
    return GY_OK;
}

static gy_status receive(sim_run *sim, int rank, const gy_sim_step *step)
{
    gy_plan_event came;
    if (!gy_plan_unexpected_take(&sim->early, step->peer, rank, &came)) {
        sim->ranks[rank].awaits = step->peer;
        return GY_AGAIN;
    }
    return end_receive(sim, rank, step, &came);
}

static gy_status post(sim_run *sim, int rank, uint32_t mark)
{
    gy_sim_rank *here = &sim->ranks[rank];
    return gy_posts_add(&here->posts, mark, here->now + sim->links->alpha, &(gy_depth){0});
}

static gy_status wait_for(sim_run *sim, int rank, const gy_sim_step *step)
{
    gy_sim_rank *here = &sim->ranks[rank];
    int first = step->peer == GY_EVERY ? 0 : step->peer;
    int end = step->peer == GY_EVERY ? sim->request->ranks : step->peer + 1;
    for (int peer = first; peer < end; peer++) {
        gy_sim_rank *there = &sim->ranks[peer];
        const struct gy_post *seen =
            peer == rank ? NULL : gy_posts_find(&there->posts, (uint32_t)step->first);
        if (peer != rank && seen == NULL) {
            here->awaits = peer;
            here->next_waiter = there->waiters;
            there->waiters = rank;
            return GY_AGAIN;
        }
        here->now = GY_MAX(here->now, seen == NULL ? 0 : seen->at);
    }
    return GY_OK;
}

/* GY_OK: the step was executed; GY_AGAIN: the rank waits, or is dead. */
static gy_status try_step(sim_run *sim, int rank, const gy_sim_step *step)
{
    gy_sim_rank *here = &sim->ranks[rank];
    for (int i = 0; i < 2; i++) {
        if (step->after[i] != 0) {
            here->now = GY_MAX(here->now, gy_open_sends_end(&here->open, step->after[i]));
        }
    }
    switch ((gy_step_kind)step->kind) {
    case GY_STEP_SEND:
        return send(sim, rank, step);
    case GY_STEP_RECV:
    case GY_STEP_RECV_REDUCE:
        return receive(sim, rank, step);
    case GY_STEP_POST:
        return post(sim, rank, (uint32_t)step->first);
    case GY_STEP_WAIT:
        return wait_for(sim, rank, step);
    case GY_STEP_COPY:
    case GY_STEP_REDUCE:
    case GY_STEP_CLAIM:
    case GY_STEP_CLAIMED:
    case GY_STEP_COUNT:
    default:
        here->now += step->amount;
        return GY_OK;
    }
}

/* Run until the rank waits, ends or dies. */
static gy_status run_rank(sim_run *sim, int rank)
{
    gy_sim_rank *here = &sim->ranks[rank];
    here->awaits = -1;
    for (;;) {
        if (here->now > here->fails_at) {
            die(here);
            return GY_OK;
        }
        if (here->at == here->count && !here->has_end) {
            GY_TRY(read_on(sim, rank));
        }
        if (here->at == here->count) {
            here->state = GY_SIM_ENDED;
            note(sim, rank);
            return GY_OK;
        }
        gy_status status =
            try_step(sim, rank, &sim->steps[(size_t)rank * GY_SIM_WINDOW + here->at]);
        if (status != GY_OK) {
            return status == GY_AGAIN ? GY_OK : status;
        }
        here->at++;
    }
}

/* Run it, then the ranks that waited for its marks, and so on. */
static gy_status run_with_waiters(sim_run *sim, int rank)
{
    int queue = -1; /* ranks to run, linked by next_waiter */
    GY_TRY(run_rank(sim, rank));
    for (int poster = rank;;) {
        while (sim->ranks[poster].waiters >= 0) {
            int waiter = sim->ranks[poster].waiters;
            sim->ranks[poster].waiters = sim->ranks[waiter].next_waiter;
            sim->ranks[waiter].next_waiter = queue;
            queue = waiter;
        }
        if (queue < 0) {
            return GY_OK;
        }
        poster = queue;
        queue = sim->ranks[poster].next_waiter;
        sim->ranks[poster].next_waiter = -1;
        GY_TRY(run_rank(sim, poster));
    }
}

/* ---- Links ---- */

/* The head of a message reaches a link that is busy until *free. */
static void pass(gy_plan_event *event, double *free, double busy)
{
    event->at = GY_MAX(event->at, *free);
    event->tail = GY_MAX(event->tail, event->at + busy);
    *free = event->tail;
}

static gy_status arrive(sim_run *sim, gy_plan_event *event)
{
    const gy_topology *topology = sim->request->topology;
    double bytes = bytes_of(sim, event->first, event->run);
    gy_sim_rank *to = &sim->ranks[event->to];
    if (event->link != LINK_IN) {
        bool is_up = event->link == LINK_UP;
        double *free = is_up ? &sim->up_free[topology->host_of[event->from]]
                             : &sim->down_free[topology->host_of[event->to]];
        pass(event, free, bytes * sim->faults->uplink_beta);
        event->link++;
        return gy_agenda_add(&sim->agenda, event);
    }
    pass(event, &to->in_free,
         bytes * gy_plan_links_beta(sim->links, topology, event->from, event->to));
    const gy_sim_step *step =
        &sim->steps[(size_t)event->to * GY_SIM_WINDOW + GY_MIN(to->at, GY_SIM_WINDOW - 1)];
    if (to->state != GY_SIM_RUNS) {
        return GY_OK;
    }
    if (to->awaits != event->from || to->is_lost || step->kind == GY_STEP_WAIT) {
        return gy_plan_unexpected_add(&sim->early, event->from, event->to, event);
    }
    gy_status status = end_receive(sim, event->to, step, event);
    if (status != GY_OK) {
        return status == GY_AGAIN ? GY_OK : status;
    }
    to->at++;
    return run_with_waiters(sim, event->to);
}

/* ---- The simulation ---- */

static gy_status sim_init(sim_run *sim)
{
    size_t ranks = (size_t)sim->request->ranks;
    int64_t blocks = (int64_t)sim->layout.parts * sim->layout.chunks;
    size_t hosts = sim->request->topology == NULL ? 0 : (size_t)sim->request->topology->hosts;
    GY_TRY(gy_plan_share(sim->algorithm, sim->request, &sim->shared));
    sim->own = *sim->request;
    sim->own.shared = sim->shared;
    sim->ranks = gy_alloc_zero("plan.simulate", ranks, sizeof(*sim->ranks));
    sim->steps = gy_alloc("plan.simulate", ranks * GY_SIM_WINDOW * sizeof(*sim->steps));
    if (sim->ranks == NULL || sim->steps == NULL) {
        return GY_NOMEM;
    }
    for (size_t rank = 0; rank < ranks; rank++) {
        sim->ranks[rank].fails_at = INFINITY;
        sim->ranks[rank].awaits = sim->ranks[rank].next_waiter = -1;
        sim->ranks[rank].waiters = -1;
    }
    for (size_t i = 0; i < sim->faults->failure_count; i++) {
        const gy_rank_failure *failure = &sim->faults->failures[i];
        if (failure->rank < 0 || (size_t)failure->rank >= ranks) {
            return gy_fail(GY_ARG, "rank %d cannot fail, expected 0 to %zu", failure->rank,
                           ranks - 1);
        }
        sim->ranks[failure->rank].fails_at = failure->at_s;
    }
    if (blocks <= TABLE_BLOCKS) {
        sim->starts = gy_alloc("plan.simulate", (size_t)(blocks + 1) * sizeof(*sim->starts));
        if (sim->starts == NULL) {
            return GY_NOMEM;
        }
        double bytes = 0;
        for (int64_t block = 0; block <= blocks; block++) {
            sim->starts[block] = bytes;
            bytes +=
                block == blocks
                    ? 0
                    : (double)(gy_layout_length(&sim->layout, block, 1) * sim->element_bytes);
        }
    }
    if (sim->faults->uplink_beta > 0 && hosts > 0) {
        sim->up_free = gy_alloc_zero("plan.simulate", 2 * hosts, sizeof(*sim->up_free));
        if (sim->up_free == NULL) {
            return GY_NOMEM;
        }
        sim->down_free = sim->up_free + hosts;
    }
    return GY_OK;
}

static void sim_fini(sim_run *sim)
{
    for (int rank = 0; sim->ranks != NULL && rank < sim->request->ranks; rank++) {
        gy_free(sim->ranks[rank].open.items);
        gy_free(sim->ranks[rank].posts.items);
    }
    gy_free(sim->ranks);
    gy_free(sim->steps);
    gy_free(sim->starts);
    gy_free(sim->up_free);
    gy_agenda_fini(&sim->agenda);
    gy_plan_unexpected_fini(&sim->early);
    gy_plan_shared_free(sim->shared);
}

/* Report why not all ranks ended. */
static gy_status blame(const sim_run *sim)
{
    int ranks = sim->request->ranks, stuck = -1, culprit = -1;
    for (int rank = 0; rank < ranks && culprit < 0; rank++) {
        const gy_sim_rank *here = &sim->ranks[rank];
        if (here->is_lost) {
            return gy_fail(GY_PEER,
                           "rank %d lost a message to rank %d %d times in a row at %g s: %d of "
                           "%d ranks do not end",
                           rank, here->awaits, TRIES, GY_MAX(here->now, here->out_free),
                           ranks - sim->result->ended, ranks);
        }
        if (here->state == GY_SIM_RUNS) {
            bool is_culprit = sim->ranks[here->awaits].state == GY_SIM_DEAD;
            culprit = is_culprit ? here->awaits : -1;
            stuck = stuck < 0 || is_culprit ? rank : stuck;
        }
    }
    for (int rank = 0; rank < ranks && culprit < 0; rank++) {
        culprit = sim->ranks[rank].state == GY_SIM_DEAD ? rank : -1;
    }
    if (culprit < 0) {
        return gy_fail(GY_STATE, "deadlock: rank %d step %u waits for rank %d for ever", stuck,
                       sim->ranks[stuck].first + sim->ranks[stuck].at,
                       sim->ranks[stuck].awaits);
    }
    gy_text waits = {.data = NULL};
    if (stuck >= 0) {
        const gy_sim_rank *here = &sim->ranks[stuck];
        gy_text_add(&waits, "; rank %d waits for rank %d since %g s in step %u", stuck,
                    here->awaits, here->now, here->first + here->at);
    }
    gy_status status = gy_fail(GY_PEER, "rank %d failed at %g s: %d of %d ranks do not end%s",
                               culprit, sim->ranks[culprit].fails_at,
                               ranks - sim->result->ended, ranks, gy_text_get(&waits));
    gy_text_free(&waits);
    return status;
}

static gy_status sim_all(sim_run *sim)
{
    gy_plan_event event;
    gy_status status = GY_OK;
    for (int rank = 0; rank < sim->request->ranks; rank++) {
        GY_TRY(run_with_waiters(sim, rank));
    }
    while ((status = gy_agenda_take(&sim->agenda, &event)) == GY_OK) {
        GY_TRY(arrive(sim, &event));
    }
    GY_TRY(status);
    for (int rank = 0; rank < sim->request->ranks; rank++) {
        gy_sim_rank *here = &sim->ranks[rank];
        if (here->state == GY_SIM_RUNS && here->fails_at < INFINITY) {
            die(here); /* it died while it waited */
        }
        sim->result->ended += here->state == GY_SIM_ENDED;
        sim->result->time_s = GY_MAX(sim->result->time_s, GY_MAX(here->now, here->out_free));
    }
    return sim->result->ended == sim->request->ranks ? GY_OK : blame(sim);
}

gy_status gy_plan_run_simulated(const gy_simulation *simulation, gy_simulation_result *result)
{
    const gy_plan_request *request = simulation->request;
    gy_cut cut = simulation->algorithm->cut;
    sim_run sim = {
        .algorithm = simulation->algorithm,
        .request = request,
        .links = simulation->links,
        .faults = simulation->faults,
        .element_bytes = simulation->volume->element_bytes,
        .layout = {.count = simulation->volume->count,
                   .parts = gy_cut_parts(cut, request),
                   .chunks = gy_cut_chunks(cut, request),
                   .part_unit = 1,
                   .chunk_unit = 1,
                   .counts = simulation->volume->counts},
        .early = {.bytes = sizeof(gy_plan_event)},
        .result = result,
    };
    *result = (gy_simulation_result){.digest = 0};
    sim.slot_bytes = gy_layout_longest(&sim.layout) * sim.element_bytes;
    gy_status status = sim_init(&sim);
    if (status == GY_OK) {
        status = sim_all(&sim);
    }
    sim_fini(&sim);
    return status;
}
