/*
 * Lecture A's question to a web server's log: which are the five most popular pages?
 *
 *     cc popular_jobs.c -lgyre -o popular_jobs
 *     ./popular_jobs LOG FOLDER
 *
 * Two MapReduce jobs, the second over what the first one published to FOLDER.counts: all pages
 * with their numbers of requests. popular.c asks the same by one graph, popular.sql by a query.
 * The answer is written to FOLDER/top-00000 and printed.
 */
#define _GNU_SOURCE
#include <gyre/gyre.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TOP = 5, PARTITIONS = 2, PATH_BYTES = 4096 };

/* …"GET /page HTTP/1.1"… */
static void count_page(gy_map *map, const gy_record *line)
{
    const char *end = line->data + line->size;
    const char *get = memmem(line->data, line->size, "\"GET ", 5);
    if (get != NULL) {
        const char *blank = memchr(get + 5, ' ', (size_t)(end - get - 5));
        gy_emit(map, get + 5, (size_t)((blank != NULL ? blank : end) - get - 5), 1);
    }
}

/* "PAGE<tab>COUNT": a value whose bytes are in the order of the answer, under the one key "".
 */
static void rank_page(gy_map *map, const gy_record *line)
{
    const char *tab = memrchr(line->data, '\t', line->size);
    const size_t size = (size_t)(tab - line->data);
    const gy_number_key rank = gy_key_of_int64(-strtoll(tab + 1, NULL, 10));
    char *value = malloc(sizeof(rank) + size);
    if (value == NULL) {
        gy_map_fail(map, "out of memory");
        return;
    }
    memcpy(value, &rank, sizeof(rank));
    memcpy(value + sizeof(rank), line->data, size);
    gy_emit_bytes(map, "", 0, value, sizeof(rank) + size);
    free(value);
}

static void write_first(gy_reducer *reduce, const gy_record *key, gy_values *values)
{
    (void)key;
    const void *value = NULL;
    size_t size = 0;
    for (int i = 0; i < TOP && gy_values_bytes(values, &value, &size); i++) {
        char number[32];
        const char *page = (const char *)value + sizeof(gy_number_key);
        snprintf(number, sizeof(number), "%lld ", -(long long)gy_int64_of_key(value));
        gy_reduce_write(reduce, number, strlen(number));
        gy_reduce_write(reduce, page, size - sizeof(gy_number_key));
        gy_reduce_write(reduce, "\n", 1);
    }
}

static gy_status run(gy_flow *flow, const gy_map_reduce_options *job, const char *folder)
{
    gy_dag *dag = NULL;
    gy_flow_bars bars = {.file = STDERR_FILENO}; /* drawn on a terminal alone */
    const gy_flow_options options = {
        .output = folder, .progress = gy_flow_bars_draw, .progress_arg = &bars};
    gy_status status = gy_map_reduce(flow, job, &dag);
    status = status < 0 ? status : gy_flow_run(flow, dag, &options, NULL);
    gy_dag_free(dag);
    return status;
}

static gy_status two_jobs(gy_flow *flow, const char *log, const char *folder)
{
    static char files[PARTITIONS][PATH_BYTES];
    const char *counts[PARTITIONS + 1] = {NULL};
    char between[PATH_BYTES];
    snprintf(between, sizeof(between), "%s.counts", folder);
    const gy_map_reduce_options first = {.inputs = (const char *const[]){log, NULL},
                                         .map = "count page",
                                         .combine = GY_COMBINE_SUM,
                                         .partitions = PARTITIONS,
                                         .name = "counts"};
    gy_status status = run(flow, &first, between);
    for (int i = 0; i < PARTITIONS; i++) {
        snprintf(files[i], PATH_BYTES, "%.4050s/counts-%05d", between, i);
        counts[i] = files[i];
    }
    const gy_map_reduce_options second = {.inputs = counts,
                                          .map = "rank page",
                                          .has_bytes = true,
                                          .order = GY_ORDER_VALUE,
                                          .reduce = "write first",
                                          .partitions = 1,
                                          .name = "top"};
    return status < 0 ? status : run(flow, &second, folder);
}

int main(int argc, char **argv)
{
    static const gy_function functions[] = {GY_MAP("count page", count_page),
                                            GY_MAP("rank page", rank_page),
                                            GY_REDUCE("write first", write_first)};
    char path[PATH_BYTES];
    gy_flow *flow = NULL;
    const gy_status started = gy_flow_start(&argc, &argv, functions, 3, &flow);
    if (started != GY_OK) { /* GY_DONE: this process has run vertices, all it is for */
        return started < 0 ? fprintf(stderr, "popular_jobs: %s\n", gy_error_text()), 1 : 0;
    }
    if (argc != 3 || strlen(argv[2]) > PATH_BYTES - 96) {
        return fprintf(stderr, "usage: popular_jobs LOG FOLDER\n"), 2;
    }
    if (two_jobs(flow, argv[1], argv[2]) < 0) {
        return fprintf(stderr, "popular_jobs: %s\n", gy_error_text()), 1;
    }
    gy_flow_end(flow);
    snprintf(path, sizeof(path), "%.4000s/top-00000", argv[2]);
    FILE *top = fopen(path, "r");
    for (int letter = top != NULL ? fgetc(top) : EOF; letter != EOF; letter = fgetc(top)) {
        putchar(letter);
    }
    return top == NULL || fclose(top) != 0;
}
