/* Map functions of ready-made jobs over texts: words, words of files, fields, copies, pairs. */
#include "mapreduce/job.h"

#include "base/base.h"

#include <string.h>

void gy_map_words(gy_map *map, const gy_record *record)
{
    gy_emit_words(map, record->data, record->size);
}

void gy_map_index(gy_map *map, const gy_record *record)
{
    gy_map_keep(map, gy_gather_add_words(map->gather, record->data, record->size, map->number));
}

/* Copy lines; '\n' replaces whatever line end they had. */
static void copy_lines(gy_map *map, const char *at, const char *end)
{
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t size = (size_t)((newline != NULL ? newline : end) - at);
        gy_map_write(map, at, gy_line_size(map, at, size));
        gy_map_write(map, "\n", 1);
        at += size + (newline != NULL);
    }
}

/* Add the line end that the last line of a file may lack; otherwise another file's first line
 * would be appended to it. */
void gy_map_copy(gy_map *map, const gy_record *record)
{
    if (map->stage->options.line_end != GY_LINE_END_LF && record->size > 0 &&
        memchr(record->data, '\r', record->size) != NULL) {
        copy_lines(map, record->data, record->data + record->size);
        return;
    }
    gy_map_write(map, record->data, record->size);
    if (record->size > 0 && record->data[record->size - 1] != '\n') {
        gy_map_write(map, "\n", 1);
    }
}

void gy_map_pairs(gy_map *map, const gy_record *record)
{
    gy_emit_bytes(map, record->key, record->key_size, record->data, record->size);
}
