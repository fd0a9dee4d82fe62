/**
 * WebHDFS: what reading and writing share.
 */
#ifndef GY_STORE_REMOTE_HDFS_PRIV_H
#define GY_STORE_REMOTE_HDFS_PRIV_H

#include "store/remote/remote_priv.h"

#include <jansson.h>

/** One operation on a path. Zero but for what is said at first. */
typedef struct gy_hdfs_call {
    gy_place *place;
    const char *method, *path;
    const char *operation; /* "GETFILESTATUS&x=y", values encoded */
    const void *body;      /* for the data node */
    size_t body_bytes;
    char *into; /* (into_bytes) from the data node; NULL: the place's page */
    size_t into_bytes;
    bool is_once; /* another try might do it twice */
    gy_http_answer answer;
    char data_node[320]; /* who was asked for data; empty: nobody */
} gy_hdfs_call;

/** Ask the name node. GY_OK: an answer, whatever its status; the body is in place->answer. */
GY_MUST_CHECK gy_status gy_store_hdfs_ask(gy_hdfs_call *call);
/** Ask the name node, then the data node that it names, for data or with data; another data
 * node where one is away. */
GY_MUST_CHECK gy_status gy_store_hdfs_ask_data(gy_hdfs_call *call);
/** The failure that the answer stands for; of `words` what was tried. */
gy_status gy_store_hdfs_fail(const gy_hdfs_call *call, const char *words);
/** The JSON of a good answer. */
GY_MUST_CHECK gy_status gy_store_hdfs_document(const gy_hdfs_call *call, json_t **document);
static inline bool gy_hdfs_is_good(const gy_hdfs_call *call)
{
    return call->answer.status >= 200 && call->answer.status < 300;
}
/** GETFILESTATUS of any path of the place; item->name is NULL. GY_NOTFOUND */
GY_MUST_CHECK gy_status gy_store_hdfs_look(gy_place *place, const char *path,
                                           gy_hdfs_item *item);

/* The slots of writing. */
GY_MUST_CHECK gy_status gy_hdfs_guarantee(gy_place *place, gy_place_guarantees *guarantees);
GY_MUST_CHECK gy_status gy_store_hdfs_write_open(gy_place_writer *writer);
GY_MUST_CHECK gy_status gy_store_hdfs_write_part(gy_place_writer *writer, const void *data,
                                                 size_t size_bytes);
GY_MUST_CHECK gy_status gy_store_hdfs_write_finish(gy_place_writer *writer, const void *data,
                                                   size_t size_bytes);
void gy_store_hdfs_write_abort(gy_place_writer *writer);

#endif
