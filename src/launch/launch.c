#include "launch/launch_priv.h"

#include "transport/rendezvous.h"
#include "transport/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static gy_status check_nodes(const gy_run_options *options)
{
    const char *wrong = NULL;
    bool is_alone = options->nodes <= 1;
    if (options->nodes < 0 || options->nodes > GY_RUN_NODES_MAX) {
        wrong = "at most 256 nodes";
    } else if (options->node < 0 || options->node >= GY_MAX(options->nodes, 1)) {
        wrong = "a node from 0 to one less than there are";
    } else if (is_alone != (options->rendezvous == NULL)) {
        wrong = "several nodes and their rendezvous, or neither";
    } else if (options->is_plaintext + (options->key_file != NULL) + (options->key != NULL) >
               1) {
        wrong = "a key file, a key or plain text, one of them";
    } else if (options->key != NULL && strlen(options->key) < 32) {
        wrong = "a key of 32 characters or more";
    } else if (options->listener > 0 && options->node != 0) {
        wrong = "a listener on node 0 alone";
    } else if (is_alone && !options->is_tcp && options->key_file != NULL) {
        wrong = "a key only where ranks communicate over TCP";
    } else if (!(options->rendezvous_timeout_s >= 0)) {
        wrong = "a rendezvous timeout of 0 or more";
    }
    return wrong == NULL ? GY_OK
                         : gy_fail(GY_ARG, "node %d of %d: expected %s", options->node,
                                   options->nodes, wrong);
}

static gy_status check(const gy_run_options *options, char *const argv[])
{
    if (options->ranks < 1 || options->ranks > GY_RUN_RANKS_MAX) {
        return gy_fail(GY_ARG, "cannot start %d ranks: expected 1 to %d", options->ranks,
                       GY_RUN_RANKS_MAX);
    }
    if (argv == NULL || argv[0] == NULL || argv[0][0] == '\0') {
        return gy_fail(GY_ARG, "no program is given");
    }
    if (!(options->timeout_s >= 0) || !(options->kill_grace_s >= 0)) {
        return gy_fail(GY_ARG, "time limits of %g s and %g s: expected 0 or more",
                       options->timeout_s, options->kill_grace_s);
    }
    if (options->restarts < 0 ||
        (options->restarts > 0 && options->on_failure != GY_RUN_RESTART)) {
        return gy_fail(GY_ARG, "%d restarts: expected some, and that ranks are restarted",
                       options->restarts);
    }
    return check_nodes(options);
}

/* The signals that end a launch, except those that the parent chose to ignore (nohup, `&`). */
static void list_signals(sigset_t *watched)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigemptyset(watched);
    sigaddset(watched, SIGCHLD);
    for (size_t i = 0; i < GY_COUNT(ending); i++) {
        struct sigaction now;
        if (sigaction(ending[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) {
            sigaddset(watched, ending[i]);
        }
    }
}

/* Forward signals to a child until it ends; its status as from waitpid, -1: unknown. */
static int wait_for(pid_t child, const sigset_t *watched)
{
    for (;;) {
        int status = 0;
        pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child) {
            return status;
        }
        if (ended < 0 && errno != EINTR) {
            return -1;
        }
        int number = sigwaitinfo(watched, NULL);
        if (number > 0 && number != SIGCHLD) {
            kill(child, number);
        }
    }
}

/* The exit status to pass on; 1 and a message if the child was killed. */
static int exit_status(const char *who, int status)
{
    if (status != -1 && WIFEXITED(status)) {
        return WEXITSTATUS(status);
    }
    if (status == -1) {
        gy_log_message("lost the %s of the ranks", who);
    } else {
        gy_log_message("the %s of the ranks was killed by signal %d", who, WTERMSIG(status));
    }
    return 1;
}

/* The reaper: start the keeper; if that is killed, adopt and end all that it leaves. */
static int reaper(const gy_run_options *options, char *const argv[], int life,
                  const sigset_t *watched, const sigset_t *before)
{
    /* A signal to the launcher's group must not reach this process, and a write must not stop
     * it. */
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t keeper = fork();
    if (keeper == 0) {
        return gy_launch_keep(options, argv, life, before);
    }
    (void)signal(SIGTTOU, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    close(life);
    if (keeper < 0) {
        gy_log_message("cannot start a process: %s", strerror(errno));
        return 1;
    }
    int status = wait_for(keeper, watched);
    gy_env *env = gy_env_real();
    if ((status == -1 || !WIFEXITED(status)) &&
        !gy_worker_reap_all(env, gy_env_deadline(env, GY_REAP_SECONDS))) {
        gy_log_message("processes of this launch do not end after SIGKILL");
    }
    return exit_status("keeper", status);
}

/* In the launcher, until the reaper has ended: pass signals on to it and its messages to the
 * log. Its status as waitpid has it, -1 it is lost; *number becomes the last signal. */
static int attend(pid_t reaper, int signals, int messages, gy_run_report *report, int *number)
{
    bool has_more = true;
    int status = 0;
    pid_t ended = 0;
    while ((ended = waitpid(reaper, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
        struct pollfd looks[2] = {{.fd = signals, .events = POLLIN},
                                  {.fd = has_more ? messages : -1, .events = POLLIN}};
        (void)poll(looks, 2, -1);
        if (looks[1].revents != 0) {
            has_more = gy_launch_messages_pass(messages, report);
        }
        struct signalfd_siginfo got;
        while (looks[0].revents != 0 &&
               read(signals, &got, sizeof(got)) == (ssize_t)sizeof(got)) {
            if (got.ssi_signo != SIGCHLD) {
                *number = (int)got.ssi_signo;
                kill(reaper, *number);
            }
        }
    }
    struct pollfd rest = {.fd = messages, .events = POLLIN};
    while (has_more && poll(&rest, 1, 0) > 0) {
        has_more = gy_launch_messages_pass(messages, report);
    }
    return ended == reaper ? status : -1;
}

/* From the exit status, which is what the command has always had, to a status. */
static gy_status judge(const gy_run_report *report, int number)
{
    const int code = report->exit_status;
    const gy_status status = code == 0                             ? GY_OK
                             : code == GY_RUN_STATUS_TIMEOUT       ? GY_TIMEOUT
                             : number != 0 && code == 128 + number ? GY_CANCELLED
                                                                   : GY_PEER;
    if (status == GY_OK) {
        return GY_OK;
    }
    return report->cause[0] != '\0'
               ? gy_fail(status, "%s", report->cause)
               : gy_fail(status, "the launch ended with exit status %d", code);
}

/* What a launch is made with: descriptors, and the signals that it watches. */
typedef struct launch {
    int life[2], messages[2], signals;
    sigset_t watched, before;
} launch;

static gy_status open_launch(launch *made)
{
    list_signals(&made->watched);
    if (pipe2(made->life, O_CLOEXEC) != 0) {
        return gy_fail(GY_LIMIT, "cannot make a pipe: %s", strerror(errno));
    }
    GY_TRY(gy_launch_messages_open(made->messages));
    made->signals = signalfd(-1, &made->watched, SFD_CLOEXEC | SFD_NONBLOCK);
    return made->signals >= 0 ? GY_OK
                              : gy_fail(GY_LIMIT, "cannot watch signals: %s", strerror(errno));
}

static void close_launch(launch *made)
{
    int *all[] = {&made->life[0], &made->life[1], &made->messages[0], &made->messages[1],
                  &made->signals};
    for (size_t i = 0; i < GY_COUNT(all); i++) {
        if (*all[i] >= 0) {
            close(*all[i]);
            *all[i] = -1;
        }
    }
}

static _Noreturn void be_reaper(launch *made, const gy_run_options *options, char *const argv[])
{
    close(made->life[1]); /* only the launcher keeps it: it breaks when that one ends */
    close(made->messages[0]);
    close(made->signals);
    gy_launch_messages_send_to(made->messages[1]);
    _exit(reaper(options, argv, made->life[0], &made->watched, &made->before));
}

static void close_end(int *end)
{
    close(*end);
    *end = -1;
}

/* With the launcher's signals blocked. */
static gy_status start_and_attend(launch *made, const gy_run_options *options,
                                  char *const argv[], gy_run_report *report)
{
    int number = 0;
    const pid_t child = fork();
    if (child == 0) {
        be_reaper(made, options, argv);
    }
    close_end(&made->life[0]);
    close_end(&made->messages[1]);
    if (child < 0) {
        return gy_fail(GY_LIMIT, "cannot start a process: %s", strerror(errno));
    }
    report->is_started = true;
    const int status = attend(child, made->signals, made->messages[0], report, &number);
    report->exit_status = exit_status("guard", status);
    return judge(report, number);
}

static gy_status run(const gy_run_options *options, char *const argv[], gy_run_report *report)
{
    gy_run_options known;
    launch made = {.life = {-1, -1}, .messages = {-1, -1}, .signals = -1};
    report->exit_status = 2;
    GY_TRY(gy_options_take(gy_run_options, &known, options));
    GY_TRY(check(&known, argv));
    report->exit_status = 1;
    gy_status status = open_launch(&made);
    if (status == GY_OK) {
        struct sigaction plain = {.sa_handler = SIG_DFL}, child_before;
        GY_ASSERT(pthread_sigmask(SIG_BLOCK, &made.watched, &made.before) == 0);
        /* Were SIGCHLD ignored, the kernel would reap the reaper and its status be lost. */
        GY_ASSERT(sigaction(SIGCHLD, &plain, &child_before) == 0);
        status = start_and_attend(&made, &known, argv, report);
        close_end(&made.life[1]);
        GY_ASSERT(sigaction(SIGCHLD, &child_before, NULL) == 0);
        GY_ASSERT(pthread_sigmask(SIG_SETMASK, &made.before, NULL) == 0);
    }
    close_launch(&made);
    return status;
}

gy_status gy_run(const gy_run_options *options, char *const argv[], gy_run_report *report)
{
    gy_run_report own;
    report = report != NULL ? report : &own;
    memset(report, 0, sizeof(*report));
    return run(options, argv, report);
}

bool gy_run_report_message(gy_status status, const char *text)
{
    gy_transport_run_find_launcher();
    return gy_run_report_failure(gy_fail(status, "%s", text));
}

bool gy_run_is_rank(void)
{
    return gy_transport_run_has_place();
}

bool gy_run_report_failure(gy_status status)
{
    gy_error error;
    GY_ASSERT(status < 0);
    gy_error_take(&error, status);
    return gy_transport_run_report(&error);
}
