/**
 * Training by parameter servers in virtual time: the parts and rules of tables as they are,
 * real gradients of logistic regression, and workers whose clocks are drawn from a seed.
 *
 * Reading order: logistic.c gradients and losses with arithmetic that is alike everywhere ·
 * simulate.c workers, time and the public call.
 */
#ifndef GY_PS_VIRTUAL_SIMULATE_H
#define GY_PS_VIRTUAL_SIMULATE_H

#include "base/base.h"

#include <gyre/data.h>
#include <gyre/ps.h>

/** Rows as the simulation has them: labels 0 or 1; a constant feature is the last. */
typedef struct ps_sample_rows {
    const gy_libsvm *rows;
    uint8_t *labels; /* (rows) */
    size_t width;    /* features and the constant one */
} ps_sample_rows;

/** gradient (width) += share * that of the log loss of row `index` at w (width). */
void gy_ps_logistic_add(const ps_sample_rows *data, const double *w, size_t index, double share,
                        double *gradient);
/** The mean log loss of all rows at w. */
double gy_ps_logistic_loss(const ps_sample_rows *data, const double *w);

#endif
