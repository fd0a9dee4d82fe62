#include "cli/cli.h"
#include "cli/report.h"

#include <gyre/launch.h>
#include <gyre/mapreduce.h>
#include <gyre/query.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const gy_command *const gy_commands[] = {
#define GY_X(name) &gy_command_##name,
    GY_COMMAND_LIST(GY_X)
#undef GY_X
};
const size_t gy_command_count = sizeof(gy_commands) / sizeof(gy_commands[0]);

enum { KEPT_ARGUMENTS = 1 << 16, FUNCTIONS_MAX = 64 };
static char *kept_arguments[KEPT_ARGUMENTS]; /* argv before parsing; empty when it is longer */

gy_status gy_cli_flow(gy_flow **flow)
{
    /* a copy, because parsing reorders main's array */
    static char **arguments = kept_arguments;
    static int count;
    while (arguments[count] != NULL) {
        count++;
    }
    gy_function functions[FUNCTIONS_MAX] = {GY_QUERY_VERTEX};
    if (gy_mapreduce_function_count >= FUNCTIONS_MAX) {
        abort();
    }
    memcpy(functions + 1, gy_mapreduce_functions,
           (size_t)gy_mapreduce_function_count * sizeof(*functions));
    return gy_flow_start(&count, &arguments, functions, gy_mapreduce_function_count + 1, flow);
}

int gy_cli_launch(const gy_run_options *options, char *const argv[])
{
    gy_run_report report;
    if (gy_run(options, argv, &report) < 0 && !report.is_started) {
        gy_print_to(stderr, "gyre: %s\n", gy_error_text());
    }
    return report.exit_status;
}

int gy_cli_start_run(const char *name, const gy_run_options *options)
{
    static char program[4096];
    ssize_t size = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (size <= 0 || kept_arguments[0] == NULL) {
        gy_print_to(stderr, "gyre %s: cannot start ranks: %s\n", name,
                    size <= 0 ? strerror(errno) : "too many arguments");
        return GY_EXIT_FAILURE;
    }
    program[size] = '\0';
    kept_arguments[0] = program;
    return gy_cli_launch(options, kept_arguments);
}

int gy_cli_start_ranks(const char *name, int ranks)
{
    return gy_cli_start_run(name, &(gy_run_options){.ranks = ranks});
}

const gy_command *gy_command_find(const char *name)
{
    for (size_t i = 0; i < gy_command_count; i++) {
        if (strcmp(gy_commands[i]->name, name) == 0) {
            return gy_commands[i];
        }
    }
    return NULL;
}

static void print_overview(FILE *out)
{
    fprintf(out, "usage: gyre COMMAND [OPTION...] [OPERAND...]\n\n"
                 "Distributed computing, from one core to many ranks.\n\nCommands:\n");
    for (size_t i = 0; i < gy_command_count; i++) {
        fprintf(out, "  %-10s %s\n", gy_commands[i]->name, gy_commands[i]->summary);
    }
    fprintf(out, "  %-10s %s\n", "help", "show the options of a command: gyre help COMMAND");
    fprintf(out, "\n  -h, --help     show this text\n  --version      show the version\n\n"
                 "Exit status: 0 done, 1 failed, 2 wrong usage.\n");
}

static int complain_command(const char *name)
{
    return gy_cli_report_usage(
        "gyre: unknown command '%s': expected one that 'gyre --help' lists", name);
}

/* Standard output may be a full disk or a closed pipe, so check that the output was written. */
static int finish(int status)
{
    static const char text[] = "cannot write to standard output";
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == GY_EXIT_OK) {
        /* The launcher prints it with the number of the rank. */
        if (!gy_run_is_rank() || !gy_run_report_message(GY_IO, text)) {
            gy_print_to(stderr, "gyre: %s\n", text);
        }
        return GY_EXIT_FAILURE;
    }
    return status;
}

static int run_help(int argc, char **argv)
{
    if (argc > 3) {
        return gy_cli_report_usage("gyre help: '%s' is one too many: expected one command",
                                   argv[3]);
    }
    if (argc < 3) {
        print_overview(stdout);
        return GY_EXIT_OK;
    }
    const gy_command *command = gy_command_find(argv[2]);
    if (command == NULL) {
        return complain_command(argv[2]);
    }
    gy_cli_options_help(command, stdout);
    return GY_EXIT_OK;
}

static int run_command(const gy_command *command, char **arguments, int count);

/* `operands` begins with the verb. */
static int run_verb(const gy_command *command, char **operands, int count)
{
    size_t begin = strlen(command->name) + 1;
    for (size_t i = 0; i < command->verb_count; i++) {
        if (strcmp(command->verbs[i].name + begin, operands[0]) == 0) {
            return run_command(&command->verbs[i], operands + 1, count - 1);
        }
    }
    return gy_cli_report_usage("gyre %s: unknown verb '%s': expected one that 'gyre %s --help' "
                               "lists",
                               command->name, operands[0], command->name);
}

/* A command whose arguments are another program's. */
static int run_raw(const gy_command *command, char **arguments, int count)
{
    if (count == 1 &&
        (strcmp(arguments[0], "--help") == 0 || strcmp(arguments[0], "-h") == 0)) {
        gy_cli_options_help(command, stdout);
        return GY_EXIT_OK;
    }
    const int status = gy_cli_environment_check();
    return status == GY_EXIT_OK ? command->run(arguments, count) : status;
}

static int run_command(const gy_command *command, char **arguments, int count)
{
    int operand_count = 0;
    bool is_help = false;
    if (command->is_raw) {
        return run_raw(command, arguments, count);
    }
    static char complaint[1 << 18]; /* an argument has at most half of it */
    FILE *complaints = fmemopen(complaint, sizeof(complaint), "w");
    if (complaints == NULL) {
        gy_print_to(stderr, "gyre: out of memory\n");
        return GY_EXIT_FAILURE;
    }
    int status =
        gy_cli_options_parse(command, arguments, count, &operand_count, &is_help, complaints);
    fclose(complaints);
    if (status != GY_EXIT_OK) {
        complaint[strcspn(complaint, "\n")] = '\0';
        return gy_cli_report_usage("%s", complaint);
    }
    if (is_help) {
        gy_cli_options_help(command, stdout);
        return GY_EXIT_OK;
    }
    if (command->verb_count > 0) {
        return run_verb(command, arguments, operand_count);
    }
    status = gy_cli_environment_check();
    return status == GY_EXIT_OK ? command->run(arguments, operand_count) : status;
}

/* If standard input is closed, open something there, so that no later file gets its
 * descriptor. */
static void hold_standard_input(void)
{
    if (fcntl(STDIN_FILENO, F_GETFD) < 0) {
        (void)!open("/dev/null", O_WRONLY); /* the lowest free descriptor */
    }
}

int gy_cli(int argc, char **argv)
{
    hold_standard_input();
    if (argc < KEPT_ARGUMENTS) {
        memcpy(kept_arguments, argv, (size_t)argc * sizeof(argv[0]));
    }
    if (getenv("GYRE_VERTEX") != NULL) { /* a process of a job: works for it, and no more */
        gy_flow *none = NULL;
        const gy_status status = gy_cli_flow(&none);
        gy_flow_end(none);
        return status == GY_DONE ? GY_EXIT_OK : GY_EXIT_FAILURE;
    }
    if (argc < 2) {
        print_overview(stderr);
        return GY_EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0) {
        printf("gyre %s\n", gy_version());
        return finish(GY_EXIT_OK);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_overview(stdout);
        return finish(GY_EXIT_OK);
    }
    if (strcmp(name, "help") == 0) {
        return finish(run_help(argc, argv));
    }
    const gy_command *command = gy_command_find(name);
    if (command == NULL) {
        return complain_command(name);
    }
    return finish(run_command(command, argv + 2, argc - 2));
}
