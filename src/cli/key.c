/* gyre key: make the key that the hosts of a cluster share. */
#include "cli/cli.h"

#include <gyre/launch.h>

static int run(char **operands, int operand_count)
{
    return gy_run_make_key(operand_count > 0 ? operands[0] : NULL);
}

const gy_command gy_command_key = {
    .name = "key",
    .summary = "make the key that the hosts of a cluster share",
    .operands = "[FILE]",
    .operands_most = 1,
    .description =
        "Writes a new key to FILE, by default $XDG_CONFIG_HOME/gyre/key or "
        "~/.config/gyre/key,\n"
        "readable by its owner alone, and says where. Never overwrites one. Copy it to every\n"
        "host of the cluster over a channel that you trust.",
    .run = run,
};
