/* Goal: numbers of hosts are those of the journal, whichever of them it has. */
#include "cluster/remote/tenant.h"

#include "cluster/hosts/hosts_test.h"

/* Hosts get their numbers as leases come, and reach the journal as they are reached: of a
 * manager that was killed in between it may have the second alone. */
static void numbers_that_the_journal_lacks_stay_free(void **state)
{
    (void)state;
    machine_job job = {0};
    machine at;
    (void)machine_task(&job, (gy_task){.stage = 0}, NULL);
    machine_new(&at, &job, (gy_manager_options){.host_max = 4});
    machine_begin(&at);
    hosts_up(&at, 1);
    gy_tenant tenant = {.env = gy_env_real(), .manager = at.manager, .slot_count = 1};
    assert_ok(gy_tenant_open(&tenant));
    assert_ok(gy_tenant_begin(&tenant));
    assert_int_equal(gy_tenant_host_get(&tenant, 1, 0, "h0:7000", "h0"), 2); /* as a new one */
    assert_int_equal(gy_tenant_host_get(&tenant, 2, 1, "h1:7001", "h1"), 1);
    assert_int_equal(gy_tenant_host_get(&tenant, 3, 2, "h2:7002", "h2"), 3);
    gy_tenant_close(&tenant);
    machine_free(&at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_the_journal_lacks_stay_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
