#include "launch/keeper_priv.h"

#include "base/setting_numbers.h"
#include "base/text.h"
#include "transport/rendezvous.h"
#include "transport/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static const double grace_default_seconds = 2, hold_seconds = 0.3, stopped_seconds = 60;

static void signal_ranks(const run_keeper *keeper, int number)
{
    for (int rank = 0; rank < keeper->started; rank++) {
        if (keeper->ranks[rank].process > 0) {
            kill(-keeper->ranks[rank].process, number);
        }
    }
}

/* Save while the segment is mapped; a successful launch without --record saves nothing. */
static void save_flight(run_keeper *keeper, const gy_run_end *end)
{
    const gy_run_options *options = keeper->options;
    char wanted[4096], path[4096];
    if (keeper->is_saved || keeper->segment < 0 ||
        (options->record == NULL && end->text[0] == '\0')) {
        return;
    }
    keeper->is_saved = true;
    if (options->record != NULL && options->nodes > 1) {
        snprintf(wanted, sizeof(wanted), "%s.%d", options->record, options->node);
    } else if (options->record != NULL) {
        snprintf(wanted, sizeof(wanted), "%s", options->record);
    }
    gy_status status = gy_launch_save_flight(
        keeper->segment, options->record != NULL ? wanted : NULL, end, path, sizeof(path));
    if (status < 0 && options->record != NULL) {
        gy_log_message("%s", gy_error_text());
    } else if (status == GY_OK && options->record == NULL) {
        gy_log_message("what the ranks did: gyre doctor --recording %s", path);
    }
}

static void signal_all(run_keeper *keeper, int status, int number)
{
    double grace = keeper->options->kill_grace_s;
    keeper->is_ending = true;
    keeper->status = status;
    keeper->kill_at_ns =
        gy_now_ns(keeper->env) + (int64_t)((grace > 0 ? grace : grace_default_seconds) * 1e9);
    signal_ranks(keeper, number);
}

/* Signal all ranks first, and kill them when the grace period has passed. */
void gy_launch_keeper_end(run_keeper *keeper, int status, int number, const char *format, ...)
{
    gy_run_end end = {.status = status, .number = number};
    if (keeper->is_ending) {
        return;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(end.text, sizeof(end.text), format, args);
    va_end(args);
    if (end.text[0] != '\0') {
        gy_log_message("%s", end.text);
        gy_launch_messages_cause(end.text);
    }
    save_flight(keeper, &end);
    if (keeper->nodes != NULL) {
        gy_nodes_report_end(keeper->nodes, &end);
    }
    signal_all(keeper, status, number);
}

static void read_outputs(run_rank *rank)
{
    gy_launch_lines *const lines[] = {rank->out, rank->err};
    for (size_t i = 0; i < GY_COUNT(lines); i++) {
        if (lines[i] != NULL) {
            gy_launch_lines_pass(lines[i]);
        }
    }
    gy_error report;
    gy_status status = GY_OK;
    while (rank->socket >= 0 &&
           (status = gy_transport_rendezvous_read(rank->socket, &report)) == GY_OK) {
        if (report.rank == GY_RANK_DONE) {
            rank->has_done = true;
        } else if (!rank->has_report) {
            rank->report = report;
            rank->has_report = true;
        }
    }
    if (rank->socket >= 0 && status == GY_PEER) {
        close(rank->socket); /* the rank closed its end: the socket would stay readable */
        rank->socket = -1;
    }
}

static void read_failures(run_keeper *keeper)
{
    gy_spawn_failure failure;
    while (read(keeper->failures, &failure, sizeof(failure)) == (ssize_t)sizeof(failure)) {
        bool is_missing = failure.reason == ENOENT || failure.reason == ENOTDIR;
        gy_launch_keeper_end(keeper, is_missing ? 127 : 126, SIGTERM, "cannot run %s: %s",
                             keeper->argv[0], strerror(failure.reason));
    }
}

/* The best explanation of a rank's bad end that is available. */
static gy_run_end explain_failure(const run_keeper *keeper, int rank, pid_t process, int status)
{
    const run_rank *who = &keeper->ranks[rank];
    const char *words = who->has_report                                 ? who->report.text
                        : who->err != NULL && who->err->last[0] != '\0' ? who->err->last
                                                                        : "";
    const char *between = words[0] != '\0' ? ": " : "";
    int number = keeper->first_rank + rank;
    gy_run_end end = {.number = SIGTERM};
    if (WIFSIGNALED(status)) {
        end.status = 128 + WTERMSIG(status);
        snprintf(end.text, sizeof(end.text),
                 "rank %d (process %d) was killed by signal %d (%s)%s%.800s", number,
                 (int)process, WTERMSIG(status), strsignal(WTERMSIG(status)), between, words);
    } else {
        end.status = WEXITSTATUS(status);
        snprintf(end.text, sizeof(end.text), "rank %d ended with status %d%s%.800s", number,
                 WEXITSTATUS(status), between, words);
    }
    return end;
}

/* The errno of forwarding a rank's output; 0 none. */
static int output_failure(const run_rank *rank)
{
    int out = rank->out != NULL ? rank->out->failure : 0;
    return out == 0 && rank->err != NULL ? rank->err->failure : out;
}

/* End the launch when its output cannot be written: by SIGPIPE's default action as for a
 * process that writes itself, or with a message. */
static void look_at_outputs(run_keeper *keeper)
{
    for (int rank = 0; rank < keeper->started && !keeper->is_ending; rank++) {
        int failure = output_failure(&keeper->ranks[rank]);
        if (failure == EPIPE && !keeper->is_pipe_ignored) {
            gy_launch_keeper_end(keeper, 128 + SIGPIPE, SIGTERM, "%s", "");
        } else if (failure != 0) {
            gy_launch_keeper_end(keeper, 1, SIGTERM, "cannot write the output of rank %d: %s",
                                 keeper->first_rank + rank, strerror(failure));
        }
    }
}

static int rank_of(const run_keeper *keeper, pid_t process)
{
    for (int rank = 0; rank < keeper->started; rank++) {
        if (keeper->ranks[rank].process == process) {
            return rank;
        }
    }
    return -1; /* an adopted process */
}

/* How well an exit explains the launch's failure: a rank that lost its peer only follows
 * another. */
static int weight(const run_rank *rank, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return 0;
    }
    if (rank->has_report && rank->report.status == GY_PEER) {
        return 1;
    }
    return WIFSIGNALED(status) ? 3 : 2;
}

/* A rank failed. Can the launch continue? Reports the decision. */
static bool goes_on(run_keeper *keeper, int rank, pid_t process, int status)
{
    const run_rank *who = &keeper->ranks[rank];
    bool is_abort = who->has_report && who->report.rank == GY_RANK_ABORTS;
    if (keeper->options->on_failure == GY_RUN_END || keeper->is_ending || is_abort) {
        return false;
    }
    gy_run_end end = explain_failure(keeper, rank, process, status);
    if (keeper->options->on_failure == GY_RUN_RESTART) {
        return gy_launch_keeper_restarts(keeper, rank, &end);
    }
    gy_log_message("%s; the launch continues", end.text);
    if (keeper->first_end.status == 0) {
        keeper->first_end = end;
    }
    return true;
}

/* Reap all processes that ended; of those that ended together the most significant one is the
 * cause. */
static void reap_ended(run_keeper *keeper)
{
    int cause = -1, cause_status = 0, heaviest = 0, status = 0;
    pid_t process = 0, cause_process = 0;
    /* Read why a rank failed to start before handling its exit. */
    read_failures(keeper);
    while ((process = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
        int rank = rank_of(keeper, process);
        if (rank < 0) {
            continue;
        }
        keeper->ranks[rank].is_stopped = WIFSTOPPED(status);
        if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
            continue;
        }
        read_outputs(&keeper->ranks[rank]);
        int heavy = weight(&keeper->ranks[rank], status);
        keeper->has_ended_well = keeper->has_ended_well || heavy == 0;
        if (heavy > heaviest && !goes_on(keeper, rank, process, status)) {
            heaviest = heavy;
            cause = rank;
            cause_status = status;
            cause_process = process;
        }
        keeper->ranks[rank].process = 0;
        keeper->alive--;
    }
    read_failures(keeper);
    if (cause < 0 || keeper->is_ending) {
        return;
    }
    gy_run_end end = explain_failure(keeper, cause, cause_process, cause_status);
    if (heaviest > 1 || keeper->nodes == NULL) {
        gy_launch_keeper_end(keeper, end.status, end.number, "%s", end.text);
    } else if (keeper->held_ns == INT64_MAX) {
        keeper->held = end;
        keeper->held_ns = gy_now_ns(keeper->env) + (int64_t)(hold_seconds * 1e9);
    }
}

/* A rank that is stopped is named by those that wait for it. When they have ended nobody does,
 * and nothing else would end the launch. */
static void look_for_stopped(run_keeper *keeper)
{
    int stopped = 0, first = -1;
    for (int rank = 0; rank < keeper->started; rank++) {
        if (keeper->ranks[rank].process > 0 && keeper->ranks[rank].is_stopped) {
            first = stopped++ == 0 ? rank : first;
        }
    }
    GY_ASSERT(stopped <= keeper->alive);
    if (stopped == 0 || stopped < keeper->alive || keeper->alive == keeper->options->ranks) {
        keeper->stuck_at_ns = INT64_MAX;
        return;
    }
    const int64_t now_ns = gy_now_ns(keeper->env);
    if (keeper->stuck_at_ns == INT64_MAX) {
        keeper->stuck_at_ns = now_ns + keeper->patience_ns;
    } else if (now_ns >= keeper->stuck_at_ns) {
        keeper->stuck_at_ns = INT64_MAX;
        gy_launch_keeper_end(
            keeper, 1, SIGTERM,
            "rank %d (process %d) has been stopped for %.3g s by a signal, and "
            "the other ranks have ended",
            keeper->first_rank + first, (int)keeper->ranks[first].process,
            (double)keeper->patience_ns * 1e-9);
    }
}

static void take_signals(run_keeper *keeper)
{
    struct signalfd_siginfo got;
    while (read(keeper->signals, &got, sizeof(got)) == (ssize_t)sizeof(got)) {
        int number = (int)got.ssi_signo;
        if (number == SIGCHLD) {
            continue;
        }
        if (keeper->is_ending) {
            keeper->kill_at_ns = 0; /* a second signal skips the grace period */
            continue;
        }
        gy_launch_keeper_end(keeper, 128 + number, number == SIGINT ? SIGINT : SIGTERM,
                             "ended by signal %d (%s)", number, strsignal(number));
    }
    reap_ended(keeper);
}

static void add_poll(run_keeper *keeper, nfds_t *count, int fd)
{
    if (fd >= 0) {
        keeper->looks[(*count)++] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
}

static int wait_ms(const run_keeper *keeper)
{
    int64_t next_ns = GY_MIN(GY_MIN(keeper->kill_at_ns, keeper->stop_at_ns),
                             GY_MIN(keeper->held_ns, keeper->renew_by_ns));
    next_ns = GY_MIN(next_ns, keeper->stuck_at_ns);
    if (next_ns == INT64_MAX) {
        return -1;
    }
    int64_t left_ns = next_ns - gy_now_ns(keeper->env);
    return left_ns <= 0 ? 0 : (int)GY_MIN(left_ns / 1000000 + 1, (int64_t)60000);
}

static void check_clock(run_keeper *keeper)
{
    int64_t now_ns = gy_now_ns(keeper->env);
    if (now_ns >= keeper->stop_at_ns) {
        keeper->stop_at_ns = INT64_MAX;
        gy_launch_keeper_end(keeper, GY_RUN_STATUS_TIMEOUT, SIGTERM,
                             "the time limit of %g s has passed", keeper->options->timeout_s);
    }
    if (now_ns >= keeper->held_ns) {
        keeper->held_ns = INT64_MAX;
        gy_launch_keeper_end(keeper, keeper->held.status, keeper->held.number, "%s",
                             keeper->held.text);
    }
    if (now_ns >= keeper->renew_by_ns) {
        keeper->renew_by_ns = INT64_MAX;
        gy_launch_keeper_end(keeper, 1, SIGTERM,
                             "node %d does not support the restart of ranks",
                             gy_renewal_missing(&keeper->renewal));
    }
    if (now_ns >= keeper->kill_at_ns) {
        keeper->kill_at_ns = INT64_MAX;
        signal_ranks(keeper, SIGKILL);
    }
}

/* Handle the messages of other hosts' keepers. */
static void handle_nodes(run_keeper *keeper)
{
    gy_run_end end;
    if (keeper->nodes != NULL && gy_nodes_step(keeper->nodes, &end) && !keeper->is_ending) {
        gy_log_message("%s", end.text);
        save_flight(keeper, &end);
        keeper->held_ns = INT64_MAX;
        signal_all(keeper, end.status, end.number);
    }
}

/* Are ranks running, or other hosts still to report how the launch ended? */
static bool is_going_on(run_keeper *keeper)
{
    if (keeper->alive > 0 || keeper->nodes == NULL || keeper->is_ending) {
        return keeper->alive > 0;
    }
    if (gy_launch_keeper_has_dead(keeper)) {
        return true; /* dead ranks wait for the other hosts before they restart */
    }
    return keeper->held_ns != INT64_MAX || !gy_nodes_end_well(keeper->nodes);
}

/* One round: wait for events and handle them. False: the launcher has ended. */
static bool keep_round(run_keeper *keeper)
{
    nfds_t count = 0;
    add_poll(keeper, &count, keeper->signals);
    add_poll(keeper, &count, keeper->life);
    for (int rank = 0; rank < keeper->started; rank++) {
        run_rank *who = &keeper->ranks[rank];
        who->first_look = count;
        add_poll(keeper, &count, who->socket);
        add_poll(keeper, &count, who->out != NULL ? who->out->from : -1);
        add_poll(keeper, &count, who->err != NULL ? who->err->from : -1);
        who->end_look = count;
    }
    if (keeper->nodes != NULL) {
        count += gy_nodes_poll(keeper->nodes, keeper->looks + count);
    }
    if (poll(keeper->looks, count, wait_ms(keeper)) < 0) {
        check_clock(keeper); /* interrupted, or out of memory: timers still apply */
        return true;
    }
    if (keeper->looks[1].revents != 0) {
        return false;
    }
    for (int rank = 0; rank < keeper->started; rank++) {
        run_rank *who = &keeper->ranks[rank];
        bool has_news = false;
        for (nfds_t at = who->first_look; at < who->end_look; at++) {
            has_news = has_news || keeper->looks[at].revents != 0;
        }
        if (has_news) {
            read_outputs(who);
        }
    }
    look_at_outputs(keeper);
    handle_nodes(keeper);
    take_signals(keeper);
    look_for_stopped(keeper);
    check_clock(keeper);
    return true;
}

static gy_status start_all(run_keeper *keeper)
{
    for (int rank = 0; rank < keeper->options->ranks; rank++) {
        keeper->started++; /* count it first: a failed start leaves descriptors to close */
        GY_TRY(gy_launch_keeper_start(keeper, rank));
    }
    gy_launch_keeper_close_listeners(keeper);
    if (keeper->options->on_failure != GY_RUN_RESTART) {
        /* Close our end: the failures' pipe then ends when the last rank has called exec. */
        close(keeper->failures_in);
        keeper->failures_in = -1;
    }
    return GY_OK;
}

/* Raise the limit of open files for all ranks' sockets and pipes; the usual soft limit is 1024.
 */
static void raise_file_limit(int ranks)
{
    struct rlimit limit;
    /* Plus connections of other hosts and of strangers. */
    rlim_t needed = 512 + 5 * (rlim_t)ranks;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < needed) {
        limit.rlim_cur = GY_MIN(needed, limit.rlim_max);
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static gy_status prepare(run_keeper *keeper)
{
    int pair[2];
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, SIGINT);
    sigaddset(&watched, SIGTERM);
    sigaddset(&watched, SIGHUP);
    sigaddset(&watched, SIGQUIT);
    GY_ASSERT(sigprocmask(SIG_BLOCK, &watched, NULL) == 0);
    /* A signal to the launcher's group must not reach this process twice; see also become_rank.
     */
    (void)setpgid(0, 0);
    (void)signal(SIGTTOU, SIG_IGN);
    keeper->is_pipe_ignored = signal(SIGPIPE, SIG_IGN) == SIG_IGN;
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    raise_file_limit(keeper->options->ranks);
    size_t ranks = (size_t)keeper->options->ranks;
    keeper->ranks = gy_alloc_zero("launch.ranks", ranks, sizeof(run_rank));
    keeper->looks =
        gy_alloc_zero("launch.looks", 3 * ranks + 3 + GY_RUN_NODES_MAX, sizeof(struct pollfd));
    if (keeper->ranks == NULL || keeper->looks == NULL) {
        return GY_NOMEM;
    }
    keeper->signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    if (keeper->signals < 0 || pipe2(pair, O_CLOEXEC) != 0) {
        return gy_fail(GY_IO, "cannot open a signal descriptor or pipe: %s", strerror(errno));
    }
    keeper->failures = pair[0];
    keeper->failures_in = pair[1];
    (void)fcntl(keeper->failures, F_SETFL, O_NONBLOCK);
    return GY_OK;
}

/* Connect to the other hosts, if any, and learn the numbers of the local ranks. */
static gy_status meet_nodes(run_keeper *keeper)
{
    const gy_run_options *options = keeper->options;
    keeper->size = options->ranks;
    if (options->nodes <= 1 && !options->is_tcp) {
        return GY_OK;
    }
    size_t ranks = (size_t)options->ranks;
    gy_meeting meeting = {.stops = {keeper->life, keeper->signals}};
    keeper->listeners = gy_alloc_zero("launch.listeners", ranks, sizeof(int));
    if (keeper->listeners == NULL) {
        return GY_NOMEM;
    }
    for (size_t rank = 0; rank < ranks; rank++) {
        keeper->listeners[rank] = -1;
    }
    meeting.listeners = keeper->listeners;
    GY_TRY(gy_nodes_meet(options, keeper->env, &meeting, &keeper->nodes));
    return gy_launch_keeper_take_net(keeper);
}

/* What is wrong with the setting the ranks say. */
static int64_t read_patience(void)
{
    double seconds = stopped_seconds;
    if (gy_base_setting_seconds("GYRE_TIMEOUT", &seconds) < 0) {
        gy_debug("%s", gy_error_text());
    }
    GY_ASSERT(seconds > 0);
    return (int64_t)(seconds * 1e9);
}

int gy_launch_keep(const gy_run_options *options, char *const argv[], int life,
                   const sigset_t *mask)
{
    run_keeper keeper = {.options = options,
                         .argv = argv,
                         .mask = mask,
                         .env = gy_env_real(),
                         .life = life,
                         .signals = -1,
                         .failures = -1,
                         .failures_in = -1,
                         .segment = -1,
                         .restarts_left =
                             options->restarts > 0 ? options->restarts : GY_RESTARTS_DEFAULT,
                         .kill_at_ns = INT64_MAX,
                         .held_ns = INT64_MAX,
                         .renew_by_ns = INT64_MAX,
                         .stuck_at_ns = INT64_MAX,
                         .stop_at_ns = INT64_MAX};
    gy_status status = prepare(&keeper);
    gy_renewal_init(&keeper.renewal, options->node, GY_MAX(options->nodes, 1),
                    &gy_keeper_renewal, &keeper);
    keeper.patience_ns = read_patience();
    if (status >= 0 && options->timeout_s > 0) {
        keeper.stop_at_ns = gy_env_deadline(keeper.env, options->timeout_s).at_ns;
    }
    status = status < 0 ? status : meet_nodes(&keeper);
    status = status < 0 ? status : gy_launch_keeper_make_segment(&keeper);
    status = status < 0 ? status : start_all(&keeper);
    if (status >= 0 && keeper.nodes != NULL) {
        status = gy_nodes_attach(keeper.nodes, &keeper.renewal);
    }
    if (status == GY_CANCELLED) {
        /* A signal may have interrupted the rendezvous, and is then the cause. */
        take_signals(&keeper);
    }
    if (status < 0) {
        gy_launch_keeper_end(&keeper, 1, SIGTERM, "%s", gy_error_text());
    }
    bool has_launcher = true;
    while (is_going_on(&keeper) && has_launcher) {
        has_launcher = keep_round(&keeper);
        gy_launch_keeper_check_restarts(&keeper);
    }
    /* The ranks have ended, or the launcher has: end the processes that they started, too. */
    if (!gy_worker_reap_all(keeper.env, gy_env_deadline(keeper.env, GY_REAP_SECONDS))) {
        gy_log_message("processes of this launch do not end after SIGKILL");
    }
    for (int rank = 0; rank < keeper.started; rank++) {
        read_outputs(&keeper.ranks[rank]);
    }
    look_at_outputs(&keeper);
    save_flight(&keeper, &(gy_run_end){.status = 0});
    gy_launch_keeper_close_listeners(&keeper);
    gy_free(keeper.net);
    gy_nodes_free(keeper.nodes);
    return keeper.is_ending        ? keeper.status
           : keeper.has_ended_well ? 0
                                   : keeper.first_end.status;
}
