/*
 * Sends a START to its process when the sections that it reads are on its host. They are
 * requested from that host's daemon, many in one message, and the daemon fetches a section once
 * for all that wait. A section that cannot be had is a lost input if the host that should have
 * it is up, and counts as no failure if it is not.
 */
#include "driver/remote/remote_priv.h"

#include <stdio.h>
#include <string.h>

enum { TRIES_MAX = 2 };

/* ---- rows ---- */

static uint32_t new_need(gy_remote *remote)
{
    uint32_t row = remote->free_need;
    if (row != GY_NONE) {
        remote->free_need = remote->needs[row].next;
        return row;
    }
    gy_status status =
        GY_GROW("driver.remote", remote->needs, remote->need_room, remote->need_count + 1);
    return status < 0 ? GY_NONE : (uint32_t)remote->need_count++;
}

/* Forget the row's number; a row in a queue is freed when its turn comes. */
static void end_need(gy_driver *driver, uint32_t row, bool is_told)
{
    gy_remote *remote = driver->remote;
    remote_need *need = &remote->needs[row];
    lease_host *host = &remote->client.hosts[need->to];
    need->start = NULL;
    if (!need->is_asked) {
        return; /* it is in its host's queue, which frees it */
    }
    gy_index_remove(&remote->by_number, gy_index_id(need->number));
    host->asked -= host->asked > 0;
    if (is_told && host->state == HOST_HERE) {
        REMOTE_MESSAGE(Unfetch, unfetch, message);
        message.number = need->number;
        remote_tell(driver, host->peer, GY_NET_UNFETCH, &message.base);
    }
    need->is_asked = false;
    need->next = remote->free_need;
    remote->free_need = row;
}

static void free_start(remote_start *start)
{
    *start->place = start->next;
    if (start->next != NULL) {
        start->next->place = start->place;
    }
    gy_text_free(&start->wire);
    gy_free(start);
}

static void drop_start(gy_driver *driver, remote_start *start)
{
    gy_remote *remote = driver->remote;
    for (uint32_t i = 0; i < remote->need_count && start->left > 0; i++) {
        if (remote->needs[i].start == start) {
            end_need(driver, i, true);
            start->left--;
        }
    }
    free_start(start);
}

void remote_starts_free(gy_driver *driver)
{
    while (driver->remote->starts != NULL) {
        free_start(driver->remote->starts);
    }
}

void remote_forget(gy_driver *driver, const gy_process *process)
{
    gy_remote *remote = driver->remote;
    for (remote_start *at = remote->starts, *next; at != NULL; at = next) {
        next = at->next;
        if (at->slot == process->slot && at->generation == process->generation) {
            drop_start(driver, at);
        }
    }
    gy_lease_client_forget(&remote->client, process->slot, process->generation);
}

bool remote_unfetch(gy_driver *driver, const gy_effect *effect)
{
    for (remote_start *at = driver->remote->starts; at != NULL; at = at->next) {
        if (at->slot == effect->process && at->generation == effect->generation &&
            at->member == effect->member && at->id.task == effect->id.task &&
            at->id.epoch == effect->id.epoch && at->id.attempt == effect->id.attempt) {
            drop_start(driver, at);
            remote_answered(driver, &driver->processes[effect->process]);
            return true;
        }
    }
    return false;
}

/* ---- requests ---- */

static void queue_need(gy_remote *remote, uint32_t row)
{
    remote_need *need = &remote->needs[row];
    lease_host *to = &remote->client.hosts[need->to];
    need->next = GY_NONE;
    need->is_asked = false;
    if (to->last_need == GY_NONE) {
        to->first_need = row;
    } else {
        remote->needs[to->last_need].next = row;
    }
    to->last_need = row;
}

/* The daemon refused a FETCH, so FETCHED never comes. */
typedef struct fetch_call {
    gy_driver *driver;
    uint64_t number; /* of the first section */
    uint32_t count;
} fetch_call;

static void lose_need(gy_driver *driver, uint32_t row, gy_status status, const char *reason);

static void fetch_begun(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    const fetch_call call = *(fetch_call *)arg;
    gy_driver *driver = call.driver;
    (void)answer;
    gy_free(arg);
    if (status >= 0 || status == GY_CANCELLED || status == GY_PEER || driver->has_ended) {
        return; /* if a daemon is lost or restarts all STARTs are dropped */
    }
    gy_error why;
    gy_error_take(&why, status);
    if (status == GY_STATE) {
        remote_over(driver, GY_STATE, why.text);
    }
    for (uint32_t i = 0; i < call.count && status != GY_STATE && !driver->has_ended; i++) {
        const uint32_t row =
            gy_index_find(&driver->remote->by_number, gy_index_id(call.number + i));
        if (row != GY_NONE) {
            lose_need(driver, row, status, why.text);
        }
    }
}

static void fill_one(const gy_driver *driver, const remote_need *need,
                     Gy__Cluster__Key *content, Gy__Cluster__FetchOne *one)
{
    const gy_driver_need *what = &need->what;
    const lease_host *from = &driver->remote->client.hosts[what->host];
    gy__cluster__fetch_one__init(one);
    *content = remote_key(what->content);
    one->number = need->number;
    one->content = content;
    one->peer = from->daemon;
    one->incarnation = from->incarnation;
    one->address = (char *)(uintptr_t)from->address;
    one->size_bytes = what->size_bytes;
    one->name = (char *)(uintptr_t)what->name;
    one->wanted.data = (uint8_t *)(uintptr_t)what->wanted;
    one->wanted.len = what->wanted_bytes;
}

/* Give the rows their numbers, by which FETCHED names them. */
static gy_status number_rows(gy_remote *remote, const uint32_t *rows, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        remote_need *need = &remote->needs[rows[i]];
        need->number = ++remote->number;
        GY_TRY(gy_index_put(&remote->by_number, gy_index_id(need->number), rows[i]));
    }
    return GY_OK;
}

static bool ask(gy_driver *driver, uint32_t to, const uint32_t *rows, uint32_t count)
{
    gy_remote *remote = driver->remote;
    Gy__Cluster__FetchOne ones[REMOTE_FETCH_BATCH], *sections[REMOTE_FETCH_BATCH];
    Gy__Cluster__Key contents[REMOTE_FETCH_BATCH];
    REMOTE_MESSAGE(Fetch, fetch, message);
    message.sections = sections;
    message.n_sections = count;
    fetch_call *call = gy_alloc("driver.remote", sizeof(*call));
    bool is_reported = call != NULL;
    if (is_reported) {
        *call = (fetch_call){driver, remote->number + 1, count};
    }
    is_reported = is_reported && number_rows(remote, rows, count) == GY_OK;
    for (uint32_t i = 0; i < count && is_reported; i++) {
        fill_one(driver, &remote->needs[rows[i]], &contents[i], &ones[i]);
        sections[i] = &ones[i];
    }
    is_reported =
        is_reported && remote_call(driver, remote->client.hosts[to].peer, GY_NET_FETCH,
                                   &message.base, fetch_begun, call) == GY_OK;
    for (uint32_t i = 0; i < count; i++) {
        if (!is_reported) {
            gy_index_remove(&remote->by_number, gy_index_id(remote->needs[rows[i]].number));
        }
        remote->needs[rows[i]].is_asked = is_reported;
    }
    if (!is_reported) {
        gy_free(call);
    } else if (driver->options->traffic != NULL) {
        driver->options->traffic->questions++;
    }
    return is_reported;
}

/* The next row of the host's queue with a waiting START; other rows are freed. */
static uint32_t next_need(gy_remote *remote, lease_host *to)
{
    while (to->first_need != GY_NONE && remote->needs[to->first_need].start == NULL) {
        const uint32_t row = to->first_need;
        to->first_need = remote->needs[row].next;
        remote->needs[row].next = remote->free_need;
        remote->free_need = row;
    }
    to->last_need = to->first_need == GY_NONE ? GY_NONE : to->last_need;
    return to->first_need;
}

void remote_fetches_go_on(void *arg, uint32_t host)
{
    gy_driver *driver = arg;
    gy_remote *remote = driver->remote;
    lease_host *to = &remote->client.hosts[host];
    uint32_t rows[REMOTE_FETCH_BATCH];
    while (to->state == HOST_HERE && to->asked < REMOTE_FETCHES) {
        const uint32_t most =
            GY_MIN((uint32_t)REMOTE_FETCH_BATCH, (uint32_t)REMOTE_FETCHES - to->asked);
        uint32_t count = 0;
        for (uint32_t row = next_need(remote, to); row != GY_NONE && count < most;
             row = remote->needs[row].next) {
            if (remote->needs[row].start != NULL) {
                rows[count++] = row;
            }
        }
        if (count == 0 || !ask(driver, host, rows, count)) {
            return; /* retried when there is room, or at the next tick */
        }
        /* These rows, and abandoned ones between them. */
        while (to->first_need != rows[count - 1]) {
            const uint32_t row = to->first_need;
            to->first_need = remote->needs[row].next;
            if (remote->needs[row].start == NULL) {
                remote->needs[row].next = remote->free_need;
                remote->free_need = row;
            }
        }
        to->first_need = remote->needs[rows[count - 1]].next;
        to->last_need = to->first_need == GY_NONE ? GY_NONE : to->last_need;
        to->asked += count;
    }
}

gy_status remote_fetch(gy_driver *driver, gy_process *process, const gy_effect *effect,
                       const gy_driver_place *place)
{
    gy_remote *remote = driver->remote;
    const uint32_t host = remote->client.executors[process->slot].host;
    remote->client.executors[process->slot].running++;
    if (place->count == 0) {
        gy_process_start(driver, process, effect);
        return GY_OK;
    }
    remote_start *start = gy_alloc_zero("driver.remote", 1, sizeof(*start));
    if (start == NULL) {
        return GY_NOMEM;
    }
    *start = (remote_start){.next = remote->starts,
                            .place = &remote->starts,
                            .slot = process->slot,
                            .generation = process->generation,
                            .id = effect->id,
                            .member = effect->member};
    gy_wire_add(&start->wire, &(gy_wire){.kind = GY_WIRE_START,
                                         .id = effect->id,
                                         .member = effect->member,
                                         .key = effect->key,
                                         .body = driver->message.data,
                                         .body_bytes = driver->message.size_bytes});
    if (remote->starts != NULL) {
        remote->starts->place = &start->next;
    }
    remote->starts = start;
    gy_status status = start->wire.status;
    for (size_t i = 0; i < place->count && status == GY_OK; i++) {
        const uint32_t row = new_need(remote);
        status = row != GY_NONE ? GY_OK : GY_NOMEM;
        if (status == GY_OK) {
            remote->needs[row] =
                (remote_need){.start = start, .to = host, .what = place->needs[i]};
            start->left++;
            queue_need(remote, row);
        }
    }
    if (status < 0) {
        drop_start(driver, start);
        return status;
    }
    remote_fetches_go_on(driver, host);
    return GY_OK;
}

/* ---- results ---- */

/* Send the process its START: all its sections are there. */
static void deliver(gy_driver *driver, remote_start *start)
{
    gy_process *process = gy_process_get(driver, start->slot, start->generation);
    if (process != NULL) {
        gy_text_add_bytes(&process->out, start->wire.data, start->wire.size_bytes);
        gy_process_touch(driver, process);
    }
    free_start(start);
}

static void fail_start(gy_driver *driver, remote_start *start, gy_sched_event *event)
{
    event->kind = GY_EVENT_FAILED;
    event->process = start->slot;
    event->generation = start->generation;
    event->id = start->id;
    event->member = start->member;
    remote_answered(driver, &driver->processes[start->slot]);
    drop_start(driver, start);
    gy_driver_step(driver, event);
}

/* The section cannot be had: `status` and the text of the daemon that tried. */
static void lose_need(gy_driver *driver, uint32_t row, gy_status status, const char *reason)
{
    gy_remote *remote = driver->remote;
    remote_need *need = &remote->needs[row];
    remote_start *start = need->start;
    const lease_host *from = &remote->client.hosts[need->what.host];
    const bool is_from_up = from->state == HOST_HERE;
    if (status == GY_PEER && is_from_up && ++need->tries < TRIES_MAX) {
        /* The peer is dead for the reader, and maybe soon for the manager too; the daemon tried
         * for 2 s. */
        gy_index_remove(&remote->by_number, gy_index_id(need->number));
        lease_host *to = &remote->client.hosts[need->to];
        to->asked -= to->asked > 0;
        queue_need(remote, row);
        remote_fetches_go_on(driver, need->to);
        return;
    }
    char why[GY_ERROR_TEXT_BYTES];
    (void)snprintf(why, sizeof(why), "cannot fetch its input %u from %s: %.300s",
                   need->what.input, from->name[0] != '\0' ? from->name : from->address,
                   reason);
    const uint32_t input = need->what.input, to = need->to;
    /* Not the producer's fault: a full disk on the reader's host, a daemon that is busy or
     * shutting down. */
    const bool is_lost = is_from_up && status != GY_LIMIT && status != GY_CANCELLED &&
                         status != GY_TIMEOUT && status != GY_AGAIN;
    end_need(driver, row, false);
    start->left--;
    gy_sched_event event = {.cause = is_lost ? GY_CAUSE_LOST_INPUT : GY_CAUSE_CANCELLED,
                            .input = input,
                            .reason = why};
    fail_start(driver, start, &event);
    if (status == GY_LIMIT && !driver->has_ended) { /* its disk is full: place work elsewhere */
        gy_lease_client_executors_close(&remote->client, to, why, LEASE_CLIENT_BACK);
    }
}

static void handle_one(gy_driver *driver, uint32_t host, const Gy__Cluster__FetchedOne *one)
{
    gy_remote *remote = driver->remote;
    const uint32_t row = gy_index_find(&remote->by_number, gy_index_id(one->number));
    if (driver->has_ended || row == GY_NONE || remote->needs[row].to != host) {
        return;
    }
    remote_start *start = remote->needs[row].start;
    if (one->status >= 0) {
        end_need(driver, row, false);
        if (--start->left == 0) {
            deliver(driver, start);
        }
    } else {
        char reason[GY_ERROR_TEXT_BYTES];
        gy_net_clean_text(one->reason, reason, sizeof(reason));
        lose_need(driver, row, (gy_status)one->status, reason);
    }
}

static void count_traffic(gy_driver_traffic *traffic, const Gy__Cluster__Fetched *message)
{
    for (size_t i = 0; i < message->n_sections; i++) {
        traffic->sections += message->sections[i]->status >= 0;
    }
    traffic->answers++;
    traffic->transfers += (int64_t)message->transfers;
    traffic->bytes += (int64_t)message->bytes;
    traffic->wire_bytes += (int64_t)message->wire_bytes;
}

gy_status remote_handle_fetched(void *arg, const gy_rpc_asked *asked,
                                const ProtobufCMessage *request)
{
    gy_driver *driver = arg;
    gy_remote *remote = driver->remote;
    const Gy__Cluster__Fetched *message = (const void *)request;
    Gy__Cluster__Done done;
    gy__cluster__done__init(&done);
    if (gy_rpc_answer(remote->rpc, asked, &done.base) < 0) {
        gy_debug("cannot answer a daemon: %s", gy_error_text());
    }
    const uint32_t host = remote_host_of(driver, asked->peer);
    if (driver->has_ended || message->epoch != remote->ticket->epoch || host == GY_NONE) {
        return GY_OK;
    }
    if (driver->options->traffic != NULL) {
        count_traffic(driver->options->traffic, message);
    }
    for (size_t i = 0; i < message->n_sections; i++) {
        handle_one(driver, host, message->sections[i]);
    }
    if (!driver->has_ended) {
        remote_fetches_go_on(driver, host);
    }
    return GY_OK;
}

void remote_fetches_anew(void *arg, uint32_t host)
{
    const gy_driver *driver = arg;
    gy_remote *remote = driver->remote;
    /* STARTs for processes there have ended with them; the rest waits for nothing. */
    for (uint32_t i = 0; i < remote->need_count; i++) {
        if (remote->needs[i].to == host && remote->needs[i].start != NULL &&
            remote->needs[i].is_asked) {
            gy_index_remove(&remote->by_number, gy_index_id(remote->needs[i].number));
            queue_need(remote, i);
        }
    }
    remote->client.hosts[host].asked = 0;
}
