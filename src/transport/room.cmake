find_package(OpenSSL 3.0 REQUIRED)
target_link_libraries(gy_transport PUBLIC OpenSSL::SSL OpenSSL::Crypto)
