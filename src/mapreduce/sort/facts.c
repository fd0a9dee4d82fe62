/*
 * Determines whether the page cache keeps the inputs of a sort. It asks the operating system
 * directly: which pages of a mapping are resident, and how much memory is free, also in this
 * process's control group.
 */
#include "mapreduce/sort.h"

#include "base/base.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, LOOKS = 2048, TEXT = 8192 };

bool gy_sort_is_kept(const gy_sort_facts *facts)
{
    if (facts->cached_bytes >= facts->input_bytes) {
        return true;
    }
    const uint64_t missing = facts->input_bytes - facts->cached_bytes;
    /* A missing sixteenth of a large input will be read soon; of the free memory the output
     * and other processes need a share. */
    return missing <= facts->input_bytes / 16 || missing <= facts->free_bytes / 2;
}

/* Read the beginning of a small file as text; false when it cannot be read. */
static bool read_text(const char *path, char text[TEXT])
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    const ssize_t size = read(file, text, TEXT - 1);
    (void)close(file);
    text[size > 0 ? size : 0] = '\0';
    return size > 0;
}

static uint64_t number_of(const char *path, uint64_t otherwise)
{
    char text[TEXT];
    return read_text(path, text) ? strtoull(text, NULL, 10) : otherwise;
}

/* The memory that this process's control group (version 1) may still take. */
static uint64_t left_in_group(void)
{
    char text[TEXT], path[TEXT + 128];
    if (!read_text("/proc/self/cgroup", text)) {
        return UINT64_MAX;
    }
    char *line = strstr(text, ":memory:");
    if (line == NULL) {
        return UINT64_MAX;
    }
    line += strlen(":memory:");
    line[strcspn(line, "\n")] = '\0';
    snprintf(path, sizeof(path), "/sys/fs/cgroup/memory%s/memory.limit_in_bytes", line);
    const uint64_t limit = number_of(path, UINT64_MAX);
    snprintf(path, sizeof(path), "/sys/fs/cgroup/memory%s/memory.usage_in_bytes", line);
    const uint64_t used = number_of(path, 0);
    return limit > used ? limit - used : 0;
}

static uint64_t available_bytes(void)
{
    char text[TEXT];
    const char *line = read_text("/proc/meminfo", text) ? strstr(text, "MemAvailable:") : NULL;
    const uint64_t free_bytes =
        line == NULL ? UINT64_MAX : strtoull(line + strlen("MemAvailable:"), NULL, 10) << 10;
    return GY_MIN(free_bytes, left_in_group());
}

/* Sample evenly chosen pages of a span; returns how many are resident, scaled to pages. */
static uint64_t cached_of(const gy_sort_span *span, size_t looks)
{
    const uintptr_t first = ((uintptr_t)span->data + PAGE - 1) / PAGE;
    const uintptr_t last = ((uintptr_t)span->data + span->size_bytes) / PAGE;
    const uint64_t pages = last > first ? last - first : 0;
    uint64_t there = 0;
    looks = (size_t)GY_MIN(looks, pages);
    for (size_t i = 0; i < looks; i++) {
        unsigned char is_there = 1;
        (void)mincore((void *)((first + pages * i / looks) * PAGE), PAGE, &is_there);
        there += is_there & 1;
    }
    return looks == 0 ? span->size_bytes
                      : (uint64_t)((double)span->size_bytes * (double)there / (double)looks);
}

gy_sort_facts gy_sort_facts_get(const gy_sort_records *records)
{
    gy_sort_facts facts = {.free_bytes = available_bytes()};
    for (size_t i = 0; i < records->span_count; i++) {
        facts.input_bytes += records->spans[i].size_bytes;
    }
    for (size_t i = 0; i < records->span_count; i++) {
        const gy_sort_span *span = &records->spans[i];
        const double share = (double)span->size_bytes / (double)GY_MAX(facts.input_bytes, 1);
        facts.cached_bytes += cached_of(span, 1 + (size_t)(share * LOOKS));
    }
    return facts;
}
