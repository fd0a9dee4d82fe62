/* Values as SystemDS prints them: doubles as Java writes them, matrices as rows of decimals. */
#include "dml/values/frame.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The digits of a number in `shown`, d.ddde±xx, as Java writes it. */
static void add_digits(gy_text *text, char shown[40], bool is_zero)
{
    char *exponent = strchr(shown, 'e');
    const int power = (int)strtol(exponent + 1, NULL, 10);
    *exponent = '\0';
    const char *point = strchr(shown, '.');
    size_t size = strlen(shown);
    while (point != NULL && shown[size - 1] == '0') {
        shown[--size] = '\0';
    }
    if (point != NULL && shown[size - 1] == '.') {
        shown[--size] = '\0';
    }
    const int fraction = strchr(shown, '.') != NULL ? (int)strlen(strchr(shown, '.')) - 1 : 0;
    if (!is_zero && (power < -3 || power >= 7)) {
        gy_text_add(text, "%s%sE%d", shown, fraction == 0 ? ".0" : "", power);
        return;
    }
    const int decimals = GY_MAX(fraction - power, 1);
    char value[64]; /* the same digits, the point where the power has it */
    gy_print(value, sizeof(value), "%se%d", shown, power);
    gy_text_add(text, "%.*f", decimals, strtod(value, NULL));
}

static bool add_unusual(gy_text *text, double real)
{
    if (isnan(real) || isinf(real)) {
        gy_text_add(text, "%s", isnan(real) ? "NaN" : real > 0 ? "Infinity" : "-Infinity");
    }
    return isnan(real) || isinf(real);
}

void gy_dml_add_real(gy_text *text, double real)
{
    char shown[40];
    if (add_unusual(text, real)) {
        return;
    }
    /* The fewest digits that are read as the same double. Every decimal of 15 digits comes back
     * from the double nearest to it, so that fewer than 15 are 15 with zeros at the end;
     * denormal numbers have less digits than that. */
    const bool is_small = fabs(real) < DBL_MIN;
    for (int digits = is_small ? 0 : 14; digits < 17; digits++) {
        gy_print(shown, sizeof(shown), "%.*e", digits, real);
        if (strtod(shown, NULL) == real) {
            break;
        }
    }
    add_digits(text, shown, real == 0);
}

void gy_dml_add_single(gy_text *text, float single)
{
    char shown[40];
    if (add_unusual(text, (double)single)) {
        return;
    }
    for (int digits = 0; digits < 9; digits++) {
        gy_print(shown, sizeof(shown), "%.*e", digits, (double)single);
        if (strtof(shown, NULL) == single) {
            break;
        }
    }
    add_digits(text, shown, single == 0);
}

static void add_cell(gy_text *text, double value, int decimals)
{
    if (isnan(value) || isinf(value)) {
        gy_dml_add_real(text, value);
    } else if (decimals >= 0) {
        gy_text_add(text, "%.*f", decimals, value == 0 ? 0.0 : value);
    } else { /* up to three decimals, without zeros at the end */
        char shown[400];
        gy_print(shown, sizeof(shown), "%.3f", value);
        size_t size = strlen(shown);
        while (shown[size - 1] == '0') {
            size--;
        }
        size -= shown[size - 1] == '.';
        gy_text_add_bytes(text, shown, size);
    }
}

void gy_dml_add_matrix(gy_text *text, const gy_dml_matrix *matrix,
                       const gy_dml_matrix_style *style)
{
    const int64_t rows = style->rows >= 0 ? GY_MIN(style->rows, matrix->rows) : matrix->rows;
    const int64_t columns =
        style->columns >= 0 ? GY_MIN(style->columns, matrix->columns) : matrix->columns;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            const double value = matrix->data[i * matrix->columns + j];
            if (style->is_sparse && value != 0) {
                gy_text_add(text, "%lld%s%lld%s", (long long)i + 1, style->between,
                            (long long)j + 1, style->between);
            }
            if (!style->is_sparse || value != 0) {
                add_cell(text, value, style->decimals);
                gy_text_add(text, "%s",
                            style->is_sparse || j == columns - 1 ? "" : style->between);
                gy_text_add(text, "%s", style->is_sparse ? style->line_end : "");
            }
        }
        gy_text_add(text, "%s", style->is_sparse ? "" : style->line_end);
    }
}

static void add_frame_cell(gy_text *text, const gy_dml_column *column, int64_t i, int decimals)
{
    if (gy_dml_column_is_missing(column, i)) {
        gy_text_add(text, "null");
    } else if (column->type == GY_DML_COLUMN_FP64) {
        add_cell(text, column->reals[i], decimals);
    } else if (column->type == GY_DML_COLUMN_BOOLEAN) {
        gy_text_add(text, "%s", column->truths[i] ? "TRUE" : "FALSE");
    } else {
        gy_dml_column_add(text, column, i);
    }
}

void gy_dml_add_frame(gy_text *text, const gy_dml_frame *frame,
                      const gy_dml_matrix_style *style)
{
    const int64_t rows = style->rows >= 0 ? GY_MIN(style->rows, frame->rows) : frame->rows;
    const int64_t columns =
        style->columns >= 0 ? GY_MIN(style->columns, frame->columns) : frame->columns;
    gy_text_add(text, "# FRAME: nrow = %lld, ncol = %lld%s#%s", (long long)frame->rows,
                (long long)frame->columns, style->line_end, style->between);
    for (int64_t j = 0; j < columns; j++) {
        gy_dml_frame_add_name(text, frame, j);
        gy_text_add(text, "%s", j < columns - 1 ? style->between : "");
    }
    gy_text_add(text, "%s#%s", style->line_end, style->between);
    for (int64_t j = 0; j < columns; j++) {
        gy_text_add(text, "%s%s", gy_dml_column_type_name(frame->items[j]->type),
                    j < columns - 1 ? style->between : "");
    }
    gy_text_add(text, "%s", style->line_end);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            add_frame_cell(text, frame->items[j], i, style->decimals);
            gy_text_add(text, "%s", j < columns - 1 ? style->between : "");
        }
        gy_text_add(text, "%s", style->line_end);
    }
}

static void add_list(gy_text *text, const gy_dml_list *list)
{
    gy_text_add(text, "List (");
    for (size_t i = 0; i < list->count; i++) {
        gy_text_add(text, "%s", i > 0 ? ", " : "");
        if (list->names != NULL && list->names[i] != NULL) {
            gy_text_add(text, "%s=", list->names[i]->data);
        }
        gy_dml_add_value(text, &list->items[i]);
    }
    gy_text_add(text, ")");
}

void gy_dml_add_value(gy_text *text, const gy_dml_value *value)
{
    static const gy_dml_matrix_style style = {
        .rows = 100, .columns = 100, .decimals = 3, .between = " ", .line_end = "\n"};
    static const gy_dml_matrix_style whole = {
        .rows = -1, .columns = -1, .decimals = 3, .between = " ", .line_end = "\n"};
    switch (value->kind) {
    case GY_DML_IS_INTEGER:
        gy_text_add(text, "%lld", (long long)value->whole);
        break;
    case GY_DML_IS_REAL:
        gy_dml_add_real(text, value->real);
        break;
    case GY_DML_IS_BOOLEAN:
        gy_text_add(text, "%s", value->truth ? "TRUE" : "FALSE");
        break;
    case GY_DML_IS_TEXT:
        gy_text_add_bytes(text, value->text->data, value->text->size);
        break;
    case GY_DML_IS_MATRIX:
        gy_dml_add_matrix(text, value->matrix, &style);
        break;
    case GY_DML_IS_FRAME:
        gy_dml_add_frame(text, value->frame, &whole);
        break;
    case GY_DML_IS_LIST:
        add_list(text, value->list);
        break;
    case GY_DML_IS_NOTHING:
        break;
    }
}
