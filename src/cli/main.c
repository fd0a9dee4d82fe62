/* The command `gyre`: an entry for cli.c, which the tests call too. */
#include "cli/cli.h"

int main(int argc, char **argv)
{
    return gy_cli(argc, argv);
}
