/* Lists of pipelines in files, for the commands that draw, check and run them. */
#include "cli/lists.h"

#include "cli/cli.h"
#include "cli/report.h"

#include <stdio.h>

enum { LIST_BYTES = 1 << 20 };

int gy_cli_lists_read(const char *command, const char *path, gy_pipe_schedule **lists)
{
    static char text[LIST_BYTES];
    FILE *file = fopen(path, "rb");
    size_t size = file != NULL ? fread(text, 1, LIST_BYTES, file) : 0;
    bool is_read = file != NULL && ferror(file) == 0;
    if (file != NULL) {
        fclose(file);
    }
    if (!is_read || size == LIST_BYTES) {
        gy_print_to(stderr, "gyre %s: %s: %s\n", command, path,
                    is_read ? "expected a file below 1 MiB" : "cannot be read");
        return GY_EXIT_FAILURE;
    }
    const gy_status status = gy_pipe_parse(text, size, path, lists);
    return status == GY_OK ? GY_EXIT_OK : gy_cli_report_failure(command, status);
}
