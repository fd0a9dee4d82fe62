/**
 * Messages from the manager to a vertex process: the welcome, once, and the body of a START
 * for each member of a task. They carry numbers instead of paths, and both sides build the
 * same paths from the numbers.
 *
 * Integers are in host byte order, because both sides are the same program.
 */
#ifndef GY_FLOW_CHANNEL_START_H
#define GY_FLOW_CHANNEL_START_H

#include "base/text.h"
#include "flow/channel/channel.h"

/** What all STARTs of a job have in common. */
typedef struct gy_welcome {
    uint64_t functions; /* gy_registry_hash: both sides must list the same functions */
    const char *folder; /* the job's folder */
    const char *data;   /* folder of intermediate files */
    /* folder of final outputs before they are published; "" when the job has none */
    const char *output;
    const char *const *stages; /* (stage_count) */
    uint32_t stage_count;
    bool is_traced;
    uint32_t round; /* the round for gy_flow_name_file */
    /* the process runs at a daemon, and `folder` is the job's folder there: it has no socket
     * for crash reports, and the process creates subfolders itself */
    bool is_remote;
    int64_t record_timeout_ns;
    gy_deadline deadline;
} gy_welcome;

void gy_welcome_write(const gy_welcome *welcome, gy_text *message);
/** Decode a welcome; its texts and arrays are in the arena. GY_FORMAT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_welcome_read(const void *message, size_t size_bytes, gy_arena *arena,
                                        gy_welcome *welcome);

typedef struct gy_vertex_start_input {
    gy_input_kind kind;
    uint32_t task_input; /* SECTION, FETCHED, INLINE: number of the task's edge */
    gy_attempt from;     /* SECTION, FETCHED */
    uint32_t member, section, channel;
    uint32_t width; /* SECTION: number of members of its producer */
    gy_key key, content;
    const char *path;    /* PLAIN, OBJECT */
    const char *version; /* OBJECT */
    const void *data;    /* INLINE */
    uint64_t offset, size_bytes;
    uint64_t total_bytes; /* OBJECT: size of the whole object */
    gy_stamp stamp;       /* PLAIN: the expected version */
} gy_vertex_start_input;

typedef struct gy_vertex_start_output {
    gy_output_kind kind;
    uint32_t channel;
} gy_vertex_start_output;

#define GY_FUNCTION_NONE UINT32_MAX

/** The work of one member. */
typedef struct gy_vertex_start {
    uint32_t function;      /* number in the registry; GY_FUNCTION_NONE: a command */
    uint32_t stage, number; /* named "stage[number]" */
    uint32_t index, copies, ranks, width;
    uint64_t memory_bytes, token[2];
    const void *parameter;
    uint32_t parameter_bytes;
    uint32_t input_count, output_count, channel_count, bad_count;
    const gy_vertex_start_input *inputs;
    const gy_vertex_start_output *outputs;
    const gy_flow_task_channel *channels;
    const gy_flow_record_id *bad;
    const char *const *command; /* ended by NULL; NULL: none */
    const char *const *files;
    const gy_stamp *stamps; /* versions of files; NULL when written: no file has one */
    /* Ranks of a command over hosts: the number of hosts (else 0), and the number of the
     * member's own host. */
    uint32_t hosts;
    const char *address; /* "HOST:PORT" of its daemon */
    bool is_plain;       /* the cluster has no keys */
    bool is_reported;    /* send the ranks' standard output to the manager */
} gy_vertex_start;

/** Append the encoded message; a failure is in message->status. */
void gy_vertex_start_write(const gy_vertex_start *start, gy_text *message);
/** Decode a START. Inline data is borrowed from the message, everything else is in the arena.
 * GY_FORMAT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_vertex_start_read(const void *message, size_t size_bytes,
                                             gy_arena *arena, gy_vertex_start *start);

enum { GY_NAME_BYTES = 64 };
/** The name of an attempt's file: "TASK.EPOCH.ATTEMPT", with ".MEMBER" appended in a cohort. */
const char *gy_flow_name_data(gy_attempt id, uint32_t member, uint32_t width,
                              char out[GY_NAME_BYTES]);
/** The same for job number `round` of the program on a cluster: from the second job on,
 * "ROUND-" comes first, because a host that was cut off may still have files of an earlier
 * job. */
const char *gy_flow_name_file(uint32_t round, gy_attempt id, uint32_t member, uint32_t width,
                              char out[GY_NAME_BYTES]);
/** The name of a final output before publication: "TASK.EPOCH.ATTEMPT.MEMBER.OUTPUT". */
const char *gy_flow_name_final(gy_attempt id, uint32_t member, uint32_t output,
                               char out[GY_NAME_BYTES]);

#endif
