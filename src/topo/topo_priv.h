/**
 * Inside room topo: small files of /sys and /proc.
 */
#ifndef GY_TOPO_TOPO_PRIV_H
#define GY_TOPO_TOPO_PRIV_H

#include "topo/topo.h"

/** The first size_bytes - 1 bytes of a file, NUL-terminated; false when it cannot be read or is
 * empty. */
bool gy_topo_read_file(const char *path, char *out, size_t size_bytes);

/**
 * The smallest quota, in cores, on the way from control group `group` ("/a/b") to the root of
 * the tree at `mount`; 0: no limit. Groups that are not there have none. version: 1 or 2.
 */
double gy_topo_quota_in(const char *mount, const char *group, int version);

#endif
