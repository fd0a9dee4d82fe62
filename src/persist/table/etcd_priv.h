/**
 * A table in etcd, by the JSON gateway of its version 3 API: what its files share.
 *
 * Keys: PREFIX/fence, PREFIX/record/KEY (32 hexadecimal digits), PREFIX/elected/NAME. A
 * record's value is 16 bytes that tell its store from all others, then its data; its version is
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
    GY_ETCD_TOKEN_BYTES = 4096, /* of a login, at most: a JWT may be long */
    GY_ETCD_SECRET_BYTES = 256,
    GY_ETCD_ANSWER_BYTES = 8 << 20, /* the longest */
};

/** Where a table is: "etcd:https://HOST:PORT,HOST:PORT/PREFIX" taken apart. */
typedef struct gy_etcd_where {
    char urls[GY_ETCD_ENDPOINTS][GY_ETCD_URL_BYTES];
    size_t count;
    bool is_tls;
    bool is_loopback; /* all of them are addresses of this host, or "localhost" */
    char prefix[GY_ETCD_PREFIX_BYTES];
} gy_etcd_where;

/** GY_ARG: by what was expected. Pure. */
GY_MUST_CHECK gy_status gy_etcd_where_parse(const char *text, gy_etcd_where *where);
/** GY_ARG the certificate in the PEM file has a common name, which etcd's JSON gateway refuses;
 * GY_FORMAT it is none; GY_IO */
GY_MUST_CHECK gy_status gy_etcd_certificate_check(const char *path);
/** The first line of a file that nobody else may read, into out (GY_ETCD_SECRET_BYTES).
 * GY_STATE others may read it; GY_FORMAT it is empty; GY_LIMIT; GY_IO */
GY_MUST_CHECK gy_status gy_etcd_password_read(gy_env *env, const char *path, char *out);

/** What one thread asks etcd with. */
typedef struct gy_etcd_lane {
    gy_persist_table *table;
    struct gy_etcd *etcd;
    gy_http *http;
    size_t endpoint; /* that is asked */
    bool needs_token;
    char token[GY_ETCD_TOKEN_BYTES + 32]; /* as a header; "": none */
    char *into;                           /* (GY_ETCD_ANSWER_BYTES) */
} gy_etcd_lane;

typedef struct gy_etcd {
    gy_etcd_where where;
    char *user, *authorities, *certificate, *certificate_key; /* NULL: none */
    char password[GY_ETCD_SECRET_BYTES];
    gy_etcd_lane owner, storing, campaigning;
    size_t first;        /* the endpoint to ask first, as all lanes have found; atomic */
    int64_t patience_ns; /* of a first try, from the last answer or its absence; atomic */
    /* of the storing thread */
    uint64_t fence;          /* version of PREFIX/fence; 0: not known */
    uint64_t writer, writes; /* what tokens are made of */
} gy_etcd;

/* ---- etcd_ask.c ---- */

typedef struct gy_etcd_question {
    const char *path; /* "/v3/kv/txn" */
    const char *body;
    gy_deadline deadline;
    bool is_once;  /* end with GY_AGAIN when it may have been carried out without an answer */
    bool is_fresh; /* nor may libcurl send it twice */
    bool is_last;  /* also when the table is being closed */
} gy_etcd_question;

/**
 * Ask endpoint after endpoint, with a login renewed where it is refused, until one answers.
 *
 * @param answer a document of JSON, to be freed with json_decref
 * @return GY_OK; GY_AGAIN (see is_once); GY_LIMIT surely not done: no room, or too large;
 * GY_NOTFOUND there is no such lease; GY_STATE etcd refuses user, token or permission;
 * GY_MISMATCH the revision is compacted; GY_TIMEOUT no answer by the deadline; GY_IO
 * another refusal; GY_FORMAT no JSON; GY_CANCELLED the table is being closed; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_etcd_ask(gy_etcd_lane *lane, const gy_etcd_question *question,
                                    json_t **answer);
GY_MUST_CHECK gy_status gy_etcd_lane_open(gy_persist_table *table, gy_etcd_lane *lane);
void gy_etcd_lane_close(gy_etcd_lane *lane);

/* ---- etcd_words.c ---- */

/** A key and its record, as etcd tells it. Borrowed from the document. */
typedef struct gy_etcd_record {
    const json_t *key, *value; /* base64 */
    uint64_t version;          /* 0: there is none */
    uint64_t changed;          /* revision of its last put */
    uint64_t lease;
} gy_etcd_record;

/** Append base64. */
void gy_etcd_add_bytes(gy_text *text, const void *data, size_t size_bytes);
/** Append "key":"…" of a text. */
void gy_etcd_add_key(gy_text *text, const char *key);
/** Bytes from base64, into out (room). GY_FORMAT it is none; GY_LIMIT they do not fit */
GY_MUST_CHECK gy_status gy_etcd_bytes(const json_t *text, void *out, size_t room,
                                      size_t *size_bytes);
/** A number, told as a text of digits; 0 when it is not told. GY_FORMAT */
GY_MUST_CHECK gy_status gy_etcd_number(const json_t *object, const char *name, uint64_t *value);
/** The revision in an answer's header. */
GY_MUST_CHECK gy_status gy_etcd_revision(const json_t *answer, uint64_t *revision);
/** Record `index` of "kvs"; GY_NOTFOUND (nothing recorded) there are no more. */
GY_MUST_CHECK gy_status gy_etcd_kv(const json_t *range, size_t index, gy_etcd_record *record);
/** Response `index` of a transaction: its "response_…" of that kind. GY_FORMAT */
GY_MUST_CHECK gy_status gy_etcd_response(const json_t *answer, size_t index, const char *kind,
                                         const json_t **response);
/** The one record of response `index`, a range; version 0 when there is none. */
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
