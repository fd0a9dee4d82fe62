/* Jobs: accepted once they are stored, ended once that is stored. */
#include "control/names/lists.h"
#include "control/names/records.h"

#include <stdio.h>
#include <string.h>

uint32_t gy_names_job_new(gy_names *names, gy_key key)
{
    uint32_t job = names->free_job;
    if (job == GY_NONE) {
        if (GY_GROW("names.jobs", names->jobs, names->job_capacity, names->job_count + 1) < 0) {
            gy_names_no_memory(names, GY_NOMEM);
            return GY_NONE;
        }
        job = (uint32_t)names->job_count++;
    } else {
        names->free_job = names->jobs[job].host;
    }
    names->jobs[job] = (job_row){.key = key,
                                 .host = GY_NONE,
                                 .last_host = GY_NONE,
                                 .leases = GY_LIST_EMPTY,
                                 .facts = {.weight = 1}};
    names->open_jobs++;
    if (gy_index_put(&names->by_job, key, job) < 0) {
        gy_names_no_memory(names, GY_NOMEM);
        return GY_NONE;
    }
    return job;
}

void gy_names_job_drop(gy_names *names, uint32_t job)
{
    job_row *row = &names->jobs[job];
    names->open_jobs -= gy_names_is_open(row);
    gy_index_remove(&names->by_job, row->key);
    gy_control_heap_remove(&names->watched, job);
    row->state = JOB_FREE;
    row->key = (gy_key){0};
    row->facts = (job_facts){.weight = 1};
    row->host = names->free_job;
    names->free_job = job;
}

void gy_names_due(gy_names *names, uint32_t job, int64_t at_ns)
{
    names->jobs[job].due_ns = at_ns;
    gy_names_no_memory(names, gy_control_heap_put(&names->watched, job));
}

/* A job with this key exists: the same one, or another one. */
static void submit_again(gy_names *names, uint32_t job, const gy_names_event *event)
{
    const job_row *row = &names->jobs[job];
    const job_facts *facts = row->state == JOB_NEW ? &row->next : &row->facts;
    if (!gy_key_is_same(facts->spec, event->submit->spec)) {
        gy_names_answer(names, event->asker, GY_EXISTS, "another job has this key");
    } else if (row->state == JOB_NEW) {
        gy_names_answer(names, event->asker, GY_AGAIN, "it is just being stored");
    } else {
        gy_names_answer(names, event->asker, GY_OK, "accepted before");
    }
}

void gy_names_submit(gy_names *names, const gy_names_event *event)
{
    const gy_submit *asked = event->submit;
    uint32_t job = gy_index_find(&names->by_job, event->key);
    job_facts facts = {.spec = asked->spec,
                       .platform = asked->platform,
                       .weight = asked->weight == 0 ? 100 : asked->weight,
                       .slots_max = asked->slots_max == 0 ? UINT32_MAX : asked->slots_max};
    if (job != GY_NONE) {
        submit_again(names, job, event);
        return;
    }
    if (event->key.high == NAMES_OWN_KEY || facts.weight > 1000 ||
        !gy_step_take_text(facts.name, sizeof(facts.name), asked->name) ||
        !gy_step_take_text(facts.label, sizeof(facts.label), asked->label)) {
        gy_names_answer(names, event->asker, GY_ARG,
                        "weight 1 to 1000, name and label of at most 63 bytes");
        return;
    }
    if (names->open_jobs >= names->options.job_max) {
        gy_names_answer(names, event->asker, GY_LIMIT,
                        gy_names_text(names, "%u jobs are open already", names->open_jobs));
        return;
    }
    job = gy_names_job_new(names, event->key);
    if (job == GY_NONE) {
        return;
    }
    job_row *row = &names->jobs[job];
    row->state = JOB_NEW;
    row->facts = facts;
    /* If there is a daemon for the first manager, its epoch is stored with the job. Else the
     * job waits with epoch 0, which records that no manager has started. */
    facts.epoch = facts.attempts = gy_names_may_start(names, job);
    facts.is_ahead = facts.epoch > 0;
    row->next = facts;
    row->asker = event->asker;
    if (GY_PLANTED_HERE(ACCEPTED_UNSTORED)) {
        gy_names_answer(names, event->asker, GY_OK, "accepted");
    }
    gy_names_store_job(names, job, PENDING_SUBMIT);
}

void gy_names_kill(gy_names *names, const gy_names_event *event)
{
    uint32_t job = gy_index_find(&names->by_job, event->key);
    job_row *row = job == GY_NONE ? NULL : &names->jobs[job];
    if (row == NULL || row->state == JOB_NEW) {
        gy_names_answer(names, event->asker, GY_NOTFOUND, "there is no such job");
    } else if (row->state == JOB_ENDED || row->facts.is_killed) {
        gy_names_answer(names, event->asker, GY_OK,
                        row->state == JOB_ENDED ? "it has ended" : "it was reported before");
    } else if (row->pending != PENDING_NONE) {
        gy_names_answer(names, event->asker, GY_AGAIN, "it is just being changed");
    } else {
        row->next = row->facts;
        row->next.is_killed = true;
        row->asker = event->asker;
        gy_names_store_job(names, job, PENDING_KILL);
    }
}

/* ---- Its end ---- */

void gy_names_killed(gy_names *names, uint32_t job)
{
    const bool is_forgotten = names->jobs[job].facts.is_forgotten;
    gy_names_finish(names, job, is_forgotten ? GY_STATE : GY_CANCELLED,
                    is_forgotten ? "killed while its retained files were being removed"
                                 : "killed by its user");
}

static void report_over(gy_names *names, gy_key key, uint32_t epoch, gy_status status)
{
    uint32_t job = gy_index_find(&names->by_job, key);
    gy_names_effect *over = gy_names_emit(names, GY_NAMES_OVER);
    over->key = key;
    over->epoch = epoch;
    over->status = status;
    over->address = job == GY_NONE || epoch != names->jobs[job].facts.epoch
                        ? ""
                        : gy_names_text(names, "%s", names->jobs[job].address);
}

void gy_names_finish(gy_names *names, uint32_t job, gy_status status, const char *reason)
{
    job_row *row = &names->jobs[job];
    row->next = row->facts;
    row->next.is_ended = true;
    row->next.status = status;
    row->next.is_ahead = row->facts.is_ahead && !row->is_free;
    if (row->facts.epoch == 1 && !row->is_used && !row->next.is_ahead) {
        row->next.epoch = 0; /* its first manager was never ordered */
    }
    if (!names_is_gone(&row->next)) { /* else the epoch stays that of its end */
        snprintf(row->next.reason, sizeof(row->next.reason), "%s",
                 reason != NULL ? reason : "");
    }
    gy_names_store_job(names, job, PENDING_END);
}

/* That host lacks what the job's program needs. Is there another one for its manager? */
static bool goes_elsewhere(gy_names *names, uint32_t job, const gy_names_event *event)
{
    const job_row *row = &names->jobs[job];
    bool is_elsewhere = false;
    if (event->status != GY_UNSUPPORTED || row->host == GY_NONE || row->facts.is_killed ||
        row->facts.attempts >= names->options.attempts_max) {
        return false;
    }
    for (uint32_t i = 0; i < names->daemon_count && !is_elsewhere; i++) {
        is_elsewhere = i != row->host && gy_names_fits(names, i, job);
    }
    if (is_elsewhere) {
        gy_names_avoid(names, job, row->host);
        gy_names_manager_lost(names, job,
                              event->reason != NULL ? event->reason : "cannot be loaded");
        report_over(names, event->key, event->epoch, GY_STATE);
    }
    return is_elsewhere;
}

void gy_names_job_end(gy_names *names, const gy_names_event *event)
{
    uint32_t job = gy_index_find(&names->by_job, event->key);
    job_row *row = job == GY_NONE ? NULL : &names->jobs[job];
    if (row == NULL) {
        report_over(names, event->key, event->epoch, GY_NOTFOUND);
    } else if (row->state == JOB_ENDED) {
        report_over(names, event->key, event->epoch, GY_OK);
    } else if (row->state == JOB_NEW || !gy_names_take_epoch(names, job, event->epoch)) {
        report_over(names, event->key, event->epoch, GY_STATE);
    } else if (row->pending == PENDING_NONE && !goes_elsewhere(names, job, event)) {
        const bool is_done = event->status == (row->facts.is_forgotten ? GY_CANCELLED : GY_OK);
        if (row->facts.is_killed && !is_done) {
            gy_names_killed(names, job);
        } else {
            gy_names_finish(names, job, event->status, event->reason);
        }
    } /* else the manager asks again */
}

/* Forget the job that ended first when there are too many. */
static void forget_oldest(gy_names *names)
{
    uint32_t oldest = names->ended.first;
    while (oldest != GY_NONE && names->jobs[oldest].pending != PENDING_NONE) {
        oldest = names->jobs[oldest].in_ended.next; /* that job is about to be resumed */
    }
    if (names->ended_jobs > names->options.ended_max && oldest != GY_NONE) {
        gy_names_forget_job(names, oldest);
        ended_jobs_remove(&names->ended, names->jobs, oldest);
        names->ended_jobs--;
        gy_names_job_drop(names, oldest);
    }
}

void gy_names_ended(gy_names *names, uint32_t job)
{
    job_row *row = &names->jobs[job];
    report_over(names, row->key, row->facts.epoch, GY_OK);
    gy_names_effect *ended = gy_names_emit(names, GY_NAMES_ENDED);
    ended->key = row->key;
    ended->status = row->facts.status;
    ended->reason = names_is_gone(&row->facts) ? GY_NAMES_GONE_TEXT
                                               : gy_names_text(names, "%s", row->facts.reason);
    gy_names_end_leases(names, job, true);
    if (names_is_gone(&row->facts)) {
        gy_names_delete_retained(names, job);
    }
    row = &names->jobs[job];
    row->state = JOB_ENDED;
    row->wanted = row->gang_count = 0;
    row->address[0] = row->waits[0] = '\0';
    gy_names_unreserve(names, job);
    gy_names_appetite(names, job);
    gy_names_set_host(names, job, GY_NONE);
    gy_control_heap_remove(&names->watched, job);
    names->open_jobs--;
    names->ended_jobs++;
    ended_jobs_add(&names->ended, names->jobs, job);
    forget_oldest(names);
}
