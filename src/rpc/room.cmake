find_package(PkgConfig REQUIRED)
pkg_check_modules(UV REQUIRED IMPORTED_TARGET libuv)
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
find_program(PROTOC_C protoc-c REQUIRED)
target_link_libraries(gy_rpc PUBLIC PkgConfig::UV PkgConfig::PROTOBUF_C PkgConfig::ZSTD)

# Code for the messages of a room, made in the build folder: "rpc/proto/rpc.pb-c.h". It is not
# ours to warn about.
function(gyre_proto room)
    set(folder ${CMAKE_BINARY_DIR}/proto/${room}/proto)
    foreach(name IN LISTS ARGN)
        set(source ${CMAKE_SOURCE_DIR}/src/${room}/proto/${name}.proto)
        set(made ${folder}/${name}.pb-c.c ${folder}/${name}.pb-c.h)
        file(MAKE_DIRECTORY ${folder})
        add_custom_command(OUTPUT ${made} VERBATIM
            COMMAND ${PROTOC_C} --proto_path=${CMAKE_SOURCE_DIR}/src/${room}/proto --c_out=${folder} ${source}
            DEPENDS ${source})
        target_sources(gy_${room} PRIVATE ${made})
        set_source_files_properties(${folder}/${name}.pb-c.c PROPERTIES COMPILE_OPTIONS "-w")
    endforeach()
    target_include_directories(gy_${room} SYSTEM PUBLIC ${CMAKE_BINARY_DIR}/proto)
endfunction()
gyre_proto(rpc rpc)
