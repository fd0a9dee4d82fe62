/* Goal: whatever order the steps of managers with several epochs come in, whoever dies and
 * whatever the disk does: what one was told stands is what all later ones find, and no two
 * believe in different journals. */
#include "journal_world.h"

#include <time.h>

#include "hunt_kit.h"

static world *new_world(void)
{
    world *at = test_calloc(1, sizeof(*at));
    gy_log_set_level(GY_LOG_ERROR);
    gy_journal_planted = GY_JOURNAL_PLANT_NONE;
    at->is_traced = getenv("GYRE_TEST_TRACE") != NULL;
    return at;
}

/* ---- every order of a few steps ---- */

/* Who makes the n-th step: the first, unless it is one of these. Beyond them all runs out. */
enum { TURNS_MAX = 40 };

static void run_out(world *at)
{
    for (int i = 0; i < at->manager_count; i++) {
        while (!is_done(&at->managers[i])) {
            world_step(at, i);
        }
    }
}

/* Manager 1 has opened and writes; manager 2 opens, seals and writes. `turn` [k]: before which
 * step of manager 2 the k-th of manager 1 is made. */
static void tell_order(world *at, const int *turn, int turns)
{
    world_begin(at, 1, 2);
    while (at->managers[0].own_file < 0) {
        world_step(at, 0);
    }
    int made = 0;
    for (int k = 0; k < turns; k++) {
        for (; made < turn[k] && !is_done(&at->managers[1]); made++) {
            world_step(at, 1);
        }
        if (!is_done(&at->managers[0])) {
            world_step(at, 0);
        }
    }
    while (!is_done(&at->managers[1])) {
        world_step(at, 1);
    }
    run_out(at);
    world_end(at);
}

/* The next one of all rising sequences of `turns` numbers up to `most`. */
static bool next_order(int *turn, int turns, int most)
{
    int at = turns - 1;
    while (at >= 0 && turn[at] == most) {
        at--;
    }
    if (at < 0) {
        return false;
    }
    int value = turn[at] + 1;
    for (; at < turns; at++) {
        turn[at] = value;
    }
    return true;
}

GY_TEST(test_every_order_of_two)
{
    enum { STEPS = 6, MOST = 22 }; /* of manager 1; of manager 2 */
    world *at = new_world();
    int turn[STEPS] = {0};
    long told = 0, tried = 0, every = 400000 / gy_test_serial_cases(4000);
    clock_t begun = clock();
    do {
        if (tried++ % every == 0) {
            tell_order(at, turn, STEPS);
            told++;
        }
    } while (at->wrong[0] == '\0' && next_order(turn, STEPS, MOST));
    double seconds = (double)(clock() - begun) / CLOCKS_PER_SEC;
    printf("soak: %ld of %ld orders of two managers, %.0f a second: %llu acknowledged, %llu "
           "were over\n",
           told, tried, (double)told / seconds, (unsigned long long)at->acknowledged,
           (unsigned long long)at->superseded);
    if (at->wrong[0] != '\0') {
        fail_msg("order %d %d %d %d %d %d: %s", turn[0], turn[1], turn[2], turn[3], turn[4],
                 turn[5], at->wrong);
    }
    assert_true(at->superseded > 0);
    world_free(at);
}

/* Three managers, who take turns at up to three moments: each runs until there. */
static void tell_turns(world *at, const int *moment, int first)
{
    world_begin(at, 1, 3);
    int who = first;
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < moment[k] && !is_done(&at->managers[who]); i++) {
            world_step(at, who);
        }
        who = (who + 1 + (k & first & 1)) % 3;
    }
    run_out(at);
    world_end(at);
}

GY_TEST(test_turns_of_three)
{
    enum { MOST = 26 };
    world *at = new_world();
    long told = 0, every = 1371000 / gy_test_serial_cases(3000), tried = 0;
    int moment[4] = {0};
    for (int first = 0; first < 3; first++) {
        for (int code = 0; code < MOST * MOST * MOST * MOST && at->wrong[0] == '\0'; code++) {
            for (int k = 0, rest = code; k < 4; k++, rest /= MOST) {
                moment[k] = rest % MOST;
            }
            if (tried++ % every == 0) {
                tell_turns(at, moment, first);
                told++;
            }
        }
        if (at->wrong[0] != '\0') {
            fail_msg("first %d, turns %d %d %d %d: %s", first, moment[0], moment[1], moment[2],
                     moment[3], at->wrong);
        }
    }
    printf("soak: %ld of %ld turns of three managers\n", told, tried);
    world_free(at);
}

/* ---- stories from a seed ---- */

/* One of those that can go on, mostly the one of before. -1: all are done. */
static int choose(world *at, int before)
{
    int can[MANAGERS], count = 0;
    for (int i = 0; i < at->manager_count; i++) {
        if (!is_done(&at->managers[i])) {
            can[count++] = i;
        }
    }
    if (count == 0) {
        return -1;
    }
    bool stays = before >= 0 && !is_done(&at->managers[before]);
    return stays && gy_random_below(&at->chance, 4) != 0
               ? before
               : can[gy_random_below(&at->chance, (uint64_t)count)];
}

/* What may come at a moment of a story. */
static void disturb(world *at, uint64_t kind)
{
    int who = (int)gy_random_below(&at->chance, (uint64_t)at->manager_count);
    for (int i = 0; i < at->manager_count && kind == 0; i++) { /* who removes is worth most */
        who = at->managers[i].is_removing && !is_done(&at->managers[i]) ? i : who;
    }
    if (kind == 0 && at->managers[who].is_started) {
        world_kill(at, who);
    } else if (kind == 1) {
        at->is_quiet = false;
        world_crash(at);
    } else if (kind == 2) {
        at->is_quiet = false;
        at->managers[who].lies_next = true;
    } else if (kind == 3) {
        uint64_t room = gy_random_below(&at->chance, 3000);
        at->is_quiet = false;
        gy_sim_set_faults(at->sim, 0, &(gy_sim_faults){.capacity_bytes = 1 + room});
    } else if (kind == 4) {
        at->is_quiet = false;
        gy_sim_set_faults(at->sim, 0, &(gy_sim_faults){.read_error = 0.1, .write_error = 0.1});
    } else if (kind == 5) {
        gy_sim_set_faults(at->sim, 0, &(gy_sim_faults){.capacity_bytes = 0});
    }
}

static void tell_story(world *at, uint64_t seed)
{
    enum { CALM = 6 };
    world_begin(at, seed, 2 + (int)(seed % (MANAGERS - 1)));
    at->is_cached = gy_random_below(&at->chance, 2) == 0;
    at->is_store = gy_random_below(&at->chance, 3) == 0;
    uint64_t unrest = gy_random_below(&at->chance, 3); /* how often something comes */
    for (int i = 0; i < at->manager_count; i++) {
        at->managers[i].rounds = 1 + (int)gy_random_below(&at->chance, ROUNDS_MAX);
        at->managers[i].ends_job = gy_random_below(&at->chance, 4) == 0;
    }
    if (gy_random_below(&at->chance, 8) == 0) { /* somebody gave an epoch to two */
        at->managers[at->manager_count - 1].epoch--;
        at->is_quiet = false;
    }
    int who = 0;
    for (int step = 0; who >= 0 && at->wrong[0] == '\0'; step++) {
        world_step(at, who);
        if (unrest > 0 && gy_random_below(&at->chance, unrest == 1 ? 60 : 15) == 0) {
            disturb(at, gy_random_below(&at->chance, CALM));
        }
        who = choose(at, who);
    }
    for (int i = 0; i < at->manager_count; i++) {
        world_kill(at, i); /* of a story that went wrong */
    }
    world_end(at);
}

GY_TEST(test_stories)
{
    world *at = new_world();
    uint64_t first = gy_test_seed();
    long seeds = getenv("GYRE_SEED") != NULL ? 1 : gy_test_serial_cases(4000);
    clock_t begun = clock();
    int64_t live = gy_alloc_live();
    for (uint64_t seed = first; seed < first + (uint64_t)seeds; seed++) {
        tell_story(at, seed);
        if (at->wrong[0] != '\0') {
            fail_msg("GYRE_SEED=%llu: %s", (unsigned long long)seed, at->wrong);
        }
    }
    double seconds = (double)(clock() - begun) / CLOCKS_PER_SEC;
    printf("soak: %ld seeds, %.0f a second: %llu steps, %llu acknowledged, %llu were over\n",
           seeds, (double)seeds / seconds, (unsigned long long)at->switches,
           (unsigned long long)at->acknowledged, (unsigned long long)at->superseded);
    world_begin(at, 1, 1);
    gy_sim_free(at->sim);
    at->sim = NULL;
    assert_int_equal(gy_alloc_live(), live);
    world_free(at);
}

static void tell_planted(int bug, uint64_t seed, char wrong[256])
{
    static world at;
    gy_journal_planted = (gy_journal_plant)bug;
    tell_story(&at, seed);
    memcpy(wrong, at.wrong, sizeof(at.wrong));
}

GY_TEST(test_planted_bugs_are_found)
{
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    skip(); /* a bug may well be one that they find */
#endif
#define GY_X(name) #name,
    static const char *const names[] = {GY_JOURNAL_PLANT_LIST(GY_X)};
#undef GY_X
    assert_int_equal(hunt_all(tell_planted, names, GY_JOURNAL_PLANTS, gy_test_seed(), 20000),
                     0);
}

GY_TEST_MAIN(NULL, NULL)
