/* Goal: addresses of etcd are parsed as documented, and its bytes and numbers are decoded; bad
 * ones are refused with the expected form. */
#include "persist/table/etcd_priv.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gy_test.h"

GY_TEST(an_address_is_taken_apart)
{
    static gy_etcd_where where;
    assert_ok(gy_etcd_where_parse("etcd:https://h1:2379,10.0.0.2:1,[::1]:65535/a/b", &where));
    assert_int_equal(where.count, 3);
    assert_true(where.is_tls);
    assert_string_equal(where.urls[0], "https://h1:2379");
    assert_string_equal(where.urls[1], "https://10.0.0.2:1");
    assert_string_equal(where.urls[2], "https://[::1]:65535");
    assert_string_equal(where.prefix, "a/b");
    assert_ok(gy_etcd_where_parse("etcd:http://h:1", &where));
    assert_string_equal(where.prefix, "gyre");
    assert_false(where.is_tls);
    assert_ok(gy_etcd_where_parse("etcd:http://h:1/", &where));
    assert_string_equal(where.prefix, "gyre");
    static const char *const wrong[] = {"etcd:",
                                        "etcd:h:1",
                                        "etcd:ftp://h:1",
                                        "etcd:http://",
                                        "etcd:http:///",
                                        "etcd:http://h",
                                        "etcd:http://:1",
                                        "etcd:http://h:0",
                                        "etcd:http://h:65536",
                                        "etcd:http://h:1,",
                                        "etcd:http://h:1,/p",
                                        "etcd:http://,h:1",
                                        "etcd:http://h:1x",
                                        "etcd:http://a@h:1",
                                        "etcd:http://h:1/a b",
                                        "etcd:http://[]:1",
                                        "etcd:http://h:1/\"",
                                        "etcd:http://h:1,http://h:2",
                                        "etcd:http://h:1?x"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        if (gy_etcd_where_parse(wrong[i], &where) != GY_ARG) {
            fail_msg("\"%s\" was taken: %s", wrong[i], where.urls[0]);
        }
    }
    static const struct {
        const char *where;
        bool is_loopback;
    } places[] = {{"etcd:http://127.0.0.1:1", true},     {"etcd:http://127.9.8.7:1/x", true},
                  {"etcd:http://[::1]:1", true},         {"etcd:http://localhost:1", true},
                  {"etcd:http://LocalHost:1/", true},    {"etcd:http://10.9.9.1:2379/x", false},
                  {"etcd:http://127.0.0.1.x:1", false},  {"etcd:http://localhost.x:1", false},
                  {"etcd:http://[::2]:1", false},        {"etcd:http://127.0.0.1:1,h:1", false},
                  {"etcd:http://h:1,127.0.0.1:1", false}};
    for (size_t i = 0; i < GY_COUNT(places); i++) {
        assert_ok(gy_etcd_where_parse(places[i].where, &where));
        if (where.is_loopback != places[i].is_loopback) {
            fail_msg("\"%s\" is %son the loopback", places[i].where,
                     where.is_loopback ? "" : "not ");
        }
    }
    char many[128] = "etcd:http://h:1";
    for (size_t i = 0, used = strlen(many); i < 16; i++, used += 4) {
        memcpy(many + used, ",h:1", 5);
    }
    assert_status(gy_etcd_where_parse(many, &where), GY_ARG);
}

GY_TEST(bytes_come_back)
{
    gy_random random = {.key = gy_test_seed()};
    for (size_t size = 0; size < 200; size++) {
        uint8_t data[200], back[200];
        for (size_t i = 0; i < size; i++) {
            data[i] = (uint8_t)gy_random_u64(&random);
        }
        gy_text text = {0};
        gy_etcd_add_bytes(&text, data, size);
        json_t *told = json_string(gy_text_get(&text));
        size_t got = 0;
        assert_ok(gy_etcd_bytes(told, back, size, &got));
        assert_int_equal(got, size);
        assert_memory_equal(back, data, size);
        if (size > 0) {
            assert_status(gy_etcd_bytes(told, back, size - 1, &got), GY_LIMIT);
        }
        json_decref(told);
        gy_text_free(&text);
    }
    static const char *const wrong[] = {
        "a", "ab", "abc", "====", "a===", "ab=c", "ab\ncd", "ab-_", "abcd=", "=abc"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        uint8_t back[16];
        size_t got = 0;
        json_t *told = json_string(wrong[i]);
        if (gy_etcd_bytes(told, back, sizeof(back), &got) != GY_FORMAT) {
            fail_msg("\"%s\" was taken", wrong[i]);
        }
        json_decref(told);
    }
}

GY_TEST(numbers_are_digits)
{
    static const struct {
        const char *document;
        gy_status status;
        uint64_t value;
    } cases[] = {{"{}", GY_OK, 0},
                 {"{\"n\":\"0\"}", GY_OK, 0},
                 {"{\"n\":\"7587869123456789012\"}", GY_OK, UINT64_C(7587869123456789012)},
                 {"{\"n\":\"99999999999999999999\"}", GY_FORMAT, 0},
                 {"{\"n\":\"\"}", GY_FORMAT, 0},
                 {"{\"n\":\"-1\"}", GY_FORMAT, 0},
                 {"{\"n\":\"1 \"}", GY_FORMAT, 0},
                 {"{\"n\":5}", GY_FORMAT, 0},
                 {"{\"n\":null}", GY_FORMAT, 0},
                 {"{\"n\":[]}", GY_FORMAT, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *document = json_loads(cases[i].document, 0, NULL);
        uint64_t value = 1;
        assert_int_equal(gy_etcd_number(document, "n", &value), cases[i].status);
        assert_true(value == cases[i].value);
        json_decref(document);
    }
}

GY_TEST(odd_answers_are_refused)
{
    static const char *const ranges[] = {
        "{\"kvs\":5}",
        "{\"kvs\":[{}]}",
        "{\"kvs\":[5]}",
        "{\"kvs\":[{\"version\":\"x\",\"mod_revision\":\"1\"}]}",
        "{\"kvs\":[{\"version\":\"1\"}]}",
        "{\"kvs\":{\"a\":1}}"};
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        json_t *document = json_loads(ranges[i], 0, NULL);
        gy_etcd_record record;
        assert_int_equal(gy_etcd_kv(document, 0, &record), GY_FORMAT);
        json_decref(document);
    }
    static const char *const answers[] = {"{}", "{\"responses\":{}}", "{\"responses\":[]}",
                                          "{\"responses\":[{\"response_put\":{}}]}",
                                          "{\"responses\":[{\"response_range\":7}]}"};
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        json_t *document = json_loads(answers[i], 0, NULL);
        gy_etcd_record record;
        assert_int_equal(gy_etcd_found(document, 0, &record), GY_FORMAT);
        json_decref(document);
    }
}

GY_TEST(a_password_is_this_users_alone)
{
    char path[] = "/tmp/gyre-password-XXXXXX", out[GY_ETCD_SECRET_BYTES];
    const int file = mkstemp(path);
    assert_true(file >= 0);
    gy_env *env = gy_env_real();
    assert_status(gy_etcd_password_read(env, path, out), GY_FORMAT);
    assert_int_equal(write(file, "secret\nmore\n", 12), 12);
    assert_ok(gy_etcd_password_read(env, path, out));
    assert_string_equal(out, "secret");
    assert_int_equal(fchmod(file, 0640), 0);
    assert_status(gy_etcd_password_read(env, path, out), GY_STATE);
    assert_int_equal(fchmod(file, 0600), 0);
    char long_one[300];
    memset(long_one, 'x', sizeof(long_one));
    assert_int_equal(pwrite(file, long_one, sizeof(long_one), 0), sizeof(long_one));
    assert_status(gy_etcd_password_read(env, path, out), GY_LIMIT);
    close(file);
    unlink(path);
    assert_status(gy_etcd_password_read(env, path, out), GY_IO);
}

GY_TEST_MAIN(NULL, NULL)
