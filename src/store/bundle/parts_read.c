/* Files of bundles that stay open, of which parts of tensors are read. */
#include "store/bundle/bundle_priv.h"

#include <gyre/types.h>

#include <string.h>

static gy_status check_version(const gy_bundle *bundle)
{
    return gy_stamp_check(bundle->env, bundle->file, bundle->path, &bundle->stamp);
}

/* The header is read as any source is; the elements at offsets. */
static gy_status read_front(void *arg, void *data, size_t wanted, size_t *got)
{
    const gy_bundle *bundle = arg;
    size_t done = 0;
    while (done < wanted) {
        const int64_t size =
            gy_env_disk(bundle->env)
                ->read(bundle->env, bundle->file, (char *)data + done, wanted - done);
        if (size < 0) {
            return gy_store_file_fail("read", bundle->path, size);
        }
        if (size == 0) {
            break;
        }
        done += (size_t)size;
    }
    *got = done;
    return check_version(bundle);
}

static void close_nothing(void *arg)
{
    (void)arg;
}

static const gy_source_ops front_ops = {.read = read_front, .close = close_nothing};

static gy_status open_file(gy_bundle *bundle, gy_env *env, const char *path)
{
    gy_source *source = NULL;
    uint64_t size = 0;
    bundle->path = gy_copy_text("store.bundle", path);
    if (bundle->path == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_store_file_open(env, path, &bundle->file, &size));
    bundle->env = env;
    GY_TRY(gy_stamp_take(env, bundle->file, path, &bundle->stamp));
    GY_TRY(gy_source_over(&front_ops, bundle, size, path, GY_ENCODING_PLAIN, &source));
    gy_status status = gy_bundle_parse(source, bundle, &bundle->data_begin);
    gy_source_close(source);
    return status;
}

gy_status gy_bundle_open(gy_env *env, const char *path, gy_bundle **bundle)
{
    gy_bundle *made = NULL;
    GY_TRY(gy_bundle_new(&made));
    gy_status status = open_file(made, env, path);
    if (status < 0) {
        gy_bundle_free(made);
        return status;
    }
    *bundle = made;
    return GY_OK;
}

void gy_bundle_close(gy_bundle *bundle)
{
    if (bundle->env != NULL) {
        (void)gy_env_disk(bundle->env)->close(bundle->env, bundle->file);
        bundle->env = NULL;
    }
}

/* Elements [from, to) of the whole tensor. */
static gy_status read_range(const gy_bundle *bundle, const gy_bundle_item *item, int64_t from,
                            int64_t to, unsigned char *data)
{
    const size_t bytes = gy_bundle_element_bytes(item);
    uint64_t offset = bundle->data_begin + item->begin + (uint64_t)from * bytes;
    size_t rest = (size_t)(to - from) * bytes;
    GY_ASSERT(bundle->env != NULL);
    while (rest > 0) {
        const int64_t got =
            gy_env_disk(bundle->env)->read_at(bundle->env, bundle->file, data, rest, offset);
        if (got < 0) {
            return gy_store_file_fail("read", bundle->path, got);
        }
        if (got == 0) {
            return gy_fail(GY_FORMAT, "%s: ends at byte %llu, inside tensor '%s'", bundle->path,
                           (unsigned long long)offset, item->name);
        }
        data += got;
        offset += (uint64_t)got;
        rest -= (size_t)got;
    }
    return GY_OK;
}

gy_status gy_bundle_read_box(const gy_bundle *bundle, size_t index, const gy_box *box,
                             int64_t from, int64_t to, void *data)
{
    const gy_bundle_item *item = &bundle->items[index];
    unsigned char *at_data = data;
    int64_t run = 0;
    GY_ASSERT(index < bundle->item_count && from >= 0);
    for (int64_t at = from; at < to; at += run) {
        const int64_t first = gy_box_index(&item->shape, box, at, &run);
        run = GY_MIN(run, to - at);
        GY_TRY(read_range(bundle, item, first, first + run, at_data));
        at_data += (size_t)run * gy_bundle_element_bytes(item);
    }
    return check_version(bundle);
}

/* The sum of elements [from, to), or for the older kind the hash of all. */
static gy_status sum_range(const gy_bundle *bundle, const gy_bundle_item *item, int64_t from,
                           int64_t to, unsigned char *window, uint64_t *sum)
{
    const size_t bytes = gy_bundle_element_bytes(item);
    const int64_t window_count = (int64_t)(GY_BUNDLE_WINDOW_BYTES / bytes);
    const bool is_chained = gy_bundle_is_chained(bundle);
    gy_hash_stream chain;
    gy_hash_stream_begin(&chain, gy_bundle_seed(item));
    for (int64_t at = from; at < to; at += window_count) {
        const int64_t end = GY_MIN(at + window_count, to);
        GY_TRY(read_range(bundle, item, at, end, window));
        if (is_chained) {
            gy_hash_feed(&chain, window, (size_t)(end - at) * bytes);
        } else {
            *sum += gy_bundle_sum(item, at, window, end - at);
        }
    }
    if (is_chained) {
        *sum = gy_hash_end(&chain);
    }
    return GY_OK;
}

gy_status gy_bundle_sum_share(const gy_bundle *bundle, int share, int shares, uint64_t *sums)
{
    GY_ASSERT(share >= 0 && share < shares);
    unsigned char *window = gy_alloc("store.bundle", GY_BUNDLE_WINDOW_BYTES);
    gy_status status = window == NULL ? GY_NOMEM : GY_OK;
    const bool is_chained = gy_bundle_is_chained(bundle);
    for (size_t i = 0; status == GY_OK && i < bundle->item_count; i++) {
        const gy_bundle_item *item = &bundle->items[i];
        const int64_t count = gy_view_count(&item->shape);
        sums[i] = 0;
        if (!is_chained) {
            status = sum_range(bundle, item, gy_part_begin(count, share, shares),
                               gy_part_begin(count, share + 1, shares), window, &sums[i]);
        } else if (i % (size_t)shares == (size_t)share) { /* a chain has no parts */
            status = sum_range(bundle, item, 0, count, window, &sums[i]);
        }
    }
    gy_free(window);
    return status < 0 ? status : check_version(bundle);
}

gy_status gy_bundle_verify(gy_bundle *bundle, const uint64_t *sums)
{
    char seen[GY_BUNDLE_CHECKSUM_BYTES];
    if (gy_bundle_get(bundle, GY_BUNDLE_CHECKSUM_KEY) == NULL) {
        return GY_OK;
    }
    GY_TRY(gy_bundle_checksum_of(bundle, gy_bundle_is_chained(bundle), sums, seen));
    return gy_bundle_compare(bundle, bundle->path, seen);
}
