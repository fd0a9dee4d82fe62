/* Actions that a sandbox must refuse, and actions that must succeed in it; each returns 0 when
 * it was done, else errno. */
#ifndef GY_WORKER_SANDBOX_DEEDS_TEST_H
#define GY_WORKER_SANDBOX_DEEDS_TEST_H

#include "base/text.h"
#include "worker/sandbox/sandbox_priv.h"

#include "gy_test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>

enum { DEEDS_MAX = 48, OTHER_USER = 65534, CHILD_MS = 20000 };

/* Targets outside the sandbox, and the job's own folder. */
static struct world {
    char top[64], job[96], scratch[96], secret[96], other[96];
    uint16_t port;
    int server, abstract, named, own, shm; /* sockets; named: outside, own: the job's */
    pid_t victim; /* a process of the same user, with a secret at the same address as here */
    char shm_name[64];
} world;

static volatile long word = 12345;

static int result(bool is_done)
{
    int error = errno;
    return is_done ? 0 : error != 0 ? error : EIO;
}

static int close_result(int file)
{
    int got = result(file >= 0);
    if (file >= 0) {
        close(file);
    }
    return got;
}

static bool is_shell_well(const char *line)
{
    char said[256];
    return gy_test_shell(line, said, sizeof(said)) == 0;
}

static const char *join(const char *folder, const char *name)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

/* ---- actions that a sandbox refuses; 0: done, else errno ---- */

static int read_outside(void)
{
    return close_result(open(world.secret, O_RDONLY));
}

static int write_outside(void)
{
    return close_result(open(join(world.other, "new"), O_WRONLY | O_CREAT, 0600));
}

static int list_other_job(void)
{
    return close_result(open(world.other, O_RDONLY | O_DIRECTORY));
}

static int read_by_symlink(void)
{
    char path[256];
    snprintf(path, sizeof(path), "%s", join(world.job, "symlink"));
    (void)unlink(path);
    return symlink(world.secret, path) != 0 ? errno : close_result(open(path, O_RDONLY));
}

static int read_by_dots(void)
{
    return close_result(open(join(world.job, "../secret"), O_RDONLY));
}

static int link_outside(void)
{
    char path[256];
    snprintf(path, sizeof(path), "%s", join(world.job, "hardlink"));
    (void)unlink(path);
    return result(link(world.secret, path) == 0);
}

static int move_outside(void)
{
    char from[256], to[256];
    snprintf(from, sizeof(from), "%s", join(world.other, "moved"));
    snprintf(to, sizeof(to), "%s", join(world.job, "moved"));
    if (rename(from, to) != 0) {
        return errno;
    }
    return result(rename(to, from) == 0);
}

static int remove_outside(void)
{
    char path[256];
    snprintf(path, sizeof(path), "%s", join(world.other, "removed"));
    if (unlink(path) != 0) {
        return errno;
    }
    return close_result(open(path, O_WRONLY | O_CREAT, 0600));
}

static int run_outside(void)
{
    return result(access(join(world.other, "program"), X_OK) == 0 &&
                  is_shell_well(join(world.other, "program")));
}

static int read_shadow_of_others(void)
{
    return close_result(open(world.shm_name, O_RDWR));
}

static int connect_to_host(void)
{
    int file = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = world.port, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int got = result(file >= 0 && connect(file, (struct sockaddr *)&to, sizeof(to)) == 0);
    close(file);
    return got;
}

static socklen_t abstract_address(struct sockaddr_un *to)
{
    memset(to, 0, sizeof(*to));
    to->sun_family = AF_UNIX;
    size_t size = gy_print(to->sun_path + 1, sizeof(to->sun_path) - 1, "%s", world.top);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + size);
}

static int connect_to_abstract(void)
{
    struct sockaddr_un to;
    socklen_t size = abstract_address(&to);
    int file = socket(AF_UNIX, SOCK_STREAM, 0);
    int got = result(file >= 0 && connect(file, (struct sockaddr *)&to, size) == 0);
    close(file);
    return got;
}

static struct sockaddr_un named_address(const char *folder)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof(to.sun_path), "%.80s/socket", folder);
    return to;
}

static int connect_to_named(const char *folder)
{
    const struct sockaddr_un to = named_address(folder);
    int file = socket(AF_UNIX, SOCK_STREAM, 0);
    int got = result(file >= 0 && connect(file, (const struct sockaddr *)&to, sizeof(to)) == 0);
    close(file);
    return got;
}

static int connect_to_other(void)
{
    return connect_to_named(world.other);
}

static int need_own_socket(void)
{
    return connect_to_named(world.job);
}

static int signal_victim(void)
{
    return result(kill(world.victim, 0) == 0);
}

static int trace_victim(void)
{
    if (ptrace(PTRACE_SEIZE, world.victim, 0, 0) != 0) {
        return errno;
    }
    kill(world.victim, SIGSTOP); /* it can be detached only while it is stopped */
    waitpid(world.victim, NULL, __WALL);
    ptrace(PTRACE_DETACH, world.victim, 0, 0);
    kill(world.victim, SIGCONT);
    return 0;
}

static int open_memory_of_victim(void)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/mem", (int)world.victim);
    return close_result(open(path, O_RDWR));
}

static int read_victim(void)
{
    long seen = 0;
    struct iovec own = {&seen, sizeof(seen)}, far = {(void *)(uintptr_t)&word, sizeof(word)};
    return result(process_vm_readv(world.victim, &own, 1, &far, 1, 0) == sizeof(seen) &&
                  seen == word);
}

static int read_itself(void)
{
    long seen = 0;
    struct iovec own = {&seen, sizeof(seen)}, far = {(void *)(uintptr_t)&word, sizeof(word)};
    return result(process_vm_readv(getpid(), &own, 1, &far, 1, 0) == sizeof(seen));
}

static int enter_network_of_victim(void)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)world.victim);
    int file = open(path, O_RDONLY);
    int got = result(file >= 0 && setns(file, CLONE_NEWNET) == 0);
    close(file);
    return got;
}

static int attach_memory_of_system(void)
{
    void *at = shmat(world.shm, NULL, SHM_RDONLY);
    if (at == (void *)-1) {
        return errno;
    }
    return result(shmdt(at) == 0);
}

/* Run an action in a child, since its effect would stay in this process. */
static int in_child(int (*deed)(void))
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        _exit(deed());
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : ECHILD;
}

static int unshare_users(void)
{
    return result(unshare(CLONE_NEWUSER) == 0);
}

static int unshare_in_child(void)
{
    return in_child(unshare_users);
}

static int mount_over(void)
{
    return result(syscall(SYS_mount, "none", world.scratch, "tmpfs", 0, NULL) == 0 &&
                  syscall(SYS_umount2, world.scratch, 0) == 0);
}

static int use_keys(void)
{
    return result(
        syscall(SYS_keyctl, 0 /* get the keyring's id */, -1 /* of the thread */, 1) >= 0);
}

static int use_io_uring(void)
{
    struct io_uring_params how = {0};
    return close_result((int)syscall(SYS_io_uring_setup, 4, &how));
}

static int use_perf(void)
{
    struct {
        uint32_t type, size;
        uint64_t rest[14];
    } what = {.type = 1, .size = sizeof(what)};
    return close_result((int)syscall(SYS_perf_event_open, &what, 0, -1, -1, 0));
}

static int use_packets(void)
{
    return close_result(socket(AF_PACKET, SOCK_RAW, 0));
}

static int use_algorithms(void)
{
    return close_result(socket(AF_ALG, SOCK_SEQPACKET, 0));
}

static int name_host(void)
{
    char name[256];
    return result(gethostname(name, sizeof(name)) == 0 && sethostname(name, strlen(name)) == 0);
}

static int set_system(void)
{
    return close_result(open("/proc/sys/vm/drop_caches", O_WRONLY));
}

static int has_powers(void)
{
    return result(is_shell_well("grep -q '^CapBnd:.*[1-9a-f]' /proc/self/status && "
                                "grep -q '^NoNewPrivs:.*0' /proc/self/status"));
}

static int has_cores(void)
{
    struct rlimit limit;
    return result(getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_max > 0);
}

static int has_tasks(void)
{
    struct rlimit limit;
    return result(getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_max > 16384);
}

/* ---- actions that programs need ---- */

static void *run_thread(void *arg)
{
    *(int *)arg = 1;
    return NULL;
}

static int need_threads(void)
{
    int has_run = 0;
    pthread_t thread;
    int error = pthread_create(&thread, NULL, run_thread, &has_run);
    return error != 0 ? error : result(pthread_join(thread, NULL) == 0 && has_run == 1);
}

static int need_commands(void)
{
    return result(is_shell_well("echo a b | tr ' ' '\\n' | sort -r | head -1 | grep -qx b"));
}

static int need_scratch(void)
{
    char from[256], to[256];
    snprintf(from, sizeof(from), "%s", join(world.scratch, "made"));
    snprintf(to, sizeof(to), "%s", join(world.job, "renamed"));
    int file = open(from, O_RDWR | O_CREAT | O_TRUNC, 0600);
    bool is_written = file >= 0 && write(file, "x", 1) == 1 && ftruncate(file, 0) == 0;
    close(file);
    return result(is_written && rename(from, to) == 0 && unlink(to) == 0);
}

static int need_program(void)
{
    return close_result(open("/proc/self/exe", O_RDONLY));
}

static int need_memory(void)
{
    int file = memfd_create("test", MFD_CLOEXEC);
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    bool is_grown = file >= 0 && ftruncate(file, 4096) == 0;
    int again = open(path, O_RDWR);
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0);
    int got = result(is_grown && at != MAP_FAILED);
    close(again);
    close(file);
    return got;
}

static int need_loopback(void)
{
    int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(at);
    int got = result(
        server >= 0 && client >= 0 && bind(server, (struct sockaddr *)&at, size) == 0 &&
        listen(server, 1) == 0 && getsockname(server, (struct sockaddr *)&at, &size) == 0 &&
        connect(client, (struct sockaddr *)&at, size) == 0);
    close(server);
    close(client);
    return got;
}

static int need_null(void)
{
    int file = open("/dev/null", O_RDWR);
    int got = result(file >= 0 && write(file, "x", 1) == 1);
    close(file);
    return got;
}

static int need_itself_in_proc(void)
{
    char path[64], own[16] = "", link[16] = "";
    snprintf(path, sizeof(path), "/proc/%d/status", (int)getpid());
    snprintf(own, sizeof(own), "%d", (int)getpid());
    ssize_t size = readlink("/proc/self", link, sizeof(link) - 1);
    return size > 0 && strcmp(own, link) == 0 ? close_result(open(path, O_RDONLY)) : EINVAL;
}

static int need_child_in_proc(void)
{
    int ends[2];
    if (pipe(ends) != 0) {
        return errno;
    }
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(ends[1]);
        (void)!read(ends[0], &byte, 1);
        _exit(0);
    }
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)child, ends[0]);
    int got = close_result(open(path, O_RDONLY));
    close(ends[0]);
    close(ends[1]);
    waitpid(child, NULL, 0);
    return got;
}

#endif
