/** Inside room coll: what a rank writes into its flight recorder. The root's lock protects all
 * of it. */
#ifndef GY_COLL_RECORD_PRIV_H
#define GY_COLL_RECORD_PRIV_H

#include "coll/coll_priv.h"

/** Record that the rank joins the communicator, and that it leaves it. */
void gy_record_comm_open(gy_comm *comm);
void gy_record_comm_close(gy_comm *comm);

/** Begin a record for a number whose call is not known yet. */
static inline void gy_record_reserve(gy_coll *coll)
{
    GY_CHECK_DEEP(coll->stage == GY_COLL_RESERVED);
    GY_CHECK_DEEP(coll->number < coll->comm->next_number);
    const gy_comm *comm = coll->comm;
    if (comm->records != NULL) {
        coll->record = (gy_flight_record){.number = coll->number,
                                          .operation = GY_RECORD_OPEN,
                                          .comm_slot = (uint8_t)comm->comm_slot,
                                          .leader = (int16_t)gy_comm_peer(comm, 0),
                                          .root = -1,
                                          .state = GY_RECORD_RESERVED,
                                          .waits_for = -1};
        gy_flight_record_begin(comm->records, &coll->record);
    }
}

/** Copy the call's signature into the record. */
static inline void gy_record_describe(gy_coll *coll)
{
    const gy_coll_signature *signature = &coll->signature;
    GY_CHECK_DEEP(coll->kind == GY_COLL_COLLECTIVE);
    GY_CHECK_DEEP(signature->root >= 0 && signature->root < coll->comm->size);
    coll->record.number = coll->number;
    coll->record.count = signature->count;
    coll->record.operation = signature->operation;
    coll->record.dtype = signature->dtype;
    coll->record.reduction = signature->reduction;
    coll->record.root = (int16_t)signature->root;
    coll->record.detail = signature->detail ^ signature->forced;
}

static inline void gy_record_move(gy_coll *coll, gy_flight_record_state state)
{
    GY_CHECK_DEEP(coll->comm->records != NULL);
    GY_CHECK_DEEP(coll->peer >= -1 && coll->peer < coll->comm->transport->size);
    coll->record.state = (uint8_t)state;
    coll->record.waits_for = (int16_t)coll->peer;
    gy_flight_record_put(coll->comm->records, &coll->record);
}

/** The same, where no other field has changed. */
static inline void gy_record_move_only(gy_coll *coll, gy_flight_record_state state)
{
    GY_CHECK_DEEP(coll->comm->records != NULL);
    GY_CHECK_DEEP(coll->peer >= -1 && coll->peer < coll->comm->transport->size);
    coll->record.state = (uint8_t)state;
    coll->record.waits_for = (int16_t)coll->peer;
    gy_flight_record_put_state(coll->comm->records, &coll->record);
}

/** Record the start of a reserved call. */
static inline void gy_record_start(gy_coll *coll)
{
    GY_CHECK_DEEP(coll->stage == GY_COLL_STARTED);
    if (coll->comm->records != NULL) {
        gy_record_describe(coll);
        coll->record.started = gy_ticks();
        gy_record_move(coll, GY_RECORD_STARTED);
    }
}

/** Record the start of a message: its record has the tag instead of a number. */
void gy_record_message(gy_coll *coll);

/** Record a tiny call once it has entered or must wait before that. This reads the clock once.
 */
static inline void gy_record_tiny(gy_coll *coll, bool has_entered)
{
    GY_CHECK_DEEP(coll->stage == GY_COLL_ENTERED && coll->kind == GY_COLL_COLLECTIVE);
    const gy_comm *comm = coll->comm;
    if (comm->records != NULL) {
        gy_record_describe(coll);
        coll->record.comm_slot = (uint8_t)comm->comm_slot;
        coll->record.leader = (int16_t)gy_comm_peer(comm, 0);
        coll->record.algorithm = 0;
        coll->record.started = gy_ticks();
        coll->record.entered = has_entered ? coll->record.started : 0;
        coll->record.ended = 0;
        coll->record.state = has_entered ? GY_RECORD_MEETING : GY_RECORD_STARTED;
        coll->record.waits_for = (int16_t)coll->peer;
        gy_flight_record_begin(comm->records, &coll->record);
    }
}

static inline void gy_record_entered(gy_coll *coll)
{
    GY_CHECK_DEEP(coll->kind == GY_COLL_COLLECTIVE);
    if (coll->comm->records != NULL) {
        coll->record.entered = gy_ticks();
        gy_record_move(coll, GY_RECORD_MEETING);
    }
}

static inline void gy_record_runs(gy_coll *coll, const gy_algorithm *algorithm)
{
    GY_CHECK_DEEP(coll->stage == GY_COLL_RUNS);
    GY_CHECK_DEEP(gy_row_is_library(algorithm) ||
                  (size_t)(algorithm - gy_algorithms) < gy_algorithm_count);
    if (coll->comm->records != NULL) {
        coll->record.algorithm = gy_row_is_library(algorithm)
                                     ? (uint8_t)GY_RECORD_LIBRARY
                                     : (uint8_t)(algorithm - gy_algorithms + 1);
        gy_record_move(coll, GY_RECORD_RUNNING);
    }
}

/** Record the rank that the call waits for, if it has changed. */
static inline void gy_record_waits(gy_coll *coll)
{
    if (coll->comm->records != NULL && coll->record.waits_for != (int16_t)coll->peer) {
        gy_record_move_only(coll, (gy_flight_record_state)coll->record.state);
    }
}

/** Record the end; a failed call's record still has the rank that it waited for. */
static inline void gy_record_end(gy_coll *coll, gy_flight_record_state state)
{
    GY_CHECK_DEEP(state == GY_RECORD_ENDED || state == GY_RECORD_FAILED);
    if (coll->comm->records != NULL) {
        coll->record.ended = gy_ticks();
        gy_record_move(coll, state);
    }
}

/** Record the end of a tiny call, without a time. */
static inline void gy_record_tiny_end(gy_coll *coll)
{
    GY_CHECK_DEEP(coll->peer == -1);
    if (coll->comm->records != NULL) {
        gy_record_move_only(coll, GY_RECORD_ENDED);
    }
}

/** After a deadline: put what the rank that `coll` waits for does instead in front of the
 * recorded text, if that rank is on this host. Returns `status`. */
gy_status gy_record_blame(const gy_coll *coll, gy_status status);

#endif
