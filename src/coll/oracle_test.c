/*
 * Goal: every collective by every algorithm, of any type, size and number of ranks, equals a
 * serial oracle, on all ranks alike; algorithms that guarantee one order give one result.
 */
#include "oracle_kit.h"

/* Cases of one set of ranks; under TSan as many sets, but less done by each. */
#ifdef GYRE_TSAN
enum { EACH = 25, ROUND = 10 };
#else
enum { EACH = 25, ROUND = EACH };
#endif

static int draw_ranks(gy_random *random)
{
    static const int many[] = {11, 13, 16, 17, 19};
    bool is_many = gy_random_below(random, 6) == 0;
    return is_many ? many[gy_random_below(random, GY_COUNT(many))]
                   : 1 + (int)gy_random_below(random, 9);
}

/* As many cases as GYRE_CASES says, spread over all rows and 1 to 19 ranks. */
GY_TEST(random_cases_equal_the_oracle)
{
    enum { CASES = 5000, TURNS_MAX = 256 };
    const char *wanted = getenv("GYRE_CASES");
    long total =
        wanted != NULL ? strtol(wanted, NULL, 10) : gy_test_cases(CASES) / EACH * ROUND;
    gy_random random = {.key = gy_test_seed()};
    case_spec cases[ROUND];
    size_t turns = gy_algorithm_count + 2;
    bool taken[TURNS_MAX] = {false};
    assert_in_range(turns, 1, TURNS_MAX);
    for (long done = 0, round = 0; done < total; done += ROUND, round++) {
        char text[64];
        size_t turn = turn_of(round, turns);
        taken[turn] = true;
        const char *name = name_of(turn, &random, text);
        const gy_algorithm *row = turn < gy_algorithm_count ? &gy_algorithms[turn] : NULL;
        int ranks = draw_ranks(&random);
        bool is_apart = gy_random_below(&random, 3) == 0;
        for (size_t i = 0; i < ROUND; i++) {
            draw_case(&random, ranks, row, &cases[i]);
            cases[i].is_rough = is_fold(&cases[i], name, is_apart);
        }
        round_list list = {
            .cases = cases, .count = ROUND, .groups = gy_random_below(&random, 4) == 0 ? 2 : 0};
        for (int rank = 0; rank < ranks; rank++) {
            list.colours[rank] = rank % 2;
            list.keys[rank] = -rank;
        }
        const gy_comm_options options = {.algorithm = name, .has_messages_only = is_apart};
        int failures = run_round(ranks, &options, &list);
        if (failures != 0) {
            fail_msg("round %ld, %d ranks%s, algorithm %s%s: %d failures (%s)", round, ranks,
                     list.groups > 0 ? " in groups" : "", name != NULL ? name : "chosen",
                     is_apart ? ", messages" : "", failures, gy_error_text());
        }
    }
    assert_all_had_turns(taken, turns, (total + ROUND - 1) / ROUND);
}

GY_TEST(long_vectors_go_in_legs)
{
    const case_spec cases[] = {
        {.operation = GY_OPERATION_ALLREDUCE, .dtype = GY_F32, .count = 5000001, .seed = 1},
        {.operation = GY_OPERATION_REDUCE_SCATTER,
         .dtype = GY_F64,
         .count = 1100001,
         .seed = 2},
        {.operation = GY_OPERATION_ALLGATHER, .dtype = GY_I16, .count = 5000003, .seed = 3},
        {.operation = GY_OPERATION_BROADCAST, .dtype = GY_U8, .count = 17000001, .seed = 4},
    };
    static const char *const names[] = {NULL, "staged", "ring"};
    const size_t step = gy_test_cases(8) == 1 ? 2 : 1; /* with a sanitizer not the middle one */
    for (size_t i = 0; i < GY_COUNT(names); i += step) {
        round_list list = {.cases = cases, .count = GY_COUNT(cases)};
        const gy_comm_options options = {.algorithm = names[i]};
        assert_int_equal(run_round(i == 1 ? 3 : 2, &options, &list), 0);
    }
}

/* 2 x 2 matrices over the integers modulo 2^64: associative, and the order shows. */
typedef struct matrix {
    uint64_t at[2][2];
} matrix;

static void multiply(void *to, const void *a, const void *b, size_t count, void *arg)
{
    const matrix *left = a, *right = b;
    (*(_Atomic int *)arg)++;
    for (size_t i = 0; i < count; i++) {
        matrix product;
        for (int row = 0; row < 2; row++) {
            for (int column = 0; column < 2; column++) {
                product.at[row][column] = left[i].at[row][0] * right[i].at[0][column] +
                                          left[i].at[row][1] * right[i].at[1][column];
            }
        }
        ((matrix *)to)[i] = product;
    }
}

static void matrix_of(int rank, size_t i, matrix *out)
{
    uint64_t value = (uint64_t)rank * 7 + i % 5 + 1;
    *out = (matrix){{{value, value + 1}, {3, value * value}}};
}

/* The product of all ranks' matrices, in order. */
static void multiply_matrices(crew_member *me)
{
    const size_t large = gy_test_cases(8) == 1 ? 20001 : 70001; /* in chunks, either way */
    const size_t counts[] = {1, 40, 3001, large};
    _Atomic int calls = 0;
    const gy_user_reduction product = {.name = "product of matrices",
                                       .combine = multiply,
                                       .arg = &calls,
                                       .element_bytes = sizeof(matrix)};
    for (size_t c = 0; c < GY_COUNT(counts); c++) {
        size_t count = counts[c];
        matrix *data = gy_alloc_zero("test", count, sizeof(*data));
        for (size_t i = 0; i < count; i++) {
            matrix_of(me->rank, i, &data[i]);
        }
        EXPECT(gy_coll_run(me->comm, &(gy_coll_call){.operation = GY_OPERATION_ALLREDUCE,
                                                     .dtype = GY_U8,
                                                     .user = &product,
                                                     .count = count,
                                                     .in = data,
                                                     .out = data}) == GY_OK);
        for (size_t i = 0; i < count; i++) {
            matrix expected, next;
            matrix_of(0, i, &expected);
            for (int rank = 1; rank < me->size; rank++) {
                matrix_of(rank, i, &next);
                multiply(&expected, &expected, &next, 1, &calls);
            }
            if (memcmp(&expected, &data[i], sizeof(expected)) != 0) {
                EXPECT(i == SIZE_MAX);
                break;
            }
        }
        gy_free(data);
    }
    EXPECT(calls > 0 || me->size == 1);
}

GY_TEST(a_users_reduction_keeps_the_order_of_ranks)
{
    static const char *const names[] = {NULL, "ring", "tree", "staged", "exchange"};
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        for (int ranks = 1; ranks <= 7; ranks += 2) {
            const gy_comm_options options = {.algorithm = names[i]};
            assert_int_equal(crew_run(ranks, &options, multiply_matrices, NULL), 0);
        }
    }
}

GY_TEST_MAIN(NULL, NULL)
