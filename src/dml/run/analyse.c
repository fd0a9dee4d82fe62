/* A parfor before it runs: its options, what its iterations do with each variable, and whether
 * they depend on each other. */
#include "dml/run/parfor_priv.h"

#include <string.h>
#include <strings.h>

/* ---- options ---- */

static const char *const modes[] = {"LOCAL", "REMOTE_SPARK", "REMOTE_SPARK_DP", "UNSPECIFIED",
                                    NULL};
static const char *const optimizers[] = {"NONE", "RULEBASED", "CONSTRAINED", "HEURISTIC", NULL};
static const char *const task_partitioners[] = {
    "FIXED",          "NAIVE",          "STATIC",      "FACTORING",
    "FACTORING_CMIN", "FACTORING_CMAX", "UNSPECIFIED", NULL};
static const char *const data_partitioners[] = {"NONE", "LOCAL", "REMOTE_SPARK", "UNSPECIFIED",
                                                NULL};
static const char *const merges[] = {"LOCAL_MEM",    "LOCAL_FILE",  "LOCAL_AUTOMATIC",
                                     "REMOTE_SPARK", "UNSPECIFIED", NULL};
static const char *const levels[] = {"ALL",   "TRACE", "DEBUG", "INFO", "WARN",
                                     "ERROR", "FATAL", "OFF",   NULL};
static const char *const switches[] = {"0", "1", NULL};

/* Of SystemDS; those but check and par choose among its back ends and mean nothing here. */
static const struct {
    const char *name;
    const char *const *values; /* NULL: a number from 1 */
} options[] = {
    {"check", switches},
    {"par", NULL},
    {"mode", modes},
    {"opt", optimizers},
    {"taskpartitioner", task_partitioners},
    {"tasksize", NULL},
    {"datapartitioner", data_partitioners},
    {"resultmerge", merges},
    {"log", levels},
    {"profile", switches},
};

static gy_status refuse_option(const gy_dml_lowering *in, const gy_dml_node *given)
{
    char hint[160] = "";
    size_t used = 0;
    for (size_t i = 0; i < GY_COUNT(options); i++) {
        used += (size_t)gy_print(hint + used, sizeof(hint) - used, "%s%s",
                                 i == 0 ? "options are " : ", ", options[i].name);
    }
    return gy_dml_refuse(gy_dml_source_of(in), given->place, GY_ARG, hint,
                         "parfor has no option %.60s",
                         given->text != NULL ? given->text : "without a name");
}

static gy_status check_value(const gy_dml_lowering *in, const gy_dml_node *given,
                             const char *const *values)
{
    char number[32] = "";
    const gy_dml_node *node = given->a;
    const char *text =
        node->kind == GY_DML_NAME || node->kind == GY_DML_STRING ? node->text : number;
    gy_text all = {.data = NULL};
    if (node->kind == GY_DML_INTEGER) {
        gy_print(number, sizeof(number), "%lld", (long long)node->whole);
    }
    for (size_t i = 0; values[i] != NULL; i++) {
        if (strcasecmp(text, values[i]) == 0) {
            gy_text_free(&all);
            return GY_OK;
        }
        gy_text_add(&all, "%s%s", i == 0 ? "expected " : ", ", values[i]);
    }
    const gy_status status =
        gy_dml_refuse(gy_dml_source_of(in), node->place, GY_ARG, gy_text_get(&all),
                      "parfor: %s has no such value", given->text);
    gy_text_free(&all);
    return status;
}

static gy_status take_options(gy_dml_lowering *in, gy_dml_parfor *parfor)
{
    parfor->is_checked = true;
    parfor->par = GY_DML_ABSENT;
    for (const gy_dml_node *given = parfor->node->e; given != NULL; given = given->next) {
        size_t at = 0;
        int32_t operand = GY_DML_ABSENT;
        while (at < GY_COUNT(options) &&
               (given->text == NULL || strcmp(options[at].name, given->text) != 0)) {
            at++;
        }
        if (at == GY_COUNT(options)) {
            return refuse_option(in, given);
        }
        if (options[at].values != NULL) {
            GY_TRY(check_value(in, given, options[at].values));
        } else {
            GY_TRY(gy_dml_lower_expression(in, given->a, -1, &operand));
        }
        if (strcmp(given->text, "par") == 0) {
            parfor->par = operand;
        }
        if (strcmp(given->text, "check") == 0) {
            parfor->is_checked = !(given->a->kind == GY_DML_INTEGER && given->a->whole == 0);
        }
    }
    return GY_OK;
}

/* ---- dependences ---- */

static const char dependence_hint[] =
    "each iteration may write its own cells, add with +=, or keep its values to itself; "
    "check=0 skips this test";

static void add_node(gy_text *text, const gy_dml_node *node)
{
    const bool is_loop = node->kind == GY_DML_FOR || node->kind == GY_DML_PARFOR;
    if (is_loop) {
        gy_text_add(text, "%s", node->text);
    } else {
        gy_dml_print_node(node, text);
    }
}

/* `write` of one iteration and `other` of another one meet. */
static gy_status refuse_pair(const gy_dml_source *source, const gy_dml_access *write,
                             const gy_dml_access *other)
{
    int line = 0, column = 0;
    gy_text here = {.data = NULL}, there = {.data = NULL};
    GY_ASSERT(write != NULL);
    GY_ASSERT(other != NULL);
    add_node(&here, write->node);
    add_node(&there, other->node);
    gy_dml_place(source, other->node->place, &line, &column);
    const gy_status status =
        write == other
            ? gy_dml_refuse(source, write->node->place, GY_ARG, dependence_hint,
                            "iterations of this parfor depend on each other: %.200s, written "
                            "here at line %d, column %d, is written by another one, too",
                            gy_text_get(&here), line, column)
            : gy_dml_refuse(source, write->node->place, GY_ARG, dependence_hint,
                            "iterations of this parfor depend on each other: %.200s is written "
                            "here, and another one %s %.200s at line %d, column %d",
                            gy_text_get(&here), other->is_write ? "writes" : "reads",
                            gy_text_get(&there), line, column);
    gy_text_free(&here);
    gy_text_free(&there);
    return status;
}

static gy_status refuse_output(const gy_dml_source *source, const gy_dml_access *write)
{
    GY_ASSERT(write != NULL);
    return gy_dml_refuse(source, write->node->place, GY_ARG, dependence_hint,
                         "iterations of this parfor depend on each other: each one writes %s "
                         "here, and it is read after the loop",
                         write->name);
}

typedef struct summary {
    const gy_dml_access *whole_write, *indexed_write, *read, *whole_read;
    bool is_sum; /* all accesses are += */
} summary;

static summary summarise(const gy_dml_accesses *accesses, const char *name)
{
    summary of = {.is_sum = true};
    for (size_t i = 0; i < accesses->count; i++) {
        const gy_dml_access *one = &accesses->items[i];
        if (strcmp(one->name, name) != 0) {
            continue;
        }
        of.is_sum = of.is_sum && one->is_sum;
        const gy_dml_access **first =
            one->is_write ? (one->is_whole ? &of.whole_write : &of.indexed_write)
                          : (one->is_whole ? &of.whole_read : &of.read);
        *first = *first != NULL ? *first : one;
        if ((!one->is_write || one->is_sum) && of.read == NULL) {
            of.read = one; /* += reads, too */
        }
    }
    return of;
}

/* Whether the loop may find a value in the variable. */
static bool is_outer(const gy_dml_lowering *in, const gy_dml_node *parfor, const char *name)
{
    const gy_dml_function *function = in->function;
    const gy_dml_node *value = NULL;
    const gy_dml_node *statements =
        function->node != NULL ? function->node->c : function->unit->program.statements;
    return gy_dml_variable(in, name) < function->parameter_count ||
           gy_dml_count_writes(name, statements, &value) >
               gy_dml_count_writes(name, parfor->d, &value) +
                   (strcmp(parfor->text, name) == 0 ? 1 : 0);
}

/* Whether a value that the variable has after the loop may be read. */
static bool is_live(const gy_dml_lowering *in, const char *name)
{
    for (const gy_dml_scope *scope = in->scope; scope != NULL; scope = scope->outer) {
        const gy_dml_first rest = gy_dml_first_use(name, scope->rest);
        if (rest != GY_DML_UNTOUCHED) {
            return rest == GY_DML_READ_FIRST;
        }
        const gy_dml_node *loop = scope->loop;
        if (loop != NULL && loop->kind == GY_DML_WHILE && gy_dml_uses(name, loop->a)) {
            return true;
        }
        if (loop != NULL && loop->kind != GY_DML_PARFOR &&
            gy_dml_first_use(name, loop->kind == GY_DML_WHILE ? loop->b : loop->d) ==
                GY_DML_READ_FIRST) {
            return true;
        }
    }
    for (int i = 0; i < in->function->result_count; i++) {
        if (strcmp(in->function->names[in->function->results[i]], name) == 0) {
            return true;
        }
    }
    return in->script->is_terminal && in->function->node == NULL;
}

/* Compare every write of the name with every access. */
static gy_status compare(const gy_dml_known *known, const char *name,
                         const gy_dml_source *source, bool *is_decided)
{
    const gy_dml_accesses *accesses = known->accesses;
    for (size_t i = 0; i < accesses->count; i++) {
        const gy_dml_access *write = &accesses->items[i];
        if (!write->is_write || strcmp(write->name, name) != 0) {
            continue;
        }
        for (size_t k = 0; k < accesses->count; k++) {
            const gy_dml_access *other = &accesses->items[k];
            if (strcmp(other->name, name) != 0 || (other->is_write && k < i)) {
                continue;
            }
            const gy_dml_verdict verdict = gy_dml_depend(known, write, other);
            if (verdict == GY_DML_DEPENDENT) {
                return refuse_pair(source, write, other);
            }
            *is_decided = *is_decided && verdict == GY_DML_INDEPENDENT;
        }
    }
    return GY_OK;
}

/* What iterations do with one variable that they write. */
static gy_status role_of(const gy_dml_lowering *in, gy_dml_parfor *parfor, const char *name,
                         gy_dml_role *role)
{
    const gy_dml_node *node = parfor->node;
    const gy_dml_source *source = gy_dml_source_of(in);
    const summary of = summarise(&parfor->accesses, name);
    const bool has_value = is_outer(in, node, name);
    *role = GY_DML_ROLE_OWN;
    if (of.is_sum || !has_value) {
        *role = of.is_sum ? GY_DML_ROLE_SUM : GY_DML_ROLE_OWN;
        return GY_OK;
    }
    if (!parfor->is_checked) {
        *role = GY_DML_ROLE_MERGED;
        return GY_OK;
    }
    const gy_dml_first first = gy_dml_first_use(name, node->d);
    if (first != GY_DML_READ_FIRST) {
        return is_live(in, name) ? refuse_output(source, of.whole_write) : GY_OK;
    }
    if (of.whole_write != NULL && strcmp(node->text, name) != 0) {
        return refuse_pair(source, of.whole_write,
                           of.whole_read != NULL ? of.whole_read
                           : of.read != NULL     ? of.read
                                                 : of.indexed_write);
    }
    if (of.whole_write != NULL) {
        return GY_OK; /* the loop's own variable, which each iteration is given */
    }
    if (of.whole_read != NULL) {
        return refuse_pair(source, of.indexed_write, of.whole_read);
    }
    const gy_dml_known known = {.accesses = &parfor->accesses, .function = in->function};
    *role = gy_dml_writes_unchecked(name, node->d) ? GY_DML_ROLE_MERGED : GY_DML_ROLE_CELLS;
    return compare(&known, name, source, &parfor->is_decided);
}

static gy_status add_written(gy_dml_parfor *parfor, int32_t slot, gy_dml_role role)
{
    GY_TRY(GY_GROW("dml.parfor", parfor->written, parfor->written_capacity,
                   parfor->written_count + 1));
    parfor->written[parfor->written_count++] = (gy_dml_written){slot, role};
    return GY_OK;
}

gy_status gy_dml_parfor_analyse(gy_dml_lowering *in, const gy_dml_node *node,
                                gy_dml_parfor *parfor)
{
    parfor->node = node;
    parfor->is_decided = true;
    parfor->variable = gy_dml_variable(in, node->text);
    GY_TRY(take_options(in, parfor));
    GY_TRY(gy_dml_accesses_collect(node, &parfor->accesses));
    for (size_t i = 0; i < parfor->accesses.count; i++) {
        const gy_dml_access *one = &parfor->accesses.items[i];
        const int32_t slot = one->is_write ? gy_dml_variable(in, one->name) : -1;
        bool is_new = one->is_write && slot != parfor->variable;
        for (size_t k = 0; k < parfor->written_count; k++) {
            is_new = is_new && parfor->written[k].slot != slot;
        }
        if (is_new) {
            gy_dml_role role = GY_DML_ROLE_OWN;
            GY_TRY(role_of(in, parfor, one->name, &role));
            GY_TRY(add_written(parfor, slot, role));
        }
    }
    return GY_OK;
}

gy_status gy_dml_parfor_decide(const gy_dml_parfor *parfor, const gy_dml_function *function,
                               const gy_dml_value *slots, const gy_dml_source *source)
{
    const gy_dml_known known = {
        .accesses = &parfor->accesses, .function = function, .slots = slots};
    bool is_decided = true;
    for (size_t i = 0; i < parfor->written_count && !parfor->is_decided; i++) {
        const gy_dml_written *one = &parfor->written[i];
        if (one->role == GY_DML_ROLE_CELLS ||
            (one->role == GY_DML_ROLE_MERGED && parfor->is_checked)) {
            GY_TRY(compare(&known, function->names[one->slot], source, &is_decided));
        }
    }
    return GY_OK;
}

void gy_dml_parfor_free(gy_dml_parfor *parfor)
{
    if (parfor != NULL) {
        gy_dml_accesses_fini(&parfor->accesses);
        gy_free(parfor->written);
        gy_free(parfor);
    }
}
