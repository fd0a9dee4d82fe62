/* Fuzz target: arbitrary bytes as a START, a welcome and a journal's bad record are refused or
 * decoded completely; what was decoded encodes and decodes again to the same bytes. The first
 * byte selects the kind. */
#include "base/base.h"
#include "flow/channel/fault.h"
#include "flow/channel/start.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Encode the message's contents again, which reads all of it; false when it is refused. */
static bool start_again(const void *message, size_t size, gy_text *text)
{
    gy_arena arena = {NULL};
    gy_vertex_start start;
    const gy_status status = gy_vertex_start_read(message, size, &arena, &start);
    GY_ASSERT(status == GY_OK || status == GY_FORMAT || status == GY_NOMEM);
    if (status == GY_OK) {
        gy_vertex_start_write(&start, text);
#ifdef GYRE_PLANTED_BUG
        char *small = gy_alloc("fuzz", 8); /* too small on purpose for longer parameters */
        const char *parameter = start.parameter;
        for (size_t i = 0; small != NULL && i < start.parameter_bytes; i++) {
            ((volatile char *)small)[i] = parameter[i];
        }
        gy_free(small);
#endif
    }
    gy_arena_free(&arena);
    return status == GY_OK && text->status == GY_OK;
}

static bool welcome_again(const void *message, size_t size, gy_text *text)
{
    gy_arena arena = {NULL};
    gy_welcome welcome;
    const gy_status status = gy_welcome_read(message, size, &arena, &welcome);
    GY_ASSERT(status == GY_OK || status == GY_FORMAT || status == GY_NOMEM);
    if (status == GY_OK) {
        gy_welcome_write(&welcome, text);
    }
    gy_arena_free(&arena);
    return status == GY_OK && text->status == GY_OK;
}

/* An accepted record is added to the list. */
static bool record_again(const void *message, size_t size, gy_text *text)
{
    gy_bad *bad = gy_bad_new(-1);
    const gy_status status = bad != NULL ? gy_bad_learn(bad, message, size) : GY_NOMEM;
    GY_ASSERT(status == GY_OK || status == GY_FORMAT || status == GY_NOMEM);
    if (status == GY_OK) {
        gy_bad_list(bad, text);
    }
    gy_bad_free(bad);
    return false; /* an empty list is not a record */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    bool (*again)(const void *, size_t, gy_text *) = data[0] == 0xff    ? record_again
                                                     : data[0] % 4 == 0 ? welcome_again
                                                                        : start_again;
    /* exactly so long, so that the sanitizer detects a read past the end */
    char *copy = gy_alloc("fuzz", size - 1);
    gy_text one = {.data = NULL}, two = {.data = NULL};
    if (copy != NULL) {
        memcpy(copy, data + 1, size - 1);
        if (again(copy, size - 1, &one)) {
            GY_ASSERT(again(one.data, one.size_bytes, &two));
            GY_ASSERT(one.size_bytes == two.size_bytes);
            GY_ASSERT(memcmp(one.data, two.data, one.size_bytes) == 0);
        }
    }
    gy_text_free(&one);
    gy_text_free(&two);
    gy_free(copy);
    return 0;
}
