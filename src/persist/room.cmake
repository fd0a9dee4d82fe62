find_package(PkgConfig REQUIRED)
# Of SQLite the headers: it is loaded when something of it is first called (table/sqlite_calls.c).
pkg_check_modules(SQLITE REQUIRED sqlite3)
