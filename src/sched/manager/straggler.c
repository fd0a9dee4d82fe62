/*
 * Finds the stragglers that deserve a backup task, by Dryad's rule. Once half of a stage of ten
 * or more tasks is done, run times are fitted as startup + slope * bytes, robustly (Theil and
 * Sen's median of slopes, then medians), and a run beyond three sigma is a straggler; in a
 * smaller stage one that takes three times the median. Never before a floor, and only where
 * another process is idle.
 *
 * Source: Isard et al., "Dryad", EuroSys 2007, 4.3; Sen, "Estimates of the regression
 * coefficient based on Kendall's tau", JASA 1968.
 */
#include "sched/manager/manager_priv.h"

#include <math.h>
#include <stdlib.h>

enum { FIT_TASKS = 10, PAIRS = SAMPLES * (SAMPLES - 1) / 2 };
/* The longest wait behind a run that turns out to be long, and for a cancelled run to stop. */
static const int64_t behind_ns = 50000000, cancel_ns = 1000000000;

void gy_manager_sample(gy_manager *manager, uint32_t task, int64_t run_ns)
{
    const task_row *row = &manager->rows[task];
    stage_row *stage = &manager->stages[row->stage];
    run_ns = GY_MAX(run_ns, 0);
    stage->mean_ns += stage->sampled == 0 ? run_ns : (run_ns - stage->mean_ns) / 8;
    if (stage->samples == NULL) {
        stage->samples = gy_alloc("manager.samples", SAMPLES * sizeof(sample));
        if (stage->samples == NULL) {
            manager->status = GY_NOMEM;
            return;
        }
    }
    /* Reservoir sampling: each run stays with equal probability. The draw depends on its number
     * alone, so replay repeats it. */
    uint32_t at = stage->sampled++;
    if (at >= SAMPLES) {
        at = (uint32_t)(gy_hash(&at, sizeof(at), row->stage) % stage->sampled);
    }
    if (at < SAMPLES) {
        stage->samples[at] = (sample){row->input_bytes, (float)run_ns};
    }
}

static int compare(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void fit(stage_row *stage)
{
    double values[PAIRS]; /* 16 KiB: as a thread-local it would bar dlopen of the library */
    size_t count = GY_MIN(stage->sampled, (uint32_t)SAMPLES), pairs = 0;
    const sample *all = stage->samples;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i + 1; j < count; j++) {
            double bytes = (double)all[j].bytes - (double)all[i].bytes;
            if (bytes > 0 || bytes < 0) {
                values[pairs++] = ((double)all[j].run_ns - (double)all[i].run_ns) / bytes;
            }
        }
    }
    stage->slope = pairs > 0 ? fmax(median(values, pairs), 0) : 0;
    for (size_t i = 0; i < count; i++) {
        values[i] = (double)all[i].run_ns - stage->slope * (double)all[i].bytes;
    }
    stage->base_ns = median(values, count);
    for (size_t i = 0; i < count; i++) {
        values[i] =
            fabs((double)all[i].run_ns - stage->slope * (double)all[i].bytes - stage->base_ns);
    }
    /* The MAD scaled to a normal distribution's sigma. */
    stage->sigma_ns = 1.4826 * median(values, count);
    stage->fitted = stage->sampled;
}

/* The age at which a run of the task is a straggler; INT64_MAX: not known yet. A stage of equal
 * runs has almost no sigma, so the limit is at least 1.5 times the expected time, or 1.25 times
 * where nothing waits, since a backup task takes no other task's place then. */
static int64_t late_ns(const gy_manager *manager, const task_row *row)
{
    stage_row *stage = &manager->stages[row->stage];
    uint32_t tasks = stage->state.tasks;
    if (stage->sampled == 0 || stage->state.committed * 2 < tasks) {
        return INT64_MAX;
    }
    if (stage->fitted < stage->sampled - stage->sampled / 16) {
        fit(stage);
    }
    /* A fitted line may be negative at its end. */
    double expected = fmax(stage->base_ns + stage->slope * (double)row->input_bytes, 0);
    double late = expected + 3 * stage->sigma_ns;
    if (tasks < FIT_TASKS) {
        late = 3 * expected;
    }
    late = fmax(late, (manager->ready_width > 0 ? 1.5 : 1.25) * expected);
    return GY_MAX((int64_t)late, manager->options.backup_floor_ns);
}

static bool has_backup(const gy_manager *manager, uint32_t task)
{
    uint32_t live = 0;
    for (uint32_t at = manager->rows[task].run; at != GY_NONE; at = manager->runs[at].next) {
        live += manager->runs[at].is_live;
    }
    return live > 1;
}

/* The time since the last of its members began; 0: one has not begun, or has ended. */
static int64_t age_of(const gy_manager *manager, uint32_t index)
{
    int64_t age_ns = INT64_MAX;
    for (uint32_t member = 0; member < manager->runs[index].width; member++) {
        uint32_t at = gy_manager_run_placement(manager, index, member);
        if (at == GY_NONE) {
            continue;
        }
        int64_t began_ns = manager->placements[at].began_ns;
        age_ns = began_ns == 0 ? 0 : GY_MIN(age_ns, manager->now_ns - began_ns);
    }
    return age_ns == INT64_MAX ? 0 : age_ns;
}

/* The run's host, if the job has another one. */
static uint32_t host_of(const gy_manager *manager, uint32_t index)
{
    const uint32_t own =
        manager->options.host_max > 0 ? manager->places[index].host : (uint32_t)GY_NONE;
    for (uint32_t other = 0; own != GY_NONE && other < manager->hosts.count; other++) {
        if (other != own && gy_manager_has_slots(&manager->hosts.rows[other], 0)) {
            return own;
        }
    }
    return GY_NONE;
}

/* Count the straggler as waiting for a process. The members of a cohort need several on one
 * host: only the first cohort found is counted. */
static void count_due(gy_manager *manager, uint32_t index)
{
    const run *late = &manager->runs[index];
    if (late->width > 1) {
        const bool may_move = manager->options.host_max > 0 && manager->cohort_due == 0 &&
                              gy_manager_spread(manager, late->task) == 1;
        manager->cohort_host = may_move ? manager->places[index].host : manager->cohort_host;
        manager->cohort_due = may_move ? late->width : manager->cohort_due;
        return;
    }
    const uint32_t host = host_of(manager, index);
    manager->backups_host =
        manager->backups_due == 0 || manager->backups_host == host ? host : (uint32_t)GY_NONE;
    manager->backups_due++;
}

/* Start a backup task for a straggler when a process is free: after the ready tasks, or before
 * them when it is twice as late. NOT_NOW: also if it is no straggler. */
static copied look_at_run(gy_manager *manager, uint32_t index)
{
    const run *late = &manager->runs[index];
    const task_row *row = &manager->rows[late->task];
    bool may_back_up = late->is_live && (row->flags & GY_TASK_EXACT) == 0 &&
                       manager->options.backup_floor_ns >= 0 && manager->phase == PHASE_RUNNING;
    may_back_up = may_back_up || GY_PLANTED(COPIED_ANYWAY);
    int64_t age_ns = may_back_up ? age_of(manager, index) : 0;
    if (!may_back_up || age_ns <= manager->options.backup_floor_ns ||
        has_backup(manager, late->task)) {
        return COPY_NOT_NOW;
    }
    const int64_t limit_ns = late_ns(manager, row);
    const uint32_t task = late->task;
    if (age_ns <= limit_ns) {
        if (limit_ns < INT64_MAX) {
            manager->copy_ns =
                GY_MIN(manager->copy_ns, manager->now_ns + limit_ns - age_ns + 1);
        }
        return COPY_NOT_NOW;
    }
    const bool is_long_straggler = age_ns / 2 > limit_ns;
    const copied how = gy_manager_backup_start(manager, index, is_long_straggler);
    if (how == COPY_STARTED) {
        gy_manager_note_task(
            manager, task,
            gy_manager_text(manager,
                            "backup task started: it has taken %.1f s, expected at most %.1f s",
                            (double)age_ns / 1e9, (double)limit_ns / 1e9));
    } else if (is_long_straggler) {
        manager->backup_wanted = index;
    }
    return how;
}

/* Move tasks that were sent in advance and stand behind a long one elsewhere; if no process is
 * free but a slot is empty, start one for them first. */
static void look_behind(gy_manager *manager, uint32_t process)
{
    const slot *at = &manager->slots[process];
    if (at->state != SLOT_UP || at->load <= manager->options.threads ||
        manager->ready_width > 0) {
        return;
    }
    if (manager->now_ns - manager->placements[at->first].began_ns < behind_ns) {
        return;
    }
    if (manager->open_count == 0) {
        manager->behind += at->load - manager->options.threads;
        return;
    }
    for (uint32_t index = at->first; index != GY_NONE;) {
        uint32_t next = manager->placements[index].next,
                 run_index = manager->placements[index].run;
        if (manager->placements[index].began_ns == 0 && manager->runs[run_index].is_live) {
            gy_manager_run_fail(manager, run_index, false,
                                "it stood behind a long one while a process was free");
        }
        index = next;
    }
}

/* A cancelled run has not stopped in time. */
static bool is_stuck(const gy_manager *manager, const slot *at)
{
    bool is_stuck = at->state == SLOT_UP && at->first != GY_NONE;
    uint32_t index = at->first;
    for (uint32_t i = 0; i < manager->options.threads && index != GY_NONE && is_stuck; i++) {
        int64_t since_ns = manager->placements[index].cancelled_ns;
        is_stuck = since_ns > 0 && manager->now_ns - since_ns > cancel_ns;
        index = manager->placements[index].next;
    }
    return is_stuck;
}

/* Visit a run once: at its first member that has not ended. */
static bool is_first(const gy_manager *manager, const placement *at)
{
    for (uint32_t member = 0; member < at->member; member++) {
        if (gy_manager_run_placement(manager, at->run, member) != GY_NONE) {
            return false;
        }
    }
    return true;
}

static void look_for_stragglers(gy_manager *manager)
{
    manager->backup_wanted = GY_NONE;
    manager->copy_ns = INT64_MAX;
    manager->backups_due = manager->cohort_due = 0;
    for (uint32_t process = 0; process < manager->options.process_max; process++) {
        uint32_t at = manager->slots[process].first;
        for (uint32_t i = 0; i < manager->options.threads && at != GY_NONE; i++) {
            const placement *oldest = &manager->placements[at];
            uint32_t next = oldest->next;
            const uint32_t index = oldest->run;
            if (is_first(manager, oldest) && look_at_run(manager, index) == COPY_NOWHERE) {
                count_due(manager, index);
            }
            at = next;
        }
    }
    if (manager->copy_ns < manager->now_ns + gy_manager_pace(manager)) {
        gy_manager_wake(manager, manager->copy_ns);
    }
}

/* Start several backup tasks at once where the runs of a stage end together: a free process
 * must take the next straggler and not a ready task of full length. */
void gy_manager_backup_stragglers(gy_manager *manager)
{
    if (manager->is_half_done) {
        manager->is_half_done = false;
        look_for_stragglers(manager);
    }
    if (manager->open_count > 0 && manager->backup_wanted != GY_NONE) {
        const uint32_t index = manager->backup_wanted;
        manager->backup_wanted = GY_NONE;
        if (look_at_run(manager, index) == COPY_STARTED) {
            look_for_stragglers(manager);
        }
    }
}

void gy_manager_check_runs(gy_manager *manager)
{
    manager->behind = manager->backups_due = manager->cohort_due = 0;
    if (manager->phase != PHASE_RUNNING) {
        return;
    }
    for (uint32_t process = 0; process < manager->options.process_max; process++) {
        if (is_stuck(manager, &manager->slots[process])) {
            gy_manager_kill(manager, process, "its task was cancelled and does not end");
        }
        look_behind(manager, process);
    }
    look_for_stragglers(manager);
}

/* Insert in descending order of age; the youngest falls out when the array is full. */
static uint32_t insert(gy_run_state *runs, uint32_t count, uint32_t most,
                       const gy_run_state *one)
{
    uint32_t at = GY_MIN(count, most - 1);
    if (count == most && runs[at].age_ns >= one->age_ns) {
        return count;
    }
    for (; at > 0 && runs[at - 1].age_ns < one->age_ns; at--) {
        runs[at] = runs[at - 1];
    }
    runs[at] = *one;
    return GY_MIN(count + 1, most);
}

uint32_t gy_manager_slow(const gy_manager *manager, int64_t now_ns, int64_t ns_min,
                         gy_run_state *runs, uint32_t most)
{
    uint32_t count = 0;
    GY_ASSERT(most > 0);
    for (uint32_t process = 0; process < manager->options.process_max; process++) {
        const slot *at = &manager->slots[process];
        uint32_t index = at->state == SLOT_UP ? at->first : GY_NONE;
        for (uint32_t i = 0; i < manager->options.threads && index != GY_NONE; i++) {
            const placement *oldest = &manager->placements[index];
            const run *of = &manager->runs[oldest->run];
            const int64_t age_ns = oldest->began_ns > 0 ? now_ns - oldest->began_ns : 0;
            if (of->is_live && is_first(manager, oldest) && age_ns >= ns_min) {
                const task_row *row = &manager->rows[of->task];
                const gy_run_state one = {.task = of->task,
                                          .stage = row->stage,
                                          .process = process,
                                          .host = at->host,
                                          .age_ns = age_ns,
                                          .late_ns = late_ns(manager, row)};
                count = insert(runs, count, most, &one);
            }
            index = oldest->next;
        }
    }
    return count;
}
