/* A plan as a job: its stages become vertices over pieces of files, the job runs, and its
 * output is read as frames. */
#include "query/dag/dag_priv.h"

#include "base/disk.h"
#include "flow/dag.h"
#include "store/store.h"

#include <gyre/query.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OUTPUT "rows"

/* ---- Making ---- */

/* The pieces of a table, made once. */
static gy_status pieces_of(gy_query_job *job, const gy_query_table *table,
                           const gy_query_pieces **pieces)
{
    for (size_t i = 0; i < job->piece_count; i++) {
        if (job->pieces[i].table == table) {
            *pieces = &job->pieces[i];
            return GY_OK;
        }
    }
    GY_TRY(GY_GROW("query.pieces", job->pieces, job->piece_capacity, job->piece_count + 1));
    gy_query_pieces *made = &job->pieces[job->piece_count];
    GY_TRY(gy_query_pieces_make(table, job->options.piece_bytes, job->options.engine, made));
    made->table = table;
    job->piece_count++;
    *pieces = made;
    return GY_OK;
}

static gy_status find_pieces(gy_query_job *job)
{
    for (uint32_t i = 0; i < job->stages.count; i++) {
        gy_query_stage *stage = job->stages.items[i];
        if (!gy_query_stage_fits(stage)) {
            return GY_UNSUPPORTED;
        }
        if (stage->like != GY_QUERY_NONE) {
            GY_ASSERT(stage->like < i);
            stage->vertices = job->stages.items[stage->like]->vertices;
        } else if (stage->table != NULL) {
            const gy_query_pieces *pieces = NULL;
            GY_TRY(pieces_of(job, stage->table, &pieces));
            stage->vertices = (uint32_t)pieces->count;
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
                const gy_query_stage *from = job->stages.items[input->stages[n]];
                input->ports += input->is_beside ? 1 : from->vertices;
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
        const gy_query_pieces *pieces = NULL;
        GY_TRY(pieces_of(job, stage->table, &pieces));
        reading = pieces->items[vertex].reading;
        files[0] = pieces->items[vertex].file;
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

/* Behind refinement points it is not known before what a stage is; there are names of so many.
 */
static void name_stage(const gy_query_job *job, uint32_t number, char name[64])
{
    const gy_query_stage *stage = job->stages.items[number];
    const bool is_later = job->later > 0 && !stage->is_first;
    gy_print(name, 64, "%u %s", is_later ? GY_MIN(number, job->later) : number,
             is_later               ? "later"
             : stage->table != NULL ? "scan"
             : stage->vertices > 1  ? "part"
                                    : "all");
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
    name_stage(job, number, all.name);
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

/* Stages while they are joined: those that run first are vertices of the refinement point
 * behind it. */
typedef struct joining {
    gy_part *parts;   /* (stage count) of the others */
    uint32_t *first;  /* (stage count) where a stage's vertices begin among those of the
                         refinement point */
    uint32_t *behind; /* vertices of the refinement point; NULL: all stages have parts */
} joining;

/* Let a stage behind the refinement point read one before it, of one output. */
static void connect_first(gy_query_job *job, const joining *all, uint32_t number,
                          const gy_query_input *input, uint32_t from)
{
    const gy_query_stage *stage = job->stages.items[from];
    const uint32_t *behind = all->behind + all->first[from];
    const gy_dag_part *part = gy_flow_part_get(job->dag, all->parts[number]);
    uint32_t to[2] = {0, UINT32_MAX}, vertex = 0;
    GY_ASSERT(stage->sink.parts == 1 && (input->is_whole || input->is_beside));
    if (part == NULL) {
        return;
    }
    gy_part_cursor cursor = gy_flow_part_read(job->dag, part, GY_PART_VERTICES);
    for (; gy_flow_part_next(&cursor, &to[0]); vertex++) {
        const uint32_t end = input->is_beside ? vertex + 1 : stage->vertices;
        for (uint32_t i = input->is_beside ? vertex : 0; i < end; i++) {
            gy_dag_join(job->dag, (uint32_t[2]){behind[i], 0}, to, GY_CHANNEL_FILE);
        }
    }
}

static void connect(gy_query_job *job, const joining *all, uint32_t number)
{
    const gy_query_stage *stage = job->stages.items[number];
    for (uint32_t k = 0; k < stage->input_count; k++) {
        const gy_query_input *input = stage->inputs[k];
        for (uint32_t n = 0; n < input->stage_count; n++) {
            const uint32_t from = input->stages[n];
            if (all->behind != NULL && job->stages.items[from]->is_first) {
                connect_first(job, all, number, input, from);
            } else {
                (void)(input->is_beside ? gy_part_pointwise : gy_part_bipartite)(
                    all->parts[from], all->parts[number], GY_CHANNEL_FILE);
            }
        }
    }
}

/* The stages [begin, end), and what they read. */
static gy_status make_stages(gy_query_job *job, uint32_t begin, uint32_t end, joining *all)
{
    gy_status status = GY_OK;
    for (uint32_t i = begin; i < end && status == GY_OK; i++) {
        status = add_vertices(job, i, &all->parts[i]);
    }
    for (uint32_t i = begin; i < end && status == GY_OK; i++) {
        connect(job, all, i);
    }
    return status;
}

static void merge_part(gy_part *all, uint32_t count, gy_part part)
{
    *all = count == 0 ? part : gy_part_merge(*all, part);
}

/* What the answer is of becomes the job's output. */
static void give_results(gy_query_job *job, const joining *all)
{
    gy_part results = {.dag = NULL};
    for (uint32_t i = 0; i < job->stages.result_count; i++) {
        const uint32_t number = job->stages.results[i];
        merge_part(&results, i, all->parts[number]);
        job->outputs += job->stages.items[number]->vertices;
    }
    gy_part_output(results, OUTPUT);
}

static gy_status cut_stages(const gy_query_job *job, const double *sizes,
                            gy_query_stages *stages)
{
    const gy_query_cut_options how = {.parts = job->options.parts,
                                      .broadcast_bytes = job->options.broadcast_bytes,
                                      .has_decisions = gy_query_may_decide(job->plan->root),
                                      .sizes = sizes};
    return gy_query_cut(job->plan, &how, stages);
}

/* ---- Behind the refinement point ---- */

/* The sizes of joins' sides, as their vertices told. */
static gy_status take_sizes(gy_query_job *job, const gy_refinement *refinement)
{
    int64_t port = 0;
    for (uint32_t g = 0; g < job->stages.decision_count; g++) {
        const gy_query_decision *decision = &job->stages.decisions[g];
        job->sizes[decision->join] = 0;
        for (uint32_t n = 0; n < decision->stage_count; n++) {
            const gy_query_stage *stage = job->stages.items[decision->stages[n]];
            for (uint32_t i = 0; i < stage->vertices; i++, port += stage->sink.parts) {
                size_t told = 0;
                uint64_t bytes = 0;
                const void *sample = gy_refinement_sample(refinement, port, &told);
                if (told != sizeof(bytes)) {
                    return gy_fail(GY_FORMAT, "a side of a join has no size");
                }
                memcpy(&bytes, sample, sizeof(bytes));
                job->sizes[decision->join] += (double)bytes;
            }
        }
    }
    return GY_OK;
}

/* Where the vertices of stages stand among those of the refinement point. */
static gy_status find_first(const gy_query_job *job, gy_part outputs, joining *all)
{
    uint32_t count = 0, vertex = 0;
    for (uint32_t g = 0; g < job->stages.decision_count; g++) {
        const gy_query_decision *decision = &job->stages.decisions[g];
        for (uint32_t n = 0; n < decision->stage_count; n++) {
            all->first[decision->stages[n]] = count;
            count += job->stages.items[decision->stages[n]]->vertices;
        }
    }
    all->behind = gy_alloc_zero("query.decision", count + 1u, sizeof(*all->behind));
    const gy_dag_part *part = gy_flow_part_get(job->dag, outputs);
    if (all->behind == NULL || part == NULL) {
        return GY_NOMEM;
    }
    gy_part_cursor cursor = gy_flow_part_read(job->dag, part, GY_PART_VERTICES);
    for (uint32_t i = 0; i < count && gy_flow_part_next(&cursor, &vertex); i++) {
        all->behind[i] = vertex;
    }
    return GY_OK;
}

static gy_status new_joining(const gy_query_job *job, joining *all)
{
    const size_t count = job->stages.count + 1u;
    *all = (joining){.parts = gy_alloc_zero("query.parts", count, sizeof(*all->parts)),
                     .first = gy_alloc_zero("query.parts", count, sizeof(*all->first))};
    return all->parts != NULL && all->first != NULL ? GY_OK : GY_NOMEM;
}

static void free_joining(joining *all)
{
    gy_free(all->parts);
    gy_free(all->first);
    gy_free(all->behind);
}

/* Cut the plan by the sizes, and make the rest of its stages. */
static gy_status make_rest(gy_query_job *job, const gy_refinement *refinement, gy_part outputs)
{
    gy_query_stages stages;
    joining all = {.parts = NULL};
    GY_TRY(take_sizes(job, refinement));
    gy_status status = cut_stages(job, job->sizes, &stages);
    if (status != GY_OK) {
        gy_query_stages_fini(&stages);
        return status;
    }
    gy_query_stages_fini(&job->stages);
    job->stages = stages;
    GY_TRY(find_pieces(job));
    count_ports(job);
    status = new_joining(job, &all);
    status = status == GY_OK ? find_first(job, outputs, &all) : status;
    if (status == GY_OK) {
        const uint32_t first = gy_query_stages_first(&job->stages);
        status = make_stages(job, first, job->stages.count, &all);
    }
    if (status == GY_OK) {
        give_results(job, &all);
    }
    free_joining(&all);
    return status;
}

static void pass_sizes(gy_refinement *refinement, gy_dag *dag, gy_part outputs)
{
    size_t size = 0;
    gy_query_job *job = NULL;
    memcpy(&job, gy_refinement_parameter(refinement, &size), sizeof(job));
    GY_ASSERT(size == sizeof(job) && job->dag == dag);
    const gy_status status = make_rest(job, refinement, outputs);
    if (status != GY_OK) {
        gy_dag_fail(dag, status, "%s", gy_error_text());
    }
}

/* The names of stages behind the refinement point: of as many as there are where all joins go
 * by hash, and others have that of the last one. */
static gy_status name_later(gy_query_job *job, const char ***names)
{
    gy_query_stages most;
    const size_t joins = job->plan->node_count;
    for (size_t i = 0; i < joins; i++) {
        job->sizes[i] = HUGE_VAL;
    }
    const gy_status status = cut_stages(job, job->sizes, &most);
    const uint32_t count = GY_MAX(most.count, job->stages.count);
    gy_query_stages_fini(&most);
    GY_TRY(status);
    const uint32_t first = gy_query_stages_first(&job->stages);
    char(*texts)[64] = gy_query_stages_take(&job->stages, count, sizeof(*texts));
    *names = gy_query_stages_take(&job->stages, count, sizeof(char *));
    if (texts == NULL || *names == NULL) {
        return GY_NOMEM;
    }
    job->later = count - 1;
    for (uint32_t i = first; i < count; i++) {
        gy_print(texts[i], sizeof(texts[i]), "%u later", i);
        (*names)[i - first] = texts[i];
    }
    return GY_OK;
}

/* The stages before the refinement point, and the refinement point. */
static gy_status make_first(gy_query_job *job, joining *all)
{
    const char **names = NULL;
    gy_part sides = {.dag = NULL};
    uint32_t count = 0;
    job->sizes = gy_alloc_zero("query.sizes", job->plan->node_count + 1u, sizeof(*job->sizes));
    if (job->sizes == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(name_later(job, &names));
    GY_TRY(make_stages(job, 0, gy_query_stages_first(&job->stages), all));
    for (uint32_t g = 0; g < job->stages.decision_count; g++) {
        const gy_query_decision *decision = &job->stages.decisions[g];
        for (uint32_t n = 0; n < decision->stage_count; n++) {
            merge_part(&sides, count++, all->parts[decision->stages[n]]);
        }
    }
    gy_part_refine(sides, &(gy_refine_options){.work = pass_sizes,
                                               .parameter = &job,
                                               .parameter_bytes = sizeof(job),
                                               .stages = names});
    return GY_OK;
}

static gy_status make_dag(gy_query_job *job)
{
    joining all;
    GY_TRY(gy_dag_new(job->options.flow, "query", &job->dag));
    gy_status status = new_joining(job, &all);
    if (status == GY_OK && job->stages.decision_count > 0) {
        status = make_first(job, &all);
    } else if (status == GY_OK) {
        status = make_stages(job, 0, job->stages.count, &all);
        if (status == GY_OK) {
            give_results(job, &all);
        }
    }
    free_joining(&all);
    return status == GY_OK ? gy_dag_status(job->dag) : status;
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
    made->plan = plan;
    gy_status status = cut_stages(made, NULL, &made->stages);
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
    for (size_t i = 0; i < job->piece_count; i++) {
        gy_query_pieces_fini(&job->pieces[i]);
    }
    gy_free(job->sizes);
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
