/* Fuzz target: any bytes as a script give an error that names its place, or a tree whose text
 * parses to the same text again. */
#include "dml/syntax/syntax.h"

#include <string.h>

/* NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void print(const char *data, size_t size, gy_text *text)
{
    gy_dml_report report = {.status = GY_OK};
    const gy_dml_source source = {
        .path = "again", .text = data, .size = size, .report = &report};
    gy_dml_program program;
    GY_ASSERT(gy_dml_parse(&source, &program) == GY_OK);
    gy_dml_print(&program, text);
    gy_dml_program_fini(&program);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gy_dml_report report = {.status = GY_OK};
    const gy_dml_source source = {
        .path = "fuzz", .text = (const char *)data, .size = size, .report = &report};
    gy_dml_program program;
    gy_text first = {.data = NULL}, again = {.data = NULL};
    if (gy_dml_parse(&source, &program) != GY_OK) {
        GY_ASSERT(report.status < 0 && strncmp(report.text, "fuzz:", 5) == 0);
        gy_dml_program_fini(&program);
        return 0;
    }
#ifdef GYRE_PLANTED_BUG
    /* as if the name of a called function were short */
    const gy_dml_node *node = program.statements;
    if (node != NULL && node->kind == GY_DML_RUN) {
        char *name = gy_alloc("fuzz", 6);
        for (size_t i = 0; name != NULL && i <= strlen(node->a->text); i++) {
            ((volatile char *)name)[i] = node->a->text[i];
        }
        gy_free(name);
    }
#endif
    gy_dml_print(&program, &first);
    gy_dml_program_fini(&program);
    if (first.size_bytes > 0) {
        print(first.data, first.size_bytes, &again);
        GY_ASSERT(strcmp(first.data, again.data) == 0);
    }
    gy_text_free(&first);
    gy_text_free(&again);
    return 0;
}
