/* Scripts: opened, run, asked for what they left, closed; functions that are called by name. */
#include "dml/run/profile_priv.h"
#include "dml/run/run_priv.h"

#include <string.h>
#include <time.h>

enum { LOCK_RANK = 10 };

static void print_nothing(void *arg, const char *text, size_t size)
{
    (void)arg;
    (void)text;
    (void)size;
}

/* A failure that no place of the script is the cause of. */
static gy_status report(gy_dml_script *script, gy_status status)
{
    if (status != GY_OK && script->report.status == GY_OK) {
        script->report.status = status;
        gy_print(script->report.text, sizeof(script->report.text), "%s\n", gy_error_text());
    }
    return status;
}

gy_status gy_dml_script_open(const gy_dml_script_options *options, gy_dml_script **script)
{
    struct timespec now;
    gy_dml_unit *unit = NULL;
    gy_dml_script *made = gy_alloc_zero("dml.script", 1, sizeof(*made));
    *script = made;
    if (made == NULL) {
        return GY_NOMEM;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    made->options = *options;
    gy_mutex_init(&made->lock, LOCK_RANK);
    made->main.script = made;
    made->main.report = &made->report;
    made->main.may_spread = true;
    made->main.profile = options->has_statistics ? &made->profile : NULL;
    made->main.state = (gy_dml_state){
        .print = options->print != NULL ? options->print : print_nothing,
        .print_arg = options->print_arg,
        .random = {.key = (uint64_t)now.tv_nsec * 0x9E3779B97F4A7C15u + (uint64_t)now.tv_sec},
        .call = gy_dml_eval,
        .begun_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec};
    gy_status status = gy_dml_unit_load(made, options->path, options->text, &unit);
    status = status == GY_OK ? gy_dml_lower(made, made->statements) : status;
    if (status == GY_OK) {
        size_t base = 0;
        status = gy_dml_stack_push(&made->main, (size_t)made->statements->slot_count, &base);
    }
    made->compile_ns = made->total_ns = gy_dml_profile_now() - made->main.state.begun_ns;
    return report(made, status);
}

static int variable(const gy_dml_script *script, const char *name)
{
    const gy_dml_function *main = script->statements;
    for (size_t i = 0; main != NULL && i < main->name_count; i++) {
        if (strcmp(main->names[i], name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

gy_status gy_dml_script_set(gy_dml_script *script, const char *name, gy_dml_value value)
{
    const int slot = variable(script, name);
    if (slot < 0) {
        return gy_fail(GY_NOTFOUND, "the script has no variable %s", name);
    }
    gy_dml_drop(&script->main.stack[slot]);
    script->main.stack[slot] = gy_dml_hold(value);
    return GY_OK;
}

gy_status gy_dml_script_run(gy_dml_script *script)
{
    const int64_t begun_ns = gy_dml_profile_now();
    atomic_store_explicit(&script->is_interrupted, false, memory_order_relaxed);
    const gy_status status = gy_dml_execute(&script->main, script->statements, 0);
    script->total_ns += gy_dml_profile_now() - begun_ns;
    gy_engine_free(script->engine); /* by the thread that made it */
    script->engine = NULL;
    return report(script, status);
}

/* The variables keep their slots, further ones come behind them. */
static gy_status take_over(gy_dml_script *script, gy_dml_function *statements)
{
    size_t base = 0;
    gy_dml_stack_pop(&script->main, script->statements->name_count);
    GY_TRY(gy_dml_stack_push(
        &script->main, (size_t)statements->slot_count - script->statements->name_count, &base));
    script->statements = statements;
    script->main.call_depth = 0;
    return GY_OK;
}

gy_status gy_dml_script_input(gy_dml_script *script, const char *text)
{
    gy_dml_function *statements = NULL;
    script->report = (gy_dml_report){.status = GY_OK};
    script->is_terminal = true;
    gy_status status = gy_dml_unit_input(script, text, &statements);
    status = status == GY_OK ? gy_dml_lower(script, statements) : status;
    status = status == GY_OK ? take_over(script, statements) : status;
    return status == GY_OK ? gy_dml_script_run(script) : report(script, status);
}

void gy_dml_script_statistics(const gy_dml_script *script, int most, gy_text *text)
{
    gy_dml_profile_text(script, most, text);
}

void gy_dml_script_interrupt(gy_dml_script *script)
{
    /* relaxed: it says only that what runs is to end, and carries nothing with it */
    atomic_store_explicit(&script->is_interrupted, true, memory_order_relaxed);
}

bool gy_dml_script_is_cut(const gy_dml_script *script)
{
    return script->report.is_cut;
}

gy_status gy_dml_script_get(gy_dml_script *script, const char *name, const gy_dml_value **value)
{
    const int slot = variable(script, name);
    if (slot < 0 || script->main.stack[slot].kind == GY_DML_IS_NOTHING) {
        return gy_fail(GY_NOTFOUND, "the script left no value of %s", name);
    }
    *value = &script->main.stack[slot];
    return GY_OK;
}

const char *gy_dml_script_report(const gy_dml_script *script)
{
    return script->report.text;
}

void gy_dml_script_close(gy_dml_script *script)
{
    if (script == NULL) {
        return;
    }
    gy_dml_stack_pop(&script->main, 0);
    for (size_t i = 0; i < script->function_count; i++) {
        gy_dml_function_free(script->functions[i]);
    }
    for (size_t i = 0; i < script->unit_count; i++) {
        gy_dml_unit_free(script->units[i]);
    }
    gy_free(script->functions);
    gy_free(script->units);
    gy_free(script->wanted);
    gy_dml_profile_fini(&script->profile);
    gy_free(script->main.stack);
    gy_free(script->main.state.folder);
    gy_mutex_fini(&script->lock);
    gy_free(script);
}

enum { EVAL_CALLS = 4 }; /* calls that one by name counts for: it takes more of the stack */

static gy_dml_worker *worker_of(gy_dml_state *state)
{
    return (gy_dml_worker *)(void *)((char *)state - offsetof(gy_dml_worker, state));
}

/* The items of a list as arguments: by name where one is a parameter's, else in order. */
static gy_status pass_items(gy_dml_worker *worker, const gy_dml_function *function,
                            const gy_dml_list *args, size_t base)
{
    for (size_t i = 0; i < args->count; i++) {
        const bool has_name = args->names != NULL && args->names[i] != NULL;
        size_t at = 0;
        const gy_dml_node *node = function->node->a;
        for (; node != NULL; node = node->next, at++) {
            if (has_name ? strcmp(node->text, args->names[i]->data) == 0
                         : worker->stack[base + at].kind == GY_DML_IS_NOTHING) {
                break;
            }
        }
        if (node == NULL && has_name) {
            continue; /* SystemDS, too, drops what a function does not take */
        }
        if (node == NULL) {
            return gy_fail(GY_ARG, "eval: %s takes fewer arguments", function->name);
        }
        worker->stack[base + at] = gy_dml_hold(args->items[i]);
        GY_TRY(gy_dml_convert(node, &worker->stack[base + at]));
    }
    return GY_OK;
}

static gy_status eval_function(gy_dml_worker *worker, gy_dml_function *function,
                               const gy_dml_list *args, gy_dml_value *result)
{
    size_t base = 0;
    if (worker->call_depth + EVAL_CALLS > GY_DML_CALLS_MAX) {
        return gy_fail(GY_LIMIT, "eval: calls are nested deeper than %d", GY_DML_CALLS_MAX);
    }
    GY_TRY(gy_dml_stack_push(worker, (size_t)function->slot_count, &base));
    gy_status status = pass_items(worker, function, args, base);
    size_t at = base;
    for (const gy_dml_node *node = function->node->a; node != NULL && status == GY_OK;
         node = node->next, at++) {
        if (worker->stack[at].kind == GY_DML_IS_NOTHING && node->a == NULL) {
            status = gy_fail(GY_ARG, "eval: %s: the argument %s is missing", function->name,
                             node->text);
        }
    }
    worker->call_depth += EVAL_CALLS;
    status = status == GY_OK ? gy_dml_execute(worker, function, base) : status;
    worker->call_depth -= EVAL_CALLS;
    gy_dml_list *results = NULL;
    status = status == GY_OK ? gy_dml_list_new(&results) : status;
    for (int i = 0; i < function->result_count && status == GY_OK; i++) {
        const int32_t slot = function->results[i];
        status =
            gy_dml_list_add(results, worker->stack[base + (size_t)slot], function->names[slot]);
    }
    gy_dml_stack_pop(worker, base);
    if (results != NULL) {
        *result = gy_dml_of_list(results);
    }
    return status;
}

static gy_status eval_builtin(gy_dml_state *state, const gy_dml_builtin *builtin,
                              const gy_dml_list *args, gy_dml_value *result)
{
    gy_dml_value values[256] = {{.kind = GY_DML_IS_NOTHING}};
    gy_dml_value results[GY_DML_RESULTS_MAX] = {{.kind = GY_DML_IS_NOTHING}};
    const int parameters = gy_dml_builtin_parameters(builtin);
    if (args->count > 200 ||
        (!gy_dml_builtin_is_open(builtin) && args->count > (size_t)parameters)) {
        return gy_fail(GY_ARG, "eval: %s takes fewer arguments", builtin->name);
    }
    for (size_t i = 0; i < args->count; i++) {
        int at = (int)i;
        if (args->names != NULL && args->names[i] != NULL) {
            at = gy_dml_builtin_parameter(builtin, args->names[i]->data);
            at = at < 0 ? (int)i : at;
        }
        values[at] = args->items[i];
    }
    gy_dml_call call = {.state = state,
                        .builtin = builtin,
                        .args = values,
                        .count = GY_MAX((int)args->count, parameters),
                        .wanted = GY_MIN(builtin->results, 1),
                        .results = results};
    gy_status status = builtin->run(&call);
    gy_dml_list *list = NULL;
    status = status == GY_OK ? gy_dml_list_new(&list) : status;
    for (int i = 0; i < GY_DML_RESULTS_MAX; i++) {
        if (status == GY_OK && results[i].kind != GY_DML_IS_NOTHING) {
            status = gy_dml_list_add(list, results[i], NULL);
        }
        gy_dml_drop(&results[i]);
    }
    if (list != NULL) {
        *result = gy_dml_of_list(list);
    }
    return status;
}

/* The function of a name, lowered; NULL: none. Pieces of a parfor take turns here. */
static gy_status find_and_lower(gy_dml_worker *worker, const char *name,
                                gy_dml_function **function)
{
    gy_dml_script *script = worker->script;
    gy_mutex_lock(&script->lock);
    gy_status status = GY_OK;
    *function = NULL;
    for (size_t i = 0; i < script->unit_count && *function == NULL && status == GY_OK; i++) {
        status = gy_dml_function_find(script, script->units[i], name, function);
    }
    if (status == GY_OK && *function != NULL) {
        status = gy_dml_lower(script, *function);
    }
    if (status != GY_OK && worker->report != &script->report) {
        *worker->report = script->report; /* whether it is the script's first is told later */
        script->report.status = GY_OK;
        script->report.text[0] = '\0';
    }
    gy_mutex_unlock(&script->lock);
    return status;
}

gy_status gy_dml_eval(gy_dml_state *state, const char *name, const gy_dml_list *args,
                      gy_dml_value *result)
{
    gy_dml_worker *worker = worker_of(state);
    gy_dml_function *function = NULL;
    GY_TRY(find_and_lower(worker, name, &function));
    const gy_dml_builtin *builtin = gy_dml_builtin_find(name);
    if (function != NULL) {
        return eval_function(worker, function, args, result);
    }
    return builtin != NULL ? eval_builtin(state, builtin, args, result)
                           : gy_fail(GY_NOTFOUND, "eval: there is no function %.80s", name);
}
