/**
 * One HTTP request through libcurl, which is loaded when the first is made: linking it would
 * cost every start of a program what loading thirty libraries costs.
 */
#ifndef GY_STORE_REMOTE_HTTP_H
#define GY_STORE_REMOTE_HTTP_H

#include "base/text.h"
#include "store/remote/remote.h"

enum {
    GY_HTTP_VALUE_BYTES = 512, /* of a header that is kept */
    GY_HTTP_LOCATION_BYTES = 4096,
    GY_HTTP_ERROR_BYTES = 4096, /* of the text of a refusal */
    GY_HTTP_HEADERS = 12,
    GY_HTTP_HEADERS_MOST = 256 << 10, /* bytes of all headers of an answer */
};

/** A connection, kept between requests. One thread at a time but for gy_http_wake. */
typedef struct gy_http gy_http;

GY_MUST_CHECK gy_status gy_http_open(gy_env *env, gy_http **http);
/** Keeps the connection for the next to open. NULL is fine. */
void gy_http_close(gy_http *http);
/** Close the connections that are kept; for tests. @threads any */
void gy_http_drop_kept(void);
/** Make a request that is under way look at its `is_cancelled`. @threads any */
void gy_http_wake(gy_http *http);

typedef struct gy_http_request {
    const char *method; /* GET HEAD PUT POST DELETE */
    const char *url;
    const char *headers[GY_HTTP_HEADERS]; /* "Name: value"; NULL behind the last */
    const void *body;                     /* of PUT and POST; borrowed */
    size_t body_bytes;
    const char *sign; /* SigV4: "aws:amz:REGION:s3"; NULL: not signed */
    const char *key, *secret;
    const char *authorities;                   /* a file of certificates; NULL: the system's */
    const char *certificate, *certificate_key; /* files, PEM: who asks; NULL: nobody */
    char *into; /* (into_bytes) takes the bytes of a good answer */
    size_t into_bytes;
    bool is_range; /* ask for [at, at + into_bytes) */
    uint64_t at;
    const char *version; /* the ETag that the answer must have; NULL: any */
    bool is_once;        /* another try might do it twice: none, not even of libcurl's own */
    double silence_s;    /* a server that says nothing for so long has failed */
} gy_http_request;

typedef struct gy_http_answer {
    int status;             /* of HTTP; 0: none came */
    size_t body_bytes;      /* in `into` */
    uint64_t content_bytes; /* as announced; UINT64_MAX: not */
    uint64_t range_at;      /* of Content-Range; UINT64_MAX: none */
    uint64_t range_total;   /* of Content-Range; UINT64_MAX: not told */
    int64_t modified_ms;    /* Last-Modified; 0: none */
    double retry_after_s;   /* 0: none */
    char etag[GY_VERSION_BYTES];
    char region[64];                       /* x-amz-bucket-region */
    char token[64];                        /* x-amz-meta-gyre-token */
    char location[GY_HTTP_LOCATION_BYTES]; /* of a redirect */
    char error[GY_HTTP_ERROR_BYTES];       /* the body of a refusal, cut */
    size_t error_bytes;
    /* What the server or the network did wrong; `error` holds the words when status is 0. */
    bool is_unreachable; /* no connection came about */
    bool is_changed;     /* another version than asked for */
} gy_http_answer;

/**
 * One try.
 *
 * @param is_cancelled may be set by another thread; NULL: never
 * @return GY_OK an answer came whole, whatever its status; GY_AGAIN none did, another try may
 * help: `answer` has what was received, and why in `error`; GY_IO none will come (a certificate
 * that is not trusted); GY_LIMIT, GY_FORMAT an answer that is too long, or none; GY_STATE
 * another version; GY_CANCELLED; GY_NOMEM; GY_UNSUPPORTED libcurl is not there or too old
 */
GY_MUST_CHECK gy_status gy_http_try(gy_http *http, const gy_http_request *request,
                                    gy_deadline deadline, const bool *is_cancelled,
                                    gy_http_answer *answer);

/** Percent-encode `size` bytes but for letters, digits, "-._~" and what `kept` has. */
void gy_http_encode(gy_text *text, const char *data, size_t size_bytes, const char *kept);

#endif
