/*
 * Statements from a terminal. Lines are edited and remembered by libedit where it is installed;
 * without it the terminal's own editing has to do.
 */
#include "cli/scripts/scripts_priv.h"

#include "cli/cli.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { INPUT_BYTES = 1 << 20 };

/* libedit's interface, which is readline's. */
typedef struct line_editor {
    char *(*read)(
        const char *prompt); /* NULL: without libedit. A line of the C library's memory */
    int (*remember)(const char *line);
    void (*release)(void *line);
} line_editor;

static line_editor open_editor(void)
{
    line_editor made = {.read = NULL};
    void *library = dlopen("libedit.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) {
        /* a function's address out of an object's, as POSIX has it */
        *(void **)&made.read = dlsym(library, "readline");
        *(void **)&made.remember = dlsym(library, "add_history");
        *(void **)&made.release = dlsym(RTLD_DEFAULT, "free");
    }
    if (made.remember == NULL || made.release == NULL) {
        made.read = NULL;
    }
    return made;
}

/* A line with its end behind the text. False: the input has ended, or is too large. */
static bool read_line(const line_editor *with, const char *prompt, char *text)
{
    const size_t size = strlen(text), room = INPUT_BYTES - size;
    if (with->read == NULL) {
        fputs(prompt, stdout);
        fflush(stdout);
        return fgets(text + size, (int)room, stdin) != NULL;
    }
    char *line = with->read(prompt);
    if (line == NULL) {
        return false;
    }
    const int wanted = snprintf(text + size, room, "%s\n", line);
    const bool fits = wanted > 0 && (size_t)wanted < room;
    if (line[0] != '\0') {
        (void)with->remember(line);
    }
    with->release(line);
    return fits;
}

static bool is_end(const char *line)
{
    static const char *const words[] = {"quit()\n", "q()\n", "quit\n", "exit\n"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(line, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

void gy_cli_terminal(gy_script *script)
{
    static char text[INPUT_BYTES]; /* one process, one terminal */
    const line_editor with = open_editor();
    printf("A statement ends with its line, or where its brackets close; quit() ends this.\n");
    for (;;) {
        const size_t before = strlen(text);
        if (!read_line(&with, before == 0 ? "> " : "+ ", text) || is_end(text)) {
            printf("\n");
            return;
        }
        const bool is_given_up = strcmp(text + before, "\n") == 0 && before > 1 &&
                                 strcmp(text + before - 2, "\n\n\n") == 0;
        const gy_status status = gy_script_input(script, text);
        if (status == GY_AGAIN && !is_given_up) {
            continue; /* two empty lines give up what is not complete */
        }
        if (status != GY_OK) {
            gy_cli_show_report(script, status);
        }
        fflush(stdout);
        text[0] = '\0';
    }
}
