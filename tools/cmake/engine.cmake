# The engine's kernels: one source, compiled for each instruction set, chosen when a run starts.
# Only the product fuses multiply and add (src/engine/gemm.h); the row kernels give the same bits on
# every set. The tests compile the engine once more in fp64.
set(row_flags -O3 -fno-math-errno -fno-trapping-math)
set(product_flags -O3 -ffp-contract=fast)
set(avx2_flags "")
set(avx512_flags "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(avx2_flags -mavx2 -mfma)
  set(avx512_flags -mavx512f -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512)
endif()
foreach(set base avx2 avx512)
  set_source_files_properties(src/engine/gemm_${set}.c PROPERTIES COMPILE_OPTIONS
                              "${product_flags};${${set}_flags}")
  set_source_files_properties(src/engine/rows_${set}.c PROPERTIES COMPILE_OPTIONS
                              "${row_flags};${${set}_flags}")
endforeach()

# The engine in fp64, for tests that hold it against finite differences and tight bounds. Its objects
# come first, so the library's fp32 engine is not linked.
if(FF_TESTS)
  file(GLOB engine_sources CONFIGURE_DEPENDS src/engine/*.c src/verify/*.c)
  add_library(engine64 OBJECT ${engine_sources})
  target_compile_definitions(engine64 PUBLIC FF_ENGINE_FP64)
  target_link_libraries(engine64 PUBLIC ff_flags ff_instrument)
endif()
