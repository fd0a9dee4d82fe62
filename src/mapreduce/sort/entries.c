/*
 * Sorts entries word by word: counting passes over the top differing bits, then small groups
 * that still agree in these bits, then groups with equal words by the keys' next words.
 */
#include "mapreduce/sort.h"

#include "base/base.h"

enum {
    INSERT_MOST = 24, /* so many entries are sorted by insertion */
    /* so many equal prefixes are sorted by comparing the rest of the keys */
    COMPARE_MOST = 12,
    /* recursion depth in words; beyond it merge sort, which bounds the stack */
    LEVELS_MOST = 64,
    SPLIT_FROM = 1 << 16, /* from so many entries on, the top digit is sorted first: 1 MiB */
    DIGIT_BITS = 11,
    AHEAD = 16,
};

/* Which word of a record the prefix is. */
typedef struct level {
    size_t depth;  /* bytes before the word */
    bool is_value; /* a word of the value, because the keys are equal */
    int number;    /* recursion depth */
} level;

gy_status gy_sort_layout_check(const gy_sort_layout *layout)
{
    if (layout->kind == GY_LAYOUT_FIXED &&
        (layout->key_bytes == 0 || layout->key_offset > layout->record_bytes ||
         layout->key_bytes > layout->record_bytes - layout->key_offset)) {
        return gy_fail(GY_ARG,
                       "a key of %zu bytes at byte %zu does not lie in records of %zu bytes",
                       layout->key_bytes, layout->key_offset, layout->record_bytes);
    }
    if (layout->key != GY_KEY_BYTES && layout->kind == GY_LAYOUT_LINES) {
        return gy_fail(GY_ARG, "keys of lines are bytes, typed keys need records with sizes");
    }
    if (layout->key != GY_KEY_BYTES && layout->kind == GY_LAYOUT_FIXED &&
        layout->key_bytes != sizeof(uint64_t)) {
        return gy_fail(GY_ARG, "typed keys have 8 bytes, not %zu", layout->key_bytes);
    }
    if (layout->has_values && layout->kind != GY_LAYOUT_FRAMED) {
        return gy_fail(GY_ARG, "only records of key and value are ordered by value, too");
    }
    return GY_OK;
}

static void insert(gy_entry *entries, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const gy_entry entry = entries[i];
        size_t at = i;
        for (; at > 0 && entries[at - 1].prefix > entry.prefix; at--) {
            entries[at] = entries[at - 1];
        }
        entries[at] = entry;
    }
}

/* The bits in which prefixes differ. */
static uint64_t spread(const gy_entry *entries, size_t count)
{
    uint64_t bits = 0;
    for (size_t i = 1; i < count; i++) {
        bits |= entries[i].prefix ^ entries[0].prefix;
    }
    return bits;
}

static void scatter(const gy_entry *from, gy_entry *to, size_t count, unsigned shift,
                    uint32_t *starts, unsigned bits)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < (size_t)1 << bits; i++) {
        const uint32_t here = starts[i];
        starts[i] = sum;
        sum += here;
    }
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    for (size_t i = 0; i < count; i++) {
        to[starts[from[i].prefix >> shift & mask]++] = from[i];
    }
}

/* Two counting passes over the `2 bits` below bit `top`, low bits first; lower bits are not
 * sorted. */
static __attribute__((noinline)) void pass_twice(gy_entry *entries, gy_entry *scratch,
                                                 size_t count, unsigned top, unsigned bits)
{
    uint32_t low[1 << DIGIT_BITS], high[1 << DIGIT_BITS];
    memset(low, 0, sizeof(*low) << bits);
    memset(high, 0, sizeof(*high) << bits);
    const unsigned above = top > bits ? top - bits : 0;
    const unsigned below = above > bits ? above - bits : 0;
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    for (size_t i = 0; i < count; i++) {
        low[entries[i].prefix >> below & mask]++;
        high[entries[i].prefix >> above & mask]++;
    }
    scatter(entries, scratch, count, below, low, bits);
    scatter(scratch, entries, count, above, high, bits);
}

/* One pass by the top digit, into scratch and back, giving parts that fit the cache. */
static __attribute__((noinline)) void split(gy_entry *entries, gy_entry *scratch, size_t count,
                                            unsigned shift)
{
    uint32_t starts[1 << DIGIT_BITS] = {0};
    for (size_t i = 0; i < count; i++) {
        starts[entries[i].prefix >> shift & ((1 << DIGIT_BITS) - 1)]++;
    }
    scatter(entries, scratch, count, shift, starts, DIGIT_BITS);
    memcpy(entries, scratch, count * sizeof(*entries));
}

/* The end of the group from `from` on that agrees in the bits above `shift`. */
static size_t group_end(const gy_entry *entries, size_t count, size_t from, unsigned shift)
{
    size_t end = from + 1;
    while (end < count && (entries[end].prefix ^ entries[from].prefix) >> shift == 0) {
        end++;
    }
    return end;
}

void gy_mapreduce_entries_sort_words(gy_entry *entries, gy_entry *scratch, size_t count)
{
    GY_ASSERT(count <= UINT32_MAX);
    if (count <= INSERT_MOST) {
        insert(entries, count);
        return;
    }
    const uint64_t bits = spread(entries, count);
    if (bits == 0) {
        return;
    }
    const unsigned top = 64 - (unsigned)__builtin_clzll(bits);
    unsigned rest = 0; /* number of low bits that are not sorted */
    if (count >= SPLIT_FROM) {
        rest = top > DIGIT_BITS ? top - DIGIT_BITS : 0;
        split(entries, scratch, count, rest);
    } else {
        const unsigned digit = count >= 4096 ? DIGIT_BITS : count >= 512 ? 8 : 6;
        rest = top > 2 * digit ? top - 2 * digit : 0;
        pass_twice(entries, scratch, count, top, digit);
    }
    for (size_t i = 0; rest > 0 && i < count;) {
        const size_t end = group_end(entries, count, i, rest);
        if (end - i > 1) {
            gy_mapreduce_entries_sort_words(entries + i, scratch + i, end - i);
        }
        i = end;
    }
}

/* The field that the level sorts by, from its depth on. */
static gy_sort_span field(const gy_sort_records *records, uint64_t position, const level *at)
{
    const gy_sort_item item = gy_sort_item_at(records, position);
    const char *data = at->is_value ? item.value : item.key;
    const size_t size = at->is_value ? item.value_bytes : item.key_bytes;
    return size < at->depth ? (gy_sort_span){data, 0}
                            : (gy_sort_span){data + at->depth, size - at->depth};
}

/* At most `most` bytes of that field. */
static gy_sort_span field_head(const gy_sort_records *records, uint64_t position,
                               const level *at, size_t most)
{
    if (!at->is_value) {
        return gy_sort_key_head(records, position, at->depth, most);
    }
    const gy_sort_span all = field(records, position, at);
    return (gy_sort_span){all.data, GY_MIN(all.size_bytes, most)};
}

static int compare_rest(const gy_sort_records *records, uint64_t a, uint64_t b, const level *at)
{
    const gy_sort_span first = field(records, a, at), second = field(records, b, at);
    const int order =
        gy_sort_bytes_compare(first.data, first.size_bytes, second.data, second.size_bytes);
    if (order != 0 || at->is_value || !records->layout->has_values) {
        return order;
    }
    const level value = {0, true, 0};
    return compare_rest(records, a, b, &value);
}

/* Stable: insertion sort for few entries, merge sort for more. */
static void compare_sort(const gy_sort_records *records, gy_entry *entries, gy_entry *scratch,
                         size_t count, const level *at)
{
    if (count > COMPARE_MOST) {
        const size_t half = count / 2;
        compare_sort(records, entries, scratch, half, at);
        compare_sort(records, entries + half, scratch + half, count - half, at);
        memcpy(scratch, entries, half * sizeof(*entries));
        size_t left = 0, right = half, to = 0;
        while (left < half && right < count) {
            const bool is_left =
                compare_rest(records, scratch[left].position, entries[right].position, at) <= 0;
            entries[to++] = is_left ? scratch[left++] : entries[right++];
        }
        memcpy(entries + to, scratch + left, (half - left) * sizeof(*entries));
        return;
    }
    for (size_t i = 1; i < count; i++) {
        const gy_entry entry = entries[i];
        size_t to = i;
        for (;
             to > 0 && compare_rest(records, entries[to - 1].position, entry.position, at) > 0;
             to--) {
            entries[to] = entries[to - 1];
        }
        entries[to] = entry;
    }
}

static void prefetch(const gy_sort_records *records, const gy_entry *entry)
{
    const gy_sort_span *span = &records->spans[entry->position >> GY_POSITION_BITS];
    __builtin_prefetch(span->data + (entry->position & GY_POSITION_MASK));
}

static void load_words(const gy_sort_records *records, gy_entry *entries, size_t count,
                       const level *at)
{
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count) {
            prefetch(records, &entries[i + AHEAD]);
        }
        const gy_sort_span rest =
            field_head(records, entries[i].position, at, sizeof(uint64_t));
        entries[i].prefix = gy_sort_word(rest.data, rest.size_bytes);
    }
}

/*
 * The words are equal, but fields may end at different bytes of them: distribute the entries
 * stably by the bytes left, 0 to 8, or more (class 9). A field that ends comes before those
 * that continue with zeros.
 */
static void part_by_length(const gy_sort_records *records, gy_entry *entries, gy_entry *scratch,
                           size_t count, const level *at, size_t counts[10])
{
    memset(counts, 0, 10 * sizeof(*counts));
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count) {
            prefetch(records, &entries[i + AHEAD]);
        }
        const size_t left = field_head(records, entries[i].position, at, 9).size_bytes;
        scratch[i] = (gy_entry){left, entries[i].position};
        counts[scratch[i].prefix]++;
    }
    size_t starts[10], sum = 0;
    for (int i = 0; i < 10; i++) {
        starts[i] = sum;
        sum += counts[i];
    }
    for (size_t i = 0; i < count; i++) {
        entries[starts[scratch[i].prefix]++] = scratch[i];
    }
}

static void sort_ties(const gy_sort_records *records, gy_entry *entries, gy_entry *scratch,
                      size_t count, level at);

/* Sort entries whose prefixes are the level's words. */
static void sort_level(const gy_sort_records *records, gy_entry *entries, gy_entry *scratch,
                       size_t count, level at)
{
    gy_mapreduce_entries_sort_words(entries, scratch, count);
    for (size_t i = 0; i < count;) {
        const size_t end = group_end(entries, count, i, 0);
        if (end - i > 1) {
            sort_ties(records, entries + i, scratch + i, end - i, at);
        }
        i = end;
    }
}

/* Sort entries that agree up to and including the level's word. */
static void sort_ties(const gy_sort_records *records, gy_entry *entries, gy_entry *scratch,
                      size_t count, level at)
{
    for (;;) {
        if (count <= COMPARE_MOST || at.number >= LEVELS_MOST) {
            compare_sort(records, entries, scratch, count, &at);
            return;
        }
        size_t counts[10];
        part_by_length(records, entries, scratch, count, &at, counts);
        for (int class = 0; class < 9; class ++) {
            if (counts[class] > 1 && !at.is_value && records->layout->has_values) {
                const level value = {0, true, at.number + 1};
                load_words(records, entries, counts[class], &value);
                sort_level(records, entries, scratch, counts[class], value);
            }
            entries += counts[class];
            scratch += counts[class];
        }
        count = counts[9];
        at.depth += sizeof(uint64_t);
        load_words(records, entries, count, &at);
        if (count < 2 || spread(entries, count) != 0) {
            break;
        }
    }
    at.number++;
    sort_level(records, entries, scratch, count, at);
}

/* Do equal words imply equal keys and values? */
static bool words_suffice(const gy_sort_layout *layout, size_t depth)
{
    if (layout->has_values) {
        return false;
    }
    return layout->key != GY_KEY_BYTES ||
           (layout->kind == GY_LAYOUT_FIXED && layout->key_bytes <= depth + sizeof(uint64_t));
}

void gy_mapreduce_entries_sort(const gy_sort_records *records, gy_entry *entries,
                               gy_entry *scratch, size_t count, size_t depth)
{
    if (words_suffice(records->layout, depth)) {
        gy_mapreduce_entries_sort_words(entries, scratch, count);
        return;
    }
    /* A typed key is one word, so all of it has been compared. */
    sort_level(records, entries, scratch, count, (level){depth, false, 0});
}
