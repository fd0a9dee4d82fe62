/**
 * The flight recorder: what each rank of a host does and did last. It is in the host's shared
 * segment, so other processes can read it, and it outlives the rank. The driving thread writes
 * its own rank's records (a ring) without locks or system calls.
 *
 * A record is eight words. The first one is its stamp: the record's number, how often it was
 * rewritten, and whether a write is under way. A reader takes three copies of the ring: a
 * record of the second copy is complete if its stamp is the same, and even, in all three.
 */
#ifndef GY_TRANSPORT_RECORDER_H
#define GY_TRANSPORT_RECORDER_H

#include "base/base.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

enum {
    GY_RECORDS = 512, /* for a rank, a power of two: 32 KiB fit into the L1 cache */
    GY_RECORD_COMM_SLOTS = 64,
    GY_RECORD_OPEN = 255, /* as an operation: not known yet */
    GY_RECORD_SEND = 254,
    GY_RECORD_RECV = 253,
    GY_RECORD_USER = 255,    /* as a reduction: a user's function */
    GY_RECORD_LIBRARY = 255, /* as an algorithm: another library's */
};

typedef enum gy_flight_record_state {
    GY_RECORD_NONE,
    GY_RECORD_RESERVED, /* has its number */
    GY_RECORD_STARTED,  /* waits for its channel */
    GY_RECORD_MEETING,  /* has entered and waits for the other ranks */
    GY_RECORD_RUNNING,
    GY_RECORD_ENDED,
    GY_RECORD_FAILED,
    GY_RECORD_STATES
} gy_flight_record_state;

/** A record as stored in the ring and in a file. Times are ticks (gy_ticks), 0: unknown. */
typedef struct gy_flight_record {
    uint64_t stamp;
    uint64_t number; /* of the collective; of a message: its tag */
    uint64_t started, entered, ended;
    uint64_t count;
    uint8_t operation, dtype, reduction, comm_slot;
    int16_t root;   /* of a message: the other rank */
    int16_t leader; /* the group's first rank, as a number in the world */
    uint8_t state;
    /* row in the table + 1; 0: by slots, or not chosen yet; GY_RECORD_LIBRARY */
    uint8_t algorithm;
    int16_t waits_for; /* a rank in the world; -1: none */
    uint32_t detail;   /* hash of the other arguments on which ranks must agree */
} gy_flight_record;
_Static_assert(sizeof(gy_flight_record) == 64, "a record fills a cache line");
_Static_assert(offsetof(gy_flight_record, state) == 56,
               "what changes alone fills the last word");

/** A communicator of the rank; size 0: the communicator slot is free. */
typedef struct gy_flight_comm_slot {
    uint64_t base; /* first number of its collectives */
    int16_t leader, size, rank, pad;
} gy_flight_comm_slot;
_Static_assert(sizeof(gy_flight_comm_slot) == 16, "communicator slots stand in files");

/** Where the time of a training's rank went, up to its last step, in nanoseconds; the rest of
 * the wall is none of the others. All 0: it has trained nothing. */
typedef struct gy_flight_account {
    uint64_t steps, wall_ns;
    uint64_t compute_ns;  /* something is computed */
    uint64_t bubble_ns;   /* waiting for another stage that still computes */
    uint64_t transfer_ns; /* exchanges that nothing is computed beside */
    uint64_t input_ns;    /* reading samples */
} gy_flight_account;
enum { GY_FLIGHT_ACCOUNT_WORDS = sizeof(gy_flight_account) / sizeof(uint64_t) };
_Static_assert(sizeof(gy_flight_account) == 48, "accounts stand in files");

enum {
    GY_RECORD_WORDS = sizeof(gy_flight_record) / sizeof(uint64_t),
    /* of a stamp: above it the record's index + 1; odd: a write is under way */
    GY_RECORD_VERSION_BITS = 16,
};
#define GY_RECORD_VERSIONS ((UINT64_C(1) << GY_RECORD_VERSION_BITS) - 1)

/** One rank's part of the segment. */
typedef struct gy_flight_record_area {
    alignas(GY_CACHE_LINE) _Atomic uint64_t count; /* number of records begun */
    alignas(GY_CACHE_LINE) _Atomic uint64_t comm_slots[GY_RECORD_COMM_SLOTS][2];
    /* rises by 2 with each account; odd: a write is under way */
    alignas(GY_CACHE_LINE) _Atomic uint64_t account_stamp;
    _Atomic uint64_t account[GY_FLIGHT_ACCOUNT_WORDS];
    alignas(GY_CACHE_LINE) _Atomic uint64_t rings[GY_RECORDS][GY_RECORD_WORDS];
} gy_flight_record_area;

/** The cheapest clock that is the same on all cores of a host. */
static inline uint64_t gy_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return (uint64_t)gy_now_ns(gy_env_real());
#endif
}

/** Rewrite a record, unless a later one has taken its place. The stamp is odd meanwhile. */
static inline void gy_flight_record_put(gy_flight_record_area *area, gy_flight_record *record)
{
    uint64_t index = (record->stamp >> GY_RECORD_VERSION_BITS) - 1;
    _Atomic uint64_t *words = area->rings[index % GY_RECORDS];
    const uint64_t *from = (const uint64_t *)(const void *)record;
    uint64_t version = (record->stamp + 2) & GY_RECORD_VERSIONS;
    if (atomic_load_explicit(&area->count, memory_order_relaxed) - index > GY_RECORDS) {
        return;
    }
    atomic_store_explicit(&words[0], record->stamp | 1, memory_order_relaxed);
    for (int i = 1; i < GY_RECORD_WORDS; i++) {
        /* release: a reader that sees the word also sees the odd stamp; pairs with the acquire
         * in look_at_ring */
        atomic_store_explicit(&words[i], from[i], memory_order_release);
    }
    record->stamp = (record->stamp & ~GY_RECORD_VERSIONS) | version;
    atomic_store_explicit(&words[0], record->stamp, memory_order_release);
}

/** Rewrite the last word of a record when nothing else has changed: its state, and the rank
 * that it waits for. */
static inline void gy_flight_record_put_state(gy_flight_record_area *area,
                                              gy_flight_record *record)
{
    uint64_t index = (record->stamp >> GY_RECORD_VERSION_BITS) - 1, last = 0;
    _Atomic uint64_t *words = area->rings[index % GY_RECORDS];
    uint64_t version = (record->stamp + 2) & GY_RECORD_VERSIONS;
    if (atomic_load_explicit(&area->count, memory_order_relaxed) - index > GY_RECORDS) {
        return;
    }
    memcpy(&last, &record->state, sizeof(last));
    atomic_store_explicit(&words[0], record->stamp | 1, memory_order_relaxed);
    /* release: as in gy_flight_record_put */
    atomic_store_explicit(&words[GY_RECORD_WORDS - 1], last, memory_order_release);
    record->stamp = (record->stamp & ~GY_RECORD_VERSIONS) | version;
    atomic_store_explicit(&words[0], record->stamp, memory_order_release);
}

/** Begin the rank's next record. */
static inline void gy_flight_record_begin(gy_flight_record_area *area, gy_flight_record *record)
{
    uint64_t index = atomic_load_explicit(&area->count, memory_order_relaxed);
    record->stamp = (index + 1) << GY_RECORD_VERSION_BITS;
    /* release: a reader that counts the record may find its stamp odd, but never that of an
     * older record */
    atomic_store_explicit(&area->count, index + 1, memory_order_release);
    gy_flight_record_put(area, record);
}

/** Record a communicator of the rank; size 0: the rank has left it. */
void gy_flight_comm_slot_put(gy_flight_record_area *area, int comm_slot,
                             const gy_flight_comm_slot *entry);

/** Record where the rank's time went, in place of what was recorded before. One thread at a
 * time. */
void gy_flight_account_put(gy_flight_record_area *area, const gy_flight_account *account);

/* ---- Reading ---- */

/** What a reader found about a rank. */
typedef struct gy_flight_rank {
    int32_t rank, process;
    uint8_t stage; /* gy_flight_stage */
    /* letter of /proc/PID/stat at the time of reading; 0: no such process */
    uint8_t process_state;
    uint16_t pad;
    uint32_t record_count;
    uint64_t begun; /* records since the start, including overwritten ones */
    gy_flight_comm_slot comm_slots[GY_RECORD_COMM_SLOTS];
    gy_flight_account account; /* all 0: none, or it was being written */
} gy_flight_rank;
_Static_assert(sizeof(gy_flight_rank) == 24 + GY_RECORD_COMM_SLOTS * 16 + 48,
               "ranks stand in files");

typedef enum gy_flight_stage {
    GY_FLIGHT_ABSENT, /* has not joined */
    GY_FLIGHT_JOINING,
    GY_FLIGHT_JOINED,
    GY_FLIGHT_LEFT, /* left in order */
    GY_FLIGHT_DEAD,
    GY_FLIGHT_STAGES
} gy_flight_stage;

/** The beginning of a file. */
typedef struct gy_flight_head {
    char magic[8];
    uint32_t version;
    int32_t failure_status;    /* gy_status of `failure` */
    int32_t ranks, first_rank; /* in this record */
    int32_t size;              /* over all hosts */
    int32_t keeper;            /* process that made the segment */
    int64_t wall_ns;           /* time of reading, since 1970 */
    uint64_t now;              /* the same in ticks */
    double tick_s;
    char made_by[16]; /* version of Gyre whose table defines the algorithm numbers */
    char host[64], program[64];
    char failure[1024]; /* the first reported failure, "" none */
    char cause[1024];   /* the launcher's reason for the end; "": the launch runs */
} gy_flight_head;

/** A flight record: of a live launch, or from a file. */
typedef struct gy_flight {
    gy_flight_head head;
    gy_flight_rank *ranks; /* (head.ranks) */
    /* (head.ranks) the records of each rank (record_count), oldest first */
    gy_flight_record **records;
} gy_flight;

/** Read the segment `fd` of another process. GY_FORMAT not a segment, or of another version;
 * GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_flight_take(int fd, gy_flight **flight);
/** Read a file that gy_flight_write wrote. The message says what is wrong with it. GY_FORMAT;
 * GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_flight_read(int fd, gy_flight **flight);
/** Write a flight record to a file. GY_IO */
GY_MUST_CHECK gy_status gy_flight_write(const gy_flight *flight, int fd);
/** Make an empty one, for tests and the reader. NULL: out of memory. */
gy_flight *gy_flight_new(int ranks);
void gy_flight_free(gy_flight *flight);
/** Drop records and communicator slots that no rank could have written. */
void gy_flight_clean(gy_flight *flight);

/** Get the latest complete record of a rank of this host that has not ended; false: there is
 * none. */
bool gy_flight_record_latest(gy_flight_record_area *area, gy_flight_record *record);

/** The letter of /proc/PID/stat ('T' stopped, 'Z' ended and not reaped, ...); 0: no such
 * process, or not visible. */
char gy_transport_process_state(int process);
/** The process's parent; 0: as above. */
int gy_transport_process_parent(int process);

#endif
