/**
 * What `gyre info` says about the kernels.
 */
#ifndef GY_OPS_KERNELS_KERNELS_H
#define GY_OPS_KERNELS_KERNELS_H

#include "base/base.h"

/**
 * Add lines on the instruction set of the tiles and on OpenBLAS and oneDNN: version, the core
 * type each chose, or which Debian package is missing and what runs instead. Opens both.
 * Returns the text so far.
 * @threads any
 */
const char *gy_kernels_describe(gy_text *text);

#endif
