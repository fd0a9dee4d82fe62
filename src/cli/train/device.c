#include "cli/train/device.h"

#include "cli/cli.h"
#include "cli/report.h"

#include <gyre/info.h>
#include <gyre/launch.h>

#include <stdio.h>
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
    return (gy_cli_device){
        .words = words, .rank = gy_comm_local_rank(comm), .ranks = gy_comm_local_size(comm)};
}

void gy_cli_device_choose(const gy_cli_device *device, gy_train_options *options)
{
    options->device = device->ranks > 0 ? 0 : -1;
    options->devices = device->words;
    options->device_rank = device->rank;
    options->device_ranks = device->ranks;
}

/* A line for each name, with its ranks. */
static void print_names(char (*names)[NAME_BYTES], int ranks)
{
    for (int rank = 0; rank < ranks; rank++) {
        if (names[rank][0] == '\0') {
            continue;
        }
        printf("device %s: rank %d", names[rank], rank);
        for (int other = rank + 1; other < ranks; other++) {
            if (strcmp(names[other], names[rank]) == 0) {
                printf(", %d", other);
                names[other][0] = '\0';
            }
        }
        printf("\n");
    }
}

gy_status gy_cli_device_report(const gy_model *model, gy_comm *comm)
{
    const int ranks = comm != NULL ? gy_comm_size(comm) : 1;
    const char *device = gy_model_device(model);
    char own[NAME_BYTES] = "";
    static char names[GY_RUN_RANKS_MAX][NAME_BYTES];
    if (ranks > GY_RUN_RANKS_MAX) {
        return GY_OK;
    }
    snprintf(own, sizeof(own), "%s", device != NULL ? device : "");
    memcpy(names[0], own, sizeof(own));
    const gy_status status =
        ranks > 1 ? gy_allgather(comm, own, names, NAME_BYTES, GY_U8) : GY_OK;
    if (status >= 0 && (comm == NULL || gy_comm_rank(comm) == 0)) {
        print_names(names, ranks);
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
