/**
 * What tests of transports share: a thread each rank, and an exchange of messages of all sizes.
 */
#ifndef TRANSPORT_KIT_H
#define TRANSPORT_KIT_H

#include "transport/transport.h"

#include <string.h>

#include "gy_test.h"

enum { RANKS = 4 };

typedef struct crew {
    gy_thread threads[RANKS];
    int failures[RANKS];
} crew;

typedef struct member {
    crew *crew;
    gy_transport *transport;
    void (*run)(gy_transport *transport, int *failures);
    int rank;
} member;

static inline void *run_member(void *arg)
{
    member *me = arg;
    me->run(me->transport, &me->crew->failures[me->rank]);
    return NULL;
}

/* Run `run` on every rank, a thread each; it counts what went wrong. Closes them. */
static inline void run_on(gy_transport **transports, int ranks,
                          void (*run)(gy_transport *, int *))
{
    crew all = {.failures = {0}};
    member members[RANKS];
    for (int rank = 0; rank < ranks; rank++) {
        members[rank] =
            (member){.crew = &all, .transport = transports[rank], .run = run, .rank = rank};
        assert_ok(gy_thread_start(&all.threads[rank], "rank", run_member, &members[rank]));
    }
    for (int rank = 0; rank < ranks; rank++) {
        gy_thread_join(&all.threads[rank]);
    }
    for (int rank = 0; rank < ranks; rank++) {
        gy_transport_close(transports[rank]);
        assert_int_equal(all.failures[rank], 0);
    }
}

#define EXPECT(fact)                                                                           \
    do {                                                                                       \
        if (!(fact)) {                                                                         \
            printf("rank %d: not so: %s (%s)\n", transport->rank, #fact, gy_error_text());     \
            ++*failures;                                                                       \
        }                                                                                      \
    } while (0)

/* Each sends to each (itself too) messages of many sizes, receives in another order of tags. */
static inline void exchange_all(gy_transport *transport, int *failures)
{
    enum { MESSAGES = 12 };
    static const size_t sizes[MESSAGES] = {0,    1,    15,   16,    17,    4000,
                                           4095, 4096, 4097, 12345, 60000, 100000};
    gy_transfer sends[RANKS][MESSAGES], receives[RANKS][MESSAGES];
    gy_deadline deadline = gy_deadline_after(60);
    if (gy_transport_meet(transport, deadline) != GY_OK) {
        printf("rank %d did not meet the others: %s\n", transport->rank, gy_error_text());
        ++*failures;
        return;
    }
    uint8_t *out = gy_alloc("test", RANKS * 100000),
            *in = gy_alloc("test", RANKS * MESSAGES * 100000);
    for (int peer = 0; peer < RANKS; peer++) {
        memset(out + peer * 100000, 16 * transport->rank + peer, 100000);
        for (int i = 0; i < MESSAGES; i++) {
            EXPECT(gy_transport_send(transport, peer, (uint64_t)i, out + peer * 100000,
                                     sizes[i], &sends[peer][i]) == GY_OK);
        }
    }
    for (int i = MESSAGES - 1; i >= 0; i--) {
        for (int peer = 0; peer < RANKS; peer++) {
            uint8_t *to = in + (peer * MESSAGES + i) * 100000;
            EXPECT(gy_transport_recv(transport, peer, (uint64_t)i, to, 100000,
                                     &receives[peer][i]) == GY_OK);
        }
    }
    for (int peer = 0; peer < RANKS; peer++) {
        for (int i = 0; i < MESSAGES; i++) {
            EXPECT(gy_transport_finish(transport, &receives[peer][i], deadline) == GY_OK);
            EXPECT(gy_transport_finish(transport, &sends[peer][i], deadline) == GY_OK);
            EXPECT(receives[peer][i].size_bytes == sizes[i]);
            const uint8_t *got = in + (peer * MESSAGES + i) * 100000;
            for (size_t at = 0; at < sizes[i]; at++) {
                if (got[at] != 16 * peer + transport->rank) {
                    ++*failures;
                    break;
                }
            }
        }
    }
    gy_free(out);
    gy_free(in);
}

#endif
