/*
 * Jobs for bench/words.py: word count ready-made and through the public map, an inverted index.
 *
 * usage: bench_words words|lines|index PROCESSES PARTITIONS SPLIT_MIB FOLDER FILE...
 * "-" for the files: their paths come from standard input, a line each.
 */
#include <gyre/mapreduce.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void count_words(gy_map *map, const gy_record *line)
{
    for (gy_token word = gy_first_word(line); word.size > 0; word = gy_next_word(word)) {
        gy_emit(map, word.data, word.size, 1);
    }
}

enum { BUILT_IN_MOST = 32, PATH_BYTES = 4096 };

/* Paths from standard input; NULL at the end. */
static const char **read_paths(void)
{
    size_t count = 0, capacity = 1 << 20;
    const char **paths = malloc(capacity * sizeof(*paths));
    char line[PATH_BYTES];
    while (paths != NULL && count + 1 < capacity && fgets(line, sizeof(line), stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        paths[count] = strdup(line);
        if (paths[count++] == NULL) {
            return NULL;
        }
    }
    if (paths != NULL) {
        paths[count] = NULL;
    }
    return paths;
}

static gy_dag *make_dag(gy_flow *flow, const char *mode, const gy_job_options *job)
{
    if (strcmp(mode, "words") == 0) {
        return gy_dag_wordcount(flow, job);
    }
    if (strcmp(mode, "index") == 0) {
        return gy_dag_index(flow, job);
    }
    return gy_map_reduce(flow, &(gy_map_reduce_options){.inputs = job->inputs,
                                                        .format = GY_RECORDS_LINES,
                                                        .map = "count",
                                                        .combine = GY_COMBINE_SUM,
                                                        .partitions = job->partitions,
                                                        .split_bytes = job->split_bytes});
}

int main(int argc, char **argv)
{
    gy_function functions[BUILT_IN_MOST] = {GY_MAP("count", count_words)};
    memcpy(functions + 1, gy_mapreduce_functions,
           (size_t)gy_mapreduce_function_count * sizeof(functions[0]));
    gy_flow *flow = gy_flow_start(&argc, &argv, functions, gy_mapreduce_function_count + 1);
    if (flow == NULL || argc < 7) {
        (void)fprintf(stderr, "usage: bench_words words|lines|index PROCESSES PARTITIONS "
                              "SPLIT_MIB FOLDER FILE...\n");
        return 2;
    }
    const char **paths = NULL;
    if (strcmp(argv[6], "-") == 0) {
        paths = read_paths();
    } else {
        paths = malloc((size_t)(argc - 5) * sizeof(*paths));
        for (int i = 6; paths != NULL && i <= argc; i++) {
            paths[i - 6] = argv[i]; /* and the NULL at the end */
        }
    }
    const gy_job_options job = {.inputs = paths,
                                .partitions = atoi(argv[3]),
                                .split_bytes = (size_t)atol(argv[4]) << 20};
    gy_dag *dag = paths == NULL ? NULL : make_dag(flow, argv[1], &job);
    gy_status status = GY_NOMEM;
    if (dag != NULL) {
        const gy_flow_options options = {.output = argv[5], .processes = atoi(argv[2])};
        status = gy_flow_run(flow, dag, &options, NULL);
    }
    if (status < 0) {
        (void)fprintf(stderr, "bench_words: %s\n", gy_error_text());
    }
    gy_dag_free(dag);
    gy_flow_end(flow);
    return status < 0;
}
