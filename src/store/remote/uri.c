/* Parses URIs. Source: RFC 3986; RFC 8089 (file); bucket names as AWS documents them. */
#include "store/host_file.h"
#include "store/remote/remote_priv.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

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

/* Schemes are case-insensitive (RFC 3986, 3.1). */
static int find_scheme(const char *text)
{
    for (int i = 0; i < SCHEMES; i++) {
        if (strncasecmp(text, schemes[i].prefix, strlen(schemes[i].prefix)) == 0) {
            return i;
        }
    }
    return -1;
}

bool gy_uri_is_remote(const char *uri)
{
    return find_scheme(uri) >= 0;
}

/* The number of letters before the ':' of a scheme; 0: no scheme. */
static size_t scheme_bytes(const char *text)
{
    size_t size = isalpha((unsigned char)text[0]) ? 1 : 0;
    while (size > 0 && (isalnum((unsigned char)text[size]) ||
                        (text[size] != '\0' && strchr("+-.", text[size]) != NULL))) {
        size++;
    }
    return size > 1 && text[size] == ':' ? size : 0; /* "c:/x" has no scheme */
}

bool gy_uri_is_file(const char *text)
{
    return strncasecmp(text, "file:", 5) == 0;
}

/* "word://"; a path such as "a:b" is a path. */
static bool has_unknown_scheme(const char *text)
{
    const size_t size = scheme_bytes(text);
    return size > 0 && strncmp(text + size, "://", 3) == 0 && !gy_uri_is_file(text) &&
           find_scheme(text) < 0;
}

static bool is_there(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0;
}

/* The scheme that Gyre uses for a store that others call `text`. */
static const char *other_name(const char *text, size_t size)
{
    static const char *const names[][2] = {
        {"s3a", "s3"}, {"s3n", "s3"}, {"httpfs", "webhdfs"}, {"https+hdfs", "swebhdfs"}};
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        if (strlen(names[i][0]) == size && strncasecmp(text, names[i][0], size) == 0) {
            return names[i][1];
        }
    }
    return NULL;
}

static gy_status refuse_scheme(const char *text)
{
    char hint[64] = "";
    const size_t size = scheme_bytes(text);
    const char *other = other_name(text, size);
    if (other != NULL) {
        (void)snprintf(hint, sizeof(hint), "; for %.*s: write %s:", (int)size, text, other);
    }
    return gy_fail(GY_ARG,
                   "%.200s: unknown scheme \"%.*s\", expected s3, hdfs, webhdfs, swebhdfs, "
                   "file or a path%s (a path of that name begins with ./)",
                   text, (int)GY_MIN(size, (size_t)40), text, hint);
}

gy_status gy_uri_check(const char *text)
{
    return has_unknown_scheme(text) && !is_there(text) ? refuse_scheme(text) : GY_OK;
}

gy_status gy_uri_check_new(const char *text)
{
    const size_t size = scheme_bytes(text);
    const bool is_cut = size > 0 && text[size + 1] == '/' && text[size + 2] != '/';
    if (has_unknown_scheme(text)) {
        return refuse_scheme(text);
    }
    if (is_cut && other_name(text, size) != NULL && !is_there(text)) {
        return refuse_scheme(text);
    }
    for (int i = 0; is_cut && i < SCHEMES; i++) {
        if (strncasecmp(text, schemes[i].prefix, size + 2) == 0 && !is_there(text)) {
            return gy_fail(GY_ARG,
                           "%.200s has one slash behind \"%.*s:\", expected %s (a path of that "
                           "name begins with ./)",
                           text, (int)size, text, schemes[i].prefix);
        }
    }
    return GY_OK;
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
    gy_host_file file;
    GY_TRY(gy_host_file_read(text, &file));
    if (file.hosts[0] != '\0') {
        return gy_fail(GY_ARG, "%s names a host: expected file:/PATH or file:///PATH", text);
    }
    uri->scheme = GY_SCHEME_FILE;
    memcpy(uri->path, file.path, strlen(file.path) + 1);
    return GY_OK;
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
    if (strchr(user, ':') != NULL) { /* not shown, since it may contain a password */
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
        return text[0] != '\0' ? parse_file(text, uri) : gy_fail(GY_ARG, "an empty URI");
    }
    if (has_control(text)) {
        return gy_fail(GY_ARG, "a URI with a control character in it");
    }
    uri->scheme = schemes[scheme].scheme;
    uri->is_tls = schemes[scheme].is_tls;
    /* in lower case */
    memcpy(uri->text, schemes[scheme].prefix, strlen(schemes[scheme].prefix));
    const char *rest = text + strlen(schemes[scheme].prefix);
    return uri->scheme == GY_SCHEME_S3 ? parse_s3(text, rest, uri)
                                       : parse_hdfs(text, rest, uri);
}
