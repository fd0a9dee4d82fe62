/**
 * How the bytes of files are taken: which compression, and where lines end.
 */
#ifndef GYRE_FORMAT_H
#define GYRE_FORMAT_H

#ifdef __cplusplus
extern "C" {
#endif

/**
 * What a file's bytes are. By default its first bytes say so: gzip (also several members, and
 * NUL padding behind), zstd (also skippable frames, wherever they stand), bzip2, xz and lz4 are
 * expanded, whatever the file is called; containers that Gyre does not read (zip, tar, 7z,
 * Parquet, ...) are refused by name. Records of fixed size may begin with any bytes: they are
 * taken as they are, unless the file's name ends as a compressed one's does (.gz).
 */
typedef enum gy_encoding {
    GY_ENCODING_AUTO,
    GY_ENCODING_PLAIN, /* the bytes as they are, whatever they begin with */
    GY_ENCODING_GZIP,  /* this one; other bytes are refused */
    GY_ENCODING_ZSTD,
    GY_ENCODING_BZIP2,
    GY_ENCODING_XZ,
    GY_ENCODING_LZ4,
} gy_encoding;

/**
 * What ends a line of text, and a row of CSV outside of quotes. It is no part of the line;
 * what jobs write ends by '\n'. Spaces, tabs, '\n' and '\r' separate words, whatever ends
 * lines.
 */
typedef enum gy_line_end {
    GY_LINE_END_AUTO, /* '\n' and "\r\n"; in a file of whose first 64 KiB some bytes are '\r'
                         and none is '\n', and in CSV, '\r' as well */
    GY_LINE_END_LF,   /* '\n' alone: '\r' is a byte of its line */
    GY_LINE_END_ANY,  /* '\n', "\r\n" and '\r' */
} gy_line_end;

#ifdef __cplusplus
}
#endif
#endif
