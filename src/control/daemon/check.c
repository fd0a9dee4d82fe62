/*
 * What must hold of a job's row between two steps. The fields depend on three states:
 *
 *   hosted    hosted_epoch    epochs                        the manager
 *   NONE      of the last     started is its epoch          does not run here
 *   SYNCING   want_started    above started, being synced   is ordered, waits for its record
 *   UP        started         equal to epoch                runs here
 *   ENDING    started         epoch may be newer            was told to end
 *
 *   fork server      its epoch                              files
 *   NONE             of the last                            none, or of an ended one
 *   STARTING, UP     equal to epoch                         some
 *   ENDING           epoch may be newer                     some
 *
 *   is_syncing   sync_epoch, sync_started              want_epoch, want_started
 *   no           of the last sync                      equal to epoch, started
 *   yes          one of them above epoch, started      at least sync_epoch, sync_started
 */
#include "base/log.h"
#include "control/daemon/daemon_priv.h"

static const char *epochs_fault(const job_row *row)
{
    if (!row->is_syncing &&
        (row->want_epoch != row->epoch || row->want_started != row->started)) {
        return "an epoch is wanted that no sync is under way for";
    }
    if (row->want_epoch < row->epoch || row->want_started < row->started) {
        return "the wanted epoch is older than the synced one";
    }
    if (row->is_syncing &&
        (row->sync_epoch < row->epoch || row->sync_started < row->started ||
         (row->sync_epoch == row->epoch && row->sync_started == row->started))) {
        return "a sync is under way that raises no epoch";
    }
    if (row->is_syncing &&
        (row->sync_epoch > row->want_epoch || row->sync_started > row->want_started)) {
        return "an epoch is being synced that nobody wants";
    }
    return NULL;
}

static const char *hosted_fault(const job_row *row)
{
    switch (row->hosted) {
    case HOSTED_NONE:
        return NULL;
    case HOSTED_SYNCING:
        return row->is_syncing && row->hosted_epoch == row->want_started &&
                       row->want_started > row->started
                   ? NULL
                   : "an ordered manager waits for no sync";
    case HOSTED_UP:
        return row->hosted_epoch == row->started && row->started == row->epoch && row->has_files
                   ? NULL
                   : "a manager runs that is not of the newest epoch, or has no files";
    case HOSTED_ENDING:
        return row->hosted_epoch == row->started && row->hosted_epoch <= row->epoch
                   ? NULL
                   : "a manager ends that was not the last one started";
    }
    return "the state of the manager is none";
}

static const char *fork_server_fault(const job_row *row)
{
    switch (row->fork_server) {
    case FORK_SERVER_NONE:
        return NULL;
    case FORK_SERVER_STARTING:
    case FORK_SERVER_UP:
        return row->fork_server_epoch == row->epoch && row->has_files
                   ? NULL
                   : "a fork server runs that is not of the newest epoch, or has no files";
    case FORK_SERVER_ENDING:
        return row->fork_server_epoch <= row->epoch && row->has_files
                   ? NULL
                   : "a fork server ends that is of no known epoch, or has no files";
    }
    return "the state of the fork server is none";
}

const char *gy_daemon_job_fault(const gy_daemon *daemon, uint32_t job)
{
    const job_row *row = &daemon->jobs[job];
    uint32_t leases = 0;
    for (uint32_t i = 0; i < daemon->options.slots; i++) {
        leases += daemon->leases[i].id != 0 && daemon->leases[i].job == job;
    }
    if (row->key.high == 0 && row->key.low == 0) {
        return leases == 0 && row->epoch == 0 && row->hosted == HOSTED_NONE &&
                       row->fork_server == FORK_SERVER_NONE && !row->is_syncing
                   ? NULL
                   : "a free row is in use";
    }
    if (leases != row->leases) {
        return "the number of leases is wrong";
    }
    if (row->is_kept && !row->is_over) {
        return "files are retained of a job that has not ended";
    }
    const char *fault = epochs_fault(row);
    fault = fault != NULL ? fault : hosted_fault(row);
    return fault != NULL ? fault : fork_server_fault(row);
}

bool gy_daemon_jobs_hold(const gy_daemon *daemon, const gy_daemon_event *event)
{
    if (GY_IS_PLANTED_HERE || daemon->has_ended || daemon->status < 0) {
        return true; /* a planted bug is for the tests to find, not for this check */
    }
    const bool is_order = event->kind == GY_DAEMON_ORDER;
    const uint32_t named = gy_daemon_job(daemon, is_order ? event->order->job : event->job);
    const bool is_all = named == GY_NONE && event->kind != GY_DAEMON_FETCHED;
    for (uint32_t i = 0; i < daemon->job_count; i++) {
        const char *fault = is_all || i == named ? gy_daemon_job_fault(daemon, i) : NULL;
        if (fault != NULL) {
            gy_warn("job %016llx%016llx: %s", (unsigned long long)daemon->jobs[i].key.high,
                    (unsigned long long)daemon->jobs[i].key.low, fault);
            return false;
        }
    }
    return true;
}
