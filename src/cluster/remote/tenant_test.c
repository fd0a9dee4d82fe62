/* Goal: a host that does not answer is given up after its time, and at once if the name server
 * has lost it too. */
#include "cluster/remote/tenant.h"

#include "gy_test.h"

static uint32_t lost, last_lost;

static void step(void *arg, gy_event *event)
{
    (void)arg;
    if (event->kind == GY_EVENT_HOST_LOST) {
        lost++;
        last_lost = event->host;
    }
}

static bool has_ended(const void *arg)
{
    (void)arg;
    return false;
}

static gy_status dial(void *arg, uint32_t host)
{
    (void)arg, (void)host;
    return GY_OK;
}

static void nothing(void *arg, uint32_t host)
{
    (void)arg, (void)host;
}

static void who_is_dead_is_not_waited_for(void **state)
{
    (void)state;
    static const int64_t dead_ns = 2000000000;
    const gy_tenant_ops ops = {.step = step,
                               .has_ended = has_ended,
                               .dial = dial,
                               .hang_up = nothing,
                               .beat = nothing,
                               .begin_anew = nothing};
    gy_tenant tenant = {.env = gy_env_real(), .ops = &ops, .slot_count = 1, .dead_ns = dead_ns};
    assert_ok(gy_tenant_open(&tenant));
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(gy_tenant_host_get(&tenant, i + 1, 7, "a:1", "h"), i);
        tenant.hosts[i].is_expected = true;
        gy_tenant_host_dial(&tenant, i);
    }
    const int64_t now_ns = tenant.hosts[2].away_ns; /* the last that was dialled */
    tenant.hosts[2].state = HOST_HERE;
    tenant.hosts[2].is_up = true;
    const gy_grant grants[] = {{.state = GY_GRANT_GONE, .daemon = 2, .incarnation = 7},
                               {.state = GY_GRANT_GONE, .daemon = 3, .incarnation = 7},
                               {.state = GY_GRANT_GONE, .daemon = 1, .incarnation = 8}};
    gy_tenant_take_grants(&tenant, 0, 1, grants, GY_COUNT(grants));
    gy_tenant_look_after(&tenant, now_ns);
    assert_int_equal(lost, 0); /* it has not had the time to answer */
    gy_tenant_look_after(&tenant, gy_now_ns(tenant.env) + dead_ns / 8);
    assert_int_equal(lost, 1);
    assert_int_equal(last_lost, 1);
    gy_tenant_look_after(&tenant, now_ns + dead_ns);
    assert_int_equal(lost, 2);
    assert_int_equal(last_lost, 0); /* another folder's daemon was meant */
    assert_int_equal(tenant.hosts[2].state, HOST_HERE);
    gy_tenant_close(&tenant);
    assert_int_equal(gy_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_is_dead_is_not_waited_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
