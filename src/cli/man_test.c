/* Goal: the man page names every command and option that help lists, and no others. */
#include "cli/cli.h"

#include <gyre/info.h>

#include <string.h>

#include "gy_test.h"

enum { PAGE_BYTES = 1 << 18 };
static char page[PAGE_BYTES];

static int read_page(void **state)
{
    (void)state;
    const char *path = getenv("GYRE_MAN");
    FILE *file = fopen(path != NULL ? path : "docs/gyre.1", "rb");
    if (file == NULL) {
        return 1;
    }
    size_t size = fread(page, 1, sizeof(page) - 1, file);
    fclose(file);
    page[size] = '\0';
    /* "\-" is how the page writes a dash; take it as one. */
    size_t to = 0;
    for (size_t from = 0; from < size; from++) {
        if (page[from] != '\\' || page[from + 1] != '-') {
            page[to++] = page[from];
        }
    }
    page[to] = '\0';
    return 0;
}

/* The part of the page about one command, up to the next one, into out. */
static bool section(const char *name, char out[PAGE_BYTES])
{
    char title[64];
    snprintf(title, sizeof(title), "\n.SS gyre %s", name);
    const char *begin = strstr(page, title);
    if (begin == NULL) {
        return false;
    }
    const char *end = strstr(begin + 1, "\n.S");
    size_t size = end != NULL ? (size_t)(end - begin) : strlen(begin);
    memcpy(out, begin, size);
    out[size] = '\0';
    return true;
}

/* Call visit for the command, or for each of its verbs. */
static void for_each_verb(const gy_command *command,
                          void (*visit)(const gy_command *command, const char *text),
                          const char *text)
{
    if (command->verb_count == 0) {
        visit(command, text);
    }
    for (size_t i = 0; i < command->verb_count; i++) {
        visit(&command->verbs[i], text);
    }
}

static void expect_options(const gy_command *command, const char *text)
{
    for (size_t i = 0; i < command->option_count; i++) {
        char name[64];
        const int size = snprintf(name, sizeof(name), "--%s", command->options[i].spec->name);
        assert_in_range(size, 2, sizeof(name) - 1);
        const char *found = strstr(text, name);
        while (found != NULL && strchr(" \n", found[size]) == NULL) {
            found = strstr(found + 1, name);
        }
        if (found == NULL) {
            fail_msg("man page, gyre %s: %s is missing", command->name, name);
        }
    }
}

GY_TEST(every_option_is_on_the_page)
{
    static char text[PAGE_BYTES];
    for (size_t c = 0; c < gy_command_count; c++) {
        const gy_command *command = gy_commands[c];
        if (!section(command->name, text)) {
            fail_msg("the man page has no section 'gyre %s'", command->name);
        }
        for_each_verb(command, expect_options, text);
    }
}

static bool has_option(const gy_command *command, const char *name, size_t size)
{
    for (size_t i = 0; i < command->option_count; i++) {
        const char *own = command->options[i].spec->name;
        if (strlen(own) == size && strncmp(own, name, size) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < command->verb_count; i++) {
        if (has_option(&command->verbs[i], name, size)) {
            return true;
        }
    }
    return false;
}

/* The command that an option is of: the one that its line names before it ("gyre doctor
 * --json"), else that of the section, which begins with a line end. */
static const gy_command *command_before(const char *option, const gy_command *own)
{
    static const char word[] = "gyre ";
    const char *line = option, *found = NULL;
    char name[32];
    while (line[-1] != '\n') {
        line--;
    }
    for (const char *at = line; (at = strstr(at, word)) != NULL && at < option; at++) {
        found = at + sizeof(word) - 1;
    }
    if (found == NULL) {
        return own;
    }
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(found, " \""), found);
    const gy_command *named = gy_command_find(name);
    return named != NULL ? named : own;
}

GY_TEST(every_option_on_the_page_exists)
{
    static char text[PAGE_BYTES];
    for (size_t c = 0; c < gy_command_count; c++) {
        const gy_command *command = gy_commands[c];
        assert_true(section(command->name, text));
        for (char *found = strstr(text, "--"); found != NULL; found = strstr(found, "--")) {
            found += 2;
            size_t size = strspn(found, "abcdefghijklmnopqrstuvwxyz-");
            bool is_known =
                size == 0 || has_option(command_before(found, command), found, size);
            if (!is_known) {
                fail_msg("man page, gyre %s: --%.*s is no option", command->name, (int)size,
                         found);
            }
        }
    }
    /* As many sections as commands. */
    size_t sections = 0;
    for (char *found = strstr(page, "\n.SS gyre "); found != NULL;
         found = strstr(found + 1, "\n.SS gyre ")) {
        sections++;
    }
    assert_int_equal(sections, gy_command_count);
}

GY_TEST(every_variable_is_on_the_page)
{
    const char *part = strstr(page, ".SH ENVIRONMENT");
    assert_non_null(part);
    for (size_t i = 0; gy_info_settings[i] != NULL; i++) {
        if (strstr(part, gy_info_settings[i]) == NULL) {
            fail_msg("man page: variable %s is missing", gy_info_settings[i]);
        }
    }
}

GY_TEST_MAIN(read_page, NULL)
