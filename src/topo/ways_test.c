/* Whoever asks for less than the CPU has gets it. */
#include "topo/ways.h"

#include "gy_test.h"

/* In a process of its own, as the answer is kept. */
static gy_way best_with(const char *isa)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit((isa != NULL ? setenv("GYRE_ISA", isa, 1) : unsetenv("GYRE_ISA")) == 0
                  ? (int)gy_way_best()
                  : 99);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return (gy_way)WEXITSTATUS(status);
}

GY_TEST(less_is_taken_when_asked_for)
{
    gy_way most = best_with(NULL);
    assert_true(gy_way_is_here(most));
    for (gy_way way = (gy_way)(most + 1); way < GY_WAY_COUNT; way++) {
        assert_false(gy_way_is_here(way));
    }
    assert_int_equal(best_with("baseline"), GY_WAY_PLAIN);
    assert_int_equal(best_with("avx2"),
                     gy_way_is_here(GY_WAY_AVX2) ? GY_WAY_AVX2 : GY_WAY_PLAIN);
    assert_int_equal(best_with("avx512"), most);
    assert_int_equal(best_with("nonsense"), most); /* with a warning */
}

GY_TEST_MAIN(NULL, NULL)
