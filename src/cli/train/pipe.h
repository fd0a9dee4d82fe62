/** What the options of a training say of stages and micro-batches. */
#ifndef GY_CLI_TRAIN_PIPE_H
#define GY_CLI_TRAIN_PIPE_H

#include <gyre/pipe.h>

typedef struct gy_cli_pipe {
    const char *cut, *schedule;
    long long micros, chunks; /* 0: not given */
    gy_pipe_schedule *lists;  /* of the file that `schedule` names; NULL: it names none */
} gy_cli_pipe;

/** Check them against the mesh (NULL: none was given), and read the file if there is one.
 * Returns an exit status, reported. */
int gy_cli_pipe_check(gy_cli_pipe *pipe, const char *mesh);

#endif
