/*
 * NPY, the format of NumPy's arrays: a magic, a version, a header that is a Python dictionary
 * with type, order and sizes, then the elements. One dimension is a column; of more than two,
 * the first is rows and the others lie side by side. IDX files, which are much alike, come from
 * room store.
 *
 * Source: NumPy enhancement proposal 1, "A simple file format for NumPy arrays".
 */
#include "dml/files/files_priv.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "files are written as memory has them");

enum { NPY_RANK_MAX = 8, NPY_ALIGNMENT = 64 };

static const char npy_magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

typedef struct npy {
    const char *path;
    const char *header, *header_end;
    char kind; /* of the elements: f, i, u, b */
    size_t item_bytes;
    bool is_swapped, is_by_column;
    int rank;
    int64_t sizes[NPY_RANK_MAX];
} npy;

static gy_status refuse(const npy *of, const char *what)
{
    return gy_fail(GY_FORMAT, "%s: NPY header: expected %s, found \"%.*s\"", of->path, what,
                   (int)GY_MIN(of->header_end - of->header, 100), of->header);
}

/* What stands behind 'key': in the header; NULL: it is not there. */
static const char *value_of(const npy *of, const char *key)
{
    char quoted[32];
    const size_t size = gy_print(quoted, sizeof(quoted), "'%s':", key);
    const char *at = memmem(of->header, (size_t)(of->header_end - of->header), quoted, size);
    at = at != NULL ? at + size : NULL;
    while (at != NULL && at < of->header_end && *at == ' ') {
        at++;
    }
    return at;
}

static bool begins(const npy *of, const char *at, const char *word)
{
    const size_t size = strlen(word);
    return at != NULL && (size_t)(of->header_end - at) >= size && memcmp(at, word, size) == 0;
}

/* '<f8' */
static gy_status take_type(npy *of)
{
    const char *at = value_of(of, "descr");
    if (at == NULL || of->header_end - at < 5 || at[0] != '\'' || at[4] != '\'') {
        return refuse(of, "an element type such as '<f8'");
    }
    const char order = at[1];
    of->kind = at[2];
    of->item_bytes = (size_t)(at[3] - '0');
    const bool is_known =
        strchr("<>|=", order) != NULL &&
        (of->kind == 'f'                      ? of->item_bytes == 4 || of->item_bytes == 8
         : of->kind == 'b'                    ? of->item_bytes == 1
         : of->kind == 'i' || of->kind == 'u' ? of->item_bytes == 1 || of->item_bytes == 2 ||
                                                    of->item_bytes == 4 || of->item_bytes == 8
                                              : false);
    of->is_swapped = order == '>';
    return is_known
               ? GY_OK
               : gy_fail(GY_UNSUPPORTED,
                         "%s: NPY elements of type %.5s are not read: f4, f8, i1 to i8, u1 "
                         "to u8 and b1 are",
                         of->path, at);
}

/* (3, 4), (3,) or () */
static gy_status take_shape(npy *of)
{
    const char *at = value_of(of, "shape");
    if (!begins(of, at, "(")) {
        return refuse(of, "sizes such as (3, 4)");
    }
    for (at++; at < of->header_end && *at != ')';) {
        int64_t size = 0;
        int digits = 0;
        while (at < of->header_end && isdigit((unsigned char)*at) && digits < 16) {
            size = size * 10 + (*at++ - '0');
            digits++;
        }
        if (digits == 0 || of->rank == NPY_RANK_MAX) {
            return refuse(of, "up to 8 sizes");
        }
        of->sizes[of->rank++] = size;
        while (at < of->header_end && (*at == ',' || *at == ' ')) {
            at++;
        }
    }
    return at < of->header_end ? GY_OK : refuse(of, "sizes that end with )");
}

static gy_status take_header(gy_dml_bytes bytes, npy *of, size_t *begin)
{
    const unsigned char *head = (const unsigned char *)bytes.data;
    if (bytes.size < 10 || memcmp(head, npy_magic, sizeof(npy_magic)) != 0) {
        return gy_fail(GY_FORMAT, "%s: not NPY: it does not begin with \\x93NUMPY", bytes.path);
    }
    const bool is_first = head[6] == 1;
    if (head[6] < 1 || head[6] > 3 || (!is_first && bytes.size < 12)) {
        return gy_fail(GY_FORMAT, "%s: NPY version %d, expected 1 to 3", bytes.path, head[6]);
    }
    const size_t size = is_first ? (size_t)head[8] | (size_t)head[9] << 8
                                 : (size_t)head[8] | (size_t)head[9] << 8 |
                                       (size_t)head[10] << 16 | (size_t)head[11] << 24;
    *begin = is_first ? 10 : 12;
    if (size > bytes.size - *begin) {
        return gy_fail(GY_FORMAT, "%s: ends inside the NPY header of %zu bytes", bytes.path,
                       size);
    }
    of->header = bytes.data + *begin;
    of->header_end = of->header + size;
    *begin += size;
    const char *order = value_of(of, "fortran_order");
    of->is_by_column = begins(of, order, "True");
    if (!of->is_by_column && !begins(of, order, "False")) {
        return refuse(of, "'fortran_order': True or False");
    }
    GY_TRY(take_type(of));
    return take_shape(of);
}

/* Rows and columns, and that the bytes are as many as they say. */
static gy_status check_size(const npy *of, size_t left, int64_t *rows, int64_t *columns)
{
    GY_ASSERT(of->item_bytes >= 1 && of->item_bytes <= 8);
    *rows = of->rank > 0 ? of->sizes[0] : 1;
    *columns = 1;
    bool is_over = false;
    for (int k = 1; k < of->rank; k++) {
        is_over = is_over || __builtin_mul_overflow(*columns, of->sizes[k], columns);
    }
    int64_t count = 0;
    is_over = is_over || __builtin_mul_overflow(*rows, *columns, &count);
    if (is_over || (uint64_t)count > left / of->item_bytes ||
        (size_t)count * of->item_bytes != left) {
        return gy_fail(
            GY_FORMAT,
            "%s: the NPY header says %lldx%lld elements of %zu bytes, %zu bytes follow",
            of->path, (long long)*rows, (long long)*columns, of->item_bytes, left);
    }
    return of->rank <= 2 || !of->is_by_column
               ? GY_OK
               : gy_fail(GY_UNSUPPORTED, "%s: %d dimensions in Fortran order are not read",
                         of->path, of->rank);
}

static double element(const npy *of, const unsigned char *at)
{
    unsigned char item[8];
    GY_ASSERT(of->item_bytes >= 1 && of->item_bytes <= 8);
    for (size_t i = 0; i < of->item_bytes; i++) {
        item[i] = at[of->is_swapped ? of->item_bytes - 1 - i : i];
    }
    if (of->kind == 'f') {
        double wide = 0;
        float narrow = 0;
        memcpy(&wide, item, of->item_bytes == 8 ? sizeof(wide) : 0);
        memcpy(&narrow, item, of->item_bytes == 4 ? sizeof(narrow) : 0);
        return of->item_bytes == 8 ? wide : (double)narrow;
    }
    uint64_t bits = 0;
    for (size_t i = 0; i < of->item_bytes; i++) {
        bits |= (uint64_t)item[i] << 8 * i;
    }
    if (of->kind == 'i') { /* the sign's bit up to the top, and down again */
        const int up = 64 - 8 * (int)of->item_bytes;
        return (double)((int64_t)(bits << up) >> up);
    }
    return of->kind == 'b' ? (bits != 0 ? 1 : 0) : (double)bits;
}

gy_status gy_dml_npy_parse(gy_dml_bytes bytes, gy_dml_matrix **matrix)
{
    npy of = {.path = bytes.path};
    size_t begin = 0;
    int64_t rows = 0, columns = 0;
    gy_dml_matrix *made = NULL;
    GY_TRY(take_header(bytes, &of, &begin));
    GY_TRY(check_size(&of, bytes.size - begin, &rows, &columns));
    GY_TRY(gy_dml_matrix_new(rows, columns, &made));
    const unsigned char *at = (const unsigned char *)bytes.data + begin;
    if (of.kind == 'f' && of.item_bytes == 8 && !of.is_swapped && !of.is_by_column) {
        memcpy(made->data, at, bytes.size - begin);
        *matrix = made;
        return GY_OK;
    }
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            const int64_t place = of.is_by_column ? j * rows + i : i * columns + j;
            made->data[i * columns + j] = element(&of, at + (size_t)place * of.item_bytes);
        }
    }
    *matrix = made;
    return GY_OK;
}

gy_status gy_dml_npy_write(gy_writer *writer, const gy_dml_matrix *matrix)
{
    char text[192], head[256];
    const size_t size = gy_print(
        text, sizeof(text), "{'descr': '<f8', 'fortran_order': False, 'shape': (%lld, %lld), }",
        (long long)matrix->rows, (long long)matrix->columns);
    const size_t all = gy_round_up(10 + size + 1, NPY_ALIGNMENT);
    memset(head, ' ', sizeof(head));
    memcpy(head, npy_magic, sizeof(npy_magic));
    head[6] = 1;
    head[7] = 0;
    head[8] = (char)((all - 10) & 0xff);
    head[9] = (char)((all - 10) >> 8);
    memcpy(head + 10, text, size);
    head[all - 1] = '\n';
    GY_TRY(gy_writer_add(writer, head, all));
    return gy_writer_add(writer, matrix->data,
                         (size_t)gy_dml_matrix_count(matrix) * sizeof(double));
}

/* ---- IDX ---- */

gy_status gy_dml_idx_parse(gy_dml_bytes bytes, gy_dml_matrix **matrix)
{
    gy_source *source = NULL;
    gy_tensor *tensor = NULL, *wide = NULL;
    GY_TRY(gy_source_of(bytes.data, bytes.size, bytes.path, GY_ENCODING_PLAIN, &source));
    gy_status status = gy_store_idx_read(source, NULL, UINT64_MAX, &tensor);
    gy_source_close(source);
    GY_TRY(status);
    const int rank = gy_tensor_rank(tensor);
    const int64_t rows = rank > 0 ? gy_tensor_size(tensor, 0) : 1;
    const int64_t count = gy_tensor_count(tensor);
    int64_t columns = 1;
    for (int k = 1; k < rank; k++) {
        columns *= gy_tensor_size(tensor, k);
    }
    gy_dml_matrix *made = NULL;
    const int64_t sizes[2] = {rows, columns};
    status = gy_dml_matrix_new(rows, columns, &made);
    status = status == GY_OK ? gy_tensor_reshape(tensor, sizes, 2, &wide) : status;
    status = status == GY_OK && count > 0 ? gy_tensor_copy(made->tensor, wide) : status;
    gy_tensor_drop(wide);
    gy_tensor_drop(tensor);
    if (status != GY_OK) {
        gy_dml_matrix_drop(made);
        return status;
    }
    *matrix = made;
    return GY_OK;
}

/* Big-endian, as the format has it. */
static void put_big(unsigned char *to, uint64_t bits, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        to[i] = (unsigned char)(bits >> 8 * (bytes - 1 - i));
    }
}

gy_status gy_dml_idx_write(gy_writer *writer, const gy_dml_matrix *matrix)
{
    enum { PIECE = 512 };
    unsigned char head[12] = {0, 0, 0x0e, 2}, piece[PIECE * 8];
    if (matrix->rows > UINT32_MAX || matrix->columns > UINT32_MAX) {
        return gy_fail(GY_LIMIT, "write: IDX has sizes of 32 bits, X is %lldx%lld",
                       (long long)matrix->rows, (long long)matrix->columns);
    }
    put_big(head + 4, (uint64_t)matrix->rows, 4);
    put_big(head + 8, (uint64_t)matrix->columns, 4);
    GY_TRY(gy_writer_add(writer, head, sizeof(head)));
    const int64_t count = gy_dml_matrix_count(matrix);
    for (int64_t i = 0; i < count; i += PIECE) {
        const int64_t end = GY_MIN(count, i + PIECE);
        for (int64_t k = i; k < end; k++) {
            uint64_t bits = 0;
            memcpy(&bits, &matrix->data[k], sizeof(bits));
            put_big(piece + 8 * (k - i), bits, 8);
        }
        GY_TRY(gy_writer_add(writer, piece, (size_t)(end - i) * 8));
    }
    return GY_OK;
}
