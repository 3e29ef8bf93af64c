# What Tenon takes from outside. Read twice: by our own CMakeLists.txt, and, installed beside
# tenon-config.cmake, by a project that uses Tenon, so the two can never differ. All targets are
# found here, not in the layers: an imported target is known only in the folder that found it and
# below.
#
#   library             Debian package            who shows or hides it
#   tl::expected        libexpected-dev           base (public)
#   fmt, spdlog         libfmt-dev libspdlog-dev  application logging
#   toml++              libtomlplusplus-dev       base (configuration and definitions)
#   Boost.Asio, Beast   libboost1.81-dev          http
#   Boost.Multiprecision libboost1.81-dev         grammar
#   OpenSSL             libssl-dev                http
#   SQLite              libsqlite3-dev            store
#   libseccomp          libseccomp-dev            rlm (sandbox)
#   prometheus-cpp core prometheus-cpp-dev        metrics
#   ICU                 libicu-dev                regex, vocab (what Unicode says of characters)
#   libllama            built by scripts/setup.sh engine/llama
include(CMakeFindDependencyMacro)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_dependency(Threads)
find_dependency(tl-expected)
find_dependency(fmt)
find_dependency(spdlog)
find_dependency(tomlplusplus)
find_dependency(Boost 1.81)
find_dependency(OpenSSL)
find_dependency(SQLite3)
find_dependency(ICU COMPONENTS uc)
find_dependency(prometheus-cpp)

find_dependency(PkgConfig)
if(NOT TARGET PkgConfig::seccomp)
  pkg_check_modules(seccomp REQUIRED IMPORTED_TARGET GLOBAL libseccomp)
endif()
find_dependency(llama)
