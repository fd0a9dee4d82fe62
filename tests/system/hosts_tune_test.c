/*
 * Goal: `gyre tune` measures between hosts in the time it is given, runs over those hosts
 * choose by its table, and hosts with different tables are told so by all ranks, not left in a
 * hang.
 */
#include "hosts_kit.h"

/* `line` in a shell as each of six ranks, two a host, in the folder; the status of each node.
 */
static void run_on_all(const char *line, int ends[KIT_HOSTS])
{
    char whole[1024];
    const char *const options[] = {"-n", "2", "--plaintext", NULL};
    const char *const program[] = {"sh", "-c", whole, NULL};
    snprintf(whole, sizeof(whole), "cd %s && %s", kit_own.folder, line);
    kit_next_run(&kit_own);
    for (int host = KIT_HOSTS - 1; host >= 0; host--) {
        kit_start(&kit_own, KIT_HOSTS, host, options, program);
    }
    for (int host = 0; host < KIT_HOSTS; host++) {
        ends[host] = kit_wait(&kit_own, host);
    }
}

static void expect_all(const char *line)
{
    int ends[KIT_HOSTS];
    char text[4096], name[32];
    run_on_all(line, ends);
    for (int host = 0; host < KIT_HOSTS; host++) {
        snprintf(name, sizeof(name), "node-%d.err", host);
        if (ends[host] != 0) {
            fail_msg("%s: node %d ended with %d: %s", line, host, ends[host],
                     kit_read(&kit_own, name, text, sizeof(text)));
        }
    }
}

static void expect_text(const char *name, const char *expected)
{
    char text[65536];
    kit_read(&kit_own, name, text, sizeof(text));
    if (strstr(text, expected) == NULL) {
        fail_msg("%s does not say \"%s\": %s", name, expected, text);
    }
}

GY_TEST(table_is_measured_between_hosts_and_chosen_by)
{
    expect_all("$GYRE_BIN tune --duration 0.2 -o table >said-$GYRE_RANK");
    expect_text("said-0", "link far");
    expect_text("table", "\nlink far ");
    expect_text("table", "\nlink ring ");
    expect_text("table", "\ntake allreduce plain messages 6 3 ");
    expect_all("$GYRE_BIN bench allreduce --duration 0.001 >said-$GYRE_RANK");
    expect_text("said-0", "(model, ");
    expect_all("GYRE_TUNE=table $GYRE_BIN bench allreduce --duration 0.001 >said-$GYRE_RANK");
    expect_text("said-0", "(measured, ");
}

GY_TEST(hosts_with_different_tables_are_told)
{
    int ends[KIT_HOSTS];
    char text[4096], name[32];
    expect_all("[ $GYRE_RANK -gt 0 ] || "
               "sed 's/^link far [^ ]*/link far 12.5/' table >other");
    run_on_all("[ $GYRE_RANK -lt 4 ] && export GYRE_TUNE=table || export GYRE_TUNE=other; "
               "exec $GYRE_BIN bench allreduce --duration 0.001 >said-$GYRE_RANK",
               ends);
    int told = 0;
    for (int host = 0; host < KIT_HOSTS; host++) {
        assert_int_equal(ends[host], 1);
        snprintf(name, sizeof(name), "node-%d.err", host);
        kit_read(&kit_own, name, text, sizeof(text));
        told += strstr(text, "another GYRE_COLL or table of gyre tune") != NULL;
    }
    assert_int_equal(told, KIT_HOSTS);
}

GY_TEST_MAIN(kit_open_hosts, kit_close_hosts)
