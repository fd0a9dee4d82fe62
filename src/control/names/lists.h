/**
 * Doubly linked lists of rows, joined by the `links` that a row has for each list: a macro
 * defines the functions for a row type and its member.
 */
#ifndef GY_CONTROL_NAMES_LISTS_H
#define GY_CONTROL_NAMES_LISTS_H

#include "control/names/names_priv.h"

/* Defines NAME_add (last), NAME_push (first) and NAME_remove. */
#define GY_LIST_OF(NAME, ROW, MEMBER)                                                          \
    static inline void NAME##_add(list *all, ROW *rows, uint32_t item)                         \
    {                                                                                          \
        rows[item].MEMBER = (links){.previous = all->last, .next = GY_NONE};                   \
        if (all->last != GY_NONE) {                                                            \
            rows[all->last].MEMBER.next = item;                                                \
        } else {                                                                               \
            all->first = item;                                                                 \
        }                                                                                      \
        all->last = item;                                                                      \
    }                                                                                          \
    static inline void NAME##_push(list *all, ROW *rows, uint32_t item)                        \
    {                                                                                          \
        rows[item].MEMBER = (links){.previous = GY_NONE, .next = all->first};                  \
        if (all->first != GY_NONE) {                                                           \
            rows[all->first].MEMBER.previous = item;                                           \
        } else {                                                                               \
            all->last = item;                                                                  \
        }                                                                                      \
        all->first = item;                                                                     \
    }                                                                                          \
    static inline void NAME##_remove(list *all, ROW *rows, uint32_t item)                      \
    {                                                                                          \
        links own = rows[item].MEMBER;                                                         \
        if (own.previous != GY_NONE) {                                                         \
            rows[own.previous].MEMBER.next = own.next;                                         \
        } else {                                                                               \
            all->first = own.next;                                                             \
        }                                                                                      \
        if (own.next != GY_NONE) {                                                             \
            rows[own.next].MEMBER.previous = own.previous;                                     \
        } else {                                                                               \
            all->last = own.previous;                                                          \
        }                                                                                      \
        rows[item].MEMBER = (links){GY_NONE, GY_NONE};                                         \
    }

GY_LIST_OF(daemon_leases, lease_row, at_daemon)
GY_LIST_OF(job_leases, lease_row, at_job)
GY_LIST_OF(asked_leases, lease_row, in_asked)
GY_LIST_OF(hosted_jobs, job_row, at_host)
GY_LIST_OF(ended_jobs, job_row, in_ended)

#endif
