/*
 * Stages that divide rows by what a sample of them says.
 *
 * The rows of a stage S that go by ranges are written as they are; a vertex beside each of S
 * samples them, one vertex chooses bounds of all samples, and again a vertex beside each of S
 * divides its rows.
 *
 * Of a join by hash some rows of the files of the side that is spread are read first; one
 * vertex finds hot keys, and those who divide rows of the two sides read them.
 */
#include "query/dag/dag_priv.h"

#include <string.h>

static const char *name_of(gy_query_stages *stages, uint32_t stage)
{
    char *name = gy_query_stages_take(stages, 32, 1);
    if (name != NULL) {
        gy_print(name, 32, "of stage %u", stage);
    }
    return name;
}

/* Rows of some stages, in their columns. */
static gy_status input_of(gy_query_stages *stages, const uint32_t *columns, uint32_t count,
                          const uint32_t *from, uint32_t from_count, gy_query_input **out)
{
    gy_query_input *made = gy_query_stages_take(stages, 1, sizeof(*made));
    const char *name = name_of(stages, from[0]);
    if (made == NULL || name == NULL) {
        return GY_NOMEM;
    }
    *made = (gy_query_input){.leaf = {.name = name},
                             .columns = columns,
                             .count = count,
                             .ordinal = GY_QUERY_NONE,
                             .stages = from,
                             .stage_count = from_count,
                             .is_whole = true};
    *out = made;
    return GY_OK;
}

gy_status gy_query_stages_beside(gy_query_stages *stages, uint32_t of, const uint32_t *columns,
                                 uint32_t count, gy_query_stage **out)
{
    const gy_query_node *root = stages->items[of]->root;
    gy_query_input *input = NULL;
    uint32_t *from = gy_query_stages_take(stages, 1, sizeof(*from));
    GY_TRY(gy_query_stages_add(stages, NULL, 1, out));
    if (from == NULL) {
        return GY_NOMEM;
    }
    from[0] = of;
    (*out)->like = of;
    (*out)->is_first = stages->items[of]->is_first;
    (*out)->is_ended = true;
    GY_TRY(input_of(stages, root->columns, root->count, from, 1, &input));
    input->is_whole = false;
    input->is_beside = true;
    GY_TRY(gy_query_stage_read(stages, *out, input));
    return gy_query_input_scan(stages, input, columns, count, root->rows, &(*out)->root);
}

/* ---- Samples ---- */

/* Samples of the rows of some stages, and who chooses of them. */
typedef struct sampling {
    gy_query_stages *stages;
    gy_query_sink sink; /* of a stage that samples */
    uint32_t *columns;  /* of a sample: (sink.order_count + 1) */
    uint32_t *from;     /* (count) stages that sample */
    uint32_t count;
    uint32_t *chooser; /* (1) */
    bool is_first;     /* as those are that are divided by what is chosen */
} sampling;

static gy_status begin(gy_query_stages *stages, const gy_query_key *order, uint32_t order_count,
                       const gy_query_input *divided, sampling *out)
{
    const uint32_t count = divided->stage_count;
    *out = (sampling){.stages = stages,
                      .sink = {.kind = GY_QUERY_SAMPLED,
                               .parts = 1,
                               .order = order,
                               .order_count = order_count},
                      .columns = gy_query_stages_take(stages, order_count, sizeof(uint32_t)),
                      .from = gy_query_stages_take(stages, count, sizeof(uint32_t)),
                      .chooser = gy_query_stages_take(stages, 1, sizeof(uint32_t)),
                      .is_first = stages->items[divided->stages[0]]->is_first};
    if (out->columns == NULL || out->from == NULL || out->chooser == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_query_stages_column(stages, &out->sink.ordinal));
    stages->plan.columns[out->sink.ordinal].name = "weight";
    for (uint32_t i = 0; i < order_count; i++) {
        out->columns[i] = order[i].column;
    }
    out->columns[order_count] = out->sink.ordinal;
    return GY_OK;
}

/* The stage that was added last samples. */
static void add_sample(sampling *in)
{
    gy_query_stage *made = in->stages->items[in->stages->count - 1];
    made->sink = in->sink;
    made->is_ended = true;
    made->is_first = in->is_first;
    in->from[in->count++] = in->stages->count - 1;
}

/* The vertex that chooses: what it gives is an input. */
static gy_status choose(sampling *in, gy_query_sink_kind kind, uint32_t parts,
                        const uint32_t *columns, uint32_t count, gy_query_input **out)
{
    const double guess = (double)GY_QUERY_SAMPLE_ROWS * in->count;
    gy_query_stage *made = NULL;
    gy_query_input *input = NULL;
    in->chooser[0] = in->stages->count;
    GY_TRY(gy_query_stages_add(in->stages, NULL, 1, &made));
    made->sink = in->sink;
    made->sink.kind = kind;
    made->sink.ranges = parts;
    made->is_ended = true;
    made->is_first = in->is_first;
    GY_TRY(input_of(in->stages, in->columns, in->sink.order_count + 1, in->from, in->count,
                    &input));
    GY_TRY(gy_query_stage_read(in->stages, made, input));
    GY_TRY(gy_query_input_scan(in->stages, input, in->columns, in->sink.order_count + 1, guess,
                               &made->root));
    return input_of(in->stages, columns, count, in->chooser, 1, out);
}

/* ---- Ranges ---- */

static gy_status divide_by_ranges(gy_query_stages *stages, gy_query_input *input)
{
    const gy_query_sink sink = stages->items[input->stages[0]]->sink;
    uint32_t *divided = gy_query_stages_take(stages, input->stage_count, sizeof(*divided));
    gy_query_input *bounds = NULL;
    gy_query_stage *made = NULL;
    sampling samples;
    GY_TRY(begin(stages, sink.order, sink.order_count, input, &samples));
    if (divided == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < input->stage_count; i++) {
        stages->items[input->stages[i]]->sink =
            (gy_query_sink){.parts = 1, .ordinal = GY_QUERY_NONE};
        GY_TRY(gy_query_stages_beside(stages, input->stages[i], samples.columns,
                                      sink.order_count, &made));
        add_sample(&samples);
    }
    GY_TRY(choose(&samples, GY_QUERY_BOUNDED, sink.parts, samples.columns, sink.order_count,
                  &bounds));
    for (uint32_t i = 0; i < input->stage_count; i++) {
        const gy_query_node *root = stages->items[input->stages[i]]->root;
        divided[i] = stages->count;
        GY_TRY(gy_query_stages_beside(stages, input->stages[i], root->columns, root->count,
                                      &made));
        GY_TRY(gy_query_stage_read(stages, made, bounds));
        made->sink = sink;
        made->sink.chosen = made->input_count - 1;
    }
    input->stages = divided;
    input->leaf.name = name_of(stages, divided[0]);
    return input->leaf.name != NULL ? GY_OK : GY_NOMEM;
}

/* ---- Hot keys ---- */

/* Whether it has these columns, of rows of the stage's files and of nothing else. */
static bool is_of_files(const gy_query_stage *stage, const gy_query_node *node,
                        const gy_query_sink *sink)
{
    for (uint32_t i = 0; i < sink->key_count; i++) {
        if (gy_query_index(node, sink->keys[i]) < 0) {
            return false;
        }
    }
    while (node->kind == GY_QUERY_FILTER || node->kind == GY_QUERY_PROJECT) {
        node = node->left;
    }
    return node->kind == GY_QUERY_SCAN && node->table == stage->table;
}

static gy_query_node *find_of_files(const gy_query_stage *stage, gy_query_node *node,
                                    const gy_query_sink *sink)
{
    gy_query_node *found = NULL;
    if (node == NULL || is_of_files(stage, node, sink)) {
        return node;
    }
    found = find_of_files(stage, node->left, sink);
    return found != NULL ? found : find_of_files(stage, node->right, sink);
}

/* What reads the rows that the keys of stage `of` come from: a part of it, or of another stage
 * that has these columns. NULL: they come from no files alone. */
static gy_query_node *find_files(const gy_query_stages *stages, uint32_t of, uint32_t count,
                                 uint32_t *number)
{
    const gy_query_sink *sink = &stages->items[of]->sink;
    for (uint32_t i = 0; i <= count; i++) {
        const gy_query_stage *stage = stages->items[i == 0 ? of : i - 1];
        gy_query_node *found =
            stage->table != NULL ? find_of_files(stage, stage->root, sink) : NULL;
        if (found != NULL) {
            *number = i == 0 ? of : i - 1;
            return found;
        }
    }
    return NULL;
}

static bool is_sampled(const gy_query_stages *stages, const gy_query_input *input,
                       uint32_t count)
{
    uint32_t number = 0;
    bool is_found = true;
    for (uint32_t i = 0; i < input->stage_count && is_found; i++) {
        is_found = find_files(stages, input->stages[i], count, &number) != NULL;
    }
    return is_found;
}

static gy_status sample_files(sampling *in, uint32_t of, uint32_t count)
{
    uint32_t number = 0;
    gy_query_stage *made = NULL;
    gy_query_node *root = find_files(in->stages, of, count, &number);
    GY_ASSERT(root != NULL);
    GY_TRY(gy_query_stages_add(in->stages, in->stages->items[number]->table, 1, &made));
    made->like = number;
    made->root = root;
    add_sample(in);
    return GY_OK;
}

/* Give those who divide rows for a join its hot keys; NULL: none will be. */
static gy_status set_hot(gy_query_stages *stages, const gy_query_stage *join,
                         gy_query_input *hot)
{
    for (uint32_t k = 0; k < join->input_count; k++) {
        const gy_query_input *input = join->inputs[k];
        for (uint32_t i = 0; i < input->stage_count; i++) {
            gy_query_stage *from = stages->items[input->stages[i]];
            if (from->sink.heat != GY_QUERY_COOL && hot != NULL) {
                GY_TRY(gy_query_stage_read(stages, from, hot));
                from->sink.chosen = from->input_count - 1;
            } else {
                from->sink.heat = GY_QUERY_COOL;
            }
        }
    }
    return GY_OK;
}

static gy_status split_hot_keys(gy_query_stages *stages, const gy_query_stage *join,
                                const gy_query_input *spread, uint32_t count)
{
    const gy_query_sink *sink = &stages->items[spread->stages[0]]->sink;
    gy_query_key *order = gy_query_stages_take(stages, sink->key_count, sizeof(*order));
    uint32_t *hash = gy_query_stages_take(stages, 1, sizeof(*hash));
    gy_query_input *hot = NULL;
    sampling samples;
    if (order == NULL || hash == NULL) {
        return GY_NOMEM;
    }
    if (!is_sampled(stages, spread, count)) {
        return set_hot(stages, join, NULL);
    }
    for (uint32_t i = 0; i < sink->key_count; i++) {
        order[i] = (gy_query_key){.column = sink->keys[i]};
    }
    GY_TRY(begin(stages, order, sink->key_count, spread, &samples));
    for (uint32_t i = 0; i < spread->stage_count; i++) {
        GY_TRY(sample_files(&samples, spread->stages[i], count));
    }
    GY_TRY(gy_query_stages_column(stages, hash));
    stages->plan.columns[hash[0]].name = "hash";
    GY_TRY(choose(&samples, GY_QUERY_FOUND, sink->parts, hash, 1, &hot));
    return set_hot(stages, join, hot);
}

static const gy_query_input *find_spread(const gy_query_stages *stages,
                                         const gy_query_stage *stage)
{
    for (uint32_t k = 0; k < stage->input_count; k++) {
        const gy_query_input *input = stage->inputs[k];
        if (stages->items[input->stages[0]]->sink.heat == GY_QUERY_SPREAD) {
            return input;
        }
    }
    return NULL;
}

bool gy_query_has_hot_keys(const gy_query_stages *stages, const gy_query_stage *stage)
{
    const gy_query_input *spread = find_spread(stages, stage);
    return spread != NULL && is_sampled(stages, spread, stages->count);
}

void gy_query_stage_cool(gy_query_stages *stages, const gy_query_stage *stage)
{
    const gy_status status = set_hot(stages, stage, NULL);
    GY_ASSERT(status == GY_OK);
}

/* ---- All ---- */

gy_status gy_query_sample_stages(gy_query_stages *stages)
{
    const uint32_t count = stages->count;
    for (uint32_t i = 0; i < count; i++) {
        const gy_query_stage *stage = stages->items[i];
        for (uint32_t k = 0; k < stage->input_count; k++) {
            gy_query_input *input = stage->inputs[k];
            const gy_query_sink *sink = &stages->items[input->stages[0]]->sink;
            if (sink->kind == GY_QUERY_RANGED && input->stages[0] < count) {
                GY_TRY(divide_by_ranges(stages, input));
            } else if (sink->heat == GY_QUERY_SPREAD && sink->chosen == GY_QUERY_NONE) {
                GY_TRY(split_hot_keys(stages, stage, input, count));
            }
        }
    }
    return GY_OK;
}
