/* The most frequent values of a field: maps count, and one vertex selects the best. */
#include "mapreduce/job.h"

#include "base/base.h"
#include "mapreduce/fields.h"
#include "mapreduce/maps/maps.h"
#include "mapreduce/top.h"

#include <string.h>

/* Field `field` of a line; data NULL: the line has fewer fields. */
static gy_token field_of(const gy_top_parameter *with, const char *line, size_t size, int field)
{
    if (with->separator == 0) {
        const gy_record record = {.data = line, .size = size};
        gy_token word = gy_first_word(&record);
        for (int i = 1; i < field && word.size > 0; i++) {
            word = gy_next_word(word);
        }
        word.data = word.size > 0 ? word.data : NULL;
        return word;
    }
    const char *at = line, *end = line + size;
    for (int i = 1;; i++) {
        const char *stop = size > 0 ? memchr(at, with->separator, (size_t)(end - at)) : NULL;
        if (i == field) {
            return (gy_token){.data = at, .size = (size_t)((stop != NULL ? stop : end) - at)};
        }
        if (stop == NULL) {
            return (gy_token){.data = NULL};
        }
        at = stop + 1;
    }
}

/* A sum of weights that overflowed stays marked, whatever is added in whatever order. */
#define BEYOND INT64_MIN

int64_t gy_mapreduce_add_weights(int64_t left, int64_t right)
{
    int64_t sum = 0;
    return left == BEYOND || right == BEYOND || __builtin_add_overflow(left, right, &sum)
               ? BEYOND
               : sum;
}

/* Parse an integer with its sign; false: malformed, or over 64 bits. */
static bool number_of(gy_token word, int64_t *number)
{
    const bool is_negative = word.size > 0 && word.data[0] == '-';
    const bool has_sign = is_negative || (word.size > 0 && word.data[0] == '+');
    int64_t sum = 0;
    size_t i = has_sign;
    for (; i < word.size; i++) {
        const int digit = word.data[i] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_sub_overflow(sum, digit, &sum)) {
            return false;
        }
    }
    if (i == (size_t)has_sign || sum == INT64_MIN) {
        return false;
    }
    *number = is_negative ? sum : -sum;
    return true;
}

/* Counts of lines without the field or the weight. */
typedef struct lacking {
    uint64_t fields, numbers;
} lacking;

static void refuse_line(gy_map *map, const gy_record *record, const char *line,
                        const gy_token *number, int field)
{
    const unsigned long long offset = record->offset + (uint64_t)(line - record->data);
    if (number == NULL || number->data == NULL) {
        gy_map_keep(
            map, gy_fail(GY_FORMAT, "the line at offset %llu has no field %d", offset, field));
        return;
    }
    gy_map_keep(map,
                gy_fail(GY_FORMAT,
                        "the line at offset %llu: field %d is '%.*s': expected a "
                        "whole number of at most 63 bits",
                        offset, field, (int)GY_MIN(number->size, (size_t)40), number->data));
}

static void add_line(gy_map *map, const gy_record *record, const char *line, size_t size,
                     lacking *lacks)
{
    size_t bytes = 0;
    const gy_top_parameter *with = gy_map_parameter(map, &bytes);
    int64_t weight = 1;
    gy_token key = {.data = line, .size = size};
    if (with->field > 0) {
        key = field_of(with, line, size, with->field);
        if (key.data == NULL) {
            lacks->fields++;
            if (with->is_strict != 0) {
                refuse_line(map, record, line, NULL, with->field);
            }
            return;
        }
    }
    if (with->weight_field > 0) {
        const gy_token word = field_of(with, line, size, with->weight_field);
        if (word.data == NULL || !number_of(word, &weight)) {
            lacks->numbers++;
            if (with->is_strict != 0) {
                refuse_line(map, record, line, &word, with->weight_field);
            }
            return;
        }
    }
    gy_emit(map, key.data, key.size, weight);
}

static void add_lines(gy_map *map, const gy_record *record, lacking *lacks)
{
    const char *at = record->data, *end = at + record->size;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t line = (size_t)((newline != NULL ? newline : end) - at);
        add_line(map, record, at, gy_line_size(map, at, line), lacks);
        at += line + (newline != NULL);
    }
}

void gy_map_fields(gy_map *map, const gy_record *record)
{
    size_t size = 0;
    const gy_top_parameter *with = gy_map_parameter(map, &size);
    GY_ASSERT(size == sizeof(*with));
    lacking lacks = {0};
    if (with->field > 0 && with->weight_field == 0 && with->separator == 0 &&
        with->is_strict == 0 && record->size <= GY_FIELDS_TEXT_BYTES) {
        gy_map_keep(map, gy_gather_add_fields(map->gather, record->data, record->size,
                                              (unsigned)with->field, &lacks.fields));
    } else {
        add_lines(map, record, &lacks);
    }
    if (lacks.fields > 0) {
        gy_vertex_count(map->vertex, GY_COUNTER_NO_FIELD, (int64_t)lacks.fields);
    }
    if (lacks.numbers > 0) {
        gy_vertex_count(map->vertex, GY_COUNTER_NO_NUMBER, (int64_t)lacks.numbers);
    }
}

static gy_status keep_best(gy_groups *groups, bool is_weighted, gy_top *top)
{
    for (;;) {
        const gy_row *row;
        GY_TRY(gy_groups_next(groups, &row));
        if (row == NULL) {
            return GY_OK;
        }
        if (is_weighted && row->number == BEYOND) {
            return gy_fail(GY_LIMIT, "the weights of '%.*s' sum up to more than 64 bits hold",
                           (int)GY_MIN(row->key_size, (size_t)60), row->key);
        }
        GY_TRY(gy_top_add(top, row->key, row->key_size, row->number));
    }
}

static gy_status write_best(gy_vertex *vertex, gy_top *top)
{
    gy_output_of to = {vertex, 0};
    gy_outlet output = {.sink = gy_sink_of(&to), .capacity = 64 << 10};
    const size_t count = gy_top_end(top);
    gy_status status = GY_OK;
    for (size_t i = 0; i < count && status >= 0; i++) {
        const gy_top_row row = gy_top_get(top, i);
        status = gy_mapreduce_put_number(&output, row.key, row.key_bytes, row.count);
    }
    if (status >= 0) {
        status = gy_outlet_flush(&output);
    }
    gy_outlet_free(&output);
    return status;
}

gy_status gy_top_run(gy_vertex *vertex)
{
    size_t size = 0;
    const gy_top_parameter *with = gy_vertex_parameter(vertex, &size);
    GY_ASSERT(size == sizeof(*with));
    const size_t count = (size_t)gy_vertex_inputs(vertex);
    gy_input_of *inputs = gy_alloc("mapreduce.top", count * sizeof(*inputs));
    if (inputs == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        inputs[i] = (gy_input_of){vertex, (int)i};
    }
    gy_top *top = NULL;
    gy_groups *groups = NULL;
    gy_status status = gy_top_new((size_t)with->k, &top);
    if (status >= 0) {
        const bool is_weighted = with->weight_field > 0;
        status =
            gy_mapreduce_task_tables(inputs, count, is_weighted ? GY_FOLD_USER : GY_FOLD_SUM,
                                     is_weighted ? gy_mapreduce_add_weights : NULL, &groups);
    }
    if (status >= 0) {
        status = keep_best(groups, with->weight_field > 0, top);
    }
    if (status >= 0) {
        status = write_best(vertex, top);
    }
    gy_groups_free(groups);
    gy_top_free(top);
    gy_free(inputs);
    return status;
}
