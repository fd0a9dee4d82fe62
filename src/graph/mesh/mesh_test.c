/* Goal: a mesh is the grid that its text says, with a communicator of each line; what is no
 * mesh is refused with the reason. */
#include "graph/graph.h"

#include "coll/coll.h"

#include <string.h>

#include "gy_test.h"

enum { RANKS = 6 };

typedef struct member {
    gy_thread thread;
    gy_comm *comm;
    const char *axes;
    int chunks;
    int sums[2]; /* of all ranks' numbers, along each axis */
    int coordinates[2];
    char named[256]; /* a failure in which stages are named */
    gy_error error;
} member;

static gy_status sum_along(member *me, const gy_mesh *mesh, int axis)
{
    me->coordinates[axis] = gy_mesh_rank(mesh, axis);
    me->sums[axis] = gy_comm_rank(me->comm);
    gy_comm *line = gy_mesh_axis_comm(mesh, axis);
    return line == NULL
               ? GY_OK
               : gy_allreduce(line, &me->sums[axis], &me->sums[axis], 1, GY_I32, GY_SUM);
}

static gy_status use_mesh(member *me)
{
    gy_mesh *mesh = NULL;
    GY_TRY(gy_mesh_new(me->comm, me->axes, &mesh));
    gy_status status = gy_mesh_comm(mesh) == me->comm ? GY_OK : GY_STATE;
    for (int axis = 0; status >= 0 && axis < gy_mesh_axes(mesh); axis++) {
        status = sum_along(me, mesh, axis);
    }
    mesh->chunks = me->chunks;
    (void)gy_mesh_name_stages(
        mesh, gy_fail(GY_PEER, "rank 0: frank 1, rank 5 (process 4) is lost, rank 9, rank "));
    (void)gy_mesh_name_stages(mesh, GY_PEER); /* once is enough */
    snprintf(me->named, sizeof(me->named), "%s", gy_error_text());
    gy_mesh_free(mesh);
    return status;
}

static void *member_thread(void *arg)
{
    member *me = arg;
    gy_error_take(&me->error, use_mesh(me));
    return NULL;
}

static void run_chunks(const char *axes, int chunks, member *members)
{
    const gy_transport_segment_options segment = {.ranks = RANKS, .pool_bytes = 1 << 20};
    gy_transport *transports[RANKS];
    assert_ok(gy_transport_shm_open_all(&segment, gy_env_real(), transports));
    for (int rank = 0; rank < RANKS; rank++) {
        members[rank] = (member){.axes = axes, .chunks = chunks};
        assert_ok(gy_comm_new(transports[rank], NULL, &members[rank].comm));
    }
    for (int rank = 0; rank < RANKS; rank++) {
        assert_ok(
            gy_thread_start(&members[rank].thread, "rank", member_thread, &members[rank]));
    }
    for (int rank = 0; rank < RANKS; rank++) {
        gy_thread_join(&members[rank].thread);
    }
    for (int rank = 0; rank < RANKS; rank++) {
        gy_comm_free(members[rank].comm);
    }
}

static void run(const char *axes, member *members)
{
    run_chunks(axes, 0, members);
}

/* Along pipe ranks are apart by the ranks of the axes behind it. */
GY_TEST(failures_of_ranks_name_their_stages)
{
    static const struct {
        const char *axes;
        int chunks;
        const char *named;
    } cases[] = {
        {"data=2,pipe=3", 0,
         "rank 0 of stage 0: frank 1, rank 5 of stage 2 (process 4) is lost, rank 9, rank "},
        {"pipe=3,model=2", 1,
         "rank 0 of stage 0: frank 1, rank 5 of stage 2 (process 4) is lost, rank 9, rank "},
        {"pipe=2,data=3", 2,
         "rank 0 of stages 0, 2: frank 1, rank 5 of stages 1, 3 (process 4) is lost, rank 9, "
         "rank "},
        {"data=6", 0, "rank 0: frank 1, rank 5 (process 4) is lost, rank 9, rank "},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        member members[RANKS];
        run_chunks(cases[i].axes, cases[i].chunks, members);
        for (int rank = 0; rank < RANKS; rank++) {
            assert_int_equal(members[rank].error.status, GY_OK);
            assert_string_equal(members[rank].named, cases[i].named);
        }
    }
}

GY_TEST(the_last_axis_joins_neighbours)
{
    member members[RANKS];
    run("data=2,model=3", members);
    for (int rank = 0; rank < RANKS; rank++) {
        const int row = rank / 3, column = rank % 3;
        assert_int_equal(members[rank].error.status, GY_OK);
        assert_int_equal(members[rank].coordinates[0], row);
        assert_int_equal(members[rank].coordinates[1], column);
        assert_int_equal(members[rank].sums[0], column + column + 3);
        assert_int_equal(members[rank].sums[1], 9 * row + 3);
    }
}

GY_TEST(an_axis_may_have_all_ranks_or_one)
{
    member members[RANKS];
    run("model=1,auto=6", members);
    for (int rank = 0; rank < RANKS; rank++) {
        assert_int_equal(members[rank].error.status, GY_OK);
        assert_int_equal(members[rank].coordinates[0], 0);
        assert_int_equal(members[rank].coordinates[1], rank);
        assert_int_equal(members[rank].sums[0], rank);
        assert_int_equal(members[rank].sums[1], 15);
    }
}

GY_TEST(names_find_axes)
{
    gy_mesh *mesh = NULL;
    assert_ok(gy_mesh_new(NULL, "model=1,data=1", &mesh));
    assert_int_equal(gy_mesh_axes(mesh), 2);
    assert_int_equal(gy_mesh_find(mesh, "data"), 1);
    assert_int_equal(gy_mesh_find(mesh, "auto"), -1);
    assert_int_equal(gy_mesh_find(mesh, "rows"), -1);
    assert_string_equal(gy_mesh_axis_name(mesh, 0), "model");
    assert_int_equal(gy_mesh_size(mesh, -1), 1);
    assert_null(gy_mesh_comm(mesh));
    gy_mesh_free(mesh);
    assert_ok(gy_mesh_new(NULL, NULL, &mesh));
    assert_string_equal(gy_mesh_axis_name(mesh, 0), "data");
    gy_mesh_free(mesh);
    gy_mesh_free(NULL);
}

GY_TEST(what_is_no_mesh_is_refused)
{
    static const struct {
        const char *axes, *why;
    } bad[] = {
        {"", "no axis"},
        {"rows=2", "no axis 'rows'"},
        {"data", "expected data=N"},
        {"data=", "expected data=N"},
        {"data=0", "expected data=N"},
        {"data=-1", "expected data=N"},
        {"data=2x", "expected data=N"},
        {"data=+1", "expected data=N"},
        {"data= 1", "expected data=N"},
        {"data=99999999999999999999", "expected data=N"},
        {"data=1,", "ends with a comma"},
        {",data=1", "no axis ''"},
        {"data=1,,model=1", "no axis ''"},
        {"data=1,data=1", "named twice"},
        {"data=1,model=1,auto=1,data=1,model=1", "named twice"},
        {"data=2", "is of 2 ranks, and there are 1"},
        {"data=1000,model=1000", "more than 1024 ranks"},
        {"DATA=1", "no axis 'DATA'"},
    };
    for (size_t i = 0; i < GY_COUNT(bad); i++) {
        gy_mesh *mesh = NULL;
        assert_status(gy_mesh_new(NULL, bad[i].axes, &mesh), GY_ARG);
        if (strstr(gy_error_text(), bad[i].why) == NULL) {
            fail_msg("'%s': '%s', expected '%s'", bad[i].axes, gy_error_text(), bad[i].why);
        }
        assert_null(mesh);
    }
    int places = 0;
    assert_ok(gy_mesh_places("data=4,model=3", &places));
    assert_int_equal(places, 12);
}

GY_TEST(a_session_takes_a_mesh_or_a_communicator)
{
    member members[1];
    gy_transport *transports[1];
    const gy_transport_segment_options segment = {.ranks = 1, .pool_bytes = 1 << 20};
    assert_ok(gy_transport_shm_open_all(&segment, gy_env_real(), transports));
    assert_ok(gy_comm_new(transports[0], NULL, &members[0].comm));
    gy_mesh *mesh = NULL;
    gy_graph *graph = NULL;
    gy_session *session = NULL;
    assert_ok(gy_mesh_new(members[0].comm, "data=1", &mesh));
    assert_ok(gy_graph_new(&graph));
    const gy_session_options both = {.comm = members[0].comm, .mesh = mesh};
    assert_status(gy_session_new(graph, &both, &session), GY_ARG);
    assert_null(session);
    gy_graph_free(graph);
    gy_mesh_free(mesh);
    gy_comm_free(members[0].comm);
}

GY_TEST_MAIN(NULL, NULL)
