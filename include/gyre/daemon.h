/**
 * A daemon of a cluster: what `gyre daemon` runs on each host. It lends slots to jobs, runs
 * their processes and managers, and keeps the files that pass between their vertices.
 */
#ifndef GYRE_DAEMON_H
#define GYRE_DAEMON_H

#include <gyre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Zero: the default, where there is one. */
typedef struct gy_daemon_run_options {
    const char *nameservers; /* name servers: "HOST:PORT,HOST:PORT" */
    const char *listen;      /* "HOST:PORT"; port 0: one is chosen */
    const char *folder;      /* its own, on a disk of this host; made when it is not there */
    const char *key_file;   /* a key ring with the roles daemon and manager; NULL: the user's */
    bool is_plaintext;      /* no key, loopback addresses alone */
    const char *host;       /* what it is called; NULL: as the system */
    const char *labels;     /* "gpu,fast": jobs may ask for one */
    int slots;              /* processes at once; 0: one a core */
    uint64_t memory_bytes;  /* most of a process; 0: no limit */
    uint64_t reserve_bytes; /* of disk, below which it takes no work; 0: 1 GiB */
    uint64_t cache_bytes_max; /* of jobs' files that none needs just now; 0: 4 GiB */
    double retention_s; /* a job's files stay so long after its manager was heard; 0: 10 */
    /* Walls around the processes of jobs, a list as of gy_flow_options.sandbox; NULL: rights,
     * processes and calls as far as this host has them. With files, a job's own and what the
     * list permits by read=PATH and write=PATH are all that its processes reach. */
    const char *sandbox;
    /* It serves at this address from now on; NULL: nobody wants to know. */
    void (*on_listening)(void *arg, const char *address);
    void *arg;
} gy_daemon_run_options;

/**
 * Serve until SIGTERM, SIGINT or SIGHUP. Whatever it started has ended then; so it has when
 * this process is killed.
 *
 * @return GY_OK ended by a signal; GY_ARG an option, or an address that is not loopback without
 * a key; GY_STATE another daemon has the folder; GY_EXISTS another process listens there;
 * GY_NOTFOUND, GY_STATE, GY_FORMAT the key file; GY_FORMAT what the folder says; GY_IO;
 * GY_LIMIT; GY_NOMEM
 * @threads one at a time in a process, which starts no others; signals are taken
 */
GY_API GY_MUST_CHECK gy_status gy_daemon_run(const gy_daemon_run_options *setup);

#ifdef __cplusplus
}
#endif
#endif
