#include "transport/tcp/tls_priv.h"

#include <openssl/err.h>
#include <stdio.h>
#include <string.h>

enum { READ_AHEAD_BYTES = 64 * 1024 };
static const unsigned char suite_id[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */
static const unsigned char session_context[] = {'g', 'y', 'r', 'e'};
static const char suite_name[] = "TLS_AES_128_GCM_SHA256";

struct gy_tls {
    SSL_CTX *context;
    BIO_METHOD *method;
    gy_tls_source source;
    /* For gy_tls_new_of, which is its own source. */
    gy_keys keys;
    char names[GY_KEYS_MOST][GY_KEY_NAME_BYTES]; /* role and fingerprint of each key */
    char here[GY_KEY_NAME_BYTES + 32];
    int offered; /* index of the offered key */
};

/* State attached to an SSL: the name of the key that is offered, or that the caller named. */
typedef struct tls_end {
    char name[GY_KEY_NAME_BYTES];
    bool is_unknown; /* no key has that name here */
} tls_end;

static int bio_read(BIO *bio, char *to, int size_bytes)
{
    GY_ASSERT(size_bytes >= 0);
    BIO_clear_retry_flags(bio);
    int got = gy_tls_receive(BIO_get_data(bio), to, size_bytes);
    if (got == -1) {
        BIO_set_retry_read(bio);
    }
    return got < 0 ? -1 : got;
}

static int bio_write(BIO *bio, const char *from, int size_bytes)
{
    GY_ASSERT(size_bytes >= 0);
    BIO_clear_retry_flags(bio);
    int put = gy_tls_send(BIO_get_data(bio), from, size_bytes);
    if (put == -1) {
        BIO_set_retry_write(bio);
    }
    return put < 0 ? -1 : put;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static const gy_tls *tls_of(const SSL *ssl)
{
    return SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
}

static SSL_SESSION *key_session(SSL *ssl, const gy_transport_key *key)
{
    GY_ASSERT(key != NULL);
    const SSL_CIPHER *suite = SSL_CIPHER_find(ssl, suite_id);
    SSL_SESSION *session = SSL_SESSION_new();
    if (suite == NULL || session == NULL ||
        SSL_SESSION_set1_master_key(session, key->bytes, sizeof(key->bytes)) != 1 ||
        SSL_SESSION_set_cipher(session, suite) != 1 ||
        SSL_SESSION_set1_id_context(session, session_context, sizeof(session_context)) != 1 ||
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
        SSL_SESSION_free(session);
        return NULL;
    }
    return session;
}

static int offer_key(SSL *ssl, const EVP_MD *hash, const unsigned char **name, size_t *size,
                     SSL_SESSION **session)
{
    GY_ASSERT(session != NULL);
    const gy_tls_source *source = &tls_of(ssl)->source;
    tls_end *end = SSL_get_app_data(ssl);
    gy_transport_key key;
    *session = NULL;
    if (hash != NULL && EVP_MD_get_type(hash) != EVP_MD_get_type(EVP_sha256())) {
        return 1; /* the key is bound to one hash */
    }
    if (source->offer(source->arg, end->name, &key) < 0) {
        return 0;
    }
    *session = key_session(ssl, &key);
    explicit_bzero(&key, sizeof(key));
    *name = (const unsigned char *)end->name;
    *size = strlen(end->name);
    return *session != NULL;
}

/* An unknown key name gives no key, and the handshake then fails for lack of a certificate. */
static int find_key(SSL *ssl, const unsigned char *name, size_t size, SSL_SESSION **session)
{
    GY_ASSERT(session != NULL);
    const gy_tls_source *source = &tls_of(ssl)->source;
    tls_end *end = SSL_get_app_data(ssl);
    gy_transport_key key;
    *session = NULL;
    snprintf(end->name, sizeof(end->name), "%.*s", (int)GY_MIN(size, sizeof(end->name) - 1),
             (const char *)name);
    bool is_text = size == strlen(end->name);
    for (char *at = end->name; *at != '\0'; at++) {
        if (*at < ' ' || *at > '~') {
            *at = '?';
            is_text = false;
        }
    }
    end->is_unknown = !is_text || !source->find(source->arg, end->name, &key);
    if (!end->is_unknown) {
        *session = key_session(ssl, &key);
        explicit_bzero(&key, sizeof(key));
    }
    return end->is_unknown || *session != NULL;
}

static gy_status set_up(gy_tls *tls)
{
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    tls->context = context;
    tls->method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "gyre wire");
    if (context == NULL || tls->method == NULL ||
        SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(context, suite_name) != 1 ||
        SSL_CTX_set1_groups_list(context, "X25519:P-256") != 1 ||
        SSL_CTX_set_num_tickets(context, 0) != 1 ||
        SSL_CTX_set_session_id_context(context, session_context, sizeof(session_context)) !=
            1 ||
        BIO_meth_set_read(tls->method, bio_read) != 1 ||
        BIO_meth_set_write(tls->method, bio_write) != 1 ||
        BIO_meth_set_ctrl(tls->method, bio_control) != 1) {
        return gy_fail(GY_IO, "TLS 1.3 cannot be set up: %s",
                       ERR_reason_error_string(ERR_peek_last_error()));
    }
    SSL_CTX_set_app_data(context, tls);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    /* Only the shared key authenticates, so no certificate is ever accepted. */
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_psk_use_session_callback(context, offer_key);
    SSL_CTX_set_psk_find_session_callback(context, find_key);
    return GY_OK;
}

gy_status gy_tls_new_from(const gy_tls_source *source, gy_tls **tls)
{
    GY_ASSERT(source->offer != NULL);
    GY_ASSERT(source->find != NULL);
    gy_tls *made = gy_alloc_zero("transport.tls", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->source = *source;
    gy_status status = set_up(made);
    if (status < 0) {
        gy_tls_free(made);
        return status;
    }
    *tls = made;
    return GY_OK;
}

gy_status gy_transport_key_name(const gy_transport_key *key, const char *role,
                                char name[GY_KEY_NAME_BYTES])
{
    GY_ASSERT(role != NULL);
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned digest_bytes = 0;
    if (EVP_Digest(key->bytes, sizeof(key->bytes), digest, &digest_bytes, EVP_sha256(), NULL) !=
        1) {
        return gy_fail(GY_IO, "no SHA-256 in this library of ciphers");
    }
    snprintf(name, GY_KEY_NAME_BYTES, "%.118s %02x%02x%02x%02x", role, digest[0], digest[1],
             digest[2], digest[3]);
    return GY_OK;
}

static gy_status offer_own(void *arg, char name[GY_KEY_NAME_BYTES], gy_transport_key *key)
{
    GY_ASSERT(((const gy_tls *)arg)->offered >= 0);
    GY_ASSERT(((const gy_tls *)arg)->offered < ((const gy_tls *)arg)->keys.count);
    const gy_tls *tls = arg;
    memcpy(name, tls->names[tls->offered], GY_KEY_NAME_BYTES);
    *key = tls->keys.items[tls->offered].key;
    return GY_OK;
}

static bool find_own(void *arg, const char *name, gy_transport_key *key)
{
    GY_ASSERT(name != NULL);
    const gy_tls *tls = arg;
    const gy_transport_key *found = gy_keys_find(&tls->keys, gy_tls_epoch(tls, name));
    if (found != NULL) {
        *key = *found;
    }
    return found != NULL;
}

bool gy_tls_offer_older(gy_tls *tls)
{
    GY_ASSERT(tls->offered >= 0);
    tls->offered = (tls->offered + 1) % GY_MAX(tls->keys.count, 1);
    return tls->offered > 0;
}

uint64_t gy_tls_epoch(const gy_tls *tls, const char *name)
{
    GY_ASSERT(name != NULL);
    for (int i = 0; i < tls->keys.count; i++) {
        if (strcmp(name, tls->names[i]) == 0) {
            return tls->keys.items[i].epoch;
        }
    }
    return 0;
}

gy_status gy_tls_new_of(const gy_keys *keys, const char *role, gy_tls **tls)
{
    gy_tls *made = NULL;
    GY_ASSERT(keys->count > 0);
    GY_ASSERT(keys->count <= GY_KEYS_MOST);
    GY_TRY(gy_tls_new_from(&(gy_tls_source){.offer = offer_own, .find = find_own}, &made));
    gy_status status = GY_OK;
    for (int i = 0; i < keys->count && status == GY_OK; i++) {
        status = gy_transport_key_name(&keys->items[i].key, role, made->names[i]);
    }
    if (status < 0) {
        gy_tls_free(made);
        return status;
    }
    made->keys = *keys;
    snprintf(made->here, sizeof(made->here), keys->count > 1 ? "%s and %d older" : "%s",
             made->names[0], keys->count - 1);
    made->source.arg = made;
    made->source.here = made->here;
    *tls = made;
    return GY_OK;
}

gy_status gy_tls_new(const gy_transport_key *key, const char *role, gy_tls **tls)
{
    GY_ASSERT(key != NULL);
    gy_keys one = {.count = 1, .items = {{.epoch = 1, .key = *key}}};
    gy_status status = gy_tls_new_of(&one, role, tls);
    gy_keys_wipe(&one);
    return status;
}

void gy_tls_free(gy_tls *tls)
{
    if (tls != NULL) {
        SSL_CTX_free(tls->context);
        BIO_meth_free(tls->method);
        gy_keys_wipe(&tls->keys);
        gy_free(tls);
    }
}

gy_status gy_tls_open(gy_tls *tls, void *wire, bool is_caller, SSL **ssl)
{
    GY_ASSERT(tls->context != NULL);
    GY_ASSERT(wire != NULL);
    SSL *made = SSL_new(tls->context);
    BIO *bio = made != NULL ? BIO_new(tls->method) : NULL;
    tls_end *end = gy_alloc_zero("transport.tls", 1, sizeof(*end));
    if (bio == NULL || end == NULL) {
        BIO_free(bio);
        SSL_free(made);
        gy_free(end);
        return gy_fail(GY_NOMEM, "no memory for a connection under TLS");
    }
    SSL_set_app_data(made, end);
    BIO_set_data(bio, wire);
    BIO_set_init(bio, 1);
    SSL_set_bio(made, bio, bio);
    if (is_caller) {
        SSL_set_connect_state(made);
    } else {
        SSL_set_accept_state(made);
    }
    *ssl = made;
    return GY_OK;
}

void gy_tls_close(SSL *ssl)
{
    if (ssl != NULL) {
        gy_free(SSL_get_app_data(ssl));
        SSL_free(ssl);
        ERR_clear_error();
    }
}

void gy_tls_read_ahead(SSL *ssl, bool is_deep)
{
    GY_ASSERT(ssl != NULL);
    if (is_deep) {
        SSL_set_default_read_buffer_len(ssl, READ_AHEAD_BYTES);
    }
    SSL_set_read_ahead(ssl, 1);
}

const char *gy_tls_key_name(const SSL *ssl)
{
    GY_ASSERT(ssl != NULL);
    const tls_end *end = SSL_get_app_data(ssl);
    return end->name;
}

bool gy_tls_is_proved(SSL *ssl)
{
    GY_ASSERT(ssl != NULL);
    return SSL_session_reused(ssl) == 1 && SSL_version(ssl) == TLS1_3_VERSION &&
           SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(ssl)) == 0x1301;
}

gy_status gy_tls_explain(const gy_tls *tls, const SSL *ssl, bool is_caller)
{
    GY_ASSERT(tls->context != NULL);
    unsigned long code = ERR_peek_error();
    int reason = ERR_GET_REASON(code);
    const tls_end *end = SSL_get_app_data(ssl);
    const char *words = ERR_reason_error_string(code);
    ERR_clear_error();
    if (end->is_unknown) {
        return gy_fail(GY_STATE, "the caller has another cluster key: \"%s\", here is \"%s\"",
                       end->name, tls->source.here);
    }
    switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_BAD_RECORD_TYPE:
        return gy_fail(GY_STATE,
                       "the %s does not use TLS: it has no cluster key, or is another program",
                       is_caller ? "other end" : "caller");
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
        return gy_fail(GY_STATE, "the peer does not support TLS 1.3");
    case SSL_R_BINDER_DOES_NOT_VERIFY:
        return gy_fail(GY_STATE, "the caller does not have the cluster key \"%s\"", end->name);
    default:
        break;
    }
    if (is_caller && ERR_GET_LIB(code) == ERR_LIB_SSL && reason > SSL_AD_REASON_OFFSET) {
        return gy_fail(GY_STATE,
                       "the other end refused this end's cluster key, \"%s\": it has another "
                       "(%s)",
                       end->name, words != NULL ? words : "no reason given");
    }
    return gy_fail(GY_STATE, "the other end does not prove the cluster key \"%s\": %s",
                   end->name[0] != '\0' ? end->name : tls->source.here,
                   words != NULL ? words : "it closed the connection");
}
