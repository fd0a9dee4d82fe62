/*
 * A source over a remote object. It has two lanes, each with a connection, a buffer and a
 * thread: lane k requests ranges k, k + 2, k + 4, ..., so that one or two requests are under
 * way while one range is read.
 *
 *   lane 0   [ range 0 ]        [ range 2 ]        [ range 4 ]
 *   lane 1        [ range 1 ]        [ range 3 ]
 *   read          0         1         2         3         4
 */
#include "store/remote/remote_priv.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { LOCK_RANK = 20, LANES = 2 };
static const double look_s = 0.1; /* how soon a cancelled reader notices it */

typedef struct remote_reading remote_reading;

typedef struct read_lane {
    remote_reading *reading;
    gy_place *place; /* only the thread uses it while it runs */
    gy_thread thread;
    uint64_t first_at; /* begin of its first range */
    char *data;        /* (capacity) the reader's while it is full, otherwise the thread's */
    size_t used;
    bool is_full;     /* this and the next member are guarded by the lock */
    gy_status failed; /* the lane's end, if below GY_OK */
    gy_error error;
} read_lane;

struct remote_reading {
    char version[GY_VERSION_BYTES];
    uint64_t begin, end;              /* range of the object to read */
    size_t capacity;                  /* size of a lane's buffer */
    const _Atomic bool *is_cancelled; /* NULL: cannot be cancelled */
    double patience_s;
    read_lane lanes[LANES];
    gy_mutex lock;
    gy_cond moves;
    bool is_stopped; /* guarded by the lock */
    int turn;        /* the lane that the reader reads */
    size_t taken;    /* bytes read of its range */
    uint64_t read_bytes;
};

static gy_status fill(read_lane *lane, uint64_t at)
{
    const remote_reading *reading = lane->reading;
    const size_t wanted = (size_t)GY_MIN((uint64_t)reading->capacity, reading->end - at);
    GY_TRY(gy_place_read(lane->place, reading->version, at, lane->data, wanted, &lane->used));
    if (lane->used != wanted) {
        return gy_fail(GY_STATE, "%s: it ends at byte %llu, expected %llu",
                       gy_place_uri(lane->place), (unsigned long long)(at + lane->used),
                       (unsigned long long)reading->end);
    }
    return GY_OK;
}

/* Wait until the reader has consumed the lane's range. False: stopped. gy_source_close ends
 * the wait. */
static bool wait_empty(read_lane *lane)
{
    remote_reading *reading = lane->reading;
    gy_mutex_lock(&reading->lock);
    while (lane->is_full && !reading->is_stopped) {
        (void)gy_cond_wait(&reading->moves, &reading->lock, GY_NEVER);
    }
    const bool is_wanted = !reading->is_stopped;
    gy_mutex_unlock(&reading->lock);
    return is_wanted;
}

static void *run(void *arg)
{
    read_lane *lane = arg;
    remote_reading *reading = lane->reading;
    gy_status status = GY_OK;
    for (uint64_t at = lane->first_at; status == GY_OK && at < reading->end;
         at += (uint64_t)reading->capacity * LANES) {
        if (!wait_empty(lane)) {
            break;
        }
        status = fill(lane, at);
        gy_mutex_lock(&reading->lock);
        lane->is_full = status == GY_OK;
        lane->failed = status;
        if (status < 0) {
            gy_error_take(&lane->error, status);
        }
        gy_cond_broadcast(&reading->moves);
        gy_mutex_unlock(&reading->lock);
    }
    return NULL;
}

static bool is_unwanted(const remote_reading *reading)
{
    return reading->is_cancelled != NULL &&
           atomic_load_explicit(reading->is_cancelled, memory_order_relaxed);
}

/* Wait for the range that the reader needs next. */
static gy_status wait_full(remote_reading *reading)
{
    read_lane *lane = &reading->lanes[reading->turn];
    /* a range of HDFS takes several requests, each within the place's timeout */
    const gy_deadline deadline = gy_env_deadline(gy_env_real(), 8 * reading->patience_s + 1);
    gy_status waited = GY_OK;
    gy_mutex_lock(&reading->lock);
    while (!lane->is_full && lane->failed == GY_OK && waited == GY_OK) {
        const gy_deadline look = gy_env_deadline(gy_env_real(), look_s);
        const bool is_last = look.at_ns >= deadline.at_ns;
        waited = gy_cond_wait(&reading->moves, &reading->lock, is_last ? deadline : look);
        if (is_unwanted(reading)) {
            waited = GY_CANCELLED;
        } else if (waited == GY_TIMEOUT && !is_last) {
            waited = GY_OK;
        }
    }
    const gy_status failed = lane->is_full ? GY_OK : lane->failed;
    gy_mutex_unlock(&reading->lock);
    if (failed < 0) {
        return gy_error_raise(&lane->error);
    }
    return waited < 0 ? gy_fail(waited, "%s: %s", gy_place_uri(lane->place),
                                waited == GY_TIMEOUT ? "no bytes came" : "no longer needed")
                      : GY_OK;
}

static gy_status take(void *arg, void *data, size_t wanted, size_t *got)
{
    remote_reading *reading = arg;
    size_t done = 0;
    while (done < wanted && reading->read_bytes < reading->end - reading->begin) {
        GY_TRY(wait_full(reading));
        read_lane *lane = &reading->lanes[reading->turn];
        const size_t more = GY_MIN(wanted - done, lane->used - reading->taken);
        memcpy((char *)data + done, lane->data + reading->taken, more);
        reading->taken += more;
        reading->read_bytes += more;
        done += more;
        if (reading->taken == lane->used) {
            gy_mutex_lock(&reading->lock);
            lane->is_full = false;
            gy_cond_broadcast(&reading->moves);
            gy_mutex_unlock(&reading->lock);
            reading->taken = 0;
            reading->turn = (reading->turn + 1) % LANES;
        }
    }
    *got = done;
    return GY_OK;
}

static void close_reading(void *arg)
{
    remote_reading *reading = arg;
    gy_mutex_lock(&reading->lock);
    reading->is_stopped = true;
    gy_cond_broadcast(&reading->moves);
    gy_mutex_unlock(&reading->lock);
    for (int i = 0; i < LANES; i++) {
        if (reading->lanes[i].thread.is_started) {
            gy_place_cancel(reading->lanes[i].place);
        }
    }
    for (int i = 0; i < LANES; i++) {
        read_lane *lane = &reading->lanes[i];
        if (lane->thread.is_started) {
            gy_thread_join(&lane->thread);
        }
        gy_free(lane->data);
        gy_place_close(lane->place);
    }
    gy_cond_fini(&reading->moves);
    gy_mutex_fini(&reading->lock);
    gy_free(reading);
}

static gy_status begin_lane(remote_reading *reading, int index, const gy_place_options *options)
{
    read_lane *lane = &reading->lanes[index];
    lane->first_at = reading->begin + (uint64_t)reading->capacity * (unsigned)index;
    if (lane->first_at >= reading->end) {
        return GY_OK;
    }
    if (lane->place == NULL) {
        gy_place *first = reading->lanes[0].place;
        GY_ASSERT(first != NULL);
        GY_TRY(gy_place_open(first->env, first->uri.text, options, &lane->place));
    }
    lane->data = gy_alloc("store.reading", reading->capacity);
    return lane->data != NULL ? gy_thread_start(&lane->thread, "gyre-reading", run, lane)
                              : GY_NOMEM;
}

static gy_status begin_lanes(remote_reading *reading, size_t ahead_bytes,
                             const gy_place_options *options)
{
    reading->capacity = (size_t)GY_MIN((uint64_t)ahead_bytes, reading->end - reading->begin);
    for (int i = 0; i < LANES; i++) {
        GY_TRY(begin_lane(reading, i, options));
    }
    return GY_OK;
}

/* Begin to read the object in its current version. */
static gy_status begin(remote_reading *reading, const gy_place_options *options)
{
    gy_place *place = reading->lanes[0].place;
    gy_place_facts facts;
    GY_TRY(gy_place_stat(place, &facts));
    if (facts.is_folder) {
        return gy_fail(GY_IO, "cannot read %s: it is a folder, expected a file",
                       gy_place_uri(place));
    }
    memcpy(reading->version, facts.version, sizeof(reading->version));
    reading->end = facts.size_bytes;
    return begin_lanes(reading, GY_READ_AHEAD_BYTES, options);
}

/* NULL: out of memory; the reading owns the place. */
static remote_reading *new_reading(gy_place *place)
{
    remote_reading *made = gy_alloc_zero("store.reading", 1, sizeof(*made));
    if (made == NULL) {
        gy_place_close(place);
        return NULL;
    }
    made->patience_s = place->patience_s;
    for (int i = 0; i < LANES; i++) {
        made->lanes[i].reading = made;
    }
    made->lanes[0].place = place;
    gy_mutex_init(&made->lock, LOCK_RANK);
    gy_cond_init(&made->moves);
    return made;
}

static const gy_source_ops reading_ops = {take, close_reading};

gy_status gy_source_open_uri(gy_env *env, const char *uri, gy_encoding encoding,
                             const gy_place_options *options, gy_source **source)
{
    gy_place *place = NULL;
    GY_TRY(gy_place_open(env, uri, options, &place));
    if (place->uri.scheme == GY_SCHEME_FILE) {
        const gy_status status = gy_source_open(env, place->uri.path, encoding, source);
        gy_place_close(place);
        return status;
    }
    remote_reading *made = new_reading(place);
    const gy_status status = made != NULL ? begin(made, options) : GY_NOMEM;
    if (status < 0) {
        if (made != NULL) {
            close_reading(made);
        }
        return status;
    }
    return gy_source_over(&reading_ops, made, made->end, uri, encoding, source);
}

gy_status gy_source_open_part(gy_env *env, const char *uri, const gy_source_part *part,
                              gy_source **source)
{
    GY_ASSERT(part->begin <= part->end && gy_uri_is_remote(uri));
    gy_place *place = NULL;
    GY_TRY(gy_place_open(env, uri, part->options, &place));
    remote_reading *made = new_reading(place);
    if (made == NULL) {
        return GY_NOMEM;
    }
    (void)snprintf(made->version, sizeof(made->version), "%s", part->version);
    made->begin = part->begin;
    made->end = part->end;
    made->is_cancelled = part->is_cancelled;
    const gy_status status = begin_lanes(
        made, part->ahead_bytes != 0 ? part->ahead_bytes : (size_t)GY_READ_AHEAD_BYTES,
        part->options);
    if (status < 0) {
        close_reading(made);
        return status;
    }
    return gy_source_over(&reading_ops, made, part->end - part->begin, uri, GY_ENCODING_PLAIN,
                          source);
}
