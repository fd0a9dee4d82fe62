/** What grep.c and top.c share with the builders of jobs. */
#ifndef GY_MAPREDUCE_MAPS_MAPS_H
#define GY_MAPREDUCE_MAPS_MAPS_H

#include "base/text.h"

#include <gyre/mapreduce.h>

typedef struct gy_top_parameter {
    int32_t field, weight_field;
    int64_t k;
    int32_t separator; /* a byte; 0: spaces and tabs */
    int32_t is_strict;
} gy_top_parameter;

/** Write the parameter. GY_ARG: no pattern; GY_NOMEM */
GY_MUST_CHECK gy_status gy_mapreduce_grep_parameter(const gy_grep_options *options,
                                                    gy_text *parameter);

#endif
