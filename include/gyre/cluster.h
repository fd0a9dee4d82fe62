/**
 * A cluster of many hosts: its name server (the cluster's resource manager), and the requests
 * of a user. Daemons run the processes of jobs; the name server leases their slots to jobs and
 * starts a new manager for each job whose manager was lost.
 */
#ifndef GYRE_CLUSTER_H
#define GYRE_CLUSTER_H

#include <gyre/base.h>
#include <gyre/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The name server ---- */

/** Zero fields take the default, where there is one; it stands behind the comment. */
typedef struct gy_nameserver_options {
    size_t struct_size;   /* GY_OPTIONS; 0: as compiled */
    const char *listen;   /* "HOST:PORT"; port 0: the system chooses one */
    const char *key_file; /* key ring; NULL: only with is_plaintext */
    bool is_plaintext;    /* no key; loopback addresses alone */
    /* Where the table of jobs and daemons is stored: "sqlite:PATH", or
     * "etcd:https://HOST:PORT,…/PREFIX". Name servers that share a table elect a leader; the
     * others wait. */
    const char *table;
    const char *table_user, *table_password_file, *table_authorities;
    const char *table_certificate, *table_certificate_key;
    bool table_is_plaintext; /* HTTP beyond the loopback too; never with a user */
    double table_lease_s;    /* a leader steps down when it could not renew for so long; 5 */
    /* Folder for the files of jobs; NULL: beside the table of SQLite. When all name servers of
     * a table share it, every job survives a change of leader; else only new jobs do. */
    const char *files;
    uint64_t files_limit_bytes;     /* 10 GiB */
    double heartbeat_timeout_s;     /* a daemon or manager without heartbeats is lost; 2 */
    double lease_s;                 /* of slots, at the daemon; 10 */
    double preempt_after_s;         /* a request waits so long before slots are preempted; 1 */
    double preemption_grace_s;      /* from the request to release a slot to its loss; 10 */
    double gang_hold_s;             /* a gang keeps its slots so long before preemption; 60 */
    double manager_start_timeout_s; /* for the first heartbeat of a started manager; 10 */
    int attempts_max;               /* managers of a job in a row that end early; 5 */
    int daemons_max, jobs_max;      /* 4096 each */
    int managers_max;               /* at a daemon; other jobs wait; 64 */
    int finished_jobs_max;          /* finished jobs that the table lists; 1000 */
    /* Serve a status page over HTTP at "HOST:PORT", without a HOST on the loopback, as leader
     * or not; NULL: none. */
    const char *page;
    /* File for the page's token, new at each start, mode 0600; NULL: beside the table of
     * SQLite, its name with ".token" behind. */
    const char *page_token_file;
    /* Called once with the page's address and the file of its token: a browser opens
     * URL?token=TOKEN. NULL: not called. */
    void (*on_page_ready)(void *arg, const char *url, const char *token_file);
    /* Called once, when the name server serves at this address; NULL: not called. */
    void (*on_listening)(void *arg, const char *address);
    void *arg;
} gy_nameserver_options;

/**
 * Serve until SIGTERM, SIGINT or SIGHUP. Raises the soft limit of open files to the hard limit.
 *
 * @return GY_OK ended by a signal; GY_ARG an option, or an address outside the loopback without
 * a key; GY_EXISTS another process listens there; GY_FORMAT the table, or a foreign file in the
 * folder of files; GY_NOTFOUND, GY_STATE the key file; GY_UNSUPPORTED, also a page without
 * libmicrohttpd; GY_IO; GY_NOMEM
 * @threads one at a time in a process
 */
GY_API GY_MUST_CHECK gy_status gy_nameserver_run(const gy_nameserver_options *options);

/* ---- The requests of a user ---- */

typedef struct gy_cluster gy_cluster;

typedef struct gy_cluster_options {
    size_t struct_size;      /* GY_OPTIONS; 0: as compiled */
    const char *nameservers; /* "HOST:PORT,HOST:PORT"; the elected leader answers */
    const char *key_file; /* key ring of the role submitter, or of watcher, which may only list;
                           * NULL: only with is_plaintext */
    bool is_operator;     /* take the role operator instead: list and drain */
    bool is_plaintext;    /* no key; loopback addresses alone */
    double connect_timeout_s; /* to find a name server that answers; 0: 10 */
    const char *prewarm; /* a program that will be submitted: its libraries are found while the
                            connection comes up; NULL: when it is submitted */
} gy_cluster_options;

/**
 * Make a client of a cluster. The first request connects.
 * @param cluster caller owns; free with gy_cluster_close
 * @return GY_OK; GY_ARG; GY_NOTFOUND, GY_STATE, GY_FORMAT the key file; GY_LIMIT; GY_NOMEM
 * @threads all calls of one client on one thread at a time
 */
GY_API GY_MUST_CHECK gy_status gy_cluster_open(const gy_cluster_options *options,
                                               gy_cluster **cluster);
/**
 * Check a list HOST:PORT,HOST:PORT. Sends nothing.
 *
 * @param port_min      1, or 0 where the system may choose
 * @param addresses_max how many addresses the list may have
 * @return GY_OK; GY_ARG
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_cluster_check_addresses(const char *addresses, int port_min,
                                                          int addresses_max);
/** NULL is fine. */
GY_API void gy_cluster_close(gy_cluster *cluster);

enum { GY_CLUSTER_ID_BYTES = 33, GY_CLUSTER_REASON_BYTES = 256 };

/** A program that runs jobs (gy_flow_run), for a cluster to run. */
typedef struct gy_cluster_program {
    const char *const *arguments; /* NULL at the end; the first is found as a shell finds it */
    int program_at; /* above 0: that argument is a program too; it is found and shipped with its
                       libraries like the first, and lies beside it */
    const char *const *files; /* beside the program wherever it runs; NULL: none */
    /* "NAME" with its value here, or "NAME=VALUE", beside the variables of every job; NULL:
     * none */
    const char *const *variables;
    const char *name;  /* for people; NULL: the program's */
    const char *label; /* daemons must have it; NULL: any */
    int weight;        /* of the job's share, 1 to 1000; 0: 100 */
    int slots_max;     /* at once; 0: no limit */
} gy_cluster_program;

/**
 * Ship a program (its file, its libraries that are not the system's, its files) and submit it.
 * When the call returns GY_OK, the job is stored and runs even if this host is lost.
 *
 * @param id becomes the job's id
 * @return GY_OK; GY_ARG; GY_NOTFOUND no such program, file or library; GY_LIMIT the name
 * server's files or table are full; GY_PEER no name server answers; GY_STATE the role may not
 * submit; GY_IO; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_cluster_submit(gy_cluster *cluster,
                                                 const gy_cluster_program *program,
                                                 char id[GY_CLUSTER_ID_BYTES]);

/** A job in the name server's table; texts are borrowed for the visit. */
typedef struct gy_cluster_job {
    char id[GY_CLUSTER_ID_BYTES];
    const char *name, *manager; /* the manager's address; "": none is known */
    const char *reason;         /* why the job ended, or what it waits for */
    const char *progress;       /* the manager's latest report, one line */
    uint32_t epoch;             /* of its manager: 1 for the first, one more for each next */
    uint32_t weight, slots_requested, slots_leased, attempts;
    bool is_finished, is_up; /* is_up: its manager's heartbeats arrive */
    gy_status status;        /* of its end */
} gy_cluster_job;

/** A daemon in the name server's table; texts are borrowed for the visit. */
typedef struct gy_cluster_daemon {
    char id[17];
    const char *address, *host, *labels;
    const char *unavailable_reason; /* why it accepts no new work; "": it accepts some */
    uint32_t slots, slots_leased, managers;
    bool is_up, is_drained; /* is_up: its heartbeats arrive */
    double heartbeat_age_s;
} gy_cluster_daemon;

typedef struct gy_cluster_visit {
    /* Each takes one row; NULL: these rows are skipped. A status other than GY_OK ends the list
     * and is returned. A visit makes no requests of its own. */
    gy_status (*job)(void *arg, const gy_cluster_job *job);
    gy_status (*daemon)(void *arg, const gy_cluster_daemon *daemon);
    void *arg;
} gy_cluster_visit;

/** Visit all jobs and daemons that the name server knows. GY_PEER; GY_STATE; GY_NOMEM; what a
 * visit returns */
GY_API GY_MUST_CHECK gy_status gy_cluster_list(gy_cluster *cluster,
                                               const gy_cluster_visit *visit);

/** Takes a job's report, borrowed for the visit; what it returns is returned. It makes no
 * requests of its own. */
typedef gy_status (*gy_cluster_report_visit)(void *arg, const gy_job_report *report);

/**
 * Read the latest report of a job's manager: it sends one at most once a second, and one at the
 * job's end. Of a program that runs several jobs, it is the last job's. A name server keeps
 * reports in memory, so that a new leader knows the ones that arrive after its election. The
 * report has up to 128 stages, 32 counters, the last 32 notes, and the stragglers of the
 * attempts that run, the slowest first; epoch 0: the name server has none.
 *
 * @return GY_OK; GY_NOTFOUND; GY_ARG not a whole id; GY_PEER; GY_NOMEM; what `visit` returned
 */
GY_API GY_MUST_CHECK gy_status gy_cluster_read_report(gy_cluster *cluster, const char *id,
                                                      gy_cluster_report_visit visit, void *arg);

/** Find the job whose id begins with `prefix`. GY_NOTFOUND none; GY_ARG several; else as
 * gy_cluster_list */
GY_API GY_MUST_CHECK gy_status gy_cluster_find_job(gy_cluster *cluster, const char *prefix,
                                                   char id[GY_CLUSTER_ID_BYTES]);

/** Ask a job's manager to end it. The request is stored, so a later manager obeys it too.
 * GY_NOTFOUND; GY_ARG not a whole id; GY_PEER; GY_STATE, also a finished job */
GY_API GY_MUST_CHECK gy_status gy_cluster_kill(gy_cluster *cluster, const char *id);

/**
 * Resume a job that failed or was killed. Its next manager continues from the job's journal;
 * outputs that daemons still store (`gyre daemon --orphan-retention`) are not computed again.
 * The call returns when the request is stored; gy_cluster_follow waits for the job's end.
 *
 * @param epoch  becomes that of the next manager, for gy_cluster_follow_from
 * @return GY_OK; GY_NOTFOUND; GY_ARG not a whole id; GY_STATE it runs, or ended well, or its
 * program's files were discarded; GY_LIMIT too many jobs are open; GY_PEER. When the journal is
 * missing, the next manager finds that out, and the job ends with that reason.
 */
GY_API GY_MUST_CHECK gy_status gy_cluster_resume(gy_cluster *cluster, const char *id,
                                                 uint32_t *epoch);

/**
 * Discard what is stored of a job that failed or was killed: its journal, the final outputs
 * that were done, and files at daemons. One more manager of the job does that, on a host of the
 * cluster, with the rights and settings of the others; it runs no vertices. The job can then
 * not be resumed. Repeating the call does no harm.
 *
 * @param timeout_s waits so long for it; 0: as long as a name server answers
 * @return GY_OK nothing is stored; GY_TIMEOUT not yet, the manager goes on; GY_STATE the job
 * runs, or ended well, or a file could not be removed; GY_NOTFOUND; GY_ARG not a whole id;
 * GY_LIMIT; GY_PEER
 */
GY_API GY_MUST_CHECK gy_status gy_cluster_forget(gy_cluster *cluster, const char *id,
                                                 double timeout_s);

/**
 * Wait for a job's end, over changes of the leading name server.
 *
 * @param timeout_s 0: for ever, as long as a name server answers
 * @param status of the job's end
 * @param reason of the job's end, "" when it ended well
 * @return GY_OK it ended, well or not; GY_TIMEOUT it runs, or a name server that answered
 * before no longer does; GY_NOTFOUND; GY_ARG; GY_PEER none answered within the connect timeout
 */
GY_API GY_MUST_CHECK gy_status gy_cluster_wait(gy_cluster *cluster, const char *id,
                                               double timeout_s, gy_status *status,
                                               char reason[GY_CLUSTER_REASON_BYTES]);

/** How a job ended, and how much of its output gy_cluster_follow has delivered. */
typedef struct gy_cluster_result {
    gy_status status;
    int code; /* exit status of its program; -1: not known, or a signal ended it */
    char reason[GY_CLUSTER_REASON_BYTES]; /* "" when it ended well */
    uint32_t epoch;                       /* the manager whose output was delivered last, */
    uint64_t offset;                      /* and how many bytes of it */
} gy_cluster_result;

/**
 * Takes the next bytes that a job's program printed; they are borrowed and may be any bytes.
 *
 * @param epoch of the manager that printed them
 * @param lost  bytes before them that the name server no longer has
 */
typedef void (*gy_cluster_output_handler)(void *arg, uint32_t epoch, uint64_t lost,
                                          const char *text, size_t size_bytes);

/**
 * Wait as gy_cluster_wait does, and deliver what the job's program prints (standard output and
 * standard error, as they come) from its beginning on. The output of each further manager is
 * delivered from that manager's own beginning on. The name server keeps the last 256 KiB of a
 * job that runs, and 8 KiB of a finished one.
 *
 * @param on_output NULL: only wait
 * @return as gy_cluster_wait
 */
GY_API GY_MUST_CHECK gy_status gy_cluster_follow(gy_cluster *cluster, const char *id,
                                                 double timeout_s,
                                                 gy_cluster_output_handler on_output, void *arg,
                                                 gy_cluster_result *result);
/** gy_cluster_follow for a caller that has other work meanwhile: continues from result->epoch
 * and result->offset, both zero at first. A call that returns GY_TIMEOUT advances them too. */
GY_API GY_MUST_CHECK gy_status gy_cluster_follow_from(gy_cluster *cluster, const char *id,
                                                      double timeout_s,
                                                      gy_cluster_output_handler on_output,
                                                      void *arg, gy_cluster_result *result);

/** Deliver the end of the job's output now, in one call of `on_output` at most. GY_NOTFOUND;
 * GY_ARG; GY_PEER */
GY_API GY_MUST_CHECK gy_status gy_cluster_log_tail(gy_cluster *cluster, const char *id,
                                                   gy_cluster_output_handler on_output,
                                                   void *arg);

/** Let a daemon accept no new work (is_on), or accept it again. `id` is a prefix of the
 * daemon's id, or its host's name. Only an operator may (is_operator). GY_NOTFOUND; GY_ARG
 * several match; GY_PEER; GY_STATE */
GY_API GY_MUST_CHECK gy_status gy_cluster_drain(gy_cluster *cluster, const char *id,
                                                bool is_on);

#ifdef __cplusplus
}
#endif
#endif
