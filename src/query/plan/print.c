/* Plans as texts. */
#include "query/plan/plan_priv.h"

static const char *name_of(const gy_query_plan *plan, uint32_t column)
{
    return plan->columns[column].name;
}

static void print_columns(const gy_query_plan *plan, const uint32_t *columns, uint32_t count,
                          gy_text *text)
{
    for (uint32_t i = 0; i < count; i++) {
        gy_text_add(text, "%s%s", i > 0 ? ", " : "", name_of(plan, columns[i]));
    }
}

static void print_conditions(const gy_query_node *node, const char *before, gy_text *text)
{
    for (uint32_t i = 0; i < node->condition_count; i++) {
        gy_text_add(text, "%s", i > 0 ? " and " : before);
        gy_sql_print_node(node->conditions[i], text);
    }
}

static void print_join(const gy_query_plan *plan, const gy_query_node *node, gy_text *text)
{
    static const char *const kinds[] = {
        [GY_QUERY_INNER] = "inner",     [GY_QUERY_LEFT] = "left", [GY_QUERY_RIGHT] = "right",
        [GY_QUERY_FULL] = "full",       [GY_QUERY_SEMI] = "semi", [GY_QUERY_ANTI] = "anti",
        [GY_QUERY_ANTI_NULL] = "not in"};
    const bool is_product = node->join == GY_QUERY_INNER && node->key_count == 0;
    gy_text_add(text, "%s join", is_product ? "cross" : kinds[node->join]);
    for (uint32_t i = 0; i < node->key_count; i++) {
        gy_text_add(text, "%s%s = %s", i > 0 ? " and " : " on ",
                    name_of(plan, node->left_keys[i]), name_of(plan, node->right_keys[i]));
    }
    print_conditions(node, " where ", text);
}

static void print_aggregate(const gy_query_plan *plan, const gy_query_node *node, gy_text *text)
{
    const uint32_t count = node->count - node->group_count;
    gy_text_add(text, count == 0 ? "distinct" : "aggregate");
    for (uint32_t i = 0; i < count; i++) {
        const gy_query_aggregate *one = &node->aggregates[i];
        gy_text_add(text, "%s%s", i > 0 ? ", " : " ", one->function);
        if (one->input != GY_QUERY_NONE) {
            gy_text_add(text, "(%s%s", one->is_distinct ? "distinct " : "",
                        name_of(plan, one->input));
            for (uint32_t k = 0; k < one->more_count; k++) {
                gy_text_add(text, ", %s", name_of(plan, one->more[k]));
            }
            gy_text_add(text, ")");
        }
    }
    gy_text_add(text, node->group_count == 0 ? "" : count > 0 ? " by " : " ");
    print_columns(plan, node->columns, node->group_count, text);
}

static void print_apply(const gy_query_plan *plan, const gy_query_node *node, gy_text *text)
{
    gy_text_add(text, "apply %s(", node->function);
    print_columns(plan, node->arguments, node->argument_count, text);
    gy_text_add(text, ")");
    for (uint32_t i = 0; i < node->key_count; i++) {
        const gy_query_key *key = &node->keys[i];
        gy_text_add(text, "%s%s%s%s",
                    i == node->group_count ? " order by "
                    : i == 0               ? " partition by "
                                           : ", ",
                    name_of(plan, key->column), key->is_descending ? " desc" : "",
                    key->has_nulls_first == key->is_descending ? ""
                    : key->has_nulls_first                     ? " nulls first"
                                                               : " nulls last");
    }
}

static void print_limit(const gy_query_node *node, gy_text *text)
{
    if (node->limit >= 0) {
        gy_text_add(text, " limit %lld", (long long)node->limit);
    }
    if (node->offset > 0) {
        gy_text_add(text, " offset %lld", (long long)node->offset);
    }
}

static void print_sort(const gy_query_plan *plan, const gy_query_node *node, gy_text *text)
{
    gy_text_add(text, "sort");
    for (uint32_t i = 0; i < node->key_count; i++) {
        const gy_query_key *key = &node->keys[i];
        gy_text_add(text, "%s%s%s%s", i > 0 ? ", " : " ", name_of(plan, key->column),
                    key->is_descending ? " desc" : "",
                    key->has_nulls_first == key->is_descending ? ""
                    : key->has_nulls_first                     ? " nulls first"
                                                               : " nulls last");
    }
    print_limit(node, text);
}

static void print_project(const gy_query_plan *plan, const gy_query_node *node, gy_text *text)
{
    gy_text_add(text, "project");
    for (uint32_t i = 0; i < node->count; i++) {
        const gy_sql_node *value = node->values[i];
        gy_text_add(text, "%s", i > 0 ? ", " : " ");
        gy_sql_print_node(value, text);
        if (value->kind != GY_SQL_COLUMN) {
            gy_text_add(text, " as %s", name_of(plan, node->columns[i]));
        }
    }
}

static void print_set(const gy_query_node *node, gy_text *text)
{
    static const char *const sets[] = {
        [GY_SQL_UNION] = "union", [GY_SQL_INTERSECT] = "intersect", [GY_SQL_EXCEPT] = "except"};
    gy_text_add(text, "%s%s", sets[node->set], node->is_all ? " all" : "");
}

void gy_query_node_print(const gy_query_plan *plan, const gy_query_node *node, gy_text *text)
{
    switch (node->kind) {
    case GY_QUERY_SCAN:
        gy_text_add(text, "scan %s: ", node->table->name);
        print_columns(plan, node->columns, node->count, text);
        break;
    case GY_QUERY_VALUES:
        gy_text_add(text, "values, %u rows", node->row_count);
        break;
    case GY_QUERY_FILTER:
        print_conditions(node, "filter ", text);
        break;
    case GY_QUERY_PROJECT:
        print_project(plan, node, text);
        break;
    case GY_QUERY_JOIN:
        print_join(plan, node, text);
        break;
    case GY_QUERY_AGGREGATE:
        print_aggregate(plan, node, text);
        break;
    case GY_QUERY_SORT:
        print_sort(plan, node, text);
        break;
    case GY_QUERY_LIMIT:
        gy_text_add(text, "cut");
        print_limit(node, text);
        break;
    case GY_QUERY_SET:
        print_set(node, text);
        break;
    case GY_QUERY_APPLY:
        print_apply(plan, node, text);
        break;
    case GY_QUERY_SINGLE:
        gy_text_add(text, "single row%s", node->count > 1 ? " or its error" : "");
        break;
    case GY_QUERY_CHECK:
        gy_text_add(text, "check %s <= 1", name_of(plan, node->checked));
        break;
    case GY_QUERY_KINDS:
    default:
        GY_ASSERT(false);
    }
}

static void print_tree(const gy_query_plan *plan, const gy_query_node *node, int depth,
                       gy_text *text)
{
    gy_text_add(text, "%*s", 2 * depth, "");
    gy_query_node_print(plan, node, text);
    gy_text_add(text, "  (about %.0f rows", node->rows);
    if (node->kind == GY_QUERY_SCAN) {
        char bytes[32];
        gy_text_add(text, ", %s", gy_text_bytes(bytes, (uint64_t)node->table->bytes));
    }
    gy_text_add(text, ")\n");
    if (node->left != NULL) {
        print_tree(plan, node->left, depth + 1, text);
    }
    if (node->right != NULL) {
        print_tree(plan, node->right, depth + 1, text);
    }
}

void gy_query_plan_print(const gy_query_plan *plan, gy_text *text)
{
    print_tree(plan, plan->root, 0, text);
}
