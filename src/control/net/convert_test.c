/* Goal: values survive the way through packed messages; those that are too long, too many or of
 * no known kind are refused with a reason. */
#include "base/random.h"
#include "control/net/net.h"

#include <string.h>

#include "gy_test.h"

static gy_random chance;

static uint64_t below(uint64_t bound)
{
    return gy_random_below(&chance, bound);
}

static const char *text(gy_arena *arena, size_t room)
{
    size_t size = below(2) == 0 ? room - 1 : (size_t)below(room);
    char *made = gy_arena_alloc(arena, size + 1);
    for (size_t i = 0; i < size; i++) {
        made[i] = (char)(' ' + (char)below(95));
    }
    return made;
}

static gy_key key(void)
{
    return (gy_key){gy_random_u64(&chance), 1 + below(UINT64_MAX)};
}

static uint32_t number(void)
{
    return 1 + (uint32_t)below(UINT32_MAX);
}

/* Pack and unpack a message. */
static ProtobufCMessage *carried(const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = gy_alloc("test", size);
    assert_non_null(bytes);
    assert_int_equal(protobuf_c_message_pack(message, bytes), size);
    ProtobufCMessage *out = protobuf_c_message_unpack(message->descriptor, NULL, size, bytes);
    assert_non_null(out);
    gy_free(bytes);
    return out;
}

static void state_once(void)
{
    gy_arena arena = {0}, other = {0};
    gy_leased leases[20];
    gy_hosted managers[20];
    gy_daemon_state out, in = {.daemon = key().low,
                               .incarnation = key().low,
                               .life = gy_random_u64(&chance),
                               .sequence = gy_random_u64(&chance),
                               .term = gy_random_u64(&chance),
                               .order = gy_random_u64(&chance),
                               .platform = gy_random_u64(&chance),
                               .slots = (uint32_t)below(GY_CONTROL_SLOTS_MAX + 1),
                               .address = text(&arena, GY_CONTROL_TEXT_BYTES),
                               .host = text(&arena, GY_CONTROL_TEXT_BYTES),
                               .labels = text(&arena, GY_CONTROL_LABELS_BYTES),
                               .trouble = text(&arena, GY_CONTROL_REASON_BYTES),
                               .leases = leases,
                               .lease_count = (size_t)below(20),
                               .managers = managers,
                               .manager_count = (size_t)below(20)};
    for (size_t i = 0; i < 20; i++) {
        leases[i] = (gy_leased){.lease = key().low,
                                .job = key(),
                                .epoch = number(),
                                .gang = (uint32_t)below(9),
                                .is_ending = below(2) == 0};
        managers[i] = (gy_hosted){.job = key(),
                                  .epoch = number(),
                                  .is_gone = below(2) == 0,
                                  .is_waiting = below(2) == 0,
                                  .is_known = below(2) == 0,
                                  .signal = (uint32_t)below(65)};
    }
    Gy__Cluster__DaemonState message;
    assert_ok(gy_net_write_state(&in, &arena, &message));
    ProtobufCMessage *came = carried(&message.base);
    assert_ok(gy_net_read_state((Gy__Cluster__DaemonState *)came, &other, &out));
    assert_true(out.daemon == in.daemon && out.incarnation == in.incarnation);
    assert_true(out.life == in.life && out.sequence == in.sequence && out.term == in.term);
    assert_true(out.order == in.order && out.platform == in.platform && out.slots == in.slots);
    assert_string_equal(out.address, in.address);
    assert_string_equal(out.host, in.host);
    assert_string_equal(out.labels, in.labels);
    assert_string_equal(out.trouble, in.trouble);
    assert_int_equal(out.lease_count, in.lease_count);
    assert_int_equal(out.manager_count, in.manager_count);
    for (size_t i = 0; i < in.lease_count; i++) {
        assert_true(out.leases[i].lease == leases[i].lease &&
                    gy_key_is_same(out.leases[i].job, leases[i].job) &&
                    out.leases[i].epoch == leases[i].epoch &&
                    out.leases[i].gang == leases[i].gang &&
                    out.leases[i].is_ending == leases[i].is_ending);
    }
    for (size_t i = 0; i < in.manager_count; i++) {
        assert_true(out.managers[i].is_gone == managers[i].is_gone &&
                    gy_key_is_same(out.managers[i].job, managers[i].job) &&
                    out.managers[i].epoch == managers[i].epoch &&
                    out.managers[i].is_waiting == managers[i].is_waiting &&
                    out.managers[i].is_known == managers[i].is_known &&
                    out.managers[i].signal == managers[i].signal);
    }
    protobuf_c_message_free_unpacked(came, NULL);
    gy_arena_free(&arena);
    gy_arena_free(&other);
}

static void order_once(void)
{
    gy_arena arena = {0};
    gy_control_order out, in = {.kind = (gy_control_order_kind)below(4),
                                .epoch = number(),
                                .gang = (uint32_t)below(9),
                                .count = 1 + (uint32_t)below(GY_CONTROL_SLOTS_MAX),
                                .daemon = key().low,
                                .incarnation = key().low,
                                .term = gy_random_u64(&chance),
                                .number = gy_random_u64(&chance),
                                .lease = 1 + below(UINT64_MAX - GY_CONTROL_SLOTS_MAX - 1),
                                .job = key(),
                                .length_ns = 1 + (int64_t)below(INT64_MAX),
                                .is_resumed = below(2) != 0,
                                .is_forgotten = below(2) != 0};
    Gy__Cluster__Order message;
    assert_ok(gy_net_write_order(&in, &arena, &message));
    ProtobufCMessage *came = carried(&message.base);
    assert_ok(gy_net_read_order((Gy__Cluster__Order *)came, &out));
    assert_true(out.kind == in.kind && out.epoch == in.epoch && out.gang == in.gang);
    assert_true(out.count == in.count && out.daemon == in.daemon && out.lease == in.lease);
    assert_true(out.incarnation == in.incarnation && out.term == in.term);
    assert_true(out.number == in.number && out.length_ns == in.length_ns);
    assert_true(gy_key_is_same(out.job, in.job) && out.is_resumed == in.is_resumed &&
                out.is_forgotten == in.is_forgotten);
    protobuf_c_message_free_unpacked(came, NULL);
    gy_arena_free(&arena);
}

static void requests_once(void)
{
    gy_arena arena = {0};
    gy_manager_requests out, in = {.job = key(),
                                   .epoch = number(),
                                   .sequence = gy_random_u64(&chance),
                                   .seen = gy_random_u64(&chance),
                                   .address = text(&arena, GY_CONTROL_TEXT_BYTES),
                                   .slots = (uint32_t)gy_random_u64(&chance),
                                   .gang_count = (uint32_t)below(GY_CONTROL_GANGS_MAX + 1)};
    for (uint32_t i = 0; i < in.gang_count; i++) {
        in.gangs[i] = (gy_gang_request){
            .number = number(), .width = number(), .is_one_host = below(2) == 0};
        if (!in.gangs[i].is_one_host && below(2) == 0) {
            in.gangs[i].hosts = 2 + (uint32_t)below(200);
            in.gangs[i].width = in.gangs[i].hosts * (1 + (uint32_t)below(9));
        }
        in.gangs[i].not_daemon = in.gangs[i].is_one_host ? below(3) : 0;
    }
    size_t hosts = 0;
    for (int i = 0; i < GY_CONTROL_HOSTS_MAX; i++) {
        in.hosts[i] = below(2) == 0 ? NULL : text(&arena, GY_CONTROL_TEXT_BYTES);
    }
    in.expected_count = (uint32_t)below(GY_CONTROL_EXPECTED_MAX + 1);
    for (uint32_t i = 0; i < in.expected_count; i++) {
        in.expected[i] = (gy_expected){key().low, key().low};
    }
    Gy__Cluster__Requests message;
    assert_ok(gy_net_write_requests(&in, &arena, &message));
    ProtobufCMessage *came = carried(&message.base);
    assert_ok(gy_net_read_requests((Gy__Cluster__Requests *)came, &out));
    assert_true(gy_key_is_same(out.job, in.job) && out.epoch == in.epoch);
    assert_true(out.sequence == in.sequence && out.seen == in.seen && out.slots == in.slots);
    assert_string_equal(out.address, in.address);
    assert_int_equal(out.gang_count, in.gang_count);
    for (uint32_t i = 0; i < in.gang_count; i++) {
        assert_true(out.gangs[i].number == in.gangs[i].number &&
                    out.gangs[i].width == in.gangs[i].width &&
                    out.gangs[i].is_one_host == in.gangs[i].is_one_host &&
                    out.gangs[i].hosts == in.gangs[i].hosts &&
                    out.gangs[i].not_daemon == in.gangs[i].not_daemon);
    }
    assert_int_equal(out.expected_count, in.expected_count);
    for (uint32_t i = 0; i < in.expected_count; i++) {
        assert_true(out.expected[i].daemon == in.expected[i].daemon &&
                    out.expected[i].incarnation == in.expected[i].incarnation);
    }
    for (int i = 0; i < GY_CONTROL_HOSTS_MAX; i++) { /* in order, without gaps */
        if (in.hosts[i] != NULL) {
            assert_string_equal(out.hosts[hosts++], in.hosts[i]);
        }
    }
    assert_true(hosts == GY_CONTROL_HOSTS_MAX || out.hosts[hosts] == NULL);
    protobuf_c_message_free_unpacked(came, NULL);
    gy_arena_free(&arena);
}

static void allocations_once(void)
{
    gy_arena arena = {0}, other = {0};
    gy_allocation in[30], *out = NULL;
    size_t count = (size_t)below(31), come = 0;
    for (size_t i = 0; i < count; i++) {
        in[i] = (gy_allocation){.lease = key().low,
                                .state = (gy_allocation_state)below(3),
                                .gang = (uint32_t)below(9),
                                .is_last = below(2) == 0,
                                .daemon = gy_random_u64(&chance),
                                .incarnation = gy_random_u64(&chance),
                                .address = text(&arena, GY_CONTROL_TEXT_BYTES),
                                .host = text(&arena, GY_CONTROL_TEXT_BYTES),
                                .length_ns = (int64_t)gy_random_u64(&chance)};
    }
    Gy__Cluster__Allocations message;
    assert_ok(gy_net_write_allocations(in, count, &arena, &message));
    ProtobufCMessage *came = carried(&message.base);
    assert_ok(gy_net_read_allocations((Gy__Cluster__Allocations *)came, &other, &out, &come));
    assert_int_equal(come, count);
    for (size_t i = 0; i < count; i++) {
        assert_true(out[i].lease == in[i].lease && out[i].state == in[i].state &&
                    out[i].gang == in[i].gang && out[i].daemon == in[i].daemon &&
                    out[i].is_last == in[i].is_last &&
                    out[i].incarnation == in[i].incarnation &&
                    out[i].length_ns == in[i].length_ns);
        assert_string_equal(out[i].address, in[i].address);
        assert_string_equal(out[i].host, in[i].host);
    }
    protobuf_c_message_free_unpacked(came, NULL);
    gy_arena_free(&arena);
    gy_arena_free(&other);
}

GY_TEST(values_come_as_they_went)
{
    chance = (gy_random){gy_test_seed(), 0};
    for (long left = gy_test_serial_cases(2000); left > 0; left--) {
        state_once();
        order_once();
        requests_once();
        allocations_once();
    }
}

/* A message that is valid but for one change. */
#define WRONG_STATE(change, words)                                                             \
    do {                                                                                       \
        Gy__Cluster__DaemonState message;                                                      \
        gy_daemon_state out = {0};                                                             \
        assert_ok(gy_net_write_state(                                                          \
            &(gy_daemon_state){.daemon = 1, .incarnation = 1, .slots = 2, .address = "a:1"},   \
            &arena, &message));                                                                \
        change;                                                                                \
        assert_int_equal(gy_net_read_state(&message, &arena, &out), GY_FORMAT);                \
        assert_non_null(strstr(gy_error_text(), words));                                       \
        assert_true(out.daemon == 0);                                                          \
    } while (0)

GY_TEST(wrong_states_are_refused)
{
    gy_arena arena = {0};
    char big[GY_CONTROL_LABELS_BYTES + 1];
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    Gy__Cluster__Key job = GY__CLUSTER__KEY__INIT;
    Gy__Cluster__Lease lease = GY__CLUSTER__LEASE__INIT, *leases[] = {&lease};
    Gy__Cluster__Hosted hosted = GY__CLUSTER__HOSTED__INIT, *managers[] = {&hosted};
    WRONG_STATE(message.daemon = 0, "without a number");
    WRONG_STATE(message.incarnation = 0, "without a number");
    WRONG_STATE(message.slots = GY_CONTROL_SLOTS_MAX + 1, "1025 slots");
    WRONG_STATE(message.n_leases = GY_CONTROL_SLOTS_MAX + 1, "1025 leases");
    WRONG_STATE(message.n_managers = GY_NET_MANAGERS_MAX + 1, "4097 managers");
    WRONG_STATE(message.address = big, "an address of 64");
    WRONG_STATE(message.host = big, "a host's name");
    WRONG_STATE(message.labels = big, "labels of 256");
    WRONG_STATE(message.trouble = big, "a trouble of 256");
    WRONG_STATE(message.trouble = (char *)(uintptr_t) "disk\033[2J", "the byte 27");
    WRONG_STATE((message.leases = leases, message.n_leases = 1), "no job");
    lease.job = &job;
    WRONG_STATE((message.leases = leases, message.n_leases = 1), "no job");
    job.low = 7;
    WRONG_STATE((message.leases = leases, message.n_leases = 1), "epoch of 0");
    lease.epoch = 1;
    WRONG_STATE((message.leases = leases, message.n_leases = 1), "a lease without");
    WRONG_STATE((message.managers = managers, message.n_managers = 1), "no job");
    gy_arena_free(&arena);
}

GY_TEST(wrong_orders_requests_and_allocations_are_refused)
{
    gy_arena arena = {0};
    Gy__Cluster__Key job = {.base = PROTOBUF_C_MESSAGE_INIT(&gy__cluster__key__descriptor),
                            .low = 1};
    gy_control_order order;
    for (uint32_t wrong = 0; wrong < 8; wrong++) {
        Gy__Cluster__Order message = GY__CLUSTER__ORDER__INIT;
        message.kind = wrong == 1 ? 4 : 0;
        message.job = wrong == 2 ? NULL : &job;
        message.epoch = wrong != 3;
        message.lease = wrong == 4 ? 0 : wrong == 5 ? UINT64_MAX : 5;
        message.count = wrong == 6 ? GY_CONTROL_SLOTS_MAX + 1 : 1;
        message.length_ns = wrong == 7 ? 0 : 1;
        assert_int_equal(gy_net_read_order(&message, &order), wrong == 0 ? GY_OK : GY_FORMAT);
    }
    gy_manager_requests requests;
    Gy__Cluster__GangRequest gang = GY__CLUSTER__GANG_REQUEST__INIT, *gangs[9] = {&gang};
    char *hosts[5] = {(char *)(uintptr_t) "a\nb"};
    for (uint32_t wrong = 0; wrong < 7; wrong++) {
        Gy__Cluster__Requests message;
        gy__cluster__requests__init(&message);
        message.job = wrong == 1 ? NULL : &job;
        message.epoch = wrong != 2;
        message.gangs = gangs;
        message.n_gangs = wrong == 3 ? 9 : wrong == 4;
        message.hosts = hosts;
        message.n_hosts = wrong == 5 ? 5 : wrong == 6;
        assert_int_equal(gy_net_read_requests(&message, &requests),
                         wrong == 0 ? GY_OK : GY_FORMAT);
    }
    gy_allocation *out = NULL;
    size_t count = 0;
    for (uint32_t wrong = 0; wrong < 5; wrong++) {
        const bool is_good = wrong == 0 || wrong == 4; /* 4: a lost daemon, which is valid */
        Gy__Cluster__Allocation one, *allocations[] = {&one};
        gy__cluster__allocation__init(&one);
        one.lease = wrong != 1 && wrong != 4;
        one.daemon = one.incarnation = wrong == 4;
        one.state = wrong == 2 ? 3 : 2;
        one.host = wrong == 3 ? hosts[0] : one.host;
        Gy__Cluster__Allocations message = GY__CLUSTER__ALLOCATIONS__INIT;
        message.allocations = allocations;
        message.n_allocations = 1;
        assert_int_equal(gy_net_read_allocations(&message, &arena, &out, &count),
                         is_good ? GY_OK : GY_FORMAT);
    }
    gy_arena_free(&arena);
}

GY_TEST(texts_of_anybody_are_cleaned)
{
    char out[8], id[GY_NET_KEY_TEXT];
    gy_net_clean_text("a\tb\x1b\x7f", out, sizeof(out));
    assert_string_equal(out, "a b  ");
    gy_net_clean_text("abcdefghij", out, sizeof(out));
    assert_string_equal(out, "abcd...");
    gy_net_clean_text("abcdefg", out, sizeof(out)); /* fits exactly */
    assert_string_equal(out, "abcdefg");
    gy_net_clean_text("abc\xc3\xa4xyz", out, sizeof(out)); /* a character is not split */
    assert_string_equal(out, "abc...");
    gy_net_key_text((gy_key){0xab, 0x12}, id);
    assert_string_equal(id, "00000000000000ab0000000000000012");
    assert_true(gy_net_platform() != 0 && gy_net_platform() == gy_net_platform());
}

GY_TEST_MAIN(NULL, NULL)
