/* Carries out generations in one keeper: a new segment and new listeners for all local ranks,
 * and a restart of the dead ones. renewal.c decides which generation comes when. */
#include "launch/keeper_priv.h"

#include "topo/topo.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double renew_default_seconds = 60;

static void expect_generation(run_keeper *keeper)
{
    double seconds = keeper->options->rendezvous_timeout_s;
    if (keeper->renew_by_ns == INT64_MAX) {
        seconds = seconds > 0 ? seconds : renew_default_seconds;
        keeper->renew_by_ns = gy_env_deadline(keeper->env, seconds).at_ns;
    }
}

static void tell(void *arg, int to, gy_transport_frame_type type, uint32_t generation,
                 const gy_run_end *cause)
{
    run_keeper *keeper = arg;
    if (keeper->nodes == NULL) {
        return;
    }
    if (type == GY_FRAME_LOST) {
        expect_generation(keeper);
    }
    if (gy_nodes_send(keeper->nodes, to, type, generation, cause) < 0) {
        gy_launch_keeper_end(keeper, 1, SIGTERM,
                             "cannot report a lost rank to the other nodes: %s",
                             gy_error_text());
    }
}

static void say(void *arg, const gy_run_end *cause)
{
    const run_keeper *keeper = arg;
    if (!keeper->is_ending) {
        gy_log_message("%s", cause->text);
    }
}

/* A rank that has ended cannot help a new one to catch up. */
static const char *find_hindrance(const run_keeper *keeper)
{
    return keeper->options->on_failure != GY_RUN_RESTART
               ? "was not started with --on-failure=restart"
           : keeper->has_ended_well ? "has a rank that ended well before"
                                    : NULL;
}

static gy_status make_doors(run_keeper *keeper)
{
    size_t ranks = (size_t)keeper->options->ranks;
    gy_launch_keeper_close_listeners(keeper);
    keeper->listeners = gy_alloc("launch.listeners", ranks * sizeof(int));
    if (keeper->listeners == NULL) {
        return GY_NOMEM;
    }
    memset(keeper->listeners, -1, ranks * sizeof(int));
    return gy_nodes_listen(keeper->nodes, keeper->listeners);
}

static bool offer(void *arg, uint32_t generation, const gy_run_end *cause)
{
    run_keeper *keeper = arg;
    const char *hindrance = find_hindrance(keeper);
    if (keeper->is_ending) {
        return false;
    }
    if (hindrance != NULL) {
        gy_launch_keeper_end(keeper, cause->status, cause->number, "%.800s, but node %d %s",
                             cause->text, keeper->options->node, hindrance);
        return false;
    }
    expect_generation(keeper);
    if (keeper->nodes != NULL && make_doors(keeper) < 0) {
        gy_launch_keeper_end(keeper, 1, SIGTERM, "cannot listen for ranks of generation %u: %s",
                             generation, gy_error_text());
        return false;
    }
    return true;
}

static gy_status start_generation(run_keeper *keeper)
{
    close(keeper->segment);
    keeper->segment = -1;
    GY_TRY(gy_launch_keeper_make_segment(keeper));
    if (keeper->nodes != NULL) {
        GY_TRY(gy_launch_keeper_take_net(keeper));
    }
    for (int rank = 0; rank < keeper->started; rank++) {
        run_rank *who = &keeper->ranks[rank];
        if (who->is_to_restart) {
            gy_run_end loss = who->loss;
            bool is_untold = who->is_loss_untold;
            uint32_t lost_in = who->lost_in;
            gy_launch_keeper_forget(who);
            who->loss = loss;
            who->is_loss_untold = is_untold;
            who->lost_in = lost_in;
            GY_TRY(gy_launch_keeper_start(keeper, rank));
        } else if (who->socket >= 0) {
            gy_status status = gy_launch_keeper_send_place(keeper, rank);
            GY_TRY(status == GY_PEER ? GY_OK : status);
        }
    }
    gy_launch_keeper_close_listeners(keeper);
    return GY_OK;
}

static void begin(void *arg, uint32_t generation)
{
    run_keeper *keeper = arg;
    keeper->renew_by_ns = INT64_MAX;
    if (!keeper->is_ending && start_generation(keeper) < 0) {
        gy_launch_keeper_end(keeper, 1, SIGTERM, "cannot restart ranks for generation %u: %s",
                             generation, gy_error_text());
    }
}

/* No rank needs another any more, not even one that died meanwhile. */
static void over(void *arg)
{
    run_keeper *keeper = arg;
    keeper->is_over = true;
    keeper->renew_by_ns = INT64_MAX;
    for (int rank = 0; rank < keeper->started; rank++) {
        run_rank *who = &keeper->ranks[rank];
        who->is_to_restart = who->is_loss_untold = false;
        if (who->socket >= 0 && gy_launch_keeper_send_place(keeper, rank) < 0) {
            gy_debug("%s", gy_error_text()); /* the rank is dying, which the next round finds */
        }
    }
}

const gy_renewal_ops gy_keeper_renewal = {
    .tell = tell,
    .say = say,
    .offer = offer,
    .begin = begin,
    .over = over,
};

bool gy_launch_keeper_restarts(run_keeper *keeper, int rank, const gy_run_end *end)
{
    run_rank *who = &keeper->ranks[rank];
    if (keeper->is_over) {
        return true; /* it had done all its work */
    }
    if (keeper->restarts_left == 0 || keeper->has_ended_well) {
        return false;
    }
    keeper->restarts_left--;
    who->is_to_restart = who->is_loss_untold = true;
    who->lost_in = keeper->renewal.generation;
    who->loss = *end;
    snprintf(who->loss.text, sizeof(who->loss.text), "%.900s; restarted, %d restarts left",
             end->text, keeper->restarts_left);
    return true;
}

bool gy_launch_keeper_has_dead(const run_keeper *keeper)
{
    for (int rank = 0; rank < keeper->started; rank++) {
        if (keeper->ranks[rank].is_to_restart) {
            return true;
        }
    }
    return false;
}

void gy_launch_keeper_check_restarts(run_keeper *keeper)
{
    bool has_all_done = keeper->options->on_failure == GY_RUN_RESTART;
    for (int rank = 0; rank < keeper->started && !keeper->is_ending; rank++) {
        run_rank *who = &keeper->ranks[rank];
        if (who->is_loss_untold) {
            gy_run_end loss = who->loss;
            who->is_loss_untold = false;
            gy_renewal_lose(&keeper->renewal, who->lost_in, &loss);
        }
        has_all_done = has_all_done && who->has_done && !who->is_to_restart;
    }
    if (has_all_done && !keeper->is_ending) {
        gy_renewal_done(&keeper->renewal);
    }
}
