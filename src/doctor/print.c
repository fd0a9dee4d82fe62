/* Prints a diagnosis as text. */
#include "doctor/doctor_priv.h"

#include "coll/coll.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *state_name(const gy_patient *patient)
{
    static const char *const stages[] = {"not joined", "joining", "runs", "has left", "gone"};
    return patient->is_gone      ? "gone"
           : patient->is_stopped ? "stopped"
                                 : stages[patient->rank->stage];
}

/* The name of the record's algorithm; "" when unknown here. */
static const char *algorithm_of(const gy_flight *flight, const gy_flight_record *record)
{
    if (record->algorithm == GY_RECORD_LIBRARY) {
        return "mpi";
    }
    bool is_known = record->algorithm > 0 && record->algorithm <= gy_algorithm_count &&
                    strcmp(flight->head.made_by, GYRE_VERSION) == 0;
    return is_known ? gy_algorithms[record->algorithm - 1].name : "";
}

static const char *verb_of(const gy_flight_record *call)
{
    switch ((gy_flight_record_state)call->state) {
    case GY_RECORD_STARTED:
        return "waits to enter";
    case GY_RECORD_MEETING:
        return "has entered";
    case GY_RECORD_RUNNING:
        return "is in";
    case GY_RECORD_FAILED:
        return "failed in";
    case GY_RECORD_NONE:
    case GY_RECORD_RESERVED:
    case GY_RECORD_ENDED:
    case GY_RECORD_STATES:
    default:
        return "was in";
    }
}

const char *gy_patient_text(const gy_diagnosis *diagnosis, int rank, char out[512])
{
    const gy_flight *flight = diagnosis->flight;
    const gy_patient *patient = &diagnosis->patients[rank];
    const gy_flight_record *call = patient->call;
    char what[GY_RECORD_TEXT];
    if (call != NULL) {
        const char *algorithm = algorithm_of(flight, call);
        snprintf(out, 512, "%s %s%s%s%s, called %.3g s ago", verb_of(call),
                 gy_record_text(call, what), algorithm[0] != '\0' ? " (" : "", algorithm,
                 algorithm[0] != '\0' ? ")" : "", gy_doctor_flight_ago(flight, call->started));
    } else if (patient->last != NULL) {
        snprintf(out, 512, "is in no call; its last was %s, entered %.3g s ago",
                 gy_record_text(patient->last, what),
                 gy_doctor_flight_ago(flight, patient->last->entered));
    } else {
        snprintf(out, 512, "%s",
                 patient->rank->stage == GY_FLIGHT_ABSENT ? "has not joined the launch"
                                                          : "has made no call");
    }
    return out;
}

static void print_head(const gy_flight_head *head, gy_text *out)
{
    char when[32] = "";
    time_t seconds = (time_t)(head->wall_ns / 1000000000);
    struct tm parts;
    if (localtime_r(&seconds, &parts) != NULL) {
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &parts);
    }
    gy_text_add(out, "%s on %s, %s: ", head->program[0] != '\0' ? head->program : "a run",
                head->host, when);
    if (head->ranks == head->size) {
        gy_text_add(out, "%d rank%s\n", head->ranks, head->ranks > 1 ? "s" : "");
    } else {
        gy_text_add(out,
                    "ranks %d to %d of %d; run gyre doctor on the other hosts for theirs\n",
                    head->first_rank, head->first_rank + head->ranks - 1, head->size);
    }
    if (head->cause[0] != '\0') {
        gy_text_add(out, "ended: %s\n", head->cause);
    }
    if (head->failure[0] != '\0') {
        gy_text_add(out, "failed: %s\n", head->failure);
    }
}

static void print_rank(const gy_diagnosis *diagnosis, int rank, gy_text *out)
{
    const gy_patient *patient = &diagnosis->patients[rank];
    char what[512];
    gy_text_add(out, "  rank %-4d process %-8d %-10s %s", patient->rank->rank,
                patient->rank->process, state_name(patient),
                gy_patient_text(diagnosis, rank, what));
    const char *before = "; waits for rank ";
    for (int other = 0, told = 0; other < diagnosis->flight->head.ranks && told < 8; other++) {
        if (gy_doctor_waits(diagnosis, rank, other)) {
            gy_text_add(out, "%s%d", before, diagnosis->patients[other].rank->rank);
            before = ", ";
            told++;
        }
    }
    if (patient->elsewhere >= 0) {
        gy_text_add(out, "%s%d", before, patient->elsewhere);
    }
    gy_text_add(out, "\n");
}

static void print_lateness(const gy_diagnosis *diagnosis, gy_text *out)
{
    bool is_begun = false;
    for (int rank = 0; rank < diagnosis->flight->head.ranks; rank++) {
        const gy_patient *patient = &diagnosis->patients[rank];
        if (patient->late_count > 0) {
            if (!is_begun) {
                gy_text_add(out, "late to enter     mean ms     max ms  last of collectives\n");
                is_begun = true;
            }
            gy_text_add(out, "  rank %-4d      %10.3f %10.3f  %4d of %d\n", patient->rank->rank,
                        patient->late_mean_s * 1e3, patient->late_max_s * 1e3,
                        patient->late_last, patient->late_count);
        }
    }
}

double gy_doctor_other_s(const gy_flight_account *a)
{
    const double known = (double)a->compute_ns + (double)a->bubble_ns + (double)a->transfer_ns +
                         (double)a->input_ns;
    return known < (double)a->wall_ns ? ((double)a->wall_ns - known) * 1e-9 : 0;
}

/* Of ranks that train: seconds up to the last step. */
static void print_accounts(const gy_diagnosis *diagnosis, gy_text *out)
{
    bool is_begun = false;
    for (int rank = 0; rank < diagnosis->flight->head.ranks; rank++) {
        const gy_flight_account *a = &diagnosis->patients[rank].rank->account;
        if (a->steps == 0) {
            continue;
        }
        if (!is_begun) {
            gy_text_add(out, "time in s          compute    bubble  transfer     input     "
                             "other      wall  bubble %%  steps\n");
            is_begun = true;
        }
        gy_text_add(out, "  rank %-4d      %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f  %8.1f  %llu\n",
                    diagnosis->patients[rank].rank->rank, (double)a->compute_ns * 1e-9,
                    (double)a->bubble_ns * 1e-9, (double)a->transfer_ns * 1e-9,
                    (double)a->input_ns * 1e-9, gy_doctor_other_s(a), (double)a->wall_ns * 1e-9,
                    a->wall_ns > 0 ? 100 * (double)a->bubble_ns / (double)a->wall_ns : 0,
                    (unsigned long long)a->steps);
    }
}

void gy_diagnosis_print(const gy_diagnosis *diagnosis, gy_text *out)
{
    print_head(&diagnosis->flight->head, out);
    for (int i = 0; i < diagnosis->finding_count; i++) {
        gy_text_add(out, "* %s\n", diagnosis->findings[i].text);
    }
    if (diagnosis->finding_count == 0) {
        gy_text_add(out, "* no rank waits for long\n");
    }
    for (int rank = 0; rank < diagnosis->flight->head.ranks; rank++) {
        print_rank(diagnosis, rank, out);
    }
    print_lateness(diagnosis, out);
    print_accounts(diagnosis, out);
}
