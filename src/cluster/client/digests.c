/*
 * A cache of files' content hashes by their stat, so that a program that is submitted a hundred
 * times is read once. The cache is a text file of the user, latest entries first; if anything
 * is wrong with it, the cache is empty. As in git's index (racy-git in its documentation) a
 * file that was modified within the last two seconds is not trusted, since timestamps are
 * coarse.
 */
#include "cluster/client/client_priv.h"

#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 64, ROW_BYTES = 192, FILE_BYTES = 64 + ROWS * ROW_BYTES, PATH_BYTES = 4096 };
static const char head[] = "gyre digests 1\n";
static const int64_t settled_ns = 2000000000;

typedef struct digest_row {
    uint64_t device, inode, size_bytes;
    int64_t modified_ns, changed_ns;
    gy_key content;
} digest_row;

struct gy_client_digests {
    char path[PATH_BYTES]; /* "": there is none */
    digest_row rows[ROWS];
    size_t count;
    bool is_other; /* differs from the file */
};

static int64_t nanoseconds(struct timespec time)
{
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static digest_row row_of(const struct stat *about)
{
    return (digest_row){.device = (uint64_t)about->st_dev,
                        .inode = (uint64_t)about->st_ino,
                        .size_bytes = (uint64_t)about->st_size,
                        .modified_ns = nanoseconds(about->st_mtim),
                        .changed_ns = nanoseconds(about->st_ctim)};
}

static bool is_same_file(const digest_row *a, const digest_row *b)
{
    return a->device == b->device && a->inode == b->inode;
}

static bool is_same(const digest_row *a, const digest_row *b)
{
    return is_same_file(a, b) && a->size_bytes == b->size_bytes &&
           a->modified_ns == b->modified_ns && a->changed_ns == b->changed_ns;
}

bool gy_client_is_same(const struct stat *a, const struct stat *b)
{
    const digest_row one = row_of(a), other = row_of(b);
    return is_same(&one, &other);
}

/* ---- the file ---- */

/* Read it into text (FILE_BYTES), NUL-terminated; false: there is none, or others may write
 * it. */
static bool read_text(const char *path, char *text)
{
    uint64_t size_bytes = 0;
    const int file = gy_base_open_own(path, &size_bytes);
    if (file < 0) {
        return false;
    }
    const bool is_read = size_bytes > 0 && size_bytes < FILE_BYTES &&
                         gy_base_read_whole(file, 0, text, (size_t)size_bytes) == 0;
    (void)close(file);
    text[is_read ? size_bytes : 0] = '\0';
    return is_read;
}

static void read_rows(gy_client_digests *digests, const char *text)
{
    if (strncmp(text, head, sizeof(head) - 1) != 0) {
        return;
    }
    const char *at = text + sizeof(head) - 1;
    for (const char *end; digests->count < ROWS && (end = strchr(at, '\n')) != NULL;
         at = end + 1) {
        unsigned long long v[7];
        int used = 0;
        if (sscanf(at, "%llx %llx %llx %llx %llx %16llx%16llx%n", &v[0], &v[1], &v[2], &v[3],
                   &v[4], &v[5], &v[6], &used) != 7 ||
            at + used != end) {
            digests->count = 0;
            return;
        }
        digests->rows[digests->count++] = (digest_row){.device = v[0],
                                                       .inode = v[1],
                                                       .size_bytes = v[2],
                                                       .modified_ns = (int64_t)v[3],
                                                       .changed_ns = (int64_t)v[4],
                                                       .content = {v[5], v[6]}};
    }
}

gy_client_digests *gy_client_digests_open(void)
{
    gy_client_digests *made = gy_alloc_zero("client", 1, sizeof(*made));
    char *text = gy_alloc("client", FILE_BYTES);
    if (made == NULL || text == NULL) {
        gy_free(text);
        gy_free(made);
        return NULL;
    }
    if (gy_base_cache_path("/digests", made->path, sizeof(made->path)) < 0) {
        made->path[0] = '\0';
    } else if (read_text(made->path, text)) {
        read_rows(made, text);
    }
    gy_free(text);
    return made;
}

/* Written atomically: of two processes the later one's version stays. */
static void save(const gy_client_digests *digests)
{
    gy_text text = {.data = NULL};
    gy_text_add(&text, "%s", head);
    for (size_t i = 0; i < digests->count; i++) {
        const digest_row *row = &digests->rows[i];
        gy_text_add(&text, "%llx %llx %llx %llx %llx %016llx%016llx\n",
                    (unsigned long long)row->device, (unsigned long long)row->inode,
                    (unsigned long long)row->size_bytes, (unsigned long long)row->modified_ns,
                    (unsigned long long)row->changed_ns, (unsigned long long)row->content.high,
                    (unsigned long long)row->content.low);
    }
    int error = text.status == GY_OK ? gy_disk_make_folders(digests->path) : -ENOMEM;
    if (error == 0) {
        error = gy_base_replace_own(digests->path, text.data, text.size_bytes);
    }
    if (error != 0) {
        gy_debug("cannot write %s: %s", digests->path, strerror(-error));
    }
    gy_text_free(&text);
}

void gy_client_digests_close(gy_client_digests *digests)
{
    if (digests != NULL && digests->is_other && digests->path[0] != '\0') {
        save(digests);
    }
    gy_free(digests);
}

/* ---- entries ---- */

bool gy_client_digests_find(const gy_client_digests *digests, const struct stat *about,
                            gy_key *content)
{
    const digest_row wanted = row_of(about);
    for (size_t i = 0; digests != NULL && i < digests->count; i++) {
        if (is_same(&digests->rows[i], &wanted)) {
            *content = digests->rows[i].content;
            return true;
        }
    }
    return false;
}

void gy_client_digests_put(gy_client_digests *digests, const struct stat *about, gy_key content,
                           int64_t wall_ns)
{
    digest_row made = row_of(about);
    if (digests == NULL || wall_ns - settled_ns < made.modified_ns ||
        wall_ns - settled_ns < made.changed_ns) {
        return;
    }
    size_t at = 0;
    while (at < digests->count && !is_same_file(&digests->rows[at], &made)) {
        at++;
    }
    if (at == digests->count) { /* the oldest entry is dropped when the cache is full */
        at = GY_MIN(at, (size_t)ROWS - 1);
        digests->count = at + 1;
    }
    memmove(&digests->rows[1], &digests->rows[0], at * sizeof(made));
    made.content = content;
    digests->rows[0] = made;
    digests->is_other = true;
}

void gy_client_digests_forget(gy_client_digests *digests)
{
    if (digests != NULL) {
        digests->is_other = digests->is_other || digests->count > 0;
        digests->count = 0;
    }
}
