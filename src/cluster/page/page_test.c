/* Goal: the status page shows its content to holders of the token, under its own host names
 * only; strangers, garbage, floods and slow connections cost it little and block no others. */
#include "cluster/page/page.h"

#include "base/base.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gy_test.h"

enum { REPLY_BYTES = 64 << 10, WAIT_S = 20, IDLERS = 1000 };

/* ---- A page in this process, with a settable clock ---- */

static gy_env_ops ops;
static gy_env env = {.ops = &ops};
static int64_t moved_ns;
static char folder[32], token_file[64], token[GY_PAGE_TOKEN], reply[REPLY_BYTES];
static int written;
static gy_page *page;
static struct sockaddr_in address = {.sin_family = AF_INET};
static gy_page_options options;

static int64_t now_ns(gy_env *of)
{
    (void)of;
    return gy_now_ns(gy_env_real()) + moved_ns;
}

static void write_page(void *arg, gy_page_path path, gy_text *text)
{
    (void)arg;
    written++;
    gy_text_add(text, path == GY_PAGE_STATE ? "{\"written\":%d}" : "written %d\n", written);
}

static int begin(void **state)
{
    (void)state;
    ops = *gy_env_real()->ops;
    ops.now_ns = now_ns;
    snprintf(folder, sizeof(folder), "/tmp/gyre-page-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(token_file, sizeof(token_file), "%s/token", folder);
    options = (gy_page_options){
        .listen = "127.0.0.1:0", .token_file = token_file, .write = write_page};
    assert_ok(gy_page_open(&env, &options, &page));
    unsigned int port = 0;
    char more = '\0';
    assert_int_equal(sscanf(gy_page_url(page), "http://127.0.0.1:%u/%c", &port, &more), 1);
    FILE *file = fopen(token_file, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%64[0-9a-f]", token), 1);
    fclose(file);
    address.sin_port = htons((uint16_t)port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return 0;
}

static int end(void **state)
{
    (void)state;
    gy_page_close(page);
    page = NULL;
    return gy_disk_remove_tree(folder);
}

static int call(void)
{
    int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(file >= 0);
    assert_int_equal(connect(file, (const struct sockaddr *)&address, sizeof(address)), 0);
    return file;
}

static void say(int file, const char *bytes, size_t size)
{
    size_t sent = 0;
    while (sent < size) { /* the server has closed the connection */
        ssize_t put = send(file, bytes + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && errno != EAGAIN) {
            return;
        }
        sent += put > 0 ? (size_t)put : 0;
        gy_page_turn(page);
    }
}

/* Read all until the connection closes, into `reply`; the HTTP status, 0: none. */
static int hear(int file)
{
    size_t size = 0;
    int status = 0;
    const gy_deadline last = gy_deadline_after(WAIT_S);
    for (;;) {
        assert_true(gy_now_ns(gy_env_real()) < last.at_ns);
        struct pollfd files[] = {{.fd = gy_page_fd(page), .events = POLLIN},
                                 {.fd = file, .events = POLLIN}};
        assert_true(poll(files, 2, 100) >= 0);
        gy_page_turn(page);
        ssize_t got =
            recv(file, reply + size, sizeof(reply) - 1 - size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (got == 0 || (got < 0 && errno != EAGAIN)) {
            break;
        }
        size += got > 0 ? (size_t)got : 0;
        assert_true(size < sizeof(reply) - 1);
    }
    close(file);
    reply[size] = '\0';
    return sscanf(reply, "HTTP/1.%*1[01] %d", &status) == 1 ? status : 0;
}

/* A deadline shorter than the request timeout. */
static int handle_soon(int file)
{
    gy_page_turn(page);
    gy_page_turn(page);
    moved_ns += 16000000000;
    gy_page_turn(page);
    return hear(file);
}

/* Send a request with `line` and `headers` (each with its line end). */
static int ask(const char *line, const char *headers)
{
    char request[1024];
    int file = call();
    size_t size = gy_print(request, sizeof(request),
                           "%s HTTP/1.1\r\nConnection: close\r\n%s\r\n", line, headers);
    say(file, request, size);
    return hear(file);
}

#define HOST "Host: 127.0.0.1\r\n"

/* Headers with the token followed by `behind`, and more headers. */
static const char *bearer(const char *behind, const char *more)
{
    static char headers[512];
    snprintf(headers, sizeof(headers), HOST "Authorization: Bearer %s%s\r\n%s", token, behind,
             more);
    return headers;
}

GY_TEST(who_has_the_token_looks)
{
    char line[256], cookie[256];
    struct stat facts;
    assert_int_equal(stat(token_file, &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0600);
    assert_int_equal(facts.st_size, GY_PAGE_TOKEN);
    assert_int_equal(ask("GET /", HOST), 401);
    assert_non_null(strstr(reply, "WWW-Authenticate: Bearer"));
    assert_int_equal(ask("GET /?token=0123", HOST), 401);
    snprintf(line, sizeof(line), "GET /?token=%s", token);
    line[strlen(line) - 1] ^= 1;
    assert_int_equal(ask(line, HOST), 401);
    line[strlen(line) - 1] ^= 1;
    assert_int_equal(ask(line, HOST), 303);
    assert_non_null(strstr(reply, "Location: /\r\n"));
    const char *set = strstr(reply, "Set-Cookie: ");
    assert_non_null(set);
    assert_non_null(strstr(set, "; HttpOnly; SameSite=Strict\r\n"));
    snprintf(cookie, sizeof(cookie), HOST "Cookie: other=1; %.*s\r\n",
             (int)strcspn(set + 12, ";"), set + 12);
    assert_int_equal(ask("GET /", cookie), 200);
    assert_non_null(strstr(reply, "Content-Type: text/html"));
    assert_non_null(strstr(reply, "script-src 'sha256-"));
    assert_non_null(strstr(reply, "frame-ancestors 'none'"));
    assert_non_null(strstr(reply, "</html>"));
    assert_null(strstr(reply, token));
    assert_int_equal(ask("GET /state.json", cookie), 200);
    cookie[strlen(cookie) - 3] ^= 1;
    assert_int_equal(ask("GET /state.json", cookie), 401);
    assert_int_equal(ask("GET /metrics", bearer("", "")), 200);
    assert_int_equal(ask("GET /metrics", HOST "Authorization: Bearer 0123\r\n"), 401);
    assert_int_equal(ask("GET /metrics", bearer("0", "")), 401);
    snprintf(line, sizeof(line), "GET /state.json?token=%s", token);
    assert_int_equal(ask(line, HOST), 401);
}

/* Three paths; the content is written once for many requests at a time. */
GY_TEST(paths_and_methods)
{
    moved_ns += 1000000000;
    written = 0;
    assert_int_equal(ask("GET /state.json", bearer("", "")), 200);
    assert_non_null(strstr(reply, "\r\n\r\n{\"written\":1}"));
    assert_int_equal(ask("GET /state.json", bearer("", "")), 200);
    assert_int_equal(ask("HEAD /state.json", bearer("", "")), 200);
    assert_null(strstr(reply, "{\"written\""));
    assert_int_equal(ask("GET /metrics", bearer("", "")), 200);
    assert_non_null(strstr(reply, "Content-Type: text/plain; version=0.0.4"));
    assert_int_equal(written, 2);
    moved_ns += 1000000000;
    assert_int_equal(ask("GET /state.json", bearer("", "")), 200);
    assert_non_null(strstr(reply, "{\"written\":3}"));
    static const char *const missing[] = {"/x", "/metrics/", "//", "/../token", "/state.jso"};
    for (size_t i = 0; i < GY_COUNT(missing); i++) {
        char line[64];
        snprintf(line, sizeof(line), "GET %s", missing[i]);
        assert_int_equal(ask(line, bearer("", "")) / 100, 4);
    }
    static const char *const methods[] = {"POST",    "PUT",   "DELETE",
                                          "OPTIONS", "TRACE", "CONNECT"};
    for (size_t i = 0; i < GY_COUNT(methods); i++) {
        char line[64];
        snprintf(line, sizeof(line), "%s /", methods[i]);
        assert_int_equal(ask(line, bearer("", "")), 405);
        assert_non_null(strstr(reply, "Allow: GET, HEAD"));
    }
    assert_int_equal(ask("POST /", bearer("", "Content-Length: 1000000000000\r\n")), 405);
    assert_int_equal(ask("GET /", bearer("", "Content-Length: 5\r\n")), 400);
    assert_int_equal(ask("GET /", bearer("", "Transfer-Encoding: chunked\r\n")), 400);
}

/* A host name that others point to this address is refused. */
GY_TEST(other_hosts_are_refused)
{
    static const struct {
        const char *host;
        int status;
    } hosts[] = {{"evil.example", 421},   {"evil.example:80", 421},
                 {"127.0.0.1.evil", 421}, {"localhost.evil", 421},
                 {"[::1", 421},           {"[evil]", 421},
                 {"[::1]x", 421},         {"", 421},
                 {"localhost", 200},      {"LocalHost:8080", 200},
                 {"[::1]:8080", 200},     {"192.0.2.7", 200},
                 {"127.0.0.1:65535", 200}};
    for (size_t i = 0; i < GY_COUNT(hosts); i++) {
        char headers[512];
        snprintf(headers, sizeof(headers), "Host: %s\r\nAuthorization: Bearer %s\r\n",
                 hosts[i].host, token);
        int status = ask("GET /metrics", headers);
        if (status != hosts[i].status) {
            fail_msg("Host '%s': %d", hosts[i].host, status);
        }
    }
    assert_int_equal(ask("GET /metrics", "Authorization: Bearer 0123\r\n") / 100, 4);
}

GY_TEST(garbage_harms_nobody)
{
    static const char *const garbage[] = {
        "\r\n\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01",
        "GET / HTTP/1.1\r\nHost\r\n\r\n",
        "GET / HTTP/1.1\r\n: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET http://[/ HTTP/1.1\r\nHost: a\r\n\r\n"};
    for (size_t i = 0; i < GY_COUNT(garbage); i++) {
        int file = call();
        say(file, garbage[i], strlen(garbage[i]));
        assert_int_not_equal(handle_soon(file), 200);
    }
    gy_random random = {.key = gy_test_seed()};
    for (int i = 0; i < 50; i++) {
        char bytes[256];
        int file = call();
        for (size_t k = 0; k < sizeof(bytes); k++) {
            bytes[k] = (char)gy_random_below(&random, 256);
        }
        say(file, bytes, sizeof(bytes));
        assert_int_not_equal(handle_soon(file), 200);
    }
    static char huge[256 << 10];
    memset(huge, 'x', sizeof(huge));
    memcpy(huge, "GET / HTTP/1.1\r\nHost: ", 22);
    int file = call();
    say(file, huge, sizeof(huge));
    assert_int_not_equal(handle_soon(file), 200);
    memcpy(huge, "GET /", 5);
    memset(huge + 5, 'x', 20);
    file = call();
    say(file, huge, sizeof(huge));
    assert_int_not_equal(handle_soon(file), 200);
    assert_int_equal(ask("GET /metrics", bearer("", "")), 200);
}

/* Idle connections up to the limit leave room for requests. */
GY_TEST(idle_guests_block_nobody)
{
    static int idlers[IDLERS];
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int count = (int)GY_MIN(limit.rlim_cur / 8 - 2, (rlim_t)IDLERS);
    count = GY_MIN(count, (int)(limit.rlim_cur / 2) - 50);
    print_message("%d idle connections\n", count);
    for (int i = 0; i < count; i++) {
        idlers[i] = call();
        if (i % 16 == 0) {
            gy_page_turn(page);
        }
    }
    const int64_t began_ns = gy_now_ns(gy_env_real());
    assert_int_equal(ask("GET /metrics", bearer("", "")), 200);
    /* Before the idle ones are closed, after 10 s. */
    assert_true(gy_now_ns(gy_env_real()) - began_ns < 8000000000);
    for (int i = 0; i < count; i++) {
        close(idlers[i]);
    }
    assert_int_equal(ask("GET /metrics", bearer("", "")), 200);
}

/* A connection that sends a byte now and then has the same timeout as others. */
GY_TEST(slow_guests_go)
{
    int slow = call(), later = call();
    say(slow, "GET / HTTP/1.1\r\nHo", 18);
    assert_int_equal(ask("GET /metrics", bearer("", "")), 200);
    moved_ns += 14000000000;
    say(slow, "s", 1);
    assert_true(gy_page_next(page).at_ns <= now_ns(&env) + 1000000000);
    moved_ns += 2000000000;
    const int64_t began_ns = gy_now_ns(gy_env_real());
    assert_int_equal(hear(slow), 0);
    /* By the page's clock, not by libmicrohttpd's timeout of 10 s without data. */
    assert_true(gy_now_ns(gy_env_real()) - began_ns < 8000000000);
    close(later);
}

GY_TEST(addresses_are_checked)
{
    static const char *const wrong[] = {
        "", "x", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999", "127.0.0.1:http"};
    gy_page *other = NULL;
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        const gy_page_options bad = {
            .listen = wrong[i], .token_file = token_file, .write = write_page};
        assert_int_equal(gy_page_open(&env, &bad, &other), GY_ARG);
    }
    char at[64];
    snprintf(at, sizeof(at), "%u", (unsigned int)ntohs(address.sin_port));
    const gy_page_options taken = {.listen = at, .token_file = token_file, .write = write_page};
    assert_int_equal(gy_page_open(&env, &taken, &other), GY_EXISTS);
    const gy_page_options nowhere = {
        .listen = "0", .token_file = "/nowhere/token", .write = write_page};
    assert_int_equal(gy_page_open(&env, &nowhere, &other), GY_IO);
    assert_null(other);
}

/* ---- Texts of users ---- */

GY_TEST(texts_are_escaped)
{
    static const struct {
        const char *text, *string, *label;
    } cases[] = {
        {"plain \xC3\xBC \xE2\x82\xAC \xF0\x9F\x98\x80",
         "\"plain \xC3\xBC \xE2\x82\xAC \xF0\x9F\x98\x80\"",
         "\"plain \xC3\xBC \xE2\x82\xAC \xF0\x9F\x98\x80\""},
        {"</script>", "\"\\u003c/script\\u003e\"", "\"</script>\""},
        {"a\"b\\c\nd\t", "\"a\\u0022b\\u005cc\\u000ad\\u0009\"", "\"a\\\"b\\\\c\\nd\t\""},
        {"\xC0\xAF", "\"\xEF\xBF\xBD\xEF\xBF\xBD\"", "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {"\xED\xA0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"",
         "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {"\xF0\x9F", "\"\xEF\xBF\xBD\xEF\xBF\xBD\"", "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {"x\xFF", "\"x\xEF\xBF\xBD\"", "\"x\xEF\xBF\xBD\""},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_text string = {0}, label = {0};
        gy_page_add_string(&string, cases[i].text);
        gy_page_add_label(&label, cases[i].text);
        assert_string_equal(gy_text_get(&string), cases[i].string);
        assert_string_equal(gy_text_get(&label), cases[i].label);
        gy_text_free(&string);
        gy_text_free(&label);
    }
}

int main(void)
{
    struct rlimit limit;
    gy_log_set_level(GY_LOG_ERROR);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    return GY_TESTS_RUN(begin, end);
}
