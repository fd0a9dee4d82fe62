/* A node on sockets: its event loop, its turns, its key ring. */
#include "rpc/stream/stream_priv.h"

#include <stdio.h>
#include <string.h>

static const int64_t ring_every_ns = 2000000000;

/* ---- Keys ---- */

static gy_status offer_key(void *arg, char name[GY_KEY_NAME_BYTES], gy_transport_key *key)
{
    const gy_stream *stream = arg;
    gy_keyring_who who = stream->who; /* the subject given at first stays */
    return gy_keyring_offer(stream->ring, &who, stream->skipped, name, key->bytes);
}

static stream_older *find_older(gy_stream *stream, const char *at)
{
    for (int i = 0; i < STREAM_OLDER; i++) {
        if (strcmp(stream->older[i].at, at) == 0) {
            return &stream->older[i];
        }
    }
    return NULL;
}

void gy_stream_choose_key(gy_stream *stream, const char *at)
{
    const stream_older *found = find_older(stream, at);
    stream->skipped = found != NULL ? found->skipped : 0;
}

void gy_stream_was_refused(gy_stream *stream, const char *at)
{
    stream_older *found = find_older(stream, at);
    if (stream->ring == NULL) {
        return;
    }
    if (found == NULL) {
        found = &stream->older[stream->older_count++ % STREAM_OLDER];
        *found = (stream_older){.skipped = 0};
        snprintf(found->at, sizeof(found->at), "%s", at);
    }
    found->skipped = (found->skipped + 1) % GY_KEYS_MOST;
}

static bool find_key(void *arg, const char *name, gy_transport_key *key)
{
    const gy_stream *stream = arg;
    gy_keyring_who who;
    return gy_keyring_find(stream->ring, name, &who, key->bytes);
}

void gy_stream_look_at_ring(gy_stream *stream)
{
    gy_keyring_who who;
    gy_transport_key key;
    if (stream->ring == NULL) {
        return;
    }
    stream->ring_ns = gy_now_ns(stream->env) + ring_every_ns;
    if (gy_keyring_refresh(stream->ring) != GY_AGAIN) {
        return;
    }
    memset(stream->older, 0, sizeof(stream->older));
    for (stream_connection *at = stream->connections; at != NULL;) {
        stream_connection *next = at->next;
        if (at->is_open &&
            !gy_keyring_find(stream->ring, gy_tcp_wire_key_name(at->wire), &who, key.bytes)) {
            gy_rpc_connection_fail(at,
                                   gy_fail(GY_PEER, "the key of the connection was retired"));
            next = stream->connections; /* handling it may have ended others */
        }
        at = next;
    }
    explicit_bzero(&key, sizeof(key));
}

/* ---- Turns ---- */

static void on_time(uv_timer_t *timer)
{
    (void)timer; /* it only ends the wait */
}

static void push(gy_stream *stream)
{
    while (stream->pushed != NULL) {
        stream_connection *connection = stream->pushed;
        stream->pushed = connection->next_pushed;
        connection->is_pushed = false;
        gy_rpc_connection_write(connection);
    }
}

/* Continue once each with connections that have more data than their share. */
static void go_on_hot(gy_stream *stream)
{
    size_t count = 0;
    for (const stream_connection *at = stream->hot; at != NULL; at = at->next_hot) {
        count++;
    }
    for (; count > 0 && stream->hot != NULL; count--) {
        stream_connection *connection = stream->hot;
        stream->hot = connection->next_hot;
        connection->is_hot = false;
        gy_rpc_connection_go_on(connection);
    }
}

static int64_t next_ns(const void *carrier)
{
    const gy_stream *stream = carrier;
    int64_t at_ns = stream->hot != NULL ? 0 : INT64_MAX;
    /* Who asks outside a turn is about to wait for the descriptor, as a turn that may sleep is:
     * from here on the other ends of shared memory ring. */
    if ((!stream->is_turning || stream->may_sleep) &&
        !gy_rpc_shares_arm((gy_stream *)(uintptr_t)stream)) {
        return 0;
    }
    /* libuv registers new sockets with its descriptor only when it polls. A caller that waits
     * for that descriptor would miss their events, so let libuv poll now. */
    if (uv_loop_alive(&stream->loop) && uv_backend_timeout(&stream->loop) == 0) {
        return 0;
    }
    at_ns = GY_MIN(at_ns, stream->listen_ns);
    at_ns = GY_MIN(at_ns, gy_rpc_strangers_due_ns(stream));
    at_ns = GY_MIN(at_ns, gy_rpc_bulks_next_ns(stream));
    return stream->ring != NULL ? GY_MIN(at_ns, stream->ring_ns) : at_ns;
}

static void wait(gy_stream *stream, int64_t until_ns)
{
    int64_t now_ns = gy_now_ns(stream->env);
    if (until_ns <= now_ns) {
        (void)uv_run(&stream->loop, UV_RUN_NOWAIT);
        return;
    }
    uint64_t wait_ms = (uint64_t)GY_MIN((until_ns - now_ns + 999999) / 1000000, (int64_t)60000);
    uv_update_time(&stream->loop);
    /* The timer repeats: libuv fires timers before it polls, so a one-shot timer that was due
     * already would leave the poll without a time limit. */
    (void)uv_timer_start(&stream->timer, on_time, wait_ms, 1);
    (void)uv_run(&stream->loop, UV_RUN_ONCE);
    (void)uv_timer_stop(&stream->timer);
}

static void do_due(gy_stream *stream)
{
    gy_rpc_listener_look(stream);
    gy_rpc_strangers_look(stream);
    gy_rpc_bulks_look(stream);
    if (stream->ring != NULL && gy_now_ns(stream->env) >= stream->ring_ns) {
        gy_stream_look_at_ring(stream);
    }
    gy_rpc_tick(stream->rpc);
    push(stream);
}

static gy_status turn(void *carrier, gy_deadline deadline)
{
    gy_stream *stream = carrier;
    stream->happened = 0;
    stream->is_turning = true;
    push(stream);
    do {
        gy_rpc_shares_look(stream);
        stream->may_sleep = deadline.at_ns > 0 && stream->happened == 0;
        wait(stream, GY_MIN(deadline.at_ns, gy_rpc_next(stream->rpc).at_ns));
        stream->may_sleep = false;
        gy_rpc_shares_look(stream);
        go_on_hot(stream);
        /* After the sockets, so that a peer whose data have arrived is not found silent. */
        stream->happened += gy_rpc_next(stream->rpc).at_ns <= gy_now_ns(stream->env);
        do_due(stream);
    } while (stream->happened == 0 && gy_now_ns(stream->env) < deadline.at_ns);
    stream->is_turning = false;
    return stream->happened > 0 ? GY_OK : GY_AGAIN;
}

static int descriptor(const void *carrier)
{
    const gy_stream *stream = carrier;
    return uv_backend_fd(&stream->loop);
}

/* ---- Open and close ---- */

static void free_stream(void *carrier)
{
    gy_stream *stream = carrier;
    while (stream->connections != NULL) {
        gy_rpc_connection_fail(stream->connections, gy_fail(GY_CANCELLED, "the node ends"));
    }
    gy_stream_unlisten(stream);
    uv_close((uv_handle_t *)&stream->timer, NULL);
    (void)uv_run(&stream->loop, UV_RUN_DEFAULT); /* a name being resolved delays this */
    int left = uv_loop_close(&stream->loop);
    GY_ASSERT(left == 0);
    gy_tls_free(stream->tls);
    gy_keyring_free(stream->ring);
    gy_free(stream->buffer);
    gy_free(stream);
}

static const gy_rpc_carrier_ops stream_ops = {
    .name = "stream",
    .dial = gy_rpc_connection_dial,
    .push = gy_rpc_connection_push,
    .close = gy_rpc_connection_close_link,
    .listen = gy_stream_listen,
    .turn = turn,
    .next = next_ns,
    .fd = descriptor,
    .free = free_stream,
};

static gy_status open_keys(gy_stream *stream, const gy_rpc_options *options)
{
    char name[GY_KEY_NAME_BYTES];
    gy_transport_key key;
    if (options->key_file == NULL && !options->is_plaintext) {
        return gy_fail(GY_ARG, "no cluster key: every connection needs one");
    }
    if (options->key_file == NULL) {
        return GY_OK;
    }
    if (options->is_plaintext) {
        return gy_fail(GY_ARG, "a cluster key and plain text are one too many");
    }
    GY_TRY(gy_keyring_open(options->key_file, &stream->ring));
    GY_TRY(gy_keyring_offer(stream->ring, &stream->who, 0, name, key.bytes));
    explicit_bzero(&key, sizeof(key));
    const gy_tls_source source = {.arg = stream,
                                  .offer = offer_key,
                                  .find = find_key,
                                  .here = gy_keyring_text(stream->ring)};
    stream->ring_ns = gy_now_ns(stream->env) + ring_every_ns;
    return gy_tls_new_from(&source, &stream->tls);
}

gy_status gy_rpc_new(gy_env *env, const gy_rpc_options *options, gy_rpc **rpc)
{
    gy_stream *stream = gy_alloc_zero("rpc.stream", 1, sizeof(*stream));
    if (stream == NULL) {
        return GY_NOMEM;
    }
    stream->env = env;
    stream->who.role = options->role;
    snprintf(stream->who.subject, sizeof(stream->who.subject), "%s",
             options->subject != NULL ? options->subject : "");
    stream->server = options->bulk;
    stream->shares_memory = options->shares_memory;
    stream->listener = -1;
    stream->listen_ns = INT64_MAX;
    stream->stranger_max = options->stranger_max > 0 ? options->stranger_max : GY_STRANGERS;
    stream->buffer = gy_alloc("rpc.stream", STREAM_BUFFER_BYTES);
    gy_status status = stream->buffer != NULL ? open_keys(stream, options) : GY_NOMEM;
    if (status == GY_OK) {
        int error = uv_loop_init(&stream->loop);
        status = error == 0
                     ? GY_OK
                     : gy_fail(GY_LIMIT, "cannot make an event loop: %s", uv_strerror(error));
    }
    if (status < 0) {
        gy_tls_free(stream->tls);
        gy_keyring_free(stream->ring);
        gy_free(stream->buffer);
        gy_free(stream);
        return status;
    }
    (void)uv_timer_init(&stream->loop, &stream->timer); /* always returns 0 */
    gy_rpc_options carried = *options;
    carried.subject = stream->who.subject;
    status = gy_rpc_new_carried(env, &carried, &stream_ops, stream, &stream->rpc);
    if (status < 0) {
        free_stream(stream);
        return status;
    }
    *rpc = stream->rpc;
    return GY_OK;
}
