/**
 * Records that kill: who was at work when a process died, and what is skipped from then on.
 *
 * The truth is the *board*, shared memory that outlives the process: before each record its
 * place is stored there, and a signal handler adds the signal. The handler also sends a
 * datagram with a backtrace; when that is lost, nothing but the backtrace is.
 *
 * @source lecture A, "MapReduce": "send UDP packet to master from signal handler"; Dean &
 * Ghemawat, OSDI 2004, 4.6
 */
#ifndef GY_FLOW_CHANNEL_FAULT_H
#define GY_FLOW_CHANNEL_FAULT_H

#include "base/text.h"
#include "sched/manager.h"

/** A record: its number means the same in every attempt of its vertex. */
typedef struct gy_flow_record_id {
    uint32_t source; /* or GY_PLACE_KEY: offset is the hash of a key */
    uint64_t offset;
} gy_flow_record_id;
#define GY_PLACE_KEY UINT32_MAX

/* ---- in the process ---- */

typedef struct gy_fault gy_fault;

/**
 * Catch SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT of vertices from now on, and open the way
 * for datagrams to who listens in `folder` (gy_fault_listen; nobody: they are not sent).
 *
 * @param folder of the job; NULL: no datagrams
 * @return GY_OK; GY_NOMEM; GY_STATE there is one in this process already
 * @threads the one that starts the others
 */
GY_MUST_CHECK gy_status gy_fault_open(const char *folder, gy_fault **fault);
/** The handlers are again what they were. NULL is fine. */
void gy_fault_close(gy_fault *fault);

/* ---- in the manager's process ---- */

/** What a datagram says. */
typedef struct gy_crash_report {
    gy_attempt id;
    uint32_t member;
    int32_t signal;
    gy_flow_record_id place;
    char backtrace[3072]; /* lines of "FILE+0xOFFSET", innermost first; of gy_fault_names: with
                             names */
} gy_crash_report;

typedef struct gy_fault_context gy_fault_context;

/** Listen for datagrams in `folder`, which exists. GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_fault_listen(const char *folder, gy_fault_context **door);
/** One datagram, if one waits; never blocks. @threads one at a time */
bool gy_fault_handle(gy_fault_context *door, gy_crash_report *crash_report);
/** The socket goes. NULL is fine. */
void gy_fault_context_free(gy_fault_context *door);
/** The lines of a backtrace with the names of functions where their files have symbols. */
void gy_fault_names(const char *backtrace, gy_text *out);

/* ---- what is decided ---- */

/** Which records of a job were named, and which are skipped. Pure: a value and functions. */
typedef struct gy_bad gy_bad;

/** @param records_max bad records that the job may have; < 0: any number. NULL: out of memory
 */
GY_MUST_CHECK gy_bad *gy_bad_new(int64_t records_max);
void gy_bad_free(gy_bad *bad);

/** A record that was named. */
typedef struct gy_bad_record {
    uint32_t task, member;
    gy_flow_record_id place;
    const char *key; /* the first bytes, when the place is a key */
    int signal;
    bool is_timeout;       /* instead of the signal: it took too long */
    const char *backtrace; /* lines; "" when none came */
} gy_bad_record;

/** Says whose record it is, and of which file: "map[3] /a/b"; of a key the former alone. */
typedef void (*gy_bad_namer)(void *arg, const gy_bad_record *record, gy_text *out);
/** Name records so in messages and lists, not by the numbers of task and input. */
void gy_bad_name_by(gy_bad *bad, gy_bad_namer namer, void *arg);
/** A datagram: its backtrace will stand in the list. Order against gy_bad_tell does not matter.
 */
void gy_bad_handle(gy_bad *bad, const gy_crash_report *crash_report);
/**
 * An attempt failed: what to count it as.
 *
 * The first failure at a place makes it a suspect, the second a bad record; neither counts
 * against the vertex (GY_CAUSE_NEW_BAD_RECORD), unless it has more than GY_BAD_SUSPECTS_MAX
 * suspects by then: whoever dies somewhere else each time is ill itself.
 *
 * @param board (GY_BOARD_BYTES) as the attempt left it
 * @param cause as it would count otherwise; returned when the board names no record
 * @return GY_CAUSE_FATAL: too many bad records, or a mapped user's file shrank; gy_error_text
 * says which
 */
gy_cause gy_bad_tell(gy_bad *bad, gy_attempt id, uint32_t member, const void *board,
                     gy_cause cause);
enum { GY_BAD_SUSPECTS_MAX = 8 };
/** Does the board have a signal: did its process die of what this vertex did? The others of
 * that process, whatever they had come to, did not. */
bool gy_bad_is_told(const void *board);
/** Append the record that the last gy_bad_tell named, as gy_bad_learn of another manager of
 * this build takes it; nothing when it named none. */
void gy_bad_write_last(const gy_bad *bad, gy_text *out);
/** What gy_bad_write_last wrote: later words on a record count. GY_FORMAT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_bad_learn(gy_bad *bad, const void *data, size_t size_bytes);
/** (count) what attempts of a task's member skip, rising; borrowed until the next gy_bad_tell.
 */
const gy_flow_record_id *gy_bad_of(const gy_bad *bad, uint32_t task, uint32_t member,
                                   size_t *count);
/** How many records are bad, of all tasks. */
int64_t gy_bad_count(const gy_bad *bad);
/** The index-th bad record, in the order of the list; false: there are not so many. */
bool gy_bad_get(const gy_bad *bad, int64_t index, gy_bad_record *record);
/** What it was that failed last, as the list says it; whether that was its second time. False:
 * none was named so far. */
bool gy_bad_last(const gy_bad *bad, gy_text *out, bool *is_bad);
/** "SIGSEGV" or "took too long". */
void gy_bad_what(const gy_bad_record *record, gy_text *out);
/** A key for people: what is no plain letter as "\x0a". */
void gy_bad_key_text(const char *key, gy_text *out);
/** A line for each bad record: task, member, place, key, signal; its backtrace indented. */
void gy_bad_list(const gy_bad *bad, gy_text *out);

#endif
