# Language level, warnings and sanitizers. Code links `sluice_warnings`; generated code need not.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# -std=c11 hides POSIX and BSD names of the C library. The empty value agrees with a plain #define.
add_compile_definitions(_POSIX_C_SOURCE=200809L _DEFAULT_SOURCE=)
add_compile_definitions(SLUICE_VERSION="${PROJECT_VERSION}")
include_directories("${PROJECT_SOURCE_DIR}")

# The bits of a sum must not depend on the compiler's mood.
add_compile_options("$<$<COMPILE_LANGUAGE:C>:-ffp-contract=off>")

get_property(multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT CMAKE_BUILD_TYPE AND NOT multi_config)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O3 -g -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O3 -DNDEBUG")

add_library(sluice_warnings INTERFACE)
target_compile_options(sluice_warnings INTERFACE
    "$<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;-Wshadow;-Wconversion;-Wstrict-prototypes;-Wswitch-enum>")
if(SLUICE_WERROR)
    target_compile_options(sluice_warnings INTERFACE "$<$<COMPILE_LANGUAGE:C>:-Werror>")
endif()

if(SLUICE_SANITIZE)
    set(sanitize_flags -fsanitize=${SLUICE_SANITIZE} -fno-sanitize-recover=all
        -fno-omit-frame-pointer)
    add_compile_options("$<$<COMPILE_LANGUAGE:C>:${sanitize_flags}>")
    add_link_options(-fsanitize=${SLUICE_SANITIZE})
endif()

if(SLUICE_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "SLUICE_FUZZ needs clang: configure with --preset fuzz")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_package(Threads REQUIRED)
