/**
 * Runs one job: an event loop that joins the machine (manager.h), the journal's file and the
 * job's processes (worker.h), on this machine or on slots that are leased.
 */
#ifndef GY_DRIVER_DRIVER_H
#define GY_DRIVER_DRIVER_H

#include "control/net/ticket.h"
#include "sched/manager.h"
#include "worker/sandbox/sandbox.h"
#include "worker/worker.h"

/** A section that a START reads and that lies at another host, where `wanted` finds it in the
 * file `name` of the job's data folder (net/hooks.h). */
typedef struct gy_driver_need {
    uint32_t input; /* edge of the task, for LOST_INPUT */
    uint32_t host;  /* that has it */
    gy_key content; /* names it among what the reader's host has fetched */
    uint64_t size_bytes;
    char name[64];
    uint8_t wanted[64];
    uint32_t wanted_bytes;
} gy_driver_need;

/** Of a job on a cluster: where a task shall run, and what must be brought there before. */
typedef struct gy_driver_place {
    uint32_t host;
    gy_driver_need *needs; /* (count) the driver's; gy_driver_place_add */
    size_t count, room;
} gy_driver_place;

/** GY_NOMEM */
GY_MUST_CHECK gy_status gy_driver_place_add(gy_driver_place *place, const gy_driver_need *need);

/** Of a process: the host where it is. */
typedef struct gy_driver_guest {
    const char *host; /* its name; "": this machine */
    uint32_t number;  /* of the host in the job, + 1; 0: this machine */
    int64_t clock_ns; /* its monotonic clock is so far ahead of ours, about */
} gy_driver_guest;

/** Of a job on a cluster: what moved between its hosts so far. */
typedef struct gy_driver_traffic {
    int64_t sections, bytes; /* that were fetched */
    int64_t wire_bytes;      /* that these were on the wire, with heads, packed where it paid */
    int64_t transfers;       /* between daemons */
    int64_t questions, answers; /* messages of this manager and of daemons about them */
} gy_driver_traffic;

/** Of a job on a cluster: what it tells the name server for people, beside what the manager
 * knows. Texts are borrowed until the next call. */
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

/** Filled in by room flow; called on the thread of gy_driver_run. */
typedef struct gy_driver_ops {
    /* Append the message of a START. A failure is the task's own. `place`: NULL for a job of
     * this machine; else its needs are added. */
    gy_status (*encode)(void *arg, const gy_manager *manager, const gy_effect *start,
                        gy_driver_place *place, gy_text *message);
    /* Optional: bytes to every process, once, first. `folder`: of the job, where the process
     * will run; NULL: this machine. */
    gy_status (*welcome)(void *arg, const char *folder, gy_text *message);
    /* Optional: COMMITTED. */
    void (*committed)(void *arg, const gy_effect *effect);
    /* Optional: DISCARD, files of an attempt may go. names: NULL for a job of this machine;
     * else names of files in data folders of hosts are added, each with its NUL, and only what
     * lies in shared storage goes. */
    void (*discard)(void *arg, const gy_manager *manager, const gy_effect *effect,
                    gy_text *names);
    /* Of jobs on a cluster: how many bytes of what is reported lie in a file of the process's
     * host; -1: none, whatever is in it. */
    int64_t (*held)(void *arg, const gy_manager *manager, const gy_sched_event *done);
    /* Optional, of jobs on a cluster: how far it is, one line for people. */
    void (*say)(void *arg, const gy_manager *manager, gy_text *line);
    /* Optional, likewise: its counters and last notes, into an empty view. */
    void (*view)(void *arg, gy_driver_view *view);
    /* Optional: before FAILED is stepped; `board` (GY_BOARD_BYTES) as the task left it. Returns
     * the cause to use. May set failed->report to what the next manager shall know of it,
     * borrowed until the next call. */
    gy_cause (*failed)(void *arg, const gy_manager *manager, gy_sched_event *failed,
                       const void *board);
    /* Optional: does the board say that its task ended the process? Then the others that ran
     * there were lost with it, and fail with GY_CAUSE_PEER; when no board says so, with
     * GY_CAUSE_OWN each. */
    bool (*is_culprit)(const void *board);
    /* Optional: a stage is complete, tasks may be added: *growth is borrowed until the next
     * call, NULL: none. A failure ends the job. */
    gy_status (*grow)(void *arg, const gy_manager *manager, uint32_t stage,
                      const gy_growth **growth);
    /* Optional: sync final data under their final names. GY_NOTFOUND with task and epoch in
     * *lost: that final output is gone or wrong, its task runs again, then this is called
     * again. */
    gy_status (*save)(void *arg, const gy_manager *manager, gy_attempt *lost);
    /* Optional: create the manifest, exclusively. GY_AGAIN: it takes time, on threads of its
     * own; then this is called again, some times a second, until it is over or the job ends. */
    gy_status (*publish)(void *arg, const gy_manager *manager);
    /* Optional: the journal is this manager's, so that no older epoch's has a sync succeed any
     * more; nothing has begun. A failure ends the job, GY_STATE as `over`. */
    gy_status (*began)(void *arg);
    /* Optional: at the end, instead of what a failure calls for: the journal is of a newer
     * epoch, whose manager goes on with all that the job's folders hold. */
    void (*over)(void *arg);
    /* Optional: what ranks of a gang printed, whole lines; text NULL: how a run of them ended.
     */
    void (*said)(void *arg, const char *text, size_t size_bytes, int exit_status);
    /* Optional: rows of a process's trace, with the process's id there. */
    void (*traced)(void *arg, const gy_driver_guest *guest, uint32_t pid, const void *rows,
                   size_t size_bytes);
    /* Optional: NOTE. */
    void (*note)(void *arg, const gy_effect *effect);
    /* Optional: ten times a second. */
    void (*tick)(void *arg, const gy_manager *manager);
    void *arg;
} gy_driver_ops;

typedef struct gy_driver_options {
    const char *folder;  /* of the job: journal, lock, log/; made (0700) when it is not there */
    int processes;       /* as gy_manager_options.process_max */
    int threads;         /* tasks at once in a process; 0: 1 */
    size_t memory_bytes; /* of a process and what it starts; 0: no limit */
    char *const *argv;   /* how to start this program; NULL: /proc/self/exe with its own name */
    const gy_driver_ops *ops;
    gy_deadline deadline; /* of the whole job; 0: none */
    uint64_t epoch; /* of this manager, used once, on a folder that hosts share: the journal
                       has a segment for it (journal.h). 0: the folder's lock alone decides */
    const char *journal; /* a URI: with an epoch the journal is there (journal.h). NULL: in
                            `folder` */
    const char *owner;   /* whom a manager of another epoch names; NULL: this process */
    /* Sandboxes around the processes, as gy_sandbox_settle left them, with the job's folders in
     * its paths; NULL: none. */
    const gy_sandbox *sandbox;
    /* Of a job on a cluster: processes run where slots are leased; `processes` slots at most,
     * the manager has a host_max. NULL: processes of this machine. */
    const gy_ticket *ticket;
    int64_t dead_ns;            /* a daemon that is silent for so long is lost; 0: 2 s */
    gy_driver_traffic *traffic; /* optional: counted there */
} gy_driver_options;

/**
 * Run the machine to its end. A journal that the folder has is replayed first. SIGINT, SIGHUP
 * and SIGTERM end the job as GY_EVENT_KILL (the second one at once). One job at a time in a
 * process.
 *
 * @param env  the real one, or the real one with another disk
 * @return what GY_EFFECT_END says; GY_STATE another manager runs this job, or this process
 * another job, or its epoch is over; GY_UNSUPPORTED with an epoch, a folder that promises no
 * exclusive creation; GY_TIMEOUT the deadline; GY_CANCELLED by a signal; GY_FORMAT the journal
 * is of another job, or damaged; GY_IO; GY_LIMIT no more
 * processes; GY_NOMEM
 * @threads one at a time; that thread must live until it returns
 * @cost an exec and a fork a process; then below 2 us a task beside the machine
 */
GY_MUST_CHECK gy_status gy_driver_run(gy_env *env, gy_manager *manager,
                                      const gy_driver_options *options);

#endif
