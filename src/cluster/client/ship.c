/* Finds a program's files: itself, and the libraries outside the system's folders that its own
 * loader finds. The loader lists them ("INTERPRETER --list PROGRAM", ld.so(8)) without running
 * the program. */
#include "cluster/client/client_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIST_BYTES = 256 << 10, LOADER_SECONDS = 20 };

static gy_status fail_file(const char *what, const char *path, int error)
{
    return gy_fail(error == ENOENT ? GY_NOTFOUND : GY_IO, "cannot %s %s: %s", what, path,
                   strerror(error));
}

static bool is_systems(const char *path)
{
    static const char *const folders[] = {
        "/lib/",     "/lib32/",     "/lib64/",   "/libx32/",    "/bin/",        "/sbin/",
        "/usr/lib/", "/usr/lib32/", "/usr/bin/", "/usr/lib64/", "/usr/libx32/", "/usr/sbin/"};
    for (size_t i = 0; i < GY_COUNT(folders); i++) {
        if (strncmp(path, folders[i], strlen(folders[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- The program ---- */

static bool is_program(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode) && access(path, X_OK) == 0;
}

gy_status gy_client_find_program(const char *name, char path[CLIENT_PATH_BYTES],
                                 bool *is_system)
{
    char found[CLIENT_PATH_BYTES] = "", whole[PATH_MAX];
    if (strchr(name, '/') != NULL) {
        (void)snprintf(found, sizeof(found), "%s", name);
    } else {
        const char *folders = gy_setting_get("PATH");
        for (const char *at = folders; at != NULL && *at != '\0';) {
            size_t size = strcspn(at, ":");
            (void)snprintf(found, sizeof(found), "%.*s/%s", (int)size, at, name);
            if (is_program(found)) {
                break;
            }
            found[0] = '\0';
            at += size + (at[size] == ':');
        }
    }
    if (found[0] == '\0' || !is_program(found)) {
        return gy_fail(GY_NOTFOUND, "'%.200s' is no program that can be started", name);
    }
    if (realpath(found, whole) == NULL || strlen(whole) >= CLIENT_PATH_BYTES) {
        return fail_file("find", found, errno);
    }
    memcpy(path, whole, strlen(whole) + 1);
    *is_system = is_systems(path);
    return GY_OK;
}

/* ---- Files ---- */

static gy_status hash_file(gy_cluster *cluster, int file, gy_client_file *row)
{
    gy_net_digest *digest = NULL;
    ssize_t got = 1;
    GY_TRY(gy_net_digest_begin(&digest));
    uint8_t *bytes = gy_alloc("client", GY_NET_BLOB_PIECE);
    if (bytes == NULL) {
        gy_net_digest_free(digest);
        return GY_NOMEM;
    }
    row->size_bytes = 0;
    while (got != 0) {
        got = read(file, bytes, GY_NET_BLOB_PIECE);
        if (got < 0 && errno != EINTR) {
            break;
        }
        gy_net_digest_feed(digest, bytes, got > 0 ? (size_t)got : 0);
        row->size_bytes += got > 0 ? (uint64_t)got : 0;
        gy_client_meanwhile(cluster);
    }
    int error = errno;
    row->content = gy_net_digest_end(digest);
    gy_net_digest_free(digest);
    gy_free(bytes);
    return got < 0 ? fail_file("read", row->path, error) : GY_OK;
}

/* Take the hash from the cache if the file is unmodified; else read it. */
static gy_status find_content(gy_cluster *cluster, int file, const struct stat *about,
                              gy_client_file *row)
{
    struct stat after;
    if (gy_client_digests_find(cluster->digests, about, &row->content)) {
        row->size_bytes = (uint64_t)about->st_size;
        row->is_recalled = true;
        return GY_OK;
    }
    GY_TRY(hash_file(cluster, file, row));
    if (fstat(file, &after) == 0 && gy_client_is_same(about, &after)) {
        gy_client_digests_put(cluster->digests, &after, row->content,
                              cluster->env->ops->wall_ns(cluster->env));
    }
    return GY_OK;
}

static gy_status fill_row(gy_cluster *cluster, gy_client_file *row, const char *path,
                          const char *name)
{
    struct stat about;
    if (snprintf(row->path, sizeof(row->path), "%s", path) >= (int)sizeof(row->path) ||
        snprintf(row->name, sizeof(row->name), "%s", name) >= (int)sizeof(row->name)) {
        return gy_fail(GY_ARG, "'%.80s' is too long a name for a file of a job", name);
    }
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return fail_file("open", path, errno);
    }
    gy_status status = GY_OK;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
        status = gy_fail(GY_ARG, "%s is no file", path);
    } else {
        row->is_executable = (about.st_mode & 0111) != 0;
        status = find_content(cluster, file, &about, row);
    }
    close(file);
    return status;
}

gy_status gy_client_add_file(gy_cluster *cluster, gy_client_files *files, const char *path,
                             const char *name, bool is_library)
{
    for (size_t i = 0; i < files->count; i++) {
        if (strcmp(files->rows[i].name, name) == 0) {
            return strcmp(files->rows[i].path, path) == 0
                       ? GY_OK
                       : gy_fail(GY_EXISTS, "two files of the job are called %s: %s and %s",
                                 name, files->rows[i].path, path);
        }
    }
    GY_TRY(GY_GROW("client", files->rows, files->capacity, files->count + 1));
    gy_client_file *row = &files->rows[files->count];
    *row = (gy_client_file){.is_library = is_library};
    GY_TRY(fill_row(cluster, row, path, name));
    files->count++;
    return GY_OK;
}

/* ---- Libraries ---- */

/* Parse "\tlibx.so.1 => /path/libx.so.1 (0x7f…)", or "=> not found". */
static gy_status take_line(gy_cluster *cluster, const char *program, char *line,
                           gy_client_files *files)
{
    char whole[PATH_MAX];
    char *arrow = strstr(line, " => ");
    if (arrow == NULL && strstr(line, ": version `") != NULL) {
        return gy_fail(GY_UNSUPPORTED, "%s", line); /* "PROGRAM: LIBRARY: ... not found" */
    }
    if (arrow == NULL) {
        return GY_OK; /* the kernel's vDSO, or the loader itself */
    }
    char *name = line + strspn(line, " \t"), *path = arrow + 4;
    *arrow = '\0';
    if (strncmp(path, "not found", 9) == 0) {
        return gy_fail(GY_NOTFOUND, "%s needs the library %s, which is not found", program,
                       name);
    }
    char *end = strstr(path, " (0x");
    if (end != NULL) {
        *end = '\0';
    }
    if (realpath(path, whole) == NULL) {
        return fail_file("find", path, errno);
    }
    const char *slash = strrchr(name, '/');
    return is_systems(whole) ? GY_OK
                             : gy_client_add_file(cluster, files, whole,
                                                  slash != NULL ? slash + 1 : name, true);
}

static gy_status take_list(gy_cluster *cluster, const char *program, char *text,
                           gy_client_files *files)
{
    for (char *line = text, *next; *line != '\0'; line = next) {
        size_t size = strcspn(line, "\n");
        next = line + size + (line[size] == '\n');
        line[size] = '\0';
        GY_TRY(take_line(cluster, program, line, files));
    }
    return GY_OK;
}

/* Read the loader's output until it ends, at most LIST_BYTES. */
static gy_status handle_loader(gy_cluster *cluster, int from, char *text, size_t *size_bytes)
{
    gy_env *env = cluster->env;
    const gy_deadline last = gy_env_deadline(env, LOADER_SECONDS);
    for (;;) {
        struct pollfd waits[2] = {{.fd = from, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
        int64_t until_ns = last.at_ns;
        gy_client_meanwhile(cluster);
        if (cluster->rpc != NULL) {
            waits[1].fd = gy_rpc_fd(cluster->rpc);
            until_ns = GY_MIN(until_ns, gy_rpc_next(cluster->rpc).at_ns);
        }
        int64_t now_ns = gy_now_ns(env);
        if (now_ns >= last.at_ns) {
            return gy_fail(GY_TIMEOUT, "it printed nothing for %d s", LOADER_SECONDS);
        }
        int64_t left_ns = GY_MAX(until_ns - now_ns, (int64_t)0);
        if (poll(waits, 2, (int)((left_ns + 999999) / 1000000)) <= 0 || waits[0].revents == 0) {
            continue;
        }
        ssize_t got = read(from, text + *size_bytes, LIST_BYTES - 1 - *size_bytes);
        if (got < 0 && errno != EINTR) {
            return gy_fail(GY_IO, "cannot read its output: %s", strerror(errno));
        }
        *size_bytes += got > 0 ? (size_t)got : 0;
        text[*size_bytes] = '\0';
        if (got == 0) {
            return GY_OK;
        }
        if (*size_bytes == LIST_BYTES - 1) {
            return gy_fail(GY_LIMIT, "it printed more than %d bytes", LIST_BYTES);
        }
    }
}

static int start_loader(const char *loader, const char *program, int to, pid_t *child)
{
    posix_spawn_file_actions_t actions;
    char *arguments[] = {(char *)(uintptr_t)loader, (char *)(uintptr_t) "--list",
                         (char *)(uintptr_t)program, NULL};
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    error = posix_spawn_file_actions_adddup2(&actions, to, STDOUT_FILENO);
    /* It lists missing versions of symbols on standard error. */
    error = error != 0 ? error : posix_spawn_file_actions_adddup2(&actions, to, STDERR_FILENO);
    error = error != 0 ? error : posix_spawn(child, loader, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static gy_status begin_loader(const char *program, gy_client_loader *made)
{
    char loader[CLIENT_PATH_BYTES];
    int ends[2];
    GY_TRY(gy_net_find_loader(program, loader));
    if (loader[0] == '\0') {
        return GY_OK; /* a script, or a static program */
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return gy_fail(GY_LIMIT, "cannot make a pipe: %s", strerror(errno));
    }
    int error = start_loader(loader, program, ends[1], &made->child);
    close(ends[1]);
    if (error != 0) {
        close(ends[0]);
        made->child = 0;
        return gy_fail(GY_IO, "cannot start %s: %s", loader, strerror(error));
    }
    made->from = ends[0];
    return GY_OK;
}

/* If a library is missing the loader fails too, and its list names the library. */
static gy_status end_loader(gy_cluster *cluster, gy_client_loader *loader, char *text)
{
    int ended = 0;
    size_t size = 0;
    gy_status status = handle_loader(cluster, loader->from, text, &size);
    close(loader->from);
    if (status < 0) {
        (void)kill(loader->child, SIGKILL);
    }
    while (waitpid(loader->child, &ended, 0) < 0 && errno == EINTR) {
    }
    if (status == GY_OK && strstr(text, " => ") == NULL && ended != 0) {
        status =
            gy_fail(GY_FORMAT, "it cannot be loaded: %.*s", (int)strcspn(text, "\n"), text);
    }
    return status;
}

void gy_client_prewarm(gy_cluster *cluster, const char *name)
{
    char path[CLIENT_PATH_BYTES];
    bool is_system = false;
    gy_client_loader *ahead = &cluster->ahead;
    if (gy_client_find_program(name, path, &is_system) < 0 || is_system ||
        begin_loader(path, ahead) < 0 || ahead->child == 0) {
        return; /* the submission will report the error */
    }
    ahead->program = gy_copy_text("client", path);
    if (ahead->program == NULL) {
        gy_client_cancel_prewarm(cluster);
    }
}

void gy_client_cancel_prewarm(gy_cluster *cluster)
{
    gy_client_loader *ahead = &cluster->ahead;
    if (ahead->child > 0) {
        close(ahead->from);
        (void)kill(ahead->child, SIGKILL);
        while (waitpid(ahead->child, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    gy_free(ahead->program);
    *ahead = (gy_client_loader){.child = 0};
}

gy_status gy_client_find_libraries(gy_cluster *cluster, const char *program,
                                   gy_client_files *files)
{
    gy_client_loader loader = {.child = 0};
    char *text = gy_alloc("client", LIST_BYTES);
    if (text == NULL) {
        return GY_NOMEM;
    }
    gy_status status = GY_OK;
    text[0] = '\0';
    if (cluster->ahead.program != NULL && strcmp(cluster->ahead.program, program) == 0) {
        loader = cluster->ahead;
        gy_free(loader.program);
        cluster->ahead = (gy_client_loader){.child = 0};
    } else {
        status = begin_loader(program, &loader);
    }
    status = loader.child > 0 ? end_loader(cluster, &loader, text) : status;
    status = status < 0 ? gy_fail_within(status, "the loader of %s", program)
                        : take_list(cluster, program, text, files);
    gy_free(text);
    return status;
}
