/**
 * Files by URIs that may name the hosts on whose own disks they lie.
 */
#ifndef GY_STORE_HOST_FILE_H
#define GY_STORE_HOST_FILE_H

#include "base/base.h"

enum { GY_HOST_FILE_HOSTS = 1024, GY_HOST_FILE_NAME = 64 /* of a host, with its end */ };

/** What a text names. */
typedef struct gy_host_file {
    char path[4096];
    char hosts[GY_HOST_FILE_HOSTS]; /* names with a blank between; "": none was given */
} gy_host_file;

/** Is it "file://HOST/PATH", of other hosts than "" and localhost? @threads any */
bool gy_host_file_is(const char *text);

/**
 * Take a text apart: "file://HOST/PATH", "file://HOST,HOST/PATH" (any of them has it), or what
 * is of no host: "file:/PATH", "file:///PATH", "file://localhost/PATH", a path. In URIs %41 is
 * a byte.
 *
 * @return GY_OK; GY_ARG no path, %zz, a host's name of 64 bytes or more or with letters that no
 * host has, too long
 * @threads any
 * @source RFC 8089; the list of hosts is this library's
 */
GY_MUST_CHECK gy_status gy_host_file_read(const char *text, gy_host_file *file);

#endif
