/*
 * Fetches sections that lie on other daemons. A section is fetched once, however many requests
 * want it. A failure is retried where that may help, and else reported as the reader needs it:
 * the peer is dead, or does not have these bytes. Small sections of one peer share a transfer:
 * a shuffle of many small sections would otherwise need a connection for each. A section that
 * failed once is fetched alone.
 */
#include "control/daemon/daemon_priv.h"

#include <string.h>

static const int64_t again_ns = 100000000;
enum { TRIES_MAX = 2 };

static gy_key section_key(const gy_daemon *daemon, uint32_t job, gy_key content)
{
    gy_key of = daemon->jobs[job].key;
    return (gy_key){content.high ^ (of.high << 1 | of.high >> 63), content.low ^ of.low};
}

static void set_state(gy_daemon *daemon, section_row *row, section_state state)
{
    daemon->queued_fetches += state == SECTION_QUEUED;
    daemon->queued_fetches -= row->state == SECTION_QUEUED;
    row->state = state;
}

/* The section has left its transfer, for any reason. */
static void leave_lot(gy_daemon *daemon, const section_row *row)
{
    gy_index_remove(&daemon->by_ticket, gy_index_id(row->ticket));
    for (size_t i = 0; i < daemon->lot_count; i++) {
        if (daemon->lots[i].lot == row->lot) {
            if (--daemon->lots[i].left == 0) {
                daemon->lots[i] = daemon->lots[--daemon->lot_count];
            }
            return;
        }
    }
}

static uint32_t section_new(gy_daemon *daemon, uint32_t job, gy_key content)
{
    uint32_t section = daemon->free_section;
    if (section != GY_NONE) {
        daemon->free_section = daemon->sections[section].next;
    } else {
        if (GY_GROW("daemon.sections", daemon->sections, daemon->section_capacity,
                    daemon->section_count + 1) < 0) {
            gy_daemon_no_memory(daemon, GY_NOMEM);
            return GY_NONE;
        }
        section = (uint32_t)daemon->section_count++;
    }
    daemon->sections[section] = (section_row){.job = job, .content = content};
    set_state(daemon, &daemon->sections[section], SECTION_QUEUED);
    daemon->jobs[job].sections++;
    gy_daemon_no_memory(
        daemon, gy_index_put(&daemon->by_section, section_key(daemon, job, content), section));
    return section;
}

static void section_free(gy_daemon *daemon, uint32_t section)
{
    section_row *row = &daemon->sections[section];
    if (row->state == SECTION_RUNNING) {
        gy_daemon_emit(daemon, GY_DAEMON_FETCH_STOP, row->job)->ticket = row->ticket;
        leave_lot(daemon, row);
    }
    set_state(daemon, row, SECTION_NONE);
    daemon->jobs[row->job].sections--;
    gy_index_remove(&daemon->by_section, section_key(daemon, row->job, row->content));
    *row = (section_row){.next = daemon->free_section};
    daemon->free_section = section;
}

static void tell(gy_daemon *daemon, const waiter_row *waiter, gy_status status)
{
    gy_daemon_effect *effect = gy_daemon_emit(daemon, GY_DAEMON_TELL_FETCHED, waiter->job);
    effect->epoch = waiter->epoch;
    effect->number = waiter->number;
    effect->status = status;
}

static void waiter_remove(gy_daemon *daemon, size_t index)
{
    daemon->waiters[index] = daemon->waiters[--daemon->waiter_count];
}

static void tell_all(gy_daemon *daemon, uint32_t section, gy_status status)
{
    for (size_t i = daemon->waiter_count; i-- > 0;) {
        if (daemon->waiters[i].section == section) {
            tell(daemon, &daemon->waiters[i], status);
            waiter_remove(daemon, i);
            if (GY_PLANTED_HERE(WAITER_FORGOTTEN)) {
                break;
            }
        }
    }
    for (size_t i = daemon->waiter_count; i-- > 0 && GY_PLANTED_HERE(WAITER_FORGOTTEN);) {
        if (daemon->waiters[i].section == section) {
            waiter_remove(daemon, i);
        }
    }
}

static bool is_wanted(const gy_daemon *daemon, uint32_t section)
{
    for (size_t i = 0; i < daemon->waiter_count; i++) {
        if (daemon->waiters[i].section == section) {
            return true;
        }
    }
    return false;
}

static bool take_peer(section_row *row, const gy_wanted_section *asked)
{
    if (!gy_step_take_text(row->address, sizeof(row->address), asked->address)) {
        return false;
    }
    row->peer = asked->peer;
    row->incarnation = asked->incarnation;
    row->size_bytes = asked->size_bytes;
    return true;
}

void gy_daemon_fetch(gy_daemon *daemon, uint32_t job, const gy_daemon_event *event)
{
    gy_key key = section_key(daemon, job, event->section->content);
    uint32_t section = gy_index_find(&daemon->by_section, key);
    for (size_t i = 0; i < daemon->waiter_count; i++) {
        const waiter_row *known = &daemon->waiters[i];
        if (known->job == job && known->epoch == event->epoch &&
            known->number == event->number) {
            return; /* a repeated message */
        }
    }
    waiter_row waiter = {.job = job, .epoch = event->epoch, .number = event->number};
    if (section != GY_NONE && daemon->sections[section].state == SECTION_HERE) {
        tell(daemon, &waiter, GY_OK);
        return;
    }
    if (daemon->trouble[0] != '\0' && section == GY_NONE) {
        tell(daemon, &waiter, GY_LIMIT);
        return;
    }
    if (GY_GROW("daemon.waiters", daemon->waiters, daemon->waiter_capacity,
                daemon->waiter_count + 1) < 0) {
        gy_daemon_no_memory(daemon, GY_NOMEM);
        return;
    }
    if (section == GY_NONE || GY_PLANTED_HERE(FETCH_TWICE)) {
        if (section != GY_NONE) {
            gy_index_remove(&daemon->by_section, key);
        }
        section = section_new(daemon, job, event->section->content);
        if (section == GY_NONE) {
            return;
        }
    }
    /* The next try uses the newer request's peer. */
    if (!take_peer(&daemon->sections[section], event->section)) {
        tell(daemon, &waiter, GY_ARG);
        if (!is_wanted(daemon, section)) {
            section_free(daemon, section);
        }
        return;
    }
    waiter.section = section;
    daemon->waiters[daemon->waiter_count++] = waiter;
    daemon->jobs[job].has_files = true;
}

void gy_daemon_unfetch(gy_daemon *daemon, uint32_t job, uint64_t number)
{
    for (size_t i = 0; i < daemon->waiter_count; i++) {
        if (daemon->waiters[i].job == job && daemon->waiters[i].number == number) {
            uint32_t section = daemon->waiters[i].section;
            waiter_remove(daemon, i);
            if (!is_wanted(daemon, section)) {
                section_free(daemon, section);
            }
            return;
        }
    }
}

/* Interpret a failure, and decide whether another try may help. */
static bool may_try_again(gy_daemon *daemon, section_row *row, gy_status status)
{
    row->tries++;
    row->due_ns = daemon->now_ns;
    if (status == GY_PEER) { /* the peer may be restarting */
        row->failed_ns = row->failed_ns == 0 ? daemon->now_ns : row->failed_ns;
        row->due_ns = daemon->now_ns + again_ns;
        return daemon->now_ns - row->failed_ns < daemon->options.fetch_ns;
    }
    row->failed_ns = 0;
    return status != GY_NOTFOUND && status != GY_LIMIT && row->tries < TRIES_MAX;
}

void gy_daemon_fetched(gy_daemon *daemon, const gy_daemon_event *event)
{
    uint32_t section = gy_index_find(&daemon->by_ticket, gy_index_id(event->ticket));
    if (section == GY_NONE) {
        return; /* it was stopped */
    }
    section_row *row = &daemon->sections[section];
    leave_lot(daemon, row);
    set_state(daemon, row, SECTION_QUEUED);
    bool is_fine = event->status == GY_OK ||
                   (GY_PLANTED_HERE(CHECKSUM_TRUSTED) && event->status == GY_MISMATCH);
    if (is_fine) {
        set_state(daemon, row, SECTION_HERE);
        tell_all(daemon, section, GY_OK);
    } else if (!may_try_again(daemon, row, event->status)) {
        tell_all(daemon, section, event->status);
        section_free(daemon, section);
    }
}

void gy_daemon_drop_fetches(gy_daemon *daemon, uint32_t job, bool is_all)
{
    for (size_t i = daemon->waiter_count; i-- > 0;) {
        const waiter_row *row = &daemon->waiters[i];
        if (row->job == job && (is_all || row->epoch < daemon->jobs[job].epoch)) {
            waiter_remove(daemon, i);
        }
    }
    for (uint32_t i = 0; i < daemon->section_count; i++) {
        section_state state = daemon->sections[i].state;
        if (state != SECTION_NONE && daemon->sections[i].job == job &&
            (is_all || (state != SECTION_HERE && !is_wanted(daemon, i)))) {
            section_free(daemon, i);
        }
    }
}

/* May the section share the transfer of `first`? */
static bool is_alike(const gy_daemon *daemon, const section_row *first, const section_row *row)
{
    return row->state == SECTION_QUEUED && row->due_ns <= daemon->now_ns && row->tries == 0 &&
           row->size_bytes <= GY_DAEMON_LOT_ONE && row->job == first->job &&
           row->peer == first->peer && row->incarnation == first->incarnation &&
           strcmp(row->address, first->address) == 0;
}

static void start_one(gy_daemon *daemon, uint32_t section, uint64_t lot, uint32_t left)
{
    section_row *row = &daemon->sections[section];
    set_state(daemon, row, SECTION_RUNNING);
    row->ticket = ++daemon->ticket;
    row->lot = lot;
    gy_daemon_no_memory(daemon,
                        gy_index_put(&daemon->by_ticket, gy_index_id(row->ticket), section));
    gy_daemon_effect *effect = gy_daemon_emit(daemon, GY_DAEMON_FETCH_START, row->job);
    effect->ticket = row->ticket;
    effect->lot_left = left;
    effect->section = (gy_wanted_section){.content = row->content,
                                          .peer = row->peer,
                                          .incarnation = row->incarnation,
                                          .address = row->address,
                                          .size_bytes = row->size_bytes};
}

/* Start the section, and those that may share its transfer. */
static void start_lot(gy_daemon *daemon, uint32_t section)
{
    uint32_t all[GY_DAEMON_LOT] = {section}, count = 1;
    const section_row *first = &daemon->sections[section];
    uint64_t bytes = first->size_bytes;
    const bool is_small = is_alike(daemon, first, first);
    for (uint32_t i = section + 1;
         i < daemon->section_count && count < GY_DAEMON_LOT && is_small; i++) {
        const section_row *row = &daemon->sections[i];
        if (is_alike(daemon, first, row) && bytes + row->size_bytes <= GY_DAEMON_LOT_BYTES) {
            bytes += row->size_bytes;
            all[count++] = i;
        }
    }
    if (GY_GROW("daemon.lots", daemon->lots, daemon->lot_capacity, daemon->lot_count + 1) < 0) {
        gy_daemon_no_memory(daemon, GY_NOMEM);
        return;
    }
    const uint64_t lot = daemon->ticket + 1;
    daemon->lots[daemon->lot_count++] = (lot_row){.lot = lot, .left = count};
    for (uint32_t i = 0; i < count; i++) {
        start_one(daemon, all[i], lot, count - 1 - i);
    }
}

int64_t gy_daemon_start_fetches(gy_daemon *daemon)
{
    int64_t next_ns = INT64_MAX;
    for (uint32_t i = 0; i < daemon->section_count && daemon->queued_fetches > 0 &&
                         daemon->lot_count < daemon->options.fetch_max && daemon->status >= 0;
         i++) {
        const section_row *row = &daemon->sections[i];
        if (row->state == SECTION_QUEUED && row->due_ns > daemon->now_ns) {
            next_ns = GY_MIN(next_ns, row->due_ns);
        } else if (row->state == SECTION_QUEUED) {
            start_lot(daemon, i);
        }
    }
    return next_ns;
}
