/**
 * `--simulate` of `gyre train`: a table of meshes, with a step of each on a virtual clock.
 */
#ifndef GY_CLI_TRAIN_SIMULATE_H
#define GY_CLI_TRAIN_SIMULATE_H

#include "cli/train/mesh.h"

/** Print the table. Reports failures; returns the exit status. */
int gy_cli_simulate_step(const gy_cli_step *of);

#endif
