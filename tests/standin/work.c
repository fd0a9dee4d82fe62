/* The stand-in's streams, events, modules and launches, as calls of the driver. */
#include "standin/standin_priv.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

static gy_cuda_event events[STANDIN_EVENTS_MAX];
static gy_cuda_module modules[STANDIN_MODULES_MAX];
static gy_cuda_function functions[STANDIN_FUNCTIONS_MAX];

/* ---- streams ---- */

static int stream_create(gy_cuda_stream **stream, unsigned flags)
{
    if (flags != GY_CUDA_STREAM_NON_BLOCKING) {
        return standin_refuse("cuStreamCreate", "a stream that waits for the default stream");
    }
    for (int i = 0; i < STANDIN_STREAMS_MAX; i++) {
        if (!standin_streams[i].is_alive) {
            standin_streams[i].is_alive = true;
            standin_streams[i].index = i;
            *stream = &standin_streams[i];
            standin_count_live(1);
            return 0;
        }
    }
    return GY_CUDA_OUT_OF_MEMORY;
}

static int stream_destroy(gy_cuda_stream *stream)
{
    if (!standin_is_stream(stream, "cuStreamDestroy")) {
        return GY_CUDA_INVALID_HANDLE;
    }
    if (stream->graph != NULL) {
        standin_complain("cuStreamDestroy: the stream is captured");
    }
    if (stream->begun != stream->pushed) {
        standin_complain("cuStreamDestroy: work of the stream has not ended");
    }
    stream->is_alive = false;
    standin_count_live(-1);
    return 0;
}

static int stream_query(gy_cuda_stream *stream)
{
    if (!standin_is_stream(stream, "cuStreamQuery")) {
        return GY_CUDA_INVALID_HANDLE;
    }
    standin_run((int)standin_random(8));
    if (stream->begun != stream->pushed) {
        return GY_CUDA_NOT_READY;
    }
    standin_host_saw(&stream->clock);
    return 0;
}

STANDIN(standin_enter_context, stream_create, (gy_cuda_stream * *stream, unsigned flags),
        stream_create(stream, flags))
STANDIN_RELEASE(stream_destroy, (gy_cuda_stream * stream), stream_destroy(stream))
STANDIN(standin_enter_context, stream_query, (gy_cuda_stream * stream), stream_query(stream))

/* ---- events ---- */

static bool is_event(const gy_cuda_event *event, const char *symbol, bool is_recorded)
{
    if (event < events || event >= events + STANDIN_EVENTS_MAX || !event->is_alive) {
        standin_complain("%s: no event", symbol);
        return false;
    }
    if (is_recorded && event->recorded == 0) {
        standin_complain("%s: the event is used before it is recorded", symbol);
        return false;
    }
    return true;
}

static int event_create(gy_cuda_event **event, unsigned flags)
{
    if (flags != GY_CUDA_EVENT_UNTIMED) {
        return standin_refuse("cuEventCreate", "an event that takes the time");
    }
    for (int i = 0; i < STANDIN_EVENTS_MAX; i++) {
        if (!events[i].is_alive) {
            events[i] = (gy_cuda_event){.is_alive = true};
            *event = &events[i];
            standin_count_live(1);
            return 0;
        }
    }
    return GY_CUDA_OUT_OF_MEMORY;
}

static int event_destroy(gy_cuda_event *event)
{
    if (!is_event(event, "cuEventDestroy", false)) {
        return GY_CUDA_INVALID_HANDLE;
    }
    if (event->done < event->recorded) { /* work in a ring names it */
        standin_run(INT32_MAX);
    }
    event->is_alive = false;
    standin_count_live(-1);
    return 0;
}

static int event_record(gy_cuda_event *event, gy_cuda_stream *stream)
{
    if (!is_event(event, "cuEventRecord", false) ||
        !standin_is_stream(stream, "cuEventRecord")) {
        return GY_CUDA_INVALID_HANDLE;
    }
    standin_work *work = standin_push(stream, STANDIN_RECORD);
    work->event = event;
    work->generation = ++event->recorded;
    event->stream = stream;
    event->place = stream->pushed - 1;
    event->clock = stream->clock;
    return 0;
}

static int event_query(gy_cuda_event *event)
{
    if (!is_event(event, "cuEventQuery", true)) {
        return GY_CUDA_INVALID_HANDLE;
    }
    standin_run((int)standin_random(8));
    if (event->done < event->recorded) {
        return GY_CUDA_NOT_READY;
    }
    standin_host_saw(&event->clock);
    return 0;
}

static int stream_wait_event(gy_cuda_stream *stream, gy_cuda_event *event, unsigned flags)
{
    const char *by = standin_symbol.stream_wait_event;
    if (!standin_is_stream(stream, by) || !is_event(event, by, true)) {
        return GY_CUDA_INVALID_HANDLE;
    }
    if (flags != 0) {
        return standin_refuse(by, "unknown flags");
    }
    standin_work *work = standin_push(stream, STANDIN_WAIT);
    work->behind = event->stream; /* as it is now: it may be recorded again before this runs */
    work->place = event->place;
    for (int i = 0; i <= STANDIN_STREAMS_MAX; i++) {
        stream->clock.at[i] = GY_MAX(stream->clock.at[i], event->clock.at[i]);
    }
    return 0;
}

STANDIN(standin_enter_context, event_create, (gy_cuda_event * *event, unsigned flags),
        event_create(event, flags))
STANDIN_RELEASE(event_destroy, (gy_cuda_event * event), event_destroy(event))
STANDIN(standin_enter_context, event_record, (gy_cuda_event * event, gy_cuda_stream *stream),
        event_record(event, stream))
STANDIN(standin_enter_context, event_query, (gy_cuda_event * event), event_query(event))
STANDIN(standin_enter_context, stream_wait_event,
        (gy_cuda_stream * stream, gy_cuda_event *event, unsigned flags),
        stream_wait_event(stream, event, flags))

/* ---- modules: an image is a shared library behind its head ---- */

/* Under a name of its own: the loader takes two libraries of one name for one. */
static void *open_image(const char *image, size_t size_bytes)
{
    char path[] = "/tmp/gyre-module-XXXXXX";
    const int file = mkstemp(path);
    if (file < 0) {
        return NULL;
    }
    const bool is_whole = write(file, image, size_bytes) == (ssize_t)size_bytes;
    void *library = is_whole ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library == NULL) {
        standin_complain("an image cannot be opened: %s", dlerror());
    }
    (void)unlink(path);
    close(file);
    return library;
}

static void tell(unsigned count, const int *options, void **values, const char *reason)
{
    for (unsigned i = 0; i + 1 < count; i++) {
        if (options[i] == GY_CUDA_JIT_LOG && options[i + 1] == GY_CUDA_JIT_LOG_BYTES) {
            snprintf(values[i], (size_t)(uintptr_t)values[i + 1], "%s", reason);
        }
    }
}

static int module_load(gy_cuda_module **module, const char *image, unsigned count, int *options,
                       void **values)
{
    standin_image head;
    int i = 0;
    while (i < STANDIN_MODULES_MAX && modules[i].is_alive) {
        i++;
    }
    memcpy(&head, image, sizeof(head));
    if (i == STANDIN_MODULES_MAX || head.magic != STANDIN_MAGIC) {
        tell(count, options, values, "no image of the stand-in");
        return i == STANDIN_MODULES_MAX ? GY_CUDA_OUT_OF_MEMORY : GY_CUDA_INVALID_IMAGE;
    }
    modules[i].library = open_image(image + sizeof(head), head.size_bytes);
    const char *words =
        modules[i].library != NULL ? dlsym(modules[i].library, "standin_words") : NULL;
    if (words == NULL) {
        return GY_CUDA_INVALID_IMAGE;
    }
    snprintf(modules[i].words, sizeof(modules[i].words), "%s", words);
    modules[i].is_alive = true;
    *module = &modules[i];
    standin_count_live(1);
    return 0;
}

static bool is_module(const gy_cuda_module *module, const char *symbol)
{
    const bool is_one =
        module >= modules && module < modules + STANDIN_MODULES_MAX && module->is_alive;
    if (!is_one) {
        standin_complain("%s: no module", symbol);
    }
    return is_one;
}

static int module_unload(gy_cuda_module *module)
{
    if (!is_module(module, "cuModuleUnload")) {
        return GY_CUDA_INVALID_HANDLE;
    }
    for (int i = 0; i < STANDIN_STREAMS_MAX; i++) {
        const gy_cuda_stream *stream = &standin_streams[i];
        for (uint64_t at = stream->begun; at < stream->pushed; at++) {
            const standin_work *work = &stream->work[at % STANDIN_WORK_MAX];
            if (work->kind == STANDIN_LAUNCH && work->function->module == module) {
                standin_complain("cuModuleUnload: %s waits to run", work->function->name);
                standin_run(INT32_MAX);
            }
        }
    }
    for (int i = 0; i < STANDIN_FUNCTIONS_MAX; i++) {
        functions[i].is_alive = functions[i].is_alive && functions[i].module != module;
    }
    dlclose(module->library);
    module->is_alive = false;
    standin_count_live(-1);
    return 0;
}

/* The place of a module's function: that which was asked for before, or a free one. */
static int function_place(const gy_cuda_module *module, const char *name)
{
    int spare = STANDIN_FUNCTIONS_MAX;
    for (int i = STANDIN_FUNCTIONS_MAX - 1; i >= 0; i--) {
        if (functions[i].is_alive && functions[i].module == module &&
            strcmp(functions[i].name, name) == 0) {
            return i;
        }
        spare = functions[i].is_alive ? spare : i;
    }
    return spare;
}

static int module_function(gy_cuda_function **function, gy_cuda_module *module,
                           const char *name)
{
    if (!is_module(module, "cuModuleGetFunction")) {
        return GY_CUDA_INVALID_HANDLE;
    }
    void *symbol = dlsym(module->library, name);
    const int i = function_place(module, name);
    if (symbol == NULL || i == STANDIN_FUNCTIONS_MAX) {
        return GY_CUDA_NOT_FOUND;
    }
    functions[i] = (gy_cuda_function){.is_alive = true, .module = module};
    memcpy(&functions[i].run, &symbol, sizeof(symbol));
    snprintf(functions[i].name, sizeof(functions[i].name), "%s", name);
    *function = &functions[i];
    return 0;
}

/* ---- launches ---- */

/* The blocks that a kernel's arguments point to. */
static int take_blocks(gy_cuda_stream *stream, standin_work *work, const char *words)
{
    for (size_t i = 0; words[i] != '\0'; i++) {
        const gy_cuda_address address = work->arguments[i];
        if (words[i] == 'n' || address == 0) {
            continue;
        }
        standin_block *block = standin_block_of(address, 0, work->function->name);
        if (block == NULL || work->block_count == (int)GY_COUNT(work->blocks)) {
            return GY_CUDA_INVALID_VALUE;
        }
        int seen = 0;
        while (seen < work->block_count && work->blocks[seen] != block) {
            seen++;
        }
        work->blocks[seen] = block;
        work->block_count = GY_MAX(work->block_count, seen + 1);
        standin_use_block(stream, block, words[i] == 'w', work->function->name);
    }
    return 0;
}

static int launch(gy_cuda_function *function, const unsigned sizes[7], gy_cuda_stream *stream,
                  void **arguments)
{
    const char *by = standin_symbol.launch_kernel;
    if (function < functions || function >= functions + STANDIN_FUNCTIONS_MAX ||
        !function->is_alive || !standin_is_stream(stream, by)) {
        standin_complain("%s: no function or stream", by);
        return GY_CUDA_INVALID_HANDLE;
    }
    const unsigned threads = sizes[3] * sizes[4] * sizes[5];
    if (sizes[0] == 0 || sizes[1] == 0 || sizes[2] == 0 || threads == 0 || threads > 1024) {
        return standin_refuse(by, "an empty grid, or no block of 1 to 1024 threads");
    }
    standin_work *work = standin_push(stream, STANDIN_LAUNCH);
    work->function = function;
    memcpy(work->grid, sizes, sizeof(work->grid));
    memcpy(work->block, sizes + 3, sizeof(work->block));
    work->shared_bytes = sizes[6];
    const size_t words = strlen(function->module->words);
    memcpy(work->arguments, arguments[0], words * sizeof(uint64_t));
    const int code = take_blocks(stream, work, function->module->words);
    if (code != 0) {
        work->kind = STANDIN_SET; /* of nothing */
    }
    return code;
}

int standin_push_call(gy_cuda_stream *stream, const standin_call *call,
                      const standin_range *ranges, int count)
{
    standin_block *blocks[8];
    if (!standin_is_stream(stream, call->by)) {
        return GY_CUDA_INVALID_HANDLE;
    }
    STANDIN_EXPECT(count <= (int)GY_COUNT(blocks) &&
                   call->size_bytes <= STANDIN_ARGUMENT_BYTES);
    for (int i = 0; i < count; i++) {
        blocks[i] = standin_block_of(ranges[i].address, ranges[i].size_bytes, call->by);
        if (blocks[i] == NULL) {
            return GY_CUDA_INVALID_VALUE;
        }
    }
    standin_work *work = standin_push(stream, STANDIN_CALL);
    work->call = call->run;
    memcpy(work->arguments, call->arguments, call->size_bytes);
    for (int i = 0; i < count; i++) {
        standin_use_block(stream, blocks[i], ranges[i].writes, call->by);
        work->blocks[work->block_count++] = blocks[i];
    }
    return 0;
}

STANDIN(standin_enter_context, module_load,
        (gy_cuda_module * *module, const void *image, unsigned count, int *options,
         void **values),
        module_load(module, image, count, options, values))
STANDIN_RELEASE(module_unload, (gy_cuda_module * module), module_unload(module))
STANDIN(standin_enter_context, module_function,
        (gy_cuda_function * *function, gy_cuda_module *module, const char *name),
        module_function(function, module, name))
STANDIN(standin_enter_context, launch_kernel,
        (gy_cuda_function * function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
         unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
         gy_cuda_stream *stream, void **arguments, void **extra),
        extra != NULL ? standin_refuse("cuLaunchKernel", "arguments in a buffer")
                      : launch(function,
                               (unsigned[7]){grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                             shared_bytes},
                               stream, arguments))
