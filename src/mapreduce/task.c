/* Encodes and decodes the parameter of a vertex. */
#include "mapreduce/task.h"

#include "base/base.h"

#include <assert.h>
#include <string.h>

#define MAGIC 0x6d617072u

/* Followed by parts, the user's parameter, hot keys, names and paths, each with its NUL. */
typedef struct head {
    uint32_t magic, partitions;
    uint64_t record_bytes, memory_bytes, parameter_bytes, hot_key_bytes, hot_bytes, text_bytes;
    uint32_t part_count, shares, sides;
    uint8_t phase, format, fold, order, is_counting, has_reduce, is_map_only, delimiter;
    uint8_t has_combine, has_partition, encoding, line_end;
} head;
static_assert(sizeof(head) % 8 == 0, "parts are aligned to 8");

gy_mapreduce_fold gy_mapreduce_combine_fold(gy_combine combine, bool has_bytes)
{
    switch (combine) {
    case GY_COMBINE_NONE:
        return has_bytes ? GY_FOLD_LIST : GY_FOLD_NUMBERS;
    case GY_COMBINE_SUM:
    case GY_COMBINE_COUNT:
        return GY_FOLD_SUM;
    case GY_COMBINE_MIN:
        return GY_FOLD_MIN;
    case GY_COMBINE_MAX:
        return GY_FOLD_MAX;
    case GY_COMBINE_SET:
        return GY_FOLD_SET;
    case GY_COMBINE_USER: /* combines bytes: for the shares of hot keys */
        return has_bytes ? GY_FOLD_LIST : GY_FOLD_USER;
    }
    gy_panic("no combine %d", (int)combine);
}

void gy_mapreduce_task_write(gy_text *out, const gy_task_options *options,
                             const gy_task_part *parts, const char *const *paths,
                             size_t part_count)
{
    gy_text words = {0};
    const char *const names[] = {options->combine, options->partition};
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        if (names[i] != NULL) {
            gy_text_add_bytes(&words, names[i], strlen(names[i]) + 1);
        }
    }
    for (size_t i = 0; i < part_count; i++) {
        gy_text_add_bytes(&words, paths[i], strlen(paths[i]) + 1);
    }
    const head made = {.magic = MAGIC,
                       .partitions = options->partitions,
                       .record_bytes = options->record_bytes,
                       .memory_bytes = options->memory_bytes,
                       .parameter_bytes = options->parameter_bytes,
                       .hot_key_bytes = options->hot_key_bytes,
                       .hot_bytes = options->hot_bytes,
                       .text_bytes = words.size_bytes,
                       .part_count = (uint32_t)part_count,
                       .shares = options->shares,
                       .sides = options->sides,
                       .phase = (uint8_t)options->phase,
                       .format = (uint8_t)options->format,
                       .encoding = (uint8_t)options->encoding,
                       .line_end = (uint8_t)options->line_end,
                       .fold = (uint8_t)options->fold,
                       .order = (uint8_t)options->order,
                       .is_counting = options->is_counting,
                       .has_reduce = options->has_reduce,
                       .is_map_only = options->is_map_only,
                       .delimiter = (uint8_t)options->delimiter,
                       .has_combine = options->combine != NULL,
                       .has_partition = options->partition != NULL};
    gy_text_add_bytes(out, &made, sizeof(made));
    gy_text_add_bytes(out, parts, part_count * sizeof(*parts));
    gy_text_add_bytes(out, options->parameter, options->parameter_bytes);
    gy_text_add_bytes(out, options->hot, options->hot_bytes);
    gy_text_add_bytes(out, words.data, words.size_bytes);
    if (words.status < 0) {
        out->status = words.status;
    }
    gy_text_free(&words);
}

/* Do the sizes in a head add up to exactly the bytes after it? Each is compared with what the
 * others leave, because their sum may overflow. */
static bool is_whole(const head *seen, size_t size_bytes)
{
    if (size_bytes < sizeof(*seen) || seen->magic != MAGIC) {
        return false;
    }
    const uint64_t pieces[] = {seen->part_count * sizeof(gy_task_part), seen->parameter_bytes,
                               seen->hot_bytes, seen->text_bytes};
    uint64_t left = size_bytes - sizeof(*seen);
    for (size_t i = 0; i < GY_COUNT(pieces); i++) {
        if (pieces[i] > left) {
            return false;
        }
        left -= pieces[i];
    }
    return left == 0;
}

/* Take the text at *at and advance *at beyond its NUL; NULL: no NUL before the end. */
static const char *take_text(const char **at, const char *end)
{
    const char *text = *at, *nul = memchr(text, '\0', (size_t)(end - text));
    if (nul == NULL) {
        return NULL;
    }
    *at = nul + 1;
    return text;
}

gy_status gy_mapreduce_task_read(const void *data, size_t size_bytes, gy_task_stage *stage)
{
    const head *seen = data;
    if (!is_whole(seen, size_bytes)) {
        return gy_fail(GY_FORMAT, "%zu bytes that are no parameter of a map or reduce",
                       size_bytes);
    }
    const char *parts = (const char *)data + sizeof(*seen);
    const char *parameter = parts + seen->part_count * sizeof(gy_task_part);
    const char *hot = parameter + seen->parameter_bytes;
    const char *text = hot + seen->hot_bytes, *end = text + seen->text_bytes;
    *stage = (gy_task_stage){.parts = (const void *)parts,
                             .part_count = seen->part_count,
                             .options = {.phase = (gy_phase)seen->phase,
                                         .format = (gy_record_format)seen->format,
                                         .encoding = (gy_encoding)seen->encoding,
                                         .line_end = (gy_line_end)seen->line_end,
                                         .fold = (gy_mapreduce_fold)seen->fold,
                                         .order = (gy_reduce_order)seen->order,
                                         .is_counting = seen->is_counting,
                                         .has_reduce = seen->has_reduce,
                                         .is_map_only = seen->is_map_only,
                                         .delimiter = (char)seen->delimiter,
                                         .partitions = seen->partitions,
                                         .record_bytes = seen->record_bytes,
                                         .memory_bytes = seen->memory_bytes,
                                         .parameter = parameter,
                                         .parameter_bytes = seen->parameter_bytes,
                                         .hot_key_bytes = seen->hot_key_bytes,
                                         .hot = hot,
                                         .hot_bytes = seen->hot_bytes,
                                         .shares = seen->shares,
                                         .sides = seen->sides}};
    stage->options.combine = seen->has_combine ? take_text(&text, end) : NULL;
    stage->options.partition = seen->has_partition ? take_text(&text, end) : NULL;
    if ((seen->has_combine && stage->options.combine == NULL) ||
        (seen->has_partition && stage->options.partition == NULL)) {
        return gy_fail(GY_FORMAT, "a parameter of a map lacks the name of a function");
    }
    stage->paths = text;
    for (uint32_t i = 0; i < seen->part_count; i++) {
        if (take_text(&text, end) == NULL) {
            return gy_fail(GY_FORMAT, "a parameter of a map lacks the path of part %u", i);
        }
    }
    return GY_OK;
}
