/* Jobs that ended with a failure: their users resume them, or have the retained data removed.
 * Both start another epoch; in the second case its manager runs no tasks
 * (flow/output/retained.c). */
#include "control/names/lists.h"

#include <string.h>

/* A repeated request, whose answer was lost. */
static void ask_again(gy_names *names, const job_row *row, const gy_names_event *event)
{
    const bool is_same = row->facts.is_resumed && row->facts.epoch >= event->epoch &&
                         row->facts.is_forgotten == event->is_on;
    const char *why = row->facts.is_forgotten ? "its retained files are being removed"
                      : event->is_on          ? "it has not ended: kill it first"
                                              : "it has not ended: the cluster continues it";
    gy_names_answer(names, event->asker, is_same ? GY_OK : GY_STATE,
                    is_same ? "it is running already" : why);
}

/* Why the job cannot be resumed or forgotten; NULL: it can. */
static const char *why_nothing_is_left(const job_facts *facts, bool is_on)
{
    if (facts->status == GY_OK) {
        return is_on ? "it finished successfully: nothing is retained"
                     : "it finished successfully: nothing is left to resume";
    }
    if (facts->epoch == 0) {
        return is_on ? "no manager of it had started: nothing is retained"
                     : "no manager of it had started: nothing is left to resume";
    }
    return facts->is_forgotten && !is_on
               ? "its user had it forgotten: nothing is left to resume"
               : NULL;
}

void gy_names_resume(gy_names *names, const gy_names_event *event)
{
    uint32_t job = gy_index_find(&names->by_job, event->key);
    job_row *row = job == GY_NONE ? NULL : &names->jobs[job];
    const char *why = row == NULL ? NULL : why_nothing_is_left(&row->facts, event->is_on);
    if (row == NULL || row->state == JOB_NEW) {
        gy_names_answer(names, event->asker, GY_NOTFOUND, "there is no such job");
    } else if (row->state != JOB_ENDED) {
        ask_again(names, row, event);
    } else if (event->is_on && names_is_gone(&row->facts)) {
        gy_names_answer(names, event->asker, GY_OK, "nothing of it is retained any more");
    } else if (why != NULL) {
        gy_names_answer(names, event->asker, GY_STATE, why);
    } else if (row->pending != PENDING_NONE) {
        gy_names_answer(names, event->asker, GY_AGAIN, "it is just being changed");
    } else if (row->facts.epoch != event->epoch) {
        gy_names_answer(names, event->asker, GY_STATE, "it continued and ended meanwhile");
    } else if (names->open_jobs >= names->options.job_max) {
        gy_names_answer(names, event->asker, GY_LIMIT,
                        gy_names_text(names, "%u jobs are open already", names->open_jobs));
    } else {
        row->next = row->facts;
        row->next.is_ended = row->next.is_killed = false;
        row->next.is_resumed = true;
        row->next.is_forgotten = event->is_on;
        row->next.is_ahead = true;
        row->next.epoch = gy_names_next_epoch(
            /* So that the same request, when delayed, does not apply to a later end. */
            names, job);
        row->next.attempts = 1;
        if (event->is_on) { /* the user can still read how it ended */
            row->next.before = row->facts.before < 0 ? row->facts.before : row->facts.status;
        } else {
            row->next.before = GY_OK;
            row->next.reason[0] = '\0';
        }
        row->next.status = GY_OK;
        row->asker = event->asker;
        gy_names_store_job(names, job, PENDING_RESUME);
    }
}

void gy_names_resumed(gy_names *names, uint32_t job)
{
    job_row *row = &names->jobs[job];
    GY_ASSERT(row->state == JOB_ENDED);
    ended_jobs_remove(&names->ended, names->jobs, job);
    names->ended_jobs--;
    names->open_jobs++;
    row->state = JOB_WAITING;
    row->is_used = false;
    row->is_free = true;
    row->last_ns = 0;
    memset(row->avoid, 0, sizeof(row->avoid)); /* the cause may have been repaired */
    gy_names_note_job(names, job,
                      row->facts.is_forgotten ? "is forgotten, as its user wants"
                                              : "resumed by its user");
    gy_names_due(names, job, names->now_ns);
}

/* Daemons that are down or do not receive this delete the files after their usual time. */
void gy_names_delete_retained(gy_names *names, uint32_t job)
{
    for (uint32_t i = 0; i < names->daemon_count; i++) {
        if (names->daemons[i].id != 0 && names->daemons[i].is_up) {
            gy_control_order *order = gy_names_order(names, i, GY_ORDER_FORGET, ++names->order);
            order->job = names->jobs[job].key;
            order->epoch = names->jobs[job].facts.epoch;
        }
    }
}
