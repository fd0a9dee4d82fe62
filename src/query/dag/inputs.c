/* What a vertex reads: a piece of a file, or the outputs of other stages. */
#include "query/dag/dag_priv.h"

#include "base/random.h"

#include <string.h>

/* ---- Bytes ---- */

/* An input of the vertex from its beginning. */
typedef struct port {
    gy_query_work *work;
    int number;
    gy_schema *schema; /* held, of frames */
    const char *data;  /* (size_bytes) what was read and not taken */
    size_t size_bytes;
    gy_text carry; /* bytes of several readings, where a frame does not end with one */
    bool is_end;
} port;

/* Read on; what is left stays in front. */
static gy_status read_more(port *in)
{
    const void *data = NULL;
    size_t size = 0;
    const gy_status status = gy_vertex_read(in->work->vertex, in->number, &data, &size);
    if (status != GY_OK) {
        in->work->is_lost = true;
        return status;
    }
    if (size == 0) {
        in->is_end = true;
        return GY_OK;
    }
    if (in->size_bytes == 0) {
        in->data = data;
        in->size_bytes = size;
        return GY_OK;
    }
    gy_text all = {.data = NULL};
    gy_text_add_bytes(&all, in->data, in->size_bytes);
    gy_text_add_bytes(&all, data, size);
    gy_text_free(&in->carry);
    in->carry = all;
    in->data = all.data;
    in->size_bytes = all.size_bytes;
    return all.status;
}

/* What is left of the last reading is gone at the next one. */
static gy_status keep_rest(port *in)
{
    if (in->size_bytes > 0 && in->data != in->carry.data) {
        gy_text rest = {.data = NULL};
        gy_text_add_bytes(&rest, in->data, in->size_bytes);
        gy_text_free(&in->carry);
        in->carry = rest;
        in->data = rest.data;
        return rest.status;
    }
    return GY_OK;
}

/* ---- Frames of a stage ---- */

static gy_status next_of_port(void *arg, gy_frame **frame)
{
    port *in = arg;
    for (;;) {
        size_t used = 0;
        gy_status status =
            in->size_bytes == 0
                ? GY_AGAIN
                : gy_rows_bytes_read(in->schema, in->data, in->size_bytes, &used, frame);
        if (status != GY_AGAIN) {
            in->work->is_lost = in->work->is_lost || status != GY_OK;
            in->data += status == GY_OK ? used : 0;
            in->size_bytes -= status == GY_OK ? used : 0;
            return status;
        }
        GY_TRY(keep_rest(in));
        GY_TRY(read_more(in));
        if (in->is_end) {
            in->work->is_lost = in->size_bytes > 0;
            return in->size_bytes == 0
                       ? GY_DONE
                       : gy_fail(GY_FORMAT, "rows of input %d end within a frame", in->number);
        }
    }
}

static void close_port(void *arg)
{
    port *in = arg;
    gy_text_free(&in->carry);
    gy_schema_drop(in->schema);
    gy_free(in);
}

static gy_status open_port(gy_query_work *work, int number, gy_schema *schema,
                           gy_frame_source *source)
{
    port *in = gy_alloc_zero("query.port", 1, sizeof(*in));
    if (in == NULL) {
        return GY_NOMEM;
    }
    *in = (port){.work = work, .number = number, .schema = gy_schema_hold(schema)};
    *source = (gy_frame_source){.next = next_of_port, .close = close_port, .arg = in};
    return GY_OK;
}

/* ---- Several of them ---- */

gy_status gy_query_number_rows(gy_schema *schema, int64_t first, gy_query_numbering how,
                               gy_frame **frame)
{
    const int count = gy_schema_count(schema), last = count - 1;
    const int64_t rows = gy_frame_rows(*frame);
    const gy_field field = {.name = "row", .kind = GY_FIELD_INT64};
    gy_frame_maker maker = {.field = field};
    gy_schema *single = NULL;
    gy_frame *numbers = NULL, *made = NULL;
    const gy_frame **frames = gy_alloc_zero("query.rows", (size_t)count, sizeof(*frames));
    int *columns = gy_alloc_zero("query.rows", (size_t)count, sizeof(*columns));
    gy_status status = frames != NULL && columns != NULL ? GY_OK : GY_NOMEM;
    status = status == GY_OK ? gy_frame_maker_reserve(&maker, rows) : status;
    if (status == GY_OK) {
        const bool is_there = how == GY_QUERY_NUMBER_ADD;
        const int64_t step = how == GY_QUERY_NUMBER_SAME ? 0 : 1;
        const gy_column old = is_there ? gy_frame_column(*frame, last) : (gy_column){.rows = 0};
        int64_t *values = maker.values;
        for (int64_t i = 0; i < rows; i++) {
            values[i] = first + (is_there ? gy_column_int64(&old, i) : step * i);
            gy_frame_maker_set(&maker);
        }
        status = gy_schema_new(&field, 1, &single);
    }
    status = status == GY_OK ? gy_frame_make(single, &maker, rows, &numbers) : status;
    if (status == GY_OK) {
        for (int i = 0; i < count; i++) {
            frames[i] = i < last ? *frame : numbers;
            columns[i] = i < last ? i : 0;
        }
        status = gy_frame_compose(schema, frames, columns, rows, &made);
    }
    gy_frame_maker_fini(&maker);
    gy_schema_drop(single);
    gy_frame_drop(numbers);
    gy_free(frames);
    gy_free(columns);
    gy_frame_drop(*frame);
    *frame = made;
    return status;
}

/* Sources one behind the other. */
typedef struct chain {
    gy_frame_source *sources; /* (count) */
    uint32_t count, at;
    gy_schema *schema; /* held */
    bool is_numbered;  /* the last column numbers the rows of each source */
} chain;

static gy_status next_of_chain(void *arg, gy_frame **frame)
{
    chain *in = arg;
    while (in->at < in->count) {
        const gy_status status = in->sources[in->at].next(in->sources[in->at].arg, frame);
        if (status == GY_OK && in->is_numbered) {
            return gy_query_number_rows(in->schema, (int64_t)in->at << 40, GY_QUERY_NUMBER_ADD,
                                        frame);
        }
        if (status != GY_DONE) {
            return status;
        }
        in->at++;
    }
    return GY_DONE;
}

static void close_sources(gy_frame_source *sources, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (sources[i].close != NULL) {
            sources[i].close(sources[i].arg);
        }
    }
    gy_free(sources);
}

static void close_chain(void *arg)
{
    chain *in = arg;
    close_sources(in->sources, in->count);
    gy_schema_drop(in->schema);
    gy_free(in);
}

/* Takes the sources. */
static gy_status chain_sources(const gy_query_input *input, gy_frame_source *sources,
                               gy_schema *schema, gy_query_stream *stream)
{
    chain *made = gy_alloc_zero("query.chain", 1, sizeof(*made));
    if (made == NULL) {
        close_sources(sources, input->ports);
        return GY_NOMEM;
    }
    *made = (chain){.sources = sources,
                    .count = input->ports,
                    .schema = gy_schema_hold(schema),
                    .is_numbered = input->ordinal != GY_QUERY_NONE};
    *stream =
        (gy_query_stream){.source = {.next = next_of_chain, .close = close_chain, .arg = made},
                          .schema = gy_schema_hold(schema)};
    return GY_OK;
}

/* Takes the sources. */
static gy_status merge_sources(const gy_query_input *input, gy_frame_source *sources,
                               gy_schema *schema, gy_query_stream *stream)
{
    const gy_query_node row = {.columns = (uint32_t *)(uintptr_t)input->columns,
                               .count = input->count};
    gy_rows_sort_key *keys = gy_query_sort_keys(&row, input->keys, input->key_count);
    if (keys == NULL) {
        close_sources(sources, input->ports);
        return GY_NOMEM;
    }
    const gy_rows_sort_options options = {
        .keys = keys, .key_count = (int)input->key_count, .limit = -1};
    const gy_status status = gy_rows_merge(sources, (int)input->ports, schema, &options,
                                           &stream->source, &stream->schema);
    gy_free(keys);
    gy_free(sources);
    return status;
}

static gy_status open_ports(gy_query_work *work, const gy_query_input *input, gy_schema *schema,
                            gy_query_stream *stream)
{
    const gy_query_stage *stage = &work->fragment->stage;
    gy_frame_source *sources =
        gy_alloc_zero("query.ports", input->ports + 1u, sizeof(*sources));
    uint32_t first = 0;
    gy_status status = sources != NULL ? GY_OK : GY_NOMEM;
    for (uint32_t i = 0; stage->inputs[i] != input; i++) {
        first += stage->inputs[i]->ports;
    }
    for (uint32_t i = 0; i < input->ports && status == GY_OK; i++) {
        status = open_port(work, (int)(first + i), schema, &sources[i]);
    }
    if (status != GY_OK) {
        close_sources(sources, sources != NULL ? input->ports : 0);
        return status;
    }
    return input->key_count > 0 && input->ports > 0
               ? merge_sources(input, sources, schema, stream)
               : chain_sources(input, sources, schema, stream);
}

/* ---- States ---- */

/* What goes into an aggregate: its groups' columns, then one of each that has some. */
static gy_status node_below(gy_query_run *run, const gy_query_node *of, gy_query_node *below)
{
    size_t count = of->count + 1u;
    for (uint32_t i = 0; i < of->count - of->group_count; i++) {
        count += of->aggregates[i].more_count;
    }
    *below = (gy_query_node){.columns = gy_arena_alloc(&run->arena, count * sizeof(uint32_t))};
    if (below->columns == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < of->count; i++) {
        const uint32_t column =
            i < of->group_count ? of->columns[i] : of->aggregates[i - of->group_count].input;
        if (column != GY_QUERY_NONE) {
            below->columns[below->count++] = column;
        }
    }
    for (uint32_t i = 0; i < of->count - of->group_count; i++) {
        for (uint32_t k = 0; k < of->aggregates[i].more_count; k++) {
            below->columns[below->count++] = of->aggregates[i].more[k];
        }
    }
    return GY_OK;
}

/* The columns of states: those that an aggregate of nothing gives. */
static gy_status states_schema(gy_query_run *run, const gy_query_node *of,
                               const gy_query_node *below, gy_schema **schema)
{
    gy_query_stream nothing = {.schema = NULL};
    GY_TRY(gy_query_schema_of(run->plan, below->columns, below->count, &nothing.schema));
    gy_status status = gy_rows_source(NULL, 0, &nothing.source);
    if (status != GY_OK) {
        gy_schema_drop(nothing.schema);
        return status;
    }
    GY_TRY(gy_query_aggregate_rows(run, of, below, GY_ROWS_PARTIAL, &nothing));
    *schema = gy_schema_hold(nothing.schema);
    gy_query_stream_close(&nothing);
    return GY_OK;
}

static gy_status open_states(gy_query_work *work, gy_query_run *run,
                             const gy_query_input *input, gy_query_stream *stream)
{
    gy_query_node below;
    gy_schema *schema = NULL;
    GY_TRY(node_below(run, input->aggregate, &below));
    GY_TRY(states_schema(run, input->aggregate, &below, &schema));
    const gy_status status = open_ports(work, input, schema, stream);
    gy_schema_drop(schema);
    GY_TRY(status);
    GY_TRY(gy_query_aggregate_rows(run, input->aggregate, &below, GY_ROWS_FINAL, stream));
    return gy_query_meter_stream(run, input->aggregate, stream);
}

gy_status gy_query_input_open(gy_query_work *work, gy_query_run *run,
                              const gy_query_input *input, gy_query_stream *stream)
{
    gy_schema *schema = NULL;
    if (input->aggregate != NULL) {
        return open_states(work, run, input, stream);
    }
    GY_TRY(gy_query_schema_of(run->plan, input->columns, input->count, &schema));
    const gy_status status = open_ports(work, input, schema, stream);
    gy_schema_drop(schema);
    return status;
}

/* ---- A piece of a file ---- */

/* All bytes of the vertex's file, which is its last input. */
static gy_status read_all(port *in)
{
    in->number = gy_vertex_inputs(in->work->vertex) - 1;
    while (!in->is_end) {
        GY_TRY(keep_rest(in));
        GY_TRY(read_more(in));
    }
    return GY_OK;
}

enum { SAMPLE_CUT_BYTES = 32 << 10, SAMPLE_CUTS = 16 };

typedef struct piece {
    port bytes;
    const gy_query_node *node;
    gy_csv *csv;
    int64_t cut, cuts, step; /* of a sample: of each `step` cuts one is read; 0: all rows */
} piece;

/* Columns without a value in the first rows of the file have none here either, or types are
 * found over all rows. */
static gy_status check_empties(const piece *in, const gy_frame *frame)
{
    const char *empties = in->bytes.work->fragment->reading.empties;
    for (uint32_t i = 0; empties != NULL && i < in->node->count; i++) {
        const gy_column column = gy_frame_column(frame, (int)i);
        const size_t field = (size_t)in->node->fields[i];
        if (field < strlen(empties) && empties[field] == '1' &&
            gy_column_nulls(&column) < column.rows) {
            return gy_fail(GY_TYPE, "a value in a column that is empty in the first rows");
        }
    }
    return GY_OK;
}

/* The next cut of a sample that has rows: one by chance of each `step`, since rows may repeat
 * in any period. */
static gy_status next_of_sample(piece *in, gy_frame **frame)
{
    while (in->cut < in->cuts) {
        uint32_t words[4];
        gy_philox(0, 0, (uint64_t)in->cut, words);
        const int64_t end = GY_MIN(in->cut + in->step, in->cuts);
        const int64_t cut = in->cut + (int64_t)(words[0] % (uint64_t)(end - in->cut));
        in->cut = end;
        GY_TRY(gy_csv_read_cut(in->csv, cut, frame));
        if (gy_frame_rows(*frame) > 0) {
            return GY_OK;
        }
        gy_frame_drop(*frame);
    }
    return GY_DONE;
}

static gy_status next_of_piece(void *arg, gy_frame **frame)
{
    piece *in = arg;
    const gy_status status =
        in->step > 0 ? next_of_sample(in, frame) : gy_csv_next(in->csv, frame);
    if (status != GY_OK) {
        return status;
    }
    const gy_status checked = check_empties(in, *frame);
    if (checked != GY_OK) {
        gy_frame_drop(*frame);
    }
    return checked;
}

static void close_piece(void *arg)
{
    piece *in = arg;
    gy_csv_close(in->csv);
    gy_text_free(&in->bytes.carry);
    gy_free(in);
}

/* Whether the columns have the types that the plan has. */
static gy_status check_types(const gy_query_work *work, const gy_query_node *node,
                             const gy_schema *found)
{
    const gy_query_plan *plan = &work->fragment->plan;
    const bool has_all = work->fragment->reading.has_all;
    for (uint32_t i = 0; i < node->count; i++) {
        const int at = has_all ? node->fields[i] : (int)i;
        const gy_field *field = at < gy_schema_count(found) ? gy_schema_field(found, at) : NULL;
        const gy_expr_type *type = &plan->columns[node->columns[i]].type;
        const bool is_decimal = type->kind == GY_FIELD_DECIMAL;
        if (field == NULL || field->kind != type->kind ||
            (is_decimal &&
             (field->precision != type->precision || field->scale != type->scale))) {
            return gy_fail(GY_TYPE, "the types of a file's columns changed meanwhile");
        }
    }
    return GY_OK;
}

static bool is_sampled(const gy_query_work *work)
{
    return work->fragment->stage.sink.kind == GY_QUERY_SAMPLED;
}

/* A sample reads some of the cuts: what is compressed has none, and is read whole. */
static gy_status choose_cuts(gy_query_work *work, piece *in)
{
    const gy_status status = gy_csv_split(in->csv, NULL);
    if (status != GY_OK) {
        return status == GY_UNSUPPORTED ? GY_OK : status;
    }
    in->cuts = gy_csv_cut_count(in->csv);
    in->step = GY_MAX(in->cuts / SAMPLE_CUTS, INT64_C(1));
    work->scale = (double)in->step;
    return GY_OK;
}

static gy_status open_csv(gy_query_work *work, const gy_query_node *node, piece *in)
{
    const gy_query_reading *how = &work->fragment->reading;
    const gy_csv_options options = GY_OPTIONS(
        gy_csv_options, .delimiter = how->delimiter, .has_no_header = how->has_no_header,
        .columns = how->columns, .used = how->has_all ? NULL : work->fragment->names,
        .used_count = how->has_all ? 0 : (int)node->count,
        .encoding = how->is_part ? GY_ENCODING_PLAIN : GY_ENCODING_AUTO,
        .sample_bytes = how->sample_bytes, .is_part = how->is_part, .is_found = how->is_found,
        .skip_lines = how->skip_lines, .null_text = how->null_text,
        .cut_bytes = is_sampled(work) ? SAMPLE_CUT_BYTES : 0);
    GY_TRY(
        gy_csv_open_memory(in->bytes.data, in->bytes.size_bytes, "piece", &options, &in->csv));
    GY_TRY(check_types(work, node, gy_csv_schema(in->csv)));
    return is_sampled(work) ? choose_cuts(work, in) : GY_OK;
}

static gy_status open_piece(gy_query_work *work, const gy_query_node *node,
                            gy_query_stream *stream)
{
    piece *in = gy_alloc_zero("query.piece", 1, sizeof(*in));
    if (in == NULL) {
        return GY_NOMEM;
    }
    in->bytes.work = work;
    in->node = node;
    gy_status status = read_all(&in->bytes);
    status = status == GY_OK ? open_csv(work, node, in) : status;
    if (status != GY_OK) {
        close_piece(in);
        return status;
    }
    *stream =
        (gy_query_stream){.source = {.next = next_of_piece, .close = close_piece, .arg = in},
                          .schema = gy_schema_hold(gy_csv_schema(in->csv))};
    return GY_OK;
}

/* ---- The leaf ---- */

typedef struct choice {
    gy_query_stream below;
    const gy_query_node *node;
} choice;

static gy_status next_of_choice(void *arg, gy_frame **frame)
{
    const choice *in = arg;
    gy_frame *all = NULL;
    const gy_status status = in->below.source.next(in->below.source.arg, &all);
    if (status != GY_OK) {
        return status;
    }
    const gy_status chosen =
        gy_frame_select(all, in->node->fields, (int)in->node->count, frame);
    gy_frame_drop(all);
    return chosen;
}

static void close_choice(void *arg)
{
    choice *in = arg;
    gy_query_stream_close(&in->below);
    gy_free(in);
}

/* Of what arrives the columns that are asked for. */
static gy_status choose(gy_query_run *run, const gy_query_node *node, gy_query_stream *stream)
{
    bool is_all = gy_schema_count(stream->schema) == (int)node->count;
    for (uint32_t i = 0; i < node->count; i++) {
        is_all = is_all && node->fields[i] == (int)i;
    }
    if (is_all) {
        return GY_OK;
    }
    choice *made = gy_alloc_zero("query.choice", 1, sizeof(*made));
    gy_schema *schema = NULL;
    gy_status status = made != NULL ? GY_OK : GY_NOMEM;
    status = status == GY_OK
                 ? gy_query_schema_of(run->plan, node->columns, node->count, &schema)
                 : status;
    if (status != GY_OK) {
        gy_free(made);
        gy_query_stream_close(stream);
        return status;
    }
    *made = (choice){.below = *stream, .node = node};
    *stream = (gy_query_stream){
        .source = {.next = next_of_choice, .close = close_choice, .arg = made},
        .schema = schema};
    return GY_OK;
}

gy_status gy_query_leaf_open(void *arg, gy_query_run *run, const gy_query_node *node,
                             gy_query_stream *stream)
{
    gy_query_work *work = arg;
    const gy_query_stage *stage = &work->fragment->stage;
    for (uint32_t i = 0; i < stage->input_count; i++) {
        if (&stage->inputs[i]->leaf == node->table) {
            GY_TRY(gy_query_input_open(work, run, stage->inputs[i], stream));
            return choose(run, node, stream);
        }
    }
    GY_TRY(open_piece(work, node, stream));
    return work->fragment->reading.has_all ? choose(run, node, stream) : GY_OK;
}
