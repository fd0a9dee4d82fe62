/* Rows as texts, of a part of a file in memory or of a stream. */
#include "frame/csv/records.h"

#include "frame/csv/csv_priv.h"

enum { STEP_BYTES = 1 << 20 };

/* What the rows of a window are given to. */
typedef struct giving {
    const gy_csv_records *records;
    const gy_csv_window *window;
} giving;

static size_t give_rows(void *arg, const gy_csv_block *block, gy_status *status)
{
    const giving *to = arg;
    const uint64_t base = to->window->offset + (uint64_t)(block->text - to->window->data);
    const uint32_t *edges = block->edges;
    for (size_t row = 0; row < block->rows; row++, edges += block->columns) {
        const uint32_t begin = edges[-1] + 1; /* the first of a text at UINT32_MAX + 1 = 0 */
        const gy_text_view last = gy_csv_field(block, row, block->columns - 1);
        const gy_text_view text = {block->text + begin,
                                   (size_t)(last.data - block->text) + last.size_bytes - begin};
        *status = to->records->visit(to->records->arg, text, base + begin);
        if (*status < 0) {
            return row;
        }
    }
    return block->rows;
}

/* All rows are taken, or the visit failed. */
static gy_status refuse_row(void *arg, const gy_csv_block *block, size_t row, const char *place)
{
    (void)arg;
    (void)block;
    (void)row;
    gy_panic("%s: a row that was neither taken nor failed", place);
}

/* Visit the rows that begin before `end`; the window begins at a row. */
static gy_status visit_rows(const gy_csv_rows *rows, const gy_csv_records *records,
                            gy_csv_window *window, uint64_t end)
{
    giving to = {records, window};
    const gy_csv_visitor visitor = {give_rows, refuse_row, &to};
    const uint64_t step = GY_MIN((size_t)STEP_BYTES, rows->row_bytes_max);
    while (window->offset < end && !(window->is_end && window->size_bytes == 0)) {
        GY_TRY(gy_csv_visit(rows, window, GY_MIN(window->offset + step, end), &visitor));
    }
    return GY_OK;
}

static gy_csv_rows rows_of(const gy_csv_records *records, gy_csv_bytes *bytes)
{
    return (gy_csv_rows){.bytes = bytes,
                         .way = gy_way_best(),
                         .delimiter = records->delimiter,
                         .source = "the first row",
                         .row_bytes_max =
                             records->row_bytes_max != 0
                                 ? GY_MIN(records->row_bytes_max, (size_t)GY_CSV_ROW_BYTES_MAX)
                                 : (size_t)GY_CSV_ROW_BYTES_MAX};
}

/* Visit [begin, end) of the bytes. */
static gy_status visit_bytes(const gy_csv_records *records, gy_csv_bytes *bytes, uint64_t begin,
                             uint64_t end)
{
    gy_csv_rows rows = rows_of(records, bytes);
    gy_csv_window window = {.data = NULL};
    gy_csv_first first;
    gy_status status = gy_csv_first_find(&rows, &window, &first);
    rows.columns = first.fields;
    gy_free(first.edges);
    if (status == GY_OK && begin > window.offset) {
        GY_ASSERT(!bytes->is_stream && begin <= bytes->size_bytes);
        window.offset = begin;
        window.size_bytes = 0;
        window.is_end = begin == bytes->size_bytes;
    }
    if (status == GY_OK && rows.columns > 0) {
        status = visit_rows(&rows, records, &window, end);
    }
    gy_csv_window_fini(&window);
    return status;
}

gy_status gy_csv_records_of(const gy_csv_records *records, gy_text_view file, uint64_t begin,
                            uint64_t end)
{
    gy_csv_bytes bytes;
    begin = GY_MIN(begin, (uint64_t)file.size_bytes);
    GY_TRY(gy_csv_bytes_open_memory(file, records->name, GY_ENCODING_PLAIN, &bytes));
    const gy_status status = visit_bytes(records, &bytes, begin, end);
    gy_csv_bytes_close(&bytes);
    return status;
}

gy_status gy_csv_records_from(const gy_csv_records *records, gy_source *source)
{
    gy_csv_bytes bytes;
    GY_TRY(gy_csv_bytes_open_source(source, records->name, &bytes));
    const gy_status status = visit_bytes(records, &bytes, 0, UINT64_MAX);
    gy_csv_bytes_close(&bytes);
    return status;
}

/* Move the offsets of a file that is open. */
static gy_status move_offsets(gy_csv_bytes *bytes, size_t cut_bytes, gy_engine *engine,
                              uint64_t *offsets, size_t count)
{
    const uint64_t cut_count = (bytes->size_bytes + cut_bytes - 1) / cut_bytes;
    gy_csv_cut *cuts = gy_alloc_zero("frame.csv", (size_t)cut_count + 1, sizeof(*cuts));
    if (cuts == NULL) {
        return GY_NOMEM;
    }
    const gy_status status = gy_csv_cuts_find(bytes, gy_way_best(), cut_bytes, engine, cuts);
    for (size_t i = 0; i < count && status == GY_OK; i++) {
        offsets[i] = cuts[GY_MIN(offsets[i] / cut_bytes, cut_count)].begin;
    }
    gy_free(cuts);
    return status;
}

gy_status gy_csv_records_begins(const char *path, size_t cut_bytes, gy_engine *engine,
                                uint64_t *offsets, size_t count)
{
    gy_csv_bytes bytes;
    GY_ASSERT(cut_bytes >= 64 && cut_bytes <= (size_t)1 << 30 &&
              (cut_bytes & (cut_bytes - 1)) == 0);
    GY_TRY(gy_csv_bytes_open(path, GY_ENCODING_PLAIN, &bytes));
    const gy_status status =
        bytes.is_stream /* it was not when its size was looked at */
            ? gy_fail(GY_STATE, "%s: changed while it was read", bytes.name)
            : move_offsets(&bytes, cut_bytes, engine, offsets, count);
    gy_csv_bytes_close(&bytes);
    return status;
}
