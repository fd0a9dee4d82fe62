/**
 * `gyre ps`: parameter servers.
 */
#ifndef GY_CLI_PS_PS_H
#define GY_CLI_PS_PS_H

#include <gyre/ps.h>

/** Measure a server of this host beside plain sockets, a row for each size. `duration_s`: for
 * each figure. Returns the exit status. */
int gy_cli_ps_bench(const char *key_file, bool is_plaintext, double duration_s);

#endif
