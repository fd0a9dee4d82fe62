/* What pulls at a server have waited for, and how stale their rows were. */
#include "ps/server_priv.h"

#include <string.h>

void gy_ps_waits_add(ps_waits *waits, uint64_t wait_ns, uint32_t behind)
{
    waits->waits++;
    waits->wait_ns += wait_ns;
    if (behind >= GY_PS_WORKERS_MAX) {
        return; /* nobody was named */
    }
    if (behind >= waits->worker_count) {
        if (GY_GROW("ps.waits", waits->by_worker, waits->worker_capacity, (size_t)behind + 1) <
            0) {
            return; /* it is a figure, no more */
        }
        memset(waits->by_worker + waits->worker_count, 0,
               (behind + 1 - waits->worker_count) * sizeof(*waits->by_worker));
        waits->worker_count = behind + 1;
    }
    waits->by_worker[behind] += wait_ns;
}

void gy_ps_waits_tell(const ps_waits *waits, Gy__Ps__Facts *facts)
{
    facts->spared_key_bytes = waits->spared_key_bytes;
    facts->pulls = waits->pulls;
    facts->waits = waits->waits;
    facts->wait_ns = waits->wait_ns;
    for (size_t i = 0; i < waits->worker_count; i++) {
        if (waits->by_worker[i] > facts->slow_wait_ns) {
            facts->slow_wait_ns = waits->by_worker[i];
            facts->slow_worker = (uint32_t)i;
        }
    }
    facts->n_staleness = GY_PS_STALENESS_BINS;
    facts->staleness = (uint64_t *)(uintptr_t)waits->staleness; /* only packed */
}

void gy_ps_waits_fini(ps_waits *waits)
{
    gy_free(waits->by_worker);
    *waits = (ps_waits){.pulls = 0};
}

/* ---- Facts ---- */

static void fill_facts(const gy_ps_server *server, const ps_served *table, double *numbers,
                       Gy__Ps__Table *shape, Gy__Ps__Facts *facts)
{
    gy_ps_part_facts of;
    gy_ps_part_look(table->part, &of);
    gy__ps__facts__init(facts);
    gy_ps_table_tell(table->name, gy_ps_part_table(table->part), numbers, shape);
    facts->table = shape;
    facts->place =
        server->chain != NULL ? gy_ps_chain_place(server->chain, table->part_index) : 0;
    facts->part = table->part_index;
    facts->parts = table->parts;
    facts->rows = of.rows;
    facts->updates = of.updates;
    facts->pushes = of.pushes;
    facts->duplicates = of.duplicates;
    facts->dropped = of.dropped;
    facts->refused = of.refused;
    facts->held_bytes = of.held_bytes;
    facts->clock_min = of.clock_min;
    facts->clock_max = of.clock_max;
    facts->live = of.live;
    facts->waiting = (uint32_t)table->waiting_count;
    facts->received_bytes = table->received_bytes;
    facts->sent_bytes = table->sent_bytes;
    gy_ps_waits_tell(&table->waits, facts);
}

typedef struct shown_table {
    double numbers[PS_NUMBERS];
    Gy__Ps__Table shape;
    Gy__Ps__Facts facts;
} shown_table;

gy_status gy_ps_server_show(void *arg, const gy_rpc_asked *asked,
                            const ProtobufCMessage *request)
{
    const gy_ps_server *server = arg;
    Gy__Ps__Shown shown;
    (void)request;
    gy__ps__shown__init(&shown);
    size_t count = server->table_count;
    shown_table *rows = gy_alloc_zero("ps.show", count + 1, sizeof(*rows));
    Gy__Ps__Facts **all = gy_alloc_zero("ps.show", count + 1, sizeof(*all));
    gy_status status = rows != NULL && all != NULL ? GY_OK : GY_NOMEM;
    for (size_t i = 0; i < count && status == GY_OK; i++) {
        fill_facts(server, server->tables[i], rows[i].numbers, &rows[i].shape, &rows[i].facts);
        all[i] = &rows[i].facts;
    }
    if (status == GY_OK) {
        shown.n_tables = count;
        shown.tables = all;
        status = gy_rpc_answer(server->rpc, asked, &shown.base);
    }
    gy_free(rows);
    gy_free((void *)all);
    return status;
}
