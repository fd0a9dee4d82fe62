/*
 * A job with a hot key, run by two processes; hot.py drives it.
 *
 *   bench_hot make INPUT RECORDS PERCENT      lines of one word, PERCENT of them "hot"
 *   bench_hot sets|combined shared|whole PARTITIONS INPUT FOLDER
 *       sets      of each word the offsets of its lines, a line a word
 *       combined  of each word how many offsets there are, and a checksum of them
 *       whole     no key is shared; the output is FOLDER/out, a trace FOLDER/trace.json
 */
#include "base/base.h"
#include "base/random.h"
#include "base/text.h"

#include <gyre/mapreduce.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROCESSES = 2, WORDS = 50000 };

typedef struct sums {
    uint64_t count, sum;
} sums;

static void emit_offset(gy_map *map, const gy_record *line)
{
    gy_emit(map, line->data, line->size, (int64_t)line->offset);
}

static void emit_offset_bytes(gy_map *map, const gy_record *line)
{
    gy_emit_bytes(map, line->data, line->size, &line->offset, sizeof(line->offset));
}

/* Offsets are 8 bytes, what a combiner made of them is 16. */
static sums add_up(gy_values *values)
{
    sums all = {0, 0};
    const void *value;
    size_t size;
    while (gy_values_bytes(values, &value, &size)) {
        if (size == sizeof(all)) {
            sums part;
            memcpy(&part, value, sizeof(part));
            all.count += part.count;
            all.sum += part.sum;
        } else {
            all.count++;
            all.sum += gy_hash(value, size, 0);
        }
    }
    return all;
}

static void combine(gy_reducer *combiner, const gy_record *key, gy_values *values)
{
    (void)key;
    const sums all = add_up(values);
    gy_combine_put(combiner, &all, sizeof(all));
}

static void reduce(gy_reducer *reducer, const gy_record *key, gy_values *values)
{
    const sums all = add_up(values);
    char text[64];
    const size_t size = gy_print(text, sizeof(text), "%llu %016llx",
                                 (unsigned long long)all.count, (unsigned long long)all.sum);
    gy_reduce_put_bytes(reducer, key->data, key->size, text, size);
}

static const gy_function functions[] = {
    GY_MAP("offset", emit_offset),
    GY_MAP("offset bytes", emit_offset_bytes),
    GY_REDUCE("combine", combine),
    GY_REDUCE("reduce", reduce),
};

static int make(const char *path, long records, long percent)
{
    gy_random random = {.key = 1};
    FILE *file = fopen(path, "w");
    for (long i = 0; file != NULL && i < records; i++) {
        if ((long)gy_random_below(&random, 100) < percent) {
            fputs("hot\n", file);
        } else {
            fprintf(file, "w%05d\n", (int)gy_random_below(&random, WORDS));
        }
    }
    if (file == NULL || fclose(file) != 0) {
        perror(path);
        return 1;
    }
    return 0;
}

static int run(gy_flow *flow, char **arguments)
{
    const bool is_combined = strcmp(arguments[1], "combined") == 0;
    const char *const inputs[] = {arguments[4], NULL};
    char out[4096], own[4096], trace[4096];
    snprintf(out, sizeof(out), "%s/out", arguments[5]);
    snprintf(own, sizeof(own), "%s/job", arguments[5]);
    snprintf(trace, sizeof(trace), "%s/trace.json", arguments[5]);
    gy_dag *dag = NULL;
    gy_status status =
        gy_map_reduce(flow,
                      &(gy_map_reduce_options){
                          .inputs = inputs,
                          .format = GY_RECORDS_LINES,
                          .map = is_combined ? "offset bytes" : "offset",
                          .has_bytes = is_combined,
                          .combine = is_combined ? GY_COMBINE_USER : GY_COMBINE_SET,
                          .combine_function = is_combined ? "combine" : NULL,
                          .reduce = is_combined ? "reduce" : NULL,
                          .partitions = (int)strtol(arguments[3], NULL, 10),
                          .hot_key_bytes = strcmp(arguments[2], "whole") == 0 ? SIZE_MAX : 0},
                      &dag);
    const gy_flow_options options = {
        .output = out, .folder = own, .trace = trace, .processes = PROCESSES, .timeout_s = 300};
    status = status < 0 ? status : gy_flow_run(flow, dag, &options, NULL);
    if (status != GY_OK) {
        fprintf(stderr, "bench_hot: %s\n", gy_error_text());
    }
    gy_dag_free(dag);
    return status != GY_OK;
}

int main(int count, char **arguments)
{
    gy_flow *flow = NULL;
    const gy_status started =
        gy_flow_start(&count, &arguments, functions, GY_COUNT(functions), &flow);
    int failed = 2;
    if (started != GY_OK) {
        failed = started < 0;
    } else if (count == 5 && strcmp(arguments[1], "make") == 0) {
        failed =
            make(arguments[2], strtol(arguments[3], NULL, 10), strtol(arguments[4], NULL, 10));
    } else if (count == 6) {
        failed = run(flow, arguments);
    } else {
        fprintf(stderr,
                "usage: bench_hot make INPUT RECORDS PERCENT\n"
                "       bench_hot sets|combined shared|whole PARTITIONS INPUT FOLDER\n");
    }
    gy_flow_end(flow);
    return failed;
}
