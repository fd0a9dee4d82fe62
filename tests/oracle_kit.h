/**
 * Tests: one collective as ranks make it, and the serial oracle that says what it must give.
 */
#ifndef ORACLE_KIT_H
#define ORACLE_KIT_H

#include "coll/coll_priv.h"
#include "coll/crew_priv.h"

#include "tensor/half.h"

#include <limits.h>
#include <stdlib.h>

#include "gy_test.h"
#include "spread_kit.h"

typedef struct case_spec {
    gy_operation operation;
    gy_dtype dtype;
    gy_reduction reduction;
    size_t count;
    int root, shift; /* shift: elements by which buffers miss their alignment */
    bool in_place, is_registered, is_mixed; /* mixed: only even ranks registered */
    bool is_vector, has_gaps;               /* counts differ; parts lie apart, last first */
    bool is_users; /* maps x -> a x + b, which compose in the order of ranks alone */
    bool is_rough; /* sums show their order */
    uint64_t seed;
} case_spec;

/* What each rank gives, and the fold of what ranks 0 to r give (of the last, for scans of all).
 */
typedef struct answers {
    uint8_t *given[CREW_MAX], *folded[CREW_MAX];
} answers;

typedef struct round_list {
    const case_spec *cases;
    size_t count;
    const spread *over;         /* NULL: one host */
    int groups;                 /* 0: all ranks together */
    int colours[CREW_MAX];      /* below groups */
    int keys[CREW_MAX];         /* which order the ranks of a group */
    answers *answers[CREW_MAX]; /* (count) of each group, of all in the first */
} round_list;

typedef struct affine {
    uint64_t a, b;
} affine;

static inline void compose(void *to, const void *left, const void *right, size_t count,
                           void *arg)
{
    const affine *f = left, *g = right;
    (void)arg;
    for (size_t i = 0; i < count; i++) {
        ((affine *)to)[i] = (affine){f[i].a * g[i].a, f[i].a * g[i].b + f[i].b};
    }
}

static const gy_user_reduction users = {
    .name = "composition", .combine = compose, .element_bytes = sizeof(affine)};

static inline size_t element_of(const case_spec *spec)
{
    return spec->is_users ? sizeof(affine) : gy_dtype_bytes(spec->dtype);
}

static inline bool is_half(gy_dtype dtype)
{
    return dtype == GY_F16 || dtype == GY_BF16;
}

/* SplitMix64's: a tenth of what gy_random_u64 takes. */
static inline uint64_t mix(uint64_t value)
{
    value = value * UINT64_C(0x9E3779B97F4A7C15) + UINT64_C(0x9E3779B97F4A7C15);
    value = (value ^ value >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    value = (value ^ value >> 27) * UINT64_C(0x94D049BB133111EB);
    return value ^ value >> 31;
}

/* Small whole numbers: exact in every type, so that order does not show where it need not. */
static inline void fill(void *data, gy_dtype dtype, size_t count, uint64_t seed, bool is_rough)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t draw = mix(seed + i);
        bool is_real = dtype == GY_F32 || dtype == GY_F64 || is_half(dtype);
        double value =
            is_rough && is_real ? (double)(draw >> 11) * 0x1p-53 - 0.5 : (double)(1 + draw % 2);
        switch (dtype) {
#define STORE(name, type)                                                                      \
    case GY_##name:                                                                            \
        ((type *)data)[i] = (type)value;                                                       \
        break;
            STORE(F64, double)
            STORE(F32, float)
            STORE(I64, int64_t)
            STORE(I32, int32_t)
            STORE(I16, int16_t)
            STORE(I8, int8_t)
            STORE(U64, uint64_t)
            STORE(U32, uint32_t)
            STORE(U16, uint16_t)
            STORE(U8, uint8_t)
#undef STORE
        case GY_F16:
            ((uint16_t *)data)[i] = gy_f16_from(value);
            break;
        case GY_BF16:
            ((uint16_t *)data)[i] = gy_bf16_from(value);
            break;
        case GY_DTYPE_NONE:
        case GY_DTYPE_COUNT:
        default:
            abort();
        }
    }
}

/* The parts of a buffer. */
typedef struct side {
    int parts;
    int64_t counts[CREW_MAX], starts[CREW_MAX];
    size_t extent; /* elements to its end */
} side;

static inline bool is_one_of(const case_spec *spec, gy_operation a, gy_operation b)
{
    return spec->operation == a || spec->operation == b ||
           spec->operation == GY_OPERATION_ALLTOALL;
}

static inline bool is_split(const case_spec *spec, bool is_in)
{
    return is_in ? is_one_of(spec, GY_OPERATION_REDUCE_SCATTER, GY_OPERATION_SCATTER)
                 : is_one_of(spec, GY_OPERATION_ALLGATHER, GY_OPERATION_GATHER);
}

/* Elements that go from a rank to a rank (all-to-all), or of a rank's part. */
static inline int64_t part_count(const case_spec *spec, int from, int to)
{
    uint64_t kind = (spec->seed >> 3) + (uint64_t)from * 5 + (uint64_t)to * 3;
    return spec->is_vector ? (int64_t)(spec->count * (kind % 4) / 2) : (int64_t)spec->count;
}

static inline side side_of(const case_spec *spec, int size, int rank, bool is_in)
{
    side out = {.parts = is_split(spec, is_in) ? size : 1};
    bool is_pair = spec->operation == GY_OPERATION_ALLTOALL;
    for (int i = 0; i < out.parts; i++) {
        int part = out.parts > 1 || size == 1 ? i : rank;
        int from = !is_pair ? 0 : is_in ? rank : part;
        int to = !is_pair || is_in ? part : rank;
        out.counts[i] = part_count(spec, from, to);
    }
    int64_t at = 0;
    bool has_gaps = spec->has_gaps && out.parts > 1;
    for (int k = 0; k < out.parts; k++) {
        int i = has_gaps ? out.parts - 1 - k : k;
        out.starts[i] = at;
        at += out.counts[i] + (has_gaps ? 2 : 0);
    }
    out.extent = (size_t)at;
    return out;
}

static inline uint64_t seed_of(const case_spec *spec, int rank)
{
    return spec->seed * 64 + ((uint64_t)rank << 32);
}

/* Halves are summed in float32 and rounded once. */
static inline void finish_half(const case_spec *spec, int ranks, const float *sum, uint16_t *to,
                               size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float value = spec->reduction == GY_AVG ? sum[i] / (float)ranks : sum[i];
        to[i] =
            spec->dtype == GY_F16 ? gy_f16_from((double)value) : gy_bf16_from((double)value);
    }
}

static inline void widen_half(gy_dtype dtype, const uint16_t *from, float *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = dtype == GY_F16 ? gy_f16_to(from[i]) : gy_bf16_to(from[i]);
    }
}

/* What a rank gives, whole. */
static inline uint8_t *given_by(const case_spec *spec, int size, int rank)
{
    side in = side_of(spec, size, rank, true);
    uint8_t *data = gy_alloc_zero("test", in.extent + 1, element_of(spec));
    if (spec->is_users) {
        fill(data, GY_U64, 2 * in.extent, seed_of(spec, rank), false);
    } else {
        fill(data, spec->dtype, in.extent, seed_of(spec, rank), spec->is_rough);
    }
    return data;
}

static inline bool is_scan(const case_spec *spec)
{
    return spec->operation == GY_OPERATION_SCAN ||
           spec->operation == GY_OPERATION_EXCLUSIVE_SCAN;
}

static inline bool is_reduction(const case_spec *spec)
{
    return is_scan(spec) || spec->operation == GY_OPERATION_ALLREDUCE ||
           spec->operation == GY_OPERATION_REDUCE ||
           spec->operation == GY_OPERATION_REDUCE_SCATTER;
}

/* total = total op what a rank gives, from the left. */
static inline void fold_one(const case_spec *spec, const uint8_t *given, int rank,
                            uint8_t *total, uint8_t *next, size_t count)
{
    bool is_wide = is_half(spec->dtype) && !spec->is_users;
    size_t element = is_wide ? sizeof(float) : element_of(spec);
    uint8_t *to = rank == 0 ? total : next;
    if (is_wide) {
        widen_half(spec->dtype, (const uint16_t *)(const void *)given, (float *)(void *)to,
                   count);
    } else {
        memcpy(to, given, count * element);
    }
    if (rank > 0 && spec->is_users) {
        compose(total, total, next, count, NULL);
    } else if (rank > 0) {
        gy_coll_combine_of(is_wide ? GY_F32 : spec->dtype, spec->reduction)(total, total, next,
                                                                            count);
    }
}

static inline uint8_t *finished(const case_spec *spec, int size, const uint8_t *total,
                                size_t count)
{
    uint8_t *result = gy_alloc_zero("test", count + 1, element_of(spec));
    if (is_half(spec->dtype) && !spec->is_users) {
        finish_half(spec, size, (const float *)(const void *)total, (uint16_t *)(void *)result,
                    count);
        return result;
    }
    memcpy(result, total, count * element_of(spec));
    if (spec->reduction == GY_AVG && !spec->is_users) {
        gy_divide(spec->dtype, result, count, size);
    }
    return result;
}

/* The serial oracle. */
static inline void find_answers(const case_spec *spec, int size, answers *out)
{
    side all = side_of(spec, size, 0, true);
    size_t room = GY_MAX(element_of(spec), sizeof(float));
    uint8_t *total = gy_alloc_zero("test", all.extent + 1, room);
    uint8_t *next = gy_alloc_zero("test", all.extent + 1, room);
    *out = (answers){.given = {NULL}};
    for (int rank = 0; rank < size; rank++) {
        out->given[rank] = given_by(spec, size, rank);
        if (is_reduction(spec)) {
            fold_one(spec, out->given[rank], rank, total, next, all.extent);
        }
        if (is_scan(spec) || (is_reduction(spec) && rank == size - 1)) {
            out->folded[rank] = finished(spec, size, total, all.extent);
        }
    }
    gy_free(total);
    gy_free(next);
}

static inline void forget_answers(answers *known)
{
    for (int rank = 0; rank < CREW_MAX; rank++) {
        gy_free(known->given[rank]);
        gy_free(known->folded[rank]);
    }
}

/* Part `part` of this rank's answer. */
static const uint8_t *expected_of(const crew_member *me, const case_spec *spec,
                                  const answers *known, int part)
{
    gy_operation operation = spec->operation;
    bool is_roots = operation == GY_OPERATION_BROADCAST || operation == GY_OPERATION_SCATTER;
    int from = is_roots ? spec->root : part;
    bool reduces = is_reduction(spec);
    side in = side_of(spec, me->size, reduces ? me->rank : from, true);
    size_t at = in.parts > 1 ? (size_t)in.starts[me->rank] : 0;
    int last = !is_scan(spec)                   ? me->size - 1
               : operation == GY_OPERATION_SCAN ? me->rank
                                                : me->rank - 1;
    return (reduces ? known->folded[last] : known->given[from]) + at * element_of(spec);
}

static inline void *take(crew_member *me, const case_spec *spec, size_t bytes)
{
    bool is_registered = spec->is_registered && (!spec->is_mixed || me->rank % 2 == 0);
    return is_registered ? gy_pool_take(gy_comm_pool(me->comm), bytes)
                         : gy_pool_take(gy_pool_heap(), bytes);
}

static inline void give(crew_member *me, const case_spec *spec, void *memory)
{
    bool is_registered = spec->is_registered && (!spec->is_mixed || me->rank % 2 == 0);
    gy_pool_give(is_registered ? gy_comm_pool(me->comm) : gy_pool_heap(), memory);
}

static inline bool has_answer(const crew_member *me, const case_spec *spec)
{
    bool is_roots =
        spec->operation == GY_OPERATION_REDUCE || spec->operation == GY_OPERATION_GATHER;
    bool is_left = spec->operation == GY_OPERATION_EXCLUSIVE_SCAN && me->rank == 0;
    return !is_left && (!is_roots || me->rank == spec->root);
}

static inline void compare(crew_member *me, const case_spec *spec, const answers *known,
                           const uint8_t *out)
{
    size_t element = element_of(spec);
    side parts = side_of(spec, me->size, me->rank, false);
    for (int i = 0; i < parts.parts; i++) {
        const uint8_t *expected = expected_of(me, spec, known, i);
        size_t bytes = (size_t)parts.counts[i] * element;
        if (bytes > 0 &&
            memcmp(out + (size_t)parts.starts[i] * element, expected, bytes) != 0) {
            printf("rank %d of %d: %s%s of %zu %s, %s%s%s, reduction %d%s, root %d, shift %d: "
                   "part %d is wrong\n",
                   me->rank, me->size, gy_operation_name(spec->operation),
                   spec->is_vector ? "v" : "", spec->count, gy_dtype_name(spec->dtype),
                   spec->in_place ? "in place" : "apart", spec->has_gaps ? ", gaps" : "",
                   spec->is_registered ? ", registered" : "", (int)spec->reduction,
                   spec->is_users ? " of a user" : "", spec->root, spec->shift, i);
            me->failures++;
        }
    }
}

/* In place: the own part of one buffer lies in the other. */
static inline void lay_out(const crew_member *me, const case_spec *spec, uint8_t **in,
                           uint8_t **out)
{
    size_t element = element_of(spec);
    side from = side_of(spec, me->size, me->rank, true);
    side to = side_of(spec, me->size, me->rank, false);
    bool is_pairs = spec->operation == GY_OPERATION_ALLTOALL;
    bool is_rooted =
        spec->operation == GY_OPERATION_GATHER || spec->operation == GY_OPERATION_SCATTER;
    if (spec->operation == GY_OPERATION_BROADCAST) {
        *in = *out;
    } else if (!spec->in_place || (is_pairs && spec->is_vector) ||
               (is_rooted && me->rank != spec->root)) {
        return;
    } else if (!is_pairs && to.parts > 1) {
        *in = *out + (size_t)to.starts[me->rank] * element;
    } else if (!is_pairs && from.parts > 1) {
        *out = *in + (size_t)from.starts[me->rank] * element;
    } else {
        *out = *in;
    }
}

static inline gy_coll_call call_of(const crew_member *me, const case_spec *spec, const side *in,
                                   const side *out)
{
    gy_coll_call call = {.operation = spec->operation,
                         .dtype = spec->dtype,
                         .reduction = spec->reduction,
                         .user = spec->is_users ? &users : NULL,
                         .root = spec->root,
                         .count = spec->count,
                         .is_vector = spec->is_vector};
    bool is_rooted =
        spec->operation == GY_OPERATION_GATHER || spec->operation == GY_OPERATION_SCATTER;
    bool knows = !is_rooted || me->rank == spec->root;
    if (spec->is_vector) {
        call.count = (size_t)part_count(spec, 0, me->rank);
        if (is_split(spec, true) && knows) {
            call.in_parts = (gy_parts){in->counts, spec->has_gaps ? in->starts : NULL};
        }
        if (is_split(spec, false) && knows) {
            call.out_parts = (gy_parts){out->counts, spec->has_gaps ? out->starts : NULL};
        }
    }
    return call;
}

static inline void one_case(crew_member *me, const case_spec *spec, const answers *known)
{
    size_t element = element_of(spec), shift = (size_t)spec->shift * element;
    side from = side_of(spec, me->size, me->rank, true);
    side to = side_of(spec, me->size, me->rank, false);
    size_t room = GY_MAX(from.extent, to.extent) * element + shift + 64;
    uint8_t *first = take(me, spec, room), *second = take(me, spec, room);
    uint8_t *in = first + shift, *out = second + shift;
    memset(first, 0xee, room);
    memset(second, 0xee, room);
    lay_out(me, spec, &in, &out);
    if (from.extent > 0) {
        memcpy(in, known->given[me->rank], from.extent * element);
    }
    gy_coll_call call = call_of(me, spec, &from, &to);
    call.in = in;
    call.out = out;
    gy_status status = gy_coll_run(me->comm, &call);
    EXPECT(status == GY_OK);
    if (status == GY_OK && has_answer(me, spec)) {
        compare(me, spec, known, out);
    }
    give(me, spec, first);
    give(me, spec, second);
}

static inline void cases_on(crew_member *me, const round_list *list, const answers *known)
{
    for (size_t i = 0; i < list->count && me->failures == 0; i++) {
        case_spec spec = list->cases[i];
        spec.root %= me->size;
        one_case(me, &spec, &known[i]);
    }
    EXPECT(gy_barrier(me->comm) == GY_OK);
    EXPECT(gy_comm_in_flight(me->comm) == 0);
}

static inline bool is_in_group(const round_list *list, int rank, int group)
{
    return list->groups == 0 || list->colours[rank] == group;
}

static inline int group_size(const round_list *list, int ranks, int group)
{
    int size = 0;
    for (int rank = 0; rank < ranks; rank++) {
        size += is_in_group(list, rank, group);
    }
    return size;
}

/* A rank's number in its group. */
static inline int place_of(const round_list *list, int ranks, int rank)
{
    int place = 0;
    for (int i = 0; i < ranks; i++) {
        bool is_before =
            list->keys[i] < list->keys[rank] || (list->keys[i] == list->keys[rank] && i < rank);
        place += is_before && is_in_group(list, i, list->colours[rank]);
    }
    return place;
}

static inline int host_of(const spread *over, int rank)
{
    int host = 0;
    for (int end = over == NULL ? INT_MAX : over->counts[0]; rank >= end;) {
        end += over->counts[++host];
    }
    return host;
}

/* Shared memory where all ranks of a group have one, and only there. */
static inline void expect_ground(crew_member *me, const crew_member *inner,
                                 const round_list *list)
{
    bool is_on_one = inner->size > 1 && !me->comm->options.has_messages_only;
    for (int rank = 0; rank < me->size; rank++) {
        is_on_one = is_on_one && (list->colours[rank] != list->colours[me->rank] ||
                                  host_of(list->over, rank) == host_of(list->over, me->rank));
    }
    EXPECT((inner->comm->shared != NULL) == is_on_one);
}

static inline void all_cases(crew_member *me)
{
    const round_list *list = me->shared_arg;
    if (list->groups == 0) {
        cases_on(me, list, list->answers[0]);
        return;
    }
    crew_member inner = {.shared_arg = me->shared_arg};
    int group = list->colours[me->rank];
    EXPECT(gy_comm_split(me->comm, group, list->keys[me->rank], &inner.comm) == GY_OK);
    inner.rank = gy_comm_rank(inner.comm);
    inner.size = gy_comm_size(inner.comm);
    EXPECT(inner.rank == place_of(list, me->size, me->rank));
    expect_ground(me, &inner, list);
    cases_on(&inner, list, list->answers[group]);
    gy_comm_free(inner.comm);
    me->failures += inner.failures;
}

static inline int run_crew(int ranks, const gy_comm_options *options, round_list *list)
{
    gy_transport *transports[CREW_MAX];
    if (list->over == NULL) {
        return crew_run(ranks, options, all_cases, list);
    }
    return spread_open(list->over, transports) == GY_OK
               ? crew_run_on(transports, ranks, options, all_cases, list)
               : -1;
}

static inline int run_round(int ranks, const gy_comm_options *options, round_list *list)
{
    for (int group = 0; group < GY_MAX(list->groups, 1); group++) {
        int size = group_size(list, ranks, group);
        list->answers[group] = gy_alloc_zero("test", list->count, sizeof(answers));
        for (size_t i = 0; i < list->count && size > 0; i++) {
            find_answers(&list->cases[i], size, &list->answers[group][i]);
        }
    }
    int failures = run_crew(ranks, options, list);
    for (int group = 0; group < GY_MAX(list->groups, 1); group++) {
        for (size_t i = 0; i < list->count; i++) {
            forget_answers(&list->answers[group][i]);
        }
        gy_free(list->answers[group]);
    }
    return failures;
}

static inline size_t draw_count(gy_random *random)
{
    static const size_t edges[] = {0, 1, 1, 2, 7, 13, 127, 1021, 2048, 2049, 4099};
    uint64_t kind = gy_random_below(random, 128);
    if (kind < 72) {
        return edges[gy_random_below(random, GY_COUNT(edges))];
    }
    return kind < 122   ? gy_random_below(random, 3000)
           : kind < 127 ? gy_random_below(random, 30000)
                        : gy_random_below(random, 200000);
}

/* Three of four cases are of the row's operation. */
static inline void draw_case(gy_random *random, int size, const gy_algorithm *row,
                             case_spec *spec)
{
    static const gy_operation operations[] = {
        GY_OPERATION_ALLREDUCE, GY_OPERATION_ALLREDUCE,     GY_OPERATION_REDUCE_SCATTER,
        GY_OPERATION_ALLGATHER, GY_OPERATION_BROADCAST,     GY_OPERATION_REDUCE,
        GY_OPERATION_GATHER,    GY_OPERATION_SCATTER,       GY_OPERATION_ALLTOALL,
        GY_OPERATION_SCAN,      GY_OPERATION_EXCLUSIVE_SCAN};
    *spec = (case_spec){
        .operation = operations[gy_random_below(random, GY_COUNT(operations))],
        .dtype = (gy_dtype)(1 + gy_random_below(random, GY_DTYPE_COUNT - 1)),
        .reduction = (gy_reduction)gy_random_below(random, GY_REDUCTION_COUNT),
        .count = draw_count(random),
        .root = (int)gy_random_below(random, (uint64_t)size),
        .shift = (int)gy_random_below(random, 3),
        .in_place = gy_random_below(random, 2) == 0,
        .is_registered = gy_random_below(random, 2) == 0,
        .is_mixed = gy_random_below(random, 4) == 0,
        .seed = gy_random_u64(random) >> 8,
    };
    if (row != NULL && row->operation != GY_OPERATION_BARRIER &&
        gy_random_below(random, 4) > 0) {
        spec->operation = row->operation;
    }
    if (gy_coll_combine_of(spec->dtype, spec->reduction) == NULL ||
        (is_scan(spec) && spec->reduction == GY_AVG)) {
        spec->reduction = is_scan(spec) ? GY_SUM : GY_AVG;
    }
    spec->is_users = is_reduction(spec) && gy_random_below(random, 8) == 0;
    spec->count /= spec->is_users ? 4 : 1;
    if (is_split(spec, true) || is_split(spec, false)) {
        spec->count /= spec->count > 20000 ? 4 : 1;
        spec->is_vector = gy_random_below(random, 2) == 0;
        spec->has_gaps = spec->is_vector && gy_random_below(random, 2) == 0;
    }
}

/* Is the left fold to be seen, bit by bit? Rows that promise it do it, and what is chosen on
 * shared memory. */
static inline bool is_fold(const case_spec *spec, const char *name, bool is_apart)
{
    const gy_algorithm *row = name == NULL ? NULL : gy_algorithm_find(spec->operation, name);
    bool is_chosen = row == NULL || (is_apart && row->need != GY_NEED_MESSAGES);
    return is_chosen ? !is_apart : row->order == GY_ORDER_FOLD;
}

/* How a row is asked for; NULL and "slots" come after the rows. */
static const char *name_of(size_t turn, gy_random *random, char name[64])
{
    if (turn >= gy_algorithm_count) {
        return turn == gy_algorithm_count ? NULL : "slots";
    }
    const gy_algorithm *row = &gy_algorithms[turn];
    int number = 1 + (int)gy_random_below(random, 6);
    if (row->parameter == GY_PARAMETER_NUMBER) {
        snprintf(name, 64, "%s:%d", row->name, number);
    } else {
        snprintf(name, 64, "%s", row->name);
    }
    return name;
}

/* Which of `turns` a round takes: rounds that follow each other are far apart in the table of
 * algorithms, and `turns` of them take each once. */
static inline size_t turn_of(long round, size_t turns)
{
    static const size_t primes[] = {7, 11, 13};
    size_t stride = 1;
    for (size_t i = GY_COUNT(primes); i-- > 0;) {
        stride = turns % primes[i] != 0 ? primes[i] : stride;
    }
    return (size_t)round * stride % turns;
}

/* Fails where rounds enough for all turns left one out. */
static inline void assert_all_had_turns(const bool *taken, size_t turns, long rounds)
{
    for (size_t turn = 0; turn < turns && rounds >= (long)turns; turn++) {
        if (!taken[turn]) {
            fail_msg("turn %zu of %zu was never taken in %ld rounds", turn, turns, rounds);
        }
    }
}

#endif
