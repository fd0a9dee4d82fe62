/*
 * Goal: sums that crowded ranks claim are computed once each, whoever takes them, with the bits
 * of fixed parts; and a rank that has entered but does not run holds nobody up.
 */
#include "coll/crew_priv.h"

#include "coll/coll_priv.h"

#include <sched.h>

#include "gy_test.h"

enum { FEW_CORES = 1, MANY_CORES = 64 };

typedef struct sum_case {
    const char *algorithm;
    bool is_registered, is_mixed; /* mixed: even ranks alone are registered */
    gy_operation operation;
    size_t count;
} sum_case;

/* What all ranks share. */
typedef struct sums {
    sum_case one;
    uint64_t seed;
    _Atomic size_t combined; /* elements */
    _Atomic int claimants;   /* a bit each */
    uint64_t hashes[CREW_MAX];
    _Atomic int has_begun, ended;
} sums;

static _Thread_local int own_rank;
static _Thread_local gy_random own_pace;

/* Now and then another rank gets the core, so that claims go to and fro. */
static void add_slowly(void *to, const void *a, const void *b, size_t count, void *arg)
{
    sums *all = arg;
    for (size_t i = 0; i < count; i++) {
        ((float *)to)[i] = ((const float *)a)[i] + ((const float *)b)[i];
    }
    all->combined += count;
    all->claimants |= 1 << own_rank;
    for (uint64_t turns = gy_random_below(&own_pace, 3); turns > 0; turns--) {
        sched_yield();
    }
}

static float value_of(uint64_t seed, int rank, size_t i)
{
    gy_random random = {.key = seed + (uint64_t)rank, .next = i};
    return (float)(gy_random_unit(&random) - 0.5);
}

static float *take(const crew_member *me, bool is_registered, size_t count)
{
    return is_registered ? gy_pool_take(gy_comm_pool(me->comm), count * sizeof(float))
                         : gy_alloc_zero("test", count, sizeof(float));
}

static void give(const crew_member *me, bool is_registered, float *data)
{
    if (is_registered) {
        gy_pool_give(gy_comm_pool(me->comm), data);
    } else {
        gy_free(data);
    }
}

static void sum_once(crew_member *me)
{
    sums *all = me->shared_arg;
    const sum_case *one = &all->one;
    bool is_scatter = one->operation == GY_OPERATION_REDUCE_SCATTER;
    bool is_registered = one->is_registered && (!one->is_mixed || me->rank % 2 == 0);
    size_t whole = is_scatter ? one->count * (size_t)me->size : one->count;
    float *in = take(me, is_registered, whole), *out = take(me, is_registered, one->count);
    const gy_user_reduction slowly = {.name = "sum in steps",
                                      .combine = add_slowly,
                                      .arg = all,
                                      .element_bytes = sizeof(float)};
    own_rank = me->rank;
    own_pace = (gy_random){.key = all->seed * 100 + (uint64_t)me->rank};
    for (size_t i = 0; i < whole; i++) {
        in[i] = value_of(all->seed, me->rank, i);
    }
    EXPECT(gy_coll_run(me->comm, &(gy_coll_call){.operation = one->operation,
                                                 .dtype = GY_F32,
                                                 .user = &slowly,
                                                 .count = one->count,
                                                 .in = in,
                                                 .out = out}) == GY_OK);
    size_t first = is_scatter ? one->count * (size_t)me->rank : 0;
    for (size_t i = 0; i < one->count; i += 997) {
        float sum = value_of(all->seed, 0, first + i);
        for (int rank = 1; rank < me->size; rank++) {
            sum = sum + value_of(all->seed, rank, first + i);
        }
        EXPECT(out[i] == sum);
    }
    all->hashes[me->rank] = gy_hash(out, one->count * sizeof(float), 1);
    give(me, is_registered, in);
    give(me, is_registered, out);
}

static const sum_case cases[] = {
    {"claimed", false, false, GY_OPERATION_ALLREDUCE, 5003},
    {"claimed", false, false, GY_OPERATION_ALLREDUCE, 300007}, /* in legs */
    {"claimed", true, true, GY_OPERATION_ALLREDUCE, 20011},
    {"direct", true, false, GY_OPERATION_ALLREDUCE, 5003},
    {"direct", true, false, GY_OPERATION_ALLREDUCE, 200003},
    {"direct", true, false, GY_OPERATION_REDUCE_SCATTER, 40009},
    {NULL, true, true, GY_OPERATION_ALLREDUCE, 20011},
    {NULL, false, false, GY_OPERATION_ALLREDUCE, 20011},
};

GY_TEST(claimed_sums_have_the_bits_of_fixed_ones)
{
    uint64_t seed = gy_test_seed();
    int shared_by_several = 0;
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        for (int ranks = 2; ranks <= 6; ranks++) {
            sums claimed = {.one = cases[i], .seed = seed},
                 fixed = {.one = cases[i], .seed = seed};
            const gy_comm_options options = {.algorithm = cases[i].algorithm};
            bool is_scatter = cases[i].operation == GY_OPERATION_REDUCE_SCATTER;
            size_t whole = cases[i].count * (is_scatter ? (size_t)ranks : 1);
            crew_cores = FEW_CORES;
            assert_int_equal(crew_run(ranks, &options, sum_once, &claimed), 0);
            crew_cores = MANY_CORES;
            assert_int_equal(crew_run(ranks, &options, sum_once, &fixed), 0);
            for (int rank = 0; rank < ranks; rank++) {
                assert_true(claimed.hashes[rank] == fixed.hashes[rank]);
            }
            if (cases[i].algorithm != NULL) {
                assert_int_equal(claimed.combined, whole * (size_t)(ranks - 1));
                shared_by_several += (claimed.claimants & (claimed.claimants - 1)) != 0;
            }
        }
    }
    printf("%d sums were shared by several ranks\n", shared_by_several);
    assert_true(shared_by_several > 0);
}

static void note_end(void *arg, gy_status status)
{
    int *ended = arg;
    *ended = status == GY_OK ? 1 : -1;
}

/* The last rank enters and stands still until the others have returned. */
static void stand_still(crew_member *me)
{
    sums *all = me->shared_arg;
    bool is_registered = all->one.is_registered, stands = me->rank == me->size - 1;
    size_t count = all->one.count;
    float *in = take(me, is_registered, count), *out = take(me, is_registered, count);
    int is_over = 0;
    for (size_t i = 0; i < count; i++) {
        in[i] = (float)me->rank + 1;
    }
    gy_coll_call call = {.operation = GY_OPERATION_ALLREDUCE,
                         .dtype = GY_F32,
                         .count = count,
                         .in = in,
                         .out = out};
    if (stands) {
        EXPECT(gy_coll_begin(me->comm, &call, note_end, &is_over) == GY_OK);
        all->has_begun = 1;
        while (all->ended < me->size - 1 && me->failures == 0) {
            sched_yield();
        }
        while (is_over == 0) {
            (void)gy_comm_progress(me->comm);
        }
        EXPECT(is_over == 1);
    } else {
        while (all->has_begun == 0) {
            sched_yield();
        }
        EXPECT(gy_coll_run(me->comm, &call) == GY_OK);
        all->ended++;
    }
    EXPECT(out[0] == (float)(me->size * (me->size + 1) / 2) && out[count - 1] == out[0]);
    EXPECT(gy_barrier(me->comm) == GY_OK);
    give(me, is_registered, in);
    give(me, is_registered, out);
}

GY_TEST(who_stands_still_holds_nobody_up)
{
    crew_cores = FEW_CORES;
    for (int is_registered = 0; is_registered < 2; is_registered++) {
        for (int ranks = 3; ranks <= 5; ranks++) {
            sums all = {.one = {.is_registered = is_registered == 1, .count = 16411}};
            const gy_comm_options options = {.timeout_s = 5};
            assert_int_equal(crew_run(ranks, &options, stand_still, &all), 0);
        }
    }
}

/* Of the pages of a region, whole ones, how many does this process have? */
static size_t mapped_pages(const uint8_t *region, size_t bytes, size_t *pages)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = gy_round_up((uintptr_t)region, page);
    size_t mapped = 0;
    FILE *map = fopen("/proc/self/pagemap", "rb");
    *pages = ((uintptr_t)region + bytes - first) / page;
    for (size_t i = 0; map != NULL && i < *pages; i++) {
        uint64_t entry = 0;
        long at = (long)((first / page + i) * sizeof(entry));
        if (fseek(map, at, SEEK_SET) == 0 && fread(&entry, sizeof(entry), 1, map) == 1) {
            mapped += entry >> 63;
        }
    }
    if (map != NULL) {
        fclose(map);
    }
    return mapped;
}

/* A short sum touches the beginning of a region; all of it is there for later claims. */
static void look_at_pages(crew_member *me)
{
    enum { COUNT = 4096 };
    float *in = take(me, false, COUNT), *out = take(me, false, COUNT);
    EXPECT(gy_allreduce(me->comm, in, out, COUNT, GY_F32, GY_SUM) == GY_OK);
    const gy_coll first = {.comm = me->comm, .region = 0};
    const uint8_t *region = gy_region_of(&first, me->rank);
    size_t pages = 0, mapped = mapped_pages(region, me->comm->region_bytes, &pages);
    EXPECT(pages > 0 && mapped == pages);
    const uint8_t *last = region + (size_t)(GY_CHANNELS - 1) * me->comm->region_bytes;
    EXPECT(mapped_pages(last, me->comm->region_bytes, &pages) == 0);
    EXPECT(gy_barrier(me->comm) == GY_OK);
    give(me, false, in);
    give(me, false, out);
}

GY_TEST(regions_are_mapped_before_claims)
{
    crew_cores = FEW_CORES;
    assert_int_equal(crew_run(3, NULL, look_at_pages, NULL), 0);
}

GY_TEST_MAIN(NULL, NULL)
