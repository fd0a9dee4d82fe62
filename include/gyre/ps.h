/**
 * Parameter servers: tables of parameters that live on servers. Workers pull rows, compute,
 * push gradients and say that a clock is over; the servers apply the update. How far workers
 * may be ahead of each other is the table's rule (gy_ps_sync).
 *
 *     gy_ps_open(&GY_OPTIONS(gy_ps_options, .servers = "h:7900", .worker = 0, .workers = 2),
 * &ps); gy_ps_table_open(ps, "emb", &GY_OPTIONS(gy_ps_table_options, .width = 8, .is_sparse =
 * true, .update = GY_PS_ADAGRAD, .sync = gy_ps_ssp(4)), &t); gy_ps_pull(t, keys, n, rows, &r1);
 *     gy_ps_wait(r1, deadline);
 *     gy_ps_push(t, keys, n, gradients, &r2);
 *     gy_ps_clock(t);
 *
 * A push is applied once, whatever connections do. Lecture D, "Distributed Parameter Servers";
 * lecture B, "Parameter Server Abstraction".
 */
#ifndef GYRE_PS_H
#define GYRE_PS_H

#include <gyre/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How a server applies a gradient g to a row w. r: the rate; the bits are those of gy_train's
 * optimizers. */
typedef enum gy_ps_update {
    GY_PS_SUM,      /* w += g, also of whole numbers */
    GY_PS_SGD,      /* w -= r g */
    GY_PS_MOMENTUM, /* v = m v + g;  w -= r v */
    GY_PS_NESTEROV, /* v = m v + g;  w -= r (g + m v) */
    GY_PS_ADAGRAD,  /* s += g²;  w -= r g / (sqrt(s) + e)  (Duchi et al., JMLR 2011) */
    GY_PS_ADAM,     /* Kingma & Ba, ICLR 2015 */
    GY_PS_ADAMW,    /* Loshchilov & Hutter, ICLR 2019 */
    GY_PS_FTRL,     /* FTRL-proximal with l1 and l2 (McMahan et al., KDD 2013) */
    GY_PS_FUNCTION, /* a function that the serving program has registered */
    GY_PS_UPDATES
} gy_ps_update;

/** What a pull after c calls of gy_ps_clock waits for. */
typedef enum gy_ps_rule {
    GY_PS_BSP,      /* every live worker has made c calls; a clock's pushes are summed in the
                       order of workers and applied once */
    GY_PS_ASP,      /* nothing; pushes are applied at once */
    GY_PS_SSP,      /* every live worker has made c - bound calls; applied at once */
    GY_PS_BACKUP,   /* all live workers but `bound` have made c calls: a clock is closed by the
                       first of them, and what the others push for it is dropped and counted */
    GY_PS_WEIGHTED, /* nothing; a push is scaled by 1 / (1 + updates its worker has not seen) */
    GY_PS_RULES
} gy_ps_rule;

/** Zero: BSP. */
typedef struct gy_ps_sync {
    gy_ps_rule rule;
    uint32_t bound; /* of SSP and BACKUP */
} gy_ps_sync;

static inline gy_ps_sync gy_ps_bsp(void)
{
    gy_ps_sync sync = {GY_PS_BSP, 0};
    return sync;
}
static inline gy_ps_sync gy_ps_asp(void)
{
    gy_ps_sync sync = {GY_PS_ASP, 0};
    return sync;
}
static inline gy_ps_sync gy_ps_ssp(uint32_t staleness)
{
    gy_ps_sync sync = {GY_PS_SSP, staleness};
    return sync;
}
static inline gy_ps_sync gy_ps_backup(uint32_t workers)
{
    gy_ps_sync sync = {GY_PS_BACKUP, workers};
    return sync;
}
static inline gy_ps_sync gy_ps_weighted(void)
{
    gy_ps_sync sync = {GY_PS_WEIGHTED, 0};
    return sync;
}

/**
 * Read "bsp", "asp", "ssp:4", "backup:1" or "weighted".
 * @return GY_OK; GY_ARG the text is none of them
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_ps_sync_read(const char *text, gy_ps_sync *sync);

/** "ssp:4"; `out` (size_bytes >= 24). @threads any */
GY_API void gy_ps_sync_print(gy_ps_sync sync, char *out, size_t size_bytes);

/** A table. Those who open it by one name have to agree on all of it. */
typedef struct gy_ps_table_options {
    size_t struct_size;
    gy_dtype dtype;   /* GY_F32 (the default), GY_F64, or GY_I64 with GY_PS_SUM */
    uint32_t width;   /* values of a row; 0: 1 */
    bool is_sparse;   /* keys are any 64-bit numbers, and rows appear when first pushed */
    uint64_t rows;    /* of a dense table: its keys are 0 .. rows - 1 */
    bool is_by_range; /* a sparse table's keys go to servers by range rather than by hash */
    gy_ps_update update;
    gy_ps_sync sync;
    double rate;           /* 0: 0.01, of Adam and AdamW 0.001; alpha of FTRL */
    double momentum;       /* 0: 0.9 */
    double beta1, beta2;   /* 0: 0.9 and 0.999 */
    double epsilon;        /* 0: 1e-8 */
    double weight_decay;   /* g += d w, of AdamW w -= r d w */
    double l1, l2;         /* of FTRL */
    double ftrl_beta;      /* 0: 1 */
    const char *function;  /* of GY_PS_FUNCTION: its name at the servers */
    bool takes_non_finite; /* pushes may have infinities and NaN */
    double
        initial_range; /* a new row's values are uniform in [-range, range), by seed and key */
    uint64_t seed;
} gy_ps_table_options;

#ifdef __cplusplus
}
#endif
#endif
