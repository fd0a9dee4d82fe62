/* Sections between hosts. The reader trusts nothing of a fetched file before it has verified
 * the note's own checksum. */
#include "flow/section/section_fetch.h"

#include "base/base.h"
#include "flow/section/section_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAP_BYTES = 64 << 10 /* up to this size reading is cheaper than mapping */ };

typedef struct asked_words {
    uint64_t magic;
    uint64_t key[2], content[2];
    uint32_t epoch, attempt, member, section;
} asked_words;

enum { END_BYTES = sizeof(gy_fetch_note) + sizeof(uint32_t) };
#define ASKED_MAGIC UINT64_C(0x3164656b73617967) /* "gyasked1" as text */

static_assert(sizeof(asked_words) == GY_SECTION_ASKED_BYTES, "no gaps");

/* ---- requests ---- */

void gy_section_ask(const gy_section_wanted *wanted, uint8_t asked[GY_SECTION_ASKED_BYTES])
{
    const asked_words words = {.magic = ASKED_MAGIC,
                               .key = {wanted->owner.key.high, wanted->owner.key.low},
                               .content = {wanted->content.high, wanted->content.low},
                               .epoch = wanted->owner.epoch,
                               .attempt = wanted->owner.attempt,
                               .member = wanted->owner.member,
                               .section = wanted->section};
    memcpy(asked, &words, sizeof(words));
}

gy_status gy_section_asked(const void *asked, size_t asked_bytes, const char *path,
                           gy_section_wanted *wanted)
{
    asked_words words;
    if (asked_bytes != sizeof(words)) {
        return gy_fail(GY_FORMAT, "what names a section has %zu bytes, expected %zu",
                       asked_bytes, sizeof(words));
    }
    memcpy(&words, asked, sizeof(words));
    if (words.magic != ASKED_MAGIC) {
        return gy_fail(GY_FORMAT, "what should name a section names something else");
    }
    *wanted = (gy_section_wanted){.path = path,
                                  .owner = {.key = {words.key[0], words.key[1]},
                                            .epoch = words.epoch,
                                            .attempt = words.attempt,
                                            .member = words.member},
                                  .content = {words.content[0], words.content[1]},
                                  .section = words.section};
    return GY_OK;
}

gy_key gy_section_fetch_key(const gy_section_wanted *wanted)
{
    uint8_t asked[GY_SECTION_ASKED_BYTES];
    gy_section_ask(wanted, asked);
    return gy_key_of(asked, sizeof(asked));
}

const char *gy_section_fetch_name(const gy_section_wanted *wanted,
                                  char out[GY_FETCH_NAME_BYTES])
{
    const gy_key key = gy_section_fetch_key(wanted);
    (void)snprintf(out, GY_FETCH_NAME_BYTES, "%016llx%016llx", (unsigned long long)key.high,
                   (unsigned long long)key.low);
    return out;
}

/* ---- finding a section ---- */

uint64_t gy_fetch_note_sum(const gy_fetch_note *note)
{
    return gy_hash(note, offsetof(gy_fetch_note, sum), ASKED_MAGIC);
}

gy_status gy_section_locate(void *arg, const char *path, const void *asked, size_t asked_bytes,
                            gy_net_located *located)
{
    (void)arg;
    gy_section_wanted wanted;
    gy_section_place place;
    *located = (gy_net_located){.fd = -1};
    GY_TRY(gy_section_asked(asked, asked_bytes, path, &wanted));
    GY_TRY(gy_section_find(&wanted, &place));
    gy_fetch_note note = {.size_bytes = place.sum.size_bytes,
                          .hash = place.sum.hash,
                          .content = {wanted.content.high, wanted.content.low},
                          .section = wanted.section,
                          .version = GY_SECTION_VERSION};
    note.sum = gy_fetch_note_sum(&note);
    static_assert(sizeof(note) <= sizeof(located->note), "a note has room");
    memcpy(located->note, &note, sizeof(note));
    located->note_bytes = sizeof(note);
    located->fd = place.file;
    located->extent_count = place.extent_count;
    located->extents =
        gy_alloc("flow.extents", ((size_t)place.extent_count + 1) * sizeof(gy_net_extent));
    for (uint32_t i = 0; located->extents != NULL && i < place.extent_count; i++) {
        located->extents[i] =
            (gy_net_extent){place.extents[i].offset, place.extents[i].size_bytes};
    }
    gy_free(place.extents);
    if (located->extents == NULL) {
        (void)close(place.file);
        *located = (gy_net_located){.fd = -1};
        return GY_NOMEM;
    }
    return GY_OK;
}

/* ---- reading a fetched file ---- */

static gy_status bad(const char *path, uint64_t size_bytes, const char *what)
{
    return gy_fail(GY_FORMAT, "%s (fetched, %llu bytes): %s", path,
                   (unsigned long long)size_bytes, what);
}

static gy_status read_at(const char *path, int file, void *data, size_t size_bytes,
                         uint64_t offset)
{
    char *to = data;
    for (size_t done = 0; done < size_bytes;) {
        ssize_t got = pread(file, to + done, size_bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return gy_fail(GY_IO, "cannot read %s: %s", path, strerrordesc_np(errno));
        }
        if (got == 0) {
            return bad(path, offset + done, "it was cut while it was read");
        }
        done += (size_t)got;
    }
    return GY_OK;
}

/* Check the note at the end of the file against `wanted`. */
static gy_status read_note(const gy_section_wanted *wanted, int file, uint64_t file_bytes,
                           gy_fetch_note *note)
{
    char end[END_BYTES];
    uint32_t note_bytes;
    if (file_bytes < END_BYTES) {
        return bad(wanted->path, file_bytes, "shorter than any fetched section");
    }
    GY_TRY(read_at(wanted->path, file, end, END_BYTES, file_bytes - END_BYTES));
    memcpy(note, end, sizeof(*note));
    memcpy(&note_bytes, end + sizeof(*note), sizeof(note_bytes));
    if (note_bytes != sizeof(*note) || note->sum != gy_fetch_note_sum(note)) {
        return bad(wanted->path, file_bytes, "its note is damaged, or it was cut");
    }
    if (note->version != GY_SECTION_VERSION || note->content[0] != wanted->content.high ||
        note->content[1] != wanted->content.low || note->section != wanted->section) {
        return bad(wanted->path, file_bytes, "it is another section");
    }
    if (note->size_bytes != file_bytes - END_BYTES) {
        return bad(wanted->path, file_bytes, "it has not as many bytes as its note says");
    }
    return GY_OK;
}

static gy_status take(const char *path, int file, size_t size_bytes, gy_section *section)
{
    if (size_bytes > HEAP_BYTES) {
        /* populated, because all pages are checksummed next */
        void *memory = mmap(NULL, size_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
        if (memory == MAP_FAILED) {
            return gy_fail(errno == ENOMEM ? GY_NOMEM : GY_IO, "cannot map %s: %s", path,
                           strerrordesc_np(errno));
        }
        *section = (gy_section){memory, size_bytes, memory, size_bytes};
        return GY_OK;
    }
    char *data = gy_alloc("flow.section", size_bytes + 1);
    gy_status status =
        data != NULL ? read_at(path, file, data, size_bytes, 0) : (gy_status)GY_NOMEM;
    if (status < 0) {
        gy_free(data);
        return status;
    }
    *section = (gy_section){data, size_bytes, data, 0};
    return GY_OK;
}

gy_status gy_section_open_fetched(const gy_section_wanted *wanted, gy_section *section,
                                  gy_section_sum *sum)
{
    const char *path = wanted->path;
    struct stat about;
    gy_fetch_note note = {0};
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    if (file < 0) {
        bool is_ours = errno == EMFILE || errno == ENFILE;
        gy_status status = errno == ENOENT ? GY_NOTFOUND : is_ours ? GY_LIMIT : GY_IO;
        return gy_fail(status, "cannot open %s: %s", path, strerrordesc_np(errno));
    }
    gy_status status = GY_OK;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
        status = gy_fail(GY_IO, "cannot read %s: expected a file", path);
    } else {
        status = read_note(wanted, file, (uint64_t)about.st_size, &note);
    }
    if (status == GY_OK) {
        status = take(path, file, (size_t)note.size_bytes, section);
    }
    (void)close(file);
    *sum = (gy_section_sum){note.size_bytes, note.hash};
    return status;
}
