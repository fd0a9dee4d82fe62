/**
 * Meshes of `gyre train` with what a step on them costs, as --simulate and --mesh auto print
 * them.
 */
#ifndef GY_CLI_TRAIN_MESH_H
#define GY_CLI_TRAIN_MESH_H

#include <gyre/simulate.h>

/** The training whose step is costed. */
typedef struct gy_cli_step {
    const char *model; /* its name */
    const char *mesh;  /* of --mesh; NULL: the meshes that are worth a look */
    const char *unit;  /* "samples", "characters" */
    double per_sample; /* of these in a sample */
    gy_train_options options;
    gy_mesh_search search; /* its options are these */
} gy_cli_step;

/** As many threads as a rank has where so many share this machine; >= 1. */
int gy_cli_cores_of(int ranks);
/** "1.5 GB", as --memory and the description of a cluster write it. */
const char *gy_cli_size_text(double bytes, char out[32]);
/** The line above a table: the training, `what` ("on"), the cluster, and what kernels cost
 * where it has no flops ("as measured here"). */
void gy_cli_mesh_head(const gy_cli_step *of, const char *what, const char *kernels);
/** Count a step that is simulated on standard error, where that is a terminal; false: clear it.
 */
void gy_cli_mesh_count(bool is_counted);
/** A row a mesh; `has_micros`: each has micro-batches of its own. */
void gy_cli_mesh_table(const gy_cli_step *of, const gy_mesh_trial *trials, int count,
                       bool has_micros);
/** The choice and the two next best, or all that fit, and what was left out and why. */
void gy_cli_mesh_choice(const gy_cli_step *of, const gy_mesh_choice *choice, bool is_all);

/** Check --cluster against --mesh and the number of ranks (0: not known yet). Reports what is
 * wrong; returns the exit status. */
int gy_cli_cluster_check(const char *text, const char *mesh, long long ranks);
/** The cluster that ranks run on, with what --cluster says of it (NULL: nothing). Collective.
 */
gy_status gy_cli_cluster_of(gy_comm *comm, const char *text, gy_virtual_cluster *cluster);

#endif
