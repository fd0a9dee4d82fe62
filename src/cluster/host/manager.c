/* Managers that run here: each has a ticket, a key for its job only, a process, and a reported
 * end. */
#include "cluster/host/host_priv.h"
#include "worker/log.h"

#include "rpc/keyring.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Then its shim is killed, and the manager with it. */
static const int64_t end_within_ns = 6000000000;
static const double reap_seconds = 1;
static const int64_t output_every_ns = 100000000;
static const int64_t report_within_ns = 2000000000; /* after its end */
enum { OUTPUT_BEHIND = 1 << 20 };

/* Tell the machine that the manager waits for files: large programs take longer to fetch than a
 * manager may take to report. */
static void report_waits(gy_host *host, const host_job *job, bool is_waiting)
{
    gy_host_later(host, &(gy_daemon_event){.kind = is_waiting ? GY_DAEMON_MANAGER_WAITS
                                                              : GY_DAEMON_MANAGER_RUNS,
                                           .job = job->key,
                                           .epoch = job->manager.wanted});
}

static void report_down(gy_host *host, const host_job *job, uint32_t epoch, int signal)
{
    gy_host_later(host, &(gy_daemon_event){.kind = GY_DAEMON_MANAGER_DOWN,
                                           .job = job->key,
                                           .epoch = epoch,
                                           .signal = (uint32_t)signal});
}

/* ---- Start ---- */

/* Write ticket and key to a new folder. */
static gy_status make_ticket(gy_host *host, const host_job *job, uint32_t epoch,
                             char path[HOST_PATH])
{
    const gy_host_options *options = host->options;
    char folder[HOST_PATH];
    gy_ticket ticket = {.job = job->key,
                        .epoch = epoch,
                        .slots =
                            job->manager.slots_max > 0 ? job->manager.slots_max : host->slots,
                        .is_resumed = job->manager.is_resumed,
                        .is_forgotten = job->manager.is_forgotten};
    if (!gy_host_path(folder, job->path, "manager", NULL) ||
        !gy_host_path(path, job->path, "manager", "ticket") ||
        strlen(options->names) >= sizeof(ticket.names)) {
        return gy_fail(GY_ARG, "a path or a list of name servers is too long");
    }
    gy_host_move_to_trash(host, folder);
    int error = gy_disk_make_folders(path);
    if (error != 0) {
        return gy_fail(GY_IO, "cannot make %s: %s", folder, strerror(-error));
    }
    snprintf(ticket.names, sizeof(ticket.names), "%s", options->names);
    snprintf(ticket.folder, sizeof(ticket.folder), "%s", folder);
    snprintf(ticket.program, sizeof(ticket.program), "%s", job->program.path);
    /* Else it learns the address when it needs it. */
    if (strlen(host->address) < sizeof(ticket.daemon)) {
        memcpy(ticket.daemon, host->address, strlen(host->address) + 1);
    }
    if (options->key_file != NULL) {
        if (!gy_host_path(ticket.key_file, job->path, "manager", "key")) {
            return gy_fail(GY_ARG, "the path of a daemon's folder is too long");
        }
        GY_TRY(gy_keyring_scope(options->key_file, GY_RPC_MANAGER, job->name, ticket.key_file));
    }
    return gy_ticket_write(path, &ticket);
}

static void on_shim(gy_host *host, void *owner, uint32_t events);

/* The program sent the prewarm hint, so it is a manager: start its fork server while it reads
 * the journal. A program that is no manager sends nothing. */
static void on_request(gy_host *host, void *owner, uint32_t events)
{
    host_job *job = owner;
    gy_ticket_request request = {.threads = 0};
    (void)events;
    const gy_status status = gy_ticket_handle(job->manager.request.file, &request);
    if (status == GY_AGAIN) {
        return;
    }
    gy_host_unwatch(host, &job->manager.request); /* one hint, or none */
    if (status == GY_OK) {
        gy_host_fork_server_foresee(host, job, &request);
    }
}

static void listen_for_request(gy_host *host, host_job *job)
{
    char folder[HOST_PATH];
    int file = -1;
    gy_host_unwatch(host, &job->manager.request);
    job->manager.request.ready = on_request;
    job->manager.request.owner = job;
    if (!gy_host_path(folder, job->path, "manager", NULL) ||
        gy_ticket_listen(folder, &file) < 0 ||
        gy_host_watch(host, &job->manager.request, file, EPOLLIN) < 0) {
        gy_debug("cannot read the output of a manager: %s", gy_error_text());
        if (file >= 0) {
            close(file);
        }
    }
}

/* Output already in the log belongs to an earlier manager. */
static void begin_output(host_job *job, const char *log)
{
    host_manager *manager = &job->manager;
    struct stat about;
    gy_host_manager_free(job);
    manager->log = open(log, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    manager->base =
        manager->log >= 0 && fstat(manager->log, &about) == 0 ? (uint64_t)about.st_size : 0;
    manager->said = manager->saying = 0;
    manager->look_ns = 0;
    manager->end_ns = INT64_MAX;
}

/* Its end could not be observed: end the shim, and with it the manager, before reporting
 * anything. */
static void end_shim(gy_host *host, host_manager *manager)
{
    (void)kill(manager->shim, SIGKILL);
    (void)gy_worker_child_wait(host->env, manager->shim,
                               gy_env_deadline(host->env, reap_seconds));
    manager->shim = 0;
    gy_host_expect_orphans(host);
}

static gy_status start_process(gy_host *host, host_job *job, const char *ticket)
{
    const host_program *program = &job->program;
    const Gy__Cluster__JobSpec *spec = program->spec;
    char variable[HOST_PATH + 16], log[HOST_PATH], loader[GY_NET_PATH_BYTES];
    char **environment =
        gy_alloc("host.manager", (program->variable_count + 2) * sizeof(char *));
    char **argv = gy_alloc("host.manager", (spec->n_arguments + 1) * sizeof(char *));
    gy_status status = environment != NULL && argv != NULL ? GY_OK : GY_NOMEM;
    int socket = -1;
    snprintf(variable, sizeof(variable), "%s=%s", GY_TICKET_VARIABLE, ticket);
    if (status == GY_OK) {
        memcpy(environment, program->environment, program->variable_count * sizeof(char *));
        environment[program->variable_count] = variable;
        environment[program->variable_count + 1] = NULL;
        memcpy(argv, spec->arguments, spec->n_arguments * sizeof(char *));
        argv[spec->n_arguments] = NULL;
        /* A file that is no program is started nevertheless, to get its error message. */
        if (gy_net_find_loader(program->path, loader) < 0) {
            gy_debug("cannot ask the loader about a program: %s", gy_error_text());
        }
        host_minded minded = {.path = program->path,
                              .loader = loader,
                              .directory = program->directory,
                              .argv = argv,
                              .environment = environment,
                              .log = -1};
        if (gy_host_path(log, job->path, "log", "manager")) {
            minded.log = gy_env_disk(host->env)->open(host->env, log,
                                                      O_WRONLY | O_CREAT | O_APPEND, 0600);
        }
        if (minded.log < 0) {
            gy_warn("cannot make a manager's log: %s", strerror(-minded.log));
        }
        begin_output(job, log);
        status = gy_cluster_shim_start(&minded, &socket, &job->manager.shim);
        if (minded.log >= 0) {
            close(minded.log);
        }
    }
    gy_free(environment);
    gy_free(argv);
    job->manager.watch.ready = on_shim;
    job->manager.watch.owner = job;
    status = status < 0 ? status : gy_host_watch(host, &job->manager.watch, socket, EPOLLIN);
    if (status < 0 && socket >= 0) {
        close(socket);
        end_shim(host, &job->manager);
    }
    return status;
}

void gy_host_manager_go(gy_host *host, host_job *job, gy_status status)
{
    host_manager *manager = &job->manager;
    uint32_t epoch = manager->wanted;
    char ticket[HOST_PATH];
    if (epoch == 0) {
        return;
    }
    if (manager->is_waiting) {
        manager->is_waiting = false;
        report_waits(host, job, false);
    }
    manager->wanted = 0;
    status = status < 0 ? status : make_ticket(host, job, epoch, ticket);
    if (status == GY_OK) {
        listen_for_request(host, job);
        status = start_process(host, job, ticket);
    }
    if (status < 0) {
        gy_warn("cannot start the manager of job %s: %s", job->name, gy_error_text());
        gy_host_unwatch(host, &manager->request);
        report_down(host, job, epoch, 0);
        return;
    }
    manager->epoch = epoch;
    manager->is_killed = manager->has_status = manager->is_key_old = false;
    manager->last_ns = INT64_MAX;
    gy_info("manager of job %s, epoch %u", job->name, epoch);
}

void gy_host_manager_start(gy_host *host, const gy_daemon_effect *start)
{
    const uint32_t epoch = start->epoch; /* the effect may be freed soon */
    host_job *job = gy_host_job_new(host, start->job);
    if (job != NULL) {
        job->manager.wanted = epoch;
        job->manager.is_resumed = start->is_resumed;
        job->manager.slots_max = start->slots_max;
        job->manager.is_forgotten = start->is_forgotten;
        job->manager.is_waiting = false;
        gy_host_program_need(host, job);
        if (job->manager.wanted == epoch) {
            job->manager.is_waiting = true;
            report_waits(host, job, true);
        }
    }
}

/* ---- End ---- */

void gy_host_manager_end(gy_host *host, gy_key key, uint32_t epoch)
{
    host_job *job = gy_host_job(host, key);
    host_manager *manager = job != NULL ? &job->manager : NULL;
    if (manager == NULL) {
        return;
    }
    if (manager->wanted == epoch) {
        manager->wanted = 0;
        report_down(host, job, epoch, 0);
    } else if (manager->epoch == epoch && manager->shim != 0) {
        manager->is_killed = true;
        manager->last_ns = gy_now_ns(host->env) + end_within_ns;
        if (send(manager->watch.file, "k", 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1) {
            gy_debug("a supervisor has ended already");
        }
    } else if (manager->epoch == epoch) { /* its end waits for the name server: cancel that */
        manager->epoch = 0;
        report_down(host, job, epoch, 0);
    }
}

/* ---- Output ---- */

static uint64_t printed(const host_manager *manager)
{
    struct stat about;
    return manager->log >= 0 && fstat(manager->log, &about) == 0 &&
                   (uint64_t)about.st_size > manager->base
               ? (uint64_t)about.st_size - manager->base
               : 0;
}

typedef struct output_call {
    gy_host *host;
    gy_key job;
    uint32_t epoch;
} output_call;

static void look_at_end(gy_host *host, host_job *job, int64_t now_ns);

static void is_reported(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    const output_call call = *(output_call *)arg;
    host_job *job = gy_host_job(call.host, call.job);
    (void)answer;
    gy_free(arg);
    if (job == NULL || job->manager.epoch != call.epoch || status == GY_CANCELLED) {
        return;
    }
    host_manager *manager = &job->manager;
    const int64_t now_ns = gy_now_ns(call.host->env);
    if (status != GY_PEER && status != GY_TIMEOUT) { /* refused output is not sent again */
        manager->said = manager->saying;
        manager->look_ns = now_ns;
    }
    manager->saying = 0;
    look_at_end(call.host, job, now_ns);
}

/* Send the next piece; after a long time without an answer only the last bytes that the name
 * server retains. */
static void report_more(gy_host *host, host_job *job, uint64_t size)
{
    host_manager *manager = &job->manager;
    uint8_t *data = gy_alloc("host.output", GY_NET_OUTPUT_PIECE);
    output_call *call = gy_alloc("host.output", sizeof(*call));
    if (size - manager->said > OUTPUT_BEHIND) {
        manager->said = size - GY_NET_OUTPUT_KEPT;
    }
    const size_t most = (size_t)GY_MIN(size - manager->said, (uint64_t)GY_NET_OUTPUT_PIECE);
    const ssize_t got =
        data != NULL && call != NULL
            ? pread(manager->log, data, most, (off_t)(manager->base + manager->said))
            : 0;
    gy_status status = GY_AGAIN;
    if (got > 0) {
        Gy__Cluster__Key key = GY__CLUSTER__KEY__INIT;
        Gy__Cluster__Output message = GY__CLUSTER__OUTPUT__INIT;
        key.high = job->key.high;
        key.low = job->key.low;
        message.job = &key;
        message.epoch = manager->epoch;
        message.offset = manager->said;
        message.data = (ProtobufCBinaryData){.len = (size_t)got, .data = data};
        *call = (output_call){host, job->key, manager->epoch};
        status = gy_host_call_name(host, GY_NET_OUTPUT, &message.base, is_reported, call);
    }
    if (status == GY_OK) {
        manager->saying = manager->said + (uint64_t)got;
    } else {
        gy_free(call); /* later */
    }
    gy_free(data);
}

static void report_end(gy_host *host, host_job *job);

static void check_output(gy_host *host, host_job *job, int64_t now_ns)
{
    host_manager *manager = &job->manager;
    if (manager->epoch == 0 || manager->log < 0 || now_ns < manager->look_ns) {
        return;
    }
    const uint64_t size = printed(manager);
    manager->look_ns = now_ns + output_every_ns;
    if (manager->saying == 0 && size > manager->said) {
        report_more(host, job, size);
    }
}

/* Report the end after all output, if that can be sent; the last bytes come with it. */
static void look_at_end(gy_host *host, host_job *job, int64_t now_ns)
{
    host_manager *manager = &job->manager;
    if (manager->end_ns != INT64_MAX &&
        (now_ns >= manager->end_ns ||
         (manager->saying == 0 && printed(manager) <= manager->said + GY_NET_LAST_BYTES))) {
        manager->end_ns = INT64_MAX;
        report_end(host, job);
    } else {
        check_output(host, job, now_ns);
    }
}

size_t gy_host_manager_last(const gy_host *host, const host_ask *ask, uint8_t *data)
{
    const host_job *job = gy_host_job(host, ask->job);
    if (job == NULL || job->manager.epoch != ask->epoch || job->manager.log < 0 ||
        ask->untold == 0) {
        return 0;
    }
    const uint64_t from = job->manager.base + ask->said - ask->untold;
    const ssize_t got = pread(job->manager.log, data, ask->untold, (off_t)from);
    return got == (ssize_t)ask->untold ? ask->untold : 0;
}

int64_t gy_host_manager_next_ns(const host_job *job)
{
    const host_manager *manager = &job->manager;
    return manager->epoch != 0 && manager->log >= 0 &&
                   (manager->shim != 0 || manager->end_ns != INT64_MAX)
               ? manager->look_ns
               : INT64_MAX;
}

void gy_host_manager_free(host_job *job)
{
    if (job->manager.log >= 0) {
        close(job->manager.log);
        job->manager.log = -1;
    }
}

static bool is_forgotten(const host_job *job)
{
    char folder[HOST_PATH];
    return gy_host_path(folder, job->path, "manager", NULL) && gy_ticket_is_forgotten(folder);
}

/* It ended by itself with an exit status: the job has ended. */
static void report_end(gy_host *host, host_job *job)
{
    host_manager *manager = &job->manager;
    host_ask ask = {.job = job->key,
                    .epoch = manager->epoch,
                    .code = WEXITSTATUS(manager->ended.status),
                    .said = printed(manager),
                    .until_ns = INT64_MAX};
    ask.untold = ask.said > manager->said ? ask.said - manager->said : 0;
    ask.untold = GY_MIN(ask.untold, (uint64_t)GY_NET_LAST_BYTES);
    int status = ask.code;
    if (manager->is_forgotten && is_forgotten(job)) {
        ask.status = GY_CANCELLED;
        snprintf(ask.reason, sizeof(ask.reason), "its retained files are removed");
    } else if (manager->is_forgotten && status == 0) {
        ask.status = GY_STATE;
        snprintf(ask.reason, sizeof(ask.reason),
                 "nothing of it was removed: its program ran no job");
    } else if (status != 0) {
        gy_text words = {.data = NULL};
        if (manager->ended.is_unloadable) {
            gy_text_add(&words, "host %s lacks what it needs: ", host->host_name);
        } else {
            gy_text_add(&words, "exit status %d: ", status);
        }
        const size_t begin = words.size_bytes;
        gy_worker_log_tail(host->env, job->path, "log/manager", &words);
        if (words.size_bytes == begin) {
            gy_text_add(&words, "it printed nothing");
        }
        ask.status = manager->ended.is_unloadable ? GY_UNSUPPORTED : GY_STATE;
        gy_net_clean_text(words.status == GY_OK ? gy_text_get(&words) : "out of memory",
                          ask.reason, sizeof(ask.reason));
        gy_text_free(&words);
    }
    gy_host_ask(host, GY_NET_JOB_END, &ask);
}

static void manager_gone(gy_host *host, host_job *job)
{
    host_manager *manager = &job->manager;
    gy_host_unwatch(host, &manager->watch);
    gy_host_unwatch(host, &manager->request);
    gy_host_fork_server_dismiss(host, job);
    int status = gy_worker_child_wait(host->env, manager->shim,
                                      gy_env_deadline(host->env, reap_seconds));
    manager->shim = 0;
    if (!WIFEXITED(status)) {
        gy_host_expect_orphans(host);
    }
    manager->last_ns = INT64_MAX;
    const int signal = manager->has_status && WIFSIGNALED(manager->ended.status)
                           ? WTERMSIG(manager->ended.status)
                           : 0;
    gy_info("the manager of job %s, epoch %u, was killed by signal %d", job->name,
            manager->epoch, signal);
    if (!manager->is_killed && manager->has_status && WIFEXITED(manager->ended.status)) {
        const int64_t now_ns = gy_now_ns(host->env);
        manager->end_ns = now_ns + report_within_ns;
        manager->look_ns = 0;
        look_at_end(host, job, now_ns);
    } else {
        manager->look_ns = 0;
        check_output(host, job, gy_now_ns(host->env)); /* read the rest of its output */
        uint32_t epoch = manager->epoch;
        manager->epoch = 0;
        report_down(host, job, epoch, signal);
    }
    manager->is_killed = false;
}

static void on_shim(gy_host *host, void *owner, uint32_t events)
{
    host_job *job = owner;
    host_manager *manager = &job->manager;
    (void)events;
    ssize_t got =
        recv(manager->watch.file, &manager->ended, sizeof(manager->ended), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (got == (ssize_t)sizeof(manager->ended)) {
        manager->has_status = true;
    } else {
        manager_gone(host, job);
    }
}

void gy_host_manager_reported(gy_host *host, gy_key key, uint32_t epoch)
{
    char folder[HOST_PATH];
    host_job *job = gy_host_job(host, key);
    if (job == NULL || job->manager.epoch != epoch || job->manager.shim != 0) {
        return;
    }
    job->manager.epoch = 0;
    gy_host_manager_free(job);
    if (gy_host_path(folder, job->path, "manager", NULL)) {
        gy_host_move_to_trash(host, folder);
    }
    report_down(host, job, epoch, 0);
}

/* The key ring has other epochs: update the keys of running managers; failures are retried at
 * the next check. */
void gy_host_check_ring(gy_host *host)
{
    const char *ring = host->options->key_file;
    struct stat about;
    if (ring == NULL || stat(ring, &about) != 0) {
        return;
    }
    int64_t changed_ns = (int64_t)about.st_mtim.tv_sec * 1000000000 + about.st_mtim.tv_nsec;
    bool is_new = host->ring_changed_ns != 0 && changed_ns != host->ring_changed_ns;
    host->ring_changed_ns = changed_ns;
    for (host_job *job = host->jobs; job != NULL; job = job->next) {
        host_manager *manager = &job->manager;
        char path[HOST_PATH];
        manager->is_key_old = manager->shim != 0 && (manager->is_key_old || is_new);
        if (!manager->is_key_old || !gy_host_path(path, job->path, "manager", "key")) {
            continue;
        }
        manager->is_key_old = gy_keyring_scope(ring, GY_RPC_MANAGER, job->name, path) < 0;
        if (manager->is_key_old && is_new) { /* once */
            gy_warn("the manager of job %s still uses its old keys: %s", job->name,
                    gy_error_text());
        }
    }
}

void gy_host_manager_check(gy_host *host, host_job *job, int64_t now_ns)
{
    look_at_end(host, job, now_ns);
    if (job->manager.shim != 0 && now_ns >= job->manager.last_ns) {
        gy_warn("the manager of job %s does not end", job->name);
        kill(job->manager.shim, SIGKILL);
        job->manager.last_ns = INT64_MAX;
    }
}
