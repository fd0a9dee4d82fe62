/*
 * The owner's side of a table, and the storing thread. Stores that arrive during a commit go
 * into the next one together, so a slow disk costs latency, not throughput.
 *
 * Source: group commit, DeWitt et al., "Implementation techniques for main memory database
 * systems", SIGMOD 1984.
 */
#include "persist/table/table_priv.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { LOCK_RANK = 20 };

static const double patience_default_s = 10, lease_default_s = 5;

void gy_persist_table_ring(gy_persist_table *table)
{
    const uint64_t one = 1;
    /* Only EAGAIN is possible, when the eventfd is already readable. */
    GY_ASSERT(write(table->event, &one, sizeof(one)) == (ssize_t)sizeof(one) ||
              errno == EAGAIN);
}

void gy_persist_table_settle(gy_persist_table_write *write, gy_status status)
{
    write->is_open = false;
    if (status < 0) {
        gy_error_take(&write->outcome, status);
    } else {
        write->outcome.status = GY_OK;
    }
}

bool gy_persist_table_pause(gy_persist_table *table, gy_deadline until)
{
    gy_mutex_lock(&table->lock);
    while (!table->is_closing && gy_now_ns(table->env) < until.at_ns) {
        (void)gy_cond_wait(&table->ends, &table->lock, until); /* a timeout is the normal end */
    }
    const bool goes_on = !table->is_closing;
    gy_mutex_unlock(&table->lock);
    return goes_on;
}

/* ---- the storing thread ---- */

/* Move the stores that are committed together from the queue to under_way. */
static size_t take_batch(gy_persist_table *table, gy_persist_table_write *batch[GY_TABLE_BATCH])
{
    size_t count = 0, bytes = 0;
    while (table->first != NULL && count < GY_TABLE_BATCH &&
           (count == 0 || bytes + table->first->size_bytes <= GY_TABLE_BATCH_BYTES)) {
        gy_persist_table_write *taken = table->first;
        table->first = taken->next;
        bytes += taken->size_bytes;
        taken->next = table->under_way;
        table->under_way = taken;
        taken->is_open = true;
        batch[count++] = taken;
    }
    if (table->first == NULL) {
        table->last = &table->first;
    }
    return count;
}

static void *store_run(void *arg)
{
    gy_persist_table *table = arg;
    gy_persist_table_write *batch[GY_TABLE_BATCH];
    gy_mutex_lock(&table->lock);
    while (!table->is_closing) {
        const size_t count = take_batch(table, batch);
        if (count == 0) {
            (void)gy_cond_wait(&table->work, &table->lock, GY_NEVER);
            continue;
        }
        gy_mutex_unlock(&table->lock);
        table->ops->commit(table, batch, count);
        gy_mutex_lock(&table->lock);
        table->under_way = NULL;
        for (size_t i = 0; i < count; i++) {
            GY_ASSERT(!batch[i]->is_open);
            batch[i]->next = NULL;
            *table->done_last = batch[i];
            table->done_last = &batch[i]->next;
        }
        gy_persist_table_ring(table);
    }
    gy_mutex_unlock(&table->lock);
    return NULL;
}

/* ---- opening and closing ---- */

static void free_writes(gy_persist_table_write *first)
{
    while (first != NULL) {
        gy_persist_table_write *next = first->next;
        gy_free(first);
        first = next;
    }
}

void gy_persist_table_close(gy_persist_table *table)
{
    if (table == NULL) {
        return;
    }
    gy_mutex_lock(&table->lock);
    __atomic_store_n(&table->is_closing, true, __ATOMIC_RELEASE); /* partner: gy_http_try */
    gy_cond_broadcast(&table->work);
    gy_cond_broadcast(&table->election);
    gy_cond_broadcast(&table->ends);
    gy_mutex_unlock(&table->lock);
    if (table->place != NULL) {
        table->ops->wake(table);
    }
    gy_thread_join(&table->storing);
    gy_thread_join(&table->campaigning);
    if (table->place != NULL) {
        table->ops->close(table);
    }
    free_writes(table->first);
    free_writes(table->done_first);
    if (table->event >= 0) {
        close(table->event);
    }
    gy_cond_fini(&table->work);
    gy_cond_fini(&table->election);
    gy_cond_fini(&table->ends);
    gy_mutex_fini(&table->lock);
    gy_free(table);
}

static gy_status begin(gy_persist_table *table, const gy_persist_table_options *options)
{
    table->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (table->event < 0) {
        return gy_fail(GY_IO, "cannot make an event for a table: %s", strerror(errno));
    }
    GY_TRY(table->ops->open(table, options));
    GY_TRY(gy_thread_start(&table->storing, "gyre-table", store_run, table));
    return gy_thread_start(&table->campaigning, "gyre-campaign", gy_campaign_run, table);
}

gy_status gy_persist_table_open(gy_env *env, const gy_persist_table_options *options,
                                gy_persist_table **table)
{
    if (options->where == NULL || options->where[0] == '\0') {
        return gy_fail(GY_ARG, "no table: expected sqlite:PATH or etcd:https://HOST:PORT");
    }
    if (!(options->patience_s >= 0 && options->lease_s >= 0 && options->lease_s <= 3600)) {
        return gy_fail(GY_ARG,
                       "a table's lease of %g s and patience of %g s: expected 0 to 3600",
                       options->lease_s, options->patience_s);
    }
    gy_persist_table *made = gy_alloc_zero("persist.table", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->env = env;
    made->ops = strncmp(options->where, "etcd:", 5) == 0 ? &gy_persist_table_etcd
                                                         : &gy_persist_table_sqlite;
    made->patience_s = options->patience_s > 0 ? options->patience_s : patience_default_s;
    made->lease_s = options->lease_s > 0 ? options->lease_s : lease_default_s;
    made->stored = options->stored;
    made->elected = options->elected;
    made->arg = options->arg;
    made->last = &made->first;
    made->done_last = &made->done_first;
    gy_mutex_init(&made->lock, LOCK_RANK);
    gy_cond_init(&made->work);
    gy_cond_init(&made->election);
    gy_cond_init(&made->ends);
    const gy_status status = begin(made, options);
    if (status < 0) {
        gy_persist_table_close(made);
        return status;
    }
    *table = made;
    return GY_OK;
}

gy_status gy_persist_table_load(gy_persist_table *table, gy_persist_table_each each, void *arg)
{
    return table->ops->load(table, each, arg);
}

/* ---- storing ---- */

static bool has_key(const gy_persist_table_write *first, gy_key key)
{
    for (const gy_persist_table_write *at = first; at != NULL; at = at->next) {
        if (at->key.high == key.high && at->key.low == key.low) {
            return true;
        }
    }
    return false;
}

gy_status gy_persist_table_store(gy_persist_table *table, gy_key key, uint64_t version,
                                 const void *data, size_t size_bytes)
{
    GY_ASSERT(table->stored != NULL);
    if (size_bytes > GY_TABLE_RECORD_BYTES) {
        return gy_fail(GY_LIMIT, "a record of %zu bytes: at most %d", size_bytes,
                       GY_TABLE_RECORD_BYTES);
    }
    gy_persist_table_write *made = gy_alloc("persist.table", sizeof(*made) + size_bytes);
    if (made == NULL) {
        return GY_NOMEM;
    }
    *made =
        (gy_persist_table_write){.key = key,
                                 .version = version,
                                 .due_ns = gy_env_deadline(table->env, table->patience_s).at_ns,
                                 .size_bytes = size_bytes};
    if (size_bytes > 0) {
        memcpy(made->data, data, size_bytes);
    }
    gy_mutex_lock(&table->lock);
    const bool is_twice = has_key(table->first, key) || has_key(table->under_way, key) ||
                          has_key(table->done_first, key);
    if (!is_twice) {
        *table->last = made;
        table->last = &made->next;
        gy_cond_signal(&table->work);
    }
    gy_mutex_unlock(&table->lock);
    if (is_twice) {
        gy_free(made);
        return gy_fail(GY_STATE, "a store of the record %016llx%016llx is under way",
                       (unsigned long long)key.high, (unsigned long long)key.low);
    }
    return GY_OK;
}

/* ---- the loop ---- */

int gy_persist_table_fd(const gy_persist_table *table)
{
    return table->event;
}

gy_deadline gy_persist_table_next(const gy_persist_table *table)
{
    const gy_campaign *campaign = &table->campaign; /* is_told belongs to the owner */
    return campaign->is_told
               ? (gy_deadline){__atomic_load_n(&campaign->until_ns, __ATOMIC_ACQUIRE)}
               : GY_NEVER;
}

static bool take_turn(gy_persist_table *table)
{
    uint64_t count = 0;
    (void)!read(table->event, &count, sizeof(count)); /* EAGAIN: nothing was signalled */
    gy_campaign_news news = {.is_lost = false};
    gy_mutex_lock(&table->lock);
    gy_campaign_check(table, &news);
    gy_persist_table_write *done = table->done_first;
    table->done_first = NULL;
    table->done_last = &table->done_first;
    gy_mutex_unlock(&table->lock);
    const bool is_something = news.is_lost || news.is_won || done != NULL;
    if (news.is_lost) {
        table->elected(table->arg, false, news.lost_number);
    }
    while (done != NULL) {
        gy_persist_table_write *next = done->next;
        const gy_status status =
            done->outcome.status < 0 ? gy_error_raise(&done->outcome) : GY_OK;
        table->stored(table->arg, done->key, done->version, status);
        gy_free(done);
        done = next;
    }
    if (news.is_won) {
        table->elected(table->arg, true, news.won_number);
    }
    return is_something;
}

gy_status gy_persist_table_turn(gy_persist_table *table, gy_deadline deadline)
{
    for (;;) {
        if (take_turn(table)) {
            return GY_OK;
        }
        const int64_t now = gy_now_ns(table->env);
        if (now >= deadline.at_ns) {
            return GY_AGAIN;
        }
        const int64_t until = GY_MIN(deadline.at_ns, gy_persist_table_next(table).at_ns);
        const int64_t wait_ms = until > now ? (until - now) / 1000000 + 1 : 0;
        struct pollfd wait = {.fd = table->event, .events = POLLIN};
        /* After a signal the caller polls again. */
        (void)poll(&wait, 1, (int)GY_MIN(wait_ms, (int64_t)10000));
    }
}
