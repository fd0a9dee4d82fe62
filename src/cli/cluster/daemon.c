/* gyre daemon: make this host part of a cluster. */
#include "cli/cli.h"
#include "cli/cluster/common.h"
#include "cli/report.h"

#include <gyre/daemon.h>
#include <gyre/flow.h>

#include <string.h>

static struct {
    const char *names, *listen, *folder, *key, *host, *labels, *port_file, *sandbox;
    long long slots, memory, reserve, files;
    bool plaintext, has_failed;
    double keep;
} settings = {.names = NULL};

static const gy_option options[] = {
    {&gy_option_nameservers, GY_OPTION_TEXT, NULL, offsetof(__typeof__(settings), names), 0, 0,
     NULL},
    {&gy_option_listen, GY_OPTION_TEXT, "for job managers and other daemons",
     offsetof(__typeof__(settings), listen), 0, 0, NULL},
    {&gy_option_work_folder, GY_OPTION_PATH, NULL, offsetof(__typeof__(settings), folder), 0, 0,
     NULL},
    {&gy_option_key, GY_OPTION_PATH, "default: the one that `gyre key` makes",
     offsetof(__typeof__(settings), key), 0, 0, NULL},
    {&gy_option_plaintext, GY_OPTION_FLAG, "loopback addresses only",
     offsetof(__typeof__(settings), plaintext), 0, 0, NULL},
    {&gy_option_slots, GY_OPTION_INTEGER, "default: one per core",
     offsetof(__typeof__(settings), slots), 1, 1024, NULL},
    {&gy_option_memory_max, GY_OPTION_SIZE, "default: no limit",
     offsetof(__typeof__(settings), memory), GY_FLOW_MEMORY_BYTES_MIN, 0, NULL},
    {&gy_option_disk_free_min, GY_OPTION_SIZE, "default: 1GiB",
     offsetof(__typeof__(settings), reserve), 1, 0, NULL},
    {&gy_option_files_max, GY_OPTION_SIZE, "default: 4GiB",
     offsetof(__typeof__(settings), files), 1, 0, NULL},
    {&gy_option_orphan_retention, GY_OPTION_REAL, "default: 10",
     offsetof(__typeof__(settings), keep), 0.001, 1e6, NULL},
    {&gy_option_hostname, GY_OPTION_TEXT, "default: the system's",
     offsetof(__typeof__(settings), host), 0, 0, NULL},
    {&gy_option_host_labels, GY_OPTION_TEXT, NULL, offsetof(__typeof__(settings), labels), 0, 0,
     NULL},
    {&gy_option_sandbox, GY_OPTION_TEXT,
     "default: rights, processes and calls where the machine supports them",
     offsetof(__typeof__(settings), sandbox), 0, 0, NULL},
    {&gy_option_port_file, GY_OPTION_PATH, NULL, offsetof(__typeof__(settings), port_file), 0,
     0, NULL},
};

static void listening(void *arg, const char *address)
{
    (void)arg;
    printf("listening at %s\n", address);
    fflush(stdout);
    settings.has_failed = !gy_cli_write_port_file("daemon", settings.port_file, address);
}

static int run(char **operands, int operand_count)
{
    (void)operands;
    (void)operand_count;
    if (settings.names == NULL || settings.listen == NULL || settings.folder == NULL) {
        return gy_cli_report_usage(
            "gyre daemon: --nameservers, --listen and --work-folder must be given");
    }
    int checked = gy_cli_check_addresses("daemon", "--listen", settings.listen, 0);
    checked = checked != GY_EXIT_OK
                  ? checked
                  : gy_cli_check_addresses("daemon", "--nameservers", settings.names, 1);
    if (checked != GY_EXIT_OK) {
        return checked;
    }
    gy_status status = gy_daemon_run(&(gy_daemon_run_options){
        .nameservers = settings.names,
        .listen = settings.listen,
        .folder = settings.folder,
        .key_file = settings.key,
        .is_plaintext = settings.plaintext,
        .host = settings.host,
        .labels = settings.labels,
        .slots = (int)settings.slots,
        .memory_bytes = (uint64_t)settings.memory,
        .reserve_bytes = (uint64_t)settings.reserve,
        .cache_bytes_max = (uint64_t)settings.files,
        .retention_s = settings.keep,
        .sandbox = settings.sandbox,
        .on_listening = listening,
    });
    return status < 0            ? gy_cli_failure("daemon", status)
           : settings.has_failed ? GY_EXIT_FAILURE
                                 : GY_EXIT_OK;
}

const gy_command gy_command_daemon = {
    .name = "daemon",
    .summary = "make this host part of a cluster: run processes of jobs",
    .operands = "",
    .description =
        "Makes this host a part of a cluster: leases its slots to jobs as the name server "
        "(the\n"
        "cluster's resource manager) allocates them, runs the jobs' processes and managers, "
        "and\n"
        "stores the files between their vertices. On SIGTERM, and when it is killed, all\n"
        "processes that it started end too.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .settings = &settings,
    .run = run,
};
