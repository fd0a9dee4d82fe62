/* The memory of a call, and the kernels that all others stand on. */
#include "query/expr/expr_priv.h"

#include <string.h>

enum { VECTORS, TEXTS, BLOCK_BYTES = 256 << 10 };

struct gy_expr_block {
    gy_expr_block *next;
    size_t used, capacity;
    _Alignas(64) char data[];
};

size_t gy_expr_texts_max = (size_t)1 << 30;

/* ---- memory ---- */

static gy_expr_block *next_block(gy_expr_work *work, int which, size_t size_bytes)
{
    gy_expr_block *at = work->at[which];
    gy_expr_block *next = at != NULL ? at->next : work->blocks[which];
    if (next == NULL || next->capacity < size_bytes) {
        const size_t capacity = GY_MAX(size_bytes, (size_t)BLOCK_BYTES);
        gy_expr_block *made = gy_alloc("query.expr", sizeof(*made) + capacity);
        if (made == NULL) {
            return NULL;
        }
        *made = (gy_expr_block){.next = next, .capacity = capacity};
        if (at != NULL) {
            at->next = made;
        } else {
            work->blocks[which] = made;
        }
        next = made;
    }
    next->used = 0;
    work->at[which] = next;
    return next;
}

static void *take(gy_expr_work *work, int which, size_t size_bytes)
{
    gy_expr_block *at = work->at[which];
    if (at == NULL || at->capacity - at->used < size_bytes) {
        at = next_block(work, which, size_bytes);
    }
    if (at == NULL) {
        return NULL;
    }
    void *made = at->data + at->used;
    at->used += size_bytes;
    return made;
}

void *gy_expr_memory(gy_expr_work *work, size_t size_bytes)
{
    return take(work, VECTORS, gy_round_up(size_bytes, 64));
}

char *gy_expr_text_memory(gy_expr_work *work, size_t size_bytes)
{
    if (size_bytes > gy_expr_texts_max - work->text_bytes) {
        work->is_full = true;
        return NULL;
    }
    work->text_bytes += size_bytes;
    return take(work, TEXTS, size_bytes);
}

gy_expr_mark gy_expr_mark_of(const gy_expr_work *work)
{
    gy_expr_block *at = work->at[VECTORS];
    return (gy_expr_mark){.block = at, .used = at != NULL ? at->used : 0};
}

void gy_expr_release(gy_expr_work *work, gy_expr_mark mark)
{
    work->at[VECTORS] = mark.block;
    if (mark.block != NULL) {
        mark.block->used = mark.used;
    }
}

void gy_expr_work_begin(gy_expr_work *work, int64_t begin, int rows)
{
    GY_ASSERT(rows >= 0 && rows <= GY_EXPR_ROWS);
    work->begin = begin;
    work->rows = rows;
    work->at[VECTORS] = work->at[TEXTS] = NULL;
    work->text_bytes = 0;
}

void gy_expr_work_fini(gy_expr_work *work)
{
    for (int i = VECTORS; i <= TEXTS; i++) {
        for (gy_expr_block *at = work->blocks[i]; at != NULL;) {
            gy_expr_block *next = at->next;
            gy_free(at);
            at = next;
        }
    }
    gy_expr_patterns_free(work);
}

gy_status gy_expr_work_end(gy_expr_work *work, gy_status status)
{
    const bool is_full = work->is_full;
    const int rows = work->rows;
    gy_expr_work_fini(work);
    return is_full ? gy_fail(GY_LIMIT, "texts of over %zu bytes are made for %d %s",
                             gy_expr_texts_max, rows, rows == 1 ? "row" : "rows")
                   : status;
}

/* ---- classes of values ---- */

int gy_expr_class(const gy_expr_type *type)
{
    return type->is_interval ? GY_EXPR_INTERVAL : (int)type->kind;
}

size_t gy_expr_class_bytes(int value_class)
{
    switch (value_class) {
    case GY_FIELD_BOOL:
        return 0;
    case GY_FIELD_DATE:
        return sizeof(int32_t);
    case GY_FIELD_DECIMAL:
        return sizeof(gy_int128);
    case GY_FIELD_TEXT:
        return sizeof(gy_text_view);
    case GY_EXPR_INTERVAL:
        return sizeof(gy_interval);
    default:
        return 8;
    }
}

void *gy_expr_values(gy_expr_work *work, int value_class)
{
    const size_t size = gy_expr_class_bytes(value_class);
    return gy_expr_memory(work,
                          size == 0 ? GY_EXPR_WORDS * sizeof(uint64_t) : size * GY_EXPR_ROWS);
}

gy_expr_cell gy_expr_cell_at(int value_class, const gy_expr_vector *vector, int row)
{
    const int at = vector->is_constant ? 0 : row;
    gy_expr_cell cell = {.is_null = !gy_expr_bit(vector->valid, at)};
    if (cell.is_null) {
        return cell;
    }
    switch (value_class) {
    case GY_FIELD_BOOL:
        cell.truth = gy_expr_bit(vector->bits, at);
        break;
    case GY_FIELD_DOUBLE:
        cell.real = vector->reals[at];
        break;
    case GY_FIELD_DECIMAL:
        cell.decimal = vector->decimals[at];
        break;
    case GY_FIELD_DATE:
        cell.integer = vector->dates[at];
        break;
    case GY_FIELD_TEXT:
        cell.text = vector->texts[at];
        break;
    case GY_EXPR_INTERVAL:
        cell.interval = vector->intervals[at];
        break;
    default:
        cell.integer = vector->integers[at];
        break;
    }
    return cell;
}

/* Of a bool, the bit is zero before. */
static void store(int value_class, void *values, int row, const gy_expr_cell *cell)
{
    switch (value_class) {
    case GY_FIELD_BOOL:
        ((uint64_t *)values)[row >> 6] |= (uint64_t)cell->truth << (row & 63);
        break;
    case GY_FIELD_DOUBLE:
        ((double *)values)[row] = cell->real;
        break;
    case GY_FIELD_DECIMAL:
        ((gy_int128 *)values)[row] = cell->decimal;
        break;
    case GY_FIELD_DATE:
        ((int32_t *)values)[row] = (int32_t)cell->integer;
        break;
    case GY_FIELD_TEXT:
        ((gy_text_view *)values)[row] = cell->text;
        break;
    case GY_EXPR_INTERVAL:
        ((gy_interval *)values)[row] = cell->interval;
        break;
    default:
        ((int64_t *)values)[row] = cell->integer;
        break;
    }
}

/* ---- masks ---- */

bool gy_expr_is_empty(const gy_expr_work *work, const uint64_t *mask)
{
    uint64_t any = 0;
    for (int w = 0; w < gy_expr_words(work); w++) {
        any |= mask[w];
    }
    return any == 0;
}

gy_status gy_expr_both(gy_expr_work *work, const uint64_t *a, const uint64_t *b,
                       const uint64_t **out)
{
    if (a == NULL || b == NULL || a == b) {
        *out = a == NULL ? b : a;
        return GY_OK;
    }
    uint64_t *both = gy_expr_memory(work, GY_EXPR_WORDS * sizeof(*both));
    if (both == NULL) {
        return GY_NOMEM;
    }
    for (int w = 0; w < gy_expr_words(work); w++) {
        both[w] = a[w] & b[w];
    }
    *out = both;
    return GY_OK;
}

/* ---- evaluation ---- */

gy_status gy_expr_eval(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                       gy_expr_vector *out)
{
    *out = (gy_expr_vector){.valid = NULL};
    return expr->run(work, expr, mask, out);
}

gy_status gy_expr_spread(gy_expr_work *work, int value_class, gy_expr_vector *vector)
{
    if (!vector->is_constant) {
        return GY_OK;
    }
    const gy_expr_cell cell = gy_expr_cell_at(value_class, vector, 0);
    void *values = gy_expr_values(work, value_class);
    if (values == NULL) {
        return GY_NOMEM;
    }
    if (value_class == GY_FIELD_BOOL) {
        memset(values, cell.truth && !cell.is_null ? 0xff : 0,
               GY_EXPR_WORDS * sizeof(uint64_t));
    } else {
        for (int i = 0; i < work->rows; i++) {
            store(value_class, values, i, &cell);
        }
    }
    vector->any = values;
    if (cell.is_null) {
        uint64_t *none = gy_expr_memory(work, GY_EXPR_WORDS * sizeof(*none));
        if (none == NULL) {
            return GY_NOMEM;
        }
        memset(none, 0, GY_EXPR_WORDS * sizeof(*none));
        vector->valid = none;
    }
    vector->is_constant = false;
    return GY_OK;
}

gy_status gy_expr_eval_args(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                            gy_expr_vector *args, gy_expr_vector *out)
{
    for (int i = 0; i < expr->count; i++) {
        GY_TRY(gy_expr_eval(work, expr->args[i], mask, &args[i]));
        GY_TRY(gy_expr_spread(work, gy_expr_class(&expr->args[i]->type), &args[i]));
        GY_TRY(gy_expr_both(work, out->valid, args[i].valid, &out->valid));
    }
    return GY_OK;
}

gy_status gy_expr_run_constant(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                               gy_expr_vector *out)
{
    static const uint64_t none[GY_EXPR_WORDS];
    (void)mask;
    (void)work;
    out->is_constant = true;
    out->valid = expr->cell.is_null ? none : NULL;
    out->any = expr->list;
    return GY_OK;
}

/* Bits of a bitmap from `first` on, as words. */
static gy_status load_bits(gy_expr_work *work, const uint8_t *bits, int64_t first,
                           const uint64_t **out)
{
    uint64_t *words = gy_expr_memory(work, GY_EXPR_WORDS * sizeof(*words));
    if (words == NULL) {
        return GY_NOMEM;
    }
    memset(words, 0, GY_EXPR_WORDS * sizeof(*words));
    const int shift = (int)(first & 7);
    const uint8_t *from = bits + (first >> 3);
    const size_t bytes = ((size_t)(work->rows + shift) + 7) / 8;
    if (work->rows == 0) {
        *out = words;
        return GY_OK;
    }
    for (size_t w = 0; w * 8 < bytes; w++) { /* the word that is behind the last has no room */
        uint64_t word = 0, over = 0;
        memcpy(&word, from + w * 8, GY_MIN(bytes - w * 8, (size_t)8));
        if (shift > 0 && bytes > w * 8 + 8) {
            over = (uint64_t)from[w * 8 + 8] << (64 - shift);
        }
        if (w < GY_EXPR_WORDS) {
            words[w] = word >> shift | over;
        }
    }
    if (work->rows % 64 != 0) {
        words[work->rows / 64] &= ((uint64_t)1 << (work->rows % 64)) - 1;
    }
    *out = words;
    return GY_OK;
}

static gy_status load_texts(gy_expr_work *work, const gy_column *column, gy_expr_vector *out)
{
    gy_text_view *texts = gy_expr_memory(work, GY_EXPR_ROWS * sizeof(*texts));
    if (texts == NULL) {
        return GY_NOMEM;
    }
    const int32_t *at = (const int32_t *)column->values + column->offset + work->begin;
    for (int i = 0; i < work->rows; i++) {
        texts[i] = (gy_text_view){column->text + at[i], (size_t)(at[i + 1] - at[i])};
    }
    out->texts = texts;
    return GY_OK;
}

gy_status gy_expr_run_column(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                             gy_expr_vector *out)
{
    (void)mask;
    GY_ASSERT(work->frame != NULL);
    const gy_column column = gy_frame_column(work->frame, expr->index);
    const int64_t first = column.offset + work->begin;
    GY_ASSERT(column.field->kind == expr->type.kind);
    if (column.valid != NULL) {
        GY_TRY(load_bits(work, column.valid, first, &out->valid));
    }
    if (column.field->kind == GY_FIELD_TEXT) {
        return load_texts(work, &column, out);
    }
    if (column.field->kind == GY_FIELD_BOOL) {
        return load_bits(work, column.values, first, &out->bits);
    }
    const size_t size = gy_frame_kind_bytes(column.field->kind);
    out->any = (const char *)column.values + (size_t)first * size;
    if ((uintptr_t)out->any % size != 0) { /* memory of others */
        void *copy = gy_expr_memory(work, size * GY_EXPR_ROWS);
        if (copy == NULL) {
            return GY_NOMEM;
        }
        memcpy(copy, out->any, size * (size_t)work->rows);
        out->any = copy;
    }
    return GY_OK;
}

/* The arguments of all rows in the mask, evaluated one after the other. */
gy_status gy_expr_run_rows(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                           gy_expr_vector *out)
{
    const int kind = gy_expr_class(&expr->type);
    gy_expr_vector *args = gy_expr_memory(work, (size_t)GY_MAX(expr->count, 1) * sizeof(*args));
    gy_expr_cell *cells = gy_expr_memory(work, (size_t)GY_MAX(expr->count, 1) * sizeof(*cells));
    void *values = gy_expr_values(work, kind);
    uint64_t *valid = gy_expr_memory(work, GY_EXPR_WORDS * sizeof(*valid));
    if (args == NULL || cells == NULL || values == NULL || valid == NULL) {
        return GY_NOMEM;
    }
    const size_t size = gy_expr_class_bytes(kind);
    memset(values, 0, size == 0 ? GY_EXPR_WORDS * sizeof(uint64_t) : size * (size_t)work->rows);
    memset(valid, 0, GY_EXPR_WORDS * sizeof(*valid));
    for (int i = 0; i < expr->count; i++) { /* those that are constant are read once */
        GY_TRY(gy_expr_eval(work, expr->args[i], mask, &args[i]));
        cells[i] = gy_expr_cell_at(gy_expr_class(&expr->args[i]->type), &args[i], 0);
    }
    for (int row = 0; row < work->rows; row++) {
        if (!gy_expr_bit(mask, row)) {
            continue;
        }
        bool has_null = false;
        for (int i = 0; i < expr->count; i++) {
            if (!args[i].is_constant) {
                cells[i] = gy_expr_cell_at(gy_expr_class(&expr->args[i]->type), &args[i], row);
            }
            has_null = has_null || cells[i].is_null;
        }
        if (has_null && !expr->takes_nulls) {
            continue;
        }
        gy_expr_cell made = {.is_null = false};
        GY_TRY(expr->row(work, expr, cells, &made));
        if (!made.is_null) {
            store(kind, values, row, &made);
            valid[row >> 6] |= (uint64_t)1 << (row & 63);
        }
    }
    out->any = values;
    out->valid = valid;
    return GY_OK;
}

gy_status gy_expr_value(const gy_expr *expr, gy_arena *arena, gy_expr_cell *cell)
{
    static const uint64_t one[GY_EXPR_WORDS] = {1};
    gy_expr_work work = {.frame = NULL};
    gy_expr_vector made;
    gy_expr_work_begin(&work, 0, 1);
    gy_status status = gy_expr_eval(&work, expr, one, &made);
    if (status == GY_OK) {
        *cell = gy_expr_cell_at(gy_expr_class(&expr->type), &made, 0);
        if (!cell->is_null && gy_expr_class(&expr->type) == GY_FIELD_TEXT) {
            char *copy = gy_arena_alloc(arena, cell->text.size_bytes + 1);
            status = copy != NULL ? GY_OK : GY_NOMEM;
            if (copy != NULL && cell->text.size_bytes > 0) {
                memcpy(copy, cell->text.data, cell->text.size_bytes);
            }
            cell->text.data = copy;
        }
    }
    return gy_expr_work_end(&work, status);
}
