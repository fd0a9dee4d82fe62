/* Files of bundles that several processes write: each the parts of tensors that it has. */
#include "store/bundle/bundle_priv.h"

#include <stdio.h>
#include <string.h>

struct gy_bundle_writer {
    gy_bundle *bundle;
    gy_writer *file; /* NULL: this host does not see it */
    uint64_t data_begin;
    uint64_t *sums; /* (item_count) of what was given here */
};

static gy_status new_writer(gy_bundle *bundle, gy_bundle_writer **writer)
{
    gy_bundle_writer *made = gy_alloc_zero("store.bundle", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->bundle = bundle;
    made->sums = gy_alloc_zero("store.bundle", bundle->item_count, sizeof(*made->sums));
    if (made->sums == NULL) {
        gy_free(made);
        return GY_NOMEM;
    }
    *writer = made;
    return GY_OK;
}

gy_status gy_bundle_create(gy_bundle *bundle, gy_env *env, const char *path,
                           gy_bundle_writer **writer)
{
    gy_bundle_writer *made = NULL;
    uint64_t size = 0;
    GY_TRY(new_writer(bundle, &made));
    gy_status status = gy_bundle_lay_out(bundle, &made->data_begin, &size);
    if (status == GY_OK) {
        status = gy_writer_open(env, path, &made->file);
    }
    if (status == GY_OK) {
        status = gy_writer_reserve(made->file, size);
    }
    if (status < 0) {
        gy_bundle_abort(made);
        return status;
    }
    *writer = made;
    return GY_OK;
}

gy_bundle_place gy_bundle_writer_place(const gy_bundle_writer *writer)
{
    gy_bundle_place place = {.data_begin = writer->data_begin};
    const int length =
        snprintf(place.name, sizeof(place.name), "%s", gy_writer_name(writer->file));
    GY_ASSERT(length > 0 && (size_t)length < sizeof(place.name));
    return place;
}

gy_status gy_bundle_join(gy_bundle *bundle, gy_env *env, const char *path,
                         const gy_bundle_place *place, gy_bundle_writer **writer)
{
    gy_bundle_writer *made = NULL;
    uint64_t own_begin = 0, size = 0;
    GY_TRY(new_writer(bundle, &made));
    gy_status status = gy_bundle_lay_out(bundle, &own_begin, &size); /* texts may differ */
    made->data_begin = place->data_begin;
    if (status == GY_OK) {
        status = gy_writer_join(env, path, place->name, &made->file);
        status = status == GY_NOTFOUND || status == GY_IO ? GY_OK : status;
    }
    if (status < 0) {
        gy_bundle_abort(made);
        return status;
    }
    *writer = made;
    return GY_OK;
}

bool gy_bundle_writer_has_file(const gy_bundle_writer *writer)
{
    return writer->file != NULL;
}

uint64_t *gy_bundle_writer_sums(gy_bundle_writer *writer)
{
    return writer->sums;
}

gy_status gy_bundle_put(gy_bundle_writer *writer, size_t index, const gy_box *box, int64_t from,
                        int64_t to, const void *data)
{
    const gy_bundle_item *item = &writer->bundle->items[index];
    const unsigned char *at_data = data;
    int64_t run = 0;
    GY_ASSERT(index < writer->bundle->item_count && from >= 0);
    for (int64_t at = from; at < to; at += run) {
        const int64_t first = gy_box_index(&item->shape, box, at, &run);
        run = GY_MIN(run, to - at);
        GY_TRY(gy_bundle_put_range(writer, index, first, first + run, at_data));
        at_data += (size_t)run * gy_bundle_element_bytes(item);
    }
    gy_bundle_take(writer, index, box, from, to, data);
    return GY_OK;
}

void gy_bundle_take(gy_bundle_writer *writer, size_t index, const gy_box *box, int64_t from,
                    int64_t to, const void *data)
{
    const gy_bundle_item *item = &writer->bundle->items[index];
    const unsigned char *at_data = data;
    int64_t run = 0;
    for (int64_t at = from; at < to; at += run) {
        const int64_t first = gy_box_index(&item->shape, box, at, &run);
        run = GY_MIN(run, to - at);
        writer->sums[index] += gy_bundle_sum(item, first, at_data, run);
        at_data += (size_t)run * gy_bundle_element_bytes(item);
    }
}

gy_status gy_bundle_put_range(gy_bundle_writer *writer, size_t index, int64_t from, int64_t to,
                              const void *data)
{
    const gy_bundle_item *item = &writer->bundle->items[index];
    const size_t bytes = gy_bundle_element_bytes(item);
    GY_ASSERT(from >= 0 && from <= to && to <= gy_view_count(&item->shape));
    return gy_writer_put(writer->file,
                         writer->data_begin + item->begin + (uint64_t)from * bytes, data,
                         (size_t)(to - from) * bytes);
}

gy_status gy_bundle_leave(gy_bundle_writer *writer, bool is_synced)
{
    gy_status status =
        writer->file == NULL ? (gy_status)GY_OK : gy_writer_leave(writer->file, is_synced);
    writer->file = NULL;
    gy_bundle_abort(writer);
    return status;
}

static gy_status put_header(const gy_bundle_writer *writer, const uint64_t *sums)
{
    char checksum[GY_BUNDLE_CHECKSUM_BYTES];
    gy_text header = {.data = NULL};
    GY_TRY(gy_bundle_checksum_of(writer->bundle, false, sums, checksum));
    gy_status status = gy_bundle_header(writer->bundle, checksum, &header);
    const uint64_t size = header.size_bytes;
    if (status == GY_OK) {
        GY_ASSERT(sizeof(size) + size == writer->data_begin);
        status = gy_writer_put(writer->file, 0, &size, sizeof(size));
    }
    if (status == GY_OK) {
        status = gy_writer_put(writer->file, sizeof(size), header.data, header.size_bytes);
    }
    gy_text_free(&header);
    return status;
}

gy_status gy_bundle_finish(gy_bundle_writer *writer, const uint64_t *sums)
{
    gy_status status = put_header(writer, sums);
    if (status == GY_OK) {
        gy_writer *file = writer->file;
        writer->file = NULL;
        status = gy_writer_finish(file);
    }
    gy_bundle_abort(writer);
    return status;
}

void gy_bundle_abort(gy_bundle_writer *writer)
{
    if (writer != NULL) {
        gy_writer_abort(writer->file);
        gy_free(writer->sums);
        gy_free(writer);
    }
}
