/* Merges the Chrome traces of the manager and of all vertex processes that exited in order. */
#include "flow/run/run_priv.h"

#include "base/text.h"
#include "store/store.h"

#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES_MAX = 64 << 20 };

/* ---- processes at daemons, whose events come with their answers ---- */

/* Number a process of the whole cluster uniquely: pids are below 2^22. */
static int64_t number_of(const gy_driver_guest *guest, uint32_t pid)
{
    return ((int64_t)guest->number << 22) + (pid & ((1u << 22) - 1));
}

static gy_status name_process(gy_flow_job *job, const gy_driver_guest *guest, uint32_t pid)
{
    const int64_t number = number_of(guest, pid);
    for (size_t i = 0; i < job->traced_count; i++) {
        if (job->traced_processes[i] == number) {
            return GY_OK;
        }
    }
    GY_TRY(
        GY_GROW("flow.traced", job->traced_processes, job->traced_room, job->traced_count + 1));
    job->traced_processes[job->traced_count++] = number;
    gy_text_add(&job->traced,
                ",\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%lld,\"args\":{\"name\":"
                "\"process %u on ",
                (long long)number, pid);
    for (const char *at = guest->host; *at != '\0'; at++) {
        gy_text_add(&job->traced, "%c", *at == '"' || *at == '\\' ? '?' : *at);
    }
    gy_text_add(&job->traced, "\"}}");
    return job->traced.status;
}

void gy_flow_run_traced(void *arg, const gy_driver_guest *guest, uint32_t pid, const void *rows,
                        size_t size_bytes)
{
    gy_flow_job *job = arg;
    if (job->traced.size_bytes > PIECE_BYTES_MAX) {
        return;
    }
    gy_status status = name_process(job, guest, pid);
    const size_t before = job->traced.size_bytes;
    status = status < 0 ? status
                        : gy_trace_show(&job->traced, rows, size_bytes, number_of(guest, pid),
                                        -guest->clock_ns);
    if (status < 0 && job->traced.status == GY_OK) {
        /* a process may send garbage, which must not damage the other events */
        job->traced.size_bytes = before;
    }
    if (status < 0 || job->traced.size_bytes > PIECE_BYTES_MAX) {
        gy_flow_run_note_text(job, "the trace of process %u on %s is lost: %s", pid,
                              guest->host,
                              status < 0 ? gy_error_text() : "too much, and all that follows");
    }
}

/* ---- processes on this machine, which leave a file each ---- */

typedef struct pieces {
    gy_flow_job *job;
    const char *folder;
    gy_text *text;
} pieces;

static gy_status add_piece(void *arg, const char *name)
{
    const pieces *of = arg;
    char path[GY_JOB_PATH];
    gy_bytes bytes;
    if (name[0] == '.') {
        return GY_OK;
    }
    GY_TRY(gy_flow_run_path(path, of->folder, name));
    GY_TRY(gy_store_file_read(of->job->env, path, PIECE_BYTES_MAX, &bytes));
    if (bytes.size_bytes > 0) {
        gy_text_add(of->text, ",\n");
        gy_text_add_bytes(of->text, bytes.data, bytes.size_bytes);
    }
    gy_free(bytes.data);
    return of->text->status;
}

static gy_status write_trace(gy_flow_job *job, gy_text *text)
{
    char folder[GY_JOB_PATH];
    GY_TRY(gy_flow_run_path(folder, job->folder, "trace"));
    gy_text_add(text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    gy_trace_write(text, (int)getpid(), "manager");
    if (job->traced.status == GY_OK && job->traced.size_bytes > 0) {
        gy_text_add_bytes(text, job->traced.data, job->traced.size_bytes);
    }
    pieces of = {job, folder, text};
    GY_TRY(gy_disk_each(job->env, folder, add_piece, &of));
    gy_text_add(text, "\n]}\n");
    return text->status;
}

gy_status gy_flow_run_trace_begin(const gy_flow_job *job)
{
    static const char empty[] = "{\"traceEvents\":[]}\n";
    return job->options.trace == NULL
               ? GY_OK
               : gy_store_file_write(job->env, job->options.trace, empty, sizeof(empty) - 1);
}

void gy_flow_run_trace(gy_flow_job *job)
{
    gy_text text = {0};
    gy_status status = write_trace(job, &text);
    if (status >= 0) {
        status = gy_store_file_write(job->env, job->options.trace, text.data, text.size_bytes);
    }
    if (status < 0) {
        /* the job succeeds without its trace */
        gy_warn("the trace is lost: %s", gy_error_text());
    }
    gy_text_free(&text);
}
