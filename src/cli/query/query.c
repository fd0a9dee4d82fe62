/* gyre query: SQL over CSV files. */
#include "cli/cli.h"
#include "cli/jobs/common.h"
#include "cli/report.h"

#include <gyre/csv.h>
#include <gyre/query.h>
#include <gyre/store.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* In the order of the enum. */
#define FORMATS "table|csv|json"
enum { FORMAT_TABLE, FORMAT_CSV, FORMAT_JSON };
enum { ROWS_SHOWN = 1000, INPUT_BYTES_MAX = 8 << 20 /* as of any text of statements */ };

static struct query_settings {
    const char *file, *tables, *format, *output;
    long long workers, memory, split;
    double watch;
    bool is_explained, has_stats;
    gy_job_settings job;
} settings;

#define PLACE(member) offsetof(struct query_settings, member)

static const gy_option options[] = {
    {&gy_option_file, GY_OPTION_PATH, "statements, in place of SQL; -: standard input",
     PLACE(file), 0, 0, NULL},
    {&gy_option_tables, GY_OPTION_PATH, NULL, PLACE(tables), 0, 0, NULL},
    {&gy_option_format, GY_OPTION_CHOICE,
     "of the answer; default: table, with -o by its name: json or csv", PLACE(format), 0, 0,
     FORMATS},
    {&gy_option_output, GY_OPTION_PATH,
     "a file, compressed by .gz or .zst; default: standard output", PLACE(output), 0, 0, NULL},
    {&gy_option_workers, GY_OPTION_INTEGER, "threads; default: all cores", PLACE(workers), 1,
     1024, NULL},
    {&gy_option_memory, GY_OPTION_SIZE,
     "of rows that operators keep before they spill to TMPDIR; default: no limit",
     PLACE(memory), 1, 0, NULL},
    {&gy_option_explain, GY_OPTION_FLAG, "do not run it", PLACE(is_explained), 0, 0, NULL},
    {&gy_option_stats, GY_OPTION_FLAG, "rows, time and spills of each operator",
     PLACE(has_stats), 0, 0, NULL},
    {&gy_option_processes, GY_OPTION_INTEGER,
     "run as a job; with --memo, default: one per core", PLACE(job.processes), 1, 4096, NULL},
    {&gy_option_timeout, GY_OPTION_REAL, "of a job; default: none", PLACE(job.timeout), 0.001,
     1e9, NULL},
    {&gy_option_heartbeat_timeout, GY_OPTION_REAL, "of a job; default: 10",
     PLACE(job.heartbeat_timeout), 0.1, 1e6, NULL},
    {&gy_option_folder, GY_OPTION_PATH, "of a job; default: below ~/.local/state/gyre/jobs",
     PLACE(job.folder), 0, 0, NULL},
    {&gy_option_memo, GY_OPTION_PATH, "run as a job that runs again only what changed",
     PLACE(job.memo), 0, 0, NULL},
    {&gy_option_memo_quota, GY_OPTION_SIZE, "default: 10GiB", PLACE(job.memo_bytes), 1, 0,
     NULL},
    {&gy_option_trace, GY_OPTION_PATH, "of a job", PLACE(job.trace), 0, 0, NULL},
    {&gy_option_sandbox, GY_OPTION_TEXT,
     "of a job: strict, available, or a list of parts; default: none", PLACE(job.sandbox), 0, 0,
     NULL},
    {&gy_option_split, GY_OPTION_SIZE, "of a job, a power of two; default: 16MiB", PLACE(split),
     64, 0, NULL},
    {&gy_option_watch, GY_OPTION_REAL, "default: run once", PLACE(watch), 0.001, 1e9, NULL},
};

/* Whether the output's name ends so, before what says that it is compressed. */
static bool is_named(const char *end)
{
    const char *name = settings.output != NULL ? settings.output : "";
    const char *dot = strrchr(name, '.');
    const bool is_packed = dot != NULL && gy_encoding_of_name(name) != GY_ENCODING_PLAIN;
    const size_t size = is_packed ? (size_t)(dot - name) : strlen(name), length = strlen(end);
    return size >= length && strncasecmp(name + size - length, end, length) == 0;
}

static int format(void)
{
    if (settings.format != NULL) {
        return gy_cli_options_choice(FORMATS, settings.format);
    }
    return settings.output == NULL                                          ? FORMAT_TABLE
           : is_named(".json") || is_named(".jsonl") || is_named(".ndjson") ? FORMAT_JSON
                                                                            : FORMAT_CSV;
}

/* ---- Answers ---- */

/* Why an answer could not be written: of errno; 0: nothing failed. */
static int write_error;

static gy_status write_bytes(void *arg, const void *data, size_t size_bytes)
{
    errno = 0;
    if (fwrite(data, 1, size_bytes, arg) == size_bytes) {
        return GY_OK;
    }
    write_error = errno != 0 ? errno : EIO;
    return GY_CANCELLED;
}

/* The rows that a table shows, and how many there are more. */
static gy_status print_table(const gy_frame *frame, int64_t before, FILE *out)
{
    const gy_frame_print_options how =
        GY_OPTIONS(gy_frame_print_options, .rows_max = ROWS_SHOWN);
    if (before == 0) {
        return gy_frame_print(frame, out, &how);
    }
    return GY_OK;
}

static gy_status print_frame(const gy_frame *frame, int64_t before, FILE *out)
{
    const gy_csv_write_options how =
        GY_OPTIONS(gy_csv_write_options, .has_no_header = before > 0,
                   .delimiter = (char)(is_named(".tsv") ? '\t' : ','));
    switch (format()) {
    case FORMAT_CSV:
        return gy_csv_write(frame, &how, write_bytes, out);
    case FORMAT_JSON:
        return gy_json_write(frame, write_bytes, out);
    default:
        return print_table(frame, before, out);
    }
}

/* An answer without rows still has its columns' names. */
static gy_status print_empty(gy_schema *schema, FILE *out)
{
    gy_frame_builder *builder = NULL;
    gy_frame *frame = NULL;
    gy_status status = gy_frame_builder_new(schema, &builder);
    status = status == GY_OK ? gy_frame_finish(builder, &frame) : status;
    status = status == GY_OK ? print_frame(frame, 0, out) : status;
    gy_frame_drop(frame);
    gy_frame_builder_free(builder);
    return status;
}

static gy_status print_answer(gy_schema *schema, const gy_frame_source *rows, FILE *out)
{
    int64_t count = 0, shown = 0;
    gy_status status = GY_OK;
    while (status == GY_OK) {
        gy_frame *frame = NULL;
        status = rows->next(rows->arg, &frame);
        if (status == GY_OK) {
            shown = count == 0 ? gy_frame_rows(frame) : shown;
            status = print_frame(frame, count, out);
            count += gy_frame_rows(frame);
        }
        gy_frame_drop(frame);
    }
    if (status == GY_DONE && count == 0) {
        return print_empty(schema, out);
    }
    if (status == GY_DONE && count > shown && format() == FORMAT_TABLE) {
        fprintf(out, "(%lld rows in all; --format csv prints them)\n", (long long)count);
    }
    return status == GY_DONE ? GY_OK : status;
}

/* ---- Statements ---- */

static void print_text(char *text, FILE *out)
{
    if (text != NULL) {
        fputs(text, out);
        gy_string_free(text);
    }
}

static gy_status take_answer(const gy_query *query, gy_schema *schema,
                             const gy_frame_source *rows, FILE *out)
{
    fputs(gy_query_note(query), stderr);
    if (settings.is_explained) {
        print_text(gy_query_explain(query), out);
        return GY_OK;
    }
    const gy_status status = print_answer(schema, rows, out);
    if (settings.has_stats) {
        print_text(gy_query_statistics(query), stderr);
    }
    return status;
}

static gy_status run_all(gy_query *query, FILE *out)
{
    for (;;) {
        gy_schema *schema = NULL;
        gy_frame_source rows = {.next = NULL};
        gy_status status = gy_query_next(query, &schema, &rows);
        if (status != GY_OK) {
            return status == GY_DONE ? GY_OK : status;
        }
        status = take_answer(query, schema, &rows, out);
        rows.close(rows.arg);
        gy_schema_drop(schema);
        GY_TRY(status);
    }
}

/* Puts answers into a file that is open. */
typedef gy_status (*fill_file)(void *arg, FILE *out);

static gy_status fill_with_answers(void *arg, FILE *out)
{
    return run_all(arg, out);
}

static gy_status cannot_write(int error)
{
    gy_print_to(stderr, "gyre query: --output %s: cannot be written: %s\n", settings.output,
                strerror(error));
    return GY_CANCELLED;
}

static ssize_t pack_bytes(void *compressor, const char *data, size_t size_bytes)
{
    return gy_compressor_add(compressor, data, size_bytes) == GY_OK ? (ssize_t)size_bytes : 0;
}

/* Fill a file through a compressor, where the output's name says so. */
static gy_status fill_packed(fill_file fill, void *arg, FILE *out)
{
    gy_compressor *compressor = NULL;
    const gy_encoding encoding = gy_encoding_of_name(settings.output);
    if (encoding == GY_ENCODING_PLAIN) {
        return fill(arg, out);
    }
    gy_status status = gy_compressor_new(encoding, write_bytes, out, &compressor);
    if (status != GY_OK) {
        return status;
    }
    FILE *packed = fopencookie(compressor, "w", (cookie_io_functions_t){.write = pack_bytes});
    status = packed != NULL ? fill(arg, packed) : GY_NOMEM;
    if (packed != NULL && fclose(packed) != 0 && status == GY_OK) {
        write_error = write_error != 0 ? write_error : EIO;
        status = GY_CANCELLED;
    }
    status = status == GY_OK ? gy_compressor_end(compressor) : status;
    gy_compressor_free(compressor);
    return status;
}

/* A file in the folder of the output: without a name, so that nothing is left of a process that
 * is killed; on file systems that have none of these with the name `part`. */
static FILE *open_part(const char *part, bool *has_name)
{
    char folder[4096];
    const char *slash = strrchr(settings.output, '/');
    const int size = slash != NULL ? (int)(slash - settings.output) + 1 : 1;
    snprintf(folder, sizeof(folder), "%.*s", size, slash != NULL ? settings.output : ".");
    const int made = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    *has_name = made < 0;
    return made >= 0 ? fdopen(made, "wb") : fopen(part, "wbe");
}

/* Give the file its name. 0, or an errno. */
static int name_output(FILE *out, const char *part, bool has_name)
{
    char opened[64];
    snprintf(opened, sizeof(opened), "/proc/self/fd/%d", fileno(out));
    if (fflush(out) != 0) {
        return errno;
    }
    if (!has_name) {
        (void)remove(part); /* of a process that ended between its name and the next one */
        if (linkat(AT_FDCWD, opened, AT_FDCWD, part, AT_SYMLINK_FOLLOW) != 0) {
            return errno;
        }
    }
    return rename(part, settings.output) == 0 ? 0 : errno;
}

/* Answers go to a file whole or not at all. */
static gy_status write_output(fill_file fill, void *arg)
{
    char part[4096];
    struct stat info;
    bool has_name = false;
    if (stat(settings.output, &info) == 0 && !S_ISREG(info.st_mode)) {
        gy_print_to(stderr, "gyre query: --output %s: it is there and no file\n",
                    settings.output);
        return GY_CANCELLED;
    }
    const int size = snprintf(part, sizeof(part), "%s.part", settings.output);
    if (size <= 0 || (size_t)size >= sizeof(part)) {
        return cannot_write(ENAMETOOLONG);
    }
    FILE *out = open_part(part, &has_name);
    if (out == NULL) {
        return cannot_write(errno);
    }
    write_error = 0;
    const gy_status status = fill_packed(fill, arg, out);
    const int failed = status == GY_OK ? name_output(out, part, has_name) : write_error;
    (void)fclose(out);
    if ((status != GY_OK || failed != 0) && has_name) {
        (void)remove(part);
    }
    return failed != 0 ? cannot_write(failed) : status;
}

static void report(const gy_query *query, gy_status status)
{
    const char *text = gy_query_report(query);
    char shown[4096];
    fflush(stdout);
    gy_printable(shown, sizeof(shown), text, strlen(text), "\n");
    if (text[0] != '\0') {
        fputs(shown, stderr);
    } else if (status != GY_CANCELLED && !ferror(stdout)) {
        (void)gy_cli_report_failure("query", status);
    }
}

/* A job, where an option asks for one. */
static bool is_job(void)
{
    return settings.job.processes > 0 || settings.job.memo != NULL;
}

/* The first option that only a job has; NULL: there is none. */
static const char *option_of_job(void)
{
    const gy_job_settings *job = &settings.job;
    const struct {
        const char *name;
        bool is_given;
    } options_of_job[] = {
        {"timeout", job->timeout > 0},   {"heartbeat-timeout", job->heartbeat_timeout > 0},
        {"folder", job->folder != NULL}, {"memo-quota", job->memo_bytes > 0},
        {"trace", job->trace != NULL},   {"sandbox", job->sandbox != NULL},
        {"split", settings.split > 0}};
    for (size_t i = 0; i < sizeof(options_of_job) / sizeof(options_of_job[0]); i++) {
        if (options_of_job[i].is_given) {
            return options_of_job[i].name;
        }
    }
    return NULL;
}

static int check_options(const char *operand)
{
    const gy_job_settings *job = &settings.job;
    if ((operand != NULL) == (settings.file != NULL)) {
        return gy_cli_report_usage(
            "gyre query: expected statements of SQL, or --file FILE with them%s",
            operand != NULL ? ", not both" : "");
    }
    const gy_encoding encoding =
        settings.output != NULL ? gy_encoding_of_name(settings.output) : GY_ENCODING_PLAIN;
    if (encoding != GY_ENCODING_PLAIN && encoding != GY_ENCODING_GZIP &&
        encoding != GY_ENCODING_ZSTD) {
        return gy_cli_report_usage("gyre query: --output %s: answers are text, plain or "
                                   "compressed: expected a name that ends in .gz, .zst or as "
                                   "text does",
                                   settings.output);
    }
    if (!is_job() && option_of_job() != NULL) {
        return gy_cli_report_usage(
            "gyre query: --%s is an option of a job: expected --processes or --memo, too",
            option_of_job());
    }
    if (job->memo_bytes > 0 && job->memo == NULL) {
        return gy_cli_report_usage("gyre query: --memo-quota needs --memo");
    }
    if (settings.watch > 0 && (job->folder != NULL || settings.is_explained)) {
        return gy_cli_report_usage("gyre query: --watch runs again and again: expected no --%s",
                                   settings.is_explained ? "explain" : "folder");
    }
    return GY_EXIT_OK;
}

static gy_status run_query(const gy_query_options *how)
{
    gy_query *query = NULL;
    gy_status status = gy_query_new(how, &query);
    if (status == GY_OK) {
        status = settings.output != NULL ? write_output(fill_with_answers, query)
                                         : run_all(query, stdout);
    }
    if (status < 0) {
        report(query, status);
    }
    gy_query_free(query);
    return status;
}

/* ---- Again and again ---- */

static gy_status fill_with_copy(void *arg, FILE *out)
{
    char piece[16384];
    FILE *from = arg;
    rewind(from);
    for (size_t got = 1; got > 0;) {
        got = fread(piece, 1, sizeof(piece), from);
        GY_TRY(write_bytes(out, piece, got));
    }
    return ferror(from) ? GY_IO : GY_OK;
}

/* All answers of one run, in a file without a name. */
static gy_status ask(const gy_query_options *how, FILE *out)
{
    gy_query *query = NULL;
    gy_status status = gy_query_new(how, &query);
    status = status == GY_OK ? run_all(query, out) : status;
    if (status < 0) {
        report(query, status);
    }
    gy_query_free(query);
    return status == GY_OK && (fflush(out) != 0 || ferror(out)) ? GY_IO : status;
}

static gy_status show(FILE *answers)
{
    if (settings.output != NULL) {
        return write_output(fill_with_copy, answers);
    }
    const gy_status status = fill_with_copy(answers, stdout);
    return fflush(stdout) == 0 ? status : GY_CANCELLED;
}

static bool is_same(FILE *a, FILE *b)
{
    char left[4096], right[4096];
    size_t got = 1;
    bool is_equal = a != NULL && b != NULL;
    if (is_equal) {
        rewind(a);
        rewind(b);
    }
    while (is_equal && got > 0) {
        got = fread(left, 1, sizeof(left), a);
        is_equal = fread(right, 1, sizeof(right), b) == got && memcmp(left, right, got) == 0;
    }
    return is_equal;
}

static void close_file(FILE *file)
{
    if (file != NULL) {
        (void)fclose(file);
    }
}

/* One run. What fails at first fails; what fails later (a file that is written just now) is
 * said, and asked again. */
static gy_status watch_once(const gy_query_options *how, FILE **shown)
{
    FILE *now = tmpfile();
    if (now == NULL) {
        gy_print_to(stderr, "gyre query: --watch: no file can be made in /tmp\n");
        return GY_CANCELLED;
    }
    gy_status status = ask(how, now);
    if (status == GY_OK && !is_same(*shown, now)) {
        status = show(now);
        close_file(*shown);
        *shown = now;
        return status;
    }
    close_file(now);
    return status < 0 && (status == GY_CANCELLED || *shown == NULL) ? status : GY_OK;
}

/* Each new answer, until Ctrl-C ends the process. */
static gy_status watch(const gy_query_options *how)
{
    const time_t seconds = (time_t)settings.watch;
    const struct timespec pause = {.tv_sec = seconds,
                                   .tv_nsec = (long)((settings.watch - (double)seconds) * 1e9)};
    FILE *shown = NULL;
    gy_status status = watch_once(how, &shown);
    while (status == GY_OK) {
        (void)nanosleep(&pause, NULL);
        status = watch_once(how, &shown);
    }
    close_file(shown);
    return status;
}

/* Statements of standard input, to its end; NULL: it is told what is wrong. */
static const char *read_input(void)
{
    static char text[INPUT_BYTES_MAX + 1];
    const size_t size = fread(text, 1, sizeof(text), stdin);
    if (ferror(stdin)) {
        gy_print_to(stderr, "gyre query: --file -: standard input cannot be read: %s\n",
                    strerror(errno));
        return NULL;
    }
    if (size == sizeof(text) || memchr(text, '\0', size) != NULL) {
        gy_print_to(stderr, "gyre query: --file -: expected at most %d bytes, none of them 0\n",
                    INPUT_BYTES_MAX);
        return NULL;
    }
    text[size] = '\0';
    return text;
}

static int run(char **operands, int count)
{
    const int code = check_options(count == 1 ? operands[0] : NULL);
    if (code != GY_EXIT_OK) {
        return code;
    }
    const bool is_input = settings.file != NULL && strcmp(settings.file, "-") == 0;
    const char *text = is_input ? read_input() : operands[0];
    if (is_input && text == NULL) {
        return GY_EXIT_FAILURE;
    }
    const gy_flow_options job = {.folder = settings.job.folder,
                                 .memo = settings.job.memo,
                                 .memo_bytes_max = settings.job.memo_bytes,
                                 .trace = settings.job.trace,
                                 .sandbox = settings.job.sandbox,
                                 .processes = (int)settings.job.processes,
                                 .timeout_s = settings.job.timeout,
                                 .heartbeat_timeout_s = settings.job.heartbeat_timeout};
    gy_query_options how =
        GY_OPTIONS(gy_query_options, .text = text, .path = is_input ? NULL : settings.file,
                   .tables = settings.tables, .workers = (int)settings.workers,
                   .memory_bytes = (uint64_t)settings.memory,
                   .is_planning = settings.is_explained, .split_bytes = (size_t)settings.split);
    if (is_job()) {
        const gy_status started = gy_cli_flow(&how.flow);
        if (started != GY_OK) {
            return gy_cli_report_failure("query", started);
        }
        how.job = &job;
    }
    const gy_status status = settings.watch > 0 ? watch(&how) : run_query(&how);
    gy_flow_end(how.flow);
    /* that standard output cannot be written main reports */
    return status < 0 && !ferror(stdout) ? GY_EXIT_FAILURE : GY_EXIT_OK;
}

const gy_command gy_command_query = {
    .name = "query",
    .summary = "answer queries in SQL over CSV files",
    .operands = "[SQL]",
    .operands_most = 1,
    .description =
        "Runs statements of SQL, separated by semicolons: select, values, with, create view\n"
        "and drop view, which lasts for the statements behind it. Grammar and meaning are\n"
        "PostgreSQL's. A table is a CSV file by its path (\"log.csv\"), files by a pattern\n"
        "(\"log/*.csv\"), read_csv('f', delim => '|', header => false, columns => 'a int, b\n"
        "text', skip => 2, nullstr => 'NA'), or NAME for NAME.csv of the folder --tables. gz\n"
        "and zst are read as they are.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .settings = &settings,
    .run = run,
};
