/*
 * The machine of a job in a simulated cluster, and what must be true of what it asks for. What
 * it rents it rents as the driver does (driver/lease/lease_client.h).
 */
#ifndef GY_TESTS_WHOLE_MACHINE_H
#define GY_TESTS_WHOLE_MACHINE_H

#include "driver/lease/lease_client.h"
#include "manager_checks.h"
#include "persist/journal/journal.h"
#include "whole_runs.h"

enum { WHOLE_STARTS = 64, WHOLE_LINES = 64, WHOLE_WORDS = 64 };

typedef enum slot_state { AT_NONE, AT_STARTING, AT_READY } slot_state;

typedef struct slot {
    slot_state state;
    uint32_t generation, window, out_count;
    bool is_killed;
    word out[WHOLE_WORDS];
} slot;

/* A connection to a host, by the host's number. */
typedef struct line {
    uint32_t number; /* 0: hung up */
    bool is_up;
    uint64_t life;
    int64_t heard_ns;
} line;

/* A section that a START waits for. */
typedef struct need {
    uint64_t number;
    uint32_t from, input, run;
    int tries;
    bool is_left;
} need;

typedef struct start {
    bool is_there;
    uint32_t slot, generation, left;
    word said;
    need needs[PLAN_INPUTS];
} start;

typedef struct real {
    world *at;
    model *who;
    gy_manager *manager;
    gy_effects said;
    gy_journal *journal;
    gy_lease_client client;
    plan job;
    gy_attempt stands[PLAN_TASKS]; /* committed last, */
    bool is_raised[PLAN_TASKS];    /* and to be done again */
    slot slots[WHOLE_SLOTS];
    start starts[WHOLE_STARTS];
    line lines[WHOLE_LINES];
    uint64_t number; /* of fetches */
    uint32_t line_number;
    int64_t timer_ns, looked_ns;
    bool has_ended, is_over, is_flush_due, is_killed, is_syncing;
    uint64_t position;
    gy_status end;
} real;

static real reals[MODELS];

static inline later *real_later(const real *own, uint32_t place)
{
    later *what = later_new(own->at, (int)(own - reals), own->who->serial);
    what->place = place;
    return what;
}

/* Before it hears and says anything, as the driver does; false: its epoch is over. */
static inline bool real_watches(real *own);

/* The machine of something that comes later; NULL: it is gone, or waits. */
static inline real *later_real(later *what, gy_env_fire fire)
{
    real *own = &reals[what->index];
    if (later_model(what, fire) == NULL) {
        return NULL;
    }
    if (!real_watches(own)) {
        gy_free(what);
        return NULL;
    }
    return own;
}

static inline void real_wrong(const real *own, const char *what, uint64_t number)
{
    world_wrong(own->at, what, number);
}

static inline int node_of_host(const real *own, uint32_t number)
{
    return (int)own->client.hosts[number].daemon;
}

/* ---- Words ---- */

/* On the connection that stands, in order; lost when it is given up. */
static inline void to_host(const real *own, uint32_t number, letter *what, bool is_kept)
{
    const line *on = &own->lines[number];
    what->job = own->who->job;
    what->epoch = own->who->epoch;
    what->node = own->who->node;
    what->line = on->number;
    what->life = what->kind == LETTER_PING ? 0 : on->life;
    if (on->number != 0) {
        post(own->at, own->who->node, node_of_host(own, number), what, is_kept);
    }
}

static inline void tell_host(const real *own, uint32_t place, gy_daemon_event_kind kind,
                             uint32_t number)
{
    letter what = {.kind = LETTER_TO_DAEMON};
    gy_daemon_event *event = &what.is.to_daemon.event;
    *event = (gy_daemon_event){.kind = kind};
    if (number != GY_NONE) {
        event->lease = own->client.executors[number].lease;
        event->generation = own->slots[number].generation;
        event->bytes = TOKEN_BYTES;
    }
    to_host(own, place, &what, kind != GY_DAEMON_BEAT);
}

/* What its window allows. */
static inline void send_words(real *own, uint32_t number)
{
    slot *to = &own->slots[number];
    const lease_executor *executor = &own->client.executors[number];
    while (executor->lease != 0 && to->out_count > 0 && to->window > 0) {
        letter what = {.kind = LETTER_TO_DAEMON, .words = {to->out[0]}};
        what.is.to_daemon.event = (gy_daemon_event){.kind = GY_DAEMON_DOWN,
                                                    .lease = executor->lease,
                                                    .generation = to->generation,
                                                    .bytes = TOKEN_BYTES};
        memmove(to->out, to->out + 1, --to->out_count * sizeof(word));
        to->window--;
        to_host(own, executor->host, &what, true);
    }
}

static inline void add_word(real *own, uint32_t number, word said)
{
    slot *to = &own->slots[number];
    if (to->out_count == WHOLE_WORDS) {
        real_wrong(own, "a process is told more than it can be at", number);
        return;
    }
    to->out[to->out_count++] = said;
    send_words(own, number);
}

/* ---- The machine ---- */

static inline void real_carries(real *own, const gy_effect *effect);

/* A host is given up: was there a reason? What lay there may be made again. */
static inline void check_lost(const real *own, uint32_t number)
{
    world *at = own->at;
    const lease_host *lost = &own->client.hosts[number];
    const int node = (int)lost->daemon, mine = own->who->node;
    const host *there = world_host(at, node);
    const int64_t since_ns = GY_MAX(at->trouble_ns[node], at->trouble_ns[mine]);
    const bool is_poor =
        at->is_poor && (!at->is_healed || world_now(at) - at->heal_ns < calm_ns);
    if (there->is_up && there->incarnation == lost->incarnation && !is_poor &&
        is_reached(at, mine, node) && world_now(at) - since_ns > calm_ns) {
        real_wrong(own, "a host that lives is given up", (uint64_t)node);
    }
    whole_losses++;
    for (size_t i = 0; i < books[own->who->job].count; i++) {
        run *one = &books[own->who->job].runs[i];
        if (one->node == node && one->incarnation == lost->incarnation) {
            one->excused |= UINT64_C(1) << own->who->epoch % 64;
        }
    }
}

static inline void real_step(void *arg, gy_sched_event *event)
{
    real *own = arg;
    if (own->has_ended || own->at->is_over) {
        return;
    }
    if (event->kind == GY_EVENT_HOST_LOST) {
        check_lost(own, event->host);
    }
    event->now_ns = world_now(own->at);
    if (gy_manager_step(own->manager, event, &own->said) < 0) {
        real_wrong(own, gy_error_text(), 0);
        return;
    }
    own->at->steps++;
    for (size_t i = 0; i < own->said.count && !own->has_ended && !own->at->is_over; i++) {
        const gy_effect *effect = &own->said.items[i];
        own->at->digest = own->at->digest * 31 + (uint64_t)effect->kind + effect->id.task;
        real_carries(own, effect);
    }
}

/* ---- What it asks for ---- */

static inline void drop_starts(real *own, uint32_t number)
{
    for (int i = 0; i < WHOLE_STARTS; i++) {
        start *one = &own->starts[i];
        one->is_there = one->is_there && one->slot != number;
    }
}

/* The slot's process is gone, or not reached any more. */
static inline void real_forgets(void *arg, uint32_t number)
{
    real *own = arg;
    slot *gone = &own->slots[number];
    drop_starts(own, number);
    gy_lease_client_forget(&own->client, number, gone->generation);
    gone->state = AT_NONE;
    gone->out_count = 0;
}

static inline void spawn_fails(void *arg)
{
    later *what = arg;
    real *own = later_real(what, spawn_fails);
    if (own != NULL) {
        real_step(own, &(gy_sched_event){.kind = GY_EVENT_PROCESS_DOWN,
                                         .cause = GY_CAUSE_CANCELLED,
                                         .process = what->place,
                                         .generation = what->generation});
        gy_free(what);
    }
}

static inline void on_spawn(real *own, const gy_effect *effect)
{
    slot *made = &own->slots[effect->process];
    const lease_executor *executor = &own->client.executors[effect->process];
    if (made->state != AT_NONE) {
        real_wrong(own, "a process is started where another still is", effect->process);
    }
    if (gy_lease_client_spawn(&own->client, effect->process, effect->generation) < 0) {
        later *what = real_later(own, effect->process);
        what->generation = effect->generation;
        world_at(own->at, 1000, spawn_fails, what);
        return;
    }
    if (!executor->is_open || !own->client.hosts[executor->host].is_up) {
        real_wrong(own, "a process is started in a closed slot", effect->process);
    }
    *made = (slot){.state = AT_STARTING, .generation = effect->generation, .window = 8};
    tell_host(own, executor->host, GY_DAEMON_OPEN, effect->process);
}

/* An input as the machine knows it is where it lies, on a host that is up. */
static inline void check_input(const real *own, const gy_sched_task_state *state,
                               const run *input)
{
    if (input == NULL) {
        return;
    }
    const lease_host *there =
        state->host < own->client.host_count ? &own->client.hosts[state->host] : NULL;
    const checked_place known = there != NULL
                                    ? (checked_place){there->daemon, there->incarnation}
                                    : (checked_place){0, 0};
    const char *wrong = checks_input(
        state->host, input->is_held, (checked_place){(uint64_t)input->node, input->incarnation},
        there != NULL ? &known : NULL, there != NULL && there->is_up);
    if (wrong != NULL) {
        real_wrong(own, wrong, input->id.task);
    }
}

/* Is another attempt of it in a process, now, that nobody has killed? */
/* Of what a host that slept over a lease still ran when it woke, it can be asked only that it
 * ends that before all else. */
static inline bool is_run_twice(const world *at, uint32_t job, const run *one)
{
    for (uint32_t i = 0; i < at->host_count; i++) {
        const host *own = &at->hosts[i];
        for (int k = 0; k < PROCESSES && own->is_up; k++) {
            const process *other = &own->processes[k];
            const run *its = &books[job].runs[other->at.run];
            const bool is_dying = other->is_dying || own->jobs[job].fork_server_dies;
            if (other->is_there && other->is_busy && other->job == job && its != one &&
                its->id.task == one->id.task && !other->is_overslept &&
                (!is_dying || other->epoch < one->epoch) &&
                own->stopped_until_ns < world_now(at)) {
                return true;
            }
        }
    }
    return false;
}

static inline void check_start(real *own, const gy_effect *effect, const run *known)
{
    const uint32_t task = effect->id.task, job = own->who->job;
    const slot *to = &own->slots[effect->process];
    const lease_executor *executor = &own->client.executors[effect->process];
    book *story = &books[job];
    const uint64_t nonce = own->job.tasks[task].key.high + 1;
    if (to->state != AT_READY || to->generation != effect->generation || executor->lease == 0) {
        real_wrong(own, "started in a process that is not there", task);
    }
    if (own->stands[task].attempt != 0 &&
        !is_justified(own->at, job, own->who->epoch, own->stands, task)) {
        real_wrong(own, "runs again, though its output was not lost", task);
    }
    if (story->nonce[task] != 0 && story->nonce[task] != nonce &&
        story->claimed == own->who->epoch) {
        real_wrong(own, "a growth was decided twice, and tasks of both were started", task);
    }
    story->nonce[task] = nonce;
    if (known != NULL && (known->epoch != own->who->epoch ||
                          (known->done >> effect->member & 1) != 0 || known->is_discarded)) {
        real_wrong(own, "an attempt's number is given twice", task);
    }
    if (known != NULL &&
        (known->node != node_of_host(own, executor->host) ||
         known->incarnation != own->client.hosts[executor->host].incarnation)) {
        real_wrong(own, "a cohort is on two hosts", task);
    }
}

/* A new run: what it reads, and so what it will write. */
static inline run *new_run(real *own, const gy_effect *effect)
{
    const uint32_t task = effect->id.task, job = own->who->job;
    const lease_host *there = &own->client.hosts[own->client.executors[effect->process].host];
    run *made = run_add(job, &effect->id);
    made->epoch = own->who->epoch;
    made->width = own->job.tasks[task].width;
    made->node = (int)there->daemon;
    made->incarnation = there->incarnation;
    made->input_count = plan_inputs(&own->job, task);
    made->is_exact = (own->job.tasks[task].flags & GY_TASK_EXACT) != 0;
    made->is_loose = own->job.tasks[task].determinism == GY_OUTPUT_INDETERMINATE ||
                     own->job.is_ordered[task];
    whole_reruns += made->next != 0;
    whole_cohorts += made->width > 1;
    for (uint32_t i = 0; i < made->input_count; i++) {
        gy_sched_task_state state;
        gy_manager_task(own->manager, own->job.edges[own->job.first_edge[task] + i].from,
                        &state);
        const run *input =
            state.committed.attempt != 0 ? run_find(job, &state.committed) : NULL;
        if (input == NULL) {
            real_wrong(own, "starts without its inputs", task);
            return NULL;
        }
        check_input(own, &state, input);
        made->bound[i] = state.committed;
        made->read[i] = input->value;
    }
    made->value = plan_run(&own->job, task, made->read, world_below(own->at, UINT64_MAX));
    if (made->is_exact && is_run_twice(own->at, job, made)) {
        real_wrong(own, "two runs at once of an exact task", task);
    }
    return made;
}

static inline void real_fetches(real *own, const start *one);

static inline void on_start(real *own, const gy_effect *effect)
{
    run *known = run_find(own->who->job, &effect->id);
    check_start(own, effect, known);
    known = known != NULL || own->at->is_over ? known : new_run(own, effect);
    if (known == NULL || own->at->is_over) {
        return;
    }
    lease_executor *executor = &own->client.executors[effect->process];
    start made = {.is_there = true,
                  .slot = effect->process,
                  .generation = effect->generation,
                  .said = {.kind = WORD_START,
                           .member = (uint8_t)effect->member,
                           .run = run_number(own->who->job, known)}};
    executor->running++;
    for (uint32_t i = 0; i < known->input_count; i++) {
        const run *input = run_find(own->who->job, &known->bound[i]);
        gy_sched_task_state state;
        gy_manager_task(own->manager, known->bound[i].task, &state);
        if (state.host != GY_NONE && state.host != executor->host) {
            made.needs[made.left++] = (need){.from = state.host,
                                             .input = i,
                                             .run = run_number(own->who->job, input),
                                             .is_left = true};
        }
    }
    if (made.left == 0) {
        add_word(own, effect->process, made.said);
        return;
    }
    for (int i = 0; i < WHOLE_STARTS; i++) {
        if (!own->starts[i].is_there) {
            own->starts[i] = made;
            real_fetches(own, &own->starts[i]);
            return;
        }
    }
    real_wrong(own, "more is started than there is room for", effect->process);
}

#endif
