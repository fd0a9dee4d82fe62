/* Encodes and decodes the welcome and START messages. */
#include "flow/channel/start.h"
#include "base/text.h"

#include "store/remote/remote.h"

#include <stdio.h>
#include <string.h>

/* ---- writing ---- */

static void put_u32(gy_text *text, uint32_t value)
{
    gy_text_add_bytes(text, &value, sizeof(value));
}

static void put_u64(gy_text *text, uint64_t value)
{
    gy_text_add_bytes(text, &value, sizeof(value));
}

static void put_bytes(gy_text *text, const void *data, size_t size_bytes)
{
    put_u32(text, (uint32_t)size_bytes);
    if (size_bytes > 0) {
        gy_text_add_bytes(text, data, size_bytes);
    }
}

static void put_text(gy_text *text, const char *value)
{
    put_bytes(text, value, strlen(value));
}

static void put_list(gy_text *text, const char *const *list)
{
    uint32_t count = 0;
    while (list != NULL && list[count] != NULL) {
        count++;
    }
    put_u32(text, count);
    for (uint32_t i = 0; i < count; i++) {
        put_text(text, list[i]);
    }
}

static void put_key(gy_text *text, gy_key key)
{
    put_u64(text, key.high);
    put_u64(text, key.low);
}

static const gy_stamp none;

static void put_stamp(gy_text *text, const gy_stamp *stamp)
{
    gy_text_add_bytes(text, stamp, sizeof(*stamp));
}

static void put_input(gy_text *text, const gy_vertex_start_input *input)
{
    put_u32(text, input->kind);
    switch (input->kind) {
    case GY_INPUT_SECTION:
    case GY_INPUT_FETCHED:
        put_u32(text, input->task_input);
        put_u32(text, input->from.task);
        put_u32(text, input->from.epoch);
        put_u32(text, input->from.attempt);
        put_u32(text, input->member);
        put_u32(text, input->section);
        put_u32(text, input->width);
        put_key(text, input->key);
        put_key(text, input->content);
        break;
    case GY_INPUT_INLINE:
        put_u32(text, input->task_input);
        put_bytes(text, input->data, (size_t)input->size_bytes);
        break;
    case GY_INPUT_PLAIN:
        put_text(text, input->path);
        put_u64(text, input->offset);
        put_u64(text, input->size_bytes);
        put_stamp(text, &input->stamp);
        break;
    case GY_INPUT_OBJECT:
        put_text(text, input->path);
        put_text(text, input->version);
        put_u64(text, input->offset);
        put_u64(text, input->size_bytes);
        put_u64(text, input->total_bytes);
        break;
    case GY_INPUT_FIFO:
    case GY_INPUT_PIPE:
        put_u32(text, input->channel);
        break;
    }
}

void gy_vertex_start_write(const gy_vertex_start *start, gy_text *message)
{
    const uint32_t head[] = {start->function,      start->stage,       start->number,
                             start->index,         start->copies,      start->ranks,
                             start->width,         start->input_count, start->output_count,
                             start->channel_count, start->bad_count};
    gy_text_add_bytes(message, head, sizeof(head));
    put_u64(message, start->memory_bytes);
    put_bytes(message, start->parameter, start->parameter_bytes);
    for (uint32_t i = 0; i < start->input_count; i++) {
        put_input(message, &start->inputs[i]);
    }
    for (uint32_t i = 0; i < start->output_count; i++) {
        put_u32(message, start->outputs[i].kind);
        put_u32(message, start->outputs[i].channel);
    }
    if (start->width > 1) {
        put_u64(message, start->token[0]);
        put_u64(message, start->token[1]);
        for (uint32_t i = 0; i < start->channel_count; i++) {
            put_u32(message, start->channels[i].from);
            put_u32(message, start->channels[i].to);
            put_u32(message, start->channels[i].is_pipe);
        }
    }
    for (uint32_t i = 0; i < start->bad_count; i++) {
        put_u32(message, start->bad[i].source);
        put_u64(message, start->bad[i].offset);
    }
    if (start->function == GY_FUNCTION_NONE) {
        put_list(message, start->command);
        put_list(message, start->files);
        for (uint32_t i = 0; start->files != NULL && start->files[i] != NULL; i++) {
            put_stamp(message, start->stamps != NULL ? &start->stamps[i] : &none);
        }
        put_u32(message, start->hosts);
        put_u32(message, start->is_plain);
        put_u32(message, start->is_reported);
        put_text(message, start->address != NULL ? start->address : "");
    }
}

void gy_welcome_write(const gy_welcome *welcome, gy_text *message)
{
    put_u64(message, welcome->functions);
    put_u64(message, (uint64_t)welcome->record_timeout_ns);
    put_u64(message, (uint64_t)welcome->deadline.at_ns);
    put_u32(message, welcome->is_traced);
    put_u32(message, welcome->is_remote);
    put_u32(message, welcome->round);
    put_text(message, welcome->folder);
    put_text(message, welcome->data);
    put_text(message, welcome->output);
    put_u32(message, welcome->stage_count);
    for (uint32_t i = 0; i < welcome->stage_count; i++) {
        put_text(message, welcome->stages[i]);
    }
}

/* ---- reading: after the first failure all further values are empty ---- */

typedef struct gy_vertex_start_reader {
    const char *at, *end;
    gy_arena *arena;
    gy_status status;
} gy_vertex_start_reader;

static const void *take(gy_vertex_start_reader *reader, size_t size_bytes)
{
    static const uint64_t nothing[2];
    if (reader->status >= 0 && (size_t)(reader->end - reader->at) < size_bytes) {
        reader->status = gy_fail(GY_FORMAT, "a message to a vertex process is truncated");
    }
    if (reader->status < 0) {
        return size_bytes <= sizeof(nothing) ? (const void *)nothing : NULL;
    }
    const void *found = reader->at;
    reader->at += size_bytes;
    return found;
}

static uint32_t take_u32(gy_vertex_start_reader *reader)
{
    uint32_t value = 0;
    memcpy(&value, take(reader, sizeof(value)), sizeof(value));
    return value;
}

static uint64_t take_u64(gy_vertex_start_reader *reader)
{
    uint64_t value = 0;
    memcpy(&value, take(reader, sizeof(value)), sizeof(value));
    return value;
}

static gy_key take_key(gy_vertex_start_reader *reader)
{
    const uint64_t high = take_u64(reader);
    return (gy_key){.high = high, .low = take_u64(reader)};
}

/* Allocate a zeroed array; NULL after a failure. The message must still have `least` bytes for
 * each element, which bounds the allocation. */
static void *take_array(gy_vertex_start_reader *reader, uint32_t count, size_t size,
                        size_t least)
{
    if (reader->status >= 0 && (size_t)(reader->end - reader->at) / least < count) {
        reader->status =
            gy_fail(GY_FORMAT, "a message to a vertex process lists %u items in %zu bytes",
                    count, (size_t)(reader->end - reader->at));
    }
    void *array =
        reader->status >= 0 ? gy_arena_alloc(reader->arena, ((size_t)count + 1) * size) : NULL;
    if (array == NULL && reader->status >= 0) {
        reader->status = GY_NOMEM;
    }
    return array;
}

/* Copy bytes into aligned memory and add a NUL. */
static const void *take_copy(gy_vertex_start_reader *reader, uint32_t *size_bytes)
{
    *size_bytes = take_u32(reader);
    const void *bytes = take(reader, *size_bytes);
    if (reader->status < 0) {
        *size_bytes = 0;
        return NULL;
    }
    char *copy = gy_arena_alloc(reader->arena, (size_t)*size_bytes + 1);
    if (copy == NULL) {
        reader->status = GY_NOMEM;
        return NULL;
    }
    return memcpy(copy, bytes, *size_bytes);
}

static const char *take_text(gy_vertex_start_reader *reader)
{
    uint32_t size = 0;
    return take_copy(reader, &size);
}

static gy_stamp take_stamp(gy_vertex_start_reader *reader)
{
    gy_stamp stamp = {.machine = 0};
    const void *bytes = take(reader, sizeof(stamp));
    if (reader->status >= 0) {
        memcpy(&stamp, bytes, sizeof(stamp));
    }
    return stamp;
}

static const gy_stamp *take_stamps(gy_vertex_start_reader *reader, const char *const *files)
{
    uint32_t count = 0;
    while (files != NULL && files[count] != NULL) {
        count++;
    }
    gy_stamp *stamps = take_array(reader, count, sizeof(*stamps), sizeof(*stamps));
    for (uint32_t i = 0; stamps != NULL && i < count; i++) {
        stamps[i] = take_stamp(reader);
    }
    return stamps;
}

static const char *const *take_list(gy_vertex_start_reader *reader)
{
    const uint32_t count = take_u32(reader);
    const char **list = take_array(reader, count, sizeof(*list), sizeof(uint32_t));
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        list[i] = take_text(reader);
    }
    return list;
}

static void take_object(gy_vertex_start_reader *reader, gy_vertex_start_input *input)
{
    input->path = take_text(reader);
    input->version = take_text(reader);
    input->offset = take_u64(reader);
    input->size_bytes = take_u64(reader);
    input->total_bytes = take_u64(reader);
    if (reader->status >= 0 &&
        (!gy_uri_is_remote(input->path) || input->offset > input->total_bytes)) {
        reader->status =
            gy_fail(GY_FORMAT, "an object from %llu of %llu bytes, or no object",
                    (unsigned long long)input->offset, (unsigned long long)input->total_bytes);
    }
}

static void take_input(gy_vertex_start_reader *reader, gy_vertex_start_input *input)
{
    const uint32_t kind = take_u32(reader);
    input->kind = (gy_input_kind)kind;
    switch (kind) {
    case GY_INPUT_SECTION:
    case GY_INPUT_FETCHED:
        input->task_input = take_u32(reader);
        input->from.task = take_u32(reader);
        input->from.epoch = take_u32(reader);
        input->from.attempt = take_u32(reader);
        input->member = take_u32(reader);
        input->section = take_u32(reader);
        input->width = take_u32(reader);
        input->key = take_key(reader);
        input->content = take_key(reader);
        break;
    case GY_INPUT_INLINE:
        input->task_input = take_u32(reader);
        input->size_bytes = take_u32(reader);
        input->data = take(reader, (size_t)input->size_bytes);
        break;
    case GY_INPUT_PLAIN:
        input->path = take_text(reader);
        input->offset = take_u64(reader);
        input->size_bytes = take_u64(reader);
        input->stamp = take_stamp(reader);
        break;
    case GY_INPUT_OBJECT:
        take_object(reader, input);
        break;
    case GY_INPUT_FIFO:
    case GY_INPUT_PIPE:
        input->channel = take_u32(reader);
        break;
    default:
        reader->status = gy_fail(GY_FORMAT, "an input of kind %u", kind);
        break;
    }
}

static void take_rows(gy_vertex_start_reader *reader, gy_vertex_start *start)
{
    gy_vertex_start_input *inputs =
        take_array(reader, start->input_count, sizeof(*inputs), 2 * sizeof(uint32_t));
    for (uint32_t i = 0; reader->status >= 0 && i < start->input_count; i++) {
        take_input(reader, &inputs[i]);
    }
    gy_vertex_start_output *outputs =
        take_array(reader, start->output_count, sizeof(*outputs), 2 * sizeof(uint32_t));
    for (uint32_t i = 0; reader->status >= 0 && i < start->output_count; i++) {
        const uint32_t kind = take_u32(reader);
        if (kind > GY_OUTPUT_PIPE) {
            reader->status = gy_fail(GY_FORMAT, "an output of kind %u", kind);
        }
        outputs[i] = (gy_vertex_start_output){(gy_output_kind)kind, take_u32(reader)};
    }
    start->inputs = inputs;
    start->outputs = outputs;
    if (start->width <= 1) {
        start->channel_count = 0;
        return;
    }
    start->token[0] = take_u64(reader);
    start->token[1] = take_u64(reader);
    gy_flow_task_channel *channels =
        take_array(reader, start->channel_count, sizeof(*channels), 3 * sizeof(uint32_t));
    for (uint32_t i = 0; reader->status >= 0 && i < start->channel_count; i++) {
        channels[i].from = (uint16_t)take_u32(reader);
        channels[i].to = (uint16_t)take_u32(reader);
        channels[i].is_pipe = take_u32(reader) != 0;
    }
    start->channels = channels;
}

gy_status gy_vertex_start_read(const void *message, size_t size_bytes, gy_arena *arena,
                               gy_vertex_start *start)
{
    gy_vertex_start_reader reader = {message, (const char *)message + size_bytes, arena, GY_OK};
    *start = (gy_vertex_start){0};
    uint32_t *head[] = {&start->function,      &start->stage,       &start->number,
                        &start->index,         &start->copies,      &start->ranks,
                        &start->width,         &start->input_count, &start->output_count,
                        &start->channel_count, &start->bad_count};
    for (size_t i = 0; i < GY_COUNT(head); i++) {
        *head[i] = take_u32(&reader);
    }
    start->memory_bytes = take_u64(&reader);
    start->parameter = take_copy(&reader, &start->parameter_bytes);
    take_rows(&reader, start);
    gy_flow_record_id *bad = take_array(&reader, start->bad_count, sizeof(*bad), 12);
    for (uint32_t i = 0; reader.status >= 0 && i < start->bad_count; i++) {
        bad[i].source = take_u32(&reader);
        bad[i].offset = take_u64(&reader);
    }
    start->bad = bad;
    if (start->function == GY_FUNCTION_NONE) {
        start->command = take_list(&reader);
        start->files = take_list(&reader);
        start->stamps = take_stamps(&reader, start->files);
        start->hosts = take_u32(&reader);
        start->is_plain = take_u32(&reader) != 0;
        start->is_reported = take_u32(&reader) != 0;
        start->address = take_text(&reader);
    }
    if (reader.status >= 0 && reader.at != reader.end) {
        reader.status =
            gy_fail(GY_FORMAT, "a message to a vertex process has %zu bytes too many",
                    (size_t)(reader.end - reader.at));
    }
    return reader.status;
}

gy_status gy_welcome_read(const void *message, size_t size_bytes, gy_arena *arena,
                          gy_welcome *welcome)
{
    gy_vertex_start_reader reader = {message, (const char *)message + size_bytes, arena, GY_OK};
    *welcome = (gy_welcome){.functions = take_u64(&reader)};
    welcome->record_timeout_ns = (int64_t)take_u64(&reader);
    welcome->deadline.at_ns = (int64_t)take_u64(&reader);
    welcome->is_traced = take_u32(&reader) != 0;
    welcome->is_remote = take_u32(&reader) != 0;
    welcome->round = take_u32(&reader);
    welcome->folder = take_text(&reader);
    welcome->data = take_text(&reader);
    welcome->output = take_text(&reader);
    welcome->stage_count = take_u32(&reader);
    const char **stages =
        take_array(&reader, welcome->stage_count, sizeof(*stages), sizeof(uint32_t));
    for (uint32_t i = 0; reader.status >= 0 && i < welcome->stage_count; i++) {
        stages[i] = take_text(&reader);
    }
    welcome->stages = stages;
    return reader.status;
}

/* ---- names ---- */

const char *gy_flow_name_data(gy_attempt id, uint32_t member, uint32_t width,
                              char out[GY_NAME_BYTES])
{
    size_t size = gy_print(out, GY_NAME_BYTES, "%u.%u.%u", id.task, id.epoch, id.attempt);
    if (width > 1) {
        (void)snprintf(out + size, GY_NAME_BYTES - size, ".%u", member);
    }
    return out;
}

const char *gy_flow_name_file(uint32_t round, gy_attempt id, uint32_t member, uint32_t width,
                              char out[GY_NAME_BYTES])
{
    char name[GY_NAME_BYTES];
    if (round <= 1) {
        return gy_flow_name_data(id, member, width, out);
    }
    (void)snprintf(out, GY_NAME_BYTES, "%u-%.48s", round,
                   gy_flow_name_data(id, member, width, name));
    return out;
}

const char *gy_flow_name_final(gy_attempt id, uint32_t member, uint32_t output,
                               char out[GY_NAME_BYTES])
{
    (void)snprintf(out, GY_NAME_BYTES, "%u.%u.%u.%u.%u", id.task, id.epoch, id.attempt, member,
                   output);
    return out;
}
