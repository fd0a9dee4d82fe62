/**
 * Inside the status page.
 */
#ifndef GY_CLUSTER_PAGE_PAGE_PRIV_H
#define GY_CLUSTER_PAGE_PAGE_PRIV_H

#include "cluster/page/mhd.h"
#include "cluster/page/page.h"

/** A connection: its request must be whole, and answered, in time. */
typedef struct page_guest page_guest;
struct page_guest {
    page_guest *previous, *next; /* in the order of `since_ns`, the oldest first */
    int fd;
    int64_t since_ns; /* it came, or its last request was answered */
};

struct gy_page {
    gy_env *env;
    const gy_page_options *options;
    const gy_mhd *mhd;
    struct MHD_Daemon *daemon;
    int fd;
    char host[256]; /* as it was asked to listen at */
    char token[GY_PAGE_TOKEN], cookie[32], url[GY_PAGE_URL], policy[256];
    page_guest guests;                         /* head of the list */
    struct MHD_Response *pages[GY_PAGE_TEXTS]; /* as written last; NULL: not yet */
    int64_t written_ns[GY_PAGE_TEXTS];
    char said[256];    /* by libmicrohttpd, last */
    int64_t warned_ns; /* of who was refused */
    uint64_t refused;  /* since then */
};

/* ---- access.c ---- */

typedef enum page_access {
    ACCESS_NONE,  /* no token, or a wrong one */
    ACCESS_QUERY, /* in the query: a cookie is due */
    ACCESS_OK
} page_access;

page_access gy_page_look(const gy_page *page, struct MHD_Connection *connection, bool is_root);
/** May this be who was meant: the value of Host, NULL: there was none. */
bool gy_page_is_host(const gy_page *page, const char *host);
/** Draw the token and write its file. GY_IO; GY_ARG */
GY_MUST_CHECK gy_status gy_page_draw_token(gy_page *page);
/** The policy of content: the page's own script and style by their hashes, nothing else. */
void gy_page_make_policy(gy_page *page, const char *html);

#endif
