/**
 * A step of training before it runs: a model, a mesh and a cluster that need not exist give
 * the time of a step on a virtual clock, with what each rank computes, waits for, sends and
 * holds.
 *
 * Ranks that are alike, which is all of a stage, are simulated once. What a node of the graph
 * costs follows from its operations and bytes; an exchange is played as the cheapest plan
 * (<gyre/plan.h>) up to 16 ranks and costed by its closed formula beyond.
 *
 * @source lecture C, "Hierarchical"; the α-β model; roofline: Williams, Waterman, Patterson
 * 2009
 */
#ifndef GYRE_SIMULATE_H
#define GYRE_SIMULATE_H

#include <gyre/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Hosts with equal ranks, rank r on host r / ranks_per_host. */
typedef struct gy_virtual_cluster {
    int hosts, ranks_per_host;
    double near_bytes_s; /* of a rank's link to the ranks of its host, each way; 0: shared
                            memory, as this host's */
    double far_bytes_s;  /* of a host's link to other hosts, each way, which its ranks share */
    double near_latency_s; /* of a message */
    double far_latency_s;
    double flops_s;        /* operations of a rank; 0: not known, kernels are measured */
    double memory_bytes_s; /* of a rank's memory; 0: flops_s / 100 */
    uint64_t memory_bytes; /* that a rank has; 0: no limit */
} gy_virtual_cluster;

/**
 * Parse "hosts=512,gpus=8,near=450GB/s,far=50GB/s,flops=400T". Keys: hosts, gpus (ranks of a
 * host; both 1 where they are not given), near, far (B/s with k, M, G, T, Ki, Mi, Gi, or
 * bit/s), near-latency, far-latency (ns, us, ms, s; 2us and 5us), flops (k, M, G, T, P),
 * bandwidth (of memory, as near), memory (bytes).
 *
 * @return GY_OK; GY_ARG names key, value and what was expected; of an unknown key the nearest
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_virtual_cluster_parse(const char *text,
                                                        gy_virtual_cluster *cluster);
/**
 * Lay the settings of a text over a cluster, whose number of ranks they may not change: of
 * hosts and gpus one follows from the other.
 * @return as gy_virtual_cluster_parse; GY_ARG another number of ranks. *cluster is untouched
 * then
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_virtual_cluster_adjust(const char *text,
                                                         gy_virtual_cluster *cluster);
/**
 * The hosts and links of the ranks of a communicator: links as measured by `gyre tune`, else
 * built-in figures; without flops_s and memory_bytes. Where hosts have not as many ranks each,
 * or not side by side, each rank counts as a host. Collective.
 *
 * @param comm  NULL: one rank
 * @return GY_OK; as gy_comm_split
 * @threads owner
 */
GY_API GY_MUST_CHECK gy_status gy_virtual_cluster_of(gy_comm *comm,
                                                     gy_virtual_cluster *cluster);
/** Ranks of the cluster. @threads any */
GY_API int gy_virtual_cluster_ranks(const gy_virtual_cluster *cluster);

/** A mesh that is worth a look. */
typedef struct gy_virtual_mesh {
    char axes[64];         /* "data=4,pipe=2,model=8", the last one joins neighbours */
    int data, pipe, model; /* its sizes; not read */
    int zero;              /* stage of ZeRO along data */
} gy_virtual_mesh;
enum { GY_VIRTUAL_MESHES_MAX = 8 };
/**
 * Up to 8 meshes of all ranks: data alone, with state in parts, with operators cut inside a
 * host, with stages, and with both. None gives a rank along data no row.
 *
 * @param batch   rows of the global batch
 * @param meshes  (GY_VIRTUAL_MESHES_MAX)
 * @return how many; 0: no mesh of these ranks has a row for each
 * @threads any
 */
GY_API int gy_virtual_meshes(const gy_virtual_cluster *cluster, int64_t batch,
                             gy_virtual_mesh *meshes);

/**
 * All meshes data x pipe x model of the cluster's ranks that give each rank along data a row.
 * Where ranks of several hosts are near and far, the same sizes stand in up to three orders:
 * model inside (neighbours along it are of one host where it is no larger), with pipe or data
 * outside; or data inside, pipe outside. On one host the order does not matter.
 *
 * @param batch   rows of the global batch, >= 1
 * @param meshes  (capacity) those with model inside a host first, of these those with few
 *                stages; capacity >= 1
 * @return how many there are, also more than `capacity`
 * @threads any
 * @cost ranks x (capacity + divisors of it)
 */
GY_API int gy_virtual_meshes_all(const gy_virtual_cluster *cluster, int64_t batch,
                                 gy_virtual_mesh *meshes, int capacity);

/**
 * A mesh of the cluster's ranks, for models that are simulated: what would run on it fails with
 * GY_STATE. Caller owns it; gy_mesh_free.
 * @return GY_OK; GY_ARG as gy_mesh_new, or far_bytes_s is needed; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_mesh_virtual(const gy_virtual_cluster *cluster,
                                               const char *axes, gy_mesh **mesh);

/**
 * Time of a collective over `ranks` ranks that are `apart` from each other, as a step of
 * the cluster reckons with it.
 *
 * @param operation  "allreduce", "reduce-scatter", "allgather" or "alltoall"
 * @param bytes      of the whole vector; all-to-all: of what one rank has
 * @return GY_OK; GY_ARG another operation, or ranks that the cluster does not have; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_virtual_exchange(const gy_virtual_cluster *cluster, int ranks,
                                                   int apart, const char *operation,
                                                   double bytes, double *time_s);

/** How long kernels take, by operator, as a run found. */
typedef struct gy_kernel_rates gy_kernel_rates;
/** NULL is fine. */
GY_API void gy_kernel_rates_free(gy_kernel_rates *rates);
/**
 * Run some batches of the training on one process, and measure its nodes. The model's
 * parameters change.
 *
 * @param model  of this process alone, with as many workers as a rank shall have
 * @return GY_OK; as gy_train; GY_STATE the model is of several ranks
 * @cost some steps of `options->batch` rows and of a quarter of them
 */
GY_API GY_MUST_CHECK gy_status gy_train_measure(gy_model *model, gy_dataset *train,
                                                const gy_train_options *options,
                                                gy_kernel_rates **rates);

/** A step on the virtual clock. Times are means over all ranks: computing, exposed
 * communication and bubble add up to the step. */
typedef struct gy_virtual_step {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    int ranks, stages;  /* stages of all ranks together */
    double time_s;
    double compute_s;
    double exposed_s; /* nothing computes, and an exchange or a message is under way */
    double bubble_s;  /* nothing is: a stage waits for another one that still computes */
    int64_t samples;
    double sent_bytes;        /* by the rank that sends most */
    uint64_t memory_bytes;    /* held by the rank that holds most */
    uint64_t parameter_bytes; /* of it: parameters and the optimizer's state */
} gy_virtual_step;

/**
 * Play one update of `options` on a virtual clock.
 *
 * @param model    made on a gy_mesh_virtual of the cluster; its graph is built anew
 * @param rates    NULL: by cluster->flops_s
 * @param step     struct_size is read, the rest set
 * @return GY_OK; GY_ARG a batch with fewer rows than ranks along data or micro-batches, an
 *         option, a schedule; GY_STATE the model's mesh is of another number of ranks, or
 *         neither rates nor operations a second are known; as gy_train_explain; GY_NOMEM
 * @threads owner
 * @cost compiling one update, and about 1 us a node of each stage
 */
GY_API GY_MUST_CHECK gy_status gy_train_simulate_step(gy_model *model,
                                                      const gy_train_options *options,
                                                      const gy_virtual_cluster *cluster,
                                                      const gy_kernel_rates *rates,
                                                      gy_virtual_step *step);

/* ---- The choice of a mesh ---- */

/** A training whose mesh is looked for. */
typedef struct gy_mesh_search {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    gy_virtual_cluster cluster;
    /* batch is given. micro_batches, pipe_schedule, pipe_lists, chunks and cut hold where there
       are stages, micro_batches elsewhere too; without micro_batches stages have those that
       cost least. memory_bytes is not read: cluster.memory_bytes is. */
    const gy_train_options *options;
    const gy_kernel_rates *rates; /* NULL: by cluster.flops_s; where that is 0, measured */
    gy_dataset *train;            /* for measuring */
    /* A new model on the mesh; NULL: of this process, with the workers that a rank has. */
    gy_status (*make)(void *arg, gy_mesh *mesh, gy_model **model);
    void *arg;
} gy_mesh_search;

/** A mesh, and what a step on it costs. Plain bytes. */
typedef struct gy_mesh_trial {
    gy_virtual_mesh mesh;
    int micro_batches; /* 0: the batch is not split */
    char schedule[16]; /* of its stages; "": as the options say, else 1f1b */
    gy_virtual_step step;
    bool is_played, fits; /* in cluster.memory_bytes, if there is a limit */
    char why[256];        /* it was not played */
} gy_mesh_trial;

/** The options of a training on the mesh of a trial: its micro-batches, schedule and stage of
 * ZeRO; nothing of stages where it has none. The strings are the trial's. GY_ARG */
GY_API GY_MUST_CHECK gy_status gy_mesh_trial_options(const gy_mesh_trial *trial,
                                                     const gy_train_options *given,
                                                     gy_train_options *options);
/**
 * Play one step of the search's training on the trial's mesh. A mesh that cannot be is no
 * failure: `why` says what stands against it.
 *
 * @param rates  NULL: by cluster.flops_s
 * @param trial  axes, zero, micro_batches and schedule are read
 * @return GY_OK; GY_NOMEM
 * @threads owner
 * @cost as gy_train_simulate_step
 */
GY_API GY_MUST_CHECK gy_status gy_mesh_trial_play(const gy_mesh_search *search,
                                                  const gy_kernel_rates *rates,
                                                  gy_mesh_trial *trial);
/** Sort trials by use: those that fit first, then the faster ones; those that were not played
 * last. */
GY_API void gy_mesh_trials_sort(gy_mesh_trial *trials, int count);

enum { GY_MESH_TRIALS_MAX = 64 };
/** What gy_mesh_choose found. */
typedef struct gy_mesh_choice {
    gy_mesh_trial trials[GY_MESH_TRIALS_MAX]; /* sorted; the first is the choice */
    int count;
    int left;        /* meshes that were not looked at, since there are so many */
    bool is_nominal; /* kernels count by nominal rates: one rank cannot hold what was to be
                        measured */
} gy_mesh_choice;

/**
 * Choose the mesh of a training by the cost of its step: of gy_virtual_meshes_all, under the
 * memory limit, with the number of micro-batches and the schedule that cost least where there
 * are stages and the options leave them open (4 a stage or whole batches for all meshes; for
 * the three best 1, 2 and 8 a stage and zb-h1 too).
 *
 * @param comm    its rank 0 looks, and all have trials[0]; the others know no more, their count
 *                is 1. NULL: no ranks. Collective.
 * @param choice  set also after GY_LIMIT, on rank 0
 * @return GY_OK; GY_UNSUPPORTED the options ask for a device, whose kernels are not measured,
 * and cluster.flops_s is not given; GY_ARG no mesh can be used, with the first reason; GY_LIMIT
 * none fits in memory_bytes: names the one that needs least; as gy_train_measure; GY_NOMEM
 * @threads owner
 * @cost a gy_train_simulate_step for each of up to GY_MESH_TRIALS_MAX meshes, and some more
 */
GY_API GY_MUST_CHECK gy_status gy_mesh_choose(const gy_mesh_search *search, gy_comm *comm,
                                              gy_mesh_choice *choice);

#ifdef __cplusplus
}
#endif
#endif
