/* Reduces: merges the keys of several tables or sorted runs, iterates over their values, and
 * writes the output. */
#include "mapreduce/task.h"

#include "base/base.h"
#include "mapreduce/hot/hot.h"
#include "mapreduce/sort.h"

#include <stdio.h>
#include <string.h>

enum { OUTPUT_BYTES = 256 << 10, NUMBER_BYTES = 20 };

void gy_mapreduce_reduce_keep(gy_reducer *reduce, gy_status status)
{
    if (status < 0 && reduce->status >= 0) {
        reduce->status = status;
        (void)snprintf(reduce->text, sizeof(reduce->text), "%s", gy_error_text());
    }
}

void gy_reduce_fail(gy_reducer *reduce, const char *text)
{
    gy_mapreduce_reduce_keep(reduce, gy_fail(GY_ARG, "%s", text));
}

const void *gy_reduce_parameter(const gy_reducer *reduce, size_t *size_bytes)
{
    *size_bytes = reduce->stage->options.parameter_bytes;
    return reduce->stage->options.parameter;
}

gy_vertex *gy_reduce_vertex(gy_reducer *reduce)
{
    return reduce->vertex;
}

/* ---- writing ---- */

/* Write the number's digits at the end of `room`; returns where they begin. */
static char *digits_of(int64_t number, char room[NUMBER_BYTES + 1])
{
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    char *at = room + NUMBER_BYTES + 1;
    do {
        *--at = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (number < 0) {
        *--at = '-';
    }
    return at;
}

/* Write a number and a line end; returns where they end. */
static char *put_number(char *out, int64_t number)
{
    if ((uint64_t)number < 10) {
        *out++ = (char)('0' + number);
    } else {
        char room[NUMBER_BYTES + 1];
        const char *digits = digits_of(number, room);
        const size_t count = (size_t)(room + sizeof(room) - digits);
        memcpy(out, digits, count);
        out += count;
    }
    *out++ = '\n';
    return out;
}

/* Write a line; `is_loose`: the key has GY_COPY_SLACK readable bytes after it. */
static inline gy_status put_line(gy_outlet *output, const char *key, size_t key_size,
                                 int64_t number, bool is_loose)
{
    GY_TRY(gy_outlet_room(output, key_size + 2 + NUMBER_BYTES + GY_COPY_SLACK));
    char *const from = output->buffer + output->used;
    if (is_loose) {
        gy_copy_loosely(from, key, key_size);
    } else {
        memcpy(from, key, key_size);
    }
    from[key_size] = '\t';
    const char *end = put_number(from + key_size + 1, number);
    output->used += (size_t)(end - from);
    return GY_OK;
}

gy_status gy_mapreduce_put_number(gy_outlet *output, const void *key, size_t key_size,
                                  int64_t number)
{
    return put_line(output, key, key_size, number, false);
}

/* May the reducer write lines? */
static bool can_write(gy_reducer *reduce)
{
    if (reduce->is_combining && reduce->status >= 0) {
        gy_mapreduce_reduce_keep(reduce,
                                 gy_fail(GY_ARG, "a combiner wrote to the output: it may only "
                                                 "give values (gy_combine_put)"));
    }
    return reduce->status >= 0;
}

void gy_combine_put(gy_reducer *combiner, const void *value, size_t value_size)
{
    char size[GY_VARINT_BYTES];
    if (combiner->status < 0) {
        return;
    }
    if (!combiner->is_combining || value_size > GY_VALUE_BYTES_MAX) {
        gy_mapreduce_reduce_keep(combiner,
                                 !combiner->is_combining
                                     ? gy_fail(GY_ARG, "a reduce gave a value: a combiner may")
                                     : gy_fail(GY_LIMIT, "a value of %zu bytes: at most %d",
                                               value_size, GY_VALUE_BYTES_MAX));
        return;
    }
    const size_t head = gy_sort_varint_put(size, value_size);
    gy_mapreduce_reduce_keep(combiner, gy_outlet_add(&combiner->output, size, head));
    if (combiner->status >= 0) {
        gy_mapreduce_reduce_keep(combiner, gy_outlet_add(&combiner->output, value, value_size));
    }
}

void gy_reduce_put(gy_reducer *reduce, const void *key, size_t key_size, int64_t value)
{
    if (can_write(reduce)) {
        gy_mapreduce_reduce_keep(
            reduce, gy_mapreduce_put_number(&reduce->output, key, key_size, value));
    }
}

void gy_reduce_write(gy_reducer *reduce, const void *data, size_t size)
{
    if (can_write(reduce)) {
        gy_mapreduce_reduce_keep(reduce, gy_outlet_add(&reduce->output, data, size));
    }
}

void gy_reduce_put_bytes(gy_reducer *reduce, const void *key, size_t key_size,
                         const void *value, size_t value_size)
{
    gy_reduce_write(reduce, key, key_size);
    gy_reduce_write(reduce, "\t", 1);
    gy_reduce_write(reduce, value, value_size);
    gy_reduce_write(reduce, "\n", 1);
}

/* ---- values ---- */

static bool next_value(gy_values *values, gy_item *item)
{
    if (values->status != GY_OK) {
        return false;
    }
    values->status = values->next(values->arg, item);
    return values->status == GY_OK;
}

bool gy_values_number(gy_values *values, int64_t *value)
{
    gy_item item;
    if (values->fold == GY_FOLD_LIST) {
        values->status = gy_fail(GY_ARG, "a reduce asked for a number where the job has bytes");
    }
    const bool has = next_value(values, &item);
    if (has) {
        *value = item.number;
    }
    return has;
}

bool gy_values_bytes(gy_values *values, const void **value, size_t *size_bytes)
{
    gy_item item;
    if (values->fold != GY_FOLD_LIST) {
        values->status = gy_fail(GY_ARG, "a reduce asked for bytes where the job has numbers");
    }
    const bool has = next_value(values, &item);
    if (has) {
        *value = item.value;
        *size_bytes = item.value_size;
    }
    return has;
}

/* A sequence of one number. */
typedef struct single {
    int64_t number;
    bool is_given;
} single;

static gy_status next_single(void *arg, gy_item *item)
{
    single *from = arg;
    if (from->is_given) {
        return GY_AGAIN;
    }
    from->is_given = true;
    item->number = from->number;
    return GY_OK;
}

static gy_status next_listed(void *arg, gy_item *item)
{
    gy_listed *from = arg;
    for (;;) {
        gy_status status = gy_piece_next(&from->piece, from->fold, item);
        if (status == GY_AGAIN) {
            const char *list;
            size_t size;
            GY_TRY(from->more(from->arg, &list, &size));
            if (list == NULL) {
                return GY_AGAIN;
            }
            from->piece = (gy_piece){.at = list, .end = list + size};
            continue;
        }
        if (status == GY_OK && from->fold == GY_FOLD_SET) {
            if (from->has_last && item->number == from->last) {
                continue;
            }
            from->last = item->number;
            from->has_last = true;
        }
        return status;
    }
}

gy_values gy_listed_values(gy_listed *list)
{
    return (gy_values){.fold = list->fold, .arg = list, .next = next_listed};
}

static gy_status more_of_groups(void *arg, const char **list, size_t *size)
{
    return gy_groups_list(arg, list, size);
}

/* Iterates over the values of a key of sorted records. */
typedef struct grouped {
    gy_sort_groups groups;
    gy_mapreduce_fold fold;
} grouped;

static gy_status next_grouped(void *arg, gy_item *item)
{
    grouped *from = arg;
    gy_sort_span value;
    bool has = false;
    GY_TRY(gy_sort_groups_value(&from->groups, &value, &has));
    if (!has) {
        return GY_AGAIN;
    }
    if (from->fold == GY_FOLD_LIST) {
        item->value = value.data;
        item->value_size = (uint32_t)value.size_bytes;
        return GY_OK;
    }
    if (value.size_bytes != sizeof(item->number)) {
        return gy_fail(GY_FORMAT, "a number of %zu bytes among sorted records",
                       value.size_bytes);
    }
    memcpy(&item->number, value.data, sizeof(item->number));
    return GY_OK;
}

/* ---- a key with its values ---- */

static gy_status put_digits(gy_outlet *output, int64_t number)
{
    char room[NUMBER_BYTES + 1];
    const char *digits = digits_of(number, room);
    return gy_outlet_add(output, digits, (size_t)(room + sizeof(room) - digits));
}

gy_status gy_mapreduce_put_set(gy_outlet *output, const gy_record *key, gy_values *values)
{
    gy_item item;
    bool has_any = false;
    while (next_value(values, &item)) {
        if (!has_any && key != NULL) {
            GY_TRY(gy_outlet_add(output, key->data, key->size));
        }
        if (has_any || key != NULL) {
            GY_TRY(gy_outlet_add(output, has_any ? " " : "\t", 1));
        }
        GY_TRY(put_digits(output, item.number));
        has_any = true;
    }
    GY_TRY(values->status);
    return key != NULL && has_any ? gy_outlet_add(output, "\n", 1) : GY_OK;
}

/* Write a line for each value; for a set one line with all values. */
static gy_status write_values(gy_reducer *reduce, const gy_record *key, gy_values *values)
{
    gy_outlet *output = &reduce->output;
    gy_item item;
    if (values->fold == GY_FOLD_SET) {
        return gy_mapreduce_put_set(output, key, values);
    }
    while (next_value(values, &item)) {
        GY_TRY(gy_outlet_add(output, key->data, key->size));
        GY_TRY(gy_outlet_add(output, "\t", 1));
        if (values->fold == GY_FOLD_LIST) {
            GY_TRY(gy_outlet_add(output, item.value, item.value_size));
        } else {
            GY_TRY(put_digits(output, item.number));
        }
        GY_TRY(gy_outlet_add(output, "\n", 1));
    }
    GY_TRY(values->status);
    return GY_OK;
}

gy_status gy_mapreduce_reduce_key(gy_reducer *reduce, const char *key, size_t key_size,
                                  gy_values *values)
{
    const gy_record record = {
        .data = key, .size = key_size, .key = key, .key_size = key_size, .file = ""};
    if (!reduce->stage->options.has_reduce) {
        return write_values(reduce, &record, values);
    }
    gy_vertex_at_key(reduce->vertex, key, key_size);
    if (gy_vertex_has_bad_records(reduce->vertex) &&
        gy_vertex_is_bad_key(reduce->vertex, key, key_size)) {
        return GY_OK;
    }
    ((gy_reduce_work)gy_vertex_user(reduce->vertex))(reduce, &record, values);
    gy_mapreduce_reduce_keep(reduce, values->status);
    return reduce->status;
}

/* `hot`: keys whose shares other vertices reduced. */
static gy_status reduce_tables(gy_reducer *reduce, gy_groups *groups, gy_hot_cursor *hot)
{
    const gy_mapreduce_fold fold = reduce->stage->options.fold;
    for (;;) {
        const gy_row *row;
        GY_TRY(gy_groups_next(groups, &row));
        if (row == NULL) {
            return gy_hot_end(hot);
        }
        if (gy_hot_is_next(hot, row)) {
            GY_TRY(gy_hot_reduce(hot, reduce));
            continue;
        }
        if (!gy_mapreduce_fold_is_list(fold) && !reduce->stage->options.has_reduce) {
            GY_TRY(put_line(&reduce->output, row->key, row->key_size, row->number, true));
            continue;
        }
        single one = {row->number, false};
        gy_listed list = {.more = more_of_groups, .arg = groups, .fold = fold};
        gy_values values = gy_mapreduce_fold_is_list(fold)
                               ? gy_listed_values(&list)
                               : (gy_values){.fold = fold, .arg = &one, .next = next_single};
        GY_TRY(gy_mapreduce_reduce_key(reduce, row->key, row->key_size, &values));
    }
}

static gy_status reduce_sorted(gy_reducer *reduce, gy_sort_next next, void *arg)
{
    grouped from = {.fold = reduce->stage->options.fold};
    gy_sort_groups_init(&from.groups, next, arg);
    gy_status status = GY_OK;
    while (status >= 0) {
        gy_sort_span key;
        bool has = false;
        status = gy_sort_groups_next(&from.groups, &key, &has);
        if (status < 0 || !has) {
            break;
        }
        gy_values values = {.fold = from.fold, .arg = &from, .next = next_grouped};
        status = gy_mapreduce_reduce_key(reduce, key.data, key.size_bytes, &values);
    }
    gy_sort_groups_fini(&from.groups);
    return status;
}

/* ---- inputs ---- */

static gy_status fill_from_input(void *arg, const void **data, size_t *size_bytes)
{
    const gy_input_of *from = arg;
    return gy_vertex_read(from->vertex, from->number, data, size_bytes);
}

gy_status gy_mapreduce_task_tables(gy_input_of *inputs, size_t count, gy_mapreduce_fold fold,
                                   gy_join_numbers join, gy_groups **groups)
{
    gy_mapreduce_rows **rows =
        gy_alloc_zero("mapreduce.tables", count, sizeof(gy_mapreduce_rows *));
    gy_status status = rows == NULL ? GY_NOMEM : GY_OK;
    size_t made = 0;
    for (; status >= 0 && made < count; made += status >= 0) {
        status = gy_mapreduce_rows_new(gy_byte_source_of(&inputs[made], "an input of tables"),
                                       gy_mapreduce_fold_is_list(fold), &rows[made]);
    }
    if (status >= 0) {
        status = gy_groups_new(rows, count, fold, join, groups);
    } else {
        for (size_t i = 0; i < made; i++) {
            gy_mapreduce_rows_free(rows[i]);
        }
    }
    gy_free(rows);
    return status;
}

/* Fold all tables, then sort the resulting rows by key. */
static gy_status sort_tables(gy_reducer *reduce, gy_groups *groups)
{
    const gy_sorter_options options = {
        .memory_bytes = gy_mapreduce_task_memory(reduce->vertex, reduce->stage),
        .scratch = gy_vertex_scratch(reduce->vertex)};
    if (options.scratch == NULL) {
        return GY_IO;
    }
    gy_sorter *sorter = NULL;
    gy_alloc_budget(options.memory_bytes);
    GY_TRY(gy_sorter_new(gy_env_real(), &options, &sorter));
    gy_status status = GY_OK;
    for (const gy_row *row = NULL; status >= 0;) {
        status = gy_groups_next(groups, &row);
        if (status < 0 || row == NULL) {
            break;
        }
        const gy_sort_item item = {.key = row->key,
                                   .key_bytes = row->key_size,
                                   .value = (const char *)&row->number,
                                   .value_bytes = sizeof(row->number)};
        status = gy_sorter_add(sorter, &item, 1);
    }
    if (status >= 0) {
        status = gy_sorter_end(sorter);
    }
    if (status >= 0) {
        status = reduce_sorted(reduce, gy_sort_next_sorted, sorter);
    }
    gy_sorter_free(sorter);
    return status;
}

static gy_status reduce_runs(gy_reducer *reduce, gy_input_of *ports, size_t count)
{
    gy_merge_source *sources = gy_alloc("mapreduce.reduce", count * sizeof(*sources));
    if (sources == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        sources[i] = (gy_merge_source){fill_from_input, &ports[i]};
    }
    const gy_sort_layout layout = {
        .kind = GY_LAYOUT_FRAMED, .has_values = reduce->stage->options.order == GY_ORDER_VALUE};
    gy_merge *merge = NULL;
    gy_status status = gy_merge_new(&layout, sources, count, &merge);
    if (status >= 0) {
        status = reduce_sorted(reduce, gy_sort_next_merged, merge);
    }
    gy_merge_free(merge);
    gy_free(sources);
    return status;
}

static gy_status reduce_all(gy_reducer *reduce, gy_input_of *ports, size_t count,
                            gy_join_numbers join)
{
    const gy_task_stage *stage = reduce->stage;
    if (stage->options.order != GY_ORDER_HASH &&
        gy_mapreduce_fold_is_list(stage->options.fold)) {
        return reduce_runs(reduce, ports, count);
    }
    gy_groups *groups = NULL;
    gy_hot_cursor hot;
    GY_TRY(gy_hot_begin(&hot, &stage->options, &ports[count]));
    GY_TRY(gy_mapreduce_task_tables(ports, count, stage->options.fold, join, &groups));
    gy_status status = stage->options.order == GY_ORDER_HASH
                           ? reduce_tables(reduce, groups, &hot)
                           : sort_tables(reduce, groups);
    gy_groups_free(groups);
    return status;
}

gy_status gy_mapreduce_reduce_run(gy_vertex *vertex, const gy_task_stage *stage)
{
    const size_t count = (size_t)gy_vertex_inputs(vertex),
                 others = (size_t)stage->options.shares + stage->options.sides;
    if (others > count) {
        return gy_fail(GY_FORMAT, "a reduce of %zu inputs, %zu of them no tables", count,
                       others);
    }
    gy_input_of *ports = gy_alloc("mapreduce.reduce", count * sizeof(*ports));
    if (ports == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        ports[i] = (gy_input_of){vertex, (int)i};
    }
    gy_output_of to = {vertex, 0};
    gy_reducer reduce = {.vertex = vertex,
                         .stage = stage,
                         .output = {.sink = gy_sink_of(&to), .capacity = OUTPUT_BYTES}};
    gy_status status = reduce_all(&reduce, ports, count - others,
                                  gy_mapreduce_task_join(vertex, &stage->options));
    gy_vertex_at_none(vertex);
    if (status >= 0) {
        status = gy_outlet_flush(&reduce.output);
    } else if (reduce.status < 0) {
        status = gy_fail(reduce.status, "%s", reduce.text);
    }
    gy_outlet_free(&reduce.output);
    gy_free(ports);
    return status;
}
