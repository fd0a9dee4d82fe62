/**
 * The parts of the sandbox, for the files of this folder. What fails leaves a text behind and
 * returns GY_STATE.
 */
#ifndef GY_WORKER_SANDBOX_SANDBOX_PRIV_H
#define GY_WORKER_SANDBOX_SANDBOX_PRIV_H

#include "worker/sandbox/sandbox.h"

/* ---- spaces.c: namespaces ---- */

/** In the parent: its children are born in new namespaces of processes and, when it is not
 * root, of users. */
GY_MUST_CHECK gy_status gy_sandbox_spaces_prepare(uint32_t parts);
/** In the child: the others, with a /proc and (*has_shm) a /dev/shm of their own. */
GY_MUST_CHECK gy_status gy_sandbox_spaces_enter(const gy_sandbox_paths *sandbox, bool *has_shm);

/* ---- sockets.c ---- */

/** Where mounts are seen nowhere else: cover all sockets with a path outside what the job
 * writes. @cost 20 us each */
GY_MUST_CHECK gy_status gy_sandbox_sockets_cover(const gy_sandbox_paths *sandbox);

/* ---- rights.c ---- */

/** No new privileges: what seccomp and Landlock ask for first. */
GY_MUST_CHECK gy_status gy_sandbox_rights_hold(void);
/** Without capabilities; limits of resources. Last of what needs any. */
GY_MUST_CHECK gy_status gy_sandbox_rights_drop(void);

/* ---- files.c: Landlock ---- */

/** The version of its interface, 0: there is none, *error says why. */
int gy_sandbox_files_version(int *error);
GY_MUST_CHECK gy_status gy_sandbox_files_enter(const gy_sandbox_paths *sandbox,
                                               const char *program, bool has_shm);

/* ---- calls.c: seccomp ---- */

/** 0, or errno: why not */
int gy_sandbox_calls_look(void);
GY_MUST_CHECK gy_status gy_sandbox_calls_enter(void);

#endif
