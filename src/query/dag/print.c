/* Stages as a text, with guesses or with what they did. */
#include "query/dag/dag_priv.h"

#include <stdio.h>
#include <string.h>

/* Where an operator's rows are counted: in the order in which fragments are read. */
typedef struct printer {
    const gy_query_job *job; /* NULL: guesses alone */
    const gy_query_stages *stages;
    uint32_t stage;
    uint32_t number; /* the next operator's, from behind: inputs come first */
    gy_text *text;
} printer;

static uint32_t count_nodes(const gy_query_node *node)
{
    return node == NULL ? 0 : 1 + count_nodes(node->left) + count_nodes(node->right);
}

static void print_node(printer *to, const gy_query_node *node, int depth, uint32_t first)
{
    const uint32_t lefts = count_nodes(node->left);
    const uint32_t number = first + lefts + count_nodes(node->right);
    char name[64];
    gy_print(name, sizeof(name), "rows %u.%u", to->stage, number);
    if (to->job != NULL && to->job->report != NULL) {
        gy_text_add(to->text, "%12lld rows  ",
                    (long long)gy_job_report_counter(to->job->report, name));
    }
    gy_text_add(to->text, "%*s", 2 * depth, "");
    gy_query_node_print(&to->stages->plan, node, to->text);
    if (to->job == NULL || to->job->report == NULL) {
        gy_text_add(to->text, "  (about %.0f rows)", node->rows);
    }
    gy_text_add(to->text, "\n");
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
                                            [GY_QUERY_BOUNDED] = "bounds of ranges of"};
        char number[16] = "";
        if (sink->kind != GY_QUERY_SAMPLED) {
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
    }
}

/* The stage's line of the report. */
static const gy_job_stage *find_stage(const gy_query_job *job, uint32_t number)
{
    char begin[32];
    const size_t size = gy_print(begin, sizeof(begin), "%u ", number);
    for (size_t i = 0; job != NULL && job->report != NULL && i < job->report->stage_count;
         i++) {
        if (strncmp(job->report->stages[i].name, begin, size) == 0) {
            return &job->report->stages[i];
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
        const int64_t rows = gy_job_report_counter(to->job->report, name);
        all += rows;
        largest = GY_MAX(largest, rows);
    }
    if (all > 0) {
        gy_text_add(to->text, ", the largest of %lld of %lld rows", (long long)largest,
                    (long long)all);
    }
}

static void print_stage(printer *to, const gy_query_stage *stage)
{
    const gy_job_stage *done = find_stage(to->job, to->stage);
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
    print_sink(to->stages, &stage->sink, to->text);
    if (done != NULL) {
        print_largest(to, stage);
    }
    gy_text_add(to->text, "\n");
    print_node(to, stage->root, 1, 0);
}

static void print_all(const gy_query_job *job, const gy_query_stages *stages, gy_text *text)
{
    for (uint32_t i = 0; i < stages->count; i++) {
        printer to = {.job = job, .stages = stages, .stage = i, .text = text};
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
