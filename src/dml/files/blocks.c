/* Binary blocks read: the head and every block are checked before a byte of them is used. */
#include "dml/files/blocks.h"

#include <assert.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "files are written as memory has them");
static_assert(sizeof(gy_dml_blocks_head) == 64, "as files have it");
static_assert(sizeof(gy_dml_block_head) == 24, "as files have it");

typedef struct block {
    gy_dml_block_head head;
    const char *payload;
    gy_status status;
    char error[256];
} block;

typedef struct blocks {
    const char *path, *at, *end;
    gy_dml_blocks_head head;
    int64_t down, across; /* blocks */
    block *items;
    gy_dml_matrix *matrix; /* or */
    gy_dml_frame *frame;
} blocks;

bool gy_dml_is_blocks(gy_dml_bytes bytes)
{
    return bytes.size >= 8 && memcmp(bytes.data, "GYBLOCKS", 8) == 0;
}

static int64_t parts_of(int64_t size, int64_t part)
{
    return size / part + (size % part != 0);
}

static gy_status take_head(blocks *of)
{
    const size_t left = (size_t)(of->end - of->at);
    if (left < sizeof(of->head) || memcmp(of->at, "GYBLOCKS", 8) != 0) {
        return gy_fail(GY_FORMAT, "%s: not binary blocks: it does not begin with GYBLOCKS",
                       of->path);
    }
    memcpy(&of->head, of->at, sizeof(of->head));
    const gy_dml_blocks_head *head = &of->head;
    if (head->version != GY_DML_BLOCKS_VERSION) {
        return gy_fail(GY_UNSUPPORTED, "%s: binary blocks of version %u, expected %d", of->path,
                       head->version, GY_DML_BLOCKS_VERSION);
    }
    if (head->description_bytes > left - sizeof(of->head)) {
        return gy_fail(GY_FORMAT, "%s: ends inside its description", of->path);
    }
    gy_hash_stream sum;
    gy_hash_begin(&sum);
    gy_hash_feed(&sum, of->at, offsetof(gy_dml_blocks_head, checksum));
    gy_hash_feed(&sum, of->at + sizeof(of->head), head->description_bytes);
    if (gy_hash_end(&sum) != head->checksum) {
        return gy_fail(GY_FORMAT, "%s: the checksum of its head is wrong", of->path);
    }
    const bool is_possible =
        head->is_frame <= 1 && head->rows >= 0 && head->columns >= 0 && head->block_rows >= 1 &&
        head->block_columns >= 1 && head->block_rows <= INT32_MAX &&
        head->block_columns <= INT32_MAX && (head->is_frame == 0 || head->block_columns == 1) &&
        head->block_rows <= UINT32_MAX / head->block_columns;
    of->at += sizeof(of->head);
    of->down = is_possible ? parts_of(head->rows, head->block_rows) : 0;
    of->across = is_possible ? parts_of(head->columns, head->block_columns) : 0;
    /* each block has a head, so that no more are there than its bytes allow */
    const size_t heads =
        (left - sizeof(of->head) - head->description_bytes) / sizeof(gy_dml_block_head);
    /* and each cell of a frame has a byte at least */
    const bool has_cells = !is_possible || head->is_frame == 0 || head->columns == 0 ||
                           head->rows <= (int64_t)left / head->columns;
    if (!is_possible || !has_cells ||
        (of->across > 0 && (uint64_t)of->down > heads / (uint64_t)of->across)) {
        return gy_fail(GY_FORMAT, "%s: %lldx%lld in blocks of %lldx%lld cannot be in %zu bytes",
                       of->path, (long long)head->rows, (long long)head->columns,
                       (long long)head->block_rows, (long long)head->block_columns, left);
    }
    return GY_OK;
}

/* A size and its bytes; size UINT32_MAX: nothing. */
static bool take_text(const char **at, const char *end, const char **text, uint32_t *size)
{
    if ((size_t)(end - *at) < sizeof(*size)) {
        return false;
    }
    memcpy(size, *at, sizeof(*size));
    *at += sizeof(*size);
    *text = *at;
    const size_t bytes = *size == UINT32_MAX ? 0 : *size;
    if ((size_t)(end - *at) < bytes) {
        return false;
    }
    *at += bytes;
    return true;
}

static gy_status make_frame(blocks *of)
{
    const char *end = of->at + of->head.description_bytes, *text = NULL;
    uint32_t size = 0;
    gy_status status = (uint64_t)of->head.columns <= of->head.description_bytes / 8
                           ? gy_dml_frame_open(of->head.rows, of->head.columns, &of->frame)
                           : gy_fail(GY_FORMAT, "%s: its description is too short", of->path);
    for (int64_t j = 0; j < of->head.columns && status == GY_OK; j++) {
        GY_ASSERT(of->frame != NULL);
        gy_dml_column_type type = GY_DML_COLUMN_STRING;
        if (!take_text(&of->at, end, &text, &size) || size == UINT32_MAX ||
            !gy_dml_column_type_parse(text, size, &type)) {
            return gy_fail(GY_FORMAT, "%s: column %lld has no type", of->path,
                           (long long)j + 1);
        }
        status = gy_dml_column_new(type, of->head.rows, &of->frame->items[j]);
        if (status == GY_OK && !take_text(&of->at, end, &text, &size)) {
            status =
                gy_fail(GY_FORMAT, "%s: column %lld has no name", of->path, (long long)j + 1);
        }
        if (status == GY_OK && size != UINT32_MAX) {
            status = gy_dml_frame_set_name(of->frame, j, text, size);
        }
    }
    of->at = end;
    return status;
}

/* Find the blocks; every byte is one's. */
static gy_status find_blocks(blocks *of)
{
    const int64_t count = of->down * of->across;
    of->items = gy_alloc_zero("dml.blocks", (size_t)count + 1, sizeof(*of->items));
    if (of->items == NULL) {
        return GY_NOMEM;
    }
    for (int64_t i = 0; i < count; i++) {
        block *b = &of->items[i];
        size_t left = (size_t)(of->end - of->at);
        if (left >= sizeof(b->head)) {
            memcpy(&b->head, of->at, sizeof(b->head));
            left -= sizeof(b->head);
        }
        if (b->head.bytes > left || of->end - of->at < (int64_t)sizeof(b->head)) {
            return gy_fail(GY_FORMAT, "%s: ends inside block %lld of %lld", of->path,
                           (long long)i + 1, (long long)count);
        }
        b->payload = of->at + sizeof(b->head);
        of->at = b->payload + b->head.bytes;
    }
    return of->at == of->end ? GY_OK
                             : gy_fail(GY_FORMAT, "%s: bytes follow its last block", of->path);
}

static gy_dml_box box_of(const blocks *of, int64_t i)
{
    const gy_dml_blocks_head *head = &of->head;
    const int64_t row = i / of->across * head->block_rows;
    const int64_t column = i % of->across * head->block_columns;
    return (gy_dml_box){row, GY_MIN(head->rows, row + head->block_rows), column,
                        GY_MIN(head->columns, column + head->block_columns)};
}

static gy_status take_dense(const blocks *of, const block *b, const gy_dml_box *box)
{
    const size_t columns = (size_t)(box->column_end - box->column);
    const size_t rows = (size_t)(box->row_end - box->row);
    if (b->head.bytes != rows * columns * sizeof(double)) {
        return gy_fail(GY_FORMAT, "%llu bytes, expected %zu", (unsigned long long)b->head.bytes,
                       rows * columns * sizeof(double));
    }
    for (size_t i = 0; i < rows; i++) {
        memcpy(&of->matrix->data[(box->row + (int64_t)i) * of->head.columns + box->column],
               b->payload + i * columns * sizeof(double), columns * sizeof(double));
    }
    return GY_OK;
}

static gy_status take_sparse(const blocks *of, const block *b, const gy_dml_box *box)
{
    const size_t columns = (size_t)(box->column_end - box->column);
    const size_t rows = (size_t)(box->row_end - box->row);
    const size_t each = sizeof(uint32_t) + sizeof(double), count = b->head.bytes / each;
    int64_t last = -1;
    if (b->head.bytes % each != 0) {
        return gy_fail(GY_FORMAT, "%llu bytes are not places and values",
                       (unsigned long long)b->head.bytes);
    }
    for (size_t i = 0; i < rows; i++) {
        memset(&of->matrix->data[(box->row + (int64_t)i) * of->head.columns + box->column], 0,
               columns * sizeof(double));
    }
    for (size_t k = 0; k < count; k++) {
        uint32_t place = 0;
        memcpy(&place, b->payload + k * sizeof(place), sizeof(place));
        if ((int64_t)place <= last || place >= rows * columns) {
            return gy_fail(GY_FORMAT, "place %u is out of order, or not below %zu", place,
                           rows * columns);
        }
        last = place;
        const int64_t i = box->row + (int64_t)(place / columns);
        memcpy(
            &of->matrix->data[i * of->head.columns + box->column + (int64_t)(place % columns)],
            b->payload + count * sizeof(place) + k * sizeof(double), sizeof(double));
    }
    return GY_OK;
}

static gy_status take_texts(const block *b, gy_dml_column *column, int64_t row, int64_t rows)
{
    const char *at = b->payload + (size_t)rows * sizeof(uint32_t);
    const char *end = b->payload + b->head.bytes;
    if (b->head.bytes < (size_t)rows * sizeof(uint32_t)) {
        return gy_fail(GY_FORMAT, "%llu bytes are too few for %lld texts",
                       (unsigned long long)b->head.bytes, (long long)rows);
    }
    for (int64_t i = 0; i < rows; i++) {
        uint32_t size = 0;
        memcpy(&size, b->payload + (size_t)i * sizeof(size), sizeof(size));
        if (size == UINT32_MAX) {
            continue;
        }
        if (size > (size_t)(end - at)) {
            return gy_fail(GY_FORMAT, "the text of row %lld is cut off",
                           (long long)(row + i) + 1);
        }
        GY_TRY(gy_dml_column_set(column, row + i, at, size));
        at += size;
    }
    return at == end ? GY_OK : gy_fail(GY_FORMAT, "bytes follow its last text");
}

static gy_status take_column(const blocks *of, const block *b, const gy_dml_box *box)
{
    gy_dml_column *column = of->frame->items[box->column];
    const int64_t rows = box->row_end - box->row;
    const gy_dml_storage storage = gy_dml_column_storage(column->type);
    if (storage == GY_DML_STORES_TEXT) {
        return take_texts(b, column, box->row, rows);
    }
    const size_t each = storage == GY_DML_STORES_TRUTH ? 1 : 8;
    if (b->head.bytes != (size_t)rows * each) {
        return gy_fail(GY_FORMAT, "%llu bytes, expected %zu", (unsigned long long)b->head.bytes,
                       (size_t)rows * each);
    }
    if (storage != GY_DML_STORES_TRUTH) {
        memcpy(&column->wholes[box->row], b->payload, b->head.bytes);
        return GY_OK;
    }
    for (int64_t i = 0; i < rows; i++) {
        column->truths[box->row + i] = b->payload[i] != 0;
    }
    return GY_OK;
}

static void take_block(void *arg, int64_t i)
{
    const blocks *of = arg;
    block *b = &of->items[i];
    const gy_dml_box box = box_of(of, i);
    if (gy_dml_block_sum(&b->head, b->payload, i) != b->head.checksum) {
        b->status = gy_fail(GY_FORMAT, "its checksum is wrong");
    } else if (b->head.zero != 0 || b->head.form > (of->frame != NULL ? 0u : 1u)) {
        b->status = gy_fail(GY_FORMAT, "form %u is unknown", b->head.form);
    } else {
        b->status = of->frame != NULL   ? take_column(of, b, &box)
                    : b->head.form == 1 ? take_sparse(of, b, &box)
                                        : take_dense(of, b, &box);
    }
    if (b->status != GY_OK) { /* the text belongs to this thread */
        gy_print(b->error, sizeof(b->error), "%s", gy_error_text());
    }
}

static gy_status parse(blocks *of)
{
    GY_TRY(take_head(of));
    if (of->head.is_frame) {
        GY_TRY(make_frame(of));
    } else {
        of->at += of->head.description_bytes;
    }
    GY_TRY(find_blocks(of)); /* before memory is taken for cells: sparse blocks are small */
    if (!of->head.is_frame) {
        GY_TRY(gy_dml_matrix_new(of->head.rows, of->head.columns, &of->matrix));
    }
    const int64_t count = of->down * of->across;
    gy_dml_each(count, take_block, of);
    for (int64_t i = 0; i < count; i++) {
        if (of->items[i].status != GY_OK) {
            const gy_dml_box box = box_of(of, i);
            return gy_fail(of->items[i].status,
                           "%s: block %lld (from row %lld, column %lld): %s", of->path,
                           (long long)i + 1, (long long)box.row + 1, (long long)box.column + 1,
                           of->items[i].error);
        }
    }
    return GY_OK;
}

gy_status gy_dml_blocks_parse(gy_dml_bytes bytes, gy_dml_value *value)
{
    blocks of = {.path = bytes.path, .at = bytes.data, .end = bytes.data + bytes.size};
    const gy_status status = parse(&of);
    gy_free(of.items);
    if (status != GY_OK) {
        gy_dml_matrix_drop(of.matrix);
        gy_dml_frame_drop(of.frame);
        return status;
    }
    *value = of.frame != NULL ? gy_dml_of_frame(of.frame) : gy_dml_of_matrix(of.matrix);
    return GY_OK;
}
