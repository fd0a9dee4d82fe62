/**
 * A vertex while it runs: its ports, what it was told, what it will report.
 */
#ifndef GY_FLOW_CHANNEL_VERTEX_H
#define GY_FLOW_CHANNEL_VERTEX_H

#include "base/text.h"
#include "flow/channel/channel.h"
#include "flow/channel/cohort.h"
#include "flow/channel/fault_priv.h"
#include "flow/section/section.h"

enum { GY_COUNTERS_MAX = 64 };

typedef enum gy_port_state { GY_PORT_NEW, GY_PORT_OPEN, GY_PORT_ENDED } gy_port_state;

typedef struct gy_in_port {
    gy_port_state state;
    gy_section section;             /* SECTION, PLAIN while open */
    gy_stamp stamp;                 /* PLAIN: the version that is read */
    int file;                       /* PLAIN while open; -1: closed, there are many */
    struct gy_object_input *object; /* OBJECT while open */
    size_t memory_bytes;            /* of it: gy_vertex_object_budget */
} gy_in_port;

typedef struct gy_out_port {
    gy_section_writer *file; /* FINAL: its own; SECTION: the attempt's, borrowed */
    uint32_t section;
    uint64_t size_bytes;
} gy_out_port;

typedef struct gy_tally {
    char *name;
    int64_t value;
} gy_tally;

struct gy_vertex {
    gy_env *env;
    const gy_flow_task *order;
    const _Atomic bool *is_cancelled;
    gy_fault_board *board; /* never NULL */
    gy_fault_board own_board;
    gy_fault_task task;
    gy_in_port *inputs;
    struct gy_objects_prefetch *ahead; /* objects fetched before they are read; NULL: none */
    bool has_begun_ahead;
    gy_out_port *outputs;
    gy_section_writer *sections; /* of all SECTION outputs; NULL: there are none */
    gy_cohort *cohort;
    gy_cause cause; /* of the first call that failed; NONE: none did */
    gy_status status;
    gy_error error;
    uint32_t input; /* LOST_INPUT: which */
    char *scratch;  /* NULL: not asked for */
    gy_tally tallies[GY_COUNTERS_MAX];
    int tally_count, tally_last;
    gy_text sample;
    int64_t skipped;
};

/** Note why the vertex fails, unless it has failed already; returns `status`. */
gy_status gy_vertex_fail(gy_vertex *vertex, gy_status status, gy_cause cause);
/** GY_CANCELLED once the job no longer wants it, or what failed before. */
GY_MUST_CHECK gy_status gy_vertex_check(gy_vertex *vertex);
/** gy_vertex_read of an object; objects/input.c. */
GY_MUST_CHECK gy_status gy_vertex_read_object(gy_vertex *vertex, uint32_t at, const void **data,
                                              size_t *size_bytes);
/**
 * See that the user's files that are open are still the version that was opened: called before
 * outputs are ended. After a failure, whatever it was, a file that changed is its cause.
 */
GY_MUST_CHECK gy_status gy_flow_inputs_check(gy_vertex *vertex);
/** Likewise, of the files in a command's folder. */
GY_MUST_CHECK gy_status gy_flow_files_check(gy_vertex *vertex);
/** Give all inputs back. */
void gy_flow_inputs_close(gy_vertex *vertex);
/** Bytes of an output of any kind, after which `outputs[].size_bytes` knows them. */
GY_MUST_CHECK gy_status gy_flow_outputs_open(gy_vertex *vertex);
/** End all outputs well: files are whole then. `sums` (output_count). */
GY_MUST_CHECK gy_status gy_flow_outputs_finish(gy_vertex *vertex, gy_section_sum *sums,
                                               bool *is_inline);
/** Free all; files that were not finished go. */
void gy_flow_outputs_close(gy_vertex *vertex);
/** The work of a vertex whose order has a command. */
GY_MUST_CHECK gy_status gy_flow_command_run(gy_vertex *vertex);

/**
 * Find a file that a command, or what it said when it failed, names and that a sandbox hides
 * from this process: a program, what it was to read, or a library beside a program.
 * @param out  PATH_MAX bytes: its path
 * @cost a few calls of the system a word
 */
bool gy_flow_command_find_hidden(const char *const *command, const char *said, char *out);
/** Of one whose command has ranks. */
GY_MUST_CHECK gy_status gy_flow_ranks_run(gy_vertex *vertex);
/** The report of a vertex that ended well. */
void gy_report_write(const gy_vertex *vertex, const gy_section_sum *sums, bool is_inline,
                     gy_worker_answer *answer);
/** Remove a folder with all in it. GY_IO */
GY_MUST_CHECK gy_status gy_flow_folder_remove(const char *path);

#endif
