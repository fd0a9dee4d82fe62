/**
 * Sandboxes around the code of users: what the processes of a job may see and reach.
 *
 * All parts are entered once, by the fork server (worker.h) before it forks, so each vertex
 * process and all it starts is born behind the same sandbox, at no cost of its own, and the
 * members of a cohort still meet. What the sandbox keep apart is the job from the rest of the
 * machine, not its vertices from each other.
 */
#ifndef GY_WORKER_SANDBOX_SANDBOX_H
#define GY_WORKER_SANDBOX_SANDBOX_H

#include "base/base.h"
#include "base/text.h"

#include <sys/types.h>

/** The parts, as bits; GY_SANDBOX_RIGHTS comes with any other. */
enum {
    GY_SANDBOX_RIGHTS = 1,    /* no capability, none by exec; no core files; RLIMIT_NPROC */
    GY_SANDBOX_PROCESSES = 2, /* namespaces: own processes, IPC, host name, mounts */
    GY_SANDBOX_NETWORK = 4,   /* own network: loopback alone */
    GY_SANDBOX_FILES = 8,     /* Landlock: files and folders that are listed */
    GY_SANDBOX_CALLS = 16,    /* seccomp: no calls that reach other processes or the system */
    GY_SANDBOX_ALL = 31,
    GY_SANDBOX_PARTS = 5
};

/** What a job shall have. Zero: nothing. */
typedef struct gy_sandbox {
    uint32_t parts;
    bool is_available; /* without the parts that this machine lacks; else they are refused */
    gy_text paths;     /* texts, each with its NUL: "rPATH" to read and run, "wPATH" to write
                          too; the first of the latter is the folder of temporary files */
} gy_sandbox;

/** What this machine can do. */
typedef struct gy_sandbox_features {
    uint32_t parts;
    char reasons[GY_SANDBOX_PARTS][160]; /* of the i-th part: why not; or what it has, or "" */
} gy_sandbox_features;

/**
 * Read "none", "strict" (all parts), "available" (all this machine has; with names of parts:
 * those of them that it has), or names of parts with commas between; "read=PATH" and
 * "write=PATH" in the list add to the paths.
 *
 * @param sandbox zero; freed by gy_sandbox_fini, also after a failure
 * @return GY_OK; GY_ARG says what was expected; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_sandbox_parse(const char *text, gy_sandbox *sandbox);
/** Add a path, of which a relative one stands below the current folder, and links are followed;
 * one that is not there is left out. GY_NOMEM */
GY_MUST_CHECK gy_status gy_sandbox_add(gy_sandbox *sandbox, const char *path, bool is_writable);
void gy_sandbox_fini(gy_sandbox *sandbox);

/**
 * Look what this machine can do, by doing it in a process that ends at once.
 *
 * @threads any
 * @cost two forks and a set of namespaces: some milliseconds, in this process the first time
 */
void gy_sandbox_look(gy_sandbox_features *features);
/** A text for people: what is there, and what is not, why. One line a part. */
void gy_sandbox_say(const gy_sandbox_features *features, gy_text *out);

/**
 * What of it this machine will hold. *missing (may be NULL): one line of what it lacks, "" when
 * that is nothing.
 *
 * @return GY_OK; GY_STATE a part is not there, and is_available is not set: says which and why
 */
GY_MUST_CHECK gy_status gy_sandbox_settle(gy_sandbox *sandbox, gy_text *missing);

/* ---- in the process that is walled in ---- */

/** What stands in the process itself: parts to enter, their paths. */
typedef struct gy_sandbox_paths {
    uint32_t parts;
    const char *paths; /* (paths_bytes) as gy_sandbox.paths */
    size_t paths_bytes;
} gy_sandbox_paths;

/** Close all but the standard descriptors and these two: what the program that started this one
 * had open is not for those in a sandbox. GY_STATE */
GY_MUST_CHECK gy_status gy_sandbox_close_files(int one, int other);
/** Before the fork whose child enters: from here on this process's children are born in a
 * namespace of processes of their own, of which the first one's death ends all. GY_STATE */
GY_MUST_CHECK gy_status gy_sandbox_prepare(const gy_sandbox_paths *sandbox);
/**
 * In that child, which has one thread: enter all parts, for good.
 *
 * @return GY_OK; GY_STATE a part cannot be entered: which and why; the process must end then
 * @cost about a millisecond, most of it the network's
 */
GY_MUST_CHECK gy_status gy_sandbox_enter(const gy_sandbox_paths *sandbox);
/** Which parts this process is behind (entered by it, or by what it was forked from). */
uint32_t gy_sandbox_parts(void);
/**
 * The folder of this process' program, as it is called outside of the sandbox; "": not known.
 * Behind them the kernel does not name it where the root is no mount point.
 *
 * @threads any
 */
const char *gy_sandbox_program_folder(void);

#endif
