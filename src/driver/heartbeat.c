/* Sends heartbeats for a manager without a job. Uses real files, on one thread. */
#include "driver/heartbeat.h"

#include "control/net/net.h"

#include <openssl/crypto.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { QUIET_MS = 500, BEAT_MS = 400, NAMES_MAX = 8, METHODS = 3 };

static struct voice {
    gy_env *env;
    gy_ticket ticket;
    pthread_t thread;
    int bell; /* wakes the thread so that it ends */
    bool is_there;
    uint64_t sequence, seen;
    gy_rpc *rpc;
    gy_rpc_method methods[METHODS];
    gy_rpc_peer names[NAMES_MAX];
    uint32_t name_count;
} voice;

/* The next driver receives all allocations again, so ignore them. */
static gy_status handle_allocations(void *arg, const gy_rpc_asked *asked,
                                    const ProtobufCMessage *request)
{
    struct voice *own = arg;
    const Gy__Cluster__Allocations *message = (const void *)request;
    (void)asked;
    if (message->epoch == own->ticket.epoch) {
        own->seen = GY_MAX(own->seen, message->version);
    }
    return GY_OK;
}

static gy_status handle_over(void *arg, const gy_rpc_asked *asked,
                             const ProtobufCMessage *request)
{
    (void)arg, (void)asked, (void)request; /* the next driver is told too */
    return GY_OK;
}

static gy_status open_node(struct voice *own)
{
    static const gy_net_type types[METHODS] = {GY_NET_REQUESTS, GY_NET_ALLOCATIONS,
                                               GY_NET_OVER};
    char name[64], subject[GY_NET_KEY_TEXT], names[sizeof(own->ticket.names)], *rest = names;
    for (int i = 0; i < METHODS; i++) {
        own->methods[i] = gy_net_method(types[i]);
    }
    own->methods[1].serve = handle_allocations;
    own->methods[2].serve = handle_over;
    gy_net_key_text(own->ticket.job, subject);
    (void)snprintf(name, sizeof(name), "manager %.8s epoch %u, idle", subject,
                   own->ticket.epoch);
    const gy_rpc_options options = {
        .name = name,
        .role = GY_RPC_MANAGER,
        .subject = subject,
        .methods = own->methods,
        .method_count = METHODS,
        .arg = own,
        .key_file = own->ticket.key_file[0] != '\0' ? own->ticket.key_file : NULL,
        .is_plaintext = own->ticket.key_file[0] == '\0'};
    GY_TRY(gy_rpc_new(own->env, &options, &own->rpc));
    (void)snprintf(names, sizeof(names), "%s", own->ticket.names);
    own->name_count = 0;
    for (char *one = strsep(&rest, ","); one != NULL && own->name_count < NAMES_MAX;
         one = strsep(&rest, ",")) {
        if (one[0] != '\0') {
            GY_TRY(gy_rpc_dial(own->rpc, one, &own->names[own->name_count]));
            own->name_count++;
        }
    }
    return GY_OK;
}

static void say(struct voice *own)
{
    gy_arena arena = {0};
    Gy__Cluster__Requests message;
    gy__cluster__requests__init(&message);
    if (!gy_ticket_is_idle(&own->ticket)) {
        return; /* another process's driver sends heartbeats */
    }
    const uint64_t first = ((uint64_t)own->ticket.round * 2 + 1) << 32;
    own->sequence = GY_MAX(own->sequence, first) + 1;
    const gy_manager_requests requests = {.job = own->ticket.job,
                                          .epoch = own->ticket.epoch,
                                          .sequence = own->sequence,
                                          .seen = own->seen,
                                          .address = ""};
    if (gy_net_write_requests(&requests, &arena, &message) == GY_OK) {
        message.progress = (char *)(uintptr_t) "its program is running, but no job";
        for (uint32_t i = 0; i < own->name_count; i++) {
            if (gy_rpc_tell(own->rpc, own->names[i], GY_NET_REQUESTS, &message.base) < 0) {
                gy_debug("a message is lost: %s", gy_error_text());
            }
        }
    }
    gy_arena_free(&arena);
}

/* Wait until the bell rings: true. */
static bool wait_for(const struct voice *own, int64_t until_ns)
{
    for (;;) {
        const int64_t now_ns = gy_now_ns(own->env);
        int64_t next_ns = until_ns;
        if (own->rpc != NULL) {
            next_ns = GY_MIN(next_ns, gy_rpc_next(own->rpc).at_ns);
        }
        struct pollfd looks[2] = {
            {.fd = own->bell, .events = POLLIN},
            {.fd = own->rpc != NULL ? gy_rpc_fd(own->rpc) : -1, .events = POLLIN}};
        const int64_t left_ns = GY_MAX(next_ns - now_ns, 0);
        const int count = poll(looks, 2, (int)GY_MIN(left_ns / 1000000 + 1, 60000));
        if (count > 0 && looks[0].revents != 0) {
            return true;
        }
        while (own->rpc != NULL && gy_rpc_turn(own->rpc, (gy_deadline){0}) == GY_OK) {
        }
        if (gy_now_ns(own->env) >= until_ns) {
            return false;
        }
    }
}

static void *speak(void *arg)
{
    struct voice *own = arg;
    /* If a job starts or the program ends soon, no heartbeats are needed. */
    if (wait_for(own, gy_now_ns(own->env) + (int64_t)QUIET_MS * 1000000)) {
        return NULL;
    }
    if (open_node(own) < 0) {
        gy_warn("cannot send heartbeats between the jobs of this manager: %s", gy_error_text());
    } else {
        do {
            say(own);
        } while (!wait_for(own, gy_now_ns(own->env) + (int64_t)BEAT_MS * 1000000));
    }
    gy_rpc_free(own->rpc);
    own->rpc = NULL;
    return NULL;
}

void gy_driver_heartbeat_start(gy_env *env, const gy_ticket *ticket)
{
    static bool is_registered;
    sigset_t all, before;
    if (voice.is_there) {
        return;
    }
    if (!is_registered) {
        /* The thread must stop before OpenSSL's exit handler runs, so OpenSSL registers its
         * handler first; a plaintext connection does not need it. */
        const bool is_ready = ticket->key_file[0] == '\0' || OPENSSL_init_crypto(0, NULL) == 1;
        is_registered = is_ready && atexit(gy_driver_heartbeat_stop) == 0;
    }
    voice = (struct voice){.env = env, .ticket = *ticket, .seen = 0};
    voice.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sigfillset(&all); /* signals belong to the program's own threads */
    int error = voice.bell < 0 ? errno : pthread_sigmask(SIG_SETMASK, &all, &before);
    if (error == 0) {
        error = pthread_create(&voice.thread, NULL, speak, &voice);
        GY_ASSERT(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    }
    voice.is_there = error == 0;
    if (error != 0) {
        gy_warn("cannot send heartbeats between the jobs of this manager: %s", strerror(error));
        if (voice.bell >= 0) {
            close(voice.bell);
        }
    }
}

void gy_driver_heartbeat_stop(void)
{
    const uint64_t one = 1;
    if (!voice.is_there) {
        return;
    }
    const ssize_t rung = write(voice.bell, &one, sizeof(one));
    GY_ASSERT(rung == (ssize_t)sizeof(one));
    GY_ASSERT(pthread_join(voice.thread, NULL) == 0);
    close(voice.bell);
    voice.is_there = false;
}
