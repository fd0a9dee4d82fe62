/* Bundles: named tensors and texts in memory. */
#include "store/bundle/bundle_priv.h"

#include "tensor/tensor.h"

#include <string.h>

gy_status gy_bundle_new(gy_bundle **bundle)
{
    gy_bundle *made = gy_alloc_zero("store.bundle", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    *bundle = made;
    return GY_OK;
}

void gy_bundle_free(gy_bundle *bundle)
{
    if (bundle == NULL) {
        return;
    }
    for (size_t i = 0; i < bundle->item_count; i++) {
        gy_free(bundle->items[i].name);
        gy_tensor_drop(bundle->items[i].tensor);
    }
    for (size_t i = 0; i < bundle->note_count; i++) {
        gy_free(bundle->notes[i].key);
        gy_free(bundle->notes[i].value);
    }
    gy_bundle_close(bundle);
    gy_free(bundle->items);
    gy_free(bundle->notes);
    gy_free(bundle->path);
    gy_free(bundle);
}

/* The number of bytes that follow the first byte of a UTF-8 sequence, -1 where none may start
 * (RFC 3629). */
static int sequence_rest(unsigned char first)
{
    return first < 0x80   ? 0
           : first < 0xc2 ? -1
           : first < 0xe0 ? 1
           : first < 0xf0 ? 2
           : first < 0xf5 ? 3
                          : -1;
}

static bool is_utf8(const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at != 0; at++) {
        const int rest = sequence_rest(at[0]);
        if (rest < 0 || (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
            (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f)) {
            return false;
        }
        for (int i = 0; i < rest; i++) {
            if ((*++at & 0xc0) != 0x80) {
                return false;
            }
        }
    }
    return true;
}

gy_status gy_bundle_append(gy_bundle *bundle, const char *name, const gy_view *shape,
                           gy_tensor *tensor)
{
    GY_TRY(
        GY_GROW("store.bundle", bundle->items, bundle->item_capacity, bundle->item_count + 1));
    char *copy = gy_copy_text("store.bundle", name);
    if (copy == NULL) {
        return GY_NOMEM;
    }
    bundle->items[bundle->item_count++] =
        (gy_bundle_item){.name = copy,
                         .tensor = tensor != NULL ? gy_tensor_hold(tensor) : NULL,
                         .shape = gy_view_of(NULL, shape->dtype, shape->sizes, shape->rank)};
    return GY_OK;
}

static gy_status check_name(const gy_bundle *bundle, const char *name)
{
    size_t index = 0;
    if (name[0] == '\0' || strcmp(name, "__metadata__") == 0) {
        return gy_fail(GY_ARG, "a tensor named '%s': expected some other name", name);
    }
    if (!is_utf8(name)) {
        return gy_fail(GY_ARG, "the name of tensor %zu is not UTF-8", bundle->item_count);
    }
    if (gy_bundle_index(bundle, name, &index)) {
        return gy_fail(GY_EXISTS, "a tensor named '%s' is in the bundle already", name);
    }
    return GY_OK;
}

gy_status gy_bundle_add(gy_bundle *bundle, const char *name, gy_tensor *tensor)
{
    GY_TRY(check_name(bundle, name));
    const gy_view shape = gy_tensor_pin(tensor);
    gy_tensor_unpin(tensor);
    return gy_bundle_append(bundle, name, &shape, tensor);
}

gy_status gy_bundle_outline(gy_bundle *bundle, const char *name, gy_dtype dtype,
                            const int64_t *sizes, int rank)
{
    GY_TRY(check_name(bundle, name));
    const gy_view shape = gy_view_of(NULL, dtype, sizes, rank);
    return gy_bundle_append(bundle, name, &shape, NULL);
}

/* Find the index of `key`, or where it would be inserted; true when it exists. */
static bool find_note(const gy_bundle *bundle, const char *key, size_t *at)
{
    size_t low = 0, high = bundle->note_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(bundle->notes[middle].key, key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *at = low;
    return low < bundle->note_count && strcmp(bundle->notes[low].key, key) == 0;
}

gy_status gy_bundle_note_set(gy_bundle *bundle, const char *key, const char *value)
{
    char *value_copy = gy_copy_text("store.bundle", value);
    if (value_copy == NULL) {
        return GY_NOMEM;
    }
    size_t at = 0;
    if (find_note(bundle, key, &at)) {
        gy_free(bundle->notes[at].value);
        bundle->notes[at].value = value_copy;
        return GY_OK;
    }
    char *key_copy = gy_copy_text("store.bundle", key);
    if (key_copy == NULL || GY_GROW("store.bundle", bundle->notes, bundle->note_capacity,
                                    bundle->note_count + 1) < 0) {
        gy_free(key_copy);
        gy_free(value_copy);
        return GY_NOMEM;
    }
    memmove(&bundle->notes[at + 1], &bundle->notes[at],
            (bundle->note_count - at) * sizeof(gy_bundle_note));
    bundle->notes[at] = (gy_bundle_note){key_copy, value_copy};
    bundle->note_count++;
    return GY_OK;
}

gy_status gy_bundle_set(gy_bundle *bundle, const char *key, const char *value)
{
    if (strcmp(key, GY_BUNDLE_CHECKSUM_KEY) == 0) {
        return gy_fail(GY_ARG, "the key '%s' is set by the writer", key);
    }
    if (!is_utf8(key) || !is_utf8(value)) {
        return gy_fail(GY_ARG, "key %zu of the bundle or its text is not UTF-8",
                       bundle->note_count);
    }
    return gy_bundle_note_set(bundle, key, value);
}

const char *gy_bundle_get(const gy_bundle *bundle, const char *key)
{
    size_t at = 0;
    return find_note(bundle, key, &at) ? bundle->notes[at].value : NULL;
}

size_t gy_bundle_count(const gy_bundle *bundle)
{
    return bundle->item_count;
}

const char *gy_bundle_name(const gy_bundle *bundle, size_t index)
{
    GY_ASSERT(index < bundle->item_count);
    return bundle->items[index].name;
}

gy_tensor *gy_bundle_tensor(const gy_bundle *bundle, size_t index)
{
    GY_ASSERT(index < bundle->item_count);
    return bundle->items[index].tensor;
}

bool gy_bundle_index(const gy_bundle *bundle, const char *name, size_t *index)
{
    for (size_t i = 0; i < bundle->item_count; i++) {
        if (strcmp(bundle->items[i].name, name) == 0) {
            *index = i;
            return true;
        }
    }
    return false;
}

gy_view gy_bundle_shape(const gy_bundle *bundle, size_t index)
{
    GY_ASSERT(index < bundle->item_count);
    return bundle->items[index].shape;
}

gy_tensor *gy_bundle_find(const gy_bundle *bundle, const char *name)
{
    size_t index = 0;
    return gy_bundle_index(bundle, name, &index) ? bundle->items[index].tensor : NULL;
}

bool gy_bundle_is_verified(const gy_bundle *bundle)
{
    return bundle->is_verified;
}

gy_status gy_bundle_elements(gy_tensor *tensor, gy_bundle_use use, void *arg)
{
    gy_view view = gy_tensor_pin(tensor);
    gy_status status = GY_OK;
    if (gy_view_is_contiguous(&view)) {
        status = use(arg, view.data, gy_view_bytes(&view));
    } else {
        gy_tensor *copy = NULL;
        status = gy_tensor_new(NULL, view.dtype, view.sizes, view.rank, &copy);
        if (status == GY_OK) {
            gy_view whole = gy_tensor_pin(copy);
            status = gy_view_copy(&whole, &view);
            GY_ASSERT(status == GY_OK);
            status = use(arg, whole.data, gy_view_bytes(&whole));
            gy_tensor_unpin(copy);
            gy_tensor_drop(copy);
        }
    }
    gy_tensor_unpin(tensor);
    return status;
}
