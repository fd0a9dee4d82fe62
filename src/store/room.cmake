find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
target_link_libraries(gy_store PUBLIC ZLIB::ZLIB PkgConfig::JANSSON)
