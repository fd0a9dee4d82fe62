/* Every harmful mutant of a list is refused by the checker with its rank. Lists that it lets
 * through are run by an executor of their own, ranks in random order, on values that name what
 * they were made of: they must give what the list before the mutation gave. */
#include "plan/pipe/pipe_priv.h"

#include "base/base.h"

#include "gy_test.h"

enum { STAGES = 8, MICROS = 8, RANKS = 4 };

/* Values are numbers of 64 bits that name all that went into them; 0: there is none. */
typedef struct executor {
    const gy_pipe_schedule *schedule;
    uint64_t out[STAGES][MICROS], back[STAGES][MICROS]; /* by F; by I or B */
    uint64_t up[STAGES][MICROS], down[STAGES][MICROS];  /* sent to the stage */
    uint64_t in[STAGES][MICROS], grad[STAGES][MICROS];  /* received by the stage */
    uint64_t sum[STAGES], updated[STAGES];
    size_t next[RANKS];
} executor;

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) + b + 1;
    x ^= x >> 29;
    return x * UINT64_C(0xbf58476d1ce4e5b9) | 1;
}

static bool is_local(const gy_pipe_schedule *schedule, int a, int b)
{
    return schedule->rank_of[a] == schedule->rank_of[b];
}

/* What F and B of a stage begin with; 0: it is not there. */
static uint64_t input_of(const executor *at, bool is_forward, int s, int k)
{
    int other = is_forward ? s - 1 : s + 1;
    if (other < 0 || other >= at->schedule->stages) {
        return mix(7, (uint64_t)k);
    }
    if (is_local(at->schedule, s, other)) {
        return is_forward ? at->out[other][k] : at->back[other][k];
    }
    return is_forward ? at->in[s][k] : at->grad[s][k];
}

/* Move a value that must be there; false: it is not. */
static bool move(uint64_t *to, uint64_t *from)
{
    if (*from == 0) {
        return false;
    }
    *to = *from;
    *from = 0;
    return true;
}

/* False: the rank waits, or what it needs is not there, which ends in the same. */
static bool act(executor *at, const gy_pipe_action *action)
{
    int s = action->stage, k = action->micro;
    uint64_t value = 0;
    switch ((gy_pipe_kind)action->kind) {
    case GY_PIPE_FORWARD:
        value = input_of(at, true, s, k);
        at->out[s][k] = value == 0 ? 0 : mix(value, (uint64_t)s);
        return value != 0;
    case GY_PIPE_BACKWARD:
    case GY_PIPE_BACKWARD_INPUT:
        value = input_of(at, false, s, k);
        if (value == 0 || at->out[s][k] == 0) {
            return false;
        }
        at->back[s][k] = mix(value, at->out[s][k]);
        at->sum[s] += action->kind == GY_PIPE_BACKWARD ? mix(at->back[s][k], 3) : 0;
        return true;
    case GY_PIPE_BACKWARD_WEIGHT:
        at->sum[s] += at->back[s][k] == 0 ? 0 : mix(at->back[s][k], 3);
        return at->back[s][k] != 0;
    case GY_PIPE_SEND_F:
        at->up[s + 1][k] = at->out[s][k];
        return at->out[s][k] != 0;
    case GY_PIPE_SEND_B:
        at->down[s - 1][k] = at->back[s][k];
        return at->back[s][k] != 0;
    case GY_PIPE_RECV_F:
        return move(&at->in[s][k], &at->up[s][k]);
    case GY_PIPE_RECV_B:
        return move(&at->grad[s][k], &at->down[s][k]);
    case GY_PIPE_UPDATE:
        at->updated[s] = mix(at->updated[s], at->sum[s]);
        return true;
    case GY_PIPE_KIND_COUNT:
    default:
        return false;
    }
}

/* The updates of all stages; 0: not all ranks came to their ends. */
static uint64_t execute(const gy_pipe_schedule *schedule, gy_random *random)
{
    static executor at;
    at = (executor){.schedule = schedule};
    for (int idle = 0; idle < 64 * RANKS;) {
        int rank = (int)gy_random_below(random, (uint64_t)schedule->ranks);
        const gy_pipe_list *list = &schedule->lists[rank];
        bool is_going = at.next[rank] < list->count && act(&at, &list->actions[at.next[rank]]);
        at.next[rank] += is_going ? 1 : 0;
        idle = is_going ? 0 : idle + 1;
    }
    uint64_t digest = 1;
    for (int rank = 0; rank < schedule->ranks; rank++) {
        if (at.next[rank] < schedule->lists[rank].count) {
            return 0;
        }
    }
    for (int s = 0; s < schedule->stages; s++) {
        digest = mix(digest, at.updated[s]);
        for (int k = 0; k < schedule->micros; k++) {
            digest = mix(digest, at.up[s][k] + at.down[s][k]); /* nothing is left on its way */
        }
    }
    return digest;
}

typedef enum mutation {
    DROP,
    DOUBLE,
    SWAP,
    MICRO,
    STAGE,
    PEER,
    KIND,
    RANK,
    MUTATIONS
} mutation;

static void insert(gy_pipe_list *list, size_t i, gy_pipe_action action)
{
    assert_ok(GY_GROW("test", list->actions, list->capacity, list->count + 1));
    memmove(&list->actions[i + 1], &list->actions[i],
            (list->count - i) * sizeof(list->actions[0]));
    list->actions[i] = action;
    list->count++;
}

static gy_pipe_action drop(gy_pipe_list *list, size_t i)
{
    gy_pipe_action action = list->actions[i];
    memmove(&list->actions[i], &list->actions[i + 1],
            (list->count - i - 1) * sizeof(list->actions[0]));
    list->count--;
    return action;
}

static void mutate(gy_pipe_schedule *schedule, mutation how, gy_random *random)
{
    int rank = (int)gy_random_below(random, (uint64_t)schedule->ranks);
    gy_pipe_list *list = &schedule->lists[rank];
    size_t i = gy_random_below(random, list->count), j = gy_random_below(random, list->count);
    gy_pipe_action *action = &list->actions[i], held = *action;
    switch (how) {
    case DROP:
        (void)drop(list, i);
        break;
    case DOUBLE:
        insert(list, j, held);
        break;
    case SWAP:
        j = gy_random_below(random, 2) == 0 && i + 1 < list->count ? i + 1 : j;
        *action = list->actions[j];
        list->actions[j] = held;
        break;
    case MICRO:
        action->micro = (int32_t)gy_random_below(random, (uint64_t)schedule->micros + 2) - 1;
        break;
    case STAGE:
        action->stage = (int32_t)gy_random_below(random, (uint64_t)schedule->stages + 2) - 1;
        break;
    case PEER:
        action->peer = (int32_t)gy_random_below(random, (uint64_t)schedule->ranks + 2) - 1;
        break;
    case KIND:
        action->kind = (int32_t)gy_random_below(random, GY_PIPE_KIND_COUNT + 2) - 1;
        break;
    case RANK:
        held = drop(list, i);
        list = &schedule->lists[(rank + 1) % schedule->ranks];
        insert(list, gy_random_below(random, list->count + 1), held);
        break;
    case MUTATIONS:
    default:
        break;
    }
}

GY_TEST(every_harmful_mutant_is_refused)
{
    static const gy_pipe_query queries[] = {{"gpipe", 3, 4, 1},       {"1f1b", 4, 6, 1},
                                            {"interleaved", 2, 4, 2}, {"interleaved", 3, 3, 2},
                                            {"zb-h1", 4, 5, 1},       {"1f1b", 1, 3, 1},
                                            {"interleaved", 4, 8, 2}, {"zb-h1", 2, 2, 1}};
    gy_random random = {.key = gy_test_seed()};
    size_t refused = 0, equal = 0, swaps = 0;
    for (long i = 0; i < gy_test_serial_cases(16000); i++) {
        gy_pipe_schedule *schedule = NULL;
        mutation how = (mutation)(i % MUTATIONS);
        assert_ok(
            gy_pipe_plan(&queries[(size_t)(i / MUTATIONS) % GY_COUNT(queries)], &schedule));
        uint64_t expected = execute(schedule, &random);
        assert_true(expected != 0);
        mutate(schedule, how, &random);
        gy_status status = gy_pipe_check(schedule, NULL, NULL);
        if (status == GY_OK) {
            if (execute(schedule, &random) != expected) {
                fail_msg("mutant %ld by %d passes and gives other values", i, (int)how);
            }
            equal++;
        } else {
            assert_int_equal(status, GY_STATE);
            assert_true(strncmp(gy_error_text(), "rank ", 5) == 0);
            refused++;
            /* Order alone is never refused where it does no harm. */
            if (how == SWAP) {
                assert_true(execute(schedule, &random) != expected);
                swaps++;
            }
        }
        gy_pipe_free(schedule);
    }
    assert_true(refused > equal && swaps > 0 && equal > 0);
    printf("soak: %zu mutants refused, %zu equivalent\n", refused, equal);
}

GY_TEST(limits_are_held_against_a_list)
{
    gy_pipe_schedule *schedule = NULL;
    gy_pipe_facts facts;
    assert_ok(gy_pipe_plan(&(gy_pipe_query){"1f1b", 4, 8, 1}, &schedule));
    assert_ok(gy_pipe_check(
        schedule, &(gy_pipe_limits){.alive_max = 4, .buffers = 1, .is_ordered = true}, &facts));
    assert_int_equal(facts.alive_max, 4);
    assert_int_equal(facts.buffers_min, 1);
    assert_status(gy_pipe_check(schedule, &(gy_pipe_limits){.alive_max = 3}, NULL), GY_STATE);
    assert_non_null(
        strstr(gy_error_text(), "rank 0 action 6 (0F3): 4 micro-batches are alive"));
    gy_pipe_free(schedule);
    assert_ok(gy_pipe_plan(&(gy_pipe_query){"interleaved", 2, 4, 2}, &schedule));
    assert_ok(gy_pipe_check(schedule, NULL, &facts));
    assert_int_equal(facts.buffers_min, 2);
    assert_status(gy_pipe_check(schedule, &(gy_pipe_limits){.buffers = 1}, NULL), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "waits for ever"));
    gy_pipe_free(schedule);
    static const char text[] = "0F0,0F1,0B1,0B0";
    assert_ok(gy_pipe_parse(text, strlen(text), "list", &schedule));
    assert_status(gy_pipe_check(schedule, &(gy_pipe_limits){.is_ordered = true}, NULL),
                  GY_STATE);
    assert_non_null(strstr(gy_error_text(), "(0B0): its gradients are added behind"));
    gy_pipe_free(schedule);
}

GY_TEST_MAIN(NULL, NULL)
