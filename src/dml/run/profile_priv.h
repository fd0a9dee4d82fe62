/** What instructions cost while a script runs with statistics. */
#ifndef GY_DML_RUN_PROFILE_PRIV_H
#define GY_DML_RUN_PROFILE_PRIV_H

#include "dml/run/run_priv.h"

int64_t gy_dml_profile_now(void);
/** Count an instruction that began at `begun_ns`; jumps are left out. */
void gy_dml_profile_note(gy_dml_profile *profile, const gy_dml_function *function,
                         const gy_dml_instruction *at, int64_t begun_ns);
void gy_dml_profile_add(gy_dml_profile *profile, const gy_dml_profile *other);
void gy_dml_profile_fini(gy_dml_profile *profile);
/** Times, memory, and the `most` costliest instructions as lines. */
void gy_dml_profile_text(const gy_dml_script *script, int most, gy_text *text);

#endif
