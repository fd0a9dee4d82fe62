/* Reads an attempt's file. It trusts nothing before the checksum is verified, and allocates no
 * more than the file's own size justifies. */
#include "base/base.h"
#include "flow/section/section_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAP_BYTES = 64 << 10 /* up to this size reading is cheaper than mapping */ };

typedef struct section_file {
    const gy_section_wanted *wanted;
    int file;
    uint64_t size_bytes;
    gy_section_header header;
    gy_section_tail tail;
    char *table; /* rows, then extents */
    size_t table_bytes;
} section_file;

uint64_t gy_section_header_hash(const gy_section_header *header)
{
    return gy_hash(header, offsetof(gy_section_header, hash), 0);
}

uint64_t gy_section_tail_hash(const gy_section_header *header, const void *table,
                              size_t table_bytes, const gy_section_tail *tail)
{
    gy_hash_stream stream;
    gy_hash_begin(&stream);
    gy_hash_feed(&stream, header, sizeof(*header));
    gy_hash_feed(&stream, table, table_bytes);
    gy_hash_feed(&stream, tail, offsetof(gy_section_tail, hash));
    return gy_hash_end(&stream);
}

gy_section_header gy_section_header_of(const gy_section_owner *owner)
{
    gy_section_header header = {
        .magic = GY_SECTION_MAGIC,
        .version = GY_SECTION_VERSION,
        .member = owner->member,
        .key = {owner->key.high, owner->key.low},
        .epoch = owner->epoch,
        .attempt = owner->attempt,
    };
    header.hash = gy_section_header_hash(&header);
    return header;
}

static gy_status bad(const section_file *from, const char *what)
{
    return gy_fail(GY_FORMAT, "%s (%llu bytes): %s", from->wanted->path,
                   (unsigned long long)from->size_bytes, what);
}

static gy_status read_at(const section_file *from, void *data, size_t size_bytes,
                         uint64_t offset)
{
    char *to = data;
    for (size_t done = 0; done < size_bytes;) {
        ssize_t got = pread(from->file, to + done, size_bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return gy_fail(GY_IO, "cannot read %s: %s", from->wanted->path,
                           strerrordesc_np(errno));
        }
        if (got == 0) {
            return bad(from, "it was cut while it was read");
        }
        done += (size_t)got;
    }
    return GY_OK;
}

static gy_status open_file(section_file *from)
{
    /* Vertices may write to this folder, and a daemon outside their sandbox reads it. The
     * runtime itself makes only hard links and copies there, so a symbolic link is refused. */
    from->file =
        open(from->wanted->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    if (from->file < 0) {
        bool is_ours = errno == EMFILE || errno == ENFILE;
        gy_status status = errno == ENOENT ? GY_NOTFOUND : is_ours ? GY_LIMIT : GY_IO;
        return gy_fail(status, "cannot open %s: %s", from->wanted->path,
                       strerrordesc_np(errno));
    }
    struct stat status;
    if (fstat(from->file, &status) != 0 || !S_ISREG(status.st_mode)) {
        return gy_fail(GY_IO, "cannot read %s: expected a file", from->wanted->path);
    }
    from->size_bytes = (uint64_t)status.st_size;
    return GY_OK;
}

/* Read header and tail: check the owner, and find the table. */
static gy_status read_ends(section_file *from)
{
    const uint64_t ends = sizeof(from->header) + sizeof(from->tail);
    if (from->size_bytes < ends) {
        return bad(from, "shorter than any file of sections");
    }
    GY_TRY(read_at(from, &from->header, sizeof(from->header), 0));
    GY_TRY(
        read_at(from, &from->tail, sizeof(from->tail), from->size_bytes - sizeof(from->tail)));
    gy_section_header expected = gy_section_header_of(&from->wanted->owner);
    if (from->header.magic != GY_SECTION_MAGIC ||
        from->header.hash != gy_section_header_hash(&from->header)) {
        return bad(from, "its header is damaged");
    }
    if (memcmp(&from->header, &expected, sizeof(expected)) != 0) {
        return bad(from, "it is another attempt's file");
    }
    const gy_section_tail *tail = &from->tail;
    if (tail->magic != GY_SECTION_END_MAGIC || tail->sections > GY_SECTIONS_MAX ||
        tail->extents > from->size_bytes || tail->table > from->size_bytes) {
        return bad(from, "its tail is damaged, or it was cut");
    }
    uint64_t table_bytes =
        tail->sections * sizeof(gy_section_row) + tail->extents * sizeof(gy_section_extent);
    if (tail->table < sizeof(from->header) ||
        tail->table + table_bytes + sizeof(*tail) != from->size_bytes) {
        return bad(from, "its tail is damaged, or it was cut");
    }
    from->table_bytes = (size_t)table_bytes;
    return GY_OK;
}

static gy_section_row row_at(const section_file *from, uint64_t index)
{
    gy_section_row row;
    memcpy(&row, from->table + index * sizeof(row), sizeof(row));
    return row;
}

static gy_section_extent extent_at(const section_file *from, uint64_t index)
{
    gy_section_extent extent;
    memcpy(&extent,
           from->table + from->tail.sections * sizeof(gy_section_row) + index * sizeof(extent),
           sizeof(extent));
    return extent;
}

static gy_status read_table(section_file *from)
{
    from->table = gy_alloc("flow.table", from->table_bytes);
    if (from->table == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(read_at(from, from->table, from->table_bytes, from->tail.table));
    if (from->tail.hash !=
        gy_section_tail_hash(&from->header, from->table, from->table_bytes, &from->tail)) {
        return bad(from, "the checksum of its table differs");
    }
    const gy_key *content = &from->wanted->content;
    if (from->tail.content[0] != content->high || from->tail.content[1] != content->low) {
        return bad(from, "its content differs from what its producer reported");
    }
    if (from->wanted->section >= from->tail.sections) {
        return bad(from, "it has fewer sections");
    }
    return GY_OK;
}

/* Find a section's first extent in the table. The extents must be laid out as the writer does
 * it: the checks are cheap, and mapping other pages would give wrong bytes. */
static gy_status check_extents(const section_file *from, const gy_section_row *row,
                               uint64_t *first)
{
    uint64_t at = 0, sum = 0;
    for (uint32_t i = 0; i < from->wanted->section; i++) {
        at += row_at(from, i).extents;
    }
    if (at > from->tail.extents || row->extents > from->tail.extents - at) {
        return bad(from, "its table is inconsistent");
    }
    for (uint64_t i = 0; i < row->extents; i++) {
        gy_section_extent extent = extent_at(from, at + i);
        bool is_last = i + 1 == row->extents;
        if (extent.offset < sizeof(from->header) || extent.offset > from->tail.table ||
            extent.size_bytes > from->tail.table - extent.offset || extent.size_bytes == 0 ||
            (row->extents > 1 && extent.offset % GY_SECTION_PAGE != 0) ||
            (!is_last && extent.size_bytes % GY_SECTION_PAGE != 0)) {
            return bad(from, "its table is inconsistent");
        }
        sum += extent.size_bytes;
        if (sum > row->size_bytes) {
            return bad(from, "its table is inconsistent");
        }
    }
    *first = at;
    return sum == row->size_bytes ? GY_OK : bad(from, "its table is inconsistent");
}

static gy_status load(const section_file *from, const gy_section_row *row, uint64_t first,
                      gy_section *section)
{
    char *data = gy_alloc("flow.section", (size_t)row->size_bytes);
    if (data == NULL) {
        return GY_NOMEM;
    }
    size_t done = 0;
    for (uint64_t i = 0; i < row->extents; i++) {
        gy_section_extent extent = extent_at(from, first + i);
        gy_status status = read_at(from, data + done, (size_t)extent.size_bytes, extent.offset);
        if (status < 0) {
            gy_free(data);
            return status;
        }
        done += (size_t)extent.size_bytes;
    }
    *section = (gy_section){data, (size_t)row->size_bytes, data, 0};
    return GY_OK;
}

/* Map all extents one behind the other; the first one's offset within its page decides where
 * the section begins. */
static gy_status map(const section_file *from, const gy_section_row *row, uint64_t first,
                     gy_section *section)
{
    size_t lead = (size_t)(extent_at(from, first).offset % GY_SECTION_PAGE);
    size_t total = gy_round_up(lead + (size_t)row->size_bytes, GY_SECTION_PAGE);
    char *base =
        mmap(NULL, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        return gy_fail(GY_NOMEM, "no room to map %zu bytes of %s", total, from->wanted->path);
    }
    size_t done = 0;
    for (uint64_t i = 0; i < row->extents; i++) {
        gy_section_extent extent = extent_at(from, first + i);
        off_t offset = (off_t)(extent.offset - extent.offset % GY_SECTION_PAGE);
        size_t size = (size_t)extent.size_bytes + (i == 0 ? lead : 0);
        /* populated, because all pages are checksummed next and page faults would cost a third
         * of that */
        if (mmap(base + done, size, PROT_READ, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
                 from->file, offset) == MAP_FAILED) {
            int error = errno;
            GY_ASSERT(munmap(base, total) == 0);
            return gy_fail(error == ENOMEM ? GY_NOMEM : GY_IO, "cannot map %s: %s",
                           from->wanted->path, strerrordesc_np(error));
        }
        done += size;
    }
    *section = (gy_section){base + lead, (size_t)row->size_bytes, base, total};
    return GY_OK;
}

static gy_status open_section(section_file *from, gy_section *section, gy_section_sum *sum)
{
    GY_TRY(open_file(from));
    GY_TRY(read_ends(from));
    GY_TRY(read_table(from));
    gy_section_row row = row_at(from, from->wanted->section);
    uint64_t first = 0;
    GY_TRY(check_extents(from, &row, &first));
    if (row.size_bytes <= HEAP_BYTES) {
        GY_TRY(load(from, &row, first, section));
    } else {
        GY_TRY(map(from, &row, first, section));
    }
    *sum = (gy_section_sum){row.size_bytes, row.hash};
    return GY_OK;
}

gy_status gy_section_open(const gy_section_wanted *wanted, gy_section *section,
                          gy_section_sum *sum)
{
    section_file from = {.wanted = wanted, .file = -1};
    gy_status status = open_section(&from, section, sum);
    gy_free(from.table);
    if (from.file >= 0) {
        (void)close(from.file);
    }
    return status;
}

gy_status gy_section_find(const gy_section_wanted *wanted, gy_section_place *place)
{
    section_file from = {.wanted = wanted, .file = -1};
    gy_section_row row = {0};
    uint64_t first = 0;
    gy_status status = open_file(&from);
    status = status < 0 ? status : read_ends(&from);
    status = status < 0 ? status : read_table(&from);
    if (status == GY_OK) {
        row = row_at(&from, wanted->section);
        status = check_extents(&from, &row, &first);
    }
    gy_section_extent *extents =
        status == GY_OK ? gy_alloc("flow.extents", (row.extents + 1) * sizeof(*extents)) : NULL;
    if (status == GY_OK && extents == NULL) {
        status = GY_NOMEM;
    }
    for (uint64_t i = 0; status == GY_OK && i < row.extents; i++) {
        extents[i] = extent_at(&from, first + i);
    }
    gy_free(from.table);
    if (status < 0) {
        if (from.file >= 0) {
            (void)close(from.file);
        }
        return status;
    }
    *place = (gy_section_place){
        from.file, extents, (uint32_t)row.extents, {row.size_bytes, row.hash}};
    return GY_OK;
}

gy_status gy_section_verify(const gy_section *section, const gy_section_sum *sum,
                            const char *path)
{
    GY_ASSERT(section->size_bytes == sum->size_bytes);
    if (gy_hash(section->data, section->size_bytes, 0) != sum->hash) {
        return gy_fail(GY_FORMAT, "%s: the checksum of a section differs", path);
    }
    return GY_OK;
}

void gy_section_close(gy_section *section)
{
    if (section->mapped_bytes > 0) {
        GY_ASSERT(munmap(section->memory, section->mapped_bytes) == 0);
    } else {
        gy_free(section->memory);
    }
    *section = (gy_section){.data = NULL};
}
