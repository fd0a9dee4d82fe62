#include "cli/train/device.h"

#include "cli/cli.h"
#include "cli/report.h"

#include <gyre/info.h>
#include <gyre/launch.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 192 };

int gy_cli_device_check(const char *words)
{
    return gy_info_check_devices("--device", words) == GY_OK
               ? GY_EXIT_OK
               : gy_cli_report_usage("gyre train: %s", gy_error_text());
}

gy_cli_device gy_cli_device_of(const char *words, const gy_comm *comm)
{
    return (gy_cli_device){.words = words,
                           .rank = gy_comm_local_rank(comm),
                           .ranks = gy_comm_local_size(comm),
                           .number = gy_comm_rank(comm)};
}

void gy_cli_device_choose(const gy_cli_device *device, gy_train_options *options)
{
    options->device = device->ranks > 0 ? 0 : -1;
    options->devices = device->words;
    options->device_rank = device->rank;
    options->device_ranks = device->ranks;
}

void gy_cli_device_warn(const gy_cli_device *device)
{
    int named = 1;
    for (const char *at = device->words; at != NULL && *at != '\0'; at++) {
        named += *at == ',' ? 1 : 0;
    }
    if (device->words != NULL && named > device->ranks) {
        gy_print_to(stderr,
                    "gyre: warning: --device %s: a rank takes one device, and this host has %d "
                    "rank%s: --ranks %d takes all\n",
                    device->words, device->ranks, device->ranks == 1 ? "" : "s", named);
    }
}

/* The device of a rank, and how much runs there. */
typedef struct used {
    char name[NAME_BYTES], share[NAME_BYTES];
} used;

static used find_used(gy_model *model)
{
    used found = {.name = ""};
    gy_device_share share = {.why = ""};
    const char *name = gy_model_device(model);
    char have[32], wanted[32], memory[NAME_BYTES / 2] = "";
    if (name == NULL) {
        return found;
    }
    snprintf(found.name, sizeof(found.name), "%s", name);
    if (!gy_session_device_share(gy_model_session(model), &share)) {
        snprintf(found.share, sizeof(found.share), "no step was made");
        return found;
    }
    if (share.short_bytes > 0) {
        snprintf(memory, sizeof(memory), "; its memory is short: %s, where more nodes take %s",
                 gy_cli_memory_text((double)share.memory_bytes, have),
                 gy_cli_memory_text((double)share.short_bytes, wanted));
    }
    if (share.there == 0) {
        snprintf(found.share, sizeof(found.share),
                 "nothing runs there: %s (--explain lists all nodes)%s", share.why, memory);
    } else {
        snprintf(found.share, sizeof(found.share), "%d of a step's %d nodes run there%s",
                 share.there, share.nodes, memory);
    }
    return found;
}

/* Whether devices were to be taken where there are some. */
static bool is_auto(const char *words)
{
    const char *said = words != NULL ? words : getenv("GYRE_DEVICE");
    return said != NULL && strcmp(said, "auto") == 0;
}

/* A line for each device and share, with its ranks, which are numbered from `first`. */
static void print_used(used *all, int ranks, int first, const char *words)
{
    bool is_any = false;
    for (int rank = 0; rank < ranks; rank++) {
        if (all[rank].name[0] == '\0') {
            continue;
        }
        is_any = true;
        printf("device %s: rank %d", all[rank].name, first + rank);
        for (int other = rank + 1; other < ranks; other++) {
            if (strcmp(all[other].name, all[rank].name) == 0 &&
                strcmp(all[other].share, all[rank].share) == 0) {
                printf(", %d", first + other);
                all[other].name[0] = '\0';
            }
        }
        printf("; %s\n", all[rank].share);
    }
    if (!is_any && is_auto(words)) {
        printf("device auto: there is none, all ran on the CPU ('gyre info' says why)\n");
    }
}

gy_status gy_cli_device_report(const gy_cli_device *device, gy_model *model, gy_comm *comm)
{
    const int ranks = comm != NULL ? gy_comm_size(comm) : 1;
    const used own = find_used(model);
    static used all[GY_RUN_RANKS_MAX];
    if (ranks > GY_RUN_RANKS_MAX) {
        return GY_OK;
    }
    all[0] = own;
    const gy_status status =
        ranks > 1 ? gy_allgather(comm, &own, all, sizeof(own), GY_U8) : GY_OK;
    if (status >= 0 && comm == NULL) { /* a worker of parameter servers tells of itself */
        print_used(all, ranks, device->number, device->words);
    } else if (status >= 0 && gy_comm_rank(comm) == 0) {
        print_used(all, ranks, 0, device->words);
    }
    return status;
}

void gy_cli_device_report_counts(gy_model *model)
{
    gy_device_counts counts;
    char there[32], back[32];
    if (gy_session_device_counts(gy_model_session(model), &counts)) {
        printf(
            "  device: %llu kernels in %llu launches, %llu of them graphs; %llu copies there "
            "of %s, %llu back of %s\n",
            (unsigned long long)counts.kernels, (unsigned long long)counts.launches,
            (unsigned long long)counts.graphs, (unsigned long long)counts.copies_there,
            gy_cli_memory_text((double)counts.bytes_there, there),
            (unsigned long long)counts.copies_back,
            gy_cli_memory_text((double)counts.bytes_back, back));
    }
}
