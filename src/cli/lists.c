/* Lists of pipelines in files, for the commands that draw, check and run them. */
#include "cli/lists.h"

#include "cli/cli.h"
#include "cli/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { LIST_BYTES = 1 << 26 }; /* the longest lists of computing have some 30 MiB */

int gy_cli_lists_read(const char *command, const char *path, gy_pipe_schedule **lists)
{
    static char text[LIST_BYTES];
    FILE *file = fopen(path, "rb");
    const size_t size = file != NULL ? fread(text, 1, LIST_BYTES, file) : 0;
    const int error = file == NULL || ferror(file) != 0 ? errno : 0;
    if (file != NULL) {
        fclose(file);
    }
    if (error != 0) {
        gy_print_to(stderr, "gyre %s: %s: cannot be read: %s\n", command, path,
                    strerror(error));
        return GY_EXIT_FAILURE;
    }
    if (size == LIST_BYTES) {
        gy_print_to(stderr, "gyre %s: %s: expected a file below 64 MiB\n", command, path);
        return GY_EXIT_FAILURE;
    }
    const gy_status status = gy_pipe_parse(text, size, path, lists);
    return status == GY_OK ? GY_EXIT_OK : gy_cli_report_failure(command, status);
}
