/* Fuzz target: any bytes as a table of `gyre tune` give rules within their bounds, which come
 * back as they were, or a failure. */
#include "coll/coll_priv.h"

#include <string.h>

/* NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gy_tuning tuning, again;
    gy_text text = {.data = NULL};
    if (gy_tuning_parse((const char *)data, size, "fuzz", &tuning) != GY_OK) {
        return 0;
    }
#ifdef GYRE_PLANTED_BUG
    /* as if a machine's name were short */
    char *copy = gy_alloc("fuzz", 4);
    for (size_t i = 0; copy != NULL && i < strlen(tuning.machine); i++) {
        ((volatile char *)copy)[i] = tuning.machine[i];
    }
    gy_free(copy);
#endif
    for (size_t i = 0; i < tuning.count; i++) {
        const gy_rule *rule = &tuning.rules[i];
        GY_ASSERT(rule->row != NULL && rule->row->operation == rule->operation);
        GY_ASSERT(rule->ranks >= 2 && rule->hosts >= 1 && rule->hosts <= rule->ranks);
        GY_ASSERT(rule->from_bytes >= 0 && rule->seconds >= 0);
        gy_rules rules = gy_tuning_select(&tuning, rule, rule->ranks, rule->hosts);
        GY_ASSERT(gy_rules_find(rules, rule->from_bytes) == rule);
    }
    gy_tuning_print(&tuning, &text);
    GY_ASSERT(gy_tuning_parse(text.data, text.size_bytes, "again", &again) == GY_OK);
    GY_ASSERT(again.count == tuning.count);
    gy_text_free(&text);
    gy_tuning_fini(&tuning);
    gy_tuning_fini(&again);
    return 0;
}
