/*
 * Lists in PyTorch's notation: a line a rank, cells with commas between them. A cell is stage,
 * action and micro-batch: `3F12`; empty cells are bubbles. What a list leaves out, transfers
 * and updates, is added.
 */
#include "plan/pipe/pipe_priv.h"

#include "base/base.h"

#include <ctype.h>
#include <string.h>

enum { NUMBER_MAX = 1 << 20, CELLS_MAX = 1 << 22, CELL_SHOWN = 40 };

typedef struct word {
    const char *text;
    int kind; /* gy_pipe_kind; -1: has no effect here */
} word;

/* In an order in which no word begins a later one that it would hide. */
static const word words[] = {
    {"WAIT_REDUCE_GRAD", -1},
    {"WAIT_SEND_F", -1},
    {"WAIT_SEND_B", -1},
    {"UNSHARD", -1},
    {"RESHARD", -1},
    {"REDUCE_GRAD", GY_PIPE_UPDATE},
    {"SEND_F", GY_PIPE_SEND_F},
    {"RECV_F", GY_PIPE_RECV_F},
    {"SEND_B", GY_PIPE_SEND_B},
    {"RECV_B", GY_PIPE_RECV_B},
    {"F", GY_PIPE_FORWARD},
    {"I", GY_PIPE_BACKWARD_INPUT},
    {"W", GY_PIPE_BACKWARD_WEIGHT},
    {"B", GY_PIPE_BACKWARD},
};

/* An action as it was read. */
typedef struct cell {
    int32_t rank, kind, stage, micro;
} cell;

typedef struct reader {
    const char *at, *end; /* what is left of the text */
    const char *path;
    int line, ranks, stages, micros;
    bool has_transfers, has_updates;
    cell *cells;
    size_t count, capacity;
} reader;

gy_status gy_pipe_print(const gy_pipe_schedule *schedule, gy_pipe_form form, char **text)
{
    gy_text out = {.data = NULL};
    for (int rank = 0; rank < schedule->ranks; rank++) {
        const gy_pipe_list *list = &schedule->lists[rank];
        bool is_first = true;
        for (size_t i = 0; i < list->count; i++) {
            if (form == GY_PIPE_COMPUTING && !gy_pipe_is_computing(list->actions[i].kind)) {
                continue;
            }
            gy_text_add(&out, "%s", is_first ? "" : ",");
            gy_pipe_print_action(&out, &list->actions[i]);
            is_first = false;
        }
        gy_text_add(&out, "\n");
    }
    if (out.status < 0) {
        gy_text_free(&out);
        return GY_NOMEM;
    }
    *text = out.data;
    return GY_OK;
}

/* "FILE:3: '1Q2': cause", of what the line's rest begins with. */
static gy_status refuse(const reader *from, const char *begin, const char *cause)
{
    char shown[CELL_SHOWN + 8];
    size_t size = 0;
    while (begin + size < from->end && size < CELL_SHOWN && begin[size] != ',' &&
           begin[size] != ';' && begin[size] != '\n') {
        size++;
    }
    gy_printable(shown, sizeof(shown), begin, size, "");
    return gy_fail(GY_FORMAT, "%s:%d: '%s': %s", from->path, from->line, shown, cause);
}

static bool is_at(const reader *from, char c)
{
    return from->at < from->end && *from->at == c;
}

static void skip_space(reader *from)
{
    while (is_at(from, ' ') || is_at(from, '\t') || is_at(from, '\r')) {
        from->at++;
    }
}

/* -1: there is none, or it is too large. */
static int32_t read_number(reader *from)
{
    int32_t value = -1;
    while (from->at < from->end && isdigit((unsigned char)*from->at) && value < NUMBER_MAX) {
        value = (value < 0 ? 0 : value) * 10 + (*from->at++ - '0');
    }
    return value < NUMBER_MAX ? value : -1;
}

static const word *read_word(reader *from)
{
    size_t left = (size_t)(from->end - from->at);
    for (size_t i = 0; i < GY_COUNT(words); i++) {
        size_t size = strlen(words[i].text);
        if (size <= left && memcmp(words[i].text, from->at, size) == 0) {
            from->at += size;
            return &words[i];
        }
    }
    return NULL;
}

static gy_status read_action(reader *from)
{
    const char *begin = from->at;
    int32_t stage = read_number(from);
    if (stage < 0) {
        return refuse(from, begin, "expected a stage below 1048576");
    }
    const word *action = read_word(from);
    if (action == NULL) {
        return refuse(from, begin,
                      "expected F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B or REDUCE_GRAD "
                      "behind the stage");
    }
    bool has_micro = from->at < from->end && isdigit((unsigned char)*from->at);
    int32_t micro = has_micro ? read_number(from) : -1;
    if (action->kind < 0) {
        return GY_OK;
    }
    if ((micro < 0) != (action->kind == GY_PIPE_UPDATE)) {
        return refuse(from, begin,
                      has_micro ? "expected no micro-batch, or one below 1048576"
                                : "expected a micro-batch behind the action");
    }
    if (from->count == CELLS_MAX) {
        return refuse(from, begin, "there are more than 4194304 actions");
    }
    GY_TRY(GY_GROW("pipe.cells", from->cells, from->capacity, from->count + 1));
    from->cells[from->count++] = (cell){from->ranks, action->kind, stage, micro};
    from->has_transfers = from->has_transfers || gy_pipe_is_transfer(action->kind);
    from->has_updates = from->has_updates || action->kind == GY_PIPE_UPDATE;
    from->stages = GY_MAX(from->stages, stage + 1);
    from->micros = GY_MAX(from->micros, micro + 1);
    return GY_OK;
}

/* "(0F1;7B0)OVERLAP_F_B" */
static gy_status read_overlap(reader *from)
{
    static const char name[] = ")OVERLAP_F_B";
    const char *begin = from->at++;
    for (;;) {
        GY_TRY(read_action(from));
        if (!is_at(from, ';')) {
            break;
        }
        from->at++;
    }
    size_t size = sizeof(name) - 1;
    if ((size_t)(from->end - from->at) < size || memcmp(from->at, name, size) != 0) {
        return refuse(from, begin, "expected (ACTION;ACTION)OVERLAP_F_B");
    }
    from->at += size;
    return GY_OK;
}

static gy_status read_line(reader *from)
{
    for (;;) {
        skip_space(from);
        const char *begin = from->at;
        if (is_at(from, '(')) {
            GY_TRY(read_overlap(from));
        } else if (from->at < from->end && !is_at(from, ',') && !is_at(from, '\n')) {
            GY_TRY(read_action(from));
        }
        skip_space(from);
        if (from->at == from->end || is_at(from, '\n')) {
            return GY_OK;
        }
        if (!is_at(from, ',')) {
            return refuse(from, begin, "expected a comma behind the action");
        }
        from->at++;
    }
}

static gy_status read_all(reader *from)
{
    while (from->at < from->end) {
        from->line++;
        if (is_at(from, '#')) {
            while (from->at < from->end && !is_at(from, '\n')) {
                from->at++;
            }
        } else if (from->ranks == GY_PIPE_RANKS_MAX) {
            return refuse(from, from->at, "there are more than 1024 ranks");
        } else {
            GY_TRY(read_line(from));
            from->ranks++;
        }
        from->at += is_at(from, '\n') ? 1 : 0;
    }
    if (from->stages == 0 || from->micros == 0) {
        return gy_fail(GY_FORMAT, "%s: no action: expected a line a rank, such as 0F0,0B0",
                       from->path);
    }
    if ((int64_t)from->stages * from->micros > GY_PIPE_PAIRS_MAX) {
        return gy_fail(GY_FORMAT,
                       "%s: %d stages and %d micro-batches: expected a product up to %d",
                       from->path, from->stages, from->micros, GY_PIPE_PAIRS_MAX);
    }
    return GY_OK;
}

/* The lists of what was read; a stage is where it goes forward first. */
static gy_status build(const reader *from, gy_pipe_schedule *made)
{
    for (size_t i = from->count; i-- > 0;) {
        const cell *one = &from->cells[i];
        if (one->kind == GY_PIPE_FORWARD) {
            made->rank_of[one->stage] = one->rank;
        }
    }
    for (size_t i = 0; i < from->count; i++) {
        const cell *one = &from->cells[i];
        GY_TRY(gy_pipe_add(made, one->rank, (gy_pipe_kind)one->kind, one->stage, one->micro));
    }
    GY_TRY(from->has_transfers ? GY_OK : gy_pipe_add_transfers(made));
    return from->has_updates ? GY_OK : gy_pipe_add_updates(made);
}

gy_status gy_pipe_parse(const char *text, size_t size_bytes, const char *path,
                        gy_pipe_schedule **schedule)
{
    reader from = {.at = text, .end = text + size_bytes, .path = path};
    gy_pipe_schedule *made = NULL;
    gy_status status = read_all(&from);
    if (status == GY_OK) {
        status = gy_pipe_new(from.ranks, from.stages, from.micros, &made);
    }
    if (status == GY_OK) {
        status = build(&from, made);
    }
    gy_free(from.cells);
    if (status != GY_OK) {
        gy_pipe_free(made);
        return status;
    }
    *schedule = made;
    return GY_OK;
}
