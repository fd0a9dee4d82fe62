/* Goal: data published by members of a gang over hosts are stored while their attempt runs and
 * no longer, so that a job may have any number of gangs, and an attempt never receives data of
 * another. */
#include "driver/loop.h"

#include "gy_test.h"

#include <string.h>

enum { TASKS = 8, MEMBERS = 2 };

/* ---- A driver whose processes are played by this test ---- */

static gy_driver driver;
static size_t heard[MEMBERS]; /* of the data its processes received */

static gy_status encode(void *arg, const gy_manager *manager, const gy_effect *start,
                        gy_driver_place *place, gy_text *message)
{
    (void)arg, (void)manager, (void)start, (void)place, (void)message;
    return GY_OK;
}

static void say(uint32_t slot, const gy_wire *message)
{
    gy_text text = {.data = NULL};
    gy_wire_add(&text, message);
    assert_ok(text.status);
    gy_driver_handle_bytes(&driver, &driver.processes[slot], text.data, text.size_bytes);
    gy_text_free(&text);
}

static bool hear(uint32_t slot, gy_wire *message)
{
    const gy_text *out = &driver.processes[slot].out;
    size_t used = 0;
    const gy_status status = gy_wire_next((const uint8_t *)out->data + heard[slot],
                                          out->size_bytes - heard[slot], message, &used);
    assert_true(status == GY_OK || status == GY_AGAIN);
    heard[slot] += status == GY_OK ? used : 0;
    return status == GY_OK;
}

static int begin(void **state)
{
    static const gy_driver_ops ops = {.encode = encode};
    static const gy_driver_options options = {.ops = &ops};
    static const gy_stage stage = {.name = "gangs"};
    gy_sched_task tasks[TASKS];
    gy_effects begun = {.items = NULL};
    (void)state;
    for (uint32_t i = 0; i < TASKS; i++) {
        tasks[i] =
            (gy_sched_task){.key = {.high = i, .low = 1}, .width = MEMBERS, .output_count = 1};
    }
    memset(heard, 0, sizeof(heard));
    driver = (gy_driver){.env = gy_env_real(),
                         .options = &options,
                         .ops = &ops,
                         .executor = &gy_executor_local,
                         .process_count = MEMBERS,
                         .threads = 1,
                         .epoll = -1,
                         .is_journal_lost = true};
    assert_ok(gy_manager_new(&(gy_manager_options){.stages = &stage,
                                                   .stage_count = 1,
                                                   .process_max = MEMBERS,
                                                   .threads = 1,
                                                   .depth_max = 1,
                                                   .backup_floor_ns = -1},
                             &(gy_growth){.tasks = tasks, .task_count = TASKS},
                             &driver.manager));
    driver.processes = gy_alloc_zero("test", MEMBERS, sizeof(gy_process));
    driver.dirty = gy_alloc("test", MEMBERS * sizeof(uint32_t));
    assert_true(driver.processes != NULL && driver.dirty != NULL);
    assert_ok(gy_manager_step(
        driver.manager,
        &(gy_sched_event){.kind = GY_EVENT_BEGIN, .now_ns = gy_now_ns(driver.env)}, &begun));
    gy_sched_event synced = {.kind = GY_EVENT_SYNCED};
    for (size_t i = 0; i < begun.count; i++) {
        synced.position = GY_MAX(synced.position, begun.items[i].position);
        if (begun.items[i].kind == GY_EFFECT_SPAWN) {
            const uint32_t slot = begun.items[i].process;
            driver.processes[slot] = (gy_process){.slot = slot,
                                                  .generation = begun.items[i].generation,
                                                  .state = GY_PROCESS_STARTING,
                                                  .socket = -1};
        }
    }
    gy_free(begun.items);
    gy_driver_step(&driver, &synced);
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        gy_text_free(&driver.processes[i].out);
        gy_free(driver.processes[i].in);
    }
    for (size_t i = 0; i < driver.meet_count; i++) {
        gy_text_free(&driver.meets[i].words);
    }
    gy_free(driver.meets);
    gy_free(driver.processes);
    gy_free(driver.dirty);
    gy_free(driver.effects.items);
    gy_driver_errands_free(&driver);
    gy_text_free(&driver.message);
    gy_manager_free(driver.manager);
    assert_int_equal(gy_alloc_live(), 0);
    return 0;
}

/* ---- The processes ---- */

static gy_wire words_of(gy_attempt id, uint32_t member)
{
    return (gy_wire){
        .kind = GY_WIRE_MEET, .id = id, .member = member, .body = "here", .body_bytes = 4};
}

static gy_wire question_of(gy_attempt id, uint32_t member)
{
    return (gy_wire){
        .kind = GY_WIRE_MEET, .id = id, .member = member, .input = MEMBERS - 1 - member};
}

/* Both members have begun: each receives what the other has published. */
static void meet(const gy_wire start[MEMBERS])
{
    for (uint32_t slot = 0; slot < MEMBERS; slot++) {
        const gy_wire words = words_of(start[slot].id, start[slot].member);
        say(slot, &words);
    }
    for (uint32_t slot = 0; slot < MEMBERS; slot++) {
        gy_wire answer, question = question_of(start[slot].id, start[slot].member);
        say(slot, &question);
        assert_true(hear(slot, &answer));
        assert_true(answer.kind == GY_WIRE_MEET && answer.body_bytes == 4);
        question.id.attempt++; /* nothing of another attempt is received */
        say(slot, &question);
        assert_false(hear(slot, &answer));
    }
    assert_int_equal(driver.meet_count, MEMBERS);
}

/* One member fails; the other one publishes data before its cancel arrives. */
static void fail_together(const gy_wire start[MEMBERS])
{
    gy_wire message;
    say(0, &(gy_wire){.kind = GY_WIRE_FAILED,
                      .cause = GY_CAUSE_OWN,
                      .id = start[0].id,
                      .member = start[0].member});
    assert_true(hear(1, &message) && message.kind == GY_WIRE_CANCEL);
    message = words_of(start[1].id, start[1].member);
    say(1, &message);
    say(1, &(gy_wire){.kind = GY_WIRE_FAILED,
                      .cause = GY_CAUSE_CANCELLED,
                      .id = start[1].id,
                      .member = start[1].member});
}

GY_TEST_WITH(test_words_go_with_their_attempt, .setup_func = begin, .teardown_func = end)
{
    for (uint32_t slot = 0; slot < MEMBERS; slot++) {
        say(slot, &(gy_wire){.kind = GY_WIRE_READY});
    }
    for (int round = 0; round < 2 * TASKS; round++) {
        gy_wire start[MEMBERS];
        for (uint32_t slot = 0; slot < MEMBERS; slot++) {
            assert_true(hear(slot, &start[slot]));
            assert_int_equal(start[slot].kind, GY_WIRE_START);
        }
        meet(start);
        if ((start[0].id.attempt & 0xfffff) == 1) {
            fail_together(start);
        } else {
            for (uint32_t slot = 0; slot < MEMBERS; slot++) {
                say(slot, &(gy_wire){.kind = GY_WIRE_DONE,
                                     .id = start[slot].id,
                                     .member = start[slot].member});
            }
        }
        assert_int_equal(driver.meet_count, 0);
    }
    gy_stage_state done;
    gy_manager_stage(driver.manager, 0, &done);
    assert_int_equal(done.committed, TASKS);
}

/* At the limit a member that has published before may go on. */
GY_TEST_WITH(test_the_limit_is_for_new_members, .setup_func = begin, .teardown_func = end)
{
    const gy_attempt id = {.task = 1, .epoch = 1, .attempt = 1};
    void *rows = NULL;
    assert_ok(gy_reserve("test", &rows, &driver.meet_room, GY_MEETS_MAX, sizeof(gy_meet)));
    driver.meets = rows;
    for (uint32_t i = 0; i < GY_MEETS_MAX; i++) {
        driver.meets[i] = (gy_meet){.id = id, .member = i};
    }
    driver.meet_count = GY_MEETS_MAX;
    gy_wire words = words_of(id, GY_MEETS_MAX - 1);
    assert_ok(gy_process_meet(&driver, &driver.processes[0], &words));
    words.member++;
    assert_status(gy_process_meet(&driver, &driver.processes[0], &words), GY_FORMAT);
    gy_process_part(&driver, &id);
    assert_int_equal(driver.meet_count, 0);
    assert_ok(gy_process_meet(&driver, &driver.processes[0], &words));
}

int main(void)
{
    gy_log_set_level(GY_LOG_ERROR);
    return GY_TESTS_RUN(NULL, NULL);
}
