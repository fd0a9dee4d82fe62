/* Every schedule for up to 16 ranks, 64 micro-batches and 4 chunks is proved, and takes the
 * time, the bubble and the memory of the literature's formulas. */
#include "plan/pipe/pipe_priv.h"

#include "base/base.h"

#include "gy_test.h"

enum { RANKS = 16, MICROS = 64, CHUNKS = 4 };

static const gy_pipe_cost equal = {.forward = 1, .input = 1, .weight = 1};

/* Each of a sanitizer's sizes stands for its neighbours, which run the same lines. */
static bool is_taken(int ranks, int micros, int chunks)
{
    int every = (int)(gy_test_serial_cases(32) < 32 ? 32 / gy_test_serial_cases(32) : 1);
    return (ranks + micros + chunks) % every == 0;
}

/* A schedule that is proved; its step under `cost`, of ranks `each`. */
static gy_pipe_step play(const gy_pipe_query *query, const gy_pipe_cost *cost,
                         gy_pipe_rank *each)
{
    gy_pipe_schedule *schedule = NULL;
    gy_pipe_facts facts;
    gy_pipe_step step = {.ranks = each};
    assert_ok(gy_pipe_plan(query, &schedule));
    assert_ok(gy_pipe_check(schedule, &(gy_pipe_limits){.is_ordered = true}, &facts));
    assert_true(facts.is_ordered);
    int rounds = query->chunks > 1 ? GY_MAX(1, query->micros / query->ranks) : 1;
    int ahead = query->chunks > 1 ? GY_MAX(0, query->micros / rounds - query->ranks) + 2 : 1;
    assert_in_range(facts.buffers_min, 1, ahead);
    assert_ok(gy_pipe_simulate(schedule, cost, 1, &step));
    gy_pipe_free(schedule);
    return step;
}

/* Time and bubble to the bit: costs are integers, so all sums are exact. */
static void assert_bubble(const gy_pipe_query *query, const gy_pipe_step *step, int idle,
                          int busy)
{
    double bubble = (double)idle / (idle + busy);
    if (step->bubble != bubble) {
        fail_msg("%s of %d ranks, %d micro-batches, %d chunks: bubble %.17g, expected %.17g",
                 query->schedule, query->ranks, query->micros, query->chunks, step->bubble,
                 bubble);
    }
}

GY_TEST(gpipe_and_1f1b_have_their_bubble_and_memory)
{
    size_t count = 0;
    for (int p = 1; p <= RANKS; p++) {
        for (int m = 1; m <= MICROS; m++) {
            gy_pipe_rank each[RANKS];
            if (!is_taken(p, m, 0)) {
                continue;
            }
            gy_pipe_query query = {.schedule = "gpipe", .ranks = p, .micros = m, .chunks = 1};
            gy_pipe_step step = play(&query, &equal, each);
            assert_bubble(&query, &step, p - 1, m);
            assert_true(step.time_s == 3.0 * (m + p - 1));
            for (int rank = 0; rank < p; rank++) {
                assert_int_equal(each[rank].alive_max, m);
            }
            query.schedule = "1f1b";
            step = play(&query, &equal, each);
            assert_bubble(&query, &step, p - 1, m);
            for (int rank = 0; rank < p; rank++) {
                assert_int_equal(each[rank].alive_max, GY_MIN(m, p - rank));
            }
            count += 2;
        }
    }
    printf("soak: %zu schedules by gpipe and 1f1b\n", count);
}

GY_TEST(interleaved_has_its_bubble)
{
    size_t count = 0;
    for (int p = 1; p <= RANKS; p++) {
        for (int m = p; m <= MICROS; m++) {
            for (int v = 1; v <= CHUNKS; v++) {
                if (m % (m / p) != 0 || !is_taken(p, m, v)) {
                    continue;
                }
                gy_pipe_query query = {"interleaved", p, m, v};
                gy_pipe_step step = play(&query, &equal, NULL);
                assert_bubble(&query, &step, p - 1, v * m);
                count++;
            }
        }
    }
    printf("soak: %zu schedules by interleaved\n", count);
}

GY_TEST(zero_bubble_waits_for_forward_alone)
{
    size_t count = 0;
    for (int p = 1; p <= RANKS; p++) {
        for (int m = 1; m <= MICROS; m++) {
            gy_pipe_rank each[RANKS];
            if (!is_taken(p, m, 0)) {
                continue;
            }
            gy_pipe_query query = {.schedule = "zb-h1", .ranks = p, .micros = m, .chunks = 1};
            gy_pipe_step step = play(&query, &equal, each);
            if (m >= p) {
                assert_bubble(&query, &step, p - 1, 3 * m);
            } else {
                assert_true(step.time_s <= 3.0 * (m + p - 1));
            }
            for (int rank = 0; rank < p; rank++) {
                assert_in_range(each[rank].alive_max, 1, GY_MIN(m, p));
            }
            count++;
        }
    }
    printf("soak: %zu schedules by zb-h1\n", count);
}

/* Fewer micro-batches than ranks, in one round: proved, and the bubble is no smaller. */
GY_TEST(interleaved_takes_few_micro_batches)
{
    for (int p = 2; p <= RANKS; p++) {
        for (int m = 1; m < p; m++) {
            for (int v = 2; v <= CHUNKS; v++) {
                gy_pipe_query query = {"interleaved", p, m, v};
                gy_pipe_step step = play(&query, &equal, NULL);
                assert_true(step.bubble >= (p - 1.0) / (v * m + p - 1));
            }
        }
    }
}

GY_TEST(costs_of_stages_and_transfers_count)
{
    gy_pipe_schedule *schedule = NULL;
    gy_pipe_rank each[2];
    gy_pipe_span spans[20];
    gy_pipe_step step = {.ranks = each, .spans = spans};
    const gy_pipe_cost costs[] = {
        {.forward = 1, .input = 1, .weight = 1, .send = 0.5, .send_bytes = 8, .held_bytes = 3},
        {.forward = 2, .input = 2, .weight = 2, .send = 0.25, .send_bytes = 4, .held_bytes = 5},
    };
    assert_ok(gy_pipe_plan(&(gy_pipe_query){"1f1b", 2, 2, 1}, &schedule));
    assert_int_equal(gy_pipe_length(schedule), 18);
    assert_ok(gy_pipe_simulate(schedule, costs, 2, &step));
    /* F of 0 ends at 1, arrives at 1.5; rank 1 computes 2 x (2 + 4) without a wait; its last
     * gradient arrives at 13.75, and rank 0 goes back in 2. */
    assert_true(step.time_s == 15.75);
    assert_true(each[0].busy_s == 6 && each[1].busy_s == 12 && each[1].end_s == 13.5);
    assert_true(step.bubble == (2 * 15.75 - 18) / (2 * 15.75));
    assert_int_equal(each[0].sent_bytes, 16);
    assert_int_equal(each[1].sent_bytes, 8);
    assert_int_equal(each[0].held_max, 6);
    assert_int_equal(each[1].held_max, 5);
    assert_true(spans[0].begin_s == 0 && spans[0].end_s == 1);
    assert_status(gy_pipe_simulate(schedule, costs, 3, &step), GY_ARG);
    assert_status(gy_pipe_simulate(schedule, &(gy_pipe_cost){.send = -1}, 1, &step), GY_ARG);
    gy_pipe_free(schedule);
    /* A link carries one message at a time: the second of two waits for the first. */
    assert_ok(gy_pipe_plan(&(gy_pipe_query){"gpipe", 2, 2, 1}, &schedule));
    assert_ok(gy_pipe_simulate(schedule, &(gy_pipe_cost){.forward = 1, .input = 1, .send = 10},
                               1, &step));
    assert_true(step.time_s == 1 + 10 + 10 + 1 + 1 + 10 + 10 + 1);
    gy_pipe_free(schedule);
}

static void refuse(const gy_pipe_query *query, const char *text)
{
    gy_pipe_schedule *schedule = NULL;
    assert_status(gy_pipe_plan(query, &schedule), GY_ARG);
    assert_null(schedule);
    if (strstr(gy_error_text(), text) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", text, gy_error_text());
    }
}

GY_TEST(sizes_that_a_schedule_does_not_allow_are_refused)
{
    refuse(&(gy_pipe_query){"2f2b", 2, 2, 1}, "gpipe, 1f1b, interleaved, zb-h1");
    refuse(&(gy_pipe_query){NULL, 2, 2, 1}, "there are gpipe");
    refuse(&(gy_pipe_query){"1f1b", 0, 2, 1}, "0 stages");
    refuse(&(gy_pipe_query){"1f1b", 1025, 2, 1}, "1025 stages");
    refuse(&(gy_pipe_query){"1f1b", 2, 0, 1}, "0 micro-batches");
    refuse(&(gy_pipe_query){"1f1b", 2, 2, 2}, "1f1b takes 1 chunk a rank, not 2");
    refuse(&(gy_pipe_query){"interleaved", 2, 2, -1}, "not -1");
    refuse(&(gy_pipe_query){"1f1b", 1024, 1025, 1}, "product up to");
    refuse(&(gy_pipe_query){"interleaved", 2, 1, 1 << 30}, "product up to");
    refuse(&(gy_pipe_query){"interleaved", 4, 9, 2},
           "9 micro-batches in 2 rounds, which they do not divide into: expected 8 or 10");
    refuse(&(gy_pipe_query){"interleaved", 2, 9, 2},
           "9 micro-batches in 4 rounds, which they do not divide into: expected 8 or 10");
}

GY_TEST(no_memory_is_no_schedule)
{
    gy_pipe_query query = {"interleaved", 3, 6, 2};
    gy_status status = GY_NOMEM;
    for (int n = 1; status != GY_OK; n++) {
        gy_pipe_schedule *schedule = NULL;
        gy_pipe_step step = {.ranks = NULL};
        int64_t live = gy_alloc_live();
        gy_alloc_fail_after(n);
        status = gy_pipe_plan(&query, &schedule);
        if (status == GY_OK) {
            status = gy_pipe_simulate(schedule, &equal, 1, &step);
        }
        gy_alloc_fail_after(0);
        assert_true(status == GY_OK || status == GY_NOMEM);
        gy_pipe_free(schedule);
        assert_int_equal(gy_alloc_live(), live);
        assert_in_range(n, 1, 1000);
    }
}

GY_TEST_MAIN(NULL, NULL)
