#include "transport/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

gy_status gy_address_split(const char *text, uint16_t least, char host[256], char port[8])
{
    GY_ASSERT(text != NULL);
    GY_ASSERT(least <= 1);
    const char *colon = strrchr(text, ':');
    size_t length = colon != NULL ? (size_t)(colon - text) : 0;
    bool is_bracketed = length >= 2 && text[0] == '[' && text[length - 1] == ']';
    size_t from = is_bracketed ? 1 : 0;
    length -= 2 * from;
    char *end = NULL;
    errno = 0;
    long number = colon != NULL ? strtol(colon + 1, &end, 10) : 0;
    bool is_port = colon != NULL && end != colon + 1 && *end == '\0' && errno == 0 &&
                   number >= least && number <= UINT16_MAX;
    if (colon == NULL || length == 0 || length >= 256 || !is_port ||
        (!is_bracketed && memchr(text, ':', length) != NULL)) {
        return gy_fail(GY_ARG, "\"%.200s\" is no address: expected HOST:PORT, port %u to 65535",
                       text, (unsigned)least);
    }
    memcpy(host, text + from, length);
    host[length] = '\0';
    snprintf(port, 8, "%ld", number);
    return GY_OK;
}

gy_status gy_address_find(const char *text, gy_address *address)
{
    GY_ASSERT(address != NULL);
    char host[256], port[8];
    GY_TRY(gy_address_split(text, 1, host, port));
    struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int code = getaddrinfo(host, port, &wanted, &found);
    if (code != 0) {
        return gy_fail(GY_NOTFOUND, "host %s is not known: %s", host, gai_strerror(code));
    }
    GY_ASSERT(found->ai_addrlen <= sizeof(address->at));
    address->size_bytes = found->ai_addrlen;
    memcpy(&address->at, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return GY_OK;
}

bool gy_address_is_loopback(const gy_address *address)
{
    if (address->at.any.sa_family == AF_INET6) {
        return IN6_IS_ADDR_LOOPBACK(&address->at.v6.sin6_addr);
    }
    return ntohl(address->at.v4.sin_addr.s_addr) >> 24 == 127;
}

bool gy_address_is_any(const gy_address *address)
{
    if (address->at.any.sa_family == AF_INET6) {
        return IN6_IS_ADDR_UNSPECIFIED(&address->at.v6.sin6_addr);
    }
    return address->at.v4.sin_addr.s_addr == htonl(INADDR_ANY);
}

uint16_t gy_address_port(const gy_address *address)
{
    return ntohs(address->at.any.sa_family == AF_INET6 ? address->at.v6.sin6_port
                                                       : address->at.v4.sin_port);
}

void gy_address_set_port(gy_address *address, uint16_t port)
{
    if (address->at.any.sa_family == AF_INET6) {
        address->at.v6.sin6_port = htons(port);
    } else {
        address->at.v4.sin_port = htons(port);
    }
}

const char *gy_address_text(const gy_address *address, char out[GY_ADDRESS_TEXT_BYTES])
{
    GY_ASSERT(out != NULL);
    char host[INET6_ADDRSTRLEN] = "?";
    bool is_v6 = address->at.any.sa_family == AF_INET6;
    const void *at = is_v6 ? (const void *)&address->at.v6.sin6_addr
                           : (const void *)&address->at.v4.sin_addr;
    (void)inet_ntop(address->at.any.sa_family, at, host, sizeof(host));
    snprintf(out, GY_ADDRESS_TEXT_BYTES, is_v6 ? "[%s]:%u" : "%s:%u", host,
             (unsigned)gy_address_port(address));
    return out;
}

gy_status gy_address_own(int socket, gy_address *address)
{
    GY_ASSERT(socket >= 0);
    address->size_bytes = sizeof(address->at);
    if (getsockname(socket, &address->at.any, &address->size_bytes) != 0) {
        return gy_fail(GY_IO, "a socket has no address: %s", strerror(errno));
    }
    return GY_OK;
}

gy_status gy_address_listen(gy_address *address, int *listener)
{
    GY_ASSERT(listener != NULL);
    GY_ASSERT(address->size_bytes <= sizeof(address->at));
    char text[GY_ADDRESS_TEXT_BYTES];
    int one = 1;
    int made = socket(address->at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0 || setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
        bind(made, &address->at.any, address->size_bytes) != 0 ||
        listen(made, SOMAXCONN) != 0) {
        gy_status status = gy_fail(GY_IO, "cannot listen at %s: %s",
                                   gy_address_text(address, text), strerror(errno));
        if (made >= 0) {
            close(made);
        }
        return status;
    }
    gy_status status = gy_address_own(made, address);
    if (status < 0) {
        close(made);
        return status;
    }
    *listener = made;
    return GY_OK;
}
