/* Fuzz target: arbitrary packed bytes give values of control.h within their limits, or a
 * failure. The first byte selects the message. */
#include "control/net/net.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t measured(const char *text, size_t room)
{
    size_t size = text != NULL ? strlen(text) : 0;
    GY_ASSERT(size < room);
    return size;
}

static uint64_t use_state(const Gy__Cluster__DaemonState *message, gy_arena *arena)
{
    gy_daemon_state state;
    if (gy_net_read_state(message, arena, &state) != GY_OK) {
        return 0;
    }
    uint64_t sum = measured(state.address, GY_CONTROL_TEXT_BYTES) +
                   measured(state.host, GY_CONTROL_TEXT_BYTES) +
                   measured(state.labels, GY_CONTROL_LABELS_BYTES) +
                   measured(state.trouble, GY_CONTROL_REASON_BYTES);
    GY_ASSERT(state.slots <= GY_CONTROL_SLOTS_MAX && state.daemon != 0);
    for (size_t i = 0; i < state.lease_count; i++) {
        GY_ASSERT(state.leases[i].epoch > 0);
        sum += state.leases[i].lease;
    }
    for (size_t i = 0; i < state.manager_count; i++) {
        sum += state.managers[i].job.low;
    }
#ifdef GYRE_PLANTED_BUG
    /* room for two slots only, whatever the count says */
    uint8_t *slots = gy_alloc("fuzz", 2);
    for (uint32_t i = 0; slots != NULL && i < state.slots; i++) {
        ((volatile uint8_t *)slots)[i] = 1;
    }
    gy_free(slots);
#endif
    return sum;
}

static uint64_t use_order(const Gy__Cluster__Order *message)
{
    gy_control_order order;
    if (gy_net_read_order(message, &order) != GY_OK) {
        return 0;
    }
    GY_ASSERT(order.kind <= GY_ORDER_MANAGER);
    GY_ASSERT(order.kind != GY_ORDER_LEASE || order.count <= GY_CONTROL_SLOTS_MAX);
    return order.number;
}

static uint64_t use_requests(const Gy__Cluster__Requests *message)
{
    gy_manager_requests requests;
    if (gy_net_read_requests(message, &requests) != GY_OK) {
        return 0;
    }
    uint64_t sum = measured(requests.address, GY_CONTROL_TEXT_BYTES);
    GY_ASSERT(requests.gang_count <= GY_CONTROL_GANGS_MAX);
    for (int i = 0; i < GY_CONTROL_HOSTS_MAX; i++) {
        sum += measured(requests.hosts[i], GY_CONTROL_TEXT_BYTES);
    }
    return sum;
}

static uint64_t use_allocations(const Gy__Cluster__Allocations *message, gy_arena *arena)
{
    gy_allocation *allocations = NULL;
    size_t count = 0;
    uint64_t sum = 0;
    if (gy_net_read_allocations(message, arena, &allocations, &count) != GY_OK) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        GY_ASSERT(allocations[i].state <= GY_ALLOCATION_GONE);
        sum += measured(allocations[i].address, GY_CONTROL_TEXT_BYTES) +
               measured(allocations[i].host, GY_CONTROL_TEXT_BYTES);
    }
    return sum;
}

static uint64_t use_view(const Gy__Cluster__View *message)
{
    uint64_t sum = 0;
    if (gy_net_check_view(message) != GY_OK) {
        return 0;
    }
    for (size_t i = 0; i < message->n_stages; i++) {
        const Gy__Cluster__ViewStage *stage = message->stages[i];
        sum += measured(stage->name, GY_NET_VIEW_TEXT);
        for (size_t k = 0; k < stage->n_reads; k++) {
            GY_ASSERT(stage->reads[k] < message->n_stages);
        }
    }
    for (size_t i = 0; i < message->n_slow; i++) {
        GY_ASSERT(message->slow[i]->stage < message->n_stages);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const ProtobufCMessageDescriptor *const kinds[] = {
        &gy__cluster__daemon_state__descriptor, &gy__cluster__order__descriptor,
        &gy__cluster__requests__descriptor, &gy__cluster__allocations__descriptor,
        &gy__cluster__view__descriptor};
    if (size < 1) {
        return 0;
    }
    const size_t kind = data[0] % GY_COUNT(kinds);
    ProtobufCMessage *message =
        protobuf_c_message_unpack(kinds[kind], NULL, size - 1, data + 1);
    if (message == NULL) {
        return 0;
    }
    gy_arena arena = {0};
    uint64_t sum = 0;
    gy_log_set_level(GY_LOG_ERROR);
    switch (kind) {
    case 0:
        sum = use_state((Gy__Cluster__DaemonState *)message, &arena);
        break;
    case 1:
        sum = use_order((Gy__Cluster__Order *)message);
        break;
    case 2:
        sum = use_requests((Gy__Cluster__Requests *)message);
        break;
    case 3:
        sum = use_allocations((Gy__Cluster__Allocations *)message, &arena);
        break;
    default:
        sum = use_view((Gy__Cluster__View *)message);
        break;
    }
    gy_arena_free(&arena);
    protobuf_c_message_free_unpacked(message, NULL);
    __asm__ volatile("" : : "r"(sum)); /* prevent the compiler from removing the reads */
    return 0;
}
