/**
 * Room doctor: reads flight recorders and explains what is wrong. The diagnosis is a pure
 * function of a flight record; other files find launches, read and print.
 */
#ifndef GY_DOCTOR_DOCTOR_PRIV_H
#define GY_DOCTOR_DOCTOR_PRIV_H

#include "base/base.h"
#include "transport/recorder.h"

#include <sys/types.h>

/* ---- find.c: launches of this user on this host ---- */

enum { GY_RUNS_MAX = 64, GY_RUN_PROCESSES = 64 };

typedef struct gy_found_run {
    dev_t device;
    ino_t inode;                       /* of the segment */
    char path[48];                     /* a path that opens it, "/proc/12/fd/3" */
    pid_t processes[GY_RUN_PROCESSES]; /* processes that have it open */
    int process_count;
} gy_found_run;

/** The launches with a process that this process may inspect, at most GY_RUNS_MAX. GY_OK, or an
 * error while reading /proc. */
GY_MUST_CHECK gy_status gy_doctor_runs_find(gy_found_run *runs, int *count);
/** Does `process` belong to the launch: does it have the segment open, or is it an ancestor of
 * a process that does? */
bool gy_doctor_run_has(const gy_found_run *run, pid_t process);

/* ---- diagnose.c ---- */

/** What the doctor knows about a rank; the flight owns the records. */
typedef struct gy_patient {
    const gy_flight_rank *rank;
    const gy_flight_record *call; /* the call that it is in or in which it failed; NULL: none */
    const gy_flight_record *last; /* the call that it entered last */
    int in_flight;                /* calls that have begun and not ended */
    bool is_stopped, is_gone;
    int waiters;    /* number of ranks that wait for it */
    int elsewhere;  /* a rank on another host that it waits for; -1: none */
    int late_count; /* collectives that it and other ranks entered */
    int late_last;  /* how many of these it entered last */
    double late_mean_s, late_max_s;
} gy_patient;

typedef enum gy_finding_kind {
    GY_FINDING_STOPPED,
    GY_FINDING_GONE,
    GY_FINDING_MISMATCH,
    GY_FINDING_CIRCLE,
    GY_FINDING_MISSING,
    GY_FINDING_ELSEWHERE,
    GY_FINDING_LATE,
    GY_FINDING_KINDS
} gy_finding_kind;

enum { GY_FINDINGS_MAX = 16, GY_FINDING_RANKS = 8, GY_FINDING_TEXT = 768 };

typedef struct gy_finding {
    gy_finding_kind kind;
    int ranks[GY_FINDING_RANKS]; /* the ranks that the finding is about */
    int rank_count;
    char text[GY_FINDING_TEXT]; /* one line */
} gy_finding;

typedef struct gy_diagnosis {
    const gy_flight *flight;
    gy_patient *patients; /* (flight->head.ranks) */
    /* (ranks, ranks) 1: the row's rank waits for the column's rank, counted from 0 here */
    uint8_t *waits;
    gy_finding findings[GY_FINDINGS_MAX];
    int finding_count;
} gy_diagnosis;

/** Diagnose a flight record, which is borrowed. NULL: out of memory. */
gy_diagnosis *gy_doctor_diagnose(const gy_flight *flight);
void gy_diagnosis_free(gy_diagnosis *diagnosis);
/** Seconds from `ticks` until the flight was read; 0 when unknown. */
double gy_doctor_flight_ago(const gy_flight *flight, uint64_t ticks);
bool gy_doctor_waits(const gy_diagnosis *diagnosis, int from, int to);

/* late.c */
/** Find the ranks that enter collectives late, and fill in their patients. False: out of
 * memory. */
bool gy_doctor_diagnose_lateness(gy_diagnosis *diagnosis);

/* findings.c */
/** Write the findings as text, causes first. */
void gy_doctor_diagnose_findings(gy_diagnosis *diagnosis);

/* ---- print.c, json.c ---- */

const char *gy_finding_name(gy_finding_kind kind);
/** "is in collective 3, ... since 2.1 s", "is in no call ..." */
const char *gy_patient_text(const gy_diagnosis *diagnosis, int rank, char out[512]);
/** Seconds of the wall that are none of the others. */
double gy_doctor_other_s(const gy_flight_account *account);
void gy_diagnosis_print(const gy_diagnosis *diagnosis, gy_text *out);
void gy_diagnosis_json(const gy_diagnosis *diagnosis, gy_text *out);

#endif
