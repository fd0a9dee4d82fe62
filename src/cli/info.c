/* gyre info: what this machine is and what Gyre found on it. */
#include "cli/cli.h"

#include <gyre/info.h>

static int run(char **operands, int operand_count)
{
    (void)operands;
    (void)operand_count;
    char text[2048];
    printf("gyre: %s\n", gy_version());
    fputs(gy_info_machine(text, sizeof(text)), stdout);
    fputs(gy_info_libraries(text, sizeof(text)), stdout);
    fputs(gy_info_devices(text, sizeof(text)), stdout);
    return GY_EXIT_OK;
}

const gy_command gy_command_info = {
    .name = "info",
    .summary = "show cores, caches, instruction sets, libraries and devices",
    .operands = "",
    .description =
        "Shows what Gyre found on this machine: cores, caches, instruction sets, the\n"
        "libraries that its kernels use, with the chosen BLAS kernel, and the devices of the\n"
        "CUDA driver, or why there are none.",
    .run = run,
};
