/* Goal: layers that are made again in micro-batches, by every schedule of stages, and of a
 * model that hands state on, have the bits of those that are held, dropout included; under a
 * limit `auto` makes again as few as it asks for. */
#include "train/train_priv.h"

#include <string.h>

#include "gy_test.h"
#include "training_story.h"

typedef struct trial {
    model_kind kind;
    const char *axes, *schedule;
    int micros, chunks;
} trial;

static story story_of(const trial *t)
{
    return (story){.kind = t->kind,
                   .axes = t->axes,
                   .schedule = t->schedule,
                   .micros = t->micros,
                   .chunks = t->chunks,
                   .accumulate = 1,
                   .predicts = true};
}

static void assert_same_bits(const story *held, const story *again, int ranks)
{
    for (int rank = 0; rank < ranks; rank++) {
        assert_int_equal(held->got[rank].count, again->got[rank].count);
        if (memcmp(held->got[rank].losses, again->got[rank].losses,
                   sizeof(held->got[rank].losses)) != 0 ||
            memcmp(held->got[rank].values, again->got[rank].values,
                   (size_t)held->got[rank].count * sizeof(double)) != 0) {
            fail_msg("model %d, %s, %s, %d micro-batches, rank %d: other bits when made again: "
                     "loss %.17g and %.17g",
                     (int)held->kind, held->axes, held->schedule, held->micros, rank,
                     held->got[rank].losses[STEPS - 1], again->got[rank].losses[STEPS - 1]);
        }
    }
}

static const trial trials[] = {
    {GPT, "pipe=2", "gpipe", 2, 0},
    {LSTM, "data=1", NULL, 0, 0},
    {GPT, "pipe=2", "zb-h1", 3, 0},
    {LSTM, "pipe=2", "1f1b", 3, 0},
    {GPT, "pipe=2", "interleaved", 2, 2},
    {LSTM, "data=1", NULL, 2, 0},
    {GPT, "pipe=2", "1f1b", 3, 0},
    /* in the soak */
    {GPT, "pipe=2", "1f1b", 2, 0},
    {GPT, "pipe=2", "gpipe", 3, 0},
    {GPT, "pipe=2", "zb-h1", 2, 0},
    {GPT, "data=2,pipe=2", "1f1b", 3, 0},
    {LSTM, "pipe=2", "gpipe", 2, 0},
    {LSTM, "pipe=2", "zb-h1", 3, 0},
    {LSTM, "pipe=2", "interleaved", 2, 2},
    {LSTM, "data=2", NULL, 3, 0},
    {LSTM, "pipe=2", NULL, 0, 0},
    {IMAGES, "pipe=2", "1f1b", 3, 0},
    {MLP, "pipe=2", "interleaved", 2, 2},
};

#if defined(GYRE_TSAN) || defined(GYRE_ASAN)
enum { TRIALS = 2 };
#else
enum { TRIALS = 7 };
#endif

GY_TEST(layers_made_again_by_schedules_have_the_same_bits)
{
    static story held, again;
    const size_t count = GY_MIN((size_t)gy_test_cases(TRIALS), GY_COUNT(trials));
    for (size_t i = 0; i < count; i++) {
        held = story_of(&trials[i]);
        again = held;
        again.recompute = GY_RECOMPUTE_LAYERS;
        const int ranks = story_play(&held);
        (void)story_play(&again);
        printf("model %d, %s, %s, %d micro-batches: %d chunks made again\n", (int)held.kind,
               held.axes, held.schedule != NULL ? held.schedule : "-", held.micros,
               again.got[0].recomputed);
        assert_int_equal(held.got[0].recomputed, 0);
        assert_true(again.got[0].recomputed > 0 || held.kind < GPT);
        assert_same_bits(&held, &again, ranks);
    }
}

GY_TEST_MAIN(NULL, NULL)
