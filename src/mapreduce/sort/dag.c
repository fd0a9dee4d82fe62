/* Builds the graph of a file sort: vertices that expand compressed files and fetch objects,
 * and one vertex for each part of the order. */
#include "mapreduce/sort/told.h"

#include "base/base.h"
#include "flow/dag.h"
#include "mapreduce/input.h"
#include "mapreduce/job.h"
#include "store/remote/remote.h"
#include "store/store.h"

#include <assert.h>

static_assert((int)GY_SORT_INT64 == (int)GY_KEY_INT64, "orders are kinds of keys");
static_assert((int)GY_SORT_FLOAT64 == (int)GY_KEY_FLOAT64, "orders are kinds of keys");

#define MEMORY_BYTES ((size_t)1 << 30)

/* ---- options ---- */

static void set_layout(gy_sort_layout *layout, const gy_sort_options *options)
{
    const bool is_fixed = options->record_bytes != 0;
    const bool is_number = options->order == GY_SORT_NUMBER;
    layout->kind = is_fixed ? GY_LAYOUT_FIXED : GY_LAYOUT_LINES;
    layout->key = is_number ? GY_KEY_BYTES : (gy_key_kind)options->order;
    layout->record_bytes = options->record_bytes;
    layout->key_offset = options->key_offset;
    layout->key_bytes = options->key_bytes;
    layout->takes_cr = !is_fixed && options->line_end != GY_LINE_END_LF;
    if (is_fixed && layout->key_bytes == 0 && layout->key_offset < layout->record_bytes) {
        layout->key_bytes = layout->record_bytes - layout->key_offset;
    }
}

static void set_coding(gy_sort_coding *coding, const gy_sort_options *options)
{
    coding->is_number = options->order == GY_SORT_NUMBER;
    coding->is_descending = options->is_descending;
    coding->field = options->field;
    coding->separator = options->separator;
    coding->is_strict = options->is_strict;
    coding->is_on = coding->is_number || coding->is_descending || coding->field != 0;
}

static void check_options(gy_dag *dag, const gy_sort_options *options,
                          const gy_sort_layout *layout)
{
    if (gy_sort_layout_check(layout) != GY_OK) {
        gy_dag_fail(dag, GY_ARG, "%s", gy_error_text());
    }
    if (options->memory_bytes != 0 && options->memory_bytes < GY_RANGE_MEMORY_BYTES_MIN) {
        gy_dag_fail(dag, GY_ARG, "%zu bytes of memory for sorting, expected at least %d",
                    options->memory_bytes, GY_RANGE_MEMORY_BYTES_MIN);
    }
    if (options->field < 0 || (options->field != 0 && options->record_bytes != 0)) {
        gy_dag_fail(dag, GY_ARG, "field %d of a record: expected 1 or more, of lines",
                    options->field);
    }
    if (options->separator != '\0' && options->field == 0) {
        gy_dag_fail(dag, GY_ARG,
                    "a separator without a field: expected the number of one (--field)");
    }
    if (options->inputs == NULL || options->inputs[0] == NULL) {
        gy_dag_fail(dag, GY_ARG, "no files to sort");
    }
}

/* ---- inputs ---- */

typedef struct sort_inputs {
    const char *const *paths;
    size_t count, made_count;
    /* (count) made by an earlier vertex, because the input is compressed or an object */
    bool *is_made;
    gy_encoding *encodings; /* (count) */
    const char **ranges;    /* (count) ranges with the current sizes */
    const char **plain;     /* ranges of inputs that are read in place; NULL at the end */
    /* (count) number of the input: first those that vertices make, then the others */
    uint32_t *places;
} sort_inputs;

/* Report a missing file, or one whose size implies a truncated last record, before anything
 * starts. */
static gy_status look_at(sort_inputs *inputs, gy_arena *arena, const gy_sort_options *options)
{
    const size_t record_bytes = options->record_bytes;
    GY_TRY(gy_store_facts_ask(gy_env_real(), inputs->paths));
    for (size_t i = 0; i < inputs->count; i++) {
        const char *path = inputs->paths[i];
        gy_job_file file = {0};
        GY_TRY(gy_mapreduce_job_look_at(path, &file));
        if (file.is_elsewhere) { /* each vertex of a sort reads all inputs */
            return gy_fail(GY_UNSUPPORTED,
                           "cannot sort %s: a sort reads its inputs from every host, expected "
                           "files that all of them have",
                           path);
        }
        const gy_input input = {.path = path,
                                .format =
                                    record_bytes > 0 ? GY_RECORDS_FIXED : GY_RECORDS_LINES,
                                .encoding = options->encoding,
                                .line_end = options->line_end};
        if (!file.is_object) {
            GY_TRY(gy_input_check_head(&input, file.head, file.head_bytes));
        }
        const gy_encoding encoding =
            gy_store_encoding_for(options->encoding, path, record_bytes > 0);
        const bool is_packed = gy_store_format_is_packed(encoding, file.head, file.head_bytes);
        /* Sampling and sorting ranges need mapped files, so an object is fetched into one. */
        inputs->is_made[i] = file.is_object || is_packed ||
                             (file.has_cr_lines && gy_input_asks_for_cr(&input)) ||
                             (record_bytes == 0 && options->line_end == GY_LINE_END_ANY);
        inputs->encodings[i] = inputs->is_made[i] ? encoding : GY_ENCODING_PLAIN;
        inputs->made_count += inputs->is_made[i];
        inputs->ranges[i] = gy_mapreduce_job_range(arena, path, file.size_bytes);
        if (inputs->ranges[i] == NULL) {
            return GY_NOMEM;
        }
        if (record_bytes > 0 && inputs->encodings[i] == GY_ENCODING_PLAIN &&
            file.size_bytes % record_bytes != 0) {
            return gy_fail(GY_FORMAT,
                           "%s has %llu bytes, which is no whole number of records of %zu "
                           "bytes",
                           path, (unsigned long long)file.size_bytes, record_bytes);
        }
    }
    size_t made = 0, plain = 0;
    for (size_t i = 0; i < inputs->count; i++) {
        if (inputs->is_made[i]) {
            inputs->places[made++] = (uint32_t)i;
        } else {
            inputs->places[inputs->made_count + plain] = (uint32_t)i;
            inputs->plain[plain++] = inputs->ranges[i];
        }
    }
    inputs->plain[plain] = NULL;
    return GY_OK;
}

/* ---- vertices ---- */

/* Make a parameter with `more` appended, in the arena; NULL: out of memory. */
static const void *make_parameter(gy_arena *arena, const gy_sort_told *told, const void *more,
                                  size_t more_bytes)
{
    char *parameter = gy_arena_alloc(arena, sizeof(*told) + more_bytes);
    if (parameter != NULL) {
        memcpy(parameter, told, sizeof(*told));
        memcpy(parameter + sizeof(*told), more, more_bytes);
    }
    return parameter;
}

static gy_status add_expanders(gy_dag *dag, gy_arena *arena, const sort_inputs *inputs,
                               const gy_sort_options *sort, gy_part *part)
{
    gy_vertex_options *options = gy_arena_alloc(arena, inputs->made_count * sizeof(*options));
    const char **files = gy_arena_alloc(arena, 2 * inputs->made_count * sizeof(*files));
    gy_sort_told told;
    memset(&told, 0, sizeof(told));
    told.is_expander = true;
    told.layout.record_bytes = sort->record_bytes;
    told.line_end = sort->line_end;
    for (size_t i = 0; options != NULL && files != NULL && i < inputs->made_count; i++) {
        const char *path = inputs->paths[inputs->places[i]];
        told.encoding = inputs->encodings[inputs->places[i]];
        files[2 * i] = inputs->ranges[inputs->places[i]];
        files[2 * i + 1] = NULL;
        options[i] = (gy_vertex_options){
            .function = "gyre.sort",
            .stage = "expand",
            .parameter = make_parameter(arena, &told, path, strlen(path) + 1),
            .parameter_bytes = sizeof(told) + strlen(path) + 1,
            .outputs = 1,
            .files = &files[2 * i]};
        if (options[i].parameter == NULL) {
            return GY_NOMEM;
        }
    }
    if (options == NULL || files == NULL) {
        return GY_NOMEM;
    }
    *part = gy_dag_vertices(dag, options, (int)inputs->made_count);
    return GY_OK;
}

static gy_status add_sort(gy_dag *dag, gy_arena *arena, const sort_inputs *inputs,
                          const gy_sort_options *options, gy_sort_told *told)
{
    const int parts = options->partitions == 0 ? gy_mapreduce_job_cores() : options->partitions;
    told->input_count = (uint32_t)inputs->count;
    const void *parameter =
        make_parameter(arena, told, inputs->places, inputs->count * sizeof(*inputs->places));
    gy_part expanders = {dag, -1};
    if (parameter == NULL) {
        return GY_NOMEM;
    }
    if (inputs->made_count > 0) {
        GY_TRY(add_expanders(dag, arena, inputs, options, &expanders));
    }
    gy_part part = gy_part_clone(
        gy_dag_vertex(
            dag,
            &(gy_vertex_options){
                .function = "gyre.sort",
                .stage = "sort",
                .parameter = parameter,
                .parameter_bytes = sizeof(*told) + inputs->count * sizeof(*inputs->places),
                .inputs = (int)inputs->made_count,
                .outputs = 1,
                .memory_bytes =
                    options->memory_bytes == 0 ? MEMORY_BYTES : options->memory_bytes,
                .files = inputs->plain}),
        parts);
    if (inputs->made_count > 0) {
        part = gy_part_bipartite(expanders, part, GY_CHANNEL_FILE);
    }
    gy_part_output(part, options->name == NULL ? "part" : options->name);
    return GY_OK;
}

static gy_status make_sort(gy_dag *dag, gy_arena *arena, const gy_sort_options *options,
                           gy_sort_told *told)
{
    sort_inputs inputs = {.paths = options->inputs};
    while (options->inputs[inputs.count] != NULL) {
        inputs.count++;
    }
    inputs.is_made = gy_arena_alloc(arena, inputs.count * sizeof(bool));
    inputs.encodings = gy_arena_alloc(arena, inputs.count * sizeof(*inputs.encodings));
    inputs.ranges = gy_arena_alloc(arena, inputs.count * sizeof(*inputs.ranges));
    inputs.plain = gy_arena_alloc(arena, (inputs.count + 1) * sizeof(*inputs.plain));
    inputs.places = gy_arena_alloc(arena, inputs.count * sizeof(*inputs.places));
    if (inputs.is_made == NULL || inputs.encodings == NULL || inputs.ranges == NULL ||
        inputs.plain == NULL || inputs.places == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(look_at(&inputs, arena, options));
    return add_sort(dag, arena, &inputs, options, told);
}

gy_status gy_dag_sort(gy_flow *flow, const gy_sort_options *options, gy_dag **dag)
{
    gy_dag *made = NULL;
    gy_sort_options known;
    GY_TRY(gy_options_take(gy_sort_options, &known, options));
    options = &known;
    GY_TRY(gy_dag_new(flow, "sort", &made));
    gy_sort_told told;
    memset(&told, 0, sizeof(told));
    set_layout(&told.layout, options);
    set_coding(&told.coding, options);
    told.method = options->method;
    check_options(made, options, &told.layout);
    gy_arena arena = {0};
    const gy_status status = made->status < 0 ? GY_OK : make_sort(made, &arena, options, &told);
    gy_arena_free(&arena);
    return gy_mapreduce_job_end(status, made, dag);
}
