#pragma once

#include <atomic>
#include <cstddef>

#include <malloc.h>

/// For one source of a benchmark: `allocations` counts what operator new and malloc give out.
/// Glibc's own malloc is there under its other name.
namespace {

std::atomic<std::size_t> allocations = 0;

}  // namespace

extern "C" void* __libc_malloc(std::size_t bytes);  // NOLINT(bugprone-reserved-identifier)
extern "C" void* malloc(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
