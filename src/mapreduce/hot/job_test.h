/**
 * What tests of jobs share: a folder of inputs, and a runner that executes the vertices of a
 * job's graph in this process one after the other, including refinement.
 */
#ifndef GY_MAPREDUCE_HOT_JOB_TEST_H
#define GY_MAPREDUCE_HOT_JOB_TEST_H

#include "base/base.h"
#include "flow/channel/channel.h"
#include "flow/dag.h"
#include "flow/memo/key.h"
#include "flow/refine.h"
#include "mapreduce/job.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gy_test.h"

enum { PATH_BYTES = 200, FILES = 5 };

static char folder[64];
static char paths[FILES][PATH_BYTES];
static const char *inputs[FILES + 1];

static inline int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/gyre-mapreduce-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    for (int i = 0; i < FILES; i++) {
        snprintf(paths[i], PATH_BYTES, "%s/input%d", folder, i);
        inputs[i] = paths[i];
    }
    return 0;
}

static inline int remove_one(const char *path, const struct stat *about, int type,
                             struct FTW *at)
{
    (void)about;
    (void)type;
    (void)at;
    return remove(path);
}

static inline int remove_folder(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static inline void write_file(const char *path, const char *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static inline void append_file(gy_text *out, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return; /* nothing was written */
    }
    char piece[4096];
    for (size_t got; (got = fread(piece, 1, sizeof(piece), file)) > 0;) {
        gy_text_add_bytes(out, piece, got);
    }
    fclose(file);
}

static const gy_function *test_functions; /* sorted by name, as in gy_flow_start */
static size_t test_function_count;

/* ---- a job, vertex by vertex ---- */

typedef struct outcome {
    gy_text all; /* the output's files, concatenated */
    gy_cause cause;
    char reason[400];
    int64_t skipped;
    int maps;
    int hot;              /* number of vertices of stage "hot key" */
    gy_text reports[600]; /* reports of the vertices; bounded by the tests' splits */
} outcome;

static const gy_flow_record_id *bad_places;
static size_t bad_count;

static inline void path_of(char out[PATH_BYTES], uint32_t vertex, uint32_t output)
{
    snprintf(out, PATH_BYTES, "%s/out.%u.%u", folder, vertex, output);
}

/* Run a vertex of the graph, which reads the outputs of earlier ones. */
static inline void run_vertex(const gy_dag *dag, uint32_t vertex, outcome *out)
{
    const gy_proto *proto = &dag->protos[dag->proto[vertex]];
    static gy_flow_task_input ports[400];
    static gy_flow_task_output outputs[64];
    static char names[464][PATH_BYTES];
    uint32_t input_count = 0, output_count = 0, name = 0; /* bounded by the tests' splits */
    for (size_t i = 0; i < dag->edge_count; i++) {
        if (dag->edges[i].to == vertex) {
            path_of(names[name], dag->edges[i].from, dag->edges[i].output);
            assert_true(name < GY_COUNT(ports) && dag->edges[i].input < GY_COUNT(ports));
            ports[dag->edges[i].input] = (gy_flow_task_input){
                .kind = GY_INPUT_PLAIN, .path = names[name++], .size_bytes = UINT64_MAX};
            input_count++;
        }
    }
    for (size_t i = 0; proto->files != NULL && proto->files[i] != NULL; i++) {
        static gy_file_range ranges[400];
        gy_file_range *range = &ranges[input_count];
        assert_ok(gy_file_range_read(proto->files[i], range));
        ports[input_count++] = (gy_flow_task_input){.kind = GY_INPUT_PLAIN,
                                                    .path = range->path,
                                                    .offset = range->offset,
                                                    .size_bytes = range->size_bytes};
    }
    for (; output_count < (uint32_t)proto->outputs; output_count++) {
        path_of(names[name], vertex, output_count);
        outputs[output_count] =
            (gy_flow_task_output){.kind = GY_OUTPUT_FINAL, .path = names[name++]};
    }
    const gy_function *function = test_functions;
    while (strcmp(function->name, proto->function) != 0) {
        function++;
    }
    char path[PATH_BYTES];
    snprintf(path, sizeof(path), "%s/%u.0.1", folder, vertex);
    const gy_flow_task order = {.id = {.task = vertex, .attempt = 1},
                                .key = {1, vertex},
                                .name = "vertex",
                                .stage = "stage",
                                .run = function->run,
                                .user = function->user,
                                .functions = test_functions,
                                .function_count = (uint32_t)test_function_count,
                                .parameter = proto->parameter,
                                .parameter_bytes = proto->parameter_bytes,
                                .copies = 1,
                                .folder = folder,
                                .path = path,
                                .inputs = ports,
                                .input_count = input_count,
                                .outputs = outputs,
                                .output_count = output_count,
                                .bad = bad_places,
                                .bad_count = bad_count,
                                .deadline = gy_deadline_after(60)};
    static const _Atomic bool never;
    gy_worker_answer answer = {.cause = GY_CAUSE_NONE};
    gy_vertex_execute(gy_env_real(), &order, NULL, NULL, &never, &answer);
    if (answer.cause != GY_CAUSE_NONE && out->cause == GY_CAUSE_NONE) {
        out->cause = answer.cause;
        snprintf(out->reason, sizeof(out->reason), "%s", gy_text_get(&answer.reason));
    } else if (answer.cause == GY_CAUSE_NONE) {
        gy_report report;
        assert_ok(gy_report_read(answer.report.data, answer.report.size_bytes, &report));
        out->skipped += report.skipped;
    }
    assert_true(vertex < GY_COUNT(out->reports));
    out->reports[vertex] = answer.report;
    gy_text_free(&answer.reason);
}

/* Call the refinement function with the reports of its vertices. */
static inline void open_refinement(gy_dag *dag, size_t number, const outcome *out)
{
    const gy_dag_refinement row = dag->refinements[number];
    gy_refinement refinement = {
        .row = &row,
        .bytes = gy_alloc("test", row.port_count * sizeof(int64_t)),
        .samples = gy_alloc("test", row.port_count * sizeof(gy_refinement_sample_row)),
        .processes = 2,
    };
    for (uint32_t k = 0; k < row.port_count; k++) {
        const gy_text *text = &out->reports[row.ports[(size_t)k * 2]];
        gy_report report;
        assert_ok(gy_report_read(text->data, text->size_bytes, &report));
        refinement.bytes[k] =
            (int64_t)gy_report_output(&report, row.ports[(size_t)k * 2 + 1]).size_bytes;
        refinement.samples[k] = (gy_refinement_sample_row){report.sample, report.sample_bytes};
    }
    dag->is_running = true;
    dag->part_floor = dag->part_count;
    row.work(&refinement, dag, gy_refinement_part(dag, &row));
    gy_free(refinement.bytes);
    gy_free(refinement.samples);
    if (gy_dag_failure(dag) != NULL) {
        fail_msg("%s", gy_dag_failure(dag));
    }
}

/* What a maker has made; it gives `made`. */
static gy_dag *made;
static inline outcome run_made(gy_status status)
{
    outcome out = {.cause = GY_CAUSE_NONE};
    gy_dag *dag = made;
    assert_ok(status);
    assert_non_null(dag);
    made = NULL;
    if (gy_dag_failure(dag) != NULL) {
        fail_msg("%s", gy_dag_failure(dag));
    }
    size_t refinements = 0;
    for (uint32_t v = 0; v < dag->vertex_count && out.cause == GY_CAUSE_NONE; v++) {
        const gy_proto *proto = &dag->protos[dag->proto[v]];
        out.maps += proto->files != NULL;
        out.hot += strcmp(dag->stages[proto->stage].name, "hot key") == 0;
        run_vertex(dag, v, &out);
        if (v + 1 == dag->vertex_count && refinements < dag->refinement_count &&
            out.cause == GY_CAUSE_NONE) {
            open_refinement(dag, refinements++, &out);
        }
    }
    for (size_t i = 0; i < dag->final_count && out.cause == GY_CAUSE_NONE; i++) {
        char path[PATH_BYTES];
        path_of(path, dag->finals[i].vertex, dag->finals[i].output);
        append_file(&out.all, path);
    }
    for (uint32_t v = 0; v < dag->vertex_count; v++) {
        for (int i = 0; i < dag->protos[dag->proto[v]].outputs; i++) {
            char path[PATH_BYTES];
            path_of(path, v, (uint32_t)i);
            (void)unlink(path);
        }
        gy_text_free(&out.reports[v]);
    }
    gy_dag_free(dag);
    return out;
}

static inline outcome run_job(const gy_map_reduce_options *options)
{
    outcome out = run_made(gy_map_reduce(NULL, options, &made));
    if (out.cause != GY_CAUSE_NONE) {
        fail_msg("cause %d: %s", out.cause, out.reason);
    }
    return out;
}

#endif
