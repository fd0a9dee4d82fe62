/* Copies inputs that can be read only once into the job's folder. Real files only. */
#include "flow/output/job.h"

#include "persist/journal/journal.h"
#include "store/host_file.h"
#include "store/remote/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20, PAGE_BYTES = 4096 };

typedef struct spooling {
    gy_flow_spool spool; /* must be first: the public struct */
    const char **inputs;
    const char **copies; /* (copy_count) copies among `inputs` */
    size_t copy_count;
    /* is_resumed: a resumed job has the copies; is_new: the folder was created here */
    bool is_resumed, is_new;
    char folder[GY_JOB_PATH];
    gy_arena arena;
} spooling;

/* /dev/stdin by its name: the job's processes have another standard input. */
static bool is_stdin(const char *input)
{
    return strcmp(input, "-") == 0 || strcmp(input, "/dev/stdin") == 0;
}

/* A regular file whose size differs from its content's, as in /proc and /sys. */
static gy_status look_for_bytes(const char *input, bool *is_wanted)
{
    struct stat about;
    gy_host_file file;
    char head[PAGE_BYTES];
    *is_wanted = false;
    if (gy_uri_is_remote(input)) {
        return GY_OK;
    }
    GY_TRY(gy_host_file_read(input, &file));
    if (file.hosts[0] != '\0' || stat(file.path, &about) != 0 || !S_ISREG(about.st_mode) ||
        (about.st_size != 0 && about.st_size != PAGE_BYTES)) {
        return GY_OK; /* other functions report what is wrong with it */
    }
    const int opened = open(file.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (opened >= 0) {
        const ssize_t got = read(opened, head, sizeof(head));
        *is_wanted = got >= 0 && got != (ssize_t)about.st_size;
        (void)close(opened);
    }
    return GY_OK;
}

static gy_status check_stdin(const char *const *inputs)
{
    int count = 0;
    gy_ticket *ticket = NULL;
    for (size_t i = 0; inputs[i] != NULL; i++) {
        count += is_stdin(inputs[i]);
    }
    if (count > 1) {
        return gy_fail(GY_ARG, "standard input (-) is given %d times: expected once", count);
    }
    if (count == 0) {
        return GY_OK;
    }
    ticket = gy_alloc("flow.ticket", sizeof(*ticket));
    GY_TRY(ticket != NULL ? GY_OK : GY_NOMEM);
    const gy_status status = gy_ticket_read(ticket);
    gy_free(ticket);
    if (status == GY_OK) {
        return gy_fail(GY_UNSUPPORTED, "a job on a cluster has no standard input (-): write it "
                                       "to a file that all hosts have, or to a store");
    }
    if (isatty(STDIN_FILENO) == 1) {
        return gy_fail(GY_ARG, "standard input (-) is a terminal: expected a pipe or a file; a "
                               "file of that name is ./-");
    }
    const int flags = fcntl(STDIN_FILENO, F_GETFL);
    return flags >= 0 && (flags & O_ACCMODE) != O_WRONLY
               ? GY_OK
               : gy_fail(GY_ARG, "standard input (-) is closed: expected a pipe or a file");
}

/* Determine the job's folder: that of a resumed job, a given one, or a new one. */
static gy_status find_folder(spooling *to, const char *folder)
{
    const char *own = gy_setting_get(GY_JOB_RESUME_VARIABLE);
    const char *given = gy_setting_get("GYRE_JOB_FOLDER");
    given = given != NULL ? given : folder;
    if (own != NULL && given == NULL) {
        to->is_resumed = true;
        return snprintf(to->folder, sizeof(to->folder), "%s", own) < (int)sizeof(to->folder)
                   ? GY_OK
                   : gy_fail(GY_ARG, "the path of the job's folder is too long");
    }
    char here[GY_JOB_PATH], all[GY_JOB_PATH], id[GY_JOB_ID_BYTES];
    if (given != NULL) {
        GY_TRY(gy_store_path_local(given, "the job's folder", all, sizeof(all)));
        if (all[0] == '/') {
            memcpy(to->folder, all, strlen(all) + 1);
        } else if (getcwd(here, sizeof(here)) == NULL) {
            return gy_fail(GY_IO, "the current folder has no path: %s", strerror(errno));
        } else {
            GY_TRY(gy_flow_run_path(to->folder, here, all));
        }
        to->is_resumed = own != NULL && strcmp(own, to->folder) == 0;
        return GY_OK;
    }
    const gy_status known = gy_history_folder(all, sizeof(all));
    if (known < 0) {
        return gy_fail_within(known, "no folder for standard input");
    }
    gy_flow_run_new_id(gy_env_real(), gy_env_real()->ops->wall_ns(gy_env_real()), id);
    return gy_flow_run_path(to->folder, all, id);
}

static gy_status copy_bytes(int from, int to, const char *name, const char *path)
{
    char *piece = gy_alloc("flow.spool", PIECE_BYTES);
    gy_status status = piece != NULL ? GY_OK : GY_NOMEM;
    ssize_t got = 1;
    while (status == GY_OK && got > 0) {
        got = read(from, piece, PIECE_BYTES);
        if (got < 0 && errno == EINTR) {
            got = 1;
            continue;
        }
        if (got < 0) {
            status = gy_fail(GY_IO, "cannot read %s: %s", name, strerror(errno));
        }
        for (ssize_t at = 0; status == GY_OK && at < got;) {
            const ssize_t more = write(to, piece + at, (size_t)(got - at));
            if (more < 0 && errno != EINTR) {
                status = gy_fail(GY_IO, "cannot write %s, which %s is copied to: %s", path,
                                 name, strerror(errno));
            }
            at += more > 0 ? more : 0;
        }
    }
    gy_free(piece);
    return status;
}

/* Copy under a temporary name and rename at the end, so that a resume finds a complete copy or
 * none. */
static gy_status copy_input(const char *input, const char *path)
{
    char part[GY_JOB_PATH];
    gy_host_file file;
    if (snprintf(part, sizeof(part), "%s.part", path) >= (int)sizeof(part)) {
        return gy_fail(GY_ARG, "the path %.100s... is too long", path);
    }
    GY_TRY(is_stdin(input) ? GY_OK : gy_host_file_read(input, &file));
    const int from = is_stdin(input) ? STDIN_FILENO : open(file.path, O_RDONLY | O_CLOEXEC);
    if (from < 0) {
        return gy_fail(GY_IO, "cannot read %s: %s", file.path, strerror(errno));
    }
    gy_status status = GY_OK;
    const int to = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (to < 0) {
        status = gy_fail(GY_IO, "cannot make %s: %s", part, strerror(errno));
    } else {
        status = copy_bytes(from, to, is_stdin(input) ? "standard input" : file.path, part);
        (void)close(to);
    }
    if (status == GY_OK && rename(part, path) != 0) {
        status = gy_fail(GY_IO, "cannot make %s: %s", path, strerror(errno));
    }
    if (status < 0) {
        (void)unlink(part);
    }
    if (from != STDIN_FILENO) {
        (void)close(from);
    }
    return status;
}

static gy_status take(spooling *to, size_t index)
{
    char name[32];
    char *path = gy_arena_alloc(&to->arena, GY_JOB_PATH);
    GY_TRY(path != NULL ? GY_OK : GY_NOMEM);
    (void)snprintf(name, sizeof(name), "input-%zu", index);
    GY_TRY(gy_flow_run_path(path, to->folder, name));
    const bool is_there = access(path, F_OK) == 0;
    if (to->is_resumed && !is_there) {
        return gy_fail(GY_NOTFOUND, "cannot resume the job in %s: it has no copy of %s",
                       to->folder, to->inputs[index]);
    }
    if (!to->is_resumed && is_there) {
        return gy_fail(GY_EXISTS, "%s holds a job: resume it or choose another folder",
                       to->folder);
    }
    if (!to->is_resumed) {
        to->is_new = to->is_new || access(to->folder, F_OK) != 0;
        GY_TRY(gy_flow_run_make_own_folder(to->folder));
        GY_TRY(copy_input(to->inputs[index], path));
    }
    to->copies[to->copy_count++] = path;
    to->inputs[index] = path;
    to->spool.folder = to->folder;
    return GY_OK;
}

static gy_status take_all(spooling *to, const char *const *inputs, const char *folder)
{
    size_t count = 0;
    while (inputs[count] != NULL) {
        count++;
    }
    to->inputs = gy_arena_alloc(&to->arena, (count + 1) * sizeof(*to->inputs));
    to->copies = gy_arena_alloc(&to->arena, (count + 1) * sizeof(*to->copies));
    GY_TRY(to->inputs != NULL && to->copies != NULL ? GY_OK : GY_NOMEM);
    memcpy(to->inputs, inputs, (count + 1) * sizeof(*inputs));
    to->spool.inputs = to->inputs;
    for (size_t i = 0; i < count; i++) {
        bool is_wanted = is_stdin(inputs[i]);
        GY_TRY(is_wanted ? GY_OK : look_for_bytes(inputs[i], &is_wanted));
        if (is_wanted && to->folder[0] == '\0') {
            GY_TRY(find_folder(to, folder));
        }
        GY_TRY(is_wanted ? take(to, i) : GY_OK);
    }
    return GY_OK;
}

gy_status gy_flow_spool_open(const char *const *inputs, const char *folder,
                             gy_flow_spool **spool)
{
    GY_TRY(check_stdin(inputs));
    spooling *made = gy_alloc_zero("flow.spool", 1, sizeof(*made));
    GY_TRY(made != NULL ? GY_OK : GY_NOMEM);
    const gy_status status = take_all(made, inputs, folder);
    if (status < 0) {
        gy_error error;
        gy_error_take(&error, status);
        gy_flow_spool_close(&made->spool);
        return gy_error_raise(&error);
    }
    *spool = &made->spool;
    return GY_OK;
}

void gy_flow_spool_close(gy_flow_spool *spool)
{
    if (spool == NULL) {
        return;
    }
    spooling *made = (spooling *)spool;
    const bool is_left =
        made->copy_count > 0 && gy_journal_is_there(gy_env_real(), made->folder);
    for (size_t i = 0; !is_left && i < made->copy_count; i++) {
        (void)unlink(made->copies[i]);
    }
    if (made->is_new && !is_left) {
        (void)rmdir(made->folder); /* the job never began, so its folder is empty */
    }
    gy_arena_free(&made->arena);
    gy_free(made);
}
