/* Folders become the files in them, in order and without what does not count. */
#include "store/store.h"

#include "base/alloc.h"
#include "base/disk.h"
#include "base/fail.h"
#include "base/text.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gy_test.h"

static char folder[64];

static int enter(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/gyre-list-XXXXXX");
    if (mkdtemp(folder) == NULL || chdir(folder) != 0) {
        return -1;
    }
    char out[64];
    return gy_test_shell("mkdir -p d/b/c empty && touch d/z d/a d/b/y d/b/c/x d/.h d/_s "
                         "d/MANIFEST.json plain .named && ln -s z d/link && ln -s d to && "
                         "mkfifo d/pipe",
                         out, sizeof(out));
}

static int leave(void **state)
{
    (void)state;
    return chdir("/") != 0 || gy_disk_remove_tree(folder) != 0;
}

static void expect(const char *const *paths, const char *expected)
{
    gy_file_list *list;
    assert_int_equal(gy_file_list_make(paths, &list), GY_OK);
    char text[1024] = "";
    size_t at = 0;
    for (size_t i = 0; i < list->count; i++) {
        at += gy_print(text + at, sizeof(text) - at, "%s ", list->paths[i]);
    }
    assert_null(list->paths[list->count]);
    gy_file_list_free(list);
    assert_string_equal(text, expected);
}

GY_TEST(folders_become_their_files)
{
    expect((const char *[]){"d", NULL}, "d/a d/b/c/x d/b/y d/z ");
    expect((const char *[]){"plain", ".named", "d/b", "plain", NULL},
           "plain .named d/b/c/x d/b/y plain ");
    expect((const char *[]){"to", "empty", "d/link", NULL},
           "to/a to/b/c/x to/b/y to/z d/link ");
}

GY_TEST(what_is_not_there_is_named)
{
    gy_file_list *list = NULL;
    assert_int_equal(gy_file_list_make((const char *[]){"d", "none", NULL}, &list),
                     GY_NOTFOUND);
    assert_non_null(strstr(gy_error_text(), "cannot read none"));
    assert_int_equal(gy_file_list_make((const char *[]){"empty", NULL}, &list), GY_NOTFOUND);
    assert_non_null(strstr(gy_error_text(), "no file in empty"));
    assert_int_equal(gy_file_list_make((const char *[]){NULL}, &list), GY_NOTFOUND);
    assert_null(list);
}

static void expect_link_to_nothing(const char *make, const char *link)
{
    char out[64];
    gy_file_list *list = NULL;
    assert_int_equal(gy_test_shell(make, out, sizeof(out)), 0);
    assert_int_equal(gy_file_list_make((const char *[]){"d", NULL}, &list), GY_NOTFOUND);
    assert_non_null(strstr(gy_error_text(), link));
    assert_non_null(strstr(gy_error_text(), "a link to nothing"));
    assert_int_equal(unlink(link), 0);
}

GY_TEST(a_link_to_nothing_is_not_passed_over)
{
    char out[64];
    expect_link_to_nothing("ln -s gone d/b/part", "d/b/part");
    expect_link_to_nothing("ln -s z/gone d/through", "d/through");
    expect_link_to_nothing("ln -s round d/round", "d/round");
    assert_int_equal(gy_test_shell("ln -s gone d/.part && ln -s gone d/_part", out, 64), 0);
    expect((const char *[]){"d", NULL}, "d/a d/b/c/x d/b/y d/z ");
}

/* The list that paths make, and the line that says what is missing in it. */
static void expect_with(const gy_file_list_options *options, const char *expected,
                        const char *line)
{
    char text[1024] = "", said[1024] = "";
    size_t at = 0;
    gy_file_list *list = NULL;
    const int screen = dup(STDERR_FILENO);
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    const gy_status status =
        gy_file_list_make_with((const char *[]){"more", NULL}, options, &list);
    assert_true(dup2(screen, STDERR_FILENO) >= 0);
    (void)close(screen);
    assert_int_equal(status, GY_OK);
    for (size_t i = 0; i < list->count; i++) {
        at += gy_print(text + at, sizeof(text) - at, "%s ", list->paths[i]);
    }
    gy_file_list_free(list);
    assert_string_equal(text, expected);
    rewind(file);
    const size_t size = fread(said, 1, sizeof(said) - 1, file);
    fclose(file);
    said[size] = '\0';
    assert_string_equal(said, line);
}

GY_TEST(what_is_left_out_is_counted)
{
    char out[64];
    assert_int_equal(
        gy_test_shell(
            "mkdir -p more/b more/.git && touch more/.h more/_SUCCESS more/a more/b/y "
            "more/.git/z && ln -s a more/l && ln -s . more/b/up && ln -s .. more/b/top "
            "&& ln -s b more/m && mkfifo more/p && printf '{\"format\": \"gyre output "
            "1\"' >more/MANIFEST.json",
            out, sizeof(out)),
        0);
    const char *const begin = "gyre: warn: left out of the inputs' folders: ";
    char line[512];
    snprintf(
        line, sizeof(line),
        "%s3 hidden names (more/.git, ...), which --hidden takes; 4 links (more/b/top, ...), "
        "which --follow-links takes; 1 pipe, socket or device (more/p)\n",
        begin);
    expect_with(NULL, "more/a more/b/y ", line);
    snprintf(
        line, sizeof(line),
        "%s4 links (more/b/top, ...), which --follow-links takes; 1 pipe, socket or device "
        "(more/p)\n",
        begin);
    expect_with(&(gy_file_list_options){.takes_hidden = true},
                "more/.git/z more/.h more/MANIFEST.json more/_SUCCESS more/a more/b/y ", line);
    snprintf(line, sizeof(line),
             "%s3 hidden names (more/.git, ...), which --hidden takes; 4 links back to folders "
             "above them (more/b/top, ...); 1 pipe, socket or device (more/p)\n",
             begin);
    expect_with(&(gy_file_list_options){.takes_links = true},
                "more/a more/b/y more/l more/m/y ", line);
    assert_int_equal(gy_test_shell("rm -rf more/[bmp] more/l more/.git more/.h more/_SUCCESS",
                                   out, sizeof(out)),
                     0);
    expect_with(NULL, "more/a ", ""); /* a job's own manifest is no data */
    assert_int_equal(gy_test_shell("echo '{}' >more/MANIFEST.json", out, sizeof(out)), 0);
    snprintf(line, sizeof(line), "%s1 hidden name (more/MANIFEST.json), which --hidden takes\n",
             begin);
    expect_with(NULL, "more/a ", line);
}

GY_TEST(memory_that_ends_is_a_failure)
{
    int64_t live = gy_alloc_live();
    for (int n = 1;; n++) {
        gy_file_list *list = NULL;
        gy_alloc_fail_after(n);
        gy_status status = gy_file_list_make((const char *[]){"d", NULL}, &list);
        gy_alloc_fail_after(0);
        gy_file_list_free(list);
        assert_int_equal(gy_alloc_live(), live);
        if (status == GY_OK) {
            assert_true(n > 5);
            break;
        }
        assert_int_equal(status, GY_NOMEM);
    }
}

GY_TEST_MAIN(enter, leave)
