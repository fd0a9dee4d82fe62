/* A frame printed as a table. */
#include "frame/frame.h"

#include <string.h>

enum { ROWS_SHOWN = 40, WIDTH_SHOWN = 40, CELL_BYTES = 1024 };

typedef struct printing {
    const gy_frame *frame;
    int64_t rows;
    int width_max;
    int *widths; /* (columns) in characters */
    gy_text text;
} printing;

/* Characters of UTF-8 in a printable text. */
static int characters(const char *text)
{
    int count = 0;
    for (; *text != '\0'; text++) {
        count += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return count;
}

/* Cut a text to `width` characters, the last of which then is an ellipsis. */
static void cut(char *text, int width)
{
    if (characters(text) <= width) {
        return;
    }
    int count = 0;
    char *at = text;
    for (; *at != '\0'; at++) {
        count += ((unsigned char)*at & 0xc0) != 0x80;
        if (count == width) {
            break;
        }
    }
    /* the cell has room for three bytes more than its text */
    memcpy(at, "…", sizeof("…"));
}

/* The text of a cell; row -1: the column's name. */
static void write_cell(const printing *table, int index, int64_t row, char out[CELL_BYTES + 4])
{
    const gy_column column = gy_frame_column(table->frame, index);
    if (row < 0) {
        (void)gy_printable(out, CELL_BYTES, column.field->name, strlen(column.field->name), "");
    } else if (gy_column_is_null(&column, row)) {
        (void)gy_print(out, CELL_BYTES, "null");
    } else if (column.field->kind == GY_FIELD_TEXT) {
        const gy_text_view text = gy_column_text(&column, row);
        (void)gy_printable(out, CELL_BYTES, text.data, text.size_bytes, "");
    } else {
        (void)gy_frame_write(&column, row, out);
    }
    cut(out, table->width_max);
}

/* Numbers stand on the right. */
static bool is_right(const gy_field *field)
{
    return field->kind == GY_FIELD_INT64 || field->kind == GY_FIELD_DOUBLE ||
           field->kind == GY_FIELD_DECIMAL;
}

static void add_row(printing *table, int64_t row)
{
    const gy_schema *schema = gy_frame_schema(table->frame);
    char cell[CELL_BYTES + 4];
    for (int i = 0; i < gy_schema_count(schema); i++) {
        write_cell(table, i, row, cell);
        const int space = table->widths[i] - characters(cell);
        const bool is_last = i + 1 == gy_schema_count(schema);
        const bool pads_left = is_right(gy_schema_field(schema, i));
        gy_text_add(&table->text, "%s%*s%s%*s", i > 0 ? " | " : " ", pads_left ? space : 0, "",
                    cell, pads_left || is_last ? 0 : space, "");
    }
    gy_text_add(&table->text, "\n");
}

static void add_line(printing *table)
{
    for (int i = 0; i < gy_schema_count(gy_frame_schema(table->frame)); i++) {
        gy_text_add(&table->text, "%s", i > 0 ? "-+-" : "-");
        for (int k = 0; k < table->widths[i]; k++) {
            gy_text_add_bytes(&table->text, "-", 1);
        }
    }
    gy_text_add(&table->text, "-\n");
}

static void add_table(printing *table)
{
    char cell[CELL_BYTES + 4];
    const int columns = gy_schema_count(gy_frame_schema(table->frame));
    for (int i = 0; i < columns; i++) {
        for (int64_t row = -1; row < table->rows; row++) {
            write_cell(table, i, row, cell);
            table->widths[i] = GY_MAX(table->widths[i], characters(cell));
        }
    }
    if (columns > 0) {
        add_row(table, -1);
        add_line(table);
        for (int64_t row = 0; row < table->rows; row++) {
            add_row(table, row);
        }
    }
    const int64_t rows = gy_frame_rows(table->frame);
    gy_text_add(&table->text, "(%lld row%s", (long long)rows, rows == 1 ? "" : "s");
    if (table->rows < rows && columns > 0) {
        gy_text_add(&table->text, ", %lld shown", (long long)table->rows);
    }
    gy_text_add(&table->text, ")\n");
}

gy_status gy_frame_print(const gy_frame *frame, FILE *out,
                         const gy_frame_print_options *options)
{
    gy_frame_print_options known;
    GY_TRY(gy_options_take(gy_frame_print_options, &known, options));
    const int columns = gy_schema_count(gy_frame_schema(frame));
    const int64_t rows_max = known.rows_max > 0 ? known.rows_max : ROWS_SHOWN;
    printing table = {.frame = frame,
                      .rows = GY_MIN(gy_frame_rows(frame), rows_max),
                      .width_max = known.width_max > 0 ? known.width_max : WIDTH_SHOWN,
                      .widths = gy_alloc_zero("frame.print", (size_t)columns, sizeof(int))};
    if (table.widths == NULL) {
        return GY_NOMEM;
    }
    add_table(&table);
    gy_status status = table.text.status;
    if (status == GY_OK &&
        (fwrite(table.text.data, 1, table.text.size_bytes, out) != table.text.size_bytes ||
         fflush(out) != 0)) {
        status = gy_fail(GY_IO, "cannot write a table of %lld rows",
                         (long long)gy_frame_rows(frame));
    }
    gy_text_free(&table.text);
    gy_free(table.widths);
    return status;
}
