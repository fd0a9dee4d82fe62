/*
 * What a step appends to the journal.
 */
#include "sched/state/records.h"
#include "sched/state/state.h"

#include <string.h>

typedef struct part {
    const void *data;
    size_t size_bytes;
} part;

enum { PARTS = 4 };

/* One APPEND holds all records that follow each other. */
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

static void write_record(gy_manager *manager, record_kind kind, const part parts[PARTS])
{
    size_t size = 0;
    for (int i = 0; i < PARTS; i++) {
        size += parts[i].size_bytes;
    }
    size_t total = sizeof(record_head) + size;
    if (size > UINT32_MAX) {
        gy_manager_end(manager, GY_LIMIT, "a record of more than 4 GiB");
        return;
    }
    if (GY_GROW("manager.journal", manager->journal, manager->journal_capacity,
                manager->journal_bytes + total) < 0) {
        manager->status = GY_NOMEM;
        return;
    }
    uint8_t *out = manager->journal + manager->journal_bytes, *body = out + sizeof(record_head);
    for (int i = 0; i < PARTS; i++) {
        if (parts[i].size_bytes > 0) {
            memcpy(body, parts[i].data, parts[i].size_bytes);
            body += parts[i].size_bytes;
        }
    }
    record_head head = {.size_bytes = (uint32_t)size, .kind = kind};
    head.checksum = gy_hash(out + sizeof(head), size, (uint64_t)kind << 32 | size);
    memcpy(out, &head, sizeof(head));
    manager->journal_bytes += total;
    tell(manager, total);
}

void gy_manager_write_begin(gy_manager *manager)
{
    const record_begin body = {.magic = {'g', 'y', 'r', 'e', ' ', 'j', 'o', 'b'},
                               .version = RECORD_VERSION,
                               .generation = manager->generation,
                               .job = manager->job};
    write_record(manager, manager->has_begun ? RECORD_RESUME : RECORD_BEGIN,
                 (const part[PARTS]){{&body, sizeof(body)}});
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
    write_record(manager, RECORD_COMMIT, (const part[PARTS]){{&body, sizeof(body)}, report});
}

void gy_manager_write_raise(gy_manager *manager)
{
    size_t count = manager->raised.count;
    record_raise *all = gy_alloc("manager.raised", count * sizeof(*all));
    if (all == NULL) {
        manager->status = GY_NOMEM;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t task = manager->raised.items[i];
        all[i] = (record_raise){.task = task, .epoch = manager->rows[task].epoch};
    }
    write_record(manager, RECORD_RAISE, (const part[PARTS]){{all, count * sizeof(*all)}});
    gy_free(all);
}

void gy_manager_write_grown(gy_manager *manager, uint32_t stage, const gy_growth *growth)
{
    const record_grown body = {.stage = stage,
                               .task_count = growth->task_count,
                               .asked_tasks = manager->stages[stage].asked_tasks,
                               .edge_count = growth->edge_count,
                               .detail_bytes = growth->detail_bytes};
    write_record(
        manager, RECORD_GROWN,
        (const part[PARTS]){{&body, sizeof(body)},
                            {growth->tasks, growth->task_count * sizeof(gy_sched_task)},
                            {growth->edges, growth->edge_count * sizeof(gy_edge)},
                            {growth->detail, growth->detail_bytes}});
}

void gy_manager_write_host(gy_manager *manager, uint32_t host)
{
    const host_row *row = &manager->hosts.rows[host];
    const record_host body = {.host = host, .id = row->id};
    write_record(manager, RECORD_HOST,
                 (const part[PARTS]){{&body, sizeof(body)},
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
    write_record(manager, RECORD_END,
                 (const part[PARTS]){{&body, sizeof(body)}, {reason, strlen(reason)}});
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
