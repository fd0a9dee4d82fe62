/*
 * A column of a CSV file: its type, its nulls, its sum; and the first rows of the file.
 *
 *     cc columns.c -lgyre -o columns
 *     ./columns FILE COLUMN
 *
 * Types are guessed by the first rows. When a later row does not fit, the file is read once
 * more with types that fit all rows.
 */
#include <gyre/gyre.h>

#include <stdio.h>

/* Pass a failure up. */
#define TRY(call)                                                                              \
    do {                                                                                       \
        gy_status status_ = (call);                                                            \
        if (status_ != GY_OK) {                                                                \
            return status_;                                                                    \
        }                                                                                      \
    } while (0)

typedef struct facts {
    int64_t rows, nulls;
    double sum;
} facts;

/* The value of a number; 0 of other types. */
static double value_of(const gy_column *column, int64_t row)
{
    double unit = 1;
    switch (column->field->kind) {
    case GY_FIELD_INT64:
        return (double)gy_column_int64(column, row);
    case GY_FIELD_DOUBLE:
        return gy_column_double(column, row);
    case GY_FIELD_DECIMAL:
        for (int i = 0; i < column->field->scale; i++) {
            unit *= 10;
        }
        return (double)gy_column_decimal(column, row) / unit;
    default:
        return 0;
    }
}

/* Read all rows of the column. */
static gy_status read_column(gy_csv *csv, facts *found)
{
    gy_frame *frame = NULL;
    gy_status status = GY_OK;
    *found = (facts){0, 0, 0};
    while ((status = gy_csv_next(csv, &frame)) == GY_OK) {
        const gy_column column = gy_frame_column(frame, 0);
        for (int64_t row = 0; row < column.rows; row++) {
            if (gy_column_is_null(&column, row)) {
                found->nulls++;
            } else {
                found->sum += value_of(&column, row);
            }
        }
        found->rows += column.rows;
        gy_frame_drop(frame);
    }
    return status == GY_DONE ? GY_OK : status;
}

static gy_status describe_column(gy_csv *csv)
{
    facts found;
    char *type = NULL;
    gy_status status = read_column(csv, &found);
    if (status == GY_TYPE) {
        gy_print_to(stderr, "note: %s: read again\n", gy_error_text());
        TRY(gy_csv_retype(csv, NULL));
        status = read_column(csv, &found);
    }
    TRY(status);
    TRY(gy_schema_text(gy_csv_schema(csv), &type));
    gy_print_to(stdout, "%s: %lld rows, %lld null, sum %.15g\n", type, (long long)found.rows,
                (long long)found.nulls, found.sum);
    gy_string_free(type);
    return GY_OK;
}

static gy_status show_first_rows(const char *path)
{
    gy_csv *csv = NULL;
    gy_frame *frame = NULL;
    TRY(gy_csv_open(path, NULL, &csv));
    gy_status status = gy_csv_next(csv, &frame);
    if (status == GY_OK) {
        status =
            gy_frame_print(frame, stdout, &GY_OPTIONS(gy_frame_print_options, .rows_max = 5));
        gy_frame_drop(frame);
    }
    gy_csv_close(csv);
    return status == GY_DONE || status == GY_TYPE ? GY_OK : status;
}

static gy_status run(const char *path, const char *name)
{
    gy_csv *csv = NULL;
    const gy_csv_options options = GY_OPTIONS(gy_csv_options, .used = &name, .used_count = 1);
    TRY(gy_csv_open(path, &options, &csv));
    const gy_status status = describe_column(csv);
    gy_csv_close(csv);
    TRY(status);
    return show_first_rows(path);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: columns FILE COLUMN\n");
        return 2;
    }
    if (run(argv[1], argv[2]) != GY_OK) {
        gy_print_to(stderr, "columns: %s\n", gy_error_text());
        return 1;
    }
    return 0;
}
