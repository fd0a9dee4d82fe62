/* The specification of a job, for daemons and name servers. */
#include "control/net/net.h"

#include <openssl/evp.h>
#include <string.h>

/* Check that the name is that of a file in the folder, not outside it. */
static gy_status check_name(const char *name)
{
    GY_TRY(gy_net_check_text(name, GY_NET_NAME_BYTES, "a file's name"));
    if (name[0] == '\0' || strchr(name, '/') != NULL || strcmp(name, ".") == 0 ||
        strcmp(name, "..") == 0) {
        return gy_fail(GY_FORMAT, "'%s' names no file of a folder", name);
    }
    return GY_OK;
}

static gy_status check_texts(char *const *texts, size_t count, size_t most, const char *what)
{
    if (count > most) {
        return gy_fail(GY_FORMAT, "%zu %s, more than %zu", count, what, most);
    }
    for (size_t i = 0; i < count; i++) {
        if (strnlen(texts[i], GY_NET_TEXT_MAX) >= GY_NET_TEXT_MAX) {
            return gy_fail(GY_FORMAT, "one of its %s has %d bytes or more", what,
                           GY_NET_TEXT_MAX);
        }
    }
    return GY_OK;
}

gy_status gy_net_check_spec(const Gy__Cluster__JobSpec *spec)
{
    if (spec->n_arguments == 0 || spec->arguments[0][0] == '\0') {
        return gy_fail(GY_FORMAT, "a job without a program");
    }
    GY_TRY(check_texts(spec->arguments, spec->n_arguments, GY_NET_TEXTS_MAX, "arguments"));
    GY_TRY(check_texts(spec->environment, spec->n_environment, GY_NET_TEXTS_MAX, "variables"));
    if (spec->n_files > GY_NET_FILES_MAX || spec->n_libraries > spec->n_files) {
        return gy_fail(GY_FORMAT, "a job of %zu files and %zu libraries", spec->n_files,
                       spec->n_libraries);
    }
    for (size_t i = 0; i < spec->n_environment; i++) {
        const char *sign = strchr(spec->environment[i], '=');
        if (sign == NULL || sign == spec->environment[i]) {
            return gy_fail(GY_FORMAT, "'%.64s' sets no variable", spec->environment[i]);
        }
    }
    for (size_t i = 0; i < spec->n_files; i++) {
        const gy_key content = gy_net_key(spec->files[i]->content);
        GY_TRY(check_name(spec->files[i]->name));
        for (size_t k = 0; k < i; k++) {
            if (strcmp(spec->files[i]->name, spec->files[k]->name) == 0) {
                return gy_fail(GY_FORMAT, "two files are called %s", spec->files[i]->name);
            }
        }
        if (content.high == 0 && content.low == 0) {
            return gy_fail(GY_FORMAT, "file %s has no content", spec->files[i]->name);
        }
    }
    for (size_t i = 0; i < spec->n_libraries; i++) {
        GY_TRY(check_name(spec->libraries[i]));
    }
    if (spec->directory[0] != '/' || strnlen(spec->directory, GY_NET_TEXT_MAX) >= 4096) {
        return gy_fail(GY_FORMAT, "a job's directory is a whole path");
    }
    return GY_OK;
}

/* ---- Content by its hash ---- */

struct gy_net_digest {
    EVP_MD_CTX *work;
};

gy_status gy_net_digest_begin(gy_net_digest **digest)
{
    gy_net_digest *made = gy_alloc_zero("net.digest", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->work = EVP_MD_CTX_new();
    if (made->work == NULL || EVP_DigestInit_ex(made->work, EVP_sha256(), NULL) != 1) {
        gy_net_digest_free(made);
        return gy_fail(GY_NOMEM, "no memory for a SHA-256");
    }
    *digest = made;
    return GY_OK;
}

void gy_net_digest_feed(gy_net_digest *digest, const void *data, size_t size_bytes)
{
    int fed = EVP_DigestUpdate(digest->work, data, size_bytes);
    GY_ASSERT(fed == 1);
}

gy_key gy_net_digest_end(gy_net_digest *digest)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    int ended = EVP_DigestFinal_ex(digest->work, hash, &size);
    GY_ASSERT(ended == 1 && size == 32);
    gy_key key = {0};
    for (int i = 0; i < 8; i++) {
        key.high = key.high << 8 | hash[i];
        key.low = key.low << 8 | hash[8 + i];
    }
    return key;
}

void gy_net_digest_free(gy_net_digest *digest)
{
    if (digest != NULL) {
        EVP_MD_CTX_free(digest->work);
        gy_free(digest);
    }
}
