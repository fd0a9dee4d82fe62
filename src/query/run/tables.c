/* What a query reads: CSV files by path, by glob, by read_csv(…), and those of a folder. */
#include "query/run/run.h"

#include <dirent.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* ---- Paths ---- */

static void free_files(gy_query_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        gy_free(files->paths[i]);
    }
    gy_schema_drop(files->table.schema);
    gy_free(files->paths);
    gy_free(files->key);
    gy_free(files->columns);
    gy_free(files->null_text);
    gy_free(files);
}

static gy_status add_path(gy_query_files *files, const char *path)
{
    size_t capacity = files->count;
    char *copy = gy_copy_text("query.path", path);
    if (copy == NULL) {
        return GY_NOMEM;
    }
    const gy_status status = GY_GROW("query.paths", files->paths, capacity, files->count + 1);
    if (status != GY_OK) {
        gy_free(copy);
        return status;
    }
    files->paths[files->count++] = copy;
    return GY_OK;
}

/* In the order of their names. A file that has just this name is meant alone. */
static gy_status add_paths(gy_query_files *files, const char *pattern)
{
    struct stat info;
    glob_t found = {.gl_pathc = 0};
    if (strpbrk(pattern, "*?[") == NULL || stat(pattern, &info) == 0) {
        return add_path(files, pattern);
    }
    const int failed = glob(pattern, 0, NULL, &found);
    gy_status status = failed == 0              ? GY_OK
                       : failed == GLOB_NOSPACE ? gy_fail(GY_NOMEM, "%s", pattern)
                       : failed == GLOB_NOMATCH
                           ? gy_fail(GY_NOTFOUND, "%s: no file has such a name", pattern)
                           : gy_fail(GY_IO, "%s: a folder cannot be read", pattern);
    for (size_t i = 0; i < found.gl_pathc && status == GY_OK; i++) {
        status = add_path(files, found.gl_pathv[i]);
    }
    globfree(&found);
    return status;
}

/* No file is that table's: the table whose name is near, if there is one. */
static gy_status fail_missing(const char *folder, const char *name)
{
    char nearest[256] = "";
    int least = (int)GY_MIN((strlen(name) + 1) / 3, 63) + 1;
    DIR *open = opendir(folder);
    for (const struct dirent *entry = open != NULL ? readdir(open) : NULL; entry != NULL;
         entry = readdir(open)) {
        char table[sizeof(entry->d_name)];
        const size_t length = strlen(entry->d_name);
        if (length <= 4 || strcmp(entry->d_name + length - 4, ".csv") != 0) {
            continue;
        }
        gy_print(table, sizeof(table), "%.*s", (int)(length - 4), entry->d_name);
        const int far = gy_text_distance(name, table, true);
        /* of several the first by name, whatever the folder's order */
        if (far < least || (far == least && nearest[0] != '\0' && strcmp(table, nearest) < 0)) {
            least = far;
            gy_print(nearest, sizeof(nearest), "%s", table);
        }
    }
    if (open != NULL) {
        closedir(open);
    }
    return gy_fail(GY_NOTFOUND, "there is no table \"%s\": %s has no file %s.csv%s%s%s", name,
                   folder, name, nearest[0] != '\0' ? "; the nearest name is \"" : "", nearest,
                   nearest[0] != '\0' ? "\"" : "");
}

/* The file of a table in the folder: NAME.csv, or the one whose name differs but for case. */
static gy_status find_in_folder(const char *folder, const gy_sql_name *name, char *path,
                                size_t size)
{
    struct stat info;
    if (!gy_print_whole(path, size, "%s/%s.csv", folder, name->text)) {
        return gy_fail(GY_ARG, "a table's name that is too long");
    }
    if (stat(path, &info) == 0) {
        return GY_OK;
    }
    DIR *open = opendir(folder);
    const size_t length = strlen(name->text);
    int count = 0;
    if (open == NULL) {
        return gy_fail(GY_NOTFOUND, "%s: there is no such folder of tables", folder);
    }
    for (const struct dirent *entry = readdir(open); entry != NULL && !name->is_quoted;
         entry = readdir(open)) {
        if (strncasecmp(entry->d_name, name->text, length) == 0 &&
            strcmp(entry->d_name + length, ".csv") == 0 &&
            gy_print_whole(path, size, "%s/%s", folder, entry->d_name)) {
            count++;
        }
    }
    closedir(open);
    return count == 1  ? GY_OK
           : count > 1 ? gy_fail(GY_ARG, "table \"%s\" is ambiguous: several files of %s",
                                 name->text, folder)
                       : fail_missing(folder, name->text);
}

static gy_status find_paths(const gy_query_tables *tables, const gy_sql_from *from,
                            gy_query_files *files)
{
    char path[4096];
    const gy_sql_name *name = &from->name;
    if (from->kind == GY_SQL_FUNCTION) {
        return add_paths(files, from->call->items[0]->text);
    }
    const bool is_path = strpbrk(name->text, "/.*") != NULL;
    if (is_path || tables->folder == NULL) {
        return name->is_quoted || is_path
                   ? add_paths(files, name->text)
                   : gy_fail(GY_NOTFOUND,
                             "there is no table \"%s\" (a file's name stands in double quotes; "
                             "--tables names a folder of tables)",
                             name->text);
    }
    GY_TRY(find_in_folder(tables->folder, name, path, sizeof(path)));
    return add_path(files, path);
}

/* ---- read_csv ---- */

/* A delimiter: a byte, or \t as people write a tab. */
static bool take_delimiter(const gy_sql_node *value, char *delimiter)
{
    const bool is_tab = value->kind == GY_SQL_TEXT && strcmp(value->text, "\\t") == 0;
    if (value->kind != GY_SQL_TEXT || (strlen(value->text) != 1 && !is_tab)) {
        return false;
    }
    *delimiter = (char)(is_tab ? '\t' : value->text[0]);
    return true;
}

static bool take_lines(const gy_sql_node *value, int64_t *lines)
{
    char *end = NULL;
    const bool is_number = value->kind == GY_SQL_NUMBER;
    *lines = is_number ? strtoll(value->text, &end, 10) : 0;
    return is_number && *end == '\0' && *lines >= 0 && strlen(value->text) <= 9;
}

static gy_status take_argument(const char *name, const gy_sql_node *value,
                               gy_query_files *files)
{
    if ((strcmp(name, "delim") == 0 || strcmp(name, "sep") == 0) &&
        take_delimiter(value, &files->options.delimiter)) {
        return GY_OK;
    }
    if (strcmp(name, "skip") == 0 && take_lines(value, &files->options.skip_lines)) {
        return GY_OK;
    }
    if (strcmp(name, "nullstr") == 0 && value->kind == GY_SQL_TEXT &&
        files->null_text == NULL) {
        files->null_text = gy_copy_text("query.null", value->text);
        files->options.null_text = files->null_text;
        return files->null_text != NULL ? GY_OK : GY_NOMEM;
    }
    if (strcmp(name, "header") == 0 && value->kind == GY_SQL_BOOLEAN) {
        files->options.has_no_header = strcmp(value->text, "false") == 0;
        return GY_OK;
    }
    if (strcmp(name, "columns") == 0 && value->kind == GY_SQL_TEXT && files->columns == NULL) {
        files->columns = gy_copy_text("query.columns", value->text);
        files->is_given = true;
        return files->columns != NULL ? GY_OK : GY_NOMEM;
    }
    return gy_fail(
        GY_ARG,
        "read_csv: argument %s: expected delim => 'one byte', header => true or "
        "false, columns => 'name type, …', skip => lines, nullstr => 'text', each once",
        name);
}

static gy_status take_arguments(const gy_sql_from *from, gy_query_files *files)
{
    const gy_sql_node *call = from->call;
    if (strcmp(call->text, "read_csv") != 0) {
        return gy_fail(GY_NOTFOUND, "there is no table function %s: read_csv is one",
                       call->text);
    }
    if (call->count == 0 || call->items[0]->kind != GY_SQL_TEXT || from->names[0] != NULL) {
        return gy_fail(GY_ARG, "read_csv: its first argument is a file's name in quotes");
    }
    for (uint32_t i = 1; i < call->count; i++) {
        if (from->names[i] == NULL) {
            return gy_fail(GY_ARG,
                           "read_csv: argument %u needs a name: delim =>, header =>, "
                           "columns =>, skip =>, nullstr =>",
                           i + 1);
        }
        for (uint32_t k = 1; k < i; k++) {
            if (strcmp(from->names[k], from->names[i]) == 0) {
                return gy_fail(GY_ARG, "read_csv: argument %s is there twice", from->names[i]);
            }
        }
        GY_TRY(take_argument(from->names[i], call->items[i], files));
    }
    return GY_OK;
}

/* ---- Schemas ---- */

/* The type that holds both; text holds all. */
static gy_field hold_both(const gy_field *a, const gy_field *b)
{
    const gy_expr_type left = {.kind = a->kind, .precision = a->precision, .scale = a->scale};
    const gy_expr_type right = {.kind = b->kind, .precision = b->precision, .scale = b->scale};
    gy_expr_type both;
    if (a->kind == b->kind && a->precision == b->precision && a->scale == b->scale) {
        return *a;
    }
    if (!gy_expr_type_common(&left, &right, &both)) {
        return (gy_field){.name = a->name, .kind = GY_FIELD_TEXT};
    }
    const bool is_decimal = both.kind == GY_FIELD_DECIMAL;
    return (gy_field){.name = a->name,
                      .kind = both.kind,
                      .precision = is_decimal ? both.precision : 0,
                      .scale = is_decimal ? both.scale : 0};
}

/* What is known of files that become one table. */
typedef struct uniting {
    bool is_other;  /* the table's schema is not that of all of them */
    bool *is_empty; /* (columns) of the table: no value was seen in any */
} uniting;

/* The first file. */
static gy_status begin_uniting(gy_query_files *files, const gy_csv *csv, uniting *of)
{
    files->table.schema = gy_schema_hold(gy_csv_schema(csv));
    const int count = gy_schema_count(files->table.schema);
    of->is_empty = gy_alloc("query.fields", (size_t)count + 1);
    for (int i = 0; i < count && of->is_empty != NULL; i++) {
        of->is_empty[i] = gy_csv_is_empty(csv, i);
    }
    return of->is_empty != NULL ? GY_OK : GY_NOMEM;
}

/* One schema of the files before and this one: a column without values has no type of its own.
 */
static gy_status unite(gy_query_files *files, const char *path, const gy_csv *csv, uniting *of)
{
    gy_schema *mine = files->table.schema;
    const gy_schema *other = gy_csv_schema(csv);
    const int count = gy_schema_count(mine);
    GY_ASSERT(of->is_empty != NULL); /* the first file was begun */
    if (gy_schema_count(other) != count) {
        return gy_fail(GY_FORMAT, "%s has %d columns and %s has %d", files->paths[0], count,
                       path, gy_schema_count(other));
    }
    gy_field *fields = gy_alloc_zero("query.fields", (size_t)count + 1, sizeof(*fields));
    if (fields == NULL) {
        return GY_NOMEM;
    }
    gy_status status = GY_OK;
    for (int i = 0; i < count && status == GY_OK; i++) {
        const gy_field *a = gy_schema_field(mine, i), *b = gy_schema_field(other, i);
        fields[i] = of->is_empty[i] ? *b : gy_csv_is_empty(csv, i) ? *a : hold_both(a, b);
        of->is_empty[i] = of->is_empty[i] && gy_csv_is_empty(csv, i);
        of->is_other = of->is_other || a->kind != b->kind || a->precision != b->precision ||
                       a->scale != b->scale;
        if (strcmp(a->name, b->name) != 0) {
            status = gy_fail(GY_FORMAT, "column %d is \"%s\" in %s and \"%s\" in %s", i + 1,
                             a->name, files->paths[0], b->name, path);
        }
    }
    gy_schema *made = NULL;
    status = status == GY_OK ? gy_schema_new(fields, count, &made) : status;
    gy_free(fields);
    if (status == GY_OK) {
        gy_schema_drop(mine);
        files->table.schema = made;
    }
    return status;
}

/* From now on the table has the types of its schema in all files. */
static gy_status fix_types(gy_query_files *files)
{
    char *text = NULL;
    GY_TRY(gy_schema_text(files->table.schema, &text));
    gy_free(files->columns);
    files->columns = gy_copy_text("query.columns", text);
    gy_string_free(text);
    return files->columns != NULL ? GY_OK : GY_NOMEM;
}

static gy_status unite_all(gy_query_files *files, gy_engine *engine, bool is_retyping,
                           uniting *of)
{
    gy_schema_drop(files->table.schema);
    files->table.schema = NULL;
    files->table.bytes = 0;
    files->options.struct_size = sizeof(files->options);
    files->options.columns = files->columns;
    files->options.sample_bytes = files->count > 16 ? 1 << 16 : 0;
    for (size_t i = 0; i < files->count; i++) {
        gy_csv *csv = NULL;
        struct stat info;
        gy_status status = gy_csv_open(files->paths[i], &files->options, &csv);
        status = status == GY_OK && is_retyping ? gy_csv_retype(csv, engine) : status;
        if (status == GY_OK) {
            status =
                i == 0 ? begin_uniting(files, csv, of) : unite(files, files->paths[i], csv, of);
        }
        gy_csv_close(csv);
        GY_TRY(status);
        files->table.bytes += stat(files->paths[i], &info) == 0 ? (double)info.st_size : 1e6;
    }
    return GY_OK;
}

static gy_status open_all(gy_query_files *files, gy_engine *engine, bool is_retyping)
{
    uniting of = {.is_empty = NULL};
    const gy_status status = unite_all(files, engine, is_retyping, &of);
    bool has_empty = false;
    for (int i = 0; status == GY_OK && i < gy_schema_count(files->table.schema); i++) {
        GY_ASSERT(of.is_empty != NULL);
        has_empty = has_empty || of.is_empty[i];
    }
    gy_free(of.is_empty);
    GY_TRY(status);
    if (of.is_other && has_empty && !is_retyping) {
        return open_all(files, engine, true); /* its type is given from here on */
    }
    files->table.rows =
        1 + files->table.bytes / (1 + 8.0 * gy_schema_count(files->table.schema));
    return of.is_other || is_retyping ? fix_types(files) : GY_OK;
}

gy_status gy_query_files_retype(gy_query_files *files, gy_engine *engine)
{
    GY_ASSERT(!files->is_retyped);
    gy_free(files->columns);
    files->columns = NULL;
    files->is_retyped = true;
    return open_all(files, engine, true);
}

/* ---- The catalog ---- */

/* How a statement says it: the same text is the same table. */
static char *key_of(const gy_sql_from *from)
{
    gy_text text = {.data = NULL};
    if (from->kind == GY_SQL_FUNCTION) {
        for (uint32_t i = 0; i < from->call->count; i++) {
            gy_text_add(&text, "%s=", from->names[i] != NULL ? from->names[i] : "");
            gy_sql_print_node(from->call->items[i], &text);
        }
    } else {
        gy_text_add(&text, "%s%s", from->name.is_quoted ? "\"" : "", from->name.text);
    }
    char *key = text.status == GY_OK ? gy_copy_text("query.key", gy_text_get(&text)) : NULL;
    gy_text_free(&text);
    return key;
}

/* Files whose names end in .tsv, or .tsv.gz and the like, have tabs unless the statement says.
 */
static void choose_delimiter(gy_query_files *files)
{
    const char *slash = strrchr(files->paths[0], '/');
    const char *dot = strstr(slash != NULL ? slash : files->paths[0], ".tsv");
    if (files->options.delimiter == '\0' && dot != NULL && (dot[4] == '\0' || dot[4] == '.')) {
        files->options.delimiter = '\t';
    }
}

static gy_status find(void *arg, const gy_sql_from *from, const gy_query_table **table)
{
    gy_query_tables *tables = arg;
    char *key = key_of(from);
    if (key == NULL) {
        return GY_NOMEM;
    }
    for (gy_query_files *at = tables->first; at != NULL; at = at->next) {
        if (strcmp(at->key, key) == 0) {
            gy_free(key);
            *table = &at->table;
            return GY_OK;
        }
    }
    gy_query_files *files = gy_alloc_zero("query.files", 1, sizeof(*files));
    if (files == NULL) {
        gy_free(key);
        return GY_NOMEM;
    }
    files->key = key;
    gy_status status = from->kind == GY_SQL_FUNCTION ? take_arguments(from, files) : GY_OK;
    status = status == GY_OK ? find_paths(tables, from, files) : status;
    if (status == GY_OK) {
        choose_delimiter(files);
        status = open_all(files, NULL, false);
    }
    if (status != GY_OK) {
        free_files(files);
        return status;
    }
    const char *slash = strrchr(files->paths[0], '/');
    files->table.name = files->count > 1 ? files->key + (files->key[0] == '"' ? 1 : 0)
                        : slash != NULL  ? slash + 1
                                         : files->paths[0];
    files->table.files = files;
    files->next = tables->first;
    tables->first = files;
    *table = &files->table;
    return GY_OK;
}

gy_query_catalog gy_query_catalog_of(gy_query_tables *tables)
{
    return (gy_query_catalog){.find = find, .arg = tables};
}

void gy_query_tables_fini(gy_query_tables *tables)
{
    for (gy_query_files *at = tables->first; at != NULL;) {
        gy_query_files *next = at->next;
        free_files(at);
        at = next;
    }
    *tables = (gy_query_tables){.folder = NULL};
}
