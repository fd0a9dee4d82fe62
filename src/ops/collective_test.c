/*
 * Goal: a change of placement gives each rank its part of the whole, along any dimension, in
 * parts that divide and that do not, with more ranks than elements.
 */
#include "ops/collective.h"

#include "tensor/tensor.h"

#include <string.h>

#include "gy_test.h"

enum { RANKS_MAX = 4, ELEMENTS_MAX = 4096 };

/* A move of a value along one axis. */
typedef struct placement_move {
    const gy_op *op;
    gy_placement from, to;
    int rank;
    int64_t sizes[GY_TENSOR_RANK_MAX];
} placement_move;

typedef struct member {
    gy_thread thread;
    gy_comm *comm;
    const placement_move *move;
    gy_error error;
} member;

/* Element `at` of the value; of a Partial what rank `rank` has of it. */
static double element(int64_t at, int rank, int ranks, bool is_partial)
{
    const double whole = (double)(at * 7 % 1009);
    return !is_partial ? whole : rank == 0 ? whole - (double)(ranks * (ranks - 1) / 2) : rank;
}

/* What `rank` of `ranks` has of the value in `placement`. */
static gy_view part_of(const placement_move *move, gy_placement placement, int rank, int ranks,
                       double *memory)
{
    double whole[ELEMENTS_MAX];
    gy_view all = gy_view_of(whole, GY_F64, move->sizes, move->rank);
    for (int64_t i = 0; i < gy_view_count(&all); i++) {
        whole[i] = element(i, rank, ranks, placement.kind == GY_PARTIAL);
    }
    gy_view part = all;
    if (placement.kind == GY_SHARD) {
        const int64_t begin = gy_part_begin(all.sizes[placement.dim], rank, ranks);
        const int64_t end = gy_part_begin(all.sizes[placement.dim], rank + 1, ranks);
        part = gy_view_cut(&all, placement.dim, begin, end - begin, 1);
    }
    gy_view flat = gy_view_of(memory, GY_F64, part.sizes, part.rank);
    assert_ok(gy_view_copy(&flat, &part));
    return flat;
}

static gy_status run_in(member *me, gy_engine *engine, gy_collective *collective)
{
    gy_var *vars[2] = {NULL};
    gy_status status = gy_var_new(engine, &vars[0]);
    if (status >= 0) {
        status = gy_var_new(engine, &vars[1]);
    }
    if (status >= 0) {
        status = gy_collective_attach(engine, me->comm);
    }
    for (int run = 0; status >= 0 && run < 2; run++) { /* the same one again */
        gy_task task = {.name = "move",
                        .reads = &vars[0],
                        .read_count = 1,
                        .mutates = &vars[1],
                        .mutate_count = 1};
        status = gy_collective_push(engine, collective, &task);
        if (status >= 0) {
            status = gy_engine_wait(engine, vars[1], gy_deadline_after(60));
        }
    }
    gy_collective_detach(engine, me->comm);
    gy_var_free(vars[0]);
    gy_var_free(vars[1]);
    return status;
}

static gy_status run_move(member *me)
{
    const placement_move *move = me->move;
    const int rank = gy_comm_rank(me->comm), ranks = gy_comm_size(me->comm);
    double in[ELEMENTS_MAX], out[ELEMENTS_MAX], expected[ELEMENTS_MAX];
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.move.from = move->from;
    attributes.move.to = move->to;
    gy_type type = {.dtype = GY_F64, .rank = move->rank};
    memcpy(type.sizes, move->sizes, sizeof(type.sizes));
    const gy_view right = part_of(move, move->to, rank, ranks, expected);
    gy_collective collective = {.comm = me->comm,
                                .op = move->op,
                                .attributes = &attributes,
                                .sizes = type.sizes,
                                .input = part_of(move, move->from, rank, ranks, in),
                                .output = right};
    memset(out, 0xff, sizeof(out));
    collective.output.data = out;
    collective.workspace = gy_alloc(
        "test",
        GY_MAX(gy_collective_workspace_bytes(move->op, &attributes, &type, ranks), (size_t)1));
    gy_arena arena = {0};
    gy_engine *engine = NULL;
    gy_status status = gy_collective_init(&collective, &arena);
    if (status >= 0) {
        status = gy_engine_new(&(gy_engine_options){.workers = 1}, &engine);
    }
    if (status >= 0) {
        status = run_in(me, engine, &collective);
        gy_engine_free(engine);
    }
    gy_free(collective.workspace);
    gy_arena_free(&arena);
    if (status >= 0 &&
        memcmp(out, expected, (size_t)gy_view_count(&right) * sizeof(double)) != 0) {
        status = gy_fail(GY_STATE, "another part than expected");
    }
    return status;
}

static void *member_thread(void *arg)
{
    member *me = arg;
    gy_error_take(&me->error, run_move(me));
    return NULL;
}

static void check(const placement_move *move, int ranks)
{
    const gy_transport_segment_options segment = {.ranks = ranks, .pool_bytes = 1 << 20};
    gy_transport *transports[RANKS_MAX];
    member members[RANKS_MAX];
    assert_ok(gy_transport_shm_open_all(&segment, gy_env_real(), transports));
    for (int rank = 0; rank < ranks; rank++) {
        members[rank] = (member){.move = move};
        assert_ok(gy_comm_new(transports[rank], NULL, &members[rank].comm));
    }
    for (int rank = 0; rank < ranks; rank++) {
        assert_ok(
            gy_thread_start(&members[rank].thread, "rank", member_thread, &members[rank]));
    }
    for (int rank = 0; rank < ranks; rank++) {
        gy_thread_join(&members[rank].thread);
    }
    for (int rank = 0; rank < ranks; rank++) {
        if (members[rank].error.status != GY_OK) {
            fail_msg("%s of (%lld,%lld,%lld) from %d to %d, rank %d of %d: %s", move->op->name,
                     (long long)move->sizes[0], (long long)move->sizes[1],
                     (long long)move->sizes[2], (int)move->from.dim, (int)move->to.dim, rank,
                     ranks, members[rank].error.text);
        }
        gy_comm_free(members[rank].comm);
    }
}

static const int64_t sizes[][3] = {{8, 4, 12}, {7, 5, 3}, {1, 6, 5}, {1, 1, 9},
                                   {2, 3, 1},  {3, 0, 4}, {1, 2, 1}};

static gy_placement shard(int dim)
{
    return (gy_placement){.kind = GY_SHARD, .dim = (uint8_t)dim};
}

static void check_all(const gy_op *op, bool has_from, bool has_to)
{
    const gy_placement whole = {.kind = GY_REPLICATE};
    const gy_placement sum = {.kind = GY_PARTIAL, .reduction = GY_SUM};
    for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
        for (size_t i = 0; i < GY_COUNT(sizes); i++) {
            for (int from = 0; from < (has_from ? 3 : 1); from++) {
                for (int to = 0; to < (has_to ? 3 : 1); to++) {
                    placement_move move = {.op = op,
                                           .from = has_from ? shard(from) : sum,
                                           .to = has_to ? shard(to) : whole,
                                           .rank = 3};
                    memcpy(move.sizes, sizes[i], sizeof(sizes[i]));
                    if (!has_from || !has_to || from != to) {
                        check(&move, ranks);
                    }
                }
            }
        }
    }
}

GY_TEST(sums_reach_every_rank)
{
    check_all(&gy_ops_row_allreduce, false, false);
}

GY_TEST(sums_are_cut_along_any_dimension)
{
    check_all(&gy_ops_row_reduce_scatter, false, true);
}

GY_TEST(parts_of_any_dimension_become_whole)
{
    check_all(&gy_ops_row_allgather, true, false);
}

GY_TEST(parts_of_one_dimension_become_those_of_another)
{
    check_all(&gy_ops_row_alltoall, true, true);
}

GY_TEST_MAIN(NULL, NULL)
