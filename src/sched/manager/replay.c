/*
 * An older manager's journal. What stood when it ended stands again: each commit is taken as it
 * was, each loss takes one back. Which tasks may run is counted once at the end, by BEGIN.
 */
#include "sched/manager/manager_priv.h"
#include "sched/state/records.h"

#include <string.h>

typedef struct reader {
    const uint8_t *body;
    size_t left;
} reader;

static bool take(reader *from, void *to, size_t size_bytes)
{
    if (from->left < size_bytes) {
        return false;
    }
    memcpy(to, from->body, size_bytes);
    from->body += size_bytes;
    from->left -= size_bytes;
    return true;
}

static gy_status misfit(const char *what)
{
    return gy_fail(GY_FORMAT, "the journal has a record of another job: %s", what);
}

static gy_status take_begin(gy_manager *manager, reader *from, bool is_first)
{
    record_begin body;
    if (!take(from, &body, sizeof(body)) || memcmp(body.magic, "gyre job", 8) != 0) {
        return misfit("a beginning without its magic");
    }
    if (body.version != RECORD_VERSION) {
        return gy_fail(GY_UNSUPPORTED, "the journal is of version %u, this is version %u",
                       body.version, RECORD_VERSION);
    }
    if (is_first == manager->has_begun ||
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
    if (!take(from, &body, sizeof(body)) || body.task >= manager->task_count) {
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
    row->report = gy_manager_keep(manager, from->body, from->left);
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
        if (!take(from, &body, sizeof(body)) || body.task >= manager->task_count) {
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

/* The arrays in a record may stand at odd addresses. */
static gy_status take_grown(gy_manager *manager, reader *from)
{
    record_grown body;
    if (!take(from, &body, sizeof(body)) || body.stage >= manager->options.stage_count ||
        body.edge_count > from->left || body.detail_bytes > from->left ||
        from->left != body.task_count * sizeof(gy_sched_task) +
                          body.edge_count * sizeof(gy_edge) + body.detail_bytes) {
        return misfit("a refinement of another size");
    }
    size_t tasks = body.task_count * sizeof(gy_sched_task);
    size_t edges = body.edge_count * sizeof(gy_edge);
    uint8_t *copy = gy_alloc("manager.grown", tasks + edges + 1);
    if (copy == NULL) {
        return GY_NOMEM;
    }
    if (tasks + edges > 0) {
        memcpy(copy, from->body, tasks + edges);
    }
    const void *at_tasks = copy, *at_edges = copy + tasks;
    const gy_growth growth = {.tasks = at_tasks,
                              .task_count = body.task_count,
                              .edges = at_edges,
                              .edge_count = body.edge_count,
                              .detail = from->body + tasks + edges,
                              .detail_bytes = body.detail_bytes};
    gy_status status = gy_manager_take_growth(manager, body.stage, &growth);
    manager->stages[body.stage].asked_tasks = body.asked_tasks;
    gy_free(copy);
    return status == GY_ARG ? gy_fail_within(GY_FORMAT, "a refinement in the journal") : status;
}

static gy_status take_end(gy_manager *manager, reader *from)
{
    record_end body;
    if (!take(from, &body, sizeof(body))) {
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
    const uint8_t *kept = gy_manager_keep(manager, from->body, from->left);
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
    if (!take(from, &body, sizeof(body))) {
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

/* The record at `at`, whole and with the checksum that its head tells. */
static bool find_record(const uint8_t *bytes, size_t size_bytes, size_t at, record_head *head)
{
    if (size_bytes - at < sizeof(*head)) {
        return false;
    }
    memcpy(head, bytes + at, sizeof(*head));
    if (head->size_bytes > size_bytes - at - sizeof(*head)) {
        return false;
    }
    uint64_t seed = (uint64_t)head->kind << 32 | head->size_bytes;
    return gy_hash(bytes + at + sizeof(*head), head->size_bytes, seed) == head->checksum ||
           GY_PLANTED(TORN_TAKEN);
}

size_t gy_manager_measure(const void *journal, size_t size_bytes)
{
    record_head head;
    size_t at = 0;
    while (find_record(journal, size_bytes, at, &head)) {
        at += sizeof(head) + head.size_bytes;
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
    while (find_record(bytes, size_bytes, at, &head)) {
        const reader body = {bytes + at + sizeof(head), head.size_bytes};
        gy_status status = take_record(manager, head.kind, body);
        if (status < 0) {
            return gy_fail_within(status, "at byte %zu", at);
        }
        at += sizeof(head) + head.size_bytes;
    }
    manager->position = at;
    *used = at;
    return GY_OK;
}
