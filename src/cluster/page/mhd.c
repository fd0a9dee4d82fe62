/* Loads libmicrohttpd on demand. */
#include "cluster/page/mhd.h"

#include "base/fail.h"
#include "base/thread.h"

#include <dlfcn.h>
#include <string.h>

static struct {
    pthread_once_t once;
    gy_status status;
    gy_error error;
    gy_mhd table;
} loaded = {.once = PTHREAD_ONCE_INIT};

static gy_status load(void)
{
    const struct {
        const char *name;
        void *slot;
    } wanted[] = {
#define GY_X(name) {"MHD_" #name, &loaded.table.name},
        GY_MHD_LIST(GY_X)
#undef GY_X
    };
    void *library = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return gy_fail(GY_UNSUPPORTED, "the status page needs libmicrohttpd: %s", dlerror());
    }
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        void *found = dlsym(library, wanted[i].name);
        if (found == NULL) {
            return gy_fail(GY_UNSUPPORTED, "libmicrohttpd has no %s", wanted[i].name);
        }
        memcpy(wanted[i].slot, &found, sizeof(found)); /* ISO C has no cast for it */
    }
    return GY_OK; /* it stays loaded */
}

static void load_once(void)
{
    loaded.status = load();
    gy_error_take(&loaded.error, loaded.status);
}

gy_status gy_mhd_load(const gy_mhd **mhd)
{
    GY_ASSERT(pthread_once(&loaded.once, load_once) == 0);
    if (loaded.status < 0) {
        return gy_error_raise(&loaded.error);
    }
    *mhd = &loaded.table;
    return GY_OK;
}
