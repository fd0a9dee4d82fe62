/*
 * Goal: frames are the same however the bytes are cut; a small message cannot ask for much
 * memory; numbers are found in their tables and alarms come in their order.
 */
#include "rpc/session/session_priv.h"

#include "rpc/proto/rpc.pb-c.h"

#include <string.h>

#include "gy_test.h"

static size_t any_tag(const void *arg, uint64_t tag)
{
    (void)arg;
    return tag == 77 ? 100000 : 0;
}

GY_TEST(frames_are_cut_anywhere)
{
    enum { FRAMES = 40 };
    gy_random random = {.key = gy_test_seed()};
    for (long round = 0; round < gy_test_cases(400); round++) {
        gy_rpc_outbox out = {0};
        gy_rpc_inbox in = {0};
        static uint8_t body[50000];
        size_t sizes[FRAMES], heard = 0;
        for (size_t i = 0; i < FRAMES; i++) {
            Gy__Rpc__Envelope sent;
            gy__rpc__envelope__init(&sent);
            sizes[i] = gy_random_below(&random, i % 10 == 0 ? sizeof(body) : 100);
            memset(body, (int)i, sizes[i]);
            sent.number = i + 1;
            sent.body = (ProtobufCBinaryData){.len = sizes[i], .data = body};
            assert_ok(gy_rpc_outbox_put(&out, 77, &sent.base));
        }
        uint64_t longest = 1 + gy_random_below(&random, round % 2 == 0 ? 200 : 100000);
        while (out.at < out.size_bytes) {
            size_t wanted = 1 + gy_random_below(&random, longest);
            size_t piece = GY_MIN(wanted, out.size_bytes - out.at);
            uint8_t *copy = gy_alloc("test", piece); /* so that reading past it is found */
            memcpy(copy, out.data + out.at, piece);
            const uint8_t *data = copy, *found = NULL;
            size_t left = piece;
            gy_status status = GY_OK;
            while ((status = gy_rpc_inbox_take(&in, &data, &left, any_tag, NULL, &found)) ==
                   GY_OK) {
                ProtobufCMessage *message = NULL;
                assert_ok(gy_rpc_unpack(&gy__rpc__envelope__descriptor, found,
                                        (size_t)in.frame.size_bytes, &message));
                const Gy__Rpc__Envelope *got = (const Gy__Rpc__Envelope *)message;
                assert_int_equal(got->number, heard + 1);
                assert_int_equal(got->body.len, sizes[heard]);
                for (size_t i = 0; i < got->body.len; i++) {
                    assert_int_equal(got->body.data[i], heard);
                }
                gy_rpc_unpacked_free(message);
                heard++;
            }
            if (status != GY_AGAIN || left != 0) {
                fail_msg("%s, %zu bytes left", gy_error_text(), left);
            }
            gy_free(copy);
            gy_rpc_outbox_sent(&out, piece);
        }
        assert_int_equal(heard, FRAMES);
        gy_rpc_inbox_fini(&in);
        gy_rpc_outbox_fini(&out);
    }
}

GY_TEST(few_bytes_take_little_memory)
{
    /* A file of descriptors nests messages; here a list of numbers, eight bytes for each one.
     */
    uint8_t bytes[2000];
    ProtobufCMessage *message = NULL;
    int64_t live = gy_alloc_live();
    for (size_t i = 0; i < sizeof(bytes); i += 2) {
        bytes[i] = 6 << 3; /* acks, one by one */
        bytes[i + 1] = 1;
    }
    assert_ok(gy_rpc_unpack(&gy__rpc__envelope__descriptor, bytes, sizeof(bytes), &message));
    assert_int_equal(((const Gy__Rpc__Envelope *)message)->n_acks, 1000);
    gy_rpc_unpacked_free(message);
    for (size_t i = 0; i + 1 < sizeof(bytes); i += 2) {
        bytes[i] = 2 << 3 | 4; /* a group ends that never began */
    }
    assert_status(gy_rpc_unpack(&gy__rpc__envelope__descriptor, bytes, sizeof(bytes), &message),
                  GY_FORMAT);
    assert_int_equal(gy_alloc_live(), live);
    for (int64_t n = 1; n < 4; n++) {
        Gy__Rpc__Envelope sent;
        gy__rpc__envelope__init(&sent);
        sent.text = (char *)(uintptr_t) "words";
        sent.body = (ProtobufCBinaryData){.len = 100, .data = bytes};
        size_t size = protobuf_c_message_pack(&sent.base, bytes + 200);
        gy_alloc_fail_after(n);
        assert_status(
            gy_rpc_unpack(&gy__rpc__envelope__descriptor, bytes + 200, size, &message),
            GY_NOMEM);
        gy_alloc_fail_after(0);
        assert_int_equal(gy_alloc_live(), live);
    }
}

GY_TEST(numbers_are_found)
{
    enum { ENTRIES = 3000 };
    static gy_rpc_entry entries[ENTRIES];
    gy_random random = {.key = gy_test_seed()};
    gy_rpc_table table = {0};
    assert_null(gy_rpc_table_find(&table, 3));
    assert_null(gy_rpc_table_any(&table));
    for (uint64_t i = 0; i < ENTRIES; i++) {
        entries[i].number = i * 7 + 1;
        assert_ok(gy_rpc_table_add(&table, &entries[i]));
    }
    bool is_in[ENTRIES];
    memset(is_in, 1, sizeof(is_in));
    for (int step = 0; step < 20000; step++) {
        uint64_t i = gy_random_below(&random, ENTRIES);
        assert_ptr_equal(gy_rpc_table_find(&table, i * 7 + 1), is_in[i] ? &entries[i] : NULL);
        if (is_in[i]) {
            gy_rpc_table_remove(&table, &entries[i]);
        } else {
            assert_ok(gy_rpc_table_add(&table, &entries[i]));
        }
        is_in[i] = !is_in[i];
    }
    gy_rpc_table_free(&table);
}

GY_TEST(alarms_come_in_order)
{
    enum { ALARMS = 500 };
    static gy_rpc_alarm alarm[ALARMS];
    gy_random random = {.key = gy_test_seed()};
    gy_rpc_alarms all = {0};
    memset(alarm, 0, sizeof(alarm));
    for (int i = 0; i < ALARMS; i++) {
        assert_ok(gy_rpc_alarm_admit(&all));
    }
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 100; i++) { /* set, set anew, unset */
            uint64_t which = gy_random_below(&random, ALARMS);
            bool is_off = gy_random_below(&random, 4) == 0;
            gy_rpc_alarm_set(&all, &alarm[which],
                             is_off ? INT64_MAX : (int64_t)gy_random_below(&random, 1000));
        }
        for (size_t place = 2; place <= all.count; place++) {
            assert_true(all.heap[place / 2 - 1]->at_ns <= all.heap[place - 1]->at_ns);
            assert_int_equal(all.heap[place - 1]->place, place);
        }
    }
    int64_t last_ns = INT64_MIN;
    while (all.count > 0) {
        assert_true(all.heap[0]->at_ns >= last_ns);
        last_ns = all.heap[0]->at_ns;
        gy_rpc_alarm_set(&all, all.heap[0], INT64_MAX);
    }
    for (int i = 0; i < ALARMS; i++) {
        gy_rpc_alarm_dismiss(&all, &alarm[i]);
    }
    assert_int_equal(all.admitted, 0);
    gy_free(all.heap);
}

GY_TEST_MAIN(NULL, NULL)
