/**
 * A cluster of many hosts: its name server, and what a user asks of it. Daemons run what jobs
 * are made of; the name server lends their slots to jobs and sees that each job has a manager.
 */
#ifndef GYRE_CLUSTER_H
#define GYRE_CLUSTER_H

#include <gyre/base.h>
#include <gyre/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The name server ---- */

/** Zero: the default, where there is one. */
typedef struct gy_nameserver_options {
    const char *listen;   /* "HOST:PORT"; port 0: one is chosen */
    const char *key_file; /* a key ring; NULL: only with is_plaintext */
    bool is_plaintext;    /* no key, loopback addresses alone */
    /* Where its records stand: "sqlite:PATH", or "etcd:https://HOST:PORT,…/PREFIX". Several
     * name servers of one table elect one of them; the others wait. */
    const char *table;
    const char *table_user, *table_password_file, *table_authorities;
    const char *table_certificate, *table_certificate_key;
    bool table_is_plaintext; /* http beyond the loopback too; never with a user */
    double table_lease_s;    /* who is elected and not heard so long is it no more; 5 */
    /* The files of jobs: a folder; NULL: beside the table of SQLite. On storage that all name
     * servers of a table share, else only new jobs outlive the one that has them. */
    const char *files;
    uint64_t files_limit_bytes; /* 10 GiB */
    double heartbeat_timeout_s; /* daemon or manager silent for so long: lost; 2 */
    double lease_s;             /* of slots, at the daemon; 10 */
    double preempt_after_s;    /* slots are wanted so long before others are asked to give; 1 */
    double preemption_grace_s; /* from being asked to losing a slot; 10 */
    double gang_hold_s;        /* a gang is not asked before it had its slots so long; 60 */
    double manager_start_timeout_s; /* a manager that was started is heard within; 10 */
    int attempts_max;               /* managers of a job in a row that end early; 5 */
    int daemons_max, jobs_max;      /* 4096 each */
    int managers_max;               /* at a daemon, other jobs wait; 64 */
    int finished_jobs_max;          /* jobs that ended and are still listed; 1000 */
    /* Serve a status page over HTTP at "HOST:PORT", without a HOST on the loopback, whether
     * elected or not; NULL: none. */
    const char *page;
    /* Gets the page's token, new at each start, mode 0600; NULL: beside the table of SQLite,
     * with ".token" behind its name. */
    const char *page_token_file;
    /* Gets the page's address and the file in which its token lies, once: a browser opens
     * URL?token=TOKEN. NULL: nobody wants to know. */
    void (*on_page_ready)(void *arg, const char *url, const char *token_file);
    /* It serves at this address from now on; NULL: nobody wants to know. */
    void (*on_listening)(void *arg, const char *address);
    void *arg;
} gy_nameserver_options;

/**
 * Serve until SIGTERM, SIGINT or SIGHUP. Raises the limit of open files to what it may be.
 *
 * @return GY_OK ended by a signal; GY_ARG an option, or an address that is not loopback without
 * a key; GY_EXISTS another process listens there; GY_FORMAT the table, or a file in the folder
 * of files that is none; GY_NOTFOUND, GY_STATE the key file; GY_UNSUPPORTED, also a page
 * without libmicrohttpd; GY_IO; GY_NOMEM
 * @threads one at a time in a process
 */
GY_API GY_MUST_CHECK gy_status gy_nameserver_run(const gy_nameserver_options *options);

/* ---- What a user asks ---- */

typedef struct gy_cluster gy_cluster;

typedef struct gy_cluster_options {
    const char
        *nameservers; /* name servers: "HOST:PORT,HOST:PORT"; the one that is elected answers */
    const char *key_file; /* a key ring for the role submitter, or watcher: he may list alone;
                           * NULL: only with is_plaintext */
    bool is_operator;     /* of the role operator instead: lists and drains */
    bool is_plaintext;    /* no key, loopback addresses alone */
    double connect_timeout_s; /* a name server is looked for so long; 10 */
    const char *prewarm; /* a program that will be submitted: what it needs is looked for at
                          once, while connections come up; NULL: when it is submitted */
} gy_cluster_options;

/**
 * Become one who asks. Nobody is called yet.
 * @param cluster caller owns; free with gy_cluster_close
 * @return GY_OK; GY_ARG; GY_NOTFOUND, GY_STATE, GY_FORMAT the key file; GY_LIMIT; GY_NOMEM
 * @threads all calls of one on one thread at a time
 */
GY_API GY_MUST_CHECK gy_status gy_cluster_open(const gy_cluster_options *options,
                                               gy_cluster **cluster);
/**
 * Are these HOST:PORT,HOST:PORT? Nobody is asked.
 *
 * @param port_min 1, or 0 where one is chosen
 * @param most       so many may be
 * @return GY_OK; GY_ARG
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_cluster_check_addresses(const char *addresses, int port_min,
                                                          int most);
/** NULL is fine. */
GY_API void gy_cluster_close(gy_cluster *cluster);

enum { GY_CLUSTER_ID_BYTES = 33, GY_CLUSTER_REASON_BYTES = 256 };

/** A program that runs jobs (gy_flow_run), to be run by a cluster. */
typedef struct gy_cluster_program {
    const char *const *arguments; /* NULL at the end; the first is found as a shell does */
    int program_at; /* above 0: that argument is a program too, which is found and brought with
                       its libraries as the first one is, and lies beside that */
    const char *const *files; /* beside the program wherever it runs; NULL: none */
    /* "NAME" as it is here, or "NAME=VALUE", beside those of every job; NULL: none */
    const char *const *variables;
    const char *name;  /* for people; NULL: the program's */
    const char *label; /* daemons must have it; NULL: any */
    int weight;        /* of its share, 1 to 1000; 0: 100 */
    int slots_max;     /* at once; 0: no limit */
} gy_cluster_program;

/**
 * Bring what the program is made of (itself, its libraries that are not the system's, files)
 * and submit it: it is accepted, and will run though this host goes away.
 *
 * @param id gets the job's
 * @return GY_OK; GY_ARG; GY_NOTFOUND no such program, file or library; GY_LIMIT no room there;
 * GY_PEER no name server answers; GY_STATE this role may not; GY_IO; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_cluster_submit(gy_cluster *cluster,
                                                 const gy_cluster_program *program,
                                                 char id[GY_CLUSTER_ID_BYTES]);

/** Texts belong to the visit. */
typedef struct gy_cluster_job {
    char id[GY_CLUSTER_ID_BYTES];
    const char *name, *manager; /* where it is; "": none is known */
    const char *reason;         /* of its end, or what it waits for */
    const char *progress;       /* as its manager told last */
    uint32_t epoch, weight, slots_requested, slots_leased, attempts;
    bool is_finished, is_up; /* is_up: its manager is heard */
    gy_status status;        /* of its end */
} gy_cluster_job;

typedef struct gy_cluster_daemon {
    char id[17];
    const char *address, *host, *labels;
    const char *unavailable_reason; /* why it takes no new work; "": it does */
    uint32_t slots, slots_leased, managers;
    bool is_up, is_drained;
    double heartbeat_age_s;
} gy_cluster_daemon;

typedef struct gy_cluster_visit {
    /* Not GY_OK ends the list and is returned; NULL: not wanted. They may ask nothing. */
    gy_status (*job)(void *arg, const gy_cluster_job *job);
    gy_status (*daemon)(void *arg, const gy_cluster_daemon *daemon);
    void *arg;
} gy_cluster_visit;

/** All that the name server knows. GY_PEER; GY_STATE; GY_NOMEM; what a visit returns */
GY_API GY_MUST_CHECK gy_status gy_cluster_list(gy_cluster *cluster,
                                               const gy_cluster_visit *visit);

/** A run that takes long. */
typedef struct gy_cluster_straggler {
    const char *stage, *host;
    uint32_t task;
    double run_s, expected_s; /* expected_s 0: not known */
} gy_cluster_straggler;

/** What a job is at, or was at when it ended, as its manager told last: at most once a second,
 * and at the end. Of a program that runs several jobs, of the last one. */
typedef struct gy_cluster_report {
    uint32_t epoch;                         /* of that manager; 0: nothing is known */
    const gy_job_stage *stages;             /* 128 at most */
    const gy_job_counter *counters;         /* 32 at most */
    const gy_job_note *notes;               /* the last 32, in order */
    const gy_cluster_straggler *stragglers; /* of those that run, the slowest first */
    size_t stage_count, counter_count, note_count, straggler_count;
} gy_cluster_report;

typedef gy_status (*gy_cluster_report_visit)(void *arg, const gy_cluster_report *report);

/**
 * Look at what is told of a job. A name server keeps it in memory for its last jobs, so one
 * that is elected later knows what is told from then on.
 *
 * @param visit gets it once, borrowed, and may ask nothing; what it returns is returned
 * @return GY_OK; GY_NOTFOUND; GY_ARG no whole id; GY_PEER; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_cluster_read_report(gy_cluster *cluster, const char *id,
                                                      gy_cluster_report_visit visit, void *arg);

/** The job whose id begins so. GY_NOTFOUND none's does; GY_ARG several do; else as list */
GY_API GY_MUST_CHECK gy_status gy_cluster_find_job(gy_cluster *cluster, const char *beginning,
                                                   char id[GY_CLUSTER_ID_BYTES]);

/** Ask its manager to end it; it is stored that it shall, so it will. GY_NOTFOUND; GY_ARG no
 * whole id; GY_PEER; GY_STATE, also one that has ended */
GY_API GY_MUST_CHECK gy_status gy_cluster_kill(gy_cluster *cluster, const char *id);

/**
 * Have a job go on that has ended, but not well: it failed, or was killed. Its next manager
 * begins where its journal ends; what its daemons still keep (`gyre daemon --orphan-retention`)
 * is not made again. It is stored that it shall, then this returns; gy_cluster_follow waits for
 * its end.
 *
 * @param epoch  gets that of the manager that goes on, for gy_cluster_follow_from
 * @return GY_OK; GY_NOTFOUND; GY_ARG no whole id; GY_STATE it has not ended, or ended well, or
 * what it is made of is not kept any more; GY_LIMIT too many jobs are open; GY_PEER. That its
 * journal is gone finds its manager, which ends the job with that reason.
 */
GY_API GY_MUST_CHECK gy_status gy_cluster_resume(gy_cluster *cluster, const char *id,
                                                 uint32_t *epoch);

/**
 * Have what is kept of a job that has ended, but not well, removed: its journal, the final
 * outputs that were done, files at daemons. One more manager of it does that, on a host of the
 * cluster, with the rights and settings of the others; it runs nothing. Then nothing is left to
 * resume. Again is the same.
 *
 * @param seconds waits so long for it; 0: as long as a name server answers
 * @return GY_OK nothing is kept; GY_TIMEOUT not yet, it goes on; GY_STATE it has not ended, or
 * ended well, or it could not be removed; GY_NOTFOUND; GY_ARG no whole id; GY_LIMIT; GY_PEER
 */
GY_API GY_MUST_CHECK gy_status gy_cluster_forget(gy_cluster *cluster, const char *id,
                                                 double seconds);

/**
 * Wait for a job's end, over changes of name servers.
 *
 * @param seconds 0: for ever, as long as a name server answers
 * @param status of its end; `reason` in words, "" when it ended well
 * @return GY_OK it has ended, however; GY_TIMEOUT not yet, or not heard of a name server that
 * was there; GY_NOTFOUND; GY_ARG; GY_PEER none answers for the whole patience
 */
GY_API GY_MUST_CHECK gy_status gy_cluster_wait(gy_cluster *cluster, const char *id,
                                               double seconds, gy_status *status,
                                               char reason[GY_CLUSTER_REASON_BYTES]);

/** What gy_cluster_follow learns of a job's end. */
typedef struct gy_cluster_result {
    gy_status status;
    int code; /* exit status of its program; -1: not known, or it did not end by itself */
    char reason[GY_CLUSTER_REASON_BYTES]; /* "" when it ended well */
    uint32_t epoch;                       /* what was heard last: of this manager, */
    uint64_t offset;                      /* so many bytes */
} gy_cluster_result;

/**
 * gy_cluster_wait, with what the job's program prints (standard output and standard error, as
 * they come) from its beginning on. A manager that follows another prints from its own
 * beginning on. 256 KiB are kept at the name server, and of a job that has ended 8 KiB.
 *
 * @param said  gets pieces in order; `lost` bytes before them are not known any more, and
 * `epoch` is the manager that printed them; text is borrowed, with any bytes; NULL: as
 * gy_cluster_wait
 * @return as gy_cluster_wait
 */
typedef void (*gy_cluster_output_handler)(void *arg, uint32_t epoch, uint64_t lost,
                                          const char *text, size_t size_bytes);
GY_API GY_MUST_CHECK gy_status gy_cluster_follow(gy_cluster *cluster, const char *id,
                                                 double seconds, gy_cluster_output_handler said,
                                                 void *arg, gy_cluster_result *end);
/** gy_cluster_follow for one who does other things meanwhile: goes on from end->epoch and
 * end->offset, zero at first, which also a call that ends with GY_TIMEOUT moves. */
GY_API GY_MUST_CHECK gy_status gy_cluster_follow_from(gy_cluster *cluster, const char *id,
                                                      double seconds,
                                                      gy_cluster_output_handler said, void *arg,
                                                      gy_cluster_result *end);

/** The last of what it printed, now: `said` is called at most once. GY_NOTFOUND; GY_ARG;
 * GY_PEER */
GY_API GY_MUST_CHECK gy_status gy_cluster_log_tail(gy_cluster *cluster, const char *id,
                                                   gy_cluster_output_handler said, void *arg);

/** A daemon gets no new work, or gets some again. `id` may be the beginning of its id, or its
 * host. For an operator (is_operator). GY_NOTFOUND; GY_ARG several; GY_PEER; GY_STATE */
GY_API GY_MUST_CHECK gy_status gy_cluster_drain(gy_cluster *cluster, const char *id,
                                                bool is_on);

#ifdef __cplusplus
}
#endif
#endif
