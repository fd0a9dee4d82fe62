/* Goal: a job's journal as objects of S3 and files of HDFS, as servers of ours speak them: what
 * was synced is found by the next epoch, which the older one cannot write past. */
#include "store_kit.h"

#include "persist/journal/journal.h"
#include "sched/manager.h"
#include "sched/state/records.h"

static kit_server s3, hdfs;

static int start_stubs(void **state)
{
    (void)state;
    char endpoint[64];
    kit_clear_settings();
    kit_start_stub(&s3, "s3.py");
    kit_start_stub(&hdfs, "webhdfs.py");
    snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%d", s3.port);
    setenv("GYRE_S3_ENDPOINT", endpoint, 1);
    setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", 1);
    return 0;
}

static int stop_stubs(void **state)
{
    (void)state;
    gy_http_drop_kept();
    kit_stop(&s3);
    kit_stop(&hdfs);
    return 0;
}

static size_t taken;

static gy_status take(void *arg, const void *records, size_t size_bytes, size_t *used)
{
    (void)arg;
    taken = *used = gy_manager_measure(records, size_bytes);
    return GY_OK;
}

static gy_status open_as(const char *uri, uint64_t epoch, gy_journal **journal)
{
    const gy_journal_options options = {
        .folder = uri,
        .epoch = epoch,
        .owner = "the test",
        .take = take,
        .measure = gy_manager_measure,
    };
    taken = 0;
    return gy_journal_open(gy_env_real(), &options, journal);
}

static size_t add(gy_journal *journal)
{
    record_head head = {.kind = RECORD_SAVED};
    head.checksum = gy_hash("", 0, (uint64_t)head.kind << 32);
    assert_ok(gy_journal_append(journal, &head, sizeof(head)));
    return sizeof(head);
}

static void keep_a_journal(const char *uri)
{
    gy_journal *old = NULL, *next = NULL;
    assert_ok(gy_journal_suits(gy_env_real(), uri));
    assert_false(gy_journal_is_there(gy_env_real(), uri));
    assert_ok(open_as(uri, 1, &old));
    size_t size = add(old);
    assert_ok(gy_journal_sync(old));
    size += add(old);
    assert_ok(gy_journal_sync(old));
    assert_ok(gy_journal_check(old));
    assert_ok(open_as(uri, 2, &next));
    assert_int_equal(taken, size);
    (void)add(old);
    assert_status(gy_journal_sync(old), GY_STATE);
    gy_journal_close(old);
    size += add(next);
    assert_ok(gy_journal_sync(next));
    gy_journal_close(next);
    assert_status(open_as(uri, 2, &next), GY_STATE);
    assert_ok(open_as(uri, 0, &next));
    assert_int_equal(gy_journal_epoch(next), 3);
    assert_int_equal(taken, size);
    gy_journal_close(next);
    assert_true(gy_journal_is_there(gy_env_real(), uri));
    assert_ok(gy_journal_remove(gy_env_real(), uri));
    assert_false(gy_journal_is_there(gy_env_real(), uri));
    assert_status(open_as(uri, 4, &next), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "has ended"));
}

GY_TEST(a_journal_of_objects)
{
    keep_a_journal("s3://good/jobs/a/");
    keep_a_journal("s3://good/jobs/ab");
}

GY_TEST(a_journal_in_hdfs)
{
    char uri[96];
    snprintf(uri, sizeof(uri), "hdfs://127.0.0.1:%d/jobs/one", hdfs.port);
    keep_a_journal(uri);
}

GY_TEST(a_store_that_replaces_is_refused)
{
    gy_journal *journal = NULL;
    assert_status(gy_journal_suits(gy_env_real(), "s3://old/jobs/"), GY_UNSUPPORTED);
    assert_non_null(strstr(gy_error_text(), "cannot hold the journal"));
    assert_status(open_as("s3://old/jobs/", 1, &journal), GY_UNSUPPORTED);
}

GY_TEST_MAIN(start_stubs, stop_stubs)
