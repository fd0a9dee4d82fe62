/*
 * Writes a bundle as safetensors: 8 bytes of header length, the header as JSON padded with
 * spaces so that the elements begin at a multiple of 8, then the elements without gaps.
 * Tensors are ordered by element size, larger first, so that each is aligned, and then by
 * name: equal bundles give equal bytes, whatever the order of insertion.
 */
#include "store/bundle/bundle_priv.h"

#include "tensor/tensor.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are written as they lie");

static const char *const type_names[GY_DTYPE_COUNT] = {
#define GY_X(name, bytes, type) [GY_##name] = #name,
    GY_DTYPE_LIST(GY_X)
#undef GY_X
};

const char *gy_bundle_dtype_name(gy_dtype dtype)
{
    GY_ASSERT(gy_dtype_is_element(dtype));
    return type_names[dtype];
}

bool gy_bundle_dtype_parse(const char *name, gy_dtype *dtype)
{
    for (int i = GY_DTYPE_NONE + 1; i < GY_DTYPE_COUNT; i++) {
        if (strcmp(name, type_names[i]) == 0) {
            *dtype = (gy_dtype)i;
            return true;
        }
    }
    return false;
}

static int file_order(const void *a, const void *b)
{
    const gy_bundle_item *left = *(gy_bundle_item *const *)a;
    const gy_bundle_item *right = *(gy_bundle_item *const *)b;
    const size_t left_bytes = gy_bundle_element_bytes(left);
    const size_t right_bytes = gy_bundle_element_bytes(right);
    if (left_bytes != right_bytes) {
        return left_bytes > right_bytes ? -1 : 1;
    }
    return strcmp(left->name, right->name);
}

/* The tensors in the order of the file; gy_free. */
static gy_bundle_item **sort_items(const gy_bundle *bundle)
{
    gy_bundle_item **order =
        gy_alloc_zero("store.bundle", bundle->item_count, sizeof(gy_bundle_item *));
    if (order != NULL) {
        for (size_t i = 0; i < bundle->item_count; i++) {
            order[i] = &bundle->items[i];
        }
        qsort(order, bundle->item_count, sizeof(gy_bundle_item *), file_order);
    }
    return order;
}

/* Names and texts are valid UTF-8, so NULL means out of memory. */
static gy_status set_new(json_t *object, const char *key, json_t *value)
{
    if (value == NULL || json_object_set_new(object, key, value) != 0) {
        return gy_fail(GY_NOMEM, "out of memory: the header of a bundle");
    }
    return GY_OK;
}

static gy_status describe_notes(const gy_bundle *bundle, const char *checksum, json_t *header)
{
    json_t *notes = json_object();
    GY_TRY(set_new(header, "__metadata__", notes));
    for (size_t i = 0; i < bundle->note_count; i++) {
        if (strcmp(bundle->notes[i].key, GY_BUNDLE_CHECKSUM_KEY) != 0) {
            GY_TRY(set_new(notes, bundle->notes[i].key, json_string(bundle->notes[i].value)));
        }
    }
    return set_new(notes, GY_BUNDLE_CHECKSUM_KEY, json_string(checksum));
}

static gy_status describe_tensor(gy_bundle_item *item, uint64_t *offset, json_t *header)
{
    const gy_view *view = &item->shape;
    const uint64_t end =
        *offset + (uint64_t)gy_view_count(view) * gy_bundle_element_bytes(item);
    json_t *entry = json_object();
    GY_TRY(set_new(header, item->name, entry));
    GY_TRY(set_new(entry, "dtype", json_string(gy_bundle_dtype_name(view->dtype))));
    json_t *shape = json_array();
    GY_TRY(set_new(entry, "shape", shape));
    for (int dim = 0; dim < view->rank; dim++) {
        if (json_array_append_new(shape, json_integer(view->sizes[dim])) != 0) {
            return gy_fail(GY_NOMEM, "out of memory: the header of a bundle");
        }
    }
    json_t *offsets = json_pack("[I,I]", (json_int_t)*offset, (json_int_t)end);
    GY_TRY(set_new(entry, "data_offsets", offsets));
    item->begin = *offset;
    *offset = end;
    return GY_OK;
}

static int append(const char *data, size_t size_bytes, void *arg)
{
    gy_text *text = arg;
    gy_text_add_bytes(text, data, size_bytes);
    return text->status == GY_OK ? 0 : -1;
}

static gy_status describe_all(gy_bundle *bundle, const char *checksum, json_t *header)
{
    uint64_t offset = 0;
    gy_bundle_item **order = sort_items(bundle);
    gy_status status = order == NULL ? GY_NOMEM : describe_notes(bundle, checksum, header);
    for (size_t i = 0; status == GY_OK && i < bundle->item_count; i++) {
        status = describe_tensor(order[i], &offset, header);
    }
    gy_free(order);
    return status;
}

gy_status gy_bundle_header(gy_bundle *bundle, const char *checksum, gy_text *out)
{
    json_t *header = json_object();
    gy_status status = header == NULL
                           ? gy_fail(GY_NOMEM, "out of memory: the header of a bundle")
                           : describe_all(bundle, checksum, header);
    if (status == GY_OK && json_dump_callback(header, append, out, JSON_COMPACT) != 0) {
        status = gy_fail(GY_NOMEM, "out of memory: the header of a bundle");
    }
    json_decref(header);
    GY_TRY(status);
    gy_text_add(out, "%*s", (int)(gy_round_up(out->size_bytes, 8) - out->size_bytes), "");
    GY_TRY(out->status);
    if (out->size_bytes > GY_BUNDLE_HEADER_LIMIT) {
        return gy_fail(GY_LIMIT, "a header of %zu bytes, expected at most %d", out->size_bytes,
                       GY_BUNDLE_HEADER_LIMIT);
    }
    return GY_OK;
}

gy_status gy_bundle_lay_out(gy_bundle *bundle, uint64_t *data_begin, uint64_t *size_bytes)
{
    char checksum[GY_BUNDLE_CHECKSUM_BYTES];
    gy_text header = {.data = NULL};
    uint64_t *none = gy_alloc_zero("store.bundle", bundle->item_count, sizeof(*none));
    gy_status status = none == NULL ? GY_NOMEM : GY_OK;
    if (status == GY_OK) {
        status = gy_bundle_checksum_of(bundle, false, none, checksum);
    }
    if (status == GY_OK) {
        status = gy_bundle_header(bundle, checksum, &header);
    }
    *data_begin = sizeof(uint64_t) + header.size_bytes;
    *size_bytes = *data_begin;
    for (size_t i = 0; i < bundle->item_count; i++) {
        *size_bytes += (uint64_t)gy_view_count(&bundle->items[i].shape) *
                       gy_bundle_element_bytes(&bundle->items[i]);
    }
    gy_text_free(&header);
    gy_free(none);
    return status;
}

static gy_status add_elements(void *arg, const void *data, size_t size_bytes)
{
    gy_writer *writer = arg;
    return gy_writer_add(writer, data, size_bytes);
}

static gy_status write_file(const gy_bundle *bundle, gy_bundle_item *const *order,
                            const gy_text *header, gy_writer *writer)
{
    const uint64_t size = header->size_bytes;
    GY_TRY(gy_writer_add(writer, &size, sizeof(size)));
    GY_TRY(gy_writer_add(writer, header->data, header->size_bytes));
    for (size_t i = 0; i < bundle->item_count; i++) {
        GY_TRY(gy_bundle_elements(order[i]->tensor, add_elements, writer));
    }
    return GY_OK;
}

gy_status gy_bundle_save(const gy_bundle *bundle, gy_env *env, const char *path)
{
    char checksum[GY_BUNDLE_CHECKSUM_BYTES];
    gy_text header = {.data = NULL};
    gy_writer *writer = NULL;
    GY_TRY(gy_bundle_checksum(bundle, false, checksum));
    gy_bundle layout = *bundle; /* its items learn where they begin */
    gy_bundle_item **order = sort_items(bundle);
    gy_status status = order == NULL ? GY_NOMEM : gy_bundle_header(&layout, checksum, &header);
    if (status == GY_OK) {
        status = gy_writer_open(env, path, &writer);
    }
    if (status == GY_OK) {
        status = write_file(bundle, order, &header, writer);
        if (status == GY_OK) {
            status = gy_writer_finish(writer);
        } else {
            gy_writer_abort(writer);
        }
    }
    gy_text_free(&header);
    gy_free(order);
    return status;
}

gy_status gy_bundle_write(const gy_bundle *bundle, const char *path)
{
    return gy_bundle_save(bundle, gy_env_real(), path);
}
