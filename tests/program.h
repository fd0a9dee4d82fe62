/**
 * Included before each test: its main() gets a name of its own, as one program holds the tests
 * of a folder (tests/program.c).
 */
#ifndef GY_PROGRAM_H
#define GY_PROGRAM_H

/* NOLINTNEXTLINE(readability-identifier-naming) */
#define main(...)                                                                              \
    GYRE_TEST_MAIN(__VA_ARGS__);                                                               \
    int GYRE_TEST_MAIN(__VA_ARGS__)

#endif
