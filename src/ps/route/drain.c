/* What an operator asks of a lead. */
#include "ps/map/map.h"

#include <gyre/ps.h>

#include <string.h>

enum { LEADS_MAX = 8 };

static const double call_s = 2, pause_s = 0.1;

typedef struct draining {
    gy_rpc *rpc;
    gy_rpc_method methods[GY_PS_LED_METHODS];
    gy_rpc_peer leads[LEADS_MAX];
    uint32_t lead_count;
    bool is_pending;
    gy_error error;
    uint32_t parts;
} draining;

static void on_drained(void *arg, gy_status status, const ProtobufCMessage *message)
{
    draining *at = arg;
    at->is_pending = false;
    at->error.status = GY_OK;
    if (status < 0) {
        gy_error_take(&at->error, status);
    } else {
        at->parts = ((const Gy__Ps__Drained *)message)->parts;
    }
}

static gy_status ask(draining *at, uint32_t lead, const char *server)
{
    Gy__Ps__Drain drain;
    gy__ps__drain__init(&drain);
    drain.address = (char *)(uintptr_t)server;
    at->is_pending = true;
    GY_TRY(gy_rpc_call(at->rpc, at->leads[lead],
                       &(gy_rpc_request){.type = GY_PS_DRAIN,
                                         .message = &drain.base,
                                         .deadline = gy_deadline_after(call_s),
                                         .done = on_drained,
                                         .arg = at},
                       NULL));
    while (at->is_pending) {
        (void)gy_rpc_turn(at->rpc, gy_deadline_after(pause_s));
    }
    return at->error.status < 0 ? gy_error_raise(&at->error) : GY_OK;
}

/* A lead that is on standby, or that is not reached, says GY_PEER: then the next one is asked.
 */
static gy_status drain(draining *at, const char *server, gy_deadline deadline,
                       void (*on_progress)(void *arg, uint32_t parts), void *arg)
{
    gy_env *env = gy_env_real();
    for (uint32_t lead = 0;;) {
        gy_status status = ask(at, lead, server);
        if (status < 0 && status != GY_PEER && status != GY_TIMEOUT) {
            return status;
        }
        lead = status < 0 ? (lead + 1) % at->lead_count : lead;
        if (status == GY_OK && on_progress != NULL) {
            on_progress(arg, at->parts);
        }
        if (status == GY_OK && at->parts == 0) {
            return GY_OK;
        }
        if (gy_now_ns(env) >= deadline.at_ns) {
            return status < 0
                       ? status
                       : gy_fail(GY_TIMEOUT, "server %s still has %u parts", server, at->parts);
        }
        int64_t until_ns = gy_env_deadline(env, pause_s).at_ns;
        while (gy_now_ns(env) < until_ns) {
            (void)gy_rpc_turn(at->rpc, (gy_deadline){until_ns});
        }
    }
}

static gy_status dial_leads(draining *at, const char *leads)
{
    const char *text = leads;
    while (*text != '\0' && at->lead_count < LEADS_MAX) {
        char one[GY_RPC_ADDRESS_BYTES];
        size_t size = strcspn(text, ",");
        if (size == 0 || size >= sizeof(one)) {
            break;
        }
        memcpy(one, text, size);
        one[size] = '\0';
        GY_TRY(gy_rpc_dial(at->rpc, one, &at->leads[at->lead_count]));
        at->lead_count++;
        text += size + (text[size] == ',' && text[size + 1] != '\0');
    }
    return *text == '\0' && at->lead_count > 0
               ? GY_OK
               : gy_fail(GY_ARG, "leads are '%s': expected HOST:PORT,... of 1 to %d", leads,
                         LEADS_MAX);
}

gy_status gy_ps_drain(const gy_ps_options *options, const char *server,
                      void (*on_progress)(void *arg, uint32_t parts), void *arg)
{
    gy_ps_options o;
    GY_TRY(gy_options_take(gy_ps_options, &o, options));
    if (o.lead == NULL) {
        return gy_fail(GY_ARG, "expected the address of a lead");
    }
    draining at = {.error = {.status = GY_OK}};
    gy_ps_led_methods(at.methods);
    GY_TRY(gy_rpc_new(gy_env_real(),
                      &(gy_rpc_options){.name = "operator",
                                        .role = GY_RPC_OPERATOR,
                                        .methods = at.methods,
                                        .method_count = GY_PS_LED_METHODS,
                                        .key_file = o.key_file,
                                        .is_plaintext = o.is_plaintext},
                      &at.rpc));
    gy_status status = dial_leads(&at, o.lead);
    if (status == GY_OK) {
        status = drain(&at, server, gy_deadline_after(o.timeout_s > 0 ? o.timeout_s : 60),
                       on_progress, arg);
    }
    gy_error why;
    gy_error_take(&why, status);
    gy_rpc_free(at.rpc);
    return status < 0 ? gy_error_raise(&why) : GY_OK;
}
