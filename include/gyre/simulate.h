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
    double near_bytes_s; /* of a rank's link to the ranks of its host, each way; 0: this host's
                            shared memory */
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
/** Ranks of the cluster. @threads any */
GY_API int gy_virtual_cluster_ranks(const gy_virtual_cluster *cluster);

/** A mesh that is worth a look. */
typedef struct gy_virtual_mesh {
    char axes[64]; /* "data=4,pipe=2,model=8" */
    int zero;      /* stage of ZeRO along data */
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
    int ranks, stages;
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
 *         neither rates nor operations a second are known; as gy_train_explain; GY_UNSUPPORTED
 *         several stages a rank along pipe; GY_NOMEM
 * @threads owner
 * @cost compiling one update, and about 1 us a node of each stage
 */
GY_API GY_MUST_CHECK gy_status gy_train_simulate_step(gy_model *model,
                                                      const gy_train_options *options,
                                                      const gy_virtual_cluster *cluster,
                                                      const gy_kernel_rates *rates,
                                                      gy_virtual_step *step);

#ifdef __cplusplus
}
#endif
#endif
