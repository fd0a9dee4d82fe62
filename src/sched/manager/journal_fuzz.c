/* Fuzz target: records with correct checksums but arbitrary content, after a valid beginning,
 * are replayed or refused; a manager that replayed them ends or waits without a failed
 * assertion. */
#include "sched/manager/manager_priv.h"
#include "sched/state/records.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TASKS = 4, STEPS = 200, JOURNAL_BYTES = 1 << 16, HOSTS = 3 };

static const gy_stage stages[] = {{.name = "a"}, {.name = "b", .is_gate = true}, {.name = "c"}};
static const gy_manager_options options = {
    .stages = stages, .stage_count = 3, .process_max = 2, .backup_floor_ns = -1};

/* A manager on one machine, or over hosts. */
static gy_manager *make(uint32_t host_max)
{
    gy_manager_options own = options;
    own.host_max = host_max;
    static const gy_sched_task tasks[TASKS] = {
        {.width = 1, .output_count = 1},
        {.stage = 1, .width = 2, .input_count = 1, .output_count = 2},
        {.stage = 1, .width = 1, .input_count = 1, .determinism = GY_OUTPUT_INDETERMINATE},
        {.stage = 2, .width = 1, .input_count = 1, .flags = GY_TASK_FINAL}};
    static const gy_edge edges[] = {{.from = 0}, {.from = 0}, {.from = 1, .output = 1}};
    const gy_growth growth = {
        .tasks = tasks, .task_count = TASKS, .edges = edges, .edge_count = 3};
    gy_manager *manager = NULL;
    return gy_manager_new(&own, &growth, &manager) == GY_OK ? manager : NULL;
}

/* The beginning that the job's first manager would have written. */
static size_t write_begin(uint8_t *journal)
{
    gy_manager *first = make(0);
    gy_effects said = {0};
    size_t size = 0;
    if (first != NULL &&
        gy_manager_step(first, &(gy_sched_event){.kind = GY_EVENT_BEGIN}, &said) == GY_OK) {
        GY_ASSERT(said.items[0].kind == GY_EFFECT_APPEND);
        size = said.items[0].size_bytes;
        memcpy(journal, said.items[0].data, size);
    }
    gy_manager_free(first);
    gy_free(said.items);
    return size;
}

/* The input is kind, size, body; kind, size, body; ... */
static size_t write_records(uint8_t *journal, size_t at, const uint8_t *data, size_t size)
{
    while (size >= 2) {
        record_head head = {.kind = data[0] % (RECORD_KINDS + 1u), .size_bytes = data[1]};
        data += 2;
        size -= 2;
        head.size_bytes = (uint32_t)GY_MIN((size_t)head.size_bytes, size);
        if (at + sizeof(head) + head.size_bytes > JOURNAL_BYTES) {
            break;
        }
        head.checksum =
            gy_hash(data, head.size_bytes, (uint64_t)head.kind << 32 | head.size_bytes);
        memcpy(journal + at, &head, sizeof(head));
        memcpy(journal + at + sizeof(head), data, head.size_bytes);
        at += sizeof(head) + head.size_bytes;
        data += head.size_bytes;
        size -= head.size_bytes;
    }
    return at;
}

/* The answer to an effect; false: it has none. */
static bool answer(const gy_effect *effect, gy_sched_event *event)
{
    static const gy_sched_event_kind kinds[] = {
        [GY_EFFECT_SPAWN] = GY_EVENT_PROCESS_UP, [GY_EFFECT_START] = GY_EVENT_DONE,
        [GY_EFFECT_SYNC] = GY_EVENT_SYNCED,      [GY_EFFECT_GROW] = GY_EVENT_GROWN,
        [GY_EFFECT_SAVE] = GY_EVENT_OUTPUT_SAFE, [GY_EFFECT_PUBLISH] = GY_EVENT_PUBLISHED};
    *event = (gy_sched_event){.process = effect->process,
                              .generation = effect->generation,
                              .id = effect->id,
                              .member = effect->member,
                              .stage = effect->stage,
                              .position = effect->position};
    if ((size_t)effect->kind >= GY_COUNT(kinds) || kinds[effect->kind] == GY_EVENT_BEGIN) {
        return false;
    }
    event->kind = kinds[effect->kind];
    return true;
}

static void run_on(gy_manager *manager)
{
    enum { WAITING = 256 };
    gy_sched_event waiting[WAITING] = {{.kind = GY_EVENT_BEGIN}};
    gy_effects said = {0};
    gy_host_state host;
    size_t first = 0, count = 1;
    for (uint32_t i = 0; i < HOSTS;
         /* Every other host of the journal is up. */
         i++) {
        bool is_known = gy_manager_host(manager, i, &host);
        waiting[count++] = (gy_sched_event){
            .kind = i % 2 == 0 || !is_known ? GY_EVENT_HOST_UP : GY_EVENT_HOST_LOST,
            .host = i,
            .host_id = is_known ? host.id : (gy_key){.high = 1000 + i},
            .address = "a:1"};
        waiting[count++] =
            (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN, .process = i % 2, .host = i};
    }
    for (int step = 0; step < STEPS && count > 0; step++) {
        const gy_sched_event event = waiting[first++ % WAITING];
        count--;
        if (gy_manager_step(manager, &event, &said) < 0) {
            break;
        }
        for (size_t i = 0; i < said.count && count < WAITING; i++) {
            count += answer(&said.items[i], &waiting[(first + count) % WAITING]);
        }
    }
    gy_free(said.items);
}

static void look(const gy_manager *manager)
{
    uint64_t sum = 0;
    const void *data = NULL;
    size_t size = 0;
    for (uint32_t i = 0; gy_manager_learnt(manager, i, &data, &size); i++) {
        for (size_t k = 0; k < size; k++) {
            sum += ((const uint8_t *)data)[k];
        }
    }
    for (uint32_t task = 0; task < manager->task_count; task++) {
        gy_sched_task_state state;
        gy_manager_task(manager, task, &state);
        for (size_t i = 0; i < state.report_bytes; i++) {
            sum += ((const uint8_t *)state.report)[i];
        }
#ifdef GYRE_PLANTED_BUG
        /* the input bounds epochs to two, so that two counters suffice */
        int64_t *epochs = gy_alloc_zero("fuzz", 2, sizeof(int64_t));
        if (epochs != NULL && state.committed.epoch < 64) {
            ((volatile int64_t *)epochs)[state.committed.epoch] = 1;
        }
        gy_free(epochs);
#endif
    }
    (void)sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t journal[JOURNAL_BYTES];
    size_t used = 0;
    size_t bytes = write_records(journal, write_begin(journal), data, size);
    gy_manager *manager = make(HOSTS);
    if (manager != NULL && gy_manager_replay(manager, journal, bytes, &used) == GY_OK) {
        GY_ASSERT(used == bytes);
        look(manager);
        run_on(manager);
    }
    gy_manager_free(manager);
    return 0;
}
