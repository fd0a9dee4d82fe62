/* Runs the vertices of a sort: one extracts a range of the order from all inputs, another
 * expands or fetches one input. */
#include "mapreduce/sort/scan.h"
#include "mapreduce/sort/told.h"

#include "base/base.h"
#include "flow/objects/input.h"
#include "mapreduce/input.h"
#include "store/store.h"

enum { SAMPLE_SEED = 1, EXPAND_BYTES = 1 << 20 };

static gy_status room(void *arg, size_t size_bytes, void **at)
{
    return gy_vertex_reserve(arg, 0, size_bytes, at);
}

static gy_status wrote(void *arg, size_t size_bytes)
{
    return gy_vertex_advance(arg, 0, size_bytes);
}

/* State of adding records to a sorter: the key, and the whole record as the value. */
typedef struct adding {
    const gy_sort_records *records;
    gy_sorter *sorter;
} adding;

static gy_status add_block(void *arg, gy_entry *block, size_t count)
{
    const adding *to = arg;
    gy_sort_item items[GY_BLOCK_ENTRIES];
    for (size_t i = 0; i < count; i++) {
        items[i] = gy_sort_item_at(to->records, block[i].position);
        items[i].value = items[i].data;
        items[i].value_bytes = items[i].size_bytes;
    }
    return gy_sorter_add(to->sorter, items, count);
}

gy_status gy_sort_write(gy_vertex *vertex, gy_sorter *sorter, const gy_sort_layout *layout)
{
    for (;;) {
        gy_sort_item item = {0};
        bool has = false;
        GY_TRY(gy_sorter_next(sorter, &item, &has));
        if (!has) {
            return GY_OK;
        }
        const bool is_cut = layout->kind == GY_LAYOUT_LINES &&
                            gy_sort_line_trim(layout, item.value, &item.value_bytes);
        GY_TRY(gy_vertex_write(vertex, 0, item.value, item.value_bytes));
        if (is_cut) {
            GY_TRY(gy_vertex_write(vertex, 0, "\n", 1));
        }
    }
}

gy_status gy_sort_sorter(gy_vertex *vertex, gy_key_kind key, gy_sorter **sorter)
{
    const gy_sorter_options options = {.memory_bytes = gy_vertex_memory(vertex),
                                       .scratch = gy_vertex_scratch(vertex),
                                       .key = key};
    if (options.scratch == NULL) {
        return GY_IO; /* whoever failed to make the room has recorded the error */
    }
    return gy_sorter_new(gy_env_real(), &options, sorter);
}

void gy_sort_tell(gy_vertex *vertex, const gy_sorter *sorter)
{
    gy_sorter_report report;
    gy_sorter_report_get(sorter, &report);
    gy_vertex_count(vertex, "records sorted", (int64_t)report.records);
    gy_vertex_count(vertex, "runs written", (int64_t)report.runs);
}

static gy_status sort_by_runs(gy_vertex *vertex, const gy_sort_records *records,
                              const gy_sort_range_of *range)
{
    gy_sorter *sorter = NULL;
    GY_TRY(gy_sort_sorter(vertex, records->layout->key, &sorter));
    adding to = {records, sorter};
    gy_status status = gy_sort_scan(records, range, add_block, &to);
    if (status == GY_OK) {
        status = gy_sorter_end(sorter);
    }
    if (status == GY_OK) {
        status = gy_sort_write(vertex, sorter, records->layout);
    }
    gy_sort_tell(vertex, sorter);
    gy_sorter_free(sorter);
    return status;
}

static gy_status sort_by_scans(gy_vertex *vertex, const gy_sort_records *records,
                               const gy_sort_range_of *range, const gy_mapreduce_sample *sample)
{
    const gy_range_options options = {gy_vertex_memory(vertex), sample};
    gy_range_report report;
    const gy_status status =
        gy_sort_range(records, range, &options, &(gy_sort_sink){room, wrote, vertex}, &report);
    gy_vertex_count(vertex, "records sorted", (int64_t)report.records);
    gy_vertex_count(vertex, "scans of all inputs", (int64_t)report.scans);
    return status;
}

static gy_status sort_spans(gy_vertex *vertex, const gy_sort_records *records,
                            gy_sort_method way)
{
    const size_t parts = (size_t)gy_vertex_clones(vertex);
    const size_t part = (size_t)gy_vertex_index(vertex);
    const gy_sort_facts facts = gy_sort_facts_get(records);
    if (way == GY_SORT_METHOD_AUTO) {
        way = gy_sort_is_kept(&facts) ? GY_SORT_METHOD_SCANS : GY_SORT_METHOD_RUNS;
    }
    gy_sort_bound *bounds = gy_alloc("mapreduce.bounds", parts * sizeof(*bounds));
    gy_mapreduce_sample sample = {0};
    gy_status status =
        bounds == NULL ? GY_NOMEM : gy_mapreduce_sample_take(records, SAMPLE_SEED, &sample);
    if (status == GY_OK) {
        gy_mapreduce_sample_split(&sample, records->layout->key, parts, false, bounds);
        const gy_sort_range_of range = {part == 0 ? NULL : &bounds[part - 1],
                                        part + 1 == parts ? NULL : &bounds[part]};
        status = way == GY_SORT_METHOD_RUNS ? sort_by_runs(vertex, records, &range)
                                            : sort_by_scans(vertex, records, &range, &sample);
    }
    gy_mapreduce_sample_free(&sample);
    gy_free(bounds);
    return status;
}

/* ---- a compressed file, an object ---- */

static gy_status take_object(void *arg, void *data, size_t wanted, size_t *got)
{
    return gy_vertex_fill(arg, 0, false, data, wanted, got);
}

static void close_object(void *arg)
{
    (void)arg; /* the input belongs to the vertex */
}

static gy_status open_input(gy_vertex *vertex, const gy_sort_told *told, const char *path,
                            gy_source **source)
{
    static const gy_source_ops object_ops = {take_object, close_object};
    if (gy_vertex_is_object(vertex, 0)) {
        return gy_source_over(&object_ops, vertex, gy_vertex_object_bytes(vertex, 0), path,
                              told->encoding, source);
    }
    const void *data = NULL;
    size_t size = 0;
    GY_TRY(gy_vertex_read(vertex, 0, &data, &size));
    return gy_source_of(data, size, path, told->encoding, source);
}

/* Check the first bytes of the data. */
static gy_status look_at_head(const gy_sort_told *told, const gy_source *source,
                              const char *data, size_t size, bool *is_turned)
{
    const gy_input input = {.format = told->layout.record_bytes > 0 ? GY_RECORDS_FIXED
                                                                    : GY_RECORDS_LINES,
                            .line_end = told->line_end};
    *is_turned = gy_input_is_turned(&input, data, size);
    return told->layout.record_bytes > 0 || told->encoding != GY_ENCODING_AUTO
               ? GY_OK
               : gy_store_format_check_text(gy_source_name(source), gy_source_is_packed(source),
                                            data, GY_MIN(size, (size_t)GY_FORMAT_HEAD_BYTES));
}

static gy_status expand_all(gy_vertex *vertex, const gy_sort_told *told, gy_source *source,
                            uint64_t *size_bytes)
{
    bool is_turned = false;
    char held = 0; /* (held_bytes) a '\r' whose meaning depends on the next byte */
    size_t held_bytes = 0;
    *size_bytes = 0;
    for (bool is_last = false; !is_last;) {
        void *room_at = NULL;
        size_t got = 0;
        GY_TRY(gy_vertex_reserve(vertex, 0, EXPAND_BYTES, &room_at));
        char *to = room_at;
        to[0] = held;
        GY_TRY(gy_source_read(source, to + held_bytes, EXPAND_BYTES - held_bytes, &got));
        is_last = got < EXPAND_BYTES - held_bytes;
        const size_t size = held_bytes + got;
        if (*size_bytes == 0) {
            GY_TRY(look_at_head(told, source, to, size, &is_turned));
        }
        const size_t ready = is_turned ? gy_input_turn(to, 0, size, is_last) : size;
        held_bytes = size - ready;
        held = to[held_bytes > 0 ? ready : 0];
        *size_bytes += got;
        GY_TRY(gy_vertex_advance(vertex, 0, ready));
    }
    return GY_OK;
}

static gy_status expand(gy_vertex *vertex, const gy_sort_told *told, const char *path)
{
    const size_t record = told->layout.record_bytes;
    uint64_t expanded = 0;
    gy_source *source = NULL;
    GY_TRY(open_input(vertex, told, path, &source));
    gy_status status = expand_all(vertex, told, source, &expanded);
    gy_source_close(source);
    if (status == GY_OK && record > 0 && expanded % record != 0) {
        status = gy_fail(GY_FORMAT,
                         "%s has %llu bytes, expanded, which is no whole number of records of "
                         "%zu bytes",
                         path, (unsigned long long)expanded, record);
    }
    return status;
}

/* ---- the vertex ---- */

/* Skip a byte order mark (UTF-8), which is no part of the first line. */
static void skip_mark(gy_sort_span *span)
{
    if (span->size_bytes >= 3 && memcmp(span->data, "\xef\xbb\xbf", 3) == 0) {
        span->data += 3;
        span->size_bytes -= 3;
    }
}

static gy_status sort_inputs(gy_vertex *vertex, const gy_sort_told *told, const char *places)
{
    gy_sort_span *spans =
        gy_alloc_zero("mapreduce.spans", told->input_count, sizeof(gy_sort_span));
    gy_status status = spans == NULL ? GY_NOMEM : GY_OK;
    for (uint32_t i = 0; status == GY_OK && i < told->input_count; i++) {
        uint32_t place = 0;
        memcpy(&place, places + i * sizeof(place), sizeof(place));
        GY_ASSERT(place < told->input_count);
        const void *data = NULL;
        status = gy_vertex_read(vertex, (int)i, &data, &spans[place].size_bytes);
        spans[place].data = data;
        if (status == GY_OK && told->layout.kind == GY_LAYOUT_LINES) {
            skip_mark(&spans[place]);
        }
    }
    if (status == GY_OK) {
        const gy_sort_records records = {&told->layout, spans, told->input_count};
        status = told->coding.is_on ? gy_sort_coded(vertex, &records, &told->coding)
                                    : sort_spans(vertex, &records, told->method);
    }
    gy_free(spans);
    return status;
}

gy_status gy_sort_vertex(gy_vertex *vertex)
{
    size_t size = 0;
    const void *given = gy_vertex_parameter(vertex, &size);
    gy_sort_told told = {0};
    memcpy(&told, given, GY_MIN(size, sizeof(told)));
    const char *rest = (const char *)given + GY_MIN(size, sizeof(told));
    const size_t rest_bytes = size - GY_MIN(size, sizeof(told));
    const bool is_whole =
        size >= sizeof(told) &&
        (told.is_expander ? rest_bytes > 0 && rest[rest_bytes - 1] == '\0'
                          : rest_bytes == told.input_count * sizeof(uint32_t) &&
                                told.input_count == (uint32_t)gy_vertex_inputs(vertex));
    if (!is_whole) {
        return gy_fail(GY_ARG, "a sort's parameter of %zu bytes is none of gy_dag_sort", size);
    }
    return told.is_expander ? expand(vertex, &told, rest) : sort_inputs(vertex, &told, rest);
}
