/**
 * Messages of a cluster: their types on the wire, who may send them to whom, and the conversion
 * between the flat values of control.h and protobuf messages.
 *
 * A *tell* may be lost with its connection; a *call* is carried out once in each life of the
 * process that receives it (rpc.h).
 */
#ifndef GY_CONTROL_NET_NET_H
#define GY_CONTROL_NET_NET_H

#include "control/control.h"
#include "control/net/hooks.h"
#include "rpc/rpc.h"

#include "control/proto/cluster.pb-c.h"

typedef enum gy_net_type {
    /* daemon -> name server */
    GY_NET_DAEMON_STATE = GY_RPC_TYPE_FIRST, /* tell DaemonState */
    GY_NET_DAEMON_BYE,                       /* call DaemonBye -> Done */
    GY_NET_ASK_SPEC,                         /* call AskSpec -> Spec; also a submitter */
    GY_NET_JOB_END,                          /* call JobEnd -> Over; repeatable */
    GY_NET_OUTPUT = 28,                      /* call Said -> Done; repeatable */
    /* name server -> daemon */
    GY_NET_ORDER = 20, /* tell Order */
    /* manager -> name server; the manager's subject is its job */
    GY_NET_REQUESTS = 32, /* tell Requests */
    GY_NET_RELEASE,       /* call GiveBack -> Done; repeatable */
    GY_NET_VIEW = 40,     /* tell View */
    /* name server -> manager */
    GY_NET_ALLOCATIONS = 34, /* tell Allocations */
    GY_NET_OVER,             /* tell Over */
    /* submitter -> name server */
    GY_NET_ASK_BLOBS = 48,  /* call AskBlobs -> Blobs; repeatable */
    GY_NET_PUT_BLOB,        /* call PutBlob -> Done; repeatable */
    GY_NET_SUBMIT,          /* call Submit -> Done; repeatable: the same key is the same job */
    GY_NET_KILL,            /* call Kill -> Done; repeatable */
    GY_NET_DRAIN,           /* call Drain -> Done; repeatable */
    GY_NET_WAIT_END,        /* call WaitEnd -> Ended; repeatable; answered at the job's end */
    GY_NET_LIST,            /* call AskList -> List; repeatable; also a watcher */
    GY_NET_ASK_OUTPUT = 60, /* call AskSaid -> SaidSince; repeatable */
    GY_NET_RESUME,          /* call Resume -> Done; repeatable: of the same epoch, the same */
    GY_NET_ASK_VIEW,        /* call AskView -> View; repeatable; also a watcher */
    /* manager -> daemon; its subject is its job */
    GY_NET_ATTACH = 64, /* call Attach -> Attached; refused with GY_STATE: the epoch is over */
    GY_NET_BEAT,        /* tell Beat */
    GY_NET_OPEN,        /* call Open -> Done */
    GY_NET_CLOSE,       /* call Close -> Done */
    GY_NET_CREDIT,      /* call Credit -> Done; either way */
    GY_NET_RELAY,       /* call Relay -> Done; either way */
    GY_NET_FETCH,       /* call Fetch -> Done: all are begun; then FETCHED for each */
    GY_NET_UNFETCH,     /* tell Unfetch */
    GY_NET_DISCARD,     /* tell Discard */
    GY_NET_JOB_OVER,    /* call JobOver -> Done */
    /* daemon -> manager, over the connection that the manager made */
    GY_NET_LEASE_GONE = 80, /* call LeaseGone -> Done */
    GY_NET_EXECUTOR_GONE,   /* call SeatGone -> Done */
    GY_NET_FETCHED,         /* call Fetched -> Done */
} gy_net_type;

enum {
    GY_NET_RELAY_BYTES = 256 << 10, /* maximum of a Relay's data */
    GY_NET_BLOB_PIECE = 1 << 20,    /* maximum of a PutBlob's data */
    GY_NET_OUTPUT_PIECE = 64 << 10, /* maximum of a Said's data */
    GY_NET_LAST_BYTES = 16 << 10,   /* of a JobEnd's additional texts */
    GY_NET_OUTPUT_KEPT = 256 << 10, /* bytes of a job's output that a name server retains */
    GY_NET_MANAGERS_MAX = 4096,     /* in the state of one daemon */
    GY_NET_NAME_BYTES = 256,        /* of a file name of a job, with its NUL */
    GY_NET_FILES_MAX = 1024,        /* of a job */
    GY_NET_VIEW_BYTES = 128 << 10,  /* maximum of a View */
    GY_NET_VIEW_STAGES = 128,       /* stages in a View */
    GY_NET_VIEW_ROWS = 32,          /* runs, notes and counters in a View, each */
    GY_NET_VIEW_TEXT = 160,         /* of a text in a View, with its NUL */
    GY_NET_TEXTS_MAX = 4096,        /* arguments, or variables */
    GY_NET_TEXT_MAX = 128 << 10,    /* of one of them, with its NUL */
    GY_NET_SPEC_BYTES = 4 << 20,    /* of a JobSpec, packed */
    GY_NET_SPEC_SMALL = 16 << 10,   /* of a small file inside a Spec */
};

/**
 * The method of a type, for a node's table: its name, its messages, their sizes, who may send
 * it. The caller sets `serve` and `cancel`. @threads any
 */
gy_rpc_method gy_net_method(gy_net_type type);

/**
 * A hash of what must be equal on all hosts that run a program: machine, libc, ABI of this
 * library. @threads any
 */
uint64_t gy_net_platform(void);

/* ---- Values to messages: texts and arrays are borrowed, or in the arena. GY_NOMEM ---- */

GY_MUST_CHECK gy_status gy_net_write_state(const gy_daemon_state *state, gy_arena *arena,
                                           Gy__Cluster__DaemonState *message);
GY_MUST_CHECK gy_status gy_net_write_order(const gy_control_order *order, gy_arena *arena,
                                           Gy__Cluster__Order *message);
GY_MUST_CHECK gy_status gy_net_write_requests(const gy_manager_requests *requests,
                                              gy_arena *arena, Gy__Cluster__Requests *message);
GY_MUST_CHECK gy_status gy_net_write_allocations(const gy_allocation *allocations, size_t count,
                                                 gy_arena *arena,
                                                 Gy__Cluster__Allocations *message);

/* ---- Messages to values, checked. GY_FORMAT: the text names the error; GY_NOMEM. Texts are
 * borrowed from the message, arrays are in the arena. ---- */

GY_MUST_CHECK gy_status gy_net_read_state(const Gy__Cluster__DaemonState *message,
                                          gy_arena *arena, gy_daemon_state *state);
GY_MUST_CHECK gy_status gy_net_read_order(const Gy__Cluster__Order *message,
                                          gy_control_order *order);
GY_MUST_CHECK gy_status gy_net_read_requests(const Gy__Cluster__Requests *message,
                                             gy_manager_requests *requests);
GY_MUST_CHECK gy_status gy_net_read_allocations(const Gy__Cluster__Allocations *message,
                                                gy_arena *arena, gy_allocation **allocations,
                                                size_t *count);

/**
 * Check a text for display: shorter than `room` bytes, without control characters. GY_FORMAT
 * names `what`. @threads any
 */
GY_MUST_CHECK gy_status gy_net_check_text(const char *text, size_t room, const char *what);
/**
 * Copy an untrusted text into `room` bytes: truncated with "..." at its end if necessary,
 * control characters become spaces. @threads any
 */
void gy_net_clean_text(const char *text, char *out, size_t room);
/** GY_FORMAT the key or the epoch is zero. */
GY_MUST_CHECK gy_status gy_net_check_job(const Gy__Cluster__Key *key, uint32_t epoch);

/** GY_FORMAT: the job cannot run, or a file name leads out of its folder. */
GY_MUST_CHECK gy_status gy_net_check_spec(const Gy__Cluster__JobSpec *spec);

/** GY_FORMAT: too many entries, or a reference to a stage that does not exist. @threads any */
GY_MUST_CHECK gy_status gy_net_check_view(const Gy__Cluster__View *view);

enum { GY_NET_PATH_BYTES = 4096 };

/**
 * The loader that a 64-bit ELF program names; "": not an ELF program, or it needs none. The
 * loader reports which libraries the program lacks on this host ("LOADER --list PROGRAM",
 * ld.so(8)).
 * @return GY_OK; GY_FORMAT a corrupt ELF file; GY_NOTFOUND; GY_IO @threads any
 */
GY_MUST_CHECK gy_status gy_net_find_loader(const char *program, char loader[GY_NET_PATH_BYTES]);

/* ---- The name of content: the first 16 bytes of its SHA-256, high half first ---- */

typedef struct gy_net_digest gy_net_digest;
GY_MUST_CHECK gy_status gy_net_digest_begin(gy_net_digest **digest);
void gy_net_digest_feed(gy_net_digest *digest, const void *data, size_t size_bytes);
/** Call once; then only free. */
gy_key gy_net_digest_end(gy_net_digest *digest);
/** NULL is allowed. */
void gy_net_digest_free(gy_net_digest *digest);

/** 32 hex digits: a job's id, a manager's subject, a file's name. @threads any */
enum { GY_NET_KEY_TEXT = 33 };
void gy_net_key_text(gy_key key, char text[GY_NET_KEY_TEXT]);

static inline gy_key gy_net_key(const Gy__Cluster__Key *key)
{
    return key != NULL ? (gy_key){key->high, key->low} : (gy_key){0};
}

#endif
