/* Fuzz target: whatever a worker that proved its key says to a parameter server, with whatever
 * bytes beside it, is applied or refused, and the server lives on. The input is calls: a byte
 * for the method, then its fields or (raw) its packed message, then the bytes beside it. */
#include "ps/server_priv.h"
#include "rpc/link_fuzz.h"
#include "transport/net.h"

#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- The input ---- */

typedef struct input {
    const uint8_t *at, *end;
} input;

static uint8_t byte_of(input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

/* A small number, or now and then one of the ends. */
static uint64_t number_of(input *in)
{
    uint8_t byte = byte_of(in);
    return byte == 255 ? UINT64_MAX : byte == 254 ? (uint64_t)1 << 63 : byte;
}

/* ---- A link without a network ---- */

static gy_rpc *node;
static gy_rpc_link *link_to;
static uint64_t sequence, calls;

enum { TAG_HELLO = 1, TAG_CALL = 5, TAG_BESIDE = 9 }; /* of rpc's frames */

static void say(uint64_t tag, const uint8_t *body, size_t size)
{
    uint8_t head[GY_FRAME_BYTES];
    const void *out = NULL;
    size_t more = 0;
    if (link_fuzz_is_closed || size == 0) {
        return;
    }
    gy_transport_frame_write(
        &(gy_transport_frame){
            .type = GY_FRAME_MESSAGE, .size_bytes = size, .tag = tag, .sequence = sequence++},
        head);
    gy_rpc_link_input(node, link_to, head, sizeof(head));
    if (!link_fuzz_is_closed) {
        gy_rpc_link_input(node, link_to, body, size);
    }
    while (!link_fuzz_is_closed && (more = gy_rpc_link_output(link_to, &out)) > 0) {
        gy_rpc_link_sent(node, link_to, more);
    }
}

/* Fields of rpc's messages, packed by hand: their types are rpc's own. */
static size_t put_varint(uint8_t *to, uint64_t value)
{
    size_t size = 0;
    while (value > 127) {
        to[size++] = (uint8_t)(value | 128);
        value >>= 7;
    }
    to[size++] = (uint8_t)value;
    return size;
}

static size_t put_number(uint8_t *to, int field, uint64_t value)
{
    to[0] = (uint8_t)(field << 3);
    return 1 + put_varint(to + 1, value);
}

static size_t put_bytes(uint8_t *to, int field, const void *bytes, size_t size_bytes)
{
    to[0] = (uint8_t)(field << 3 | 2);
    size_t size = 1 + put_varint(to + 1, size_bytes);
    memcpy(to + size, bytes, size_bytes);
    return size + size_bytes;
}

static void greet(void)
{
    uint8_t bytes[128], id[16] = {1};
    size_t size = put_number(bytes, 1, 1);
    size += put_bytes(bytes + size, 2, id, sizeof(id));
    size += put_number(bytes + size, 3, 1);
    size += put_number(bytes + size, 4, GY_RPC_WORKER);
    size += put_bytes(bytes + size, 5, "fuzz", 4);
    say(TAG_HELLO, bytes, size);
    GY_ASSERT(gy_rpc_link_is_ready(link_to));
}

static void call(uint32_t type, const uint8_t *body, size_t size, input *in)
{
    uint8_t bytes[2048];
    size_t beside = (size_t)byte_of(in) * 4;
    beside = GY_MIN(beside, (size_t)(in->end - in->at));
    size_t used = put_number(bytes, 1, ++calls);
    used += put_bytes(bytes + used, 5, body, size);
    used += beside > 0 ? put_number(bytes + used, 7, beside) : 0;
    say((uint64_t)type << 8 | TAG_CALL, bytes, used);
    if (beside > 0) {
        say(TAG_BESIDE, in->at, beside);
        in->at += beside;
    }
}

/* ---- Messages ---- */

static gy_ps_server server;

static uint64_t table_of(input *in)
{
    uint8_t byte = byte_of(in);
    return byte == 255 ? byte : (uint64_t)server.life << 32 | byte % 4;
}

static size_t open_of(input *in, uint8_t *out)
{
    double numbers[PS_NUMBERS];
    char name[] = "t0";
    Gy__Ps__Table shape;
    Gy__Ps__Open open;
    uint8_t bits = byte_of(in);
    gy__ps__open__init(&open);
    name[1] = (char)('0' + (byte_of(in) & 3));
    gy_ps_table_options table = {.dtype = bits % 3 == 0   ? GY_F32
                                          : bits % 3 == 1 ? GY_F64
                                                          : GY_I64,
                                 .is_sparse = (bits & 8) != 0,
                                 .is_by_range = (bits & 16) != 0,
                                 .takes_non_finite = (bits & 32) != 0,
                                 .function = (bits & 64) != 0 ? "seen" : NULL};
    table.width = byte_of(in);
    table.rows = number_of(in) % 5000;
    table.update = (gy_ps_update)(byte_of(in) % (GY_PS_UPDATES + 1));
    table.sync.rule = (gy_ps_rule)(byte_of(in) % (GY_PS_RULES + 1));
    table.sync.bound = byte_of(in);
    table.rate = byte_of(in);
    gy_ps_table_tell(name, &table, numbers, &shape);
    open.table = &shape;
    open.part = byte_of(in) % 4;
    open.parts = byte_of(in) % 4;
    open.worker = (uint32_t)number_of(in);
    open.workers = byte_of(in);
    open.client = byte_of(in) % 2;
    return gy__ps__open__pack(&open, out);
}

static size_t push_of(input *in, uint8_t *out)
{
    Gy__Ps__Push one;
    uint8_t bits = byte_of(in);
    gy__ps__push__init(&one);
    one.table = table_of(in);
    one.worker = byte_of(in) % 8;
    one.client = bits & 1;
    one.number = byte_of(in);
    one.clock = byte_of(in);
    one.first = number_of(in);
    one.count = number_of(in);
    one.is_put = (bits & 2) != 0;
    one.list_slot = byte_of(in) % 11;
    one.list_number = byte_of(in);
    one.list_is_known = (bits & 4) != 0;
    return gy__ps__push__pack(&one, out);
}

static size_t pull_of(input *in, uint8_t *out)
{
    Gy__Ps__Pull one;
    uint8_t bits = byte_of(in);
    gy__ps__pull__init(&one);
    one.table = table_of(in);
    one.worker = byte_of(in) % 8;
    one.client = bits & 1;
    one.clock = byte_of(in);
    one.first = number_of(in);
    one.count = number_of(in);
    one.list_slot = byte_of(in) % 11;
    one.list_number = byte_of(in);
    one.list_is_known = (bits & 4) != 0;
    return gy__ps__pull__pack(&one, out);
}

static size_t clock_of(input *in, uint8_t *out)
{
    Gy__Ps__Clock one;
    gy__ps__clock__init(&one);
    one.table = table_of(in);
    one.worker = byte_of(in) % 8;
    one.client = byte_of(in) % 2;
    one.clock = byte_of(in);
    return gy__ps__clock__pack(&one, out);
}

static size_t leave_of(input *in, uint8_t *out)
{
    Gy__Ps__Leave one;
    gy__ps__leave__init(&one);
    one.table = table_of(in);
    one.worker = byte_of(in) % 8;
    one.client = byte_of(in) % 2;
    return gy__ps__leave__pack(&one, out);
}

static void next_call(input *in)
{
    uint8_t body[1024], method = byte_of(in);
    uint32_t type = PS_OPEN + (uint32_t)method % PS_METHODS;
    size_t size = 0;
    if ((method & 128) != 0) {
        size = byte_of(in);
        size = GY_MIN(size, (size_t)(in->end - in->at));
        memcpy(body, in->at, size);
        in->at += size;
    } else if (type == PS_OPEN) {
        size = open_of(in, body);
    } else if (type == PS_PUSH) {
        size = push_of(in, body);
    } else if (type == PS_PULL) {
        size = pull_of(in, body);
    } else if (type == PS_CLOCK) {
        size = clock_of(in, body);
    } else if (type == PS_LEAVE) {
        size = leave_of(in, body);
    }
    call(type, body, size, in);
}

/* ---- The target ---- */

static void see(void *arg, uint64_t key, void *row, const void *gradient, uint32_t width,
                double rate)
{
    (void)arg;
    (void)rate;
#ifdef GYRE_PLANTED_BUG
    /* room for sixty-four: the key is believed to be one of them */
    uint8_t *seen = gy_alloc("fuzz", 64);
    if (seen != NULL && key < 4096) {
        ((volatile uint8_t *)seen)[key] = 1;
    }
    gy_free(seen);
#else
    (void)key;
#endif
    for (uint32_t i = 0; i < width; i++) {
        ((float *)row)[i] += ((const float *)gradient)[i];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const gy_ps_named_function functions[] = {{"seen", see, NULL}};
    input in = {data, data + size};
    gy_log_set_level(GY_LOG_ERROR);
    link_fuzz_is_closed = false;
    sequence = calls = 0;
    GY_ASSERT(gy_ps_server_init(&server, gy_env_real()) == GY_OK);
    server.functions = functions;
    server.function_count = GY_COUNT(functions);
    gy_rpc_options options = gy_ps_server_node(&server);
    GY_ASSERT(gy_rpc_new_carried(gy_env_real(), &options, &link_fuzz_ops, NULL, &node) ==
              GY_OK);
    server.rpc = node;
    GY_ASSERT(gy_rpc_link_in(node, "fuzz", &link_to) == GY_OK);
    gy_rpc_link_up(node, link_to, GY_RPC_WORKER, "");
    greet();
    for (int i = 0; i < 64 && in.at < in.end && !link_fuzz_is_closed; i++) {
        next_call(&in);
    }
    if (!link_fuzz_is_closed) {
        gy_rpc_tick(node);
    }
    gy_ps_server_fini(&server);
    return 0;
}
