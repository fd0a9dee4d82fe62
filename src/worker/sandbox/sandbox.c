/* Parses the requested sandbox, checks what the machine supports, and enters the parts. */
#include "worker/sandbox/sandbox_priv.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOK_MS = 5000 };

static const char *const names[GY_SANDBOX_PARTS] = {"rights", "processes", "network", "files",
                                                    "calls"};

/* ---- the request ---- */

static bool is_word(const char *text, size_t size, const char *word)
{
    return strlen(word) == size && strncmp(text, word, size) == 0;
}

static gy_status take_word(const char *word, size_t size, gy_sandbox *sandbox)
{
    int part = 0;
    while (part < GY_SANDBOX_PARTS && !is_word(word, size, names[part])) {
        part++;
    }
    if (part < GY_SANDBOX_PARTS) {
        sandbox->parts |= 1U << part | GY_SANDBOX_RIGHTS;
        return GY_OK;
    }
    if (is_word(word, size, "strict")) {
        sandbox->parts = GY_SANDBOX_ALL;
        return GY_OK;
    }
    if (is_word(word, size, "available")) {
        sandbox->is_available = true;
        return GY_OK;
    }
    bool is_writable = strncmp(word, "write=", GY_MIN(size, 6)) == 0;
    if ((is_writable && size > 6) || (size > 5 && strncmp(word, "read=", 5) == 0)) {
        char path[PATH_MAX];
        size_t skipped = is_writable ? 6 : 5;
        snprintf(path, sizeof(path), "%.*s", (int)(size - skipped), word + skipped);
        if (access(path, F_OK) != 0) {
            return gy_fail(GY_ARG, "a sandbox that permits %s: %s", path, strerror(errno));
        }
        return gy_sandbox_add(sandbox, path, is_writable);
    }
    return is_word(word, size, "none")
               ? GY_OK
               : gy_fail(
                     GY_ARG,
                     "a sandbox of \"%.*s\": expected none, strict, available, or a list of "
                     "rights, processes, network, files, calls, read=PATH and write=PATH",
                     (int)size, word);
}

gy_status gy_sandbox_parse(const char *text, gy_sandbox *sandbox)
{
    for (;;) {
        size_t size = strcspn(text, ",");
        GY_TRY(take_word(text, size, sandbox));
        if (text[size] == '\0') {
            break;
        }
        text += size + 1;
    }
    if (sandbox->is_available && sandbox->parts == 0) {
        sandbox->parts = GY_SANDBOX_ALL;
    }
    return GY_OK;
}

gy_status gy_sandbox_add(gy_sandbox *sandbox, const char *path, bool is_writable)
{
    char whole[PATH_MAX];
    if (realpath(path, whole) == NULL) {
        gy_debug("a sandbox without %s: %s", path, strerror(errno));
        return GY_OK;
    }
    gy_text_add(&sandbox->paths, "%c%s", is_writable ? 'w' : 'r', whole);
    gy_text_add_bytes(&sandbox->paths, "", 1);
    return sandbox->paths.status;
}

void gy_sandbox_fini(gy_sandbox *sandbox)
{
    gy_text_free(&sandbox->paths);
    *sandbox = (gy_sandbox){.parts = 0};
}

/* ---- support of this machine ---- */

/* Try to create namespaces in a process of its own: 0, or its error text goes to the pipe
 * `said`. */
static void try_spaces(uint32_t parts, int said)
{
    bool has_shm = false;
    gy_sandbox_paths sandbox = {.parts = parts};
    gy_status status = gy_sandbox_prepare(&sandbox);
    pid_t child = status == GY_OK ? fork() : -1;
    if (child == 0) {
        status = gy_sandbox_spaces_enter(&sandbox, &has_shm);
    } else if (child > 0) {
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        }
        return;
    } else if (status == GY_OK) {
        status = gy_fail(GY_STATE, "no first process of a namespace: %s", strerror(errno));
    }
    const char *words = status == GY_OK ? "+" : gy_error_text();
    if (write(said, words, strlen(words)) < 0) {
        _exit(1); /* the reader has ended, so the result does not matter */
    }
}

/* Can namespaces be created here? If not, `reason` says why. */
static bool check_spaces(uint32_t parts, char reason[160])
{
    int ends[2];
    reason[0] = '\0';
    if (pipe(ends) != 0) {
        snprintf(reason, 160, "no pipe to look: %s", strerror(errno));
        return false;
    }
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        try_spaces(parts, ends[1]);
        _exit(0);
    }
    close(ends[1]);
    size_t size = 0;
    struct pollfd look = {.fd = ends[0], .events = POLLIN};
    for (ssize_t got = 1; child > 0 && got > 0 && size < 159 && poll(&look, 1, LOOK_MS) == 1;) {
        got = read(ends[0], reason + size, 159 - size);
        size += got > 0 ? (size_t)got : 0;
    }
    reason[size] = '\0';
    close(ends[0]);
    if (child < 0) {
        snprintf(reason, 160, "no process to look: %s", strerror(errno));
        return false;
    }
    kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    bool is_there = strcmp(reason, "+") == 0;
    if (is_there) {
        reason[0] = '\0';
    } else if (size == 0) {
        snprintf(reason, 160, "no answer within %d s", LOOK_MS / 1000);
    }
    return is_there;
}

/* Describe what an older Landlock does not restrict. */
static void describe_files(int version, char reason[160])
{
    snprintf(reason, 160, "Landlock %d%s%s", version,
             version < 3 ? ", which leaves files outside open to be cut short" : "",
             version < 6 ? ", which leaves signals to processes outside to the namespace" : "");
}

void gy_sandbox_probe(gy_sandbox_features *features)
{
    *features = (gy_sandbox_features){.parts = GY_SANDBOX_RIGHTS};
    int error = 0, version = gy_sandbox_files_version(&error);
    if (check_spaces(GY_SANDBOX_PROCESSES, features->reasons[1])) {
        features->parts |= GY_SANDBOX_PROCESSES;
    }
    if (check_spaces(GY_SANDBOX_NETWORK, features->reasons[2])) {
        features->parts |= GY_SANDBOX_NETWORK;
    }
    if (version > 0) {
        features->parts |= GY_SANDBOX_FILES;
        describe_files(version, features->reasons[3]);
    } else {
        snprintf(features->reasons[3], sizeof(features->reasons[3]), "no Landlock: %s",
                 strerror(error));
    }
    error = gy_sandbox_calls_probe();
    if (error == 0) {
        features->parts |= GY_SANDBOX_CALLS;
    } else {
        snprintf(features->reasons[4], sizeof(features->reasons[4]), "no seccomp filters: %s",
                 strerror(error));
    }
}

void gy_sandbox_describe(const gy_sandbox_features *features, gy_text *out)
{
    for (int i = 0; i < GY_SANDBOX_PARTS; i++) {
        const char *reason = features->reasons[i];
        gy_text_add(out, "%-9s  %s%s%s\n", names[i],
                    (features->parts & 1U << i) != 0 ? "yes" : "no",
                    reason[0] != '\0' ? ": " : "", reason);
    }
}

gy_status gy_sandbox_settle(gy_sandbox *sandbox, gy_text *missing)
{
    gy_sandbox_features features = {.parts = 0};
    gy_text lacks = {.data = NULL};
    gy_status status = GY_OK;
    if (sandbox->parts != 0) {
        gy_sandbox_probe(&features);
    }
    const uint32_t lacking = sandbox->parts & ~features.parts;
    for (int i = 0; i < GY_SANDBOX_PARTS; i++) {
        if ((lacking & 1U << i) != 0) {
            gy_text_add(&lacks, "%s%s (%s)", lacks.size_bytes > 0 ? ", " : "", names[i],
                        features.reasons[i]);
        }
    }
    if (lacking != 0 && !sandbox->is_available) {
        status = gy_fail(GY_STATE,
                         "this machine has no %s: a sandbox that is \"available\" "
                         "does without",
                         gy_text_get(&lacks));
    }
    sandbox->parts &= features.parts;
    if (missing != NULL) {
        gy_text_add(missing, "%s", gy_text_get(&lacks));
    }
    gy_text_free(&lacks);
    return status;
}

/* ---- entering ---- */

gy_status gy_sandbox_prepare(const gy_sandbox_paths *sandbox)
{
    return gy_sandbox_spaces_prepare(sandbox->parts);
}

/* Point TMPDIR at a folder where programs may create temporary files. */
static gy_status name_scratch(const gy_sandbox_paths *sandbox)
{
    for (size_t at = 0; at < sandbox->paths_bytes; at += strlen(sandbox->paths + at) + 1) {
        if (sandbox->paths[at] == 'w') {
            return setenv("TMPDIR", sandbox->paths + at + 1, 1) == 0 ? GY_OK : GY_NOMEM;
        }
    }
    return GY_OK;
}

static uint32_t entered;

uint32_t gy_sandbox_parts(void)
{
    return entered;
}

gy_status gy_sandbox_enter(const gy_sandbox_paths *sandbox)
{
    bool has_shm = false;
    if (sandbox->parts == 0) {
        return GY_OK;
    }
    /* The path may not exist inside the sandbox. */
    const char *program = gy_sandbox_program_folder();
    GY_TRY(gy_sandbox_spaces_enter(sandbox, &has_shm));
    GY_TRY(gy_sandbox_rights_hold());
    if ((sandbox->parts & GY_SANDBOX_FILES) != 0) {
        GY_TRY(name_scratch(sandbox));
        GY_TRY(gy_sandbox_files_enter(sandbox, program, has_shm));
    }
    GY_TRY(gy_sandbox_rights_drop());
    if ((sandbox->parts & GY_SANDBOX_CALLS) != 0) {
        GY_TRY(gy_sandbox_calls_enter());
    }
    entered = sandbox->parts;
    /* Children of a non-dumpable process cannot inspect its memory, which belongs to Gyre. */
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0
               ? GY_OK
               : gy_fail(GY_STATE, "cannot hide its memory: %s", strerror(errno));
}
