# `cmake --build build --target fit_kernels`: the tool of docs/kernels.md; not part of a build.
file(GLOB fit_sources CONFIGURE_DEPENDS tools/fit/*.c)
add_executable(fit_kernels EXCLUDE_FROM_ALL ${fit_sources})
target_include_directories(fit_kernels PRIVATE tools/fit)
target_link_libraries(fit_kernels PRIVATE fivefold)
