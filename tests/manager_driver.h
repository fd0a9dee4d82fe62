/*
 * The driver of a simulated job, its faults, and what is checked while it runs and at its end.
 */
#ifndef GY_TESTS_MANAGER_DRIVER_H
#define GY_TESTS_MANAGER_DRIVER_H

#include "manager_hosts.h"

/* ---- Faults ---- */

/* A committed output that stands, from `which` on; NULL: none. */
static inline attempt *standing_output(world *at, uint32_t which, bool is_final, uint32_t *task)
{
    for (uint32_t i = 0; i < at->job.count; i++) {
        *task = (which + i) % at->job.count;
        bool is_right = !is_final || (at->job.tasks[*task].flags & GY_TASK_FINAL) != 0;
        if (is_right && at->stands[*task].attempt != 0) {
            return world_attempt(at, &at->stands[*task]);
        }
    }
    return NULL;
}

/* Did it read, over others too, what another run would write otherwise, and is that gone? */
static inline bool is_undermined(world *at, uint32_t task, attempt *run)
{
    if (run->looked == at->effects + 1) {
        return run->is_undermined;
    }
    run->looked = at->effects + 1;
    run->is_undermined = false;
    for (uint32_t i = 0; i < plan_inputs(&at->job, task) && !run->is_undermined; i++) {
        uint32_t from = run->bound[i].task;
        attempt *input = world_attempt(at, &run->bound[i]);
        bool is_loose = at->job.tasks[from].determinism == GY_OUTPUT_INDETERMINATE ||
                        at->job.is_ordered[from] || at->job.is_liar[from];
        bool is_gone = !input->has_file || input->is_bad ||
                       memcmp(&run->bound[i], &at->stands[from], sizeof(gy_attempt)) != 0;
        run->is_undermined = (is_loose && is_gone) || is_undermined(at, from, input);
    }
    return run->is_undermined;
}

/* May it run again, though it was committed? */
static inline bool is_justified(world *at, uint32_t task)
{
    attempt *run = world_attempt(at, &at->stands[task]);
    return !run->has_file || run->is_bad || run->is_excused || is_undermined(at, task, run);
}

static inline void damage(world *at, const fault *what)
{
    uint32_t task = 0;
    attempt *output = standing_output(at, what->which, what->kind == FAULT_SAVE_FAILS, &task);
    if (output == NULL || at->is_saved) {
        return;
    }
    output->has_file = output->has_file && what->kind == FAULT_OUTPUT_FLIPPED;
    output->is_bad = output->is_bad || what->kind == FAULT_OUTPUT_FLIPPED;
    if (what->kind == FAULT_OUTPUT_TOLD) {
        mail_send(at, (gy_sched_event){.kind = GY_EVENT_LOST, .id = at->stands[task]},
                  1 + (int64_t)world_below(at, 1000000));
    }
}

static inline void fault_fires(world *at, const fault *what)
{
    uint32_t number = what->which % at->job.options.process_max;
    process *where = &at->processes[number];
    int64_t now_ns = gy_sim_now_ns(at->sim);
    bool is_counted = false;
    switch (what->kind) {
    case FAULT_PROCESS_DIES:
        is_counted = what->which % 3 == 0 && at->failures_most + at->deaths < WORLD_FAILURES;
        at->deaths += is_counted;
        process_dies(at, number, is_counted ? GY_CAUSE_OWN : GY_CAUSE_CANCELLED);
        break;
    case FAULT_PROCESS_STOPS:
        where->stopped_until_ns = now_ns + what->span_ns;
        break;
    case FAULT_PROCESS_SLOW:
        where->slow_until_ns = now_ns + what->span_ns;
        break;
    case FAULT_MANAGER_DIES:
    case FAULT_MACHINE_CRASHES:
        at->is_dying = true;
        at->must_crash = what->kind == FAULT_MACHINE_CRASHES;
        break;
    case FAULT_JOURNAL_FAILS:
        at->fails_journal = true;
        break;
    case FAULT_OUTPUT_LOST:
    case FAULT_OUTPUT_FLIPPED:
    case FAULT_OUTPUT_TOLD:
        damage(at, what);
        break;
    case FAULT_TASK_FAILS:
        at->failures_left[what->which % PLAN_TASKS % at->job.count] += 1 + what->which % 5;
        break;
    case FAULT_BAD_RECORD:
        at->fails_record = true;
        break;
    case FAULT_START_FAILS:
        at->fails_start = true;
        break;
    case FAULT_SAVE_FAILS:
        at->fails_save = true;
        break;
    case FAULT_HOST_DIES:
    case FAULT_HOST_EMPTIED:
    case FAULT_HOST_PARTED:
    case FAULT_HOST_BAD:
    case FAULT_LEASE_ENDS:
        host_fault(at, what);
        break;
    case FAULTS:
        break;
    }
}

/* ---- Effects ---- */

/* A new attempt of a task; valid until the next. */
static inline attempt *add_attempt(world *at, const gy_attempt *id)
{
    attempts *all = &at->tasks[id->task];
    if (GY_GROW("world.attempts", all->items, all->capacity, all->count + 1) < 0) {
        gy_panic("no memory for a simulated world");
    }
    all->items[all->count] = (attempt){.epoch = id->epoch, .number = id->attempt};
    return &all->items[all->count++];
}

/* Is a process at it, in another attempt? */
static inline bool is_run_twice(const world *at, const gy_attempt *id)
{
    for (uint32_t i = 0; i < PLAN_PROCESSES; i++) {
        for (const job_item *item = at->processes[i].items; item != NULL; item = item->next) {
            if (item->id.task == id->task && item->id.attempt != id->attempt) {
                return true;
            }
        }
    }
    for (uint32_t i = 0; i < GY_MIN(at->zombie_count, (uint32_t)WORLD_ZOMBIES); i++) {
        if (at->zombies[i].task == id->task &&
            at->zombies[i].until_ns > gy_sim_now_ns(at->sim)) {
            return true;
        }
    }
    return false;
}

static inline void on_start(world *at, const gy_effect *effect)
{
    uint32_t task = effect->id.task;
    process *to = &at->processes[effect->process];
    attempt *known = world_attempt(at, &effect->id);
    gy_sched_task_state state;
    if (to->generation != effect->generation || !to->is_there) {
        world_wrong(at, "started in a process that is not there", task);
    }
    if (at->job.tasks[task].width > 1 && to->in_flight >= at->job.options.threads) {
        world_wrong(at, "a member of a cohort waits behind another task", task);
    }
    if (at->stands[task].attempt != 0 && !is_justified(at, task)) {
        world_wrong(at, "runs again, though its output was not lost", task);
    }
    if ((at->job.tasks[task].flags & GY_TASK_EXACT) != 0 && is_run_twice(at, &effect->id)) {
        world_wrong(at, "two runs at once of an exact task", task);
    }
    uint64_t nonce = at->job.tasks[task].key.high + 1;
    if (at->started[task] != 0 && at->started[task] != nonce) {
        world_wrong(at, "a growth was decided twice, and tasks of both were started", task);
    }
    at->started[task] = nonce;
    to->in_flight++;
    if (world_has_hosts(at)) {
        check_place(at, effect, known);
    }
    if (known == NULL) {
        known = add_attempt(at, &effect->id);
        known->salt = world_below(at, UINT64_MAX);
        known->machine = to->machine;
        known->incarnation = at->machines[to->machine].incarnation;
        at->reruns += at->tasks[task].count > 1;
        for (uint32_t i = 0; i < plan_inputs(&at->job, task); i++) {
            gy_manager_task(at->manager, at->job.edges[at->job.first_edge[task] + i].from,
                            &state);
            const attempt *input = world_attempt(at, &state.committed);
            if (state.committed.attempt == 0 || input == NULL) {
                world_wrong(at, "starts without its inputs", task);
                return;
            }
            check_input(at, &state, input, task);
            known->bound[i] = state.committed;
            known->read[i] = input->value;
        }
        known->value = plan_run(&at->job, task, known->read, known->salt);
    } else if ((known->done >> effect->member & 1) != 0 || known->is_discarded) {
        world_wrong(at, "an attempt's number is given twice", task);
    }
    order_send(at, effect, start_arrives);
}

/* It did not run here: what an earlier job left. NULL: there is no such thing. */
static inline attempt *recall(world *at, const gy_attempt *id, const gy_key *key)
{
    const legacy *left = at->legacy;
    uint32_t task = id->task;
    for (uint32_t i = 0; left != NULL && i < left->count; i++) {
        if (left->tasks[i] == task && left->memos[i].attempt == id->attempt &&
            memcmp(&left->memos[i].key, key, sizeof(gy_key)) == 0) {
            attempt *run = add_attempt(at, id);
            *run = left->runs[i];
            run->is_held = false; /* it is in the store */
            for (uint32_t input = 0; input < plan_inputs(&at->job, task); input++) {
                uint32_t from = at->job.edges[at->job.first_edge[task] + input].from;
                run->bound[input] = at->stands[from];
                run->read[input] = world_attempt(at, &at->stands[from])->value;
            }
            at->memoised++;
            return run;
        }
    }
    return NULL;
}

static inline void on_committed(world *at, const gy_effect *effect)
{
    uint32_t task = effect->id.task;
    const attempt *run = world_attempt(at, &effect->id);
    run = run != NULL ? run : recall(at, &effect->id, &effect->key);
    const gy_attempt *before = &at->stands[task];
    gy_sched_task_state state;
    gy_manager_task(at->manager, task, &state);
    const char *wrong = checks_commit(
        &effect->id, before, run != NULL && run->done == (1u << at->job.tasks[task].width) - 1,
        run != NULL && run->is_discarded);
    if (wrong != NULL) {
        world_wrong(at, wrong, task);
        return;
    }
    bool is_other = memcmp(&at->stood_content[task], &state.content, sizeof(gy_key)) != 0;
    if (before->attempt != 0 && is_other &&
        at->job.tasks[task].determinism == GY_OUTPUT_DETERMINISTIC &&
        memcmp(&at->stood_key[task], &effect->key, sizeof(gy_key)) == 0) {
        world_wrong(at, "other bytes of a deterministic task were taken", task);
    }
    uint64_t report = 0;
    size_t skipped = at->job.tasks[task].width > 1 ? sizeof(uint32_t) : 0;
    if (effect->size_bytes >= skipped + sizeof(report)) {
        memcpy(&report, (const uint8_t *)effect->data + skipped, sizeof(report));
    }
    if (report != run->value.records) {
        world_wrong(at, "committed with another's report", task);
    }
    check_input(at, &state, run, task);
    uint32_t number = number_of(at, run->machine, run->incarnation);
    at->well_at[task] |= number != GY_NONE ? UINT64_C(1) << number : 0;
    at->stands[task] = effect->id;
    at->stood_key[task] = effect->key;
    at->stood_content[task] = state.content;
}

static inline void on_discard(world *at, const gy_effect *effect)
{
    attempt *run = world_attempt(at, &effect->id);
    gy_sched_task_state state;
    gy_manager_task(at->manager, effect->id.task, &state);
    if (state.committed.attempt != 0 && state.committed.attempt == effect->id.attempt &&
        state.committed.epoch == effect->id.epoch) {
        world_wrong(at, "the files that stand are discarded", effect->id.task);
    }
    if (run != NULL && effect->host != GY_NONE &&
        (at->numbers[effect->host].machine != run->machine ||
         at->numbers[effect->host].incarnation != run->incarnation)) {
        world_wrong(at, "discarded on another host than it ran on", effect->id.task);
    }
    if (run != NULL) {
        run->has_file = false;
        run->is_discarded = true;
    }
}

typedef struct sync_order {
    world *at;
    uint32_t life;
    uint64_t position;
} sync_order;

static inline void journal_syncs(void *arg)
{
    sync_order *what = arg;
    world *at = what->at;
    if (what->life == at->life && !at->is_over && at->manager != NULL) {
        gy_sched_event said = {.kind = GY_EVENT_SYNCED, .position = what->position};
        if (at->fails_journal || at->has_journal_error ||
            gy_env_disk(at->env)->sync(at->env, at->journal) < 0) {
            at->fails_journal = false;
            said.kind = GY_EVENT_JOURNAL_FAILED;
        }
        world_tell(at, &said);
    }
    gy_free(what);
}

static inline void on_sync(world *at, const gy_effect *effect)
{
    sync_order *what = gy_alloc("world.sync", sizeof(*what));
    if (what == NULL) {
        gy_panic("no memory for a simulated world");
    }
    *what = (sync_order){.at = at, .life = at->life, .position = effect->position};
    world_at(at, 100000 + (int64_t)world_below(at, 3000000), journal_syncs, what);
}

static inline void on_append(world *at, const gy_effect *effect)
{
    if (effect->position != at->journal_bytes + effect->size_bytes) {
        world_wrong(at, "the journal has a hole", 0);
    }
    at->journal_bytes = effect->position;
    if (world_has_hosts(at)) {
        checks_raised(effect->data, effect->size_bytes, take_raised, at);
    }
    if (at->has_journal_error) {
        return;
    }
    if (at->fails_journal ||
        gy_env_disk(at->env)->write(at->env, at->journal, effect->data, effect->size_bytes) !=
            (int64_t)effect->size_bytes) {
        at->fails_journal = false;
        at->has_journal_error = true;
        mail_send(at, (gy_sched_event){.kind = GY_EVENT_JOURNAL_FAILED, .reason = "EIO"}, 0);
    }
}

static inline void on_grow(world *at, const gy_effect *effect)
{
    gy_stage_state state;
    gy_manager_stage(at->manager, effect->stage, &state);
    bool is_new =
        at->asked[effect->stage] == UINT32_MAX || state.tasks > at->asked[effect->stage];
    if (at->is_asking[effect->stage] || !is_new || !at->job.stages[effect->stage].is_gate) {
        world_wrong(at, "a gate asks twice", effect->stage);
    }
    at->is_asking[effect->stage] = true;
    at->asked[effect->stage] = state.tasks;
    mail_send(at, (gy_sched_event){.kind = GY_EVENT_GROWN, .stage = effect->stage},
              100000 + (int64_t)world_below(at, 5000000));
}

/* Are the final files whole? The first that is not. */
static inline uint32_t bad_final(world *at, bool *must_wait)
{
    *must_wait = false;
    for (uint32_t task = 0; task < at->job.count; task++) {
        if ((at->job.tasks[task].flags & GY_TASK_FINAL) != 0) {
            const attempt *output = world_attempt(at, &at->stands[task]);
            bool waits = false;
            if (!is_readable(at, output, GY_NONE, &waits)) {
                *must_wait = waits;
                return task;
            }
        }
    }
    return GY_TASK_NONE;
}

static inline void on_save(world *at);

/* Nobody knows of each final file's host whether it lives? */
static inline bool is_final_unknown(const world *at)
{
    for (uint32_t task = 0; task < at->job.count; task++) {
        gy_sched_task_state state;
        gy_manager_task(at->manager, task, &state);
        if ((at->job.tasks[task].flags & GY_TASK_FINAL) != 0 && state.host != GY_NONE &&
            at->numbers[state.host].told == TOLD_NOTHING) {
            return true;
        }
    }
    return false;
}

typedef struct save_order {
    world *at;
    uint32_t life;
} save_order;

static inline void save_again(void *arg)
{
    save_order *what = arg;
    if (what->life == what->at->life && !what->at->is_over && what->at->manager != NULL) {
        on_save(what->at);
    }
    gy_free(what);
}

static inline void on_save(world *at)
{
    bool must_wait = false;
    if (is_final_unknown(at)) {
        world_wrong(at, "saved before it is known whether its host lives", 0);
    }
    gy_sched_event said = {.kind = GY_EVENT_OUTPUT_SAFE};
    if (at->fails_save) {
        at->fails_save = false;
        const fault lost = {.kind = FAULT_SAVE_FAILS};
        damage(at, &lost);
    }
    uint32_t bad = bad_final(at, &must_wait);
    if (must_wait) { /* for its host, or for news of it */
        save_order *again = gy_alloc("world.save", sizeof(*again));
        if (again == NULL) {
            gy_panic("no memory for a simulated world");
        }
        *again = (save_order){at, at->life};
        world_at(at, 10000000, save_again, again);
        return;
    }
    if (bad != GY_TASK_NONE) {
        said.cause = GY_CAUSE_LOST_INPUT;
        said.id = at->stands[bad];
    } else {
        at->is_saved = true;
        for (uint32_t task = 0; task < at->job.count; task++) {
            const attempt *output = world_attempt(at, &at->stands[task]);
            at->saved[task] = output != NULL ? output->value : (plan_value){0};
        }
    }
    mail_send(at, said, 1000000);
}

static inline void on_publish(world *at)
{
    for (uint32_t task = 0; task < at->job.count; task++) {
        const attempt *output = world_attempt(at, &at->stands[task]);
        bool is_final = (at->job.tasks[task].flags & GY_TASK_FINAL) != 0;
        if (is_final && (!at->is_saved || output == NULL ||
                         memcmp(&at->saved[task], &output->value, sizeof(plan_value)) != 0)) {
            world_wrong(at, "published, but not what was saved", task);
        }
    }
    at->is_published = true;
    mail_send(at, (gy_sched_event){.kind = GY_EVENT_PUBLISHED}, 1000000);
}

static inline void on_end(world *at, const gy_effect *effect)
{
    if (effect->status == GY_IO && strstr(effect->reason, "journal") != NULL) {
        at->is_dying = true; /* its user resumes it */
        return;
    }
    at->end = effect->status;
    at->is_over = true;
    bool is_liar = at->job.liar != GY_TASK_NONE && effect->status == GY_MISMATCH;
    if (effect->status != GY_OK && !is_liar) {
        world_wrong(at, effect->reason, 0);
    }
}

/* GYRE_TEST_TRACE: every effect of a seed, to see how it came to what is wrong. */
static inline void trace(const world *at, const gy_effect *effect)
{
    static const char *const kinds[] = {"spawn", "kill",    "start",     "cancel", "append",
                                        "sync",  "discard", "committed", "grow",   "timer",
                                        "save",  "publish", "note",      "avoid",  "end"};
    printf("%u.%u %.3f ms %s task %d epoch %u attempt %x member %u process %d %s\n", at->life,
           at->effects, (double)gy_sim_now_ns(at->sim) / 1e6, kinds[effect->kind],
           (int)effect->id.task, effect->id.epoch, effect->id.attempt, effect->member,
           (int)effect->process, effect->reason != NULL ? effect->reason : "");
}

static inline void carry_out(world *at, const gy_effect *effect)
{
    if (at->is_traced) {
        trace(at, effect);
    }
    switch (effect->kind) {
    case GY_EFFECT_SPAWN:
        spawn(at, effect);
        break;
    case GY_EFFECT_KILL:
        at->processes[effect->process].is_known_up = false;
        order_send(at, effect, kill_arrives);
        break;
    case GY_EFFECT_START:
        on_start(at, effect);
        break;
    case GY_EFFECT_CANCEL:
        world_attempt(at, &effect->id)->is_told = true;
        order_send(at, effect, cancel_arrives);
        break;
    case GY_EFFECT_APPEND:
        on_append(at, effect);
        break;
    case GY_EFFECT_SYNC:
        on_sync(at, effect);
        break;
    case GY_EFFECT_DISCARD:
        on_discard(at, effect);
        break;
    case GY_EFFECT_COMMITTED:
        on_committed(at, effect);
        break;
    case GY_EFFECT_GROW:
        on_grow(at, effect);
        break;
    case GY_EFFECT_TIMER:
        mail_send(at, (gy_sched_event){.kind = GY_EVENT_TIMER},
                  GY_MAX(effect->at_ns - gy_sim_now_ns(at->sim), 0));
        break;
    case GY_EFFECT_SAVE:
        on_save(at);
        break;
    case GY_EFFECT_PUBLISH:
        on_publish(at);
        break;
    case GY_EFFECT_NOTE:
        break;
    case GY_EFFECT_AVOID:
        on_avoid(at, effect);
        break;
    case GY_EFFECT_END:
        on_end(at, effect);
        break;
    }
}

static inline void manager_dies(world *at)
{
    at->is_dying = false;
    if (world_has_hosts(at)) {
        hosts_forget(at);
    }
    at->life++;
    for (uint32_t i = 0; i < PLAN_PROCESSES; i++) {
        process_clear(&at->processes[i]);
        at->processes[i] = (process){0};
    }
    gy_manager_free(at->manager);
    at->manager = NULL;
    if (at->must_crash) {
        at->must_crash = false;
        gy_sim_crash(at->sim, 0);
        gy_sim_restart(at->sim, 0);
    }
    world_at(at, 1000000, world_restart, at);
}

/* It is in the journal once its APPEND is. */
static inline void keep_learnt(world *at)
{
    for (size_t i = 0; i < at->said.count; i++) {
        if (at->said.items[i].kind == GY_EFFECT_APPEND) {
            at->learnt_end[at->learnt_count++] = at->said.items[i].position;
            return;
        }
    }
    world_wrong(at, "what was learnt is not written", 0);
}

/* What the driver itself knows of an event before the manager does. */
static inline void before_step(world *at, gy_sched_event *event, gy_growth *growth)
{
    if (event->kind == GY_EVENT_PROCESS_DOWN || event->kind == GY_EVENT_DONE ||
        event->kind == GY_EVENT_FAILED) {
        process *from = &at->processes[event->process];
        bool is_now = from->generation == event->generation;
        from->in_flight -=
            is_now && event->kind != GY_EVENT_PROCESS_DOWN && from->in_flight > 0;
        if (is_now && event->kind == GY_EVENT_PROCESS_DOWN) {
            from->is_there = from->is_known_up = false;
        }
    }
    if (event->kind == GY_EVENT_PROCESS_UP) {
        process *from = &at->processes[event->process];
        from->is_known_up |= from->is_there && from->generation == event->generation;
    }
    if (event->kind == GY_EVENT_FAILED && event->cause == GY_CAUSE_NEW_BAD_RECORD &&
        at->learnt_count < WORLD_LEARNT) {
        at->learnt[at->learnt_count] = ++at->learnt_given;
        event->report = &at->learnt[at->learnt_count];
        event->report_bytes = sizeof(at->learnt[0]);
    }
    if (event->kind == GY_EVENT_GROWN) {
        at->is_asking[event->stage] = false;
        /* Drawn now: asked again after a crash it would be something else. */
        *growth = plan_grow(&at->job, event->stage, 1 + world_below(at, 1u << 30));
        event->growth = growth->task_count > 0 || growth->detail_bytes > 0 ? growth : NULL;
    }
}

static void world_tell(world *at, const gy_sched_event *told)
{
    gy_sched_event event = *told;
    gy_growth growth;
    before_step(at, &event, &growth);
    event.now_ns = gy_sim_now_ns(at->sim);
    gy_status status = gy_manager_step(at->manager, &event, &at->said);
    if (status < 0) {
        world_wrong(at, gy_error_text(), 0);
        return;
    }
    if (event.kind == GY_EVENT_FAILED && event.report_bytes > 0) {
        keep_learnt(at);
    }
    if (world_has_hosts(at)) {
        count_failures(at, &event);
    }
    for (size_t i = 0; i < at->said.count && !at->is_dying && !at->is_over; i++) {
        carry_out(at, &at->said.items[i]);
        at->effects++;
        while (at->faults_fired < at->fault_count && !at->is_over &&
               at->faults[at->faults_fired].at <= at->effects) {
            fault_fires(at, &at->faults[at->faults_fired++]);
        }
    }
    if (at->is_dying && !at->is_over) {
        manager_dies(at);
    }
}

/* ---- A manager begins ---- */

static inline uint8_t *read_journal(world *at, const char *path, size_t *size_bytes)
{
    const gy_disk_ops *disk = gy_env_disk(at->env);
    *size_bytes = 0;
    int file = disk->open(at->env, path, O_RDONLY, 0);
    if (file < 0) {
        return NULL;
    }
    size_t size = (size_t)disk->size(at->env, file);
    uint8_t *bytes = gy_alloc("world.journal", size + 1);
    int64_t got = bytes != NULL ? disk->read(at->env, file, bytes, size) : -1;
    disk->close(at->env, file);
    *size_bytes = got > 0 ? (size_t)got : 0;
    return bytes;
}

static inline void open_journal(world *at, const uint8_t *bytes, size_t used)
{
    const gy_disk_ops *disk = gy_env_disk(at->env);
    char path[64];
    snprintf(path, sizeof(path), "job/journal.%u", at->life);
    at->journal = disk->open(at->env, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int folder = disk->open(at->env, "job", O_RDONLY | O_DIRECTORY, 0);
    bool is_there =
        at->journal >= 0 && folder >= 0 &&
        (used == 0 || disk->write(at->env, at->journal, bytes, used) == (int64_t)used) &&
        disk->sync(at->env, at->journal) == 0 && disk->sync(at->env, folder) == 0;
    disk->close(at->env, folder);
    if (!is_there) {
        gy_panic("a simulated journal cannot be made");
    }
    at->journal_bytes = used;
    at->has_journal_error = at->fails_journal = false;
}

/* All that was learnt comes back in order, up to where the journal ends. */
static inline void check_learnt(world *at, size_t used)
{
    uint32_t found = 0;
    const void *data = NULL;
    size_t size = 0;
    for (; gy_manager_learnt(at->manager, found, &data, &size); found++) {
        if (found >= at->learnt_count || size != sizeof(at->learnt[0]) ||
            memcmp(data, &at->learnt[found], size) != 0) {
            world_wrong(at, "something else comes back than was learnt", 0);
            return;
        }
    }
    if (found < at->learnt_count && at->learnt_end[found] <= used) {
        world_wrong(at, "what was learnt is forgotten", 0);
    }
    at->learnt_count = found;
}

/* What stands is what the journal says. */
static inline void take_replayed(world *at)
{
    gy_grown grown;
    plan_forget(&at->job);
    memset(at->asked, 0, sizeof(at->asked));
    memset(at->is_asking, 0, sizeof(at->is_asking));
    for (uint32_t i = 0; gy_manager_grown(at->manager, i, &grown); i++) {
        uint64_t nonce = 0;
        if (grown.detail_bytes != sizeof(nonce)) {
            world_wrong(at, "a growth's detail is gone", 0);
            return;
        }
        memcpy(&nonce, grown.detail, sizeof(nonce));
        gy_growth growth = plan_grow(&at->job, grown.stage, nonce);
        at->asked[grown.stage] = UINT32_MAX;
        if (growth.task_count != grown.task_count ||
            grown.first_task + grown.task_count != at->job.count) {
            world_wrong(at, "a growth has other tasks than it had", grown.first_task);
            return;
        }
    }
    memset(at->stands, 0, sizeof(at->stands));
    for (uint32_t task = 0; task < at->job.count; task++) {
        gy_sched_task_state state;
        gy_manager_task(at->manager, task, &state);
        if (state.committed.attempt != 0) {
            at->stands[task] = state.committed;
            at->stood_key[task] = state.key;
            at->stood_content[task] = state.content;
            attempt *run = world_attempt(at, &state.committed);
            if (run != NULL) {
                run->is_excused = false;
            }
            if (world_attempt(at, &state.committed) == NULL) {
                (void)recall(at, &state.committed, &state.key);
            }
        }
    }
}

static void world_restart(void *arg)
{
    world *at = arg;
    char path[64];
    size_t size = 0, used = 0;
    if (at->is_over) {
        return;
    }
    snprintf(path, sizeof(path), "job/journal.%u", at->life - 1);
    uint8_t *bytes = at->life > 0 ? read_journal(at, path, &size) : NULL;
    plan_forget(&at->job);
    const gy_growth first = {.tasks = at->job.tasks,
                             .places = at->job.places,
                             .task_count = at->job.first_count,
                             .edges = at->job.edges,
                             .edge_count = at->job.edge_count};
    gy_status status = gy_manager_new(&at->job.options, &first, &at->manager);
    if (status == GY_OK && size > 0) {
        status = gy_manager_replay(at->manager, bytes, size, &used);
    }
    if (status == GY_OK && at->legacy != NULL) {
        status = gy_manager_remember(at->manager, at->legacy->memos, at->legacy->count);
    }
    if (status < 0) {
        world_wrong(at, gy_error_text(), 0);
    } else {
        at->resumes += at->life > 0;
        open_journal(at, bytes, used);
        check_learnt(at, used);
        take_replayed(at);
        if (world_has_hosts(at)) {
            hosts_replayed(at);
        }
        world_tell(at, &(gy_sched_event){.kind = GY_EVENT_BEGIN});
        if (world_has_hosts(at)) {
            hosts_begin(at);
        }
    }
    gy_free(bytes);
}

#endif
