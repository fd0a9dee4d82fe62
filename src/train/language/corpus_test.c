/* Goal: a corpus labels files rightly, keeps its limits, never has one line on both sides, is
 * the same for any number of ranks, and survives every odd file a machine may hold. */
#include "base/text.h"
#include "train/language/corpus_priv.h"
#include "train/language/ngrams.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "gy_test.h"

enum { MAX_RANKS = 4, TREE_BYTES = 512 };

/* ---- a made-up machine in a folder ---- */

typedef struct made_tree {
    char root[64];
} made_tree;

static int remove_entry(const char *path, const struct stat *about, int flag, struct FTW *where)
{
    (void)about;
    (void)flag;
    (void)where;
    return remove(path);
}

static int make_tree(void **state)
{
    made_tree *made = gy_alloc("test", sizeof(*made));
    snprintf(made->root, sizeof(made->root), "/tmp/gyre-corpus-XXXXXX");
    *state = made;
    return mkdtemp(made->root) == NULL ? 1 : 0;
}

static int remove_tree(void **state)
{
    made_tree *made = *state;
    nftw(made->root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    gy_free(made);
    return 0;
}

static const char *place(const made_tree *tree, const char *path, char out[TREE_BYTES])
{
    snprintf(out, TREE_BYTES, "%s%s", tree->root, path);
    for (char *slash = strchr(out + strlen(tree->root) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        assert_true(mkdir(out, 0755) == 0 || errno == EEXIST);
        *slash = '/';
    }
    return out;
}

static void put(const made_tree *tree, const char *path, const char *text, size_t size_bytes)
{
    char full[TREE_BYTES];
    FILE *file = fopen(place(tree, path, full), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size_bytes, file), size_bytes);
    fclose(file);
}

static void put_text(const made_tree *tree, const char *path, const char *text)
{
    put(tree, path, text, strlen(text));
}

/* A file of `count` different lines. */
static void put_lines(const made_tree *tree, const char *path, const char *first, int count)
{
    gy_text text = {.data = NULL};
    gy_text_add(&text, "%s", first);
    for (int i = 0; i < count; i++) {
        gy_text_add(&text, "  statement %s number %d;\n", path, i);
    }
    put(tree, path, text.data, text.size_bytes);
    gy_text_free(&text);
}

/* `files` files of each class with `lines` lines of their own and one line that all share. */
static void put_all_classes(const made_tree *tree, int files, int lines)
{
    static const char *const patterns[] = {
        "/usr/include/a/file%d.h", "/usr/lib/python3.11/file%d.py",
        "/usr/share/perl/5.36/file%d.pm", "/usr/share/doc/p%d/copyright", "/usr/bin/tool%d"};
    for (int i = 0; i < files; i++) {
        for (int k = 0; k < GY_LANGUAGE_COUNT; k++) {
            char path[TREE_BYTES];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(path, sizeof(path), patterns[k], i);
#pragma GCC diagnostic pop
            const char *first =
                k == GY_LANGUAGE_SHELL ? "#!/bin/sh\nthe shared line\n" : "the shared line\n";
            put_lines(tree, path, first, lines);
        }
    }
}

/* ---- ranks that are threads ---- */

typedef struct thread_meeting {
    pthread_barrier_t barrier;
    int ranks;
    const void *data[MAX_RANKS];
    size_t sizes[MAX_RANKS];
} thread_meeting;

typedef struct rank_member {
    thread_meeting *meeting;
    corpus_peers peers;
    gy_corpus_options options;
    gy_corpus *corpus;
    gy_status status;
    gy_error error;
} rank_member;

static gy_status gather(void *arg, const void *mine, size_t size_bytes, gy_text *all,
                        size_t *begins)
{
    rank_member *self = arg;
    thread_meeting *meeting = self->meeting;
    meeting->data[self->peers.rank] = mine;
    meeting->sizes[self->peers.rank] = size_bytes;
    pthread_barrier_wait(&meeting->barrier);
    for (int r = 0; r < meeting->ranks; r++) {
        begins[r] = all->size_bytes;
        gy_text_add_bytes(all, meeting->data[r], meeting->sizes[r]);
    }
    begins[meeting->ranks] = all->size_bytes;
    pthread_barrier_wait(&meeting->barrier);
    return all->status;
}

static void *run_member(void *arg)
{
    rank_member *self = arg;
    self->status = gy_corpus_read_with(&self->options, &self->peers, &self->corpus);
    if (self->status != GY_OK) {
        gy_error_take(&self->error, self->status);
    }
    return NULL;
}

/* Reads on `ranks` threads; members[0 .. ranks) have the outcomes. */
static void read_on(int ranks, const gy_corpus_options *options, rank_member members[MAX_RANKS])
{
    thread_meeting meeting = {.ranks = ranks};
    gy_thread threads[MAX_RANKS];
    pthread_barrier_init(&meeting.barrier, NULL, (unsigned)ranks);
    for (int r = 0; r < ranks; r++) {
        members[r] = (rank_member){.meeting = &meeting, .options = *options};
        members[r].peers =
            (corpus_peers){.rank = r, .ranks = ranks, .gather = gather, .arg = &members[r]};
        assert_ok(gy_thread_start(&threads[r], "rank", run_member, &members[r]));
    }
    for (int r = 0; r < ranks; r++) {
        gy_thread_join(&threads[r]);
    }
    pthread_barrier_destroy(&meeting.barrier);
}

static gy_status gather_alone(void *arg, const void *mine, size_t size_bytes, gy_text *all,
                              size_t *begins)
{
    (void)arg;
    begins[0] = all->size_bytes;
    gy_text_add_bytes(all, mine, size_bytes);
    begins[1] = all->size_bytes;
    return all->status;
}

static gy_status read_alone(const gy_corpus_options *options, gy_corpus **corpus)
{
    corpus_peers peers = {.ranks = 1, .gather = gather_alone};
    return gy_corpus_read_with(options, &peers, corpus);
}

static const corpus_file *find(const corpus_list *list, const char *path)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->files[i].path, path) == 0) {
            return &list->files[i];
        }
    }
    return NULL;
}

/* ---- the tests ---- */

static void labels_come_from_path_and_first_line(void **state)
{
    const made_tree *tree = *state;
    static const struct {
        const char *path, *text;
        int label; /* -1: no file of the corpus */
    } cases[] = {
        {"/usr/include/stdio.h", "int puts(const char *s);\n", GY_LANGUAGE_C},
        {"/usr/include/x86_64-linux-gnu/bits/types.h", "typedef int x;\n", GY_LANGUAGE_C},
        {"/usr/include/c++/12/cmath.h", "namespace std {}\n", -1},
        {"/usr/include/notes", "plain text here\n", -1},
        {"/usr/lib/python3.11/os.py", "import abc\n", GY_LANGUAGE_PYTHON},
        {"/usr/lib/python3/dist-packages/x.py", "import abc\n", GY_LANGUAGE_PYTHON},
        {"/usr/lib/other/x.py", "import abc\n", -1},
        {"/usr/share/perl5/Error.pm", "package Error;\n", GY_LANGUAGE_PERL},
        {"/usr/share/doc/gcc/copyright", "Permission is granted\n", GY_LANGUAGE_PROSE},
        {"/usr/share/doc/gcc/page.html", "<html></html>\n", -1},
        {"/usr/share/doc/gcc/examples/run", "#!/bin/sh\necho\n", GY_LANGUAGE_SHELL},
        {"/usr/bin/tool", "#! /usr/bin/env bash\necho\n", GY_LANGUAGE_SHELL},
        {"/usr/bin/other", "#!/usr/bin/perl\nprint\n", -1},
        {"/usr/bin/fish", "#!/usr/bin/fishsh\nprint\n", -1},
        {"/etc/init.d/cron", "#!/bin/dash -e\nstart\n", GY_LANGUAGE_SHELL},
        {"/etc/profile.d/plain.sh", "no first line\n", -1},
        {"/var/lib/thing.sh", "#!/bin/sh\n", -1},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        put_text(tree, cases[i].path, cases[i].text);
    }
    gy_corpus_options options = gy_corpus_defaults(&(gy_corpus_options){.root = tree->root});
    corpus_list list;
    assert_ok(gy_corpus_list_files(&options, &list));
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        const corpus_file *file = find(&list, cases[i].path);
        int label = file != NULL ? file->label : -1;
        if (label != cases[i].label) {
            fail_msg("%s has label %d, expected %d", cases[i].path, label, cases[i].label);
        }
    }
    gy_corpus_list_free(&list);
}

/* A byte order mark and lines that end by CR alone: the lines that there are. */
static void old_texts_have_lines(void **state)
{
    const made_tree *tree = *state;
    put_text(tree, "/old.txt",
             "\xef\xbb\xbfthe first line of some letters\rand a second line of letters\r");
    gy_text path = {0};
    gy_text_add(&path, "%s/old.txt", tree->root);
    corpus_scan scan;
    assert_ok(gy_corpus_scan_one(path.data, 10, &scan));
    assert_int_equal(scan.count, 2);
    assert_memory_equal(scan.texts.data, "the first line of some lettersand a second", 42);
    gy_corpus_scan_free(&scan);
    gy_text_free(&path);
}

static void limits_hold_and_classes_are_equal(void **state)
{
    const made_tree *tree = *state;
    put_all_classes(tree, 40, 30);
    put_lines(tree, "/usr/include/long.h", "", 500);
    gy_corpus_options options = {
        .root = tree->root, .file_lines = 7, .class_lines = 150, .smallest_class = 1};
    gy_corpus *corpus = NULL;
    assert_ok(read_alone(&options, &corpus));
    for (int k = 0; k < GY_LANGUAGE_COUNT; k++) {
        const gy_corpus_class *class = gy_corpus_class_of(corpus, (gy_language)k);
        assert_int_equal(class->train_lines + class->test_lines, 150);
        assert_in_range(class->files, 40, 41);
    }
    int in_file[512] = {0};
    for (int part = 0; part < 2; part++) {
        for (int64_t i = 0; i < gy_corpus_count(corpus, part == 1); i++) {
            in_file[gy_corpus_sample(corpus, part == 1, i).file]++;
        }
    }
    for (int i = 0; i < 512; i++) {
        assert_in_range(in_file[i], 0, 7);
    }
    gy_corpus_free(corpus);

    options = gy_corpus_defaults(&options);
    options.class_bytes = 4000; /* a file has about 1,500 bytes */
    corpus_list list;
    assert_ok(gy_corpus_list_files(&options, &list));
    int64_t bytes[GY_LANGUAGE_COUNT] = {0};
    for (size_t i = 0; i < list.count; i++) {
        bytes[list.files[i].label] += list.files[i].size_bytes;
    }
    for (int k = 0; k < GY_LANGUAGE_COUNT; k++) {
        assert_in_range(bytes[k], 1000, 4000);
    }
    gy_corpus_list_free(&list);
}

static void a_fifth_is_held_back_and_lines_are_spread(void **state)
{
    const made_tree *tree = *state;
    put_all_classes(tree, 60, 2);
    put_lines(tree, "/usr/include/long.h", "", 100);
    gy_corpus_options options =
        gy_corpus_defaults(&(gy_corpus_options){.root = tree->root, .file_lines = 10});
    corpus_list list;
    assert_ok(gy_corpus_list_files(&options, &list));
    int held_back = 0;
    for (size_t i = 0; i < list.count; i++) {
        held_back += list.files[i].is_test ? 1 : 0;
    }
    assert_in_range(held_back, 301 / 10, 301 * 3 / 10);
    corpus_scan scan;
    assert_ok(gy_corpus_scan_files(&options, &list, 0, 1, &scan));
    for (size_t i = 0; i < scan.count; i++) {
        if (strcmp(list.files[scan.lines[i].file].path, "/usr/include/long.h") == 0) {
            char wanted[64];
            const size_t size =
                gy_print(wanted, sizeof(wanted), "  statement /usr/include/long.h number %d;",
                         10 * scan.lines[i].line);
            assert_memory_equal(scan.texts.data + scan.begins[i], wanted, size);
        }
    }
    gy_corpus_scan_free(&scan);
    gy_corpus_list_free(&list);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void a_line_stands_once_and_a_file_on_one_side(void **state)
{
    const made_tree *tree = *state;
    put_all_classes(tree, 30, 12);
    gy_corpus_options options = {.root = tree->root, .smallest_class = 1};
    gy_corpus *corpus = NULL;
    assert_ok(read_alone(&options, &corpus));
    int side[256] = {0};
    size_t count = 0;
    static char *texts[4096];
    for (int part = 0; part < 2; part++) {
        assert_true(gy_corpus_count(corpus, part == 1) > 0);
        for (int64_t i = 0; i < gy_corpus_count(corpus, part == 1); i++) {
            gy_sample sample = gy_corpus_sample(corpus, part == 1, i);
            side[sample.file] |= 1 << part;
            texts[count] = gy_alloc("test", (size_t)sample.size_bytes + 1);
            memcpy(texts[count], sample.text, (size_t)sample.size_bytes);
            texts[count][sample.size_bytes] = '\0';
            count++;
        }
    }
    for (int i = 0; i < 256; i++) {
        assert_int_not_equal(side[i], 3);
    }
    qsort(texts, count, sizeof(texts[0]), compare_texts);
    for (size_t i = 1; i < count; i++) {
        assert_string_not_equal(texts[i], texts[i - 1]);
    }
    for (size_t i = 0; i < count; i++) {
        gy_free(texts[i]);
    }
    gy_corpus_free(corpus);
}

static void samples_do_not_depend_on_ranks(void **state)
{
    const made_tree *tree = *state;
    put_all_classes(tree, 40, 9);
    gy_corpus_options options = {.root = tree->root, .smallest_class = 1, .class_lines = 300};
    gy_corpus *alone = NULL;
    assert_ok(read_alone(&options, &alone));
    for (int ranks = 1; ranks <= MAX_RANKS; ranks++) {
        rank_member members[MAX_RANKS];
        read_on(ranks, &options, members);
        for (int r = 0; r < ranks; r++) {
            assert_int_equal(members[r].status, GY_OK);
            for (int part = 0; part < 2; part++) {
                int64_t count = gy_corpus_count(alone, part == 1);
                assert_int_equal(gy_corpus_count(members[r].corpus, part == 1), count);
                for (int64_t i = 0; i < count; i++) {
                    gy_sample a = gy_corpus_sample(alone, part == 1, i);
                    gy_sample b = gy_corpus_sample(members[r].corpus, part == 1, i);
                    assert_int_equal(a.size_bytes, b.size_bytes);
                    assert_memory_equal(a.text, b.text, (size_t)a.size_bytes);
                    assert_int_equal(a.label, b.label);
                    assert_int_equal(a.file, b.file);
                }
            }
            assert_memory_equal(gy_corpus_class_of(alone, GY_LANGUAGE_C),
                                gy_corpus_class_of(members[r].corpus, GY_LANGUAGE_C),
                                sizeof(gy_corpus_class));
            gy_corpus_free(members[r].corpus);
        }
    }
    gy_corpus_free(alone);
}

static void too_few_files_name_the_folders(void **state)
{
    const made_tree *tree = *state;
    put_all_classes(tree, 10, 20);
    gy_corpus_options options = {.root = tree->root};
    rank_member members[MAX_RANKS];
    read_on(2, &options, members);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(members[r].status, GY_NOTFOUND);
        assert_non_null(strstr(members[r].error.text, "/usr/include"));
        assert_non_null(strstr(members[r].error.text, "at least 500 lines"));
        assert_null(members[r].corpus);
    }
    gy_corpus *corpus = NULL;
    options.root = "/nonexistent-root";
    assert_status(read_alone(&options, &corpus), GY_NOTFOUND);
}

static void odd_files_are_counted_and_passed_over(void **state)
{
    const made_tree *tree = *state;
    put_text(tree, "/usr/include/good.h", "int first_function(void);\nx\n 123 456\n");
    put(tree, "/usr/include/nul.h", "int with\0nul bytes here;\n", 25);
    put_text(tree, "/usr/include/gone.h", "int gone_before_it_is_read;\n");
    put_text(tree, "/usr/include/empty.h", "");
    char full[TREE_BYTES];
    int file = open(place(tree, "/usr/include/sparse.h", full), O_CREAT | O_WRONLY, 0644);
    assert_true(file >= 0 && ftruncate(file, (off_t)1 << 30) == 0);
    close(file);
    put(tree, "/usr/share/doc/a/changelog.gz", "\x1f\x8b\x08 broken gzip", 16);
    assert_int_equal(symlink("..", place(tree, "/usr/include/loop", full)), 0);
    assert_int_equal(symlink("good.h", place(tree, "/usr/include/link.h", full)), 0);
    assert_int_equal(mkfifo(place(tree, "/usr/include/pipe.h", full), 0644), 0);
    char deep[TREE_BYTES] = "/usr/include";
    for (int depth = 2; depth <= CORPUS_DEPTH; depth++) { /* the last is not entered */
        assert_true(strlen(deep) + 3 < sizeof(deep));
        memcpy(deep + strlen(deep), "/d", 3);
        assert_int_equal(mkdir(place(tree, deep, full), 0755), 0);
    }

    gy_corpus_options options = gy_corpus_defaults(&(gy_corpus_options){.root = tree->root});
    corpus_list list;
    assert_ok(gy_corpus_list_files(&options, &list));
    assert_int_equal(list.count, 5);
    assert_int_equal(list.links, 1); /* link.h */
    assert_int_equal(list.folders, 1);
    assert_int_equal(unlink(place(tree, "/usr/include/gone.h", full)), 0);
    corpus_scan scan;
    assert_ok(gy_corpus_scan_files(&options, &list, 0, 1, &scan));
    const gy_corpus_class *class = &scan.classes[GY_LANGUAGE_C];
    assert_int_equal(class->files, 1);
    assert_int_equal(class->binary, 2); /* NUL bytes, and a gigabyte of them */
    assert_int_equal(class->unreadable, 1);
    assert_int_equal(scan.classes[GY_LANGUAGE_PROSE].unreadable, 1);
    assert_int_equal(scan.count, 1);
    assert_memory_equal(scan.texts.data, "int first_function(void);", 25);
    gy_corpus_scan_free(&scan);
    gy_corpus_list_free(&list);
}

/* How many more names come out of folders before one breaks off; < 0: all. */
static _Thread_local int names_left = -1;

struct dirent *readdir(DIR *folder)
{
    struct dirent *(*next)(DIR *) = NULL;
    void *found = dlsym(RTLD_NEXT, "readdir");
    memcpy(&next, &found, sizeof(next));
    if (names_left == 0) {
        errno = EIO;
        return NULL;
    }
    names_left -= names_left > 0;
    return next(folder);
}

static void a_folder_that_breaks_off_is_refused(void **state)
{
    const made_tree *tree = *state;
    put_text(tree, "/usr/include/good.h", "int first_function(void);\n");
    gy_corpus_options options = gy_corpus_defaults(&(gy_corpus_options){.root = tree->root});
    corpus_list list;
    for (int n = 0; n < 6; n++) { /* ".", ".." and a name in each of the two folders */
        names_left = n;
        gy_status status = gy_corpus_list_files(&options, &list);
        names_left = -1;
        assert_status(status, GY_IO);
        assert_non_null(strstr(gy_error_text(), "/usr"));
    }
    assert_ok(gy_corpus_list_files(&options, &list));
    assert_int_equal(list.count, 1);
    gy_corpus_list_free(&list);
}

static void compressed_documents_manuals_and_long_lines(void **state)
{
    const made_tree *tree = *state;
    char full[TREE_BYTES];
    gzFile packed = gzopen(place(tree, "/usr/share/doc/a/changelog.gz", full), "wb");
    assert_non_null(packed);
    assert_true(gzputs(packed, "  * A change for the better.\r\n\n\n") > 0);
    gzclose(packed);
    put_text(
        tree, "/usr/share/perl5/A.pm",
        "package Alpha;\n=head1 NAME\nprose inside\n=cut\nour $version;\n__END__\nafter it\n");
    gy_text text = {.data = NULL};
    for (int i = 0; i < 100000; i++) {
        gy_text_add_bytes(&text, "endless", 7);
    }
    put(tree, "/usr/lib/python3.11/long.py", text.data, text.size_bytes);
    gy_text_free(&text);

    gy_corpus_options options = gy_corpus_defaults(&(gy_corpus_options){.root = tree->root});
    corpus_list list;
    assert_ok(gy_corpus_list_files(&options, &list));
    corpus_scan scan;
    assert_ok(gy_corpus_scan_files(&options, &list, 0, 1, &scan));
    assert_int_equal(scan.count, 4);
    bool seen[3] = {false};
    for (size_t i = 0; i < scan.count; i++) {
        const char *line = scan.texts.data + scan.begins[i];
        size_t size = scan.begins[i + 1] - scan.begins[i];
        seen[0] |= size == 28 && memcmp(line, "  * A change for the better.", 28) == 0;
        seen[1] |= size == 13 && memcmp(line, "our $version;", 13) == 0;
        seen[2] |= size == GY_NGRAM_LINE_BYTES;
        assert_int_equal(memcmp(line, "prose", 5) == 0 || memcmp(line, "after", 5) == 0, 0);
    }
    assert_true(seen[0] && seen[1] && seen[2]);
    gy_corpus_scan_free(&scan);
    gy_corpus_list_free(&list);
}

static void lists_that_differ_are_a_mismatch(void **state)
{
    const made_tree *tree = *state;
    put_all_classes(tree, 10, 20);
    gy_corpus_options options = {.root = tree->root, .smallest_class = 1};
    thread_meeting meeting = {.ranks = 2};
    pthread_barrier_init(&meeting.barrier, NULL, 2);
    rank_member members[2];
    gy_thread threads[2];
    for (int r = 0; r < 2; r++) {
        members[r] = (rank_member){.meeting = &meeting, .options = options};
        members[r].options.class_bytes = r == 0 ? 0 : 3000; /* stands for a file that went */
        members[r].peers =
            (corpus_peers){.rank = r, .ranks = 2, .gather = gather, .arg = &members[r]};
        assert_ok(gy_thread_start(&threads[r], "rank", run_member, &members[r]));
    }
    for (int r = 0; r < 2; r++) {
        gy_thread_join(&threads[r]);
        assert_int_equal(members[r].status, GY_MISMATCH);
    }
    pthread_barrier_destroy(&meeting.barrier);
}

static void every_allocation_may_fail(void **state)
{
    const made_tree *tree = *state;
    put_all_classes(tree, 12, 4);
    gy_corpus_options options = {.root = tree->root, .smallest_class = 1, .test_percent = 50};
    int64_t before = gy_alloc_live();
    gy_status status = GY_NOMEM;
    int64_t n = 1;
    for (; status != GY_OK; n++) {
        gy_corpus *corpus = NULL;
        gy_alloc_fail_after(n);
        status = read_alone(&options, &corpus);
        gy_alloc_fail_after(0);
        assert_true(status == GY_OK || status == GY_NOMEM);
        assert_int_equal(status == GY_OK, corpus != NULL);
        gy_corpus_free(corpus);
        assert_int_equal(gy_alloc_live(), before);
    }
    assert_true(n > 10);
}

#define WITH_TREE(test) cmocka_unit_test_setup_teardown(test, make_tree, remove_tree)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_TREE(labels_come_from_path_and_first_line),
        WITH_TREE(old_texts_have_lines),
        WITH_TREE(limits_hold_and_classes_are_equal),
        WITH_TREE(a_fifth_is_held_back_and_lines_are_spread),
        WITH_TREE(a_line_stands_once_and_a_file_on_one_side),
        WITH_TREE(samples_do_not_depend_on_ranks),
        WITH_TREE(too_few_files_name_the_folders),
        WITH_TREE(odd_files_are_counted_and_passed_over),
        WITH_TREE(a_folder_that_breaks_off_is_refused),
        WITH_TREE(compressed_documents_manuals_and_long_lines),
        WITH_TREE(lists_that_differ_are_a_mismatch),
        WITH_TREE(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
