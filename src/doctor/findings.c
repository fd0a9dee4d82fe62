/* Writes the findings as text, causes first. */
#include "doctor/doctor_priv.h"

#include "coll/coll.h"

#include <stdio.h>
#include <string.h>

static const double patience_s = 0.5; /* in a live launch a shorter wait is no finding */
/* share of the collectives that a late rank enters last, */
static const double late_share = 0.75;
static const double late_least_s = 1e-4; /* and its mean delay */
enum { LATE_LEAST = 8 };

static const char *const kind_names[] = {"stopped", "gone",      "mismatch", "circle",
                                         "missing", "elsewhere", "late"};
_Static_assert(GY_COUNT(kind_names) == GY_FINDING_KINDS, "each kind has a name");

const char *gy_finding_name(gy_finding_kind kind)
{
    return kind_names[kind];
}

static gy_finding *add(gy_diagnosis *diagnosis, gy_finding_kind kind, int rank)
{
    static gy_finding nowhere; /* a dummy for findings beyond the limit */
    bool is_full = diagnosis->finding_count == GY_FINDINGS_MAX;
    gy_finding *made = is_full ? &nowhere : &diagnosis->findings[diagnosis->finding_count++];
    *made = (gy_finding){.kind = kind, .ranks = {rank}, .rank_count = 1};
    return made;
}

static void name_too(gy_finding *finding, int rank)
{
    if (finding->rank_count < GY_FINDING_RANKS) {
        finding->ranks[finding->rank_count++] = rank;
    }
}

/* How long a rank has been in its call, in seconds; a failed call counts as long enough. */
static double patience_of(const gy_diagnosis *diagnosis, int rank)
{
    const gy_flight_record *call = diagnosis->patients[rank].call;
    if (call == NULL) {
        return 0;
    }
    return call->state == GY_RECORD_FAILED
               ? 1e9
               : gy_doctor_flight_ago(diagnosis->flight, call->started);
}

static bool is_waiting_long(const gy_diagnosis *diagnosis, int rank)
{
    return patience_of(diagnosis, rank) >= patience_s;
}

static bool is_awaited_long(const gy_diagnosis *diagnosis, int rank)
{
    for (int other = 0; other < diagnosis->flight->head.ranks; other++) {
        if (gy_doctor_waits(diagnosis, other, rank) && is_waiting_long(diagnosis, other)) {
            return true;
        }
    }
    return false;
}

/* "; ranks 0, 1 and 2 wait for it" */
static void add_waiters(const gy_diagnosis *diagnosis, int rank, gy_text *text)
{
    enum { NAMED = 8 };
    int count = diagnosis->patients[rank].waiters, told = 0;
    if (count == 0) {
        return;
    }
    gy_text_add(text, "; rank%s ", count > 1 ? "s" : "");
    for (int other = 0; other < diagnosis->flight->head.ranks && told < NAMED; other++) {
        if (gy_doctor_waits(diagnosis, other, rank)) {
            gy_text_add(text, "%s%d", told > 0 ? ", " : "",
                        diagnosis->patients[other].rank->rank);
            told++;
        }
    }
    if (count > told) {
        gy_text_add(text, " and %d more", count - told);
    }
    gy_text_add(text, " %s for it", count > 1 ? "wait" : "waits");
}

static void find_stopped_and_gone(gy_diagnosis *diagnosis)
{
    for (int rank = 0; rank < diagnosis->flight->head.ranks; rank++) {
        const gy_patient *patient = &diagnosis->patients[rank];
        gy_text text = {.data = NULL};
        if (!patient->is_stopped && !patient->is_gone) {
            continue;
        }
        gy_text_add(&text, "rank %d (process %d) %s", patient->rank->rank,
                    patient->rank->process,
                    patient->is_gone ? "is lost: it ended without leaving the launch"
                                     : "is stopped, by a signal or a debugger");
        add_waiters(diagnosis, rank, &text);
        gy_finding *finding =
            add(diagnosis, patient->is_gone ? GY_FINDING_GONE : GY_FINDING_STOPPED,
                patient->rank->rank);
        gy_text_move(&text, finding->text, sizeof(finding->text));
    }
}

static bool is_described(const gy_flight_record *record)
{
    return record->operation < GY_OPERATION_COUNT && record->started != 0;
}

static bool agree(const gy_flight_record *a, const gy_flight_record *b)
{
    return a->operation == b->operation && a->dtype == b->dtype &&
           a->reduction == b->reduction && a->count == b->count && a->root == b->root &&
           a->detail == b->detail;
}

static bool is_other_call(const gy_flight_record *a, const gy_flight_record *b)
{
    return a->comm_slot == b->comm_slot && a->leader == b->leader && a->number == b->number &&
           is_described(a) && is_described(b) && !agree(a, b);
}

/* A record of `rank` with the same number that differs from this one. */
static const gy_flight_record *find_other_call(const gy_flight *flight, int rank,
                                               const gy_flight_record *call)
{
    for (uint32_t at = flight->ranks[rank].record_count; at > 0; at--) {
        const gy_flight_record *record = &flight->records[rank][at - 1];
        if (is_other_call(record, call)) {
            return record;
        }
    }
    return NULL;
}

static void find_mismatches(gy_diagnosis *diagnosis)
{
    const gy_flight *flight = diagnosis->flight;
    for (int rank = 0; rank < flight->head.ranks; rank++) {
        const gy_flight_record *mine = diagnosis->patients[rank].call;
        for (int other = 0; mine != NULL && other < flight->head.ranks; other++) {
            const gy_flight_record *theirs = find_other_call(flight, other, mine);
            bool is_told =
                theirs != NULL && other < rank && diagnosis->patients[other].call == theirs;
            if (theirs == NULL || is_told || other == rank) {
                continue;
            }
            char texts[2][GY_RECORD_TEXT];
            gy_finding *finding = add(diagnosis, GY_FINDING_MISMATCH, flight->ranks[rank].rank);
            name_too(finding, flight->ranks[other].rank);
            snprintf(finding->text, sizeof(finding->text),
                     "ranks disagree: rank %d called %s, rank %d called %s",
                     flight->ranks[rank].rank, gy_record_text(mine, texts[0]),
                     flight->ranks[other].rank, gy_record_text(theirs, texts[1]));
            break;
        }
    }
}

/* Follow the first wait edge from rank to rank. Returns the steps until `rank` comes again; 0:
 * it does not. */
static int next_of(const gy_diagnosis *diagnosis, int rank)
{
    for (int other = 0; other < diagnosis->flight->head.ranks; other++) {
        if (gy_doctor_waits(diagnosis, rank, other) &&
            diagnosis->patients[other].call != NULL && !diagnosis->patients[other].is_gone &&
            !diagnosis->patients[other].is_stopped) {
            return other;
        }
    }
    return -1;
}

static void tell_circle(gy_diagnosis *diagnosis, int first)
{
    gy_text text = {.data = NULL};
    gy_finding *finding = NULL;
    int rank = first;
    do {
        const gy_patient *patient = &diagnosis->patients[rank];
        char what[GY_RECORD_TEXT];
        if (finding == NULL) {
            finding = add(diagnosis, GY_FINDING_CIRCLE, patient->rank->rank);
            gy_text_add(&text, "ranks wait for each other: ");
        } else {
            name_too(finding, patient->rank->rank);
        }
        int next = next_of(diagnosis, rank);
        gy_text_add(&text, "%srank %d, in %s, for rank %d", rank != first ? "; " : "",
                    patient->rank->rank, gy_record_text(patient->call, what),
                    diagnosis->patients[next].rank->rank);
        rank = next;
    } while (rank != first);
    gy_text_move(&text, finding->text, sizeof(finding->text));
}

/* Report each cycle once, at its lowest rank. */
static void find_circles(gy_diagnosis *diagnosis)
{
    int ranks = diagnosis->flight->head.ranks;
    for (int first = 0; first < ranks; first++) {
        int at = first, lowest = first;
        double least_s = patience_of(diagnosis, first);
        for (int steps = 0; steps < ranks; steps++) {
            at = next_of(diagnosis, at);
            if (at < 0 || at == first) {
                break;
            }
            lowest = GY_MIN(lowest, at);
            least_s = GY_MIN(least_s, patience_of(diagnosis, at));
        }
        if (at == first && lowest == first && next_of(diagnosis, first) >= 0 &&
            least_s >= patience_s) {
            tell_circle(diagnosis, first);
        }
    }
}

/* Find ranks that others wait for and that wait for no rank here: the end of a chain of
 * waits. */
static void find_missing(gy_diagnosis *diagnosis)
{
    int ranks = diagnosis->flight->head.ranks;
    for (int rank = 0; rank < ranks; rank++) {
        const gy_patient *patient = &diagnosis->patients[rank];
        bool is_told = patient->is_gone || patient->is_stopped;
        bool is_waiting = patient->elsewhere >= 0;
        for (int other = 0; other < ranks; other++) {
            is_waiting = is_waiting || gy_doctor_waits(diagnosis, rank, other);
        }
        if (is_told || is_waiting || !is_awaited_long(diagnosis, rank)) {
            continue;
        }
        char what[512];
        gy_text text = {.data = NULL};
        gy_text_add(&text, "rank %d %s", patient->rank->rank,
                    gy_patient_text(diagnosis, rank, what));
        add_waiters(diagnosis, rank, &text);
        gy_finding *finding = add(diagnosis, GY_FINDING_MISSING, patient->rank->rank);
        gy_text_move(&text, finding->text, sizeof(finding->text));
    }
}

static void find_elsewhere(gy_diagnosis *diagnosis)
{
    for (int rank = 0; rank < diagnosis->flight->head.ranks; rank++) {
        const gy_patient *patient = &diagnosis->patients[rank];
        if (patient->elsewhere >= 0 && is_waiting_long(diagnosis, rank)) {
            gy_finding *finding = add(diagnosis, GY_FINDING_ELSEWHERE, patient->rank->rank);
            name_too(finding, patient->elsewhere);
            snprintf(
                finding->text, sizeof(finding->text),
                "rank %d waits for rank %d, which is on another host: run gyre doctor there",
                patient->rank->rank, patient->elsewhere);
        }
    }
}

static void find_late(gy_diagnosis *diagnosis)
{
    for (int rank = 0; rank < diagnosis->flight->head.ranks; rank++) {
        const gy_patient *patient = &diagnosis->patients[rank];
        if (patient->late_count >= LATE_LEAST && patient->late_mean_s >= late_least_s &&
            patient->late_last >= late_share * patient->late_count) {
            gy_finding *finding = add(diagnosis, GY_FINDING_LATE, patient->rank->rank);
            snprintf(finding->text, sizeof(finding->text),
                     "rank %d was the last to enter %d of %d collectives, %.3g ms late on "
                     "average and %.3g ms at most",
                     patient->rank->rank, patient->late_last, patient->late_count,
                     patient->late_mean_s * 1e3, patient->late_max_s * 1e3);
        }
    }
}

void gy_doctor_diagnose_findings(gy_diagnosis *diagnosis)
{
    find_stopped_and_gone(diagnosis);
    find_mismatches(diagnosis);
    find_circles(diagnosis);
    find_missing(diagnosis);
    find_elsewhere(diagnosis);
    find_late(diagnosis);
}
