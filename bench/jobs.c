/*
 * Ready-made jobs, run by two processes.
 *
 *   bench_jobs top LOG FOLDER      the five most frequent 7th fields: FOLDER/out/part-00000
 *   bench_jobs index LIST FOLDER   an inverted index of the files that LIST names, a line each
 */
#include "base/base.h"

#include <gyre/mapreduce.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROCESSES = 2, PAGE_FIELD = 7, INPUTS_MOST = 1 << 20 };

static int run(gy_flow *flow, gy_dag *dag, const char *folder)
{
    char out[4096], own[4096];
    snprintf(out, sizeof(out), "%s/out", folder);
    snprintf(own, sizeof(own), "%s/job", folder);
    const gy_flow_options options = {
        .output = out, .folder = own, .processes = PROCESSES, .timeout_seconds = 300};
    const gy_status status = dag == NULL ? GY_NOMEM : gy_flow_run(flow, dag, &options, NULL);
    if (status != GY_OK) {
        fprintf(stderr, "bench_jobs: %s\n", gy_error_text());
    }
    gy_dag_free(dag);
    return status != GY_OK;
}

/* The lines of a file, NULL at the end; all is of one piece, never freed. */
static const char *const *read_list(const char *path)
{
    FILE *file = fopen(path, "r");
    const char **list = gy_alloc_zero("bench", INPUTS_MOST + 1, sizeof(*list));
    char *line = NULL;
    size_t room = 0, count = 0;
    while (file != NULL && list != NULL && count < INPUTS_MOST &&
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

int main(int count, char **arguments)
{
    gy_flow *flow =
        gy_flow_start(&count, &arguments, gy_mapreduce_functions, gy_mapreduce_function_count);
    const char *verb = flow != NULL && count == 4 ? arguments[1] : "";
    int failed = 2;
    if (strcmp(verb, "top") == 0) {
        const char *const inputs[] = {arguments[2], NULL};
        const gy_topk_options options = {.job.inputs = inputs, .field = PAGE_FIELD};
        failed = run(flow, gy_dag_topk(flow, &options), arguments[3]);
    } else if (strcmp(verb, "index") == 0) {
        const char *const *inputs = read_list(arguments[2]);
        const gy_job_options options = {.inputs = inputs, .partitions = PROCESSES};
        failed = inputs == NULL || run(flow, gy_dag_index(flow, &options), arguments[3]);
    } else {
        fprintf(stderr, "usage: bench_jobs top LOG FOLDER\n"
                        "       bench_jobs index LIST FOLDER\n");
    }
    gy_flow_end(flow);
    return failed;
}
