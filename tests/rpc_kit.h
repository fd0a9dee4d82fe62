/*
 * Nodes of room rpc for tests: one method that answers what it is asked, one that keeps its
 * answer back, one that is told. Messages are the room's own envelopes.
 */
#ifndef GY_TESTS_RPC_KIT_H
#define GY_TESTS_RPC_KIT_H

#include "rpc/proto/rpc.pb-c.h"
#include "rpc/rpc.h"

#include <stdio.h>
#include <string.h>

enum { KIT_ECHO = 16, KIT_LATER, KIT_TOLD, KIT_GUARDED, KIT_BROKEN, KIT_MISSING, KIT_ONCE };
enum { KIT_HELD = 64, KIT_BYTES = 1 << 20 };

/* What happened at a node. */
typedef struct kit_end {
    gy_rpc *rpc;
    uint64_t echoed, told, cancelled, last_told;
    char subject[GY_RPC_SUBJECT_BYTES]; /* of the last one that asked for an echo */
    gy_rpc_asked held[KIT_HELD];
    uint64_t held_numbers[KIT_HELD];
    size_t held_count;
    int ups, downs, anews, gones, drains;
    gy_rpc_peer peer; /* the last one that came up */
    char why[256];    /* the last one went down */
} kit_end;

/* What came of a call. */
typedef struct kit_call {
    int ends;
    gy_status status;
    uint64_t number; /* of the answer */
    size_t size_bytes;
    char text[512];
} kit_call;

static inline gy_status kit_echo(void *arg, const gy_rpc_asked *asked,
                                 const ProtobufCMessage *request)
{
    kit_end *end = arg;
    end->echoed++;
    snprintf(end->subject, sizeof(end->subject), "%s", asked->subject);
    return gy_rpc_answer(end->rpc, asked, request);
}

static inline gy_status kit_later(void *arg, const gy_rpc_asked *asked,
                                  const ProtobufCMessage *request)
{
    kit_end *end = arg;
    end->held_numbers[end->held_count % KIT_HELD] =
        ((const Gy__Rpc__Envelope *)request)->number;
    end->held[end->held_count++ % KIT_HELD] = *asked;
    return GY_OK;
}

static inline gy_status kit_told(void *arg, const gy_rpc_asked *asked,
                                 const ProtobufCMessage *request)
{
    kit_end *end = arg;
    (void)asked;
    end->told++;
    end->last_told = ((const Gy__Rpc__Envelope *)request)->number;
    return GY_OK;
}

static inline gy_status kit_broken(void *arg, const gy_rpc_asked *asked,
                                   const ProtobufCMessage *request)
{
    (void)arg;
    (void)asked;
    (void)request;
    return gy_fail(GY_NUMERIC, "seven is not eight");
}

static inline void kit_cancel(void *arg, const gy_rpc_asked *asked)
{
    kit_end *end = arg;
    (void)asked;
    end->cancelled++;
}

#define KIT_ANYBODY ((1u << GY_RPC_ROLES) - 1)
#define KIT_METHOD(number, text, who, how)                                                     \
    {                                                                                          \
        .type = (number), .name = (text), .roles = (who),                                      \
        .request = &gy__rpc__envelope__descriptor, .answer = &gy__rpc__envelope__descriptor,   \
        .request_bytes_max = KIT_BYTES, .answer_bytes_max = KIT_BYTES, .serve = (how),         \
        .cancel = kit_cancel                                                                   \
    }

static const gy_rpc_method kit_methods[] = {
    KIT_METHOD(KIT_BROKEN, "break", KIT_ANYBODY, kit_broken),
    KIT_METHOD(KIT_ECHO, "echo", KIT_ANYBODY, kit_echo),
    KIT_METHOD(KIT_LATER, "answer later", KIT_ANYBODY, kit_later),
    KIT_METHOD(KIT_GUARDED, "start a vertex", GY_RPC_MAY(GY_RPC_MANAGER), kit_echo),
    KIT_METHOD(KIT_MISSING, "what nobody serves", KIT_ANYBODY, NULL),
    {.type = KIT_TOLD,
     .name = "tell",
     .roles = KIT_ANYBODY,
     .request = &gy__rpc__envelope__descriptor,
     .request_bytes_max = KIT_BYTES,
     .serve = kit_told},
};

static inline void kit_hear(void *arg, gy_rpc_peer peer, gy_rpc_event event)
{
    kit_end *end = arg;
    end->ups += event == GY_RPC_UP;
    end->downs += event == GY_RPC_DOWN;
    end->anews += event == GY_RPC_ANEW;
    end->gones += event == GY_RPC_GONE;
    end->drains += event == GY_RPC_DRAINED;
    if (event == GY_RPC_UP) {
        end->peer = peer;
    }
    if (event == GY_RPC_DOWN) {
        snprintf(end->why, sizeof(end->why), "%s", gy_error_text());
    }
}

static inline gy_rpc_options kit_options(kit_end *end, const char *name, gy_rpc_role role)
{
    return (gy_rpc_options){.name = name,
                            .role = role,
                            .methods = kit_methods,
                            .method_count = GY_COUNT(kit_methods),
                            .arg = end,
                            .hear = kit_hear};
}

static inline void kit_done(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    kit_call *call = arg;
    call->ends++;
    call->status = status;
    snprintf(call->text, sizeof(call->text), "%s", status < 0 ? gy_error_text() : "");
    if (answer != NULL) {
        call->number = ((const Gy__Rpc__Envelope *)answer)->number;
        call->size_bytes = ((const Gy__Rpc__Envelope *)answer)->body.len;
    }
}

static inline gy_status kit_ask(gy_rpc *rpc, gy_rpc_peer peer, uint32_t type, uint64_t number,
                                gy_deadline deadline, kit_call *call)
{
    Gy__Rpc__Envelope request;
    gy__rpc__envelope__init(&request);
    request.number = number;
    *call = (kit_call){.status = GY_AGAIN};
    return gy_rpc_call(rpc, peer,
                       &(gy_rpc_request){.type = type,
                                         .message = &request.base,
                                         .deadline = deadline,
                                         .done = kit_done,
                                         .arg = call},
                       NULL);
}

#endif
