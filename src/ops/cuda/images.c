#include "ops/cuda/images.h"

#include "base/disk.h"
#include "base/hash.h"
#include "base/own.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    NAME_BYTES = 32, /* of a key, in hexadecimal digits */
    IMAGE_BYTES_MAX = 64 << 20,
    STALE_S = 3600 /* what a killed process has left half-written */
};
static const uint64_t magic = 0x31676d6965727967; /* "gyreimg1"; it also tells byte orders */
static const uint64_t folder_bytes_max = 256 << 20;

/* What an image's file begins with. */
typedef struct image_head {
    uint64_t magic, key[2], size_bytes, checksum; /* gy_hash of the image, seeded by the key */
} image_head;

/* ---- keys ---- */

static void feed_text(gy_hash_stream *high, gy_hash_stream *low, const char *text)
{
    const size_t size = strlen(text) + 1; /* with its end: "a", "bc" is not "ab", "c" */
    gy_hash_feed(high, text, size);
    gy_hash_feed(low, text, size);
}

gy_cuda_image_key gy_cuda_image_key_of(const gy_cuda_image_source *source)
{
    gy_hash_stream high, low;
    char version[96];
    gy_hash_stream_begin(&high, magic);
    gy_hash_stream_begin(&low, ~magic);
    (void)gy_print(version, sizeof(version), "nvrtc %d.%d, build %016llx, %d options",
                   source->compiler_major, source->compiler_minor,
                   (unsigned long long)source->compiler_build, source->option_count);
    feed_text(&high, &low, version);
    for (int i = 0; i < source->option_count; i++) {
        feed_text(&high, &low, source->options[i]);
    }
    feed_text(&high, &low, source->text);
    return (gy_cuda_image_key){{gy_hash_end(&high), gy_hash_end(&low)}};
}

static uint64_t checksum_of(gy_cuda_image_key key, const void *image, size_t size_bytes)
{
    return gy_hash(image, size_bytes, key.hash[0] ^ key.hash[1]);
}

/* ---- the folder ---- */

static void warn_once(gy_cuda_images *images, const char *what, int error)
{
    if (!images->has_warned) {
        gy_warn("compiled kernels are not kept: %s %s: %s", what, images->folder,
                strerror(error));
        images->has_warned = true;
    }
}

/* Made if it is missing; EPERM: others may write to it. */
static int check_folder(const char *path)
{
    struct stat about;
    const int error = gy_disk_make_folders(path);
    if (error != 0) {
        return -error;
    }
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return errno;
    }
    if (lstat(path, &about) != 0) {
        return errno;
    }
    if (!S_ISDIR(about.st_mode)) {
        return ENOTDIR;
    }
    return about.st_uid == geteuid() && (about.st_mode & 022) == 0 ? 0 : EPERM;
}

void gy_cuda_images_open(gy_cuda_images *images)
{
    *images =
        (gy_cuda_images){.bytes_max = folder_bytes_max, .unmeasured_bytes = folder_bytes_max};
    if (gy_base_cache_path("/kernels", images->folder, sizeof(images->folder)) < 0) {
        gy_debug("compiled kernels are not kept: %s", gy_error_text());
        images->folder[0] = '\0';
        return;
    }
    const int error = images->folder[0] != '\0' ? check_folder(images->folder) : 0;
    if (error != 0) {
        warn_once(images, "no folder of this user's alone at", error);
        images->folder[0] = '\0';
    }
}

/* NULL: the path is too long. */
static const char *path_of(const gy_cuda_images *images, gy_cuda_image_key key, char *path,
                           size_t size_bytes)
{
    return gy_print_whole(path, size_bytes, "%s/%016llx%016llx", images->folder,
                          (unsigned long long)key.hash[0], (unsigned long long)key.hash[1])
               ? path
               : NULL;
}

/* ---- one image ---- */

/* Read all of it; what is wrong with it, or NULL. */
static const char *read_image(int file, uint64_t size_bytes, gy_cuda_image_key key,
                              gy_text *image)
{
    image_head head;
    const uint64_t rest = size_bytes - sizeof(head);
    if (size_bytes < sizeof(head) || rest > IMAGE_BYTES_MAX ||
        gy_base_read_whole(file, 0, &head, sizeof(head)) != 0) {
        return "its size is wrong";
    }
    if (head.magic != magic || head.size_bytes != rest ||
        memcmp(head.key, key.hash, sizeof(head.key)) != 0) {
        return "its head is wrong";
    }
    char *bytes = gy_alloc("ops.cuda.image", (size_t)rest + 1);
    if (bytes == NULL) {
        return "out of memory";
    }
    const char *wrong = gy_base_read_whole(file, sizeof(head), bytes, (size_t)rest) == 0 &&
                                checksum_of(key, bytes, (size_t)rest) == head.checksum
                            ? NULL
                            : "its checksum is wrong";
    if (wrong == NULL) {
        gy_text_add_bytes(image, bytes, (size_t)rest);
        wrong = image->status == GY_OK ? NULL : "out of memory";
    }
    gy_free(bytes);
    return wrong;
}

bool gy_cuda_images_find(gy_cuda_images *images, gy_cuda_image_key key, gy_text *image)
{
    char path[GY_CUDA_IMAGES_PATH_BYTES];
    uint64_t size_bytes = 0;
    GY_ASSERT(image->data == NULL && image->status == GY_OK);
    if (images->folder[0] == '\0' || path_of(images, key, path, sizeof(path)) == NULL) {
        return false;
    }
    const int file = gy_base_open_own(path, &size_bytes);
    if (file < 0) {
        if (file != -ENOENT) {
            gy_debug("%s is not taken: %s", path, strerror(-file));
        }
        return false;
    }
    const char *wrong = read_image(file, size_bytes, key, image);
    if (wrong != NULL) {
        gy_debug("%s is compiled again: %s", path, wrong);
        gy_text_free(image);
        *image = (gy_text){.data = NULL};
    } else {
        (void)futimens(file, NULL); /* when it was used; a disk that is read only keeps none */
    }
    (void)close(file);
    return wrong == NULL;
}

/* ---- the bound ---- */

typedef struct kept_file {
    char name[NAME_BYTES + 8];
    int64_t used_ns;
    uint64_t size_bytes;
} kept_file;

typedef struct kept_files {
    kept_file *all;
    size_t count, capacity;
    uint64_t size_bytes;
} kept_files;

static int by_use(const void *a, const void *b)
{
    const kept_file *one = a, *other = b;
    return one->used_ns < other->used_ns   ? -1
           : one->used_ns > other->used_ns ? 1
                                           : strcmp(one->name, other->name);
}

/* A file of the folder: an image is listed, what is left of a killed process removed. */
static gy_status look_at(int folder, const char *name, kept_files *files)
{
    struct stat about;
    const size_t digits = strspn(name, "0123456789abcdef");
    if (digits != NAME_BYTES || (name[digits] != '\0' && name[digits] != '.') ||
        fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(about.st_mode)) {
        return GY_OK;
    }
    if (name[digits] == '.') {
        if (about.st_mtim.tv_sec < time(NULL) - STALE_S) {
            (void)unlinkat(folder, name, 0);
        }
        return GY_OK;
    }
    GY_TRY(GY_GROW("ops.cuda.images", files->all, files->capacity, files->count + 1));
    kept_file *file = &files->all[files->count++];
    *file = (kept_file){.used_ns =
                            about.st_mtim.tv_sec * INT64_C(1000000000) + about.st_mtim.tv_nsec,
                        .size_bytes = (uint64_t)about.st_size};
    (void)gy_print(file->name, sizeof(file->name), "%s", name);
    files->size_bytes += file->size_bytes;
    return GY_OK;
}

/* Remove what was used longest ago until there is some room. */
static void bound(gy_cuda_images *images)
{
    const uint64_t wanted = images->bytes_max - images->bytes_max / 16;
    kept_files files = {.count = 0};
    DIR *folder = opendir(images->folder);
    gy_status status = folder != NULL ? GY_OK : GY_IO;
    for (const struct dirent *entry; status == GY_OK && (entry = readdir(folder)) != NULL;) {
        status = look_at(dirfd(folder), entry->d_name, &files);
    }
    if (status == GY_OK && files.count > 0) {
        qsort(files.all, files.count, sizeof(*files.all), by_use);
    }
    for (size_t i = 0; status == GY_OK && i < files.count && files.size_bytes > wanted; i++) {
        (void)unlinkat(dirfd(folder), files.all[i].name, 0); /* or another process has */
        files.size_bytes -= files.all[i].size_bytes;
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    gy_free(files.all);
    images->unmeasured_bytes = 0;
}

void gy_cuda_images_put(gy_cuda_images *images, gy_cuda_image_key key, const gy_text *image)
{
    char path[GY_CUDA_IMAGES_PATH_BYTES];
    if (images->folder[0] == '\0' || image->size_bytes > IMAGE_BYTES_MAX ||
        path_of(images, key, path, sizeof(path)) == NULL) {
        return;
    }
    const image_head head = {
        .magic = magic,
        .key = {key.hash[0], key.hash[1]},
        .size_bytes = image->size_bytes,
        .checksum = checksum_of(key, image->data, image->size_bytes),
    };
    gy_text file = {.data = NULL};
    gy_text_add_bytes(&file, &head, sizeof(head));
    gy_text_add_bytes(&file, image->data, image->size_bytes);
    const int error =
        file.status == GY_OK ? gy_base_replace_own(path, file.data, file.size_bytes) : -ENOMEM;
    images->unmeasured_bytes += file.size_bytes;
    gy_text_free(&file);
    if (error != 0) {
        warn_once(images, "cannot write to", -error);
    }
    if (images->unmeasured_bytes >= images->bytes_max / 16) {
        bound(images);
    }
}
