/* Files as pieces. A file that is larger than a piece is looked at once, to know where rows
 * begin; its pieces are ranges of whole rows. */
#include "query/dag/dag.h"

#include <string.h>

enum { CUT_BYTES_MIN = 64, CUT_BYTES_MAX = 1 << 20 };

static char *copy_text(gy_query_pieces *pieces, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = gy_arena_alloc(&pieces->texts, size);
    if (copy != NULL) {
        memcpy(copy, text, size);
    }
    return copy;
}

static gy_status add_piece(gy_query_pieces *pieces, const char *file,
                           const gy_query_reading *reading)
{
    char *copy = copy_text(pieces, file);
    if (copy == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(GY_GROW("query.pieces", pieces->items, pieces->capacity, pieces->count + 1));
    pieces->items[pieces->count++] = (gy_query_piece){.file = copy, .reading = *reading};
    return GY_OK;
}

/* A name that two columns have is no way to say which. */
static bool has_twice(const gy_schema *schema)
{
    for (int i = 0; i < gy_schema_count(schema); i++) {
        if (gy_schema_find(schema, gy_schema_field(schema, i)->name) < 0) {
            return true;
        }
    }
    return false;
}

/* Columns of a range of rows: those of the table, or what was found for this file. */
static gy_status name_columns(const gy_csv *csv, gy_query_pieces *pieces,
                              gy_query_reading *reading)
{
    char *text = NULL;
    reading->has_no_header = true;
    reading->is_part = true;
    if (reading->columns != NULL) {
        return GY_OK;
    }
    const int count = gy_schema_count(gy_csv_schema(csv));
    char *empties = gy_arena_alloc(&pieces->texts, (size_t)count + 1);
    if (empties == NULL) {
        return GY_NOMEM;
    }
    for (int i = 0; i < count; i++) {
        empties[i] = gy_csv_is_empty(csv, i) ? '1' : '0';
    }
    empties[count] = '\0';
    reading->empties = empties;
    GY_TRY(gy_schema_text(gy_csv_schema(csv), &text));
    reading->is_found = true;
    reading->columns = copy_text(pieces, text);
    gy_string_free(text);
    return reading->columns != NULL ? GY_OK : GY_NOMEM;
}

static gy_status add_ranges(const char *path, const gy_csv *csv, int64_t cuts_a_piece,
                            const gy_query_reading *reading, gy_query_pieces *pieces)
{
    const int64_t count = gy_csv_cut_count(csv);
    for (int64_t cut = 0; cut < count; cut += cuts_a_piece) {
        const uint64_t begin = gy_csv_cut_begin(csv, cut);
        const uint64_t end = gy_csv_cut_begin(csv, GY_MIN(cut + cuts_a_piece, count));
        char file[4200];
        if (begin == end && cut > 0) {
            continue;
        }
        if (!gy_print_whole(file, sizeof(file), "%s%s:%llu:%llu", path,
                            strstr(path, "://") != NULL ? "" : "/", (unsigned long long)begin,
                            (unsigned long long)(end - begin))) {
            return gy_fail(GY_ARG, "a path of %zu bytes", strlen(path));
        }
        GY_TRY(add_piece(pieces, file, reading));
    }
    return GY_OK;
}

static gy_status split(const gy_query_files *files, const char *path, size_t piece_bytes,
                       gy_engine *engine, gy_query_pieces *pieces, gy_query_reading reading)
{
    gy_csv *csv = NULL;
    gy_csv_options options = files->options;
    options.columns = files->columns;
    options.cut_bytes = GY_MIN(piece_bytes, (size_t)CUT_BYTES_MAX);
    GY_TRY(gy_csv_open(path, &options, &csv));
    gy_status status = gy_csv_split(csv, engine);
    if (status == GY_UNSUPPORTED) {
        status = add_piece(pieces, path, &reading);
    } else if (status == GY_OK) {
        status = name_columns(csv, pieces, &reading);
        status = status == GY_OK
                     ? add_ranges(path, csv, (int64_t)(piece_bytes / options.cut_bytes),
                                  &reading, pieces)
                     : status;
    }
    gy_csv_close(csv);
    return status;
}

gy_status gy_query_pieces_make(const gy_query_table *table, size_t piece_bytes,
                               gy_engine *engine, gy_query_pieces *pieces)
{
    GY_ASSERT(piece_bytes >= CUT_BYTES_MIN && (piece_bytes & (piece_bytes - 1)) == 0);
    const gy_query_files *files = table->files;
    const gy_query_reading whole = {.columns = files->columns,
                                    .delimiter = files->options.delimiter,
                                    .has_no_header = files->options.has_no_header,
                                    .skip_lines = files->options.skip_lines,
                                    .null_text = files->options.null_text,
                                    .has_all = has_twice(table->schema),
                                    .sample_bytes = files->options.sample_bytes};
    gy_status status = GY_OK;
    *pieces = (gy_query_pieces){.count = 0};
    for (size_t i = 0; i < files->count && status == GY_OK; i++) {
        uint64_t size = 0;
        status = gy_flow_input(files->paths[i], &size);
        if (status == GY_OK) {
            status = size <= piece_bytes || whole.has_all
                         ? add_piece(pieces, files->paths[i], &whole)
                         : split(files, files->paths[i], piece_bytes, engine, pieces, whole);
        }
    }
    if (status != GY_OK) {
        gy_query_pieces_fini(pieces);
    }
    return status;
}

void gy_query_pieces_fini(gy_query_pieces *pieces)
{
    gy_free(pieces->items);
    gy_arena_free(&pieces->texts);
    *pieces = (gy_query_pieces){.count = 0};
}
