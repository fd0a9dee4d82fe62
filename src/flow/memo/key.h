/**
 * The memo key of a vertex's result: the program, the function, its parameter, and the inputs
 * from outside the graph. Vertices with equal keys are distinguished by a running number.
 */
#ifndef GY_FLOW_MEMO_KEY_H
#define GY_FLOW_MEMO_KEY_H

#include "base/index.h"
#include "flow/dag.h"
#include "flow/lower.h"
#include "flow/memo/memo.h"
#include "store/host_file.h"
#include "store/versions/stamp.h"

/** A file, or a part of it, that a vertex reads from outside. */
typedef struct gy_file_range {
    char path[4096]; /* absolute; of an object its URI */
    /* hosts that have the file, separated by spaces; "": all hosts */
    char hosts[GY_HOST_FILE_HOSTS];
    uint64_t offset, size_bytes; /* UINT64_MAX: to the end */
    bool is_object;              /* of S3 or HDFS */
} gy_file_range;

/**
 * Parse "path" or "path:offset:size", where the path is as for gy_host_file_read or an
 * object's URI. A file or object whose name is the whole text takes precedence;
 * "path/:offset:size" (of files) is always a range.
 *
 * @return GY_OK; GY_ARG too long, a range that overflows, or malformed; GY_IO the current
 *     folder is unknown
 * @cost a system call for a text that ends with two numbers; a request for an object that is
 *     not known yet
 */
GY_MUST_CHECK gy_status gy_file_range_read(const char *text, gy_file_range *range);

/**
 * The build id of the program and every library that it has loaded: linker build ids where
 * present, else hashes of contents. GY_IO
 * @cost microseconds with build ids
 */
GY_MUST_CHECK gy_status gy_flow_key_build(gy_key *build);

/** The hosts on which a prototype's vertices run best. */
typedef struct gy_proto_places {
    const char *hosts; /* host names separated by spaces; NULL: anywhere */
    bool is_pinned;    /* the vertices must run on these hosts */
} gy_proto_places;

/** The object that a vertex reads, as it was when its key was made. Zero for files. */
typedef struct gy_object {
    const char *version;  /* gy_place_facts.version */
    uint64_t total_bytes; /* size of the whole object */
} gy_object;

/** Keys of a graph's prototypes, computed on demand. Zero at first, except for build and
 * memo. */
typedef struct gy_proto_keys {
    gy_key build;
    gy_memo_store *memo; /* NULL: files are identified by stat data, not by content */
    /* a path may name another file on another host, so files are identified by name */
    bool is_over_hosts;
    gy_key *keys;            /* (count) final keys */
    gy_key *bases;           /* (count) keys before the running number is added */
    int64_t *bytes;          /* (count) total size of the files */
    gy_proto_places *places; /* (count) */
    /* (count) a row for each of the prototype's files; NULL: no file is an object */
    const gy_object **objects;
    /* (count) a row for each of the prototype's files: the version that it had when its key
     * was made; NULL: no files */
    const gy_stamp **stamps;
    gy_arena texts;
    size_t keys_capacity, bases_capacity, bytes_capacity, places_capacity, objects_capacity,
        stamps_capacity, equal_capacity;
    size_t count;
    gy_index firsts; /* by a base: the first prototype that has it */
    uint32_t *equal; /* (count) of a first one: how many later ones have its base */
} gy_proto_keys;

/**
 * Compute the keys of all prototypes that the graph has so far.
 *
 * @return GY_OK; GY_NOTFOUND, GY_IO an input file cannot be read: names the file and the
 *     vertex; GY_ARG a range outside the file, files that no single host has, or another host's
 *     file in a job on one machine; GY_UNSUPPORTED a host's file in a refinement, or an object
 *     that a command needs in its folder or that has no version; for objects as gy_place_stat;
 *     GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_proto_keys_make(gy_proto_keys *keys, const gy_dag *dag);
void gy_proto_keys_fini(gy_proto_keys *keys);
/** Callback `proto` of gy_lower_source; arg is the keys. */
void gy_proto_keys_tell(void *arg, const gy_dag *dag, uint32_t proto, gy_key *key,
                        bool *is_kept, int64_t *bytes);
/** Callback `places` of gy_lower_source; arg is the keys. */
const char *gy_proto_keys_places(void *arg, const gy_dag *dag, uint32_t proto, bool *is_pinned);

#endif
