/*
 * Writes a session's parameters to one file from all ranks.
 *
 *   rank 0 makes the temporary file at its full size   | all agree
 *   each rank joins and writes its ranges              | all agree
 *   the sums of all add up to the checksum
 *   rank 0 writes the header, syncs, renames           | all agree
 *
 * A rank that fails goes on with what is collective, so that none waits for it.
 */
#include "coll/coll.h"
#include "graph/files/files_priv.h"

#include <string.h>

enum { WINDOW_BYTES = 1 << 20 };

typedef struct saving {
    gy_session *session;
    gy_comm *comm; /* NULL: one rank */
    int rank, ranks;
    gy_bundle *bundle;
    gy_bundle_writer *writer;
    gy_file_piece_giver giver;     /* SHARES: every rank writes to the file */
    unsigned char *window, *other; /* WINDOW_BYTES each */
    gy_error failure;              /* this rank's first */
} saving;

static void keep(saving *s, gy_status status)
{
    GY_ASSERT(status <= 0 && s->failure.status <= 0);
    if (status < 0 && s->failure.status == GY_OK) {
        gy_error_take(&s->failure, status);
    }
}

/* The failure of any rank so far, on all; it names the rank. */
static gy_status agree(saving *s)
{
    GY_ASSERT(s->failure.status <= 0);
    return gy_session_agree_named(s->comm, gy_error_raise(&s->failure));
}

/* All parts are there before the first collective needs them. */
static gy_status make_parts(const saving *s)
{
    GY_ASSERT(s->giver != GY_FILE_PIECE_FIRST); /* nobody knows yet who sees the file */
    for (size_t i = 0; i < gy_bundle_count(s->bundle); i++) {
        gy_file_piece piece;
        if (gy_bundle_tensor(s->bundle, i) == NULL) {
            GY_TRY(
                gy_file_piece_of(s->session, gy_bundle_name(s->bundle, i), s->giver, &piece));
        }
    }
    return GY_OK;
}

static gy_status begin(saving *s, const char *path)
{
    GY_ASSERT(s->writer == NULL && s->window == NULL);
    s->window = gy_alloc("graph.files", WINDOW_BYTES);
    s->other = gy_alloc("graph.files", WINDOW_BYTES);
    if (s->window == NULL || s->other == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(make_parts(s));
    return s->rank == 0 ? gy_bundle_create(s->bundle, gy_env_real(), path, &s->writer) : GY_OK;
}

/* Every rank has a writer; where one of them does not see the file, rank 0 writes for all. */
static gy_status join(saving *s, const char *path)
{
    gy_bundle_place place = {.data_begin = 0};
    int32_t has_file = 1;
    if (s->ranks == 1) {
        return GY_OK;
    }
    GY_ASSERT((s->rank == 0) == (s->writer != NULL));
    if (s->rank == 0) {
        place = gy_bundle_writer_place(s->writer);
    }
    GY_TRY(gy_broadcast(s->comm, &place, sizeof(place), GY_U8, 0));
    if (s->rank > 0) {
        keep(s, gy_bundle_join(s->bundle, gy_env_real(), path, &place, &s->writer));
        has_file = s->writer != NULL && gy_bundle_writer_has_file(s->writer);
    }
    GY_TRY(agree(s));
    GY_TRY(gy_allreduce(s->comm, &has_file, &has_file, 1, GY_I32, GY_MIN));
    s->giver = has_file != 0 ? GY_FILE_PIECE_SHARES : GY_FILE_PIECE_FIRST;
    if (!has_file && s->rank == 0) {
        gy_debug("%s: not all ranks see this folder: rank 0 writes for them", path);
    }
    return GY_OK;
}

/* Piece of tensor `index`, which was made before; *tensor takes what is to be unpinned. */
static gy_file_piece piece_at(const saving *s, size_t index, gy_tensor **tensor)
{
    gy_file_piece piece;
    *tensor = gy_bundle_tensor(s->bundle, index);
    if (*tensor != NULL) {
        const gy_view view = gy_tensor_pin(*tensor);
        return gy_file_piece_whole(&view, s->rank == 0);
    }
    const gy_status status =
        gy_file_piece_of(s->session, gy_bundle_name(s->bundle, index), s->giver, &piece);
    GY_ASSERT(status == GY_OK);
    GY_ASSERT(piece.from >= 0 && piece.to <= piece.count);
    return piece;
}

/* ---- each rank writes ---- */

static gy_status write_sum(saving *s, size_t index, const gy_file_piece *piece)
{
    const int64_t step = (int64_t)(WINDOW_BYTES / gy_file_piece_bytes(piece));
    GY_ASSERT(piece->is_partial && step > 0);
    for (int64_t at = 0; at < piece->count; at += step) {
        const int64_t end = GY_MIN(at + step, piece->count);
        GY_TRY(gy_file_piece_complete(piece, at, end, s->window));
        if (piece->to > 0 && s->failure.status == GY_OK) {
            keep(s, gy_bundle_put(s->writer, index, &piece->box, at, end, s->window));
        }
    }
    return GY_OK;
}

/* A failure of this rank is kept; what is returned is the end of all. */
static gy_status write_piece(saving *s, size_t index)
{
    gy_tensor *pinned = NULL;
    const gy_file_piece piece = piece_at(s, index, &pinned);
    gy_status status = GY_OK;
    GY_ASSERT(s->giver != GY_FILE_PIECE_FIRST);
    if (piece.is_partial) {
        status = write_sum(s, index, &piece);
    } else if (piece.from < piece.to && s->failure.status == GY_OK) {
        keep(s, gy_bundle_put(s->writer, index, &piece.box, piece.from, piece.to,
                              piece.data + (size_t)piece.from * gy_file_piece_bytes(&piece)));
    }
    if (pinned != NULL) {
        gy_tensor_unpin(pinned);
    }
    return status;
}

/* ---- rank 0 writes for all ---- */

/* What this rank gives of elements [from, to) of the whole, at their places in the window,
 * which is zero elsewhere. *at: the first element of the piece that no window had. */
static gy_status pack(saving *s, size_t index, const gy_file_piece *piece,
                      const int64_t range[2], int64_t *at)
{
    const gy_view shape = gy_bundle_shape(s->bundle, index);
    const size_t bytes = gy_file_piece_bytes(piece);
    const int64_t end = piece->is_partial ? piece->count : piece->to;
    int64_t run = 0;
    memset(s->window, 0, (size_t)(range[1] - range[0]) * bytes);
    for (; *at < end; *at += run) {
        const int64_t first = gy_box_index(&shape, &piece->box, *at, &run);
        if (first >= range[1]) {
            break;
        }
        GY_ASSERT(first >= range[0]);
        run = GY_MIN(GY_MIN(run, end - *at), range[1] - first);
        const void *from = piece->data + (size_t)*at * bytes;
        if (piece->is_partial) {
            GY_TRY(gy_file_piece_complete(piece, *at, *at + run, s->other));
            from = s->other;
        }
        if (piece->to > 0) {
            memcpy(s->window + (size_t)(first - range[0]) * bytes, from, (size_t)run * bytes);
            gy_bundle_take(s->writer, index, &piece->box, *at, *at + run, from);
        }
    }
    return GY_OK;
}

/* One byte of the window is not zero on one rank at most: their sum is that byte. */
static gy_status send_piece(saving *s, size_t index)
{
    gy_tensor *pinned = NULL;
    const gy_file_piece piece = piece_at(s, index, &pinned);
    const gy_view shape = gy_bundle_shape(s->bundle, index);
    const size_t bytes = gy_file_piece_bytes(&piece);
    const int64_t count = gy_view_count(&shape), step = (int64_t)(WINDOW_BYTES / bytes);
    int64_t at = piece.from;
    gy_status status = GY_OK;
    GY_ASSERT(at == 0 && s->ranks > 1);
    for (int64_t from = 0; status == GY_OK && from < count; from += step) {
        const int64_t range[2] = {from, GY_MIN(from + step, count)};
        status = pack(s, index, &piece, range, &at);
        if (status == GY_OK) {
            status = gy_reduce(s->comm, s->window, s->window,
                               (size_t)(range[1] - range[0]) * bytes, GY_U8, GY_SUM, 0);
        }
        if (status == GY_OK && s->rank == 0 && s->failure.status == GY_OK) {
            keep(s, gy_bundle_put_range(s->writer, index, range[0], range[1], s->window));
        }
    }
    if (pinned != NULL) {
        gy_tensor_unpin(pinned);
    }
    return status;
}

/* ---- the end ---- */

/* What rank 0 syncs is on the disk for all ranks of its host. */
static bool must_sync(const saving *s)
{
    GY_ASSERT(s->rank > 0);
    return gy_comm_host(s->comm, s->rank) != gy_comm_host(s->comm, 0);
}

static gy_status finish(saving *s)
{
    const size_t count = gy_bundle_count(s->bundle);
    uint64_t *sums = gy_bundle_writer_sums(s->writer);
    GY_ASSERT(sums != NULL);
    if (s->ranks > 1 && count > 0) {
        GY_TRY(gy_allreduce(s->comm, sums, sums, count, GY_U64, GY_SUM));
    }
    if (s->rank > 0) { /* before rank 0 names the file */
        keep(s, gy_bundle_leave(s->writer, must_sync(s)));
        s->writer = NULL;
    }
    GY_TRY(agree(s));
    if (s->rank == 0) {
        keep(s, gy_bundle_finish(s->writer, sums));
        s->writer = NULL;
    }
    return agree(s);
}

static gy_status save(saving *s, const char *path)
{
    s->giver = s->ranks == 1 ? GY_FILE_PIECE_ALONE : GY_FILE_PIECE_SHARES;
    keep(s, begin(s, path));
    GY_TRY(agree(s));
    GY_TRY(join(s, path));
    for (size_t i = 0; i < gy_bundle_count(s->bundle); i++) {
        GY_TRY(s->giver == GY_FILE_PIECE_FIRST ? send_piece(s, i) : write_piece(s, i));
    }
    return finish(s);
}

gy_status gy_session_save(gy_session *session, gy_comm *comm, gy_bundle *bundle,
                          const char *path)
{
    saving s = {.session = session,
                .comm = comm,
                .rank = comm == NULL ? 0 : gy_comm_rank(comm),
                .ranks = comm == NULL ? 1 : gy_comm_size(comm),
                .bundle = bundle};
    GY_ASSERT(session != NULL && bundle != NULL);
    const gy_status status = save(&s, path);
    gy_bundle_abort(s.writer);
    gy_free(s.window);
    gy_free(s.other);
    return status;
}
