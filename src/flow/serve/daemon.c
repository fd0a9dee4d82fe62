/* <gyre/daemon.h>: a daemon of room cluster, with callbacks into this room. */
#include "cluster/host/host.h"
#include "flow/section/section_fetch.h"

#include <gyre/daemon.h>

#include <gyre/launch.h>

enum { PATH_BYTES = 4096 };

gy_status gy_daemon_run(const gy_daemon_run_options *setup)
{
    gy_daemon_run_options known;
    GY_TRY(gy_options_take(gy_daemon_run_options, &known, setup));
    setup = &known;
    const gy_net_hooks hooks = {.locate = gy_section_locate};
    char key[PATH_BYTES];
    if (setup->nameservers == NULL || setup->listen == NULL || setup->folder == NULL) {
        return gy_fail(GY_ARG, "a daemon needs name servers, an address and a folder");
    }
    if (setup->slots < 0 || setup->retention_s < 0) {
        return gy_fail(GY_ARG, "%d slots, files retained for %g s: expected 0 or more",
                       setup->slots, setup->retention_s);
    }
    if (setup->key_file == NULL && !setup->is_plaintext) {
        GY_TRY(gy_run_key_path(key, sizeof(key)));
    }
    return gy_host_run(gy_env_real(),
                       &(gy_host_options){.names = setup->nameservers,
                                          .listen = setup->listen,
                                          .folder = setup->folder,
                                          .key_file = setup->is_plaintext ? NULL
                                                      : setup->key_file != NULL
                                                          ? setup->key_file
                                                          : key,
                                          .is_plaintext = setup->is_plaintext,
                                          .host = setup->host,
                                          .labels = setup->labels,
                                          .slots = (uint32_t)setup->slots,
                                          .memory_bytes = setup->memory_bytes,
                                          .reserve_bytes = setup->reserve_bytes,
                                          .blob_bytes = setup->cache_bytes_max,
                                          .keep_ns = (int64_t)(setup->retention_s * 1e9),
                                          .sandbox = setup->sandbox,
                                          .hooks = &hooks,
                                          .ready = setup->on_listening,
                                          .arg = setup->arg});
}
