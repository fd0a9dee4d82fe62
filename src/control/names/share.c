/*
 * Who gets a free slot: the job that would then have the fewest for its weight (progressive
 * filling, which ends in weighted max-min fairness), one slot after the other. A gang gets all
 * slots or none: a gang that could be served but lacks slots has them reserved, and only one
 * gang has, so two incomplete gangs never wait for each other.
 */
#include "control/names/names_priv.h"

#include <stdio.h>

typedef enum served { SERVED, SERVE_LATER, SERVE_NEVER } served;

static gang_row *waiting_gang(job_row *row)
{
    for (uint32_t i = 0; i < row->gang_count; i++) {
        if (row->gangs[i].state == GANG_WAITS && !row->gangs[i].is_impossible) {
            return &row->gangs[i];
        }
    }
    return NULL;
}

static bool wants_single(const job_row *row)
{
    return row->singles < row->wanted && row->held < row->facts.slots_max;
}

void gy_names_appetite(gy_names *names, uint32_t job)
{
    job_row *row = &names->jobs[job];
    bool has_gang = false;
    for (uint32_t i = 0; i < row->gang_count; i++) {
        has_gang = has_gang || row->gangs[i].state == GANG_WAITS;
    }
    bool is_hungry =
        row->state == JOB_UP && !row->facts.is_killed && (has_gang || wants_single(row));
    bool was_hungry = row->is_parked || gy_control_heap_has(&names->hungry, job);
    if (!is_hungry) {
        row->is_parked = false;
        row->waits[0] = '\0';
        gy_control_heap_remove(&names->hungry, job);
        return;
    }
    row->hungry_ns = was_hungry ? row->hungry_ns : names->now_ns;
    if (!row->is_parked) {
        gy_names_no_memory(names, gy_control_heap_put(&names->hungry, job));
    }
}

static void park(gy_names *names, uint32_t job)
{
    gy_control_heap_remove(&names->hungry, job);
    if (GY_GROW("names.parked", names->parked, names->parked_capacity,
                names->parked_count + 1) < 0) {
        gy_names_no_memory(names, GY_NOMEM);
        return;
    }
    names->parked[names->parked_count++] = job;
    names->jobs[job].is_parked = true;
}

void gy_names_unpark(gy_names *names)
{
    for (size_t i = 0; i < names->parked_count; i++) {
        uint32_t job = names->parked[i];
        if (names->jobs[job].is_parked) {
            names->jobs[job].is_parked = false;
            gy_names_no_memory(names, gy_control_heap_put(&names->hungry, job));
        }
    }
    names->parked_count = 0;
}

void gy_names_reshape(gy_names *names)
{
    gy_names_unpark(names);
    for (size_t i = 0; i < names->hungry.count; i++) {
        job_row *row = &names->jobs[names->hungry.items[i]];
        for (uint32_t k = 0; k < row->gang_count; k++) {
            row->gangs[k].is_impossible = false;
        }
    }
    names->reserved = names->reserved_daemon = GY_NONE;
    gy_names_wake_waiting(names);
}

void gy_names_unreserve(gy_names *names, uint32_t job)
{
    if (names->reserved == job) {
        names->reserved = names->reserved_daemon = GY_NONE;
    }
}

/* ---- Where ---- */

static bool is_blocked(const gy_names *names, uint32_t daemon, uint32_t job)
{
    return names->reserved != GY_NONE && names->reserved != job &&
           (names->reserved_daemon == GY_NONE || names->reserved_daemon == daemon);
}

/* Prefer the requested hosts, else the one with most free slots. */
static uint32_t pick(const gy_names *names, uint32_t job, bool is_gang)
{
    const job_row *row = &names->jobs[job];
    for (int i = 0; i < GY_CONTROL_HOSTS_MAX; i++) {
        uint32_t daemon = gy_index_find(&names->by_host, row->hosts[i]);
        if (daemon != GY_NONE && gy_control_heap_has(&names->free, daemon) &&
            gy_names_fits(names, daemon, job) && !is_blocked(names, daemon, job)) {
            return daemon;
        }
    }
    for (size_t i = 0; i < names->free.count; i++) {
        uint32_t daemon = names->free.items[i];
        if (!is_blocked(names, daemon, job) && (is_gang ? gy_names_fits(names, daemon, job)
                                                        : gy_names_suits(names, daemon, job))) {
            return daemon;
        }
    }
    return GY_NONE;
}

static uint32_t room_for(const gy_names *names, uint32_t job, const gy_gang_request *request)
{
    for (size_t i = 0; i < names->free.count; i++) {
        uint32_t daemon = names->free.items[i];
        const daemon_row *row = &names->daemons[daemon];
        if (gy_names_free_slots(row) >= request->width && row->id != request->not_daemon &&
            gy_names_fits(names, daemon, job) && !is_blocked(names, daemon, job)) {
            return daemon;
        }
    }
    return GY_NONE;
}

/* The next daemon from *at on with so many free slots, in descending order of free slots. */
static uint32_t next_with(const gy_names *names, uint32_t job, uint32_t each, size_t *at)
{
    while (*at < names->free.count) {
        uint32_t daemon = names->free.items[(*at)++];
        if (gy_names_free_slots(&names->daemons[daemon]) >= each &&
            gy_names_fits(names, daemon, job) && !is_blocked(names, daemon, job)) {
            return daemon;
        }
    }
    return GY_NONE;
}

/* Have as many daemons as the gang needs enough free slots? */
static bool has_hosts(const gy_names *names, uint32_t job, const gy_gang_request *request)
{
    uint32_t found = 0;
    size_t at = 0;
    while (found < request->hosts &&
           next_with(names, job, request->width / request->hosts, &at) != GY_NONE) {
        found++;
    }
    return found == request->hosts;
}

static uint32_t free_everywhere(const gy_names *names, uint32_t job, uint32_t enough)
{
    uint32_t found = 0;
    for (size_t i = 0; i < names->free.count && found < enough; i++) {
        uint32_t daemon = names->free.items[i];
        if (gy_names_fits(names, daemon, job) && !is_blocked(names, daemon, job)) {
            found += gy_names_free_slots(&names->daemons[daemon]);
        }
    }
    return found;
}

/* Could it be served if all other jobs released their slots? *where: the daemon, for a gang on
 * one host. */
static bool is_possible_at(const gy_names *names, uint32_t job, const gy_gang_request *request,
                           uint32_t *where)
{
    uint32_t best = GY_NONE, all = 0, hosts = 0;
    for (uint32_t i = 0; i < names->daemon_count; i++) {
        const daemon_row *row = &names->daemons[i];
        if (!gy_names_fits(names, i, job)) {
            continue;
        }
        all += row->slots;
        hosts += request->hosts > 1 && row->slots >= request->width / request->hosts;
        if (row->slots >= request->width &&
            (best == GY_NONE ||
             gy_names_free_slots(row) > gy_names_free_slots(&names->daemons[best]))) {
            best = i;
        }
    }
    *where = request->is_one_host ? best : GY_NONE;
    if (request->hosts > 1) {
        return hosts >= request->hosts;
    }
    return request->is_one_host ? best != GY_NONE : all >= request->width;
}

bool gy_names_is_possible(const gy_names *names, uint32_t job, const gy_gang_request *request)
{
    uint32_t where = GY_NONE;
    return is_possible_at(names, job, request, &where);
}

/* ---- What ---- */

/* The same number on each of its hosts. Offers change the number of free slots, so hosts are
 * chosen first. */
static void offer_spread(gy_names *names, uint32_t job, const gy_gang_request *request)
{
    const uint32_t each = request->width / request->hosts;
    size_t at = 0;
    uint32_t *chosen = gy_arena_alloc(&names->texts, request->hosts * sizeof(*chosen));
    if (chosen == NULL) {
        gy_names_no_memory(names, GY_NOMEM);
        return;
    }
    for (uint32_t i = 0; i < request->hosts; i++) {
        chosen[i] = next_with(names, job, each, &at);
    }
    for (uint32_t i = 0; i < request->hosts && chosen[i] != GY_NONE; i++) {
        gy_names_offer(names, job, chosen[i], (gy_names_lot){request->number, each});
    }
}

static void offer_gang(gy_names *names, uint32_t job, gang_row *gang, uint32_t daemon)
{
    uint32_t number = gang->request.number, left = gang->request.width;
    gy_names_gang_break(names, job, number); /* leases of an earlier life of this name server */
    gang->state = GANG_OFFERED;
    gy_names_unreserve(names, job);
    if (gang->request.hosts > 1) {
        const gy_gang_request request = gang->request;
        offer_spread(names, job, &request);
        left = 0;
    }
    while (left > 0) {
        uint32_t where = daemon != GY_NONE ? daemon : pick(names, job, true);
        if (where == GY_NONE) {
            break; /* only with the planted bug TWO_RESERVED */
        }
        uint32_t count = GY_MIN(left, gy_names_free_slots(&names->daemons[where]));
        gy_names_offer(names, job, where, (gy_names_lot){number, count});
        left -= count;
    }
    gy_names_appetite(names, job);
}

static bool has_room(const gy_names *names, uint32_t job, const gy_gang_request *request,
                     uint32_t *where)
{
    if (request->hosts > 1) {
        return has_hosts(names, job, request);
    }
    if (request->is_one_host) {
        *where = room_for(names, job, request);
        return *where != GY_NONE;
    }
    return free_everywhere(names, job, request->width) >= request->width;
}

static served serve_gang(gy_names *names, uint32_t job, gang_row *gang)
{
    const gy_gang_request *request = &gang->request;
    const job_row *row = &names->jobs[job];
    uint32_t where = GY_NONE;
    bool is_over = row->held > row->facts.slots_max ||
                   request->width > row->facts.slots_max - row->held; /* the job's own limit */
    const bool is_there = !is_over && has_room(names, job, request, &where);
    const bool rests = gy_names_rests(names, job, is_there);
    if (is_there && !rests) {
        offer_gang(names, job, gang, where);
        return SERVED;
    }
    if (request->not_daemon != 0) { /* only when there is room, if ever */
        gy_names_unreserve(names, job);
        return SERVE_LATER;
    }
    if (request->width > row->facts.slots_max || !is_possible_at(names, job, request, &where)) {
        return SERVE_NEVER;
    }
    if (rests) {
        gy_names_unreserve(names, job);
    }
    if (is_over || rests) {
        return SERVE_LATER;
    }
    if (GY_PLANTED_HERE(TWO_RESERVED) && !request->is_one_host && request->hosts <= 1) {
        offer_gang(names, job, gang, GY_NONE);
        return SERVED;
    }
    if (names->reserved == GY_NONE) {
        names->reserved = job;
        names->reserved_daemon = where;
    }
    return SERVE_LATER;
}

static void never(gy_names *names, uint32_t job, gang_row *gang)
{
    job_row *row = &names->jobs[job];
    gang->is_impossible = true;
    if (gang->request.width > row->facts.slots_max) {
        snprintf(row->waits, sizeof(row->waits),
                 "for %u slots together: --slots-max of the job is %u", gang->request.width,
                 row->facts.slots_max);
    } else if (gang->request.hosts > 1) {
        snprintf(row->waits, sizeof(row->waits),
                 "for %u slots on each of %u hosts: there are not so many",
                 gang->request.width / gang->request.hosts, gang->request.hosts);
    } else {
        snprintf(row->waits, sizeof(row->waits), "for %u slots %s: nowhere are so many",
                 gang->request.width, gang->request.is_one_host ? "on one host" : "together");
    }
    gy_names_note_job(names, job, row->waits);
}

uint32_t gy_names_never(const gy_names *names, uint32_t job, uint32_t *most)
{
    const job_row *row = &names->jobs[job];
    *most = 0;
    for (uint32_t i = 0; i < names->daemon_count; i++) {
        if (names->daemons[i].slots > *most && gy_names_is_kind(names, i, job)) {
            *most = names->daemons[i].slots;
        }
    }
    *most = GY_MIN(*most, row->facts.slots_max);
    for (uint32_t i = 0; i < row->gang_count; i++) {
        if (row->gangs[i].is_impossible && row->gangs[i].request.is_one_host &&
            row->gangs[i].request.width > *most) {
            return row->gangs[i].request.number;
        }
    }
    return 0;
}

/* Serve the job one slot or one gang; false: not possible now. */
static bool serve(gy_names *names, uint32_t job)
{
    job_row *row = &names->jobs[job];
    gang_row *gang = waiting_gang(row);
    if (gang != NULL) {
        served how = serve_gang(names, job, gang);
        if (how == SERVED) {
            return true;
        }
        if (how == SERVE_NEVER) {
            never(names, job, gang);
            gy_names_unreserve(names, job);
        }
    }
    bool is_held_back = names->reserved == job && names->reserved_daemon == GY_NONE;
    uint32_t daemon = wants_single(row) && !is_held_back ? pick(names, job, false) : GY_NONE;
    if (daemon != GY_NONE) {
        gy_names_offer(names, job, daemon, (gy_names_lot){0, 1});
    }
    return daemon != GY_NONE;
}

void gy_names_lend(gy_names *names)
{
    uint32_t first = names->reserved;
    if (first != GY_NONE) {
        gang_row *gang = waiting_gang(&names->jobs[first]);
        if (gang == NULL || names->jobs[first].state != JOB_UP) {
            gy_names_unreserve(names, first);
            gy_names_unpark(names);
        } else if (serve_gang(names, first, gang) == SERVED) {
            gy_names_unpark(names);
        }
    }
    while (names->hungry.count > 0 && names->status == GY_OK) {
        uint32_t job = names->hungry.items[0];
        if (!serve(names, job)) {
            park(names, job);
        }
    }
}
