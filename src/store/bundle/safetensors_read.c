/*
 * Reads safetensors strictly: the whole header is checked (types, sizes, offsets that cover
 * the elements exactly, without gap or overlap) before memory is allocated for any tensor. So
 * no file makes the reader allocate more than its own size and its parsed header.
 *
 * Source: the format's description in the README of the huggingface/safetensors project.
 */
#include "store/bundle/bundle_priv.h"

#include "tensor/tensor.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, NAME_SHOWN = 64, NOTES_LIMIT = 8192 };

typedef struct entry {
    const char *name; /* owned by the JSON value */
    uint64_t begin, end;
    gy_dtype dtype;
    int rank;
    int64_t sizes[GY_TENSOR_RANK_MAX];
} entry;

typedef struct parse {
    gy_source *source;
    const char *path;
    uint64_t data_bytes; /* size of the data after the header */
    json_t *header;
    entry *entries;
    size_t entry_count;
} parse;

/* Shorten a name to one line for a message. */
static const char *shown(const char *name, char out[NAME_SHOWN])
{
    size_t i = 0;
    for (; i + 1 < NAME_SHOWN && name[i] != '\0'; i++) {
        const bool is_plain = (unsigned char)name[i] >= 0x20 && name[i] != 0x7f;
        out[i] = (char)(is_plain ? name[i] : '?');
    }
    out[i] = '\0';
    return out;
}

static gy_status read_exactly(const parse *in, void *data, size_t wanted, const char *what)
{
    const uint64_t at = gy_source_raw_at(in->source);
    size_t got = 0;
    GY_TRY(gy_source_read(in->source, data, wanted, &got));
    if (got < wanted) {
        return gy_fail(GY_FORMAT, "%s: ends at byte %llu, inside %s", in->path,
                       (unsigned long long)(at + got), what);
    }
    return GY_OK;
}

static gy_status read_header(parse *in)
{
    const uint64_t total = gy_source_bound(in->source);
    uint64_t size = 0;
    GY_TRY(read_exactly(in, &size, LENGTH_BYTES, "the length of the header"));
    if (size > GY_BUNDLE_HEADER_LIMIT) {
        return gy_fail(GY_LIMIT, "%s: a header of %llu bytes, expected at most %d", in->path,
                       (unsigned long long)size, GY_BUNDLE_HEADER_LIMIT);
    }
    if (size > total - LENGTH_BYTES) {
        return gy_fail(GY_FORMAT, "%s: a header of %llu bytes in a file of %llu", in->path,
                       (unsigned long long)size, (unsigned long long)total);
    }
    char *text = gy_alloc("store.bundle", (size_t)size);
    if (text == NULL) {
        return GY_NOMEM;
    }
    gy_status status = read_exactly(in, text, (size_t)size, "the header");
    if (status == GY_OK && (size == 0 || text[0] != '{')) {
        status = gy_fail(GY_FORMAT, "%s: the header does not begin with '{' at byte %d",
                         in->path, LENGTH_BYTES);
    }
    if (status == GY_OK) {
        json_error_t error;
        in->header = json_loadb(text, (size_t)size, JSON_REJECT_DUPLICATES, &error);
        in->data_bytes = total - LENGTH_BYTES - size;
        if (in->header == NULL) {
            char line[NAME_SHOWN];
            status = gy_fail(GY_FORMAT, "%s: header, byte %d: %s", in->path,
                             LENGTH_BYTES + error.position, shown(error.text, line));
        }
    }
    gy_free(text);
    return status;
}

static gy_status read_notes(const parse *in, json_t *notes, gy_bundle *bundle)
{
    if (!json_is_object(notes)) {
        return gy_fail(GY_FORMAT, "%s: __metadata__ is not an object", in->path);
    }
    /* limited, because each is inserted into a sorted array */
    if (json_object_size(notes) > NOTES_LIMIT) {
        return gy_fail(GY_LIMIT, "%s: %zu texts in __metadata__, expected at most %d", in->path,
                       json_object_size(notes), NOTES_LIMIT);
    }
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(notes, key, value)
    {
        if (!json_is_string(value)) {
            char line[NAME_SHOWN];
            return gy_fail(GY_FORMAT, "%s: __metadata__ of '%s' is not a text", in->path,
                           shown(key, line));
        }
        GY_TRY(gy_bundle_note_set(bundle, key, json_string_value(value)));
    }
    return GY_OK;
}

static gy_status parse_shape(const json_t *shape, entry *out)
{
    if (!json_is_array(shape) || json_array_size(shape) > GY_TENSOR_RANK_MAX) {
        return gy_fail(GY_FORMAT, "shape is not a list of 0 to %d sizes", GY_TENSOR_RANK_MAX);
    }
    out->rank = (int)json_array_size(shape);
    for (int dim = 0; dim < out->rank; dim++) {
        const json_t *size = json_array_get(shape, (size_t)dim);
        if (!json_is_integer(size) || json_integer_value(size) < 0) {
            return gy_fail(GY_FORMAT, "size %d of the shape is not a count", dim);
        }
        out->sizes[dim] = json_integer_value(size);
    }
    return GY_OK;
}

static gy_status parse_type(const json_t *type, entry *out)
{
    if (!json_is_string(type)) {
        return gy_fail(GY_FORMAT, "dtype is missing or no text");
    }
    if (!gy_bundle_dtype_parse(json_string_value(type), &out->dtype)) {
        char line[NAME_SHOWN];
        return gy_fail(GY_UNSUPPORTED, "dtype '%s', expected F64, F32, F16, BF16 or an integer",
                       shown(json_string_value(type), line));
    }
    return GY_OK;
}

static gy_status parse_entry(const json_t *value, uint64_t data_bytes, entry *out)
{
    if (!json_is_object(value) || json_object_size(value) != 3) {
        return gy_fail(GY_FORMAT, "expected an object of dtype, shape and data_offsets");
    }
    GY_TRY(parse_type(json_object_get(value, "dtype"), out));
    GY_TRY(parse_shape(json_object_get(value, "shape"), out));
    const json_t *offsets = json_object_get(value, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end)) {
        return gy_fail(GY_FORMAT, "data_offsets is not a pair of numbers");
    }
    const json_int_t first = json_integer_value(begin), last = json_integer_value(end);
    if (first < 0 || last < first || (uint64_t)last > data_bytes) {
        return gy_fail(GY_FORMAT, "data_offsets [%lld,%lld] outside the %llu bytes of data",
                       (long long)first, (long long)last, (unsigned long long)data_bytes);
    }
    out->begin = (uint64_t)first;
    out->end = (uint64_t)last;
    int64_t count = 0;
    if (gy_shape_count(out->sizes, out->rank, gy_dtype_bytes(out->dtype), &count) < 0) {
        return gy_fail_within(GY_FORMAT, "shape");
    }
    const uint64_t bytes = (uint64_t)count * gy_dtype_bytes(out->dtype);
    if (bytes != out->end - out->begin) {
        char text[GY_SHAPE_TEXT_BYTES];
        gy_view view = gy_view_of(NULL, out->dtype, out->sizes, out->rank);
        return gy_fail(GY_FORMAT, "%s takes %llu bytes, data_offsets give %llu",
                       gy_view_text(&view, text), (unsigned long long)bytes,
                       (unsigned long long)(out->end - out->begin));
    }
    return GY_OK;
}

static int by_offset(const void *a, const void *b)
{
    const entry *left = a, *right = b;
    if (left->begin != right->begin) {
        return left->begin < right->begin ? -1 : 1;
    }
    if (left->end != right->end) {
        return left->end < right->end ? -1 : 1;
    }
    return strcmp(left->name, right->name);
}

/* Sort the entries by offset and check that they cover the data exactly. */
static gy_status check_cover(parse *in)
{
    char line[NAME_SHOWN];
    uint64_t at = 0;
    qsort(in->entries, in->entry_count, sizeof(entry), by_offset);
    for (size_t i = 0; i < in->entry_count; i++) {
        const entry *here = &in->entries[i];
        if (here->begin != at) {
            return gy_fail(GY_FORMAT,
                           "%s: tensor '%s' begins at data byte %llu, expected %llu: %s",
                           in->path, shown(here->name, line), (unsigned long long)here->begin,
                           (unsigned long long)at, here->begin < at ? "an overlap" : "a gap");
        }
        at = here->end;
    }
    if (at != in->data_bytes) {
        return gy_fail(GY_FORMAT, "%s: the tensors take %llu bytes of data, the file has %llu",
                       in->path, (unsigned long long)at, (unsigned long long)in->data_bytes);
    }
    return GY_OK;
}

static gy_status parse_entries(parse *in, gy_bundle *bundle)
{
    in->entries = gy_alloc_zero("store.bundle", json_object_size(in->header), sizeof(entry));
    if (in->entries == NULL) {
        return GY_NOMEM;
    }
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach(in->header, name, value)
    {
        if (strcmp(name, "__metadata__") == 0) {
            GY_TRY(read_notes(in, value, bundle));
            continue;
        }
        entry *out = &in->entries[in->entry_count++];
        out->name = name;
        gy_status status = parse_entry(value, in->data_bytes, out);
        if (status < 0) {
            char line[NAME_SHOWN];
            return gy_fail_within(status, "%s: tensor '%s'", in->path, shown(name, line));
        }
    }
    return check_cover(in);
}

static gy_status add_items(const parse *in, gy_bundle *bundle)
{
    for (size_t i = 0; i < in->entry_count; i++) {
        const entry *from = &in->entries[i];
        const gy_view shape = gy_view_of(NULL, from->dtype, from->sizes, from->rank);
        GY_TRY(gy_bundle_append(bundle, from->name, &shape, NULL));
        bundle->items[i].begin = from->begin;
    }
    return GY_OK;
}

gy_status gy_bundle_parse(gy_source *source, gy_bundle *bundle, uint64_t *data_begin)
{
    parse in = {.source = source, .path = gy_source_name(source)};
    GY_ASSERT(!gy_source_is_packed(source) && bundle->item_count == 0);
    gy_status status = read_header(&in);
    *data_begin = gy_source_raw_at(source);
    if (status == GY_OK) {
        status = parse_entries(&in, bundle);
    }
    if (status == GY_OK) {
        status = add_items(&in, bundle);
    }
    json_decref(in.header);
    gy_free(in.entries);
    return status;
}

static gy_status read_tensors(gy_source *source, gy_pool *pool, gy_bundle *bundle)
{
    const parse in = {.source = source, .path = gy_source_name(source)};
    for (size_t i = 0; i < bundle->item_count; i++) {
        gy_bundle_item *item = &bundle->items[i];
        GY_TRY(gy_tensor_new(pool, item->shape.dtype, item->shape.sizes, item->shape.rank,
                             &item->tensor));
        gy_view view = gy_tensor_pin(item->tensor);
        gy_status status = read_exactly(&in, view.data, gy_view_bytes(&view), "the data");
        gy_tensor_unpin(item->tensor);
        GY_TRY(status);
    }
    return GY_OK;
}

gy_status gy_bundle_compare(gy_bundle *bundle, const char *path, const char *seen)
{
    const char *expected = gy_bundle_get(bundle, GY_BUNDLE_CHECKSUM_KEY);
    GY_ASSERT(expected != NULL);
    if (strcmp(seen, expected) != 0) {
        char line[NAME_SHOWN];
        return gy_fail(GY_FORMAT, "%s: damaged: checksum %s, the file says %s", path, seen,
                       shown(expected, line));
    }
    bundle->is_verified = true;
    return GY_OK;
}

static gy_status load(gy_source *source, gy_pool *pool, gy_bundle *bundle)
{
    char seen[GY_BUNDLE_CHECKSUM_BYTES];
    uint64_t data_begin = 0;
    GY_TRY(gy_bundle_parse(source, bundle, &data_begin));
    GY_TRY(read_tensors(source, pool, bundle));
    if (gy_bundle_get(bundle, GY_BUNDLE_CHECKSUM_KEY) == NULL) {
        return GY_OK;
    }
    GY_TRY(gy_bundle_checksum(bundle, gy_bundle_is_chained(bundle), seen));
    return gy_bundle_compare(bundle, gy_source_name(source), seen);
}

gy_status gy_bundle_load(gy_source *source, gy_pool *pool, gy_bundle **bundle)
{
    gy_bundle *made = NULL;
    GY_TRY(gy_bundle_new(&made));
    gy_status status = load(source, pool, made);
    if (status < 0) {
        gy_bundle_free(made);
        return status;
    }
    *bundle = made;
    return GY_OK;
}

gy_status gy_bundle_read(const char *path, gy_bundle **bundle)
{
    gy_source *source = NULL;
    GY_TRY(gy_source_open(gy_env_real(), path, GY_ENCODING_PLAIN, &source));
    gy_status status = gy_bundle_load(source, NULL, bundle);
    gy_source_close(source);
    return status;
}
