/* Goal: each part of the sandbox alone refuses the actions it exists for, to root and to
 * others; without a sandbox the same actions succeed, and the actions that programs need
 * succeed with all parts. */
#include "worker/sandbox/deeds_test.h"

/* ---- the table ---- */

enum {
    RIGHTS = 1,
    PROCESSES = 2,
    NETWORK = 4,
    FILES = 8,
    CALLS = 16,
    FILES_6 = 32,
    ROOT = 64,
    TOGETHER = 128
};
#if defined(GYRE_ASAN)
enum { CALLS_TRACE = 0 };
#else
enum { CALLS_TRACE = CALLS };
#endif

typedef struct deed {
    const char *name;
    int (*run)(void);
    int parts; /* parts each of which refuses the action alone; TOGETHER: only all of them; 0:
                  must succeed with all. FILES_6: Landlock version 6; ROOT: only root may do it
                  anyway */
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
    {"connect to a socket outside", connect_to_other, PROCESSES | FILES | TOGETHER},
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
    {"the job's own socket", need_own_socket, 0},
    {"itself in /proc", need_itself_in_proc, 0},
    {"descriptors of a child", need_child_in_proc, 0},
};

/* ---- running ---- */

typedef struct outcome {
    gy_status entered;
    char why[256];
    int done[DEEDS_MAX];
} outcome;

static outcome *seen; /* shared memory for the children's results */

static void do_deeds(const gy_sandbox_paths *paths)
{
    seen->entered = gy_sandbox_enter(paths);
    if (seen->entered < 0) {
        snprintf(seen->why, sizeof(seen->why), "%s", gy_error_text());
        return;
    }
    (void)prctl(PR_SET_DUMPABLE, 1); /* as in the fork server's children */
    for (size_t i = 0; i < GY_COUNT(deeds); i++) {
        errno = 0;
        seen->done[i] = deeds[i].run();
    }
}

/* Become the user, enter a sandbox as the fork server does, and try all actions. */
static void be_walled(uid_t user, const gy_sandbox_paths *paths)
{
    if (user != getuid() && (setgid(user) != 0 || setuid(user) != 0)) {
        _exit(1);
    }
    (void)prctl(PR_SET_DUMPABLE, 1); /* the state after exec */
    seen->entered = gy_sandbox_prepare(paths);
    if (seen->entered < 0) {
        snprintf(seen->why, sizeof(seen->why), "%s", gy_error_text());
        _exit(0);
    }
    fflush(NULL);
    pid_t first = fork();
    if (first == 0) {
        do_deeds(paths);
        _exit(0);
    }
    _exit(first > 0 && waitpid(first, NULL, 0) == first ? 0 : 1);
}

static void run_behind(uid_t user, uint32_t parts)
{
    gy_sandbox sandbox = {.parts = parts};
    assert_ok(gy_sandbox_add(&sandbox, world.scratch, true));
    assert_ok(gy_sandbox_add(&sandbox, world.job, true));
    gy_sandbox_paths paths = {
        .parts = parts, .paths = sandbox.paths.data, .paths_bytes = sandbox.paths.size_bytes};
    memset(seen, 0, sizeof(*seen));
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        be_walled(user, &paths);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    gy_sandbox_fini(&sandbox);
}

/* ---- targets outside ---- */

static void make_file(const char *path, const char *text, mode_t mode)
{
    int file = open(path, O_WRONLY | O_CREAT, mode);
    assert_true(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
}

/* Start a process of the user as the target of attacks. */
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
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user clears it */
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

static int serve_named(const char *folder, uid_t user)
{
    const struct sockaddr_un name = named_address(folder);
    const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(bind(made, (const struct sockaddr *)&name, sizeof(name)) == 0 &&
                listen(made, 64) == 0 && chown(name.sun_path, user, user) == 0);
    return made;
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
    world.named = serve_named(world.other, user);
    world.own = serve_named(world.job, user);
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
    close(world.named);
    close(world.own);
    assert_int_equal(unlink(world.shm_name), 0);
    snprintf(line, sizeof(line), "rm -rf %s", world.top);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
}

/* What this machine supports for the user. */
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
        gy_sandbox_probe(told);
        _exit(0);
    }
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    *features = *told;
    assert_int_equal(munmap(told, sizeof(*told)), 0);
}

/* ---- the property that holds for all actions ---- */

/* Does one of `parts` refuse the action with Landlock version `version`? */
static bool is_refusing(const deed *what, uint32_t parts, int version)
{
    int by = what->parts & (RIGHTS | PROCESSES | NETWORK | FILES | CALLS);
    by |= (what->parts & FILES_6) != 0 && version >= 6 ? FILES : 0;
    return (what->parts & TOGETHER) != 0 ? ((uint32_t)by & parts) == (uint32_t)by
                                         : ((uint32_t)by & parts) != 0;
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
    int error = 0, version = gy_sandbox_files_version(&error);
    gy_text text = {.data = NULL};
    look_as(user, &features);
    gy_sandbox_describe(&features, &text);
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

GY_TEST(test_each_part_refuses)
{
    seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(seen != MAP_FAILED && GY_COUNT(deeds) <= DEEDS_MAX);
    run_as(getuid());
    if (getuid() == 0) {
        run_as(OTHER_USER);
    }
    assert_int_equal(munmap(seen, sizeof(*seen)), 0);
}

/* ---- a program in its own root ---- */

/* Bind all mounts below `root`, in a private namespace, and change this program's root to it.
 */
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
    gy_sandbox_probe(&features);
    gy_sandbox_paths paths = {.parts = features.parts};
    if (gy_sandbox_prepare(&paths) < 0) {
        return 3;
    }
    pid_t child = fork();
    if (child == 0) {
        _exit(gy_sandbox_enter(&paths) < 0 ? 4 : need_program() == 0 ? 0 : 5);
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : 6;
}

GY_TEST(test_in_a_root_of_its_own)
{
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
        _exit(be_there()); /* LeakSanitizer cannot start its process here any more */
    }
    return GY_TESTS_RUN(NULL, NULL);
}
