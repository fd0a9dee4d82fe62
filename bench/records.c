/*
 * Inputs for the rows of bench/jobs.py, and the floors under them, by two threads.
 *
 *   bench_records sort FILE RECORDS SEED PER_CENT   100 bytes each, as gensort's with a key of
 *                                                   10; PER_CENT of them have one key
 *   bench_records log FILE LINES SEED PAGES         Apache's common format; pages by Zipf's law
 *   bench_records copy FILE FOLDER                  FOLDER/part-00000 and 1: halves of FILE
 *   bench_records scan FILE                         every byte is looked at
 */
#include "base/base.h"
#include "base/text.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    RECORD = 100,
    KEY = 10,
    TOGETHER = 1000,
    RECORD_MOST = 200,
    THREADS = 2,
    BUFFER = 256 << 10,
};

/* The record's number decides its bytes. Returns how many. */
typedef size_t (*make_one)(char *to, uint64_t seed, uint64_t number, uint64_t how);

static size_t make_record(char *to, uint64_t seed, uint64_t number, uint64_t per_cent)
{
    uint32_t chance[12];
    for (uint64_t i = 0; i < 3; i++) {
        gy_philox(seed, number, i, chance + 4 * i);
    }
    const bool is_heavy = chance[11] % 100 < per_cent;
    for (int i = 0; i < KEY; i++) {
        to[i] = is_heavy ? 'k' : (char)(' ' + chance[i] % 95);
    }
    snprintf(to + KEY, RECORD - KEY, "  %032llx  ", (unsigned long long)number);
    for (int i = KEY + 36; i < RECORD - 1; i++) {
        to[i] = (char)('A' + (chance[10] >> (i - KEY - 36) / 4 % 28) % 26);
    }
    to[RECORD - 1] = '\n';
    return RECORD;
}

/* A rank of Zipf's law with exponent 1 by the inverse of its continuous form. */
static uint64_t zipf(double chance, uint64_t pages)
{
    const uint64_t rank = (uint64_t)exp(chance * log((double)pages + 1));
    return GY_MIN(rank, pages);
}

static size_t make_line(char *to, uint64_t seed, uint64_t number, uint64_t pages)
{
    uint32_t chance[8];
    gy_philox(seed, number, 0, chance);
    gy_philox(seed, number, 1, chance + 4);
    const double unit = ((double)chance[0] + 0.5) / 4294967296.0;
    const uint64_t rank = zipf(unit, pages);
    static const char *const sections[] = {"news", "images", "wiki",
                                           "shop", "people", "static"};
    const uint64_t second = number / 200;
    return gy_print(
        to, RECORD_MOST,
        "%u.%u.%u.%u - - [%02u/Oct/2025:%02u:%02u:%02u +0000] \"%s /%s/%llx/page%llu"
        ".html HTTP/1.1\" %u %u\n",
        chance[1] % 223 + 1, chance[1] >> 8 & 255, chance[1] >> 16 & 255, chance[1] >> 24,
        (unsigned)(second / 86400 % 31 + 1), (unsigned)(second / 3600 % 24),
        (unsigned)(second / 60 % 60), (unsigned)(second % 60),
        chance[2] % 20 == 0 ? "POST" : "GET", sections[rank * 2654435761u % GY_COUNT(sections)],
        (unsigned long long)(rank * 0x9E3779B97F4A7C15u >> 48), (unsigned long long)rank,
        chance[3] % 50 == 0 ? 404 : 200, chance[4] % 100000);
}

static int make(make_one one, const char *path, const uint64_t numbers[3])
{
    FILE *file = fopen(path, "wbx");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    static char text[TOGETHER * RECORD_MOST];
    bool is_written = true;
    for (uint64_t i = 0; is_written && i < numbers[0]; i += TOGETHER) {
        size_t used = 0;
        for (uint64_t j = i; j < GY_MIN(numbers[0], i + TOGETHER); j++) {
            used += one(text + used, numbers[1], j, numbers[2]);
        }
        is_written = fwrite(text, 1, used, file) == used;
    }
    if (fclose(file) != 0 || !is_written) {
        perror(path);
        return 1;
    }
    return 0;
}

/* ---- floors ---- */

typedef struct part {
    gy_thread thread;
    const char *data, *path; /* path NULL: look at the bytes alone */
    size_t size_bytes;
    uint64_t sum;
    bool has_failed;
} part;

static bool copy(const part *work)
{
    const int file = open(work->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ssize_t wrote = file < 0 ? -1 : 1;
    for (size_t at = 0; wrote > 0 && at < work->size_bytes; at += (size_t)wrote) {
        wrote = write(file, work->data + at, GY_MIN(work->size_bytes - at, (size_t)BUFFER));
    }
    if (wrote <= 0) {
        perror(work->path);
    }
    return wrote > 0 && close(file) == 0;
}

static void *run(void *arg)
{
    part *work = arg;
    if (work->path != NULL) {
        work->has_failed = !copy(work);
        return NULL;
    }
    for (size_t i = 0; i + 8 <= work->size_bytes; i += 8) {
        uint64_t word;
        memcpy(&word, work->data + i, 8);
        work->sum += word;
    }
    return NULL;
}

/* Halves of the file, cut at a multiple of 100 bytes; `folder` NULL: scanned. */
static int pass_over(const char *path, const char *folder)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    if (file < 0 || fstat(file, &about) != 0) {
        perror(path);
        return 1;
    }
    const size_t size = (size_t)about.st_size, half = size / RECORD / 2 * RECORD;
    const char *data = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
    if (data == MAP_FAILED) {
        perror(path);
        return 1;
    }
    char paths[THREADS][4096];
    part parts[THREADS] = {{.data = data, .size_bytes = half},
                           {.data = data + half, .size_bytes = size - half}};
    for (int i = 0; i < THREADS; i++) {
        if (folder != NULL) {
            (void)snprintf(paths[i], sizeof(paths[i]), "%s/part-%05d", folder, i);
            parts[i].path = paths[i];
        }
        if (gy_thread_start(&parts[i].thread, "pass", run, &parts[i]) != GY_OK) {
            return 1;
        }
    }
    bool has_failed = false;
    uint64_t sum = 0;
    for (int i = 0; i < THREADS; i++) {
        gy_thread_join(&parts[i].thread);
        has_failed = has_failed || parts[i].has_failed;
        sum += parts[i].sum;
    }
    if (folder == NULL) {
        printf("%llu\n", (unsigned long long)sum); /* so that the sums are needed */
    }
    return has_failed;
}

int main(int count, char **arguments)
{
    const char *verb = count > 1 ? arguments[1] : "";
    const bool is_sort = strcmp(verb, "sort") == 0;
    if (count == 6 && (is_sort || strcmp(verb, "log") == 0)) {
        const uint64_t numbers[] = {strtoull(arguments[3], NULL, 10),
                                    strtoull(arguments[4], NULL, 10),
                                    strtoull(arguments[5], NULL, 10)};
        return make(is_sort ? make_record : make_line, arguments[2], numbers);
    }
    if (count == 4 && strcmp(verb, "copy") == 0) {
        return pass_over(arguments[2], arguments[3]);
    }
    if (count == 3 && strcmp(verb, "scan") == 0) {
        return pass_over(arguments[2], NULL);
    }
    (void)fprintf(stderr, "usage: bench_records sort FILE RECORDS SEED PER_CENT\n"
                          "       bench_records log FILE LINES SEED PAGES\n"
                          "       bench_records copy FILE FOLDER\n"
                          "       bench_records scan FILE\n");
    return 2;
}
