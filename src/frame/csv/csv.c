/* A CSV file: its header, its types, its frames. */
#include "frame/csv/csv_priv.h"

#include <string.h>

enum { CUT_BYTES = 1 << 20, CUT_BYTES_MIN = 64, SAMPLE_BYTES = 1 << 20 };

struct gy_csv {
    gy_csv_bytes bytes;
    gy_csv_rows rows;
    gy_schema *whole, *schema; /* of all columns, of those that are read */
    int *indices;              /* (schema count) of the second in the first */
    bool is_cast;              /* the caller says the types */
    bool
        *is_empty; /* (schema count) no row that was looked at has a value; NULL: types given */
    bool is_found; /* they were found before: values are not cast to them */
    size_t cut_bytes, sample_bytes;
    char null_text[GY_CSV_NULL_BYTES_MAX + 1];
    uint64_t first_row; /* where the rows begin */
    gy_csv_window window;
    gy_csv_cut *cuts; /* (cut_count + 1) NULL: it was not split */
    int64_t cut_count;
};

void gy_csv_close(gy_csv *csv)
{
    if (csv == NULL) {
        return;
    }
    gy_csv_window_fini(&csv->window);
    gy_csv_bytes_close(&csv->bytes);
    gy_schema_drop(csv->whole);
    gy_schema_drop(csv->schema);
    gy_free(csv->indices);
    gy_free(csv->is_empty);
    gy_free(csv->cuts);
    gy_free(csv);
}

gy_schema *gy_csv_schema(const gy_csv *csv)
{
    return csv->schema;
}

bool gy_csv_is_empty(const gy_csv *csv, int column)
{
    GY_ASSERT(column >= 0 && column < gy_schema_count(csv->schema));
    return csv->is_empty != NULL && csv->is_empty[column];
}

/* Begin at the first row (again). */
static gy_status begin_again(gy_csv *csv)
{
    csv->window.offset = csv->bytes.is_stream ? 0 : csv->first_row;
    csv->window.size_bytes = 0;
    csv->window.lines = 0;
    csv->window.is_end = false;
    GY_TRY(gy_csv_bytes_rewind(&csv->bytes));
    if (csv->bytes.is_stream && csv->first_row > 0) {
        GY_TRY(gy_csv_fill(&csv->bytes, &csv->window, csv->first_row));
        if (csv->window.size_bytes < csv->first_row) {
            return gy_fail(GY_STATE, "%s: changed while it was read", csv->bytes.name);
        }
        gy_csv_skip(&csv->bytes, &csv->window, csv->first_row);
    }
    return GY_OK;
}

/* ---- the schema ---- */

/* Names of columns, one behind the other with their NULs. */
static gy_status write_names(gy_csv *csv, const gy_csv_first *first, bool has_header,
                             gy_text *names)
{
    if (first->fields == 0) {
        return GY_OK;
    }
    GY_ASSERT(first->edges != NULL);
    gy_text scratch = {.data = NULL};
    const gy_csv_block row = {.text = csv->window.data + first->at,
                              .size_bytes = csv->window.size_bytes - first->at,
                              .edges = first->edges + 1,
                              .rows = 1,
                              .columns = first->fields};
    gy_status status = GY_OK;
    for (size_t i = 0; i < first->fields && status == GY_OK; i++) {
        gy_text_view name = has_header ? gy_csv_field(&row, 0, i) : (gy_text_view){"", 0};
        if (name.size_bytes > 0 && name.data[0] == '"') {
            name = gy_csv_unquote(name, &scratch);
        }
        size_t wrong = 0;
        if (!gy_frame_is_utf8(name.data, name.size_bytes, &wrong)) {
            status = gy_csv_fail(&csv->bytes, &csv->window, first->at, GY_FORMAT,
                                 "a column's name that is no UTF-8, or has a NUL byte");
        } else if (name.size_bytes == 0) {
            gy_text_add(names, "column%zu", i + 1);
        } else {
            gy_text_add_bytes(names, name.data, name.size_bytes);
        }
        gy_text_add_bytes(names, "", 1);
    }
    status = status == GY_OK && scratch.status != GY_OK ? scratch.status : status;
    gy_text_free(&scratch);
    return status == GY_OK ? names->status : status;
}

/* All columns as texts, by the names of the first row. */
static gy_status name_columns(gy_csv *csv, const gy_csv_first *first, bool has_header)
{
    if (first->fields > GY_FRAME_COLUMNS_MAX) {
        return gy_csv_fail(&csv->bytes, &csv->window, first->at, GY_LIMIT,
                           "a row of more than 65536 fields");
    }
    gy_text names = {.data = NULL};
    gy_field *fields = gy_alloc("frame.csv", first->fields * sizeof(*fields));
    gy_status status = fields != NULL ? write_names(csv, first, has_header, &names) : GY_NOMEM;
    const char *name = gy_text_get(&names);
    for (size_t i = 0; i < first->fields && status == GY_OK; i++) {
        fields[i] = (gy_field){.name = name, .kind = GY_FIELD_TEXT};
        name += strlen(name) + 1;
    }
    status = status == GY_OK ? gy_schema_new(fields, (int)first->fields, &csv->whole) : status;
    gy_free(fields);
    gy_text_free(&names);
    return status;
}

/* Which columns are read. */
static gy_status choose_columns(gy_csv *csv, const gy_csv_options *options)
{
    const int all = gy_schema_count(csv->whole);
    const int count = options->used != NULL ? options->used_count : all;
    csv->indices = gy_alloc("frame.csv", (size_t)count * sizeof(int));
    gy_field *fields = gy_alloc("frame.csv", (size_t)count * sizeof(*fields));
    gy_status status = csv->indices != NULL && fields != NULL ? GY_OK : GY_NOMEM;
    for (int i = 0; i < count && status == GY_OK; i++) {
        const int index =
            options->used != NULL ? gy_schema_find(csv->whole, options->used[i]) : i;
        if (index < 0) {
            char name[128];
            (void)gy_printable(name, sizeof(name), options->used[i], strlen(options->used[i]),
                               "");
            status = gy_fail(GY_ARG, "%s: %s column '%s'", csv->bytes.name,
                             index == -1 ? "there is no" : "there is more than one", name);
        } else {
            csv->indices[i] = index;
            fields[i] = *gy_schema_field(csv->whole, index);
        }
    }
    status = status == GY_OK ? gy_schema_new(fields, count, &csv->schema) : status;
    gy_free(fields);
    return status;
}

/* Give the columns that are read the types that were found. */
static gy_status set_types(gy_csv *csv, const gy_csv_type *types)
{
    const int count = gy_schema_count(csv->schema);
    gy_field *fields = gy_alloc("frame.csv", (size_t)count * sizeof(*fields));
    bool *is_empty = gy_alloc("frame.csv", (size_t)count * sizeof(*is_empty));
    gy_status status = fields != NULL && is_empty != NULL ? GY_OK : GY_NOMEM;
    for (int i = 0; i < count && status == GY_OK; i++) {
        fields[i] = *gy_schema_field(csv->schema, i);
        gy_csv_type_choose(&types[i], &fields[i]);
        is_empty[i] = !types[i].has_values;
    }
    gy_schema *made = NULL;
    status = status == GY_OK ? gy_schema_new(fields, count, &made) : status;
    gy_free(fields);
    if (status != GY_OK) {
        gy_free(is_empty);
        return status;
    }
    gy_schema_drop(csv->schema);
    gy_free(csv->is_empty);
    csv->schema = made;
    csv->is_empty = is_empty;
    return GY_OK;
}

static gy_text_view null_text_of(const gy_csv *csv)
{
    return (gy_text_view){csv->null_text, strlen(csv->null_text)};
}

static gy_status types_init(const gy_csv *csv, gy_csv_types *types)
{
    *types = (gy_csv_types){.null_text = null_text_of(csv),
                            .indices = csv->indices,
                            .count = gy_schema_count(csv->schema)};
    types->types = gy_alloc_zero("frame.csv", (size_t)types->count, sizeof(*types->types));
    return types->types != NULL ? GY_OK : GY_NOMEM;
}

static void types_fini(gy_csv_types *types)
{
    gy_text_free(&types->scratch);
    gy_free(types->types);
}

/* Find the types of the rows before a limit; the window begins at a row. */
static gy_status see_rows(gy_csv *csv, gy_csv_window *window, uint64_t limit,
                          gy_csv_types *types)
{
    const gy_csv_visitor visitor = gy_csv_types_visitor(types);
    gy_status status = GY_OK;
    while (status == GY_OK && window->offset < limit &&
           !(window->is_end && window->size_bytes == 0)) {
        const uint64_t cut = window->offset / csv->cut_bytes + 1;
        status =
            gy_csv_visit(&csv->rows, window, GY_MIN(cut * csv->cut_bytes, limit), &visitor);
    }
    return status;
}

/* Guess types by the sample, or leave those of the caller. */
static gy_status guess_types(gy_csv *csv)
{
    gy_csv_types types;
    GY_TRY(begin_again(csv));
    if (csv->is_cast || csv->rows.columns == 0) {
        return GY_OK;
    }
    gy_status status = types_init(csv, &types);
    if (status == GY_OK) {
        status = see_rows(csv, &csv->window, csv->first_row + csv->sample_bytes, &types);
    }
    status = status == GY_OK ? set_types(csv, types.types) : status;
    types_fini(&types);
    return status == GY_OK ? begin_again(csv) : status;
}

/* ---- opening ---- */

gy_status gy_csv_check_delimiter(char c)
{
    if (c == '"' || c == '\n' || c == '\r' || (signed char)c < 0) {
        return gy_fail(GY_ARG,
                       "delimiter 0x%02x: expected a byte of ASCII that is neither a quote "
                       "nor a line end",
                       (unsigned)(unsigned char)c);
    }
    return GY_OK;
}

static gy_status check_options(const gy_csv_options *options)
{
    GY_TRY(gy_csv_check_delimiter(options->delimiter));
    const size_t cut = options->cut_bytes;
    if (cut != 0 &&
        (cut < CUT_BYTES_MIN || cut > (size_t)GY_CSV_ROW_BYTES_MAX || (cut & (cut - 1)) != 0)) {
        return gy_fail(GY_ARG, "cuts of %zu bytes: expected a power of two from 64 to 2^30",
                       cut);
    }
    if (options->skip_lines < 0) {
        return gy_fail(GY_ARG, "%lld lines to skip: expected none or more",
                       (long long)options->skip_lines);
    }
    const char *null_text = options->null_text != NULL ? options->null_text : "";
    const char none[] = {'"', '\n', '\r',
                         (char)(options->delimiter != 0 ? options->delimiter : ','), '\0'};
    if (strlen(null_text) > GY_CSV_NULL_BYTES_MAX || strpbrk(null_text, none) != NULL) {
        return gy_fail(
            GY_ARG,
            "a text for null: expected at most %d bytes without a quote, delimiter or "
            "line end",
            GY_CSV_NULL_BYTES_MAX);
    }
    if (options->used_count < 0 || options->used_count > GY_FRAME_COLUMNS_MAX) {
        return gy_fail(GY_ARG, "%d columns to read", options->used_count);
    }
    return GY_OK;
}

static gy_status read_header(gy_csv *csv, const gy_csv_options *options, gy_csv_first *first)
{
    GY_TRY(gy_csv_first_find(&csv->rows, &csv->window, first));
    csv->rows.columns = first->fields;
    csv->rows.source = options->has_no_header ? "the first row" : "the header";
    if (options->columns != NULL) {
        GY_TRY(gy_schema_parse(options->columns, &csv->whole));
        const size_t count = (size_t)gy_schema_count(csv->whole);
        if (first->fields != 0 && first->fields != count) {
            char what[128];
            (void)gy_print(what, sizeof(what),
                           "%zu field%s in a row: expected %zu as in "
                           "the columns given",
                           first->fields, first->fields == 1 ? "" : "s", count);
            return gy_csv_fail(&csv->bytes, &csv->window, first->at, GY_FORMAT, what);
        }
        csv->rows.columns = count;
        csv->rows.source = "the columns given";
        csv->is_cast = true;
        csv->is_found = options->is_found;
    } else {
        GY_TRY(name_columns(csv, first, !options->has_no_header));
    }
    csv->first_row = csv->window.offset + (options->has_no_header ? 0 : first->end);
    return GY_OK;
}

static gy_status open_csv(gy_csv *csv, const gy_csv_options *options)
{
    gy_csv_first first = {.fields = 0};
    csv->cut_bytes = options->cut_bytes != 0 ? options->cut_bytes : (size_t)CUT_BYTES;
    csv->sample_bytes =
        options->sample_bytes != 0 ? options->sample_bytes : (size_t)SAMPLE_BYTES;
    csv->rows = (gy_csv_rows){.bytes = &csv->bytes,
                              .way = gy_way_best(),
                              .delimiter = ',',
                              .row_bytes_max = GY_CSV_ROW_BYTES_MAX,
                              .is_part = options->is_part,
                              .skip_lines = options->skip_lines};
    (void)gy_print(csv->null_text, sizeof(csv->null_text), "%s",
                   options->null_text != NULL ? options->null_text : "");
    if (options->delimiter != 0) {
        csv->rows.delimiter = options->delimiter;
    }
    gy_status status = read_header(csv, options, &first);
    gy_free(first.edges);
    status = status == GY_OK ? choose_columns(csv, options) : status;
    return status == GY_OK ? guess_types(csv) : status;
}

/* Finish what was begun with its bytes. */
static gy_status finish_open(gy_csv *made, gy_status opened, const gy_csv_options *options,
                             gy_csv **csv)
{
    const gy_status status = opened == GY_OK ? open_csv(made, options) : opened;
    if (status < 0) {
        gy_csv_close(made);
        return status;
    }
    *csv = made;
    return GY_OK;
}

static gy_status begin_open(const gy_csv_options *options, gy_csv_options *known, gy_csv **made)
{
    GY_TRY(gy_options_take(gy_csv_options, known, options));
    GY_TRY(check_options(known));
    *made = gy_alloc_zero("frame.csv", 1, sizeof(**made));
    return *made != NULL ? GY_OK : GY_NOMEM;
}

gy_status gy_csv_open(const char *uri, const gy_csv_options *options, gy_csv **csv)
{
    gy_csv_options known;
    gy_csv *made = NULL;
    GY_TRY(begin_open(options, &known, &made));
    return finish_open(made, gy_csv_bytes_open(uri, known.encoding, &made->bytes), &known, csv);
}

gy_status gy_csv_open_memory(const void *data, size_t size_bytes, const char *name,
                             const gy_csv_options *options, gy_csv **csv)
{
    gy_csv_options known;
    gy_csv *made = NULL;
    GY_TRY(begin_open(options, &known, &made));
    const gy_text_view memory = {size_bytes > 0 ? data : "", size_bytes};
    return finish_open(made,
                       gy_csv_bytes_open_memory(memory, name, known.encoding, &made->bytes),
                       &known, csv);
}

/* ---- reading ---- */

/* The rows before a limit as a frame; the window begins at a row. */
static gy_status read_rows(gy_csv *csv, gy_csv_window *window, uint64_t limit, gy_frame **frame)
{
    gy_csv_columns columns;
    gy_status status = gy_csv_columns_init(&columns, csv->schema, csv->indices,
                                           csv->is_cast && !csv->is_found ? GY_READING_CAST
                                                                          : GY_READING_STRICT);
    const gy_csv_visitor visitor = gy_csv_columns_visitor(&columns);
    columns.is_empty = csv->is_empty;
    columns.null_text = null_text_of(csv);
    if (status == GY_OK && csv->rows.columns > 0) {
        status = gy_csv_visit(&csv->rows, window, limit, &visitor);
    }
    if (status == GY_OK) {
        status = gy_frame_make(csv->schema, columns.makers, columns.rows, frame);
    }
    gy_csv_columns_fini(&columns);
    return status;
}

gy_status gy_csv_next(gy_csv *csv, gy_frame **frame)
{
    gy_csv_window *window = &csv->window;
    while (csv->rows.columns > 0 && !(window->is_end && window->size_bytes == 0)) {
        gy_frame *made = NULL;
        const uint64_t cut = window->offset / csv->cut_bytes + 1;
        GY_TRY(read_rows(csv, window, cut * csv->cut_bytes, &made));
        if (gy_frame_rows(made) > 0) {
            *frame = made;
            return GY_OK;
        }
        gy_frame_drop(made);
    }
    return GY_DONE;
}

static gy_status next_of(void *arg, gy_frame **frame)
{
    return gy_csv_next(arg, frame);
}

static void close_of(void *arg)
{
    gy_csv_close(arg);
}

gy_frame_source gy_csv_source(gy_csv *csv)
{
    return (gy_frame_source){.next = next_of, .close = close_of, .arg = csv};
}

/* ---- cuts ---- */

gy_status gy_csv_split(gy_csv *csv, gy_engine *engine)
{
    if (csv->bytes.is_stream) {
        return gy_fail(GY_UNSUPPORTED, "%s: is compressed, so it is read in order",
                       csv->bytes.name);
    }
    const int64_t count =
        (int64_t)((csv->bytes.size_bytes + csv->cut_bytes - 1) / csv->cut_bytes);
    gy_csv_cut *cuts = gy_alloc_zero("frame.csv", (size_t)count + 1, sizeof(*cuts));
    if (cuts == NULL) {
        return GY_NOMEM;
    }
    const gy_status status =
        gy_csv_cuts_find(&csv->bytes, csv->rows.way, csv->cut_bytes, engine, cuts);
    if (status < 0) {
        gy_free(cuts);
        return status;
    }
    for (int64_t i = 0; i < count; i++) {
        cuts[i].begin = GY_MAX(cuts[i].begin, csv->first_row);
    }
    gy_free(csv->cuts);
    csv->cuts = cuts;
    csv->cut_count = count;
    return GY_OK;
}

int64_t gy_csv_cut_count(const gy_csv *csv)
{
    return csv->cut_count;
}

uint64_t gy_csv_cut_begin(const gy_csv *csv, int64_t cut)
{
    GY_ASSERT(cut >= 0 && cut <= csv->cut_count && csv->cuts != NULL);
    return csv->cuts[cut].begin;
}

gy_status gy_csv_read_cut(gy_csv *csv, int64_t cut, gy_frame **frame)
{
    GY_ASSERT(cut >= 0 && cut < csv->cut_count);
    gy_csv_window window = {.offset = csv->cuts[cut].begin};
    const uint64_t limit = GY_MIN((uint64_t)(cut + 1) * csv->cut_bytes, csv->bytes.size_bytes);
    const gy_status status = read_rows(csv, &window, GY_MAX(limit, window.offset), frame);
    gy_csv_window_fini(&window);
    return status;
}

/* A row that is looked for. */
typedef struct seeking {
    int64_t left; /* rows before it */
    char *place;
    size_t size_bytes;
} seeking;

static size_t pass_rows(void *arg, const gy_csv_block *block, gy_status *status)
{
    seeking *of = arg;
    const size_t passed =
        (size_t)GY_MIN((uint64_t)of->left, (uint64_t)block->rows); /* the next one is it */
    of->left -= (int64_t)passed;
    *status = GY_OK;
    return passed;
}

/* The row that was not passed. */
static gy_status take_place(void *arg, const gy_csv_block *block, size_t row, const char *place)
{
    const seeking *of = arg;
    GY_ASSERT(row < block->rows);
    (void)gy_print(of->place, of->size_bytes, "%s", place);
    return GY_CANCELLED; /* the visit ends here */
}

gy_status gy_csv_row_place(gy_csv *csv, int64_t cut, int64_t row, char *place,
                           size_t size_bytes)
{
    GY_ASSERT(cut >= 0 && cut < csv->cut_count && row >= 0 && size_bytes > 0);
    gy_csv_window window = {.offset = csv->cuts[cut].begin};
    seeking of = {.left = row, .place = place, .size_bytes = size_bytes};
    const gy_csv_visitor visitor = {pass_rows, take_place, &of};
    const uint64_t limit = GY_MIN((uint64_t)(cut + 1) * csv->cut_bytes, csv->bytes.size_bytes);
    place[0] = '\0';
    const gy_status status =
        csv->rows.columns > 0
            ? gy_csv_visit(&csv->rows, &window, GY_MAX(limit, window.offset), &visitor)
            : GY_OK;
    gy_csv_window_fini(&window);
    if (place[0] != '\0') {
        return GY_OK;
    }
    return status < 0 ? status
                      : gy_fail(GY_STATE, "%s: changed while it was read", csv->bytes.name);
}

/* ---- types of all rows ---- */

typedef struct retyping {
    gy_csv *csv;
    gy_mutex lock;
    GY_GUARDED(lock) gy_csv_type *types; /* of the cuts that were looked at */
    GY_GUARDED(lock) gy_error error;     /* of the first cut that failed */
    GY_GUARDED(lock) int64_t failed;
} retyping;

static void see_cuts(void *arg, int64_t begin, int64_t end)
{
    retyping *of = arg;
    gy_csv_types types;
    gy_csv_window window = {.offset = of->csv->cuts[begin].begin};
    gy_status status = types_init(of->csv, &types);
    if (status == GY_OK) {
        status = see_rows(of->csv, &window, of->csv->cuts[end].begin, &types);
    }
    gy_mutex_lock(&of->lock);
    for (int i = 0; i < types.count && status == GY_OK; i++) {
        gy_csv_type_merge(&of->types[i], &types.types[i]);
    }
    if (status < 0 && (of->failed < 0 || begin < of->failed)) {
        gy_error_take(&of->error, status);
        of->failed = begin;
    }
    gy_mutex_unlock(&of->lock);
    gy_csv_window_fini(&window);
    types_fini(&types);
}

/* Look at all rows, of a stream in order. */
static gy_status see_all(gy_csv *csv, gy_engine *engine, gy_csv_types *all)
{
    if (csv->bytes.is_stream) {
        GY_TRY(begin_again(csv));
        return see_rows(csv, &csv->window, UINT64_MAX, all);
    }
    if (csv->cuts == NULL) {
        GY_TRY(gy_csv_split(csv, engine));
    }
    retyping of = {.csv = csv, .types = all->types, .failed = -1};
    gy_mutex_init(&of.lock, 1);
    gy_parallel_for(engine, csv->cut_count, 1, see_cuts, &of);
    gy_mutex_fini(&of.lock);
    return of.failed >= 0 ? gy_error_raise(&of.error) : GY_OK;
}

gy_status gy_csv_retype(gy_csv *csv, gy_engine *engine)
{
    if (csv->is_cast) {
        return gy_fail(GY_STATE, "%s: its types were given", csv->bytes.name);
    }
    if (csv->rows.columns == 0) {
        return GY_OK;
    }
    gy_csv_types types;
    gy_status status = types_init(csv, &types);
    status = status == GY_OK ? see_all(csv, engine, &types) : status;
    status = status == GY_OK ? set_types(csv, types.types) : status;
    types_fini(&types);
    return status == GY_OK ? begin_again(csv) : status;
}
