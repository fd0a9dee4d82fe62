/* Goal: limits hold without control groups too; groups of jobs whose processes were all killed
 * are removed, and no others. */
#include "driver/job_test.h"

#include <sys/mman.h>
#include <sys/resource.h>

/* Run in a child with the limit; its exit status. */
static int run_limited(const gy_limits *limits, int (*run)(void))
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(gy_limits_enter(limits, 0) == 0 ? run() : 100);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static bool can_map(size_t size_bytes, int flags)
{
    return mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED;
}

static int map_some(void)
{
    bool is_under = can_map((size_t)64 << 20, MAP_PRIVATE | MAP_ANONYMOUS);
    bool is_over = can_map((size_t)1 << 30, MAP_PRIVATE | MAP_ANONYMOUS);
    /* Shared memory, as for inputs and FIFOs, does not count. */
    bool is_shared = can_map((size_t)1 << 30, MAP_SHARED | MAP_ANONYMOUS);
    return is_under && !is_over && is_shared ? 0 : 1;
}

GY_TEST(test_memory_without_groups)
{
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    printf("a sanitizer needs more than a limit\n");
    skip();
#endif
    gy_limits limits = {.memory_bytes = (size_t)256 << 20, .processes = 1};
    assert_int_equal(run_limited(&limits, map_some), 0);
}

static int read_processes(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur <= 16384 ? 0 : 1;
}

GY_TEST(test_processes_without_groups)
{
    gy_limits limits = {.processes = 1};
    assert_int_equal(run_limited(&limits, read_processes), 0);
}

/* ---- Groups that are left ---- */

GY_TEST(test_groups_of_the_dead_go)
{
    gy_limits left;
    char inside[600];
    if (!gy_test_leave_groups(&left)) {
        skip();
    }
    /* Of a job started by a process of that job. */
    snprintf(inside, sizeof(inside), "%s%s", left.pids, strrchr(left.pids, '/'));
    assert_int_equal(mkdir(inside, 0700), 0);
    gy_limits_collect();
    assert_false(gy_test_has_groups(&left));
}

/* A process in the groups of a dead one, until this end of the socket closes. */
static int occupy(const gy_limits *left)
{
    int ends[2];
    char byte = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char path[600];
        close(ends[0]);
        snprintf(path, sizeof(path), "%s/tasks", left->pids);
        const int tasks = open(path, O_WRONLY);
        byte = tasks >= 0 && write(tasks, "0", 1) == 1;
        (void)write(ends[1], &byte, 1);
        _exit(read(ends[1], &byte, 1) == 0 ? 0 : 1);
    }
    close(ends[1]);
    assert_true(read(ends[0], &byte, 1) == 1 && byte == 1);
    return ends[0];
}

GY_TEST(test_groups_of_the_living_stay)
{
    gy_limits left;
    char others[4][600];
    if (!gy_test_leave_groups(&left)) {
        skip();
    }
    /* The number is no process here, but the group is not empty: the memory group stays too. */
    const int socket = occupy(&left);
    const int place = (int)(strrchr(left.pids, '/') - left.pids);
    snprintf(others[0], sizeof(others[0]), "%.*s/gyre-%d", place, left.pids, (int)getpid());
    snprintf(others[1], sizeof(others[1]), "%s-x", left.pids);
    snprintf(others[2], sizeof(others[2]), "%.*s/gyre-0%s", place, left.pids,
             strrchr(left.pids, '-') + 1);
    snprintf(others[3], sizeof(others[3]), "%.*s/x%s", place, left.pids,
             strrchr(left.pids, '/') + 1);
    for (size_t i = 0; i < GY_COUNT(others); i++) {
        assert_int_equal(mkdir(others[i], 0700), 0);
    }
    gy_limits_collect();
    assert_int_equal(access(left.pids, F_OK), 0);
    if (left.memory[0] != '\0') {
        char slot[600];
        snprintf(slot, sizeof(slot), "%s/1", left.memory);
        assert_int_equal(access(slot, F_OK), 0);
    }
    for (size_t i = 0; i < GY_COUNT(others); i++) {
        assert_int_equal(rmdir(others[i]), 0);
    }
    close(socket);
    assert_true(wait(NULL) > 0);
    gy_limits_collect();
    assert_false(gy_test_has_groups(&left));
}

GY_TEST_MAIN(NULL, NULL)
