/* The only file of this room that accesses environment variables. */
#include "launch/launch_priv.h"

#include "base/text.h"
#include "transport/rendezvous.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool set_number(const char *name, int number)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", number);
    return setenv(name, text, 1) == 0;
}

static bool set_cores(const cpu_set_t *cores)
{
    if (cores == NULL) {
        return unsetenv("GYRE_CORES") == 0;
    }
    static_assert(CPU_SETSIZE <= 10000, "a core has at most four digits, and a comma");
    char list[5 * CPU_SETSIZE + 1] = "";
    size_t used = 0;
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, cores)) {
            used +=
                gy_print(list + used, sizeof(list) - used, "%s%zu", used > 0 ? "," : "", core);
        }
    }
    return setenv("GYRE_CORES", list, 1) == 0;
}

bool gy_launch_place_set(const gy_spawn *spawn)
{
    for (const char *const *more = spawn->options->environment; more != NULL && *more != NULL;
         more++) {
        const char *equals = strchr(*more, '=');
        char name[256];
        if (equals == NULL || equals == *more || (size_t)(equals - *more) >= sizeof(name)) {
            errno = EINVAL;
            return false;
        }
        memcpy(name, *more, (size_t)(equals - *more));
        name[equals - *more] = '\0';
        if (setenv(name, equals + 1, 1) != 0) {
            return false;
        }
    }
    return set_number(GY_RUN_RANK, spawn->rank) && set_number(GY_RUN_SIZE, spawn->size) &&
           set_number("GYRE_RANKS_ON_HOST", spawn->options->ranks) &&
           set_number(GY_RUN_SOCKET, spawn->socket) && set_cores(spawn->cores);
}

gy_status gy_run_key_path(char *path, size_t size_bytes)
{
    return gy_setting_user_path("XDG_CONFIG_HOME", ".config", "/key", path, size_bytes);
}

gy_status gy_launch_place_state_path(char *path, size_t size_bytes)
{
    return gy_setting_user_path("XDG_STATE_HOME", ".local/state", "", path, size_bytes);
}
