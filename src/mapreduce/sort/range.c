/*
 * Sorts a range of mapped records in passes: each pass takes as many of the lowest remaining
 * records as memory holds.
 *
 *   sample    |..|...|.|....|..|...|   splitters for buckets of a few thousand entries
 *   scan      every key; entries of the range go to their buckets. When no chunk is left, the
 *             highest bucket is dropped, and the pass ends below it.
 *   gather    bucket by bucket: sort in the cache, copy records to the sink
 *   repeat    from the first bucket that was dropped
 *
 * When the lowest bucket alone is too large, the range is cut in three around one of its keys:
 * below, that key (no sort: a scan writes it in the input's order), above.
 *
 * Source: sample sort, Frazer & McKellar 1970; the branch-free classification, Sanders &
 * Winkel: Super scalar sample sort, 2004.
 */
#include "mapreduce/sort/scan.h"

#include "base/base.h"

enum {
    BUCKETS_MOST = 2048,
    BUCKET_ENTRIES = 8192, /* target size of a bucket */
    POOL_SHARE_PER_CENT = 97,
    PICKS = 1024, /* records sampled to cut a bucket */
    TOGETHER = 8, /* keys that descend the tree together, to overlap latencies */
};

typedef struct sorter {
    gy_sort_gather gather;
    const gy_mapreduce_sample *sample;
    gy_entry_list *lists;             /* BUCKETS_MOST */
    uint64_t splitters[BUCKETS_MOST]; /* bucket b: splitters[b - 1] <= word < splitters[b] */
    uint64_t tree[BUCKETS_MOST];      /* the splitters in breadth-first order, from [1] */
    unsigned levels;
    size_t bucket_count;
    size_t limit;    /* buckets from here on are left for the next pass */
    size_t depth;    /* number of bytes that all keys of the range share */
    bool is_crowded; /* the lowest bucket alone is too large */
} sorter;

/* The number of bytes that all keys between the bounds share. */
static size_t shared_bytes(const gy_sort_layout *layout, const gy_sort_range_of *range)
{
    if (layout->key != GY_KEY_BYTES || range->low == NULL || range->high == NULL) {
        return 0;
    }
    const size_t most = GY_MIN(range->low->key_bytes, range->high->key_bytes);
    size_t shared = 0;
    while (shared < most && range->low->key[shared] == range->high->key[shared]) {
        shared++;
    }
    return shared;
}

static uint64_t word_at(const gy_sort_layout *layout, const gy_sort_bound *bound, size_t depth)
{
    return layout->key != GY_KEY_BYTES
               ? gy_typed_word(layout->key, bound->key)
               : gy_sort_word(bound->key + depth, bound->key_bytes - depth);
}

static void fill_tree(sorter *sort, size_t node, size_t *next)
{
    if (node >= (size_t)1 << sort->levels) {
        return;
    }
    fill_tree(sort, 2 * node, next);
    const size_t at = (*next)++;
    sort->tree[node] = at + 1 < sort->bucket_count ? sort->splitters[at] : UINT64_MAX;
    fill_tree(sort, 2 * node + 1, next);
}

/* Choose splitters from the samples in the range, and the number of buckets that should fit in
 * memory. */
static void plan_pass(sorter *sort, const gy_sort_range_of *range)
{
    const gy_sort_layout *layout = sort->gather.records->layout;
    const gy_mapreduce_sample *sample = sort->sample;
    const size_t begin =
        range->low == NULL ? 0 : gy_mapreduce_sample_find(sample, layout->key, range->low);
    const size_t end = range->high == NULL
                           ? sample->count
                           : gy_mapreduce_sample_find(sample, layout->key, range->high);
    const size_t samples = end > begin ? end - begin : 0;
    const double each =
        sample->count == 0 ? 0 : (double)sample->records / (double)sample->count;
    size_t wanted = (size_t)((double)samples * each / BUCKET_ENTRIES);
    wanted = GY_MAX(1, GY_MIN(GY_MIN(wanted, samples), BUCKETS_MOST));
    const double room =
        (double)sort->gather.chunks.limit * GY_CHUNK_ENTRIES * POOL_SHARE_PER_CENT / 100;
    sort->depth = shared_bytes(layout, range);
    sort->bucket_count = 1;
    sort->limit = 0;
    /* A splitter at the low bound's own word would leave the first bucket always empty. */
    uint64_t last = range->low == NULL ? 0 : word_at(layout, range->low, sort->depth);
    for (size_t i = 1; i < wanted; i++) {
        const size_t at = samples * i / wanted;
        const uint64_t word = word_at(layout, &sample->bounds[begin + at], sort->depth);
        /* half a chunk of each bucket is empty on average */
        if (sort->limit == 0 && (double)at * each + (double)i * GY_CHUNK_ENTRIES / 2 > room) {
            sort->limit = GY_MAX(sort->bucket_count - 1, 1);
        }
        if (word > last) {
            sort->splitters[sort->bucket_count++ - 1] = word;
            last = word;
        }
    }
    sort->limit = sort->limit == 0 ? sort->bucket_count : sort->limit;
    sort->levels = 0;
    while ((size_t)1 << sort->levels < sort->bucket_count) {
        sort->levels++;
    }
    size_t next = 0;
    fill_tree(sort, 1, &next);
}

/* Find the bucket of each word: the number of splitters that are not above it. */
static void classify(const sorter *sort, const gy_entry block[TOGETHER],
                     uint32_t buckets[TOGETHER])
{
    uint32_t node[TOGETHER];
    for (size_t i = 0; i < TOGETHER; i++) {
        node[i] = 1;
    }
    for (unsigned level = 0; level < sort->levels; level++) {
        for (size_t i = 0; i < TOGETHER; i++) {
            node[i] = 2 * node[i] + (sort->tree[node[i]] <= block[i].prefix);
        }
    }
    for (size_t i = 0; i < TOGETHER; i++) {
        const uint32_t bucket = node[i] - (1U << sort->levels);
        buckets[i] = GY_MIN(bucket, (uint32_t)sort->bucket_count - 1);
    }
}

/* Make room: drop the highest bucket that is not empty. False when it is the lowest one. */
static bool give_up(sorter *sort)
{
    do {
        if (sort->limit == 1) {
            return false;
        }
        sort->limit--;
    } while (sort->lists[sort->limit].count == 0);
    gy_entry_list_clear(&sort->gather.chunks, &sort->lists[sort->limit]);
    return true;
}

/* Put a scan's entries into their buckets; GY_LIMIT ends the scan when the lowest bucket is
 * too large. */
static gy_status collect(void *arg, gy_entry *block, size_t count)
{
    sorter *sort = arg;
    const gy_sort_records *records = sort->gather.records;
    gy_entry_chunks *chunks = &sort->gather.chunks;
    for (size_t i = 0; sort->depth > 0 && i < count; i++) {
        const gy_sort_span word =
            gy_sort_key_head(records, block[i].position, sort->depth, sizeof(uint64_t));
        block[i].prefix = gy_sort_word(word.data, word.size_bytes);
    }
    for (size_t i = 0; i < count; i += TOGETHER) {
        const size_t some = GY_MIN(count - i, TOGETHER);
        uint32_t buckets[TOGETHER];
        classify(sort, block + i, buckets);
        for (size_t j = 0; j < some; j++) {
            while (buckets[j] < sort->limit &&
                   !gy_entry_list_add(chunks, &sort->lists[buckets[j]], block[i + j],
                                      chunks->limit)) {
                if (!give_up(sort)) {
                    sort->is_crowded = true;
                    return GY_LIMIT;
                }
            }
        }
    }
    return GY_OK;
}

static gy_status copy_block(void *arg, gy_entry *block, size_t count)
{
    return gy_sort_gather_entries(arg, block, count);
}

/* Write the records of one key in the input's order. */
static gy_status copy_range(sorter *sort, const gy_sort_range_of *range)
{
    sort->gather.report->scans++;
    return gy_sort_scan(sort->gather.records, range, copy_block, &sort->gather);
}

/* A uniform random sample of a range's records. */
typedef struct picker {
    gy_entry picks[PICKS];
    uint64_t seen;
    gy_random random;
} picker;

/* Source: Vitter: Random sampling with a reservoir, 1985 (algorithm R). */
static gy_status pick(void *arg, gy_entry *block, size_t count)
{
    picker *picking = arg;
    for (size_t i = 0; i < count; i++) {
        const uint64_t at = picking->seen < PICKS
                                ? picking->seen
                                : gy_random_below(&picking->random, picking->seen + 1);
        picking->seen++;
        if (at < PICKS) {
            picking->picks[at] = block[i];
        }
    }
    return GY_OK;
}

static gy_status sort_range(sorter *sort, gy_sort_range_of range);

/* Cut the range at the median of some of its records. */
static gy_status cut_range(sorter *sort, const gy_sort_range_of *range)
{
    picker *picking = gy_alloc_zero("mapreduce.picks", 1, sizeof(*picking));
    if (picking == NULL) {
        return GY_NOMEM;
    }
    sort->gather.report->scans++;
    gy_status status = gy_sort_scan(sort->gather.records, range, pick, picking);
    const size_t picked = (size_t)GY_MIN(picking->seen, PICKS);
    uint64_t middle = 0;
    if (status == GY_OK) {
        GY_ASSERT(picked > 0); /* the range was too large */
        gy_entry *scratch = sort->gather.scratch;
        gy_mapreduce_entries_sort(sort->gather.records, picking->picks, scratch, picked, 0);
        middle = picking->picks[picked / 2].position;
    }
    gy_free(picking);
    GY_TRY(status);
    const gy_sort_item item = gy_sort_item_at(sort->gather.records, middle);
    const gy_sort_bound from = {item.key, item.key_bytes, 0};
    const gy_sort_bound to = {item.key, item.key_bytes, UINT64_MAX};
    const gy_key_kind kind = sort->gather.records->layout->key;
    const bool is_low =
        range->low != NULL && gy_sort_bound_compare(kind, range->low, &from) >= 0;
    const bool is_high =
        range->high != NULL && gy_sort_bound_compare(kind, &to, range->high) >= 0;
    if (!is_low) {
        GY_TRY(sort_range(sort, (gy_sort_range_of){range->low, &from}));
    }
    const gy_sort_range_of equal = {is_low ? range->low : &from, is_high ? range->high : &to};
    GY_TRY(copy_range(sort, &equal));
    return is_high ? GY_OK : sort_range(sort, (gy_sort_range_of){&to, range->high});
}

static bool is_one_key(const gy_sort_layout *layout, const gy_sort_range_of *range)
{
    if (range->low == NULL || range->high == NULL) {
        return false;
    }
    const gy_sort_item low = {.key = range->low->key, .key_bytes = range->low->key_bytes};
    const gy_sort_item high = {.key = range->high->key, .key_bytes = range->high->key_bytes};
    return gy_sort_key_compare(layout->key, &low, &high) == 0;
}

/*
 * The lowest bound that a splitter's bucket can contain: the bytes that all keys share, and
 * the word without trailing zeros, since these may stand for missing bytes. `key` has room for
 * depth + 8 bytes.
 */
static gy_sort_bound bound_of(const sorter *sort, const gy_sort_range_of *range, uint64_t word,
                              char *key)
{
    const gy_key_kind kind = sort->gather.records->layout->key;
    if (kind != GY_KEY_BYTES) {
        const uint64_t sign = UINT64_C(1) << 63;
        const uint64_t bits =
            kind == GY_KEY_FLOAT64 && (word & sign) == 0 ? ~word : word ^ sign;
        memcpy(key, &bits, sizeof(bits));
        return (gy_sort_bound){key, sizeof(bits), 0};
    }
    size_t size = sort->depth;
    if (size > 0) {
        memcpy(key, range->low->key, size);
    }
    for (; word != 0; word <<= 8) {
        key[size++] = (char)(word >> 56);
    }
    return (gy_sort_bound){key, size, 0};
}

/* Collect and write as many records as memory holds. `*rest` becomes the beginning of the next
 * pass, `*is_done` whether there is none. */
static gy_status sort_pass(sorter *sort, const gy_sort_range_of *range)
{
    plan_pass(sort, range);
    for (size_t i = 0; i < sort->bucket_count; i++) {
        gy_entry_list_begin(&sort->lists[i]);
    }
    sort->is_crowded = false;
    sort->gather.report->scans++;
    gy_status status = gy_sort_scan(sort->gather.records, range, collect, sort);
    for (size_t i = 0; i < sort->bucket_count; i++) {
        if (status == GY_OK && i < sort->limit && sort->lists[i].count > 0) {
            status = gy_sort_gather_list(&sort->gather, &sort->lists[i], sort->depth);
        }
        gy_entry_list_clear(&sort->gather.chunks, &sort->lists[i]);
    }
    return status;
}

static gy_status sort_range(sorter *sort, gy_sort_range_of range)
{
    char *key = NULL; /* of the low bound */
    gy_sort_bound low;
    gy_status status = GY_OK;
    while (status == GY_OK) {
        if (is_one_key(sort->gather.records->layout, &range)) {
            status = copy_range(sort, &range);
            break;
        }
        status = sort_pass(sort, &range);
        const bool is_all = sort->limit == sort->bucket_count;
        if (status != GY_OK && !sort->is_crowded) {
            break;
        }
        if (status == GY_OK && is_all) {
            break;
        }
        char *next = NULL;
        gy_sort_bound high;
        if (!is_all) {
            next = gy_alloc("mapreduce.bound", sort->depth + sizeof(uint64_t));
            if (next == NULL) {
                status = GY_NOMEM;
                break;
            }
            high = bound_of(sort, &range, sort->splitters[sort->limit - 1], next);
        }
        if (sort->is_crowded) {
            status =
                cut_range(sort, &(gy_sort_range_of){range.low, is_all ? range.high : &high});
        }
        gy_free(key);
        key = next;
        if (is_all) {
            break;
        }
        low = high;
        range.low = &low;
    }
    gy_free(key);
    return status;
}

gy_status gy_sort_range(const gy_sort_records *records, const gy_sort_range_of *range,
                        const gy_range_options *options, const gy_sort_sink *sink,
                        gy_range_report *report)
{
    const gy_sort_layout *layout = records->layout;
    GY_TRY(gy_sort_layout_check(layout));
    GY_ASSERT(layout->kind != GY_LAYOUT_FRAMED && options->sample != NULL);
    const size_t fixed = sizeof(sorter) + BUCKETS_MOST * sizeof(gy_entry_list) +
                         2 * (size_t)GY_FLAT_ENTRIES * sizeof(gy_entry) + sizeof(picker) +
                         GY_CHUNKS_SPARE * (size_t)GY_CHUNK_ENTRIES * sizeof(gy_entry);
    const size_t whole = (size_t)options->sample->records * (sizeof(gy_entry) + 1) +
                         ((size_t)GY_CHUNK_ENTRIES * BUCKETS_MOST * sizeof(gy_entry)) + fixed;
    const size_t memory =
        options->memory_bytes == 0 ? whole : GY_MIN(options->memory_bytes, whole);
    if (options->memory_bytes != 0 && options->memory_bytes < GY_RANGE_MEMORY_BYTES_MIN) {
        return gy_fail(GY_ARG, "%zu bytes of memory for sorting, expected at least %d",
                       options->memory_bytes, GY_RANGE_MEMORY_BYTES_MIN);
    }
    *report = (gy_range_report){0};
    sorter *sort = gy_alloc_zero("mapreduce.sorting", 1, sizeof(*sort));
    if (sort == NULL) {
        return GY_NOMEM;
    }
    sort->gather = (gy_sort_gather){.records = records, .sink = sink, .report = report};
    sort->sample = options->sample;
    sort->lists = gy_alloc("mapreduce.sorting", BUCKETS_MOST * sizeof(gy_entry_list));
    sort->gather.flat = gy_alloc("mapreduce.sorting", GY_FLAT_ENTRIES * sizeof(gy_entry));
    sort->gather.scratch = gy_alloc("mapreduce.sorting", GY_FLAT_ENTRIES * sizeof(gy_entry));
    gy_status status = gy_entry_chunks_init(&sort->gather.chunks, memory - fixed);
    if (sort->lists == NULL || sort->gather.flat == NULL || sort->gather.scratch == NULL) {
        status = GY_NOMEM;
    }
    if (status == GY_OK) {
        status = sort_range(sort, *range);
    }
    gy_entry_chunks_fini(&sort->gather.chunks);
    gy_free(sort->gather.flat);
    gy_free(sort->gather.scratch);
    gy_free(sort->lists);
    gy_free(sort);
    return status;
}
