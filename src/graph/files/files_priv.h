/** What the files of this folder share. */
#ifndef GY_GRAPH_FILES_FILES_PRIV_H
#define GY_GRAPH_FILES_FILES_PRIV_H

#include "graph/files/files.h"
#include "graph/graph.h"

/** gy_session_agree; the failure names its rank. */
gy_status gy_session_agree_named(gy_comm *comm, gy_status status);

/** What a rank has of a tensor of a file, and which of it this rank gives. */
typedef struct gy_file_piece {
    gy_box box;       /* what it has */
    const char *data; /* row-major; borrowed */
    int64_t count;    /* elements there */
    int64_t from, to; /* of them those that it gives; ranks along Partial axes: after the sum */
    bool is_partial;  /* a summand along some axis */
    gy_session_part part; /* of a parameter */
} gy_file_piece;

/** Who gives values that lie on several ranks. */
typedef enum gy_file_piece_giver {
    GY_FILE_PIECE_SHARES, /* each an equal share */
    GY_FILE_PIECE_FIRST,  /* the first of them */
    GY_FILE_PIECE_ALONE,  /* this rank, which is the only one that writes */
} gy_file_piece_giver;

/** Of a parameter. */
GY_MUST_CHECK gy_status gy_file_piece_of(gy_session *session, const char *name,
                                         gy_file_piece_giver giver, gy_file_piece *piece);
/** Of a tensor that each rank has whole and rank 0 gives; pinned by the caller. */
gy_file_piece gy_file_piece_whole(const gy_view *view, bool is_given);
/** Elements [from, to) of what the ranks along Partial axes have, summed, in `window`. All of
 * these ranks call it. */
GY_MUST_CHECK gy_status gy_file_piece_complete(const gy_file_piece *piece, int64_t from,
                                               int64_t to, void *window);

static inline size_t gy_file_piece_bytes(const gy_file_piece *piece)
{
    return gy_dtype_bytes(piece->part.type.dtype);
}

#endif
