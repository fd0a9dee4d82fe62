/*
 * Goal: bytes beside messages pass real sockets, under TLS and plain, in both directions and of
 * all sizes; they are judged by the message before memory is taken for them; a call that ends
 * while its bytes are under way leaves a connection that goes on.
 */
#include "rpc/rpc.h"

#include "rpc_pair.h"

enum { GIVE = 16, READ, OTHER, BESIDE_MAX = 8 << 20 };

typedef struct beside_end {
    gy_rpc *rpc;
    uint8_t *last; /* what was given last, and its size */
    size_t last_bytes;
    int served, left;
} beside_end;

typedef struct scene {
    kit_pair pair;
    beside_end server, client;
} scene;

typedef struct answer {
    int ends;
    gy_status status;
    char text[256];
    uint8_t *room;
    size_t size_bytes, most;
} answer;

static void fill(uint8_t *data, size_t size_bytes, uint32_t key)
{
    for (size_t i = 0; i < size_bytes; i++) {
        data[i] = (uint8_t)(i * 13 + i / 255 + key);
    }
}

static gy_status admit(void *arg, const gy_rpc_asked *asked, const ProtobufCMessage *request,
                       size_t size_bytes, void **room)
{
    (void)arg;
    (void)asked;
    if (((const Gy__Rpc__Envelope *)request)->number == 13) {
        return gy_fail(GY_ARG, "thirteen with %zu bytes", size_bytes);
    }
    *room = gy_alloc("test.beside", size_bytes);
    return *room != NULL ? GY_OK : GY_NOMEM;
}

static void leave(void *arg, void *room)
{
    beside_end *end = arg;
    end->left++;
    gy_free(room);
}

static gy_status give(void *arg, const gy_rpc_asked *asked, const ProtobufCMessage *request)
{
    beside_end *end = arg;
    gy_free(end->last);
    end->last = asked->beside;
    end->last_bytes = asked->beside_bytes;
    end->served++;
    return gy_rpc_answer(end->rpc, asked, request);
}

/* Answers with `number` bytes. */
static gy_status read_back(void *arg, const gy_rpc_asked *asked,
                           const ProtobufCMessage *request)
{
    beside_end *end = arg;
    size_t size = (size_t)((const Gy__Rpc__Envelope *)request)->number;
    uint8_t *data = gy_alloc("test.beside", size);
    fill(data, size, 5);
    end->served++;
    return gy_rpc_answer_with(
        end->rpc, asked, request,
        &(gy_rpc_lent){.data = data, .size_bytes = size, .release = gy_free, .arg = data});
}

#define ANYBODY ((1u << GY_RPC_ROLES) - 1)
#define METHOD(number, text, how, bits)                                                        \
    {                                                                                          \
        .type = (number), .name = (text), .roles = ANYBODY, .flags = (bits),                   \
        .request = &gy__rpc__envelope__descriptor, .answer = &gy__rpc__envelope__descriptor,   \
        .request_bytes_max = 1000, .answer_bytes_max = 1000, .serve = (how),                   \
        .request_beside_max = BESIDE_MAX, .admit = admit, .leave = leave,                      \
        .answer_beside_max = (bits) != 0 ? BESIDE_MAX : 0                                      \
    }

static const gy_rpc_method methods[] = {METHOD(GIVE, "give", give, 0),
                                        METHOD(READ, "read", read_back, GY_RPC_READS),
                                        METHOD(OTHER, "other", give, 0)};

static gy_rpc *node_of(scene *at, beside_end *end, gy_rpc_role role)
{
    gy_rpc *made = NULL;
    gy_rpc_options options = {.name = role == GY_RPC_NAMESERVER ? "server" : "client",
                              .role = role,
                              .methods = methods,
                              .method_count = GY_COUNT(methods),
                              .arg = end,
                              .shares_memory = at->pair.shares_memory,
                              .is_plaintext = at->pair.is_plain,
                              .key_file = at->pair.is_plain ? NULL : at->pair.ring};
    *end = (beside_end){0};
    assert_ok(gy_rpc_new(gy_env_real(), &options, &made));
    end->rpc = made;
    return made;
}

static bool shares_memory; /* of the scenes that are opened next */

static void open_scene(scene *at, bool is_plain)
{
    kit_pair_open(&at->pair, gy_env_real(), is_plain);
    at->pair.shares_memory = shares_memory;
    at->pair.server.rpc = node_of(at, &at->server, GY_RPC_NAMESERVER);
    at->pair.client.rpc = node_of(at, &at->client, GY_RPC_DAEMON);
    assert_ok(gy_rpc_listen(at->server.rpc, "127.0.0.1:0", at->pair.address));
    assert_ok(gy_rpc_dial(at->client.rpc, at->pair.address, &at->pair.peer));
}

static void close_scene(scene *at)
{
    kit_pair_close(&at->pair);
    gy_free(at->server.last);
}

static gy_status admit_answer(void *arg, const ProtobufCMessage *said, size_t size_bytes,
                              void **room)
{
    answer *to = arg;
    (void)said;
    if (size_bytes > to->most) {
        return gy_fail(GY_LIMIT, "%zu bytes, at most %zu", size_bytes, to->most);
    }
    to->size_bytes = size_bytes;
    *room = to->room;
    return GY_OK;
}

static void done(void *arg, gy_status status, const ProtobufCMessage *said)
{
    answer *to = arg;
    (void)said;
    to->ends++;
    to->status = status;
    snprintf(to->text, sizeof(to->text), "%s", status < 0 ? gy_error_text() : "");
}

static gy_status ask(scene *at, uint32_t type, uint64_t number, size_t size_bytes,
                     const uint8_t *data, answer *to, uint64_t *call)
{
    Gy__Rpc__Envelope request;
    gy__rpc__envelope__init(&request);
    request.number = number;
    return gy_rpc_call(at->client.rpc, at->pair.peer,
                       &(gy_rpc_request){.type = type,
                                         .message = &request.base,
                                         .deadline = GY_NEVER,
                                         .done = done,
                                         .arg = to,
                                         .beside = data,
                                         .beside_bytes = size_bytes,
                                         .admit = admit_answer},
                       call);
}

/* Is memory of a connection mapped here? */
static bool has_rings(void)
{
    char line[512];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    assert_non_null(maps);
    while (!found && fgets(line, sizeof(line), maps) != NULL) {
        found = strstr(line, "memfd:gyre-rings") != NULL;
    }
    fclose(maps);
    return found;
}

static void bytes_pass(bool is_plain)
{
    static const size_t sizes[] = {1, 4096, 4097, 262144, 262145, 1000000, BESIDE_MAX};
    scene at;
    int64_t live = gy_alloc_live();
    uint8_t *data = gy_alloc("test.beside", BESIDE_MAX);
    uint8_t *room = gy_alloc("test.beside", BESIDE_MAX);
    uint8_t *wanted = gy_alloc("test.beside", BESIDE_MAX);
    fill(wanted, BESIDE_MAX, 5);
    open_scene(&at, is_plain);
    for (size_t i = 0; i < GY_COUNT(sizes); i++) {
        answer given = {0}, got = {.room = room, .most = BESIDE_MAX};
        fill(data, sizes[i], (uint32_t)i);
        memset(room, 0, BESIDE_MAX);
        assert_ok(ask(&at, GIVE, 1, sizes[i], data, &given, NULL));
        assert_ok(ask(&at, READ, sizes[i], 0, NULL, &got, NULL));
        KIT_TURN_UNTIL(&at.pair, given.ends == 1 && got.ends == 1);
        assert_int_equal(given.status, GY_OK);
        assert_int_equal(got.status, GY_OK);
        assert_int_equal(at.server.last_bytes, sizes[i]);
        assert_memory_equal(at.server.last, data, sizes[i]);
        assert_int_equal(got.size_bytes, sizes[i]);
        assert_memory_equal(room, wanted, sizes[i]);
    }
    assert_int_equal(has_rings(), shares_memory);
    close_scene(&at);
    assert_false(has_rings());
    gy_free(data);
    gy_free(room);
    gy_free(wanted);
    assert_int_equal(gy_alloc_live(), live);
}

GY_TEST(bytes_pass_under_tls)
{
    bytes_pass(false);
}

GY_TEST(bytes_pass_in_plain_text)
{
    bytes_pass(true);
}

GY_TEST(bytes_pass_through_shared_memory)
{
    shares_memory = true;
    bytes_pass(false);
    bytes_pass(true);
    shares_memory = false;
}

GY_TEST(they_are_judged_before_memory_is_taken)
{
    scene at;
    static uint8_t data[100000];
    answer refused = {0}, given = {0}, got = {.room = data, .most = 10};
    open_scene(&at, true);
    assert_status(ask(&at, GIVE, 1, BESIDE_MAX + 1, data, &given, NULL), GY_LIMIT);
    assert_non_null(strstr(gy_error_text(), "8388609 bytes beside the message"));
    assert_ok(ask(&at, GIVE, 13, sizeof(data), data, &refused, NULL));
    assert_ok(ask(&at, READ, 5000, 0, NULL, &got, NULL));
    assert_ok(ask(&at, GIVE, 1, sizeof(data), data, &given, NULL));
    KIT_TURN_UNTIL(&at.pair, given.ends == 1);
    assert_int_equal(refused.status, GY_ARG);
    assert_non_null(strstr(refused.text, "give: thirteen with 100000 bytes"));
    assert_int_equal(got.status, GY_LIMIT);
    assert_non_null(strstr(got.text, "5000 bytes, at most 10"));
    assert_int_equal(given.status, GY_OK);
    assert_int_equal(at.server.served, 2); /* the read and the second gift */
    close_scene(&at);
}

/* Ends calls when some of their bytes have left: a part of a frame, a whole one. */
static void calls_end_midway(void)
{
    scene at;
    uint8_t *data = gy_alloc("test.beside", BESIDE_MAX);
    int64_t live = gy_alloc_live();
    open_scene(&at, true);
    KIT_TURN_UNTIL(&at.pair, gy_rpc_next(at.client.rpc).at_ns > 0);
    int left = 0;
    for (uint64_t i = 0; i < 40; i++) {
        answer ended = {0}, given = {0};
        uint64_t number = 0;
        fill(data, BESIDE_MAX, (uint32_t)i);
        assert_ok(ask(&at, GIVE, 1, BESIDE_MAX, data, &ended, &number));
        for (uint64_t turn = 0; turn < i && ended.ends == 0; turn++) {
            (void)gy_rpc_turn(at.client.rpc, (gy_deadline){0});
            if (turn % 3 == 2) {
                (void)gy_rpc_turn(at.server.rpc, (gy_deadline){0});
            }
        }
        gy_rpc_cancel(at.client.rpc, at.pair.peer, number);
        assert_ok(ask(&at, OTHER, 1, 5000, data + 1, &given, NULL));
        KIT_TURN_UNTIL(&at.pair, given.ends == 1 && ended.ends == 1);
        assert_int_equal(given.status, GY_OK);
        assert_true(ended.status == GY_CANCELLED || ended.status == GY_OK);
        assert_int_equal(at.server.last_bytes, 5000);
        assert_memory_equal(at.server.last, data + 1, 5000);
        left = at.server.left;
    }
    gy_rpc_facts facts;
    assert_true(gy_rpc_look(at.client.rpc, at.pair.peer, &facts) && facts.is_up);
    assert_true(left > 0);
    close_scene(&at);
    assert_int_equal(gy_alloc_live(), live);
    gy_free(data);
}

GY_TEST(a_call_that_ends_midway_leaves_a_connection)
{
    calls_end_midway();
}

GY_TEST(a_call_that_ends_midway_leaves_shared_memory)
{
    shares_memory = true;
    calls_end_midway();
    shares_memory = false;
}

GY_TEST_MAIN(NULL, NULL)
