/**
 * The functions that scripts have from the start: one table, builtins.def, from which calls are
 * bound, help is printed and tests are made.
 *
 *     const gy_dml_builtin *of = gy_dml_builtin_find("removeEmpty");
 *     int at = gy_dml_builtin_parameter(of, "margin");
 */
#ifndef GY_DML_BUILTINS_BUILTINS_H
#define GY_DML_BUILTINS_BUILTINS_H

#include "dml/values/values.h"

enum { GY_DML_PARAMETERS_MAX = 16, GY_DML_RESULTS_MAX = 8 };

/** What a running script has beside its values. */
typedef struct gy_dml_state gy_dml_state;
struct gy_dml_state {
    void (*print)(void *arg, const char *text, size_t size);
    void *print_arg;
    gy_random random; /* for draws without a seed */
    char *folder;     /* of setwd; NULL: the process's */
    /* Call a function by name with the items of a list, named or in order: eval. */
    gy_status (*call)(gy_dml_state *state, const char *name, const gy_dml_list *args,
                      gy_dml_value *result);
    int64_t begun_ns;
};

typedef struct gy_dml_builtin gy_dml_builtin;

/** One call: arguments in the order of the parameters, GY_DML_IS_NOTHING where left out, then,
 * of a function with "...", the further ones. */
typedef struct gy_dml_call {
    gy_dml_state *state;
    const gy_dml_builtin *builtin;
    gy_dml_value *args;
    const char *const *names; /* (count) of the further arguments; NULL: without */
    int count;
    int wanted;            /* results: 0 or more */
    gy_dml_value *results; /* (GY_DML_RESULTS_MAX), nothing at first; the caller drops them */
} gy_dml_call;

struct gy_dml_builtin {
    const char *name;
    const char *signature; /* "target, margin, select=" : with "=" it may be left out */
    gy_status (*run)(gy_dml_call *call);
    int results; /* how many it has */
    const char *meaning;
};

/** NULL: no such function. @cost O(log n) */
const gy_dml_builtin *gy_dml_builtin_find(const char *name);
/** Why a function of SystemDS is not there, for an error; NULL: none that is known. */
const char *gy_dml_builtin_absent(const char *name);
extern const gy_dml_builtin gy_dml_builtins[];
extern const int gy_dml_builtin_count;

/** Parameters of the signature, "..." left out. */
int gy_dml_builtin_parameters(const gy_dml_builtin *builtin);
bool gy_dml_builtin_is_open(const gy_dml_builtin *builtin); /* ends with "..." */
/** The place of a parameter by name; -1: none. */
int gy_dml_builtin_parameter(const gy_dml_builtin *builtin, const char *name);
/** The name of a parameter into `name`; whether it must be given. */
bool gy_dml_builtin_needs(const gy_dml_builtin *builtin, int parameter, char name[32]);

/** The file of a script's path: below the folder of setwd unless it is absolute. */
const char *gy_dml_state_path(const gy_dml_state *state, const char *path, char out[4096]);

/** Edit distance at most 3 and a third of the name: worth naming in an error. */
bool gy_dml_is_near(const char *name, const char *other);

#endif
