/**
 * What a vertex's result is remembered by: the program, the function, its parameter, what it
 * reads from outside. Keys of equal vertices are told apart by which of them they are.
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
    char path[4096];                /* absolute; of an object its URI */
    char hosts[GY_HOST_FILE_HOSTS]; /* that have it, with spaces between; "": all have */
    uint64_t offset, size_bytes;    /* UINT64_MAX: to the end */
    bool is_object;                 /* of S3 or HDFS */
} gy_file_range;

/**
 * "path" or "path:offset:size", the path as gy_host_file_read has it or a URI of an object. A
 * file or object with the whole text for its name is that one; "path/:offset:size" (of files)
 * is always a range.
 *
 * @return GY_OK; GY_ARG too long, a range that overflows, what is no such text; GY_IO no folder
 * to start from
 * @cost of what ends with two numbers a system call, of an object of which nothing is known yet
 * a request
 */
GY_MUST_CHECK gy_status gy_file_range_read(const char *text, gy_file_range *range);

/**
 * Of the program and every library that it has loaded: build ids where the linker left them,
 * else contents. GY_IO
 * @cost microseconds with build ids
 */
GY_MUST_CHECK gy_status gy_flow_key_build(gy_key *build);

/** Where vertices of a prototype would best run. */
typedef struct gy_proto_places {
    const char *hosts; /* names with spaces between; NULL: anywhere */
    bool is_pinned;    /* and nowhere else */
} gy_proto_places;

/** Which object a vertex reads: what it was when its key was made. Zero for files. */
typedef struct gy_object {
    const char *version;  /* gy_place_facts.version */
    uint64_t total_bytes; /* of the whole */
} gy_object;

/** Keys of a graph's prototypes, made as they are asked for. Zero but for build and memo at
 * first.
 */
typedef struct gy_proto_keys {
    gy_key build;
    gy_memo_store *memo;       /* NULL: files are known by what stat tells, not by content */
    bool is_over_hosts;        /* a file of a host may be another one's: known by its name */
    gy_key *keys;              /* (count) final ones */
    gy_key *bases;             /* (count) before equal ones are told apart */
    int64_t *bytes;            /* (count) of files */
    gy_proto_places *places;   /* (count) */
    const gy_object **objects; /* (count) a row for each of the prototype's files; NULL: none of
                                  them is an object */
    const gy_stamp **stamps;   /* (count) a row for each of the prototype's files: the version
                                  that it had when its key was made; NULL: it has none */
    gy_arena texts;
    size_t keys_capacity, bases_capacity, bytes_capacity, places_capacity, objects_capacity,
        stamps_capacity, equal_capacity;
    size_t count;
    gy_index firsts; /* by a base: the first prototype that has it */
    uint32_t *equal; /* (count) of a first one: how many later ones have its base */
} gy_proto_keys;

/**
 * Keys of all prototypes that the graph has by now.
 *
 * @return GY_OK; GY_NOTFOUND, GY_IO an input file cannot be read: names it and the vertex;
 * GY_ARG a range outside the file, files that no host has together, one of another host in a
 * job of this one; GY_UNSUPPORTED one of a host in a growth, an object that a command shall
 * have in its folder or that has no version; of objects as gy_place_stat; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_proto_keys_make(gy_proto_keys *keys, const gy_dag *dag);
void gy_proto_keys_fini(gy_proto_keys *keys);
/** For gy_flow_lower_growth, arg being the keys. */
void gy_proto_keys_tell(void *arg, const gy_dag *dag, uint32_t proto, gy_key *key,
                        bool *is_kept, int64_t *bytes);
/** Likewise. */
const char *gy_proto_keys_places(void *arg, const gy_dag *dag, uint32_t proto, bool *is_pinned);

#endif
