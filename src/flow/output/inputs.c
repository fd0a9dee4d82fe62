/* Saves the versions of a job's inputs, so that a resume that finds changed inputs can name
 * one. */
#include "flow/output/job.h"

#include "base/disk.h"
#include "store/store.h"

#include <fcntl.h>
#include <string.h>

enum { INPUTS_BYTES_MAX = 256 << 20 };

/* A record of the file: it precedes each path, which has `path_bytes` and no NUL. */
typedef struct saved_input {
    gy_stamp stamp;
    uint64_t path_bytes;
} saved_input;

/* Consecutive splits of one file give one record. */
static gy_status add_proto(const gy_flow_job *job, size_t at, char last[GY_JOB_PATH],
                           gy_text *out)
{
    const gy_proto *proto = &job->dag->protos[at];
    const gy_stamp *stamps = job->keys.stamps[at];
    for (size_t i = 0; proto->files != NULL && proto->files[i] != NULL; i++) {
        gy_file_range range;
        GY_TRY(gy_file_range_read(proto->files[i], &range));
        if (stamps[i].machine == 0 || strcmp(range.path, last) == 0) {
            continue;
        }
        const saved_input saved = {.stamp = stamps[i], .path_bytes = strlen(range.path)};
        gy_text_add_bytes(out, &saved, sizeof(saved));
        gy_text_add_bytes(out, range.path, (size_t)saved.path_bytes);
        if (saved.path_bytes < GY_JOB_PATH) {
            memcpy(last, range.path, (size_t)saved.path_bytes + 1);
        }
    }
    return out->status;
}

/* Not synced: losing the file loses only the name in a message. */
static gy_status write_all(const gy_flow_job *job, const char *path, const gy_text *text)
{
    const gy_disk_ops *disk = gy_env_disk(job->env);
    const int file = disk->open(job->env, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int64_t error = file < 0 ? file : 0;
    for (size_t done = 0; error >= 0 && done < text->size_bytes; done += (size_t)error) {
        error = disk->write(job->env, file, text->data + done, text->size_bytes - done);
    }
    if (file >= 0) {
        const int closed = disk->close(job->env, file);
        error = error < 0 ? error : closed;
    }
    return error >= 0 ? GY_OK
                      : gy_fail(GY_IO, "cannot write %s: %s", path, strerror((int)-error));
}

gy_status gy_flow_run_save_inputs(const gy_flow_job *job)
{
    char path[GY_JOB_PATH], last[GY_JOB_PATH] = "";
    gy_text text = {.data = NULL};
    gy_status status = gy_flow_run_path(path, job->folder, GY_JOB_INPUTS_FILE);
    for (size_t p = 0; status >= 0 && p < job->keys.count; p++) {
        status = add_proto(job, p, last, &text);
    }
    if (status >= 0 && text.size_bytes > 0) {
        status = write_all(job, path, &text);
    }
    gy_text_free(&text);
    return status;
}

/* The failure that names a changed input; GY_OK: unchanged. */
static gy_status compare(const gy_flow_job *job, const gy_stamp *was, const char *path)
{
    char text[GY_STAMP_TEXT_BYTES];
    gy_stamp now;
    if (gy_stamp_of(path, &now) < 0) {
        return gy_fail(GY_STATE,
                       "cannot resume %s: an input was removed since the job started: %s",
                       job->folder, gy_error_text());
    }
    const bool is_same =
        was->machine != now.machine
            ? was->disk.size_bytes == now.disk.size_bytes && was->disk.print == now.disk.print
            : gy_stamp_compare(&was->disk, &now.disk) == GY_STAMP_SAME;
    return is_same ? GY_OK
                   : gy_fail(GY_STATE,
                             "cannot resume %s: its input %s changed since the job started "
                             "(%s): start the job again in another folder",
                             job->folder, path, gy_stamp_tell(&was->disk, &now.disk, text));
}

gy_status gy_flow_run_name_changed(const gy_flow_job *job, gy_status status)
{
    char path[GY_JOB_PATH], name[GY_JOB_PATH];
    gy_bytes bytes = {NULL, 0};
    gy_error before;
    gy_error_take(&before, status);
    gy_status found = gy_flow_run_path(path, job->folder, GY_JOB_INPUTS_FILE);
    if (found < 0 || gy_store_file_read(job->env, path, INPUTS_BYTES_MAX, &bytes) < 0) {
        return gy_error_raise(&before);
    }
    saved_input saved;
    for (size_t at = 0; found >= 0 && bytes.size_bytes - at >= sizeof(saved);) {
        memcpy(&saved, bytes.data + at, sizeof(saved));
        at += sizeof(saved);
        if (saved.path_bytes >= sizeof(name) || saved.path_bytes > bytes.size_bytes - at) {
            break; /* the file was torn when the machine stopped */
        }
        memcpy(name, bytes.data + at, (size_t)saved.path_bytes);
        name[saved.path_bytes] = '\0';
        at += (size_t)saved.path_bytes;
        found = compare(job, &saved.stamp, name);
    }
    gy_free(bytes.data);
    return found < 0 ? found : gy_error_raise(&before);
}
