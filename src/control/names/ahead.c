/*
 * Spare epochs: a record states that the epoch after the job's may already be in an order. The
 * name server that stored it can then replace a manager that ended or fell silent without
 * waiting for the table, where an election may be under way. Afterwards it stores the next
 * spare epoch. A name server that loads the record does not know whether the spare epoch was
 * used: it skips it, and accepts a manager with that epoch as the job's.
 *
 * Source: ranges given out from memory and stored in advance: Peng and Dabek, "Large-scale
 * incremental processing using distributed transactions and notifications", OSDI 2010
 * (timestamps).
 */
#include "control/names/lists.h"

uint32_t gy_names_next_epoch(const gy_names *names, uint32_t job)
{
    const job_row *row = &names->jobs[job];
    const bool is_skipped =
        row->facts.is_ahead && !row->is_free && !GY_PLANTED_HERE(AHEAD_REUSED);
    return row->facts.epoch + 1 + is_skipped;
}

bool gy_names_use_spare_epoch(gy_names *names, uint32_t job)
{
    job_row *row = &names->jobs[job];
    if (!row->facts.is_ahead || !row->is_free) {
        return false;
    }
    GY_ASSERT(row->pending == PENDING_NONE);
    row->facts.epoch++;
    row->facts.attempts++;
    row->facts.is_ahead = row->is_free = false;
    row->next = row->facts;
    row->next.is_ahead = true;
    return true;
}

bool gy_names_take_epoch(gy_names *names, uint32_t job, uint32_t epoch)
{
    job_row *row = &names->jobs[job];
    const bool is_ahead = row->facts.is_ahead && !row->is_free &&
                          epoch == row->facts.epoch + 1 && row->pending != PENDING_RAISE &&
                          row->state != JOB_NEW && gy_names_is_open(row);
    if (!is_ahead || GY_PLANTED_HERE(AHEAD_UNKNOWN)) {
        return epoch == row->facts.epoch;
    }
    row->facts.epoch = row->next.epoch = epoch;
    row->facts.is_ahead = row->next.is_ahead = false;
    gy_names_end_leases(names, job, false);
    gy_names_forget_manager(names, job);
    row->state = JOB_ORDERED;
    row->is_used = true;
    row->order = 0;
    gy_names_due(names, job, names->now_ns + names->options.start_ns);
    return true;
}
