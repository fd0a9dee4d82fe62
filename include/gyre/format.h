/**
 * How the bytes of files are interpreted: which compression, and where lines end.
 */
#ifndef GYRE_FORMAT_H
#define GYRE_FORMAT_H

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The compression of a file. By default its first bytes decide, not its name: gzip (also
 * several members, and NUL padding behind), zstd (also skippable frames anywhere), bzip2, xz
 * and lz4 are decompressed; a container that Gyre does not read (zip, tar, 7z, Parquet, ...) is
 * an error that names it. Records of fixed size may begin with any bytes, so a file of them is
 * decompressed only when its name ends like a compressed one's (.gz).
 */
typedef enum gy_encoding {
    GY_ENCODING_AUTO,
    GY_ENCODING_PLAIN, /* not compressed, whatever the first bytes are */
    GY_ENCODING_GZIP,  /* this one; a file that is something else is an error */
    GY_ENCODING_ZSTD,
    GY_ENCODING_BZIP2,
    GY_ENCODING_XZ,
    GY_ENCODING_LZ4,
} gy_encoding;

/**
 * What ends a line of text, and a row of CSV outside of quotes. It is not part of the line.
 * Jobs write lines that end with '\n'. Spaces, tabs, '\n' and '\r' separate words in every
 * case.
 */
typedef enum gy_line_end {
    GY_LINE_END_AUTO, /* '\n' and "\r\n"; also '\r' in CSV, and in a file whose first 64 KiB
                         have a '\r' and no '\n' */
    GY_LINE_END_LF,   /* '\n' alone: '\r' is a byte of its line; not of CSV */
    GY_LINE_END_ANY,  /* '\n', "\r\n" and '\r' */
} gy_line_end;

#ifdef __cplusplus
}
#endif
#endif
