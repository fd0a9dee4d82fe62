/* One Chrome trace of the manager and of all vertex processes that ended by themselves. */
#include "flow/run/job.h"

#include "base/text.h"
#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES_MAX = 64 << 20 };

static gy_status add_piece(gy_flow_job *job, const char *folder, const char *name,
                           gy_text *text)
{
    char path[GY_JOB_PATH];
    gy_bytes bytes;
    GY_TRY(gy_running_path(path, folder, name));
    GY_TRY(gy_file_read(job->env, path, PIECE_BYTES_MAX, &bytes));
    if (bytes.size_bytes > 0) {
        gy_text_add(text, ",\n");
        gy_text_add_bytes(text, bytes.data, bytes.size_bytes);
    }
    gy_free(bytes.data);
    return text->status;
}

static gy_status write_trace(gy_flow_job *job, gy_text *text)
{
    char folder[GY_JOB_PATH];
    GY_TRY(gy_running_path(folder, job->folder, "trace"));
    DIR *listing = opendir(folder);
    if (listing == NULL) {
        return gy_fail(GY_IO, "cannot list %s: %s", folder, strerror(errno));
    }
    gy_text_add(text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    gy_trace_write(text, (int)getpid(), "manager");
    gy_status status = GY_OK;
    for (struct dirent *at = readdir(listing); at != NULL && status >= 0;
         at = readdir(listing)) {
        if (at->d_name[0] != '.') {
            status = add_piece(job, folder, at->d_name, text);
        }
    }
    (void)closedir(listing);
    gy_text_add(text, "\n]}\n");
    return status < 0 ? status : text->status;
}

gy_status gy_running_trace_begin(const gy_flow_job *job)
{
    static const char empty[] = "{\"traceEvents\":[]}\n";
    return job->options.trace == NULL
               ? GY_OK
               : gy_file_write(job->env, job->options.trace, empty, sizeof(empty) - 1);
}

void gy_running_trace(gy_flow_job *job)
{
    gy_text text = {0};
    gy_status status = write_trace(job, &text);
    if (status >= 0) {
        status = gy_file_write(job->env, job->options.trace, text.data, text.size_bytes);
    }
    if (status < 0) {
        gy_warn("the trace is lost: %s", gy_error_text()); /* its job stands all the same */
    }
    gy_text_free(&text);
}
