/**
 * What a daemon leaves for the manager that it starts: a file, mode 0600, named by the variable
 * GYRE_TICKET in the manager's environment. Lines "NAME VALUE".
 */
#ifndef GY_CLUSTER_NET_TICKET_H
#define GY_CLUSTER_NET_TICKET_H

#include "cluster/job.h"

#define GY_TICKET_VARIABLE "GYRE_TICKET"

typedef struct gy_ticket {
    gy_key job;
    uint32_t epoch;   /* of this manager */
    uint32_t slots;   /* of the daemon that starts it: what a host has, about; 0: not known */
    char names[1024]; /* name servers: "HOST:PORT,HOST:PORT" */
    char key_file[4096]; /* a ring that proves (manager, job) alone; "": plaintext, loopback */
    char folder[4096];   /* at the daemon that starts it, for what this manager needs */
} gy_ticket;

/** Replaces what is there. GY_IO */
GY_MUST_CHECK gy_status gy_ticket_write(const char *path, const gy_ticket *ticket);
/** The one that GYRE_TICKET names. GY_NOTFOUND the variable is not set; GY_STATE mode or
 * owner; GY_FORMAT; GY_IO */
GY_MUST_CHECK gy_status gy_ticket_read(gy_ticket *ticket);

#endif
