/**
 * Inside room transport: TLS 1.3 with an external pre-shared key (RFC 8446, 4.2.11) and
 * ephemeral Diffie-Hellman, over buffers that wire.c moves.
 */
#ifndef GY_TRANSPORT_TCP_TLS_PRIV_H
#define GY_TRANSPORT_TCP_TLS_PRIV_H

#include "transport/net.h"

#include <openssl/ssl.h>

/** Make one end of a connection. `wire` is the argument for gy_tls_receive and gy_tls_send. */
GY_MUST_CHECK gy_status gy_tls_open(gy_tls *tls, void *wire, bool is_caller, SSL **ssl);
/** Explain a failed handshake in a message; GY_STATE. */
gy_status gy_tls_explain(const gy_tls *tls, const SSL *ssl, bool is_caller);
/** Did the shared key authenticate both ends? */
bool gy_tls_is_proved(SSL *ssl);

/** For the caller: the name that it offered; for the called end: the name that the caller sent,
 * or "". */
const char *gy_tls_key_name(const SSL *ssl);
void gy_tls_close(SSL *ssl);

/** From now on read one record, or several (is_deep), from the socket at once. */
void gy_tls_read_ahead(SSL *ssl, bool is_deep);

/** In wire.c; `arg` is the wire. > 0 bytes moved; 0 the end; -1 would block; -2 broken. */
int gy_tls_receive(void *arg, void *to, int size_bytes);
int gy_tls_send(void *arg, const void *from, int size_bytes);

#endif
