/**
 * `gyre ps`: parameter servers.
 */
#ifndef GY_CLI_PS_PS_H
#define GY_CLI_PS_PS_H

#include <gyre/ps.h>

/** Print what gy_ps_bench measures, `duration_s` for each figure. Returns the exit status. */
int gy_cli_ps_bench(const char *key_file, double duration_s, bool has_stats);

#endif
