/**
 * Records of a job's journal, as they lie in the file (this machine's byte order).
 *
 *     | size of the body | kind | checksum over kind, size, body | body | next record ...
 *
 * BEGIN is the first. The first record that is cut or whose checksum is wrong ends the journal:
 * what follows is not looked at. COMMIT, RAISE, LEARNT and HOST are not waited for
 * (HOST is when there are exact tasks); BEGIN, RESUME,
 * GROWN, SAVED and END are.
 */
#ifndef GY_SCHED_STATE_RECORDS_H
#define GY_SCHED_STATE_RECORDS_H

#include "sched/job.h"

#include <assert.h>

enum { RECORD_VERSION = 4 };

typedef enum record_kind {
    RECORD_BEGIN = 1, /* record_begin: a new job */
    RECORD_RESUME,    /* record_begin: another manager goes on */
    RECORD_COMMIT,    /* record_commit, report */
    RECORD_RAISE,     /* record_raise, some: their commits no longer stand */
    RECORD_GROWN,     /* record_grown, tasks, edges, detail */
    RECORD_SAVED,     /* nothing: final data are safe */
    RECORD_END,       /* record_end, reason; a job that failed may go on after it */
    RECORD_LEARNT,    /* bytes of room flow: what a failure taught it */
    RECORD_HOST,      /* record_host, address and name, each with its 0 */
    RECORD_KINDS
} record_kind;

typedef struct record_head {
    uint32_t size_bytes; /* of the body */
    uint32_t kind;
    uint64_t checksum;
} record_head;

typedef struct record_begin {
    char magic[8]; /* "gyre job" */
    uint32_t version, generation;
    gy_key job; /* of the growth that it began with */
} record_begin;

typedef struct record_commit {
    uint32_t task, epoch, attempt;
    uint16_t host; /* that holds its outputs; UINT16_MAX: none does */
    uint8_t held;  /* how many bytes, as gy_manager_held_code says it */
    uint8_t zero;
    gy_key key, content;
} record_commit;

typedef struct record_raise {
    uint32_t task, epoch;
} record_raise;

typedef struct record_grown {
    uint32_t stage, task_count;
    uint32_t asked_tasks, zero; /* tasks that the stage had when it was asked */
    uint64_t edge_count, detail_bytes;
} record_grown;

/** The number stands for this id from here on, or has another address. */
typedef struct record_host {
    uint32_t host, zero;
    gy_key id;
} record_host;

typedef struct record_end {
    int32_t status;
    uint32_t zero;
} record_end;

static_assert(sizeof(record_head) == 16 && sizeof(record_begin) == 32 &&
                  sizeof(record_commit) == 48 && sizeof(record_raise) == 8 &&
                  sizeof(record_grown) == 32 && sizeof(record_host) == 24 &&
                  sizeof(record_end) == 8 && sizeof(gy_sched_task) == 48 &&
                  sizeof(gy_edge) == 8,
              "records have no holes");

#endif
