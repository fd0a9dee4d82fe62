/* GYRE_COLL: one name for all operations that know it, or a list of `operation=name` with
 * commas. */
#include "coll/coll_priv.h"

#include <string.h>

static gy_status no_such_name(const char *name)
{
    gy_text names = {.data = NULL};
    gy_text_add(&names, "slots");
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        bool is_new = true;
        for (size_t before = 0; before < i; before++) {
            is_new = is_new && strcmp(gy_algorithms[before].name, gy_algorithms[i].name) != 0;
        }
        if (is_new) {
            gy_text_add(&names, ", %s", gy_algorithms[i].name);
        }
    }
    gy_text_add(&names, ", " GY_LIBRARY_NAME);
    gy_status status = gy_fail(GY_ARG, "no collective algorithm is called \"%s\"; there are %s",
                               name, gy_text_get(&names));
    gy_text_free(&names);
    return status;
}

static gy_status check(gy_operation operation, const char *name)
{
    GY_ASSERT(name != NULL);
    const gy_algorithm *row = NULL;
    char parameter[GY_PLAN_PARAMETER];
    return gy_row_parse(operation, name, &row, parameter);
}

/* "slots" forces nothing: tiny calls use the slots, and larger ones are chosen. */
static const char *plan_of(const char *name)
{
    GY_ASSERT(name != NULL);
    return strcmp(name, "slots") == 0 ? NULL : name;
}

/* Operations that know the name but not its parameter choose freely ("hierarchy:flat+ring": no
 * ring broadcasts). At least one operation must know both. */
static gy_status force_all(const char *name, const bool *is_given, gy_forced *forced)
{
    GY_ASSERT(name != NULL && is_given != NULL);
    bool is_known = strcmp(name, "slots") == 0;
    gy_error unfit = {.status = GY_OK};
    for (int i = 0; i < GY_OPERATION_COUNT; i++) {
        gy_operation operation = (gy_operation)i;
        if (gy_row_find(operation, name) == NULL) {
            continue;
        }
        gy_status status = check(operation, name);
        if (status < 0) {
            if (unfit.status == GY_OK) {
                gy_error_take(&unfit, status);
            }
            continue;
        }
        is_known = true;
        forced->names[i] = is_given[i] ? forced->names[i] : plan_of(name);
    }
    if (!is_known && unfit.status < 0) {
        return gy_error_raise(&unfit);
    }
    return is_known ? GY_OK : no_such_name(name);
}

static gy_status force_one(char *item, char *equals, bool *is_given, gy_forced *forced)
{
    GY_ASSERT(item != NULL && *equals == '=');
    gy_operation operation = GY_OPERATION_COUNT;
    const char *name = equals + 1;
    *equals = '\0';
    GY_TRY(gy_plan_operation_find(item, &operation));
    GY_ASSERT((unsigned)operation < GY_OPERATION_COUNT);
    if (is_given[operation]) {
        return gy_fail(GY_ARG, "%s is given twice", item);
    }
    if (strcmp(name, "slots") != 0) {
        GY_TRY(check(operation, name));
    }
    is_given[operation] = true;
    forced->names[operation] = plan_of(name);
    return GY_OK;
}

static gy_status parse(gy_forced *forced)
{
    GY_ASSERT(forced->text != NULL);
    bool is_given[GY_OPERATION_COUNT] = {false};
    char *for_all = NULL;
    for (char *item = forced->text, *next = NULL; item != NULL; item = next) {
        char *comma = strchr(item, ','), *equals = NULL;
        next = comma != NULL ? comma + 1 : NULL;
        if (comma != NULL) {
            *comma = '\0';
        }
        equals = strchr(item, '=');
        if (equals != NULL) {
            GY_TRY(force_one(item, equals, is_given, forced));
        } else if (for_all != NULL) {
            return gy_fail(GY_ARG, "\"%s\" and \"%s\": expected one name for all operations",
                           for_all, item);
        } else {
            for_all = item;
        }
    }
    return for_all != NULL ? force_all(for_all, is_given, forced) : GY_OK;
}

gy_status gy_forced_parse(const char *text, gy_forced *forced)
{
    GY_ASSERT(forced != NULL);
    *forced = (gy_forced){.hash = 0};
    if (text == NULL) {
        return GY_OK;
    }
    forced->text = gy_copy_text("coll.forced", text);
    if (forced->text == NULL) {
        return GY_NOMEM;
    }
    forced->hash = (uint32_t)gy_hash(text, strlen(text), 0) | 1;
    GY_ASSERT(forced->hash != 0);
    gy_status status = parse(forced);
    if (status < 0) {
        gy_forced_fini(forced);
    }
    return status;
}

void gy_forced_fini(gy_forced *forced)
{
    gy_free(forced->text);
    *forced = (gy_forced){.hash = 0};
}
