find_package(PkgConfig REQUIRED)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
target_link_libraries(gy_cluster PUBLIC PkgConfig::SQLITE)
gyre_proto(cluster cluster)
