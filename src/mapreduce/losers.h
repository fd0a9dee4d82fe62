/**
 * A tree of losers over sources that have a word each: it determines which source comes next.
 *
 *   winner           nodes[0] is the source whose item comes next; nodes[1..k-1] hold the
 *     1              losers of the matches on the way up; leaves are sources. When the
 *    / \             winner's word has changed, only the matches above its leaf are replayed:
 *   2   3            one comparison a level, of words except for ties, and without a branch,
 *  / \ / \           because which of two sources comes first cannot be predicted.
 *  a b c d
 *
 * @source Knuth, The Art of Computer Programming 3, 5.4.1
 */
#ifndef GY_MAPREDUCE_LOSERS_H
#define GY_MAPREDUCE_LOSERS_H

#include "base/base.h"

typedef struct gy_losers {
    size_t count;
    uint64_t *words; /* (count) the smallest comes next; UINT64_MAX for a source at its end */
    uint32_t *nodes; /* (count + 1) */
} gy_losers;

/** Whether source a comes before b when their words are equal; also for sources at their
 * end. */
typedef bool (*gy_losers_tie)(const void *arg, uint32_t a, uint32_t b);

/** Make a tree; the words are zero at first. GY_NOMEM */
GY_MUST_CHECK static inline gy_status gy_losers_init(gy_losers *tree, size_t count)
{
    GY_ASSERT(count < UINT32_MAX);
    *tree = (gy_losers){.count = count};
    tree->words = gy_alloc_zero("mapreduce.losers", count, sizeof(*tree->words));
    tree->nodes = gy_alloc_zero("mapreduce.losers", count + 1, sizeof(*tree->nodes));
    return tree->words == NULL || tree->nodes == NULL ? GY_NOMEM : GY_OK;
}

static inline void gy_losers_fini(gy_losers *tree)
{
    gy_free(tree->words);
    gy_free(tree->nodes);
}

static inline uint32_t gy_losers_first(const gy_losers *tree)
{
    return tree->nodes[0];
}

/** Replay the matches from the winner's leaf to the root after the winner's word has
 * changed. */
static inline void gy_losers_replay(gy_losers *tree, gy_losers_tie tie, const void *arg)
{
    uint32_t winner = tree->nodes[0];
    uint64_t word = tree->words[winner];
    for (size_t node = (tree->count + winner) / 2; node > 0; node /= 2) {
        const uint32_t other = tree->nodes[node];
        const uint64_t other_word = tree->words[other];
        bool is_other = other_word < word;
        if (__builtin_expect(other_word == word, 0)) {
            is_other = tie(arg, other, winner);
        }
        const uint32_t swap = (other ^ winner) & (0 - (uint32_t)is_other);
        tree->nodes[node] = other ^ swap;
        winner ^= swap;
        word ^= (other_word ^ word) & (0 - (uint64_t)is_other);
    }
    tree->nodes[0] = winner;
}

/**
 * Whether another source has the winner's word: such a source lost directly to the winner. For
 * UINT64_MAX, sources at their end count too.
 */
static inline bool gy_losers_has_equal(const gy_losers *tree)
{
    const uint32_t winner = tree->nodes[0];
    const uint64_t word = tree->words[winner];
    bool has = false;
    for (size_t node = (tree->count + winner) / 2; node > 0; node /= 2) {
        has |= tree->words[tree->nodes[node]] == word;
    }
    return has;
}

/* Play the matches below a node and return the winner; the losers stay in the nodes. */
static inline uint32_t gy_losers_play_below(gy_losers *tree, size_t node, gy_losers_tie tie,
                                            const void *arg)
{
    if (node >= tree->count) {
        return (uint32_t)(node - tree->count);
    }
    const uint32_t left = gy_losers_play_below(tree, 2 * node, tie, arg),
                   right = gy_losers_play_below(tree, 2 * node + 1, tie, arg);
    const uint64_t left_word = tree->words[left], right_word = tree->words[right];
    const bool is_left =
        left_word != right_word ? left_word < right_word : tie(arg, left, right);
    tree->nodes[node] = is_left ? right : left;
    return is_left ? left : right;
}

/** Play all matches after all words are set. */
static inline void gy_losers_play(gy_losers *tree, gy_losers_tie tie, const void *arg)
{
    tree->nodes[0] = tree->count < 2 ? 0 : gy_losers_play_below(tree, 1, tie, arg);
}

#endif
