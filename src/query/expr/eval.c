/* Expressions over whole frames: project, test, filter. */
#include "query/expr/expr_priv.h"

#include <string.h>

static void mask_all(uint64_t mask[GY_EXPR_WORDS], int rows)
{
    for (int w = 0; w < GY_EXPR_WORDS; w++) {
        const int left = rows - w * 64;
        mask[w] = left >= 64 ? UINT64_MAX : left > 0 ? ((uint64_t)1 << left) - 1 : 0;
    }
}

/* ---- project ---- */

static gy_status append_texts(const gy_expr_work *work, const gy_expr_vector *made,
                              gy_frame_maker *to)
{
    size_t size = 0;
    for (int i = 0; i < work->rows; i++) {
        size += gy_expr_bit(made->valid, i) ? made->texts[i].size_bytes : 0;
    }
    GY_TRY(gy_frame_maker_reserve_text(to, size));
    int32_t *ends = (int32_t *)to->values + to->rows + 1;
    for (int i = 0; i < work->rows; i++) {
        const gy_text_view text = made->texts[i];
        if (gy_expr_bit(made->valid, i) && text.size_bytes > 0) {
            memcpy(to->text + to->text_bytes, text.data, text.size_bytes);
            to->text_bytes += text.size_bytes;
        }
        ends[i] = (int32_t)to->text_bytes;
    }
    return GY_OK;
}

/* Values of nulls are zero: the same answer is the same bytes. */
static void clear_nulls(char *values, size_t size, const uint64_t *valid, int rows)
{
    for (int i = 0; i < rows; i++) {
        if (!gy_expr_bit(valid, i)) {
            memset(values + (size_t)i * size, 0, size);
        }
    }
}

static gy_status append(const gy_expr_work *work, const gy_expr_vector *made,
                        gy_frame_maker *to)
{
    uint64_t rows[GY_EXPR_WORDS], bits[GY_EXPR_WORDS];
    const size_t row_bytes = (size_t)gy_expr_words(work) * 8;
    int valid = 0;
    GY_ASSERT(to->rows % GY_EXPR_ROWS_FEW == 0);
    GY_TRY(gy_frame_maker_reserve(to, work->rows));
    mask_all(rows, work->rows);
    for (int w = 0; w < gy_expr_words(work); w++) {
        rows[w] &= made->valid != NULL ? made->valid[w] : UINT64_MAX;
        bits[w] = rows[w] & (to->field.kind == GY_FIELD_BOOL ? made->bits[w] : 0);
        valid += __builtin_popcountll(rows[w]);
    }
    memcpy(to->valid + to->rows / 8, rows, row_bytes);
    if (to->field.kind == GY_FIELD_TEXT) {
        GY_TRY(append_texts(work, made, to));
    } else if (to->field.kind == GY_FIELD_BOOL) {
        memcpy((uint8_t *)to->values + to->rows / 8, bits, row_bytes);
    } else {
        const size_t size = gy_frame_kind_bytes(to->field.kind);
        char *values = (char *)to->values + (size_t)to->rows * size;
        memcpy(values, made->any, size * (size_t)work->rows);
        if (valid < work->rows) {
            clear_nulls(values, size, rows, work->rows);
        }
    }
    to->rows += work->rows;
    to->nulls += work->rows - valid;
    return GY_OK;
}

static gy_status project_chunk(gy_expr_work *work, const gy_expr *const *exprs, int count,
                               gy_frame_maker *makers)
{
    uint64_t all[GY_EXPR_WORDS];
    int next = 0;
    mask_all(all, work->rows);
    for (int i = 0; i < count; i++) {
        if (gy_expr_is_column(exprs[i], NULL)) {
            continue;
        }
        const gy_expr_mark mark = gy_expr_mark_of(work);
        gy_expr_vector made;
        GY_TRY(gy_expr_eval(work, exprs[i], all, &made));
        GY_TRY(gy_expr_spread(work, gy_expr_class(&exprs[i]->type), &made));
        GY_TRY(append(work, &made, &makers[next++]));
        gy_expr_release(work, mark);
    }
    return GY_OK;
}

static gy_status project_by(int step, const gy_expr *const *exprs, int count,
                            gy_expr_work *work, gy_frame_maker *makers)
{
    const int64_t rows = gy_frame_rows(work->frame);
    gy_status status = GY_OK;
    work->is_full = false;
    for (int64_t row = 0; row < rows && status == GY_OK; row += step) {
        gy_expr_work_begin(work, row, (int)GY_MIN(rows - row, (int64_t)step));
        status = project_chunk(work, exprs, count, makers);
    }
    return status;
}

/* Evaluation has no effects: what needs too much memory is begun once more, by fewer rows. */
static gy_status project_chunks(const gy_expr *const *exprs, int count, const gy_frame *frame,
                                gy_frame_maker *makers)
{
    gy_expr_work work = {.frame = frame};
    gy_status status = project_by(GY_EXPR_ROWS, exprs, count, &work, makers);
    if (work.is_full) {
        for (int i = 0; i < count; i++) {
            gy_frame_maker_fini(&makers[i]);
        }
        status = project_by(GY_EXPR_ROWS_FEW, exprs, count, &work, makers);
    }
    return gy_expr_work_end(&work, status);
}

/* The frame of what is no plain column; its columns are those fields in turn. */
static gy_status project_made(const gy_expr *const *exprs, int count, gy_schema *schema,
                              const gy_frame *frame, gy_frame **out)
{
    gy_frame_maker *makers =
        gy_alloc_zero("query.expr", (size_t)GY_MAX(count, 1), sizeof(*makers));
    gy_field *fields = gy_alloc("query.expr", (size_t)GY_MAX(count, 1) * sizeof(*fields));
    gy_schema *made = NULL;
    int made_count = 0;
    gy_status status = makers != NULL && fields != NULL ? GY_OK : GY_NOMEM;
    for (int i = 0; i < count && status == GY_OK; i++) {
        if (!gy_expr_is_column(exprs[i], NULL)) {
            fields[made_count] = makers[made_count].field = *gy_schema_field(schema, i);
            GY_ASSERT(!exprs[i]->type.is_interval);
            GY_ASSERT(fields[made_count].kind == exprs[i]->type.kind &&
                      fields[made_count].scale == exprs[i]->type.scale);
            made_count++;
        }
    }
    if (status == GY_OK) {
        status = gy_schema_new(fields, made_count, &made);
    }
    if (status == GY_OK) {
        status = made_count > 0 ? project_chunks(exprs, count, frame, makers) : GY_OK;
    }
    if (status == GY_OK) {
        status = gy_frame_make(made, makers, gy_frame_rows(frame), out);
    }
    for (int i = 0; i < count && makers != NULL; i++) {
        gy_frame_maker_fini(&makers[i]);
    }
    gy_schema_drop(made);
    gy_free(fields);
    gy_free(makers);
    return status;
}

gy_status gy_expr_project(const gy_expr *const *exprs, int count, gy_schema *schema,
                          const gy_frame *frame, gy_frame **out)
{
    GY_ASSERT(gy_schema_count(schema) == count);
    gy_frame *made = NULL;
    GY_TRY(project_made(exprs, count, schema, frame, &made));
    const gy_frame **frames =
        gy_alloc("query.expr", (size_t)GY_MAX(count, 1) * sizeof(*frames));
    int *columns = gy_alloc("query.expr", (size_t)GY_MAX(count, 1) * sizeof(*columns));
    gy_status status = frames != NULL && columns != NULL ? GY_OK : GY_NOMEM;
    int next = 0;
    for (int i = 0; i < count && status == GY_OK; i++) {
        const bool is_shared = gy_expr_is_column(exprs[i], &columns[i]);
        frames[i] = is_shared ? frame : made;
        columns[i] = is_shared ? columns[i] : next++;
    }
    if (status == GY_OK) {
        status = gy_frame_compose(schema, frames, columns, gy_frame_rows(frame), out);
    }
    gy_free((void *)frames);
    gy_free(columns);
    gy_frame_drop(made);
    return status;
}

/* ---- test ---- */

static gy_status test_chunk(gy_expr_work *work, const gy_expr *condition, uint64_t *kept,
                            int64_t *count)
{
    uint64_t all[GY_EXPR_WORDS];
    gy_expr_vector made;
    mask_all(all, work->rows);
    GY_TRY(gy_expr_eval(work, condition, all, &made));
    GY_TRY(gy_expr_spread(work, GY_FIELD_BOOL, &made));
    for (int w = 0; w < gy_expr_words(work); w++) {
        kept[w] = made.bits[w] & all[w] & (made.valid != NULL ? made.valid[w] : UINT64_MAX);
        *count += __builtin_popcountll(kept[w]);
    }
    return GY_OK;
}

static gy_status test_by(int step, const gy_expr *condition, gy_expr_work *work, uint64_t *kept,
                         int64_t *count)
{
    const int64_t rows = gy_frame_rows(work->frame);
    gy_status status = GY_OK;
    *count = 0;
    work->is_full = false;
    for (int64_t row = 0; row < rows && status == GY_OK; row += step) {
        gy_expr_work_begin(work, row, (int)GY_MIN(rows - row, (int64_t)step));
        status = test_chunk(work, condition, kept + row / 64, count);
    }
    return status;
}

gy_status gy_expr_test(const gy_expr *condition, const gy_frame *frame, uint64_t *kept,
                       int64_t *count)
{
    GY_ASSERT(gy_expr_class(&condition->type) == GY_FIELD_BOOL);
    gy_expr_work work = {.frame = frame};
    gy_status status = test_by(GY_EXPR_ROWS, condition, &work, kept, count);
    if (work.is_full) {
        status = test_by(GY_EXPR_ROWS_FEW, condition, &work, kept, count);
    }
    return gy_expr_work_end(&work, status);
}

/* ---- filter ---- */

static gy_status gather_texts(const gy_column *from, const int64_t *rows, int64_t count,
                              gy_frame_maker *to)
{
    const int32_t *at = (const int32_t *)from->values + from->offset;
    size_t size = 0;
    for (int64_t i = 0; i < count; i++) {
        size += (size_t)(at[rows[i] + 1] - at[rows[i]]);
    }
    GY_TRY(gy_frame_maker_reserve_text(to, size));
    int32_t *ends = (int32_t *)to->values + 1;
    for (int64_t i = 0; i < count; i++) {
        const size_t bytes = (size_t)(at[rows[i] + 1] - at[rows[i]]);
        if (bytes > 0) {
            memcpy(to->text + to->text_bytes, from->text + at[rows[i]], bytes);
            to->text_bytes += bytes;
        }
        ends[i] = (int32_t)to->text_bytes;
    }
    return GY_OK;
}

#define GATHER(type)                                                                           \
    for (int64_t i = 0; i < count; i++) {                                                      \
        ((type *)to->values)[i] = ((const type *)from->values)[from->offset + rows[i]];        \
    }

static gy_status gather_values(const gy_column *from, const int64_t *rows, int64_t count,
                               gy_frame_maker *to)
{
    switch (from->field->kind) {
    case GY_FIELD_TEXT:
        return gather_texts(from, rows, count, to);
    case GY_FIELD_BOOL:
        for (int64_t i = 0; i < count; i++) {
            ((uint8_t *)to->values)[i >> 3] |=
                (uint8_t)((unsigned)gy_column_bool(from, rows[i]) << (i & 7));
        }
        break;
    case GY_FIELD_DATE:
        GATHER(int32_t)
        break;
    case GY_FIELD_DECIMAL:
        for (int64_t i = 0; i < count; i++) {
            ((gy_int128 *)to->values)[i] = gy_column_decimal(from, rows[i]);
        }
        break;
    case GY_FIELD_INT64:
    case GY_FIELD_TIMESTAMP:
        GATHER(int64_t)
        break;
    case GY_FIELD_DOUBLE:
        GATHER(double)
        break;
    }
    return GY_OK;
}

static gy_status gather(const gy_column *from, const int64_t *rows, int64_t count,
                        gy_frame_maker *to)
{
    to->field = *from->field;
    GY_TRY(gy_frame_maker_reserve(to, count));
    GY_TRY(gather_values(from, rows, count, to));
    for (int64_t i = 0; i < count; i++) {
        const unsigned is_valid = !gy_column_is_null(from, rows[i]);
        to->valid[i >> 3] |= (uint8_t)(is_valid << (i & 7));
        to->nulls += is_valid == 0;
    }
    to->rows = count;
    return GY_OK;
}

/* The rows whose bits are set, into a frame of its own. */
static gy_status keep_rows(const gy_frame *frame, const uint64_t *kept, int64_t count,
                           gy_frame **out)
{
    gy_schema *schema = gy_frame_schema(frame);
    const int columns = gy_schema_count(schema);
    gy_frame_maker *makers =
        gy_alloc_zero("query.expr", (size_t)GY_MAX(columns, 1), sizeof(*makers));
    int64_t *rows = gy_alloc("query.expr", ((size_t)count + 1) * sizeof(*rows));
    gy_status status = makers != NULL && rows != NULL ? GY_OK : GY_NOMEM;
    int64_t next = 0;
    for (int64_t w = 0; w * 64 < gy_frame_rows(frame) && status == GY_OK; w++) {
        for (uint64_t bits = kept[w]; bits != 0; bits &= bits - 1) {
            rows[next++] = w * 64 + __builtin_ctzll(bits);
        }
    }
    for (int i = 0; i < columns && status == GY_OK; i++) {
        const gy_column column = gy_frame_column(frame, i);
        status = gather(&column, rows, count, &makers[i]);
    }
    if (status == GY_OK) {
        GY_ASSERT(next == count);
        status = gy_frame_make(schema, makers, count, out);
    }
    for (int i = 0; i < columns && makers != NULL; i++) {
        gy_frame_maker_fini(&makers[i]);
    }
    gy_free(rows);
    gy_free(makers);
    return status;
}

gy_status gy_expr_filter(const gy_expr *condition, const gy_frame *frame, gy_frame **out)
{
    const int64_t rows = gy_frame_rows(frame);
    int64_t count = 0;
    uint64_t *kept = gy_alloc("query.expr", (size_t)(rows / 64 + 1) * sizeof(*kept));
    if (kept == NULL) {
        return GY_NOMEM;
    }
    gy_status status = gy_expr_test(condition, frame, kept, &count);
    if (status == GY_OK) {
        status = count == rows ? gy_frame_slice(frame, 0, rows, out)
                               : keep_rows(frame, kept, count, out);
    }
    gy_free(kept);
    return status;
}
