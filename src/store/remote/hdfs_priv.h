/** WebHDFS: what reading and writing share. */
#ifndef GY_STORE_REMOTE_HDFS_PRIV_H
#define GY_STORE_REMOTE_HDFS_PRIV_H

#include "store/remote/remote_priv.h"

#include <jansson.h>

/** One operation on a path. Zero at first, except for the members that the caller sets. */
typedef struct gy_hdfs_call {
    gy_place *place;
    const char *method, *path;
    const char *operation; /* "GETFILESTATUS&x=y", with encoded values */
    const void *body;      /* sent to the data node */
    size_t body_bytes;
    /* (into_bytes) receives the data node's bytes; NULL: they go to the place's page */
    char *into;
    size_t into_bytes;
    bool is_once; /* must not be repeated, since that might do it twice */
    gy_http_answer answer;
    char data_node[320]; /* the data node that was asked; empty: none */
} gy_hdfs_call;

/** Ask the name node. GY_OK: an answer, whatever its status; its body is in place->answer. */
GY_MUST_CHECK gy_status gy_store_hdfs_ask(gy_hdfs_call *call);
/** Ask the name node, then the data node that it names, sending or receiving data; when that
 * data node is unreachable, ask another. */
GY_MUST_CHECK gy_status gy_store_hdfs_ask_data(gy_hdfs_call *call);
/** The failure for an answer's status; `words` says what was tried. */
gy_status gy_store_hdfs_fail(const gy_hdfs_call *call, const char *words);
/** Parse the JSON of a successful answer. */
GY_MUST_CHECK gy_status gy_store_hdfs_document(const gy_hdfs_call *call, json_t **document);
static inline bool gy_hdfs_is_good(const gy_hdfs_call *call)
{
    return call->answer.status >= 200 && call->answer.status < 300;
}
/** GETFILESTATUS of any path on the place's server; item->name is NULL. GY_NOTFOUND */
GY_MUST_CHECK gy_status gy_store_hdfs_look(gy_place *place, const char *path,
                                           gy_hdfs_item *item);

/* The functions for writing in the place's table. */
GY_MUST_CHECK gy_status gy_hdfs_guarantee(gy_place *place, gy_place_guarantees *guarantees);
GY_MUST_CHECK gy_status gy_store_hdfs_write_open(gy_place_writer *writer);
GY_MUST_CHECK gy_status gy_store_hdfs_write_part(gy_place_writer *writer, const void *data,
                                                 size_t size_bytes);
GY_MUST_CHECK gy_status gy_store_hdfs_write_finish(gy_place_writer *writer, const void *data,
                                                   size_t size_bytes);
void gy_store_hdfs_write_abort(gy_place_writer *writer);

#endif
