#include "transport/net.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECRET_RANDOM_BYTES = 64 };

gy_status gy_transport_run_id_make(uint8_t id[GY_RUN_ID_BYTES])
{
    GY_ASSERT(id != NULL);
    return RAND_bytes(id, GY_RUN_ID_BYTES) == 1
               ? GY_OK
               : gy_fail(GY_IO, "the system gives no random numbers");
}

gy_status gy_transport_key_save(const char *path, const void *text, size_t size_bytes)
{
    GY_ASSERT(text != NULL);
    GY_ASSERT(size_bytes > 0);
    int made = gy_disk_make_folders(path);
    if (made != 0) {
        return gy_fail(GY_IO, "cannot make the folder of %s: %s", path, strerror(-made));
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return errno == EEXIST
                   ? gy_fail(GY_EXISTS, "%s exists: a key is never overwritten", path)
                   : gy_fail(GY_IO, "cannot make the key file %s: %s", path, strerror(errno));
    }
    gy_status status = GY_OK;
    if (write(fd, text, size_bytes) != (ssize_t)size_bytes || fsync(fd) != 0) {
        status = gy_fail(GY_IO, "cannot write the key file %s: %s", path, strerror(errno));
        (void)unlink(path);
    }
    close(fd);
    return status;
}

gy_status gy_transport_key_make(const char *path)
{
    GY_ASSERT(path != NULL);
    static const char digits[] = "0123456789abcdef";
    uint8_t secret[SECRET_RANDOM_BYTES];
    char text[2 + 2 * SECRET_RANDOM_BYTES + 1] = "1 ";
    if (RAND_priv_bytes(secret, sizeof(secret)) != 1) {
        return gy_fail(GY_IO, "the system gives no random numbers");
    }
    for (size_t i = 0; i < sizeof(secret); i++) {
        text[2 + 2 * i] = digits[secret[i] >> 4];
        text[3 + 2 * i] = digits[secret[i] & 15];
    }
    text[sizeof(text) - 1] = '\n';
    gy_status status = gy_transport_key_save(path, text, sizeof(text));
    explicit_bzero(secret, sizeof(secret));
    explicit_bzero(text, sizeof(text));
    return status;
}

gy_status gy_transport_key_load(const char *path, uint8_t *text, size_t most,
                                size_t *size_bytes)
{
    GY_ASSERT(text != NULL);
    GY_ASSERT(most > 0);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return gy_fail(errno == ENOENT ? GY_NOTFOUND : GY_IO,
                       "cannot read the cluster key %s: %s (gyre key makes one)", path,
                       strerror(errno));
    }
    struct stat facts;
    gy_status status = GY_OK;
    ssize_t got = 0;
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        status = gy_fail(GY_STATE, "the cluster key %s is not a plain file", path);
    } else if (facts.st_uid != geteuid() || (facts.st_mode & 0077) != 0) {
        status = gy_fail(
            GY_STATE, "the cluster key %s has mode %04o and owner %u: expected 0600 and %u",
            path, (unsigned)facts.st_mode & 07777, (unsigned)facts.st_uid, (unsigned)geteuid());
    } else if ((uint64_t)facts.st_size > most) {
        status = gy_fail(GY_LIMIT, "the cluster key %s has %lld bytes: at most %zu", path,
                         (long long)facts.st_size, most);
    } else {
        got = read(fd, text, most);
        status = got >= 0 ? GY_OK
                          : gy_fail(GY_IO, "cannot read the cluster key %s: %s", path,
                                    strerror(errno));
    }
    close(fd);
    *size_bytes = got > 0 ? (size_t)got : 0;
    return status;
}

/* HKDF with SHA-256 (RFC 5869): input secret, salt epoch, info role. */
gy_status gy_transport_key_derive(const uint8_t *secret, size_t size_bytes,
                                  const uint8_t epoch[GY_RUN_ID_BYTES], const char *role,
                                  gy_transport_key *key)
{
    GY_ASSERT(size_bytes > 0);
    GY_ASSERT(role != NULL);
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *work = kdf != NULL ? EVP_KDF_CTX_new(kdf) : NULL;
    char hash[] = "SHA256";
    /* The library's parameters are not const, though it only reads them. */
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, hash, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)secret,
                                          size_bytes),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)(uintptr_t)role,
                                          strlen(role)),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)(uintptr_t)epoch,
                                          GY_RUN_ID_BYTES),
        OSSL_PARAM_construct_end(),
    };
    bool is_good =
        work != NULL && EVP_KDF_derive(work, key->bytes, sizeof(key->bytes), parameters) == 1;
    EVP_KDF_CTX_free(work);
    EVP_KDF_free(kdf);
    return is_good ? GY_OK : gy_fail(GY_IO, "the key of a %s cannot be derived", role);
}
