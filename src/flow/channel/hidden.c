/*
 * Finds files that a sandbox hides from a command: they exist and their mode permits reading,
 * but opening them fails (Landlock refuses open, not stat; landlock(7)).
 */
#include "base/setting.h"
#include "base/text.h"
#include "flow/channel/vertex.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Does the file's mode permit reading? */
static bool may_read(const char *path)
{
    struct stat about;
    return path[0] == '/' && stat(path, &about) == 0 && S_ISREG(about.st_mode) &&
           faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0;
}

static bool is_hidden(const char *path)
{
    if (!may_read(path)) {
        return false;
    }
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file >= 0) {
        (void)close(file);
    }
    return file < 0 && errno == EACCES;
}

/* Search `name` in the folders of a colon-separated list, with `below` appended to each
 * folder. */
static bool find_in(const char *list, const char *below, const char *name, char out[PATH_MAX])
{
    while (list != NULL && *list != '\0') {
        const size_t size = strcspn(list, ":");
        if (gy_print_whole(out, PATH_MAX, "%.*s%s/%s", (int)size, list, below, name) &&
            is_hidden(out)) {
            return true;
        }
        list += size + (list[size] == ':');
    }
    return false;
}

/* Check one word of a command or of its error output: a path, a program's name, or a library's
 * name. */
static bool find_word(const char *word, const char *programs, char out[PATH_MAX])
{
    const char *path = gy_setting_get("PATH");
    if (strchr(word, '/') != NULL) {
        return gy_print_whole(out, PATH_MAX, "%s", word) && is_hidden(out);
    }
    if (strstr(word, ".so") != NULL) {
        return find_in(gy_setting_get("LD_LIBRARY_PATH"), "", word, out) ||
               find_in(programs, "/../lib", word, out) || find_in(programs, "", word, out) ||
               find_in(path, "/../lib", word, out);
    }
    return find_in(path, "", word, out);
}

/* Check each word of a text; with `programs` NULL only absolute paths. Quotes and punctuation
 * around a word are removed. */
static bool find_among(const char *text, const char *programs, char out[PATH_MAX])
{
    static const char apart[] = " \t\n\r\"'`;:|&<>(),[]=";
    char word[PATH_MAX];
    while (*(text += strspn(text, apart)) != '\0') {
        const size_t size = strcspn(text, apart);
        if (gy_print_whole(word, sizeof(word), "%.*s", (int)size, text) &&
            (programs != NULL || word[0] == '/') && find_word(word, programs, out)) {
            return true;
        }
        text += size;
    }
    return false;
}

/* List the folders of programs that a line names by path, separated by colons. */
static void list_programs(const char *line, char out[PATH_MAX])
{
    static const char apart[] = " \t\n\"';|&<>()";
    size_t used = 0;
    out[0] = '\0';
    while (*(line += strspn(line, apart)) != '\0') {
        const size_t size = strcspn(line, apart);
        const char *slash = memrchr(line, '/', size);
        if (line[0] == '/' && slash > line) {
            used += gy_print(out + used, PATH_MAX - used, "%s%.*s", used > 0 ? ":" : "",
                             (int)(slash - line), line);
        }
        line += size;
    }
}

bool gy_flow_command_find_hidden(const char *const *command, const char *said, char *out)
{
    char programs[PATH_MAX];
    /* the command's own message names the missing file best; any other hidden file may be
     * harmless */
    if (find_among(said, NULL, out)) {
        return true;
    }
    for (size_t i = 0; command[i] != NULL; i++) {
        list_programs(command[i], programs);
        if (find_among(command[i], programs, out) || find_among(said, programs, out)) {
            return true;
        }
    }
    return false;
}
