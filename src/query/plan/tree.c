/* Trees of expressions whose columns have numbers. */
#include "query/plan/plan_priv.h"

#include <string.h>

void *gy_query_alloc(const gy_query_planner *planner, size_t count, size_t size_bytes)
{
    GY_ASSERT(size_bytes > 0);
    if (count > SIZE_MAX / size_bytes) {
        (void)gy_fail(GY_NOMEM, "a plan of %zu items", count);
        return NULL;
    }
    return gy_arena_alloc(planner->arena, count * size_bytes);
}

/* ---- Lists ---- */

static void *grown(const gy_query_planner *planner, const void *items, uint32_t count,
                   uint32_t *capacity, size_t item_bytes)
{
    const uint32_t wanted = *capacity == 0 ? 4 : 2 * *capacity;
    void *made = gy_query_alloc(planner, wanted, item_bytes);
    if (made != NULL) {
        if (count > 0) {
            memcpy(made, items, count * item_bytes);
        }
        *capacity = wanted;
    }
    return made;
}

gy_status gy_query_list_add(const gy_query_planner *planner, gy_query_list *list,
                            gy_sql_node *node)
{
    if (node == NULL) {
        return GY_NOMEM;
    }
    if (list->count == list->capacity) {
        void *items =
            grown(planner, list->items, list->count, &list->capacity, sizeof(*list->items));
        if (items == NULL) {
            return GY_NOMEM;
        }
        list->items = items;
    }
    list->items[list->count++] = node;
    return GY_OK;
}

gy_status gy_query_numbers_add(const gy_query_planner *planner, gy_query_numbers *list,
                               uint32_t number)
{
    if (list->count == list->capacity) {
        void *items =
            grown(planner, list->items, list->count, &list->capacity, sizeof(*list->items));
        if (items == NULL) {
            return GY_NOMEM;
        }
        list->items = items;
    }
    list->items[list->count++] = number;
    return GY_OK;
}

bool gy_query_has(const uint32_t *numbers, uint32_t count, uint32_t number)
{
    for (uint32_t i = 0; i < count; i++) {
        if (numbers[i] == number) {
            return true;
        }
    }
    return false;
}

gy_status gy_query_numbers_join(const gy_query_planner *planner, gy_query_numbers *list,
                                const uint32_t *numbers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!gy_query_has(list->items, list->count, numbers[i])) {
            GY_TRY(gy_query_numbers_add(planner, list, numbers[i]));
        }
    }
    return GY_OK;
}

/* ---- Nodes ---- */

gy_sql_node *gy_query_copy(const gy_query_planner *planner, const gy_sql_node *node)
{
    gy_sql_node *made = gy_query_alloc(planner, 1, sizeof(*made));
    if (made == NULL) {
        return NULL;
    }
    *made = *node;
    made->items = gy_query_alloc(planner, node->count, sizeof(gy_sql_node *));
    return made->items != NULL ? made : NULL;
}

gy_sql_node *gy_query_make(const gy_query_planner *planner, gy_sql_kind kind, uint32_t place,
                           gy_sql_node *const *items, uint32_t count)
{
    const gy_sql_node node = {.kind = kind, .place = place, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        if (items[i] == NULL) {
            return NULL;
        }
    }
    gy_sql_node *made = gy_query_copy(planner, &node);
    if (made != NULL && count > 0) {
        memcpy(made->items, items, count * sizeof(gy_sql_node *));
    }
    return made;
}

gy_sql_node *gy_query_make_column(const gy_query_planner *planner, uint32_t column,
                                  uint32_t place)
{
    GY_ASSERT(column < planner->plan->column_count);
    gy_sql_node *made = gy_query_make(planner, GY_SQL_COLUMN, place, NULL, 0);
    if (made != NULL) {
        made->column = column;
        made->text = planner->plan->columns[column].name;
    }
    return made;
}

gy_sql_node *gy_query_make_operation(const gy_query_planner *planner, const char *text,
                                     gy_sql_node *left, gy_sql_node *right)
{
    gy_sql_node *const items[2] = {left, right};
    gy_sql_node *made =
        gy_query_make(planner, GY_SQL_OPERATION, left != NULL ? left->place : 0, items, 2);
    if (made != NULL) {
        made->text = text;
    }
    return made;
}

gy_sql_node *gy_query_make_number(const gy_query_planner *planner, const char *digits,
                                  uint32_t place)
{
    gy_sql_node *made = gy_query_make(planner, GY_SQL_NUMBER, place, NULL, 0);
    if (made != NULL) {
        made->text = digits;
    }
    return made;
}

/* ---- Questions ---- */

static bool is_same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

bool gy_query_is_same(const gy_sql_node *a, const gy_sql_node *b)
{
    if (a->kind != b->kind || a->count != b->count || a->select != NULL || b->select != NULL) {
        return false;
    }
    if (a->kind == GY_SQL_COLUMN) {
        return a->column == b->column;
    }
    if (a->is_not != b->is_not || a->is_distinct != b->is_distinct ||
        a->is_star != b->is_star || a->modifier_count != b->modifier_count ||
        !is_same_text(a->text, b->text)) {
        return false;
    }
    for (int32_t i = 0; i < a->modifier_count; i++) {
        if (a->modifiers[i] != b->modifiers[i]) {
            return false;
        }
    }
    for (uint32_t i = 0; i < a->count; i++) {
        if (!gy_query_is_same(a->items[i], b->items[i])) {
            return false;
        }
    }
    return true;
}

gy_status gy_query_uses(const gy_query_planner *planner, const gy_sql_node *node,
                        gy_query_numbers *list)
{
    if (node->kind == GY_SQL_COLUMN) {
        return gy_query_numbers_join(planner, list, &node->column, 1);
    }
    for (uint32_t i = 0; i < node->count; i++) {
        GY_TRY(gy_query_uses(planner, node->items[i], list));
    }
    return GY_OK;
}

bool gy_query_uses_only(const gy_sql_node *node, const uint32_t *columns, uint32_t count)
{
    if (node->kind == GY_SQL_COLUMN) {
        return gy_query_has(columns, count, node->column);
    }
    for (uint32_t i = 0; i < node->count; i++) {
        if (!gy_query_uses_only(node->items[i], columns, count)) {
            return false;
        }
    }
    return true;
}

bool gy_query_uses_any(const gy_sql_node *node, const uint32_t *columns, uint32_t count)
{
    if (node->kind == GY_SQL_COLUMN) {
        return gy_query_has(columns, count, node->column);
    }
    for (uint32_t i = 0; i < node->count; i++) {
        if (gy_query_uses_any(node->items[i], columns, count)) {
            return true;
        }
    }
    return false;
}

bool gy_query_is_constant(const gy_sql_node *node)
{
    return gy_query_uses_only(node, NULL, 0);
}

/* ---- Changes ---- */

/* Whether a condition is that one, or has it among those that it joins by AND. */
static bool demands(const gy_sql_node *node, const gy_sql_node *one)
{
    for (uint32_t i = 0; node->kind == GY_SQL_AND && i < node->count; i++) {
        if (gy_query_is_same(node->items[i], one)) {
            return true;
        }
    }
    return gy_query_is_same(node, one);
}

/* What each branch of OR demands, the OR does: (a = b and c) or (a = b and d) has a = b. */
static gy_status split_or(const gy_query_planner *planner, const gy_sql_node *node,
                          gy_query_list *list)
{
    const gy_sql_node *first = node->items[0];
    for (uint32_t i = 0; first->kind == GY_SQL_AND && i < first->count; i++) {
        bool is_in_all = true;
        for (uint32_t j = 1; j < node->count && is_in_all; j++) {
            is_in_all = demands(node->items[j], first->items[i]);
        }
        if (is_in_all) {
            GY_TRY(gy_query_list_add(planner, list, first->items[i]));
        }
    }
    return GY_OK;
}

gy_status gy_query_split(const gy_query_planner *planner, gy_sql_node *node,
                         gy_query_list *list)
{
    if (node->kind == GY_SQL_OR) {
        GY_TRY(split_or(planner, node, list));
    }
    if (node->kind != GY_SQL_AND) {
        return gy_query_list_add(planner, list, node);
    }
    for (uint32_t i = 0; i < node->count; i++) {
        GY_TRY(gy_query_split(planner, node->items[i], list));
    }
    return GY_OK;
}

gy_status gy_query_replace(const gy_query_planner *planner, const uint32_t *columns,
                           gy_sql_node *const *values, uint32_t count, gy_sql_node **node)
{
    if (!gy_query_uses_any(*node, columns, count)) {
        return GY_OK;
    }
    if ((*node)->kind == GY_SQL_COLUMN) {
        for (uint32_t i = 0; i < count; i++) {
            if (columns[i] == (*node)->column) {
                *node = values[i];
                return GY_OK;
            }
        }
    }
    gy_sql_node *made = gy_query_copy(planner, *node);
    if (made == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < made->count; i++) {
        made->items[i] = (*node)->items[i];
        GY_TRY(gy_query_replace(planner, columns, values, count, &made->items[i]));
    }
    *node = made;
    return GY_OK;
}
