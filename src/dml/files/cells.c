/* Text cells, "row column value", and MatrixMarket. */
#include "dml/files/files_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

gy_status gy_dml_refuse_field(const gy_dml_lines *in, int64_t column, const char *text,
                              size_t size, const char *what)
{
    return gy_fail(GY_FORMAT, "%s: line %lld, column %lld: expected %s, found \"%.*s\"",
                   in->path, (long long)in->line, (long long)column, what,
                   (int)GY_MIN(size, 40u), text);
}

bool gy_dml_next_line(gy_dml_lines *in, const char **line, size_t *size)
{
    if (in->at >= in->end) {
        return false;
    }
    const char *end = memchr(in->at, '\n', (size_t)(in->end - in->at));
    end = end != NULL ? end : in->end;
    *line = in->at;
    *size = (size_t)(end - in->at);
    *size -= *size > 0 && end[-1] == '\r';
    in->at = end + (end < in->end);
    in->line++;
    return true;
}

/* ---- cells ---- */

typedef struct cells {
    int64_t *places; /* row, column from 0 */
    double *values;
    size_t place_capacity, value_capacity, count;
    int64_t rows, columns; /* of the largest */
} cells;

static void cells_free(cells *of)
{
    gy_free(of->places);
    gy_free(of->values);
}

static size_t skip_space(const char *line, size_t size, size_t at)
{
    while (at < size && (line[at] == ' ' || line[at] == '\t')) {
        at++;
    }
    return at;
}

/* Up to four fields separated by whitespace; how many there are (5: more). */
static int split(const char *line, size_t size, const char *fields[4], size_t sizes[4])
{
    int count = 0;
    for (size_t at = skip_space(line, size, 0); at < size;) {
        size_t end = at;
        while (end < size && line[end] != ' ' && line[end] != '\t') {
            end++;
        }
        if (count == 4) {
            return 5;
        }
        fields[count] = line + at;
        sizes[count++] = end - at;
        at = skip_space(line, size, end);
    }
    return count;
}

static gy_status add_cell(cells *to, int64_t row, int64_t column, double value)
{
    GY_TRY(GY_GROW("dml.cells", to->places, to->place_capacity, 2 * (to->count + 1)));
    GY_TRY(GY_GROW("dml.cells", to->values, to->value_capacity, to->count + 1));
    to->places[2 * to->count] = row;
    to->places[2 * to->count + 1] = column;
    to->values[to->count++] = value;
    to->rows = GY_MAX(to->rows, row + 1);
    to->columns = GY_MAX(to->columns, column + 1);
    return GY_OK;
}

/* "row column value", or "row column" of a pattern. */
static gy_status take_cell(const gy_dml_lines *in, const char *line, size_t size,
                           bool is_pattern, cells *to)
{
    const char *fields[4];
    size_t sizes[4];
    double row = 0, column = 0, value = 1;
    const int count = split(line, size, fields, sizes), wanted = is_pattern ? 2 : 3;
    if (count == 0) {
        return GY_OK;
    }
    if (count != wanted) {
        return gy_dml_refuse_field(in, count, line, size,
                                   is_pattern ? "row and column" : "row, column, value");
    }
    if (!gy_dml_parse_real(fields[0], sizes[0], &row) || !(row >= 1 && row < 0x1p40)) {
        return gy_dml_refuse_field(in, 1, fields[0], sizes[0], "a row from 1");
    }
    if (!gy_dml_parse_real(fields[1], sizes[1], &column) || !(column >= 1 && column < 0x1p40)) {
        return gy_dml_refuse_field(in, 2, fields[1], sizes[1], "a column from 1");
    }
    if (!is_pattern && !gy_dml_parse_real(fields[2], sizes[2], &value)) {
        return gy_dml_refuse_field(in, 3, fields[2], sizes[2], "a number");
    }
    return add_cell(to, (int64_t)row - 1, (int64_t)column - 1, value);
}

/* `mirror`: 0 none, 1 of a symmetric matrix, -1 of a skew one. */
static gy_status fill_cells(const gy_dml_lines *in, const cells *from, int64_t rows,
                            int64_t columns, int mirror, gy_dml_matrix **matrix)
{
    rows = rows >= 0 ? rows : from->rows;
    columns = columns >= 0 ? columns : from->columns;
    if (from->rows > rows || from->columns > columns) {
        return gy_fail(GY_FORMAT, "%s: a cell in row %lld, column %lld of %lldx%lld", in->path,
                       (long long)from->rows, (long long)from->columns, (long long)rows,
                       (long long)columns);
    }
    GY_TRY(gy_dml_matrix_fill(rows, columns, 0, matrix));
    for (size_t k = 0; k < from->count; k++) {
        const int64_t i = from->places[2 * k], j = from->places[2 * k + 1];
        (*matrix)->data[i * columns + j] = from->values[k];
        if (mirror != 0 && i != j && i < columns && j < rows) {
            (*matrix)->data[j * columns + i] = mirror * from->values[k];
        }
    }
    return GY_OK;
}

gy_status gy_dml_cells_parse(gy_dml_bytes bytes, const gy_dml_meta *meta,
                             gy_dml_matrix **matrix)
{
    gy_dml_lines in = gy_dml_lines_of(bytes);
    const char *line = NULL;
    size_t size = 0;
    cells all = {.count = 0};
    gy_status status = GY_OK;
    while (status == GY_OK && gy_dml_next_line(&in, &line, &size)) {
        status = take_cell(&in, line, size, false, &all);
    }
    status =
        status == GY_OK ? fill_cells(&in, &all, meta->rows, meta->columns, 0, matrix) : status;
    cells_free(&all);
    return status;
}

/* The cells of a frame: "row column", and the rest of the line is the value. */
static gy_status take_frame_cell(const gy_dml_lines *in, const char *line, size_t size,
                                 gy_dml_frame *frame, int64_t largest[2])
{
    const char *fields[2];
    size_t sizes[2], at = skip_space(line, size, 0);
    double places[2] = {0};
    if (at == size) {
        return GY_OK;
    }
    for (int k = 0; k < 2; k++) {
        size_t end = at;
        while (end < size && line[end] != ' ' && line[end] != '\t') {
            end++;
        }
        fields[k] = line + at;
        sizes[k] = end - at;
        at = k == 0 ? skip_space(line, size, end) : end;
        if (!gy_dml_parse_real(fields[k], sizes[k], &places[k]) ||
            !(places[k] >= 1 && places[k] < 0x1p40)) {
            return gy_dml_refuse_field(in, k + 1, fields[k], sizes[k],
                                       k == 0 ? "a row from 1" : "a column from 1");
        }
        largest[k] = GY_MAX(largest[k], (int64_t)places[k]);
    }
    at += at < size; /* one space, what is behind it is the value's */
    if (frame == NULL) {
        return GY_OK;
    }
    gy_dml_column *column = frame->items[(int64_t)places[1] - 1];
    const gy_status status =
        gy_dml_column_set(column, (int64_t)places[0] - 1, line + at, size - at);
    return status == GY_OK || status == GY_NOMEM
               ? status
               : gy_dml_refuse_field(in, 3, line + at, size - at,
                                     gy_dml_column_type_name(column->type));
}

static gy_status take_frame_cells(gy_dml_bytes bytes, gy_dml_frame *frame, int64_t largest[2])
{
    gy_dml_lines in = gy_dml_lines_of(bytes);
    const char *line = NULL;
    size_t size = 0;
    while (gy_dml_next_line(&in, &line, &size)) {
        GY_TRY(take_frame_cell(&in, line, size, frame, largest));
    }
    return GY_OK;
}

gy_status gy_dml_cells_parse_frame(gy_dml_bytes bytes, const gy_dml_meta *meta,
                                   gy_dml_frame **frame)
{
    int64_t largest[2] = {0, 0};
    gy_dml_column_type *types = NULL;
    gy_dml_frame *made = NULL;
    GY_TRY(take_frame_cells(bytes, NULL, largest));
    const int64_t rows = meta->rows >= 0 ? meta->rows : largest[0];
    const int64_t columns = meta->columns >= 0 ? meta->columns : largest[1];
    if (largest[0] > rows || largest[1] > columns) {
        return gy_fail(GY_FORMAT, "%s: a cell in row %lld, column %lld of %lldx%lld",
                       bytes.path, (long long)largest[0], (long long)largest[1],
                       (long long)rows, (long long)columns);
    }
    GY_TRY(gy_dml_meta_types(bytes.path, meta, columns, &types));
    gy_status status = gy_dml_frame_new(rows, columns, types, &made);
    gy_free(types);
    status = status == GY_OK ? take_frame_cells(bytes, made, largest) : status;
    if (status != GY_OK) {
        gy_dml_frame_drop(made);
        return status;
    }
    *frame = made;
    return GY_OK;
}

/* ---- MatrixMarket ---- */

typedef struct market {
    bool is_array, is_pattern;
    int mirror;
    int64_t rows, columns;
} market;

static bool has_word(const char *line, size_t size, const char *word)
{
    const size_t length = strlen(word);
    for (size_t i = 0; i + length <= size; i++) {
        if (strncasecmp(line + i, word, length) == 0) {
            return true;
        }
    }
    return false;
}

static gy_status market_head(gy_dml_lines *in, market *of)
{
    const char *line = NULL, *fields[4];
    size_t size = 0, sizes[4];
    double numbers[3] = {0};
    if (!gy_dml_next_line(in, &line, &size) || !has_word(line, size, "%%MatrixMarket matrix") ||
        has_word(line, size, "complex") || has_word(line, size, "hermitian")) {
        return gy_fail(GY_FORMAT, "%s: expected a line %%%%MatrixMarket matrix of real numbers",
                       in->path);
    }
    of->is_array = has_word(line, size, "array");
    of->is_pattern = has_word(line, size, "pattern");
    of->mirror =
        has_word(line, size, "skew-symmetric") ? -1 : has_word(line, size, "symmetric");
    do {
        if (!gy_dml_next_line(in, &line, &size)) {
            return gy_fail(GY_FORMAT, "%s: ends before its sizes", in->path);
        }
    } while (size == 0 || line[0] == '%');
    const int wanted = of->is_array ? 2 : 3;
    if (split(line, size, fields, sizes) != wanted) {
        return gy_dml_refuse_field(in, 1, line, size, "the sizes");
    }
    for (int k = 0; k < wanted; k++) {
        if (!gy_dml_parse_real(fields[k], sizes[k], &numbers[k]) ||
            !(numbers[k] >= 0 && numbers[k] < 0x1p40)) {
            return gy_dml_refuse_field(in, k + 1, fields[k], sizes[k], "a size");
        }
    }
    of->rows = (int64_t)numbers[0];
    of->columns = (int64_t)numbers[1];
    return GY_OK;
}

/* Values by columns, of a symmetric matrix from the diagonal down. */
static gy_status market_array(gy_dml_lines *in, const market *of, cells *to)
{
    const char *line = NULL;
    size_t size = 0;
    int64_t i = of->mirror == -1, j = 0;
    double value = 0;
    while (gy_dml_next_line(in, &line, &size)) {
        const size_t at = skip_space(line, size, 0);
        if (at == size || line[at] == '%') {
            continue;
        }
        while (j < of->columns && i >= of->rows) {
            j++;
            i = of->mirror != 0 ? j + (of->mirror == -1) : 0;
        }
        if (j >= of->columns || !gy_dml_parse_real(line + at, size - at, &value)) {
            return gy_dml_refuse_field(in, 1, line, size,
                                       j >= of->columns ? "the end" : "a number");
        }
        GY_TRY(add_cell(to, i++, j, value));
    }
    return GY_OK;
}

gy_status gy_dml_market_parse(gy_dml_bytes bytes, gy_dml_matrix **matrix)
{
    gy_dml_lines in = gy_dml_lines_of(bytes);
    const char *line = NULL;
    size_t size = 0;
    market of = {.rows = 0};
    cells all = {.count = 0};
    GY_TRY(market_head(&in, &of));
    gy_status status = of.is_array ? market_array(&in, &of, &all) : GY_OK;
    while (!of.is_array && status == GY_OK && gy_dml_next_line(&in, &line, &size)) {
        if (size > 0 && line[0] != '%') {
            status = take_cell(&in, line, size, of.is_pattern, &all);
        }
    }
    status = status == GY_OK ? fill_cells(&in, &all, of.rows, of.columns, of.mirror, matrix)
                             : status;
    cells_free(&all);
    return status;
}
