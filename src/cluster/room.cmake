find_package(PkgConfig REQUIRED)
# Of libmicrohttpd the headers, which lie with the system's: it is loaded when a status page is asked for (page/mhd.c).
pkg_check_modules(MICROHTTPD REQUIRED libmicrohttpd>=0.9.75)
# The page as it is sent: an array of its bytes, with an end behind it.
set(page ${CMAKE_CURRENT_SOURCE_DIR}/src/cluster/page/page.html)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page})
file(READ ${page} hex HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/proto/cluster/page/page_text.h
    CONTENT "static const unsigned char gy_page_html[] = {@bytes@0};\n" @ONLY)
