/*
 * What the hosts of a simulated network ask of each other, and what is checked while they do:
 * each call ends once and in time, is carried out once, and is answered with what was asked.
 */
#ifndef GY_TESTS_RPC_AGENTS_H
#define GY_TESTS_RPC_AGENTS_H

#include "rpc/proto/rpc.pb-c.h"
#include "rpc/session/session_priv.h"

#include "rpc_world.h"

enum { HOSTS = 4, CALLS = 160, TELLS = 200, FAULTS = 12, LATER = 128 };
enum { TYPE_NOW = 16, TYPE_LATER, TYPE_AGAIN, TYPE_GUARDED, TYPE_GIVE, TYPE_READ, TYPE_TELL };
enum { TYPES = TYPE_TELL - TYPE_NOW + 1, BESIDE = 60000, REFUSED = 7 };

static const int64_t second_ns = 1000000000;
static const int64_t faults_ns = 20000000000; /* none after that */
static const int64_t heal_ns = 24000000000;
static const int64_t limit_ns = 100000000000;
static const int64_t healed_ns = 100000; /* the latency then */
static const int64_t dead_ns = 2000000000, beat_ns = 400000000;

typedef enum fault_kind {
    FAULT_CRASH,
    FAULT_STOP,
    FAULT_CUT,
    FAULT_CUT_ONE_WAY,
    FAULT_BREAK,
    FAULT_DROP,
    FAULT_STALE, /* first words arrive when a later connection stands */
    FAULT_KINDS
} fault_kind;

static const char *const fault_names[FAULT_KINDS] = {"crash", "stop", "cut",  "one-way cut",
                                                     "break", "drop", "stale"};

typedef struct fault {
    fault_kind kind;
    int64_t at_ns, span_ns;
    int a, b;
} fault;

typedef struct call {
    int from, to;
    uint32_t from_life, to_life, type;
    uint64_t number; /* 0: not made */
    gy_rpc_peer peer;
    int64_t made_ns, deadline_ns, end_ns;
    uint32_t ends, runs, run_life, run_drops;
    gy_status status;
    bool is_hasty, is_cancelled, is_unfinished; /* its caller crashed or dropped the peer */
    bool is_spoilt;                             /* other bytes than the answer's came */
    bool was_down;                              /* DOWN came while it was open */
    /* bytes beside request and answer; `taken` is room for the answer's, which is not written
     * any more once the call has ended */
    uint32_t given, returned;
    uint8_t *taken, *lent;
} call;

typedef struct tell {
    int from, to;
    uint32_t from_life, runs;
} tell;

struct world;

typedef struct agent {
    struct world *world;
    int self;
    gy_rpc_peer peers[HOSTS]; /* 0: none */
    bool is_up[HOSTS], is_full[HOSTS];
    uint32_t last_tell[HOSTS], last_tell_life[HOSTS];
    uint32_t drops[HOSTS];     /* how often this life forgot the other */
    int64_t dropped_ns[HOSTS]; /* until when that may not be known there; 0: never */
} agent;

typedef struct world {
    uint64_t seed;
    gy_random random;
    gy_sim *sim;
    rpc_net net;
    int hosts;
    bool is_lossy, has_faults, is_over, is_liar, is_delaying, has_ended;
    agent agents[HOSTS];
    call calls[CALLS];
    tell tells[TELLS];
    uint32_t call_count, tell_count, downs;
    fault faults[FAULTS];
    uint32_t fault_count;
    gy_rpc_method methods[TYPES];
    uint32_t answered, repeated, reread;
    int rooms; /* of requests whose bytes are coming */
    int cuts[HOSTS][HOSTS];
    int64_t hold_ns[HOSTS]; /* of the next words of a host */
    char wrong[256];
} world;

static bool is_traced;

static inline void wrong(world *at, const char *what, uint32_t which)
{
    if (at->wrong[0] == '\0') {
        snprintf(at->wrong, sizeof(at->wrong), "%s (%u, at %.3f s)", what, which,
                 (double)gy_sim_now_ns(at->sim) / 1e9);
    }
}

static uint64_t below(world *at, uint64_t bound)
{
    return gy_random_below(&at->random, bound);
}

/* ---- Bytes beside messages ---- */

/* Those of a call, which differ from those of the next one. */
static inline uint8_t beside_of(uint64_t number, size_t at)
{
    return (uint8_t)(number * 31 + at * 7 + at / 251);
}

static inline uint8_t *beside_new(uint64_t number, size_t size_bytes)
{
    uint8_t *made = gy_alloc("test.beside", size_bytes + 1);
    for (size_t i = 0; i < size_bytes; i++) {
        made[i] = beside_of(number, i);
    }
    return made;
}

static inline bool beside_is(const uint8_t *data, uint64_t number, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++) {
        if (data[i] != beside_of(number, i)) {
            return false;
        }
    }
    return true;
}

static inline gy_status admit(void *arg, const gy_rpc_asked *asked,
                              const ProtobufCMessage *request, size_t size_bytes, void **room)
{
    agent *self = arg;
    uint64_t number = ((const Gy__Rpc__Envelope *)request)->number;
    (void)asked;
    if (number % REFUSED == 0) {
        return gy_fail(GY_LIMIT, "no room");
    }
    *room = gy_alloc("test.beside", size_bytes);
    self->world->rooms++;
    return GY_OK;
}

static inline void leave(void *arg, void *room)
{
    agent *self = arg;
    self->world->rooms--;
    gy_free(room);
}

static inline gy_status admit_answer(void *arg, const ProtobufCMessage *said, size_t size_bytes,
                                     void **room)
{
    call *one = arg;
    (void)said;
    one->returned = (uint32_t)size_bytes;
    gy_free(one->taken);
    one->taken = gy_alloc("test.beside", size_bytes);
    *room = one->taken;
    return GY_OK;
}

/* ---- What is asked ---- */

typedef struct errand {
    world *world;
    int host;
    uint32_t life;
    gy_rpc_asked asked;
    uint64_t number;
} errand;

static inline void answer(world *at, int host, const gy_rpc_asked *asked, uint64_t number)
{
    Gy__Rpc__Envelope said;
    gy__rpc__envelope__init(&said);
    said.number = number;
    gy_rpc_lent lent = {.size_bytes = 0};
    if (at->calls[number - 1].type == TYPE_READ) {
        size_t sizes[] = {0, 100, 5000, BESIDE};
        lent.size_bytes = sizes[number % GY_COUNT(sizes)];
        lent.data = lent.arg = beside_new(number, lent.size_bytes);
        lent.release = gy_free;
    }
    if (gy_rpc_answer_with(at->net.hosts[host].rpc, asked, &said.base, &lent) < 0) {
        wrong(at, "an answer was not taken", (uint32_t)number);
    }
}

static inline void answer_late(void *arg)
{
    errand *what = arg;
    rpc_host *host = &what->world->net.hosts[what->host];
    if (host->rpc != NULL && host->life == what->life) {
        if (gy_sim_now_ns(what->world->sim) < host->stopped_until_ns) {
            rpc_at(&what->world->net, host->stopped_until_ns, answer_late, what);
            return;
        }
        answer(what->world, what->host, &what->asked, what->number);
        rpc_host_settle(host);
    }
    gy_free(what);
}

static inline int other_of(const agent *self, gy_rpc_peer peer)
{
    gy_rpc_facts facts;
    const rpc_host *host = &self->world->net.hosts[self->self];
    return gy_rpc_look(host->rpc, peer, &facts) && facts.text[0] == 'n' ? facts.text[1] - '0'
                                                                        : -1;
}

/* Every other host has its role for one job alone. */
static inline const char *subject_of(int host)
{
    static const char *const subjects[] = {"", "job-1", "", "job-3"};
    static_assert(GY_COUNT(subjects) == HOSTS, "one for each host");
    return subjects[host];
}

static inline gy_status serve(void *arg, const gy_rpc_asked *asked,
                              const ProtobufCMessage *request)
{
    agent *self = arg;
    world *at = self->world;
    uint64_t number = ((const Gy__Rpc__Envelope *)request)->number;
    rpc_host *host = &at->net.hosts[self->self];
    call *one = &at->calls[number - 1];
    bool is_again = one->type == TYPE_AGAIN;
    if (asked->beside != NULL) {
        if (asked->beside_bytes != one->given ||
            !beside_is(asked->beside, number, one->given)) {
            wrong(at, "other bytes than were given", (uint32_t)number - 1);
        }
        leave(self, asked->beside);
    } else if (one->given > 0) {
        wrong(at, "the bytes are not there", (uint32_t)number - 1);
    }
    if (number == 0 || number > at->call_count || one->to != self->self) {
        wrong(at, "a call that nobody made", (uint32_t)number);
        return GY_OK;
    }
    bool is_same = one->run_life == host->life && one->run_drops == self->drops[one->from];
    if (one->type == TYPE_READ) {
        at->reread += one->runs > 0 && is_same;
    } else if (one->runs > 0 && (is_same || !is_again)) {
        wrong(at, "carried out twice", (uint32_t)number - 1);
    }
    gy_rpc_facts facts = {.subject = ""};
    if (!gy_rpc_look(host->rpc, asked->peer, &facts) ||
        strcmp(asked->subject, subject_of(one->from)) != 0 ||
        strcmp(facts.subject, asked->subject) != 0) {
        wrong(at, "asked for another subject", (uint32_t)number - 1);
    }
    if (one->type == TYPE_GUARDED && one->from != 0) {
        wrong(at, "one who may not asked for it", (uint32_t)number - 1);
    }
    at->repeated += one->runs > 0;
    one->runs++;
    one->run_life = host->life;
    one->run_drops = self->drops[one->from];
    bool is_now = one->type == TYPE_NOW || one->type == TYPE_GUARDED ||
                  (one->type == TYPE_READ && number % 8 < 5);
    if (is_now) {
        answer(at, self->self, asked, number);
        return GY_OK;
    }
    errand *what = gy_alloc_zero("test.errand", 1, sizeof(*what));
    *what = (errand){at, self->self, host->life, *asked, number};
    rpc_at(&at->net, gy_sim_now_ns(at->sim) + 1 + (int64_t)below(at, 3000000000), answer_late,
           what);
    return GY_OK;
}

static inline gy_status hear_tell(void *arg, const gy_rpc_asked *asked,
                                  const ProtobufCMessage *request)
{
    agent *self = arg;
    world *at = self->world;
    uint64_t number = ((const Gy__Rpc__Envelope *)request)->number;
    tell *one = &at->tells[number - 1];
    (void)asked;
    if (++one->runs > 1) {
        wrong(at, "told twice", (uint32_t)number - 1);
    }
    bool is_same = self->last_tell_life[one->from] == one->from_life;
    if (is_same && number < self->last_tell[one->from]) {
        wrong(at, "told out of order", (uint32_t)number - 1);
    }
    self->last_tell[one->from] = (uint32_t)number;
    self->last_tell_life[one->from] = one->from_life;
    return GY_OK;
}

/* ---- What came of it ---- */

static inline void done(void *arg, gy_status status, const ProtobufCMessage *said)
{
    call *one = arg;
    one->ends++;
    one->status = status;
    if (one->lent != NULL) { /* not lent any more */
        memset(one->lent, 0, one->given);
        gy_free(one->lent);
        one->lent = NULL;
    }
    one->end_ns = said != NULL ? (int64_t)((const Gy__Rpc__Envelope *)said)->number : 0;
    one->is_spoilt = status == GY_OK && one->taken != NULL &&
                     !beside_is(one->taken, (uint64_t)one->end_ns, one->returned);
    if (one->taken != NULL) {
        memset(one->taken, 0, one->returned);
    }
}

static inline void hear(void *arg, gy_rpc_peer peer, gy_rpc_event event)
{
    agent *self = arg;
    world *at = self->world;
    int other = other_of(self, peer);
    if (event == GY_RPC_GONE) {
        for (int i = 0; i < at->hosts; i++) {
            if (self->peers[i] == peer) {
                self->peers[i] = 0;
                self->is_up[i] = self->is_full[i] = false;
            }
        }
        return;
    }
    if (is_traced) {
        printf("  %.3f n%d: n%d event %d\n", (double)gy_sim_now_ns(at->sim) / 1e9, self->self,
               other, (int)event);
    }
    if (other < 0) {
        wrong(at, "an event of nobody", (uint32_t)event);
        return;
    }
    if (event == GY_RPC_UP) {
        if (self->peers[other] != peer) {
            self->is_full[other] = false;
        }
        self->peers[other] = peer;
        self->is_up[other] = true;
        if (at->is_liar && other == at->hosts - 1) {
            wrong(at, "a liar is let in", (uint32_t)other);
        }
    } else if (event == GY_RPC_DRAINED && self->peers[other] == peer) {
        self->is_full[other] = false;
    } else if (event == GY_RPC_DOWN && self->peers[other] == peer) {
        at->downs++;
        self->is_up[other] = false;
        for (uint32_t i = 0; i < at->call_count; i++) {
            call *one = &at->calls[i];
            bool is_open = one->from == self->self && one->peer == peer && one->ends == 0;
            one->was_down = one->was_down || is_open;
        }
    }
}

/* ---- What the hosts do ---- */

static inline void start_host(world *at, int host)
{
    agent *self = &at->agents[host];
    char name[16], address[16];
    snprintf(name, sizeof(name), "n%d", host);
    gy_rpc_options options = {.name = name,
                              .role = host == 0 ? GY_RPC_MANAGER : GY_RPC_DAEMON,
                              .subject = subject_of(host),
                              .methods = at->methods,
                              .method_count = GY_COUNT(at->methods),
                              .arg = self,
                              .hear = hear,
                              .beat_ns = beat_ns,
                              .dead_ns = dead_ns,
                              .linger_ns = 30 * second_ns,
                              .retry_ns_max = second_ns,
                              .queue_bytes = 1500,
                              .call_max = 6};
    *self = (agent){.world = at, .self = host};
    rpc_host_start(&at->net.hosts[host], &options);
    if (at->is_liar && host == at->hosts - 1) {
        rpc_host *liar = &at->net.hosts[host];
        liar->proved = at->seed % 2 == 0 ? GY_RPC_WATCHER : liar->proved;
        liar->proved_subject[0] = at->seed % 2 == 0 ? liar->proved_subject[0] : 'x';
        liar->proved_subject[1] = at->seed % 2 == 0 ? liar->proved_subject[1] : '\0';
    }
    for (int other = 0; other < host; other++) { /* the higher one dials */
        snprintf(address, sizeof(address), "n%d:1", other);
        if (gy_rpc_dial(at->net.hosts[host].rpc, address, &self->peers[other]) < 0) {
            gy_panic("no memory to dial");
        }
    }
    rpc_host_settle(&at->net.hosts[host]);
}

static inline bool is_awake(const world *at, int host)
{
    const rpc_host *one = &at->net.hosts[host];
    return one->rpc != NULL && gy_sim_now_ns(at->sim) >= one->stopped_until_ns;
}

/* Of the other host as this one knows it: 0 when it has begun another that nobody here has
 * heard of. */
static inline uint32_t known_life(const world *at, const agent *self, int to)
{
    const rpc_host *host = &at->net.hosts[to];
    const rpc_peer *peer = gy_rpc_peer_find(at->net.hosts[self->self].rpc, self->peers[to]);
    bool is_past = peer != NULL && peer->has_id && host->rpc != NULL &&
                   memcmp(peer->id, host->rpc->id, RPC_ID_BYTES) != 0;
    return is_past ? 0 : host->life;
}

static inline void make_call(world *at, int from, int to)
{
    static const uint32_t types[] = {TYPE_NOW,   TYPE_NOW,     TYPE_LATER, TYPE_LATER,
                                     TYPE_AGAIN, TYPE_GUARDED, TYPE_GIVE,  TYPE_READ};
    static const uint32_t givens[] = {1, 3000, 5000, BESIDE};
    static uint8_t filler[400];
    static const int64_t spans_ns[] = {50000000, 2000000000, 60000000000, 60000000000};
    uint32_t index = at->call_count;
    agent *self = &at->agents[from];
    rpc_host *host = &at->net.hosts[from];
    Gy__Rpc__Envelope said;
    gy__rpc__envelope__init(&said);
    uint32_t type = types[below(at, GY_COUNT(types))];
    int64_t now_ns = gy_sim_now_ns(at->sim);
    int64_t span_ns = spans_ns[below(at, GY_COUNT(spans_ns))];
    bool is_hasty = below(at, 8) == 0;
    said.number = index + 1;
    said.body = (ProtobufCBinaryData){.len = (size_t)below(at, sizeof(filler)), .data = filler};
    if (index == CALLS || !is_awake(at, from) || self->peers[to] == 0) {
        return;
    }
    at->calls[index] = (call){.from = from,
                              .to = to,
                              .from_life = host->life,
                              .to_life = known_life(at, self, to),
                              .type = type,
                              .peer = self->peers[to],
                              .made_ns = now_ns,
                              .deadline_ns = now_ns + span_ns,
                              .is_hasty = is_hasty};
    at->call_count++;
    call *one = &at->calls[index];
    if (type == TYPE_GIVE || (type == TYPE_READ && below(at, 2) == 0)) {
        one->given = givens[below(at, GY_COUNT(givens))];
        one->lent = beside_new(index + 1, one->given);
    }
    gy_status status = gy_rpc_call(host->rpc, self->peers[to],
                                   &(gy_rpc_request){.type = type,
                                                     .message = &said.base,
                                                     .deadline = {one->deadline_ns},
                                                     .is_hasty = is_hasty,
                                                     .done = done,
                                                     .arg = one,
                                                     .beside = one->lent,
                                                     .beside_bytes = one->given,
                                                     .admit = admit_answer},
                                   &one->number);
    if (one->ends > 0) {
        wrong(at, "it ended within the call", index);
    }
    if (status != GY_OK) {
        self->is_full[to] = self->is_full[to] || status == GY_AGAIN;
        at->call_count--; /* it was never made */
        gy_free(one->lent);
        *one = (call){0};
    }
    rpc_host_settle(host);
}

static inline void make_tell(world *at, int from, int to)
{
    agent *self = &at->agents[from];
    rpc_host *host = &at->net.hosts[from];
    Gy__Rpc__Envelope said;
    gy__rpc__envelope__init(&said);
    if (at->tell_count == TELLS || !is_awake(at, from) || self->peers[to] == 0) {
        return;
    }
    at->tells[at->tell_count++] = (tell){.from = from, .to = to, .from_life = host->life};
    said.number = at->tell_count;
    gy_status status = gy_rpc_tell(host->rpc, self->peers[to], TYPE_TELL, &said.base);
    self->is_full[to] = self->is_full[to] || status == GY_AGAIN;
    rpc_host_settle(host);
}

static inline void cancel_one(world *at, int from)
{
    if (!is_awake(at, from) || at->call_count == 0) {
        return;
    }
    call *one = &at->calls[below(at, at->call_count)];
    rpc_host *host = &at->net.hosts[one->from];
    if (is_awake(at, one->from) && one->from_life == host->life && one->ends == 0) {
        one->is_cancelled = true;
        gy_rpc_cancel(host->rpc, one->peer, one->number);
        if (one->ends > 0) {
            wrong(at, "it ended within the cancellation", (uint32_t)(one - at->calls));
        }
        rpc_host_settle(host);
    }
}

/* Something happens now and then, faults or not. */
static inline void act(void *arg)
{
    world *at = arg;
    if (at->has_ended) {
        return;
    }
    int from = (int)below(at, (uint64_t)at->hosts), to = (int)below(at, (uint64_t)at->hosts);
    uint64_t kind = below(at, 10), burst = below(at, 6) == 0 ? 1 + below(at, 10) : 1;
    int64_t wait_ns = 1 + (int64_t)below(at, 400000000);
    for (uint64_t i = 0; from != to && i < burst; i++) {
        if (kind < 6) {
            make_call(at, from, to);
        } else if (kind < 9) {
            make_tell(at, from, to);
        } else {
            cancel_one(at, from);
        }
    }
    int64_t next_ns = gy_sim_now_ns(at->sim) + wait_ns;
    if (next_ns < heal_ns + 10 * second_ns) {
        rpc_at(&at->net, next_ns, act, at);
    }
}

#endif
