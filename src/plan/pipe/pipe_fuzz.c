/* Fuzz target: any bytes as lists of a pipeline are refused, or are lists that the checker can
 * take, and that are the same once printed and read again. */
#include "plan/pipe/pipe_priv.h"

#include "base/base.h"

#include <string.h>

/* NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gy_pipe_schedule *schedule = NULL, *again = NULL;
    gy_pipe_facts facts;
    char *text = NULL, *other = NULL;
    if (gy_pipe_parse((const char *)data, size, "fuzz", &schedule) != GY_OK) {
        return 0;
    }
    if (gy_pipe_check(schedule, NULL, &facts) == GY_OK) {
        GY_ASSERT(facts.alive_max >= 1 && facts.buffers_min >= 1);
        GY_ASSERT(gy_pipe_print(schedule, GY_PIPE_ALL, &text) == GY_OK);
        GY_ASSERT(gy_pipe_parse(text, strlen(text), "fuzz", &again) == GY_OK);
        GY_ASSERT(gy_pipe_print(again, GY_PIPE_ALL, &other) == GY_OK);
        GY_ASSERT(strcmp(text, other) == 0);
    }
#ifdef GYRE_PLANTED_BUG
    /* as if there were never more than four stages */
    int32_t *counts = gy_alloc_zero("fuzz", 4, sizeof(*counts));
    for (int stage = 0; counts != NULL && stage < schedule->stages && stage < 64; stage++) {
        ((volatile int32_t *)counts)[stage]++;
    }
    gy_free(counts);
#endif
    gy_string_free(text);
    gy_string_free(other);
    gy_pipe_free(schedule);
    gy_pipe_free(again);
    return 0;
}
