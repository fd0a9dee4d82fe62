/*
 * Goal: servers and up to 300 workers over a simulated network that loses, doubles, delays and
 * cuts: every push that a worker was told of is applied once, no pull shows less than the rule
 * says, and whoever dies is not waited for. Planted bugs are found.
 *
 * Each push of worker w for clock c adds 1 to a key of its own and to one that all pushes to
 * that server share, so that what was applied can be told apart and counted.
 */
#define RPC_WORLD_HOSTS 304
#define RPC_WORLD_LINKS 320

#include "ps/part/part_priv.h"
#include "ps/server_priv.h"

#include <stdlib.h>
#include <time.h>

#include "hunt_kit.h"
#include "rpc_world.h"

enum { SERVERS = 3, WORKERS = 300, CLOCKS = 8, FAULTS = 10, SAMPLE = 12 };

static const int64_t second_ns = 1000000000;
static const int64_t heal_ns = 20000000000, limit_ns = 120000000000;

typedef enum stage {
    STAGE_OPEN,
    STAGE_BAD,
    STAGE_PUSH,
    STAGE_CLOCK,
    STAGE_PULL,
    STAGE_DONE
} stage;

struct world;

/* What a worker asks one server at a stage. */
typedef struct ask {
    struct worker *worker;
    int server;
    uint64_t keys[SAMPLE + 1];
    int64_t values[SAMPLE + 1]; /* of a push behind its keys; of a pull what came */
    uint64_t beside[2 * (SAMPLE + 1)];
    size_t count;
} ask;

typedef struct worker {
    struct world *world;
    int index, host, pending;
    gy_rpc_peer peers[SERVERS];
    uint64_t ids[SERVERS], number;
    uint64_t clock, joined; /* calls that it has made; that counted as made when it came */
    stage stage;
    bool is_ended, is_crashed; /* is_ended: the server gave it up */
    uint64_t acked[SERVERS];   /* bits of clocks whose push was taken */
    ask asks[SERVERS];
} worker;

typedef struct fault {
    int kind, a, b;
    int64_t at_ns, span_ns;
} fault;

typedef struct world {
    uint64_t seed;
    gy_random random;
    gy_sim *sim;
    rpc_net net;
    int servers, workers, clocks;
    gy_ps_table_options table;
    gy_ps_server served[SERVERS];
    worker all[WORKERS];
    gy_rpc_method methods[PS_METHODS];
    uint64_t shared[SERVERS]; /* the key that all pushes to a server share */
    bool has_ended, has_faults;
    fault faults[FAULTS];
    uint32_t fault_count;
    uint64_t pulls, retries, dropped;
    char wrong[256];
} world;

static void go_on(worker *self);

static uint64_t below(world *at, uint64_t bound)
{
    return gy_random_below(&at->random, bound);
}

static void wrong(world *at, const char *what, int who, uint64_t which)
{
    if (at->wrong[0] == '\0') {
        snprintf(at->wrong, sizeof(at->wrong), "%s (worker %d, %llu, at %.3f s)", what, who,
                 (unsigned long long)which, (double)gy_sim_now_ns(at->sim) / 1e9);
    }
}

static uint64_t key_of(int of, uint64_t clock)
{
    return ((uint64_t)of * 64 + clock) * 0x9E3779B97F4A7C15u;
}

/* ---- What a worker asks ---- */

static bool is_transient(gy_status status)
{
    return status == GY_TIMEOUT || status == GY_PEER;
}

static void put_ask(ask *one);
static void give_up(worker *self);

static void on_answer(void *arg, gy_status status, const ProtobufCMessage *message)
{
    ask *one = arg;
    worker *self = one->worker;
    world *at = self->world;
    if (at->has_ended || self->is_crashed) {
        return;
    }
    if (is_transient(status) && !self->is_ended) {
        at->retries++;
        if (!at->has_faults) {
            wrong(at, "a call failed for nothing", self->index, self->clock);
        }
        put_ask(one); /* with the same number */
        return;
    }
    bool is_bad = self->stage == STAGE_BAD;
    if (status == GY_OK && is_bad) {
        wrong(at, "keys that descend were taken", self->index, self->clock);
    }
    if (status < 0 && !(is_bad && status == GY_ARG)) {
        give_up(self);
        if (!at->has_faults) {
            wrong(at, gy_error_text(), self->index, self->clock);
        }
    }
    if (status == GY_OK && self->stage == STAGE_OPEN) {
        const Gy__Ps__Opened *opened = (const Gy__Ps__Opened *)message;
        self->ids[one->server] = opened->table;
        self->clock = self->joined = GY_MAX(self->joined, opened->clock);
    }
    if (status == GY_OK && self->stage == STAGE_PUSH) {
        self->acked[one->server] |= (uint64_t)1 << self->clock;
    }
    if (--self->pending == 0 && !self->is_ended) {
        go_on(self);
    }
}

static gy_status admit_rows(void *arg, const ProtobufCMessage *message, size_t size_bytes,
                            void **room)
{
    ask *one = arg;
    (void)message;
    if (size_bytes != one->count * sizeof(int64_t)) {
        wrong(one->worker->world, "other rows than were asked for", one->worker->index,
              one->count);
        return gy_fail(GY_SHAPE, "other rows");
    }
    *room = one->values;
    return GY_OK;
}

static void call(ask *one, uint32_t type, const ProtobufCMessage *message, size_t beside_bytes)
{
    worker *self = one->worker;
    world *at = self->world;
    rpc_host *host = &at->net.hosts[self->host];
    gy_deadline deadline = {gy_sim_now_ns(at->sim) + 3 * second_ns};
    gy_status status = gy_rpc_call(host->rpc, self->peers[one->server],
                                   &(gy_rpc_request){.type = type,
                                                     .message = message,
                                                     .deadline = deadline,
                                                     .done = on_answer,
                                                     .arg = one,
                                                     .beside = one->beside,
                                                     .beside_bytes = beside_bytes,
                                                     .admit = admit_rows},
                                   NULL);
    if (status < 0) {
        gy_panic("a simulated worker cannot call: %s", gy_error_text());
    }
}

static void call_open(ask *one)
{
    const worker *self = one->worker;
    world *at = self->world;
    double numbers[PS_NUMBERS];
    Gy__Ps__Table shape;
    Gy__Ps__Open open;
    gy__ps__open__init(&open);
    gy_ps_table_tell("t", &at->table, numbers, &shape);
    open.table = &shape;
    open.part = (uint32_t)one->server;
    open.parts = (uint32_t)at->servers;
    open.worker = (uint32_t)self->index;
    open.workers = (uint32_t)at->workers;
    open.client = 1000 + (uint64_t)self->index;
    call(one, PS_OPEN, &open.base, 0);
}

static void call_push(ask *one)
{
    const worker *self = one->worker;
    Gy__Ps__Push push;
    gy__ps__push__init(&push);
    push.table = self->ids[one->server];
    push.worker = (uint32_t)self->index;
    push.client = 1000 + (uint64_t)self->index;
    push.number = self->number;
    push.clock = self->clock;
    push.count = one->count;
    memcpy(one->beside, one->keys, one->count * sizeof(uint64_t));
    for (size_t i = 0; i < one->count; i++) {
        one->beside[one->count + i] = 1;
    }
    call(one, PS_PUSH, &push.base, one->count * 2 * sizeof(uint64_t));
}

static void put_ask(ask *one)
{
    const worker *self = one->worker;
    Gy__Ps__Clock clock;
    Gy__Ps__Pull pull;
    switch (self->stage) {
    case STAGE_OPEN:
        call_open(one);
        break;
    case STAGE_BAD:
    case STAGE_PUSH:
        call_push(one);
        break;
    case STAGE_CLOCK:
        gy__ps__clock__init(&clock);
        clock.table = self->ids[one->server];
        clock.worker = (uint32_t)self->index;
        clock.client = 1000 + (uint64_t)self->index;
        clock.clock = self->clock;
        call(one, PS_CLOCK, &clock.base, 0);
        break;
    case STAGE_PULL:
        gy__ps__pull__init(&pull);
        pull.table = self->ids[one->server];
        pull.clock = self->clock;
        pull.count = one->count;
        memcpy(one->beside, one->keys, one->count * sizeof(uint64_t));
        call(one, PS_PULL, &pull.base, one->count * sizeof(uint64_t));
        break;
    case STAGE_DONE:
    default: {
        Gy__Ps__Leave leave;
        gy__ps__leave__init(&leave);
        leave.table = self->ids[one->server];
        leave.worker = (uint32_t)self->index;
        leave.client = 1000 + (uint64_t)self->index;
        call(one, PS_LEAVE, &leave.base, 0);
        break;
    }
    }
}

/* ---- Stages ---- */

static void add_key(ask *one, uint64_t key)
{
    size_t place = one->count;
    while (place > 0 && one->keys[place - 1] > key) {
        place--;
    }
    if (place > 0 && one->keys[place - 1] == key) {
        return;
    }
    memmove(one->keys + place + 1, one->keys + place,
            (one->count - place) * sizeof(one->keys[0]));
    one->keys[place] = key;
    one->count++;
}

static int server_of(const world *at, uint64_t key)
{
    return (int)gy_ps_key_part(&at->table, key, (uint32_t)at->servers);
}

static void choose_keys(worker *self)
{
    world *at = self->world;
    for (int s = 0; s < at->servers; s++) {
        ask *one = &self->asks[s];
        one->count = 0;
        add_key(one, at->shared[s]);
    }
    if (self->stage == STAGE_PUSH || self->stage == STAGE_BAD) {
        uint64_t key = key_of(self->index, self->clock);
        add_key(&self->asks[server_of(at, key)], key);
    }
    for (int i = 0; self->stage == STAGE_PULL && i < SAMPLE - 1; i++) {
        int of = below(at, 3) == 0 ? self->index : (int)below(at, (uint64_t)at->workers);
        uint64_t key = key_of(of, below(at, self->clock));
        add_key(&self->asks[server_of(at, key)], key);
    }
    for (int s = 0; self->stage == STAGE_BAD && s < at->servers; s++) {
        ask *one = &self->asks[s];
        one->keys[1] = one->keys[0]; /* twice the same */
        one->count = 2;
    }
}

static bool was_given_up(const worker *one)
{
    return one->is_crashed || one->is_ended;
}

/* Does the server not wait for it any more, though it has not left? It need not know. */
static bool is_given_up(const world *at, int server, const worker *one)
{
    const gy_ps_part *part = at->served[server].tables[0]->part;
    return was_given_up(one) ||
           (one->stage != STAGE_DONE && !part->clocks.workers[one->index].is_live);
}

/* Whose push for clock c the pulls of a worker at its clock have to show. */
static bool must_show(const world *at, const worker *self, const worker *other, uint64_t c)
{
    uint64_t bound = at->table.sync.bound;
    if (other->stage == STAGE_OPEN || c < other->joined) {
        return false;
    }
    switch (at->table.sync.rule) {
    case GY_PS_BSP:
        return c < self->clock;
    case GY_PS_SSP:
        return other == self || c + bound < self->clock;
    case GY_PS_ASP:
        return other == self;
    case GY_PS_BACKUP:
    case GY_PS_WEIGHTED:
    case GY_PS_RULES:
    default:
        return false;
    }
}

static void check_pull(const worker *self)
{
    world *at = self->world;
    at->pulls++;
    for (int w = 0; w < at->workers; w++) {
        const worker *other = &at->all[w];
        for (uint64_t c = 0; c < self->clock; c++) {
            uint64_t key = key_of(w, c);
            int server = server_of(at, key);
            bool is_due = must_show(at, self, other, c) && !is_given_up(at, server, other);
            const ask *one = &self->asks[server];
            for (size_t i = 0; i < one->count; i++) {
                bool is_it = one->keys[i] == key;
                if (is_it && (one->values[i] < 0 || one->values[i] > 1)) {
                    wrong(at, "a push was applied twice", w, c);
                }
                if (is_it && one->values[i] == 0 && is_due) {
                    wrong(at, "a pull shows less than the rule says", w, c);
                }
            }
        }
    }
}

static void go_on(worker *self)
{
    world *at = self->world;
    bool was_refused = self->stage == STAGE_BAD;
    switch (self->stage) {
    case STAGE_OPEN:
    case STAGE_BAD: /* all others may have ended before it came */
        self->stage = self->clock < (uint64_t)at->clocks ? STAGE_PUSH : STAGE_DONE;
        break;
    case STAGE_PUSH:
        self->stage = STAGE_CLOCK;
        self->clock++;
        break;
    case STAGE_CLOCK:
        self->stage = STAGE_PULL;
        break;
    case STAGE_PULL:
        check_pull(self);
        self->stage = self->clock == (uint64_t)at->clocks ? STAGE_DONE
                      : below(at, 10) == 0                ? STAGE_BAD
                                                          : STAGE_PUSH;
        break;
    case STAGE_DONE:
    default:
        return;
    }
    /* the number of what was refused is used again */
    bool is_push = self->stage == STAGE_PUSH || self->stage == STAGE_BAD;
    self->number += is_push && !was_refused;
    if (is_push || self->stage == STAGE_PULL) {
        choose_keys(self);
    }
    /* what is said twice counts once */
    bool is_sure = self->stage == STAGE_PUSH || self->stage == STAGE_CLOCK;
    int times = is_sure && below(at, 8) == 0 ? 2 : 1;
    self->pending = at->servers * times;
    for (int i = 0; i < at->servers * times; i++) {
        put_ask(&self->asks[i % at->servers]);
    }
}

/* ---- Hosts and faults ---- */

static void start_server(world *at, int index)
{
    gy_ps_server *server = &at->served[index];
    gy_env *env = gy_sim_env(at->sim, index);
    if (gy_ps_server_init(server, env) < 0) {
        gy_panic("no memory for a simulated server");
    }
    gy_rpc_options options = gy_ps_server_node(server);
    rpc_host_start(&at->net.hosts[index], &options);
    server->rpc = at->net.hosts[index].rpc;
    rpc_host_settle(&at->net.hosts[index]);
}

static void start_worker(world *at, int index)
{
    worker *self = &at->all[index];
    char name[24], address[16];
    *self = (worker){.world = at, .index = index, .host = at->servers + index};
    snprintf(name, sizeof(name), "worker %d", index);
    gy_rpc_options options = {.name = name,
                              .role = GY_RPC_WORKER,
                              .methods = at->methods,
                              .method_count = PS_METHODS,
                              .arg = self,
                              .retry_ns_max = second_ns};
    rpc_host *host = &at->net.hosts[self->host];
    rpc_host_start(host, &options);
    self->pending = at->servers;
    for (int s = 0; s < at->servers; s++) {
        snprintf(address, sizeof(address), "n%d:1", s);
        self->asks[s] = (ask){.worker = self, .server = s};
        if (gy_rpc_dial(host->rpc, address, &self->peers[s]) < 0) {
            gy_panic("no memory to dial");
        }
        put_ask(&self->asks[s]);
    }
    rpc_host_settle(host);
}

typedef struct striking {
    world *world;
    fault what;
    bool is_mend;
} striking;

static void set_cut(const world *at, const fault *what, bool is_cut)
{
    if (gy_sim_cut(at->sim, what->a, what->b, is_cut) < 0 ||
        gy_sim_cut(at->sim, what->b, what->a, is_cut) < 0) {
        gy_panic("no memory for a cut");
    }
}

static void strike_later(world *at, const fault *what, int64_t at_ns, bool is_mend);

static void crash(world *at, worker *self)
{
    rpc_host *host = &at->net.hosts[self->host];
    /* who has not come yet is waited for */
    if (host->rpc == NULL || (self->stage == STAGE_OPEN && !self->is_ended)) {
        return;
    }
    self->is_crashed = true;
    rpc_host_crash(host);
    for (int s = 0; s < at->servers && !at->net.is_lossy; s++) {
        rpc_host_break(&at->net.hosts[s], self->host);
    }
}

static void end_process(void *arg)
{
    worker *self = arg;
    if (!self->world->has_ended) {
        crash(self->world, self);
    }
}

/* It hears that it was given up, and ends with that error. */
static void give_up(worker *self)
{
    world *at = self->world;
    if (!self->is_ended) {
        self->is_ended = true;
        rpc_at(&at->net, gy_sim_now_ns(at->sim) + 1000, end_process, self);
    }
}

static void strike(void *arg)
{
    striking *given = arg;
    world *at = given->world;
    fault what = given->what;
    bool is_mend = given->is_mend;
    gy_free(given);
    if (at->has_ended) {
        return;
    }
    int64_t now_ns = gy_sim_now_ns(at->sim);
    rpc_host *host = &at->net.hosts[what.a];
    if (is_mend) {
        set_cut(at, &what, false);
    } else if (what.kind == 0) {
        crash(at, &at->all[what.a - at->servers]);
    } else if (what.kind == 1) {
        rpc_host_break(host, what.b);
    } else if (what.kind == 2) {
        rpc_host_stop(host, now_ns + what.span_ns);
    } else {
        set_cut(at, &what, true);
        strike_later(at, &what, now_ns + what.span_ns, true);
    }
}

static void strike_later(world *at, const fault *what, int64_t at_ns, bool is_mend)
{
    striking *made = gy_alloc_zero("test.strike", 1, sizeof(*made));
    *made = (striking){.world = at, .what = *what, .is_mend = is_mend};
    rpc_at(&at->net, at_ns, strike, made);
}

static void draw_faults(world *at, uint32_t mask)
{
    at->fault_count = below(at, 3) == 0 ? 0 : (uint32_t)below(at, FAULTS + 1);
    for (uint32_t i = 0; i < at->fault_count; i++) {
        fault *one = &at->faults[i];
        bool is_short = below(at, 2) == 0; /* shorter than what a server waits for */
        *one = (fault){.kind = (int)below(at, 4),
                       .a = at->servers + (int)below(at, (uint64_t)at->workers),
                       .b = (int)below(at, (uint64_t)at->servers),
                       .at_ns = (int64_t)below(at, 8000000000),
                       .span_ns = 1 + (int64_t)below(at, is_short ? 1500000000 : 9000000000)};
        if ((mask >> i & 1) != 0) {
            at->has_faults = true;
            strike_later(at, one, one->at_ns, false);
        }
    }
}

static void heal(void *arg)
{
    world *at = arg;
    const gy_sim_link good = {.latency_ns = 100000};
    for (int a = 0; a < at->servers && !at->has_ended; a++) {
        for (int b = at->servers; b < at->servers + at->workers; b++) {
            fault what = {.a = a, .b = b};
            set_cut(at, &what, false);
            if (gy_sim_set_link(at->sim, a, b, &good) < 0 ||
                gy_sim_set_link(at->sim, b, a, &good) < 0) {
                gy_panic("no memory to heal");
            }
        }
    }
}

/* ---- A story ---- */

static void choose_table(world *at)
{
    static const gy_ps_rule rules[] = {GY_PS_BSP, GY_PS_BSP, GY_PS_ASP, GY_PS_SSP,
                                       GY_PS_BACKUP};
    gy_ps_table_options o = {.dtype = GY_I64, .is_sparse = true};
    o.sync.rule = rules[below(at, GY_COUNT(rules))];
    if (o.sync.rule == GY_PS_SSP) {
        o.sync.bound = (uint32_t)below(at, 4);
    } else if (o.sync.rule == GY_PS_BACKUP) {
        o.sync.bound = (uint32_t)below(at, GY_MIN((uint64_t)at->workers, 3));
    }
    if (gy_ps_table_judge("t", &o, (uint32_t)at->workers, &at->table) < 0) {
        gy_panic("a simulated table: %s", gy_error_text());
    }
    for (int s = 0; s < at->servers; s++) {
        do {
            at->shared[s] = gy_random_u64(&at->random);
        } while (server_of(at, at->shared[s]) != s);
    }
}

static void begin(world *at, uint64_t seed, uint32_t mask)
{
    memset(at, 0, sizeof(*at));
    at->seed = seed;
    at->random.key = seed * 0x9E3779B97F4A7C15u + 5;
    at->servers = 1 + (int)below(at, SERVERS);
    at->workers = seed % 250 == 249 ? WORKERS : 1 + (int)below(at, 6);
    at->clocks = 1 + (int)below(at, at->workers > 50 ? 2 : CLOCKS);
    choose_table(at);
    gy_ps_methods(at->methods);
    bool is_lossy = below(at, 3) == 0;
    gy_sim_options options = {.seed = seed, .nodes = at->servers + at->workers};
    options.link.latency_ns = below(at, 2) == 0 ? 100000 : 30000000;
    options.link.jitter_ns = below(at, 2) == 0 ? 0 : 60000000;
    if (is_lossy) {
        options.link.drop = (double)below(at, 6) * 0.01;
        options.link.duplicate = (double)below(at, 3) * 0.02;
    }
    at->has_faults = is_lossy;
    if (gy_sim_new(&options, &at->sim) < 0) {
        gy_panic("no memory for a simulated world");
    }
    rpc_net_init(&at->net, at->sim);
    at->net.is_lossy = is_lossy;
    for (int s = 0; s < at->servers; s++) {
        start_server(at, s);
    }
    for (int w = 0; w < at->workers; w++) {
        start_worker(at, w);
    }
    draw_faults(at, mask);
    rpc_at(&at->net, heal_ns, heal, at);
}

static int64_t value_of(const world *at, int server, uint64_t key)
{
    const gy_ps_rows rows = {.keys = &key, .count = 1};
    int64_t value = -1;
    uint64_t updates = 0;
    if (gy_ps_part_pull(at->served[server].tables[0]->part, &rows, &value, &updates) < 0) {
        gy_panic("a simulated server: %s", gy_error_text());
    }
    return value;
}

static void check_worker(world *at, const worker *self)
{
    bool is_exact = at->table.sync.rule != GY_PS_BACKUP;
    if (!was_given_up(self) && (self->stage != STAGE_DONE || self->pending > 0)) {
        wrong(at, "a worker waits for ever", self->index, self->clock);
    }
    for (uint64_t c = 0; c < (uint64_t)at->clocks; c++) {
        uint64_t key = key_of(self->index, c);
        int server = server_of(at, key);
        int64_t value = value_of(at, server, key);
        bool was_taken = (self->acked[server] >> c & 1) != 0 && !was_given_up(self);
        if (value < 0 || value > 1) {
            wrong(at, "a push was applied twice", self->index, c);
        } else if (was_taken && is_exact && value == 0) {
            wrong(at, "a push was lost", self->index, c);
        }
    }
}

static void check_server(world *at, int server)
{
    gy_ps_part_facts facts;
    const ps_served *table = at->served[server].tables[0];
    gy_ps_part_look(table->part, &facts);
    uint64_t held = facts.held_bytes > 0;
    uint64_t wanted = facts.pushes - facts.dropped;
    uint64_t value = (uint64_t)value_of(at, server, at->shared[server]);
    at->dropped += facts.dropped;
    if (value > wanted || (held == 0 && value != wanted)) {
        wrong(at, "a server has applied another number of pushes than it says", -1, value);
    }
    if (facts.live > 0) {
        wrong(at, "a worker that has left or died is waited for", -1, facts.live);
    }
    if (table->waiting_count > 0) {
        wrong(at, "a pull waits for nobody", -1, table->waiting_count);
    }
}

static bool is_over(const world *at)
{
    for (int w = 0; w < at->workers; w++) {
        const worker *self = &at->all[w];
        if (!was_given_up(self) && (self->stage != STAGE_DONE || self->pending > 0)) {
            return false;
        }
    }
    return true;
}

static void end(world *at)
{
    at->has_ended = true;
    for (int i = 0; i < at->net.host_count; i++) {
        rpc_host *host = &at->net.hosts[i];
        host->is_crashing = true;
        if (i < at->servers) {
            gy_ps_server_fini(&at->served[i]);
        } else {
            gy_rpc_free(host->rpc);
        }
        host->rpc = NULL;
    }
    while (gy_sim_step(at->sim)) { /* what is under way frees itself */
    }
    gy_sim_free(at->sim);
}

static void tell_story(world *at, uint64_t seed, uint32_t mask)
{
    begin(at, seed, mask);
    for (int64_t now_ns = 0; now_ns < limit_ns && at->wrong[0] == '\0'; now_ns += second_ns) {
        gy_sim_run_until(at->sim, now_ns);
        if (is_over(at) && now_ns > heal_ns) {
            break;
        }
    }
    gy_sim_run_until(at->sim, gy_sim_now_ns(at->sim) + 8 * second_ns);
    for (int w = 0; w < at->workers && at->wrong[0] == '\0'; w++) {
        check_worker(at, &at->all[w]);
    }
    for (int s = 0; s < at->servers && at->wrong[0] == '\0'; s++) {
        if (at->served[s].table_count > 0) {
            check_server(at, s);
        }
    }
    end(at);
}

static bool is_wrong(void *at, const telling *how)
{
    world *told = at;
    tell_story(told, how->seed, how->mask);
    return told->wrong[0] != '\0';
}

static void shrink(world *at, uint64_t seed)
{
    static const char *const names[] = {"crash", "break", "stop", "cut"};
    char rule[24];
    telling least = {.seed = seed, .mask = UINT32_MAX};
    hunt_fewer_faults(is_wrong, at, &least, FAULTS);
    (void)is_wrong(at, &least);
    gy_ps_sync_print(at->table.sync, rule, sizeof(rule));
    printf("GYRE_SEED=%llu: %s\n  %d servers, %d workers, %d clocks, %s%s\n",
           (unsigned long long)seed, at->wrong, at->servers, at->workers, at->clocks, rule,
           at->net.is_lossy ? ", lossy" : "");
    for (uint32_t i = 0; i < at->fault_count; i++) {
        const fault *one = &at->faults[i];
        if ((least.mask >> i & 1) != 0) {
            printf("  at %.3f s: %s of worker %d and server %d, %.3f s\n",
                   (double)one->at_ns / 1e9, names[one->kind], one->a - at->servers, one->b,
                   (double)one->span_ns / 1e9);
        }
    }
}

GY_TEST(no_push_is_lost_and_none_doubled)
{
    static world at;
    uint64_t first = gy_test_seed(), pulls = 0, retries = 0, dropped = 0;
    long seeds = gy_test_cases(250);
    int64_t live = gy_alloc_live();
    clock_t begun = clock();
    gy_ps_planted = GY_PS_PLANT_NONE;
    gy_log_set_level(GY_LOG_ERROR);
    for (uint64_t seed = first; seed < first + (uint64_t)seeds; seed++) {
        tell_story(&at, seed, UINT32_MAX);
        if (at.wrong[0] != '\0') {
            shrink(&at, seed);
            fail_msg("GYRE_SEED=%llu: %s", (unsigned long long)seed, at.wrong);
        }
        pulls += at.pulls;
        retries += at.retries;
        dropped += at.dropped;
    }
    assert_int_equal(gy_alloc_live(), live);
    double took_s = (double)(clock() - begun) / CLOCKS_PER_SEC;
    printf("%ld seeds, %.0f a minute: %llu pulls checked, %llu calls made again, %llu pushes "
           "dropped\n",
           seeds, (double)seeds / took_s * 60, (unsigned long long)pulls,
           (unsigned long long)retries, (unsigned long long)dropped);
    assert_true(pulls > 0 && (seeds < 100 || (retries > 0 && dropped > 0)));
}

static void tell_planted(int bug, uint64_t seed, char wrong[256])
{
    static world at;
    gy_ps_planted = (gy_ps_plant)bug;
    tell_story(&at, seed, UINT32_MAX);
    memcpy(wrong, at.wrong, sizeof(at.wrong));
}

GY_TEST(planted_bugs_are_found)
{
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    skip(); /* a bug may well be one that they find */
#endif
#define GY_X(name) #name,
    static const char *const names[] = {GY_PS_PLANT_LIST(GY_X)};
#undef GY_X
    gy_log_set_level(GY_LOG_ERROR);
    assert_int_equal(hunt_all(tell_planted, names, GY_PS_PLANTS, gy_test_seed(), 6000), 0);
}

GY_TEST_MAIN(NULL, NULL)
