/**
 * What a daemon leaves for the manager that it starts: a file, mode 0600, named by the variable
 * GYRE_TICKET in the manager's environment. Lines "NAME VALUE".
 */
#ifndef GY_CONTROL_NET_TICKET_H
#define GY_CONTROL_NET_TICKET_H

#include "base/key.h"

#define GY_TICKET_VARIABLE "GYRE_TICKET"

typedef struct gy_ticket {
    gy_key job;
    uint32_t epoch;      /* of this manager */
    uint32_t slots;      /* the most that one host lends the job; 0: not known */
    bool is_resumed;     /* the job had ended, and its user has it go on, */
    bool is_forgotten;   /* or what is kept of it removed */
    uint32_t round;      /* which job of the program: 1, 2, ...; 0: none has begun */
    char names[1024];    /* name servers: "HOST:PORT,HOST:PORT" */
    char key_file[4096]; /* a ring that proves (manager, job) alone; "": plaintext, loopback */
    char program[4096];  /* that daemons start for vertices; "": not known */
    char daemon[64];     /* "HOST:PORT" of the daemon that starts it; "": not known */
    char folder[4096];   /* at the daemon that starts it, for what this manager needs */
} gy_ticket;

/** Replaces what is there. GY_IO */
GY_MUST_CHECK gy_status gy_ticket_write(const char *path, const gy_ticket *ticket);
/** The one that GYRE_TICKET names. GY_NOTFOUND the variable is not set; GY_STATE mode or
 * owner; GY_FORMAT; GY_IO */
GY_MUST_CHECK gy_status gy_ticket_read(gy_ticket *ticket);

/**
 * Begin the program's next job: ticket->round, the same in each run of a program that runs its
 * jobs in the same order. Counted in the ticket's folder, over all processes of the program.
 *
 * @param lock  to be closed when the job has ended
 * @return GY_OK; GY_STATE another process of the program runs a job; GY_LIMIT it had
 * GY_TICKET_ROUNDS of them; GY_FORMAT; GY_IO
 */
enum { GY_TICKET_ROUNDS = 1000 };
GY_MUST_CHECK gy_status gy_ticket_begin(gy_ticket *ticket, int *lock);
/* ---- word of what will be wanted: from a manager to the daemon that started it ---- */

/** The processes that a manager will want at its own host; both may be 0 (the default). */
typedef struct gy_ticket_request {
    uint32_t threads;
    uint64_t memory_bytes;
} gy_ticket_request;

/** In a ticket's folder: an end to read one word from, which becomes readable with it. GY_IO */
GY_MUST_CHECK gy_status gy_ticket_listen(const char *folder, int *file);
/** The word. GY_AGAIN none has come; GY_FORMAT, GY_IO: none will come */
GY_MUST_CHECK gy_status gy_ticket_handle(int file, gy_ticket_request *request);
/** Say it, once. Never waits; where nobody listens nothing is lost but time. */
void gy_ticket_prewarm_hint(const gy_ticket *ticket, const gy_ticket_request *request);

/** No process of the program runs a job now; ticket->round: those that have begun. */
bool gy_ticket_is_idle(gy_ticket *ticket);

/** For the daemon, in the ticket's folder: nothing is kept of the program's jobs so far; or
 * something is after all. GY_IO */
GY_MUST_CHECK gy_status gy_ticket_say_forgotten(const gy_ticket *ticket, bool is_forgotten);
/** Did the manager whose ticket's folder this is say so last? */
bool gy_ticket_is_forgotten(const char *folder);

#endif
