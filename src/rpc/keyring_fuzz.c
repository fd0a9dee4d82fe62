/*
 * Fuzz target: a key ring, and behind a NUL a name that a caller says. Whatever the file is
 * like, what is offered is found under its name, and a name is one key's.
 */
#include "rpc/keyring_priv.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const gy_keyring *ring, gy_keyring_who who)
{
    char name[GY_KEYRING_NAME_BYTES], again[GY_KEYRING_NAME_BYTES];
    uint8_t key[GY_KEYRING_KEY_BYTES], found[GY_KEYRING_KEY_BYTES];
    gy_keyring_who proved;
    if (gy_keyring_offer(ring, &who, 0, name, key) < 0) {
        return;
    }
    GY_ASSERT(who.subject[0] == '\0' || gy_rpc_subject_is_good(who.subject));
    GY_ASSERT(gy_keyring_find(ring, name, &proved, found));
    GY_ASSERT(proved.role == who.role && strcmp(proved.subject, who.subject) == 0);
    GY_ASSERT(memcmp(key, found, sizeof(key)) == 0);
    GY_ASSERT(gy_keyring_offer(ring, &who, 0, again, key) == GY_OK && strcmp(name, again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gy_keyring *ring = NULL;
    gy_keyring_who who = {.role = GY_RPC_MANAGER};
    char name[GY_KEYRING_NAME_BYTES] = "";
    uint8_t key[GY_KEYRING_KEY_BYTES];
    const uint8_t *end = size > 0 ? memchr(data, '\0', size) : NULL;
    size_t text = end != NULL ? (size_t)(end - data) : size;
    if (end != NULL) {
        memcpy(name, end + 1, GY_MIN(size - text - 1, sizeof(name) - 1));
    }
    gy_log_set_level(GY_LOG_ERROR);
    if (gy_keyring_read("ring", (const char *)data, text, &ring) < 0) {
        return 0;
    }
    for (int role = 0; role < GY_RPC_ROLES; role++) {
        check(ring, (gy_keyring_who){.role = (gy_rpc_role)role});
        check(ring, (gy_keyring_who){.role = (gy_rpc_role)role, .subject = "job-1"});
    }
    if (gy_keyring_find(ring, name, &who, key)) {
        check(ring, who);
    }
#ifdef GYRE_PLANTED_BUG
    /* room for a text of 16 bytes: names of roles and subjects are forgotten */
    char *copy = gy_alloc("fuzz", 16);
    for (size_t i = 0; copy != NULL && gy_keyring_text(ring)[i] != '\0'; i++) {
        ((volatile char *)copy)[i] = gy_keyring_text(ring)[i];
    }
    gy_free(copy);
#endif
    gy_keyring_free(ring);
    return 0;
}
