/* Parses etcd's address, and checks the files with secrets and certificates. */
#include "persist/table/etcd_priv.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static bool is_of(const char *text, size_t size, const char *marks)
{
    for (size_t i = 0; i < size; i++) {
        if (!isalnum((unsigned char)text[i]) &&
            (text[i] == '\0' || strchr(marks, text[i]) == NULL)) {
            return false;
        }
    }
    return size > 0;
}

/* HOST:PORT, [ADDRESS]:PORT */
static bool is_endpoint(const char *text, size_t size)
{
    size_t colon = size;
    while (colon > 0 && text[colon - 1] != ':') {
        colon--;
    }
    if (colon < 2 || size - colon == 0 || size - colon > 5) {
        return false;
    }
    unsigned port = 0;
    for (size_t i = colon; i < size; i++) {
        if (!isdigit((unsigned char)text[i])) {
            return false;
        }
        port = port * 10 + (unsigned)(text[i] - '0');
    }
    const size_t host = colon - 1;
    const bool is_bracketed = host > 2 && text[0] == '[' && text[host - 1] == ']';
    return port > 0 && port < 65536 &&
           (is_bracketed ? is_of(text + 1, host - 2, ":.") : is_of(text, host, "-._"));
}

/* By the text alone: any other name may resolve to any host. */
static bool is_on_loopback(const char *text, size_t size)
{
    char host[256];
    struct in_addr four;
    struct in6_addr six;
    while (size > 0 && text[size - 1] != ':') {
        size--;
    }
    const bool is_bracketed = text[0] == '[';
    snprintf(host, sizeof(host), "%.*s", (int)size - (is_bracketed ? 3 : 1),
             text + is_bracketed);
    if (is_bracketed) {
        return inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
    }
    return strcasecmp(host, "localhost") == 0 ||
           (inet_pton(AF_INET, host, &four) == 1 && ntohl(four.s_addr) >> 24 == 127);
}

static gy_status fail_where(const char *text)
{
    return gy_fail(
        GY_ARG,
        "the table \"%.200s\": expected etcd:https://HOST:PORT[,HOST:PORT...][/PREFIX], "
        "http for none of TLS, a prefix of letters, digits and \"-._/\"",
        text);
}

gy_status gy_etcd_where_parse(const char *text, gy_etcd_where *where)
{
    memset(where, 0, sizeof(*where));
    where->is_tls = strncmp(text, "etcd:https://", 13) == 0;
    if (!where->is_tls && strncmp(text, "etcd:http://", 12) != 0) {
        return fail_where(text);
    }
    where->is_loopback = true;
    const char *at = text + (where->is_tls ? 13 : 12);
    const size_t all = strcspn(at, "/");
    const char *prefix = at + all;
    while (at <= text + (prefix - text) && where->count < GY_ETCD_ENDPOINTS) {
        const size_t size = strcspn(at, ",/");
        if (size > 256 || !is_endpoint(at, size)) {
            return fail_where(text);
        }
        snprintf(where->urls[where->count++], GY_ETCD_URL_BYTES, "http%s://%.*s",
                 where->is_tls ? "s" : "", (int)size, at);
        where->is_loopback = where->is_loopback && is_on_loopback(at, size);
        at += size + 1;
        if (at > prefix) {
            break;
        }
        if (where->count == GY_ETCD_ENDPOINTS) {
            return gy_fail(GY_ARG, "the table \"%.200s\" has more than %d endpoints", text,
                           GY_ETCD_ENDPOINTS);
        }
    }
    prefix += prefix[0] == '/' ? 1 : 0;
    prefix = prefix[0] != '\0' ? prefix : "gyre";
    const size_t size = strlen(prefix);
    if (size >= GY_ETCD_PREFIX_BYTES || !is_of(prefix, size, "-._/")) {
        return fail_where(text);
    }
    memcpy(where->prefix, prefix, size + 1);
    return GY_OK;
}

/* Read the first `most` bytes of a file through the environment's disk; *mode is the file's. */
static gy_status read_file(gy_env *env, const char *path, char *out, size_t most, size_t *size)
{
    const gy_disk_ops *disk = gy_env_disk(env);
    const int file = disk->open(env, path, O_RDONLY | O_NOFOLLOW, 0);
    if (file < 0) {
        return gy_fail(GY_IO, "cannot open %s: %s", path, strerror(-file));
    }
    struct stat facts;
    gy_status status = GY_OK;
    if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        status = gy_fail(GY_IO, "%s is no plain file", path);
    } else if ((facts.st_mode & 0077) != 0) {
        status = gy_fail(GY_STATE, "%s may be read by others (mode %04o): chmod 600", path,
                         (unsigned)facts.st_mode & 07777);
    }
    int64_t got = 1;
    for (*size = 0; status == GY_OK && *size < most && got > 0;) {
        got = disk->read(env, file, out + *size, most - *size);
        *size += got > 0 ? (size_t)got : 0;
    }
    (void)disk->close(env, file);
    return got < 0 ? gy_fail(GY_IO, "cannot read %s: %s", path, strerror((int)-got)) : status;
}

gy_status gy_etcd_password_read(gy_env *env, const char *path, char *out)
{
    char text[GY_ETCD_SECRET_BYTES + 2];
    size_t size = 0;
    gy_status status = read_file(env, path, text, sizeof(text), &size);
    size_t line = 0;
    while (line < size && text[line] != '\n' && text[line] != '\r') {
        line++;
    }
    if (status == GY_OK && line == 0) {
        status = gy_fail(GY_FORMAT, "%s has no password in its first line", path);
    } else if (status == GY_OK && line >= GY_ETCD_SECRET_BYTES) {
        status = gy_fail(GY_LIMIT, "%s has a password of over %d bytes", path,
                         GY_ETCD_SECRET_BYTES - 1);
    } else if (status == GY_OK) {
        memcpy(out, text, line);
        out[line] = '\0';
    }
    explicit_bzero(text, sizeof(text));
    return status;
}

gy_status gy_etcd_certificate_check(const char *path)
{
    BIO *file = BIO_new_file(path, "r");
    if (file == NULL) {
        return gy_fail(GY_IO, "cannot open the certificate %s", path);
    }
    X509 *certificate = PEM_read_bio_X509(file, NULL, NULL, NULL);
    BIO_free(file);
    if (certificate == NULL) {
        return gy_fail(GY_FORMAT, "%s holds no certificate in PEM form", path);
    }
    char name[128] = "";
    const int size = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate),
                                               NID_commonName, name, sizeof(name));
    X509_free(certificate);
    return size < 0
               ? GY_OK
               : gy_fail(GY_ARG,
                         "the certificate %s has the common name \"%s\", which etcd's JSON "
                         "gateway refuses: expected one without",
                         path, name);
}
