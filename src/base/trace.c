#include "base/trace.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/text.h"
#include "base/thread.h"

typedef struct event {
    const char *name;
    int64_t start_ns, end_ns, value;
} event;

typedef struct ring {
    struct ring *next;
    int thread;
    size_t count; /* events ever recorded */
    event events[];
} ring;

_Atomic bool gy_trace_is_on;
static pthread_mutex_t rings_lock = PTHREAD_MUTEX_INITIALIZER;
static ring *rings GY_GUARDED(rings_lock);
static int thread_count GY_GUARDED(rings_lock);
static size_t ring_size;
static _Thread_local ring *own;

void gy_trace_start(size_t events_per_thread)
{
    GY_ASSERT(events_per_thread > 0);
    GY_ASSERT(ring_size == 0 || ring_size == events_per_thread); /* rings have it already */
    ring_size = events_per_thread;
    atomic_store_explicit(&gy_trace_is_on, true, memory_order_release);
}

static ring *own_ring(void)
{
    if (own == NULL) {
        own = gy_alloc_zero("base.trace", 1, sizeof(ring) + ring_size * sizeof(event));
        if (own != NULL) {
            pthread_mutex_lock(&rings_lock);
            own->thread = thread_count++;
            own->next = rings;
            rings = own;
            pthread_mutex_unlock(&rings_lock);
        }
    }
    return own;
}

void gy_trace_span(const char *name, int64_t start_ns, int64_t end_ns, int64_t value)
{
    if (!gy_trace_on()) {
        return;
    }
    ring *to = own_ring();
    if (to != NULL) {
        to->events[to->count++ % ring_size] =
            (event){.name = name, .start_ns = start_ns, .end_ns = end_ns, .value = value};
    }
}

void gy_trace_write(gy_text *out, int process, const char *process_name)
{
    gy_text_add(
        out, "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"%s\"}}",
        process, process_name);
    pthread_mutex_lock(&rings_lock);
    for (const ring *from = rings; from != NULL; from = from->next) {
        size_t first = from->count > ring_size ? from->count - ring_size : 0;
        for (size_t i = first; i < from->count; i++) {
            const event *e = &from->events[i % ring_size];
            gy_text_add(out,
                        ",\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,"
                        "\"dur\":%.3f,\"args\":{\"value\":%lld}}",
                        e->name, process, from->thread, (double)e->start_ns / 1e3,
                        (double)(e->end_ns - e->start_ns) / 1e3, (long long)e->value);
        }
    }
    pthread_mutex_unlock(&rings_lock);
}
