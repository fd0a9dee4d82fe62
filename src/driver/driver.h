/**
 * Runs one job: an event loop that joins the machine (manager.h), the journal and the job's
 * processes (worker.h), which run on this machine or in leased slots.
 */
#ifndef GY_DRIVER_DRIVER_H
#define GY_DRIVER_DRIVER_H

#include "control/net/ticket.h"
#include "sched/manager.h"
#include "worker/sandbox/sandbox.h"
#include "worker/worker.h"

/**
 * A section that a START reads and that lies on another host; `wanted` locates it in the file
 * `name` of the job's data folder (net/hooks.h).
 */
typedef struct gy_driver_need {
    uint32_t input; /* edge of the task, for LOST_INPUT */
    uint32_t host;  /* that holds it */
    gy_key content; /* names it among the sections fetched to the reader's host */
    uint64_t size_bytes;
    char name[64];
    uint8_t wanted[64];
    uint32_t wanted_bytes;
} gy_driver_need;

/** Of a job on a cluster: where a task will run, and what must be fetched there first. */
typedef struct gy_driver_place {
    uint32_t host;
    gy_driver_need *needs; /* (count) owned by the driver; see gy_driver_place_add */
    size_t count, room;
} gy_driver_place;

/** GY_NOMEM */
GY_MUST_CHECK gy_status gy_driver_place_add(gy_driver_place *place, const gy_driver_need *need);

/** The host of a process. */
typedef struct gy_driver_guest {
    const char *host; /* its name; "": this machine */
    uint32_t number;  /* number of the host in the job, + 1; 0: this machine */
    int64_t clock_ns; /* how far its monotonic clock is ahead of ours, approximately */
} gy_driver_guest;

/** Of a job on a cluster: the traffic between its hosts so far. */
typedef struct gy_driver_traffic {
    int64_t sections, bytes; /* fetched */
    /* Bytes of these on the wire, with heads, compressed where that helps. */
    int64_t wire_bytes;
    int64_t transfers;          /* between daemons */
    int64_t questions, answers; /* messages between this manager and daemons about fetches */
} gy_driver_traffic;

/**
 * Of a job on a cluster: the part of its displayed status that room flow knows. Texts are
 * borrowed until the next call.
 */
enum { GY_DRIVER_ROWS = 32, GY_DRIVER_NOTE_BYTES = 160 };

typedef struct gy_driver_view {
    struct gy_driver_counter {
        const char *name;
        int64_t value;
    } counters[GY_DRIVER_ROWS];
    struct gy_driver_note {
        int64_t wall_ns;
        const char *text;
    } notes[GY_DRIVER_ROWS]; /* the newest last */
    uint32_t counter_count, note_count;
} gy_driver_view;

/** Provided by room flow; called on the thread of gy_driver_run. */
typedef struct gy_driver_ops {
    /* Append the message of a START. A failure counts as the task's own. `place`: NULL for a
     * job on this machine; else add its needs. */
    gy_status (*encode)(void *arg, const gy_manager *manager, const gy_effect *start,
                        gy_driver_place *place, gy_text *message);
    /* Optional: a message for every process, sent once and first. `folder`: the job's, where
     * the process will run; NULL: this machine. */
    gy_status (*welcome)(void *arg, const char *folder, gy_text *message);
    /* Optional: COMMITTED. */
    void (*committed)(void *arg, const gy_effect *effect);
    /* Optional: DISCARD, delete the files of an attempt. names: NULL for a job on this machine;
     * else append the names of files in hosts' data folders, each NUL-terminated, and delete
     * only what lies in shared storage. */
    void (*discard)(void *arg, const gy_manager *manager, const gy_effect *effect,
                    gy_text *names);
    /* Of jobs on a cluster: the size of the reported outputs that lie in a file on the
     * process's host; -1: none. */
    int64_t (*held)(void *arg, const gy_manager *manager, const gy_sched_event *done);
    /* Optional, of jobs on a cluster: append one line about the job's progress, for display. */
    void (*say)(void *arg, const gy_manager *manager, gy_text *line);
    /* Optional, of jobs on a cluster: fill the empty view with its counters and last notes. */
    void (*view)(void *arg, gy_driver_view *view);
    /* Optional: called before FAILED is stepped, with the task's last `board` (GY_BOARD_BYTES).
     * Returns the cause to use. May set failed->report to data for the next manager, borrowed
     * until the next call. */
    gy_cause (*failed)(void *arg, const gy_manager *manager, gy_sched_event *failed,
                       const void *board);
    /* Optional: does the board say that its task ended the process? Then the other tasks in the
     * process were lost with it, and fail with GY_CAUSE_PEER; if no board says so, each fails
     * with GY_CAUSE_OWN. */
    bool (*is_culprit)(const void *board);
    /* Optional: a stage is complete and may add tasks: *growth is borrowed until the next call,
     * NULL: none. A failure ends the job. */
    gy_status (*grow)(void *arg, const gy_manager *manager, uint32_t stage,
                      const gy_growth **growth);
    /* Optional: sync final data under their final names. GY_NOTFOUND with task and epoch in
     * *lost: that final output is missing or corrupt; its task runs again, then this is called
     * again. */
    gy_status (*save)(void *arg, const gy_manager *manager, gy_attempt *lost);
    /* Optional: create the manifest, exclusively. GY_AGAIN: it takes time, on threads of its
     * own; this is then called several times a second until it has finished or the job ends. */
    gy_status (*publish)(void *arg, const gy_manager *manager);
    /* Optional: the journal is claimed, so that no sync of an older epoch succeeds any more; no
     * task has started. A failure ends the job, GY_STATE as `over`. */
    gy_status (*began)(void *arg);
    /* Optional: called at the end instead of the cleanup after a failure: the journal belongs
     * to a newer epoch, whose manager continues with all data in the job's folders. */
    void (*over)(void *arg);
    /* Optional: output of a gang's ranks, in whole lines; text NULL: their exit status. */
    void (*said)(void *arg, const char *text, size_t size_bytes, int exit_status);
    /* Optional: rows of a process's trace, with its process id on its host. */
    void (*traced)(void *arg, const gy_driver_guest *guest, uint32_t pid, const void *rows,
                   size_t size_bytes);
    /* Optional: NOTE. */
    void (*note)(void *arg, const gy_effect *effect);
    /* Optional: ten times a second. */
    void (*tick)(void *arg, const gy_manager *manager);
    void *arg;
} gy_driver_ops;

typedef struct gy_driver_options {
    /* Of the job, with journal, lock, log/; created (0700) if it does not exist. */
    const char *folder;
    int processes;       /* as gy_manager_options.process_max */
    int threads;         /* concurrent tasks in a process; 0: 1 */
    size_t memory_bytes; /* of a process with all that it starts; 0: no limit */
    char *const *argv;   /* to start this program; NULL: /proc/self/exe with its own name */
    const gy_driver_ops *ops;
    gy_deadline deadline; /* of the whole job; 0: none */
    uint64_t epoch; /* of this manager, used once, in a folder that hosts share: the journal has
                       a segment for it (journal.h). 0: only the folder's lock decides */
    /* With an epoch: the URI of the journal (journal.h). NULL: in `folder`. */
    const char *journal;
    /* The name that a manager of another epoch reports; NULL: this process. */
    const char *owner;
    /* The sandbox of the processes, as gy_sandbox_settle left it, with the job's folders among
     * its paths; NULL: none. */
    const gy_sandbox *sandbox;
    /* Of a job on a cluster: processes run in leased slots, at most `processes`, and the
     * manager has a host_max. NULL: processes on this machine. */
    const gy_ticket *ticket;
    int64_t dead_ns;            /* a daemon without messages for so long is lost; 0: 2 s */
    gy_driver_traffic *traffic; /* optional: counts the traffic */
} gy_driver_options;

/**
 * Run the machine to its end, after replaying the folder's journal, if any. SIGINT, SIGHUP and
 * SIGTERM end the job as GY_EVENT_KILL (the second one at once). One job at a time in a
 * process.
 *
 * @param env  the real one, or the real one with another disk
 * @return the status of GY_EFFECT_END; GY_STATE another manager runs this job, or this process
 * another job, or its epoch has ended; GY_UNSUPPORTED with an epoch, a folder without exclusive
 * creation; GY_TIMEOUT the deadline; GY_CANCELLED by a signal; GY_FORMAT the journal is of
 * another job, or damaged; GY_IO; GY_LIMIT no more processes; GY_NOMEM
 * @threads one at a time; that thread must live until it returns
 * @cost an exec and a fork for each process; then below 2 us for each task, without the machine
 */
GY_MUST_CHECK gy_status gy_driver_run(gy_env *env, gy_manager *manager,
                                      const gy_driver_options *options);

#endif
