/* Fuzz target: whatever a peer that proved its key says, a node lives on: it answers, refuses
 * or hangs up, and keeps no more than it should. The input is frames without their heads: kind,
 * type, length, body. */
#include "rpc/link_fuzz.h"

#include "rpc/proto/rpc.pb-c.h"
#include "transport/net.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static gy_rpc *node;

static gy_status serve(void *arg, const gy_rpc_asked *asked, const ProtobufCMessage *request)
{
    const Gy__Rpc__Envelope *asks = (const Gy__Rpc__Envelope *)request;
    (void)arg;
#ifdef GYRE_PLANTED_BUG
    /* room for sixteen: the number is believed to be one of them */
    uint8_t *seen = gy_alloc("fuzz", 16);
    if (seen != NULL && asks->number < 4096) {
        ((volatile uint8_t *)seen)[asks->number] = 1;
    }
    gy_free(seen);
#endif
    if (asks->number % 3 == 0) {
        return GY_OK; /* never answered */
    }
    return asked->number == 0 ? GY_OK : gy_rpc_answer(node, asked, request);
}

/* Requests of which some carry bytes beside them. */
static gy_status admit(void *arg, const gy_rpc_asked *asked, const ProtobufCMessage *request,
                       size_t size_bytes, void **room)
{
    const Gy__Rpc__Envelope *asks = (const Gy__Rpc__Envelope *)request;
    (void)arg;
    (void)asked;
    if (asks->number % 5 == 4) {
        return gy_fail(GY_LIMIT, "no room");
    }
    *room = gy_alloc("fuzz", size_bytes);
    return *room != NULL ? GY_OK : GY_NOMEM;
}

static void leave(void *arg, void *room)
{
    (void)arg;
    gy_free(room);
}

static gy_status serve_bytes(void *arg, const gy_rpc_asked *asked,
                             const ProtobufCMessage *request)
{
    const Gy__Rpc__Envelope *asks = (const Gy__Rpc__Envelope *)request;
    (void)arg;
    if (asks->number % 3 == 0) { /* the bytes go back beside the answer */
        return gy_rpc_answer_with(node, asked, request,
                                  &(gy_rpc_lent){.data = asked->beside,
                                                 .size_bytes = asked->beside_bytes,
                                                 .release = gy_free,
                                                 .arg = asked->beside});
    }
    gy_free(asked->beside);
    return asks->number % 3 == 1 ? GY_OK : gy_rpc_answer(node, asked, request);
}

static const gy_rpc_method methods[] = {
    {.type = 16,
     .name = "ask",
     .roles = GY_RPC_MAY(GY_RPC_DAEMON),
     .request = &gy__rpc__envelope__descriptor,
     .answer = &gy__rpc__envelope__descriptor,
     .request_bytes_max = 2000,
     .answer_bytes_max = 1000,
     .serve = serve},
    {.type = 17,
     .name = "tell",
     .roles = GY_RPC_MAY(GY_RPC_DAEMON),
     .request = &gy__rpc__envelope__descriptor,
     .request_bytes_max = 2000,
     .serve = serve},
    {.type = 18,
     .name = "read",
     .roles = GY_RPC_MAY(GY_RPC_DAEMON),
     .flags = GY_RPC_READS,
     .request = &gy__rpc__envelope__descriptor,
     .answer = &gy__rpc__envelope__descriptor,
     .request_bytes_max = 2000,
     .answer_bytes_max = 2000,
     .request_beside_max = 8000,
     .answer_beside_max = 8000,
     .serve = serve_bytes,
     .admit = admit,
     .leave = leave},
};

static void say(gy_rpc_link *link, uint64_t tag, uint64_t sequence, const uint8_t *body,
                size_t size)
{
    uint8_t *bytes = gy_alloc("fuzz", GY_FRAME_BYTES + size);
    GY_ASSERT(bytes != NULL);
    gy_transport_frame_write(
        &(gy_transport_frame){
            .type = GY_FRAME_MESSAGE, .size_bytes = size, .tag = tag, .sequence = sequence},
        bytes);
    memcpy(bytes + GY_FRAME_BYTES, body, size);
    gy_rpc_link_input(node, link, bytes, GY_FRAME_BYTES + size);
    gy_free(bytes);
    if (!link_fuzz_is_closed) {
        const void *out = NULL;
        size_t more = 0;
        while ((more = gy_rpc_link_output(link, &out)) > 0) {
            gy_rpc_link_sent(node, link, more);
        }
    }
}

static uint64_t greet(gy_rpc_link *link)
{
    Gy__Rpc__Hello hello;
    uint8_t id[16] = {1}, bytes[256];
    gy__rpc__hello__init(&hello);
    hello.version = 1;
    hello.from = (ProtobufCBinaryData){.len = sizeof(id), .data = id};
    hello.connection = 1;
    hello.role = GY_RPC_DAEMON;
    hello.name = (char *)(uintptr_t) "fuzz";
    say(link, 1, 0, bytes, protobuf_c_message_pack(&hello.base, bytes));
    GY_ASSERT(gy_rpc_link_is_ready(link));
    return 1;
}

/* An odd first byte: the peer has said who it is already. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gy_rpc_options options = {.name = "node",
                              .role = GY_RPC_NAMESERVER,
                              .methods = methods,
                              .method_count = GY_COUNT(methods)};
    gy_rpc_link *link = NULL;
    if (size < 1) {
        return 0;
    }
    link_fuzz_is_closed = false;
    gy_log_set_level(GY_LOG_ERROR);
    GY_ASSERT(gy_rpc_new_carried(gy_env_real(), &options, &link_fuzz_ops, NULL, &node) ==
              GY_OK);
    GY_ASSERT(gy_rpc_link_in(node, "fuzz", &link) == GY_OK);
    gy_rpc_link_up(node, link, GY_RPC_DAEMON, "");
    uint64_t sequence = data[0] % 2 == 1 ? greet(link) : 0;
    for (size_t at = 1; at + 4 <= size && !link_fuzz_is_closed;) {
        uint64_t tag = (uint64_t)data[at] | (uint64_t)data[at + 1] << 8;
        size_t bytes = (size_t)data[at + 2] | (size_t)(data[at + 3] & 15) << 8;
        at += 4;
        bytes = GY_MIN(bytes, size - at);
        say(link, tag, sequence++, data + at, bytes);
        at += bytes;
    }
    if (!link_fuzz_is_closed) {
        gy_rpc_tick(node);
    }
    gy_rpc_free(node);
    return 0;
}
