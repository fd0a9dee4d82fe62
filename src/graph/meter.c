/* Where the time of runs goes: with a computation running it is compute; else, while another
 * stage has something to send, a bubble, but for the end of it that the transfer takes by the
 * model of costs; else with an exchange under way exposed communication, else neither; and what
 * each kind of exchange had of it. */
#include "graph/session.h"

#include "coll/coll.h"

static const struct {
    const gy_op *op;
    gy_operation operation;
} kinds[] = {{&gy_ops_row_allreduce, GY_OPERATION_ALLREDUCE},
             {&gy_ops_row_reduce_scatter, GY_OPERATION_REDUCE_SCATTER},
             {&gy_ops_row_allgather, GY_OPERATION_ALLGATHER},
             {&gy_ops_row_alltoall, GY_OPERATION_ALLTOALL}};
enum { KINDS = GY_COUNT(kinds) };
enum { MESSAGES = KINDS * GY_MESH_MAX, BARRIERS };
enum { BUBBLE_SHOWN_NS = 5000 }; /* in traces: less is the step from one task to the next */
_Static_assert(BARRIERS + 1 == GY_EXCHANGE_KINDS_MAX, "and what is of no axis that cuts");

void gy_meter_init(gy_meter *meter)
{
    *meter = (gy_meter){.since_ns = 0};
    gy_mutex_init(&meter->lock, 5);
}

void gy_meter_fini(gy_meter *meter)
{
    gy_mutex_fini(&meter->lock);
}

/* Of several exchanges under way at once each has an equal share of the time. */
static void share_out(gy_meter *meter, double each_ns) GY_REQUIRES(meter->lock)
{
    GY_ASSERT(each_ns >= 0);
    *(meter->computing > 0 ? &meter->hidden_each_ns : &meter->exposed_each_ns) += each_ns;
    for (size_t i = 0; i < GY_COUNT(meter->rows); i++) {
        gy_meter_row *row = &meter->rows[i];
        *(meter->computing > 0 ? &row->hidden_ns : &row->exposed_ns) +=
            each_ns * row->under_way;
    }
}

static void account(gy_meter *meter) GY_REQUIRES(meter->lock)
{
    GY_ASSERT(meter->computing >= 0 && meter->exchanging >= 0);
    int64_t now = gy_now_ns(gy_env_real());
    const bool waits = meter->computing == 0 && meter->awaited > 0;
    int64_t *where = meter->computing > 0    ? &meter->compute_ns
                     : waits                 ? &meter->bubble_ns
                     : meter->exchanging > 0 ? &meter->exposed_ns
                                             : &meter->other_ns;
    int64_t passed = meter->is_on ? now - meter->since_ns : 0;
    if (waits && passed > 0) {
        meter->pause_begin_ns = meter->pause_ns == 0 ? meter->since_ns : meter->pause_begin_ns;
        meter->pause_ns += passed;
    }
    GY_ASSERT(now >= meter->since_ns || !meter->is_on);
    *where += passed;
    meter->hidden_ns += meter->computing > 0 && meter->exchanging > 0 ? passed : 0;
    if (meter->exchanging > 0 && passed > 0) {
        share_out(meter, (double)passed / meter->exchanging);
    }
    meter->since_ns = now;
}

static void end_pause(gy_meter *meter) GY_REQUIRES(meter->lock)
{
    GY_ASSERT(meter->pause_ns >= 0);
    if (meter->pause_ns >= BUBBLE_SHOWN_NS && gy_trace_on()) {
        gy_trace_span("bubble", meter->pause_begin_ns, meter->since_ns, 0);
    }
    meter->pause_ns = 0;
}

void gy_meter_await(gy_meter *meter, int change, int64_t transfer_ns)
{
    GY_ASSERT(transfer_ns >= 0 && (change == 1 || change == -1));
    gy_mutex_lock(&meter->lock);
    account(meter);
    if (change < 0) {
        const int64_t moved_ns = GY_MIN(transfer_ns, meter->pause_ns);
        meter->bubble_ns -= moved_ns;
        meter->exposed_ns += moved_ns;
        meter->pause_ns -= moved_ns;
    }
    meter->awaited += change;
    GY_ASSERT(meter->awaited >= 0);
    gy_mutex_unlock(&meter->lock);
}

void gy_meter_change(gy_meter *meter, int computing)
{
    gy_mutex_lock(&meter->lock);
    account(meter);
    end_pause(meter);
    meter->computing += computing;
    GY_ASSERT(meter->computing >= 0 && meter->exchanging >= 0);
    gy_mutex_unlock(&meter->lock);
}

/* The share of one exchange is what an exchange under way had between its begin and its end. */
static void follow(const gy_meter *meter, gy_meter_span *span, int change, uint64_t sent_bytes)
    GY_REQUIRES(meter->lock)
{
    GY_ASSERT(change == 1 || change == -1);
    span->hidden_ns -= change * meter->hidden_each_ns;
    span->exposed_ns -= change * meter->exposed_each_ns;
    span->count += change < 0;
    span->sent_bytes += sent_bytes;
}

void gy_meter_exchange(gy_meter *meter, int row, gy_meter_span *span, int change,
                       uint64_t sent_bytes)
{
    GY_ASSERT(row >= 0 && row < (int)GY_COUNT(meter->rows));
    GY_ASSERT(change == 1 || change == -1);
    gy_mutex_lock(&meter->lock);
    GY_ASSERT(change > 0 || meter->rows[row].under_way > 0);
    account(meter);
    meter->exchanging += change;
    meter->rows[row].under_way += change;
    meter->rows[row].count += change < 0;
    meter->rows[row].sent_bytes += sent_bytes;
    if (span != NULL) {
        follow(meter, span, change, sent_bytes);
    }
    GY_ASSERT(meter->computing >= 0 && meter->exchanging >= 0);
    gy_mutex_unlock(&meter->lock);
}

gy_graph_spent gy_meter_spent(gy_meter *meter, const gy_meter_span *span)
{
    gy_mutex_lock(&meter->lock);
    GY_ASSERT(span->count > 0 || span->sent_bytes == 0);
    const gy_graph_spent spent = {.count = span->count,
                                  .sent_bytes = span->sent_bytes,
                                  .hidden_s = span->hidden_ns * 1e-9,
                                  .exposed_s = span->exposed_ns * 1e-9};
    gy_mutex_unlock(&meter->lock);
    return spent;
}

void gy_meter_run(gy_meter *meter, bool begins)
{
    gy_mutex_lock(&meter->lock);
    account(meter);
    end_pause(meter);
    GY_ASSERT(meter->is_on != begins);
    meter->is_on = begins;
    gy_mutex_unlock(&meter->lock);
}

int gy_meter_kind(const gy_op *op, int axis)
{
    GY_ASSERT(axis >= 0 && axis < GY_MESH_MAX);
    for (int i = 0; i < KINDS; i++) {
        if (kinds[i].op == op) {
            return axis * KINDS + i;
        }
    }
    return op == &gy_ops_row_send || op == &gy_ops_row_receive ? MESSAGES : -1;
}

/* A row as it is reported. */
static gy_exchange_stats reported(const gy_meter_row *row, const char *axis,
                                  gy_operation operation)
{
    GY_ASSERT(axis != NULL);
    return (gy_exchange_stats){.axis = axis,
                               .operation = operation,
                               .count = row->count,
                               .sent_bytes = row->sent_bytes,
                               .hidden_s = row->hidden_ns * 1e-9,
                               .exposed_s = row->exposed_ns * 1e-9};
}

int gy_session_exchanges(const gy_session *session,
                         gy_exchange_stats rows[GY_EXCHANGE_KINDS_MAX])
{
    const gy_meter *meter = &session->meter;
    int count = 0;
    for (int axis = 0; axis < session->mesh.axes; axis++) {
        for (int i = 0; i < KINDS; i++) {
            rows[count++] =
                reported(&meter->rows[axis * KINDS + i],
                         gy_mesh_axis_name(&session->mesh, axis), kinds[i].operation);
        }
    }
    if (session->mesh.stages > 0) {
        rows[count++] = reported(&meter->rows[MESSAGES], "pipe", GY_OPERATION_COUNT);
    }
    rows[count++] = reported(&meter->rows[BARRIERS], "mesh", GY_OPERATION_BARRIER);
    GY_ASSERT(count <= GY_EXCHANGE_KINDS_MAX);
    return count;
}
