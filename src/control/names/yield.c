/*
 * The last resort: a job that avoids daemons may be left with none that serves its request.
 * Then it gets slots of an avoided daemon, the largest first, marked as such: tasks that may
 * fail are better than tasks that never run. If they do fail, the job avoids the daemon again,
 * and the task failures end the job in the end.
 */
#include "control/names/names_priv.h"

#include <string.h>

/* Position in the job's list; GY_NONE: the daemon is not avoided. */
static uint32_t find(const gy_names *names, uint32_t job, uint32_t daemon)
{
    const job_row *row = &names->jobs[job];
    for (uint32_t i = 0; i < GY_CONTROL_AVOID_MAX; i++) {
        if (row->avoid[i] == names->daemons[daemon].id) {
            return i;
        }
    }
    return GY_NONE;
}

bool gy_names_is_avoided(const gy_names *names, uint32_t daemon, uint32_t job)
{
    const uint32_t at = find(names, job, daemon);
    return at != GY_NONE && !names->jobs[job].is_last[at];
}

bool gy_names_is_last(const gy_names *names, uint32_t daemon, uint32_t job)
{
    const uint32_t at = find(names, job, daemon);
    return at != GY_NONE && names->daemons[daemon].id != 0 && names->jobs[job].is_last[at];
}

void gy_names_avoid(gy_names *names, uint32_t job, uint32_t daemon)
{
    job_row *row = &names->jobs[job];
    uint32_t at = find(names, job, daemon);
    if (at == GY_NONE) {
        at = row->avoid_next++ % GY_CONTROL_AVOID_MAX;
    }
    row->avoid[at] = names->daemons[daemon].id;
    row->is_last[at] = false;
}

/* The largest daemon that only this list excludes; GY_NONE: there is none. */
static uint32_t largest_avoided(const gy_names *names, uint32_t job)
{
    uint32_t best = GY_NONE;
    for (uint32_t i = 0; i < names->daemon_count; i++) {
        const daemon_row *row = &names->daemons[i];
        if (row->id != 0 && gy_names_is_avoided(names, i, job) && gy_names_may_lend(row) &&
            gy_names_is_kind(names, i, job) &&
            (best == GY_NONE || row->slots > names->daemons[best].slots)) {
            best = i;
        }
    }
    return best;
}

/* Any daemon at all, for single slots. */
static bool has_any(const gy_names *names, uint32_t job)
{
    for (uint32_t i = 0; i < names->daemon_count; i++) {
        if (gy_names_fits(names, i, job)) {
            return true;
        }
    }
    return false;
}

static bool is_served(const gy_names *names, uint32_t job, const gy_gang_request *request)
{
    return request != NULL ? gy_names_is_possible(names, job, request) : has_any(names, job);
}

/* Allow avoided daemons one by one until the request can be served; none if even all are not
 * enough. NULL: single slots are requested. */
static bool yield(gy_names *names, uint32_t job, const gy_gang_request *request)
{
    job_row *row = &names->jobs[job];
    bool before[GY_CONTROL_AVOID_MAX];
    memcpy(before, row->is_last, sizeof(before));
    while (!is_served(names, job, request)) {
        const uint32_t daemon = largest_avoided(names, job);
        if (daemon == GY_NONE) {
            memcpy(row->is_last, before, sizeof(before));
            return false;
        }
        row->is_last[find(names, job, daemon)] = true;
    }
    gy_names_note_job(names, job,
                      "nothing else has slots enough: it goes to daemons that it avoids");
    return true;
}

/* Check requests that wait in vain: a gang first, then single slots of a job that has none. */
static bool look_at_job(gy_names *names, uint32_t job)
{
    job_row *row = &names->jobs[job];
    const int64_t since_ns = names->now_ns - names->options.patience_ns;
    for (uint32_t i = 0; i < row->gang_count; i++) {
        gang_row *gang = &row->gangs[i];
        if (gang->state == GANG_WAITS && gang->is_impossible && gang->since_ns <= since_ns &&
            gang->request.width <= row->facts.slots_max && yield(names, job, &gang->request)) {
            gang->is_impossible = false;
            return true;
        }
    }
    return row->held == 0 && row->wanted > 0 && row->hungry_ns <= since_ns &&
           !has_any(names, job) && yield(names, job, NULL);
}

bool gy_names_yield(gy_names *names)
{
    bool has_yielded = false;
    for (uint32_t job = 0; job < names->job_count; job++) {
        const job_row *row = &names->jobs[job];
        if (row->state == JOB_UP && row->avoid_next > 0 && !row->facts.is_killed) {
            has_yielded = look_at_job(names, job) || has_yielded;
        }
    }
    if (has_yielded) {
        gy_names_unpark(names);
    }
    return has_yielded;
}
