/* Stores a journal's objects in a place (S3, HDFS, files by URI), and checks the guarantees
 * that a place must give. */
#include "persist/journal/journal_priv.h"
#include "store/remote/remote.h"

#include <stdio.h>
#include <string.h>

/* The driver waits for an object as long as for a sync; a longer wait is a failure. */
static const gy_place_options patience = {.patience_s = 20};

bool gy_journal_is_place(const char *folder)
{
    return gy_uri_is_remote(folder) || gy_uri_is_file(folder);
}

gy_status gy_journal_suits(gy_env *env, const char *folder)
{
    gy_place_guarantees guarantees = {.is_exclusive = false};
    if (gy_journal_is_place(folder)) {
        gy_place *place = NULL;
        GY_TRY(gy_place_open(env, folder, &patience, &place));
        gy_status status = gy_place_guarantee(place, &guarantees);
        gy_place_close(place);
        GY_TRY(status);
    } else {
        gy_share share;
        GY_TRY(gy_uri_check_new(folder));
        GY_TRY(gy_share_look(folder, &share));
        guarantees.is_exclusive = share.is_exclusive;
        snprintf(guarantees.reason, sizeof(guarantees.reason),
                 "its file system (%s) is not known to create files exclusively", share.name);
    }
    return guarantees.is_exclusive
               ? GY_OK
               : gy_fail(GY_UNSUPPORTED,
                         "%s cannot hold the journal of a job whose manager may "
                         "be replaced: %s",
                         folder, guarantees.reason);
}

static gy_status open_object(const gy_journal_place *at, const char *name, gy_place **place)
{
    char uri[GY_URI_BYTES];
    const size_t size = strlen(at->uri);
    const bool has_slash = size > 0 && at->uri[size - 1] == '/';
    if (snprintf(uri, sizeof(uri), "%s%s%s", at->uri, has_slash ? "" : "/", name) >=
        (int)sizeof(uri)) {
        return gy_fail(GY_ARG, "the place %.100s... has too long a name", at->uri);
    }
    return gy_place_open(at->env, uri, &patience, place);
}

static gy_status place_create(void *arg, const char *name, const void *data, size_t size_bytes)
{
    gy_place *place = NULL;
    GY_TRY(open_object(arg, name, &place));
    gy_status status = gy_place_write(place, GY_PLACE_NEW, data, size_bytes);
    gy_place_close(place);
    return status;
}

static gy_status place_read(void *arg, const char *name, void *data, size_t room,
                            size_t *size_bytes)
{
    gy_place *place = NULL;
    gy_place_facts facts = {.size_bytes = 0};
    GY_TRY(open_object(arg, name, &place));
    gy_status status = gy_place_stat(place, &facts);
    if (status == GY_OK && facts.size_bytes > room) {
        status = gy_fail(GY_LIMIT, "%s has %llu bytes, expected at most %zu",
                         gy_place_uri(place), (unsigned long long)facts.size_bytes, room);
    }
    *size_bytes = (size_t)facts.size_bytes;
    if (status == GY_OK && facts.size_bytes > 0) {
        status =
            gy_place_read(place, facts.version, 0, data, (size_t)facts.size_bytes, size_bytes);
    }
    gy_place_close(place);
    return status;
}

typedef struct visitor {
    gy_status (*visit)(void *to, const char *name);
    void *to;
} visitor;

static gy_status visit_entry(void *arg, const gy_place_entry *entry)
{
    const visitor *at = arg;
    return at->visit(at->to, entry->name);
}

static gy_status place_list(void *arg, gy_status (*visit)(void *to, const char *name), void *to)
{
    gy_place *place = NULL;
    visitor at = {visit, to};
    GY_TRY(open_object(arg, "", &place));
    gy_status status = gy_place_list(place, visit_entry, &at);
    gy_place_close(place);
    return status == GY_NOTFOUND ? GY_OK : status; /* a prefix without objects */
}

static gy_status place_remove(void *arg, const char *name)
{
    gy_place *place = NULL;
    GY_TRY(open_object(arg, name, &place));
    gy_status status = gy_place_remove(place);
    gy_place_close(place);
    return status;
}

gy_journal_store gy_journal_store_of(gy_journal_place *place)
{
    return (gy_journal_store){.create = place_create,
                              .read = place_read,
                              .list = place_list,
                              .remove = place_remove,
                              .arg = place};
}
