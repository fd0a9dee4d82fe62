/* Runs one task, from its order to its answer. */
#include "base/base.h"
#include "flow/channel/vertex.h"

#include <assert.h>
#include <string.h>

/* Write the failure's reason with its vertex in front: "count[3]: cannot …". */
static void tell_failure(const gy_vertex *vertex, gy_worker_answer *answer)
{
    answer->cause = vertex->cause;
    answer->input = vertex->input;
    answer->content = (gy_key){0, 0};
    gy_text_free(&answer->report);
    gy_text_add(&answer->reason, "%s: %s", vertex->order->name,
                vertex->error.text[0] != '\0' ? vertex->error.text
                                              : gy_status_text(vertex->status));
}

static gy_status join(gy_vertex *vertex)
{
    const gy_flow_task *order = vertex->order;
    if (order->width <= 1 || order->hosts > 0) {
        return GY_OK; /* ranks on several hosts find each other without a cohort */
    }
    gy_cohort_options options = {
        .path = order->cohort,
        .folder = order->folder,
        .width = order->width,
        .member = order->member,
        .channels = order->channels,
        .channel_count = order->channel_count,
        .ring_bytes = order->ring_bytes,
        .token = {order->token[0], order->token[1]},
        .is_cancelled = vertex->is_cancelled,
        .deadline = order->deadline,
        .is_waiting = &vertex->task.is_waiting,
    };
    gy_status status = gy_cohort_join(vertex->env, &options, &vertex->cohort);
    if (status < 0) {
        bool is_own = status == GY_NOMEM || status == GY_IO;
        return gy_vertex_fail(vertex, status, is_own ? GY_CAUSE_OWN : GY_CAUSE_PEER);
    }
    return GY_OK;
}

/* The cause of a function's own failure: wrong data and a user's error stay wrong in every
 * attempt. */
static gy_cause cause_of(gy_status status)
{
    bool is_for_good = status == GY_FORMAT || status == GY_ARG || status == GY_TYPE ||
                       status == GY_SHAPE || status == GY_LIMIT || status == GY_UNSUPPORTED;
    return is_for_good ? GY_CAUSE_FATAL : GY_CAUSE_OWN;
}

/* Call the function, then finish the outputs. */
static gy_status work(gy_vertex *vertex, gy_section_sum *sums, bool *is_inline)
{
    GY_TRY(gy_vertex_check(vertex));
    GY_TRY(join(vertex));
    gy_status status =
        vertex->order->run != NULL ? vertex->order->run(vertex) : gy_flow_command_run(vertex);
    gy_vertex_at_none(vertex);
    if (vertex->cause != GY_CAUSE_CANCELLED && vertex->cause != GY_CAUSE_PEER) {
        GY_TRY(gy_flow_inputs_check(vertex));
    }
    if (status < 0 && vertex->cause == GY_CAUSE_NONE) {
        GY_TRY(gy_vertex_check(vertex)); /* the function noticed the cancellation itself */
        return gy_vertex_fail(vertex, status, cause_of(status));
    }
    if (vertex->cause != GY_CAUSE_NONE) {
        return vertex->status;
    }
    return gy_flow_outputs_finish(vertex, sums, is_inline);
}

static gy_status begin(gy_vertex *vertex, gy_fault *fault)
{
    const gy_flow_task *order = vertex->order;
    vertex->task = (gy_fault_task){
        .fault = fault,
        .board = vertex->board,
        .id = order->id,
        .member = order->member,
        .timeout_ns = order->record_timeout_ns,
    };
    vertex->inputs = gy_alloc_zero("flow.ports", order->input_count, sizeof(gy_in_port));
    gy_status status = vertex->inputs != NULL ? gy_flow_outputs_open(vertex) : GY_NOMEM;
    if (status == GY_OK && fault != NULL) {
        status = gy_fault_enter(&vertex->task);
    }
    return status < 0 ? gy_vertex_fail(vertex, status, GY_CAUSE_OWN) : GY_OK;
}

static void run_vertex(gy_vertex *vertex, gy_fault *fault, gy_worker_answer *answer)
{
    uint32_t count = vertex->order->output_count;
    gy_section_sum few[8] = {{0, 0}};
    gy_section_sum *sums =
        count <= GY_COUNT(few) ? few : gy_alloc_zero("flow.sums", count, sizeof(*sums));
    bool is_inline = false;
    gy_status status = GY_OK;
    if (sums == NULL) {
        status = gy_vertex_fail(vertex, GY_NOMEM, GY_CAUSE_OWN);
    } else {
        status = begin(vertex, fault);
    }
    if (status == GY_OK) {
        status = work(vertex, sums, &is_inline);
    }
    gy_flow_inputs_close(vertex);
    gy_fault_leave(&vertex->task);
    if (status == GY_OK && vertex->scratch != NULL) {
        status = gy_flow_folder_remove(vertex->scratch);
        if (status < 0) {
            (void)gy_vertex_fail(vertex, status, GY_CAUSE_OWN);
        }
    } else if (vertex->scratch != NULL && gy_flow_folder_remove(vertex->scratch) < 0) {
        /* report the first failure; this second one is only logged */
        gy_warn("%s", gy_error_text());
    }
    if (status == GY_OK) {
        gy_report_write(vertex, sums, is_inline, answer);
        if (answer->report.status < 0) {
            status = gy_vertex_fail(vertex, answer->report.status, GY_CAUSE_OWN);
        }
    }
    gy_cohort_leave(vertex->cohort, status == GY_OK);
    gy_flow_outputs_close(vertex);
    if (status < 0) {
        tell_failure(vertex, answer);
    }
    if (sums != few) {
        gy_free(sums);
    }
}

void gy_vertex_execute(gy_env *env, const gy_flow_task *order, gy_fault *fault, void *board,
                       const _Atomic bool *is_cancelled, gy_worker_answer *answer)
{
    static_assert(sizeof(gy_fault_board) <= GY_BOARD_BYTES, "the board fits");
    GY_ASSERT(answer->cause == GY_CAUSE_NONE && order->output_count <= (1 << 20));
    gy_vertex vertex = {
        .env = env,
        .order = order,
        .is_cancelled = is_cancelled,
    };
    vertex.board = board != NULL ? board : &vertex.own_board;
    int64_t start_ns = gy_now_ns(env);
    if (order->keep != NULL) {
        gy_keep_drop(order->keep, order->stage);
    }
    run_vertex(&vertex, fault, answer);
    gy_trace_span(order->stage, start_ns, gy_trace_on() ? gy_now_ns(env) : start_ns,
                  (int64_t)order->index);
    for (int i = 0; i < vertex.tally_count; i++) {
        gy_free(vertex.tallies[i].name);
    }
    gy_text_free(&vertex.sample);
    gy_free(vertex.scratch);
}
