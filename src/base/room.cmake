# Of OpenSSL the headers: it is loaded when something of it is first called (openssl.c).
find_package(OpenSSL 3.0 REQUIRED)
target_include_directories(gy_base PUBLIC ${OPENSSL_INCLUDE_DIR})
