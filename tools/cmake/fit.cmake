# `cmake --build build --target fit_kernels`: the tool of docs/kernels.md; not part of a build.
file(GLOB fit_sources CONFIGURE_DEPENDS tools/fit/*.c)
add_executable(fit_kernels EXCLUDE_FROM_ALL ${fit_sources})
target_include_directories(fit_kernels PRIVATE tools/fit)
target_link_libraries(fit_kernels PRIVATE fivefold)

# `cmake --build build --target fit_profiles`: what the profiles' constants carry (validation/README.md).
file(GLOB profiles_sources CONFIGURE_DEPENDS tools/profiles/*.c)
add_executable(fit_profiles EXCLUDE_FROM_ALL ${profiles_sources})
target_include_directories(fit_profiles PRIVATE tools/profiles)
target_link_libraries(fit_profiles PRIVATE fivefold)
