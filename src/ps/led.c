/* A server that a lead has: its parts are those of chains, whose state is copied whole. */
#include "ps/server_priv.h"

#include <string.h>

/* Workers find a new head by then: as those that lost their connection, once they heard of it.
 */
static const int64_t grace_ns = 2500000000;

/* ---- Fields that several messages have ---- */

static bool read_u64(const ProtobufCMessage *message, const char *name, uint64_t *value)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
    if (field == NULL) {
        return false;
    }
    GY_ASSERT(field->type == PROTOBUF_C_TYPE_UINT64 || field->type == PROTOBUF_C_TYPE_FIXED64);
    memcpy(value, (const uint8_t *)message + field->offset, sizeof(*value));
    return true;
}

/* A call for a part: its chain says whether, when, and what becomes of the answer. */
static gy_status serve_part(void *arg, const gy_rpc_asked *asked,
                            const ProtobufCMessage *request)
{
    gy_ps_server *server = arg;
    uint64_t table = 0, epoch = 0;
    uint32_t part = 0;
    if (request->descriptor == &gy__ps__open__descriptor) {
        part = ((const Gy__Ps__Open *)request)->part;
    } else if (request->descriptor == &gy__ps__save__descriptor) {
        part = ((const Gy__Ps__Save *)request)->part;
    } else if (read_u64(request, "table", &table)) {
        part = table >> 16 & UINT16_MAX;
    }
    (void)read_u64(request, "epoch", &epoch);
    return gy_ps_chain_serve(server->chain, part, epoch, asked, request);
}

/* ---- Calls of clients ---- */

/* Is a call one that gy_ps_chain_serve refuses or keeps, whatever tables there are? */
bool gy_ps_server_waits(const gy_ps_server *server, uint64_t table, uint64_t epoch)
{
    uint32_t part = table >> 16 & UINT16_MAX;
    return server->chain != NULL && part < GY_PS_MAP_PARTS_MAX &&
           (!gy_ps_chain_is_head(server->chain, part) ||
            gy_ps_chain_epoch(server->chain, part) != epoch);
}

/* Lists of keys are the server's own: the next head would not have them. */
gy_status gy_ps_server_need_no_list(const gy_ps_server *server, bool is_known)
{
    return server->chain == NULL || !is_known
               ? GY_OK
               : gy_fail(GY_UNSUPPORTED, "a list of keys at a server of a lead's");
}

/* With a lead: is it the client's, and has the map as many parts? */
gy_status gy_ps_server_judge_open(const gy_ps_server *server, const Gy__Ps__Open *open)
{
    if (server->chain == NULL) {
        return open->cluster == 0 ? GY_OK
                                  : gy_fail(GY_MISMATCH, "table %s: this server has no lead",
                                            open->table->name);
    }
    const gy_ps_map *map = gy_ps_chain_map(server->chain);
    return open->cluster == map->cluster && open->parts == map->chain_count
               ? GY_OK
               : gy_fail(GY_MISMATCH,
                         "table %s: this server is of cluster %llx with %u parts, and was "
                         "asked for cluster %llx with %u",
                         open->table->name, (unsigned long long)map->cluster, map->chain_count,
                         (unsigned long long)open->cluster, open->parts);
}

/* Who was given up must not come back unheard: its pushes of a clock may have been dropped. */
gy_status gy_ps_server_need_worker(const ps_served *table, const Gy__Ps__Open *open)
{
    uint64_t client = 0;
    bool is_there = open->worker < gy_ps_part_worker_count(table->part) &&
                    gy_ps_part_has_worker(table->part, open->worker, &client) &&
                    client == open->client;
    return is_there ? GY_OK
                    : gy_fail(GY_STATE, "table %s: worker %u was given up", table->name,
                              open->worker);
}

/* ---- Messages of other servers ---- */

static gy_status admit_event(void *arg, const gy_rpc_asked *asked,
                             const ProtobufCMessage *request, size_t size_bytes, void **room)
{
    const gy_ps_server *server = arg;
    (void)asked;
    return gy_ps_chain_admit_event(server->chain, request, size_bytes, room);
}

static gy_status serve_event(void *arg, const gy_rpc_asked *asked,
                             const ProtobufCMessage *request)
{
    const gy_ps_server *server = arg;
    return gy_ps_chain_event(server->chain, asked, request);
}

static gy_status admit_copy(void *arg, const gy_rpc_asked *asked,
                            const ProtobufCMessage *request, size_t size_bytes, void **room)
{
    const gy_ps_server *server = arg;
    (void)asked;
    return gy_ps_chain_admit_copy(server->chain, request, size_bytes, room);
}

static gy_status serve_copy(void *arg, const gy_rpc_asked *asked,
                            const ProtobufCMessage *request)
{
    const gy_ps_server *server = arg;
    return gy_ps_chain_copy(server->chain, asked, request);
}

/* For those that the lead did not tell before it went away. */
static gy_status serve_ask_map(void *arg, const gy_rpc_asked *asked,
                               const ProtobufCMessage *request)
{
    const gy_ps_server *server = arg;
    const gy_ps_map *map = gy_ps_chain_map(server->chain);
    gy_ps_map_message message;
    if (map->epoch <= ((const Gy__Ps__AskMap *)request)->epoch) {
        return gy_fail(GY_NOTFOUND, "this server has no later map");
    }
    gy_ps_map_tell(map, &message);
    return gy_rpc_answer(server->rpc, asked, &message.map.base);
}

static void leave_room(void *arg, void *room)
{
    (void)arg;
    gy_ps_pool_give(room);
}

static void *take_room(void *arg, size_t size_bytes)
{
    gy_ps_server *server = arg;
    return gy_ps_pool_take(&server->pool, size_bytes);
}

static bool is_event(uint32_t type)
{
    return type != PS_PULL && type != PS_SAVE;
}

/* ---- Copies ---- */

gy_status gy_ps_server_save_table(const ps_served *table, gy_text *image)
{
    double numbers[PS_NUMBERS];
    Gy__Ps__Table shape;
    gy_ps_table_tell(table->name, gy_ps_part_table(table->part), numbers, &shape);
    uint8_t packed[PS_MESSAGE_BYTES];
    uint64_t size = gy__ps__table__get_packed_size(&shape), workers = table->workers;
    GY_ASSERT(size <= sizeof(packed));
    gy__ps__table__pack(&shape, packed);
    gy_text_add_bytes(image, &size, sizeof(size));
    gy_text_add_bytes(image, packed, (size_t)size);
    gy_text_add_bytes(image, &workers, sizeof(workers));
    return gy_ps_part_save(table->part, image);
}

static gy_status save_part(void *arg, uint32_t part, gy_text *image)
{
    const gy_ps_server *server = arg;
    uint64_t count = 0;
    for (uint32_t i = 0; i < server->table_count; i++) {
        count += server->tables[i]->part_index == part;
    }
    gy_text_add_bytes(image, &count, sizeof(count));
    for (uint32_t number = 0; number < count; number++) {
        for (uint32_t i = 0; i < server->table_count; i++) {
            const ps_served *table = server->tables[i];
            if (table->part_index == part && table->number == number) {
                GY_TRY(gy_ps_server_save_table(table, image));
            }
        }
    }
    return image->status;
}

static void drop_part(void *arg, uint32_t part)
{
    gy_ps_server *server = arg;
    for (uint32_t i = 0; i < server->table_count;) {
        if (server->tables[i]->part_index == part) {
            gy_ps_server_remove(server, i);
        } else {
            i++;
        }
    }
}

static gy_status take_u64(const uint8_t **at, size_t *left, uint64_t *value)
{
    if (*left < sizeof(*value)) {
        return gy_fail(GY_FORMAT, "a copy of a part ends early");
    }
    memcpy(value, *at, sizeof(*value));
    *at += sizeof(*value);
    *left -= sizeof(*value);
    return GY_OK;
}

/* Which part of how many, and the bytes that are left of its image. */
typedef struct loading {
    uint32_t part, parts;
    size_t left;
} loading;

/* A dense table's rows are all in its image: no memory is taken for others. */
static gy_status need_rows(const gy_ps_table_options *table, const loading *of)
{
    uint64_t first = 0, end = 0;
    if (!table->is_sparse) {
        gy_ps_part_range(table, of->part, of->parts, &first, &end);
    }
    return end - first <= of->left / (table->width * gy_dtype_bytes(table->dtype))
               ? GY_OK
               : gy_fail(GY_FORMAT, "a copy of %llu rows in %zu bytes",
                         (unsigned long long)(end - first), of->left);
}

static gy_status make_loaded(gy_ps_server *server, const Gy__Ps__Table *shape,
                             const loading *of, uint64_t workers, ps_served **table)
{
    gy_ps_table_options heard, judged;
    if (workers == 0 || workers > GY_PS_WORKERS_MAX) {
        return gy_fail(GY_FORMAT, "a copy of a table of %llu workers",
                       (unsigned long long)workers);
    }
    GY_TRY(gy_ps_table_hear(shape, &heard));
    GY_TRY(gy_ps_table_judge(shape->name, &heard, (uint32_t)workers, &judged));
    GY_TRY(need_rows(&judged, of));
    if (gy_ps_server_find(server, shape->name, of->part) != NULL) {
        return gy_fail(GY_FORMAT, "a copy of a part with table %s twice", shape->name);
    }
    const gy_ps_part_options options = {
        .table = judged, .part = of->part, .parts = of->parts, .workers = (uint32_t)workers};
    return gy_ps_server_make(server, shape->name, &options, table);
}

static gy_status load_table(gy_ps_server *server, loading *of, const uint8_t **at)
{
    uint64_t size = 0, workers = 0;
    size_t used = 0;
    ps_served *table = NULL;
    GY_TRY(take_u64(at, &of->left, &size));
    Gy__Ps__Table *shape =
        size <= of->left ? gy__ps__table__unpack(NULL, (size_t)size, *at) : NULL;
    if (shape == NULL) {
        return gy_fail(GY_FORMAT, "a copy of a part whose table cannot be read");
    }
    *at += size;
    of->left -= (size_t)size;
    gy_status status = take_u64(at, &of->left, &workers);
    if (status == GY_OK) {
        status = make_loaded(server, shape, of, workers, &table);
    }
    gy__ps__table__free_unpacked(shape, NULL);
    GY_TRY(status);
    GY_TRY(gy_ps_part_load(table->part, *at, of->left, &used));
    *at += used;
    of->left -= used;
    return GY_OK;
}

gy_status gy_ps_server_load(gy_ps_server *server, uint32_t part, uint32_t parts,
                            const void *image, size_t size_bytes)
{
    loading of = {.part = part, .parts = parts, .left = size_bytes};
    const uint8_t *at = image;
    uint64_t count = 0;
    drop_part(server, part);
    gy_status status = take_u64(&at, &of.left, &count);
    for (uint64_t i = 0; i < count && status == GY_OK; i++) {
        status = load_table(server, &of, &at);
    }
    if (status == GY_OK && of.left > 0) {
        status = gy_fail(GY_FORMAT, "a copy of part %u with %zu bytes too many", part, of.left);
    }
    if (status < 0) {
        gy_error why;
        gy_error_take(&why, status);
        drop_part(server, part);
        return gy_error_raise(&why);
    }
    return GY_OK;
}

static gy_status load_part(void *arg, uint32_t part, const void *image, size_t size_bytes)
{
    gy_ps_server *server = arg;
    return gy_ps_server_load(server, part, gy_ps_chain_map(server->chain)->chain_count, image,
                             size_bytes);
}

static gy_status resume_part(void *arg, uint32_t part, uint64_t snapshot)
{
    return gy_ps_snapshots_load(arg, part, snapshot);
}

static size_t list_saved(void *arg, Gy__Ps__Offer offers[GY_PS_OFFERS_MAX])
{
    return gy_ps_snapshots_list(arg, offers);
}

/* ---- Heads ---- */

static void promote(void *arg, uint32_t part)
{
    gy_ps_server *server = arg;
    server->heads_until_ns[part] = gy_now_ns(server->env) + grace_ns;
}

static bool has_member(const gy_ps_server *server, const ps_served *table, uint32_t worker,
                       uint64_t client)
{
    for (size_t i = 0; i < server->member_count; i++) {
        const ps_member *at = &server->members[i];
        if (at->table == table && at->worker == worker && at->client == client) {
            return true;
        }
    }
    return false;
}

/* Workers of the head before that have not come to this one are dead. */
static void give_up_missing(gy_ps_server *server, uint32_t part)
{
    for (uint32_t i = 0; i < server->table_count; i++) {
        ps_served *table = server->tables[i];
        uint32_t count = gy_ps_part_worker_count(table->part);
        for (uint32_t w = 0; w < count && table->part_index == part; w++) {
            uint64_t client = 0;
            if (gy_ps_part_has_worker(table->part, w, &client) &&
                !has_member(server, table, w, client)) {
                (void)gy_fail(GY_PEER, "it has not come to the new server of part %u", part);
                gy_ps_server_give_up(server, table, w, client);
            }
        }
    }
}

gy_status gy_ps_server_tick(gy_ps_server *server)
{
    gy_ps_snapshots_tick(server);
    if (server->chain == NULL) {
        return GY_OK;
    }
    int64_t now_ns = gy_now_ns(server->env);
    for (uint32_t part = 0; part < GY_PS_MAP_PARTS_MAX; part++) {
        if (server->heads_until_ns[part] != 0 && now_ns >= server->heads_until_ns[part]) {
            server->heads_until_ns[part] = 0;
            if (gy_ps_chain_is_head(server->chain, part)) {
                give_up_missing(server, part);
            }
        }
    }
    return gy_ps_chain_tick(server->chain);
}

int64_t gy_ps_server_next(const gy_ps_server *server)
{
    return server->chain != NULL ? gy_ps_chain_next(server->chain) : INT64_MAX;
}

/* ---- Open ---- */

static void set_methods(gy_ps_server *server)
{
    gy_rpc_method *own = &server->methods[PS_METHODS];
    gy_ps_led_methods(own);
    for (uint32_t type = PS_OPEN; type < PS_SHOW; type++) {
        server->methods[type - GY_RPC_TYPE_FIRST].serve = serve_part;
    }
    gy_rpc_method *event = &own[0], *copy = &own[GY_PS_COPY - GY_PS_EVENT];
    event->roles = copy->roles = GY_RPC_MAY(GY_RPC_SERVER);
    event->leave = copy->leave = leave_room;
    event->admit = admit_event;
    event->serve = serve_event;
    own[GY_PS_ASK_MAP - GY_PS_EVENT].serve = serve_ask_map;
    own[GY_PS_ASK_MAP - GY_PS_EVENT].roles =
        GY_RPC_MAY(GY_RPC_SERVER) | GY_RPC_MAY(GY_RPC_WORKER) | GY_RPC_MAY(GY_RPC_OPERATOR);
    copy->admit = admit_copy;
    copy->serve = serve_copy;
}

gy_status gy_ps_server_join(gy_ps_server *server)
{
    gy_env *env = server->env;
    set_methods(server);
    return gy_ps_chain_new(
        &(gy_ps_chain_options){.env = env,
                               .id = env->ops->random(env, GY_CHANCE_NETWORK) | 1,
                               .methods = server->methods,
                               .method_count = PS_METHODS,
                               .arg = server,
                               .serve = gy_ps_server_carry_out,
                               .is_event = is_event,
                               .take = take_room,
                               .hold = gy_ps_pool_hold,
                               .give = gy_ps_pool_give,
                               .save = save_part,
                               .load = load_part,
                               .resume = resume_part,
                               .list_saved = list_saved,
                               .drop = drop_part,
                               .promote = promote},
        &server->chain);
}
