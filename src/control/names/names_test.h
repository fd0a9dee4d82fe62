/* A name server whose table, clock and effects a test controls, with daemons, users and
 * managers that send messages to it. */
#ifndef GY_CONTROL_NAMES_NAMES_TEST_H
#define GY_CONTROL_NAMES_NAMES_TEST_H

#include "control/names/names_priv.h"

#include <string.h>

#include "gy_test.h"

static const int64_t ms = 1000000;

enum { CELLS = 64 };

/* A name server, its table, and the effects of its last step. */
typedef struct bench {
    gy_names *names;
    gy_names_effects said;
    int64_t now_ns;
    struct {
        gy_key key;
        uint64_t version;
        uint8_t data[512];
        size_t size_bytes;
    } table[CELLS];
    gy_status store_status; /* the result of the next stores */
    bool is_held_back;      /* stores are not answered */
    uint64_t sequence;
    gy_control_order orders[CELLS]; /* since the last clear */
    size_t order_count;
    bool are_gone;   /* daemons report their managers as ended, */
    uint32_t signal; /* by this signal */
    uint32_t known;  /* an epoch that the daemons know without running a manager; 0: none */
    uint32_t manager_max;
    bool is_waiting; /* managers at daemons wait for their files */
} bench;

static inline void tell(bench *at, gy_names_event event);

static inline gy_status store(bench *at, const gy_names_effect *effect)
{
    for (int i = 0; i < CELLS; i++) {
        bool is_it = at->table[i].version != 0 && gy_key_is_same(at->table[i].key, effect->key);
        if (is_it || (effect->version == 0 && at->table[i].version == 0)) {
            assert_int_equal(at->table[i].version, effect->version);
            at->table[i].key = effect->key;
            at->table[i].version = effect->size_bytes == 0 ? 0 : effect->version + 1;
            at->table[i].size_bytes = effect->size_bytes;
            memcpy(at->table[i].data, effect->data, effect->size_bytes);
            return GY_OK;
        }
    }
    return GY_LIMIT;
}

static inline void tell(bench *at, gy_names_event event)
{
    gy_names_event answers[CELLS];
    size_t count = 0;
    event.now_ns = at->now_ns;
    assert_ok(gy_names_step(at->names, &event, &at->said));
    for (size_t i = 0; i < at->said.count; i++) {
        const gy_names_effect *effect = &at->said.items[i];
        if (effect->kind == GY_NAMES_ORDER && at->order_count < CELLS) {
            at->orders[at->order_count++] = effect->order;
        }
        if (effect->kind == GY_NAMES_STORE && !at->is_held_back) {
            gy_status status = at->store_status == GY_OK ? store(at, effect) : at->store_status;
            answers[count++] = (gy_names_event){.kind = GY_NAMES_STORED,
                                                .key = effect->key,
                                                .version = effect->version,
                                                .status = status};
        }
    }
    for (size_t i = 0; i < count; i++) {
        tell(at, answers[i]);
    }
}

static inline const gy_names_effect *said(const bench *at, gy_names_effect_kind kind)
{
    for (size_t i = 0; i < at->said.count; i++) {
        if (at->said.items[i].kind == kind) {
            return &at->said.items[i];
        }
    }
    return NULL;
}

static inline void start(bench *at)
{
    const gy_names_options options = {.attempts_max = 3, .manager_max = at->manager_max};
    assert_ok(gy_names_new(&options, &at->names));
    for (int i = 0; i < CELLS; i++) {
        if (at->table[i].version != 0) {
            assert_ok(gy_names_load(at->names, at->table[i].key, at->table[i].version,
                                    at->table[i].data, at->table[i].size_bytes));
        }
    }
    tell(at, (gy_names_event){.kind = GY_NAMES_BEGIN});
}

/* A name server whose table is empty. */
static inline bench started(void)
{
    bench at = {.now_ns = ms};
    start(&at);
    return at;
}

static inline gy_names_job look(const bench *at)
{
    gy_names_job job;
    assert_true(gy_names_find_job(at->names, (gy_key){5, 1}, &job));
    return job;
}

static inline void restart(bench *at)
{
    gy_names_free(at->names);
    start(at);
}

static inline void finish(bench *at)
{
    gy_names_free(at->names);
    gy_free(at->said.items);
    assert_int_equal(gy_alloc_live(), 0);
}

/* Let time pass in steps of 50 ms, without messages. */
static inline void pass(bench *at, int64_t length_ns)
{
    for (int64_t end_ns = at->now_ns + length_ns; at->now_ns < end_ns;) {
        at->now_ns += 50 * ms;
        tell(at, (gy_names_event){.kind = GY_NAMES_TIMER});
    }
}

/* The state of a daemon of so many slots that has carried out all orders but the last `missed`.
 */
static inline void daemon_says(bench *at, uint64_t id, uint32_t slots, size_t missed)
{
    gy_leased leases[CELLS];
    gy_hosted managers[CELLS];
    gy_daemon_state state = {.daemon = id,
                             .incarnation = 1,
                             .life = 1,
                             .sequence = ++at->sequence,
                             .platform = 7,
                             .slots = slots,
                             .address = "a",
                             .host = id == 1 ? "one" : "two",
                             .labels = id == 1 ? "gpu,big" : "",
                             .leases = leases,
                             .managers = managers};
    for (size_t i = 0; i + missed < at->order_count; i++) {
        const gy_control_order *order = &at->orders[i];
        if (order->daemon != id) {
            continue;
        }
        state.term = order->term;
        state.order = order->number;
        for (uint32_t k = 0; k < order->count; k++) {
            leases[state.lease_count++] =
                (gy_leased){order->lease + k, order->job, order->epoch, order->gang, false};
        }
        for (size_t k = 0; k < state.lease_count && order->kind == GY_ORDER_END_LEASE; k++) {
            if (leases[k].lease == order->lease) {
                leases[k] = leases[--state.lease_count];
            }
        }
        if (order->kind == GY_ORDER_MANAGER && at->known > 0) {
            managers[state.manager_count++] =
                (gy_hosted){.job = order->job, .epoch = at->known, .is_known = true};
        } else if (order->kind == GY_ORDER_MANAGER) {
            managers[state.manager_count++] = (gy_hosted){.job = order->job,
                                                          .epoch = order->epoch,
                                                          .is_gone = at->are_gone,
                                                          .signal = at->signal,
                                                          .is_waiting = at->is_waiting};
        }
    }
    tell(at, (gy_names_event){.kind = GY_NAMES_DAEMON, .daemon = &state});
}

static inline void submit(bench *at, uint64_t key, uint32_t weight, const char *label)
{
    const gy_submit asked = {.spec = {1, key}, .weight = weight, .name = "j", .label = label};
    tell(at, (gy_names_event){
                 .kind = GY_NAMES_SUBMIT, .key = {5, key}, .submit = &asked, .asker = key});
}

static inline void manager_says(bench *at, uint64_t key, uint32_t epoch, uint32_t slots,
                                gy_gang_request gang)
{
    const gy_manager_requests requests = {.job = {5, key},
                                          .epoch = epoch,
                                          .sequence = ++at->sequence,
                                          .address = "m",
                                          .slots = slots,
                                          .gangs = {gang},
                                          .gang_count = gang.number != 0};
    tell(at, (gy_names_event){.kind = GY_NAMES_MANAGER, .manager = &requests});
}

static inline uint32_t held_by(const bench *at, uint64_t key)
{
    gy_names_job job;
    for (uint32_t i = 0; gy_names_job_at(at->names, i, &job); i++) {
        if (job.key.low == key && job.key.high == 5) {
            return job.slots_held;
        }
    }
    return 0;
}

static inline size_t count_orders(const bench *at, gy_control_order_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < at->order_count; i++) {
        count += at->orders[i].kind == kind;
    }
    return count;
}

static const gy_gang_request no_gang;

#endif
