/* What a step emits. */
#include "control/daemon/daemon_priv.h"

/* Ended managers in one state; they are reported as long as there are files. */
enum { GONE_MAX = 256 };

void gy_daemon_no_memory(gy_daemon *daemon, gy_status status)
{
    daemon->status = status < 0 ? GY_NOMEM : daemon->status;
}

GY_EFFECT_OF(effect_new, gy_daemon_effects, gy_daemon_effect, "daemon.effects")

gy_daemon_effect *gy_daemon_emit(gy_daemon *daemon, gy_daemon_effect_kind kind, uint32_t job)
{
    gy_daemon_effect *effect = effect_new(daemon->effects, &daemon->status);
    *effect = (gy_daemon_effect){.kind = kind};
    if (job != GY_NONE) {
        effect->job = daemon->jobs[job].key;
        effect->epoch = daemon->jobs[job].epoch;
    }
    return effect;
}

void gy_daemon_refuse(gy_daemon *daemon, const gy_daemon_event *event, gy_status status,
                      const char *reason)
{
    uint32_t job = gy_daemon_job(daemon, event->job);
    gy_daemon_effect *effect = gy_daemon_emit(daemon, GY_DAEMON_TELL_REFUSED, GY_NONE);
    effect->job = event->job;
    effect->epoch = event->epoch;
    effect->started = job == GY_NONE ? 0 : daemon->jobs[job].epoch;
    effect->lease = event->lease;
    effect->generation = event->generation;
    effect->number = event->number;
    effect->status = status;
    effect->reason = reason;
}

void gy_daemon_list_leases(gy_daemon *daemon, uint32_t job, gy_daemon_state *state)
{
    gy_leased *all =
        gy_arena_alloc(&daemon->texts, (daemon->lease_count + 1) * sizeof(gy_leased));
    if (all == NULL) {
        gy_daemon_no_memory(daemon, GY_NOMEM);
        return;
    }
    size_t count = 0;
    for (uint32_t i = 0; i < daemon->options.slots; i++) {
        const lease_row *row = &daemon->leases[i];
        if (row->id != 0 && (job == GY_NONE || row->job == job) &&
            !(row->is_ending && GY_PLANTED_HERE(SLOT_EARLY))) {
            all[count++] = (gy_leased){.lease = row->id,
                                       .job = daemon->jobs[row->job].key,
                                       .epoch = row->epoch,
                                       .gang = row->gang,
                                       .is_ending = row->is_ending};
        }
    }
    state->leases = all;
    state->lease_count = count;
}

/* Did the job's last known manager run at this daemon, and has it ended? */
static bool is_gone(const job_row *row)
{
    return row->hosted == HOSTED_NONE && row->started > 0 && !row->is_syncing &&
           row->started == row->epoch && row->has_files && !row->is_over;
}

static void list_managers(gy_daemon *daemon, gy_daemon_state *state)
{
    size_t count = 0, gone = 0;
    for (size_t i = 0; i < daemon->job_count; i++) {
        count += daemon->jobs[i].hosted != HOSTED_NONE;
        count += daemon->jobs[i].is_behind;
        gone += is_gone(&daemon->jobs[i]);
    }
    gone = GY_MIN(gone, (size_t)GONE_MAX);
    gy_hosted *all = gy_arena_alloc(&daemon->texts, (count + gone + 1) * sizeof(*all));
    if (all == NULL) {
        gy_daemon_no_memory(daemon, GY_NOMEM);
        return;
    }
    for (size_t i = 0; i < daemon->job_count; i++) {
        job_row *row = &daemon->jobs[i];
        if (row->is_behind) { /* reported once: another such order causes another report */
            row->is_behind = false;
            all[state->manager_count++] =
                (gy_hosted){.job = row->key, .epoch = row->epoch, .is_known = true};
        }
        if (row->hosted != HOSTED_NONE) {
            all[state->manager_count++] = (gy_hosted){
                .job = row->key, .epoch = row->hosted_epoch, .is_waiting = row->is_waiting};
        } else if (gone > 0 && is_gone(row)) {
            gone--;
            all[state->manager_count++] = (gy_hosted){
                .job = row->key, .epoch = row->started, .is_gone = true, .signal = row->signal};
        }
    }
    state->managers = all;
}

void gy_daemon_emit_state(gy_daemon *daemon)
{
    gy_daemon_state *state = &gy_daemon_emit(daemon, GY_DAEMON_STATE, GY_NONE)->state;
    const gy_daemon_options *own = &daemon->options;
    *state = (gy_daemon_state){.daemon = own->id,
                               .incarnation = own->incarnation,
                               .life = own->life,
                               .sequence = ++daemon->sequence,
                               .term = daemon->term,
                               .order = daemon->order,
                               .platform = own->platform,
                               .slots = own->slots,
                               .address = daemon->address,
                               .host = daemon->host,
                               .labels = daemon->labels,
                               .trouble = daemon->trouble};
    gy_daemon_list_leases(daemon, GY_NONE, state);
    list_managers(daemon, state);
    daemon->is_dirty = false;
    daemon->beat_ns = daemon->now_ns + own->beat_ns;
}
