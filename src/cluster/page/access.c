/* Access to the page: the token, and the host name in the request. */
#include "cluster/page/page_priv.h"

#include "base/base.h"
#include "base/disk.h"
#include "base/fail.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

enum { TOKEN_BYTES = 32 };
static_assert(2 * TOKEN_BYTES + 1 == GY_PAGE_TOKEN, "hex digits and an end");

static gy_status write_token(const gy_page *page)
{
    char beside[4096], line[GY_PAGE_TOKEN + 1];
    const char *path = page->options->token_file;
    const gy_disk_ops *disk = gy_env_disk(page->env);
    if (snprintf(beside, sizeof(beside), "%s.new", path) >= (int)sizeof(beside)) {
        return gy_fail(GY_ARG, "the path of the token's file is too long");
    }
    const size_t size = gy_print(line, sizeof(line), "%s\n", page->token);
    int made = disk->unlink(page->env, beside); /* left by a killed process */
    int file = made == 0 || made == -ENOENT
                   ? disk->open(page->env, beside, O_WRONLY | O_CREAT | O_EXCL, 0600)
                   : made;
    int64_t error = GY_MIN(file, 0);
    if (file >= 0) {
        const int64_t put = disk->write(page->env, file, line, size);
        error = put < 0 ? put : put < (int64_t)size ? -ENOSPC : 0;
        const int closed = disk->close(page->env, file);
        error = error < 0 ? error : closed;
    }
    explicit_bzero(line, sizeof(line));
    error = error < 0 ? error : disk->rename(page->env, beside, path);
    return error < 0
               ? gy_fail(GY_IO, "the token of the status page cannot be written to %s: %s",
                         path, strerror((int)-error))
               : GY_OK;
}

gy_status gy_page_draw_token(gy_page *page)
{
    unsigned char bytes[TOKEN_BYTES];
    if (RAND_bytes(bytes, sizeof(bytes)) != 1) {
        return gy_fail(GY_IO, "no random bytes for the token of the status page");
    }
    for (size_t i = 0; i < TOKEN_BYTES; i++) {
        (void)snprintf(page->token + 2 * i, 3, "%02x", bytes[i]);
    }
    explicit_bzero(bytes, sizeof(bytes));
    return write_token(page);
}

static bool is_token(const gy_page *page, const char *said)
{
    return said != NULL && strlen(said) == GY_PAGE_TOKEN - 1 &&
           CRYPTO_memcmp(said, page->token, GY_PAGE_TOKEN - 1) == 0;
}

page_access gy_page_look(const gy_page *page, struct MHD_Connection *connection, bool is_root)
{
    static const char bearer[] = "Bearer ";
    const gy_mhd *mhd = page->mhd;
    const char *said =
        mhd->lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    if (said != NULL && strncasecmp(said, bearer, sizeof(bearer) - 1) == 0) {
        return is_token(page, said + sizeof(bearer) - 1) ? ACCESS_OK : ACCESS_NONE;
    }
    said = mhd->lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "token");
    if (is_root && said != NULL) {
        return is_token(page, said) ? ACCESS_QUERY : ACCESS_NONE;
    }
    said = mhd->lookup_connection_value(connection, MHD_COOKIE_KIND, page->cookie);
    return is_token(page, said) ? ACCESS_OK : ACCESS_NONE;
}

bool gy_page_is_host(const gy_page *page, const char *host)
{
    char name[256];
    struct in6_addr address;
    if (host == NULL || strlen(host) >= sizeof(name)) {
        return false;
    }
    memcpy(name, host, strlen(host) + 1);
    if (name[0] == '[') {
        char *end = strchr(name, ']');
        if (end == NULL || (end[1] != '\0' && end[1] != ':')) {
            return false;
        }
        *end = '\0';
        return inet_pton(AF_INET6, name + 1, &address) == 1;
    }
    name[strcspn(name, ":")] = '\0'; /* a tunnel may use another port */
    return inet_pton(AF_INET, name, &address) == 1 || strcasecmp(name, "localhost") == 0 ||
           strcasecmp(name, page->host) == 0;
}

/* Append "sha256-BASE64" of the text between two marks. */
static void add_hash(const char *page, const char *from, const char *to, char out[64])
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    const char *begin = strstr(page, from);
    GY_ASSERT(begin != NULL);
    begin += strlen(from);
    const char *end = strstr(begin, to);
    GY_ASSERT(end != NULL);
    GY_ASSERT(EVP_Digest(begin, (size_t)(end - begin), hash, &size, EVP_sha256(), NULL) == 1);
    (void)snprintf(out, 64, "sha256-");
    (void)EVP_EncodeBlock((unsigned char *)out + 7, hash, (int)size);
}

void gy_page_make_policy(gy_page *page, const char *html)
{
    char script[64], style[64];
    add_hash(html, "<script>", "</script>", script);
    add_hash(html, "<style>", "</style>", style);
    (void)snprintf(page->policy, sizeof(page->policy),
                   "default-src 'none'; script-src '%s'; style-src '%s'; connect-src 'self'; "
                   "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
                   script, style);
}
