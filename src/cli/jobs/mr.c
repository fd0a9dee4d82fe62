/* `gyre mr`: ready-made MapReduce jobs, and any programs as map and reduce. */
#include "cli/cli.h"
#include "cli/jobs/common.h"
#include "cli/report.h"

#include <gyre/gyre.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct mr_settings {
    gy_job_settings job;
    const char *output, *map, *reduce;
    gy_option_list files;
    long long partitions, memory, split, bad_records, field, weight, k;
    long long record, key_offset, key_bytes, hot_key;
    const char *key_kind, *separator, *format, *line_end;
    double record_timeout, copy_after;
    bool is_fixed, ignores_case, is_inverted, is_counting, is_quiet, has_stats;
    bool is_numeric, is_descending, is_strict;
    gy_file_list_options listing;
} mr_settings;

static mr_settings settings = {.field = -1,
                               .weight = -1,
                               .key_offset = -1,
                               .key_bytes = -1,
                               .hot_key = -1,
                               .copy_after = -1};

#define PLACE(member) offsetof(mr_settings, member)

/* In the order of gy_encoding. */
#define FORMATS "auto|text|gzip|zstd|bzip2|xz|lz4"
/* In the order of gy_line_end. */
#define LINE_ENDS "auto|lf|any"

static const gy_option options[] = {
    {&gy_option_output, GY_OPTION_TEXT,
     "a new folder, or a prefix in S3 or HDFS with no objects yet", PLACE(output), 0, 0, NULL},
    {&gy_option_partitions, GY_OPTION_INTEGER, "default: two per core, sort 1",
     PLACE(partitions), 1, 4096, NULL},
    GY_JOB_OPTIONS(mr_settings),
    {&gy_option_format, GY_OPTION_CHOICE, "of the input; default: auto, by their first bytes",
     PLACE(format), 0, 0, FORMATS},
    {&gy_option_line_end, GY_OPTION_CHOICE,
     "default: auto, LF and CR LF; CR in a file without LF", PLACE(line_end), 0, 0, LINE_ENDS},
    {&gy_option_task_memory, GY_OPTION_SIZE, "default: 1GiB", PLACE(memory),
     GY_FLOW_MEMORY_BYTES_MIN, 0, NULL},
    {&gy_option_split, GY_OPTION_SIZE, "default: 32 to 256 MiB", PLACE(split), 0, 0, NULL},
    {&gy_option_map, GY_OPTION_TEXT, NULL, PLACE(map), 0, 0, NULL},
    {&gy_option_reduce, GY_OPTION_TEXT, NULL, PLACE(reduce), 0, 0, NULL},
    {&gy_option_file, GY_OPTION_LIST, "placed beside the program; may be repeated",
     PLACE(files), 0, 0, NULL},
    {&gy_option_hidden, GY_OPTION_FLAG, NULL, PLACE(listing.takes_hidden), 0, 0, NULL},
    {&gy_option_follow_links, GY_OPTION_FLAG, NULL, PLACE(listing.takes_links), 0, 0, NULL},
    {&gy_option_fixed, GY_OPTION_FLAG, "grep", PLACE(is_fixed), 0, 0, NULL},
    {&gy_option_ignore_case, GY_OPTION_FLAG, "grep", PLACE(ignores_case), 0, 0, NULL},
    {&gy_option_invert, GY_OPTION_FLAG, "grep", PLACE(is_inverted), 0, 0, NULL},
    {&gy_option_count, GY_OPTION_FLAG, "grep", PLACE(is_counting), 0, 0, NULL},
    {&gy_option_record_bytes, GY_OPTION_SIZE, "sort; default: 0, sort lines", PLACE(record), 0,
     0, NULL},
    {&gy_option_key_offset, GY_OPTION_SIZE, "sort; default: 0", PLACE(key_offset), 0, 0, NULL},
    {&gy_option_key_bytes, GY_OPTION_SIZE, "sort; default: 0, to the end", PLACE(key_bytes), 0,
     0, NULL},
    {&gy_option_key_type, GY_OPTION_CHOICE, "sort; default: bytes", PLACE(key_kind), 0, 0,
     "bytes|int64|float64"},
    {&gy_option_numeric, GY_OPTION_FLAG, "sort", PLACE(is_numeric), 0, 0, NULL},
    {&gy_option_descending, GY_OPTION_FLAG, "sort", PLACE(is_descending), 0, 0, NULL},
    {&gy_option_field, GY_OPTION_INTEGER, "sort, topk; default: 0, the whole line",
     PLACE(field), 0, 1000, NULL},
    {&gy_option_separator, GY_OPTION_TEXT, "sort, topk; default: spaces and tabs",
     PLACE(separator), 0, 0, NULL},
    {&gy_option_strict, GY_OPTION_FLAG, "sort, topk; default: count such lines",
     PLACE(is_strict), 0, 0, NULL},
    {&gy_option_sum_field, GY_OPTION_INTEGER, "topk; default: 0, count lines", PLACE(weight), 0,
     1000, NULL},
    {&gy_option_top, GY_OPTION_INTEGER, "topk; default: 5", PLACE(k), 1, 1000000, NULL},
    {&gy_option_hot_key, GY_OPTION_SIZE, "index; default: 1MiB; 0: never", PLACE(hot_key), 0, 0,
     NULL},
    {&gy_option_bad_records_max, GY_OPTION_INTEGER, "default: 0", PLACE(bad_records), 0, 1e9,
     NULL},
    {&gy_option_record_timeout, GY_OPTION_REAL, "default: none", PLACE(record_timeout), 0.001,
     1e6, NULL},
    {&gy_option_backup_after, GY_OPTION_REAL, "default: 1; 0: never start one",
     PLACE(copy_after), 0, 1e6, NULL},
    {&gy_option_stats, GY_OPTION_FLAG, "with stages", PLACE(has_stats), 0, 0, NULL},
    {&gy_option_quiet, GY_OPTION_FLAG, "and no closing line", PLACE(is_quiet), 0, 0, NULL},
};

static const char *pattern; /* of grep */

static gy_encoding encoding(void)
{
    return settings.format != NULL
               ? (gy_encoding)gy_cli_options_choice(FORMATS, settings.format)
               : GY_ENCODING_AUTO;
}

static gy_line_end line_end(void)
{
    return settings.line_end != NULL
               ? (gy_line_end)gy_cli_options_choice(LINE_ENDS, settings.line_end)
               : GY_LINE_END_AUTO;
}

static const char *const *shown; /* names of the inputs for the output and messages */

static gy_job_options common(const gy_file_list *inputs)
{
    return (gy_job_options){.inputs = inputs->paths,
                            .names = shown,
                            .partitions = (int)settings.partitions,
                            .split_bytes = (size_t)settings.split,
                            .encoding = encoding(),
                            .line_end = line_end(),
                            .memory_bytes = (size_t)settings.memory};
}

static gy_status make_wordcount(gy_flow *flow, const gy_file_list *inputs, gy_dag **dag)
{
    const gy_job_options job = common(inputs);
    return gy_dag_wordcount(flow, &job, dag);
}

/* The index, and beside it the list of inputs by number. */
static gy_status make_index(gy_flow *flow, const gy_file_list *inputs, gy_dag **dag)
{
    gy_job_options job = common(inputs);
    if (settings.hot_key >= 0) {
        job.hot_key_bytes = settings.hot_key > 0 ? (size_t)settings.hot_key : SIZE_MAX;
    }
    const gy_status status = gy_dag_index(flow, &job, dag);
    if (status == GY_OK) {
        gy_dag_list_inputs(*dag, shown, "inputs");
    }
    return status;
}

static gy_status make_grep(gy_flow *flow, const gy_file_list *inputs, gy_dag **dag)
{
    const gy_job_options job = common(inputs);
    return gy_dag_grep(flow,
                       &(gy_grep_options){.job = &job,
                                          .pattern = pattern,
                                          .is_fixed = settings.is_fixed,
                                          .ignores_case = settings.ignores_case,
                                          .is_inverted = settings.is_inverted,
                                          .is_counting = settings.is_counting},
                       dag);
}

/* check_options has accepted it: one character, or \\t. */
static char separator(void)
{
    if (settings.separator == NULL) {
        return '\0';
    }
    if (settings.separator[1] != '\0') {
        return '\t';
    }
    return settings.separator[0];
}

static gy_status make_topk(gy_flow *flow, const gy_file_list *inputs, gy_dag **dag)
{
    const gy_job_options job = common(inputs);
    return gy_dag_topk(
        flow,
        &(gy_topk_options){.job = &job,
                           .k = (int)settings.k,
                           .field = settings.field > 0 ? (int)settings.field : 0,
                           .weight_field = settings.weight > 0 ? (int)settings.weight : 0,
                           .separator = separator(),
                           .is_strict = settings.is_strict},
        dag);
}

static gy_status make_sort(gy_flow *flow, const gy_file_list *inputs, gy_dag **dag)
{
    int kind = settings.key_kind == NULL
                   ? 0
                   : gy_cli_options_choice("bytes|int64|float64", settings.key_kind);
    kind = settings.is_numeric ? GY_SORT_NUMBER : kind;
    return gy_dag_sort(
        flow,
        &(gy_sort_options){.inputs = inputs->paths,
                           .record_bytes = (size_t)settings.record,
                           .key_offset =
                               settings.key_offset > 0 ? (size_t)settings.key_offset : 0,
                           .key_bytes = settings.key_bytes > 0 ? (size_t)settings.key_bytes : 0,
                           .order = (gy_sort_order)kind,
                           .is_descending = settings.is_descending,
                           .field = settings.field > 0 ? (int)settings.field : 0,
                           .separator = separator(),
                           .is_strict = settings.is_strict,
                           .partitions = (int)settings.partitions,
                           .memory_bytes = (size_t)settings.memory,
                           .encoding = encoding(),
                           .line_end = line_end()},
        dag);
}

static gy_status make_commands(gy_flow *flow, const gy_file_list *inputs, gy_dag **dag)
{
    const gy_job_options job = common(inputs);
    const char *const map[] = {"/bin/sh", "-c", settings.map, NULL};
    const char *const reduce[] = {"/bin/sh", "-c", settings.reduce, NULL};
    return gy_dag_commands(flow,
                           &(gy_commands_options){.job = &job,
                                                  .map = map,
                                                  .reduce = settings.reduce ? reduce : NULL,
                                                  .files = settings.files.items},
                           dag);
}

/* A ready-made job, and the options that it takes beyond the common ones. */
typedef struct mr_verb {
    const char *name, *takes; /* options, each between spaces */
    gy_status (*make)(gy_flow *flow, const gy_file_list *inputs, gy_dag **dag);
} mr_verb;

static const mr_verb verbs[] = {
    {"wordcount", " partitions split bad-records-max record-timeout ", make_wordcount},
    {"grep", " fixed ignore-case invert count split bad-records-max record-timeout ",
     make_grep},
    {"sort",
     " record-bytes key-offset key-bytes key-type numeric descending field separator strict "
     "partitions ",
     make_sort},
    {"index", " hot-key partitions split bad-records-max record-timeout ", make_index},
    {"topk", " field sum-field separator strict top split bad-records-max record-timeout ",
     make_topk},
    {"--map", " map reduce file split ", make_commands},
};

/* Only a job with a shuffle between its maps and the output has partitions. */
static bool has_partitions(const mr_verb *verb)
{
    return strstr(verb->takes, " partitions ") != NULL ||
           (verb->make == make_grep && settings.is_counting) ||
           (verb->make == make_commands && settings.reduce != NULL);
}

static int check_options(const mr_verb *verb)
{
    const struct {
        const char *name;
        bool is_given;
    } own[] = {{" map ", settings.map != NULL},
               {" reduce ", settings.reduce != NULL},
               {" file ", settings.files.items[0] != NULL},
               {" fixed ", settings.is_fixed},
               {" ignore-case ", settings.ignores_case},
               {" invert ", settings.is_inverted},
               {" count ", settings.is_counting},
               {" record-bytes ", settings.record > 0},
               {" key-offset ", settings.key_offset >= 0},
               {" key-bytes ", settings.key_bytes >= 0},
               {" key-type ", settings.key_kind != NULL},
               {" numeric ", settings.is_numeric},
               {" descending ", settings.is_descending},
               {" separator ", settings.separator != NULL},
               {" strict ", settings.is_strict},
               {" field ", settings.field >= 0},
               {" sum-field ", settings.weight >= 0},
               {" top ", settings.k > 0},
               {" hot-key ", settings.hot_key >= 0},
               {" split ", settings.split > 0},
               {" bad-records-max ", settings.bad_records > 0},
               {" record-timeout ", settings.record_timeout > 0},
               {" partitions ", settings.partitions > 0 && !has_partitions(verb)}};
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        if (own[i].is_given && (strstr(verb->takes, own[i].name) == NULL ||
                                strcmp(own[i].name, " partitions ") == 0)) {
            return gy_cli_report_usage("gyre mr %s: --%.*s does not apply to this job",
                                       verb->name, (int)strlen(own[i].name) - 2,
                                       own[i].name + 1);
        }
    }
    if (settings.is_numeric && settings.key_kind != NULL) {
        return gy_cli_report_usage(
            "gyre mr sort: --numeric and --key-type %s: expected one of them",
            settings.key_kind);
    }
    if (settings.separator != NULL && strlen(settings.separator) != 1 &&
        strcmp(settings.separator, "\\t") != 0) {
        return gy_cli_report_usage(
            "gyre mr %s: --separator: '%s' is not valid: expected one character, or \\t",
            verb->name, settings.separator);
    }
    if (settings.job.memo_bytes > 0 && settings.job.memo == NULL) {
        return gy_cli_report_usage("gyre mr: --memo-quota needs --memo");
    }
    if (settings.output == NULL) {
        return gy_cli_report_usage("gyre mr: --output is missing: expected a new folder");
    }
    if (strcmp(settings.output, "-") == 0) {
        return gy_cli_report_usage(
            "gyre mr: --output is '-': the output is several files, expected "
            "a folder for them (one of that name is ./-)");
    }
    return GY_EXIT_OK;
}

/* Report lines that were left out or had no value, also with --quiet. */
static void print_lacking(const gy_job_report *report, const char *verb)
{
    const bool is_sort = strcmp(verb, "sort") == 0;
    const int field = (int)(settings.field > 0 ? settings.field : 0);
    for (size_t i = 0; i < report->counter_count; i++) {
        const char *name = report->counters[i].name;
        const long long count = report->counters[i].value;
        const bool is_number = strcmp(name, GY_COUNTER_NO_NUMBER) == 0;
        if (count == 0 || (!is_number && strcmp(name, GY_COUNTER_NO_FIELD) != 0)) {
            continue;
        }
        char what[64] = "number to sort by";
        if (!is_number) {
            snprintf(what, sizeof(what), "field %d", field);
        } else if (!is_sort) {
            snprintf(what, sizeof(what), "integer below 2^63 in field %lld", settings.weight);
        }
        gy_print_to(stderr, "gyre mr %s: %lld line%s no %s: %s (--strict fails instead)\n",
                    verb, count, count == 1 ? " has" : "s have", what,
                    !is_sort                           ? "left out"
                    : is_number || settings.is_numeric ? "sorted as 0"
                                                       : "sorted by an empty key");
    }
}

static void print_report(const gy_job_report *report)
{
    if (settings.has_stats) {
        for (size_t i = 0; i < report->stage_count; i++) {
            const gy_job_stage *stage = &report->stages[i];
            printf("stage %s: %lld of %lld tasks done, %lld of them memoised, %lld failures, "
                   "%lld backup tasks, %lld bytes, %.3f s\n",
                   stage->name, (long long)stage->committed, (long long)stage->tasks,
                   (long long)stage->memoised, (long long)stage->failures,
                   (long long)stage->backups, (long long)stage->bytes, stage->run_s);
        }
        for (size_t i = 0; i < report->counter_count; i++) {
            printf("counter %s: %lld\n", report->counters[i].name,
                   (long long)report->counters[i].value);
        }
    }
    if (report->skipped_records > 0) {
        gy_print_to(stderr, "gyre mr: %lld record%s skipped:\n%s",
                    (long long)report->skipped_records,
                    report->skipped_records == 1 ? " was" : "s were", report->bad_record_text);
    }
    if (!settings.is_quiet) {
        gy_print_to(stderr, "%s: %lld bytes in %s, %.3f s\n", report->name,
                    (long long)report->output_bytes, settings.output, report->duration_s);
    }
}

/* When a command failed, look for a file that it names and that its folder lacks. */
static int report_failure(gy_status status)
{
    char hint[2400];
    const char *const *files = settings.files.items;
    const bool has_run = strstr(gy_error_text(), " ended with status ") != NULL;
    if (!has_run || (!gy_cli_find_unbrought(settings.map, files, hint, sizeof(hint)) &&
                     !gy_cli_find_unbrought(settings.reduce, files, hint, sizeof(hint)))) {
        return gy_cli_report_failure("mr", status);
    }
    gy_print_to(stderr, "gyre mr: %s (%s)\n", hint, gy_error_text());
    return GY_EXIT_FAILURE;
}

static int run_job(gy_flow *flow, const mr_verb *verb, const gy_file_list *inputs)
{
    gy_dag *dag = NULL;
    gy_flow_bars bars = {.file = STDERR_FILENO};
    const gy_flow_options flow_options = {
        .output = settings.output,
        .folder = settings.job.folder,
        .memo = settings.job.memo,
        .memo_bytes_max = settings.job.memo_bytes,
        .trace = settings.job.trace,
        .sandbox = settings.job.sandbox,
        .processes = (int)settings.job.processes,
        .threads = (int)settings.job.threads,
        .timeout_s = settings.job.timeout,
        .heartbeat_timeout_s = settings.job.heartbeat_timeout,
        .record_timeout_s = settings.record_timeout,
        .backup_floor_s = settings.copy_after > 0    ? settings.copy_after
                          : settings.copy_after == 0 ? -1
                                                     : 0,
        .bad_records_max = settings.bad_records,
        .progress = settings.is_quiet ? NULL : gy_flow_bars_draw,
        .progress_arg = &bars,
    };
    gy_job_report *report = NULL;
    gy_status status = verb->make(flow, inputs, &dag);
    status = status < 0 ? status : gy_flow_run(flow, dag, &flow_options, &report);
    if (status == GY_OK) {
        print_report(report);
        print_lacking(report, verb->name);
    }
    gy_job_report_free(report);
    gy_dag_free(dag);
    if (status == GY_ARG) {
        return gy_cli_report_usage("gyre mr: %s", gy_error_text());
    }
    return status == GY_OK ? GY_EXIT_OK : report_failure(status);
}

static const mr_verb *find_verb(const char *name)
{
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (verbs[i].make != make_commands && strcmp(verbs[i].name, name) == 0) {
            return &verbs[i];
        }
    }
    return NULL;
}

/* Copy inputs that can be read only once, such as standard input, and run the job on the
 * copies. */
static int run_spooled(const mr_verb *verb, const gy_file_list *inputs)
{
    gy_flow_spool *spool = NULL;
    gy_status status = gy_flow_spool_open(inputs->paths, settings.job.folder, &spool);
    if (status < 0) {
        return status == GY_ARG ? gy_cli_report_usage("gyre mr: %s", gy_error_text())
                                : gy_cli_report_failure("mr", status);
    }
    const gy_file_list readable = {.paths = spool->inputs, .count = inputs->count};
    shown = inputs->paths;
    settings.job.folder = spool->folder != NULL ? spool->folder : settings.job.folder;
    gy_flow *flow = NULL;
    status = gy_cli_flow(&flow);
    const int code =
        status == GY_OK ? run_job(flow, verb, &readable) : gy_cli_report_failure("mr", status);
    gy_flow_end(flow);
    gy_flow_spool_close(spool);
    return code;
}

static int run(char **operands, int count)
{
    static const mr_verb *const commands = &verbs[sizeof(verbs) / sizeof(verbs[0]) - 1];
    const mr_verb *verb = settings.map != NULL ? commands : find_verb(operands[0]);
    int first = settings.map != NULL ? 0 : 1;
    if (verb == NULL && settings.reduce != NULL) {
        return gy_cli_report_usage("gyre mr: --reduce needs --map");
    }
    if (verb == NULL) {
        return gy_cli_report_usage("gyre mr: unknown job '%s': expected wordcount, grep, sort, "
                                   "index or topk, or --map COMMAND",
                                   operands[0]);
    }
    int code = check_options(verb);
    if (code != GY_EXIT_OK) {
        return code;
    }
    if (verb->make == make_grep && count > 1) {
        pattern = operands[first++];
    }
    if (first >= count) {
        return gy_cli_report_usage("gyre mr %s: %s is missing", verb->name,
                                   verb->make == make_grep ? "PATTERN or INPUT" : "INPUT");
    }
    gy_file_list *inputs = NULL;
    gy_status status = gy_file_list_make_with((const char *const *)operands + first,
                                              &settings.listing, &inputs);
    if (status == GY_ARG) {
        return gy_cli_report_usage("gyre mr: %s", gy_error_text());
    }
    if (status != GY_OK) {
        return gy_cli_report_failure("mr", status);
    }
    code = run_spooled(verb, inputs);
    gy_file_list_free(inputs);
    return code;
}

const gy_command gy_command_mr = {
    .name = "mr",
    .summary = "MapReduce: wordcount, grep, sort, index, topk, or any commands",
    .operands = "JOB INPUT...",
    .operands_least = 1,
    .operands_most = -1,
    .description =
        "wordcount INPUT...      count each word\n"
        "grep PATTERN INPUT...   print the lines that match\n"
        "sort INPUT...           sort lines, or records of a fixed size\n"
        "index INPUT...          list for each word the numbers of the inputs that contain it\n"
        "topk INPUT...           find the most frequent lines, or values of a field\n"
        "--map COMMAND INPUT...  run any commands over standard input and output\n"
        "\n"
        "INPUT is a file, also of gzip, zstd, bzip2, xz or lz4, a folder of files, standard\n"
        "input (-), an object or a prefix: s3://BUCKET/KEY, hdfs://HOST:PORT/PATH.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .settings = &settings,
    .run = run,
};
