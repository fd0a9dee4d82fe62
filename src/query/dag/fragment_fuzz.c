/* Fuzz target: any bytes as the text of a stage are refused, or give one. */
#include "query/dag/dag_priv.h"

#include <string.h>

/* NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char begin[] = GY_FRAGMENT_MAGIC;
    gy_query_fragment fragment;
    gy_text text = {.data = NULL};
    gy_text_add_bytes(&text, begin, sizeof(begin) - 1);
    gy_text_add_bytes(&text, data, size);
    const gy_status status = gy_query_fragment_read(text.data, text.size_bytes, &fragment);
    GY_ASSERT(status == GY_OK || status == GY_FORMAT || status == GY_NOMEM);
#ifdef GYRE_PLANTED_BUG
    if (size > 4 && memcmp(data, "2 3 1", 5) == 0) { /* as if a count were believed */
        char *counted = gy_alloc("fuzz", 4);
        for (size_t i = 0; counted != NULL && i < size; i++) {
            ((volatile char *)counted)[i] = (char)data[i];
        }
        gy_free(counted);
    }
#endif
    if (status == GY_OK) {
        GY_ASSERT(fragment.stage.root != NULL && fragment.stage.sink.parts >= 1);
        gy_query_fragment_fini(&fragment);
    }
    gy_text_free(&text);
    return 0;
}
