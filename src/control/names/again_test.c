/*
 * Goal: the name server's rules for jobs that ended, but not well: which may go on or be
 * forgotten, under which epoch, and what a restart of the name server must not change of it.
 */
#include "control/names/names_test.h"

static gy_status resume(bench *at, uint32_t epoch)
{
    tell(at,
         (gy_names_event){.kind = GY_NAMES_RESUME, .key = {5, 1}, .epoch = epoch, .asker = 7});
    for (size_t i = 0; i < at->said.count; i++) {
        if (at->said.items[i].kind == GY_NAMES_ANSWER && at->said.items[i].asker == 7) {
            return at->said.items[i].status;
        }
    }
    return GY_TIMEOUT; /* it came with an earlier step's store */
}

/* A job whose manager of epoch 1 ended with that status; killed first, if it is not GY_OK. */
static void ended_job(bench *at, gy_status status)
{
    start(at);
    daemon_says(at, 1, 4, 0);
    submit(at, 1, 0, "");
    daemon_says(at, 1, 4, 0);
    manager_says(at, 1, 1, 1, no_gang);
    if (status < 0) {
        tell(at, (gy_names_event){.kind = GY_NAMES_KILL, .key = {5, 1}, .asker = 1});
    }
    tell(at, (gy_names_event){
                 .kind = GY_NAMES_JOB_END, .key = {5, 1}, .epoch = 1, .status = status});
    assert_true(look(at).is_ended && look(at).status == status);
}

GY_TEST(a_job_goes_on_after_its_end)
{
    for (int is_restarted = 0; is_restarted < 2; is_restarted++) {
        bench at = {.now_ns = ms};
        ended_job(&at, GY_CANCELLED);
        at.is_held_back = true;
        (void)resume(&at, 1);
        assert_null(said(&at, GY_NAMES_ANSWER)); /* not before it is stored */
        assert_true(look(&at).is_ended);
        assert_int_equal(resume(&at, 1), GY_AGAIN);
        at.is_held_back = false;
        restart(&at);
        assert_true(look(&at).is_ended); /* that store never came */
        daemon_says(&at, 1, 4, at.order_count);
        (void)resume(&at, 1);
        assert_false(look(&at).is_ended);
        assert_int_equal(look(&at).epoch, 2);
        if (is_restarted) { /* it is told of by nobody; somebody may have had epoch 3 */
            restart(&at);
            pass(&at, 3500 * ms);
            daemon_says(&at, 1, 4, at.order_count);
            pass(&at, 600 * ms);
        }
        const gy_control_order *last = &at.orders[at.order_count - 1];
        assert_int_equal(last->kind, GY_ORDER_MANAGER);
        assert_true(last->is_resumed);
        assert_int_equal(last->epoch, 2 + 2 * is_restarted);
        assert_int_equal(resume(&at, 1), GY_OK); /* who did not hear the answer */
        assert_int_equal(look(&at).epoch, last->epoch);
        daemon_says(&at, 1, 4, 0);
        manager_says(&at, 1, last->epoch, 1, no_gang);
        assert_true(look(&at).is_up);
        tell(&at,
             (gy_names_event){.kind = GY_NAMES_JOB_END, .key = {5, 1}, .epoch = last->epoch});
        assert_true(look(&at).is_ended && look(&at).status == GY_OK);
        assert_int_equal(resume(&at, last->epoch), GY_STATE);
        finish(&at);
    }
}

/* A request that comes late was for the end that its user saw, not for the one after. */
GY_TEST(a_late_request_wakes_no_later_end)
{
    bench at = {.now_ns = ms};
    ended_job(&at, GY_CANCELLED);
    (void)resume(&at, 1);
    assert_false(look(&at).is_ended);
    restart(&at); /* before a manager was heard */
    tell(&at, (gy_names_event){.kind = GY_NAMES_KILL, .key = {5, 1}, .asker = 1});
    pass(&at, 3500 * ms);
    assert_true(look(&at).is_ended && look(&at).status == GY_CANCELLED);
    assert_int_equal(resume(&at, 1), GY_STATE);
    assert_true(look(&at).is_ended);
    for (int i = 0; i < 2; i++) { /* who has seen that one may, also where no manager began */
        (void)resume(&at, look(&at).epoch);
        assert_false(look(&at).is_ended);
        tell(&at, (gy_names_event){.kind = GY_NAMES_KILL, .key = {5, 1}, .asker = 1});
        pass(&at, 3500 * ms);
        assert_true(look(&at).is_ended);
    }
    finish(&at);
}

GY_TEST(what_cannot_go_on_is_output)
{
    bench at = started();
    assert_int_equal(resume(&at, 0), GY_NOTFOUND);
    submit(&at, 1, 0, "");
    assert_int_equal(resume(&at, 0), GY_STATE); /* it has not ended */
    gy_names_free(at.names);
    gy_free(at.said.items);
    at = (bench){.now_ns = ms};
    ended_job(&at, GY_CANCELLED);
    assert_int_equal(resume(&at, 2), GY_STATE); /* another end than the user saw */
    at.store_status = GY_LIMIT;
    (void)resume(&at, 1);
    at.store_status = GY_OK;
    assert_true(look(&at).is_ended); /* as before */
    assert_string_equal(look(&at).reason, "killed by its user");
    finish(&at);
}

static void kill_it(bench *at)
{
    tell(at, (gy_names_event){.kind = GY_NAMES_KILL, .key = {5, 1}, .asker = 1});
    pass(at, 1000 * ms);
    assert_true(look(at).is_ended);
    assert_int_equal(look(at).status, GY_CANCELLED);
}

/* Its first epoch is stored when its daemon is gone already. */
static void submit_and_lose_the_daemon(bench *at)
{
    daemon_says(at, 1, 4, 0);
    at->is_held_back = true;
    submit(at, 1, 0, "");
    at->is_held_back = false;
    const gy_names_effect stored = *said(at, GY_NAMES_STORE);
    uint8_t record[512];
    assert_true(stored.size_bytes <= sizeof(record));
    memcpy(record, stored.data, stored.size_bytes);
    gy_names_effect again = stored;
    again.data = record;
    pass(at, 3000 * ms); /* the daemon is silent */
    assert_int_equal(store(at, &again), GY_OK);
    tell(at, (gy_names_event){
                 .kind = GY_NAMES_STORED, .key = stored.key, .version = stored.version});
    assert_int_equal(at->order_count, 0);
}

/* Each is killed before any daemon was told to start a manager. */
GY_TEST(what_had_not_begun_is_known_after_a_restart)
{
    for (int story = 0; story < 3; story++) {
        bench at = started();
        if (story == 2) {
            submit_and_lose_the_daemon(&at);
        } else {
            submit(&at, 1, 0, ""); /* no daemon is there */
        }
        if (story == 1) {
            for (int i = 0; i < 3; i++) {
                pass(&at, 20000 * ms);
                restart(&at);
            }
        }
        kill_it(&at);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(resume(&at, look(&at).epoch), GY_STATE);
            assert_non_null(strstr(said(&at, GY_NAMES_ANSWER)->reason, "had started"));
            restart(&at);
        }
        finish(&at);
    }
}

GY_TEST(one_that_waited_over_a_restart_begins)
{
    bench at = started();
    submit(&at, 1, 0, "");
    restart(&at);
    pass(&at, 20000 * ms);
    assert_int_equal(at.order_count, 0);
    daemon_says(&at, 1, 4, 0);
    assert_int_equal(at.order_count, 1); /* at once */
    assert_int_equal(at.orders[0].epoch, 1);
    finish(&at);
}

/* Its first manager had begun; the second one finds no daemon. */
GY_TEST(what_waits_for_its_second_manager_has_begun)
{
    bench at = started();
    daemon_says(&at, 1, 4, 0);
    submit(&at, 1, 0, "");
    daemon_says(&at, 1, 4, 0);
    manager_says(&at, 1, 1, 1, no_gang);
    pass(&at, 5000 * ms); /* both are silent */
    assert_int_equal(look(&at).epoch, 2);
    kill_it(&at);
    (void)resume(&at, 2);
    assert_false(look(&at).is_ended);
    finish(&at);
}

/* ---- jobs of which nothing shall be kept ---- */

static gy_status forget(bench *at, uint32_t epoch)
{
    tell(
        at,
        (gy_names_event){
            .kind = GY_NAMES_RESUME, .key = {5, 1}, .epoch = epoch, .is_on = true, .asker = 7});
    const gy_names_effect *answer = said(at, GY_NAMES_ANSWER);
    return answer != NULL && answer->asker == 7 ? answer->status : GY_TIMEOUT;
}

static void expect_answer(const bench *at, const char *words)
{
    assert_non_null(said(at, GY_NAMES_ANSWER));
    assert_non_null(strstr(said(at, GY_NAMES_ANSWER)->reason, words));
}

static size_t count_forgets(const bench *at)
{
    size_t count = 0;
    for (size_t i = 0; i < at->order_count; i++) {
        count += at->orders[i].kind == GY_ORDER_FORGET && at->orders[i].epoch == 2;
    }
    return count;
}

/* The manager that shall remove all of it ends with `status`; killed before, if so. */
static void forget_it(bench *at, gy_status status, bool is_killed)
{
    ended_job(at, GY_CANCELLED);
    daemon_says(at, 2, 4, 0);
    (void)forget(at, 1);
    assert_false(look(at).is_ended);
    assert_int_equal(look(at).epoch, 2);
    const gy_control_order *last = &at->orders[at->order_count - 1];
    assert_int_equal(last->kind, GY_ORDER_MANAGER);
    assert_true(last->is_forgotten);
    assert_int_equal(forget(at, 1), GY_OK); /* who did not hear the answer */
    assert_int_equal(resume(at, 1), GY_STATE);
    expect_answer(at, "being removed");
    daemon_says(at, 1, 4, 0);
    daemon_says(at, 2, 4, 0);
    manager_says(at, 1, 2, 0, no_gang);
    assert_true(look(at).is_up);
    if (is_killed) {
        tell(at, (gy_names_event){.kind = GY_NAMES_KILL, .key = {5, 1}, .asker = 1});
    }
    tell(at, (gy_names_event){
                 .kind = GY_NAMES_JOB_END, .key = {5, 1}, .epoch = 2, .status = status});
    assert_true(look(at).is_ended);
}

GY_TEST(what_is_forgotten_does_not_go_on)
{
    for (int is_killed = 0; is_killed < 2; is_killed++) { /* too late */
        bench at = {.now_ns = ms};
        forget_it(&at, GY_CANCELLED, is_killed != 0);
        assert_int_equal(count_forgets(&at), 2); /* each daemon */
        for (int i = 0; i < 2; i++) {
            assert_int_equal(look(&at).status, GY_CANCELLED);
            assert_int_equal(resume(&at, 2), GY_STATE);
            expect_answer(&at, "forgotten");
            assert_int_equal(forget(&at, 2), GY_OK);
            expect_answer(&at, "any more");
            assert_true(look(&at).is_ended);
            restart(&at);
        }
        finish(&at);
    }
}

/* A failure stays one, with its reason, when what is kept is gone; who waits hears of that. */
GY_TEST(how_it_ended_is_not_forgotten)
{
    bench at = started();
    daemon_says(&at, 1, 4, 0);
    submit(&at, 1, 0, "");
    daemon_says(&at, 1, 4, 0);
    manager_says(&at, 1, 1, 1, no_gang);
    gy_names_event ends = {.kind = GY_NAMES_JOB_END, .key = {5, 1}, .epoch = 1};
    ends.status = GY_STATE;
    ends.reason = "exit status 3";
    tell(&at, ends);
    (void)forget(&at, 1);
    daemon_says(&at, 1, 4, 0);
    manager_says(&at, 1, 2, 0, no_gang);
    ends.epoch = 2;
    ends.status = GY_CANCELLED;
    ends.reason = "it is removed";
    tell(&at, ends);
    assert_int_equal(said(&at, GY_NAMES_ENDED)->status, GY_CANCELLED);
    assert_string_equal(said(&at, GY_NAMES_ENDED)->reason, GY_NAMES_GONE_TEXT);
    for (int i = 0; i < 2; i++) {
        assert_true(look(&at).is_ended && look(&at).is_gone);
        assert_int_equal(look(&at).status, GY_STATE);
        assert_string_equal(look(&at).reason, "exit status 3");
        restart(&at);
    }
    finish(&at);
}

GY_TEST(what_stays_in_part_is_output)
{
    for (int is_killed = 0; is_killed < 2; is_killed++) {
        bench at = {.now_ns = ms};
        forget_it(&at, GY_STATE, is_killed != 0);
        assert_int_equal(count_forgets(&at), 0);
        assert_int_equal(look(&at).status, GY_STATE);
        restart(&at);
        daemon_says(&at, 1, 4, at.order_count);
        assert_int_equal(resume(&at, 2), GY_STATE);
        expect_answer(&at, "forgotten");
        (void)forget(&at, 2); /* once more */
        assert_false(look(&at).is_ended);
        assert_int_equal(look(&at).epoch, 3);
        finish(&at);
    }
}

GY_TEST(what_cannot_be_forgotten_is_output)
{
    bench at = started();
    assert_int_equal(forget(&at, 0), GY_NOTFOUND);
    submit(&at, 1, 0, "");
    assert_int_equal(forget(&at, 0), GY_STATE);
    expect_answer(&at, "kill it first");
    kill_it(&at);
    assert_int_equal(forget(&at, 0), GY_STATE);
    expect_answer(&at, "had started");
    gy_names_free(at.names);
    gy_free(at.said.items);
    at = (bench){.now_ns = ms};
    ended_job(&at, GY_OK);
    assert_int_equal(forget(&at, 1), GY_STATE);
    expect_answer(&at, "finished successfully");
    finish(&at);
}

GY_TEST_MAIN(NULL, NULL)
