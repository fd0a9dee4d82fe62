/* gyre script: runs a script in SystemDS's language. Its arguments are SystemDS's, with one
 * dash. */
#include "cli/cli.h"
#include "cli/report.h"
#include "cli/scripts/scripts_priv.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int print_help(const char *name)
{
    char *text = gy_script_help(name);
    if (text == NULL) {
        return gy_cli_report_usage("gyre script: there is no builtin function '%s'", name);
    }
    fputs(text, stdout);
    gy_string_free(text);
    return GY_EXIT_OK;
}

void gy_cli_show_report(const gy_script *script, gy_status status)
{
    fflush(stdout); /* what the script printed comes before what ended it */
    const char *report = script != NULL ? gy_script_report(script) : "";
    if (report[0] == '\0') {
        (void)gy_cli_report_failure("script", status);
        return;
    }
    char shown[4096];
    gy_printable(shown, sizeof(shown), report, strlen(report), "\n");
    fputs(shown, stderr);
}

static void show_statistics(const gy_script *script, int most)
{
    char *text = gy_script_statistics(script, most);
    fflush(stdout);
    if (text != NULL) {
        fputs(text, stderr);
        gy_string_free(text);
    }
}

typedef struct command_line {
    gy_script_options options;
    int hitters; /* of -stats */
} command_line;

static int run_script(const command_line *line)
{
    gy_script *script = NULL;
    const bool is_terminal = line->options.text == NULL && line->options.path == NULL;
    gy_script_options options = line->options;
    if (is_terminal) {
        options.path = "terminal";
        options.text = "";
    }
    gy_status status = gy_script_new(&options, &script);
    if (status == GY_OK && is_terminal) {
        gy_cli_terminal(script);
    } else if (status == GY_OK) {
        status = gy_script_run(script);
    }
    if (status != GY_OK) {
        gy_cli_show_report(script, status);
    }
    if (options.statistics && script != NULL) {
        show_statistics(script, line->hitters);
    }
    gy_script_free(script);
    return status == GY_OK ? GY_EXIT_OK : GY_EXIT_FAILURE;
}

static bool is_number(const char *text)
{
    return *text != '\0' && text[strspn(text, "0123456789")] == '\0' && strlen(text) < 7;
}

/* -f FILE, -s TEXT, -stats [N] and FILE, in any order; gives how many arguments that are. */
static int take_script(command_line *line, char **operands, int count, int *taken)
{
    gy_script_options *options = &line->options;
    int at = 0;
    while (at < count && strcmp(operands[at], "-args") != 0 &&
           strcmp(operands[at], "-nvargs") != 0) {
        const char *one = operands[at++];
        const bool is_file = strcmp(one, "-f") == 0, is_text = strcmp(one, "-s") == 0;
        if (strcmp(one, "-stats") == 0) {
            options->statistics = true;
            if (at < count && is_number(operands[at])) {
                line->hitters = (int)strtol(operands[at++], NULL, 10);
            }
            continue;
        }
        if ((is_file || is_text) && at == count) {
            return gy_cli_report_usage("gyre script: %s needs a value", one);
        }
        if (one[0] == '-' && one[1] != '\0' && !is_file && !is_text) {
            return gy_cli_report_usage("gyre script: unknown option '%s': expected a script, "
                                       "-f FILE, -s TEXT, -stats, -args or -nvargs",
                                       one);
        }
        const char *value = is_file || is_text ? operands[at++] : one;
        if (options->text != NULL || options->path != NULL) {
            return gy_cli_report_usage("gyre script: '%s' is one too many: expected -args "
                                       "VALUE... or -nvargs NAME=VALUE...",
                                       value);
        }
        *(is_text ? &options->text : &options->path) = value;
    }
    *taken = at;
    return GY_EXIT_OK;
}

static int take_arguments(command_line *line, char **operands, int count)
{
    gy_script_options *options = &line->options;
    const char *const *values = (const char *const *)&operands[1];
    if (count > 0 && strcmp(operands[0], "-args") == 0) {
        options->args = values;
        options->arg_count = count - 1;
    } else if (count > 0) {
        options->named = values;
        options->named_count = count - 1;
    }
    for (int i = 0; i < options->named_count; i++) {
        const char *equals = strchr(values[i], '=');
        if (equals == NULL || equals == values[i]) {
            return gy_cli_report_usage("gyre script: -nvargs '%s': expected NAME=VALUE",
                                       values[i]);
        }
    }
    return GY_EXIT_OK;
}

static int run(char **operands, int count)
{
    command_line line = {.options = {.struct_size = sizeof(line.options)}, .hitters = 10};
    int taken = 0;
    if (count == 2 && (strcmp(operands[0], "--help") == 0 || strcmp(operands[0], "-h") == 0)) {
        return print_help(operands[1]);
    }
    int status = take_script(&line, operands, count, &taken);
    status =
        status == GY_EXIT_OK ? take_arguments(&line, operands + taken, count - taken) : status;
    if (status != GY_EXIT_OK) {
        return status;
    }
    const bool has_script = line.options.text != NULL || line.options.path != NULL;
    if (!has_script && isatty(STDIN_FILENO) != 1) {
        return gy_cli_report_usage("gyre script: FILE is missing: expected a script, -f FILE "
                                   "or -s TEXT, or a terminal to take statements from");
    }
    return run_script(&line);
}

const gy_command gy_command_script = {
    .name = "script",
    .summary = "run a linear algebra script in SystemDS's language",
    .operands = "[-stats [N]] [FILE|-f FILE|-s TEXT] [-args VALUE...|-nvargs NAME=VALUE...]",
    .operands_most = -1,
    .is_raw = true,
    .description =
        "Runs the script FILE, or TEXT; alone at a terminal it takes statements one by one.\n"
        "Behind -args stand the values of $1, $2, ..., behind -nvargs those of $NAME. -stats\n"
        "prints times, memory and the N costliest instructions (10 unless given) to standard\n"
        "error. Scripts of 'source' and functions that a script does not have (NAME.dml) are\n"
        "also looked for in the folders of GYRE_DML_PATH, separated by colons, and in those\n"
        "that come with Gyre (share/gyre/dml).\n"
        "'gyre script --help NAME' explains a builtin function.",
    .run = run,
};
