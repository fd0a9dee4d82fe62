/*
 * Goal: a lead, servers and workers over a simulated network, with crashes, stops and cuts of
 * each: every push that a worker was told of is applied once and at all replicas, a pull shows
 * all that was acknowledged before it began, replicas have the same bits, and in the end every
 * part has its replicas again. Planted bugs are found.
 *
 * Each push of worker w for clock c adds 1 to a key of its own in each part.
 */
#include "hunt_kit.h"
#include "ps_chain_world.h"

#include <time.h>

/* ---- Faults ---- */

/* Is that life of a server up? */
static bool is_up(const world *at, uint64_t id)
{
    for (int i = 0; i < at->servers; i++) {
        const gy_ps_chain *chain = at->served[i].chain;
        if (chain != NULL && chain->options.id == id) {
            return at->net.hosts[server_host(i)].rpc != NULL;
        }
    }
    return false;
}

/* Would each part still have a member that has everything? */
static bool may_crash(const world *at, int index)
{
    char address[16];
    snprintf(address, sizeof(address), "n%d:1", server_host(index));
    for (uint32_t part = 0; part < at->record.chain_count; part++) {
        const gy_ps_map_chain *chain = &at->record.chains[part];
        bool is_left = false;
        for (uint32_t i = 0; i < chain->count; i++) {
            const gy_ps_map_server *server = gy_ps_map_find(&at->record, chain->members[i]);
            is_left = is_left ||
                      (strcmp(server->address, address) != 0 && is_up(at, chain->members[i]));
        }
        const gy_ps_map_server *joining = gy_ps_map_find(&at->record, chain->joining);
        bool is_alone = at->options.replicas == 1 && joining != NULL &&
                        strcmp(joining->address, address) == 0;
        if (!is_left || is_alone || at->lead.lead.is_storing) {
            return false;
        }
    }
    return at->record.chain_count > 0;
}

typedef struct striking {
    world *world;
    fault what;
    bool is_mend;
} striking;

static void set_cut(const world *at, const fault *what, bool is_cut)
{
    if (gy_sim_cut(at->sim, what->a, what->b, is_cut) < 0 ||
        gy_sim_cut(at->sim, what->b, what->a, is_cut) < 0) {
        gy_panic("no memory for a cut");
    }
}

static void strike_later(world *at, const fault *what, int64_t at_ns, bool is_mend);

/* A crash of a server or the lead, which comes again, empty. */
static void crash(world *at, const fault *what)
{
    rpc_host *host = &at->net.hosts[what->a];
    if (host->rpc == NULL || (what->a > 0 && !may_crash(at, what->a - 1))) {
        return;
    }
    note_maps(at);
    rpc_host_stop(host, 0);
    host->is_crashing = true;
    if (what->a == 0) {
        gy_ps_lead_node_fini(&at->lead);
    } else {
        gy_ps_server_fini(&at->served[what->a - 1]);
    }
    host->rpc = NULL;
    gy_sim_crash(at->sim, what->a);
    for (int i = 0; i < at->net.host_count; i++) {
        rpc_host_break(&at->net.hosts[i], what->a);
    }
    strike_later(at, what, gy_sim_now_ns(at->sim) + what->span_ns, true);
}

static void come_again(world *at, int index)
{
    gy_sim_restart(at->sim, index);
    if (index == 0) {
        start_lead(at);
    } else {
        start_server(at, index - 1);
    }
}

static void strike(void *arg)
{
    striking *given = arg;
    world *at = given->world;
    fault what = given->what;
    bool is_mend = given->is_mend;
    gy_free(given);
    if (at->has_ended) {
        return;
    }
    int64_t now_ns = gy_sim_now_ns(at->sim);
    rpc_host *host = &at->net.hosts[what.a];
    if (what.kind == 0) {
        if (is_mend) {
            come_again(at, what.a);
        } else {
            crash(at, &what);
        }
    } else if (what.kind == 1) {
        rpc_host_break(host, what.b);
    } else if (what.kind == 2) {
        rpc_host_stop(host, now_ns + what.span_ns);
    } else if (what.kind == 4) {
        crash_worker(at, &at->all[what.a - 1 - at->servers]);
    } else {
        set_cut(at, &what, !is_mend);
        if (!is_mend) {
            strike_later(at, &what, now_ns + what.span_ns, true);
        }
    }
}

static void strike_later(world *at, const fault *what, int64_t at_ns, bool is_mend)
{
    striking *made = gy_alloc_zero("test.strike", 1, sizeof(*made));
    *made = (striking){.world = at, .what = *what, .is_mend = is_mend};
    rpc_at(&at->net, at_ns, strike, made);
}

static void draw_faults(world *at, uint32_t mask)
{
    int hosts = 1 + at->servers + at->workers;
    at->is_calm = true;
    at->fault_count = below(at, 4) == 0 ? 0 : (uint32_t)below(at, FAULTS + 1);
    for (uint32_t i = 0; i < at->fault_count; i++) {
        fault *one = &at->faults[i];
        bool is_short = below(at, 2) == 0; /* shorter than what the lead waits for */
        *one = (fault){.kind = (int)below(at, 5),
                       .a = (int)below(at, (uint64_t)(1 + at->servers)),
                       .b = (int)below(at, (uint64_t)hosts),
                       .at_ns = (int64_t)below(at, 6000000000),
                       .span_ns = 1 + (int64_t)below(at, is_short ? 900000000 : 5000000000)};
        if (one->kind == 4) {
            one->a = 1 + at->servers + (int)below(at, (uint64_t)at->workers);
        }
        if (one->b == one->a) {
            one->kind = 2;
        }
        if ((mask >> i & 1) != 0) {
            at->has_faults = true;
            at->is_calm = at->is_calm && ((one->kind == 0 && one->a > 0) || one->kind == 4);
            strike_later(at, one, one->at_ns, false);
        }
    }
}

static void heal(void *arg)
{
    world *at = arg;
    for (int a = 0; a < at->net.host_count && !at->has_ended; a++) {
        for (int b = 0; b < a; b++) {
            fault what = {.a = a, .b = b};
            set_cut(at, &what, false);
        }
    }
}

/* ---- A story ---- */

static void begin(world *at, uint64_t seed, uint32_t mask)
{
    static const gy_ps_rule rules[] = {GY_PS_BSP, GY_PS_ASP, GY_PS_ASP, GY_PS_SSP};
    memset(at, 0, sizeof(*at));
    at->seed = seed;
    at->random.key = seed * 0x9E3779B97F4A7C15u + 7;
    uint32_t replicas = 1 + (uint32_t)below(at, 3);
    at->servers = (int)replicas + (int)below(at, SERVERS + 1 - replicas);
    at->workers = 1 + (int)below(at, WORKERS);
    at->clocks = 1 + (int)below(at, CLOCKS);
    at->parts = 1 + (uint32_t)below(at, PARTS);
    gy_ps_table_options o = {.dtype = GY_I64, .is_sparse = true};
    o.sync.rule = rules[below(at, GY_COUNT(rules))];
    o.sync.bound = o.sync.rule == GY_PS_SSP ? (uint32_t)below(at, 4) : 0;
    if (gy_ps_table_judge("t", &o, (uint32_t)at->workers, &at->table) < 0) {
        gy_panic("a simulated table: %s", gy_error_text());
    }
    at->options = (gy_ps_lead_options){.cluster = seed | 1,
                                       .replicas = replicas,
                                       .parts = at->parts,
                                       .lease_ms = 600,
                                       .dead_ns = 1200000000};
    gy_sim_options options = {.seed = seed, .nodes = 1 + at->servers + at->workers};
    options.link.latency_ns = below(at, 2) == 0 ? 100000 : 10000000;
    options.link.jitter_ns = below(at, 2) == 0 ? 0 : 30000000;
    if (gy_sim_new(&options, &at->sim) < 0) {
        gy_panic("no memory for a simulated world");
    }
    rpc_net_init(&at->net, at->sim);
    start_lead(at);
    for (int s = 0; s < at->servers; s++) {
        start_server(at, s);
    }
    for (int w = 0; w < at->workers; w++) {
        start_worker(at, w);
    }
    draw_faults(at, mask);
    rpc_at(&at->net, heal_ns, heal, at);
    rpc_at(&at->net, beat_ns, beat, at);
}

static const ps_served *table_at(const world *at, uint64_t id, uint32_t part)
{
    const gy_ps_map_server *server = gy_ps_map_find(&at->record, id);
    const gy_ps_server *of = &at->served[strtol(server->address + 1, NULL, 10) - 1];
    return gy_ps_server_find(of, "t", part);
}

/* Every part has its replicas, and they have the same bits. */
static void check_part(world *at, uint32_t part)
{
    const gy_ps_map_chain *chain = &at->record.chains[part];
    gy_text first = {.data = NULL};
    if (chain->count != at->options.replicas || chain->joining != 0 || chain->is_away) {
        wrong(at, "a part has not got its replicas again", (int)part, chain->count);
        return;
    }
    for (uint32_t i = 0; i < chain->count; i++) {
        const ps_served *table = table_at(at, chain->members[i], part);
        gy_text image = {.data = NULL};
        bool is_none = table_at(at, chain->members[0], part) == NULL; /* nobody came so far */
        if (is_none != (table == NULL)) {
            wrong(at, "a replica has no table", (int)part, i);
            break;
        }
        if (is_none || gy_ps_part_save(table->part, &image) < 0) {
            continue;
        }
        if (i == 0) {
            first = image;
            continue;
        } else if (image.size_bytes != first.size_bytes ||
                   memcmp(image.data, first.data, image.size_bytes) != 0) {
            wrong(at, "replicas differ", (int)part, i);
        }
        gy_text_free(&image);
    }
    gy_text_free(&first);
}

/* A worker that ended before it came to this part is waited for: a push of BSP is still held.
 */
static bool is_held(const ps_served *table, uint64_t clock)
{
    gy_ps_part_facts facts;
    gy_ps_part_look(table->part, &facts);
    return gy_ps_part_table(table->part)->sync.rule == GY_PS_BSP && facts.closed <= clock &&
           facts.live > 0;
}

static void check_worker(world *at, const worker *self, uint32_t part)
{
    const ps_served *table = table_at(at, at->record.chains[part].members[0], part);
    if (table == NULL && self->acked[part] != 0) {
        wrong(at, "a table was lost", self->index, part);
    }
    for (uint64_t clock = 0; clock < (uint64_t)at->clocks && table != NULL; clock++) {
        uint64_t key = key_of(at, self->index, clock, part), updates = 0;
        const gy_ps_rows rows = {.keys = &key, .count = 1};
        int64_t value = -1;
        if (gy_ps_part_pull(table->part, &rows, &value, &updates) < 0) {
            gy_panic("a simulated server: %s", gy_error_text());
        }
        if (value < 0 || value > 1) {
            wrong(at, "a push was applied twice", self->index, clock);
        } else if (is_sure(at, self, clock, part) && value == 0 && !is_held(table, clock)) {
            wrong(at, "a push was lost", self->index, clock);
        } else if (value == 1 && (self->begun >> clock & 1) == 0) {
            wrong(at, "a push that nobody made", self->index, clock);
        }
    }
}

static bool is_over(const world *at)
{
    for (int w = 0; w < at->workers; w++) {
        const worker *self = &at->all[w];
        if (!was_given_up(self) && (self->stage != STAGE_DONE || self->pending > 0)) {
            return false;
        }
    }
    return true;
}

static void end(world *at)
{
    at->has_ended = true;
    for (int i = 0; i < at->net.host_count; i++) {
        rpc_host *host = &at->net.hosts[i];
        host->is_crashing = true;
        if (i == 0) {
            gy_ps_lead_node_fini(&at->lead);
        } else if (i <= at->servers) {
            gy_ps_server_fini(&at->served[i - 1]);
        } else {
            gy_rpc_free(host->rpc);
            gy_ps_route_free(at->all[i - 1 - at->servers].route);
        }
        host->rpc = NULL;
    }
    while (gy_sim_step(at->sim)) { /* what is under way frees itself */
    }
    gy_sim_free(at->sim);
}

static void tell_story(world *at, uint64_t seed, uint32_t mask)
{
    begin(at, seed, mask);
    int64_t ready_ns = at->has_faults ? heal_ns : 0;
    for (int64_t now_ns = 0; now_ns < limit_ns && at->wrong[0] == '\0'; now_ns += second_ns) {
        gy_sim_run_until(at->sim, now_ns);
        if (is_over(at) && now_ns > ready_ns) {
            break;
        }
    }
    gy_sim_run_until(at->sim, gy_sim_now_ns(at->sim) + 10 * second_ns);
    for (int w = 0; w < at->workers && at->wrong[0] == '\0'; w++) {
        const worker *self = &at->all[w];
        if (!was_given_up(self) && (self->stage != STAGE_DONE || self->pending > 0)) {
            wrong(at, "a worker waits for ever", w, self->clock);
        }
    }
    for (uint32_t part = 0; part < at->parts && at->wrong[0] == '\0'; part++) {
        check_part(at, part);
        for (int w = 0; w < at->workers && at->wrong[0] == '\0'; w++) {
            check_worker(at, &at->all[w], part);
        }
    }
    end(at);
}

static bool is_wrong(void *at, const telling *how)
{
    world *told = at;
    tell_story(told, how->seed, how->mask);
    return told->wrong[0] != '\0';
}

static void shrink(world *at, uint64_t seed)
{
    static const char *const names[] = {"crash", "break", "stop", "cut", "death"};
    char rule[24];
    telling least = {.seed = seed, .mask = UINT32_MAX};
    hunt_fewer_faults(is_wrong, at, &least, FAULTS);
    (void)is_wrong(at, &least);
    gy_ps_sync_print(at->table.sync, rule, sizeof(rule));
    printf("GYRE_SEED=%llu: %s\n  %u replicas of %u parts, %d servers, %d workers, %d clocks, "
           "%s\n",
           (unsigned long long)seed, at->wrong, at->options.replicas, at->parts, at->servers,
           at->workers, at->clocks, rule);
    for (uint32_t i = 0; i < at->fault_count; i++) {
        const fault *one = &at->faults[i];
        if ((least.mask >> i & 1) != 0) {
            printf("  at %.3f s: %s of %d (and %d), %.3f s\n", (double)one->at_ns / 1e9,
                   names[one->kind], one->a, one->b, (double)one->span_ns / 1e9);
        }
    }
}

GY_TEST(no_acknowledged_push_is_lost)
{
    static world at;
    uint64_t first = gy_test_seed(), pulls = 0, epochs = 0;
    long seeds = gy_test_cases(150);
    int64_t live = gy_alloc_live();
    clock_t begun = clock();
    gy_ps_chain_planted = GY_PS_CHAIN_PLANT_NONE;
    gy_log_set_level(GY_LOG_ERROR);
    for (uint64_t seed = first; seed < first + (uint64_t)seeds; seed++) {
        tell_story(&at, seed, UINT32_MAX);
        if (at.wrong[0] != '\0') {
            shrink(&at, seed);
            fail_msg("GYRE_SEED=%llu: %s", (unsigned long long)seed, at.wrong);
        }
        pulls += at.pulls;
        epochs += at.epochs;
    }
    assert_int_equal(gy_alloc_live(), live);
    double took_s = (double)(clock() - begun) / CLOCKS_PER_SEC;
    printf("%ld seeds, %.0f a minute: %llu pulls checked, %llu maps\n", seeds,
           (double)seeds / took_s * 60, (unsigned long long)pulls, (unsigned long long)epochs);
    assert_true(pulls > 0 && epochs > (uint64_t)seeds);
}

/* The one fault is that the lead is away, in a crash or a stop: no server is taken for dead. */
static void be_away(world *at, uint64_t seed)
{
    begin(at, seed, 0);
    at->is_calm = false;
    const uint32_t lease_ms = below(at, 2) == 0 ? 100 : 600; /* shorter than a redial, longer */
    at->options.lease_ms = lease_ms;
    at->options.dead_ns = 2000000 * (int64_t)lease_ms;
    gy_ps_lead_node_load(&at->lead, &at->options, NULL);
    const fault what = {.kind = below(at, 2) == 0 ? 0 : 2,
                        .at_ns = second_ns + (int64_t)below(at, 1000000000),
                        .span_ns = 1 + (int64_t)below(at, 12000000000)};
    strike_later(at, &what, what.at_ns, false);
    const int64_t end_ns = what.at_ns + what.span_ns + 5 * second_ns;
    for (int64_t now_ns = 0; now_ns < end_ns && at->wrong[0] == '\0'; now_ns += beat_ns) {
        gy_sim_run_until(at->sim, now_ns);
        for (uint32_t i = 0; i < at->lead.lead.server_count; i++) {
            if (at->lead.lead.servers[i].is_dead) {
                wrong(at,
                      what.kind == 0 ? "a lead that comes again takes a server for dead"
                                     : "a lead that was stopped takes a server for dead",
                      (int)i, (uint64_t)what.span_ns / 1000000);
            }
        }
    }
    if (at->lead.lead.server_count != (uint32_t)at->servers || at->record.chain_count == 0) {
        wrong(at, "servers have not come", (int)at->lead.lead.server_count, 0);
    }
    end(at);
}

GY_TEST(a_lead_blames_no_server_for_its_own_absence)
{
    static world at;
    const uint64_t first = gy_test_seed();
    const long seeds = gy_test_cases(100);
    gy_ps_chain_planted = GY_PS_CHAIN_PLANT_NONE;
    gy_log_set_level(GY_LOG_ERROR);
    for (uint64_t seed = first; seed < first + (uint64_t)seeds; seed++) {
        be_away(&at, seed);
        if (at.wrong[0] != '\0') {
            fail_msg("GYRE_SEED=%llu: %s", (unsigned long long)seed, at.wrong);
        }
    }
}

static void tell_planted(int bug, uint64_t seed, char wrong[256])
{
    static world at;
    gy_ps_chain_planted = (gy_ps_chain_plant)bug;
    tell_story(&at, seed, UINT32_MAX);
    memcpy(wrong, at.wrong, sizeof(at.wrong));
}

GY_TEST(planted_bugs_are_found)
{
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    skip(); /* a bug may well be one that they find */
#endif
#define GY_X(name) #name,
    static const char *const names[] = {GY_PS_CHAIN_PLANT_LIST(GY_X)};
#undef GY_X
    gy_log_set_level(GY_LOG_ERROR);
    assert_int_equal(hunt_all(tell_planted, names, GY_PS_CHAIN_PLANTS, gy_test_seed(), 6000),
                     0);
}

GY_TEST_MAIN(NULL, NULL)
