/* Sorting of files as vertices: each takes its range of the order out of all inputs. */
#include "mapreduce/sort/scan.h"

#include "base/base.h"
#include "flow/dag.h"

#include <gyre/sort.h>

#include <assert.h>
#include <sys/stat.h>
#include <unistd.h>

static_assert((int)GY_SORT_INT64 == (int)GY_KEY_INT64, "orders are kinds of keys");
static_assert((int)GY_SORT_FLOAT64 == (int)GY_KEY_FLOAT64, "orders are kinds of keys");

#define MEMORY_BYTES ((size_t)1 << 30)

enum { SAMPLE_SEED = 1 };

static void set_layout(gy_sort_layout *layout, const gy_sort_options *options)
{
    const bool is_fixed = options->record_bytes != 0;
    layout->kind = is_fixed ? GY_LAYOUT_FIXED : GY_LAYOUT_LINES;
    layout->key = (gy_key_kind)options->order;
    layout->record_bytes = options->record_bytes;
    layout->key_offset = options->key_offset;
    layout->key_bytes = options->key_bytes;
    if (is_fixed && layout->key_bytes == 0 && layout->key_offset < layout->record_bytes) {
        layout->key_bytes = layout->record_bytes - layout->key_offset;
    }
}

/* What a vertex is told. */
typedef struct parameter {
    gy_sort_layout layout;
    gy_sort_way way;
} parameter;

/* A file whose size says that its last record is cut is named before anything starts. */
static void check_sizes(gy_dag *dag, const gy_sort_options *options)
{
    struct stat facts;
    for (int i = 0; options->record_bytes > 0 && options->inputs[i] != NULL; i++) {
        if (stat(options->inputs[i], &facts) == 0 &&
            (uint64_t)facts.st_size % options->record_bytes != 0) {
            gy_dag_fail(dag, GY_FORMAT,
                        "%s has %lld bytes, which is no whole number of records of %zu bytes",
                        options->inputs[i], (long long)facts.st_size, options->record_bytes);
        }
    }
}

gy_dag *gy_dag_sort(gy_flow *flow, const gy_sort_options *options)
{
    gy_dag *dag = gy_dag_new(flow, "sort");
    if (dag == NULL) {
        return NULL;
    }
    parameter told;
    memset(&told, 0, sizeof(told)); /* its bytes are part of what results are known by */
    set_layout(&told.layout, options);
    told.way = options->way;
    if (gy_sort_layout_check(&told.layout) != GY_OK) {
        gy_dag_fail(dag, GY_ARG, "%s", gy_error_text());
    }
    if (options->inputs == NULL || options->inputs[0] == NULL) {
        gy_dag_fail(dag, GY_ARG, "no files to sort");
    } else {
        check_sizes(dag, options);
    }
    if (options->memory_bytes != 0 && options->memory_bytes < GY_RANGE_MEMORY_LEAST) {
        gy_dag_fail(dag, GY_ARG, "%zu bytes of memory for sorting, expected at least %d",
                    options->memory_bytes, GY_RANGE_MEMORY_LEAST);
    }
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const int parts = options->partitions == 0 ? (int)GY_MAX(cores, 1) : options->partitions;
    const gy_part part = gy_dag_vertex(
        dag,
        &(gy_vertex_options){
            .function = "gyre.sort",
            .stage = "sort",
            .parameter = &told,
            .parameter_bytes = sizeof(told),
            .outputs = 1,
            .memory_bytes = options->memory_bytes == 0 ? MEMORY_BYTES : options->memory_bytes,
            .files = options->inputs,
        });
    gy_part_output(gy_part_clone(part, parts), options->name == NULL ? "part" : options->name);
    return dag;
}

static gy_status room(void *arg, size_t size_bytes, void **at)
{
    return gy_vertex_room(arg, 0, size_bytes, at);
}

static gy_status wrote(void *arg, size_t size_bytes)
{
    return gy_vertex_wrote(arg, 0, size_bytes);
}

/* Compressed lines would be sorted as they are, which nobody wants. */
static gy_status refuse_compressed(const gy_sort_span *span, int input)
{
    static const char gzip[] = {'\x1f', '\x8b'}, zstd[] = {'\x28', '\xb5', '\x2f', '\xfd'};
    const bool is_gzip =
        span->size_bytes >= sizeof(gzip) && memcmp(span->data, gzip, sizeof(gzip)) == 0;
    const bool is_zstd =
        span->size_bytes >= sizeof(zstd) && memcmp(span->data, zstd, sizeof(zstd)) == 0;
    if (is_gzip || is_zstd) {
        return gy_fail(GY_UNSUPPORTED, "input %d is compressed with %s: expand it before",
                       input, is_gzip ? "gzip" : "zstd");
    }
    return GY_OK;
}

/* Records on their way into a sorter: the key, and all of it as the value. */
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

/* Write what the sorter gives; lines get their ends. */
static gy_status write_sorted(gy_vertex *vertex, gy_sorter *sorter, bool is_lines)
{
    for (;;) {
        gy_sort_item item = {0};
        bool has = false;
        GY_TRY(gy_sorter_next(sorter, &item, &has));
        if (!has) {
            return GY_OK;
        }
        GY_TRY(gy_vertex_write(vertex, 0, item.value, item.value_bytes));
        if (is_lines && item.value[item.value_bytes - 1] != '\n') {
            GY_TRY(gy_vertex_write(vertex, 0, "\n", 1));
        }
    }
}

static gy_status sort_by_runs(gy_vertex *vertex, const gy_sort_records *records,
                              const gy_sort_range_of *range)
{
    const gy_sorter_options options = {.memory_bytes = gy_vertex_memory(vertex),
                                       .scratch = gy_vertex_scratch(vertex),
                                       .key = records->layout->key};
    if (options.scratch == NULL) {
        return GY_IO; /* said by whoever could not make it */
    }
    gy_sorter *sorter = NULL;
    GY_TRY(gy_sorter_new(gy_env_real(), &options, &sorter));
    adding to = {records, sorter};
    gy_status status = gy_sort_scan(records, range, add_block, &to);
    if (status == GY_OK) {
        status = gy_sorter_end(sorter);
    }
    if (status == GY_OK) {
        status = write_sorted(vertex, sorter, records->layout->kind == GY_LAYOUT_LINES);
    }
    gy_sorter_report report;
    gy_sorter_report_get(sorter, &report);
    gy_vertex_count(vertex, "records sorted", (int64_t)report.records);
    gy_vertex_count(vertex, "runs written", (int64_t)report.runs);
    gy_sorter_free(sorter);
    return status;
}

static gy_status sort_by_scans(gy_vertex *vertex, const gy_sort_records *records,
                               const gy_sort_range_of *range, const gy_sample *sample)
{
    const gy_range_options options = {gy_vertex_memory(vertex), sample};
    gy_range_report report;
    const gy_status status =
        gy_sort_range(records, range, &options, &(gy_sort_sink){room, wrote, vertex}, &report);
    gy_vertex_count(vertex, "records sorted", (int64_t)report.records);
    gy_vertex_count(vertex, "scans of all inputs", (int64_t)report.scans);
    return status;
}

static gy_status sort_spans(gy_vertex *vertex, const gy_sort_records *records, gy_sort_way way)
{
    const size_t parts = (size_t)gy_vertex_copies(vertex);
    const size_t part = (size_t)gy_vertex_index(vertex);
    const gy_sort_facts facts = gy_sort_facts_get(records);
    if (way == GY_SORT_CHOSEN) {
        way = gy_sort_is_kept(&facts) ? GY_SORT_SCANS : GY_SORT_RUNS;
    }
    gy_sort_bound *bounds = gy_alloc("mapreduce.bounds", parts * sizeof(*bounds));
    gy_sample sample = {0};
    gy_status status =
        bounds == NULL ? GY_NOMEM : gy_sample_take(records, SAMPLE_SEED, &sample);
    if (status == GY_OK) {
        gy_sample_split(&sample, records->layout->key, parts, false, bounds);
        const gy_sort_range_of range = {part == 0 ? NULL : &bounds[part - 1],
                                        part + 1 == parts ? NULL : &bounds[part]};
        status = way == GY_SORT_RUNS ? sort_by_runs(vertex, records, &range)
                                     : sort_by_scans(vertex, records, &range, &sample);
    }
    gy_sample_free(&sample);
    gy_free(bounds);
    return status;
}

gy_status gy_sort_vertex(gy_vertex *vertex)
{
    size_t size = 0;
    const void *given = gy_vertex_parameter(vertex, &size);
    parameter told;
    if (size != sizeof(told)) {
        return gy_fail(GY_ARG, "a sort's parameter has %zu bytes, not %zu", size, sizeof(told));
    }
    memcpy(&told, given, sizeof(told));
    const int inputs = gy_vertex_inputs(vertex);
    gy_sort_span *spans = gy_alloc_zero("mapreduce.spans", (size_t)inputs, sizeof(*spans));
    if (spans == NULL) {
        return GY_NOMEM;
    }
    gy_status status = GY_OK;
    for (int i = 0; status == GY_OK && i < inputs; i++) {
        const void *data = NULL;
        status = gy_vertex_read(vertex, i, &data, &spans[i].size_bytes);
        spans[i].data = data;
        if (status == GY_OK && told.layout.kind == GY_LAYOUT_LINES) {
            status = refuse_compressed(&spans[i], i);
        }
    }
    if (status == GY_OK) {
        const gy_sort_records records = {&told.layout, spans, (size_t)inputs};
        status = sort_spans(vertex, &records, told.way);
    }
    gy_free(spans);
    return status;
}
