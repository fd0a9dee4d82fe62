/*
 * Goal: texts that name files are taken apart as their documentation says, and what is no name
 * is refused by name.
 */
#include "store/host_file.h"

#include <string.h>

#include "gy_test.h"

GY_TEST(texts_are_taken_apart)
{
    static const struct {
        const char *text, *hosts, *path;
    } rows[] = {
        {"a/b", "", "a/b"},
        {"/a%20b", "", "/a%20b"},
        {"file:/a%20b", "", "/a b"},
        {"file:///a", "", "/a"},
        {"file://localhost/a", "", "/a"},
        {"file://h1/a/b", "h1", "/a/b"},
        {"file://h1,rack-2.example_x/%41%2f", "h1 rack-2.example_x", "/A/"},
        {"file://localhost2/a", "localhost2", "/a"},
        {"file", "", "file"},
        {"s3://bucket/key", "", "s3://bucket/key"},
        {"FILE:///a%41", "", "/aA"},
        {"file://LocalHost/a", "", "/a"},
        {"./s3a://b/k", "", "./s3a://b/k"},
        {"a:b", "", "a:b"},
        {"x:1:2", "", "x:1:2"},
        {"c://d", "", "c://d"}, /* a scheme of one letter is none */
    };
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        gy_host_file file;
        assert_int_equal(gy_host_file_read(rows[i].text, &file), GY_OK);
        assert_string_equal(file.hosts, rows[i].hosts);
        assert_string_equal(file.path, rows[i].path);
        assert_int_equal(gy_host_file_is(rows[i].text), rows[i].hosts[0] != '\0');
    }
}

GY_TEST(what_is_none_is_refused)
{
    static const char *const wrong[] = {"",
                                        "file:",
                                        "file://h1",
                                        "file://h1,/a",
                                        "file://,h1/a",
                                        "file://h1,,h2/a",
                                        "file://h 1/a",
                                        "file://h1:80/a",
                                        "s3a://bucket/key",
                                        "gs://bucket/key",
                                        "file:/a%2",
                                        "file:/a%zz"};
    gy_host_file file;
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        assert_int_equal(gy_host_file_read(wrong[i], &file), GY_ARG);
    }
    char text[5000] = "file://";
    memset(text + 7, 'h', GY_HOST_FILE_NAME);
    memcpy(text + 7 + GY_HOST_FILE_NAME - 1, "/a", 3); /* 63 letters */
    assert_int_equal(gy_host_file_read(text, &file), GY_OK);
    memset(text + 7, 'h', GY_HOST_FILE_NAME);
    memcpy(text + 7 + GY_HOST_FILE_NAME, "/a", 3);
    assert_int_equal(gy_host_file_read(text, &file), GY_ARG);
    memset(text, 'p', sizeof(text) - 1);
    assert_int_equal(gy_host_file_read(text, &file), GY_ARG);
}

GY_TEST_MAIN(NULL, NULL)
