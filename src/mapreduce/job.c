/* Builds the graphs of MapReduce jobs. */
#include "mapreduce/job.h"

#include "base/base.h"
#include "flow/dag.h"
#include "frame/csv/records.h"
#include "mapreduce/hot/hot.h"
#include "mapreduce/plan.h"
#include "store/host_file.h"
#include "store/remote/remote.h"
#include "store/versions/stamp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OWN_PREFIX "gyre." /* prefix of the functions of ready-made jobs */

enum { PARTITIONS_A_CORE = 2, PARTITIONS_MOST = 4096 };

int gy_mapreduce_job_cores(void)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores > 256 ? 256 : (int)cores;
}

int gy_mapreduce_job_partitions(int partitions)
{
    return partitions > 0 ? partitions : PARTITIONS_A_CORE * gy_mapreduce_job_cores();
}

gy_status gy_mapreduce_job_end(gy_status status, gy_dag *made, gy_dag **dag)
{
    GY_ASSERT(made != NULL);
    GY_ASSERT(dag != NULL);
    status = status < 0 ? status : gy_dag_status(made);
    if (status < 0) {
        gy_dag_free(made);
        return status;
    }
    *dag = made;
    return GY_OK;
}

/* ---- errors ---- */

static const char *error_of(const gy_map_reduce_options *o)
{
    const struct {
        bool is_made;
        const char *text;
    } errors[] = {
        {o->inputs == NULL || o->inputs[0] == NULL, "no input was given"},
        {o->map == NULL, "no map function was given"},
        {(unsigned)o->format > GY_RECORDS_FIXED, "there is no such format of records"},
        {(unsigned)o->encoding > GY_ENCODING_LZ4, "there is no such encoding of files"},
        {(unsigned)o->line_end > GY_LINE_END_ANY, "there is no such end of lines"},
        {(unsigned)o->combine > GY_COMBINE_USER, "there is no such combine"},
        {(unsigned)o->order > GY_ORDER_VALUE, "there is no such order of a reduce"},
        {o->format == GY_RECORDS_CSV && o->line_end == GY_LINE_END_LF,
         "rows of CSV end with LF, CRLF or CR (line_end)"},
        {o->format == GY_RECORDS_FIXED && o->record_bytes == 0,
         "records of one size have no size (record_bytes)"},
        {o->partitions < 0 || o->partitions > PARTITIONS_MOST,
         "partitions are not in 0 to 4096"},
        {(o->combine == GY_COMBINE_USER) != (o->combine_function != NULL),
         "GY_COMBINE_USER and combine_function come together"},
        {o->has_bytes && o->combine != GY_COMBINE_NONE && o->combine != GY_COMBINE_USER,
         "bytes cannot be combined as numbers"},
        {o->has_bytes && o->combine == GY_COMBINE_USER && o->reduce == NULL,
         "bytes are combined for a reduce, and there is none"},
        {o->order != GY_ORDER_HASH && o->combine == GY_COMBINE_SET,
         "a set cannot be ordered by key"},
        {o->order == GY_ORDER_VALUE && !o->has_bytes,
         "only bytes can be ordered by value (has_bytes)"},
        {o->is_map_only && (o->reduce != NULL || o->combine != GY_COMBINE_NONE),
         "a job of maps alone has no reduce and no combine"},
    };
    for (size_t i = 0; i < GY_COUNT(errors); i++) {
        if (errors[i].is_made) {
            return errors[i].text;
        }
    }
    return NULL;
}

/* Check that each named function is in the program's list with the right kind. False: the
 * graph records the error. */
static bool check_functions(gy_dag *dag, const gy_map_reduce_options *o)
{
    const struct {
        const char *name;
        gy_vertex_work run;
        const char *kind;
    } uses[] = {{o->map, gy_mapreduce_run, "GY_MAP"},
                {o->reduce, gy_mapreduce_run_reduce, "GY_REDUCE"},
                {o->combine_function,
                 o->has_bytes ? gy_mapreduce_run_reduce : gy_mapreduce_run_combine,
                 o->has_bytes ? "GY_REDUCE" : "GY_COMBINE"},
                {o->partition_function, gy_mapreduce_run_partition, "GY_PARTITION"}};
    for (size_t i = 0; dag->flow != NULL && i < GY_COUNT(uses); i++) {
        const gy_function *listed =
            uses[i].name != NULL ? gy_dag_function(dag, uses[i].name) : NULL;
        if (uses[i].name != NULL && (listed == NULL || listed->run != uses[i].run)) {
            gy_dag_fail(dag, GY_ARG, "the program lists no %s of the name '%s'%s", uses[i].kind,
                        uses[i].name, listed != NULL ? ", but another function" : "");
            return false;
        }
    }
    return true;
}

/* ---- inputs ---- */

/* Refuse a path that is no regular file, and name a remedy. */
static gy_status refuse(const char *path, mode_t mode)
{
    if (S_ISDIR(mode)) {
        return gy_fail(GY_IO, "cannot read %s: it is a folder, expected a file", path);
    }
    return gy_fail(GY_IO,
                   "cannot read %s: it is no file%s: a job reads its inputs where and as often "
                   "as it needs, so write it to a file first, or give it as standard input (-)",
                   path, S_ISFIFO(mode) ? " but a pipe" : "");
}

/* Do the file's lines end with '\r'? When the head has no '\n', read more of the file. */
static ssize_t look_for_lines(int open_file, gy_job_file *file)
{
    file->has_cr_lines = gy_input_has_cr_lines(file->head, file->head_bytes);
    if (file->head_bytes < sizeof(file->head) ||
        memchr(file->head, '\n', file->head_bytes) != NULL) {
        return 0;
    }
    char *more = gy_alloc("mapreduce.job", GY_INPUT_LOOK_BYTES);
    const ssize_t size = more == NULL ? 0 : pread(open_file, more, GY_INPUT_LOOK_BYTES, 0);
    file->has_cr_lines = size > 0 && gy_input_has_cr_lines(more, (size_t)size);
    gy_free(more);
    return size;
}

gy_status gy_mapreduce_job_look_at(const char *text, gy_job_file *file)
{
    struct stat about;
    gy_host_file named;
    gy_stamp stamp;
    if (gy_uri_is_remote(text)) {
        gy_place_facts facts;
        GY_TRY(gy_store_facts_of(gy_env_real(), text, &facts));
        *file = (gy_job_file){.size_bytes = facts.size_bytes, .is_object = true};
        return GY_OK;
    }
    GY_TRY(gy_host_file_read(text, &named));
    if (named.hosts[0] != '\0') {
        *file = (gy_job_file){.size_bytes = UINT64_MAX, .is_elsewhere = true};
        return GY_OK;
    }
    const char *path = named.path;
    if (stat(path, &about) < 0) {
        return gy_fail(errno == ENOENT ? GY_NOTFOUND : GY_IO, "cannot read %s: %s", path,
                       strerror(errno));
    }
    if (!S_ISREG(about.st_mode)) {
        return refuse(path, about.st_mode);
    }
    GY_TRY(gy_stamp_look(path, &stamp));
    *file = (gy_job_file){.size_bytes = stamp.disk.size_bytes};
    const int open_file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = open_file < 0 ? -1 : read(open_file, file->head, sizeof(file->head));
    file->head_bytes = (size_t)GY_MAX(size, (ssize_t)0);
    if (size >= 0 && look_for_lines(open_file, file) < 0) {
        size = -1;
    }
    const int error = errno;
    gy_status status = GY_OK;
    if (size >= 0) {
        status = gy_stamp_check(gy_env_real(), open_file, path, &stamp);
    }
    if (open_file >= 0) {
        (void)close(open_file);
    }
    if (size < 0) {
        return gy_fail(GY_IO, "cannot read %s: %s", path, strerror(error));
    }
    return status;
}

/* An input with the options that its maps use. */
static gy_input input_of(const gy_map_reduce_options *options, const char *path)
{
    return (gy_input){.path = path,
                      .format = options->format,
                      .encoding = options->encoding,
                      .line_end = options->line_end};
}

/* Find the size, and whether a file that is large enough to split can be split. */
static gy_status look_at(const gy_map_reduce_options *options, const char *path,
                         gy_split_file *split)
{
    gy_job_file file = {0};
    GY_TRY(gy_mapreduce_job_look_at(path, &file));
    *split = (gy_split_file){.size_bytes = file.size_bytes, .is_remote = file.is_object};
    if (!file.is_elsewhere && !file.is_object) {
        const gy_input input = input_of(options, path);
        GY_TRY(gy_input_check_head(&input, file.head, file.head_bytes));
        split->can_part = gy_input_can_part(&input, file.head, file.head_bytes) &&
                          (!file.has_cr_lines || !gy_input_asks_for_cr(&input));
    }
    return GY_OK;
}

/* Find whether an object that is large enough to split can be split; reading its head takes a
 * request. */
static gy_status look_into(const gy_map_reduce_options *options, const char *uri,
                           gy_split_file *split)
{
    size_t got = 0;
    gy_place *place = NULL;
    gy_place_facts facts;
    GY_TRY(gy_store_facts_of(gy_env_real(), uri, &facts));
    GY_TRY(gy_place_open(gy_env_real(), uri, NULL, &place));
    char *head = gy_alloc("mapreduce.job", GY_INPUT_LOOK_BYTES);
    gy_status status =
        head == NULL ? GY_NOMEM
                     : gy_place_read(place, facts.version, 0, head, GY_INPUT_LOOK_BYTES, &got);
    gy_place_close(place);
    const gy_input input = input_of(options, uri);
    if (status >= 0) {
        status = gy_input_check_head(&input, head, got);
        /* where rows of CSV begin only a pass over all bytes would tell */
        split->can_part =
            options->format != GY_RECORDS_CSV && gy_input_can_part(&input, head, got);
    }
    gy_free(head);
    return status;
}

/* State of the requests for objects' heads. */
typedef struct looking {
    const gy_map_reduce_options *options;
    gy_split_file *files;
    size_t *large; /* their numbers among the inputs */
} looking;

static gy_status look_into_one(void *arg, size_t index)
{
    const looking *at = arg;
    const size_t file = at->large[index];
    return look_into(at->options, at->options->inputs[file], &at->files[file]);
}

/* Splits use the current sizes, so data appended to a file while the job runs are not part of
 * it. */
static gy_status plan_splits(const gy_map_reduce_options *options, gy_split_file **sizes,
                             gy_splits *splits)
{
    size_t count = 0;
    while (options->inputs[count] != NULL) {
        count++;
    }
    if (options->format == GY_RECORDS_CSV && options->delimiter != '\0') {
        GY_TRY(gy_csv_check_delimiter(options->delimiter));
    }
    gy_split_file *files = gy_alloc("mapreduce.job", count * sizeof(*files));
    gy_status status =
        files == NULL ? GY_NOMEM : gy_store_facts_ask(gy_env_real(), options->inputs);
    uint64_t total = 0, bytes = 0;
    *sizes = files;
    for (size_t i = 0; status >= 0 && i < count; i++) {
        status = look_at(options, options->inputs[i], &files[i]);
        total += status >= 0 && files[i].size_bytes != UINT64_MAX ? files[i].size_bytes : 0;
    }
    if (status >= 0) {
        bytes = options->split_bytes != 0
                    ? options->split_bytes
                    : gy_mapreduce_split_bytes(total, gy_mapreduce_job_cores());
        size_t *large = gy_alloc("mapreduce.job", (count + 1) * sizeof(*large)), larges = 0;
        for (size_t i = 0; large != NULL && i < count; i++) {
            large[larges] = i;
            larges += gy_uri_is_remote(options->inputs[i]) && files[i].size_bytes > bytes;
        }
        looking at = {options, files, large};
        status = large != NULL ? gy_remote_each(larges, look_into_one, &at) : GY_NOMEM;
        gy_free(large);
    }
    if (status >= 0) {
        status = gy_splits_plan(files, count, bytes, splits);
    }
    if (status >= 0 && options->format == GY_RECORDS_CSV) {
        status = gy_splits_move_to_rows(splits, options->inputs);
    }
    return status;
}

/* The range of a whole file about which nothing is known here, written so that numbers at the
 * end of its name are not taken for a range. */
static const char *whole_of(gy_arena *arena, const char *uri)
{
    size_t used = 0;
    char *text = gy_arena_alloc(arena, 3 * strlen(uri) + 1);
    const char *path = strchr(uri + strlen("file://"), '/');
    for (const char *at = uri; text != NULL && *at != '\0'; at++) {
        const bool is_escaped = *at == ':' && path != NULL && at > path;
        memcpy(text + used, is_escaped ? "%3A" : at, is_escaped ? 3 : 1);
        used += is_escaped ? 3 : 1;
    }
    if (text != NULL) {
        text[used] = '\0';
    }
    return text;
}

const char *gy_mapreduce_job_range(gy_arena *arena, const char *path, uint64_t size_bytes)
{
    const size_t capacity = strlen(path) + 32;
    if (size_bytes == UINT64_MAX) {
        return whole_of(arena, path);
    }
    char *range = gy_arena_alloc(arena, capacity);
    if (range != NULL) {
        (void)snprintf(range, capacity, "%s%s:0:%llu", path, gy_uri_is_remote(path) ? "" : "/",
                       (unsigned long long)size_bytes);
    }
    return range;
}

/* The range of an object's part; bytes beyond its end are read on demand. */
static const char *range_of(gy_arena *arena, const gy_map_reduce_options *options,
                            const gy_task_part *part, uint64_t size_bytes)
{
    const char *path = options->inputs[part->number];
    if (!gy_uri_is_remote(path)) {
        return gy_mapreduce_job_range(arena, path, size_bytes);
    }
    const uint64_t end = GY_MIN(part->end, size_bytes),
                   begin = GY_MIN(gy_input_stream_begin(options->format, options->record_bytes,
                                                        part->begin),
                                  end);
    const size_t capacity = strlen(path) + 64;
    char *range = gy_arena_alloc(arena, capacity);
    if (range != NULL) {
        (void)snprintf(range, capacity, "%s:%llu:%llu", path, (unsigned long long)begin,
                       (unsigned long long)(end - begin));
    }
    return range;
}

/* ---- vertices ---- */

static size_t count_files(const char *const *files)
{
    size_t count = 0;
    while (files != NULL && files[count] != NULL) {
        count++;
    }
    return count;
}

static gy_task_options stage_options(const gy_map_reduce_options *o, gy_phase phase)
{
    return (gy_task_options){
        .phase = phase,
        .format = o->format,
        .encoding = o->encoding,
        .line_end = o->line_end,
        .fold = gy_mapreduce_combine_fold(o->combine, o->has_bytes),
        .order = o->order,
        .is_counting = o->combine == GY_COMBINE_COUNT,
        .has_reduce = o->reduce != NULL,
        .is_map_only = o->is_map_only,
        .delimiter = (char)(o->delimiter != '\0' ? o->delimiter : ','),
        .partitions = o->is_map_only ? 1 : (uint32_t)gy_mapreduce_job_partitions(o->partitions),
        .record_bytes = o->record_bytes,
        .memory_bytes = o->memory_bytes,
        .combine = o->combine_function,
        .partition = o->partition_function,
        .parameter = o->parameter,
        .parameter_bytes = o->parameter_bytes,
        .hot_key_bytes = phase == GY_PHASE_MAP ? gy_hot_bytes(o) : 0,
        .sides = phase == GY_PHASE_REDUCE ? (uint32_t)count_files(o->files) : 0,
    };
}

/* What the maps read. */
typedef struct planned {
    gy_splits splits;
    gy_split_file *files; /* one for each input of the job */
} planned;

/* Fill in the vertex of one task, with the files of its parts and the side files, all in the
 * arena. */
static gy_status fill_map(gy_arena *arena, const gy_map_reduce_options *options,
                          const planned *plan, size_t task, gy_vertex_options *vertex)
{
    const gy_splits *splits = &plan->splits;
    const gy_task_part *parts = splits->parts + splits->starts[task];
    const size_t count = splits->starts[task + 1] - splits->starts[task],
                 sides = count_files(options->files);
    const gy_task_options about = stage_options(options, GY_PHASE_MAP);
    const char **files = gy_arena_alloc(arena, (count + sides + 1) * sizeof(*files));
    const char **paths = gy_arena_alloc(arena, (count + 1) * sizeof(*paths));
    if (files == NULL || paths == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        paths[i] = (options->names != NULL ? options->names : options->inputs)[parts[i].number];
        files[i] = range_of(arena, options, &parts[i], plan->files[parts[i].number].size_bytes);
        if (files[i] == NULL) {
            return GY_NOMEM;
        }
    }
    for (size_t i = 0; i < sides; i++) {
        files[count + i] = options->files[i];
    }
    gy_text parameter = {0};
    gy_mapreduce_task_write(&parameter, &about, parts, paths, count);
    void *copy = parameter.status < 0 ? NULL : gy_arena_alloc(arena, parameter.size_bytes);
    if (copy != NULL) {
        memcpy(copy, parameter.data, parameter.size_bytes);
    }
    *vertex = (gy_vertex_options){.function = options->map,
                                  .parameter = copy,
                                  .parameter_bytes = parameter.size_bytes,
                                  .outputs = (int)about.partitions,
                                  .files = files};
    gy_text_free(&parameter);
    return copy != NULL ? GY_OK : GY_NOMEM;
}

static gy_status add_maps(gy_dag *dag, const gy_map_reduce_options *options, const char *stage,
                          const planned *plan, gy_part *maps)
{
    const gy_splits *splits = &plan->splits;
    gy_arena arena = {0};
    gy_vertex_options *vertices =
        gy_alloc("mapreduce.job", splits->task_count * sizeof(*vertices));
    gy_status status = vertices == NULL ? GY_NOMEM : GY_OK;
    for (size_t task = 0; status >= 0 && task < splits->task_count; task++) {
        status = fill_map(&arena, options, plan, task, &vertices[task]);
        vertices[task].stage = stage;
    }
    if (status >= 0) {
        *maps = gy_dag_vertices(dag, vertices, (int)splits->task_count);
    }
    gy_free(vertices);
    gy_arena_free(&arena);
    return status;
}

gy_part gy_mapreduce_job_maps(gy_dag *dag, const gy_map_reduce_options *options,
                              const char *stage, int *count)
{
    *count = 0;
    gy_part maps = {dag, -1};
    const char *error = error_of(options);
    if (error != NULL) {
        gy_dag_fail(dag, GY_ARG, "%s", error);
        return maps;
    }
    if (!check_functions(dag, options)) {
        return maps;
    }
    planned plan = {0};
    gy_status status = plan_splits(options, &plan.files, &plan.splits);
    if (status >= 0) {
        status = add_maps(dag, options, stage, &plan, &maps);
        *count = (int)plan.splits.task_count;
    }
    gy_splits_free(&plan.splits);
    gy_free(plan.files);
    if (status < 0) {
        gy_dag_fail(dag, status, "%s", gy_error_text());
    }
    return maps;
}

/* Clone one vertex whose parameter has no parts. */
static gy_part add_clones(gy_dag *dag, const gy_task_options *about, gy_vertex_options vertex,
                          int copies)
{
    gy_text parameter = {0};
    gy_part part = {dag, -1};
    gy_mapreduce_task_write(&parameter, about, NULL, NULL, 0);
    if (parameter.status < 0) {
        gy_dag_fail(dag, parameter.status, "out of memory");
    } else {
        vertex.parameter = parameter.data;
        vertex.parameter_bytes = parameter.size_bytes;
        part = gy_part_clone(gy_dag_vertex(dag, &vertex), copies);
    }
    gy_text_free(&parameter);
    return part;
}

gy_part gy_mapreduce_job_reduces(gy_dag *dag, const gy_map_reduce_options *options,
                                 const char *function)
{
    const gy_task_options about = stage_options(options, GY_PHASE_REDUCE);
    const char *name = function != NULL          ? function
                       : options->reduce != NULL ? options->reduce
                                                 : options->map;
    return add_clones(dag, &about,
                      (gy_vertex_options){.function = name,
                                          .stage = "reduce",
                                          .inputs = GY_PORTS_ANY,
                                          .outputs = 1,
                                          .files = options->files},
                      (int)about.partitions);
}

gy_part gy_mapreduce_job_streams(gy_dag *dag, const gy_map_reduce_options *options, int count)
{
    const gy_task_options about = stage_options(options, GY_PHASE_MAP);
    return add_clones(dag, &about,
                      (gy_vertex_options){.function = options->map,
                                          .stage = "sort",
                                          .inputs = 1,
                                          .outputs = (int)about.partitions},
                      count);
}

/* Each step adds nothing to a graph that has failed. */
static void build(gy_dag *dag, const gy_map_reduce_options *options)
{
    int maps = 0;
    const char *output = options->name != NULL ? options->name : "part";
    gy_part part = gy_mapreduce_job_maps(dag, options, "map", &maps);
    if (dag->status < 0) {
        return;
    }
    const gy_task_options reduce = stage_options(options, GY_PHASE_REDUCE);
    if (gy_hot_bytes(options) > 0 && maps > 1 && reduce.partitions > 1 &&
        (uint64_t)maps * reduce.partitions <= (uint64_t)GY_HOT_OUTPUTS_MOST) {
        gy_hot_grow(dag, part, &reduce, options, output);
        return;
    }
    if (!options->is_map_only) {
        part = gy_part_bipartite(part, gy_mapreduce_job_reduces(dag, options, NULL),
                                 GY_CHANNEL_FILE);
    }
    gy_part_output(part, output);
}

gy_status gy_map_reduce(gy_flow *flow, const gy_map_reduce_options *options, gy_dag **dag)
{
    gy_dag *made = NULL;
    gy_map_reduce_options known;
    GY_TRY(gy_options_take(gy_map_reduce_options, &known, options));
    const char *name = known.map != NULL ? known.map : "mapreduce";
    const size_t own = strlen(OWN_PREFIX);
    GY_TRY(gy_dag_new(flow, strncmp(name, OWN_PREFIX, own) == 0 ? name + own : name, &made));
    build(made, &known);
    return gy_mapreduce_job_end(GY_OK, made, dag);
}
