/* Goal: an engine whose threads cannot all be started leaves none of them, nor memory. */
#include "engine/engine_priv.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "gy_test.h"

/* Threads beside those that there is room for: none stays, and the next engine works. */
GY_TEST(threads_that_cannot_start_leave_nothing)
{
    enum { MANY = 64 };
    struct rlimit before;
    gy_engine *engine = NULL;
    int64_t live = gy_alloc_live();
    long pages = 0;
    if (gy_test_cases(8) == 1) {
        printf("skipped: sanitizers take address space of their own\n");
        skip();
    }
    assert_ok(gy_engine_new(&(gy_engine_options){.workers = 2}, &engine));
    gy_engine_free(engine);
    engine = NULL;
    FILE *file = fopen("/proc/self/statm", "rb");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld", &pages), 1);
    fclose(file);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    struct rlimit tight = {.rlim_cur = (rlim_t)pages * 4096 + ((rlim_t)160 << 20),
                           .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    gy_status status = gy_engine_new(&(gy_engine_options){.workers = MANY}, &engine);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(status, GY_NOMEM);
    assert_non_null(strstr(gy_error_text(), "cannot start thread gyre-worker"));
    assert_null(engine);
    assert_int_equal(gy_alloc_live(), live);
    assert_ok(gy_engine_new(&(gy_engine_options){.workers = 3}, &engine));
    gy_engine_free(engine);
}

GY_TEST_MAIN(NULL, NULL)
