/**
 * Connections between hosts: frames, a wire (a TCP connection, plain or under TLS 1.3), the
 * greeting that both ends of a new wire exchange, a door that accepts callers, the cluster key.
 * Nothing here waits: every step says GY_AGAIN when the network has no more. Reading order:
 * frame, key, tls, wire, greeting, door.
 *
 * What a connection may cost before it is authenticated: GY_STRANGER_BYTES and
 * GY_STRANGER_SECONDS, at most GY_STRANGERS of them at a time.
 */
#ifndef GY_TRANSPORT_NET_H
#define GY_TRANSPORT_NET_H

#include "base/base.h"

#include <netinet/in.h>
#include <sys/uio.h>

/* ---- Frames: what stands before every piece of data on a wire ---- */

enum {
    GY_FRAME_BYTES = 32,
    GY_CONTROL_BYTES = 128 * 1024, /* body of all frames but messages */
};
#define GY_MESSAGE_BYTES ((uint64_t)1 << 40)

typedef enum gy_transport_frame_type {
    GY_FRAME_HELLO = 1, /* the first one each way */
    GY_FRAME_REFUSED,   /* instead of it: why, in words */
    GY_FRAME_MESSAGE,   /* between ranks: a message with its tag */
    GY_FRAME_ABORT,     /* a failure that ends the work of all */
    GY_FRAME_LEAVE,     /* the rank ends in an orderly way */
    GY_FRAME_ASK,       /* is the rank there? */
    GY_FRAME_HERE,      /* it is */
    GY_FRAME_NODE,      /* between keepers: the ranks of a node and where they listen */
    GY_FRAME_TABLE,     /* all of them */
    GY_FRAME_DONE,      /* the ranks of a node have ended well */
    GY_FRAME_END,       /* the run ends for a cause */
    GY_FRAME_LOST,      /* a rank that is to be started anew (launch/renewal.h) */
    GY_FRAME_RENEW,     /* all ranks are to meet in that generation */
    GY_FRAME_READY,     /* the ranks of a node have done all */
    GY_FRAME_OVER,      /* those of all have */
    GY_FRAME_TYPES
} gy_transport_frame_type;

typedef struct gy_transport_frame {
    gy_transport_frame_type type;
    uint64_t size_bytes; /* of what follows */
    uint64_t tag;        /* messages; else 0 */
    uint64_t sequence;   /* frames that went this way before */
} gy_transport_frame;

void gy_transport_frame_write(const gy_transport_frame *frame, uint8_t out[GY_FRAME_BYTES]);
/** GY_FORMAT unless it is a frame of a known type, a message of at most `limit` bytes or
 * another frame of at most GY_CONTROL_BYTES, with the sequence number expected. */
GY_MUST_CHECK gy_status gy_transport_frame_read(const uint8_t in[GY_FRAME_BYTES],
                                                uint64_t sequence, uint64_t limit,
                                                gy_transport_frame *frame);

/* ---- The cluster key ---- */

enum { GY_KEY_BYTES = 32, GY_RUN_ID_BYTES = 16 };

typedef struct gy_transport_key {
    uint8_t bytes[GY_KEY_BYTES];
} gy_transport_key;

/** What the parts of a cluster do with a key derived from it. */
#define GY_ROLE_NODE "gyre node"
#define GY_ROLE_RANK "gyre rank"

/**
 * Make a key file (transport/secret.h) of one epoch: 64 random bytes. Folders above it are made
 * too.
 * @return GY_OK; GY_EXISTS there is a file; GY_IO
 */
GY_MUST_CHECK gy_status gy_transport_key_make(const char *path);

enum { GY_KEYS_MOST = 16 };

/** The keys of one role, of all epochs that there are, the newest first. */
typedef struct gy_keys {
    int count;
    struct {
        uint64_t epoch;
        gy_transport_key key;
    } items[GY_KEYS_MOST];
} gy_keys;

/**
 * Read the secrets of a file and derive the keys of a role in a run (NULL: none yet); of the
 * text of the digits, not of what they stand for, so that a file whose only word is no
 * hexadecimal digits is a secret of epoch 1 too.
 * @return GY_OK; GY_NOTFOUND; GY_STATE the file is another user's or others may read it, or it
 * has keys of parts alone; GY_FORMAT with the line, or less than 32 bytes; GY_LIMIT more than
 * GY_KEYS_MOST epochs; GY_IO
 */
GY_MUST_CHECK gy_status gy_keys_read(const char *path, const char *role,
                                     const uint8_t run[GY_RUN_ID_BYTES], gy_keys *keys);
/** The key of an epoch; NULL: there is none. */
const gy_transport_key *gy_keys_find(const gy_keys *keys, uint64_t epoch);
void gy_keys_wipe(gy_keys *keys);
/** Read a file of secrets into `text` (most); the caller wipes it. GY_NOTFOUND; GY_STATE the
 * file is another user's or others may read it; GY_LIMIT more than `most` bytes; GY_IO */
GY_MUST_CHECK gy_status gy_transport_key_load(const char *path, uint8_t *text, size_t most,
                                              size_t *size_bytes);
/** Make such a file, which must not be there yet, and sync it; folders above it too. GY_EXISTS;
 * GY_IO */
GY_MUST_CHECK gy_status gy_transport_key_save(const char *path, const void *text,
                                              size_t size_bytes);
/** HKDF with SHA-256 of a secret: `epoch` is its salt, `role` its info. GY_IO */
GY_MUST_CHECK gy_status gy_transport_key_derive(const uint8_t *secret, size_t size_bytes,
                                                const uint8_t epoch[GY_RUN_ID_BYTES],
                                                const char *role, gy_transport_key *key);
/** A new run's number, from the system's source of randomness. GY_IO */
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

/** Look up "HOST:PORT" or "[V6]:PORT"; may ask a name server. GY_ARG; GY_NOTFOUND */
GY_MUST_CHECK gy_status gy_address_find(const char *text, gy_address *address);
/** Cut it into host, without brackets, and port, `least` (0 or 1) to 65535. GY_ARG */
GY_MUST_CHECK gy_status gy_address_split(const char *text, uint16_t least, char host[256],
                                         char port[8]);
bool gy_address_is_loopback(const gy_address *address);
bool gy_address_is_any(const gy_address *address);
uint16_t gy_address_port(const gy_address *address);
void gy_address_set_port(gy_address *address, uint16_t port);
enum { GY_ADDRESS_TEXT_BYTES = 64 };
const char *gy_address_text(const gy_address *address, char out[GY_ADDRESS_TEXT_BYTES]);
/** A socket that listens there (port 0: one is chosen); *address becomes what it is bound to.
 * GY_IO */
GY_MUST_CHECK gy_status gy_address_listen(gy_address *address, int *listener);
GY_MUST_CHECK gy_status gy_address_own(int socket, gy_address *address);

/* ---- TLS 1.3 by a key that both ends have ---- */

typedef struct gy_tls gy_tls;

enum { GY_KEY_NAME_BYTES = 128 };

/** Where keys come from, each with a name that goes over the wire in the clear. */
typedef struct gy_tls_source {
    void *arg;
    /* What a caller offers. */
    gy_status (*offer)(void *arg, char name[GY_KEY_NAME_BYTES], gy_transport_key *key);
    /* The key that a caller names; false: there is none of that name. */
    bool (*find)(void *arg, const char *name, gy_transport_key *key);
    const char *here; /* for people: the names that there are */
} gy_tls_source;

/** `role` is told to the other end in the clear, with eight digits that name the key. */
GY_MUST_CHECK gy_status gy_tls_new(const gy_transport_key *key, const char *role, gy_tls **tls);
/** The same with a key for each epoch: the newest is offered, all are accepted. */
GY_MUST_CHECK gy_status gy_tls_new_of(const gy_keys *keys, const char *role, gy_tls **tls);
/** Offer the next older key from now on, behind the oldest the newest again. False: it is the
 * newest again. */
bool gy_tls_offer_older(gy_tls *tls);
/** The epoch of the key of that name, of gy_tls_new_of's; 0: there is none. */
uint64_t gy_tls_epoch(const gy_tls *tls, const char *name);
/** The same with keys from a source, which is copied; its `arg` and `here` outlive it.
 * GY_NOMEM; GY_IO */
GY_MUST_CHECK gy_status gy_tls_new_from(const gy_tls_source *source, gy_tls **tls);
/** Name a key: "ROLE DIGITS". GY_IO */
GY_MUST_CHECK gy_status gy_transport_key_name(const gy_transport_key *key, const char *role,
                                              char name[GY_KEY_NAME_BYTES]);
void gy_tls_free(gy_tls *tls);

/* ---- Wires ---- */

typedef struct gy_tcp_wire gy_tcp_wire;

/** Takes `socket` (connected or connecting, non-blocking) also on failure. `tls` NULL: plain;
 * it outlives the wire. GY_NOMEM; GY_IO */
GY_MUST_CHECK gy_status gy_tcp_wire_new(int socket, gy_tls *tls, bool is_caller,
                                        gy_tcp_wire **wire);
/** Before it is open: it carries short messages, one piece at a time, and is mostly idle. Under
 * TLS it then holds buffers only while something waits in them. */
void gy_tcp_wire_spare(gy_tcp_wire *wire);
/** Once it is open: it carries much after all. GY_NOMEM */
GY_MUST_CHECK gy_status gy_tcp_wire_widen(gy_tcp_wire *wire);
/** The name of the key that the other end has proved; "" when plain. Valid with the wire. */
const char *gy_tcp_wire_key_name(const gy_tcp_wire *wire);
/** Start to call `address`. GY_IO */
GY_MUST_CHECK gy_status gy_tcp_wire_call(const gy_address *address, gy_tls *tls,
                                         gy_tcp_wire **wire);
/** Connect and shake hands. GY_OK ready; GY_AGAIN; GY_PEER nobody answers; GY_STATE the other
 * end does not prove the key, in words for people. */
GY_MUST_CHECK gy_status gy_tcp_wire_open(gy_tcp_wire *wire);
/** Read what is there. GY_OK *got > 0; GY_AGAIN; GY_PEER the other end closed or broke off. */
GY_MUST_CHECK gy_status gy_tcp_wire_read(gy_tcp_wire *wire, const struct iovec *pieces,
                                         int count, size_t *got);
/** Write what fits; what was taken (*put) need not stay. GY_OK; GY_AGAIN nothing fits;
 * GY_PEER */
GY_MUST_CHECK gy_status gy_tcp_wire_write(gy_tcp_wire *wire, const struct iovec *pieces,
                                          int count, size_t *put);
/** For one who does not speak TLS where it should: say why not, if nothing was said before. */
void gy_tcp_wire_write_plain(const gy_tcp_wire *wire, const struct iovec *pieces, int count);
/** Write what was taken and waits. GY_OK none left; GY_AGAIN; GY_PEER */
gy_status gy_tcp_wire_flush(gy_tcp_wire *wire);
int gy_tcp_wire_socket(const gy_tcp_wire *wire);
/** True while it waits to be writable (poll for POLLOUT, else POLLIN). */
bool gy_tcp_wire_wants_room(const gy_tcp_wire *wire);
/** Bytes that went through the socket, TLS and all. */
typedef struct gy_tcp_wire_count {
    uint64_t sent_bytes, received_bytes;
} gy_tcp_wire_count;
gy_tcp_wire_count gy_tcp_wire_counts(const gy_tcp_wire *wire);
void gy_tcp_wire_close(gy_tcp_wire *wire);

/* ---- Greetings ---- */

enum { GY_STRANGER_BYTES = 64 * 1024, GY_STRANGERS = 64 };
#define GY_STRANGER_SECONDS 5.0
/* ... and when all places of a node are taken. A handshake needs a few round trips. */
#define GY_STRANGER_YIELDS 0.5

/** The first words each way. */
typedef struct gy_hello {
    uint8_t run[GY_RUN_ID_BYTES]; /* zero between keepers: not known yet */
    uint32_t index, count;        /* rank of how many, or node of how many */
} gy_hello;

/** Who is at the other end: GY_OK, or a failure whose text is told to it. */
typedef gy_status (*gy_judge)(void *arg, const gy_hello *theirs);

typedef struct gy_greeting gy_greeting;

/** Begin to greet over `wire`, which it takes also on failure. `is_caller` speaks first. */
GY_MUST_CHECK gy_status gy_greeting_new(gy_tcp_wire *wire, bool is_caller, const gy_hello *mine,
                                        gy_greeting **greeting);
/**
 * One step. GY_OK: *wire (the caller's now) leads to *theirs; GY_AGAIN; else a failure that
 * says who refused whom and why. `judge` looks at *theirs before they are answered.
 */
GY_MUST_CHECK gy_status gy_greeting_step(gy_greeting *greeting, gy_judge judge, void *arg,
                                         gy_tcp_wire **wire, gy_hello *theirs);
const gy_tcp_wire *gy_greeting_wire(const gy_greeting *greeting);
void gy_greeting_free(gy_greeting *greeting);

/* ---- A door: where callers come in ---- */

typedef struct gy_tcp_acceptor gy_tcp_acceptor;

typedef struct gy_tcp_acceptor_options {
    int listener; /* taken, also on failure */
    gy_tls *tls;  /* NULL: plain */
    gy_hello hello;
    gy_judge judge;
    void *arg; /* of judge */
} gy_tcp_acceptor_options;

GY_MUST_CHECK gy_status gy_tcp_acceptor_new(const gy_tcp_acceptor_options *options, gy_env *env,
                                            gy_tcp_acceptor **door);
/** Let callers in: GY_OK *wire is one who proved the key and gave *theirs; GY_AGAIN nobody yet.
 * Strangers are sent away with a line in the log. */
gy_status gy_tcp_acceptor_step(gy_tcp_acceptor *door, gy_tcp_wire **wire, gy_hello *theirs);
/** The descriptors to poll for POLLIN or, where asked, POLLOUT; at most GY_STRANGERS + 1. */
int gy_tcp_acceptor_sockets(const gy_tcp_acceptor *door, int *sockets, bool *wants_room);
void gy_tcp_acceptor_free(gy_tcp_acceptor *door);

/* ---- Links: frames over a wire that has greeted ---- */

typedef struct gy_tcp_link gy_tcp_link;

/** A frame that is no message came; body is borrowed. A failure breaks the link. */
typedef gy_status (*gy_tcp_link_hear)(void *arg, const gy_transport_frame *frame,
                                      const uint8_t *body);

/** Takes the wire, also on failure. GY_NOMEM */
GY_MUST_CHECK gy_status gy_tcp_link_new(gy_tcp_wire *wire, gy_tcp_link **link);
/** Put a frame that is no message into the queue; the body is copied. GY_NOMEM */
GY_MUST_CHECK gy_status gy_tcp_link_note(gy_tcp_link *link, gy_transport_frame_type type,
                                         const void *body, size_t size_bytes);
/** Write what can be written. GY_OK something moved; GY_AGAIN nothing; GY_PEER broken. */
gy_status gy_tcp_link_push(gy_tcp_link *link);
/** Read what is there. The same returns; GY_FORMAT what came is no frame in its place. */
gy_status gy_tcp_link_pull(gy_tcp_link *link, gy_tcp_link_hear hear, void *arg);
/** Does something wait to be written? */
bool gy_tcp_link_is_full(const gy_tcp_link *link);
const gy_tcp_wire *gy_tcp_link_wire(const gy_tcp_link *link);
void gy_tcp_link_free(gy_tcp_link *link);

#endif
