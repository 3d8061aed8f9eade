# lit tests, one ctest test a folder (lit.dsl, lit.compiler, ...): tests/FOLDER holds files whose RUN
# lines lit executes. lit, FileCheck and `not` come with LLVM's tools package.
file(GLOB llvm_bin_dirs "/usr/lib/llvm-*/bin" "/usr/local/opt/llvm/bin")
file(GLOB llvm_lit_dirs "/usr/lib/llvm-*/build/utils/lit")
list(SORT llvm_bin_dirs COMPARE NATURAL ORDER DESCENDING)
list(SORT llvm_lit_dirs COMPARE NATURAL ORDER DESCENDING)
find_program(SLUICE_FILECHECK NAMES FileCheck HINTS ${llvm_bin_dirs})
find_program(SLUICE_NOT NAMES not HINTS ${llvm_bin_dirs})
find_program(SLUICE_LIT NAMES llvm-lit lit lit.py HINTS ${llvm_bin_dirs} ${llvm_lit_dirs})

if(NOT SLUICE_LIT OR NOT SLUICE_FILECHECK OR NOT SLUICE_NOT)
    string(APPEND SLUICE_TESTS_REPORT "no lit (lit, FileCheck or not is missing)")
    return()
endif()
if(NOT TARGET sluice_command)
    string(APPEND SLUICE_TESTS_REPORT "no lit (there is no sluice command)")
    return()
endif()

# lit.py is a script, llvm-lit and lit may be any executable.
set(lit_command "${SLUICE_LIT}")
if(SLUICE_LIT MATCHES "\\.py$")
    set(lit_command "${Python3_EXECUTABLE}" "${SLUICE_LIT}")
endif()
get_filename_component(SLUICE_LLVM_BIN "${SLUICE_FILECHECK}" DIRECTORY)
get_filename_component(SLUICE_NOT_BIN "${SLUICE_NOT}" DIRECTORY)
configure_file(lit.site.cfg.py.in lit.site.cfg.py @ONLY)

set(lit_folders "")
file(GLOB entries CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" "*")
foreach(folder IN LISTS entries)
    if(NOT IS_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/${folder}" OR
       folder MATCHES "^(unit|fuzz|data|suite|Inputs|install|gpu|__pycache__)$")
        continue()
    endif()
    list(APPEND lit_folders ${folder})
    # lit names the folder by its place in the source tree; the site configuration, in the build
    # tree, leads there.
    add_test(NAME lit.${folder}
             COMMAND ${lit_command} -sv -j2 "${CMAKE_CURRENT_BINARY_DIR}/${folder}")
    set_tests_properties(lit.${folder} PROPERTIES LABELS lit PROCESSORS 2 TIMEOUT 900)
    file(MAKE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/${folder}")
endforeach()
list(LENGTH lit_folders count)
string(APPEND SLUICE_TESTS_REPORT "${count} lit folders")
