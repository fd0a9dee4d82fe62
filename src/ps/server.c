/*
 * A server: tables, each with the part that this server has, and pulls that wait for clocks of
 * others. Pushes are taken where their bytes were received; what a pull reads is copied once.
 */
#include "codec/codec.h"
#include "ps/part/plant.h"
#include "ps/server_priv.h"

#include <stdio.h>
#include <string.h>

static const int64_t linger_ns = 2000000000; /* a worker that does not return is given up */
static const size_t list_bytes_max = (size_t)256 << 20;

/* ---- Tables ---- */

/* With a lead the number is the same at all replicas: life, part, number in the part. */
static uint64_t id_of(const gy_ps_server *server, const ps_served *table)
{
    if (server->chain == NULL) {
        return (uint64_t)server->life << 32 | table->number;
    }
    uint64_t cluster = gy_ps_chain_map(server->chain)->cluster;
    return cluster << 32 | (uint64_t)table->part_index << 16 | table->number;
}

static ps_served *find_table(const gy_ps_server *server, uint64_t id)
{
    if (server->chain == NULL) {
        uint64_t index = id & UINT32_MAX;
        bool is_here = id >> 32 == server->life && index < server->table_count;
        return is_here ? server->tables[index] : NULL;
    }
    for (uint32_t i = 0; i < server->table_count; i++) {
        if (id_of(server, server->tables[i]) == id) {
            return server->tables[i];
        }
    }
    return NULL;
}

static gy_status need_table(const gy_ps_server *server, uint64_t id, ps_served **table)
{
    *table = find_table(server, id);
    return *table != NULL
               ? GY_OK
               : gy_fail(GY_NOTFOUND, "no such table: this server began after it was opened");
}

/* With a lead an answer waits until all replicas have what it tells of. */
static gy_status answer(const gy_ps_server *server, const ps_served *table,
                        const gy_rpc_asked *asked, const ProtobufCMessage *message)
{
    return server->chain != NULL
               ? gy_ps_chain_answer(server->chain, table->part_index, asked, message, NULL)
               : gy_rpc_answer(server->rpc, asked, message);
}

/* Without a lead a server has one part of a table. */
ps_served *gy_ps_server_find(const gy_ps_server *server, const char *name, uint32_t part)
{
    ps_served *found = NULL;
    for (uint32_t i = 0; i < server->table_count && found == NULL; i++) {
        ps_served *at = server->tables[i];
        bool is_part = server->chain == NULL || at->part_index == part;
        found = is_part && strcmp(at->name, name) == 0 ? at : NULL;
    }
    return found;
}

static gy_status find_function(const gy_ps_server *server, const gy_ps_table_options *table,
                               gy_ps_part_options *options)
{
    for (size_t i = 0; table->function != NULL && i < server->function_count; i++) {
        if (strcmp(server->functions[i].name, table->function) == 0) {
            options->function = server->functions[i].function;
            options->function_arg = server->functions[i].arg;
            return GY_OK;
        }
    }
    return table->function == NULL
               ? GY_OK
               : gy_fail(GY_NOTFOUND, "table %s: this server has no function %s", options->name,
                         table->function);
}

static void release_room(void *arg, void *room)
{
    (void)arg;
    gy_ps_pool_give(room);
}

gy_status gy_ps_server_make(gy_ps_server *server, const char *name,
                            const gy_ps_part_options *of, ps_served **table)
{
    gy_ps_part_options options = *of;
    options.name = name;
    options.release = release_room;
    options.release_arg = server;
    GY_TRY(find_function(server, &of->table, &options));
    GY_TRY(GY_GROW("ps.tables", server->tables, server->table_capacity,
                   (size_t)server->table_count + 1));
    ps_served *made = gy_alloc_zero("ps.table", 1, sizeof(*made));
    gy_status status = made != NULL ? gy_ps_part_new(&options, &made->part) : GY_NOMEM;
    if (status < 0) {
        gy_free(made);
        return status;
    }
    snprintf(made->name, sizeof(made->name), "%s", name);
    made->part_index = options.part;
    made->parts = options.parts;
    made->workers = options.workers;
    for (uint32_t i = 0; i < server->table_count; i++) {
        made->number += server->chain == NULL || server->tables[i]->part_index == options.part;
    }
    server->tables[server->table_count++] = made;
    *table = made;
    return GY_OK;
}

static gy_status judge_open(const Gy__Ps__Open *open, gy_ps_table_options *judged)
{
    gy_ps_table_options heard;
    GY_TRY(gy_ps_table_hear(open->table, &heard));
    GY_TRY(gy_ps_table_judge(open->table->name, &heard, open->workers, judged));
    if (open->parts == 0 || open->parts > GY_PS_PARTS_MAX || open->part >= open->parts) {
        return gy_fail(GY_ARG, "table %s: part %u of %u: expected 1 to %d parts",
                       open->table->name, open->part, open->parts, GY_PS_PARTS_MAX);
    }
    return GY_OK;
}

static gy_status check_same(const ps_served *table, const Gy__Ps__Open *open,
                            const gy_ps_table_options *judged)
{
    if (!gy_ps_table_is_same(gy_ps_part_table(table->part), judged)) {
        return gy_fail(GY_MISMATCH, "table %s is there with other options", table->name);
    }
    if (table->part_index != open->part || table->parts != open->parts) {
        return gy_fail(GY_MISMATCH,
                       "table %s: this server has part %u of %u, and was asked for part %u of "
                       "%u: the lists of servers differ",
                       table->name, table->part_index, table->parts, open->part, open->parts);
    }
    return table->workers == open->workers
               ? GY_OK
               : gy_fail(GY_MISMATCH, "table %s is of %u workers, not %u", table->name,
                         table->workers, open->workers);
}

/* Remember who speaks for a worker, so that it is given up with its connection. */
static gy_status add_member(gy_ps_server *server, ps_served *table, gy_rpc_peer peer,
                            const Gy__Ps__Open *open)
{
    if (peer == 0) { /* another server speaks for it */
        return GY_OK;
    }
    for (size_t i = 0; i < server->member_count; i++) {
        ps_member *at = &server->members[i];
        if (at->table == table && at->worker == open->worker && at->client == open->client) {
            at->peer = peer;
            return GY_OK;
        }
    }
    GY_TRY(GY_GROW("ps.members", server->members, server->member_capacity,
                   server->member_count + 1));
    server->members[server->member_count++] = (ps_member){
        .peer = peer, .table = table, .worker = open->worker, .client = open->client};
    return GY_OK;
}

static gy_status serve_open(void *arg, const gy_rpc_asked *asked,
                            const ProtobufCMessage *request)
{
    gy_ps_server *server = arg;
    const Gy__Ps__Open *open = (const Gy__Ps__Open *)request;
    gy_ps_table_options judged;
    Gy__Ps__Opened opened;
    gy__ps__opened__init(&opened);
    GY_TRY(judge_open(open, &judged));
    GY_TRY(gy_ps_server_judge_open(server, open));
    ps_served *table = gy_ps_server_find(server, open->table->name, open->part);
    if (table != NULL) {
        GY_TRY(check_same(table, open, &judged));
    } else {
        const gy_ps_part_options options = {.table = judged,
                                            .part = open->part,
                                            .parts = open->parts,
                                            .workers = open->workers};
        GY_TRY(gy_ps_server_make(server, open->table->name, &options, &table));
    }
    if (open->is_again) {
        GY_TRY(gy_ps_server_need_worker(table, open));
    }
    GY_TRY(gy_ps_part_join(table->part, open->worker, open->client, &opened.clock));
    GY_TRY(add_member(server, table, asked->peer, open));
    opened.table = id_of(server, table);
    opened.snapshot = server->begun_from;
    return answer(server, table, asked, &opened.base);
}

/* ---- Key lists ---- */

static ps_member *find_member(const gy_ps_server *server, const ps_served *table,
                              uint32_t worker, uint64_t client)
{
    for (size_t i = 0; i < server->member_count; i++) {
        ps_member *at = &server->members[i];
        if (at->table == table && at->worker == worker && at->client == client) {
            return at;
        }
    }
    return NULL;
}

/* Keys that came with a request are kept if it says so. */
static bool keep_keys(gy_ps_server *server, ps_member *member, ps_list_name name,
                      const uint64_t *keys, size_t count)
{
    if (member == NULL || name.slot == 0 || name.is_known) {
        return member != NULL && name.is_known;
    }
    if (member->lists == NULL) {
        member->lists = gy_alloc_zero("ps.lists", 1, sizeof(*member->lists));
    }
    return member->lists != NULL && gy_ps_kept_lists_put(member->lists, name, keys, count,
                                                         &server->list_bytes, list_bytes_max);
}

/* Keys that a request names. A failure with GY_MISMATCH has the client send them. */
static gy_status find_keys(const ps_served *table, const ps_member *member, ps_list_name name,
                           uint64_t count, const uint64_t **keys)
{
    if (!gy_ps_part_table(table->part)->is_sparse) {
        return gy_fail(GY_SHAPE, "table %s is dense: its keys have no list", table->name);
    }
    *keys = member != NULL && member->lists != NULL && count <= PS_LIST_KEYS_MAX
                ? gy_ps_kept_lists_find(member->lists, name, (size_t)count)
                : NULL;
    return *keys != NULL ? GY_OK
                         : gy_fail(GY_MISMATCH, "table %s: the list of keys is not kept here",
                                   table->name);
}

static ps_list_name list_of_push(const Gy__Ps__Push *push)
{
    return (ps_list_name){
        .slot = push->list_slot, .number = push->list_number, .is_known = push->list_is_known};
}

static ps_list_name list_of_pull(const Gy__Ps__Pull *pull)
{
    return (ps_list_name){
        .slot = pull->list_slot, .number = pull->list_number, .is_known = pull->list_is_known};
}

static void drop_lists(gy_ps_server *server, ps_member *member)
{
    if (member->lists != NULL) {
        gy_ps_kept_lists_fini(member->lists, &server->list_bytes);
        gy_free(member->lists);
        member->lists = NULL;
    }
}

/* ---- Pushes ---- */

static gy_status judge_size(const ps_served *table, uint64_t count, size_t row,
                            size_t size_bytes)
{
    if (count > GY_RPC_BESIDE_MAX || count * row != size_bytes) {
        return gy_fail(GY_SHAPE, "table %s: %zu bytes for %llu rows: expected %zu each",
                       table->name, size_bytes, (unsigned long long)count, row);
    }
    return GY_OK;
}

static size_t row_bytes(const ps_served *table)
{
    const gy_ps_table_options *o = gy_ps_part_table(table->part);
    return o->width * gy_dtype_bytes(o->dtype);
}

/* What the key of a row adds to it in a message. */
static size_t key_bytes(const ps_served *table)
{
    return gy_ps_part_table(table->part)->is_sparse ? sizeof(uint64_t) : 0;
}

/* Where keys that did not come lie in the room of a push: behind the values, aligned. */
static size_t keys_behind(size_t value_bytes)
{
    return (value_bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
}

static gy_codec codec_of(const Gy__Ps__Push *push)
{
    return (gy_codec){.kind = (gy_codec_kind)push->codec, .share = push->share};
}

static gy_status judge_encoded(const ps_served *table, const Gy__Ps__Push *push,
                               size_t size_bytes)
{
    const gy_ps_table_options *o = gy_ps_part_table(table->part);
    const gy_codec codec = codec_of(push);
    GY_TRY(gy_codec_check(codec));
    if (o->is_sparse || o->dtype == GY_I64 || push->is_put || push->list_is_known ||
        push->count > GY_RPC_BESIDE_MAX / row_bytes(table) ||
        gy_codec_bytes(codec, o->dtype, (size_t)push->count * o->width) != size_bytes) {
        return gy_fail(GY_SHAPE, "table %s: %zu encoded bytes for %llu rows", table->name,
                       size_bytes, (unsigned long long)push->count);
    }
    return GY_OK;
}

/* The values of an encoded push in a room of their own, for which *room is given back. */
static gy_status decode_push(gy_ps_server *server, const ps_served *table,
                             const gy_rpc_asked *asked, const Gy__Ps__Push *push,
                             uint8_t **room)
{
    const gy_ps_table_options *o = gy_ps_part_table(table->part);
    const size_t size = (size_t)push->count * row_bytes(table);
    if (push->codec == GY_CODEC_NONE) {
        return GY_OK;
    }
    uint8_t *encoded = *room;
    *room = gy_ps_pool_take(&server->pool, size);
    gy_status status =
        *room == NULL ? GY_NOMEM
                      : gy_codec_decode(codec_of(push), o->dtype, encoded, asked->beside_bytes,
                                        *room, (size_t)push->count * o->width);
    gy_ps_pool_give(encoded);
    if (status < 0) {
        gy_ps_pool_give(*room);
    }
    return status;
}

static gy_status judge_push(const gy_ps_server *server, const ps_served *table,
                            const Gy__Ps__Push *push, size_t size_bytes)
{
    GY_TRY(gy_ps_server_need_no_list(server, push->list_is_known));
    if (push->codec != GY_CODEC_NONE) {
        return judge_encoded(table, push, size_bytes);
    }
    return judge_size(table, push->count,
                      row_bytes(table) + (push->list_is_known ? 0 : key_bytes(table)),
                      size_bytes);
}

static gy_status admit_push(void *arg, const gy_rpc_asked *asked,
                            const ProtobufCMessage *request, size_t size_bytes, void **room)
{
    gy_ps_server *server = arg;
    const Gy__Ps__Push *push = (const Gy__Ps__Push *)request;
    ps_served *table = NULL;
    (void)asked;
    if (gy_ps_server_waits(server, push->table, push->epoch)) {
        GY_TRY(gy_ps_server_need_no_list(server, push->list_is_known));
        *room = gy_ps_pool_take(&server->pool, size_bytes);
        return *room != NULL ? GY_OK : GY_NOMEM;
    }
    GY_TRY(need_table(server, push->table, &table));
    GY_TRY(judge_push(server, table, push, size_bytes));
    if (!push->list_is_known) {
        *room = gy_ps_pool_take(&server->pool, size_bytes);
        return *room != NULL ? GY_OK : GY_NOMEM;
    }
    const uint64_t *keys = NULL;
    const ps_member *member = find_member(server, table, push->worker, push->client);
    GY_TRY(find_keys(table, member, list_of_push(push), push->count, &keys));
    GY_ASSERT(keys != NULL && table != NULL);
    size_t keys_size = (size_t)push->count * sizeof(*keys);
    uint8_t *made = gy_ps_pool_take(&server->pool, keys_behind(size_bytes) + keys_size);
    if (made == NULL) {
        return GY_NOMEM;
    }
    memcpy(made + keys_behind(size_bytes), keys, keys_size);
    *room = made;
    return GY_OK;
}

/* Rows whose keys, if the table has some, begin `room`. */
static gy_ps_rows rows_in(const ps_served *table, uint64_t first, uint64_t count, uint32_t slot,
                          const void *room)
{
    bool has_keys = gy_ps_part_table(table->part)->is_sparse;
    return (gy_ps_rows){has_keys ? room : NULL, has_keys ? 0 : first, count, slot};
}

static gy_status serve_push(void *arg, const gy_rpc_asked *asked,
                            const ProtobufCMessage *request)
{
    gy_ps_server *server = arg;
    const Gy__Ps__Push *push = (const Gy__Ps__Push *)request;
    ps_served *table = find_table(server, push->table);
    uint8_t *room = asked->beside;
    Gy__Ps__Pushed pushed;
    gy_ps_outcome outcome = GY_PS_APPLIED;
    gy__ps__pushed__init(&pushed);
    gy_status judged = table == NULL || room == NULL
                           ? gy_fail(GY_SHAPE, "a push without rows, or to no table")
                           : judge_push(server, table, push, asked->beside_bytes);
    if (judged < 0) {
        gy_ps_pool_give(room);
        return judged;
    }
    GY_TRY(decode_push(server, table, asked, push, &room));
    bool has_keys = !push->list_is_known; /* before the values */
    const gy_ps_rows rows = rows_in(table, push->first, push->count, push->slot,
                                    has_keys ? room : room + keys_behind(asked->beside_bytes));
    const void *values = room + (has_keys ? push->count * key_bytes(table) : 0);
    table->received_bytes += asked->beside_bytes;
    table->waits.spared_key_bytes += has_keys ? 0 : rows.count * sizeof(uint64_t);
    if (push->list_slot > 0 && rows.keys != NULL) {
        pushed.is_kept =
            keep_keys(server, find_member(server, table, push->worker, push->client),
                      list_of_push(push), rows.keys, rows.count);
    }
    if (push->is_put) {
        gy_status status = gy_ps_part_put(table->part, &rows, values, push->seen);
        gy_ps_pool_give(room);
        GY_TRY(status);
    } else {
        GY_TRY(gy_ps_part_push(table->part,
                               &(gy_ps_gradient){.worker = push->worker,
                                                 .client = push->client,
                                                 .number = push->number,
                                                 .clock = push->clock,
                                                 .seen = push->seen,
                                                 .rate = push->rate,
                                                 .rows = rows,
                                                 .values = values,
                                                 .room = room},
                               &outcome));
    }
    pushed.outcome = (uint32_t)outcome;
    return answer(server, table, asked, &pushed.base);
}

/* ---- Pulls ---- */

/* Answer a pull. Frees its keys. */
static void answer_pull(gy_ps_server *server, ps_served *table, ps_waiting *pull)
{
    const gy_ps_table_options *o = gy_ps_part_table(table->part);
    size_t size = pull->count * o->width * gy_dtype_bytes(o->dtype);
    const gy_ps_rows rows = rows_in(table, pull->first, pull->count, pull->slot, pull->room);
    gy_ps_part_facts facts;
    Gy__Ps__Rows message;
    gy__ps__rows__init(&message);
    gy_ps_part_look(table->part, &facts);
    message.clock_min = facts.clock_min;
    message.is_kept = pull->is_kept;
    table->waits.pulls++;
    table->waits.staleness[gy_ps_staleness_bin(pull->clock, facts.clock_min)]++;
    if (pull->since_ns > 0) {
        message.waited_ns =
            (uint64_t)GY_MAX(gy_now_ns(server->env) - pull->since_ns, (int64_t)0);
        gy_ps_waits_add(&table->waits, message.waited_ns, pull->behind);
    }
    uint8_t *out = gy_ps_pool_take(&server->pool, size);
    gy_status status = out != NULL ? gy_ps_part_pull(table->part, &rows, out, &message.updates)
                                   : gy_fail(GY_NOMEM, "no memory for %zu bytes of rows", size);
    gy_ps_pool_give(pull->room);
    pull->room = NULL;
    if (status < 0) {
        gy_ps_pool_give(out);
        gy_rpc_refuse(server->rpc, &pull->asked, status, gy_error_text());
        return;
    }
    table->sent_bytes += size;
    const gy_rpc_lent lent = {
        .data = out, .size_bytes = size, .release = gy_ps_pool_give, .arg = out};
    status = server->chain != NULL
                 ? gy_ps_chain_answer(server->chain, table->part_index, &pull->asked,
                                      &message.base, &lent)
                 : gy_rpc_answer_with(server->rpc, &pull->asked, &message.base, &lent);
    if (status < 0) {
        gy_warn("table %s: a pull was not answered: %s", table->name, gy_error_text());
    }
}

/* Clocks have moved: answer the pulls that need not wait any longer. */
static void release_pulls(gy_ps_server *server, ps_served *table)
{
    uint32_t behind = 0;
    gy_ps_server_cut(server, table);
    for (size_t i = 0; i < table->waiting_count;) {
        ps_waiting *at = &table->waiting[i];
        if (!gy_ps_part_is_ready(table->part, at->clock, &behind)) {
            i++;
            continue;
        }
        ps_waiting ready = *at;
        *at = table->waiting[--table->waiting_count];
        answer_pull(server, table, &ready);
    }
}

static gy_status admit_pull(void *arg, const gy_rpc_asked *asked,
                            const ProtobufCMessage *request, size_t size_bytes, void **room)
{
    gy_ps_server *server = arg;
    const Gy__Ps__Pull *pull = (const Gy__Ps__Pull *)request;
    ps_served *table = NULL;
    (void)asked;
    if (!gy_ps_server_waits(server, pull->table, pull->epoch)) {
        GY_TRY(need_table(server, pull->table, &table));
        GY_TRY(judge_size(table, pull->count, key_bytes(table), size_bytes));
    }
    *room = gy_ps_pool_take(&server->pool, size_bytes);
    return *room != NULL ? GY_OK : GY_NOMEM;
}

static gy_status judge_pull(const gy_ps_server *server, const Gy__Ps__Pull *pull,
                            size_t beside_bytes, ps_served **table)
{
    GY_TRY(need_table(server, pull->table, table));
    GY_ASSERT(*table != NULL);
    bool has_keys = gy_ps_part_table((*table)->part)->is_sparse && !pull->list_is_known;
    size_t row = row_bytes(*table);
    if (has_keys != (beside_bytes > 0) || pull->count > GY_RPC_BESIDE_MAX / row) {
        return gy_fail(GY_SHAPE,
                       "table %s: a pull of %llu rows of %zu bytes with %zu bytes of "
                       "keys",
                       (*table)->name, (unsigned long long)pull->count, row, beside_bytes);
    }
    return judge_size(*table, pull->count, has_keys ? sizeof(uint64_t) : 0, beside_bytes);
}

/* The keys of a pull that names them go to a room of its own, or those that came to a list. */
static gy_status take_keys(gy_ps_server *server, ps_served *table, const Gy__Ps__Pull *pull,
                           ps_waiting *made)
{
    const uint64_t *keys = NULL;
    ps_list_name name = list_of_pull(pull);
    if (name.slot == 0 && !name.is_known) {
        return GY_OK;
    }
    ps_member *member = find_member(server, table, pull->worker, pull->client);
    if (name.is_known) {
        GY_TRY(find_keys(table, member, name, pull->count, &keys));
        GY_ASSERT(keys != NULL);
        made->room = gy_ps_pool_take(&server->pool, made->count * sizeof(*keys));
        if (made->room == NULL) {
            return GY_NOMEM;
        }
        memcpy(made->room, keys, made->count * sizeof(*keys));
        table->waits.spared_key_bytes += made->count * sizeof(*keys);
    }
    made->is_kept =
        made->room != NULL && keep_keys(server, member, name, made->room, made->count);
    return GY_OK;
}

static gy_status serve_pull(void *arg, const gy_rpc_asked *asked,
                            const ProtobufCMessage *request)
{
    gy_ps_server *server = arg;
    const Gy__Ps__Pull *pull = (const Gy__Ps__Pull *)request;
    ps_served *table = NULL;
    uint32_t behind = 0;
    ps_waiting made = {.asked = *asked,
                       .clock = pull->clock,
                       .first = pull->first,
                       .count = (size_t)pull->count,
                       .slot = pull->slot,
                       .room = asked->beside};
    gy_status status = judge_pull(server, pull, asked->beside_bytes, &table);
    status = status == GY_OK ? take_keys(server, table, pull, &made) : status;
    bool is_ready =
        status == GY_OK &&
        (gy_ps_part_is_ready(table->part, pull->clock, &behind) || GY_PS_PLANTED(NOT_WAITED));
    if (is_ready) {
        answer_pull(server, table, &made);
        return GY_OK;
    }
    if (status == GY_OK) {
        status = GY_GROW("ps.waiting", table->waiting, table->waiting_capacity,
                         table->waiting_count + 1);
    }
    if (status < 0) {
        gy_ps_pool_give(made.room);
        return status;
    }
    made.since_ns = GY_MAX(gy_now_ns(server->env), (int64_t)1);
    made.behind = behind;
    table->waiting[table->waiting_count++] = made;
    return GY_OK;
}

static void cancel_pull(void *arg, const gy_rpc_asked *asked)
{
    const gy_ps_server *server = arg;
    if (server->chain != NULL && gy_ps_chain_cancel(server->chain, asked)) {
        return;
    }
    for (uint32_t t = 0; t < server->table_count; t++) {
        ps_served *table = server->tables[t];
        for (size_t i = 0; i < table->waiting_count; i++) {
            ps_waiting *at = &table->waiting[i];
            if (at->asked.peer == asked->peer && at->asked.number == asked->number) {
                gy_ps_pool_give(at->room);
                *at = table->waiting[--table->waiting_count];
                /* rpc forgets a cancelled call when it is answered */
                gy_rpc_refuse(server->rpc, asked, GY_CANCELLED, "cancelled");
                return;
            }
        }
    }
}

/* ---- Clocks ---- */

static gy_status answer_done(gy_ps_server *server, const ps_served *table,
                             const gy_rpc_asked *asked)
{
    Gy__Ps__Done done = GY__PS__DONE__INIT;
    done.is_done = true;
    return answer(server, table, asked, &done.base);
}

static gy_status serve_clock(void *arg, const gy_rpc_asked *asked,
                             const ProtobufCMessage *request)
{
    gy_ps_server *server = arg;
    const Gy__Ps__Clock *clock = (const Gy__Ps__Clock *)request;
    ps_served *table = NULL;
    GY_TRY(need_table(server, clock->table, &table));
    GY_TRY(gy_ps_part_clock(table->part, clock->worker, clock->client, clock->clock));
    if (!GY_PS_PLANTED(RELEASE_FORGOTTEN)) {
        release_pulls(server, table);
    }
    return answer_done(server, table, asked);
}

static void remove_member(gy_ps_server *server, const ps_served *table, uint32_t worker,
                          uint64_t client)
{
    ps_member *at = find_member(server, table, worker, client);
    if (at != NULL) {
        drop_lists(server, at);
        *at = server->members[--server->member_count];
    }
}

static gy_status serve_leave(void *arg, const gy_rpc_asked *asked,
                             const ProtobufCMessage *request)
{
    gy_ps_server *server = arg;
    const Gy__Ps__Leave *leave = (const Gy__Ps__Leave *)request;
    ps_served *table = NULL;
    GY_TRY(need_table(server, leave->table, &table));
    remove_member(server, table, leave->worker, leave->client);
    gy_ps_part_leave(table->part, leave->worker, leave->client);
    release_pulls(server, table);
    return answer_done(server, table, asked);
}

void gy_ps_server_give_up(gy_ps_server *server, ps_served *table, uint32_t worker,
                          uint64_t client)
{
    gy_info("worker %u of table %s is gone: %s", worker, table->name, gy_error_text());
    if (server->chain == NULL) {
        gy_ps_part_leave(table->part, worker, client);
        release_pulls(server, table);
        return;
    }
    Gy__Ps__Leave leave; /* all replicas have to know */
    gy__ps__leave__init(&leave);
    leave.table = id_of(server, table);
    leave.worker = worker;
    leave.client = client;
    gy_ps_chain_happen(server->chain, table->part_index, &leave.base);
}

static void hear(void *arg, gy_rpc_peer peer, gy_rpc_event event)
{
    gy_ps_server *server = arg;
    if ((event != GY_RPC_GONE && event != GY_RPC_ANEW) || GY_PS_PLANTED(DEAD_AWAITED)) {
        return;
    }
    if (server->chain != NULL) {
        gy_ps_chain_forget(server->chain, peer);
    }
    for (size_t i = 0; i < server->member_count;) {
        if (server->members[i].peer == peer) {
            const ps_member gone = server->members[i];
            remove_member(server, gone.table, gone.worker, gone.client);
            gy_ps_server_give_up(server, gone.table, gone.worker, gone.client);
        } else {
            i++;
        }
    }
}

/* ---- Open and close ---- */

static gy_status (*const serves[PS_METHODS])(void *arg, const gy_rpc_asked *asked,
                                             const ProtobufCMessage *request) = {
    serve_open,  serve_push,        serve_pull,       serve_clock,
    serve_leave, gy_ps_server_save, gy_ps_server_show};

gy_status gy_ps_server_carry_out(void *arg, uint32_t type, const gy_rpc_asked *asked,
                                 const ProtobufCMessage *request)
{
    GY_ASSERT(type >= GY_RPC_TYPE_FIRST && type < PS_SHOW);
    return serves[type - GY_RPC_TYPE_FIRST](arg, asked, request);
}

static void set_methods(gy_ps_server *server)
{
    gy_ps_methods(server->methods);
    for (int i = 0; i < PS_METHODS; i++) {
        server->methods[i].serve = serves[i];
        server->methods[i].roles = GY_RPC_MAY(GY_RPC_WORKER);
    }
    server->methods[PS_SAVE - GY_RPC_TYPE_FIRST].roles |= GY_RPC_MAY(GY_RPC_OPERATOR);
    server->methods[PS_SHOW - GY_RPC_TYPE_FIRST].roles |= GY_RPC_MAY(GY_RPC_WATCHER);
    gy_rpc_method *push = &server->methods[PS_PUSH - GY_RPC_TYPE_FIRST];
    gy_rpc_method *pull = &server->methods[PS_PULL - GY_RPC_TYPE_FIRST];
    push->admit = admit_push;
    pull->admit = admit_pull;
    push->leave = pull->leave = release_room;
    pull->cancel = cancel_pull;
}

gy_status gy_ps_server_init(gy_ps_server *server, gy_env *env)
{
    *server = (gy_ps_server){
        .env = env, .life = (uint32_t)(env->ops->random(env, GY_CHANCE_NETWORK) >> 33) + 1};
    set_methods(server);
    return GY_OK;
}

gy_rpc_options gy_ps_server_node(gy_ps_server *server)
{
    return (gy_rpc_options){.name = "parameter server",
                            .role = GY_RPC_SERVER,
                            .methods = server->methods,
                            .method_count = server->chain != NULL ? PS_ALL_METHODS : PS_METHODS,
                            .arg = server,
                            .hear = hear,
                            .linger_ns = linger_ns,
                            .retry_ns_max = GY_PS_REDIAL_NS,
                            .queue_bytes = (size_t)64 << 20};
}

static void table_free(ps_served *table)
{
    for (size_t k = 0; k < table->waiting_count; k++) {
        gy_ps_pool_give(table->waiting[k].room);
    }
    gy_free(table->waiting);
    gy_ps_waits_fini(&table->waits);
    gy_ps_part_free(table->part);
    gy_free(table);
}

void gy_ps_server_remove(gy_ps_server *server, uint32_t index)
{
    ps_served *table = server->tables[index];
    for (size_t i = 0; i < server->member_count;) {
        if (server->members[i].table == table) {
            drop_lists(server, &server->members[i]);
            server->members[i] = server->members[--server->member_count];
        } else {
            i++;
        }
    }
    for (size_t k = 0; k < table->waiting_count; k++) {
        gy_rpc_refuse(server->rpc, &table->waiting[k].asked, GY_CANCELLED,
                      "the map has changed");
    }
    server->tables[index] = server->tables[--server->table_count];
    table_free(table);
}

void gy_ps_server_fini(gy_ps_server *server)
{
    gy_rpc_free(server->rpc); /* cancels what waits */
    server->rpc = NULL;
    gy_ps_chain_free(server->chain);
    server->chain = NULL;
    gy_ps_snapshots_close(server);
    while (server->table_count > 0) {
        table_free(server->tables[--server->table_count]);
    }
    for (size_t i = 0; i < server->member_count; i++) {
        drop_lists(server, &server->members[i]);
    }
    GY_ASSERT(server->list_bytes == 0);
    gy_ps_pool_fini(&server->pool);
    gy_free((void *)server->tables);
    gy_free(server->members);
    server->tables = NULL;
    server->members = NULL;
    server->member_count = 0;
}
