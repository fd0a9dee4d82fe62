/* Prints plans as text, for people and for error messages. */
#include "plan/plan_priv.h"

#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>

static void print_blocks(gy_text *out, const gy_blocks *blocks, int rank)
{
    static const char *const names[] = {
        [GY_BUFFER_IN] = "in",       [GY_BUFFER_OUT] = "out",
        [GY_BUFFER_STAGE] = "stage", [GY_BUFFER_SCRATCH] = "scratch",
        [GY_BUFFER_WORK] = "work",   [GY_BUFFER_WIRE] = "what came",
    };
    _Static_assert(GY_COUNT(names) == GY_BUFFER_COUNT, "a name for each buffer");
    bool is_known = (unsigned)blocks->buffer < GY_COUNT(names);
    gy_text_add(out, "%s", is_known ? names[blocks->buffer] : "?");
    if (blocks->buffer == GY_BUFFER_WIRE) {
        return;
    }
    if (blocks->rank == GY_EVERY) {
        gy_text_add(out, " of all");
    } else if (blocks->rank != rank) {
        gy_text_add(out, " of rank %d", blocks->rank);
    }
    if (blocks->buffer == GY_BUFFER_STAGE || blocks->buffer == GY_BUFFER_SCRATCH) {
        gy_text_add(out, " slot %d", blocks->slot);
    }
    if (blocks->first == GY_WHOLE) {
        gy_text_add(out, blocks->run > 1 ? "-%d as they are" : " as it is",
                    blocks->slot + blocks->run - 1);
    } else if (blocks->run == 1) {
        gy_text_add(out, " block %d", blocks->first);
    } else if (blocks->run > 1) {
        gy_text_add(out, " blocks %d-%d", blocks->first, blocks->first + blocks->run - 1);
    } else {
        gy_text_add(out, " nothing");
    }
}

static void print_pair(gy_text *out, const gy_step *step, int rank)
{
    print_blocks(out, &step->a, rank);
    gy_text_add(out, " + ");
    print_blocks(out, &step->b, rank);
    gy_text_add(out, " -> ");
    print_blocks(out, &step->to, rank);
}

void gy_step_print(gy_text *out, const gy_step *step, int rank)
{
    switch (step->kind) {
    case GY_STEP_SEND:
        gy_text_add(out, "send ");
        print_blocks(out, &step->a, rank);
        gy_text_add(out, " to rank %d", step->peer);
        break;
    case GY_STEP_RECV:
        gy_text_add(out, "receive ");
        print_blocks(out, &step->to, rank);
        gy_text_add(out, " from rank %d", step->peer);
        break;
    case GY_STEP_RECV_REDUCE:
        gy_text_add(out, "receive from rank %d and reduce ", step->peer);
        print_pair(out, step, rank);
        break;
    case GY_STEP_COPY:
        gy_text_add(out, "copy ");
        print_blocks(out, &step->a, rank);
        gy_text_add(out, " -> ");
        print_blocks(out, &step->to, rank);
        break;
    case GY_STEP_REDUCE:
        gy_text_add(out, "reduce ");
        print_pair(out, step, rank);
        break;
    case GY_STEP_POST:
        gy_text_add(out, "post mark %u", step->mark);
        break;
    case GY_STEP_WAIT:
        if (step->peer == GY_EVERY) {
            gy_text_add(out, "wait for mark %u of all", step->mark);
        } else {
            gy_text_add(out, "wait for mark %u of rank %d", step->mark, step->peer);
        }
        break;
    case GY_STEP_CLAIM:
        gy_text_add(out, "if claim %u is still to be had:", step->mark);
        break;
    case GY_STEP_CLAIMED:
        gy_text_add(out, "wait for claims 1 to %u", step->mark);
        break;
    case GY_STEP_COUNT:
    default:
        gy_text_add(out, "step of unknown kind %d", (int)step->kind);
    }
    for (int i = 0; i < 2; i++) {
        if (step->after[i] != 0) {
            gy_text_add(out, ", after step %u", step->after[i] - 1);
        }
    }
}

void gy_plan_draw(gy_text *out, const gy_plan *plan)
{
    gy_text_add(out, "%s by %s, %d ranks, %d chunks\n",
                gy_operation_name(plan->request.operation), plan->algorithm->name,
                plan->request.ranks, gy_request_chunks(&plan->request));
    for (int rank = 0; rank < plan->request.ranks; rank++) {
        gy_text_add(out, "rank %d\n", rank);
        for (size_t i = 0; i < plan->ranks[rank].count; i++) {
            gy_text_add(out, "  %zu ", i);
            gy_step_print(out, &plan->ranks[rank].items[i], rank);
            gy_text_add(out, "\n");
        }
    }
}

gy_status gy_plan_wrong(const gy_plan *plan, int rank, uint32_t index, const char *format, ...)
{
    char cause[512];
    va_list args;
    va_start(args, format);
    vsnprintf(cause, sizeof(cause), format, args);
    va_end(args);
    gy_text step = {.data = NULL};
    const gy_steps *steps = &plan->ranks[rank];
    if (index >= steps->sink.first && index - steps->sink.first < steps->count) {
        gy_step_print(&step, &steps->items[index - steps->sink.first], rank);
    } else {
        gy_text_add(&step, "no longer in its window");
    }
    gy_status status =
        gy_fail(GY_STATE, "rank %d step %u (%s): %s", rank, index, gy_text_get(&step), cause);
    gy_text_free(&step);
    return status;
}
