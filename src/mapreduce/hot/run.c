/*
 * Runs shares. Without a reduce function a share is text as in the output: lines, or for a set
 * its numbers, separated by spaces. With a combiner it is a list of values.
 */
#include "mapreduce/hot/hot.h"

#include "base/base.h"

#include <string.h>

enum { OUTPUT_BYTES = 256 << 10 };

/* ---- a share ---- */

/* Iterates over the rows of one key in several tables, one table after the other. */
typedef struct searching {
    const gy_hot_entry *entry;
    gy_input_of *tables; /* (table_count) */
    size_t table_count, at;
    gy_mapreduce_rows *rows; /* of tables[at]; NULL: not open yet */
} searching;

/* Compare a row with the key: below 0 when the row comes before it. */
static int place_of(const gy_row *row, const gy_hot_entry *entry)
{
    if (row->hash != entry->hash) {
        return row->hash < entry->hash ? -1 : 1;
    }
    const int sign = memcmp(row->key, entry->key, GY_MIN(row->key_size, entry->key_size));
    return sign != 0 ? sign
                     : (row->key_size > entry->key_size) - (row->key_size < entry->key_size);
}

static void close_table(searching *from)
{
    gy_mapreduce_rows_free(from->rows);
    from->rows = NULL;
    from->at++;
}

static gy_status more_of_tables(void *arg, const char **list, size_t *size)
{
    searching *from = arg;
    *list = NULL;
    while (from->at < from->table_count) {
        if (from->rows == NULL) {
            GY_TRY(gy_mapreduce_rows_new(
                gy_byte_source_of(&from->tables[from->at], "an input of a share"), true,
                &from->rows));
        }
        gy_row row;
        bool has_row = false;
        GY_TRY(gy_mapreduce_rows_next(from->rows, &row, &has_row));
        const int place = has_row ? place_of(&row, from->entry) : 1;
        if (place == 0) {
            *list = row.list;
            *size = row.list_size;
            return GY_OK;
        }
        if (place > 0) {
            close_table(from);
        }
    }
    return GY_OK;
}

static gy_status put_share(gy_reducer *reduce, searching *from)
{
    const gy_task_options *options = &reduce->stage->options;
    gy_listed list = {.more = more_of_tables, .arg = from, .fold = options->fold};
    gy_values values = gy_listed_values(&list);
    if (!options->has_reduce && options->fold == GY_FOLD_SET) {
        return gy_mapreduce_put_set(&reduce->output, NULL, &values);
    }
    return gy_mapreduce_reduce_key(reduce, from->entry->key, from->entry->key_size, &values);
}

gy_status gy_hot_share_run(gy_vertex *vertex, const gy_task_stage *stage)
{
    size_t at = 0;
    gy_hot_entry entry;
    const size_t inputs = (size_t)gy_vertex_inputs(vertex);
    if (gy_hot_read(&stage->options, &at, &entry) != GY_OK || stage->options.sides > inputs) {
        return gy_fail(GY_FORMAT, "a share without a key or tables");
    }
    const size_t count = inputs - stage->options.sides;
    gy_input_of *tables = gy_alloc("mapreduce.share", count * sizeof(*tables));
    if (tables == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        tables[i] = (gy_input_of){vertex, (int)i};
    }
    searching from = {.entry = &entry, .tables = tables, .table_count = count};
    gy_output_of to = {vertex, 0};
    gy_reducer reduce = {.vertex = vertex,
                         .stage = stage,
                         .is_combining = stage->options.has_reduce,
                         .output = {.sink = gy_sink_of(&to), .capacity = OUTPUT_BYTES}};
    gy_status status = put_share(&reduce, &from);
    gy_vertex_at_none(vertex);
    if (status >= 0) {
        status = gy_outlet_flush(&reduce.output);
    } else if (reduce.status < 0) {
        status = gy_fail(reduce.status, "%s", reduce.text);
    }
    gy_mapreduce_rows_free(from.rows);
    gy_outlet_free(&reduce.output);
    gy_free(tables);
    return status;
}

/* ---- a reduce with shares ---- */

static gy_status next_entry(gy_hot_cursor *cursor)
{
    const gy_status status = gy_hot_read(cursor->options, &cursor->at, &cursor->entry);
    cursor->has_entry = status == GY_OK;
    return status == GY_AGAIN ? GY_OK : status;
}

gy_status gy_hot_begin(gy_hot_cursor *cursor, const gy_task_options *options,
                       gy_input_of *shares)
{
    *cursor = (gy_hot_cursor){.options = options, .shares = shares};
    uint64_t sum = 0;
    gy_hot_entry entry;
    gy_status status = GY_OK;
    for (size_t at = 0; (status = gy_hot_read(options, &at, &entry)) == GY_OK;) {
        sum += entry.share_count;
    }
    if (status < 0 || sum != options->shares) {
        return gy_fail(GY_FORMAT, "a reduce with %u inputs for %llu shares", options->shares,
                       (unsigned long long)sum);
    }
    return next_entry(cursor);
}

gy_status gy_hot_end(const gy_hot_cursor *cursor)
{
    return cursor->has_entry ? gy_fail(GY_FORMAT, "the tables of a reduce lack its hot key")
                             : GY_OK;
}

/* Lists of values, one in each input. */
typedef struct listing {
    gy_input_of *shares; /* (share_count) */
    uint32_t share_count, at;
} listing;

static gy_status more_of_shares(void *arg, const char **list, size_t *size)
{
    listing *from = arg;
    *list = NULL;
    for (; from->at < from->share_count; from->at++) {
        const gy_byte_source source = gy_byte_source_of(&from->shares[from->at], "a share");
        const char *data = NULL;
        GY_TRY(source.more(source.arg, &data, size)); /* a file: get all of it */
        if (*size > 0) {
            *list = data;
            return GY_OK;
        }
    }
    return GY_OK;
}

/* Copy all bytes of all shares. */
static gy_status copy_shares(listing *from, gy_outlet *output)
{
    const char *text;
    size_t size;
    GY_TRY(gy_outlet_room(output, 1)); /* allocates the buffer; large chunks bypass it */
    for (;;) {
        GY_TRY(more_of_shares(from, &text, &size));
        if (text == NULL) {
            return GY_OK;
        }
        GY_TRY(gy_outlet_add(output, text, size));
    }
}

/* Concatenate sets: where two shares meet, the first may end with the number that the second
 * begins with. */
static gy_status join_sets(listing *from, gy_outlet *output)
{
    const char *text, *last = NULL;
    size_t size, last_size = 0;
    GY_TRY(gy_outlet_room(output, 1));
    for (;; from->at++) { /* a set comes as one chunk */
        GY_TRY(more_of_shares(from, &text, &size));
        if (text == NULL) {
            return GY_OK;
        }
        const char *end = text + size, *blank = memchr(text, ' ', size);
        const size_t first_size = (size_t)((blank != NULL ? blank : end) - text);
        if (last != NULL && first_size == last_size && memcmp(text, last, last_size) == 0) {
            text += first_size; /* the rest begins with its space */
        } else if (last != NULL) {
            GY_TRY(gy_outlet_add(output, " ", 1));
        }
        GY_TRY(gy_outlet_add(output, text, (size_t)(end - text)));
        blank = memrchr(end - size, ' ', size);
        last = blank != NULL ? blank + 1 : end - size;
        last_size = (size_t)(end - last);
    }
}

static gy_status write_set(listing *from, const gy_hot_entry *entry, gy_outlet *output)
{
    GY_TRY(gy_outlet_add(output, entry->key, entry->key_size));
    GY_TRY(gy_outlet_add(output, "\t", 1));
    GY_TRY(join_sets(from, output));
    return gy_outlet_add(output, "\n", 1);
}

gy_status gy_hot_reduce(gy_hot_cursor *cursor, gy_reducer *reduce)
{
    const gy_hot_entry *entry = &cursor->entry;
    listing from = {.shares = cursor->shares, .share_count = entry->share_count};
    if (reduce->stage->options.has_reduce) {
        gy_listed list = {.more = more_of_shares, .arg = &from, .fold = GY_FOLD_LIST};
        gy_values values = gy_listed_values(&list);
        GY_TRY(gy_mapreduce_reduce_key(reduce, entry->key, entry->key_size, &values));
    } else if (reduce->stage->options.fold == GY_FOLD_SET) {
        GY_TRY(write_set(&from, entry, &reduce->output));
    } else {
        GY_TRY(copy_shares(&from, &reduce->output));
    }
    gy_vertex_count(reduce->vertex, "hot keys", 1);
    cursor->shares += entry->share_count;
    return next_entry(cursor);
}
