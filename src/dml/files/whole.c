/* A large plain file in memory, read on all cores: that makes its pages and copies into them,
 * which one core does no faster than it parses. */
#include "dml/files/files_priv.h"

#include <stdatomic.h>

enum { PIECE_BYTES = 4 << 20, LARGE_BYTES = 4 * PIECE_BYTES };

typedef struct reading {
    int file;
    char *data;
    uint64_t size;
    _Atomic int64_t failure; /* a negated errno */
    atomic_bool is_cut;      /* it has become shorter */
} reading;

static void read_piece(void *arg, int64_t i)
{
    reading *r = arg;
    gy_env *env = gy_env_real();
    uint64_t at = (uint64_t)i * PIECE_BYTES;
    const uint64_t end = GY_MIN(at + PIECE_BYTES, r->size);
    while (at < end) {
        const int64_t got =
            gy_env_disk(env)->read_at(env, r->file, r->data + at, (size_t)(end - at), at);
        if (got <= 0) {
            /* relaxed: both are read after the threads are joined */
            atomic_store_explicit(&r->is_cut, true, memory_order_relaxed);
            atomic_store_explicit(&r->failure, got, memory_order_relaxed);
            return;
        }
        at += (uint64_t)got;
    }
}

static gy_status read_pieces(reading *r, const char *path, bool is_expanded)
{
    char head[GY_FORMAT_HEAD_BYTES];
    const int64_t got =
        gy_env_disk(gy_env_real())->read_at(gy_env_real(), r->file, head, sizeof(head), 0);
    if (r->size < LARGE_BYTES || got != (int64_t)sizeof(head) ||
        (is_expanded && gy_store_format_is_packed(GY_ENCODING_AUTO, head, sizeof(head)))) {
        return GY_AGAIN;
    }
    if (is_expanded) {
        GY_TRY(gy_store_format_check_text(path, false, head, sizeof(head)));
    }
    r->data = gy_alloc("dml.file", (size_t)r->size + 1);
    if (r->data == NULL) {
        return GY_NOMEM;
    }
    r->data[r->size] = '\0';
    gy_dml_each((int64_t)((r->size + PIECE_BYTES - 1) / PIECE_BYTES), read_piece, r);
    if (atomic_load_explicit(&r->failure, memory_order_relaxed) < 0) {
        return gy_store_file_fail("read", path, r->failure);
    }
    return atomic_load_explicit(&r->is_cut, memory_order_relaxed)
               ? gy_fail(GY_STATE, "%s became shorter while it was read", path)
               : GY_OK;
}

gy_status gy_dml_read_large(const char *path, bool is_expanded, char **data, size_t *size)
{
    gy_env *env = gy_env_real();
    reading r = {.file = -1};
    GY_TRY(gy_store_file_open(env, path, &r.file, &r.size));
    const gy_status status = read_pieces(&r, path, is_expanded);
    (void)gy_env_disk(env)->close(env, r.file);
    if (status != GY_OK) {
        gy_free(r.data);
        return status;
    }
    *data = r.data;
    *size = (size_t)r.size;
    return GY_OK;
}
