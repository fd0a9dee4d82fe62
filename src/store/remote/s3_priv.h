/** S3: what reading and writing share. */
#ifndef GY_STORE_REMOTE_S3_PRIV_H
#define GY_STORE_REMOTE_S3_PRIV_H

#include "store/remote/remote_priv.h"

typedef struct gy_s3 {
    gy_login login;
    char scheme[16];  /* "https://" */
    char server[512]; /* host, port, perhaps a path */
    char sign[128];   /* for libcurl; empty: anonymous */
    bool is_path_style;
} gy_s3;

enum { GY_S3_LINE_BYTES = 4352 };

/** A request under construction. */
typedef struct gy_s3_call {
    gy_place *place;
    gy_http_request request;
    gy_http_answer answer;
    gy_text url;
    int header_count, tries;
    char hash[96], session[GY_S3_LINE_BYTES], token[96];
} gy_s3_call;

/** Begin a request. `query` is encoded and sorted by name, or "". `key` is encoded here. */
void gy_s3_begin(gy_s3_call *call, gy_place *place, const char *method, const char *key,
                 const char *query);
/** The same with a query text, which it takes; gy_s3_ask reports a failure of the text. */
void gy_s3_begin_with(gy_s3_call *call, gy_place *place, const char *method, const char *key,
                      gy_text *query);
/** Add a header. `line` is borrowed until the call ends. */
void gy_s3_header(gy_s3_call *call, const char *line);
/** Sign and send; frees what begin allocated. GY_OK: an answer, whatever its status. */
GY_MUST_CHECK gy_status gy_s3_ask(gy_s3_call *call);
/** The same with the answer's body in place->answer. */
GY_MUST_CHECK gy_status gy_s3_ask_page(gy_s3_call *call);
/** The failure for an answer's status; `words` says what was tried: "read". */
gy_status gy_s3_fail(const gy_s3_call *call, const char *words);
static inline bool gy_s3_is_good(const gy_s3_call *call)
{
    return call->answer.status >= 200 && call->answer.status < 300;
}

/* The functions for writing in the place's table. */
GY_MUST_CHECK gy_status gy_s3_guarantee(gy_place *place, gy_place_guarantees *guarantees);
GY_MUST_CHECK gy_status gy_s3_write_open(gy_place_writer *writer);
GY_MUST_CHECK gy_status gy_s3_write_part(gy_place_writer *writer, const void *data,
                                         size_t size_bytes);
GY_MUST_CHECK gy_status gy_s3_write_finish(gy_place_writer *writer, const void *data,
                                           size_t size_bytes);
void gy_s3_write_abort(gy_place_writer *writer);

#endif
