/*
 * Averages of integers. A sum in the call's own type would wrap before the division (the mean
 * of 100 and 100 in i8 would be -28), and nothing can repair a wrapped sum. So the ranks sum in
 * a type that holds the sum of GY_PLAN_RANKS ranks, by any algorithm, and each rank divides its
 * result. The result is the same number on any number of ranks and by every algorithm.
 *
 *   i8 u8 i16        32 bits
 *   u16 i32 u32      64 bits
 *   i64 u64         128 bits
 *
 * Other ranks compare the call that the user made: its signature has avg and the element type.
 */
#include "coll/coll_priv.h"

#include <string.h>

__extension__ typedef __int128 wide_integer;

_Static_assert((int64_t)UINT8_MAX *GY_PLAN_RANKS <= INT32_MAX &&
                   (int64_t)INT16_MAX * GY_PLAN_RANKS <= INT32_MAX &&
                   (int64_t)INT16_MIN * GY_PLAN_RANKS >= INT32_MIN,
               "the sum of all ranks fits");

/* Element type, its C type, that of the sum. */
#define INTEGERS(X)                                                                            \
    X(I64, int64_t, wide_integer)                                                              \
    X(I32, int32_t, int64_t)                                                                   \
    X(I16, int16_t, int32_t)                                                                   \
    X(I8, int8_t, int32_t)                                                                     \
    X(U64, uint64_t, wide_integer)                                                             \
    X(U32, uint32_t, int64_t)                                                                  \
    X(U16, uint16_t, int64_t)                                                                  \
    X(U8, uint8_t, int32_t)

#define LOOPS(name, type, wide)                                                                \
    static void widen_##name(void *to, const void *from, size_t count)                         \
    {                                                                                          \
        for (size_t i = 0; i < count; i++) {                                                   \
            ((wide *)to)[i] = (wide)((const type *)from)[i];                                   \
        }                                                                                      \
    }                                                                                          \
    static void add_##name(void *to, const void *a, const void *b, size_t count, void *arg)    \
    {                                                                                          \
        (void)arg;                                                                             \
        for (size_t i = 0; i < count; i++) {                                                   \
            ((wide *)to)[i] = ((const wide *)a)[i] + ((const wide *)b)[i];                     \
        }                                                                                      \
    }                                                                                          \
    static void divide_##name(void *to, const void *from, size_t count, int ranks)             \
    {                                                                                          \
        for (size_t i = 0; i < count; i++) {                                                   \
            ((type *)to)[i] = (type)(((const wide *)from)[i] / ranks);                         \
        }                                                                                      \
    }
INTEGERS(LOOPS)
#undef LOOPS

typedef struct integer {
    void (*widen)(void *to, const void *from, size_t count);
    void (*divide)(void *to, const void *from, size_t count, int ranks);
    gy_user_reduction sum;
} integer;

static const integer integers[GY_DTYPE_COUNT] = {
#define ROW(type_name, type, wide)                                                             \
    [GY_##type_name] = {.widen = widen_##type_name,                                            \
                        .divide = divide_##type_name,                                          \
                        .sum = {.name = "the sum of an average",                               \
                                .combine = add_##type_name,                                    \
                                .element_bytes = sizeof(wide),                                 \
                                .is_commutative = true}},
    INTEGERS(ROW)
#undef ROW
};

struct gy_average {
    const gy_comm *comm;
    gy_coll_call call; /* the call as the user made it */
    void *room;        /* the widened input, then what this rank gets */
    const void *sums;  /* what this rank gets; in the room */
    gy_coll_end end;   /* the end function of a nonblocking call */
    void *arg;
};

bool gy_average_is_wide(const gy_comm *comm, const gy_coll_call *call)
{
    return call->reduction == GY_AVG && call->user == NULL && gy_call_reduces(call) &&
           comm->size > 1 && integers[call->dtype].widen != NULL;
}

bool gy_average_is_sum(const gy_coll_call *call)
{
    GY_CHECK_DEEP((unsigned)call->dtype < GY_DTYPE_COUNT);
    return call->user != NULL && call->user == &integers[call->dtype].sum;
}

gy_coll_call gy_average_call(const gy_coll_call *call)
{
    GY_ASSERT((unsigned)call->dtype < GY_DTYPE_COUNT);
    GY_ASSERT(integers[call->dtype].widen != NULL && call->user == NULL);
    gy_coll_call sums = *call;
    sums.user = &integers[call->dtype].sum;
    sums.in_parts.displacements = NULL; /* the sums lie without gaps */
    return sums;
}

/* The loop goes part by part, since the bytes between the parts do not belong to the call. */
static void widen_parts(const gy_average *average, void *to)
{
    const gy_coll_call *call = &average->call;
    const integer *how = &integers[call->dtype];
    const gy_parts *parts = &call->in_parts;
    size_t element = gy_dtype_bytes(call->dtype), at = 0;
    GY_ASSERT(how->widen != NULL);
    GY_ASSERT(!call->is_vector || parts->counts != NULL);
    if (!call->is_vector) {
        how->widen(to, call->in, gy_call_in_bytes(average->comm, call) / element);
        return;
    }
    for (int rank = 0; rank < average->comm->size; rank++) {
        size_t count = (size_t)parts->counts[rank];
        size_t from = parts->displacements != NULL ? (size_t)parts->displacements[rank] : at;
        if (count > 0) {
            how->widen((uint8_t *)to + at * how->sum.element_bytes,
                       (const uint8_t *)call->in + from * element, count);
        }
        at += count;
    }
}

gy_status gy_average_begin(const gy_comm *comm, gy_coll_call *call, gy_average **average)
{
    GY_ASSERT(gy_average_is_wide(comm, call));
    GY_ASSERT(average != NULL);
    gy_coll_call sums = gy_average_call(call);
    size_t in_bytes = gy_round_up(gy_call_in_bytes(comm, &sums), GY_CACHE_LINE);
    bool is_split = call->operation == GY_OPERATION_REDUCE_SCATTER; /* else in place */
    size_t out_bytes = is_split ? gy_call_out_bytes(comm, &sums) : 0;
    gy_average *made = gy_alloc_zero("coll.average", 1, sizeof(*made));
    uint8_t *room = gy_alloc("coll.average", in_bytes + out_bytes + GY_CACHE_LINE);
    if (made == NULL || room == NULL) {
        gy_free(made);
        gy_free(room);
        return GY_NOMEM;
    }
    sums.in = room;
    sums.out = is_split ? room + in_bytes : gy_call_gets(comm, call) ? room : NULL;
    *made = (gy_average){.comm = comm, .call = *call, .room = room, .sums = sums.out};
    widen_parts(made, room);
    GY_ASSERT(gy_average_is_sum(&sums));
    *call = sums;
    *average = made;
    return GY_OK;
}

gy_status gy_average_end(gy_average *average, gy_status status)
{
    const gy_coll_call *call = &average->call;
    GY_ASSERT(status <= GY_OK && average->room != NULL);
    if (status == GY_OK && gy_call_gets(average->comm, call)) {
        GY_ASSERT(average->sums != NULL && integers[call->dtype].divide != NULL);
        size_t bytes = gy_call_out_bytes(average->comm, call);
        integers[call->dtype].divide(call->out, average->sums,
                                     bytes / gy_dtype_bytes(call->dtype), average->comm->size);
    }
    gy_free(average->room);
    gy_free(average);
    return status;
}

static void end_average(void *arg, gy_status status)
{
    gy_average *average = arg;
    gy_coll_end end = average->end;
    void *own = average->arg;
    GY_ASSERT(end != NULL);
    end(own, gy_average_end(average, status));
}

gy_status gy_average_start(gy_coll *coll)
{
    gy_average *average = NULL;
    GY_ASSERT(coll->stage == GY_COLL_RESERVED && coll->end != NULL);
    GY_TRY(gy_average_begin(coll->comm, &coll->call, &average));
    average->end = coll->end;
    average->arg = coll->arg;
    coll->end = end_average;
    coll->arg = average;
    return GY_OK;
}
