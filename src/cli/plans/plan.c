/* gyre plan: list, cost, draw, check and simulate collectives without running them. */
#include "cli/plans/plan.h"

#include "cli/cli.h"
#include "cli/report.h"

#include <gyre/data.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
    RANKS_MOST = 65536,
    RANKS_DEFAULT = 8,
    WIDTH = 80,
    WIDTH_LEAST = 24,
    FAILURES_MOST = 16
};
enum { LINKS_BYTES = (1 << 20) + 1 }; /* one more than the maximum size of the file */

typedef struct plan_settings {
    const char *operation, *algorithm, *svg, *links, *schedule, *costs, *lists, *read;
    long long ranks, hosts, root, chunks, element, width, bytes, stages, micros;
    double alpha, beta, gamma, alpha_across, beta_across, rate, steps;
    bool csv, all, in_place;
    long long seed;
    double loss, retry, uplink;
    const char *fail;
} plan_settings;

/* The values of options that were not given. */
#define UNSET                                                                                  \
    {                                                                                          \
        .root = -1, .bytes = -1, .alpha = -1, .beta = -1, .gamma = -1, .alpha_across = -1,     \
        .beta_across = -1, .rate = -1, .steps = -1, .seed = -1, .loss = -1, .retry = -1,       \
        .uplink = -1                                                                           \
    }
static const plan_settings unset = UNSET;
static plan_settings settings = UNSET;

static const gy_option options[] = {
    {&gy_option_ranks, GY_OPTION_INTEGER, "default: 8", offsetof(plan_settings, ranks), 1,
     RANKS_MOST, NULL},
    {&gy_option_algorithm, GY_OPTION_TEXT, NULL, offsetof(plan_settings, algorithm), 0, 0,
     NULL},
    {&gy_option_operation, GY_OPTION_TEXT, "of the table; default: allreduce",
     offsetof(plan_settings, operation), 0, 0, NULL},
    {&gy_option_bytes, GY_OPTION_SIZE, "default: 1MB", offsetof(plan_settings, bytes), 0, 0,
     NULL},
    {&gy_option_element_bytes, GY_OPTION_INTEGER, "default: 4",
     offsetof(plan_settings, element), 1, 4096, NULL},
    {&gy_option_hosts, GY_OPTION_INTEGER, "default: 1", offsetof(plan_settings, hosts), 1,
     RANKS_MOST, NULL},
    {&gy_option_root, GY_OPTION_INTEGER, "default: 0", offsetof(plan_settings, root), 0,
     RANKS_MOST - 1, NULL},
    {&gy_option_chunks, GY_OPTION_INTEGER, "default: 1, of interleaved 2",
     offsetof(plan_settings, chunks), 1, 65535, NULL},
    {&gy_option_in_place, GY_OPTION_FLAG, NULL, offsetof(plan_settings, in_place), 0, 0, NULL},
    {&gy_option_alpha, GY_OPTION_REAL, "default: 5e-6", offsetof(plan_settings, alpha), 0, 1e6,
     NULL},
    {&gy_option_beta, GY_OPTION_REAL, "default: 2e-11, which is 50 GB/s",
     offsetof(plan_settings, beta), 0, 1e6, NULL},
    {&gy_option_gamma, GY_OPTION_REAL, "default: 1e-11", offsetof(plan_settings, gamma), 0, 1e6,
     NULL},
    {&gy_option_alpha_across, GY_OPTION_REAL, "default: --alpha",
     offsetof(plan_settings, alpha_across), 1e-12, 1e6, NULL},
    {&gy_option_beta_across, GY_OPTION_REAL, "default: --beta",
     offsetof(plan_settings, beta_across), 1e-18, 1e6, NULL},
    {&gy_option_links, GY_OPTION_PATH, NULL, offsetof(plan_settings, links), 0, 0, NULL},
    {&gy_option_exchanges_per_second, GY_OPTION_REAL, "default: 3",
     offsetof(plan_settings, rate), 0, 1e9, NULL},
    {&gy_option_plan_steps_max, GY_OPTION_REAL, "in steps times ranks; default: 2e7",
     offsetof(plan_settings, steps), 0, 1e12, NULL},
    {&gy_option_all, GY_OPTION_FLAG, NULL, offsetof(plan_settings, all), 0, 0, NULL},
    {&gy_option_csv, GY_OPTION_FLAG, NULL, offsetof(plan_settings, csv), 0, 0, NULL},
    {&gy_option_svg, GY_OPTION_PATH, NULL, offsetof(plan_settings, svg), 0, 0, NULL},
    {&gy_option_width, GY_OPTION_INTEGER, "default: the terminal's, or 80",
     offsetof(plan_settings, width), WIDTH_LEAST, 100000, NULL},
    {&gy_option_seed, GY_OPTION_INTEGER, "of --loss; default: 1", offsetof(plan_settings, seed),
     0, 9e15, NULL},
    {&gy_option_loss, GY_OPTION_REAL, "default: 0", offsetof(plan_settings, loss), 0, 1, NULL},
    {&gy_option_retransmit_timeout, GY_OPTION_REAL, "default: 0.001",
     offsetof(plan_settings, retry), 0, 1e6, NULL},
    {&gy_option_uplink_beta, GY_OPTION_REAL, "default: none", offsetof(plan_settings, uplink),
     0, 1e6, NULL},
    {&gy_option_schedule, GY_OPTION_CHOICE, "of a pipeline; default: 1f1b",
     offsetof(plan_settings, schedule), 0, 0, "gpipe|1f1b|interleaved|zb-h1"},
    {&gy_option_stages, GY_OPTION_INTEGER, "default: 4", offsetof(plan_settings, stages), 1,
     GY_PIPE_RANKS_MAX, NULL},
    {&gy_option_micro_batches, GY_OPTION_INTEGER, "default: 8", offsetof(plan_settings, micros),
     1, GY_PIPE_PAIRS_MAX, NULL},
    {&gy_option_costs, GY_OPTION_TEXT, "default: 1,1,1,0", offsetof(plan_settings, costs), 0, 0,
     NULL},
    {&gy_option_lists, GY_OPTION_CHOICE, NULL, offsetof(plan_settings, lists), 0, 0,
     "computing|all"},
    {&gy_option_read, GY_OPTION_PATH, NULL, offsetof(plan_settings, read), 0, 0, NULL},
    {&gy_option_fail, GY_OPTION_TEXT, NULL, offsetof(plan_settings, fail), 0, 0, NULL},
};
enum { OPTION_COUNT = sizeof(options) / sizeof(options[0]) };

static int complain(const char *argument, const char *text, const char *expected)
{
    gy_print_to(stderr, "gyre plan: %s: '%s' is not valid: expected %s\n", argument, text,
                expected);
    return GY_EXIT_USAGE;
}

const char *gy_cli_bytes_text(double bytes, char out[32])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    size_t unit = 0;
    while (bytes >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        bytes /= 1000;
        unit++;
    }
    snprintf(out, 32, "%.4g %s", bytes, units[unit]);
    return out;
}

static double or_default(double given, double otherwise)
{
    return given >= 0 ? given : otherwise;
}

static int fail(gy_status status)
{
    int code = gy_cli_report_failure("plan", status);
    return status == GY_ARG ? GY_EXIT_USAGE : code;
}

/* The file of --links, read; freed at the end of the command. */
static gy_plan_links *links;

static int read_links(gy_plan_query *query)
{
    static char text[LINKS_BYTES];
    FILE *file = fopen(settings.links, "rb");
    size_t size = file == NULL ? 0 : fread(text, 1, LINKS_BYTES, file);
    int error = file == NULL || ferror(file) != 0 ? errno : 0;
    gy_status status = GY_OK;
    if (file != NULL) {
        fclose(file);
    }
    if (error != 0) {
        gy_print_to(stderr, "gyre plan: cannot read the file of links %s: %s\n", settings.links,
                    strerror(error));
        return GY_EXIT_FAILURE;
    }
    status = gy_plan_links_parse(text, size, settings.links, &links);
    if (status == GY_OK) {
        query->ranks = (int)settings.ranks;
        status = gy_plan_links_use(links, query);
        query->ranks = query->ranks > 0 ? query->ranks : RANKS_DEFAULT;
    }
    if (status == GY_OK && query->host_of != NULL && settings.hosts > 0) {
        return complain("--hosts", "", "none beside a file of links that names hosts");
    }
    return status == GY_OK ? GY_EXIT_OK : fail(status);
}

/* The settings as a query; `operation` from the operand or option. */
static int make_query(const char *operation, gy_plan_query *query)
{
    *query = (gy_plan_query){
        .operation = operation,
        .algorithm = settings.algorithm,
        .ranks = settings.ranks > 0 ? (int)settings.ranks : RANKS_DEFAULT,
        .hosts = (int)settings.hosts,
        .root = settings.root > 0 ? (int)settings.root : 0,
        .chunks = (int)settings.chunks,
        .is_in_place = settings.in_place,
        .bytes = settings.bytes >= 0 ? settings.bytes : 1000000,
        .element_bytes = settings.element,
        .links = {.alpha = or_default(settings.alpha, 5e-6),
                  .beta = or_default(settings.beta, 2e-11),
                  .gamma = or_default(settings.gamma, 1e-11),
                  .alpha_across = or_default(settings.alpha_across, 0)},
        .beta_across = or_default(settings.beta_across, 0),
    };
    return settings.links != NULL ? read_links(query) : GY_EXIT_OK;
}

/* ---- The verbs ---- */

static void list_one(const char *operation)
{
    gy_plan_algorithm row;
    for (int i = 0; gy_plan_algorithm_at(operation, i, &row); i++) {
        char name[64];
        snprintf(name, sizeof(name), "%s%s", row.name, row.takes);
        printf("%-15s %-32s %-11s %s\n", operation, name, row.needs, row.order);
    }
}

static int run_list(const char *operation)
{
    gy_plan_algorithm first;
    if (operation != NULL && !gy_plan_algorithm_at(operation, 0, &first)) {
        int64_t steps; /* the failure lists the operations */
        return fail(gy_plan_length(
            &(gy_plan_query){.operation = operation, .algorithm = "", .ranks = 1}, &steps));
    }
    printf("%-15s %-32s %-11s %s\n", "operation", "algorithm", "needs", "order");
    for (int i = 0; operation == NULL && gy_plan_operation(i) != NULL; i++) {
        list_one(gy_plan_operation(i));
    }
    if (operation != NULL) {
        list_one(operation);
    }
    return GY_EXIT_OK;
}

static int run_table(const char *operation)
{
    gy_plan_query query;
    (void)operation;
    int code =
        make_query(settings.operation != NULL ? settings.operation : "allreduce", &query);
    if (code != GY_EXIT_OK) {
        return code;
    }
    gy_status status = gy_cli_print_plan_table(
        &query, &(gy_table_format){.is_csv = settings.csv,
                                   .has_all = settings.all,
                                   .rate = or_default(settings.rate, 3),
                                   .steps_most = or_default(settings.steps, 2e7)});
    return status == GY_OK ? GY_EXIT_OK : fail(status);
}

static int terminal_width(void)
{
    struct winsize size = {.ws_col = 0};
    bool is_terminal = isatty(STDOUT_FILENO) == 1;
    if (settings.width > 0) {
        return (int)settings.width;
    }
    return is_terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
                   size.ws_col >= WIDTH_LEAST
               ? size.ws_col
               : WIDTH;
}

static int run_show(const char *operation)
{
    gy_plan_query query;
    char *text = NULL;
    int code = make_query(operation, &query);
    if (code != GY_EXIT_OK) {
        return code;
    }
    gy_status status =
        gy_plan_picture(&query, settings.svg != NULL ? 0 : terminal_width(), &text);
    if (status == GY_OK && settings.svg != NULL) {
        status = gy_save_file(settings.svg, text, strlen(text));
    } else if (status == GY_OK) {
        fputs(text, stdout);
    }
    gy_string_free(text);
    return status == GY_OK ? GY_EXIT_OK : fail(status);
}

static int run_check(const char *operation)
{
    gy_plan_query query;
    int code = make_query(operation, &query);
    if (code != GY_EXIT_OK) {
        return code;
    }
    gy_status status = gy_plan_prove(&query);
    if (status != GY_OK) {
        return fail(status);
    }
    printf("%s by %s is right for %d rank%s\n", query.operation, query.algorithm, query.ranks,
           query.ranks == 1 ? "" : "s");
    return GY_EXIT_OK;
}

/* "3@0.002,5@0.01" */
static bool read_failures(const char *text, gy_rank_failure *failures, size_t *count)
{
    *count = 0;
    for (const char *at = text; at != NULL && *count < FAILURES_MOST; (*count)++) {
        char *end = NULL;
        long rank = strtol(at, &end, 10);
        if (end == at || *end != '@' || rank < 0 || rank >= RANKS_MOST) {
            return false;
        }
        at = end + 1;
        double when = strtod(at, &end);
        if (end == at || !(when >= 0) || (*end != ',' && *end != '\0')) {
            return false;
        }
        failures[*count] = (gy_rank_failure){.rank = (int)rank, .at_s = when};
        at = *end == ',' ? end + 1 : NULL;
        if (at == NULL) {
            ++*count;
            return true;
        }
    }
    return false;
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int run_simulate(const char *operation)
{
    gy_plan_query query;
    gy_simulation_result result;
    gy_rank_failure failures[FAILURES_MOST];
    gy_fault_model faults = {.seed = settings.seed >= 0 ? (uint64_t)settings.seed : 1,
                             .loss = or_default(settings.loss, 0),
                             .retry_s = or_default(settings.retry, 1e-3),
                             .uplink_beta = or_default(settings.uplink, 0),
                             .failures = failures};
    char bytes[32];
    int code = make_query(operation, &query);
    if (code != GY_EXIT_OK) {
        return code;
    }
    if (settings.fail != NULL &&
        !read_failures(settings.fail, failures, &faults.failure_count)) {
        return complain("--fail", settings.fail, "RANK@SECONDS, up to 16 of them with commas");
    }
    double begin = seconds_now();
    gy_status status = gy_plan_simulate(&query, &faults, &result);
    double took = seconds_now() - begin;
    if (status == GY_ARG) {
        return fail(status);
    }
    printf("%s by %s, %d ranks: %.9g s of virtual time, %lld messages, %s, %lld lost\n",
           query.operation, query.algorithm, query.ranks, result.time_s,
           (long long)result.messages, gy_cli_bytes_text(result.bytes, bytes),
           (long long)result.lost);
    printf("%d of %d ranks finished, seed %llu, digest %016llx\n", result.ended, query.ranks,
           (unsigned long long)faults.seed, (unsigned long long)result.digest);
    printf("simulated in %.3g s, %.3g messages a second\n", took,
           took > 0 ? (double)result.messages / took : 0);
    return status == GY_OK ? GY_EXIT_OK : fail(status);
}

static int run_pipe(const char *operation)
{
    bool is_planned = settings.schedule != NULL || settings.stages > 0 || settings.micros > 0 ||
                      settings.chunks > 0;
    const bool is_interleaved =
        settings.schedule != NULL && strcmp(settings.schedule, "interleaved") == 0;
    if (operation != NULL) {
        return complain("pipe", operation, "options only");
    }
    if (settings.read != NULL && is_planned) {
        return complain("--read", settings.read,
                        "no --schedule, --stages, --micro-batches or --chunks beside it");
    }
    return gy_cli_plan_pipe(&(gy_pipe_request){
        .query = {.schedule = settings.schedule != NULL ? settings.schedule : "1f1b",
                  .ranks = settings.stages > 0 ? (int)settings.stages : 4,
                  .micros = settings.micros > 0 ? (int)settings.micros : 8,
                  .chunks = settings.chunks > 0 ? (int)settings.chunks
                            : is_interleaved    ? 2
                                                : 1},
        .costs = settings.costs,
        .lists = settings.lists,
        .read = settings.read,
        .svg = settings.svg,
        .width = terminal_width(),
        .bytes = settings.bytes > 0 ? settings.bytes : 0,
    });
}

typedef struct plan_verb {
    const char *name;
    bool has_operation, has_algorithm; /* must be given */
    const char *takes;                 /* options, each between spaces */
    int (*run)(const char *operation);
} plan_verb;

#define PLAN_OPTIONS " ranks algorithm hosts root chunks in-place links "
#define COST_OPTIONS "bytes element-bytes alpha beta gamma alpha-across beta-across "

static const plan_verb verbs[] = {
    {"list", false, false, " ", run_list},
    {"table", false, false,
     " ranks operation hosts root chunks in-place links csv all exchanges-per-second "
     "plan-steps-max " COST_OPTIONS,
     run_table},
    {"show", true, true, PLAN_OPTIONS "svg width ", run_show},
    {"check", true, true, PLAN_OPTIONS, run_check},
    {"pipe", false, false,
     " schedule stages micro-batches chunks costs bytes lists read svg width ", run_pipe},
    {"simulate", true, true,
     PLAN_OPTIONS COST_OPTIONS "seed loss retransmit-timeout uplink-beta fail ", run_simulate},
};

static bool is_given(const gy_option *option)
{
    static const size_t sizes[] = {
        [GY_OPTION_FLAG] = sizeof(bool),           [GY_OPTION_INTEGER] = sizeof(long long),
        [GY_OPTION_REAL] = sizeof(double),         [GY_OPTION_TEXT] = sizeof(const char *),
        [GY_OPTION_CHOICE] = sizeof(const char *), [GY_OPTION_SIZE] = sizeof(long long),
        [GY_OPTION_LIST] = sizeof(gy_option_list), [GY_OPTION_PATH] = sizeof(const char *),
        [GY_OPTION_PATHS] = sizeof(gy_option_list)};
    return memcmp((const char *)&settings + option->offset,
                  (const char *)&unset + option->offset, sizes[option->kind]) != 0;
}

/* `takes` is names between blanks. */
static int refuse_option(const plan_verb *verb, const char *name)
{
    const char *from = verb->takes + strspn(verb->takes, " ");
    gy_print_to(stderr, "gyre plan %s: --%s does not apply: expected%s", verb->name, name,
                *from == '\0' ? " no options" : " one of");
    while (*from != '\0') {
        const size_t size = strcspn(from, " ");
        const char *next = from + size + strspn(from + size, " ");
        gy_print_to(stderr, " --%.*s%s", (int)size, from, *next != '\0' ? "," : "");
        from = next;
    }
    gy_print_to(stderr, "\n");
    return GY_EXIT_USAGE;
}

static int check_verb(const plan_verb *verb, int operand_count, char **operands)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        char name[32];
        snprintf(name, sizeof(name), " %s ", options[i].spec->name);
        if (is_given(&options[i]) && strstr(verb->takes, name) == NULL) {
            return refuse_option(verb, options[i].spec->name);
        }
    }
    if (verb->has_operation && operand_count < 2) {
        gy_print_to(stderr,
                    "gyre plan %s: OPERATION is missing: expected one such as allreduce\n",
                    verb->name);
        return GY_EXIT_USAGE;
    }
    bool has_figures = settings.alpha >= 0 || settings.beta >= 0 || settings.gamma >= 0 ||
                       settings.alpha_across >= 0 || settings.beta_across >= 0;
    if (settings.links != NULL && has_figures) {
        gy_print_to(stderr,
                    "gyre plan %s: --links gives the costs of links: expected no --alpha, "
                    "--beta, --gamma, --alpha-across or --beta-across with it\n",
                    verb->name);
        return GY_EXIT_USAGE;
    }
    if (settings.hosts <= 1 && settings.links == NULL &&
        (settings.alpha_across >= 0 || settings.beta_across >= 0 || settings.uplink >= 0)) {
        gy_print_to(
            stderr,
            "gyre plan %s: --alpha-across, --beta-across and --uplink-beta are for ranks "
            "on several hosts: expected --hosts 2 or more\n",
            verb->name);
        return GY_EXIT_USAGE;
    }
    if (settings.retry >= 0 && settings.loss < 0) {
        gy_print_to(
            stderr,
            "gyre plan %s: --retransmit-timeout is for messages that are lost: expected "
            "--loss\n",
            verb->name);
        return GY_EXIT_USAGE;
    }
    if (verb->run == run_table && operand_count > 1) {
        return complain("table", operands[1], "options only, --operation names one");
    }
    if (verb->has_algorithm && settings.algorithm == NULL) {
        gy_print_to(
            stderr,
            "gyre plan %s: --algorithm is missing: expected a NAME that 'gyre plan list "
            "%s' shows\n",
            verb->name, operands[1]);
        return GY_EXIT_USAGE;
    }
    return GY_EXIT_OK;
}

static int run(char **operands, int operand_count)
{
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strcmp(verbs[i].name, operands[0]) == 0) {
            int code = check_verb(&verbs[i], operand_count, operands);
            code = code != GY_EXIT_OK ? code
                                      : verbs[i].run(operand_count > 1 ? operands[1] : NULL);
            gy_plan_links_free(links);
            links = NULL;
            return code;
        }
    }
    return complain("VERB", operands[0], "list, table, show, check, simulate or pipe");
}

const gy_command gy_command_plan = {
    .name = "plan",
    .summary = "list, cost, draw, check and simulate plans of collectives and pipelines",
    .operands = "VERB [OPERATION]",
    .operands_least = 1,
    .operands_most = 2,
    .description =
        "list [OPERATION]    list the algorithms\n"
        "table               print the cost of each algorithm: rounds, bytes, fan-in and "
        "time,\n"
        "                    beside the formulas of the literature\n"
        "show OPERATION      draw a plan: rounds are rows, ranks are columns\n"
        "check OPERATION     prove a plan: each contribution exactly once, no deadlock\n"
        "simulate OPERATION  run a plan on a virtual clock, with shared links and failures\n"
        "pipe                draw and cost a schedule of a pipeline, or check a list\n"
        "\n"
        "A message costs alpha + bytes * beta, combining costs bytes * gamma. No rank is "
        "started.",
    .options = options,
    .option_count = OPTION_COUNT,
    .settings = &settings,
    .run = run,
};
