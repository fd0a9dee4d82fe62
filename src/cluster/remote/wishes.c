/* What the manager wants of the name server, and what it gets. */
#include "cluster/remote/remote_priv.h"

#include <stdio.h>
#include <string.h>

static const int64_t wish_every_ns = 400000000;
static const int64_t wish_least_ns = 2000000; /* between two, however fast they change */
static const int64_t ask_every_ns = 1000000000;
static const int64_t idle_after_ns = 1000000000;
static const int64_t gang_after_ns = 300000000; /* then single slots make room for it */
static const int64_t forget_after_ns = 30000000000;
enum { PROGRESS_BYTES = 200 };

/* ---- wishes ---- */

/* Places that no lease has yet, for processes of this job; *gangs: those that gangs have. */
static uint32_t count_free(const gy_driver *driver, uint32_t *gangs)
{
    uint32_t free = 0;
    *gangs = 0;
    for (uint32_t i = 0; i < driver->process_count; i++) {
        const remote_seat *seat = &driver->remote->seats[i];
        free += seat->lease == 0;
        *gangs += seat->lease != 0 && seat->gang != 0;
    }
    return free;
}

/* More leases than places would only be given back and granted again. */
static uint32_t count_singles(const gy_driver *driver)
{
    const gy_remote *remote = driver->remote;
    uint32_t gangs = 0;
    (void)count_free(driver, &gangs);
    const uint32_t taken = GY_MIN(gangs + remote->gang_width, driver->process_count);
    return GY_MIN(remote->wanted, driver->process_count - taken);
}

static bool is_idle(const gy_driver *driver, uint32_t slot)
{
    const remote_seat *seat = &driver->remote->seats[slot];
    return seat->is_open && seat->gang == 0 && seat->running == 0;
}

/* A gang needs places, and a host with slots for all of it: idle ones go back, host by host. */
static void make_room(gy_driver *driver)
{
    const gy_remote *remote = driver->remote;
    uint32_t gangs = 0;
    uint32_t free = count_free(driver, &gangs);
    for (uint32_t i = 0; i < driver->process_count && free < remote->gang_width; i++) {
        const uint32_t host = remote->seats[i].host;
        for (uint32_t k = i; is_idle(driver, i) && k < driver->process_count; k++) {
            if (k != i && remote->seats[k].host == host && is_idle(driver, k)) {
                remote_seat_close(driver, k, "slots are wanted together", REMOTE_BACK);
                free++;
            }
        }
        if (is_idle(driver, i)) {
            remote_seat_close(driver, i, "slots are wanted together", REMOTE_BACK);
            free++;
        }
    }
}

/* A gang is not served: the slots that it waits for may be this job's own, which lie idle. */
static bool is_gang_late(const gy_remote *remote, int64_t now_ns)
{
    return remote->gang_width > 0 && now_ns - remote->gang_ns >= gang_after_ns;
}

static uint32_t count_busy(const gy_driver *driver)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < driver->process_count; i++) {
        const remote_seat *seat = &driver->remote->seats[i];
        count += seat->lease != 0 && seat->gang == 0 && seat->running > 0;
    }
    return count;
}

static void fill_wishes(gy_driver *driver, gy_manager_wishes *wishes)
{
    gy_remote *remote = driver->remote;
    *wishes = (gy_manager_wishes){.job = remote->ticket->job,
                                  .epoch = remote->ticket->epoch,
                                  .sequence = ++remote->sequence,
                                  .seen = remote->seen,
                                  .address = "",
                                  .slots = is_gang_late(remote, remote->wish_ns)
                                               ? count_busy(driver)
                                               : count_singles(driver)};
    if (remote->gang_width > 0) {
        wishes->gangs[0] = (gy_gang_wish){
            .number = remote->gang, .width = remote->gang_width, .is_one_host = true};
        wishes->gang_count = 1;
    }
}

static void say_wishes(gy_driver *driver)
{
    gy_remote *remote = driver->remote;
    gy_arena arena = {0};
    gy_text progress = {0};
    gy_manager_wishes wishes;
    Gy__Cluster__Wishes message;
    gy__cluster__wishes__init(&message);
    fill_wishes(driver, &wishes);
    if (driver->ops->say != NULL) {
        driver->ops->say(driver->ops->arg, driver->manager, &progress);
    }
    char line[PROGRESS_BYTES];
    (void)gy_text_move(&progress, line, sizeof(line));
    if (gy_net_write_wishes(&wishes, &arena, &message) == GY_OK) {
        message.progress = line;
        for (uint32_t i = 0; i < remote->name_count; i++) {
            /* One that is not there hears it when it is; those that do not lead ignore it. */
            remote_tell(driver, remote->names[i], GY_NET_WISHES, &message.base);
        }
    }
    gy_arena_free(&arena);
}

/* Slots that were granted together are not all here yet. */
static bool is_gang_coming(const gy_driver *driver)
{
    bool is_coming = false;
    for (uint32_t i = 0; i < driver->process_count && !is_coming; i++) {
        const remote_seat *seat = &driver->remote->seats[i];
        is_coming = seat->lease != 0 && seat->gang == driver->remote->served &&
                    seat->gang != 0 && !seat->is_open;
    }
    return is_coming;
}

/* A cohort that fits on no host wants slots together: a wish with a number of its own. */
static void look_at_gang(gy_driver *driver, uint32_t at_once, int64_t now_ns)
{
    gy_remote *remote = driver->remote;
    if (at_once == 0 || is_gang_coming(driver)) {
        remote->gang_width = 0;
    } else if (remote->gang_width != at_once) {
        remote->gang++;
        remote->gang_width = at_once;
        remote->gang_ns = now_ns;
    }
    remote->wanted_at_once = at_once;
}

void remote_wish(gy_driver *driver, int64_t now_ns)
{
    gy_remote *remote = driver->remote;
    const uint32_t wanted = GY_MIN(gy_manager_wanted(driver->manager), driver->process_count);
    const uint32_t at_once = gy_manager_wanted_at_once(driver->manager);
    /* What it has seen is said soon, or the name server repeats all since then. */
    const bool is_new = wanted != remote->wanted || at_once != remote->wanted_at_once ||
                        remote->seen != remote->said_seen;
    const int64_t since_ns = now_ns - remote->wish_ns;
    if (since_ns < wish_every_ns && (!is_new || since_ns < wish_least_ns)) {
        return;
    }
    look_at_gang(driver, at_once, now_ns);
    make_room(driver);
    remote->wanted = wanted;
    remote->said_seen = remote->seen;
    remote->wish_ns = now_ns;
    say_wishes(driver);
}

/* ---- leases that go back ---- */

static remote_return *find_return(const gy_remote *remote, uint64_t lease)
{
    for (size_t i = 0; i < remote->return_count; i++) {
        if (remote->returns[i].lease == lease) {
            return &remote->returns[i];
        }
    }
    return NULL;
}

static void forget_return(gy_remote *remote, uint64_t lease)
{
    remote_return *found = find_return(remote, lease);
    if (found != NULL) {
        *found = remote->returns[--remote->return_count];
    }
}

/* One call; what it is of is found again by the lease. */
typedef struct give_call {
    gy_driver *driver;
    uint64_t lease;
} give_call;

static void given(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    give_call *call = arg;
    (void)answer;
    remote_return *back = find_return(call->driver->remote, call->lease);
    if (back != NULL) {
        back->is_calling = false;
        back->is_known = back->is_known || status == GY_OK;
    }
    gy_free(call);
}

static void give_one(gy_driver *driver, remote_return *back, int64_t now_ns)
{
    gy_remote *remote = driver->remote;
    REMOTE_MESSAGE(GiveBack, give_back, message);
    message.lease = back->lease;
    message.is_bad = back->is_bad;
    message.reason = back->reason;
    back->asked_ns = now_ns;
    for (uint32_t i = 0; i < remote->name_count; i++) { /* one of them leads */
        gy_rpc_facts facts;
        give_call *call = gy_rpc_look(remote->rpc, remote->names[i], &facts) && facts.is_up
                              ? gy_alloc("cluster.remote", sizeof(*call))
                              : NULL;
        if (call == NULL) {
            continue;
        }
        *call = (give_call){driver, back->lease};
        if (remote_call(driver, remote->names[i], GY_NET_GIVE_BACK, &message.base, given,
                        call) == GY_OK) {
            back->is_calling = true;
        } else {
            gy_free(call);
        }
    }
}

void remote_give_back(gy_driver *driver, uint64_t lease, bool is_bad, const char *reason)
{
    gy_remote *remote = driver->remote;
    void *items = remote->returns;
    gy_status status = gy_reserve("cluster.remote", &items, &remote->return_room,
                                  remote->return_count + 1, sizeof(remote_return));
    remote->returns = items;
    if (status < 0) {
        gy_driver_fail(driver, status);
        return;
    }
    if (find_return(remote, lease) != NULL) {
        return;
    }
    const int64_t now_ns = gy_now_ns(driver->env);
    remote_return *back = &remote->returns[remote->return_count++];
    *back = (remote_return){.lease = lease, .is_bad = is_bad, .since_ns = now_ns};
    gy_net_clean_text(reason != NULL ? reason : "", back->reason, sizeof(back->reason));
    give_one(driver, back, now_ns);
}

void remote_give_all(gy_driver *driver, int64_t now_ns)
{
    gy_remote *remote = driver->remote;
    for (size_t i = remote->return_count; i-- > 0;) {
        remote_return *back = &remote->returns[i];
        if (back->is_known && now_ns - back->since_ns >= forget_after_ns) {
            *back = remote->returns[--remote->return_count];
        } else if (!back->is_calling && !back->is_known &&
                   now_ns - back->asked_ns >= ask_every_ns) {
            give_one(driver, back, now_ns);
        }
    }
}

void remote_give_idle(gy_driver *driver, int64_t now_ns)
{
    gy_remote *remote = driver->remote;
    const uint32_t wanted = GY_MIN(gy_manager_wanted(driver->manager), driver->process_count);
    if (is_gang_late(remote, now_ns)) {
        for (uint32_t i = 0; i < driver->process_count && !driver->has_ended; i++) {
            if (is_idle(driver, i)) {
                remote_seat_close(driver, i, "slots are wanted together", REMOTE_BACK);
            }
        }
        return;
    }
    if (wanted >= remote->open_count || gy_manager_wanted_at_once(driver->manager) > 0) {
        remote->idle_ns = now_ns;
        return;
    }
    if (now_ns - remote->idle_ns < idle_after_ns) {
        return;
    }
    for (uint32_t i = driver->process_count;
         i-- > 0 && remote->open_count > GY_MAX(wanted, 1u) && !driver->has_ended;) {
        if (remote->seats[i].is_open && remote->seats[i].running == 0) {
            remote_seat_close(driver, i, "nothing is left to run in it", REMOTE_BACK);
        }
    }
    remote->idle_ns = now_ns;
}

/* ---- grants ---- */

static void take_grant(gy_driver *driver, const gy_grant *grant)
{
    gy_remote *remote = driver->remote;
    const uint32_t slot = remote_seat_of(driver, grant->lease);
    if (grant->state == GY_GRANT_GONE) {
        forget_return(remote, grant->lease);
        if (slot != GY_NONE) {
            remote_seat_close(driver, slot, "its lease is over", 0);
        }
        return;
    }
    if (slot != GY_NONE) {
        if (grant->state == GY_GRANT_ASKED) {
            remote_seat_close(driver, slot, "its lease was asked back", REMOTE_BACK);
        }
        return;
    }
    if (find_return(remote, grant->lease) != NULL) {
        return;
    }
    const bool is_old_gang =
        grant->gang != 0 && grant->gang != remote->gang && grant->gang != remote->served;
    remote_host *host =
        remote_host_get(driver, grant->daemon, grant->incarnation, grant->address, grant->host);
    if (grant->state == GY_GRANT_ASKED || is_old_gang || host == NULL || host->is_avoided) {
        remote_give_back(driver, grant->lease, host != NULL && host->is_avoided,
                         host != NULL && host->is_avoided ? host->why : "it is not wanted");
        return;
    }
    const uint32_t number = (uint32_t)(host - remote->hosts);
    if (!remote_seat_take(driver, grant, number)) {
        remote_give_back(driver, grant->lease, false, "there is no slot for it");
    }
}

static void take_grants(gy_driver *driver, const Gy__Cluster__Grants *message)
{
    gy_remote *remote = driver->remote;
    gy_arena arena = {0};
    gy_grant *grants = NULL;
    size_t count = 0;
    uint32_t of_gang = 0;
    if (message->from > remote->seen || message->version <= remote->seen) {
        return; /* told again, from what this one has seen */
    }
    if (gy_net_read_grants(message, &arena, &grants, &count) < 0) {
        gy_warn("the name server grants what cannot be read: %s", gy_error_text());
        gy_arena_free(&arena);
        return;
    }
    remote->seen = message->version;
    for (size_t i = 0; i < count && !driver->has_ended; i++) {
        of_gang += grants[i].gang != 0 && grants[i].gang == remote->gang;
        take_grant(driver, &grants[i]);
    }
    if (of_gang > 0) {
        remote->gang_width = 0; /* it is served; one more has another number */
        remote->served = remote->gang;
    }
    gy_arena_free(&arena);
}

static bool is_mine(const gy_driver *driver, const Gy__Cluster__Key *job, uint32_t epoch)
{
    const gy_ticket *ticket = driver->remote->ticket;
    return gy_key_is_same(gy_net_key(job), ticket->job) && epoch == ticket->epoch;
}

gy_status remote_hear_grants(void *arg, const gy_rpc_asked *asked,
                             const ProtobufCMessage *request)
{
    gy_driver *driver = arg;
    const Gy__Cluster__Grants *message = (const void *)request;
    (void)asked;
    if (driver->has_ended || !is_mine(driver, message->job, message->epoch)) {
        return GY_OK;
    }
    if (message->is_killed) {
        gy_driver_kill(driver, gy_fail(GY_CANCELLED, "the job was killed by its user"));
        return GY_OK;
    }
    take_grants(driver, message);
    return GY_OK;
}

gy_status remote_hear_over(void *arg, const gy_rpc_asked *asked,
                           const ProtobufCMessage *request)
{
    gy_driver *driver = arg;
    const Gy__Cluster__Over *message = (const void *)request;
    (void)asked;
    /* One that does not know the job (GY_NOTFOUND) may be an older name server. */
    if (!driver->has_ended && is_mine(driver, message->job, message->epoch) &&
        message->status != GY_NOTFOUND) {
        remote_over(driver, (gy_status)message->status, "the name server");
    }
    return GY_OK;
}
