/* Daemons: the states they send, and when they are lost. */
#include "control/names/lists.h"

#include <signal.h>
#include <string.h>

uint32_t gy_names_daemon_row(gy_names *names, uint64_t id)
{
    uint32_t found = gy_index_find(&names->by_daemon, gy_index_id(id));
    if (found != GY_NONE) {
        return found;
    }
    uint32_t daemon = (uint32_t)names->daemon_count;
    /* Reuse a lost daemon's row that is no longer needed. */
    if (daemon >= names->options.daemon_max) {
        for (daemon = 0; daemon < names->daemon_count; daemon++) {
            const daemon_row *row = &names->daemons[daemon];
            if (!row->is_up && row->version == 0 && !row->is_storing &&
                row->leases.first == GY_NONE && row->jobs.first == GY_NONE) {
                gy_index_remove(&names->by_daemon, gy_index_id(row->id));
                gy_index_remove(&names->by_host, gy_names_host_key(row->host));
                break;
            }
        }
        if (daemon == names->daemon_count) {
            return GY_NONE;
        }
    }
    if (GY_GROW("names.daemons", names->daemons, names->daemon_capacity, (size_t)daemon + 1) <
        0) {
        gy_names_no_memory(names, GY_NOMEM);
        return GY_NONE;
    }
    if (gy_index_put(&names->by_daemon, gy_index_id(id), daemon) < 0) {
        gy_names_no_memory(names, GY_NOMEM);
        return GY_NONE;
    }
    names->daemons[daemon] =
        (daemon_row){.id = id, .leases = GY_LIST_EMPTY, .jobs = GY_LIST_EMPTY};
    names->daemon_count = GY_MAX(names->daemon_count, (size_t)daemon + 1);
    return daemon;
}

void gy_names_daemon_changed(gy_names *names, uint32_t daemon)
{
    const daemon_row *row = &names->daemons[daemon];
    if (gy_names_may_lend(row) && gy_names_free_slots(row) > 0) {
        gy_names_no_memory(names, gy_control_heap_put(&names->free, daemon));
    } else {
        gy_control_heap_remove(&names->free, daemon);
    }
}

/* Does "fast,gpu" contain "gpu"? */
static bool has_label(const char *labels, const char *wanted)
{
    size_t size = strlen(wanted);
    while (size > 0 && labels != NULL) {
        if (strncmp(labels, wanted, size) == 0 &&
            (labels[size] == ',' || labels[size] == '\0')) {
            return true;
        }
        labels = strchr(labels, ',');
        labels = labels == NULL ? NULL : labels + 1;
    }
    return size == 0;
}

static bool is_right_platform(const daemon_row *row, const job_facts *facts)
{
    return facts->platform == 0 || facts->platform == row->platform;
}

bool gy_names_is_kind(const gy_names *names, uint32_t daemon, uint32_t job)
{
    const daemon_row *row = &names->daemons[daemon];
    const job_facts *facts = &names->jobs[job].facts;
    return is_right_platform(row, facts) && has_label(row->labels, facts->label);
}

gy_misfit gy_names_misfit(const gy_names *names, uint32_t daemon, uint32_t job)
{
    const daemon_row *row = &names->daemons[daemon];
    const job_row *of = &names->jobs[job];
    if (gy_names_is_avoided(names, daemon, job)) {
        return MISFIT_AVOIDED;
    }
    if (!gy_names_may_lend(row)) {
        return !row->is_up ? MISFIT_LOST : row->is_drained ? MISFIT_DRAINED : MISFIT_TROUBLED;
    }
    if (!is_right_platform(row, &of->facts)) {
        return MISFIT_PLATFORM;
    }
    return has_label(row->labels, of->facts.label) ? MISFIT_NONE : MISFIT_LABEL;
}

bool gy_names_fits(const gy_names *names, uint32_t daemon, uint32_t job)
{
    return gy_names_misfit(names, daemon, job) == MISFIT_NONE;
}

static bool is_named(const gy_names *names, uint32_t daemon, const gy_key *hosts,
                     uint32_t count)
{
    const gy_key own = gy_names_host_key(names->daemons[daemon].host);
    for (uint32_t i = 0; i < count; i++) {
        if (own.low != 0 && gy_key_is_same(hosts[i], own)) {
            return true;
        }
    }
    return false;
}

/* @cost O(slots of the job) */
bool gy_names_suits(const gy_names *names, uint32_t daemon, uint32_t job)
{
    const job_row *row = &names->jobs[job];
    if (!gy_names_fits(names, daemon, job)) {
        return false;
    }
    if (!row->is_limited || is_named(names, daemon, row->hosts, row->must)) {
        return true;
    }
    uint32_t elsewhere = 0;
    for (uint32_t i = row->leases.first; i != GY_NONE; i = names->leases[i].at_job.next) {
        const lease_row *lease = &names->leases[i];
        elsewhere += (lease->state == LEASE_OFFERED || lease->state == LEASE_HELD) &&
                     lease->gang == 0 && !is_named(names, lease->daemon, row->hosts, row->must);
    }
    return elsewhere < row->elsewhere;
}

uint32_t gy_names_missing(const gy_names *names, uint32_t job)
{
    const job_row *row = &names->jobs[job];
    uint32_t missing = row->is_limited ? (1u << row->must) - 1 : 0;
    for (uint32_t daemon = 0; daemon < names->daemon_count && missing != 0; daemon++) {
        for (uint32_t i = 0; i < row->must; i++) {
            if ((missing & 1u << i) != 0 && is_named(names, daemon, &row->hosts[i], 1) &&
                gy_names_fits(names, daemon, job)) {
                missing &= ~(1u << i);
            }
        }
    }
    return missing;
}

gy_control_order *gy_names_order(gy_names *names, uint32_t daemon, gy_control_order_kind kind,
                                 uint64_t number)
{
    gy_names_effect *effect = gy_names_emit(names, GY_NAMES_ORDER);
    effect->order = (gy_control_order){.kind = kind,
                                       .daemon = names->daemons[daemon].id,
                                       .incarnation = names->daemons[daemon].incarnation,
                                       .term = names->term,
                                       .number = number};
    effect->address = names->daemons[daemon].address;
    return &effect->order;
}

void gy_names_set_host(gy_names *names, uint32_t job, uint32_t daemon)
{
    job_row *row = &names->jobs[job];
    if (row->host != GY_NONE) {
        hosted_jobs_remove(&names->daemons[row->host].jobs, names->jobs, job);
        names->daemons[row->host].hosted--;
    }
    row->host = daemon;
    row->was_listed = false;
    if (daemon != GY_NONE) {
        hosted_jobs_add(&names->daemons[daemon].jobs, names->jobs, job);
        names->daemons[daemon].hosted++;
        row->last_host = daemon;
    }
}

/* The managers on a lost daemon. If the daemon is merely silent, a manager that has reported
 * may be alive, and its own timeout decides. A daemon that ended in order has ended its
 * managers. */
static void lose_managers(gy_names *names, uint32_t daemon, bool has_ended)
{
    daemon_row *row = &names->daemons[daemon];
    for (uint32_t job = row->jobs.first; job != GY_NONE; job = row->jobs.first) {
        gy_names_set_host(names, job, GY_NONE);
        if (has_ended || names->jobs[job].state == JOB_ORDERED) {
            gy_names_manager_lost(names, job, "went with its daemon");
        }
    }
}

/* All leases and managers of the daemon are lost. */
static void lose(gy_names *names, uint32_t daemon, bool has_ended, const char *reason)
{
    daemon_row *row = &names->daemons[daemon];
    while (row->leases.first != GY_NONE) {
        gy_names_lease_gone(names, row->leases.first);
    }
    row->is_up = false;
    row->managers = 0;
    lose_managers(names, daemon, has_ended);
    gy_control_heap_remove(&names->beating, daemon);
    gy_names_daemon_changed(names, daemon);
    gy_names_reshape(names); /* a gang may wait for slots that no longer exist */
    gy_names_note_daemon(names, daemon, reason);
}

void gy_names_check_daemons(gy_names *names)
{
    while (names->beating.count > 0 && !GY_PLANTED_HERE(DEAD_KEPT)) {
        uint32_t daemon = names->beating.items[0];
        int64_t silent_ns = names->now_ns - names->daemons[daemon].heard_ns;
        if (silent_ns < names->options.dead_ns) {
            return;
        }
        lose(names, daemon, false,
             gy_names_text(names, "lost: no heartbeat for %lld ms",
                           (long long)silent_ns / 1000000));
    }
    if (GY_PLANTED_HERE(DEAD_KEPT) && names->beating.count > 0) {
        names->daemons[names->beating.items[0]].heard_ns = names->now_ns;
    }
}

void gy_names_bye(gy_names *names, const gy_names_event *event)
{
    uint32_t daemon = gy_index_find(&names->by_daemon, gy_index_id(event->id));
    if (daemon == GY_NONE || !names->daemons[daemon].is_up ||
        names->daemons[daemon].incarnation != event->incarnation ||
        names->daemons[daemon].life != event->life) {
        return;
    }
    lose(names, daemon, true, "has ended");
    /* So that late states of the ended life are ignored. */
    names->daemons[daemon].sequence = UINT64_MAX;
}

void gy_names_drained(gy_names *names, uint32_t daemon, bool is_drained)
{
    daemon_row *row = &names->daemons[daemon];
    row->is_drained = is_drained;
    row->has_bad = row->has_bad && is_drained;
    gy_names_daemon_changed(names, daemon);
    gy_names_reshape(names);
    gy_names_note_daemon(names, daemon,
                         is_drained ? "drained: gets no new work" : "may work again");
}

/* Two daemons with copies of one folder: the name server accepts states of the later life and
 * ignores the other's. One late state of an earlier life may be a delayed message; several are
 * not. */
static void handle_twin(gy_names *names, uint32_t daemon, const gy_daemon_state *state)
{
    enum { WORDS = 3 };
    static const int64_t again_ns = 60000000000;
    daemon_row *row = &names->daemons[daemon];
    if (!row->is_up || state->address == NULL || strcmp(row->address, state->address) == 0 ||
        ++row->twin_words < WORDS || names->now_ns < row->twin_ns) {
        return;
    }
    row->twin_words = 0;
    row->twin_ns = names->now_ns + again_ns;
    gy_names_note_daemon(names, daemon,
                         gy_names_text(names,
                                       "two daemons have this identity (a copied work folder): "
                                       "the one at %s is accepted, the one at %.200s is not",
                                       row->address, state->address));
}

/* Is the state new, and from the current incarnation? */
static bool is_news(gy_names *names, uint32_t daemon, const gy_daemon_state *state)
{
    daemon_row *row = &names->daemons[daemon];
    for (int i = 0; i < PAST; i++) {
        if (row->past[i] == state->incarnation) {
            return false;
        }
    }
    if (row->incarnation == state->incarnation) {
        const bool is_later = state->life > row->life ||
                              (state->life == row->life && state->sequence > row->sequence);
        if (!is_later) {
            handle_twin(names, daemon, state);
        }
        return is_later;
    }
    if (row->incarnation != 0) {
        row->past[row->past_next++ % PAST] = row->incarnation;
        lose(names, daemon, false, "comes back with an empty folder");
    }
    return true;
}

gy_key gy_names_host_key(const char *host)
{
    return host != NULL && host[0] != '\0'
               ? gy_key_of(host, strnlen(host, GY_CONTROL_TEXT_BYTES))
               : (gy_key){0};
}

/* Index the daemon by its host's name; several daemons of a host share it. */
static void find_by_host(gy_names *names, uint32_t daemon, gy_key before)
{
    gy_key now = gy_names_host_key(names->daemons[daemon].host);
    if (!gy_key_is_same(before, now) && gy_index_find(&names->by_host, before) == daemon) {
        gy_index_remove(&names->by_host, before);
    }
    if (now.low != 0 && gy_index_find(&names->by_host, now) == GY_NONE) {
        gy_names_no_memory(names, gy_index_put(&names->by_host, now, daemon));
    }
}

static bool take_state(gy_names *names, uint32_t daemon, const gy_daemon_state *state)
{
    daemon_row *row = &names->daemons[daemon];
    gy_key host = gy_names_host_key(row->host);
    bool had = gy_names_may_lend(row);
    if (state->slots > GY_CONTROL_SLOTS_MAX ||
        !gy_step_take_text(row->address, sizeof(row->address), state->address) ||
        !gy_step_take_text(row->host, sizeof(row->host), state->host) ||
        !gy_step_take_text(row->labels, sizeof(row->labels), state->labels) ||
        !gy_step_take_text(row->trouble, sizeof(row->trouble), state->trouble)) {
        gy_names_note_daemon(names, daemon, "sent a state that is too long: refused");
        return false;
    }
    uint32_t slots = row->slots;
    row->incarnation = state->incarnation;
    row->life = state->life;
    row->sequence = state->sequence;
    row->term = state->term;
    row->order = state->order;
    row->platform = state->platform;
    row->slots = state->slots;
    row->managers = 0;
    for (size_t i = 0; i < state->manager_count; i++) {
        row->managers += !state->managers[i].is_gone && !state->managers[i].is_known;
    }
    row->heard_ns = names->now_ns;
    row->is_up = true;
    row->round++;
    gy_names_no_memory(names, gy_control_heap_put(&names->beating, daemon));
    find_by_host(names, daemon, host);
    gy_names_daemon_changed(names, daemon);
    if (had != gy_names_may_lend(row) || slots != row->slots) {
        gy_names_reshape(names);
    }
    return true;
}

/* The manager ended at its daemon, which told an earlier name server or none. */
static void handle_gone(gy_names *names, uint32_t daemon, uint32_t job, uint32_t signal)
{
    const char *name = signal > 0 && signal < NSIG ? sigabbrev_np((int)signal) : NULL;
    const char *how = name != NULL ? gy_names_text(names, "was killed by SIG%s", name)
                      : signal > 0 ? gy_names_text(names, "was killed by signal %u", signal)
                                   : "has ended";
    const job_row *row = &names->jobs[job];
    if ((row->state == JOB_ORDERED || row->state == JOB_UP) &&
        (row->host == GY_NONE || row->host == daemon)) {
        gy_names_manager_lost(names, job, how);
    }
}

static void handle_managers(gy_names *names, uint32_t daemon, const gy_daemon_state *state)
{
    for (size_t i = 0; i < state->manager_count; i++) {
        const gy_hosted *said = &state->managers[i];
        uint32_t job = gy_index_find(&names->by_job, said->job);
        job_row *row = job == GY_NONE ? NULL : &names->jobs[job];
        if (row == NULL || !gy_names_is_open(row) ||
            !gy_names_take_epoch(names, job, said->epoch)) {
            if (row != NULL && said->epoch > row->next.epoch &&
                said->epoch > row->facts.epoch) {
                gy_names_end(names, GY_MISMATCH, "another name server gave a later epoch");
            }
            continue; /* its daemon ends it when it learns the current epoch */
        }
        if (said->is_known) {
            continue; /* already known */
        }
        if (said->is_gone) {
            handle_gone(names, daemon, job, said->signal);
            continue;
        }
        if (row->host != daemon) {
            gy_names_set_host(names, job, daemon);
        }
        const bool is_new = row->order == 0 && !row->was_listed;
        const bool is_waiting = said->is_waiting && !row->facts.is_killed;
        if (row->state == JOB_ORDERED && (is_new || is_waiting)) {
            gy_names_due(names, job, names->now_ns + names->options.start_ns);
        }
        row->was_listed = true;
        row->round = names->daemons[daemon].round;
    }
    uint32_t round = names->daemons[daemon].round;
    for (uint32_t job = names->daemons[daemon].jobs.first, next; job != GY_NONE; job = next) {
        GY_ASSERT(names->jobs != NULL);
        next = names->jobs[job].at_host.next;
        if (names->jobs[job].round != round) {
            gy_names_manager_unlisted(names, job);
        }
    }
}

void gy_names_handle_daemon(gy_names *names, const gy_daemon_state *state)
{
    if (state->daemon == 0 || state->incarnation == 0) {
        return;
    }
    if (state->term > names->term && !GY_PLANTED_HERE(TERM_KEPT)) {
        gy_names_end(names, GY_MISMATCH, "another name server has a later term");
        return;
    }
    uint32_t daemon = gy_names_daemon_row(names, state->daemon);
    if (daemon == GY_NONE || !is_news(names, daemon, state) ||
        !take_state(names, daemon, state)) {
        return;
    }
    for (size_t i = 0; i < state->lease_count && names->phase == NAMES_SERVING; i++) {
        gy_names_confirm(names, daemon, &state->leases[i]);
    }
    if (names->phase == NAMES_SERVING) {
        gy_names_reconcile(names, daemon);
        handle_managers(names, daemon, state);
        gy_names_daemon_changed(names, daemon);
    }
}
