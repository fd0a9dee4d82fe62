/* A vertex whose command runs as ranks of the tensor runtime. Its inputs are files when the
 * ranks start, and its output is a file that rank 0 writes. On several hosts one process of
 * each host starts that host's ranks; the other members only occupy the executor slots of
 * these ranks. */
#include "base/base.h"
#include "driver/gang.h"
#include "flow/channel/vertex.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LOOK_MS = 20,
    COPY_BYTES = 256 << 10,
    ATTEMPT_MASK = (1 << 20) - 1, /* number of an attempt under this manager */
    /* launches that may end by the loss of another node before it counts as a failure */
    LOSSES_MAX = 16,
};

/* ---- files ---- */

static gy_status write_input(gy_vertex *vertex, int input, const char *path)
{
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        return gy_fail(GY_IO, "cannot make %s: %s", path, strerror(errno));
    }
    const void *data = NULL;
    size_t size = 1;
    gy_status status = GY_OK;
    while (status >= 0 && size > 0) {
        status = gy_vertex_read(vertex, input, &data, &size);
        if (status >= 0 && size > 0 && fwrite(data, 1, size, file) != size) {
            status = gy_fail(errno == ENOSPC ? GY_LIMIT : GY_IO, "cannot write %s: %s", path,
                             strerror(errno));
        }
    }
    if (fclose(file) != 0 && status >= 0) {
        status = gy_fail(GY_IO, "cannot write %s: %s", path, strerror(errno));
    }
    return status;
}

/* What ranks find in their environment: variables, and the folder and file that these name. */
typedef struct rank_files {
    gy_text inputs, output; /* "GYRE_INPUTS=FOLDER", "GYRE_OUTPUT=FILE" */
    const char *variables[3];
} rank_files;

static const char *value_of(const gy_text *variable)
{
    return strchr(variable->data, '=') + 1;
}

static gy_status write_inputs(gy_vertex *vertex, rank_files *files)
{
    gy_status status = GY_OK;
    if (mkdir(value_of(&files->inputs), 0700) != 0 && errno != EEXIST) {
        return gy_fail(GY_IO, "cannot make %s: %s", value_of(&files->inputs), strerror(errno));
    }
    for (uint32_t i = 0; status >= 0 && i < vertex->order->input_count; i++) {
        gy_text path = {.data = NULL};
        gy_text_add(&path, "%s/%u", value_of(&files->inputs), i);
        status = path.status < 0 ? path.status : write_input(vertex, (int)i, path.data);
        gy_text_free(&path);
    }
    return status;
}

static gy_status make_files(gy_vertex *vertex, rank_files *files)
{
    const gy_flow_task *order = vertex->order;
    if (order->input_count == 0 && order->output_count == 0) {
        return GY_OK;
    }
    const char *folder = gy_vertex_scratch(vertex);
    int count = 0;
    if (folder == NULL) {
        return vertex->status;
    }
    gy_text_add(&files->inputs, "GYRE_INPUTS=%s/inputs", folder);
    gy_text_add(&files->output, "GYRE_OUTPUT=%s/output", folder);
    GY_TRY(files->inputs.status);
    GY_TRY(files->output.status);
    if (order->input_count > 0) {
        files->variables[count++] = files->inputs.data;
        GY_TRY(write_inputs(vertex, files));
    }
    if (order->output_count > 0) {
        files->variables[count++] = files->output.data;
        if (unlink(value_of(&files->output)) != 0 && errno != ENOENT) {
            return gy_fail(GY_IO, "cannot remove %s: %s", value_of(&files->output),
                           strerror(errno));
        }
    }
    return GY_OK;
}

/* Make rank 0's file the output. */
static gy_status read_output(gy_vertex *vertex, const rank_files *files)
{
    if (vertex->order->output_count == 0) {
        return GY_OK;
    }
    const char *path = value_of(&files->output);
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) {
        return gy_fail(GY_NOTFOUND, "the ranks of %s left no $GYRE_OUTPUT (%s): %s",
                       vertex->order->command[0], path, strerror(errno));
    }
    gy_status status = GY_OK;
    ssize_t got = 1;
    while (status >= 0 && got != 0) {
        void *room = NULL;
        status = gy_vertex_reserve(vertex, 0, COPY_BYTES, &room);
        got = status >= 0 ? read(file, room, COPY_BYTES) : 0;
        if (status >= 0 && got < 0 && errno != EINTR) {
            status = gy_fail(GY_IO, "cannot read %s: %s", path, strerror(errno));
        }
        status = status < 0 ? status : gy_vertex_advance(vertex, 0, got > 0 ? (size_t)got : 0);
    }
    close(file);
    return status;
}

/* ---- hosts ---- */

/* Occupy the slot of a rank that another process starts, until that process has ended. */
static gy_status hold_slot(gy_vertex *vertex, uint32_t starter)
{
    const gy_worker_task *task = vertex->order->task;
    char words[GY_WORKER_WORDS_BYTES + 1] = "";
    while (strcmp(words, "over") != 0) {
        GY_TRY(gy_vertex_check(vertex));
        if (gy_worker_ask(task, starter, words) == GY_AGAIN) {
            (void)poll(NULL, 0, LOOK_MS);
        }
    }
    return GY_OK;
}

static gy_status run_ranks(gy_vertex *vertex, uint32_t node, uint32_t each,
                           const rank_files *files)
{
    const gy_flow_task *order = vertex->order;
    const int64_t left_ns = order->deadline.at_ns - gy_now_ns(vertex->env);
    const bool has_limit = order->deadline.at_ns != GY_NEVER.at_ns;
    gy_gang gang = {
        .ranks = (int)each,
        .timeout_s = has_limit ? GY_MAX((double)left_ns * 1e-9, 1e-3) : 0,
        .run = order->parameter,
        .run_bytes = order->parameter_bytes,
        .environment = files->variables,
        .task = order->task,
        .is_reported = order->is_reported,
        .nodes = order->hosts > 1 ? order->hosts : 0,
        .node = (int)node,
        .address = order->address,
        .is_plain = order->is_plain,
    };
    memcpy(&gang.argv, &order->command, sizeof(gang.argv)); /* drops the const */
    gy_status status = gy_gang_run(&gang, vertex->is_cancelled);
    /* Another node was lost: either the manager notices its host's loss, or the next launch
     * does. The number of such retries is limited. */
    if (status == GY_STATE && (order->id.attempt & ATTEMPT_MASK) <= LOSSES_MAX) {
        return gy_vertex_fail(vertex, status, GY_CAUSE_PEER);
    }
    return status;
}

gy_status gy_flow_ranks_run(gy_vertex *vertex)
{
    const gy_flow_task *order = vertex->order;
    const uint32_t hosts = (uint32_t)GY_MAX(order->hosts, 1);
    const uint32_t each = (uint32_t)order->ranks / hosts;
    const bool has_slots = order->hosts > 0; /* each rank has an executor slot */
    const uint32_t node = has_slots ? order->member / each : 0;
    if (has_slots && order->task == NULL) {
        return gy_fail(GY_ARG, "ranks over hosts without a task");
    }
    if (has_slots && order->member % each != 0) {
        return hold_slot(vertex, node * each);
    }
    rank_files files = {.variables = {NULL}};
    gy_status status = make_files(vertex, &files);
    if (status >= 0) {
        status = run_ranks(vertex, node, each, &files);
    }
    if (status >= 0 && node == 0) {
        status = read_output(vertex, &files);
    }
    if (has_slots) {
        gy_error why;
        gy_error_take(&why, status < 0 ? status : GY_STATE);
        gy_worker_publish(order->task, "over", 4);
        status = status < 0 ? gy_error_raise(&why) : GY_OK;
    }
    gy_text_free(&files.inputs);
    gy_text_free(&files.output);
    return status;
}
