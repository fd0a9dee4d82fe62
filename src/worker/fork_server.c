/*
 * The fork server: the parent of a job's vertex processes. It leaves no process behind. Each
 * vertex process leads a process group, which is killed with it, and is a subreaper: it adopts
 * descendants that leave the group, and when it dies the fork server adopts them. So each child
 * of the fork server that is no vertex process is an orphan of a dead one. The fork server
 * kills it, adopts its children, and repeats this until none is left.
 */
#include "worker/serve_priv.h"

#include "worker/reap.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ORPHAN_PASSES = 8, /* passes over orphans after which no process may start a new one until
                          all have ended */
    REAPED_MAX = 256,  /* children reaped in one turn of the loop */
    GRACE_NS = 2000000000, /* from asking processes to end to killing them */
    LAST_NS = 2000000000,  /* time after the first 10 s before giving up on the rest */
    LAST_ROUNDS = 5
};

typedef struct child {
    pid_t process; /* 0: the slot is empty */
    uint32_t generation;
    bool has_news;
    gy_fork_server_news news;
} child;

typedef struct fork_server {
    int socket, ended, boards; /* ended: a signalfd, readable when a child has ended */
    int watch;                 /* the pipe to the reaper, which breaks when the reaper ends */
    const gy_role *role;
    const gy_sandbox_paths *sandbox;
    const gy_worker_ops *ops;
    child *children; /* (processes) */
    pid_t *spared;   /* (processes) */
    pid_t name;      /* the reaper's process id, by which the driver knows this job */
    gy_limits limits;
    sigset_t mask; /* the signal mask before the fork server changed it */
    gy_env *env;
    int passes;              /* passes over orphans in a row that found some */
    bool has_ended_children; /* more children had ended than one turn reaps */
    bool is_told_to_end;
} fork_server;

/* ---- a new process ---- */

/* In the child: set up what must hold before any user code runs. errno, 0: done. */
static int become_vertex(const fork_server *here, pid_t parent,
                         const gy_fork_server_order *order, int log)
{
    /* Set this first: if the fork server died before, the parent is already another process. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        return errno;
    }
    if (getppid() != parent) {
        return ESRCH;
    }
    if ((here->sandbox->parts != 0 && prctl(PR_SET_DUMPABLE, 1) != 0) || setpgid(0, 0) != 0 ||
        prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 ||
        (log >= 0 && (dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0))) {
        return errno;
    }
    int error = gy_limits_enter(&here->limits, order->slot);
    return error != 0 ? error : pthread_sigmask(SIG_SETMASK, &here->mask, NULL);
}

/* Run the vertex process to its end. */
static int live(fork_server *here, pid_t parent, const gy_fork_server_order *order,
                const int files[2])
{
    const gy_role *role = here->role;
    gy_board *boards = NULL;
    uint32_t lines = role->processes * role->threads;
    close(here->socket);
    close(here->ended);
    close(here->watch);
    gy_free(here->children);
    gy_free(here->spared);
    here->children = NULL;
    here->spared = NULL;
    int error = become_vertex(here, parent, order, files[1]);
    gy_limits_close(&here->limits);
    if (files[1] >= 0) {
        close(files[1]);
    }
    if (error == ESRCH) {
        return 1; /* the driver that ordered the process has ended */
    }
    if (error != 0) {
        gy_log_message("cannot set up a process of the job: %s", strerror(error));
        return 1;
    }
    if (gy_worker_boards_map(here->boards, lines, &boards) < 0) {
        gy_log_message("%s", gy_error_text());
        return 1;
    }
    close(here->boards);
    gy_worker_serving serving = {.socket = files[0],
                                 .threads = role->threads,
                                 .boards = boards + (size_t)order->slot * role->threads,
                                 .ops = here->ops};
    int status = gy_worker_serve_tasks(&serving);
    gy_worker_boards_unmap(boards, lines);
    return status;
}

/* Fork a process into a slot. True: this is the child, *status is its exit status. */
static bool spawn(fork_server *here, const gy_fork_server_order *order, const int files[2],
                  int *status)
{
    child *at = &here->children[order->slot];
    pid_t parent = getpid();
    fflush(NULL);
    /* Kills before this process do not count against it. */
    (void)gy_limits_is_over(&here->limits, order->slot);
    pid_t process = fork();
    if (process == 0) {
        *status = live(here, parent, order, files);
        return true;
    }
    *at = (child){.process = process, .generation = order->generation};
    if (process < 0) {
        at->process = 0;
        at->has_news = true;
        at->news = (gy_fork_server_news){
            .slot = order->slot, .generation = order->generation, .error = errno};
    } else {
        (void)setpgid(process,
                      /* Here too: the group must exist first. */
                      process);
    }
    return false;
}

static void kill_child(const fork_server *here, uint32_t slot)
{
    pid_t process = here->children[slot].process;
    if (process > 0) { /* the child is not reaped, so its process id is not reused */
        kill(-process, SIGKILL);
        kill(process, SIGKILL);
    }
}

/* ---- ends ---- */

static uint32_t slot_of(const fork_server *here, pid_t process)
{
    uint32_t slot = 0;
    while (slot < here->role->processes && here->children[slot].process != process) {
        slot++;
    }
    return slot;
}

/* Kill the children that are no vertex processes. True: there was one. */
static bool kill_orphans(const fork_server *here)
{
    for (uint32_t slot = 0; slot < here->role->processes; slot++) {
        here->spared[slot] = here->children[slot].process;
    }
    return gy_worker_reap_kill(here->spared, here->role->processes, false) > 0;
}

/* Reap a child that has ended and is still a zombie, so its process id is not reused yet. */
static void reap_one(fork_server *here, pid_t process)
{
    const uint32_t slot = slot_of(here, process);
    int status = 0;
    GY_ASSERT(process > 0);
    if (slot < here->role->processes) {
        kill(-process, SIGKILL);
    }
    (void)waitpid(process, &status, 0);
    if (slot < here->role->processes) {
        child *at = &here->children[slot];
        at->process = 0;
        at->has_news = true;
        at->news =
            (gy_fork_server_news){.slot = slot,
                                  .generation = at->generation,
                                  .status = status,
                                  .is_over_memory = gy_limits_is_over(&here->limits, slot)};
    }
}

/* Reap children that have ended: first the vertex processes, for the driver waits for that
 * news, then REAPED_MAX others, for a program that forks without end makes them as fast as they
 * are reaped. False: there is no child left. */
static bool reap(fork_server *here)
{
    for (uint32_t slot = 0; slot < here->role->processes; slot++) {
        const pid_t process = here->children[slot].process;
        siginfo_t end = {.si_pid = 0};
        if (process > 0 &&
            waitid(P_PID, (id_t)process, &end, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            end.si_pid == process) {
            reap_one(here, process);
        }
    }
    here->has_ended_children = false;
    for (int i = 0; i < REAPED_MAX; i++) {
        siginfo_t end = {.si_pid = 0};
        if (waitid(P_ALL, 0, &end, WEXITED | WNOHANG | WNOWAIT) != 0) {
            return errno != ECHILD;
        }
        if (end.si_pid == 0) {
            return true;
        }
        reap_one(here, end.si_pid);
    }
    here->has_ended_children = true;
    return true;
}

static void watch_orphans(fork_server *here)
{
    if (kill_orphans(here)) {
        if (++here->passes == ORPHAN_PASSES) {
            gy_limits_forbid(&here->limits, true);
        }
    } else {
        if (here->passes >= ORPHAN_PASSES) {
            gy_limits_forbid(&here->limits, false);
        }
        here->passes = 0;
    }
}

/* Send the news that wait. True: some could not be sent yet. */
static bool report_news(fork_server *here)
{
    for (uint32_t slot = 0; slot < here->role->processes; slot++) {
        child *at = &here->children[slot];
        if (at->has_news) {
            ssize_t sent =
                send(here->socket, &at->news, sizeof(at->news), MSG_NOSIGNAL | MSG_DONTWAIT);
            if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
                return true;
            }
            at->has_news = false; /* the driver has ended: the next read finds out */
        }
    }
    return false;
}

/* ---- the loop ---- */

typedef enum turn { GO_ON, IS_CHILD, IS_OVER } turn;

/* Carry out all orders of the driver that have arrived. */
static turn take_orders(fork_server *here, int *status)
{
    for (;;) {
        gy_fork_server_order order = {.kind = GY_FORK_SERVER_END};
        gy_packet packet = {.data = &order, .size_bytes = sizeof(order)};
        gy_status got = gy_packet_receive(here->socket, &packet, false);
        if (got == GY_AGAIN) {
            return GO_ON;
        }
        if (got < 0 || packet.size_bytes != sizeof(order) ||
            order.slot >= here->role->processes) {
            return IS_OVER;
        }
        bool is_child = false;
        switch (order.kind) {
        case GY_FORK_SERVER_SPAWN: {
            GY_ASSERT(packet.file_count >= 1);
            int files[2] = {packet.files[0], packet.file_count > 1 ? packet.files[1] : -1};
            is_child = spawn(here, &order, files, status);
            if (!is_child) {
                for (int i = 0; i < packet.file_count; i++) {
                    close(packet.files[i]);
                }
            }
            break;
        }
        case GY_FORK_SERVER_KILL:
            if (here->children[order.slot].generation == order.generation) {
                kill_child(here, order.slot);
            }
            break;
        case GY_FORK_SERVER_END:
            here->is_told_to_end = true;
            return IS_OVER;
        }
        if (is_child) {
            return IS_CHILD;
        }
    }
}

static void drain_ended(const fork_server *here)
{
    struct signalfd_siginfo signals[8];
    while (read(here->ended, signals, sizeof(signals)) > 0) {
    }
}

/* Wait until all children have ended; if the driver ended the job in order, they may first end
 * by themselves. */
static void end_all(fork_server *here)
{
    int64_t begin_ns = gy_now_ns(here->env);
    int64_t grace_ns = here->is_told_to_end ? GRACE_NS : 0;
    for (;;) {
        int64_t gone_ns = gy_now_ns(here->env) - begin_ns;
        if (gone_ns >= grace_ns) {
            for (uint32_t slot = 0; slot < here->role->processes; slot++) {
                kill_child(here, slot);
            }
        }
        watch_orphans(here);
        drain_ended(here);
        if (!reap(here)) {
            return;
        }
        if (gone_ns > grace_ns + (int64_t)LAST_NS * LAST_ROUNDS) {
            gy_log_message("processes of a job do not end after SIGKILL");
            return;
        }
        struct pollfd look = {.fd = here->ended, .events = POLLIN};
        (void)poll(&look, 1, here->has_ended_children ? 0 : here->passes > 0 ? 1 : 20);
    }
}

static turn look_and_act(fork_server *here, int *status)
{
    bool is_waiting = report_news(here);
    struct pollfd looks[3] = {
        {.fd = here->socket, .events = (short)(POLLIN | (is_waiting ? POLLOUT : 0))},
        {.fd = here->ended, .events = POLLIN},
        {.fd = here->watch, .events = POLLIN}};
    /* Look for orphans again soon after a pass that found some; else wait for an event. */
    (void)poll(looks, 3, here->has_ended_children ? 0 : here->passes > 0 ? 5 : 10000);
    if (looks[2].revents != 0) {
        return IS_OVER; /* the reaper has ended, so no process would clean up after this one */
    }
    if (looks[1].revents != 0 || here->passes > 0 || here->has_ended_children) {
        drain_ended(here);
        (void)reap(here);
        watch_orphans(here);
    }
    return looks[0].revents != 0 ? take_orders(here, status) : GO_ON;
}

/* Fork off from the reaper, block SIGCHLD and read it from a descriptor; set up boards and
 * limits. */
static gy_status open_fork_server(fork_server *here)
{
    sigset_t ended;
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    GY_TRY(gy_sandbox_prepare(here->sandbox));
    const gy_status split = gy_worker_reaper_split(here->role, &here->watch);
    if (split != GY_OK) {
        return split;
    }
    GY_ASSERT(pthread_sigmask(SIG_BLOCK, &ended, &here->mask) == 0);
    here->ended = signalfd(-1, &ended, SFD_CLOEXEC | SFD_NONBLOCK);
    if (here->ended < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        return gy_fail(GY_LIMIT, "cannot watch the processes of a job: %s", strerror(errno));
    }
    here->children = gy_alloc_zero("worker.fork_server", here->role->processes, sizeof(child));
    here->spared = gy_alloc_zero("worker.fork_server", here->role->processes, sizeof(pid_t));
    if (here->children == NULL || here->spared == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_limits_open(&here->limits, here->role, here->name));
    return gy_sandbox_enter(here->sandbox);
}

static void close_fork_server(fork_server *here)
{
    gy_limits_close(&here->limits);
    gy_free(here->children);
    gy_free(here->spared);
    int files[] = {here->watch, here->ended, here->socket, here->boards};
    for (size_t i = 0; i < GY_COUNT(files); i++) {
        if (files[i] >= 0) {
            close(files[i]);
        }
    }
}

void gy_worker_fork_server_refuse(int socket)
{
    const gy_fork_server_news news = {.has_sandbox_failed = true};
    GY_ASSERT(socket >= 0);
    gy_log_message("%s", gy_error_text());
    if (send(socket, &news, sizeof(news), MSG_NOSIGNAL) != (ssize_t)sizeof(news)) {
        gy_debug("the driver has ended: %s", strerror(errno));
    }
}

int gy_worker_fork_server_run(int socket, const gy_role *role, const gy_sandbox_paths *sandbox,
                              int boards, const gy_worker_ops *ops)
{
    int status = 0;
    fork_server here = {.socket = socket,
                        .ended = -1,
                        .boards = boards,
                        .watch = -1,
                        .role = role,
                        .sandbox = sandbox,
                        .ops = ops,
                        .name = getpid(),
                        .limits = {.most = -1},
                        .env = gy_env_real()};
    turn next = GO_ON;
    gy_status opened = open_fork_server(&here);
    if (opened < 0) {
        if (opened == GY_STATE) {
            gy_worker_fork_server_refuse(socket);
        } else {
            gy_log_message("%s", gy_error_text());
        }
        status = 1;
        next = IS_OVER;
    }
    if (opened == GY_DONE) { /* the reaper, whose end closes the socket */
        here.socket = -1;
        next = IS_OVER;
    }
    while (next == GO_ON) {
        next = look_and_act(&here, &status);
    }
    if (next == IS_CHILD) {
        return status;
    }
    if (opened == GY_OK) {
        end_all(&here);
        /* The exit handlers of this process may need to start one. */
        gy_limits_forbid(&here.limits, false);
        status = 0;
    }
    close_fork_server(&here);
    return status;
}
