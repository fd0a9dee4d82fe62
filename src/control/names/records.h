/**
 * Records of the name server's table, as they are stored (this machine's byte order): the term,
 * a job, a drained daemon. Their keys distinguish them; each also contains its kind.
 */
#ifndef GY_CONTROL_NAMES_RECORDS_H
#define GY_CONTROL_NAMES_RECORDS_H

#include "base/record.h"
#include "control/control.h"

#include <assert.h>

enum {
    NAMES_RECORD_VERSION = 2,
    NAMES_RECORD_FIRST = 1, /* still readable: its job's reason is shorter by so many bytes */
    NAMES_RECORD_FIRST_LESS = 128
};

/* Keys with this high half belong to the name server: low 0 is the term, else a daemon. */
#define NAMES_OWN_KEY 0x7972652D6E616D65u

typedef enum names_record_kind { RECORD_TERM = 1, RECORD_JOB, RECORD_DAEMON } names_record_kind;

#define GY_RECORDS "control/names/records.def"
#include "base/record.inc"

static_assert(sizeof(names_record_head_packed) == 16 &&
                  sizeof(names_record_number_packed) == 8 &&
                  sizeof(names_record_job_packed) == 24 + 24 + 128 + GY_CONTROL_REASON_BYTES,
              "a record of another size needs another NAMES_RECORD_VERSION");

#endif
