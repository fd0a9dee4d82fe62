/** For tests of rows: small files, a session over them, answers as CSV. */
#ifndef GY_QUERY_API_KIT_TEST_H
#define GY_QUERY_API_KIT_TEST_H

#include "base/base.h"
#include "base/text.h"

#include "gy_test.h"

#include <gyre/csv.h>
#include <gyre/rows.h>

#include <sys/stat.h>

/* ---- Files ---- */

static char folder[] = "/tmp/gyre-rows-XXXXXX";
static gy_rows_session *session;

static const struct {
    const char *name, *text;
} files[] = {
    {"log.csv",
     "url,status,bytes\n/a,200,10\n/b,404,\n/a,200,30\n/c,200,5\n/b,200,7\n/a,500,1\n"},
    {"pages.csv", "url,title\n/a,Home\n/b,News\n/d,Lost\n"},
    {"log2.csv", "url,status,bytes\n/d,200,2\n"},
    {"bar.csv", "1|2\n3|4\n"},
    {"wrong.csv", "n,s\n1,a\n0,b\n"},
};

static inline void path_of(const char *name, char path[512])
{
    snprintf(path, 512, "%s/%s", folder, name);
}

static inline int begin(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < GY_COUNT(files); i++) {
        char path[512];
        path_of(files[i].name, path);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(files[i].text, 1, strlen(files[i].text), file),
                         strlen(files[i].text));
        assert_int_equal(fclose(file), 0);
    }
    const gy_rows_session_options options =
        GY_OPTIONS(gy_rows_session_options, .tables = folder, .workers = 1);
    return gy_rows_session_new(&options, &session);
}

static inline int end(void **state)
{
    (void)state;
    gy_rows_session_free(session);
    for (size_t i = 0; i < GY_COUNT(files); i++) {
        char path[512];
        path_of(files[i].name, path);
        unlink(path);
    }
    return rmdir(folder);
}

/* ---- Answers ---- */

static inline gy_status take_bytes(void *arg, const void *data, size_t size_bytes)
{
    gy_text_add_bytes(arg, data, size_bytes);
    return GY_OK;
}

static inline gy_status print_all(const gy_frame_source *source, gy_text *out)
{
    for (int count = 0;; count++) {
        gy_frame *frame = NULL;
        const gy_csv_write_options lines =
            GY_OPTIONS(gy_csv_write_options, .has_no_header = count > 0);
        gy_status status = source->next(source->arg, &frame);
        if (status != GY_OK) {
            return status == GY_DONE ? GY_OK : status;
        }
        status = gy_csv_write(frame, &lines, take_bytes, out);
        gy_frame_drop(frame);
        GY_TRY(status);
    }
}

/* The answer as CSV, or the report. */
static inline gy_status answer_of(gy_rows *rows, gy_text *out)
{
    gy_schema *schema = NULL;
    gy_frame_source source;
    gy_status status = gy_rows_run(rows, &schema, &source);
    if (status != GY_OK) {
        gy_text_add(out, "%s", gy_rows_report(rows));
        return status;
    }
    status = print_all(&source, out);
    source.close(source.arg);
    gy_schema_drop(schema);
    return status;
}

static inline gy_rows *log_rows(void)
{
    return gy_rows_table(session, "log");
}

static inline gy_rows *read_file(const char *name, const gy_rows_read_options *options)
{
    char path[512];
    path_of(name, path);
    return gy_rows_read(session, path, options);
}

static inline gy_rows *urls(const char *condition)
{
    return gy_rows_select(gy_rows_where(log_rows(), condition), "url");
}

#endif
