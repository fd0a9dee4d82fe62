/*
 * A web server's log in Apache's common format, for log.py.
 *
 *   bench_log make FILE LINES SEED PAGES   pages by Zipf's law, rank r about 1 / r as often
 *   bench_log top FILE THREADS COUNT       the most popular pages: count, tab, page
 *   bench_log scan FILE THREADS COUNT      the floor: every byte is looked at
 */
#include "base/base.h"
#include "mapreduce/fields.h"
#include "mapreduce/table.h"
#include "mapreduce/top.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { TOGETHER = 1000, LINE_MOST = 200, THREADS_MOST = 16, PAGE_FIELD = 7 };
#define TABLE_BYTES ((size_t)256 << 20)

/* A rank of Zipf's law with exponent 1 by the inverse of its continuous form. */
static uint64_t zipf(double chance, uint64_t pages)
{
    const uint64_t rank = (uint64_t)exp(chance * log((double)pages + 1));
    return GY_MIN(rank, pages);
}

/* The line's number decides its bytes. */
static int make_line(char *to, uint64_t seed, uint64_t number, uint64_t pages)
{
    uint32_t chance[8];
    gy_philox(seed, number, 0, chance);
    gy_philox(seed, number, 1, chance + 4);
    const double unit = ((double)chance[0] + 0.5) / 4294967296.0;
    const uint64_t rank = zipf(unit, pages);
    static const char *const sections[] = {"news", "images", "wiki",
                                           "shop", "people", "static"};
    const uint64_t second = number / 200;
    return snprintf(
        to, LINE_MOST,
        "%u.%u.%u.%u - - [%02u/Oct/2025:%02u:%02u:%02u +0000] \"%s /%s/%llx/page%llu"
        ".html HTTP/1.1\" %u %u\n",
        chance[1] % 223 + 1, chance[1] >> 8 & 255, chance[1] >> 16 & 255, chance[1] >> 24,
        (unsigned)(second / 86400 % 31 + 1), (unsigned)(second / 3600 % 24),
        (unsigned)(second / 60 % 60), (unsigned)(second % 60),
        chance[2] % 20 == 0 ? "POST" : "GET", sections[rank * 2654435761u % GY_COUNT(sections)],
        (unsigned long long)(rank * 0x9E3779B97F4A7C15u >> 48), (unsigned long long)rank,
        chance[3] % 50 == 0 ? 404 : 200, chance[4] % 100000);
}

static int make(const char *path, uint64_t lines, uint64_t seed, uint64_t pages)
{
    FILE *file = fopen(path, "wbx");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    static char text[TOGETHER * LINE_MOST];
    bool is_written = true;
    for (uint64_t i = 0; is_written && i < lines; i += TOGETHER) {
        size_t used = 0;
        for (uint64_t j = i; j < GY_MIN(lines, i + TOGETHER); j++) {
            used += (size_t)make_line(text + used, seed, j, pages);
        }
        is_written = fwrite(text, 1, used, file) == used;
    }
    if (fclose(file) != 0 || !is_written) {
        perror(path);
        return 1;
    }
    return 0;
}

typedef struct job {
    gy_thread thread;
    const char *text;
    size_t size_bytes;
    gy_table *table; /* NULL: look at the bytes alone */
    uint64_t sum;
    gy_status status;
} job;

static gy_status count_pages(const job *part)
{
    static _Thread_local uint32_t edges[GY_FIELDS_EDGES];
    for (size_t at = 0; at < part->size_bytes;) {
        size_t size = GY_MIN(part->size_bytes - at, (size_t)GY_FIELDS_TEXT_BYTES);
        if (size < part->size_bytes - at) {
            const char *end = memrchr(part->text + at, '\n', size);
            if (end == NULL) {
                return gy_fail(GY_FORMAT, "a line is longer than 64 KiB");
            }
            size = (size_t)(end - part->text) - at + 1;
        }
        const size_t count = gy_fields_find(part->text + at, size, PAGE_FIELD, edges);
        GY_TRY(gy_table_add_words(part->table, part->text + at, edges, count, NULL));
        at += size;
    }
    return GY_OK;
}

static void *run(void *arg)
{
    job *part = arg;
    if (part->table != NULL) {
        part->status = count_pages(part);
        return NULL;
    }
    for (size_t i = 0; i + 8 <= part->size_bytes; i += 8) {
        uint64_t word;
        memcpy(&word, part->text + i, 8);
        part->sum += word;
    }
    return NULL;
}

/* A table's rows, by hash and key. */
typedef struct rows {
    gy_row *rows;
    size_t count, capacity;
} rows;

static gy_status keep_row(void *arg, const gy_row *row)
{
    rows *to = arg;
    GY_TRY(gy_reserve("bench", (void **)&to->rows, &to->capacity, to->count + 1, sizeof(*row)));
    to->rows[to->count++] = *row;
    return GY_OK;
}

/* Below 0 when a comes first. */
static int compare(const gy_row *a, const gy_row *b)
{
    if (a->hash != b->hash) {
        return a->hash < b->hash ? -1 : 1;
    }
    const int order = memcmp(a->key, b->key, GY_MIN(a->key_size, b->key_size));
    return order != 0 ? order : (a->key_size > b->key_size) - (a->key_size < b->key_size);
}

/* Offer the sum of each key's rows. */
static gy_status offer_sums(const rows *lists, size_t count, gy_top *top)
{
    size_t at[THREADS_MOST] = {0};
    for (;;) {
        const gy_row *first = NULL;
        for (size_t i = 0; i < count; i++) {
            const gy_row *row = at[i] < lists[i].count ? &lists[i].rows[at[i]] : NULL;
            if (row != NULL && (first == NULL || compare(row, first) < 0)) {
                first = row;
            }
        }
        if (first == NULL) {
            return GY_OK;
        }
        int64_t sum = 0;
        for (size_t i = 0; i < count; i++) {
            while (at[i] < lists[i].count && compare(&lists[i].rows[at[i]], first) == 0) {
                sum += lists[i].rows[at[i]++].number;
            }
        }
        GY_TRY(gy_top_add(top, first->key, first->key_size, sum));
    }
}

static gy_status full(void *arg)
{
    (void)arg;
    return gy_fail(GY_LIMIT, "more pages than 256 MiB hold");
}

static gy_status show_top(const job *jobs, size_t threads, size_t most)
{
    rows lists[THREADS_MOST] = {0};
    gy_top *top = NULL;
    for (size_t i = 0; i < threads; i++) {
        GY_TRY(gy_table_visit(jobs[i].table, keep_row, &lists[i]));
    }
    GY_TRY(gy_top_new(most, &top));
    GY_TRY(offer_sums(lists, threads, top));
    const size_t count = gy_top_end(top);
    for (size_t i = 0; i < count; i++) {
        const gy_top_row row = gy_top_get(top, i);
        printf("%lld\t%.*s\n", (long long)row.count, (int)row.key_bytes, row.key);
    }
    gy_top_free(top);
    for (size_t i = 0; i < threads; i++) {
        gy_free(lists[i].rows);
    }
    return GY_OK;
}

static int top_pages(const char *path, size_t threads, size_t most, bool is_scan)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    if (file < 0 || fstat(file, &about) != 0) {
        perror(path);
        return 1;
    }
    const size_t size = (size_t)about.st_size;
    const char *text = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
    if (text == MAP_FAILED) {
        perror(path);
        return 1;
    }
    const gy_table_options options = {
        .fold = GY_FOLD_SUM, .memory_bytes = TABLE_BYTES, .full = full};
    job jobs[THREADS_MOST] = {0};
    size_t begin = 0;
    gy_status status = GY_OK;
    for (size_t i = 0; i < threads; i++) {
        const size_t near = size / threads * (i + 1);
        const char *end = i + 1 < threads ? memchr(text + near, '\n', size - near) : NULL;
        const size_t until = end == NULL ? size : (size_t)(end - text) + 1;
        jobs[i] = (job){.text = text + begin, .size_bytes = until - begin};
        begin = until;
        if ((!is_scan && gy_table_new(&options, &jobs[i].table) != GY_OK) ||
            gy_thread_start(&jobs[i].thread, "pages", run, &jobs[i]) != GY_OK) {
            return 1;
        }
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < threads; i++) {
        gy_thread_join(&jobs[i].thread);
        status = jobs[i].status != GY_OK ? jobs[i].status : status;
        sum += jobs[i].sum;
    }
    if (is_scan) {
        printf("%llu\n", (unsigned long long)sum);
        return 0;
    }
    if (status == GY_OK) {
        status = show_top(jobs, threads, most);
    }
    if (status != GY_OK) {
        fprintf(stderr, "%s: %s\n", path, gy_status_text(status));
    }
    return status != GY_OK;
}

int main(int count, char **arguments)
{
    const char *verb = count > 1 ? arguments[1] : "";
    if (count == 6 && strcmp(verb, "make") == 0) {
        return make(arguments[2], strtoull(arguments[3], NULL, 10),
                    strtoull(arguments[4], NULL, 10), strtoull(arguments[5], NULL, 10));
    }
    const size_t threads = count == 5 ? strtoull(arguments[3], NULL, 10) : 0;
    if ((strcmp(verb, "top") != 0 && strcmp(verb, "scan") != 0) || threads == 0 ||
        threads > THREADS_MOST) {
        fprintf(stderr, "usage: bench_log make FILE LINES SEED PAGES\n"
                        "       bench_log top FILE THREADS COUNT\n"
                        "       bench_log scan FILE THREADS COUNT\n");
        return 2;
    }
    return top_pages(arguments[2], threads, strtoull(arguments[4], NULL, 10),
                     strcmp(verb, "scan") == 0);
}
