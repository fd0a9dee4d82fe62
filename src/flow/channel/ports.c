/* Inputs and outputs of a vertex: files, sections of files, inline bytes, pipes, FIFOs. */
#include "base/base.h"
#include "flow/channel/vertex.h"
#include "flow/objects/input.h"
#include "flow/objects/prefetch.h"
#include "flow/section/section_fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- inputs ---- */

/* Report a failed input as lost if another execution of its producer can restore it. */
static gy_status lose(gy_vertex *vertex, uint32_t input, gy_status status)
{
    /* a shortage of this process, not of the input */
    if (status == GY_NOMEM || status == GY_LIMIT) {
        return gy_vertex_fail(vertex, status, GY_CAUSE_OWN);
    }
    if (vertex->cause == GY_CAUSE_NONE) {
        vertex->input = input;
    }
    return gy_vertex_fail(vertex, status, GY_CAUSE_LOST_INPUT);
}

static gy_status watch(gy_vertex *vertex, uint32_t input, uint32_t kind)
{
    const gy_section *section = &vertex->inputs[input].section;
    if (section->mapped_bytes == 0) {
        return GY_OK;
    }
    return gy_fault_watch(&vertex->task,
                          &(gy_fault_span){.data = section->memory,
                                           .size_bytes = section->mapped_bytes,
                                           .input = input,
                                           .kind = kind,
                                           .path = vertex->order->inputs[input].path});
}

static void release(gy_vertex *vertex, uint32_t input)
{
    gy_section *section = &vertex->inputs[input].section;
    if (section->mapped_bytes > 0) {
        gy_fault_unwatch(&vertex->task, section->memory);
    }
    gy_section_close(section);
}

/* ---- users' files: nobody can produce them again, so any failure is permanent ---- */

enum { FILES_KEPT = 256 }; /* descriptors that stay open; further files are checked by name */

static int open_file(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

static gy_status fail_open(const char *path, int error)
{
    return gy_fail(error == ENOENT ? GY_NOTFOUND : GY_IO, "cannot open %s: %s", path,
                   strerrordesc_np(error));
}

/* Is an open file still the version that was opened? */
static gy_status check_plain(gy_vertex *vertex, uint32_t input)
{
    const gy_in_port *port = &vertex->inputs[input];
    const char *path = vertex->order->inputs[input].path;
    const int file = port->file >= 0 ? port->file : open_file(path);
    if (file < 0) {
        return fail_open(path, errno);
    }
    const gy_status status = gy_stamp_check(gy_env_real(), file, path, &port->stamp);
    if (port->file < 0) {
        (void)close(file);
    }
    return status;
}

static void close_plain(gy_vertex *vertex, uint32_t input)
{
    gy_in_port *port = &vertex->inputs[input];
    if (port->file >= 0) {
        (void)close(port->file);
    }
    release(vertex, input);
}

gy_status gy_flow_inputs_check(gy_vertex *vertex)
{
    for (uint32_t i = 0; vertex->inputs != NULL && i < vertex->order->input_count; i++) {
        if (vertex->order->inputs[i].kind != GY_INPUT_PLAIN ||
            vertex->inputs[i].state != GY_PORT_OPEN) {
            continue;
        }
        const gy_status status = check_plain(vertex, i);
        if (status < 0) {
            /* the change of the file is the cause of whatever failure followed */
            vertex->cause = GY_CAUSE_NONE;
            return gy_vertex_fail(vertex, status, GY_CAUSE_FATAL);
        }
    }
    return GY_OK;
}

gy_status gy_flow_files_check(gy_vertex *vertex)
{
    const gy_flow_task *order = vertex->order;
    for (size_t i = 0; order->stamps != NULL && order->files != NULL && order->files[i] != NULL;
         i++) {
        const int file = open_file(order->files[i]);
        const int error = errno;
        const gy_status status =
            file < 0 ? fail_open(order->files[i], error)
                     : gy_stamp_check(gy_env_real(), file, order->files[i], &order->stamps[i]);
        if (file >= 0) {
            (void)close(file);
        }
        if (status < 0) {
            vertex->cause = GY_CAUSE_NONE;
            return gy_vertex_fail(vertex, status, GY_CAUSE_FATAL);
        }
    }
    return GY_OK;
}

/* ---- opening ---- */

static gy_status open_section(gy_vertex *vertex, uint32_t input)
{
    const gy_flow_task_input *from = &vertex->order->inputs[input];
    gy_section *section = &vertex->inputs[input].section;
    gy_section_wanted wanted = {
        .path = from->path,
        .owner = {from->key, from->epoch, from->attempt, from->member},
        .content = from->content,
        .section = from->section,
    };
    gy_section_sum sum;
    gy_status status = from->kind == GY_INPUT_FETCHED
                           ? gy_section_open_fetched(&wanted, section, &sum)
                           : gy_section_open(&wanted, section, &sum);
    if (status < 0) {
        return lose(vertex, input, status);
    }
    status = watch(vertex, input, GY_MAPPED_SECTION);
    if (status == GY_OK) {
        status = gy_section_verify(section, &sum, from->path);
    }
    if (status < 0) {
        release(vertex, input);
        return lose(vertex, input, status);
    }
    return GY_OK;
}

/* Map the range of an open file that the order names, as far as this version extends. */
static gy_status map_plain(const gy_flow_task_input *from, int file, const gy_stamp *stamp,
                           gy_section *section)
{
    struct stat status;
    if (fstat(file, &status) != 0) {
        return fail_open(from->path, errno);
    }
    gy_status result = GY_OK;
    uint64_t total = GY_MIN((uint64_t)status.st_size, stamp->disk.size_bytes);
    uint64_t size = from->size_bytes;
    if (!S_ISREG(status.st_mode)) {
        result = gy_fail(GY_IO, "cannot read %s: it is no file", from->path);
    } else if (from->offset > total || (size != UINT64_MAX && size > total - from->offset)) {
        result = gy_fail(GY_IO, "%s has %llu bytes, %llu from offset %llu were to be read",
                         from->path, (unsigned long long)total, (unsigned long long)size,
                         (unsigned long long)from->offset);
    } else {
        size = size == UINT64_MAX ? total - from->offset : size;
        size_t lead = (size_t)(from->offset % 4096);
        *section = (gy_section){.data = "", .size_bytes = (size_t)size};
        if (size > 0) {
            void *memory = mmap(NULL, lead + (size_t)size, PROT_READ, MAP_PRIVATE, file,
                                (off_t)(from->offset - lead));
            section->memory = memory;
            section->mapped_bytes = lead + (size_t)size;
            section->data = (const char *)memory + lead;
            result = memory != MAP_FAILED ? GY_OK
                                          : gy_fail(GY_IO, "cannot map %s: %s", from->path,
                                                    strerrordesc_np(errno));
        }
    }
    return result;
}

/* Decide which version the open file must have from now on: the version that the job was
 * planned with; the current version where no plan recorded one or where the file is another
 * host's copy. */
static gy_status settle_stamp(const gy_flow_task_input *from, int file, gy_stamp *stamp)
{
    GY_TRY(gy_stamp_check(gy_env_real(), file, from->path, &from->stamp));
    if (from->stamp.machine == gy_stamp_machine()) {
        *stamp = from->stamp;
        return GY_OK;
    }
    return gy_stamp_take(gy_env_real(), file, from->path, stamp);
}

static gy_status open_plain(gy_vertex *vertex, uint32_t input)
{
    const gy_flow_task_input *from = &vertex->order->inputs[input];
    gy_in_port *port = &vertex->inputs[input];
    gy_section section = {.data = NULL};
    const int file = open_file(from->path);
    if (file < 0) {
        return gy_vertex_fail(vertex, fail_open(from->path, errno), GY_CAUSE_FATAL);
    }
    gy_status status = settle_stamp(from, file, &port->stamp);
    if (status >= 0) {
        status = map_plain(from, file, &port->stamp, &section);
    }
    const bool is_kept = status >= 0 && file < FILES_KEPT;
    port->file = is_kept ? file : -1;
    if (!is_kept) {
        (void)close(file);
    }
    if (status < 0) {
        return gy_vertex_fail(vertex, status, GY_CAUSE_FATAL);
    }
    port->section = section;
    status = watch(vertex, input, GY_MAPPED_PLAIN);
    if (status < 0) {
        close_plain(vertex, input);
        return gy_vertex_fail(vertex, status, GY_CAUSE_OWN);
    }
    return GY_OK;
}

/* Release an input after checking that the file did not change while it was read. */
static gy_status end_input(gy_vertex *vertex, uint32_t input)
{
    if (vertex->order->inputs[input].kind != GY_INPUT_PLAIN) {
        release(vertex, input);
        return GY_OK;
    }
    const gy_status status = check_plain(vertex, input);
    close_plain(vertex, input);
    return status < 0 ? gy_vertex_fail(vertex, status, GY_CAUSE_FATAL) : GY_OK;
}

static gy_status open_input(gy_vertex *vertex, uint32_t input)
{
    const gy_flow_task_input *from = &vertex->order->inputs[input];
    if (from->kind == GY_INPUT_SECTION || from->kind == GY_INPUT_FETCHED) {
        return open_section(vertex, input);
    }
    if (from->kind == GY_INPUT_PLAIN) {
        return open_plain(vertex, input);
    }
    vertex->inputs[input].section =
        (gy_section){.data = from->data, .size_bytes = (size_t)from->size_bytes};
    return GY_OK;
}

static gy_cause cause_of_channel(gy_status status)
{
    if (status == GY_LIMIT) {
        return GY_CAUSE_FATAL; /* no space to spill: every attempt would fill the disk */
    }
    /* a wrong checksum or an early end is the producer's fault, not this vertex's */
    return status == GY_NOMEM || status == GY_IO ? GY_CAUSE_OWN : GY_CAUSE_PEER;
}

gy_status gy_vertex_read(gy_vertex *vertex, int input, const void **data, size_t *size_bytes)
{
    GY_ASSERT(input >= 0 && (uint32_t)input < vertex->order->input_count);
    uint32_t at = (uint32_t)input;
    const gy_flow_task_input *from = &vertex->order->inputs[at];
    gy_in_port *port = &vertex->inputs[at];
    GY_TRY(gy_vertex_check(vertex));
    if (from->kind == GY_INPUT_FIFO || from->kind == GY_INPUT_PIPE) {
        gy_status status = gy_cohort_read(vertex->cohort, from->channel, data, size_bytes);
        return status < 0 ? gy_vertex_fail(vertex, status, cause_of_channel(status)) : GY_OK;
    }
    if (from->kind == GY_INPUT_OBJECT) {
        return gy_vertex_read_object(vertex, at, data, size_bytes);
    }
    if (port->state == GY_PORT_NEW) {
        /* verifying a checksum may take longer than the record timeout, and the last record is
         * not to blame */
        atomic_store_explicit(&vertex->task.is_waiting, true, memory_order_relaxed);
        gy_status status = open_input(vertex, at);
        atomic_store_explicit(&vertex->task.is_waiting, false, memory_order_relaxed);
        GY_TRY(status);
        port->state = GY_PORT_OPEN;
        if (port->section.size_bytes > 0) {
            *data = port->section.data;
            *size_bytes = port->section.size_bytes;
            return GY_OK;
        }
    }
    *data = "";
    *size_bytes = 0;
    if (port->state == GY_PORT_OPEN) {
        port->state = GY_PORT_ENDED;
        return end_input(vertex, at);
    }
    return GY_OK;
}

void gy_flow_inputs_close(gy_vertex *vertex)
{
    for (uint32_t i = 0; vertex->inputs != NULL && i < vertex->order->input_count; i++) {
        if (vertex->inputs[i].object != NULL) {
            gy_object_input_close(vertex->inputs[i].object);
        } else if (vertex->inputs[i].state == GY_PORT_OPEN) {
            const bool is_plain = vertex->order->inputs[i].kind == GY_INPUT_PLAIN;
            (is_plain ? close_plain : release)(vertex, i);
        }
    }
    gy_objects_prefetch_end(vertex->ahead);
    vertex->ahead = NULL;
    gy_free(vertex->inputs);
    vertex->inputs = NULL;
}

/* ---- outputs ---- */

static bool is_channel(const gy_flow_task_output *output)
{
    return output->kind == GY_OUTPUT_FIFO || output->kind == GY_OUTPUT_PIPE;
}

static gy_status open_output(gy_vertex *vertex, uint32_t index)
{
    const gy_flow_task_output *output = &vertex->order->outputs[index];
    gy_out_port *port = &vertex->outputs[index];
    gy_section_writer_options options = {
        .path = vertex->order->path,
        .owner = {vertex->order->key, vertex->order->id.epoch, vertex->order->id.attempt,
                  vertex->order->member},
        .count = vertex->order->output_count,
        .small_bytes = GY_SMALL_BYTES,
        .memory_bytes = vertex->order->memory_bytes / 8,
    };
    if (output->kind == GY_OUTPUT_SECTION) {
        if (vertex->sections == NULL) {
            GY_TRY(gy_section_writer_new(vertex->env, &options, &vertex->sections));
        }
        port->file = vertex->sections;
        port->section = index;
    } else if (output->kind == GY_OUTPUT_FINAL) {
        options.path = output->path;
        options.count = 1;
        options.small_bytes = 0;
        options.is_plain = true;
        GY_TRY(gy_section_writer_new(vertex->env, &options, &port->file));
    }
    return GY_OK;
}

gy_status gy_flow_outputs_open(gy_vertex *vertex)
{
    uint32_t count = vertex->order->output_count;
    vertex->outputs = gy_alloc_zero("flow.ports", count, sizeof(gy_out_port));
    if (vertex->outputs == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        GY_TRY(open_output(vertex, i));
    }
    return GY_OK;
}

/* The cause of a failed write: a full disk ends the job, since every attempt would fill it
 * again. */
static gy_status blame(gy_vertex *vertex, uint32_t output, gy_status status)
{
    if (status >= 0) {
        return status;
    }
    if (is_channel(&vertex->order->outputs[output])) {
        return gy_vertex_fail(vertex, status, cause_of_channel(status));
    }
    bool is_full = gy_section_is_full(vertex->outputs[output].file);
    return gy_vertex_fail(vertex, status, is_full ? GY_CAUSE_FATAL : GY_CAUSE_OWN);
}

gy_status gy_vertex_write(gy_vertex *vertex, int output, const void *data, size_t size_bytes)
{
    GY_ASSERT(output >= 0 && (uint32_t)output < vertex->order->output_count);
    const gy_flow_task_output *to = &vertex->order->outputs[output];
    gy_out_port *port = &vertex->outputs[output];
    GY_TRY(gy_vertex_check(vertex));
    port->size_bytes += size_bytes;
    gy_status status = is_channel(to)
                           ? gy_cohort_write(vertex->cohort, to->channel, data, size_bytes)
                           : gy_section_add(port->file, port->section, data, size_bytes);
    return blame(vertex, (uint32_t)output, status);
}

gy_status gy_vertex_reserve(gy_vertex *vertex, int output, size_t size_bytes, void **room)
{
    GY_ASSERT(output >= 0 && (uint32_t)output < vertex->order->output_count);
    const gy_flow_task_output *to = &vertex->order->outputs[output];
    const gy_out_port *port = &vertex->outputs[output];
    GY_TRY(gy_vertex_check(vertex));
    gy_status status = is_channel(to)
                           ? gy_cohort_room(vertex->cohort, to->channel, size_bytes, room)
                           : gy_section_room(port->file, port->section, size_bytes, room);
    return blame(vertex, (uint32_t)output, status);
}

gy_status gy_vertex_advance(gy_vertex *vertex, int output, size_t size_bytes)
{
    GY_ASSERT(output >= 0 && (uint32_t)output < vertex->order->output_count);
    const gy_flow_task_output *to = &vertex->order->outputs[output];
    gy_out_port *port = &vertex->outputs[output];
    GY_TRY(gy_vertex_check(vertex));
    port->size_bytes += size_bytes;
    gy_status status = is_channel(to) ? gy_cohort_wrote(vertex->cohort, to->channel, size_bytes)
                                      : gy_section_wrote(port->file, port->section, size_bytes);
    return blame(vertex, (uint32_t)output, status);
}

gy_status gy_flow_outputs_finish(gy_vertex *vertex, gy_section_sum *sums, bool *is_inline)
{
    const gy_flow_task *order = vertex->order;
    *is_inline = false;
    for (uint32_t i = 0; i < order->output_count; i++) {
        if (order->outputs[i].kind == GY_OUTPUT_FINAL) {
            bool is_small = false;
            GY_TRY(blame(vertex, i, gy_section_finish(vertex->outputs[i].file, &is_small)));
            sums[i] = gy_section_sums(vertex->outputs[i].file)[0];
            if (vertex->sections != NULL) { /* the attempt's content covers final outputs too */
                gy_section_note(vertex->sections, i, &sums[i]);
            }
        }
    }
    for (uint32_t i = 0; i < order->output_count; i++) {
        if (order->outputs[i].kind == GY_OUTPUT_SECTION) {
            GY_TRY(blame(vertex, i, gy_section_finish(vertex->sections, is_inline)));
            memcpy(sums, gy_section_sums(vertex->sections),
                   order->output_count * sizeof(*sums));
            break;
        }
    }
    if (vertex->cohort != NULL) {
        gy_status status = gy_cohort_close(vertex->cohort);
        if (status < 0) {
            return gy_vertex_fail(vertex, status, cause_of_channel(status));
        }
    }
    return GY_OK;
}

void gy_flow_outputs_close(gy_vertex *vertex)
{
    for (uint32_t i = 0; vertex->outputs != NULL && i < vertex->order->output_count; i++) {
        if (vertex->order->outputs[i].kind == GY_OUTPUT_FINAL) {
            gy_section_writer_free(vertex->outputs[i].file);
        }
    }
    gy_section_writer_free(vertex->sections);
    gy_free(vertex->outputs);
}
