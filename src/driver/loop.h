/**
 * Inside the driver: one thread joins the machine, the journal and the processes.
 *
 * A round of the loop: wait; read messages from processes and fork server, and step the machine
 * with each; run timers; carry out the effects; send all batched messages; sync if requested,
 * while the processes work; write the journal when enough waits, or has waited long enough.
 */
#ifndef GY_DRIVER_LOOP_H
#define GY_DRIVER_LOOP_H

#include "driver/driver.h"
#include "driver/folder.h"
#include "worker/supervisor.h"
#include "worker/wire.h"

typedef enum gy_transport_process_state {
    GY_PROCESS_NONE,
    GY_PROCESS_STARTING, /* READY not received yet */
    GY_PROCESS_READY,
    GY_PROCESS_MUTE, /* to be killed: its messages are ignored */
} gy_transport_process_state;

/** A process slot. */
typedef struct gy_process {
    gy_transport_process_state state;
    uint32_t slot, generation;
    int socket;                /* -1: closed */
    bool is_dirty;             /* its index is in gy_driver.dirty */
    bool is_blocked;           /* waits until its socket is writable */
    bool is_killed;            /* by the machine */
    bool is_silent;            /* killed for its silence */
    bool has_lost_fork_server; /* its fork server has died */
    int64_t began_ns;          /* when STARTING began */
    int64_t heard_ns;          /* when the machine was last told that it is alive */
    int64_t closed_ns;         /* when its socket ended, before its death is reported; 0 */
    gy_text out;               /* messages to it; the first `sent` bytes are sent */
    size_t sent;
    uint8_t *in; /* (in_room) received, not parsed yet */
    size_t in_bytes, in_room;
    char reason[256]; /* why the driver kills it; "" */
} gy_process;

enum { GY_MEETS_MAX = 1 << 16 };

/** Data published by a member of a gang over hosts. */
typedef struct gy_meet {
    gy_attempt id;
    uint32_t member;
    gy_text words;
} gy_meet;

/** Work requested by an effect that ends in a later step. */
typedef struct gy_errand {
    gy_effect_kind kind; /* GROW, SAVE, PUBLISH; START, SPAWN, APPEND after a failure */
    uint32_t process, generation, stage, member;
    gy_attempt id;
    char *reason; /* of the failure; owned; NULL if there was no memory */
} gy_errand;

/** A task under which processes were lost. */
typedef struct gy_suspect {
    uint32_t task, losses, silences;
} gy_suspect;

/** How a process has ended. */
typedef struct gy_gone {
    const gy_fork_server_news *news;
    gy_board *lines; /* (line_count) what its threads were running */
    uint32_t line_count;
    const char *why;     /* for display */
    const char *log_end; /* appended to it: "; its log ends: ..."; "" */
} gy_gone;

typedef struct gy_driver gy_driver;
typedef struct gy_remote gy_remote; /* in remote/: slots on daemons */

/**
 * Where a job's processes run. The driver calls these on its thread; optional slots are NULL
 * where there is nothing to do.
 */
typedef struct gy_executor_ops {
    const char *name;
    /* Start what takes time, before the journal is read. GY_ARG; GY_LIMIT; GY_NOMEM; GY_PEER */
    gy_status (*open)(gy_driver *driver);
    /* Optional: the journal has been replayed. GY_NOMEM */
    gy_status (*begin)(gy_driver *driver);
    /* End everything, in order unless `is_hard`, and wait. Allowed after a failure, and before
     * open. */
    void (*close)(gy_driver *driver, bool is_hard);

    /* Optional: a descriptor that it polls is ready. */
    void (*ready)(gy_driver *driver, uint64_t name, uint32_t events);
    /* Optional: called once a round, after `ready`; and when it must be called next. */
    void (*turn)(gy_driver *driver);
    int64_t (*next_ns)(const gy_driver *driver);
    /* Optional: ten times a second. */
    void (*tick)(gy_driver *driver, int64_t now_ns);
    /* Optional: after steps, before messages are sent. */
    void (*settle)(gy_driver *driver);
    /* Optional: how long another manager's beginning may go unnoticed. NULL: for ever */
    int64_t (*watch_ns)(const gy_driver *driver);

    /* Start a process in its slot; gy_process_end reports its end. GY_LIMIT; GY_PEER; GY_AGAIN;
     * GY_NOMEM: nothing was started */
    gy_status (*spawn)(gy_driver *driver, gy_process *process);
    /* Kill it; its end is reported. `reason`: NULL by the machine. */
    void (*kill)(gy_driver *driver, const gy_process *process, const char *reason);
    /* The slot's process has ended: drop messages for it. */
    void (*forget)(gy_driver *driver, const gy_process *process);
    /* Send as much of process->out as it accepts now. */
    void (*send)(gy_driver *driver, gy_process *process);
    /* Optional: the job's folder on the slot's host. NULL: options->folder */
    const char *(*folder)(const gy_driver *driver, uint32_t slot);
    /* Optional: the slot's host. NULL: this machine */
    void (*guest)(const gy_driver *driver, uint32_t slot, gy_driver_guest *guest);

    /* Optional, all or none, if outputs lie on hosts and are fetched between them. The host of
     * a slot; GY_NONE: it has none. */
    uint32_t (*host)(const gy_driver *driver, uint32_t slot);
    /* Send the process a START, whose message is driver->message, once its inputs are on its
     * host. GY_NOMEM: not sent */
    gy_status (*fetch)(gy_driver *driver, gy_process *process, const gy_effect *effect,
                       const gy_driver_place *place);
    /* Cancel a START that still waits for inputs: true. */
    bool (*unfetch)(gy_driver *driver, const gy_effect *effect);
    /* The process has answered a START. */
    void (*answered)(gy_driver *driver, const gy_process *process);
    /* Delete files of an attempt on `host` (GY_NONE: any): names, each NUL-terminated. */
    void (*discard)(gy_driver *driver, uint32_t host, const gy_text *names);
    /* Give that host no more work, a little later. */
    void (*avoid)(gy_driver *driver, uint32_t host, const char *reason);
} gy_executor_ops;

extern const gy_executor_ops gy_executor_local;   /* local.c: processes on this machine */
extern const gy_executor_ops gy_executor_cluster; /* ../remote: slots leased on daemons */

struct gy_driver {
    gy_env *env;
    gy_manager *manager;
    const gy_driver_options *options;
    const gy_driver_ops *ops;
    uint32_t process_count, threads;
    gy_folder folder;
    int epoll;
    const gy_executor_ops *executor;
    gy_supervisor supervisor; /* for gy_executor_local */
    gy_remote *remote;        /* for gy_executor_cluster */
    gy_driver_place place;    /* scratch of encode */
    uint32_t deaths;          /* processes in a row that were never ready */
    uint32_t unexplained;     /* processes that ended by themselves with no task, since the last
                                 result */
    gy_meet *meets;           /* of attempts in progress */
    size_t meet_count, meet_room;
    gy_suspect *suspects;
    size_t suspect_count, suspect_room;
    gy_process *processes; /* (process_count) */
    uint32_t *dirty;       /* (process_count) */
    uint32_t dirty_count;
    gy_effects effects;
    gy_errand *errands; /* a queue */
    size_t errand_head, errand_count, errand_room;
    bool is_sync_wanted, is_journal_lost;
    int64_t looked_ns; /* last check that no other epoch had begun */
    uint64_t sync_position;
    gy_text message;  /* scratch of encode */
    int64_t timer_ns; /* the machine's; INT64_MAX: none */
    int64_t tick_ns;
    int64_t publish_ns;      /* when to check PUBLISH again; INT64_MAX */
    bool is_killed;          /* the machine was told to end, */
    gy_status killed_status; /* with this status */
    bool is_hard;            /* do not wait for processes to end by themselves */
    int64_t last_ns;         /* the machine must end by then */
    bool has_ended;
    bool is_over; /* the journal belongs to another epoch */
    gy_error end; /* the result */
};

/* ---- processes.c ---- */

GY_MUST_CHECK gy_status gy_driver_processes_open(gy_driver *driver);
/** Start a process in a slot. A failure becomes an errand. */
void gy_process_spawn(gy_driver *driver, const gy_effect *effect);
/** Kill a process: `reason`, NULL: by the machine. Its end is reported later. */
void gy_process_kill(gy_driver *driver, uint32_t slot, uint32_t generation, const char *reason);
/** The process has ended: free its slot. */
void gy_process_gone(gy_driver *driver, gy_process *process);
/** The slot's process if it has that generation and serves; else NULL. */
gy_process *gy_process_get(gy_driver *driver, uint32_t slot, uint32_t generation);
/** Append the START whose message is driver->message. */
void gy_process_start(gy_driver *driver, gy_process *process, const gy_effect *effect);
/** Mark process->out as changed. */
void gy_process_touch(gy_driver *driver, gy_process *process);
/** Send what the sockets accept of all changed processes. */
void gy_driver_processes_send(gy_driver *driver);
/**
 * Store what a member publishes, or answer its question if possible. GY_FORMAT more than a gang
 * may publish; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_process_meet(gy_driver *driver, gy_process *process,
                                        const gy_wire *message);
/** The attempt has ended: drop what its members published. @cost O(all published) */
void gy_process_part(gy_driver *driver, const gy_attempt *id);
/** Kill processes that take too long to start or to end. */
void gy_driver_processes_check(gy_driver *driver, int64_t now_ns);
/** Called when the executor is closed. */
void gy_driver_processes_free(gy_driver *driver);

/* ---- handle.c: messages and ends of processes ---- */

/* The low bits of a descriptor's name in epoll; all but SIGNALS belong to the executors. */
enum { GY_EPOLL_REMOTE, GY_EPOLL_SIGNALS, GY_EPOLL_FORK_SERVER, GY_EPOLL_PROCESS };

enum { GY_READ_BYTES = 128 << 10 };

/**
 * Handle the new messages in process->in, and make room for an incomplete one. GY_AGAIN no more
 * messages; GY_FORMAT; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_process_understand(gy_driver *driver, gy_process *process);
/** With the status of a read: the process is alive, or is killed for invalid data. */
void gy_process_received(gy_driver *driver, gy_process *process, gy_status status);
/** Bytes received from it, in order, in arbitrary portions. */
void gy_driver_handle_bytes(gy_driver *driver, gy_process *process, const void *data,
                            size_t size_bytes);
/** The process has ended. */
void gy_process_end(gy_driver *driver, gy_process *process, const gy_gone *gone);

/* ---- effects.c ---- */

/** Step the machine and start carrying out its effects. */
void gy_driver_step(gy_driver *driver, gy_sched_event *event);
/** On a cluster, before messages are exchanged: check whether another manager has begun. */
void gy_driver_watch(gy_driver *driver);
/** Start PUBLISH, or check whether it has finished. */
void gy_driver_publish(gy_driver *driver);
/** Run all queued errands except syncs. */
void gy_driver_errands_do(gy_driver *driver);
/** Sync if requested. True: something was done. */
bool gy_driver_errands_sync(gy_driver *driver);
/** An effect failed with this thread's last failure: queue an errand that tells the machine. */
void gy_errand_failed(gy_driver *driver, const gy_effect *effect);
/** End the job soon; with this thread's last failure unless the machine reports another. */
void gy_driver_kill(gy_driver *driver, gy_status status);
/** End the job with this thread's last failure. The first one counts. */
void gy_driver_fail(gy_driver *driver, gy_status status);
void gy_driver_errands_free(gy_driver *driver);

#endif
