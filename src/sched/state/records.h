/**
 * Records of a job's journal, as they lie in the file; records.def has their fields.
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

#include "base/record.h"
#include "sched/job.h"

#include <assert.h>

enum { RECORD_VERSION = 4 };

typedef enum record_kind {
    RECORD_BEGIN = 1, /* record_begin: a new job */
    RECORD_RESUME,    /* record_begin: another manager goes on */
    RECORD_COMMIT,    /* record_commit, report */
    RECORD_RAISE,     /* record_raise, several: their commits are invalid */
    RECORD_GROWN,     /* record_grown, tasks, edges, detail */
    RECORD_SAVED,     /* no body: final data are saved */
    RECORD_END,       /* record_end, reason; a failed job may continue after it */
    RECORD_LEARNT,    /* bytes of room flow: what it learnt from a failure */
    RECORD_HOST,      /* record_host, address and name, each NUL-terminated */
    RECORD_KINDS
} record_kind;

#define GY_RECORDS "sched/state/records.def"
#include "base/record.inc"

#define GY_RECORDS "sched/state/growth.def"
#define GY_RECORDS_OF_STRUCTS
#include "base/record.inc"

static_assert(sizeof(record_head_packed) == 16 && sizeof(record_begin_packed) == 32 &&
                  sizeof(record_commit_packed) == 48 && sizeof(record_raise_packed) == 8 &&
                  sizeof(record_grown_packed) == 32 && sizeof(record_host_packed) == 24 &&
                  sizeof(record_end_packed) == 8 && sizeof(gy_sched_task_packed) == 48 &&
                  sizeof(gy_edge_packed) == 8,
              "a record of another size needs another RECORD_VERSION");

#endif
