/* The logs of a job's processes: standard output and standard error. */
#include "worker/log.h"

#include "base/disk.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TAIL_BYTES = 1024, TAIL_SHOWN = 240, PATH_BYTES = 4096 };

/* Writes "folder/name". */
static bool path_in(const char *folder, const char *name, char out[PATH_BYTES])
{
    return snprintf(out, PATH_BYTES, "%s/%s", folder, name) < PATH_BYTES;
}

static void log_name(uint32_t slot, uint32_t generation, char out[64])
{
    snprintf(out, 64, "log/%u-%u", slot, generation);
}

int gy_worker_log_open(gy_env *env, const char *folder, uint32_t slot, uint32_t generation)
{
    char path[PATH_BYTES], name[64];
    log_name(slot, generation, name);
    if (!path_in(folder, name, path)) {
        return -1;
    }
    int file = gy_env_disk(env)->open(env, path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    if (file < 0) {
        gy_warn("cannot make the log of a process of the job: %s: %s", path, strerror(-file));
        return -1;
    }
    return file;
}

/* Append the last line of `text` that is not empty, shortened for display. */
static void add_last_line(char *text, size_t size_bytes, gy_text *out)
{
    while (size_bytes > 0 && (uint8_t)text[size_bytes - 1] <= ' ') {
        size_bytes--;
    }
    size_t begin = size_bytes;
    while (begin > 0 && text[begin - 1] != '\n') {
        begin--;
    }
    const bool is_cut = size_bytes - begin > TAIL_SHOWN;
    size_t size = is_cut ? TAIL_SHOWN : size_bytes - begin;
    while (is_cut && size > 0 && ((uint8_t)text[begin + size] & 0xC0) == 0x80) {
        size--; /* do not cut within a UTF-8 character */
    }
    for (size_t i = 0; i < size; i++) {
        char *at = &text[begin + i];
        if ((uint8_t)*at < ' ' || *at == 127) {
            *at = '?';
        }
    }
    if (size > 0) {
        gy_text_add(out, "%.*s%s", (int)size, text + begin, is_cut ? "..." : "");
    }
}

void gy_worker_log_tail(gy_env *env, const char *folder, const char *name, gy_text *out)
{
    char path[PATH_BYTES], text[TAIL_BYTES];
    if (!path_in(folder, name, path)) {
        return;
    }
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return;
    }
    off_t size = lseek(file, 0, SEEK_END);
    ssize_t got = pread(file, text, sizeof(text),
                        size > (off_t)sizeof(text) ? size - (off_t)sizeof(text) : 0);
    close(file);
    if (size == 0) {
        (void)gy_env_disk(env)->unlink(env, path);
    } else if (got > 0) {
        add_last_line(text, (size_t)got, out);
    }
}

void gy_worker_log_end(gy_env *env, const char *folder, uint32_t slot, uint32_t generation,
                       gy_text *out)
{
    char name[64];
    gy_text line = {.data = NULL};
    log_name(slot, generation, name);
    gy_worker_log_tail(env, folder, name, &line);
    if (out != NULL && line.size_bytes > 0) {
        gy_text_add(out, "; its log ends: %s", gy_text_get(&line));
    }
    gy_text_free(&line);
}
