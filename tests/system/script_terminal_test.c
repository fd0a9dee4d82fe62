/*
 * Goal: Ctrl-C at the terminal of gyre script ends the statements that run, in a loop, a
 * function or a parfor, and gives up what is typed; variables stay, and the session goes on.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gy_test.h"

enum { WAIT_S = 60 };

static int terminal;
static pid_t session;
static char seen[1 << 16]; /* what was shown and not yet waited for */
static size_t seen_bytes;

/* In the child: a session of its own, whose terminal this is. */
static void run_session(const char *name)
{
    const char *binary = getenv("GYRE_BIN");
    binary = binary != NULL ? binary : "build/dev/gyre";
    setsid();
    const int own = open(name, O_RDWR);
    if (own < 0 || ioctl(own, TIOCSCTTY, 0) != 0 || dup2(own, 0) != 0 || dup2(own, 1) != 1 ||
        dup2(own, 2) != 2) {
        _exit(120);
    }
    close(own);
    setenv("TERM", "dumb", 1);
    execl(binary, binary, "script", (char *)NULL);
    _exit(121);
}

static void start(void)
{
    terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(terminal >= 0);
    assert_int_equal(grantpt(terminal) + unlockpt(terminal), 0);
    seen_bytes = 0;
    session = fork();
    assert_true(session >= 0);
    if (session == 0) {
        run_session(ptsname(terminal));
    }
}

static void give_up(const char *what)
{
    kill(session, SIGKILL);
    waitpid(session, NULL, 0);
    close(terminal);
    fail_msg("'%s' was not shown within %d s: %s", what, WAIT_S, seen);
}

/* Until `what` is shown; what stands before it is dropped, too. */
static void wait_for(const char *what)
{
    const time_t end = time(NULL) + WAIT_S;
    seen[seen_bytes] = '\0';
    char *found = strstr(seen, what);
    while (found == NULL) {
        struct pollfd look = {.fd = terminal, .events = POLLIN};
        if (time(NULL) > end || seen_bytes + 1 == sizeof(seen)) {
            give_up(what);
        }
        if (poll(&look, 1, 100) > 0) {
            const ssize_t got =
                read(terminal, seen + seen_bytes, sizeof(seen) - 1 - seen_bytes);
            if (got <= 0) {
                give_up(what); /* the session has ended */
            }
            seen_bytes += (size_t)got;
            seen[seen_bytes] = '\0';
        }
        found = strstr(seen, what);
    }
    seen_bytes = (size_t)(seen + seen_bytes - (found + strlen(what)));
    memmove(seen, found + strlen(what), seen_bytes + 1);
}

static void type(const char *keys)
{
    assert_int_equal(write(terminal, keys, strlen(keys)), (ssize_t)strlen(keys));
}

static void end(void)
{
    int status = 0;
    char rest[256];
    type("quit()\n");
    while (read(terminal, rest, sizeof(rest)) > 0) { /* until nobody has the terminal's end */
    }
    assert_int_equal(waitpid(session, &status, 0), session);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close(terminal);
}

/* Texts are put together by the script, so that the echo of what is typed is not taken for
 * them.
 */
GY_TEST(ctrl_c_ends_the_statement_that_runs)
{
    static const char *const endless[] = {
        "while (TRUE) { i = i + 1; if (i == 1) print('be' + 'gun') }\n",
        "for (k in 1:1000000000) { i = i + 1; if (i == 1) print('be' + 'gun') }\n",
        "f = function(int n) return (int m) { m = n; while (m > 0) { m = m + 1; } }; "
        "i = 1; print('be' + 'gun'); x = f(2)\n",
        "i = 1; print('be' + 'gun'); A = matrix(0, 10, 1); "
        "parfor (k in 1:10) { j = 0; while (k > 0) { j = j + 1 }; A[k, 1] = j }\n",
        "i = 1; print('be' + 'gun'); s = 0; parfor (k in 1:100000000000) { s += k }\n",
    };
    start();
    for (size_t k = 0; k < sizeof(endless) / sizeof(endless[0]); k++) {
        type("i = 0\n");
        wait_for("> ");
        type(endless[k]);
        wait_for("begun");
        type("\003");
        wait_for("interrupted");
        type("print('st' + 'ays' + (i > 0))\n");
        wait_for("staysTRUE");
    }
    end();
}

GY_TEST(ctrl_c_gives_up_what_is_typed)
{
    start();
    wait_for("> ");
    type("print('dro");
    wait_for("dro");
    type("\003");
    type("print('ke' + 'pt')\n");
    wait_for("kept");
    type("x = (1 +\n"); /* of a statement all its lines */
    wait_for("+ ");
    type("\003");
    type("print('af' + 'ter')\n");
    wait_for("after");
    end();
}

GY_TEST_MAIN(NULL, NULL)
