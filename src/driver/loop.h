/**
 * Inside the driver: one thread that joins the machine, the journal and the processes.
 *
 * A round of the loop: wait; read what the processes and the fork server say, and step the
 * machine with each; timers; do what the steps asked for; send all messages that gathered;
 * sync, if it was asked for, while the processes work; write the journal when enough of it
 * waits or it waits long enough.
 */
#ifndef GY_DRIVER_LOOP_H
#define GY_DRIVER_LOOP_H

#include "driver/driver.h"
#include "driver/folder.h"
#include "worker/supervisor.h"
#include "worker/wire.h"

typedef enum gy_transport_process_state {
    GY_PROCESS_NONE,
    GY_PROCESS_STARTING, /* told READY not yet */
    GY_PROCESS_READY,
    GY_PROCESS_MUTE, /* to be killed: what it says is not heard any more */
} gy_transport_process_state;

/** A slot. */
typedef struct gy_process {
    gy_transport_process_state state;
    uint32_t slot, generation;
    int socket;        /* -1: closed */
    bool is_dirty;     /* listed in gy_driver.dirty */
    bool is_blocked;   /* waits until it can be written */
    bool is_killed;    /* as the machine asked */
    bool is_silent;    /* for its silence */
    bool is_bereft;    /* it had a fork server that is gone */
    int64_t began_ns;  /* STARTING since */
    int64_t heard_ns;  /* the machine was told that it lives */
    int64_t closed_ns; /* its socket ended, its death is not told yet; 0 */
    gy_text out;       /* messages to it; the first `sent` bytes are gone */
    size_t sent;
    uint8_t *in; /* (in_room) read, not understood yet */
    size_t in_bytes, in_room;
    char reason[256]; /* why we kill it; "" */
} gy_process;

enum { GY_MEETS_MAX = 1 << 16 };

/** What a member of a gang over hosts has told for the others. */
typedef struct gy_meet {
    gy_attempt id;
    uint32_t member;
    gy_text words;
} gy_meet;

/** Work that an effect asks for and that ends in another step. */
typedef struct gy_errand {
    gy_effect_kind kind; /* GROW, SAVE, PUBLISH; START, SPAWN, APPEND: it failed */
    uint32_t process, generation, stage, member;
    gy_attempt id;
    char *reason; /* of what failed; owned; NULL when there was no memory for it */
} gy_errand;

/** A task under which processes were lost. */
typedef struct gy_suspect {
    uint32_t task, losses, silences;
} gy_suspect;

/** How a process has ended. */
typedef struct gy_gone {
    const gy_fork_server_news *news;
    gy_board *lines; /* (line_count) what its threads were at */
    uint32_t line_count;
    const char *why;     /* for people */
    const char *log_end; /* to be added to it: "; its log ends: ..."; "" */
} gy_gone;

typedef struct gy_driver gy_driver;
typedef struct gy_remote gy_remote; /* remote/: slots at daemons */

/**
 * Where the processes of a job run. The driver calls these on its thread; slots that are said
 * to be optional are NULL where there is nothing to do.
 */
typedef struct gy_executor_ops {
    const char *name;
    /* What takes time begins, before the journal is read. GY_ARG; GY_LIMIT; GY_NOMEM; GY_PEER
     */
    gy_status (*open)(gy_driver *driver);
    /* Optional: the journal has been replayed. GY_NOMEM */
    gy_status (*begin)(gy_driver *driver);
    /* End all, orderly unless `is_hard`, and wait for that. Also after a failure, and when it
     * was not opened. */
    void (*close)(gy_driver *driver, bool is_hard);

    /* Optional: a descriptor that it watches is ready. */
    void (*ready)(gy_driver *driver, uint64_t name, uint32_t events);
    /* Optional: once a round, after that; and when it must come at the latest. */
    void (*turn)(gy_driver *driver);
    int64_t (*next_ns)(const gy_driver *driver);
    /* Optional: ten times a second. */
    void (*tick)(gy_driver *driver, int64_t now_ns);
    /* Optional: after steps, before messages are sent. */
    void (*settle)(gy_driver *driver);
    /* Optional: how long it may be unknown that another manager has begun. NULL: for ever */
    int64_t (*watch_ns)(const gy_driver *driver);

    /* Start a process in its slot; its end is told to gy_process_end. GY_LIMIT; GY_PEER;
     * GY_AGAIN; GY_NOMEM: nothing was started */
    gy_status (*spawn)(gy_driver *driver, gy_process *process);
    /* Kill it; its end is told. `reason`: NULL as the machine asked. */
    void (*kill)(gy_driver *driver, const gy_process *process, const char *reason);
    /* The slot's process is gone or forgotten: what was to be told to it, too. */
    void (*forget)(gy_driver *driver, const gy_process *process);
    /* Send what it takes now of process->out. */
    void (*send)(gy_driver *driver, gy_process *process);
    /* Optional: the job's folder where the slot is. NULL: options->folder */
    const char *(*folder)(const gy_driver *driver, uint32_t slot);
    /* Optional: whose host that is. NULL: this machine */
    void (*guest)(const gy_driver *driver, uint32_t slot, gy_driver_guest *guest);

    /* Optional, all or none: outputs lie at hosts, and are fetched from one to another.
     * The host of a slot; GY_NONE: it has none. */
    uint32_t (*host)(const gy_driver *driver, uint32_t slot);
    /* Tell the process of a START, whose message is driver->message, once what it needs is at
     * its host. GY_NOMEM: as if not told */
    gy_status (*fetch)(gy_driver *driver, gy_process *process, const gy_effect *effect,
                       const gy_driver_place *place);
    /* A START that still waits is taken back: true. */
    bool (*unfetch)(gy_driver *driver, const gy_effect *effect);
    /* The process has answered a START. */
    void (*answered)(gy_driver *driver, const gy_process *process);
    /* Files of an attempt that ran on `host` (GY_NONE: any) may go: names, each with its NUL.
     */
    void (*discard)(gy_driver *driver, uint32_t host, const gy_text *names);
    /* No more work for that host, a little later. */
    void (*avoid)(gy_driver *driver, uint32_t host, const char *reason);
} gy_executor_ops;

extern const gy_executor_ops gy_executor_local;   /* local.c: processes of this machine */
extern const gy_executor_ops gy_executor_cluster; /* ../remote: slots that daemons lend */

struct gy_driver {
    gy_env *env;
    gy_manager *manager;
    const gy_driver_options *options;
    const gy_driver_ops *ops;
    uint32_t process_count, threads;
    gy_folder folder;
    int epoll;
    const gy_executor_ops *executor;
    gy_supervisor supervisor; /* gy_executor_local's */
    gy_remote *remote;        /* gy_executor_cluster's */
    gy_driver_place place;    /* scratch of encode */
    uint32_t deaths;          /* of processes that were never ready, in a row */
    uint32_t unexplained; /* that ended by themselves, and no task with them; since an answer */
    gy_meet *meets;       /* of attempts that are under way */
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
    int64_t looked_ns; /* when no other epoch had begun */
    uint64_t sync_position;
    gy_text message;  /* scratch of encode */
    int64_t timer_ns; /* the machine's; INT64_MAX */
    int64_t tick_ns;
    int64_t publish_ns;      /* when to ask again whether it is published; INT64_MAX */
    bool is_killed;          /* the machine was told to end, */
    gy_status killed_status; /* for this */
    bool is_hard;            /* do not wait for processes to end by themselves */
    int64_t last_ns;         /* it has until then */
    bool has_ended;
    bool is_over; /* the journal is another epoch's */
    gy_error end; /* how */
};

/* ---- processes.c ---- */

GY_MUST_CHECK gy_status gy_driver_processes_open(gy_driver *driver);
/** Start a process in a slot. A failure comes back as an errand. */
void gy_process_spawn(gy_driver *driver, const gy_effect *effect);
/** Kill it: `reason` says why, NULL as the machine asked. Its end is told later. */
void gy_process_kill(gy_driver *driver, uint32_t slot, uint32_t generation, const char *reason);
/** Its end is known: the slot is free. */
void gy_process_gone(gy_driver *driver, gy_process *process);
/** The slot's process if it is of that generation and serves; else NULL. */
gy_process *gy_process_get(gy_driver *driver, uint32_t slot, uint32_t generation);
/** Add the START whose message is driver->message. */
void gy_process_start(gy_driver *driver, gy_process *process, const gy_effect *effect);
/** Something was added to process->out. */
void gy_process_touch(gy_driver *driver, gy_process *process);
/** Send what can be sent of all that was added. */
void gy_driver_processes_send(gy_driver *driver);
/** Keep what a member has told, or answer its question if that is known. GY_FORMAT more than a
 * gang has to tell; GY_NOMEM */
GY_MUST_CHECK gy_status gy_process_meet(gy_driver *driver, gy_process *process,
                                        const gy_wire *message);
/** That attempt has ended: what its members have told goes. @cost O(what is kept) */
void gy_process_part(gy_driver *driver, const gy_attempt *id);
/** Those that take too long to come or to go. */
void gy_driver_processes_look_after(gy_driver *driver, int64_t now_ns);
/** Their executor is closed. */
void gy_driver_processes_free(gy_driver *driver);

/* ---- handle.c: what comes from processes ---- */

/* The low bits of what epoll knows a descriptor by; all but SIGNALS are the executors'. */
enum { GY_EPOLL_REMOTE, GY_EPOLL_SIGNALS, GY_EPOLL_FORK_SERVER, GY_EPOLL_PROCESS };

enum { GY_READ_BYTES = 128 << 10 };

/** Understand what is new in process->in, and make room for what is under way. GY_AGAIN that
 * was all; GY_FORMAT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_process_understand(gy_driver *driver, gy_process *process);
/** That gave so: the process is alive, or it is killed for what it sent. */
void gy_process_heard(gy_driver *driver, gy_process *process, gy_status status);
/** Bytes that came from it, in order, in whatever portions. */
void gy_driver_handle_bytes(gy_driver *driver, gy_process *process, const void *data,
                            size_t size_bytes);
/** It is gone. */
void gy_process_end(gy_driver *driver, gy_process *process, const gy_gone *gone);

/* ---- effects.c ---- */

/** Step the machine and begin what it asks for. */
void gy_driver_step(gy_driver *driver, gy_sched_event *event);
/** On a cluster, before words are heard and said: has another manager begun? */
void gy_driver_watch(gy_driver *driver);
/** PUBLISH, or whether it is done by now. */
void gy_driver_publish(gy_driver *driver);
/** Do the errands that have gathered, all but syncs. */
void gy_driver_errands_do(gy_driver *driver);
/** Sync if one is asked for. True: something was done. */
bool gy_driver_errands_sync(gy_driver *driver);
/** An effect failed, as this thread's last failure says: the machine is told later. */
void gy_errand_failed(gy_driver *driver, const gy_effect *effect);
/** End the job soon; this thread's last failure says why if the machine does not say more. */
void gy_driver_kill(gy_driver *driver, gy_status status);
/** The job is over with this thread's last failure. The first one counts. */
void gy_driver_fail(gy_driver *driver, gy_status status);
void gy_driver_errands_free(gy_driver *driver);

#endif
