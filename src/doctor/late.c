/* Finds ranks that enter late by comparing the entry times of each collective. */
#include "doctor/doctor_priv.h"

#include <stdlib.h>

typedef struct entry {
    const gy_flight_record *record;
    int rank;
} entry;

static int compare(const void *a, const void *b)
{
    const gy_flight_record *left = ((const entry *)a)->record,
                           *right = ((const entry *)b)->record;
    const uint64_t keys[][2] = {{left->comm_slot, right->comm_slot},
                                {(uint64_t)left->leader, (uint64_t)right->leader},
                                {left->number, right->number},
                                {left->entered, right->entered}};
    for (size_t i = 0; i < GY_COUNT(keys); i++) {
        if (keys[i][0] != keys[i][1]) {
            return keys[i][0] < keys[i][1] ? -1 : 1;
        }
    }
    return 0;
}

static bool is_same(const entry *a, const entry *b)
{
    return a->record->comm_slot == b->record->comm_slot &&
           a->record->leader == b->record->leader && a->record->number == b->record->number;
}

/* Account for the entries of one collective, earliest first. */
static void add_collective(gy_diagnosis *diagnosis, const entry *entries, size_t count)
{
    for (size_t i = 0; i < count && count > 1; i++) {
        gy_patient *patient = &diagnosis->patients[entries[i].rank];
        double late = (double)(entries[i].record->entered - entries[0].record->entered) *
                      diagnosis->flight->head.tick_s;
        patient->late_count++;
        patient->late_last += i == count - 1;
        patient->late_mean_s += (late - patient->late_mean_s) / patient->late_count;
        patient->late_max_s = GY_MAX(patient->late_max_s, late);
    }
}

static bool is_entry(const gy_flight_record *record)
{
    return record->entered != 0 && record->operation != GY_RECORD_SEND &&
           record->operation != GY_RECORD_RECV;
}

bool gy_doctor_diagnose_lateness(gy_diagnosis *diagnosis)
{
    const gy_flight *flight = diagnosis->flight;
    size_t count = 0, room = 1;
    for (int rank = 0; rank < flight->head.ranks; rank++) {
        room += flight->ranks[rank].record_count;
    }
    entry *entries = gy_alloc_zero("doctor", room, sizeof(*entries));
    if (entries == NULL) {
        return false;
    }
    for (int rank = 0; rank < flight->head.ranks; rank++) {
        for (uint32_t at = 0; at < flight->ranks[rank].record_count; at++) {
            const gy_flight_record *record = &flight->records[rank][at];
            if (is_entry(record)) {
                entries[count++] = (entry){.record = record, .rank = rank};
            }
        }
    }
    qsort(entries, count, sizeof(*entries), compare);
    for (size_t first = 0, end = 0; first < count; first = end) {
        for (end = first + 1; end < count && is_same(&entries[first], &entries[end]); end++) {
        }
        add_collective(diagnosis, entries + first, end - first);
    }
    gy_free(entries);
    return true;
}
