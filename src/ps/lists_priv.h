/**
 * Inside room ps: key lists that are sent once. A client has some slots at each part: with a
 * request it says that its keys are to be kept in one, and later names the slot and the number
 * of what it put there in place of the keys. Numbers are never used again, and the client finds
 * a list by hash but compares it whole, so that no collision, made or by chance, names other
 * keys. What is in a slot stays until the client puts another list there or leaves.
 */
#ifndef GY_PS_LISTS_PRIV_H
#define GY_PS_LISTS_PRIV_H

#include "base/base.h"

enum {
    PS_LISTS = 8,          /* slots of a client at a part: 1 to 8 */
    PS_LIST_KEYS_MIN = 32, /* shorter lists are sent each time */
    PS_LIST_KEYS_MAX = 1 << 20,
};

/** What a message says of its keys. */
typedef struct ps_list_name {
    uint32_t slot; /* 0: the keys are not kept */
    uint64_t number;
    bool is_known; /* the keys are not sent */
} ps_list_name;

/* ---- At the client ---- */

typedef struct ps_own_list {
    uint64_t hash, number, used;
    uint64_t *keys; /* (count) a copy */
    size_t count;   /* 0: the slot is empty */
    bool is_kept;   /* the server has said so */
} ps_own_list;

/** Zero-initialise. */
typedef struct ps_own_lists {
    ps_own_list of[PS_LISTS];
    uint64_t number, turn;
} ps_own_lists;

/**
 * Name a list, which goes to a slot if it has none. `may_guess`: a list that the server has not
 * said to have is named, too, if it was sent; the request can be sent again.
 */
ps_list_name gy_ps_own_lists_name(ps_own_lists *lists, const uint64_t *keys, size_t count,
                                  bool may_guess);
/** The server has answered a request that had its keys. */
void gy_ps_own_lists_kept(ps_own_lists *lists, ps_list_name name, bool is_kept);
/** The server does not have it. */
void gy_ps_own_lists_forget(ps_own_lists *lists, ps_list_name name);
void gy_ps_own_lists_fini(ps_own_lists *lists);

/* ---- At the server ---- */

typedef struct ps_kept_list {
    uint64_t number;
    uint64_t *keys;
    size_t count, capacity;
} ps_kept_list;

/** Zero-initialise. */
typedef struct ps_kept_lists {
    ps_kept_list of[PS_LISTS];
} ps_kept_lists;

/** Keep keys in a slot, unless it has newer ones. `*total_bytes` counts the memory of all, at
 * most `bytes_max`. False: they are not kept. */
bool gy_ps_kept_lists_put(ps_kept_lists *lists, ps_list_name name, const uint64_t *keys,
                          size_t count, size_t *total_bytes, size_t bytes_max);
/** The (count) keys that a request names; NULL: they are not here. */
const uint64_t *gy_ps_kept_lists_find(const ps_kept_lists *lists, ps_list_name name,
                                      size_t count);
void gy_ps_kept_lists_fini(ps_kept_lists *lists, size_t *total_bytes);

#endif
