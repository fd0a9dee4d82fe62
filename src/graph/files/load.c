/* Reads a session's parameters from a file: each rank what it has. */
#include "coll/coll.h"
#include "graph/files/files_priv.h"

#include <string.h>

/* Did all ranks open one file? By its texts, types and sizes. */
static gy_status check_same(gy_comm *comm, const gy_bundle *bundle)
{
    const char *checksum = gy_bundle_get(bundle, "gyre.checksum");
    uint64_t count = gy_bundle_count(bundle);
    uint64_t hash = gy_hash(&count, sizeof(count), 0);
    for (size_t i = 0; i < count; i++) {
        const gy_view shape = gy_bundle_shape(bundle, i);
        const char *name = gy_bundle_name(bundle, i);
        hash = gy_hash(name, strlen(name), hash);
        hash = gy_hash(shape.sizes, (size_t)shape.rank * sizeof(*shape.sizes), hash);
    }
    if (checksum != NULL) {
        hash = gy_hash(checksum, strlen(checksum), hash);
    }
    uint64_t range[2] = {hash, ~hash};
    GY_ASSERT(gy_comm_size(comm) > 1);
    GY_TRY(gy_allreduce(comm, range, range, 2, GY_U64, GY_MIN));
    return range[0] == ~range[1]
               ? GY_OK
               : gy_fail(GY_MISMATCH, "ranks opened different files of one name");
}

gy_status gy_session_verify(gy_comm *comm, gy_bundle *bundle)
{
    const int ranks = comm == NULL ? 1 : gy_comm_size(comm);
    const int rank = comm == NULL ? 0 : gy_comm_rank(comm);
    const size_t count = gy_bundle_count(bundle);
    GY_ASSERT(rank < ranks);
    if (ranks > 1) {
        GY_TRY(check_same(comm, bundle));
    }
    uint64_t *sums = gy_alloc_zero("graph.files", count, sizeof(*sums));
    gy_status status = sums == NULL ? GY_NOMEM : gy_bundle_sum_share(bundle, rank, ranks, sums);
    status = gy_session_agree_named(comm, status);
    if (status == GY_OK && ranks > 1 && count > 0) {
        status = gy_allreduce(comm, sums, sums, count, GY_U64, GY_SUM);
    }
    if (status == GY_OK) {
        status = gy_bundle_verify(bundle, sums);
    }
    gy_free(sums);
    return status;
}

/* Beside the first of a sum's ranks the others have what adds nothing, not even a sign: -0. */
static void fill_neutral(gy_view *view)
{
    const int64_t count = gy_view_count(view);
    GY_ASSERT(gy_view_is_contiguous(view));
    for (int64_t i = 0; i < count && view->dtype == GY_F32; i++) {
        ((float *)view->data)[i] = -0.0F;
    }
    for (int64_t i = 0; i < count && view->dtype == GY_F64; i++) {
        ((double *)view->data)[i] = -0.0;
    }
    if (view->dtype != GY_F32 && view->dtype != GY_F64) {
        memset(view->data, 0, (size_t)count * gy_dtype_bytes(view->dtype));
    }
}

gy_status gy_session_read_part(gy_session *session, const char *name, const gy_bundle *bundle)
{
    gy_file_piece piece;
    size_t index = 0;
    GY_TRY(gy_file_piece_of(session, name, GY_FILE_PIECE_ALONE, &piece));
    if (!gy_bundle_index(bundle, name, &index)) {
        return gy_fail(GY_NOTFOUND, "no tensor '%s'", name);
    }
    if (piece.part.is_elsewhere) {
        return GY_OK;
    }
    gy_view *view = &piece.part.view;
    GY_ASSERT(gy_bundle_shape(bundle, index).rank == view->rank);
    const gy_mesh *mesh = piece.part.mesh;
    for (int axis = 0; axis < mesh->axes && !piece.part.has_rows; axis++) {
        if (piece.part.type.placement[axis].kind == GY_PARTIAL && mesh->coordinates[axis] > 0) {
            fill_neutral(view);
            return GY_OK;
        }
    }
    return gy_bundle_read_box(bundle, index, &piece.box, 0, piece.count, view->data);
}

gy_status gy_session_fill_from(void *arg, const char *name, const int64_t *offsets,
                               gy_tensor *tensor)
{
    const gy_bundle *bundle = arg;
    size_t index = 0;
    gy_box box;
    if (!gy_bundle_index(bundle, name, &index)) {
        return GY_AGAIN;
    }
    gy_view view = gy_tensor_pin(tensor);
    GY_ASSERT(gy_view_is_contiguous(&view));
    GY_ASSERT(gy_bundle_shape(bundle, index).rank == view.rank);
    memcpy(box.offsets, offsets, sizeof(box.offsets));
    memcpy(box.sizes, view.sizes, sizeof(box.sizes));
    gy_status status =
        gy_bundle_read_box(bundle, index, &box, 0, gy_view_count(&view), view.data);
    gy_tensor_unpin(tensor);
    return status;
}
