/*
 * Builds the reduces by dynamic refinement: once all maps have finished and reported their
 * heavy keys, hot keys get vertices of their own.
 *
 *   maps   m0   m1   m2   m3
 *           \   /     \   /
 *          hot key   hot key        each reduces a share of one key of one partition
 *                \    /
 *     m0 ... m3 -> reduce -> part     reduces all other keys, and writes the shares in their
 *     place
 */
#include "mapreduce/hot/hot.h"

#include "base/base.h"
#include "flow/dag.h"
#include "flow/refine.h"

#include <assert.h>
#include <string.h>

#define STAGE_REDUCE "reduce"
#define STAGE_HOT    "hot key"

/* ---- entries of a parameter ---- */

typedef struct entry_head {
    uint32_t key_size, share_count;
} entry_head;

void gy_hot_write(const gy_hot_entry *entry, gy_text *out)
{
    const entry_head head = {entry->key_size, entry->share_count};
    gy_text_add_bytes(out, &head, sizeof(head));
    gy_text_add_bytes(out, entry->key, entry->key_size);
}

gy_status gy_hot_read(const gy_task_options *options, size_t *at, gy_hot_entry *entry)
{
    const size_t left = options->hot_bytes - *at;
    if (left == 0) {
        return GY_AGAIN;
    }
    entry_head head;
    if (left >= sizeof(head)) {
        memcpy(&head, (const char *)options->hot + *at, sizeof(head));
    }
    if (left < sizeof(head) || head.key_size > left - sizeof(head)) {
        return gy_fail(GY_FORMAT, "a parameter that ends within a hot key");
    }
    const char *key = (const char *)options->hot + *at + sizeof(head);
    *entry = (gy_hot_entry){
        .key = key,
        .hash = gy_key_hash(key, head.key_size, gy_key_head_within(key, head.key_size)),
        .key_size = head.key_size,
        .share_count = head.share_count};
    *at += sizeof(head) + head.key_size;
    return GY_OK;
}

/* ---- parameter of the refinement function ---- */

/* Followed by the parameter of a reduce, names of functions and output, and side files, each
 * with its NUL. */
typedef struct growth_head {
    uint64_t least, task_bytes;
    uint32_t file_count, spare;
} growth_head;
static_assert(sizeof(growth_head) % 8 == 0, "a parameter is aligned to 8");

typedef struct growth {
    gy_task_stage stage;
    uint64_t least;
    const char *reduce, *share, *name; /* names of functions and of the output */
    const char **files;                /* NULL at the end; owned */
} growth;

static const char *next_text(const char **at)
{
    const char *text = *at;
    *at += strlen(text) + 1;
    return text;
}

static gy_status read_growth(const gy_refinement *refinement, growth *out)
{
    size_t size = 0;
    const char *data = gy_refinement_parameter(refinement, &size);
    growth_head head;
    GY_ASSERT(size >= sizeof(head));
    memcpy(&head, data, sizeof(head));
    const char *at = data + sizeof(head) + head.task_bytes;
    GY_TRY(gy_mapreduce_task_read(data + sizeof(head), head.task_bytes, &out->stage));
    out->least = head.least;
    out->reduce = next_text(&at);
    out->share = next_text(&at);
    out->name = next_text(&at);
    out->files = gy_alloc("mapreduce.hot", (head.file_count + 1) * sizeof(*out->files));
    if (out->files == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < head.file_count; i++) {
        out->files[i] = next_text(&at);
    }
    out->files[head.file_count] = NULL;
    return GY_OK;
}

/* ---- refinement ---- */

/* State of one refinement. */
typedef struct growing {
    gy_refinement *refinement;
    gy_dag *dag;
    const growth *of;
    const gy_hot_plan *plan;
    uint32_t maps, partitions;
    uint32_t first_share; /* vertex of the plan's first share */
    gy_text *parameters;  /* of the vertices, which copy them */
} growing;

static void write_parameter(const growing *g, gy_phase phase, const gy_text *hot,
                            uint32_t shares, gy_text *out)
{
    gy_task_options about = g->of->stage.options;
    about.phase = phase;
    about.hot = hot->data;
    about.hot_bytes = hot->size_bytes;
    about.shares = shares;
    gy_mapreduce_task_write(out, &about, NULL, NULL, 0);
    if (hot->status < 0) {
        out->status = hot->status;
    }
}

static void write_share(const growing *g, const gy_hot_key *key, gy_text *out)
{
    gy_text hot = {0};
    gy_hot_write(&(gy_hot_entry){.key = key->key, .key_size = key->key_size}, &hot);
    write_parameter(g, GY_PHASE_SHARE, &hot, 0, out);
    gy_text_free(&hot);
}

static void write_reduce(const growing *g, uint32_t partition, gy_text *out)
{
    gy_text hot = {0};
    uint32_t shares = 0;
    for (size_t k = 0; k < g->plan->key_count; k++) {
        const gy_hot_key *key = &g->plan->keys[k];
        if (key->partition == partition) {
            gy_hot_write(&(gy_hot_entry){.key = key->key,
                                         .key_size = key->key_size,
                                         .share_count = key->share_count},
                         &hot);
            shares += key->share_count;
        }
    }
    write_parameter(g, GY_PHASE_REDUCE, &hot, shares, out);
    gy_text_free(&hot);
}

static gy_vertex_options vertex_of(const growing *g, const gy_text *parameter, bool is_share)
{
    return (gy_vertex_options){.function = is_share ? g->of->share : g->of->reduce,
                               .stage = is_share ? STAGE_HOT : STAGE_REDUCE,
                               .parameter = parameter->data,
                               .parameter_bytes = parameter->size_bytes,
                               .inputs = GY_PORTS_ANY,
                               .outputs = 1,
                               .files = g->of->files};
}

static void join_map(const growing *g, uint32_t map, uint32_t partition, uint32_t to)
{
    const uint32_t *port =
        &g->refinement->row->ports[((size_t)map * g->partitions + partition) * 2];
    gy_dag_join(g->dag, port, (uint32_t[]){to, UINT32_MAX}, GY_CHANNEL_FILE);
}

/* Add the vertices of the plan's shares. They come first, so that they start first. */
static void add_shares(growing *g, gy_vertex_options *vertices)
{
    const gy_hot_plan *plan = g->plan;
    for (size_t k = 0; k < plan->key_count; k++) {
        const gy_hot_key *key = &plan->keys[k];
        write_share(g, key, &g->parameters[k]);
        for (uint32_t i = 0; i < key->share_count; i++) {
            vertices[key->first_share + i] = vertex_of(g, &g->parameters[k], true);
        }
    }
    g->first_share = (uint32_t)g->dag->vertex_count;
    (void)gy_dag_vertices(g->dag, vertices, (int)plan->share_count);
    for (size_t k = 0; k < plan->key_count && g->dag->status >= 0; k++) {
        const gy_hot_key *key = &plan->keys[k];
        for (uint32_t i = 0; i < key->share_count; i++) {
            const gy_hot_share *share = &plan->shares[key->first_share + i];
            for (uint32_t map = share->first; map < share->end; map++) {
                join_map(g, map, key->partition, g->first_share + key->first_share + i);
            }
        }
    }
}

/* Add the reduces of all partitions, with the maps as inputs and then the shares. */
static gy_part add_reduces(growing *g, gy_vertex_options *vertices)
{
    const gy_hot_plan *plan = g->plan;
    gy_text *plain = &g->parameters[plan->key_count];
    for (uint32_t p = 0; p < g->partitions; p++) {
        write_reduce(g, p, &plain[p]);
        vertices[p] = vertex_of(g, &plain[p], false);
    }
    const uint32_t first = (uint32_t)g->dag->vertex_count;
    const gy_part reduces = gy_dag_vertices(g->dag, vertices, (int)g->partitions);
    for (uint32_t p = 0; p < g->partitions && g->dag->status >= 0; p++) {
        for (uint32_t map = 0; map < g->maps; map++) {
            join_map(g, map, p, first + p);
        }
    }
    for (size_t k = 0; k < plan->key_count && g->dag->status >= 0; k++) {
        const gy_hot_key *key = &plan->keys[k];
        for (uint32_t i = 0; i < key->share_count; i++) {
            gy_dag_join(g->dag, (uint32_t[]){g->first_share + key->first_share + i, 0},
                        (uint32_t[]){first + key->partition, UINT32_MAX}, GY_CHANNEL_FILE);
        }
    }
    return reduces;
}

/* With hot keys the vertices have parameters of their own. */
static gy_status grow_hot(growing *g)
{
    const size_t texts = g->plan->key_count + g->partitions;
    g->parameters = gy_alloc_zero("mapreduce.hot", texts, sizeof(gy_text));
    gy_vertex_options *vertices =
        gy_alloc("mapreduce.hot",
                 GY_MAX(g->plan->share_count, (size_t)g->partitions) * sizeof(*vertices));
    gy_status status = g->parameters == NULL || vertices == NULL ? GY_NOMEM : GY_OK;
    if (status >= 0) {
        add_shares(g, vertices);
        gy_part_output(add_reduces(g, vertices), g->of->name);
    }
    for (size_t i = 0; status >= 0 && i < texts; i++) {
        status = g->parameters[i].status;
    }
    for (size_t i = 0; g->parameters != NULL && i < texts; i++) {
        gy_text_free(&g->parameters[i]);
    }
    gy_free(g->parameters);
    gy_free(vertices);
    return status;
}

/* Without hot keys: the same reduces as without refinement. */
static gy_status grow_plain(growing *g, gy_part outputs)
{
    gy_text parameter = {0};
    const gy_text none = {0};
    write_parameter(g, GY_PHASE_REDUCE, &none, 0, &parameter);
    const gy_status status = parameter.status;
    if (status >= 0) {
        const gy_vertex_options vertex = vertex_of(g, &parameter, false);
        const gy_part reduces =
            gy_part_clone(gy_dag_vertex(g->dag, &vertex), (int)g->partitions);
        gy_part_output(gy_part_bipartite(outputs, reduces, GY_CHANNEL_FILE), g->of->name);
    }
    gy_text_free(&parameter);
    return status;
}

static gy_status make_plan(const growing *g, gy_hot_plan *plan)
{
    const uint32_t shape[2] = {g->maps, g->partitions};
    gy_hot_told *told = gy_alloc("mapreduce.hot", g->maps * sizeof(*told));
    if (told == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t map = 0; map < g->maps; map++) {
        told[map].data = gy_refinement_sample(g->refinement, (int64_t)map * g->partitions,
                                              &told[map].size_bytes);
    }
    const gy_status status =
        gy_hot_plan_make(told, g->refinement->bytes, shape, g->of->least, plan);
    gy_free(told);
    return status;
}

static void grow_reduces(gy_refinement *refinement, gy_dag *dag, gy_part outputs)
{
    growth of = {.files = NULL};
    gy_hot_plan plan = {0};
    growing g = {.refinement = refinement, .dag = dag, .of = &of, .plan = &plan};
    gy_status status = read_growth(refinement, &of);
    if (status >= 0) {
        g.partitions = of.stage.options.partitions;
        g.maps = (uint32_t)(gy_refinement_outputs(refinement) / g.partitions);
        status = make_plan(&g, &plan);
    }
    if (status >= 0) {
        status = plan.key_count > 0 ? grow_hot(&g) : grow_plain(&g, outputs);
    }
    if (status < 0) {
        gy_dag_fail(dag, status, "%s", gy_error_text());
    }
    gy_hot_plan_free(&plan);
    gy_free(of.files);
}

/* ---- before the run ---- */

size_t gy_hot_bytes(const gy_map_reduce_options *o)
{
    const bool is_allowed =
        o->reduce != NULL
            ? o->has_bytes && o->combine == GY_COMBINE_USER
            : gy_mapreduce_fold_is_list(gy_mapreduce_combine_fold(o->combine, o->has_bytes));
    if (!is_allowed || o->is_map_only || o->order != GY_ORDER_HASH ||
        o->hot_key_bytes == SIZE_MAX) {
        return 0;
    }
    return o->hot_key_bytes != 0 ? o->hot_key_bytes : GY_HOT_BYTES;
}

void gy_hot_grow(gy_dag *dag, gy_part maps, const gy_task_options *reduce,
                 const gy_map_reduce_options *options, const char *name)
{
    const char *const function = options->reduce != NULL ? options->reduce : options->map;
    const char *const texts[] = {
        function, options->combine_function != NULL ? options->combine_function : function,
        name};
    gy_text task = {0}, parameter = {0};
    gy_mapreduce_task_write(&task, reduce, NULL, NULL, 0);
    growth_head head = {.least = gy_hot_bytes(options), .task_bytes = task.size_bytes};
    while (options->files != NULL && options->files[head.file_count] != NULL) {
        head.file_count++;
    }
    gy_text_add_bytes(&parameter, &head, sizeof(head));
    gy_text_add_bytes(&parameter, task.data, task.size_bytes);
    for (size_t i = 0; i < GY_COUNT(texts); i++) {
        gy_text_add_bytes(&parameter, texts[i], strlen(texts[i]) + 1);
    }
    for (uint32_t i = 0; i < head.file_count; i++) {
        gy_text_add_bytes(&parameter, options->files[i], strlen(options->files[i]) + 1);
    }
    if (task.status < 0 || parameter.status < 0) {
        gy_dag_fail(dag, GY_NOMEM, "out of memory");
    } else {
        const char *const stages[] = {STAGE_HOT, STAGE_REDUCE, NULL};
        gy_part_refine(maps, &(gy_refine_options){.work = grow_reduces,
                                                  .parameter = parameter.data,
                                                  .parameter_bytes = parameter.size_bytes,
                                                  .stages = stages});
    }
    gy_text_free(&task);
    gy_text_free(&parameter);
}
