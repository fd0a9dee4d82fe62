/** What the options of a training say of data types. */
#ifndef GY_CLI_TRAIN_TYPES_H
#define GY_CLI_TRAIN_TYPES_H

#include "cli/train/settings.h"

#include <gyre/types.h>

#define DTYPES     "f32|f64"
#define PRECISIONS "f32|bf16|f16"
#define EXCHANGES  "f32|bf16"

/** The type of that name, one of PRECISIONS. */
gy_dtype gy_cli_type_of(const char *name);
/** Returns an exit status, reported: models are of f32 or f64, those of f64 have neither
 * precision nor exchange, and f16 alone has a loss scale, a power of two. */
int gy_cli_types_check(const gy_cli_train_settings *said);

#endif
