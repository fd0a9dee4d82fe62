/* Goal: texts become windows of characters, alike however they lie in files, and what is no
 * text is named with its place. */
#include "base/base.h"

#include <gyre/gpt.h>

#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "gy_test.h"

enum { LENGTH = 4, CHARACTERS = 100 };
static char folder[64];

static const char *in_folder(const char *name, char path[128])
{
    snprintf(path, 128, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text, size_t size)
{
    char path[128];
    FILE *file = fopen(in_folder(name, path), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void write_gzip(const char *name, const char *text, size_t size)
{
    char path[128];
    gzFile file = gzopen(in_folder(name, path), "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, text, (unsigned)size), size);
    assert_int_equal(gzclose(file), Z_OK);
}

static int open_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/gyre-text-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int close_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -r %s", folder);
    char said[8];
    return gy_test_shell(command, said, sizeof(said));
}

/* 100 characters: é, a line end, and letters in turn. */
static size_t make_text(char text[2 * CHARACTERS + 1])
{
    size_t size = 0;
    for (int i = 0; i < CHARACTERS; i++) {
        const char *next = i % 10 == 3 ? "\xc3\xa9" : i % 10 == 7 ? "\n" : "";
        if (*next == '\0') {
            text[size++] = (char)('a' + i % 6);
        } else {
            for (; *next != '\0'; next++) {
                text[size++] = *next;
            }
        }
    }
    return size;
}

/* The characters of window `index` of a set, and its labels. */
static void window(gy_dataset *set, int64_t index, int32_t x[LENGTH], int32_t labels[LENGTH])
{
    gy_view inputs = gy_view_of(x, GY_I32, (int64_t[]){1, LENGTH}, 2);
    gy_view outputs = gy_view_of(labels, GY_I32, (int64_t[]){1, LENGTH}, 2);
    assert_ok(set->ops->fill(set, &index, 1, &inputs, labels != NULL ? &outputs : NULL));
}

static void check_text(const char *const *paths, const char *text)
{
    gy_dataset *train = NULL, *test = NULL;
    assert_ok(gy_dataset_open_text(paths, LENGTH, &train, &test));
    assert_int_equal(gy_dataset_text_count(test), CHARACTERS);
    assert_int_equal(train->count, 22); /* 89 characters that have one behind them */
    assert_int_equal(test->count, 2);
    assert_int_equal(train->classes, 8);
    assert_string_equal(train->class_names[0], "\n");
    assert_string_equal(train->class_names[1], "a");
    assert_string_equal(test->class_names[7], "\xc3\xa9");
    const char *at = text;
    for (int64_t i = 0; i < train->count; i++) {
        int32_t x[LENGTH], labels[LENGTH], alone[LENGTH];
        window(train, i, x, labels);
        window(train, i, alone, NULL);
        assert_memory_equal(x, alone, sizeof(x));
        for (int t = 0; t < LENGTH; t++) {
            const char *name = train->class_names[x[t]];
            assert_int_equal(strncmp(at, name, strlen(name)), 0);
            at += strlen(name);
            name = train->class_names[labels[t]];
            assert_int_equal(strncmp(at, name, strlen(name)), 0);
        }
    }
    int32_t x[LENGTH];
    window(test, 0, x, x); /* labels come last: characters 91 to 94 */
    assert_string_equal(train->class_names[x[0]], "b");
    assert_string_equal(train->class_names[x[2]], "\xc3\xa9");
    gy_dataset_free(train);
    assert_string_equal(test->class_names[0], "\n"); /* it outlives its sibling */
    gy_dataset_free(test);
}

GY_TEST(windows_follow_one_another)
{
    char text[2 * CHARACTERS + 1] = "", paths[4][128];
    const size_t size = make_text(text);
    write_file("whole", text, size);
    check_text((const char *[]){in_folder("whole", paths[0]), NULL}, text);
    write_gzip("packed", text, size);
    check_text((const char *[]){in_folder("packed", paths[0]), NULL}, text);
    /* Two files and an empty one are one text; a byte order mark is none of it. */
    char marked[3 + 2 * CHARACTERS] = "\xef\xbb\xbf";
    memcpy(marked + 3, text, 31);
    write_file("first", marked, 3 + 31);
    write_file("nothing", "", 0);
    write_file("second", text + 31, size - 31);
    check_text((const char *[]){in_folder("first", paths[0]), in_folder("nothing", paths[1]),
                                in_folder("second", paths[2]), NULL},
               text);
}

GY_TEST(what_is_no_text_is_named)
{
    static char wide[(UINT16_MAX + 1) * 4];
    char long_text[200];
    memset(long_text, 'x', sizeof(long_text));
    size_t size = 0;
    for (unsigned code = 0x10000; code < 0x10000 + UINT16_MAX + 1; code++) {
        wide[size++] = (char)(0xf0 | code >> 18);
        wide[size++] = (char)(0x80 | (code >> 12 & 0x3f));
        wide[size++] = (char)(0x80 | (code >> 6 & 0x3f));
        wide[size++] = (char)(0x80 | (code & 0x3f));
    }
    const struct {
        const char *name, *text;
        size_t size;
        int64_t length;
        gy_status status;
        const char *words;
    } cases[] = {
        {"nul", "some\0text", 9, 1, GY_FORMAT, "nul: byte 0x00 at offset 4, expected text"},
        {"latin", "caf\xe9 au lait", 12, 1, GY_FORMAT, "latin: byte 0xe9 at offset 3"},
        {"cut", "abc\xc3", 4, 1, GY_FORMAT, "cut: byte 0xc3 at offset 3"},
        {"utf16",
         "\xff\xfe"
         "a\0b\0c\0",
         8, 1, GY_FORMAT, "UTF-16"},
        {"empty", "", 0, 1, GY_FORMAT, "empty: no text: the file is empty"},
        {"short", long_text, 200, 20, GY_ARG,
         "short: a text of 200 characters, of which the last 20 are the test part, is too "
         "short for windows of 20: expected shorter windows or more text"},
        {"none", long_text, 200, 0, GY_ARG, "windows of 0 characters"},
        {"many", wide, sizeof(wide), 4, GY_LIMIT, "more than 65535 different characters"},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        char path[128];
        gy_dataset *train = NULL, *test = NULL;
        write_file(cases[i].name, cases[i].text, cases[i].size);
        const char *paths[] = {in_folder(cases[i].name, path), NULL};
        assert_status(gy_dataset_open_text(paths, cases[i].length, &train, &test),
                      cases[i].status);
        assert_non_null(strstr(gy_error_text(), cases[i].words));
        assert_true(train == NULL && test == NULL);
    }
    gy_dataset *train = NULL, *test = NULL;
    assert_status(
        gy_dataset_open_text((const char *[]){"s3://bucket/key", NULL}, 4, &train, &test),
        GY_ARG);
    assert_status(
        gy_dataset_open_text((const char *[]){"/nonexistent/x", NULL}, 4, &train, &test),
        GY_NOTFOUND);
    /* As many windows as can be: one of the test part. */
    char path[128];
    assert_ok(gy_dataset_open_text((const char *[]){in_folder("short", path), NULL}, 19, &train,
                                   &test));
    assert_int_equal(test->count, 1);
    assert_int_equal(train->count, 9);
    gy_dataset_free(train);
    gy_dataset_free(test);
}

GY_TEST(plays_of_shakespeare)
{
    char path[1024];
    if (gy_test_data(path, "text/tinyshakespeare.txt") == NULL) {
        skip();
    }
    gy_dataset *train = NULL, *test = NULL;
    assert_ok(gy_dataset_open_text((const char *[]){path, NULL}, 64, &train, &test));
    assert_int_equal(train->classes, 65);
    assert_int_equal(gy_dataset_text_count(train), 1115394);
    assert_int_equal(train->count, (1115394 - 111539 - 1) / 64);
    assert_int_equal(test->count, (111539 - 1) / 64);
    gy_dataset_free(train);
    gy_dataset_free(test);
}

GY_TEST_MAIN(open_folder, close_folder)
