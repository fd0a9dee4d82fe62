/* The bytes of data files as matrices. */
#include "dml/files/files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct cursor {
    const char *path, *at, *end;
    int64_t line; /* of `at`, from 1 */
} cursor;

/* Powers of ten that doubles hold exactly: a mantissa below 2^53 times or over one of them is
 * rounded once (Clinger 1990). */
static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static bool slow_number(const char *text, size_t size, double *value)
{
    char copy[64];
    char *end = NULL;
    if (size == 0 || size >= sizeof(copy)) {
        return false;
    }
    memcpy(copy, text, size);
    copy[size] = '\0';
    *value = strtod(copy, &end);
    return *end == '\0' && copy[strspn(copy, "0123456789+-.eEaAfFiInNtTyY")] == '\0';
}

/* Digits from *at on into a mantissa; how many there were. */
static int take_digits(const char **at, const char *end, uint64_t *mantissa)
{
    int count = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at, count++) {
        *mantissa = *mantissa * 10 + (uint64_t)(**at - '0');
    }
    return count;
}

static bool number(const char *text, size_t size, double *value)
{
    const char *at = text, *end = text + size;
    const bool is_negative = size > 0 && *at == '-';
    uint64_t mantissa = 0;
    at += is_negative;
    const int whole = take_digits(&at, end, &mantissa);
    int fraction = 0;
    if (at < end && *at == '.') {
        at++;
        fraction = take_digits(&at, end, &mantissa);
    }
    if (at != end || whole + fraction == 0 || whole + fraction > 18 || fraction > 22 ||
        mantissa >= (uint64_t)1 << 53) {
        return slow_number(text, size, value);
    }
    const double plain = (double)mantissa / powers[fraction];
    *value = is_negative ? -plain : plain;
    return true;
}

static gy_status refuse(const cursor *in, int64_t column, const char *text, size_t size,
                        const char *what)
{
    return gy_fail(GY_FORMAT, "%s: line %lld, column %lld: expected %s, found \"%.*s\"",
                   in->path, (long long)in->line, (long long)column, what,
                   (int)GY_MIN(size, 40u), text);
}

/* The next line without its end; false at the end of the bytes. */
static bool next_line(cursor *in, const char **line, size_t *size)
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

/* ---- CSV ---- */

static bool is_na(const gy_dml_meta *meta, const char *text, size_t size)
{
    for (int i = 0; i < meta->na_count; i++) {
        if (strlen(meta->na_strings[i]) == size &&
            memcmp(meta->na_strings[i], text, size) == 0) {
            return true;
        }
    }
    return false;
}

static const char *field_end(const char *at, const char *end, const char *separator,
                             size_t separator_size)
{
    if (separator_size == 1) {
        const char *found = memchr(at, separator[0], (size_t)(end - at));
        return found != NULL ? found : end;
    }
    const char *found = memmem(at, (size_t)(end - at), separator, separator_size);
    return found != NULL ? found : end;
}

static int64_t count_fields(const char *line, size_t size, const char *separator)
{
    const size_t separator_size = strlen(separator);
    int64_t count = 1;
    const char *end = line + size;
    for (const char *at = line; (at = field_end(at, end, separator, separator_size)) < end;) {
        at += separator_size;
        count++;
    }
    return count;
}

static gy_status csv_cell(const cursor *in, const gy_dml_meta *meta, int64_t column,
                          const char *text, size_t size, double *value)
{
    while (size > 0 && (*text == ' ' || *text == '\t')) {
        text++;
        size--;
    }
    while (size > 0 && (text[size - 1] == ' ' || text[size - 1] == '\t')) {
        size--;
    }
    if (size == 0 && meta->is_filled) {
        *value = meta->fill_value;
        return GY_OK;
    }
    if (is_na(meta, text, size)) {
        *value = NAN;
        return GY_OK;
    }
    return number(text, size, value) ? GY_OK : refuse(in, column, text, size, "a number");
}

static gy_status csv_row(const cursor *in, const gy_dml_meta *meta, const char *line,
                         size_t size, int64_t columns, double *row)
{
    const size_t separator_size = strlen(meta->separator);
    const char *at = line, *end = line + size;
    for (int64_t j = 0; j < columns; j++) {
        const char *stop = field_end(at, end, meta->separator, separator_size);
        const bool is_last = j == columns - 1;
        if (is_last != (stop == end)) {
            return gy_fail(GY_FORMAT, "%s: line %lld has %lld fields, expected %lld", in->path,
                           (long long)in->line,
                           (long long)count_fields(line, size, meta->separator),
                           (long long)columns);
        }
        GY_TRY(csv_cell(in, meta, j + 1, at, (size_t)(stop - at), &row[j]));
        at = stop + (is_last ? 0 : separator_size);
    }
    return GY_OK;
}

static gy_status parse_csv(cursor in, const gy_dml_meta *meta, gy_dml_matrix **matrix)
{
    const char *line = NULL;
    size_t size = 0;
    int64_t rows = 0, columns = meta->columns, i = 0;
    if (meta->has_header) {
        (void)!next_line(&in, &line, &size);
    }
    for (cursor ahead = in; next_line(&ahead, &line, &size);) {
        columns = rows == 0 && columns < 0 && size > 0
                      ? count_fields(line, size, meta->separator)
                      : columns;
        rows += size > 0;
    }
    columns = GY_MAX(columns, 0);
    if (meta->rows >= 0 && meta->rows != rows) {
        return gy_fail(GY_FORMAT, "%s has %lld rows, expected %lld", in.path, (long long)rows,
                       (long long)meta->rows);
    }
    GY_TRY(gy_dml_matrix_new(rows, columns, matrix));
    while (next_line(&in, &line, &size)) {
        if (size > 0) {
            const gy_status status =
                csv_row(&in, meta, line, size, columns, (*matrix)->data + i++ * columns);
            if (status != GY_OK) {
                gy_dml_matrix_drop(*matrix);
                return status;
            }
        }
    }
    return GY_OK;
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
static gy_status take_cell(const cursor *in, const char *line, size_t size, bool is_pattern,
                           cells *to)
{
    const char *fields[4];
    size_t sizes[4];
    double row = 0, column = 0, value = 1;
    const int count = split(line, size, fields, sizes), wanted = is_pattern ? 2 : 3;
    if (count == 0) {
        return GY_OK;
    }
    if (count != wanted) {
        return refuse(in, count, line, size,
                      is_pattern ? "row and column" : "row, column, value");
    }
    if (!number(fields[0], sizes[0], &row) || !(row >= 1 && row < 0x1p40)) {
        return refuse(in, 1, fields[0], sizes[0], "a row from 1");
    }
    if (!number(fields[1], sizes[1], &column) || !(column >= 1 && column < 0x1p40)) {
        return refuse(in, 2, fields[1], sizes[1], "a column from 1");
    }
    if (!is_pattern && !number(fields[2], sizes[2], &value)) {
        return refuse(in, 3, fields[2], sizes[2], "a number");
    }
    return add_cell(to, (int64_t)row - 1, (int64_t)column - 1, value);
}

/* `mirror`: 0 none, 1 of a symmetric matrix, -1 of a skew one. */
static gy_status fill_cells(const cursor *in, const cells *from, int64_t rows, int64_t columns,
                            int mirror, gy_dml_matrix **matrix)
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

static gy_status parse_text(cursor in, const gy_dml_meta *meta, gy_dml_matrix **matrix)
{
    const char *line = NULL;
    size_t size = 0;
    cells all = {.count = 0};
    gy_status status = GY_OK;
    while (status == GY_OK && next_line(&in, &line, &size)) {
        status = take_cell(&in, line, size, false, &all);
    }
    status =
        status == GY_OK ? fill_cells(&in, &all, meta->rows, meta->columns, 0, matrix) : status;
    cells_free(&all);
    return status;
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

static gy_status market_head(cursor *in, market *of)
{
    const char *line = NULL, *fields[4];
    size_t size = 0, sizes[4];
    double numbers[3] = {0};
    if (!next_line(in, &line, &size) || !has_word(line, size, "%%MatrixMarket matrix") ||
        has_word(line, size, "complex") || has_word(line, size, "hermitian")) {
        return gy_fail(GY_FORMAT, "%s: expected a line %%%%MatrixMarket matrix of real numbers",
                       in->path);
    }
    of->is_array = has_word(line, size, "array");
    of->is_pattern = has_word(line, size, "pattern");
    of->mirror =
        has_word(line, size, "skew-symmetric") ? -1 : has_word(line, size, "symmetric");
    do {
        if (!next_line(in, &line, &size)) {
            return gy_fail(GY_FORMAT, "%s: ends before its sizes", in->path);
        }
    } while (size == 0 || line[0] == '%');
    const int wanted = of->is_array ? 2 : 3;
    if (split(line, size, fields, sizes) != wanted) {
        return refuse(in, 1, line, size, "the sizes");
    }
    for (int k = 0; k < wanted; k++) {
        if (!number(fields[k], sizes[k], &numbers[k]) ||
            !(numbers[k] >= 0 && numbers[k] < 0x1p40)) {
            return refuse(in, k + 1, fields[k], sizes[k], "a size");
        }
    }
    of->rows = (int64_t)numbers[0];
    of->columns = (int64_t)numbers[1];
    return GY_OK;
}

/* Values by columns, of a symmetric matrix from the diagonal down. */
static gy_status market_array(cursor *in, const market *of, cells *to)
{
    const char *line = NULL;
    size_t size = 0;
    int64_t i = of->mirror == -1, j = 0;
    double value = 0;
    while (next_line(in, &line, &size)) {
        const size_t at = skip_space(line, size, 0);
        if (at == size || line[at] == '%') {
            continue;
        }
        while (j < of->columns && i >= of->rows) {
            j++;
            i = of->mirror != 0 ? j + (of->mirror == -1) : 0;
        }
        if (j >= of->columns || !number(line + at, size - at, &value)) {
            return refuse(in, 1, line, size, j >= of->columns ? "the end" : "a number");
        }
        GY_TRY(add_cell(to, i++, j, value));
    }
    return GY_OK;
}

static gy_status parse_market(cursor in, gy_dml_matrix **matrix)
{
    const char *line = NULL;
    size_t size = 0;
    market of = {.rows = 0};
    cells all = {.count = 0};
    GY_TRY(market_head(&in, &of));
    gy_status status = of.is_array ? market_array(&in, &of, &all) : GY_OK;
    while (!of.is_array && status == GY_OK && next_line(&in, &line, &size)) {
        if (size > 0 && line[0] != '%') {
            status = take_cell(&in, line, size, of.is_pattern, &all);
        }
    }
    status = status == GY_OK ? fill_cells(&in, &all, of.rows, of.columns, of.mirror, matrix)
                             : status;
    cells_free(&all);
    return status;
}

/* What a file seems to be. */
static gy_dml_file_format guess(const cursor *in, const gy_dml_meta *meta)
{
    const size_t size = (size_t)(in->end - in->at);
    const char *end = size > 0 ? memchr(in->at, '\n', size) : NULL;
    const size_t line = end != NULL ? (size_t)(end - in->at) : size;
    const char *fields[4];
    size_t sizes[4];
    if (size >= 14 && memcmp(in->at, "%%MatrixMarket", 14) == 0) {
        return GY_DML_FILE_MARKET;
    }
    const bool has_separator =
        size > 0 && memmem(in->at, line, meta->separator, strlen(meta->separator)) != NULL;
    return !has_separator && split(in->at, line, fields, sizes) == 3 ? GY_DML_FILE_TEXT
                                                                     : GY_DML_FILE_CSV;
}

gy_status gy_dml_file_parse(const char *path, const gy_dml_meta *meta, const char *data,
                            size_t size, gy_dml_matrix **matrix)
{
    const cursor in = {.path = path, .at = data, .end = data + size};
    const gy_dml_file_format format =
        meta->format != GY_DML_FILE_UNKNOWN ? meta->format : guess(&in, meta);
    return format == GY_DML_FILE_CSV    ? parse_csv(in, meta, matrix)
           : format == GY_DML_FILE_TEXT ? parse_text(in, meta, matrix)
                                        : parse_market(in, matrix);
}
