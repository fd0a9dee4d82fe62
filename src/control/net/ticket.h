/**
 * A file that a daemon leaves for the manager that it starts, mode 0600; the environment
 * variable GYRE_TICKET names it. Lines "NAME VALUE".
 */
#ifndef GY_CONTROL_NET_TICKET_H
#define GY_CONTROL_NET_TICKET_H

#include "base/key.h"

#define GY_TICKET_VARIABLE "GYRE_TICKET"

typedef struct gy_ticket {
    gy_key job;
    uint32_t epoch;      /* of this manager */
    uint32_t slots;      /* the maximum that one host can lease to the job; 0: not known */
    bool is_resumed;     /* the job had ended and its user resumes it, */
    bool is_forgotten;   /* or has its retained data removed */
    uint32_t round;      /* which job of the program: 1, 2, ...; 0: none has begun */
    char names[1024];    /* name servers: "HOST:PORT,HOST:PORT" */
    char key_file[4096]; /* a key ring for only this manager and job; "": plaintext on the
                            loopback */
    char program[4096];  /* that daemons start for vertices; "": not known */
    char daemon[64];     /* "HOST:PORT" of the daemon that starts it; "": not known */
    char folder[4096];   /* at the daemon that starts it, for the manager's files */
} gy_ticket;

/** Replaces an existing ticket. GY_IO */
GY_MUST_CHECK gy_status gy_ticket_write(const char *path, const gy_ticket *ticket);
/**
 * Read the ticket named by GYRE_TICKET. GY_NOTFOUND the variable is not set; GY_STATE mode or
 * owner; GY_FORMAT; GY_IO
 */
GY_MUST_CHECK gy_status gy_ticket_read(gy_ticket *ticket);

/**
 * Begin the program's next job: ticket->round, the same in each run of a program that runs its
 * jobs in the same order. A file in the ticket's folder counts over all processes of the
 * program.
 *
 * @param lock  the caller closes it when the job has ended
 * @return GY_OK; GY_STATE another process of the program runs a job; GY_LIMIT it has had
 * GY_TICKET_ROUNDS jobs; GY_FORMAT; GY_IO
 */
enum { GY_TICKET_ROUNDS = 1000 };
GY_MUST_CHECK gy_status gy_ticket_begin(gy_ticket *ticket, int *lock);
/* ---- the prewarm hint, from a manager to the daemon that started it ---- */

/** The processes that a manager will request on its own host; both may be 0 (the default). */
typedef struct gy_ticket_request {
    uint32_t threads;
    uint64_t memory_bytes;
} gy_ticket_request;

/** Open a descriptor in a ticket's folder that becomes readable with the hint. GY_IO */
GY_MUST_CHECK gy_status gy_ticket_listen(const char *folder, int *file);
/** Read the hint. GY_AGAIN none has come; GY_FORMAT, GY_IO: none will come */
GY_MUST_CHECK gy_status gy_ticket_handle(int file, gy_ticket_request *request);
/** Send the hint, once. Never waits; if no daemon listens, only time is lost. */
void gy_ticket_prewarm_hint(const gy_ticket *ticket, const gy_ticket_request *request);

/** Does no process of the program run a job now? ticket->round: number of jobs begun. */
bool gy_ticket_is_idle(gy_ticket *ticket);

/**
 * For the daemon, in the ticket's folder: record that all data of the program's jobs so far are
 * removed, or revoke that. GY_IO
 */
GY_MUST_CHECK gy_status gy_ticket_set_forgotten(const gy_ticket *ticket, bool is_forgotten);
/** Has the manager with this ticket folder recorded that all data are removed? */
bool gy_ticket_is_forgotten(const char *folder);

#endif
