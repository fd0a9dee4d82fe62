/* Fuzz target: any bytes as SQL give an error that names its place, or trees whose texts read
 * to the same texts again. */
#include "query/sql/sql.h"

#include <string.h>

/* NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a tree says, read again. Its brackets may be too many. */
static void read_again(const gy_text *first)
{
    gy_sql_report report = {.status = GY_OK};
    const gy_sql_source source = {
        .path = "again", .text = first->data, .size = first->size_bytes, .report = &report};
    gy_sql_script script;
    gy_text again = {.data = NULL};
    const gy_status status = gy_sql_read(&source, &script);
    GY_ASSERT(status == GY_OK || status == GY_LIMIT);
    if (status == GY_OK) {
        GY_ASSERT(script.count == 1);
        gy_sql_print(&script.statements[0], &again);
        GY_ASSERT(strcmp(first->data, again.data) == 0);
    }
    gy_text_free(&again);
    gy_sql_script_fini(&script);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gy_sql_report report = {.status = GY_OK};
    const gy_sql_source source = {
        .path = "fuzz", .text = (const char *)data, .size = size, .report = &report};
    gy_sql_script script;
    if (gy_sql_read(&source, &script) != GY_OK) {
        GY_ASSERT(report.status < 0 && strncmp(report.text, "fuzz:", 5) == 0);
        gy_sql_script_fini(&script);
        return 0;
    }
    for (uint32_t i = 0; i < script.count; i++) {
        gy_text text = {.data = NULL};
        gy_sql_print(&script.statements[i], &text);
#ifdef GYRE_PLANTED_BUG
        /* as if a view's name were short */
        char *name = gy_alloc("fuzz", 4);
        const char *view = script.statements[i].view.name.text;
        for (size_t k = 0; name != NULL && view != NULL && k <= strlen(view); k++) {
            ((volatile char *)name)[k] = view[k];
        }
        gy_free(name);
#endif
        read_again(&text);
        gy_text_free(&text);
    }
    gy_sql_script_fini(&script);
    return 0;
}
