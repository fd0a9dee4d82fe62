/**
 * The keeper's state, shared by keeper.c (the loop), start.c (ranks) and restart.c
 * (generations).
 */
#ifndef GY_LAUNCH_KEEPER_PRIV_H
#define GY_LAUNCH_KEEPER_PRIV_H

#include "launch/launch_priv.h"

enum { GY_RESTARTS_DEFAULT = 3 };

typedef struct run_rank {
    pid_t process; /* 0: ended, or never started */
    int socket;
    bool has_report, has_done; /* has_done: it has completed all its work */
    bool is_stopped;           /* by a signal */
    bool is_to_restart;
    bool is_loss_untold; /* the loss has not been sent to the other keepers */
    uint32_t lost_in;    /* the generation in which it was lost */
    gy_run_end loss;
    gy_error report;
    gy_launch_lines *out, *err; /* NULL: without prefixes */
    nfds_t first_look, end_look;
} run_rank;

typedef struct run_keeper {
    const gy_run_options *options;
    char *const *argv;
    const sigset_t *mask;
    gy_env *env;
    run_rank *ranks;
    struct pollfd *looks;
    int signals, life, failures; /* polled besides the ranks' descriptors */
    int failures_in;             /* the ranks' end of the pipe */
    int segment;
    gy_nodes *nodes;      /* NULL: one host with shared memory only */
    gy_run_net *net;      /* addresses for the ranks; NULL as `nodes` */
    int *listeners;       /* (ranks) */
    int first_rank, size; /* number of ranks on earlier nodes, and on all */
    gy_run_end held;      /* a rank lost its peer; the report waits for the peer's own end */
    int64_t held_ns;      /* until this time; INT64_MAX: no report waits */
    int started, alive;
    bool has_ended_well; /* at least one rank */
    int restarts_left;
    bool is_over;         /* all ranks know that all ranks have done their work */
    gy_run_end first_end; /* the first failure that did not end the launch; status 0: none */
    bool is_pipe_ignored; /* inherited from the user, and passed on to the ranks */
    bool is_ending, is_saved;
    int status;          /* of the launch, once it is ending */
    int64_t kill_at_ns;  /* INT64_MAX: no kill is scheduled yet */
    int64_t stop_at_ns;  /* the time limit */
    int64_t patience_ns; /* with ranks that are stopped when all others have ended, */
    int64_t stuck_at_ns; /* which is over then; INT64_MAX: it is not so */
    gy_renewal renewal;
    int64_t renew_by_ns; /* deadline for the next generation to begin; INT64_MAX: none is
                            requested */
} run_keeper;

/* keeper.c */
/**
 * End the launch with `status` for a reason, which is logged unless it is ""; ranks get signal
 * `number` first.
 */
void gy_launch_keeper_end(run_keeper *keeper, int status, int number, const char *format, ...)
    GY_PRINTF(4, 5);

/* start.c */
GY_MUST_CHECK gy_status gy_launch_keeper_make_segment(run_keeper *keeper);
/** Build the addresses of all ranks from the rendezvous. GY_LIMIT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_launch_keeper_take_net(run_keeper *keeper);
/** Start a rank with its greeting, bound to its share of the cores. */
GY_MUST_CHECK gy_status gy_launch_keeper_start(run_keeper *keeper, int rank);
/** Send a running rank its place in the newest generation. GY_PEER: it is dying; GY_IO */
GY_MUST_CHECK gy_status gy_launch_keeper_send_place(const run_keeper *keeper, int rank);
/** Release what is left of a rank that has ended. */
void gy_launch_keeper_forget(run_rank *who);
/** Close the listeners that the ranks have inherited. */
void gy_launch_keeper_close_listeners(run_keeper *keeper);

/* restart.c */
extern const gy_renewal_ops gy_keeper_renewal;
/** Decide whether a failed rank restarts, and log why. */
bool gy_launch_keeper_restarts(run_keeper *keeper, int rank, const gy_run_end *end);
/** Do dead ranks wait for a restart? */
bool gy_launch_keeper_has_dead(const run_keeper *keeper);
/** Once a round: report dead ranks, and the completion of all local ranks. */
void gy_launch_keeper_check_restarts(run_keeper *keeper);

#endif
