/* A vertex in any language: a child process reads the input from its standard input and writes
 * the output to its standard output. Both sides are polled, so neither blocks the other. The
 * child's standard error is copied to ours, and its tail becomes part of a failure's reason. */
#include "base/base.h"
#include "flow/channel/vertex.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    PIECE_BYTES = 64 << 10,
    TAIL_BYTES = 400, /* tail of standard error in the reason */
    WORDS_BYTES = 4096,
    HINT_BYTES = 1024,
    NAP_MS = 50,  /* between checks for cancellation */
    END_MS = 2,   /* between checks of a child that closed its output */
    ERR_MS = 200, /* how long after the child's end its standard error is still read */
};
/* No byte has moved for so long, and none can be expected: the child ended or is stopped, but
 * its descendants hold its input or output open. Twice as long is allowed when the child
 * closed its output and still runs. */
static const int64_t still_default_ns = 5000000000;

enum { IS_RUNNING, IS_STOPPED, HAS_ENDED };

typedef struct child {
    gy_vertex *vertex;
    pid_t pid;        /* also the process group; 0: none */
    int in, out, err; /* our ends of the child's descriptors; -1: closed */
    const char *data; /* input bytes that are not written yet */
    size_t left;
    bool has_input, has_output;
    bool ends_lines;  /* add a newline to a last output line that lacks one */
    char last;        /* last byte of the output; '\n' before the first byte */
    int life;         /* IS_RUNNING, ... */
    int64_t lived_ns; /* time of the last change of `life` */
    int64_t moved_ns; /* time of the last byte of input or output, or of the end of either */
    char tail[TAIL_BYTES + 1];
    size_t tail_bytes;
    /* (begun_bytes <= 3) of standard error: the incomplete UTF-8 character at the end */
    char begun[4];
    size_t begun_bytes;
} child;

static void close_file(int *file)
{
    if (*file >= 0) {
        (void)close(*file);
    }
    *file = -1;
}

/* ---- starting ---- */

/* Link the command's files into its working folder under their base names. */
static gy_status link_files(const gy_vertex *vertex, const char *folder)
{
    const char *const *files = vertex->order->files;
    for (size_t i = 0; files != NULL && files[i] != NULL; i++) {
        char whole[PATH_MAX];
        if (realpath(files[i], whole) == NULL) {
            return gy_fail(GY_NOTFOUND, "cannot find file %s: %s", files[i],
                           strerrordesc_np(errno));
        }
        const char *slash = strrchr(files[i], '/');
        gy_text name = {.data = NULL};
        gy_text_add(&name, "%s/%s", folder, slash != NULL ? slash + 1 : files[i]);
        gy_status status = name.status;
        if (status == GY_OK && symlink(whole, name.data) != 0) {
            status = gy_fail(GY_IO, "cannot link %s to %s: %s", whole, name.data,
                             strerrordesc_np(errno));
        }
        gy_text_free(&name);
        GY_TRY(status);
    }
    return GY_OK;
}

static gy_status make_pipe(int ends[2], int ours)
{
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return gy_fail(GY_IO, "no pipe for a command: %s", strerrordesc_np(errno));
    }
    GY_ASSERT(fcntl(ends[ours], F_SETFL, O_NONBLOCK) == 0);
    return GY_OK;
}

/* Start the child in `folder` with its three descriptors, in a process group of its own. */
static int spawn(const child *of, const char *folder, const int files[3], pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    error = posix_spawnattr_init(&attributes);
    if (error != 0) {
        (void)posix_spawn_file_actions_destroy(&actions);
        return error;
    }
    for (int i = 0; i < 3 && error == 0; i++) {
        error = files[i] >= 0 ? posix_spawn_file_actions_adddup2(&actions, files[i], i)
                : i == 0
                    ? posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
                    : posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, i);
    }
    if (error == 0) {
        error = posix_spawn_file_actions_addchdir_np(&actions, folder);
    }
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setsigdefault(&attributes, &all);
    (void)posix_spawnattr_setpgroup(&attributes, 0);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                    POSIX_SPAWN_SETPGROUP);
    char *const *argv = NULL;
    memcpy(&argv, &of->vertex->order->command, sizeof(argv)); /* drops the const */
    if (error == 0) {
        error = posix_spawnp(pid, argv[0], &actions, &attributes, argv, environ);
    }
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* A sandbox hides files, and the child's own error message does not say so. */
static const char *hint_at(const child *of, const char *said, char hint[HINT_BYTES])
{
    char path[PATH_MAX];
    hint[0] = '\0';
    if (gy_flow_command_find_hidden(of->vertex->order->command, said, path)) {
        char whole[PATH_MAX];
        const char *file = realpath(path, whole) != NULL ? whole : path;
        size_t size = (size_t)(strrchr(file, '/') - file);
        if (size > 4 && memcmp(file + size - 4, "/bin", 4) == 0) {
            /* a program's libraries lie beside its bin folder, which is permitted with it */
            size -= 4;
        }
        gy_print(hint, HINT_BYTES,
                 " (the sandbox part files hides %.400s: read=%.*s permits it)", file,
                 (int)GY_MIN(GY_MAX(size, (size_t)1), (size_t)400), file);
    }
    return hint;
}

static gy_status start(child *of)
{
    const gy_flow_task *order = of->vertex->order;
    const char *folder = gy_vertex_scratch(of->vertex);
    if (folder == NULL) {
        return of->vertex->status;
    }
    GY_TRY(link_files(of->vertex, folder));
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
    gy_status status = of->has_input ? make_pipe(in, 1) : GY_OK;
    if (status == GY_OK && order->output_count > 0) {
        status = make_pipe(out, 0);
    }
    if (status == GY_OK) {
        status = make_pipe(err, 0);
    }
    if (status == GY_OK) {
        pid_t pid = 0;
        int error = spawn(of, folder, (int[]){in[0], out[1], err[1]}, &pid);
        char hint[HINT_BYTES];
        of->pid = error == 0 ? pid : 0;
        status = error == 0 ? GY_OK
                            : gy_fail(GY_NOTFOUND, "cannot start %s: %s%s", order->command[0],
                                      strerrordesc_np(error), hint_at(of, "", hint));
    }
    close_file(&in[0]);
    close_file(&out[1]);
    close_file(&err[1]);
    of->in = in[1];
    of->out = out[0];
    of->err = err[0];
    return status;
}

/* ---- data ---- */

/* Write the next input bytes to the child; at the end close its input. */
static gy_status feed(child *of)
{
    if (of->left == 0) {
        const void *data = NULL;
        GY_TRY(gy_vertex_read(of->vertex, 0, &data, &of->left));
        of->data = data;
        if (of->left == 0) {
            close_file(&of->in);
            return GY_OK;
        }
    }
    ssize_t put = write(of->in, of->data, of->left);
    if (put > 0) {
        of->moved_ns = gy_now_ns(of->vertex->env);
        of->data += put;
        of->left -= (size_t)put;
        /* the child has read enough and closed its input: discard the rest */
    } else if (put < 0 && errno == EPIPE) {
        struct timespec now = {0, 0};
        sigset_t broken;
        sigemptyset(&broken);
        sigaddset(&broken, SIGPIPE);
        (void)sigtimedwait(&broken, NULL, &now);
        close_file(&of->in);
    } else if (put < 0 && errno != EAGAIN && errno != EINTR) {
        return gy_fail(GY_IO, "cannot write to %s: %s", of->vertex->order->command[0],
                       strerrordesc_np(errno));
    }
    return GY_OK;
}

static gy_status drain(child *of)
{
    void *room = NULL;
    GY_TRY(gy_vertex_reserve(of->vertex, 0, PIECE_BYTES, &room));
    ssize_t got = read(of->out, room, PIECE_BYTES);
    if (got > 0) {
        of->last = ((const char *)room)[got - 1];
    }
    GY_TRY(gy_vertex_advance(of->vertex, 0, got > 0 ? (size_t)got : 0));
    of->moved_ns = gy_now_ns(of->vertex->env);
    if (got == 0) {
        close_file(&of->out);
    } else if (got < 0 && errno != EAGAIN && errno != EINTR) {
        return gy_fail(GY_IO, "cannot read from %s: %s", of->vertex->order->command[0],
                       strerrordesc_np(errno));
    }
    return GY_OK;
}

/* How many bytes at the end are the beginning of an incomplete UTF-8 character. */
static size_t count_begun(const char *words, size_t size)
{
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        const unsigned char at = (unsigned char)words[size - back];
        if (at >= 0xc0) {
            return back < (at < 0xe0 ? 2U : at < 0xf0 ? 3U : 4U) ? back : 0;
        }
    }
    return 0;
}

/* Print lines for people, with control characters escaped, which a terminal would obey. */
static void echo(child *of, const char *words, size_t size, bool is_end)
{
    char whole[sizeof(of->begun) + WORDS_BYTES], shown[4 * sizeof(whole) + 1];
    memcpy(whole, of->begun, of->begun_bytes);
    memcpy(whole + of->begun_bytes, words, size);
    size += of->begun_bytes;
    of->begun_bytes = is_end ? 0 : count_begun(whole, size);
    size -= of->begun_bytes;
    memcpy(of->begun, whole + size, of->begun_bytes);
    const size_t bytes = gy_printable(shown, sizeof(shown), whole, size, "\n\t");
    if (bytes > 0 && write(STDERR_FILENO, shown, bytes) < 0) {
        gy_debug("the standard error of %s is lost", of->vertex->order->command[0]);
    }
}

/* Copy standard error to ours and remember its tail. */
static void listen_to(child *of)
{
    char words[WORDS_BYTES];
    ssize_t got = read(of->err, words, sizeof(words));
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        close_file(&of->err);
        echo(of, "", 0, true);
    }
    if (got <= 0) {
        return;
    }
    echo(of, words, (size_t)got, false);
    size_t size = GY_MIN((size_t)got, (size_t)TAIL_BYTES);
    size_t kept = GY_MIN(of->tail_bytes, (size_t)TAIL_BYTES - size);
    memmove(of->tail, of->tail + of->tail_bytes - kept, kept);
    memcpy(of->tail + kept, words + (size_t)got - size, size);
    of->tail_bytes = kept + size;
}

/* ---- a child that blocks us ---- */

/* Check whether the child runs, without reaping it, so that its pid and group id stay
 * reserved. */
static void look_at_life(child *of, int64_t now_ns)
{
    siginfo_t news = {.si_pid = 0};
    const int got = waitid(P_PID, (id_t)of->pid, &news, WEXITED | WSTOPPED | WNOHANG | WNOWAIT);
    const int life = got != 0 || news.si_pid == 0  ? IS_RUNNING
                     : news.si_code == CLD_STOPPED ? IS_STOPPED
                                                   : HAS_ENDED;
    if (got == 0 && life != of->life) {
        of->life = life;
        of->lived_ns = now_ns;
    }
}

/* The command's name as the user wrote it. */
static const char *name_of(const child *of)
{
    const char *const *command = (const char *const *)of->vertex->order->command;
    const bool is_shell = command[1] != NULL && strcmp(command[1], "-c") == 0;
    return is_shell && command[2] != NULL ? command[2] : command[0];
}

/* Fail a wait for a child that ended or closed its output. The failure is fatal, since another
 * attempt would fail alike. */
static gy_status fail_held(const child *of, int64_t still_ns)
{
    const double seconds = (double)still_ns / 1e9;
    const gy_status status =
        of->life == HAS_ENDED
            ? gy_fail(GY_TIMEOUT,
                      "'%.120s' has ended, but a process that it started keeps its standard "
                      "output open and wrote nothing for %.3g s: wait for that process, or "
                      "redirect its output (>/dev/null)",
                      name_of(of), seconds)
            : gy_fail(GY_TIMEOUT,
                      "'%.120s' closed its standard output, read nothing more and did not end "
                      "for %.3g s: expected its end",
                      name_of(of), seconds);
    return gy_vertex_fail(of->vertex, status, GY_CAUSE_FATAL);
}

/* Decide whether a wait can still end when no byte moves. Every wait of this file calls it. */
static gy_status look_after(child *of)
{
    const int64_t now_ns = gy_now_ns(of->vertex->env), given_ns = of->vertex->order->still_ns;
    const int64_t ns_max = given_ns > 0 ? given_ns : still_default_ns;
    look_at_life(of, now_ns);
    const int64_t still_ns = now_ns - GY_MAX(of->moved_ns, of->lived_ns);
    if (of->life == IS_STOPPED && still_ns > ns_max) {
        return gy_fail(GY_TIMEOUT, "'%.120s' is stopped (SIGSTOP) since %.3g s", name_of(of),
                       (double)ns_max / 1e9);
    }
    if (of->life == HAS_ENDED && still_ns > ns_max) {
        close_file(&of->in); /* whoever holds the pipe does not read it */
        GY_TRY(of->out >= 0 ? fail_held(of, ns_max) : GY_OK);
    }
    if (of->life == HAS_ENDED && of->in < 0 && of->out < 0 &&
        still_ns > ERR_MS * INT64_C(1000000)) {
        /* descendants hold the pipe, and all that the child itself wrote has been read */
        close_file(&of->err);
    }
    return of->life == IS_RUNNING && of->has_output && of->out < 0 && still_ns > 2 * ns_max
               ? fail_held(of, 2 * ns_max)
               : GY_OK;
}

static gy_status carry(child *of)
{
    of->moved_ns = of->lived_ns = gy_now_ns(of->vertex->env);
    while (of->out >= 0 || of->err >= 0 || of->in >= 0) {
        struct pollfd looks[3] = {
            {.fd = of->in, .events = POLLOUT},
            {.fd = of->out, .events = POLLIN},
            {.fd = of->err, .events = POLLIN},
        };
        int ready = poll(looks, 3, NAP_MS);
        GY_TRY(gy_vertex_check(of->vertex));
        if (ready <= 0 || (looks[0].revents == 0 && looks[1].revents == 0)) {
            GY_TRY(look_after(of));
        }
        if (ready <= 0) {
            continue;
        }
        if (looks[2].revents != 0) {
            listen_to(of);
        }
        if (looks[1].revents != 0) {
            GY_TRY(drain(of));
        }
        if (looks[0].revents != 0) {
            GY_TRY(feed(of));
        }
    }
    return GY_OK;
}

/* ---- the child's end ---- */

static gy_status judge(const child *of, int status)
{
    const char *name = of->vertex->order->command[0];
    size_t size = of->tail_bytes;
    while (size > 0 && of->tail[size - 1] == '\n') {
        size--;
    }
    char text[TAIL_BYTES + 1];
    for (size_t i = 0; i < size; i++) {
        text[i] = of->tail[i];
        if (strchr("\n\r\t", text[i]) != NULL) { /* matches NUL too */
            text[i] = ' ';
        }
    }
    text[size] = '\0';
    const char *said = size > 0 ? ": " : "";
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) {
        return gy_fail(
            GY_PEER,
            "%s died of SIGSYS%s%s; the sandbox part calls forbids a system call that it made",
            name, said, text);
    }
    if (WIFSIGNALED(status)) {
        return gy_fail(GY_PEER, "%s died of SIG%s%s%s", name,
                       sigabbrev_np(WTERMSIG(status)) != NULL ? sigabbrev_np(WTERMSIG(status))
                                                              : "RT",
                       said, text);
    }
    if (WEXITSTATUS(status) != 0) {
        char hint[HINT_BYTES];
        return gy_fail(GY_PEER, "%s ended with status %d%s%s%s", name, WEXITSTATUS(status),
                       hint_at(of, text, hint), said, text);
    }
    return GY_OK;
}

/* The child closed its output, so it will probably end soon, though it may sleep first. */
static gy_status wait_for_end(child *of)
{
    for (;;) {
        int status = 0;
        pid_t ended = waitpid(of->pid, &status, WNOHANG);
        if (ended == of->pid) {
            (void)kill(-of->pid, SIGKILL); /* descendants that are left in its group */
            of->pid = 0;
            return judge(of, status);
        }
        if (ended < 0 && errno != EINTR) {
            of->pid = 0;
            return gy_fail(GY_STATE, "another process reaped %s",
                           of->vertex->order->command[0]);
        }
        GY_TRY(gy_vertex_check(of->vertex));
        GY_TRY(look_after(of));
        (void)poll(NULL, 0, END_MS);
    }
}

static void kill_child(child *of)
{
    if (of->pid > 0) {
        (void)kill(-of->pid, SIGKILL);
        (void)kill(of->pid, SIGKILL); /* the child may have left its group */
        while (waitpid(of->pid, NULL, 0) < 0 && errno == EINTR) {
        }
        of->pid = 0;
    }
}

static gy_status check_order(const gy_flow_task *order)
{
    if (order->command == NULL || order->command[0] == NULL) {
        return gy_fail(GY_ARG, "a vertex without function and command");
    }
    if ((order->ranks == 0 && order->input_count > 1) || order->output_count > 1) {
        return gy_fail(GY_ARG, "%s has %u inputs and %u outputs, at most one of each",
                       order->command[0], order->input_count, order->output_count);
    }
    return GY_OK;
}

/* True when the parameter declares the output as lines (gy_vertex_options.command). */
static bool is_text(const gy_flow_task *order)
{
    return order->output_count > 0 && order->parameter_bytes == 1 &&
           memcmp(order->parameter, "\n", 1) == 0;
}

static gy_status run_child(gy_vertex *vertex)
{
    child of = {
        .vertex = vertex,
        .in = -1,
        .out = -1,
        .err = -1,
        .has_input = vertex->order->input_count > 0,
        .has_output = vertex->order->output_count > 0,
        .ends_lines = is_text(vertex->order),
        .last = '\n',
    };
    sigset_t broken, before;
    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    GY_ASSERT(pthread_sigmask(SIG_BLOCK, &broken, &before) == 0);
    gy_status status = start(&of);
    if (status == GY_OK) {
        status = carry(&of);
    }
    close_file(&of.in);
    if (status == GY_OK) {
        status = wait_for_end(&of);
    }
    if (status == GY_OK && of.ends_lines && of.last != '\n') {
        status = gy_vertex_write(vertex, 0, "\n", 1);
    }
    kill_child(&of);
    close_file(&of.out);
    close_file(&of.err);
    GY_ASSERT(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    return status;
}

gy_status gy_flow_command_run(gy_vertex *vertex)
{
    GY_TRY(check_order(vertex->order));
    GY_TRY(gy_flow_files_check(vertex));
    const gy_status status =
        vertex->order->ranks > 0 ? gy_flow_ranks_run(vertex) : run_child(vertex);
    if (vertex->cause != GY_CAUSE_CANCELLED && vertex->cause != GY_CAUSE_PEER) {
        GY_TRY(gy_flow_files_check(vertex));
    }
    return status;
}
