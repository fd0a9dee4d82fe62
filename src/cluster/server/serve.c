/* Requests and reports of others: checked, then passed to the machine as events. */
#include "cluster/server/server_priv.h"

#include <string.h>

#define SERVED(name, Type)                                                                     \
    static gy_status name(void *arg, const gy_rpc_asked *asked,                                \
                          const ProtobufCMessage *request)                                     \
    {                                                                                          \
        return serve_##name(arg, asked, (const Gy__Cluster__##Type *)request);                 \
    }

static gy_status done(gy_server *server, const gy_rpc_asked *asked)
{
    Gy__Cluster__Done message = GY__CLUSTER__DONE__INIT;
    return gy_rpc_answer(server->rpc, asked, &message.base);
}

/* GY_TIMEOUT: the caller may repeat the call. */
static gy_status check_ready(const gy_server *server)
{
    return server->names != NULL
               ? GY_OK
               : gy_fail(GY_TIMEOUT, "the name server is not ready: try again");
}

static gy_status check_key(const Gy__Cluster__Key *key)
{
    return gy_net_check_job(key, 1);
}

/* Pass on an event that the machine answers by its asker. */
static gy_status ask_machine(gy_server *server, const gy_rpc_asked *asked,
                             gy_names_event *event)
{
    GY_TRY(check_ready(server));
    GY_TRY(gy_server_hold(server, &(server_held){.kind = HELD_ASK, .asked = *asked},
                          &event->asker));
    gy_server_step(server, event);
    return GY_OK;
}

/* The caller no longer waits. */
static void cancel(void *arg, const gy_rpc_asked *asked)
{
    gy_server *server = arg;
    for (size_t i = 0; i < server->held_count; i++) {
        const gy_rpc_asked *held = &server->held[i].asked;
        if (held->peer == asked->peer && held->number == asked->number &&
            held->life == asked->life) {
            gy_server_unhold(server, i);
            return;
        }
    }
}

/* ---- Daemons ---- */

static gy_status serve_state(gy_server *server, const gy_rpc_asked *asked,
                             const Gy__Cluster__DaemonState *message)
{
    gy_arena arena = {0};
    gy_daemon_state state;
    gy_status status = gy_net_read_state(message, &arena, &state);
    if (status == GY_OK) {
        status =
            gy_server_speakers_put(&server->daemons, gy_index_id(state.daemon), asked->peer, 0);
    }
    if (status == GY_OK) {
        gy_server_step(server, &(gy_names_event){.kind = GY_NAMES_DAEMON, .daemon = &state});
    }
    gy_arena_free(&arena);
    return status;
}
SERVED(state, DaemonState)

static gy_status serve_bye(gy_server *server, const gy_rpc_asked *asked,
                           const Gy__Cluster__DaemonBye *message)
{
    GY_TRY(check_ready(server));
    gy_server_step(server, &(gy_names_event){.kind = GY_NAMES_DAEMON_BYE,
                                             .id = message->daemon,
                                             .incarnation = message->incarnation,
                                             .life = message->life});
    return done(server, asked);
}
SERVED(bye, DaemonBye)

static gy_status serve_spec(gy_server *server, const gy_rpc_asked *asked,
                            const Gy__Cluster__AskSpec *message)
{
    gy_names_job job;
    GY_TRY(check_ready(server));
    if (!gy_names_find_job(server->names, gy_net_key(message->job), &job)) {
        return gy_fail(GY_NOTFOUND, "there is no such job");
    }
    Gy__Cluster__Key key = GY__CLUSTER__KEY__INIT;
    Gy__Cluster__Spec spec;
    gy__cluster__spec__init(&spec);
    key.high = job.spec.high;
    key.low = job.spec.low;
    spec.spec = &key;
    spec.platform = job.platform;
    spec.name = (char *)(uintptr_t)job.name;
    gy_arena arena = {0};
    void *packed = NULL;
    /* A daemon gets a small one without a transfer; it fetches one that is large or missing. */
    if (asked->role == GY_RPC_DAEMON &&
        gy_blobs_read(server->blobs, job.spec, GY_NET_SPEC_SMALL, &arena, &packed,
                      &spec.packed.len) == GY_OK) {
        spec.packed.data = packed;
    }
    gy_status status = gy_rpc_answer(server->rpc, asked, &spec.base);
    gy_arena_free(&arena);
    return status;
}
SERVED(spec, AskSpec)

static gy_status serve_job_end(gy_server *server, const gy_rpc_asked *asked,
                               const Gy__Cluster__JobEnd *message)
{
    char reason[GY_CONTROL_REASON_BYTES];
    GY_TRY(check_ready(server));
    GY_TRY(gy_net_check_job(message->job, message->epoch));
    gy_net_clean_text(message->reason, reason, sizeof(reason));
    gy_server_output_end(server, message);
    const server_held held = {.kind = HELD_END,
                              .asked = *asked,
                              .key = gy_net_key(message->job),
                              .epoch = message->epoch};
    GY_TRY(gy_server_hold(server, &held, NULL));
    /* A status unknown to this build still counts as a failure. */
    bool is_known = message->status <= 0 && message->status >= GY_STATE;
    gy_server_step(server,
                   &(gy_names_event){.kind = GY_NAMES_JOB_END,
                                     .key = held.key,
                                     .epoch = held.epoch,
                                     .status = is_known ? (gy_status)message->status : GY_STATE,
                                     .reason = reason});
    return GY_OK;
}
SERVED(job_end, JobEnd)

/* ---- Managers ---- */

static void take_progress(gy_server *server, gy_key job, const char *progress)
{
    server_speaker *at = gy_server_speakers_find(&server->managers, job);
    if (at == NULL) {
        return;
    }
    if (at->progress == NULL && progress[0] != '\0') {
        at->progress = gy_alloc("server", SERVER_PROGRESS_BYTES);
    }
    if (at->progress != NULL) {
        gy_net_clean_text(progress, at->progress, SERVER_PROGRESS_BYTES);
    }
}

/* Check that the caller's key is that of a manager of this job. */
static gy_status check_subject(const gy_rpc_asked *asked, const Gy__Cluster__Key *job)
{
    char wanted[GY_NET_KEY_TEXT];
    gy_net_key_text(gy_net_key(job), wanted);
    return strcmp(asked->subject, wanted) == 0
               ? GY_OK
               : gy_fail(GY_STATE, "a manager of job '%s' sent a message for job %s",
                         asked->subject, wanted);
}

/* Remember the manager of an unknown job during the step, which answers it. */
static gy_status serve_requests(gy_server *server, const gy_rpc_asked *asked,
                                const Gy__Cluster__Requests *message)
{
    gy_manager_requests requests;
    gy_names_job job;
    GY_TRY(gy_net_read_requests(message, &requests));
    GY_TRY(check_subject(asked, message->job));
    GY_TRY(check_ready(server));
    bool is_known = gy_names_find_job(server->names, requests.job, &job) && !job.is_ended &&
                    job.epoch == requests.epoch;
    if (is_known) {
        GY_TRY(gy_server_speakers_put(&server->managers, requests.job, asked->peer,
                                      requests.epoch));
        take_progress(server, requests.job, message->progress);
    }
    server->speaks = asked->peer;
    gy_server_step(server, &(gy_names_event){.kind = GY_NAMES_MANAGER, .manager = &requests});
    server->speaks = 0;
    return GY_OK;
}
SERVED(requests, Requests)

/* Only for display. The log tail may come after the job's end is stored. */
static gy_status serve_view(gy_server *server, const gy_rpc_asked *asked,
                            const Gy__Cluster__View *message)
{
    GY_TRY(gy_net_check_view(message));
    GY_TRY(check_subject(asked, message->job));
    GY_TRY(check_ready(server));
    gy_names_job job;
    server_output *row = NULL;
    const gy_key key = gy_net_key(message->job);
    const server_speaker *at = gy_server_speakers_find(&server->managers, key);
    if (!gy_names_find_job(server->names, key, &job) || job.epoch != message->epoch ||
        (at != NULL && at->peer != asked->peer)) {
        return GY_OK; /* an older manager, which is told so elsewhere */
    }
    GY_TRY(gy_server_outputs_get(&server->outputs, key, job.epoch, &row));
    row->is_ended = job.is_ended;
    return gy_server_outputs_view(&server->outputs, key, &message->base);
}
SERVED(view, View)

static gy_status serve_release(gy_server *server, const gy_rpc_asked *asked,
                               const Gy__Cluster__Release *message)
{
    char reason[GY_CONTROL_REASON_BYTES];
    GY_TRY(gy_net_check_job(message->job, message->epoch));
    GY_TRY(check_subject(asked, message->job));
    GY_TRY(check_ready(server));
    gy_net_clean_text(message->reason, reason, sizeof(reason));
    gy_server_step(server, &(gy_names_event){.kind = GY_NAMES_GIVE_BACK,
                                             .key = gy_net_key(message->job),
                                             .epoch = message->epoch,
                                             .lease = message->lease,
                                             .is_bad = message->is_bad,
                                             .reason = reason});
    return done(server, asked);
}
SERVED(release, Release)

/* ---- Submitters ---- */

static gy_status serve_ask_view(gy_server *server, const gy_rpc_asked *asked,
                                const Gy__Cluster__AskView *message)
{
    gy_names_job job;
    Gy__Cluster__View none = GY__CLUSTER__VIEW__INIT, *view = NULL;
    GY_TRY(check_ready(server));
    if (!gy_names_find_job(server->names, gy_net_key(message->job), &job)) {
        return gy_fail(GY_NOTFOUND, "there is no such job, or it ended long ago");
    }
    GY_TRY(gy_server_outputs_read_view(&server->outputs, job.key, &view));
    gy_status status =
        gy_rpc_answer(server->rpc, asked, view != NULL ? &view->base : &none.base);
    gy__cluster__view__free_unpacked(view, NULL);
    return status;
}
SERVED(ask_view, AskView)

static gy_status serve_ask_blobs(gy_server *server, const gy_rpc_asked *asked,
                                 const Gy__Cluster__AskBlobs *message)
{
    Gy__Cluster__Blobs answer = GY__CLUSTER__BLOBS__INIT;
    if (message->n_content > GY_NET_FILES_MAX + 1) {
        return gy_fail(GY_ARG, "%zu files are requested: at most %d", message->n_content,
                       GY_NET_FILES_MAX + 1);
    }
    Gy__Cluster__Key *missing[GY_NET_FILES_MAX + 1];
    answer.missing = missing;
    for (size_t i = 0; i < message->n_content; i++) {
        if (!gy_blobs_touch(server->blobs, gy_net_key(message->content[i]), NULL)) {
            missing[answer.n_missing++] = message->content[i];
        }
    }
    return gy_rpc_answer(server->rpc, asked, &answer.base);
}
SERVED(ask_blobs, AskBlobs)

static gy_status serve_put_blob(gy_server *server, const gy_rpc_asked *asked,
                                const Gy__Cluster__PutBlob *message)
{
    GY_TRY(check_key(message->content));
    GY_TRY(gy_blobs_put(server->blobs, &(gy_blob_piece){.from = asked->peer,
                                                        .content = gy_net_key(message->content),
                                                        .offset = message->offset,
                                                        .size_bytes = message->size_bytes,
                                                        .data = message->data.data,
                                                        .data_bytes = message->data.len}));
    return done(server, asked);
}
SERVED(put_blob, PutBlob)

static gy_status serve_submit(gy_server *server, const gy_rpc_asked *asked,
                              const Gy__Cluster__Submit *message)
{
    GY_TRY(check_ready(server));
    GY_TRY(check_key(message->job));
    GY_TRY(gy_net_check_text(message->name, GY_CONTROL_TEXT_BYTES, "a job's name"));
    GY_TRY(gy_net_check_text(message->label, GY_CONTROL_TEXT_BYTES, "a label"));
    const gy_submit submit = {.spec = gy_net_key(message->spec),
                              .platform = message->platform,
                              .weight = message->weight,
                              .slots_max = message->slots_max,
                              .name = message->name,
                              .label = message->label};
    GY_TRY(gy_server_check_spec(server, submit.spec));
    gy_names_event event = {
        .kind = GY_NAMES_SUBMIT, .key = gy_net_key(message->job), .submit = &submit};
    return ask_machine(server, asked, &event);
}
SERVED(submit, Submit)

static gy_status serve_kill(gy_server *server, const gy_rpc_asked *asked,
                            const Gy__Cluster__Kill *message)
{
    gy_names_event event = {.kind = GY_NAMES_KILL, .key = gy_net_key(message->job)};
    GY_TRY(check_key(message->job));
    return ask_machine(server, asked, &event);
}
SERVED(kill, Kill)

static gy_status serve_resume(gy_server *server, const gy_rpc_asked *asked,
                              const Gy__Cluster__Resume *message)
{
    gy_names_event event = {.kind = GY_NAMES_RESUME,
                            .key = gy_net_key(message->job),
                            .epoch = message->epoch,
                            .is_on = message->is_forgotten};
    gy_names_job job;
    GY_TRY(check_ready(server));
    GY_TRY(check_key(message->job));
    if (gy_names_find_job(server->names, event.key, &job) && job.is_ended) {
        gy_status status = gy_server_check_spec(server, job.spec);
        if (status == GY_NOTFOUND) {
            return gy_fail(GY_STATE, "its description is not stored here any more: %s",
                           message->is_forgotten ? "remove by hand what it has left"
                                                 : "submit it again");
        }
        GY_TRY(status);
    }
    return ask_machine(server, asked, &event);
}
SERVED(resume, Resume)

static gy_status serve_drain(gy_server *server, const gy_rpc_asked *asked,
                             const Gy__Cluster__Drain *message)
{
    gy_names_event event = {
        .kind = GY_NAMES_DRAIN, .id = message->daemon, .is_on = message->is_on};
    return ask_machine(server, asked, &event);
}
SERVED(drain, Drain)

static gy_status serve_wait_end(gy_server *server, const gy_rpc_asked *asked,
                                const Gy__Cluster__WaitEnd *message)
{
    gy_names_job job;
    GY_TRY(check_ready(server));
    GY_TRY(check_key(message->job));
    if (!gy_names_find_job(server->names, gy_net_key(message->job), &job)) {
        return gy_fail(GY_NOTFOUND, "there is no such job, or it ended long ago");
    }
    if (!job.is_ended) {
        return gy_server_hold(
            server, &(server_held){.kind = HELD_WAIT, .asked = *asked, .key = job.key}, NULL);
    }
    Gy__Cluster__Ended ended;
    gy__cluster__ended__init(&ended);
    ended.status = job.is_gone ? GY_CANCELLED : job.status;
    ended.reason = (char *)(uintptr_t)(job.is_gone ? GY_NAMES_GONE_TEXT : job.reason);
    return gy_rpc_answer(server->rpc, asked, &ended.base);
}
SERVED(wait_end, WaitEnd)

static gy_status list(void *arg, const gy_rpc_asked *asked, const ProtobufCMessage *request)
{
    (void)request; /* the request is for all */
    GY_TRY(check_ready(arg));
    return gy_server_list(arg, asked);
}

void gy_server_methods(gy_rpc_method methods[SERVER_METHODS])
{
    static const struct {
        gy_net_type type;
        gy_status (*serve)(void *arg, const gy_rpc_asked *asked,
                           const ProtobufCMessage *request);
    } served[] = {
        {GY_NET_DAEMON_STATE, state},
        {GY_NET_DAEMON_BYE, bye},
        {GY_NET_ASK_SPEC, spec},
        {GY_NET_JOB_END, job_end},
        {GY_NET_REQUESTS, requests},
        {GY_NET_RELEASE, release},
        {GY_NET_ASK_BLOBS, ask_blobs},
        {GY_NET_PUT_BLOB, put_blob},
        {GY_NET_SUBMIT, submit},
        {GY_NET_KILL, kill},
        {GY_NET_RESUME, resume},
        {GY_NET_DRAIN, drain},
        {GY_NET_WAIT_END, wait_end},
        {GY_NET_LIST, list},
        {GY_NET_VIEW, view},
        {GY_NET_ASK_VIEW, ask_view},
        {GY_NET_OUTPUT, gy_server_output},
        {GY_NET_ASK_OUTPUT, gy_server_ask_output},
    };
    static const gy_net_type told[] = {GY_NET_ORDER, GY_NET_ALLOCATIONS, GY_NET_OVER};
    static_assert(GY_COUNT(served) + GY_COUNT(told) == SERVER_METHODS, "all of them");
    for (size_t i = 0; i < GY_COUNT(served); i++) {
        methods[i] = gy_net_method(served[i].type);
        methods[i].serve = served[i].serve;
        methods[i].cancel = methods[i].answer != NULL ? cancel : NULL;
    }
    for (size_t i = 0; i < GY_COUNT(told); i++) {
        methods[GY_COUNT(served) + i] = gy_net_method(told[i]);
    }
}
