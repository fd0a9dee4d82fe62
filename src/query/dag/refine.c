/*
 * Joins that sizes decide. The stages that give the side of a join that is kept in memory, and
 * what they read, run first. Once they ended their bytes are known, and the plan is cut once
 * more: a small side is read whole by all vertices of the other one, a large one is divided by
 * vertices beside it, as the other one is.
 */
#include "query/dag/dag_priv.h"

bool gy_query_gives_built(const gy_query_node *node, bool builds_left)
{
    switch (node->join) {
    case GY_QUERY_INNER:
    case GY_QUERY_ANTI_NULL:
        return false;
    case GY_QUERY_RIGHT:
        return !builds_left;
    case GY_QUERY_FULL:
        return true;
    case GY_QUERY_LEFT:
    case GY_QUERY_SEMI:
    case GY_QUERY_ANTI:
    default:
        return builds_left;
    }
}

/* A small part of what all vertices may read, of a file or by a limit, cannot become too large.
 */
enum { SURELY = 16, LIKELY = 4 };

static bool is_surely_small(const gy_query_node *side, double bytes_max)
{
    switch (side->kind) {
    case GY_QUERY_SCAN:
        return side->table->bytes * SURELY <= bytes_max;
    case GY_QUERY_VALUES:
    case GY_QUERY_SINGLE:
        return true;
    case GY_QUERY_AGGREGATE:
        return side->group_count == 0 || is_surely_small(side->left, bytes_max);
    case GY_QUERY_SORT:
    case GY_QUERY_LIMIT:
        return (side->limit >= 0 &&
                (double)side->limit * (8.0 * side->count + 8) * SURELY <= bytes_max) ||
               is_surely_small(side->left, bytes_max);
    case GY_QUERY_FILTER:
    case GY_QUERY_PROJECT:
    case GY_QUERY_CHECK:
        return is_surely_small(side->left, bytes_max);
    case GY_QUERY_JOIN:
    case GY_QUERY_SET:
    case GY_QUERY_APPLY:
    case GY_QUERY_KINDS:
    default:
        return false;
    }
}

/* Of rows of a file that all count a guess is not far off. */
static bool is_surely_large(const gy_query_node *side, double guess, double bytes_max)
{
    while (side->kind == GY_QUERY_PROJECT) {
        side = side->left;
    }
    return side->kind == GY_QUERY_SCAN && guess > LIKELY * bytes_max;
}

bool gy_query_is_sure_of_size(const gy_query_node *side, double guess, double bytes_max)
{
    return is_surely_small(side, bytes_max) || is_surely_large(side, guess, bytes_max);
}

static gy_status decision_add(gy_query_stages *stages, const gy_query_decision *decision)
{
    gy_query_decision *more =
        gy_query_stages_take(stages, stages->decision_count + 1u, sizeof(*more));
    if (more == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < stages->decision_count; i++) {
        more[i] = stages->decisions[i];
    }
    more[stages->decision_count++] = *decision;
    stages->decisions = more;
    return GY_OK;
}

gy_status gy_query_decision_side(gy_query_stages *stages, gy_query_decision *decision,
                                 gy_query_stage ***side)
{
    uint32_t *numbers = gy_query_stages_take(stages, decision->stage_count, sizeof(*numbers));
    gy_query_stage **again =
        gy_query_stages_take(stages, decision->stage_count, sizeof(gy_query_stage *));
    if (numbers == NULL || again == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < decision->stage_count; i++) {
        gy_query_stage *stage = (*side)[i];
        numbers[i] = gy_query_stage_number(stages, stage);
        again[i] = stage;
        if (!decision->is_broadcast) {
            stage->is_ended = true;
            GY_TRY(gy_query_stages_beside(stages, numbers[i], stage->root->columns,
                                          stage->root->count, &again[i]));
            again[i]->is_ended = again[i]->is_first = false;
        }
    }
    *side = again;
    decision->stages = numbers;
    return decision_add(stages, decision);
}

const gy_query_decision *gy_query_decision_find(const gy_query_stages *stages,
                                                const gy_query_node *node)
{
    for (uint32_t i = 0; node->kind == GY_QUERY_JOIN && i < stages->decision_count; i++) {
        if (stages->decisions[i].join == node->number) {
            return &stages->decisions[i];
        }
    }
    return NULL;
}

/* ---- Which stages run first ---- */

uint32_t gy_query_stages_first(const gy_query_stages *stages)
{
    uint32_t count = 0;
    while (count < stages->count && stages->items[count]->is_first) {
        count++;
    }
    return count;
}

static gy_status renumber(gy_query_stages *stages, const uint32_t *to, const uint32_t **numbers,
                          uint32_t count)
{
    uint32_t *made = gy_query_stages_take(stages, count, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        made[i] = to[(*numbers)[i]];
    }
    *numbers = made;
    return GY_OK;
}

/* Several stages may read one input. */
static gy_status renumber_input(gy_query_stages *stages, const uint32_t *to,
                                gy_query_input *input)
{
    char *name = gy_query_stages_take(stages, 32, 1);
    if (input->is_renumbered) {
        return GY_OK;
    }
    if (name == NULL) {
        return GY_NOMEM;
    }
    input->is_renumbered = true;
    GY_TRY(renumber(stages, to, &input->stages, input->stage_count));
    gy_print(name, 32, "of stage %u", input->stages[0]);
    input->leaf.name = name;
    return GY_OK;
}

gy_status gy_query_stages_order(gy_query_stages *stages)
{
    uint32_t *to = gy_query_stages_take(stages, stages->count, sizeof(*to));
    gy_query_stage **items =
        gy_query_stages_take(stages, stages->count, sizeof(gy_query_stage *));
    uint32_t at = 0;
    if (to == NULL || items == NULL) {
        return GY_NOMEM;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < stages->count; i++) {
            if (stages->items[i]->is_first == (pass == 0)) {
                to[i] = at;
                items[at++] = stages->items[i];
            }
        }
    }
    stages->items = items;
    stages->capacity = stages->count;
    for (uint32_t i = 0; i < stages->count; i++) {
        gy_query_stage *stage = stages->items[i];
        stage->like = stage->like != GY_QUERY_NONE ? to[stage->like] : GY_QUERY_NONE;
        for (uint32_t k = 0; k < stage->input_count; k++) {
            GY_TRY(renumber_input(stages, to, stage->inputs[k]));
        }
    }
    for (uint32_t i = 0; i < stages->decision_count; i++) {
        gy_query_decision *decision = &stages->decisions[i];
        GY_TRY(renumber(stages, to, &decision->stages, decision->stage_count));
    }
    return renumber(stages, to, &stages->results, stages->result_count);
}
