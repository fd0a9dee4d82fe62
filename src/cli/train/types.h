/** What the options of a training say of data types. */
#ifndef GY_CLI_TRAIN_TYPES_H
#define GY_CLI_TRAIN_TYPES_H

#include <gyre/types.h>

#define PRECISIONS "f32|bf16|f16"
#define EXCHANGES  "f32|bf16"

/** The type of that name, one of PRECISIONS. */
gy_dtype gy_cli_type_of(const char *name);
/** Returns an exit status, reported: models of f64 have neither precision nor exchange. */
int gy_cli_types_check(const char *dtype, const char *precision, const char *exchange);

#endif
