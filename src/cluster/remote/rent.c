/* What the manager wants of the name server, what it gets, what it gives back. */
#include "cluster/remote/tenant.h"

#include <stdio.h>
#include <string.h>

#include "cluster/net/net.h"
#include "cluster/remote/plant_priv.h"

static const int64_t wish_every_ns = 400000000;
static const int64_t wish_least_ns = 2000000; /* between two, however fast they change */
static const int64_t ask_every_ns = 1000000000;
static const int64_t idle_after_ns = 1000000000;
static const int64_t gang_after_ns = 300000000; /* then single slots make room for it */
static const int64_t forget_after_ns = 30000000000;

/* Where silence is soon death all goes faster: of the default dead_ns this is all of it. */
static int64_t paced(const gy_tenant *tenant, int64_t usual_ns)
{
    return GY_MIN(usual_ns, usual_ns / 100 * (tenant->dead_ns / 20000000));
}

static bool has_ended(const gy_tenant *tenant)
{
    return tenant->ops->has_ended(tenant->arg);
}

/* ---- wishes ---- */

/* Places that no lease has yet, for processes of this job; *gangs: those that gangs have. */
static uint32_t count_free(const gy_tenant *tenant, uint32_t *gangs)
{
    uint32_t free = 0;
    *gangs = 0;
    for (uint32_t i = 0; i < tenant->slot_count; i++) {
        const tenant_seat *seat = &tenant->seats[i];
        free += seat->lease == 0;
        *gangs += seat->lease != 0 && seat->gang != 0;
    }
    return free;
}

/* So many slots' work runs in those of gangs. */
static uint32_t count_served(const gy_tenant *tenant)
{
    uint32_t tasks = 0;
    for (uint32_t i = 0; i < tenant->slot_count; i++) {
        const tenant_seat *seat = &tenant->seats[i];
        tasks += seat->lease != 0 && seat->gang != 0 ? seat->running : 0;
    }
    return tasks / GY_MAX(tenant->threads, 1);
}

/* More leases than places, or than what is not served by a gang, would only be given back and
 * granted again. */
static uint32_t count_singles(const gy_tenant *tenant)
{
    uint32_t gangs = 0;
    (void)count_free(tenant, &gangs);
    const uint32_t taken = GY_MIN(gangs + tenant->gang_width, tenant->slot_count);
    const uint32_t served = GY_MIN(count_served(tenant), tenant->wanted);
    return GY_MIN(tenant->wanted - served, tenant->slot_count - taken);
}

/* Slots that are left of an older gang stand in the way of the next one like all others. */
static bool is_idle(const gy_tenant *tenant, uint32_t slot)
{
    const tenant_seat *seat = &tenant->seats[slot];
    return seat->is_open && seat->running == 0 &&
           (seat->gang == 0 || seat->gang != tenant->gang);
}

/* A gang needs places, and a host with slots for all of it: idle ones go back, host by host. */
static void make_room(gy_tenant *tenant)
{
    uint32_t gangs = 0;
    uint32_t free = count_free(tenant, &gangs);
    for (uint32_t i = 0; i < tenant->slot_count && free < tenant->gang_width; i++) {
        const uint32_t host = tenant->seats[i].host;
        for (uint32_t k = i; is_idle(tenant, i) && k < tenant->slot_count; k++) {
            if (k != i && tenant->seats[k].host == host && is_idle(tenant, k)) {
                gy_tenant_seat_close(tenant, k, "slots are wanted together", TENANT_BACK);
                free++;
            }
        }
        if (is_idle(tenant, i)) {
            gy_tenant_seat_close(tenant, i, "slots are wanted together", TENANT_BACK);
            free++;
        }
    }
}

/* A gang is not served: the slots that it waits for may be this job's own, which lie idle. */
static bool is_gang_late(const gy_tenant *tenant, int64_t now_ns)
{
    return tenant->gang_width > 0 && now_ns - tenant->gang_ns >= paced(tenant, gang_after_ns);
}

static uint32_t count_busy(const gy_tenant *tenant)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < tenant->slot_count; i++) {
        const tenant_seat *seat = &tenant->seats[i];
        count += seat->lease != 0 && seat->gang == 0 && seat->running > 0;
    }
    return count;
}

static void say_wishes(gy_tenant *tenant)
{
    gy_manager_wishes wishes = {.job = tenant->job,
                                .epoch = tenant->epoch,
                                .sequence = ++tenant->sequence,
                                .seen = tenant->seen,
                                .address = "",
                                .slots = is_gang_late(tenant, tenant->wish_ns)
                                             ? count_busy(tenant)
                                             : count_singles(tenant)};
    gy_tenant_where_wish(tenant, &wishes);
    for (size_t i = 0; i < tenant->host_count; i++) {
        const tenant_host *host = &tenant->hosts[i];
        if (host->is_expected && !host->is_up &&
            wishes.expected_count < GY_CONTROL_EXPECTED_MAX) {
            wishes.expected[wishes.expected_count++] =
                (gy_expected){host->daemon, host->incarnation};
        }
    }
    if (tenant->gang_width > 0) {
        wishes.gangs[0] =
            (gy_gang_wish){.number = tenant->gang,
                           .width = tenant->gang_width,
                           .is_one_host = tenant->gang_hosts <= 1,
                           .hosts = tenant->gang_hosts > 1 ? tenant->gang_hosts : 0,
                           .not_daemon = tenant->gang_not};
        wishes.gang_count = 1;
    }
    tenant->ops->wish(tenant->arg, &wishes);
}

/* Slots that were granted together are not all here yet. */
static bool is_gang_coming(const gy_tenant *tenant)
{
    bool is_coming = false;
    for (uint32_t i = 0; i < tenant->slot_count && !is_coming; i++) {
        const tenant_seat *seat = &tenant->seats[i];
        is_coming = seat->lease != 0 && seat->gang == tenant->served && seat->gang != 0 &&
                    !seat->is_open;
    }
    return is_coming;
}

/* A cohort that fits on no host wants slots together, or a late one for its copy: a wish with a
 * number of its own. */
static void look_at_gang(gy_tenant *tenant, uint32_t at_once, int64_t now_ns)
{
    const uint32_t hosts = gy_manager_wanted_hosts(tenant->manager);
    const uint64_t elsewhere = gy_manager_wanted_not_at(tenant->manager);
    if (at_once == 0 || is_gang_coming(tenant)) {
        tenant->gang_width = 0;
    } else if (tenant->gang_width != at_once || tenant->gang_hosts != hosts ||
               tenant->gang_not != elsewhere) {
        tenant->gang += !GY_TENANT_PLANTED(GANG_UNNUMBERED) || tenant->gang == 0;
        tenant->gang_hosts = hosts;
        tenant->gang_not = elsewhere;
        tenant->gang_width = at_once;
        tenant->gang_ns = now_ns;
    }
    tenant->wanted_at_once = at_once;
}

void gy_tenant_wish(gy_tenant *tenant, int64_t now_ns)
{
    const uint32_t wanted = GY_MIN(gy_manager_wanted(tenant->manager), tenant->slot_count);
    const uint32_t at_once = gy_manager_wanted_at_once(tenant->manager);
    /* What it has seen is said soon, or the name server repeats all since then. */
    const bool is_new = wanted != tenant->wanted || at_once != tenant->wanted_at_once ||
                        tenant->seen != tenant->said_seen;
    const int64_t since_ns = now_ns - tenant->wish_ns;
    if (since_ns < paced(tenant, wish_every_ns) && (!is_new || since_ns < wish_least_ns)) {
        return;
    }
    look_at_gang(tenant, at_once, now_ns);
    make_room(tenant);
    tenant->wanted = GY_TENANT_PLANTED(WISHED_ONCE) && tenant->wanted > 0 ? 1 : wanted;
    tenant->said_seen = tenant->seen;
    tenant->wish_ns = now_ns;
    say_wishes(tenant);
}

void gy_tenant_names_up(gy_tenant *tenant)
{
    tenant->wish_ns = 0;
}

/* ---- leases that go back ---- */

static tenant_return *find_return(const gy_tenant *tenant, uint64_t lease)
{
    for (size_t i = 0; i < tenant->return_count; i++) {
        if (tenant->returns[i].lease == lease) {
            return &tenant->returns[i];
        }
    }
    return NULL;
}

static void forget_return(gy_tenant *tenant, uint64_t lease)
{
    tenant_return *found = find_return(tenant, lease);
    if (found != NULL) {
        *found = tenant->returns[--tenant->return_count];
    }
}

static void give_one(gy_tenant *tenant, tenant_return *back, int64_t now_ns)
{
    back->asked_ns = now_ns;
    back->is_calling = tenant->ops->give(tenant->arg, back);
}

void gy_tenant_give_back(gy_tenant *tenant, uint64_t lease, bool is_bad, const char *reason)
{
    gy_status status = GY_GROW("cluster.tenant", tenant->returns, tenant->return_room,
                               tenant->return_count + 1);
    if (status < 0) {
        tenant->ops->fail(tenant->arg, status);
        return;
    }
    if (find_return(tenant, lease) != NULL) {
        return;
    }
    const int64_t now_ns = gy_now_ns(tenant->env);
    tenant_return *back = &tenant->returns[tenant->return_count++];
    *back = (tenant_return){.lease = lease, .is_bad = is_bad, .since_ns = now_ns};
    gy_net_clean_text(reason != NULL ? reason : "", back->reason, sizeof(back->reason));
    give_one(tenant, back, now_ns);
}

void gy_tenant_given(gy_tenant *tenant, uint64_t lease, bool is_known)
{
    tenant_return *back = find_return(tenant, lease);
    if (back != NULL) {
        back->is_calling = false;
        back->is_known = back->is_known || is_known;
    }
}

void gy_tenant_give_all(gy_tenant *tenant, int64_t now_ns)
{
    for (size_t i = tenant->return_count; i-- > 0 && !GY_TENANT_PLANTED(GIVEN_ONCE);) {
        tenant_return *back = &tenant->returns[i];
        if (back->is_known && now_ns - back->since_ns >= forget_after_ns) {
            *back = tenant->returns[--tenant->return_count];
        } else if (!back->is_calling && !back->is_known &&
                   now_ns - back->asked_ns >= paced(tenant, ask_every_ns)) {
            give_one(tenant, back, now_ns);
        }
    }
}

/* Copies of what is late on a host go to others: its idle slots would be held instead of
 * theirs. */
static void give_unwanted(gy_tenant *tenant, int64_t now_ns)
{
    const uint32_t host = gy_manager_unwanted(tenant->manager);
    if (host == GY_NONE || host != tenant->unwanted) {
        tenant->unwanted = host;
        tenant->unwanted_ns = now_ns;
        return;
    }
    for (uint32_t i = 0; i < tenant->slot_count && !has_ended(tenant) &&
                         now_ns - tenant->unwanted_ns >= paced(tenant, idle_after_ns) / 2;
         i++) {
        if (tenant->seats[i].host == host && is_idle(tenant, i)) {
            gy_tenant_seat_close(tenant, i, "what is late there is copied to other hosts",
                                 TENANT_BACK);
        }
    }
}

void gy_tenant_give_idle(gy_tenant *tenant, int64_t now_ns)
{
    give_unwanted(tenant, now_ns);

    const uint32_t wanted = GY_MIN(gy_manager_wanted(tenant->manager), tenant->slot_count);
    if (is_gang_late(tenant, now_ns)) {
        for (uint32_t i = 0; i < tenant->slot_count && !has_ended(tenant); i++) {
            if (is_idle(tenant, i)) {
                gy_tenant_seat_close(tenant, i, "slots are wanted together", TENANT_BACK);
            }
        }
        return;
    }
    if (wanted >= tenant->open_count || gy_manager_wanted_at_once(tenant->manager) > 0) {
        tenant->idle_ns = now_ns;
        return;
    }
    if (now_ns - tenant->idle_ns < paced(tenant, idle_after_ns)) {
        return;
    }
    for (uint32_t i = tenant->slot_count;
         i-- > 0 && tenant->open_count > GY_MAX(wanted, 1u) && !has_ended(tenant);) {
        if (tenant->seats[i].is_open && tenant->seats[i].running == 0) {
            gy_tenant_seat_close(tenant, i, "nothing is left to run in it", TENANT_BACK);
        }
    }
    tenant->idle_ns = now_ns;
}

/* ---- hosts where tasks fail ---- */

void gy_tenant_avoid(gy_tenant *tenant, uint32_t host, const char *reason)
{
    gy_status status =
        GY_GROW("cluster.tenant", tenant->avoids, tenant->avoid_room, tenant->avoid_count + 1);
    if (status < 0 || host >= tenant->host_count) {
        return; /* said again with the next slot of it */
    }
    tenant_avoid *avoid = &tenant->avoids[tenant->avoid_count++];
    avoid->host = host;
    gy_net_clean_text(reason != NULL ? reason : "", avoid->reason, sizeof(avoid->reason));
}

void gy_tenant_do_avoids(gy_tenant *tenant)
{
    while (tenant->avoid_count > 0 && !has_ended(tenant)) {
        const tenant_avoid avoid = tenant->avoids[--tenant->avoid_count];
        tenant_host *host = &tenant->hosts[avoid.host];
        host->is_avoided = true;
        host->is_last = false;
        gy_net_clean_text(avoid.reason, host->why, sizeof(host->why));
        for (uint32_t i = 0; i < tenant->slot_count; i++) {
            const uint64_t lease = tenant->seats[i].lease;
            if (lease != 0 && tenant->seats[i].host == avoid.host) {
                gy_tenant_give_back(tenant, lease, true, avoid.reason);
                gy_tenant_seat_close(tenant, i, "its host is avoided", 0);
            }
        }
    }
}

/* ---- grants ---- */

static void take_grant(gy_tenant *tenant, const gy_grant *grant)
{
    if (grant->lease == 0) {
        gy_tenant_host_is_dead(tenant, grant->daemon, grant->incarnation);
        return;
    }
    const uint32_t slot = gy_tenant_seat_of(tenant, grant->lease);
    tenant->lease_ns = grant->length_ns;
    if (grant->state == GY_GRANT_GONE) {
        forget_return(tenant, grant->lease);
        if (slot != GY_NONE && !GY_TENANT_PLANTED(GONE_KEPT)) {
            gy_tenant_seat_close(tenant, slot, "its lease is over", 0);
        }
        return;
    }
    if (slot != GY_NONE) {
        if (grant->state == GY_GRANT_ASKED) {
            gy_tenant_seat_close(tenant, slot, "its lease was asked back", TENANT_BACK);
        }
        return;
    }
    if (find_return(tenant, grant->lease) != NULL) {
        return;
    }
    const bool is_old_gang =
        grant->gang != 0 && grant->gang != tenant->gang && grant->gang != tenant->served;
    const uint32_t number = gy_tenant_host_get(tenant, grant->daemon, grant->incarnation,
                                               grant->address, grant->host);
    if (grant->is_last && number != GY_NONE && tenant->hosts[number].is_avoided) {
        tenant->hosts[number].is_avoided = false;
        tenant->hosts[number].is_last = true;
    }
    const bool is_avoided = number != GY_NONE && tenant->hosts[number].is_avoided;
    if (grant->state == GY_GRANT_ASKED || is_old_gang || number == GY_NONE || is_avoided) {
        gy_tenant_give_back(tenant, grant->lease, is_avoided,
                            is_avoided ? tenant->hosts[number].why : "it is not wanted");
        return;
    }
    if (!gy_tenant_seat_take(tenant, grant, number)) {
        gy_tenant_give_back(tenant, grant->lease, false, "there is no slot for it");
    }
}

bool gy_tenant_is_news(const gy_tenant *tenant, uint64_t from, uint64_t version)
{
    /* else told again */
    return from <= tenant->seen && (version > tenant->seen || GY_TENANT_PLANTED(OLD_GRANTS));
}

void gy_tenant_take_grants(gy_tenant *tenant, uint64_t from, uint64_t version,
                           const gy_grant *grants, size_t count)
{
    uint32_t of_gang = 0;
    if (!gy_tenant_is_news(tenant, from, version)) {
        return;
    }
    tenant->seen = version;
    /* A lease that was over may be back, and both are told: what is over is older. */
    for (int pass = GY_TENANT_PLANTED(AS_TOLD); pass < 2; pass++) {
        for (size_t i = 0; i < count && !has_ended(tenant); i++) {
            const bool is_over = grants[i].state == GY_GRANT_GONE;
            if (is_over == (pass == 0) || GY_TENANT_PLANTED(AS_TOLD)) {
                of_gang += grants[i].gang != 0 && grants[i].gang == tenant->gang;
                take_grant(tenant, &grants[i]);
            }
        }
    }
    if (of_gang > 0) {
        tenant->gang_width = 0; /* it is served; one more has another number */
        tenant->served = tenant->gang;
    }
}
