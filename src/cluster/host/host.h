/**
 * A daemon as a process: the machine of daemon.h on sockets, files and processes. It has a
 * folder of its own:
 *
 *     lock, identity           who it is, and that there is one
 *     jobs/JOB/record          the epoch that it obeys, synced
 *     jobs/JOB/program/        what the job's spec brought, linked to blobs
 *     jobs/JOB/data, fetched/  what its processes wrote; sections of other daemons
 *     jobs/JOB/log/            what processes and manager printed
 *     jobs/JOB/manager/        ticket and key of the manager that it runs
 *     blobs/                   content by its hash, verified
 *     trash/                   what is being removed
 */
#ifndef GY_CLUSTER_HOST_HOST_H
#define GY_CLUSTER_HOST_HOST_H

#include "control/net/hooks.h"

/** Zero, where it says so: the default. Borrowed while it runs. */
typedef struct gy_host_options {
    const char *names;     /* of name servers: "HOST:PORT,HOST:PORT" */
    const char *listen;    /* "HOST:PORT" */
    const char *folder;    /* made when it is not there */
    const char *key_file;  /* a ring that can be daemon and derives managers; NULL: plaintext */
    bool is_plaintext;     /* loopback alone */
    const char *host;      /* what it is called; NULL: as the system */
    const char *labels;    /* "gpu,fast"; NULL: none */
    uint32_t slots;        /* 0: the cores it may use */
    uint64_t memory_bytes; /* most of a process; 0: no limit */
    uint64_t reserve_bytes; /* of disk, below which it takes no work; 0: 1 GiB */
    uint64_t blob_bytes;    /* of content that no job uses and that is kept; 0: 4 GiB */
    int64_t keep_ns;        /* a job's files stay so long after its manager; 0: 10 s */
    int64_t fetch_ns;       /* another daemon is tried again for so long; 0: 2 s */
    /* Sandboxes around the processes of jobs, as gy_sandbox_parse reads them; NULL: rights,
     * processes and calls as far as this machine has them. Of files a job's own are permitted.
     */
    const char *sandbox;
    const gy_net_hooks *hooks;
    void (*ready)(void *arg, const char *address); /* it listens; NULL: nobody asks */
    void *arg;
} gy_host_options;

/**
 * Run until SIGINT or SIGTERM, or until it fails. All that it started has ended then.
 *
 * @return GY_OK told to end; GY_ARG; GY_STATE another daemon has the folder, a job runs in this
 * process, or this machine lacks sandbox features that were asked for; GY_EXISTS another
 * process listens there; the key file's failures; GY_IO; GY_LIMIT; GY_NOMEM
 * @threads one at a time; signals are taken
 * @cost idle: two words a second to each name server, a look at the disk
 */
GY_MUST_CHECK gy_status gy_host_run(gy_env *env, const gy_host_options *options);

#endif
