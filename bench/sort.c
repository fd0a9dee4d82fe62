/*
 * Sorting of files of 100-byte records with 10-byte keys, as sort.py drives it.
 *
 *   bench_sort make FILE RECORDS SEED [PER CENT]   records as gensort's; so many have one key
 *   bench_sort sort FILE FOLDER THREADS [BYTES]    parts FOLDER/part-00000..; BYTES of memory
 *   bench_sort runs FILE FOLDER THREADS BYTES      the same as if emitted: runs in FOLDER,
 * merged bench_sort copy FILE FOLDER THREADS            the floor: read every byte, write it
 */
#include "mapreduce/sort.h"
#include "base/base.h"
#include "mapreduce/sort/scan.h"

#include <gyre/sort.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { RECORD = 100, KEY = 10, BUFFER = 256 << 10, THREADS_MOST = 16, LINES = 1000 };

typedef struct output {
    int file;
    size_t used, capacity;
    char *data;
} output;

static gy_status flush(output *out)
{
    for (size_t done = 0; done < out->used;) {
        const ssize_t written = write(out->file, out->data + done, out->used - done);
        if (written <= 0) {
            return gy_fail(GY_IO, "cannot write a part");
        }
        done += (size_t)written;
    }
    out->used = 0;
    return GY_OK;
}

static gy_status room(void *arg, size_t size_bytes, void **room_at)
{
    output *out = arg;
    if (out->capacity - out->used < size_bytes) {
        GY_TRY(flush(out));
    }
    GY_ASSERT(size_bytes <= out->capacity);
    *room_at = out->data + out->used;
    return GY_OK;
}

static gy_status wrote(void *arg, size_t size_bytes)
{
    ((output *)arg)->used += size_bytes;
    return GY_OK;
}

/* The record's number decides its bytes. */
static void make_record(char *to, uint64_t seed, uint64_t number, uint64_t per_cent)
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
}

static int make(const char *path, uint64_t records, uint64_t seed, uint64_t per_cent)
{
    FILE *file = fopen(path, "wbx");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    static char lines[LINES * RECORD];
    bool is_written = true;
    for (uint64_t i = 0; is_written && i < records; i += LINES) {
        const uint64_t some = GY_MIN(records - i, LINES);
        for (uint64_t j = 0; j < some; j++) {
            make_record(lines + j * RECORD, seed, i + j, per_cent);
        }
        is_written = fwrite(lines, RECORD, some, file) == some;
    }
    if (fclose(file) != 0 || !is_written) {
        perror(path);
        return 1;
    }
    return 0;
}

typedef struct job {
    gy_thread thread;
    gy_sort_records records;
    gy_sample *sample;
    gy_sort_bound *bounds;
    size_t part, parts, memory_bytes;
    const char *folder;
    char verb; /* s(ort), r(uns), c(opy) */
    gy_range_report report;
    gy_status status;
    double seconds;
} job;

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static gy_status copy_part(const job *work, output *out)
{
    const gy_sort_span *span = work->records.spans;
    const size_t records = span->size_bytes / RECORD;
    const size_t end = records * (work->part + 1) / work->parts * RECORD;
    for (size_t at = records * work->part / work->parts * RECORD; at < end;) {
        void *to = NULL;
        const size_t some = GY_MIN(end - at, (size_t)BUFFER);
        GY_TRY(room(out, some, &to));
        memcpy(to, span->data + at, some);
        GY_TRY(wrote(out, some));
        at += some;
    }
    return GY_OK;
}

typedef struct adding {
    const gy_sort_records *records;
    gy_sorter *sorter;
} adding;

static gy_status add_block(void *arg, gy_entry *block, size_t count)
{
    const adding *to = arg;
    gy_sort_item items[GY_BLOCK_ENTRIES];
    for (size_t i = 0; i < count; i++) {
        const char *at = gy_sort_item_at(to->records, block[i].position).data;
        items[i] = (gy_sort_item){
            .key = at, .value = at + KEY, .key_bytes = KEY, .value_bytes = RECORD - KEY};
    }
    return gy_sorter_add(to->sorter, items, count);
}

static gy_status sort_added(job *work, const gy_sort_range_of *range, output *out)
{
    gy_sorter *sorter = NULL;
    const gy_sorter_options options = {.memory_bytes = work->memory_bytes,
                                       .scratch = work->folder};
    GY_TRY(gy_sorter_new(gy_env_real(), &options, &sorter));
    adding to_sorter = {&work->records, sorter};
    gy_status status = gy_sort_scan(&work->records, range, add_block, &to_sorter);
    if (status == GY_OK) {
        status = gy_sorter_end(sorter);
    }
    for (bool has = true; status == GY_OK && has;) {
        gy_sort_item item;
        void *to = NULL;
        status = gy_sorter_next(sorter, &item, &has);
        if (status == GY_OK && has) {
            status = room(out, RECORD, &to);
            memcpy(to, item.key, RECORD); /* key and value lie one behind the other */
            (void)wrote(out, RECORD);
            work->report.records++;
        }
    }
    gy_sorter_report report;
    gy_sorter_report_get(sorter, &report);
    work->report.scans = report.runs;
    gy_sorter_free(sorter);
    return status;
}

static void *run(void *arg)
{
    job *work = arg;
    char path[4096];
    snprintf(path, sizeof(path), "%s/part-%05zu", work->folder, work->part);
    output out = {open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), 0, BUFFER,
                  gy_alloc("bench", BUFFER)};
    const gy_sort_sink sink = {room, wrote, &out};
    const gy_sort_range_of range = {work->part == 0 ? NULL : &work->bounds[work->part - 1],
                                    work->part + 1 == work->parts ? NULL
                                                                  : &work->bounds[work->part]};
    const gy_range_options options = {work->memory_bytes, work->sample};
    if (out.file < 0 || out.data == NULL) {
        work->status = gy_fail(GY_IO, "cannot create %s", path);
    } else {
        work->status = work->verb == 'c'   ? copy_part(work, &out)
                       : work->verb == 'r' ? sort_added(work, &range, &out)
                                           : gy_sort_range(&work->records, &range, &options,
                                                           &sink, &work->report);
    }
    if (work->status == GY_OK) {
        work->status = flush(&out);
    }
    if (work->status != GY_OK) {
        fprintf(stderr, "%s\n", gy_error_text());
    }
    gy_free(out.data);
    close(out.file);
    work->seconds = now();
    return NULL;
}

static int sort(const char *path, const char *folder, size_t threads, size_t memory_bytes,
                char verb)
{
    const double begin = now();
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    if (file < 0 || fstat(file, &about) != 0) {
        perror(path);
        return 1;
    }
    const gy_sort_span span = {
        mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, file, 0),
        (size_t)about.st_size};
    const gy_sort_layout layout = {
        .kind = GY_LAYOUT_FIXED, .record_bytes = RECORD, .key_bytes = KEY};
    const gy_sort_records records = {&layout, &span, 1};
    gy_sample sample = {0};
    gy_sort_bound bounds[THREADS_MOST];
    if (span.data == MAP_FAILED ||
        (verb != 'c' && gy_sample_take(&records, 1, &sample) != GY_OK)) {
        fprintf(stderr, "%s: %s\n", path, gy_error_text());
        return 1;
    }
    const double sampled = now();
    gy_sample_split(&sample, layout.key, threads, false, bounds);
    job works[THREADS_MOST] = {0};
    for (size_t i = 0; i < threads; i++) {
        works[i] = (job){.records = records,
                         .sample = &sample,
                         .bounds = bounds,
                         .part = i,
                         .parts = threads,
                         .memory_bytes = memory_bytes / threads,
                         .folder = folder,
                         .verb = verb};
        if (gy_thread_start(&works[i].thread, "sort", run, &works[i]) != GY_OK) {
            return 1;
        }
    }
    int failed = 0;
    for (size_t i = 0; i < threads; i++) {
        gy_thread_join(&works[i].thread);
        failed |= works[i].status != GY_OK;
        printf("part %zu: %llu records, %llu scans or runs, done after %.3f s\n", i,
               (unsigned long long)works[i].report.records,
               (unsigned long long)works[i].report.scans, works[i].seconds - begin);
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("sample %.3f s, all %.3f s, user %.3f s, system %.3f s\n", sampled - begin,
           now() - begin, (double)usage.ru_utime.tv_sec + 1e-6 * (double)usage.ru_utime.tv_usec,
           (double)usage.ru_stime.tv_sec + 1e-6 * (double)usage.ru_stime.tv_usec);
    gy_sample_free(&sample);
    return failed;
}

static int run_job(gy_flow *flow, const char *path, const char *folder, int processes,
                   size_t memory_bytes)
{
    char out[4096], own[4096];
    snprintf(out, sizeof(out), "%s/out", folder);
    snprintf(own, sizeof(own), "%s/job", folder);
    gy_dag *dag =
        gy_dag_sort(flow, &(gy_sort_options){.inputs = (const char *const[]){path, NULL},
                                             .record_bytes = RECORD,
                                             .key_bytes = KEY,
                                             .partitions = processes,
                                             .memory_bytes = memory_bytes / (size_t)processes});
    const gy_flow_options options = {
        .output = out, .folder = own, .processes = processes, .timeout_seconds = 300};
    const gy_status status = dag == NULL ? GY_NOMEM : gy_flow_run(flow, dag, &options, NULL);
    if (status != GY_OK) {
        fprintf(stderr, "%s: %s\n", path, gy_error_text());
    }
    gy_dag_free(dag);
    return status != GY_OK;
}

static uint64_t number(char **arguments, int count, int index)
{
    return index < count ? strtoull(arguments[index], NULL, 10) : 0;
}

int main(int count, char **arguments)
{
    static const gy_function functions[] = {GY_SORT_FUNCTION};
    gy_flow *flow = gy_flow_start(&count, &arguments, functions, 1);
    const char *verb = flow != NULL && count > 4 ? arguments[1] : "";
    if (strcmp(verb, "make") == 0) {
        return make(arguments[2], number(arguments, count, 3), number(arguments, count, 4),
                    number(arguments, count, 5));
    }
    const uint64_t threads = number(arguments, count, 4);
    if (strcmp(verb, "job") == 0 && threads > 0 && threads <= THREADS_MOST) {
        const int failed = run_job(flow, arguments[2], arguments[3], (int)threads,
                                   number(arguments, count, 5));
        gy_flow_end(flow);
        return failed;
    }
    if ((strcmp(verb, "sort") != 0 && strcmp(verb, "runs") != 0 && strcmp(verb, "copy") != 0) ||
        threads == 0 || threads > THREADS_MOST) {
        fprintf(stderr, "usage: bench_sort make FILE RECORDS SEED [PER CENT]\n"
                        "       bench_sort sort FILE FOLDER THREADS [BYTES]\n"
                        "       bench_sort runs FILE FOLDER THREADS BYTES\n"
                        "       bench_sort job FILE FOLDER PROCESSES [BYTES]\n"
                        "       bench_sort copy FILE FOLDER THREADS\n");
        return 2;
    }
    return sort(arguments[2], arguments[3], (size_t)threads, number(arguments, count, 5),
                verb[0]);
}
