/* Fuzz target: any bytes as CSV give the same rows or a failure in order, cut by cut, by any
 * instruction set and gzip aside; what was read and written is read the same. The first byte:
 * cuts, delimiter, header.
 */
#include "frame/csv/csv_priv.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A digest of rows, whatever frames they come in. */
static uint64_t digest_frame(const gy_frame *frame, uint64_t digest)
{
    const int columns = gy_schema_count(gy_frame_schema(frame));
    for (int64_t row = 0; row < gy_frame_rows(frame); row++) {
        for (int i = 0; i < columns; i++) {
            const gy_column column = gy_frame_column(frame, i);
            char value[GY_FRAME_VALUE_BYTES] = "null";
            if (gy_column_is_null(&column, row)) {
                digest = gy_hash(value, 4, digest);
            } else if (column.field->kind == GY_FIELD_TEXT) {
                const gy_text_view text = gy_column_text(&column, row);
                digest = gy_hash(text.data, text.size_bytes, digest + 1);
#ifdef GYRE_PLANTED_BUG
                char *small = gy_alloc("fuzz", 4); /* too small for longer texts */
                for (size_t k = 0; small != NULL && k < text.size_bytes; k++) {
                    ((volatile char *)small)[k] = text.data[k];
                }
                gy_free(small);
#endif
            } else {
                digest = gy_hash(value, gy_frame_write(&column, row, value), digest + 2);
            }
        }
    }
    return digest;
}

static gy_status read_in_order(gy_csv *csv, uint64_t *digest)
{
    gy_frame *frame = NULL;
    gy_status status = GY_OK;
    while ((status = gy_csv_next(csv, &frame)) == GY_OK) {
        *digest = digest_frame(frame, *digest);
        gy_frame_drop(frame);
    }
    return status == GY_DONE ? GY_OK : status;
}

static gy_status read_cuts(gy_csv *csv, uint64_t *digest)
{
    GY_TRY(gy_csv_split(csv, NULL));
    for (int64_t cut = 0; cut < gy_csv_cut_count(csv); cut++) {
        gy_frame *frame = NULL;
        GY_TRY(gy_csv_read_cut(csv, cut, &frame));
        *digest = digest_frame(frame, *digest);
        gy_frame_drop(frame);
    }
    return GY_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    const uint8_t head = data[0];
    const gy_csv_options options =
        GY_OPTIONS(gy_csv_options, .cut_bytes = (size_t)64 << (head & 3),
                   .delimiter = ",;\t|"[head >> 2 & 3], .has_no_header = (head & 16) != 0,
                   .sample_bytes = 100);
    char *copy = gy_alloc("fuzz", size - 1); /* so that a read past it is seen */
    gy_csv *csv = NULL;
    if (copy == NULL) {
        return 0;
    }
    memcpy(copy, data + 1, size - 1);
    uint64_t digests[2] = {0, 0};
    if (gy_csv_open_memory(copy, size - 1, "fuzz", &options, &csv) == GY_OK) {
        if (gy_csv_retype(csv, NULL) == GY_OK) { /* every row was seen: no failure is left */
            const gy_status in_order = read_in_order(csv, &digests[0]);
            GY_ASSERT(in_order == GY_OK);
            const gy_status in_cuts = read_cuts(csv, &digests[1]);
            GY_ASSERT(in_cuts == GY_OK || in_cuts == GY_UNSUPPORTED);
            GY_ASSERT(in_cuts != GY_OK || digests[0] == digests[1]);
        } else {
            /* a value outside its guessed type comes first, or the same failure */
            GY_ASSERT(read_in_order(csv, &digests[0]) < 0);
        }
    }
    gy_csv_close(csv);
    gy_free(copy);
    return 0;
}
