/**
 * The main of tests that run jobs of their own `functions`: the test program is its own vertex
 * process, and `flow` is open while the tests run. `prepare` is called before them, but not by
 * a vertex process.
 */
#ifndef GY_FLOW_MAIN_H
#define GY_FLOW_MAIN_H

#include <gyre/flow.h>

#include "gy_test.h"

static gy_flow *flow;

#define FLOW_TEST_MAIN(prepare, begin, end)                                                    \
    int main(int argc, char **argv)                                                            \
    {                                                                                          \
        const gy_status started =                                                              \
            gy_flow_start(&argc, &argv, functions, (int)GY_COUNT(functions), &flow);           \
        if (started != GY_OK) {                                                                \
            return started < 0; /* > 0: it was a vertex process, and has served */             \
        }                                                                                      \
        prepare;                                                                               \
        const int failed = GY_TESTS_RUN(begin, end);                                           \
        gy_flow_end(flow);                                                                     \
        return failed;                                                                         \
    }

#endif
