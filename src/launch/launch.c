#include "launch/launch_priv.h"

#include "transport/rendezvous.h"
#include "transport/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static bool are_nodes_good(const gy_run_options *options)
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
    if (wrong != NULL) {
        gy_log_message("node %d of %d: expected %s", options->node, options->nodes, wrong);
    }
    return wrong == NULL;
}

static bool is_good(const gy_run_options *options, char *const argv[])
{
    if (options->ranks < 1 || options->ranks > GY_RUN_RANKS_MAX) {
        gy_log_message("cannot start %d ranks: expected 1 to %d", options->ranks,
                       GY_RUN_RANKS_MAX);
        return false;
    }
    if (argv == NULL || argv[0] == NULL || argv[0][0] == '\0') {
        gy_log_message("no program is given");
        return false;
    }
    if (!(options->timeout_s >= 0) || !(options->kill_grace_s >= 0)) {
        gy_log_message("time limits of %g s and %g s: expected 0 or more", options->timeout_s,
                       options->kill_grace_s);
        return false;
    }
    if (options->restarts < 0 ||
        (options->restarts > 0 && options->on_failure != GY_RUN_RESTART)) {
        gy_log_message("%d restarts: expected some, and that ranks are restarted",
                       options->restarts);
        return false;
    }
    return are_nodes_good(options);
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

int gy_run(const gy_run_options *options, char *const argv[])
{
    gy_run_options known;
    if (gy_options_take(gy_run_options, &known, options) < 0) {
        fprintf(stderr, "gyre: %s\n", gy_error_text());
        return 2;
    }
    options = &known;
    if (!is_good(options, argv)) {
        return 2;
    }
    int life[2];
    if (pipe2(life, O_CLOEXEC) != 0) {
        gy_log_message("cannot make a pipe: %s", strerror(errno));
        return 1;
    }
    sigset_t watched, before;
    struct sigaction plain = {.sa_handler = SIG_DFL}, child_before;
    list_signals(&watched);
    GY_ASSERT(pthread_sigmask(SIG_BLOCK, &watched, &before) == 0);
    /* If SIGCHLD were ignored, the kernel would reap the reaper and its status would be lost.
     */
    GY_ASSERT(sigaction(SIGCHLD, &plain, &child_before) == 0);
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
        close(life[1]); /* only the launcher holds it open: the pipe breaks when the launcher
                           ends */
        _exit(reaper(options, argv, life[0], &watched, &before));
    }
    close(life[0]);
    if (child > 0) {
        status = exit_status("guard", wait_for(child, &watched));
    } else {
        gy_log_message("cannot start a process: %s", strerror(errno));
    }
    close(life[1]);
    GY_ASSERT(sigaction(SIGCHLD, &child_before, NULL) == 0);
    GY_ASSERT(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    return status;
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
