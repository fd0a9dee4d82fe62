/*
 * Goal: programs of a session share memory: buffers of one program never overlap, each lies in
 * memory that is large enough, what a program keeps is its own; all together take little more
 * than the largest program.
 */
#include "graph/graph.h"

#include <string.h>

#include "gy_test.h"

enum { PROGRAMS = 6, BUFFERS_MAX = 40, TRIALS = 200 };

static gy_memory_plan random_plan(gy_random *random, gy_storage *buffers)
{
    gy_memory_plan plan = {.buffers = buffers,
                           .buffer_count = (int32_t)gy_random_below(random, BUFFERS_MAX)};
    for (int32_t i = 0; i < plan.buffer_count; i++) {
        const bool is_leaf = gy_random_below(random, 5) == 0;
        buffers[i] = (gy_storage){.kind = is_leaf ? GY_STORAGE_PARAMETER
                                          : gy_random_below(random, 3) == 0 ? GY_STORAGE_SHARED
                                                                            : GY_STORAGE_OWN,
                                  .leaf = is_leaf ? 0 : -1,
                                  .size_bytes = gy_random_below(random, 5000),
                                  .is_kept = !is_leaf && gy_random_below(random, 8) == 0,
                                  .chunk = -1};
    }
    return plan;
}

static bool is_ours(const gy_storage *storage)
{
    return storage->kind != GY_STORAGE_PARAMETER && !storage->is_kept;
}

static void check_plan(const gy_memory_chunks *chunks, const gy_memory_plan *plan)
{
    for (int32_t i = 0; i < plan->buffer_count; i++) {
        const gy_storage *a = &plan->buffers[i];
        assert_int_equal(a->chunk >= 0, is_ours(a));
        if (a->chunk < 0) {
            continue;
        }
        assert_true((size_t)a->chunk < chunks->count);
        assert_true(chunks->list[a->chunk].kind == a->kind);
        assert_true(a->offset % 64 == 0);
        assert_true(a->offset + a->size_bytes <= chunks->list[a->chunk].size_bytes);
        for (int32_t k = 0; k < i; k++) {
            const gy_storage *b = &plan->buffers[k];
            assert_true(b->chunk != a->chunk || b->offset + b->size_bytes <= a->offset ||
                        a->offset + a->size_bytes <= b->offset);
        }
    }
}

/* Bytes of a plan's buffers of one kind, each in whole lines of 64. */
static size_t bytes_of(const gy_memory_plan *plan, gy_storage_kind kind)
{
    size_t bytes = 0;
    for (int32_t i = 0; i < plan->buffer_count; i++) {
        const gy_storage *storage = &plan->buffers[i];
        bytes += storage->kind == kind && is_ours(storage)
                     ? (GY_MAX(storage->size_bytes, 1) + 63) / 64 * 64
                     : 0;
    }
    return bytes;
}

static size_t chunk_bytes(const gy_memory_chunks *chunks)
{
    size_t bytes = 0;
    for (size_t i = 0; i < chunks->count; i++) {
        bytes += chunks->list[i].size_bytes;
    }
    return bytes;
}

GY_TEST(buffers_of_a_program_do_not_overlap)
{
    static gy_storage buffers[PROGRAMS][BUFFERS_MAX];
    gy_random random = {.key = gy_test_seed()};
    for (long trial = 0; trial < gy_test_cases(TRIALS); trial++) {
        gy_memory_chunks chunks = {.list = NULL};
        gy_memory_plan plans[PROGRAMS];
        size_t own = 0, shared = 0, all = 0;
        for (int i = 0; i < PROGRAMS; i++) {
            plans[i] = random_plan(&random, buffers[i]);
            assert_ok(gy_memory_share(&chunks, &plans[i]));
            for (int k = 0; k <= i; k++) {
                check_plan(&chunks, &plans[k]);
            }
            own = GY_MAX(own, bytes_of(&plans[i], GY_STORAGE_OWN));
            shared = GY_MAX(shared, bytes_of(&plans[i], GY_STORAGE_SHARED));
            all += bytes_of(&plans[i], GY_STORAGE_OWN) + bytes_of(&plans[i], GY_STORAGE_SHARED);
        }
        assert_true(chunk_bytes(&chunks) >= own + shared && chunk_bytes(&chunks) <= all);
        assert_true(chunk_bytes(&chunks) <= (own + shared) * 3 / 2 + 10000);
        for (int i = 0; i < PROGRAMS; i++) {
            gy_memory_unshare(&chunks, &plans[i]);
        }
        for (size_t i = 0; i < chunks.count; i++) {
            assert_int_equal(chunks.list[i].users, 0);
        }
        gy_free(chunks.list);
    }
}

/* The same program again takes nothing. */
/* A twin has the places of the program that is placed, and counts as a user of its chunks. */
GY_TEST(twins_lie_in_one_place)
{
    gy_random random = {.key = gy_test_seed()};
    for (int trial = 0; trial < TRIALS; trial++) {
        gy_storage buffers[BUFFERS_MAX], copies[BUFFERS_MAX];
        gy_memory_plan plan = random_plan(&random, buffers);
        gy_memory_plan twin = {.buffers = copies, .buffer_count = plan.buffer_count};
        gy_memory_chunks chunks = {.count = 0};
        memcpy(copies, buffers, sizeof(copies));
        assert_ok(gy_memory_share(&chunks, &plan));
        const size_t count = chunks.count;
        assert_ok(gy_memory_share_with(&chunks, &plan, &twin));
        assert_int_equal(chunks.count, count);
        check_plan(&chunks, &twin);
        for (int32_t i = 0; i < plan.buffer_count; i++) {
            assert_int_equal(copies[i].chunk, buffers[i].chunk);
            assert_true(copies[i].chunk < 0 || copies[i].offset == buffers[i].offset);
        }
        for (int users = 2; users >= 0; users--) {
            for (size_t i = 0; i < chunks.count; i++) {
                assert_int_equal(chunks.list[i].users, users);
            }
            if (users > 0) {
                gy_memory_unshare(&chunks, users == 2 ? &twin : &plan);
            }
        }
        gy_free(chunks.list);
    }
}

GY_TEST(equal_programs_take_the_memory_of_one)
{
    static gy_storage first[BUFFERS_MAX], second[BUFFERS_MAX];
    gy_random random = {.key = gy_test_seed()};
    gy_memory_chunks chunks = {.list = NULL};
    gy_memory_plan a = random_plan(&random, first);
    memcpy(second, first, sizeof(first));
    gy_memory_plan b = {.buffers = second, .buffer_count = a.buffer_count};
    assert_ok(gy_memory_share(&chunks, &a));
    const size_t before = chunk_bytes(&chunks);
    assert_ok(gy_memory_share(&chunks, &b));
    assert_true(chunk_bytes(&chunks) == before);
    gy_free(chunks.list);
}

GY_TEST_MAIN(NULL, NULL)
