/* Files by URIs, and the hosts that the URIs name. */
#include "store/host_file.h"

#include "store/remote/remote_priv.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* Find what follows "file:" or "file://"; *hosts: number of bytes before the path. NULL: no
 * URI. */
static const char *find_path(const char *text, const char **hosts, size_t *host_bytes)
{
    if (!gy_uri_is_file(text)) {
        return NULL;
    }
    *hosts = text + 5;
    *host_bytes = 0;
    if (strncmp(text + 5, "//", 2) != 0) {
        return text + 5;
    }
    *hosts = text + 7;
    *host_bytes = strcspn(text + 7, "/");
    return text + 7 + *host_bytes;
}

static bool is_nobody(const char *hosts, size_t size)
{
    static const char localhost[] = "localhost";
    return size == 0 || (size == strlen(localhost) && strncasecmp(hosts, localhost, size) == 0);
}

bool gy_host_file_is(const char *text)
{
    const char *hosts = NULL;
    size_t size = 0;
    return find_path(text, &hosts, &size) != NULL && !is_nobody(hosts, size);
}

static gy_status take_hosts(const char *text, const char *from, size_t size, char *hosts)
{
    size_t length = 0;
    for (size_t i = 0; i < size; i++) {
        const bool is_comma = from[i] == ',';
        length = is_comma ? 0 : length + 1;
        if (!isalnum((unsigned char)from[i]) && strchr(".-_,", from[i]) == NULL) {
            return gy_fail(GY_ARG, "%s: '%c' is in no host's name", text, from[i]);
        }
        if (length == GY_HOST_FILE_NAME ||
            (is_comma && (i == 0 || i + 1 == size || from[i + 1] == ','))) {
            return gy_fail(GY_ARG, "%s: expected names of 1 to %d letters with commas between",
                           text, GY_HOST_FILE_NAME - 1);
        }
        hosts[i] = from[i];
        if (is_comma) {
            hosts[i] = ' ';
        }
    }
    hosts[size] = '\0';
    return GY_OK;
}

static gy_status take_path(const char *text, const char *from, bool is_uri, char *path)
{
    size_t used = 0;
    for (; *from != '\0'; from++) {
        char byte = *from;
        if (is_uri && byte == '%') {
            byte = gy_uri_byte(from);
            if (byte == '\0') {
                return gy_fail(GY_ARG, "%s: %%%.2s is no byte: expected two hexadecimal digits",
                               text, from + 1);
            }
            from += 2;
        }
        path[used++] = byte;
    }
    path[used] = '\0';
    return used > 0 ? GY_OK : gy_fail(GY_ARG, "\"%s\" has no path", text);
}

/* "file:a" is a name with a colon if such a file exists, otherwise the relative path a. */
static bool is_plain_name(const char *text)
{
    struct stat about;
    return gy_uri_is_file(text) && text[5] != '/' && lstat(text, &about) == 0;
}

gy_status gy_store_path_local(const char *text, const char *what, char *path, size_t size_bytes)
{
    gy_host_file file;
    if (gy_uri_is_remote(text)) {
        return gy_fail(GY_ARG,
                       "%s is '%.200s': it lies in files alone, expected a path or file:/PATH",
                       what, text);
    }
    gy_status status = gy_uri_check_new(text);
    status = status < 0 ? status : gy_host_file_read(text, &file);
    if (status == GY_OK && file.hosts[0] != '\0') {
        status = gy_fail(GY_ARG, "%.200s names a host: expected a path or file:/PATH", text);
    } else if (status == GY_OK && strlen(file.path) >= size_bytes) {
        status = gy_fail(GY_ARG, "%.200s... is too long: expected at most %zu bytes", text,
                         size_bytes - 1);
    }
    if (status < 0) {
        return gy_fail_within(status, "%s", what);
    }
    memcpy(path, file.path, strlen(file.path) + 1);
    return GY_OK;
}

gy_status gy_host_file_read(const char *text, gy_host_file *file)
{
    const char *hosts = NULL;
    size_t size = 0;
    const char *path = is_plain_name(text) ? NULL : find_path(text, &hosts, &size);
    file->path[0] = file->hosts[0] = '\0';
    if (strlen(text) >= sizeof(file->path) || size >= sizeof(file->hosts)) {
        return gy_fail(GY_ARG,
                       "the name of a file has %zu bytes, %zu of them of hosts: too long",
                       strlen(text), size);
    }
    if (!gy_uri_is_remote(text)) {
        GY_TRY(gy_uri_check(text));
    }
    if (path != NULL && !is_nobody(hosts, size)) {
        GY_TRY(take_hosts(text, hosts, size, file->hosts));
        if (path[0] != '/') {
            return gy_fail(GY_ARG, "%s: expected file://HOST/PATH", text);
        }
    }
    return take_path(text, path != NULL ? path : text, path != NULL, file->path);
}
