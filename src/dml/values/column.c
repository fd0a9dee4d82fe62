/* Columns of frames: cells of one type, set from texts, scalars and other columns. */
#include "dml/values/frame.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    gy_dml_storage storage;
} types[] = {
#define GY_X(id, storage) {#id, GY_DML_STORES_##storage},
    GY_DML_COLUMN_LIST(GY_X)
#undef GY_X
};

static const size_t cell_sizes[] = {
    [GY_DML_STORES_TEXT] = sizeof(gy_dml_text *),
    [GY_DML_STORES_TRUTH] = sizeof(bool),
    [GY_DML_STORES_WHOLE] = sizeof(int64_t),
    [GY_DML_STORES_REAL] = sizeof(double),
};

const char *gy_dml_column_type_name(gy_dml_column_type type)
{
    return types[type].name;
}

gy_dml_storage gy_dml_column_storage(gy_dml_column_type type)
{
    return types[type].storage;
}

bool gy_dml_column_type_parse(const char *name, size_t size, gy_dml_column_type *type)
{
    static const struct {
        const char *name;
        gy_dml_column_type type;
    } others[] = {
        {"double", GY_DML_COLUMN_FP64},    {"float", GY_DML_COLUMN_FP32},
        {"int", GY_DML_COLUMN_INT64},      {"integer", GY_DML_COLUMN_INT64},
        {"bool", GY_DML_COLUMN_BOOLEAN},   {"str", GY_DML_COLUMN_STRING},
        {"char", GY_DML_COLUMN_CHARACTER},
    };
    for (size_t i = 0; i < GY_COUNT(types); i++) {
        if (strlen(types[i].name) == size && strncasecmp(types[i].name, name, size) == 0) {
            *type = (gy_dml_column_type)i;
            return true;
        }
    }
    for (size_t i = 0; i < GY_COUNT(others); i++) {
        if (strlen(others[i].name) == size && strncasecmp(others[i].name, name, size) == 0) {
            *type = others[i].type;
            return true;
        }
    }
    return false;
}

gy_dml_column_type gy_dml_column_type_common(gy_dml_column_type a, gy_dml_column_type b)
{
    const gy_dml_column_type low = GY_MIN(a, b), high = GY_MAX(a, b);
    const bool has_text = types[low].storage == GY_DML_STORES_TEXT;
    if (low == high || !has_text) {
        return high; /* numbers stand in the order of what they hold */
    }
    const bool is_hash = low == GY_DML_COLUMN_HASH32 || low == GY_DML_COLUMN_HASH64;
    if (is_hash && types[high].storage == GY_DML_STORES_TEXT) {
        return GY_DML_COLUMN_HASH64;
    }
    return is_hash && types[high].storage != GY_DML_STORES_REAL ? low : GY_DML_COLUMN_STRING;
}

gy_status gy_dml_column_new(gy_dml_column_type type, int64_t count, gy_dml_column **column)
{
    GY_ASSERT(type < GY_DML_COLUMN_TYPES);
    if (count < 0 || count > INT64_MAX / 16) {
        return gy_fail(GY_LIMIT, "a column of %lld cells is too large", (long long)count);
    }
    gy_dml_column *made = gy_alloc_zero("dml.column", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    atomic_init(&made->holds, 1);
    made->type = type;
    made->count = count;
    made->data =
        gy_alloc_zero("dml.column", (size_t)count + 1, cell_sizes[types[type].storage]);
    if (made->data == NULL) {
        gy_free(made);
        return GY_NOMEM;
    }
    *column = made;
    return GY_OK;
}

gy_dml_column *gy_dml_column_hold(gy_dml_column *column)
{
    /* relaxed: who holds it once more had it from a hold */
    atomic_fetch_add_explicit(&column->holds, 1, memory_order_relaxed);
    return column;
}

static void drop_text(gy_dml_text *text)
{
    if (text != NULL) {
        gy_dml_value value = {.kind = GY_DML_IS_TEXT, .text = text};
        gy_dml_drop(&value);
    }
}

void gy_dml_column_drop(gy_dml_column *column)
{
    /* acquire and release: what other holders wrote is there for who frees it */
    if (column == NULL ||
        atomic_fetch_sub_explicit(&column->holds, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (types[column->type].storage == GY_DML_STORES_TEXT) {
        for (int64_t i = 0; i < column->count; i++) {
            drop_text(column->texts[i]);
        }
    }
    gy_free(column->data);
    gy_free(column);
}

static gy_status set_text(gy_dml_column *column, int64_t at, const char *text, size_t size)
{
    gy_dml_value made = GY_DML_NONE;
    GY_TRY(gy_dml_of_text(text, size, &made));
    drop_text(column->texts[at]);
    column->texts[at] = made.text;
    return GY_OK;
}

static gy_status refuse(const gy_dml_column *column, const char *text, size_t size)
{
    return gy_fail(GY_TYPE, "expected %s, found \"%.*s\"", types[column->type].name,
                   (int)GY_MIN(size, 40u), text);
}

static bool fits(gy_dml_column_type type, int64_t whole)
{
    return type == GY_DML_COLUMN_INT64 ||
           (type == GY_DML_COLUMN_INT32 ? whole >= INT32_MIN && whole <= INT32_MAX
                                        : whole >= 0 && whole <= UINT8_MAX);
}

/* A whole number; one with a point is cut as SystemDS cuts it, toward 0. */
static bool parse_whole(const char *text, size_t size, int64_t *whole)
{
    char copy[32], *end = NULL;
    double real = 0;
    if (size < sizeof(copy)) {
        memcpy(copy, text, size);
        copy[size] = '\0';
        errno = 0;
        *whole = strtoll(copy, &end, 10);
        if (end != copy && *end == '\0' && errno == 0) {
            return true;
        }
    }
    if (!gy_dml_parse_real(text, size, &real) || !(real >= -0x1p63 && real < 0x1p63)) {
        return false;
    }
    *whole = (int64_t)real;
    return true;
}

static bool parse_truth(const char *text, size_t size, bool *truth)
{
    static const char *const yes[] = {"true", "t", "1", "1.0"}, *const no[] = {"false", "f",
                                                                               "0", "0.0"};
    for (size_t i = 0; i < GY_COUNT(yes); i++) {
        const bool is_yes = strlen(yes[i]) == size && strncasecmp(yes[i], text, size) == 0;
        if (is_yes || (strlen(no[i]) == size && strncasecmp(no[i], text, size) == 0)) {
            *truth = is_yes;
            return true;
        }
    }
    return false;
}

gy_status gy_dml_column_set(gy_dml_column *column, int64_t at, const char *text, size_t size)
{
    GY_ASSERT(at >= 0 && at < column->count);
    bool truth = false;
    int64_t whole = 0;
    double real = 0;
    switch (types[column->type].storage) {
    case GY_DML_STORES_TEXT:
        return set_text(column, at, text, size);
    case GY_DML_STORES_TRUTH:
        if (size > 0 && !parse_truth(text, size, &truth)) {
            return refuse(column, text, size);
        }
        column->truths[at] = truth;
        return GY_OK;
    case GY_DML_STORES_WHOLE:
        if (size > 0 && (!parse_whole(text, size, &whole) || !fits(column->type, whole))) {
            return refuse(column, text, size);
        }
        column->wholes[at] = whole;
        return GY_OK;
    case GY_DML_STORES_REAL:
        if (size > 0 && !gy_dml_parse_real(text, size, &real)) {
            return refuse(column, text, size);
        }
        column->reals[at] = column->type == GY_DML_COLUMN_FP32 ? (double)(float)real : real;
        return GY_OK;
    }
    return GY_OK;
}

static gy_status set_real(gy_dml_column *column, int64_t at, double real)
{
    if (types[column->type].storage == GY_DML_STORES_REAL) {
        column->reals[at] = column->type == GY_DML_COLUMN_FP32 ? (double)(float)real : real;
        return GY_OK;
    }
    if (types[column->type].storage == GY_DML_STORES_TRUTH) {
        column->truths[at] = real != 0;
        return GY_OK;
    }
    if (!(real >= -0x1p63 && real < 0x1p63) || !fits(column->type, (int64_t)real)) {
        return gy_fail(GY_TYPE, "expected %s, found %g", types[column->type].name, real);
    }
    column->wholes[at] = (int64_t)real;
    return GY_OK;
}

gy_status gy_dml_column_set_value(gy_dml_column *column, int64_t at, const gy_dml_value *value)
{
    GY_ASSERT(at >= 0 && at < column->count && gy_dml_is_scalar(value));
    if (value->kind == GY_DML_IS_TEXT) {
        return gy_dml_column_set(column, at, value->text->data, value->text->size);
    }
    if (types[column->type].storage != GY_DML_STORES_TEXT) {
        double real = 0;
        if (value->kind == GY_DML_IS_INTEGER &&
            types[column->type].storage == GY_DML_STORES_WHOLE &&
            fits(column->type, value->whole)) {
            column->wholes[at] = value->whole;
            return GY_OK;
        }
        GY_TRY(gy_dml_as_real(value, "a cell", &real));
        return set_real(column, at, real);
    }
    gy_text text = {.data = NULL};
    if (value->kind == GY_DML_IS_BOOLEAN) {
        gy_text_add(&text, "%s", value->truth ? "true" : "false");
    } else {
        gy_dml_add_value(&text, value);
    }
    gy_status status = text.status;
    status =
        status == GY_OK ? set_text(column, at, gy_text_get(&text), text.size_bytes) : status;
    gy_text_free(&text);
    return status;
}

static gy_status set_same(gy_dml_column *to, int64_t at, const gy_dml_column *from,
                          int64_t from_at, int64_t count)
{
    const gy_dml_storage storage = types[to->type].storage;
    if (storage != GY_DML_STORES_TEXT) {
        const size_t size = cell_sizes[storage];
        memmove((char *)to->data + (size_t)at * size,
                (const char *)from->data + (size_t)from_at * size, (size_t)count * size);
        return GY_OK;
    }
    for (int64_t i = 0; i < count; i++) {
        gy_dml_text *text = from->texts[from_at + i];
        if (text != NULL) { /* relaxed: as gy_dml_hold */
            atomic_fetch_add_explicit(&text->holds, 1, memory_order_relaxed);
        }
        drop_text(to->texts[at + i]);
        to->texts[at + i] = text;
    }
    return GY_OK;
}

static gy_status set_other(gy_dml_column *to, int64_t at, const gy_dml_column *from,
                           int64_t from_at)
{
    if (gy_dml_column_is_missing(from, from_at)) {
        if (types[to->type].storage != GY_DML_STORES_TEXT) {
            return gy_dml_column_set(to, at, "", 0);
        }
        drop_text(to->texts[at]);
        to->texts[at] = NULL;
        return GY_OK;
    }
    if (types[to->type].storage == GY_DML_STORES_TEXT) {
        gy_text text = {.data = NULL};
        gy_dml_column_add(&text, from, from_at);
        gy_status status = text.status;
        status =
            status == GY_OK ? set_text(to, at, gy_text_get(&text), text.size_bytes) : status;
        gy_text_free(&text);
        return status;
    }
    gy_dml_value value = GY_DML_NONE;
    GY_TRY(gy_dml_column_get(from, from_at, &value));
    const gy_status status = gy_dml_column_set_value(to, at, &value);
    gy_dml_drop(&value);
    return status;
}

gy_status gy_dml_column_set_cells(gy_dml_column *to, int64_t at, const gy_dml_column *from,
                                  int64_t from_at, int64_t count)
{
    GY_ASSERT(at >= 0 && at + count <= to->count);
    GY_ASSERT(from_at >= 0 && from_at + count <= from->count);
    if (to->type == from->type) {
        return set_same(to, at, from, from_at, count);
    }
    for (int64_t i = 0; i < count; i++) {
        const gy_status status = set_other(to, at + i, from, from_at + i);
        if (status != GY_OK) {
            return gy_fail_within(status, "row %lld", (long long)(at + i) + 1);
        }
    }
    return GY_OK;
}

gy_status gy_dml_column_get(const gy_dml_column *column, int64_t at, gy_dml_value *value)
{
    GY_ASSERT(at >= 0 && at < column->count);
    switch (types[column->type].storage) {
    case GY_DML_STORES_TRUTH:
        *value = gy_dml_of_boolean(column->truths[at]);
        return GY_OK;
    case GY_DML_STORES_WHOLE:
        *value = gy_dml_of_integer(column->wholes[at]);
        return GY_OK;
    case GY_DML_STORES_REAL:
        *value = gy_dml_of_real(column->reals[at]);
        return GY_OK;
    case GY_DML_STORES_TEXT:
        break;
    }
    if (column->texts[at] == NULL) {
        return gy_dml_of_text("", 0, value);
    }
    *value = gy_dml_hold((gy_dml_value){.kind = GY_DML_IS_TEXT, .text = column->texts[at]});
    return GY_OK;
}

gy_status gy_dml_column_real(const gy_dml_column *column, int64_t at, double *real)
{
    GY_ASSERT(at >= 0 && at < column->count);
    switch (types[column->type].storage) {
    case GY_DML_STORES_TRUTH:
        *real = column->truths[at] ? 1 : 0;
        return GY_OK;
    case GY_DML_STORES_WHOLE:
        *real = (double)column->wholes[at];
        return GY_OK;
    case GY_DML_STORES_REAL:
        *real = column->reals[at];
        return GY_OK;
    case GY_DML_STORES_TEXT:
        break;
    }
    const gy_dml_text *text = column->texts[at];
    bool truth = false;
    *real = 0;
    if (text == NULL || text->size == 0 || gy_dml_parse_real(text->data, text->size, real)) {
        return GY_OK;
    }
    if (parse_truth(text->data, text->size, &truth)) {
        *real = truth ? 1 : 0;
        return GY_OK;
    }
    return gy_fail(GY_TYPE, "expected a number, found \"%.40s\"", text->data);
}

bool gy_dml_column_is_missing(const gy_dml_column *column, int64_t at)
{
    return types[column->type].storage == GY_DML_STORES_TEXT && column->texts[at] == NULL;
}

void gy_dml_column_add(gy_text *text, const gy_dml_column *column, int64_t at)
{
    switch (types[column->type].storage) {
    case GY_DML_STORES_TRUTH:
        gy_text_add(text, "%s", column->truths[at] ? "true" : "false");
        break;
    case GY_DML_STORES_WHOLE:
        gy_text_add(text, "%lld", (long long)column->wholes[at]);
        break;
    case GY_DML_STORES_REAL:
        if (column->type == GY_DML_COLUMN_FP32) {
            gy_dml_add_single(text, (float)column->reals[at]);
        } else {
            gy_dml_add_real(text, column->reals[at]);
        }
        break;
    case GY_DML_STORES_TEXT:
        if (column->texts[at] != NULL) {
            gy_text_add_bytes(text, column->texts[at]->data, column->texts[at]->size);
        }
        break;
    }
}
