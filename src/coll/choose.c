/* Chooses how a call runs: the algorithm that the communicator's site picks, and the sizes into
 * which the vector is cut for it. */
#include "coll/coll_priv.h"

#include <stdio.h>
#include <string.h>

enum {
    /* Results bypass the cache when all vectors take more than this. */
    STREAM_BYTES = 20 * 1024 * 1024,
    /* The size that is assumed where only some ranks know the counts. */
    UNKNOWN_BYTES = 1 << 20
};

bool gy_coll_is_usual(const gy_algorithm *row)
{
    GY_ASSERT(row != NULL && row->name != NULL);
    static const char *const on_host[] = {"claimed", "direct", "exchange", "staged"};
    for (size_t i = 0; i < GY_COUNT(on_host); i++) {
        if (strcmp(row->name, on_host[i]) == 0) {
            return true;
        }
    }
    return strcmp(row->name, gy_site_message_name(row->operation, 0)) == 0 ||
           strcmp(row->name, gy_site_message_name(row->operation, GY_LEG_BYTES)) == 0;
}

/* Returns the elements of the longest part of a vector variant; -1: some rank does not know it,
 * or the call has no parts. */
static int64_t longest_part(const gy_comm *comm, const gy_coll_call *call, int64_t known)
{
    GY_ASSERT(known >= -1);
    if (!call->is_vector) {
        return -1;
    }
    return gy_parts_are_known(call) ? gy_parts_longest(comm, call) : known;
}

/* Returns the bytes of the whole vector; the result is the same on all ranks. */
static int64_t vector_bytes(const gy_comm *comm, const gy_coll_call *call, int64_t longest)
{
    int64_t element = (int64_t)gy_call_element_bytes(call);
    int64_t parts = gy_call_has_parts(call) ? comm->size : 1;
    int64_t count = call->is_vector ? longest : (int64_t)call->count;
    GY_ASSERT(element > 0 && parts > 0);
    GY_ASSERT(count <= INT64_MAX / element / parts);
    return count < 0 ? UNKNOWN_BYTES : count * element * parts;
}

/* Describes the call for the site. `longest` has the elements of the longest part, or -1. */
static gy_need_of need_of(const gy_comm *comm, const gy_coll_call *call, bool is_registered,
                          int64_t longest)
{
    GY_ASSERT(longest >= -1);
    GY_ASSERT((unsigned)call->operation < GY_OPERATION_COUNT);
    bool is_half = gy_call_reduces(call) && call->user == NULL &&
                   (call->dtype == GY_F16 || call->dtype == GY_BF16);
    return (gy_need_of){.operation = call->operation,
                        .order = gy_call_order(call),
                        .type = is_half ? GY_TYPE_HALF : GY_TYPE_PLAIN,
                        .memory = comm->shared == NULL ? GY_MEMORY_MESSAGES
                                  : is_registered      ? GY_MEMORY_REGISTERED
                                                       : GY_MEMORY_PRIVATE,
                        .is_known = !call->is_vector || gy_parts_are_known(call),
                        .is_longest_known = longest >= 0,
                        .fits_library = gy_library_fits(comm, call),
                        .bytes = vector_bytes(comm, call, longest)};
}

/* Logs the choice once for each power of two of the size. */
static void log_choice(gy_site *site, const gy_need_of *need, const gy_pick *pick)
{
    GY_ASSERT((unsigned)need->operation < GY_OPERATION_COUNT && need->bytes >= 0);
    GY_ASSERT(pick->row != NULL);
    uint64_t bit = UINT64_C(1) << (63 - __builtin_clzll((uint64_t)need->bytes | 1));
    char name[64], why[64], size[32];
    if (gy_log_is_on(GY_LOG_DEBUG) && (site->logged[need->operation] & bit) == 0) {
        site->logged[need->operation] |= bit;
        gy_debug("%s of %s over %d ranks takes %s (%s)", gy_operation_name(need->operation),
                 gy_text_bytes(size, (uint64_t)need->bytes), site->ranks,
                 gy_pick_name(pick, name), gy_pick_why(pick, why));
    }
}

/* Counts that only some ranks know move in one piece each; other vectors move in one leg.
 * GY_LIMIT: a plan cannot have so many chunks. */
static gy_status cut_vector(gy_comm *comm, const gy_coll_call *call, const gy_algorithm *row,
                            int64_t longest, gy_pieces *pieces)
{
    GY_ASSERT(call->is_vector && longest >= -1);
    int64_t element = (int64_t)gy_call_element_bytes(call), chunk = 0;
    GY_TRY(gy_site_chunk_bytes(&comm->site, row, &chunk));
    chunk = GY_MAX(chunk / element / gy_unit_of(element) * gy_unit_of(element),
                   gy_unit_of(element));
    int64_t chunks = longest >= 0 ? GY_MAX((longest + chunk - 1) / chunk, (int64_t)1) : 1;
    if (chunks > UINT16_MAX) {
        return GY_LIMIT;
    }
    GY_ASSERT(chunks >= 1);
    *pieces = (gy_pieces){.legs = 1, .leg = GY_MAX(longest, (int64_t)1), .chunks = (int)chunks};
    return GY_OK;
}

/* Picks one algorithm and cuts the vector for it. */
static gy_status choose(gy_coll *coll, int64_t longest, gy_coll_method *choice)
{
    GY_ASSERT(coll->comm->size > 1);
    gy_comm *comm = coll->comm;
    const gy_coll_call *call = &coll->call;
    int64_t element = (int64_t)gy_call_element_bytes(call), count = (int64_t)call->count;
    gy_need_of need = need_of(comm, call, coll->all_registered, longest);
    gy_pick pick;
    GY_TRY(gy_library_check(comm, call));
    GY_TRY(gy_site_pick(&comm->site, &need, &pick));
    if (pick.row == NULL) {
        return gy_fail(GY_UNSUPPORTED,
                       "%s: no algorithm between these ranks keeps the order that \"%s\" needs",
                       gy_operation_name(call->operation),
                       call->user != NULL ? call->user->name : "the call");
    }
    log_choice(&comm->site, &need, &pick);
    GY_ASSERT(pick.row->operation == call->operation);
    choice->algorithm = pick.row;
    memcpy(choice->parameter, pick.parameter, sizeof(choice->parameter));
    choice->is_streamed = false;
    if (gy_row_is_library(pick.row)) {
        gy_library_cut(comm, call, &choice->pieces);
        return GY_OK;
    }
    int64_t parts = gy_call_has_parts(call) ? comm->size : 1;
    int64_t vectors = call->in == call->out || parts > 1 ? 1 : 2;
    choice->is_streamed =
        (!call->is_vector || longest >= 0) && need.bytes * vectors * comm->size > STREAM_BYTES;
    return call->is_vector ? cut_vector(comm, call, pick.row, longest, &choice->pieces)
                           : gy_site_cut(&comm->site, &pick, count, element, &choice->pieces);
}

/* A choice depends on the signature and on what this function compares beside it. Vector counts
 * and user reductions are not in the signature, so such calls never come here. */
static bool is_like(const gy_coll_memo *memo, const gy_coll *coll)
{
    const gy_coll_call *call = &coll->call;
    GY_ASSERT(!call->is_vector && call->user == NULL);
    return memo->is_set && gy_coll_signatures_agree(&memo->signature, &coll->signature) &&
           memo->is_in_place == (call->in == call->out) &&
           memo->all_registered == coll->all_registered;
}

static gy_status choose_usual(gy_coll *coll, gy_coll_method *choice)
{
    gy_coll_memo *memo = &coll->comm->memo;
    if (is_like(memo, coll)) {
        *choice = memo->choice;
        return GY_OK;
    }
    GY_TRY(choose(coll, -1, choice));
    GY_ASSERT(choice->algorithm != NULL && choice->pieces.legs >= 1);
    *memo = (gy_coll_memo){.signature = coll->signature,
                           .is_set = true,
                           .is_in_place = coll->call.in == coll->call.out,
                           .all_registered = coll->all_registered,
                           .choice = *choice};
    return GY_OK;
}

gy_status gy_choose(gy_coll *coll, gy_coll_method *choice)
{
    const gy_coll_call *call = &coll->call;
    GY_ASSERT(call == &coll->call && coll->kind == GY_COLL_COLLECTIVE);
    if (!call->is_vector && call->user == NULL) {
        return choose_usual(coll, choice);
    }
    int64_t longest = longest_part(coll->comm, call, coll->longest);
    gy_status status = choose(coll, longest, choice);
    if (status == GY_LIMIT && call->is_vector && !gy_parts_are_known(call)) {
        /* The parts do not fit staging, so each moves in one piece, by messages. */
        coll->longest = -1;
        return choose(coll, -1, choice);
    }
    return status != GY_LIMIT || !call->is_vector
               ? status
               : gy_fail(GY_LIMIT, "%s: a part of %lld elements is too long for one call",
                         gy_operation_name(call->operation), (long long)longest);
}

gy_status gy_coll_choice(gy_comm *comm, const gy_coll_call *call, bool is_registered,
                         char out[GY_CHOICE_BYTES])
{
    GY_COMM_EXPECT(comm);
    GY_ASSERT(call != NULL && out != NULL);
    gy_pick pick = {.row = NULL};
    char name[64], why[64];
    GY_TRY(gy_call_check(comm, call));
    const gy_coll_call made = gy_average_is_wide(comm, call) ? gy_average_call(call) : *call;
    call = &made; /* what the ranks run */
    gy_mutex_lock(&comm->root->lock);
    if (comm->size == 1 || gy_call_is_tiny(comm, call)) {
        snprintf(out, GY_CHOICE_BYTES, "%s", comm->size == 1 ? "copy" : "slots");
        gy_mutex_unlock(&comm->root->lock);
        return GY_OK;
    }
    gy_need_of need = need_of(comm, call, is_registered, longest_part(comm, call, -1));
    gy_status status = gy_library_check(comm, call);
    status = status == GY_OK ? gy_site_pick(&comm->site, &need, &pick) : status;
    gy_mutex_unlock(&comm->root->lock);
    if (status == GY_OK) {
        snprintf(out, GY_CHOICE_BYTES, "%s (%s)", gy_pick_name(&pick, name),
                 gy_pick_why(&pick, why));
    }
    return status;
}
