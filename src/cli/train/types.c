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

/* Models are not of 16 bits; those who want it are told what trains with them. */
static int check_dtype(const char *dtype)
{
    const bool is_narrow = gy_cli_options_choice(PRECISIONS, dtype) > 0;
    if (gy_cli_options_choice(DTYPES, dtype) >= 0) {
        return GY_EXIT_OK;
    }
    return is_narrow ? gy_cli_report_usage("gyre train: --dtype: '%s' is not valid: expected "
                                           "one of %s; --precision %s trains with 16 bits",
                                           dtype, DTYPES, dtype)
                     : gy_cli_report_usage("gyre train: --dtype: '%s' is not valid: expected "
                                           "one of %s",
                                           dtype, DTYPES);
}

static int check_scale(const gy_cli_train_settings *said)
{
    if (said->loss_scale == 0) {
        return GY_EXIT_OK;
    }
    if (strcmp(said->precision, "f16") != 0) {
        return gy_cli_report_usage(
            "gyre train: --loss-scale needs --precision f16: %s has none", said->precision);
    }
    if ((said->loss_scale & (said->loss_scale - 1)) != 0) {
        return gy_cli_report_usage("gyre train: --loss-scale: '%lld' is not valid: expected a "
                                   "power of two, such as 65536",
                                   said->loss_scale);
    }
    return GY_EXIT_OK;
}

int gy_cli_types_check(const gy_cli_train_settings *said)
{
    const char *const given[][2] = {{"precision", said->precision},
                                    {"exchange", said->exchange}};
    const int status = check_dtype(said->dtype);
    if (status != GY_EXIT_OK) {
        return status;
    }
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        if (strcmp(given[i][1], "f32") != 0 && strcmp(said->dtype, "f32") != 0) {
            return gy_cli_report_usage("gyre train: --%s %s and --dtype %s exclude each other",
                                       given[i][0], given[i][1], said->dtype);
        }
    }
    return check_scale(said);
}
