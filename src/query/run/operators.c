/* Operators of a plan as sources of frames. */
#include "query/run/run.h"

#include <string.h>

static gy_status open_node(gy_query_run *run, const gy_query_node *node,
                           gy_query_stream *stream);

/* ---- Memory ---- */

static bool is_keeping(const gy_query_node *node)
{
    return node->kind == GY_QUERY_JOIN || node->kind == GY_QUERY_AGGREGATE ||
           node->kind == GY_QUERY_SORT || node->kind == GY_QUERY_SET ||
           node->kind == GY_QUERY_APPLY;
}

static int count_keeping(const gy_query_node *node)
{
    return node == NULL ? 0
                        : (is_keeping(node) ? 1 : 0) + count_keeping(node->left) +
                              count_keeping(node->right);
}

gy_rows_limits gy_query_run_share(const gy_query_run *run)
{
    GY_ASSERT(run->keeping > 0);
    return (gy_rows_limits){.memory_bytes = run->memory_bytes / (uint64_t)run->keeping,
                            .spill_folder = run->scratch,
                            .engine = run->engine};
}

static gy_rows_limits limits_of(const gy_query_run *run, const gy_query_node *node)
{
    gy_rows_limits share = gy_query_run_share(run);
    share.counts = &run->meters[node->number].counts;
    return share;
}

/* Indices of columns in the rows of an operator. NULL: GY_NOMEM */
static int *indices(gy_query_run *run, const gy_query_node *of, const uint32_t *columns,
                    uint32_t count)
{
    int *made = gy_arena_alloc(&run->arena, (count + 1) * sizeof(*made));
    for (uint32_t i = 0; made != NULL && i < count; i++) {
        made[i] = gy_query_index(of, columns[i]);
        GY_ASSERT(made[i] >= 0);
    }
    return made;
}

/* The operator's source takes the input's; on failure that is closed by whom it was given to.
 */
static void replace(gy_query_stream *stream, gy_status status, gy_frame_source source,
                    gy_schema *schema)
{
    gy_schema_drop(stream->schema);
    *stream = status == GY_OK ? (gy_query_stream){.source = source, .schema = schema}
                              : (gy_query_stream){.schema = NULL};
}

/* ---- Aggregates ---- */

static gy_rows_aggregate_kind kind_of(const char *function)
{
    static const struct {
        const char *name;
        gy_rows_aggregate_kind kind;
    } kinds[] = {
#define GY_X(name, value, text) {text, GY_ROWS_##name},
        GY_ROWS_AGGREGATE_LIST(GY_X)
#undef GY_X
    };
    for (size_t i = 0; i < GY_COUNT(kinds); i++) {
        if (strcmp(kinds[i].name, function) == 0) {
            return kinds[i].kind;
        }
    }
    gy_panic("an aggregate %s", function);
}

static gy_rows_aggregate_of aggregate_of(const gy_query_run *run, const gy_query_aggregate *one,
                                         const gy_query_node *below)
{
    const gy_query_function *own = gy_query_function_find(run->plan->functions, one->function);
    gy_rows_aggregate_of made = {
        .kind = own != NULL ? GY_ROWS_OWN : kind_of(one->function),
        .column = one->input != GY_QUERY_NONE ? gy_query_index(below, one->input) : 0,
        .is_distinct = one->is_distinct,
        .own = own};
    GY_ASSERT(one->more_count < GY_FUNCTION_PARAMETERS_MAX);
    for (uint32_t k = 0; k < one->more_count; k++) {
        made.more[k] = gy_query_index(below, one->more[k]);
    }
    return made;
}

/* The field of an aggregate's column; count(*) has none. */
static gy_field field_of(const gy_query_plan *plan, uint32_t column)
{
    if (column == GY_QUERY_NONE) {
        return (gy_field){.name = "", .kind = GY_FIELD_INT64};
    }
    const gy_expr_type *type = &plan->columns[column].type;
    const bool is_decimal = type->kind == GY_FIELD_DECIMAL;
    return (gy_field){.name = "",
                      .kind = type->kind,
                      .precision = is_decimal ? type->precision : 0,
                      .scale = is_decimal ? type->scale : 0};
}

/* States stand behind the keys. */
static void place_states(const gy_query_run *run, const gy_query_node *node,
                         gy_rows_aggregate_of *aggregates, int *keys)
{
    int column = (int)node->group_count;
    for (int i = 0; i < column; i++) {
        keys[i] = i;
    }
    for (uint32_t i = 0; i < node->count - node->group_count; i++) {
        gy_rows_aggregate_of *one = &aggregates[i];
        one->column = column;
        one->field = field_of(run->plan, node->aggregates[i].input);
        column += gy_rows_state_columns(one, &one->field);
    }
}

gy_status gy_query_aggregate_rows(gy_query_run *run, const gy_query_node *node,
                                  const gy_query_node *below, gy_rows_phase phase,
                                  gy_query_stream *stream)
{
    const uint32_t count = node->count - node->group_count;
    gy_frame_source source = {.next = NULL};
    gy_schema *schema = NULL;
    gy_rows_aggregate_of *aggregates =
        gy_arena_alloc(&run->arena, (count + 1) * sizeof(*aggregates));
    int *keys = indices(run, below, node->columns, node->group_count);
    if (aggregates == NULL || keys == NULL) {
        gy_query_stream_close(stream);
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        aggregates[i] = aggregate_of(run, &node->aggregates[i], below);
        aggregates[i].name = run->plan->columns[node->columns[node->group_count + i]].name;
    }
    if (phase == GY_ROWS_MERGE || phase == GY_ROWS_FINAL) {
        place_states(run, node, aggregates, keys);
    }
    const gy_rows_aggregate_options options = {.keys = keys,
                                               .key_count = (int)node->group_count,
                                               .aggregates = aggregates,
                                               .aggregate_count = (int)count,
                                               .phase = phase,
                                               .is_passing = phase == GY_ROWS_PARTIAL,
                                               .limits = limits_of(run, node)};
    const gy_status status =
        phase == GY_ROWS_WHOLE
            ? gy_parallel_aggregate(stream->source, stream->schema, &options, &source, &schema)
            : gy_rows_aggregate(stream->source, stream->schema, &options, &source, &schema);
    replace(stream, status, source, schema);
    return status;
}

/* ---- Joins ---- */

typedef struct pairs {
    const gy_expr *condition;
    gy_schema *schema; /* of the mask */
} pairs;

static gy_status keep_pairs(void *arg, const gy_frame *frame, gy_frame **mask)
{
    const pairs *in = arg;
    return gy_expr_project(&in->condition, 1, in->schema, frame, mask);
}

/* The test of pairs lives as long as the run. */
static gy_status pairs_of(gy_query_run *run, const gy_query_node *node, pairs **made)
{
    const gy_field mask = {.name = "is_kept", .kind = GY_FIELD_BOOL};
    *made = NULL;
    if (node->condition_count == 0) {
        return GY_OK;
    }
    *made = gy_arena_alloc(&run->arena, sizeof(**made));
    if (*made == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_query_bind_conditions(run, node, node->left, node->right, &(*made)->condition));
    if (run->mask == NULL) {
        GY_TRY(gy_schema_new(&mask, 1, &run->mask));
    }
    (*made)->schema = run->mask;
    return GY_OK;
}

static const gy_rows_join_kind join_kinds[] = {
    [GY_QUERY_INNER] = GY_ROWS_JOIN_INNER,     [GY_QUERY_LEFT] = GY_ROWS_JOIN_LEFT,
    [GY_QUERY_RIGHT] = GY_ROWS_JOIN_RIGHT,     [GY_QUERY_FULL] = GY_ROWS_JOIN_FULL,
    [GY_QUERY_SEMI] = GY_ROWS_JOIN_SEMI,       [GY_QUERY_ANTI] = GY_ROWS_JOIN_ANTI,
    [GY_QUERY_ANTI_NULL] = GY_ROWS_JOIN_NOT_IN};

/* What comes out: columns of the left side, then of the right one. NULL: GY_NOMEM */
static int *join_columns(gy_query_run *run, const gy_query_node *node)
{
    int *made = gy_arena_alloc(&run->arena, (node->count + 1) * sizeof(*made));
    for (uint32_t i = 0; made != NULL && i < node->count; i++) {
        made[i] = gy_query_index(node->left, node->columns[i]);
        if (made[i] < 0) {
            made[i] = (int)node->left->count + gy_query_index(node->right, node->columns[i]);
        }
    }
    return made;
}

bool gy_query_builds_left(const gy_query_node *join)
{
    return join->join != GY_QUERY_ANTI_NULL && join->left->rows < join->right->rows;
}

static gy_status join_options(gy_query_run *run, const gy_query_node *node,
                              gy_rows_match_options *options)
{
    pairs *test = NULL;
    GY_TRY(pairs_of(run, node, &test));
    *options = (gy_rows_match_options){
        .kind = join_kinds[node->join],
        .left_keys = indices(run, node->left, node->left_keys, node->key_count),
        .right_keys = indices(run, node->right, node->right_keys, node->key_count),
        .key_count = (int)node->key_count,
        .builds_left = gy_query_builds_left(node),
        .keep = test != NULL ? keep_pairs : NULL,
        .keep_arg = test,
        .columns = join_columns(run, node),
        .column_count = (int)node->count,
        .limits = limits_of(run, node)};
    return options->left_keys != NULL && options->right_keys != NULL && options->columns != NULL
               ? GY_OK
               : GY_NOMEM;
}

static gy_status join(gy_query_run *run, const gy_query_node *node, gy_query_stream *stream,
                      gy_query_stream *right)
{
    gy_rows_match_options options;
    gy_frame_source source = {.next = NULL};
    gy_schema *schema = NULL;
    gy_status status = join_options(run, node, &options);
    if (status != GY_OK) {
        gy_query_stream_close(stream);
        gy_query_stream_close(right);
        return status;
    }
    status =
        gy_parallel_join((gy_rows_side){.source = stream->source, .schema = stream->schema},
                         (gy_rows_side){.source = right->source, .schema = right->schema},
                         &options, &source, &schema);
    gy_schema_drop(right->schema);
    *right = (gy_query_stream){.schema = NULL};
    replace(stream, status, source, schema);
    return status;
}

/* ---- Order, limit, sets ---- */

static gy_status limit(const gy_query_node *node, gy_query_stream *stream)
{
    gy_frame_source source = {.next = NULL};
    gy_schema *schema = NULL;
    const gy_status status = gy_rows_slice(stream->source, stream->schema, node->offset,
                                           node->limit, &source, &schema);
    replace(stream, status, source, schema);
    return status;
}

static gy_status sort(gy_query_run *run, const gy_query_node *node, gy_query_stream *stream)
{
    gy_frame_source source = {.next = NULL};
    gy_schema *schema = NULL;
    gy_rows_sort_key *keys = gy_arena_alloc(&run->arena, (node->key_count + 1) * sizeof(*keys));
    if (keys == NULL) {
        gy_query_stream_close(stream);
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < node->key_count; i++) {
        keys[i] = (gy_rows_sort_key){.column = gy_query_index(node->left, node->keys[i].column),
                                     .is_descending = node->keys[i].is_descending,
                                     .nulls_first = node->keys[i].has_nulls_first};
    }
    const bool is_top = node->limit >= 0 && node->limit < INT64_MAX - node->offset;
    const gy_rows_sort_options options = {.keys = keys,
                                          .key_count = (int)node->key_count,
                                          .limit = is_top ? node->limit + node->offset : -1,
                                          .limits = limits_of(run, node)};
    const gy_status status =
        gy_rows_sort(stream->source, stream->schema, &options, &source, &schema);
    replace(stream, status, source, schema);
    return status != GY_OK || (node->limit < 0 && node->offset == 0) ? status
                                                                     : limit(node, stream);
}

static gy_status set(gy_query_run *run, const gy_query_node *node, gy_query_stream *stream,
                     gy_query_stream *right)
{
    gy_frame_source source = {.next = NULL};
    gy_schema *schema = NULL;
    const gy_rows_side sides[2] = {{.source = stream->source, .schema = stream->schema},
                                   {.source = right->source, .schema = right->schema}};
    const gy_rows_limits limits = limits_of(run, node);
    gy_status status = GY_OK;
    if (node->set == GY_SQL_UNION) {
        status = gy_rows_chain(sides, 2, &source, &schema);
    } else {
        const gy_rows_set_kind kind =
            node->set == GY_SQL_INTERSECT
                ? (node->is_all ? GY_ROWS_INTERSECT_ALL : GY_ROWS_INTERSECT)
                : (node->is_all ? GY_ROWS_EXCEPT_ALL : GY_ROWS_EXCEPT);
        status = gy_rows_set(sides[0], sides[1], kind, &limits, &source, &schema);
    }
    gy_schema_drop(right->schema);
    *right = (gy_query_stream){.schema = NULL};
    replace(stream, status, source, schema);
    return status;
}

/* ---- Operators ---- */

/* Filters and projections one above the other, down to a scan if there is one. */
static gy_status row_wise(gy_query_run *run, const gy_query_node *node, gy_query_stream *stream)
{
    gy_query_step steps[GY_QUERY_STEPS_MAX] = {{.node = NULL}};
    const gy_query_node *chain[GY_QUERY_STEPS_MAX];
    int count = 0;
    gy_status status = GY_OK;
    while (count < GY_QUERY_STEPS_MAX &&
           (node->kind == GY_QUERY_FILTER || node->kind == GY_QUERY_PROJECT)) {
        chain[count++] = node;
        node = node->left;
    }
    for (int i = 0; i < count && status == GY_OK; i++) {
        status = gy_query_step_of(run, chain[count - 1 - i], &steps[i]);
    }
    const bool is_scan = node->kind == GY_QUERY_SCAN && run->open_leaf == NULL;
    if (status == GY_OK && !is_scan) {
        status = open_node(run, node, stream);
    }
    if (status != GY_OK) {
        for (int i = 0; i < count; i++) {
            gy_schema_drop(steps[i].schema);
        }
        return status;
    }
    return is_scan ? gy_query_scan_steps(run, node, steps, count, stream)
                   : gy_query_steps_stream(run, steps, count, stream);
}

static gy_status open_two(gy_query_run *run, const gy_query_node *node, gy_query_stream *stream)
{
    gy_query_stream right = {.schema = NULL};
    GY_TRY(open_node(run, node->left, stream));
    const gy_status status = open_node(run, node->right, &right);
    if (status != GY_OK) {
        gy_query_stream_close(stream);
        return status;
    }
    return node->kind == GY_QUERY_JOIN ? join(run, node, stream, &right)
                                       : set(run, node, stream, &right);
}

static gy_status open_one(gy_query_run *run, const gy_query_node *node, gy_query_stream *stream)
{
    GY_TRY(open_node(run, node->left, stream));
    switch ((int)node->kind) {
    case GY_QUERY_AGGREGATE:
        return gy_query_aggregate_rows(run, node, node->left, GY_ROWS_WHOLE, stream);
    case GY_QUERY_SORT:
        return sort(run, node, stream);
    case GY_QUERY_LIMIT:
        return limit(node, stream);
    case GY_QUERY_CHECK:
        return gy_query_check_stream(run, node, stream);
    case GY_QUERY_APPLY:
        return gy_query_apply_stream(run, node, stream);
    default:
        gy_panic("an operator of kind %d", (int)node->kind);
    }
}

static gy_status open_kind(gy_query_run *run, const gy_query_node *node,
                           gy_query_stream *stream)
{
    switch (node->kind) {
    case GY_QUERY_SCAN:
        return run->open_leaf != NULL ? run->open_leaf(run->leaf_arg, run, node, stream)
                                      : gy_query_scan_steps(run, node, NULL, 0, stream);
    case GY_QUERY_VALUES:
        return gy_query_values_stream(run, node, stream);
    case GY_QUERY_FILTER:
    case GY_QUERY_PROJECT:
        return row_wise(run, node, stream);
    case GY_QUERY_JOIN:
    case GY_QUERY_SET:
        return open_two(run, node, stream);
    case GY_QUERY_SINGLE: {
        const gy_status opened = open_node(run, node->left, stream);
        return gy_query_single_stream(run, node, opened, stream);
    }
    case GY_QUERY_AGGREGATE:
    case GY_QUERY_SORT:
    case GY_QUERY_LIMIT:
    case GY_QUERY_CHECK:
    case GY_QUERY_APPLY:
    case GY_QUERY_KINDS:
    default:
        return open_one(run, node, stream);
    }
}

static gy_status open_node(gy_query_run *run, const gy_query_node *node,
                           gy_query_stream *stream)
{
    *stream = (gy_query_stream){.schema = NULL};
    GY_TRY(open_kind(run, node, stream));
    GY_ASSERT(gy_schema_count(stream->schema) == (int)node->count);
    return gy_query_meter_stream(run, node, stream);
}

/* ---- The run ---- */

gy_status gy_query_run_init(gy_query_run *run)
{
    run->keeping = 1 + count_keeping(run->plan->root); /* and the answer */
    run->meters = gy_alloc_zero("query.meters", run->plan->node_count, sizeof(*run->meters));
    return run->meters != NULL ? GY_OK : GY_NOMEM;
}

void gy_query_run_fini(gy_query_run *run)
{
    gy_schema_drop(run->mask);
    gy_free(run->meters);
    gy_arena_free(&run->arena);
    *run = (gy_query_run){.plan = NULL};
}

gy_status gy_query_run_rows(gy_query_run *run, gy_query_stream *rows)
{
    return open_node(run, run->plan->root, rows);
}

gy_status gy_query_run_open(gy_query_run *run, gy_query_stream *answer)
{
    const gy_query_node *root = run->plan->root;
    GY_TRY(open_node(run, root, answer));
    const gy_expr **values = gy_arena_alloc(&run->arena, (root->count + 1) * sizeof(*values));
    gy_status status = values != NULL ? GY_OK : GY_NOMEM;
    for (uint32_t i = 0; i < root->count && status == GY_OK; i++) {
        gy_expr_type type = run->plan->columns[root->columns[i]].type;
        type.is_unknown = false;
        status = gy_expr_column(&run->arena, (int)i, type, &values[i]);
    }
    if (status != GY_OK) {
        gy_query_stream_close(answer);
        return status;
    }
    const gy_query_step names = {
        .node = root, .values = values, .schema = gy_schema_hold(run->plan->schema)};
    return gy_query_steps_stream(run, &names, 1, answer);
}
