#include "transport/net.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

typedef struct stranger {
    gy_greeting *greeting; /* NULL: the place is free */
    gy_deadline deadline;
    gy_address from;
} stranger;

struct gy_tcp_acceptor {
    gy_tcp_acceptor_options options;
    gy_env *env;
    int count;
    stranger strangers[GY_STRANGERS];
};

gy_status gy_tcp_acceptor_new(const gy_tcp_acceptor_options *options, gy_env *env,
                              gy_tcp_acceptor **door)
{
    GY_ASSERT(options->judge != NULL);
    GY_ASSERT(options->listener >= 0);
    gy_tcp_acceptor *made = gy_alloc_zero("transport.door", 1, sizeof(*made));
    if (made == NULL) {
        close(options->listener);
        return GY_NOMEM;
    }
    made->options = *options;
    made->env = env;
    *door = made;
    return GY_OK;
}

static void send_away(gy_tcp_acceptor *door, stranger *who, const char *why)
{
    GY_ASSERT(who->greeting != NULL);
    GY_ASSERT(door->count > 0);
    char text[GY_ADDRESS_TEXT_BYTES];
    gy_warn("refused a connection from %s: %s", gy_address_text(&who->from, text), why);
    gy_greeting_free(who->greeting);
    who->greeting = NULL;
    door->count--;
}

/* Accept a caller; false: there is none. */
static bool let_in(gy_tcp_acceptor *door, stranger *place)
{
    GY_ASSERT(place->greeting == NULL);
    GY_ASSERT(door->count < GY_STRANGERS);
    gy_tcp_wire *wire = NULL;
    place->from.size_bytes = sizeof(place->from.at);
    int socket = accept4(door->options.listener, &place->from.at.any, &place->from.size_bytes,
                         SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) {
        return false; /* or a caller that has disconnected */
    }
    if (gy_tcp_wire_new(socket, door->options.tls, false, &wire) < 0 ||
        gy_greeting_new(wire, false, &door->options.hello, &place->greeting) < 0) {
        gy_warn("cannot accept a connection: %s", gy_error_text());
        return true;
    }
    place->deadline = gy_env_deadline(door->env, GY_STRANGER_SECONDS);
    door->count++;
    return true;
}

gy_status gy_tcp_acceptor_step(gy_tcp_acceptor *door, gy_tcp_wire **wire, gy_hello *theirs)
{
    GY_ASSERT(door->count >= 0);
    GY_ASSERT(door->count <= GY_STRANGERS);
    bool has_callers = true;
    /* With all places taken, the next caller waits in the kernel's queue. */
    for (int i = 0; i < GY_STRANGERS && (has_callers || door->count > 0); i++) {
        stranger *who = &door->strangers[i];
        if (who->greeting == NULL && has_callers) {
            has_callers = let_in(door, who);
        }
        if (who->greeting == NULL) {
            continue;
        }
        gy_status status = gy_greeting_step(who->greeting, door->options.judge,
                                            door->options.arg, wire, theirs);
        if (status == GY_OK) {
            gy_greeting_free(who->greeting);
            GY_ASSERT(*wire != NULL);
            GY_ASSERT(door->count > 0);
            who->greeting = NULL;
            door->count--;
            return GY_OK;
        }
        if (status < 0) {
            send_away(door, who, gy_error_text());
        } else if (gy_now_ns(door->env) >= who->deadline.at_ns) {
            send_away(door, who, "it did not authenticate in time");
        }
    }
    return GY_AGAIN;
}

int gy_tcp_acceptor_sockets(const gy_tcp_acceptor *door, int *sockets, bool *wants_room)
{
    GY_ASSERT(sockets != NULL);
    GY_ASSERT(wants_room != NULL);
    int count = 0;
    if (door->count < GY_STRANGERS) {
        wants_room[count] = false;
        sockets[count++] = door->options.listener;
    }
    for (int i = 0; i < GY_STRANGERS; i++) {
        if (door->strangers[i].greeting != NULL) {
            const gy_tcp_wire *wire = gy_greeting_wire(door->strangers[i].greeting);
            wants_room[count] = gy_tcp_wire_wants_room(wire);
            sockets[count++] = gy_tcp_wire_socket(wire);
        }
    }
    GY_ASSERT(count <= GY_STRANGERS + 1);
    return count;
}

void gy_tcp_acceptor_free(gy_tcp_acceptor *door)
{
    if (door == NULL) {
        return;
    }
    for (int i = 0; i < GY_STRANGERS; i++) {
        gy_greeting_free(door->strangers[i].greeting);
    }
    close(door->options.listener);
    gy_free(door);
}
