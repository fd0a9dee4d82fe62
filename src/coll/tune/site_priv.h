/**
 * Inside room coll: where a communicator's ranks are and what was measured there (a site), and
 * which algorithm a call takes on it. Alike on all ranks of a communicator.
 */
#ifndef GY_COLL_TUNE_SITE_PRIV_H
#define GY_COLL_TUNE_SITE_PRIV_H

#include "coll/coll.h"

/** The kinds of memory that a call's bytes go through. */
typedef enum gy_memory {
    GY_MEMORY_PRIVATE, /* of ranks that share other memory */
    GY_MEMORY_REGISTERED,
    GY_MEMORY_MESSAGES, /* of ranks that share none */
    GY_MEMORY_COUNT
} gy_memory;

/** Element types that combine at one speed. */
typedef enum gy_type_class { GY_TYPE_PLAIN, GY_TYPE_HALF, GY_TYPE_CLASSES } gy_type_class;

typedef enum gy_link_class {
    GY_LINK_WORD,   /* a post seen by a peer: alpha alone */
    GY_LINK_STAGED, /* a peer's staging */
    GY_LINK_DIRECT, /* a peer's registered memory */
    GY_LINK_RING,   /* messages through shared memory */
    GY_LINK_LOOPBACK,
    GY_LINK_FAR, /* messages between hosts */
    GY_LINK_CLASSES
} gy_link_class;

typedef struct gy_link_figures {
    double alpha, beta; /* s, s per byte */
    bool is_measured;
} gy_link_figures;

/** From so many bytes on, until the next rule of its kind. */
typedef struct gy_rule {
    gy_operation operation;
    gy_type_class type;
    gy_memory memory;
    int ranks, hosts;
    int64_t from_bytes; /* of the whole vector */
    const gy_algorithm *row;
    char parameter[GY_PLAN_PARAMETER];
    double seconds; /* measured at the first size that it won */
    int line;       /* of the file */
} gy_rule;

/** The rules of one kind, by their sizes. */
typedef struct gy_rules {
    const gy_rule *first;
    size_t count;
} gy_rules;

enum { GY_MACHINE_BYTES = 200, GY_RULES_MAX = 8192, GY_TABLE_BYTES_MAX = 1 << 20 };

/** What `gyre tune` wrote. */
typedef struct gy_tuning {
    char machine[GY_MACHINE_BYTES]; /* where it was measured */
    gy_link_figures links[GY_LINK_CLASSES];
    double gamma[GY_TYPE_CLASSES]; /* s per byte combined; 0: not measured */
    gy_rule *rules;                /* sorted: those of one kind follow each other */
    size_t count, capacity;
    uint32_t hash; /* of all that is above */
    char *path;    /* NULL: not from a file */
} gy_tuning;

/** Names that GYRE_COLL forces. */
typedef struct gy_forced {
    const char *names[GY_OPERATION_COUNT]; /* NULL: chosen */
    char *text;
    uint32_t hash; /* 0: nothing is forced */
} gy_forced;

typedef enum gy_reason {
    GY_REASON_NONE, /* there is no algorithm */
    GY_REASON_FORCED,
    GY_REASON_MEASURED,
    GY_REASON_BUILT_IN,
    GY_REASON_MODEL,
    GY_REASON_ONLY, /* the first one that keeps the order */
} gy_reason;

typedef struct gy_pick {
    const gy_algorithm *row;
    char parameter[GY_PLAN_PARAMETER];
    gy_reason reason;
    double seconds; /* measured near this size, or predicted; 0: not known */
} gy_pick;

/** What a pick depends on, beside the site. */
typedef struct gy_need_of {
    gy_operation operation;
    gy_plan_order order; /* that a reduction needs */
    gy_type_class type;
    gy_memory memory;
    bool is_known;     /* all ranks know all counts */
    bool is_told;      /* all ranks know the longest part: enough for staging */
    bool fits_library; /* that started the ranks, where there is one */
    int64_t bytes;     /* of the whole vector */
} gy_need_of;

typedef struct gy_site {
    int ranks;
    bool has_shared;         /* all ranks share memory */
    bool is_crowded;         /* they have fewer cores than they are */
    int loop_cores;          /* all are on one host and reach each other by its loopback: cores,
                                if fewer than ranks; else 0 */
    gy_link_class near;      /* messages inside a host */
    gy_topology hosts;       /* hosts.hosts 1: host_of is NULL */
    size_t region_bytes;     /* staging of a channel */
    const gy_tuning *tuning; /* NULL: built-in figures */
    const gy_forced *forced; /* NULL: nothing */
    int32_t *host_of;        /* the site's own */
    int32_t *stage_slots;    /* (algorithms) how many each uses here; 0 not known yet */
    gy_rules rules[GY_OPERATION_COUNT][GY_TYPE_CLASSES][GY_MEMORY_COUNT];
    uint64_t told[GY_OPERATION_COUNT]; /* powers of two of bytes that were logged */
} gy_site;

/* site.c */
/** Ranks on `hosts` hosts (host_of NULL: on one); the table may change what links cost.
 * GY_NOMEM */
GY_MUST_CHECK gy_status gy_site_init(gy_site *site, int ranks, const int32_t *host_of,
                                     const gy_tuning *tuning);
void gy_site_fini(gy_site *site);
/** The topology for plan requests; NULL: one host. */
static inline const gy_topology *gy_site_topology(const gy_site *site)
{
    GY_ASSERT(site->hosts.hosts >= 1);
    return site->hosts.hosts > 1 ? &site->hosts : NULL;
}
/** What links cost an algorithm here. */
gy_links gy_site_links(const gy_site *site, gy_need need, gy_type_class type);
/** Can the algorithm carry out what is needed, here? */
bool gy_site_allows(const gy_site *site, const gy_need_of *need, const gy_algorithm *row);
/** Does taking the row instead of another one leave every bit as it is? Asked of ranks that
 * share memory: all that they fold is the left fold by rank, halves in float32. */
bool gy_row_keeps_bits(const gy_algorithm *row);
/** Which algorithm; reason NONE: there is none that keeps the order. GY_NOMEM */
GY_MUST_CHECK gy_status gy_site_pick(gy_site *site, const gy_need_of *need, gy_pick *pick);
/** "staged", "hierarchy:tree+ring" */
const char *gy_pick_name(const gy_pick *pick, char out[64]);
/** "measured, 12 us" */
const char *gy_pick_why(const gy_pick *pick, char out[64]);
/** Without a table or a name: by messages between ranks of one host. */
const char *gy_site_message_name(gy_operation operation, int64_t bytes);

/** The row of that name, a plan's or the library's; NULL: there is none. */
const gy_algorithm *gy_row_find(gy_operation operation, const char *name);
/** As gy_algorithm_parse. */
GY_MUST_CHECK gy_status gy_row_parse(gy_operation operation, const char *text,
                                     const gy_algorithm **row,
                                     char parameter[GY_PLAN_PARAMETER]);
/** What the library that started the ranks calls its own; NULL: it has none. */
const gy_algorithm *gy_library_row(gy_operation operation);

/* predict.c */
/** The cheapest of all that are possible, by the model; reason NONE: none could be priced. */
GY_MUST_CHECK gy_status gy_site_predict(gy_site *site, const gy_need_of *need, gy_pick *pick);
/** The possible algorithms, up to `most`; how many. `try` of them at a time. */
int gy_site_candidates(const gy_site *site, const gy_need_of *need, gy_pick *picks, int most);
/** What the model says that one takes; INFINITY: too long a plan. */
GY_MUST_CHECK gy_status gy_site_price(gy_site *site, const gy_need_of *need,
                                      const gy_pick *pick, double *seconds);

/* cut.c */
/** How a vector goes in pieces. */
typedef struct gy_pieces {
    int chunks;        /* of one leg */
    int64_t leg, legs; /* elements (of each part) */
} gy_pieces;
/** `count` elements (of each part) of so many bytes. */
GY_MUST_CHECK gy_status gy_site_cut(gy_site *site, const gy_pick *pick, int64_t count,
                                    int64_t element_bytes, gy_pieces *pieces);
/** Bytes that a block may have. */
GY_MUST_CHECK gy_status gy_site_chunk_bytes(gy_site *site, const gy_algorithm *row,
                                            int64_t *bytes);

/* forced.c */
/** GY_ARG lists the names there are. NULL is fine. */
GY_MUST_CHECK gy_status gy_forced_parse(const char *text, gy_forced *forced);
void gy_forced_fini(gy_forced *forced);
/** GYRE_COLL's. */
GY_MUST_CHECK gy_status gy_forced_from_environment(gy_forced *forced);

/* table.c */
/** Read a table's text; `path` stands in messages. GY_FORMAT names the line; GY_NOMEM */
GY_MUST_CHECK gy_status gy_tuning_parse(const char *text, size_t size_bytes, const char *path,
                                        gy_tuning *tuning);
void gy_tuning_print(const gy_tuning *tuning, gy_text *out);
GY_MUST_CHECK gy_status gy_tuning_add(gy_tuning *tuning, const gy_rule *rule);
/** Sort the rules, hash all. GY_FORMAT two rules are of one kind and size; GY_NOMEM */
GY_MUST_CHECK gy_status gy_tuning_seal(gy_tuning *tuning);
void gy_tuning_fini(gy_tuning *tuning);
/** Those of a kind (its operation, type, memory) that were measured with so many ranks, or, on
 * one host, with up to twice or half as many. */
gy_rules gy_tuning_select(const gy_tuning *tuning, const gy_rule *kind, int ranks, int hosts);
/** The one for a size; NULL where there are none. */
const gy_rule *gy_rules_find(gy_rules rules, int64_t bytes);
const char *gy_memory_name(gy_memory memory);
const char *gy_type_name(gy_type_class type);
const char *gy_link_name(gy_link_class link);

/* show.c */
/** What links cost, for people. */
void gy_tuning_show_links(const gy_tuning *tuning, gy_text *out);

/* file.c */
/** This machine, as tables name it. */
const char *gy_machine_text(char out[GY_MACHINE_BYTES]);
/** The file that is read without a name. GY_ARG no home is known. */
GY_MUST_CHECK gy_status gy_tuning_path(char *out, size_t size_bytes);
/** GYRE_TUNE, unless it is "none"; NULL. */
const char *gy_tuning_named(void);
/**
 * The table at `name`; NULL: GYRE_TUNE's, else the usual file where there is one and it is of
 * this machine (`tells`: else warns). *tuning becomes NULL where there is none.
 * @return GY_OK; GY_ARG, GY_FORMAT, GY_IO, GY_NOTFOUND
 */
GY_MUST_CHECK gy_status gy_tuning_open(const char *name, gy_env *env, bool tells,
                                       gy_tuning **tuning);
GY_MUST_CHECK gy_status gy_tuning_read(const char *path, gy_env *env, gy_tuning **tuning);
/** Whole or not at all. */
GY_MUST_CHECK gy_status gy_tuning_write(const gy_tuning *tuning, const char *path, gy_env *env);
void gy_tuning_free(gy_tuning *tuning);

#endif
