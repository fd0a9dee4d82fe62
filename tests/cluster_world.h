/*
 * A cluster in one process: name servers on one table, hosts with a daemon each, managers on
 * them, a submitter; letters between them over simulated links, faults that a seed draws. The
 * world knows what is right: `wrong` says what was not.
 */
#ifndef GY_TESTS_CLUSTER_WORLD_H
#define GY_TESTS_CLUSTER_WORLD_H

#include "control/daemon/daemon.h"
#include "control/names/names.h"
#include "sim/sim.h"

#include <stdio.h>
#include <string.h>

enum {
    SERVERS = 2, /* nodes 0 and 1; the second is the rival */
    HOSTS = 6,   /* nodes 2 .. 7 */
    NODES = SERVERS + HOSTS + 1,
    SUBMITTER = NODES - 1,
    JOBS = 4,
    TASKS = 10,
    SLOTS = 4, /* of a host at most */
    EPOCHS = 512,
    WORLD_FAULTS = 24,
    RECORDS = 32,
    PROCESSES = 16, /* of a host, dying ones too */
    MODELS = 24,
    EXECUTORS = 40,
    ALLOCATIONS = 96,
    OUTSTANDING = 64,
    MEMORY = 512, /* leases that a host has seen ending */
    LEASE_MS = 1000,
};

static const int64_t ms = 1000000;

#define WORLD_FAULT_LIST(X)                                                                    \
    X(NAMES_DIES, "name server dies")                                                          \
    X(RIVAL, "a second name server")                                                           \
    X(HOST_DIES, "host dies")                                                                  \
    X(HOST_WIPED, "host dies, its folder too")                                                 \
    X(HOST_STARTS, "host dies as it starts a manager")                                         \
    X(HOST_GONE, "host dies for good")                                                         \
    X(HOST_STOPS, "host stops")                                                                \
    X(HOST_CUT, "host cut off")                                                                \
    X(ONE_WAY, "link cut in one direction")                                                    \
    X(MANAGER_DIES, "manager dies")                                                            \
    X(MANAGER_STOPS, "manager stops")                                                          \
    X(SYNC_FAILS, "next sync fails")                                                           \
    X(DISK_FULL, "disk full")                                                                  \
    X(STORE_FAILS, "next store fails")                                                         \
    X(STORE_FULL, "table full")                                                                \
    X(CLOCK_JUMPS, "clock jumps a day")                                                        \
    X(FORK_SERVER_DIES, "nursery dies")                                                        \
    X(EXECUTOR_DIES, "process dies")                                                           \
    X(DRAIN, "host drained")                                                                   \
    X(KILL, "job killed")                                                                      \
    X(GOODBYE, "daemon ends in order")                                                         \
    X(PEER_GONE, "fetches fail")                                                               \
    X(OUTPUT_LOST, "outputs lost")                                                             \
    X(TASK_FAILS, "tasks fail")                                                                \
    X(HOST_BAD, "tasks fail on a host")

typedef enum fault_kind {
#define GY_X(name, text) FAULT_##name,
    WORLD_FAULT_LIST(GY_X)
#undef GY_X
        FAULTS,
    MODEL_FAULTS = FAULT_OUTPUT_LOST /* a model's tasks cannot fail */
} fault_kind;

#define GY_X(name, text) text,
static const char *const fault_names[FAULTS] = {WORLD_FAULT_LIST(GY_X)};
#undef GY_X

typedef struct fault {
    fault_kind kind;
    int64_t at_ns, span_ns;
    uint32_t which;
} fault;

/* ---- Letters ---- */

typedef enum letter_kind {
    LETTER_STATE,       /* daemon to name server */
    LETTER_ASK,         /* manager or submitter to name server */
    LETTER_REQUESTS,    /* manager to name server */
    LETTER_ORDER,       /* name server to daemon */
    LETTER_ALLOCATIONS, /* name server to manager, OVER too */
    LETTER_TO_DAEMON,
    LETTER_TO_MANAGER,
    LETTER_PONG, /* a host's carrier to a manager: it lives */
    LETTER_ANSWER,
    LETTER_PING,   /* a manager's carrier to a host's */
    LETTER_DISCARD /* a manager to a host: files of run words[0].run may go */
} letter_kind;

/* What manager and process say to each other: 8 bytes of a relay, whatever they are here. */
typedef struct word {
    uint8_t token; /* a model's */
    uint8_t kind, cause, member;
    uint16_t input;
    bool is_held;
    uint32_t run; /* which */
} word;

typedef struct letter {
    letter_kind kind;
    uint32_t job, epoch;  /* of the manager that it is from or to; job: index */
    int node;             /* of that manager */
    uint64_t life;        /* of the host that says it */
    uint64_t incarnation; /* of that host */
    uint32_t line; /* number of the connection between manager and host; 0: none is kept */
    gy_daemon_event_kind asked; /* of LETTER_TO_MANAGER: what this is said of */
    word words[8];              /* what the bytes of a relay are */
    union {
        struct {
            gy_daemon_state state;
            gy_leased leases[2 * SLOTS];
            gy_hosted managers[2 * JOBS];
            bool is_troubled;
        } state;
        struct {
            gy_names_event event;
            gy_submit submit;
        } ask;
        gy_manager_requests requests;
        gy_control_order order;
        struct {
            gy_daemon_event event;
            gy_wanted_section section;
        } to_daemon;
        struct {
            gy_daemon_effect effect;
        } to_manager;
        struct {
            gy_names_effect effect;
            gy_allocation allocations[ALLOCATIONS];
        } allocations;
    } is;
} letter;

/* ---- Who is there ---- */

typedef struct record {
    gy_key key;
    uint64_t version; /* 0: none */
    uint8_t data[512];
    size_t size_bytes;
} record;

typedef struct server {
    gy_names *machine;
    gy_names_effects said;
    uint32_t life;
    int asker; /* node that it answers */
} server;

/* A process in an executor. */
typedef struct process {
    bool is_there, is_dying, is_busy;
    bool is_overslept; /* dying: its host killed it as the first thing when it woke */
    uint32_t job, epoch, generation, serial;
    uint64_t lease;
    bool is_cancelled;
    word at;              /* busy with it */
    word down[8], up[16]; /* tasks that it has not taken, results that were not taken */
    uint32_t down_count, pending, up_count; /* pending: of down, not relayed yet */
    uint64_t credited, relayed;
} process;

typedef struct outstanding {
    bool is_there;
    uint32_t job, epoch;
    uint64_t number;
    gy_key content;
} outstanding;

typedef struct host {
    gy_daemon *machine;
    gy_daemon_effects said;
    uint32_t life; /* guards what was under way */
    int64_t stopped_until_ns;
    uint64_t incarnation, starts;
    uint32_t slots;
    bool is_up, is_gone, fails_sync, is_full, fails_fetch, fails_start, loses_start;
    struct {
        uint32_t epoch, started; /* on disk */
        uint32_t known;          /* epoch that the daemon knows to be there */
        bool has_files;
        uint32_t obeyed; /* since the folder is there */
        int64_t heard_ns;
        uint32_t line, line_epoch; /* the last connection of the job's manager */
        uint32_t fork_server;      /* epoch; 0: none */
        bool fork_server_dies;
    } jobs[JOBS];
    process processes[PROCESSES];
    gy_leased leases[2 * SLOTS]; /* as it said last */
    int64_t since_ns[2 * SLOTS];
    size_t lease_count;
    uint64_t ended[MEMORY];
    uint32_t ended_count;
    outstanding fetches[OUTSTANDING];
    gy_key fetching[OUTSTANDING]; /* content, of what job: high bits */
    uint64_t tickets[OUTSTANDING];
    int names;                  /* the name server that it talks to */
    gy_daemon_event_kind asked; /* by the manager, in this step */
} host;

/* How a model manager sees a lease. */
typedef struct executor_view {
    uint64_t lease; /* 0: none */
    int node;
    uint32_t gang, generation;
    bool is_asked, is_returning, is_ready, has_input;
    int task;       /* -1: none */
    uint64_t fetch; /* number; 0: none */
    int64_t since_ns;
} executor_view;

typedef struct model {
    bool is_there, has_begun, is_killed, has_result[TASKS];
    uint32_t job, epoch, serial, generation;
    int node;
    int64_t stopped_until_ns, since_ns;
    uint64_t sequence, seen, fetch;
    uint32_t gang, gang_known; /* number of its request; leases of it that it was allocated */
    bool is_done[TASKS];
    executor_view executors[EXECUTORS];
    bool is_attached[HOSTS];
    int64_t heard_ns[HOSTS];
    uint64_t lives[HOSTS];
} model;

/* Whether the user has a killed job go on: no; if it is killed; it was asked for; it does. */
typedef enum resumed { RESUME_NEVER, RESUME_MAY, RESUME_ASKED, RESUME_DONE } resumed;

typedef struct user_job {
    gy_key key;
    uint32_t tasks, width, weight, gang_width; /* 0: no gang; else task 0 is one */
    bool gang_one_host, is_greedy, is_stubborn, is_submitted, is_accepted, is_killed;
    bool is_ended;
    gy_status status;
    resumed resume;
    uint32_t ordered, ended_epoch; /* the last that a manager was ordered for; then */
    int64_t submit_ns;
    bool used[EPOCHS]; /* managers that were started */
    uint32_t sealed;
    uint32_t committed[TASKS]; /* epoch; 0: not */
} user_job;

typedef struct world {
    uint64_t seed;
    gy_random chance;
    gy_sim *sim;
    bool is_over, is_healed, is_released, is_traced;
    bool fails_store;
    int64_t store_full_until_ns, heal_ns, calm_ns;
    uint32_t host_count, job_count;
    bool is_cut[NODES][NODES], is_poor; /* links may lose letters, or take long */
    int64_t trouble_ns[NODES];          /* when something was wrong with it last */
    bool is_reliable;                   /* letters are neither lost nor overtaken */
    record records[RECORDS];
    server servers[SERVERS];
    host hosts[HOSTS];
    model models[MODELS];
    user_job jobs[JOBS];
    fault faults[WORLD_FAULTS];
    uint32_t fault_count;
    uint32_t serial;
    bool is_failing; /* tasks may fail by themselves */
    int64_t pace;    /* tasks take so much longer */
    uint64_t steps, digest, managers, revoked, gangs, resumes;
    char wrong[256];
} world;

/* ---- Time, chance, trouble ---- */

static inline void world_wrong(world *at, const char *what, uint64_t number)
{
    if (at->wrong[0] == '\0') {
        snprintf(at->wrong, sizeof(at->wrong), "%s (%llu) at %.1f ms", what,
                 (unsigned long long)number, (double)gy_sim_now_ns(at->sim) / 1e6);
    }
    at->is_over = true;
}

static inline uint64_t world_below(world *at, uint64_t bound)
{
    return gy_random_below(&at->chance, bound);
}

static inline int64_t world_now(const world *at)
{
    return gy_sim_now_ns(at->sim);
}

static inline void world_at(world *at, int64_t wait_ns, gy_env_fire fire, void *arg)
{
    if (gy_sim_at(at->sim, gy_sim_now_ns(at->sim) + wait_ns, fire, arg) < 0) {
        gy_panic("no memory for a simulated world");
    }
}

static inline void world_troubles(world *at, int node, int64_t until_ns)
{
    at->trouble_ns[node] = GY_MAX(at->trouble_ns[node], GY_MAX(until_ns, world_now(at)));
}

/* Something that happens later to a server, a host, a process or a manager. */
typedef struct later {
    world *at;
    int index;
    uint32_t life, job, epoch, generation, place;
    uint64_t number, ticket;
    gy_status status;
    gy_key key;
    record record;
} later;

static inline later *later_new(world *at, int index, uint32_t life)
{
    later *made = gy_alloc_zero("world.later", 1, sizeof(*made));
    if (made == NULL) {
        gy_panic("no memory for a simulated world");
    }
    made->at = at;
    made->index = index;
    made->life = life;
    return made;
}

static inline uint32_t world_job(const world *at, gy_key key)
{
    for (uint32_t i = 0; i < at->job_count; i++) {
        if (gy_key_is_same(at->jobs[i].key, key)) {
            return i;
        }
    }
    return JOBS;
}

static const char *const node_texts[NODES] = {"0", "1", "2", "3", "4", "5", "6", "7", "8"};

static inline int node_of(const char *text)
{
    return text != NULL && text[0] != '\0' ? text[0] - '0' : -1;
}

/* What a connection to it knows it by. */
static inline uint64_t world_life(const host *own)
{
    return own->incarnation ^ own->starts << 32;
}

static inline host *world_host(world *at, int node)
{
    return &at->hosts[node - SERVERS];
}

/* ---- Post ---- */

static inline size_t letter_bytes(const letter *what)
{
    size_t head = offsetof(letter, is);
    switch (what->kind) {
    case LETTER_STATE:
        return head + sizeof(what->is.state);
    case LETTER_ASK:
    case LETTER_ANSWER:
        return head + sizeof(what->is.ask);
    case LETTER_REQUESTS:
        return head + sizeof(what->is.requests);
    case LETTER_ORDER:
        return head + sizeof(what->is.order);
    case LETTER_ALLOCATIONS:
        return head + offsetof(letter, is.allocations.allocations) -
               offsetof(letter, is.allocations) +
               what->is.allocations.effect.allocation_count * sizeof(gy_allocation);
    case LETTER_TO_DAEMON:
        return head + sizeof(what->is.to_daemon);
    case LETTER_TO_MANAGER:
        return head + sizeof(what->is.to_manager);
    case LETTER_PONG:
    case LETTER_PING:
    case LETTER_DISCARD:
        return head;
    }
    return sizeof(letter);
}

/* Pointers in a letter are none: whoever gets it knows where the texts are. */
static inline void post(world *at, int from, int to, const letter *what, bool is_kept)
{
    if (to < 0 || to >= NODES || at->is_over) {
        return;
    }
    if (is_kept || at->is_reliable) {
        gy_status status = gy_sim_send(at->sim, from, to, what, letter_bytes(what));
        GY_ASSERT(status == GY_OK || status == GY_PEER); /* lost with a node */
    } else if (gy_sim_cast(at->sim, from, to, what, letter_bytes(what)) < 0) {
        gy_panic("no memory for a simulated world");
    }
}

/* GYRE_TEST_TRACE */
static inline void world_say(const world *at, const char *who, uint64_t number,
                             const char *what, uint64_t detail)
{
    if (at->is_traced) {
        printf("%9.3f %s %llu: %s %llx\n", (double)gy_sim_now_ns(at->sim) / 1e6, who,
               (unsigned long long)number, what, (unsigned long long)detail);
    }
}

#endif
