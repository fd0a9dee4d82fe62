/** Files by URIs that may name the hosts whose local disks have them. */
#ifndef GY_STORE_HOST_FILE_H
#define GY_STORE_HOST_FILE_H

#include "base/base.h"

enum {
    GY_HOST_FILE_HOSTS = 1024,
    GY_HOST_FILE_NAME = 64 /* size of a host's name with its NUL */
};

/** The hosts and the path that a text names. */
typedef struct gy_host_file {
    char path[4096];
    char hosts[GY_HOST_FILE_HOSTS]; /* names separated by spaces; "": none was given */
} gy_host_file;

/** Is it "file://HOST/PATH" with a host other than "" and localhost? @threads any */
bool gy_host_file_is(const char *text);

/**
 * Parse a text: "file://HOST/PATH", "file://HOST,HOST/PATH" (each of the hosts has the file),
 * or a file without a host: "file:/PATH", "file:///PATH", "file://localhost/PATH", a path. In
 * URIs %41 is a byte.
 *
 * @return GY_OK; GY_ARG no path, %zz, a host's name of 64 bytes or more or with invalid
 *     letters, or too long
 * @threads any
 * @source RFC 8089; the list of hosts is this library's extension
 */
GY_MUST_CHECK gy_status gy_host_file_read(const char *text, gy_host_file *file);

#endif
