/* What servers tell of their tables; and the process of a server that ends by a signal. */
#include "base/signals.h"
#include "ps/client_priv.h"

#include <string.h>

typedef struct showing {
    int pending;
    const char *server;
    gy_error error;
    gy_status (*visit)(void *arg, const gy_ps_facts *facts);
    void *arg;
} showing;

static gy_status visit_one(const showing *at, const Gy__Ps__Facts *of)
{
    gy_ps_facts facts = {.server = at->server,
                         .part = of->part,
                         .parts = of->parts,
                         .place = of->place,
                         .live = of->live,
                         .rows = of->rows,
                         .updates = of->updates,
                         .pushes = of->pushes,
                         .duplicates = of->duplicates,
                         .dropped = of->dropped,
                         .refused = of->refused,
                         .held_bytes = of->held_bytes,
                         .clock_min = of->clock_min,
                         .clock_max = of->clock_max,
                         .received_bytes = of->received_bytes,
                         .sent_bytes = of->sent_bytes,
                         .waiting = of->waiting,
                         .spared_key_bytes = of->spared_key_bytes,
                         .pulls = of->pulls,
                         .waits = of->waits,
                         .wait_s = (double)of->wait_ns / 1e9,
                         .slow_worker = of->slow_worker,
                         .slow_wait_s = (double)of->slow_wait_ns / 1e9};
    for (size_t i = 0; i < GY_MIN(of->n_staleness, (size_t)GY_PS_STALENESS_BINS); i++) {
        facts.staleness[i] = of->staleness[i];
    }
    GY_TRY(gy_ps_table_hear(of->table, &facts.options));
    facts.table = of->table->name;
    return at->visit(at->arg, &facts);
}

static void on_shown(void *arg, gy_status status, const ProtobufCMessage *message)
{
    showing *at = arg;
    const Gy__Ps__Shown *shown = (const Gy__Ps__Shown *)message;
    at->pending--;
    for (size_t i = 0; status == GY_OK && i < shown->n_tables; i++) {
        status = visit_one(at, shown->tables[i]);
    }
    if (status < 0) {
        gy_error_take(&at->error, status);
    }
}

/* All servers that the lead has, as a list. */
static gy_status list_servers(const gy_ps_options *options, gy_text *list)
{
    gy_ps *ps = NULL;
    GY_TRY(gy_ps_connect(options, GY_RPC_WORKER, &ps));
    gy_ps_enter(ps);
    const gy_ps_map *map = gy_ps_route_map(ps->route);
    for (uint32_t i = 0; i < map->server_count; i++) {
        gy_text_add(list, "%s%s", i > 0 ? "," : "", map->servers[i].address);
    }
    gy_ps_leave(ps);
    gy_ps_disconnect(ps);
    return list->status;
}

static gy_status show_led(const gy_ps_options *options,
                          gy_status (*visit)(void *arg, const gy_ps_facts *facts), void *arg)
{
    gy_text list = {.data = NULL};
    gy_status status = list_servers(options, &list);
    if (status == GY_OK) {
        gy_ps_options of = *options;
        of.lead = NULL;
        of.servers = gy_text_get(&list);
        status = gy_ps_show(&of, visit, arg);
    }
    gy_text_free(&list);
    return status;
}

gy_status gy_ps_show(const gy_ps_options *options,
                     gy_status (*visit)(void *arg, const gy_ps_facts *facts), void *arg)
{
    gy_ps *ps = NULL;
    showing at = {.visit = visit, .arg = arg, .error = {.status = GY_OK}};
    Gy__Ps__Show show;
    gy__ps__show__init(&show);
    gy_ps_options o;
    GY_TRY(gy_options_take(gy_ps_options, &o, options));
    if (o.lead != NULL && o.servers == NULL) {
        return show_led(&o, visit, arg);
    }
    GY_TRY(gy_ps_connect(&o, GY_RPC_WORKER, &ps));
    gy_deadline deadline = gy_deadline_after(ps->timeout_s);
    gy_status status = GY_OK;
    gy_ps_enter(ps);
    for (uint32_t i = 0; i < ps->part_count && status == GY_OK; i++) {
        at.server = ps->targets[i].address;
        status = gy_ps_call(ps, i,
                            &(gy_rpc_request){.type = PS_SHOW,
                                              .message = &show.base,
                                              .deadline = deadline,
                                              .done = on_shown,
                                              .arg = &at},
                            NULL, deadline);
        at.pending += status == GY_OK;
        (void)gy_ps_drive(ps, &at.pending, GY_NEVER); /* the call has a deadline */
        status = status == GY_OK ? at.error.status : status;
    }
    gy_error why = at.error;
    if (at.error.status == GY_OK) {
        gy_error_take(&why, status);
    }
    gy_ps_leave(ps);
    gy_ps_disconnect(ps);
    return status < 0 ? gy_error_raise(&why) : GY_OK;
}

gy_status gy_ps_serve(const gy_ps_server_options *options,
                      void (*on_listening)(void *arg, const char *address), void *arg)
{
    gy_ps_server *server = NULL;
    int signals = -1;
    GY_TRY(gy_ps_server_open(options, &server));
    gy_status status = gy_signals_open(&signals);
    if (status == GY_OK) {
        if (on_listening != NULL) {
            on_listening(arg, gy_ps_server_address(server));
        }
        status = gy_ps_server_run(server, signals);
        gy_signals_close(signals);
    }
    gy_error why; /* calls that end with the server have failures of their own */
    gy_error_take(&why, status);
    gy_ps_server_close(server);
    return status < 0 ? gy_error_raise(&why) : GY_OK;
}
