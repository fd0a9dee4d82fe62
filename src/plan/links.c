/* Link costs, a rank's sends under way, and its posts: for the readers of plans that compute
 * times. */
#include "plan/plan_priv.h"

#include "base/base.h"

#include <string.h>

double gy_plan_links_alpha(const gy_links *links, const gy_topology *topology, int from, int to)
{
    int host = gy_host_of(topology, from), other = gy_host_of(topology, to);
    if (host == other) {
        return links->alpha;
    }
    if (links->alpha_between != NULL) {
        return links->alpha_between[host * topology->hosts + other];
    }
    return links->alpha_across > 0 ? links->alpha_across : links->alpha;
}

double gy_plan_links_beta(const gy_links *links, const gy_topology *topology, int from, int to)
{
    return topology == NULL ? links->beta : links->beta * gy_topology_cost(topology, from, to);
}

gy_status gy_open_sends_add(gy_open_sends *open, uint32_t index, double end, double now)
{
    while (open->count > 0 && open->items[open->first].end <= now) {
        open->first = (open->first + 1) & (open->capacity - 1);
        open->count--;
    }
    if (open->count == open->capacity) {
        size_t capacity = GY_MAX(2 * open->capacity, (size_t)4);
        struct gy_open_send *items = gy_alloc("plan.sends", capacity * sizeof(*items));
        if (items == NULL) {
            return GY_NOMEM;
        }
        for (size_t i = 0; i < open->count; i++) {
            items[i] = open->items[(open->first + i) & (open->capacity - 1)];
        }
        gy_free(open->items);
        open->items = items;
        open->first = 0;
        open->capacity = capacity;
    }
    open->items[(open->first + open->count++) & (open->capacity - 1)] =
        (struct gy_open_send){.index = index, .end = end};
    return GY_OK;
}

double gy_open_sends_end(const gy_open_sends *open, uint32_t after)
{
    size_t low = 0, high = after == 0 ? 0 : open->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct gy_open_send *send =
            &open->items[(open->first + middle) & (open->capacity - 1)];
        if (send->index == after - 1) {
            return send->end;
        }
        if (send->index < after - 1) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return 0;
}

gy_status gy_arrivals_add(gy_arrivals *arrivals, double head, double busy,
                          gy_plan_message *message)
{
    if (arrivals->first > arrivals->count) {
        memmove(arrivals->items, &arrivals->items[arrivals->first],
                arrivals->count * sizeof(*arrivals->items));
        arrivals->first = 0;
    }
    GY_TRY(GY_GROW("plan.arrivals", arrivals->items, arrivals->capacity,
                   arrivals->first + arrivals->count + 1));
    struct gy_arrival *all = &arrivals->items[arrivals->first];
    size_t at = arrivals->count++;
    for (; at > 0 && all[at - 1].head > head; at--) {
        all[at] = all[at - 1];
    }
    message->at = head;
    message->number = arrivals->numbers++;
    all[at] = (struct gy_arrival){.head = head, .busy = busy, .number = message->number};
    arrivals->known = GY_MIN(arrivals->known, at);
    return GY_OK;
}

/* The index of the message in the list. */
static size_t find_arrival(const gy_arrivals *arrivals, const gy_plan_message *message)
{
    const struct gy_arrival *all = &arrivals->items[arrivals->first];
    size_t low = 0, high = arrivals->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        bool is_before = all[middle].head < message->at ||
                         (all[middle].head == message->at &&
                          all[middle].number < message->number); /* in the order of addition */
        if (is_before) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    GY_ASSERT(low < arrivals->count && all[low].number == message->number);
    return low;
}

/* The message with its end. */
static struct gy_arrival *end_of(gy_arrivals *arrivals, const gy_plan_message *message)
{
    struct gy_arrival *all = &arrivals->items[arrivals->first];
    size_t at = find_arrival(arrivals, message);
    for (; arrivals->known <= at; arrivals->known++) {
        struct gy_arrival *here = &all[arrivals->known];
        double before = arrivals->known > 0 ? all[arrivals->known - 1].end : arrivals->before;
        here->end = GY_MAX(here->head, before) + here->busy;
    }
    return &all[at];
}

double gy_arrivals_end(gy_arrivals *arrivals, const gy_plan_message *message)
{
    return end_of(arrivals, message)->end;
}

double gy_arrivals_take(gy_arrivals *arrivals, const gy_plan_message *message)
{
    struct gy_arrival *taken = end_of(arrivals, message);
    double end = taken->end;
    taken->is_taken = true;
    while (arrivals->known > 0 && arrivals->items[arrivals->first].is_taken) {
        arrivals->before = arrivals->items[arrivals->first].end;
        arrivals->first++;
        arrivals->count--;
        arrivals->known--;
    }
    return end;
}

gy_status gy_posts_add(gy_posts *posts, uint32_t mark, double at, const gy_depth *depth)
{
    GY_TRY(GY_GROW("plan.posts", posts->items, posts->capacity, posts->count + 1));
    posts->items[posts->count++] = (struct gy_post){.mark = mark, .at = at, .depth = *depth};
    return GY_OK;
}

const struct gy_post *gy_posts_find(const gy_posts *posts, uint32_t mark)
{
    size_t low = 0, high = posts->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (posts->items[middle].mark < mark) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < posts->count ? &posts->items[low] : NULL;
}
