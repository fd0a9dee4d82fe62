/*
 * Which algorithm carries out a call: one small table, by operation, what the ranks share,
 * their number and the size. Figures were measured with bench/allreduce on two cores
 * (docs/decisions/004).
 */
#include "coll/coll_priv.h"

#include <string.h>

enum {
    STAGE_CHUNK_BYTES =
        64 * 1024, /* two slots and the vectors they stand for fit the second cache */
    EXCHANGE_BYTES = 128 * 1024,
    DIRECT_CHUNK_BYTES = 256 * 1024, /* so that others in flight get their turn */
    MESSAGE_CHUNK_BYTES = 1 << 20,
    LEG_BYTES = 16 * 1024 * 1024,   /* keeps a plan below some thousand steps */
    STREAM_BYTES = 20 * 1024 * 1024 /* what all vectors take when results go past the cache */
};

gy_status gy_choice_check_name(const char *name)
{
    if (name == NULL || strcmp(name, "slots") == 0) {
        return GY_OK;
    }
    gy_text names = {.data = NULL};
    gy_text_add(&names, "slots");
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        bool is_new = true;
        for (size_t before = 0; before < i; before++) {
            is_new = is_new && strcmp(gy_algorithms[before].name, gy_algorithms[i].name) != 0;
        }
        if (strcmp(gy_algorithms[i].name, name) == 0) {
            gy_text_free(&names);
            return GY_OK;
        }
        if (is_new) {
            gy_text_add(&names, ", %s", gy_algorithms[i].name);
        }
    }
    gy_status status = gy_fail(GY_ARG, "no collective algorithm is called \"%s\"; there are %s",
                               name, gy_text_get(&names));
    gy_text_free(&names);
    return status;
}

static const char *default_name(const gy_comm *comm, const gy_coll_call *call,
                                bool is_registered)
{
    gy_operation operation = call->operation;
    if (comm->shared == NULL || operation == GY_OPERATION_REDUCE ||
        operation == GY_OPERATION_BARRIER) {
        switch (operation) {
        case GY_OPERATION_ALLREDUCE:
            /* The tree has fewer rounds, the ring sends less. */
            return call->count * gy_call_element_bytes(call) < 64UL * 1024 ? "tree" : "ring";
        case GY_OPERATION_REDUCE_SCATTER:
        case GY_OPERATION_ALLGATHER:
            return "ring";
        case GY_OPERATION_BROADCAST:
        case GY_OPERATION_REDUCE:
            return "tree";
        case GY_OPERATION_BARRIER:
        case GY_OPERATION_GATHER:
        case GY_OPERATION_SCATTER:
        case GY_OPERATION_ALLTOALL:
        case GY_OPERATION_SCAN:
        case GY_OPERATION_EXCLUSIVE_SCAN:
        case GY_OPERATION_COUNT:
        default:
            return "dissemination";
        }
    }
    if (is_registered) {
        return "direct";
    }
    /* Two ranks: one meeting wins for small vectors, half the bytes between the cores for large
     * ones. */
    bool is_small = call->count * gy_call_element_bytes(call) <= EXCHANGE_BYTES;
    bool exchanges = operation == GY_OPERATION_ALLREDUCE && comm->size == 2 && is_small;
    return exchanges ? "exchange" : "staged";
}

static bool is_possible(const gy_comm *comm, const gy_coll_call *call, const gy_algorithm *row,
                        bool is_registered)
{
    bool is_reached = row->need == GY_NEED_MESSAGES ||
                      (comm->shared != NULL && (row->need == GY_NEED_STAGE || is_registered));
    return is_reached && (!gy_call_reduces(call) || row->order >= gy_call_order(call));
}

/* NULL: nothing that is possible here keeps the order. */
static const gy_algorithm *choose_algorithm(const gy_comm *comm, const gy_coll_call *call,
                                            bool is_registered)
{
    const gy_algorithm *row = NULL;
    if (comm->forced != NULL) {
        row = gy_algorithm_find(call->operation, comm->forced);
        row = row != NULL && is_possible(comm, call, row, is_registered) ? row : NULL;
    }
    if (row == NULL) {
        row = gy_algorithm_find(call->operation, default_name(comm, call, is_registered));
        GY_ASSERT(row != NULL);
        row = is_possible(comm, call, row, is_registered) ? row : NULL;
    }
    for (size_t i = 0; i < gy_algorithm_count && row == NULL; i++) {
        const gy_algorithm *other = &gy_algorithms[i];
        bool fits = other->operation == call->operation &&
                    is_possible(comm, call, other, is_registered);
        row = fits ? other : NULL;
    }
    return row;
}

/* Staging slots that an algorithm uses here: what a plan of some chunks takes. */
static gy_status find_stage_slots(gy_comm *comm, const gy_algorithm *row, int32_t *slots)
{
    int32_t *known = &comm->stage_slots[row - gy_algorithms];
    if (*known == 0) {
        gy_plan_request request = {
            .operation = row->operation, .ranks = comm->size, .chunks = 8};
        gy_steps steps;
        gy_steps_init(&steps);
        for (int rank = 0; rank < comm->size; rank++) { /* only a root stages a broadcast */
            gy_status status = gy_plan_rank(row, &request, rank, &steps.sink);
            if (status != GY_OK) {
                gy_steps_free(&steps);
                return status;
            }
            steps.count = 0;
        }
        *known = GY_MAX(steps.stage_slots, 1);
        gy_steps_free(&steps);
    }
    *slots = *known;
    return GY_OK;
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

gy_status gy_choose(gy_comm *comm, const gy_coll_call *call, bool is_registered,
                    gy_choice *choice)
{
    const gy_algorithm *row = choose_algorithm(comm, call, is_registered);
    if (row == NULL) {
        return gy_fail(GY_UNSUPPORTED,
                       "%s: no algorithm between these ranks keeps the order that \"%s\" needs",
                       gy_operation_name(call->operation), call->user->name);
    }
    int64_t element = (int64_t)gy_call_element_bytes(call), count = (int64_t)call->count;
    int64_t unit = gy_unit_of(element), ranks = comm->size;
    int64_t chunk_bytes =
        row->need == GY_NEED_DIRECT ? DIRECT_CHUNK_BYTES : MESSAGE_CHUNK_BYTES;
    if (row->need == GY_NEED_STAGE) {
        int32_t slots = 1;
        GY_TRY(find_stage_slots(comm, row, &slots));
        int64_t room = (int64_t)comm->region_bytes / slots / GY_CACHE_LINE * GY_CACHE_LINE;
        chunk_bytes = GY_MIN((int64_t)STAGE_CHUNK_BYTES, room);
    }
    /* A chunk here is what one block holds; `spread` blocks stand side by side in the counted
     * vector. */
    bool is_by_part = row->operation == GY_OPERATION_ALLGATHER ||
                      row->operation == GY_OPERATION_REDUCE_SCATTER;
    int64_t spread = row->cut != GY_CUT_CHUNKS && !is_by_part ? ranks : 1;
    int64_t leg_limit =
        GY_MAX((int64_t)LEG_BYTES / (is_by_part ? ranks : 1) / element, 2 * unit);
    choice->legs = GY_MAX(divide_up(count, leg_limit), (int64_t)1);
    choice->leg = divide_up(divide_up(count, choice->legs), unit) * unit;
    choice->legs = GY_MAX(divide_up(count, GY_MAX(choice->leg, (int64_t)1)), (int64_t)1);
    int64_t chunk = chunk_bytes / element;
    int64_t leg = GY_MIN(choice->leg, count);
    choice->chunks = (int)GY_MAX(divide_up(leg, chunk * spread), (int64_t)1);
    GY_ASSERT(choice->chunks <= UINT16_MAX);
    choice->algorithm = row;
    int64_t vectors = call->in == call->out || is_by_part ? 1 : 2;
    int64_t parts = is_by_part ? ranks : 1;
    choice->is_streamed = count * element * parts * vectors * ranks > STREAM_BYTES;
    return GY_OK;
}

const char *gy_coll_choice(const gy_comm *comm, const gy_coll_call *call, bool is_registered)
{
    if (gy_call_is_tiny(comm, call)) {
        return "slots";
    }
    const gy_algorithm *row = choose_algorithm(comm, call, is_registered);
    return row != NULL ? row->name : "none";
}
