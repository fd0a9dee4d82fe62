/*
 * Elections in etcd. The candidate that put PREFIX/elected/NAME while no candidate had it leads
 * as long as its lease is alive; the revision of that put is the leader's number. A leader
 * known to be dead is replaced by a put that requires this revision; its lease then holds
 * nothing.
 *
 * Source: Burrows, "The Chubby lock service for loosely-coupled distributed systems", OSDI 2006
 * (sequencers); etcd 3.4, "api_concurrency_reference_v3".
 */
#include "persist/table/etcd_priv.h"

#include <stdio.h>
#include <string.h>

static const double run_s = 2, leave_s = 0.5, straggler_s = 1;
/* Fraction of a lease that is used: clocks and answers may be slow. */
static const double trusted_part = 0.8;
enum { RENEWALS = 5 }; /* renewals for each lease */

static void election_key(const gy_etcd *etcd, const char *name, char key[GY_ETCD_KEY_BYTES])
{
    snprintf(key, GY_ETCD_KEY_BYTES, "%s/elected/%s", etcd->where.prefix, name);
}

static gy_status ask(gy_etcd_lane *lane, gy_text *body, gy_etcd_question question,
                     json_t **answer)
{
    *answer = NULL;
    question.body = gy_text_get(body);
    const gy_status status =
        body->status < 0 ? body->status : gy_etcd_ask(lane, &question, answer);
    gy_text_free(body);
    return status;
}

/* Read the leader: version 0 if there is none, else `value` and `found` (without texts). */
static gy_status look(gy_etcd_lane *lane, const char *name, gy_deadline deadline,
                      char value[GY_TABLE_VALUE_BYTES], gy_etcd_record *found)
{
    char key[GY_ETCD_KEY_BYTES];
    election_key(lane->etcd, name, key);
    gy_text body = {0};
    gy_text_add(&body, "{");
    gy_etcd_add_key(&body, key);
    gy_text_add(&body, "}");
    json_t *answer = NULL;
    GY_TRY(ask(lane, &body, (gy_etcd_question){.path = "/v3/kv/range", .deadline = deadline},
               &answer));
    size_t size = 0;
    gy_status status = gy_etcd_kv(answer, 0, found);
    if (status == GY_OK) {
        status = gy_etcd_bytes(found->value, value, GY_TABLE_VALUE_BYTES - 1, &size);
    }
    value[size] = '\0';
    found->key = found->value = NULL;
    json_decref(answer);
    return status == GY_NOTFOUND ? GY_OK : status;
}

gy_status gy_etcd_leader(gy_persist_table *table, const char *name,
                         char value[GY_TABLE_VALUE_BYTES], uint64_t *number)
{
    gy_etcd *etcd = table->place;
    gy_etcd_record found;
    GY_TRY(look(&etcd->owner, name, gy_env_deadline(table->env, table->patience_s), value,
                &found));
    *number = found.changed;
    return GY_OK;
}

/* ---- leases ---- */

/* Count the lease from `sent`, when the request that granted or renewed it was sent. */
static gy_status trust_lease(gy_election *election, const json_t *told, int64_t sent)
{
    uint64_t seconds = 0;
    GY_TRY(gy_etcd_number(told, "TTL", &seconds));
    if (seconds == 0) {
        return gy_fail(GY_STATE, "the lease of election \"%s\" has expired", election->name);
    }
    const double lease_ns = (double)GY_MIN(seconds, (uint64_t)86400) * 1e9;
    election->until_ns = sent + (int64_t)(lease_ns * trusted_part);
    election->renew_ns = (int64_t)(lease_ns / RENEWALS);
    return GY_OK;
}

static gy_status allocation(gy_persist_table *table, gy_election *election,
                            gy_deadline deadline)
{
    gy_etcd *etcd = table->place;
    uint64_t seconds = (uint64_t)table->lease_s;
    seconds += (double)seconds < table->lease_s;
    gy_text body = {0};
    gy_text_add(&body, "{\"TTL\":\"%llu\"}", (unsigned long long)seconds);
    const int64_t sent = gy_now_ns(table->env);
    json_t *answer = NULL;
    GY_TRY(ask(&etcd->campaigning, &body,
               (gy_etcd_question){.path = "/v3/lease/grant", .deadline = deadline}, &answer));
    gy_status status = gy_etcd_number(answer, "ID", &election->lease);
    status = status < 0 ? status : trust_lease(election, answer, sent);
    json_decref(answer);
    return status;
}

static gy_status keep_alive(gy_persist_table *table, gy_election *election,
                            gy_deadline deadline)
{
    gy_etcd *etcd = table->place;
    gy_text body = {0};
    gy_text_add(&body, "{\"ID\":\"%llu\"}", (unsigned long long)election->lease);
    const int64_t sent = gy_now_ns(table->env);
    json_t *answer = NULL;
    GY_TRY(ask(&etcd->campaigning, &body,
               (gy_etcd_question){.path = "/v3/lease/keepalive", .deadline = deadline},
               &answer));
    const json_t *told = json_object_get(answer, "result");
    gy_status status = GY_OK;
    if (!json_is_object(told)) {
        const char *words =
            json_string_value(json_object_get(json_object_get(answer, "error"), "message"));
        status = gy_fail(GY_IO, "etcd renews no lease: %.200s", words != NULL ? words : "");
    } else {
        status = trust_lease(election, told, sent);
    }
    json_decref(answer);
    return status;
}

void gy_etcd_leave(gy_persist_table *table, gy_election *election)
{
    gy_etcd *etcd = table->place;
    if (election->lease != 0) {
        gy_text body = {0};
        gy_text_add(&body, "{\"ID\":\"%llu\"}", (unsigned long long)election->lease);
        json_t *answer = NULL;
        const gy_status status =
            ask(&etcd->campaigning, &body,
                (gy_etcd_question){.path = "/v3/lease/revoke",
                                   .deadline = gy_env_deadline(table->env, leave_s),
                                   .is_last = true},
                &answer);
        if (status < 0 && status != GY_NOTFOUND) {
            gy_debug("election \"%s\": the lease ends by itself: %s", election->name,
                     gy_error_text());
        }
        json_decref(answer);
    }
    election->lease = 0;
    election->number = 0;
    election->is_held = false;
}

/* ---- the election ---- */

static void add_election(gy_text *body, const gy_etcd *etcd, const gy_election *election,
                         uint64_t onto)
{
    char key[GY_ETCD_KEY_BYTES];
    election_key(etcd, election->name, key);
    gy_text_add(body, "{\"compare\":[{\"target\":\"MOD\",\"mod_revision\":\"%llu\",",
                (unsigned long long)onto);
    gy_etcd_add_key(body, key);
    gy_text_add(body, "}],\"success\":[{\"requestPut\":{");
    gy_etcd_add_key(body, key);
    gy_text_add(body, ",\"value\":\"");
    gy_etcd_add_bytes(body, election->value, strlen(election->value));
    gy_text_add(body, "\",\"lease\":\"%llu\"}}]}", (unsigned long long)election->lease);
}

/* Put our value if the key's revision is `onto` (0: the key does not exist). GY_AGAIN: another
 * candidate came first. */
static gy_status take(gy_persist_table *table, gy_election *election, uint64_t onto,
                      gy_deadline deadline)
{
    gy_etcd *etcd = table->place;
    gy_text body = {0};
    add_election(&body, etcd, election, onto);
    json_t *answer = NULL;
    const gy_status status =
        ask(&etcd->campaigning, &body,
            (gy_etcd_question){.path = "/v3/kv/txn", .deadline = deadline, .is_once = true},
            &answer);
    if (status == GY_AGAIN) {
        /* The next poll shows the result. */
        return gy_fail(GY_IO, "etcd did not answer a candidate");
    }
    GY_TRY(status);
    gy_status taken = GY_AGAIN;
    if (gy_etcd_has_succeeded(answer)) {
        taken = gy_etcd_revision(answer, &election->number);
        election->is_held = taken == GY_OK;
    }
    json_decref(answer);
    return taken;
}

gy_status gy_etcd_run(gy_persist_table *table, gy_election *election)
{
    gy_etcd *etcd = table->place;
    const gy_deadline deadline = gy_env_deadline(table->env, run_s);
    gy_etcd_record found;
    GY_TRY(look(&etcd->campaigning, election->name, deadline, election->seen, &found));
    election->number = found.changed;
    if (found.version != 0 && election->lease != 0 && found.lease == election->lease) {
        /* Our earlier put succeeded and its answer was lost. */
        GY_TRY(keep_alive(table, election, deadline));
        election->is_held = true;
        return GY_OK;
    }
    if (found.version != 0 && (election->deposed == 0 || election->deposed != found.changed)) {
        return GY_AGAIN;
    }
    if (election->lease != 0) {
        gy_etcd_leave(table, election); /* an earlier try's lease may be old */
    }
    gy_status status = allocation(table, election, deadline);
    status = status < 0 ? status : take(table, election, found.changed, deadline);
    if (status == GY_AGAIN) {
        gy_etcd_leave(table, election);
    }
    return status;
}

gy_status gy_etcd_renew(gy_persist_table *table, gy_election *election)
{
    gy_etcd *etcd = table->place;
    const gy_deadline late = gy_env_deadline(table->env, straggler_s);
    const gy_deadline deadline = {GY_MAX(late.at_ns, election->until_ns)};
    const int64_t until_ns = election->until_ns;
    GY_TRY(keep_alive(table, election, deadline));
    gy_etcd_record found;
    const gy_status status =
        look(&etcd->campaigning, election->name, deadline, election->seen, &found);
    if (status < 0) {
        election->until_ns =
            until_ns; /* the lease is alive, but does it still hold this election? */
        return status;
    }
    return found.changed == election->number
               ? GY_OK
               : gy_fail(GY_STATE, "election \"%s\" has another in place of number %llu",
                         election->name, (unsigned long long)election->number);
}
