/* The table: what is stored, and what follows then. A job has at most one store under way; the
 * values being stored are in `next`. */
#include "control/names/lists.h"
#include "control/names/records.h"

#include <string.h>

static gy_key own_key(uint64_t low)
{
    return (gy_key){NAMES_OWN_KEY, low};
}

/* `body`: packed, NULL to remove the record. */
static void store(gy_names *names, const gy_names_effect *what, uint32_t kind, const void *body,
                  size_t body_bytes)
{
    names_record_head_packed head;
    uint8_t *copy = gy_arena_alloc(&names->texts, sizeof(head) + body_bytes);
    gy_names_effect *effect = gy_names_emit(names, GY_NAMES_STORE);
    effect->key = what->key;
    effect->version = what->version;
    if (copy == NULL) {
        gy_names_no_memory(names, GY_NOMEM);
        return;
    }
    effect->data = copy;
    if (body != NULL) {
        head = names_record_head_pack(
            &(names_record_head){.kind = kind,
                                 .version = NAMES_RECORD_VERSION,
                                 .checksum = gy_hash(body, body_bytes, kind)});
        memcpy(copy, &head, sizeof(head));
        memcpy(copy + sizeof(head), body, body_bytes);
        effect->size_bytes = sizeof(head) + body_bytes;
    }
}

static void store_number(gy_names *names, gy_key key, uint64_t version, uint32_t kind,
                         uint64_t value)
{
    const names_record_number_packed body =
        names_record_number_pack(&(names_record_number){.value = value});
    store(names, &(gy_names_effect){.key = key, .version = version}, kind, &body, sizeof(body));
}

void gy_names_store_term(gy_names *names)
{
    store_number(names, own_key(0), names->term_record, RECORD_TERM, names->term + 1);
}

void gy_names_store_drain(gy_names *names, uint32_t daemon, bool is_drained)
{
    daemon_row *row = &names->daemons[daemon];
    GY_ASSERT(!row->is_storing);
    row->is_storing = true;
    row->next_drained = is_drained;
    store_number(names, own_key(row->id), row->version, RECORD_DAEMON, is_drained);
}

void gy_names_store_job(gy_names *names, uint32_t job, pending what)
{
    job_row *row = &names->jobs[job];
    GY_ASSERT(row->pending == PENDING_NONE);
    row->pending = what;
    const job_facts *facts = &row->next;
    names_record_job record = {.spec = facts->spec,
                               .platform = facts->platform,
                               .epoch = facts->epoch,
                               .attempts = facts->attempts,
                               .weight = (uint16_t)facts->weight,
                               .is_ahead = facts->is_ahead,
                               .slots_max = facts->slots_max,
                               .status = facts->status,
                               .before = (uint8_t)-facts->before,
                               .is_killed = facts->is_killed,
                               .is_resumed = facts->is_resumed,
                               .is_forgotten = facts->is_forgotten,
                               .is_ended = facts->is_ended};
    memcpy(record.name, facts->name, sizeof(record.name));
    memcpy(record.label, facts->label, sizeof(record.label));
    memcpy(record.reason, facts->reason, sizeof(record.reason));
    const names_record_job_packed body = names_record_job_pack(&record);
    store(names, &(gy_names_effect){.key = row->key, .version = row->record}, RECORD_JOB, &body,
          sizeof(body));
}

void gy_names_forget_job(gy_names *names, uint32_t job)
{
    const job_row *row = &names->jobs[job];
    store(names, &(gy_names_effect){.key = row->key, .version = row->record}, RECORD_JOB, NULL,
          0);
}

/* ---- Stores that succeeded ---- */

static void stands(gy_names *names, uint32_t job)
{
    job_row *row = &names->jobs[job];
    pending what = row->pending;
    uint64_t asker = row->asker;
    row->pending = PENDING_NONE;
    row->record++;
    row->facts = row->next;
    switch (what) {
    case PENDING_NONE:
        return;
    case PENDING_SUBMIT:
        if (!GY_PLANTED_HERE(ACCEPTED_UNSTORED)) {
            gy_names_answer(names, asker, GY_OK, "accepted");
        }
        row->is_used = row->facts.epoch == 0;
        row->is_free = row->facts.is_ahead;
        if (row->facts.epoch == 0) {
            row->state = JOB_WAITING;
            gy_names_due(names, job, names->now_ns);
        } else {
            gy_names_start_manager(names, job);
        }
        return;
    case PENDING_RAISE:
        gy_names_raised(names, job);
        return;
    case PENDING_AHEAD:
        row->is_free = true;
        return;
    case PENDING_END:
        gy_names_ended(names, job);
        return;
    case PENDING_KILL:
        gy_names_answer(names, asker, GY_OK, "it is ending");
        row->last_ns = names->now_ns + names->options.grace_ns;
        if (row->state != JOB_UP) {
            gy_names_due(names, job, names->now_ns);
        }
        gy_names_touch(names, job);
        return;
    case PENDING_RESUME:
        gy_names_resumed(names, job);
        gy_names_answer(names, asker, GY_OK,
                        row->facts.is_forgotten ? "it is forgotten" : "it goes on");
        return;
    }
}

/* There was no room: the job stays as it was. */
static void falls(gy_names *names, uint32_t job)
{
    job_row *row = &names->jobs[job];
    pending what = row->pending;
    row->pending = PENDING_NONE;
    gy_names_note_job(names, job, "the table has no room");
    if (what == PENDING_SUBMIT || what == PENDING_KILL || what == PENDING_RESUME) {
        gy_names_answer(names, row->asker, GY_LIMIT, "the name server's table has no room");
    }
    if (what == PENDING_SUBMIT) {
        gy_names_job_drop(names, job);
    } else if (what != PENDING_RESUME && what != PENDING_AHEAD) { /* else it stays as it was */
        gy_names_due(names, job, names->now_ns + names->options.dead_ns);
    }
}

static void drain_stored(gy_names *names, const gy_names_event *event)
{
    uint32_t daemon = gy_index_find(&names->by_daemon, gy_index_id(event->key.low));
    daemon_row *row = daemon == GY_NONE ? NULL : &names->daemons[daemon];
    if (row == NULL || !row->is_storing || event->version != row->version) {
        return;
    }
    row->is_storing = false;
    if (row->asker != 0) {
        gy_names_answer(names, row->asker, event->status,
                        event->status == GY_OK ? "stored" : "the table has no room");
        row->asker = 0;
    }
    if (event->status == GY_OK) {
        row->version++;
        gy_names_drained(names, daemon, row->next_drained);
    }
}

void gy_names_stored(gy_names *names, const gy_names_event *event)
{
    uint32_t job = gy_index_find(&names->by_job, event->key);
    bool is_trusted = GY_PLANTED_HERE(LOST_STORE_TRUSTED);
    bool is_term = event->key.high == NAMES_OWN_KEY && event->key.low == 0;
    if (event->status < 0 && !is_trusted && (event->status != GY_LIMIT || is_term)) {
        gy_names_end(names, event->status,
                     event->status == GY_MISMATCH
                         ? "another name server has written to the table"
                         : gy_names_text(names, "the table cannot be written: %s",
                                         event->reason != NULL ? event->reason : "no reason"));
    } else if (is_term) {
        names->term++;
        names->term_record = event->version + 1;
    } else if (event->key.high == NAMES_OWN_KEY) {
        drain_stored(names, event);
    } else if (job != GY_NONE && names->jobs[job].pending != PENDING_NONE &&
               names->jobs[job].record == event->version) {
        if (event->status == GY_LIMIT) {
            falls(names, job);
        } else {
            stands(names, job);
        }
    }
}

/* ---- Loading ---- */

static gy_status load_job(gy_names *names, gy_key key, uint64_t version, const uint8_t *body)
{
    names_record_job taken;
    const names_record_job *record = &taken;
    size_t left = sizeof(names_record_job_packed);
    GY_ASSERT(names_record_job_take(&body, &left, &taken));
    const char *const texts[] = {record->name, record->label};
    for (size_t i = 0; i < GY_COUNT(texts); i++) {
        if (memchr(texts[i], '\0', GY_CONTROL_TEXT_BYTES) == NULL) {
            return gy_fail(GY_FORMAT, "a job's record has a text without an end");
        }
    }
    if (memchr(record->reason, '\0', sizeof(record->reason)) == NULL || record->weight == 0) {
        return gy_fail(GY_FORMAT, "a job's record has no weight, or a text without an end");
    }
    uint32_t job = gy_names_job_new(names, key);
    if (job == GY_NONE) {
        return GY_NOMEM;
    }
    job_row *row = &names->jobs[job];
    row->record = version;
    row->facts = (job_facts){.epoch = record->epoch,
                             .attempts = record->attempts,
                             .weight = record->weight,
                             .is_ahead = record->is_ahead != 0,
                             .slots_max = record->slots_max,
                             .spec = record->spec,
                             .platform = record->platform,
                             .is_killed = record->is_killed != 0,
                             .is_ended = record->is_ended != 0,
                             .is_resumed = record->is_resumed != 0,
                             .is_forgotten = record->is_forgotten != 0,
                             .status = (gy_status)record->status,
                             .before = (gy_status)-record->before};
    memcpy(row->facts.name, record->name, sizeof(record->name));
    memcpy(row->facts.label, record->label, sizeof(record->label));
    memcpy(row->facts.reason, record->reason, sizeof(record->reason));
    row->is_used = true;
    row->state = record->epoch > 0 ? JOB_ORDERED : JOB_WAITING;
    if (row->facts.is_ended && !GY_PLANTED_HERE(ENDED_REVIVED)) {
        row->state = JOB_ENDED;
        names->open_jobs--;
        names->ended_jobs++;
        ended_jobs_add(&names->ended, names->jobs, job);
    }
    return GY_OK;
}

static gy_status load_number(gy_names *names, gy_key key, uint64_t version, const uint8_t *body)
{
    names_record_number record;
    size_t left = sizeof(names_record_number_packed);
    GY_ASSERT(names_record_number_take(&body, &left, &record));
    if (key.low == 0) {
        names->term = record.value;
        names->term_record = version;
        return GY_OK;
    }
    uint32_t daemon = gy_names_daemon_row(names, key.low);
    if (daemon == GY_NONE) {
        return names->status < 0 ? names->status
                                 : gy_fail(GY_LIMIT, "more than %u drained daemons",
                                           names->options.daemon_max);
    }
    names->daemons[daemon].version = version;
    names->daemons[daemon].is_drained = record.value != 0;
    return GY_OK;
}

gy_status gy_names_load(gy_names *names, gy_key key, uint64_t version, const void *data,
                        size_t size_bytes)
{
    GY_ASSERT(names->phase == NAMES_NEW);
    bool is_own = key.high == NAMES_OWN_KEY;
    uint32_t kind = !is_own ? RECORD_JOB : key.low == 0 ? RECORD_TERM : RECORD_DAEMON;
    size_t wanted =
        is_own ? sizeof(names_record_number_packed) : sizeof(names_record_job_packed);
    const uint8_t *at = data;
    size_t left = size_bytes;
    names_record_head head = {.kind = 0};
    if (names_record_head_take(&at, &left, &head) && head.version == NAMES_RECORD_FIRST) {
        wanted -= is_own ? 0 : NAMES_RECORD_FIRST_LESS;
    } else if (left < size_bytes && head.version != NAMES_RECORD_VERSION) {
        return gy_fail(GY_UNSUPPORTED,
                       "record %016llx%016llx of the table is of version %u, expected version "
                       "%d",
                       (unsigned long long)key.high, (unsigned long long)key.low, head.version,
                       NAMES_RECORD_VERSION);
    }
    if (left != wanted || head.kind != kind || gy_hash(at, left, kind) != head.checksum) {
        return gy_fail(GY_FORMAT, "record %016llx%016llx of %zu bytes is damaged",
                       (unsigned long long)key.high, (unsigned long long)key.low, size_bytes);
    }
    uint8_t body[sizeof(names_record_job_packed)] = {0}; /* of the first version: filled up */
    memcpy(body, at, left);
    return is_own ? load_number(names, key, version, body)
                  : load_job(names, key, version, body);
}
