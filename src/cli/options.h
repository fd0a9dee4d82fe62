/**
 * Command lines: one table per subcommand from which both the parser and the help text come.
 */
#ifndef GY_CLI_OPTIONS_H
#define GY_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { GY_EXIT_OK = 0, GY_EXIT_FAILURE = 1, GY_EXIT_USAGE = 2 };

typedef enum gy_option_kind {
    GY_OPTION_FLAG,    /* bool */
    GY_OPTION_INTEGER, /* long long, in [low, high] */
    GY_OPTION_REAL,    /* double, finite, in [low, high] */
    GY_OPTION_TEXT,    /* const char *, borrowed from argv, not empty */
    GY_OPTION_WORDS,   /* a GY_OPTION_TEXT that may be empty */
    /* a GY_OPTION_TEXT with a path on this host: "file:" URIs become paths */
    GY_OPTION_PATH,
    GY_OPTION_CHOICE, /* const char *, one word of `choices` */
    GY_OPTION_SIZE,   /* long long, bytes: 97.5MB, 64KiB, 8 */
    GY_OPTION_LIST,   /* gy_option_list; may be given several times */
    GY_OPTION_PATHS,  /* the same with paths */
} gy_option_kind;

enum { GY_OPTION_LIST_MAX = 64 };

/** The values of an option that may be given several times, in order; NULL at the end. */
typedef struct gy_option_list {
    const char *items[GY_OPTION_LIST_MAX + 1];
} gy_option_list;

/** The name and meaning of an option, whichever commands take it. */
typedef struct gy_option_spec {
    const char *name;    /* "ranks" is given as --ranks N or --ranks=N */
    char letter;         /* 'n' is given as -n N or -nN; 0: none */
    const char *value;   /* what help calls the value: "N"; NULL for a flag */
    const char *meaning; /* the words of help, the same in every command */
} gy_option_spec;

/* gy_option_ranks and so on, one for each row of options.def. */
#define GY_X(id, ...) extern const gy_option_spec gy_option_##id;
#include "cli/options.def"
#undef GY_X

/** All of them, sorted by id; NULL at the end. */
extern const gy_option_spec *const gy_option_specs[];

/** One option of a command. Its value lands at `offset` in the settings of the command. */
typedef struct gy_option {
    const gy_option_spec *spec;
    gy_option_kind kind;
    const char *details; /* the default, and details for this command only; NULL: none */
    size_t offset;
    double low, high;    /* for numbers; for sizes only low */
    const char *choices; /* "sgd|adam" */
} gy_option;

/** A subcommand. Its settings hold the defaults before parsing, and the given values after it.
 */
typedef struct gy_command {
    const char *name, *summary;
    const char *operands; /* as help prints them: "PROGRAM [ARGUMENT…]"; "" for none */
    int operands_least, operands_most; /* most -1: any number */
    bool stops_at_operand;             /* options must precede the first operand */
    bool is_raw;             /* run gets all arguments as they are; --help alone is known */
    const char *description; /* a few lines for help */
    const gy_option *options;
    size_t option_count;
    void *settings;
    /* operands[operand_count] is NULL. Returns the exit status. */
    int (*run)(char **operands, int operand_count);
    /* Instead of run: the first operand names one of these, "job list", which gets the rest. */
    const struct gy_command *verbs;
    size_t verb_count;
} gy_command;

/**
 * Parse arguments (without the command's own name) into command->settings.
 *
 * Operands are moved to the front of `arguments`, a NULL behind them. --help and -h are always
 * known: they set *is_help and end the parsing.
 *
 * @param complaints takes one line naming the argument, the value seen and what was expected
 * @return GY_EXIT_OK or GY_EXIT_USAGE
 */
int gy_cli_options_parse(const gy_command *command, char **arguments, int count,
                         int *operand_count, bool *is_help, FILE *complaints);

/** The place of `text` in "a|b|c", counted from 0; -1: it is none of the words. */
int gy_cli_options_choice(const char *choices, const char *text);

/** The help text of one command. */
void gy_cli_options_help(const gy_command *command, FILE *out);

#endif
