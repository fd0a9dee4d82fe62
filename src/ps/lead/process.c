/* The lead as a process: a node on sockets, a table, and an election among those that share it.
 */
#include "base/signals.h"
#include "persist/table/table.h"
#include "ps/lead/lead.h"
#include <gyre/ps.h>

#include <errno.h>
#include <poll.h>
#include <string.h>

static const int64_t again_ns = 1000000000;
static const gy_key map_key = {.high = 0x6779726570730000, .low = 1};
static const char election[] = "ps-lead";

typedef struct leading {
    gy_env *env;
    const gy_ps_lead_options *options;
    gy_persist_table *table;
    gy_ps_lead_node *node;
    gy_ps_map loaded; /* epoch 0: the table has none */
    bool is_elected, is_storing, is_over;
    uint64_t version; /* of the record */
    int64_t load_ns;
    gy_error why;
} leading;

static void fail(leading *at, gy_status status)
{
    if (!at->is_over) {
        at->is_over = true;
        gy_error_take(&at->why, status);
    }
}

/* ---- The table ---- */

static gy_status take_record(void *arg, gy_key key, uint64_t version, const void *data,
                             size_t size_bytes)
{
    leading *at = arg;
    if (!gy_key_is_same(key, map_key)) {
        return gy_fail(GY_FORMAT, "the table is of something else than parameter servers");
    }
    at->version = version;
    return gy_ps_map_unpack(data, size_bytes, &at->loaded);
}

static void load(leading *at)
{
    at->version = 0;
    at->loaded.epoch = 0;
    gy_status status = gy_persist_table_load(at->table, take_record, at);
    if (status == GY_FORMAT || status == GY_ARG) {
        fail(at, status);
        return;
    }
    if (status < 0) {
        gy_warn("the table cannot be read, it is tried again: %s", gy_error_text());
        at->load_ns = gy_now_ns(at->env) + again_ns;
        return;
    }
    gy_ps_lead_node_load(at->node, at->options, at->loaded.epoch > 0 ? &at->loaded : NULL);
}

/* After a failure it is not known what the table has: read it again. */
static void stored(void *arg, gy_key key, uint64_t version, gy_status status)
{
    leading *at = arg;
    (void)key;
    (void)version;
    at->is_storing = false;
    if (!at->node->is_loaded) {
        return;
    }
    if (status < 0) {
        gy_warn("a map was not stored: %s", gy_error_text());
        at->node->is_loaded = false;
        at->load_ns = gy_now_ns(at->env) + again_ns;
        return;
    }
    at->version++;
    gy_ps_lead_node_stored(at->node);
}

static gy_status store(void *arg, const void *data, size_t size_bytes)
{
    leading *at = arg;
    GY_TRY(gy_persist_table_store(at->table, map_key, at->version, data, size_bytes));
    at->is_storing = true;
    return GY_OK;
}

static void elected(void *arg, bool is_it, uint64_t number)
{
    leading *at = arg;
    gy_debug("elected: %d, number %llu", is_it, (unsigned long long)number);
    if (!is_it && at->is_elected) {
        gy_warn("another lead may have been elected: this one is on standby");
    }
    at->is_elected = is_it;
    at->node->is_loaded = false;
    at->load_ns = 0;
}

/* ---- The loop ---- */

static void wait(leading *at, int signals)
{
    struct pollfd files[3] = {{.fd = signals, .events = POLLIN},
                              {.fd = gy_persist_table_fd(at->table), .events = POLLIN},
                              {.fd = gy_rpc_fd(at->node->rpc), .events = POLLIN}};
    int64_t until_ns =
        GY_MIN(gy_rpc_next(at->node->rpc).at_ns, gy_persist_table_next(at->table).at_ns);
    int64_t now_ns = gy_now_ns(at->env);
    until_ns = GY_MIN(until_ns, GY_MAX(at->node->step_ns, now_ns));
    int64_t wait_ms = GY_MAX(until_ns - now_ns + 999999, (int64_t)0) / 1000000;
    if (poll(files, GY_COUNT(files), (int)GY_MIN(wait_ms, (int64_t)1000)) < 0 &&
        errno != EINTR) {
        fail(at, gy_fail(GY_IO, "cannot wait: %s", strerror(errno)));
    }
    if (gy_signals_count(signals) > 0) {
        fail(at, GY_OK);
    }
}

static void run(leading *at, int signals)
{
    while (!at->is_over) {
        wait(at, signals);
        (void)gy_persist_table_turn(at->table, (gy_deadline){0});
        if (at->is_elected && !at->node->is_loaded && !at->is_storing &&
            gy_now_ns(at->env) >= at->load_ns) {
            load(at);
        }
        (void)gy_rpc_turn(at->node->rpc, (gy_deadline){0});
        gy_ps_lead_node_step(at->node);
    }
}

/* ---- Beginning and end ---- */

static gy_status judge(const gy_ps_lead_run_options *options, gy_ps_lead_run_options *o,
                       gy_ps_lead_options *made)
{
    GY_TRY(gy_options_take(gy_ps_lead_run_options, o, options));
    o->replicas = o->replicas == 0 ? 2 : o->replicas;
    o->parts = o->parts == 0 ? 4 : o->parts;
    o->lease_s = o->lease_s == 0 ? 1 : o->lease_s;
    if (o->listen == NULL || o->table == NULL) {
        return gy_fail(GY_ARG, "a lead needs an address to listen at and a table");
    }
    if (o->replicas > GY_PS_REPLICAS_MAX - 1 || o->parts > GY_PS_MAP_PARTS_MAX) {
        return gy_fail(GY_ARG, "%u replicas of %u parts: expected 1 to %d of 1 to %d",
                       o->replicas, o->parts, GY_PS_REPLICAS_MAX - 1, GY_PS_MAP_PARTS_MAX);
    }
    if (!(o->lease_s >= 0.1 && o->lease_s <= 3600)) {
        return gy_fail(GY_ARG, "a lease of %g s: expected 0.1 to 3600", o->lease_s);
    }
    gy_env *env = gy_env_real();
    *made = (gy_ps_lead_options){.cluster = env->ops->random(env, GY_CHANCE_NETWORK) | 1,
                                 .replicas = o->replicas,
                                 .parts = o->parts,
                                 .lease_ms = (uint32_t)(o->lease_s * 1000),
                                 .resumes = o->resumes,
                                 .dead_ns = (int64_t)(o->lease_s * 2e9)};
    return GY_OK;
}

static gy_status open_all(leading *at, const gy_ps_lead_run_options *o,
                          char address[GY_RPC_ADDRESS_BYTES])
{
    gy_rpc_options node = gy_ps_lead_node_options(at->node);
    node.key_file = o->key_file;
    node.is_plaintext = o->is_plaintext;
    node.shares_memory = true; /* as servers and workers do, which dial it */
    const gy_persist_table_options table = {.where = o->table,
                                            .user = o->table_user,
                                            .password_file = o->table_password_file,
                                            .authorities = o->table_authorities,
                                            .certificate = o->table_certificate,
                                            .certificate_key = o->table_certificate_key,
                                            .is_plaintext = o->table_is_plaintext,
                                            .lease_s = o->table_lease_s,
                                            .stored = stored,
                                            .elected = elected,
                                            .arg = at};
    GY_TRY(gy_rpc_new(at->env, &node, &at->node->rpc));
    GY_TRY(gy_rpc_listen(at->node->rpc, o->listen, address));
    GY_TRY(gy_persist_table_open(at->env, &table, &at->table));
    return gy_persist_table_campaign(at->table, election, address);
}

gy_status gy_ps_lead_run(const gy_ps_lead_run_options *options,
                         void (*on_listening)(void *arg, const char *address), void *arg)
{
    gy_ps_lead_run_options o;
    gy_ps_lead_options made;
    char address[GY_RPC_ADDRESS_BYTES] = "";
    int signals = -1;
    GY_TRY(judge(options, &o, &made));
    leading at = {.env = gy_env_real(), .options = &made};
    at.node = gy_alloc_zero("ps.lead", 1, sizeof(*at.node));
    if (at.node == NULL) {
        return GY_NOMEM;
    }
    *at.node = (gy_ps_lead_node){.env = at.env, .arg = &at, .store = store};
    gy_status status = gy_signals_open(&signals);
    if (status == GY_OK) {
        status = open_all(&at, &o, address);
    }
    if (status == GY_OK) {
        if (on_listening != NULL) {
            on_listening(arg, address);
        }
        run(&at, signals);
        status = at.why.status;
    }
    gy_error why;
    gy_error_take(&why, status);
    gy_persist_table_close(at.table);
    gy_ps_lead_node_fini(at.node);
    if (signals >= 0) {
        gy_signals_close(signals);
    }
    gy_free(at.node);
    if (status < 0) {
        why = at.why.status < 0 ? at.why : why;
        return gy_error_raise(&why);
    }
    return GY_OK;
}
