/* Draws lists of pipelines in virtual time: ranks are rows, time goes to the right. */
#include "plan/pipe/pipe_priv.h"

#include "base/base.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    RANKS_MAX = 64,
    ACTIONS_MAX = 1 << 16,
    COLUMNS_MAX = 1 << 15,
    NAME_COLUMNS = 9, /* "rank 12  " */
    LABEL_BYTES = 48,
    LEFT = 72,
    TOP = 64,
    ROW = 30,
    SVG_WIDTH_MIN = 480,
};

typedef struct drawing {
    const gy_pipe_schedule *schedule;
    gy_pipe_step step;
    gy_text *out;
    double scale; /* columns or pixels a second */
} drawing;

/* "F3", where a rank has several stages "5F3". */
static const char *label_of(const drawing *at, const gy_pipe_action *action,
                            char out[LABEL_BYTES])
{
    gy_text text = {.data = NULL};
    gy_pipe_print_action(&text, action);
    (void)gy_text_move(&text, out, LABEL_BYTES);
    return at->schedule->stages == at->schedule->ranks ? out + strspn(out, "0123456789") : out;
}

/* The widest label, and the shortest action that takes time. */
static void measure(const drawing *at, size_t *label, double *shortest)
{
    char text[LABEL_BYTES];
    size_t offset = 0;
    *label = 1;
    *shortest = at->step.time_s;
    for (int rank = 0; rank < at->schedule->ranks; rank++) {
        const gy_pipe_list *list = &at->schedule->lists[rank];
        for (size_t i = 0; i < list->count; i++) {
            const gy_pipe_span *span = &at->step.spans[offset + i];
            double took = span->end_s - span->begin_s;
            if (gy_pipe_is_computing(list->actions[i].kind) && took > 0) {
                *label = GY_MAX(*label, strlen(label_of(at, &list->actions[i], text)));
                *shortest = fmin(*shortest, took);
            }
        }
        offset += list->count;
    }
}

/* A rank's row of `columns` characters; a dot: it does not compute. */
static void fill_row(const drawing *at, int rank, size_t offset, char *row, size_t columns)
{
    const gy_pipe_list *list = &at->schedule->lists[rank];
    memset(row, '.', columns);
    for (size_t i = 0; i < list->count; i++) {
        char text[LABEL_BYTES];
        if (!gy_pipe_is_computing(list->actions[i].kind)) {
            continue;
        }
        const gy_pipe_span *span = &at->step.spans[offset + i];
        size_t begin = GY_MIN(columns, (size_t)lround(span->begin_s * at->scale));
        size_t end = GY_MIN(columns, (size_t)lround(span->end_s * at->scale));
        const char *label = label_of(at, &list->actions[i], text);
        memset(row + begin, ' ', end - begin);
        for (size_t k = 0; label[k] != '\0' && begin + k < end; k++) {
            row[begin + k] = label[k];
        }
    }
}

static gy_status draw_text(drawing *at, int width)
{
    size_t label = 0, ranks = (size_t)at->schedule->ranks;
    double shortest = 0;
    measure(at, &label, &shortest);
    at->scale = shortest > 0 ? (double)(label + 1) / shortest : 0;
    double wanted = ceil(at->step.time_s * at->scale);
    if (wanted > COLUMNS_MAX) {
        return gy_fail(GY_LIMIT, "the drawing would have %.0f columns, at most %d", wanted,
                       COLUMNS_MAX);
    }
    size_t columns = (size_t)wanted, offset = 0;
    size_t panel = (size_t)GY_MAX(width - NAME_COLUMNS, (int)label + 1);
    char *rows = gy_alloc("pipe.rows", GY_MAX(columns * ranks, 1));
    if (rows == NULL) {
        return GY_NOMEM;
    }
    for (size_t rank = 0; rank < ranks; rank++) {
        fill_row(at, (int)rank, offset, rows + rank * columns, columns);
        offset += at->schedule->lists[rank].count;
    }
    for (size_t begin = 0; begin < columns; begin += panel) {
        size_t size = GY_MIN(panel, columns - begin);
        gy_text_add(at->out, "%s", begin > 0 ? "\n" : "");
        for (size_t rank = 0; rank < ranks; rank++) {
            gy_text_add(at->out, "rank %-4zu", rank);
            gy_text_add_bytes(at->out, rows + rank * columns + begin, size);
            gy_text_add(at->out, "\n");
        }
    }
    gy_free(rows);
    return GY_OK;
}

static void draw_box(const drawing *at, int rank, const gy_pipe_action *action,
                     const gy_pipe_span *span)
{
    static const char *const colours[] = {[GY_PIPE_FORWARD] = "#1f6feb",
                                          [GY_PIPE_BACKWARD_INPUT] = "#2a9d8f",
                                          [GY_PIPE_BACKWARD_WEIGHT] = "#e9a03b",
                                          [GY_PIPE_BACKWARD] = "#d1495b"};
    char text[LABEL_BYTES];
    double x = LEFT + span->begin_s * at->scale;
    double width = (span->end_s - span->begin_s) * at->scale;
    int y = TOP + rank * ROW;
    gy_text_add(at->out,
                "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\" "
                "stroke=\"#ffffff\"/>\n<text x=\"%.2f\" y=\"%d\" text-anchor=\"middle\" "
                "fill=\"#ffffff\">%s</text>\n",
                x, y, width, ROW - 4, colours[action->kind], x + width / 2, y + ROW / 2 + 2,
                label_of(at, action, text));
}

static void draw_svg(drawing *at, const char *title)
{
    size_t label = 0, offset = 0;
    double shortest = 0;
    measure(at, &label, &shortest);
    at->scale = shortest > 0 ? 8.0 * (double)(label + 1) / shortest : 0;
    double width = fmax(SVG_WIDTH_MIN, LEFT + at->step.time_s * at->scale + 16);
    gy_text_add(at->out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%d\" "
                "font-family=\"system-ui, sans-serif\" font-size=\"11\" fill=\"#57606a\">\n"
                "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
                "<text x=\"16\" y=\"26\" font-size=\"16\" fill=\"#24292f\">%s</text>\n"
                "<text x=\"16\" y=\"46\">bubble %.1f %%; white: the rank does not "
                "compute</text>\n",
                width, TOP + at->schedule->ranks * ROW + 12, title, 100 * at->step.bubble);
    for (int rank = 0; rank < at->schedule->ranks; rank++) {
        const gy_pipe_list *list = &at->schedule->lists[rank];
        gy_text_add(at->out, "<text x=\"16\" y=\"%d\">rank %d</text>\n",
                    TOP + rank * ROW + ROW / 2 + 2, rank);
        for (size_t i = 0; i < list->count; i++) {
            const gy_pipe_span *span = &at->step.spans[offset + i];
            if (gy_pipe_is_computing(list->actions[i].kind) && span->end_s > span->begin_s) {
                draw_box(at, rank, &list->actions[i], span);
            }
        }
        offset += list->count;
    }
    gy_text_add(at->out, "</svg>\n");
}

gy_status gy_pipe_picture(const gy_pipe_schedule *schedule, const gy_pipe_cost *costs,
                          int cost_count, const char *title, int width, char **text)
{
    gy_text out = {.data = NULL};
    drawing at = {.schedule = schedule, .out = &out};
    size_t length = gy_pipe_length(schedule);
    if (schedule->ranks > RANKS_MAX || length > ACTIONS_MAX) {
        return gy_fail(GY_LIMIT, "%d ranks and %zu actions, at most %d and %d can be drawn",
                       schedule->ranks, length, RANKS_MAX, ACTIONS_MAX);
    }
    at.step.spans = gy_alloc("pipe.spans", GY_MAX(length, 1) * sizeof(*at.step.spans));
    if (at.step.spans == NULL) {
        return GY_NOMEM;
    }
    gy_status status = gy_pipe_simulate(schedule, costs, cost_count, &at.step);
    if (status == GY_OK && width > 0) {
        status = draw_text(&at, width);
    } else if (status == GY_OK) {
        draw_svg(&at, title);
    }
    gy_free(at.step.spans);
    if (status == GY_OK && out.status < 0) {
        status = out.status;
    }
    if (status != GY_OK || out.data == NULL) {
        gy_text_free(&out);
        return status != GY_OK ? status : gy_fail(GY_ARG, "nothing of the list takes time");
    }
    *text = out.data;
    return GY_OK;
}
