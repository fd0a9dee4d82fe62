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
    DOUBLING_BYTES = 64 * 1024,
    DIRECT_CHUNK_BYTES = 256 * 1024, /* so that others in flight get their turn */
    MESSAGE_CHUNK_BYTES = 1 << 20,
    LEG_BYTES = 16 * 1024 * 1024,   /* keeps a plan below some thousand steps */
    STREAM_BYTES = 20 * 1024 * 1024 /* what all vectors take when results go past the cache */
};

static gy_status no_such_name(const char *name)
{
    gy_text names = {.data = NULL};
    gy_text_add(&names, "slots");
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        bool is_new = true;
        for (size_t before = 0; before < i; before++) {
            is_new = is_new && strcmp(gy_algorithms[before].name, gy_algorithms[i].name) != 0;
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

gy_status gy_choice_check_name(const char *name)
{
    if (name == NULL || strcmp(name, "slots") == 0) {
        return GY_OK;
    }
    bool is_known = false;
    for (int operation = 0; operation < GY_OPERATION_COUNT; operation++) {
        const gy_algorithm *row = NULL;
        char parameter[GY_PLAN_PARAMETER];
        if (gy_algorithm_find((gy_operation)operation, name) == NULL) {
            continue;
        }
        is_known = true;
        GY_TRY(gy_algorithm_parse((gy_operation)operation, name, &row, parameter));
    }
    return is_known ? GY_OK : no_such_name(name);
}

/* What to try without shared memory, or where that has no algorithm. */
static const char *message_name(const gy_coll_call *call)
{
    switch (call->operation) {
    case GY_OPERATION_ALLREDUCE:
        /* Doubling has the fewest rounds, the ring sends less. */
        return call->count * gy_call_element_bytes(call) <= DOUBLING_BYTES ? "doubling"
                                                                           : "ring";
    case GY_OPERATION_REDUCE_SCATTER:
    case GY_OPERATION_ALLGATHER:
        return "ring";
    case GY_OPERATION_BROADCAST:
    case GY_OPERATION_REDUCE:
        return "tree";
    case GY_OPERATION_GATHER:
    case GY_OPERATION_SCATTER:
    case GY_OPERATION_ALLTOALL:
        return "flat";
    case GY_OPERATION_SCAN:
    case GY_OPERATION_EXCLUSIVE_SCAN:
        return "chain";
    case GY_OPERATION_BARRIER:
    case GY_OPERATION_COUNT:
    default:
        return "dissemination";
    }
}

bool gy_coll_is_usual(const gy_algorithm *row)
{
    static const char *const on_host[] = {"direct", "exchange", "staged"};
    for (size_t i = 0; i < GY_COUNT(on_host); i++) {
        if (strcmp(row->name, on_host[i]) == 0) {
            return true;
        }
    }
    const gy_coll_call tiny = {.operation = row->operation, .dtype = GY_U8};
    const gy_coll_call large = {
        .operation = row->operation, .dtype = GY_U8, .count = LEG_BYTES};
    return strcmp(row->name, message_name(&tiny)) == 0 ||
           strcmp(row->name, message_name(&large)) == 0;
}

static bool is_possible(const gy_comm *comm, const gy_coll_call *call, const gy_algorithm *row,
                        bool is_registered)
{
    bool is_reached = row->need == GY_NEED_MESSAGES ||
                      (comm->shared != NULL && (row->need == GY_NEED_STAGE || is_registered));
    bool is_known =
        !call->is_varied || gy_parts_are_known(call) || (row->limits & GY_LIMIT_KNOWN) == 0;
    return is_reached && is_known &&
           (!gy_call_reduces(call) || row->order >= gy_call_order(call));
}

/* NULL: nothing that is possible here keeps the order. */
static const gy_algorithm *choose_algorithm(const gy_comm *comm, const gy_coll_call *call,
                                            bool is_registered)
{
    /* Two ranks: one meeting wins for small vectors, half the bytes between the cores for large
     * ones. */
    bool is_small = call->count * gy_call_element_bytes(call) <= EXCHANGE_BYTES;
    bool exchanges = comm->size == 2 && is_small && !is_registered;
    const char *const wanted[] = {comm->forced, is_registered ? "direct" : NULL,
                                  exchanges ? "exchange" : NULL, "staged", message_name(call)};
    for (size_t i = 0; i < GY_COUNT(wanted); i++) {
        const gy_algorithm *row =
            wanted[i] == NULL ? NULL : gy_algorithm_find(call->operation, wanted[i]);
        if (row != NULL && is_possible(comm, call, row, is_registered)) {
            return row;
        }
    }
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        const gy_algorithm *row = &gy_algorithms[i];
        if (row->operation == call->operation && is_possible(comm, call, row, is_registered)) {
            return row;
        }
    }
    return NULL;
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

/* What follows the colon of a name that was forced, where it is that row's. */
static gy_status read_parameter(const gy_comm *comm, const gy_algorithm *row,
                                char parameter[GY_PLAN_PARAMETER])
{
    const gy_algorithm *named = NULL;
    parameter[0] = '\0';
    if (comm->forced == NULL || gy_algorithm_find(row->operation, comm->forced) != row) {
        return GY_OK;
    }
    return gy_algorithm_parse(row->operation, comm->forced, &named, parameter);
}

static gy_status find_chunk_bytes(gy_comm *comm, const gy_algorithm *row, int64_t *bytes)
{
    *bytes = row->need == GY_NEED_DIRECT ? DIRECT_CHUNK_BYTES : MESSAGE_CHUNK_BYTES;
    if (row->need == GY_NEED_STAGE) {
        int32_t slots = 1;
        GY_TRY(find_stage_slots(comm, row, &slots));
        int64_t room = (int64_t)comm->region_bytes / slots / GY_CACHE_LINE * GY_CACHE_LINE;
        *bytes = GY_MIN((int64_t)STAGE_CHUNK_BYTES, room);
    }
    return GY_OK;
}

/* Elements of a block's share of a leg: how often blocks stand side by side in what is counted.
 */
static int64_t spread_of(const gy_comm *comm, const gy_coll_call *call, const gy_choice *choice)
{
    const gy_algorithm *row = choice->algorithm;
    gy_plan_request request = {.operation = row->operation, .ranks = comm->size, .chunks = 1};
    memcpy(request.parameter, choice->parameter, sizeof(request.parameter));
    if (gy_call_has_parts(call)) {
        return 1;
    }
    return row->cut == GY_CUT_WINDOWS ? comm->size : gy_cut_parts(row->cut, &request);
}

/* Counts that only some know are moved in one piece each; others in one leg. */
static void cut_varied(const gy_comm *comm, const gy_coll_call *call, int64_t chunk,
                       gy_choice *choice)
{
    bool is_known = gy_parts_are_known(call);
    int64_t longest = is_known ? gy_parts_longest(comm, call) : 1;
    choice->legs = 1;
    choice->leg = longest;
    choice->chunks = (int)(is_known ? GY_MAX(divide_up(longest, chunk), (int64_t)1) : 1);
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
    int64_t unit = gy_unit_of(element), ranks = comm->size, chunk = 0;
    choice->algorithm = row;
    choice->is_streamed = false;
    GY_TRY(read_parameter(comm, row, choice->parameter));
    GY_TRY(find_chunk_bytes(comm, row, &chunk));
    chunk = GY_MAX(chunk / element / unit * unit, unit);
    if (call->is_varied) {
        cut_varied(comm, call, chunk, choice);
        return GY_OK;
    }
    /* A chunk here is what one block holds. */
    int64_t parts = gy_call_has_parts(call) ? ranks : 1;
    int64_t spread = spread_of(comm, call, choice);
    int64_t leg_limit = GY_MAX((int64_t)LEG_BYTES / parts / element, 2 * unit);
    choice->legs = GY_MAX(divide_up(count, leg_limit), (int64_t)1);
    choice->leg = divide_up(divide_up(count, choice->legs), unit) * unit;
    choice->legs = GY_MAX(divide_up(count, GY_MAX(choice->leg, (int64_t)1)), (int64_t)1);
    int64_t leg = GY_MIN(choice->leg, count);
    choice->chunks = (int)GY_MAX(divide_up(leg, chunk * spread), (int64_t)1);
    GY_ASSERT(choice->chunks <= UINT16_MAX);
    int64_t vectors = call->in == call->out || parts > 1 ? 1 : 2;
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
