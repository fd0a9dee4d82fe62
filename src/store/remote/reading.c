/*
 * A source over a remote object: a thread asks for the next range while this one is read. Two
 * buffers: whoever reads has one, the thread fills the other.
 */
#include "store/remote/remote_priv.h"

#include <string.h>

enum { LOCK_RANK = 20, BUFFERS = 2 };

typedef struct read_range {
    char *data; /* (capacity) */
    size_t used;
    bool is_full;
} read_range;

typedef struct remote_reading {
    gy_place *place; /* the thread's while it runs */
    gy_place_facts facts;
    size_t capacity; /* of a buffer */
    gy_mutex lock;   /* of what follows */
    gy_cond moves;
    read_range ranges[BUFFERS];
    bool is_stopped;
    gy_status failed;
    gy_error error;
    gy_thread thread;
    int turn;     /* the buffer that is read */
    size_t taken; /* of it */
    uint64_t read_bytes;
} remote_reading;

static gy_status fill(remote_reading *reading, uint64_t at, read_range *range)
{
    const size_t wanted =
        (size_t)GY_MIN((uint64_t)reading->capacity, reading->facts.size_bytes - at);
    GY_TRY(gy_place_read(reading->place, reading->facts.version, at, range->data, wanted,
                         &range->used));
    if (range->used != wanted) {
        return gy_fail(GY_STATE, "%s: it ends at byte %llu, expected %llu",
                       gy_place_uri(reading->place), (unsigned long long)(at + range->used),
                       (unsigned long long)reading->facts.size_bytes);
    }
    return GY_OK;
}

/* Wait until the range was read. False: stopped. The wait ends with gy_source_close. */
static bool wait_empty(remote_reading *reading, const read_range *range)
{
    gy_mutex_lock(&reading->lock);
    while (range->is_full && !reading->is_stopped) {
        (void)gy_cond_wait(&reading->moves, &reading->lock, GY_NEVER);
    }
    const bool is_wanted = !reading->is_stopped;
    gy_mutex_unlock(&reading->lock);
    return is_wanted;
}

static void *run(void *arg)
{
    remote_reading *reading = arg;
    gy_status status = GY_OK;
    int turn = 0;
    for (uint64_t at = 0; status == GY_OK && at < reading->facts.size_bytes;) {
        read_range *range = &reading->ranges[turn];
        if (!wait_empty(reading, range)) {
            break;
        }
        status = fill(reading, at, range);
        at += range->used;
        turn = (turn + 1) % BUFFERS;
        gy_mutex_lock(&reading->lock);
        range->is_full = status == GY_OK;
        if (status < 0) {
            reading->failed = status;
            gy_error_take(&reading->error, status);
        }
        gy_cond_signal(&reading->moves);
        gy_mutex_unlock(&reading->lock);
    }
    return NULL;
}

/* Wait for the buffer whose turn it is. */
static gy_status wait_full(remote_reading *reading)
{
    /* a range is asked for within the place's patience; before it another may be under way */
    const gy_deadline deadline =
        gy_env_deadline(reading->place->env, 3 * reading->place->patience_s + 1);
    gy_status waited = GY_OK, failed = GY_OK;
    gy_mutex_lock(&reading->lock);
    const read_range *range = &reading->ranges[reading->turn];
    while (!range->is_full && reading->failed == GY_OK && waited == GY_OK) {
        waited = gy_cond_wait(&reading->moves, &reading->lock, deadline);
    }
    failed = range->is_full ? GY_OK : reading->failed;
    gy_mutex_unlock(&reading->lock);
    if (failed < 0) {
        return gy_error_raise(&reading->error);
    }
    return waited < 0 ? gy_fail(waited, "%s: no bytes came", gy_place_uri(reading->place))
                      : GY_OK;
}

static gy_status take(void *arg, void *data, size_t wanted, size_t *got)
{
    remote_reading *reading = arg;
    size_t done = 0;
    while (done < wanted && reading->read_bytes < reading->facts.size_bytes) {
        GY_TRY(wait_full(reading));
        read_range *range = &reading->ranges[reading->turn];
        const size_t more = GY_MIN(wanted - done, range->used - reading->taken);
        memcpy((char *)data + done, range->data + reading->taken, more);
        reading->taken += more;
        reading->read_bytes += more;
        done += more;
        if (reading->taken == range->used) {
            gy_mutex_lock(&reading->lock);
            range->is_full = false;
            gy_cond_signal(&reading->moves);
            gy_mutex_unlock(&reading->lock);
            reading->taken = 0;
            reading->turn = (reading->turn + 1) % BUFFERS;
        }
    }
    *got = done;
    return GY_OK;
}

static void close_reading(void *arg)
{
    remote_reading *reading = arg;
    if (reading->thread.is_started) {
        gy_mutex_lock(&reading->lock);
        reading->is_stopped = true;
        gy_cond_signal(&reading->moves);
        gy_mutex_unlock(&reading->lock);
        gy_place_cancel(reading->place);
        gy_thread_join(&reading->thread);
    }
    for (int i = 0; i < BUFFERS; i++) {
        gy_free(reading->ranges[i].data);
    }
    gy_place_close(reading->place);
    gy_cond_fini(&reading->moves);
    gy_mutex_fini(&reading->lock);
    gy_free(reading);
}

static gy_status begin(remote_reading *reading)
{
    GY_TRY(gy_place_stat(reading->place, &reading->facts));
    if (reading->facts.is_folder) {
        return gy_fail(GY_IO, "cannot read %s: it is a folder, expected a file",
                       gy_place_uri(reading->place));
    }
    if (reading->facts.size_bytes == 0) {
        return GY_OK;
    }
    reading->capacity =
        (size_t)GY_MIN((uint64_t)GY_READ_AHEAD_BYTES, reading->facts.size_bytes);
    const bool is_one = reading->facts.size_bytes <= reading->capacity;
    for (int i = 0; i < (is_one ? 1 : BUFFERS); i++) {
        reading->ranges[i].data = gy_alloc("store.reading", reading->capacity);
        if (reading->ranges[i].data == NULL) {
            return GY_NOMEM;
        }
    }
    return gy_thread_start(&reading->thread, "gyre-reading", run, reading);
}

gy_status gy_source_open_uri(gy_env *env, const char *uri, gy_encoding encoding,
                             const gy_place_options *options, gy_source **source)
{
    static const gy_source_ops ops = {take, close_reading};
    gy_place *place = NULL;
    GY_TRY(gy_place_open(env, uri, options, &place));
    if (place->uri.scheme == GY_SCHEME_FILE) {
        const gy_status status = gy_source_open(env, place->uri.path, encoding, source);
        gy_place_close(place);
        return status;
    }
    remote_reading *made = gy_alloc_zero("store.reading", 1, sizeof(*made));
    if (made == NULL) {
        gy_place_close(place);
        return GY_NOMEM;
    }
    made->place = place;
    gy_mutex_init(&made->lock, LOCK_RANK);
    gy_cond_init(&made->moves);
    const gy_status status = begin(made);
    if (status < 0) {
        close_reading(made);
        return status;
    }
    return gy_source_over(&ops, made, made->facts.size_bytes, uri, encoding, source);
}
