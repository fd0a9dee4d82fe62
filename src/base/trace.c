#include "base/trace.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/text.h"
#include "base/thread.h"

#include <string.h>

typedef struct event {
    const char *name;
    int64_t start_ns, end_ns, value;
} event;

typedef struct ring {
    struct ring *next;
    int thread;
    size_t count; /* events ever recorded */
    size_t taken; /* of them */
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

/* ---- rows for another process ---- */

typedef struct row {
    int64_t start_ns, end_ns, value;
    int32_t thread;
    uint32_t name_bytes; /* which follow */
} row;

enum { NAME_BYTES_MAX = 256 };

void gy_trace_take(gy_text *out)
{
    ring *from = gy_trace_on() ? own : NULL;
    if (from == NULL) {
        return;
    }
    const size_t first =
        from->count - from->taken > ring_size ? from->count - ring_size : from->taken;
    for (size_t i = first; i < from->count; i++) {
        const event *e = &from->events[i % ring_size];
        const row made = {.start_ns = e->start_ns,
                          .end_ns = e->end_ns,
                          .value = e->value,
                          .thread = from->thread,
                          .name_bytes = (uint32_t)strnlen(e->name, NAME_BYTES_MAX)};
        gy_text_add_bytes(out, &made, sizeof(made));
        gy_text_add_bytes(out, e->name, made.name_bytes);
    }
    from->taken = from->count;
}

/* A name within the quotes of JSON. */
static void add_name(gy_text *out, const char *name, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++) {
        const bool is_plain =
            name[i] >= ' ' && name[i] <= '~' && name[i] != '"' && name[i] != '\\';
        gy_text_add(out, "%c", is_plain ? name[i] : '?');
    }
}

gy_status gy_trace_show(gy_text *out, const void *rows, size_t size_bytes, int64_t process,
                        int64_t shift_ns)
{
    const char *at = rows;
    while (size_bytes > 0) {
        row one;
        if (size_bytes < sizeof(one)) {
            return gy_fail(GY_FORMAT, "the rows of a trace end within one");
        }
        memcpy(&one, at, sizeof(one));
        at += sizeof(one);
        size_bytes -= sizeof(one);
        if (one.name_bytes > NAME_BYTES_MAX || one.name_bytes > size_bytes) {
            return gy_fail(GY_FORMAT, "a row of a trace has a name of %u bytes, %zu are left",
                           one.name_bytes, size_bytes);
        }
        gy_text_add(out, ",\n{\"name\":\"");
        add_name(out, at, one.name_bytes);
        gy_text_add(out,
                    "\",\"ph\":\"X\",\"pid\":%lld,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,"
                    "\"args\":{\"value\":%lld}}",
                    (long long)process, one.thread,
                    ((double)one.start_ns + (double)shift_ns) / 1e3,
                    ((double)one.end_ns - (double)one.start_ns) / 1e3, (long long)one.value);
        at += one.name_bytes;
        size_bytes -= one.name_bytes;
    }
    return out->status;
}
