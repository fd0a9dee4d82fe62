/*
 * Goal: sums of several contributions at once have the bits of one loop after another, for all
 * types, lengths and places, also where the result is one of the contributions; and plans over
 * shared memory use them.
 */
#include "coll/crew_priv.h"

#include "base/random.h"
#include "coll/coll_priv.h"

#include "gy_test.h"

enum { LONGEST = 9000, GUARD = 64, GUARD_BYTE = 0xa5 };

typedef struct many_case {
    gy_dtype dtype;
    gy_reduction reduction;
    size_t count;
    int terms, targets, alias; /* alias: the result is that contribution; -1: apart */
    size_t shift;              /* elements before each place */
} many_case;

typedef struct many_room {
    uint8_t *terms[GY_FOLD_TERMS], *expected, *results[2];
} many_room;

/* Small numbers, so that no float is a NaN: those compare as bytes only by luck. */
static void fill(const many_case *one, uint8_t *to, gy_random *random)
{
    for (size_t i = 0; i < one->count; i++) {
        uint8_t *at = to + i * gy_dtype_bytes(one->dtype);
        double value = gy_random_unit(random) - 0.5;
        if (one->dtype == GY_F64) {
            memcpy(at, &value, sizeof(value));
        } else if (one->dtype == GY_F32) {
            memcpy(at, &(float){(float)value}, sizeof(float));
        } else {
            uint64_t bits = gy_random_u64(random);
            memcpy(at, &bits, gy_dtype_bytes(one->dtype));
        }
    }
}

static void sum_one_by_one(const many_case *one, const gy_coll_fold *fold,
                           const many_room *room)
{
    size_t bytes = one->count * fold->element_bytes;
    memcpy(room->expected, room->terms[0], bytes);
    for (int of = 1; of < one->terms; of++) {
        fold->loop(room->expected, room->expected, room->terms[of], one->count);
    }
    gy_coll_fold_finish(fold, room->expected, one->count);
}

static void check(const many_case *one, const many_room *buffers, gy_random *random)
{
    const gy_coll_fold fold = gy_coll_fold_of(one->dtype, one->reduction, NULL, one->terms);
    size_t bytes = one->count * fold.element_bytes, shift = one->shift * fold.element_bytes;
    many_room room = *buffers;
    const void *terms[GY_FOLD_TERMS];
    for (int of = 0; of < one->terms; of++) {
        room.terms[of] += shift;
        fill(one, room.terms[of], random);
        terms[of] = room.terms[of];
    }
    sum_one_by_one(one, &fold, &room);
    for (int i = 0; i < 2; i++) {
        room.results[i] =
            one->alias >= 0 && i == 0 ? room.terms[one->alias] : room.results[i] + shift;
        memset(room.results[i] + bytes, GUARD_BYTE, GUARD);
    }
    const gy_targets targets = {.to = room.results,
                                .count = one->targets,
                                .is_streamed = gy_random_below(random, 2) == 1};
    assert_non_null(fold.many);
    gy_coll_fold_many_into(&targets, &fold, terms, one->terms, one->count);
    for (int i = 0; i < one->targets; i++) {
        assert_memory_equal(room.results[i], room.expected, bytes);
        for (size_t k = 0; k < GUARD; k++) {
            assert_int_equal(room.results[i][bytes + k], GUARD_BYTE);
        }
    }
}

static uint8_t *take_room(void)
{
    uint8_t *room = gy_alloc_zero("test", LONGEST + 64, sizeof(uint64_t));
    assert_non_null(room);
    return room;
}

GY_TEST(sums_at_once_have_the_bits_of_one_after_another)
{
    gy_random random = {.key = gy_test_seed()};
    many_room room;
    for (int i = 0; i < GY_FOLD_TERMS; i++) {
        room.terms[i] = take_room();
    }
    room.expected = take_room();
    room.results[0] = take_room();
    room.results[1] = take_room();
    for (long i = 0; i < gy_test_cases(4000); i++) {
        many_case one = {.dtype = (gy_dtype)(1 + gy_random_below(&random, GY_DTYPE_COUNT - 1)),
                         .reduction = gy_random_below(&random, 4) == 0 ? GY_AVG : GY_SUM,
                         .count = 1 + gy_random_below(&random, i % 8 == 0 ? LONGEST : 300),
                         .terms = 2 + (int)gy_random_below(&random, GY_FOLD_TERMS - 1),
                         .targets = 1 + (int)gy_random_below(&random, 2),
                         .shift = gy_random_below(&random, 5)};
        one.alias = (int)gy_random_below(&random, (uint64_t)one.terms + 1) - 1;
        if (one.dtype == GY_F16 || one.dtype == GY_BF16) {
            assert_null(gy_coll_combine_many_of(one.dtype, one.reduction));
        } else {
            check(&one, &room, &random);
        }
    }
    assert_null(gy_coll_combine_many_of(GY_F32, GY_MIN));
    for (int i = 0; i < GY_FOLD_TERMS; i++) {
        gy_free(room.terms[i]);
    }
    gy_free(room.expected);
    gy_free(room.results[0]);
    gy_free(room.results[1]);
}

/* Every fold of four ranks over shared memory is one chain of three steps. */
static void find_chains(crew_member *me)
{
    static const char *const names[] = {"direct", "staged", "claimed"};
    for (size_t k = 0; k < GY_COUNT(names); k++) {
        const gy_algorithm *row = gy_row_find(GY_OPERATION_ALLREDUCE, names[k]);
        const gy_plan_request request = {
            .operation = GY_OPERATION_ALLREDUCE, .ranks = me->size, .chunks = 3};
        gy_cached_plan *plan = NULL;
        EXPECT(gy_cached_plan_take(me->comm, row, &request, &plan) == GY_OK);
        uint32_t reduces = 0, chained = 0;
        for (size_t i = 0; plan != NULL && i < plan->steps.count; i++) {
            reduces += plan->steps.items[i].kind == GY_STEP_REDUCE;
            chained += plan->notes[i].chain;
            EXPECT(plan->notes[i].chain == 0 || plan->notes[i].chain == 3);
        }
        EXPECT(reduces > 0 && chained == reduces);
        plan->users--;
    }
}

GY_TEST(plans_over_shared_memory_use_them)
{
    assert_int_equal(crew_run(4, NULL, find_chains, NULL), 0);
}

GY_TEST_MAIN(NULL, NULL)
