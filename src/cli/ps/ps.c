/* `gyre ps` */
#include "cli/ps/ps.h"

#include "cli/cli.h"
#include "cli/cluster/common.h"
#include "cli/report.h"

#include <stdio.h>

static struct ps_settings {
    const char *listen, *key, *port_file, *servers, *lead, *folder, *output;
    bool is_plaintext, has_failed, has_stats, resumes;
    double connect_timeout_s, duration_s, timeout_s;
    gy_ps_lead_run_options of; /* of `lead` */
    long long replicas, parts;
    /* simulate */
    gy_option_list data;
    const char *sync;
    long long workers, batch, seed;
    double rate;
    bool is_csv;
} settings = {.connect_timeout_s = 10,
              .duration_s = 0.3,
              .timeout_s = 60,
              .workers = 16,
              .batch = 256,
              .seed = 1};

/* ---- serve ---- */

static void listening(void *arg, const char *address)
{
    (void)arg;
    printf("%s\n", address);
    fflush(stdout);
    settings.has_failed = !gy_cli_write_port_file("ps serve", settings.port_file, address);
}

static int run_serve(char **operands, int count)
{
    char kept[4096];
    (void)operands;
    (void)count;
    gy_ps_server_options options = {.listen = settings.listen,
                                    .lead = settings.lead,
                                    .folder = settings.folder,
                                    .resumes = settings.resumes,
                                    .is_plaintext = settings.is_plaintext};
    if (options.listen == NULL) {
        return gy_cli_report_usage("gyre ps serve: --listen HOST:PORT must be given");
    }
    if (options.resumes && (options.lead != NULL || options.folder == NULL)) {
        return gy_cli_report_usage(
            "gyre ps serve: --resume needs --folder, and with --lead it is the lead's option");
    }
    int checked = gy_cli_check_addresses("ps serve", "--listen", options.listen, 0);
    if (checked == GY_EXIT_OK) {
        checked = gy_cli_find_key("ps serve", settings.key, settings.is_plaintext, kept,
                                  &options.key_file);
    }
    if (checked != GY_EXIT_OK) {
        return checked;
    }
    if (options.lead != NULL) {
        checked = gy_cli_check_addresses("ps serve", "--lead", options.lead, 1);
        if (checked != GY_EXIT_OK) {
            return checked;
        }
    }
    gy_status status = gy_ps_serve(&options, listening, NULL);
    return status < 0            ? gy_cli_failure("ps serve", status)
           : settings.has_failed ? GY_EXIT_FAILURE
                                 : GY_EXIT_OK;
}

/* ---- lead ---- */

static void leading(void *arg, const char *address)
{
    (void)arg;
    printf("%s\n", address);
    fflush(stdout);
    settings.has_failed = !gy_cli_write_port_file("ps lead", settings.port_file, address);
}

static int run_lead(char **operands, int count)
{
    char kept[4096];
    (void)operands;
    (void)count;
    gy_ps_lead_run_options options = settings.of;
    options.listen = settings.listen;
    options.is_plaintext = settings.is_plaintext;
    options.replicas = (uint32_t)settings.replicas;
    options.parts = (uint32_t)settings.parts;
    options.resumes = settings.resumes;
    if (options.listen == NULL || options.table == NULL) {
        return gy_cli_report_usage(
            "gyre ps lead: --listen HOST:PORT and --table must be given");
    }
    int checked = gy_cli_check_addresses("ps lead", "--listen", options.listen, 0);
    if (checked == GY_EXIT_OK) {
        checked = gy_cli_find_key("ps lead", settings.key, settings.is_plaintext, kept,
                                  &options.key_file);
    }
    if (checked != GY_EXIT_OK) {
        return checked;
    }
    gy_status status = gy_ps_lead_run(&options, leading, NULL);
    return status < 0            ? gy_cli_failure("ps lead", status)
           : settings.has_failed ? GY_EXIT_FAILURE
                                 : GY_EXIT_OK;
}

/* ---- drain ---- */

static void print_progress(void *arg, uint32_t parts)
{
    uint32_t *last = arg;
    if (parts != *last) {
        fprintf(stderr, "%u parts are left\n", parts);
        *last = parts;
    }
}

static int run_drain(char **operands, int count)
{
    char kept[4096];
    uint32_t last = UINT32_MAX;
    (void)count;
    gy_ps_options options = {.lead = settings.lead,
                             .is_plaintext = settings.is_plaintext,
                             .timeout_s = settings.timeout_s};
    if (options.lead == NULL) {
        return gy_cli_report_usage("gyre ps drain: --lead HOST:PORT,... must be given");
    }
    int checked = gy_cli_check_addresses("ps drain", "--lead", options.lead, 1);
    if (checked == GY_EXIT_OK) {
        checked = gy_cli_find_key("ps drain", settings.key, settings.is_plaintext, kept,
                                  &options.key_file);
    }
    if (checked != GY_EXIT_OK) {
        return checked;
    }
    gy_status status = gy_ps_drain(&options, operands[0], print_progress, &last);
    return status < 0 ? gy_cli_failure("ps drain", status) : GY_EXIT_OK;
}

/* ---- save ---- */

static int run_save(char **operands, int count)
{
    char kept[4096];
    gy_ps_saved saved;
    (void)operands;
    (void)count;
    gy_ps_options options = {.servers = settings.servers,
                             .lead = settings.lead,
                             .is_plaintext = settings.is_plaintext,
                             .timeout_s = settings.timeout_s};
    if ((options.servers == NULL) == (options.lead == NULL)) {
        return gy_cli_report_usage(
            "gyre ps save: either --servers or --lead HOST:PORT,... must be given");
    }
    int checked =
        gy_cli_check_addresses("ps save", options.lead != NULL ? "--lead" : "--servers",
                               options.lead != NULL ? options.lead : options.servers, 1);
    if (checked == GY_EXIT_OK) {
        checked = gy_cli_find_key("ps save", settings.key, settings.is_plaintext, kept,
                                  &options.key_file);
    }
    if (checked != GY_EXIT_OK) {
        return checked;
    }
    gy_status status = gy_ps_save(&options, settings.output, &saved);
    if (status < 0) {
        return gy_cli_failure("ps save", status);
    }
    printf("%s  clock %llu  parts %u  tables %u  bytes %llu\n", saved.name,
           (unsigned long long)saved.clock, saved.parts, saved.tables,
           (unsigned long long)saved.size_bytes);
    return GY_EXIT_OK;
}

/* ---- show ---- */

static void print_stats(const gy_ps_facts *facts)
{
    printf(
        "  received %llu bytes, sent %llu, keys spared %llu; dropped %llu; held %llu bytes\n",
        (unsigned long long)facts->received_bytes, (unsigned long long)facts->sent_bytes,
        (unsigned long long)facts->spared_key_bytes, (unsigned long long)facts->dropped,
        (unsigned long long)facts->held_bytes);
    printf("  %llu of %llu pulls waited for clocks, %.3f s", (unsigned long long)facts->waits,
           (unsigned long long)facts->pulls, facts->wait_s);
    if (facts->slow_wait_s > 0) {
        printf(", %.3f s of it for worker %u", facts->slow_wait_s, facts->slow_worker);
    }
    printf("\n  pulls by staleness in clocks:");
    for (int i = 0; i < GY_PS_STALENESS_BINS; i++) {
        if (facts->staleness[i] > 0) {
            printf(" %d%s: %llu", i, i == GY_PS_STALENESS_BINS - 1 ? " or more" : "",
                   (unsigned long long)facts->staleness[i]);
        }
    }
    printf("\n");
}

static gy_status print_facts(void *arg, const gy_ps_facts *facts)
{
    bool *has_head = arg;
    char sync[32];
    if (!*has_head) {
        printf("%-21s  %-16s  %9s  %-7s  %-10s  %10s  %11s  %9s  %9s  %7s  %7s\n", "server",
               "table", "part", "replica", "rule", "rows", "clocks", "pushes", "duplicate",
               "dropped", "waiting");
        *has_head = true;
    }
    char part[32], clocks[48], place[32] = "-";
    if (facts->place > 0) {
        snprintf(place, sizeof(place), "%u", facts->place);
    }
    gy_ps_sync_print(facts->options.sync, sync, sizeof(sync));
    snprintf(part, sizeof(part), "%u of %u", facts->part + 1, facts->parts);
    snprintf(clocks, sizeof(clocks), "%llu to %llu", (unsigned long long)facts->clock_min,
             (unsigned long long)facts->clock_max);
    printf("%-21s  %-16s  %9s  %-7s  %-10s  %10llu  %11s  %9llu  %9llu  %7llu  %7u\n",
           facts->server, facts->table, part, place, sync, (unsigned long long)facts->rows,
           clocks, (unsigned long long)facts->pushes, (unsigned long long)facts->duplicates,
           (unsigned long long)facts->dropped, facts->waiting);
    if (settings.has_stats) {
        print_stats(facts);
    }
    return ferror(stdout) ? GY_CANCELLED : GY_OK; /* main reports that it cannot be written */
}

static int run_show(char **operands, int count)
{
    char kept[4096];
    bool has_head = false;
    (void)operands;
    (void)count;
    gy_ps_options options = {.servers = settings.servers,
                             .lead = settings.lead,
                             .is_plaintext = settings.is_plaintext,
                             .timeout_s = settings.connect_timeout_s};
    if ((options.servers == NULL) == (options.lead == NULL)) {
        return gy_cli_report_usage(
            "gyre ps show: either --servers or --lead HOST:PORT,... must be given");
    }
    int found = gy_cli_find_key("ps show", settings.key, settings.is_plaintext, kept,
                                &options.key_file);
    if (found != GY_EXIT_OK) {
        return found;
    }
    gy_status status = gy_ps_show(&options, print_facts, &has_head);
    if (status < 0 && !ferror(stdout)) {
        return gy_cli_failure("ps show", status);
    }
    if (!has_head) {
        puts("no tables");
    }
    return GY_EXIT_OK;
}

static int run_bench(char **operands, int count)
{
    char kept[4096];
    const char *key = NULL;
    (void)operands;
    (void)count;
    int found = GY_EXIT_OK;
    if (settings.key != NULL) { /* the wire of the figures is plain unless a key is given */
        found = gy_cli_find_key("ps bench", settings.key, false, kept, &key);
    }
    return found == GY_EXIT_OK ? gy_cli_ps_bench(key, settings.duration_s, settings.has_stats)
                               : found;
}

/* ---- simulate ---- */

static int run_simulate(char **operands, int count)
{
    (void)count;
    const gy_cli_simulation simulation = {
        .model = operands[0],
        .data = settings.data.items[0],
        .more_data = settings.data.items[0] != NULL ? settings.data.items[1] : NULL,
        .sync = settings.sync,
        .workers = settings.workers,
        .batch = settings.batch,
        .seed = settings.seed,
        .rate = settings.rate,
        .is_csv = settings.is_csv,
    };
    return gy_cli_ps_simulate(&simulation);
}

#define PLACE(member) offsetof(struct ps_settings, member)
#define COUNT(array)  (sizeof(array) / sizeof((array)[0]))

static const gy_option serve_options[] = {
    {&gy_option_listen, GY_OPTION_TEXT, "port 0: the system chooses one", PLACE(listen), 0, 0,
     NULL},
    {&gy_option_key, GY_OPTION_PATH, "default: the one that `gyre key` makes", PLACE(key), 0, 0,
     NULL},
    {&gy_option_plaintext, GY_OPTION_FLAG, "loopback addresses only", PLACE(is_plaintext), 0, 0,
     NULL},
    {&gy_option_port_file, GY_OPTION_PATH, NULL, PLACE(port_file), 0, 0, NULL},
    {&gy_option_lead, GY_OPTION_TEXT, "default: none, clients list the servers", PLACE(lead), 0,
     0, NULL},
    {&gy_option_folder, GY_OPTION_PATH, "of its snapshots; default: it keeps none",
     PLACE(folder), 0, 0, NULL},
    {&gy_option_resume, GY_OPTION_FLAG, "from the newest snapshot of --folder; without a lead",
     PLACE(resumes), 0, 0, NULL},
};

static const gy_option lead_options[] = {
    {&gy_option_listen, GY_OPTION_TEXT, "port 0: the system chooses one", PLACE(listen), 0, 0,
     NULL},
    {&gy_option_table, GY_OPTION_TEXT, NULL, PLACE(of.table), 0, 0, NULL},
    {&gy_option_replicas, GY_OPTION_INTEGER, "default: 2", PLACE(replicas), 1, 7, NULL},
    {&gy_option_parts, GY_OPTION_INTEGER, "default: 4", PLACE(parts), 1, 64, NULL},
    {&gy_option_lease, GY_OPTION_REAL,
     "a server silent for twice as long is replaced; default: 1", PLACE(of.lease_s), 0.1, 3600,
     NULL},
    {&gy_option_key, GY_OPTION_PATH, "default: the one that `gyre key` makes", PLACE(key), 0, 0,
     NULL},
    {&gy_option_plaintext, GY_OPTION_FLAG, "loopback addresses only", PLACE(is_plaintext), 0, 0,
     NULL},
    {&gy_option_port_file, GY_OPTION_PATH, NULL, PLACE(port_file), 0, 0, NULL},
    {&gy_option_resume, GY_OPTION_FLAG,
     "from the servers' newest snapshot, once a part is gone", PLACE(resumes), 0, 0, NULL},
    {&gy_option_table_user, GY_OPTION_TEXT, NULL, PLACE(of.table_user), 0, 0, NULL},
    {&gy_option_table_password, GY_OPTION_PATH, NULL, PLACE(of.table_password_file), 0, 0,
     NULL},
    {&gy_option_table_ca, GY_OPTION_PATH, NULL, PLACE(of.table_authorities), 0, 0, NULL},
    {&gy_option_table_cert, GY_OPTION_PATH, NULL, PLACE(of.table_certificate), 0, 0, NULL},
    {&gy_option_table_cert_key, GY_OPTION_PATH, NULL, PLACE(of.table_certificate_key), 0, 0,
     NULL},
    {&gy_option_table_plaintext, GY_OPTION_FLAG, NULL, PLACE(of.table_is_plaintext), 0, 0,
     NULL},
    {&gy_option_leader_lease, GY_OPTION_REAL, "default: 5", PLACE(of.table_lease_s), 1, 3600,
     NULL},
};

static const gy_option drain_options[] = {
    {&gy_option_lead, GY_OPTION_TEXT, NULL, PLACE(lead), 0, 0, NULL},
    {&gy_option_key, GY_OPTION_PATH, "default: the one that `gyre key` makes", PLACE(key), 0, 0,
     NULL},
    {&gy_option_plaintext, GY_OPTION_FLAG, "loopback addresses only", PLACE(is_plaintext), 0, 0,
     NULL},
    {&gy_option_wait_timeout, GY_OPTION_REAL, "default: 60", PLACE(timeout_s), 0.001, 1e6,
     NULL},
};

static const gy_option save_options[] = {
    {&gy_option_servers, GY_OPTION_TEXT, NULL, PLACE(servers), 0, 0, NULL},
    {&gy_option_lead, GY_OPTION_TEXT, NULL, PLACE(lead), 0, 0, NULL},
    {&gy_option_output, GY_OPTION_TEXT, "a name in the servers' folders; default: snapshot-N",
     PLACE(output), 0, 0, NULL},
    {&gy_option_key, GY_OPTION_PATH, "default: the one that `gyre key` makes", PLACE(key), 0, 0,
     NULL},
    {&gy_option_plaintext, GY_OPTION_FLAG, "loopback addresses only", PLACE(is_plaintext), 0, 0,
     NULL},
    {&gy_option_wait_timeout, GY_OPTION_REAL, "default: 60", PLACE(timeout_s), 0.001, 1e6,
     NULL},
};

static const gy_option show_options[] = {
    {&gy_option_servers, GY_OPTION_TEXT, NULL, PLACE(servers), 0, 0, NULL},
    {&gy_option_lead, GY_OPTION_TEXT, "all servers that they have", PLACE(lead), 0, 0, NULL},
    {&gy_option_key, GY_OPTION_PATH, "default: the one that `gyre key` makes", PLACE(key), 0, 0,
     NULL},
    {&gy_option_plaintext, GY_OPTION_FLAG, "loopback addresses only", PLACE(is_plaintext), 0, 0,
     NULL},
    {&gy_option_connect_timeout, GY_OPTION_REAL, "default: 10", PLACE(connect_timeout_s), 0.001,
     1e5, NULL},
    {&gy_option_stats, GY_OPTION_FLAG, "bytes, waits, staleness of each part", PLACE(has_stats),
     0, 0, NULL},
};

static const gy_option bench_options[] = {
    {&gy_option_duration, GY_OPTION_REAL, "for each figure; default: 0.3", PLACE(duration_s),
     0.001, 60, NULL},
    {&gy_option_key, GY_OPTION_PATH, "default: none, plain text", PLACE(key), 0, 0, NULL},
    {&gy_option_stats, GY_OPTION_FLAG, "of the worker", PLACE(has_stats), 0, 0, NULL},
};

static const gy_option simulate_options[] = {
    {&gy_option_data, GY_OPTION_PATHS, "one libsvm file of two labels, or a folder of digits",
     PLACE(data), 0, 0, NULL},
    {&gy_option_workers, GY_OPTION_INTEGER, "of the training; default: 16", PLACE(workers), 1,
     4096, NULL},
    {&gy_option_sync, GY_OPTION_TEXT,
     "default: bsp,ssp:1,ssp:4,ssp:16,asp,backup:1,backup:2; of digits bsp,ssp:4,asp,backup:1",
     PLACE(sync), 0, 0, NULL},
    {&gy_option_batch, GY_OPTION_INTEGER, "default: 256", PLACE(batch), 1, 1 << 20, NULL},
    {&gy_option_learning_rate, GY_OPTION_REAL, "default: 0.5, of digits 0.1", PLACE(rate),
     1e-12, 1e6, NULL},
    {&gy_option_seed, GY_OPTION_INTEGER, "default: 1", PLACE(seed), 0, 1 << 30, NULL},
    {&gy_option_csv, GY_OPTION_FLAG, NULL, PLACE(is_csv), 0, 0, NULL},
};

static const gy_command verbs[] = {
    {.name = "ps lead",
     .operands = "",
     .description =
         "Runs the lead of a cluster of parameter servers: it says which servers have which\n"
         "parts of tables, replaces servers that are lost, and moves parts to those that "
         "come.\n"
         "Of several with one table one leads; the others are on standby.",
     .options = lead_options,
     .option_count = COUNT(lead_options),
     .settings = &settings,
     .run = run_lead},
    {.name = "ps drain",
     .operands = "HOST:PORT",
     .operands_least = 1,
     .operands_most = 1,
     .description = "Moves all parts of a server to others, so that it can be stopped.",
     .options = drain_options,
     .option_count = COUNT(drain_options),
     .settings = &settings,
     .run = run_drain},
    {.name = "ps save",
     .operands = "",
     .description = "Takes a snapshot of all tables, of one clock: a file of each part in the "
                    "--folder of\n"
                    "its server, whole or not at all. Training goes on meanwhile.",
     .options = save_options,
     .option_count = COUNT(save_options),
     .settings = &settings,
     .run = run_save},
    {.name = "ps serve",
     .operands = "",
     .description =
         "Runs a parameter server: it holds the parts of tables that workers open, in memory,\n"
         "until SIGTERM. Prints HOST:PORT once it serves. With --lead its parts are those "
         "that\n"
         "the lead gives it, each of which other servers have as well.",
     .options = serve_options,
     .option_count = COUNT(serve_options),
     .settings = &settings,
     .run = run_serve},
    {.name = "ps show",
     .operands = "",
     .description = "Prints the tables of servers, a line for each part.",
     .options = show_options,
     .option_count = COUNT(show_options),
     .settings = &settings,
     .run = run_show},
    {.name = "ps bench",
     .operands = "",
     .description = "Measures pushes and pulls at a server of this host beside plain sockets.",
     .options = bench_options,
     .option_count = COUNT(bench_options),
     .settings = &settings,
     .run = run_bench},
    {.name = "ps simulate",
     .operands = "MODEL",
     .operands_least = 1,
     .operands_most = 1,
     .description =
         "Trains MODEL by workers and a server in virtual time, with real gradients: the time\n"
         "to a target loss for each rule of consistency. Of logistic with workers that are\n"
         "even, one that is slow, steps that are slow, rows that are skewed, then what codecs\n"
         "save; a seed gives the same table on every machine. Of softmax, mlp and lenet, on\n"
         "digits, with one that is slow and steps that are slow.",
     .options = simulate_options,
     .option_count = COUNT(simulate_options),
     .settings = &settings,
     .run = run_simulate},
};

const gy_command gy_command_ps = {
    .name = "ps",
    .summary = "parameter servers: serve, lead, drain, save, show, measure",
    .operands = "VERB [OPTION...]",
    .operands_least = 1,
    .operands_most = -1,
    .stops_at_operand = true,
    .description = "serve  run a parameter server\n"
                   "lead   run the lead of parameter servers that replace each other\n"
                   "drain  move all parts of a server to others\n"
                   "save   take a snapshot of all tables\n"
                   "show   print the tables of servers\n"
                   "bench  measure pushes and pulls beside plain sockets\n"
                   "simulate  compare rules of consistency in virtual time",
    .verbs = verbs,
    .verb_count = COUNT(verbs),
};
