/*
 * Goal: nodes on real sockets, under TLS and plain: calls are answered, refused, cancelled,
 * late; they outlive connections and do not outlive the peer; whoever is silent is found out.
 */
#include "rpc/carrier.h"
#include "rpc/rpc.h"

#include <poll.h>

#include "rpc_pair.h"

static bool shares_memory; /* of the nodes that are made next */

static void new_node(kit_pair *at, kit_end *end, const char *name, gy_rpc_role role)
{
    gy_rpc_options options = kit_options(end, name, role);
    options.key_file = at->is_plain ? NULL : at->ring;
    options.is_plaintext = at->is_plain;
    options.shares_memory = shares_memory;
    options.retry_ns_min = 5000000;
    options.retry_ns_max = 20000000;
    options.beat_ns = 40000000;
    options.dead_ns = 400000000;
    options.linger_ns = 500000000;
    options.queue_bytes = 256 * 1024;
    *end = (kit_end){0};
    assert_ok(gy_rpc_new(gy_env_real(), &options, &end->rpc));
}

static void open_scene(kit_pair *at, bool is_plain, gy_rpc_role role)
{
    kit_pair_open(at, gy_env_real(), is_plain);
    new_node(at, &at->server, "name server", GY_RPC_NAMESERVER);
    new_node(at, &at->client, "one who asks", role);
    assert_ok(gy_rpc_listen(at->server.rpc, "127.0.0.1:0", at->address));
    assert_ok(gy_rpc_dial(at->client.rpc, at->address, &at->peer));
}

/* ---- Calls ---- */

static void calls_are_answered(bool is_plain)
{
    kit_pair at;
    enum { CALLS = 300 };
    static kit_call calls[CALLS];
    int64_t live = gy_alloc_live();
    open_scene(&at, is_plain, GY_RPC_DAEMON);
    for (uint64_t i = 0; i < CALLS; i++) { /* before there is a connection */
        assert_ok(kit_ask(at.client.rpc, at.peer, KIT_ECHO, i, GY_NEVER, &calls[i]));
    }
    KIT_TURN_UNTIL(&at, calls[CALLS - 1].ends == 1);
    for (uint64_t i = 0; i < CALLS; i++) {
        assert_int_equal(calls[i].ends, 1);
        assert_int_equal(calls[i].status, GY_OK);
        assert_int_equal(calls[i].number, i);
    }
    assert_int_equal(at.server.echoed, CALLS);
    /* And back, over the connection that the other end made. */
    gy_rpc_facts facts;
    assert_true(gy_rpc_look(at.server.rpc, at.server.peer, &facts));
    assert_int_equal(facts.role, GY_RPC_DAEMON);
    assert_non_null(strstr(facts.text, "one who asks at 127.0.0.1:"));
    assert_ok(kit_ask(at.server.rpc, at.server.peer, KIT_ECHO, 77, GY_NEVER, &calls[0]));
    KIT_TURN_UNTIL(&at, calls[0].ends == 1);
    assert_int_equal(calls[0].number, 77);
    assert_true(gy_rpc_look(at.client.rpc, at.peer, &facts));
    assert_true(facts.is_up && facts.calls == 0 && facts.role == GY_RPC_NAMESERVER);
    kit_pair_close(&at);
    assert_int_equal(gy_alloc_live(), live);
}

GY_TEST(calls_are_answered_under_tls)
{
    calls_are_answered(false);
}

GY_TEST(calls_are_answered_in_plain_text)
{
    calls_are_answered(true);
}

GY_TEST(large_messages_pass)
{
    kit_pair at;
    kit_call call = {.status = GY_AGAIN};
    Gy__Rpc__Envelope request;
    static uint8_t body[KIT_BYTES + 1];
    gy__rpc__envelope__init(&request);
    open_scene(&at, false, GY_RPC_DAEMON);
    request.body = (ProtobufCBinaryData){.len = KIT_BYTES - 100, .data = body};
    gy_rpc_request what = {.type = KIT_ECHO,
                           .message = &request.base,
                           .deadline = GY_NEVER,
                           .done = kit_done,
                           .arg = &call};
    assert_ok(gy_rpc_call(at.client.rpc, at.peer, &what, NULL));
    KIT_TURN_UNTIL(&at, call.ends == 1);
    assert_int_equal(call.size_bytes, KIT_BYTES - 100);
    request.body.len = KIT_BYTES + 1;
    assert_status(gy_rpc_call(at.client.rpc, at.peer, &what, NULL), GY_LIMIT);
    kit_pair_close(&at);
}

GY_TEST(failures_come_with_words)
{
    kit_pair at;
    kit_call calls[4];
    static const struct {
        uint32_t type;
        gy_status status;
        const char *text;
    } wanted[] = {
        {KIT_BROKEN, GY_NUMERIC, "break: seven is not eight"},
        {KIT_GUARDED, GY_STATE, "start a vertex: a watcher may not call it"},
        {KIT_MISSING, GY_UNSUPPORTED, "does not serve it"},
        {KIT_LATER, GY_TIMEOUT, "answer later: no answer by the deadline"},
    };
    open_scene(&at, false, GY_RPC_WATCHER);
    KIT_TURN_UNTIL(&at, at.client.ups == 1);
    for (size_t i = 0; i < 4; i++) {
        double wait_s = wanted[i].status == GY_TIMEOUT ? 0.05 : 20;
        assert_ok(kit_ask(at.client.rpc, at.peer, wanted[i].type, i, gy_deadline_after(wait_s),
                          &calls[i]));
        KIT_TURN_UNTIL(&at, calls[i].ends == 1);
        assert_int_equal(calls[i].status, wanted[i].status);
        if (strstr(calls[i].text, wanted[i].text) == NULL ||
            strstr(calls[i].text, "name server at 127.0.0.1:") == NULL) {
            fail_msg("\"%s\", expected \"%s\"", calls[i].text, wanted[i].text);
        }
    }
    KIT_TURN_UNTIL(&at, at.server.cancelled == 1); /* of the one that was late */
    assert_int_equal(at.server.echoed, 0);
    assert_int_equal(at.client.downs, 0);
    kit_pair_close(&at);
}

GY_TEST(calls_are_cancelled)
{
    kit_pair at;
    kit_call call = {.status = GY_AGAIN};
    Gy__Rpc__Envelope request;
    uint64_t number = 0;
    gy__rpc__envelope__init(&request);
    open_scene(&at, false, GY_RPC_DAEMON);
    gy_rpc_request what = {.type = KIT_LATER,
                           .message = &request.base,
                           .deadline = GY_NEVER,
                           .done = kit_done,
                           .arg = &call};
    request.number = 1;
    assert_ok(gy_rpc_call(at.client.rpc, at.peer, &what, &number));
    KIT_TURN_UNTIL(&at, at.server.held_count == 1);
    gy_rpc_cancel(at.client.rpc, at.peer, number);
    gy_rpc_cancel(at.client.rpc, at.peer, number);
    assert_int_equal(call.ends, 0); /* never within */
    KIT_TURN_UNTIL(&at, at.server.cancelled == 1);
    assert_int_equal(call.ends, 1);
    assert_int_equal(call.status, GY_CANCELLED);
    assert_ok(gy_rpc_answer(at.server.rpc, &at.server.held[0], &request.base));
    call = (kit_call){0};
    assert_ok(gy_rpc_call(at.client.rpc, at.peer, &what, &number));
    gy_rpc_drop(at.client.rpc, at.peer);
    assert_int_equal(call.ends, 0);
    KIT_TURN_UNTIL(&at, call.ends == 1 && at.server.gones == 1);
    assert_int_equal(call.status, GY_CANCELLED);
    assert_status(gy_rpc_call(at.client.rpc, at.peer, &what, &number), GY_PEER);
    kit_pair_close(&at);
}

GY_TEST(tells_arrive_in_order)
{
    kit_pair at;
    Gy__Rpc__Envelope what;
    gy__rpc__envelope__init(&what);
    open_scene(&at, false, GY_RPC_DAEMON);
    what.number = 1;
    assert_status(gy_rpc_tell(at.client.rpc, at.peer, KIT_TOLD, &what.base), GY_PEER);
    KIT_TURN_UNTIL(&at, at.client.ups == 1);
    for (uint64_t i = 1; i <= 50; i++) {
        what.number = i;
        assert_ok(gy_rpc_tell(at.client.rpc, at.peer, KIT_TOLD, &what.base));
    }
    KIT_TURN_UNTIL(&at, at.server.told == 50);
    assert_int_equal(at.server.last_told, 50);
    kit_pair_close(&at);
}

/* ---- Connections that break ---- */

GY_TEST(calls_outlive_connections)
{
    kit_pair at;
    kit_middle way;
    kit_call calls[3];
    Gy__Rpc__Envelope answer;
    gy__rpc__envelope__init(&answer);
    open_scene(&at, false, GY_RPC_DAEMON);
    kit_middle_open(&way, at.address);
    gy_rpc_drop(at.client.rpc, at.peer);
    assert_ok(gy_rpc_dial(at.client.rpc, way.address, &at.peer));
    assert_ok(kit_ask(at.client.rpc, at.peer, KIT_LATER, 1, gy_deadline_after(20), &calls[0]));
    KIT_PASS_UNTIL(&at, &way, at.server.held_count == 1);
    kit_middle_cut(&way); /* it runs: the answer comes over the next connection */
    KIT_PASS_UNTIL(&at, &way, at.server.downs == 1);
    answer.number = 5;
    assert_ok(gy_rpc_answer(at.server.rpc, &at.server.held[0], &answer.base));
    KIT_PASS_UNTIL(&at, &way, calls[0].ends == 1);
    assert_int_equal(calls[0].status, GY_OK);
    assert_int_equal(calls[0].number, 5);
    assert_int_equal(at.server.held_count, 1); /* carried out once */
    assert_int_equal(at.client.anews + at.server.gones, 0);
    /* The answer is on its way when the connection breaks. */
    assert_ok(kit_ask(at.client.rpc, at.peer, KIT_LATER, 2, gy_deadline_after(20), &calls[1]));
    KIT_PASS_UNTIL(&at, &way, at.server.held_count == 2);
    way.is_stopped = true;
    assert_ok(gy_rpc_answer(at.server.rpc, &at.server.held[1], &answer.base));
    (void)gy_rpc_turn(at.server.rpc, (gy_deadline){0});
    kit_middle_cut(&way);
    way.is_stopped = false;
    KIT_PASS_UNTIL(&at, &way, calls[1].ends == 1);
    assert_int_equal(calls[1].status, GY_OK);
    assert_int_equal(at.server.held_count, 2);
    /* Silence is a broken connection. */
    assert_ok(kit_ask(at.client.rpc, at.peer, KIT_LATER, 3, gy_deadline_after(20), &calls[2]));
    KIT_PASS_UNTIL(&at, &way, at.server.held_count == 3);
    way.is_stopped = true;
    int downs = at.client.downs;
    KIT_PASS_UNTIL(&at, &way, at.client.downs == downs + 1);
    assert_non_null(strstr(at.client.why, "sent nothing for 0."));
    way.is_stopped = false;
    KIT_PASS_UNTIL(&at, &way, at.client.ups == 4);
    assert_ok(gy_rpc_answer(at.server.rpc, &at.server.held[2], &answer.base));
    KIT_PASS_UNTIL(&at, &way, calls[2].ends == 1);
    assert_int_equal(at.server.held_count, 3);
    kit_middle_close(&way);
    kit_pair_close(&at);
}

GY_TEST(another_life_is_another_peer)
{
    kit_pair at;
    kit_call sent, unsent;
    char address[GY_RPC_ADDRESS_BYTES];
    open_scene(&at, false, GY_RPC_DAEMON);
    assert_ok(kit_ask(at.client.rpc, at.peer, KIT_LATER, 1, gy_deadline_after(20), &sent));
    KIT_TURN_UNTIL(&at, at.server.held_count == 1);
    gy_rpc_free(at.server.rpc);
    at.server.rpc = NULL;
    KIT_TURN_UNTIL(&at, at.client.downs == 1);
    assert_non_null(strstr(at.client.why, "it has ended"));
    assert_ok(kit_ask(at.client.rpc, at.peer, KIT_ECHO, 2, gy_deadline_after(20), &unsent));
    new_node(&at, &at.server, "name server", GY_RPC_NAMESERVER);
    assert_ok(gy_rpc_listen(at.server.rpc, at.address, address));
    KIT_TURN_UNTIL(&at, sent.ends == 1 && unsent.ends == 1);
    assert_int_equal(sent.status, GY_PEER);
    assert_non_null(strstr(sent.text, "the peer restarted"));
    assert_int_equal(unsent.status, GY_OK);
    assert_int_equal(at.client.anews, 1);
    /* One that dialled and does not come back is forgotten. */
    gy_rpc_free(at.client.rpc);
    at.client.rpc = NULL;
    KIT_TURN_UNTIL(&at, at.server.gones == 1);
    kit_pair_close(&at);
}

GY_TEST(nobody_answers_by_the_deadline)
{
    kit_pair at;
    kit_call call;
    open_scene(&at, false, GY_RPC_DAEMON);
    gy_rpc_free(at.server.rpc);
    at.server.rpc = NULL;
    assert_ok(kit_ask(at.client.rpc, at.peer, KIT_ECHO, 1, gy_deadline_after(1), &call));
    KIT_TURN_UNTIL(&at, call.ends == 1);
    assert_int_equal(call.status, GY_PEER);
    assert_non_null(strstr(call.text, at.address));
    assert_non_null(strstr(call.text, "Connection refused"));
    kit_pair_close(&at);
}

GY_TEST(a_slow_peer_pushes_back)
{
    kit_pair at;
    enum { CALLS = 4000 };
    static kit_call calls[CALLS];
    static uint8_t body[2000];
    Gy__Rpc__Envelope request;
    size_t made = 0;
    gy_status status = GY_OK;
    gy__rpc__envelope__init(&request);
    memset(calls, 0, sizeof(calls));
    open_scene(&at, false, GY_RPC_DAEMON);
    KIT_TURN_UNTIL(&at, at.client.ups == 1);
    request.body = (ProtobufCBinaryData){.len = sizeof(body), .data = body};
    while (status == GY_OK && made < CALLS) {
        status = gy_rpc_call(at.client.rpc, at.peer,
                             &(gy_rpc_request){.type = KIT_ECHO,
                                               .message = &request.base,
                                               .deadline = GY_NEVER,
                                               .done = kit_done,
                                               .arg = &calls[made]},
                             NULL);
        made += status == GY_OK;
    }
    assert_int_equal(status, GY_AGAIN);
    assert_in_range(made, 100, 160); /* 256 KiB */
    KIT_TURN_UNTIL(&at, at.client.drains == 1);
    KIT_TURN_UNTIL(&at, calls[made - 1].ends == 1);
    assert_int_equal(at.server.echoed, made);
    kit_pair_close(&at);
}

/* ---- Keys ---- */

GY_TEST(keys_are_rotated_in_service)
{
    kit_pair at;
    kit_call call;
    uint64_t epoch = 0;
    open_scene(&at, false, GY_RPC_DAEMON);
    KIT_TURN_UNTIL(&at, at.client.ups == 1);
    assert_ok(gy_keyring_rotate(at.ring, &epoch));
    assert_int_equal(epoch, 2);
    assert_ok(kit_ask(at.client.rpc, at.peer, KIT_ECHO, 1, gy_deadline_after(20), &call));
    KIT_TURN_UNTIL(&at, call.ends == 1 && call.status == GY_OK);
    assert_int_equal(at.client.downs, 0); /* nothing was restarted */
    assert_ok(gy_keyring_retire(at.ring, 1));
    KIT_TURN_UNTIL(&at, at.client.ups == 2); /* by the new key */
    assert_ok(kit_ask(at.client.rpc, at.peer, KIT_ECHO, 2, gy_deadline_after(20), &call));
    KIT_TURN_UNTIL(&at, call.ends == 1 && call.status == GY_OK);
    kit_pair_close(&at);
}

GY_TEST(no_key_no_service)
{
    kit_end end = {0};
    gy_rpc_options options = kit_options(&end, "nobody", GY_RPC_DAEMON);
    char address[GY_RPC_ADDRESS_BYTES];
    gy_rpc_peer peer = 0;
    assert_status(gy_rpc_new(gy_env_real(), &options, &end.rpc), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "no cluster key"));
    options.is_plaintext = true;
    assert_ok(gy_rpc_new(gy_env_real(), &options, &end.rpc));
    assert_status(gy_rpc_listen(end.rpc, "0.0.0.0:0", address), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "not on the loopback"));
    assert_ok(gy_rpc_dial(end.rpc, "192.0.2.1:7000", &peer));
    kit_call call;
    assert_ok(kit_ask(end.rpc, peer, KIT_ECHO, 1, gy_deadline_after(0.05), &call));
    while (call.ends == 0) {
        (void)gy_rpc_turn(end.rpc, gy_deadline_after(1));
    }
    assert_int_equal(call.status, GY_PEER);
    assert_non_null(strstr(call.text, "needs a key"));
    gy_rpc_free(end.rpc);
}

/* Another loop waits for the node's descriptor. */
GY_TEST(another_loop_drives_it)
{
    kit_pair at;
    kit_call call;
    open_scene(&at, false, GY_RPC_DAEMON);
    assert_ok(kit_ask(at.client.rpc, at.peer, KIT_ECHO, 9, gy_deadline_after(20), &call));
    gy_deadline last = gy_deadline_after(20);
    gy_rpc *nodes[] = {at.client.rpc, at.server.rpc};
    for (int i = 0; i < 2; i++) {
        (void)gy_rpc_turn(nodes[i], (gy_deadline){0});
    }
    while (call.ends == 0 && gy_now_ns(gy_env_real()) < last.at_ns) {
        struct pollfd look[2];
        int64_t now_ns = gy_now_ns(gy_env_real()), until_ns = last.at_ns;
        for (int i = 0; i < 2; i++) {
            look[i] = (struct pollfd){.fd = gy_rpc_fd(nodes[i]), .events = POLLIN};
            until_ns = GY_MIN(until_ns, gy_rpc_next(nodes[i]).at_ns);
        }
        int wait_ms = until_ns <= now_ns ? 0 : (int)((until_ns - now_ns) / 1000000 + 1);
        /* All that happens here comes over sockets: nothing waits for an alarm. */
        assert_true(poll(look, 2, wait_ms) > 0 || wait_ms == 0);
        for (int i = 0; i < 2; i++) {
            if (look[i].revents != 0 ||
                gy_rpc_next(nodes[i]).at_ns <= gy_now_ns(gy_env_real())) {
                (void)gy_rpc_turn(nodes[i], (gy_deadline){0});
            }
        }
    }
    assert_int_equal(call.number, 9);
    kit_pair_close(&at);
}

/* ---- Memory that is not there ---- */

GY_TEST(no_memory_is_no_harm)
{
    kit_pair at;
    kit_call call;
    gy_log_set_level(GY_LOG_ERROR);
    for (int64_t n = 1; n < 120; n += 3) {
        open_scene(&at, true, GY_RPC_DAEMON);
        gy_alloc_fail_after(n);
        gy_status status =
            kit_ask(at.client.rpc, at.peer, KIT_ECHO, 1, gy_deadline_after(20), &call);
        if (status == GY_OK) {
            KIT_TURN_UNTIL(&at, call.ends == 1);
            assert_true(call.status == GY_OK || call.status == GY_NOMEM);
        } else {
            assert_int_equal(status, GY_NOMEM);
        }
        gy_alloc_fail_after(0);
        kit_pair_close(&at);
    }
    gy_log_set_level(GY_LOG_WARN);
}

/* All of it through shared memory, but for what a way through spoils: it passes bells alone. */
GY_TEST(the_same_through_shared_memory)
{
    static void (*const tests[])(void **state) = {
        calls_are_answered_under_tls, calls_are_answered_in_plain_text,
        large_messages_pass,          failures_come_with_words,
        calls_are_cancelled,          tells_arrive_in_order,
        another_life_is_another_peer, a_slow_peer_pushes_back,
        keys_are_rotated_in_service,  another_loop_drives_it,
        no_memory_is_no_harm};
    shares_memory = true;
    for (size_t i = 0; i < GY_COUNT(tests); i++) {
        tests[i](state);
    }
    shares_memory = false;
}

GY_TEST_MAIN(NULL, NULL)
