/**
 * What travels from the manager to a process: the welcome, once, and a START's body for each
 * member of a task. Numbers instead of paths: both sides make the same paths from them.
 *
 * Numbers are as the host has them: both sides are the same program.
 */
#ifndef GY_FLOW_CHANNEL_START_H
#define GY_FLOW_CHANNEL_START_H

#include "base/text.h"
#include "flow/channel/channel.h"

/** What all STARTs of a job share. */
typedef struct gy_welcome {
    uint64_t functions;        /* gy_registry_hash: both sides list the same */
    const char *folder;        /* of the job */
    const char *data;          /* intermediates */
    const char *output;        /* final data before their names; "" when the job has none */
    const char *const *stages; /* (stage_count) */
    uint32_t stage_count;
    bool is_traced;
    uint32_t round; /* gy_flow_name_file's */
    bool is_remote; /* at a daemon, whose folder of the job this is: no door for faults, and
                       what a process makes there it makes itself */
    int64_t record_timeout_ns;
    gy_deadline deadline;
} gy_welcome;

void gy_welcome_write(const gy_welcome *welcome, gy_text *message);
/** Texts and arrays are in the arena. GY_FORMAT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_welcome_read(const void *message, size_t size_bytes, gy_arena *arena,
                                        gy_welcome *welcome);

typedef struct gy_vertex_start_input {
    gy_input_kind kind;
    uint32_t task_input; /* SECTION, FETCHED, INLINE: which edge of the task */
    gy_attempt from;     /* SECTION, FETCHED */
    uint32_t member, section, channel;
    uint32_t width; /* SECTION: of its producer */
    gy_key key, content;
    const char *path;    /* PLAIN, OBJECT */
    const char *version; /* OBJECT */
    const void *data;    /* INLINE */
    uint64_t offset, size_bytes;
    uint64_t total_bytes; /* OBJECT */
    gy_stamp stamp;       /* PLAIN */
} gy_vertex_start_input;

typedef struct gy_vertex_start_output {
    gy_output_kind kind;
    uint32_t channel;
} gy_vertex_start_output;

#define GY_FUNCTION_NONE UINT32_MAX

/** A member's work. */
typedef struct gy_vertex_start {
    uint32_t function;      /* in the registry; GY_FUNCTION_NONE: command */
    uint32_t stage, number; /* "stage[number]" */
    uint32_t index, copies, ranks, width;
    uint64_t memory_bytes, token[2];
    const void *parameter;
    uint32_t parameter_bytes;
    uint32_t input_count, output_count, channel_count, bad_count;
    const gy_vertex_start_input *inputs;
    const gy_vertex_start_output *outputs;
    const gy_flow_task_channel *channels;
    const gy_flow_record_id *bad;
    const char *const *command; /* NULL at the end; NULL: none */
    const char *const *files;
    const gy_stamp *stamps; /* of files; NULL when written: none has one */
    /* Of a command's ranks over hosts: on how many (else 0), and the member's own host. */
    uint32_t hosts;
    const char *address; /* "HOST:PORT" of its daemon */
    bool is_plain;       /* the cluster has no keys */
    bool is_reported;    /* what ranks print is wanted */
} gy_vertex_start;

/** Appends; a failure is in message->status. */
void gy_vertex_start_write(const gy_vertex_start *start, gy_text *message);
/** Inline data is borrowed from the message, all else in the arena. GY_FORMAT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_vertex_start_read(const void *message, size_t size_bytes,
                                             gy_arena *arena, gy_vertex_start *start);

enum { GY_NAME_BYTES = 64 };
/** Of an attempt's file: "TASK.EPOCH.ATTEMPT", of a cohort with ".MEMBER" behind it. */
const char *gy_flow_name_data(gy_attempt id, uint32_t member, uint32_t width,
                              char out[GY_NAME_BYTES]);
/** The same of the program's job `round` on a cluster: a host that was cut off may still have
 * files of an earlier one; from the second job on "ROUND-" stands before it. */
const char *gy_flow_name_file(uint32_t round, gy_attempt id, uint32_t member, uint32_t width,
                              char out[GY_NAME_BYTES]);
/** Of a final output before it has its name: "TASK.EPOCH.ATTEMPT.MEMBER.OUTPUT". */
const char *gy_flow_name_final(gy_attempt id, uint32_t member, uint32_t output,
                               char out[GY_NAME_BYTES]);

#endif
