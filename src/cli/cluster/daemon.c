/* gyre daemon: serve a cluster with this host. */
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
    {"names", 0, GY_OPTION_TEXT, "ADDRESSES", "name servers, HOST:PORT with commas between",
     offsetof(__typeof__(settings), names), 0, 0, NULL},
    {"listen", 0, GY_OPTION_TEXT, "HOST:PORT", "where managers and other daemons call",
     offsetof(__typeof__(settings), listen), 0, 0, NULL},
    {"folder", 0, GY_OPTION_PATH, "FOLDER", "its own, on a disk of this host",
     offsetof(__typeof__(settings), folder), 0, 0, NULL},
    {"key", 0, GY_OPTION_PATH, "FILE", "cluster key (default: the one `gyre key` makes)",
     offsetof(__typeof__(settings), key), 0, 0, NULL},
    {"plaintext", 0, GY_OPTION_FLAG, NULL, "no key and no encryption, loopback alone",
     offsetof(__typeof__(settings), plaintext), 0, 0, NULL},
    {"slots", 0, GY_OPTION_INTEGER, "N", "processes at once (default: one a core)",
     offsetof(__typeof__(settings), slots), 1, 1024, NULL},
    {"memory", 0, GY_OPTION_SIZE, "SIZE", "most of a process (default: no limit)",
     offsetof(__typeof__(settings), memory), GY_FLOW_MEMORY_BYTES_MIN, 0, NULL},
    {"reserve", 0, GY_OPTION_SIZE, "SIZE", "of disk, below which it takes no work (1 GiB)",
     offsetof(__typeof__(settings), reserve), 1, 0, NULL},
    {"files", 0, GY_OPTION_SIZE, "SIZE", "of programs that no job needs just now (4 GiB)",
     offsetof(__typeof__(settings), files), 1, 0, NULL},
    {"keep", 0, GY_OPTION_REAL, "SECONDS", "a job's files outlive its manager so long (10)",
     offsetof(__typeof__(settings), keep), 0.001, 1e6, NULL},
    {"host", 0, GY_OPTION_TEXT, "NAME", "what this host is called (default: as the system)",
     offsetof(__typeof__(settings), host), 0, 0, NULL},
    {"labels", 0, GY_OPTION_TEXT, "WORDS", "what jobs may ask for, with commas between",
     offsetof(__typeof__(settings), labels), 0, 0, NULL},
    {"sandbox", 0, GY_OPTION_TEXT, "LIST",
     "walls around processes of jobs (default: rights, processes, calls if it can)",
     offsetof(__typeof__(settings), sandbox), 0, 0, NULL},
    {"port-file", 0, GY_OPTION_PATH, "FILE", "write the address to this file once it serves",
     offsetof(__typeof__(settings), port_file), 0, 0, NULL},
};

static void listening(void *arg, const char *address)
{
    (void)arg;
    printf("serves at %s\n", address);
    fflush(stdout);
    settings.has_failed = !gy_cli_write_port_file("daemon", settings.port_file, address);
}

static int run(char **operands, int operand_count)
{
    (void)operands;
    (void)operand_count;
    if (settings.names == NULL || settings.listen == NULL || settings.folder == NULL) {
        return gy_report_usage("gyre daemon: --names, --listen and --folder must be given");
    }
    int checked = gy_cli_check_addresses("daemon", "--listen", settings.listen, 0);
    checked = checked != GY_EXIT_OK
                  ? checked
                  : gy_cli_check_addresses("daemon", "--names", settings.names, 1);
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
    .summary = "serve a cluster with this host: run processes of jobs",
    .operands = "",
    .description =
        "Lends slots to the jobs of a cluster, as its name server says, runs their processes "
        "and\n"
        "managers, and keeps the files between their vertices. Ends on SIGTERM with all that\n"
        "it started; so does all when it is killed.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .settings = &settings,
    .run = run,
};
