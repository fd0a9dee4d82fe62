find_package(ZLIB REQUIRED)
target_link_libraries(gy_train PUBLIC ZLIB::ZLIB)
