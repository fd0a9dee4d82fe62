/**
 * Connections between hosts: frames, wires (a TCP connection, plain or under TLS 1.3), the
 * greeting that both ends of a new wire exchange, an acceptor of callers, the cluster key.
 * Nothing here blocks: every step returns GY_AGAIN when the network has no more data. Reading
 * order: frame, key, tls, wire, greeting, acceptor.
 *
 * Before a connection is authenticated, it may use GY_STRANGER_BYTES and GY_STRANGER_SECONDS,
 * and there are at most GY_STRANGERS such connections at a time.
 */
#ifndef GY_TRANSPORT_NET_H
#define GY_TRANSPORT_NET_H

#include "base/base.h"

#include <netinet/in.h>
#include <sys/uio.h>

/* ---- Frames: the header of every message on a wire ---- */

enum {
    GY_FRAME_BYTES = 32,
    GY_CONTROL_BYTES = 128 * 1024, /* largest body of a frame that is no message */
};
#define GY_MESSAGE_BYTES ((uint64_t)1 << 40)

typedef enum gy_transport_frame_type {
    GY_FRAME_HELLO = 1, /* the first frame in each direction */
    GY_FRAME_REFUSED,   /* in its place: the reason of a refusal, as text */
    GY_FRAME_MESSAGE,   /* between ranks: a message with its tag */
    GY_FRAME_ABORT,     /* a failure that ends the work of all ranks */
    GY_FRAME_LEAVE,     /* the rank leaves in order */
    GY_FRAME_ASK,       /* liveness query */
    GY_FRAME_HERE,      /* its answer */
    GY_FRAME_NODE,      /* between supervisors: the ranks of a node and their addresses */
    GY_FRAME_TABLE,     /* the ranks of all nodes */
    GY_FRAME_DONE,      /* the ranks of a node have ended in order */
    GY_FRAME_END,       /* the launch ends, with a reason */
    GY_FRAME_LOST,      /* a rank that must be restarted (launch/renewal.h) */
    GY_FRAME_RENEW,     /* all ranks must meet in this generation */
    GY_FRAME_READY,     /* the ranks of a node have finished */
    GY_FRAME_OVER,      /* the ranks of all nodes have finished */
    GY_FRAME_TYPES
} gy_transport_frame_type;

typedef struct gy_transport_frame {
    gy_transport_frame_type type;
    uint64_t size_bytes; /* size of the body */
    uint64_t tag;        /* of a message; else 0 */
    uint64_t sequence;   /* number of frames sent before in this direction */
} gy_transport_frame;

void gy_transport_frame_write(const gy_transport_frame *frame, uint8_t out[GY_FRAME_BYTES]);
/** Decode a frame header. GY_FORMAT unless it is a known type, a message of at most `limit`
 * bytes or another frame of at most GY_CONTROL_BYTES, with the expected sequence number. */
GY_MUST_CHECK gy_status gy_transport_frame_read(const uint8_t in[GY_FRAME_BYTES],
                                                uint64_t sequence, uint64_t limit,
                                                gy_transport_frame *frame);

/* ---- The cluster key ---- */

enum { GY_KEY_BYTES = 32, GY_RUN_ID_BYTES = 16 };

typedef struct gy_transport_key {
    uint8_t bytes[GY_KEY_BYTES];
} gy_transport_key;

/** Roles: the part of a cluster that uses a derived key. */
#define GY_ROLE_NODE "gyre node"
#define GY_ROLE_RANK "gyre rank"

/**
 * Create a key file (transport/secret.h) with one epoch: 64 random bytes. Creates missing
 * folders too.
 * @return GY_OK; GY_EXISTS the file exists; GY_IO
 */
GY_MUST_CHECK gy_status gy_transport_key_make(const char *path);

enum { GY_KEYS_MOST = 16 };

/** The keys of one role, of all epochs, newest first. */
typedef struct gy_keys {
    int count;
    struct {
        uint64_t epoch;
        gy_transport_key key;
    } items[GY_KEYS_MOST];
} gy_keys;

/**
 * Read the secrets of a file and derive the keys of a role in a launch (NULL: none yet). Keys
 * are derived from the hexadecimal text, not from the bytes that it encodes, so a file whose
 * only word is not hexadecimal is a secret of epoch 1 too.
 * @return GY_OK; GY_NOTFOUND; GY_STATE the file belongs to another user or others may read it,
 *     or it has only keys restricted to parts; GY_FORMAT with the line, or less than 32 bytes;
 *     GY_LIMIT more than GY_KEYS_MOST epochs; GY_IO
 */
GY_MUST_CHECK gy_status gy_keys_read(const char *path, const char *role,
                                     const uint8_t run[GY_RUN_ID_BYTES], gy_keys *keys);
/** The key of an epoch; NULL: there is none. */
const gy_transport_key *gy_keys_find(const gy_keys *keys, uint64_t epoch);
void gy_keys_wipe(gy_keys *keys);
/** Read a file of secrets into `text` (most); the caller wipes it. GY_NOTFOUND; GY_STATE the
 * file belongs to another user or others may read it; GY_LIMIT more than `most` bytes; GY_IO */
GY_MUST_CHECK gy_status gy_transport_key_load(const char *path, uint8_t *text, size_t most,
                                              size_t *size_bytes);
/** Create such a file, which must not exist yet, and its folders, and sync it. GY_EXISTS;
 * GY_IO */
GY_MUST_CHECK gy_status gy_transport_key_save(const char *path, const void *text,
                                              size_t size_bytes);
/** Derive a key from a secret by HKDF with SHA-256: `epoch` is the salt, `role` the info.
 * GY_IO */
GY_MUST_CHECK gy_status gy_transport_key_derive(const uint8_t *secret, size_t size_bytes,
                                                const uint8_t epoch[GY_RUN_ID_BYTES],
                                                const char *role, gy_transport_key *key);
/** Make a new launch's id from the system's random source. GY_IO */
GY_MUST_CHECK gy_status gy_transport_run_id_make(uint8_t id[GY_RUN_ID_BYTES]);

/* ---- Addresses ---- */

typedef struct gy_address {
    socklen_t size_bytes;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at;
} gy_address;

/** Resolve "HOST:PORT" or "[V6]:PORT"; may ask a DNS server. GY_ARG; GY_NOTFOUND */
GY_MUST_CHECK gy_status gy_address_find(const char *text, gy_address *address);
/** Split it into host, without brackets, and port, `least` (0 or 1) to 65535. GY_ARG */
GY_MUST_CHECK gy_status gy_address_split(const char *text, uint16_t least, char host[256],
                                         char port[8]);
bool gy_address_is_loopback(const gy_address *address);
bool gy_address_is_any(const gy_address *address);
uint16_t gy_address_port(const gy_address *address);
void gy_address_set_port(gy_address *address, uint16_t port);
enum { GY_ADDRESS_TEXT_BYTES = 64 };
const char *gy_address_text(const gy_address *address, char out[GY_ADDRESS_TEXT_BYTES]);
/** Listen at the address (port 0: any free port); *address becomes the bound one. GY_IO */
GY_MUST_CHECK gy_status gy_address_listen(gy_address *address, int *listener);
GY_MUST_CHECK gy_status gy_address_own(int socket, gy_address *address);

/* ---- TLS 1.3 by a pre-shared key ---- */

typedef struct gy_tls gy_tls;

enum { GY_KEY_NAME_BYTES = 128 };

/** A source of keys. Each key has a name, which is sent in the clear. */
typedef struct gy_tls_source {
    void *arg;
    /* The key that a caller offers. */
    gy_status (*offer)(void *arg, char name[GY_KEY_NAME_BYTES], gy_transport_key *key);
    /* The key that a caller named; false: unknown name. */
    bool (*find)(void *arg, const char *name, gy_transport_key *key);
    const char *here; /* for messages: the names of the keys */
} gy_tls_source;

/** Make a TLS context for one key. The other end sees `role` in the clear, with eight digits
 * that identify the key. */
GY_MUST_CHECK gy_status gy_tls_new(const gy_transport_key *key, const char *role, gy_tls **tls);
/** The same with a key for each epoch: offers the newest, accepts all. */
GY_MUST_CHECK gy_status gy_tls_new_of(const gy_keys *keys, const char *role, gy_tls **tls);
/** From now on offer the next older key; after the oldest the newest again. False: it is the
 * newest again. */
bool gy_tls_offer_older(gy_tls *tls);
/** The epoch of the key with that name, for gy_tls_new_of; 0: unknown. */
uint64_t gy_tls_epoch(const gy_tls *tls, const char *name);
/** The same with keys from a source, which is copied; its `arg` and `here` must outlive the
 * context. GY_NOMEM; GY_IO */
GY_MUST_CHECK gy_status gy_tls_new_from(const gy_tls_source *source, gy_tls **tls);
/** Make a key's name: "ROLE DIGITS". GY_IO */
GY_MUST_CHECK gy_status gy_transport_key_name(const gy_transport_key *key, const char *role,
                                              char name[GY_KEY_NAME_BYTES]);
void gy_tls_free(gy_tls *tls);

/* ---- Wires ---- */

typedef struct gy_tcp_wire gy_tcp_wire;

/** Make a wire. Takes `socket` (connected or connecting, non-blocking), also on failure. `tls`
 * NULL: plain; it must outlive the wire. GY_NOMEM; GY_IO */
GY_MUST_CHECK gy_status gy_tcp_wire_new(int socket, gy_tls *tls, bool is_caller,
                                        gy_tcp_wire **wire);
/** Call before the wire is open: it will carry few short messages. Under TLS it then has
 * buffers only while data wait in them. */
void gy_tcp_wire_spare(gy_tcp_wire *wire);
/** Call after it is open: the wire will carry much data after all. GY_NOMEM */
GY_MUST_CHECK gy_status gy_tcp_wire_widen(gy_tcp_wire *wire);
/** The name of the key that the other end proved; "" when plain. Valid as long as the wire. */
const char *gy_tcp_wire_key_name(const gy_tcp_wire *wire);
/** Start to connect to `address`. GY_IO */
GY_MUST_CHECK gy_status gy_tcp_wire_call(const gy_address *address, gy_tls *tls,
                                         gy_tcp_wire **wire);
/** Connect and do the handshake. GY_OK open; GY_AGAIN; GY_PEER nobody answers; GY_STATE the
 * other end does not prove the key; the message says why. */
GY_MUST_CHECK gy_status gy_tcp_wire_open(gy_tcp_wire *wire);
/** Read available bytes. GY_OK *got > 0; GY_AGAIN; GY_PEER the other end closed or reset. */
GY_MUST_CHECK gy_status gy_tcp_wire_read(gy_tcp_wire *wire, const struct iovec *pieces,
                                         int count, size_t *got);
/** Write as much as fits; *put bytes were taken and need not stay. GY_OK; GY_AGAIN nothing
 * fits; GY_PEER */
GY_MUST_CHECK gy_status gy_tcp_wire_write(gy_tcp_wire *wire, const struct iovec *pieces,
                                          int count, size_t *put);
/** Tell a peer that should use TLS but does not why it is refused, unless something was sent
 * before. */
void gy_tcp_wire_write_plain(const gy_tcp_wire *wire, const struct iovec *pieces, int count);
/** Write bytes that were taken and are buffered. GY_OK none left; GY_AGAIN; GY_PEER */
gy_status gy_tcp_wire_flush(gy_tcp_wire *wire);
int gy_tcp_wire_socket(const gy_tcp_wire *wire);
/** True while it waits to be writable (poll for POLLOUT, otherwise POLLIN). */
bool gy_tcp_wire_wants_room(const gy_tcp_wire *wire);
/** Bytes that went through the socket, including TLS overhead. */
typedef struct gy_tcp_wire_count {
    uint64_t sent_bytes, received_bytes;
} gy_tcp_wire_count;
gy_tcp_wire_count gy_tcp_wire_counts(const gy_tcp_wire *wire);
void gy_tcp_wire_close(gy_tcp_wire *wire);

/* ---- Greetings ---- */

enum { GY_STRANGER_BYTES = 64 * 1024, GY_STRANGERS = 64 };
#define GY_STRANGER_SECONDS 5.0
/* ... and when all of a node's places are taken. A handshake needs a few round trips. */
#define GY_STRANGER_YIELDS 0.5

/** The first message in each direction. */
typedef struct gy_hello {
    uint8_t run[GY_RUN_ID_BYTES]; /* zero between supervisors, which do not know it yet */
    uint32_t index, count;        /* number and count of ranks, or of nodes */
} gy_hello;

/** Decides about the other end: GY_OK, or a failure whose text is sent to it. */
typedef gy_status (*gy_judge)(void *arg, const gy_hello *theirs);

typedef struct gy_greeting gy_greeting;

/** Begin a greeting over `wire`, which it takes also on failure. `is_caller` sends first. */
GY_MUST_CHECK gy_status gy_greeting_new(gy_tcp_wire *wire, bool is_caller, const gy_hello *mine,
                                        gy_greeting **greeting);
/**
 * One step. GY_OK: *wire (now the caller's) leads to *theirs; GY_AGAIN; else a failure that
 * says who refused whom and why. `judge` examines *theirs before they get an answer.
 */
GY_MUST_CHECK gy_status gy_greeting_step(gy_greeting *greeting, gy_judge judge, void *arg,
                                         gy_tcp_wire **wire, gy_hello *theirs);
const gy_tcp_wire *gy_greeting_wire(const gy_greeting *greeting);
void gy_greeting_free(gy_greeting *greeting);

/* ---- Acceptors ---- */

typedef struct gy_tcp_acceptor gy_tcp_acceptor;

typedef struct gy_tcp_acceptor_options {
    int listener; /* taken, also on failure */
    gy_tls *tls;  /* NULL: plain */
    gy_hello hello;
    gy_judge judge;
    void *arg; /* for judge */
} gy_tcp_acceptor_options;

GY_MUST_CHECK gy_status gy_tcp_acceptor_new(const gy_tcp_acceptor_options *options, gy_env *env,
                                            gy_tcp_acceptor **door);
/** Accept callers: GY_OK *wire leads to a caller that proved the key and sent *theirs; GY_AGAIN
 * none yet. Unauthenticated callers are refused with a line in the log. */
gy_status gy_tcp_acceptor_step(gy_tcp_acceptor *door, gy_tcp_wire **wire, gy_hello *theirs);
/** The descriptors to poll for POLLIN or, where marked, POLLOUT; at most GY_STRANGERS + 1. */
int gy_tcp_acceptor_sockets(const gy_tcp_acceptor *door, int *sockets, bool *wants_room);
void gy_tcp_acceptor_free(gy_tcp_acceptor *door);

/* ---- Links: frames over a wire after the greeting ---- */

typedef struct gy_tcp_link gy_tcp_link;

/** Called for a frame that is no message; body is borrowed. A failure breaks the link. */
typedef gy_status (*gy_tcp_link_hear)(void *arg, const gy_transport_frame *frame,
                                      const uint8_t *body);

/** Make a link. Takes the wire, also on failure. GY_NOMEM */
GY_MUST_CHECK gy_status gy_tcp_link_new(gy_tcp_wire *wire, gy_tcp_link **link);
/** Queue a frame that is no message; copies the body. GY_NOMEM */
GY_MUST_CHECK gy_status gy_tcp_link_note(gy_tcp_link *link, gy_transport_frame_type type,
                                         const void *body, size_t size_bytes);
/** Write as much as possible. GY_OK progress; GY_AGAIN no progress; GY_PEER broken. */
gy_status gy_tcp_link_push(gy_tcp_link *link);
/** Read what is available. Returns the same; GY_FORMAT a frame is malformed or out of order. */
gy_status gy_tcp_link_pull(gy_tcp_link *link, gy_tcp_link_hear hear, void *arg);
/** Does anything wait to be written? */
bool gy_tcp_link_is_full(const gy_tcp_link *link);
const gy_tcp_wire *gy_tcp_link_wire(const gy_tcp_link *link);
void gy_tcp_link_free(gy_tcp_link *link);

#endif
