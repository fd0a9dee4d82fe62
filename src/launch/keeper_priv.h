/**
 * Inside the keeper: its state, as keeper.c (the loop), start.c (ranks) and restart.c
 * (generations) share it.
 */
#ifndef GY_LAUNCH_KEEPER_PRIV_H
#define GY_LAUNCH_KEEPER_PRIV_H

#include "launch/launch_priv.h"

enum { GY_RESTARTS_DEFAULT = 3 };

typedef struct run_rank {
    pid_t process; /* 0: ended, or never started */
    int socket;
    bool has_report, has_done; /* all that it had to do */
    bool is_to_restart;
    bool is_loss_untold; /* to the other keepers */
    uint32_t lost_in;    /* generation */
    gy_run_end loss;
    gy_error report;
    gy_launch_lines *out, *err; /* NULL without prefixes */
    nfds_t first_look, end_look;
} run_rank;

typedef struct run_keeper {
    const gy_run_options *options;
    char *const *argv;
    const sigset_t *mask;
    gy_env *env;
    run_rank *ranks;
    struct pollfd *looks;
    int signals, life, failures; /* what to poll beside the ranks */
    int failures_in;             /* the ranks' end */
    int segment;
    gy_nodes *nodes;      /* NULL: no connections at all */
    gy_run_net *net;      /* for the ranks; NULL with nodes */
    int *listeners;       /* (ranks) */
    int first_rank, size; /* ranks on nodes before, on all */
    gy_run_end held;      /* a rank lost its peer: the peer's own end may still come */
    int64_t held_ns;      /* until then; INT64_MAX: none */
    int started, alive;
    bool has_ended_well; /* some rank */
    int restarts_left;
    bool is_over;         /* all ranks were told that all have done */
    gy_run_end first_end; /* of a rank that failed and did not end the run; status 0: none */
    bool is_pipe_ignored; /* by the user, so by the ranks as well */
    bool is_ending, is_saved;
    int status;         /* of the run, once it is ending */
    int64_t kill_at_ns; /* INT64_MAX: nobody is to be killed yet */
    int64_t stop_at_ns; /* the time limit */
    gy_renewal renewal;
    int64_t renew_by_ns; /* a generation is to have begun; INT64_MAX: none is asked for */
} run_keeper;

/* keeper.c */
/** The run ends with `status` for a cause, which is said; ranks get signal `number` first. "":
 * nothing is said here. */
void gy_launch_keeper_end(run_keeper *keeper, int status, int number, const char *format, ...)
    GY_PRINTF(4, 5);

/* start.c */
GY_MUST_CHECK gy_status gy_launch_keeper_make_segment(run_keeper *keeper);
/** What ranks must know of the others, as the keepers have met. GY_LIMIT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_launch_keeper_take_net(run_keeper *keeper);
/** Start a rank, greeted, on its share of the cores. */
GY_MUST_CHECK gy_status gy_launch_keeper_start(run_keeper *keeper, int rank);
/** Tell a rank that runs its place in the newest generation. GY_PEER it is about to be found
 * dead; GY_IO */
GY_MUST_CHECK gy_status gy_launch_keeper_tell_place(const run_keeper *keeper, int rank);
/** What is left of a rank that has ended. */
void gy_launch_keeper_forget(run_rank *who);
/** The ranks have them now. */
void gy_launch_keeper_close_listeners(run_keeper *keeper);

/* restart.c */
extern const gy_renewal_ops gy_keeper_renewal;
/** A rank failed: is it started anew? Says why. */
bool gy_launch_keeper_restarts(run_keeper *keeper, int rank, const gy_run_end *end);
/** Do dead ranks wait to be started anew? */
bool gy_launch_keeper_has_dead(const run_keeper *keeper);
/** Once a round: tell of the dead, and of all having done all. */
void gy_launch_keeper_look_at_restarts(run_keeper *keeper);

#endif
