/*
 * States of aggregates, in words of a group's record:
 *
 *   count             number
 *   sum, avg          number of values, then of int64 a sum of 128 bits, of decimal one of 192,
 *                     of double an exact one (exact.h)
 *   min, max, any,    whether there is a value, then the value as in a key
 *   bool_and, bool_or
 *   own               whether there is a row, then the function's state
 *
 * As columns they are one int64 a word, but those of min to bool_or, which are one column of
 * its type.
 */
#include "query/rows/exact.h"
#include "query/rows/rows_priv.h"

__extension__ typedef unsigned __int128 wide;

enum { AVG_PLACES = 16 };

static bool is_sum(gy_rows_aggregate_kind kind)
{
    return kind == GY_ROWS_SUM || kind == GY_ROWS_AVG;
}

static bool is_count(gy_rows_aggregate_kind kind)
{
    return kind == GY_ROWS_COUNT || kind == GY_ROWS_COUNT_STAR;
}

static int sum_words(gy_field_kind kind)
{
    return kind == GY_FIELD_INT64 ? 3 : kind == GY_FIELD_DECIMAL ? 4 : 1 + GY_ROWS_EXACT_WORDS;
}

static int own_words(const gy_query_function *own)
{
    return 1 + (int)((own->state_bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t));
}

static int words_of(gy_rows_aggregate_kind kind, gy_field_kind field)
{
    if (is_count(kind)) {
        return 1;
    }
    if (is_sum(kind)) {
        return sum_words(field);
    }
    return field == GY_FIELD_DECIMAL || field == GY_FIELD_TEXT ? 3 : 2;
}

int gy_rows_state_columns(const gy_rows_aggregate_of *aggregate, const gy_field *field)
{
    return is_sum(aggregate->kind)          ? sum_words(field->kind)
           : aggregate->kind == GY_ROWS_OWN ? own_words(aggregate->own)
                                            : 1;
}

static const char *kind_name(gy_rows_aggregate_kind kind)
{
    switch (kind) {
#define GY_X(name, value, text)                                                                \
    case GY_ROWS_##name:                                                                       \
        return text;
        GY_ROWS_AGGREGATE_LIST(GY_X)
#undef GY_X
    default:
        return "no aggregate";
    }
}

gy_status gy_rows_state_init(gy_rows_state *state, const gy_rows_aggregate_of *of,
                             const gy_field *field)
{
    const gy_rows_aggregate_kind kind = of->kind;
    const bool is_bool = kind == GY_ROWS_BOOL_AND || kind == GY_ROWS_BOOL_OR;
    const bool is_number = field->kind == GY_FIELD_INT64 || field->kind == GY_FIELD_DECIMAL ||
                           field->kind == GY_FIELD_DOUBLE;
    if ((is_sum(kind) && !is_number) || (is_bool && field->kind != GY_FIELD_BOOL)) {
        return gy_fail(GY_TYPE, "%s of column '%s', which is %s", kind_name(kind), field->name,
                       gy_field_kind_name(field->kind));
    }
    *state = (gy_rows_state){.of = *of, .field = *field};
    state->field.name = "";
    state->words = kind == GY_ROWS_OWN ? own_words(of->own) : words_of(kind, field->kind);
    state->column_count = gy_rows_state_columns(of, field);
    return GY_OK;
}

gy_field gy_rows_state_answer(const gy_rows_state *state)
{
    gy_field field = {.name = state->of.name == NULL ? "" : state->of.name,
                      .kind = state->field.kind};
    if (is_count(state->of.kind)) {
        field.kind = GY_FIELD_INT64;
    } else if (state->of.kind == GY_ROWS_OWN) {
        const gy_field *result = &state->of.own->result;
        field.kind = result->kind;
        field.precision = result->precision;
        field.scale = result->scale;
    } else if (is_sum(state->of.kind) && field.kind != GY_FIELD_DOUBLE) {
        field.kind = GY_FIELD_DECIMAL;
        field.precision = GY_DECIMAL_DIGITS_MAX;
        field.scale = state->of.kind == GY_ROWS_SUM
                          ? state->field.scale
                          : GY_MAX(state->field.scale, (int)AVG_PLACES);
    } else if (field.kind == GY_FIELD_DECIMAL) {
        field.precision = state->field.precision;
        field.scale = state->field.scale;
    }
    return field;
}

gy_field gy_rows_state_field(const gy_rows_state *state, int i)
{
    GY_ASSERT(i < state->column_count);
    if (is_sum(state->of.kind) || state->of.kind == GY_ROWS_OWN) {
        return (gy_field){.name = "", .kind = GY_FIELD_INT64};
    }
    return gy_rows_state_answer(state);
}

/* ---- adding ---- */

/* Add a number of 128 bits to one of 192, or of 128, in words. */
static inline void add_wide(uint64_t *words, gy_int128 value, bool has_top)
{
    const wide old = (wide)words[1] << 64 | words[0], sum = old + (wide)value;
    words[0] = (uint64_t)sum;
    words[1] = (uint64_t)(sum >> 64);
    if (has_top) {
        words[2] += (value < 0 ? UINT64_MAX : 0) + (sum < old);
    }
}

/* Rows that count: those with a value that pass the filter. NULL: all. */
static const uint8_t *used_rows(const gy_rows_state *state, const gy_rows_batch *batch,
                                uint8_t *used)
{
    const bool is_star = state->of.kind == GY_ROWS_COUNT_STAR;
    gy_column column = {.valid = NULL}, filter = {.valid = NULL};
    if (!is_star) {
        column = gy_frame_column(batch->frame, state->of.column);
    }
    if (!state->of.has_filter && column.valid == NULL) {
        return NULL;
    }
    if (state->of.has_filter) {
        filter = gy_frame_column(batch->frame, state->of.filter);
    }
    for (int64_t i = 0; i < batch->count; i++) {
        const int64_t row = batch->begin + i;
        used[i] = column.valid == NULL || !gy_column_is_null(&column, row);
        if (state->of.has_filter) {
            used[i] &= !gy_column_is_null(&filter, row) && gy_column_bool(&filter, row);
        }
    }
    return used;
}

static void add_sums(const gy_rows_state *state, const gy_rows_batch *batch,
                     const uint8_t *used)
{
    const gy_column column = gy_frame_column(batch->frame, state->of.column);
    const gy_field_kind kind = state->field.kind;
    for (int64_t i = 0; i < batch->count; i++) {
        if (used != NULL && used[i] == 0) {
            continue;
        }
        uint64_t *words = batch->records[i] + state->offset;
        words[0]++;
        if (kind == GY_FIELD_INT64) {
            add_wide(words + 1, gy_column_int64(&column, batch->begin + i), false);
        } else if (kind == GY_FIELD_DECIMAL) {
            add_wide(words + 1, gy_column_decimal(&column, batch->begin + i), true);
        } else {
            gy_rows_exact_add(words + 1, gy_column_double(&column, batch->begin + i));
        }
    }
}

/* The order of two values of a kind, as words. */
static int compare_words(gy_field_kind kind, const uint64_t *a, const uint64_t *b)
{
    if (kind == GY_FIELD_TEXT) {
        const gy_text_view x = gy_rows_text_get(a), y = gy_rows_text_get(b);
        const int order = memcmp(x.data, y.data, GY_MIN(x.size_bytes, y.size_bytes));
        return order != 0 ? order
                          : (x.size_bytes > y.size_bytes) - (x.size_bytes < y.size_bytes);
    }
    if (kind == GY_FIELD_DOUBLE) {
        double x, y;
        memcpy(&x, a, sizeof(x));
        memcpy(&y, b, sizeof(y));
        const uint64_t left = gy_rows_order_double(x), right = gy_rows_order_double(y);
        if (left != right) {
            return left > right ? 1 : -1;
        }
        /* -0 before 0, so that it does not matter which came first */
        return ((int64_t)a[0] > (int64_t)b[0]) - ((int64_t)a[0] < (int64_t)b[0]);
    }
    if (kind == GY_FIELD_DECIMAL && a[1] != b[1]) {
        return (int64_t)a[1] < (int64_t)b[1] ? -1 : 1;
    }
    if (kind == GY_FIELD_DECIMAL) {
        return (a[0] > b[0]) - (a[0] < b[0]);
    }
    return ((int64_t)a[0] > (int64_t)b[0]) - ((int64_t)a[0] < (int64_t)b[0]);
}

static bool replaces(const gy_rows_state *state, const uint64_t *had, const uint64_t *value)
{
    switch (state->of.kind) {
    case GY_ROWS_MIN:
    case GY_ROWS_BOOL_AND:
        return compare_words(state->field.kind, value, had) < 0;
    case GY_ROWS_MAX:
    case GY_ROWS_BOOL_OR:
        return compare_words(state->field.kind, value, had) > 0;
    case GY_ROWS_COUNT_STAR:
    case GY_ROWS_COUNT:
    case GY_ROWS_SUM:
    case GY_ROWS_AVG:
    case GY_ROWS_ANY:
    case GY_ROWS_OWN:
    default:
        return false;
    }
}

/* Put a text into the heap, over the one it replaces where there is room: a maximum that grows
 * row by row keeps no trace of those before. */
static gy_status keep_text(gy_rows_heap *heap, const gy_text_view *had, uint64_t *words)
{
    const gy_text_view text = gy_rows_text_get(words);
    if (text.size_bytes <= GY_ROWS_TEXT_INLINE || had->size_bytes < text.size_bytes) {
        return gy_rows_text_keep(heap, words);
    }
    union {
        const char *text;
        char *memory;
    } place = {.text = had->data};
    memcpy(place.memory, text.data, text.size_bytes);
    memcpy(words + 1, &place.memory, sizeof(place.memory));
    return GY_OK;
}

static gy_status add_values(const gy_rows_state *state, const gy_rows_batch *batch,
                            const uint8_t *used)
{
    const gy_column column = gy_frame_column(batch->frame, state->of.column);
    const bool is_double = state->field.kind == GY_FIELD_DOUBLE;
    for (int64_t i = 0; i < batch->count; i++) {
        if (used != NULL && used[i] == 0) {
            continue;
        }
        uint64_t *words = batch->records[i] + state->offset, value[2];
        if (is_double) { /* as it is: a key has one zero and one NaN */
            memcpy(value, (const double *)column.values + column.offset + batch->begin + i, 8);
        } else {
            gy_rows_value_write(&column, batch->begin + i, value);
        }
        if (words[0] != 0 && !replaces(state, words + 1, value)) {
            continue;
        }
        gy_text_view had = {.data = NULL};
        if (state->field.kind == GY_FIELD_TEXT && words[0] != 0) {
            had = gy_rows_text_get(words + 1);
        }
        words[0] = 1;
        memcpy(words + 1, value, (size_t)(state->words - 1) * sizeof(value[0]));
        if (state->field.kind == GY_FIELD_TEXT) {
            GY_TRY(keep_text(batch->heap, &had, words + 1));
        }
    }
    return GY_OK;
}

/* ---- functions of the program ---- */

static gy_function_value own_value(gy_field_kind kind, const gy_column *column, int64_t row)
{
    gy_function_value value = {.is_null = gy_column_is_null(column, row), .decimal = 0};
    if (value.is_null) {
        return value;
    }
    switch (kind) {
    case GY_FIELD_BOOL:
        value.truth = gy_column_bool(column, row);
        break;
    case GY_FIELD_DOUBLE:
        value.real = gy_column_double(column, row);
        break;
    case GY_FIELD_DECIMAL:
        value.decimal = gy_column_decimal(column, row);
        break;
    case GY_FIELD_DATE:
        value.integer = gy_column_date(column, row);
        break;
    case GY_FIELD_TEXT:
        value.text = gy_column_text(column, row);
        break;
    case GY_FIELD_INT64:
    case GY_FIELD_TIMESTAMP:
    default:
        value.integer = gy_column_int64(column, row);
        break;
    }
    return value;
}

/* The state of a group, which begins with its first row. */
static void *own_state(const gy_rows_state *state, gy_function_call *call, uint64_t *words)
{
    if (words[0] == 0) {
        words[0] = 1;
        memset(words + 1, 0, (size_t)(state->words - 1) * sizeof(words[0]));
        if (state->of.own->initialise != NULL) {
            state->of.own->initialise(call, words + 1);
        }
    }
    return words + 1;
}

static gy_status add_own(const gy_rows_state *state, const gy_rows_batch *batch)
{
    const gy_query_function *own = state->of.own;
    const int count = own->parameter_count;
    gy_function_call call = {.function = own};
    gy_column columns[GY_FUNCTION_PARAMETERS_MAX] = {{.valid = NULL}}, filter = {.valid = NULL};
    gy_function_value values[GY_FUNCTION_PARAMETERS_MAX];
    GY_ASSERT(count > 0 && count <= GY_FUNCTION_PARAMETERS_MAX);
    for (int k = 0; k < count; k++) {
        columns[k] =
            gy_frame_column(batch->frame, k == 0 ? state->of.column : state->of.more[k - 1]);
    }
    if (state->of.has_filter) {
        filter = gy_frame_column(batch->frame, state->of.filter);
    }
    for (int64_t i = 0; i < batch->count; i++) {
        const int64_t row = batch->begin + i;
        bool is_used = !state->of.has_filter ||
                       (!gy_column_is_null(&filter, row) && gy_column_bool(&filter, row));
        for (int k = 0; k < count && is_used; k++) {
            values[k] = own_value(own->parameters[k].kind, &columns[k], row);
            is_used = own->takes_nulls || !values[k].is_null;
        }
        if (is_used) {
            void *to = own_state(state, &call, batch->records[i] + state->offset);
            GY_TRY(gy_query_function_end(&call, own->accumulate(&call, to, values)));
        }
    }
    return GY_OK;
}

static gy_status merge_own(const gy_rows_state *state, const gy_rows_batch *batch)
{
    const gy_query_function *own = state->of.own;
    gy_function_call call = {.function = own};
    gy_column columns[1 + GY_FUNCTION_STATE_BYTES_MAX / sizeof(uint64_t)];
    uint64_t other[GY_COUNT(columns)] = {0};
    for (int k = 0; k < state->column_count; k++) {
        columns[k] = gy_frame_column(batch->frame, state->of.column + k);
    }
    for (int64_t i = 0; i < batch->count; i++) {
        uint64_t *words = batch->records[i] + state->offset;
        for (int k = 0; k < state->column_count; k++) {
            other[k] = (uint64_t)gy_column_int64(&columns[k], batch->begin + i);
        }
        if (other[0] != 0 && words[0] == 0) {
            memcpy(words, other, (size_t)state->words * sizeof(words[0]));
        } else if (other[0] != 0) {
            GY_TRY(gy_query_function_end(&call, own->merge(&call, words + 1, other + 1)));
        }
    }
    return GY_OK;
}

static char *own_text(void *arg, size_t size_bytes)
{
    return gy_rows_heap_take(arg, size_bytes);
}

static gy_status append_own(const gy_function_value *value, gy_frame_maker *maker)
{
    uint64_t words[2] = {0, 0};
    if (value->is_null) {
        gy_frame_maker_null(maker);
        return GY_OK;
    }
    switch (maker->field.kind) {
    case GY_FIELD_BOOL:
        words[0] = value->truth;
        break;
    case GY_FIELD_DOUBLE:
        memcpy(words, &value->real, sizeof(value->real));
        break;
    case GY_FIELD_DECIMAL:
        memcpy(words, &value->decimal, sizeof(value->decimal));
        break;
    case GY_FIELD_TEXT:
        gy_rows_text_put(words, value->text.data, value->text.size_bytes);
        break;
    case GY_FIELD_INT64:
    case GY_FIELD_DATE:
    case GY_FIELD_TIMESTAMP:
    default:
        words[0] = (uint64_t)value->integer;
        break;
    }
    return gy_rows_value_append(maker, words);
}

static gy_status finish_own(const gy_rows_state *state, const uint64_t *words,
                            gy_rows_heap *texts, gy_frame_maker *maker)
{
    const gy_query_function *own = state->of.own;
    uint64_t none[1 + GY_FUNCTION_STATE_BYTES_MAX / sizeof(uint64_t)];
    gy_function_value result = {.is_null = false, .decimal = 0};
    gy_function_call call = {.function = own, .text = own_text, .text_arg = texts};
    if (words[0] == 0) {
        none[0] = 0;
        (void)own_state(state, &call, none);
        words = none;
    }
    GY_TRY(gy_query_function_end(&call, own->finish(&call, words + 1, &result)));
    GY_TRY(gy_query_function_check(&call, &result));
    return append_own(&result, maker);
}

static gy_status emit_own(const gy_rows_state *state, const uint64_t *const *records,
                          int64_t count, gy_frame_maker *maker)
{
    gy_rows_heap texts = {.count = 0};
    gy_status status = GY_OK;
    for (int64_t i = 0; i < count && status == GY_OK; i++) {
        status = finish_own(state, records[i] + state->offset, &texts, maker);
    }
    gy_rows_heap_free(&texts);
    return status;
}

/* ---- adding ---- */

gy_status gy_rows_state_add(const gy_rows_state *state, const gy_rows_batch *batch)
{
    uint8_t marks[GY_ROWS_BATCH];
    GY_ASSERT(batch->count <= GY_ROWS_BATCH);
    if (state->of.kind == GY_ROWS_OWN) {
        return add_own(state, batch);
    }
    const uint8_t *used = used_rows(state, batch, marks);
    if (is_count(state->of.kind)) {
        for (int64_t i = 0; i < batch->count; i++) {
            batch->records[i][state->offset] += used == NULL || used[i] != 0;
        }
        return GY_OK;
    }
    if (is_sum(state->of.kind)) {
        add_sums(state, batch, used);
        return GY_OK;
    }
    return add_values(state, batch, used);
}

/* ---- merging ---- */

gy_status gy_rows_state_merge(const gy_rows_state *state, const gy_rows_batch *batch)
{
    if (state->of.kind == GY_ROWS_OWN) {
        return merge_own(state, batch);
    }
    if (!is_sum(state->of.kind) && !is_count(state->of.kind)) {
        uint8_t marks[GY_ROWS_BATCH];
        return add_values(state, batch, used_rows(state, batch, marks));
    }
    gy_column columns[1 + GY_ROWS_EXACT_WORDS];
    for (int k = 0; k < state->column_count; k++) {
        columns[k] = gy_frame_column(batch->frame, state->of.column + k);
    }
    for (int64_t i = 0; i < batch->count; i++) {
        uint64_t *words = batch->records[i] + state->offset,
                 other[1 + GY_ROWS_EXACT_WORDS] = {0};
        for (int k = 0; k < state->column_count; k++) {
            other[k] = (uint64_t)gy_column_int64(&columns[k], batch->begin + i);
        }
        words[0] += other[0];
        if (is_count(state->of.kind)) {
            continue;
        }
        if (state->field.kind == GY_FIELD_DOUBLE) {
            gy_rows_exact_merge(words + 1, other + 1);
        } else {
            const wide value = (wide)other[2] << 64 | other[1];
            const bool has_top = state->field.kind == GY_FIELD_DECIMAL;
            add_wide(words + 1, (gy_int128)value, has_top);
            if (has_top) { /* the sign of the lower 128 bits was added; it is not the sum's */
                words[3] += other[3] + ((gy_int128)value < 0);
            }
        }
    }
    return GY_OK;
}

/* ---- giving ---- */

static gy_int128 power_of_ten(int digits)
{
    gy_int128 power = 1;
    for (int i = 0; i < digits; i++) {
        power *= 10;
    }
    return power;
}

static gy_status too_many_digits(const gy_rows_state *state)
{
    return gy_fail(GY_LIMIT, "%s has more than %d digits", kind_name(state->of.kind),
                   (int)GY_DECIMAL_DIGITS_MAX);
}

/* sum * 10^places / count, half away from zero. */
static bool divide(gy_int128 sum, uint64_t count, int places, gy_int128 *answer)
{
    const bool is_negative = sum < 0;
    const wide whole = is_negative ? 0 - (wide)sum : (wide)sum;
    const wide power = (wide)power_of_ten(places);
    const wide quotient = whole / count, rest = whole % count; /* rest < 2^63 */
    if (quotient >= (wide)power_of_ten(GY_DECIMAL_DIGITS_MAX) / power) {
        return false;
    }
    const wide scaled = rest * power; /* below 2^(63 + 54) */
    const wide below = scaled % count;
    const wide value = quotient * power + scaled / count + (below >= count - below);
    *answer = is_negative ? -(gy_int128)value : (gy_int128)value;
    return value < (wide)power_of_ten(GY_DECIMAL_DIGITS_MAX);
}

static gy_status answer_decimal(const gy_rows_state *state, const uint64_t *words,
                                gy_int128 *answer)
{
    const gy_int128 sum = (gy_int128)((wide)words[2] << 64 | words[1]);
    /* of 192 bits the upper ones must be the sign of the lower ones */
    const bool fits =
        state->field.kind == GY_FIELD_INT64 || words[3] == (sum < 0 ? UINT64_MAX : 0);
    const gy_int128 bound = power_of_ten(GY_DECIMAL_DIGITS_MAX);
    if (!fits) {
        return too_many_digits(state);
    }
    if (state->of.kind == GY_ROWS_SUM) {
        *answer = sum;
        return sum < bound && sum > -bound ? GY_OK : too_many_digits(state);
    }
    const int places = gy_rows_state_answer(state).scale - state->field.scale;
    return divide(sum, words[0], places, answer) ? GY_OK : too_many_digits(state);
}

static gy_status emit_sums(const gy_rows_state *state, const uint64_t *const *records,
                           int64_t count, gy_frame_maker *maker)
{
    for (int64_t i = 0; i < count; i++) {
        const uint64_t *words = records[i] + state->offset;
        if (words[0] == 0) {
            gy_frame_maker_null(maker);
        } else if (state->field.kind == GY_FIELD_DOUBLE) {
            double *to = (double *)maker->values + maker->rows;
            GY_TRY(gy_rows_exact_sum(words + 1, to));
            *to = state->of.kind == GY_ROWS_AVG ? *to / (double)words[0] : *to;
            gy_frame_maker_set(maker);
        } else {
            gy_int128 answer = 0;
            GY_TRY(answer_decimal(state, words, &answer));
            memcpy((char *)maker->values + 16 * maker->rows, &answer, sizeof(answer));
            gy_frame_maker_set(maker);
        }
    }
    return GY_OK;
}

gy_status gy_rows_state_emit(const gy_rows_state *state, const uint64_t *const *records,
                             int64_t count, bool is_final, gy_frame_maker *makers)
{
    const bool has_sum = is_sum(state->of.kind);
    const int columns = is_final ? 1 : state->column_count;
    for (int k = 0; k < columns; k++) {
        GY_TRY(gy_frame_maker_reserve(&makers[k], count));
    }
    if (has_sum && is_final) {
        return emit_sums(state, records, count, makers);
    }
    const bool is_own = state->of.kind == GY_ROWS_OWN;
    if (is_own && is_final) {
        return emit_own(state, records, count, makers);
    }
    const bool has_number = has_sum || is_own || is_count(state->of.kind);
    for (int k = 0; k < columns; k++) {
        for (int64_t i = 0; i < count; i++) {
            const uint64_t *words = records[i] + state->offset;
            if (has_number) {
                ((uint64_t *)makers[k].values)[makers[k].rows] = words[k];
                gy_frame_maker_set(&makers[k]);
            } else if (words[0] == 0) {
                gy_frame_maker_null(&makers[k]);
            } else {
                GY_TRY(gy_rows_value_append(&makers[k], words + 1));
            }
        }
    }
    return GY_OK;
}
