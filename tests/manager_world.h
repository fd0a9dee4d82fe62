/*
 * A world around the manager: a driver, processes, a disk for the journal and files of outputs,
 * all on a simulated clock, with faults that a seed draws. It knows what is right: `wrong` says
 * what was not.
 */
#ifndef GY_TESTS_MANAGER_WORLD_H
#define GY_TESTS_MANAGER_WORLD_H

#include "sched/manager.h"
#include "sim/sim.h"

#include <fcntl.h>
#include <stdio.h>

#include "manager_plan.h"

typedef enum fault_kind {
    FAULT_PROCESS_DIES,
    FAULT_PROCESS_STOPS,   /* says and does nothing for `span` */
    FAULT_PROCESS_SLOW,    /* ten times, for `span` */
    FAULT_MANAGER_DIES,    /* what it wrote to its journal is there */
    FAULT_MACHINE_CRASHES, /* what was not synced may not be there */
    FAULT_JOURNAL_FAILS,   /* the next write or sync */
    FAULT_OUTPUT_LOST,
    FAULT_OUTPUT_FLIPPED,
    FAULT_OUTPUT_TOLD, /* lost, and the driver says so */
    FAULT_TASK_FAILS,  /* one, of itself, up to five times */
    FAULT_BAD_RECORD,
    FAULT_START_FAILS, /* the next process */
    FAULT_SAVE_FAILS,  /* a final output is gone as it is saved */
    HOME_FAULTS,
    FAULT_HOST_DIES = HOME_FAULTS, /* and is back with its files after `span` */
    FAULT_HOST_EMPTIED,            /* and is back without them, as another */
    FAULT_HOST_PARTED,             /* its processes go on, nobody hears of it */
    FAULT_HOST_BAD,                /* tasks fail there */
    FAULT_LEASE_ENDS,              /* a slot is taken away for `span` */
    FAULTS
} fault_kind;

static const char *const fault_names[FAULTS] = {
    "process dies",  "process stops", "process slow",   "manager dies", "machine crashes",
    "journal fails", "output lost",   "output flipped", "output told",  "task fails",
    "bad record",    "start fails",   "save fails",     "host dies",    "host emptied",
    "host parted",   "host bad",      "lease ends"};

typedef struct fault {
    fault_kind kind;
    uint32_t at; /* effects that were carried out before */
    uint32_t which;
    int64_t span_ns;
} fault;

enum { WORLD_FAULTS = 24, WORLD_FAILURES = 5, WORLD_LEARNT = 64 };

/* A run of a task: what it read, what it wrote, whether its files are there. */
typedef struct attempt {
    uint32_t epoch, number;
    uint64_t salt;
    gy_attempt bound[PLAN_INPUTS];
    plan_value read[PLAN_INPUTS], value;
    uint32_t done; /* bits of members */
    bool has_file, is_bad, is_discarded, is_undermined;
    bool is_held;    /* its file lies on its machine, in this incarnation */
    bool is_excused; /* that was lost when somebody needed it */
    bool is_told;    /* to stop, though nobody at its process may have heard it yet */
    uint32_t machine, incarnation;
    uint32_t looked; /* when is_undermined was found */
} attempt;

typedef struct attempts {
    attempt *items;
    size_t count, capacity;
} attempts;

/* What an earlier, undisturbed run of the same job left. */
typedef struct legacy {
    gy_sched_memo memos[PLAN_TASKS];
    uint64_t reports[PLAN_TASKS][2 * PLAN_PROCESSES];
    uint32_t tasks[PLAN_TASKS];
    attempt runs[PLAN_TASKS];
    uint32_t count;
} legacy;

/* A member of an attempt at a process. */
typedef struct job_item {
    struct job_item *next;
    gy_attempt id;
    uint32_t member;
    int64_t work_ns;
    bool is_running, is_cancelled;
} job_item;

typedef struct process {
    bool is_there, is_up; /* until its DOWN was delivered; serves */
    uint32_t generation;
    int64_t stopped_until_ns, slow_until_ns, mail_ns, order_ns;
    job_item *items;
    uint32_t running, in_flight; /* in_flight: as the driver knows it */
    uint32_t machine;            /* over hosts */
    bool is_known_up;            /* to the manager */
} process;

/* A machine of a job over hosts. */
typedef struct sim_machine {
    uint32_t incarnation;
    uint32_t loss; /* counts them */
    int64_t away_since_ns, away_until_ns, bad_until_ns;
    bool is_dead, is_emptied; /* while it is away */
} sim_machine;

/* A host as the manager knows it by its number, in this life. */
typedef struct host_number {
    uint32_t machine, incarnation;
    enum { TOLD_NOTHING, TOLD_UP, TOLD_LOST } told;
    bool is_avoided;
} host_number;

/* What a process does that nobody can reach. */
typedef struct zombie {
    uint32_t task, machine, life;
    int64_t until_ns;
} zombie;

enum { WORLD_ZOMBIES = 256 };

typedef struct world {
    uint64_t seed;
    gy_sim *sim;
    gy_env *env;
    plan job;
    gy_manager *manager;
    gy_effects said;
    gy_random chance;
    fault faults[WORLD_FAULTS];
    uint32_t fault_count, faults_fired;
    uint32_t life; /* counts managers */
    uint32_t effects;
    bool is_over, is_dying, must_crash, fails_journal, has_journal_error;
    bool fails_start, fails_record, fails_save, is_saved, is_published;
    bool is_reordering, is_doubling, is_traced;
    /* A task has fewer failures of its own than end the job; a death may be any task's. */
    uint32_t failures[PLAN_TASKS], failures_left[PLAN_TASKS], failures_most, deaths;
    int journal;
    uint64_t journal_bytes;
    attempts tasks[PLAN_TASKS];
    const legacy *legacy;          /* NULL: none */
    gy_attempt stands[PLAN_TASKS]; /* attempt 0: none */
    gy_key stood_key[PLAN_TASKS], stood_content[PLAN_TASKS];
    uint64_t started[PLAN_TASKS]; /* nonce + 1 of the task of that number that once started */
    plan_value saved[PLAN_TASKS];
    process processes[PLAN_PROCESSES];
    uint32_t asked[PLAN_STAGES]; /* tasks that the gate had then; UINT32_MAX: not known */
    bool is_asking[PLAN_STAGES];
    uint32_t reruns, copies, memoised, resumes, losses, avoided;
    sim_machine machines[PLAN_HOSTS];
    host_number numbers[PLAN_NUMBERS];
    uint32_t number_count;
    uint32_t slot_number[PLAN_PROCESSES]; /* that it is open on; GY_NONE */
    bool is_leased_away[PLAN_PROCESSES];
    zombie zombies[WORLD_ZOMBIES];
    uint32_t zombie_count;
    uint32_t failed_at[PLAN_TASKS];      /* number + 1 where it failed last */
    uint64_t ever_failed_at[PLAN_TASKS]; /* bits of numbers, and where it did well */
    uint64_t well_at[PLAN_TASKS];
    uint32_t failed_before; /* counted failures of all stages */
    uint32_t copies_before;
    /* What was learnt under managers so far, and where the APPEND that has it ends. */
    uint64_t learnt[WORLD_LEARNT], learnt_end[WORLD_LEARNT];
    uint32_t learnt_count, learnt_given;
    gy_status end;
    char wrong[256];
} world;

typedef struct mail {
    world *to;
    uint32_t life;
    gy_sched_event event;
    uint64_t report[2 * PLAN_PROCESSES];
} mail;

static void world_restart(void *arg);
static void world_tell(world *at, const gy_sched_event *event);

static inline void world_wrong(world *at, const char *what, uint32_t task)
{
    if (at->wrong[0] == '\0') {
        snprintf(at->wrong, sizeof(at->wrong), "%s (task %u, life %u, effect %u, at %.3f ms)",
                 what, task, at->life, at->effects, (double)gy_sim_now_ns(at->sim) / 1e6);
    }
    at->is_over = true;
}

static inline uint64_t world_below(world *at, uint64_t bound)
{
    return gy_random_below(&at->chance, bound);
}

static inline void world_at(world *at, int64_t wait_ns, gy_env_fire fire, void *arg)
{
    if (gy_sim_at(at->sim, gy_sim_now_ns(at->sim) + wait_ns, fire, arg) < 0) {
        gy_panic("no memory for a simulated world");
    }
}

static inline attempt *world_attempt(world *at, const gy_attempt *id)
{
    attempts *all = &at->tasks[id->task];
    for (size_t i = 0; i < all->count; i++) {
        if (all->items[i].epoch == id->epoch && all->items[i].number == id->attempt) {
            return &all->items[i];
        }
    }
    return NULL;
}

/* ---- Machines ---- */

static inline bool world_has_hosts(const world *at)
{
    return at->job.hosts > 0;
}

/* How long a machine will be away. */
static inline int64_t machine_away_ns(const world *at, uint32_t number)
{
    int64_t left_ns =
        world_has_hosts(at) ? at->machines[number].away_until_ns - gy_sim_now_ns(at->sim) : 0;
    return GY_MAX(left_ns, 0);
}

/* The number of a machine in an incarnation; GY_NONE: it has none in this life. */
static inline uint32_t number_of(const world *at, uint32_t machine, uint32_t incarnation)
{
    for (uint32_t i = 0; i < at->number_count; i++) {
        if (at->numbers[i].machine == machine && at->numbers[i].incarnation == incarnation) {
            return i;
        }
    }
    return GY_NONE;
}

/* Can the machine `reader` read what that run wrote? `waits`: not now, but nobody knows that it
 * never can. */
static inline bool is_readable(const world *at, const attempt *input, uint32_t reader,
                               bool *waits)
{
    *waits = false;
    if (input == NULL || !input->has_file || input->is_bad || !world_has_hosts(at) ||
        !input->is_held) {
        return input != NULL && input->has_file && !input->is_bad;
    }
    if (at->machines[input->machine].incarnation != input->incarnation) {
        return false;
    }
    if (input->machine == reader) {
        return true;
    }
    bool is_cut = machine_away_ns(at, input->machine) > 0 ||
                  (reader != GY_NONE && machine_away_ns(at, reader) > 0);
    uint32_t number = number_of(at, input->machine, input->incarnation);
    *waits = is_cut && number != GY_NONE && at->numbers[number].told != TOLD_LOST;
    return !is_cut;
}

/* ---- Mail to the manager ---- */

static inline void mail_arrives(void *arg)
{
    mail *letter = arg;
    world *at = letter->to;
    if (letter->life == at->life && !at->is_over && at->manager != NULL) {
        world_tell(at, &letter->event);
    }
    gy_free(letter);
}

static inline mail *mail_new(world *at, gy_sched_event event)
{
    mail *letter = gy_alloc("world.mail", sizeof(*letter));
    if (letter == NULL) {
        gy_panic("no memory for a simulated world");
    }
    *letter = (mail){.to = at, .life = at->life, .event = event};
    return letter;
}

static inline void mail_send(world *at, gy_sched_event event, int64_t wait_ns)
{
    world_at(at, wait_ns, mail_arrives, mail_new(at, event));
}

/* From a process: in order, unless this seed mixes it up; some twice. */
static inline void mail_from(world *at, uint32_t number, gy_sched_event event)
{
    process *from = &at->processes[number];
    int64_t now_ns = gy_sim_now_ns(at->sim);
    event.process = number;
    event.generation = from->generation;
    for (int copies = at->is_doubling && world_below(at, 8) == 0 ? 2 : 1; copies > 0;
         copies--) {
        mail *letter = mail_new(at, event);
        if (event.report_bytes > 0) {
            memcpy(letter->report, event.report, event.report_bytes);
            letter->event.report = letter->report;
        }
        int64_t late_ns = at->is_reordering ? 5000000 : 100000;
        int64_t wait_ns =
            20000 + (int64_t)world_below(at, (uint64_t)(copies > 1 ? 20000000 : late_ns));
        if (!at->is_reordering && copies == 1) {
            from->mail_ns = GY_MAX(from->mail_ns + 1, now_ns + wait_ns);
            wait_ns = from->mail_ns - now_ns;
        }
        wait_ns += machine_away_ns(at, from->machine);
        world_at(at, wait_ns, mail_arrives, letter);
    }
}

/* ---- Processes ---- */

typedef struct order { /* something that happens at a process */
    world *at;
    uint32_t process, generation, life, member;
    gy_attempt id;
} order;

static inline void process_run_next(world *at, uint32_t number);

static inline order *order_new(world *at, uint32_t number, gy_attempt id, uint32_t member)
{
    order *made = gy_alloc("world.order", sizeof(*made));
    if (made == NULL) {
        gy_panic("no memory for a simulated world");
    }
    *made = (order){.at = at,
                    .process = number,
                    .generation = at->processes[number].generation,
                    .life = at->life,
                    .member = member,
                    .id = id};
    return made;
}

/* Its process, unless that is gone; waits while it is stopped. */
static inline process *order_process(order *what, gy_env_fire fire)
{
    world *at = what->at;
    process *where = &at->processes[what->process];
    bool is_void = at->is_over || what->life != at->life || !where->is_up ||
                   where->generation != what->generation;
    if (is_void) {
        gy_free(what);
        return NULL;
    }
    int64_t left_ns = where->stopped_until_ns - gy_sim_now_ns(at->sim);
    if (left_ns > 0) {
        world_at(at, left_ns, fire, what);
        return NULL;
    }
    return where;
}

/* Is its machine out of reach? Then it comes later. */
static inline bool order_waits(order *what, gy_env_fire fire)
{
    world *at = what->at;
    int64_t away_ns = machine_away_ns(at, at->processes[what->process].machine);
    if (away_ns > 0) {
        world_at(at, away_ns, fire, what);
    }
    return away_ns > 0;
}

static inline job_item *process_item(process *where, const order *what)
{
    job_item *item = where->items;
    while (item != NULL &&
           (item->id.task != what->id.task || item->id.attempt != what->id.attempt ||
            item->member != what->member)) {
        item = item->next;
    }
    return item;
}

/* Can it read what it was told to? The first input that it cannot. */
static inline uint32_t read_inputs(world *at, const gy_attempt *id, uint32_t machine,
                                   bool *waits)
{
    const attempt *run = world_attempt(at, id);
    uint32_t inputs = plan_inputs(&at->job, id->task);
    for (uint32_t i = 0; i < inputs; i++) {
        const attempt *input = world_attempt(at, &run->bound[i]);
        if (!is_readable(at, input, machine, waits)) {
            return i;
        }
    }
    *waits = false;
    return inputs;
}

static inline void write_outputs(world *at, const gy_attempt *id, uint32_t member,
                                 gy_sched_event *said)
{
    attempt *run = world_attempt(at, id);
    run->done |= 1u << member;
    run->has_file = run->done == (1u << at->job.tasks[id->task].width) - 1;
    if (run->is_discarded) {
        world_wrong(at, "files are written after their DISCARD", id->task);
    }
    said->kind = GY_EVENT_DONE;
    said->content = (gy_key){run->value.content, member};
    said->report = &run->value.records;
    said->report_bytes = sizeof(run->value.records);
    if (world_has_hosts(at) && world_below(at, 3) > 0) {
        said->is_held = run->is_held = true;
        said->held_bytes = world_below(at, 1u << world_below(at, 30));
    }
}

/* A member comes to its end. */
static inline void item_ends(void *arg)
{
    order *what = arg;
    process *where = order_process(what, item_ends);
    if (where == NULL) {
        return;
    }
    world *at = what->at;
    job_item *item = process_item(where, what), **link = &where->items;
    gy_sched_event said = {.kind = GY_EVENT_FAILED,
                           .id = what->id,
                           .member = what->member,
                           .run_ns = item->work_ns,
                           .reason = "as the seed wants it"};
    bool waits = false;
    uint32_t machine = world_has_hosts(at) ? where->machine : GY_NONE;
    uint32_t lost = read_inputs(at, &what->id, machine, &waits);
    if (waits && !item->is_cancelled && world_below(at, 4) > 0) {
        world_at(at, 20000000, item_ends, what);
        return;
    }
    if (waits &&
        !item->is_cancelled) { /* given up before anybody knows that its host is lost */
        world_attempt(at, &world_attempt(at, &what->id)->bound[lost])->is_excused = true;
    }
    bool is_bad = world_has_hosts(at) && world_below(at, 4) > 0 &&
                  at->machines[where->machine].bad_until_ns > gy_sim_now_ns(at->sim);
    at->failures_left[what->id.task] += is_bad && at->failures_left[what->id.task] == 0;
    while (*link != item) {
        link = &(*link)->next;
    }
    *link = item->next;
    where->running--;
    if (item->is_cancelled) {
        said.cause = GY_CAUSE_CANCELLED;
    } else if (lost < plan_inputs(&at->job, what->id.task)) {
        said.cause = GY_CAUSE_LOST_INPUT;
        said.input = lost;
    } else if (at->fails_record) {
        at->fails_record = false;
        said.cause = GY_CAUSE_NEW_BAD_RECORD;
    } else if (at->failures_left[what->id.task] > 0 &&
               at->failures[what->id.task] + at->deaths < WORLD_FAILURES) {
        at->failures_left[what->id.task]--;
        at->failures[what->id.task]++;
        at->failures_most = GY_MAX(at->failures_most, at->failures[what->id.task]);
        said.cause = GY_CAUSE_OWN;
    } else {
        write_outputs(at, &what->id, what->member, &said);
    }
    mail_from(at, what->process, said);
    gy_free(item);
    process_run_next(at, what->process);
    gy_free(what);
}

static inline void process_run_next(world *at, uint32_t number)
{
    process *where = &at->processes[number];
    for (job_item *item = where->items;
         item != NULL && where->running < at->job.options.threads; item = item->next) {
        if (!item->is_running) {
            const int64_t bytes = at->job.tasks[item->id.task].input_bytes;
            bool is_slow = where->slow_until_ns > gy_sim_now_ns(at->sim);
            item->work_ns = (100000 + (int64_t)world_below(at, 2 * (uint64_t)bytes + 1)) *
                            (is_slow ? 30 : 1);
            item->is_running = true;
            where->running++;
            world_at(at, item->work_ns, item_ends,
                     order_new(at, number, item->id, item->member));
        }
    }
}

static inline void start_arrives(void *arg)
{
    order *what = arg;
    process *where = order_process(what, start_arrives);
    if (where == NULL || order_waits(what, start_arrives)) {
        return;
    }
    job_item *item = gy_alloc("world.item", sizeof(*item)), **link = &where->items;
    if (item == NULL) {
        gy_panic("no memory for a simulated world");
    }
    *item = (job_item){.id = what->id, .member = what->member};
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = item;
    process_run_next(what->at, what->process);
    gy_free(what);
}

static inline void cancel_arrives(void *arg)
{
    order *what = arg;
    process *where = order_process(what, cancel_arrives);
    if (where != NULL && !order_waits(what, cancel_arrives)) {
        job_item *item = process_item(where, what);
        if (item != NULL) {
            item->is_cancelled = true;
        }
        gy_free(what);
    }
}

static inline void process_speaks(void *arg)
{
    order *what = arg;
    process *where = order_process(what, process_speaks);
    if (where != NULL) {
        mail_from(what->at, what->process, (gy_sched_event){.kind = GY_EVENT_HEARD});
        world_at(what->at, what->at->job.options.silence_ns / 3, process_speaks, what);
    }
}

static inline void process_comes(void *arg)
{
    order *what = arg;
    world *at = what->at;
    process *where = order_process(what, process_comes);
    if (where != NULL) {
        mail_from(at, what->process, (gy_sched_event){.kind = GY_EVENT_PROCESS_UP});
        process_speaks(what);
    }
}

static inline void process_clear(process *where)
{
    where->is_up = false;
    where->running = 0;
    while (where->items != NULL) {
        job_item *next = where->items->next;
        gy_free(where->items);
        where->items = next;
    }
}

/* It is dead; the manager hears of it later. */
static inline void process_dies(world *at, uint32_t number, gy_cause cause)
{
    process *where = &at->processes[number];
    if (where->is_up) {
        process_clear(where);
        mail_from(
            at, number,
            (gy_sched_event){.kind = GY_EVENT_PROCESS_DOWN, .cause = cause, .reason = "died"});
    }
}

static inline void kill_arrives(void *arg)
{
    order *what = arg;
    world *at = what->at;
    process *where = &at->processes[what->process];
    if (order_waits(what, kill_arrives)) {
        return;
    }
    if (!at->is_over && what->life == at->life && where->generation == what->generation) {
        process_dies(at, what->process, GY_CAUSE_CANCELLED);
    }
    gy_free(what);
}

/* To a process: in order. */
static inline void order_send(world *at, const gy_effect *effect, gy_env_fire fire)
{
    process *to = &at->processes[effect->process];
    int64_t now_ns = gy_sim_now_ns(at->sim);
    to->order_ns = GY_MAX(to->order_ns + 1, now_ns + 20000 + (int64_t)world_below(at, 100000));
    order *what = order_new(at, effect->process, effect->id, effect->member);
    what->generation = effect->generation;
    world_at(at, to->order_ns - now_ns, fire, what);
}

static inline void spawn(world *at, const gy_effect *effect)
{
    process *where = &at->processes[effect->process];
    if (where->is_there) {
        world_wrong(at, "a process is started where another still is", effect->process);
        return;
    }
    uint32_t machine = 0;
    if (world_has_hosts(at)) {
        uint32_t number = at->slot_number[effect->process];
        if (number == GY_NONE || at->numbers[number].told != TOLD_UP ||
            at->numbers[number].is_avoided) {
            world_wrong(at, "a process is started in a closed slot", effect->process);
            return;
        }
        machine = at->numbers[number].machine;
    }
    *where =
        (process){.is_there = true,
                  .is_up = machine_away_ns(at, machine) == 0 || !at->machines[machine].is_dead,
                  .generation = effect->generation,
                  .machine = machine};
    if (at->fails_start) {
        at->fails_start = false;
        process_dies(at, effect->process, GY_CAUSE_NONE);
        return;
    }
    world_at(at, 500000 + (int64_t)world_below(at, 2000000), process_comes,
             order_new(at, effect->process, (gy_attempt){0}, 0));
}

#endif
