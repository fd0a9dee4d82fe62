/* Which files a corpus is made of: one walk over /usr and /etc, labels from the path, and from
 * the #! line for shell scripts. */
#include "train/language/corpus_priv.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, NO_LABEL = -1, ORDER_SEED = 1, SPLIT_SEED = 2 };

typedef struct walk {
    corpus_list *list;
    int test_percent;
    char path[PATH_BYTES]; /* of the folder being read, under the root */
    size_t path_bytes;
} walk;

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool ends_with(const char *text, const char *suffix)
{
    size_t size = strlen(text), tail = strlen(suffix);
    return size >= tail && strcmp(text + size - tail, suffix) == 0;
}

/* English documents of a package: what Debian calls them, plain or compressed. */
static bool is_document(const char *name)
{
    static const char *const beginnings[] = {"copyright", "changelog", "README", "NEWS",
                                             "AUTHORS",   "THANKS",    "FAQ",    "ChangeLog",
                                             "CHANGES",   "HISTORY",   "INSTALL"};
    static const char *const not_prose[] = {".html", ".html.gz", ".xml", ".pdf",
                                            ".ps",   ".c",       ".py",  ".sh"};
    for (size_t i = 0; i < GY_COUNT(not_prose); i++) {
        if (ends_with(name, not_prose[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < GY_COUNT(beginnings); i++) {
        if (begins_with(name, beginnings[i])) {
            return true;
        }
    }
    return ends_with(name, ".txt") || ends_with(name, ".txt.gz");
}

/* Saves a look at most of the files that are no scripts. */
static bool may_be_script(const char *name)
{
    static const char *const others[] = {".h",   ".hpp", ".py",  ".pyc",  ".pm",   ".pl",
                                         ".gz",  ".so",  ".a",   ".o",    ".html", ".js",
                                         ".png", ".svg", ".xml", ".json", ".c",    ".cmake",
                                         ".txt", ".mo",  ".ts",  ".map",  ".md",   ".rst"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < GY_COUNT(others); i++) {
        if (strcmp(dot, others[i]) == 0) {
            return false;
        }
    }
    return true;
}

/* The label that path and name give; GY_LANGUAGE_SHELL is a guess that the #! line confirms. */
static int label_of(const char *folder, const char *name)
{
    if (begins_with(folder, "/usr/include/") || strcmp(folder, "/usr/include") == 0) {
        bool is_c = ends_with(name, ".h") && !begins_with(folder, "/usr/include/c++");
        return is_c ? GY_LANGUAGE_C : NO_LABEL;
    }
    if (begins_with(folder, "/usr/lib/python3") && ends_with(name, ".py")) {
        return GY_LANGUAGE_PYTHON;
    }
    if (begins_with(folder, "/usr/share/perl") &&
        (ends_with(name, ".pm") || ends_with(name, ".pl"))) {
        return GY_LANGUAGE_PERL;
    }
    if (begins_with(folder, "/usr/share/doc/") && is_document(name)) {
        return GY_LANGUAGE_PROSE;
    }
    return may_be_script(name) ? GY_LANGUAGE_SHELL : NO_LABEL;
}

/* True when the open file begins with a #! line that names a shell. */
static bool has_shell_line(int file)
{
    char head[128];
    ssize_t size = pread(file, head, sizeof(head) - 1, 0);
    if (size < 4 || head[0] != '#' || head[1] != '!') {
        return false;
    }
    head[size] = '\0';
    head[strcspn(head, "\n")] = '\0';
    static const char *const shells[] = {"sh", "bash", "dash", "ksh", "zsh"};
    char *rest = NULL;
    for (char *word = strtok_r(head + 2, " \t\r", &rest); word != NULL;
         word = strtok_r(NULL, " \t\r", &rest)) {
        const char *slash = strrchr(word, '/');
        const char *name = slash != NULL ? slash + 1 : word;
        for (size_t i = 0; i < GY_COUNT(shells); i++) {
            if (strcmp(name, shells[i]) == 0) {
                return true;
            }
        }
        if (strcmp(name, "env") != 0) {
            return false;
        }
    }
    return false;
}

static gy_status add_file(walk *state, const char *name, int label, int64_t size_bytes)
{
    corpus_list *list = state->list;
    GY_TRY(GY_GROW("train.corpus", list->files, list->capacity, list->count + 1));
    size_t name_bytes = strlen(name), size = state->path_bytes + 1 + name_bytes;
    char *path = gy_arena_alloc(&list->paths, size + 1);
    if (path == NULL) {
        return GY_NOMEM;
    }
    memcpy(path, state->path, state->path_bytes);
    path[state->path_bytes] = '/';
    memcpy(path + state->path_bytes + 1, name, name_bytes + 1);
    int64_t bucket = (int64_t)(gy_hash(path, size, SPLIT_SEED) % 100);
    list->files[list->count++] = (corpus_file){
        .path = path,
        .order = gy_hash(path, size, ORDER_SEED),
        .size_bytes = size_bytes,
        .label = (uint8_t)label,
        .is_test = bucket < state->test_percent,
        .is_gzip = ends_with(name, ".gz"),
    };
    return GY_OK;
}

static gy_status visit_file(walk *state, int folder, const char *name)
{
    int label = label_of(state->path, name);
    if (label == NO_LABEL) {
        return GY_OK;
    }
    struct stat about;
    if (fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(about.st_mode) ||
        about.st_size == 0) {
        return GY_OK;
    }
    if (label == GY_LANGUAGE_SHELL) {
        bool is_program = (about.st_mode & 0111) != 0 || strchr(name, '.') == NULL;
        if (!is_program && !ends_with(name, ".sh")) {
            return GY_OK;
        }
        int file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (file < 0) {
            return GY_OK;
        }
        bool is_shell = has_shell_line(file);
        close(file);
        if (!is_shell) {
            return GY_OK;
        }
    }
    return add_file(state, name, label, about.st_size);
}

static gy_status walk_folder(walk *state, int parent, const char *name, int depth);

static gy_status visit_entry(walk *state, int folder, const struct dirent *entry, int depth)
{
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
        return GY_OK;
    }
    unsigned char type = entry->d_type;
    if (type == DT_UNKNOWN) {
        struct stat about;
        if (fstatat(folder, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0) {
            return GY_OK;
        }
        type = S_ISDIR(about.st_mode) ? DT_DIR : S_ISREG(about.st_mode) ? DT_REG : DT_LNK;
    }
    if (type == DT_DIR) {
        return walk_folder(state, folder, entry->d_name, depth + 1);
    }
    if (type == DT_LNK) { /* of scripts there are many, whose files are found by themselves */
        const int label = label_of(state->path, entry->d_name);
        state->list->links += label != NO_LABEL && label != GY_LANGUAGE_SHELL;
    }
    return type == DT_REG ? visit_file(state, folder, entry->d_name) : GY_OK;
}

/* A folder that cannot be opened is passed over: how many there were is said. One that
 * breaks off is refused: nobody knows what of it is missing. */
static gy_status walk_folder(walk *state, int parent, const char *name, int depth)
{
    size_t name_bytes = strlen(name), before = state->path_bytes;
    if (depth > CORPUS_DEPTH || before + 1 + name_bytes >= PATH_BYTES) {
        state->list->folders++;
        return GY_OK;
    }
    int handle = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (handle < 0) {
        state->list->folders += errno != ENOENT; /* else it is gone */
        return GY_OK;
    }
    DIR *folder = fdopendir(handle);
    if (folder == NULL) {
        close(handle);
        return gy_fail(GY_NOMEM, "reading folder %s/%s: %s", state->path, name,
                       strerror(errno));
    }
    state->path[before] = '/';
    memcpy(state->path + before + 1, name, name_bytes + 1);
    state->path_bytes = before + 1 + name_bytes;
    gy_status status = GY_OK;
    const struct dirent *entry = NULL;
    while (status == GY_OK && (errno = 0, entry = readdir(folder)) != NULL) {
        status = visit_entry(state, handle, entry, depth);
    }
    if (status == GY_OK && errno != 0) {
        status = gy_fail(GY_IO, "reading folder %s: %s", state->path, strerror(errno));
    }
    closedir(folder);
    state->path_bytes = before;
    state->path[before] = '\0';
    return status;
}

static int compare_files(const void *left, const void *right)
{
    const corpus_file *a = left, *b = right;
    if (a->order != b->order) {
        return a->order < b->order ? -1 : 1;
    }
    return strcmp(a->path, b->path);
}

/* What reading the file may cost: text shrinks to about a quarter in gzip. */
static int64_t reading_bytes(const corpus_file *file)
{
    int64_t size = file->is_gzip ? 4 * file->size_bytes : file->size_bytes;
    return GY_MIN(size, (int64_t)CORPUS_FILE_BYTES);
}

static void cut_classes(corpus_list *list, int64_t class_bytes)
{
    int64_t bytes[GY_LANGUAGE_COUNT] = {0};
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        int64_t *sum = &bytes[list->files[i].label];
        *sum += reading_bytes(&list->files[i]);
        if (*sum <= class_bytes) {
            list->files[kept++] = list->files[i];
        }
    }
    list->count = kept;
}

gy_status gy_corpus_list_files(const gy_corpus_options *options, corpus_list *list)
{
    *list = (corpus_list){.count = 0};
    int root = open(options->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) {
        return gy_fail(GY_NOTFOUND, "corpus: cannot open folder '%s': %s", options->root,
                       strerror(errno));
    }
    walk *state = gy_alloc_zero("train.corpus", 1, sizeof(*state));
    gy_status status = GY_NOMEM;
    if (state != NULL) {
        state->list = list;
        state->test_percent = options->test_percent;
        status = walk_folder(state, root, "usr", 1);
        if (status == GY_OK) {
            status = walk_folder(state, root, "etc", 1);
        }
    }
    gy_free(state);
    close(root);
    if (status != GY_OK) {
        gy_corpus_list_free(list);
        return status;
    }
    if (list->count > 0) {
        qsort(list->files, list->count, sizeof(*list->files), compare_files);
    }
    cut_classes(list, options->class_bytes);
    return GY_OK;
}

void gy_corpus_list_free(corpus_list *list)
{
    gy_free(list->files);
    gy_arena_free(&list->paths);
    *list = (corpus_list){.count = 0};
}
