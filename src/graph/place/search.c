/*
 * The search: a choice for each node and a spot for each value with several users, so that work
 * and moves cost least in all (choose.h). A value with one user goes straight to where the user
 * wants it. One with several is brought to one spot for all of them, so that the move there is
 * paid once.
 *
 * A move costs less where work that does not wait for it can hide it: of what stands behind the
 * value in the graph, all that does not depend on it.
 *
 * Sources: Xu et al., "GSPMD", 2021; Zheng et al., "Alpa", OSDI 2022.
 */
#include "graph/place/place_priv.h"

#include "graph/place/choose.h"

#include "base/base.h"
#include "base/index.h"

#include <math.h>
#include <string.h>

enum { DEPENDENTS_MAX = 48 /* nodes that may wait for a value whose moves are still hidden */ };

static const double hidden_costs =
    0.25; /* of its time: it takes memory bandwidth from others */

/* What a pair of variables stands for. */
typedef enum link_kind { FROM_NODE, TO_NODE, NODE_TO_NODE, KEPT_BY_NODE } link_kind;

typedef struct link {
    link_kind kind;
    int32_t node, output; /* the producer */
    int32_t user;
    int32_t value;
} link;

typedef struct search {
    gy_placer *placer;
    int32_t *variable_of; /* value number -> its variable, behind those of the nodes; -1 */
    int32_t **spots_of; /* [variable of a value][its value] -> a number among the kin's spots */
    bool *is_fetched;   /* value number -> a root wants it somewhere */
    int32_t count;      /* variables: nodes first */
    int32_t *sizes;
    const double **costs;
    link *links;
    gy_choice_pair *pairs;
    int32_t *kinds; /* [pair], as gy_choices has them */
    int32_t link_count;
    size_t link_capacity, pair_capacity, kind_capacity;
    gy_index link_kinds; /* what a pair costs depends on -> its kind */
    gy_index lists;      /* spots -> a number in `shared` */
    int32_t **shared;
    size_t shared_capacity;
} search;

/* ---- what moves cost ---- */

static double move_cost(const search *s, int32_t value, int32_t from, int32_t to)
{
    GY_ASSERT(value >= 0 && value < s->placer->pass.in->value_count);
    const int32_t kin = s->placer->kin_of[value];
    const double seconds = gy_kin_route(s->placer, kin, from, to);
    const double held = from != to ? gy_kin_held(s->placer, kin, to) : 0;
    return seconds < INFINITY ? seconds * s->placer->exposure[value] + held : seconds;
}

static int32_t output_spot(const search *s, int32_t node, int32_t choice, int32_t output)
{
    GY_ASSERT(choice >= 0 && choice < s->placer->candidates[node].count);
    GY_ASSERT(output >= 0 && output < s->placer->pass.in->nodes[node].output_count);
    const gy_candidates *of = &s->placer->candidates[node];
    const int32_t inputs = s->placer->pass.in->nodes[node].input_count;
    return gy_candidate_spots(of, choice)[inputs + output];
}

/* The first input that is read: an assignment only names its parameter by the one before. */
static int first_read(const gy_graph_node *node)
{
    GY_ASSERT(node->op != &gy_ops_row_assign || node->input_count == 2);
    return node->op == &gy_ops_row_assign ? 1 : 0;
}

/* From one spot to all that the user's choice wants; a spot that it wants twice counts once. */
static double user_cost(const search *s, int32_t user, int32_t choice, int32_t value,
                        int32_t from)
{
    GY_ASSERT(choice >= 0 && choice < s->placer->candidates[user].count);
    const gy_graph *in = s->placer->pass.in;
    const gy_graph_node *node = &in->nodes[user];
    const gy_candidates *of = &s->placer->candidates[user];
    const int32_t *wanted = gy_candidate_spots(of, choice);
    double sum = 0;
    for (int k = first_read(node); k < node->input_count; k++) {
        bool is_new = gy_graph_value(in, node->inputs[k]) == value;
        for (int j = first_read(node); is_new && j < k; j++) {
            is_new = !gy_value_is(node->inputs[j], node->inputs[k]) || wanted[j] != wanted[k];
        }
        sum += is_new ? move_cost(s, value, from, wanted[k]) : 0;
    }
    return sum;
}

static double pair_cost(const void *arg, int32_t pair, int32_t a, int32_t b)
{
    const search *s = arg;
    GY_ASSERT(pair >= 0 && pair < s->link_count);
    const link *of = &s->links[pair];
    switch (of->kind) {
    case FROM_NODE:
        return move_cost(s, of->value, output_spot(s, of->node, a, of->output),
                         s->spots_of[s->variable_of[of->value]][b]);
    case TO_NODE:
        return user_cost(s, of->user, b, of->value, s->spots_of[s->variable_of[of->value]][a]);
    case NODE_TO_NODE:
        return user_cost(s, of->user, b, of->value, output_spot(s, of->node, a, of->output));
    case KEPT_BY_NODE:
        return output_spot(s, of->node, a, of->output) ==
                       gy_candidate_spots(&s->placer->candidates[of->user], b)[0]
                   ? 0
                   : INFINITY;
    }
    return 0;
}

/* ---- what later work hides ---- */

static double least_cost(const gy_candidates *of)
{
    GY_ASSERT(of->count >= 1);
    double least = INFINITY;
    for (int32_t i = 0; i < of->count; i++) {
        least = fmin(least, of->cost_s[i]);
    }
    return least;
}

/* Work of all nodes that need the value; INFINITY: too many to count. `marks` holds the last
 * value number that reached each node. */
static double dependent_work(const gy_placer *placer, int32_t value, const double *work_s,
                             int32_t *marks, int32_t *queue)
{
    GY_ASSERT(value >= 0 && value < placer->pass.in->value_count);
    const gy_graph *in = placer->pass.in;
    int32_t count = 0;
    double sum = 0;
    for (int32_t next = -1; next < count; next++) {
        const int32_t first = next < 0 ? value : in->nodes[queue[next]].first_value;
        const int32_t values = next < 0 ? 1 : in->nodes[queue[next]].output_count;
        for (int32_t v = first; v < first + values; v++) {
            for (int32_t i = placer->users.first[v]; i < placer->users.first[v + 1]; i++) {
                const int32_t user = placer->users.list[i];
                if (marks[user] == value) {
                    continue;
                }
                if (count == DEPENDENTS_MAX) {
                    return INFINITY;
                }
                marks[user] = value;
                queue[count++] = user;
                sum += work_s[user];
            }
        }
    }
    return sum;
}

static gy_status find_exposure(gy_placer *placer)
{
    GY_ASSERT(placer->candidates != NULL && placer->exposure == NULL);
    const gy_graph *in = placer->pass.in;
    const size_t nodes = (size_t)in->node_count + 1;
    int32_t queue[DEPENDENTS_MAX];
    double *work_s = gy_arena_alloc(&placer->arena, nodes * sizeof(double));
    int32_t *marks = gy_arena_alloc(&placer->arena, nodes * sizeof(int32_t));
    placer->exposure =
        gy_arena_alloc(&placer->arena, ((size_t)in->value_count + 1) * sizeof(double));
    if (work_s == NULL || marks == NULL || placer->exposure == NULL) {
        return GY_NOMEM;
    }
    memset(marks, 0xff, nodes * sizeof(int32_t));
    for (int32_t i = 0; i < in->node_count; i++) {
        work_s[i] = least_cost(&placer->candidates[i]);
    }
    double behind_s = 0;
    for (int32_t i = in->node_count - 1; i >= 0; i--) {
        for (int32_t k = 0; k < in->nodes[i].output_count; k++) {
            const int32_t value = in->nodes[i].first_value + k;
            const double slack_s =
                behind_s - dependent_work(placer, value, work_s, marks, queue);
            /* Of one move: an allreduce, or what else brings the value everywhere. */
            const gy_type *type = &in->nodes[i].types[k];
            double whole_s = 0;
            for (int axis = 0; axis < in->mesh.axes; axis++) {
                const double bytes =
                    (double)gy_type_count(type) * (double)gy_dtype_bytes(type->dtype);
                whole_s += in->mesh.sizes[axis] > 1 && bytes > 0
                               ? gy_price_exchange(&placer->prices[axis],
                                                   GY_OPERATION_ALLREDUCE, bytes)
                               : 0;
            }
            const double hidden = whole_s > 0 && slack_s > 0 ? fmin(1, slack_s / whole_s) : 0;
            placer->exposure[value] = 1 - hidden * (1 - hidden_costs);
        }
        behind_s += work_s[i];
    }
    return GY_OK;
}

/* ---- variables ---- */

static bool is_root(const gy_graph *in, int32_t value, int32_t *first)
{
    GY_ASSERT(*first >= 0);
    for (int32_t i = *first; i < in->root_count; i++) {
        if (gy_graph_value(in, in->roots[i].value) == value) {
            *first = i;
            return true;
        }
    }
    return false;
}

/* Roots that are effects stay where they are. */
static gy_status mark_fetched(search *s)
{
    const gy_graph *in = s->placer->pass.in;
    s->is_fetched =
        gy_arena_alloc(&s->placer->arena, ((size_t)in->value_count + 1) * sizeof(bool));
    if (s->is_fetched == NULL) {
        return GY_NOMEM;
    }
    for (int32_t i = 0; i < in->root_count; i++) {
        GY_ASSERT(gy_graph_value(in, in->roots[i].value) < in->value_count);
        s->is_fetched[gy_graph_value(in, in->roots[i].value)] =
            (gy_graph_at(in, in->roots[i].value)->op->flags & GY_OP_EFFECT) == 0;
    }
    return GY_OK;
}

/* Add a spot to the list of `count`, once. */
static void add_spot(int32_t *list, int32_t *count, int32_t spot)
{
    GY_ASSERT(*count >= 0 && spot >= 0);
    for (int32_t i = 0; i < *count; i++) {
        if (list[i] == spot) {
            return;
        }
    }
    list[(*count)++] = spot;
}

static gy_status root_spot(const search *s, int32_t root, int32_t *spot)
{
    GY_ASSERT(root >= 0 && root < s->placer->pass.in->root_count);
    const gy_graph *in = s->placer->pass.in;
    const gy_kin *kin =
        &s->placer->kins[s->placer->kin_of[gy_graph_value(in, in->roots[root].value)]];
    gy_spot wanted;
    memcpy(wanted.along, in->roots[root].placement, sizeof(wanted.along));
    for (int32_t i = 0; i < kin->spot_count; i++) {
        if (gy_spot_is(&in->mesh, &kin->spots[i], &wanted)) {
            *spot = i;
            return GY_OK;
        }
    }
    return gy_fail(GY_STATE, "a fetch has no place");
}

/* What it costs to bring a value from each of its spots to where fetches want it. */
static gy_status price_fetches(search *s, int32_t value, int32_t variable)
{
    GY_ASSERT(variable >= s->placer->pass.in->node_count);
    const gy_graph *in = s->placer->pass.in;
    const int32_t count = s->sizes[variable];
    if (!s->is_fetched[value]) {
        return GY_OK;
    }
    double *costs = gy_arena_alloc(&s->placer->arena, ((size_t)count + 1) * sizeof(double));
    if (costs == NULL) {
        return GY_NOMEM;
    }
    for (int32_t root = 0; s->is_fetched[value] && is_root(in, value, &root); root++) {
        int32_t wanted = -1;
        GY_TRY(root_spot(s, root, &wanted));
        for (int32_t i = 0; i < count; i++) {
            costs[i] += move_cost(s, value, s->spots_of[variable][i], wanted);
        }
    }
    s->costs[variable] = costs;
    return GY_OK;
}

/* Lists of the same spots are one, so that what depends on them is seen to be alike. */
static gy_status share_list(search *s, int32_t *list, int32_t count, int32_t **shared)
{
    const size_t before = s->lists.count;
    uint32_t number = 0;
    GY_ASSERT(count >= 1);
    GY_TRY(gy_index_number(&s->lists, gy_key_of(list, (size_t)count * sizeof(*list)), &number));
    if (number == before) {
        GY_TRY(GY_GROW("graph.place", s->shared, s->shared_capacity, before + 1));
        s->shared[number] = list;
    }
    *shared = s->shared[number];
    return GY_OK;
}

/* All spots that the producer, a user or a fetch of the value has a choice for. */
static gy_status list_spots(search *s, int32_t node, int32_t output, int32_t value)
{
    GY_ASSERT(output >= 0 && value >= output);
    gy_placer *placer = s->placer;
    const gy_graph *in = placer->pass.in;
    const gy_kin *kin = &placer->kins[placer->kin_of[value]];
    const int32_t variable = s->count++;
    int32_t *list =
        gy_arena_alloc(&placer->arena, ((size_t)kin->spot_count + 1) * sizeof(int32_t));
    if (list == NULL) {
        return GY_NOMEM;
    }
    int32_t count = 0;
    for (int32_t c = 0; c < placer->candidates[node].count; c++) {
        add_spot(list, &count, output_spot(s, node, c, output));
    }
    for (int32_t i = placer->users.first[value]; i < placer->users.first[value + 1]; i++) {
        const gy_graph_node *user = &in->nodes[placer->users.list[i]];
        const gy_candidates *of = &placer->candidates[placer->users.list[i]];
        for (int32_t c = 0; c < of->count; c++) {
            for (int k = first_read(user); k < user->input_count; k++) {
                if (gy_graph_value(in, user->inputs[k]) == value) {
                    add_spot(list, &count, gy_candidate_spots(of, c)[k]);
                }
            }
        }
    }
    for (int32_t root = 0; s->is_fetched[value] && is_root(in, value, &root); root++) {
        int32_t wanted = -1;
        GY_TRY(root_spot(s, root, &wanted));
        add_spot(list, &count, wanted);
    }
    int32_t kept = 0; /* where a pin says */
    for (int32_t i = 0; i < count; i++) {
        if (gy_placer_pin_holds(&in->mesh, &in->nodes[node], &kin->spots[list[i]])) {
            list[kept++] = list[i];
        }
    }
    GY_ASSERT(kept >= 1);
    s->variable_of[value] = variable;
    s->sizes[variable] = kept;
    GY_TRY(share_list(s, list, kept, &s->spots_of[variable]));
    return price_fetches(s, value, variable);
}

/* All that the cost of a link depends on: two links of one kind have equal tables. */
static gy_status number_link(search *s, const link *made, int32_t *kind)
{
    struct {
        link_kind kind;
        int32_t output, kin;
        uint32_t read; /* bits of the user's inputs that are the value */
        double exposure;
        const int32_t *from, *kept, *user; /* spots of the choices, by address */
        const gy_op *op;                   /* of the user */
    } key;
    const gy_placer *placer = s->placer;
    const gy_graph *in = placer->pass.in;
    GY_ASSERT(made->value >= 0 && made->value < in->value_count);
    memset(&key, 0, sizeof(key)); /* every byte of it is hashed */
    key.kind = made->kind;
    key.kin = placer->kin_of[made->value];
    key.exposure = placer->exposure[made->value];
    if (made->kind != TO_NODE) {
        key.from = placer->candidates[made->node].spots;
        key.output = in->nodes[made->node].input_count + made->output;
    }
    if (made->kind == FROM_NODE || made->kind == TO_NODE) {
        key.kept = s->spots_of[s->variable_of[made->value]];
    }
    if (made->kind != FROM_NODE) {
        const gy_graph_node *user = &in->nodes[made->user];
        key.user = placer->candidates[made->user].spots;
        key.op = user->op;
        for (int k = 0; k < user->input_count; k++) {
            key.read |= gy_graph_value(in, user->inputs[k]) == made->value ? 1u << k : 0;
        }
    }
    uint32_t number = 0;
    GY_TRY(gy_index_number(&s->link_kinds, gy_key_of(&key, sizeof(key)), &number));
    *kind = (int32_t)number;
    return GY_OK;
}

static gy_status add_link(search *s, const link *made, int32_t a, int32_t b)
{
    GY_ASSERT(a != b && a < s->count && b < s->count);
    GY_TRY(GY_GROW("graph.place", s->kinds, s->kind_capacity, (size_t)s->link_count + 1));
    GY_TRY(number_link(s, made, &s->kinds[s->link_count]));
    GY_TRY(GY_GROW("graph.place", s->links, s->link_capacity, (size_t)s->link_count + 1));
    GY_TRY(GY_GROW("graph.place", s->pairs, s->pair_capacity, (size_t)s->link_count + 1));
    s->links[s->link_count] = *made;
    s->pairs[s->link_count++] = (gy_choice_pair){a, b};
    return GY_OK;
}

/* Does the user read the value? An assignment alone does not read its parameter. */
static bool is_read(const gy_graph *in, int32_t user, int32_t value)
{
    const gy_graph_node *node = &in->nodes[user];
    GY_ASSERT(user >= 0 && user < in->node_count);
    for (int k = first_read(node); k < node->input_count; k++) {
        if (gy_graph_value(in, node->inputs[k]) == value) {
            return true;
        }
    }
    return false;
}

/* An assigned parameter stays where it is. */
static gy_status link_assignments(search *s, const link *of)
{
    const gy_placer *placer = s->placer;
    const gy_graph *in = placer->pass.in;
    link made = *of;
    made.kind = KEPT_BY_NODE;
    for (int32_t i = placer->users.first[of->value]; i < placer->users.first[of->value + 1];
         i++) {
        const gy_graph_node *user = &in->nodes[placer->users.list[i]];
        if (user->op == &gy_ops_row_assign &&
            gy_graph_value(in, user->inputs[0]) == of->value) {
            made.user = placer->users.list[i];
            GY_TRY(add_link(s, &made, of->node, made.user));
        }
    }
    return GY_OK;
}

/* The variable of a value that has several users, and what ties it to them; one user is tied to
 * the producer. */
static gy_status link_value(search *s, int32_t node, int32_t output)
{
    GY_ASSERT(output >= 0 && output < s->placer->pass.in->nodes[node].output_count);
    const gy_placer *placer = s->placer;
    const gy_graph *in = placer->pass.in;
    const int32_t value = in->nodes[node].first_value + output;
    const int32_t begin = placer->users.first[value], end = placer->users.first[value + 1];
    const bool is_fetch = s->is_fetched[value];
    link made = {.node = node, .output = output, .value = value};
    int32_t readers = 0;
    s->variable_of[value] = -1;
    GY_TRY(link_assignments(s, &made));
    for (int32_t i = begin; i < end; i++) {
        readers += is_read(in, placer->users.list[i], value) ? 1 : 0;
    }
    if (readers == 0 && !is_fetch) {
        return GY_OK;
    }
    const bool is_direct = readers == 1 && !is_fetch;
    if (!is_direct) {
        GY_TRY(list_spots(s, node, output, value));
        made.kind = FROM_NODE;
        GY_TRY(add_link(s, &made, node, s->variable_of[value]));
    }
    made.kind = is_direct ? NODE_TO_NODE : TO_NODE;
    for (int32_t i = begin; i < end; i++) {
        made.user = placer->users.list[i];
        if (is_read(in, made.user, value)) {
            GY_TRY(add_link(s, &made, is_direct ? node : s->variable_of[value], made.user));
        }
    }
    return GY_OK;
}

static gy_status list_variables(search *s)
{
    GY_ASSERT(s->count == 0 && s->link_count == 0);
    gy_placer *placer = s->placer;
    const gy_graph *in = placer->pass.in;
    const size_t most = (size_t)in->node_count + (size_t)in->value_count + 1;
    s->sizes = gy_arena_alloc(&placer->arena, most * sizeof(int32_t));
    s->costs = gy_arena_alloc(&placer->arena, most * sizeof(*s->costs));
    s->spots_of = gy_arena_alloc(&placer->arena, most * sizeof(*s->spots_of));
    s->variable_of =
        gy_arena_alloc(&placer->arena, ((size_t)in->value_count + 1) * sizeof(int32_t));
    if (s->sizes == NULL || s->costs == NULL || s->spots_of == NULL || s->variable_of == NULL) {
        return GY_NOMEM;
    }
    s->count = in->node_count;
    for (int32_t i = 0; i < in->node_count; i++) {
        s->sizes[i] = placer->candidates[i].count;
        s->costs[i] = placer->candidates[i].cost_s;
    }
    for (int32_t i = 0; i < in->node_count; i++) {
        for (int32_t k = 0; k < in->nodes[i].output_count; k++) {
            GY_TRY(link_value(s, i, k));
        }
    }
    return GY_OK;
}

/* ---- the result ---- */

/* Where values are kept: as chosen, or, of one user, as they are made. */
static void keep_result(search *s, const int32_t *chosen)
{
    GY_ASSERT(s->count >= s->placer->pass.in->node_count);
    gy_placer *placer = s->placer;
    const gy_graph *in = placer->pass.in;
    for (int32_t i = 0; i < in->node_count; i++) {
        placer->chosen[i] = chosen[i];
        for (int32_t k = 0; k < in->nodes[i].output_count; k++) {
            const int32_t value = in->nodes[i].first_value + k;
            const int32_t variable = s->variable_of[value];
            const int32_t spot = variable >= 0 ? s->spots_of[variable][chosen[variable]]
                                               : output_spot(s, i, chosen[i], k);
            placer->kept[value] = placer->kins[placer->kin_of[value]].spots[spot];
        }
    }
}

/* Of the choices, without the price of memory. */
static double time_of(search *s, const gy_choices *choices, const int32_t *chosen)
{
    gy_placer *placer = s->placer;
    const double byte_s = placer->byte_s;
    double held = 0;
    GY_ASSERT(choices->count == s->count && byte_s >= 0);
    for (int32_t i = 0; i < placer->pass.in->node_count; i++) {
        held += gy_candidates_held(placer, i,
                                   gy_candidate_spots(&placer->candidates[i], chosen[i]));
    }
    placer->byte_s = 0;
    const double cost_s = gy_choices_cost(choices, chosen);
    placer->byte_s = byte_s;
    return cost_s < INFINITY ? fmax(cost_s - held, 0) : cost_s;
}

static gy_status solve(search *s)
{
    GY_ASSERT(s->placer->chosen != NULL && s->placer->kept != NULL);
    GY_TRY(find_exposure(s->placer));
    GY_TRY(mark_fetched(s));
    GY_TRY(list_variables(s));
    int32_t *chosen =
        gy_arena_alloc(&s->placer->arena, ((size_t)s->count + 1) * sizeof(int32_t));
    if (chosen == NULL) {
        return GY_NOMEM;
    }
    const gy_choices choices = {.count = s->count,
                                .sizes = s->sizes,
                                .costs = s->costs,
                                .pair_count = s->link_count,
                                .pairs = s->pairs,
                                .pair_kinds = s->kinds,
                                .pair_kind_count = (int32_t)s->link_kinds.count,
                                .pair_cost = pair_cost,
                                .arg = s};
    GY_TRY(gy_choices_solve(&choices, chosen, NULL));
    s->placer->cost_s = gy_choices_cost(&choices, chosen);
    s->placer->time_s =
        s->placer->byte_s > 0 ? time_of(s, &choices, chosen) : s->placer->cost_s;
    keep_result(s, chosen);
    return GY_OK;
}

gy_status gy_search(gy_placer *placer)
{
    GY_ASSERT(placer->kin_count > 0 || placer->pass.in->node_count == 0);
    search s = {.placer = placer};
    const gy_status status = solve(&s);
    gy_free(s.links);
    gy_free(s.pairs);
    gy_free(s.kinds);
    gy_free(s.shared);
    gy_index_free(&s.link_kinds);
    gy_index_free(&s.lists);
    return status;
}
