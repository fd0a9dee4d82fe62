/* Goal: a rank has as many instances of its program as its list has micro-batches under way. */
#include "graph/pipe/pipe.h"

#include "gy_test.h"

/* Instances on a rank when micro-batches have `rows`, one each where it is 0. */
static int slots(const char *schedule, int ranks, int micros, int rank, int64_t empty_from)
{
    gy_pipe_schedule *planned = NULL;
    gy_pipe_places places;
    gy_micro_batch batch[64] = {{.rows = 0}};
    const gy_pipe_query query = {.schedule = schedule, .ranks = ranks, .micros = micros};
    for (int k = 0; k < micros; k++) {
        batch[k].rows = k < empty_from ? 1 : 0;
    }
    assert_ok(gy_pipe_plan(&query, &planned));
    assert_ok(gy_pipe_place(&planned->lists[rank], batch, micros, &places));
    const int found = places.slots;
    for (int k = 0; k < micros; k++) { /* those of a slot take its instances in turn */
        int last = k - 1;
        while (last >= 0 && places.slot[last] != places.slot[k]) {
            last--;
        }
        assert_true(places.slot[k] < 0 ||
                    places.turn[k] == (last < 0 ? 0 : 1 - places.turn[last]));
    }
    for (int k = 0; k < micros; k++) {
        assert_true(k < empty_from ? places.slot[k] >= 0 && places.slot[k] < found
                                   : places.slot[k] == -1);
    }
    gy_pipe_places_free(&places);
    gy_pipe_free(planned);
    return found;
}

GY_TEST(instances_are_as_many_as_are_alive)
{
    for (int ranks = 2; ranks <= 8; ranks++) {
        for (int micros = 1; micros <= 16; micros += 3) {
            for (int rank = 0; rank < ranks; rank++) {
                assert_int_equal(slots("gpipe", ranks, micros, rank, micros), micros);
                assert_int_equal(slots("1f1b", ranks, micros, rank, micros),
                                 GY_MIN(micros, ranks - rank));
                assert_true(slots("zb-h1", ranks, micros, rank, micros) <=
                            GY_MIN(micros, ranks));
            }
        }
    }
}

GY_TEST(micro_batches_without_rows_have_none)
{
    assert_int_equal(slots("gpipe", 2, 8, 0, 3), 3);
    assert_int_equal(slots("1f1b", 4, 8, 0, 0), 0);
}

GY_TEST_MAIN(NULL, NULL)
