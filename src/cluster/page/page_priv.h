/**
 * Inside the status page.
 */
#ifndef GY_CLUSTER_PAGE_PAGE_PRIV_H
#define GY_CLUSTER_PAGE_PAGE_PRIV_H

#include "cluster/page/mhd.h"
#include "cluster/page/page.h"

/** A connection: its request must be complete and answered in time. */
typedef struct page_guest page_guest;
struct page_guest {
    page_guest *previous, *next; /* ordered by `since_ns`, the oldest first */
    int fd;
    int64_t since_ns; /* when it came, or its last request was answered */
};

struct gy_page {
    gy_env *env;
    const gy_page_options *options;
    const gy_mhd *mhd;
    struct MHD_Daemon *daemon;
    int fd;
    char host[256]; /* of options.listen */
    char token[GY_PAGE_TOKEN], cookie[32], url[GY_PAGE_URL], policy[256];
    page_guest guests;                         /* head of the list */
    struct MHD_Response *pages[GY_PAGE_TEXTS]; /* last written content; NULL: none yet */
    int64_t written_ns[GY_PAGE_TEXTS];
    char said[256];    /* last message of libmicrohttpd */
    int64_t warned_ns; /* when refusals were last logged */
    uint64_t refused;  /* since then */
};

/* ---- access.c ---- */

typedef enum page_access {
    ACCESS_NONE,  /* no token, or a wrong one */
    ACCESS_QUERY, /* in the query: set a cookie */
    ACCESS_OK
} page_access;

page_access gy_page_look(const gy_page *page, struct MHD_Connection *connection, bool is_root);
/** Is this value of the Host header one of the page's names? NULL: no header. */
bool gy_page_is_host(const gy_page *page, const char *host);
/** Draw a token and write its file. GY_IO; GY_ARG */
GY_MUST_CHECK gy_status gy_page_draw_token(gy_page *page);
/** The Content-Security-Policy: only the page's own script and style, by their hashes. */
void gy_page_make_policy(gy_page *page, const char *html);

#endif
