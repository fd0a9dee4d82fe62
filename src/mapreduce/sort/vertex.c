/* Sorting of files as vertices: each takes its range of the order out of all inputs. */
#include "mapreduce/sort.h"

#include "base/base.h"
#include "flow/dag.h"

#include <gyre/sort.h>

#include <assert.h>
#include <unistd.h>

static_assert((int)GY_SORT_INT64 == (int)GY_KEY_INT64, "orders are kinds of keys");
static_assert((int)GY_SORT_FLOAT64 == (int)GY_KEY_FLOAT64, "orders are kinds of keys");

#define MEMORY_BYTES ((size_t)1 << 30)

enum { SAMPLE_SEED = 1 };

static gy_sort_layout layout_of(const gy_sort_options *options)
{
    const bool is_fixed = options->record_bytes != 0;
    gy_sort_layout layout = {
        .kind = is_fixed ? GY_LAYOUT_FIXED : GY_LAYOUT_LINES,
        .key = (gy_key_kind)options->order,
        .record_bytes = options->record_bytes,
        .key_offset = options->key_offset,
        .key_bytes = options->key_bytes,
    };
    if (is_fixed && layout.key_bytes == 0 && layout.key_offset < layout.record_bytes) {
        layout.key_bytes = layout.record_bytes - layout.key_offset;
    }
    return layout;
}

gy_dag *gy_dag_sort(gy_flow *flow, const gy_sort_options *options)
{
    gy_dag *dag = gy_dag_new(flow, "sort");
    if (dag == NULL) {
        return NULL;
    }
    const gy_sort_layout layout = layout_of(options);
    if (gy_sort_layout_check(&layout) != GY_OK) {
        gy_dag_fail(dag, GY_ARG, "%s", gy_error_text());
    }
    if (options->inputs == NULL || options->inputs[0] == NULL) {
        gy_dag_fail(dag, GY_ARG, "no files to sort");
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
            .parameter = &layout,
            .parameter_bytes = sizeof(layout),
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

static gy_status sort_spans(gy_vertex *vertex, const gy_sort_records *records)
{
    const size_t parts = (size_t)gy_vertex_copies(vertex);
    const size_t part = (size_t)gy_vertex_index(vertex);
    gy_sort_bound *bounds = gy_alloc("mapreduce.bounds", parts * sizeof(*bounds));
    gy_sample sample = {0};
    gy_status status =
        bounds == NULL ? GY_NOMEM : gy_sample_take(records, SAMPLE_SEED, &sample);
    if (status == GY_OK) {
        gy_sample_split(&sample, records->layout->key, parts, false, bounds);
        const gy_sort_range_of range = {part == 0 ? NULL : &bounds[part - 1],
                                        part + 1 == parts ? NULL : &bounds[part]};
        const gy_range_options options = {gy_vertex_memory(vertex), &sample};
        gy_range_report report;
        status = gy_sort_range(records, &range, &options, &(gy_sort_sink){room, wrote, vertex},
                               &report);
        gy_vertex_count(vertex, "records sorted", (int64_t)report.records);
        gy_vertex_count(vertex, "scans of all inputs", (int64_t)report.scans);
    }
    gy_sample_free(&sample);
    gy_free(bounds);
    return status;
}

gy_status gy_sort_vertex(gy_vertex *vertex)
{
    size_t size = 0;
    const void *parameter = gy_vertex_parameter(vertex, &size);
    gy_sort_layout layout;
    if (size != sizeof(layout)) {
        return gy_fail(GY_ARG, "a sort's parameter has %zu bytes, not %zu", size,
                       sizeof(layout));
    }
    memcpy(&layout, parameter, sizeof(layout));
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
        if (status == GY_OK && layout.kind == GY_LAYOUT_LINES) {
            status = refuse_compressed(&spans[i], i);
        }
    }
    if (status == GY_OK) {
        status = sort_spans(vertex, &(gy_sort_records){&layout, spans, (size_t)inputs});
    }
    gy_free(spans);
    return status;
}
