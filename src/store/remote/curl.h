/** The functions of libcurl that Gyre uses, looked up at the first use. */
#ifndef GY_STORE_REMOTE_CURL_H
#define GY_STORE_REMOTE_CURL_H

#include <gyre/base.h>

#include <curl/curl.h>

/* A name in the list is a libcurl function without "curl_". */
#define GY_CURL_LIST(X)                                                                        \
    X(global_init)                                                                             \
    X(version_info)                                                                            \
    X(easy_init)                                                                               \
    X(easy_setopt)                                                                             \
    X(easy_getinfo)                                                                            \
    X(getdate)                                                                                 \
    X(easy_reset)                                                                              \
    X(easy_cleanup)                                                                            \
    X(easy_strerror)                                                                           \
    X(slist_append)                                                                            \
    X(slist_free_all)                                                                          \
    X(multi_init)                                                                              \
    X(multi_cleanup)                                                                           \
    X(multi_add_handle)                                                                        \
    X(multi_remove_handle)                                                                     \
    X(multi_perform)                                                                           \
    X(multi_poll)                                                                              \
    X(multi_wakeup)                                                                            \
    X(multi_info_read)

typedef struct gy_curl {
#define GY_X(name) __typeof__(&curl_##name) name;
    GY_CURL_LIST(GY_X)
#undef GY_X
} gy_curl;

/** Get the table, which is loaded once a process. GY_UNSUPPORTED no libcurl, or one that lacks
 * a function, is older than 7.87 or has no TLS. @threads any */
GY_MUST_CHECK gy_status gy_curl_load(const gy_curl **curl);

#endif
