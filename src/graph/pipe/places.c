/* Which micro-batch has which slot: as many as are alive at a time, each the one that is free
 * for longest, so that what it did last has ended most likely. A pure function of the list. */
#include "graph/pipe/pipe.h"

/* Free slots, first in, first out. */
typedef struct queue {
    int *slots;
    size_t begin, end;
} queue;

/* `turns` (slots) counts those that had each. */
static void walk(const gy_pipe_list *list, gy_pipe_places *places, queue *free_slots,
                 int32_t *turns)
{
    for (size_t i = 0; i < list->count; i++) {
        const gy_pipe_action *action = &list->actions[i];
        if (!gy_pipe_computes(action->kind) || places->last[action->micro] == 0) {
            continue;
        }
        int32_t *slot = &places->slot[action->micro];
        GY_ASSERT(*slot < places->slots);
        if (*slot < 0) {
            *slot = free_slots->begin < free_slots->end ? free_slots->slots[free_slots->begin++]
                                                        : places->slots++;
            places->turn[action->micro] = turns[*slot]++ % GY_PIPE_TURNS;
        }
        if (places->last[action->micro] == i + 1) {
            free_slots->slots[free_slots->end++] = *slot;
        }
    }
    GY_ASSERT(free_slots->begin <= free_slots->end);
}

bool gy_pipe_has_weight(const gy_pipe_list *list)
{
    bool has = false;
    GY_ASSERT(list->count == 0 || list->actions != NULL);
    for (size_t i = 0; i < list->count && !has; i++) {
        has = list->actions[i].kind == GY_PIPE_BACKWARD_WEIGHT ||
              list->actions[i].kind == GY_PIPE_BACKWARD_INPUT;
    }
    return has;
}

gy_status gy_pipe_place(const gy_pipe_list *list, const gy_micro_batch *micros, int count,
                        gy_pipe_places *places)
{
    static const char what[] = "graph.places";
    const size_t n = (size_t)count;
    GY_ASSERT(count >= 1 && list != NULL);
    GY_ASSERT(micros != NULL && places != NULL);
    *places = (gy_pipe_places){
        .slot = gy_alloc(what, n * sizeof(*places->slot)),
        .turn = gy_alloc_zero(what, n, sizeof(*places->turn)),
        .last = gy_alloc_zero(what, n, sizeof(*places->last)),
    };
    queue free_slots = {.slots = gy_alloc(what, n * sizeof(int))};
    int32_t *turns = gy_alloc_zero(what, n, sizeof(*turns));
    const bool is_there = places->slot != NULL && places->turn != NULL &&
                          places->last != NULL && free_slots.slots != NULL && turns != NULL;
    for (size_t k = 0; k < n && is_there; k++) {
        places->slot[k] = -1;
    }
    for (size_t i = 0; i < list->count && is_there; i++) {
        const gy_pipe_action *action = &list->actions[i];
        if (gy_pipe_computes(action->kind) && micros[action->micro].rows > 0) {
            places->last[action->micro] = i + 1;
        }
    }
    if (is_there) {
        walk(list, places, &free_slots, turns);
    }
    gy_free(free_slots.slots);
    gy_free(turns);
    return is_there ? GY_OK : GY_NOMEM;
}

void gy_pipe_places_free(gy_pipe_places *places)
{
    gy_free(places->slot);
    gy_free(places->turn);
    gy_free(places->last);
    *places = (gy_pipe_places){.slots = 0};
}
