/* Whose fault it is, in words of the mesh: rooms below know ranks alone, and a user who cut a
 * model into stages asks which of them is lost. */
#include "graph/graph.h"

#include "coll/coll.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The place along `pipe` of what room coll calls rank `number`; -1: it has none. */
static int place_of(const gy_mesh *mesh, long number)
{
    const int ranks = gy_comm_size(mesh->whole);
    GY_ASSERT(mesh->stage_apart >= 1);
    for (int rank = 0; rank < ranks; rank++) {
        if (gy_comm_launch_rank(mesh->whole, rank) == number) {
            return rank / mesh->stage_apart % mesh->stages;
        }
    }
    return -1;
}

/* " of stage 1", " of stages 1, 3" */
static void add_stages(const gy_mesh *mesh, int place, gy_text *text)
{
    const int stages = gy_mesh_stages(mesh);
    GY_ASSERT(place >= 0 && place < mesh->stages);
    gy_text_add(text, stages > mesh->stages ? " of stages " : " of stage ");
    for (int stage = place; stage < stages; stage += mesh->stages) {
        GY_ASSERT(gy_mesh_stage_rank(mesh, stage) == place);
        gy_text_add(text, "%s%d", stage > place ? ", " : "", stage);
    }
}

gy_status gy_mesh_name_stages(const gy_mesh *mesh, gy_status status)
{
    static const char word[] = "rank ", done[] = " of stage";
    if ((status != GY_PEER && status != GY_TIMEOUT) || mesh == NULL || mesh->stages < 2 ||
        mesh->whole == NULL) {
        return status;
    }
    gy_error error;
    gy_text text = {.data = NULL};
    gy_error_take(&error, status);
    GY_ASSERT(memchr(error.text, '\0', sizeof(error.text)) != NULL);
    const char *at = error.text;
    for (const char *found = strstr(at, word); found != NULL; found = strstr(at, word)) {
        const char *digits = found + strlen(word);
        char *end = (char *)(uintptr_t)digits;
        const bool is_whole = found == error.text || !isalnum((unsigned char)found[-1]);
        const long number =
            is_whole && isdigit((unsigned char)*digits) ? strtol(digits, &end, 10) : -1;
        const int place = number >= 0 ? place_of(mesh, number) : -1;
        GY_ASSERT(end >= digits && digits > at);
        gy_text_add_bytes(&text, at, (size_t)(end - at));
        if (place >= 0 && strncmp(end, done, strlen(done)) != 0) {
            add_stages(mesh, place, &text);
        }
        at = end;
    }
    gy_text_add(&text, "%s", at);
    if (text.status < 0) { /* the words as they were */
        gy_text_free(&text);
        return gy_error_raise(&error);
    }
    return gy_fail(status, "%s", gy_text_move(&text, error.text, sizeof(error.text)));
}
