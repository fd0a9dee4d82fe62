/* The text of a stage read back. */
#include "query/dag/dag_priv.h"

#include <string.h>

#define COLUMNS_MAX (INT64_C(1) << 20) /* of a plan, and of a file */

typedef struct reader {
    const char *at, *end;
    gy_query_fragment *to;
    gy_status status; /* of the first failure; what is read then is zero */
    uint32_t columns; /* the largest number of a column, + 1 */
} reader;

static void fail(reader *from)
{
    if (from->status == GY_OK) {
        from->status =
            gy_fail(GY_FORMAT, "a text that is no stage of a query, %zu bytes before its end",
                    (size_t)(from->end - from->at));
    }
    from->at = from->end;
}

static int64_t get(reader *from, int64_t least, int64_t most)
{
    const bool is_negative = from->at < from->end && *from->at == '-';
    int64_t value = 0;
    const char *at = from->at + (is_negative ? 1 : 0);
    const char *digits = at;
    while (at < from->end && *at >= '0' && *at <= '9' && at - digits < 19) {
        if (value > (INT64_MAX - (*at - '0')) / 10) {
            fail(from);
            return least;
        }
        value = value * 10 + (*at++ - '0');
    }
    value = is_negative ? -value : value;
    if (at == digits || at == from->end || *at != ' ' || value < least || value > most) {
        fail(from);
        return least;
    }
    from->at = at + 1;
    return value;
}

static void *take(reader *from, size_t count, size_t size_bytes)
{
    void *made = gy_arena_alloc(&from->to->plan.arena, (count + 1) * size_bytes);
    if (made != NULL) {
        memset(made, 0, (count + 1) * size_bytes);
        return made;
    }
    from->status = from->status == GY_OK ? GY_NOMEM : from->status;
    from->at = from->end;
    return NULL;
}

/* How many things of at least two bytes each follow. */
static uint32_t get_count(reader *from)
{
    return (uint32_t)get(from, 0, (from->end - from->at) / 2);
}

static const char *get_text(reader *from)
{
    const int64_t size = get(from, -1, from->end - from->at);
    char *copy = size < 0 ? NULL : take(from, (size_t)size, 1);
    if (copy == NULL) {
        return NULL;
    }
    if (size >= from->end - from->at || from->at[size] != ' ' ||
        memchr(from->at, '\0', (size_t)size) != NULL) {
        fail(from);
        return copy;
    }
    memcpy(copy, from->at, (size_t)size);
    from->at += size + 1;
    return copy;
}

static uint32_t get_column(reader *from, bool may_be_none)
{
    const int64_t column = get(from, may_be_none ? -1 : 0, COLUMNS_MAX);
    if (column < 0) {
        return GY_QUERY_NONE;
    }
    from->columns = GY_MAX(from->columns, (uint32_t)column + 1);
    return (uint32_t)column;
}

static uint32_t *get_columns(reader *from, uint32_t *count)
{
    *count = get_count(from);
    uint32_t *columns = take(from, *count, sizeof(*columns));
    for (uint32_t i = 0; i < *count && columns != NULL; i++) {
        columns[i] = get_column(from, false);
    }
    return columns;
}

static gy_query_key *get_keys(reader *from, uint32_t *count)
{
    *count = get_count(from);
    gy_query_key *keys = take(from, *count, sizeof(*keys));
    for (uint32_t i = 0; i < *count && keys != NULL; i++) {
        keys[i].column = get_column(from, false);
        const int64_t flags = get(from, 0, 3);
        keys[i].is_descending = (flags & 1) != 0;
        keys[i].has_nulls_first = (flags & 2) != 0;
    }
    return keys;
}

/* ---- Expressions ---- */

static gy_sql_node *get_value(reader *from, int levels)
{
    gy_sql_node *node = take(from, 1, sizeof(*node));
    if (node == NULL || levels == 0) {
        fail(from);
        return node;
    }
    node->kind = (gy_sql_kind)get(from, 0, GY_SQL_KINDS - 1);
    if (node->kind == GY_SQL_COLUMN) {
        node->column = get_column(from, false);
        node->text = "column";
        return node;
    }
    const int64_t flags = get(from, 0, 7);
    node->is_not = (flags & GY_FRAGMENT_NOT) != 0;
    node->is_distinct = (flags & GY_FRAGMENT_DISTINCT) != 0;
    node->is_star = (flags & GY_FRAGMENT_STAR) != 0;
    node->text = get_text(from);
    node->modifier_count = (int32_t)get(from, 0, GY_COUNT(node->modifiers));
    for (int i = 0; i < node->modifier_count; i++) {
        node->modifiers[i] = (int32_t)get(from, INT32_MIN, INT32_MAX);
    }
    node->count = get_count(from);
    node->items = take(from, node->count, sizeof(*node->items));
    for (uint32_t i = 0; i < node->count && node->items != NULL && from->status == GY_OK; i++) {
        node->items[i] = get_value(from, levels - 1);
    }
    return node;
}

static gy_sql_node **get_values(reader *from, uint32_t *count)
{
    *count = get_count(from);
    gy_sql_node **values = take(from, *count, sizeof(*values));
    for (uint32_t i = 0; i < *count && values != NULL && from->status == GY_OK; i++) {
        values[i] = get_value(from, GY_QUERY_FRAGMENT_DEPTH_MAX + 1);
    }
    return values;
}

/* ---- Operators ---- */

static void get_aggregates(reader *from, gy_query_node *node)
{
    node->group_count = (uint32_t)get(from, 0, node->count);
    const uint32_t count = node->count - node->group_count;
    node->aggregates = take(from, count, sizeof(*node->aggregates));
    for (uint32_t i = 0; i < count && node->aggregates != NULL; i++) {
        node->aggregates[i].function = get_text(from);
        node->aggregates[i].input = get_column(from, true);
        node->aggregates[i].is_distinct = get(from, 0, 1) != 0;
        node->aggregates[i].more = get_columns(from, &node->aggregates[i].more_count);
        if (node->aggregates[i].more_count >= GY_FUNCTION_PARAMETERS_MAX) {
            fail(from);
        }
        if (node->aggregates[i].function == NULL) {
            fail(from);
        }
    }
}

static void get_scan(reader *from, gy_query_node *node)
{
    gy_query_stage *stage = &from->to->stage;
    const int64_t input = get(from, -1, (int64_t)stage->input_count - 1);
    node->fields = take(from, node->count, sizeof(*node->fields));
    const char **names = take(from, node->count, sizeof(*names));
    gy_query_table *table = take(from, 1, sizeof(*table));
    if (node->fields == NULL || names == NULL || table == NULL) {
        return;
    }
    for (uint32_t i = 0; i < node->count; i++) {
        node->fields[i] = (int)get(from, 0, COLUMNS_MAX);
        names[i] = input < 0 ? get_text(from) : NULL;
    }
    if (input >= 0) {
        node->table = &stage->inputs[input]->leaf;
        return;
    }
    table->name = "piece";
    node->table = table;
    stage->table = table;
    from->to->names = names;
}

static void get_join(reader *from, gy_query_node *node, bool *builds_left)
{
    uint32_t rights = 0;
    node->join = (gy_query_join)get(from, 0, GY_QUERY_ANTI_NULL);
    *builds_left = get(from, 0, 1) != 0;
    node->left_keys = get_columns(from, &node->key_count);
    node->right_keys = get_columns(from, &rights);
    node->conditions = get_values(from, &node->condition_count);
    if (rights != node->key_count) {
        fail(from);
    }
}

static void get_apply(reader *from, gy_query_node *node)
{
    node->function = get_text(from);
    node->arguments = get_columns(from, &node->argument_count);
    node->group_count = get_count(from);
    node->keys = get_keys(from, &node->key_count);
    if (node->function == NULL || node->group_count > node->key_count) {
        fail(from);
    }
}

static void get_own(reader *from, gy_query_node *node, bool *builds_left)
{
    uint32_t count = 0;
    switch (node->kind) {
    case GY_QUERY_SCAN:
        get_scan(from, node);
        break;
    case GY_QUERY_VALUES:
        node->row_count = (uint32_t)get(from, 0, INT32_MAX);
        node->values = get_values(from, &count);
        break;
    case GY_QUERY_FILTER:
        node->conditions = get_values(from, &node->condition_count);
        break;
    case GY_QUERY_PROJECT:
        node->values = get_values(from, &count);
        break;
    case GY_QUERY_JOIN:
        get_join(from, node, builds_left);
        break;
    case GY_QUERY_AGGREGATE:
        get_aggregates(from, node);
        break;
    case GY_QUERY_SORT:
    case GY_QUERY_LIMIT:
        node->keys = get_keys(from, &node->key_count);
        node->limit = get(from, -1, INT64_MAX);
        node->offset = get(from, 0, INT64_MAX);
        break;
    case GY_QUERY_SET:
        node->set = (gy_sql_set)get(from, GY_SQL_UNION, GY_SQL_EXCEPT);
        node->is_all = get(from, 0, 1) != 0;
        break;
    case GY_QUERY_CHECK:
        node->checked = get_column(from, false);
        break;
    case GY_QUERY_APPLY:
        get_apply(from, node);
        break;
    case GY_QUERY_SINGLE:
    case GY_QUERY_KINDS:
    default:
        break;
    }
    const uint64_t rows = node->kind == GY_QUERY_VALUES ? node->row_count : 1;
    if (node->values != NULL && count != rows * node->count) {
        fail(from);
    }
}

/* How many inputs an operator has. */
static int inputs_of(gy_query_kind kind)
{
    const bool is_leaf = kind == GY_QUERY_SCAN || kind == GY_QUERY_VALUES;
    return is_leaf ? 0 : kind == GY_QUERY_JOIN || kind == GY_QUERY_SET ? 2 : 1;
}

static gy_query_node *get_node(reader *from, int levels)
{
    gy_query_node *node = take(from, 1, sizeof(*node));
    bool builds_left = false;
    if (node == NULL || levels == 0) {
        fail(from);
        return node;
    }
    node->kind = (gy_query_kind)get(from, 0, GY_QUERY_KINDS - 1);
    node->columns = get_columns(from, &node->count);
    get_own(from, node, &builds_left);
    const int inputs = (int)get(from, 0, 2);
    if (inputs != inputs_of(node->kind)) {
        fail(from);
    }
    if (inputs > 0 && from->status == GY_OK) {
        node->left = get_node(from, levels - 1);
    }
    if (inputs > 1 && from->status == GY_OK) {
        node->right = get_node(from, levels - 1);
    }
    if (node->kind == GY_QUERY_JOIN && from->status == GY_OK) {
        node->left->rows = builds_left ? 0 : 1;
        node->right->rows = builds_left ? 1 : 0;
    }
    node->number = from->to->plan.node_count++;
    return node;
}

/* ---- Ends ---- */

static const gy_query_node *get_states(reader *from)
{
    if (get(from, 0, 1) == 0) {
        return NULL;
    }
    gy_query_node *node = take(from, 1, sizeof(*node));
    if (node != NULL) {
        node->kind = GY_QUERY_AGGREGATE;
        node->number = from->to->plan.node_count++;
        node->columns = get_columns(from, &node->count);
        get_aggregates(from, node);
    }
    return node;
}

static void get_input(reader *from, gy_query_input *input)
{
    input->leaf.name = "input";
    input->columns = get_columns(from, &input->count);
    input->keys = get_keys(from, &input->key_count);
    input->aggregate = get_states(from);
    input->ordinal = get_column(from, true);
    input->ports = (uint32_t)get(from, 0, INT32_MAX);
}

static void get_sink(reader *from, gy_query_sink *sink)
{
    sink->kind = (gy_query_sink_kind)get(from, 0, GY_QUERY_FOUND);
    sink->parts = (uint32_t)get(from, 1, INT32_MAX);
    sink->keys = get_columns(from, &sink->key_count);
    sink->aggregate = get_states(from);
    sink->ordinal = get_column(from, true);
    sink->order = get_keys(from, &sink->order_count);
    sink->heat = (gy_query_heat)get(from, 0, GY_QUERY_COPIED);
    sink->chosen = (uint32_t)get(from, 0, INT32_MAX);
    sink->ranges = (uint32_t)get(from, 0, INT32_MAX);
    const bool is_chosen = sink->kind == GY_QUERY_RANGED || sink->heat != GY_QUERY_COOL;
    if (is_chosen && sink->chosen >= from->to->stage.input_count) {
        fail(from);
    }
}

static void get_reading(reader *from, gy_query_reading *reading)
{
    reading->columns = get_text(from);
    reading->empties = get_text(from);
    reading->null_text = get_text(from);
    reading->skip_lines = get(from, 0, INT64_MAX);
    reading->delimiter = (char)get(from, 0, 127);
    const int64_t flags = get(from, 0, 15);
    reading->has_no_header = (flags & GY_FRAGMENT_NO_HEADER) != 0;
    reading->is_part = (flags & GY_FRAGMENT_PART) != 0;
    reading->is_found = (flags & GY_FRAGMENT_FOUND) != 0;
    reading->has_all = (flags & GY_FRAGMENT_ALL) != 0;
    reading->sample_bytes = (size_t)get(from, 0, INT64_MAX);
    reading->memory_bytes = (uint64_t)get(from, 0, INT64_MAX);
}

static void get_functions(reader *from)
{
    const uint32_t count = get_count(from);
    gy_query_called *called = take(from, count, sizeof(*called));
    for (uint32_t i = 0; i < count && called != NULL; i++) {
        called[i].name = get_text(from);
        called[i].version = (uint32_t)get(from, 0, UINT32_MAX);
        if (called[i].name == NULL) {
            fail(from);
            return;
        }
    }
    from->to->functions = called;
    from->to->function_count = called != NULL ? count : 0;
}

static void get_types(reader *from)
{
    gy_query_plan *plan = &from->to->plan;
    const uint32_t count = get_count(from);
    if (count < from->columns) {
        fail(from);
    }
    if (from->status == GY_OK && GY_GROW("query.columns", plan->columns, plan->column_capacity,
                                         (size_t)count + 1) != GY_OK) {
        from->status = GY_NOMEM;
    }
    for (uint32_t i = 0; i < count && from->status == GY_OK; i++) {
        gy_expr_type *type = &plan->columns[i].type;
        plan->columns[i] = (gy_query_column){.name = "column"};
        type->kind = (gy_field_kind)get(from, GY_FIELD_BOOL, GY_FIELD_TEXT);
        type->precision = (int)get(from, 0, GY_DECIMAL_DIGITS_MAX);
        type->scale = (int)get(from, 0, GY_DECIMAL_DIGITS_MAX);
        type->is_nullable = get(from, 0, 1) != 0;
        plan->column_count = i + 1;
    }
}

static void get_all(reader *from)
{
    gy_query_stage *stage = &from->to->stage;
    const size_t magic = strlen(GY_FRAGMENT_MAGIC);
    if ((size_t)(from->end - from->at) < magic ||
        memcmp(from->at, GY_FRAGMENT_MAGIC, magic) != 0) {
        fail(from);
        return;
    }
    from->at += magic;
    stage->input_count = get_count(from);
    stage->inputs = take(from, stage->input_count, sizeof(gy_query_input *));
    for (uint32_t i = 0; i < stage->input_count && stage->inputs != NULL; i++) {
        stage->inputs[i] = take(from, 1, sizeof(gy_query_input));
        if (stage->inputs[i] == NULL) {
            return;
        }
    }
    stage->root = get_node(from, GY_QUERY_FRAGMENT_DEPTH_MAX + 1);
    for (uint32_t i = 0; i < stage->input_count && from->status == GY_OK; i++) {
        get_input(from, stage->inputs[i]);
    }
    get_sink(from, &stage->sink);
    get_reading(from, &from->to->reading);
    get_functions(from);
    get_types(from);
    if (from->at != from->end) {
        fail(from);
    }
}

gy_status gy_query_fragment_read(const char *data, size_t size_bytes,
                                 gy_query_fragment *fragment)
{
    *fragment = (gy_query_fragment){.names = NULL};
    reader from = {.at = data, .end = data + size_bytes, .to = fragment};
    get_all(&from);
    if (from.status != GY_OK) {
        gy_query_fragment_fini(fragment);
    }
    return from.status;
}

void gy_query_fragment_fini(gy_query_fragment *fragment)
{
    gy_query_plan_fini(&fragment->plan);
    *fragment = (gy_query_fragment){.names = NULL};
}
