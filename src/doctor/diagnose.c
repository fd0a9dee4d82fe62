/* Finds out what each rank does and which rank waits for which. */
#include "doctor/doctor_priv.h"

#include <string.h>

double gy_doctor_flight_ago(const gy_flight *flight, uint64_t ticks)
{
    return ticks == 0 || ticks > flight->head.now
               ? 0
               : (double)(flight->head.now - ticks) * flight->head.tick_s;
}

bool gy_doctor_waits(const gy_diagnosis *diagnosis, int from, int to)
{
    return diagnosis
               ->waits[(size_t)from * (size_t)diagnosis->flight->head.ranks + (size_t)to] != 0;
}

static bool is_message(const gy_flight_record *record)
{
    return record->operation == GY_RECORD_SEND || record->operation == GY_RECORD_RECV;
}

static bool is_open(const gy_flight_record *record)
{
    return record->state == GY_RECORD_STARTED || record->state == GY_RECORD_MEETING ||
           record->state == GY_RECORD_RUNNING;
}

static bool is_same_call(const gy_flight_record *a, const gy_flight_record *b)
{
    return a->number == b->number && a->comm_slot == b->comm_slot && a->leader == b->leader &&
           !is_message(a) && !is_message(b);
}

static void examine(const gy_flight *flight, int rank, gy_patient *patient)
{
    const gy_flight_rank *facts = &flight->ranks[rank];
    patient->rank = facts;
    patient->elsewhere = -1;
    char letter = (char)facts->process_state;
    patient->is_stopped = letter == 'T' || letter == 't';
    bool is_over = letter == '\0' || letter == 'Z' || letter == 'X';
    patient->is_gone =
        facts->stage == GY_FLIGHT_DEAD || (facts->stage == GY_FLIGHT_JOINED && is_over);
    /* The oldest call under way; if there is none, the first failed call after which no call
     * ended in order. */
    for (uint32_t at = 0; at < facts->record_count; at++) {
        const gy_flight_record *record = &flight->records[rank][at];
        if (is_open(record)) {
            patient->in_flight++;
            patient->call =
                patient->call == NULL || !is_open(patient->call) ? record : patient->call;
        } else if (record->state == GY_RECORD_FAILED && patient->call == NULL) {
            patient->call = record;
        } else if (record->state == GY_RECORD_ENDED && patient->call != NULL &&
                   !is_open(patient->call)) {
            patient->call = NULL;
        }
        patient->last = record->entered != 0 ? record : patient->last;
    }
}

/* Find the record of the same call among another rank's records. */
static const gy_flight_record *find_call(const gy_flight *flight, int rank,
                                         const gy_flight_record *call)
{
    for (uint32_t at = flight->ranks[rank].record_count; at > 0; at--) {
        const gy_flight_record *record = &flight->records[rank][at - 1];
        if (is_same_call(record, call)) {
            return record;
        }
    }
    return NULL;
}

/* Is the rank `other` a member of the communicator in which `rank` called? Both ranks identify
 * the communicator by its slot, first rank and first number. */
static bool is_member(const gy_flight *flight, int rank, int other,
                      const gy_flight_record *call)
{
    const gy_flight_comm_slot *mine = &flight->ranks[rank].comm_slots[call->comm_slot];
    const gy_flight_comm_slot *theirs = &flight->ranks[other].comm_slots[call->comm_slot];
    if (call->comm_slot == 0) {
        return true;
    }
    return mine->size > 0 && mine->size == theirs->size && mine->leader == theirs->leader &&
           mine->base == theirs->base && mine->leader == call->leader;
}

static void add_wait(gy_diagnosis *diagnosis, int from, int to)
{
    size_t ranks = (size_t)diagnosis->flight->head.ranks;
    uint8_t *cell = &diagnosis->waits[(size_t)from * ranks + (size_t)to];
    if (from != to && *cell == 0) {
        *cell = 1;
        diagnosis->patients[to].waiters++;
    }
}

static void add_wait_for(gy_diagnosis *diagnosis, int from, int world_rank)
{
    const gy_flight_head *head = &diagnosis->flight->head;
    int to = world_rank - head->first_rank;
    if (to >= 0 && to < head->ranks) {
        add_wait(diagnosis, from, to);
    } else if (world_rank >= 0) {
        diagnosis->patients[from].elsewhere = world_rank;
    }
}

/* A failed message or collective has the same wait edges as when it failed. */
static void add_waits_of(gy_diagnosis *diagnosis, int rank)
{
    const gy_flight *flight = diagnosis->flight;
    const gy_flight_record *call = diagnosis->patients[rank].call;
    if (call == NULL || is_message(call) || call->state == GY_RECORD_STARTED) {
        add_wait_for(diagnosis, rank, call == NULL ? -1 : call->waits_for);
        return;
    }
    bool is_anybody_missing = false;
    for (int other = 0; other < flight->head.ranks; other++) {
        const gy_flight_record *theirs = other != rank && is_member(flight, rank, other, call)
                                             ? find_call(flight, other, call)
                                             : call;
        if (theirs == NULL || theirs->entered == 0) {
            is_anybody_missing = true;
            add_wait(diagnosis, rank, other);
        }
    }
    if (!is_anybody_missing) {
        add_wait_for(diagnosis, rank, call->waits_for);
    }
}

gy_diagnosis *gy_doctor_diagnose(const gy_flight *flight)
{
    size_t ranks = (size_t)flight->head.ranks;
    gy_diagnosis *made = gy_alloc_zero("doctor", 1, sizeof(*made));
    if (made == NULL) {
        return NULL;
    }
    made->flight = flight;
    made->patients = gy_alloc_zero("doctor", ranks, sizeof(*made->patients));
    made->waits = gy_alloc_zero("doctor", ranks * ranks, 1);
    if (made->patients == NULL || made->waits == NULL) {
        gy_diagnosis_free(made);
        return NULL;
    }
    for (int rank = 0; rank < flight->head.ranks; rank++) {
        examine(flight, rank, &made->patients[rank]);
    }
    for (int rank = 0; rank < flight->head.ranks; rank++) {
        add_waits_of(made, rank);
    }
    if (!gy_doctor_diagnose_lateness(made)) {
        gy_diagnosis_free(made);
        return NULL;
    }
    gy_doctor_diagnose_findings(made);
    return made;
}

void gy_diagnosis_free(gy_diagnosis *diagnosis)
{
    if (diagnosis != NULL) {
        gy_free(diagnosis->patients);
        gy_free(diagnosis->waits);
        gy_free(diagnosis);
    }
}
