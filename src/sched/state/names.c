/* The names of hosts, and the tasks that have them as places: where a task prefers to run, or
 * must run. */
#include "sched/state/state.h"

#include <stdlib.h>
#include <string.h>

host_row *gy_manager_host_row(gy_manager *manager, uint32_t host)
{
    gy_hosts *hosts = &manager->hosts;
    if (GY_GROW("manager.hosts", hosts->rows, hosts->capacity, (size_t)host + 1) < 0) {
        manager->status = GY_NOMEM;
        return NULL;
    }
    for (; hosts->count <= host; hosts->count++) {
        hosts->rows[hosts->count] = (host_row){.name_next = GY_NONE};
    }
    return &hosts->rows[host];
}

static gy_status push(gy_tasks *list, uint32_t item)
{
    GY_TRY(GY_GROW("manager.places", list->items, list->capacity, list->count + 1));
    list->items[list->count++] = item;
    return GY_OK;
}

/* Intern a name; a new one has no host yet. */
static gy_status name_number(gy_hosts *hosts, const char *name, size_t length, uint32_t *number)
{
    const gy_key key = gy_key_of(name, length);
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
    return gy_index_find(&manager->hosts.names, gy_key_of(name, strlen(name)));
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

/* ---- Pinned tasks ---- */

void gy_manager_pin(gy_manager *manager, uint32_t task)
{
    gy_hosts *hosts = &manager->hosts;
    const uint32_t *place = gy_manager_places_of(manager, task);
    GY_ASSERT(place != NULL);
    for (; *place != GY_NONE; place++) {
        gy_tasks *list = &hosts->name_rows[*place].pinned;
        if (GY_GROW("manager.pinned", list->items, list->capacity, list->count + 1) < 0) {
            manager->status = GY_NOMEM;
            return;
        }
        list->items[list->count++] = task;
        hosts->pinned_entries++;
    }
    manager->rows[task].marks |= MARK_QUEUED;
}

/* ---- Cohorts over several hosts ---- */

gy_status gy_manager_take_spreads(gy_manager *manager, const gy_growth *growth, uint32_t first)
{
    gy_hosts *hosts = &manager->hosts;
    for (uint32_t task = 0; task < growth->task_count; task++) {
        if (growth->tasks[task].hosts <= 1) {
            continue;
        }
        GY_TRY(GY_GROW("manager.spread", hosts->spreads, hosts->spread_capacity,
                       hosts->spread_count + 1));
        hosts->spreads[hosts->spread_count++] =
            (gy_spread){first + task, growth->tasks[task].hosts};
    }
    return GY_OK;
}

static int compare(const void *left, const void *right)
{
    const gy_spread *a = left, *b = right;
    return (a->task > b->task) - (a->task < b->task);
}

uint32_t gy_manager_spread(const gy_manager *manager, uint32_t task)
{
    const gy_hosts *hosts = &manager->hosts;
    const gy_spread key = {.task = task};
    const gy_spread *found =
        (manager->rows[task].marks & MARK_SPREAD) == 0
            ? NULL
            : bsearch(&key, hosts->spreads, hosts->spread_count, sizeof(gy_spread), compare);
    return found != NULL ? found->hosts : 1;
}
