/** Inside room rpc: bytes of a connection through shared memory, on one host. */
#ifndef GY_RPC_STREAM_RINGS_PRIV_H
#define GY_RPC_STREAM_RINGS_PRIV_H

#include "base/base.h"

#include <sys/uio.h>

typedef struct stream_rings stream_rings;

enum { GY_RINGS_TOKEN_BYTES = 16 };

/** Make the memory, which begins with `token`; the caller's end. GY_LIMIT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_rpc_rings_make(const uint8_t token[GY_RINGS_TOKEN_BYTES],
                                          stream_rings **rings);
/** Its descriptor, by which the other end opens it. */
int gy_rpc_rings_file(const stream_rings *rings);
/** The other end has opened it, or never will. */
void gy_rpc_rings_close_file(stream_rings *rings);
/**
 * Open the memory of another process that may be read here: the called end. Nothing of it is
 * believed.
 * @return GY_OK; GY_NOTFOUND it is not seen (another host, user or namespace); GY_FORMAT it is
 *     not such memory, or not of this token; GY_LIMIT; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_rpc_rings_open(uint32_t process, uint32_t file,
                                          const uint8_t token[GY_RINGS_TOKEN_BYTES],
                                          stream_rings **rings);
void gy_rpc_rings_free(stream_rings *rings);

/** As gy_tcp_wire_read and gy_tcp_wire_write. GY_OK; GY_AGAIN; GY_FORMAT the other end's counts
 * are wrong */
gy_status gy_rpc_rings_read(stream_rings *rings, const struct iovec *pieces, int count,
                            size_t *got);
gy_status gy_rpc_rings_write(stream_rings *rings, const struct iovec *pieces, int count,
                             size_t *put);

/** Has something come, or is there room for what waits to be sent? */
bool gy_rpc_rings_has_work(const stream_rings *rings, bool has_output);
/** This end is about to sleep: ask for a bell. False: there is work already. */
bool gy_rpc_rings_arm(stream_rings *rings, bool has_output);
void gy_rpc_rings_disarm(stream_rings *rings);
/** After a write, and after a read that made it roomy: does the other end sleep? It is asked
 * once for each bell. */
bool gy_rpc_rings_must_ring(const stream_rings *rings);
bool gy_rpc_rings_is_roomy(const stream_rings *rings);

#endif
