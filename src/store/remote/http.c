/*
 * One HTTP request: libcurl's multi interface with a single transfer, so that a wait ends at
 * our deadline, after a silence, or when another thread cancels. Answers are not trusted:
 * stored values are bounded, and a range is compared with the request.
 *
 * Source: RFC 9110 (ranges, If-Match, Retry-After).
 */
#include "store/remote/curl.h"
#include "store/remote/remote_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { KEPT_MOST = 32, BUFFER_BYTES = 512 << 10, POLL_MS_MOST = 10000, CONNECT_MS = 10000 };
enum { CONTINUE_MS = 200 }; /* how long to wait for "100 Continue" before a body is sent */

struct gy_http {
    gy_env *env;
    const gy_curl *curl;
    CURL *easy;
    CURLM *multi;
    pid_t process; /* a forked child must not use its parent's connections */
    gy_http *next;
    char trouble[CURL_ERROR_SIZE];
};

/* Idle connections. */
static struct {
    pthread_mutex_t lock;
    gy_http *first;
    int count;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

typedef struct http_exchange {
    gy_http *http;
    const gy_http_request *request;
    gy_http_answer *answer;
    struct curl_slist *headers;
    size_t header_bytes;
    bool is_judged;   /* the answer's head was checked */
    bool is_enough;   /* the rest of the body is not needed */
    gy_status failed; /* failure of a callback, which ended the transfer */
} http_exchange;

static void destroy(gy_http *http)
{
    if (http->easy != NULL) {
        http->curl->easy_cleanup(http->easy);
    }
    if (http->multi != NULL) {
        (void)http->curl->multi_cleanup(http->multi);
    }
    gy_free(http);
}

gy_status gy_http_open(gy_env *env, gy_http **http)
{
    const gy_curl *curl = NULL;
    GY_TRY(gy_curl_load(&curl));
    GY_ASSERT(pthread_mutex_lock(&kept.lock) == 0);
    gy_http *made = kept.first;
    if (made != NULL && made->process == getpid()) {
        kept.first = made->next;
        kept.count--;
    } else {
        made = NULL;
    }
    GY_ASSERT(pthread_mutex_unlock(&kept.lock) == 0);
    if (made == NULL) {
        made = gy_alloc_zero("store.http", 1, sizeof(*made));
        if (made == NULL) {
            return GY_NOMEM;
        }
        *made = (gy_http){.curl = curl,
                          .easy = curl->easy_init(),
                          .multi = curl->multi_init(),
                          .process = getpid()};
        if (made->easy == NULL || made->multi == NULL) {
            destroy(made);
            return gy_fail(GY_NOMEM, "out of memory: no room for a connection");
        }
    }
    made->env = env;
    *http = made;
    return GY_OK;
}

void gy_http_close(gy_http *http)
{
    if (http == NULL) {
        return;
    }
    GY_ASSERT(pthread_mutex_lock(&kept.lock) == 0);
    const bool is_ours = kept.first == NULL || kept.first->process == getpid();
    const bool is_kept = is_ours && kept.count < KEPT_MOST;
    if (is_kept) {
        http->next = kept.first;
        kept.first = http;
        kept.count++;
    }
    GY_ASSERT(pthread_mutex_unlock(&kept.lock) == 0);
    if (!is_kept) {
        destroy(http);
    }
}

void gy_http_drop_kept(void)
{
    GY_ASSERT(pthread_mutex_lock(&kept.lock) == 0);
    gy_http *first = kept.first;
    kept.first = NULL;
    kept.count = 0;
    GY_ASSERT(pthread_mutex_unlock(&kept.lock) == 0);
    while (first != NULL) {
        gy_http *next = first->next;
        destroy(first);
        first = next;
    }
}

void gy_http_wake(gy_http *http)
{
    (void)http->curl->multi_wakeup(http->multi);
}

/* ---- the head of an answer ---- */

static void keep_value(char *out, size_t size_bytes, const char *value, size_t size)
{
    if (size < size_bytes) { /* nobody needs longer values */
        memcpy(out, value, size);
        out[size] = '\0';
    }
}

/* "bytes 5-9/100", "bytes 5-9/…" */
static void keep_range(gy_http_answer *answer, const char *value)
{
    unsigned long long first = 0, last = 0, total = 0;
    char star = '\0';
    if (sscanf(value, "bytes %19llu-%19llu/%19llu", &first, &last, &total) == 3) {
        answer->range_at = first;
        answer->range_total = total;
    } else if (sscanf(value, "bytes %19llu-%19llu/%c", &first, &last, &star) == 3) {
        answer->range_at = first;
    }
}

void gy_store_version_keep(char version[GY_VERSION_BYTES], const char *tag, size_t size_bytes)
{
    const bool is_quoted = size_bytes >= 2 && tag[0] == '"' && tag[size_bytes - 1] == '"';
    keep_value(version, GY_VERSION_BYTES, is_quoted ? tag + 1 : tag,
               size_bytes - (is_quoted ? 2 : 0));
}

static void keep_header(http_exchange *exchange, const char *name, const char *value,
                        size_t size)
{
    gy_http_answer *answer = exchange->answer;
    if (strcasecmp(name, "etag") == 0) {
        gy_store_version_keep(answer->etag, value, size);
    } else if (strcasecmp(name, "location") == 0) {
        keep_value(answer->location, sizeof(answer->location), value, size);
    } else if (strcasecmp(name, "content-range") == 0) {
        keep_range(answer, value);
    } else if (strcasecmp(name, "content-length") == 0) {
        char *end = NULL;
        errno = 0;
        const unsigned long long bytes = strtoull(value, &end, 10);
        if (errno == 0 && end != value && value[0] != '-') {
            answer->content_bytes = bytes;
        }
    } else if (strcasecmp(name, "last-modified") == 0) {
        const time_t at = exchange->http->curl->getdate(value, NULL);
        answer->modified_ms = at > 0 ? (int64_t)at * 1000 : 0;
    } else if (strcasecmp(name, "retry-after") == 0) {
        const double wait = strtod(value, NULL);
        /* a date: use our own pause instead */
        answer->retry_after_s = wait > 0 && wait < 3600 ? wait : 0;
    } else if (strcasecmp(name, "x-amz-bucket-region") == 0) {
        keep_value(answer->region, sizeof(answer->region), value, size);
    } else if (strcasecmp(name, "x-amz-meta-gyre-token") == 0) {
        keep_value(answer->token, sizeof(answer->token), value, size);
    }
}

/* Clear what an earlier answer left: "100 Continue" comes before the final answer. */
static void begin_answer(gy_http_answer *answer)
{
    const size_t body_bytes = answer->body_bytes;
    memset(answer, 0, sizeof(*answer));
    answer->body_bytes = body_bytes;
    answer->content_bytes = answer->range_at = answer->range_total = UINT64_MAX;
}

static gy_status end_within(http_exchange *exchange, gy_status status)
{
    if (exchange->failed == GY_OK) {
        exchange->failed = status;
    }
    return status;
}

static size_t on_header(char *line, size_t one, size_t size, void *arg)
{
    http_exchange *exchange = arg;
    (void)one;
    exchange->header_bytes += size;
    if (exchange->header_bytes > GY_HTTP_HEADERS_MOST) {
        end_within(exchange,
                   gy_fail(GY_LIMIT, "headers of more than %d bytes", GY_HTTP_HEADERS_MOST));
        return 0;
    }
    char copy[GY_HTTP_LOCATION_BYTES + 64];
    const size_t kept_bytes = GY_MIN(size, sizeof(copy) - 1);
    memcpy(copy, line, kept_bytes);
    copy[kept_bytes] = '\0';
    if (strncmp(copy, "HTTP/", 5) == 0) {
        const char *status = strchr(copy, ' ');
        begin_answer(exchange->answer);
        exchange->answer->status = status != NULL ? (int)strtol(status, NULL, 10) : 0;
        exchange->is_judged = false;
        return size;
    }
    char *colon = strchr(copy, ':');
    if (colon != NULL && kept_bytes == size) {
        *colon = '\0';
        const char *value = colon + 1 + strspn(colon + 1, " \t");
        size_t length = strlen(value);
        while (length > 0 && strchr(" \t\r\n", value[length - 1]) != NULL) {
            length--;
        }
        copy[value - copy + (ptrdiff_t)length] = '\0';
        keep_header(exchange, copy, value, length);
    }
    return size;
}

static bool is_good(int status)
{
    return status >= 200 && status < 300;
}

/* Check the answer's head against the request before the first byte is stored. */
static gy_status judge(http_exchange *exchange)
{
    const gy_http_request *request = exchange->request;
    gy_http_answer *answer = exchange->answer;
    if (exchange->is_judged || !is_good(answer->status)) {
        return GY_OK;
    }
    exchange->is_judged = true;
    if (request->version != NULL && answer->etag[0] != '\0' &&
        strcmp(answer->etag, request->version) != 0) {
        answer->is_changed = true;
        return end_within(exchange,
                          gy_fail(GY_STATE, "it was changed meanwhile: version %s, expected %s",
                                  answer->etag, request->version));
    }
    if (!request->is_range) {
        return GY_OK;
    }
    const uint64_t at = request->at + answer->body_bytes;
    if (answer->status == 206 && answer->range_at != at) {
        return end_within(exchange,
                          gy_fail(GY_FORMAT, "the answer's range begins elsewhere than at %llu",
                                  (unsigned long long)at));
    }
    if (answer->status != 206 && at > 0) {
        return end_within(exchange, gy_fail(GY_UNSUPPORTED, "the server gives no ranges"));
    }
    return GY_OK;
}

static size_t on_body(char *data, size_t one, size_t size, void *arg)
{
    http_exchange *exchange = arg;
    (void)one;
    const gy_http_request *request = exchange->request;
    gy_http_answer *answer = exchange->answer;
    if (!is_good(answer->status)) {
        const size_t room = sizeof(answer->error) - 1 - answer->error_bytes;
        const size_t taken = GY_MIN(size, room);
        memcpy(answer->error + answer->error_bytes, data, taken);
        answer->error_bytes += taken;
        exchange->is_enough = taken < size;
        return taken;
    }
    if (judge(exchange) < 0) {
        return 0;
    }
    if (request->into == NULL) {
        return size; /* the caller does not want the body */
    }
    const size_t room = request->into_bytes - answer->body_bytes;
    const size_t taken = GY_MIN(size, room);
    if (taken > 0) {
        memcpy(request->into + answer->body_bytes, data, taken);
        answer->body_bytes += taken;
    }
    if (taken < size && request->is_range && answer->status != 206) {
        /* the server ignored the range and sent the whole object; only its beginning was
         * wanted */
        exchange->is_enough = true;
    } else if (taken < size) {
        end_within(exchange,
                   gy_fail(GY_LIMIT, "an answer of more than %zu bytes", request->into_bytes));
    }
    return taken;
}

/* ---- the request ---- */

static gy_status add_header(http_exchange *exchange, const char *line)
{
    struct curl_slist *longer = exchange->http->curl->slist_append(exchange->headers, line);
    if (longer == NULL) {
        return gy_fail(GY_NOMEM, "out of memory: no room for a header");
    }
    exchange->headers = longer;
    return GY_OK;
}

static gy_status add_headers(http_exchange *exchange)
{
    const gy_http_request *request = exchange->request;
    for (int i = 0; i < GY_HTTP_HEADERS && request->headers[i] != NULL; i++) {
        GY_TRY(add_header(exchange, request->headers[i]));
    }
    char line[GY_VERSION_BYTES + 64];
    if (request->is_range) {
        const uint64_t at = request->at + exchange->answer->body_bytes;
        const uint64_t last = request->at + request->into_bytes - 1;
        snprintf(line, sizeof(line), "Range: bytes=%llu-%llu", (unsigned long long)at,
                 (unsigned long long)last);
        GY_TRY(add_header(exchange, line));
    }
    if (request->version != NULL) {
        const char *quote = strncmp(request->version, "W/", 2) == 0 ? "" : "\"";
        snprintf(line, sizeof(line), "If-Match: %s%s%s", quote, request->version, quote);
        GY_TRY(add_header(exchange, line));
    }
    return GY_OK;
}

#define SET(option, value) (is_set = is_set && set(easy, (option), (value)) == CURLE_OK)

static bool set_body(const gy_http_request *request, const gy_curl *curl, CURL *easy)
{
    __typeof__(curl->easy_setopt) set = curl->easy_setopt;
    bool is_set = true;
    const bool is_head = strcmp(request->method, "HEAD") == 0;
    if (is_head) {
        SET(CURLOPT_NOBODY, 1L);
    } else if (strcmp(request->method, "GET") != 0) {
        SET(CURLOPT_CUSTOMREQUEST, request->method);
    }
    if (strcmp(request->method, "PUT") == 0 || strcmp(request->method, "POST") == 0) {
        SET(CURLOPT_POSTFIELDS, request->body != NULL ? (const char *)request->body : "");
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_bytes);
        SET(CURLOPT_EXPECT_100_TIMEOUT_MS, (long)CONTINUE_MS);
        (void)set(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)BUFFER_BYTES);
    }
    if (request->sign != NULL) {
        SET(CURLOPT_AWS_SIGV4, request->sign);
        SET(CURLOPT_USERNAME, request->key);
        SET(CURLOPT_PASSWORD, request->secret);
    }
    if (request->authorities != NULL) {
        SET(CURLOPT_CAINFO, request->authorities);
        SET(CURLOPT_CAPATH, NULL);
    }
    if (request->certificate != NULL) {
        SET(CURLOPT_SSLCERT, request->certificate);
        SET(CURLOPT_SSLKEY, request->certificate_key);
    }
    return is_set;
}

static gy_status set_options(http_exchange *exchange)
{
    gy_http *http = exchange->http;
    CURL *easy = http->easy;
    __typeof__(http->curl->easy_setopt) set = http->curl->easy_setopt;
    bool is_set = true;
    http->curl->easy_reset(easy); /* keeps its connections */
    http->trouble[0] = '\0';
    SET(CURLOPT_URL, exchange->request->url);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    /* fails with an error when a transfer without a host has left a buffer of this size */
    (void)set(easy, CURLOPT_BUFFERSIZE, (long)BUFFER_BYTES);
    SET(CURLOPT_USERAGENT, "gyre");
    SET(CURLOPT_ERRORBUFFER, http->trouble);
    SET(CURLOPT_HTTPHEADER, exchange->headers);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, exchange);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, exchange);
    /* libcurl repeats a request by itself when a reused connection turns out to be closed */
    SET(CURLOPT_FRESH_CONNECT, exchange->request->is_once ? 1L : 0L);
    is_set = is_set && set_body(exchange->request, http->curl, easy);
    return is_set ? GY_OK : gy_fail(GY_NOMEM, "libcurl does not take a request's settings");
}

#undef SET

/* ---- the transfer ---- */

static uint64_t moved_bytes(const http_exchange *exchange)
{
    const gy_http *http = exchange->http;
    curl_off_t down = 0, up = 0;
    (void)http->curl->easy_getinfo(http->easy, CURLINFO_SIZE_DOWNLOAD_T, &down);
    (void)http->curl->easy_getinfo(http->easy, CURLINFO_SIZE_UPLOAD_T, &up);
    return (uint64_t)down + (uint64_t)up + exchange->header_bytes;
}

static gy_status give_up(http_exchange *exchange, const char *why, double seconds)
{
    snprintf(exchange->answer->error, sizeof(exchange->answer->error), "%s for %.3g s", why,
             seconds);
    exchange->answer->status = 0;
    return GY_AGAIN;
}

/* Run the transfer to its end. GY_OK: `*code` is libcurl's result. */
static gy_status drive(http_exchange *exchange, gy_deadline deadline, const bool *is_cancelled,
                       CURLcode *code)
{
    gy_http *http = exchange->http;
    const int64_t begun = gy_now_ns(http->env);
    int64_t heard = begun;
    uint64_t moved = 0;
    for (;;) {
        int running = 0, left = 0;
        const CURLMcode driven = http->curl->multi_perform(http->multi, &running);
        const CURLMsg *message = http->curl->multi_info_read(http->multi, &left);
        if (message != NULL) {
            *code = message->data.result;
            return GY_OK;
        }
        if (driven != CURLM_OK) {
            return gy_fail(driven == CURLM_OUT_OF_MEMORY ? GY_NOMEM : GY_IO,
                           "libcurl fails: error %d", (int)driven);
        }
        if (is_cancelled != NULL && __atomic_load_n(is_cancelled, __ATOMIC_ACQUIRE)) {
            return gy_fail(GY_CANCELLED, "cancelled"); /* partner: gy_place_cancel */
        }
        const int64_t now = gy_now_ns(http->env);
        const uint64_t all = moved_bytes(exchange);
        heard = all != moved ? now : heard;
        moved = all;
        const int64_t silent_at = heard + (int64_t)(exchange->request->silence_s * 1e9);
        if (now >= deadline.at_ns || now >= silent_at) {
            return give_up(exchange, "the server sent nothing", (double)(now - heard) * 1e-9);
        }
        const int64_t wait_ns = GY_MIN(deadline.at_ns, silent_at) - now;
        /* libcurl (7.88) sometimes loses its own timer for "100 Continue" */
        const int most_ms = exchange->request->body_bytes > 0 ? CONTINUE_MS : POLL_MS_MOST;
        const int64_t wait_ms = GY_MIN(wait_ns / 1000000 + 1, (int64_t)most_ms);
        (void)http->curl->multi_poll(http->multi, NULL, 0, (int)wait_ms, NULL);
    }
}

/* Translate libcurl's result into a status. */
static gy_status translate(http_exchange *exchange, CURLcode code)
{
    gy_http *http = exchange->http;
    gy_http_answer *answer = exchange->answer;
    if (exchange->failed < 0) {
        return exchange->failed; /* the callback recorded the error */
    }
    if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && exchange->is_enough)) {
        return GY_OK;
    }
    const char *words =
        http->trouble[0] != '\0' ? http->trouble : http->curl->easy_strerror(code);
    switch ((int)code) {
    case CURLE_OUT_OF_MEMORY:
        return gy_fail(GY_NOMEM, "out of memory: %s", words);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR:
        return gy_fail(GY_IO, "%s", words);
    case CURLE_URL_MALFORMAT:
        return gy_fail(GY_ARG, "%s", words);
    case CURLE_UNSUPPORTED_PROTOCOL: /* also for answers that are not HTTP/1 */
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
        return gy_fail(GY_FORMAT, "%s", words);
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
        answer->is_unreachable = true;
        break;
    default:
        break;
    }
    answer->status = 0;
    snprintf(answer->error, sizeof(answer->error), "%s", words);
    return GY_AGAIN;
}

/* A successful answer must have its announced length. */
static gy_status check_length(http_exchange *exchange)
{
    const gy_http_request *request = exchange->request;
    gy_http_answer *answer = exchange->answer;
    if (!is_good(answer->status)) {
        return GY_OK;
    }
    GY_TRY(judge(exchange)); /* an empty body called no callback, so check the head here */
    if (request->is_range && answer->status == 206 && answer->range_total != UINT64_MAX &&
        answer->body_bytes < request->into_bytes &&
        request->at + answer->body_bytes < answer->range_total) {
        snprintf(answer->error, sizeof(answer->error), "the answer was cut short");
        answer->status = 0;
        return GY_AGAIN;
    }
    return GY_OK;
}

gy_status gy_http_try(gy_http *http, const gy_http_request *request, gy_deadline deadline,
                      const bool *is_cancelled, gy_http_answer *answer)
{
    http_exchange exchange = {.http = http, .request = request, .answer = answer};
    begin_answer(answer);
    CURLcode code = CURLE_OK;
    gy_status status = add_headers(&exchange);
    status = status < 0 ? status : set_options(&exchange);
    if (status == GY_OK && http->curl->multi_add_handle(http->multi, http->easy) != CURLM_OK) {
        status = gy_fail(GY_NOMEM, "libcurl takes no transfer");
    } else if (status == GY_OK) {
        status = drive(&exchange, deadline, is_cancelled, &code);
        (void)http->curl->multi_remove_handle(http->multi, http->easy);
        status = status == GY_OK ? translate(&exchange, code) : status;
        status = status == GY_OK ? check_length(&exchange) : status;
    }
    http->curl->easy_reset(http->easy); /* forget the request's data, secrets included */
    http->curl->slist_free_all(exchange.headers);
    return status;
}

void gy_http_encode(gy_text *text, const char *data, size_t size_bytes,
                    const char *kept_letters)
{
    for (size_t i = 0; i < size_bytes; i++) {
        const unsigned char byte = (unsigned char)data[i];
        const bool is_plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                              (byte >= '0' && byte <= '9') ||
                              (byte != 0 && strchr("-._~", byte) != NULL) ||
                              (byte != 0 && strchr(kept_letters, byte) != NULL);
        if (is_plain) {
            gy_text_add_bytes(text, &byte, 1);
        } else {
            gy_text_add(text, "%%%02X", byte);
        }
    }
}
