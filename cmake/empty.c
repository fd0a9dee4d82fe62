/* libgyre.so is made of the rooms' libraries; CMake wants one source of its own. */
extern int gyre_library_unit;
