/**
 * Made or the test fails: variables and scopes of an engine.
 */
#ifndef GY_TESTS_ENGINE_KIT_H
#define GY_TESTS_ENGINE_KIT_H

#include <gyre/engine.h>

#include "gy_test.h"

static inline gy_var *kit_var(gy_engine *engine)
{
    gy_var *var = NULL;
    assert_ok(gy_var_new(engine, &var));
    return var;
}

static inline gy_scope *kit_scope(gy_engine *engine, gy_deadline deadline)
{
    gy_scope *scope = NULL;
    assert_ok(gy_scope_new(engine, deadline, &scope));
    return scope;
}

#endif
