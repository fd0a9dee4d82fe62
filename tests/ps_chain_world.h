/**
 * A lead, servers and workers over a simulated network: their hosts, and what workers ask and
 * check. A fault is the test's.
 */
#ifndef GY_TESTS_PS_CHAIN_WORLD_H
#define GY_TESTS_PS_CHAIN_WORLD_H

#define RPC_WORLD_HOSTS 24
#define RPC_WORLD_LINKS 96

#include "ps/chain/chain_priv.h"
#include "ps/lead/lead.h"
#include "ps/part/part_priv.h"
#include "ps/route/route.h"
#include "ps/server_priv.h"

#include <stdlib.h>

#include "rpc_world.h"

enum { SERVERS = 5, WORKERS = 6, PARTS = 4, CLOCKS = 10, FAULTS = 10, SAMPLE = 8 };

static const int64_t second_ns = 1000000000, beat_ns = 10000000;
static const int64_t heal_ns = 14000000000, limit_ns = 90000000000;

typedef enum stage { STAGE_OPEN, STAGE_PUSH, STAGE_CLOCK, STAGE_PULL, STAGE_DONE } stage;

struct world;

/* What a worker asks of one part at a stage. */
typedef struct ask {
    struct worker *worker;
    uint32_t part;
    uint64_t keys[SAMPLE + 1];
    int64_t values[SAMPLE + 1];
    int64_t least[SAMPLE + 1]; /* what a pull has to show */
    uint64_t beside[2 * (SAMPLE + 1)];
    size_t count;
} ask;

typedef struct worker {
    struct world *world;
    int index, host, pending;
    gy_ps_route *route;
    uint64_t ids[PARTS], number, clock;
    stage stage;
    bool has_begun, is_ended, is_crashed;
    uint64_t begun, acked[PARTS]; /* bits of clocks whose push was made, and was taken */
    uint64_t clocked[PARTS];      /* calls of gy_ps_clock that were taken */
    ask asks[PARTS];
    gy_rpc_method methods[PS_ALL_METHODS];
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
    uint32_t parts;
    gy_ps_table_options table;
    gy_ps_lead_options options;
    gy_ps_lead_node lead;
    gy_ps_map record; /* the table of the lead; epoch 0: empty */
    gy_ps_server served[SERVERS];
    worker all[WORKERS];
    bool has_ended, has_faults;
    /* servers and workers crash, but the lead does not, none stops, and no link is cut */
    bool is_calm;
    fault faults[FAULTS];
    uint32_t fault_count;
    uint64_t pulls, retries, epochs;
    uint64_t epoch; /* of the latest map that a server had */
    char wrong[256];
} world;

static inline void go_on(worker *self);

static inline uint64_t below(world *at, uint64_t bound)
{
    return gy_random_below(&at->random, bound);
}

static inline void wrong(world *at, const char *what, int who, uint64_t which)
{
    if (at->wrong[0] == '\0') {
        snprintf(at->wrong, sizeof(at->wrong), "%.180s (%d, %llu, at %.3f s)", what, who,
                 (unsigned long long)which, (double)gy_sim_now_ns(at->sim) / 1e9);
    }
}

/* The key of a worker's clock that belongs to a part. */
static inline uint64_t key_of(const world *at, int of, uint64_t clock, uint32_t part)
{
    uint64_t key = ((uint64_t)of * 64 + clock) * 0x9E3779B97F4A7C15u + part;
    while (gy_ps_key_part(&at->table, key, at->parts) != part) {
        key += 1000003;
    }
    return key;
}

static inline int server_host(int server)
{
    return 1 + server;
}

static inline bool was_given_up(const worker *one)
{
    return one->is_crashed || one->is_ended;
}

/* ---- What workers ask ---- */

static inline void crash_worker(world *at, worker *self);

static inline void end_process(void *arg)
{
    worker *self = arg;
    if (!self->world->has_ended) {
        crash_worker(self->world, self);
    }
}

/* It ends with an error, and its connections with it. */
static inline void give_up(worker *self)
{
    if (self->is_ended) {
        return;
    }
    self->is_ended = true;
    rpc_at(&self->world->net, gy_sim_now_ns(self->world->sim) + 1000, end_process, self);
}

static inline void check_pull(worker *self, const ask *one)
{
    world *at = self->world;
    at->pulls++;
    for (size_t i = 0; i < one->count; i++) {
        if (one->values[i] < 0 || one->values[i] > 1) {
            wrong(at, "a push was applied twice", self->index, one->keys[i]);
        }
        if (one->values[i] < one->least[i]) {
            wrong(at, "a pull does not show what was acknowledged before", self->index,
                  one->keys[i]);
        }
    }
}

static inline void on_answer(void *arg, gy_status status, const ProtobufCMessage *message)
{
    ask *one = arg;
    worker *self = one->worker;
    world *at = self->world;
    if (at->has_ended || was_given_up(self)) {
        return;
    }
    if (status < 0) {
        if (!at->has_faults) {
            wrong(at, gy_error_text(), self->index, self->clock);
        }
        give_up(self);
        return;
    }
    if (self->stage == STAGE_OPEN) {
        self->ids[one->part] = ((const Gy__Ps__Opened *)message)->table;
    } else if (self->stage == STAGE_PUSH) {
        self->acked[one->part] |= (uint64_t)1 << self->clock;
    } else if (self->stage == STAGE_CLOCK) {
        self->clocked[one->part] = self->clock;
    } else if (self->stage == STAGE_PULL) {
        check_pull(self, one);
    }
    if (--self->pending == 0) {
        go_on(self);
    }
}

static inline gy_status admit_rows(void *arg, const ProtobufCMessage *message,
                                   size_t size_bytes, void **room)
{
    ask *one = arg;
    (void)message;
    if (size_bytes != one->count * sizeof(int64_t)) {
        return gy_fail(GY_SHAPE, "other rows");
    }
    *room = one->values;
    return GY_OK;
}

static inline void call(ask *one, uint32_t type, const ProtobufCMessage *message,
                        size_t beside_bytes, bool is_first)
{
    worker *self = one->worker;
    gy_status status = gy_ps_route_call(self->route, one->part, is_first,
                                        &(gy_rpc_request){.type = type,
                                                          .message = message,
                                                          .deadline = GY_NEVER,
                                                          .done = on_answer,
                                                          .arg = one,
                                                          .beside = one->beside,
                                                          .beside_bytes = beside_bytes,
                                                          .admit = admit_rows},
                                        NULL);
    if (status < 0) {
        on_answer(one, status, NULL);
    }
}

static inline void fill_open(const worker *self, uint32_t part, double *numbers,
                             Gy__Ps__Table *shape, Gy__Ps__Open *open)
{
    const world *at = self->world;
    gy__ps__open__init(open);
    gy_ps_table_tell("t", &at->table, numbers, shape);
    open->table = shape;
    open->part = part;
    open->parts = at->parts;
    open->worker = (uint32_t)self->index;
    open->workers = (uint32_t)at->workers;
    open->client = 1000 + (uint64_t)self->index;
}

static inline void on_reopened(void *arg, gy_status status, const ProtobufCMessage *message)
{
    worker *self = arg;
    (void)message;
    if (status < 0 && !self->world->has_ended) {
        give_up(self);
    }
}

static inline void found(void *arg, uint32_t part)
{
    worker *self = arg;
    if (self->ids[part] == 0 || self->stage == STAGE_DONE || self->is_ended) {
        return;
    }
    double numbers[PS_NUMBERS];
    Gy__Ps__Table shape;
    Gy__Ps__Open open;
    fill_open(self, part, numbers, &shape, &open);
    open.is_again = true;
    if (gy_ps_route_call(self->route, part, true,
                         &(gy_rpc_request){.type = PS_OPEN,
                                           .message = &open.base,
                                           .deadline = GY_NEVER,
                                           .done = on_reopened,
                                           .arg = self},
                         NULL) < 0) {
        give_up(self);
    }
}

static inline void put_ask(ask *one)
{
    const worker *self = one->worker;
    double numbers[PS_NUMBERS];
    Gy__Ps__Table shape;
    Gy__Ps__Open open;
    Gy__Ps__Push push;
    Gy__Ps__Clock clock;
    Gy__Ps__Pull pull;
    Gy__Ps__Leave leave;
    memcpy(one->beside, one->keys, one->count * sizeof(uint64_t));
    switch (self->stage) {
    case STAGE_OPEN:
        fill_open(self, one->part, numbers, &shape, &open);
        call(one, PS_OPEN, &open.base, 0, false);
        break;
    case STAGE_PUSH:
        gy__ps__push__init(&push);
        push.table = self->ids[one->part];
        push.worker = (uint32_t)self->index;
        push.client = 1000 + (uint64_t)self->index;
        push.number = self->number;
        push.clock = self->clock;
        push.count = one->count;
        for (size_t i = 0; i < one->count; i++) {
            one->beside[one->count + i] = 1;
        }
        call(one, PS_PUSH, &push.base, one->count * 2 * sizeof(uint64_t), false);
        break;
    case STAGE_CLOCK:
        gy__ps__clock__init(&clock);
        clock.table = self->ids[one->part];
        clock.worker = (uint32_t)self->index;
        clock.client = 1000 + (uint64_t)self->index;
        clock.clock = self->clock;
        call(one, PS_CLOCK, &clock.base, 0, false);
        break;
    case STAGE_PULL:
        gy__ps__pull__init(&pull);
        pull.table = self->ids[one->part];
        pull.clock = self->clock;
        pull.count = one->count;
        call(one, PS_PULL, &pull.base, one->count * sizeof(uint64_t), false);
        break;
    case STAGE_DONE:
    default:
        gy__ps__leave__init(&leave);
        leave.table = self->ids[one->part];
        leave.worker = (uint32_t)self->index;
        leave.client = 1000 + (uint64_t)self->index;
        call(one, PS_LEAVE, &leave.base, 0, false);
        break;
    }
}

/* ---- Stages ---- */

static inline void add_key(ask *one, uint64_t key, int64_t least)
{
    size_t place = one->count;
    while (place > 0 && one->keys[place - 1] > key) {
        place--;
    }
    if (place > 0 && one->keys[place - 1] == key) {
        return;
    }
    size_t behind = one->count - place;
    memmove(one->keys + place + 1, one->keys + place, behind * sizeof(one->keys[0]));
    memmove(one->least + place + 1, one->least + place, behind * sizeof(one->least[0]));
    one->keys[place] = key;
    one->least[place] = least;
    one->count++;
}

/* Does a push that was acknowledged count? Of BSP one of a worker that was given up before it
 * made its clock does not. */
static inline bool is_sure(const world *at, const worker *of, uint64_t clock, uint32_t part)
{
    return (of->acked[part] >> clock & 1) != 0 &&
           (at->table.sync.rule != GY_PS_BSP || of->clocked[part] > clock);
}

/* What a pull that begins now has to show of a push: where pushes are applied at once, all that
 * were acknowledged; of BSP those of clocks before the puller's. */
static inline int64_t least_of(const world *at, const worker *self, const worker *of,
                               uint64_t clock, uint32_t part)
{
    bool is_over = at->table.sync.rule != GY_PS_BSP || clock < self->clock;
    return is_sure(at, of, clock, part) && is_over;
}

static inline void choose_keys(worker *self)
{
    world *at = self->world;
    for (uint32_t part = 0; part < at->parts; part++) {
        ask *one = &self->asks[part];
        one->count = 0;
        if (self->stage == STAGE_PUSH) {
            add_key(one, key_of(at, self->index, self->clock, part), 0);
            continue;
        }
        for (int i = 0; i < SAMPLE; i++) {
            int of = below(at, 3) == 0 ? self->index : (int)below(at, (uint64_t)at->workers);
            uint64_t clock = below(at, self->clock);
            add_key(one, key_of(at, of, clock, part),
                    least_of(at, self, &at->all[of], clock, part));
        }
    }
}

static inline void ask_all(worker *self)
{
    world *at = self->world;
    self->pending = (int)at->parts;
    for (uint32_t part = 0; part < at->parts && !self->is_ended; part++) {
        put_ask(&self->asks[part]);
    }
}

static inline void go_on(worker *self)
{
    world *at = self->world;
    switch (self->stage) {
    case STAGE_OPEN:
        self->stage = STAGE_PUSH;
        break;
    case STAGE_PUSH:
        self->stage = STAGE_CLOCK;
        self->clock++;
        break;
    case STAGE_CLOCK:
        self->stage = STAGE_PULL;
        break;
    case STAGE_PULL:
        self->stage = self->clock == (uint64_t)at->clocks ? STAGE_DONE : STAGE_PUSH;
        break;
    case STAGE_DONE:
    default:
        return;
    }
    if (self->stage == STAGE_PUSH) {
        self->number++;
        self->begun |= (uint64_t)1 << self->clock;
    }
    if (self->stage == STAGE_PUSH || self->stage == STAGE_PULL) {
        choose_keys(self);
    }
    ask_all(self);
}

/* ---- Hosts ---- */

static inline gy_status store_map(void *arg, const void *data, size_t size_bytes)
{
    world *at = arg;
    if (gy_ps_map_unpack(data, size_bytes, &at->record) < 0) {
        gy_panic("a map that cannot be read: %s", gy_error_text());
    }
    at->epochs++;
    return GY_OK;
}

static inline void start_lead(world *at)
{
    at->lead = (gy_ps_lead_node){.env = gy_sim_env(at->sim, 0), .arg = at, .store = store_map};
    gy_rpc_options options = gy_ps_lead_node_options(&at->lead);
    rpc_host_start(&at->net.hosts[0], &options);
    at->lead.rpc = at->net.hosts[0].rpc;
    gy_ps_lead_node_load(&at->lead, &at->options, at->record.epoch > 0 ? &at->record : NULL);
    rpc_host_settle(&at->net.hosts[0]);
}

static inline void start_server(world *at, int index)
{
    gy_ps_server *server = &at->served[index];
    rpc_host *host = &at->net.hosts[server_host(index)];
    char address[16];
    if (gy_ps_server_init(server, gy_sim_env(at->sim, server_host(index))) < 0 ||
        gy_ps_server_join(server) < 0) {
        gy_panic("no memory for a simulated server");
    }
    gy_rpc_options options = gy_ps_server_node(server);
    rpc_host_start(host, &options);
    server->rpc = host->rpc;
    snprintf(address, sizeof(address), "n%d:1", server_host(index));
    if (gy_ps_chain_start(server->chain, host->rpc, "n0:1", address) < 0) {
        gy_panic("a simulated server: %s", gy_error_text());
    }
    rpc_host_settle(host);
}

static inline void start_worker(world *at, int index)
{
    worker *self = &at->all[index];
    char name[24];
    *self = (worker){.world = at, .index = index, .host = 1 + at->servers + index};
    gy_ps_methods(self->methods);
    gy_ps_led_methods(self->methods + PS_METHODS);
    snprintf(name, sizeof(name), "worker %d", index);
    gy_rpc_options options = {.name = name,
                              .role = GY_RPC_WORKER,
                              .methods = self->methods,
                              .method_count = PS_ALL_METHODS,
                              .arg = self,
                              .retry_ns_max = second_ns / 2};
    rpc_host *host = &at->net.hosts[self->host];
    rpc_host_start(host, &options);
    for (uint32_t part = 0; part < at->parts; part++) {
        self->asks[part] = (ask){.worker = self, .part = part};
    }
    if (gy_ps_route_new(&(gy_ps_route_options){.env = gy_sim_env(at->sim, self->host),
                                               .rpc = host->rpc,
                                               .arg = self,
                                               .found = found},
                        "n0:1", &self->route) < 0) {
        gy_panic("no memory for a simulated worker");
    }
    rpc_host_settle(host);
}

/* The latest map that a server has had. */
static inline void note_maps(world *at)
{
    for (int i = 0; i < at->servers; i++) {
        const gy_ps_chain *chain = at->served[i].chain;
        if (chain != NULL && at->net.hosts[server_host(i)].rpc != NULL) {
            at->epoch = GY_MAX(at->epoch, chain->map.epoch);
        }
    }
}

/* Whatever becomes of the lead, a worker goes on: a server has got its map before. */
static inline void check_map(world *at, const worker *self)
{
    note_maps(at);
    if (at->is_calm && gy_ps_route_map(self->route)->epoch > at->epoch) {
        wrong(at, "a worker has a map that no server had", self->index,
              gy_ps_route_map(self->route)->epoch);
    }
}

/* Time passes at a host that is up and not stopped. */
static inline void beat_host(world *at, int index)
{
    rpc_host *host = &at->net.hosts[index];
    int64_t now_ns = gy_sim_now_ns(at->sim);
    if (host->rpc == NULL || now_ns < host->stopped_until_ns) {
        return;
    }
    if (index == 0) {
        bool was_storing = at->lead.lead.is_storing;
        gy_ps_lead_node_step(&at->lead);
        if (was_storing) { /* the table takes a beat */
            gy_ps_lead_node_stored(&at->lead);
        }
    } else if (index <= at->servers) {
        if (gy_ps_server_tick(&at->served[index - 1]) < 0) {
            wrong(at, gy_error_text(), index - 1, 0);
        }
    } else {
        worker *self = &at->all[index - 1 - at->servers];
        gy_ps_route_tick(self->route);
        check_map(at, self);
        if (!self->has_begun && gy_ps_route_map(self->route)->chain_count > 0) {
            self->has_begun = true;
            ask_all(self);
        }
    }
    rpc_host_settle(host);
}

static inline void beat(void *arg)
{
    world *at = arg;
    if (at->has_ended) {
        return;
    }
    for (int i = 0; i < at->net.host_count; i++) {
        beat_host(at, i);
    }
    rpc_at(&at->net, gy_sim_now_ns(at->sim) + beat_ns, beat, at);
}

static inline void crash_worker(world *at, worker *self)
{
    rpc_host *host = &at->net.hosts[self->host];
    if (host->rpc == NULL || (self->stage == STAGE_OPEN && !self->is_ended)) {
        return; /* who has not come yet is waited for */
    }
    self->is_crashed = true;
    rpc_host_crash(host);
    for (int i = 0; i < host->node; i++) {
        rpc_host_break(&at->net.hosts[i], self->host);
    }
    gy_ps_route_free(self->route);
    self->route = NULL;
}

#endif
