find_package(PkgConfig REQUIRED)
pkg_check_modules(SECCOMP REQUIRED IMPORTED_TARGET libseccomp)
target_link_libraries(gy_worker PUBLIC PkgConfig::SECCOMP)
