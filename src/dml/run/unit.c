/* Units: files of a script, what they source, and the functions of each. */
#include "dml/run/parfor_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void gy_dml_unit_free(gy_dml_unit *unit)
{
    if (unit == NULL) {
        return;
    }
    gy_dml_program_fini(&unit->program);
    gy_free(unit->imports);
    gy_free(unit->functions);
    gy_free(unit->path);
    gy_free(unit->folder);
    gy_free(unit->text);
    gy_free(unit);
}

/* The bytes of a file, NUL-terminated. */
static gy_status read_file(const char *path, char **text, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return gy_fail(errno == ENOENT ? GY_NOTFOUND : GY_IO, "cannot read %s: %s", path,
                       strerror(errno));
    }
    size_t capacity = 0;
    char *data = NULL;
    *size = 0;
    gy_status status = GY_OK;
    for (;;) {
        status = GY_GROW("dml.script", data, capacity, *size + (1 << 14));
        if (status != GY_OK) {
            break;
        }
        const size_t got = fread(data + *size, 1, capacity - *size - 1, file);
        *size += got;
        if (got == 0 || *size > GY_DML_SOURCE_MAX) {
            break;
        }
    }
    if (status == GY_OK && ferror(file)) {
        status = gy_fail(GY_IO, "cannot read %s: %s", path, strerror(errno));
    }
    fclose(file);
    if (status != GY_OK) {
        gy_free(data);
        return status;
    }
    data[*size] = '\0';
    *text = data;
    return GY_OK;
}

gy_dml_function *gy_dml_unit_find(const gy_dml_unit *unit, const char *name)
{
    for (size_t i = 0; i < unit->function_count; i++) {
        if (strcmp(unit->functions[i]->name, name) == 0) {
            return unit->functions[i];
        }
    }
    return NULL;
}

static int count_list(const gy_dml_node *node)
{
    int count = 0;
    for (; node != NULL; node = node->next) {
        count++;
    }
    return count;
}

/* A function of the unit; node NULL: the statements of the script. */
static gy_status add_function(gy_dml_script *script, gy_dml_unit *unit, const gy_dml_node *node)
{
    if (node != NULL && gy_dml_unit_find(unit, node->text) != NULL) {
        return gy_dml_refuse(&unit->source, node->place, GY_EXISTS,
                             "functions of one file have different names",
                             "the function %s is there already", node->text);
    }
    if (node != NULL && count_list(node->b) > GY_DML_RESULTS_MAX * 4) {
        return gy_dml_refuse(&unit->source, node->place, GY_LIMIT, "return a list",
                             "%s has more than %d results", node->text, GY_DML_RESULTS_MAX * 4);
    }
    GY_TRY(GY_GROW("dml.functions", script->functions, script->function_capacity,
                   script->function_count + 1));
    GY_TRY(GY_GROW("dml.functions", unit->functions, unit->function_capacity,
                   unit->function_count + 1));
    gy_dml_function *made = gy_alloc_zero("dml.function", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->name = node != NULL ? node->text : "";
    made->node = node;
    made->unit = unit;
    made->index = (int)script->function_count;
    script->functions[script->function_count++] = made;
    unit->functions[unit->function_count++] = made;
    if (node == NULL) {
        script->statements = made;
    }
    return GY_OK;
}

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = gy_copy_text("dml.unit", slash != NULL ? path : ".");
    if (folder != NULL && slash != NULL) {
        folder[slash == path ? 1 : slash - path] = '\0';
    }
    return folder;
}

/* source and setwd, in their order, before anything runs. */
static gy_status take_imports(gy_dml_script *script, gy_dml_unit *unit)
{
    for (const gy_dml_node *node = unit->program.statements; node != NULL; node = node->next) {
        if (node->kind == GY_DML_SETWD) {
            gy_free(script->main.state.folder);
            script->main.state.folder = gy_copy_text("dml.folder", node->text);
            if (script->main.state.folder == NULL) {
                return GY_NOMEM;
            }
        }
        if (node->kind == GY_DML_IMPORT) {
            gy_dml_unit *other = NULL;
            GY_TRY(gy_dml_unit_source(script, unit, node, &other));
            GY_TRY(GY_GROW("dml.imports", unit->imports, unit->import_capacity,
                           unit->import_count + 1));
            unit->imports[unit->import_count++] = (gy_dml_import){node->other, other};
        }
    }
    return GY_OK;
}

static gy_status fill_unit(gy_dml_script *script, gy_dml_unit *unit, bool is_script)
{
    GY_TRY(gy_dml_parse(&unit->source, &unit->program));
    if (is_script) {
        GY_TRY(add_function(script, unit, NULL));
    }
    for (const gy_dml_node *node = unit->program.functions; node != NULL; node = node->next) {
        GY_TRY(add_function(script, unit, node));
    }
    return take_imports(script, unit);
}

/* A unit of a text, or of a file's; the script owns it once it is filled. */
static gy_status new_unit(const char *path, const char *text, gy_dml_report *report,
                          gy_dml_unit **unit)
{
    gy_dml_unit *made = gy_alloc_zero("dml.unit", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    size_t size = text != NULL ? strlen(text) : 0;
    made->path = gy_copy_text("dml.unit", path);
    made->folder = folder_of(path);
    made->text = text != NULL ? gy_copy_text("dml.unit", text) : NULL;
    gy_status status = made->path == NULL || made->folder == NULL ? GY_NOMEM : GY_OK;
    if (status == GY_OK && text == NULL) {
        status = read_file(path, &made->text, &size);
    }
    if (status != GY_OK || made->text == NULL) {
        gy_dml_unit_free(made);
        return status != GY_OK ? status : GY_NOMEM;
    }
    made->source =
        (gy_dml_source){.path = made->path, .text = made->text, .size = size, .report = report};
    *unit = made;
    return GY_OK;
}

gy_status gy_dml_unit_load(gy_dml_script *script, const char *path, const char *text,
                           gy_dml_unit **unit)
{
    for (size_t i = 0; i < script->unit_count; i++) {
        if (strcmp(script->units[i]->path, path) == 0) {
            *unit = script->units[i];
            return GY_OK;
        }
    }
    if (script->unit_count - script->input_count >= GY_DML_UNITS_MAX) {
        return gy_fail(GY_LIMIT, "a script of more than %d files", GY_DML_UNITS_MAX);
    }
    GY_TRY(GY_GROW("dml.units", script->units, script->unit_capacity, script->unit_count + 1));
    GY_TRY(new_unit(path, text, &script->report, unit));
    GY_ASSERT(*unit != NULL);
    /* before it is parsed: files may source each other */
    script->units[script->unit_count++] = *unit;
    return fill_unit(script, *unit, script->unit_count == 1);
}

gy_status gy_dml_unit_input(gy_dml_script *script, const char *text,
                            gy_dml_function **statements)
{
    char path[32];
    gy_dml_unit *unit = NULL;
    gy_dml_function *before = script->statements;
    gy_print(path, sizeof(path), "input %zu", script->input_count + 1);
    GY_TRY(GY_GROW("dml.units", script->units, script->unit_capacity, script->unit_count + 1));
    GY_TRY(new_unit(path, text, &script->report, &unit));
    GY_ASSERT(unit != NULL);
    unit->is_input = true;
    unit->source.is_input = true;
    script->units[script->unit_count++] = unit;
    script->input_count++;
    const gy_status status = fill_unit(script, unit, true);
    *statements = script->statements;
    script->statements = before; /* until it is lowered */
    return status;
}

/* The first of "A:B:C" that has the file. */
static bool find_in_library(const char *library, const char *name, char out[4096])
{
    while (library != NULL && *library != '\0') {
        const size_t size = strcspn(library, ":");
        if (size > 0 && gy_print_whole(out, 4096, "%.*s/%s", (int)size, library, name) &&
            access(out, R_OK) == 0) {
            return true;
        }
        library += size + (library[size] == ':');
    }
    return false;
}

gy_status gy_dml_unit_source(gy_dml_script *script, gy_dml_unit *from, const gy_dml_node *node,
                             gy_dml_unit **unit)
{
    char path[4096];
    gy_dml_state_path(&script->main.state, node->text, path);
    if (access(path, R_OK) != 0 &&
        !(gy_print_whole(path, sizeof(path), "%s/%s", from->folder, node->text) &&
          access(path, R_OK) == 0) &&
        !find_in_library(script->options.library, node->text, path)) {
        return gy_dml_refuse(&from->source, node->place, GY_NOTFOUND,
                             "it is looked for in the working folder, in that of the sourcing "
                             "script and in those of GYRE_DML_PATH",
                             "there is no script %s", node->text);
    }
    const gy_status status = gy_dml_unit_load(script, path, NULL, unit);
    return status == GY_OK || script->report.status != GY_OK
               ? status
               : gy_dml_refuse(&from->source, node->place, status, "", "%s", gy_error_text());
}

/* NAME.dml of the library has m_NAME, or s_NAME or f_NAME where it takes scalars or frames. */
static gy_status find_library_function(gy_dml_script *script, const char *name,
                                       gy_dml_function **function)
{
    char file[256], path[4096], full[256];
    gy_dml_unit *unit = NULL;
    if (!gy_print_whole(file, sizeof(file), "%s.dml", name) || strchr(name, '/') != NULL ||
        !find_in_library(script->options.library, file, path)) {
        return GY_OK;
    }
    GY_TRY(gy_dml_unit_load(script, path, NULL, &unit));
    for (const char *kind = "msf"; *kind != '\0' && *function == NULL; kind++) {
        gy_print(full, sizeof(full), "%c_%s", *kind, name);
        *function = gy_dml_unit_find(unit, full);
    }
    *function = *function != NULL ? *function : gy_dml_unit_find(unit, name);
    return GY_OK;
}

/* The function f, or ns::f of an import, in one unit. */
static gy_dml_function *find_in_unit(const gy_dml_unit *unit, const char *name)
{
    const char *colons = strstr(name, "::");
    gy_dml_function *function = NULL;
    if (colons == NULL) {
        return name[0] != '\0' ? gy_dml_unit_find(unit, name) : NULL;
    }
    const size_t size = (size_t)(colons - name);
    for (size_t i = 0; i < unit->import_count; i++) {
        if (strlen(unit->imports[i].name) == size &&
            memcmp(unit->imports[i].name, name, size) == 0) {
            function = gy_dml_unit_find(unit->imports[i].unit, colons + 2);
        }
    }
    return function;
}

gy_status gy_dml_function_find(gy_dml_script *script, gy_dml_unit *unit, const char *name,
                               gy_dml_function **function)
{
    *function = unit->is_input ? NULL : find_in_unit(unit, name);
    for (size_t i = script->unit_count; unit->is_input && i > 0 && *function == NULL; i--) {
        if (script->units[i - 1]->is_input) { /* the newest of a name */
            *function = find_in_unit(script->units[i - 1], name);
        }
    }
    if (strstr(name, "::") != NULL) {
        return GY_OK;
    }
    if (*function == NULL && gy_dml_builtin_find(name) == NULL) {
        return find_library_function(script, name, function);
    }
    return GY_OK;
}

void gy_dml_function_empty(gy_dml_function *function)
{
    for (size_t i = 0; i < function->constant_count; i++) {
        gy_dml_drop(&function->constants[i]);
    }
    for (size_t i = 0; i < function->parfor_count; i++) {
        gy_dml_parfor_free(function->parfors[i]);
    }
    function->constant_count = function->code_count = function->operand_count = 0;
    function->parfor_count = function->callee_count = function->name_count = 0;
    function->parameter_count = function->result_count = function->slot_count = 0;
    function->is_lowered = false;
}

void gy_dml_function_free(gy_dml_function *function)
{
    gy_dml_function_empty(function);
    gy_free(function->parfors);
    gy_free(function->callees);
    gy_free(function->operands);
    gy_free(function->names);
    gy_free(function->constants);
    gy_free(function->code);
    gy_free(function);
}
