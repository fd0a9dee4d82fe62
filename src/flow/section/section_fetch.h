/**
 * Sections that lie on another host: what is asked for, how it is found there, and how what
 * came is read here.
 *
 * A fetched file is the section's bytes, then a note of 48 bytes, then the note's size. The
 * note is written by the daemon that has the section, which has verified the table of the
 * producer's file; it names content and section, and has the sum of the bytes. Numbers are
 * little-endian.
 */
#ifndef GY_FLOW_SECTION_SECTION_FETCH_H
#define GY_FLOW_SECTION_SECTION_FETCH_H

#include "control/net/hooks.h"
#include "flow/section/section.h"

/** What a Fetch asks for; all but the path. */
enum { GY_SECTION_ASKED_BYTES = 56 };
void gy_section_ask(const gy_section_wanted *wanted, uint8_t asked[GY_SECTION_ASKED_BYTES]);
/** GY_FORMAT. `path` is borrowed. */
GY_MUST_CHECK gy_status gy_section_asked(const void *asked, size_t asked_bytes,
                                         const char *path, gy_section_wanted *wanted);

/** Names a section among those that a job has fetched to a host; all but the path. Another
 * attempt's has another name: what was found damaged is not taken again. @threads any */
gy_key gy_section_fetch_key(const gy_section_wanted *wanted);
enum { GY_FETCH_NAME_BYTES = 33 };
/** The file's name: 32 hex digits. */
const char *gy_section_fetch_name(const gy_section_wanted *wanted,
                                  char out[GY_FETCH_NAME_BYTES]);

/** gy_net_hooks.locate @threads any */
gy_status gy_section_locate(void *arg, const char *path, const void *asked, size_t asked_bytes,
                            gy_net_located *located);

/**
 * Open a fetched file. The note is compared with `wanted` (content, section, path; the owner
 * was compared where it lay), the bytes are not yet: gy_section_verify.
 *
 * @return as gy_section_open
 * @threads any
 */
GY_MUST_CHECK gy_status gy_section_open_fetched(const gy_section_wanted *wanted,
                                                gy_section *section, gy_section_sum *sum);

#endif
