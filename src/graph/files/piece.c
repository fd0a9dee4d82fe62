/* Which elements of a tensor a rank has, and which of them it gives to a file. */
#include "coll/coll.h"
#include "graph/files/files_priv.h"

#include <string.h>

gy_status gy_file_piece_of(gy_session *session, const char *name, gy_file_piece_giver giver,
                           gy_file_piece *piece)
{
    gy_session_part *part = &piece->part;
    bool is_first = true; /* of the ranks along Partial axes */
    *piece = (gy_file_piece){.data = NULL};
    GY_TRY(gy_session_part_of(session, name, part));
    if (part->is_elsewhere) {
        return GY_OK;
    }
    const gy_mesh *mesh = part->mesh;
    int64_t replicas = part->replicas, replica = part->replica;
    for (int axis = 0; axis < mesh->axes; axis++) {
        const gy_placement_kind kind = part->type.placement[axis].kind;
        if (kind == GY_REPLICATE) {
            replica = replica * mesh->sizes[axis] + mesh->coordinates[axis];
            replicas *= mesh->sizes[axis];
        } else if (kind == GY_PARTIAL) {
            piece->is_partial = true;
            is_first = is_first && mesh->coordinates[axis] == 0;
        }
    }
    GY_ASSERT(replica >= 0 && replica < replicas);
    memcpy(piece->box.offsets, part->offsets, sizeof(piece->box.offsets));
    memcpy(piece->box.sizes, part->view.sizes, sizeof(piece->box.sizes));
    piece->data = part->view.data;
    piece->count = gy_view_count(&part->view);
    GY_ASSERT(part->view.rank == part->type.rank);
    piece->to = piece->count;
    if (giver == GY_FILE_PIECE_SHARES && !piece->is_partial) {
        piece->from = gy_part_begin(piece->count, (int)replica, (int)replicas);
        piece->to = gy_part_begin(piece->count, (int)replica + 1, (int)replicas);
    } else if (giver != GY_FILE_PIECE_ALONE && !(is_first && replica == 0)) {
        piece->to = 0;
    }
    return GY_OK;
}

gy_file_piece gy_file_piece_whole(const gy_view *view, bool is_given)
{
    GY_ASSERT(gy_view_is_contiguous(view));
    gy_file_piece piece = {.data = view->data, .count = gy_view_count(view)};
    piece.box = gy_box_whole(view);
    piece.part.type.dtype = view->dtype;
    piece.to = is_given ? piece.count : 0;
    return piece;
}

gy_status gy_file_piece_complete(const gy_file_piece *piece, int64_t from, int64_t to,
                                 void *window)
{
    const gy_mesh *mesh = piece->part.mesh;
    const size_t bytes = gy_file_piece_bytes(piece);
    GY_ASSERT(piece->is_partial && mesh != NULL);
    GY_ASSERT(from >= 0 && from <= to && to <= piece->count);
    memcpy(window, piece->data + (size_t)from * bytes, (size_t)(to - from) * bytes);
    for (int axis = 0; axis < mesh->axes; axis++) {
        const gy_placement *placement = &piece->part.type.placement[axis];
        if (placement->kind == GY_PARTIAL && mesh->comms[axis] != NULL) {
            GY_ASSERT(placement->reduction == GY_SUM);
            GY_TRY(gy_allreduce(mesh->comms[axis], window, window, (size_t)(to - from),
                                piece->part.type.dtype, GY_SUM));
        }
    }
    return GY_OK;
}
