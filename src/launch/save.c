/* Writes the flight record of a launch: to the file given by the user, else beside the last
 * few. */
#include "launch/launch_priv.h"

#include "transport/recorder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEPT_FILES = 16, LISTED_FILES = 4 * KEPT_FILES, NAME_BYTES = 64 };

static const char name_begin[] = "flight-";

/* Create every folder of the path, accessible to its owner only. */
static bool make_folders(char *path)
{
    for (char *at = path + 1; *at != '\0'; at++) {
        if (*at == '/') {
            *at = '\0';
            bool is_there = mkdir(path, 0700) == 0 || errno == EEXIST;
            *at = '/';
            if (!is_there) {
                return false;
            }
        }
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The names begin with the time, so the first ones are the oldest. */
static void remove_oldest(const char *folder)
{
    char names[LISTED_FILES][NAME_BYTES], path[4096];
    size_t count = 0;
    DIR *files = opendir(folder);
    if (files == NULL) {
        return;
    }
    for (struct dirent *file = readdir(files); file != NULL && count < LISTED_FILES;
         file = readdir(files)) {
        if (strncmp(file->d_name, name_begin, strlen(name_begin)) == 0 &&
            strlen(file->d_name) < NAME_BYTES) {
            memcpy(names[count++], file->d_name, strlen(file->d_name) + 1);
        }
    }
    closedir(files);
    qsort(names, count, NAME_BYTES, compare_names);
    for (size_t i = 0; i + KEPT_FILES - 1 < count; i++) {
        int size = snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        if ((size_t)size < sizeof(path)) {
            (void)unlink(path);
        }
    }
}

/* Write the file atomically. */
static gy_status write_flight(const gy_flight *flight, const char *path)
{
    char part[4096];
    if ((size_t)snprintf(part, sizeof(part), "%s.part", path) >= sizeof(part)) {
        return gy_fail(GY_ARG, "the path of the flight recorder is too long");
    }
    int file = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) {
        return gy_fail(GY_IO, "cannot write %s: %s", part, strerror(errno));
    }
    gy_status status = gy_flight_write(flight, file);
    if (close(file) != 0 && status >= 0) {
        status = gy_fail(GY_IO, "cannot write %s: %s", part, strerror(errno));
    }
    if (status >= 0 && rename(part, path) != 0) {
        status = gy_fail(GY_IO, "cannot write %s: %s", path, strerror(errno));
    }
    if (status < 0) {
        (void)unlink(part);
    }
    return status;
}

/* A new file in the user's folder. */
static gy_status choose_path(const gy_flight_head *head, char *path, size_t size_bytes)
{
    GY_TRY(gy_launch_place_state_path(path, size_bytes));
    if (!make_folders(path)) {
        return gy_fail(GY_IO, "cannot make %s: %s", path, strerror(errno));
    }
    remove_oldest(path);
    size_t used = strlen(path);
    int size = snprintf(path + used, size_bytes - used, "/%s%020lld-%d", name_begin,
                        (long long)(head->wall_ns / 1000000), (int)head->keeper);
    return (size_t)size < size_bytes - used
               ? GY_OK
               : gy_fail(GY_ARG, "the path of the flight recorder is too long");
}

/* Did a rank hang or was it killed? A rank that reported its own cause needs no record. */
static bool is_worth_a_file(const gy_flight *flight, bool is_violent)
{
    int32_t status = flight->head.failure_status;
    if (!is_violent && status != GY_TIMEOUT && status != GY_MISMATCH && status != GY_PEER) {
        return false;
    }
    for (int rank = 0; rank < flight->head.ranks; rank++) {
        if (flight->ranks[rank].begun > 0) {
            return true;
        }
    }
    return false;
}

gy_status gy_launch_save_flight(int segment, const char *wanted, const gy_run_end *end,
                                char *path, size_t size_bytes)
{
    bool is_violent = end->status == GY_RUN_STATUS_TIMEOUT || end->status >= 128;
    gy_flight *flight = NULL;
    GY_TRY(gy_flight_take(segment, &flight));
    snprintf(flight->head.cause, sizeof(flight->head.cause), "%.1000s", end->text);
    gy_status status = GY_OK;
    if (wanted == NULL && !is_worth_a_file(flight, is_violent)) {
        status = GY_AGAIN;
    } else if (wanted == NULL) {
        status = choose_path(&flight->head, path, size_bytes);
    } else {
        snprintf(path, size_bytes, "%s", wanted);
    }
    if (status == GY_OK) {
        status = write_flight(flight, path);
    }
    gy_flight_free(flight);
    return status;
}
