/* Replays an older manager's journal. Each COMMIT is restored and each RAISE takes commits
 * back; BEGIN then counts once which tasks may run. */
#include "sched/manager/manager_priv.h"
#include "sched/state/records.h"

#include <string.h>

typedef struct reader {
    const uint8_t *body;
    size_t left;
} reader;

static gy_status misfit(const char *what)
{
    return gy_fail(GY_FORMAT, "the journal has a record of another job: %s", what);
}

static gy_status take_begin(gy_manager *manager, reader *from, bool is_first)
{
    record_opening opening;
    record_begin body;
    reader start =
        *from; /* a beginning of another version may have other fields behind these */
    if (!record_opening_take(&start.body, &start.left, &opening) ||
        memcmp(opening.magic, "gyre job", sizeof(opening.magic)) != 0) {
        return misfit("a beginning without its magic");
    }
    if (opening.version != RECORD_VERSION) {
        return gy_fail(GY_UNSUPPORTED, "its records are of version %u, expected version %d",
                       opening.version, RECORD_VERSION);
    }
    if (!record_begin_take(&from->body, &from->left, &body) || is_first == manager->has_begun ||
        memcmp(&body.job, &manager->job, sizeof(body.job)) != 0) {
        return misfit("the beginning of other tasks");
    }
    if (body.generation >= 1u << (32 - GY_ATTEMPT_BITS)) {
        return misfit("a manager's number that is too large");
    }
    manager->has_begun = true;
    manager->generation = GY_MAX(manager->generation, body.generation);
    return GY_OK;
}

static gy_status take_commit(gy_manager *manager, reader *from)
{
    record_commit body;
    if (!record_commit_take(&from->body, &from->left, &body) ||
        body.task >= manager->task_count) {
        return misfit("a commit of a task that is not there");
    }
    if (body.host != GY_HOST_NOWHERE &&
        (body.host >= manager->hosts.count ||
         manager->hosts.rows[body.host].state == HOST_UNKNOWN)) {
        return misfit("a commit on a host that is not there");
    }
    task_row *row = &manager->rows[body.task];
    task_keys *keys = &manager->keys[body.task];
    row->epoch = body.epoch;
    row->committed = body.attempt;
    row->attempt = GY_MAX(row->attempt, body.attempt);
    row->host = body.host;
    row->held = body.held;
    row->marks |= MARK_CONTENT;
    row->report = gy_manager_copy_report(manager, from->body, from->left);
    keys->key = body.key;
    keys->content = body.content;
    gy_manager_set_state(manager, body.task, TASK_COMMITTED);
    if (row->host != GY_HOST_NOWHERE) {
        gy_manager_hold(manager, body.task);
    }
    return manager->status;
}

static gy_status take_raise(gy_manager *manager, reader *from)
{
    record_raise body;
    while (from->left > 0) {
        if (!record_raise_take(&from->body, &from->left, &body) ||
            body.task >= manager->task_count) {
            return misfit("a loss of a task that is not there");
        }
        task_row *row = &manager->rows[body.task];
        row->epoch = body.epoch;
        row->committed = 0;
        row->host = GY_HOST_NOWHERE;
        gy_manager_set_state(manager, body.task, TASK_WAITING);
    }
    return GY_OK;
}

static gy_status take_grown(gy_manager *manager, reader *from)
{
    record_grown body;
    if (!record_grown_take(&from->body, &from->left, &body) ||
        body.stage >= manager->options.stage_count || body.edge_count > from->left ||
        body.detail_bytes > from->left ||
        from->left != body.task_count * sizeof(gy_sched_task_packed) +
                          body.edge_count * sizeof(gy_edge_packed) + body.detail_bytes) {
        return misfit("a refinement of another size");
    }
    gy_sched_task *tasks = gy_alloc("manager.grown", body.task_count * sizeof(*tasks) + 1);
    gy_edge *edges = gy_alloc("manager.grown", body.edge_count * sizeof(*edges) + 1);
    if (tasks == NULL || edges == NULL) {
        gy_free(tasks);
        gy_free(edges);
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < body.task_count; i++) {
        GY_ASSERT(gy_sched_task_take(&from->body, &from->left, &tasks[i]));
    }
    for (uint64_t i = 0; i < body.edge_count; i++) {
        GY_ASSERT(gy_edge_take(&from->body, &from->left, &edges[i]));
    }
    const gy_growth growth = {.tasks = tasks,
                              .task_count = body.task_count,
                              .edges = edges,
                              .edge_count = body.edge_count,
                              .detail = from->body,
                              .detail_bytes = body.detail_bytes};
    gy_status status = gy_manager_take_growth(manager, body.stage, &growth);
    manager->stages[body.stage].asked_tasks = body.asked_tasks;
    gy_free(tasks);
    gy_free(edges);
    return status == GY_ARG ? gy_fail_within(GY_FORMAT, "a refinement in the journal") : status;
}

static gy_status take_end(gy_manager *manager, reader *from)
{
    record_end body;
    if (!record_end_take(&from->body, &from->left, &body)) {
        return misfit("an end without its status");
    }
    manager->is_ended = body.status == GY_OK;
    return GY_OK;
}

static gy_status take_learnt(gy_manager *manager, const reader *from)
{
    void *learnt = (void *)(uintptr_t)manager->learnt;
    if (from->left == 0 || GY_PLANTED(LEARNT_FORGOTTEN)) {
        return GY_OK;
    }
    GY_TRY(gy_reserve("manager.learnt", &learnt, &manager->learnt_capacity,
                      manager->learnt_count + 1, sizeof(*manager->learnt)));
    manager->learnt = learnt;
    const uint8_t *kept = gy_manager_copy_report(manager, from->body, from->left);
    if (kept != NULL) {
        manager->learnt[manager->learnt_count++] = kept;
    }
    return manager->status;
}

bool gy_manager_learnt(const gy_manager *manager, uint32_t index, const void **data,
                       size_t *size_bytes)
{
    uint32_t size = 0;
    if (index >= manager->learnt_count) {
        return false;
    }
    memcpy(&size, manager->learnt[index], sizeof(size));
    *data = manager->learnt[index] + sizeof(size);
    *size_bytes = size;
    return true;
}

static const char *take_text(reader *from)
{
    const char *text = (const char *)from->body;
    size_t size = from->left > 0 ? strnlen(text, from->left) + 1 : 1;
    if (size > from->left || size > GY_HOST_TEXT) {
        return NULL;
    }
    from->body += size;
    from->left -= size;
    return text;
}

static gy_status take_host(gy_manager *manager, reader *from)
{
    record_host body;
    if (!record_host_take(&from->body, &from->left, &body)) {
        return misfit("a host without its number");
    }
    if (body.host >= manager->options.host_max) {
        return gy_fail(GY_UNSUPPORTED,
                       "the journal is of a job that runs over hosts, and has host %u of %u",
                       body.host, manager->options.host_max);
    }
    const char *address = take_text(from);
    const char *name = address != NULL ? take_text(from) : NULL;
    host_row *row = name != NULL ? gy_manager_host_row(manager, body.host) : NULL;
    if (name == NULL || (row != NULL && row->state != HOST_UNKNOWN &&
                         memcmp(&row->id, &body.id, sizeof(body.id)) != 0)) {
        return misfit("a host that is two");
    }
    if (row == NULL) {
        return GY_NOMEM;
    }
    manager->hosts.expected += row->state == HOST_UNKNOWN;
    row->state = HOST_EXPECTED;
    row->id = body.id;
    memcpy(row->address, address, strlen(address) + 1);
    memcpy(row->name, name, strlen(name) + 1);
    gy_manager_take_name(manager, body.host);
    return manager->status;
}

static gy_status take_record(gy_manager *manager, uint32_t kind, reader from)
{
    if (kind != RECORD_BEGIN && !manager->has_begun) {
        return misfit("it does not begin with a beginning");
    }
    switch (kind) {
    case RECORD_BEGIN:
    case RECORD_RESUME:
        return take_begin(manager, &from, kind == RECORD_BEGIN);
    case RECORD_COMMIT:
        return take_commit(manager, &from);
    case RECORD_RAISE:
        return take_raise(manager, &from);
    case RECORD_GROWN:
        return take_grown(manager, &from);
    case RECORD_SAVED:
        manager->is_saved = true;
        return GY_OK;
    case RECORD_END:
        return take_end(manager, &from);
    case RECORD_LEARNT:
        return take_learnt(manager, &from);
    case RECORD_HOST:
        return take_host(manager, &from);
    default:
        return misfit("of a kind that is not known");
    }
}

/* A record that is whole and has the checksum that its head tells. */
static bool find_record(reader from, record_head *head)
{
    if (!record_head_take(&from.body, &from.left, head) || head->size_bytes > from.left) {
        return false;
    }
    uint64_t seed = (uint64_t)head->kind << 32 | head->size_bytes;
    return gy_hash(from.body, head->size_bytes, seed) == head->checksum ||
           GY_PLANTED(TORN_TAKEN);
}

size_t gy_manager_measure(const void *journal, size_t size_bytes)
{
    const uint8_t *bytes = journal;
    record_head head;
    size_t at = 0;
    while (find_record((reader){bytes + at, size_bytes - at}, &head)) {
        at += sizeof(record_head_packed) + head.size_bytes;
    }
    return at;
}

void gy_manager_begin_blind(gy_manager *manager)
{
    GY_ASSERT(manager->phase == PHASE_NEW && manager->position == 0);
    manager->is_blind = true;
}

gy_status gy_manager_replay(gy_manager *manager, const void *journal, size_t size_bytes,
                            size_t *used)
{
    GY_ASSERT(manager->phase == PHASE_NEW && manager->position == 0);
    const uint8_t *bytes = journal;
    record_head head;
    size_t at = 0;
    while (find_record((reader){bytes + at, size_bytes - at}, &head)) {
        const reader body = {bytes + at + sizeof(record_head_packed), head.size_bytes};
        gy_status status = take_record(manager, head.kind, body);
        if (status < 0) {
            return gy_fail_within(status, "at byte %zu", at);
        }
        at += sizeof(record_head_packed) + head.size_bytes;
    }
    manager->position = at;
    *used = at;
    return GY_OK;
}
