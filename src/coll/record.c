/* Reads the flight recorders of peers, for the text of a failure. */
#include "coll/record_priv.h"

#include "tensor/tensor.h"

#include <stdio.h>

_Static_assert((int)GY_COMM_SLOTS <= (int)GY_RECORD_COMM_SLOTS,
               "records know all communicator slots");
_Static_assert((int)GY_USER == (int)GY_RECORD_USER, "signatures and records mean the same");
_Static_assert(GY_RANKS_MAX <= INT16_MAX, "records hold ranks in 16 bits");

void gy_record_comm_open(gy_comm *comm)
{
    GY_ASSERT(comm->comm_slot >= 0 && comm->comm_slot < GY_COMM_SLOTS);
    GY_ASSERT(gy_comm_has_rank(comm, comm->rank));
    const gy_flight_comm_slot entry = {.base = comm->ended,
                                       .leader = (int16_t)gy_comm_peer(comm, 0),
                                       .size = (int16_t)comm->size,
                                       .rank = (int16_t)comm->rank};
    comm->records = gy_transport_records(comm->transport, gy_transport_rank(comm->transport));
    if (comm->records != NULL) {
        gy_flight_comm_slot_put(comm->records, comm->comm_slot, &entry);
    }
}

void gy_record_comm_close(gy_comm *comm)
{
    GY_ASSERT(comm->comm_slot >= 0 && comm->comm_slot < GY_COMM_SLOTS);
    if (comm->records != NULL) {
        gy_flight_comm_slot_put(comm->records, comm->comm_slot,
                                &(gy_flight_comm_slot){.size = 0});
        comm->records = NULL;
    }
}

void gy_comm_record_account(gy_comm *comm, const gy_flight_account *account)
{
    GY_ASSERT(account != NULL);
    gy_mutex_lock(&comm->root->lock);
    if (comm->records != NULL) {
        gy_flight_account_put(comm->records, account);
    }
    gy_mutex_unlock(&comm->root->lock);
}

void gy_record_message(gy_coll *coll)
{
    const gy_comm *comm = coll->comm;
    GY_ASSERT(coll->kind == GY_COLL_SEND || coll->kind == GY_COLL_RECV);
    GY_ASSERT(coll->message.tag >= 0);
    if (comm->records != NULL) {
        bool is_send = coll->kind == GY_COLL_SEND;
        coll->record = (gy_flight_record){
            .number = (uint64_t)coll->message.tag,
            .count = coll->message.count,
            .operation = is_send ? GY_RECORD_SEND : GY_RECORD_RECV,
            .dtype = (uint8_t)coll->message.dtype,
            .comm_slot = (uint8_t)comm->comm_slot,
            .leader = (int16_t)gy_comm_peer(comm, 0),
            .root = (int16_t)(gy_message_is_any(coll) ? -1
                                                      : gy_comm_peer(comm, coll->message.peer)),
            .state = GY_RECORD_RUNNING,
            .waits_for = (int16_t)coll->peer,
            .started = gy_ticks()};
        coll->record.entered = coll->record.started;
        gy_flight_record_begin(comm->records, &coll->record);
    }
}

const char *gy_record_text(const gy_flight_record *record, char out[GY_RECORD_TEXT])
{
    GY_ASSERT(record != NULL && out != NULL);
    char group[40] = "", call[128];
    bool is_send = record->operation == GY_RECORD_SEND;
    if (record->comm_slot != 0) {
        snprintf(group, sizeof(group), " of group %d led by rank %d", record->comm_slot,
                 record->leader);
    }
    if (is_send || record->operation == GY_RECORD_RECV) {
        bool is_known = gy_dtype_is_element((gy_dtype)record->dtype);
        char rank[16] = "any rank";
        if (record->root >= 0) {
            snprintf(rank, sizeof(rank), "rank %d", record->root);
        }
        snprintf(out, GY_RECORD_TEXT, "%s of %llu %s %s %s%s, tag %llu",
                 is_send ? "send" : "receive", (unsigned long long)record->count,
                 is_known ? gy_dtype_name((gy_dtype)record->dtype) : "elements",
                 is_send ? "to" : "from", rank, group, (unsigned long long)record->number);
        return out;
    }
    const gy_coll_signature signature = {.count = record->count,
                                         .root = record->root,
                                         .operation = record->operation,
                                         .dtype = record->dtype,
                                         .reduction = record->reduction,
                                         .detail = record->detail};
    snprintf(out, GY_RECORD_TEXT, "collective %llu%s, %s", (unsigned long long)record->number,
             group, gy_coll_signature_text(&signature, call));
    return out;
}

gy_status gy_record_blame(const gy_coll *coll, gy_status status)
{
    const gy_transport *transport = coll->comm->transport;
    gy_flight_record_area *area =
        coll->peer >= 0 ? gy_transport_records(transport, coll->peer) : NULL;
    gy_flight_record record;
    char what[GY_RECORD_TEXT];
    GY_ASSERT(status < 0);
    GY_ASSERT(coll->peer < transport->size);
    if (status != GY_TIMEOUT || area == NULL) {
        return status;
    }
    if (!gy_flight_record_latest(area, &record)) {
        return gy_fail_within(status, "rank %d is in no call", coll->peer);
    }
    (void)gy_record_text(&record, what);
    return record.waits_for >= 0
               ? gy_fail_within(status, "rank %d is in %s and waits for rank %d", coll->peer,
                                what, record.waits_for)
               : gy_fail_within(status, "rank %d is in %s", coll->peer, what);
}
