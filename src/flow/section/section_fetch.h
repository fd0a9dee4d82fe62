/**
 * Sections on another host: the request, how its host finds the section, and how the fetched
 * file is read here.
 *
 * A fetched file is the section's bytes, then a note of 48 bytes, then the note's size. The
 * daemon that has the section verifies the table of the producer's file and then writes the
 * note, which names content and section and has the checksum of the bytes. Numbers are
 * little-endian.
 */
#ifndef GY_FLOW_SECTION_SECTION_FETCH_H
#define GY_FLOW_SECTION_SECTION_FETCH_H

#include "control/net/hooks.h"
#include "flow/section/section.h"

/** Size of a fetch request without the path. */
enum { GY_SECTION_ASKED_BYTES = 56 };
void gy_section_ask(const gy_section_wanted *wanted, uint8_t asked[GY_SECTION_ASKED_BYTES]);
/** Decode a request. GY_FORMAT. `path` is borrowed. */
GY_MUST_CHECK gy_status gy_section_asked(const void *asked, size_t asked_bytes,
                                         const char *path, gy_section_wanted *wanted);

/** Key of a section among those that a job has fetched to a host; excludes the path. Another
 * attempt's section has another key, so a damaged file is not used again. @threads any */
gy_key gy_section_fetch_key(const gy_section_wanted *wanted);
enum { GY_FETCH_NAME_BYTES = 33 };
/** The file's name: 32 hex digits. */
const char *gy_section_fetch_name(const gy_section_wanted *wanted,
                                  char out[GY_FETCH_NAME_BYTES]);

/** gy_net_hooks.locate @threads any */
gy_status gy_section_locate(void *arg, const char *path, const void *asked, size_t asked_bytes,
                            gy_net_located *located);

/**
 * Open a fetched file. The note is checked against `wanted` (content, section, path; the
 * sending daemon checked the owner); gy_section_verify checks the bytes.
 *
 * @return as gy_section_open
 * @threads any
 */
GY_MUST_CHECK gy_status gy_section_open_fetched(const gy_section_wanted *wanted,
                                                gy_section *section, gy_section_sum *sum);

#endif
