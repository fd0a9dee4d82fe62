/*
 * Gangs larger than their job's share take turns with other jobs. A job whose gang was
 * preempted rests: until its rest ends, single slots of other jobs come first. Otherwise the
 * job, which now has nothing, would be the first to get the slots again, and the job that they
 * were preempted for would never have them. The job had h slots for a time t where its share
 * was s < h, so it rests t * (h - s) / s: then it has had its share on average. The rest is at
 * most twenty times t, so that a job with a tiny share also has a turn.
 */
#include "control/names/names_priv.h"

enum { REST_MAX = 20 };

static bool is_waiting(const gy_names *names, uint32_t job)
{
    return names->jobs[job].is_parked || gy_control_heap_has(&names->hungry, job);
}

/* A fraction of slots: of all that the job could have, by the weights of the jobs that want
 * some. */
static double share_of(const gy_names *names, uint32_t job)
{
    double slots = 0, weights = 0;
    for (uint32_t i = 0; i < names->daemon_count; i++) {
        slots += gy_names_fits(names, i, job) ? names->daemons[i].slots : 0;
    }
    for (uint32_t i = 0; i < names->job_count; i++) {
        const job_row *row = &names->jobs[i];
        if (row->state == JOB_UP && (row->held > 0 || is_waiting(names, i))) {
            weights += row->facts.weight;
        }
    }
    return weights > 0 ? slots * names->jobs[job].facts.weight / weights : slots;
}

void gy_names_turn_over(gy_names *names, uint32_t lease)
{
    const lease_row *row = &names->leases[lease];
    job_row *job = &names->jobs[row->job];
    const double held = job->held, share = share_of(names, row->job);
    const double had_ns = (double)(names->now_ns - row->held_ns);
    if (row->gang == 0 || held <= share) {
        return;
    }
    const double rest_ns =
        share * REST_MAX > held - share ? had_ns * (held - share) / share : had_ns * REST_MAX;
    job->rest_ns = GY_MAX(job->rest_ns, names->now_ns + (int64_t)rest_ns);
}

static bool may_be_served(const gy_names *names, uint32_t job, bool is_now)
{
    for (uint32_t i = 0; i < names->daemon_count; i++) {
        if (gy_names_suits(names, i, job) &&
            (!is_now || gy_names_free_slots(&names->daemons[i]) > 0)) {
            return true;
        }
    }
    return false;
}

bool gy_names_rests(const gy_names *names, uint32_t job, bool has_room)
{
    bool rests = false;
    for (uint32_t i = 0;
         i < names->job_count && names->now_ns < names->jobs[job].rest_ns && !rests; i++) {
        const job_row *other = &names->jobs[i];
        rests = i != job && is_waiting(names, i) && other->singles < other->wanted &&
                other->held < other->facts.slots_max && may_be_served(names, i, has_room);
    }
    return rests;
}

bool gy_names_turns(gy_names *names)
{
    bool has_rested = false;
    for (uint32_t job = 0; job < names->job_count; job++) {
        job_row *row = &names->jobs[job];
        if (row->rest_ns != 0 && row->rest_ns <= names->now_ns) {
            row->rest_ns = 0;
            has_rested = true;
        }
    }
    if (has_rested) {
        gy_names_unpark(names);
    }
    return has_rested;
}
