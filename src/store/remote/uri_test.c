/* Goal: URIs, credentials and pauses, each a pure function of what stands there. */
#include "store/remote/remote_priv.h"

#include <string.h>

#include "gy_test.h"

GY_TEST(uris_are_taken_apart)
{
    static const struct {
        const char *text, *host, *path;
        gy_scheme scheme;
        int port;
    } good[] = {
        {"/a/b", "", "/a/b", GY_SCHEME_FILE, 0},
        {"a:b", "", "a:b", GY_SCHEME_FILE, 0},
        {"file:/a%20b", "", "/a b", GY_SCHEME_FILE, 0},
        {"file:///a", "", "/a", GY_SCHEME_FILE, 0},
        {"file://localhost/a", "", "/a", GY_SCHEME_FILE, 0},
        {"s3://my-bucket/a%20b//c", "my-bucket", "a%20b//c", GY_SCHEME_S3, 0},
        {"s3://my-bucket", "my-bucket", "", GY_SCHEME_S3, 0},
        {"hdfs://node/a", "node", "/a", GY_SCHEME_HDFS, 9870},
        {"S3://my-bucket/Key", "my-bucket", "Key", GY_SCHEME_S3, 0},
        {"WebHDFS://node/A", "node", "/A", GY_SCHEME_HDFS, 9870},
        {"File:///a", "", "/a", GY_SCHEME_FILE, 0},
        {"webhdfs://me@node:50070", "node", "/", GY_SCHEME_HDFS, 50070},
        {"swebhdfs://[::1]:9871/a/b", "[::1]", "/a/b", GY_SCHEME_HDFS, 9871},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        gy_uri uri;
        assert_ok(gy_uri_parse(good[i].text, &uri));
        assert_int_equal(uri.scheme, good[i].scheme);
        assert_string_equal(uri.host, good[i].host);
        assert_string_equal(uri.path, good[i].path);
        assert_int_equal(uri.port, good[i].port);
        assert_int_equal(gy_uri_is_remote(good[i].text), good[i].scheme != GY_SCHEME_FILE);
    }
    char longest[GY_URI_BYTES + 8];
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    char key[1200] = "s3://bucket/";
    memset(key + strlen(key), 'k', 1025);
    const char *const bad[] = {"",
                               "file:",
                               "file://host/a",
                               "file:/a%2",
                               "file:/a%00",
                               "gopher://x/y",
                               "s3://",
                               "s3://ab/x",
                               "s3://-bad/x",
                               "s3://bu cket/x",
                               "s3://bucket/a\nb",
                               "hdfs:///a",
                               "hdfs://node:0/a",
                               "hdfs://node:99999/a",
                               "hdfs://node:x/a",
                               "hdfs://node/a/../b",
                               "hdfs://me:secret@node/a",
                               longest,
                               key};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        gy_uri uri;
        assert_status(gy_uri_parse(bad[i], &uri), GY_ARG);
        assert_null(strstr(gy_error_text(), "secret"));
    }
}

/* Run in a folder of its own, where s3a:/there and s3:x are files. */
GY_TEST(unknown_schemes_are_refused)
{
    char folder[] = "/tmp/gyre-uri-XXXXXX", path[64], out[64];
    gy_uri uri;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(
        gy_test_shell("mkdir s3a: && touch s3a:/there s3:x file:x 'a b'", out, sizeof(out)), 0);
    static const char *const unknown[] = {"s3a://there/k", "s3n://b/k",  "gs://b/k",
                                          "abfs://b/k",    "ftp://h/f",  "http://h/f",
                                          "x-y.z+1://h/f", "HTTPS://h/f"};
    for (size_t i = 0; i < GY_COUNT(unknown); i++) {
        assert_status(gy_uri_check(unknown[i]), GY_ARG);
        assert_non_null(strstr(gy_error_text(), "expected s3, hdfs, webhdfs, swebhdfs, file"));
        assert_status(gy_uri_check_new(unknown[i]), GY_ARG);
        assert_status(gy_store_path_local(unknown[i], "the memo", path, sizeof(path)), GY_ARG);
        assert_status(gy_uri_parse(unknown[i], &uri), GY_ARG);
    }
    assert_status(gy_uri_check_new("s3a://b/k"), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "write s3:"));
    assert_ok(gy_uri_check("s3a://there")); /* a file */
    assert_status(gy_uri_check_new("s3a://there"), GY_ARG);
    assert_status(gy_uri_check_new("s3:/b/k"), GY_ARG);
    assert_status(gy_uri_check_new("HDFS:/k"), GY_ARG);
    static const char *const paths[][2] = {{"s3:x", "s3:x"},          {"x:1:2", "x:1:2"},
                                           {"./gs://b", "./gs://b"},  {"file:x", "file:x"},
                                           {"file:a%20b", "a b"},     {"file:/a%25", "/a%"},
                                           {"FILE://LOCALHOST/", "/"}};
    for (size_t i = 0; i < GY_COUNT(paths); i++) {
        assert_ok(gy_uri_check_new(paths[i][0]));
        assert_ok(gy_store_path_local(paths[i][0], "the memo", path, sizeof(path)));
        assert_string_equal(path, paths[i][1]);
    }
    assert_status(gy_store_path_local("s3://bucket/k", "the memo", path, sizeof(path)), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "the memo is 's3://bucket/k'"));
    assert_status(gy_store_path_local("file://host/k", "the memo", path, sizeof(path)), GY_ARG);
    assert_status(gy_store_path_local("a-path-of-more", "the memo", path, 14), GY_ARG);
    assert_ok(gy_uri_parse("S3://bucket/Key", &uri));
    assert_string_equal(uri.text, "s3://bucket/Key");
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(gy_disk_remove_tree(folder), 0);
}

GY_TEST(credentials_are_found_by_profile)
{
    static const char text[] =
        "# mine\n[default]\naws_access_key_id = A\naws_secret_access_key=b=c\n"
        "s3 =\n  region = inner\n\n[profile other]\r\n"
        "region = eu-north-1\r\naws_access_key_id=B\n";
    static const struct {
        const char *profile, *name, *value;
    } cases[] = {{"default", "aws_access_key_id", "A"},
                 {"default", "aws_secret_access_key", "b=c"},
                 {"default", "region", ""},
                 {"other", "region", "eu-north-1"},
                 {"other", "aws_access_key_id", "B"},
                 {"third", "region", ""}};
    char value[16];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_ok(gy_login_value(text, cases[i].profile, cases[i].name, value, sizeof(value)));
        assert_string_equal(value, cases[i].value);
    }
    assert_status(gy_login_value("[default\n", "default", "x", value, 16), GY_FORMAT);
    assert_status(gy_login_value("what\n", "default", "x", value, 16), GY_FORMAT);
    assert_status(gy_login_value("[a]\nx = 0123456789abcdef\n", "a", "x", value, 16), GY_LIMIT);
    assert_null(strstr(gy_error_text(), "0123"));
}

GY_TEST(pauses_double_to_a_limit)
{
    double before = 0;
    for (int i = 1; i < 40; i++) {
        const double longest = gy_store_retry_pause_s(i, 0),
                     shortest = gy_store_retry_pause_s(i, 1);
        assert_true(longest >= before && longest <= 5 && longest >= 0.1);
        assert_true(shortest * 2 >= longest * 0.999 && shortest <= longest);
        before = longest;
    }
    assert_true(before > 4.9);
}

GY_TEST_MAIN(NULL, NULL)
