/* Goal: a cut is as cheap as the cheapest of all sets of vertices, and is a cut. */
#include "graph/devices/devices.h"

#include "gy_test.h"

enum { VERTICES_MAX = 9, EDGES_MAX = 30 };

typedef struct edges {
    int32_t from[EDGES_MAX], to[EDGES_MAX];
    int64_t capacity[EDGES_MAX];
    int count, vertices;
} edges;

static int64_t price(const edges *e, uint32_t stays)
{
    int64_t sum = 0;
    for (int i = 0; i < e->count; i++) {
        if ((stays >> e->from[i] & 1) != 0 && (stays >> e->to[i] & 1) == 0) {
            sum += e->capacity[i];
            sum = GY_MIN(sum, GY_DEVICES_NEVER_CUT);
        }
    }
    return sum;
}

static int64_t cheapest(const edges *e)
{
    int64_t best = GY_DEVICES_NEVER_CUT;
    for (uint32_t stays = 0; stays < 1u << e->vertices; stays++) {
        if ((stays & 3) == 1) {
            best = GY_MIN(best, price(e, stays));
        }
    }
    return best;
}

static void draw(gy_random *random, edges *e)
{
    e->vertices = 2 + (int)gy_random_below(random, VERTICES_MAX - 1);
    e->count = (int)gy_random_below(random, EDGES_MAX + 1);
    for (int i = 0; i < e->count; i++) {
        e->from[i] = (int32_t)gy_random_below(random, (uint64_t)e->vertices);
        e->to[i] = (int32_t)gy_random_below(random, (uint64_t)e->vertices);
        e->capacity[i] = gy_random_below(random, 8) == 0 ? GY_DEVICES_NEVER_CUT
                                                         : (int64_t)gy_random_below(random, 6);
    }
}

GY_TEST(a_cut_is_the_cheapest)
{
    const uint64_t seed = gy_test_seed();
    int cut = 0;
    for (int round = 0; round < 400; round++) {
        gy_random random = {.key = seed + (uint64_t)round};
        edges e;
        bool stays[VERTICES_MAX + 1];
        gy_devices_network flow;
        uint32_t bits = 0;
        draw(&random, &e);
        assert_ok(gy_devices_network_begin(&flow, e.vertices));
        for (int i = 0; i < e.count; i++) {
            assert_ok(gy_devices_network_add(&flow, e.from[i], e.to[i], e.capacity[i]));
        }
        const int64_t wanted = cheapest(&e);
        if (wanted >= GY_DEVICES_NEVER_CUT) {
            assert_status(gy_devices_network_cut(&flow, stays), GY_STATE);
        } else {
            assert_ok(gy_devices_network_cut(&flow, stays));
            for (int i = 0; i < e.vertices; i++) {
                bits |= stays[i] ? 1u << i : 0;
            }
            assert_int_equal(bits & 3, 1);
            if (price(&e, bits) != wanted) {
                fail_msg("seed %llu: %lld, the cheapest is %lld",
                         (unsigned long long)random.key, (long long)price(&e, bits),
                         (long long)wanted);
            }
            cut += wanted > 0;
        }
        gy_devices_network_free(&flow);
    }
    assert_true(cut > 50);
}

GY_TEST_MAIN(NULL, NULL)
