/* Rows of CSV, which room frame finds, as records. */
#include "mapreduce/input.h"

#include "base/base.h"
#include "frame/csv/records.h"
#include "store/store.h"

/* Where rows go. */
typedef struct visiting {
    gy_record record; /* what all have */
    gy_record_visit visit;
    void *arg;
} visiting;

static gy_status visit_row(void *arg, gy_text_view row, uint64_t offset)
{
    visiting *to = arg;
    to->record.data = row.data;
    to->record.size = row.size_bytes;
    to->record.offset = offset;
    return to->visit(to->arg, &to->record);
}

static visiting visiting_of(const gy_input *input, gy_record_visit visit, void *arg)
{
    return (visiting){.record = {.file = input->path, .delimiter = input->delimiter},
                      .visit = visit,
                      .arg = arg};
}

static gy_csv_records records_of(const gy_input *input, visiting *to)
{
    return (gy_csv_records){
        .name = input->path, .delimiter = input->delimiter, .visit = visit_row, .arg = to};
}

gy_status gy_mapreduce_visit_csv(const gy_input *input, gy_record_visit visit, void *arg)
{
    visiting to = visiting_of(input, visit, arg);
    const gy_csv_records records = records_of(input, &to);
    const gy_text_view file = {input->data, input->size_bytes};
    return gy_csv_records_of(&records, file, input->begin, input->end);
}

/* A stream whose first bytes are looked at. */
typedef struct looking {
    const gy_input *input;
    gy_input_fill fill;
    void *arg;
    bool is_begun;
} looking;

static gy_status read_stream(void *arg, void *data, size_t wanted, size_t *got)
{
    looking *from = arg;
    GY_TRY(from->fill(from->arg, data, wanted, got));
    if (!from->is_begun) {
        from->is_begun = true;
        GY_TRY(gy_input_check_text(from->input, data, *got));
    }
    return GY_OK;
}

static void close_nothing(void *arg)
{
    (void)arg; /* the stream belongs to the caller */
}

gy_status gy_mapreduce_visit_csv_stream(const gy_input *input, gy_input_fill fill,
                                        void *fill_arg, gy_record_visit visit, void *arg)
{
    static const gy_source_ops ops = {read_stream, close_nothing};
    /* where rows begin is not known: it is whole */
    GY_ASSERT(input->begin == 0 && (input->end == 0 || input->end == UINT64_MAX));
    looking from = {.input = input, .fill = fill, .arg = fill_arg};
    visiting to = visiting_of(input, visit, arg);
    gy_csv_records records = records_of(input, &to);
    gy_source *source = NULL;
    records.row_bytes_max = input->record_most;
    GY_TRY(gy_source_over(&ops, &from, UINT64_MAX, input->path, GY_ENCODING_PLAIN, &source));
    return gy_csv_records_from(&records, source);
}
