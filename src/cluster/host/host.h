/**
 * A daemon as a process: the machine of daemon.h on sockets, files and processes. Its folder
 * contains:
 *
 *     lock, identity           held by the only daemon; its identity
 *     jobs/JOB/record          the epoch that it obeys, synced
 *     jobs/JOB/program/        files of the job's specification, links to blobs
 *     jobs/JOB/data, fetched/  outputs of its processes; sections of other daemons
 *     jobs/JOB/log/            output of processes and manager
 *     jobs/JOB/manager/        ticket and key of the manager that runs here
 *     blobs/                   content by its hash, verified
 *     trash/                   files being removed
 */
#ifndef GY_CLUSTER_HOST_HOST_H
#define GY_CLUSTER_HOST_HOST_H

#include "control/net/hooks.h"

/** A zero value selects the default where one is given. Borrowed while it runs. */
typedef struct gy_host_options {
    const char *names;      /* of name servers: "HOST:PORT,HOST:PORT" */
    const char *listen;     /* "HOST:PORT" */
    const char *folder;     /* created if it does not exist */
    const char *key_file;   /* a ring with the daemon's key, from which those of managers are
                               derived; NULL: plaintext */
    bool is_plaintext;      /* only on the loopback */
    const char *host;       /* display name; NULL: the system's host name */
    const char *labels;     /* "gpu,fast"; NULL: none */
    uint32_t slots;         /* 0: the cores it may use */
    uint64_t memory_bytes;  /* maximum of a process; 0: no limit */
    uint64_t reserve_bytes; /* free disk space below which it accepts no work; 0: 1 GiB */
    uint64_t blob_bytes;    /* of unused content to retain; 0: 4 GiB */
    int64_t keep_ns;  /* a job's files are retained for so long after its manager; 0: 10 s */
    int64_t fetch_ns; /* a fetch from another daemon is retried for so long; 0: 2 s */
    /* The sandbox of jobs' processes, as gy_sandbox_parse reads it; NULL: rights, processes and
     * calls as far as this machine supports them. A job's own files are always permitted. */
    const char *sandbox;
    const gy_net_hooks *hooks;
    void (*ready)(void *arg, const char *address); /* called when it listens; may be NULL */
    void *arg;
} gy_host_options;

/**
 * Run until SIGINT or SIGTERM, or until it fails. All processes that it started have ended when
 * it returns.
 *
 * @return GY_OK ended by a signal; GY_ARG; GY_STATE another daemon has the folder, a job runs
 * in this process, or this machine lacks requested sandbox features; GY_EXISTS another process
 * listens there; the key file's failures; GY_IO; GY_LIMIT; GY_NOMEM
 * @threads one at a time; signals are taken
 * @cost idle: two messages a second to each name server, a check of the disk
 */
GY_MUST_CHECK gy_status gy_host_run(gy_env *env, const gy_host_options *options);

#endif
