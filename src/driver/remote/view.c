/* Sends the job's status to the name server for display: stages, slow runs, counters, notes. */
#include "driver/remote/remote_priv.h"

#include <assert.h>

static const int64_t view_every_ns = 1000000000;
/* Interval of repetition, since a message may be lost. */
static const int64_t view_again_ns = 5000000000;
static const int64_t slow_after_ns = 1000000000;
enum { SLOW_RUNS = 8 };

/* An untrusted text, cleaned for display; NULL: no memory. */
static char *clean(gy_arena *arena, const char *text)
{
    char *copy = gy_arena_alloc(arena, GY_NET_VIEW_TEXT);
    if (copy != NULL) {
        gy_net_clean_text(text, copy, GY_NET_VIEW_TEXT);
    }
    return copy;
}

/* ---- stages ---- */

/* Compute which stage reads which, from all edges, once for each growth. GY_NOMEM */
static gy_status check_edges(gy_driver *driver, uint32_t stages)
{
    gy_remote *remote = driver->remote;
    const uint32_t tasks = gy_manager_task_count(driver->manager);
    if (remote->reads != NULL && remote->view_tasks == tasks && remote->view_stages == stages) {
        return GY_OK;
    }
    uint8_t *reads = gy_alloc_zero("driver.remote", (size_t)stages * stages, 1);
    if (reads == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t task = 0; task < tasks; task++) {
        const gy_edge *edges = NULL;
        uint32_t count = 0;
        gy_sched_task_state to, from;
        gy_manager_task(driver->manager, task, &to);
        gy_manager_inputs(driver->manager, task, &edges, &count);
        for (uint32_t i = 0; i < count && to.stage < stages; i++) {
            gy_manager_task(driver->manager, edges[i].from, &from);
            if (from.stage < stages && from.stage != to.stage) {
                reads[(size_t)to.stage * stages + from.stage] = 1;
            }
        }
    }
    gy_free(remote->reads);
    remote->reads = reads;
    remote->view_tasks = tasks;
    remote->view_stages = stages;
    return GY_OK;
}

static gy_status fill_stage(const gy_driver *driver, gy_arena *arena, uint32_t number,
                            Gy__Cluster__ViewStage *stage)
{
    gy_stage_state state;
    const uint32_t stages = driver->remote->view_stages;
    gy__cluster__view_stage__init(stage);
    gy_manager_stage(driver->manager, number, &state);
    stage->name = clean(arena, gy_manager_stage_name(driver->manager, number));
    stage->reads = gy_arena_alloc(arena, stages * sizeof(uint32_t));
    if (stage->name == NULL || stage->reads == NULL) {
        return GY_NOMEM;
    }
    stage->tasks = state.tasks;
    stage->committed = state.committed;
    stage->running = state.running;
    stage->runs = state.runs;
    stage->failed = state.failed;
    stage->copies = state.copies;
    stage->backups_won = state.backups_won;
    stage->memoised = state.memoised;
    stage->run_ns = state.run_ns;
    for (uint32_t from = 0; from < stages; from++) {
        if (driver->remote->reads[(size_t)number * stages + from] != 0) {
            stage->reads[stage->n_reads++] = from;
        }
    }
    return GY_OK;
}

static gy_status fill_stages(gy_driver *driver, gy_arena *arena, Gy__Cluster__View *view)
{
    const uint32_t stages =
        GY_MIN(gy_manager_stage_count(driver->manager), (uint32_t)GY_NET_VIEW_STAGES);
    Gy__Cluster__ViewStage *rows = gy_arena_alloc(arena, (stages + 1) * sizeof(*rows));
    view->stages = gy_arena_alloc(arena, (stages + 1) * sizeof(void *));
    if (rows == NULL || view->stages == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(check_edges(driver, stages));
    for (uint32_t i = 0; i < stages; i++) {
        GY_TRY(fill_stage(driver, arena, i, &rows[i]));
        view->stages[view->n_stages++] = &rows[i];
    }
    return GY_OK;
}

/* ---- runs, counters, notes ---- */

static gy_status fill_runs(const gy_driver *driver, gy_arena *arena, int64_t now_ns,
                           Gy__Cluster__View *view)
{
    gy_run_state slow[SLOW_RUNS];
    const uint32_t count =
        gy_manager_slow(driver->manager, now_ns, slow_after_ns, slow, SLOW_RUNS);
    Gy__Cluster__ViewRun *rows = gy_arena_alloc(arena, (count + 1) * sizeof(*rows));
    view->slow = gy_arena_alloc(arena, (count + 1) * sizeof(void *));
    if (rows == NULL || view->slow == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        gy_host_state host = {.name = ""};
        if (slow[i].stage >= view->n_stages) {
            continue;
        }
        (void)gy_manager_host(driver->manager, slow[i].host, &host);
        gy__cluster__view_run__init(&rows[i]);
        rows[i].stage = slow[i].stage;
        rows[i].task = slow[i].task;
        rows[i].run_ns = slow[i].age_ns;
        rows[i].expected_ns = slow[i].late_ns == INT64_MAX ? 0 : slow[i].late_ns;
        rows[i].host = clean(arena, host.name != NULL ? host.name : "");
        if (rows[i].host == NULL) {
            return GY_NOMEM;
        }
        view->slow[view->n_slow++] = &rows[i];
    }
    return GY_OK;
}

static gy_status fill_told(const gy_driver *driver, gy_arena *arena, Gy__Cluster__View *view)
{
    static_assert((int)GY_DRIVER_ROWS <= (int)GY_NET_VIEW_ROWS, "a view has room for them");
    gy_driver_view told = {.counter_count = 0};
    if (driver->ops->view == NULL) {
        return GY_OK;
    }
    driver->ops->view(driver->ops->arg, &told);
    Gy__Cluster__ViewCounter *counters =
        gy_arena_alloc(arena, GY_DRIVER_ROWS * sizeof(*counters));
    Gy__Cluster__ViewNote *notes = gy_arena_alloc(arena, GY_DRIVER_ROWS * sizeof(*notes));
    view->counters = gy_arena_alloc(arena, GY_DRIVER_ROWS * sizeof(void *));
    view->notes = gy_arena_alloc(arena, GY_DRIVER_ROWS * sizeof(void *));
    if (counters == NULL || notes == NULL || view->counters == NULL || view->notes == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < told.counter_count; i++) {
        gy__cluster__view_counter__init(&counters[i]);
        counters[i].name = clean(arena, told.counters[i].name);
        counters[i].value = told.counters[i].value;
        view->counters[view->n_counters++] = &counters[i];
        GY_TRY(counters[i].name != NULL ? GY_OK : GY_NOMEM);
    }
    for (uint32_t i = 0; i < told.note_count; i++) {
        gy__cluster__view_note__init(&notes[i]);
        notes[i].text = clean(arena, told.notes[i].text);
        notes[i].wall_ns = told.notes[i].wall_ns;
        view->notes[view->n_notes++] = &notes[i];
        GY_TRY(notes[i].text != NULL ? GY_OK : GY_NOMEM);
    }
    return GY_OK;
}

/* ---- sending ---- */

/* Does it differ from the last one sent? */
static bool is_new(gy_remote *remote, gy_arena *arena, const ProtobufCMessage *message)
{
    const size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = gy_arena_alloc(arena, size);
    if (packed == NULL) {
        return true;
    }
    (void)protobuf_c_message_pack(message, packed);
    const uint64_t hash = gy_hash(packed, size, 0);
    const bool is_other = hash != remote->view_hash;
    remote->view_hash = hash;
    return is_other;
}

static bool is_heard(const gy_remote *remote)
{
    for (uint32_t i = 0; i < remote->name_count; i++) {
        gy_rpc_facts facts;
        if (gy_rpc_look(remote->rpc, remote->names[i], &facts) && facts.is_up) {
            return true;
        }
    }
    return false;
}

static void tell(gy_driver *driver, int64_t now_ns, bool is_last)
{
    gy_remote *remote = driver->remote;
    remote->looked_ns = now_ns;
    gy_arena arena = {0};
    REMOTE_MESSAGE(View, view, view);
    gy_status status = fill_stages(driver, &arena, &view);
    status = status == GY_OK ? fill_runs(driver, &arena, now_ns, &view) : status;
    status = status == GY_OK ? fill_told(driver, &arena, &view) : status;
    if (status < 0) { /* the job does not depend on its display */
        gy_debug("cannot report the job's progress: %s", gy_error_text());
    } else if (is_new(remote, &arena, &view.base) || is_last ||
               now_ns - remote->viewed_ns >= view_again_ns) {
        remote->viewed_ns = now_ns;
        for (uint32_t i = 0; i < remote->name_count; i++) {
            remote_tell(driver, remote->names[i], GY_NET_VIEW, &view.base);
        }
    }
    gy_arena_free(&arena);
}

void remote_view(gy_driver *driver, int64_t now_ns)
{
    if (now_ns - driver->remote->looked_ns >= view_every_ns && is_heard(driver->remote)) {
        tell(driver, now_ns, false);
    }
}

void remote_view_last(gy_driver *driver)
{
    if (is_heard(driver->remote)) {
        tell(driver, gy_now_ns(driver->env), true);
    }
}
