/* The settings of the environment for choices, and the files that hold the tables of `gyre
 * tune`. */
#include "coll/coll_priv.h"

#include "topo/topo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *gy_machine_text(char out[GY_MACHINE_BYTES])
{
    char cpu[128], size[32];
    gy_text text = {.data = NULL};
    const gy_topo_caches *caches = gy_topo_cache_sizes();
    gy_topo_cpu_name(cpu, sizeof(cpu));
    /* The count is the host's, since a rank may be bound to one core. */
    gy_text_add(&text, "%s, %ld cores, caches", cpu, sysconf(_SC_NPROCESSORS_ONLN));
    for (int level = 1; level < GY_TOPO_LEVELS; level++) {
        gy_text_add(&text, " %s", gy_text_bytes(size, caches->data_bytes[level]));
    }
    return gy_text_move(&text, out, GY_MACHINE_BYTES);
}

const char *gy_tuning_named(void)
{
    const char *name = gy_setting_get("GYRE_TUNE");
    return name != NULL && strcmp(name, "none") != 0 ? name : NULL;
}

gy_status gy_forced_from_environment(gy_forced *forced)
{
    gy_status status = gy_forced_parse(gy_setting_get("GYRE_COLL"), forced);
    return status < 0 ? gy_fail_within(status, "GYRE_COLL") : GY_OK;
}

gy_status gy_tuning_path(char *out, size_t size_bytes)
{
    GY_ASSERT(out != NULL && size_bytes > 0);
    const char *config = gy_setting_get("XDG_CONFIG_HOME"), *home = gy_setting_get("HOME");
    if (config == NULL && home == NULL) {
        return gy_fail(GY_ARG, "neither XDG_CONFIG_HOME nor HOME is set: expected a file name");
    }
    int size = config != NULL ? snprintf(out, size_bytes, "%s/gyre/tune", config)
                              : snprintf(out, size_bytes, "%s/.config/gyre/tune", home);
    return (size_t)size < size_bytes ? GY_OK
                                     : gy_fail(GY_ARG, "the path of the table is too long");
}

/* Reads at most one byte more than a table may have. */
static gy_status read_bytes(const char *path, gy_env *env, char *data, size_t *size_bytes)
{
    const gy_disk_ops *disk = gy_env_disk(env);
    int file = disk->open(env, path, O_RDONLY, 0);
    int64_t got = file < 0 ? file : disk->size(env, file);
    *size_bytes = 0;
    while (got >= 0 && *size_bytes <= GY_TABLE_BYTES_MAX) {
        got = disk->read(env, file, data + *size_bytes, GY_TABLE_BYTES_MAX + 1 - *size_bytes);
        if (got <= 0) {
            break;
        }
        *size_bytes += (size_t)got;
    }
    GY_ASSERT(*size_bytes <= GY_TABLE_BYTES_MAX + 1);
    if (file >= 0) {
        (void)disk->close(env, file);
    }
    return got >= 0 ? GY_OK
                    : gy_fail(got == -ENOENT ? GY_NOTFOUND : GY_IO,
                              "cannot read the table of gyre tune %s: %s", path,
                              strerror((int)-got));
}

gy_status gy_tuning_read(const char *path, gy_env *env, gy_tuning **tuning)
{
    GY_ASSERT(path != NULL && tuning != NULL);
    size_t size = 0;
    char *data = gy_alloc("coll.tuning", GY_TABLE_BYTES_MAX + 1);
    gy_tuning *made = gy_alloc_zero("coll.tuning", 1, sizeof(*made));
    gy_status status = data == NULL || made == NULL ? GY_NOMEM : GY_OK;
    if (status == GY_OK) {
        status = read_bytes(path, env, data, &size);
    }
    if (status == GY_OK) {
        status = gy_tuning_parse(data, size, path, made);
    }
    if (status == GY_OK) {
        made->path = gy_copy_text("coll.tuning", path);
        status = made->path == NULL ? GY_NOMEM : GY_OK;
    }
    gy_free(data);
    if (status != GY_OK) {
        gy_tuning_free(made);
        return status;
    }
    GY_ASSERT(made != NULL && made->path != NULL);
    *tuning = made;
    return GY_OK;
}

/* Opens the usual file; it counts as none if it does not exist or was measured on another
 * machine. */
static gy_status open_usual(gy_env *env, bool warns, gy_tuning **tuning)
{
    GY_ASSERT(*tuning == NULL);
    char path[4096], here[GY_MACHINE_BYTES];
    if (gy_tuning_path(path, sizeof(path)) < 0) {
        return GY_OK;
    }
    gy_status status = gy_tuning_read(path, env, tuning);
    if (status == GY_OK && strcmp((*tuning)->machine, gy_machine_text(here)) != 0) {
        gy_log(warns ? GY_LOG_WARN : GY_LOG_INFO,
               "%s is not used: it was measured on %s, this is %s (gyre tune makes one; "
               "GYRE_TUNE=%s uses it anyway)",
               path, (*tuning)->machine, here, path);
        gy_tuning_free(*tuning);
        *tuning = NULL;
    }
    return status == GY_NOTFOUND ? GY_OK : status;
}

gy_status gy_tuning_open(const char *name, gy_env *env, bool warns, gy_tuning **tuning)
{
    GY_ASSERT(tuning != NULL);
    const char *wanted = name != NULL ? name : gy_setting_get("GYRE_TUNE");
    *tuning = NULL;
    if (wanted == NULL) {
        return open_usual(env, warns, tuning);
    }
    if (strcmp(wanted, "none") == 0) {
        return GY_OK;
    }
    gy_status status = gy_tuning_read(wanted, env, tuning);
    return status < 0 && name == NULL ? gy_fail_within(status, "GYRE_TUNE") : status;
}

/* Returns 0 or a negated errno. */
static int write_bytes(gy_env *env, const char *path, const char *data, size_t size_bytes)
{
    const gy_disk_ops *disk = gy_env_disk(env);
    int file = disk->open(env, path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    int64_t got = file;
    for (size_t at = 0; got >= 0 && at < size_bytes; at += (size_t)GY_MAX(got, 0)) {
        got = disk->write(env, file, data + at, size_bytes - at);
    }
    GY_ASSERT(size_bytes == 0 || data != NULL);
    int ended = got < 0 ? (int)got : disk->sync(env, file);
    if (file >= 0) {
        int closed = disk->close(env, file);
        ended = ended < 0 ? ended : closed;
    }
    return ended;
}

gy_status gy_tuning_write(const gy_tuning *tuning, const char *path, gy_env *env)
{
    GY_ASSERT(tuning != NULL && path != NULL);
    const gy_disk_ops *disk = gy_env_disk(env);
    gy_text text = {.data = NULL}, beside = {.data = NULL};
    gy_tuning_print(tuning, &text);
    gy_text_add(&beside, "%s.%ld", path, (long)getpid());
    gy_status status = text.status < 0 ? text.status : beside.status;
    if (status == GY_OK) {
        int ended = gy_disk_make_folders(path);
        ended = ended < 0 ? ended
                          : write_bytes(env, gy_text_get(&beside), text.data, text.size_bytes);
        ended = ended < 0 ? ended : disk->rename(env, gy_text_get(&beside), path);
        if (ended < 0) {
            (void)disk->unlink(env, gy_text_get(&beside));
            status = gy_fail(GY_IO, "cannot write the table %s: %s", path, strerror(-ended));
        }
    }
    gy_text_free(&text);
    gy_text_free(&beside);
    return status;
}

void gy_tuning_free(gy_tuning *tuning)
{
    if (tuning != NULL) {
        gy_tuning_fini(tuning);
        gy_free(tuning);
    }
}
