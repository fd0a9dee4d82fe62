/**
 * One HTTP request through libcurl, which is loaded at the first request, because linking its
 * thirty libraries would slow every program start.
 */
#ifndef GY_STORE_REMOTE_HTTP_H
#define GY_STORE_REMOTE_HTTP_H

#include "base/text.h"
#include "store/remote/remote.h"

enum {
    GY_HTTP_VALUE_BYTES = 512, /* longest stored value of a header */
    GY_HTTP_LOCATION_BYTES = 4096,
    GY_HTTP_ERROR_BYTES = 4096, /* longest stored text of a refusal */
    GY_HTTP_HEADERS = 12,
    GY_HTTP_HEADERS_MOST = 256 << 10, /* most bytes in all headers of an answer */
};

/** A connection that is reused between requests. One thread at a time, except for
 * gy_http_wake. */
typedef struct gy_http gy_http;

GY_MUST_CHECK gy_status gy_http_open(gy_env *env, gy_http **http);
/** Return the connection to the process's idle ones. NULL is fine. */
void gy_http_close(gy_http *http);
/** Close all idle connections; for tests. @threads any */
void gy_http_drop_kept(void);
/** Make a running request check its `is_cancelled`. @threads any */
void gy_http_wake(gy_http *http);

typedef struct gy_http_request {
    const char *method; /* GET HEAD PUT POST DELETE */
    const char *url;
    const char *headers[GY_HTTP_HEADERS]; /* "Name: value"; NULL after the last */
    const void *body;                     /* for PUT and POST; borrowed */
    size_t body_bytes;
    const char *sign; /* SigV4: "aws:amz:REGION:s3"; NULL: not signed */
    const char *key, *secret;
    const char *authorities; /* a file of certificates; NULL: the system's */
    /* PEM files of the client's identity; NULL: none */
    const char *certificate, *certificate_key;
    char *into; /* (into_bytes) receives the body of a successful answer */
    size_t into_bytes;
    bool is_range; /* request the range [at, at + into_bytes) */
    uint64_t at;
    const char *version; /* the ETag that the object must have; NULL: any */
    bool is_once;        /* must not be repeated, not even by libcurl */
    double silence_s;    /* a server that sends nothing for so long has failed */
} gy_http_request;

typedef struct gy_http_answer {
    int status;             /* HTTP status; 0: no answer */
    size_t body_bytes;      /* bytes stored in `into` */
    uint64_t content_bytes; /* Content-Length; UINT64_MAX: none */
    uint64_t range_at;      /* of Content-Range; UINT64_MAX: none */
    uint64_t range_total;   /* of Content-Range; UINT64_MAX: unknown */
    int64_t modified_ms;    /* Last-Modified; 0: none */
    double retry_after_s;   /* 0: none */
    char etag[GY_VERSION_BYTES];
    char region[64];                       /* x-amz-bucket-region */
    char token[64];                        /* x-amz-meta-gyre-token */
    char location[GY_HTTP_LOCATION_BYTES]; /* Location of a redirect */
    char error[GY_HTTP_ERROR_BYTES];       /* the beginning of a refusal's body */
    size_t error_bytes;
    /* Why there was no answer; when status is 0, `error` has the reason. */
    bool is_unreachable; /* no connection was established */
    bool is_changed;     /* the object has another version than requested */
} gy_http_answer;

/**
 * Send a request once.
 *
 * @param is_cancelled may be set by another thread; NULL: never
 * @return GY_OK a complete answer, whatever its status; GY_AGAIN no complete answer, but
 *     another try may help: `answer` has what was received, and the reason in `error`; GY_IO no
 *     try will help (an untrusted certificate); GY_LIMIT, GY_FORMAT the answer is too long or
 *     malformed; GY_STATE another version; GY_CANCELLED; GY_NOMEM; GY_UNSUPPORTED libcurl is
 *     missing or too old
 */
GY_MUST_CHECK gy_status gy_http_try(gy_http *http, const gy_http_request *request,
                                    gy_deadline deadline, const bool *is_cancelled,
                                    gy_http_answer *answer);

/** Percent-encode `size` bytes except letters, digits, "-._~" and the bytes in `kept`. */
void gy_http_encode(gy_text *text, const char *data, size_t size_bytes, const char *kept);

#endif
