/* Carries out the machine's effects. Their results are events of a later step. */
#include "cluster/host/host_priv.h"

#include <string.h>

static void sync_record(gy_host *host, const gy_daemon_effect *effect)
{
    gy_status status = gy_host_record(host, effect->job, effect->epoch, effect->started);
    if (status < 0) {
        gy_warn("cannot write the record of a job: %s", gy_error_text());
    }
    gy_host_later(host, &(gy_daemon_event){
                            .kind = GY_DAEMON_SYNCED, .job = effect->job, .status = status});
}

static void end_executor(gy_host *host, const gy_daemon_effect *effect)
{
    host_job *job = gy_host_job(host, effect->job);
    host_executor *executor =
        job != NULL ? gy_host_executor(job, effect->lease, effect->generation) : NULL;
    if (executor != NULL) {
        gy_host_executor_kill(executor);
    }
}

static void relay(gy_host *host, const gy_daemon_effect *effect)
{
    host_job *job = gy_host_job(host, effect->job);
    host_executor *executor =
        job != NULL ? gy_host_executor(job, effect->lease, effect->generation) : NULL;
    if (executor == NULL) {
        return;
    }
    if (effect->kind == GY_DAEMON_RELAY_UP) {
        executor->up_due += effect->bytes;
    } else {
        executor->down_due += effect->bytes;
    }
    gy_host_executor_pump(host, executor);
}

static void report_bye(gy_host *host)
{
    gy_host_ask(host, GY_NET_DAEMON_BYE, &(host_ask){.until_ns = host->last_ns});
}

void gy_host_do(gy_host *host, const gy_daemon_effect *effect)
{
    switch (effect->kind) {
    case GY_DAEMON_STATE:
        gy_host_send_state(host, &effect->state);
        return;
    case GY_DAEMON_BYE:
        report_bye(host);
        return;
    case GY_DAEMON_SYNC:
        sync_record(host, effect);
        return;
    case GY_DAEMON_MANAGER_START:
        gy_host_manager_start(host, effect);
        return;
    case GY_DAEMON_MANAGER_END:
        gy_host_manager_end(host, effect->job, effect->epoch);
        return;
    case GY_DAEMON_FORK_SERVER_START:
        gy_host_fork_server_start(host, effect);
        return;
    case GY_DAEMON_FORK_SERVER_END:
        gy_host_fork_server_end(host, effect->job);
        return;
    case GY_DAEMON_EXECUTOR_START:
        gy_host_executor_start(host, effect);
        return;
    case GY_DAEMON_EXECUTOR_END:
        end_executor(host, effect);
        return;
    case GY_DAEMON_RELAY_UP:
    case GY_DAEMON_RELAY_DOWN:
        relay(host, effect);
        return;
    case GY_DAEMON_FETCH_START:
        gy_host_fetch_start(host, effect);
        return;
    case GY_DAEMON_FETCH_STOP:
        gy_host_fetch_stop(host, effect->ticket);
        return;
    case GY_DAEMON_DISCARD:
    case GY_DAEMON_FORGET:
        gy_host_discard(host, effect->job, effect->kind == GY_DAEMON_FORGET);
        return;
    case GY_DAEMON_TELL_ATTACHED:
    case GY_DAEMON_TELL_REFUSED:
    case GY_DAEMON_TELL_LEASE_GONE:
    case GY_DAEMON_TELL_EXECUTOR_GONE:
    case GY_DAEMON_TELL_CREDIT:
    case GY_DAEMON_TELL_FETCHED:
        gy_host_send(host, effect);
        return;
    case GY_DAEMON_WAKE:
        host->wake_ns = GY_MIN(host->wake_ns, effect->at_ns);
        return;
    case GY_DAEMON_NOTE:
        gy_warn("%s", effect->reason);
        return;
    }
}
