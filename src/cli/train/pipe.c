/* Stages and micro-batches of gyre train. */
#include "cli/train/pipe.h"

#include "cli/cli.h"
#include "cli/lists.h"
#include "cli/report.h"
#include "cli/train/update.h"

#include <string.h>
#include <unistd.h>

static bool is_name(const char *text)
{
    for (int i = 0; gy_pipe_name(i) != NULL; i++) {
        if (strcmp(gy_pipe_name(i), text) == 0) {
            return true;
        }
    }
    return false;
}

int gy_cli_pipe_check(gy_cli_pipe *pipe, const char *mesh)
{
    const struct {
        const char *name;
        bool is_given;
    } of_pipe[] = {{"cut", pipe->cut != NULL},
                   {"pipe-schedule", pipe->schedule != NULL},
                   {"chunks", pipe->chunks > 0}};
    for (size_t i = 0; i < sizeof(of_pipe) / sizeof(of_pipe[0]); i++) {
        if (of_pipe[i].is_given && !gy_cli_mesh_has(mesh, "pipe")) {
            return gy_cli_report_usage("gyre train: --%s: the mesh '%s' has no axis pipe",
                                       of_pipe[i].name, mesh != NULL ? mesh : "data");
        }
        if (i > 0 && of_pipe[i].is_given && pipe->micros == 0 && !gy_cli_mesh_is_auto(mesh)) {
            return gy_cli_report_usage("gyre train: --%s needs --micro-batches N",
                                       of_pipe[i].name);
        }
    }
    const char *schedule = pipe->schedule != NULL ? pipe->schedule : "1f1b";
    const bool is_named = is_name(schedule);
    if (is_named && pipe->chunks > 1 && strcmp(schedule, "interleaved") != 0) {
        return gy_cli_report_usage("gyre train: --chunks %d: %s has one stage a rank: expected "
                                   "--pipe-schedule interleaved, or lists",
                                   (int)pipe->chunks, schedule);
    }
    if (is_named) {
        return GY_EXIT_OK;
    }
    if (access(schedule, F_OK) != 0) {
        return gy_cli_report_usage("gyre train: --pipe-schedule: '%s' is neither gpipe, 1f1b, "
                                   "interleaved or zb-h1 nor a file",
                                   pipe->schedule);
    }
    const int code = gy_cli_lists_read("train", pipe->schedule, &pipe->lists);
    if (code == GY_EXIT_OK && pipe->chunks > 0 &&
        pipe->lists->stages != pipe->chunks * pipe->lists->ranks) {
        return gy_cli_report_usage(
            "gyre train: --chunks is %d, but the lists of '%s' have %d stages on %d ranks",
            (int)pipe->chunks, pipe->schedule, pipe->lists->stages, pipe->lists->ranks);
    }
    return code;
}
