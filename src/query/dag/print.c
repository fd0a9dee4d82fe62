/* Stages as a text, with guesses or with what they did. */
#include "query/dag/dag_priv.h"

#include <stdio.h>
#include <string.h>

/* Operators are counted by their numbers in a fragment: in the order in which it is read,
 * inputs first, then the aggregates of what the stage reads, and that of what it gives. */
typedef struct printer {
    const gy_query_job *job;     /* NULL: guesses alone */
    const gy_job_report *report; /* NULL: it did not run */
    const gy_query_stages *stages;
    uint32_t stage;
    gy_text *text;
} printer;

static uint32_t count_nodes(const gy_query_node *node)
{
    return node == NULL ? 0 : 1 + count_nodes(node->left) + count_nodes(node->right);
}

static int64_t get_count(const printer *to, const char *what, uint32_t number)
{
    char name[64];
    gy_print(name, sizeof(name), "%s %u.%u", what, to->stage, number);
    return gy_job_report_counter(to->report, name);
}

/* What all vertices of the stage did in the operator. */
static void print_meter(const printer *to, uint32_t number)
{
    gy_query_meter meter = {.rows = 0};
#define GY_X(what, field) *(int64_t *)&meter.field = get_count(to, what, number);
    GY_QUERY_COUNT_LIST(GY_X)
#undef GY_X
    gy_query_meter_print(&meter, to->text);
}

/* An aggregate whose rows or answers are states, once it ran; whether it was printed. */
static bool print_states(const printer *to, const gy_query_node *node, int depth,
                         uint32_t number, const char *end)
{
    if (node == NULL || to->report == NULL) {
        return false;
    }
    print_meter(to, number);
    gy_text_add(to->text, "%*s", 2 * depth, "");
    gy_query_node_print(&to->stages->plan, node, to->text);
    gy_text_add(to->text, "%s\n", end);
    return true;
}

/* An input's aggregate, if the operator reads one, has a number behind those of the stage's
 * operators. */
static void print_input(const printer *to, const gy_query_node *node, int depth)
{
    const gy_query_stage *stage = to->stages->items[to->stage];
    uint32_t number = count_nodes(stage->root);
    for (uint32_t i = 0; i < stage->input_count; i++) {
        const gy_query_input *input = stage->inputs[i];
        if (&input->leaf == node->table) {
            (void)print_states(to, input->aggregate, depth, number, ", of states");
        }
        number += input->aggregate != NULL ? 1 : 0;
    }
}

/* How sizes decide a join, or did. */
static void print_decision(const gy_query_stages *stages, const gy_query_node *node,
                           gy_text *text)
{
    const gy_query_decision *decision = gy_query_decision_find(stages, node);
    char bytes[32];
    if (decision != NULL && decision->bytes < 0) {
        gy_text_add(text, ", decided by size");
    } else if (decision != NULL) {
        gy_text_add(text, ", %s by size: %s", decision->is_broadcast ? "broadcast" : "by hash",
                    gy_text_bytes(bytes, (uint64_t)decision->bytes));
    }
}

static void print_node(const printer *to, const gy_query_node *node, int depth, uint32_t first)
{
    const uint32_t lefts = count_nodes(node->left);
    const uint32_t number = first + lefts + count_nodes(node->right);
    if (to->report != NULL) {
        print_meter(to, number);
    }
    gy_text_add(to->text, "%*s", 2 * depth, "");
    gy_query_node_print(&to->stages->plan, node, to->text);
    print_decision(to->stages, node, to->text);
    if (to->report == NULL) {
        gy_text_add(to->text, "  (about %.0f rows)", node->rows);
    }
    gy_text_add(to->text, "\n");
    if (node->kind == GY_QUERY_SCAN) {
        print_input(to, node, depth + 1);
    }
    if (node->left != NULL) {
        print_node(to, node->left, depth + 1, first);
    }
    if (node->right != NULL) {
        print_node(to, node->right, depth + 1, first + lefts);
    }
}

static void print_order(const gy_query_stages *stages, const gy_query_sink *sink, gy_text *text)
{
    for (uint32_t i = 0; i < sink->order_count; i++) {
        gy_text_add(text, "%s %s%s", i > 0 ? "," : "",
                    stages->plan.columns[sink->order[i].column].name,
                    sink->order[i].is_descending ? " desc" : "");
    }
}

static void print_sink(const gy_query_stages *stages, const gy_query_sink *sink, gy_text *text)
{
    gy_text_add(text, "%s", sink->aggregate != NULL ? ", groups in part" : "");
    if (sink->kind != GY_QUERY_HASHED) {
        static const char *const texts[] = {[GY_QUERY_RANGED] = "parts by ranges of",
                                            [GY_QUERY_SAMPLED] = "a sample of",
                                            [GY_QUERY_BOUNDED] = "bounds of ranges of",
                                            [GY_QUERY_FOUND] = "hot keys of"};
        char number[16] = "";
        if (sink->kind == GY_QUERY_RANGED || sink->kind == GY_QUERY_BOUNDED) {
            gy_print(number, sizeof(number), "%u ",
                     sink->kind == GY_QUERY_RANGED ? sink->parts : sink->ranges - 1);
        }
        gy_text_add(text, ", %s%s", number, texts[sink->kind]);
        print_order(stages, sink, text);
    } else if (sink->parts > 1) {
        gy_text_add(text, ", %u parts by the hash of", sink->parts);
        for (uint32_t i = 0; i < sink->key_count; i++) {
            gy_text_add(text, "%s %s", i > 0 ? "," : "",
                        stages->plan.columns[sink->keys[i]].name);
        }
        gy_text_add(text, "%s",
                    sink->heat == GY_QUERY_SPREAD   ? ", hot keys of a sample are split"
                    : sink->heat == GY_QUERY_COPIED ? ", those of hot keys go to all"
                                                    : "");
    }
}

/* The stage's line of the report. */
static const gy_job_stage *find_stage(const printer *to)
{
    char begin[32];
    const size_t size = gy_print(begin, sizeof(begin), "%u ", to->stage);
    for (size_t i = 0; to->report != NULL && i < to->report->stage_count; i++) {
        if (strncmp(to->report->stages[i].name, begin, size) == 0) {
            return &to->report->stages[i];
        }
    }
    return NULL;
}

/* How evenly a stage that ran divided its rows. */
static void print_largest(const printer *to, const gy_query_stage *stage)
{
    int64_t largest = 0, all = 0;
    for (uint32_t i = 0; stage->sink.parts > 1 && i < stage->sink.parts; i++) {
        char name[64];
        gy_print(name, sizeof(name), "part %u.%u", to->stage, i);
        const int64_t rows = gy_job_report_counter(to->report, name);
        all += rows;
        largest = GY_MAX(largest, rows);
    }
    if (stage->sink.kind == GY_QUERY_FOUND) {
        char name[64];
        gy_print(name, sizeof(name), "hot %u", to->stage);
        gy_text_add(to->text, ": %lld",
                    (long long)gy_job_report_counter(to->job->report, name));
    }
    if (all > 0) {
        gy_text_add(to->text, ", the largest of %lld of %lld rows", (long long)largest,
                    (long long)all);
    }
}

/* Of what a stage gives states come last. */
static uint32_t number_of_states(const gy_query_stage *stage)
{
    uint32_t number = count_nodes(stage->root);
    for (uint32_t i = 0; i < stage->input_count; i++) {
        number += stage->inputs[i]->aggregate != NULL ? 1 : 0;
    }
    return number;
}

static void print_stage(const printer *to, const gy_query_stage *stage)
{
    const gy_job_stage *done = find_stage(to);
    char bytes[32];
    gy_text_add(to->text, "stage %u: ", to->stage);
    if (stage->table != NULL && to->job == NULL) {
        gy_text_add(to->text, "a vertex a piece");
    } else if (stage->like != GY_QUERY_NONE && to->job == NULL) {
        gy_text_add(to->text, "a vertex beside each of stage %u", stage->like);
    } else {
        gy_text_add(to->text, "%u %s", stage->vertices,
                    stage->vertices == 1 ? "vertex" : "vertices");
    }
    if (done != NULL) {
        gy_text_add(to->text, ", %lld ran, %lld remembered, %s, %.3f s",
                    (long long)(done->committed - done->memoised), (long long)done->memoised,
                    gy_text_bytes(bytes, (uint64_t)done->bytes), done->run_s);
    }
    for (uint32_t i = 0; i < stage->kept_count; i++) {
        gy_text_add(to->text, "%s %s", i == 0 ? ", no second shuffle by" : ",",
                    to->stages->plan.columns[stage->kept[i]].name);
    }
    print_sink(to->stages, &stage->sink, to->text);
    if (done != NULL) {
        print_largest(to, stage);
    }
    gy_text_add(to->text, "\n");
    const bool gives_states =
        print_states(to, stage->sink.aggregate, 1, number_of_states(stage), ", in part");
    print_node(to, stage->root, gives_states ? 2 : 1, 0);
}

static void print_all(const gy_query_job *job, const gy_query_stages *stages, gy_text *text)
{
    for (uint32_t i = 0; i < stages->count; i++) {
        const printer to = {.job = job,
                            .report = job != NULL ? job->report : NULL,
                            .stages = stages,
                            .stage = i,
                            .text = text};
        print_stage(&to, stages->items[i]);
    }
}

void gy_query_stages_print(const gy_query_stages *stages, gy_text *text)
{
    print_all(NULL, stages, text);
}

void gy_query_job_print(const gy_query_job *job, gy_text *text)
{
    print_all(job, &job->stages, text);
}
