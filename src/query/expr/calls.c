/* Calls of functions: which of the lines of a name takes the arguments. */
#include "query/expr/expr_priv.h"

#include <string.h>

/* ---- lines ---- */

static int class_of(char code)
{
    switch (code) {
    case 'i':
        return GY_FIELD_INT64;
    case 'n':
        return GY_FIELD_DECIMAL;
    case 'd':
        return GY_FIELD_DOUBLE;
    case 'T':
        return GY_FIELD_TIMESTAMP;
    default:
        GY_ASSERT(code == 't' || code == 'a');
        return GY_FIELD_TEXT;
    }
}

/* The code of argument `at`; "a*": any number of arguments, of any type. 0: none. */
static char code_of(const char *codes, int at)
{
    size_t count = strlen(codes), code = (size_t)at;
    if (count > 0 && codes[count - 1] == '*') {
        count--;
        code = GY_MIN(code, count - 1);
    }
    if (code >= count) {
        return '\0';
    }
    return codes[code];
}

static bool takes_count(const char *codes, int count)
{
    const size_t size = strlen(codes);
    return size > 0 && codes[size - 1] == '*' ? count + 1 >= (int)size : count == (int)size;
}

/* How far arguments are changed to fit a line. */
enum { NOT_AT_ALL, LITERALS_ARE_TEXTS, AS_FAR_AS_POSSIBLE, PASSES };

static bool fits(const gy_expr_type *type, int value_class, int pass)
{
    if (pass == AS_FAR_AS_POSSIBLE) {
        return gy_expr_is_implicit(type, value_class);
    }
    if (type->is_unknown) {
        return pass == LITERALS_ARE_TEXTS && value_class == GY_FIELD_TEXT;
    }
    return pass == NOT_AT_ALL ? gy_expr_class(type) == value_class
                              : gy_expr_is_implicit(type, value_class);
}

static bool takes(const gy_expr_function *line, const gy_expr *const *args, int count, int pass)
{
    if (!takes_count(line->args, count)) {
        return false;
    }
    for (int i = 0; i < count; i++) {
        const char code = code_of(line->args, i);
        const bool is_fixed = line->is_exact && i == 0;
        if (code != 'a' &&
            !fits(&args[i]->type, class_of(code), is_fixed ? (int)NOT_AT_ALL : pass)) {
            return false;
        }
    }
    return true;
}

static const gy_expr_function *const tables[] = {gy_expr_math, gy_expr_texts, gy_expr_times,
                                                 gy_expr_errors};

/* The first line that takes them as they are, else the first that they can be made to fit. */
static const gy_expr_function *find(const char *name, const gy_expr *const *args, int count)
{
    for (int pass = 0; pass < PASSES; pass++) {
        for (size_t t = 0; t < GY_COUNT(tables); t++) {
            for (const gy_expr_function *line = tables[t]; line->name != NULL; line++) {
                if (strcmp(line->name, name) == 0 && takes(line, args, count, pass)) {
                    return line;
                }
            }
        }
    }
    return NULL;
}

/* ---- what is none ---- */

/* Those that have no line; aggregates, which the plan has taken out, are meant by what is near.
 */
static const char *const special[] = {"extract",  "date_part", "mod",  "power", "pow",
                                      "count",    "sum",       "avg",  "min",   "max",
                                      "bool_and", "bool_or",   "every"};

typedef struct nearest {
    const char *name; /* NULL: none is near */
    int distance;     /* what is as far is no nearer */
} nearest;

static void see(const char *name, const char *other, nearest *to)
{
    const int far = gy_text_distance(name, other, false);
    if (far < to->distance) {
        *to = (nearest){other, far};
    }
}

static nearest nearest_of(const char *name, const gy_query_functions *own)
{
    nearest found = {NULL, GY_MAX((int)strlen(name) / 3, 1) + 1};
    for (size_t t = 0; t <= GY_COUNT(tables); t++) {
        for (size_t i = 0;
             t < GY_COUNT(tables) ? tables[t][i].name != NULL : i < GY_COUNT(special); i++) {
            see(name, t < GY_COUNT(tables) ? tables[t][i].name : special[i], &found);
        }
    }
    for (int i = 0; own != NULL && i < own->count; i++) {
        see(name, own->items[i].name, &found);
    }
    return found;
}

const char *gy_expr_nearest(const char *name, const gy_query_functions *functions)
{
    return nearest_of(name, functions).name;
}

bool gy_expr_is_builtin(const char *name)
{
    return nearest_of(name, NULL).distance == 0;
}

gy_expr_type *gy_expr_types_of(const gy_expr_binder *in, const gy_expr *const *args,
                               uint32_t count)
{
    gy_expr_type *types = gy_expr_new(in, (count + 1) * sizeof(*types));
    for (uint32_t i = 0; types != NULL && i < count; i++) {
        types[i] = args[i]->type;
    }
    return types;
}

void gy_expr_types_text(const gy_expr_type *types, uint32_t count, char out[300])
{
    const size_t bytes = 300;
    char type[48];
    size_t size = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        size += gy_print(out + size, bytes - size, "%s%s", i > 0 ? ", " : "",
                         gy_expr_type_text(&types[i], type));
    }
}

/* Of PostgreSQL's functions those that give another value in each run, which no job could
 * repeat. */
static bool is_of_the_run(const char *name)
{
    static const char *const names[] = {
        "clock_timestamp", "gen_random_uuid",      "now", "random", "statement_timestamp",
        "timeofday",       "transaction_timestamp"};
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static gy_status fail_call(gy_expr_binder *in, const gy_sql_node *node,
                           const gy_expr *const *args)
{
    char types[300];
    if (is_of_the_run(node->text)) {
        return gy_sql_refuse(
            in->scope->source, node->place, GY_UNSUPPORTED,
            "not supported: %s, which differs from run to run: write a constant", node->text);
    }
    const nearest near = nearest_of(node->text, in->scope->functions);
    const bool is_there = near.distance == 0;
    const gy_expr_type *of = gy_expr_types_of(in, args, node->count);
    if (of == NULL) {
        return GY_NOMEM;
    }
    gy_expr_types_text(of, node->count, types);
    if (!is_there && near.name != NULL) {
        return gy_sql_refuse(in->scope->source, node->place, GY_NOTFOUND,
                             "function %s(%s) does not exist: is it %s?", node->text, types,
                             near.name);
    }
    return gy_sql_refuse(in->scope->source, node->place, is_there ? GY_TYPE : GY_NOTFOUND,
                         is_there ? "function %s(%s) does not exist: there is one of other "
                                    "arguments"
                                  : "function %s(%s) does not exist",
                         node->text, types);
}

/* ---- binding ---- */

static gy_status bind_line(gy_expr_binder *in, const gy_sql_node *node,
                           const gy_expr_function *line, const gy_expr **args,
                           const gy_expr **out)
{
    gy_expr_spec spec = {.row = line->row,
                         .args = args,
                         .count = (int)node->count,
                         .op = line->op,
                         .takes_nulls = line->takes_nulls,
                         .name = line->name,
                         .place = node->place};
    bool is_nullable = line->gives_null;
    for (int i = 0; i < spec.count; i++) {
        const char code = code_of(line->args, i);
        if (code == 'a') {
            GY_TRY(gy_expr_output(in, &args[i]));
        } else {
            GY_TRY(gy_expr_to_class(in, &args[i], class_of(code)));
        }
        is_nullable = is_nullable || args[i]->type.is_nullable;
    }
    spec.type = line->type != NULL ? line->type(args, spec.count)
                                   : gy_expr_simple(line->result, is_nullable);
    spec.type.is_nullable = is_nullable;
    return gy_expr_make(in, &spec, out);
}

gy_status gy_expr_bind_call(gy_expr_binder *in, const gy_sql_node *node, const gy_expr **out)
{
    const gy_expr **args = NULL;
    const char *name = node->text;
    const bool has_two = node->count == 2;
    GY_TRY(gy_expr_bind_items(in, node, &args));
    if ((node->is_star || node->is_distinct) && !gy_expr_is_builtin(name) &&
        gy_query_function_find(in->scope->functions, name) == NULL) {
        return fail_call(in, node, args);
    }
    if (node->is_star || node->is_distinct) {
        return gy_sql_refuse(in->scope->source, node->place, GY_FORMAT,
                             "%s(%s) is no function of one row", name,
                             node->is_star ? "*" : "distinct");
    }
    if (has_two && (strcmp(name, "extract") == 0 || strcmp(name, "date_part") == 0)) {
        return gy_expr_bind_extract(in, node, args, out);
    }
    if (has_two && strcmp(name, "mod") == 0) {
        return gy_expr_arithmetic(in, node->place, "%", args[0], args[1], out);
    }
    if (has_two && (strcmp(name, "power") == 0 || strcmp(name, "pow") == 0)) {
        return gy_expr_arithmetic(in, node->place, "^", args[0], args[1], out);
    }
    const gy_query_function *own = gy_query_function_find(in->scope->functions, name);
    if (own != NULL) {
        return gy_expr_bind_own(in, node, own, args, out);
    }
    const gy_expr_function *line = find(name, args, (int)node->count);
    return line != NULL ? bind_line(in, node, line, args, out) : fail_call(in, node, args);
}
