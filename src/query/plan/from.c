/* What rows come from: tables, views, derived tables, joins. */
#include "query/plan/plan_priv.h"

#include <string.h>

enum { VIEWS_MAX = 500 };

/* Views that stand twice in each other have no end: a plan of so much uses no further one. */
enum { CELLS_MAX = 1 << 21 };

/* ---- Tables ---- */

static gy_status scan(const gy_query_resolver *in, const gy_sql_from *from,
                      gy_query_answer *answer)
{
    const gy_query_planner *planner = in->planner;
    const gy_query_table *table = from->given;
    const gy_status status =
        table != NULL ? GY_OK : planner->catalog->find(planner->catalog->arg, from, &table);
    if (status != GY_OK) {
        char why[1024];
        const char *near = from->kind == GY_SQL_FUNCTION && status == GY_NOTFOUND
                               ? gy_expr_nearest(from->call->text, planner->plan->functions)
                               : NULL;
        const bool is_value = near != NULL && strcmp(near, from->call->text) == 0;
        gy_print(why, sizeof(why), "%s%s%s%s", gy_error_text(),
                 is_value       ? "; "
                 : near != NULL ? "; is it "
                                : "",
                 near != NULL ? near : "",
                 is_value       ? " gives a value"
                 : near != NULL ? "?"
                                : "");
        return gy_sql_refuse(planner->source, from->place, status, "%s", why);
    }
    const uint32_t count = (uint32_t)gy_schema_count(table->schema);
    gy_query_node *made = gy_query_node_new(planner, GY_QUERY_SCAN, NULL, NULL, count);
    gy_sql_name *names = gy_query_alloc(planner, count, sizeof(*names));
    int *fields = gy_query_alloc(planner, count, sizeof(*fields));
    if (made == NULL || names == NULL || fields == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        const gy_field *field = gy_schema_field(table->schema, (int)i);
        const gy_expr_type type = {.kind = field->kind,
                                   .precision = field->precision,
                                   .scale = field->scale,
                                   .is_nullable = true};
        GY_TRY(gy_query_column_add(planner, field->name, &type, &made->columns[i]));
        planner->plan->columns[made->columns[i]].distinct = table->rows;
        names[i] = (gy_sql_name){.text = field->name, .is_quoted = true};
        fields[i] = (int)i;
    }
    made->table = table;
    made->fields = fields;
    made->rows = table->rows;
    *answer = (gy_query_answer){.node = made, .names = names};
    return GY_OK;
}

/* Names in parentheses behind an alias take the place of the first columns'. */
static gy_status rename_columns(const gy_query_planner *planner, const gy_sql_name *names,
                                uint32_t count, uint32_t place, const gy_query_answer *answer)
{
    GY_ASSERT(answer->node != NULL);
    if (count > answer->node->count) {
        return gy_sql_refuse(planner->source, place, GY_FORMAT,
                             "%u names for a table of %u columns", count, answer->node->count);
    }
    for (uint32_t i = 0; i < count; i++) {
        answer->names[i] = names[i];
    }
    return GY_OK;
}

/* The newest view of that name; one that differs by case only where none has it as it is. */
static const gy_query_views *find_view(const gy_query_views *views, const gy_sql_name *name)
{
    const gy_query_views *near = NULL;
    for (const gy_query_views *at = views; at != NULL; at = at->next) {
        const int match = gy_query_matches(name->text, name->is_quoted, at->view->name.text);
        if (match == 2) {
            return at;
        }
        near = near == NULL && match == 1 ? at : near;
    }
    return near;
}

gy_status gy_query_view(gy_query_planner *planner, const gy_query_views *found, uint32_t place,
                        gy_query_answer *answer)
{
    const char *name = found->view->name.text;
    if (planner->view_count == VIEWS_MAX) {
        return gy_sql_refuse(planner->source, place, GY_LIMIT,
                             "view \"%s\" uses itself, or there are more than %d views in one "
                             "another",
                             name, VIEWS_MAX);
    }
    if (planner->plan->made_cells > CELLS_MAX) {
        return gy_sql_refuse(planner->source, place, GY_LIMIT,
                             "view \"%s\": a plan of over %d columns; each use of a view plans "
                             "it once more: write what several ones use to a file first",
                             name, CELLS_MAX);
    }
    if (found->is_used != NULL) {
        *found->is_used = true;
    }
    planner->view_count++;
    GY_TRY(gy_query_select(planner, found->view->select, NULL, found->inside, answer));
    planner->view_count--;
    return rename_columns(planner, found->view->columns, found->view->column_count,
                          found->view->place, answer);
}

/* ---- Functions of rows ---- */

/* Columns of an order, by the names of the rows: keys behind the node's. */
static gy_status keys_of(const gy_query_planner *planner, const gy_sql_from *from,
                         const char *what, const gy_sql_select *read,
                         const gy_query_scope *names, gy_query_node *node)
{
    for (uint32_t i = 0; i < read->order_count; i++) {
        const gy_sql_order *one = &read->order[i];
        if (one->value->kind != GY_SQL_COLUMN || one->value->table != NULL) {
            return gy_sql_refuse(planner->source, from->place, GY_FORMAT,
                                 "%s: %s takes names of columns", from->call->text, what);
        }
        gy_sql_node name = *one->value;
        name.place = from->place;
        gy_query_key *key = &node->keys[node->key_count++];
        key->is_descending = one->is_descending;
        key->has_nulls_first = one->nulls == GY_SQL_NULLS_USUAL
                                   ? one->is_descending
                                   : one->nulls == GY_SQL_NULLS_FIRST;
        GY_TRY(gy_query_find(planner, names, &name, &key->column));
    }
    return GY_OK;
}

enum { KEYS_MAX = 1000 };

/* The argument "user, at desc". */
static gy_status read_keys(const gy_query_planner *planner, const gy_sql_from *from,
                           uint32_t argument, const gy_query_scope *names, gy_query_node *node)
{
    const gy_sql_node *text = from->call->items[argument];
    const char *what = from->names[argument];
    gy_sql_script script = {.count = 0};
    gy_sql_report report = {.status = GY_OK};
    const gy_sql_source source = {
        .path = what, .text = text->text, .size = strlen(text->text), .report = &report};
    gy_status status = gy_sql_read_behind(&source, "select 1 order by ", &script);
    const gy_sql_select *read =
        status == GY_OK && script.count == 1 ? script.statements[0].select : NULL;
    if (status == GY_NOMEM || status == GY_UNSUPPORTED) {
        gy_sql_script_fini(&script);
        return status;
    }
    if (read == NULL || read->order_count == 0 || read->order_count > KEYS_MAX ||
        read->limit != NULL || read->offset != NULL || read->set != GY_SQL_NO_SET) {
        gy_sql_script_fini(&script);
        return gy_sql_refuse(planner->source, text->place, GY_FORMAT,
                             "%s: %s takes names of columns", from->call->text, what);
    }
    gy_query_key *keys =
        gy_query_alloc(planner, node->key_count + read->order_count, sizeof(*keys));
    status = keys != NULL ? GY_OK : GY_NOMEM;
    if (keys != NULL) {
        if (node->key_count > 0) {
            memcpy(keys, node->keys, node->key_count * sizeof(*keys));
        }
        node->keys = keys;
        status = keys_of(planner, from, what, read, names, node);
    }
    gy_sql_script_fini(&script);
    return status;
}

/* Which argument has that name; GY_QUERY_NONE: none has. */
static uint32_t argument_of(const gy_sql_from *from, const char *name)
{
    for (uint32_t i = 0; i < from->call->count; i++) {
        if (from->names[i] != NULL && strcmp(from->names[i], name) == 0) {
            return i;
        }
    }
    return GY_QUERY_NONE;
}

static gy_status check_arguments(const gy_query_planner *planner, const gy_sql_from *from)
{
    const gy_sql_node *call = from->call;
    for (uint32_t i = 0; i < call->count; i++) {
        const char *name = from->names[i];
        const bool is_known = name != NULL && (strcmp(name, "partition_by") == 0 ||
                                               strcmp(name, "order_by") == 0);
        if (i == 0 ? name != NULL || call->items[i]->kind != GY_SQL_SCALAR
                   : !is_known || call->items[i]->kind != GY_SQL_TEXT ||
                         argument_of(from, name) != i) {
            return gy_sql_refuse(
                planner->source, call->items[i]->place, GY_FORMAT,
                "%s takes a sub-query in parentheses, partition_by => 'columns' "
                "and order_by => 'columns'",
                call->text);
        }
    }
    return call->count > 0 ? GY_OK
                           : gy_sql_refuse(planner->source, from->place, GY_FORMAT,
                                           "%s takes a sub-query in parentheses", call->text);
}

/* The rows' columns as the function's parameters. */
static gy_status take_arguments(const gy_query_planner *planner, const gy_sql_from *from,
                                const gy_query_function *own, gy_query_node **input,
                                gy_query_node *node)
{
    const uint32_t count = (*input)->count;
    const gy_sql_node call = {.text = own->name, .place = from->place, .count = count};
    gy_expr_type *types = gy_query_alloc(planner, count, sizeof(*types));
    node->arguments = gy_query_alloc(planner, count, sizeof(*node->arguments));
    if (types == NULL || node->arguments == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        types[i] = planner->plan->columns[(*input)->columns[i]].type;
        node->arguments[i] = (*input)->columns[i];
    }
    GY_TRY(gy_expr_check_call(planner->source, &call, own, types));
    for (uint32_t i = 0; i < count; i++) {
        const gy_expr_type wanted = gy_expr_type_of_field(&own->parameters[i]);
        if (gy_query_is_same_type(&types[i], &wanted)) {
            continue;
        }
        gy_sql_node *cast = gy_query_cast(
            planner, gy_query_make_column(planner, node->arguments[i], from->place), &wanted);
        if (cast == NULL) {
            return GY_NOMEM;
        }
        GY_TRY(gy_query_compute(planner, own->parameters[i].name, cast, input,
                                &node->arguments[i]));
    }
    node->argument_count = count;
    return GY_OK;
}

static gy_status apply(const gy_query_resolver *in, const gy_sql_from *from,
                       const gy_query_function *own, gy_query_answer *answer)
{
    gy_query_planner *planner = in->planner;
    gy_query_answer inner = {.node = NULL};
    gy_query_scope names = {.names = NULL};
    const uint32_t count = (uint32_t)own->column_count;
    GY_TRY(check_arguments(planner, from));
    GY_TRY(gy_query_select(planner, from->call->items[0]->select, NULL, in->views, &inner));
    for (uint32_t i = 0; i < inner.node->count; i++) {
        GY_TRY(gy_query_scope_add(planner, &names, NULL, inner.names[i].text,
                                  inner.node->columns[i]));
    }
    gy_query_node *made = gy_query_node_new(planner, GY_QUERY_APPLY, NULL, NULL, count);
    answer->names = gy_query_alloc(planner, count, sizeof(*answer->names));
    if (made == NULL || answer->names == NULL) {
        return GY_NOMEM;
    }
    const uint32_t partition = argument_of(from, "partition_by");
    const uint32_t order = argument_of(from, "order_by");
    if (partition != GY_QUERY_NONE) {
        GY_TRY(read_keys(planner, from, partition, &names, made));
        made->group_count = made->key_count;
    }
    if (order != GY_QUERY_NONE) {
        GY_TRY(read_keys(planner, from, order, &names, made));
    }
    GY_TRY(take_arguments(planner, from, own, &inner.node, made));
    for (uint32_t i = 0; i < count; i++) {
        const gy_expr_type type = gy_expr_type_of_field(&own->columns[i]);
        GY_TRY(gy_query_column_add(planner, own->columns[i].name, &type, &made->columns[i]));
        answer->names[i] = (gy_sql_name){.text = own->columns[i].name, .is_quoted = true};
    }
    made->function = own->name;
    made->place = from->place;
    made->left = inner.node;
    answer->node = made;
    return GY_OK;
}

static gy_status table(const gy_query_resolver *in, const gy_sql_from *from,
                       gy_query_answer *answer)
{
    const gy_query_views *found = from->kind == GY_SQL_TABLE && from->given == NULL
                                      ? find_view(in->views, &from->name)
                                      : NULL;
    const gy_query_function *own =
        from->kind == GY_SQL_FUNCTION
            ? gy_query_function_find(in->planner->plan->functions, from->call->text)
            : NULL;
    if (own != NULL) {
        return own->apply != NULL
                   ? apply(in, from, own, answer)
                   : gy_sql_refuse(in->planner->source, from->place, GY_FORMAT,
                                   "function %s gives a value: it stands in no FROM",
                                   own->name);
    }
    if (from->kind == GY_SQL_DERIVED) {
        return gy_query_select(in->planner, from->select,
                               in->scope != NULL ? in->scope->outer : NULL, in->views, answer);
    }
    return found != NULL ? gy_query_view(in->planner, found, from->place, answer)
                         : scan(in, from, answer);
}

static gy_status leaf(const gy_query_resolver *in, const gy_sql_from *from,
                      gy_query_scope *scope, gy_query_node **out)
{
    gy_query_answer answer = {.node = NULL};
    const char *name = from->alias.text != NULL        ? from->alias.text
                       : from->kind == GY_SQL_TABLE    ? from->name.text
                       : from->kind == GY_SQL_FUNCTION ? from->call->text
                                                       : NULL;
    GY_TRY(table(in, from, &answer));
    GY_ASSERT(answer.node != NULL);
    GY_TRY(
        rename_columns(in->planner, from->columns, from->column_count, from->place, &answer));
    for (uint32_t i = 0; i < scope->count; i++) {
        if (name != NULL && scope->names[i].table != NULL &&
            strcmp(scope->names[i].table, name) == 0) {
            return gy_sql_refuse(in->planner->source, from->place, GY_ARG,
                                 "table name \"%s\" is there twice: give one an alias", name);
        }
    }
    for (uint32_t i = 0; i < answer.node->count; i++) {
        GY_TRY(gy_query_scope_add(in->planner, scope, name, answer.names[i].text,
                                  answer.node->columns[i]));
    }
    *out = answer.node;
    return GY_OK;
}

/* ---- Joins ---- */

typedef struct sides {
    gy_query_scope *scope;
    uint32_t begin, middle; /* names of the left side, and behind them of the right one */
    const char **merged;    /* names of the columns of `using` */
} sides;

/* The name of a side that `using` means. */
static gy_status find_using(const gy_query_planner *planner, const gy_sql_from *from,
                            const gy_sql_name *name, const gy_query_scope *scope,
                            gy_query_name **found)
{
    const gy_sql_node node = {.kind = GY_SQL_COLUMN,
                              .place = from->place,
                              .text = name->text,
                              .is_quoted = name->is_quoted};
    uint32_t column = GY_QUERY_NONE;
    GY_TRY(gy_query_find(planner, scope, &node, &column));
    for (uint32_t i = 0; i < scope->count; i++) {
        if (scope->names[i].column == column && !scope->names[i].is_merged &&
            gy_query_matches(name->text, name->is_quoted, scope->names[i].name) > 0) {
            *found = &scope->names[i];
        }
    }
    return GY_OK;
}

/* One column of both sides: the left one, of a right join the right one, of a full join what
 * is not null. It comes first. */
static gy_status merge_using(const gy_query_planner *planner, const gy_sql_from *from,
                             const gy_sql_name *name, const sides *of, gy_query_list *full)
{
    const gy_query_scope left = {.names = of->scope->names + of->begin,
                                 .count = of->middle - of->begin};
    const gy_query_scope right = {.names = of->scope->names + of->middle,
                                  .count = of->scope->count - of->middle};
    gy_query_name *a = NULL, *b = NULL;
    gy_expr_type type;
    GY_TRY(find_using(planner, from, name, &left, &a));
    GY_TRY(find_using(planner, from, name, &right, &b));
    GY_ASSERT(a != NULL && b != NULL);
    gy_sql_node *const both[2] = {gy_query_make_column(planner, a->column, from->place),
                                  gy_query_make_column(planner, b->column, from->place)};
    gy_sql_node *equal = gy_query_make_operation(planner, "=", both[0], both[1]);
    if (equal == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_query_type(planner, equal, &type));
    GY_TRY(gy_query_list_add(planner, full + 1, equal));
    if (from->join == GY_SQL_FULL) {
        GY_TRY(gy_query_list_add(
            planner, full, gy_query_make(planner, GY_SQL_COALESCE, from->place, both, 2)));
    } else {
        GY_TRY(gy_query_list_add(planner, full, both[from->join == GY_SQL_RIGHT ? 1 : 0]));
    }
    of->merged[full->count - 1] = a->name;
    a->is_merged = true;
    b->is_merged = true;
    return GY_OK;
}

/* The merged columns' names stand in front of the others. */
static gy_status using(const gy_query_planner *planner, const gy_sql_from *from,
                       const gy_query_list *merged, const sides *of, gy_query_node **out)
{
    const uint32_t count = from->using_count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t column = GY_QUERY_NONE;
        GY_TRY(gy_query_compute(planner, from->using[i].text, merged->items[i], out, &column));
        GY_TRY(gy_query_scope_add(planner, of->scope, NULL, of->merged[i], column));
    }
    gy_query_name *names = gy_query_alloc(planner, of->scope->count, sizeof(*names));
    if (names == NULL) {
        return GY_NOMEM;
    }
    const uint32_t others = of->scope->count - count - of->begin;
    gy_query_name *at = of->scope->names + of->begin;
    memcpy(names, at + others, count * sizeof(*names));
    memcpy(names + count, at, others * sizeof(*names));
    memcpy(at, names, (others + count) * sizeof(*names));
    return GY_OK;
}

static const gy_query_join kinds[] = {[GY_SQL_CROSS] = GY_QUERY_INNER,
                                      [GY_SQL_INNER] = GY_QUERY_INNER,
                                      [GY_SQL_LEFT] = GY_QUERY_LEFT,
                                      [GY_SQL_RIGHT] = GY_QUERY_RIGHT,
                                      [GY_SQL_FULL] = GY_QUERY_FULL};

static gy_status join(gy_query_resolver *in, const gy_sql_from *from, gy_query_scope *scope,
                      gy_query_node **out)
{
    gy_query_node *right = NULL;
    gy_query_list lists[2] = {{.items = NULL}, {.items = NULL}}; /* merged, on */
    sides of = {.scope = scope, .begin = scope->count};
    GY_TRY(gy_query_from(in, from->left, scope, out));
    of.middle = scope->count;
    of.merged = gy_query_alloc(in->planner, from->using_count, sizeof(*of.merged));
    if (of.merged == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_query_from(in, from->right, scope, &right));
    for (uint32_t i = 0; i < from->using_count; i++) {
        GY_TRY(merge_using(in->planner, from, &from->using[i], &of, lists));
    }
    gy_query_scope own = {.names = scope->names + of.begin,
                          .count = scope->count - of.begin,
                          .outer = scope->outer};
    gy_query_resolver on = {
        .planner = in->planner, .scope = &own, .views = in->views, .clause = "JOIN conditions"};
    if (from->on != NULL && kinds[from->join] == GY_QUERY_INNER) {
        GY_TRY(gy_query_join_nodes(in->planner, GY_QUERY_INNER, &lists[1], right, out));
        on.input = out;
        return gy_query_where(&on, from->on);
    }
    if (from->on != NULL) {
        gy_sql_node *condition = NULL;
        GY_TRY(gy_query_resolve(&on, from->on, &condition));
        GY_TRY(gy_query_check_condition(in->planner, condition));
        GY_TRY(gy_query_split(in->planner, condition, &lists[1]));
    }
    GY_TRY(gy_query_join_nodes(in->planner, kinds[from->join], &lists[1], right, out));
    return from->using_count > 0 ? using(in->planner, from, &lists[0], &of, out) : GY_OK;
}

gy_status gy_query_from(gy_query_resolver *in, const gy_sql_from *from, gy_query_scope *scope,
                        gy_query_node **out)
{
    return from->kind == GY_SQL_JOIN ? join(in, from, scope, out) : leaf(in, from, scope, out);
}
