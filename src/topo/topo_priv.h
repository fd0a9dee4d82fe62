/**
 * Inside room topo: small files of /sys and /proc.
 */
#ifndef GY_TOPO_TOPO_PRIV_H
#define GY_TOPO_TOPO_PRIV_H

#include "topo/topo.h"

/** The first size_bytes - 1 bytes of a file, NUL-terminated; false when it cannot be read or is
 * empty. */
bool gy_topo_read_file(const char *path, char *out, size_t size_bytes);

#endif
