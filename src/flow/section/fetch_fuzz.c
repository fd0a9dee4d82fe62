/* Fuzz target: any bytes as a fetched section, as they are and with a note that fits; and as
 * what names a section. Opening fails, or gives bytes that lie within the file. */
#include "base/base.h"
#include "flow/section/section_fetch.h"
#include "flow/section/section_priv.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LIMIT = 1 << 17 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A note that is believed, but for how many bytes it speaks of. */
static gy_key seal(uint8_t *file, size_t size)
{
    gy_fetch_note note;
    const uint32_t note_bytes = sizeof(note);
    const size_t end = sizeof(note) + sizeof(note_bytes);
    if (size < end) {
        return (gy_key){0, 0};
    }
    memcpy(&note, file + size - end, sizeof(note));
    note.size_bytes = note.size_bytes % 4 == 0 ? note.size_bytes : size - end;
    note.version = GY_SECTION_VERSION;
    note.section = 0;
    note.sum = gy_fetch_note_sum(&note);
    memcpy(file + size - end, &note, sizeof(note));
    memcpy(file + size - sizeof(note_bytes), &note_bytes, sizeof(note_bytes));
    return (gy_key){note.content[0], note.content[1]};
}

static void read_file(const uint8_t *bytes, size_t size, gy_key content)
{
    char path[256];
    const char *folder = gy_setting_get("TMPDIR"); /* a crash leaves the file there */
    /* A file of its own: the reader follows no link, so nothing of /proc. */
    (void)snprintf(path, sizeof(path), "%s/gyre-fetch-fuzz-%d",
                   folder != NULL ? folder : "/tmp", (int)getpid());
    FILE *copy = fopen(path, "we");
    GY_ASSERT(copy != NULL && fwrite(bytes, 1, size, copy) == size && fclose(copy) == 0);
    gy_section_wanted wanted = {.path = path, .content = content};
    gy_section section;
    gy_section_sum sum;
    if (gy_section_open_fetched(&wanted, &section, &sum) == GY_OK) {
        GY_ASSERT(section.size_bytes == sum.size_bytes && section.size_bytes <= size);
        gy_status status = gy_section_verify(&section, &sum, path); /* reads every byte */
        GY_ASSERT(status == GY_OK || status == GY_FORMAT);
#ifdef GYRE_PLANTED_BUG
        if (section.size_bytes > 4 && section.mapped_bytes == 0) {
            const volatile char *behind = section.data + section.size_bytes + 1;
            (void)*behind;
        }
#endif
        gy_section_close(&section);
    }
    (void)unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t copy[LIMIT];
    gy_section_wanted wanted;
    if (gy_section_asked(data, GY_MIN(size, (size_t)GY_SECTION_ASKED_BYTES), "x", &wanted) ==
        GY_OK) {
        uint8_t again[GY_SECTION_ASKED_BYTES];
        gy_section_ask(&wanted, again);
        GY_ASSERT(memcmp(again, data, sizeof(again)) == 0);
    }
    size = GY_MIN(size, sizeof(copy));
    if (size > 0) {
        memcpy(copy, data, size);
    }
    read_file(copy, size, (gy_key){1, 1});
    const gy_key content = seal(copy, size);
    read_file(copy, size, content);
    return 0;
}
