/**
 * `gyre ps`: parameter servers.
 */
#ifndef GY_CLI_PS_PS_H
#define GY_CLI_PS_PS_H

#include <gyre/ps.h>

/** Print what gy_ps_bench measures, `duration_s` for each figure. Returns the exit status. */
int gy_cli_ps_bench(const char *key_file, double duration_s, bool has_stats);

/** What the options of `gyre ps simulate` say. */
typedef struct gy_cli_simulation {
    const char *model, *data, *more_data, *sync;
    long long workers, batch, seed;
    double rate;
    bool is_csv;
} gy_cli_simulation;
/** Rules against stragglers in virtual time. Returns the exit status. */
int gy_cli_ps_simulate(const gy_cli_simulation *simulation);

#endif
