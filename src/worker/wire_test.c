/* Goal: messages are parsed as they were written, in pieces of any size, and invalid ones are
 * refused. */
#include "worker/wire.h"

#include "gy_test.h"

#include <string.h>

static gy_wire sample(uint32_t index, const char *body)
{
    return (gy_wire){.kind = index % 2 == 0 ? GY_WIRE_DONE : GY_WIRE_FAILED,
                     .cause = index % 2 == 0 ? GY_CAUSE_NONE : GY_CAUSE_LOST_INPUT,
                     .id = {.task = index, .epoch = index + 1, .attempt = index + 2},
                     .member = index + 3,
                     .input = index + 4,
                     .key = {.high = index + 5, .low = index + 6},
                     .run_ns = index + 7,
                     .body = body,
                     .body_bytes = strlen(body)};
}

static void assert_same(const gy_wire *a, const gy_wire *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->cause, b->cause);
    assert_memory_equal(&a->id, &b->id, sizeof(a->id));
    assert_int_equal(a->member, b->member);
    assert_int_equal(a->input, b->input);
    assert_memory_equal(&a->key, &b->key, sizeof(a->key));
    assert_int_equal(a->run_ns, b->run_ns);
    assert_int_equal(a->body_bytes, b->body_bytes);
    assert_memory_equal(a->body, b->body, a->body_bytes);
}

GY_TEST(test_messages_come_back)
{
    static const char *const bodies[] = {"", "x", "a body of some more bytes", ""};
    gy_text text = {.data = NULL};
    for (uint32_t i = 0; i < 4; i++) {
        gy_wire message = sample(i, bodies[i]);
        gy_wire_add(&text, &message);
    }
    assert_int_equal(text.status, GY_OK);
    size_t at = 0;
    for (uint32_t i = 0; i < 4; i++) {
        gy_wire expected = sample(i, bodies[i]), message;
        size_t used = 0, all = GY_WIRE_HEAD_BYTES + strlen(bodies[i]);
        const uint8_t *data = (const uint8_t *)text.data + at;
        /* Each proper part is reported as incomplete. */
        for (size_t part = 0; part < all; part++) {
            assert_int_equal(gy_wire_next(data, part, &message, &used), GY_AGAIN);
            assert_true(used > part && used <= all);
        }
        assert_ok(gy_wire_next(data, text.size_bytes - at, &message, &used));
        assert_int_equal(used, all);
        assert_same(&message, &expected);
        at += used;
    }
    assert_int_equal(at, text.size_bytes);
    gy_text_free(&text);
}

/* Flip each bit of the head in turn: a message within its bytes, or a refusal. */
GY_TEST(test_changed_heads_are_refused)
{
    gy_text text = {.data = NULL};
    gy_wire whole = sample(0, "body"), message;
    gy_wire_add(&text, &whole);
    int refused = 0;
    for (size_t at = 0; at < GY_WIRE_HEAD_BYTES; at++) {
        for (int bit = 0; bit < 8; bit++) {
            size_t used = 0;
            text.data[at] ^= (char)(1 << bit);
            gy_status status =
                gy_wire_next((const uint8_t *)text.data, text.size_bytes, &message, &used);
            assert_true(status == GY_OK || status == GY_AGAIN || status == GY_FORMAT);
            assert_true(status != GY_OK || used <= text.size_bytes);
            refused += status == GY_FORMAT;
            text.data[at] ^= (char)(1 << bit);
        }
    }
    /* magic and padding, a length over the limit, 6 of the 8 kinds one bit away, each cause,
     * the sign of the time */
    assert_int_equal(refused, 32 + 16 + 4 + 6 + 8 + 1);
    gy_text_free(&text);
}

GY_TEST(test_garbage_is_refused)
{
    uint8_t garbage[256];
    gy_wire message;
    size_t used = 0;
    memset(garbage, 'A', sizeof(garbage));
    assert_status(gy_wire_next(garbage, sizeof(garbage), &message, &used), GY_FORMAT);
    memset(garbage, 0, sizeof(garbage));
    assert_status(gy_wire_next(garbage, sizeof(garbage), &message, &used), GY_FORMAT);
}

GY_TEST_MAIN(NULL, NULL)
