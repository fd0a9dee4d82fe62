/* Goal: failures carry their text, the heap fails on demand, texts grow, numbers repeat by
 * counter. */
#include "base/base.h"
#include "base/lazy.h"
#include "base/setting_numbers.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gy_test.h"

GY_TEST(failure_keeps_text_and_gains_context)
{
    assert_int_equal(gy_fail(GY_SHAPE, "%d by %d", 2, 3), GY_SHAPE);
    assert_string_equal(gy_error_text(), "2 by 3");
    assert_int_equal(gy_fail_within(GY_SHAPE, "node %s", "dense1"), GY_SHAPE);
    assert_string_equal(gy_error_text(), "node dense1: 2 by 3");
    gy_error copy;
    gy_error_take(&copy, GY_SHAPE);
    (void)gy_fail(GY_SHAPE, "again %s", gy_error_text()); /* which lies where it is written */
    assert_string_equal(gy_error_text(), "again node dense1: 2 by 3");
    (void)gy_fail(GY_IO, "other");
    assert_int_equal(gy_error_raise(&copy), GY_SHAPE);
    assert_string_equal(gy_error_text(), "node dense1: 2 by 3");
}

GY_TEST(a_failure_with_a_long_path_keeps_its_end)
{
    char path[4096];
    memset(path, 'd', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(gy_fail(GY_IO, "cannot read %s: no such file", path), GY_IO);
    const char *text = gy_error_text();
    assert_int_equal(strncmp(text, "cannot read ddd", 15), 0);
    assert_non_null(strstr(text, "ddd: no such file"));
    assert_non_null(strstr(text, "d…d"));
    assert_int_equal(strlen(text), GY_ERROR_TEXT_BYTES - 1);
    assert_int_equal(gy_fail_within(GY_IO, "job %s", path), GY_IO);
    assert_int_equal(strncmp(gy_error_text(), "job ddd", 7), 0);
    assert_non_null(strstr(gy_error_text(), "ddd: no such file"));
}

GY_TEST(failures_are_printable)
{
    (void)gy_fail(GY_IO, "cannot read %s: gone", "a\x1b[31mred\nb\tc\x7f\xff");
    static const char expected[] = "cannot read a\\x1b[31mred\\nb\\tc\\x7f\\xff: gone";
    assert_string_equal(gy_error_text(), expected);
    (void)gy_fail(GY_IO, "%s", gy_error_text()); /* what was escaped is not escaped again */
    assert_string_equal(gy_error_text(), expected);
    (void)gy_fail_within(GY_IO, "%s", "of \x9b");
    assert_int_equal(strncmp(gy_error_text(), "of \\x9b: cannot", 15), 0);
}

GY_TEST(texts_from_outside_are_made_printable)
{
    static const struct {
        const char *text, *keeps, *expected;
    } rows[] = {
        {"", "", ""},
        {"plain", "", "plain"},
        {"a\nb", "\n", "a\nb"},
        {"a\nb\r", "\n", "a\nb\\r"},
        {"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", "", "ä € 😀"},
        {"\xc2\x9b"
         "31m",
         "", "\\xc2\\x9b31m"}, /* CSI of C1 */
        {"\xe2\x80\xae"
         "abc",
         "", "\\xe2\\x80\\xaeabc"},              /* turns the direction */
        {"\xc0\xaf", "", "\\xc0\\xaf"},          /* not the shortest form */
        {"\xed\xa0\x80", "", "\\xed\\xa0\\x80"}, /* half of a pair */
        {"\xe2\x82", "", "\\xe2\\x82"},          /* cut */
        {"\x1b]0;title\a", "", "\\x1b]0;title\\x07"},
    };
    char out[64];
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        size_t size =
            gy_printable(out, sizeof(out), rows[i].text, strlen(rows[i].text), rows[i].keeps);
        assert_string_equal(out, rows[i].expected);
        assert_int_equal(size, strlen(out));
    }
    assert_int_equal(gy_printable(out, sizeof(out), "a\0b", 3, "\n"), 6);
    assert_string_equal(out, "a\\x00b");
    /* Of what does not fit the middle goes, in whole characters. */
    char text[600];
    for (size_t size = 0; size < sizeof(text); size++) {
        text[size] = "\n\x1b\xe2\x82\xac"[size % 5];
        for (size_t room = 16; room < 40; room++) {
            size_t used = gy_printable(out, room, text, size + 1, "");
            assert_true(used < room && used == strlen(out));
            assert_int_equal(out[0], '\\');
        }
    }
}

GY_TEST(a_print_is_never_longer_than_its_room)
{
    char out[10] = "?????????";
    assert_int_equal(gy_print(out, 8, "%s", "0123456789"), 7);
    assert_string_equal(out, "0123456");
    assert_int_equal(out[8], '?');
    size_t used = 0;
    for (int i = 0; i < 5; i++) {
        used += gy_print(out + used, 8 - used, "%d,", 100 + i);
    }
    assert_int_equal(used, 7);
    assert_string_equal(out, "100,101");
    assert_int_equal(out[8], '?');
    assert_true(gy_print_whole(out, 8, "%s", "0123456"));
    assert_false(gy_print_whole(out, 8, "%s", "01234567"));
    assert_string_equal(out, "0123456");
}

GY_TEST(nth_allocation_fails)
{
    int64_t before = gy_alloc_live();
    gy_alloc_fail_after(2);
    void *first = gy_alloc("test", 100);
    assert_non_null(first);
    assert_int_equal((uintptr_t)first % 64, 0);
    assert_null(gy_alloc("test", 100));
    void *third = gy_alloc("test", 0);
    assert_non_null(third);
    assert_null(gy_alloc_zero("test", SIZE_MAX, 2));
    gy_free(first);
    gy_free(third);
    assert_int_equal(gy_alloc_live(), before);
}

GY_TEST(arrays_grow_and_keep_contents)
{
    int *items = NULL;
    size_t capacity = 0;
    for (int i = 0; i < 1000; i++) {
        assert_ok(GY_GROW("test", items, capacity, (size_t)i + 1));
        items[i] = i;
    }
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(items[i], i);
    }
    gy_free(items);
}

GY_TEST(text_remembers_a_failed_append)
{
    gy_text text = {.data = NULL};
    assert_string_equal(gy_text_get(&text), "");
    gy_text_add(&text, "%s-%d", "a", 7);
    gy_text_add_bytes(&text, "xyz", 2);
    assert_string_equal(gy_text_get(&text), "a-7xy");
    gy_alloc_fail_after(1);
    gy_text_add(&text, "%5000s", "far");
    assert_int_equal(text.status, GY_NOMEM);
    gy_alloc_fail_after(0);
    gy_text_add(&text, "more");
    assert_string_equal(gy_text_get(&text), "a-7xy");
    char out[5];
    assert_string_equal(gy_text_move(&text, out, sizeof(out)), "out ");
    assert_null(text.data);
    gy_text_add(&text, "again");
    assert_string_equal(gy_text_move(&text, out, sizeof(out)), "agai");
}

/* A disk that gives two names, and then an error. */
static int cut_list(gy_env *env, const char *folder, gy_disk_visit visit, void *arg)
{
    (void)env;
    int ended = visit(arg, "one");
    ended = ended == 0 ? visit(arg, "two") : ended;
    return ended != 0 || folder[0] == 'w' ? ended : folder[0] == 'n' ? -ENOENT : -EIO;
}

static gy_status count_name(void *arg, const char *name)
{
    size_t *seen = arg;
    assert_string_equal(name, *seen % 2 == 0 ? "one" : "two");
    return ++*seen == 11 ? GY_AGAIN : *seen == 22 ? gy_fail(GY_STATE, "as asked") : GY_OK;
}

GY_TEST(a_folder_is_read_to_its_end_or_fails)
{
    gy_disk_ops disk = gy_disk_real;
    gy_env_ops ops = *gy_env_real()->ops;
    gy_env env = {&ops};
    size_t seen = 0;
    disk.list = cut_list;
    ops.disk = &disk;
    assert_ok(gy_disk_each(&env, "whole", count_name, &seen));
    assert_int_equal(seen, 2);
    assert_status(gy_disk_each(&env, "cut", count_name, &seen), GY_IO);
    assert_non_null(strstr(gy_error_text(), "cannot list cut"));
    assert_int_equal(seen, 4);
    assert_status(gy_disk_each(&env, "none", count_name, &seen), GY_NOTFOUND);
    seen = 10;
    assert_int_equal(gy_disk_each(&env, "cut", count_name, &seen), GY_AGAIN);
    assert_int_equal(seen, 11);
    seen = 20;
    assert_status(gy_disk_each(&env, "whole", count_name, &seen), GY_STATE);
    assert_status(gy_disk_each(gy_env_real(), "/gyre/not/there", count_name, &seen),
                  GY_NOTFOUND);
}

GY_TEST(a_hash_in_pieces_is_the_hash_at_once)
{
    gy_random random = {.key = gy_test_seed()};
    static unsigned char data[5000];
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (unsigned char)gy_random_u64(&random);
    }
    for (int round = 0; round < 200; round++) {
        size_t size = gy_random_below(&random, sizeof(data) + 1);
        gy_hash_stream stream;
        gy_hash_begin(&stream);
        for (size_t at = 0, piece = 0; at < size; at += piece) {
            piece = 1 + gy_random_below(&random, size - at);
            gy_hash_feed(&stream, data + at, piece);
        }
        assert_true(gy_hash_end(&stream) == gy_hash(data, size, 0));
    }
    uint64_t wide[2];
    gy_hash_wide("", 0, wide); /* as xxHash publishes it */
    assert_true(wide[0] == 0x99aa06d3014798d8u && wide[1] == 0x6001c324468d497fu);
}

GY_TEST(philox_gives_the_published_values)
{
    /* Known answers of the authors' Random123 distribution, kat_vectors: philox4x32 10 rounds.
     */
    uint32_t out[4];
    gy_philox(0, 0, 0, out);
    static const uint32_t zeros[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    assert_memory_equal(out, zeros, sizeof(zeros));
    gy_philox(UINT64_MAX, UINT64_MAX, UINT64_MAX, out);
    static const uint32_t ones[4] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
    assert_memory_equal(out, ones, sizeof(ones));
}

GY_TEST(bounded_numbers_stay_in_bounds_and_spread)
{
    gy_random random = {.key = gy_test_seed()};
    int seen[7] = {0};
    for (int i = 0; i < 7000; i++) {
        seen[gy_random_below(&random, 7)]++;
    }
    for (int i = 0; i < 7; i++) {
        assert_in_range(seen[i], 800, 1200);
    }
}

GY_TEST(arena_gives_zeroed_apart_pieces)
{
    gy_arena arena = {.blocks = NULL};
    unsigned char *a = gy_arena_alloc(&arena, 10);
    unsigned char *b = gy_arena_alloc(&arena, 100000);
    assert_non_null(a);
    assert_non_null(b);
    memset(a, 1, 10);
    for (int i = 0; i < 100000; i++) {
        assert_int_equal(b[i], 0);
    }
    gy_arena_free(&arena);
}

/* NOLINTNEXTLINE(readability-identifier-naming): of zlib.h, which this room has not */
unsigned long zlibCompileFlags(void);
/* NOLINTNEXTLINE(readability-identifier-naming) */
GY_LAZY("libz.so.1", unsigned long, zlibCompileFlags, (void), ())

GY_TEST(lazy_functions_are_those_of_the_library)
{
    void *library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
    unsigned long (*own)(void) = NULL;
    assert_non_null(library);
    *(void **)&own = dlsym(library, "zlibCompileFlags");
    assert_non_null(own);
    assert_true(own != zlibCompileFlags);
    assert_int_equal(zlibCompileFlags(), own());
    assert_int_equal(dlclose(library), 0);
}

GY_TEST(lazy_functions_that_are_missing_are_named)
{
    static const char *const cases[][2] = {{"libgyre-none.so", "deflate"},
                                           {"libz.so.1", "no_such_function"}};
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        int ends[2], status = 0;
        char said[512] = "";
        assert_int_equal(pipe(ends), 0);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            dup2(ends[1], STDERR_FILENO);
            _Atomic(void *) found = NULL;
            (void)gy_lazy_find(&found, cases[i][0], cases[i][1]);
            _exit(0);
        }
        close(ends[1]);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(read(ends[0], said, sizeof(said) - 1) > 0);
        close(ends[0]);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        assert_non_null(strstr(said, cases[i][0]));
        assert_non_null(strstr(said, cases[i][1]));
    }
}

GY_TEST(numbers_are_none_auto_or_a_list)
{
    static const char *const wrong[] = {"-1",  "1000",   "0x1",    "1 ",   "nonee", "No",
                                        "+1",  "",       "0,,1",   "0,",   ",0",    "0,x",
                                        "0;1", "auto,0", "none,1", "0, 1", "1.5"};
    gy_setting_numbers read = {.count = 7};
    assert_ok(gy_base_setting_numbers("GYRE_TEST", NULL, &read));
    assert_true(!read.is_said && !read.is_auto && read.count == 0);
    assert_ok(gy_base_setting_numbers("GYRE_TEST", "007", &read));
    assert_true(read.is_said && !read.is_auto && read.count == 1 && read.numbers[0] == 7);
    assert_ok(gy_base_setting_numbers("GYRE_TEST", "auto", &read));
    assert_true(read.is_said && read.is_auto && read.count == 0);
    assert_ok(gy_base_setting_numbers("GYRE_TEST", "none", &read));
    assert_true(read.is_said && !read.is_auto && read.count == 0);
    assert_ok(gy_base_setting_numbers("GYRE_TEST", "2,0,999,2", &read));
    assert_int_equal(read.count, 4);
    assert_true(read.numbers[0] == 2 && read.numbers[1] == 0 && read.numbers[2] == 999 &&
                read.numbers[3] == 2);
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        assert_status(gy_base_setting_numbers("GYRE_TEST", wrong[i], &read), GY_ARG);
        assert_non_null(strstr(gy_error_text(), wrong[i]));
        assert_non_null(strstr(gy_error_text(), "GYRE_TEST"));
    }
    assert_int_equal(read.count, 4); /* untouched */
    char many[2 * GY_SETTING_NUMBERS_MAX + 2];
    memset(many, ',', sizeof(many));
    for (size_t i = 0; i <= GY_SETTING_NUMBERS_MAX; i++) {
        many[2 * i] = '0';
    }
    many[sizeof(many) - 1] = '\0';
    assert_status(gy_base_setting_numbers("GYRE_TEST", many, &read), GY_ARG);
    many[sizeof(many) - 3] = '\0';
    assert_ok(gy_base_setting_numbers("GYRE_TEST", many, &read));
    assert_int_equal(read.count, GY_SETTING_NUMBERS_MAX);
}

GY_TEST(names_are_as_far_as_their_letters)
{
    static const struct {
        const char *a, *b;
        bool ignores_case;
        int distance;
    } cases[] = {{"kitten", "sitting", false, 3},
                 {"", "abc", false, 3},
                 {"abc", "", true, 3},
                 {"", "", false, 0},
                 {"ab", "ba", false, 2},
                 {"Ab", "aB", false, 2},
                 {"Ab", "aB", true, 0},
                 {"[", "{", true, 1},
                 {"ax", "a", false, 1}};
    char a[80] = "", b[80] = "";
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        assert_int_equal(gy_text_distance(cases[i].a, cases[i].b, cases[i].ignores_case),
                         cases[i].distance);
    }
    memset(a, 'a', 70);
    memset(b, 'b', 70);
    assert_int_equal(gy_text_distance(a, b, false), 63);
    memset(b, 'a', 63);
    assert_int_equal(gy_text_distance(a, b, false), 0);
}

typedef struct heard {
    gy_log_level level;
    int count;
    char line[64];
} heard;

static void take_line(void *arg, gy_log_level level, const char *line)
{
    heard *last = arg;
    last->level = level;
    last->count++;
    (void)gy_print(last->line, sizeof(last->line), "%s", line);
}

GY_TEST(a_handler_takes_the_place_of_standard_error)
{
    heard last = {.level = GY_LOG_TRACE};
    gy_log_set_level(GY_LOG_WARN);
    gy_log_set_handler(take_line, &last);
    gy_log_message("rank %d left: \033", 3);
    assert_string_equal(last.line, "gyre: rank 3 left: \\x1b");
    assert_int_equal(last.level, GY_LOG_ERROR);
    gy_warn("slow");
    assert_string_equal(last.line, "gyre: warn: slow");
    assert_int_equal(last.level, GY_LOG_WARN);
    gy_debug("quiet"); /* below the level */
    assert_int_equal(last.count, 2);
    gy_log_set_level(GY_LOG_ERROR);
    gy_log_message("always");
    assert_int_equal(last.count, 3);
    gy_log_set_handler(NULL, NULL);
    gy_log_set_level(GY_LOG_WARN);
}

GY_TEST_MAIN(NULL, NULL)
