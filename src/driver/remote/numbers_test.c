/* Goal: hosts have the numbers of the journal, whichever it contains; offsets of hosts' clocks.
 */
#include "driver/remote/remote_priv.h"

#include "sched/hosts/hosts_test.h"

/* Hosts get numbers as leases come, and enter the journal when they are up: if a manager was
 * killed in between, the journal may contain only the second. */
GY_TEST(numbers_that_the_journal_lacks_stay_free)
{
    machine_job job = {0};
    machine at;
    (void)machine_task(&job, (gy_sched_task){.stage = 0}, NULL);
    machine_new(&at, &job, (gy_manager_options){.host_max = 4});
    machine_begin(&at);
    hosts_up(&at, 1);
    gy_lease_client client = {.env = gy_env_real(), .manager = at.manager, .slot_count = 1};
    assert_ok(gy_lease_client_open(&client));
    assert_ok(gy_lease_client_begin(&client));
    assert_int_equal(gy_lease_client_host_get(&client, 1, 0, "h0:7000", "h0"),
                     2); /* as a new one */
    assert_int_equal(gy_lease_client_host_get(&client, 2, 1, "h1:7001", "h1"), 1);
    assert_int_equal(gy_lease_client_host_get(&client, 3, 2, "h2:7002", "h2"), 3);
    gy_lease_client_close(&client);
    machine_free(&at);
}

GY_TEST(a_clock_is_seen_through_two_ways)
{
    static const int64_t ahead_ns[] = {0, 1000000000, -86400000000000, 7};
    for (size_t i = 0; i < GY_COUNT(ahead_ns); i++) {
        /* The way there takes 2000. */
        for (int64_t back_ns = 0; back_ns < 5000; back_ns += 1000) {
            const int64_t heard_ns = 500000 + 2000 + ahead_ns[i],
                          answered_ns = heard_ns + 90000;
            const int64_t got_ns = answered_ns - ahead_ns[i] + back_ns;
            const int64_t wrong_ns =
                remote_clock_ns(500000, heard_ns, answered_ns, got_ns) - ahead_ns[i];
            assert_int_equal(wrong_ns, (2000 - back_ns) / 2);
        }
    }
}

GY_TEST_MAIN(NULL, NULL)
