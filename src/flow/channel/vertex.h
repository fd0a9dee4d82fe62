/** A running vertex: its ports, its order, and what it will report. */
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
    gy_stamp stamp;                 /* PLAIN: the version being read */
    int file;                       /* PLAIN while open; -1: closed to save descriptors */
    struct gy_object_input *object; /* OBJECT while open */
    size_t memory_bytes;            /* memory for the object; gy_vertex_object_budget */
} gy_in_port;

typedef struct gy_out_port {
    /* FINAL: a file of its own; SECTION: the attempt's file, borrowed */
    gy_section_writer *file;
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
    /* objects fetched before the function reads them; NULL: none */
    struct gy_objects_prefetch *ahead;
    bool has_begun_ahead;
    gy_out_port *outputs;
    gy_section_writer *sections; /* file of all SECTION outputs; NULL: there are none */
    gy_cohort *cohort;
    gy_cause cause; /* cause of the first failed call; NONE: no call failed */
    gy_status status;
    gy_error error;
    uint32_t input; /* LOST_INPUT: number of the input */
    char *scratch;  /* NULL: not requested yet */
    gy_tally tallies[GY_COUNTERS_MAX];
    int tally_count, tally_last;
    gy_text sample;
    int64_t skipped;
};

/** Record why the vertex fails, unless it has failed already; returns `status`. */
gy_status gy_vertex_fail(gy_vertex *vertex, gy_status status, gy_cause cause);
/** GY_CANCELLED once the job no longer needs the vertex, or an earlier failure. */
GY_MUST_CHECK gy_status gy_vertex_check(gy_vertex *vertex);
/** gy_vertex_read for an object; in objects/input.c. */
GY_MUST_CHECK gy_status gy_vertex_read_object(gy_vertex *vertex, uint32_t at, const void **data,
                                              size_t *size_bytes);
/**
 * Check that the user's open files are still the versions that were opened; called before the
 * outputs are finished. After any failure, a changed file becomes its cause.
 */
GY_MUST_CHECK gy_status gy_flow_inputs_check(gy_vertex *vertex);
/** The same check for the files in a command's folder. */
GY_MUST_CHECK gy_status gy_flow_files_check(gy_vertex *vertex);
/** Release all inputs. */
void gy_flow_inputs_close(gy_vertex *vertex);
/** Open all outputs. Afterwards `outputs[].size_bytes` counts the bytes of outputs of any
 * kind. */
GY_MUST_CHECK gy_status gy_flow_outputs_open(gy_vertex *vertex);
/** Finish all outputs, after which their files are complete. `sums` (output_count). */
GY_MUST_CHECK gy_status gy_flow_outputs_finish(gy_vertex *vertex, gy_section_sum *sums,
                                               bool *is_inline);
/** Free all outputs and remove files that were not finished. */
void gy_flow_outputs_close(gy_vertex *vertex);
/** Run a vertex whose order has a command. */
GY_MUST_CHECK gy_status gy_flow_command_run(gy_vertex *vertex);

/**
 * Find a file that a command, or its error output, names and that a sandbox hides from this
 * process: a program, a file that it reads, or a library beside a program.
 * @param out  PATH_MAX bytes: its path
 * @cost a few system calls a word
 */
bool gy_flow_command_find_hidden(const char *const *command, const char *said, char *out);
/** The same for a command with ranks. */
GY_MUST_CHECK gy_status gy_flow_ranks_run(gy_vertex *vertex);
/** Encode the report of a vertex that ended in order. */
void gy_report_write(const gy_vertex *vertex, const gy_section_sum *sums, bool is_inline,
                     gy_worker_answer *answer);
/** Remove a folder and everything in it. GY_IO */
GY_MUST_CHECK gy_status gy_flow_folder_remove(const char *path);

#endif
