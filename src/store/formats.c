/* File formats, recognised by their first bytes: formats that are decompressed, and formats
 * that are refused by name. One table; no other file contains a magic number. */
#include "store/store_priv.h"

#include "base/base.h"

#include <gyre/store.h>

#include <string.h>
#include <strings.h>

enum {
    TEXT_LOOK_BYTES = 64, /* a binary file is recognisable by so many bytes */
    SKIPPABLE_LAST = 0x5f,
};

/* Bytes that no text has: control characters other than whitespace, bells and escapes. */
static bool looks_binary(const unsigned char *head, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        const unsigned char c = head[i];
        if (c < 7 || (c > 13 && c < 27) || (c > 27 && c < 32)) {
            return true;
        }
    }
    return false;
}

/* ---- formats that need more than a magic number ---- */

/* "BZh", the block size, and the magic of the first block or of the end. */
static bool is_bzip2(const unsigned char *head, size_t size)
{
    static const char block[] = "\x31\x41\x59\x26\x53\x59", end[] = "\x17\x72\x45\x38\x50\x90";
    const size_t rest = size < 10 ? size - 4 : 6;
    return head[3] >= '1' && head[3] <= '9' &&
           (memcmp(head + 4, block, rest) == 0 || memcmp(head + 4, end, rest) == 0);
}

static bool is_skippable(const unsigned char *head, size_t size)
{
    return size >= 4 && head[0] >= 0x50 && head[0] <= SKIPPABLE_LAST &&
           memcmp(head + 1, "\x2a\x4d\x18", 3) == 0;
}

/* Does a binary byte follow the letters, which alone might begin a text? */
static bool is_binary_behind(const unsigned char *head, size_t size)
{
    return looks_binary(head, GY_MIN(size, (size_t)TEXT_LOOK_BYTES));
}

/* Properties, a dictionary size that is 2^n or 3 * 2^n, and a size. */
static bool is_lzma(const unsigned char *head, size_t size)
{
    if (size < 13) {
        return false;
    }
    const uint32_t dictionary = (uint32_t)head[1] | (uint32_t)head[2] << 8 |
                                (uint32_t)head[3] << 16 | (uint32_t)head[4] << 24;
    const uint32_t low = dictionary & (~dictionary + 1), rest = dictionary - low;
    return dictionary >= 4096 && (rest == 0 || rest == low << 1 || dictionary == UINT32_MAX) &&
           ((head[11] == 0 && head[12] == 0) ||
            memcmp(head + 5, "\xff\xff\xff\xff\xff\xff\xff\xff", 8) == 0);
}

/* ---- the table ---- */

#define EXTRACT(tool) "extract it first (" tool ")"
#define EXPAND(tool)  "expand it first (" tool ")"
#define CONVERT       "convert it to text first"

/* clang-format off */
#define MAGIC(text) (text), sizeof(text) - 1
static const gy_file_format formats[] = {
    {"gzip", GY_ENCODING_GZIP, MAGIC("\x1f\x8b"), 0, 2, NULL, ".gz .tgz", "1f 8b",
     &gy_gzip_ops},
    {"zstd", GY_ENCODING_ZSTD, MAGIC("\x28\xb5\x2f\xfd"), 0, 3, NULL, ".zst .zstd .tzst",
     "28 b5 2f fd", &gy_zstd_ops},
    {"bzip2", GY_ENCODING_BZIP2, MAGIC("BZh"), 0, 4, is_bzip2, ".bz2 .tbz2", "BZh",
     &gy_bzip2_ops},
    {"xz", GY_ENCODING_XZ, MAGIC("\xfd\x37\x7a\x58\x5a\x00"), 0, 3, NULL, ".xz .txz",
     "fd 37 7a 58 5a 00", &gy_xz_ops},
    {"lz4", GY_ENCODING_LZ4, MAGIC("\x04\x22\x4d\x18"), 0, 3, NULL, ".lz4", "04 22 4d 18",
     &gy_lz4_ops},
    /* The data after a skippable frame decide between the two formats. */
    {"zstd", GY_ENCODING_AUTO, MAGIC(""), 0, 4, is_skippable, NULL, NULL, &gy_zstd_ops},
    /* Containers of records or files. */
    {"a zip archive", 0, MAGIC("PK\x03\x04"), 0, 4, NULL, ".zip .jar .npz",
     EXTRACT("unzip"), NULL},
    {"an empty zip archive", 0, MAGIC("PK\x05\x06"), 0, 4, NULL, NULL, EXTRACT("unzip"), NULL},
    {"a part of a zip archive", 0, MAGIC("PK\x07\x08"), 0, 4, NULL, NULL, EXTRACT("unzip"),
     NULL},
    {"a 7z archive", 0, MAGIC("7z\xbc\xaf\x27\x1c"), 0, 3, NULL, ".7z", EXTRACT("7z x"), NULL},
    {"a RAR archive", 0, MAGIC("Rar!\x1a\x07"), 0, 5, NULL, ".rar", EXTRACT("unrar x"), NULL},
    {"a tar archive", 0, MAGIC("ustar"), 257, 5, NULL, ".tar", EXTRACT("tar -xf"), NULL},
    {"an ar archive", 0, MAGIC("!<arch>\n"), 0, 8, NULL, NULL, EXTRACT("ar x"), NULL},
    {"a cabinet archive", 0, MAGIC("MSCF\0\0\0\0"), 0, 5, NULL, NULL,
     EXTRACT("cabextract"), NULL},
    {"Parquet", 0, MAGIC("PAR1"), 0, 4, is_binary_behind, ".parquet", CONVERT, NULL},
    {"encrypted Parquet", 0, MAGIC("PARE"), 0, 4, is_binary_behind, NULL, CONVERT, NULL},
    {"ORC", 0, MAGIC("ORC"), 0, 3, is_binary_behind, ".orc", CONVERT, NULL},
    {"an Avro file", 0, MAGIC("Obj\x01"), 0, 4, NULL, ".avro", CONVERT, NULL},
    {"an Arrow file", 0, MAGIC("ARROW1"), 0, 6, is_binary_behind, ".arrow .feather",
     CONVERT, NULL},
    {"a Feather file", 0, MAGIC("FEA1"), 0, 4, is_binary_behind, NULL, CONVERT, NULL},
    {"a Hadoop SequenceFile", 0, MAGIC("SEQ"), 0, 4, is_binary_behind, NULL,
     CONVERT " (hadoop fs -text)", NULL},
    {"a Hadoop RCFile", 0, MAGIC("RCF"), 0, 4, is_binary_behind, NULL, CONVERT, NULL},
    {"a SQLite database", 0, MAGIC("SQLite format 3\0"), 0, 16, NULL, NULL, CONVERT, NULL},
    {"an HDF5 file", 0, MAGIC("\x89HDF\r\n\x1a\n"), 0, 4, NULL, NULL, CONVERT, NULL},
    {"a NumPy array", 0, MAGIC("\x93NUMPY"), 0, 4, NULL, ".npy", CONVERT, NULL},
    /* Compressed formats that Gyre does not read. */
    {"compress (.Z)", 0, MAGIC("\x1f\x9d"), 0, 2, NULL, ".Z", EXPAND("gzip -d"), NULL},
    {"pack (.z)", 0, MAGIC("\x1f\x1e"), 0, 2, NULL, NULL, EXPAND("gzip -d"), NULL},
    {"LZH (.z)", 0, MAGIC("\x1f\xa0"), 0, 2, NULL, NULL, EXPAND("gzip -d"), NULL},
    {"lzma (.lzma)", 0, MAGIC("\x5d\x00"), 0, 13, is_lzma, ".lzma",
     EXPAND("xz --format=lzma -d"), NULL},
    {"lzip", 0, MAGIC("LZIP\x01"), 0, 5, NULL, ".lz", EXPAND("lzip -d"), NULL},
    {"lzop", 0, MAGIC("\x89LZO\x00\x0d\x0a\x1a\x0a"), 0, 4, NULL, ".lzo",
     EXPAND("lzop -d"), NULL},
    {"lrzip", 0, MAGIC("LRZI\x00"), 0, 5, NULL, ".lrz", EXPAND("lrzip -d"), NULL},
    {"lz4 of before 2013 (legacy)", 0, MAGIC("\x02\x21\x4c\x18"), 0, 3, NULL, NULL,
     EXPAND("lz4 -d"), NULL},
    {"Snappy", 0, MAGIC("\xff\x06\x00\x00sNaPpY"), 0, 4, NULL, ".sz .snappy",
     EXPAND("snzip -d"), NULL},
    {"Snappy of Xerial", 0, MAGIC("\x82SNAPPY\0"), 0, 4, NULL, NULL,
     EXPAND("its own program"), NULL},
    {"zlib", 0, MAGIC("\x78\x01"), 0, 2, is_binary_behind, ".deflate", EXPAND("pigz -dz"),
     NULL},
    {"zlib", 0, MAGIC("\x78\x9c"), 0, 2, is_binary_behind, NULL, EXPAND("pigz -dz"), NULL},
    {"zlib", 0, MAGIC("\x78\xda"), 0, 2, is_binary_behind, NULL, EXPAND("pigz -dz"), NULL},
    {"zstd of version 0.1", 0, MAGIC("\xfd\x2f\xb5\x1e"), 0, 3, NULL, NULL,
     EXPAND("zstd -d of that time"), NULL},
    {"zstd of version 0.2", 0, MAGIC("\x22\xb5\x2f\xfd"), 0, 4, NULL, NULL,
     EXPAND("zstd -d of that time"), NULL},
    {"zstd of version 0.3", 0, MAGIC("\x23\xb5\x2f\xfd"), 0, 4, NULL, NULL,
     EXPAND("zstd -d of that time"), NULL},
    {"zstd of version 0.4", 0, MAGIC("\x24\xb5\x2f\xfd"), 0, 4, NULL, NULL,
     EXPAND("zstd -d of that time"), NULL},
    {"zstd of version 0.5", 0, MAGIC("\x25\xb5\x2f\xfd"), 0, 4, NULL, NULL,
     EXPAND("zstd -d"), NULL},
    {"zstd of version 0.6", 0, MAGIC("\x26\xb5\x2f\xfd"), 0, 4, NULL, NULL,
     EXPAND("zstd -d"), NULL},
    {"zstd of version 0.7", 0, MAGIC("\x27\xb5\x2f\xfd"), 0, 4, NULL, NULL,
     EXPAND("zstd -d"), NULL},
    {"a dictionary of zstd", 0, MAGIC("\x37\xa4\x30\xec"), 0, 4, NULL, NULL,
     "it holds no text", NULL},
    /* Formats without a magic number: only the file names identify them. */
    {"Brotli", 0, NULL, 0, 0, 0, NULL, ".br", EXPAND("brotli -d"), NULL},
};
/* clang-format on */

/* ---- by content, by name ---- */

static bool begins_as(const gy_file_format *format, const unsigned char *head, size_t size)
{
    if (format->magic == NULL || size < format->offset + format->bytes_min) {
        return false;
    }
    const size_t looked = GY_MIN(size - format->offset, format->magic_bytes);
    return memcmp(head + format->offset, format->magic, looked) == 0 &&
           (format->is_it == NULL || format->is_it(head, size));
}

const gy_file_format *gy_store_format_find(const void *head, size_t size_bytes)
{
    for (size_t i = 0; i < GY_COUNT(formats); i++) {
        if (begins_as(&formats[i], head, size_bytes)) {
            return &formats[i];
        }
    }
    return NULL;
}

const gy_file_format *gy_store_format_of(gy_encoding encoding)
{
    for (size_t i = 0; i < GY_COUNT(formats); i++) {
        if (formats[i].encoding == encoding && encoding != GY_ENCODING_AUTO) {
            return &formats[i];
        }
    }
    return NULL;
}

bool gy_store_format_is_skippable(const void *head, size_t size_bytes)
{
    return is_skippable(head, size_bytes);
}

/* The format that the end of a file's name stands for. */
static const gy_file_format *find_named(const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    if (dot == NULL || (slash != NULL && dot < slash)) {
        return NULL;
    }
    const size_t size = strlen(dot);
    for (size_t i = 0; i < GY_COUNT(formats); i++) {
        for (const char *at = formats[i].names; at != NULL && *at != '\0';) {
            const size_t length = strcspn(at, " ");
            if (length == size && strncasecmp(at, dot, size) == 0) {
                return &formats[i];
            }
            at += length + (at[length] == ' ');
        }
    }
    return NULL;
}

gy_encoding gy_store_encoding_for(gy_encoding asked, const char *path, bool is_binary)
{
    return asked != GY_ENCODING_AUTO || !is_binary || find_named(path) != NULL
               ? asked
               : GY_ENCODING_PLAIN;
}

gy_encoding gy_encoding_of_name(const char *name)
{
    const gy_file_format *format = find_named(name);
    return format != NULL ? format->encoding : GY_ENCODING_PLAIN;
}

/* ---- refusing ---- */

#define TAKEN "expected text, gzip, zstd, bzip2, xz or lz4"

static gy_status refuse(const char *path, const gy_file_format *format)
{
    return gy_fail(GY_FORMAT,
                   "%s: is %s, which Gyre does not read: " TAKEN
                   ": %s, or take its bytes as they are (--format text)",
                   path, format->name, format->advice);
}

gy_status gy_store_format_check(const char *path, const void *head, size_t size_bytes)
{
    const gy_file_format *format = gy_store_format_find(head, size_bytes);
    return format == NULL || format->ops != NULL ? GY_OK : refuse(path, format);
}

bool gy_store_format_is_packed(gy_encoding encoding, const void *head, size_t size_bytes)
{
    if (encoding == GY_ENCODING_AUTO) {
        const gy_file_format *format = gy_store_format_find(head, size_bytes);
        return format != NULL && format->ops != NULL;
    }
    return encoding != GY_ENCODING_PLAIN;
}

/* In UTF-16 and UTF-32 text Gyre would find words with NUL bytes, so such files are refused. */
static gy_status check_letters(const char *path, const unsigned char *head, size_t size)
{
    const struct {
        const char *mark, *name;
        size_t bytes;
    } marks[] = {{"\xff\xfe\0\0", "UTF-32LE", 4},
                 {"\0\0\xfe\xff", "UTF-32BE", 4},
                 {"\xff\xfe", "UTF-16LE", 2},
                 {"\xfe\xff", "UTF-16BE", 2}};
    for (size_t i = 0; i < GY_COUNT(marks); i++) {
        if (size >= marks[i].bytes && memcmp(head, marks[i].mark, marks[i].bytes) == 0) {
            return gy_fail(GY_FORMAT,
                           "%s: begins as %s does (%02x %02x): expected UTF-8 or bytes: "
                           "convert it first (iconv -f %s -t UTF-8)",
                           path, marks[i].name, head[0], head[1], marks[i].name);
        }
    }
    return GY_OK;
}

/* Is the whole file a beginning of the format's magic number? */
static bool is_cut_mark(const gy_file_format *format, const void *head, size_t size)
{
    return format->magic != NULL && format->offset == 0 && size > 0 &&
           size < format->bytes_min && memcmp(head, format->magic, size) == 0;
}

gy_status gy_store_format_check_text(const char *path, bool is_expanded, const void *head,
                                     size_t size_bytes)
{
    const gy_file_format *format = gy_store_format_find(head, size_bytes);
    if (format != NULL && format->ops == NULL) {
        return refuse(path, format);
    }
    if (format != NULL) { /* a format that Gyre decompresses, but not here, or only once */
        return gy_fail(GY_FORMAT, "%s: there is %s %s: expected text: expand it once before",
                       path, format->name, is_expanded ? "within what was expanded" : "in it");
    }
    const gy_file_format *named = is_expanded ? NULL : find_named(path);
    if (named != NULL && is_cut_mark(named, head, size_bytes)) {
        return gy_fail(GY_FORMAT, "%s: %s cut short at byte %zu", path, named->name,
                       size_bytes);
    }
    if (named != NULL && looks_binary(head, GY_MIN(size_bytes, (size_t)TEXT_LOOK_BYTES))) {
        return gy_fail(GY_FORMAT,
                       "%s: its name says %s, its first bytes do not, and they are no text: "
                       "repair it first, or read its bytes as they are (--format text)",
                       path, named->name);
    }
    return check_letters(path, head, size_bytes);
}
