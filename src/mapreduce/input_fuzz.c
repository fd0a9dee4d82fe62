/* Fuzz target: any bytes as records of each format. A file of two parts has the records of the
 * whole, and so has a stream of small pieces. The first three bytes: format, where the parts
 * meet, the longest record of the stream.
 */
#include "mapreduce/input.h"

#include "base/base.h"
#include "store/store.h"

#include <string.h>

enum { HEAD_BYTES = 3, FORMATS = 5, RECORD_BYTES = 5, MARK_BYTES = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a visit saw. */
typedef struct seen {
    const char *file; /* (size) the whole */
    size_t size;
    gy_record_format format;
    gy_line_end line_end;
    uint64_t digest, end; /* end: of the texts so far */
    uint64_t middle, row; /* row: where the first record from `middle` on begins */
} seen;

/* Each field without its quotes, into room for exactly what is guaranteed. */
static void read_fields(const gy_record *row)
{
    for (gy_token field = gy_first_field(row); field.data != NULL;
         field = gy_next_field(field)) {
        GY_ASSERT(field.data >= row->data &&
                  field.size <= (size_t)(row->data + row->size - field.data));
        char *text = gy_alloc("fuzz", field.size);
        if (text != NULL) {
            GY_ASSERT(gy_field_text(field, text) <= field.size);
        }
        gy_free(text);
    }
}

static gy_status see(void *arg, const gy_record *record)
{
    seen *all = arg;
    const char *first = record->key != NULL ? record->key : record->data;
    const size_t size = (size_t)(record->data + record->size - first);
    GY_ASSERT(record->offset <= all->size && size <= all->size - record->offset);
    const bool may_turn = /* CR into LF */
        all->format == GY_RECORDS_TEXT && all->line_end != GY_LINE_END_LF;
    GY_ASSERT(may_turn || memcmp(first, all->file + record->offset, size) == 0);
#ifdef GYRE_PLANTED_BUG
    char *small = gy_alloc("fuzz", 16); /* too small for longer records */
    if (small != NULL && size > 0) {
        ((volatile char *)small)[size - 1] = first[size - 1];
    }
    gy_free(small);
#endif
    if (all->format == GY_RECORDS_TEXT) { /* how many lines are one record is free */
        all->end += all->end == 0 && record->offset == MARK_BYTES ? MARK_BYTES : 0;
        GY_ASSERT(record->offset == all->end && size > 0);
        all->end += size;
        return GY_OK;
    }
    if (all->format == GY_RECORDS_CSV) {
        read_fields(record);
    }
    if (record->offset >= all->middle) {
        all->row = GY_MIN(all->row, record->offset);
    }
    const uint64_t facts[] = {record->offset, record->size, record->key_size};
    all->digest = gy_hash(facts, sizeof(facts), all->digest);
    return GY_OK;
}

typedef struct rest {
    const char *at;
    size_t size;
} rest;

static gy_status fill(void *arg, char *data, size_t wanted, size_t *got)
{
    rest *from = arg;
    *got = GY_MIN(wanted, from->size);
    memcpy(data, from->at, *got);
    from->at += *got;
    from->size -= *got;
    return GY_OK;
}

static bool is_same(const seen *a, const seen *b)
{
    return a->digest == b->digest && a->end == b->end;
}

static void compare(gy_input input, uint64_t middle, const seen *nothing)
{
    seen whole = *nothing, parts = *nothing, streamed = *nothing;
    whole.middle = middle;
    whole.row = UINT64_MAX;
    const gy_status status = gy_input_visit(&input, see, &whole);
    GY_ASSERT(status == GY_OK || status == GY_FORMAT);

    if (gy_input_can_part(&input, input.data, input.size_bytes)) {
        gy_input first = input, second = input;
        /* parts of CSV meet where a row begins */
        first.end = second.begin = input.format == GY_RECORDS_CSV
                                       ? GY_MIN(whole.row, (uint64_t)input.size_bytes)
                                       : middle;
        gy_status part = gy_input_visit(&first, see, &parts);
        part = part == GY_OK ? gy_input_visit(&second, see, &parts) : part;
        GY_ASSERT(part == status && (status != GY_OK || is_same(&whole, &parts)));
    }
    rest from = {input.data, input.size_bytes};
    const gy_status stream = gy_input_visit_stream(&input, fill, &from, see, &streamed);
    GY_ASSERT(stream == status || stream == GY_LIMIT);
    GY_ASSERT(stream != GY_OK || is_same(&whole, &streamed));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEAD_BYTES) {
        return 0;
    }
    const size_t left = size - HEAD_BYTES;
    char *copy = gy_alloc("fuzz", left);
    if (copy == NULL) {
        return 0;
    }
    memcpy(copy, data + HEAD_BYTES, left);
    gy_input input = {.path = "fuzz",
                      .data = copy,
                      .size_bytes = left,
                      .end = UINT64_MAX,
                      .format = (gy_record_format)(data[0] % FORMATS),
                      .line_end = (gy_line_end)(data[0] / FORMATS % 3),
                      .record_bytes = RECORD_BYTES,
                      .delimiter = ',',
                      .record_most = (size_t)data[2] + GY_FORMAT_HEAD_BYTES};
    if (input.line_end != GY_LINE_END_LF) { /* what ends lines is seen in so much at once */
        input.record_most = GY_INPUT_LOOK_BYTES;
    }
    const seen nothing = {
        .file = copy, .size = left, .format = input.format, .line_end = input.line_end};
    if (!gy_store_format_is_packed(GY_ENCODING_AUTO, copy, left)) {
        compare(input, data[1] * left / UINT8_MAX, &nothing);
    }
    gy_free(copy);
    return 0;
}
