/* Requests and answers. */
#include "cluster/page/page_priv.h"

#include "base/alloc.h"
#include "base/base.h"
#include "base/fail.h"
#include "base/log.h"

#include "cluster/page/page_text.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum {
    GUESTS_LEAST = 64,
    GUESTS_MOST = 2048,
    GUEST_BYTES = 16 << 10, /* a request with its headers, and buffered output */
    IDLE_S = 10,            /* without any data in either direction */
    REQUEST_S = 15,         /* for each request, however slowly its bytes come */
};

static const int64_t second_ns = 1000000000;

/* ---- Answers ---- */

typedef struct named {
    const char *name, *value;
} named;

/* NULL: no memory. */
static struct MHD_Response *make(const gy_page *page, const char *type, const void *body,
                                 size_t size_bytes, enum MHD_ResponseMemoryMode memory)
{
    const named headers[] = {{"Content-Type", type},
                             {"Cache-Control", "no-store"},
                             {"X-Content-Type-Options", "nosniff"},
                             {"X-Frame-Options", "DENY"},
                             {"Referrer-Policy", "no-referrer"},
                             {"Cross-Origin-Resource-Policy", "same-origin"},
                             {"Content-Security-Policy", page->policy}};
    struct MHD_Response *response =
        page->mhd->create_response_from_buffer(size_bytes, (void *)(uintptr_t)body, memory);
    for (size_t i = 0; response != NULL && i < GY_COUNT(headers); i++) {
        if (page->mhd->add_response_header(response, headers[i].name, headers[i].value) !=
            MHD_YES) {
            page->mhd->destroy_response(response);
            response = NULL;
        }
    }
    return response;
}

static enum MHD_Result send_once(const gy_page *page, struct MHD_Connection *connection,
                                 unsigned int code, struct MHD_Response *response)
{
    if (response == NULL) {
        return MHD_NO; /* closes the connection */
    }
    enum MHD_Result sent = page->mhd->queue_response(connection, code, response);
    page->mhd->destroy_response(response);
    return sent;
}

static enum MHD_Result refuse(const gy_page *page, struct MHD_Connection *connection,
                              unsigned int code, const char *why, named header)
{
    struct MHD_Response *response =
        make(page, "text/plain; charset=utf-8", why, strlen(why), MHD_RESPMEM_PERSISTENT);
    if (response != NULL && header.name != NULL &&
        page->mhd->add_response_header(response, header.name, header.value) != MHD_YES) {
        page->mhd->destroy_response(response);
        response = NULL;
    }
    return send_once(page, connection, code, response);
}

/* Redirect, so that the token does not stay in the browser's address bar and history. */
static enum MHD_Result welcome(const gy_page *page, struct MHD_Connection *connection)
{
    char cookie[GY_PAGE_TOKEN + 128];
    (void)snprintf(cookie, sizeof(cookie), "%s=%s; Path=/; HttpOnly; SameSite=Strict",
                   page->cookie, page->token);
    struct MHD_Response *response = make(page, "text/plain", "", 0, MHD_RESPMEM_PERSISTENT);
    if (response != NULL &&
        (page->mhd->add_response_header(response, "Set-Cookie", cookie) != MHD_YES ||
         page->mhd->add_response_header(response, "Location", "/") != MHD_YES)) {
        page->mhd->destroy_response(response);
        response = NULL;
    }
    return send_once(page, connection, MHD_HTTP_SEE_OTHER, response);
}

/* Send the cached text if it is recent, so that requests cost the owner little. */
static enum MHD_Result send_written(gy_page *page, struct MHD_Connection *connection,
                                    gy_page_path path)
{
    static const char *const types[GY_PAGE_TEXTS] = {
        [GY_PAGE_STATE] = "application/json",
        [GY_PAGE_METRICS] = "text/plain; version=0.0.4; charset=utf-8"};
    const int64_t now_ns = gy_now_ns(page->env);
    if (page->pages[path] == NULL || now_ns - page->written_ns[path] >= second_ns / 4) {
        gy_text text = {0};
        page->options->write(page->options->arg, path, &text);
        struct MHD_Response *made = text.status == GY_OK
                                        ? make(page, types[path], gy_text_get(&text),
                                               text.size_bytes, MHD_RESPMEM_MUST_COPY)
                                        : NULL;
        gy_text_free(&text);
        if (made == NULL) {
            return MHD_NO; /* no memory: closes the connection */
        }
        if (page->pages[path] != NULL) {
            page->mhd->destroy_response(page->pages[path]);
        }
        page->pages[path] = made;
        page->written_ns[path] = now_ns;
    }
    return page->mhd->queue_response(connection, MHD_HTTP_OK, page->pages[path]);
}

static enum MHD_Result refuse_token(gy_page *page, struct MHD_Connection *connection)
{
    const int64_t now_ns = gy_now_ns(page->env);
    page->refused++;
    if (page->warned_ns == 0 || now_ns - page->warned_ns >= 60 * second_ns) {
        gy_warn("status page: %llu requests without the token",
                (unsigned long long)page->refused);
        page->warned_ns = now_ns;
        page->refused = 0;
    }
    return refuse(page, connection, MHD_HTTP_UNAUTHORIZED,
                  "The token is missing or wrong: the name server printed at its start which "
                  "file has the token; open the address followed by ?token=TOKEN.\n",
                  (named){"WWW-Authenticate", "Bearer realm=\"gyre\""});
}

/* ---- Requests ---- */

static bool has_body(const gy_page *page, struct MHD_Connection *connection)
{
    const char *length =
        page->mhd->lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
    return page->mhd->lookup_connection_value(connection, MHD_HEADER_KIND,
                                              "Transfer-Encoding") != NULL ||
           (length != NULL && strcmp(length, "0") != 0);
}

static enum MHD_Result serve(gy_page *page, struct MHD_Connection *connection, const char *path)
{
    const bool is_root = strcmp(path, "/") == 0;
    const page_access access = gy_page_look(page, connection, is_root);
    if (access == ACCESS_NONE) {
        return refuse_token(page, connection);
    }
    if (access == ACCESS_QUERY) {
        return welcome(page, connection);
    }
    if (is_root) {
        return send_once(page, connection, MHD_HTTP_OK,
                         make(page, "text/html; charset=utf-8", gy_page_html,
                              sizeof(gy_page_html) - 1, MHD_RESPMEM_PERSISTENT));
    }
    if (strcmp(path, "/state.json") == 0) {
        return send_written(page, connection, GY_PAGE_STATE);
    }
    if (strcmp(path, "/metrics") == 0) {
        return send_written(page, connection, GY_PAGE_METRICS);
    }
    return refuse(page, connection, MHD_HTTP_NOT_FOUND, "There is no such page.\n", (named){0});
}

/* NOLINTBEGIN(readability-non-const-parameter): as libmicrohttpd calls it */
static enum MHD_Result answer(void *arg, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **seen)
{
    static char begun;
    gy_page *page = arg;
    (void)version;
    (void)upload;
    (void)upload_bytes; /* bodies are refused before they are read */
    if (*seen == NULL) {
        *seen = &begun;
        if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
            return refuse(page, connection, MHD_HTTP_METHOD_NOT_ALLOWED,
                          "Pages are read here and nothing else.\n",
                          (named){"Allow", "GET, HEAD"});
        }
        if (has_body(page, connection)) {
            return refuse(page, connection, MHD_HTTP_BAD_REQUEST, "A request has no body.\n",
                          (named){0});
        }
        return MHD_YES;
    }
    if (!gy_page_is_host(
            page, page->mhd->lookup_connection_value(connection, MHD_HEADER_KIND, "Host"))) {
        return refuse(page, connection, MHD_HTTP_MISDIRECTED_REQUEST,
                      "The Host header does not name this server.\n", (named){0});
    }
    return serve(page, connection, path);
}
/* NOLINTEND(readability-non-const-parameter) */

/* ---- Connections ---- */

static void part(page_guest *guest)
{
    guest->previous->next = guest->next;
    guest->next->previous = guest->previous;
}

/* Move it to the end of the list, as the youngest. */
static void renew(gy_page *page, page_guest *guest)
{
    guest->since_ns = gy_now_ns(page->env);
    guest->previous = page->guests.previous;
    guest->next = &page->guests;
    guest->previous->next = guest;
    guest->next->previous = guest;
}

static void come_or_go(void *arg, struct MHD_Connection *connection, void **context,
                       enum MHD_ConnectionNotificationCode code)
{
    gy_page *page = arg;
    page_guest *guest = *context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (guest != NULL) {
            part(guest);
            gy_free(guest);
        }
        return;
    }
    const union MHD_ConnectionInfo *info =
        page->mhd->get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    GY_ASSERT(info != NULL);
    guest = gy_alloc("page", sizeof(*guest));
    if (guest == NULL) { /* such a connection could not be timed out */
        (void)shutdown(info->connect_fd, SHUT_RDWR);
        return;
    }
    *guest = (page_guest){.fd = info->connect_fd};
    renew(page, guest);
    *context = guest;
}

static void answered(void *arg, struct MHD_Connection *connection, void **seen,
                     enum MHD_RequestTerminationCode code)
{
    gy_page *page = arg;
    const union MHD_ConnectionInfo *info =
        page->mhd->get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    page_guest *guest = info != NULL ? info->socket_context : NULL;
    *seen = NULL;
    (void)code;
    if (guest != NULL) {
        part(guest);
        renew(page, guest);
    }
}

/* Close connections whose requests take too long. */
static void end_slow(gy_page *page)
{
    const int64_t now_ns = gy_now_ns(page->env);
    page_guest *guest = page->guests.next;
    while (guest != &page->guests && now_ns - guest->since_ns >= REQUEST_S * second_ns) {
        (void)shutdown(guest->fd, SHUT_RDWR); /* libmicrohttpd notices and closes it */
        part(guest);
        renew(page, guest);
        guest = page->guests.next;
    }
}

/* ---- Beginning and end ---- */

GY_PRINTF(2, 0)
static void said(void *arg, const char *format, va_list arguments)
{
    gy_page *page = arg;
    (void)vsnprintf(page->said, sizeof(page->said), format, arguments);
    page->said[strcspn(page->said, "\n")] = '\0';
    gy_debug("status page: %s", page->said);
}

/* "HOST:PORT", "[HOST]:PORT", ":PORT" or "PORT". */
static gy_status find_address(gy_page *page, struct addrinfo **found)
{
    const struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_STREAM};
    const char *listen = page->options->listen;
    const char *colon = strrchr(listen, ':');
    const char *port = colon != NULL ? colon + 1 : listen;
    size_t size = colon != NULL ? (size_t)(colon - listen) : 0;
    if (size > 1 && listen[0] == '[' && listen[size - 1] == ']') {
        listen++;
        size -= 2;
    }
    if (size >= sizeof(page->host) || port[0] == '\0' ||
        strspn(port, "0123456789") != strlen(port) || strtol(port, NULL, 10) > 65535) {
        return gy_fail(GY_ARG, "'%s' is no address for the status page: HOST:PORT is one",
                       page->options->listen);
    }
    (void)snprintf(page->host, sizeof(page->host), "%.*s", (int)size, listen);
    if (size == 0) {
        (void)snprintf(page->host, sizeof(page->host), "127.0.0.1");
    }
    int status = getaddrinfo(page->host, port, &hints, found);
    return status == 0 ? GY_OK
                       : gy_fail(GY_ARG, "the status page cannot listen at %s: %s",
                                 page->options->listen, gai_strerror(status));
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in four;
        memcpy(&four, address, sizeof(four));
        return ntohl(four.sin_addr.s_addr) >> 24 == 127;
    }
    struct sockaddr_in6 six;
    memcpy(&six, address, sizeof(six));
    return IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
}

/* An eighth of this process's limit of descriptors. */
static unsigned int guest_limit(void)
{
    struct rlimit limit;
    rlim_t most = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / 8 : GUESTS_LEAST;
    return (unsigned int)GY_MIN(GY_MAX(most, (rlim_t)GUESTS_LEAST), (rlim_t)GUESTS_MOST);
}

static gy_status begin(gy_page *page, const struct addrinfo *at)
{
    const unsigned int flags =
        MHD_USE_EPOLL | MHD_USE_ERROR_LOG | (at->ai_family == AF_INET6 ? MHD_USE_IPv6 : 0u);
    if (!is_loopback(at->ai_addr)) {
        gy_warn("the status page at %s is not encrypted: whoever sees its bytes has its token",
                page->options->listen);
    }
    errno = 0;
    page->daemon = page->mhd->start_daemon(
        flags, 0, NULL, NULL, answer, page, MHD_OPTION_EXTERNAL_LOGGER, said, page,
        MHD_OPTION_SOCK_ADDR, at->ai_addr, MHD_OPTION_CONNECTION_LIMIT, guest_limit(),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)GUEST_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned int)IDLE_S, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_CONNECTION,
        come_or_go, page, MHD_OPTION_NOTIFY_COMPLETED, answered, page, MHD_OPTION_END);
    const gy_status why = errno == EADDRINUSE ? GY_EXISTS : GY_IO;
    if (page->daemon == NULL) {
        return gy_fail(why, "the status page cannot listen at %s: %s", page->options->listen,
                       page->said);
    }
    const union MHD_DaemonInfo *info =
        page->mhd->get_daemon_info(page->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    GY_ASSERT(info != NULL);
    page->fd = info->epoll_fd;
    info = page->mhd->get_daemon_info(page->daemon, MHD_DAEMON_INFO_BIND_PORT);
    GY_ASSERT(info != NULL);
    const bool is_six = strchr(page->host, ':') != NULL;
    (void)snprintf(page->cookie, sizeof(page->cookie), "gyre-%u", (unsigned int)info->port);
    (void)snprintf(page->url, sizeof(page->url), "http://%s%s%s:%u/", is_six ? "[" : "",
                   page->host, is_six ? "]" : "", (unsigned int)info->port);
    return GY_OK;
}

gy_status gy_page_open(gy_env *env, const gy_page_options *options, gy_page **page)
{
    struct addrinfo *found = NULL;
    gy_page *made = gy_alloc_zero("page", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->env = env;
    made->options = options;
    made->fd = -1;
    made->guests.next = made->guests.previous = &made->guests;
    gy_status status = gy_mhd_load(&made->mhd);
    status = status == GY_OK ? find_address(made, &found) : status;
    GY_ASSERT(status < 0 || found != NULL);
    status = status == GY_OK ? begin(made, found) : status;
    if (status == GY_OK) {
        gy_page_make_policy(made, (const char *)gy_page_html);
        status = gy_page_draw_token(made);
    }
    if (found != NULL) {
        freeaddrinfo(found);
    }
    if (status < 0) {
        gy_error why;
        gy_error_take(&why, status);
        gy_page_close(made);
        return gy_error_raise(&why);
    }
    *page = made;
    return GY_OK;
}

const char *gy_page_url(const gy_page *page)
{
    return page->url;
}

int gy_page_fd(const gy_page *page)
{
    return page->fd;
}

gy_deadline gy_page_next(const gy_page *page)
{
    MHD_UNSIGNED_LONG_LONG wait_ms = 0;
    int64_t next_ns = INT64_MAX;
    if (page->mhd->get_timeout(page->daemon, &wait_ms) == MHD_YES) {
        next_ns = gy_now_ns(page->env) + (int64_t)GY_MIN(wait_ms, 60000ull) * 1000000;
    }
    if (page->guests.next != &page->guests) {
        next_ns = GY_MIN(next_ns, page->guests.next->since_ns + REQUEST_S * second_ns);
    }
    return (gy_deadline){next_ns};
}

void gy_page_turn(gy_page *page)
{
    end_slow(page);
    if (page->mhd->run(page->daemon) != MHD_YES) {
        gy_debug("status page: %s", page->said);
    }
}

void gy_page_close(gy_page *page)
{
    if (page == NULL) {
        return;
    }
    if (page->daemon != NULL) {
        page->mhd->stop_daemon(page->daemon);
    }
    for (size_t i = 0; i < GY_PAGE_TEXTS; i++) {
        if (page->pages[i] != NULL) {
            page->mhd->destroy_response(page->pages[i]);
        }
    }
    gy_free(page);
}
