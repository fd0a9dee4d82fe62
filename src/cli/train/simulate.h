/**
 * `--simulate` of `gyre train`: a table of meshes, with a step of each on a virtual clock.
 */
#ifndef GY_CLI_TRAIN_SIMULATE_H
#define GY_CLI_TRAIN_SIMULATE_H

#include <gyre/simulate.h>

/** The training that is simulated. */
typedef struct gy_cli_step {
    const char *model; /* its name */
    gy_virtual_cluster cluster;
    const char *mesh;  /* of --mesh; NULL: the meshes that are worth a look */
    const char *unit;  /* "samples", "characters" */
    double per_sample; /* of these in a sample */
    gy_dataset *train;
    gy_train_options options;
    /* A new model on the mesh; NULL: of this process, with the workers that a rank has. */
    gy_status (*make)(void *arg, gy_mesh *mesh, gy_model **model);
    void *arg;
} gy_cli_step;

/** Print the table. Reports failures; returns the exit status. */
int gy_cli_simulate_step(const gy_cli_step *of);

#endif
