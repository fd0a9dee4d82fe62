/*
 * Goal: two leads of parameter servers whose table is in a real etcd, everybody with a key ring
 * of its own roles alone: when the one that leads is killed, pushes and pulls go on, the other
 * one takes over, and mends what is lost next; and back again. Nothing is lost or doubled.
 */
#include "etcd_kit.h"
#include "ps_cluster_kit.h"

#include "gy_test.h"

#include <unistd.h>

enum { KEYS = 12 };

static kit_etcd etcd;
static cluster at;
static gy_ps *ps;
static gy_ps_table *table;
static int64_t made; /* rounds */

static void shell_line(const char *line)
{
    char said[4096];
    if (gy_test_shell(line, said, sizeof(said)) != 0) {
        fail_msg("%s: %s", line, said);
    }
}

/* Each sees the pushes before it, to the last one. */
static void make_rounds(int count)
{
    uint64_t keys[KEYS];
    int64_t ones[KEYS], seen[KEYS];
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = i * 1000003;
        ones[i] = 1;
    }
    for (int round = 0; round < count; round++) {
        assert_ok(gy_ps_push(table, keys, KEYS, ones, NULL));
        assert_ok(gy_ps_pull(table, keys, KEYS, seen, NULL));
        made++;
        for (int i = 0; i < KEYS; i++) {
            assert_int_equal(seen[i], made);
        }
    }
}

/* Does a lead lead, by what it said last? A loaded one may lose the election for a while. */
static bool is_leading(int lead)
{
    char line[256], text[512];
    snprintf(line, sizeof(line),
             "grep -E 'this lead leads cluster|this one is on standby' %s/lead%d.log | "
             "tail -n 1",
             at.folder, lead);
    (void)gy_test_shell(line, text, sizeof(text));
    return strstr(text, "this lead leads cluster") != NULL;
}

/* The first of these leads that leads. */
static int await_leader(int first, int end)
{
    gy_env *env = gy_env_real();
    const gy_deadline deadline = gy_env_deadline(env, 60);
    for (int lead = first;; lead = lead + 1 < end ? lead + 1 : first) {
        if (is_leading(lead)) {
            return lead;
        }
        if (gy_now_ns(env) > deadline.at_ns) {
            fail_msg("lead %d does not take over", lead);
        }
        make_rounds(1); /* nobody needs a lead for it */
        (void)gy_env_poll(env, gy_env_deadline(env, 0.01));
    }
}

/* It has not led yet in this life. */
static void start_again(int lead)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/lead%d.log", at.folder, lead);
    assert_int_equal(truncate(path, 0), 0);
    cluster_start_lead(&at, lead);
}

static void make_rings(void)
{
    const char *binary = getenv("GYRE_BIN");
    char line[1024];
    snprintf(line, sizeof(line),
             "exec 2>&1; cd %s && gyre() { %s \"$@\"; } && gyre key new ring && "
             "gyre key derive worker workers ring && "
             "gyre key derive server,worker servers ring && "
             "gyre key derive lead,server,worker,operator leads ring",
             at.folder, binary != NULL ? binary : "build/dev/gyre");
    shell_line(line);
}

static const gy_ps_table_options sums = {
    .dtype = GY_I64, .is_sparse = true, .sync = {.rule = GY_PS_ASP}};

GY_TEST(the_standby_takes_over)
{
    static char where[512], key[96], server_key[96], lead_key[96];
    static char *const lead_more[] = {"--leader-lease", "1", NULL};
    (void)setenv("GYRE_LOG", "info", 1);
    kit_etcd_start(&etcd, 1);
    at.table = kit_etcd_where(&etcd, "t/ps", where);
    at.lead_more = lead_more;
    cluster_begin(&at);
    make_rings();
    snprintf(key, sizeof(key), "%s/workers", at.folder);
    snprintf(server_key, sizeof(server_key), "%s/servers", at.folder);
    snprintf(lead_key, sizeof(lead_key), "%s/leads", at.folder);
    at.key = key;
    at.server_key = server_key;
    at.lead_key = lead_key;
    cluster_start_lead(&at, 0);
    cluster_start_lead(&at, 1);
    for (int i = 0; i < 3; i++) {
        cluster_start_server(&at, i);
    }
    const gy_ps_options options = cluster_options(&at, 0, 1);
    assert_ok(gy_ps_open(&options, &ps));
    assert_ok(gy_ps_table_open(ps, "sums", &sums, &table));
    make_rounds(10);
    for (int turn = 0; turn < 2; turn++) {
        const int leader = await_leader(0, CLUSTER_LEADS);
        cluster_kill(&at.leads[leader]);
        make_rounds(50);
        (void)await_leader(1 - leader, 2 - leader);
        cluster_kill(&at.servers[turn]); /* the new lead has it replaced */
        make_rounds(20);
        cluster_start_server(&at, turn);
        cluster_await_replicas(&at, "sums", NULL, NULL);
        start_again(leader); /* on standby */
    }
    make_rounds(10);
    gy_ps_options draining = options;
    char ring[96];
    snprintf(ring, sizeof(ring), "%s/ring", at.folder);
    assert_status(gy_ps_drain(&draining, at.addresses[2], NULL, NULL), GY_STATE);
    draining.key_file = ring;
    cluster_start_server(&at, 3);
    cluster_await_level(&at, "sums", NULL); /* the lead has heard of all */
    assert_ok(gy_ps_drain(&draining, at.addresses[2], NULL, NULL));
    make_rounds(10);
    gy_ps_close(ps);
    cluster_end(&at);
    kit_etcd_stop(&etcd);
}

GY_TEST_MAIN(NULL, NULL)
