/* Removes the output of an interrupted job. A final name belongs to the job if its file also
 * has a name in a hidden folder of the job; all other files belong to others. */
#include "persist/history/history_priv.h"

#include "base/alloc.h"
#include "base/disk.h"
#include "base/fail.h"
#include "base/text.h"
#include "store/remote/remote.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, BEGINNING_BYTES = 512 };
static const char hidden[] = ".gyre-";

typedef struct finding {
    const char *output, *id;
    struct file_name {
        dev_t device;
        ino_t file;
    } * files; /* (count) in its hidden folders */
    size_t count, room;
} finding;

/* Is it ".gyre-ID" or ".gyre-ID-EPOCH"? */
static bool is_hidden(const finding *of, const char *name)
{
    const size_t size = strlen(of->id);
    if (strncmp(name, hidden, sizeof(hidden) - 1) != 0 ||
        strncmp(name + sizeof(hidden) - 1, of->id, size) != 0) {
        return false;
    }
    const char *rest = name + sizeof(hidden) - 1 + size;
    return rest[0] == '\0' || (rest[0] == '-' && rest[1] != '\0' &&
                               rest[1 + strspn(rest + 1, "0123456789")] == '\0');
}

static gy_status join(char path[PATH_BYTES], const char *folder, const char *name)
{
    return snprintf(path, PATH_BYTES, "%s/%s", folder, name) < PATH_BYTES
               ? GY_OK
               : gy_fail(GY_IO, "the path %.100s.../%.100s is too long", folder, name);
}

/* Visit each name in a folder except . and ..; a missing folder counts as empty. */
static gy_status each(finding *of, const char *folder,
                      gy_status (*visit)(finding *of, const char *folder, const char *name))
{
    DIR *listing = opendir(folder);
    gy_status status = listing != NULL || errno == ENOENT || errno == ENOTDIR
                           ? GY_OK
                           : gy_fail(GY_IO, "cannot list %s: %s", folder, strerror(errno));
    for (struct dirent *at = listing != NULL ? readdir(listing) : NULL;
         at != NULL && status == GY_OK; at = readdir(listing)) {
        if (strcmp(at->d_name, ".") != 0 && strcmp(at->d_name, "..") != 0) {
            status = visit(of, folder, at->d_name);
        }
    }
    if (listing != NULL) {
        (void)closedir(listing);
    }
    return status;
}

static gy_status note_file(finding *of, const char *folder, const char *name)
{
    char path[PATH_BYTES];
    struct stat about;
    GY_TRY(join(path, folder, name));
    if (lstat(path, &about) != 0 || !S_ISREG(about.st_mode) || about.st_nlink < 2) {
        return GY_OK;
    }
    GY_TRY(GY_GROW("persist.history", of->files, of->room, of->count + 1));
    of->files[of->count++] = (struct file_name){about.st_dev, about.st_ino};
    return GY_OK;
}

static gy_status note_hidden(finding *of, const char *folder, const char *name)
{
    char path[PATH_BYTES];
    GY_TRY(join(path, folder, name));
    return is_hidden(of, name) ? each(of, path, note_file) : GY_OK;
}

static int compare_files(const void *left, const void *right)
{
    const struct file_name *a = left, *b = right;
    if (a->device != b->device) {
        return a->device < b->device ? -1 : 1;
    }
    return (a->file > b->file) - (a->file < b->file);
}

static gy_status remove_name(finding *of, const char *folder, const char *name)
{
    char path[PATH_BYTES];
    struct stat about;
    GY_TRY(join(path, folder, name));
    if (lstat(path, &about) != 0 || !S_ISREG(about.st_mode)) {
        return GY_OK;
    }
    const struct file_name own = {about.st_dev, about.st_ino};
    const bool is_own = of->count > 0 &&
                        bsearch(&own, of->files, of->count, sizeof(own), compare_files) != NULL;
    return !is_own || unlink(path) == 0 || errno == ENOENT
               ? GY_OK
               : gy_fail(GY_IO, "cannot remove %s: %s", path, strerror(errno));
}

static gy_status remove_hidden(finding *of, const char *folder, const char *name)
{
    char path[PATH_BYTES];
    GY_TRY(join(path, folder, name));
    const int error = is_hidden(of, name) ? gy_disk_remove_tree(path) : 0;
    return error == 0 ? GY_OK : gy_fail(GY_IO, "cannot remove %s: %s", path, strerror(-error));
}

/* Is the job's manifest there? Then its output is published and stays. */
static bool is_published(const finding *of)
{
    char path[PATH_BYTES], expected[BEGINNING_BYTES], there[BEGINNING_BYTES] = "";
    const size_t size = gy_print(expected, sizeof(expected),
                                 "{\"format\": \"gyre output 1\", \"job\": \"%s\",", of->id);
    if (join(path, of->output, "MANIFEST.json") < 0) {
        return false;
    }
    FILE *file = fopen(path, "re");
    const size_t got = file != NULL ? fread(there, 1, size, file) : 0;
    if (file != NULL) {
        (void)fclose(file);
    }
    return got == size && memcmp(there, expected, got) == 0;
}

static gy_status count_hidden(finding *of, const char *folder, const char *name)
{
    (void)folder;
    return is_hidden(of, name) ? GY_EXISTS : GY_OK;
}

gy_status gy_history_clear_output(const char *output, const char *id)
{
    finding of = {.output = output, .id = id};
    const gy_status found = each(&of, output, count_hidden);
    if (found != GY_EXISTS) {
        return found;
    }
    gy_status status = GY_OK;
    if (!is_published(&of)) {
        status = each(&of, output, note_hidden);
        if (of.count > 0) {
            qsort(of.files, of.count, sizeof(*of.files), compare_files);
        }
        status = status == GY_OK ? each(&of, output, remove_name) : status;
    }
    status = status == GY_OK ? each(&of, output, remove_hidden) : status;
    gy_free(of.files);
    (void)rmdir(output); /* if the folder is empty */
    return status;
}

/* ---- output in a remote store ---- */

/* Remove one object, or if is_there is given, only find out whether it exists. */
static gy_status visit_object(const char *uri, const char *name, bool *is_there)
{
    char object[PATH_BYTES];
    gy_place *place = NULL;
    gy_place_facts facts;
    if (!gy_print_whole(object, sizeof(object), "%s%s", uri, name)) {
        return gy_fail(GY_ARG, "the URI %.100s...%.100s is too long", uri, name);
    }
    GY_TRY(gy_place_open(gy_env_real(), object, NULL, &place));
    gy_status status = GY_OK;
    if (is_there != NULL) {
        status = gy_place_stat(place, &facts);
        *is_there = status == GY_OK;
        status = status == GY_NOTFOUND ? GY_OK : status;
    } else {
        status = gy_place_remove(place);
    }
    gy_place_close(place);
    return status;
}

static gy_status remove_object(finding *of, const char *folder, const char *name)
{
    (void)folder;
    return name[0] == '.' ? GY_OK : visit_object(of->output, name, NULL);
}

gy_status gy_history_clear_store(const char *uri, const char *folder)
{
    char staging[PATH_BYTES];
    bool is_there = false;
    finding of = {.output = uri, .id = ""};
    GY_TRY(join(staging, folder, "output"));
    if (access(staging, F_OK) != 0) {
        return GY_OK; /* the job had uploaded all of its files, or none */
    }
    GY_TRY(visit_object(uri, "MANIFEST.json", &is_there));
    return is_there ? GY_OK : each(&of, staging, remove_object);
}
