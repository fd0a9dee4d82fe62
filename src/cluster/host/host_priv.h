/**
 * Inside a daemon's process: one thread waits for sockets, processes and timers, steps the
 * machine, and carries out its effects. The result of an effect is an event of a later step.
 *
 * host.c: the loop; effects.c: effects; identity.c: folder and disk; jobs.c: jobs and their
 * folders; names.c: name servers; serve.c: requests of managers; tell.c: messages to managers;
 * fork_server.c, executors.c: processes and their data; program.c, blobs.c: programs;
 * manager.c, shim.c: managers; fetch.c: sections.
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
    HOST_STREAM = 256 << 10, /* buffered bytes of a process */
    HOST_TOLD = 64,          /* results of fetches in one message */
    HOST_THREADS_MAX = 1024, /* of a process */
};

typedef struct gy_host gy_host;
typedef struct host_job host_job;

/** A polled descriptor. Its owner is not freed before the end of the round. */
typedef struct host_watch {
    void (*ready)(gy_host *host, void *owner, uint32_t events);
    void *owner;
    int file;        /* -1: none */
    uint32_t events; /* of epoll */
} host_watch;

/** The executor of a process, from OPEN to its end. */
typedef struct host_executor {
    struct host_executor *next;
    host_job *job;
    uint64_t lease;
    uint32_t generation, epoch, slot;
    bool has_process, is_killed, is_dead; /* is_dead: freed at the end of the round */
    bool has_news, is_closed;             /* is_closed: its stream has ended */
    gy_fork_server_news news;
    host_watch watch; /* its stream */
    uint8_t *up;      /* (HOST_STREAM) from the process, not yet sent to its manager */
    size_t up_bytes, up_told;
    uint64_t up_due; /* how many of these may be sent */
    uint8_t *down;   /* for the process */
    size_t down_at, down_bytes, down_room;
    uint64_t down_due;
} host_executor;

/** A message that waits to be sent to a manager. */
typedef struct host_outgoing {
    struct host_outgoing *next;
    uint32_t type;
    size_t size_bytes;
    uint8_t packed[];
} host_outgoing;

/** A section that a manager requests: the part that the machine does not store. */
typedef struct host_want {
    gy_key content;
    char *name; /* of the file; after its NUL the bytes that locate the section */
    uint32_t wanted_bytes;
} host_want;

typedef enum host_program_state {
    PROGRAM_NONE,
    PROGRAM_ASKING, /* waits for the name server's answer */
    PROGRAM_SPEC,   /* its specification is being fetched */
    PROGRAM_FILES,  /* its files are being fetched */
    PROGRAM_READY,
} host_program_state;

typedef struct host_program {
    host_program_state state;
    Gy__Cluster__JobSpec *spec;
    gy_key blob;                /* being waited for */
    size_t file;                /* of the spec */
    int64_t until_ns, again_ns; /* again_ns: when to retry a blob; INT64_MAX: not now */
    char *path;                 /* of the program */
    /* Environment variables; the last one if there are libraries. */
    char **environment, *libraries;
    size_t variable_count;
    const char *directory; /* working directory */
    char *folder;          /* of its files */
} host_program;

/** The report of a shim about its process's end. */
typedef struct host_ended {
    int status;         /* as from waitpid */
    bool is_unloadable; /* this host lacks something that the program needs */
} host_ended;

/** A manager that runs here, as the child of a shim. */
typedef struct host_manager {
    uint32_t wanted;    /* the epoch of a manager that is about to start; 0 */
    uint32_t slots_max; /* of one host for its job; 0: not known */
    bool is_resumed;    /* it resumes a job that had ended, */
    bool is_forgotten;  /* or removes its retained data */
    bool is_waiting;    /* for its files, as the machine knows */
    uint32_t epoch;     /* of the manager that runs, or whose end is not reported yet; 0 */
    pid_t shim;         /* 0: none */
    host_watch watch;   /* receives the report of its end */
    bool is_killed, has_status;
    bool is_key_old; /* the key ring has changed since its key was made */
    host_ended ended;
    int64_t last_ns; /* then the shim is killed; INT64_MAX */
    /* Its output: bytes of its log from `base` on, of which `said` are known to the name
     * server. */
    int log;                     /* -1: not open */
    uint64_t base, said, saying; /* saying: includes those being sent; 0: none are */
    int64_t look_ns;             /* when to check for more */
    int64_t end_ns;     /* it has ended, which is reported by then at the latest; INT64_MAX */
    host_watch request; /* for the prewarm hint */
} host_manager;

/**
 * A prewarmed fork server, which a manager on this host will probably need: it was not ordered,
 * and the machine does not know it.
 */
typedef struct host_prewarmed {
    gy_supervisor *supervisor; /* NULL: none */
    host_watch watch;
    int64_t last_ns; /* when it must have ended; INT64_MAX */
} host_prewarmed;

/** The result of a fetch that was not sent to the manager yet. */
typedef struct host_result {
    uint64_t number;
    gy_status status;
} host_result;

struct host_job {
    host_job *next;
    gy_key key;
    char name[HOST_NAME];
    char path[HOST_PATH];
    gy_rpc_peer peer; /* of its manager; 0: not attached */
    uint32_t peer_epoch;
    int64_t attach_ns;      /* when its manager last asked to attach */
    gy_rpc_asked attaching; /* number 0: no request waits for the end of the job before */
    host_outgoing *outbox, **last_outgoing;
    host_executor *executors;
    uint32_t threads;
    uint64_t memory_bytes;
    gy_supervisor *supervisor; /* NULL: no fork server */
    host_prewarmed ahead;
    gy_sandbox sandbox; /* for it */
    char *argv[2];      /* for it */
    uint32_t fork_server_epoch, losses;
    bool is_fork_server_wanted, is_fork_server_ending;
    int64_t fork_server_last_ns;
    /* When the first of its executors closed its stream; INT64_MAX: none has. */
    int64_t closed_ns;
    host_watch fork_server;
    uint8_t *slots; /* (options.slots) 1: in use */
    host_program program;
    host_manager manager;
    host_want *wants;
    size_t want_count, want_room;
    gy_index by_want;
    host_result told[HOST_TOLD];
    uint32_t told_count, told_epoch;
    uint64_t transfers, fetched_bytes, wire_bytes; /* since the last report */
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
    int code;              /* JOB_END */
    uint64_t said, untold; /* JOB_END: bytes printed, and how many of the last come with it */
    int64_t until_ns, again_ns; /* again_ns: INT64_MAX: in progress */
    bool is_over;
} host_ask;

typedef struct host_blob {
    struct host_blob *next;
    gy_key key;
    bool is_here;
    uint64_t size_bytes, used; /* used: larger means more recently */
    int64_t changed_ns;
    /* While it is fetched, or read again for verification. */
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
    bool is_stopped, is_over; /* is_over: the machine knows the result */
} host_fetch;

/** A transfer from another daemon: one section, or several small ones in sequence. */
typedef struct host_lot {
    struct host_lot *next;
    gy_host *host;
    gy_key job;
    uint64_t number, wire_bytes;
    uint32_t count, room, at; /* at: index of the current one of several */
    int file;                 /* of a single section; -1 */
    gy_status status;         /* of writing the received bytes */
    uint8_t note[GY_BULK_NOTE_BYTES];
    size_t note_bytes;
    /* For several sections: head, note and bytes of the current one, as far as received. */
    uint8_t *here;
    size_t here_bytes;
    host_fetch sections[];
} host_lot;

/** An event caused by an effect. */
typedef struct host_event {
    gy_daemon_event event;
    char reason[GY_CONTROL_REASON_BYTES];
} host_event;

struct gy_host {
    gy_env *env;
    const gy_host_options *options;
    gy_sandbox sandbox; /* common to all jobs */
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
    int64_t alone_ns;   /* when to log that no name server accepts it */
    int64_t orphans_ns; /* until when unknown children may appear */
    host_job *jobs;
    gy_index by_job; /* key -> row of job_rows */
    host_job **job_rows;
    size_t job_count, job_room;
    /* The request being served; NULL: none. */
    const gy_rpc_asked *asked;
    bool is_answered, is_refused;
    /* Name servers. */
    struct {
        char address[GY_RPC_ADDRESS_BYTES];
        gy_rpc_peer peer;
        bool is_up;
    } names[HOST_NAMES_MAX];
    uint32_t name_count, name_last; /* last: the one that answered last */
    host_ask *asks;
    host_blob *blobs;
    bool is_verifying; /* one of the blobs is */
    host_lot *lots;
    host_lot *open_lot; /* more of its sections follow in this step; NULL */
    uint64_t blob_clock, trash_count, swept_count;
    bool is_full, is_troubled; /* state of the disk, as the machine knows it */
    int64_t ring_changed_ns;
    int64_t full_ns; /* when a write last had no room */
    bool is_ending, has_dead, is_bye_sent;
    int64_t last_ns; /* it must have ended by then */
    gy_status status;
    gy_error why;
};

/* ---- host.c ---- */
/** End the daemon with this thread's last failure; the first one counts. */
void gy_host_fail(gy_host *host, gy_status status);
/**
 * Step the machine, carry out the effects, and step with their results; NULL: only with waiting
 * events.
 */
void gy_host_step(gy_host *host, gy_daemon_event *event);
/** Queue an event for after this step; its reason is copied. */
void gy_host_later(gy_host *host, const gy_daemon_event *event);
/** Poll `file`; the other members of `watch` are set. GY_LIMIT */
GY_MUST_CHECK gy_status gy_host_watch(gy_host *host, host_watch *watch, int file,
                                      uint32_t events);
void gy_host_watch_change(gy_host *host, host_watch *watch, uint32_t events);
/** Stop polling and close the file. */
void gy_host_unwatch(gy_host *host, host_watch *watch);

/** Stop polling; the file stays open. */
void gy_host_unwatch_only(gy_host *host, host_watch *watch);

/* ---- effects.c ---- */
void gy_host_do(gy_host *host, const gy_daemon_effect *effect);

/* ---- identity.c ---- */
/** Take the folder with its lock, and the identity in it. GY_STATE; GY_IO; GY_FORMAT */
GY_MUST_CHECK gy_status gy_host_identity(gy_host *host);
/** Write a small file atomically and sync it. GY_IO; GY_LIMIT: no room */
GY_MUST_CHECK gy_status gy_host_write_file(gy_host *host, const char *path, const char *text);
/** Read a small file, NUL-terminated. GY_NOTFOUND; GY_IO; GY_FORMAT too long */
GY_MUST_CHECK gy_status gy_host_read_file(gy_host *host, const char *path, char *text,
                                          size_t room);
/** A write had no room on the disk. */
void gy_host_disk_full(gy_host *host);
void gy_host_check_disk(gy_host *host);
/** Write "FOLDER/a/b"; false: too long. */
bool gy_host_path(char out[HOST_PATH], const char *folder, const char *a, const char *b);

/* ---- jobs.c ---- */
/** NULL: there is none. */
host_job *gy_host_job(const gy_host *host, gy_key key);
/** Find or make; NULL: no memory, which ends the daemon. */
host_job *gy_host_job_new(gy_host *host, gy_key key);
/** Create its folder and those in it. GY_IO; GY_LIMIT */
GY_MUST_CHECK gy_status gy_host_job_folder(gy_host *host, host_job *job);
GY_MUST_CHECK gy_status gy_host_record(gy_host *host, gy_key key, uint32_t epoch,
                                       uint32_t started);
/** Load all records into the machine. */
GY_MUST_CHECK gy_status gy_host_load(gy_host *host);
/** Delete its files; is_all: the record too. */
void gy_host_discard(gy_host *host, gy_key key, bool is_all);
/** Move it to the trash. */
void gy_host_move_to_trash(gy_host *host, const char *path);
/** Delete some of the trash. True: there is more. */
bool gy_host_sweep(gy_host *host);
/** Free the rows of dead objects. */
void gy_host_reap(gy_host *host);
void gy_host_jobs_free(gy_host *host);

/* ---- names.c ---- */
GY_MUST_CHECK gy_status gy_host_dial_names(gy_host *host);
void gy_host_send_state(gy_host *host, const gy_daemon_state *state);
/** Serve an order of a name server. */
gy_status gy_host_order(void *arg, const gy_rpc_asked *asked, const ProtobufCMessage *request);
/**
 * Send a call until it is answered or `until_ns`; the answer goes to gy_host_program_spec or
 * gy_host_manager_reported.
 */
void gy_host_ask(gy_host *host, uint32_t type, const host_ask *what);
/** Retry the calls that are due. */
void gy_host_check_asks(gy_host *host, int64_t now_ns);
/** Is the peer a name server? False: another kind of process, which is logged. */
bool gy_host_name_is_one(const gy_host *host, uint32_t which);
/** The connection to a name server came up or broke. */
void gy_host_name_is_up(gy_host *host, uint32_t which, bool is_up);
/** Log from time to time why no name server accepts this daemon. */
void gy_host_check_names(gy_host *host, int64_t now_ns);
bool gy_host_is_name(const gy_host *host, gy_rpc_peer peer, uint32_t *which);
/** Call the name server that answered last; `done` is not called if this fails. */
GY_MUST_CHECK gy_status gy_host_call_name(gy_host *host, uint32_t type,
                                          const ProtobufCMessage *message, gy_rpc_done done,
                                          void *arg);
/** The address of the name server that answered last. */
const char *gy_host_name_address(const gy_host *host);
void gy_host_asks_free(gy_host *host);

/* ---- serve.c ---- */
GY_MUST_CHECK gy_status gy_host_methods(gy_host *host, size_t *count);

/* ---- tell.c ---- */
/** Call the job's manager; without a manager of that epoch the call is dropped. */
void gy_host_call(gy_host *host, host_job *job, uint32_t epoch, uint32_t type,
                  const ProtobufCMessage *message);
/** As above, but GY_AGAIN if the call would have to wait; it is not sent then. */
GY_MUST_CHECK gy_status gy_host_call_now(gy_host *host, host_job *job, uint32_t epoch,
                                         uint32_t type, const ProtobufCMessage *message);
void gy_host_send(gy_host *host, const gy_daemon_effect *effect);
/** Send the results of fetches that were not sent yet. */
void gy_host_send_fetched(gy_host *host);
/** The peer's queue has room again. */
void gy_host_flush(gy_host *host, gy_rpc_peer peer);
void gy_host_outbox_free(host_job *job);

/* ---- fork_server.c ---- */
void gy_host_fork_server_start(gy_host *host, const gy_daemon_effect *effect);
void gy_host_fork_server_end(gy_host *host, gy_key key);
/** The program is ready, or failed with `status`. */
void gy_host_fork_server_go(gy_host *host, host_job *job, gy_status status);
/**
 * Start the fork server in advance if an order is likely; a failure is reported only when it is
 * ordered.
 */
void gy_host_fork_server_foresee(gy_host *host, host_job *job,
                                 const gy_ticket_request *request);
/** End the prewarmed fork server. */
void gy_host_fork_server_dismiss(gy_host *host, host_job *job);
/** The memory limit of a process that requests so much. */
uint64_t gy_host_memory(const gy_host *host, uint64_t asked_bytes);
/** Kill it if it takes too long to end. */
void gy_host_fork_server_check(gy_host *host, host_job *job, int64_t now_ns);

/* ---- executors.c ---- */
host_executor *gy_host_executor(const host_job *job, uint64_t lease, uint32_t generation);
/** NULL: no memory. */
host_executor *gy_host_executor_new(gy_host *host, host_job *job, uint64_t lease,
                                    uint32_t generation, uint32_t epoch);
void gy_host_executor_start(gy_host *host, const gy_daemon_effect *effect);
void gy_host_executor_kill(host_executor *executor);
/** Its process has ended. */
void gy_host_executor_news(gy_host *host, host_executor *executor,
                           const gy_fork_server_news *news);
/** Read all remaining data, then close its stream. */
void gy_host_executor_drain(gy_host *host, host_executor *executor);
/** The machine has forgotten it, too. */
void gy_host_executor_free(gy_host *host, host_executor *executor);
/** Bytes from its manager. GY_NOMEM */
GY_MUST_CHECK gy_status gy_host_executor_take(host_executor *executor, const void *data,
                                              size_t size_bytes);
/** Write what can be written, in both directions. */
void gy_host_executor_pump(gy_host *host, host_executor *executor);

/* ---- program.c ---- */
/** Prepare the job's program; then gy_host_fork_server_go and gy_host_manager_go. */
void gy_host_program_need(gy_host *host, host_job *job);
/** The name server's answer. `spec` NULL: failed with this thread's last failure. */
void gy_host_program_spec(gy_host *host, gy_key key, const Gy__Cluster__Spec *spec);
/** A blob is complete, or has failed. */
void gy_host_program_blob(gy_host *host, gy_key blob, gy_status status);
void gy_host_program_check(gy_host *host, host_job *job, int64_t now_ns);
void gy_host_program_free(host_program *program);

/* ---- blobs.c ---- */
/** GY_OK it is here; GY_AGAIN it is being fetched, then gy_host_program_blob; < 0 */
GY_MUST_CHECK gy_status gy_host_blob(gy_host *host, gy_key key);
/**
 * A blob received with a message: kept if it is new and matches its name; else it is fetched as
 * usual.
 */
void gy_host_blob_take(gy_host *host, gy_key key, const void *data, size_t size_bytes);
/** Create a hard link to a blob. GY_IO; GY_LIMIT */
GY_MUST_CHECK gy_status gy_host_blob_link(gy_host *host, gy_key key, bool is_executable,
                                          const char *path);
/** Its path. */
void gy_host_blob_path(const gy_host *host, gy_key key, char out[HOST_PATH]);
/** Load the blobs in the folder. */
GY_MUST_CHECK gy_status gy_host_blobs_load(gy_host *host);
/** Continue the verification. True: there is more to do at once. */
bool gy_host_blobs_verify(gy_host *host);
void gy_host_blobs_free(gy_host *host);

/* ---- manager.c, shim.c ---- */
void gy_host_manager_start(gy_host *host, const gy_daemon_effect *start);
void gy_host_manager_end(gy_host *host, gy_key key, uint32_t epoch);
void gy_host_manager_go(gy_host *host, host_job *job, gy_status status);
/** The name server has recorded its end. */
void gy_host_manager_reported(gy_host *host, gy_key key, uint32_t epoch);
/**
 * Its last output that was not sent, into data (GY_NET_LAST_BYTES); 0: all was sent, or it
 * cannot be read.
 */
size_t gy_host_manager_last(const gy_host *host, const host_ask *ask, uint8_t *data);
void gy_host_manager_check(gy_host *host, host_job *job, int64_t now_ns);
/** When to check for output; INT64_MAX: no manager runs. */
int64_t gy_host_manager_next_ns(const host_job *job);
void gy_host_manager_free(host_job *job);

/* ---- orphans.c: processes that killed parents leave to the daemon ---- */

/** Make this process a subreaper. GY_LIMIT */
GY_MUST_CHECK gy_status gy_host_adopt(void);
/** A shim or fork server was killed: the daemon will soon adopt its children. */
void gy_host_expect_orphans(gy_host *host);
/** Kill the adopted orphans. */
void gy_host_end_orphans(gy_host *host, int64_t now_ns);
void gy_host_check_ring(gy_host *host);

typedef struct host_minded {
    const char *path, *directory; /* directory NULL: unchanged */
    char *const *argv;
    char *const *environment;
    int log;            /* -1: none */
    const char *loader; /* of an ELF program; "": none */
} host_minded;

/**
 * Start a process below a shim. The shim ends it with all that it started when this side of
 * `socket` closes or sends a byte; it sends a host_ended, then closes. GY_LIMIT
 */
GY_MUST_CHECK gy_status gy_cluster_shim_start(const host_minded *minded, int *socket,
                                              pid_t *shim);

/* ---- fetch.c ---- */
/** Store what the machine does not. GY_FORMAT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_host_want(host_job *job, const Gy__Cluster__FetchOne *asks);
void gy_host_unwant_all(host_job *job);
void gy_host_fetch_start(gy_host *host, const gy_daemon_effect *effect);
void gy_host_fetch_stop(gy_host *host, uint64_t ticket);
void gy_host_fetches_free(gy_host *host);

/** of a section in a region of several */
enum { HOST_HEAD_BYTES = 16 };

/** Implements gy_bulk_server.find. */
gy_status gy_host_find(void *arg, gy_rpc_role role, const char *subject, const void *name,
                       size_t name_bytes, gy_bulk_region *region);
/** The name of a file in the folder, not outside it. GY_FORMAT */
GY_MUST_CHECK gy_status gy_host_check_name(const char *name);

#endif
