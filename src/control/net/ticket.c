/* Tickets. Their only secret is the path of a key ring, but whoever can write one decides which
 * job a manager belongs to. */
#include "control/net/ticket.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TICKET_BYTES = 16 << 10, LOCK_TRIES = 500 };

gy_status gy_ticket_write(const char *path, const gy_ticket *ticket)
{
    char beside[4096];
    if (snprintf(beside, sizeof(beside), "%s.new", path) >= (int)sizeof(beside)) {
        return gy_fail(GY_IO, "the name of a ticket is too long");
    }
    (void)unlink(beside); /* left by an interrupted write */
    int file = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    int used =
        file < 0
            ? -1
            : dprintf(file,
                      "job %016llx%016llx\nepoch %u\nnames %s\nkey %s\nfolder %s\nslots %u\n"
                      "resumed %d\nforgotten %d\nprogram %s\ndaemon %s\n",
                      (unsigned long long)ticket->job.high, (unsigned long long)ticket->job.low,
                      ticket->epoch, ticket->names, ticket->key_file, ticket->folder,
                      ticket->slots, ticket->is_resumed, ticket->is_forgotten, ticket->program,
                      ticket->daemon);
    int error = used < 0 ? errno : 0;
    if (file >= 0 && close(file) != 0 && error == 0) {
        error = errno;
    }
    if (error == 0 && rename(beside, path) != 0) {
        error = errno;
    }
    return error == 0 ? GY_OK : gy_fail(GY_IO, "cannot write %s: %s", path, strerror(error));
}

/* Read it whole, NUL-terminated. */
static gy_status read_ticket(const char *path, char text[TICKET_BYTES])
{
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) {
        return gy_fail(GY_IO, "cannot open %s: %s", path, strerror(errno));
    }
    gy_status status = GY_OK;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode) || about.st_uid != geteuid() ||
        (about.st_mode & 077) != 0) {
        status = gy_fail(GY_STATE, "%s is not a file of this user alone", path);
    }
    size_t used = 0;
    ssize_t got = 1;
    while (status == GY_OK && got != 0 && used < TICKET_BYTES - 1) {
        got = read(file, text + used, TICKET_BYTES - 1 - used);
        used += got > 0 ? (size_t)got : 0;
        if (got < 0 && errno != EINTR) {
            status = gy_fail(GY_IO, "cannot read %s: %s", path, strerror(errno));
        }
    }
    text[used] = '\0';
    close(file);
    return status == GY_OK && strlen(text) != used
               ? gy_fail(GY_FORMAT, "%s has a NUL byte", path)
               : status;
}

/* Copy a line's value into (room) bytes. */
static bool find(const char *text, const char *name, char *value, size_t room)
{
    const size_t size = strlen(name);
    for (const char *line = text; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n');
        if (end != NULL && strncmp(line, name, size) == 0 && line[size] == ' ' &&
            (size_t)(end - line) - size - 1 < room) {
            (void)snprintf(value, room, "%.*s", (int)(end - line - (ptrdiff_t)size - 1),
                           line + size + 1);
            return true;
        }
        line = end != NULL ? end + 1 : NULL;
    }
    return false;
}

static bool find_flag(const char *text, const char *name)
{
    char value[16];
    return find(text, name, value, sizeof(value)) && strcmp(value, "1") == 0;
}

gy_status gy_ticket_read(gy_ticket *ticket)
{
    *ticket = (gy_ticket){0};
    char text[TICKET_BYTES] = "", job[40] = "", epoch[16] = "", slots[16] = "", rest = '\0';
    unsigned long long high = 0, low = 0;
    const char *path = gy_setting_get(GY_TICKET_VARIABLE);
    if (path == NULL) {
        return GY_NOTFOUND;
    }
    GY_TRY(read_ticket(path, text));
    if (!find(text, "job", job, sizeof(job)) || !find(text, "epoch", epoch, sizeof(epoch)) ||
        !find(text, "names", ticket->names, sizeof(ticket->names)) ||
        !find(text, "key", ticket->key_file, sizeof(ticket->key_file)) ||
        !find(text, "folder", ticket->folder, sizeof(ticket->folder)) || strlen(job) != 32 ||
        sscanf(job, "%16llx%16llx%c", &high, &low, &rest) != 2 ||
        sscanf(epoch, "%u%c", &ticket->epoch, &rest) != 1 || ticket->epoch == 0 ||
        (find(text, "slots", slots, sizeof(slots)) &&
         sscanf(slots, "%u%c", &ticket->slots, &rest) != 1)) {
        return gy_fail(GY_FORMAT, "%s is no ticket of a manager", path);
    }
    (void)find(text, "program", ticket->program, sizeof(ticket->program));
    (void)find(text, "daemon", ticket->daemon, sizeof(ticket->daemon));
    ticket->is_resumed = find_flag(text, "resumed");
    ticket->is_forgotten = find_flag(text, "forgotten");
    ticket->job = (gy_key){high, low};
    return GY_OK;
}

/* ---- jobs of one program ---- */

/* Open the file that counts the jobs; -1. */
static int open_count(const gy_ticket *ticket, char path[4200])
{
    (void)snprintf(path, 4200, "%s/jobs", ticket->folder);
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static gy_status read_count(int file, const char *path, uint32_t *count)
{
    char text[32] = "", rest = '\0';
    const ssize_t got = pread(file, text, sizeof(text) - 1, 0);
    *count = 0;
    if (got < 0) {
        return gy_fail(GY_IO, "cannot read %s: %s", path, strerror(errno));
    }
    return got == 0 || (sscanf(text, "%u%c", count, &rest) == 2 && rest == '\n')
               ? GY_OK
               : gy_fail(GY_FORMAT, "%s does not hold the number of started jobs", path);
}

static gy_status count_one(gy_ticket *ticket, int file, const char *path)
{
    char text[32];
    GY_TRY(read_count(file, path, &ticket->round));
    if (ticket->round >= GY_TICKET_ROUNDS) {
        return gy_fail(GY_LIMIT, "a program that was submitted to a cluster runs %d jobs",
                       GY_TICKET_ROUNDS);
    }
    const size_t size = gy_print(text, sizeof(text), "%u\n", ++ticket->round);
    return pwrite(file, text, size, 0) == (ssize_t)size
               ? GY_OK
               : gy_fail(GY_IO, "cannot write %s: %s", path, strerror(errno));
}

gy_status gy_ticket_begin(gy_ticket *ticket, int *lock)
{
    char path[4200];
    int file = open_count(ticket, path), taken = -1;
    if (file < 0) {
        return gy_fail(GY_IO, "cannot open %s: %s", path, strerror(errno));
    }
    /* Another process that only checks the lock releases it soon. */
    for (int i = 0; i < LOCK_TRIES && taken != 0; i++) {
        taken = flock(file, LOCK_EX | LOCK_NB);
        if (taken != 0) {
            (void)poll(NULL, 0, 2);
        }
    }
    gy_status status = taken == 0
                           ? count_one(ticket, file, path)
                           : gy_fail(GY_STATE, "another process of this program runs a job: "
                                               "on a cluster they run one after the other");
    if (status < 0) {
        close(file);
        return status;
    }
    *lock = file;
    return GY_OK;
}

bool gy_ticket_is_idle(gy_ticket *ticket)
{
    char path[4200];
    int file = open_count(ticket, path);
    const bool is_idle = file >= 0 && flock(file, LOCK_SH | LOCK_NB) == 0 &&
                         read_count(file, path, &ticket->round) == GY_OK;
    if (file >= 0) {
        close(file);
    }
    return is_idle;
}

/* ---- removal of retained data ---- */

gy_status gy_ticket_set_forgotten(const gy_ticket *ticket, bool is_forgotten)
{
    char path[4200];
    (void)snprintf(path, sizeof(path), "%s/forgotten", ticket->folder);
    if (!is_forgotten) {
        return unlink(path) == 0 || errno == ENOENT
                   ? GY_OK
                   : gy_fail(GY_IO, "cannot remove %s: %s", path, strerror(errno));
    }
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return file >= 0 && close(file) == 0
               ? GY_OK
               : gy_fail(GY_IO, "cannot write %s: %s", path, strerror(errno));
}

bool gy_ticket_is_forgotten(const char *folder)
{
    char path[4200];
    return snprintf(path, sizeof(path), "%s/forgotten", folder) < (int)sizeof(path) &&
           access(path, F_OK) == 0;
}

/* ---- the prewarm hint ---- */

enum { REQUEST_BYTES = 64 }; /* below PIPE_BUF, so that a write is atomic */

static bool find_pipe(const char *folder, char path[4200])
{
    return snprintf(path, 4200, "%s/request", folder) < 4200;
}

gy_status gy_ticket_listen(const char *folder, int *file)
{
    char path[4200];
    if (!find_pipe(folder, path) || mkfifo(path, 0600) != 0) {
        return gy_fail(GY_IO, "cannot make %s/request: %s", folder, strerror(errno));
    }
    *file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    return *file >= 0 ? GY_OK : gy_fail(GY_IO, "cannot open %s: %s", path, strerror(errno));
}

gy_status gy_ticket_handle(int file, gy_ticket_request *request)
{
    char text[REQUEST_BYTES] = "", rest = '\0';
    unsigned long long memory = 0;
    const ssize_t got = read(file, text, sizeof(text) - 1);
    if (got < 0) {
        return errno == EAGAIN || errno == EINTR
                   ? GY_AGAIN
                   : gy_fail(GY_IO, "cannot read a manager's prewarm hint: %s",
                             strerror(errno));
    }
    if (sscanf(text, "threads %u memory %llu%c", &request->threads, &memory, &rest) != 3 ||
        rest != '\n' || strchr(text, '\n')[1] != '\0') {
        return gy_fail(GY_FORMAT,
                       "a manager gave the prewarm hint '%s': expected threads and memory",
                       text);
    }
    request->memory_bytes = memory;
    return GY_OK;
}

void gy_ticket_prewarm_hint(const gy_ticket *ticket, const gy_ticket_request *request)
{
    char path[4200];
    const int file = find_pipe(ticket->folder, path)
                         ? open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW)
                         : -1;
    if (file < 0 || dprintf(file, "threads %u memory %llu\n", request->threads,
                            (unsigned long long)request->memory_bytes) < 0) {
        gy_debug("cannot write the prewarm hint %s", path);
    }
    if (file >= 0) {
        close(file);
    }
}
