/* Data types and the device of gyre train. */
#include "cli/train/types.h"

#include "cli/cli.h"
#include "cli/report.h"

#include <stdlib.h>
#include <string.h>

gy_dtype gy_cli_type_of(const char *name)
{
    static const gy_dtype types[] = {GY_F32, GY_BF16, GY_F16};
    return types[gy_cli_options_choice(PRECISIONS, name)];
}

/* -1: none; -2: it is no device. */
static int number_of(const char *device)
{
    char *rest = NULL;
    if (strcmp(device, "none") == 0) {
        return -1;
    }
    const long number = device[0] >= '0' && device[0] <= '9' ? strtol(device, &rest, 10) : -2;
    return rest != NULL && *rest == '\0' && number < 1000 ? (int)number : -2;
}

int gy_cli_device_of(const char *device)
{
    const int number = device != NULL ? number_of(device) : 0;
    return device == NULL ? 0 : number >= 0 ? 1 + number : -1;
}

int gy_cli_types_check(const char *dtype, const char *precision, const char *exchange,
                       const char *device)
{
    if (device != NULL && number_of(device) == -2) {
        return gy_cli_report_usage("gyre train: --device %s: expected none or a number from 0 "
                                   "to 999",
                                   device);
    }
    const char *const given[][2] = {{"precision", precision}, {"exchange", exchange}};
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        if (strcmp(given[i][1], "f32") != 0 && strcmp(dtype, "f32") != 0) {
            return gy_cli_report_usage("gyre train: --%s %s and --dtype %s exclude each other",
                                       given[i][0], given[i][1], dtype);
        }
    }
    return GY_EXIT_OK;
}
