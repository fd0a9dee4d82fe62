/**
 * Records of the name server's table, as they are stored: the term, a job, a drained daemon;
 * records.def has their fields. Their keys keep them apart; each says its kind again.
 */
#ifndef GY_CONTROL_NAMES_RECORDS_H
#define GY_CONTROL_NAMES_RECORDS_H

#include "base/record.h"
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

#define GY_RECORDS "control/names/records.def"
#include "base/record.inc"

static_assert(sizeof(names_record_head_packed) == 16 &&
                  sizeof(names_record_number_packed) == 8 &&
                  sizeof(names_record_job_packed) == 24 + 24 + 128 + GY_CONTROL_REASON_BYTES,
              "a record of another size needs another NAMES_RECORD_VERSION");

#endif
