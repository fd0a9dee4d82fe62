/* The environment of the command: an invalid variable is reported before anything starts. */
#include "cli/cli.h"
#include "cli/report.h"

#include <gyre/info.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the tests and scripts of the source tree read. */
static const char *const development[] = {
    "GYRE_BIN",      "GYRE_CASES", "GYRE_DATA", "GYRE_DUCKDB", "GYRE_MAN",
    "GYRE_SANITIZE", "GYRE_SEED",  "GYRE_SOAK", "GYRE_TORCH",  NULL};

static bool is_in(const char *const *names, const char *name, size_t size)
{
    for (; *names != NULL; names++) {
        if (strlen(*names) == size && strncmp(*names, name, size) == 0) {
            return true;
        }
    }
    return false;
}

static void warn_of_unknown(void)
{
    for (char **variable = environ; *variable != NULL; variable++) {
        size_t size = strcspn(*variable, "=");
        if (strncmp(*variable, "GYRE_", 5) == 0 && strncmp(*variable, "GYRE_TEST_", 10) != 0 &&
            !is_in(gy_info_settings, *variable, size) && !is_in(development, *variable, size)) {
            gy_print_to(stderr, "gyre: warning: %.*s is no variable of Gyre: see gyre(1)\n",
                        (int)size, *variable);
        }
    }
}

int gy_cli_environment_check(void)
{
    if (gy_info_check_settings() < 0) {
        return gy_cli_report_usage("gyre: %s", gy_error_text());
    }
    if (getenv("GYRE_RANK") == NULL) { /* the launcher has warned for its ranks */
        warn_of_unknown();
    }
    return GY_EXIT_OK;
}
