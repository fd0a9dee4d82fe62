# Sources of a room again, with bugs that can be switched on: objects that stand before the room's. Whoever asks first for a
# folder makes them, so that tests share what is the same.
function(gyre_planted name room)
    foreach(folder IN LISTS ARGN)
        set(objects planted_${room}_${folder})
        if(NOT TARGET ${objects})
            file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${room}/${folder}/*.c)
            list(FILTER sources EXCLUDE REGEX "_test\\.c$")
            add_library(${objects} OBJECT EXCLUDE_FROM_ALL ${sources}) # with whoever needs them
            target_link_libraries(${objects} PRIVATE gy_${room})
            target_compile_definitions(${objects} PRIVATE GYRE_PLANTED=1)
        endif()
        target_sources(${name} PRIVATE $<TARGET_OBJECTS:${objects}>)
    endforeach()
    target_compile_definitions(${name} PRIVATE GYRE_PLANTED=1)
endfunction()
