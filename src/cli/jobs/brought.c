/* Find files that a command needs and that its folder lacks. */
#include "cli/jobs/common.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { WORD_BYTES = 4096 };

/* Get the next word of a shell command line, without quotes; false: there is none. This is
 * enough to find names of files: variables are not expanded. */
static bool next_word(const char **at, char word[WORD_BYTES])
{
    static const char apart[] = " \t\n;|&<>()";
    const char *from = *at + strspn(*at, apart);
    size_t size = 0;
    char quote = '\0';
    const bool is_there = *from != '\0';
    for (; *from != '\0' && (quote != '\0' || strchr(apart, *from) == NULL); from++) {
        if (quote == '\0' ? *from == '"' || *from == '\'' : *from == quote) {
            const bool is_end = quote != '\0';
            quote = *from;
            if (is_end) {
                quote = '\0';
            }
            continue;
        }
        from += quote != '\'' && *from == '\\' && from[1] != '\0';
        if (size < WORD_BYTES - 1) {
            word[size++] = *from;
        }
    }
    word[size] = '\0';
    *at = from;
    return is_there;
}

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Whether the word is a relative path of a file, which is invalid in another folder. */
static bool is_file_here(const char *word)
{
    struct stat facts;
    return word[0] != '\0' && word[0] != '/' && stat(word, &facts) == 0 &&
           S_ISREG(facts.st_mode);
}

bool gy_cli_find_unbrought(const char *command, const char *const *files, char *out,
                           size_t size_bytes)
{
    char word[WORD_BYTES];
    while (command != NULL && next_word(&command, word)) {
        const char *equal = strchr(word, '=');
        const char *name = is_file_here(word) ? word : equal != NULL ? equal + 1 : "";
        bool is_there = false, is_brought = false;
        for (const char *const *file = files; *file != NULL; file++) {
            is_brought |= strcmp(last_name(*file), last_name(name)) == 0;
            is_there |=
                strcmp(last_name(*file), strncmp(name, "./", 2) == 0 ? name + 2 : name) == 0;
        }
        if (!is_file_here(name) || is_there) {
            continue;
        }
        if (is_brought) {
            snprintf(out, size_bytes, "%.1000s is placed in the command's folder as %.255s",
                     name, last_name(name));
        } else {
            snprintf(out, size_bytes,
                     "%.1000s is missing in the command's folder: add --file %.1000s", name,
                     name);
        }
        return true;
    }
    return false;
}
