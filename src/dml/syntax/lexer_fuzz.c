/* Fuzz target: the tokens of any bytes lie within them, in order, and do not overlap. */
#include "dml/syntax/syntax.h"

/* NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gy_dml_report report = {.status = GY_OK};
    char *copy = gy_alloc("fuzz", size); /* of its size, so that a read past it is seen */
    if (copy == NULL) {
        return 0;
    }
    for (size_t i = 0; i < size; i++) {
        copy[i] = (char)data[i];
    }
    const gy_dml_source source = {
        .path = "fuzz", .text = copy, .size = size, .report = &report};
    gy_dml_tokens tokens = {.items = NULL};
    const gy_status status = gy_dml_lex(&source, &tokens);
    GY_ASSERT((status == GY_OK) == (report.status == GY_OK));
    size_t at = 0;
    for (size_t i = 0; i < tokens.count; i++) {
        const gy_dml_token *token = &tokens.items[i];
        GY_ASSERT(token->place >= at && token->end >= token->place && token->end <= size);
#ifdef GYRE_PLANTED_BUG
        /* as if texts were short */
        char *text = gy_alloc("fuzz", 4);
        for (size_t k = token->place;
             text != NULL && token->kind == GY_DML_TOKEN_STRING && k < token->end; k++) {
            ((volatile char *)text)[k - token->place] = copy[k];
        }
        gy_free(text);
#endif
        at = token->end;
    }
    GY_ASSERT(status != GY_OK || tokens.items[tokens.count - 1].kind == GY_DML_TOKEN_END);
    gy_free(tokens.items);
    gy_free(copy);
    return 0;
}
