/* Fuzz target: whatever bytes another process packs, the values of control.h that are read from
 * them are within their lengths, or there is a failure. The first byte says which message. */
#include "cluster/net/net.h"

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
    /* room for two slots: the count is believed */
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

static uint64_t use_wishes(const Gy__Cluster__Wishes *message)
{
    gy_manager_wishes wishes;
    if (gy_net_read_wishes(message, &wishes) != GY_OK) {
        return 0;
    }
    uint64_t sum = measured(wishes.address, GY_CONTROL_TEXT_BYTES);
    GY_ASSERT(wishes.gang_count <= GY_CONTROL_GANGS_MAX);
    for (int i = 0; i < GY_CONTROL_HOSTS_MAX; i++) {
        sum += measured(wishes.hosts[i], GY_CONTROL_TEXT_BYTES);
    }
    return sum;
}

static uint64_t use_grants(const Gy__Cluster__Grants *message, gy_arena *arena)
{
    gy_grant *grants = NULL;
    size_t count = 0;
    uint64_t sum = 0;
    if (gy_net_read_grants(message, arena, &grants, &count) != GY_OK) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        GY_ASSERT(grants[i].state <= GY_GRANT_GONE);
        sum += measured(grants[i].address, GY_CONTROL_TEXT_BYTES) +
               measured(grants[i].host, GY_CONTROL_TEXT_BYTES);
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
        &gy__cluster__wishes__descriptor, &gy__cluster__grants__descriptor,
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
        sum = use_wishes((Gy__Cluster__Wishes *)message);
        break;
    case 3:
        sum = use_grants((Gy__Cluster__Grants *)message, &arena);
        break;
    default:
        sum = use_view((Gy__Cluster__View *)message);
        break;
    }
    gy_arena_free(&arena);
    protobuf_c_message_free_unpacked(message, NULL);
    __asm__ volatile("" : : "r"(sum)); /* the reads count */
    return 0;
}
