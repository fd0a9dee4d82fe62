/**
 * A table in etcd through the JSON gateway of its version 3 API: what its files share.
 *
 * Keys: PREFIX/fence, PREFIX/record/KEY (32 hexadecimal digits), PREFIX/elected/NAME. A
 * record's value is a token of 16 bytes, unique for each store, then its data; its version is
 * etcd's own.
 */
#ifndef GY_PERSIST_TABLE_ETCD_PRIV_H
#define GY_PERSIST_TABLE_ETCD_PRIV_H

#include "persist/table/table_priv.h"
#include "store/remote/http.h"

#include <jansson.h>

enum {
    GY_ETCD_ENDPOINTS = 16,
    GY_ETCD_URL_BYTES = 300, /* https://HOST:PORT */
    GY_ETCD_PREFIX_BYTES = 256,
    GY_ETCD_KEY_BYTES = GY_ETCD_PREFIX_BYTES + GY_TABLE_NAME_BYTES + 16,
    GY_ETCD_TOKEN_BYTES = 4096, /* of a login's token, at most: a JWT may be long */
    GY_ETCD_SECRET_BYTES = 256,
    GY_ETCD_ANSWER_BYTES = 8 << 20, /* of the longest answer */
};

/** The parts of "etcd:https://HOST:PORT,HOST:PORT/PREFIX". */
typedef struct gy_etcd_where {
    char urls[GY_ETCD_ENDPOINTS][GY_ETCD_URL_BYTES];
    size_t count;
    bool is_tls;
    bool is_loopback; /* all endpoints are loopback addresses or "localhost" */
    char prefix[GY_ETCD_PREFIX_BYTES];
} gy_etcd_where;

/** GY_ARG: the text says what was expected. Pure. */
GY_MUST_CHECK gy_status gy_etcd_where_parse(const char *text, gy_etcd_where *where);
/**
 * GY_ARG: the certificate in the PEM file has a common name, which etcd's JSON gateway refuses;
 * GY_FORMAT: not a certificate; GY_IO
 */
GY_MUST_CHECK gy_status gy_etcd_certificate_check(const char *path);
/**
 * Read the first line of a file that only its owner may read into out (GY_ETCD_SECRET_BYTES).
 * GY_STATE: others may read it; GY_FORMAT: it is empty; GY_LIMIT; GY_IO
 */
GY_MUST_CHECK gy_status gy_etcd_password_read(gy_env *env, const char *path, char *out);

/** One thread's connection to etcd. */
typedef struct gy_etcd_lane {
    gy_persist_table *table;
    struct gy_etcd *etcd;
    gy_http *http;
    size_t endpoint; /* index of the endpoint in use */
    bool needs_token;
    char token[GY_ETCD_TOKEN_BYTES + 32]; /* as an HTTP header; "": none */
    char *into;                           /* (GY_ETCD_ANSWER_BYTES) */
} gy_etcd_lane;

typedef struct gy_etcd {
    gy_etcd_where where;
    char *user, *authorities, *certificate, *certificate_key; /* NULL: none */
    char password[GY_ETCD_SECRET_BYTES];
    gy_etcd_lane owner, storing, campaigning;
    size_t first; /* index of the endpoint to try first, shared by all lanes; atomic */
    /* Timeout of a first try, from the last answer or its absence; atomic. */
    int64_t patience_ns;
    /* for the storing thread */
    uint64_t fence;          /* version of PREFIX/fence; 0: not known */
    uint64_t writer, writes; /* the parts of this writer's tokens */
} gy_etcd;

/* ---- etcd_ask.c ---- */

typedef struct gy_etcd_question {
    const char *path; /* "/v3/kv/txn" */
    const char *body;
    gy_deadline deadline;
    bool is_once;  /* return GY_AGAIN when it may have been applied without an answer */
    bool is_fresh; /* and libcurl must not send it twice */
    bool is_last;  /* also while the table is being closed */
} gy_etcd_question;

/**
 * Send a request to one endpoint after the other until one answers; renew a refused login.
 *
 * @param answer a JSON document, freed with json_decref
 * @return GY_OK; GY_AGAIN (see is_once); GY_LIMIT not applied: no room, or too large;
 * GY_NOTFOUND there is no such lease; GY_STATE etcd refuses user, token or permission;
 * GY_MISMATCH the revision is compacted; GY_TIMEOUT no answer by the deadline; GY_IO another
 * refusal; GY_FORMAT not JSON; GY_CANCELLED the table is being closed; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_etcd_ask(gy_etcd_lane *lane, const gy_etcd_question *question,
                                    json_t **answer);
GY_MUST_CHECK gy_status gy_etcd_lane_open(gy_persist_table *table, gy_etcd_lane *lane);
void gy_etcd_lane_close(gy_etcd_lane *lane);

/* ---- etcd_words.c ---- */

/** A key and its record in etcd's answer. Borrowed from the document. */
typedef struct gy_etcd_record {
    const json_t *key, *value; /* base64 */
    uint64_t version;          /* 0: the record does not exist */
    uint64_t changed;          /* revision of its last put */
    uint64_t lease;
} gy_etcd_record;

/** Append base64. */
void gy_etcd_add_bytes(gy_text *text, const void *data, size_t size_bytes);
/** Append "key":"…" for a key. */
void gy_etcd_add_key(gy_text *text, const char *key);
/** Decode base64 into out (room). GY_FORMAT: not base64; GY_LIMIT: too long */
GY_MUST_CHECK gy_status gy_etcd_bytes(const json_t *text, void *out, size_t room,
                                      size_t *size_bytes);
/** A number given as a text of digits; 0 if it is missing. GY_FORMAT */
GY_MUST_CHECK gy_status gy_etcd_number(const json_t *object, const char *name, uint64_t *value);
/** The revision in an answer's header. */
GY_MUST_CHECK gy_status gy_etcd_revision(const json_t *answer, uint64_t *revision);
/** Record `index` of "kvs"; GY_NOTFOUND (no error text) after the last. */
GY_MUST_CHECK gy_status gy_etcd_kv(const json_t *range, size_t index, gy_etcd_record *record);
/** Response `index` of a transaction: its "response_…" of that kind. GY_FORMAT */
GY_MUST_CHECK gy_status gy_etcd_response(const json_t *answer, size_t index, const char *kind,
                                         const json_t **response);
/** The only record of response `index`, a range; version 0 if there is none. */
GY_MUST_CHECK gy_status gy_etcd_found(const json_t *answer, size_t index,
                                      gy_etcd_record *record);
bool gy_etcd_has_succeeded(const json_t *answer);

/* ---- etcd_election.c ---- */
gy_status gy_etcd_leader(gy_persist_table *table, const char *name,
                         char value[GY_TABLE_VALUE_BYTES], uint64_t *number);
gy_status gy_etcd_run(gy_persist_table *table, gy_election *election);
gy_status gy_etcd_renew(gy_persist_table *table, gy_election *election);
void gy_etcd_leave(gy_persist_table *table, gy_election *election);

#endif
