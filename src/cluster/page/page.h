/**
 * The status page: three paths over HTTP, for holders of a token.
 *
 *     /             the page, which refreshes itself from
 *     /state.json   the state of the cluster
 *     /metrics      the same as numbers, in Prometheus' text format
 *
 * libmicrohttpd serves HTTP without a thread of its own: the owner of the page polls its
 * descriptor. No input of a request is used before method, host and token are accepted; no body
 * is read.
 *
 * The token is 32 random bytes as hex digits, new at each start, in a file of mode 0600. A
 * browser sends it once as `/?token=...` and receives a cookie; scripts send it as
 * `Authorization: Bearer ...`. The page refuses a Host header unless it is a numeric address,
 * "localhost" or the page's own name. Otherwise a foreign page could make its name resolve to
 * this address (DNS rebinding) and would count as the same origin.
 */
#ifndef GY_CLUSTER_PAGE_PAGE_H
#define GY_CLUSTER_PAGE_PAGE_H

#include "base/env.h"
#include "base/text.h"

typedef struct gy_page gy_page;

typedef enum gy_page_path { GY_PAGE_STATE, GY_PAGE_METRICS, GY_PAGE_TEXTS } gy_page_path;

enum { GY_PAGE_TOKEN = 65, GY_PAGE_URL = 400 };

typedef struct gy_page_options {
    const char *listen; /* "HOST:PORT"; without a host the loopback; port 0: any free port */
    const char *token_file; /* created or replaced */
    /* Write the content of that path. Called at most four times a second for each. */
    void (*write)(void *arg, gy_page_path path, gy_text *text);
    void *arg;
} gy_page_options;

/**
 * Listen. Options and texts are borrowed until the end.
 *
 * @return GY_OK; GY_ARG the address; GY_EXISTS another process listens there; GY_IO the token's
 * file; GY_UNSUPPORTED no libmicrohttpd; GY_NOMEM
 * @threads all calls of one page on one thread at a time
 */
GY_MUST_CHECK gy_status gy_page_open(gy_env *env, const gy_page_options *options,
                                     gy_page **page);
/** Without the token, which is only in its file. */
const char *gy_page_url(const gy_page *page);
/** Readable when gy_page_turn has something to do. */
int gy_page_fd(const gy_page *page);
/** The time at which it must be called in any case. */
gy_deadline gy_page_next(const gy_page *page);
/** Process events; never waits. */
void gy_page_turn(gy_page *page);
/** NULL is allowed. Closes all connections. The token's file stays, but is useless. */
void gy_page_close(gy_page *page);

/* ---- Untrusted texts ---- */

/**
 * Append a JSON string with quotes that is also safe inside HTML; invalid UTF-8 becomes U+FFFD.
 */
void gy_page_add_string(gy_text *text, const char *value);
/** Append a label's value in Prometheus' format, with quotes; invalid UTF-8 becomes U+FFFD. */
void gy_page_add_label(gy_text *text, const char *value);

#endif
