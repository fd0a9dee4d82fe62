/*
 * What lies where: outputs of committed tasks on hosts, inputs from outside near hosts that are
 * called by name. From both follows which host has most of what a task reads.
 */
#include "sched/manager/manager_priv.h"

#include <math.h>
#include <string.h>

/* ---- What is committed on a host ---- */

uint8_t gy_manager_held_code(uint64_t bytes)
{
    if (bytes < 4) {
        return (uint8_t)bytes;
    }
    uint64_t octave = 63 - (uint64_t)__builtin_clzll(bytes);
    return (uint8_t)(4 * (octave - 1) + (bytes >> (octave - 2) & 3));
}

float gy_manager_held_bytes(uint8_t code)
{
    return code < 4 ? (float)code : ldexpf((float)(4 + code % 4), code / 4 - 1);
}

void gy_manager_hold(gy_manager *manager, uint32_t task)
{
    const task_row *row = &manager->rows[task];
    host_row *host = &manager->hosts.rows[row->host];
    if (GY_GROW("manager.held", host->held, host->held_capacity, host->held_count + 1) < 0) {
        manager->status = GY_NOMEM;
        return;
    }
    host->held[host->held_count++] = (gy_sched_stored){task, row->epoch};
}

bool gy_manager_holds(const gy_manager *manager, uint32_t host, const gy_sched_stored *held)
{
    const task_row *row = &manager->rows[held->task];
    return row->state == TASK_COMMITTED && row->host == host && row->epoch == held->epoch;
}

/* ---- What is near a host by name ---- */

static gy_status push(gy_tasks *list, uint32_t item)
{
    GY_TRY(GY_GROW("manager.places", list->items, list->capacity, list->count + 1));
    list->items[list->count++] = item;
    return GY_OK;
}

static gy_key name_key(const char *name, size_t length)
{
    uint64_t sum[2];
    gy_hash_wide(name, length, sum);
    return (gy_key){.high = sum[0], .low = sum[1]};
}

/* The number of a name; a new one's first host is none. */
static gy_status name_number(gy_hosts *hosts, const char *name, size_t length, uint32_t *number)
{
    const gy_key key = name_key(name, length);
    *number = gy_index_find(&hosts->names, key);
    if (*number != GY_NONE) {
        return GY_OK;
    }
    GY_TRY(GY_GROW("manager.names", hosts->name_rows, hosts->name_capacity,
                   hosts->name_count + 1));
    char *text = gy_arena_alloc(&hosts->texts, length + 1);
    if (text == NULL) {
        return GY_NOMEM;
    }
    memcpy(text, name, length);
    text[length] = '\0';
    *number = (uint32_t)hosts->name_count;
    GY_TRY(gy_index_put(&hosts->names, key, *number));
    hosts->name_rows[hosts->name_count++] = (gy_host_name){.text = text, .first = GY_NONE};
    return GY_OK;
}

uint32_t gy_manager_name_of(const gy_manager *manager, uint32_t host)
{
    const char *name = manager->hosts.rows[host].name;
    return gy_index_find(&manager->hosts.names, name_key(name, strlen(name)));
}

const uint32_t *gy_manager_places_of(const gy_manager *manager, uint32_t task)
{
    const gy_hosts *hosts = &manager->hosts;
    uint32_t at = task < hosts->place_of.count ? hosts->place_of.items[task] : 0;
    return at > 0 ? &hosts->place_items.items[at - 1] : NULL;
}

static gy_status take_places_of(gy_hosts *hosts, const char *places, bool is_pinned)
{
    while (*(places += strspn(places, " ")) != '\0') {
        size_t length = strcspn(places, " ");
        uint32_t number = 0;
        GY_TRY(name_number(hosts, places, length, &number));
        GY_TRY(push(&hosts->place_items, number));
        hosts->name_rows[number].has_pinned |= is_pinned;
        places += length;
    }
    return push(&hosts->place_items, GY_NONE);
}

gy_status gy_manager_take_places(gy_manager *manager, const gy_growth *growth, uint32_t first)
{
    gy_hosts *hosts = &manager->hosts;
    if (growth->places == NULL || manager->options.host_max == 0) {
        return GY_OK;
    }
    while (hosts->place_of.count < first) {
        GY_TRY(push(&hosts->place_of, 0));
    }
    for (uint32_t i = 0; i < growth->task_count; i++) {
        const char *places = growth->places[i];
        bool has_some = places != NULL && places[strspn(places, " ")] != '\0';
        GY_TRY(push(&hosts->place_of, has_some ? (uint32_t)hosts->place_items.count + 1 : 0));
        if (has_some) {
            GY_TRY(
                take_places_of(hosts, places, (growth->tasks[i].flags & GY_TASK_PINNED) != 0));
        }
    }
    return GY_OK;
}

void gy_manager_take_name(gy_manager *manager, uint32_t host)
{
    gy_hosts *hosts = &manager->hosts;
    uint32_t number = 0;
    const char *name = hosts->rows[host].name;
    if (name_number(hosts, name, strlen(name), &number) < 0) {
        manager->status = GY_NOMEM;
        return;
    }
    uint32_t *link = &hosts->name_rows[number].first;
    while (*link != GY_NONE && *link != host) {
        link = &hosts->rows[*link].name_next;
    }
    if (*link == GY_NONE) {
        hosts->rows[host].name_next = GY_NONE;
        *link = host;
    }
}

/* ---- Both together ---- */

enum { NEAR_MAX = 256 };

typedef struct nearness {
    uint32_t hosts[NEAR_MAX];
    uint32_t count;
    float total;
} nearness;

static void add(gy_manager *manager, nearness *near, uint32_t host, float bytes)
{
    host_row *row = &manager->hosts.rows[host];
    bool is_new = row->near <= 0;
    if (row->state != HOST_UP || row->is_avoided || (is_new && near->count == NEAR_MAX)) {
        return;
    }
    if (is_new) {
        near->hosts[near->count++] = host;
    }
    row->near += bytes;
}

static void add_inputs(gy_manager *manager, nearness *near, uint32_t task)
{
    uint32_t first = manager->rows[task].first_edge, end = gy_manager_edges_end(manager, task);
    uint32_t step = (end - first + GY_LOOK_EDGES - 1) / GY_LOOK_EDGES;
    for (uint32_t edge = first; edge < end; edge += step) {
        const task_row *from = &manager->rows[manager->edges[edge].from];
        if (from->state == TASK_COMMITTED && from->host != GY_HOST_NOWHERE) {
            float bytes = gy_manager_held_bytes(from->held) / (float)from->output_count;
            bytes = fmaxf(bytes, 1);
            near->total += bytes;
            add(manager, near, from->host, bytes);
        }
    }
}

static void add_places(gy_manager *manager, nearness *near, uint32_t task)
{
    const gy_hosts *hosts = &manager->hosts;
    const uint32_t *place = gy_manager_places_of(manager, task);
    if (place == NULL) {
        return;
    }
    float bytes = fmaxf(manager->rows[task].input_bytes, 1);
    near->total += bytes;
    for (; *place != GY_NONE; place++) {
        uint32_t host = hosts->name_rows[*place].first;
        for (; host != GY_NONE; host = hosts->rows[host].name_next) {
            add(manager, near, host, bytes);
        }
    }
}

uint32_t gy_manager_near(gy_manager *manager, uint32_t task, float *share)
{
    nearness near = {.count = 0};
    add_inputs(manager, &near, task);
    add_places(manager, &near, task);
    uint32_t best = GY_NONE;
    float most = 0;
    for (uint32_t i = 0; i < near.count; i++) {
        host_row *row = &manager->hosts.rows[near.hosts[i]];
        if (row->near > most) {
            most = row->near;
            best = near.hosts[i];
        }
        row->near = 0;
    }
    *share = near.total > 0 ? most / near.total : 0;
    return best;
}
