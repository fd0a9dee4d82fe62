/* Fuzz target: any bytes as a frame are refused, or give a frame whose bytes read to the same
 * ones again. The checksum is made to fit, so that what is behind it is reached. */
#include "base/base.h"
#include "base/hash.h"
#include "query/rows/rows.h"

#include <string.h>

enum { CHECKSUM_AT = 24, ROWS_MOST = 4096 };

/* NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A frame that was read has the bytes that it is written as. */
static void read_again(gy_schema *schema, const gy_frame *frame)
{
    gy_rows_buffer first = {.data = NULL}, second = {.data = NULL};
    gy_frame *again = NULL;
    size_t used = 0;
    GY_ASSERT(gy_rows_bytes_write(frame, &first) == GY_OK);
    GY_ASSERT(gy_rows_bytes_read(schema, first.data, first.size_bytes, &used, &again) == GY_OK);
    GY_ASSERT(used == first.size_bytes);
    GY_ASSERT(gy_rows_bytes_write(again, &second) == GY_OK);
    GY_ASSERT(first.size_bytes == second.size_bytes &&
              memcmp(first.data, second.data, first.size_bytes) == 0);
    gy_frame_drop(again);
    gy_free(first.data);
    gy_free(second.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const schemas[] = {"a int",  "a text",      "a decimal(20, 3)", "a bool",
                                          "a date", "a timestamp", "a double, b text", ""};
    if (size < 1 + 8) {
        return 0;
    }
    uint64_t rows = 0;
    gy_schema *schema = NULL;
    GY_ASSERT(gy_schema_parse(schemas[data[0] % GY_COUNT(schemas)], &schema) == GY_OK);
    memcpy(&rows, data + 1, sizeof(rows));
    rows %= ROWS_MOST;
    const size_t length = size - 9;
    char *bytes = gy_alloc("fuzz", GY_ROWS_HEAD_BYTES + length);
    GY_ASSERT(bytes != NULL);
    const uint32_t words[2] = {UINT32_C(0x31465947), (uint32_t)gy_schema_count(schema)};
    const uint64_t sizes[2] = {rows, length};
    memcpy(bytes, words, sizeof(words));
    memcpy(bytes + 8, sizes, sizeof(sizes));
    memcpy(bytes + GY_ROWS_HEAD_BYTES, data + 9, length);
    const uint64_t sum =
        gy_hash(bytes + GY_ROWS_HEAD_BYTES, length, gy_hash(bytes, CHECKSUM_AT, 0));
    memcpy(bytes + CHECKSUM_AT, &sum, sizeof(sum));
    size_t used = 0;
    gy_frame *frame = NULL;
    const gy_status status =
        gy_rows_bytes_read(schema, bytes, GY_ROWS_HEAD_BYTES + length, &used, &frame);
    GY_ASSERT(status == GY_OK || status == GY_FORMAT);
    if (status == GY_OK) {
        read_again(schema, frame);
    }
#ifdef GYRE_PLANTED_BUG
    if (status == GY_OK && gy_frame_rows(frame) > 2) { /* as if a row were lost */
        char *lost = gy_alloc("fuzz", used - 1);
        for (size_t i = 0; lost != NULL && i < used; i++) {
            ((volatile char *)lost)[i] = bytes[i];
        }
        gy_free(lost);
    }
#endif
    gy_frame_drop(frame);
    gy_free(bytes);
    gy_schema_drop(schema);
    return 0;
}
