/* Goal: the parser takes what the table says in every spelling, and answers anything else with
 * one line and status 2. */
#include "cli/cli.h"

#include <string.h>

#include "gy_test.h"

typedef struct values {
    long long ranks, port;
    double rate;
    const char *file, *kind;
    bool quiet;
} values;

static values settings;

static const gy_option_spec ranks = {"ranks", 'n', "N", "meaning"},
                            port = {"port", 0, "PORT", "meaning"},
                            rate = {"rate", 'r', "RATE", "meaning"},
                            file = {"file", 'f', "FILE", "meaning"},
                            kind = {"kind", 0, "KIND", "meaning"},
                            quiet = {"quiet", 'q', NULL, "meaning"};

static const gy_option options[] = {
    {&ranks, GY_OPTION_INTEGER, "default: 1", offsetof(values, ranks), 1, 1024, NULL},
    {&port, GY_OPTION_INTEGER, NULL, offsetof(values, port), 1, 65535, NULL},
    {&rate, GY_OPTION_REAL, NULL, offsetof(values, rate), 0, 10, NULL},
    {&file, GY_OPTION_TEXT, NULL, offsetof(values, file), 0, 0, NULL},
    {&kind, GY_OPTION_CHOICE, NULL, offsetof(values, kind), 0, 0, "sgd|adam|adamw"},
    {&quiet, GY_OPTION_FLAG, NULL, offsetof(values, quiet), 0, 0, NULL},
};

static int nothing(char **operands, int operand_count)
{
    (void)operands;
    return operand_count;
}

static gy_command command = {
    .name = "try",
    .operands = "FILE...",
    .operands_least = 0,
    .operands_most = 2,
    .description = "d",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .settings = &settings,
    .run = nothing,
};

enum { MAX_WORDS = 16 };

typedef struct outcome {
    int status, operand_count;
    bool is_help;
    char *words[MAX_WORDS];
    char complaint[512];
} outcome;

/* Parse the words of `line`, which are apart by '|'. */
static outcome parse_line(const char *line)
{
    static char copy[512];
    outcome result = {.status = 0};
    snprintf(copy, sizeof(copy), "%s", line);
    int count = 0;
    for (char *word = copy; word != NULL && *line != '\0';) {
        char *end = strchr(word, '|');
        result.words[count++] = word;
        if (end != NULL) {
            *end++ = '\0';
        }
        word = end;
    }
    settings = (values){.rate = 0.5};
    FILE *complaints = fmemopen(result.complaint, sizeof(result.complaint), "w");
    assert_non_null(complaints);
    result.status = gy_cli_options_parse(&command, result.words, count, &result.operand_count,
                                         &result.is_help, complaints);
    fclose(complaints);
    return result;
}

GY_TEST(every_spelling_is_taken)
{
    static const char *const lines[] = {"--ranks|4|--rate|1e-3|--file|a b|--kind|adam|--quiet",
                                        "--ranks=4|--rate=0.001|--file=a b|--kind=adam|-q",
                                        "-n4|-r1e-3|-fa b|--kind|adam|-q",
                                        "-n|4|-r|.001|-f|a b|-q|--kind=adam"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        outcome got = parse_line(lines[i]);
        assert_int_equal(got.status, GY_EXIT_OK);
        assert_string_equal(got.complaint, "");
        assert_int_equal(settings.ranks, 4);
        assert_float_equal(settings.rate, 0.001, 1e-12);
        assert_string_equal(settings.file, "a b");
        assert_string_equal(settings.kind, "adam");
        assert_true(settings.quiet);
        assert_int_equal(got.operand_count, 0);
    }
}

GY_TEST(operands_stand_anywhere_and_after_two_dashes)
{
    outcome got = parse_line("one|-n|2|-");
    assert_int_equal(got.status, GY_EXIT_OK);
    assert_int_equal(got.operand_count, 2);
    assert_string_equal(got.words[0], "one");
    assert_string_equal(got.words[1], "-");
    assert_null(got.words[2]);
    got = parse_line("-n|2|--|--ranks|-q");
    assert_int_equal(got.status, GY_EXIT_OK);
    assert_int_equal(got.operand_count, 2);
    assert_string_equal(got.words[0], "--ranks");
    assert_false(settings.quiet);
    command.stops_at_operand = true;
    got = parse_line("-n|2|prog|-q");
    command.stops_at_operand = false;
    assert_int_equal(got.operand_count, 2);
    assert_string_equal(got.words[1], "-q");
    assert_false(settings.quiet);
    got = parse_line("-n|2|--help|--nonsense");
    assert_int_equal(got.status, GY_EXIT_OK);
    assert_true(got.is_help);
}

GY_TEST(bad_input_is_one_line_and_status_two)
{
    static const struct {
        const char *line, *seen, *expected;
    } cases[] = {
        {"--ranks|0", "'0'", "from 1 to 1024"},
        {"--ranks|-1", "'-1'", "from 1 to 1024"},
        {"-n|1025", "'1025'", "from 1 to 1024"},
        {"-n|99999999999999999999999", "'999", "from 1 to 1024"},
        {"--port=99999", "--port: '99999'", "from 1 to 65535"},
        {"-n|four", "'four'", "integer"},
        {"-n|4x", "'4x'", "integer"},
        {"-n| 4", "' 4'", "integer"},
        {"-n|", "''", "integer"},
        {"-n|1.5", "'1.5'", "integer"},
        {"--rate|nan", "'nan'", "from 0 to 10"},
        {"--rate|inf", "'inf'", "from 0 to 10"},
        {"--rate|1e999", "'1e999'", "from 0 to 10"},
        {"--rate|-0.1", "'-0.1'", "from 0 to 10"},
        {"--kind|ada", "'ada'", "sgd|adam|adamw"},
        {"--kind|sgd|--kind|sgd", "--kind", "once"},
        {"--kind|", "''", "sgd|adam|adamw"},
        {"--kind|sgd|x|adam|y|z", "'y'", "one operand too many"},
        {"--file=", "''", "FILE"},
        {"--file", "'--file'", "FILE"},
        {"-n", "'-n'", "N"},
        {"--quiet=yes", "'--quiet=yes'", "no value"},
        {"-qx", "'-qx'", "no value"},
        {"-n|2|--ranks=3", "--ranks", "once"},
        {"--rank|2", "'--rank'", "gyre try --help"},
        {"--ranksx=2", "'--ranksx=2'", "gyre try --help"},
        {"-z", "'-z'", "gyre try --help"},
        {"--=3", "'--=3'", "gyre try --help"},
        {"a|b|c", "'c'", "FILE..."},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        outcome got = parse_line(cases[i].line);
        const char *newline = strchr(got.complaint, '\n');
        if (got.status != GY_EXIT_USAGE || strstr(got.complaint, cases[i].seen) == NULL ||
            strstr(got.complaint, cases[i].expected) == NULL || newline == NULL ||
            newline[1] != '\0') {
            fail_msg("'%s' gave %d and: %s", cases[i].line, got.status, got.complaint);
        }
    }
    command.operands_least = 1;
    outcome got = parse_line("-q");
    command.operands_least = 0;
    assert_int_equal(got.status, GY_EXIT_USAGE);
    assert_non_null(strstr(got.complaint, "FILE..."));
}

GY_TEST(help_names_every_option)
{
    char text[4096];
    FILE *out = fmemopen(text, sizeof(text), "w");
    assert_non_null(out);
    gy_cli_options_help(&command, out);
    fclose(out);
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        char name[64];
        snprintf(name, sizeof(name), "--%s", options[i].spec->name);
        assert_non_null(strstr(text, name));
    }
    assert_non_null(strstr(text, "one of sgd|adam|adamw"));
    assert_non_null(strstr(text, "meaning (default: 1)\n"));
}

enum { SPECS_MAX = 512 };

/* Mark the options of a command and of its verbs, which must be rows of options.def. */
static void mark_used(const gy_command *one, bool is_used[SPECS_MAX])
{
    for (size_t i = 0; i < one->option_count; i++) {
        size_t at = 0;
        while (gy_option_specs[at] != NULL && gy_option_specs[at] != one->options[i].spec) {
            at++;
        }
        if (gy_option_specs[at] == NULL) {
            fail_msg("gyre %s: --%s is no row of options.def", one->name,
                     one->options[i].spec->name);
        }
        is_used[at] = true;
        for (size_t k = 0; k < i; k++) {
            const gy_option_spec *other = one->options[k].spec;
            if (other->letter != 0 && other->letter == one->options[i].spec->letter) {
                fail_msg("gyre %s: -%c means --%s and --%s", one->name, other->letter,
                         other->name, one->options[i].spec->name);
            }
        }
    }
    for (size_t i = 0; i < one->verb_count; i++) {
        mark_used(&one->verbs[i], is_used);
    }
}

GY_TEST(an_option_has_one_meaning_in_the_whole_command)
{
    bool is_used[SPECS_MAX] = {false};
    size_t count = 0;
    for (; gy_option_specs[count] != NULL; count++) {
        const gy_option_spec *spec = gy_option_specs[count];
        for (size_t i = 0; i < count; i++) {
            const gy_option_spec *other = gy_option_specs[i];
            if (strcmp(spec->name, other->name) == 0) {
                fail_msg("--%s means '%s' and '%s'", spec->name, other->meaning, spec->meaning);
            }
            if (strcmp(spec->meaning, other->meaning) == 0) {
                fail_msg("--%s and --%s mean the same", other->name, spec->name);
            }
        }
    }
    assert_in_range(count, 1, SPECS_MAX);
    for (size_t i = 0; i < gy_command_count; i++) {
        mark_used(gy_commands[i], is_used);
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_used[i]) {
            fail_msg("no command takes --%s", gy_option_specs[i]->name);
        }
    }
}

GY_TEST_MAIN(NULL, NULL)
