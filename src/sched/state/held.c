/* Which outputs lie on which host, and which external inputs are near hosts by name. Both
 * together give the host with most of a task's input bytes. */
#include "sched/state/state.h"

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
