/* Draws plans as SVG: a line for each rank, time downwards, an arrow for each message,
 * coloured by its part. */
#include "plan/picture_priv.h"

#include "base/base.h"

enum {
    LEFT = 64,
    TOP = 84,
    COLUMN = 72,
    ROW = 56,
    MARGIN = 40,
    RANKS_MOST = 64,
    MARKS_MOST = 8192,
    COLOURS = 6,
};

static const char *const colours[COLOURS] = {"#1f6feb", "#d1495b", "#2a9d8f",
                                             "#e9a03b", "#7a5195", "#5f6b7a"};

static int x_of(int rank)
{
    return LEFT + MARGIN + rank * COLUMN;
}

static int y_of(int row)
{
    return TOP + row * ROW;
}

static void add_head(gy_text *svg, const gy_plan *plan, const gy_picture *picture)
{
    int width = x_of(plan->request.ranks - 1) + MARGIN, height = y_of(picture->rows) + 24;
    width = GY_MAX(width, 420);
    gy_text_add(svg,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
                "height=\"%d\" font-family=\"system-ui, sans-serif\" font-size=\"12\" "
                "fill=\"#57606a\">\n<style>.grid{stroke:#d8dee4;stroke-width:1}"
                ".axis{stroke:#57606a;stroke-width:1}.line{fill:none;stroke-width:1.8}"
                ".name{text-anchor:middle}</style>\n<defs>\n",
                width, height, width, height);
    for (int i = 0; i < COLOURS; i++) {
        gy_text_add(svg,
                    "<marker id=\"a%d\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" "
                    "markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path fill=\"%s\" "
                    "d=\"M0 0 L8 4 L0 8 z\"/></marker>\n",
                    i, colours[i]);
    }
    gy_text_add(svg, "</defs>\n<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", width,
                height);
    gy_text_add(svg,
                "<text x=\"16\" y=\"28\" font-size=\"16\" font-weight=\"600\" "
                "fill=\"#24292f\">%s by %s%s%s, %d ranks</text>\n",
                gy_operation_name(plan->request.operation), plan->algorithm->name,
                plan->request.parameter[0] == '\0' ? "" : ":", plan->request.parameter,
                plan->request.ranks);
    gy_text_add(svg,
                "<text x=\"16\" y=\"48\">%d rounds; a figure is the block, a dot: "
                "combined with what is there</text>\n",
                picture->rows - 1);
    for (int row = 1; row < picture->rows; row++) {
        gy_text_add(svg,
                    "<line class=\"grid\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n"
                    "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">round %d</text>\n",
                    LEFT, y_of(row), width - 16, y_of(row), LEFT, y_of(row) + ROW / 2, row);
    }
    for (int rank = 0; rank < plan->request.ranks; rank++) {
        gy_text_add(svg,
                    "<line class=\"axis\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n"
                    "<text class=\"name\" x=\"%d\" y=\"%d\">%d</text>\n",
                    x_of(rank), TOP, x_of(rank), y_of(picture->rows), x_of(rank), TOP - 8,
                    rank);
    }
}

static void add_arrow(gy_text *svg, const gy_plan *plan, const gy_picture *picture,
                      const gy_mark *mark)
{
    char blocks[32];
    int chunks = gy_cut_chunks(plan->algorithm->cut, &plan->request);
    int colour = mark->first < 0 ? 0 : mark->first / chunks % COLOURS;
    /* The data of a read come from the peer. */
    bool is_read = mark->kind == GY_MARK_READ;
    int from = is_read ? mark->peer : mark->rank, to = is_read ? mark->rank : mark->peer;
    int end_row = mark->kind == GY_MARK_MESSAGE ? mark->end_row : mark->row;
    int x1 = x_of(from), y1 = y_of(mark->row) + 8, x2 = x_of(to), y2 = y_of(end_row) + ROW - 8;
    gy_text_add(svg,
                "<path class=\"line\" stroke=\"%s\" marker-end=\"url(#a%d)\" "
                "d=\"M%d %d L%d %d\"/>\n",
                colours[colour], colour, x1, y1, x2, y2);
    if (mark->is_reduced) {
        gy_text_add(svg, "<circle cx=\"%d\" cy=\"%d\" r=\"3.5\" fill=\"%s\"/>\n", x2, y2,
                    colours[colour]);
    }
    gy_text_add(svg, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", x1 + 5,
                y1 + 4 + (x2 < x1 ? ROW / 4 : 0), colours[colour],
                gy_picture_blocks(picture, mark, blocks));
}

static void add_mark(gy_text *svg, const gy_plan *plan, const gy_picture *picture,
                     const gy_mark *mark)
{
    switch (mark->kind) {
    case GY_MARK_MESSAGE:
    case GY_MARK_READ:
    case GY_MARK_WRITE:
        for (int rank = 0; rank < plan->request.ranks; rank++) {
            if (mark->peer == rank || (mark->peer == GY_EVERY && rank != mark->rank)) {
                gy_mark one = *mark;
                one.peer = rank;
                add_arrow(svg, plan, picture, &one);
            }
        }
        break;
    case GY_MARK_POST:
        gy_text_add(svg, "<circle cx=\"%d\" cy=\"%d\" r=\"3.5\" fill=\"#24292f\"/>\n",
                    x_of(mark->rank), y_of(mark->row) + ROW - 4);
        break;
    case GY_MARK_LOCAL:
    case GY_MARK_WAIT:
    default:
        break; /* nothing moves between ranks */
    }
}

gy_status gy_picture_svg(gy_plan *plan, gy_text *svg)
{
    gy_picture picture = {.marks = NULL};
    if (plan->request.ranks > RANKS_MOST) {
        return gy_fail(GY_LIMIT, "%d ranks: at most %d can be drawn", plan->request.ranks,
                       RANKS_MOST);
    }
    gy_status status = gy_picture_take(plan, MARKS_MOST, &picture);
    if (status == GY_OK) {
        add_head(svg, plan, &picture);
        for (size_t i = 0; i < picture.count; i++) {
            add_mark(svg, plan, &picture, &picture.marks[i]);
        }
        gy_text_add(svg, "</svg>\n");
    }
    gy_free(picture.marks);
    return status;
}
