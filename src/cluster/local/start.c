/* Another process of this program, and the packets that go to it. */
#include "cluster/local/local_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SEND_SECONDS = 10 };

int gy_worker_socket(void)
{
    const char *value = gy_setting_get("GYRE_VERTEX");
    char *end = NULL;
    long number = value != NULL ? strtol(value, &end, 10) : -1;
    return value != NULL && *end == '\0' && number >= 0 && number < INT32_MAX ? (int)number
                                                                              : -1;
}

/* An environment with GYRE_VERTEX set to `socket`; the text lies in `setting`. NULL: no
 * memory. */
static char **list_environment(char *const *from, char setting[32], int socket)
{
    size_t count = 0, kept = 0;
    while (from[count] != NULL) {
        count++;
    }
    char **list = gy_alloc("cluster.start", (count + 2) * sizeof(*list));
    for (size_t i = 0; list != NULL && i < count; i++) {
        if (strncmp(from[i], "GYRE_VERTEX=", 12) != 0) {
            list[kept++] = from[i];
        }
    }
    if (list != NULL) {
        snprintf(setting, 32, "GYRE_VERTEX=%d", socket);
        list[kept++] = setting;
        list[kept] = NULL;
    }
    return list;
}

/* posix_spawn with the child's socket at one number in both, standard input empty, a group of
 * its own (a terminal's signals are for us) and no signal blocked. errno, 0 done. */
static int spawn(const gy_start *start, int socket, char *const *environment, pid_t *process)
{
    char *const only_name[] = {program_invocation_name, NULL};
    const char *path = start->argv != NULL ? start->argv[0] : "/proc/self/exe";
    char *const *argv = start->argv != NULL ? start->argv : only_name;
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int error = posix_spawn_file_actions_init(&files);
    if (error != 0) {
        return error;
    }
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        short flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
        posix_spawnattr_setflags(&attributes, flags);
        posix_spawnattr_setpgroup(&attributes, 0);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &all);
        error =
            posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        /* A copy onto itself: kept open over exec. */
        error = error != 0 ? error : posix_spawn_file_actions_adddup2(&files, socket, socket);
        if (error == 0 && start->directory != NULL) {
            error = posix_spawn_file_actions_addchdir_np(&files, start->directory);
        }
        error = error != 0
                    ? error
                    : posix_spawnp(process, path, &files, &attributes, argv, environment);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
    return error;
}

/* ---- one that waits to become it ---- */

/* What comes with a file of texts, each with its NUL: arguments, variables, the folder. */
typedef struct parked_word {
    uint32_t arguments, variables;
    bool has_directory;
    int socket; /* the number that it shall have */
    size_t size_bytes;
} parked_word;

/* As posix_spawn above leaves a process. False: errno says why. */
static bool settle(int number, const parked_word *word, const char *directory)
{
    sigset_t none;
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    sigemptyset(&none);
    return nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 &&
           dup2(number, word->socket) >= 0 && fcntl(word->socket, F_SETFD, 0) == 0 &&
           sigprocmask(SIG_SETMASK, &none, NULL) == 0 &&
           (directory == NULL || chdir(directory) == 0);
}

static void become(const parked_word *word, const int files[2])
{
    const size_t rows = (size_t)word->arguments + word->variables + 2;
    char *texts =
        mmap(NULL, word->size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, files[0], 0);
    char **list = mmap(NULL, rows * sizeof(char *), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (texts == MAP_FAILED || (void *)list == MAP_FAILED) {
        return;
    }
    char **to = list;
    const char *path = texts; /* of the program */
    for (size_t i = 0; i < rows; i++) {
        const bool is_end = i == word->arguments || i == rows - 1;
        *to++ = is_end ? NULL : texts;
        texts += is_end ? 0 : strlen(texts) + 1;
    }
    if (settle(files[1], word, word->has_directory ? texts : NULL)) {
        (void)execvpe(path, list, list + word->arguments + 1);
    }
    dprintf(STDERR_FILENO, "gyre: cannot start %s: %s\n", path, strerror(errno));
}

/* Its life until then: in memory that was copied, so it takes none and no lock. */
static _Noreturn void wait_parked(int socket)
{
    parked_word word;
    gy_packet packet = {.data = &word, .size_bytes = sizeof(word)};
    const int own = fcntl(socket, F_DUPFD, 64); /* files that come get the low numbers */
    if (own < 0 || close_range(3, (unsigned)own - 1, 0) != 0 ||
        close_range((unsigned)own + 1, ~0u, 0) != 0 || fcntl(own, F_SETFD, FD_CLOEXEC) != 0 ||
        setpgid(0, 0) != 0) {
        _exit(1);
    }
    for (int number = 1; number < NSIG; number++) {
        (void)signal(number, SIG_DFL); /* those that cannot be changed are so already */
    }
    (void)prctl(PR_SET_NAME, GY_PARKED_NAME); /* until it becomes a program */
    gy_limits_park();
    const gy_status got = gy_packet_receive(own, &packet, true);
    if (got == GY_OK && packet.file_count == GY_PACKET_FILES &&
        packet.size_bytes == sizeof(word)) {
        become(&word, packet.files);
    } else if (got != GY_OK) {
        gy_limits_leave(); /* who would remove it is gone */
    }
    _exit(got == GY_OK ? 127 : 0);
}

gy_status gy_parked_open(gy_parked *parked)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return gy_fail(GY_LIMIT, "cannot make a socket: %s", strerror(errno));
    }
    const pid_t child = fork();
    if (child == 0) {
        wait_parked(pair[1]);
    }
    const int error = errno;
    close(pair[1]);
    if (child < 0) {
        close(pair[0]);
        return gy_fail(GY_LIMIT, "cannot start a process: %s", strerror(error));
    }
    *parked = (gy_parked){.process = child, .socket = pair[0]};
    return GY_OK;
}

void gy_parked_close(gy_env *env, gy_parked *parked)
{
    static const double patience = 1; /* it may be joining its group */
    char bye = 'x';
    if (parked->process == 0) {
        return;
    }
    if (gy_packet_send(parked->socket, &(gy_packet){.data = &bye, .size_bytes = 1}) < 0) {
        gy_debug("what waited is gone already: %s", gy_error_text());
    }
    (void)gy_child_wait(env, parked->process, gy_env_deadline(env, patience));
    close(parked->socket);
    gy_limits_sweep(parked->process, 0);
    parked->process = 0;
}

/* Texts into a file in memory. False: not all are there. */
static bool write_texts(FILE *file, char *const *list, uint32_t *count)
{
    *count = 0;
    for (; list[*count] != NULL; ++*count) {
        if (fwrite(list[*count], 1, strlen(list[*count]) + 1, file) == 0) {
            return false;
        }
    }
    return true;
}

static int pack_texts(const gy_start *start, char *const *environment, parked_word *word)
{
    const int memory = memfd_create("gyre-start", MFD_CLOEXEC);
    const int copy = memory >= 0 ? fcntl(memory, F_DUPFD_CLOEXEC, 0) : -1;
    FILE *file = copy >= 0 ? fdopen(copy, "w") : NULL;
    bool is_packed = file != NULL && write_texts(file, start->argv, &word->arguments) &&
                     write_texts(file, environment, &word->variables);
    word->has_directory = start->directory != NULL;
    if (is_packed && word->has_directory) {
        is_packed = fputs(start->directory, file) >= 0 && fputc('\0', file) == 0;
    }
    const long size = file != NULL ? ftell(file) : -1;
    if (file != NULL) {
        is_packed = fclose(file) == 0 && is_packed && size > 0;
    } else if (copy >= 0) {
        close(copy);
    }
    if (!is_packed && memory >= 0) {
        close(memory);
    }
    word->size_bytes = size > 0 ? (size_t)size : 0;
    return is_packed ? memory : -1;
}

/* False: there is none, or it does not listen. */
static bool wake_parked(const gy_start *start, int socket, char *const *environment,
                        pid_t *process)
{
    gy_parked *parked = start->parked;
    if (parked == NULL || parked->process == 0) {
        return false;
    }
    parked_word word = {.socket = socket};
    const int texts = pack_texts(start, environment, &word);
    gy_packet packet = {.data = &word,
                        .size_bytes = sizeof(word),
                        .files = {texts, socket},
                        .file_count = GY_PACKET_FILES};
    const bool is_woken = texts >= 0 && gy_packet_send(parked->socket, &packet) == GY_OK;
    if (texts >= 0) {
        close(texts);
    }
    if (is_woken) {
        *process = parked->process;
        parked->process = 0;
        close(parked->socket);
    }
    return is_woken;
}

gy_status gy_start_self(const gy_start *start, int *socket, pid_t *process)
{
    char setting[32];
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return gy_fail(GY_LIMIT, "cannot make a socket: %s", strerror(errno));
    }
    int room = 2 * GY_PACKET_BYTES;
    (void)setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    struct timeval limit = {.tv_sec = SEND_SECONDS};
    GY_ASSERT(setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0);
    gy_status status = GY_OK;
    char **environment = list_environment(
        start->environment != NULL ? start->environment : environ, setting, pair[1]);
    if (environment == NULL) {
        status = GY_NOMEM;
    } else if (!wake_parked(start, pair[1], environment, process)) {
        int error = spawn(start, pair[1], environment, process);
        if (error != 0) {
            status =
                gy_fail(GY_LIMIT, "cannot start %s: %s",
                        start->argv != NULL ? start->argv[0] : "this program", strerror(error));
        }
    }
    gy_free(environment);
    close(pair[1]);
    if (status < 0) {
        close(pair[0]);
    } else {
        *socket = pair[0];
    }
    return status;
}

gy_status gy_packet_send(int socket, const gy_packet *packet)
{
    union {
        char bytes[CMSG_SPACE(sizeof(packet->files))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = packet->data, .iov_len = packet->size_bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    GY_ASSERT(packet->file_count >= 0 && packet->file_count <= GY_PACKET_FILES);
    if (packet->file_count > 0) {
        size_t size = (size_t)packet->file_count * sizeof(int);
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(size);
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(size);
        memcpy(CMSG_DATA(rights), packet->files, size);
    }
    ssize_t sent = -1;
    do {
        sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0) {
        return GY_OK;
    }
    if (errno == EAGAIN) {
        return gy_fail(GY_TIMEOUT, "a process of the job has not read for %d s", SEND_SECONDS);
    }
    return gy_fail(GY_PEER, "cannot tell a process of the job: %s", strerror(errno));
}

/* Take the descriptors out of a message; more than fit are closed. */
static void take_files(struct msghdr *message, gy_packet *packet)
{
    packet->file_count = 0;
    for (struct cmsghdr *rights = CMSG_FIRSTHDR(message); rights != NULL;
         rights = CMSG_NXTHDR(message, rights)) {
        if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int file = -1;
            memcpy(&file, CMSG_DATA(rights) + i * sizeof(int), sizeof(file));
            if (packet->file_count < GY_PACKET_FILES) {
                packet->files[packet->file_count++] = file;
            } else {
                close(file);
            }
        }
    }
}

gy_status gy_packet_receive(int socket, gy_packet *packet, bool is_waiting)
{
    union {
        char bytes[CMSG_SPACE(sizeof(packet->files))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = packet->data, .iov_len = packet->size_bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t got = -1;
    do {
        got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | (is_waiting ? 0 : MSG_DONTWAIT));
    } while (got < 0 && errno == EINTR);
    packet->file_count = 0;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return GY_AGAIN;
    }
    if (got <= 0) { /* a reset is an end too: whoever was there is gone */
        return gy_fail(GY_PEER, "a process of the job has closed its socket");
    }
    take_files(&message, packet);
    packet->size_bytes = (size_t)got;
    if ((message.msg_flags & MSG_TRUNC) != 0) {
        return gy_fail(GY_FORMAT, "a packet of over %zu bytes", packet->size_bytes);
    }
    return GY_OK;
}

/* Until it has ended, or about that time; where the kernel tells of no single child's end, a
 * millisecond. */
static void look_at_child(gy_env *env, int end, gy_deadline deadline)
{
    struct pollfd look = {.fd = end, .events = POLLIN};
    int64_t left_ns = deadline.at_ns - gy_now_ns(env);
    int64_t wait_ms = left_ns > 0 ? GY_MIN((left_ns + 999999) / 1000000, (int64_t)1000) : 1;
    (void)poll(&look, end >= 0, end >= 0 ? (int)wait_ms : 1);
}

int gy_child_wait(gy_env *env, pid_t child, gy_deadline deadline)
{
    bool is_killed = false;
    int status = 0, end = (int)syscall(SYS_pidfd_open, child, 0);
    pid_t ended = 0;
    while ((ended = waitpid(child, &status, WNOHANG)) != child) {
        if (ended < 0 && errno != EINTR) {
            status = -1;
            break;
        }
        if (!is_killed && gy_now_ns(env) >= deadline.at_ns) {
            kill(child, SIGKILL);
            is_killed = true;
        }
        look_at_child(env, end, deadline);
    }
    if (end >= 0) {
        close(end);
    }
    return status;
}
