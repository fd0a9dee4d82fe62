/* Requests of managers: checked, then passed to the machine as events. */
#include "cluster/host/host_priv.h"

#include <stdio.h>
#include <string.h>

/* Processes of the program's previous job are still ending: tell.c answers later. */
static gy_status attach_later(gy_host *host, const gy_rpc_asked *asked, gy_key key)
{
    host_job *job = gy_host_job(host, key);
    if (job == NULL) {
        /* No reason for the manager to end. */
        return gy_fail(GY_AGAIN, "the daemon is shutting down");
    }
    job->attaching = *asked;
    job->attaching.subject = "";
    return GY_OK;
}

/* Step with the event of `asked`: the machine may have refused it; otherwise it is done. */
static gy_status step(gy_host *host, const gy_rpc_asked *asked, gy_daemon_event *event)
{
    static const Gy__Cluster__Done done = GY__CLUSTER__DONE__INIT;
    host->asked = asked;
    host->is_answered = host->is_refused = false;
    gy_host_step(host, event);
    host->asked = NULL;
    if (host->is_answered || asked->number == 0) {
        return GY_OK;
    }
    if (event->kind == GY_DAEMON_ATTACH) {
        return attach_later(host, asked, event->job);
    }
    return gy_rpc_answer(host->rpc, asked, &done.base);
}

/* A manager's key proves the job of its holder; a role's key is valid for any job. */
static gy_status check_subject(const gy_rpc_asked *asked, const Gy__Cluster__Key *key)
{
    char name[HOST_NAME];
    gy_key job = gy_net_key(key);
    snprintf(name, sizeof(name), "%016llx%016llx", (unsigned long long)job.high,
             (unsigned long long)job.low);
    if (asked->subject[0] != '\0' && strcmp(asked->subject, name) != 0) {
        return gy_fail(GY_STATE, "the manager of job %s sent a message for job %s",
                       asked->subject, name);
    }
    return GY_OK;
}

static gy_status attach(void *arg, const gy_rpc_asked *asked, const ProtobufCMessage *request)
{
    gy_host *host = arg;
    const Gy__Cluster__Attach *asks = (const Gy__Cluster__Attach *)request;
    GY_TRY(gy_net_check_job(asks->job, asks->epoch));
    GY_TRY(check_subject(asked, asks->job));
    host_job *job = gy_host_job_new(host, gy_net_key(asks->job));
    if (job == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_host_job_folder(host, job));
    job->attach_ns = gy_now_ns(host->env);
    if (job->attaching.number != 0) {
        gy_rpc_refuse(host->rpc, &job->attaching, GY_TIMEOUT, "another manager is attaching");
        job->attaching = (gy_rpc_asked){.peer = 0};
    }
    return step(
        host, asked,
        &(gy_daemon_event){.kind = GY_DAEMON_ATTACH, .job = job->key, .epoch = asks->epoch});
}

static gy_status beat(void *arg, const gy_rpc_asked *asked, const ProtobufCMessage *request)
{
    const Gy__Cluster__Beat *asks = (const Gy__Cluster__Beat *)request;
    GY_TRY(gy_net_check_job(asks->job, asks->epoch));
    GY_TRY(check_subject(asked, asks->job));
    return step(arg, asked,
                &(gy_daemon_event){.kind = GY_DAEMON_BEAT,
                                   .job = gy_net_key(asks->job),
                                   .epoch = asks->epoch});
}

/* The job of a request whose sender is its manager; a manager may only act for its own job. */
static gy_status find_job(gy_host *host, const gy_rpc_asked *asked, const Gy__Cluster__Key *key,
                          uint32_t epoch, host_job **job)
{
    GY_TRY(gy_net_check_job(key, epoch));
    GY_TRY(check_subject(asked, key));
    *job = gy_host_job(host, gy_net_key(key));
    if (*job == NULL || (*job)->peer == 0 || (*job)->peer_epoch < epoch) {
        return gy_fail(GY_TIMEOUT, "the manager is not attached");
    }
    if ((*job)->peer_epoch > epoch) {
        return gy_fail(GY_STATE, "the manager's epoch has ended: the daemon has epoch %u",
                       (*job)->peer_epoch);
    }
    if ((*job)->peer != asked->peer) {
        return gy_fail(GY_STATE, "another manager of this job has attached");
    }
    return GY_OK;
}

static gy_status open_executor(void *arg, const gy_rpc_asked *asked,
                               const ProtobufCMessage *request)
{
    gy_host *host = arg;
    const Gy__Cluster__Open *asks = (const Gy__Cluster__Open *)request;
    host_job *job = NULL;
    uint32_t threads = GY_MAX(asks->threads, 1u);
    GY_TRY(find_job(host, asked, asks->job, asks->epoch, &job));
    if (threads > HOST_THREADS_MAX) {
        return gy_fail(GY_ARG, "%u threads of a process: at most %d", threads,
                       HOST_THREADS_MAX);
    }
    if (job->supervisor != NULL && !job->is_fork_server_ending && job->threads != threads) {
        return gy_fail(GY_ARG, "processes of %u threads beside some of %u", threads,
                       job->threads);
    }
    if (job->supervisor == NULL || job->is_fork_server_ending) {
        job->threads = threads;
        job->memory_bytes = gy_host_memory(host, asks->memory_bytes);
    }
    host_executor *executor =
        gy_host_executor_new(host, job, asks->lease, asks->generation, asks->epoch);
    if (executor == NULL) {
        return GY_NOMEM;
    }
    gy_status status = step(host, asked,
                            &(gy_daemon_event){.kind = GY_DAEMON_OPEN,
                                               .job = job->key,
                                               .epoch = asks->epoch,
                                               .lease = asks->lease,
                                               .generation = asks->generation,
                                               .bytes = asks->credit_bytes});
    if (host->is_refused && !executor->has_process) {
        gy_host_executor_free(host, executor);
    }
    return status;
}

static gy_status close_executor(void *arg, const gy_rpc_asked *asked,
                                const ProtobufCMessage *request)
{
    const Gy__Cluster__Close *asks = (const Gy__Cluster__Close *)request;
    host_job *job = NULL;
    GY_TRY(find_job(arg, asked, asks->job, asks->epoch, &job));
    return step(arg, asked,
                &(gy_daemon_event){.kind = GY_DAEMON_CLOSE,
                                   .job = job->key,
                                   .epoch = asks->epoch,
                                   .lease = asks->lease,
                                   .generation = asks->generation});
}

static gy_status credit(void *arg, const gy_rpc_asked *asked, const ProtobufCMessage *request)
{
    const Gy__Cluster__Credit *asks = (const Gy__Cluster__Credit *)request;
    host_job *job = NULL;
    GY_TRY(find_job(arg, asked, asks->job, asks->epoch, &job));
    return step(arg, asked,
                &(gy_daemon_event){.kind = GY_DAEMON_CREDIT,
                                   .job = job->key,
                                   .epoch = asks->epoch,
                                   .lease = asks->lease,
                                   .generation = asks->generation,
                                   .bytes = asks->bytes});
}

static gy_status relay(void *arg, const gy_rpc_asked *asked, const ProtobufCMessage *request)
{
    gy_host *host = arg;
    const Gy__Cluster__Relay *asks = (const Gy__Cluster__Relay *)request;
    host_job *job = NULL;
    GY_TRY(find_job(host, asked, asks->job, asks->epoch, &job));
    gy_status status = step(host, asked,
                            &(gy_daemon_event){.kind = GY_DAEMON_DOWN,
                                               .job = job->key,
                                               .epoch = asks->epoch,
                                               .lease = asks->lease,
                                               .generation = asks->generation,
                                               .bytes = asks->data.len});
    host_executor *executor = gy_host_executor(job, asks->lease, asks->generation);
    if (status == GY_OK && executor != NULL && !host->is_refused) {
        gy_status taken = gy_host_executor_take(executor, asks->data.data, asks->data.len);
        if (taken < 0) {
            gy_host_fail(host, taken);
            return GY_OK; /* it is answered already */
        }
        gy_host_executor_pump(host, executor);
    }
    return status;
}

enum { FETCH_MAX = 1024 }; /* sections in one message */

static gy_status fetch(void *arg, const gy_rpc_asked *asked, const ProtobufCMessage *request)
{
    static const Gy__Cluster__Done done = GY__CLUSTER__DONE__INIT;
    gy_host *host = arg;
    const Gy__Cluster__Fetch *asks = (const Gy__Cluster__Fetch *)request;
    host_job *job = NULL;
    GY_TRY(find_job(host, asked, asks->job, asks->epoch, &job));
    if (asks->n_sections == 0 || asks->n_sections > FETCH_MAX) {
        return gy_fail(GY_FORMAT, "%zu sections to be fetched: 1 to %d may be",
                       asks->n_sections, FETCH_MAX);
    }
    for (size_t i = 0; i < asks->n_sections; i++) {
        GY_TRY(
            gy_net_check_text(asks->sections[i]->address, GY_CONTROL_TEXT_BYTES, "an address"));
        GY_TRY(gy_host_want(job, asks->sections[i]));
    }
    host->is_answered = host->is_refused = false;
    for (size_t i = 0; i < asks->n_sections && !host->is_refused; i++) {
        const Gy__Cluster__FetchOne *one = asks->sections[i];
        const gy_wanted_section section = {.content = gy_net_key(one->content),
                                           .peer = one->peer,
                                           .incarnation = one->incarnation,
                                           .address = one->address,
                                           .size_bytes = one->size_bytes};
        gy_daemon_event event = {.kind = GY_DAEMON_FETCH,
                                 .job = job->key,
                                 .epoch = asks->epoch,
                                 .number = one->number,
                                 .is_more = i + 1 < asks->n_sections,
                                 .section = &section};
        /* A refusal applies to all of them, since they come from one manager. */
        host->asked = asked;
        gy_host_step(host, &event);
        host->asked = NULL;
    }
    return host->is_answered ? GY_OK : gy_rpc_answer(host->rpc, asked, &done.base);
}

static gy_status unfetch(void *arg, const gy_rpc_asked *asked, const ProtobufCMessage *request)
{
    const Gy__Cluster__Unfetch *asks = (const Gy__Cluster__Unfetch *)request;
    host_job *job = NULL;
    GY_TRY(find_job(arg, asked, asks->job, asks->epoch, &job));
    return step(arg, asked,
                &(gy_daemon_event){.kind = GY_DAEMON_UNFETCH,
                                   .job = job->key,
                                   .epoch = asks->epoch,
                                   .number = asks->number});
}

static gy_status discard(void *arg, const gy_rpc_asked *asked, const ProtobufCMessage *request)
{
    gy_host *host = arg;
    const Gy__Cluster__Discard *asks = (const Gy__Cluster__Discard *)request;
    host_job *job = NULL;
    GY_TRY(find_job(host, asked, asks->job, asks->epoch, &job));
    for (size_t i = 0; i < asks->n_names; i++) {
        char path[HOST_PATH];
        GY_TRY(gy_host_check_name(asks->names[i]));
        if (gy_host_path(path, job->path, "data", asks->names[i])) {
            /* A missing file is as good as a deleted one. */
            (void)gy_env_disk(host->env)->unlink(host->env, path);
        }
    }
    return GY_OK;
}

static gy_status job_over(void *arg, const gy_rpc_asked *asked, const ProtobufCMessage *request)
{
    const Gy__Cluster__JobOver *asks = (const Gy__Cluster__JobOver *)request;
    host_job *job = NULL;
    GY_TRY(find_job(arg, asked, asks->job, asks->epoch, &job));
    return step(arg, asked,
                &(gy_daemon_event){.kind = GY_DAEMON_OVER,
                                   .job = job->key,
                                   .epoch = asks->epoch,
                                   .is_kept = asks->is_kept});
}

gy_status gy_host_methods(gy_host *host, size_t *count)
{
    static const struct {
        gy_net_type type;
        gy_status (*serve)(void *arg, const gy_rpc_asked *asked,
                           const ProtobufCMessage *request);
    } served[] = {
        {GY_NET_DAEMON_STATE, NULL},
        {GY_NET_DAEMON_BYE, NULL},
        {GY_NET_ASK_SPEC, NULL},
        {GY_NET_JOB_END, NULL},
        {GY_NET_ORDER, gy_host_order},
        {GY_NET_ATTACH, attach},
        {GY_NET_BEAT, beat},
        {GY_NET_OPEN, open_executor},
        {GY_NET_CLOSE, close_executor},
        {GY_NET_CREDIT, credit},
        {GY_NET_RELAY, relay},
        {GY_NET_FETCH, fetch},
        {GY_NET_UNFETCH, unfetch},
        {GY_NET_DISCARD, discard},
        {GY_NET_JOB_OVER, job_over},
        {GY_NET_LEASE_GONE, NULL},
        {GY_NET_EXECUTOR_GONE, NULL},
        {GY_NET_FETCHED, NULL},
        {GY_NET_OUTPUT, NULL},
    };
    host->methods = gy_alloc_zero("host.methods", GY_COUNT(served), sizeof(gy_rpc_method));
    if (host->methods == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < GY_COUNT(served); i++) {
        host->methods[i] = gy_net_method(served[i].type);
        host->methods[i].serve = served[i].serve;
        if (served[i].serve == NULL) {
            host->methods[i].roles = 0;
        } else if (served[i].type != GY_NET_ORDER) {
            host->methods[i].roles = GY_RPC_MAY(GY_RPC_MANAGER); /* no other daemon */
        }
    }
    *count = GY_COUNT(served);
    return GY_OK;
}
