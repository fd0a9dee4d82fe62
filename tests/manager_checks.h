/*
 * What both simulations of the manager, alone and in a cluster, ask of what it says: which
 * tasks its records raise, whether an input lies where it says, whether a commit may be.
 */
#ifndef GY_TESTS_MANAGER_CHECKS_H
#define GY_TESTS_MANAGER_CHECKS_H

#include <string.h>

#include "sched/manager.h"
#include "sched/state/records.h"

/* `take` gets each task that is raised by the records. */
static inline void checks_raised(const uint8_t *data, size_t size_bytes,
                                 void (*take)(void *arg, uint32_t task), void *arg)
{
    for (size_t offset = 0; offset + sizeof(record_head) <= size_bytes;) {
        record_head head;
        memcpy(&head, data + offset, sizeof(head));
        offset += sizeof(head);
        for (size_t i = 0; head.kind == RECORD_RAISE && i < head.size_bytes;
             i += sizeof(record_raise)) {
            record_raise raised;
            memcpy(&raised, data + offset + i, sizeof(raised));
            take(arg, raised.task);
        }
        offset += head.size_bytes;
    }
}

/* A host, or the folder that it has. */
typedef struct checked_place {
    uint64_t host, incarnation;
} checked_place;

/* What is wrong with an input of a task that starts, which is on a host (`is_held`, at `lies`)
 * or not; NULL: nothing. `number`: of the host, as the manager says. `known`: what has that
 * number; NULL: nothing has. */
static inline const char *checks_input(uint32_t number, bool is_held, checked_place lies,
                                       const checked_place *known, bool is_up)
{
    if (number == GY_NONE && !is_held) {
        return NULL;
    }
    if (known == NULL || !is_held || known->host != lies.host ||
        known->incarnation != lies.incarnation) {
        return "it is forgotten where an input lies";
    }
    return is_up ? NULL : "starts, though an input lies on a host that is not up";
}

/* What is wrong with a commit under `id` of a task that stood as `before`; NULL: nothing. */
static inline const char *checks_commit(const gy_attempt *id, const gy_attempt *before,
                                        bool is_done, bool is_discarded)
{
    if (!is_done) {
        return "committed, but not all of it was done";
    }
    if (is_discarded) {
        return "committed after its files were discarded";
    }
    return before->attempt != 0 && before->epoch >= id->epoch ? "committed twice in an epoch"
                                                              : NULL;
}

#endif
