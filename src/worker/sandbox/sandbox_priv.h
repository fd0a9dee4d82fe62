/**
 * The parts of the sandbox, for the files of this folder. A failure sets the error text and
 * returns GY_STATE.
 */
#ifndef GY_WORKER_SANDBOX_SANDBOX_PRIV_H
#define GY_WORKER_SANDBOX_SANDBOX_PRIV_H

#include "worker/sandbox/sandbox.h"

/* ---- spaces.c: namespaces ---- */

/**
 * In the parent: its children are born in new PID namespaces, and unless it is root in new user
 * namespaces.
 */
GY_MUST_CHECK gy_status gy_sandbox_spaces_prepare(uint32_t parts);
/**
 * In the child: enter the other namespaces, with a /proc and (*has_shm) a /dev/shm of its own.
 */
GY_MUST_CHECK gy_status gy_sandbox_spaces_enter(const gy_sandbox_paths *sandbox, bool *has_shm);

/* ---- sockets.c ---- */

/**
 * In a mount namespace of our own: hide all sockets with a path outside the job's writable
 * folders. @cost 20 us each
 */
GY_MUST_CHECK gy_status gy_sandbox_sockets_cover(const gy_sandbox_paths *sandbox);

/* ---- rights.c ---- */

/** Set no_new_privs, which seccomp and Landlock require. */
GY_MUST_CHECK gy_status gy_sandbox_rights_hold(void);
/** Drop capabilities and lower resource limits. The last step that needs any privilege. */
GY_MUST_CHECK gy_status gy_sandbox_rights_drop(void);

/* ---- files.c: Landlock ---- */

/** The version of its interface; 0: it is missing, *error says why. */
int gy_sandbox_files_version(int *error);
GY_MUST_CHECK gy_status gy_sandbox_files_enter(const gy_sandbox_paths *sandbox,
                                               const char *program, bool has_shm);

/* ---- calls.c: seccomp ---- */

/** 0, or the errno that says why seccomp is missing. */
int gy_sandbox_calls_probe(void);
GY_MUST_CHECK gy_status gy_sandbox_calls_enter(void);

#endif
