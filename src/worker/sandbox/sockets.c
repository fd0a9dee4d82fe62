/*
 * Hides sockets that have a path. Landlock does not restrict connecting to them, so a user's
 * D-Bus, key agent or container server would stay reachable. If the job has its own mount
 * namespace, sockets that exist when it begins are covered by /dev/null. Sockets bound later
 * are not, nor those bound by processes of another network namespace.
 */
#include "worker/sandbox/sandbox_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* Is the path in a writable folder of the job? */
static bool is_own(const gy_sandbox_paths *sandbox, const char *path)
{
    for (size_t at = 0; at < sandbox->paths_bytes;) {
        const char *text = sandbox->paths + at, *folder = text + 1;
        const size_t size = strlen(folder);
        if (text[0] == 'w' && strncmp(path, folder, size) == 0 &&
            (path[size] == '/' || path[size] == '\0')) {
            return true;
        }
        at += size + 2;
    }
    return false;
}

static gy_status cover(const gy_sandbox_paths *sandbox, const char *path)
{
    char open_name[64], whole[PATH_MAX];
    struct stat about;
    const int place = open(path, O_PATH | O_CLOEXEC);
    if (place < 0) {
        return GY_OK; /* it no longer exists, or cannot be reached */
    }
    (void)snprintf(open_name, sizeof(open_name), "/proc/self/fd/%d", place);
    const ssize_t size = readlink(open_name, whole, sizeof(whole) - 1);
    whole[size > 0 ? size : 0] = '\0';
    const bool is_hidden = size > 0 && fstat(place, &about) == 0 && S_ISSOCK(about.st_mode) &&
                           !is_own(sandbox, whole);
    gy_status status = GY_OK;
    if (is_hidden && mount("/dev/null", open_name, NULL, MS_BIND, NULL) != 0) {
        status = gy_fail(GY_STATE, "cannot cover the socket %s: %s", whole, strerror(errno));
    }
    close(place);
    return status;
}

/* The path at the end of a line; NULL: the socket has none. */
static char *path_of(char *line)
{
    char *at = line;
    for (int field = 0; field < 7 && at != NULL;
         field++) { /* the sixth field is padded with spaces */
        at = strchr(at + strspn(at, " "), ' ');
    }
    line[strcspn(line, "\n")] = '\0';
    return at != NULL && at[1] == '/' ? at + 1 : NULL;
}

gy_status gy_sandbox_sockets_cover(const gy_sandbox_paths *sandbox)
{
    char line[512]; /* a path has at most 108 bytes */
    FILE *all = fopen("/proc/net/unix", "re");
    if (all == NULL) {
        return gy_fail(GY_STATE, "cannot list sockets: %s", strerror(errno));
    }
    gy_status status = GY_OK;
    while (status == GY_OK && fgets(line, sizeof(line), all) != NULL) {
        const char *path = path_of(line);
        status = path != NULL ? cover(sandbox, path) : GY_OK;
    }
    if (status == GY_OK && ferror(all) != 0) {
        status = gy_fail(GY_STATE, "cannot list sockets: %s", strerror(errno));
    }
    (void)fclose(all);
    return status;
}
