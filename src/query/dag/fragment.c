/*
 * A stage as a text: numbers, and texts with their lengths, one behind the other. Columns are
 * numbered by where they first stand, places and guesses are left out, so that what vertices do
 * alone decides what the text is.
 */
#include "query/dag/dag_priv.h"

#include <string.h>

typedef struct writer {
    const gy_query_stage *stage;
    gy_text *text;
    uint32_t *numbers; /* (column_count) of columns in the text; GY_QUERY_NONE */
    uint32_t *columns; /* (used) of the plan */
    uint32_t used;
    const gy_query_functions *functions; /* of the program; NULL: none */
    const gy_query_function **called;    /* (called_count) in the order of their first calls */
    uint32_t called_count;
} writer;

static void put(writer *to, int64_t number)
{
    gy_text_add(to->text, "%lld ", (long long)number);
}

static void put_text(writer *to, const char *text)
{
    put(to, text != NULL ? (int64_t)strlen(text) : -1);
    if (text != NULL) {
        gy_text_add_bytes(to->text, text, strlen(text));
        gy_text_add(to->text, " ");
    }
}

static void put_column(writer *to, uint32_t column)
{
    if (column == GY_QUERY_NONE) {
        put(to, -1);
        return;
    }
    if (to->numbers[column] == GY_QUERY_NONE) {
        to->columns[to->used] = column;
        to->numbers[column] = to->used++;
    }
    put(to, to->numbers[column]);
}

static void put_columns(writer *to, const uint32_t *columns, uint32_t count)
{
    put(to, count);
    for (uint32_t i = 0; i < count; i++) {
        put_column(to, columns[i]);
    }
}

static void put_keys(writer *to, const gy_query_key *keys, uint32_t count)
{
    put(to, count);
    for (uint32_t i = 0; i < count; i++) {
        put_column(to, keys[i].column);
        put(to, (keys[i].is_descending ? 1 : 0) | (keys[i].has_nulls_first ? 2 : 0));
    }
}

/* A name of a function: those of the program are listed with their versions. */
static void see_function(writer *to, const char *name)
{
    const gy_query_function *own = gy_query_function_find(to->functions, name);
    for (uint32_t i = 0; i < to->called_count && own != NULL; i++) {
        own = to->called[i] != own ? own : NULL;
    }
    if (own != NULL) {
        to->called[to->called_count++] = own;
    }
}

/* ---- Expressions ---- */

static void put_value(writer *to, const gy_sql_node *node)
{
    GY_ASSERT(node->select == NULL);
    put(to, (int64_t)node->kind);
    if (node->kind == GY_SQL_COLUMN) {
        put_column(to, node->column);
        return;
    }
    put(to, (node->is_not ? GY_FRAGMENT_NOT : 0) |
                (node->is_distinct ? GY_FRAGMENT_DISTINCT : 0) |
                (node->is_star ? GY_FRAGMENT_STAR : 0));
    put_text(to, node->text);
    if (node->kind == GY_SQL_CALL) {
        see_function(to, node->text);
    }
    put(to, node->modifier_count);
    for (int i = 0; i < node->modifier_count; i++) {
        put(to, node->modifiers[i]);
    }
    put(to, node->count);
    for (uint32_t i = 0; i < node->count; i++) {
        put_value(to, node->items[i]);
    }
}

static void put_values(writer *to, gy_sql_node *const *values, size_t count)
{
    put(to, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        put_value(to, values[i]);
    }
}

/* ---- Operators ---- */

static void put_aggregates(writer *to, const gy_query_node *node)
{
    put(to, node->group_count);
    for (uint32_t i = 0; i < node->count - node->group_count; i++) {
        see_function(to, node->aggregates[i].function);
        put_text(to, node->aggregates[i].function);
        put_column(to, node->aggregates[i].input);
        put(to, node->aggregates[i].is_distinct ? 1 : 0);
        put_columns(to, node->aggregates[i].more, node->aggregates[i].more_count);
    }
}

static void put_scan(writer *to, const gy_query_node *node)
{
    const gy_query_stage *stage = to->stage;
    uint32_t input = 0;
    while (input < stage->input_count && &stage->inputs[input]->leaf != node->table) {
        input++;
    }
    const bool is_table = input == stage->input_count;
    GY_ASSERT(!is_table || node->table == stage->table);
    put(to, is_table ? -1 : (int64_t)input);
    for (uint32_t i = 0; i < node->count; i++) {
        put(to, node->fields[i]);
        if (is_table) {
            put_text(to, gy_schema_field(node->table->schema, node->fields[i])->name);
        }
    }
}

static void put_join(writer *to, const gy_query_node *node)
{
    put(to, (int64_t)node->join);
    put(to, gy_query_builds_left(node) ? 1 : 0);
    put_columns(to, node->left_keys, node->key_count);
    put_columns(to, node->right_keys, node->key_count);
    put_values(to, node->conditions, node->condition_count);
}

static void put_apply(writer *to, const gy_query_node *node)
{
    see_function(to, node->function);
    put_text(to, node->function);
    put_columns(to, node->arguments, node->argument_count);
    put(to, node->group_count);
    put_keys(to, node->keys, node->key_count);
}

static void put_own(writer *to, const gy_query_node *node)
{
    switch (node->kind) {
    case GY_QUERY_SCAN:
        put_scan(to, node);
        break;
    case GY_QUERY_VALUES:
        put(to, node->row_count);
        put_values(to, node->values, (size_t)node->row_count * node->count);
        break;
    case GY_QUERY_FILTER:
        put_values(to, node->conditions, node->condition_count);
        break;
    case GY_QUERY_PROJECT:
        put_values(to, node->values, node->count);
        break;
    case GY_QUERY_JOIN:
        put_join(to, node);
        break;
    case GY_QUERY_AGGREGATE:
        put_aggregates(to, node);
        break;
    case GY_QUERY_SORT:
    case GY_QUERY_LIMIT:
        put_keys(to, node->keys, node->kind == GY_QUERY_SORT ? node->key_count : 0);
        put(to, node->limit);
        put(to, node->offset);
        break;
    case GY_QUERY_SET:
        put(to, (int64_t)node->set);
        put(to, node->is_all ? 1 : 0);
        break;
    case GY_QUERY_CHECK:
        put_column(to, node->checked);
        break;
    case GY_QUERY_APPLY:
        put_apply(to, node);
        break;
    case GY_QUERY_SINGLE:
    case GY_QUERY_KINDS:
    default:
        GY_ASSERT(node->kind == GY_QUERY_SINGLE);
    }
}

static void put_node(writer *to, const gy_query_node *node)
{
    put(to, (int64_t)node->kind);
    put_columns(to, node->columns, node->count);
    put_own(to, node);
    put(to, (node->left != NULL ? 1 : 0) + (node->right != NULL ? 1 : 0));
    if (node->left != NULL) {
        put_node(to, node->left);
    }
    if (node->right != NULL) {
        put_node(to, node->right);
    }
}

/* ---- Ends ---- */

/* The groups' columns and the answers', then what they are of. */
static void put_states(writer *to, const gy_query_node *node)
{
    put(to, node != NULL ? 1 : 0);
    if (node != NULL) {
        put_columns(to, node->columns, node->count);
        put_aggregates(to, node);
    }
}

static void put_input(writer *to, const gy_query_input *input)
{
    put_columns(to, input->columns, input->count);
    put_keys(to, input->keys, input->key_count);
    put_states(to, input->aggregate);
    put_column(to, input->ordinal);
}

static void put_sink(writer *to, const gy_query_sink *sink)
{
    put(to, (int64_t)sink->kind);
    put(to, sink->parts);
    put_columns(to, sink->keys, sink->key_count);
    put_states(to, sink->aggregate);
    put_column(to, sink->ordinal);
    put_keys(to, sink->order, sink->order_count);
    put(to, (int64_t)sink->heat);
    put(to, sink->kind == GY_QUERY_RANGED || sink->heat != GY_QUERY_COOL ? sink->chosen : 0);
    put(to, sink->ranges);
}

static void put_reading(writer *to, const gy_query_reading *reading)
{
    put_text(to, reading->columns);
    put_text(to, reading->empties);
    put_text(to, reading->null_text);
    put(to, reading->is_part ? 0 : reading->skip_lines);
    put(to, reading->delimiter);
    put(to, (reading->has_no_header ? GY_FRAGMENT_NO_HEADER : 0) |
                (reading->is_part ? GY_FRAGMENT_PART : 0) |
                (reading->is_found ? GY_FRAGMENT_FOUND : 0) |
                (reading->has_all ? GY_FRAGMENT_ALL : 0));
    put(to, (int64_t)reading->sample_bytes);
    put(to, (int64_t)reading->memory_bytes);
}

static void put_functions(writer *to)
{
    put(to, to->called_count);
    for (uint32_t i = 0; i < to->called_count; i++) {
        put_text(to, to->called[i]->name);
        put(to, to->called[i]->version);
    }
}

static void put_types(writer *to, const gy_query_plan *plan)
{
    put(to, to->used);
    for (uint32_t i = 0; i < to->used; i++) {
        const gy_expr_type *type = &plan->columns[to->columns[i]].type;
        const bool is_decimal = type->kind == GY_FIELD_DECIMAL;
        put(to, (int64_t)type->kind);
        put(to, is_decimal ? type->precision : 0);
        put(to, is_decimal ? type->scale : 0);
        put(to, type->is_nullable ? 1 : 0);
    }
}

void gy_query_fragment_write(const gy_query_stages *stages, const gy_query_stage *stage,
                             const gy_query_reading *reading, gy_text *text)
{
    const gy_query_functions *functions = stages->plan.functions;
    const size_t count = stages->plan.column_count + 1;
    const size_t own = functions != NULL ? (size_t)functions->count : 0;
    writer to = {.stage = stage,
                 .text = text,
                 .numbers = gy_alloc_zero("query.numbers", count, sizeof(uint32_t)),
                 .columns = gy_alloc_zero("query.numbers", count, sizeof(uint32_t)),
                 .functions = functions,
                 .called = gy_alloc_zero("query.called", own + 1, sizeof(*to.called))};
    if (to.numbers == NULL || to.columns == NULL || to.called == NULL) {
        text->status = GY_NOMEM;
    } else {
        memset(to.numbers, 0xff, count * sizeof(*to.numbers));
        gy_text_add(text, GY_FRAGMENT_MAGIC);
        put(&to, stage->input_count);
        put_node(&to, stage->root);
        for (uint32_t i = 0; i < stage->input_count; i++) {
            put_input(&to, stage->inputs[i]);
            put(&to, stage->inputs[i]->ports);
        }
        put_sink(&to, &stage->sink);
        put_reading(&to, reading);
        put_functions(&to);
        put_types(&to, &stages->plan);
    }
    gy_free(to.numbers);
    gy_free(to.columns);
    gy_free((void *)to.called);
}

/* ---- Depth ---- */

static bool value_fits(const gy_sql_node *node, int levels)
{
    for (uint32_t i = 0; i < node->count && levels > 0; i++) {
        if (!value_fits(node->items[i], levels - 1)) {
            return false;
        }
    }
    return levels > 0;
}

static bool values_fit(gy_sql_node *const *values, size_t count, int levels)
{
    for (size_t i = 0; i < count; i++) {
        if (!value_fits(values[i], levels)) {
            return false;
        }
    }
    return true;
}

static bool node_fits(const gy_query_node *node, int levels)
{
    const size_t rows = node->kind == GY_QUERY_VALUES ? node->row_count : 1;
    return levels > 0 &&
           (node->kind != GY_QUERY_VALUES && node->kind != GY_QUERY_PROJECT
                ? true
                : values_fit(node->values, rows * node->count, levels)) &&
           values_fit(node->conditions, node->condition_count, levels) &&
           (node->left == NULL || node_fits(node->left, levels - 1)) &&
           (node->right == NULL || node_fits(node->right, levels - 1));
}

/* Half: stages have operators that the plan has not. */
bool gy_query_may_decide(const gy_query_node *root)
{
    return node_fits(root, GY_QUERY_FRAGMENT_DEPTH_MAX / 2);
}

bool gy_query_stage_fits(const gy_query_stage *stage)
{
    return node_fits(stage->root, GY_QUERY_FRAGMENT_DEPTH_MAX);
}
