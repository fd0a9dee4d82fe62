/* Goal: the name server's rules for jobs that ended with a failure: which may be resumed or
 * forgotten, under which epoch, and that a restart of the name server does not change this. */
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
    return GY_TIMEOUT; /* the answer came with an earlier step */
}

/* A job whose manager of epoch 1 ended with that status; if it is not GY_OK, the user killed
 * the job first. */
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
        assert_true(look(&at).is_ended); /* that store never took effect */
        daemon_says(&at, 1, 4, at.order_count);
        (void)resume(&at, 1);
        assert_false(look(&at).is_ended);
        assert_int_equal(look(&at).epoch, 2);
        if (is_restarted) { /* no daemon reports it; some manager may have had epoch 3 */
            restart(&at);
            pass(&at, 3500 * ms);
            daemon_says(&at, 1, 4, at.order_count);
            pass(&at, 600 * ms);
        }
        const gy_control_order *last = &at.orders[at.order_count - 1];
        assert_int_equal(last->kind, GY_ORDER_MANAGER);
        assert_true(last->is_resumed);
        assert_int_equal(last->epoch, 2 + 2 * is_restarted);
        /* The same request again, after a lost answer. */
        assert_int_equal(resume(&at, 1), GY_OK);
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

/* A delayed request applies to the end that its user saw, not to a later one. */
GY_TEST(a_late_request_wakes_no_later_end)
{
    bench at = {.now_ns = ms};
    ended_job(&at, GY_CANCELLED);
    (void)resume(&at, 1);
    assert_false(look(&at).is_ended);
    restart(&at); /* before a manager reported */
    tell(&at, (gy_names_event){.kind = GY_NAMES_KILL, .key = {5, 1}, .asker = 1});
    pass(&at, 3500 * ms);
    assert_true(look(&at).is_ended && look(&at).status == GY_CANCELLED);
    assert_int_equal(resume(&at, 1), GY_STATE);
    assert_true(look(&at).is_ended);
    for (int i = 0; i < 2; i++) { /* a user who saw that end may, even if no manager started */
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
    assert_int_equal(resume(&at, 0), GY_STATE); /* the job has not ended */
    gy_names_free(at.names);
    gy_free(at.said.items);
    at = (bench){.now_ns = ms};
    ended_job(&at, GY_CANCELLED);
    assert_int_equal(resume(&at, 2), GY_STATE); /* not the end that the user saw */
    at.store_status = GY_LIMIT;
    (void)resume(&at, 1);
    at.store_status = GY_OK;
    assert_true(look(&at).is_ended); /* the job is unchanged */
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

/* The first epoch is stored when its daemon is already lost. */
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
    pass(at, 3000 * ms); /* the daemon falls silent */
    assert_int_equal(store(at, &again), GY_OK);
    tell(at, (gy_names_event){
                 .kind = GY_NAMES_STORED, .key = stored.key, .version = stored.version});
    assert_int_equal(at->order_count, 0);
}

/* Each job is killed before any daemon received the order to start a manager. */
GY_TEST(what_had_not_begun_is_known_after_a_restart)
{
    for (int story = 0; story < 3; story++) {
        bench at = started();
        if (story == 2) {
            submit_and_lose_the_daemon(&at);
        } else {
            submit(&at, 1, 0, ""); /* no daemon is up */
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

/* The first manager had started; there is no daemon for the second. */
GY_TEST(what_waits_for_its_second_manager_has_begun)
{
    bench at = started();
    daemon_says(&at, 1, 4, 0);
    submit(&at, 1, 0, "");
    daemon_says(&at, 1, 4, 0);
    manager_says(&at, 1, 1, 1, no_gang);
    pass(&at, 5000 * ms); /* both fall silent */
    assert_int_equal(look(&at).epoch, 2);
    kill_it(&at);
    (void)resume(&at, 2);
    assert_false(look(&at).is_ended);
    finish(&at);
}

/* ---- jobs whose retained data are removed ---- */

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

/* The manager that removes the retained data ends with `status`; is_killed: after the user
 * killed it. */
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
    assert_int_equal(forget(at, 1), GY_OK); /* the same request again, after a lost answer */
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
        assert_int_equal(count_forgets(&at), 2); /* one for each daemon */
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

/* The failure and its reason stay readable after the retained data are removed; a waiting user
 * is told of the removal. */
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
        (void)forget(&at, 2); /* again */
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
