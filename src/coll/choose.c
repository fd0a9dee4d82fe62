/* How a call is carried out: the algorithm that the communicator's site picks, and how the
 * vector is cut for it. */
#include "coll/coll_priv.h"

#include <stdio.h>
#include <string.h>

enum {
    STREAM_BYTES = 20 * 1024 * 1024, /* what all vectors take when results go past the cache */
    UNKNOWN_BYTES = 1 << 20          /* taken for counts that only some ranks know */
};

bool gy_coll_is_usual(const gy_algorithm *row)
{
    static const char *const on_host[] = {"direct", "exchange", "staged"};
    for (size_t i = 0; i < GY_COUNT(on_host); i++) {
        if (strcmp(row->name, on_host[i]) == 0) {
            return true;
        }
    }
    return strcmp(row->name, gy_site_message_name(row->operation, 0)) == 0 ||
           strcmp(row->name, gy_site_message_name(row->operation, GY_LEG_BYTES)) == 0;
}

/* Bytes of the whole vector; alike on all ranks. */
static int64_t vector_bytes(const gy_comm *comm, const gy_coll_call *call)
{
    int64_t element = (int64_t)gy_call_element_bytes(call);
    int64_t parts = gy_call_has_parts(call) ? comm->size : 1;
    if (!call->is_varied) {
        return (int64_t)call->count * element * parts;
    }
    return gy_parts_are_known(call) ? gy_parts_longest(comm, call) * element * parts
                                    : UNKNOWN_BYTES;
}

static gy_need_of need_of(const gy_comm *comm, const gy_coll_call *call, bool is_registered)
{
    bool is_half = gy_call_reduces(call) && call->user == NULL &&
                   (call->dtype == GY_F16 || call->dtype == GY_BF16);
    return (gy_need_of){.operation = call->operation,
                        .order = gy_call_order(call),
                        .type = is_half ? GY_TYPE_HALF : GY_TYPE_PLAIN,
                        .memory = comm->shared == NULL ? GY_MEMORY_MESSAGES
                                  : is_registered      ? GY_MEMORY_REGISTERED
                                                       : GY_MEMORY_PRIVATE,
                        .is_known = !call->is_varied || gy_parts_are_known(call),
                        .fits_library = gy_library_fits(comm, call),
                        .bytes = vector_bytes(comm, call)};
}

/* Say once for each size what a call takes. */
static void tell(gy_site *site, const gy_need_of *need, const gy_pick *pick)
{
    uint64_t bit = UINT64_C(1) << (63 - __builtin_clzll((uint64_t)need->bytes | 1));
    char name[64], why[64], size[32];
    if (gy_log_is_on(GY_LOG_DEBUG) && (site->told[need->operation] & bit) == 0) {
        site->told[need->operation] |= bit;
        gy_debug("%s of %s over %d ranks takes %s (%s)", gy_operation_name(need->operation),
                 gy_text_bytes(size, (uint64_t)need->bytes), site->ranks,
                 gy_pick_name(pick, name), gy_pick_why(pick, why));
    }
}

/* Counts that only some know are moved in one piece each; others in one leg. */
static gy_status cut_varied(gy_comm *comm, const gy_coll_call *call, const gy_algorithm *row,
                            gy_pieces *pieces)
{
    int64_t element = (int64_t)gy_call_element_bytes(call), chunk = 0;
    bool is_known = gy_parts_are_known(call);
    int64_t longest = is_known ? gy_parts_longest(comm, call) : 1;
    GY_TRY(gy_site_chunk_bytes(&comm->site, row, &chunk));
    chunk = GY_MAX(chunk / element / gy_unit_of(element) * gy_unit_of(element),
                   gy_unit_of(element));
    int64_t chunks = is_known ? GY_MAX((longest + chunk - 1) / chunk, (int64_t)1) : 1;
    *pieces = (gy_pieces){.legs = 1, .leg = longest, .chunks = (int)chunks};
    return GY_OK;
}

gy_status gy_choose(gy_comm *comm, const gy_coll_call *call, bool is_registered,
                    gy_choice *choice)
{
    int64_t element = (int64_t)gy_call_element_bytes(call), count = (int64_t)call->count;
    gy_need_of need = need_of(comm, call, is_registered);
    gy_pick pick;
    GY_TRY(gy_library_check(comm, call));
    GY_TRY(gy_site_pick(&comm->site, &need, &pick));
    if (pick.row == NULL) {
        return gy_fail(GY_UNSUPPORTED,
                       "%s: no algorithm between these ranks keeps the order that \"%s\" needs",
                       gy_operation_name(call->operation), call->user->name);
    }
    tell(&comm->site, &need, &pick);
    choice->algorithm = pick.row;
    choice->is_streamed = false;
    memcpy(choice->parameter, pick.parameter, sizeof(choice->parameter));
    if (gy_row_is_library(pick.row)) {
        gy_library_cut(comm, call, &choice->pieces);
        return GY_OK;
    }
    if (call->is_varied) {
        return cut_varied(comm, call, pick.row, &choice->pieces);
    }
    GY_TRY(gy_site_cut(&comm->site, &pick, count, element, &choice->pieces));
    int64_t parts = gy_call_has_parts(call) ? comm->size : 1;
    int64_t vectors = call->in == call->out || parts > 1 ? 1 : 2;
    choice->is_streamed = count * element * parts * vectors * comm->size > STREAM_BYTES;
    return GY_OK;
}

gy_status gy_coll_choice(gy_comm *comm, const gy_coll_call *call, bool is_registered,
                         char out[GY_CHOICE_BYTES])
{
    gy_pick pick = {.row = NULL};
    char name[64], why[64];
    gy_mutex_lock(&comm->root->lock);
    if (comm->size == 1 || gy_call_is_tiny(comm, call)) {
        snprintf(out, GY_CHOICE_BYTES, "%s", comm->size == 1 ? "copy" : "slots");
        gy_mutex_unlock(&comm->root->lock);
        return GY_OK;
    }
    gy_need_of need = need_of(comm, call, is_registered);
    gy_status status = gy_library_check(comm, call);
    status = status == GY_OK ? gy_site_pick(&comm->site, &need, &pick) : status;
    gy_mutex_unlock(&comm->root->lock);
    if (status == GY_OK) {
        snprintf(out, GY_CHOICE_BYTES, "%s (%s)", gy_pick_name(&pick, name),
                 gy_pick_why(&pick, why));
    }
    return status;
}
