/* The command `gyre`: an entry for cli.c, which the tests call too. */
#include "cli/cli.h"

#include <gyre/base.h>

int main(int argc, char **argv)
{
    gy_reserve_standard_files();
    return gy_cli(argc, argv);
}
