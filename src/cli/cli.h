/**
 * The subcommands of `gyre`.
 */
#ifndef GY_CLI_CLI_H
#define GY_CLI_CLI_H

#include "cli/options.h"

#include <gyre/flow.h>
#include <gyre/launch.h>

/** Pass a failure up. */
#define GY_TRY(expr)                                                                           \
    do {                                                                                       \
        gy_status gy_try_ = (expr);                                                            \
        if (gy_try_ < 0) {                                                                     \
            return gy_try_;                                                                    \
        }                                                                                      \
    } while (0)

/** Every subcommand, in the order of the help text. */
#define GY_COMMAND_LIST(X)                                                                     \
    X(run)                                                                                     \
    X(key)                                                                                     \
    X(train)                                                                                   \
    X(predict)                                                                                 \
    X(generate)                                                                                \
    X(ps)                                                                                      \
    X(plan)                                                                                    \
    X(tune)                                                                                    \
    X(bench)                                                                                   \
    X(mr)                                                                                      \
    X(job)                                                                                     \
    X(nameserver)                                                                              \
    X(daemon)                                                                                  \
    X(cluster)                                                                                 \
    X(store)                                                                                   \
    X(script)                                                                                  \
    X(query)                                                                                   \
    X(doctor)                                                                                  \
    X(info)

#define GY_X(name) extern const gy_command gy_command_##name;
GY_COMMAND_LIST(GY_X)
#undef GY_X

/** All of them, for help and tests. */
extern const gy_command *const gy_commands[];
extern const size_t gy_command_count;

/** NULL: no such subcommand. */
const gy_command *gy_command_find(const char *name);

/** The handle to run jobs with all functions of `gyre`; once a process. The returns of
 * gy_flow_start. */
gy_status gy_cli_flow(gy_flow **flow);

/** gy_run; reports what its log has not told. Returns the exit status. */
int gy_cli_launch(const gy_run_options *options, char *const argv[]);

/** Run this command line on `ranks` ranks; messages use `name`. Returns the exit status. */
int gy_cli_start_ranks(const char *name, int ranks);
/** The same with the options of the launch. */
int gy_cli_start_run(const char *name, const gy_run_options *options);

/**
 * Check the GYRE_* variables: an unknown value is wrong usage, an unknown name gets a warning.
 * Returns the exit status.
 */
int gy_cli_environment_check(void);

/** What main does: argv as the process got it. Returns the exit status. */
int gy_cli(int argc, char **argv);

#endif
