/* Data types of gyre train. */
#include "cli/train/types.h"

#include "cli/cli.h"
#include "cli/report.h"

#include <string.h>

gy_dtype gy_cli_type_of(const char *name)
{
    static const gy_dtype types[] = {GY_F32, GY_BF16, GY_F16};
    return types[gy_cli_options_choice(PRECISIONS, name)];
}

int gy_cli_types_check(const char *dtype, const char *precision, const char *exchange)
{
    const char *const given[][2] = {{"precision", precision}, {"exchange", exchange}};
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        if (strcmp(given[i][1], "f32") != 0 && strcmp(dtype, "f32") != 0) {
            return gy_cli_report_usage("gyre train: --%s %s and --dtype %s exclude each other",
                                       given[i][0], given[i][1], dtype);
        }
    }
    return GY_EXIT_OK;
}
