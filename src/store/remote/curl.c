/*
 * Loads libcurl on first use. Linking it would load thirty libraries and cost every program
 * start several milliseconds, also of programs that need no network.
 */
#include "store/remote/curl.h"

#include "base/fail.h"
#include "base/thread.h"

#include <dlfcn.h>
#include <string.h>

/* 7.87: the first version that signs with a given payload hash */
enum { VERSION_LEAST = 0x075700 };

static struct {
    pthread_once_t once;
    gy_status status;
    gy_error error;
    gy_curl table;
} loaded = {.once = PTHREAD_ONCE_INIT};

static gy_status find_all(void *library)
{
    const struct {
        const char *name;
        void *slot;
    } wanted[] = {
#define GY_X(name) {"curl_" #name, &loaded.table.name},
        GY_CURL_LIST(GY_X)
#undef GY_X
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        void *found = dlsym(library, wanted[i].name);
        if (found == NULL) {
            return gy_fail(GY_UNSUPPORTED, "libcurl has no %s: expected 7.87 or newer",
                           wanted[i].name);
        }
        /* ISO C has no cast from an object pointer to a function pointer */
        memcpy(wanted[i].slot, &found, sizeof(found));
    }
    return GY_OK;
}

static gy_status load(void)
{
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return gy_fail(GY_UNSUPPORTED, "remote storage needs libcurl: %s", dlerror());
    }
    GY_TRY(find_all(library)); /* never unloaded, because its threads may still run at exit */
    const CURLcode began = loaded.table.global_init(CURL_GLOBAL_DEFAULT);
    if (began != CURLE_OK) {
        return gy_fail(GY_UNSUPPORTED, "libcurl does not start: %s",
                       loaded.table.easy_strerror(began));
    }
    const curl_version_info_data *facts = loaded.table.version_info(CURLVERSION_NOW);
    if (facts->version_num < VERSION_LEAST || (facts->features & CURL_VERSION_SSL) == 0) {
        return gy_fail(GY_UNSUPPORTED, "libcurl is %s, expected 7.87 or newer, with TLS",
                       facts->version);
    }
    return GY_OK;
}

static void load_once(void)
{
    loaded.status = load();
    if (loaded.status < 0) {
        gy_error_take(&loaded.error, loaded.status);
    }
}

gy_status gy_curl_load(const gy_curl **curl)
{
    GY_ASSERT(pthread_once(&loaded.once, load_once) == 0);
    if (loaded.status < 0) {
        return gy_error_raise(&loaded.error);
    }
    *curl = &loaded.table;
    return GY_OK;
}
