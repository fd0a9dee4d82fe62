/* How runs end. A commit is a compare-and-set: the run must be known by (task, epoch, attempt)
 * and not be dead; any other result is late, and its files are discarded. */
#include "sched/manager/manager_priv.h"

#include <string.h>

/* Discard the files of an attempt that is no longer known, unless they are the committed ones.
 */
static void discard_late(gy_manager *manager, const gy_sched_event *event)
{
    if (event->id.task >= manager->task_count) {
        return;
    }
    const task_row *row = &manager->rows[event->id.task];
    bool stands = row->state == TASK_COMMITTED && row->epoch == event->id.epoch &&
                  row->committed == event->id.attempt;
    if (!stands || GY_PLANTED(WINNER_DISCARDED)) {
        gy_effect *discard = gy_manager_emit(manager, GY_EFFECT_DISCARD);
        discard->id = event->id;
        discard->key = manager->keys[event->id.task].key;
        if (manager->options.host_max > 0 && event->process < manager->options.process_max &&
            manager->slots[event->process].generation == event->generation) {
            discard->host = manager->slots[event->process].host;
        }
    }
}

/* A deterministic task that runs again must write the same bytes. */
static bool is_same(gy_manager *manager, uint32_t task, gy_key key, gy_key content)
{
    const task_row *row = &manager->rows[task];
    const task_keys *keys = &manager->keys[task];
    bool is_told = (row->marks & MARK_CONTENT) != 0 &&
                   row->determinism == GY_OUTPUT_DETERMINISTIC && !GY_PLANTED(BITS_IGNORED);
    if (!is_told || memcmp(&keys->key, &key, sizeof(key)) != 0 ||
        memcmp(&keys->content, &content, sizeof(content)) == 0) {
        return true;
    }
    gy_manager_end(manager, GY_MISMATCH,
                   gy_manager_text(manager,
                                   "task %u of stage '%s' is declared deterministic, but a "
                                   "second attempt with the same inputs gave other bytes",
                                   task, manager->stages[row->stage].name));
    return false;
}

static void commit(gy_manager *manager, const gy_attempt *id, gy_key key, gy_key content)
{
    uint32_t task = id->task;
    task_row *row = &manager->rows[task];
    task_keys *keys = &manager->keys[task];
    /* A deterministic task whose inputs come in another order may write other bytes. */
    bool is_other = (row->marks & MARK_CONTENT) != 0 &&
                    row->determinism == GY_OUTPUT_DETERMINISTIC &&
                    memcmp(&keys->content, &content, sizeof(content)) != 0;
    if (is_other) {
        gy_manager_lose_readers(manager, task, "an input has other bytes than before");
    }
    row->epoch = id->epoch;
    row->committed = id->attempt;
    if (row->host != GY_HOST_NOWHERE) {
        gy_manager_hold(manager, task);
    }
    row->marks = (uint8_t)((row->marks | MARK_CONTENT) & ~MARK_SUSPECT);
    row->failures = 0;
    keys->key = key;
    keys->content = content;
    gy_manager_set_state(manager, task, TASK_COMMITTED);
    gy_manager_write_commit(manager, task);
    gy_effect *effect = gy_manager_emit(manager, GY_EFFECT_COMMITTED);
    effect->id = *id;
    effect->key = key;
    effect->stage = row->stage;
    if (row->report != NULL) {
        uint32_t size = 0;
        memcpy(&size, row->report, sizeof(size));
        effect->data = row->report + sizeof(size);
        effect->size_bytes = size;
    }
    for (uint32_t edge = row->first_reader; edge != GY_NONE; edge = manager->links[edge].next) {
        uint32_t reader = manager->links[edge].reader & ~(uint32_t)GY_STALE;
        task_row *fed = &manager->rows[reader];
        GY_ASSERT(fed->missing > 0);
        if (--fed->missing == 0 && fed->state == TASK_WAITING) {
            gy_manager_requeue(manager, reader, fed->attempt != 0);
        }
    }
    gy_manager_check_refinement(manager, row->stage);
}

void gy_manager_memoise(gy_manager *manager, uint32_t task, gy_key key,
                        const gy_sched_memo *memo)
{
    task_row *row = &manager->rows[task];
    const gy_attempt id = {.task = task, .epoch = memo->epoch, .attempt = memo->attempt};
    row->report = gy_manager_copy_report(manager, memo->report, memo->report_bytes);
    row->host = GY_HOST_NOWHERE;
    manager->stages[row->stage].state.memoised++;
    commit(manager, &id, key, memo->content);
}

/* For a cohort: hash the members' content and concatenate their reports. */
static gy_key combine(gy_manager *manager, const run *over)
{
    size_t size = 0;
    for (uint32_t member = 0; member < over->width; member++) {
        size += sizeof(uint32_t) + over->members[member].report_bytes;
    }
    size_t hashed = over->width * sizeof(gy_key);
    uint8_t *all = gy_alloc("manager.combine", GY_MAX(size, hashed));
    if (all == NULL) {
        manager->status = GY_NOMEM;
        return (gy_key){0};
    }
    for (uint32_t member = 0; member < over->width; member++) {
        memcpy(all + member * sizeof(gy_key), &over->members[member].content, sizeof(gy_key));
    }
    const gy_key sum = gy_key_of(all, hashed);
    uint8_t *out = all;
    for (uint32_t member = 0; member < over->width; member++) {
        const run_member *part = &over->members[member];
        uint32_t bytes = (uint32_t)part->report_bytes;
        memcpy(out, &bytes, sizeof(bytes));
        if (bytes > 0) {
            memcpy(out + sizeof(bytes), part->report, bytes);
        }
        out += sizeof(bytes) + bytes;
    }
    manager->rows[over->task].report = gy_manager_copy_report(manager, all, size);
    gy_free(all);
    return sum;
}

/* Record the host where the outputs lie. */
static void settle_host(gy_manager *manager, uint32_t task, const run_place *place)
{
    task_row *row = &manager->rows[task];
    row->host = place->is_held ? place->host : GY_HOST_NOWHERE;
    row->held = place->is_held ? gy_manager_held_code(place->held_bytes) : 0;
    manager->hosts.rows[place->host].done++;
}

/* All members are done: commit the run. */
static void finish_run(gy_manager *manager, uint32_t index, const gy_sched_event *event)
{
    const run over = manager->runs[index];
    const gy_attempt id = {over.task, over.epoch, over.attempt};
    task_row *row = &manager->rows[over.task];
    stage_row *stage = &manager->stages[row->stage];
    gy_key content = event->content;
    GY_ASSERT((over.epoch == row->epoch && row->state == TASK_RUNNING) ||
              GY_PLANTED(STALE_COMMITS));
    if (over.members != NULL) {
        content = combine(manager, &over);
    } else {
        row->report = gy_manager_copy_report(manager, event->report, event->report_bytes);
    }
    if (manager->status < 0 || !is_same(manager, over.task, over.key, content)) {
        return;
    }
    manager->runs[index].is_committed = true;
    gy_manager_run_cancel(manager, index); /* cancels the members that remain */
    if (row->run != GY_NONE) {
        gy_manager_runs_cancel(manager, over.task, "another attempt finished first");
    }
    bool had_failed = row->failures > 0;
    if (manager->options.host_max > 0) {
        settle_host(manager, over.task, &manager->places[index]);
    }
    stage->state.run_ns += over.run_ns;
    stage->state.backups_won += over.is_backup;
    gy_manager_sample(manager, over.task, over.run_ns);
    commit(manager, &id, over.key, content);
    /* A success after failures counts for or against hosts. */
    if (had_failed && manager->options.host_max > 0) {
        gy_manager_acquit(manager, over.task, manager->places[index].host);
        gy_manager_check_hosts(manager);
    }
}

/* A member of a cohort is done; store its result until all members are done. */
static void keep_member(gy_manager *manager, run_member *part, const gy_sched_event *event)
{
    part->is_done = true;
    part->content = event->content;
    if (event->report_bytes > 0) {
        part->report = gy_alloc("manager.member", event->report_bytes);
        if (part->report == NULL) {
            manager->status = GY_NOMEM;
            return;
        }
        memcpy(part->report, event->report, event->report_bytes);
        part->report_bytes = event->report_bytes;
    }
}

/* A dead run finished nevertheless. */
static void done_late(gy_manager *manager, uint32_t index, const gy_sched_event *event)
{
    const run *late = &manager->runs[index];
    const task_row *row = &manager->rows[late->task];
    if (late->width == 1 && row->state == TASK_COMMITTED && row->epoch == late->epoch) {
        (void)is_same(manager, late->task, late->key, event->content);
    }
}

void gy_manager_done(gy_manager *manager, const gy_sched_event *event)
{
    bool is_heard = gy_manager_heard(manager, event);
    uint32_t index = gy_manager_run_find(manager, &event->id);
    if (index == GY_NONE) {
        discard_late(manager, event);
    }
    if (!is_heard || index == GY_NONE) { /* a known run discards its files when it ends */
        return;
    }
    uint32_t placement_index = gy_manager_run_placement(manager, index, event->member);
    run *over = &manager->runs[index];
    if (placement_index == GY_NONE ||
        manager->placements[placement_index].process != event->process) {
        if (GY_PLANTED(DONE_TWICE) && over->is_live && ++over->done == over->width) {
            finish_run(manager, index, event);
        }
        return; /* a repeated message */
    }
    slot *at = &manager->slots[event->process];
    at->has_answered = true;
    over->is_live = over->is_live || GY_PLANTED(STALE_COMMITS);
    if (!over->is_live) {
        done_late(manager, index, event);
        gy_manager_placement_end(manager, placement_index);
        return;
    }
    over->run_ns = GY_MAX(over->run_ns, event->run_ns);
    if (event->is_held && manager->options.host_max > 0) {
        manager->places[index].is_held = true;
        manager->places[index].held_bytes += event->held_bytes;
    }
    over->done++;
    if (over->members != NULL) {
        keep_member(manager, &over->members[event->member], event);
    }
    gy_manager_placement_end(manager, placement_index);
    if (over->done == over->width || GY_PLANTED(HALF_COHORT)) {
        finish_run(manager, index, event);
    }
}

/* ---- Failures ---- */

void gy_manager_run_fail(gy_manager *manager, uint32_t index, bool is_counted,
                         const char *reason)
{
    uint32_t task = manager->runs[index].task;
    task_row *row = &manager->rows[task];
    GY_ASSERT(manager->runs[index].is_live && row->state == TASK_RUNNING);
    gy_manager_note_task(manager, task, reason);
    if (is_counted && manager->options.host_max > 0 && (row->marks & MARK_SPREAD) == 0) {
        const run_place *failed = &manager->places[index];
        row->host = failed->host; /* the next attempt runs elsewhere */
        gy_manager_blame(manager, task, failed->host, manager->now_ns - failed->placed_ns);
    }
    gy_manager_run_cancel(manager, index);
    if (is_counted) {
        manager->stages[row->stage].state.failed++;
        row->failures++;
    }
    if (is_counted && row->failures >= manager->options.failures_max) {
        gy_manager_end(manager, GY_STATE,
                       gy_manager_text(manager, "task %u of stage '%s' failed %u time%s: %s",
                                       task, manager->stages[row->stage].name, row->failures,
                                       row->failures == 1 ? "" : "s", reason));
        return;
    }
    if (!gy_manager_has_live_run(manager, task)) {
        gy_manager_requeue(manager, task, true);
    }
}

/* The run cannot read its input `input`. */
static void lose_input(gy_manager *manager, uint32_t task, uint32_t input, const char *reason)
{
    uint32_t edge = manager->rows[task].first_edge + input;
    uint32_t from = manager->edges[edge].from;
    if ((manager->links[edge].reader & GY_STALE) == 0 &&
        manager->rows[from].state == TASK_COMMITTED) {
        uint16_t host = manager->rows[from].host;
        gy_manager_lose(manager, from, reason);
        /* It runs elsewhere, since this host may be partitioned. */
        manager->rows[from].host = host;
    }
}

static void fail_live(gy_manager *manager, uint32_t index, const gy_sched_event *event)
{
    uint32_t task = manager->runs[index].task;
    uint32_t inputs = gy_manager_edges_end(manager, task) - manager->rows[task].first_edge;
    const char *reason = event->reason != NULL ? event->reason : "no reason was given";
    bool is_input = event->cause == GY_CAUSE_LOST_INPUT && event->input < inputs;
    bool is_blameless = is_input || event->cause == GY_CAUSE_NEW_BAD_RECORD ||
                        event->cause == GY_CAUSE_PEER || event->cause == GY_CAUSE_CANCELLED;
    if (event->cause == GY_CAUSE_FATAL) {
        stage_row *stage = &manager->stages[manager->rows[task].stage];
        stage->state.failed++;
        gy_manager_end(
            manager, GY_STATE,
            gy_manager_text(manager, "task %u of stage '%s': %s", task, stage->name, reason));
        return;
    }
    gy_manager_run_fail(manager, index, !is_blameless, reason);
    if (is_input && manager->phase != PHASE_ENDED) {
        lose_input(manager, task, event->input,
                   gy_manager_text(manager, "lost, as task %u found: %s", task, reason));
    }
}

void gy_manager_failed(gy_manager *manager, const gy_sched_event *event)
{
    bool is_heard = gy_manager_heard(manager, event);
    uint32_t index = gy_manager_run_find(manager, &event->id);
    if (event->report_bytes > 0) {
        gy_manager_write_learnt(manager, event->report, event->report_bytes);
    }
    if (!is_heard || index == GY_NONE) {
        return;
    }
    uint32_t placement_index = gy_manager_run_placement(manager, index, event->member);
    if (placement_index == GY_NONE ||
        manager->placements[placement_index].process != event->process) {
        return;
    }
    bool is_live = manager->runs[index].is_live;
    manager->slots[event->process].has_answered = true;
    if (event->is_gone) {
        gy_manager_close(manager, event->process);
    }
    gy_manager_placement_end(manager, placement_index);
    if (is_live) {
        fail_live(manager, index, event);
    }
}
