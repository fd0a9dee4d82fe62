/* Goal: a tree of losers gives sources in the order of their words, ties as told, and knows
 * ties. */
#include "mapreduce/losers.h"

#include "gy_test.h"

enum { SOURCES_MOST = 40, EACH = 30, TRIALS = 400 };

typedef struct sources {
    uint64_t words[SOURCES_MOST][EACH + 1];
    uint32_t ranks[SOURCES_MOST]; /* the order of ties */
    size_t at[SOURCES_MOST], sizes[SOURCES_MOST];
} sources;

static bool is_before(const void *arg, uint32_t a, uint32_t b)
{
    const sources *of = arg;
    const bool a_ended = of->at[a] == of->sizes[a], b_ended = of->at[b] == of->sizes[b];
    return a_ended != b_ended ? b_ended : of->ranks[a] < of->ranks[b];
}

/* The source that comes next by looking at all; -1: all are at their end. */
static int first_of(const sources *of, size_t count, bool *has_equal)
{
    int first = -1;
    for (size_t i = 0; i < count; i++) {
        const uint64_t word = of->words[i][of->at[i]];
        if (of->at[i] == of->sizes[i]) {
            continue;
        }
        if (first < 0 || word < of->words[first][of->at[first]] ||
            (word == of->words[first][of->at[first]] && of->ranks[i] < of->ranks[first])) {
            first = (int)i;
        }
    }
    *has_equal = false;
    for (size_t i = 0; first >= 0 && i < count; i++) {
        *has_equal = *has_equal || ((int)i != first &&
                                    of->words[i][of->at[i]] == of->words[first][of->at[first]]);
    }
    return first;
}

static uint64_t chance(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Few words, so that many tie; some are the last there is, as at the end. */
static void fill(sources *of, size_t count, uint64_t *state)
{
    for (size_t i = 0; i < count; i++) {
        of->at[i] = 0;
        of->sizes[i] = chance(state) % (EACH + 1);
        of->ranks[i] = (uint32_t)(i * 7 % count * 64 + i);
        const size_t last = of->sizes[i] - (of->sizes[i] > 0 && chance(state) % 4 == 0);
        uint64_t word = 0;
        for (size_t j = 0; j < of->sizes[i]; j++) {
            word += chance(state) % 3;
            of->words[i][j] = j < last ? word : UINT64_MAX;
        }
        of->words[i][of->sizes[i]] = UINT64_MAX;
    }
}

GY_TEST(test_order)
{
    static sources of;
    uint64_t seed = gy_test_seed();
    for (int trial = 0; trial < TRIALS; trial++) {
        const size_t count = 1 + chance(&seed) % SOURCES_MOST;
        fill(&of, count, &seed);
        gy_losers tree;
        assert_int_equal(gy_losers_init(&tree, count), GY_OK);
        for (size_t i = 0; i < count; i++) {
            tree.words[i] = of.words[i][0];
        }
        gy_losers_play(&tree, is_before, &of);
        bool has_equal = false;
        for (int first; (first = first_of(&of, count, &has_equal)) >= 0;) {
            assert_int_equal(gy_losers_first(&tree), first);
            assert_int_equal(gy_losers_has_equal(&tree), has_equal);
            of.at[first]++;
            tree.words[first] = of.words[first][of.at[first]];
            gy_losers_replay(&tree, is_before, &of);
        }
        gy_losers_fini(&tree);
    }
}

GY_TEST_MAIN(NULL, NULL)
