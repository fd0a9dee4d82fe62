/* Draws plans as text: rounds are rows, ranks are columns; several panels where the ranks do
 * not fit side by side. */
#include "plan/picture_priv.h"

#include "base/base.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARKS_MOST = 1 << 20, LABEL_WIDTH = 5, GAP = 2, CELL_BYTES = 48 };

typedef struct mark_taker {
    gy_visitor visitor;
    gy_picture *picture;
    gy_depth *depths; /* (ranks) */
    gy_posts *posts;  /* (ranks) */
    int ranks;
    size_t most;
} mark_taker;

static gy_status add_mark(mark_taker *taker, const gy_mark *mark)
{
    gy_picture *picture = taker->picture;
    if (picture->count == taker->most) {
        return gy_fail(GY_LIMIT, "the plan has more than %zu steps: too many to draw",
                       taker->most);
    }
    GY_TRY(GY_GROW("plan.marks", picture->marks, picture->capacity, picture->count + 1));
    picture->marks[picture->count++] = *mark;
    picture->rows = GY_MAX(picture->rows, GY_MAX(mark->row, mark->end_row) + 1);
    return GY_OK;
}

static gy_status add_message(mark_taker *taker, int rank, const gy_step *step,
                             const gy_plan_message *came)
{
    gy_depth_recv(&taker->depths[rank], came);
    return add_mark(taker, &(gy_mark){.kind = GY_MARK_MESSAGE,
                                      .is_reduced = step->kind == GY_STEP_RECV_REDUCE,
                                      .rank = step->peer,
                                      .peer = rank,
                                      .row = came->round,
                                      .end_row = taker->depths[rank].in,
                                      .first = step->to.first,
                                      .run = step->to.run});
}

static gy_status add_local(mark_taker *taker, int rank, const gy_step *step)
{
    bool is_reduced = step->kind == GY_STEP_REDUCE;
    gy_mark mark = {.kind = GY_MARK_LOCAL,
                    .is_reduced = is_reduced,
                    .rank = rank,
                    .row = taker->depths[rank].round,
                    .first = step->to.first,
                    .run = step->to.run};
    const gy_blocks *const read[] = {&step->a, &step->b};
    bool is_remote = false;
    for (int i = 0; i < (is_reduced ? 2 : 1); i++) {
        if (read[i]->buffer != GY_BUFFER_WIRE && read[i]->rank != rank) {
            mark.kind = GY_MARK_READ;
            mark.peer = read[i]->rank;
            is_remote = true;
            GY_TRY(add_mark(taker, &mark));
        }
    }
    if (step->to.rank != rank) {
        mark.kind = GY_MARK_WRITE;
        mark.is_reduced = false;
        mark.peer = step->to.rank;
        is_remote = true;
        GY_TRY(add_mark(taker, &mark));
    }
    return is_remote ? GY_OK : add_mark(taker, &mark);
}

static void note_wait(mark_taker *taker, int rank, const gy_step *step)
{
    for (int peer = 0; peer < taker->ranks; peer++) {
        const struct gy_post *post = gy_posts_find(&taker->posts[peer], step->mark);
        if (post != NULL && peer != rank && (step->peer == GY_EVERY || step->peer == peer)) {
            gy_depth_wait(&taker->depths[rank], &post->depth);
        }
    }
}

static gy_status take(gy_visitor *visitor, int rank, const gy_step *step,
                      gy_plan_message *message)
{
    mark_taker *taker = (mark_taker *)visitor; /* its first member */
    gy_depth *here = &taker->depths[rank];
    gy_mark mark = {.rank = rank, .peer = step->peer, .first = (int32_t)step->mark, .run = 1};
    switch (step->kind) {
    case GY_STEP_SEND:
        gy_depth_send(here, message);
        return GY_OK;
    case GY_STEP_RECV:
    case GY_STEP_RECV_REDUCE:
        return add_message(taker, rank, step, message);
    case GY_STEP_COPY:
    case GY_STEP_REDUCE:
        return add_local(taker, rank, step);
    case GY_STEP_POST:
        GY_TRY(gy_posts_add(&taker->posts[rank], step->mark, 0, here));
        mark.kind = GY_MARK_POST;
        mark.row = here->round;
        return add_mark(taker, &mark);
    case GY_STEP_WAIT:
        note_wait(taker, rank, step);
        mark.kind = GY_MARK_WAIT;
        mark.row = here->round;
        return add_mark(taker, &mark);
    case GY_STEP_CLAIM:
    case GY_STEP_CLAIMED:
    case GY_STEP_COUNT:
    default:
        return GY_OK;
    }
}

gy_status gy_picture_take(gy_plan *plan, size_t most, gy_picture *picture)
{
    gy_cut cut = plan->algorithm->cut;
    size_t ranks = (size_t)plan->request.ranks;
    mark_taker taker = {.visitor = {.visit = take},
                        .picture = picture,
                        .depths = gy_alloc_zero("plan.depths", ranks, sizeof(gy_depth)),
                        .posts = gy_alloc_zero("plan.posts", ranks, sizeof(gy_posts)),
                        .ranks = plan->request.ranks,
                        .most = most};
    *picture = (gy_picture){.blocks = gy_cut_parts(cut, &plan->request) *
                                      gy_cut_chunks(cut, &plan->request)};
    gy_status status = taker.depths == NULL || taker.posts == NULL
                           ? GY_NOMEM
                           : gy_plan_walk(plan, &taker.visitor);
    for (size_t rank = 0; taker.posts != NULL && rank < ranks; rank++) {
        gy_free(taker.posts[rank].items);
    }
    gy_free(taker.posts);
    gy_free(taker.depths);
    return status;
}

const char *gy_picture_blocks(const gy_picture *picture, const gy_mark *mark, char out[32])
{
    if (mark->run <= 0) {
        out[0] = '\0';
    } else if (mark->first == GY_WHOLE) {
        snprintf(out, 32, "slots");
    } else if (mark->run == picture->blocks && picture->blocks > 1) {
        snprintf(out, 32, "all");
    } else if (mark->run == 1) {
        snprintf(out, 32, "%d", mark->first);
    } else {
        snprintf(out, 32, "%d-%d", mark->first, mark->first + mark->run - 1);
    }
    return out;
}

/* ---- Text ---- */

/* An entry of one row and rank: an end of a mark. */
typedef struct cell {
    int32_t row, rank;
    uint32_t mark; /* also the order within the cell */
    bool is_end;
} cell;

static int by_place(const void *a, const void *b)
{
    const cell *one = a, *other = b;
    if (one->row != other->row) {
        return one->row < other->row ? -1 : 1;
    }
    if (one->rank != other->rank) {
        return one->rank < other->rank ? -1 : 1;
    }
    /* In a round, a rank's sends come above its receives. */
    if (one->is_end != other->is_end) {
        return one->is_end ? 1 : -1;
    }
    return (one->mark > other->mark) - (one->mark < other->mark);
}

static int print_cell(const gy_picture *picture, const cell *at, char out[CELL_BYTES])
{
    const gy_mark *mark = &picture->marks[at->mark];
    char blocks[32], peer[16];
    int other = at->is_end ? mark->rank : mark->peer;
    gy_picture_blocks(picture, mark, blocks);
    snprintf(peer, sizeof(peer), other == GY_EVERY ? "*" : "%d", other);
    const char *colon = blocks[0] == '\0' ? "" : ":";
    switch (mark->kind) {
    case GY_MARK_MESSAGE:
        return (int)gy_print(out, CELL_BYTES, "%s%s%s%s",
                             !at->is_end ? ">" : (mark->is_reduced ? "+" : "<"), peer, colon,
                             blocks);
    case GY_MARK_READ:
        return (int)gy_print(out, CELL_BYTES, "%s%s%s%s", mark->is_reduced ? "+" : "<", peer,
                             colon, blocks);
    case GY_MARK_WRITE:
        return (int)gy_print(out, CELL_BYTES, ">%s%s%s", peer, colon, blocks);
    case GY_MARK_POST:
        return (int)gy_print(out, CELL_BYTES, "!%d", mark->first);
    case GY_MARK_WAIT:
        return (int)gy_print(out, CELL_BYTES, "?%s:%d", peer, mark->first);
    case GY_MARK_LOCAL:
    default:
        return (int)gy_print(out, CELL_BYTES, "%s%s", mark->is_reduced ? "+=" : "=", blocks);
    }
}

typedef struct text_page {
    const gy_picture *picture;
    const cell *cells; /* (cell_count) by row, then rank */
    size_t cell_count;
    int column; /* characters of a column */
    gy_text *out;
} text_page;

static void pad(gy_text *out, int spaces)
{
    gy_text_add(out, "%*s", GY_MAX(spaces, 0), "");
}

/* Add one row for the ranks [first, end); `at` is its first cell. It has as many lines as its
 * fullest cell. */
static void add_row(const text_page *page, size_t at, int row, int first, int end)
{
    bool has_more = true;
    for (size_t line = 0; has_more; line++) {
        gy_text one = {.data = NULL};
        int blank = 0;
        size_t next = at;
        has_more = false;
        for (int rank = first; rank < end; rank++) {
            char text[CELL_BYTES] = "";
            int size = 0;
            while (next < page->cell_count && page->cells[next].row == row &&
                   page->cells[next].rank < rank) {
                next++;
            }
            const cell *here = &page->cells[next];
            if (next + line < page->cell_count && here[line].row == row &&
                here[line].rank == rank) {
                size = print_cell(page->picture, &here[line], text);
                pad(&one, blank);
                gy_text_add(&one, "%s", text);
                blank = page->column - size;
                has_more = true;
            } else {
                blank += page->column;
            }
        }
        if (has_more) {
            char label[16];
            snprintf(label, sizeof(label), row == 0 ? "-" : "%d", row);
            gy_text_add(page->out, "%*s  %s\n", LABEL_WIDTH, line == 0 ? label : "",
                        gy_text_get(&one));
        }
        gy_text_free(&one);
    }
}

static void add_panel(const text_page *page, int first, int end)
{
    gy_text_add(page->out, "\nround  ");
    for (int rank = first; rank < end; rank++) {
        char name[24];
        int size = (int)gy_print(name, sizeof(name), "rank %d", rank);
        if (size + GAP > page->column) {
            size = (int)gy_print(name, sizeof(name), "%d", rank);
        }
        gy_text_add(page->out, "%s", name);
        pad(page->out, rank + 1 < end ? page->column - size : 0);
    }
    gy_text_add(page->out, "\n");
    for (size_t at = 0; at < page->cell_count;) {
        int row = page->cells[at].row;
        add_row(page, at, row, first, end);
        while (at < page->cell_count && page->cells[at].row == row) {
            at++;
        }
    }
}

static void add_legend(const gy_plan *plan, const gy_picture *picture, gy_text *out)
{
    gy_text_add(out, "%s by %s%s%s: %d ranks, %d rounds, %d block%s\n",
                gy_operation_name(plan->request.operation), plan->algorithm->name,
                plan->request.parameter[0] == '\0' ? "" : ":", plan->request.parameter,
                plan->request.ranks, picture->rows - 1, picture->blocks,
                picture->blocks == 1 ? "" : "s");
    gy_text_add(out, ">R:B send block B to rank R  <R:B take it from R  "
                     "+R:B take and combine\n=B copy  +=B combine  !M post mark M  "
                     "?R:M wait for mark M of R  * all ranks\n");
}

static gy_status make_cells(const gy_picture *picture, cell **cells, size_t *count, int *widest)
{
    *cells = gy_alloc("plan.cells", (2 * picture->count + 1) * sizeof(**cells));
    if (*cells == NULL) {
        return GY_NOMEM;
    }
    *count = 0;
    *widest = 0;
    for (size_t i = 0; i < picture->count; i++) {
        const gy_mark *mark = &picture->marks[i];
        int ends = mark->kind == GY_MARK_MESSAGE ? 2 : 1;
        for (int end = 0; end < ends; end++) {
            cell *one = &(*cells)[(*count)++];
            *one = (cell){.row = end == 0 ? mark->row : mark->end_row,
                          .rank = end == 0 ? mark->rank : mark->peer,
                          .mark = (uint32_t)i,
                          .is_end = end == 1};
            char text[CELL_BYTES];
            *widest = GY_MAX(*widest, print_cell(picture, one, text));
        }
    }
    qsort(*cells, *count, sizeof(**cells), by_place);
    return GY_OK;
}

gy_status gy_picture_text(gy_plan *plan, int width, gy_text *out)
{
    gy_picture picture = {.marks = NULL};
    cell *cells = NULL;
    size_t count = 0;
    int widest = 0, ranks = plan->request.ranks;
    gy_status status = gy_picture_take(plan, MARKS_MOST, &picture);
    if (status == GY_OK) {
        status = make_cells(&picture, &cells, &count, &widest);
    }
    if (status == GY_OK) {
        text_page page = {.picture = &picture,
                          .cells = cells,
                          .cell_count = count,
                          .column = GY_MAX(widest, 6) + GAP,
                          .out = out};
        int columns = GY_MAX((width - LABEL_WIDTH - GAP + GAP) / page.column, 1);
        add_legend(plan, &picture, out);
        for (int first = 0; first < ranks; first += columns) {
            add_panel(&page, first, GY_MIN(first + columns, ranks));
        }
    }
    gy_free(cells);
    gy_free(picture.marks);
    return status;
}
