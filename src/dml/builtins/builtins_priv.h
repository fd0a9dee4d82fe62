/** Arguments of builtins, checked; every function by its row. */
#ifndef GY_DML_BUILTINS_BUILTINS_PRIV_H
#define GY_DML_BUILTINS_BUILTINS_PRIV_H

#include "dml/builtins/builtins.h"
#include "dml/matrix/matrix.h"

static inline bool gy_dml_has(const gy_dml_call *call, int i)
{
    return call->args[i].kind != GY_DML_IS_NOTHING;
}

/* Argument i, or `out` as it is when it was left out. Errors name function and parameter. */
GY_MUST_CHECK gy_status gy_dml_arg_real(const gy_dml_call *call, int i, double *out);
GY_MUST_CHECK gy_status gy_dml_arg_integer(const gy_dml_call *call, int i, int64_t *out);
GY_MUST_CHECK gy_status gy_dml_arg_boolean(const gy_dml_call *call, int i, bool *out);
GY_MUST_CHECK gy_status gy_dml_arg_text(const gy_dml_call *call, int i, const char **out);
/** A matrix of its own hold, for gy_dml_matrix_drop; a scalar becomes one of 1x1. */
GY_MUST_CHECK gy_status gy_dml_arg_matrix(const gy_dml_call *call, int i, gy_dml_matrix **out);

/** "removeEmpty: margin" */
const char *gy_dml_arg_name(const gy_dml_call *call, int i, char out[96]);

/** Result 0; takes the hold. */
static inline gy_status gy_dml_give(gy_dml_call *call, gy_dml_matrix *matrix)
{
    call->results[0] = gy_dml_of_matrix(matrix);
    return GY_OK;
}
static inline gy_status gy_dml_give_real(gy_dml_call *call, double real)
{
    call->results[0] = gy_dml_of_real(real);
    return GY_OK;
}
static inline gy_status gy_dml_give_integer(gy_dml_call *call, int64_t whole)
{
    call->results[0] = gy_dml_of_integer(whole);
    return GY_OK;
}

#define GY_X(name, signature, run, results, meaning) gy_status gy_dml_run_##run(gy_dml_call *);
#include "dml/builtins/builtins.def"
#undef GY_X

#endif
