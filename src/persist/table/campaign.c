/* Elections: a thread campaigns, renews the lease, and publishes the state. The owner's thread
 * also checks the lease's end by its own clock, in case the campaigning thread is blocked. */
#include "persist/table/table_priv.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const double look_s = 0.1, look_failed_s = 0.2, renew_failed_s = 0.1;

static gy_status check_name(const char *name)
{
    size_t size = 0;
    while (name[size] != '\0' &&
           (isalnum((unsigned char)name[size]) || strchr("-._", name[size]) != NULL)) {
        size++;
    }
    if (size == 0 || size >= GY_TABLE_NAME_BYTES || name[size] != '\0' || name[0] == '.') {
        return gy_fail(GY_ARG,
                       "the election \"%s\": expected 1 to %d letters, digits or \"-._\", no "
                       "dot first",
                       name, GY_TABLE_NAME_BYTES - 1);
    }
    return GY_OK;
}

/* ---- the owner's side ---- */

gy_status gy_persist_table_campaign(gy_persist_table *table, const char *name,
                                    const char *value)
{
    GY_ASSERT(table->elected != NULL);
    GY_TRY(check_name(name));
    if (strlen(value) >= GY_TABLE_VALUE_BYTES) {
        return gy_fail(GY_ARG, "a candidate's value of %zu bytes: at most %d", strlen(value),
                       GY_TABLE_VALUE_BYTES - 1);
    }
    gy_mutex_lock(&table->lock);
    gy_campaign *campaign = &table->campaign;
    const bool is_twice = campaign->is_wanted;
    if (!is_twice) {
        const uint64_t round = campaign->round + 1;
        *campaign = (gy_campaign){.is_wanted = true, .is_changed = true, .round = round};
        snprintf(campaign->name, sizeof(campaign->name), "%s", name);
        snprintf(campaign->value, sizeof(campaign->value), "%s", value);
        gy_cond_signal(&table->election);
    }
    gy_mutex_unlock(&table->lock);
    return is_twice ? gy_fail(GY_STATE, "the table campaigns already, in election \"%s\"",
                              table->campaign.name)
                    : GY_OK;
}

void gy_persist_table_resign(gy_persist_table *table)
{
    gy_mutex_lock(&table->lock);
    gy_campaign *campaign = &table->campaign;
    if (campaign->is_wanted) {
        const uint64_t round = campaign->round + 1;
        *campaign = (gy_campaign){.is_changed = true, .round = round};
        gy_cond_signal(&table->election);
    }
    gy_mutex_unlock(&table->lock);
}

void gy_persist_table_depose(gy_persist_table *table, uint64_t number)
{
    gy_mutex_lock(&table->lock);
    table->campaign.deposed = number;
    table->campaign.is_changed = true;
    gy_cond_signal(&table->election);
    gy_mutex_unlock(&table->lock);
}

gy_status gy_persist_table_leader(gy_persist_table *table, const char *name,
                                  char value[GY_TABLE_VALUE_BYTES], uint64_t *number)
{
    GY_TRY(check_name(name));
    gy_mutex_lock(&table->lock);
    const gy_campaign campaign = table->campaign;
    gy_mutex_unlock(&table->lock);
    uint64_t found = 0;
    value[0] = '\0';
    if (campaign.is_wanted && strcmp(campaign.name, name) == 0) {
        found = campaign.is_held ? campaign.number : campaign.seen_number;
        memcpy(value, campaign.is_held ? campaign.value : campaign.seen, GY_TABLE_VALUE_BYTES);
    } else {
        GY_TRY(table->ops->leader(table, name, value, &found));
    }
    if (found == 0) {
        return gy_fail(GY_NOTFOUND, "election \"%s\" has no leader", name);
    }
    if (number != NULL) {
        *number = found;
    }
    return GY_OK;
}

void gy_campaign_check(gy_persist_table *table, gy_campaign_news *news)
{
    gy_campaign *campaign = &table->campaign;
    if (campaign->is_held && gy_now_ns(table->env) >= campaign->until_ns) {
        campaign->is_held = false; /* the thread did not renew the lease in time */
        campaign->is_changed = true;
        campaign->round++;
        gy_cond_signal(&table->election);
    }
    if (campaign->is_told &&
        (!campaign->is_held || campaign->number != campaign->reported_number)) {
        campaign->is_told = false;
        news->is_lost = true;
        news->lost_number = campaign->reported_number;
    }
    if (campaign->is_held && !campaign->is_told) {
        campaign->is_told = true;
        campaign->reported_number = campaign->number;
        news->is_won = true;
        news->won_number = campaign->number;
    }
}

/* ---- the thread ---- */

/* Poll the election once, without the lock; returns when to poll next. */
static gy_deadline take_look(gy_persist_table *table, gy_election *election, bool *was_failing)
{
    const bool was_held = election->is_held;
    const int64_t began = gy_now_ns(table->env);
    const gy_status status =
        was_held ? table->ops->renew(table, election) : table->ops->run(table, election);
    if (status == GY_STATE && was_held) {
        gy_debug("election \"%s\": number %llu is not the one any more", election->name,
                 (unsigned long long)election->number);
        table->ops->leave(table, election);
        return (gy_deadline){began};
    }
    if (status < 0) {
        if (!*was_failing && status != GY_CANCELLED) {
            gy_warn("election \"%s\": %s", election->name, gy_error_text());
        }
        *was_failing = true;
        return gy_env_deadline(table->env, was_held ? renew_failed_s : look_failed_s);
    }
    *was_failing = false;
    return election->is_held ? (gy_deadline){began + election->renew_ns}
                             : gy_env_deadline(table->env, look_s);
}

/* Publish the state of the election to the owner. The lock is held. */
static void publish(gy_persist_table *table, const gy_election *election)
{
    gy_campaign *campaign = &table->campaign;
    const bool is_news = campaign->is_held != election->is_held ||
                         (election->is_held && (campaign->number != election->number ||
                                                campaign->until_ns != election->until_ns)) ||
                         (!election->is_held && campaign->seen_number != election->number);
    campaign->is_held = election->is_held;
    if (election->is_held) {
        campaign->number = election->number;
        __atomic_store_n(&campaign->until_ns, election->until_ns, __ATOMIC_RELEASE);
    } else {
        campaign->seen_number = election->number;
        memcpy(campaign->seen, election->seen, sizeof(campaign->seen));
    }
    if (is_news) {
        gy_persist_table_ring(
            table); /* also after a renewal, since gy_persist_table_next has changed */
    }
}

/* Take over what the owner wants of the election. The lock is held. */
static void adopt(const gy_campaign *campaign, gy_election *election)
{
    election->deposed = campaign->deposed;
    memcpy(election->name, campaign->name, sizeof(election->name));
    memcpy(election->value, campaign->value, sizeof(election->value));
}

void *gy_campaign_run(void *arg)
{
    gy_persist_table *table = arg;
    gy_campaign *campaign = &table->campaign;
    gy_election election = {.lock = -1};
    uint64_t round = 0;
    bool was_failing = false;
    gy_deadline next = GY_NEVER;
    gy_mutex_lock(&table->lock);
    while (!table->is_closing) {
        if (!campaign->is_changed && gy_now_ns(table->env) < next.at_ns) {
            (void)gy_cond_wait(&table->election, &table->lock, next);
            continue;
        }
        campaign->is_changed = false;
        if (round != campaign->round) {
            round = campaign->round;
            gy_mutex_unlock(&table->lock);
            table->ops->leave(table,
                              /* Leave the previous round; no effect if it held nothing. */
                              &election);
            gy_mutex_lock(&table->lock);
            campaign->is_changed = true; /* and check what the owner wants now */
            continue;
        }
        if (!campaign->is_wanted) {
            next = GY_NEVER;
            continue;
        }
        adopt(campaign, &election);
        gy_mutex_unlock(&table->lock);
        next = take_look(table, &election, &was_failing);
        gy_mutex_lock(&table->lock);
        if (round == campaign->round) {
            publish(table, &election);
        }
    }
    gy_mutex_unlock(&table->lock);
    table->ops->leave(table, &election);
    return NULL;
}
