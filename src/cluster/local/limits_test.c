/* Goal: limits hold also where there are no control groups. */
#include "cluster/local/local_priv.h"

#include "gy_test.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* In a child with the limit: its exit status. */
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
    /* What is shared, as inputs and FIFOs are, is not counted. */
    bool is_shared = can_map((size_t)1 << 30, MAP_SHARED | MAP_ANONYMOUS);
    return is_under && !is_over && is_shared ? 0 : 1;
}

static void test_memory_without_groups(void **state)
{
    (void)state;
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

static void test_processes_without_groups(void **state)
{
    (void)state;
    gy_limits limits = {.processes = 1};
    assert_int_equal(run_limited(&limits, read_processes), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_without_groups),
        cmocka_unit_test(test_processes_without_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
