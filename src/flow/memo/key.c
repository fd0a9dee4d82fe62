/* Keys of prototypes, and the program's build id. Real files only: stat, ELF notes. */
#include "flow/memo/key.h"
#include "flow/memo/near.h"
#include "flow/memo/places.h"

#include "base/lazy.h"
#include "base/text.h"
#include "store/remote/remote.h"
#include "store/store.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the program ---- */

typedef struct gy_build_walk {
    gy_text words;
    gy_status status;
} gy_build_walk;

static bool add_build_id(const struct dl_phdr_info *info, gy_text *words)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_NOTE) {
            continue;
        }
        const char *at = (const char *)(info->dlpi_addr + header->p_vaddr);
        const char *end = at + header->p_memsz;
        while ((size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
            ElfW(Nhdr) note;
            memcpy(&note, at, sizeof(note));
            const char *name = at + sizeof(note);
            const char *data = name + gy_round_up(note.n_namesz, 4);
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
                memcmp(name, "GNU", 4) == 0) {
                gy_text_add_bytes(words, data, note.n_descsz);
                return true;
            }
            at = data + gy_round_up(note.n_descsz, 4);
        }
    }
    return false;
}

/* True for the kernel's vdso and for libraries that are loaded on first use: they may be
 * loaded in one run and not in the next, so they are no part of the build id. */
static bool is_apart(const char *path)
{
    static const char *const late[] = {GY_LATE_ALL};
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    bool is_late = false;
    for (size_t i = 0; i < GY_COUNT(late); i++) {
        is_late = is_late || strcmp(name, late[i]) == 0;
    }
    return is_late || strncmp(path, "linux-vdso", 10) == 0;
}

static int add_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    gy_build_walk *walk = arg;
    const char *path = info->dlpi_name[0] != '\0' ? info->dlpi_name : "/proc/self/exe";
    if (is_apart(path) || add_build_id(info, &walk->words)) {
        return 0;
    }
    gy_mapping mapping;
    walk->status = gy_store_file_map(path, &mapping);
    if (walk->status < 0) {
        return 1;
    }
    const gy_key key = gy_key_of(mapping.data, mapping.size_bytes);
    gy_store_file_unmap(&mapping);
    gy_text_add_bytes(&walk->words, &key, sizeof(key));
    return 0;
}

gy_status gy_flow_key_build(gy_key *build)
{
    gy_build_walk walk = {0};
    (void)dl_iterate_phdr(add_object, &walk);
    const gy_status status = walk.status < 0 ? walk.status : walk.words.status;
    *build = status >= 0 ? gy_key_of(walk.words.data, walk.words.size_bytes) : (gy_key){0};
    gy_text_free(&walk.words);
    return status;
}

/* ---- input files from outside the graph ---- */

/* The number at the end of the text before `end`; NULL: there is none. Moves `end` before its
 * ':'. */
static const char *last_number(const char *text, const char *end, uint64_t *value)
{
    const char *at = end;
    while (at > text && at[-1] >= '0' && at[-1] <= '9') {
        at--;
    }
    if (at == end || end - at > 18 || at <= text + 1 || at[-1] != ':') {
        return NULL;
    }
    *value = 0;
    for (const char *digit = at; digit < end; digit++) {
        *value = *value * 10 + (uint64_t)(*digit - '0');
    }
    return at - 1;
}

/* Make the path without its numbers absolute. */
static gy_status take_path(const char *text, size_t length, gy_file_range *range)
{
    char name[sizeof(range->path)];
    gy_host_file file;
    if (length == 0 || length + 2 > sizeof(name)) {
        return gy_fail(GY_ARG, "the path of an input file has %zu bytes: expected 1 to %zu",
                       length, sizeof(name) - 2);
    }
    memcpy(name, text, length);
    name[length] = '\0';
    if (gy_uri_is_remote(name)) {
        range->is_object = true;
        memcpy(range->path, name, length + 1);
        for (char *at = range->path; *at != ':'; at++) {
            *at = (char)tolower((unsigned char)*at); /* lower case for the URI's scheme */
        }
        return GY_OK;
    }
    GY_TRY(gy_host_file_read(name, &file));
    memcpy(range->hosts, file.hosts, strlen(file.hosts) + 1);
    size_t used = 0;
    if (file.path[0] != '/') {
        if (getcwd(range->path, sizeof(range->path)) == NULL) {
            return gy_fail(GY_IO, "the current folder has no path: %s", strerror(errno));
        }
        used = strlen(range->path);
    }
    const size_t size = strlen(file.path);
    if (used + size + 2 > sizeof(range->path)) {
        return gy_fail(GY_ARG, "the path of an input file has %zu bytes: expected 1 to %zu",
                       used + size, sizeof(range->path) - 2);
    }
    if (used > 0) {
        range->path[used++] = '/';
    }
    memcpy(range->path + used, file.path, size + 1);
    return GY_OK;
}

/* Is a text that ends with two numbers nevertheless the name of a file or an object? `cut`:
 * the bytes before the numbers. */
static gy_status look_for_whole(const char *text, size_t cut, bool *is_whole)
{
    char name[sizeof(((gy_file_range *)0)->path)];
    *is_whole = false;
    if (cut + 1 > sizeof(name) || strlen(text) >= sizeof(name)) {
        return GY_OK;
    }
    if (gy_uri_is_remote(text)) {
        gy_place_facts facts;
        memcpy(name, text, cut);
        name[cut] = '\0';
        *is_whole = !gy_store_facts_are_known(name) &&
                    gy_store_facts_of(gy_env_real(), text, &facts) == GY_OK;
        return GY_OK;
    }
    gy_host_file file;
    struct stat about;
    GY_TRY(gy_host_file_read(text, &file));
    *is_whole = file.hosts[0] == '\0' && lstat(file.path, &about) == 0;
    return GY_OK;
}

gy_status gy_file_range_read(const char *text, gy_file_range *range)
{
    uint64_t size = UINT64_MAX, offset = 0;
    *range = (gy_file_range){.path = ""};
    const char *end = text + strlen(text);
    const char *before_size = last_number(text, end, &size);
    const char *before = before_size != NULL ? last_number(text, before_size, &offset) : NULL;
    bool is_whole = before == NULL;
    if (before != NULL && before[-1] == '/' && !gy_uri_is_remote(text)) {
        before--; /* "path/:offset:size": a file's name cannot end so */
    } else if (before != NULL) {
        GY_TRY(look_for_whole(text, (size_t)(before - text), &is_whole));
    }
    GY_TRY(take_path(text, (size_t)((is_whole ? end : before) - text), range));
    range->offset = is_whole ? 0 : offset;
    range->size_bytes = is_whole ? UINT64_MAX : size;
    return GY_OK;
}

static gy_status check_within(const char *text, const gy_file_range *range, uint64_t size)
{
    return range->offset > size ||
                   (range->size_bytes != UINT64_MAX && range->size_bytes > size - range->offset)
               ? gy_fail(GY_ARG, "%s has %llu bytes: the range %s is not within", range->path,
                         (unsigned long long)size, text)
               : GY_OK;
}

/* Add what stat knows of a file, as it was when the job was planned, without reading it. */
static gy_status identify(const char *text, const gy_file_range *range, gy_memo_file *file,
                          gy_stamp *stamp)
{
    GY_TRY(gy_stamp_of(range->path, stamp));
    const gy_disk_stamp *about = &stamp->disk;
    const uint64_t size = about->size_bytes;
    GY_TRY(check_within(text, range, size));
    *file = (gy_memo_file){.device = about->device,
                           .inode = about->inode,
                           .file_bytes = size,
                           .modified_ns = about->modified_ns,
                           .changed_ns = about->changed_ns,
                           .offset = range->offset,
                           .size_bytes = range->size_bytes == UINT64_MAX ? size - range->offset
                                                                         : range->size_bytes};
    return GY_OK;
}

enum { PIECE_BYTES = 1 << 20 };

/* Hash the hashes of a range's chunks. */
static gy_status read_content(const gy_file_range *range, const gy_memo_file *file,
                              const gy_stamp *stamp, gy_key *content)
{
    const int opened = open(range->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (opened < 0) {
        return gy_fail(GY_IO, "cannot read %s: %s", range->path, strerror(errno));
    }
    gy_text sums = {0};
    char *piece = gy_alloc("flow.content", PIECE_BYTES);
    gy_status status =
        piece != NULL ? gy_stamp_check(gy_env_real(), opened, range->path, stamp) : GY_NOMEM;
    uint64_t done = 0;
    while (status >= 0 && done < file->size_bytes) {
        const size_t wanted = (size_t)GY_MIN((uint64_t)PIECE_BYTES, file->size_bytes - done);
        size_t got = 0;
        ssize_t more = 1;
        while (got < wanted && more > 0) {
            more = pread(opened, piece + got, wanted - got, (off_t)(file->offset + done + got));
            got += more > 0 ? (size_t)more : 0;
        }
        if (got < wanted) {
            status = gy_fail(GY_IO, "cannot read %s at %llu: %s", range->path,
                             (unsigned long long)(file->offset + done + got),
                             more < 0 ? strerror(errno) : "it was truncated");
        }
        const gy_key sum = gy_key_of(piece, got);
        gy_text_add_bytes(&sums, &sum, sizeof(sum));
        done += got;
    }
    status = status < 0 ? status : sums.status;
    if (status >= 0) {
        status = gy_stamp_check(gy_env_real(), opened, range->path, stamp);
    }
    *content = gy_key_of(sums.size_bytes > 0 ? sums.data : "", sums.size_bytes);
    gy_text_free(&sums);
    gy_free(piece);
    (void)close(opened);
    return status;
}

/* A job on one machine reads files of its own host only. */
static gy_status check_own(const char *text, const char *hosts)
{
    char own[GY_HOST_FILE_NAME] = "";
    (void)gethostname(own, sizeof(own) - 1);
    return hosts[0] == '\0' || gy_flow_places_have(hosts, own)
               ? GY_OK
               : gy_fail(GY_ARG,
                         "%s is on another host than this one (%s): submit the job to a "
                         "cluster with a daemon there",
                         text, own);
}

/* Identify an object by its name, version and size, as the store reports them, without reading
 * it. */
static gy_status add_stored(gy_proto_keys *keys, const char *text, const gy_file_range *range,
                            gy_text *words, gy_object *object)
{
    gy_place_facts facts;
    GY_TRY(gy_store_facts_of(gy_env_real(), range->path, &facts));
    GY_TRY(check_within(text, range, facts.size_bytes));
    if (facts.version[0] == '\0') {
        return gy_fail(GY_UNSUPPORTED,
                       "%s: its server reports no version (ETag): a change would go unnoticed",
                       range->path);
    }
    const size_t size = strlen(facts.version) + 1;
    char *version = gy_arena_alloc(&keys->texts, size);
    if (version == NULL) {
        return GY_NOMEM;
    }
    *object = (gy_object){.version = memcpy(version, facts.version, size),
                          .total_bytes = facts.size_bytes};
    const uint64_t numbers[] = {range->offset, range->size_bytes, facts.size_bytes};
    gy_text_add_bytes(words, range->path, strlen(range->path) + 1);
    gy_text_add_bytes(words, version, size);
    gy_text_add_bytes(words, numbers, sizeof(numbers));
    return words->status;
}

/* `*stamp` stays zero for a file that only other hosts read. */
static gy_status add_file(gy_proto_keys *keys, const char *text, const gy_file_range *range,
                          gy_text *words, uint32_t at, gy_stamp *stamp)
{
    gy_memo_file file = {0};
    int64_t *bytes = &keys->bytes[at];
    if (keys->is_over_hosts && range->hosts[0] != '\0') {
        /* Every manager must compute the same key, on whatever host it runs. */
        *bytes += range->size_bytes != UINT64_MAX ? (int64_t)range->size_bytes : 0;
        gy_text_add_bytes(words, text, strlen(text) + 1);
        return GY_OK;
    }
    GY_TRY(check_own(text, range->hosts));
    GY_TRY(identify(text, range, &file, stamp));
    if (keys->is_over_hosts) {
        file.device = 0; /* device numbers differ between hosts */
    }
    *bytes += (int64_t)file.size_bytes;
    if (keys->memo == NULL) {
        gy_text_add_bytes(words, &file, sizeof(file));
        gy_text_add_bytes(words, range->path, strlen(range->path));
        return GY_OK;
    }
    gy_key content;
    if (!gy_flow_memo_content(keys->memo, &file, &content)) {
        GY_TRY(read_content(range, &file, stamp, &content));
        GY_TRY(gy_flow_memo_tell_content(keys->memo, &file, content));
    }
    gy_text_add_bytes(words, &content, sizeof(content));
    return GY_OK;
}

/* ---- prototypes ---- */

static void add_text(gy_text *words, const char *text)
{
    gy_text_add_bytes(words, text, strlen(text) + 1);
}

static size_t count_files(const gy_proto *proto)
{
    size_t count = 0;
    while (proto->files != NULL && proto->files[count] != NULL) {
        count++;
    }
    return count;
}

/* Allocate zeroed rows, one for each of the prototype's files. */
static void *make_rows(gy_proto_keys *keys, const gy_proto *proto, size_t row_bytes)
{
    const size_t size = count_files(proto) * row_bytes;
    void *rows = gy_arena_alloc(&keys->texts, size);
    if (rows != NULL) {
        memset(rows, 0, size);
    }
    return rows;
}

/* Add a file or an object. `rows` (one for each file) describes objects and is allocated when
 * the first object comes. */
static gy_status add_input(gy_proto_keys *keys, const gy_proto *proto, size_t index,
                           gy_text *words, uint32_t at)
{
    const char *text = proto->files[index];
    gy_file_range range;
    GY_TRY(gy_file_range_read(text, &range));
    if (!range.is_object) {
        gy_stamp *stamps = (gy_stamp *)(uintptr_t)keys->stamps[at];
        return add_file(keys, text, &range, words, at, &stamps[index]);
    }
    if (proto->function == NULL) {
        return gy_fail(GY_UNSUPPORTED,
                       "%s: a command reads files of its folder, not objects: copy it to a "
                       "file first (gyre store cp)",
                       text);
    }
    gy_object *rows = (gy_object *)(uintptr_t)keys->objects[at];
    if (rows == NULL) {
        rows = make_rows(keys, proto, sizeof(*rows));
        if (rows == NULL) {
            return GY_NOMEM;
        }
        keys->objects[at] = rows;
    }
    GY_TRY(add_stored(keys, text, &range, words, &rows[index]));
    keys->bytes[at] +=
        (int64_t)(range.size_bytes != UINT64_MAX ? range.size_bytes
                                                 : rows[index].total_bytes - range.offset);
    return GY_OK;
}

static gy_status describe(gy_proto_keys *keys, const gy_dag *dag, uint32_t at, gy_text *words)
{
    const gy_proto *proto = &dag->protos[at];
    const int64_t numbers[] = {proto->inputs,
                               proto->outputs,
                               proto->ranks,
                               proto->hosts,
                               proto->determinism,
                               (int64_t)proto->memory_bytes,
                               (int64_t)proto->parameter_bytes};
    gy_text_add_bytes(words, &keys->build, sizeof(keys->build));
    gy_text_add_bytes(words, numbers, sizeof(numbers));
    add_text(words, dag->stages[proto->stage].name);
    add_text(words, proto->function != NULL ? proto->function : "");
    if (proto->parameter_bytes > 0) {
        gy_text_add_bytes(words, proto->parameter, proto->parameter_bytes);
    }
    for (size_t i = 0; proto->command != NULL && proto->command[i] != NULL; i++) {
        add_text(words, proto->command[i]);
    }
    keys->bytes[at] = 0;
    keys->objects[at] = NULL;
    keys->stamps[at] = count_files(proto) > 0 ? make_rows(keys, proto, sizeof(gy_stamp)) : NULL;
    if (count_files(proto) > 0 && keys->stamps[at] == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; proto->files != NULL && proto->files[i] != NULL; i++) {
        gy_status status = add_input(keys, proto, i, words, at);
        if (status < 0) {
            return gy_fail_within(status, "%s[%u]", dag->stages[proto->stage].name,
                                  proto->base);
        }
    }
    return words->status;
}

static gy_status reserve(gy_proto_keys *keys, size_t count)
{
    GY_TRY(GY_GROW("flow.keys", keys->keys, keys->keys_capacity, count));
    GY_TRY(GY_GROW("flow.keys", keys->bases, keys->bases_capacity, count));
    GY_TRY(GY_GROW("flow.keys", keys->bytes, keys->bytes_capacity, count));
    GY_TRY(GY_GROW("flow.keys", keys->places, keys->places_capacity, count));
    GY_TRY(GY_GROW("flow.keys", keys->objects, keys->objects_capacity, count));
    GY_TRY(GY_GROW("flow.keys", keys->stamps, keys->stamps_capacity, count));
    return GY_GROW("flow.keys", keys->equal, keys->equal_capacity, count);
}

/* Count in *which the prototypes before it that have its base. */
static gy_status count_equal(gy_proto_keys *keys, uint32_t proto, uint64_t *which)
{
    const uint32_t first = gy_index_find(&keys->firsts, keys->bases[proto]);
    keys->equal[proto] = 0;
    *which = first == GY_NONE ? 0 : ++keys->equal[first];
    return first == GY_NONE ? gy_index_put(&keys->firsts, keys->bases[proto], proto) : GY_OK;
}

gy_status gy_proto_keys_make(gy_proto_keys *keys, const gy_dag *dag)
{
    GY_TRY(reserve(keys, dag->proto_count + 1));
    gy_text words = {0};
    gy_near near = {.env = gy_env_real()};
    gy_status status = GY_OK;
    for (size_t p = keys->count; status >= 0 && p < dag->proto_count; p++) {
        words.size_bytes = 0;
        status = describe(keys, dag, (uint32_t)p, &words);
        keys->places[p] = (gy_proto_places){.hosts = NULL};
        if (status >= 0 && keys->is_over_hosts) {
            status = gy_flow_places_find(dag, (uint32_t)p, &keys->texts, &keys->places[p]);
            if (status >= 0 && keys->places[p].hosts == NULL && keys->objects[p] != NULL) {
                status = gy_objects_near(&near, &dag->protos[p], &keys->texts,
                                         &keys->places[p].hosts);
            }
        }
        if (status >= 0) {
            const gy_key base = keys->bases[p] = gy_key_of(words.data, words.size_bytes);
            uint64_t key[3] = {base.high, base.low, 0};
            status = count_equal(keys, (uint32_t)p, &key[2]);
            keys->keys[p] = gy_key_of(key, sizeof(key));
            keys->count = p + (status >= 0);
        }
    }
    gy_text_free(&words);
    return status;
}

void gy_proto_keys_fini(gy_proto_keys *keys)
{
    gy_free(keys->keys);
    gy_free(keys->bases);
    gy_free(keys->bytes);
    gy_index_free(&keys->firsts);
    gy_free(keys->equal);
    gy_free(keys->places);
    gy_free((void *)(uintptr_t)keys->objects);
    gy_free((void *)(uintptr_t)keys->stamps);
    gy_arena_free(&keys->texts);
    *keys = (gy_proto_keys){0};
}

void gy_proto_keys_tell(void *arg, const gy_dag *dag, uint32_t proto, gy_key *key,
                        bool *is_kept, int64_t *bytes)
{
    const gy_proto_keys *keys = arg;
    GY_ASSERT(proto < keys->count);
    *key = keys->keys[proto];
    /* the content of a file on another host is unknown here */
    *is_kept = (dag->protos[proto].command == NULL || dag->protos[proto].files != NULL) &&
               !keys->places[proto].is_pinned;
    *bytes = keys->bytes[proto];
}

const char *gy_proto_keys_places(void *arg, const gy_dag *dag, uint32_t proto, bool *is_pinned)
{
    const gy_proto_keys *keys = arg;
    (void)dag;
    GY_ASSERT(proto < keys->count);
    *is_pinned = keys->places[proto].is_pinned;
    return keys->places[proto].hosts;
}
