/**
 * What the files of remote storage share.
 */
#ifndef GY_STORE_REMOTE_REMOTE_PRIV_H
#define GY_STORE_REMOTE_REMOTE_PRIV_H

#include "base/base.h"
#include "base/text.h"
#include "base/thread.h"
#include "store/remote/http.h"
#include "store/remote/remote.h"
#include "store/store_priv.h"

/* ---- URIs ---- */

typedef enum gy_scheme { GY_SCHEME_FILE, GY_SCHEME_S3, GY_SCHEME_HDFS } gy_scheme;

/** The parts of a URI. */
typedef struct gy_uri {
    gy_scheme scheme;
    bool is_tls;             /* swebhdfs */
    char host[256];          /* the bucket; the name node; empty for files */
    char user[64];           /* of HDFS; empty: none given */
    int port;                /* of HDFS */
    char path[GY_URI_BYTES]; /* the key; a path with its slash */
    char text[GY_URI_BYTES]; /* the whole URI without a user's password */
} gy_uri;

/** Parse a URI. GY_ARG: malformed; says what was expected. Pure. @threads any */
GY_MUST_CHECK gy_status gy_uri_parse(const char *text, gy_uri *uri);

/** The byte 1 to 255 that "%41" encodes; 0: malformed. */
char gy_uri_byte(const char *text);

/* ---- places ---- */

typedef struct gy_place_ops {
    const char *name;
    gy_status (*open)(gy_place *place); /* reads settings; no traffic */
    void (*close)(gy_place *place);     /* also called after a failed open */
    gy_status (*stat)(gy_place *place, gy_place_facts *facts);
    gy_status (*list)(gy_place *place, gy_place_visit visit, void *arg);
    gy_status (*read)(gy_place *place, const char *version, uint64_t at, void *data,
                      size_t wanted, size_t *got);
    gy_status (*remove)(gy_place *place);
    gy_status (*guarantee)(gy_place *place, gy_place_guarantees *guarantees);
    /* Optional: NULL: the store reports no blocks. */
    gy_status (*blocks)(gy_place *place, uint64_t at, uint64_t size_bytes,
                        gy_place_block_visit visit, void *arg);
    /* A writer's state is in place->writing; the wrapper owns its buffer. */
    gy_status (*write_open)(gy_place_writer *writer);
    /* Write a full part, or the last one. */
    gy_status (*write_part)(gy_place_writer *writer, const void *data, size_t size_bytes);
    /* Write the last bytes and make the object visible. */
    gy_status (*write_finish)(gy_place_writer *writer, const void *data, size_t size_bytes);
    /* Remove what was written; reports nothing. Called after every failure. */
    void (*write_abort)(gy_place_writer *writer);
} gy_place_ops;

extern const gy_place_ops gy_place_file, gy_place_s3, gy_place_hdfs;

struct gy_place {
    gy_env *env;
    const gy_place_ops *ops;
    double patience_s;
    gy_mutex lock; /* guards is_cancelled and http, between the owner and gy_place_cancel */
    gy_cond wakes;
    bool is_cancelled;       /* atomic */
    bool is_taking_back;     /* a writer removes its data, which cannot be cancelled, ... */
    bool is_cancelled_next;  /* ... but the operation after it can */
    gy_http *http;           /* NULL until the first request */
    const char *authorities; /* for TLS; NULL: the system's */
    struct gy_s3 *s3;        /* state of the scheme */
    char *answer;            /* (GY_PAGE_BYTES) buffer for pages; NULL until needed */
    gy_uri uri;
};

enum {
    GY_PAGE_BYTES = 8 << 20, /* longest page of a list */
    GY_PART_BYTES = 8 << 20, /* size of a part in a multipart upload; at least 5 MiB */
    GY_TOKEN_BYTES = 33,
};

struct gy_place_writer {
    gy_place *place;
    gy_place_mode mode;
    gy_error error; /* the first failure */
    char *buffer;   /* (capacity) */
    size_t used, capacity;
    int part_count;
    char token[GY_TOKEN_BYTES];     /* distinguishes this writer's object from others' */
    gy_writer *file;                /* for local files */
    gy_text upload;                 /* S3: the upload's id; HDFS: the temporary path */
    gy_text parts;                  /* S3: the body of the completing request */
    bool is_begun;                  /* HDFS: the file may exist */
    uint64_t number, written_bytes; /* HDFS: the file's id, and its length */
};

/**
 * Send a request and repeat it until there is a final answer: transport failures, 408, 429 and
 * 5xx are tried again, keeping the received bytes of a range.
 *
 * @param tries becomes the number of tries; may be NULL
 * @return GY_OK an answer, whatever its status; else as gy_http_try, with the URI in the text;
 *     GY_TIMEOUT the place's timeout has passed
 */
GY_MUST_CHECK gy_status gy_place_ask(gy_place *place, gy_http_request *request,
                                     gy_http_answer *answer, int *tries);

/** Let a request's answer go to the place's buffer of GY_PAGE_BYTES. */
GY_MUST_CHECK gy_status gy_place_page(gy_place *place, gy_http_request *request);

/** The pause before try `index` (1: the second): 0.1 s, doubled each time up to 5 s, of which
 * `chance` in [0, 1) subtracts up to half. Pure. */
double gy_store_retry_pause_s(int index, double chance);

/** Store an entity tag as a version, without its quotes; one that is too long is dropped. */
void gy_store_version_keep(char version[GY_VERSION_BYTES], const char *tag, size_t size_bytes);

/** Make a unique name: 32 hexadecimal digits. */
void gy_place_token(gy_place *place, char out[GY_TOKEN_BYTES]);

/** Check for a visit of sorted names that the next name is in order. GY_FORMAT */
GY_MUST_CHECK gy_status gy_place_in_order(const gy_place *place, gy_text *before,
                                          const char *name);

/* ---- S3 ---- */

/** Credentials for signing. gy_login_wipe wipes the secrets. */
typedef struct gy_login {
    char key[160], secret[256], session[4096], region[64];
    char source[320]; /* "AWS_ACCESS_KEY_ID", "profile default of FILE", "no credentials" */
    bool is_anonymous;
} gy_login;

/** Find credentials in the environment, then in ~/.aws/credentials and ~/.aws/config. */
GY_MUST_CHECK gy_status gy_login_find(gy_login *login);
void gy_login_wipe(gy_login *login);
/** Copy the value of `name` in [profile] of an INI text into out (size_bytes), "" when there is
 * none. GY_FORMAT a malformed line; GY_LIMIT a value that does not fit. Pure. */
GY_MUST_CHECK gy_status gy_login_value(const char *text, const char *profile, const char *name,
                                       char *out, size_t size_bytes);

typedef struct gy_s3_item {
    char *key;
    uint64_t size_bytes;
    int64_t modified_ms;
    char etag[GY_VERSION_BYTES];
    bool is_prefix;
} gy_s3_item;

/** The contents of an XML answer of S3. Zero at first. */
typedef struct gy_s3_answer {
    char root[64];               /* "ListBucketResult" */
    char code[96], message[512]; /* of <Error> */
    char upload[1024];           /* UploadId */
    char token[2048];            /* NextContinuationToken */
    char etag[GY_VERSION_BYTES];
    bool is_truncated, is_encoded;
    gy_s3_item *items; /* (item_count) in the answer's order */
    size_t item_count, item_capacity;
    gy_arena arena;
} gy_s3_answer;

/**
 * Parse an answer. Entities are not expanded, and a document type is refused.
 * @return GY_OK; GY_FORMAT no XML of that kind, by line; GY_LIMIT names over 4 KiB, more than
 *     10000 items; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_s3_answer_read(const char *data, size_t size_bytes,
                                          gy_s3_answer *answer);
void gy_s3_answer_free(gy_s3_answer *answer);

/* ---- WebHDFS ---- */

typedef struct gy_hdfs_item {
    const char *name; /* borrowed from the document */
    uint64_t size_bytes, number;
    int64_t modified_ms;
    bool is_folder, is_link;
} gy_hdfs_item;

/** Parse an answer's JSON document; NULL when it is malformed, or deeper or longer than
 * allowed. */
struct json_t;
GY_MUST_CHECK gy_status gy_store_hdfs_read(const char *data, size_t size_bytes,
                                           struct json_t **document);
void gy_store_hdfs_free(struct json_t *document);
/** Get the FileStatus of GETFILESTATUS, or item `index` of a list; GY_NOTFOUND no more
 * items. */
GY_MUST_CHECK gy_status gy_store_hdfs_status(const struct json_t *document, gy_hdfs_item *item);
GY_MUST_CHECK gy_status gy_store_hdfs_listed(const struct json_t *document, size_t index,
                                             gy_hdfs_item *item);
/** The number of entries after this page. */
uint64_t gy_store_hdfs_remaining(const struct json_t *document);
/** The contents of a RemoteException. */
typedef struct gy_hdfs_words {
    char name[96], text[512];
} gy_hdfs_words;
/** False: the document is no exception. */
bool gy_store_hdfs_exception(const struct json_t *document, gy_hdfs_words *words);
/** Decode the answer to RENAME or DELETE. */
GY_MUST_CHECK gy_status gy_store_hdfs_boolean(const struct json_t *document, bool *value);
/** Visit the blocks of GETFILEBLOCKLOCATIONS. */
GY_MUST_CHECK gy_status gy_store_hdfs_blocks(const struct json_t *document,
                                             gy_place_block_visit visit, void *arg);

#endif
