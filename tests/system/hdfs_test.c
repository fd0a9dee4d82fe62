/*
 * Goal: HDFS as it is spoken by a stub that was written from WebHDFS's documentation (no HDFS
 * is here to be asked): redirects, pages, blocks, refusals, lost answers.
 */
#include "store_kit.h"

enum { LARGE_BYTES = (16 << 20) + 77, MANY = 250 };

static kit_server stub;
static char root[64]; /* "hdfs://127.0.0.1:PORT" */

static int start_stub(void **state)
{
    (void)state;
    kit_clear_settings();
    kit_start_stub(&stub, "webhdfs.py");
    snprintf(root, sizeof(root), "hdfs://127.0.0.1:%d", stub.port);
    return 0;
}

static int stop_stub(void **state)
{
    (void)state;
    gy_http_drop_kept();
    kit_stop(&stub);
    return 0;
}

static const char *uri_of(const char *path)
{
    static char uri[512];
    snprintf(uri, sizeof(uri), "%s%s", root, path);
    return uri;
}

static gy_status put(const char *path, gy_place_mode mode, const void *data, size_t size)
{
    return kit_put(uri_of(path), mode, data, size);
}

static gy_status stat_of(const char *path, gy_place_facts *facts)
{
    gy_place *place = kit_place_for(2, uri_of(path));
    const gy_status status = gy_place_stat(place, facts);
    gy_place_close(place);
    return status;
}

GY_TEST(what_is_written_is_read)
{
    assert_ok(put("/a/b c+%&\xc3\xbc", GY_PLACE_REPLACE, "0123456789", 10));
    kit_check(uri_of("/a/b c+%&\xc3\xbc"), "0123456789", 10);
    assert_ok(put("/a/b c+%&\xc3\xbc", GY_PLACE_REPLACE, "other", 5));
    kit_check(uri_of("/a/b c+%&\xc3\xbc"), "other", 5);
    assert_ok(put("/a/empty", GY_PLACE_NEW, "", 0));
    kit_check(uri_of("/a/empty"), "", 0);
    gy_place_facts facts;
    assert_ok(stat_of("/a/b c+%&\xc3\xbc", &facts));
    assert_int_equal(facts.size_bytes, 5);
    assert_true(facts.modified_ms > 0);
    gy_place *place = kit_place(uri_of("/a/b c+%&\xc3\xbc"));
    char out[8];
    size_t got = 0;
    assert_ok(gy_place_read(place, facts.version, 3, out, 8, &got));
    assert_int_equal(got, 2);
    assert_ok(gy_place_read(place, facts.version, 5, out, 8, &got));
    assert_int_equal(got, 0);
    assert_ok(put("/a/b c+%&\xc3\xbc", GY_PLACE_REPLACE, "third", 5));
    assert_status(gy_place_read(place, facts.version, 0, out, 8, &got), GY_STATE);
    assert_ok(gy_place_remove(place));
    assert_ok(gy_place_remove(place));
    gy_place_close(place);
    assert_status(stat_of("/a/b c+%&\xc3\xbc", &facts), GY_NOTFOUND);
    place = kit_place(uri_of("/a"));
    assert_status(gy_place_remove(place), GY_IO);
    assert_status(gy_place_write(place, GY_PLACE_REPLACE, "x", 1), GY_IO);
    assert_says("folder");
    gy_place_close(place);
    kit_check_list(uri_of("/a"), "empty "); /* nothing was left behind */
}

GY_TEST(creation_is_exclusive)
{
    gy_place_guarantees promises;
    gy_place *place = kit_place(uri_of("/new/x"));
    assert_ok(gy_place_guarantee(place, &promises));
    assert_true(promises.is_exclusive);
    assert_ok(gy_place_write(place, GY_PLACE_NEW, "one", 3));
    assert_status(gy_place_write(place, GY_PLACE_NEW, "two", 3), GY_EXISTS);
    gy_place_writer *first = NULL, *second = NULL; /* both begin, one ends first */
    gy_place *other = kit_place(uri_of("/new/y"));
    assert_ok(gy_place_writer_open(other, GY_PLACE_NEW, &first));
    assert_ok(gy_place_writer_open(other, GY_PLACE_NEW, &second));
    assert_ok(gy_place_writer_add(first, "1", 1));
    assert_ok(gy_place_writer_finish(first));
    assert_status(gy_place_writer_finish(second), GY_EXISTS);
    gy_place_close(place);
    gy_place_close(other);
    kit_check_list(uri_of("/new"), "x y ");
    kit_check(uri_of("/new/x"), "one", 3);
    assert_status(put("/norename/x", GY_PLACE_REPLACE, "one", 3), GY_OK);
    assert_status(put("/norename/x", GY_PLACE_REPLACE, "two", 3), GY_UNSUPPORTED);
    kit_check(uri_of("/norename/x"), "one", 3);
}

GY_TEST(large_files_are_appended_to_once)
{
    char *data = kit_bytes(5, LARGE_BYTES);
    assert_ok(put("/lost/large", GY_PLACE_NEW, data, LARGE_BYTES)); /* each answer is lost */
    assert_true(kit_count(&stub, "data APPEND") == 2);
    kit_check_source(uri_of("/lost/large"), data, LARGE_BYTES);
    gy_free(data);
}

typedef struct blocks {
    uint64_t at;
    int count;
} blocks;

static gy_status check_block(void *arg, const gy_place_block *block)
{
    blocks *seen = arg;
    char first[8];
    snprintf(first, sizeof(first), "node%d", (int)(block->at >> 20) % 3);
    assert_int_equal(block->at, seen->at);
    assert_int_equal(block->host_count, 2);
    assert_string_equal(block->hosts[0], first);
    seen->at += block->size_bytes;
    seen->count++;
    return GY_OK;
}

GY_TEST(blocks_tell_their_hosts)
{
    gy_place *place = kit_place(uri_of("/lost/large"));
    blocks seen = {.at = 0};
    assert_ok(gy_place_blocks(place, 0, LARGE_BYTES, check_block, &seen));
    assert_int_equal(seen.at, LARGE_BYTES);
    assert_int_equal(seen.count, 17);
    seen = (blocks){.at = 2 << 20};
    assert_ok(gy_place_blocks(place, (2 << 20) + 5, 1 << 20, check_block, &seen));
    assert_int_equal(seen.count, 2);
    gy_place_close(place);
}

static gy_status count_entry(void *arg, const gy_place_entry *entry)
{
    int *count = arg;
    char expected[16];
    snprintf(expected, sizeof(expected), "f%03d", (*count)++);
    assert_string_equal(entry->name, expected);
    assert_string_equal(strrchr(entry->uri, '/') + 1, expected);
    return GY_OK;
}

GY_TEST(lists_are_sorted_and_paged)
{
    for (int i = MANY - 1; i >= 0; i--) {
        char path[32];
        snprintf(path, sizeof(path), "/many/f%03d", i);
        assert_ok(put(path, GY_PLACE_REPLACE, "", 0));
    }
    gy_place *place = kit_place(uri_of("/many/"));
    int count = 0;
    assert_ok(gy_place_list(place, count_entry, &count));
    assert_int_equal(count, MANY);
    gy_place_close(place);
    assert_true(kit_count(&stub, "GET LISTSTATUS_BATCH") >= 3);
    kit_check_list(uri_of("/many/f001"), "f001 ");
    kit_check_list(uri_of("/"), "a/ lost/ many/ new/ norename/ ");
}

GY_TEST(refusals_say_why)
{
    gy_place_facts facts;
    assert_ok(put("/busy/x", GY_PLACE_REPLACE, "x", 1));
    assert_ok(stat_of("/busy/x", &facts)); /* 503 twice */
    assert_status(stat_of("/denied/x", &facts), GY_IO);
    assert_says("access denied (403 AccessControlException: Permission denied");
    assert_says("HADOOP_USER_NAME is not set");
    assert_null(strstr(gy_error_text(), "Stack.java"));
    setenv("HADOOP_USER_NAME", "nobody", 1);
    assert_status(stat_of("/a/empty", &facts), GY_IO);
    assert_says("user: nobody");
    unsetenv("HADOOP_USER_NAME");
    assert_status(stat_of("/garbage/x", &facts), GY_FORMAT);
    assert_status(stat_of("/bare/x", &facts), GY_IO);
    assert_says("access denied (403)");
    assert_status(stat_of("/bare/500", &facts), GY_IO);
    assert_says("500");
    assert_status(stat_of("/none", &facts), GY_NOTFOUND);
}

GY_TEST(redirects_go_to_data_nodes_alone)
{
    assert_status(put("/elsewhere/x", GY_PLACE_REPLACE, "x", 1), GY_FORMAT);
    assert_says("ftp://");
    assert_true(put("/loop/x", GY_PLACE_REPLACE, "x", 1) < 0);
    assert_ok(put("/dead/x", GY_PLACE_REPLACE, "xyz", 3)); /* the first that is named is away */
    kit_check(uri_of("/dead/x"), "xyz", 3);
    assert_ok(put("/short/x", GY_PLACE_REPLACE, "0123456789", 10));
    gy_place *place = kit_place(uri_of("/short/x"));
    char out[10];
    size_t got = 0;
    assert_status(gy_place_read(place, NULL, 0, out, 10, &got), GY_IO);
    assert_says("5 bytes came of 10");
    assert_int_equal(got, 0);
    gy_place_close(place);
}

static gy_status do_everything(void)
{
    gy_place *place = NULL;
    GY_TRY(gy_place_open(gy_env_real(), uri_of("/memory/x"), NULL, &place));
    gy_status status = gy_place_write(place, GY_PLACE_REPLACE, "hello", 5);
    char out[8];
    size_t got = 0;
    status = status < 0 ? status : gy_place_read(place, NULL, 0, out, sizeof(out), &got);
    blocks seen = {.at = 0};
    status = status < 0 ? status : gy_place_blocks(place, 0, 5, check_block, &seen);
    gy_place_close(place);
    return status < 0 ? status : kit_list(uri_of("/memory"));
}

GY_TEST(failed_allocations_are_failures)
{
    kit_check_memory(do_everything, 10);
}

GY_TEST_MAIN(start_stub, stop_stub)
