/** Lists of pipelines in files. */
#ifndef GY_CLI_LISTS_H
#define GY_CLI_LISTS_H

#include <gyre/pipe.h>

/**
 * Read lists in PyTorch's notation; the caller frees them with gy_pipe_free.
 * @param command  for messages, such as "train"
 * @return an exit status, reported
 */
int gy_cli_lists_read(const char *command, const char *path, gy_pipe_schedule **lists);

#endif
