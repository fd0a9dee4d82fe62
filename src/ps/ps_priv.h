/**
 * Inside room ps: what servers and clients share. messages.c methods and tables as messages ·
 * server.c tables, pushes and waiting pulls · serve.c the process of a server · client.c
 * connections and who drives them · table.c push, pull and clock · show.c facts.
 */
#ifndef GY_PS_PS_PRIV_H
#define GY_PS_PS_PRIV_H

#include "ps/map/map.h"
#include "ps/part/part.h"
#include "ps/proto/ps.pb-c.h"
#include "rpc/rpc.h"

/** The bin of a pull by a worker at `clock`. */
static inline int gy_ps_staleness_bin(uint64_t clock, uint64_t clock_min)
{
    uint64_t behind = clock > clock_min ? clock - clock_min : 0;
    return (int)GY_MIN(behind, (uint64_t)GY_PS_STALENESS_BINS - 1);
}

/* ---- messages.c ---- */

typedef enum ps_type {
    PS_OPEN = GY_RPC_TYPE_FIRST,
    PS_PUSH, /* with keys and values beside it */
    PS_PULL, /* with keys beside it, and values beside its answer; only reads */
    PS_CLOCK,
    PS_LEAVE,
    PS_SAVE, /* only reads, for all that the part's replicas know */
    PS_SHOW,
    PS_TYPES,
} ps_type;

enum {
    PS_METHODS = PS_TYPES - GY_RPC_TYPE_FIRST,
    PS_ALL_METHODS = PS_METHODS + GY_PS_LED_METHODS,
    PS_MESSAGE_BYTES = 4096,
    PS_SHOWN_BYTES = 4 << 20,
    PS_SAVE_BYTES = 2 << 20,
    PS_NUMBERS = 10,
};

/** Stages of a snapshot; each is asked of all parts' heads before the next. */
typedef enum ps_save_stage {
    PS_SAVE_LOOK,   /* where are the part's tables? */
    PS_SAVE_CUT,    /* copy each table once it is at its clock */
    PS_SAVE_WRITE,  /* write the copy to a file */
    PS_SAVE_FINISH, /* write the manifest: the snapshot is whole */
    PS_SAVE_DROP,   /* it failed: forget it */
    PS_SAVE_STAGES
} ps_save_stage;
typedef enum ps_save_state {
    PS_SAVE_WAITS, /* ask again */
    PS_SAVE_DONE,
    PS_SAVE_PAST, /* a table is past its clock, or there are other tables: begin anew */
} ps_save_state;

/** The methods as a client has them, which serves none. */
void gy_ps_methods(gy_rpc_method methods[PS_METHODS]);
/** A table as a message; `numbers` (PS_NUMBERS) is memory for it, all borrowed. */
void gy_ps_table_tell(const char *name, const gy_ps_table_options *table, double *numbers,
                      Gy__Ps__Table *message);
/** And back; texts are borrowed of the message. GY_FORMAT */
GY_MUST_CHECK gy_status gy_ps_table_hear(const Gy__Ps__Table *message,
                                         gy_ps_table_options *table);
/** Do both say the same? */
bool gy_ps_table_is_same(const gy_ps_table_options *a, const gy_ps_table_options *b);

#endif
