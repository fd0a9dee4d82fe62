/* Fuzz target: a file of sections whose checksums are made to fit, so that what it says is
 * looked at: opening fails, or gives bytes that lie within the file. And any bytes as a report.
 */
#include "base/base.h"
#include "flow/channel/channel.h"
#include "flow/section/section_priv.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LIMIT = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Header and tail that believe the rest; false when it is too short for them. */
static bool seal(uint8_t *file, size_t size, gy_key *content)
{
    gy_section_header header = gy_section_header_of(&(gy_section_owner){.epoch = 0});
    gy_section_tail tail;
    if (size < sizeof(header) + sizeof(tail)) {
        return false;
    }
    memcpy(file, &header, sizeof(header));
    memcpy(&tail, file + size - sizeof(tail), sizeof(tail));
    tail.sections %= 5;
    tail.extents %= 9;
    size_t table = (size_t)(tail.sections * sizeof(gy_section_row) +
                            tail.extents * sizeof(gy_section_extent));
    if (size < sizeof(header) + table + sizeof(tail)) {
        return false;
    }
    tail.table = size - sizeof(tail) - table;
    tail.magic = GY_SECTION_END_MAGIC;
    tail.hash = gy_section_tail_hash(&header, file + tail.table, table, &tail);
    memcpy(file + size - sizeof(tail), &tail, sizeof(tail));
    *content = (gy_key){tail.content[0], tail.content[1]};
    return true;
}

static void open_all(const char *path, gy_key content)
{
    for (uint32_t index = 0; index < 6; index++) {
        gy_section_wanted wanted = {.path = path, .content = content, .section = index};
        gy_section section;
        gy_section_sum sum;
        if (gy_section_open(&wanted, &section, &sum) < 0) {
            continue;
        }
        GY_ASSERT(section.size_bytes == sum.size_bytes && section.size_bytes <= LIMIT * 9);
        gy_status status = gy_section_verify(&section, &sum, path); /* reads every byte */
        GY_ASSERT(status == GY_OK || status == GY_FORMAT);
#ifdef GYRE_PLANTED_BUG
        if (section.size_bytes > 4) {
            const volatile char *behind = section.data + section.size_bytes;
            (void)*behind;
        }
#endif
        gy_section_close(&section);
    }
}

static void read_report(const uint8_t *data, size_t size)
{
    gy_report report;
    if (gy_report_read(data, size, &report) < 0) {
        return;
    }
    for (uint32_t i = 0; i < GY_MIN(report.output_count, 64u); i++) {
        gy_report_part part = gy_report_output(&report, i);
        if (part.inlined != NULL) {
            (void)gy_hash(part.inlined, (size_t)part.size_bytes, 0);
        }
    }
    size_t at = 0;
    gy_counter counter;
    while (gy_report_counter(&report, &at, &counter)) {
        GY_ASSERT(strlen(counter.name) < size);
    }
}

/* One with a name of its own: a link, also that of a descriptor in /proc, is not opened. */
static char path_of_file[256];

static void remove_file(void)
{
    (void)unlink(path_of_file);
}

static const char *file_path(void)
{
    if (path_of_file[0] == '\0') {
        const char *folder = gy_setting_get("TMPDIR");
        (void)snprintf(path_of_file, sizeof(path_of_file), "%.200s/gyre-section-%d",
                       folder != NULL ? folder : "/tmp", (int)getpid());
        GY_ASSERT(atexit(remove_file) == 0);
    }
    return path_of_file;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_report(data, size);
    uint8_t copy[LIMIT];
    size = GY_MIN(size, sizeof(copy));
    if (size > 0) {
        memcpy(copy, data, size);
    }
    gy_key content = {0, 0};
    if (!seal(copy, size, &content)) {
        content = (gy_key){1, 1}; /* as it is, then: it must be refused */
    }
    const char *path = file_path();
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    GY_ASSERT(file >= 0);
    GY_ASSERT(write(file, copy, size) == (ssize_t)size);
    (void)close(file);
    open_all(path, content);
    return 0;
}
