/* Goal: a model that hands state on from batch to batch has the update of the whole batch in
 * micro-batches, each of which hands on the state of its rows: on one rank, on meshes, by every
 * schedule of stages, after a resume on another mesh. */
#include "train/train_priv.h"

#include <stdlib.h>
#include <string.h>

#include "gy_test.h"
#include "training_story.h"

typedef struct trial {
    const char *axes, *schedule;
    int micros, chunks, accumulate, zero;
} trial;

static story story_of(const trial *t)
{
    return (story){.kind = LSTM,
                   .axes = t->axes,
                   .schedule = t->schedule,
                   .micros = t->micros,
                   .chunks = t->chunks,
                   .accumulate = t->accumulate,
                   .zero = t->zero};
}

/* Of each the whole batch on one rank is the measure; of the first `plain` without a soak. */
static void check(const trial *trials, size_t count, long plain)
{
    static story alone[2], once, again;
    const size_t cases = GY_MIN(count, (size_t)gy_test_cases(plain));
    for (size_t i = 0; i < cases; i++) {
        story *base = &alone[trials[i].accumulate - 1];
        if (base->axes == NULL) {
            *base = (story){.kind = LSTM, .axes = "data=1", .accumulate = trials[i].accumulate};
            (void)story_play(base);
        }
        once = story_of(&trials[i]);
        story_assert_same(base, &once, story_play(&once));
        if (i == 0) {
            again = once;
            (void)story_play(&again);
            assert_memory_equal(once.got, again.got, sizeof(once.got));
        }
    }
}

GY_TEST(micro_batches_of_one_rank_carry_their_rows)
{
    static const trial trials[] = {{"data=1", NULL, 3, 0, 1, 0},
                                   {"data=1", NULL, 2, 0, 2, 0},
                                   {"data=1", NULL, 9, 0, 1, 0},
                                   /* in the soak */
                                   {"data=1", NULL, 1, 0, 1, 0},
                                   {"data=1", NULL, 5, 0, 2, 0}};
    check(trials, GY_COUNT(trials), 3);
}

/* Of the rows of three micro-batches one of two ranks has three, the other four: no even cut.
 */
GY_TEST(ranks_carry_the_rows_of_their_parts)
{
    static const trial trials[] = {
        {"data=2", NULL, 3, 0, 1, 0}, {"data=3", NULL, 5, 0, 1, 1},
        {"auto=2", NULL, 2, 0, 1, 0}, /* in the soak */
        {"data=2", NULL, 9, 0, 2, 2}, {"data=2,model=2", NULL, 2, 0, 1, 2},
        {"model=2", NULL, 3, 0, 1, 0}};
    check(trials, GY_COUNT(trials), 3);
}

GY_TEST(stages_carry_by_every_schedule)
{
    static const trial trials[] = {
        {"pipe=2", "1f1b", 3, 0, 1, 0},         {"pipe=2", "interleaved", 2, 2, 1, 0},
        {"pipe=2", "gpipe", 9, 0, 1, 1},        {"pipe=3", "zb-h1", 5, 0, 1, 0},
        {"data=2,pipe=2", "1f1b", 5, 0, 1, 2}, /* in the soak */
        {"pipe=2", "interleaved", 4, 2, 2, 0},  {"data=2,pipe=2", "gpipe", 3, 0, 1, 1},
        {"pipe=2,model=2", "zb-h1", 2, 0, 1, 0}};
    check(trials, GY_COUNT(trials), 5);
}

/* Within an epoch, where state counts: what the second rank reads is written by it again. */
GY_TEST(checkpoints_go_on_on_other_meshes)
{
    static const trial trials[] = {{"data=2", NULL, 3, 0, 1, 1},
                                   {"data=2,pipe=2", "1f1b", 3, 0, 1, 0},
                                   {"data=1", NULL, 3, 0, 1, 0}};
    static story alone, part;
    char folder[] = "/tmp/gyre-carried-XXXXXX";
    int ranks = 0;
    assert_non_null(mkdtemp(folder));
    alone = (story){.kind = LSTM, .axes = "data=1", .accumulate = 1};
    (void)story_play(&alone);
    for (size_t i = 0; i < GY_COUNT(trials); i++) {
        part = story_of(&trials[i]);
        part.folder = folder;
        part.resumes = i > 0;
        part.limit = i + 1 < GY_COUNT(trials) ? (int64_t)i + 1 : 0;
        ranks = story_play(&part);
    }
    story_assert_same(&alone, &part, ranks);
    kit_remove_folder(folder);
}

/* A pattern is of parameters: state lies where the rows are, whatever it says, also in a
 * checkpoint. */
GY_TEST(pins_leave_what_batches_hand_on)
{
    static const gy_parameter_pin whole = {"*", "data", {.kind = GY_REPLICATE}};
    static const gy_parameter_pin parts = {"*", "data", {.kind = GY_SHARD}};
    static story alone, first, second;
    char folder[] = "/tmp/gyre-carried-XXXXXX";
    assert_non_null(mkdtemp(folder));
    alone = (story){.kind = LSTM, .axes = "data=1", .accumulate = 1};
    (void)story_play(&alone);
    first = (story){.kind = LSTM,
                    .axes = "data=2,model=2",
                    .zero = 2,
                    .accumulate = 1,
                    .micros = 3,
                    .pin = &whole,
                    .folder = folder,
                    .limit = 2};
    (void)story_play(&first);
    second = (story){.kind = LSTM,
                     .axes = "data=3",
                     .accumulate = 1,
                     .micros = 3,
                     .pin = &parts,
                     .folder = folder,
                     .resumes = true};
    story_assert_same(&alone, &second, story_play(&second));
    kit_remove_folder(folder);
}

GY_TEST_MAIN(NULL, NULL)
