/* What Gyre calls of OpenSSL, opened when it is first called: libcrypto comes with libssl. */
#include "base/lazy.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>

#define OPENSSL(result, name, parameters, arguments)                                           \
    GY_LAZY(GY_LATE_SSL, result, name, parameters, arguments)
#define OPENSSL_VOID(name, parameters, arguments)                                              \
    GY_LAZY_VOID(GY_LATE_SSL, name, parameters, arguments)

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): they are passed on as they
 * come */
OPENSSL_VOID(BIO_clear_flags, (BIO * a, int b), (a, b))
OPENSSL(int, BIO_free, (BIO * a), (a))
OPENSSL(void *, BIO_get_data, (BIO * a), (a))
OPENSSL(int, BIO_get_new_index, (void), ())
OPENSSL_VOID(BIO_meth_free, (BIO_METHOD * a), (a))
OPENSSL(BIO_METHOD *, BIO_meth_new, (int a, const char *b), (a, b))
OPENSSL(int, BIO_meth_set_ctrl, (BIO_METHOD * a, long (*b)(BIO *, int, long, void *)), (a, b))
OPENSSL(int, BIO_meth_set_read, (BIO_METHOD * a, int (*b)(BIO *, char *, int)), (a, b))
OPENSSL(int, BIO_meth_set_write, (BIO_METHOD * a, int (*b)(BIO *, const char *, int)), (a, b))
OPENSSL(BIO *, BIO_new, (const BIO_METHOD *a), (a))
OPENSSL(BIO *, BIO_new_file, (const char *a, const char *b), (a, b))
OPENSSL_VOID(BIO_set_data, (BIO * a, void *b), (a, b))
OPENSSL_VOID(BIO_set_flags, (BIO * a, int b), (a, b))
OPENSSL_VOID(BIO_set_init, (BIO * a, int b), (a, b))
OPENSSL(int, CRYPTO_memcmp, (const void *a, const void *b, size_t c), (a, b, c))
OPENSSL_VOID(ERR_clear_error, (void), ())
OPENSSL(unsigned long, ERR_peek_error, (void), ())
OPENSSL(unsigned long, ERR_peek_last_error, (void), ())
OPENSSL(const char *, ERR_reason_error_string, (unsigned long a), (a))
OPENSSL(int, EVP_Digest,
        (const void *a, size_t b, unsigned char *c, unsigned int *d, const EVP_MD *e,
         ENGINE *f),
        (a, b, c, d, e, f))
OPENSSL(int, EVP_DigestFinal_ex, (EVP_MD_CTX * a, unsigned char *b, unsigned int *c), (a, b, c))
OPENSSL(int, EVP_DigestInit_ex, (EVP_MD_CTX * a, const EVP_MD *b, ENGINE *c), (a, b, c))
OPENSSL(int, EVP_DigestUpdate, (EVP_MD_CTX * a, const void *b, size_t c), (a, b, c))
OPENSSL(int, EVP_EncodeBlock, (unsigned char *a, const unsigned char *b, int c), (a, b, c))
OPENSSL_VOID(EVP_KDF_CTX_free, (EVP_KDF_CTX * a), (a))
OPENSSL(EVP_KDF_CTX *, EVP_KDF_CTX_new, (EVP_KDF * a), (a))
OPENSSL(int, EVP_KDF_derive, (EVP_KDF_CTX * a, unsigned char *b, size_t c, const OSSL_PARAM *d),
        (a, b, c, d))
OPENSSL(EVP_KDF *, EVP_KDF_fetch, (OSSL_LIB_CTX * a, const char *b, const char *c), (a, b, c))
OPENSSL_VOID(EVP_KDF_free, (EVP_KDF * a), (a))
OPENSSL_VOID(EVP_MD_CTX_free, (EVP_MD_CTX * a), (a))
OPENSSL(EVP_MD_CTX *, EVP_MD_CTX_new, (void), ())
OPENSSL(int, EVP_MD_get_type, (const EVP_MD *a), (a))
OPENSSL(int, EVP_Q_digest,
        (OSSL_LIB_CTX * a, const char *b, const char *c, const void *d, size_t e,
         unsigned char *f, size_t *g),
        (a, b, c, d, e, f, g))
OPENSSL(const EVP_MD *, EVP_sha256, (void), ())
OPENSSL(int, OPENSSL_init_crypto, (uint64_t a, const OPENSSL_INIT_SETTINGS *b), (a, b))
OPENSSL(OSSL_PARAM, OSSL_PARAM_construct_end, (void), ())
OPENSSL(OSSL_PARAM, OSSL_PARAM_construct_octet_string, (const char *a, void *b, size_t c),
        (a, b, c))
OPENSSL(OSSL_PARAM, OSSL_PARAM_construct_utf8_string, (const char *a, char *b, size_t c),
        (a, b, c))
OPENSSL(X509 *, PEM_read_bio_X509, (BIO * a, X509 **b, pem_password_cb *c, void *d),
        (a, b, c, d))
OPENSSL(int, RAND_bytes, (unsigned char *a, int b), (a, b))
OPENSSL(int, RAND_priv_bytes, (unsigned char *a, int b), (a, b))
OPENSSL(const SSL_CIPHER *, SSL_CIPHER_find, (SSL * a, const unsigned char *b), (a, b))
OPENSSL(uint16_t, SSL_CIPHER_get_protocol_id, (const SSL_CIPHER *a), (a))
OPENSSL(long, SSL_CTX_ctrl, (SSL_CTX * a, int b, long c, void *d), (a, b, c, d))
OPENSSL_VOID(SSL_CTX_free, (SSL_CTX * a), (a))
OPENSSL(void *, SSL_CTX_get_ex_data, (const SSL_CTX *a, int b), (a, b))
OPENSSL(SSL_CTX *, SSL_CTX_new, (const SSL_METHOD *a), (a))
OPENSSL(int, SSL_CTX_set_ciphersuites, (SSL_CTX * a, const char *b), (a, b))
OPENSSL(int, SSL_CTX_set_ex_data, (SSL_CTX * a, int b, void *c), (a, b, c))
OPENSSL(int, SSL_CTX_set_num_tickets, (SSL_CTX * a, size_t b), (a, b))
OPENSSL(uint64_t, SSL_CTX_set_options, (SSL_CTX * a, uint64_t b), (a, b))
OPENSSL_VOID(SSL_CTX_set_psk_find_session_callback,
             (SSL_CTX * a, SSL_psk_find_session_cb_func b), (a, b))
OPENSSL_VOID(SSL_CTX_set_psk_use_session_callback, (SSL_CTX * a, SSL_psk_use_session_cb_func b),
             (a, b))
OPENSSL(int, SSL_CTX_set_session_id_context,
        (SSL_CTX * a, const unsigned char *b, unsigned int c), (a, b, c))
OPENSSL_VOID(SSL_CTX_set_verify, (SSL_CTX * a, int b, SSL_verify_cb c), (a, b, c))
OPENSSL_VOID(SSL_SESSION_free, (SSL_SESSION * a), (a))
OPENSSL(SSL_SESSION *, SSL_SESSION_new, (void), ())
OPENSSL(int, SSL_SESSION_set1_id_context,
        (SSL_SESSION * a, const unsigned char *b, unsigned int c), (a, b, c))
OPENSSL(int, SSL_SESSION_set1_master_key, (SSL_SESSION * a, const unsigned char *b, size_t c),
        (a, b, c))
OPENSSL(int, SSL_SESSION_set_cipher, (SSL_SESSION * a, const SSL_CIPHER *b), (a, b))
OPENSSL(int, SSL_SESSION_set_protocol_version, (SSL_SESSION * a, int b), (a, b))
OPENSSL(int, SSL_do_handshake, (SSL * a), (a))
OPENSSL_VOID(SSL_free, (SSL * a), (a))
OPENSSL(SSL_CTX *, SSL_get_SSL_CTX, (const SSL *a), (a))
OPENSSL(const SSL_CIPHER *, SSL_get_current_cipher, (const SSL *a), (a))
OPENSSL(int, SSL_get_error, (const SSL *a, int b), (a, b))
OPENSSL(void *, SSL_get_ex_data, (const SSL *a, int b), (a, b))
OPENSSL(SSL *, SSL_new, (SSL_CTX * a), (a))
OPENSSL(int, SSL_read_ex, (SSL * a, void *b, size_t c, size_t *d), (a, b, c, d))
OPENSSL(int, SSL_session_reused, (const SSL *a), (a))
OPENSSL_VOID(SSL_set_accept_state, (SSL * a), (a))
OPENSSL_VOID(SSL_set_bio, (SSL * a, BIO *b, BIO *c), (a, b, c))
OPENSSL_VOID(SSL_set_connect_state, (SSL * a), (a))
OPENSSL_VOID(SSL_set_default_read_buffer_len, (SSL * a, size_t b), (a, b))
OPENSSL(int, SSL_set_ex_data, (SSL * a, int b, void *c), (a, b, c))
OPENSSL_VOID(SSL_set_read_ahead, (SSL * a, int b), (a, b))
OPENSSL(int, SSL_version, (const SSL *a), (a))
OPENSSL(int, SSL_write_ex, (SSL * a, const void *b, size_t c, size_t *d), (a, b, c, d))
OPENSSL(const SSL_METHOD *, TLS_method, (void), ())
OPENSSL(int, X509_NAME_get_text_by_NID, (const X509_NAME *a, int b, char *c, int d),
        (a, b, c, d))
OPENSSL_VOID(X509_free, (X509 * a), (a))
OPENSSL(X509_NAME *, X509_get_subject_name, (const X509 *a), (a))
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
