/* The ready-made jobs as graphs. */
#include "mapreduce/job.h"

#include "base/base.h"
#include "base/escape.h"
#include "flow/dag.h"
#include "mapreduce/maps/maps.h"

#include <gyre/sort.h>

#include <string.h>

enum { TOP_DEFAULT = 5, TOP_MOST = 1 << 20 };

const gy_function gy_mapreduce_functions[] = {
    GY_MAP("gyre.words", gy_map_words),
    GY_MAP("gyre.grep", gy_map_grep),
    GY_MAP("gyre.index", gy_map_index),
    GY_MAP("gyre.fields", gy_map_fields),
    GY_MAP("gyre.copy", gy_map_copy),
    GY_MAP("gyre.pairs", gy_map_pairs),
    GY_VERTEX("gyre.top", gy_top_run),
    GY_COMBINE("gyre.add", gy_mapreduce_add_weights),
    GY_VERTEX("gyre.say", gy_mapreduce_say_run),
    GY_SORT_FUNCTION,
};
const int gy_mapreduce_function_count = GY_COUNT(gy_mapreduce_functions);

gy_status gy_mapreduce_say_run(gy_vertex *vertex)
{
    size_t size = 0;
    const void *text = gy_vertex_parameter(vertex, &size);
    return gy_vertex_write(vertex, 0, text, size);
}

/* The options that all ready-made jobs have; NULL: the defaults, which lack inputs. */
static gy_status options_of(const gy_job_options *job, const char *map,
                            gy_map_reduce_options *all)
{
    gy_job_options known;
    GY_TRY(gy_options_take(gy_job_options, &known, job));
    job = &known;
    *all = (gy_map_reduce_options){.inputs = job->inputs,
                                   .names = job->names,
                                   .format = GY_RECORDS_TEXT,
                                   .map = map,
                                   .partitions = job->partitions,
                                   .split_bytes = job->split_bytes,
                                   .encoding = job->encoding,
                                   .line_end = job->line_end,
                                   .memory_bytes = job->memory_bytes,
                                   .name = job->name,
                                   .hot_key_bytes = job->hot_key_bytes};
    return GY_OK;
}

static const char *name_of(const gy_map_reduce_options *all)
{
    return all->name != NULL ? all->name : "part";
}

gy_status gy_dag_wordcount(gy_flow *flow, const gy_job_options *options, gy_dag **dag)
{
    gy_map_reduce_options all;
    GY_TRY(options_of(options, "gyre.words", &all));
    all.combine = GY_COMBINE_SUM;
    return gy_map_reduce(flow, &all, dag);
}

gy_status gy_dag_index(gy_flow *flow, const gy_job_options *options, gy_dag **dag)
{
    gy_map_reduce_options all;
    GY_TRY(options_of(options, "gyre.index", &all));
    all.combine = GY_COMBINE_SET;
    return gy_map_reduce(flow, &all, dag);
}

void gy_dag_list_inputs(gy_dag *dag, const char *const *inputs, const char *name)
{
    gy_text lines = {0};
    for (size_t i = 0; inputs[i] != NULL; i++) {
        gy_text_add(&lines, "%zu\t", i);
        gy_text_add_name(&lines, inputs[i]);
        gy_text_add_bytes(&lines, "\n", 1);
    }
    if (lines.status < 0) {
        gy_dag_fail(dag, GY_NOMEM, "no memory for the list of inputs");
    } else {
        const gy_vertex_options saying = {.function = "gyre.say",
                                          .stage = "inputs",
                                          .parameter = lines.data,
                                          .parameter_bytes = lines.size_bytes,
                                          .outputs = 1};
        gy_part_output(gy_dag_vertex(dag, &saying), name);
    }
    gy_text_free(&lines);
}

gy_status gy_dag_grep(gy_flow *flow, const gy_grep_options *options, gy_dag **dag)
{
    gy_grep_options known;
    GY_TRY(gy_options_take(gy_grep_options, &known, options));
    options = &known;
    gy_map_reduce_options all;
    GY_TRY(options_of(options->job, "gyre.grep", &all));
    all.is_map_only = !options->is_counting;
    all.combine = options->is_counting ? GY_COMBINE_SUM : GY_COMBINE_NONE;
    all.order = options->is_counting ? GY_ORDER_KEY : GY_ORDER_HASH;
    gy_text parameter = {0};
    gy_status status = gy_mapreduce_grep_parameter(options, &parameter);
    all.parameter = parameter.data;
    all.parameter_bytes = parameter.size_bytes;
    status = status < 0 ? status : gy_map_reduce(flow, &all, dag);
    gy_text_free(&parameter);
    return status;
}

/* What gy_dag_topk checks by itself. */
static gy_status check_top(const gy_top_parameter *with)
{
    if (with->field < 0 || with->weight_field < 0 || with->k < 0 || with->k > TOP_MOST) {
        return gy_fail(GY_ARG,
                       "field %d, weight_field %d, k %lld: expected 0 or more, k at most %d",
                       with->field, with->weight_field, (long long)with->k, TOP_MOST);
    }
    if (with->separator != 0 && with->field == 0 && with->weight_field == 0) {
        return gy_fail(GY_ARG,
                       "a separator without a field: expected the number of one (--field)");
    }
    return GY_OK;
}

gy_status gy_dag_topk(gy_flow *flow, const gy_topk_options *options, gy_dag **dag)
{
    gy_topk_options known;
    GY_TRY(gy_options_take(gy_topk_options, &known, options));
    options = &known;
    gy_map_reduce_options all;
    GY_TRY(options_of(options->job, "gyre.fields", &all));
    const gy_top_parameter with = {.field = options->field,
                                   .weight_field = options->weight_field,
                                   .k = options->k != 0 ? options->k : TOP_DEFAULT,
                                   .separator = (unsigned char)options->separator,
                                   .is_strict = options->is_strict};
    all.combine = options->weight_field > 0 ? GY_COMBINE_USER : GY_COMBINE_SUM;
    all.combine_function = options->weight_field > 0 ? "gyre.add" : NULL;
    all.partitions = 1;
    all.parameter = &with;
    all.parameter_bytes = sizeof(with);
    gy_dag *made = NULL;
    GY_TRY(check_top(&with));
    GY_TRY(gy_dag_new(flow, "top", &made));
    int count = 0;
    const gy_part maps = gy_mapreduce_job_maps(made, &all, "map", &count);
    const gy_part top =
        gy_dag_vertex(made, &(gy_vertex_options){.function = "gyre.top",
                                                 .stage = "top",
                                                 .parameter = &with,
                                                 .parameter_bytes = sizeof(with),
                                                 .inputs = GY_PORTS_ANY,
                                                 .outputs = 1});
    gy_part_output(gy_part_bipartite(maps, top, GY_CHANNEL_FIFO), name_of(&all));
    return gy_mapreduce_job_end(GY_OK, made, dag);
}

/* Clone a program with one input and one output. */
static gy_part add_commands(gy_dag *dag, const char *const *command, const char *stage,
                            const char *const *files, int copies)
{
    return gy_part_clone(gy_dag_vertex(dag, &(gy_vertex_options){.command = command,
                                                                 .stage = stage,
                                                                 .parameter = "\n",
                                                                 .parameter_bytes = 1,
                                                                 .files = files,
                                                                 .inputs = 1,
                                                                 .outputs = 1}),
                         copies);
}

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Check that the base names of files differ, since all lie in the command's folder. */
static gy_status check_files(const char *const *files)
{
    for (size_t i = 0; files != NULL && files[i] != NULL; i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcmp(last_name(files[i]), last_name(files[j])) == 0) {
                return gy_fail(GY_ARG, "two files for the commands are called %s: %s and %s",
                               last_name(files[i]), files[j], files[i]);
            }
        }
    }
    return GY_OK;
}

/* Each step adds nothing to a graph that has failed. */
static void build_commands(gy_dag *dag, const gy_commands_options *options,
                           gy_map_reduce_options reading)
{
    reading.is_map_only = true;
    int splits = 0;
    const gy_part readers = gy_mapreduce_job_maps(dag, &reading, "read", &splits);
    if (dag->status < 0) { /* else there are splits to read */
        return;
    }
    gy_part part = gy_part_pointwise(
        readers, add_commands(dag, options->map, "map", options->files, splits),
        GY_CHANNEL_FIFO);
    if (options->reduce != NULL) {
        gy_map_reduce_options sorting = reading;
        sorting.map = "gyre.pairs";
        sorting.is_map_only = false;
        sorting.format = GY_RECORDS_KEY_VALUE;
        sorting.has_bytes = true;
        sorting.order = GY_ORDER_KEY;
        const int partitions = gy_mapreduce_job_partitions(sorting.partitions);
        part = gy_part_pointwise(part, gy_mapreduce_job_streams(dag, &sorting, splits),
                                 GY_CHANNEL_FIFO);
        part = gy_part_bipartite(part, gy_mapreduce_job_reduces(dag, &sorting, NULL),
                                 GY_CHANNEL_FILE);
        part = gy_part_pointwise(
            part,
            add_commands(dag, options->reduce, "reduce command", options->files, partitions),
            GY_CHANNEL_FIFO);
    }
    gy_part_output(part, name_of(&reading));
}

gy_status gy_dag_commands(gy_flow *flow, const gy_commands_options *options, gy_dag **dag)
{
    gy_dag *made = NULL;
    gy_commands_options known;
    GY_TRY(gy_options_take(gy_commands_options, &known, options));
    if (known.map == NULL || known.map[0] == NULL) {
        return gy_fail(GY_ARG, "no map command was given");
    }
    GY_TRY(check_files(known.files));
    gy_map_reduce_options reading;
    GY_TRY(options_of(known.job, "gyre.copy", &reading));
    GY_TRY(gy_dag_new(flow, "commands", &made));
    build_commands(made, &known, reading);
    return gy_mapreduce_job_end(GY_OK, made, dag);
}
