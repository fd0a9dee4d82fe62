/**
 * Sandboxes around user code: what the processes of a job can see and reach.
 *
 * The fork server (worker.h) enters all parts once, before it forks. Each vertex process and
 * all it starts is thus born in the same sandbox at no extra cost, and the members of a cohort
 * still reach each other. The sandbox isolates the job from the rest of the machine, not its
 * vertices from each other.
 */
#ifndef GY_WORKER_SANDBOX_SANDBOX_H
#define GY_WORKER_SANDBOX_SANDBOX_H

#include "base/base.h"
#include "base/text.h"

#include <sys/types.h>

/** The parts, as bits; every other part implies GY_SANDBOX_RIGHTS. */
enum {
    GY_SANDBOX_RIGHTS = 1, /* no capabilities, even after exec; no core files; RLIMIT_NPROC */
    GY_SANDBOX_PROCESSES = 2, /* namespaces for processes, IPC, host name, mounts */
    GY_SANDBOX_NETWORK = 4,   /* a network namespace with only the loopback */
    GY_SANDBOX_FILES = 8,     /* Landlock: only listed files and folders */
    GY_SANDBOX_CALLS = 16,    /* seccomp: no calls that reach other processes or the system */
    GY_SANDBOX_ALL = 31,
    GY_SANDBOX_PARTS = 5
};

/** The sandbox that a job requests. Zero: none. */
typedef struct gy_sandbox {
    uint32_t parts;
    bool is_available; /* drop the parts that this machine lacks; else they are refused */
    gy_text paths; /* texts, each NUL-terminated: "rPATH" to read and execute, "wPATH" to write
                      too; the first of the latter is the folder for temporary files */
} gy_sandbox;

/** What this machine supports. */
typedef struct gy_sandbox_features {
    uint32_t parts;
    /* For each part, why it is missing; or its restrictions, or "". */
    char reasons[GY_SANDBOX_PARTS][160];
} gy_sandbox_features;

/**
 * Read "none", "strict" (all parts), "available" (all that this machine supports; with names of
 * parts: the supported ones of these), or names of parts separated by commas; "read=PATH" and
 * "write=PATH" in the list add to the paths.
 *
 * @param sandbox zero; freed by gy_sandbox_fini, also after a failure
 * @return GY_OK; GY_ARG the text says what was expected; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_sandbox_parse(const char *text, gy_sandbox *sandbox);
/**
 * Add a path; a relative one is below the current folder, links are followed, a path that does
 * not exist is skipped. GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_sandbox_add(gy_sandbox *sandbox, const char *path, bool is_writable);
void gy_sandbox_fini(gy_sandbox *sandbox);

/**
 * Find out what this machine supports, by trying it in a short-lived process.
 *
 * @threads any
 * @cost two forks and a set of namespaces: some milliseconds, in this process the first time
 */
void gy_sandbox_probe(gy_sandbox_features *features);
/** Append a text for users: each part, one line, and why it is missing if it is. */
void gy_sandbox_describe(const gy_sandbox_features *features, gy_text *out);

/**
 * Reduce the request to what this machine supports. *missing (may be NULL): one line about the
 * missing parts, "" if there are none.
 *
 * @return GY_OK; GY_STATE a part is missing, and is_available is not set; the text says which
 * and why
 */
GY_MUST_CHECK gy_status gy_sandbox_settle(gy_sandbox *sandbox, gy_text *missing);

/* ---- in the process that enters the sandbox ---- */

/** What the process needs to enter: the parts and their paths. */
typedef struct gy_sandbox_paths {
    uint32_t parts;
    const char *paths; /* (paths_bytes) as gy_sandbox.paths */
    size_t paths_bytes;
} gy_sandbox_paths;

/**
 * Close all descriptors but the standard ones and these two: sandboxed code must not inherit
 * the files of the program that started it. GY_STATE
 */
GY_MUST_CHECK gy_status gy_sandbox_close_files(int one, int other);
/**
 * Call before the fork whose child enters: from here on this process's children are born in a
 * new PID namespace, which ends with its first process. GY_STATE
 */
GY_MUST_CHECK gy_status gy_sandbox_prepare(const gy_sandbox_paths *sandbox);
/**
 * In that child, which has one thread: enter all parts, irrevocably.
 *
 * @return GY_OK; GY_STATE a part cannot be entered (the text says which and why); the process
 * must end then
 * @cost about a millisecond, most of it the network's
 */
GY_MUST_CHECK gy_status gy_sandbox_enter(const gy_sandbox_paths *sandbox);
/** The parts that this process has entered, or inherited at its fork. */
uint32_t gy_sandbox_parts(void);
/**
 * The folder of this process's program, by its path outside the sandbox; "": not known. Inside,
 * the kernel cannot name it if the root is no mount point.
 *
 * @threads any
 */
const char *gy_sandbox_program_folder(void);

#endif
