/* A hash table that spills to disk when its memory is full. */
#include "mapreduce/gather.h"

#include "base/base.h"
#include "mapreduce/fields.h"
#include "mapreduce/hot/hot.h"
#include "mapreduce/words.h"
#include "store/store.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum {
    OUTLET_BYTES_MAX = 256 << 10,
    LEVELS = 16, /* FAN_IN^16 spills: unlimited in practice */
    PATH_BYTES = 4096,
};

struct gy_gather {
    gy_gather_options options;
    gy_mapreduce_table *table;
    uint64_t levels[LEVELS][GY_GATHER_FAN_IN]; /* numbers of the spills at each level */
    size_t counts[LEVELS];
    uint64_t made;
    gy_gather_report report;
    uint32_t *edges;
};

/* State of the distribution of rows over partitions. */
typedef struct parting {
    const gy_gather_options *options;
    gy_outlet *outlets; /* (partitions) */
    bool is_list;
} parting;

typedef struct spill_file {
    const gy_gather *gather;
    int file;
    char path[PATH_BYTES];
} spill_file;

typedef struct spill_source {
    gy_source *source;
    char *buffer;
    size_t capacity;
} spill_source;

gy_status gy_gather_new(const gy_gather_options *options, gy_gather **gather)
{
    GY_ASSERT(options->memory_bytes >= GY_GATHER_BYTES_MIN && options->partitions > 0);
    gy_gather *made = gy_alloc_zero("mapreduce.gather", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->options = *options;
    *gather = made;
    return GY_OK;
}

/* The path has the gather's address in it, because several gathers may share a folder. */
static void spill_path(const gy_gather *gather, uint64_t number, char path[PATH_BYTES])
{
    (void)snprintf(path, PATH_BYTES, "%s/spill.%llx.%llu", gather->options.scratch,
                   (unsigned long long)(uintptr_t)gather, (unsigned long long)number);
}

static void remove_spill(const gy_gather *gather, uint64_t number)
{
    char path[PATH_BYTES];
    spill_path(gather, number, path);
    (void)gy_env_disk(gather->options.env)->unlink(gather->options.env, path);
}

void gy_gather_free(gy_gather *gather)
{
    if (gather == NULL) {
        return;
    }
    for (size_t level = 0; level < LEVELS; level++) {
        for (size_t i = 0; i < gather->counts[level]; i++) {
            remove_spill(gather, gather->levels[level][i]);
        }
    }
    gy_mapreduce_table_free(gather->table);
    gy_free(gather->edges);
    gy_free(gather);
}

void gy_gather_tell(const gy_gather *gather, gy_gather_report *report)
{
    *report = gather->report;
}

static size_t outlet_bytes(const gy_gather *gather, size_t count)
{
    const size_t share = gather->options.memory_bytes / 8 / GY_MAX(count, (size_t)1);
    return GY_MAX(GY_MIN(share, (size_t)OUTLET_BYTES_MAX), (size_t)512);
}

/* ---- spilling ---- */

static gy_status write_spill(void *arg, const void *data, size_t size_bytes)
{
    const spill_file *spill = arg;
    gy_env *env = spill->gather->options.env;
    for (size_t done = 0; done < size_bytes;) {
        const int64_t size = gy_env_disk(env)->write(
            env, spill->file, (const char *)data + done, size_bytes - done);
        if (size <= 0) {
            return gy_fail(GY_IO, "cannot write %s: %s", spill->path,
                           strerror(size < 0 ? (int)-size : ENOSPC));
        }
        done += (size_t)size;
    }
    return GY_OK;
}

static gy_status open_spill(gy_gather *gather, spill_file *spill)
{
    gy_env *env = gather->options.env;
    *spill = (spill_file){.gather = gather};
    spill_path(gather, gather->made, spill->path);
    spill->file = gy_env_disk(env)->open(env, spill->path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (spill->file < 0) {
        return gy_fail(GY_IO, "cannot write %s: %s", spill->path, strerror(-spill->file));
    }
    return GY_OK;
}

/* Close a spill; remove it after a failure, else add it to its level. */
static gy_status close_spill(gy_gather *gather, spill_file *spill, gy_outlet *outlet,
                             size_t level, gy_status status)
{
    gy_env *env = gather->options.env;
    if (status >= 0) {
        status = gy_outlet_flush(outlet);
    }
    gy_outlet_free(outlet);
    const int closed = gy_env_disk(env)->close(env, spill->file);
    if (status >= 0 && closed < 0) {
        status = gy_fail(GY_IO, "cannot write %s: %s", spill->path, strerror(-closed));
    }
    if (status < 0) {
        remove_spill(gather, gather->made);
        return status;
    }
    GY_ASSERT(level < LEVELS && gather->counts[level] < GY_GATHER_FAN_IN);
    gather->levels[level][gather->counts[level]++] = gather->made++;
    gather->report.spills++;
    gather->report.spilled_bytes += outlet->flushed;
    return GY_OK;
}

typedef struct row_outlet {
    gy_outlet *outlet;
    bool is_list;
} row_outlet;

static gy_status put_row(void *arg, const gy_row *row)
{
    const row_outlet *to = arg;
    return gy_row_put(to->outlet, row, to->is_list);
}

static gy_status merge_level(gy_gather *gather, size_t level);

static gy_status spill_table(gy_gather *gather)
{
    spill_file file;
    GY_TRY(open_spill(gather, &file));
    gather->report.passes += gy_mapreduce_table_is_passing(gather->table);
    gy_outlet outlet = {.sink = {write_spill, &file}, .capacity = outlet_bytes(gather, 1)};
    row_outlet to = {&outlet, gy_mapreduce_fold_is_list(gather->options.fold)};
    gy_status status = gy_mapreduce_table_visit(gather->table, put_row, &to);
    GY_TRY(close_spill(gather, &file, &outlet, 0, status));
    gy_mapreduce_table_clear(gather->table);
    for (size_t level = 0; gather->counts[level] == GY_GATHER_FAN_IN; level++) {
        GY_TRY(merge_level(gather, level));
    }
    return GY_OK;
}

static gy_status when_full(void *arg)
{
    return spill_table(arg);
}

/* ---- reading spills ---- */

static gy_status more_of_spill(void *arg, const char **data, size_t *size_bytes)
{
    spill_source *from = arg;
    *data = from->buffer;
    return gy_source_read(from->source, from->buffer, from->capacity, size_bytes);
}

static void close_sources(spill_source *sources, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        gy_source_close(sources[i].source);
        gy_free(sources[i].buffer);
    }
    gy_free(sources);
}

static gy_status open_source(const gy_gather *gather, uint64_t number, spill_source *from)
{
    char path[PATH_BYTES];
    spill_path(gather, number, path);
    from->buffer = gy_alloc("mapreduce.spill", from->capacity);
    return from->buffer == NULL
               ? GY_NOMEM
               : gy_source_open(gather->options.env, path, GY_ENCODING_PLAIN, &from->source);
}

/* Open the given spills as one merged source. `*sources` must outlive it; then
 * close_sources. */
static gy_status open_groups(const gy_gather *gather, const uint64_t *spills, size_t count,
                             spill_source **sources, gy_groups **groups)
{
    *sources = gy_alloc_zero("mapreduce.spill", count, sizeof(**sources));
    gy_mapreduce_rows **rows =
        gy_alloc_zero("mapreduce.spill", count, sizeof(gy_mapreduce_rows *));
    gy_status status = *sources == NULL || rows == NULL ? GY_NOMEM : GY_OK;
    size_t opened = 0;
    for (; status == GY_OK && opened < count; opened++) {
        spill_source *from = &(*sources)[opened];
        from->capacity = outlet_bytes(gather, count);
        status = open_source(gather, spills[opened], from);
        if (status == GY_OK) {
            const gy_byte_source source = {more_of_spill, from, gy_source_name(from->source)};
            status = gy_mapreduce_rows_new(
                source, gy_mapreduce_fold_is_list(gather->options.fold), &rows[opened]);
        }
    }
    if (status == GY_OK) {
        status = gy_groups_new(rows, count, gather->options.fold, gather->options.join, groups);
    } else {
        for (size_t i = 0; rows != NULL && i < opened; i++) {
            gy_mapreduce_rows_free(rows[i]);
        }
    }
    gy_free(rows);
    if (status < 0) {
        if (*sources != NULL) {
            close_sources(*sources, count);
        }
        *sources = NULL;
    }
    return status;
}

/* Merge several spills, fold equal keys, and pass all rows to `visit`. */
static gy_status visit_groups(gy_groups *groups, bool is_list, gy_row_visit visit, void *arg)
{
    for (;;) {
        const gy_row *row;
        GY_TRY(gy_groups_next(groups, &row));
        if (row == NULL) {
            return GY_OK;
        }
        if (!is_list) {
            GY_TRY(visit(arg, row));
            continue;
        }
        for (gy_row piece = *row;;) {
            GY_TRY(gy_groups_list(groups, &piece.list, &piece.list_size));
            if (piece.list == NULL) {
                break;
            }
            GY_TRY(visit(arg, &piece));
        }
    }
}

static gy_status visit_spills(const gy_gather *gather, const uint64_t *spills, size_t count,
                              gy_row_visit visit, void *arg)
{
    spill_source *sources = NULL;
    gy_groups *groups = NULL;
    GY_TRY(open_groups(gather, spills, count, &sources, &groups));
    gy_status status =
        visit_groups(groups, gy_mapreduce_fold_is_list(gather->options.fold), visit, arg);
    gy_groups_free(groups);
    close_sources(sources, count);
    return status;
}

/* Merge the spills of a full level into one spill of the next level. */
static gy_status merge_level(gy_gather *gather, size_t level)
{
    spill_file file;
    GY_TRY(open_spill(gather, &file));
    gy_outlet outlet = {.sink = {write_spill, &file}, .capacity = outlet_bytes(gather, 1)};
    row_outlet to = {&outlet, gy_mapreduce_fold_is_list(gather->options.fold)};
    gy_status status =
        visit_spills(gather, gather->levels[level], gather->counts[level], put_row, &to);
    GY_TRY(close_spill(gather, &file, &outlet, level + 1, status));
    for (size_t i = 0; i < gather->counts[level]; i++) {
        remove_spill(gather, gather->levels[level][i]);
    }
    gather->counts[level] = 0;
    return GY_OK;
}

/* ---- adding ---- */

/* Make the table when the first item comes, so that a task without items takes no memory. */
static gy_status need_table(gy_gather *gather)
{
    if (gather->table != NULL) {
        return GY_OK;
    }
    const gy_mapreduce_table_options options = {.fold = gather->options.fold,
                                                .join = gather->options.join,
                                                .memory_bytes =
                                                    gather->options.memory_bytes / 4 * 3,
                                                .sample_items = gather->options.sample_items,
                                                .progress = gather->options.progress,
                                                .full = when_full,
                                                .arg = gather,
                                                .space = gather->options.space};
    return gy_mapreduce_table_new(&options, &gather->table);
}

gy_status gy_gather_add(gy_gather *gather, const gy_item *items, size_t count)
{
    GY_TRY(need_table(gather));
    gather->report.items += count;
    return gy_mapreduce_table_add(gather->table, items, count);
}

/* Where to split a text that is too long for one call: after whitespace. 0: there is none. */
static size_t cut_at_blank(const char *text, size_t size)
{
    size_t cut = size;
    while (cut > 0 && !gy_is_blank(text[cut - 1])) {
        cut--;
    }
    return cut;
}

/* Add a word that is longer than one call's text. */
static gy_status add_long_word(gy_gather *gather, const char *text, size_t size, gy_item item,
                               size_t *taken)
{
    size_t begin = 0;
    while (begin < size && gy_is_blank(text[begin])) {
        begin++;
    }
    size_t end = begin;
    while (end < size && !gy_is_blank(text[end])) {
        end++;
    }
    *taken = end;
    if (end - begin > UINT32_MAX) {
        return gy_fail(GY_LIMIT, "a word of %zu bytes: at most %u", end - begin, UINT32_MAX);
    }
    item.key = text + begin;
    item.key_size = (uint32_t)(end - begin);
    gather->report.items += begin < end;
    return gy_mapreduce_table_add(gather->table, &item, begin < end);
}

static gy_status need_edges(gy_gather *gather)
{
    static_assert((int)GY_FIELDS_EDGES <= (int)GY_WORDS_EDGES, "one array serves both");
    GY_TRY(need_table(gather));
    if (gather->edges == NULL) {
        gather->edges = gy_alloc("mapreduce.edges", GY_WORDS_EDGES * sizeof(*gather->edges));
    }
    return gather->edges != NULL ? GY_OK : GY_NOMEM;
}

gy_status gy_gather_add_words(gy_gather *gather, const char *text, size_t size, int64_t number)
{
    GY_TRY(need_edges(gather));
    gy_item item = {.value_size = sizeof(number)};
    item.number = number;
    const gy_item *like = gather->options.fold == GY_FOLD_SUM && number == 1 ? NULL : &item;
    while (size > 0) {
        size_t part = size;
        if (size > GY_WORDS_TEXT_BYTES) {
            part = cut_at_blank(text, GY_WORDS_TEXT_BYTES);
        }
        if (part == 0) {
            GY_TRY(add_long_word(gather, text, size, item, &part));
        } else {
            const size_t count = gy_mapreduce_words_find(text, part, gather->edges);
            gather->report.items += count;
            GY_TRY(
                gy_mapreduce_table_add_words(gather->table, text, gather->edges, count, like));
        }
        text += part;
        size -= part;
    }
    return GY_OK;
}

gy_status gy_gather_add_fields(gy_gather *gather, const char *text, size_t size, unsigned field,
                               uint64_t *without)
{
    GY_TRY(need_edges(gather));
    while (size > 0) {
        size_t part = size;
        if (size > GY_FIELDS_TEXT_BYTES) {
            const char *last = memrchr(text, '\n', GY_FIELDS_TEXT_BYTES);
            if (last == NULL) {
                return gy_fail(GY_LIMIT, "a line of more than %d bytes", GY_FIELDS_TEXT_BYTES);
            }
            part = (size_t)(last - text) + 1;
        }
        size_t lines = 0;
        const size_t count = gy_mapreduce_fields_find(text, part, field, gather->edges, &lines);
        *without += lines - count;
        gather->report.items += count;
        GY_TRY(gy_mapreduce_table_add_words(gather->table, text, gather->edges, count, NULL));
        text += part;
        size -= part;
    }
    return GY_OK;
}

/* ---- the end ---- */

static gy_status part_row(void *arg, const gy_row *row)
{
    const parting *to = arg;
    const uint32_t partitions = to->options->partitions;
    uint32_t part = 0;
    if (to->options->partition == NULL) {
        part = gy_hash_partition(row->hash, partitions);
    } else {
        part = to->options->partition(row->key, row->key_size, partitions);
        if (part >= partitions) {
            return gy_fail(GY_ARG, "the partition function gave %u: expected less than %u",
                           part, partitions);
        }
    }
    if (to->options->heavy != NULL) {
        gy_heavy_note(to->options->heavy, row, part);
    }
    return gy_row_put(&to->outlets[part], row, to->is_list);
}

static gy_status visit_all(gy_gather *gather, gy_row_visit visit, void *arg)
{
    if (gather->made == 0) {
        gather->report.passes += gy_mapreduce_table_is_passing(gather->table);
        return gy_mapreduce_table_visit(gather->table, visit, arg);
    }
    if (gy_mapreduce_table_size(gather->table) > 0) {
        GY_TRY(spill_table(gather));
    }
    /* release the table's memory for the read buffers */
    gy_mapreduce_table_free(gather->table);
    gather->table = NULL;
    if (gather->options.space != NULL) {
        gy_mapreduce_table_space_empty(gather->options.space);
    }
    /* older spills are at higher levels, and their values come first */
    uint64_t all[LEVELS * GY_GATHER_FAN_IN];
    size_t count = 0;
    for (size_t level = LEVELS; level-- > 0;) {
        for (size_t i = 0; i < gather->counts[level]; i++) {
            all[count++] = gather->levels[level][i];
        }
    }
    return visit_spills(gather, all, count, visit, arg);
}

gy_status gy_gather_end(gy_gather *gather, const gy_sink *sinks)
{
    if (gather->table == NULL) {
        return GY_OK;
    }
    const uint32_t partitions = gather->options.partitions;
    gy_outlet *outlets = gy_alloc_zero("mapreduce.parts", partitions, sizeof(*outlets));
    if (outlets == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < partitions; i++) {
        outlets[i].sink = sinks[i];
        outlets[i].capacity =
            outlet_bytes(gather, gather->options.partition == NULL ? 1 : partitions);
    }
    parting to = {&gather->options, outlets, gy_mapreduce_fold_is_list(gather->options.fold)};
    gy_status status = visit_all(gather, part_row, &to);
    for (uint32_t i = 0; i < partitions; i++) {
        if (status >= 0) {
            status = gy_outlet_flush(&outlets[i]);
        }
        gy_outlet_free(&outlets[i]);
    }
    gy_free(outlets);
    return status;
}
