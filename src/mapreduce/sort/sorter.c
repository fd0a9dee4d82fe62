/*
 * External sort with a memory budget.
 *
 *   memory  | framed records -> ... <- scratch <- entries |   full: sort, write a run
 *
 * Runs of level 0 are as large as memory. FAN runs of one level are merged into one of the next
 * level, with the memory that the records occupied. The last merge takes all remaining runs.
 */
#include "mapreduce/sort.h"

#include "base/base.h"

enum {
    LEVELS = 16,
    FAN_MOST = 64,           /* most runs in a merge */
    BLOCK_BYTES = 512 << 10, /* size of a read where memory allows: amortises a seek */
    BLOCK_LEAST = 4 << 10,
    WRITE_SHARE = 16, /* fraction of the memory for writing a run */
    WRITE_MOST = 1 << 20,
    AHEAD = 16,
};

struct gy_sorter {
    gy_env *env;
    gy_sort_layout layout;
    char *scratch;
    /* memory: records and entries, or buffers for reading runs; write: buffer for writing
     * them */
    char *memory, *write;
    size_t memory_bytes, write_bytes;
    size_t used, count; /* bytes of records; number of entries */
    size_t fan;
    gy_sort_run *runs[LEVELS][FAN_MOST]; /* in the order in which they were written */
    size_t run_counts[LEVELS];
    gy_merge *merge; /* after the end, if there are runs */
    size_t next;     /* after the end without runs: the next entry */
    gy_sorter_report report;
};

gy_status gy_sorter_new(gy_env *env, const gy_sorter_options *options, gy_sorter **sorter)
{
    if (options->memory_bytes < GY_SORTER_MEMORY_BYTES_MIN) {
        return gy_fail(GY_ARG, "%zu bytes of memory for sorting, expected at least %d",
                       options->memory_bytes, GY_SORTER_MEMORY_BYTES_MIN);
    }
    gy_sorter *made = gy_alloc_zero("mapreduce.sorter", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->env = env;
    made->layout = (gy_sort_layout){
        .kind = GY_LAYOUT_FRAMED, .key = options->key, .has_values = options->has_values};
    made->write_bytes = GY_MIN(options->memory_bytes / WRITE_SHARE, WRITE_MOST);
    made->memory_bytes =
        (options->memory_bytes - made->write_bytes - sizeof(*made)) & ~(sizeof(gy_entry) - 1);
    made->fan = GY_MAX(2, GY_MIN(made->memory_bytes / BLOCK_BYTES, FAN_MOST));
    made->fan = GY_MAX(made->fan, GY_MIN(8, made->memory_bytes / BLOCK_LEAST));
    made->scratch = gy_copy_text("mapreduce.sorter", options->scratch);
    made->memory = gy_alloc("mapreduce.sorter", made->memory_bytes);
    made->write = gy_alloc("mapreduce.sorter", made->write_bytes);
    if (made->scratch == NULL || made->memory == NULL || made->write == NULL) {
        gy_sorter_free(made);
        return GY_NOMEM;
    }
    *sorter = made;
    return GY_OK;
}

/* The entries grow downward from the end of memory, and are reversed before sorting. */
static gy_entry *entries_of(gy_sorter *sorter)
{
    gy_entry *end = (gy_entry *)(void *)(sorter->memory + sorter->memory_bytes);
    return end - sorter->count;
}

/* Reverse the entries into the input's order and sort them. */
static gy_entry *sort_memory(gy_sorter *sorter)
{
    gy_entry *entries = entries_of(sorter);
    for (size_t i = 0, j = sorter->count; i + 1 < j; i++) {
        const gy_entry entry = entries[i];
        entries[i] = entries[--j];
        entries[j] = entry;
    }
    const gy_sort_span span = {sorter->memory, sorter->used};
    const gy_sort_records records = {&sorter->layout, &span, 1};
    gy_mapreduce_entries_sort(&records, entries, entries - sorter->count, sorter->count, 0);
    return entries;
}

static gy_sort_item item_of(const gy_sorter *sorter, const gy_entry *entry)
{
    gy_sort_item item = {0};
    const bool is_whole = gy_sort_item_read(&sorter->layout, sorter->memory + entry->position,
                                            sorter->memory + sorter->used, &item);
    GY_ASSERT(is_whole);
    return item;
}

static gy_status write_memory(gy_sorter *sorter, gy_sort_run *run)
{
    const gy_entry *entries = sort_memory(sorter);
    for (size_t i = 0; i < sorter->count; i++) {
        if (i + AHEAD < sorter->count) {
            __builtin_prefetch(sorter->memory + entries[i + AHEAD].position);
        }
        const gy_sort_item item = item_of(sorter, &entries[i]);
        GY_TRY(gy_sort_run_add(run, item.data, item.size_bytes));
    }
    sorter->report.run_bytes += sorter->used;
    return gy_sort_run_seal(run);
}

/* Write a merge into `run` and seal it. */
static gy_status write_merged(gy_sorter *sorter, gy_merge *merge, gy_sort_run *run)
{
    gy_sort_item item;
    for (bool has = true; has;) {
        GY_TRY(gy_merge_next(merge, &item, &has));
        if (has) {
            GY_TRY(gy_sort_run_add(run, item.data, item.size_bytes));
            sorter->report.run_bytes += item.size_bytes;
        }
    }
    return gy_sort_run_seal(run);
}

/* Open a merge over `count` runs; each gets an equal part of the memory as its buffer. */
static gy_status open_merge(gy_sorter *sorter, gy_sort_run *const *runs, size_t count,
                            gy_merge **merge)
{
    gy_merge_source sources[LEVELS * FAN_MOST];
    const size_t block = GY_MIN(sorter->memory_bytes / count, 4 * (size_t)BLOCK_BYTES);
    GY_ASSERT(count <= GY_COUNT(sources) && block > 0);
    for (size_t i = 0; i < count; i++) {
        gy_sort_run_read(runs[i], sorter->memory + i * block, block);
        sources[i] = (gy_merge_source){gy_sort_run_fill, runs[i]};
    }
    return gy_merge_new(&sorter->layout, sources, count, merge);
}

static void free_runs(gy_sort_run **runs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        gy_sort_run_free(runs[i]);
        runs[i] = NULL;
    }
}

static gy_status new_run(gy_sorter *sorter, gy_sort_run **run)
{
    GY_TRY(
        gy_sort_run_new(sorter->env, sorter->scratch, sorter->write, sorter->write_bytes, run));
    sorter->report.runs++;
    return GY_OK;
}

/* Merge `count` runs into one and free them. */
static gy_status merge_runs(gy_sorter *sorter, gy_sort_run **runs, size_t count,
                            gy_sort_run **merged)
{
    gy_merge *merge = NULL;
    gy_status status = open_merge(sorter, runs, count, &merge);
    if (status == GY_OK) {
        status = new_run(sorter, merged);
    }
    if (status == GY_OK) {
        status = write_merged(sorter, merge, *merged);
        if (status != GY_OK) {
            gy_sort_run_free(*merged);
        }
    }
    gy_merge_free(merge);
    free_runs(runs, count);
    sorter->report.merges++;
    return status;
}

/* Add a run to level 0; a full level is merged into a run of the next. */
static gy_status keep_run(gy_sorter *sorter, gy_sort_run *run)
{
    for (int level = 0;; level++) {
        GY_ASSERT(level < LEVELS); /* at least 2^16 runs */
        sorter->runs[level][sorter->run_counts[level]++] = run;
        if (sorter->run_counts[level] < sorter->fan || level == LEVELS - 1) {
            return GY_OK;
        }
        const size_t count = sorter->run_counts[level];
        sorter->run_counts[level] = 0;
        GY_TRY(merge_runs(sorter, sorter->runs[level], count, &run));
    }
}

static gy_status spill(gy_sorter *sorter)
{
    gy_sort_run *run = NULL;
    GY_TRY(new_run(sorter, &run));
    const gy_status status = write_memory(sorter, run);
    if (status != GY_OK) {
        gy_sort_run_free(run);
        return status;
    }
    sorter->used = sorter->count = 0;
    return keep_run(sorter, run);
}

/* Bytes of memory left, after reserving an entry and its scratch. */
static size_t free_bytes(const gy_sorter *sorter)
{
    const size_t taken = sorter->used + 2 * (sorter->count + 1) * sizeof(gy_entry);
    return taken > sorter->memory_bytes ? 0 : sorter->memory_bytes - taken;
}

static gy_status add(gy_sorter *sorter, const gy_sort_item *item)
{
    size_t needed = 0;
    if (__builtin_add_overflow(item->key_bytes, item->value_bytes, &needed) ||
        __builtin_add_overflow(needed, 2 * GY_VARINT_BYTES, &needed)) {
        needed = SIZE_MAX;
    }
    if (sorter->layout.key != GY_KEY_BYTES && item->key_bytes != sizeof(uint64_t)) {
        return gy_fail(GY_ARG, "a typed key has 8 bytes, not %zu", item->key_bytes);
    }
    if (needed > free_bytes(sorter) && sorter->count > 0) {
        GY_TRY(spill(sorter));
    }
    if (needed > free_bytes(sorter)) {
        return gy_fail(GY_LIMIT, "a record of %zu bytes does not fit %zu bytes of memory",
                       needed, sorter->memory_bytes);
    }
    char *to = sorter->memory + sorter->used;
    to += gy_sort_varint_put(to, item->key_bytes);
    to += gy_sort_varint_put(to, item->value_bytes);
    if (item->key_bytes > 0) {
        memcpy(to, item->key, item->key_bytes);
    }
    if (item->value_bytes > 0) {
        memcpy(to + item->key_bytes, item->value, item->value_bytes);
    }
    to += item->key_bytes + item->value_bytes;
    const uint64_t word = gy_sort_key_word(sorter->layout.key, item->key, item->key_bytes);
    entries_of(sorter)[-1] = (gy_entry){word, sorter->used};
    sorter->count++;
    const size_t size = (size_t)(to - sorter->memory) - sorter->used;
    sorter->used += size;
    sorter->report.records++;
    sorter->report.bytes += size;
    return GY_OK;
}

gy_status gy_sorter_add(gy_sorter *sorter, const gy_sort_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        GY_TRY(add(sorter, &items[i]));
    }
    return GY_OK;
}

/* Take all runs, oldest first; returns their number. The levels are empty afterwards. */
static size_t take_runs(gy_sorter *sorter, gy_sort_run *runs[LEVELS * FAN_MOST])
{
    size_t count = 0;
    for (int level = LEVELS; level-- > 0;) {
        for (size_t i = 0; i < sorter->run_counts[level]; i++) {
            runs[count++] = sorter->runs[level][i];
        }
        sorter->run_counts[level] = 0;
    }
    return count;
}

static void put_runs(gy_sorter *sorter, gy_sort_run *const *runs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const int level = LEVELS - 1 - (int)(i / FAN_MOST);
        sorter->runs[level][sorter->run_counts[level]++] = runs[i];
    }
}

gy_status gy_sorter_end(gy_sorter *sorter)
{
    if (sorter->report.runs == 0) {
        (void)sort_memory(sorter);
        return GY_OK;
    }
    if (sorter->count > 0) {
        GY_TRY(spill(sorter));
    }
    gy_sort_run *runs[LEVELS * FAN_MOST];
    size_t count = take_runs(sorter, runs);
    gy_status status = GY_OK;
    /* merge the newest ones, which are the shortest */
    while (status == GY_OK && count > sorter->fan) {
        const size_t some = GY_MIN(sorter->fan, count - sorter->fan + 1);
        gy_sort_run *merged = NULL;
        count -= some;
        status = merge_runs(sorter, runs + count, some, &merged);
        if (status == GY_OK) {
            runs[count++] = merged;
        }
    }
    put_runs(sorter, runs, count);
    return status == GY_OK ? open_merge(sorter, runs, count, &sorter->merge) : status;
}

gy_status gy_sorter_next(gy_sorter *sorter, gy_sort_item *item, bool *has)
{
    if (sorter->merge != NULL) {
        return gy_merge_next(sorter->merge, item, has);
    }
    *has = sorter->next < sorter->count;
    if (*has) {
        const gy_entry *entry = entries_of(sorter) + sorter->next++;
        if (sorter->next + AHEAD < sorter->count) {
            __builtin_prefetch(sorter->memory + entry[AHEAD].position);
        }
        *item = item_of(sorter, entry);
    }
    return GY_OK;
}

gy_status gy_sort_next_sorted(void *sorter, gy_sort_item *item, bool *has)
{
    return gy_sorter_next(sorter, item, has);
}

void gy_sorter_report_get(const gy_sorter *sorter, gy_sorter_report *report)
{
    *report = sorter->report;
}

void gy_sorter_free(gy_sorter *sorter)
{
    if (sorter == NULL) {
        return;
    }
    gy_merge_free(sorter->merge);
    for (int level = 0; level < LEVELS; level++) {
        free_runs(sorter->runs[level], sorter->run_counts[level]);
    }
    gy_free(sorter->scratch);
    gy_free(sorter->memory);
    gy_free(sorter->write);
    gy_free(sorter);
}
