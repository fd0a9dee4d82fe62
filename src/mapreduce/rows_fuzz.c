/* Fuzz target: any bytes as rows of a table and as framed records give parts within the bytes
 * or a failure, the same at once and in small pieces, and two tables of them as one end. The
 * first two bytes: what they are, how long the pieces are.
 */
#include "mapreduce/rows.h"

#include "base/base.h"

#include <string.h>

enum { HEAD_BYTES = 2 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Bytes in pieces, each a heap copy of its own, so that a read past it is seen. */
typedef struct pieces {
    const char *at;
    size_t left, size; /* size: of a piece */
    char *piece;
} pieces;

static gy_status next_piece(void *arg, const char **data, size_t *size_bytes)
{
    pieces *from = arg;
    gy_free(from->piece);
    const size_t size = GY_MIN(from->size, from->left);
    from->piece = gy_alloc("fuzz", size);
    if (from->piece == NULL) {
        return GY_NOMEM;
    }
    memcpy(from->piece, from->at, size);
    from->at += size;
    from->left -= size;
    *data = from->piece;
    *size_bytes = size;
    return GY_OK;
}

static gy_status next_filled(void *arg, const void **data, size_t *size_bytes)
{
    const char *piece = NULL;
    GY_TRY(next_piece(arg, &piece, size_bytes));
    *data = piece;
    return GY_OK;
}

static uint64_t digest_list(const char *list, size_t size, gy_mapreduce_fold fold,
                            uint64_t digest)
{
    gy_piece piece = {.at = list, .end = list + size};
    gy_item item;
    while (gy_piece_next(&piece, fold, &item) == GY_OK) {
        digest = fold == GY_FOLD_LIST ? gy_hash(item.value, item.value_size, digest)
                                      : gy_hash(&item.number, sizeof(item.number), digest);
    }
    return digest;
}

static gy_status read_rows(pieces from, gy_mapreduce_fold fold, uint64_t *digest)
{
    gy_mapreduce_rows *rows = NULL;
    const gy_byte_source source = {.more = next_piece, .arg = &from, .name = "fuzz"};
    GY_TRY(gy_mapreduce_rows_new(source, gy_mapreduce_fold_is_list(fold), &rows));
    gy_row row;
    bool has_row = true;
    gy_status status = GY_OK;
    uint64_t last = 0;
    while ((status = gy_mapreduce_rows_next(rows, &row, &has_row)) == GY_OK && has_row) {
        GY_ASSERT(row.hash >= last);
        last = row.hash;
        *digest = gy_hash(row.key, row.key_size, *digest ^ row.hash ^ (uint64_t)row.number);
        *digest = digest_list(row.list, row.list_size, fold, *digest);
#ifdef GYRE_PLANTED_BUG
        char *small = gy_alloc("fuzz", 4); /* too small for longer keys */
        for (size_t i = 0; small != NULL && i < row.key_size; i++) {
            ((volatile char *)small)[i] = row.key[i];
        }
        gy_free(small);
#endif
    }
    gy_mapreduce_rows_free(rows);
    gy_free(from.piece);
    return status;
}

/* Both as one, to the end or a failure. */
static void read_groups(pieces one, pieces two, gy_mapreduce_fold fold)
{
    gy_mapreduce_rows *rows[2] = {NULL, NULL};
    gy_groups *groups = NULL;
    const gy_byte_source sources[] = {{next_piece, &one, "one"}, {next_piece, &two, "two"}};
    gy_status status =
        gy_mapreduce_rows_new(sources[0], gy_mapreduce_fold_is_list(fold), &rows[0]);
    if (status == GY_OK) {
        status = gy_mapreduce_rows_new(sources[1], gy_mapreduce_fold_is_list(fold), &rows[1]);
    }
    if (status == GY_OK) {
        status = gy_groups_new(rows, 2, fold, NULL, &groups);
    } else {
        gy_mapreduce_rows_free(rows[0]);
    }
    const gy_row *row;
    uint64_t sum = 0;
    for (bool has = status == GY_OK; has;) {
        has = gy_groups_next(groups, &row) == GY_OK && row != NULL;
        sum += has ? gy_hash(row->key, row->key_size, row->hash) : 0;
        const char *list = has ? row->key : NULL;
        for (size_t size = 0; has && gy_mapreduce_fold_is_list(fold) && list != NULL;) {
            has = gy_groups_list(groups, &list, &size) == GY_OK;
            sum += has && list != NULL ? digest_list(list, size, fold, sum) : 0;
        }
    }
    __asm__ volatile("" : : "r"(sum)); /* the reads count */
    gy_groups_free(groups);
    gy_free(one.piece);
    gy_free(two.piece);
}

static gy_status read_merge(const pieces *both, size_t count, gy_key_kind key, uint64_t *digest)
{
    pieces from[2] = {both[0], both[1]};
    const gy_merge_source sources[] = {{next_filled, &from[0]}, {next_filled, &from[1]}};
    const gy_sort_layout layout = {.kind = GY_LAYOUT_FRAMED, .key = key, .has_values = true};
    gy_merge *merge = NULL;
    gy_status status = gy_merge_new(&layout, sources, count, &merge);
    gy_sort_item item;
    for (bool has = status == GY_OK; has;) {
        status = gy_merge_next(merge, &item, &has);
        has = status == GY_OK && has;
        if (has) {
            *digest = gy_hash(item.key, item.key_bytes, *digest ^ item.value_bytes);
            *digest = gy_hash(item.value, item.value_bytes, *digest);
        }
    }
    gy_merge_free(merge);
    gy_free(from[0].piece);
    gy_free(from[1].piece);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const gy_mapreduce_fold folds[] = {GY_FOLD_LIST, GY_FOLD_NUMBERS, GY_FOLD_SET,
                                              GY_FOLD_SUM};
    if (size < HEAD_BYTES) {
        return 0;
    }
    const pieces whole = {
        .at = (const char *)data + HEAD_BYTES, .left = size - HEAD_BYTES, .size = size};
    pieces small = whole;
    small.size = (size_t)data[1] + 1;
    const pieces both[] = {small, whole, whole};
    uint64_t a = 0, b = 0;
    const uint8_t kind = data[0] % 7;
    gy_status once = GY_OK, often = GY_OK;
    if (kind < GY_COUNT(folds)) {
        once = read_rows(whole, folds[kind], &a);
        often = read_rows(small, folds[kind], &b);
        read_groups(small, whole, folds[kind]);
    } else {
        const gy_key_kind key = (gy_key_kind)(kind - GY_COUNT(folds));
        uint64_t merged = 0;
        once = read_merge(&both[1], 1, key, &a);
        often = read_merge(both, 1, key, &b);
        GY_ASSERT(read_merge(both, 2, key, &merged) == once);
    }
    GY_ASSERT(once == often && a == b);
    return 0;
}
