/**
 * Bad records: which record a process worked on when it died, and which records are skipped.
 *
 * The *board* is shared memory that outlives the process. Before each record its id is stored
 * there, and a signal handler adds the signal. The handler also sends a datagram with a
 * backtrace; when the datagram is lost, only the backtrace is missing.
 *
 * @source lecture A, "MapReduce": "send UDP packet to master from signal handler"; Dean &
 * Ghemawat, OSDI 2004, 4.6
 */
#ifndef GY_FLOW_CHANNEL_FAULT_H
#define GY_FLOW_CHANNEL_FAULT_H

#include "base/text.h"
#include "sched/manager.h"

/** A record id: it names the same record in every attempt of its vertex. */
typedef struct gy_flow_record_id {
    uint32_t source; /* input number; or GY_PLACE_KEY: offset is the hash of a key */
    uint64_t offset;
} gy_flow_record_id;
#define GY_PLACE_KEY UINT32_MAX

/* ---- in the process ---- */

typedef struct gy_fault gy_fault;

/**
 * Catch SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT of vertices from now on, and open a socket
 * for datagrams to the listener in `folder` (gy_fault_listen; without one none are sent).
 *
 * @param folder of the job; NULL: no datagrams
 * @return GY_OK; GY_NOMEM; GY_STATE this process has one already
 * @threads the one that starts the others
 */
GY_MUST_CHECK gy_status gy_fault_open(const char *folder, gy_fault **fault);
/** Restore the previous signal handlers. NULL is fine. */
void gy_fault_close(gy_fault *fault);

/* ---- in the manager's process ---- */

/** The contents of a datagram. */
typedef struct gy_crash_report {
    gy_attempt id;
    uint32_t member;
    int32_t signal;
    gy_flow_record_id place;
    /* lines of "FILE+0xOFFSET", innermost first; after gy_fault_names: with function names */
    char backtrace[3072];
} gy_crash_report;

typedef struct gy_fault_context gy_fault_context;

/** Listen for datagrams in `folder`, which exists. GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_fault_listen(const char *folder, gy_fault_context **door);
/** Receive one datagram, if one waits; never blocks. False: none waits. @threads one at a time
 */
bool gy_fault_handle(gy_fault_context *door, gy_crash_report *crash_report);
/** Close the socket. NULL is fine. */
void gy_fault_context_free(gy_fault_context *door);
/** Append the lines of a backtrace with the names of functions, where their files have symbols.
 */
void gy_fault_names(const char *backtrace, gy_text *out);

/* ---- decisions ---- */

/** The suspect and bad records of a job. Pure: a value and functions. */
typedef struct gy_bad gy_bad;

/** @param records_max bad records that the job may have; < 0: any number. NULL: out of memory
 */
GY_MUST_CHECK gy_bad *gy_bad_new(int64_t records_max);
void gy_bad_free(gy_bad *bad);

/** A suspect or bad record. */
typedef struct gy_bad_record {
    uint32_t task, member;
    gy_flow_record_id place;
    const char *key; /* the first bytes, when the place is a key */
    int signal;
    bool is_timeout;       /* it took too long; there was no signal */
    const char *backtrace; /* lines; "" when no datagram arrived */
} gy_bad_record;

/** Appends a record's vertex and file ("map[3] /a/b"), or of a key the vertex alone. */
typedef void (*gy_bad_namer)(void *arg, const gy_bad_record *record, gy_text *out);
/** Let `namer` name records in messages and lists, in place of the numbers of task and input.
 */
void gy_bad_name_by(gy_bad *bad, gy_bad_namer namer, void *arg);
/** Take a datagram, whose backtrace will be in the list. It may come before or after
 * gy_bad_tell.
 */
void gy_bad_handle(gy_bad *bad, const gy_crash_report *crash_report);
/**
 * Classify the failure of an attempt.
 *
 * The first failure at a record makes it a suspect, the second a bad record. Neither counts
 * against the vertex (GY_CAUSE_NEW_BAD_RECORD), unless the vertex has more than
 * GY_BAD_SUSPECTS_MAX suspects by then: when it dies at another record each time, the vertex
 * itself is at fault.
 *
 * @param board (GY_BOARD_BYTES) as the attempt left it
 * @param cause of the failure otherwise; returned when the board names no record
 * @return GY_CAUSE_FATAL: too many bad records, or a mapped user's file shrank; gy_error_text
 * says which
 */
gy_cause gy_bad_tell(gy_bad *bad, gy_attempt id, uint32_t member, const void *board,
                     gy_cause cause);
enum { GY_BAD_SUSPECTS_MAX = 8 };
/** Whether the board contains a signal: then this vertex killed its process, and the other
 * vertices of that process did not. */
bool gy_bad_is_told(const void *board);
/** Append the record that the last gy_bad_tell named, encoded for gy_bad_learn of another
 * manager of this build; nothing when it named none. */
void gy_bad_write_last(const gy_bad *bad, gy_text *out);
/** Take what gy_bad_write_last wrote; the latest entry of a record counts. GY_FORMAT; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_bad_learn(gy_bad *bad, const void *data, size_t size_bytes);
/** (count) the records that attempts of a task's member skip, ascending; borrowed until the
 * next gy_bad_tell. */
const gy_flow_record_id *gy_bad_of(const gy_bad *bad, uint32_t task, uint32_t member,
                                   size_t *count);
/** How many records are bad, of all tasks. */
int64_t gy_bad_count(const gy_bad *bad);
/** Get the index-th bad record, in the order of the list; false: the list is shorter. */
bool gy_bad_get(const gy_bad *bad, int64_t index, gy_bad_record *record);
/** Describe the record that failed last, as in the list; *is_bad: it was the second failure.
 * False: no record failed so far. */
bool gy_bad_last(const gy_bad *bad, gy_text *out, bool *is_bad);
/** "SIGSEGV" or "took too long". */
void gy_bad_what(const gy_bad_record *record, gy_text *out);
/** Append a key for people, with bytes that are not printable as "\x0a". */
void gy_bad_key_text(const char *key, gy_text *out);
/** Append a line for each bad record: task, member, id, key, signal; its backtrace is indented.
 */
void gy_bad_list(const gy_bad *bad, gy_text *out);

#endif
