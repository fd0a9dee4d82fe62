/* The records that a step appends to the journal. */
#include "sched/state/records.h"
#include "sched/state/state.h"

#include <string.h>

typedef struct part {
    const void *data;
    size_t size_bytes;
} part;

enum { PARTS = 3 };

/* One APPEND effect carries all consecutive records. */
static void tell(gy_manager *manager, size_t size_bytes)
{
    gy_effects *out = manager->effects;
    gy_effect *last = out->count > 0 ? &out->items[out->count - 1] : NULL;
    if (last == NULL || last->kind != GY_EFFECT_APPEND) {
        last = gy_manager_emit(manager, GY_EFFECT_APPEND);
    }
    manager->position += size_bytes;
    last->size_bytes += size_bytes;
    last->position = manager->position;
}

/* Room in the journal for a record's body; NULL: there is none, and the manager's state says
 * why. */
static uint8_t *begin_record(gy_manager *manager, size_t size)
{
    if (size > UINT32_MAX) {
        gy_manager_end(manager, GY_LIMIT, "a record of more than 4 GiB");
        return NULL;
    }
    if (GY_GROW("manager.journal", manager->journal, manager->journal_capacity,
                manager->journal_bytes + sizeof(record_head_packed) + size) < 0) {
        manager->status = GY_NOMEM;
        return NULL;
    }
    return manager->journal + manager->journal_bytes + sizeof(record_head_packed);
}

/* The body stands where begin_record made room for it. */
static void end_record(gy_manager *manager, record_kind kind, size_t size)
{
    uint8_t *out = manager->journal + manager->journal_bytes;
    const record_head head = {.size_bytes = (uint32_t)size,
                              .kind = kind,
                              .checksum = gy_hash(out + sizeof(record_head_packed), size,
                                                  (uint64_t)kind << 32 | size)};
    const record_head_packed packed = record_head_pack(&head);
    memcpy(out, &packed, sizeof(packed));
    manager->journal_bytes += sizeof(packed) + size;
    tell(manager, sizeof(packed) + size);
}

static void write_record(gy_manager *manager, record_kind kind, const part parts[PARTS])
{
    size_t size = 0;
    for (int i = 0; i < PARTS; i++) {
        size += parts[i].size_bytes;
    }
    uint8_t *body = begin_record(manager, size);
    if (body == NULL) {
        return;
    }
    for (int i = 0; i < PARTS; i++) {
        if (parts[i].size_bytes > 0) {
            memcpy(body, parts[i].data, parts[i].size_bytes);
            body += parts[i].size_bytes;
        }
    }
    end_record(manager, kind, size);
}

void gy_manager_write_begin(gy_manager *manager)
{
    const record_begin body = {.magic = {'g', 'y', 'r', 'e', ' ', 'j', 'o', 'b'},
                               .version = RECORD_VERSION,
                               .generation = manager->generation,
                               .job = manager->job};
    const record_begin_packed packed = record_begin_pack(&body);
    write_record(manager, manager->has_begun ? RECORD_RESUME : RECORD_BEGIN,
                 (const part[PARTS]){{&packed, sizeof(packed)}});
    manager->has_begun = true;
}

void gy_manager_write_commit(gy_manager *manager, uint32_t task)
{
    const task_row *row = &manager->rows[task];
    const task_keys *keys = &manager->keys[task];
    const record_commit body = {.task = task,
                                .epoch = row->epoch,
                                .attempt = row->committed,
                                .host =
                                    GY_PLANTED(HELD_FORGOTTEN) ? GY_HOST_NOWHERE : row->host,
                                .held = row->held,
                                .key = keys->key,
                                .content = keys->content};
    part report = {0};
    if (row->report != NULL) {
        uint32_t size = 0;
        memcpy(&size, row->report, sizeof(size));
        report = (part){row->report + sizeof(size), size};
    }
    const record_commit_packed packed = record_commit_pack(&body);
    write_record(manager, RECORD_COMMIT,
                 (const part[PARTS]){{&packed, sizeof(packed)}, report});
}

void gy_manager_write_raise(gy_manager *manager)
{
    const size_t size = manager->raised.count * sizeof(record_raise_packed);
    uint8_t *body = begin_record(manager, size);
    if (body == NULL) {
        return;
    }
    for (size_t i = 0; i < manager->raised.count; i++) {
        const uint32_t task = manager->raised.items[i];
        const record_raise raise = {.task = task, .epoch = manager->rows[task].epoch};
        const record_raise_packed packed = record_raise_pack(&raise);
        memcpy(body + i * sizeof(packed), &packed, sizeof(packed));
    }
    end_record(manager, RECORD_RAISE, size);
}

void gy_manager_write_grown(gy_manager *manager, uint32_t stage, const gy_growth *growth)
{
    const record_grown body = {.stage = stage,
                               .task_count = growth->task_count,
                               .asked_tasks = manager->stages[stage].asked_tasks,
                               .edge_count = growth->edge_count,
                               .detail_bytes = growth->detail_bytes};
    const record_grown_packed packed = record_grown_pack(&body);
    const size_t size = sizeof(packed) + growth->task_count * sizeof(gy_sched_task_packed) +
                        growth->edge_count * sizeof(gy_edge_packed) + growth->detail_bytes;
    uint8_t *at = begin_record(manager, size);
    if (at == NULL) {
        return;
    }
    memcpy(at, &packed, sizeof(packed));
    at += sizeof(packed);
    for (uint32_t i = 0; i < growth->task_count; i++, at += sizeof(gy_sched_task_packed)) {
        const gy_sched_task_packed task = gy_sched_task_pack(&growth->tasks[i]);
        memcpy(at, &task, sizeof(task));
    }
    for (size_t i = 0; i < growth->edge_count; i++, at += sizeof(gy_edge_packed)) {
        const gy_edge_packed edge = gy_edge_pack(&growth->edges[i]);
        memcpy(at, &edge, sizeof(edge));
    }
    if (growth->detail_bytes > 0) {
        memcpy(at, growth->detail, growth->detail_bytes);
    }
    end_record(manager, RECORD_GROWN, size);
}

void gy_manager_write_host(gy_manager *manager, uint32_t host)
{
    const host_row *row = &manager->hosts.rows[host];
    const record_host body = {.host = host, .id = row->id};
    const record_host_packed packed = record_host_pack(&body);
    write_record(manager, RECORD_HOST,
                 (const part[PARTS]){{&packed, sizeof(packed)},
                                     {row->address, strlen(row->address) + 1},
                                     {row->name, strlen(row->name) + 1}});
}

void gy_manager_write_saved(gy_manager *manager)
{
    write_record(manager, RECORD_SAVED, (const part[PARTS]){{0}});
}

void gy_manager_write_learnt(gy_manager *manager, const void *data, size_t size_bytes)
{
    write_record(manager, RECORD_LEARNT, (const part[PARTS]){{data, size_bytes}});
}

void gy_manager_write_end(gy_manager *manager, gy_status status, const char *reason)
{
    const record_end body = {.status = status};
    const record_end_packed packed = record_end_pack(&body);
    write_record(manager, RECORD_END,
                 (const part[PARTS]){{&packed, sizeof(packed)}, {reason, strlen(reason)}});
}

void gy_manager_sync(gy_manager *manager)
{
    gy_manager_emit(manager, GY_EFFECT_SYNC)->position = manager->position;
}

void gy_manager_seal(gy_manager *manager)
{
    uint64_t base = manager->position - manager->journal_bytes;
    for (size_t i = 0; i < manager->effects->count && manager->journal_bytes > 0; i++) {
        gy_effect *effect = &manager->effects->items[i];
        if (effect->kind == GY_EFFECT_APPEND) {
            effect->data = manager->journal + (effect->position - effect->size_bytes - base);
        }
    }
}
