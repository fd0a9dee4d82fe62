/*
 * What the tests of whole jobs share: vertices, a folder for each test, graphs of sums. The
 * test program is its own vertex process.
 */
#ifndef GY_FLOW_RUN_RUN_TEST_H
#define GY_FLOW_RUN_RUN_TEST_H

#include "base/text.h"
#include "flow/flow.h"
#include "flow/run/run_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "flow_main.h"
#include "gy_test.h"

/* ---- vertices ---- */

/* Writes its number to each output, and to a refinement's sample. */
static inline gy_status number(gy_vertex *vertex)
{
    char text[32];
    const size_t size = gy_print(text, sizeof(text), "%d\n", gy_vertex_index(vertex));
    for (int i = 0; i < gy_vertex_outputs(vertex); i++) {
        GY_TRY(gy_vertex_write(vertex, i, text, size));
    }
    gy_vertex_count(vertex, "numbers", 1);
    return gy_vertex_set_sample(vertex, text, size);
}

/* Writes the sum of all numbers in its inputs, a line each. */
static inline gy_status sum(gy_vertex *vertex)
{
    long long total = 0;
    for (int i = 0; i < gy_vertex_inputs(vertex); i++) {
        char line[64];
        size_t used = 0;
        for (;;) {
            const void *data = NULL;
            size_t size = 0;
            GY_TRY(gy_vertex_read(vertex, i, &data, &size));
            if (size == 0) {
                break;
            }
            for (size_t k = 0; k < size; k++) {
                const char letter = ((const char *)data)[k];
                if (letter == '\n') {
                    line[used] = '\0';
                    total += strtoll(line, NULL, 10);
                    used = 0;
                } else if (used + 1 < sizeof(line)) {
                    line[used++] = letter;
                }
            }
        }
    }
    char text[32];
    const size_t size = gy_print(text, sizeof(text), "%lld\n", total);
    gy_vertex_count(vertex, "sums", 1);
    return gy_vertex_outputs(vertex) > 0 ? gy_vertex_write(vertex, 0, text, size) : GY_OK;
}

/* Copies its input to its output. */
static inline gy_status copy(gy_vertex *vertex)
{
    for (;;) {
        const void *data = NULL;
        size_t size = 0;
        GY_TRY(gy_vertex_read(vertex, 0, &data, &size));
        if (size == 0) {
            return GY_OK;
        }
        GY_TRY(gy_vertex_write(vertex, 0, data, size));
    }
}

/* Writes as many bytes as its parameter says, more than fit in a message. */
static inline gy_status flood(gy_vertex *vertex)
{
    size_t bytes = 0;
    const int64_t *wanted = gy_vertex_parameter(vertex, &bytes);
    for (int64_t i = 0; i < *wanted; i++) {
        GY_TRY(gy_vertex_write(vertex, 0, "7\n", 2));
    }
    return GY_OK;
}

/* Writes as many bytes as its parameter says to output 0, and twice as many to output 1. */
static inline gy_status two(gy_vertex *vertex)
{
    size_t bytes = 0;
    const int64_t *wanted = gy_vertex_parameter(vertex, &bytes);
    for (int64_t i = 0; i < *wanted; i++) {
        GY_TRY(gy_vertex_write(vertex, 0, "a", 1));
        GY_TRY(gy_vertex_write(vertex, 1, "bb", 2));
    }
    return GY_OK;
}

/* Writes by how many bytes its input 1 is longer than its input 0. */
static inline gy_status difference(gy_vertex *vertex)
{
    long long bytes[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        for (size_t size = 1; size > 0;) {
            const void *data = NULL;
            GY_TRY(gy_vertex_read(vertex, i, &data, &size));
            bytes[i] += (long long)size;
        }
    }
    char text[32];
    const size_t size = gy_print(text, sizeof(text), "%lld\n", bytes[1] - bytes[0]);
    return gy_vertex_write(vertex, 0, text, size);
}

static inline gy_status refuse(gy_vertex *vertex)
{
    return gy_fail(GY_STATE, "vertex %d does not want", gy_vertex_index(vertex));
}

/* Kills its manager once: the parameter names a file that exists once it did. */
static inline gy_status kill_manager(gy_vertex *vertex)
{
    size_t bytes = 0;
    const char *path = gy_vertex_parameter(vertex, &bytes);
    const int file = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (file >= 0) {
        char name[512];
        snprintf(name, sizeof(name), "%.500s.pid", path);
        FILE *from = fopen(name, "r");
        int manager = 0;
        GY_ASSERT(from != NULL && fscanf(from, "%d", &manager) == 1 && manager > 1);
        (void)fclose(from);
        (void)kill(manager, SIGKILL);
        for (;;) {
            (void)pause(); /* this process dies with its manager */
        }
    }
    return number(vertex);
}

/* Its first run removes all files of the job, so that later readers find nothing. */
static inline gy_status steal(gy_vertex *vertex)
{
    size_t bytes = 0;
    const char *folder = gy_vertex_parameter(vertex, &bytes);
    char line[700], mark[600];
    snprintf(mark, sizeof(mark), "%s/stolen", folder);
    const int file = open(mark, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (file >= 0) {
        close(file);
        snprintf(line, sizeof(line), "rm -f %s/data/*", folder);
        char out[64];
        GY_ASSERT(gy_test_shell(line, out, sizeof(out)) == 0);
    }
    return number(vertex);
}

/* Creates the file that its parameter names, as another user would. */
static inline gy_status intrude(gy_vertex *vertex)
{
    size_t bytes = 0;
    FILE *file = fopen(gy_vertex_parameter(vertex, &bytes), "w");
    GY_ASSERT(file != NULL && fputs("mine", file) >= 0 && fclose(file) == 0);
    return number(vertex);
}

/* Like `intrude` for the first of two paths, if the second one does not exist yet. */
static inline gy_status intrude_once(gy_vertex *vertex)
{
    size_t bytes = 0;
    const char *first = gy_vertex_parameter(vertex, &bytes), *second = first + bytes / 2;
    FILE *mark = fopen(second, "wx");
    FILE *file = mark != NULL ? fopen(first, "w") : NULL;
    GY_ASSERT(mark == NULL || (fclose(mark) == 0 && file != NULL && fclose(file) == 0));
    return number(vertex);
}

/* Waits until a file exists, which progress creates. */
static inline gy_status wait_for_file(gy_vertex *vertex)
{
    size_t bytes = 0;
    const char *path = gy_vertex_parameter(vertex, &bytes);
    while (access(path, F_OK) != 0 && !gy_vertex_is_cancelled(vertex)) {
        const struct timespec moment = {.tv_nsec = 1000000};
        (void)nanosleep(&moment, NULL);
    }
    return number(vertex);
}

static const gy_function functions[] = {
    GY_VERTEX("intrude", intrude), GY_VERTEX("intrude_once", intrude_once),
    GY_VERTEX("two", two),         GY_VERTEX("difference", difference),
    GY_VERTEX("steal", steal),     GY_VERTEX("wait", wait_for_file),
    GY_VERTEX("number", number),   GY_VERTEX("sum", sum),
    GY_VERTEX("copy", copy),       GY_VERTEX("flood", flood),
    GY_VERTEX("refuse", refuse),   GY_VERTEX("killer", kill_manager),
};

/* ---- a folder for each test ---- */

typedef struct place {
    char top[256], output[300], folder[300], memo[300];
} place;

static inline place make_place(void)
{
    place at;
    snprintf(at.top, sizeof(at.top), "/tmp/gyre-run-test-XXXXXX");
    assert_non_null(mkdtemp(at.top));
    snprintf(at.output, sizeof(at.output), "%s/out", at.top);
    snprintf(at.folder, sizeof(at.folder), "%s/job", at.top);
    snprintf(at.memo, sizeof(at.memo), "%s/memo", at.top);
    return at;
}

static inline void remove_place(const place *at)
{
    char line[512], out[64];
    snprintf(line, sizeof(line), "rm -rf %s", at->top);
    assert_int_equal(gy_test_shell(line, out, sizeof(out)), 0);
}

static inline gy_flow_options options_of(const place *at)
{
    return (gy_flow_options){
        .output = at->output, .folder = at->folder, .processes = 2, .timeout_s = 60};
}

/* Number of entries of a folder; -1: it does not exist. */
static inline int count_entries(const char *path)
{
    DIR *folder = opendir(path);
    int count = folder == NULL ? -1 : 0;
    for (struct dirent *at = folder != NULL ? readdir(folder) : NULL; at != NULL;
         at = readdir(folder)) {
        count += strcmp(at->d_name, ".") != 0 && strcmp(at->d_name, "..") != 0;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return count;
}

static inline void expect_file(const place *at, const char *name, const char *content)
{
    char path[400], text[256];
    snprintf(path, sizeof(path), "%s/%s", at->output, name);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fail_msg("%s is missing", path);
    }
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(text, content);
}

static inline gy_part vertices(gy_dag *dag, const char *function, int inputs, int outputs,
                               int copies)
{
    return gy_part_clone(gy_dag_vertex(dag, &(gy_vertex_options){.function = function,
                                                                 .inputs = inputs,
                                                                 .outputs = outputs}),
                         copies);
}

/* mappers write numbers, reducers their sums, into files sum-00000, ... */
static inline gy_dag *make_sums(int maps, int reducers)
{
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(flow, "sums", &dag));
    gy_part map = vertices(dag, "number", 0, reducers, maps);
    gy_part reduce = vertices(dag, "sum", GY_PORTS_ANY, 1, reducers);
    gy_part_output(gy_part_bipartite(map, reduce, GY_CHANNEL_FILE), "sum");
    return dag;
}

static inline void grow_sums(gy_refinement *refinement, gy_dag *dag, gy_part outputs)
{
    /* two outputs of each vertex */
    for (int64_t i = 0; i < gy_refinement_outputs(refinement); i++) {
        char text[32];
        size_t size = 0;
        const void *sample = gy_refinement_sample(refinement, i, &size);
        if (gy_print(text, sizeof(text), "%lld\n", (long long)i / 2) != size ||
            memcmp(sample, text, size) != 0) {
            gy_dag_fail(dag, GY_ARG, "output %lld shows another sample", (long long)i);
        }
    }
    gy_part made = gy_refinement_repartition(
        refinement, outputs,
        &(gy_vertex_options){.function = "sum", .inputs = GY_PORTS_ANY, .outputs = 1}, 4);
    gy_part_aggregate(
        made,
        &(gy_vertex_options){
            .function = "sum", .stage = "top", .inputs = GY_PORTS_ANY, .outputs = 1},
        8, "total");
}

static inline gy_dag *make_growing(int maps)
{
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(flow, "growing", &dag));
    gy_part_refine(vertices(dag, "number", 0, 2, maps),
                   &(gy_refine_options){.work = grow_sums,
                                        .stages = (const char *[]){"sum", "top", NULL}});
    return dag;
}

#endif
