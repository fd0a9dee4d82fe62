/* A plan as a job: its stages become vertices over pieces of files, the job runs, and its
 * output is read as frames. */
#include "query/dag/dag_priv.h"

#include "base/disk.h"
#include "store/store.h"

#include <gyre/query.h>

#include <stdlib.h>
#include <string.h>

#define OUTPUT "rows"

/* ---- Making ---- */

static gy_status find_pieces(gy_query_job *job)
{
    job->pieces = gy_alloc_zero("query.pieces", job->stages.count + 1u, sizeof(*job->pieces));
    if (job->pieces == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < job->stages.count; i++) {
        gy_query_stage *stage = job->stages.items[i];
        if (!gy_query_stage_fits(stage)) {
            return GY_UNSUPPORTED;
        }
        if (stage->like != GY_QUERY_NONE) {
            GY_ASSERT(stage->like < i);
            stage->vertices = job->stages.items[stage->like]->vertices;
        } else if (stage->table != NULL) {
            GY_TRY(gy_query_pieces_make(stage->table, job->options.piece_bytes,
                                        job->options.engine, &job->pieces[i]));
            stage->vertices = (uint32_t)job->pieces[i].count;
        }
    }
    return GY_OK;
}

/* How many outputs each stage reads of the others. */
static void count_ports(gy_query_job *job)
{
    for (uint32_t i = 0; i < job->stages.count; i++) {
        const gy_query_stage *stage = job->stages.items[i];
        for (uint32_t k = 0; k < stage->input_count; k++) {
            gy_query_input *input = stage->inputs[k];
            input->ports = 0;
            for (uint32_t n = 0; n < input->stage_count; n++) {
                input->ports +=
                    input->is_beside ? 1 : job->stages.items[input->stages[n]]->vertices;
            }
        }
    }
}

/* Vertices in the making: their texts and files live until the graph has them. */
typedef struct making {
    gy_vertex_options *options; /* (count) */
    gy_text *texts;             /* (count) */
    const char **files;         /* (2 count) each with its NULL */
    size_t count;
    char name[64];
} making;

static gy_status make_vertex(gy_query_job *job, uint32_t number, uint32_t vertex, making *to)
{
    const gy_query_stage *stage = job->stages.items[number];
    gy_query_reading reading = {.columns = NULL};
    gy_text *text = &to->texts[vertex];
    const char **files = &to->files[2 * (size_t)vertex];
    if (stage->table != NULL) {
        const uint32_t of = stage->like != GY_QUERY_NONE ? stage->like : number;
        reading = job->pieces[of].items[vertex].reading;
        files[0] = job->pieces[of].items[vertex].file;
    }
    reading.memory_bytes = job->options.memory_bytes;
    gy_text_add(text, "%u\n", number);
    gy_query_fragment_write(&job->stages, stage, &reading, text);
    to->options[vertex] =
        (gy_vertex_options){.function = GY_QUERY_FUNCTION,
                            .stage = to->name,
                            .parameter = text->data,
                            .parameter_bytes = text->size_bytes,
                            .inputs = stage->input_count > 0 ? GY_PORTS_ANY : 0,
                            .outputs = (int)stage->sink.parts,
                            .files = files[0] != NULL ? files : NULL};
    return text->status;
}

/* A stage's vertices; of a table a vertex for each piece. */
static gy_status add_vertices(gy_query_job *job, uint32_t number, gy_part *part)
{
    const gy_query_stage *stage = job->stages.items[number];
    const size_t count = stage->vertices;
    making all = {.options =
                      gy_alloc_zero("query.vertices", count + 1, sizeof(gy_vertex_options)),
                  .texts = gy_alloc_zero("query.vertices", count + 1, sizeof(gy_text)),
                  .files = gy_alloc_zero("query.vertices", 2 * count + 1, sizeof(char *)),
                  .count = count};
    gy_print(all.name, sizeof(all.name), "%u %s", number,
             stage->table != NULL ? "scan"
             : count > 1          ? "part"
                                  : "all");
    gy_status status =
        all.options != NULL && all.texts != NULL && all.files != NULL ? GY_OK : GY_NOMEM;
    for (uint32_t i = 0; i < count && status == GY_OK; i++) {
        status = make_vertex(job, number, i, &all);
    }
    if (status == GY_OK) {
        *part = gy_dag_vertices(job->dag, all.options, (int)count);
    }
    for (size_t i = 0; all.texts != NULL && i < count; i++) {
        gy_text_free(&all.texts[i]);
    }
    gy_free(all.options);
    gy_free(all.texts);
    gy_free(all.files);
    return status;
}

static void connect(gy_query_job *job, const gy_part *parts, uint32_t number)
{
    const gy_query_stage *stage = job->stages.items[number];
    for (uint32_t k = 0; k < stage->input_count; k++) {
        for (uint32_t n = 0; n < stage->inputs[k]->stage_count; n++) {
            (void)(stage->inputs[k]->is_beside ? gy_part_pointwise : gy_part_bipartite)(
                parts[stage->inputs[k]->stages[n]], parts[number], GY_CHANNEL_FILE);
        }
    }
}

static gy_status make_dag(gy_query_job *job)
{
    GY_TRY(gy_dag_new(job->options.flow, "query", &job->dag));
    gy_part *parts = gy_alloc_zero("query.parts", job->stages.count + 1u, sizeof(*parts));
    if (parts == NULL) {
        return GY_NOMEM;
    }
    gy_status status = GY_OK;
    for (uint32_t i = 0; i < job->stages.count && status == GY_OK; i++) {
        status = add_vertices(job, i, &parts[i]);
    }
    for (uint32_t i = 0; i < job->stages.count && status == GY_OK; i++) {
        connect(job, parts, i);
    }
    const uint32_t *results = job->stages.results;
    for (uint32_t i = 0; i < job->stages.result_count && status == GY_OK; i++) {
        parts[job->stages.count] =
            i == 0 ? parts[results[0]]
                   : gy_part_merge(parts[job->stages.count], parts[results[i]]);
        job->outputs += job->stages.items[results[i]]->vertices;
    }
    if (status == GY_OK) {
        gy_part_output(parts[job->stages.count], OUTPUT);
        status = gy_dag_status(job->dag);
    }
    gy_free(parts);
    return status;
}

/* Whether it reads frames of this process. */
static bool has_frames(const gy_query_node *node)
{
    return node != NULL && ((node->kind == GY_QUERY_SCAN && node->table->files == NULL) ||
                            has_frames(node->left) || has_frames(node->right));
}

gy_status gy_query_job_new(const gy_query_plan *plan, const gy_query_job_options *options,
                           gy_query_job **job)
{
    if (has_frames(plan->root)) {
        return gy_fail(GY_UNSUPPORTED, "rows in memory are those of this process alone");
    }
    gy_query_job *made = gy_alloc_zero("query.job", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->options = *options;
    const gy_query_cut_options how = {.parts = options->parts,
                                      .broadcast_bytes = options->broadcast_bytes};
    gy_status status = gy_query_cut(plan, &how, &made->stages);
    status = status == GY_OK ? find_pieces(made) : status;
    if (status == GY_OK) {
        count_ports(made);
        status = options->flow != NULL ? make_dag(made) : GY_OK;
    }
    if (status != GY_OK) {
        gy_query_job_free(made);
        return status;
    }
    *job = made;
    return GY_OK;
}

/* ---- The output ---- */

static bool output_path(const gy_query_job *job, uint32_t number, char *path, size_t size)
{
    return gy_print_whole(path, size, "%s/rows/" OUTPUT "-%05u", job->folder, number);
}

static void remove_output(gy_query_job *job)
{
    (void)gy_disk_remove_tree(job->folder);
    job->folder[0] = '\0';
}

void gy_query_job_free(gy_query_job *job)
{
    if (job == NULL) {
        return;
    }
    if (job->folder[0] != '\0') {
        remove_output(job);
    }
    gy_dag_free(job->dag);
    gy_job_report_free(job->report);
    for (uint32_t i = 0; job->pieces != NULL && i < job->stages.count; i++) {
        gy_query_pieces_fini(&job->pieces[i]);
    }
    gy_free(job->pieces);
    gy_query_stages_fini(&job->stages);
    gy_free(job);
}

gy_status gy_query_job_run(gy_query_job *job)
{
    char output[4200];
    gy_flow_options how = *job->options.how;
    const char *around = how.folder != NULL ? how.folder : job->options.scratch;
    if (!gy_print_whole(job->folder, sizeof(job->folder), "%s%sgyre-query-XXXXXX", around,
                        how.folder != NULL ? "-" : "/") ||
        mkdtemp(job->folder) == NULL) {
        job->folder[0] = '\0';
        return gy_fail(GY_IO, "no folder can be made beside %s", around);
    }
    gy_print(output, sizeof(output), "%s/rows", job->folder);
    how.output = output;
    const gy_status status = gy_flow_run(job->options.flow, job->dag, &how, &job->report);
    return status < 0 && strstr(gy_error_text(), GY_QUERY_WRONG_ROWS) != NULL ? GY_FORMAT
                                                                              : status;
}

static gy_status read_file(const char *path, gy_schema *schema, gy_query_take take, void *arg)
{
    gy_mapping mapping;
    GY_TRY(gy_store_file_map(path, &mapping));
    const char *data = mapping.data;
    size_t left = mapping.size_bytes;
    gy_status status = GY_OK;
    while (left > 0 && status == GY_OK) {
        gy_frame *frame = NULL;
        size_t used = 0;
        status = gy_rows_bytes_read(schema, data, left, &used, &frame);
        if (status == GY_OK) {
            data += used;
            left -= used;
            status = take(arg, frame);
        }
    }
    gy_store_file_unmap(&mapping);
    return status == GY_AGAIN ? gy_fail(GY_FORMAT, "%s ends within a frame", path) : status;
}

gy_status gy_query_job_read(gy_query_job *job, gy_schema *schema, gy_query_take take, void *arg)
{
    char path[4200];
    gy_status status = GY_OK;
    for (uint32_t i = 0; i < job->outputs && status == GY_OK; i++) {
        status = output_path(job, i, path, sizeof(path)) ? read_file(path, schema, take, arg)
                                                         : GY_IO;
    }
    remove_output(job);
    return status;
}
