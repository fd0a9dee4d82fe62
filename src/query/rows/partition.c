/* Partitions of frames: by hash, by ranges of keys, and samples from which ranges are cut. */
#include "query/rows/rows_priv.h"

#include "mapreduce/hash.h"
#include "mapreduce/sort.h"

/* A row of each part. */
enum { ALL_PARTS = -1 };

/* Rows by their parts, each in its order. `ends`: (parts + 1) zero, become the parts' ends;
 * `order`: (rows + copies (parts - 1)) */
static void order_by_part(const int32_t *part_of, int64_t rows, int parts, int64_t *ends,
                          int32_t *order)
{
    int64_t copied = 0;
    for (int64_t i = 0; i < rows; i++) {
        GY_CHECK_DEEP(part_of[i] >= ALL_PARTS && part_of[i] < parts);
        copied += part_of[i] == ALL_PARTS;
        ends[part_of[i] + 1] += part_of[i] != ALL_PARTS;
    }
    for (int p = 0; p < parts; p++) {
        ends[p + 1] += ends[p] + copied;
    }
    for (int64_t i = 0; i < rows; i++) {
        for (int p = 0; part_of[i] == ALL_PARTS && p < parts; p++) {
            order[ends[p]++] = (int32_t)i;
        }
        if (part_of[i] != ALL_PARTS) {
            order[ends[part_of[i]]++] = (int32_t)i;
        }
    }
}

/* Rows by their part, `copies` of them in all parts: one frame each. */
static gy_status gather_parts(const gy_frame *frame, const int32_t *part_of, int64_t copies,
                              int parts, gy_frame **out)
{
    const int64_t rows = gy_frame_rows(frame);
    const size_t places = (size_t)(rows + copies * (parts - 1));
    int64_t *ends = gy_alloc_zero("query.parts", (size_t)parts + 1, sizeof(*ends));
    int32_t *order = gy_alloc("query.parts", (places + 1) * sizeof(*order));
    gy_status status = ends == NULL || order == NULL ? GY_NOMEM : GY_OK;
    int made = 0;
    if (status == GY_OK) {
        order_by_part(part_of, rows, parts, ends, order);
    }
    while (made < parts && status == GY_OK) {
        const int64_t begin = made == 0 ? 0 : ends[made - 1];
        status = gy_rows_gather(frame, order + begin, ends[made] - begin, &out[made]);
        made += status == GY_OK;
    }
    for (int p = 0; p < made && status < 0; p++) {
        gy_frame_drop(out[p]);
    }
    gy_free(ends);
    gy_free(order);
    return status;
}

/* ---- by hash ---- */

static bool is_hot(const gy_rows_hot *hot, uint64_t hash)
{
    size_t low = 0, high = hot->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (hot->hashes[middle] < hash) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < hot->count && hot->hashes[low] == hash;
}

gy_status gy_rows_partition_hot(const gy_frame *frame, const int *keys, int key_count,
                                int parts, gy_rows_hot *hot, gy_frame **out)
{
    const int64_t rows = gy_frame_rows(frame);
    GY_ASSERT(parts > 0);
    uint64_t *hashes = gy_alloc("query.hashes", ((size_t)rows + 1) * sizeof(*hashes));
    int32_t *part_of = gy_alloc("query.parts", ((size_t)rows + 1) * sizeof(*part_of));
    gy_status status = hashes == NULL || part_of == NULL ? GY_NOMEM : GY_OK;
    if (status == GY_OK) {
        int64_t copies = 0;
        gy_rows_hash(frame, keys, key_count, hashes);
        for (int64_t i = 0; i < rows; i++) {
            part_of[i] = (int32_t)gy_hash_partition(hashes[i], (uint32_t)parts);
            if (hot->count > 0 && is_hot(hot, hashes[i])) {
                part_of[i] =
                    hot->is_copied ? ALL_PARTS : (int32_t)(hot->next++ % (uint64_t)parts);
                copies += hot->is_copied;
            }
        }
        status = gather_parts(frame, part_of, copies, parts, out);
    }
    gy_free(hashes);
    gy_free(part_of);
    return status;
}

gy_status gy_rows_partition_hash(const gy_frame *frame, const int *keys, int key_count,
                                 int parts, gy_frame **out)
{
    gy_rows_hot none = {.count = 0};
    return gy_rows_partition_hot(frame, keys, key_count, parts, &none, out);
}

enum { HOT_ROWS_MIN = 8 };

gy_status gy_rows_find_hot(const gy_frame *sample, const int *keys, int key_count,
                           const int64_t *weights, int parts, gy_rows_hot *hot)
{
    const size_t rows = (size_t)gy_frame_rows(sample);
    uint64_t *hashes = gy_alloc("query.hot", (rows + 1) * sizeof(*hashes));
    gy_entry *entries = gy_alloc("query.hot", (rows + 1) * sizeof(*entries));
    gy_entry *scratch = gy_alloc("query.hot", (rows + 1) * sizeof(*scratch));
    const bool has_memory = hashes != NULL && entries != NULL && scratch != NULL;
    double all = 0;
    *hot = (gy_rows_hot){.hashes = hashes};
    if (has_memory) {
        gy_rows_hash(sample, keys, key_count, hashes);
        for (size_t i = 0; i < rows; i++) {
            entries[i] = (gy_entry){.prefix = hashes[i], .position = i};
            all += (double)weights[i];
        }
        gy_mapreduce_entries_sort_words(entries, scratch, rows);
    }
    for (size_t begin = 0, end = 0; has_memory && begin < rows; begin = end) {
        double own = 0;
        while (end < rows && entries[end].prefix == entries[begin].prefix) {
            own += (double)weights[entries[end++].position];
        }
        if (end - begin >= HOT_ROWS_MIN && own * 2 * parts > all) {
            hashes[hot->count++] = entries[begin].prefix; /* all were read */
        }
    }
    gy_free(entries);
    gy_free(scratch);
    if (!has_memory) {
        gy_free(hashes);
        hot->hashes = NULL;
    }
    return has_memory ? GY_OK : GY_NOMEM;
}

static int compare_keys(const gy_rows_order_keys *a, int64_t row, const gy_rows_order_keys *b,
                        int64_t other)
{
    return gy_sort_bytes_compare(
        a->bytes + a->starts[row], (size_t)(a->starts[row + 1] - a->starts[row]),
        b->bytes + b->starts[other], (size_t)(b->starts[other + 1] - b->starts[other]));
}

/* How many bounds are not above a row. */
static int32_t part_of_key(const gy_rows_order_keys *keys, int64_t row,
                           const gy_rows_order_keys *bounds)
{
    int64_t low = 0, high = bounds->rows;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (compare_keys(bounds, middle, keys, row) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (int32_t)low;
}

/* The same keys, of a frame that has nothing else. */
static gy_rows_sort_key *keys_alone(const gy_rows_sort_key *keys, int key_count)
{
    gy_rows_sort_key *alone = gy_alloc("query.keys", ((size_t)key_count + 1) * sizeof(*alone));
    for (int k = 0; k < key_count && alone != NULL; k++) {
        alone[k] = keys[k];
        alone[k].column = k;
    }
    return alone;
}

gy_status gy_rows_partition_range(const gy_frame *frame, const gy_rows_sort_key *keys,
                                  int key_count, const gy_frame *bounds, gy_frame **out)
{
    const int64_t rows = gy_frame_rows(frame);
    gy_rows_order_keys mine = {.rows = 0}, theirs = {.rows = 0};
    gy_rows_sort_key *alone = keys_alone(keys, key_count);
    int32_t *part_of = gy_alloc("query.parts", ((size_t)rows + 1) * sizeof(*part_of));
    gy_status status = alone == NULL || part_of == NULL ? GY_NOMEM : GY_OK;
    if (status == GY_OK) {
        status = gy_rows_order_encode(frame, keys, key_count, &mine);
    }
    if (status == GY_OK) {
        status = gy_rows_order_encode(bounds, alone, key_count, &theirs);
    }
    if (status == GY_OK) {
        for (int64_t i = 0; i < rows; i++) {
            part_of[i] = part_of_key(&mine, i, &theirs);
        }
        status = gather_parts(frame, part_of, 0, (int)gy_frame_rows(bounds) + 1, out);
    }
    gy_rows_order_keys_free(&mine);
    gy_rows_order_keys_free(&theirs);
    gy_free(alone);
    gy_free(part_of);
    return status;
}

/* ---- samples ---- */

struct gy_rows_sampler {
    gy_schema *schema; /* of the key columns */
    int *columns;
    int key_count;
    int64_t rows_max;
    uint64_t seed, seen;
    uint64_t most;     /* rows whose number drawn is not below this one are left out */
    gy_rows_list list; /* of rows that were drawn */
    gy_entry *drawn;   /* (list.rows) the number drawn, and the row */
    size_t capacity;
};

gy_status gy_rows_sampler_new(gy_schema *schema, const gy_rows_sort_key *keys, int key_count,
                              int rows_max, uint64_t seed, gy_rows_sampler **sampler)
{
    GY_ASSERT(rows_max > 0);
    gy_rows_sampler *made = gy_alloc_zero("query.sampler", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->rows_max = rows_max;
    made->seed = seed;
    made->most = UINT64_MAX;
    made->key_count = key_count;
    made->columns = gy_alloc_zero("query.sampler", (size_t)key_count + 1, sizeof(int));
    gy_status status = made->columns == NULL ? GY_NOMEM : GY_OK;
    for (int k = 0; k < key_count && status == GY_OK; k++) {
        made->columns[k] = keys[k].column;
    }
    if (status == GY_OK) {
        status = gy_rows_check_columns(schema, made->columns, key_count, "key");
    }
    if (status == GY_OK) {
        status = gy_rows_schema_of(schema, NULL, made->columns, key_count, &made->schema);
    }
    if (status < 0) {
        gy_rows_sampler_free(made);
        return status;
    }
    *sampler = made;
    return GY_OK;
}

void gy_rows_sampler_free(gy_rows_sampler *sampler)
{
    if (sampler == NULL) {
        return;
    }
    gy_rows_list_free(&sampler->list);
    gy_schema_drop(sampler->schema);
    gy_free(sampler->columns);
    gy_free(sampler->drawn);
    gy_free(sampler);
}

static int order_of_rows(const void *a, const void *b)
{
    const gy_entry *x = a, *y = b;
    return (x->position > y->position) - (x->position < y->position);
}

/* Keep the rows_max rows with the least numbers, in the order in which they came. */
static gy_status cut(gy_rows_sampler *it)
{
    const size_t rows = (size_t)it->list.rows;
    const size_t kept = (size_t)GY_MIN(it->list.rows, it->rows_max);
    gy_entry *scratch = gy_alloc("query.sampler", (rows + 1) * sizeof(*scratch));
    int32_t *chosen = gy_alloc("query.sampler", (kept + 1) * sizeof(*chosen));
    gy_frame *all = NULL, *less = NULL;
    gy_status status = scratch == NULL || chosen == NULL ? GY_NOMEM : GY_OK;
    if (status == GY_OK) {
        status = gy_rows_concat(it->schema, it->list.frames, it->list.count, &all);
    }
    if (status == GY_OK) {
        gy_mapreduce_entries_sort_words(it->drawn, scratch, rows);
        it->most = kept == (size_t)it->rows_max ? it->drawn[kept - 1].prefix : UINT64_MAX;
        qsort(it->drawn, kept, sizeof(*it->drawn), order_of_rows);
        for (size_t i = 0; i < kept; i++) {
            chosen[i] = (int32_t)it->drawn[i].position;
            it->drawn[i].position = i;
        }
        status = gy_rows_gather(all, chosen, (int64_t)kept, &less);
    }
    if (status == GY_OK) {
        gy_rows_list_free(&it->list);
        status = gy_rows_list_add(&it->list, less);
    }
    gy_frame_drop(all);
    gy_free(scratch);
    gy_free(chosen);
    return status;
}

gy_status gy_rows_sampler_add(gy_rows_sampler *it, const gy_frame *frame)
{
    const int64_t rows = gy_frame_rows(frame);
    int32_t *chosen = gy_alloc("query.sampler", ((size_t)rows + 1) * sizeof(*chosen));
    if (chosen == NULL) {
        return GY_NOMEM;
    }
    gy_status status =
        GY_GROW("query.sampler", it->drawn, it->capacity, (size_t)(it->list.rows + rows) + 1);
    int64_t count = 0;
    for (int64_t i = 0; i < rows && status == GY_OK; i++) {
        uint32_t words[4];
        gy_philox(it->seed, 0, it->seen + (uint64_t)i, words);
        const uint64_t number = (uint64_t)words[0] << 32 | words[1];
        if (number < it->most) {
            const uint64_t at = (uint64_t)(it->list.rows + count);
            it->drawn[at] = (gy_entry){.prefix = number, .position = at};
            chosen[count++] = (int32_t)i;
        }
    }
    it->seen += (uint64_t)rows;
    gy_frame *keys = NULL, *drawn = NULL;
    if (status == GY_OK) {
        status = gy_frame_select(frame, it->columns, it->key_count, &keys);
    }
    if (status == GY_OK) {
        status = gy_rows_gather(keys, chosen, count, &drawn);
    }
    if (status == GY_OK) {
        status = gy_rows_list_add(&it->list, drawn);
    }
    gy_frame_drop(keys);
    gy_free(chosen);
    return status == GY_OK && it->list.rows > 2 * it->rows_max ? cut(it) : status;
}

gy_status gy_rows_sampler_take(gy_rows_sampler *it, gy_frame **sample)
{
    GY_TRY(cut(it));
    *sample = gy_frame_hold(it->list.frames[0]);
    return GY_OK;
}

gy_status gy_rows_bounds(const gy_frame *sample, const int64_t *weights,
                         const gy_rows_sort_key *keys, int key_count, int parts,
                         gy_frame **bounds)
{
    const int64_t rows = gy_frame_rows(sample);
    GY_ASSERT(parts > 0);
    gy_rows_order_keys encoded = {.rows = 0};
    int32_t *order = gy_alloc("query.bounds", ((size_t)rows + 1) * sizeof(*order));
    int32_t *chosen = gy_alloc("query.bounds", (size_t)parts * sizeof(*chosen));
    gy_status status = order == NULL || chosen == NULL ? GY_NOMEM : GY_OK;
    if (status == GY_OK) {
        status = gy_rows_order(sample, keys, key_count, order);
    }
    if (status == GY_OK) {
        status = gy_rows_order_encode(sample, keys, key_count, &encoded);
    }
    double all = 0, before_row = 0;
    for (int64_t i = 0; i < rows; i++) {
        all += weights != NULL ? (double)weights[i] : 1;
    }
    int64_t count = 0, at = 0;
    for (int p = 1; p < parts && rows > 0 && status == GY_OK; p++) {
        while (at + 1 < rows) { /* to the row that has the p-th cut of all weights */
            const double own = weights != NULL ? (double)weights[order[at]] : 1;
            if (before_row + own > all * p / parts) {
                break;
            }
            before_row += own;
            at++;
        }
        const int32_t row = order[at];
        /* a bound that is the one before, or the least key, would leave a part empty */
        const int32_t before = count == 0 ? order[0] : chosen[count - 1];
        if (compare_keys(&encoded, before, &encoded, row) < 0) {
            chosen[count++] = row;
        }
    }
    if (status == GY_OK) {
        status = gy_rows_gather(sample, chosen, count, bounds);
    }
    gy_rows_order_keys_free(&encoded);
    gy_free(order);
    gy_free(chosen);
    return status;
}

/* ---- order by several workers ---- */

enum {
    SORT_ROWS_MIN = 16 << 10, /* fewer are sorted by one worker */
    SORT_RANGE = 16 << 10,    /* rows that are classed at once */
    SORT_PARTS = 4,           /* of a worker */
    SORT_PARTS_MOST = 64,
    SORT_SAMPLE = 64, /* of a part */
    SORT_CLASSES = 2 * SORT_PARTS_MOST,
};

/*
 * Rows are classed by bounds from a sample: class 2i is below bound i and above the one before,
 * class 2i + 1 equal to it, and thus sorted, however many rows have that key. Rows keep their
 * order in each class; all classes are sorted at once.
 */
typedef struct sorting {
    gy_frame *frame;        /* of keys alone */
    gy_rows_sort_key *keys; /* (key_count) of it */
    int key_count;
    int64_t rows, ranges, classes;
    gy_rows_order_keys bounds;
    uint8_t *class_of; /* (rows) */
    int64_t *begins;   /* (ranges, SORT_CLASSES) where a range's rows of a class begin */
    int32_t *ids;      /* (rows) by class */
    int32_t *order;    /* (rows) */
} sorting;

static gy_status class_range(void *arg, int64_t range)
{
    const sorting *in = arg;
    const int64_t begin = range * SORT_RANGE;
    const int64_t end = GY_MIN(in->rows, begin + SORT_RANGE);
    gy_rows_order_keys encoded = {.rows = 0};
    gy_frame *piece = NULL;
    GY_TRY(gy_frame_slice(in->frame, begin, end, &piece));
    const gy_status status = gy_rows_order_encode(piece, in->keys, in->key_count, &encoded);
    for (int64_t i = 0; i < end - begin && status == GY_OK; i++) {
        const int32_t part = part_of_key(&encoded, i, &in->bounds); /* bounds not above it */
        const bool is_bound = part > 0 && compare_keys(&in->bounds, part - 1, &encoded, i) == 0;
        const uint8_t class = (uint8_t)(2 * part - (is_bound ? 1 : 0));
        in->class_of[begin + i] = class;
        in->begins[range * SORT_CLASSES + class]++;
    }
    gy_rows_order_keys_free(&encoded);
    gy_frame_drop(piece);
    return status;
}

static void place_ranges(void *arg, int64_t begin, int64_t end)
{
    const sorting *in = arg;
    for (int64_t range = begin; range < end; range++) {
        int64_t *at = in->begins + range * SORT_CLASSES;
        const int64_t last = GY_MIN(in->rows, (range + 1) * (int64_t)SORT_RANGE);
        for (int64_t row = range * SORT_RANGE; row < last; row++) {
            in->ids[at[in->class_of[row]]++] = (int32_t)row;
        }
    }
}

static gy_status sort_class(void *arg, int64_t class)
{
    const sorting *in = arg;
    const int64_t *ends = in->begins + (in->ranges - 1) * SORT_CLASSES;
    const int64_t begin = class == 0 ? 0 : ends[class - 1], rows = ends[class] - begin;
    const int32_t *ids = in->ids + begin;
    int32_t *order = in->order + begin;
    if ((class & 1) != 0 || rows < 2) {
        memcpy(order, ids, (size_t)rows * sizeof(*order));
        return GY_OK;
    }
    gy_frame *some = NULL;
    GY_TRY(gy_rows_gather(in->frame, ids, rows, &some));
    const gy_status status = gy_rows_order(some, in->keys, in->key_count, order);
    for (int64_t i = 0; i < rows && status == GY_OK; i++) {
        order[i] = ids[order[i]];
    }
    gy_frame_drop(some);
    return status;
}

static gy_status find_bounds(sorting *in, int parts)
{
    const int64_t count = GY_MIN(in->rows, (int64_t)parts * SORT_SAMPLE);
    int32_t *chosen = gy_alloc("query.sample", ((size_t)count + 1) * sizeof(*chosen));
    gy_frame *sample = NULL, *bounds = NULL;
    gy_status status = chosen == NULL ? GY_NOMEM : GY_OK;
    for (int64_t i = 0; i < count && status == GY_OK; i++) {
        uint32_t words[4]; /* one of each stretch, by chance: rows may repeat in any period */
        gy_philox(0, 0, (uint64_t)i, words);
        const int64_t begin = in->rows * i / count, end = in->rows * (i + 1) / count;
        chosen[i] = (int32_t)(begin + (int64_t)(words[0] % (uint64_t)(end - begin)));
    }
    if (status == GY_OK) {
        status = gy_rows_gather(in->frame, chosen, count, &sample);
    }
    if (status == GY_OK) {
        status = gy_rows_bounds(sample, NULL, in->keys, in->key_count, parts, &bounds);
    }
    if (status == GY_OK) {
        in->classes = 2 * gy_frame_rows(bounds) + 1;
        status = gy_rows_order_encode(bounds, in->keys, in->key_count, &in->bounds);
    }
    gy_frame_drop(sample);
    gy_frame_drop(bounds);
    gy_free(chosen);
    return status;
}

static gy_status sort_by(sorting *in, gy_engine *engine)
{
    const int parts = GY_MIN(SORT_PARTS * gy_engine_workers(engine), (int)SORT_PARTS_MOST);
    in->ranges = (in->rows + SORT_RANGE - 1) / SORT_RANGE;
    in->class_of = gy_alloc("query.sort", (size_t)in->rows);
    in->ids = gy_alloc("query.sort", (size_t)in->rows * sizeof(*in->ids));
    in->begins =
        gy_alloc_zero("query.sort", (size_t)in->ranges * SORT_CLASSES, sizeof(*in->begins));
    if (in->class_of == NULL || in->ids == NULL || in->begins == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(find_bounds(in, parts));
    GY_TRY(gy_rows_each(engine, in->ranges, class_range, in));
    int64_t at = 0;
    for (int64_t class = 0; class < SORT_CLASSES; class ++) {
        for (int64_t range = 0; range < in->ranges; range++) {
            int64_t *count = &in->begins[range * SORT_CLASSES + class];
            at += *count;
            *count = at - *count;
        }
    }
    GY_ASSERT(at == in->rows);
    gy_parallel_for(engine, in->ranges, 1, place_ranges, in);
    return gy_rows_each(engine, in->classes, sort_class, in);
}

gy_status gy_rows_order_of(gy_engine *engine, const gy_frame *frame,
                           const gy_rows_sort_key *keys, int key_count, int32_t *order)
{
    const int64_t rows = gy_frame_rows(frame);
    if (engine == NULL || gy_engine_workers(engine) == 1 || rows < SORT_ROWS_MIN ||
        key_count == 0) {
        return gy_rows_order(frame, keys, key_count, order);
    }
    sorting in = {.key_count = key_count, .rows = rows, .order = order};
    int *columns = gy_alloc("query.sort", (size_t)key_count * sizeof(*columns));
    in.keys = keys_alone(keys, key_count);
    gy_status status = columns == NULL || in.keys == NULL ? GY_NOMEM : GY_OK;
    for (int k = 0; k < key_count && status == GY_OK; k++) {
        columns[k] = keys[k].column;
    }
    if (status == GY_OK) {
        status = gy_frame_select(frame, columns, key_count, &in.frame);
    }
    if (status == GY_OK) {
        status = sort_by(&in, engine);
    }
    gy_free(columns);
    gy_free(in.keys);
    gy_frame_drop(in.frame);
    gy_rows_order_keys_free(&in.bounds);
    gy_free(in.class_of);
    gy_free(in.begins);
    gy_free(in.ids);
    return status;
}
