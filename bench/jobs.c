/*
 * Ready-made jobs and one of a user, through the public interface, for bench/jobs.py.
 *
 * usage: bench_jobs words|lines|index|top|sort|runs FOLDER PROCESSES MEMORY FILE...
 *   words   count words; lines: by a map of this program, line by line
 *   index   the files of each word
 *   top     the five most frequent 7th fields
 *   sort    100-byte records by their first 10 bytes; runs: with runs on the disk
 * FOLDER/out gets the output, in two partitions (top: one), FOLDER/job what the job needs.
 * MEMORY bytes are for all processes; 0: no limit. "@LIST" for the files: LIST names one a
 * line.
 */
#include <gyre/mapreduce.h>
#include <gyre/sort.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTITIONS = 2, PAGE_FIELD = 7, RECORD = 100, KEY = 10, OWN_FUNCTIONS = 1, MOST = 32 };

static void count_words(gy_map *map, const gy_record *line)
{
    for (gy_token word = gy_first_word(line); word.size > 0; word = gy_next_word(word)) {
        gy_emit(map, word.data, word.size, 1);
    }
}

/* The lines of a file, NULL at the end; all of it stays. */
static const char **read_list(const char *path)
{
    size_t capacity = 1 << 20, count = 0, room = 0;
    FILE *file = fopen(path, "r");
    const char **list = calloc(capacity + 1, sizeof(*list));
    char *line = NULL;
    while (file != NULL && list != NULL && count < capacity &&
           getline(&line, &room, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        list[count++] = line;
        line = NULL;
    }
    if (file == NULL || fclose(file) != 0) {
        perror(path);
        return NULL;
    }
    return list;
}

/* GY_NOTFOUND: no such verb. */
static gy_status make_dag(gy_flow *flow, const char *verb, const char *const *inputs,
                          size_t memory_bytes, gy_dag **dag)
{
    const gy_job_options job = {
        .inputs = inputs, .partitions = PARTITIONS, .memory_bytes = memory_bytes};
    if (strcmp(verb, "words") == 0) {
        return gy_dag_wordcount(flow, &job, dag);
    }
    if (strcmp(verb, "index") == 0) {
        return gy_dag_index(flow, &job, dag);
    }
    if (strcmp(verb, "top") == 0) {
        return gy_dag_topk(flow, &(gy_topk_options){.job = &job, .field = PAGE_FIELD}, dag);
    }
    if (strcmp(verb, "lines") == 0) {
        return gy_map_reduce(flow,
                             &(gy_map_reduce_options){.inputs = inputs,
                                                      .format = GY_RECORDS_LINES,
                                                      .map = "count",
                                                      .combine = GY_COMBINE_SUM,
                                                      .memory_bytes = memory_bytes,
                                                      .partitions = PARTITIONS},
                             dag);
    }
    const bool is_runs = strcmp(verb, "runs") == 0;
    return is_runs || strcmp(verb, "sort") == 0
               ? gy_dag_sort(flow,
                             &(gy_sort_options){.inputs = inputs,
                                                .record_bytes = RECORD,
                                                .key_bytes = KEY,
                                                .partitions = PARTITIONS,
                                                .method = is_runs ? GY_SORT_METHOD_RUNS
                                                                  : GY_SORT_METHOD_AUTO,
                                                .memory_bytes = memory_bytes},
                             dag)
               : GY_NOTFOUND;
}

static gy_status run(gy_flow *flow, gy_dag *dag, const char *folder, int processes)
{
    char out[4096], own[4096];
    (void)snprintf(out, sizeof(out), "%s/out", folder);
    (void)snprintf(own, sizeof(own), "%s/job", folder);
    const gy_flow_options options = {
        .output = out, .folder = own, .processes = processes, .timeout_s = 300};
    const gy_status status = gy_flow_run(flow, dag, &options, NULL);
    if (status < 0) {
        (void)fprintf(stderr, "bench_jobs: %s\n", gy_error_text());
    }
    return status;
}

int main(int argc, char **argv)
{
    gy_function functions[MOST] = {GY_MAP("count", count_words)};
    memcpy(functions + OWN_FUNCTIONS, gy_mapreduce_functions,
           (size_t)gy_mapreduce_function_count * sizeof(functions[0]));
    gy_flow *flow = NULL;
    gy_status status = gy_flow_start(&argc, &argv, functions,
                                     gy_mapreduce_function_count + OWN_FUNCTIONS, &flow);
    if (status != GY_OK) {
        return status < 0;
    }
    const int processes = argc > 5 ? atoi(argv[3]) : 0;
    gy_dag *dag = NULL;
    if (processes > 0) {
        const char *const *given = (const char *const *)argv + 5;
        const char *const *inputs = given[0][0] == '@' ? read_list(given[0] + 1) : given;
        const size_t memory_bytes = strtoull(argv[4], NULL, 10) / (unsigned)processes;
        status =
            inputs == NULL ? GY_NOTFOUND : make_dag(flow, argv[1], inputs, memory_bytes, &dag);
    }
    if (status < 0 && status != GY_NOTFOUND) {
        (void)fprintf(stderr, "bench_jobs: %s\n", gy_error_text());
        return 1;
    }
    if (dag == NULL) {
        (void)fprintf(stderr, "usage: bench_jobs words|lines|index|top|sort|runs FOLDER "
                              "PROCESSES MEMORY FILE...|@LIST\n");
        return 2;
    }
    status = run(flow, dag, argv[2], processes);
    gy_dag_free(dag);
    gy_flow_end(flow);
    return status < 0;
}
