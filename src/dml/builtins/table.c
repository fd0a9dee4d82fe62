/* The table of builtins, and how arguments are checked. */
#include "dml/builtins/builtins_priv.h"

#include <stdlib.h>
#include <string.h>

const gy_dml_builtin gy_dml_builtins[] = {
#define GY_X(name, signature, run, results, meaning)                                           \
    {name, signature, gy_dml_run_##run, results, meaning},
#include "dml/builtins/builtins.def"
#undef GY_X
};
const int gy_dml_builtin_count = (int)GY_COUNT(gy_dml_builtins);

static int compare(const void *key, const void *row)
{
    return strcmp(key, ((const gy_dml_builtin *)row)->name);
}

const gy_dml_builtin *gy_dml_builtin_find(const char *name)
{
    return bsearch(name, gy_dml_builtins, GY_COUNT(gy_dml_builtins), sizeof(gy_dml_builtin),
                   compare);
}

const char *gy_dml_builtin_absent(const char *name)
{
    static const char transform[] = "Gyre has frames, but not yet SystemDS's transforms";
    static const struct {
        const char *name, *why;
    } absent[] = {
        {"map", "SystemDS runs a text in Java here: a function and eval do the same"},
        {"transformapply", transform},
        {"transformcolmap", transform},
        {"transformdecode", transform},
        {"transformencode", transform},
        {"transformmeta", transform},
    };
    for (size_t i = 0; i < GY_COUNT(absent); i++) {
        if (strcmp(absent[i].name, name) == 0) {
            return absent[i].why;
        }
    }
    return NULL;
}

/* The parameter that begins at `at`: its name's bytes, and where the next one begins (NULL: it
 * is the last). */
static const char *parameter_at(const char *at, size_t *size)
{
    const char *end = strchr(at, ',');
    *size = strcspn(at, "=,");
    return end == NULL ? NULL : end + 2;
}

int gy_dml_builtin_parameters(const gy_dml_builtin *builtin)
{
    int count = 0;
    size_t size = 0;
    for (const char *at = builtin->signature; at != NULL && *at != '\0' && *at != '.';) {
        count++;
        at = parameter_at(at, &size);
    }
    return count;
}

bool gy_dml_builtin_is_open(const gy_dml_builtin *builtin)
{
    return strstr(builtin->signature, "...") != NULL;
}

int gy_dml_builtin_parameter(const gy_dml_builtin *builtin, const char *name)
{
    int i = 0;
    for (const char *at = builtin->signature; at != NULL && *at != '\0' && *at != '.'; i++) {
        size_t size = 0;
        const char *next = parameter_at(at, &size);
        if (strlen(name) == size && memcmp(name, at, size) == 0) {
            return i;
        }
        at = next;
    }
    return -1;
}

bool gy_dml_builtin_needs(const gy_dml_builtin *builtin, int parameter, char name[32])
{
    const char *at = builtin->signature;
    size_t size = 0;
    for (int i = 0; i < parameter; i++) {
        at = parameter_at(at, &size);
        GY_ASSERT(at != NULL);
    }
    parameter_at(at, &size);
    gy_print(name, 32, "%.*s", (int)size, at);
    return at[size] != '=';
}

const char *gy_dml_arg_name(const gy_dml_call *call, int i, char out[96])
{
    char name[32] = "argument";
    if (i < gy_dml_builtin_parameters(call->builtin)) {
        gy_dml_builtin_needs(call->builtin, i, name);
    }
    gy_print(out, 96, "%s: %s", call->builtin->name, name);
    return out;
}

gy_status gy_dml_arg_real(const gy_dml_call *call, int i, double *out)
{
    char name[96];
    return gy_dml_has(call, i)
               ? gy_dml_as_real(&call->args[i], gy_dml_arg_name(call, i, name), out)
               : GY_OK;
}

gy_status gy_dml_arg_integer(const gy_dml_call *call, int i, int64_t *out)
{
    char name[96];
    return gy_dml_has(call, i)
               ? gy_dml_as_integer(&call->args[i], gy_dml_arg_name(call, i, name), out)
               : GY_OK;
}

gy_status gy_dml_arg_boolean(const gy_dml_call *call, int i, bool *out)
{
    char name[96];
    return gy_dml_has(call, i)
               ? gy_dml_as_boolean(&call->args[i], gy_dml_arg_name(call, i, name), out)
               : GY_OK;
}

gy_status gy_dml_arg_text(const gy_dml_call *call, int i, const char **out)
{
    char name[96];
    if (!gy_dml_has(call, i)) {
        return GY_OK;
    }
    if (call->args[i].kind != GY_DML_IS_TEXT) {
        return gy_fail(GY_TYPE, "%s: expected a string, found %s",
                       gy_dml_arg_name(call, i, name),
                       gy_dml_value_kind_text(call->args[i].kind));
    }
    *out = call->args[i].text->data;
    return GY_OK;
}

gy_status gy_dml_arg_matrix(const gy_dml_call *call, int i, gy_dml_matrix **out)
{
    char name[96];
    return gy_dml_as_matrix(&call->args[i], gy_dml_arg_name(call, i, name), out);
}

const char *gy_dml_state_path(const gy_dml_state *state, const char *path, char out[4096])
{
    const bool is_whole = path[0] == '/' || state->folder == NULL;
    gy_print(out, 4096, "%s%s%s", is_whole ? "" : state->folder, is_whole ? "" : "/", path);
    return out;
}

/* Edit distance in which two letters that changed places count once (Damerau 1964), by rows
 * (Wagner and Fischer 1974). */
bool gy_dml_is_near(const char *name, const char *other)
{
    enum { LONGEST = 40 };
    const size_t m = strlen(name), n = strlen(other);
    int rows[3][LONGEST + 1]; /* of i letters of `name`: row i % 3 */
    if (m > LONGEST || n > LONGEST) {
        return false;
    }
    for (size_t j = 0; j <= n; j++) {
        rows[0][j] = (int)j;
    }
    for (size_t i = 1; i <= m; i++) {
        int *const row = rows[i % 3];
        const int *const above = rows[(i - 1) % 3];
        row[0] = (int)i;
        for (size_t j = 1; j <= n; j++) {
            const int change = above[j - 1] + (name[i - 1] != other[j - 1]);
            row[j] = GY_MIN(change, 1 + GY_MIN(above[j], row[j - 1]));
            if (i > 1 && j > 1 && name[i - 1] == other[j - 2] && name[i - 2] == other[j - 1]) {
                row[j] = GY_MIN(row[j], rows[(i - 2) % 3][j - 2] + 1);
            }
        }
    }
    const int distance = rows[m % 3][n];
    return distance <= 3 && distance * 3 <= (int)GY_MAX(m, n);
}
