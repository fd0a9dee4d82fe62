/*
 * IDX, the format of the MNIST digits: two zero bytes, a byte for the type, one for the number
 * of sizes, the sizes as 32 bits, then the elements, all big-endian. The sizes in the header
 * are checked against the source's size before memory is allocated.
 *
 * Source: LeCun, Cortes, Burges: "The MNIST database of handwritten digits", section on the
 * format.
 */
#include "store/store_priv.h"

#include "base/base.h"
#include "tensor/tensor.h"

#include <string.h>

enum { MAGIC_BYTES = 4 };

static gy_status parse_type(unsigned char code, const char *name, gy_dtype *dtype)
{
    static const struct {
        unsigned char code;
        gy_dtype dtype;
    } types[] = {{0x08, GY_U8},  {0x09, GY_I8},  {0x0b, GY_I16},
                 {0x0c, GY_I32}, {0x0d, GY_F32}, {0x0e, GY_F64}};
    for (size_t i = 0; i < GY_COUNT(types); i++) {
        if (types[i].code == code) {
            *dtype = types[i].dtype;
            return GY_OK;
        }
    }
    return gy_fail(GY_FORMAT,
                   "%s: IDX element type 0x%02x at byte 2, expected 08, 09, 0b, 0c, 0d or 0e",
                   name, code);
}

static gy_status read_header_part(gy_source *source, void *data, size_t wanted)
{
    size_t got = 0;
    GY_TRY(gy_source_read(source, data, wanted, &got));
    if (got < wanted) {
        return gy_fail(GY_FORMAT, "%s: ends inside the IDX header", gy_source_name(source));
    }
    return GY_OK;
}

static gy_status read_header(gy_source *source, gy_dtype *dtype, int *rank,
                             int64_t sizes[GY_TENSOR_RANK_MAX])
{
    const char *name = gy_source_name(source);
    unsigned char magic[MAGIC_BYTES];
    GY_TRY(read_header_part(source, magic, sizeof(magic)));
    if (magic[0] != 0 || magic[1] != 0) {
        return gy_fail(GY_FORMAT, "%s: not IDX: begins with %02x %02x, expected 00 00", name,
                       magic[0], magic[1]);
    }
    GY_TRY(parse_type(magic[2], name, dtype));
    if (magic[3] < 1 || magic[3] > GY_TENSOR_RANK_MAX) {
        return gy_fail(GY_FORMAT, "%s: %d sizes at byte 3, expected 1 to %d", name, magic[3],
                       GY_TENSOR_RANK_MAX);
    }
    *rank = magic[3];
    for (int dim = 0; dim < *rank; dim++) {
        unsigned char raw[4];
        GY_TRY(read_header_part(source, raw, sizeof(raw)));
        sizes[dim] =
            (int64_t)raw[0] << 24 | (int64_t)raw[1] << 16 | (int64_t)raw[2] << 8 | raw[3];
    }
    return GY_OK;
}

/* The number of bytes after the header, checked against what the source can have. */
static gy_status check_size(const gy_source *source, const gy_view *shape, uint64_t limit_bytes)
{
    const char *name = gy_source_name(source);
    char text[GY_SHAPE_TEXT_BYTES];
    const uint64_t wanted = gy_view_bytes(shape);
    const uint64_t header = MAGIC_BYTES + 4 * (uint64_t)shape->rank;
    if (wanted > limit_bytes) {
        return gy_fail(GY_LIMIT, "%s: the header says %s, %llu bytes, expected at most %llu",
                       name, gy_view_text(shape, text), (unsigned long long)wanted,
                       (unsigned long long)limit_bytes);
    }
    if (gy_source_bound(source) < header + wanted) {
        return gy_fail(GY_FORMAT,
                       "%s: the header says %s, %llu bytes in all, but there are %s%llu", name,
                       gy_view_text(shape, text), (unsigned long long)(header + wanted),
                       gy_source_is_packed(source) ? "at most " : "",
                       (unsigned long long)gy_source_bound(source));
    }
    return GY_OK;
}

static void swap_bytes(void *data, int64_t count, size_t item_bytes)
{
    unsigned char *at = data;
    for (int64_t i = 0; i < count; i++, at += item_bytes) {
        for (size_t low = 0, high = item_bytes - 1; low < high; low++, high--) {
            unsigned char byte = at[low];
            at[low] = at[high];
            at[high] = byte;
        }
    }
}

static gy_status read_elements(gy_source *source, const gy_view *view)
{
    const char *name = gy_source_name(source);
    char text[GY_SHAPE_TEXT_BYTES];
    const size_t wanted = gy_view_bytes(view);
    size_t got = 0, more = 0;
    GY_TRY(gy_source_read(source, view->data, wanted, &got));
    if (got < wanted) {
        return gy_fail(GY_FORMAT, "%s: the header says %s, %zu bytes, but only %zu follow it",
                       name, gy_view_text(view, text), wanted, got);
    }
    char beyond = 0; /* this read also makes gzip check its trailer */
    GY_TRY(gy_source_read(source, &beyond, 1, &more));
    if (more > 0) {
        return gy_fail(GY_FORMAT, "%s: the header says %s, but bytes follow after its %zu",
                       name, gy_view_text(view, text), wanted);
    }
    swap_bytes(view->data, gy_view_count(view), gy_dtype_bytes(view->dtype));
    return GY_OK;
}

gy_status gy_store_idx_read(gy_source *source, gy_pool *pool, uint64_t limit_bytes,
                            gy_tensor **tensor)
{
    gy_dtype dtype = GY_U8;
    int rank = 0;
    int64_t sizes[GY_TENSOR_RANK_MAX] = {0};
    int64_t count = 0;
    GY_TRY(read_header(source, &dtype, &rank, sizes));
    gy_status status = gy_shape_count(sizes, rank, gy_dtype_bytes(dtype), &count);
    if (status < 0) {
        return gy_fail_within(GY_FORMAT, "%s: IDX header", gy_source_name(source));
    }
    gy_view shape = gy_view_of(NULL, dtype, sizes, rank);
    GY_TRY(check_size(source, &shape, limit_bytes));
    gy_tensor *made = NULL;
    GY_TRY(gy_tensor_new(pool, dtype, sizes, rank, &made));
    gy_view view = gy_tensor_pin(made);
    status = read_elements(source, &view);
    gy_tensor_unpin(made);
    if (status < 0) {
        gy_tensor_drop(made);
        return status;
    }
    *tensor = made;
    return GY_OK;
}

gy_status gy_read_idx(const char *path, gy_tensor **tensor)
{
    gy_source *source = NULL;
    GY_TRY(gy_source_open(gy_env_real(), path, GY_ENCODING_AUTO, &source));
    gy_status status = gy_store_idx_read(source, NULL, GY_IDX_LIMIT, tensor);
    gy_source_close(source);
    return status;
}
