/**
 * Inside a daemon's process: one thread that waits for sockets, processes and time, steps the
 * machine, and does what it asks for. What an effect leads to is an event of a later step.
 *
 * host.c the loop · effects.c what the machine asks for · identity.c folder and disk · jobs.c
 * jobs and their folders · names.c name servers · serve.c what managers ask · tell.c what they
 * are told · fork_server.c, executors.c processes and their bytes · program.c, blobs.c what
 * they run · manager.c, shim.c managers · fetch.c sections of other daemons, and of ours.
 */
#ifndef GY_CLUSTER_HOST_PRIV_H
#define GY_CLUSTER_HOST_PRIV_H

#include "base/index.h"
#include "cluster/host/host.h"
#include "control/daemon/daemon.h"
#include "control/net/net.h"
#include "control/net/ticket.h"
#include "worker/supervisor.h"

enum {
    HOST_PATH = 4096,
    HOST_NAME = 33, /* of a key: 32 digits */
    HOST_NAMES_MAX = 8,
    HOST_STREAM = 256 << 10, /* bytes of a process that wait here */
    HOST_TOLD = 64,          /* ends of fetches that are said together */
    HOST_THREADS_MAX = 1024, /* of a process */
};

typedef struct gy_host gy_host;
typedef struct host_job host_job;

/** Something to wait for. Whoever owns it is not freed before the round's end. */
typedef struct host_watch {
    void (*ready)(gy_host *host, void *owner, uint32_t events);
    void *owner;
    int file;        /* -1: nothing */
    uint32_t events; /* of epoll that are waited for */
} host_watch;

/** A process's executor, from OPEN to its end. */
typedef struct host_executor {
    struct host_executor *next;
    host_job *job;
    uint64_t lease;
    uint32_t generation, epoch, slot;
    bool has_process, is_killed, is_dead; /* dead: freed at the round's end */
    bool has_news, is_closed;             /* its stream has ended */
    gy_fork_server_news news;
    host_watch watch; /* its stream */
    uint8_t *up;      /* (HOST_STREAM) of the process, not sent to its manager yet */
    size_t up_bytes, up_told;
    uint64_t up_due; /* of these may go */
    uint8_t *down;   /* for the process */
    size_t down_at, down_bytes, down_room;
    uint64_t down_due;
} host_executor;

/** What waits to be said to a manager. */
typedef struct host_outgoing {
    struct host_outgoing *next;
    uint32_t type;
    size_t size_bytes;
    uint8_t packed[];
} host_outgoing;

/** A section that a manager wants: what the machine does not keep of it. */
typedef struct host_want {
    gy_key content;
    char *name; /* of the file; behind its NUL what finds the section there */
    uint32_t wanted_bytes;
} host_want;

typedef enum host_program_state {
    PROGRAM_NONE,
    PROGRAM_ASKING, /* what it is */
    PROGRAM_SPEC,   /* its spec comes */
    PROGRAM_FILES,  /* its files come */
    PROGRAM_READY,
} host_program_state;

typedef struct host_program {
    host_program_state state;
    Gy__Cluster__JobSpec *spec;
    gy_key blob;                    /* that is waited for */
    size_t file;                    /* of the spec */
    int64_t until_ns, again_ns;     /* a blob is tried again; INT64_MAX: not now */
    char *path;                     /* of the program */
    char **environment, *libraries; /* the variables; the last one if there are libraries */
    size_t variable_count;
    const char *directory; /* where it runs */
    char *folder;          /* its own files' */
} host_program;

/** How it ended, as the shim tells it. */
typedef struct host_ended {
    int status;         /* as of waitpid */
    bool is_unloadable; /* this host has not all that the program needs */
} host_ended;

/** A manager that runs here, below a process that minds it. */
typedef struct host_manager {
    uint32_t wanted;    /* the epoch of one that is to be started; 0 */
    uint32_t slots_max; /* of one host for its job; 0: not known */
    bool is_resumed;    /* it goes on with a job that had ended, */
    bool is_forgotten;  /* or removes what is kept of it */
    bool is_waiting;    /* for its files, which the machine knows */
    uint32_t epoch;     /* of the one that runs, or whose end is not told yet; 0 */
    pid_t shim;         /* 0: none */
    host_watch watch;   /* its end is said there */
    bool is_killed, has_status;
    bool is_key_old; /* the ring has changed since it was made */
    host_ended ended;
    int64_t last_ns; /* then the shim is killed; INT64_MAX */
    /* What it prints: bytes of its log from `base` on, of which the name server knows `said`.
     */
    int log;                     /* -1: not open */
    uint64_t base, said, saying; /* saying: what it will know then; 0: it is told nothing */
    int64_t look_ns;             /* whether there is more */
    int64_t end_ns;     /* it has ended: that is told by then at the latest; INT64_MAX */
    host_watch request; /* there it says which processes it will want here */
} host_manager;

/** The parent of processes that a manager here will want, most likely: nobody has ordered it,
 * the machine knows nothing of it. */
typedef struct host_ahead {
    gy_supervisor *supervisor; /* NULL: none */
    host_watch watch;
    int64_t last_ns; /* it shall end by then; INT64_MAX */
} host_ahead;

/** The machine told how a fetch ended; not said to the manager so far. */
typedef struct host_told {
    uint64_t number;
    gy_status status;
} host_told;

struct host_job {
    host_job *next;
    gy_key key;
    char name[HOST_NAME];
    char path[HOST_PATH];
    gy_rpc_peer peer; /* its manager; 0: none has attached */
    uint32_t peer_epoch;
    int64_t attach_ns;      /* when its manager asked to attach, last */
    gy_rpc_asked attaching; /* number 0: none waits for the end of the job before */
    host_outgoing *outbox, **last_outgoing;
    host_executor *executors;
    uint32_t threads;
    uint64_t memory_bytes;
    gy_supervisor *supervisor; /* NULL: no fork server */
    host_ahead ahead;
    gy_sandbox sandbox; /* of it */
    char *argv[2];      /* of it */
    uint32_t fork_server_epoch, losses;
    bool is_fork_server_wanted, is_fork_server_ending;
    int64_t fork_server_last_ns;
    int64_t closed_ns; /* the first of its executors closed its stream then; INT64_MAX: none */
    host_watch fork_server;
    uint8_t *slots; /* (options.slots) 1: taken */
    host_program program;
    host_manager manager;
    host_want *wants;
    size_t want_count, want_room;
    gy_index by_want;
    host_told told[HOST_TOLD];
    uint32_t told_count, told_epoch;
    uint64_t transfers, fetched_bytes, wire_bytes; /* since it was said last */
    bool has_folder, is_dead;
};

/** A call to whichever name server answers. */
typedef struct host_ask {
    struct host_ask *next;
    gy_host *host;
    uint32_t type;
    gy_key job;
    uint32_t epoch;
    gy_status status; /* JOB_END */
    char reason[512];
    int code;                   /* JOB_END */
    uint64_t said, untold;      /* JOB_END: bytes printed, of which the last come with it */
    int64_t until_ns, again_ns; /* INT64_MAX: it is under way */
    bool is_over;
} host_ask;

typedef struct host_blob {
    struct host_blob *next;
    gy_key key;
    bool is_here;
    uint64_t size_bytes, used; /* used: the later the larger */
    int64_t changed_ns;
    /* While it comes, or is read once more to see that it is what its name says. */
    bool is_verified;
    gy_host *host;
    int file;
    gy_net_digest *digest;
    uint64_t number;
} host_blob;

/** One section of a transfer. */
typedef struct host_fetch {
    gy_key content;
    uint64_t ticket, size_bytes;
    bool is_stopped, is_over; /* over: the machine knows how */
} host_fetch;

/** A transfer from another daemon: one section, or small ones behind each other. */
typedef struct host_lot {
    struct host_lot *next;
    gy_host *host;
    gy_key job;
    uint64_t number, wire_bytes;
    uint32_t count, room, at; /* at: of those that come together, the one that comes */
    int file;                 /* of one that comes alone; -1 */
    gy_status status;         /* of what was done with the bytes */
    uint8_t note[GY_BULK_NOTE_BYTES];
    size_t note_bytes;
    /* Of those that come together: head, note and bytes of the one that comes, as far as they
     * are here. */
    uint8_t *here;
    size_t here_bytes;
    host_fetch sections[];
} host_lot;

/** An event that an effect led to. */
typedef struct host_event {
    gy_daemon_event event;
    char reason[GY_CONTROL_REASON_BYTES];
} host_event;

struct gy_host {
    gy_env *env;
    const gy_host_options *options;
    gy_sandbox sandbox; /* what all jobs have */
    uint32_t slots;
    uint64_t id, incarnation, life;
    char folder[HOST_PATH - 512], address[GY_RPC_ADDRESS_BYTES], host_name[64];
    int lock, epoll, signals;
    gy_rpc *rpc;
    gy_bulk_server bulk;
    gy_rpc_method *methods;
    gy_daemon *machine;
    gy_daemon_effects effects;
    host_event *events; /* a queue */
    size_t event_head, event_count, event_room;
    bool is_stepping;
    int64_t wake_ns, tick_ns;
    int64_t alone_ns;   /* then it is said that no name server takes it */
    int64_t orphans_ns; /* until then there may be children that nobody knows */
    host_job *jobs;
    gy_index by_job; /* key -> row of job_rows */
    host_job **job_rows;
    size_t job_count, job_room;
    /* The request that is being served; NULL: none. */
    const gy_rpc_asked *asked;
    bool is_answered, is_refused;
    /* Name servers. */
    struct {
        char address[GY_RPC_ADDRESS_BYTES];
        gy_rpc_peer peer;
        bool is_up;
    } names[HOST_NAMES_MAX];
    uint32_t name_count, name_last; /* last: that answered */
    host_ask *asks;
    host_blob *blobs;
    bool is_verifying; /* one of them */
    host_lot *lots;
    host_lot *open_lot; /* more sections of it follow in this step; NULL */
    uint64_t blob_clock, trash_count, swept_count;
    bool is_full, is_troubled; /* the disk, as the machine was told */
    int64_t ring_changed_ns;
    int64_t full_ns; /* something had no room at that time */
    bool is_ending, has_dead, is_bye_sent;
    int64_t last_ns; /* it ends by then */
    gy_status status;
    gy_error why;
};

/* ---- host.c ---- */
/** The daemon ends with this thread's last failure; the first one counts. */
void gy_host_fail(gy_host *host, gy_status status);
/** Step the machine, do what it asks for, and step again with what that led to; NULL: with what
 * waits alone. */
void gy_host_step(gy_host *host, gy_daemon_event *event);
/** An event for after this step; its reason is copied. */
void gy_host_later(gy_host *host, const gy_daemon_event *event);
/** Wait for `file`, whose `watch` is filled in but for it. GY_LIMIT */
GY_MUST_CHECK gy_status gy_host_watch(gy_host *host, host_watch *watch, int file,
                                      uint32_t events);
void gy_host_watch_change(gy_host *host, host_watch *watch, uint32_t events);
/** Wait no more; the file is closed. */
void gy_host_unwatch(gy_host *host, host_watch *watch);

/** Wait no more; the file stays open. */
void gy_host_unwatch_only(gy_host *host, host_watch *watch);

/* ---- effects.c ---- */
void gy_host_do(gy_host *host, const gy_daemon_effect *effect);

/* ---- identity.c ---- */
/** The folder, its lock, who it is. GY_STATE; GY_IO; GY_FORMAT */
GY_MUST_CHECK gy_status gy_host_identity(gy_host *host);
/** Write a small file whole and synced. GY_IO; GY_LIMIT: no room */
GY_MUST_CHECK gy_status gy_host_write_file(gy_host *host, const char *path, const char *text);
/** The bytes of a small file, with a NUL. GY_NOTFOUND; GY_IO; GY_FORMAT too long */
GY_MUST_CHECK gy_status gy_host_read_file(gy_host *host, const char *path, char *text,
                                          size_t room);
/** Something had no room on the disk. */
void gy_host_disk_full(gy_host *host);
void gy_host_look_at_disk(gy_host *host);
/** "FOLDER/a/b"; false: too long. */
bool gy_host_path(char out[HOST_PATH], const char *folder, const char *a, const char *b);

/* ---- jobs.c ---- */
/** NULL: there is none. */
host_job *gy_host_job(const gy_host *host, gy_key key);
/** Found or made; NULL: no memory, which ends the daemon. */
host_job *gy_host_job_new(gy_host *host, gy_key key);
/** Its folder with all below. GY_IO; GY_LIMIT */
GY_MUST_CHECK gy_status gy_host_job_folder(gy_host *host, host_job *job);
GY_MUST_CHECK gy_status gy_host_record(gy_host *host, gy_key key, uint32_t epoch,
                                       uint32_t started);
/** All records into the machine. */
GY_MUST_CHECK gy_status gy_host_load(gy_host *host);
/** Its files go; is_all: the record too. */
void gy_host_discard(gy_host *host, gy_key key, bool is_all);
/** Put it aside, to be removed. */
void gy_host_throw(gy_host *host, const char *path);
/** Remove a little of what was thrown away. True: there is more. */
bool gy_host_sweep(gy_host *host);
/** Free what is dead. */
void gy_host_reap(gy_host *host);
void gy_host_jobs_free(gy_host *host);

/* ---- names.c ---- */
GY_MUST_CHECK gy_status gy_host_dial_names(gy_host *host);
void gy_host_tell_state(gy_host *host, const gy_daemon_state *state);
/** Serve an order. */
gy_status gy_host_order(void *arg, const gy_rpc_asked *asked, const ProtobufCMessage *request);
/** Ask until it is answered or `until_ns`; the answer goes to gy_host_program_spec or
 * gy_host_manager_told. */
void gy_host_ask(gy_host *host, uint32_t type, const host_ask *what);
/** Try again what is due. */
void gy_host_look_at_asks(gy_host *host, int64_t now_ns);
/** What answers there is a name server; false: something else, which is told. */
bool gy_host_name_is_one(const gy_host *host, uint32_t which);
/** Is this a name server of ours? */
void gy_host_name_is_up(gy_host *host, uint32_t which, bool is_up);
/** Says now and then why none of them has this daemon. */
void gy_host_look_at_names(gy_host *host, int64_t now_ns);
bool gy_host_is_name(const gy_host *host, gy_rpc_peer peer, uint32_t *which);
/** Tell whoever answered last; `done` is not called when this fails. */
GY_MUST_CHECK gy_status gy_host_call_name(gy_host *host, uint32_t type,
                                          const ProtobufCMessage *message, gy_rpc_done done,
                                          void *arg);
/** Where the name server that answered last listens. */
const char *gy_host_name_address(const gy_host *host);
void gy_host_asks_free(gy_host *host);

/* ---- serve.c ---- */
GY_MUST_CHECK gy_status gy_host_methods(gy_host *host, size_t *count);

/* ---- tell.c ---- */
/** Call the job's manager; without one of that epoch it is lost. */
void gy_host_call(gy_host *host, host_job *job, uint32_t epoch, uint32_t type,
                  const ProtobufCMessage *message);
/** As above, but GY_AGAIN when it would have to wait: it was not taken. */
GY_MUST_CHECK gy_status gy_host_call_now(gy_host *host, host_job *job, uint32_t epoch,
                                         uint32_t type, const ProtobufCMessage *message);
void gy_host_tell(gy_host *host, const gy_daemon_effect *effect);
/** The ends of fetches that were not said so far. */
void gy_host_tell_fetched(gy_host *host);
/** There is room again. */
void gy_host_flush(gy_host *host, gy_rpc_peer peer);
void gy_host_outbox_free(host_job *job);

/* ---- fork_server.c ---- */
void gy_host_fork_server_start(gy_host *host, const gy_daemon_effect *effect);
void gy_host_fork_server_end(gy_host *host, gy_key key);
/** The program is ready, or GY_OK is not `status`. */
void gy_host_fork_server_go(gy_host *host, host_job *job, gy_status status);
/** Start it before it is ordered, if it seems that it will be; what fails, fails when it is
 * ordered. */
void gy_host_fork_server_foresee(gy_host *host, host_job *job,
                                 const gy_ticket_request *request);
/** The one that nobody has ordered is not wanted any more. */
void gy_host_fork_server_dismiss(gy_host *host, host_job *job);
/** How much memory a process has that asks for so much. */
uint64_t gy_host_memory(const gy_host *host, uint64_t asked_bytes);
/** It takes too long to end. */
void gy_host_fork_server_look(gy_host *host, host_job *job, int64_t now_ns);

/* ---- executors.c ---- */
host_executor *gy_host_executor(const host_job *job, uint64_t lease, uint32_t generation);
/** NULL: no memory. */
host_executor *gy_host_executor_new(gy_host *host, host_job *job, uint64_t lease,
                                    uint32_t generation, uint32_t epoch);
void gy_host_executor_start(gy_host *host, const gy_daemon_effect *effect);
void gy_host_executor_kill(host_executor *executor);
/** Its process is gone. */
void gy_host_executor_news(gy_host *host, host_executor *executor,
                           const gy_fork_server_news *news);
/** Take all that it has said; then its stream is closed. */
void gy_host_executor_drain(gy_host *host, host_executor *executor);
/** It is gone for the machine, too. */
void gy_host_executor_free(gy_host *host, host_executor *executor);
/** Bytes that its manager said. GY_NOMEM */
GY_MUST_CHECK gy_status gy_host_executor_take(host_executor *executor, const void *data,
                                              size_t size_bytes);
/** Write what may be written, both ways. */
void gy_host_executor_pump(gy_host *host, host_executor *executor);

/* ---- program.c ---- */
/** Have the job's program here; then gy_host_fork_server_go and gy_host_manager_go. */
void gy_host_program_need(gy_host *host, host_job *job);
/** The name server's answer. `spec` NULL: this thread's last failure. */
void gy_host_program_spec(gy_host *host, gy_key key, const Gy__Cluster__Spec *spec);
/** A blob is here, or has failed. */
void gy_host_program_blob(gy_host *host, gy_key blob, gy_status status);
void gy_host_program_look(gy_host *host, host_job *job, int64_t now_ns);
void gy_host_program_free(host_program *program);

/* ---- blobs.c ---- */
/** GY_OK it is here; GY_AGAIN it comes: gy_host_program_blob; < 0 */
GY_MUST_CHECK gy_status gy_host_blob(gy_host *host, gy_key key);
/** All of one that came without being fetched: kept if it is not here and is what its name
 * says; what is not is fetched as ever. */
void gy_host_blob_take(gy_host *host, gy_key key, const void *data, size_t size_bytes);
/** A second name for one that is here. GY_IO; GY_LIMIT */
GY_MUST_CHECK gy_status gy_host_blob_link(gy_host *host, gy_key key, bool is_executable,
                                          const char *path);
/** Its path. */
void gy_host_blob_path(const gy_host *host, gy_key key, char out[HOST_PATH]);
/** Those that lie in the folder. */
GY_MUST_CHECK gy_status gy_host_blobs_load(gy_host *host);
/** A piece more of what is being verified. True: there is more to do at once. */
bool gy_host_blobs_look(gy_host *host);
void gy_host_blobs_free(gy_host *host);

/* ---- manager.c, shim.c ---- */
void gy_host_manager_start(gy_host *host, const gy_daemon_effect *start);
void gy_host_manager_end(gy_host *host, gy_key key, uint32_t epoch);
void gy_host_manager_go(gy_host *host, host_job *job, gy_status status);
/** The name server knows of its end. */
void gy_host_manager_told(gy_host *host, gy_key key, uint32_t epoch);
/** What it printed and nobody was told: into data (GY_NET_LAST_BYTES); 0: all was, or it is not
 * to be read. */
size_t gy_host_manager_last(const gy_host *host, const host_ask *ask, uint8_t *data);
void gy_host_manager_look(gy_host *host, host_job *job, int64_t now_ns);
/** When to look; INT64_MAX: no manager prints anything. */
int64_t gy_host_manager_next_ns(const host_job *job);
void gy_host_manager_free(host_job *job);

/* ---- orphans.c: what killed parents leave to the daemon ---- */

/** This process adopts what its children leave. GY_LIMIT */
GY_MUST_CHECK gy_status gy_host_adopt(void);
/** A child that looks after others was killed: theirs come to the daemon soon. */
void gy_host_expect_orphans(gy_host *host);
/** Kill those that came. */
void gy_host_end_orphans(gy_host *host, int64_t now_ns);
void gy_host_look_at_ring(gy_host *host);

typedef struct host_minded {
    const char *path, *directory; /* directory NULL: as it is */
    char *const *argv;
    char *const *environment;
    int log;            /* -1: none */
    const char *loader; /* of an ELF program; "": none */
} host_minded;

/**
 * Start a process below one that ends it, with all that it started, when our end of `socket`
 * closes or a byte comes; a host_ended comes there, then the end.
 * GY_LIMIT
 */
GY_MUST_CHECK gy_status gy_cluster_shim_start(const host_minded *minded, int *socket,
                                              pid_t *shim);

/* ---- fetch.c ---- */
/** Remember what the machine does not. GY_FORMAT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_host_want(host_job *job, const Gy__Cluster__FetchOne *asks);
void gy_host_unwant_all(host_job *job);
void gy_host_fetch_start(gy_host *host, const gy_daemon_effect *effect);
void gy_host_fetch_stop(gy_host *host, uint64_t ticket);
void gy_host_fetches_free(gy_host *host);

/** Of a section in a region of several. */
enum { HOST_HEAD_BYTES = 16 };

/** gy_bulk_server.find */
gy_status gy_host_find(void *arg, gy_rpc_role role, const char *subject, const void *name,
                       size_t name_bytes, gy_bulk_region *region);
/** A file of a folder and nothing outside of it. GY_FORMAT */
GY_MUST_CHECK gy_status gy_host_check_name(const char *name);

#endif
