/* <gyre/script.h>: scripts with tensors in and out. */
#include <gyre/script.h>

#include "base/base.h"
#include "dml/builtins/builtins.h"
#include "dml/run/run.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct gy_script {
    gy_dml_script *inner;
    char *library; /* folders of functions: GYRE_DML_PATH, then Gyre's own */
    bool was_run;
};

static void print_out(void *arg, const char *text, size_t size_bytes)
{
    (void)arg;
    fwrite(text, 1, size_bytes, stdout); /* a failure stays in the stream: main looks */
}

/* The folder of functions that is installed with this code, which lies in bin, lib or a folder
 * below lib (in a build folder: below the source). False: there is none. */
static bool find_own_library(char out[4096])
{
    static const char *const places[] = {"..", "../.."};
    static const char here; /* an address of this code */
    Dl_info info;
    if (dladdr(&here, &info) == 0 || info.dli_fname == NULL) {
        return false;
    }
    char folder[4096];
    const char *path = strchr(info.dli_fname, '/') != NULL ? info.dli_fname : "/proc/self/exe";
    if (realpath(path, folder) == NULL) {
        return false;
    }
    *strrchr(folder, '/') = '\0';
    for (size_t i = 0; i < GY_COUNT(places); i++) {
        if (gy_print_whole(out, 4096, "%s/%s/share/gyre/dml", folder, places[i]) &&
            access(out, R_OK) == 0) {
            return true;
        }
    }
    return false;
}

/* NULL: out of memory. */
static char *library_path(void)
{
    char own[4096] = "";
    const char *given = gy_setting_get("GYRE_DML_PATH");
    gy_text text = {.data = NULL};
    if (!find_own_library(own)) {
        own[0] = '\0';
    }
    gy_text_add(&text, "%s:%s", given != NULL ? given : "", own);
    return text.data;
}

gy_status gy_script_new(const gy_script_options *options, gy_script **script)
{
    gy_script_options known;
    *script = NULL;
    GY_TRY(gy_options_take(gy_script_options, &known, options));
    if (known.path == NULL && known.text == NULL) {
        return gy_fail(GY_ARG, "gy_script_options: neither path nor text is set");
    }
    gy_script *made = gy_alloc_zero("script", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->library = library_path();
    if (made->library == NULL) {
        gy_free(made);
        return GY_NOMEM;
    }
    const gy_dml_script_options inner = {
        .path = known.path != NULL ? known.path : "text",
        .text = known.text,
        .args = known.args,
        .named = known.named,
        .arg_count = known.arg_count,
        .named_count = known.named_count,
        .print = known.print != NULL ? known.print : print_out,
        .print_arg = known.print_arg,
        .has_statistics = known.statistics,
        .library = made->library,
    };
    const gy_status status = gy_dml_script_open(&inner, &made->inner);
    if (made->inner == NULL) {
        gy_free(made->library);
        gy_free(made);
        return status;
    }
    *script = made;
    return status;
}

gy_status gy_script_set(gy_script *script, const char *name, gy_tensor *tensor)
{
    if (gy_tensor_dtype(tensor) != GY_F64 || gy_tensor_rank(tensor) != 2) {
        return gy_fail(GY_TYPE, "%s: expected an f64 tensor of rank 2, found %s of rank %d",
                       name, gy_dtype_name(gy_tensor_dtype(tensor)), gy_tensor_rank(tensor));
    }
    gy_dml_matrix *matrix = NULL;
    GY_TRY(gy_dml_matrix_new(gy_tensor_size(tensor, 0), gy_tensor_size(tensor, 1), &matrix));
    gy_dml_value value = gy_dml_of_matrix(matrix);
    gy_status status = gy_tensor_copy(matrix->tensor, tensor);
    status = status == GY_OK ? gy_dml_script_set(script->inner, name, value) : status;
    gy_dml_drop(&value);
    return status;
}

gy_status gy_script_run(gy_script *script)
{
    if (script->was_run) {
        return gy_fail(GY_STATE, "a script runs once: make it anew");
    }
    script->was_run = true;
    return gy_dml_script_run(script->inner);
}

gy_status gy_script_input(gy_script *script, const char *text)
{
    const gy_status status = gy_dml_script_input(script->inner, text);
    return status != GY_OK && gy_dml_script_is_cut(script->inner) ? GY_AGAIN : status;
}

void gy_script_interrupt(gy_script *script)
{
    gy_dml_script_interrupt(script->inner);
}

char *gy_script_statistics(const gy_script *script, int rows_max)
{
    gy_text text = {.data = NULL};
    gy_dml_script_statistics(script->inner, rows_max, &text);
    if (text.status != GY_OK) {
        gy_text_free(&text);
    }
    return text.data;
}

gy_status gy_script_get(gy_script *script, const char *name, gy_tensor **tensor)
{
    const gy_dml_value *value = NULL;
    gy_dml_matrix *matrix = NULL;
    GY_TRY(gy_dml_script_get(script->inner, name, &value));
    GY_TRY(gy_dml_as_matrix(value, name, &matrix));
    *tensor = gy_tensor_hold(matrix->tensor); /* the variable's matrix is never written again */
    gy_dml_matrix_drop(matrix);
    return GY_OK;
}

const char *gy_script_report(const gy_script *script)
{
    return gy_dml_script_report(script->inner);
}

void gy_script_free(gy_script *script)
{
    if (script != NULL) {
        gy_dml_script_close(script->inner);
        gy_free(script->library);
        gy_free(script);
    }
}

char *gy_script_help(const char *name)
{
    gy_text text = {.data = NULL};
    for (int i = 0; i < gy_dml_builtin_count; i++) {
        const gy_dml_builtin *row = &gy_dml_builtins[i];
        if (name == NULL || strcmp(name, row->name) == 0) {
            gy_text_add(&text, "%s(%s)\n    %s\n", row->name, row->signature, row->meaning);
        }
    }
    if (text.status != GY_OK) {
        gy_text_free(&text);
    }
    return text.data;
}
