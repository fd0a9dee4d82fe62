/* URIs taken apart. Source: RFC 3986; RFC 8089 (file); buckets as AWS documents their names. */
#include "store/remote/remote_priv.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { HDFS_HTTP_PORT = 9870, BUCKET_LEAST = 3, BUCKET_MOST = 255, KEY_MOST = 1024 };

static const struct {
    const char *prefix;
    gy_scheme scheme;
    bool is_tls;
} schemes[] = {
    {"s3://", GY_SCHEME_S3, false},
    {"hdfs://", GY_SCHEME_HDFS, false},
    {"webhdfs://", GY_SCHEME_HDFS, false},
    {"swebhdfs://", GY_SCHEME_HDFS, true},
};
enum { SCHEMES = sizeof(schemes) / sizeof(schemes[0]) };

static int find_scheme(const char *text)
{
    for (int i = 0; i < SCHEMES; i++) {
        if (strncmp(text, schemes[i].prefix, strlen(schemes[i].prefix)) == 0) {
            return i;
        }
    }
    return -1;
}

bool gy_uri_is_remote(const char *uri)
{
    return find_scheme(uri) >= 0;
}

/* Is it "word:" followed by "//"? A path such as "a:b" is a path. */
static bool has_scheme(const char *text)
{
    size_t size = 0;
    while (isalnum((unsigned char)text[size]) || strchr("+-.", text[size]) != NULL) {
        if (text[size] == '\0') {
            return false;
        }
        size++;
    }
    return size > 1 && strncmp(text + size, "://", 3) == 0;
}

static bool has_control(const char *text)
{
    for (; *text != '\0'; text++) {
        if (iscntrl((unsigned char)*text)) {
            return true;
        }
    }
    return false;
}

static int hex_digit(char letter)
{
    const char *digits = "0123456789abcdef";
    const char *at = letter != '\0' ? strchr(digits, tolower((unsigned char)letter)) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

char gy_uri_byte(const char *text)
{
    const int high = hex_digit(text[1]), low = high >= 0 ? hex_digit(text[2]) : -1;
    return (char)(low >= 0 ? high * 16 + low : 0);
}

/* file:/a%20b, file:///a, file://localhost/a */
static gy_status parse_file(const char *text, gy_uri *uri)
{
    const char *from = text + strlen("file:");
    if (strncmp(from, "//", 2) == 0) {
        from += 2;
        const size_t host = strcspn(from, "/");
        if (host > 0 &&
            !(host == strlen("localhost") && strncmp(from, "localhost", host) == 0)) {
            return gy_fail(GY_ARG, "%s names a host: expected file:/PATH or file:///PATH",
                           text);
        }
        from += host;
    }
    size_t used = 0;
    for (; *from != '\0'; from++) {
        char byte = *from;
        if (byte == '%') {
            byte = gy_uri_byte(from);
            if (byte == '\0') {
                return gy_fail(GY_ARG, "%s: %%%.2s is no byte: expected two hexadecimal digits",
                               text, from + 1);
            }
            from += 2;
        }
        uri->path[used++] = byte; /* never longer than the text */
    }
    return used > 0 ? GY_OK : gy_fail(GY_ARG, "%s has no path", text);
}

static gy_status parse_s3(const char *text, const char *rest, gy_uri *uri)
{
    const size_t size = strcspn(rest, "/");
    bool is_good = size >= BUCKET_LEAST && size <= BUCKET_MOST;
    for (size_t i = 0; is_good && i < size; i++) {
        is_good = isalnum((unsigned char)rest[i]) || strchr("-._", rest[i]) != NULL;
    }
    if (!is_good || !isalnum((unsigned char)rest[0])) {
        return gy_fail(
            GY_ARG,
            "%s: \"%.*s\" is no bucket: expected 3 to 255 letters, digits, '-', '.', '_'", text,
            (int)GY_MIN(size, (size_t)BUCKET_MOST), rest);
    }
    memcpy(uri->host, rest, size);
    const char *key = rest[size] == '/' ? rest + size + 1 : rest + size;
    if (strlen(key) > KEY_MOST) {
        return gy_fail(GY_ARG, "s3://%s: a key of %zu bytes, expected at most %d", uri->host,
                       strlen(key), KEY_MOST);
    }
    memcpy(uri->path, key, strlen(key) + 1);
    return GY_OK;
}

/* [USER@]HOST[:PORT]; an IPv6 host in brackets. */
static gy_status parse_authority(const char *text, const char *rest, size_t size, gy_uri *uri)
{
    char whole[GY_URI_BYTES];
    memcpy(whole, rest, size);
    whole[size] = '\0';
    char *host = strrchr(whole, '@');
    const char *user = host != NULL ? whole : "";
    if (host != NULL) {
        *host++ = '\0';
    } else {
        host = whole;
    }
    char *end = host[0] == '[' ? strchr(host, ']') : host + strcspn(host, ":");
    char *port = end != NULL ? strchr(end, ':') : NULL;
    uri->port = HDFS_HTTP_PORT;
    if (port != NULL) {
        *port++ = '\0';
        char *last = NULL;
        const long number = isdigit((unsigned char)*port) ? strtol(port, &last, 10) : 0;
        if (number < 1 || number > 65535 || *last != '\0') {
            return gy_fail(GY_ARG, "%s: port \"%s\", expected 1 to 65535", text, port);
        }
        uri->port = (int)number;
    }
    if (strchr(user, ':') != NULL) { /* not shown: it may hold a password */
        return gy_fail(GY_ARG, "the URI of host %s has a password: WebHDFS takes none", host);
    }
    if (end == NULL || host[0] == '\0' || strlen(host) >= sizeof(uri->host) ||
        strlen(user) >= sizeof(uri->user) || strpbrk(host, "/?#%\\ ") != NULL) {
        return gy_fail(GY_ARG, "%s: expected hdfs://HOST:PORT/PATH", text);
    }
    memcpy(uri->host, host, strlen(host) + 1);
    memcpy(uri->user, user, strlen(user) + 1);
    return GY_OK;
}

static gy_status parse_hdfs(const char *text, const char *rest, gy_uri *uri)
{
    const size_t size = strcspn(rest, "/");
    GY_TRY(parse_authority(text, rest, size, uri));
    const char *path = rest + size;
    if (path[0] == '\0') {
        path = "/";
    }
    for (const char *part = path; part != NULL; part = strchr(part + 1, '/')) {
        const size_t length = strcspn(part + 1, "/");
        if ((length == 1 && part[1] == '.') ||
            (length == 2 && strncmp(part + 1, "..", 2) == 0)) {
            return gy_fail(GY_ARG, "%s: HDFS knows no \".\" and \"..\" in paths", text);
        }
    }
    memcpy(uri->path, path, strlen(path) + 1);
    return GY_OK;
}

gy_status gy_uri_parse(const char *text, gy_uri *uri)
{
    memset(uri, 0, sizeof(*uri));
    if (strlen(text) >= GY_URI_BYTES - 1) {
        return gy_fail(GY_ARG, "a URI of %zu bytes, expected at most %d: %.40s…", strlen(text),
                       GY_URI_BYTES - 2, text);
    }
    memcpy(uri->text, text, strlen(text) + 1);
    const int scheme = find_scheme(text);
    if (scheme < 0) {
        uri->scheme = GY_SCHEME_FILE;
        if (strncmp(text, "file:", strlen("file:")) == 0) {
            return parse_file(text, uri);
        }
        if (has_scheme(text)) {
            return gy_fail(GY_ARG,
                           "%s: unknown scheme, expected s3, hdfs, webhdfs, swebhdfs, "
                           "file or a path",
                           text);
        }
        memcpy(uri->path, text, strlen(text) + 1);
        return text[0] != '\0' ? GY_OK : gy_fail(GY_ARG, "an empty URI");
    }
    if (has_control(text)) {
        return gy_fail(GY_ARG, "a URI with a control character in it");
    }
    uri->scheme = schemes[scheme].scheme;
    uri->is_tls = schemes[scheme].is_tls;
    const char *rest = text + strlen(schemes[scheme].prefix);
    return uri->scheme == GY_SCHEME_S3 ? parse_s3(text, rest, uri)
                                       : parse_hdfs(text, rest, uri);
}
