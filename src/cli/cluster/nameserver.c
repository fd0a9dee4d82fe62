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

/* Not among what scripts read; without the token, as standard error often is a log that others
 * may read. */
static void page_ready(void *arg, const char *url, const char *token_file)
{
    (void)arg;
    gy_print_to(stderr, "status page: %s\nits token, as %s?token=TOKEN, is in %s\n", url, url,
                token_file);
}

/* Before anything is made. */
static int check(const gy_nameserver_options *options)
{
    const char *table = options->table;
    const size_t word = strcspn(table, ":/");
    const bool is_etcd = strncmp(table, "etcd:", 5) == 0;
    if (table[word] == ':' && !is_etcd && strncmp(table, "sqlite:", 7) != 0 &&
        strncmp(table, "file:", 5) != 0) {
        return gy_report_usage("gyre nameserver: --table is '%s', expected sqlite:PATH or "
                               "etcd:https://HOST:PORT,.../PREFIX",
                               table);
    }
    if (!is_etcd && (options->table_user != NULL || options->table_password_file != NULL ||
                     options->table_authorities != NULL || options->table_certificate != NULL ||
                     options->table_certificate_key != NULL)) {
        return gy_report_usage("gyre nameserver: --table-user, --table-password, --table-ca, "
                               "--table-cert and --table-cert-key are for a --table in etcd");
    }
    if (options->page == NULL && options->page_token_file != NULL) {
        return gy_report_usage("gyre nameserver: --page-token is for a status page alone "
                               "(--page)");
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
        return gy_report_usage("gyre nameserver: --listen HOST:PORT and --table are needed");
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
    {"listen", 'l', GY_OPTION_TEXT, "HOST:PORT", "where it serves (port 0: one is chosen)",
     PLACE(of.listen), 0, 0, NULL},
    {"key", 0, GY_OPTION_PATH, "FILE",
     "the cluster's key file (default: the one `gyre key` makes)", PLACE(of.key_file), 0, 0,
     NULL},
    {"plaintext", 0, GY_OPTION_FLAG, NULL, "no key and no encryption; on this host alone",
     PLACE(of.is_plaintext), 0, 0, NULL},
    {"table", 0, GY_OPTION_TEXT, "WHERE",
     "its records: sqlite:PATH, or etcd:https://HOST:PORT,.../PREFIX", PLACE(of.table), 0, 0,
     NULL},
    {"table-user", 0, GY_OPTION_TEXT, "NAME", "of etcd", PLACE(of.table_user), 0, 0, NULL},
    {"table-password", 0, GY_OPTION_PATH, "FILE", "that holds etcd's password",
     PLACE(of.table_password_file), 0, 0, NULL},
    {"table-ca", 0, GY_OPTION_PATH, "FILE", "certificates of authorities that etcd's is of",
     PLACE(of.table_authorities), 0, 0, NULL},
    {"table-cert", 0, GY_OPTION_PATH, "FILE", "certificate for etcd, without a common name",
     PLACE(of.table_certificate), 0, 0, NULL},
    {"table-cert-key", 0, GY_OPTION_PATH, "FILE", "its key", PLACE(of.table_certificate_key), 0,
     0, NULL},
    {"table-plaintext", 0, GY_OPTION_FLAG, NULL,
     "http also where etcd is on other hosts, without a user", PLACE(of.table_is_plaintext), 0,
     0, NULL},
    {"table-lease", 0, GY_OPTION_REAL, "SECONDS",
     "who is elected and not heard so long is it no more (default: 5)", PLACE(of.table_lease_s),
     1, 3600, NULL},
    {"files", 0, GY_OPTION_PATH, "DIR", "of jobs: programs, libraries (default: TABLE.files)",
     PLACE(of.files), 0, 0, NULL},
    {"files-limit", 0, GY_OPTION_SIZE, "SIZE", "of all these (default: 10GiB)",
     PLACE(files_limit), 1, 0, NULL},
    {"port-file", 0, GY_OPTION_PATH, "FILE", "gets HOST:PORT once it serves", PLACE(port_file),
     0, 0, NULL},
    {"page", 0, GY_OPTION_TEXT, "HOST:PORT",
     "a status page for browsers (without HOST: for those of this host)", PLACE(of.page), 0, 0,
     NULL},
    {"page-token", 0, GY_OPTION_PATH, "FILE", "gets the page's token (default: TABLE.token)",
     PLACE(of.page_token_file), 0, 0, NULL},
    {"dead", 0, GY_OPTION_REAL, "SECONDS",
     "a daemon or manager silent for so long is lost (default: 2)",
     PLACE(of.heartbeat_timeout_s), 0.1, 1e6, NULL},
    {"lease", 0, GY_OPTION_REAL, "SECONDS",
     "a slot lasts so long without a word of its manager (default: 10)", PLACE(of.lease_s), 0.1,
     1e6, NULL},
    {"patience", 0, GY_OPTION_REAL, "SECONDS",
     "slots are wanted so long before others are asked for them (default: 1)",
     PLACE(of.preempt_after_s), 0.001, 1e6, NULL},
    {"grace", 0, GY_OPTION_REAL, "SECONDS", "from being asked to losing a slot (default: 10)",
     PLACE(of.preemption_grace_s), 0.001, 1e6, NULL},
    {"gang-hold", 0, GY_OPTION_REAL, "SECONDS",
     "a gang keeps its slots so long before it is asked (default: 60)", PLACE(of.gang_hold_s),
     0.001, 1e6, NULL},
    {"start", 0, GY_OPTION_REAL, "SECONDS",
     "a manager that was started is heard within (default: 10)",
     PLACE(of.manager_start_timeout_s), 0.1, 1e6, NULL},
    {"attempts", 0, GY_OPTION_INTEGER, "N",
     "managers of a job in a row that end early, then it fails (default: 5)", PLACE(attempts),
     1, 1000, NULL},
    {"daemons", 0, GY_OPTION_INTEGER, "N", "at most so many (default: 4096)", PLACE(daemons), 1,
     1000000, NULL},
    {"jobs", 0, GY_OPTION_INTEGER, "N", "open ones, at most (default: 4096)", PLACE(jobs), 1,
     1000000, NULL},
    {"managers", 0, GY_OPTION_INTEGER, "N",
     "of jobs at a daemon, other jobs wait (default: 64)", PLACE(managers), 1, 1000000, NULL},
    {"ended", 0, GY_OPTION_INTEGER, "N", "ended ones that are still listed (default: 1000)",
     PLACE(ended), 1, 1000000, NULL},
};

const gy_command gy_command_nameserver = {
    .name = "nameserver",
    .summary = "serve a cluster: lend daemons' slots to jobs",
    .operands = "",
    .description =
        "Knows the daemons of a cluster, accepts jobs, lends them slots by their shares, and\n"
        "sees that each has a manager. Runs until SIGTERM; started again it goes on from its\n"
        "table. Several with one table: one of them is elected and serves, the others wait.\n"
        "Prints HOST:PORT once it serves.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .settings = &settings,
    .run = run,
};
