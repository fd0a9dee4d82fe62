/* `gyre nameserver` */
#include "cli/cli.h"
#include "cli/cluster/common.h"
#include "cli/report.h"

#include <stdio.h>
#include <string.h>

static struct nameserver_settings {
    gy_nameserver_options of;
    const char *port_file;
    long long files_limit, attempts, daemons, jobs, managers, ended;
    bool has_failed;
} settings;

static void listening(void *arg, const char *address)
{
    (void)arg;
    printf("%s\n", address);
    fflush(stdout);
    settings.has_failed = !gy_cli_write_port_file("nameserver", settings.port_file, address);
}

/* Printed on standard error, because scripts read standard output; without the token, because
 * standard error is often a log that others can read. */
static void page_ready(void *arg, const char *url, const char *token_file)
{
    (void)arg;
    gy_print_to(stderr, "status page: %s\nthe token for %s?token=TOKEN is in %s\n", url, url,
                token_file);
}

/* Check the options before any file is made. */
static int check(const gy_nameserver_options *options)
{
    const char *table = options->table;
    const size_t word = strcspn(table, ":/");
    const bool is_etcd = strncmp(table, "etcd:", 5) == 0;
    if (table[word] == ':' && !is_etcd && strncmp(table, "sqlite:", 7) != 0 &&
        strncmp(table, "file:", 5) != 0) {
        return gy_cli_report_usage("gyre nameserver: --table is '%s', expected sqlite:PATH or "
                                   "etcd:https://HOST:PORT,.../PREFIX",
                                   table);
    }
    if (!is_etcd && (options->table_user != NULL || options->table_password_file != NULL ||
                     options->table_authorities != NULL || options->table_certificate != NULL ||
                     options->table_certificate_key != NULL)) {
        return gy_cli_report_usage(
            "gyre nameserver: --table-user, --table-password, --table-ca, "
            "--table-cert and --table-cert-key are for a --table in etcd");
    }
    if (options->page == NULL && options->page_token_file != NULL) {
        return gy_cli_report_usage(
            "gyre nameserver: --page-token needs a status page (--page)");
    }
    int checked = gy_cli_check_addresses("nameserver", "--listen", options->listen, 0);
    const bool has_host = options->page != NULL && strchr(options->page, ':') != NULL;
    return checked != GY_EXIT_OK || !has_host
               ? checked
               : gy_cli_check_addresses("nameserver", "--page", options->page, 0);
}

static int run(char **operands, int count)
{
    (void)operands;
    (void)count;
    gy_nameserver_options options = settings.of;
    if (options.listen == NULL || options.table == NULL) {
        return gy_cli_report_usage(
            "gyre nameserver: --listen HOST:PORT and --table must be given");
    }
    int checked = check(&options);
    if (checked != GY_EXIT_OK) {
        return checked;
    }
    char kept[4096];
    int found = gy_cli_find_key("nameserver", settings.of.key_file, options.is_plaintext, kept,
                                &options.key_file);
    if (found != GY_EXIT_OK) {
        return found;
    }
    options.files_limit_bytes = (uint64_t)settings.files_limit;
    options.attempts_max = (int)settings.attempts;
    options.daemons_max = (int)settings.daemons;
    options.jobs_max = (int)settings.jobs;
    options.managers_max = (int)settings.managers;
    options.finished_jobs_max = (int)settings.ended;
    options.on_listening = listening;
    options.on_page_ready = page_ready;
    gy_status status = gy_nameserver_run(&options);
    return status < 0            ? gy_cli_failure("nameserver", status)
           : settings.has_failed ? GY_EXIT_FAILURE
                                 : GY_EXIT_OK;
}

#define PLACE(member) offsetof(struct nameserver_settings, member)

static const gy_option options[] = {
    {&gy_option_listen, GY_OPTION_TEXT, "port 0: the system chooses one", PLACE(of.listen), 0,
     0, NULL},
    {&gy_option_key, GY_OPTION_PATH, "default: the one that `gyre key` makes",
     PLACE(of.key_file), 0, 0, NULL},
    {&gy_option_plaintext, GY_OPTION_FLAG, "loopback addresses only", PLACE(of.is_plaintext), 0,
     0, NULL},
    {&gy_option_table, GY_OPTION_TEXT, NULL, PLACE(of.table), 0, 0, NULL},
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
    {&gy_option_files_folder, GY_OPTION_PATH, "default: TABLE.files", PLACE(of.files), 0, 0,
     NULL},
    {&gy_option_files_max, GY_OPTION_SIZE, "default: 10GiB", PLACE(files_limit), 1, 0, NULL},
    {&gy_option_port_file, GY_OPTION_PATH, NULL, PLACE(port_file), 0, 0, NULL},
    {&gy_option_page, GY_OPTION_TEXT, "without HOST: on the loopback address only",
     PLACE(of.page), 0, 0, NULL},
    {&gy_option_page_token, GY_OPTION_PATH, "default: TABLE.token", PLACE(of.page_token_file),
     0, 0, NULL},
    {&gy_option_heartbeat_timeout, GY_OPTION_REAL, "daemons and job managers; default: 2",
     PLACE(of.heartbeat_timeout_s), 0.1, 1e6, NULL},
    {&gy_option_slot_lease, GY_OPTION_REAL, "default: 10", PLACE(of.lease_s), 0.1, 1e6, NULL},
    {&gy_option_preemption_delay, GY_OPTION_REAL, "default: 1", PLACE(of.preempt_after_s),
     0.001, 1e6, NULL},
    {&gy_option_preemption_grace, GY_OPTION_REAL, "default: 10", PLACE(of.preemption_grace_s),
     0.001, 1e6, NULL},
    {&gy_option_gang_preemption_exempt, GY_OPTION_REAL, "default: 60", PLACE(of.gang_hold_s),
     0.001, 1e6, NULL},
    {&gy_option_manager_start_timeout, GY_OPTION_REAL, "default: 10",
     PLACE(of.manager_start_timeout_s), 0.1, 1e6, NULL},
    {&gy_option_manager_attempts_max, GY_OPTION_INTEGER, "then the job fails; default: 5",
     PLACE(attempts), 1, 1000, NULL},
    {&gy_option_daemons_max, GY_OPTION_INTEGER, "default: 4096", PLACE(daemons), 1, 1000000,
     NULL},
    {&gy_option_jobs_max, GY_OPTION_INTEGER, "default: 4096", PLACE(jobs), 1, 1000000, NULL},
    {&gy_option_managers_max, GY_OPTION_INTEGER, "further jobs wait; default: 64",
     PLACE(managers), 1, 1000000, NULL},
    {&gy_option_finished_jobs_max, GY_OPTION_INTEGER, "default: 1000", PLACE(ended), 1, 1000000,
     NULL},
};

const gy_command gy_command_nameserver = {
    .name = "nameserver",
    .summary = "run a cluster's resource manager: allocate slots to jobs",
    .operands = "",
    .description =
        "Runs a name server, the cluster's resource manager: it keeps track of the daemons,\n"
        "accepts jobs, allocates slots to them by their weights, and starts a manager for "
        "each\n"
        "job. Runs until SIGTERM; after a restart it continues from its table. Of several "
        "name\n"
        "servers with one table one is the leader; the others are on standby.\n"
        "Prints HOST:PORT once it serves.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .settings = &settings,
    .run = run,
};
