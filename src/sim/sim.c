#include "sim/sim_priv.h"

#include <string.h>

static const int64_t spin_ns = 50, yield_ns = 2000;

gy_sim_node *gy_sim_node_of(gy_env *env)
{
    return (gy_sim_node *)(void *)env;
}

static gy_sim_node *node_at(const gy_sim *sim, int node)
{
    GY_ASSERT(node >= 0 && node < sim->node_count);
    return &sim->nodes[node];
}

void gy_sim_note(gy_sim *sim, const char *what, int64_t a, int64_t b)
{
    int64_t facts[3] = {sim->now_ns, a, b};
    sim->digest = gy_hash(facts, sizeof(facts), sim->digest);
    sim->digest = gy_hash(what, strlen(what), sim->digest);
}

uint64_t gy_sim_draw(gy_sim_node *node, gy_chance concern)
{
    uint32_t out[4];
    uint64_t stream = (uint64_t)node->index * CHANCES + (uint64_t)concern;
    gy_philox(node->sim->seed, stream, node->draws[concern]++, out);
    return (uint64_t)out[0] << 32 | out[1];
}

bool gy_sim_happens(gy_sim_node *node, gy_chance concern, double probability)
{
    /* A number is drawn in any case, so that another probability does not shift later draws. */
    return gy_random_part(gy_sim_draw(node, concern)) < probability;
}

/* ---- The environment of a node ---- */

static int64_t sim_now_ns(gy_env *env)
{
    return gy_sim_node_of(env)->sim->now_ns;
}

static int64_t sim_wall_ns(gy_env *env)
{
    const gy_sim_node *node = gy_sim_node_of(env);
    return node->sim->now_ns + node->sim->wall_ns + node->wall_shift_ns;
}

static uint64_t sim_random(gy_env *env, gy_chance concern)
{
    return gy_sim_draw(gy_sim_node_of(env), concern);
}

static void sim_pause(gy_env *env, uint64_t round)
{
    gy_sim *sim = gy_sim_node_of(env)->sim;
    gy_sim_run_until(sim, sim->now_ns + (round < 256 ? spin_ns : yield_ns));
}

typedef struct node_timer {
    gy_sim_node *node;
    uint32_t incarnation;
    gy_env_fire fire;
    void *arg;
} node_timer;

static void fire_timer(void *arg)
{
    node_timer timer = *(node_timer *)arg;
    gy_free(arg);
    if (timer.node->is_up && timer.node->incarnation == timer.incarnation) {
        gy_sim_note(timer.node->sim, "timer", timer.node->index, 0);
        timer.node->fired++;
        timer.fire(timer.arg);
    }
}

static gy_status sim_timer(gy_env *env, int64_t at_ns, gy_env_fire fire, void *arg)
{
    gy_sim_node *node = gy_sim_node_of(env);
    node_timer *timer = gy_alloc("sim.timer", sizeof(*timer));
    if (timer == NULL) {
        return GY_NOMEM;
    }
    *timer =
        (node_timer){.node = node, .incarnation = node->incarnation, .fire = fire, .arg = arg};
    gy_status status = gy_sim_at(node->sim, at_ns, fire_timer, timer);
    if (status < 0) {
        gy_free(timer);
    }
    return status;
}

static int sim_poll(gy_env *env, gy_deadline deadline)
{
    gy_sim_node *node = gy_sim_node_of(env);
    gy_sim *sim = node->sim;
    uint64_t before = node->fired;
    gy_sim_run_until(sim, sim->now_ns);
    while (node->fired == before && gy_timers_next_ns(&sim->events) <= deadline.at_ns &&
           gy_sim_step(sim)) {
    }
    if (node->fired == before && deadline.at_ns != INT64_MAX && sim->now_ns < deadline.at_ns) {
        gy_sim_run_until(sim, deadline.at_ns);
    }
    return (int)(node->fired - before);
}

static const gy_env_ops sim_ops = {
    .name = "sim",
    .now_ns = sim_now_ns,
    .wall_ns = sim_wall_ns,
    .random = sim_random,
    .pause = sim_pause,
    .timer = sim_timer,
    .poll = sim_poll,
    .disk = &gy_sim_disk_ops,
};

/* ---- The sim ---- */

gy_status gy_sim_new(const gy_sim_options *options, gy_sim **sim)
{
    if (options->nodes < 1 || options->nodes > GY_SIM_NODES_MAX) {
        return gy_fail(GY_ARG, "%d nodes: expected 1 to %d", options->nodes, GY_SIM_NODES_MAX);
    }
    size_t count = (size_t)options->nodes;
    gy_sim *made = gy_alloc_zero("sim", 1, sizeof(*made));
    gy_sim_node *nodes = gy_alloc_zero("sim.nodes", count, sizeof(gy_sim_node));
    struct sim_channel **channels =
        gy_alloc_zero("sim.channels", count * count, sizeof(*channels));
    if (made == NULL || nodes == NULL || channels == NULL) {
        gy_free(made);
        gy_free(nodes);
        gy_free(channels);
        return GY_NOMEM;
    }
    *made = (gy_sim){.seed = options->seed,
                     .digest = options->seed,
                     .wall_ns = options->wall_ns,
                     .node_count = options->nodes,
                     .link = options->link,
                     .nodes = nodes,
                     .channels = channels};
    for (int i = 0; i < options->nodes; i++) {
        nodes[i] =
            (gy_sim_node){.env = {.ops = &sim_ops}, .sim = made, .index = i, .is_up = true};
    }
    *sim = made;
    return GY_OK;
}

/* An event's argument is freed by its firing: so that none is left, all fire into nodes that
 * are down. */
static void drain_events(gy_sim *sim)
{
    gy_timer event;
    while (gy_timers_take(&sim->events, INT64_MAX, &event)) {
        if (event.fire == fire_timer) {
            gy_free(event.arg);
        }
    }
}

void gy_sim_free(gy_sim *sim)
{
    if (sim == NULL) {
        return;
    }
    drain_events(sim);
    gy_sim_channels_free(sim);
    for (int i = 0; i < sim->node_count; i++) {
        gy_sim_disk_free(&sim->nodes[i]);
    }
    gy_free(sim->channels);
    gy_free(sim->nodes);
    gy_free(sim);
}

int gy_sim_nodes(const gy_sim *sim)
{
    return sim->node_count;
}

gy_env *gy_sim_env(gy_sim *sim, int node)
{
    return &node_at(sim, node)->env;
}

int64_t gy_sim_now_ns(const gy_sim *sim)
{
    return sim->now_ns;
}

uint64_t gy_sim_digest(const gy_sim *sim)
{
    return sim->digest;
}

bool gy_sim_step(gy_sim *sim)
{
    gy_timer event;
    if (!gy_timers_take(&sim->events, INT64_MAX, &event)) {
        return false;
    }
    sim->now_ns = GY_MAX(sim->now_ns, event.at_ns);
    event.fire(event.arg);
    return true;
}

void gy_sim_run_until(gy_sim *sim, int64_t at_ns)
{
    while (gy_timers_next_ns(&sim->events) <= at_ns && gy_sim_step(sim)) {
    }
    sim->now_ns = GY_MAX(sim->now_ns, at_ns);
}

gy_status gy_sim_at(gy_sim *sim, int64_t at_ns, gy_env_fire fire, void *arg)
{
    return gy_timers_set(&sim->events, GY_MAX(at_ns, sim->now_ns), fire, arg);
}

void gy_sim_crash(gy_sim *sim, int node)
{
    gy_sim_node *who = node_at(sim, node);
    if (!who->is_up) {
        return;
    }
    gy_sim_note(sim, "crash", node, 0);
    who->is_up = false;
    who->incarnation++;
    who->receive = NULL;
    gy_sim_channels_reset(sim, node);
    gy_sim_disk_crash(who);
}

void gy_sim_restart(gy_sim *sim, int node)
{
    gy_sim_note(sim, "restart", node, 0);
    node_at(sim, node)->is_up = true;
}

bool gy_sim_is_up(const gy_sim *sim, int node)
{
    return node_at(sim, node)->is_up;
}

void gy_sim_shift_wall(gy_sim *sim, int node, int64_t by_ns)
{
    node_at(sim, node)->wall_shift_ns += by_ns;
}

void gy_sim_listen(gy_sim *sim, int node, gy_sim_receive receive, void *arg)
{
    gy_sim_node *who = node_at(sim, node);
    who->receive = receive;
    who->receive_arg = arg;
}

bool gy_sim_is_listening(const gy_sim *sim, int node)
{
    return node_at(sim, node)->receive != NULL;
}

void gy_sim_set_faults(gy_sim *sim, int node, const gy_sim_faults *faults)
{
    node_at(sim, node)->faults = *faults;
}
