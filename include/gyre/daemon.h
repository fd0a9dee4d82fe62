/**
 * A daemon of a cluster: what `gyre daemon` runs on each host. It leases slots to jobs, runs
 * their processes and managers, and stores the files that pass between their vertices.
 */
#ifndef GYRE_DAEMON_H
#define GYRE_DAEMON_H

#include <gyre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Zero fields take the default, where there is one. */
typedef struct gy_daemon_run_options {
    size_t struct_size;       /* GY_OPTIONS; 0: as compiled */
    const char *nameservers;  /* "HOST:PORT,HOST:PORT" */
    const char *listen;       /* "HOST:PORT"; port 0: the system chooses one */
    const char *folder;       /* its own, on a disk of this host; created when missing */
    const char *key_file;     /* key ring of the roles daemon and manager; NULL: the user's */
    bool is_plaintext;        /* no key; loopback addresses alone */
    const char *host;         /* name of this host; NULL: the system's */
    const char *labels;       /* "gpu,fast": jobs may require one */
    int slots;                /* processes at once; 0: one a core */
    uint64_t memory_bytes;    /* maximum of a process; 0: no limit */
    uint64_t reserve_bytes;   /* below so much free disk it takes no work; 0: 1 GiB */
    uint64_t cache_bytes_max; /* files of jobs that no process uses; 0: 4 GiB */
    double retention_s;       /* a job's files stay so long after its manager's last heartbeat;
                                 0: 10 */
    /* Sandbox of the processes of jobs, a list as in gy_flow_options.sandbox; NULL: rights,
     * processes and calls as far as this host has them. With files, a job's processes reach its
     * own files and what the list permits by read=PATH and write=PATH, and nothing else. */
    const char *sandbox;
    /* Called once, when the daemon serves at this address; NULL: not called. */
    void (*on_listening)(void *arg, const char *address);
    void *arg;
} gy_daemon_run_options;

/**
 * Serve until SIGTERM, SIGINT or SIGHUP. When the call returns, every process that the daemon
 * started has ended; they also end when this process is killed.
 *
 * @return GY_OK ended by a signal; GY_ARG an option, or an address outside the loopback without
 * a key; GY_STATE another daemon uses the folder; GY_EXISTS another process listens there;
 * GY_NOTFOUND, GY_STATE, GY_FORMAT the key file; GY_FORMAT the folder's contents; GY_IO;
 * GY_LIMIT; GY_NOMEM
 * @threads one at a time in a process, which has no other threads; the call handles signals
 */
GY_API GY_MUST_CHECK gy_status gy_daemon_run(const gy_daemon_run_options *options);

#ifdef __cplusplus
}
#endif
#endif
