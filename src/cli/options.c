#include "cli/options.h"

#include <gyre/store.h>

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPTIONS = 64, HELP_COLUMN = 28, HELP_WIDTH = 80 };

#define GY_X(id, name, letter, value, meaning)                                                 \
    const gy_option_spec gy_option_##id = {name, letter, value, meaning};
#include "cli/options.def"
#undef GY_X

const gy_option_spec *const gy_option_specs[] = {
#define GY_X(id, ...) &gy_option_##id,
#include "cli/options.def"
#undef GY_X
    NULL};

typedef struct parse {
    const gy_command *command;
    FILE *complaints;
    bool is_given[MAX_OPTIONS];
} parse;

static int complain_unknown(const parse *state, const char *argument)
{
    fprintf(state->complaints,
            "gyre %s: unknown option '%s': expected one that 'gyre %s --help' lists\n",
            state->command->name, argument, state->command->name);
    return GY_EXIT_USAGE;
}

static int complain_value(const parse *state, const gy_option *option, const char *text,
                          const char *expected)
{
    fprintf(state->complaints, "gyre %s: --%s: '%s' is not valid: expected %s\n",
            state->command->name, option->spec->name, text, expected);
    return GY_EXIT_USAGE;
}

static int take_integer(const parse *state, const gy_option *option, const char *text,
                        void *place)
{
    char expected[96], *end = NULL;
    snprintf(expected, sizeof(expected), "an integer from %.0f to %.0f", option->low,
             option->high);
    errno = 0;
    long long value = strtoll(text, &end, 10);
    bool is_number =
        end != text && *end == '\0' && errno == 0 && !isspace((unsigned char)text[0]);
    if (!is_number || (double)value < option->low || (double)value > option->high) {
        return complain_value(state, option, text, expected);
    }
    *(long long *)place = value;
    return GY_EXIT_OK;
}

static int take_real(const parse *state, const gy_option *option, const char *text, void *place)
{
    char expected[96], *end = NULL;
    snprintf(expected, sizeof(expected), "a number from %g to %g", option->low, option->high);
    errno = 0;
    double value = strtod(text, &end);
    bool is_number =
        end != text && *end == '\0' && !isspace((unsigned char)text[0]) && isfinite(value);
    if (!is_number || value < option->low || value > option->high) {
        return complain_value(state, option, text, expected);
    }
    *(double *)place = value;
    return GY_EXIT_OK;
}

static int take_size(const parse *state, const gy_option *option, const char *text, void *place)
{
    static const struct {
        const char *name;
        double factor;
    } units[] = {{"", 1},         {"B", 1},        {"kB", 1e3},    {"KB", 1e3},
                 {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},   {"KiB", 1024.0},
                 {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
    char *end = NULL;
    double value = strtod(text, &end);
    bool is_number = end != text && value >= 0 && !isspace((unsigned char)text[0]);
    for (size_t i = 0; is_number && i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(end, units[i].name) == 0 && value * units[i].factor <= 1e15) {
            if (value * units[i].factor < option->low) {
                char expected[64];
                snprintf(expected, sizeof(expected), "at least %gMiB", option->low / 0x1p20);
                return complain_value(state, option, text, expected);
            }
            *(long long *)place = llround(value * units[i].factor);
            return GY_EXIT_OK;
        }
    }
    return complain_value(state, option, text,
                          "a size up to 1000TB such as 97.5MB, 64KiB or 8");
}

static int add_to_list(const parse *state, const gy_option *option, const char *text,
                       gy_option_list *list)
{
    for (int i = 0; i < GY_OPTION_LIST_MAX; i++) {
        if (list->items[i] == NULL) {
            list->items[i] = text;
            return GY_EXIT_OK;
        }
    }
    return complain_value(state, option, text, "at most 64 values");
}

int gy_cli_options_choice(const char *choices, const char *text)
{
    size_t size = strlen(text);
    int index = 0;
    for (const char *word = choices; word != NULL; word = strchr(word, '|'), index++) {
        word += *word == '|' ? 1 : 0;
        if (size > 0 && strcspn(word, "|") == size && strncmp(word, text, size) == 0) {
            return index;
        }
    }
    return -1;
}

static bool is_list(const gy_option *option)
{
    return option->kind == GY_OPTION_LIST || option->kind == GY_OPTION_PATHS;
}

/* Replace a URI by the path that it stands for, which is never longer. */
static int take_path(const parse *state, const gy_option *option, const char *text)
{
    char path[4096];
    const size_t size = strlen(text);
    if (gy_store_path(text, path, sizeof(path)) < 0) {
        fprintf(state->complaints, "gyre %s: --%s: %s\n", state->command->name,
                option->spec->name, gy_error_text());
        return GY_EXIT_USAGE;
    }
    if (strcmp(path, text) != 0 && strlen(path) <= size) {
        memcpy((char *)(uintptr_t)text, path, strlen(path) + 1); /* an argument of main */
    }
    return GY_EXIT_OK;
}

/* Store `text` (NULL for a flag) as the option's value. */
static int take(parse *state, const gy_option *option, const char *text)
{
    size_t index = (size_t)(option - state->command->options);
    if (state->is_given[index] && !is_list(option)) {
        fprintf(state->complaints, "gyre %s: --%s is given twice: expected once\n",
                state->command->name, option->spec->name);
        return GY_EXIT_USAGE;
    }
    state->is_given[index] = true;
    void *place = (char *)state->command->settings + option->offset;
    switch (option->kind) {
    case GY_OPTION_FLAG:
        *(bool *)place = true;
        return GY_EXIT_OK;
    case GY_OPTION_INTEGER:
        return take_integer(state, option, text, place);
    case GY_OPTION_REAL:
        return take_real(state, option, text, place);
    case GY_OPTION_CHOICE:
        if (gy_cli_options_choice(option->choices, text) < 0) {
            char expected[256];
            snprintf(expected, sizeof(expected), "one of %s", option->choices);
            return complain_value(state, option, text, expected);
        }
        break;
    case GY_OPTION_SIZE:
        return take_size(state, option, text, place);
    case GY_OPTION_WORDS:
        break;
    case GY_OPTION_TEXT:
    case GY_OPTION_LIST:
    case GY_OPTION_PATH:
    case GY_OPTION_PATHS:
        if (text[0] == '\0') {
            return complain_value(state, option, text, option->spec->value);
        }
        if (option->kind == GY_OPTION_PATH || option->kind == GY_OPTION_PATHS) {
            const int status = take_path(state, option, text);
            if (status != GY_EXIT_OK) {
                return status;
            }
        }
        break;
    }
    if (is_list(option)) {
        return add_to_list(state, option, text, place);
    }
    *(const char **)place = text;
    return GY_EXIT_OK;
}

static const gy_option *find(const gy_command *command, const char *name, size_t size,
                             char letter)
{
    for (size_t i = 0; i < command->option_count; i++) {
        const gy_option *option = &command->options[i];
        bool is_named = name != NULL && strlen(option->spec->name) == size &&
                        strncmp(option->spec->name, name, size) == 0;
        if (is_named || (letter != '\0' && option->spec->letter == letter)) {
            return option;
        }
    }
    return NULL;
}

/* One argument that begins with '-', and perhaps the value after it: *index moves past both. */
static int parse_option(parse *state, char **arguments, int count, int *index)
{
    const char *argument = arguments[*index];
    const char *value = NULL;
    const gy_option *option = NULL;
    if (argument[1] == '-') {
        size_t size = strcspn(argument + 2, "=");
        option = find(state->command, argument + 2, size, '\0');
        value = argument[2 + size] == '=' ? argument + 3 + size : NULL;
    } else {
        option = find(state->command, NULL, 0, argument[1]);
        value = argument[2] != '\0' ? argument + 2 : NULL;
    }
    if (option == NULL) {
        return complain_unknown(state, argument);
    }
    *index += 1;
    if (option->kind == GY_OPTION_FLAG) {
        if (value != NULL) {
            fprintf(state->complaints, "gyre %s: '%s': --%s takes no value\n",
                    state->command->name, argument, option->spec->name);
            return GY_EXIT_USAGE;
        }
        return take(state, option, NULL);
    }
    if (value == NULL) {
        if (*index == count) {
            fprintf(state->complaints, "gyre %s: '%s' has no value: expected %s\n",
                    state->command->name, argument, option->spec->value);
            return GY_EXIT_USAGE;
        }
        value = arguments[*index];
        *index += 1;
    }
    return take(state, option, value);
}

static int check_operands(const gy_command *command, char **operands, int count,
                          FILE *complaints)
{
    if (count < command->operands_least) {
        fprintf(complaints, "gyre %s: %s: expected %s\n", command->name,
                count == 0 ? "no operand was given" : "an operand is missing",
                command->operands);
        return GY_EXIT_USAGE;
    }
    if (command->operands_most >= 0 && count > command->operands_most) {
        fprintf(complaints, "gyre %s: '%s' is one operand too many: expected %s\n",
                command->name, operands[command->operands_most],
                command->operands_most == 0 ? "options only" : command->operands);
        return GY_EXIT_USAGE;
    }
    return GY_EXIT_OK;
}

int gy_cli_options_parse(const gy_command *command, char **arguments, int count,
                         int *operand_count, bool *is_help, FILE *complaints)
{
    parse state = {.command = command, .complaints = complaints};
    bool is_ended = false;
    int operands = 0;
    *is_help = false;
    for (int i = 0; i < count;) {
        char *argument = arguments[i];
        if (is_ended || argument[0] != '-' || argument[1] == '\0') {
            is_ended = is_ended || command->stops_at_operand;
            arguments[operands++] = argument;
            i++;
        } else if (strcmp(argument, "--") == 0) {
            is_ended = true;
            i++;
        } else if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            *is_help = true;
            return GY_EXIT_OK;
        } else {
            int status = parse_option(&state, arguments, count, &i);
            if (status != GY_EXIT_OK) {
                return status;
            }
        }
    }
    arguments[operands] = NULL;
    *operand_count = operands;
    return check_operands(command, arguments, operands, complaints);
}

/* Print words in lines of HELP_WIDTH, all but the first indented by HELP_COLUMN; `used` is what
 * the first line has. */
static void print_wrapped(FILE *out, size_t used, const char *text)
{
    while (*text != '\0') {
        const size_t size = strcspn(text, " ");
        if (used > HELP_COLUMN && used + 1 + size > HELP_WIDTH) {
            fprintf(out, "\n%*s", HELP_COLUMN, "");
            used = HELP_COLUMN;
        }
        const char *between = used > HELP_COLUMN ? " " : "";
        fprintf(out, "%s%.*s", between, (int)size, text);
        used += strlen(between) + size;
        text += size + (text[size] == ' ' ? 1 : 0);
    }
    fprintf(out, "\n");
}

static void print_option(FILE *out, const gy_option *option)
{
    char left[64], letter[8] = "", text[512];
    if (option->spec->letter != '\0') {
        snprintf(letter, sizeof(letter), "-%c, ", option->spec->letter);
    }
    snprintf(left, sizeof(left), "  %s--%s%s%s", letter, option->spec->name,
             option->spec->value != NULL ? " " : "",
             option->spec->value != NULL ? option->spec->value : "");
    snprintf(text, sizeof(text), "%s%s%s%s", option->spec->meaning,
             option->details != NULL ? " (" : "",
             option->details != NULL ? option->details : "",
             option->details != NULL ? ")" : "");
    const bool is_long = strlen(left) + 2 > HELP_COLUMN;
    fprintf(out, "%-*s%s", HELP_COLUMN, left, is_long ? "\n" : "");
    fprintf(out, "%*s", is_long ? HELP_COLUMN : 0, "");
    print_wrapped(out, HELP_COLUMN, text);
    if (option->choices != NULL) {
        fprintf(out, "%*sone of %s\n", HELP_COLUMN, "", option->choices);
    }
}

void gy_cli_options_help(const gy_command *command, FILE *out)
{
    fprintf(out, "usage: gyre %s%s%s%s\n\n%s\n", command->name,
            command->option_count > 0 ? " [OPTION...]" : "",
            command->operands[0] != '\0' ? " " : "", command->operands, command->description);
    if (command->option_count > 0) {
        fprintf(out, "\nOptions:\n");
    }
    for (size_t i = 0; i < command->option_count; i++) {
        print_option(out, &command->options[i]);
    }
}
