/* The stand-in's streams: work waits in rings and runs in any order that events allow; clocks
 * say which uses of memory nothing orders. */
#include "standin/standin_priv.h"

gy_cuda_stream standin_streams[STANDIN_STREAMS_MAX];
static standin_clock host;
static uint64_t seed, state;
static unsigned held; /* a bit a stream */

void standin_order_hold(unsigned streams)
{
    held = streams;
}

void standin_order_reset(uint64_t new_seed)
{
    seed = state = new_seed;
}

uint64_t standin_order_seed(void)
{
    return seed;
}

/* @source Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014 */
uint64_t standin_random(uint64_t bound)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % bound;
}

static void join(standin_clock *into, const standin_clock *from)
{
    for (int i = 0; i <= STANDIN_STREAMS_MAX; i++) {
        into->at[i] = GY_MAX(into->at[i], from->at[i]);
    }
}

void standin_host_saw(const standin_clock *clock)
{
    join(&host, clock);
    host.at[STANDIN_HOST]++;
}

/* ---- running ---- */

static void launch(standin_work *work)
{
    void *parameters[1] = {work->arguments};
    if (work->function->run(work->grid, work->block, work->shared_bytes, parameters) != 0) {
        standin_complain("launch of %s: threads of a block met at no barrier together",
                         work->function->name);
    }
}

static void run(standin_work *work)
{
    for (int i = 0; i < work->block_count; i++) {
        standin_block_open(work->blocks[i], true);
    }
    switch (work->kind) {
    case STANDIN_COPY_IN:
    case STANDIN_COPY_OUT:
    case STANDIN_COPY_WITHIN:
        memmove(work->to, work->from, work->size_bytes);
        break;
    case STANDIN_SET:
        memset(work->to, work->value, work->size_bytes);
        break;
    case STANDIN_RECORD:
        work->event->done = GY_MAX(work->event->done, work->generation);
        break;
    case STANDIN_LAUNCH:
        launch(work);
        break;
    case STANDIN_CALL:
        work->call(work->arguments);
        break;
    case STANDIN_WAIT:
    case STANDIN_FREE:
        break;
    }
    for (int i = 0; i < work->block_count; i++) {
        standin_block_open(work->blocks[i], false);
    }
    if (work->kind == STANDIN_FREE) {
        standin_block_end(work->blocks[0]);
    }
}

static standin_work *ready_work(gy_cuda_stream *stream)
{
    standin_work *work = &stream->work[stream->begun % STANDIN_WORK_MAX];
    if (!stream->is_alive || stream->begun == stream->pushed ||
        (work->kind == STANDIN_WAIT && work->behind != NULL &&
         work->behind->begun <= work->place)) {
        return NULL;
    }
    return work;
}

int standin_run(int count)
{
    int ran = 0;
    for (; ran < count; ran++) {
        gy_cuda_stream *ready[STANDIN_STREAMS_MAX];
        uint64_t ready_count = 0;
        for (int i = 0; i < STANDIN_STREAMS_MAX; i++) {
            if ((held >> i & 1) == 0 && ready_work(&standin_streams[i]) != NULL) {
                ready[ready_count++] = &standin_streams[i];
            }
        }
        if (ready_count == 0) {
            break;
        }
        gy_cuda_stream *chosen = ready[standin_random(ready_count)];
        run(ready_work(chosen));
        chosen->begun++;
    }
    return ran;
}

void standin_order_drop(void)
{
    for (int i = 0; i < STANDIN_STREAMS_MAX; i++) {
        gy_cuda_stream *stream = &standin_streams[i];
        for (; stream->begun < stream->pushed; stream->begun++) {
            standin_work *work = &stream->work[stream->begun % STANDIN_WORK_MAX];
            if (work->kind == STANDIN_FREE) {
                standin_block_end(work->blocks[0]);
            }
        }
    }
}

/* ---- order ---- */

standin_work *standin_push(gy_cuda_stream *stream, standin_kind kind)
{
    if (stream->graph != NULL) {
        return standin_capture_push(stream, kind);
    }
    while (stream->pushed - stream->begun == STANDIN_WORK_MAX && standin_run(1) > 0) {
    }
    STANDIN_EXPECT(stream->pushed - stream->begun < STANDIN_WORK_MAX); /* it waits for ever */
    standin_work *work = &stream->work[stream->pushed++ % STANDIN_WORK_MAX];
    memset(work, 0, offsetof(standin_work, arguments));
    work->kind = kind;
    join(&stream->clock, &host);
    stream->clock.at[stream->index]++;
    return work;
}

static void expect_behind(const gy_cuda_stream *stream, const standin_block *block,
                          const standin_use *before, const char *by)
{
    if (before->tick > stream->clock.at[before->stream]) {
        standin_complain(
            "%s in stream %d and %s in stream %d use the same %zu bytes, and no event "
            "orders them",
            by, stream->index, before->by, before->stream, block->size_bytes);
    }
}

void standin_use_block(gy_cuda_stream *stream, standin_block *block, bool writes,
                       const char *by)
{
    if (stream->graph != NULL) {
        standin_capture_use(stream, block, writes, by);
        return;
    }
    const standin_use use = {
        .stream = stream->index, .tick = stream->clock.at[stream->index], .by = by};
    if (block->written.by != NULL) {
        expect_behind(stream, block, &block->written, by);
    }
    for (int i = 0; writes && i < STANDIN_STREAMS_MAX; i++) {
        if (block->read[i].by != NULL) {
            expect_behind(stream, block, &block->read[i], by);
        }
    }
    if (writes) {
        block->written = use;
    } else {
        block->read[stream->index] = use;
    }
}
