/* Matrices put together, turned and picked from. */
#include "dml/builtins/builtins_priv.h"
#include "dml/frame/frame.h"

#include <math.h>
#include <string.h>

gy_status gy_dml_run_t(gy_dml_call *call)
{
    gy_dml_matrix *x = NULL, *out = NULL;
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    const gy_status status = gy_dml_transpose(x, &out);
    gy_dml_matrix_drop(x);
    GY_TRY(status);
    return gy_dml_give(call, out);
}

/* Lists bound: their items, one behind the other. */
static gy_status bind_lists(gy_dml_call *call)
{
    gy_dml_list *out = NULL;
    GY_TRY(gy_dml_list_new(&out));
    call->results[0] = gy_dml_of_list(out);
    for (int i = 0; i < call->count; i++) {
        const gy_dml_value *x = &call->args[i];
        if (x->kind != GY_DML_IS_LIST) {
            GY_TRY(gy_dml_list_add(out, *x, NULL));
            continue;
        }
        for (size_t k = 0; k < x->list->count; k++) {
            const bool has_name = x->list->names != NULL && x->list->names[k] != NULL;
            GY_TRY(gy_dml_list_add(out, x->list->items[k],
                                   has_name ? x->list->names[k]->data : NULL));
        }
    }
    return GY_OK;
}

/* The matrices of a call, each held; drop them in any case. */
typedef struct parts {
    gy_dml_matrix *items[256];
    int count;
    int64_t rows, columns; /* of all of them side by side */
} parts;

static void parts_drop(parts *p)
{
    for (int i = 0; i < p->count; i++) {
        gy_dml_matrix_drop(p->items[i]);
    }
}

static gy_status take_part(const gy_dml_value *value, bool is_columns, const char *name,
                           parts *p)
{
    gy_dml_matrix *x = NULL;
    GY_TRY(gy_dml_as_matrix(value, name, &x));
    p->items[p->count++] = x;
    const int64_t common = is_columns ? x->rows : x->columns;
    int64_t *shared = is_columns ? &p->rows : &p->columns;
    int64_t *sum = is_columns ? &p->columns : &p->rows;
    if (p->count > 1 && *shared != common) {
        return gy_fail(GY_SHAPE, "%s: argument %d has %lld %s, those before it %lld", name,
                       p->count, (long long)common, is_columns ? "rows" : "columns",
                       (long long)*shared);
    }
    *shared = common;
    *sum += is_columns ? x->columns : x->rows;
    return GY_OK;
}

static gy_status bind(const parts *p, bool is_columns, gy_dml_matrix **out)
{
    GY_TRY(gy_dml_matrix_new(p->rows, p->columns, out));
    gy_dml_box box = {0, p->rows, 0, p->columns};
    for (int i = 0; i < p->count; i++) {
        gy_dml_paste(*out, &box, p->items[i]);
        box.column += is_columns ? p->items[i]->columns : 0;
        box.row += is_columns ? 0 : p->items[i]->rows;
    }
    return GY_OK;
}

/* append("a", "b"): lines of a text, as SystemDS's scripts gather what they report. */
static gy_status append_texts(gy_dml_call *call)
{
    gy_text text = {.data = NULL};
    for (int i = 0; i < call->count; i++) {
        gy_text_add(&text, "%s", i > 0 ? "\n" : "");
        gy_dml_add_value(&text, &call->args[i]);
    }
    gy_status status = text.status;
    if (status == GY_OK) {
        status = gy_dml_of_text(gy_text_get(&text), text.size_bytes, &call->results[0]);
    }
    gy_text_free(&text);
    return status;
}

/* Frames bound; matrices and scalars among them become frames. */
static gy_status bind_frames(gy_dml_call *call, const gy_dml_value *items, int count,
                             bool is_columns)
{
    gy_dml_frame *frames[256], *out = NULL;
    int taken = 0;
    gy_status status = GY_OK;
    while (taken < count && status == GY_OK) {
        status = gy_dml_as_frame(&items[taken], call->builtin->name, &frames[taken]);
        taken += status == GY_OK;
    }
    if (status == GY_OK) {
        status = is_columns ? gy_dml_frame_cbind(frames, count, &out)
                            : gy_dml_frame_rbind(frames, count, &out);
    }
    for (int i = 0; i < taken; i++) {
        gy_dml_frame_drop(frames[i]);
    }
    GY_TRY(status);
    call->results[0] = gy_dml_of_frame(out);
    return GY_OK;
}

static bool has_frame(const gy_dml_value *items, int count)
{
    for (int i = 0; i < count; i++) {
        if (items[i].kind == GY_DML_IS_FRAME) {
            return true;
        }
    }
    return false;
}

gy_status gy_dml_run_bind(gy_dml_call *call)
{
    const char *name = call->builtin->name;
    const bool is_columns = name[0] != 'r';
    gy_dml_matrix *out = NULL;
    parts p = {.count = 0};
    if (call->count == 0) {
        return gy_fail(GY_ARG, "%s: expected at least one argument", name);
    }
    if (call->args[0].kind == GY_DML_IS_LIST && call->count > 1) {
        return bind_lists(call);
    }
    if (call->args[0].kind == GY_DML_IS_TEXT) {
        return append_texts(call);
    }
    gy_status status = GY_OK;
    const bool is_list = call->args[0].kind == GY_DML_IS_LIST;
    const int count = is_list ? (int)GY_MIN(call->args[0].list->count, 256u) : call->count;
    const gy_dml_value *items = is_list ? call->args[0].list->items : call->args;
    if (has_frame(items, count)) {
        return bind_frames(call, items, count, is_columns);
    }
    for (int i = 0; i < count && status == GY_OK; i++) {
        status = take_part(&items[i], is_columns, name, &p);
    }
    status = status == GY_OK ? bind(&p, is_columns, &out) : status;
    parts_drop(&p);
    GY_TRY(status);
    return gy_dml_give(call, out);
}

/* Row i of the result is row `at(i)` of x: rev and roll. */
gy_status gy_dml_run_turn(gy_dml_call *call)
{
    int64_t shift = 0;
    gy_dml_matrix *x = NULL, *out = NULL;
    const bool is_rev = strcmp(call->builtin->name, "rev") == 0;
    if (!is_rev) {
        GY_TRY(gy_dml_arg_integer(call, 1, &shift));
    }
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    const gy_status status = gy_dml_matrix_new(x->rows, x->columns, &out);
    for (int64_t i = 0; i < x->rows && status == GY_OK; i++) {
        const int64_t to =
            is_rev ? x->rows - 1 - i : ((i + shift % x->rows) % x->rows + x->rows) % x->rows;
        memcpy(out->data + to * x->columns, x->data + i * x->columns,
               (size_t)x->columns * sizeof(double));
    }
    gy_dml_matrix_drop(x);
    GY_TRY(status);
    return gy_dml_give(call, out);
}

gy_status gy_dml_run_triangle(gy_dml_call *call)
{
    const bool is_lower = call->builtin->name[0] == 'l';
    bool has_diagonal = false, has_values = false;
    gy_dml_matrix *x = NULL, *out = NULL;
    GY_TRY(gy_dml_arg_boolean(call, 1, &has_diagonal));
    GY_TRY(gy_dml_arg_boolean(call, 2, &has_values));
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    const gy_status status = gy_dml_matrix_new(x->rows, x->columns, &out);
    for (int64_t i = 0; i < x->rows && status == GY_OK; i++) {
        for (int64_t j = 0; j < x->columns; j++) {
            const bool is_in = i == j ? has_diagonal : is_lower == (j < i);
            out->data[i * x->columns + j] = !is_in       ? 0
                                            : has_values ? x->data[i * x->columns + j]
                                                         : 1;
        }
    }
    gy_dml_matrix_drop(x);
    GY_TRY(status);
    return gy_dml_give(call, out);
}

gy_status gy_dml_run_replace(gy_dml_call *call)
{
    double pattern = 0, replacement = 0;
    gy_dml_matrix *x = NULL, *out = NULL;
    if (call->args[0].kind == GY_DML_IS_FRAME) {
        gy_dml_frame *made = NULL;
        if (!gy_dml_is_scalar(&call->args[1]) || !gy_dml_is_scalar(&call->args[2])) {
            return gy_fail(GY_TYPE, "replace: pattern and replacement are scalars");
        }
        GY_TRY(
            gy_dml_frame_replace(call->args[0].frame, &call->args[1], &call->args[2], &made));
        call->results[0] = gy_dml_of_frame(made);
        return GY_OK;
    }
    GY_TRY(gy_dml_arg_real(call, 1, &pattern));
    GY_TRY(gy_dml_arg_real(call, 2, &replacement));
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    const gy_status status = gy_dml_matrix_new(x->rows, x->columns, &out);
    for (int64_t i = 0; status == GY_OK && i < gy_dml_matrix_count(x); i++) {
        const double value = x->data[i];
        const bool is_it = isnan(pattern) ? isnan(value) : value == pattern;
        out->data[i] = is_it ? replacement : value;
    }
    gy_dml_matrix_drop(x);
    GY_TRY(status);
    return gy_dml_give(call, out);
}

/* The value of cell (i, j) of what may be a scalar's 1x1, a row or a column. */
static double cell_of(const gy_dml_matrix *x, int64_t i, int64_t j)
{
    return x->data[(x->rows == 1 ? 0 : i) * x->columns + (x->columns == 1 ? 0 : j)];
}

static bool is_repeatable(const gy_dml_matrix *x, int64_t rows, int64_t columns)
{
    return (x->rows == rows || x->rows == 1) && (x->columns == columns || x->columns == 1);
}

static gy_status choose(gy_dml_call *call, gy_dml_matrix *const of[3])
{
    gy_dml_matrix *out = NULL;
    int64_t rows = 1, columns = 1;
    for (int k = 0; k < 3; k++) {
        rows = of[k]->rows != 1 ? of[k]->rows : rows;
        columns = of[k]->columns != 1 ? of[k]->columns : columns;
    }
    for (int k = 0; k < 3; k++) {
        if (!is_repeatable(of[k], rows, columns)) {
            return gy_fail(GY_SHAPE, "ifelse: argument %d has %lldx%lld, expected %lldx%lld",
                           k + 1, (long long)of[k]->rows, (long long)of[k]->columns,
                           (long long)rows, (long long)columns);
        }
    }
    GY_TRY(gy_dml_matrix_new(rows, columns, &out));
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            out->data[i * columns + j] = cell_of(of[cell_of(of[0], i, j) != 0 ? 1 : 2], i, j);
        }
    }
    return gy_dml_give(call, out);
}

gy_status gy_dml_run_ifelse(gy_dml_call *call)
{
    gy_dml_matrix *of[3] = {NULL};
    bool truth = false;
    if (gy_dml_is_scalar(&call->args[0]) &&
        (call->args[1].kind != GY_DML_IS_MATRIX) == (call->args[2].kind != GY_DML_IS_MATRIX)) {
        GY_TRY(gy_dml_arg_boolean(call, 0, &truth));
        call->results[0] = gy_dml_hold(call->args[truth ? 1 : 2]);
        return GY_OK;
    }
    gy_status status = GY_OK;
    for (int k = 0; k < 3 && status == GY_OK; k++) {
        status = gy_dml_arg_matrix(call, k, &of[k]);
    }
    status = status == GY_OK ? choose(call, of) : status;
    for (int k = 0; k < 3; k++) {
        gy_dml_matrix_drop(of[k]);
    }
    return status;
}

/* Whether a cell is none that removeEmpty removes: of a frame a missing one is, or a text
 * without a character. */
static bool has_cell(const gy_dml_value *x, int64_t i, int64_t j)
{
    if (x->kind == GY_DML_IS_MATRIX) {
        return x->matrix->data[i * x->matrix->columns + j] != 0;
    }
    const gy_dml_column *column = x->frame->items[j];
    double real = 0;
    if (gy_dml_column_storage(column->type) == GY_DML_STORES_TEXT) {
        return column->texts[i] != NULL && column->texts[i]->size > 0;
    }
    return gy_dml_column_real(column, i, &real) != GY_OK || real != 0;
}

static void sizes_of(const gy_dml_value *x, int64_t *rows, int64_t *columns)
{
    const bool is_frame = x->kind == GY_DML_IS_FRAME;
    *rows = is_frame ? x->frame->rows : x->matrix->rows;
    *columns = is_frame ? x->frame->columns : x->matrix->columns;
}

/* Which rows (or columns) of x stay, as 0 and 1; their number. */
static int64_t mark(const gy_dml_value *x, bool is_rows, const gy_dml_matrix *select,
                    unsigned char *stays)
{
    int64_t rows = 0, columns = 0, left = 0;
    sizes_of(x, &rows, &columns);
    const int64_t count = is_rows ? rows : columns;
    for (int64_t i = 0; i < count; i++) {
        stays[i] = select != NULL && select->data[i] != 0;
    }
    for (int64_t i = 0; select == NULL && i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            if (has_cell(x, i, j)) {
                stays[is_rows ? i : j] = 1;
            }
        }
    }
    for (int64_t i = 0; i < count; i++) {
        left += stays[i];
    }
    return left;
}

static gy_status keep(const gy_dml_matrix *x, bool is_rows, const unsigned char *stays,
                      int64_t left, gy_dml_matrix **out)
{
    int64_t to = 0;
    GY_TRY(gy_dml_matrix_new(is_rows ? left : x->rows, is_rows ? x->columns : left, out));
    for (int64_t i = 0; i < x->rows; i++) {
        for (int64_t j = 0; j < x->columns; j++) {
            if (stays[is_rows ? i : j]) {
                (*out)->data[to++] = x->data[i * x->columns + j];
            }
        }
    }
    return GY_OK;
}

/* What is left of a frame; one row (or column) without values where nothing is. */
static gy_status keep_of_frame(gy_dml_call *call, bool is_rows, const unsigned char *stays,
                               int64_t left, bool leaves_one)
{
    const gy_dml_frame *from = call->args[0].frame;
    gy_dml_frame *out = NULL;
    if (left > 0 || !leaves_one) {
        GY_TRY(gy_dml_frame_keep(from, is_rows, stays, left, &out));
    } else {
        GY_TRY(gy_dml_frame_new(is_rows ? 1 : from->rows, is_rows ? from->columns : 1, NULL,
                                &out));
    }
    call->results[0] = gy_dml_of_frame(out);
    return GY_OK;
}

static gy_status keep_of_matrix(gy_dml_call *call, bool is_rows, const unsigned char *stays,
                                int64_t left, bool leaves_one)
{
    const gy_dml_matrix *x = call->args[0].matrix;
    gy_dml_matrix *out = NULL;
    if (left == 0 && leaves_one) {
        GY_TRY(gy_dml_matrix_fill(is_rows ? 1 : x->rows, is_rows ? x->columns : 1, 0, &out));
    } else {
        GY_TRY(keep(x, is_rows, stays, left, &out));
    }
    return gy_dml_give(call, out);
}

static gy_status remove_empty(gy_dml_call *call, const gy_dml_value *x, bool is_rows,
                              const gy_dml_matrix *select)
{
    bool leaves_one = true;
    int64_t rows = 0, columns = 0;
    GY_TRY(gy_dml_arg_boolean(call, 3, &leaves_one));
    sizes_of(x, &rows, &columns);
    const int64_t count = is_rows ? rows : columns;
    if (select != NULL && gy_dml_matrix_count(select) != count) {
        return gy_fail(GY_SHAPE, "removeEmpty: select has %lld cells for %lld %s",
                       (long long)gy_dml_matrix_count(select), (long long)count,
                       is_rows ? "rows" : "columns");
    }
    unsigned char *stays = gy_alloc_zero("dml.stays", (size_t)count + 1, 1);
    if (stays == NULL) {
        return GY_NOMEM;
    }
    const int64_t left = mark(x, is_rows, select, stays);
    gy_dml_call part = *call;
    gy_dml_value args[1] = {*x};
    part.args = args;
    const gy_status status = x->kind == GY_DML_IS_FRAME
                                 ? keep_of_frame(&part, is_rows, stays, left, leaves_one)
                                 : keep_of_matrix(&part, is_rows, stays, left, leaves_one);
    gy_free(stays);
    return status;
}

gy_status gy_dml_run_remove_empty(gy_dml_call *call)
{
    const char *margin = "rows";
    gy_dml_matrix *select = NULL;
    GY_TRY(gy_dml_arg_text(call, 1, &margin));
    if (strcmp(margin, "rows") != 0 && strcmp(margin, "cols") != 0) {
        return gy_fail(GY_ARG, "removeEmpty: margin: \"%.40s\" is neither rows nor cols",
                       margin);
    }
    gy_dml_value x = GY_DML_NONE;
    if (call->args[0].kind == GY_DML_IS_FRAME) {
        x = gy_dml_hold(call->args[0]);
    } else {
        gy_dml_matrix *matrix = NULL;
        GY_TRY(gy_dml_arg_matrix(call, 0, &matrix));
        x = gy_dml_of_matrix(matrix);
    }
    gy_status status = gy_dml_has(call, 2) ? gy_dml_arg_matrix(call, 2, &select) : GY_OK;
    status = status == GY_OK ? remove_empty(call, &x, margin[0] == 'r', select) : status;
    gy_dml_drop(&x);
    gy_dml_matrix_drop(select);
    return status;
}
