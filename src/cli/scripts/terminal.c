/*
 * Statements from a terminal. Lines are edited and remembered by libedit where it is installed;
 * without it the terminal's own editing has to do. SIGINT ends the statements that run, or
 * gives up what is typed: it is let through while statements run and while a key is waited for.
 */
#include "cli/scripts/scripts_priv.h"

#include "cli/cli.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { INPUT_BYTES = 1 << 20 };

/* libedit's interface, which is readline's. */
typedef struct line_editor {
    void (*install)(const char *prompt, void (*take)(char *line)); /* NULL: without libedit */
    void (*read_key)(void);
    void (*remove)(void);
    int (*remember)(const char *line);
    void (*release)(void *line); /* of the C library's memory */
} line_editor;

typedef enum line_end { LINE_IS_READ, LINE_IS_GIVEN_UP, LINE_IS_LAST } line_end;

/* One process, one terminal. */
static char text[INPUT_BYTES]; /* of a statement that is not complete */
static char *edited;           /* what libedit gave; with is_edited and NULL: the end */
static bool is_edited;
static gy_script *_Atomic running; /* for the handler */
static atomic_bool was_interrupted;
static pthread_t own_thread;

/* The library of linear algebra has threads that signals reach, too: the thread that waits for
 * keys is to wake up. */
static void interrupt(int number)
{
    const int error = errno;
    gy_script *script = atomic_load_explicit(&running, memory_order_relaxed);
    atomic_store_explicit(&was_interrupted, true, memory_order_relaxed);
    if (!pthread_equal(pthread_self(), own_thread)) {
        pthread_kill(own_thread, number);
    } else if (script != NULL) {
        gy_script_interrupt(script);
    }
    errno = error;
}

static void take_edited(char *line)
{
    edited = line;
    is_edited = true;
}

static line_editor open_editor(void)
{
    line_editor made = {.install = NULL};
    void *library = dlopen("libedit.so.2", RTLD_NOW | RTLD_LOCAL);
    int *catches = NULL;
    if (library != NULL) {
        /* a function's address out of an object's, as POSIX has it */
        *(void **)&made.install = dlsym(library, "rl_callback_handler_install");
        *(void **)&made.read_key = dlsym(library, "rl_callback_read_char");
        *(void **)&made.remove = dlsym(library, "rl_callback_handler_remove");
        *(void **)&made.remember = dlsym(library, "add_history");
        *(void **)&made.release = dlsym(RTLD_DEFAULT, "free");
        catches = dlsym(library, "rl_catch_signals");
    }
    if (made.read_key == NULL || made.remove == NULL || made.remember == NULL ||
        made.release == NULL || catches == NULL) {
        made.install = NULL;
    } else {
        *catches = 0; /* SIGINT is this file's */
    }
    return made;
}

/* Wait for a key. GIVEN_UP: SIGINT came, perhaps before keys that are there already, which are
 * all that poll tells of then. */
static line_end wait_for_key(const sigset_t *open)
{
    struct pollfd look = {.fd = STDIN_FILENO, .events = POLLIN};
    sigset_t closed;
    for (;;) {
        const int ready = ppoll(&look, 1, NULL, open);
        pthread_sigmask(SIG_SETMASK, open, &closed);
        pthread_sigmask(SIG_SETMASK, &closed, NULL);
        if (atomic_exchange_explicit(&was_interrupted, false, memory_order_relaxed)) {
            return LINE_IS_GIVEN_UP;
        }
        if (ready > 0) {
            return (look.revents & POLLIN) != 0 ? LINE_IS_READ : LINE_IS_LAST;
        }
    }
}

/* A line with its end behind what is there; LAST also where it does not fit. */
static line_end edit_line(const line_editor *with, const char *prompt, const sigset_t *open)
{
    const size_t size = strlen(text), room = INPUT_BYTES - size;
    line_end end = LINE_IS_READ;
    is_edited = false;
    with->install(prompt, take_edited);
    while (!is_edited && end == LINE_IS_READ) {
        end = wait_for_key(open);
        if (end == LINE_IS_READ) {
            with->read_key();
        }
    }
    with->remove();
    if (!is_edited || edited == NULL) {
        return is_edited ? LINE_IS_LAST : end;
    }
    const int wanted = snprintf(text + size, room, "%s\n", edited);
    const bool fits = wanted > 0 && (size_t)wanted < room;
    if (edited[0] != '\0') {
        (void)with->remember(edited);
    }
    with->release(edited);
    return fits ? LINE_IS_READ : LINE_IS_LAST;
}

static line_end read_line(const line_editor *with, const char *prompt, const sigset_t *open)
{
    const size_t size = strlen(text);
    if (with->install != NULL) {
        return edit_line(with, prompt, open);
    }
    fputs(prompt, stdout);
    fflush(stdout);
    line_end end = wait_for_key(open); /* of a terminal that gives whole lines */
    if (end == LINE_IS_READ && fgets(text + size, (int)(INPUT_BYTES - size), stdin) == NULL) {
        end = LINE_IS_LAST;
    }
    return end;
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

/* Run what is typed, as long as SIGINT does not come. GY_AGAIN: it is not complete. */
static gy_status run_input(gy_script *script, const sigset_t *open, const sigset_t *closed)
{
    atomic_store_explicit(&running, script, memory_order_relaxed);
    pthread_sigmask(SIG_SETMASK, open, NULL);
    const gy_status status = gy_script_input(script, text);
    pthread_sigmask(SIG_SETMASK, closed, NULL);
    atomic_store_explicit(&running, NULL, memory_order_relaxed);
    atomic_store_explicit(&was_interrupted, false, memory_order_relaxed);
    return status;
}

static void take_inputs(gy_script *script, const sigset_t *open, const sigset_t *closed)
{
    const line_editor with = open_editor();
    printf("A statement ends with its line, or where its brackets close; quit() ends this.\n");
    for (;;) {
        const size_t before = strlen(text);
        const line_end end = read_line(&with, before == 0 ? "> " : "+ ", open);
        if (end == LINE_IS_GIVEN_UP) {
            printf("\n");
            text[0] = '\0';
            continue;
        }
        if (end == LINE_IS_LAST || is_end(text)) {
            printf("\n");
            return;
        }
        const bool is_given_up = strcmp(text + before, "\n") == 0 && before > 1 &&
                                 strcmp(text + before - 2, "\n\n\n") == 0;
        const gy_status status = run_input(script, open, closed);
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

void gy_cli_terminal(gy_script *script)
{
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART}, before;
    sigset_t open, closed;
    own_thread = pthread_self();
    sigemptyset(&action.sa_mask);
    pthread_sigmask(SIG_SETMASK, NULL, &closed);
    open = closed;
    sigaddset(&closed, SIGINT);
    sigdelset(&open, SIGINT);
    pthread_sigmask(SIG_SETMASK, &closed, NULL);
    sigaction(SIGINT, &action, &before); /* fails for no signal that may be caught */
    take_inputs(script, &open, &closed);
    sigaction(SIGINT, &before, NULL);
    pthread_sigmask(SIG_SETMASK, &open, NULL);
}
