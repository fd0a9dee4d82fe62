/* gyre script: runs a script in SystemDS's language. Its arguments are SystemDS's, with one
 * dash. */
#include "cli/cli.h"
#include "cli/report.h"

#include <gyre/script.h>

#include <string.h>

enum { NAMED_MAX = 1 << 12 };

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

static int run_script(const gy_script_options *options)
{
    gy_script *script = NULL;
    gy_status status = gy_script_new(options, &script);
    status = status == GY_OK ? gy_script_run(script) : status;
    if (status == GY_OK) {
        gy_script_free(script);
        return GY_EXIT_OK;
    }
    fflush(stdout); /* what the script printed comes before what ended it */
    const char *report = script != NULL ? gy_script_report(script) : "";
    if (report[0] == '\0') {
        gy_script_free(script);
        return gy_cli_report_failure("script", status);
    }
    char shown[4096];
    gy_printable(shown, sizeof(shown), report, strlen(report), "\n");
    fputs(shown, stderr);
    gy_script_free(script);
    return GY_EXIT_FAILURE;
}

static int run(char **operands, int count)
{
    gy_script_options options = {.struct_size = sizeof(options)};
    int at = 1;
    if (count == 2 && (strcmp(operands[0], "--help") == 0 || strcmp(operands[0], "-h") == 0)) {
        return print_help(operands[1]);
    }
    if (count == 0) {
        return gy_cli_report_usage(
            "gyre script: FILE is missing: expected a script, -f FILE or "
            "-s TEXT");
    }
    if (strcmp(operands[0], "-s") == 0 || strcmp(operands[0], "-f") == 0) {
        if (count < 2) {
            return gy_cli_report_usage("gyre script: %s needs a value", operands[0]);
        }
        options.text = operands[0][1] == 's' ? operands[1] : NULL;
        options.path = operands[0][1] == 'f' ? operands[1] : NULL;
        at = 2;
    } else if (operands[0][0] == '-') {
        return gy_cli_report_usage(
            "gyre script: unknown option '%s': expected a script, -f FILE "
            "or -s TEXT",
            operands[0]);
    } else {
        options.path = operands[0];
    }
    if (at < count && strcmp(operands[at], "-args") == 0) {
        options.args = (const char *const *)&operands[at + 1];
        options.arg_count = count - at - 1;
        return run_script(&options);
    }
    if (at < count && strcmp(operands[at], "-nvargs") == 0) {
        options.named = (const char *const *)&operands[at + 1];
        options.named_count = count - at - 1;
        for (int i = at + 1; i < count; i++) {
            if (strchr(operands[i], '=') == NULL) {
                return gy_cli_report_usage("gyre script: -nvargs '%s': expected NAME=VALUE",
                                           operands[i]);
            }
        }
        return run_script(&options);
    }
    return at == count ? run_script(&options)
                       : gy_cli_report_usage(
                             "gyre script: '%s' is one too many: expected -args VALUE... "
                             "or -nvargs NAME=VALUE...",
                             operands[at]);
}

const gy_command gy_command_script = {
    .name = "script",
    .summary = "run a linear algebra script in SystemDS's language",
    .operands = "FILE|-f FILE|-s TEXT [-args VALUE...|-nvargs NAME=VALUE...]",
    .operands_most = -1,
    .is_raw = true,
    .description =
        "Runs the script FILE, or TEXT. Behind -args stand the values of $1, $2, ..., behind\n"
        "-nvargs those of $NAME. Scripts of 'source' and functions that a script does not "
        "have\n"
        "(NAME.dml) are also looked for in the folders of GYRE_DML_PATH, separated by colons.\n"
        "'gyre script --help NAME' explains a builtin function.",
    .run = run,
};
