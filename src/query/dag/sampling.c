/*
 * Stages that divide rows by what a sample of them says. The rows of a stage S that go by
 * ranges are written as they are; a vertex beside each of S samples them (stage "sample"), one
 * vertex chooses bounds of all samples, and again a vertex beside each of S divides its rows.
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

/* A vertex for each of stage `of`, that reads its rows alone. */
static gy_status add_beside(gy_query_stages *stages, uint32_t of, const uint32_t *columns,
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
    (*out)->is_ended = true;
    GY_TRY(input_of(stages, root->columns, root->count, from, 1, &input));
    input->is_whole = false;
    input->is_beside = true;
    GY_TRY(gy_query_stage_read(stages, *out, input));
    return gy_query_input_scan(stages, input, columns, count, root->rows, &(*out)->root);
}

/* The vertex that chooses, of samples of stages. */
static gy_status add_chooser(gy_query_stages *stages, const gy_query_sink *sink,
                             const uint32_t *columns, const uint32_t *samples,
                             uint32_t sample_count, uint32_t *out)
{
    const double guess = (double)GY_QUERY_SAMPLE_ROWS * sample_count;
    const uint32_t count = sink->order_count + 1;
    gy_query_stage *made = NULL;
    gy_query_input *input = NULL;
    GY_TRY(gy_query_stages_add(stages, NULL, 1, &made));
    *out = stages->count - 1;
    made->is_ended = true;
    made->sink = *sink;
    made->sink.kind = GY_QUERY_BOUNDED;
    made->sink.ranges = sink->parts;
    made->sink.parts = 1;
    made->sink.ordinal = columns[count - 1];
    GY_TRY(input_of(stages, columns, count, samples, sample_count, &input));
    GY_TRY(gy_query_stage_read(stages, made, input));
    return gy_query_input_scan(stages, input, columns, count, guess, &made->root);
}

/* An order's columns, then one for the rows that a key of a sample stands for. */
static uint32_t *sample_columns(gy_query_stages *stages, const gy_query_sink *sink)
{
    uint32_t *columns = gy_query_stages_take(stages, sink->order_count + 1, sizeof(*columns));
    if (columns == NULL ||
        gy_query_stages_column(stages, &columns[sink->order_count]) != GY_OK) {
        return NULL;
    }
    stages->plan.columns[columns[sink->order_count]].name = "weight";
    for (uint32_t i = 0; i < sink->order_count; i++) {
        columns[i] = sink->order[i].column;
    }
    return columns;
}

static gy_status sample_input(gy_query_stages *stages, gy_query_input *input)
{
    const uint32_t count = input->stage_count;
    const gy_query_sink sink = stages->items[input->stages[0]]->sink;
    uint32_t *columns = sample_columns(stages, &sink);
    uint32_t *samples = gy_query_stages_take(stages, count, sizeof(*samples));
    uint32_t *divided = gy_query_stages_take(stages, count, sizeof(*divided));
    uint32_t *chooser = gy_query_stages_take(stages, 1, sizeof(*chooser));
    gy_query_input *bounds = NULL;
    gy_query_stage *made = NULL;
    if (columns == NULL || samples == NULL || divided == NULL || chooser == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        stages->items[input->stages[i]]->sink =
            (gy_query_sink){.parts = 1, .ordinal = GY_QUERY_NONE};
        samples[i] = stages->count;
        GY_TRY(add_beside(stages, input->stages[i], columns, sink.order_count, &made));
        made->sink = sink;
        made->sink.kind = GY_QUERY_SAMPLED;
        made->sink.parts = 1;
        made->sink.ordinal = columns[sink.order_count];
    }
    GY_TRY(add_chooser(stages, &sink, columns, samples, count, chooser));
    GY_TRY(input_of(stages, columns, sink.order_count, chooser, 1, &bounds));
    for (uint32_t i = 0; i < count; i++) {
        const gy_query_node *root = stages->items[input->stages[i]]->root;
        divided[i] = stages->count;
        GY_TRY(add_beside(stages, input->stages[i], root->columns, root->count, &made));
        GY_TRY(gy_query_stage_read(stages, made, bounds));
        made->sink = sink;
        made->sink.chosen = made->input_count - 1;
    }
    input->stages = divided;
    input->leaf.name = name_of(stages, divided[0]);
    return input->leaf.name != NULL ? GY_OK : GY_NOMEM;
}

gy_status gy_query_sample_stages(gy_query_stages *stages)
{
    const uint32_t count = stages->count;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < stages->items[i]->input_count; k++) {
            gy_query_input *input = stages->items[i]->inputs[k];
            if (stages->items[input->stages[0]]->sink.kind == GY_QUERY_RANGED &&
                input->stages[0] < count) {
                GY_TRY(sample_input(stages, input));
            }
        }
    }
    return GY_OK;
}
