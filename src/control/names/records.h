/**
 * Records of the name server's table, as they are stored (this machine's byte order): the term,
 * a job, a drained daemon. Their keys keep them apart; each says its kind again.
 */
#ifndef GY_CONTROL_NAMES_RECORDS_H
#define GY_CONTROL_NAMES_RECORDS_H

#include "control/control.h"

#include <assert.h>

enum {
    NAMES_RECORD_VERSION = 2,
    NAMES_RECORD_FIRST = 1, /* that is read still: its job has so many bytes of reason less */
    NAMES_RECORD_FIRST_LESS = 128
};

/* Keys with this high half are the name server's own: low 0 the term, else a daemon. */
#define NAMES_OWN_KEY 0x7972652D6E616D65u

typedef enum names_record_kind { RECORD_TERM = 1, RECORD_JOB, RECORD_DAEMON } names_record_kind;

typedef struct names_record_head {
    uint32_t kind, version;
    uint64_t checksum; /* of what follows, with the kind */
} names_record_head;

typedef struct names_record_number {
    names_record_head head;
    uint64_t value; /* the term; of a daemon 1: drained */
} names_record_number;

typedef struct names_record_job {
    names_record_head head;
    gy_key spec;
    uint64_t platform;
    uint32_t epoch, attempts;
    uint16_t weight;
    uint8_t is_ahead; /* the epoch after `epoch` may be in use */
    uint8_t before;   /* is_forgotten: minus the status that it had ended with; 0: not known */
    uint32_t slots_max;
    int32_t status;
    uint8_t is_killed, is_ended, is_resumed, is_forgotten;
    char name[GY_CONTROL_TEXT_BYTES], label[GY_CONTROL_TEXT_BYTES];
    char reason[GY_CONTROL_REASON_BYTES];
} names_record_job;

static_assert(sizeof(names_record_head) == 16 && sizeof(names_record_number) == 24 &&
                  sizeof(names_record_job) == 16 + 24 + 24 + 128 + GY_CONTROL_REASON_BYTES,
              "records have no holes");

#endif
