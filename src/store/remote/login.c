/*
 * Finds credentials for S3: first in the environment, then in the files of AWS's own tools.
 * Machine roles (IMDS, SSO, web identity) are not supported; their tools can put keys into the
 * environment.
 *
 * Source: AWS, "Configuration and credential file settings".
 */
#include "store/remote/remote_priv.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES_MOST = 256 << 10, PATH_BYTES = 4096, SECTION_BYTES = 160 };

static const char *trim(const char *text, size_t *size)
{
    while (*size > 0 && isspace((unsigned char)text[0])) {
        text++;
        (*size)--;
    }
    while (*size > 0 && isspace((unsigned char)text[*size - 1])) {
        (*size)--;
    }
    return text;
}

static bool is_text(const char *data, size_t size, const char *text)
{
    return strlen(text) == size && memcmp(data, text, size) == 0;
}

/* Is "[...]" the profile's section? ~/.aws/config writes "profile NAME". */
static bool is_section(const char *line, size_t size, const char *profile)
{
    size_t inner = size - 2;
    const char *name = trim(line + 1, &inner);
    static const char word[] = "profile";
    if (inner > sizeof(word) && memcmp(name, word, sizeof(word) - 1) == 0 &&
        isspace((unsigned char)name[sizeof(word) - 1])) {
        inner -= sizeof(word) - 1;
        name = trim(name + sizeof(word) - 1, &inner);
    }
    return is_text(name, inner, profile);
}

gy_status gy_login_value(const char *text, const char *profile, const char *name, char *out,
                         size_t size_bytes)
{
    bool is_within = false;
    out[0] = '\0';
    int number = 1;
    for (const char *at = text; *at != '\0'; number++) {
        size_t size = strcspn(at, "\n");
        const char *line = at;
        at += size + (at[size] == '\n');
        const bool is_nested = size > 0 && isspace((unsigned char)line[0]);
        line = trim(line, &size);
        if (size == 0 || line[0] == '#' || line[0] == ';') {
            continue;
        }
        if (line[0] == '[') {
            if (line[size - 1] != ']' || size < 3) {
                return gy_fail(GY_FORMAT, "line %d: a section without its ]", number);
            }
            is_within = is_section(line, size, profile);
            continue;
        }
        const char *equal = memchr(line, '=', size);
        if (equal == NULL && !is_nested) {
            return gy_fail(GY_FORMAT, "line %d: expected NAME = VALUE", number);
        }
        if (!is_within || is_nested || equal == NULL) {
            continue;
        }
        size_t name_size = (size_t)(equal - line), value_size = size - name_size - 1;
        (void)trim(line, &name_size);
        const char *value = trim(equal + 1, &value_size);
        if (is_text(line, name_size, name)) {
            /* the message omits the value, which may be a secret */
            if (value_size >= size_bytes) {
                return gy_fail(GY_LIMIT, "line %d: %s has %zu bytes, expected fewer than %zu",
                               number, name, value_size, size_bytes);
            }
            memcpy(out, value, value_size);
            out[value_size] = '\0';
        }
    }
    return GY_OK;
}

/* Read a file of secrets, which nobody else may be able to write. A NUL follows *text. */
static gy_status read_file(const char *path, gy_bytes *text)
{
    const gy_disk_ops *disk = &gy_disk_real;
    gy_env *env = gy_env_real();
    const int file = disk->open(env, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    if (file < 0) {
        return gy_store_file_fail("open", path, file);
    }
    struct stat facts;
    gy_status status = GY_OK;
    if (fstat(file, &facts) != 0) {
        status = gy_store_file_fail("read", path, -errno);
    } else if (!S_ISREG(facts.st_mode) || facts.st_size > FILE_BYTES_MOST) {
        status = gy_fail(GY_IO, "%s is no file of at most %d bytes", path, FILE_BYTES_MOST);
    } else if ((facts.st_uid != geteuid() && facts.st_uid != 0) ||
               (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        status = gy_fail(GY_IO, "%s belongs to or may be written by others: not trusted", path);
    } else if ((facts.st_mode & S_IROTH) != 0) {
        gy_warn("%s may be read by everybody: chmod 600", path);
    }
    char *data = status < 0 ? NULL : gy_alloc_zero("store.login", 1, FILE_BYTES_MOST + 1);
    status = status == GY_OK && data == NULL ? GY_NOMEM : status;
    size_t used = 0;
    int64_t got = 1;
    while (status == GY_OK && got > 0) {
        got = disk->read(env, file, data + used, FILE_BYTES_MOST - used);
        status = got < 0 ? gy_store_file_fail("read", path, got) : GY_OK;
        used += got > 0 ? (size_t)got : 0;
    }
    (void)disk->close(env, file);
    if (status < 0) {
        gy_free(data);
        return status;
    }
    *text = (gy_bytes){data, used};
    return GY_OK;
}

static void wipe_text(gy_bytes *text)
{
    if (text->data != NULL) {
        explicit_bzero(text->data, text->size_bytes);
    }
    gy_free(text->data);
    *text = (gy_bytes){NULL, 0};
}

static gy_status copy_setting(const char *name, char *out, size_t size_bytes)
{
    const char *value = gy_setting_get(name);
    if (value != NULL && strlen(value) >= size_bytes) {
        return gy_fail(GY_LIMIT, "%s has %zu bytes, expected fewer than %zu", name,
                       strlen(value), size_bytes);
    }
    snprintf(out, size_bytes, "%s", value != NULL ? value : "");
    return GY_OK;
}

/* The path in VARIABLE, else ~/.aws/NAME; false: neither exists. */
static bool find_path(const char *variable, const char *name, char path[PATH_BYTES])
{
    const char *given = gy_setting_get(variable), *home = gy_setting_get("HOME");
    if (given != NULL) {
        return snprintf(path, PATH_BYTES, "%s", given) < PATH_BYTES;
    }
    return home != NULL && snprintf(path, PATH_BYTES, "%s/.aws/%s", home, name) < PATH_BYTES;
}

static gy_status read_credentials(gy_login *login, const char *profile, const char *path)
{
    gy_bytes text = {NULL, 0};
    gy_status status = read_file(path, &text);
    if (text.data == NULL) {
        return status == GY_NOTFOUND ? GY_OK : status;
    }
    const struct {
        const char *name;
        char *out;
        size_t size_bytes;
    } wanted[] = {
        {"aws_access_key_id", login->key, sizeof(login->key)},
        {"aws_secret_access_key", login->secret, sizeof(login->secret)},
        {"aws_session_token", login->session, sizeof(login->session)},
    };
    for (size_t i = 0; status == GY_OK && i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        status = gy_login_value(text.data, profile, wanted[i].name, wanted[i].out,
                                wanted[i].size_bytes);
        status = status < 0 ? gy_fail_within(status, "%s", path) : GY_OK;
    }
    wipe_text(&text);
    if (login->key[0] != '\0') {
        snprintf(login->source, sizeof(login->source), "profile %.60s of %.200s", profile,
                 path);
    }
    return status;
}

static gy_status find_region(gy_login *login, const char *profile)
{
    GY_TRY(copy_setting("AWS_REGION", login->region, sizeof(login->region)));
    if (login->region[0] == '\0') {
        GY_TRY(copy_setting("AWS_DEFAULT_REGION", login->region, sizeof(login->region)));
    }
    char path[PATH_BYTES];
    if (login->region[0] == '\0' && find_path("AWS_CONFIG_FILE", "config", path)) {
        gy_bytes text = {NULL, 0};
        gy_status status = read_file(path, &text);
        if (text.data != NULL) {
            status = gy_login_value(text.data, profile, "region", login->region,
                                    sizeof(login->region));
            wipe_text(&text);
        }
        if (status < 0 && status != GY_NOTFOUND) {
            return gy_fail_within(status, "%s", path);
        }
    }
    for (const char *at = login->region; *at != '\0'; at++) {
        if (!isalnum((unsigned char)*at) && *at != '-') {
            return gy_fail(GY_ARG, "the region \"%s\": expected one such as eu-central-1",
                           login->region);
        }
    }
    if (login->region[0] == '\0') {
        snprintf(login->region, sizeof(login->region), "us-east-1");
    }
    return GY_OK;
}

static gy_status find_login(gy_login *login)
{
    char profile[SECTION_BYTES] = "";
    GY_TRY(copy_setting("AWS_PROFILE", profile, sizeof(profile)));
    const bool is_named = profile[0] != '\0';
    if (!is_named) {
        snprintf(profile, sizeof(profile), "default");
    }
    GY_TRY(find_region(login, profile));
    GY_TRY(copy_setting("AWS_ACCESS_KEY_ID", login->key, sizeof(login->key)));
    GY_TRY(copy_setting("AWS_SECRET_ACCESS_KEY", login->secret, sizeof(login->secret)));
    if ((login->key[0] == '\0') != (login->secret[0] == '\0')) {
        return gy_fail(GY_ARG,
                       "of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY one alone is set");
    }
    char path[PATH_BYTES];
    if (login->key[0] != '\0') {
        snprintf(login->source, sizeof(login->source), "AWS_ACCESS_KEY_ID");
        GY_TRY(copy_setting("AWS_SESSION_TOKEN", login->session, sizeof(login->session)));
    } else if (find_path("AWS_SHARED_CREDENTIALS_FILE", "credentials", path)) {
        GY_TRY(read_credentials(login, profile, path));
    }
    if (login->key[0] == '\0') {
        if (is_named) {
            return gy_fail(GY_ARG, "AWS_PROFILE is \"%.60s\": no credentials of that name",
                           profile);
        }
        login->is_anonymous = true;
        snprintf(login->source, sizeof(login->source),
                 "none, neither AWS_ACCESS_KEY_ID nor "
                 "~/.aws/credentials has any");
    } else if (login->secret[0] == '\0') {
        return gy_fail(GY_ARG, "the credentials of %.250s have no secret", login->source);
    }
    return GY_OK;
}

gy_status gy_place_files(const char *uri, gy_status (*visit)(void *arg, const char *path),
                         void *arg)
{
    static const char *const authorities[] = {"GYRE_CA_FILE", "AWS_CA_BUNDLE"};
    static const char *const own[][2] = {{"AWS_SHARED_CREDENTIALS_FILE", "credentials"},
                                         {"AWS_CONFIG_FILE", "config"}};
    char path[PATH_BYTES];
    for (size_t i = 0; i < sizeof(authorities) / sizeof(authorities[0]); i++) {
        const char *given = gy_setting_get(authorities[i]);
        GY_TRY(given != NULL ? visit(arg, given) : GY_OK);
    }
    const bool is_s3 = strncmp(uri, "s3://", 5) == 0;
    for (size_t i = 0; is_s3 && i < sizeof(own) / sizeof(own[0]); i++) {
        if (find_path(own[i][0], own[i][1], path)) {
            GY_TRY(visit(arg, path));
        }
    }
    return GY_OK;
}

gy_status gy_login_find(gy_login *login)
{
    memset(login, 0, sizeof(*login));
    const gy_status status = find_login(login);
    if (status < 0) {
        gy_login_wipe(login);
    }
    return status;
}

void gy_login_wipe(gy_login *login)
{
    explicit_bzero(login, sizeof(*login));
}
