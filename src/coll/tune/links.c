/* Measures what links cost: alpha and beta of each class between the ranks, and gamma. */
#include "coll/tune/tune_priv.h"

#include <string.h>

enum { SAMPLES = 9, TINY_CALLS = 32, SMALL = 16 << 10, LARGE = 256 << 10 };

/* A figure of 0 or below is noise, so it is raised to these. */
#define LEAST_ALPHA 1e-9
#define LEAST_BETA  1e-13

static gy_status median_of(gy_tuner *tuner, const gy_coll_call *call, const char *name,
                           int calls, double *seconds)
{
    GY_ASSERT(calls > 0);
    double samples[SAMPLES];
    GY_TRY(gy_tune_time(tuner, call, name, calls, &samples[0]));
    for (int i = 0; i < SAMPLES; i++) {
        GY_TRY(gy_tune_time(tuner, call, name, calls, &samples[i]));
    }
    *seconds = gy_tune_median(samples, SAMPLES);
    return gy_tune_agree(tuner, seconds, 1);
}

static void note(gy_tuner *tuner, gy_link_class link, double alpha, double beta)
{
    GY_ASSERT((unsigned)link < GY_LINK_CLASSES);
    tuner->tuning->links[link] = (gy_link_figures){.alpha = GY_MAX(alpha, LEAST_ALPHA),
                                                   .beta = GY_MAX(beta, LEAST_BETA),
                                                   .is_measured = true};
}

/* Measures the speed of one core, with both operands in its caches. */
static gy_status measure_gamma(gy_tuner *tuner, gy_dtype dtype, gy_type_class type)
{
    double samples[SAMPLES];
    gy_coll_combine loop = gy_coll_combine_of(dtype, GY_SUM);
    size_t count = LARGE / gy_dtype_bytes(dtype);
    GY_ASSERT(loop != NULL && (unsigned)type < GY_TYPE_CLASSES);
    for (int i = 0; i < SAMPLES; i++) {
        double begin = gy_tune_now(tuner);
        loop(tuner->out, tuner->in, tuner->out, count);
        samples[i] = (gy_tune_now(tuner) - begin) / LARGE;
    }
    tuner->tuning->gamma[type] = GY_MAX(gy_tune_median(samples, SAMPLES), LEAST_BETA);
    return gy_tune_agree(tuner, &tuner->tuning->gamma[type], 1);
}

static gy_status measure_word(gy_tuner *tuner)
{
    GY_ASSERT(tuner->comm->shared != NULL);
    double seconds = 0;
    const gy_coll_call tiny = {.operation = GY_OPERATION_ALLREDUCE,
                               .dtype = GY_F64,
                               .count = 1,
                               .in = tuner->in,
                               .out = tuner->out};
    GY_TRY(median_of(tuner, &tiny, NULL, TINY_CALLS, &seconds));
    note(tuner, GY_LINK_WORD, seconds, 0);
    return GY_OK;
}

/* An allgather reads p - 1 parts from peers and copies its own `copies` times: the slope over
 * its part is (p - 1) beta + copies * gamma. */
static gy_status measure_reads(gy_tuner *tuner, const char *name, gy_link_class link,
                               int copies)
{
    bool is_direct = link == GY_LINK_DIRECT;
    size_t room = GY_TUNE_LARGEST / (size_t)tuner->comm->size;
    size_t sizes[] = {SMALL, GY_MIN((size_t)LARGE, room)};
    double seconds[2];
    GY_ASSERT(tuner->comm->size > 1);
    GY_ASSERT(!is_direct || tuner->shared_in != NULL);
    if (sizes[0] >= sizes[1]) {
        return GY_OK; /* the buffers are too small for so many ranks */
    }
    for (int i = 0; i < 2; i++) {
        const gy_coll_call call = {.operation = GY_OPERATION_ALLGATHER,
                                   .dtype = GY_U8,
                                   .count = sizes[i],
                                   .in = is_direct ? tuner->shared_in : tuner->in,
                                   .out = is_direct ? tuner->shared_out : tuner->out};
        GY_TRY(median_of(tuner, &call, name, 1, &seconds[i]));
    }
    double slope = (seconds[1] - seconds[0]) / (double)(sizes[1] - sizes[0]);
    double reads = slope - copies * tuner->tuning->gamma[GY_TYPE_PLAIN];
    note(tuner, link, tuner->tuning->links[GY_LINK_WORD].alpha,
         reads / (tuner->comm->size - 1));
    return GY_OK;
}

/* Measures half a round trip between rank 0 and `peer`; other ranks get 0. */
static gy_status ping(gy_tuner *tuner, int peer, size_t bytes, double *seconds)
{
    gy_comm *comm = tuner->comm;
    double samples[SAMPLES + 1];
    GY_ASSERT(peer > 0 && peer < comm->size);
    GY_ASSERT(bytes <= GY_TUNE_LARGEST);
    *seconds = 0;
    for (int i = 0; i <= SAMPLES && (comm->rank == 0 || comm->rank == peer); i++) {
        double begin = gy_tune_now(tuner);
        int other = comm->rank == 0 ? peer : 0;
        for (int way = 0; way < 2; way++) {
            bool is_sender = (way == 0) == (comm->rank == 0);
            GY_TRY(is_sender ? gy_send(comm, tuner->in, bytes, GY_U8, other, 0)
                             : gy_recv(comm, tuner->out, bytes, GY_U8, other, 0));
        }
        samples[i] = (gy_tune_now(tuner) - begin) / 2;
        *seconds = gy_tune_median(&samples[i > 0], (size_t)GY_MAX(i, 1));
    }
    return gy_tune_agree(tuner, seconds, 1);
}

static gy_status measure_messages(gy_tuner *tuner, gy_link_class link, bool is_far)
{
    const gy_comm *comm = tuner->comm;
    int peer = 1;
    GY_ASSERT((unsigned)link < GY_LINK_CLASSES);
    GY_ASSERT(comm->site.host_of != NULL);
    while (peer < comm->size && (comm->site.host_of[peer] != comm->site.host_of[0]) != is_far) {
        peer++;
    }
    if (peer == comm->size) {
        return GY_OK;
    }
    double small = 0, large = 0;
    GY_TRY(ping(tuner, peer, 8, &small));
    GY_TRY(ping(tuner, peer, LARGE, &large));
    note(tuner, link, small, (large - small) / LARGE);
    return GY_OK;
}

gy_status gy_tune_links(gy_tuner *tuner)
{
    const gy_comm *comm = tuner->comm;
    GY_ASSERT(comm->size > 1);
    GY_TRY(measure_gamma(tuner, GY_F32, GY_TYPE_PLAIN));
    GY_TRY(measure_gamma(tuner, GY_BF16, GY_TYPE_HALF));
    if (comm->shared != NULL) {
        GY_TRY(measure_word(tuner));
        GY_TRY(measure_reads(tuner, "staged", GY_LINK_STAGED, 2));
    }
    if (tuner->shared_in != NULL) {
        GY_TRY(measure_reads(tuner, "direct", GY_LINK_DIRECT, 1));
    }
    GY_TRY(measure_messages(tuner, comm->site.near, false));
    return comm->site.hosts.hosts > 1 ? measure_messages(tuner, GY_LINK_FAR, true) : GY_OK;
}
