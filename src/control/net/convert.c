/*
 * The flat values of control.h as messages and back. What comes from another process is checked
 * here once: lengths, counts, enums; the machines judge what it means.
 */
#include "control/net/net.h"

#include <gnu/libc-version.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

/* Increase it when a change alters the meaning of what a program finds of this library in a
 * process. */
enum { NET_ABI = 1 };

uint64_t gy_net_platform(void)
{
    struct utsname about;
    const char *machine = uname(&about) == 0 ? about.machine : "";
    const char *const parts[] = {machine, gnu_get_libc_version(), gy_version()};
    uint64_t hash = gy_hash("platform", 8, NET_ABI);
    for (size_t i = 0; i < GY_COUNT(parts); i++) {
        hash = gy_hash(parts[i], strlen(parts[i]) + 1, hash);
    }
    return hash != 0 ? hash : 1; /* 0 means any */
}

/* ---- Texts ---- */

/* A message's texts are not const; nobody writes to them. */
static char *borrowed(const char *text)
{
    return (char *)(uintptr_t)(text != NULL ? text : "");
}

gy_status gy_net_check_text(const char *text, size_t room, const char *what)
{
    const size_t size = strnlen(text, room);
    if (size >= room) {
        return gy_fail(GY_FORMAT, "%s of %zu bytes or more", what, room);
    }
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == 127) {
            return gy_fail(GY_FORMAT, "%s with the byte %d", what, text[i]);
        }
    }
    return GY_OK;
}

void gy_net_clean_text(const char *text, char *out, size_t room)
{
    static const char cut[] = "...";
    GY_ASSERT(room > sizeof(cut));
    const bool is_whole = strnlen(text, room) < room;
    const size_t most = is_whole ? room - 1 : room - sizeof(cut);
    size_t at = 0;
    for (; text[at] != '\0' && at < most; at++) {
        out[at] = text[at];
        if ((unsigned char)text[at] < ' ' || text[at] == 127) {
            out[at] = ' ';
        }
    }
    /* Not in the middle of a character. */
    while (!is_whole && at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80) {
        at--;
    }
    snprintf(out + at, room - at, "%s", is_whole ? "" : cut);
}

/* ---- Keys ---- */

void gy_net_key_text(gy_key key, char text[GY_NET_KEY_TEXT])
{
    snprintf(text, GY_NET_KEY_TEXT, "%016llx%016llx", (unsigned long long)key.high,
             (unsigned long long)key.low);
}

static Gy__Cluster__Key *key_message(gy_arena *arena, gy_key key)
{
    Gy__Cluster__Key *message = gy_arena_alloc(arena, sizeof(*message));
    if (message != NULL) {
        gy__cluster__key__init(message);
        message->high = key.high;
        message->low = key.low;
    }
    return message;
}

gy_status gy_net_check_job(const Gy__Cluster__Key *key, uint32_t epoch)
{
    const gy_key job = gy_net_key(key);
    if (job.high == 0 && job.low == 0) {
        return gy_fail(GY_FORMAT, "no job is named");
    }
    return epoch > 0 ? GY_OK : gy_fail(GY_FORMAT, "an epoch of 0");
}

/* ---- A daemon's state ---- */

static gy_status write_leases(const gy_daemon_state *state, gy_arena *arena,
                              Gy__Cluster__DaemonState *message)
{
    const size_t count = state->lease_count;
    Gy__Cluster__Lease *rows = gy_arena_alloc(arena, (count + 1) * sizeof(*rows));
    message->leases = gy_arena_alloc(arena, (count + 1) * sizeof(void *));
    if (rows == NULL || message->leases == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        const gy_leased *from = &state->leases[i];
        gy__cluster__lease__init(&rows[i]);
        rows[i].lease = from->lease;
        rows[i].epoch = from->epoch;
        rows[i].gang = from->gang;
        rows[i].is_ending = from->is_ending;
        rows[i].job = key_message(arena, from->job);
        if (rows[i].job == NULL) {
            return GY_NOMEM;
        }
        message->leases[i] = &rows[i];
    }
    message->n_leases = count;
    return GY_OK;
}

static gy_status write_managers(const gy_daemon_state *state, gy_arena *arena,
                                Gy__Cluster__DaemonState *message)
{
    const size_t count = state->manager_count;
    Gy__Cluster__Hosted *rows = gy_arena_alloc(arena, (count + 1) * sizeof(*rows));
    message->managers = gy_arena_alloc(arena, (count + 1) * sizeof(void *));
    if (rows == NULL || message->managers == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        gy__cluster__hosted__init(&rows[i]);
        rows[i].epoch = state->managers[i].epoch;
        rows[i].is_gone = state->managers[i].is_gone;
        rows[i].is_waiting = state->managers[i].is_waiting;
        rows[i].is_known = state->managers[i].is_known;
        rows[i].signal = state->managers[i].signal;
        rows[i].job = key_message(arena, state->managers[i].job);
        if (rows[i].job == NULL) {
            return GY_NOMEM;
        }
        message->managers[i] = &rows[i];
    }
    message->n_managers = count;
    return GY_OK;
}

gy_status gy_net_write_state(const gy_daemon_state *state, gy_arena *arena,
                             Gy__Cluster__DaemonState *message)
{
    gy__cluster__daemon_state__init(message);
    message->daemon = state->daemon;
    message->incarnation = state->incarnation;
    message->life = state->life;
    message->sequence = state->sequence;
    message->term = state->term;
    message->order = state->order;
    message->platform = state->platform;
    message->slots = state->slots;
    message->address = borrowed(state->address);
    message->host = borrowed(state->host);
    message->labels = borrowed(state->labels);
    message->trouble = borrowed(state->trouble);
    GY_TRY(write_leases(state, arena, message));
    return write_managers(state, arena, message);
}

static gy_status check_state(const Gy__Cluster__DaemonState *message)
{
    if (message->daemon == 0 || message->incarnation == 0) {
        return gy_fail(GY_FORMAT, "a daemon without a number");
    }
    if (message->slots > GY_CONTROL_SLOTS_MAX || message->n_leases > GY_CONTROL_SLOTS_MAX ||
        message->n_managers > GY_NET_MANAGERS_MAX) {
        return gy_fail(GY_FORMAT, "a daemon of %u slots with %zu leases and %zu managers",
                       message->slots, message->n_leases, message->n_managers);
    }
    GY_TRY(gy_net_check_text(message->address, GY_CONTROL_TEXT_BYTES, "an address"));
    GY_TRY(gy_net_check_text(message->host, GY_CONTROL_TEXT_BYTES, "a host's name"));
    GY_TRY(gy_net_check_text(message->labels, GY_CONTROL_LABELS_BYTES, "labels"));
    return gy_net_check_text(message->trouble, GY_CONTROL_REASON_BYTES, "a trouble");
}

gy_status gy_net_read_state(const Gy__Cluster__DaemonState *message, gy_arena *arena,
                            gy_daemon_state *state)
{
    GY_TRY(check_state(message));
    gy_leased *leases = gy_arena_alloc(arena, (message->n_leases + 1) * sizeof(*leases));
    gy_hosted *managers = gy_arena_alloc(arena, (message->n_managers + 1) * sizeof(*managers));
    if (leases == NULL || managers == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < message->n_leases; i++) {
        const Gy__Cluster__Lease *from = message->leases[i];
        GY_TRY(gy_net_check_job(from->job, from->epoch));
        if (from->lease == 0) {
            return gy_fail(GY_FORMAT, "a lease without a number");
        }
        leases[i] = (gy_leased){.lease = from->lease,
                                .job = gy_net_key(from->job),
                                .epoch = from->epoch,
                                .gang = from->gang,
                                .is_ending = from->is_ending};
    }
    for (size_t i = 0; i < message->n_managers; i++) {
        const Gy__Cluster__Hosted *from = message->managers[i];
        GY_TRY(gy_net_check_job(from->job, from->epoch));
        managers[i] = (gy_hosted){.job = gy_net_key(from->job),
                                  .epoch = from->epoch,
                                  .is_gone = from->is_gone,
                                  .is_waiting = from->is_waiting,
                                  .is_known = from->is_known,
                                  .signal = from->signal};
    }
    *state = (gy_daemon_state){.daemon = message->daemon,
                               .incarnation = message->incarnation,
                               .life = message->life,
                               .sequence = message->sequence,
                               .term = message->term,
                               .order = message->order,
                               .platform = message->platform,
                               .slots = message->slots,
                               .address = message->address,
                               .host = message->host,
                               .labels = message->labels,
                               .trouble = message->trouble,
                               .leases = leases,
                               .lease_count = message->n_leases,
                               .managers = managers,
                               .manager_count = message->n_managers};
    return GY_OK;
}

/* ---- Orders ---- */

gy_status gy_net_write_order(const gy_control_order *order, gy_arena *arena,
                             Gy__Cluster__Order *message)
{
    gy__cluster__order__init(message);
    message->kind = (uint32_t)order->kind;
    message->epoch = order->epoch;
    message->gang = order->gang;
    message->count = order->count;
    message->daemon = order->daemon;
    message->incarnation = order->incarnation;
    message->term = order->term;
    message->number = order->number;
    message->lease = order->lease;
    message->length_ns = order->length_ns;
    message->is_resumed = order->is_resumed;
    message->is_forgotten = order->is_forgotten;
    message->slots_max = order->slots_max;
    message->job = key_message(arena, order->job);
    return message->job != NULL ? GY_OK : GY_NOMEM;
}

gy_status gy_net_read_order(const Gy__Cluster__Order *message, gy_control_order *order)
{
    if (message->kind > (uint32_t)GY_ORDER_FORGET) {
        return gy_fail(GY_FORMAT, "an order of kind %u", message->kind);
    }
    const gy_control_order_kind kind = (gy_control_order_kind)message->kind;
    if (kind != GY_ORDER_END_LEASE) {
        GY_TRY(gy_net_check_job(message->job, message->epoch));
    }
    if ((kind == GY_ORDER_LEASE || kind == GY_ORDER_END_LEASE) && message->lease == 0) {
        return gy_fail(GY_FORMAT, "an order about a lease without a number");
    }
    if (kind == GY_ORDER_LEASE &&
        (message->count == 0 || message->count > GY_CONTROL_SLOTS_MAX ||
         message->lease > UINT64_MAX - message->count || message->length_ns <= 0)) {
        return gy_fail(GY_FORMAT, "an order to lease %u slots for %lld ns", message->count,
                       (long long)message->length_ns);
    }
    *order = (gy_control_order){.kind = kind,
                                .epoch = message->epoch,
                                .gang = message->gang,
                                .count = message->count,
                                .daemon = message->daemon,
                                .incarnation = message->incarnation,
                                .term = message->term,
                                .number = message->number,
                                .lease = message->lease,
                                .job = gy_net_key(message->job),
                                .length_ns = message->length_ns,
                                .is_resumed = message->is_resumed,
                                .is_forgotten = message->is_forgotten,
                                .slots_max = message->slots_max};
    return GY_OK;
}

/* ---- A manager's requests ---- */

static gy_status write_gangs(const gy_manager_requests *requests, gy_arena *arena,
                             Gy__Cluster__Requests *message)
{
    GY_ASSERT(requests->gang_count <= GY_CONTROL_GANGS_MAX);
    Gy__Cluster__GangRequest *rows =
        gy_arena_alloc(arena, (requests->gang_count + 1) * sizeof(*rows));
    message->gangs = gy_arena_alloc(arena, (requests->gang_count + 1) * sizeof(void *));
    if (rows == NULL || message->gangs == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < requests->gang_count; i++) {
        gy__cluster__gang_request__init(&rows[i]);
        rows[i].number = requests->gangs[i].number;
        rows[i].width = requests->gangs[i].width;
        rows[i].is_one_host = requests->gangs[i].is_one_host;
        rows[i].hosts = requests->gangs[i].hosts;
        rows[i].not_daemon = requests->gangs[i].not_daemon;
        message->gangs[i] = &rows[i];
    }
    message->n_gangs = requests->gang_count;
    return GY_OK;
}

static gy_status write_expected(const gy_manager_requests *requests, gy_arena *arena,
                                Gy__Cluster__Requests *message)
{
    GY_ASSERT(requests->expected_count <= GY_CONTROL_EXPECTED_MAX);
    Gy__Cluster__Expected *rows =
        gy_arena_alloc(arena, GY_CONTROL_EXPECTED_MAX * sizeof(*rows));
    message->expected = gy_arena_alloc(arena, GY_CONTROL_EXPECTED_MAX * sizeof(void *));
    if (rows == NULL || message->expected == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < requests->expected_count; i++) {
        gy__cluster__expected__init(&rows[i]);
        rows[i].daemon = requests->expected[i].daemon;
        rows[i].incarnation = requests->expected[i].incarnation;
        message->expected[i] = &rows[i];
    }
    message->n_expected = requests->expected_count;
    return GY_OK;
}

gy_status gy_net_write_requests(const gy_manager_requests *requests, gy_arena *arena,
                                Gy__Cluster__Requests *message)
{
    gy__cluster__requests__init(message);
    message->job = key_message(arena, requests->job);
    message->hosts = gy_arena_alloc(arena, GY_CONTROL_HOSTS_MAX * sizeof(char *));
    if (message->job == NULL || message->hosts == NULL) {
        return GY_NOMEM;
    }
    message->epoch = requests->epoch;
    message->sequence = requests->sequence;
    message->seen = requests->seen;
    message->address = borrowed(requests->address);
    message->slots = requests->slots;
    message->must = requests->must;
    message->is_limited = requests->is_limited;
    message->elsewhere = requests->elsewhere;
    for (int i = 0; i < GY_CONTROL_HOSTS_MAX; i++) {
        if (requests->hosts[i] != NULL) {
            message->hosts[message->n_hosts++] = borrowed(requests->hosts[i]);
        }
    }
    GY_TRY(write_expected(requests, arena, message));
    return write_gangs(requests, arena, message);
}

gy_status gy_net_read_requests(const Gy__Cluster__Requests *message,
                               gy_manager_requests *requests)
{
    GY_TRY(gy_net_check_job(message->job, message->epoch));
    GY_TRY(gy_net_check_text(message->address, GY_CONTROL_TEXT_BYTES, "an address"));
    if (message->n_gangs > GY_CONTROL_GANGS_MAX || message->n_hosts > GY_CONTROL_HOSTS_MAX ||
        message->must > message->n_hosts || message->n_expected > GY_CONTROL_EXPECTED_MAX) {
        return gy_fail(
            GY_FORMAT,
            "resource requests for %zu gangs, at %zu hosts, %u of them only, %zu expected",
            message->n_gangs, message->n_hosts, message->must, message->n_expected);
    }
    *requests = (gy_manager_requests){.job = gy_net_key(message->job),
                                      .epoch = message->epoch,
                                      .sequence = message->sequence,
                                      .seen = message->seen,
                                      .address = message->address,
                                      .slots = message->slots,
                                      .must = message->must,
                                      .is_limited = message->is_limited,
                                      .elsewhere = message->elsewhere,
                                      .gang_count = (uint32_t)message->n_gangs};
    for (size_t i = 0; i < message->n_gangs; i++) {
        const Gy__Cluster__GangRequest *from = message->gangs[i];
        const bool is_odd =
            (from->hosts > 1 && (from->width % from->hosts != 0 || from->is_one_host)) ||
            (from->not_daemon != 0 && !from->is_one_host);
        if (from->number == 0 || from->width == 0 || is_odd) {
            return gy_fail(GY_FORMAT, "a resource request for gang %u of %u slots on %u hosts",
                           from->number, from->width, from->hosts);
        }
        requests->gangs[i] = (gy_gang_request){.number = from->number,
                                               .width = from->width,
                                               .is_one_host = from->is_one_host,
                                               .hosts = from->hosts,
                                               .not_daemon = from->not_daemon};
    }
    for (size_t i = 0; i < message->n_hosts; i++) {
        GY_TRY(gy_net_check_text(message->hosts[i], GY_CONTROL_TEXT_BYTES, "a host's name"));
        requests->hosts[i] = message->hosts[i];
    }
    for (size_t i = 0; i < message->n_expected; i++) {
        requests->expected[requests->expected_count++] =
            (gy_expected){message->expected[i]->daemon, message->expected[i]->incarnation};
    }
    return GY_OK;
}

/* ---- Allocations ---- */

gy_status gy_net_write_allocations(const gy_allocation *allocations, size_t count,
                                   gy_arena *arena, Gy__Cluster__Allocations *message)
{
    gy__cluster__allocations__init(message);
    Gy__Cluster__Allocation *rows = gy_arena_alloc(arena, (count + 1) * sizeof(*rows));
    message->allocations = gy_arena_alloc(arena, (count + 1) * sizeof(void *));
    if (rows == NULL || message->allocations == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        const gy_allocation *from = &allocations[i];
        gy__cluster__allocation__init(&rows[i]);
        rows[i].lease = from->lease;
        rows[i].state = (uint32_t)from->state;
        rows[i].gang = from->gang;
        rows[i].daemon = from->daemon;
        rows[i].incarnation = from->incarnation;
        rows[i].address = borrowed(from->address);
        rows[i].host = borrowed(from->host);
        rows[i].length_ns = from->length_ns;
        rows[i].is_last = from->is_last;
        message->allocations[i] = &rows[i];
    }
    message->n_allocations = count;
    return GY_OK;
}

gy_status gy_net_read_allocations(const Gy__Cluster__Allocations *message, gy_arena *arena,
                                  gy_allocation **allocations, size_t *count)
{
    gy_allocation *made = gy_arena_alloc(arena, (message->n_allocations + 1) * sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < message->n_allocations; i++) {
        const Gy__Cluster__Allocation *from = message->allocations[i];
        const bool is_daemon = from->state == (uint32_t)GY_ALLOCATION_GONE &&
                               from->daemon != 0 && from->incarnation != 0;
        if (from->state > (uint32_t)GY_ALLOCATION_GONE || (from->lease == 0 && !is_daemon)) {
            return gy_fail(GY_FORMAT, "a grant of lease %llu in state %u",
                           (unsigned long long)from->lease, from->state);
        }
        GY_TRY(gy_net_check_text(from->address, GY_CONTROL_TEXT_BYTES, "an address"));
        GY_TRY(gy_net_check_text(from->host, GY_CONTROL_TEXT_BYTES, "a host's name"));
        made[i] = (gy_allocation){.lease = from->lease,
                                  .state = (gy_allocation_state)from->state,
                                  .gang = from->gang,
                                  .is_last = from->is_last != 0,
                                  .daemon = from->daemon,
                                  .incarnation = from->incarnation,
                                  .address = from->address,
                                  .host = from->host,
                                  .length_ns = from->length_ns};
    }
    *allocations = made;
    *count = message->n_allocations;
    return GY_OK;
}
