/*
 * Machines of a simulated job over hosts: they die, come back with and without their files, are
 * parted from all others, and lose leases; what the driver says of it to the manager, and what
 * must be true of what the manager then does.
 */
#ifndef GY_TESTS_MANAGER_HOSTS_H
#define GY_TESTS_MANAGER_HOSTS_H

#include "manager_checks.h"
#include "manager_world.h"

/* Something that happens to a machine, or with `slot` to a lease. */
typedef struct host_order {
    world *at;
    uint32_t machine, loss, life, slot;
    int64_t span_ns;
} host_order;

static inline void host_order_send(world *at, host_order what, int64_t wait_ns,
                                   gy_env_fire fire)
{
    host_order *made = gy_alloc("world.host", sizeof(*made));
    if (made == NULL) {
        gy_panic("no memory for a simulated world");
    }
    *made = what;
    made->at = at;
    made->life = at->life;
    made->loss = at->machines[what.machine].loss;
    world_at(at, wait_ns, fire, made);
}

/* ---- What the driver says ---- */

/* false: its manager is no more. */
static inline bool host_say(world *at, gy_sched_event event)
{
    uint32_t life = at->life;
    if (!at->is_over && at->manager != NULL) {
        world_tell(at, &event);
    }
    return !at->is_over && at->manager != NULL && at->life == life;
}

/* The process of a slot is out of sight; what it is at goes on until then. */
static inline void slot_forget(world *at, uint32_t slot, int64_t until_ns)
{
    process *where = &at->processes[slot];
    for (job_item *item = where->items; item != NULL; item = item->next) {
        if (until_ns > gy_sim_now_ns(at->sim) && item->is_running) {
            at->zombies[at->zombie_count++ % WORLD_ZOMBIES] =
                (zombie){item->id.task, where->machine, at->life, until_ns};
        }
    }
    process_clear(where);
    *where = (process){.machine = where->machine};
    at->slot_number[slot] = GY_NONE;
}

/* Until when processes on a machine go on that nobody reaches: until their leases end. */
static inline int64_t zombies_until(const world *at, uint32_t machine)
{
    const sim_machine *away = &at->machines[machine];
    return machine_away_ns(at, machine) > 0 && !away->is_dead
               ? away->away_since_ns + at->job.options.lease_ns
               : 0;
}

static inline bool host_say_lost(world *at, uint32_t number)
{
    host_number *host = &at->numbers[number];
    host->told = TOLD_LOST;
    at->losses++;
    for (uint32_t slot = 0; slot < at->job.options.process_max; slot++) {
        if (at->slot_number[slot] == number) {
            slot_forget(at, slot, zombies_until(at, host->machine));
        }
    }
    return host_say(at, (gy_sched_event){.kind = GY_EVENT_HOST_LOST, .host = number});
}

static inline bool slot_say_open(world *at, uint32_t slot, uint32_t number)
{
    if (at->slot_number[slot] != GY_NONE || at->is_leased_away[slot] ||
        at->numbers[number].told != TOLD_UP ||
        (at->numbers[number].is_avoided && world_below(at, 4) > 0)) {
        return true;
    }
    if (!at->numbers[number].is_avoided) {
        at->slot_number[slot] = number;
    }
    return host_say(
        at, (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN, .process = slot, .host = number});
}

static inline uint32_t slot_machine(const world *at, uint32_t slot)
{
    return slot / at->job.executors;
}

/* A daemon ends what an older manager left before it serves the next one. */
static inline void end_zombies(world *at, uint32_t machine)
{
    for (uint32_t i = 0; i < WORLD_ZOMBIES; i++) {
        zombie *old = &at->zombies[i];
        if (old->machine == machine && old->life < at->life) {
            old->until_ns = 0;
        }
    }
}

static inline bool host_say_up(world *at, uint32_t machine)
{
    char address[32];
    uint32_t incarnation = at->machines[machine].incarnation;
    uint32_t number = number_of(at, machine, incarnation);
    if (number == GY_NONE) {
        number = at->number_count++;
        GY_ASSERT(number < PLAN_NUMBERS);
        at->numbers[number] = (host_number){.machine = machine, .incarnation = incarnation};
    }
    at->numbers[number].told = TOLD_UP;
    end_zombies(at, machine);
    snprintf(address, sizeof(address), "m%u:%u", machine, 7000 + incarnation);
    const gy_sched_event up = {.kind = GY_EVENT_HOST_UP,
                               .host = number,
                               .host_id = {machine + 1, incarnation},
                               .address = address};
    bool goes_on = host_say(at, up);
    for (uint32_t slot = 0; slot < at->job.options.process_max && goes_on; slot++) {
        if (slot_machine(at, slot) == machine) {
            goes_on = slot_say_open(at, slot, number);
        }
    }
    return goes_on;
}

/* It has been silent for long enough. */
static inline void host_is_missed(void *arg)
{
    host_order *what = arg;
    world *at = what->at;
    const sim_machine *away = &at->machines[what->machine];
    uint32_t number = number_of(at, what->machine, away->incarnation);
    if (what->life == at->life && what->loss == away->loss && number != GY_NONE &&
        machine_away_ns(at, what->machine) > 0 && at->numbers[number].told != TOLD_LOST) {
        (void)host_say_lost(at, number);
    }
    gy_free(what);
}

/* Processes that died with it, and were not missed so far. */
static inline void say_dead(world *at, uint32_t machine)
{
    for (uint32_t slot = 0; slot < at->job.options.process_max; slot++) {
        const process *dead = &at->processes[slot];
        if (at->slot_number[slot] != GY_NONE && dead->machine == machine && dead->is_there &&
            !dead->is_up) {
            mail_from(
                at, slot,
                (gy_sched_event){.kind = GY_EVENT_PROCESS_DOWN, .cause = GY_CAUSE_CANCELLED});
        }
    }
}

static inline void host_returns(void *arg)
{
    host_order *what = arg;
    world *at = what->at;
    sim_machine *back = &at->machines[what->machine];
    uint32_t number = number_of(at, what->machine, back->incarnation);
    bool is_right = what->loss == back->loss && !at->is_over, goes_on = is_right;
    if (is_right) {
        back->away_until_ns = 0;
        back->incarnation += back->is_emptied;
        if (back->is_emptied && number != GY_NONE && at->numbers[number].told != TOLD_LOST) {
            goes_on = host_say_lost(at, number);
        } else if (back->is_dead) {
            say_dead(at, what->machine);
        }
    }
    number = number_of(at, what->machine, back->incarnation);
    if (goes_on && at->manager != NULL &&
        (number == GY_NONE || at->numbers[number].told != TOLD_UP || world_below(at, 8) == 0)) {
        (void)host_say_up(at, what->machine);
    }
    gy_free(what);
}

/* A manager begins: what about the hosts that its journal knows, and the others? */
static inline void host_looked_at(void *arg)
{
    host_order *what = arg;
    world *at = what->at;
    bool goes_on = what->life == at->life && at->manager != NULL && !at->is_over;
    for (uint32_t i = 0; i < at->number_count && goes_on; i++) {
        const host_number *host = &at->numbers[i];
        if (host->machine == what->machine && host->told == TOLD_NOTHING &&
            host->incarnation != at->machines[what->machine].incarnation) {
            goes_on = host_say_lost(at, i);
        }
    }
    if (goes_on && machine_away_ns(at, what->machine) > 0) {
        host_order_send(at, (host_order){.machine = what->machine}, 50000000, host_is_missed);
    } else if (goes_on) {
        (void)host_say_up(at, what->machine);
    }
    gy_free(what);
}

/* Before BEGIN: numbers of the journal. */
static inline void hosts_replayed(world *at)
{
    gy_host_state state;
    at->number_count = 0;
    memset(at->failed_at, 0, sizeof(at->failed_at));
    memset(at->ever_failed_at, 0, sizeof(at->ever_failed_at));
    memset(at->well_at, 0, sizeof(at->well_at));
    memset(at->is_leased_away, 0, sizeof(at->is_leased_away));
    at->failed_before = at->copies_before = 0;
    for (uint32_t slot = 0; slot < PLAN_PROCESSES; slot++) {
        at->slot_number[slot] = GY_NONE;
    }
    for (uint32_t i = 0; gy_manager_host(at->manager, i, &state); i++) {
        at->numbers[at->number_count++] = (host_number){.machine = (uint32_t)state.id.high - 1,
                                                        .incarnation = (uint32_t)state.id.low};
        if (!state.is_expected || state.is_up) {
            world_wrong(at, "a host of the journal is not expected", i);
        }
    }
}

static inline void hosts_begin(world *at)
{
    for (uint32_t machine = 0; machine < at->job.hosts; machine++) {
        host_order_send(at, (host_order){.machine = machine},
                        1 + (int64_t)world_below(at, 3000000), host_looked_at);
    }
}

/* A manager is dead: its processes end, where somebody reaches them. */
static inline void hosts_forget(world *at)
{
    for (uint32_t slot = 0; slot < PLAN_PROCESSES; slot++) {
        slot_forget(at, slot, zombies_until(at, at->processes[slot].machine));
    }
}

/* ---- Faults ---- */

static inline void lease_returns(void *arg)
{
    host_order *what = arg;
    world *at = what->at;
    if (what->life == at->life && !at->is_over && at->manager != NULL) {
        uint32_t machine = slot_machine(at, what->slot);
        uint32_t number = number_of(at, machine, at->machines[machine].incarnation);
        at->is_leased_away[what->slot] = false;
        if (number != GY_NONE && at->numbers[number].told == TOLD_UP) {
            (void)slot_say_open(at, what->slot, number);
        }
    }
    gy_free(what);
}

static inline void lease_ends(void *arg)
{
    host_order *what = arg;
    world *at = what->at;
    if (what->life == at->life && !at->is_over && at->slot_number[what->slot] != GY_NONE) {
        at->is_leased_away[what->slot] = true;
        slot_forget(at, what->slot, gy_sim_now_ns(at->sim) + 10000000);
        bool goes_on =
            host_say(at, (gy_sched_event){.kind = GY_EVENT_SLOT_CLOSE, .process = what->slot});
        if (goes_on && what->span_ns > 0) {
            host_order_send(at, *what, what->span_ns, lease_returns);
        }
    }
    gy_free(what);
}

static inline void machine_goes(world *at, const fault *what, uint32_t number)
{
    sim_machine *away = &at->machines[number];
    int64_t now_ns = gy_sim_now_ns(at->sim);
    if (machine_away_ns(at, number) > 0) {
        return;
    }
    away->loss++;
    away->away_since_ns = now_ns;
    away->away_until_ns = now_ns + 1 + what->span_ns;
    away->is_dead = what->kind != FAULT_HOST_PARTED;
    away->is_emptied = what->kind == FAULT_HOST_EMPTIED;
    for (uint32_t slot = 0; slot < PLAN_PROCESSES && away->is_dead; slot++) {
        if (at->slot_number[slot] != GY_NONE && at->processes[slot].machine == number) {
            process_clear(&at->processes[slot]);
        }
    }
    host_order_send(at, (host_order){.machine = number},
                    20000000 + (int64_t)world_below(at, 300000000), host_is_missed);
    host_order_send(at, (host_order){.machine = number}, 1 + what->span_ns, host_returns);
}

static inline void host_fault(world *at, const fault *what)
{
    uint32_t slot = what->which % at->job.options.process_max;
    uint32_t number = what->which % at->job.hosts;
    if (what->kind == FAULT_LEASE_ENDS) {
        bool is_gone = what->which / 64 % 2 == 0;
        if (is_gone) {
            process_dies(at, slot, GY_CAUSE_CANCELLED);
        }
        host_order_send(at, (host_order){.slot = slot, .span_ns = 1 + what->span_ns},
                        is_gone ? 30000000 : 1, lease_ends);
    } else if (what->kind == FAULT_HOST_BAD) {
        at->machines[number].bad_until_ns = gy_sim_now_ns(at->sim) + what->span_ns;
    } else {
        machine_goes(at, what, number);
    }
}

/* ---- What must be true ---- */

/* May the task run there? */
static inline bool plan_allows(const plan *job, uint32_t task, uint32_t machine)
{
    char name[8];
    snprintf(name, sizeof(name), "m%u", machine);
    return (job->tasks[task].flags & GY_TASK_PINNED) == 0 ||
           strstr(job->places[task], name) != NULL;
}

/* Has another host a process that is up for the manager, and may run the task? */
static inline bool has_other_host(const world *at, uint32_t number, uint32_t task)
{
    for (uint32_t slot = 0; slot < at->job.options.process_max; slot++) {
        uint32_t other = at->slot_number[slot];
        if (other != GY_NONE && other != number && !at->numbers[other].is_avoided &&
            at->processes[slot].is_known_up &&
            plan_allows(&at->job, task, at->numbers[other].machine)) {
            return true;
        }
    }
    return false;
}

static inline void count_stages(const world *at, uint32_t *failed, uint32_t *copies)
{
    *failed = *copies = 0;
    for (uint32_t stage = 0; stage < PLAN_STAGES; stage++) {
        gy_stage_state state;
        gy_manager_stage(at->manager, stage, &state);
        *failed += state.failed;
        *copies += state.copies;
    }
}

/* Does another attempt of the task run on this machine, which is not told to stop? */
static inline bool runs_there(world *at, const gy_attempt *id, uint32_t number)
{
    for (uint32_t slot = 0; slot < at->job.options.process_max; slot++) {
        for (const job_item *item = at->processes[slot].items; item != NULL;
             item = item->next) {
            if (item->id.task == id->task && item->id.attempt != id->attempt &&
                at->slot_number[slot] == number && !world_attempt(at, &item->id)->is_told &&
                at->processes[slot].is_known_up) {
                return true;
            }
        }
    }
    return false;
}

/* An input as the manager knows it is where the world knows it to be, on a host that is up. */
static inline void check_input(world *at, const gy_sched_task_state *state,
                               const attempt *input, uint32_t task)
{
    const host_number *host = state->host < at->number_count ? &at->numbers[state->host] : NULL;
    const checked_place known = host != NULL ? (checked_place){host->machine, host->incarnation}
                                             : (checked_place){0, 0};
    const char *wrong = checks_input(
        state->host, input->is_held, (checked_place){input->machine, input->incarnation},
        host != NULL ? &known : NULL, host != NULL && host->told == TOLD_UP);
    if (wrong != NULL) {
        world_wrong(at, wrong, task);
    }
}

/* Of a start: where it goes. `known` is its attempt if a member of it runs already. */
static inline void check_place(world *at, const gy_effect *effect, const attempt *known)
{
    uint32_t number = at->slot_number[effect->process], task = effect->id.task;
    uint32_t failed = 0, copies = 0;
    const host_number *host = &at->numbers[number == GY_NONE ? 0 : number];
    if (number == GY_NONE || host->is_avoided) {
        world_wrong(at, "started on a host that is avoided, or none", task);
        return;
    }
    if (known != NULL &&
        (known->machine != host->machine || known->incarnation != host->incarnation)) {
        world_wrong(at, "a cohort is on two hosts", task);
    }
    if (!plan_allows(&at->job, task, host->machine)) {
        world_wrong(at, "runs where it must not", task);
    }
    bool has_other = has_other_host(at, number, task) && at->job.tasks[task].width == 1;
    if (at->failed_at[task] == number + 1 && has_other) {
        world_wrong(at, "tried again where it failed", task);
    }
    count_stages(at, &failed, &copies);
    if (copies > at->copies_before && has_other && runs_there(at, &effect->id, number)) {
        world_wrong(at, "copied onto the same host", task);
    }
    at->copies_before = copies;
}

/* Tasks that failed there and did well, or run, elsewhere. */
static inline void on_avoid(world *at, const gy_effect *effect)
{
    uint32_t against = 0;
    host_number *host = &at->numbers[effect->host];
    for (uint32_t task = 0; task < at->job.count; task++) {
        const uint64_t bit = UINT64_C(1) << effect->host;
        bool runs = false;
        for (uint32_t i = 0; i < at->number_count; i++) {
            runs = runs || (i != effect->host && runs_there(at, &(gy_attempt){task, 0, 0}, i));
        }
        against +=
            (at->ever_failed_at[task] & bit) != 0 && (runs || (at->well_at[task] & ~bit) != 0);
    }
    if (against < 3) {
        world_wrong(at, "a host is avoided without reason", effect->host);
    }
    at->avoided += !host->is_avoided;
    host->is_avoided = true;
    for (uint32_t slot = 0; slot < at->job.options.process_max; slot++) {
        if (at->slot_number[slot] == effect->host) {
            host_order_send(at, (host_order){.slot = slot}, 5000000, lease_ends);
        }
    }
}

/* Does anybody read it who has not? As the manager sees it. */
static inline bool is_wanted(const world *at, uint32_t task)
{
    bool is_wanted = (at->job.tasks[task].flags & GY_TASK_FINAL) != 0;
    for (uint32_t reader = 0; reader < at->job.count && !is_wanted; reader++) {
        gy_sched_task_state state;
        gy_manager_task(at->manager, reader, &state);
        for (uint32_t i = 0; i < plan_inputs(&at->job, reader); i++) {
            is_wanted |= state.committed.attempt == 0 &&
                         at->job.edges[at->job.first_edge[reader] + i].from == task;
        }
    }
    return is_wanted;
}

/* Who was lost with a host that he lay on, and is needed, may run again. */
static inline void take_raised(void *arg, uint32_t task)
{
    world *at = arg;
    attempt *run = world_attempt(at, &at->stands[task]);
    const uint32_t number =
        run != NULL && run->is_held ? number_of(at, run->machine, run->incarnation) : GY_NONE;
    at->failed_at[task] = 0;
    if (number != GY_NONE && at->numbers[number].told == TOLD_LOST && is_wanted(at, task)) {
        run->is_excused = true;
    }
}

/* Before a step: what a failure, or a commit, says of its host. */
static inline void count_failures(world *at, const gy_sched_event *event)
{
    uint32_t failed = 0, copies = 0;
    uint32_t number =
        event->process < PLAN_PROCESSES ? at->slot_number[event->process] : GY_NONE;
    if (at->manager == NULL) {
        return;
    }
    count_stages(at, &failed, &copies);
    if (failed > at->failed_before && event->kind == GY_EVENT_PROCESS_DOWN) {
        memset(at->failed_at, 0, sizeof(at->failed_at)); /* whose failure it was is not known */
        for (uint32_t task = 0; task < at->job.count && number != GY_NONE; task++) {
            at->ever_failed_at[task] |= UINT64_C(1) << number;
        }
    } else if (failed > at->failed_before && event->kind == GY_EVENT_FAILED &&
               number != GY_NONE) {
        at->failed_at[event->id.task] = number + 1;
        at->ever_failed_at[event->id.task] |= UINT64_C(1) << number;
    }
    at->failed_before = failed;
}

#endif
