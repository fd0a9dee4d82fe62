/* Goal: each part of the walls refuses what it is there for, by itself, to root and to others;
 * without walls the same deeds succeed, and what programs need succeeds behind all of them. */
#include "cluster/sandbox/sandbox_priv.h"

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

/* What stands outside, and the own folder. */
static struct world {
    char top[64], job[96], scratch[96], secret[96], other[96];
    uint16_t port;
    int server, abstract, shm;
    pid_t victim; /* of the same user; its word lies at the same place as ours */
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

/* ---- deeds that walls refuse; 0: done, else errno ---- */

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
    int size = snprintf(to->sun_path + 1, sizeof(to->sun_path) - 1, "%s", world.top);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size);
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

static int signal_victim(void)
{
    return result(kill(world.victim, 0) == 0);
}

static int trace_victim(void)
{
    if (ptrace(PTRACE_SEIZE, world.victim, 0, 0) != 0) {
        return errno;
    }
    kill(world.victim, SIGSTOP); /* it can be let go only when it stands */
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

/* In a child, or it would hold for what follows. */
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
        syscall(SYS_keyctl, 0 /* its keyring's number */, -1 /* of the thread */, 1) >= 0);
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

/* ---- deeds that programs need ---- */

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

/* ---- the table ---- */

enum { RIGHTS = 1, PROCESSES = 2, NETWORK = 4, FILES = 8, CALLS = 16, FILES_6 = 32, ROOT = 64 };
#if defined(GYRE_ASAN)
enum { CALLS_TRACE = 0 };
#else
enum { CALLS_TRACE = CALLS };
#endif

typedef struct deed {
    const char *name;
    int (*run)(void);
    int parts; /* each of which refuses it alone; 0: it is needed behind all. FILES_6: Landlock
                  of version 6; ROOT: is for root alone anyway */
} deed;

static const deed deeds[] = {
    {"read a file outside", read_outside, FILES},
    {"write a file outside", write_outside, FILES},
    {"list another job's folder", list_other_job, FILES},
    {"read outside through a symbolic link", read_by_symlink, FILES},
    {"read outside through ..", read_by_dots, FILES},
    {"link a file outside into the job", link_outside, FILES},
    {"move a file outside into the job and back", move_outside, FILES},
    {"remove a file outside", remove_outside, FILES},
    {"run a program outside", run_outside, FILES},
    {"open shared memory of others", read_shadow_of_others, FILES | PROCESSES},
    {"connect to a server of the host", connect_to_host, NETWORK},
    {"connect to an abstract socket of the host", connect_to_abstract, NETWORK | FILES_6},
    {"send a signal", signal_victim, PROCESSES | FILES_6},
    {"trace a process", trace_victim, PROCESSES | FILES | CALLS_TRACE},
    {"open a process's memory", open_memory_of_victim, PROCESSES | FILES},
    {"read a process's memory", read_victim, PROCESSES | FILES | CALLS},
    {"read by process_vm_readv", read_itself, CALLS},
    {"enter a network", enter_network_of_victim, RIGHTS | CALLS | ROOT},
    {"attach memory of System V", attach_memory_of_system, PROCESSES},
    {"make a namespace of users", unshare_in_child, CALLS},
    {"mount", mount_over, RIGHTS | CALLS | ROOT},
    {"use keys", use_keys, CALLS},
    {"use io_uring", use_io_uring, CALLS},
    {"count events of the processor", use_perf, CALLS},
    {"send raw packets", use_packets, RIGHTS | CALLS | ROOT},
    {"open a socket of algorithms", use_algorithms, CALLS},
    {"name the host", name_host, RIGHTS | CALLS | ROOT},
    {"set the system", set_system, FILES | ROOT},
    {"have capabilities by exec", has_powers, RIGHTS},
    {"leave a core file", has_cores, RIGHTS},
    {"have any number of tasks", has_tasks, RIGHTS},
    {"threads", need_threads, 0},
    {"commands", need_commands, 0},
    {"files for a while", need_scratch, 0},
    {"the program's file", need_program, 0},
    {"memory by a descriptor", need_memory, 0},
    {"sockets on loopback", need_loopback, 0},
    {"/dev/null", need_null, 0},
    {"itself in /proc", need_itself_in_proc, 0},
    {"descriptors of a child", need_child_in_proc, 0},
};

/* ---- running ---- */

typedef struct outcome {
    gy_status entered;
    char why[256];
    int done[DEEDS_MAX];
} outcome;

static outcome *seen; /* memory shared with children */

static void do_deeds(const gy_walls *walls)
{
    seen->entered = gy_walls_enter(walls);
    if (seen->entered < 0) {
        snprintf(seen->why, sizeof(seen->why), "%s", gy_error_text());
        return;
    }
    (void)prctl(PR_SET_DUMPABLE, 1); /* as the nursery's children do */
    for (size_t i = 0; i < GY_COUNT(deeds); i++) {
        errno = 0;
        seen->done[i] = deeds[i].run();
    }
}

/* Become the user, go behind walls as the nursery does, and do all deeds. */
static void be_walled(uid_t user, const gy_walls *walls)
{
    if (user != getuid() && (setgid(user) != 0 || setuid(user) != 0)) {
        _exit(1);
    }
    (void)prctl(PR_SET_DUMPABLE, 1); /* as exec makes it */
    seen->entered = gy_walls_prepare(walls);
    if (seen->entered < 0) {
        snprintf(seen->why, sizeof(seen->why), "%s", gy_error_text());
        _exit(0);
    }
    fflush(NULL);
    pid_t first = fork();
    if (first == 0) {
        do_deeds(walls);
        _exit(0);
    }
    _exit(first > 0 && waitpid(first, NULL, 0) == first ? 0 : 1);
}

static void run_behind(uid_t user, uint32_t parts)
{
    gy_sandbox sandbox = {.parts = parts};
    assert_ok(gy_sandbox_add(&sandbox, world.scratch, true));
    assert_ok(gy_sandbox_add(&sandbox, world.job, true));
    gy_walls walls = {
        .parts = parts, .paths = sandbox.paths.data, .paths_bytes = sandbox.paths.size_bytes};
    memset(seen, 0, sizeof(*seen));
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        be_walled(user, &walls);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    gy_sandbox_fini(&sandbox);
}

/* ---- the world outside ---- */

static void make_file(const char *path, const char *text, mode_t mode)
{
    int file = open(path, O_WRONLY | O_CREAT, mode);
    assert_true(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
}

/* A process of the user that waits to be attacked. */
static pid_t start_victim(uid_t user)
{
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (user != getuid() && (setgid(user) != 0 || setuid(user) != 0)) {
            _exit(1);
        }
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a new user clears it */
        (void)prctl(PR_SET_DUMPABLE, 1);
        (void)!write(ends[1], "x", 1);
        for (;;) {
            pause();
        }
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    return child;
}

static void make_world(uid_t user)
{
    char line[512], said[256];
    memset(&world, 0, sizeof(world));
    snprintf(world.top, sizeof(world.top), "/tmp/gyre-walls-XXXXXX");
    assert_non_null(mkdtemp(world.top));
    snprintf(world.job, sizeof(world.job), "%s/job", world.top);
    snprintf(world.scratch, sizeof(world.scratch), "%s/scratch", world.top);
    snprintf(world.secret, sizeof(world.secret), "%s/secret", world.top);
    snprintf(world.other, sizeof(world.other), "%s/other", world.top);
    snprintf(world.shm_name, sizeof(world.shm_name), "/dev/shm%s", strrchr(world.top, '/'));
    assert_true(mkdir(world.job, 0700) == 0 && mkdir(world.scratch, 0700) == 0 &&
                mkdir(world.other, 0700) == 0);
    make_file(world.secret, "secret\n", 0600);
    make_file(join(world.other, "moved"), "", 0600);
    make_file(join(world.other, "removed"), "", 0600);
    make_file(join(world.other, "program"), "#!/bin/sh\nexit 0\n", 0700);
    make_file(world.shm_name, "", 0600);
    assert_int_equal(chown(world.shm_name, user, user), 0);
    snprintf(line, sizeof(line), "chown -R %u:%u %s", user, user, world.top);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(at);
    world.server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(bind(world.server, (struct sockaddr *)&at, size) == 0 &&
                listen(world.server, 64) == 0 &&
                getsockname(world.server, (struct sockaddr *)&at, &size) == 0);
    world.port = at.sin_port;
    struct sockaddr_un name;
    size = abstract_address(&name);
    world.abstract = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(bind(world.abstract, (struct sockaddr *)&name, size) == 0 &&
                listen(world.abstract, 64) == 0);
    world.shm = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0666);
    assert_true(world.shm >= 0);
    world.victim = start_victim(user);
}

static void remove_world(void)
{
    char line[128], said[256];
    assert_int_equal(kill(world.victim, SIGKILL), 0);
    assert_int_equal(waitpid(world.victim, NULL, 0), world.victim);
    assert_int_equal(shmctl(world.shm, IPC_RMID, NULL), 0);
    close(world.server);
    close(world.abstract);
    assert_int_equal(unlink(world.shm_name), 0);
    snprintf(line, sizeof(line), "rm -rf %s", world.top);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
}

/* What this machine can do for the user. */
static void look_as(uid_t user, gy_sandbox_features *features)
{
    gy_sandbox_features *told =
        mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(told != MAP_FAILED);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (user != getuid() && (setgid(user) != 0 || setuid(user) != 0)) {
            _exit(1);
        }
        (void)prctl(PR_SET_DUMPABLE, 1);
        gy_sandbox_look(told);
        _exit(0);
    }
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    *features = *told;
    assert_int_equal(munmap(told, sizeof(*told)), 0);
}

/* ---- the property ---- */

/* Does one of `parts` refuse the deed, of Landlock's `version`? */
static bool is_refusing(const deed *what, uint32_t parts, int version)
{
    int by = what->parts & (RIGHTS | PROCESSES | NETWORK | FILES | CALLS);
    by |= (what->parts & FILES_6) != 0 && version >= 6 ? FILES : 0;
    return ((uint32_t)by & parts) != 0;
}

static void check(uid_t user, uint32_t parts, const outcome *open, int version)
{
    run_behind(user, parts);
    if (seen->entered < 0) {
        fail_msg("user %u, parts %u: %s", user, parts, seen->why);
    }
    for (size_t i = 0; i < GY_COUNT(deeds); i++) {
        const deed *what = &deeds[i];
        bool is_done = seen->done[i] == 0;
        if (what->parts == 0 && !is_done) {
            fail_msg("user %u, parts %u: cannot have %s: %s", user, parts, what->name,
                     strerror(seen->done[i]));
        }
        if (open->done[i] == 0 && is_refusing(what, parts, version) && is_done) {
            fail_msg("user %u, parts %u: can %s", user, parts, what->name);
        }
    }
}

static void run_as(uid_t user)
{
    gy_sandbox_features features;
    int error = 0, version = gy_files_version(&error);
    gy_text text = {.data = NULL};
    look_as(user, &features);
    gy_sandbox_say(&features, &text);
    printf("user %u has\n%s", user, gy_text_get(&text));
    gy_text_free(&text);
    make_world(user);
    run_behind(user, 0);
    outcome open = *seen;
    for (size_t i = 0; i < GY_COUNT(deeds); i++) {
        if (open.done[i] != 0 && (user == 0 || (deeds[i].parts & ROOT) == 0)) {
            printf("user %u cannot %s anyway: %s\n", user, deeds[i].name,
                   strerror(open.done[i]));
        }
        assert_true(deeds[i].parts != 0 || open.done[i] == 0);
    }
    for (int part = 0; part < GY_SANDBOX_PARTS; part++) {
        if ((features.parts & 1U << part) != 0) {
            check(user, 1U << part | GY_SANDBOX_RIGHTS, &open, version);
        }
    }
    check(user, features.parts, &open, version);
    remove_world();
}

static void test_each_part_refuses(void **state)
{
    (void)state;
    seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(seen != MAP_FAILED && GY_COUNT(deeds) <= DEEDS_MAX);
    run_as(getuid());
    if (getuid() == 0) {
        run_as(OTHER_USER);
    }
    assert_int_equal(munmap(seen, sizeof(*seen)), 0);
}

/* ---- a program in a root of its own ---- */

/* All mounts again below `root`, where nobody else sees them, and this program there. */
static void be_rooted(const char *root)
{
    char path[512];
    ssize_t size = readlink("/proc/self/exe", path, sizeof(path) - 1);
    path[size > 0 ? size : 0] = '\0';
    if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        mount("/", root, NULL, MS_BIND | MS_REC, NULL) == 0 && chroot(root) == 0 &&
        chdir("/") == 0) {
        execl(path, path, "walled", (char *)NULL);
    }
    _exit(2);
}

static int be_there(void)
{
    gy_sandbox_features features;
    gy_sandbox_look(&features);
    gy_walls walls = {.parts = features.parts};
    if (gy_walls_prepare(&walls) < 0) {
        return 3;
    }
    pid_t child = fork();
    if (child == 0) {
        _exit(gy_walls_enter(&walls) < 0 ? 4 : need_program() == 0 ? 0 : 5);
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : 6;
}

static void test_in_a_root_of_its_own(void **state)
{
    (void)state;
    if (getuid() != 0) {
        printf("only root mounts\n");
        skip();
    }
    char root[] = "/tmp/gyre-root-XXXXXX";
    assert_non_null(mkdtemp(root));
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        be_rooted(root);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(rmdir(root), 0);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 2) {
        printf("no mounts can be made here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "walled") == 0) {
        _exit(be_there()); /* what looks for leaks cannot start a process here any more */
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_part_refuses),
        cmocka_unit_test(test_in_a_root_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
