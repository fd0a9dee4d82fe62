/* Runs the maps of a MapReduce job over their parts of the inputs. */
#include "mapreduce/task.h"

#include "base/base.h"
#include "flow/channel/channel.h"
#include "flow/objects/input.h"
#include "mapreduce/hot/hot.h"
#include "mapreduce/sort.h"
#include "store/store.h"

#include <string.h>

enum {
    OUTPUT_BYTES = 256 << 10,
    MEMORY_BYTES = 1 << 30,
    OVERHEAD_BYTES = 3 << 20,
    RECORD_SHARE = 8, /* fraction of the memory for the longest record of a compressed file */
};

static gy_status write_output(void *arg, const void *data, size_t size_bytes)
{
    const gy_output_of *to = arg;
    return gy_vertex_write(to->vertex, to->number, data, size_bytes);
}

gy_sink gy_sink_of(gy_output_of *to)
{
    return (gy_sink){write_output, to};
}

static gy_status more_of_input(void *arg, const char **data, size_t *size_bytes)
{
    const gy_input_of *from = arg;
    const void *bytes = NULL;
    GY_TRY(gy_vertex_read(from->vertex, from->number, &bytes, size_bytes));
    *data = bytes;
    return GY_OK;
}

gy_byte_source gy_byte_source_of(gy_input_of *from, const char *name)
{
    return (gy_byte_source){more_of_input, from, name};
}

/* State of a map that reads records. */
typedef struct mapping {
    gy_map *map;
    gy_map_work work;
    uint32_t source;
    /* passed: bytes of earlier parts minus the begin of this one; ended: including this part */
    uint64_t passed, ended;
    bool has_bad;
    int64_t records;
} mapping;

static gy_status map_record(void *arg, const gy_record *record)
{
    mapping *at = arg;
    gy_map *map = at->map;
    at->records++;
    map->progress.done = at->passed + record->offset;
    gy_vertex_at_record(map->vertex, at->source, record->offset);
    if (at->has_bad && gy_vertex_is_bad_record(map->vertex, at->source, record->offset)) {
        return GY_OK;
    }
    at->work(map, record);
    return map->status;
}

size_t gy_mapreduce_task_memory(const gy_vertex *vertex, const gy_task_stage *stage)
{
    size_t memory = stage->options.memory_bytes;
    if (memory == 0) { /* a part of the process's memory, because user code needs some too */
        memory = gy_vertex_memory(vertex) / 4 * 3;
    }
    if (memory == 0) {
        memory = MEMORY_BYTES;
    }
    /* subtract what every process takes: libraries, buffers, its share of the manager */
    memory -= GY_MIN(memory / 3, (size_t)OVERHEAD_BYTES);
    return GY_MAX(memory, (size_t)GY_GATHER_BYTES_MIN);
}

/* Begin a part; later parts are assumed to be as large. */
static void begin_part(mapping *at, int input, size_t size)
{
    const gy_task_part *part = &at->map->stage->parts[input];
    const uint64_t end = GY_MIN(part->end, (uint64_t)size), begin = GY_MIN(part->begin, end);
    const uint64_t before = at->ended, left = at->map->stage->part_count - (uint32_t)input;
    at->passed = before - begin;
    at->ended = before + (end - begin);
    at->map->progress =
        (gy_mapreduce_progress){.done = before, .total = before + (end - begin) * left};
}

/* Reads an object as a stream. */
typedef struct object_bytes {
    gy_vertex *vertex;
    int input;
} object_bytes;

static gy_status fill_from_object(void *arg, char *data, size_t wanted, size_t *got)
{
    const object_bytes *from = arg;
    return gy_vertex_fill(from->vertex, from->input, true, data, wanted, got);
}

static gy_status read_object(void *arg, void *data, size_t wanted, size_t *got)
{
    return fill_from_object(arg, data, wanted, got);
}

static void close_nothing(void *arg)
{
    (void)arg; /* the port belongs to the vertex */
}

static gy_status fill_from_source(void *arg, char *data, size_t wanted, size_t *got)
{
    return gy_source_read(arg, data, wanted, got);
}

/* Map a part of an object, or a whole one, which may be compressed. */
static gy_status map_object(mapping *at, const gy_input *from, object_bytes *bytes)
{
    static const gy_source_ops ops = {read_object, close_nothing};
    const uint64_t total = gy_vertex_object_bytes(bytes->vertex, bytes->input);
    if (from->end == UINT64_MAX && !gy_vertex_has_object_end(bytes->vertex, bytes->input)) {
        return gy_fail(GY_FORMAT, "%s has grown since the job was planned: %llu bytes",
                       from->path, (unsigned long long)total);
    }
    if (from->begin > 0 || from->end < total) { /* the plan found that it is not compressed */
        return gy_input_visit_stream(from, fill_from_object, bytes, map_record, at);
    }
    gy_source *source = NULL;
    gy_input whole = *from;
    whole.end = 0;
    const gy_encoding encoding =
        gy_store_encoding_for(from->encoding, from->path, from->format == GY_RECORDS_FIXED);
    GY_TRY(gy_source_over(&ops, bytes, total, from->path, encoding, &source));
    whole.is_expanded = gy_source_is_packed(source);
    const gy_status status =
        gy_input_visit_stream(&whole, fill_from_source, source, map_record, at);
    gy_source_close(source);
    return status;
}

/* Map a file. It stays mapped until the next read. */
static gy_status map_file(mapping *at, gy_input *from, int input)
{
    gy_map *map = at->map;
    const void *data = NULL;
    GY_TRY(gy_vertex_read(map->vertex, input, &data, &from->size_bytes));
    from->data = data;
    begin_part(at, input, from->size_bytes);
    if (gy_input_can_part(from, data, from->size_bytes)) {
        map->lasting = data;
        map->lasting_size = from->size_bytes;
    }
    return gy_input_visit(from, map_record, at);
}

static gy_status map_part(mapping *at, int input, const char *path)
{
    gy_map *map = at->map;
    const gy_task_stage *stage = map->stage;
    const gy_task_part *part = &stage->parts[input];
    gy_input from = {.path = path,
                     .begin = part->begin,
                     .end = part->end,
                     .format = stage->options.format,
                     .encoding = stage->options.encoding,
                     .line_end = stage->options.line_end,
                     .record_bytes = stage->options.record_bytes,
                     .delimiter = stage->options.delimiter,
                     .record_most =
                         gy_mapreduce_task_memory(map->vertex, stage) / RECORD_SHARE};
    at->source = (uint32_t)input;
    map->number = (int64_t)part->number;
    gy_status status = GY_OK;
    if (gy_vertex_is_object(map->vertex, input)) {
        object_bytes bytes = {map->vertex, input};
        gy_vertex_object_budget(map->vertex, input,
                                gy_mapreduce_task_memory(map->vertex, stage));
        begin_part(at, input, (size_t)gy_vertex_object_bytes(map->vertex, input));
        status = map_object(at, &from, &bytes);
    } else {
        status = map_file(at, &from, input);
    }
    gy_vertex_at_none(map->vertex);
    if (status < 0 && map->status < 0) { /* later calls may have overwritten the error text */
        return gy_fail(map->status, "%s: %s", path, map->text);
    }
    GY_TRY(status);
    GY_TRY(gy_map_flush(map));
    map->lasting = NULL;
    map->lasting_size = 0;
    return GY_OK;
}

/* Reads an input of the graph as a stream of bytes. */
typedef struct streaming {
    gy_vertex *vertex;
    const char *at;
    size_t left;
    bool is_ended;
} streaming;

static gy_status fill_from_input(void *arg, char *data, size_t wanted, size_t *got)
{
    streaming *from = arg;
    *got = 0;
    while (*got < wanted && !from->is_ended) {
        if (from->left == 0) {
            const void *bytes = NULL;
            GY_TRY(gy_vertex_read(from->vertex, 0, &bytes, &from->left));
            from->at = bytes;
            from->is_ended = from->left == 0;
        }
        const size_t size = GY_MIN(wanted - *got, from->left);
        memcpy(data + *got, from->at, size);
        from->at += size;
        from->left -= size;
        *got += size;
    }
    return GY_OK;
}

/* A map without parts reads its only input. */
static gy_status map_stream(mapping *at)
{
    gy_map *map = at->map;
    const gy_task_stage *stage = map->stage;
    const gy_input from = {.path = "input",
                           .format = stage->options.format,
                           .is_made = true,
                           .line_end = GY_LINE_END_LF,
                           .record_bytes = stage->options.record_bytes,
                           .delimiter = stage->options.delimiter,
                           .record_most =
                               gy_mapreduce_task_memory(map->vertex, stage) / RECORD_SHARE};
    streaming stream = {.vertex = map->vertex};
    gy_status status = gy_input_visit_stream(&from, fill_from_input, &stream, map_record, at);
    gy_vertex_at_none(map->vertex);
    if (status < 0 && map->status < 0) {
        return gy_fail(map->status, "%s", map->text);
    }
    GY_TRY(status);
    return gy_map_flush(map);
}

static gy_status map_parts(gy_map *map)
{
    const gy_task_stage *stage = map->stage;
    mapping at = {.map = map,
                  .work = (gy_map_work)gy_vertex_user(map->vertex),
                  .has_bad = gy_vertex_has_bad_records(map->vertex)};
    if (at.work == NULL) {
        return gy_fail(GY_ARG, "the function of a map has no work of its own (GY_MAP)");
    }
    const char *path = stage->paths;
    for (uint32_t i = 0; i < stage->part_count; i++, path += strlen(path) + 1) {
        GY_TRY(map_part(&at, (int)i, path));
    }
    if (stage->part_count == 0) {
        GY_TRY(map_stream(&at));
    }
    gy_vertex_count(map->vertex, "map records", at.records);
    if (!stage->options.is_map_only) {
        gy_gather_report gathered = {0};
        if (map->gather != NULL) {
            gy_gather_tell(map->gather, &gathered);
        }
        gy_vertex_count(map->vertex, "map emissions", (int64_t)(gathered.items + map->sorted));
    }
    return GY_OK;
}

/* ---- by hash ---- */

gy_join_numbers gy_mapreduce_task_join(const gy_vertex *vertex, const gy_task_options *options)
{
    return options->fold == GY_FOLD_USER
               ? (gy_join_numbers)gy_vertex_function(vertex, options->combine)
               : NULL;
}

static void drop_space(void *space)
{
    gy_mapreduce_table_space_free(space);
}

/* Report heavy keys to the refinement function. */
static gy_status tell_heavy(gy_vertex *vertex, const gy_heavy *heavy)
{
    gy_text told = {0};
    gy_heavy_write(heavy, &told);
    gy_status status = told.status;
    if (status >= 0 && told.size_bytes > 0) {
        status = gy_vertex_set_sample(vertex, told.data, told.size_bytes);
    }
    gy_text_free(&told);
    return status;
}

static gy_status gather_all(gy_map *map, const gy_gather_options *gathering,
                            const gy_sink *sinks)
{
    GY_TRY(gy_gather_new(gathering, &map->gather));
    GY_TRY(map_parts(map));
    GY_TRY(gy_gather_end(map->gather, sinks));
    gy_gather_report report;
    gy_gather_tell(map->gather, &report);
    gy_vertex_count(map->vertex, "spills", (int64_t)report.spills);
    return gathering->heavy != NULL ? tell_heavy(map->vertex, gathering->heavy) : GY_OK;
}

static gy_status map_to_tables(gy_map *map, gy_output_of *outputs)
{
    const gy_task_options *options = &map->stage->options;
    gy_gather_options gathering = {.fold = options->fold,
                                   .join = gy_mapreduce_task_join(map->vertex, options),
                                   .partitions = options->partitions,
                                   .partition = map->partition,
                                   .memory_bytes =
                                       gy_mapreduce_task_memory(map->vertex, map->stage),
                                   .progress = &map->progress,
                                   .env = gy_env_real(),
                                   .scratch = gy_vertex_scratch(map->vertex)};
    gy_alloc_budget(gathering.memory_bytes);
    gathering.space = gy_vertex_kept(map->vertex);
    if (gathering.space == NULL) {
        gathering.space = gy_mapreduce_table_space_new();
    }
    gy_sink *sinks = gy_alloc("mapreduce.map", options->partitions * sizeof(*sinks));
    gy_status status = sinks == NULL || gathering.space == NULL ? GY_NOMEM
                       : gathering.scratch == NULL              ? GY_IO
                                                                : GY_OK;
    for (uint32_t i = 0; status >= 0 && i < options->partitions; i++) {
        sinks[i] = gy_sink_of(&outputs[i]);
    }
    if (status >= 0 && options->hot_key_bytes > 0) {
        gathering.heavy = gy_heavy_new(options->partitions, options->hot_key_bytes);
        status = gathering.heavy == NULL ? GY_NOMEM : GY_OK;
    }
    if (status >= 0) {
        status = gather_all(map, &gathering, sinks);
    }
    gy_heavy_free(gathering.heavy);
    gy_gather_free(map->gather);
    gy_vertex_keep(map->vertex, gathering.space, drop_space);
    gy_free(sinks);
    return status;
}

/* ---- sorted ---- */

static gy_status write_sorted(gy_sorter *sorter, gy_output_of *to)
{
    gy_outlet outlet = {.sink = gy_sink_of(to), .capacity = OUTPUT_BYTES};
    gy_status status = gy_sorter_end(sorter);
    for (bool has = true; status >= 0 && has;) {
        gy_sort_item item;
        status = gy_sorter_next(sorter, &item, &has);
        if (status >= 0 && has) {
            status = gy_outlet_add(&outlet, item.data, item.size_bytes);
        }
    }
    if (status >= 0) {
        status = gy_outlet_flush(&outlet);
    }
    gy_outlet_free(&outlet);
    return status;
}

static gy_status map_to_runs(gy_map *map, gy_output_of *outputs)
{
    const gy_task_options *options = &map->stage->options;
    GY_ASSERT(options->partitions > 0);
    const size_t share =
        gy_mapreduce_task_memory(map->vertex, map->stage) / options->partitions;
    const gy_sorter_options sorting = {.memory_bytes =
                                           GY_MAX(share, (size_t)GY_SORTER_MEMORY_BYTES_MIN),
                                       .scratch = gy_vertex_scratch(map->vertex),
                                       .has_values = options->order == GY_ORDER_VALUE};
    if (sorting.scratch == NULL) {
        return GY_IO;
    }
    map->sorters = gy_alloc_zero("mapreduce.map", options->partitions, sizeof(gy_sorter *));
    gy_status status = map->sorters == NULL ? GY_NOMEM : GY_OK;
    for (uint32_t i = 0; status >= 0 && i < options->partitions; i++) {
        status = gy_sorter_new(gy_env_real(), &sorting, &map->sorters[i]);
    }
    if (status >= 0) {
        status = map_parts(map);
    }
    for (uint32_t i = 0; map->sorters != NULL && i < options->partitions; i++) {
        if (status >= 0) {
            status = write_sorted(map->sorters[i], &outputs[i]);
        }
        gy_sorter_free(map->sorters[i]);
    }
    gy_free(map->sorters);
    return status;
}

static gy_status map_to_output(gy_map *map, gy_output_of *outputs)
{
    map->output = (gy_outlet){.sink = gy_sink_of(&outputs[0]), .capacity = OUTPUT_BYTES};
    gy_status status = map_parts(map);
    if (status >= 0) {
        status = gy_outlet_flush(&map->output);
    }
    gy_outlet_free(&map->output);
    return status;
}

gy_status gy_map_run(gy_vertex *vertex, const gy_task_stage *stage)
{
    const gy_task_options *options = &stage->options;
    gy_map *map = gy_alloc("mapreduce.map", sizeof(*map));
    gy_output_of *outputs = gy_alloc("mapreduce.map", options->partitions * sizeof(*outputs));
    if (map != NULL) {
        memset(map, 0, offsetof(gy_map, items));
    }
    gy_status status = map == NULL || outputs == NULL ? GY_NOMEM : GY_OK;
    if (status == GY_OK) {
        map->vertex = vertex;
        map->stage = stage;
        map->is_counting = options->is_counting;
        map->capacity = options->fold == GY_FOLD_LIST ? 0 : GY_EMIT_ITEMS;
        for (uint32_t i = 0; i < options->partitions; i++) {
            outputs[i] = (gy_output_of){vertex, (int)i};
        }
        if (options->partition != NULL) {
            map->partition = (gy_partition_work)gy_vertex_function(vertex, options->partition);
        }
        if (options->is_map_only) {
            status = map_to_output(map, outputs);
        } else if (options->order != GY_ORDER_HASH &&
                   gy_mapreduce_fold_is_list(options->fold)) {
            status = map_to_runs(map, outputs);
        } else {
            status = map_to_tables(map, outputs);
        }
    }
    if (map != NULL && map->drop_state != NULL) {
        map->drop_state(map->state);
    }
    gy_free(outputs);
    gy_free(map);
    return status;
}

/* Check that the program lists the functions that the parameter names. */
static gy_status check_functions(gy_vertex *vertex, const gy_task_stage *stage)
{
    const char *const names[] = {stage->options.combine, stage->options.partition};
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        if (names[i] != NULL && gy_vertex_function(vertex, names[i]) == NULL) {
            return gy_fail(GY_ARG, "the program lists no function '%s'", names[i]);
        }
    }
    if (stage->options.partitions == 0 ||
        (stage->options.phase == GY_PHASE_MAP &&
         (uint32_t)gy_vertex_outputs(vertex) != stage->options.partitions)) {
        return gy_fail(GY_ARG, "%d outputs for %u partitions", gy_vertex_outputs(vertex),
                       stage->options.partitions);
    }
    return GY_OK;
}

gy_status gy_mapreduce_run_reduce(gy_vertex *vertex)
{
    return gy_mapreduce_run(vertex);
}

gy_status gy_mapreduce_run_combine(gy_vertex *vertex)
{
    (void)vertex;
    return gy_fail(GY_ARG, "a function that combines is no vertex");
}

gy_status gy_mapreduce_run_partition(gy_vertex *vertex)
{
    (void)vertex;
    return gy_fail(GY_ARG, "a function of partitions is no vertex");
}

gy_status gy_mapreduce_run(gy_vertex *vertex)
{
    size_t size = 0;
    const void *parameter = gy_vertex_parameter(vertex, &size);
    gy_task_stage stage;
    GY_TRY(gy_mapreduce_task_read(parameter, size, &stage));
    GY_TRY(check_functions(vertex, &stage));
    switch (stage.options.phase) {
    case GY_PHASE_MAP:
        return gy_map_run(vertex, &stage);
    case GY_PHASE_REDUCE:
        return gy_mapreduce_reduce_run(vertex, &stage);
    case GY_PHASE_SHARE:
        return gy_hot_share_run(vertex, &stage);
    }
    return gy_fail(GY_FORMAT, "no phase %d of a map or reduce", (int)stage.options.phase);
}
