find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
find_package(EXPAT REQUIRED)
# Of libcurl the headers: it is loaded when something remote is reached for (remote/curl.c).
pkg_check_modules(CURL REQUIRED libcurl>=7.87)
# Of these, too: they are opened when a file is compressed so (base/lazy.h).
find_package(BZip2 REQUIRED)
pkg_check_modules(LZMA REQUIRED liblzma)
pkg_check_modules(LZ4 REQUIRED liblz4>=1.9)
target_include_directories(gy_store PRIVATE ${BZIP2_INCLUDE_DIR} ${LZMA_INCLUDE_DIRS} ${LZ4_INCLUDE_DIRS})
target_link_libraries(gy_store PUBLIC ZLIB::ZLIB PkgConfig::JANSSON PkgConfig::ZSTD EXPAT::EXPAT
    ${CMAKE_DL_LIBS})
target_include_directories(gy_store PRIVATE ${CURL_INCLUDE_DIRS})
