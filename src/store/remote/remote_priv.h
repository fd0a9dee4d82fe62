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

/** A URI taken apart. */
typedef struct gy_uri {
    gy_scheme scheme;
    bool is_tls;             /* swebhdfs */
    char host[256];          /* the bucket; the name node; empty for files */
    char user[64];           /* of HDFS; empty: not said */
    int port;                /* of HDFS */
    char path[GY_URI_BYTES]; /* the key; a path with its slash */
    char text[GY_URI_BYTES]; /* the whole, a user's password cut out */
} gy_uri;

/** GY_ARG: what is no URI, by what was expected. Pure. @threads any */
GY_MUST_CHECK gy_status gy_uri_parse(const char *text, gy_uri *uri);

/** The byte 1 to 255 that "%41" stands for; 0: it stands for none. */
char gy_uri_byte(const char *text);

/* ---- places ---- */

typedef struct gy_place_ops {
    const char *name;
    gy_status (*open)(gy_place *place); /* settings; no traffic */
    void (*close)(gy_place *place);     /* also after an open that failed */
    gy_status (*stat)(gy_place *place, gy_place_facts *facts);
    gy_status (*list)(gy_place *place, gy_place_visit visit, void *arg);
    gy_status (*read)(gy_place *place, const char *version, uint64_t at, void *data,
                      size_t wanted, size_t *got);
    gy_status (*remove)(gy_place *place);
    gy_status (*guarantee)(gy_place *place, gy_place_guarantees *guarantees);
    /* Optional: NULL tells no blocks. */
    gy_status (*blocks)(gy_place *place, uint64_t at, uint64_t size_bytes,
                        gy_place_block_visit visit, void *arg);
    /* A writer's own state is place->writing; its buffer is the wrapper's. */
    gy_status (*write_open)(gy_place_writer *writer);
    /* A full part, or the last one. */
    gy_status (*write_part)(gy_place_writer *writer, const void *data, size_t size_bytes);
    /* The last bytes, then it shall be seen. */
    gy_status (*write_finish)(gy_place_writer *writer, const void *data, size_t size_bytes);
    /* Take back what is there of it; says nothing. Called after every failure. */
    void (*write_abort)(gy_place_writer *writer);
} gy_place_ops;

extern const gy_place_ops gy_place_file, gy_place_s3, gy_place_hdfs;

struct gy_place {
    gy_env *env;
    const gy_place_ops *ops;
    double patience_s;
    gy_mutex lock; /* of is_cancelled and http, between owner and gy_place_cancel */
    gy_cond wakes;
    bool is_cancelled;       /* atomic */
    bool is_taking_back;     /* a writer ends: nobody cancels that, */
    bool is_cancelled_next;  /* but what follows */
    gy_http *http;           /* NULL until the first request */
    const char *authorities; /* of TLS; NULL: the system's */
    struct gy_s3 *s3;        /* the scheme's own */
    char *answer;            /* (GY_PAGE_BYTES) of pages; NULL until needed */
    gy_uri uri;
};

enum {
    GY_PAGE_BYTES = 8 << 20, /* the longest page of a list */
    GY_PART_BYTES = 8 << 20, /* of a multipart upload; at least 5 MiB */
    GY_TOKEN_BYTES = 33,
};

struct gy_place_writer {
    gy_place *place;
    gy_place_mode mode;
    gy_error error; /* the first failure, if there was one */
    char *buffer;   /* (capacity) */
    size_t used, capacity;
    int part_count;
    char token[GY_TOKEN_BYTES]; /* tells this writer's object from others' */
    gy_writer *file;            /* of files */
    gy_text upload; /* of S3: the upload's name; of HDFS: the path before the rename */
    gy_text parts;  /* of S3: what completes it */
    bool is_begun;  /* of HDFS: the file may be there */
    uint64_t number, written_bytes; /* of HDFS: the file's */
};

/**
 * Ask until there is an answer that no other try would better: transport failures, 408, 429 and
 * 5xx are tried again, with what was received of a range kept.
 *
 * @param tries how many there were; NULL: not asked for
 * @return GY_OK an answer, whatever its status; else as gy_http_try, with the URI in the text;
 * GY_TIMEOUT patience is at its end
 */
GY_MUST_CHECK gy_status gy_place_ask(gy_place *place, gy_http_request *request,
                                     gy_http_answer *answer, int *tries);

/** The place's buffer of GY_PAGE_BYTES as where a request's answer goes. */
GY_MUST_CHECK gy_status gy_place_page(gy_place *place, gy_http_request *request);

/** The pause before try `index` (1: the second): 0.1 s doubled each time to 5 s at most, of
 * which `chance` in [0, 1) takes up to a half. Pure. */
double gy_store_retry_pause_s(int index, double chance);

/** Keep an entity tag as a version, without its quotes; one too long is none. */
void gy_store_version_keep(char version[GY_VERSION_BYTES], const char *tag, size_t size_bytes);

/** A name that nobody else has: 32 hexadecimal digits. */
void gy_place_token(gy_place *place, char out[GY_TOKEN_BYTES]);

/** What visits of sorted names share: the order is kept, or GY_FORMAT. */
GY_MUST_CHECK gy_status gy_place_in_order(const gy_place *place, gy_text *before,
                                          const char *name);

/* ---- S3 ---- */

/** Who signs. Secrets are wiped by gy_login_wipe. */
typedef struct gy_login {
    char key[160], secret[256], session[4096], region[64];
    char source[320]; /* "AWS_ACCESS_KEY_ID", "profile default of FILE", "no credentials" */
    bool is_anonymous;
} gy_login;

/** Look for credentials: the environment, then ~/.aws/credentials and ~/.aws/config. */
GY_MUST_CHECK gy_status gy_login_find(gy_login *login);
void gy_login_wipe(gy_login *login);
/** The value of `name` in [profile] of an INI text into out (size_bytes), "" when there is
 * none. GY_FORMAT a line that is no such thing; GY_LIMIT a value that does not fit. Pure. */
GY_MUST_CHECK gy_status gy_login_value(const char *text, const char *profile, const char *name,
                                       char *out, size_t size_bytes);

typedef struct gy_s3_item {
    char *key;
    uint64_t size_bytes;
    int64_t modified_ms;
    char etag[GY_VERSION_BYTES];
    bool is_prefix;
} gy_s3_item;

/** What an XML answer of S3 says. Zero at first. */
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
 * Read an answer. Nothing is expanded: a document type is refused.
 * @return GY_OK; GY_FORMAT no XML of that kind, by line; GY_LIMIT names over 4 KiB, more than
 * 10000 items; GY_NOMEM
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

/** The JSON document of an answer; NULL when it is none, or deeper or longer than it may be. */
struct json_t;
GY_MUST_CHECK gy_status gy_store_hdfs_read(const char *data, size_t size_bytes,
                                           struct json_t **document);
void gy_store_hdfs_free(struct json_t *document);
/** FileStatus of GETFILESTATUS, or item `index` of a list; GY_NOTFOUND there are no more. */
GY_MUST_CHECK gy_status gy_store_hdfs_status(const struct json_t *document, gy_hdfs_item *item);
GY_MUST_CHECK gy_status gy_store_hdfs_listed(const struct json_t *document, size_t index,
                                             gy_hdfs_item *item);
/** How many entries come after this page. */
uint64_t gy_store_hdfs_remaining(const struct json_t *document);
/** What a RemoteException says. */
typedef struct gy_hdfs_words {
    char name[96], text[512];
} gy_hdfs_words;
/** False: the document is none. */
bool gy_store_hdfs_exception(const struct json_t *document, gy_hdfs_words *words);
/** The answer to RENAME and DELETE. */
GY_MUST_CHECK gy_status gy_store_hdfs_boolean(const struct json_t *document, bool *value);
/** Visit the blocks of GETFILEBLOCKLOCATIONS. */
GY_MUST_CHECK gy_status gy_store_hdfs_blocks(const struct json_t *document,
                                             gy_place_block_visit visit, void *arg);

#endif
